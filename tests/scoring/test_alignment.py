"""Aligning the events of an answer: the calls of the released procedure and no others, or one for all."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamlib.data.gold import Gold
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt
from beamlib.scoring.items import parse_items, without_marks
from beamlib.scoring.judge import ToJudge, judge_answers
from beamlib.scoring.replies import read_matches

GOLD_ORDER = "States the items in the correct chronological order"


class Judge:
    name = "judge"

    async def complete(self, prompt: Prompt) -> Completion:
        assert prompt.id == "judge_nugget"
        return Completion('{"score": 1}')


class Aligner:
    """Says yes to the pairs of texts in `same`, one at a time or in a batch; counts what it is asked."""

    name = "aligner"

    def __init__(self, same):
        self.same, self.prompts = set(same), []

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        if prompt.id == "align_events":
            pair = (prompt.variables["event"], prompt.variables["nugget"])
            return Completion("YES" if pair in self.same else "no")
        assert prompt.id == "align_batch"
        items, nuggets = (
            [re.sub(r"\A\d+\. ", "", line) for line in prompt.variables[name].split("\n")]
            for name in ("items", "nuggets")
        )
        return Completion(
            json.dumps(
                {
                    str(number): [k for k, nugget in enumerate(nuggets, start=1) if (item, nugget) in self.same]
                    for number, item in enumerate(items, start=1)
                }
            )
        )

    @property
    def pairs(self):
        return [(prompt.variables["event"], prompt.variables["nugget"]) for prompt in self.prompts]


def judged(answer, rubric, aligner, alignment="greedy"):
    gold = Gold("100K-1-q04", "100K-1", "event_ordering", tuple(rubric), "reference", (), "easy")
    return judge_answers([ToJudge("Q", answer, None, gold)], Judge(), aligner, alignment=alignment)[0]


def one_after_the_other(texts, rubric, same):
    """The released procedure for one list of texts: its calls, in order, and its matches."""
    calls, matches, unused = [], [], list(range(len(rubric)))
    for text in texts:
        found = None
        for index in unused:
            calls.append((text, rubric[index]))
            if (text, rubric[index]) in same:
                found = index
                break
        if found is not None:
            unused.remove(found)
        matches.append(found)
    return calls, tuple(matches)


EVENTS = ["beans", "fence", "pond", "shed"]
NUGGETS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=5, unique=True)
SAME = st.sets(st.tuples(st.sampled_from(EVENTS), st.sampled_from("abcde")), max_size=14)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(EVENTS), min_size=2, max_size=6, unique=True), NUGGETS, SAME)
def test_greedy_makes_exactly_the_released_calls_for_both_parsers_together(events, rubric, same):
    calls, matches = one_after_the_other(events, rubric, same)
    for answer in ("\n".join(events), "\n".join(f"{n}. **{event}**" for n, event in enumerate(events, start=1))):
        aligner = Aligner(same)
        items, lines = judged(answer, rubric, aligner).alignments
        assert items.items == tuple(events) and items.matches == lines.matches == matches
        assert aligner.pairs == calls


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*EVENTS, "", "---", "# beans"]), min_size=1, max_size=7), NUGGETS, SAME)
def test_greedy_asks_what_either_parser_needs_and_nothing_twice(lines, rubric, same):
    answer = "\n".join(lines)
    items = parse_items(answer)
    asked = [line for line in lines if line not in ("", "---")]
    item_calls, item_matches = one_after_the_other([item for item in items if item != "---"], rubric, same)
    line_calls, line_matches = one_after_the_other(asked, rubric, same)
    aligner = Aligner(same)
    by_items, by_lines = judged(answer, rubric, aligner).alignments
    assert len(aligner.pairs) == len(set(aligner.pairs))
    assert set(aligner.pairs) == set(item_calls) | set(line_calls)
    assert by_lines.items == tuple(lines)
    remaining = iter(line_matches)
    assert by_lines.matches == tuple(None if line in ("", "---") else next(remaining) for line in lines)
    remaining = iter(item_matches)
    assert by_items.matches == tuple(None if item == "---" else next(remaining) for item in items)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*EVENTS, "", "2. pond"]), min_size=1, max_size=7), NUGGETS, SAME)
def test_one_batched_call_gives_what_the_greedy_calls_give(lines, rubric, same):
    answer = "\n".join(lines)
    batched = Aligner(same)
    found = judged(answer, rubric, batched, "batched")
    assert found == judged(answer, rubric, Aligner(same))
    assert len(batched.prompts) == any(lines)


def test_a_batch_lists_each_text_once_and_all_nuggets():
    aligner = Aligner({("beans", "b")})
    items, lines = judged(
        "Here it is:\n\n1. beans\n2) **fence**", ["a", "b", GOLD_ORDER], aligner, "batched"
    ).alignments
    [prompt] = aligner.prompts
    assert prompt.variables == {
        "items": "1. beans\n2. fence\n3. Here it is:",
        "nuggets": f"1. a\n2. b\n3. {GOLD_ORDER}",
    }
    assert prompt.about == "100K-1-q04"
    assert items.matches == (1, None) and lines.matches == (None, None, 1, None)


class Batch:
    """Replies to batches with the given replies, one after the other."""

    name = "batch"

    def __init__(self, *replies):
        self.replies, self.prompts = list(replies), []

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Completion) else Completion(reply)


def test_an_unreadable_batch_is_asked_for_once_more():
    aligner = Batch("sorry", '{"1": 1, "2": null}')
    assert judged("beans\nfence", ["a"], aligner, "batched").alignments[0].matches == (0, None)
    assert aligner.prompts[1].attempt == 1 and "holds no object" in aligner.prompts[1].complaint
    judgement = judged("beans", ["a"], Batch("sorry", "no"), "batched")
    assert judgement.unscored.startswith(
        "an event could not be aligned: unreadable reply: the aligner's reply holds no"
    )
    assert judgement.alignments == () and judgement.verdicts[0].score == 1.0 and not judgement.transient


def test_a_batch_that_was_cut_off_is_not_half_used():
    cut = Completion('{"1": 1, "2": 1', finish_reason="length")
    aligner = Batch(cut, '{"1": null, "2": 1}')
    assert judged("beans\nfence", ["a"], aligner, "batched").alignments[0].matches == (None, 0)
    judgement = judged("beans\nfence", ["a"], Batch(cut, ModelError("503", Outcome.UNAVAILABLE)), "batched")
    assert judgement.transient and judgement.unscored.endswith("endpoint unavailable: 503")


@pytest.mark.parametrize(
    ("reply", "matches"),
    [
        ('{"1": 2, "2": null, "3": 1}', {1: (2,), 3: (1,)}),
        ('```json\n{"1": "2", "2": "null"}\n```', {1: (2,)}),
        ("Here: {1: 2, 2: null,}", {1: (2,)}),
        ('{"1": [2, 1], "2": []}', {1: (2, 1)}),
        ('{"1": 9, "2": 0, "3": -1, "7": 1}', {}),
        ('{"1": true, "2": 2.0, "3": 1.5}', {2: (2,)}),
        ('{"1": 1, "01": 2}', {1: (1,)}),
        ('{"1": 1e400, "2": NaN, "3": {"nugget": 1}}', {}),
    ],
)
def test_batches_are_read_leniently(reply, matches):
    assert read_matches(reply, 3, 2) == (matches, "")


@pytest.mark.parametrize("reply", ["", "none of them", "[1, 2]", "{}", '{"matches": 3}', '{"4": 1}', "{" * 5000])
def test_what_maps_no_item_is_refused(reply):
    matches, reason = read_matches(reply, 3, 2)
    assert matches is None and reason


@pytest.mark.parametrize(
    ("line", "bare"),
    [
        ("1. beans", "beans"),
        ("  - **beans**", "beans"),
        ("**2)** beans,", "beans"),
        ("Step 3: the fence.", "the fence"),
        ("### 4. pond", "pond"),
        ("beans", "beans"),
        ("# Order", ""),
        ("---", ""),
        ("", ""),
        ("First, beans", "First, beans"),
    ],
)
def test_marks_of_a_list_are_no_part_of_an_event(line, bare):
    assert without_marks(line) == bare
