"""Worlds of the offline author hold what questions need, in every domain and at every size."""

from __future__ import annotations

from collections import Counter

import pytest

from beam_generate.pipeline import ConversationSpec
from beam_offline.author.word_bank import banks
from beam_offline.author.world import World
from beamlib.data.conversations import Size
from beamlib.params import usual_parameters


@pytest.mark.parametrize("domain", list(banks()))
@pytest.mark.parametrize(("size", "seed"), [("100K", 41), ("500K", 42), ("500K", 43), ("1M", 44)])
def test_enough_deeds_are_denied_that_were_told_of_one_strand_alone(domain: str, size: Size, seed: int) -> None:
    """A conversation asks for two contradictions; in longer ones the same deed comes back with other strands."""
    world = World(ConversationSpec(usual_parameters(size, generation_seed=seed, domain=domain), 1).story())

    entries = [entry for found in world.entries.values() for entry in found if entry.fact is not None]
    told = Counter(entry.clause for entry in entries if entry.purpose == "fact")
    denied = [entry.fact for entry in entries if entry.purpose == "contradiction" and entry.fact]
    assert sum(told[fact.clause] == 1 for fact in denied) >= (3 if size == "100K" else 6)
