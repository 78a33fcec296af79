"""Packing at 32K, where not all fits: one allocation per question, whatever K is and whichever part is left out."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam_offline import OfflineModel
from beamlib.data.conversations import Conversation
from beamlib.data.loading import PAPER_TREATMENT, load
from beamlib.data.sources import find_conversations
from beamlib.memory.budget import passage_tokens
from beamlib.memory.light import Light, LightSettings, newest_pairs
from beamlib.memory.protocol import RetrievedContext, passage

WINDOW = 32_768
DEPTHS = (5, 10, 15, 20)


def contexts(light: Light, questions: list[str], **changes: Any) -> list[RetrievedContext]:
    recalled = light.variant(light.settings.model_copy(update=changes)).recall_all(questions)
    assert all(isinstance(context, RetrievedContext) for context in recalled)
    return recalled  # type: ignore[return-value]


def check_packing(light: Light, questions: list[str]) -> None:
    """Compare the parts of every K and every ablation byte for byte, and look for room beside a dropped pair."""
    settings, counter = light.settings, light.settings.counter
    by_depth = {k: contexts(light, questions, k=k) for k in DEPTHS}
    without = {
        part: contexts(light, questions, k=20, **{part: False})
        for part in ("use_retrieval", "use_scratchpad", "use_working", "use_filter")
    }
    for place, question in enumerate(questions):
        complete = by_depth[20][place]
        bare, no_pad = without["use_retrieval"][place].context, without["use_scratchpad"][place].context
        no_working, unfiltered = without["use_working"][place].context, without["use_filter"][place].context
        assert complete.context.endswith(bare) and complete.context.startswith(no_pad)
        episodic = complete.context.removesuffix(bare).rstrip("\n")
        notes = complete.context.removeprefix(no_pad).lstrip("\n")
        assert no_working == "\n\n".join(filter(None, (episodic, notes)))
        assert unfiltered.startswith(no_pad)
        for fewer, more in itertools.pairwise(DEPTHS):
            ids = [set(by_depth[k][place].parts.get("episodic", ())) for k in (fewer, more)]
            assert ids[0] <= ids[1]
        for k in DEPTHS:
            assert by_depth[k][place].context.endswith(bare)
            context = by_depth[k][place]
            assert counter.count(context.context) <= settings.context_tokens
            unused = settings.context_tokens - counter.count(context.context)
            shown = set(context.message_ids)
            for pair in light.retrieved(question, k):
                if not shown.issuperset(pair.message_ids):
                    # Sizes are counted by piece: the whole may have a few tokens fewer.
                    assert passage_tokens(passage(pair).text, counter) > unused - 2 * len(context.parts)
    base = by_depth[5]
    for context in base:
        for item in newest_pairs(light.pairs, settings.working_pairs):
            if set(item.message_ids) - set(context.message_ids):
                assert passage_tokens(item.text, counter) > settings.context_tokens - counter.count(context.context)


@pytest.mark.quick("beam-100K-0")
@pytest.mark.parametrize(
    ("folder", "size", "place"), [("beam", "100K", 0), ("beam_500k", "500K", 0), ("beam_1m", "1M", 0)]
)
def test_real_conversations_at_32k(shared: Path, folder: str, size: str, place: int) -> None:
    loaded = load(find_conversations(shared / "data" / folder, [size])[place], PAPER_TREATMENT)
    light = Light(OfflineModel(), LightSettings(reader_window=WINDOW))
    light.ingest(loaded.conversation)
    check_packing(light, [probe.question for probe in loaded.probes[::4]])


def test_long_notes_and_pairs_of_all_lengths(make_conversation: Callable[..., Conversation], make_model: Any) -> None:
    lengths = [40 * (1 + 7 * i % 23) for i in range(30)]
    turns = [[(f"item{i} " + "long " * length, "words " * length)] for i, length in enumerate(lengths)]
    model = make_model(scratchpad_notes=lambda v: "note " * 140, scratchpad_filter=lambda v: "yes")
    light = Light(model, LightSettings(reader_window=12_000, retriever="bm25", k=20))
    light.ingest(make_conversation(turns))
    check_packing(light, [f"item{i}" for i in (3, 11, 29)])
    unfiltered = contexts(light, ["item3"], use_filter=False)[0]
    assert unfiltered.cuts.chunks_dropped > 0  # what does not fit is counted
