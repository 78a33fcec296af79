"""Templates keep the rules of sampling for any seed, and have the published statistics."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from beam_memorycode.bank import UPDATABLE, fillers, instructions, orders, people
from beam_memorycode.dialogue_files import LoadedDialogue, load_dialogues
from beam_memorycode.dialogues import SESSION_COUNTS, Dialogue, Mention
from beam_memorycode.templates import RECIPES, RecipeName, draw_template, recipe

DRAWS = {
    "seed": st.integers(-5, 10_000),
    "name": st.sampled_from(RECIPES),
    "sessions": st.sampled_from(SESSION_COUNTS),
    "number": st.integers(1, 30),
}


@settings(max_examples=60)
@given(**DRAWS)
def test_the_rules_of_sampling_hold(seed: int, name: RecipeName, sessions: int, number: int) -> None:
    item = draw_template(3, seed=seed, name=name, sessions=sessions, number=number)
    dialogue, ranges = item.dialogue, recipe(name, sessions)
    assert len(dialogue.sessions) == sessions
    coding = [session for session in dialogue.sessions if session.mentions]
    least, most = (max(1, math.floor(sessions * share)) for share in ranges.share)
    assert least <= len(coding) <= most
    assert all(len(mention.mentions) <= ranges.per_session[1] for mention in coding)
    assert sum(session.filler is None for session in dialogue.sessions) <= ranges.unfilled
    for session in dialogue.sessions:
        assert session.topics
        ids = [mention.instruction for mention in session.mentions]
        assert len(set(ids)) == len(ids)
        assert [topic.coding for topic in session.topics] == sorted(topic.coding for topic in session.topics)
        assert len(session.queries) == len(ids) == len(session.instructions)
        bank = instructions()
        assert list(session.instructions) == [
            bank[mention.instruction].texts[mention.value] for mention in session.mentions
        ]
    _check_mentions(dialogue)
    _check_fillers(dialogue, ranges.mentions)
    _check_gold(item)


def _check_mentions(dialogue: Dialogue) -> None:
    """Values never return; an update is of an updatable instruction that was introduced; id 0 is added again."""
    seen: list[Mention] = []
    for session in dialogue.sessions:
        labels = [topic.type for topic in session.topics if topic.coding]
        for mention, label in zip(session.mentions, labels, strict=True):
            assert mention not in seen
            known = any(other.instruction == mention.instruction for other in seen)
            assert (label == "instruction-update") == (known and mention.instruction in UPDATABLE)
            assert not known or mention.instruction == 0 or mention.instruction in UPDATABLE
            if not instructions()[mention.instruction].shuffle:
                assert mention.value == 0
            seen.append(mention)


def _check_fillers(dialogue: Dialogue, most: int) -> None:
    general = {filler.id: filler.text for filler in fillers()}
    ordered = {filler.id: filler.texts for filler in orders()}
    counts: Counter[int] = Counter()
    for session in dialogue.sessions:
        if session.filler is None:
            assert all(topic.coding for topic in session.topics)
            continue
        topic = session.topics[0]
        counts[session.filler] += 1
        if session.filler in general:
            assert topic.text == general[session.filler]
            assert counts[session.filler] <= most
            assert topic.type == ("filler-update" if counts[session.filler] > 1 else "filler-add")
        else:
            assert topic.text == ordered[session.filler][-counts[session.filler]]  # from the end of the list
            assert topic.type in ("filler-instruction-add", "filler-instruction-update")
            assert counts[session.filler] > 1 or topic.type == "filler-instruction-add"


def _check_gold(item: LoadedDialogue) -> None:
    bank, newest = instructions(), {}
    for session, rules in zip(item.dialogue.sessions, item.rules.sessions, strict=True):
        assert rules == tuple(bank[mention.instruction].rule(mention.value) for mention in session.mentions)
        newest.update({mention.instruction: mention.value for mention in session.mentions})
    assert item.rules.history == tuple(bank[number].rule(value) for number, value in newest.items())
    assert item.dialogue.queries == tuple(dict.fromkeys(bank[number].query for number in newest))
    assert item.dialogue.queries


@settings(max_examples=25)
@given(**DRAWS, other=st.integers(1, 400))
def test_the_same_seed_gives_the_same_template_whatever_its_id(
    seed: int, name: RecipeName, sessions: int, number: int, other: int
) -> None:
    one = draw_template(1, seed=seed, name=name, sessions=sessions, number=number).dialogue
    two = draw_template(other, seed=seed, name=name, sessions=sessions, number=number).dialogue
    assert (one.context, one.sessions, one.queries) == (two.context, two.sessions, two.queries)


def test_seed_recipe_and_number_each_change_the_template() -> None:
    drawn = {
        draw_template(1, seed=seed, name=name, sessions=10, number=number).dialogue.sessions
        for seed in (7, 8)
        for name in RECIPES
        for number in (1, 2)
    }
    assert len(drawn) == 8


@cache
def _released(seed: int) -> list[Dialogue]:
    return [
        draw_template(1, seed=seed, name="released", sessions=count, number=number).dialogue
        for count in SESSION_COUNTS
        for number in range(1, 31)
    ]


def _labels(dialogue: Dialogue) -> Counter[str]:
    return Counter(topic.type for session in dialogue.sessions for topic in session.topics)


MEASURES: dict[str, Callable[[Dialogue], int]] = {
    "sessions_with_instructions": lambda one: sum(bool(session.mentions) for session in one.sessions),
    "instructions": lambda one: sum(len(session.mentions) for session in one.sessions),
    "instructions_added": lambda one: _labels(one)["instruction-add"],
    "instructions_updated": lambda one: _labels(one)["instruction-update"],
    "fillers": lambda one: sum(session.filler is not None for session in one.sessions),
}


def _parts(dialogues: Sequence[Dialogue]) -> dict[str, list[Dialogue]]:
    return {
        "short": [dialogue for dialogue in dialogues if dialogue.short],
        "long": [dialogue for dialogue in dialogues if not dialogue.short],
    }


def _error(dialogues: Sequence[Dialogue], measure: Callable[[Dialogue], int]) -> float:
    """The standard error of a mean over dialogues whose session counts are fixed."""
    groups: dict[int, list[int]] = {}
    for dialogue in dialogues:
        groups.setdefault(len(dialogue.sessions), []).append(measure(dialogue))
    return math.sqrt(sum(statistics.variance(values) * len(values) for values in groups.values())) / len(dialogues)


def test_the_released_recipe_has_the_statistics_of_the_shipped_data(memorycode_data: Path) -> None:
    shipped = _parts([item.dialogue for item in load_dialogues(memorycode_data)])
    for part, dialogues in _parts(_released(7)).items():
        for name, measure in MEASURES.items():
            ours, theirs = (statistics.mean(map(measure, group)) for group in (dialogues, shipped[part]))
            error = math.hypot(_error(dialogues, measure), _error(shipped[part], measure))
            assert abs(ours - theirs) < 3 * error, (part, name, ours, theirs, error)


def test_kinds_names_and_personas_are_all_drawn() -> None:
    dialogues = _released(7)
    assert {(dialogue.context.mentor, dialogue.context.mentee) for dialogue in dialogues} == {
        (pair.mentor, pair.mentee) for pair in people().pairs
    }
    assert {dialogue.context.mentor_persona for dialogue in dialogues} == {
        dialogue.text for dialogue in people().mentor
    }
    assert {dialogue.context.mentee_persona for dialogue in dialogues} == {
        dialogue.text for dialogue in people().mentee
    }
    mentioned = {mention for dialogue in dialogues for session in dialogue.sessions for mention in session.mentions}
    assert len(mentioned) == 123
    lengths = Counter(session.length for dialogue in dialogues for session in dialogue.sessions)
    assert min(lengths.values()) > 0.3 * sum(lengths.values())
