import re
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beamlib.memory.chunking import chunk_bounds, sentences_of

SENTENCES = st.lists(
    st.lists(st.sampled_from(["oven", "rye", "rent", "sign", "tax"]), min_size=1, max_size=6).map(" ".join), max_size=25
)


def _as_langchain_does(sentences: list[str], encoder: Any, percentile: float) -> list[str]:
    """An independent, slow statement of what SemanticChunker does with a buffer of 1."""
    if len(sentences) <= 1:
        return sentences
    windows = []
    for i in range(len(sentences)):
        window = sentences[i]
        if i > 0:
            window = sentences[i - 1] + " " + window
        if i + 1 < len(sentences):
            window = window + " " + sentences[i + 1]
        windows.append(window)
    vectors = encoder.encode(windows).astype(float)
    distances = [1 - float(np.dot(a, b)) for a, b in pairwise(vectors)]
    limit = np.percentile(distances, percentile)
    chunks, start = [], 0
    for gap, distance in enumerate(distances):
        if distance > limit + 1e-9:
            chunks.append(" ".join(sentences[start : gap + 1]))
            start = gap + 1
    return [*chunks, " ".join(sentences[start:])]


@given(SENTENCES, st.sampled_from([50.0, 80.0, 95.0]))
def test_agrees_with_langchains_rule(toy_encoder: Any, sentences: list[str], percentile: float) -> None:
    bounds = chunk_bounds(sentences, _Rounded(toy_encoder), percentile, 1)
    assert [" ".join(sentences[a:b]) for a, b in bounds] == _as_langchain_does(
        sentences, _Rounded(toy_encoder), percentile
    )


class _Rounded:
    """Coarse vectors, so that distances are either equal or clearly apart and float noise decides nothing."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder

    def encode(self, texts: list[str]) -> Any:
        return np.round(self._encoder.encode(texts) * 64) / 64


@given(SENTENCES, st.floats(0, 100), st.integers(0, 3))
def test_ranges_cover_everything_once(toy_encoder: Any, sentences: list[str], percentile: float, buffer: int) -> None:
    bounds = chunk_bounds(sentences, toy_encoder, percentile, buffer)
    assert [i for a, b in bounds for i in range(a, b)] == list(range(len(sentences)))
    assert all(a < b for a, b in bounds)


def test_cuts_where_the_subject_changes(toy_encoder: Any) -> None:
    bread = ["the rye bread needs salt", "the rye bread needs water", "the rye bread needs time"]
    sign = ["her green sign hangs crooked", "her green sign hangs low", "her green sign hangs here"]
    assert chunk_bounds(bread + sign, toy_encoder, 80, 0) == [(0, 3), (3, 6)]


@given(st.text("ab .?!\n", max_size=80))
def test_sentences_keep_every_character_but_the_white_space_between(text: str) -> None:
    sentences = sentences_of(text)
    assert re.sub(r"\s", "", "".join(sentences)) == re.sub(r"\s", "", text)
    assert all(sentence == sentence.strip() and sentence for sentence in sentences)


def test_sentences_end_at_marks_followed_by_white_space() -> None:
    assert sentences_of("It cost 3.50 now. Really?\nYes! e.g. this") == [
        "It cost 3.50 now.", "Really?", "Yes!", "e.g.", "this",
    ]  # fmt: skip
