"""Problems of mathematics: every result is found again by another way, and nothing is asked twice."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from itertools import islice, product
from math import comb, gcd, sqrt

import pytest
import sympy as sp

from beam_generate.pipeline import ConversationSpec
from beam_offline.author.mathematics import FAMILIES, MathProblem, exercises
from beam_offline.author.word_bank import bank, grammar
from beam_offline.author.world import World
from beamlib.params import usual_parameters


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


def test_triangles_and_prices() -> None:
    for problem in drawn("triangle"):
        a, b, degrees = map(int, problem.given)
        square = a * a + b * b - 2 * a * b * float(sp.cos(sp.pi * degrees / 180))
        assert float(problem.result.rsplit("about ", 1)[1].split()[0]) == pytest.approx(sqrt(square), abs=0.006)
    for problem in drawn("percentages"):
        price, off, tax = map(int, problem.given)
        assert float(problem.result[1:]) == pytest.approx(price * (100 - off) * (100 + tax) / 1e4, abs=0.006)


def test_calculus_agrees_with_numbers() -> None:
    for problem in drawn("double_integral")[:10]:
        upper, inner = (int(one) for one in re.findall(r"int_0\^\{(\d+)\}", problem.given[0]))
        shown = re.search(r"\} ([^}\\]+(?:\{\d+\})?[^\\]*)\\,dy", problem.given[0])
        assert shown is not None
        powers = {name: int(power or 1) for name, power in re.findall(r"([xy])(?:\^\{(\d+)\})?", shown[1])}
        p, q = powers.get("x", 0), powers.get("y", 0)
        assert value(problem.result) == pytest.approx(inner ** (q + 1) / (q + 1) * upper ** (p + 1) / (p + 1))


def test_a_slip_is_wrong_and_has_an_explanation() -> None:
    lists = grammar("Math").names
    for family in FAMILIES:
        for problem in drawn(family)[:20]:
            assert f"fault_{problem.fault or family}" in lists
    for problem in drawn("quadratic"):
        slip, right = (set(re.findall(r"-?\d+", text)) for text in (problem.slip, problem.result))
        assert slip != right
    for problem in drawn("linear_equation"):
        assert sp.Rational(problem.slip.removeprefix("x = ")) != sp.Rational(problem.result.removeprefix("x = "))


def test_every_title_has_families_and_every_list_that_they_need() -> None:
    own = grammar("Math")
    for title in bank("Math").titles:
        assert set(title.families) <= FAMILIES.keys()
        assert len(title.families) >= 4
    for name, family in FAMILIES.items():
        problem = family(random.Random(name))
        assert {f"task_{name}", "math_result", *(f"math_{step}" for step, _ in problem.steps)} <= own.names
        assert problem.slip


def test_no_problem_comes_twice() -> None:
    world = World(ConversationSpec(usual_parameters("100K", generation_seed=4, domain="Math")).story())
    found = [one.message for one in islice(exercises(world, random.Random(5)), 300)]
    assert len(set(found)) == 300
