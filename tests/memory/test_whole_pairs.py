"""Retrieved pairs stand in the context whole, or the recollection counts those that do not (section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_offline import OfflineModel
from beamlib.data.conversations import Conversation
from beamlib.data.loading import PAPER_TREATMENT, load
from beamlib.data.sources import find_conversations
from beamlib.memory.budget import JOINT_TOKENS, LEAST_TOKENS, fit_pairs, passage_tokens
from beamlib.memory.light import Light, LightSettings
from beamlib.memory.protocol import NO_CUTS, Passage, passage
from beamlib.memory.rag import Rag

BUDGETS = (5, 10, 15, 20)
LENGTHS = st.lists(st.integers(1, 400), min_size=1, max_size=12)


@given(LENGTHS, st.integers(LEAST_TOKENS + JOINT_TOKENS, 1_500))
def test_pairs_are_whole_in_rank_order_until_one_does_not_fit(lengths: list[int], tokens: int) -> None:
    ranked = [Passage("word " * length, (place,)) for place, length in enumerate(lengths)]
    shown, cuts = fit_pairs(ranked, tokens)
    assert sum(passage_tokens(item.text) for item in shown) <= tokens
    assert [item.message_ids for item in shown] == [item.message_ids for item in ranked[: len(shown)]]
    assert shown, "the best pair is always there"
    whole = [item.text == original.text for item, original in zip(shown, ranked, strict=False)]
    assert cuts.pairs_shortened == whole.count(False)
    assert cuts.pairs_dropped == len(ranked) - len(shown)
    for is_whole, original in zip(whole, ranked, strict=False):
        assert is_whole == (passage_tokens(original.text) <= tokens), "only what fits into no context is shortened"


@given(LENGTHS, st.integers(LEAST_TOKENS + JOINT_TOKENS, 1_500))
def test_more_pairs_never_change_what_fewer_show(lengths: list[int], tokens: int) -> None:
    """With pairs that are longer than all the room among them, too: only K varies in Table 9."""
    ranked = [Passage("word " * length, (place,)) for place, length in enumerate(lengths)]
    smaller: list[Passage] = []
    for k in range(1, len(ranked) + 1):
        shown, _ = fit_pairs(ranked[:k], tokens)
        assert shown[: len(smaller)] == smaller
        smaller = shown


def test_records_count_the_retrieved_pairs_that_a_search_does_not_find(
    make_conversation: Callable[..., Conversation],
) -> None:
    """A retrieved pair that only working memory has room for is there; a cut of working memory is counted apart."""
    turns = [[(f"kiln item{i} " + "clay " * 40 * i, "noted " * 30)] for i in range(20)]
    turns.append([("kiln " + "glaze " * 8_000, "noted")])
    light = Light(OfflineModel(), LightSettings(k=5, retriever="bm25", reader_window=8_000, use_scratchpad=False))
    light.ingest(make_conversation(turns))
    cuts = []
    for k in range(1, 15):
        variant = light.variant(light.settings.model_copy(update={"k": k}))
        recollection = variant.recall("kiln item19 clay")
        pairs = [passage(pair) for pair in variant.retrieved("kiln item19 clay")]
        found = [item.text in recollection.context for item in pairs]
        cuts.append(recollection.cuts)
        assert found.count(False) == cuts[-1].pairs_shortened + cuts[-1].pairs_dropped
        newest = [passage(pair).text in recollection.context for pair in light.pairs[-4:]]
        assert newest.count(False) == cuts[-1].newest_cut
    assert cuts[-1].pairs_dropped and cuts[-1].newest_cut


def test_a_larger_budget_shows_all_that_a_smaller_one_does(
    make_conversation: Callable[..., Conversation], make_model: Any
) -> None:
    turns = [[(f"item{i} " + "long " * (40 * i), "noted")] for i in range(30)]
    rag = Rag(reader_k := 20, "bm25", 8_000)
    rag.ingest(make_conversation(turns))
    ranked = [passage(pair).message_ids for pair in rag.search("item3 long", reader_k)]
    for k in BUDGETS:
        smaller = Rag(k, "bm25", 8_000)
        smaller.ingest(make_conversation(turns))
        recollection = smaller.recall("item3 long")
        shown = len(recollection.message_ids) // 2
        assert recollection.message_ids == tuple(i for ids in ranked[:shown] for i in ids)
        assert shown + recollection.cuts.pairs_dropped == k


@pytest.mark.quick("100K")
@pytest.mark.parametrize("size", ["100K", "500K", "1M"])
def test_all_pairs_of_table_9_are_whole_in_real_conversations(beam_data: Any, size: str) -> None:
    source = find_conversations(beam_data, [size])[-1]
    loaded = load(source, PAPER_TREATMENT)
    light = Light(OfflineModel(), LightSettings(k=20, use_scratchpad=False))
    light.ingest(loaded.conversation)
    rag = Rag(20)
    rag.ingest(loaded.conversation)
    for probe in loaded.probes[::4]:
        for k in BUDGETS:
            recollection = light.variant(LightSettings(k=k, use_scratchpad=False)).recall(probe.question)
            for pair in light.retrieved(probe.question, k):
                assert passage(pair).text in recollection.context
            assert recollection.cuts == NO_CUTS
        context = rag.recall(probe.question)
        assert all(passage(pair).text in context.context for pair in rag.search(probe.question, 20))
        assert context.cuts == NO_CUTS
