"""Whole conversations by the offline author: what is told, asked and cited fits together, and old defects stay away."""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from beam_claims.data_check import check_folder
from beam_generate.authors import GenerationConfig
from beam_generate.pipeline import ConversationSpec, repairs_of
from beam_generate.probes.wording import content, share
from beam_generate.seeds import layouts_of, style_of, targets
from beam_offline.author.author import OfflineAuthor
from beam_offline.author.facts import Entry
from beam_offline.author.grammar import articles, to_you
from beam_offline.author.scenario import Scenario
from beam_offline.author.script import Measures, PlanScript
from beam_offline.author.word_bank import banks, long_bank
from beamlib.data.conversations import Size
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import find_conversations
from beamlib.files import temporary_folder
from beamlib.params import usual_parameters
from beamlib.text import count_tokens
from talking_model import hashes, make_stages

SEED = 11
DOMAINS = ("Trip Planning", "Health & Wellness", "Coding", "Math")
"""General, both of them, and the other two styles; every domain's bank is tested in test_banks.py."""
PLACES = ExitStack()
atexit.register(PLACES.close)  # a cache cannot take a fixture's folder


@cache
def generated(domain: str) -> Path:
    """The folder that holds one finished 100K conversation of a domain."""
    out = PLACES.enter_context(temporary_folder("beamlib-author-"))
    spec = ConversationSpec(usual_parameters("100K", generation_seed=SEED, domain=domain))
    make_stages(spec, out, GenerationConfig())
    return out


@cache
def loaded(domain: str) -> Loaded:
    return load(find_conversations(generated(domain))[0])


def scenario(domain: str, size: Size = "100K", seed: int = SEED) -> Scenario:
    return Scenario(ConversationSpec(usual_parameters(size, generation_seed=seed, domain=domain)).story())


def entries(scenario: Scenario) -> list[Entry]:
    return [entry for some in scenario.entries.values() for entry in some]


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_loader_reads_it_without_anything_to_note(domain: str) -> None:
    report = check_folder(generated(domain))
    assert not any(repairs_of(generated(domain) / "100K" / "1")[stage] for stage in ("plans", "dialogue"))
    assert not report.errors and not report.anomalies
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


@pytest.mark.parametrize("domain", DOMAINS)
def test_nothing_is_said_twice_and_the_assistant_never_speaks_as_the_user(domain: str) -> None:
    texts = [message.content for message in loaded(domain).conversation]
    assert len(set(texts)) == len(texts)
    assert not [text for text in map(_prose, texts) if re.search(r"\{\w+\}|\[\w+\||->->", text)]
    own = re.compile(r"\b(?:I'm|I've|my|myself|mine)\b")
    for message in loaded(domain).conversation:
        if message.role == "assistant":
            said = [line for line in _prose(message.content).splitlines() if not line.startswith(">")]
            spoken = re.sub(r"I'm (?:glad|here|happy)|In my view|my suggestions", "", " ".join(said))
            assert not own.search(spoken), spoken[:200]


def _prose(text: str, code: str = "") -> str:
    return re.sub(r"```.*?```|\\\(.*?\\\)|`[^`]*`", code, text, flags=re.DOTALL)


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_clause_stands_in_a_message_linked_to_its_bullet(domain: str) -> None:
    by_bullet: dict[tuple[int, int], str] = defaultdict(str)
    for message in (turn.messages[0] for turn in loaded(domain).conversation.turns):
        if message.marker is not None and message.marker.bullets:
            by_bullet[message.marker.batch, message.marker.bullets[0]] += f" {message.content}"
    for entry in entries(scenario(domain)):
        assert entry.clause.casefold() in by_bullet[entry.place[1:]].casefold()


@pytest.mark.parametrize("size", ["100K", "500K", "10M"])
def test_nothing_is_told_before_it_can_have_happened(size: Size) -> None:
    waited = 0
    for domain in DOMAINS:
        found = scenario(domain, size)
        for fact in (entry.fact for entry in entries(found) if entry.purpose == "fact"):
            if fact and fact.kind.after:
                known = [one for one in fact.strand.told if one.kind.key == fact.kind.after and one.place < fact.place]
                assert known and (known[-1].day is None or known[-1].day < found.today(*fact.place[:2]))
                waited += 1
    assert waited


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_long_conversation_tells_a_choice_and_its_reason_in_two_messages(domain: str) -> None:
    reasons = 0
    for strand in scenario(domain, "500K").strands:
        for fact in strand.told:
            if fact.kind.kind == "choice" and fact is strand.telling(fact.kind):
                assert fact.v in fact.clause and fact.reason not in fact.clause
                if because := strand.telling(fact.kind, fact):
                    reasons += because.place > fact.place and because.reason in because.clause
    assert reasons > 2


def test_answers_of_a_long_conversation_have_more_words_and_none_of_a_list_twice() -> None:
    found = scenario("Health & Wellness", "1M")
    script = PlanScript(found, 0, Measures(1_000_000, 20, 40))
    answers = [script.answer(turn, 0).text for turn in script.all_turns[:80]]
    words = re.findall(r"[a-z']+", " ".join(answers).lower())
    assert len(set(words[:45_000])) > 2_600
    for answer in answers:
        named = re.findall("|".join(map(re.escape, long_bank().words["mishap"])), answer)
        assert len(set(named)) == len(named)


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


@pytest.mark.quick("Trip Planning")
@pytest.mark.parametrize("domain", ["Trip Planning", "Coding", "Math"])
def test_the_same_seed_gives_the_same_bytes(domain: str, tmp_path: Path) -> None:
    """By two workers, whose sets and mappings are in another order."""
    command = [sys.executable, "-m", "beam_run", "generate", "--out", str(tmp_path), "--seed", str(SEED)]
    command += ["--domain", domain, "--workers", "2"]
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "2"}, check=True, timeout=240)
    assert hashes(tmp_path) == hashes(generated(domain))


@pytest.mark.parametrize("domain", list(banks()))
@pytest.mark.parametrize(("size", "seed"), [("100K", 41), ("500K", 43), ("1M", 44)])
def test_enough_deeds_are_denied_that_were_told_of_one_strand_alone(domain: str, size: Size, seed: int) -> None:
    """A conversation asks for two contradictions; in longer ones the same deed comes back with other strands."""
    every = entries(scenario(domain, size, seed))
    told = Counter(entry.clause for entry in every if entry.purpose == "fact")
    denied = [entry.fact for entry in every if entry.purpose == "contradiction" and entry.fact]
    assert sum(told[fact.clause] == 1 for fact in denied) >= (3 if size == "100K" else 6)


_CROOKED = {
    "a doubled word": re.compile(r"\b(?!that\b|had\b|very\b)([a-z]+) \1\b"),
    "doubled marks": re.compile(r"[,.:;?!] ?[,.:;?!]| [,.:;?!]"),
    "an unfilled slot": re.compile(r"[{}\[\]|<>]|//|->"),
    "a small letter": re.compile(r"^[a-z]|(?<!\d)[.?!] [a-z]|\bi\b"),
    "a joint": re.compile(r"\b(?:and|but|so|because) (?:and|but|because)\b|, (?:and|but)[,.]", re.IGNORECASE),
    "a pronoun's case": re.compile(
        r"\b(?:what|whatever|when|before|whether) (?:me|them|him|her) \w|\bme (?:are|am)\b"
        r"|\b(?:to|for|with|from|of|about) I\b|\bI (?:are|is|were)\b"
    ),
}


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("domain", sorted(banks()))
def test_no_message_of_a_user_is_crooked_and_each_asks_one_thing(domain: str, seed: int) -> None:
    script = OfflineAuthor(scenario(domain, "100K", seed).story).script(0)
    for step in (step for turn in script.all_turns for step in turn.steps):
        text = _prose(step.text, "code")
        for what, pattern in _CROOKED.items():
            found = pattern.search(text)
            assert not found, f"{what} ({found and found[0]!r}): {step.text}"
        assert articles(text) == text
        assert text.count("?") <= (2 if step.purpose == "reply" else 1), step.text
