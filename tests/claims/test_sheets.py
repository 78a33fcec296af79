"""The sheet of a question: gold, cited messages whole, and where its names, numbers and dates stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_claims.sheets import SheetQuestion, load_sheet_question, render_question, search_terms
from beamlib.data.conversations import Message
from beamlib.errors import UserError

ITEM = SheetQuestion(
    item="100K-1-q10",
    conversation="100K-1",
    ability="knowledge_update",
    question="How many cards did Laura count on May 5?",
    rubric=("LLM response should state: 5 cards",),
    reference="5 cards",
    evidence=(2, 99),
)
MESSAGES = [
    Message(0, "user", "I had 15 cards, or 2.5 boxes."),
    Message(1, "assistant", "5 cards for Laura?"),
    Message(2, "user", "Laura counted 5 cards on May 5.\n\nAll of them."),
]


def test_terms_are_names_numbers_and_dates() -> None:
    assert search_terms(["How many cards did Laura count on May 5?", "5 cards", "Greg Baker has $3,500"]) == [
        *("May 5", "Laura", "5", "$3,500", "Baker"),  # a text may begin with any word, so its first is no name
    ]


def test_a_sheet_has_what_a_reader_needs() -> None:
    page = render_question(ITEM, MESSAGES, ["boxes", "nowhere"])
    assert "- LLM response should state: 5 cards" in page and "Cited: 2, 99" in page
    assert "## Message 2, user\n\nLaura counted 5 cards on May 5.\n\nAll of them." in page
    assert "- boxes: \n  - 0: … I had 15 cards, or 2.5 boxes. …" in page and "- nowhere: in no message" in page
    assert "- 5: \n  - 2: " in page  # neither 15 nor 2.5, nor the assistant's
    assert "[0] I had 15 cards" not in page and "[0] I had 15 cards" in render_question(ITEM, MESSAGES, user_side=True)


def test_a_released_question_and_one_that_is_not_there(beam_data: Path) -> None:
    item, messages = load_sheet_question(beam_data, "100K-3-q12")
    assert item.item == "100K-3-q12" and set(item.evidence) <= {message.id for message in messages}
    with pytest.raises(UserError, match="100K-3 has no question 100K-3-q99; it has 100K-3-q00, "):
        load_sheet_question(beam_data, "100K-3-q99")
    with pytest.raises(UserError, match="there is no conversation '100K-99'"):
        load_sheet_question(beam_data, "100K-99-q00")
