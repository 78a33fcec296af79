"""From a source to a conversation, its probes and, apart from them, its gold.

This module reaches gold: memories, retrieval, models and generation must not import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from beamlib.benchmark.chat import ChatParser
from beamlib.benchmark.errata import flagged_probes, spoilt_probes
from beamlib.benchmark.gold import Gold
from beamlib.benchmark.model import Batch, Conversation, Message, Probe, Seed
from beamlib.benchmark.questions import parse_questions
from beamlib.benchmark.reading import Anomaly, check_text, is_a, need, need_text, show
from beamlib.benchmark.released import Parts, read_released
from beamlib.benchmark.sources import Source
from beamlib.benchmark.treatment import Treatment
from beamlib.files import sha256, to_json

PAPER = Treatment()
"""The default treatment: the chats the paper evaluated, markers taken out, known defects listed."""


@dataclass(frozen=True)
class Loaded:
    """A conversation under one treatment, with its questions.

    `probes` are in file order, `gold` is by probe id. `anomalies` lists everything odd that was handled. `flagged` are
    the probes that `errata.json` names: present under `flag`; under `drop` removed from `probes` and `gold` where
    the defect can spoil a score, not where only the cited messages are wrong; not looked for under `none`.
    """

    conversation: Conversation
    probes: tuple[Probe, ...]
    gold: Mapping[str, Gold]
    anomalies: tuple[Anomaly, ...]
    flagged: tuple[str, ...]


def load(source: Source, treatment: Treatment = PAPER) -> Loaded:
    """Read one conversation. Whatever breaks the published format is a `UserError` naming file, field and value."""
    if source.kind == "released":
        parts = read_released(source, treatment.chat_variant)
    else:
        from beamlib.benchmark.hub import read_hub  # here, because pyarrow takes 0.2 s to import

        parts = read_hub(source, treatment.chat_variant)
    parser = ChatParser(strip_markers=treatment.strip_markers)
    batches = tuple(
        batch
        for plan in parts.plans
        for batch in parser.plan(plan.value, plan.log, plan=plan.plan, where=plan.where, restart=plan.restart)
    )
    if not parser.next_id:
        parts.log.fail("", "the chat has no message")
    seed = _seed(parts)
    conversation = Conversation(
        id=source.id,
        size=source.size,
        seed=seed,
        batches=batches,
        variant=parts.variant,
        strip_markers=treatment.strip_markers,
        sha256=content_hash(seed, batches),
        removed=parser.removed_by_variant(),
    )
    try:
        probes, gold = parse_questions(parts.questions, source.id, range(parser.next_id), parts.questions_log)
    except RecursionError:
        parts.questions_log.fail("", "nested too deeply to be twenty questions")
    flagged = () if treatment.errata == "none" else flagged_probes(probes)
    if treatment.errata == "drop":
        spoilt = spoilt_probes(probes)
        probes = tuple(probe for probe in probes if probe.id not in spoilt)
        gold = {probe.id: gold[probe.id] for probe in probes}
    return Loaded(conversation, probes, gold, parts.anomalies(), flagged)


def content_hash(seed: Seed, batches: tuple[Batch, ...]) -> str:
    """SHA-256 of everything a memory can see, in one canonical order."""
    return sha256(
        to_json(
            [
                [seed.category, seed.title, seed.theme, list(seed.subtopics)],
                [
                    [
                        batch.plan,
                        batch.number,
                        batch.time_anchor,
                        [[_message(message) for message in turn.messages] for turn in batch.turns],
                    ]
                    for batch in batches
                ],
            ]
        )
    )


def _message(message: Message) -> list[object]:
    marker = message.marker
    coordinates = [marker.batch, list(marker.bullets), marker.remark, marker.variant] if marker else None
    return [message.id, message.role, message.kind, message.content, coordinates]


def _seed(parts: Parts) -> Seed:
    value, log = parts.seed, parts.seed_log
    if not is_a(value, dict):
        log.fail("", f"expected an object, not {show(value)}")
    if not is_a(value.get("id"), int):
        log.note("seed_id", "", f"`id` is {show(value.get('id'))} where a whole number belongs; it is not used")
    subtopics = need(value, "subtopics", list, log, "")
    for number, item in enumerate(subtopics):
        if not is_a(item, str):
            log.fail("", f"subtopic {number} must be text, not {show(item)}")
        check_text(item, f"subtopic {number}", log, "")
    return Seed(
        category=need_text(value, "category", log, ""),
        title=need_text(value, "title", log, ""),
        theme=check_text(need(value, "theme", str, log, ""), "theme", log, ""),
        subtopics=tuple(subtopics),
    )
