"""BM25, FAISS and fusion against brute force, and the order of hits."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from beam_memories import transformer
from beamlib.errors import UserError
from beamlib.retrieval import SHIPPED, Document, Encoders, Index, build_index, embedded_encoder
from beamlib.retrieval.base import best_hits, standardised
from beamlib.retrieval.dense import DenseIndex
from beamlib.retrieval.sparse import SparseIndex, tokenize

KEYS = [
    ["We adopted a grey cat called Momo.", "Momo eats twice a day."],
    ["The boiler was repaired on October 14 for $320."],
    ["I play the cello in an orchestra.", "Rehearsals are on Mondays."],
    [],
    ["Release 0.6.2 of the parser broke snake_case_names."],
]


def key_index(keys: Sequence[Sequence[str]], retriever: str = "hybrid") -> Index:
    return build_index([Document(texts, texts) for texts in keys], retriever)


def test_tokens_are_stemmed_and_numbers_stay_whole() -> None:
    assert tokenize(["The boilers, repaired at 19:30 for $1,500"]) == [["boiler", "repair", "19:30", "1,500"]]
    assert tokenize(["v0.6.2 of max_line_width", "of the and"]) == [["v0", "6.2", "max", "line", "width"], []]


@pytest.mark.parametrize("query, owner", [("repairing boilers", 1), ("version 0.6.2", 4), ("Snake names", 4)])
def test_bm25_finds_the_word(query: str, owner: int) -> None:
    assert SparseIndex(KEYS).search(query, 1)[0].owner == owner


def test_bm25_follows_its_formula() -> None:
    documents = [["apple apple pear"], ["pear"], ["plum pear quince"]]
    scores = SparseIndex(documents).scores("apple")
    idf = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    length = 1 - 0.75 + 0.75 * 3 / (7 / 3)
    assert scores[0] == pytest.approx(idf * 2 / (2 + 1.5 * length), rel=1e-5)
    assert scores[1] == scores[2] == 0


def test_dense_is_the_best_cosine_of_any_key() -> None:
    encoder = embedded_encoder()
    query = encoder.encode(["my pet"])[0]
    expected = [max((float(query @ encoder.encode([key])[0]) for key in texts), default=-1.0) for texts in KEYS]
    np.testing.assert_allclose(DenseIndex(KEYS, encoder).scores("my pet"), expected, atol=1e-5)


scores_lists = st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=12)


@given(scores_lists, st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_hits_are_sorted_and_ties_ordered(values: list[float], random: Random) -> None:
    ties = list(range(len(values)))
    random.shuffle(ties)
    hits = best_hits(np.array(values, dtype=np.float32), len(values), np.array(ties))
    order = [(-round(hit.score, 6), ties[hit.owner]) for hit in hits]
    assert order == sorted(order) and len(hits) == len(values)


WORDS = ["cat", "boiler", "cello", "always", "I prefer", "14", "budget", "Momo", "we", "paid $320"]
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
distinct_documents = st.lists(st.lists(sentences, max_size=3).map(tuple), min_size=2, max_size=9, unique=True)


@pytest.mark.parametrize("retriever", ["bm25", "dense", "hybrid"])
@given(distinct_documents, sentences, st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_position_decides_nothing(retriever: str, documents: list[tuple[str, ...]], query: str, random: Random) -> None:
    """Ranks broken by position would be a prior for early messages, where BEAM's evidence lies."""
    order = list(range(len(documents)))
    random.shuffle(order)
    straight, shuffled = key_index(documents, retriever), key_index([documents[i] for i in order], retriever)
    hits, others = straight.search(query, len(documents)), shuffled.search(query, len(documents))
    assert [documents[hit.owner] for hit in hits] == [documents[order[hit.owner]] for hit in others]
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in others], abs=1e-5)


class _Letters:
    """An encoder that tells texts apart by their first letter alone."""

    name, dim = "letters", 26

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[ord(text[:1].lower() or "z") % 26] = 1
        return vectors


def test_the_encoder_serves_hybrid_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer, "dense_encoder", lambda name: {"minilm": _Letters()}[name])
    texts = ("boiler", "cat", "dog")
    documents = [Document((text,), (text,), text) for text in texts]
    by_letters = build_index(documents, "hybrid", Encoders("minilm")).search("cucumber", 3)
    assert texts[by_letters[0].owner] == "cat" and by_letters[0].score > by_letters[1].score
    shipped = build_index(documents, "hybrid").search("cucumber", 3)
    assert [hit.score for hit in shipped] != [hit.score for hit in by_letters]


def test_constant_scores_do_not_count() -> None:
    flat, steps = np.full(3, 7, dtype=np.float32), np.array([0, 1, 5], dtype=np.float32)
    assert not standardised(flat).any()
    near = np.nextafter(np.float32(0.7), np.float32(1))  # cosines of one text, by the order of additions
    assert not standardised(np.array([0.7, near, 0.7], dtype=np.float32)).any()
    np.testing.assert_allclose(standardised(steps), (steps - 2) / np.std([0, 1, 5]))
    assert standardised([]).tolist() == []


@pytest.mark.parametrize("retriever", SHIPPED)
@pytest.mark.parametrize("query", ["", "and of the", "日本語 😀", "Momo " * 50_000])
def test_no_query_is_too_odd(retriever: str, query: str) -> None:
    bodies = ["", "```python\nunclosed", "One. Two.", " ", "text"]
    whole = [Document(texts, texts, body, session=3) for texts, body in zip(KEYS, bodies, strict=True)]
    for index in (key_index(KEYS, retriever), build_index(whole, retriever)):
        hits = index.search(query, 10)
        assert sorted(hit.owner for hit in hits) == [0, 1, 2, 3, 4]
        assert all(np.isfinite(hit.score) for hit in hits)


@pytest.mark.parametrize("retriever", SHIPPED)
def test_empty_indexes_and_huge_keys(retriever: str) -> None:
    assert key_index([], retriever).search("anything", 3) == []
    for keys in ([[], []], [[], [""]]):
        assert sorted(hit.owner for hit in key_index(keys, retriever).search("cat", 3)) == [0, 1]
    huge = key_index([["word " * 70_000], ["a cat"]], retriever)
    assert huge.search("cat", 1)[0].owner == 1


@pytest.mark.parametrize("retriever", SHIPPED)
def test_two_builds_give_the_same_hits(retriever: str) -> None:
    first, second = key_index(KEYS, retriever), key_index(KEYS, retriever)
    for query in ("When was the boiler repaired?", "music", ""):
        assert first.search(query, 5) == second.search(query, 5)
        assert first.search(query, 5)[:2] == first.search(query, 2)


def test_unknown_names_and_budgets_are_refused() -> None:
    with pytest.raises(UserError, match=r"bm26.*choose one of bm25, dense, hybrid, splade"):
        key_index(KEYS, "bm26")
    with pytest.raises(UserError, match="k is 0"):
        key_index(KEYS).search("cat", 0)


# HNSW


def hnsw(keys: list[list[str]]) -> DenseIndex:
    return DenseIndex(keys, embedded_encoder(), "hnsw")


@pytest.fixture(scope="module")
def many_keys() -> list[list[str]]:
    rng = Random(5)
    vocabulary = [f"{first}{second}" for first in ("sea", "bird", "bread", "rain", "hill") for second in "abcdefgh"]
    return [[" ".join(rng.choices(vocabulary, k=6)) for _ in range(rng.randrange(1, 5))] for _ in range(900)]


def test_equal_keys_give_equal_graphs_and_results(many_keys: list[list[str]]) -> None:
    threads = faiss.omp_get_max_threads()
    first, second = hnsw(many_keys), hnsw(many_keys)
    assert faiss.serialize_index(first._index).tobytes() == faiss.serialize_index(second._index).tobytes()
    assert faiss.omp_get_max_threads() == threads
    for keys in many_keys[::90]:
        assert first.search(keys[0], 20) == second.search(keys[0], 20)


def test_a_graph_finds_nearly_what_a_flat_index_finds_and_a_smaller_k_is_its_beginning(
    many_keys: list[list[str]],
) -> None:
    graph, flat = hnsw(many_keys), DenseIndex(many_keys, embedded_encoder())
    shared = 0
    for keys in many_keys[::30]:
        best = graph.search(keys[-1], 20)
        assert len({hit.owner for hit in best}) == 20 and best[0].score == pytest.approx(1, abs=1e-5)
        for k in (1, 5, 10, 15):
            assert graph.search(keys[-1], k) == best[:k]
        shared += len({hit.owner for hit in best} & {hit.owner for hit in flat.search(keys[-1], 20)})
    assert shared > 0.9 * 20 * 30


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_graph_of_few_keys_gives_all_owners(count: int) -> None:
    keys = [[f"key {place} of birds"] for place in range(count)] + [[]]
    assert len(hnsw(keys).search("birds", 20)) == count + 1
    assert [hit.owner for hit in hnsw(keys).search("birds", 20)][-1] == count


def test_one_owner_with_hundreds_of_near_keys_does_not_hide_the_others() -> None:
    keys = [[f"falcon number {place}" for place in range(400)], ["falcon farm"], ["a loaf of bread"], ["rain"]]
    assert sorted(hit.owner for hit in hnsw(keys).search("falcon", 4)) == [0, 1, 2, 3]
