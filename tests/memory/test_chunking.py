"""Semantic chunking follows LangChain's SemanticChunker."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import venv
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamlib.memory.scratchpad import own_chunks, round_vectors, semantic_chunks, split_for_chunks

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


def plain_chunks(text: str, encoder: Any, percentile: float, buffer: int) -> list[str]:
    """State independently what SemanticChunker does, in exact arithmetic on the rounded vectors."""
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


@given(SENTENCES, st.sampled_from([50.0, 80.0, 95.0]), st.integers(0, 3), st.sampled_from([" ", "\n", " \n\n"]))
def test_follows_langchains_rule(
    toy_encoder: Any, sentences: list[str], percentile: float, buffer: int, space: str
) -> None:
    text = space.join(sentences)
    chunks = semantic_chunks(text, toy_encoder, percentile, buffer)
    assert chunks == plain_chunks(text, toy_encoder, percentile, buffer)
    assert [sentence for chunk in chunks for sentence in split_for_chunks(chunk)] == sentences


def test_odd_texts_follow_it_too(toy_encoder: Any) -> None:
    for text in ODD_TEXTS:
        assert semantic_chunks(text, toy_encoder, 80, 1) == plain_chunks(text, toy_encoder, 80, 1), text
        assert re.sub(r"\s", "", "".join(split_for_chunks(text))) == re.sub(r"\s", "", text)


def test_langchain_agrees(toy_encoder: Any) -> None:
    splitter = pytest.importorskip("langchain_experimental.text_splitter", reason="langchain-experimental is absent")

    class Embeddings:
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return round_vectors(toy_encoder, texts).tolist()

    for percentile in (0.0, 50.0, 80.0, 100.0):
        for buffer in (0, 1, 2):
            chunker = splitter.SemanticChunker(
                Embeddings(),
                buffer_size=buffer,
                breakpoint_threshold_type="percentile",
                breakpoint_threshold_amount=percentile,
            )
            for text in ODD_TEXTS:
                assert chunker.split_text(text) == own_chunks(text, toy_encoder, percentile, buffer), text


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_langchain_agrees_in_an_environment_of_its_own(tmp_path: Path, repo_root: Path) -> None:
    """So that CI compares the two, while the other tests try what users have by default."""
    if importlib.util.find_spec("langchain_experimental"):
        pytest.skip("langchain-experimental is installed here, and compared above")
    venv.create(tmp_path, with_pip=True)
    python = str(tmp_path / "bin/python")
    (folder,) = tmp_path.glob("lib/python*/site-packages")
    (folder / "project.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    extras = tomllib.loads((repo_root / "pyproject.toml").read_text())["project"]["optional-dependencies"]["models"]
    wanted = [line for line in extras if line.startswith("langchain-")]
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted]
    installed = subprocess.run(pip, capture_output=True, text=True, timeout=300)
    if "Could not find a version" in installed.stderr:
        pytest.skip("no registry of packages is in reach")
    assert installed.returncode == 0, installed.stderr
    agrees = f"{repo_root / 'tests/memory/test_chunking.py'}::test_langchain_agrees"
    command = [python, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", "-p", "no:langsmith", agrees]
    ours = {**os.environ, "PYTHONPATH": f"{repo_root}{os.pathsep}{repo_root / 'packages'}"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=repo_root, timeout=200, env=ours)
    assert done.returncode == 0 and done.stdout.startswith(". "), done.stdout + done.stderr  # not skipped


def test_cuts_where_the_subject_changes(toy_encoder: Any) -> None:
    bread = "The rye bread needs salt. The rye bread needs water. The rye bread needs time."
    sign = "Her green sign hangs crooked. Her green sign hangs low. Her green sign hangs here."
    assert semantic_chunks(f"{bread} {sign}", toy_encoder, 80, 0) == [bread, sign]


class Wordless:
    """An encoder that knows nothing of a text without a letter, as the shipped one does."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder

    def encode(self, texts: list[str]) -> Any:
        known = np.array([any(map(str.isalpha, text)) for text in texts], dtype=np.float32)
        return self._encoder.encode(texts) * known[:, None]


def test_a_sentence_without_a_known_word_is_like_no_other(toy_encoder: Any) -> None:
    text = "The oven is hot. The oven is hot. 1 + 1. 2 + 2. The oven is hot. The oven is hot. The oven is hot."
    chunks = ["The oven is hot. The oven is hot.", "1 + 1.", "2 + 2.", " ".join(["The oven is hot."] * 3)]
    assert semantic_chunks(text, Wordless(toy_encoder), 40, 0) == chunks


def test_a_higher_percentile_cuts_less(toy_encoder: Any) -> None:
    text = " ".join(f"{'oven rye rent sign tax '[: 3 + i * 7 % 19]} {i * i % 11}." for i in range(25))
    counts = [len(semantic_chunks(text, toy_encoder, percentile, 1)) for percentile in (0, 50, 80, 95, 100)]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[3] > counts[4] == 1
