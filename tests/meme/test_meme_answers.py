"""The stand-in's reader over contexts of dated sessions, pairs, notes and states, in plain English of several kinds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_offline.answer_wording import MISSING
from beam_offline.dated_context import read_pieces
from beam_offline.meme_answers import meme_answer

SESSIONS = """[2023/03/09 (Thu) 18:20]
ASSISTANT: Hello.
USER: We've switched: the CI runner is Torvex now. Any tips?
ASSISTANT: Your CI runner is Blorb, is it?
USER: Please forget my locker code 4471.

[2023/03/02 (Thu) 10:00]
USER: The CI runner is Halden. It may sound odd.
ASSISTANT: Noted.
USER: My locker code is 4471. My dentist is Dr. Quill, because of where I live; if I move, it will be Dr. Amberg.
ASSISTANT: Noted.
USER: When our office moves, our canteen will be the Blue Spoon.
"""

PAIRS = """[messages 40-41]
USER: [2023/04/05 (Wed) 08:00] My gym is Ironleaf.
ASSISTANT: Fine.

[messages 4-5]
USER: [2023/03/05 (Sun) 08:00]
My gym is Peak Nine.
ASSISTANT: Fine.

[messages 8-9]
USER: [2023/03/07 (Tue) 08:00] Keep this poem word for word:
Grey owl, slow moon
  the 2023-01-01 tide
ASSISTANT: Kept.
"""

STATES = """What holds by now:
- weekly report recipient: Ines Vogel (since 2023/03/04 (Wed) 09:00, as was said to follow when team lead changes; was \
Olof Brandt from 2023/03/01 (Wed) 09:00) [rests on messages 2, 3]
- code reviewer: uncertain since 2023/03/04 (Wed) 09:00: was Mina Falk, but team lead changed [rests on messages 4, 5]
- log drain: removed at the user's request on 2023/03/04 (Wed) 09:00 [rests on messages 6, 7]
- package manager: Synth (since 2023/03/04 (Wed) 09:00; was Karn from 2023/03/01 (Wed) 09:00, then Dran from \
2023/03/02 (Wed) 09:00) [rests on messages 8, 9]

[messages 2-3]
USER: [2023/03/01 (Wed) 09:00] The weekly report recipient is Olof Brandt. The code reviewer is Mina Falk.
ASSISTANT: Noted.
"""


def answer(context: str, question: str) -> str:
    return meme_answer({"context": context, "question": question})


@pytest.mark.parametrize(
    ("context", "question", "holds", "lacks"),
    [
        (SESSIONS, "What is our CI runner?", ["Torvex"], ["Halden", "Blorb", "tips"]),
        (SESSIONS, "Who is my dentist?", ["Quill"], ["Amberg"]),
        (SESSIONS, "What is my locker code?", [MISSING], ["4471"]),
        (SESSIONS, "What is our canteen?", [MISSING], ["Blue Spoon"]),
        (SESSIONS, "What is my shoe size?", [MISSING], []),
        (SESSIONS, "Tell me everything you know about my dentist and the CI runner.", ["Quill", "Torvex"], ["4471"]),
        (PAIRS, "Which gym do I go to?", ["Ironleaf"], ["Peak Nine"]),
        (PAIRS, "Recite my poem word for word.", ["Grey owl, slow moon\n  the 2023-01-01 tide"], ["gym", "Kept"]),
        (STATES, "Who is the weekly report recipient?", ["Ines Vogel"], ["Olof", "will"]),
        (STATES, "Who is our code reviewer?", ["not sure", "team lead changed"], []),
        (STATES, "What is the log drain?", [MISSING], []),
        ("", "What is our CI runner?", [MISSING], []),
        ("- 2023-03-01: The pet is Mo.\n- 2023-03-09: The pet is Zu.", "What is the pet?", ["Zu"], ["Mo"]),
        ("- [2023-03-09] The pet is Zu. (before: [2023-03-01] The pet is Mo.)", "What is the pet?", ["Zu"], ["Mo"]),
        ("- 2023-03-01: As a pet I rely on Mo. It relies on luck.", "What is the pet?", ["Mo"], ["luck"]),
        ("pets.md\n# pet\n\n---\n- shoes: red", "What is the pet?", [MISSING], []),
        (
            '- 2023-03-01: motto: "Never row\nbackwards, twice"',
            "Quote my motto.",
            ["Never row\nbackwards, twice"],
            ['"'],
        ),
    ],
)
def test_answers(context: str, question: str, holds: list[str], lacks: list[str]) -> None:
    said = answer(context, question)
    assert [text for text in holds if text not in said] == [], said
    assert [text for text in lacks if text in said] == [], said


@pytest.mark.parametrize(
    ("context", "question", "values"),
    [
        (SESSIONS, "List every CI runner we have had over time.", ["Halden", "Torvex"]),
        (PAIRS, "Which gyms did I go to so far, in chronological order?", ["Peak Nine", "Ironleaf"]),
        (
            STATES,
            "What is the history of our package manager, from the first to the latest?",
            ["Karn", "Dran", "Synth"],
        ),
        (
            "- 2023-03-09: The pet is Zu. (before: 2023-03-05: The pet is Li. (before: 2023-03-01: The pet is Mo.))",
            "List my pets over time.",
            ["Mo", "Li", "Zu"],
        ),
    ],
)
def test_all_values_come_in_the_order_of_time(context: str, question: str, values: list[str]) -> None:
    said = answer(context, question)
    places = [said.find(value) for value in values]
    assert -1 not in places
    assert places == sorted(places), said


def test_states_are_read_with_what_was_before() -> None:
    states = [piece.state for piece in read_pieces(STATES) if piece.state]
    first, second, third, fourth = "2023/03/01 09:00", "2023/03/02 09:00", "", "2023/03/04 09:00"
    assert [(one.subject, one.value, one.values) for one in states] == [
        ("weekly report recipient", "Ines Vogel", ((first, "Olof Brandt"), (fourth, "Ines Vogel"))),
        ("code reviewer", "", ((third, "Mina Falk"),)),
        ("log drain", "", ()),
        ("package manager", "Synth", ((first, "Karn"), (second, "Dran"), (fourth, "Synth"))),
    ]


@given(st.text(max_size=300), st.text(max_size=80))
def test_any_context_and_question_have_an_answer(context: str, question: str) -> None:
    assert answer(context, question)


@given(
    st.lists(st.sampled_from(SESSIONS.splitlines() + STATES.splitlines() + ["", "(", '"', "```", "    x"]), max_size=25)
)
def test_any_mixture_of_lines_has_an_answer_and_the_same_one_again(lines: list[str]) -> None:
    for question in ("What is our CI runner?", "List the CI runners over time.", "Recite the code.", "All you know?"):
        assert answer("\n".join(lines), question) == answer("\n".join(lines), question)
