"""At which stage answers go wrong: what a question needs, and memories with one planted fault each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_meme.episode_gold import TASKS, Edge, EpisodeGold, MemeGold, Told, ToldKind
from beam_meme.meme_scoring import FAILURE_STAGES, FailureStage, StageEvidence, needs_of, stage_of

# Session, line, entity, value, kind, and the line as it is told. Two lines a session: the assistant answers.
LINES: tuple[tuple[int, int, str, str, ToldKind, str], ...] = (
    (0, 0, "vehicle", "blue hatchback", "value", "My vehicle is a blue hatchback."),
    (0, 2, "hobby", "watercolours", "value", "My hobby is watercolours."),
    (0, 4, "pet", "a cat called Mop", "value", "My pet is a cat called Mop."),
    (1, 0, "vehicle", "electric van", "update", "My vehicle is now an electric van."),
    (1, 2, "place", "Birchwood Studio", "value", "My hobby takes place at the Birchwood Studio."),
    (1, 4, "employer", "Brack", "root", "My employer is Brack."),
    (2, 0, "vehicle", "folding scooter", "update", "My vehicle has changed again, to a folding scooter."),
    (3, 0, "office", "Harrow Dock", "dependency", "My office is Harrow Dock, which depends on my employer."),
    (3, 2, "office", "Lumen Tower", "rule", "If my employer changes, my office will be Lumen Tower."),
    (3, 4, "commute", "the M4 tram", "dependency", "My commute is the M4 tram, and depends on my office."),
    (3, 6, "commute", "cycling", "rule", "If my office changes, my commute will be cycling."),
    (3, 8, "insurance", "Holloway", "dependency", "My insurance is Holloway, tied to my employer."),
    (3, 10, "lunch", "the Canteen", "dependency", "I have lunch at the Canteen because of my office."),
    (3, 12, "motto", "Measure twice,\ncut once.", "exact", "Keep my motto word for word: Measure twice,\ncut once."),
    (4, 0, "employer", "Sunfell", "change", "My employer is Sunfell."),
    (4, 2, "pet", "a cat called Mop", "deletion", "Please delete from memory that my pet is a cat called Mop."),
)  # fmt: skip
FACTS = tuple(Told(entity, value, kind, session, line) for session, line, entity, value, kind, _ in LINES)
EPISODE = EpisodeGold(
    "employer",
    ("Brack", "Sunfell"),
    (Edge("employer", "office", 1), Edge("office", "commute", 2), Edge("employer", "insurance", 1),
     Edge("office", "lunch", 2)),
    {},
    FACTS,
    (0, 1, 2, 3, 4),
    {"office": "Harrow Dock", "commute": "the M4 tram", "insurance": "Holloway", "lunch": "the Canteen"},
    {"office": "Lumen Tower", "commute": "cycling", "insurance": None, "lunch": None},
)  # fmt: skip


def gold(task: str, entity: str, *values: str, source: str = "", phase: str = "after") -> MemeGold:
    return MemeGold("?", phase, task, entity, values, "", None, source)  # type: ignore[arg-type]


QUESTIONS = {
    "exact_recall": gold("exact_recall", "motto", "Measure twice,\ncut once."),
    "aggregation": gold("aggregation", "hobby+place", "watercolours", "Birchwood Studio"),
    "tracking": gold("tracking", "vehicle", "blue hatchback", "electric van", "folding scooter"),
    "deletion": gold("deletion", "pet", "a cat called Mop"),
    "cascade": gold("cascade", "office", "Lumen Tower", source="employer"),
    "cascade, hop 2": gold("cascade", "commute", "cycling", source="office"),
    "absence": gold("absence", "insurance", "Holloway", source="employer"),
    "absence, hop 2": gold("absence", "lunch", "the Canteen", source="office"),
    "before": gold("cascade", "office", "Harrow Dock", source="employer", phase="before"),
}
NEEDED: Mapping[str, Sequence[set[tuple[int, int]]]] = {
    "exact_recall": [{(3, 12)}],
    "aggregation": [{(0, 2)}, {(1, 2)}],
    "tracking": [{(0, 0)}, {(1, 0)}, {(2, 0)}],
    "deletion": [{(4, 2)}],
    "cascade": [{(3, 2)}, {(4, 0)}],
    "cascade, hop 2": [{(3, 6)}, {(3, 2)}, {(4, 0)}],
    "absence": [{(3, 8)}, {(4, 0)}],
    "absence, hop 2": [{(3, 10)}, {(3, 0), (3, 2)}, {(4, 0)}],
    "before": [{(3, 0)}],
}
"""Where what a question needs is told: each entry is a need, and lists the places any one of which will do."""


def places(needs: Sequence[tuple[Told, ...]]) -> list[set[tuple[int, int]]]:
    return [{(fact.session, fact.line) for fact in need} for need in needs]


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_a_question_needs(name: str) -> None:
    assert places(needs_of(QUESTIONS[name], EPISODE)) == list(NEEDED[name])


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_a_question_needs_where_the_file_names_no_kinds(name: str) -> None:
    unnamed = replace(EPISODE, facts=tuple(replace(fact, kind=None) for fact in FACTS))
    found = places(needs_of(QUESTIONS[name], unnamed))
    assert len(found) == len(NEEDED[name])
    for own, need in zip(found, NEEDED[name], strict=True):
        assert own == need


# --- by message ids ---------------------------------------------------------------------------------------------------

IDS = {number: (session, line) for number, (session, line, *_) in enumerate(LINES)}
BY_PLACE = {place: number for number, place in IDS.items()}


def ids_of(name: str) -> frozenset[int]:
    """The messages that tell what a question needs, one for each need."""
    return frozenset(BY_PLACE[min(need)] for need in NEEDED[name])


@pytest.mark.parametrize("name", QUESTIONS)
def test_faults_of_a_memory_that_hands_out_messages(name: str) -> None:
    needed, own = ids_of(name), QUESTIONS[name]
    evidence = StageEvidence(False, "text", needed, IDS)
    assert stage_of(own, EPISODE, replace(evidence, passed=True)) == "right"
    assert stage_of(own, EPISODE, evidence) == "answered"
    for need in NEEDED[name]:
        lost = {BY_PLACE[place] for place in need}
        assert stage_of(own, EPISODE, replace(evidence, message_ids=needed - lost)) == "retrieved"
        unread = {one: place for one, place in IDS.items() if place[0] not in {session for session, _ in need}}
        assert stage_of(own, EPISODE, replace(evidence, places=unread)) == "encoded"


@given(st.sets(st.sampled_from(range(len(LINES)))), st.sampled_from(sorted(QUESTIONS)))
def test_more_retrieved_is_never_an_earlier_stage(ids: set[int], name: str) -> None:
    own, all_read = QUESTIONS[name], StageEvidence(False, "", frozenset(ids), IDS)
    stage = stage_of(own, EPISODE, all_read)
    assert stage in ("retrieved", "answered")
    more = stage_of(own, EPISODE, replace(all_read, message_ids=frozenset(IDS)))
    assert FAILURE_STAGES.index(more) >= FAILURE_STAGES.index(stage)
    assert (stage == "answered") == all({BY_PLACE[place] for place in need} & ids for need in NEEDED[name])


def test_a_message_of_several_lines_stands_at_its_first() -> None:
    joined = {0: (3, 1), 1: (4, 0)}  # the rule is told in line 2 of session 3
    evidence = StageEvidence(False, "", frozenset({0, 1}), joined)
    assert stage_of(QUESTIONS["cascade"], EPISODE, evidence) == "answered"
    assert stage_of(QUESTIONS["cascade"], EPISODE, replace(evidence, places={0: (3, 3), 1: (4, 0)})) == "encoded"


def test_unknown_ids_are_no_evidence() -> None:
    evidence = StageEvidence(False, "", frozenset({999}), IDS)
    assert stage_of(QUESTIONS["exact_recall"], EPISODE, evidence) == "retrieved"


# --- by snapshots and contexts ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """A memory of dated lines, with a fault: lines it never writes, loses in the last session, or does not bring up."""

    never: str = ""
    loses: str = ""
    hides: str = ""

    def evidence(self) -> StageEvidence:
        snapshots, kept = [], list[str]()
        for session in range(5):
            lines = [" ".join(text.split("\n")) for number, *_, text in LINES if number == session]
            kept += [line for line in lines if not self.never or self.never not in line]
            if session == 4 and self.loses:
                kept = [line for line in kept if self.loses not in line]
            snapshots.append("\n".join(kept))
        context = "\n".join(line for line in kept if not self.hides or self.hides not in line)
        return StageEvidence(False, context, snapshots=tuple(snapshots))


FAULTS = {
    "exact_recall": ("Measure twice",),
    "aggregation": ("watercolours", "Birchwood"),
    "tracking": ("hatchback", "electric van", "scooter"),
    "cascade": ("Lumen Tower", "Sunfell"),
    "cascade, hop 2": ("cycling", "Lumen Tower", "Sunfell"),
    "absence": ("Holloway", "Sunfell"),
    "absence, hop 2": ("the Canteen", "Sunfell"),
}


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in FAULTS.items() for line in lines])
def test_faults_of_a_memory_that_keeps_files(name: str, line: str) -> None:
    own = QUESTIONS[name]
    assert stage_of(own, EPISODE, Files().evidence()) == "answered"
    assert stage_of(own, EPISODE, Files(never=line).evidence()) == "encoded"
    assert stage_of(own, EPISODE, Files(hides=line).evidence()) == "retrieved"
    if line != "Sunfell":  # told in the last session, so it cannot be lost after it
        assert stage_of(own, EPISODE, Files(loses=line).evidence()) == "maintained"


def files(*snapshots: str, context: str) -> StageEvidence:
    return StageEvidence(False, context, snapshots=("", "", "", *snapshots))


def test_a_clause_that_is_dropped_is_not_stored() -> None:
    kept = "insurance: Holloway\nemployer: Sunfell"
    assert stage_of(QUESTIONS["absence"], EPISODE, files(kept, kept, context=kept)) == "encoded"
    tied = "insurance: Holloway (depends on the employer)\nemployer: Sunfell"
    assert stage_of(QUESTIONS["absence"], EPISODE, files(tied, tied, context=tied)) == "answered"
    assert stage_of(QUESTIONS["absence"], EPISODE, files(tied, kept, context=kept)) == "maintained"


@pytest.mark.parametrize(
    ("at_end", "context", "stage"),
    [
        ("- pet: a cat called Mop", "- pet: a cat called Mop", "encoded"),
        ("- employer: Sunfell", "- pet: a cat called Mop", "retrieved"),
        ("- employer: Sunfell", "- employer: Sunfell", "answered"),
        ("- pet: a cat called Mop\n- pet: to be deleted", "- pet: a cat called Mop", "retrieved"),
        ("- deleted: pet (a cat called Mop)", "- deleted: pet (a cat called Mop)", "answered"),
    ],
)
def test_a_deletion_is_stored_if_the_value_is_gone_or_marked(at_end: str, context: str, stage: FailureStage) -> None:
    evidence = files("- pet: a cat called Mop", at_end, context=context)
    assert stage_of(QUESTIONS["deletion"], EPISODE, evidence) == stage


def test_messages_that_were_retrieved_count_beside_files() -> None:
    notes = files("nothing", "nothing", context="nothing")
    assert stage_of(QUESTIONS["cascade"], EPISODE, notes) == "encoded"
    shown = replace(notes, message_ids=ids_of("cascade"), places=IDS)
    assert stage_of(QUESTIONS["cascade"], EPISODE, shown) == "answered"


def test_what_the_episode_tells_nowhere_is_no_fault_of_the_memory() -> None:
    for task in TASKS:
        own = gold(task, "unheard", "of")
        bare = replace(EPISODE, facts=(), edges=(Edge("unheard", "unheard", 1),))
        assert stage_of(own, bare, StageEvidence(False)) == "answered"
