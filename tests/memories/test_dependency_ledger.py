"""States of subjects: changes, what follows from them, what becomes uncertain, and what is forgotten."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_memories.evolving.dependencies import Note, apply_note, read_notes
from beam_memories.evolving.dependency_ledger import Ledger, name_stems, same_subject, same_value, state_line

ID = (0, 1)
FOLLOWS = "as was said to follow when"


def lines(ledger: Ledger) -> dict[str, str]:
    return {one.name: state_line(one).partition(": ")[2] for one in ledger.subjects if one.states}


def crew() -> Ledger:
    """A harbour: who leads it, and what hangs on that, over two hops."""
    ledger = Ledger()
    ledger.tell("harbour master", "Ines", "1 May", (0, 1))
    ledger.tell("pilot boat", "Gull", "2 May", (2, 3))
    ledger.tell("berth plan", "east side", "2 May", (4, 5))
    ledger.tell("fuel dock", "pier 3", "2 May", (6, 7))
    ledger.depend("pilot boat", "the harbour master", "", "", (2, 3))
    ledger.depend("berth plan", "harbour master", "", "west side", (4, 5))
    ledger.depend("fuel dock", "berth plan", "", "pier 9", (6, 7))
    return ledger


def test_a_change_is_passed_on_as_told_and_as_doubt_and_over_two_hops() -> None:
    ledger = crew()
    ledger.tell("Harbour Master", "Abel", "9 May", (10, 11), changed=True)
    assert lines(ledger) == {
        "harbour master": "Abel (since 9 May; was Ines from 1 May)",
        "pilot boat": "uncertain since 9 May: was Gull, but harbour master changed",
        "berth plan": f"west side (since 9 May, {FOLLOWS} harbour master changes; was east side from 2 May)",
        "fuel dock": f"pier 9 (since 9 May, {FOLLOWS} berth plan changes; was pier 3 from 2 May)",
    }
    found = ledger.find("fuel dock")
    assert found is not None and found.now is not None and found.now.ids == (6, 7, 4, 5, 10, 11)


def test_a_fact_with_another_value_is_a_change_and_one_with_the_same_is_none() -> None:
    ledger = crew()
    ledger.tell("harbour master", "ines", "3 May", (8, 9))
    ledger.tell("harbour master", "our own Ines", "3 May", (8, 9))
    assert len(lines(ledger)) == 4 and "uncertain" not in str(lines(ledger))
    ledger.tell("harbour master", "Abel", "9 May", (10, 11))
    assert lines(ledger)["pilot boat"].startswith("uncertain")


def test_a_change_of_what_was_never_told_counts_if_it_is_told_as_one() -> None:
    for changed in (True, False):
        ledger = Ledger()
        ledger.tell("boat", "Gull", "1 May", ID)
        ledger.depend("boat", "club", "", "", ID)
        ledger.tell("club", "Regatta", "2 May", ID, changed=changed)
        assert lines(ledger)["boat"].startswith("uncertain") is changed


def test_a_dependency_that_is_told_after_the_change_does_not_look_back() -> None:
    ledger = Ledger()
    ledger.tell("club", "Regatta", "1 May", ID)
    ledger.tell("club", "Northern", "2 May", ID)
    ledger.tell("boat", "Gull", "3 May", ID)
    ledger.depend("boat", "club", "", "Tern", ID)
    assert lines(ledger)["boat"] == "Gull (since 3 May)"


def test_what_is_told_anew_ends_the_doubt_and_brings_no_more() -> None:
    ledger = crew()
    ledger.depend("crew list", "pilot boat", "", "", ID)
    ledger.tell("crew list", "five", "2 May", ID)
    ledger.tell("harbour master", "Abel", "9 May", ID)
    ledger.tell("crew list", "six", "10 May", ID)
    ledger.tell("pilot boat", "Gull", "11 May", ID)
    assert lines(ledger)["pilot boat"] == "Gull (since 11 May; was Gull from 2 May)"
    assert lines(ledger)["crew list"].startswith("six (since 10 May")


def test_a_rule_holds_for_the_value_it_names_and_for_one_change() -> None:
    ledger = Ledger()
    ledger.tell("club", "Regatta", "1 May", ID)
    ledger.tell("boat", "Gull", "1 May", ID)
    ledger.depend("boat", "club", "Northern", "Tern", ID)
    ledger.tell("club", "Southern", "2 May", ID)
    assert lines(ledger)["boat"].startswith("uncertain since 2 May: was Gull")
    ledger.tell("club", "Northern", "3 May", ID)
    assert lines(ledger)["boat"].startswith("Tern (since 3 May")
    ledger = crew()
    ledger.tell("harbour master", "Abel", "9 May", ID)
    ledger.tell("harbour master", "Una", "10 May", ID)
    assert lines(ledger)["berth plan"].startswith("uncertain since 10 May: was west side, but harbour master changed")


def test_circles_end() -> None:
    ledger = Ledger()
    for one, other in (("a ship", "b sail"), ("b sail", "c mast"), ("c mast", "a ship")):
        ledger.tell(one, "old", "1 May", ID)
        ledger.depend(one, other, "", "", ID)
    ledger.depend("a ship", "a ship", "", "", ID)
    ledger.tell("a ship", "new", "2 May", ID)
    assert lines(ledger)["a ship"] == "new (since 2 May; was old from 1 May)"
    assert lines(ledger)["b sail"].startswith("uncertain") and lines(ledger)["c mast"].startswith("uncertain")


def test_all_values_of_a_subject_are_kept_in_order() -> None:
    ledger = Ledger()
    for day, value in enumerate(("oak", "ash", "elm"), 1):
        ledger.tell("favourite wood", value, f"{day} May", ID)
    assert lines(ledger)["favourite wood"] == "elm (since 3 May; was oak from 1 May, then ash from 2 May)"


def test_what_is_forgotten_is_gone_with_its_history_and_takes_part_no_more() -> None:
    ledger = crew()
    assert ledger.forget("the pilot boat", "Gull II", "5 May", (8, 9)) == ("pilot boat", ["Gull", "Gull II"])
    assert lines(ledger)["pilot boat"] == "removed at the user's request on 5 May"
    ledger.tell("harbour master", "Abel", "9 May", ID)
    assert lines(ledger)["pilot boat"] == "removed at the user's request on 5 May"
    ledger.tell("pilot boat", "Tern", "10 May", ID)
    assert lines(ledger)["pilot boat"] == "Tern (since 10 May)"


def test_a_subject_may_be_forgotten_by_its_value_and_one_unknown_by_its_name() -> None:
    ledger = crew()
    assert ledger.forget("that vessel", "gull", "5 May", ID) == ("pilot boat", ["Gull", "gull"])
    assert ledger.forget("gate code", "", "5 May", ID) == ("gate code", [])
    assert ledger.forget("", "", "5 May", ID) == ("", [])


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("team lead", "our Team-Lead", True),
        ("team lead", "lead", True),
        ("recipient of the weekly report", "weekly report recipient", True),
        ("project mascot on the stickers", "project mascot", True),
        ("meeting on Monday", "meeting on Friday", False),
        ("commute method", "commute duration", False),
        ("team lead", "tech lead", False),
        ("weekly report", "weekly report recipient", False),
        ("", "team lead", False),
    ],
)
def test_which_names_mean_one_subject(one: str, other: str, alike: bool) -> None:
    assert bool(same_subject(name_stems(one), name_stems(other))) is alike
    assert same_subject(name_stems(one), name_stems(other)) == same_subject(name_stems(other), name_stems(one))


def test_a_name_that_fits_several_subjects_means_none_of_them() -> None:
    ledger = Ledger()
    ledger.tell("team lead", "Ines", "1 May", ID)
    assert ledger.find("lead") is not None
    ledger.tell("design lead", "Abel", "1 May", ID)
    assert ledger.find("lead") is None and ledger.find("the of") is None


@pytest.mark.parametrize(
    ("one", "other", "same"), [("Gull", "gull!", True), ("Gull", "the Gull II", True), ("Gull", "Gulls", False)]
)
def test_which_values_are_the_same(one: str, other: str, same: bool) -> None:
    assert same_value(one, other) is same


def test_what_a_question_is_about_comes_first_then_what_it_hangs_on() -> None:
    ledger = crew()
    ledger.tell("gate code", "1234", "2 May", (12, 13))
    names = [one.name for one in ledger.asked_about("Which berth plan do we follow?", [12], 9)]
    assert names == ["berth plan", "harbour master", "gate code"]
    assert [one.name for one in ledger.asked_about("Is it still Gull?", [], 9)] == ["pilot boat", "harbour master"]
    assert ledger.asked_about("What about soup?", [], 9) == []
    assert len(ledger.asked_about("Which berth plan do we follow?", [12], 2)) == 2


# Notes


def test_notes_are_read_in_the_order_told() -> None:
    reply = {
        "facts": [
            {"subject": "boat", "value": "Gull\nII", "message": 6},
            {"subject": "dock", "value": 3, "message": "2"},
        ],
        "changes": [{"subject": "club", "value": "Northern", "message": 6}],
        "dependencies": [{"dependent": "boat", "source": "club", "when": "", "value": None, "message": 6}],
        "deletions": [{"subject": "gate code", "value": "1234", "message": None}],
    }
    found = read_notes(f"Here:\n```json\n{json.dumps(reply)}\n```")
    assert found == [
        Note("deletion", "gate code", "1234", "", "", -1),
        Note("fact", "dock", "3", "", "", 2),
        Note("change", "club", "Northern", "", "", 6),
        Note("fact", "boat", "Gull\nII", "", "", 6),
        Note("dependency", "boat", "", "club", "", 6),
    ]


@pytest.mark.parametrize("reply", ["", "none", "7", "[[]", "x" * 2_000_000])
def test_a_reply_without_an_object_has_no_notes(reply: str) -> None:
    assert not read_notes(reply)


@pytest.mark.parametrize(
    "entry",
    [None, 3, "boat", [], {}, {"subject": ""}, {"subject": ["boat"]}, {"subject": "x" * 200}, {"subject": True}],
)
def test_entries_that_name_nothing_are_left_out(entry: Any) -> None:
    assert (
        read_notes(json.dumps({"facts": [entry], "changes": {"a": 1}, "dependencies": [{"dependent": "boat"}]})) == []
    )


def test_notes_are_bounded() -> None:
    many = [{"subject": f"boat {n}", "value": "x" * 30_000, "message": 10**12} for n in range(500)]
    found = read_notes(json.dumps({"facts": many[:20]})) or []
    assert {len(note.value) for note in found} == {20_000} and {note.message for note in found} == {-1}
    assert len(read_notes(json.dumps({"facts": [{"subject": "boat"}] * 900})) or []) == 400


_NAMES = st.sampled_from(["boat", "club", "the club", "pilot boat", "x", "", "of the", "crew list"])
_VALUES = st.sampled_from(["", "Gull", "Tern", "old", "new\nline", "?"])


@given(
    st.lists(
        st.builds(
            Note, st.sampled_from(["change", "fact", "dependency", "deletion"]), _NAMES, _VALUES, _NAMES, _VALUES,
            st.integers(-1, 9),
        ),
        max_size=30,
    )
)  # fmt: skip
def test_any_notes_can_be_entered_and_a_forgotten_value_is_not_shown(notes: list[Note]) -> None:
    ledger = Ledger()
    for note in notes:
        removed = apply_note(ledger, note, "1 May", ID)
        for subject in ledger.subjects:
            if subject.now is not None and subject.now.kind == "deleted":
                assert subject.value == "" and len(subject.states) == 1
            if removed and subject.name == removed[0]:
                assert not subject.value
            assert state_line(subject) or not subject.states


@given(st.text(max_size=300))
def test_any_reply_can_be_read(reply: str) -> None:
    read_notes(reply)
