"""The memories on a released conversation, with the offline stand-in, not a language model."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_offline import OfflineModel
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import find_conversations
from beamlib.memory import passage
from beamlib.memory.budget import passage_tokens
from beamlib.memory.full_context import FullContext
from beamlib.memory.light import Light, LightSettings
from beamlib.text import count_tokens


@pytest.fixture(scope="module")
def loaded(beam_data: Path) -> Loaded:
    return load(find_conversations(beam_data)[0])


@pytest.fixture(scope="module")
def light(loaded: Loaded) -> Light:
    memory = Light(OfflineModel(), LightSettings())
    memory.ingest(loaded.conversation)
    return memory


def test_light_recalls_what_the_conversation_holds(loaded: Loaded, light: Light) -> None:
    known = {message.id for message in loaded.conversation}
    newest = loaded.conversation.pairs[-1]
    for probe in loaded.probes:
        recollection = light.recall(probe.question)
        assert set(recollection.message_ids) <= known
        assert len(recollection.parts["episodic"]) == 2 * light.settings.k
        assert set(newest.message_ids) <= set(recollection.message_ids)
        assert count_tokens(recollection.context) <= light.settings.context_tokens
        assert recollection == light.recall(probe.question)


def test_the_pad_is_compressed_on_real_notes(loaded: Loaded) -> None:
    light = Light(OfflineModel(), LightSettings(scratchpad_threshold=2_000, scratchpad_target=1_000))
    light.ingest(loaded.conversation)
    assert light.scratchpad.compressions > 0
    assert count_tokens(light.pad) <= 2_000
    assert sum(chunk.tokens for chunk in light.chunks) >= count_tokens(light.pad)
    assert all(chunk.message_ids for chunk in light.chunks)


def test_every_budget_of_table_9_gives_its_pairs(loaded: Loaded, light: Light) -> None:
    for k in (5, 10, 15, 20):
        variant = light.variant(light.settings.model_copy(update={"k": k}))
        for probe in loaded.probes[:5]:
            recollection = variant.recall(probe.question)
            assert len(recollection.parts["episodic"]) == 2 * k
            assert count_tokens(recollection.context) <= variant.settings.context_tokens


def test_full_context_is_never_empty_around_the_conversations_own_size(loaded: Loaded) -> None:
    total = sum(passage_tokens(passage(pair).text) for pair in loaded.conversation.pairs)
    for window in (total - 1, total, total + 1, total + 2_000, total + 10_000):
        memory = FullContext(window, reserve_tokens=0)
        memory.ingest(loaded.conversation)
        shown = len(memory.recall("?").message_ids)
        assert shown == len(loaded.conversation.messages) - (0 if window >= total else 2)
