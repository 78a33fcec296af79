"""What the index that is tuned on BEAM knows about its questions."""

from __future__ import annotations

import pytest

from beam_memories.hybrid_beam import WEIGHTS, TunedIndex
from beam_memories.query_intent import (
    instruction_topics,
    is_denial,
    is_instruction,
    is_preference,
    read_question,
)
from beamlib.retrieval import Document, embedded_encoder

CHATTER = [
    [f"I am painting the {place} this week, which colour goes with oak?"] for place in ("hall", "attic", "porch")
]
FILLER = [[f"Can you explain how to prune the {plant}?"] for plant in ("roses", "apple tree", "hedge", "vine", "figs")]


def tuned(keys: list[list[str]]) -> TunedIndex:
    return TunedIndex([Document(texts, texts) for texts in keys], embedded_encoder())


@pytest.mark.parametrize(
    "question, expected",
    [
        ("Have I ever rented a kiln?", "whether"),
        ("How should I glaze the next bowl?", "request"),
        ("How many bowls did I fire in May?", "figure"),
        ("What colour did I say the glaze had?", ""),
        ("Can you list the order in which I brought up the glazes? Mention ONLY and ONLY five items.", ""),
    ],
)
def test_questions_are_sorted_by_wording(question: str, expected: str) -> None:
    wish = read_question(question)
    assert [name for name in ("whether", "request", "figure") if getattr(wish, name)] == (
        [expected] if expected else []
    )


def test_framing_is_taken_off_the_topic() -> None:
    asked = (
        "Can you list the order in which I raised my glazes across our conversations? Mention ONLY and ONLY two items."
    )
    assert read_question(asked).topic == "list the order in which I raised my glazes ? ."


def test_statements_are_told_apart() -> None:
    rule = "instruction: Always give prices in pesos when I ask about groceries."
    assert is_instruction(rule) and instruction_topics(rule) == [rule, "groceries."]
    assert is_preference("I prefer trains to planes") and not is_preference(rule)
    assert is_denial("I've never flown") and not is_denial("Never use jargon")


def test_a_request_gets_the_instruction_and_the_preference_that_suit_it() -> None:
    keys = [[f"Which paint would suit my bedroom walls, number {number}?"] for number in range(8)]
    keys += [["Always name the brand when I ask about decorating walls."], ["Always cite a law when I ask about rent."]]
    keys += [["I prefer matt finishes on plaster, can you help me order some?"], ["I prefer tea over coffee."]]
    index = tuned(keys)
    assert [hit.owner for hit in index.search("Which paint would suit my bedroom walls?", 5)][2:4] == [8, 10]
    told = [hit.owner for hit in index.search("Which paint did I say would suit my bedroom walls?", 5)]
    assert not {8, 9, 10, 11} & set(told)


def test_a_question_whether_gets_the_denial() -> None:
    keys = [*FILLER, *([f"I fired the kiln, the old kiln I own, for the {time} time."] for time in ("first", "third"))]
    keys += [*CHATTER, ["For the exhibition in spring I need glazes; I have never had a kiln, nor space, nor time."]]
    found = [hit.owner for hit in tuned(keys).search("Have I ever owned and fired a kiln?", 2)]
    assert found[1] == 10 and found[0] in (5, 6)


def test_every_signal_has_a_weight_and_one_score_per_owner() -> None:
    signals = tuned([*CHATTER, *FILLER]).signals("How many roses did I prune?")
    assert sorted(signals) == sorted(WEIGHTS)
    assert {len(scores) for scores in signals.values()} == {8}
    assert signals["words"].argmax() == 3
