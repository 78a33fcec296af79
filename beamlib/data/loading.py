"""Load a source as a conversation, its probes and, apart from them, its gold.

This module reaches gold: memories, retrieval, models and generation must not import it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from beamlib.data.chat import ChatParser
from beamlib.data.checked_json import Anomaly, DataFile, Unreadable, is_a, is_writable, show
from beamlib.data.conversations import Batch, Conversation, Message, Probe, Seed, Treatment
from beamlib.data.errata import corrected_rubrics, flagged_probes, spoilt_probes
from beamlib.data.gold import Gold
from beamlib.data.probes import parse_questions
from beamlib.data.released_layout import Parts, read_question_file, read_released
from beamlib.data.sources import Source
from beamlib.files import sha256, to_json

PAPER_TREATMENT = Treatment()
"""The default treatment: the chats that the paper evaluated, markers stripped, known defects flagged."""


@dataclass(frozen=True)
class Loaded:
    """A conversation under one treatment, with its questions.

    Attributes:
        probes: In file order, without those that the treatment's `errata` or `per_ability` leaves out.
        gold: By probe id. Under `errata: correct` with the corrected rubrics.
        anomalies: Everything odd that was handled.
        flagged: Probes that `errata.json` names; empty under `errata: none`.
        files: The files that were read.
    """

    conversation: Conversation
    probes: tuple[Probe, ...]
    gold: Mapping[str, Gold]
    anomalies: tuple[Anomaly, ...]
    flagged: tuple[str, ...]
    source: Source
    files: tuple[DataFile, ...]


def load(source: Source, treatment: Treatment = PAPER_TREATMENT) -> Loaded:
    """Load one conversation.

    Raises:
        Unreadable: If something that is asked, recalled or scored is broken.
    """
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
        (parts.chat_logs or [parts.log])[-1].fail("the chat has no message")
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
    spoilt = spoilt_probes(probes, treatment.errata)
    if treatment.errata == "strict":
        from beamlib.data.readings import doubted_probes  # here, because no other mode needs the readings

        spoilt |= doubted_probes(probes)
    if spoilt:
        probes = tuple(probe for probe in probes if probe.id not in spoilt)
    if treatment.per_ability:
        probes = balanced_slice(probes, gold, treatment.per_ability)
    gold = {probe.id: gold[probe.id] for probe in probes}
    if treatment.errata == "correct":
        gold |= {name: replace(gold[name], rubric=rubric) for name, rubric in corrected_rubrics(probes).items()}
    return Loaded(conversation, probes, gold, parts.anomalies(), flagged, source, parts.files())


def balanced_slice(probes: Sequence[Probe], gold: Mapping[str, Gold], most: int) -> tuple[Probe, ...]:
    """Choose at most `most` questions of each ability, in their order; a larger slice holds the smaller ones.

    They are chosen by a hash of their text, so the choice knows neither the place of a question nor any answer.
    """

    def rank(probe: Probe) -> tuple[str, str]:
        return sha256(to_json([probe.conversation_id, probe.question])), probe.id

    chosen = Counter[str]()
    kept = set()
    for probe in sorted(probes, key=rank):
        ability = gold[probe.id].ability
        if chosen[ability] < most:
            chosen[ability] += 1
            kept.add(probe.id)
    return tuple(probe for probe in probes if probe.id in kept)


def load_questions(source: Source) -> tuple[tuple[Probe, ...], dict[str, Gold], tuple[Anomaly, ...]]:
    """Load the questions of a released folder without a chat; every id that they cite counts as present."""
    value, log = read_question_file(source)
    probes, gold = parse_questions(value, source.id, range(sys.maxsize), log)
    return probes, gold, tuple(log.anomalies)


def readable(
    sources: Iterable[Source],
    treatment: Treatment = PAPER_TREATMENT,
    *,
    skip_broken: bool = False,
    left_out: dict[str, str] | None = None,
) -> Iterator[Loaded]:
    """Load conversations one after the other.

    Args:
        skip_broken: Skip `Unreadable` conversations and put their reasons into `left_out`.

    Raises:
        Unreadable: For the first broken conversation without `skip_broken`, or if none can be read.
    """
    first: Unreadable | None = None
    loaded_any = False
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
        loaded_any = True
        yield loaded
    if first is not None and not loaded_any:
        raise first


def content_hash(seed: Seed, batches: tuple[Batch, ...]) -> str:
    """Hash everything a memory can see, in one canonical order."""
    seed_values = [seed.category, seed.title, seed.theme, list(seed.subtopics)]

    def values(message: Message) -> list[object]:
        marker = message.marker
        coordinates = [marker.batch, list(marker.bullets), marker.remark, marker.variant] if marker else None
        return [message.id, message.role, message.kind, message.content, coordinates]

    batch_values = [
        [batch.plan, batch.number, batch.time_anchor, [list(map(values, turn.messages)) for turn in batch.turns]]
        for batch in batches
    ]
    return sha256(to_json([seed_values, batch_values]))


def _seed(parts: Parts) -> Seed:
    """Read as much of the seed as is readable: it is displayed, and nothing is asked, recalled or scored with it."""
    value, log = parts.seed, parts.seed_log
    if not is_a(value, dict):
        log.note("seed_field", f"expected an object, not {show(value)}; left empty")
        return Seed("", "")
    if not is_a(value.get("id"), int):
        log.note("seed_field", f"`id` is {show(value.get('id'))} where a whole number belongs; it is not used")

    def text(key: str, item: object) -> str:
        if isinstance(item, str) and item.strip() and is_writable(item):
            return item
        log.note("seed_field", f"`{key}` is {show(item)} where text belongs; left empty")
        return ""

    category, title, theme = (text(key, value.get(key)) for key in ("category", "title", "theme"))
    subtopics = value.get("subtopics")
    if not is_a(subtopics, list):
        log.note("seed_field", f"`subtopics` is {show(subtopics)} where a list belongs; left empty")
        subtopics = []
    return Seed(category, title, theme, tuple(text(f"subtopic {n}", item) for n, item in enumerate(subtopics)))
