"""Token counters: by their names, when cl100k is taken, and spans that agree with counts."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamlib import text
from beamlib.errors import UserError
from beamlib.text import WORDS, cl100k_missing, count_tokens, token_counter, token_spans

WHY_NOT = cl100k_missing()
needs_cl100k = pytest.mark.skipif(WHY_NOT is not None, reason=f"no cl100k here: {WHY_NOT}")
needs_tiktoken = pytest.mark.skipif(importlib.util.find_spec("tiktoken") is None, reason="tiktoken is not installed")
counters = pytest.mark.parametrize("counter", ["regex-words", pytest.param("cl100k", marks=needs_cl100k)])
texts = st.text(st.characters() | st.sampled_from("日本語😀👩‍👩‍👧 \n\t'"), max_size=200)


@pytest.fixture
def no_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)


def test_the_default_counts_words_and_marks() -> None:
    assert WORDS.name == text.TOKEN_COUNTER == "regex-words"
    assert count_tokens("It's 5 o'clock.") == len(["It", "'", "s", "5", "o", "'", "clock", "."])
    assert token_spans("a  bc!") == [(0, 1), (3, 5), (5, 6)]


@pytest.mark.usefixtures("no_tiktoken")
def test_without_tiktoken_auto_counts_words_and_cl100k_says_what_to_do() -> None:
    assert token_counter("auto") is WORDS
    with pytest.raises(UserError, match=r"token_counter is 'cl100k'.*pip install tiktoken.*TIKTOKEN_CACHE_DIR"):
        token_counter("cl100k")


@pytest.mark.parametrize("name", ["", "o200k", "CL100K", "regex"])
def test_unknown_counters_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="auto, regex-words, cl100k"):
        token_counter(name)


@needs_tiktoken
@pytest.mark.parametrize("content", [None, b"not a vocabulary"])
def test_no_vocabulary_at_hand_is_no_cl100k_and_no_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    url = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
    file = tmp_path / hashlib.sha1(url.encode()).hexdigest()
    if content:
        file.write_bytes(content)
    assert token_counter("auto") is WORDS
    with pytest.raises(UserError, match=file.name):
        token_counter("cl100k")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([content] if content else [])


@needs_tiktoken
def test_a_cache_that_is_switched_off_is_no_cl100k(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert token_counter("auto") is WORDS


@needs_cl100k
def test_cl100k_is_cl100k() -> None:
    counter = token_counter("cl100k")
    assert counter.count("tiktoken is great!") == 6  # OpenAI's own example: [83, 1609, 5963, 374, 2294, 0]
    assert counter.spans("tiktoken is great!") == [(0, 1), (1, 3), (3, 8), (8, 11), (11, 17), (17, 18)]


@needs_cl100k
def test_names_of_special_tokens_are_text() -> None:
    counter = token_counter("cl100k")
    assert counter.count("<|endoftext|>") > 1
    assert "".join("<|endoftext|>"[start:end] for start, end in counter.spans("<|endoftext|>")) == "<|endoftext|>"


@counters
@given(content=texts)
def test_spans_agree_with_counts(counter: str, content: str) -> None:
    by = token_counter(counter)
    spans = by.spans(content)
    assert len(spans) == by.count(content)
    assert all(0 <= start <= end <= len(content) for start, end in spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    covered = "".join(content[start:end] for start, end in spans)
    assert covered == (content if counter == "cl100k" else "".join(covered.split()))
    assert "".join(covered.split()) == "".join(content.split())


@counters
def test_long_runs_of_one_character(counter: str) -> None:
    by = token_counter(counter)
    for run in ("=" * 100_000, " " * 100_000, "a" * 100_000, "é" * 20_000):
        assert len(by.spans(run)) == by.count(run)


@counters
def test_surrogates_are_characters_of_their_own(counter: str) -> None:
    by = token_counter(counter)
    halves = "\ud83d" + "\ude00"
    assert by.count(halves) == by.count("\ufffd" * 2)
    assert by.spans(halves)[-1][1] == 2
