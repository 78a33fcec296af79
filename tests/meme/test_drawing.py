"""Episodes as drawn: the banks keep their rules, and whatever the seed, tasks, facts and gold agree with the graph."""

from __future__ import annotations

import hashlib
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_meme import drawing
from beam_meme.domains import BANKS, DomainBank, bank_of, gold_sentences
from beam_meme.drawing import (
    Drawn,
    DrawnFact,
    DrawnTask,
    blocked,
    draw_all,
    draw_episode,
    draw_plan,
    gold_of,
    possible_sentences,
)
from beam_meme.episode_gold import TASKS
from beam_meme.episodes import DOMAINS, Domain
from beamlib.errors import UserError

EPISODES = st.sampled_from([(domain, root) for domain in DOMAINS for root in bank_of(domain).roots])
SEEDS, NUMBERS = st.integers(0, 10**9), st.integers(1, 999)
PUBLISHED = {"exact_recall": 100, "aggregation": 100, "tracking": 100, "deletion": 100, "cascade": 164, "absence": 130}

ROOTS_OF_LIFE = {
    "employer": "job_title work_location work_schedule work_project insurance",
    "residence_location": "commute_method commute_duration favorite_restaurant fitness_facility regular_appointment",
    "health_condition": "medication dietary_restriction exercise_routine sleep_pattern regular_appointment",
    "relationship_status": "living_arrangement housing_type financial_goal travel_plan family_event",
    "school": "skill_acquisition work_schedule financial_goal commute_method",
    "work_location": "commute_method commute_duration favorite_restaurant fitness_facility",
    "exercise_routine": "fitness_facility",
    "diet_preference": "favorite_restaurant",
    "living_arrangement": "housing_type financial_goal",
}
"""Section 2.2 of the fact sheet, typed anew."""


def dump(drawn: Drawn) -> str:
    """An episode in plain text, to be checked by hand."""
    lines = [f"{drawn.id} {drawn.root}: {drawn.change[0]} -> {drawn.change[1]}"]
    lines += [f"  {edge.source} -> {edge.target} (hop {edge.hop}, {edge.pattern})" for edge in drawn.edges]
    lines += [f"  [{fact.part}] {fact.kind} {fact.entity}: {fact.sentence}" for fact in drawn.facts]
    lines += [f"  {one.task} {one.hop or ''}: {one.question} => {' | '.join(one.values)}" for one in drawn.tasks]
    return "\n".join(lines)


def keyword(drawn: Drawn, entity: str) -> str:
    return bank_of(drawn.domain).entities[entity].keyword


def told(drawn: Drawn, entity: str, kind: str) -> list[int]:
    return [place for place, one in enumerate(drawn.facts) if (one.entity, one.kind) == (entity, kind)]


def of_task(drawn: Drawn, *tasks: str) -> list[DrawnTask]:
    return [one for one in drawn.tasks if one.task in tasks]


def names(text: str, phrase: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.IGNORECASE) is not None


# --- the banks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "entities", "patterns", "triples", "tracking"),
    [("personal_life", 39, 12, 9, 4), ("software_project", 51, 6, 5, 3)],
)
def test_a_bank_has_the_published_counts(
    domain: Domain, entities: int, patterns: int, triples: int, tracking: int
) -> None:
    bank = bank_of(domain)
    assert (len(bank.entities), len(bank.roots)) == (entities, 5)
    assert (len(bank.patterns), len(bank.triples), len(bank.tracking)) == (patterns, triples, tracking)
    assert {name for name, one in bank.entities.items() if one.exact} >= {
        "life_philosophy" if domain == "personal_life" else "error_log"
    }
    assert not {edge.target for edge in bank.edges} & set(bank.roots)


def test_personal_life_has_the_published_edges() -> None:
    bank = bank_of("personal_life")
    found = {source: " ".join(bank.dependants(source)) for source in bank.entities if bank.dependants(source)}
    assert found == ROOTS_OF_LIFE


def test_the_known_middles_of_software_lie_between() -> None:
    bank = bank_of("software_project")
    below = {name for root in bank.roots for name in bank.dependants(root)}
    between = {"build_tool", "test_framework", "orm_library", "ci_config", "docker_image", "auth_method"}
    assert {name for name in below if bank.dependants(name)} == between


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_graph_has_no_cycle_and_three_levels(domain: Domain) -> None:
    left = {(edge.source, edge.target) for edge in bank_of(domain).edges}
    rounds = 0
    while left:
        leaves = {target for _, target in left} - {source for source, _ in left}
        assert leaves, f"a cycle in {left}"
        left = {edge for edge in left if edge[1] not in leaves}
        rounds += 1
    assert rounds == 2


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_pool_is_large_plain_and_apart_from_all_others(domain: Domain) -> None:
    bank = bank_of(domain)
    values = [(name, value) for name, one in bank.entities.items() for value in one.pool]
    for name, one in bank.entities.items():
        assert len(one.pool) >= 8, name
        assert all(one.keyword in template and template.count("{value}") == 1 for template in one.says), name
        assert one.keyword in one.ask
    for name, value in values:
        assert value.strip() == value and not re.match(r"(no|none|null|nothing|n/a)\b", value.lower()), (name, value)
        inside = [other for other in values if value.lower() in other[1].lower()]
        assert inside == [(name, value)], inside


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_sentence_of_an_entity_names_another(domain: Domain) -> None:
    bank = bank_of(domain)
    for name, one in bank.entities.items():
        for sentence in gold_sentences(domain, [name]):
            found = [other for other in bank.entities if names(sentence, bank.entities[other].keyword)]
            assert found == [name], sentence
        assert len(gold_sentences(domain, [name])) == len(one.pool)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('source = "exercise_routine", target = "fitness', 'source = "sauna", target = "fitness', "'sauna'"),
        ('target = "job_title"', 'target = "employer"', "circle"),
        ('"My employer is {value}."', '"I work for {value}."', "lacks the keyword 'employer'"),
        ('"My employer is {value}."', '"My employer is {name}."', "slots"),
        ('"My employer is {value}."', '"{value} is my employer."', "begins with its value"),
        ('"Ellersby"', '"Brannock"', "'brannock' lies in 'brannock quay'"),
        ('"Ellersby"', '"No fixed home"', "says that there is nothing"),
        ('"Ellersby"', '"Osterfeld Green"', "fewer than 8|lies in"),
        ('"My school is {value}."', '"My school, paid by my employer, is {value}."', "'employer' lies in"),
        ("{thing} will be {value}.", "{thing} would be {value}.", "will be"),
        ("simply because it's close by, so if {source} changes", "because it's close by", "does not say"),
        ('pattern = "curriculum"', 'pattern = "lessons"', "lessons"),
        ('["officially engaged", "reg', '["engaged", "reg', "no values"),
    ],
)  # fmt: skip
def test_a_spoilt_bank_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (BANKS / "personal_life.toml").read_text()
    assert old in text
    (tmp_path / "personal_life.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=said):
        bank_of("personal_life", tmp_path)


def test_a_derived_value_needs_every_value_that_it_follows(tmp_path: Path) -> None:
    text = (BANKS / "software_project.toml").read_text()
    (tmp_path / "software_project.toml").write_text(text.replace('"Treadle" = ', '"Pedal" = '))
    with pytest.raises(UserError, match="build_command"):
        bank_of("software_project", tmp_path)


# --- what is drawn --------------------------------------------------------------------------------------------------


def test_a_hundred_episodes_come_near_the_published_counts() -> None:
    found = draw_all(100, 42)
    counts = Counter(task.task for one in found for task in one.tasks)
    print(f"questions drawn {dict(counts)}, published {PUBLISHED}")
    assert all(abs(counts[task] - PUBLISHED[task]) <= 8 for task in TASKS)
    assert {6, 7, 8} >= {len(one.tasks) for one in found}
    assert [one.id for one in found[:2] + found[50:52]] == ["pl_001", "pl_002", "sw_001", "sw_002"]
    assert set(Counter((one.domain, one.root) for one in found).values()) == {10}


def test_an_odd_count_gives_the_first_domain_one_more() -> None:
    assert [one.id for one in draw_all(3, 0)] == ["pl_001", "pl_002", "sw_001"]
    assert draw_all(0, 0) == []


@given(EPISODES, SEEDS, NUMBERS)
def test_tasks_never_overlap_and_all_six_are_there(which: tuple[Domain, str], seed: int, number: int) -> None:
    drawn = draw_episode(*which, seed, number)
    bank = bank_of(drawn.domain)
    asked = [entity for task in drawn.tasks for entity in task.entities]
    assert len(asked) == len(set(asked)) and drawn.root not in asked
    assert {task.task for task in drawn.tasks} == set(TASKS)
    noise = {fact.entity for fact in drawn.facts} - {*asked, drawn.root, *(edge.target for edge in drawn.edges)}
    assert len(noise) == 5 and noise <= set(bank.orphans)
    assert set(drawn.before) == set(drawn.after) == {fact.entity for fact in drawn.facts}


@given(EPISODES, SEEDS, NUMBERS)
def test_every_fact_holds_its_keyword_and_its_value(which: tuple[Domain, str], seed: int, number: int) -> None:
    drawn = draw_episode(*which, seed, number)
    for fact in drawn.facts:
        assert names(fact.sentence, keyword(drawn, fact.entity)) and fact.value in fact.sentence
        assert fact.value in drawing.possible_values(drawn.domain, fact.entity)
        assert "{" not in fact.sentence and fact.verbatim == (fact.kind == "exact")
    for task in drawn.tasks:
        for entity in task.entities:
            assert names(task.question, keyword(drawn, entity))
        assert not any(value in task.question for value in (*task.values, *task.before_values))


@given(EPISODES, SEEDS, NUMBERS)
def test_the_order_is_the_published_one(which: tuple[Domain, str], seed: int, number: int) -> None:
    drawn = draw_episode(*which, seed, number)
    order = ["1a", "1b", "1c", "2", "change"]
    assert [fact.part for fact in drawn.facts] == sorted((fact.part for fact in drawn.facts), key=order.index)
    (tracking,), (triple,) = of_task(drawn, "tracking"), of_task(drawn, "aggregation")
    for place, part in enumerate(order[:3]):
        said = [fact for fact in drawn.facts if fact.part == part]
        update = [fact for fact in said if fact.entity == tracking.entities[0]]
        assert [(fact.value, fact.kind) for fact in update] == [
            (tracking.values[place], "update" if place else "value")
        ]
        assert ("again" in update[0].sentence) == (place == 2) and ("update" in update[0].sentence) == (place == 1)
        assert sum(fact.entity in triple.entities for fact in said) == 1
    kinds = [fact.kind for fact in drawn.facts if fact.part == "2"]
    assert kinds == sorted(kinds, key=["dependency", "exact", "rule"].index) and kinds.count("exact") == 1
    (root,) = told(drawn, drawn.root, "root")
    assert drawn.facts[root].part in order[:3] and drawn.facts[root].value == drawn.change[0]
    pool = drawing.possible_values(drawn.domain, tracking.entities[0])
    assert [pool.index(value) for value in tracking.values] == sorted({pool.index(value) for value in tracking.values})


@given(EPISODES, SEEDS, NUMBERS)
def test_the_change_names_nothing_that_depends(which: tuple[Domain, str], seed: int, number: int) -> None:
    drawn = draw_episode(*which, seed, number)
    said = [fact for fact in drawn.facts if fact.part == "change"]
    assert [fact.kind for fact in said] == ["value", "change", "deletion", "value"]
    assert (said[1].entity, said[1].value) == (drawn.root, drawn.change[1]) and drawn.change[0] not in said[1].sentence
    assert not names(said[1].sentence, "if") and not names(said[1].sentence, "will")
    assert names(said[2].sentence, "delete") and names(said[2].sentence, "memory")
    bank = bank_of(drawn.domain)
    chain = {name for one in bank.dependants(drawn.root) for name in (one, *bank.dependants(one))}
    for fact in said:
        for entity in chain:
            assert not names(fact.sentence, keyword(drawn, entity))
            assert not any(value in fact.sentence for value in drawing.possible_values(drawn.domain, entity))


@given(EPISODES, SEEDS, NUMBERS)
def test_what_depends_is_told_with_its_clause_and_only_cascades_have_rules(
    which: tuple[Domain, str], seed: int, number: int
) -> None:
    drawn = draw_episode(*which, seed, number)
    for task in of_task(drawn, "cascade", "absence"):
        (entity,), source = task.entities, keyword(drawn, task.source)
        (clause,) = told(drawn, entity, "dependency")
        sentence = drawn.facts[clause].sentence
        assert drawn.facts[clause].value == task.before_values[0]
        assert re.search(rf"depends on \w+ {source}\b", sentence) and re.search(rf"\bif \w+ {source} changes", sentence)
        assert len(told(drawn, entity, "rule")) == (task.task == "cascade")
        assert (task.hop == 1) == (task.source == drawn.root)
    for fact in drawn.facts:
        if fact.kind == "rule":
            check_rule(drawn, fact)


def check_rule(drawn: Drawn, fact: DrawnFact) -> None:
    """A condition that names the trigger, then what will be; the old value is not in it."""
    source = next(edge.source for edge in drawn.edges if edge.target == fact.entity)
    start = (
        rf"If \w+ {keyword(drawn, source)} changes, \w+ {keyword(drawn, fact.entity)} will be {re.escape(fact.value)}"
    )
    assert re.match(start, fact.sentence)
    assert fact.value == drawn.after[fact.entity] != drawn.before[fact.entity]


@given(EPISODES, SEEDS, NUMBERS)
def test_a_leaf_has_its_middle_told_before_it(which: tuple[Domain, str], seed: int, number: int) -> None:
    drawn = draw_episode(*which, seed, number)
    for task in drawn.tasks:
        if task.hop != 2:
            continue
        (rule,) = told(drawn, task.source, "rule")
        middle = [*told(drawn, task.source, "dependency"), *told(drawn, task.source, "value")]
        assert len(middle) == 1 and middle[0] < told(drawn, task.entities[0], "dependency")[0]
        assert all(rule < leaf for leaf in told(drawn, task.entities[0], "rule"))
        assert (drawn.root, task.source, 1) in [(edge.source, edge.target, edge.hop) for edge in drawn.edges]


@given(EPISODES, SEEDS, NUMBERS)
def test_gold_follows_the_states(which: tuple[Domain, str], seed: int, number: int) -> None:
    drawn = draw_episode(*which, seed, number)
    changing = {drawn.root, *(fact.entity for fact in drawn.facts if fact.kind == "rule")}
    gone = {entity for task in of_task(drawn, "absence", "deletion") for entity in task.entities}
    for entity, value in drawn.after.items():
        assert (value is None) == (entity in gone)
        assert value is None or (value != drawn.before[entity]) == (entity in changing)
    for task in drawn.tasks:
        before = [drawn.before[entity] for entity in task.entities]
        after = [drawn.after[entity] for entity in task.entities]
        if task.task == "tracking":
            assert task.values[-1] == before[0] == after[0] and len(set(task.values)) == 3
        else:
            assert list(task.before_values) == before
            assert list(task.values) == (before if task.task in ("absence", "deletion") else after)
        assert (task.before_question is None) == (task.task in ("tracking", "aggregation"))
    (deletion,) = of_task(drawn, "deletion")
    (first,), (asked) = told(drawn, deletion.entities[0], "value"), told(drawn, deletion.entities[0], "deletion")
    assert drawn.facts[first].part in ("1a", "1b", "1c") and len(asked) == 1
    assert deletion.values[0] not in deletion.expected


@given(EPISODES, SEEDS, NUMBERS)
def test_derived_values_fit_in_both_states(which: tuple[Domain, str], seed: int, number: int) -> None:
    drawn = draw_episode(*which, seed, number)
    for state in (drawn.before, drawn.after):
        for entity, value in state.items():
            one = bank_of(drawn.domain).entities[entity]
            upstream = state.get(one.follows)
            assert value is None or upstream is None or one.fits[upstream] == value


@given(SEEDS, NUMBERS)
def test_a_relationship_only_moves_forward(seed: int, number: int) -> None:
    drawn = draw_episode("personal_life", "relationship_status", seed, number)
    orders = bank_of("personal_life").entities["relationship_status"].orders
    assert any(
        set(drawn.change) <= set(order) and order.index(drawn.change[0]) < order.index(drawn.change[1])
        for order in orders
    )


def test_one_of_three_may_be_a_middle_and_is_asked_with_its_new_value() -> None:
    found = [(drawn, task) for drawn in draw_all(100, 42) for task in of_task(drawn, "aggregation")]
    changed = [(drawn, task) for drawn, task in found if task.values != task.before_values]
    assert changed
    for drawn, task in changed:
        for entity, old, new in zip(task.entities, task.before_values, task.values, strict=True):
            assert (old, new) == (drawn.before[entity], drawn.after[entity])
            assert old == new or (told(drawn, entity, "rule") and not told(drawn, entity, "dependency"))


def test_questions_stand_in_an_order_that_tells_nothing() -> None:
    assert len({tuple(task.task for task in drawn.tasks) for drawn in draw_all(40, 5)}) > 20


def narrowed(tracking: list[str]) -> DomainBank:
    return bank_of("personal_life").model_copy(update={"tracking": tracking})


def test_where_a_choice_leaves_too_little_all_is_drawn_anew() -> None:
    bank = narrowed(["vehicle"])
    plans = [draw_plan(bank, "employer", random.Random(seed)) for seed in range(200)]
    assert all(plan.tracking == "vehicle" and plan.deletion != "vehicle" for plan in plans)
    with pytest.raises(ValueError, match="'employer' could be drawn in 20 tries"):
        draw_plan(narrowed(["insurance"]), "employer", random.Random(0))


# --- the same each time ---------------------------------------------------------------------------------------------


def digest(count: int, seed: int) -> str:
    return hashlib.sha256(repr(draw_all(count, seed)).encode()).hexdigest()


def test_the_seed_and_nothing_else_decides() -> None:
    code = "import sys; sys.path += sys.argv[1:]; from test_drawing import digest; print(digest(20, 7))"
    here = Path(__file__).parent
    paths = [str(here), str(here.parents[1] / "packages"), str(here.parents[1])]
    found = {
        subprocess.run(
            [sys.executable, "-c", code, *paths],
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.strip()
        for salt in ("0", "1", "4321")
    }
    assert found == {digest(20, 7)} and digest(20, 8) not in found


def test_more_episodes_leave_the_first_ones_as_they_are() -> None:
    assert draw_all(10, 3)[:5] == draw_all(40, 3)[:5]


# --- gold and what fillers are held against -------------------------------------------------------------------------


@given(EPISODES, SEEDS)
def test_gold_joins_both_rounds_and_says_where_facts_stand(which: tuple[Domain, str], seed: int) -> None:
    drawn = draw_episode(*which, seed, 1)
    gold = gold_of(drawn, {index: (3 * index // 4, index) for index in range(len(drawn.facts))})
    before = [one for one in drawn.tasks if one.before_question]
    ids = [f"{drawn.id}-before-q{place:02d}" for place in range(1, len(before) + 1)]
    ids += [f"{drawn.id}-after-q{place:02d}" for place in range(1, len(drawn.tasks) + 1)]
    assert list(gold.questions) == ids
    rounds = {
        phase: {one.entity for one in gold.questions.values() if one.phase == phase} for phase in ("before", "after")
    }
    assert rounds["before"] < rounds["after"]
    assert {one.entity for one in gold.questions.values() if one.task == "aggregation"} == {
        "+".join(task.entities) for task in of_task(drawn, "aggregation")
    }
    for one in gold.questions.values():
        if one.task in ("cascade", "absence") and one.phase == "before":
            assert one.values == (drawn.before[one.entity],) and one.hop in (1, 2) and one.source
    assert [(one.value, one.kind, one.line) for one in gold.facts] == [
        (fact.value, fact.kind, place) for place, fact in enumerate(drawn.facts)
    ]
    assert gold.evidence == tuple(sorted({3 * place // 4 for place in range(len(drawn.facts))}))
    assert (gold.root, gold.change, gold.edges) == (drawn.root, drawn.change, drawn.edges)


def test_fillers_are_held_against_every_value_of_the_episode() -> None:
    for drawn in (draw_all(2, 1)[0], draw_all(2, 1)[1]):
        sentences = possible_sentences(drawn)
        for entity in drawn.before:
            for value in drawing.possible_values(drawn.domain, entity):
                assert any(value in sentence and keyword(drawn, entity) in sentence for sentence in sentences)
            assert keyword(drawn, entity) in blocked(drawn)
        assert set(bank_of(drawn.domain).blocked) <= set(blocked(drawn))


def test_an_episode_can_be_read_by_hand() -> None:
    text = dump(draw_all(2, 42)[0])
    print(text)
    assert text.startswith("pl_001 employer: ") and text.count("\n  [change] ") == 4
