"""Semantic chunking: LangChain's behaviour, with and without LangChain."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamlib.memory.chunking import langchain_chunker, own_chunks, semantic_chunks, sentences_of

WORDS = st.lists(st.sampled_from(["oven", "rye", "rent", "sign", "tax"]), min_size=1, max_size=6).map(" ".join)
SENTENCES = st.lists(st.tuples(WORDS, st.sampled_from(".?!")).map("".join), min_size=1, max_size=25)
ODD_TEXTS = [
    "",
    " ",
    "one sentence",
    "No mark at the end. but here. none",
    "Ends with a space. ",
    "\n Begins with one. And two.",
    "e.g. this, i.e. that... What?! Yes.",
    "Same. Same. Same. Same. Same. Same.",
    "??? !!! ... . . .",
    "Nul\x00 and \u2003 wide. \x1f Space\u2028 of all kinds. Été? 東京。 終わり.",
    "A list:\n- flour\n- salt\n- time. Then bake.\n\n\nDone.",
]


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Importing LangChain takes a second, which is not the first example's fault."""
    langchain_chunker()


def _slowly(text: str, encoder: Any, percentile: float, buffer: int) -> list[str]:
    """An independent, plain statement of what SemanticChunker does, in exact arithmetic on the rounded vectors."""
    sentences = re.split(r"(?<=[.?!])\s+", text)
    if len(sentences) == 1:
        return sentences
    windows = []
    for i in range(len(sentences)):
        window = [sentences[j] for j in range(i - buffer, i + buffer + 1) if 0 <= j < len(sentences)]
        windows.append(" ".join(window))
    vectors = [[int(value) for value in row] for row in np.round(encoder.encode(windows).astype(float) * 2**20)]
    lengths = [float(sum(a * a for a in row)) ** 0.5 for row in vectors]
    dots = [sum(a * b for a, b in zip(first, second, strict=True)) for first, second in pairwise(vectors)]
    norms = [a * b for a, b in pairwise(lengths)]
    distances = [1 - dot / norm if norm else 1.0 for dot, norm in zip(dots, norms, strict=True)]
    limit = np.percentile(distances, percentile)
    chunks, start = [], 0
    for gap, distance in enumerate(distances):
        if distance > limit:
            chunks.append(" ".join(sentences[start : gap + 1]))
            start = gap + 1
    return [*chunks, " ".join(sentences[start:])]


@given(SENTENCES, st.sampled_from([50.0, 80.0, 95.0]), st.integers(0, 3))
def test_follows_langchains_rule(toy_encoder: Any, sentences: list[str], percentile: float, buffer: int) -> None:
    text = " ".join(sentences)
    assert own_chunks(text, toy_encoder, percentile, buffer) == _slowly(text, toy_encoder, percentile, buffer)


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_follow_it_too(toy_encoder: Any, text: str) -> None:
    assert own_chunks(text, toy_encoder, 80, 1) == _slowly(text, toy_encoder, 80, 1)


@given(SENTENCES, st.floats(0, 100), st.integers(0, 3))
def test_every_sentence_is_in_one_chunk(toy_encoder: Any, sentences: list[str], percentile: float, buffer: int) -> None:
    chunks = semantic_chunks("\n".join(sentences), toy_encoder, percentile, buffer)
    assert " ".join(chunks) == " ".join(sentences)
    assert [s for chunk in chunks for s in sentences_of(chunk)] == sentences


def test_cuts_where_the_subject_changes(toy_encoder: Any) -> None:
    bread = "The rye bread needs salt. The rye bread needs water. The rye bread needs time."
    sign = "Her green sign hangs crooked. Her green sign hangs low. Her green sign hangs here."
    assert own_chunks(f"{bread} {sign}", toy_encoder, 80, 0) == [bread, sign]


class _Wordless:
    """An encoder that knows nothing of a text without a letter, as the shipped one does."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder

    def encode(self, texts: list[str]) -> Any:
        known = np.array([any(map(str.isalpha, text)) for text in texts], dtype=np.float32)
        return self._encoder.encode(texts) * known[:, None]


def test_a_sentence_without_a_known_word_is_like_none(toy_encoder: Any) -> None:
    text = "The oven is hot. The oven is hot. 1 + 1. 2 + 2. The oven is hot. The oven is hot. The oven is hot."
    encoder = _Wordless(toy_encoder)
    chunks = own_chunks(text, encoder, 40, 0)
    assert (
        chunks
        == _slowly(text, encoder, 40, 0)
        == ["The oven is hot. The oven is hot.", "1 + 1.", "2 + 2.", " ".join(["The oven is hot."] * 3)]
    )


def test_a_higher_percentile_cuts_less(toy_encoder: Any) -> None:
    text = " ".join(f"{'oven rye rent sign tax '[: 3 + i * 7 % 19]} {i * i % 11}." for i in range(25))
    counts = [len(own_chunks(text, toy_encoder, percentile, 1)) for percentile in (0, 50, 80, 95, 100)]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[3] > counts[4] == 1


@given(st.text("ab .?!\n", max_size=80))
def test_sentences_keep_every_character_but_the_white_space_between(text: str) -> None:
    assert re.sub(r"\s", "", "".join(sentences_of(text))) == re.sub(r"\s", "", text)


def test_sentences_end_at_marks_followed_by_white_space() -> None:
    assert sentences_of("It cost 3.50 now. Really?\nYes! e.g. this") == [
        "It cost 3.50 now.", "Really?", "Yes!", "e.g.", "this",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def langchain() -> Any:
    """LangChain's class; whatever it warns of on import must not reach the user."""
    if langchain_chunker() is None:
        pytest.skip("langchain-experimental is not installed (pip install -e '.[models]'), or simsimd is")
    return langchain_chunker()


def test_langchain_agrees_on_odd_texts(langchain: Any, toy_encoder: Any) -> None:
    for text in ODD_TEXTS:
        for percentile in (0.0, 50.0, 80.0, 100.0):
            for buffer in (0, 1, 2):
                found = semantic_chunks(text, toy_encoder, percentile, buffer)
                assert found == own_chunks(text, toy_encoder, percentile, buffer), (text, percentile, buffer)


@given(SENTENCES, st.sampled_from([50.0, 80.0, 95.0]), st.sampled_from([" ", "\n", " \n\n"]))
def test_langchain_agrees_on_any_text(
    langchain: Any, toy_encoder: Any, sentences: list[str], percentile: float, space: str
) -> None:
    text = space.join(sentences)
    assert semantic_chunks(text, toy_encoder, percentile, 1) == own_chunks(text, toy_encoder, percentile, 1)


def test_langchain_agrees_on_the_pad_of_a_real_conversation(
    langchain: Any, beam_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both with the whole way through LIGHT: what is installed does not change a chunk."""
    from beam_offline import OfflineModel
    from beamlib.data.loading import load
    from beamlib.data.sources import find_conversations
    from beamlib.memory.light import Light

    conversation = load(find_conversations(beam_data)[0]).conversation
    found = []
    for chunker in (langchain, None):
        monkeypatch.setattr("beamlib.memory.chunking.langchain_chunker", lambda chunker=chunker: chunker)
        light = Light(OfflineModel())
        light.ingest(conversation)
        found.append(light.chunks)
    assert found[0] == found[1] and len(found[0]) > 10
