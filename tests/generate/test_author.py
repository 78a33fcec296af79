"""Whole conversations by the offline author, in every domain: what is told, asked and cited fits together."""

from __future__ import annotations

import atexit
import hashlib
import json
import re
from collections import Counter
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from beamlib.benchmark.check import check_folder
from beamlib.benchmark.loading import Loaded, load
from beamlib.benchmark.sources import find_conversations
from beamlib.files import temporary_folder
from beamlib.generate.author.bank import bank, banks
from beamlib.generate.author.world import World
from beamlib.generate.casting import Writing
from beamlib.generate.domains import domains, style_of, titles
from beamlib.generate.layouts import layouts_of, targets
from beamlib.generate.pipeline import (
    Commission,
    make_dialogue_of_plan,
    make_plan_stage,
    make_probe_stage,
    make_question_stage,
    repairs_of,
)
from beamlib.generate.probes.wording import content, share
from beamlib.params import usual_parameters
from beamlib.text import count_tokens

SEED = 11
PLACES = ExitStack()
atexit.register(PLACES.close)  # a cache cannot take a fixture's folder


@cache
def generated(domain: str) -> Path:
    """The folder that holds one finished 100K conversation of a domain."""
    out = PLACES.enter_context(temporary_folder("beamlib-author-"))
    commission, writing = Commission(usual_parameters("100K", generation_seed=SEED, domain=domain)), Writing()
    folder = commission.begin(out)
    make_plan_stage(commission, folder, writing)
    make_question_stage(folder, writing)
    make_dialogue_of_plan(folder, 0, writing)
    make_probe_stage(folder, writing)
    return out


@cache
def loaded(domain: str) -> Loaded:
    return load(find_conversations(generated(domain))[0])


def world(domain: str) -> World:
    return World(Commission(usual_parameters("100K", generation_seed=SEED, domain=domain)).story())


def test_every_domain_and_every_title_of_table_5_has_its_words() -> None:
    assert set(banks()) == set(domains())
    for domain in domains():
        assert {title.title for title in bank(domain).titles} == set(titles()[domain])


@pytest.mark.parametrize("domain", domains())
def test_the_loader_reads_it_without_anything_to_note(domain: str) -> None:
    report = check_folder(generated(domain))
    assert not report.errors
    assert not report.anomalies
    assert len(loaded(domain).probes) == 20
    assert Counter(gold.ability for gold in loaded(domain).gold.values()).most_common()[-1][1] == 2


@pytest.mark.parametrize("domain", domains())
def test_size_and_shape_are_those_asked_for(domain: str) -> None:
    conversation, goal = loaded(domain).conversation, targets("100K")
    tokens = sum(count_tokens(message.content) + 4 for message in conversation)
    assert abs(tokens / goal.tokens - 1) < 0.05
    kinds = Counter(message.kind for message in conversation)
    assert abs(kinds["answer_ai_question"] / goal.answered - 1) < 0.15
    assert abs(kinds["followup_question"] / goal.followups - 1) < 0.15
    wanted = layouts_of(usual_parameters("100K"))[style_of(domain)]
    most = wanted.subplans * (wanted.groups * wanted.questions + 3)
    assert 0.9 * most <= kinds["main_question"] <= most
    if style_of(domain) == "general":
        assert abs(kinds["main_question"] / goal.turns - 1) < 0.15


@pytest.mark.parametrize("domain", domains())
def test_no_two_messages_are_alike_and_no_slot_is_left(domain: str) -> None:
    texts = [message.content for message in loaded(domain).conversation]
    assert len(set(texts)) == len(texts)
    prose = [re.sub(r"```.*?```|\\\(.*?\\\)|\\\[.*?\\\]", "", text, flags=re.DOTALL) for text in texts]
    if style_of(domain) == "general":
        assert not [text for text in prose if re.search(r"\{\w+\}", text)]
    assert not [text for text in texts if "->->" in text]


@pytest.mark.parametrize("domain", domains())
def test_every_bullet_is_told_in_a_message_that_is_linked_to_it(domain: str) -> None:
    by_bullet: dict[tuple[int, int], list[str]] = {}
    for batch in loaded(domain).conversation.batches:
        for turn in batch.turns:
            marker = turn.messages[0].marker
            if marker is not None and marker.bullets:
                by_bullet.setdefault((marker.batch, marker.bullets[0]), []).append(turn.messages[0].content)
    missing = 0
    for (_, batch), entries in world(domain).entries.items():
        for entry in entries:
            if entry.fact is None:
                continue
            told = " ".join(by_bullet.get((batch, entry.number), []))
            value = entry.fact.values.get("value", "") if entry.purpose != "contradiction" else ""
            missing += (
                entry.fact.thing.name.casefold() not in told.casefold() or value.casefold() not in told.casefold()
            )
    assert missing == 0


@pytest.mark.parametrize("domain", domains())
def test_each_subplan_has_an_update_an_instruction_and_a_contradiction(domain: str) -> None:
    for entries in world(domain).entries.values():
        assert [entry.purpose for entry in entries[-3:]] == ["update", "instruction", "contradiction"]


@pytest.mark.parametrize("domain", domains())
def test_updates_change_something_told_before_and_contradictions_deny_it(domain: str) -> None:
    places: dict[tuple[str, str], tuple[int, int, int]] = {}
    for entries in world(domain).entries.values():
        for entry in entries:
            if entry.fact is None:
                continue
            key = (entry.fact.thing.name, entry.fact.aspect.label)
            if entry.purpose == "fact":
                places[key] = entry.place
                continue
            assert places[key] < entry.place
            if entry.purpose == "update":
                assert entry.fact.revises is not None
                assert entry.fact.values["value"] != entry.fact.revises.values["value"]
            else:
                assert re.search(r"\b(never|not|no|nobody|nothing|yet)\b", entry.text)


@pytest.mark.parametrize("domain", domains())
def test_the_cited_messages_say_what_the_rubric_wants(domain: str) -> None:
    found = loaded(domain)
    messages = found.conversation.messages
    for gold in found.gold.values():
        if gold.ability in ("abstention", "instruction_following", "preference_following", "contradiction_resolution"):
            continue
        told = " ".join(messages[i].content for i in gold.evidence)
        if gold.ability in ("information_extraction", "knowledge_update"):
            for nugget in gold.rubric:
                value = nugget.partition(": ")[2]
                assert value.casefold() in told.casefold() or share(content(value), content(told)) > 0.9
        if gold.ability == "knowledge_update":
            updated = gold.extras["source_chat_ids"]["updated_info"]
            assert gold.reference.casefold() in messages[updated[0]].content.casefold()
        if gold.ability == "event_ordering":
            assert list(gold.evidence) == sorted(gold.evidence)
            assert len(gold.rubric) == len(gold.evidence)


@pytest.mark.parametrize("domain", domains())
def test_nothing_had_to_be_repaired(domain: str) -> None:
    entries = [row for stage in ("plans", "dialogue") for row in repairs_of(generated(domain) / "100K" / "1")[stage]]
    assert not entries


def test_the_same_seed_gives_the_same_bytes() -> None:
    """A digest made on another day: the same on every machine and Python version, or this fails."""
    found = {domain: digest(generated(domain) / "100K" / "1") for domain in ("Trip Planning", "Coding", "Math")}
    again = PLACES.enter_context(temporary_folder("beamlib-author-"))
    commission = Commission(usual_parameters("100K", generation_seed=SEED, domain="Math"))
    folder = commission.begin(again)
    make_plan_stage(commission, folder, Writing())
    make_question_stage(folder, Writing())
    make_dialogue_of_plan(folder, 0, Writing())
    make_probe_stage(folder, Writing())
    assert digest(folder) == found["Math"]
    assert len(set(found.values())) == 3


def digest(folder: Path) -> str:
    names = ("topic.json", "main_spec.txt", "plan_new.txt", "user_messages.json", "chat.json")
    files = [*names, "probing_questions/probing_questions.json", "candidates.json"]
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in files)).hexdigest()


def test_other_seeds_give_other_conversations() -> None:
    wanted = [usual_parameters("100K", generation_seed=seed, domain="Cooking") for seed in range(6)]
    stories = [Commission(one).story() for one in wanted]
    assert len({(story.profile.name, story.topic.title, story.timeline.start) for story in stories}) == 6


def test_questions_in_the_candidates_file_carry_their_checks(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = json.loads((generated("Coding") / "100K/1/candidates.json").read_text())
    assert sum(record["chosen"] for record in records) == 20
    assert all(not record["dropped"] for record in records if record["chosen"])
