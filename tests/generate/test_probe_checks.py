"""Every automatic check of probing questions: what passes, what fails, and by which name it is dropped."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from beam_generate.probes.checks import CHECKS, examine, examine_all
from beam_generate.probes.drafts import Ref, View
from beam_generate.probes.wording import names, quotations, spans
from beam_generate.read_facts import Day
from beam_generate.shapes import DialogueMessage
from beamlib.data.conversations import ABILITIES
from scripted_probes import draft, turns, view

ORDER = "event_ordering"
UPDATE = "knowledge_update"
TOPIC = {"about": "the flowers"}
LONG = {"about": "x", "rubric": ("a cooled van for fresh flowers",)}
CONFLICT = "contradiction_resolution"
FAILING: list[tuple[str, str, dict[str, Any]]] = [
    ("evidence_exists", "summarization", {"evidence": {"": ()}}),
    ("evidence_exists", "summarization", {"evidence": {"": (10, 99)}}),
    ("evidence_exists", "temporal_reasoning", {"evidence": {"first_event": (0,), "second_event": ()}}),
    ("evidence_exists", "abstention", {"evidence": {"": (4,)}}),
    ("evidence_of_its_bullets", "information_extraction", {"evidence": {"": (0, 2)}}),
    ("evidence_roles", "preference_following", {"evidence": {"": (7,)}}),
    ("evidence_roles", ORDER, {"evidence": {"": (10, 19, 20)}}),
    ("rubric_form", "information_extraction", {"rubric": ("LLM response should state: ",)}),
    ("rubric_form", "information_extraction", {"rubric": ("a", "a")}),
    ("rubric_form", "abstention", {"rubric": ("Nothing is known.",)}),
    ("rubric_form", "contradiction_resolution", {"rubric": ("one", "two", "three", "four")}),
    ("question_leaks", "information_extraction", {"question": "Did I pay 340 euros?"}),
    ("question_leaks", "temporal_reasoning", {"question": "What lies between March 3 and March 24?"}),
    ("question_leaks", "multi_session_reasoning", {"question": "Do both cost 900?"}),
    ("question_leaks", ORDER, {"question": "What of a cooled van for flowers, in order?", **LONG}),
    ("question_leaks", "summarization", {"question": "Sum up how later blue irises came up?"}),
    (
        "question_leaks",
        "information_extraction",
        {"question": "Was it Nora Bell?", "rubric": ("LLM response should state: her name is Nora Bell",)},
    ),
    ("question_hints", UPDATE, {"question": "How many guests are invited now?"}),
    ("question_hints", UPDATE, {"question": "What is the updated number of guests?"}),
    ("question_hints", CONFLICT, {"question": "Is there a contradiction about the florist?"}),
    ("question_repeats_statement", "preference_following", {"question": "I prefer slow trains to planes, so which?"}),
    ("question_repeats_statement", "instruction_following", {"question": "Add a table with sums of my costs?"}),
    (
        "statement_in_evidence",
        "instruction_following",
        {"fields": {"instruction_being_tested": "Never mention prices before lunch in writing."}},
    ),
    ("rubric_grounded", "information_extraction", {"rubric": ("LLM response should state: 341 euros",)}),
    ("rubric_grounded", "information_extraction", {"rubric": ("LLM response should state: on March 4",)}),
    ("rubric_grounded", "information_extraction", {"rubric": ("LLM response should state: on March 3, 2024",)}),
    ("rubric_grounded", "information_extraction", {"rubric": ("LLM response should state: the “Blue Room”",)}),
    ("rubric_grounded", "information_extraction", {"rubric": ("LLM response should state: paid by Olaf",)}),
    ("rubric_grounded", "temporal_reasoning", {"rubric": ("LLM response should state: 22 days",)}),
    ("rubric_grounded", "multi_session_reasoning", {"rubric": ("LLM response should state: 901 euros",)}),
    ("rubric_grounded", "multi_session_reasoning", {"rubric": ("LLM response should state: seven things",)}),
    ("temporal_dated", "temporal_reasoning", {"evidence": {"first_event": (1,), "second_event": (12,)}}),
    ("update_order", UPDATE, {"evidence": {"original_info": (14,), "updated_info": (2,)}}),
    ("update_values", UPDATE, {"hints": {"old_value": "80", "new_value": "96"}}),
    ("update_values", UPDATE, {"hints": {"old_value": "70", "new_value": "95"}}),
    ("update_values", UPDATE, {"hints": {"old_value": "95", "new_value": "95"}}),
    ("update_values", UPDATE, {"hints": {}, "reference": "guests"}),
    ("contradiction_opposes", CONFLICT, {"evidence": {"first_statement": (16,), "second_statement": (4,)}}),
    ("contradiction_opposes", CONFLICT, {"evidence": {"first_statement": (16,), "second_statement": (16,)}}),
    ("events_in_order", ORDER, {"evidence": {"": (18, 10, 20)}}),
    ("events_in_order", ORDER, {"fields": {"total_mentions": 4}}),
    ("events_in_order", ORDER, {"rubric": ("dried flowers", "paper lanterns", "cooled van")}),
    ("events_in_order", ORDER, {"evidence": {"": (10, 18)}, "rubric": ("dried", "blue irises", "cooled van")}),
    ("events_in_order", ORDER, {"rubric": ("blue ones of flowers", "dried ones of flowers", "cooled van"), **TOPIC}),
    ("events_in_order", ORDER, {"rubric": ("blue irises", "dried flowers", "cooled van")}),
    ("events_in_order", ORDER, {"rubric": ("dried flowers", "Dried  Flowers", "cooled van")}),
    ("abstention_absent", "abstention", {"hints": {"entity": "Nora Bell", "keyword": "market"}}),
    ("abstention_absent", "abstention", {"hints": {"entity": "Olaf Stone", "keyword": "delivery"}}),
    ("abstention_absent", "abstention", {"hints": {"detail": "the deposit for the hall"}}),
    ("abstention_absent", "abstention", {"hints": {"entity": "Nora Bell", "detail": "who Nora Bell is"}}),
]  # fmt: skip


@pytest.mark.parametrize("ability", ABILITIES)
def test_a_good_question_passes_everything(ability: str) -> None:
    good = draft(ability)
    assert examine(good, view()) == good
    assert not good.dropped


@pytest.mark.parametrize(("check", "ability", "changes"), FAILING)
def test_a_fault_is_found_by_its_check(check: str, ability: str, changes: dict[str, Any]) -> None:
    if check == "temporal_dated":  # an assistant's message, which an earlier check would drop
        assert CHECKS[check][0](draft(ability, **changes), view())
        return
    found = examine(draft(ability, **changes), view())
    assert (found.dropped, bool(found.why)) == (check, True)


def test_every_check_has_a_case_that_fails() -> None:
    assert {check for check, _, _ in FAILING} | {"contradiction_unremarked"} == set(CHECKS)


def heard(*added: tuple[int, str]) -> View:
    """The conversation with sentences added to the answers of some turns (counted from 0)."""
    told = turns()
    for place, text in added:
        user, answer = told[place].messages
        told[place] = replace(told[place], messages=(user, replace(answer, text=f"{answer.text} {text}")))
    return View([told])


@pytest.mark.parametrize(
    ("place", "text", "remarked"),
    [
        (8, "That contradicts what I know.", True),
        (8, "You said earlier that you met her.", True),
        (8, "Which of the two is right?", True),
        (10, "As you mentioned before, you met the florist Nora Bell at the market.", True),
        (10, "You mentioned the van before.", False),
        (2, "You said earlier that you met the florist Nora Bell.", False),
        (8, "Ask the market for her number, which one is printed on the stalls.", False),
    ],
)
def test_a_contradiction_that_somebody_remarks_on_is_no_question(place: int, text: str, remarked: bool) -> None:
    assert [turns()[at].bullet for at in (2, 8)] == [3, 3]
    found = examine(draft(CONFLICT), heard((place, text)))
    assert found.dropped == ("contradiction_unremarked" if remarked else "")


@pytest.mark.parametrize(
    ("kind", "first", "second", "dropped"),
    [
        ("only_statement_conflict", "My only florist is Nora Bell.", "The florist Nora Bell and Olaf do it.", ""),
        ("only_statement_conflict", "My florist is Nora Bell.", "The florist Nora Bell and Olaf do it.", "opposes"),
        ("location_impossibility", "On May 4 I was in Arden with Nora Bell.", "On May 4 I met Nora Bell at Lyle.", ""),
        ("age_or_time_reversal", "My florist Nora Bell is 41.", "My florist Nora Bell turned 40 after it.", ""),
        ("death_resurrection", "My florist Nora Bell died.", "My florist Nora Bell called today.", ""),
        ("death_resurrection", "My florist Nora Bell called.", "My florist Nora Bell is well.", "opposes"),
        ("never_statement_violation", "I met my florist Nora Bell.", "My florist Nora Bell is here.", "opposes"),
    ],
)
def test_statements_rule_each_other_out_in_the_way_of_their_kind(
    kind: str, first: str, second: str, dropped: str
) -> None:
    told = turns()
    for place, text in ((2, first), (8, second)):
        told[place] = replace(
            told[place], messages=(DialogueMessage("user", text, "main_question"), told[place].messages[1])
        )
    fields = draft(CONFLICT).fields | {"contradiction_type": kind}
    rubric = (draft(CONFLICT).rubric[0], *(f"LLM response should mention: {one}" for one in ("this", "that")))
    found = examine(draft(CONFLICT, fields=fields, rubric=(*rubric, draft(CONFLICT).rubric[3])), View([told]))
    assert found.dropped == (f"contradiction_{dropped}" if dropped else "")


PASSING: list[tuple[str, dict[str, Any]]] = [
    ("information_extraction", {"rubric": ("LLM response should state: on March 3", "LLM response should state: 340")}),
    ("information_extraction", {"question": "What did the hall on the lake cost me?", "about": "the hall on the lake"}),
    ("temporal_reasoning", {"rubric": ("LLM response should state: exactly three weeks",)}),
    ("temporal_reasoning", {"rubric": ("LLM response should state: 2025-03-24",)}),
    ("multi_session_reasoning", {"rubric": ("LLM response should state: two payments",)}),
    ("multi_session_reasoning", {"rubric": ("LLM response should state: 220 euros more for the band",)}),
    ("multi_session_reasoning", {"rubric": ("LLM response should state: 450 euros on average",)}),
    (UPDATE, {"hints": {}}),
    (UPDATE, {"hints": {}, "reference": "95"}),
    ("multi_session_reasoning", {"fields": {"reasoning_steps": ["pay"]}}),
    (ORDER, {"about": "the flowers", "rubric": ("dried flowers", "colour of the flowers", "rent for the flowers")}),
    (ORDER, {"evidence": {"": (10, 18, 20)}, "rubric": ("dried flowers", "irises in season", "who rents a van")}),
    ("abstention", {"hints": {"keyword": "delivery"}}),
    ("abstention", {"hints": {"entity": "Nora Bell", "detail": "her delivery fee"}}),
]


@pytest.mark.parametrize(("ability", "changes"), PASSING)
def test_what_is_true_is_let_through(ability: str, changes: dict[str, Any]) -> None:
    found = examine(draft(ability, **changes), view())
    assert (found.dropped, found.why) == ("", "")


def test_the_second_of_two_equal_questions_is_dropped() -> None:
    one = draft("summarization")
    other = draft("summarization", question=one.question.upper() + "!", refs=(Ref(0, 1, 6), Ref(0, 2, 4)))
    found = examine_all([one, other], view())
    assert [draft.dropped for draft in found] == ["", "duplicate_question"]
    assert one.id in found[1].why


# Words, days and numbers


def test_names_and_quotations() -> None:
    assert names("My friend Ana went to Kyoto. She likes March. You and I don't") == ["Ana", "Kyoto"]
    assert quotations("the “Blue Door”, \"a b\" and 'c d', but not don't or you're") == ["Blue Door", "a b", "c d"]


def test_spans_take_a_missing_year_from_the_other_day_and_count_whole_months() -> None:
    assert Fraction(21) in spans([Day(3, 3, 2024), Day(3, 24)])
    assert Fraction(1) in spans([Day(1, 31, 2024), Day(3, 1, 2024)])
    assert Fraction(2) in spans([Day(1, 30, 2024), Day(3, 30, 2024)])
    assert spans([Day(2, 29), Day(3, 1, 2023)]) == set()  # there is no such day in 2023
    assert spans([Day(3, 3, 2024)]) == set()
