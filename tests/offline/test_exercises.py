"""Code fails as told and its cure passes; results of mathematics are found again by another way."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from itertools import product
from math import comb, gcd

import pytest
import sympy as sp

from beam_offline.author.coding import Snippet, draw_words, filled, library, suits
from beam_offline.author.mathematics import FAMILIES, MathProblem
from beam_offline.author.word_bank import bank, grammar

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


def numbers(text: str) -> list[Fraction]:
    """Whole numbers of a text, in order."""
    return [Fraction(one) for one in re.findall(r"(?<![\w.])-?\d+(?![\d.]*\d)", text)]


def value(text: str) -> float:
    """What the LaTeX of a number comes to."""
    plain = re.search(r"\\\((.*?)\\\)", text)
    tex = plain[1] if plain else text
    tex = re.sub(r"\\frac\{(.*?)\}\{(.*?)\}", r"((\1)/(\2))", tex).replace("\\pi", "*pi").replace("(*pi", "(pi")
    tex = re.sub(r"\\sqrt\{(.*?)\}", r"*sqrt(\1)", tex)
    return float(sp.sympify(re.sub(r"(^|\(|- )\*", r"\1", tex.replace(" ", ""))))


def drawn(family: str) -> list[MathProblem]:
    rng = random.Random(f"checked {family}")
    return [FAMILIES[family](rng) for _ in range(25)]


def test_equations_hold_for_their_solutions() -> None:
    for problem in drawn("linear_equation"):
        left, right = problem.given[0][2:-2].split("=")
        root = numbers(problem.result)[0]
        assert _at(left, root) == _at(right, root)
    for problem in drawn("quadratic"):
        left = problem.given[0][2:-2].split("=")[0]
        assert [_at(left, root) for root in numbers(problem.result)] == [0, 0]


def _at(expression: str, root: Fraction) -> Fraction:
    plain = re.sub(r"(\d) x", r"\1*x", expression).replace("^{2}", "**2")
    return Fraction(str(sp.sympify(plain).subs("x", sp.Rational(root.numerator, root.denominator))))


def test_counts_and_chances_agree_with_counting_out() -> None:
    for problem in drawn("dice"):
        sides, total = map(int, problem.given)
        ways = sum(one + two == total for one, two in product(range(1, sides + 1), repeat=2))
        assert value(problem.result) == pytest.approx(ways / sides**2)
    for problem in drawn("combinations"):
        few, many = map(int, problem.given[:2])
        assert int(problem.result) == comb(many, few)
    for problem in drawn("greatest_divisor"):
        assert int(problem.result) == gcd(*map(int, problem.given))
    for problem in drawn("bayes"):
        ill, hit, false = map(int, problem.given)
        assert value(problem.result) == pytest.approx(ill * hit / (ill * hit + (100 - ill) * false))


def test_every_title_has_families_and_every_list_that_they_need() -> None:
    own = grammar("Math")
    for title in bank("Math").titles:
        assert set(title.families) <= FAMILIES.keys()
        assert len(title.families) >= 4
    for name, family in FAMILIES.items():
        problem = family(random.Random(name))
        assert {f"task_{name}", "math_result", *(f"math_{step}" for step, _ in problem.steps)} <= own.names
        assert problem.slip
