"""The stand-in's batched alignment against its pairwise one, on made-up lists."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_offline import OfflineModel
from beam_offline.judge import align_batch, align_events
from beamlib.llm.model import Prompt

WORDS = ("hive", "queen", "smoker", "harvest", "frame", "swarm", "wax", "feeder", "2024", "3.5", "[1]", "1.", "no", "{")
SNIPPETS = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)


def numbered(entries: Sequence[str]) -> str:
    return "\n".join(f"{number}. {entry}" for number, entry in enumerate(entries, start=1))


def pairwise(items: Sequence[str], nuggets: Sequence[str]) -> dict[str, list[int]]:
    """One `align_events` call for each item with each nugget."""
    return {
        str(number): [
            place
            for place, nugget in enumerate(nuggets, start=1)
            if align_events({"event": item, "nugget": nugget}) == "yes"
        ]
        for number, item in enumerate(items, start=1)
    }


def batched(items: str, nuggets: str) -> dict[str, list[int]]:
    prompt = Prompt("align_batch", {"items": items, "nuggets": nuggets})
    reply: dict[str, list[int]] = json.loads(asyncio.run(OfflineModel().complete(prompt)).text)
    return reply


@settings(deadline=None)
@given(st.lists(SNIPPETS, max_size=8), st.lists(SNIPPETS, max_size=8))
def test_one_call_gives_what_call_after_call_gives(items: list[str], nuggets: list[str]) -> None:
    reply = json.loads(align_batch({"items": numbered(items), "nuggets": numbered(nuggets)}))
    assert reply == pairwise(items, nuggets)


def test_each_item_is_decided_by_itself() -> None:
    items = numbered(["Swarm caught", "Buying a smoker", "The swarm was caught", "Selling wax"])
    nuggets = numbered(["Smoker purchase: buying it", "Swarm caught in May", "Painting the frames"])
    assert batched(items, nuggets) == {"1": [2], "2": [1], "3": [2], "4": []}


def test_all_nuggets_that_fit_are_named_in_order() -> None:
    assert batched(numbered(["Swarm caught"] * 2), numbered(["swarm caught"] * 2)) == {"1": [1, 2], "2": [1, 2]}


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ("", {}),
        ("1. ", {"1": []}),
        ("1.\n2. Swarm caught", {"1": [], "2": [1]}),
        ("1) Swarm caught", {"1": [1]}),
        ("1. Swarm\ncaught\n2. Wax", {"1": [1], "2": []}),  # a line without a number goes on with the entry before
        ("1. Swarm\n3. caught", {"1": [1]}),
    ],
)
def test_lists_are_read_by_their_numbers(items: str, expected: dict[str, list[int]]) -> None:
    assert batched(items, "1. Swarm caught by the barn") == expected
