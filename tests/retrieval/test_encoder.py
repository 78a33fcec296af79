"""The shipped token table: what it is, and that it means something."""

from __future__ import annotations

import re

import numpy as np
from model2vec import StaticModel

from beamlib.files import sha256_of_file
from beamlib.retrieval.encoder import EMBEDDED, embedded_encoder


def test_files_are_the_ones_the_provenance_names() -> None:
    provenance = (EMBEDDED / "PROVENANCE.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"^\| (\S+) \| ([0-9a-f]{64}) \|", provenance, re.MULTILINE))
    assert sorted(named) == ["config.json", "model.safetensors", "tokenizer.json"]
    for name, digest in named.items():
        assert sha256_of_file(EMBEDDED / name) == digest


def test_rows_are_unit_vectors_and_empty_texts_zero() -> None:
    encoder = embedded_encoder()
    vectors = encoder.encode(["A violin lesson", "", "漢字", "naïve café 😀", "x" * 350_000])
    assert vectors.shape == (5, encoder.dim) and vectors.dtype == np.float32
    lengths = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(lengths[[0, 3]], 1, atol=1e-5)
    assert lengths[1] == 0
    assert encoder.encode([]).shape == (0, encoder.dim)


def test_agrees_with_model2vec_itself() -> None:
    texts = ["The tram was late again.", "Boil the rice for 12 minutes", "def area(radius): return radius ** 2"]
    reference = StaticModel.from_pretrained(EMBEDDED).encode(texts, use_multiprocessing=False)
    np.testing.assert_allclose(embedded_encoder().encode(texts), reference, atol=1e-5)


def test_batches_do_not_change_vectors() -> None:
    texts = [f"letter number {number} about the garden" for number in range(2100)]
    encoder = embedded_encoder()
    np.testing.assert_array_equal(encoder.encode(texts)[-3:], encoder.encode(texts[-3:]))


def test_words_have_the_pieces_that_they_have_in_their_text() -> None:
    texts = [
        "Tea, twice:  tea\tand\r\ncake.", "naïve cafe\u0301s \u0301x", "[SEP] a[CLS]b [UN K]", "漢字and kana カナ",
        "one\x0bword\x1cor\x85three\xa0or\u2028four", "\n", "x" * 101 + " y",
    ]  # fmt: skip
    model = StaticModel.from_pretrained(EMBEDDED)
    table = np.asarray(model.embedding, dtype=np.float32)
    if model.weights is not None:
        table = table * np.asarray(model.weights, dtype=np.float32)[:, None]
    wanted = np.stack([table[pieces].sum(axis=0) if pieces else table[0] * 0 for pieces in model.tokenize(texts)])
    lengths = np.maximum(np.linalg.norm(wanted, axis=1, keepdims=True), 1e-9)
    np.testing.assert_allclose(embedded_encoder().encode(texts), wanted / lengths, atol=1e-5)


def test_neighbours_in_meaning_are_neighbours() -> None:
    encoder = embedded_encoder()
    query = encoder.encode(["my physician prescribed a medicine"])[0]
    near, far = encoder.encode(["the doctor gave me some drugs", "the football match ended in a draw"])
    assert query @ near > query @ far + 0.2
