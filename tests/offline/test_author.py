"""Whole conversations by the offline author: what is told, asked and cited fits together, and old defects stay away."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from beam_claims.data_check import check_folder
from beam_generate.casting import GenerationConfig
from beam_generate.layouts import layouts_of, targets
from beam_generate.pipeline import (
    JOURNAL,
    ConversationSpec,
    make_dialogue_of_plan,
    make_plan_stage,
    make_probe_stage,
    make_question_stage,
    repairs_of,
)
from beam_generate.probes.wording import content, share
from beam_generate.seeds import style_of
from beam_offline.author.author import OfflineAuthor, share_of
from beam_offline.author.examiner import QuestionWriter
from beam_offline.author.grammar import to_you
from beam_offline.author.world import World
from beamlib.data.conversations import Size
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import find_conversations
from beamlib.files import temporary_folder
from beamlib.params import usual_parameters
from beamlib.text import count_tokens

SEED = 11
DOMAINS = ("Trip Planning", "Health & Wellness", "Coding", "Math")
"""General, both of them, and the other two styles; every domain's bank is tested in test_banks.py."""
PLACES = ExitStack()
atexit.register(PLACES.close)  # a cache cannot take a fixture's folder


@cache
def generated(domain: str) -> Path:
    """The folder that holds one finished 100K conversation of a domain."""
    out = PLACES.enter_context(temporary_folder("beamlib-author-"))
    spec, writing = ConversationSpec(usual_parameters("100K", generation_seed=SEED, domain=domain)), GenerationConfig()
    folder = spec.begin(out)
    make_plan_stage(spec, folder, writing)
    make_question_stage(folder, writing)
    make_dialogue_of_plan(folder, 0, writing)
    make_probe_stage(folder, writing)
    return out


@cache
def loaded(domain: str) -> Loaded:
    return load(find_conversations(generated(domain))[0])


def world(domain: str, size: Size = "100K", seed: int = SEED) -> World:
    return World(ConversationSpec(usual_parameters(size, generation_seed=seed, domain=domain)).story())


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_loader_reads_it_without_anything_to_note(domain: str) -> None:
    report = check_folder(generated(domain))
    assert not report.errors
    assert not report.anomalies
    assert len(loaded(domain).probes) == 20
    assert Counter(gold.ability for gold in loaded(domain).gold.values()).most_common()[-1][1] == 2


@pytest.mark.parametrize("domain", DOMAINS)
def test_size_and_shape_are_those_asked_for(domain: str) -> None:
    conversation, goal = loaded(domain).conversation, targets("100K")
    tokens = sum(count_tokens(message.content) + 4 for message in conversation)
    assert abs(tokens / goal.tokens - 1) < 0.05
    wanted = layouts_of(usual_parameters("100K"))[style_of(domain)]
    most = wanted.subplans * (wanted.groups * wanted.questions + 3)
    mains = sum(message.kind == "main_question" for message in conversation)
    assert 0.9 * most <= mains <= most
    if style_of(domain) == "general":
        assert abs(mains / goal.turns - 1) < 0.15


def test_replies_and_followups_spread_as_released_and_keep_the_published_means() -> None:
    goal = targets("100K")
    stories = [
        ConversationSpec(usual_parameters("100K", generation_seed=SEED), number).story() for number in range(1, 41)
    ]
    replies, followups = zip(*(share_of(story, goal.answered, goal.followups) for story in stories), strict=True)
    for counts, mean in ((replies, goal.answered), (followups, goal.followups)):
        assert abs(sum(counts) / len(counts) / mean - 1) < 0.05
        assert min(counts) < 0.3 * mean
        assert max(counts) > 2 * mean


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_two_messages_are_alike_and_no_slot_or_word_is_doubled(domain: str) -> None:
    texts = [message.content for message in loaded(domain).conversation]
    assert len(set(texts)) == len(texts)
    prose = [_prose(text) for text in texts]
    assert not [text for text in prose if re.search(r"\{\w+\}|\[\w+\||->->", text)]
    doubled = re.compile(r"\b(?!that\b|had\b|very\b)([a-z]+) \1\b")
    assert not [found[0] for text in prose if (found := doubled.search(text))]


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_assistant_never_speaks_as_the_user(domain: str) -> None:
    own = re.compile(r"\b(?:I'm|I've|my|myself|mine)\b")
    for message in loaded(domain).conversation:
        if message.role == "assistant":
            said = [line for line in _prose(message.content).splitlines() if not line.startswith(">")]
            spoken = (
                re.sub(r"I'm (?:glad|here|happy)", "", " ".join(said))
                .replace("In my view", "")
                .replace("my suggestions", "")
            )
            assert not own.search(spoken), spoken[:200]


def _prose(text: str) -> str:
    return re.sub(r"```.*?```|\\\(.*?\\\)|`[^`]*`", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_clause_stands_in_a_message_linked_to_its_bullet(domain: str) -> None:
    by_bullet: dict[tuple[int, int], str] = {}
    for batch in loaded(domain).conversation.batches:
        for turn in batch.turns:
            marker = turn.messages[0].marker
            if marker is not None and marker.bullets:
                key = (marker.batch, marker.bullets[0])
                by_bullet[key] = f"{by_bullet.get(key, '')} {turn.messages[0].content}"
    for entries in world(domain).entries.values():
        for entry in entries:
            assert entry.clause.casefold() in by_bullet.get(entry.place[1:], "").casefold()


@pytest.mark.parametrize("domain", DOMAINS)
def test_each_subplan_has_its_three_and_each_changes_or_denies_what_was_told(domain: str) -> None:
    told: dict[tuple[int, str], tuple[int, int, int]] = {}
    for entries in world(domain).entries.values():
        assert [entry.purpose for entry in entries[-3:]] == ["update", "instruction", "contradiction"]
        for entry in entries:
            if entry.fact is None:
                continue
            if entry.purpose == "fact":
                told.setdefault(entry.fact.key, entry.place)
                continue
            assert told[entry.fact.key] < entry.place
            if entry.purpose == "update":
                assert entry.fact.revises is not None
                assert entry.fact.v != entry.fact.revises.v
            else:
                assert " never " in entry.clause


@pytest.mark.parametrize("size", ["100K", "500K", "10M"])
def test_nothing_is_told_before_it_can_have_happened(size: Size) -> None:
    waited = 0
    for domain in DOMAINS:
        found = world(domain, size)
        for entries in found.entries.values():
            for entry in entries:
                fact = entry.fact
                if fact is None or entry.purpose != "fact" or not fact.kind.after:
                    continue
                known = [one for one in fact.strand.told if one.kind.key == fact.kind.after and one.place < fact.place]
                assert known
                assert known[-1].day is None or known[-1].day < found.today(*fact.place[:2])
                waited += 1
    assert waited


@pytest.mark.parametrize("size", ["100K", "10M"])
def test_one_instruction_alone_bears_on_a_request(size: Size) -> None:
    for domain in DOMAINS:
        entries = [one for found in world(domain, size).entries.values() for one in found if one.rule is not None]
        assert len({one.occasion for one in entries}) == len(entries)


def test_nuggets_belong_to_a_probe_and_not_to_the_words_of_its_question() -> None:
    author = OfflineAuthor(world("Trip Planning").story)
    examiner = QuestionWriter(author.world, author.script)
    found = []
    for candidate in examiner.candidates("instruction_following", "[0.1.1]"):
        told = candidate["about"].removeprefix("the instruction: ")
        asked = examiner.question("instruction_following", f"[{candidate['bullets'][0]}]", f"[message 5, user] {told}")
        assert asked["evidence"] == [5]
        found.append(asked)
    assert len(found) >= 4
    for asked in found:
        # As the pipeline asks: the question's words alone would not tell two instructions apart.
        named = {"ability": "instruction_following", "question": asked["question"], "reference": asked["answer"]}
        assert examiner.nuggets(named) == [
            f"LLM response should contain: {one}" for one in asked["compliance_indicators"]
        ]
        assert examiner.nuggets({**named, "reference": "another answer"}) == []


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_cited_messages_say_what_the_rubric_wants(domain: str) -> None:
    found = loaded(domain)
    messages = found.conversation.messages
    for gold in found.gold.values():
        told = " ".join(messages[i].content for i in gold.evidence)
        if gold.ability in ("information_extraction", "knowledge_update"):
            for nugget in gold.rubric:
                value = nugget.partition(": ")[2]
                assert value.casefold() in to_you(told).casefold() or share(content(value), content(told)) > 0.9
        if gold.ability == "knowledge_update":
            updated = gold.extras["source_chat_ids"]["updated_info"]
            assert gold.reference.casefold() in messages[updated[0]].content.casefold()
        if gold.ability == "event_ordering":
            assert list(gold.evidence) == sorted(gold.evidence)
            assert len(gold.rubric) == len(gold.evidence)


def test_a_problem_of_mathematics_is_asked_once() -> None:
    asked = [
        re.findall(r"\\\(.*?\\\)", one.content) for one in loaded("Math").conversation if one.kind == "main_question"
    ]
    shown = [tuple(found) for found in asked if found]
    assert len(shown) > 20
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize("domain", DOMAINS)
def test_nothing_had_to_be_repaired(domain: str) -> None:
    entries = [row for stage in ("plans", "dialogue") for row in repairs_of(generated(domain) / "100K" / "1")[stage]]
    assert not entries


@pytest.mark.parametrize("domain", ["Trip Planning", "Coding", "Math"])
def test_the_same_seed_gives_the_same_bytes(domain: str, tmp_path: Path) -> None:
    """Killed in the dialogue and gone on with by two workers, whose sets and mappings are in another order."""
    command = [sys.executable, "-m", "beam_run", "generate", "--out", str(tmp_path), "--seed", str(SEED)]
    command += ["--domain", domain, "--workers"]
    folder = tmp_path / "100K" / "1"
    process = subprocess.Popen([*command, "1"], env={**os.environ, "PYTHONHASHSEED": "1"}, start_new_session=True)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline and not (folder / JOURNAL).exists():
        time.sleep(0.005)
    assert process.poll() is None, "it ended before it was killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run([*command, "2"], env={**os.environ, "PYTHONHASHSEED": "2"}, check=True, timeout=240)
    assert digest(folder) == digest(generated(domain) / "100K" / "1")


def digest(folder: Path) -> str:
    names = ("topic.json", "main_spec.txt", "plan_new.txt", "user_messages.json", "chat.json")
    files = [*names, "probing_questions/probing_questions.json", "candidates.json"]
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in files)).hexdigest()


def test_other_seeds_give_other_conversations() -> None:
    wanted = [usual_parameters("100K", generation_seed=seed, domain="Trip Planning") for seed in range(6)]
    stories = [ConversationSpec(one).story() for one in wanted]
    assert len({(story.profile.name, story.topic.title, story.timeline.start) for story in stories}) == 6


def test_questions_in_the_candidates_file_carry_their_checks(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = json.loads((generated("Coding") / "100K/1/candidates.json").read_text())
    assert sum(record["chosen"] for record in records) == 20
    assert all(not record["dropped"] for record in records if record["chosen"])
