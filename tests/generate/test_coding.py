"""The bank, the snippets and the answers of the domain Coding."""

from __future__ import annotations

import ast
import random
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import yaml

from beamlib.generate.author.bank import Bank, Title, bank, common_lexicon, fill
from beamlib.generate.author.coding import coding_question, write_coding_answer
from beamlib.generate.author.coding_snippets import Snippet, draw_words, filled, library, recognise, snippets_for
from beamlib.generate.author.facts import Fact, Occasion, Thing
from beamlib.generate.shapes import Profile
from beamlib.text import count_tokens

_PROFILE = Profile("Ana Ruiz", 30, "female", "Lisbon", "Developer", ("INTJ",) * 6)
_SNIPPETS = library().snippets
_PYTHON = [one for one in _SNIPPETS if one.kind in ("python", "numpy")]
_PURPOSES = ("introduction", "fact", "update", "contradiction", "preference", "instruction", "dig", "reply", "followup")


def _coding() -> Bank:
    return bank("Coding")


def _title_of(snippet: Snippet) -> str:
    return next(title for title, suits in library().titles.items() if snippet.kind in suits.kinds)


def _occasion(number: int, **other: object) -> Occasion:
    rng = random.Random(f"occasion {number}")
    title: Title = rng.choice(_coding().titles)
    topic = rng.choice(_coding().topics)
    lists = {**common_lexicon(), **_coding().lexicon, **title.lexicon}
    words = {name: rng.choice(texts) for name, texts in lists.items()} | {"goal": title.goal, "subject": title.goal}
    subject = rng.choice(_coding().subjects)
    thing = Thing(fill(subject.name, words.__getitem__), subject, words)
    aspect = next(one for one in subject.aspects if one.kind == "quantity")
    fact = Fact(thing, aspect, 0, 1, 1, {"value": "7,301 VALUES"})
    made = Occasion(rng, _coding(), title, _PROFILE, topic, "dig", words, date(2024, 5, 1), thing, known=(fact,))
    return replace(made, **other)  # type: ignore[arg-type]


def test_the_bank_has_every_title_and_words_for_each(repo_root: Path) -> None:
    table = (repo_root / "beamlib" / "published" / "table5_domains_titles.csv").read_text(encoding="utf-8")
    titles = {one.title for one in _coding().titles}
    assert len(titles) == 18 == table.count("\nCoding,")
    assert all(title in table for title in titles)
    assert titles == library().titles.keys()
    assert all(len(snippets_for(title)) >= 8 for title in titles)


def test_what_is_never_told_stands_in_no_other_text() -> None:
    whole = repr(_coding().model_dump()).lower()
    for subject in _coding().subjects:
        for absent in subject.absent:
            own = f"{absent.ask} {absent.detail} {absent.keyword}".lower().count(absent.keyword)
            assert whole.count(absent.keyword) == own, absent.keyword


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


@pytest.mark.parametrize("snippet", _SNIPPETS, ids=lambda one: one.id)
def test_code_is_well_formed_and_recognised_by_its_text(snippet: Snippet) -> None:
    title = _title_of(snippet)
    for seed in range(4):
        words = draw_words(title, random.Random(f"words {seed}"))
        for form in ("broken", "slow", "fixed", "faster", "test"):
            code = filled(getattr(snippet, form), words)
            assert "«" not in code
            if snippet.language == "python":
                ast.parse(code)
            elif snippet.language == "yaml" and form != "test":
                yaml.safe_load(code)
            elif snippet.language in ("javascript", "go", "css"):
                plain = re.sub(r'"(\\.|[^"\\])*"|`[^`]*`', "", code)
                assert all(plain.count(left) == plain.count(right) for left, right in ("()", "{}", "[]"))
        for shown in ("broken", "slow", "fixed"):
            if code := filled(getattr(snippet, shown), words):
                found = recognise(f"See:\n```{snippet.language}\n{code}\n```", title, random.Random(1))
                assert found is not None
                assert found[0].id == snippet.id
                assert filled(getattr(snippet, found[1]), found[2]) == code
        wanted = filled(snippet.wanted, words)
        found = recognise(f"I need {wanted}. Can you?", title, random.Random(1))
        assert found is not None
        assert filled(snippet.wanted, found[2]) == wanted


def test_an_answer_mends_the_code_of_its_question() -> None:
    mended = 0
    for number in range(120):
        occasion = _occasion(number, target=700)
        question = coding_question(occasion)
        found = recognise(question, occasion.title.title, random.Random(0))
        assert found is not None
        snippet, form, words = found
        if form in ("broken", "slow"):
            cure = filled(snippet.fixed if form == "broken" else snippet.faster, words)
            assert f"\n{cure}\n```" in write_coding_answer(replace(occasion, question=question))
            mended += 1
    assert mended > 60


@pytest.mark.parametrize("purpose", _PURPOSES)
def test_length_closing_and_secrecy(purpose: str) -> None:
    for number, target in enumerate(range(200, 1601, 100)):
        for closing in ("", "Does the failure stay away?"):
            question = coding_question(_occasion(number))
            occasion = _occasion(number, purpose=purpose, target=target, question=question, closing=closing)
            answer = write_coding_answer(occasion)
            assert abs(count_tokens(answer) - target) <= 0.05 * target
            assert answer.endswith(closing) if closing else not answer.endswith("?")
            assert answer == write_coding_answer(
                _occasion(number, purpose=purpose, target=target, question=question, closing=closing)
            )
            if purpose == "contradiction":
                assert "7,301" not in answer


def test_questions_differ() -> None:
    rng = random.Random("many")
    questions = {coding_question(replace(_occasion(3), rng=rng)) for _ in range(2000)}
    assert len(questions) > 1980
