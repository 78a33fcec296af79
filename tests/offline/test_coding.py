"""The code of the domain Coding: it fails as told, and its cure passes."""

from __future__ import annotations

import random

import pytest

from beam_offline.author.coding import Snippet, draw_words, filled, library, suits
from beam_offline.author.word_bank import bank

_SNIPPETS = library().snippets
_PYTHON = [one for one in _SNIPPETS if one.kind in ("python", "numpy")]


def _title_of(snippet: Snippet) -> str:
    return next(title for title, suited in library().titles.items() if snippet.kind in suited.kinds)


def test_every_title_has_code_of_its_own() -> None:
    assert {one.title for one in bank("Coding").titles} == library().titles.keys()
    for title in library().titles:
        assert sum(one.kind in suits(title).kinds for one in _SNIPPETS) >= 8


@pytest.mark.filterwarnings("ignore:coroutine")  # one template forgets to await
@pytest.mark.parametrize("snippet", _PYTHON, ids=lambda one: one.id)
def test_python_fails_as_told_and_the_fixed_and_faster_code_pass(snippet: Snippet) -> None:
    for seed in range(4):
        words = draw_words(_title_of(snippet), random.Random(seed))
        test = filled(snippet.test, words)
        for text in filter(None, (snippet.fixed, snippet.faster)):
            exec(filled(text, words) + "\n" + test, {})  # the test's own text, from the package
        broken = filled(snippet.broken, words)
        with pytest.raises(Exception) as caught:
            exec(compile(f"{broken}\n{test}", "shown", "exec"), {})
        if not snippet.error:
            assert isinstance(caught.value, AssertionError)
            continue
        kind, _, message = filled(snippet.error, words).partition(": ")
        assert type(caught.value).__name__ == kind.rpartition(".")[2]
        assert str(caught.value) == message
        lines = [one.lineno + 1 for one in caught.traceback if str(one.path).endswith("shown")]
        assert snippet.line in lines
        assert snippet.line <= len(broken.splitlines())
