"""The stand-in's sums: amounts from several messages added, subtracted and compared, or the lack of one named."""

from __future__ import annotations

import pytest

from beam_offline.judge import judge
from beam_offline.reader import answer

SAID = (
    "The deposit for the barn is $120.",
    "I pay a fee of $45.50 for the Reed and Sons course.",
    "My new loom costs $300.",
    "The pottery course runs for 6 weeks.",
    "The weaving course runs for 10 weeks.",
    "My drive to the barn takes 45 minutes.",
    "My walk to the market takes 2 hours.",
)


def ask(question: str, said: tuple[str, ...] = SAID) -> str:
    pairs = [f"[messages {2 * n}-{2 * n + 1}]\nUSER: {text}\nASSISTANT: Fine." for n, text in enumerate(said)]
    return answer({"question": question, "context": "\n\n".join(pairs)})


@pytest.mark.parametrize(
    ("question", "lead"),
    [
        (
            "What do the deposit for the barn, the fee for the Reed and Sons course and the price of the loom come to"
            " when you add them up?",
            "$465.50 in all",
        ),
        ("By how much do the length of the pottery course and the length of the weaving course differ?", "4 weeks:"),
        ("How much longer is the weaving course than the pottery course?", "4 weeks:"),
        ("How much do the drive to the barn and the walk to the market add up to?", "165 minutes in all"),
        ("Between my pottery course and my weaving course, which one is shorter?", "your pottery course:"),
    ],
)
def test_the_result_leads(question: str, lead: str) -> None:
    assert ask(question).startswith(lead)


def test_what_is_missing_is_named_and_nothing_is_guessed() -> None:
    reply = ask("By how much do the deposit for the barn and the price of the kiln differ?")
    assert "no information in the chat about the price of the kiln" in reply
    assert "the deposit for the barn is $120" in reply


def test_naming_what_a_preference_turns_down_does_not_suggest_it() -> None:
    nugget = "LLM response should contain: does not suggest loud parties"
    assert judge("How do I celebrate?", nugget, "You said you prefer quiet dinners to loud parties.").score == 1
    assert judge("How do I celebrate?", nugget, "Try one of the loud parties in town.").score == 0


def test_a_reason_with_a_negation_does_not_negate_what_it_is_a_reason_for() -> None:
    nugget = "LLM response should contain: suggests quiet family dinners"
    reply = "You prefer quiet family dinners because you do not want to be watched."
    assert judge("How do I celebrate?", nugget, reply).score > 0
