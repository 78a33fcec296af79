"""The memory of dependencies: what it asks, what it recalls, and that what was deleted is surfaced nowhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scripted_model import in_turn
from told_sessions import TALKS, conversation_told, make, sessions_told

from beam_memories.evolving.dependencies import MASK
from beamlib.llm.model import ModelError, Outcome

QUESTIONS = (
    "Who is our code reviewer?", "Who gets the weekly report?", "Which package managers have we used?",
    "What is my badge code?", "What is QX-7714-B?", "Who leads the team?", "What about soup?",
)  # fmt: skip


def notes(**lists: list[dict[str, Any]]) -> str:
    return json.dumps({"facts": [], "dependencies": [], "changes": [], "deletions": [], **lists})


def fact(subject: str, value: str, message: int) -> dict[str, Any]:
    return {"subject": subject, "value": value, "message": message}


def dependency(dependent: str, message: int, value: str = "") -> dict[str, Any]:
    return {"dependent": dependent, "source": "team lead", "when": "", "value": value, "message": message}


NOTED = (
    notes(
        facts=[
            fact("team lead", "Ines Okoro", 0),
            fact("package manager", "Tarn", 2),
            fact("badge code", "QX-7714-B", 4),
        ]
    ),
    notes(
        facts=[fact("code reviewer", "Mio Varga", 6), fact("weekly report recipient", "Pell Aske", 8)],
        dependencies=[
            dependency("code reviewer", 6),
            dependency("weekly report recipient", 8),
            dependency("weekly report recipient", 10, "Juno Brandt"),
        ],
    ),
    notes(changes=[fact("package manager", "Sedge", 14)]),
    notes(changes=[fact("team lead", "Abel Quist", 18)], deletions=[fact("badge code", "QX-7714-B", 20)]),
)
"""What a model would note of each session of `TALKS`."""


def noted(talks: Any = TALKS) -> Any:
    memory = make("dependencies", in_turn(*NOTED))
    memory.ingest(conversation_told(talks))
    return memory


def test_the_state_stands_before_the_pairs_and_names_its_messages() -> None:
    found = noted().recall("Who is the weekly report recipient?")
    heading, first, *_ = found.context.splitlines()
    assert heading.endswith(":")
    assert first.startswith(
        "- weekly report recipient: Juno Brandt (since 2023/03/12 (Sun) 12:00, as was said to follow"
    )
    assert first.endswith("[rests on messages 8, 9, 10, 11, 18, 19]")
    assert {8, 9, 10, 11, 18, 19} <= set(found.parts["state"]) and set(found.parts) == {"state", "retrieved"}
    assert found.context.index("- weekly") < found.context.index("[messages 8-9]")


def test_a_dependent_without_a_rule_is_uncertain_and_history_is_kept() -> None:
    memory = noted()
    assert "code reviewer: uncertain since 2023/03/12 (Sun) 12:00: was Mio Varga, but team lead changed" in (
        memory.recall("Who is our code reviewer?").context
    )
    assert "package manager: Sedge (since 2023/03/09 (Thu) 11:00; was Tarn from 2023/03/01 (Wed) 09:00)" in (
        memory.recall("Which package managers have we used?").context
    )


def test_before_the_change_nothing_is_uncertain() -> None:
    context = noted(TALKS[:3]).recall("Who is our code reviewer?").context
    assert "code reviewer: Mio Varga (since" in context and "uncertain" not in context


def test_what_was_deleted_is_surfaced_nowhere() -> None:
    memory = noted()
    shown = [memory.recall(question).context for question in QUESTIONS]
    assert not any("7714" in text for text in [*shown, *memory.snapshot().values()])
    asked = memory.recall("What is my badge code?").context
    assert "badge code: removed at the user's request" in asked and MASK in asked
    assert "7714" in noted(TALKS[:3]).recall("What is my badge code?").context


@pytest.mark.parametrize(
    ("deletion", "gone", "left"),
    [
        ({"subject": "badge code", "value": "qx-7714-b"}, "QX-7714-B", "My badge code is"),
        ({"subject": "badge code", "value": ""}, "QX-7714-B", "Ines Okoro"),
        ({"subject": "that secret", "value": "QX-7714-B"}, "QX-7714-B", "My badge code is"),
    ],
)
def test_values_are_masked_by_what_is_known_or_with_the_sentence(
    deletion: dict[str, str], gone: str, left: str
) -> None:
    memory = make("dependencies", in_turn(notes(), notes(deletions=[deletion])))
    for session in (sessions_told()[0], sessions_told()[3]):
        memory.read_session(session)
    memory.finalise()
    text = memory.snapshot()["pairs.md"] + memory.recall("badge code").context
    assert gone not in text and left in text and MASK in text


def test_a_short_value_is_masked_only_where_its_subject_is_named() -> None:
    talks = (("1 May", "My locker is 12.", "The train left at 12 sharp."), ("2 May", "Forget my locker."))
    memory = make(
        "dependencies",
        in_turn(
            notes(facts=[{"subject": "locker", "value": "12", "message": 0}]),
            notes(deletions=[{"subject": "locker", "value": "", "message": 4}]),
        ),
    )
    memory.ingest(conversation_told(talks))
    assert f"My locker is {MASK}." in memory.snapshot()["pairs.md"]
    assert "at 12 sharp" in memory.snapshot()["pairs.md"]


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=6, max_size=40))
def test_no_value_that_was_told_and_deleted_comes_back(value: str) -> None:
    value = " ".join(value.split())
    assume(
        len(value) >= 6
        and any(map(str.isalnum, value))
        and value.lower() not in f"{MASK} my locker is noted, thank you."
    )
    talks = (("", f"My locker is {value} .", f"As I said, {value.upper()} ."), ("", f"Forget it: {value} !"))
    facts = [
        {"subject": "locker", "value": value, "message": 0},
        {"subject": "note", "value": f"see {value} ", "message": 2},
    ]
    memory = make(
        "dependencies", in_turn(notes(facts=facts), notes(deletions=[{"subject": "my locker", "message": 4}]))
    )
    memory.ingest(conversation_told(talks))
    shown = "\n".join([*memory.snapshot().values(), memory.recall("What is my locker? See the note.").context])
    assert value not in shown and MASK in shown and "locker: removed" in shown


def test_known_subjects_are_shown_to_the_next_call() -> None:
    model = in_turn(notes(facts=[{"subject": "badge code", "value": "QX-7714-B", "message": 4}]), notes())
    memory = make("dependencies", model)
    for session in sessions_told()[:2]:
        memory.read_session(session)
    assert [prompt.variables["known"] for prompt in model.asked] == ["", "badge code: QX-7714-B"]
    assert [prompt.id for prompt in model.asked] == ["dependency_notes"] * 2


def test_a_reply_that_is_no_json_is_asked_for_again_and_then_a_gap() -> None:
    model = in_turn("I noted it all.", notes(facts=[{"subject": "boat", "value": "Gull", "message": 99}]))
    memory = make("dependencies", model)
    memory.read_session(sessions_told()[0])
    assert model.asked[1].complaint and "boat: Gull" in memory.snapshot()["state.md"]
    assert memory.recall("Which boat?").gaps == 0
    memory = make("dependencies", in_turn("no", "no", notes()))
    memory.read_session(sessions_told()[0])
    assert memory.recall("Who leads the team?").gaps == 1


def test_too_many_gaps_end_the_reading() -> None:
    memory = make("dependencies", in_turn("no"))
    memory.read_session(sessions_told()[0])
    with pytest.raises(ModelError, match="no JSON object") as raised:
        memory.read_session(sessions_told()[1])
    assert raised.value.outcome is Outcome.UNREADABLE


def test_a_note_on_an_unknown_message_rests_on_its_whole_part() -> None:
    memory = make("dependencies", in_turn(notes(facts=[{"subject": "boat", "value": "Gull", "message": "x"}])))
    memory.read_session(sessions_told()[0])
    assert memory.recall("Which boat?").parts["state"] == (0, 1, 2, 3, 4, 5)


def test_a_sentence_without_a_known_value_goes_whole_though_a_title_stands_in_it() -> None:
    asked = notes(deletions=[{"subject": "dentist", "value": "", "message": 2}])
    told = (("a day", ("My dentist is Dr. Amsel on Elm Road. I like tea.",)), ("later", ("Forget my dentist.",)))
    memory = make("dependencies", in_turn(notes(), asked))
    memory.ingest(conversation_told(told))
    kept = memory.snapshot()["pairs.md"]
    assert "Amsel" not in kept and "I like tea." in kept
