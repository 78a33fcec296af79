"""What the judge computes in its own way, to be quick, is what the plain way gives."""

from __future__ import annotations

import numpy as np
import pytest

from beam_offline.judge.reading import ordinals, products, read_text
from beam_offline.lexicon import Lexicon
from beamlib.retrieval.encoder import embedded_encoder


@pytest.mark.parametrize(("left", "right"), [(1, 1), (1, 64), (1, 65), (3, 700), (40, 200), (2500, 5), (0, 90)])
def test_products_in_parts(left: int, right: int) -> None:
    made = np.random.default_rng(left + right)
    first, second = (made.normal(size=(size, 128)).astype(np.float32) for size in (left, right))
    np.testing.assert_allclose(products(first, second), first @ second.T, rtol=1e-4, atol=1e-4)


def test_cosines_of_many_clauses() -> None:
    text = read_text(". ".join(f"Hive {number} stands behind the mill" for number in range(150)))
    vector = np.ones(128, dtype=np.float32)
    found = text.cosines(vector)[: len(text.sums)]
    assert len(found) == 150
    np.testing.assert_allclose(found, text.sums @ vector / text.sums_lengths[:150], rtol=1e-4, atol=1e-4)


def test_words_with_marks_have_the_encoder_s_vectors() -> None:
    words = ["don't", "it’s", "3.5", "1,200", "O'Brien", "3.11.4", "café", "honey"]
    known = Lexicon()
    numbers = known.numbers(words)
    whole = embedded_encoder().word_sums(words)[:, :128]
    np.testing.assert_allclose(known.vectors[numbers], whole, rtol=1e-4, atol=1e-5)


def test_ordinals() -> None:
    assert ordinals("in the third week and on the 2nd day") == {(3, "week"), (2, "day")}
    assert ordinals("three weeks, first.") == frozenset()
