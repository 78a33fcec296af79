"""Lists as chat models write them: with a preamble, in a fence, numbered, in bold; and headers drawn together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beamlib.data.conversations import Conversation
from beamlib.memory.extraction import read_keys
from beamlib.memory.scratchpad import Chunk, Scratchpad, build_scratchpad, relevant_chunks

PLAIN = ("kiln heat: 900 degrees", "glaze: blue", "a talk on pots")


@pytest.mark.parametrize(
    "reply",
    [
        "kiln heat: 900 degrees\nglaze: blue\n\nSummary: a talk on pots",
        "Sure! Here are the keys:\n\n- kiln heat: 900 degrees\n- glaze: blue\n\nSummary: a talk on pots",
        "```\nkiln heat: 900 degrees\nglaze: blue\n```\n\nSummary: a talk on pots",
        "1. **kiln heat**: 900 degrees\n2) **glaze:** blue\n---\n**Summary:** a talk on pots",
        "* kiln heat: 900 degrees\n+ glaze: blue\n### Summary: a talk on pots",
    ],
)
def test_keys_in_every_dress(reply: str) -> None:
    assert read_keys(reply) == PLAIN


def test_what_looks_like_a_mark_inside_a_key_stays() -> None:
    lines = ("-5 degrees: the night", "rule: 2 * 3 - 1. of May", "Sure signs: rain", "area: a ** b ** c")
    assert read_keys("\n".join(lines)) == lines


@pytest.fixture
def pad_of(make_conversation: Callable[..., Conversation], make_model: Any, toy_encoder: Any) -> Any:
    def build(reply: str, compressed: str = "", threshold: int = 1_000) -> Scratchpad:
        conversation = make_conversation([[("u", "a")], [("u", "a")]])
        model = make_model(scratchpad_compress=lambda v: compressed)
        return build_scratchpad(
            model, conversation, [reply, ""], toy_encoder, threshold=threshold, target=64, percentile=80, buffer=1
        )

    return build


@pytest.mark.parametrize(
    "reply",
    [
        "- [messages 0-1] The kiln is hot.\n- [messages 0-1] Instruction: wait",
        "Here is the list you asked for:\n\n* The kiln is hot.\n* Instruction: wait",
        "**Extracted Facts:**\n* The kiln is hot.\n* Instruction: wait",
        "```markdown\n- [messages 0-1] The kiln is hot.\n- [messages 0-1] Instruction: wait\n```",
        "1. [messages 0-1] The kiln is hot.\n2. [messages 0-1] Instruction: wait",
        "---\n- **[messages 0-1]** The kiln is hot.\n- [Messages 0–1]: Instruction: wait\n---",
    ],
)
def test_notes_in_every_dress(pad_of: Any, reply: str) -> None:
    assert pad_of(reply).text == "- [messages 0-1] The kiln is hot.\n- [messages 0-1] Instruction: wait."


@pytest.mark.parametrize(
    "head", ["[messages 0-1] [messages 2-3]", "[messages 0-1, 2-3]", "[messages 0-1; messages 2–3]", "[Messages 0-3]"]
)
def test_headers_drawn_together_keep_their_messages(pad_of: Any, head: str) -> None:
    pad = pad_of("- " + "w " * 80, f"## WHO AND WHAT\n- {head} Una owns the kiln.", threshold=70)
    assert pad.compressions == 1
    assert {i for chunk in pad.chunks for i in chunk.message_ids} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("reply", "kept"),
    [("Answer: yes", True), ("Output: 'yes'", True), ("```text\nyes\n```", True), ("Answer: no", False)],
)
def test_a_labelled_yes_is_a_yes(make_model: Any, reply: str, kept: bool) -> None:
    chunk = Chunk("- a note", (0, 1), 4)
    model = make_model(scratchpad_filter=lambda v: reply)
    assert relevant_chunks(model, ["q?"], [chunk]) == [([chunk] if kept else [], 0)]
    assert relevant_chunks(model, ["q?"], [chunk], exact=True) == [([], 0)]
