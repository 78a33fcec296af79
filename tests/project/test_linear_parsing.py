"""Whatever a model writes, reading it takes no longer than its length allows."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from beam_generate.plan_text import read_batches, read_narratives
from beam_generate.replies import reply_json, reply_questions, tidy_message
from beamlib.memory.extraction import lines_of
from beamlib.scoring.protocols import released_reply
from beamlib.scoring.replies import read_matches, read_score

READERS: dict[str, Callable[[str], object]] = {
    "judge": read_score,
    "aligner": lambda reply: read_matches(reply, 5, 5),
    "released scorer": released_reply,
    "list": lambda reply: reply_json(reply, list),
    "object": lambda reply: reply_json(reply, dict),
    "questions": lambda reply: reply_questions(reply, "general"),
    "long questions": lambda reply: reply_questions(reply, "coding"),
    "message": lambda reply: tidy_message(reply, quoted=True),
    "plan": read_batches,
    "narratives": read_narratives,
    "lines": lines_of,
}
ATOMS = (
    "{", "[", '{"', '["', '"', '\\"', "{ ", '{"a":', '{"a":[', "[{", '{"a":1,', '{"score": 1, ', '"score": 1,\n', "{}",
    "```", "```[", "```{", "#", "[#", "\n", " ", " ->", ":", "a",
)  # fmt: skip
HEADS = ("", " ->-> ", "sure", '{"score": ', "here are the notes:")


@pytest.mark.quick("judge", "list")
@pytest.mark.parametrize("reader", READERS)
def test_replies_of_200_000_characters_without_sense(reader: str) -> None:
    for atom in ATOMS:
        for head in HEADS:
            reply = head + atom * (200_000 // len(atom)) + "x"
            began = time.process_time()
            try:
                READERS[reader](reply)
            except (ValueError, RecursionError):
                assert reader == "released scorer"  # which stops, as the released code does
            assert time.process_time() - began < 2, (head, atom)  # quadratic time would be minutes


@pytest.mark.parametrize("reply", ['{"reason": "' + "x" * 8_000_000 + "{" * 500, ('{"' + "y" * 15_000) * 500])
def test_braces_late_in_a_long_reply_are_not_each_looked_for_through_all_of_it(reply: str) -> None:
    began = time.process_time()
    assert read_score(reply)[0] is None
    assert time.process_time() - began < 1.5  # 0.3 here, where it was 9.5 and 3.0


def test_a_judge_that_writes_braces_is_refused_at_once() -> None:
    began = time.process_time()
    assert read_score("{" * 200_000)[0] is None
    assert time.process_time() - began < 0.1
