"""From a source to a conversation, its probes and, apart from them, its gold.

This module reaches gold: memories, retrieval, models and generation must not import it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from beamlib.data.chat import ChatParser
from beamlib.data.checked_json import Anomaly, Unreadable, is_a, is_writable, show
from beamlib.data.checksums import DataFile
from beamlib.data.conversations import Batch, Conversation, Message, Probe, Seed, Treatment
from beamlib.data.errata import flagged_probes, spoilt_probes
from beamlib.data.gold import Gold
from beamlib.data.probes import parse_questions
from beamlib.data.released_layout import Parts, read_questions, read_released
from beamlib.data.sources import Source
from beamlib.files import sha256, to_json

PAPER = Treatment()
"""The default treatment: the chats the paper evaluated, markers taken out, known defects listed."""


@dataclass(frozen=True)
class Loaded:
    """A conversation under one treatment, with its questions.

    `probes` are in file order, `gold` is by probe id. `anomalies` lists everything odd that was handled. `flagged` are
    the probes that `errata.json` names: present under `flag`; under `drop` removed from `probes` and `gold` where
    the defect can spoil a score, not where only the cited messages are wrong; not looked for under `none`. `source` is
    where it lies, `files` are those that were read.
    """

    conversation: Conversation
    probes: tuple[Probe, ...]
    gold: Mapping[str, Gold]
    anomalies: tuple[Anomaly, ...]
    flagged: tuple[str, ...]
    source: Source
    files: tuple[DataFile, ...]


def load(source: Source, treatment: Treatment = PAPER) -> Loaded:
    """Read one conversation. What cannot be asked, recalled or scored is `Unreadable`: file, field, value and fix."""
    if source.kind == "released":
        parts = read_released(source, treatment.chat_variant)
    else:
        from beamlib.data.hub import read_hub  # here, because pyarrow takes 0.2 s to import

        parts = read_hub(source, treatment.chat_variant)
    parser = ChatParser(strip_markers=treatment.strip_markers)
    batches = tuple(
        batch
        for plan in parts.plans
        for batch in parser.plan(plan.value, plan.log, plan=plan.plan, where=plan.where, restart=plan.restart)
    )
    if not parser.ids:
        (parts.chat_logs or [parts.log])[-1].fail("", "the chat has no message")
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
    probes, gold = parse_questions(parts.questions, source.id, parser.ids, parts.questions_log)
    flagged = () if treatment.errata == "none" else flagged_probes(probes)
    if treatment.errata == "drop":
        spoilt = spoilt_probes(probes)
        probes = tuple(probe for probe in probes if probe.id not in spoilt)
        gold = {probe.id: gold[probe.id] for probe in probes}
    return Loaded(conversation, probes, gold, parts.anomalies(), flagged, source, parts.files())


def load_questions(source: Source) -> tuple[tuple[Probe, ...], dict[str, Gold], tuple[Anomaly, ...]]:
    """The questions alone of a released folder that has no chat: every id that they cite counts as there."""
    value, log = read_questions(source)
    probes, gold = parse_questions(value, source.id, range(sys.maxsize), log)
    return probes, gold, tuple(log.anomalies)


def readable(
    sources: Iterable[Source],
    treatment: Treatment = PAPER,
    *,
    skip_broken: bool = False,
    left_out: dict[str, str] | None = None,
) -> Iterator[Loaded]:
    """Load one after the other. With `skip_broken` one that is `Unreadable` goes, with its reason, to `left_out`.

    Where none can be read, the first one's `Unreadable` is raised all the same.
    """
    first: Unreadable | None = None
    anything = False
    for source in sources:
        try:
            loaded = load(source, treatment)
        except Unreadable as error:
            if not skip_broken:
                raise
            first = first or error
            if left_out is not None:
                left_out[source.id] = error.reason
            continue
        anything = True
        yield loaded
    if first is not None and not anything:
        raise first


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
    """The seed as far as it can be read: it is shown, and nothing is asked, recalled or scored with it."""
    value, log = parts.seed, parts.seed_log
    if not is_a(value, dict):
        log.note("seed_field", "", f"expected an object, not {show(value)}; left empty")
        return Seed("", "")
    if not is_a(value.get("id"), int):
        log.note("seed_field", "", f"`id` is {show(value.get('id'))} where a whole number belongs; it is not used")

    def text(key: str, item: Any) -> str:
        if is_a(item, str) and item.strip() and is_writable(item):
            return str(item)
        log.note("seed_field", "", f"`{key}` is {show(item)} where text belongs; left empty")
        return ""

    subtopics = value.get("subtopics")
    if not is_a(subtopics, list):
        log.note("seed_field", "", f"`subtopics` is {show(subtopics)} where a list belongs; left empty")
        subtopics = []
    return Seed(
        category=text("category", value.get("category")),
        title=text("title", value.get("title")),
        theme=text("theme", value.get("theme")),
        subtopics=tuple(text(f"subtopic {number}", item) for number, item in enumerate(subtopics)),
    )
