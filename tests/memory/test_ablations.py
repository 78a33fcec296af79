"""Each ablation of Table 8 changes the part it names and no other, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beam_offline import OfflineModel
from beamlib.data.loading import PAPER_TREATMENT, Loaded, load
from beamlib.data.sources import find_conversations
from beamlib.memory.light import Light, LightSettings
from beamlib.memory.protocol import NO_CUTS
from commands import beamlib


def joined(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))


def check_that_one_part_changes(loaded: Loaded, every: int = 3) -> None:
    base = Light(OfflineModel(), LightSettings())
    base.ingest(loaded.conversation)
    questions = [probe.question for probe in loaded.probes[::every]]

    def contexts(**switches: Any) -> list[str]:
        recollections = base.variant(base.settings.model_copy(update=switches)).recall_all(questions)
        assert all(recollection.cuts == NO_CUTS for recollection in recollections)
        return [recollection.context for recollection in recollections]

    unfiltered_notes = [chunk.text for chunk in base.chunks]
    assert unfiltered_notes and questions
    for whole, no_retrieval, no_pad, no_working, no_filter in zip(
        contexts(),
        contexts(use_retrieval=False),
        contexts(use_scratchpad=False),
        contexts(use_working=False),
        contexts(use_filter=False),
        strict=True,
    ):
        assert whole.startswith(no_pad) and whole.endswith(no_retrieval)
        episodic = whole.removesuffix(no_retrieval).removesuffix("\n\n")
        working = no_pad.removeprefix(episodic).removeprefix("\n\n")
        notes = whole.removeprefix(no_pad).removeprefix("\n\n")
        assert episodic.startswith("[messages ") and working.startswith("[messages ")
        assert notes == "" or notes.startswith("SCRATCHPAD\n")
        assert no_retrieval == joined(working, notes)
        assert no_pad == joined(episodic, working)
        assert no_working == joined(episodic, notes)
        assert no_filter == joined(no_pad, "SCRATCHPAD\n" + joined(*unfiltered_notes))


@pytest.mark.quick("100K")
@pytest.mark.parametrize("size", ["100K", "500K", "1M"])
def test_ablations_of_real_conversations(beam_data: Path, size: str) -> None:
    source = find_conversations(beam_data, [size])[0]
    check_that_one_part_changes(load(source, PAPER_TREATMENT))


@pytest.mark.slow
def test_ablations_of_a_generated_10m_conversation(tmp_path: Path) -> None:
    """Ten plans as in any 10M conversation, each with a fifth of its sub-plans."""
    options = ["--size", "10m", "--seed", "5", "--set", "subplans=[2, 2, 2]"]
    assert beamlib("generate", "--out", str(tmp_path / "data"), *options).returncode == 0
    (source,) = find_conversations(tmp_path / "data", ["10M"])
    check_that_one_part_changes(load(source, PAPER_TREATMENT), every=5)
