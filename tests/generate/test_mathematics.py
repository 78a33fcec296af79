"""Problems are recomputed by other ways than the generators use; answers keep their length and fit their question."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from datetime import date
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
from scipy.integrate import dblquad, quad

from beamlib.generate.author.bank import SLOT, Bank, bank, common_lexicon
from beamlib.generate.author.facts import Fact, Occasion, Purpose, Thing
from beamlib.generate.author.mathematics import SUITED, form_of, generators_for, math_question, write_math_answer
from beamlib.generate.author.problems_base import Problem, decimal, poly, root, tex
from beamlib.generate.author.problems_registry import GENERATORS, NUMBERS, exercise, find
from beamlib.generate.shapes import Profile
from beamlib.text import count_tokens

Data = Mapping[str, Any]
MATH = bank("Math")
PROFILE = Profile("Ines", 31, "female", "Lyon", "Baker", ("INTJ", "ENFP", "ISTP", "ESFJ", "INFP", "ESTJ"))


def near(one: Any, other: Any) -> bool:
    return math.isclose(float(one), float(other), rel_tol=1e-6, abs_tol=1e-6)


def horner(coefficients: Any, x: Any) -> Any:
    total: Any = 0
    for value in coefficients:
        total = total * x + value
    return total


def tangent_ok(d: Data) -> bool:
    step = 1e-5
    f = [float(horner(d["coefficients"], d["t"] + k * step)) for k in (-1, 0, 1)]
    slope, cut = d["answer"]
    return abs((f[2] - f[0]) / (2 * step) - slope) < 1e-3 and near(f[1], slope * d["t"] + cut)


def chain_ok(d: Data) -> bool:
    def f(x: float) -> float:
        return float((d["a"] * x ** d["m"] + d["b"]) ** d["n"])

    x, step = 1.3, 1e-6
    formula = d["answer"] * x ** (d["m"] - 1) * (d["a"] * x ** d["m"] + d["b"]) ** (d["n"] - 1)
    return math.isclose((f(x + step) - f(x - step)) / (2 * step), formula, rel_tol=1e-4, abs_tol=1e-2)


def product_ok(d: Data) -> bool:
    x = float(d["answer"])
    slope = d["c"] * (d["n"] * x ** (d["n"] - 1) + d["k"] * x ** d["n"]) * math.exp(d["k"] * x)
    return bool(abs(slope) < 1e-6)


def extrema_ok(d: Data) -> bool:
    high, low = d["answer"]
    values = {x: horner(d["coefficients"], x) for x in (high, low)}
    near_high = [horner(d["coefficients"], high + s * Fraction(1, 50)) for s in (-1, 1)]
    near_low = [horner(d["coefficients"], low + s * Fraction(1, 50)) for s in (-1, 1)]
    return bool(max(near_high) < values[high] and min(near_low) > values[low])


def gradient_ok(d: Data) -> bool:
    (a, b, c), (x, y), (p, q) = d["form"], d["point"], d["direction"]
    size, step = math.hypot(p, q), 1e-6

    def f(s: float, t: float) -> float:
        return float(a * s * s + b * s * t + c * t * t)

    change = (f(x + step * p / size, y + step * q / size) - f(x - step * p / size, y - step * q / size)) / (2 * step)
    gx = (f(x + step, y) - f(x - step, y)) / (2 * step)
    gy = (f(x, y + step) - f(x, y - step)) / (2 * step)
    return all(abs(u - float(v)) < 1e-4 for u, v in zip((gx, gy, change), d["answer"], strict=True))


def saddle_ok(d: Data) -> bool:
    a, b, c, e, f = d["form"]
    x, y, kind = d["answer"]
    found = np.linalg.solve([[2 * a, b], [b, 2 * c]], [-e, -f])
    low, high = np.linalg.eigvalsh([[2 * a, b], [b, 2 * c]])
    expected = "a local minimum" if low > 0 else "a local maximum" if high < 0 else "a saddle point"
    return bool(np.allclose(found, (x, y))) and kind == expected


def parts_ok(d: Data) -> bool:
    (p, q), k = d["answer"], d["k"]
    numeric = quad(lambda x: (d["a"] * x + d["b"]) * math.exp(k * x), 0, 1)[0]
    return near(numeric, float(p + q) * math.exp(k) - float(q))


def second_order_ok(d: Data) -> bool:
    r, s, c1, c2 = d["answer"]
    return all(z * z + d["b"] * z + d["c"] == 0 for z in (r, s)) and d["initial"] == (c1 + c2, r * c1 + s * c2)


def sine_ok(d: Data) -> bool:
    numeric = quad(lambda x: (d["a"] * x if d["linear"] else d["a"]) * math.sin(d["n"] * x), 0, math.pi)[0]
    return near(2 / math.pi * numeric, float(d["answer"]) / (1 if d["linear"] else math.pi))


def strings_ok(d: Data) -> bool:
    if d["kind"] == "strings":
        return bool(sum(1 for _ in permutations(range(d["m"]), d["k"])) == d["answer"])
    counts = [math.factorial(d["word"].count(letter)) for letter in set(d["word"])]
    every = math.factorial(len(d["word"])) // math.prod(counts)
    share = Fraction(d["word"].count(d["word"][0]), len(d["word"]))
    return bool(d["answer"] == (every, every * share))


def binomial_ok(d: Data) -> bool:
    total = Fraction(0)
    for tries in product((0, 1), repeat=d["n"]):
        if sum(tries) == d["k"]:
            total += d["p"] ** sum(tries) * (1 - d["p"]) ** (d["n"] - sum(tries))
    return bool(total == d["answer"])


def draw_ok(d: Data) -> bool:
    balls = [1] * d["red"] + [0] * d["blue"]
    pairs = list(combinations(balls, 2))
    return bool(Fraction(sum(1 for pair in pairs if any(pair)), len(pairs)) == d["answer"])


def euclid_ok(d: Data) -> bool:
    value, x, y = d["answer"]
    return bool(value == math.gcd(d["a"], d["b"]) == d["a"] * x + d["b"] * y)


def crt_ok(d: Data) -> bool:
    period = d["moduli"][0] * d["moduli"][1]
    fits = [x for x in range(period) if all(x % m == r for m, r in zip(d["moduli"], d["remainders"], strict=True))]
    return fits == [d["answer"]] and d["period"] == period


def fermat_ok(d: Data) -> bool:
    value = 1
    for _ in range(d["e"]):
        value = value * d["a"] % d["p"]
    return bool(value == d["answer"])


def projection_ok(d: Data) -> bool:
    slope, cut = map(float, d["answer"])

    def rest(x: float) -> float:
        return float(horner(d["coefficients"], x)) - slope * x - cut

    return near(quad(rest, 0, 1)[0], 0) and near(quad(lambda x: x * rest(x), 0, 1)[0], 0)


def diagonal_ok(d: Data) -> bool:
    entries = [abs(d["a"] + Fraction((-1) ** n * d["b"], n ** d["c"])) for n in range(1, 60)]
    return bool(max(entries) == d["answer"])


def half_plane_ok(d: Data) -> bool:
    (x1, y1), (x2, y2) = d["points"]
    one, two = complex(x1, y1), complex(x2, y2)
    return near(2 * math.atanh(abs(one - two) / abs(one - two.conjugate())), math.acosh(float(d["answer"])))


def circle_ok(d: Data) -> bool:
    h, k, r = d["answer"]
    u, v = d["linear"]
    points = [(h + r, k), (h - r, k), (h, k + r), (h, k - r)]
    return all(x * x + y * y + u * x + v * y + d["constant"] == 0 for x, y in points)


def ellipse_ok(d: Data) -> bool:
    c, t = math.sqrt(d["answer"]), 0.7
    x, y = d["a"] * math.cos(t), d["b"] * math.sin(t)
    return near(math.hypot(x - c, y) + math.hypot(x + c, y), 2 * d["a"])


def hyperbola_ok(d: Data) -> bool:
    slope, square = d["answer"]
    x, y, c = d["a"] * math.cosh(0.6), d["b"] * math.sinh(0.6), math.sqrt(square)
    return near(math.hypot(x + c, y) - math.hypot(x - c, y), 2 * d["a"]) and near(slope, d["b"] / d["a"])


def parabola_ok(d: Data) -> bool:
    (h, k), (fx, fy, line) = d["vertex"], d["answer"]
    x = h + 3.0
    y = k + 9 / (4 * d["p"])
    return near(math.hypot(x - fx, y - fy), abs(y - line))


def heron_ok(d: Data) -> bool:
    a, b, c = d["sides"]
    x = (b * b + c * c - a * a) / (2 * c)
    return near(float(d["answer"]), (c * math.sqrt(b * b - x * x) / 2) ** 2)


def transport_ok(d: Data) -> bool:
    (a, b), (x, t) = d["f"], d["at"]
    start = x - d["c"] * t  # back along the characteristic
    return bool(a * start * start + b * start == d["answer"])


def expectation_ok(d: Data) -> bool:
    fields = [v for v, w in zip(d["prizes"], d["weights"], strict=True) for _ in range(w)]
    fields += [0] * (d["sides"] - len(fields))
    return bool(Fraction(sum(fields), len(fields)) - d["stake"] == d["answer"])


def bayes_ok(d: Data) -> bool:
    n = 10**6
    bad, good = d["p"] * n * d["s"], (1 - d["p"]) * n * d["f"]
    return bool(Fraction(bad, bad + good) == d["answer"])


def point_ok(d: Data) -> bool:
    (a, b, c), (x, y) = d["line"], d["point"]
    one, two = (0.0, -c / b), (1.0, -(c + a) / b)  # two points of the line
    cross = (two[0] - one[0]) * (y - one[1]) - (two[1] - one[1]) * (x - one[0])
    return near(abs(cross) / math.dist(one, two), d["answer"])


def heat_ok(d: Data) -> bool:
    x, h = 0.31, 1e-3
    for (n, _), rate in zip(d["modes"], d["answer"], strict=True):
        bend = (math.sin(n * (x + h)) - 2 * math.sin(n * x) + math.sin(n * (x - h))) / h**2
        if not math.isclose(d["k"] * bend, -rate * math.sin(n * x), rel_tol=1e-3):
            return False
    return True


CHECKS: dict[str, Callable[[Data], bool]] = {
    "percent_change": lambda d: 100 * 100 * d["answer"] == d["price"] * (100 + d["up"]) * (100 - d["down"]),
    "percent_reverse": lambda d: d["answer"] - d["answer"] * Fraction(d["off"], 100) == d["paid"],
    "fraction_sum": lambda d: sum(d["terms"]) == d["answer"],
    "linear_equation": lambda d: d["a"] * (d["answer"] + d["b"]) == d["c"] * d["answer"] + d["d"],
    "linear_system": lambda d: all(a * d["answer"][0] + b * d["answer"][1] == e for a, b, e in d["rows"]),
    "quadratic": lambda d: all(horner(d["coefficients"], x) == 0 for x in d["answer"]),
    "arithmetic_series": lambda d: sum(d["a"] + k * d["d"] for k in range(d["n"])) == d["answer"],
    "geometric_sum": lambda d: sum(d["a"] * d["r"] ** k for k in range(d["n"])) == d["answer"],
    "geometric_series": lambda d: near(sum(d["a"] * float(d["r"]) ** k for k in range(400)), d["answer"]),
    "induction_sum": lambda d: all(
        sum(2 * d["a"] * k + d["b"] for k in range(1, n + 1)) == d["answer"][0] * n * n + d["answer"][1] * n
        for n in range(1, 12)
    ),
    "induction_divides": lambda d: all((d["base"] ** n - d["other"] ** n) % d["answer"] == 0 for n in range(1, 9)),
    "law_of_cosines": lambda d: near(
        math.sqrt(d["sides"][0] ** 2 + d["sides"][1] ** 2 - 2 * d["sides"][0] * d["sides"][1] * d["answer"]),
        d["sides"][2],
    ),
    "heron": heron_ok,
    "double_angle": lambda d: near(math.sin(2 * math.atan2(d["sine"], d["cosine"])), d["answer"]),
    "sine_rule": lambda d: near(
        math.sqrt(d["answer"]), d["a"] * math.sin(math.radians(d["beta"])) / math.sin(math.radians(d["alpha"]))
    ),
    "line_through": lambda d: all(d["answer"][0] * x + d["answer"][1] == y for x, y in d["points"]),
    "point_to_line": point_ok,
    "circle_center": circle_ok,
    "ellipse": ellipse_ok,
    "parabola": parabola_ok,
    "hyperbola": hyperbola_ok,
    "spherical_area": lambda d: near(
        float(d["answer"]) * math.pi, (sum(map(math.radians, d["angles"])) - math.pi) * d["r"] ** 2
    ),
    "hyperbolic_area": lambda d: near(float(d["answer"]) * math.pi, math.pi - sum(map(math.radians, d["angles"]))),
    "hyperbolic_distance": half_plane_ok,
    "committee": lambda d: math.prod(sum(1 for _ in combinations(range(n), k)) for n, k in d["groups"]) == d["answer"],
    "anagrams": strings_ok,
    "bayes": bayes_ok,
    "without_replacement": draw_ok,
    "binomial": binomial_ok,
    "expectation": expectation_ok,
    "tangent": tangent_ok,
    "chain_rule": chain_ok,
    "product_rule": product_ok,
    "extrema": extrema_ok,
    "definite_integral": lambda d: near(
        quad(lambda x: float(horner(d["coefficients"], x)), *d["limits"])[0], d["answer"]
    ),
    "by_parts": parts_ok,
    "gradient": gradient_ok,
    "double_integral": lambda d: near(
        dblquad(lambda y, x: d["a"] * x * y + d["b"], 0, d["w"], 0, d["h"])[0], d["answer"]
    ),
    "saddle": saddle_ok,
    "separable": lambda d: d["answer"][1] * (d["n"] + 1) == d["a"] and d["answer"][0] == d["start"],
    "linear_first_order": lambda d: d["a"] * d["answer"][0] == d["b"] and sum(d["answer"]) == d["start"],
    "second_order": second_order_ok,
    "repeated_or_complex": lambda d: bool(
        np.allclose(sorted(np.roots([1, d["b"], d["c"]]).imag), [-d["answer"][1], d["answer"][1]])
        and np.allclose(np.roots([1, d["b"], d["c"]]).real, d["answer"][0])
    ),
    "heat_modes": heat_ok,
    "transport": transport_ok,
    "sine_series": sine_ok,
    "classify": lambda d: (
        d["answer"]
        == {-1: "hyperbolic", 0: "parabolic", 1: "elliptic"}[
            int(
                np.sign(
                    np.round(np.linalg.det([[2 * d["form"][0], d["form"][1]], [d["form"][1], 2 * d["form"][2]]]), 6)
                )
            )
        ]
    ),
    "euclid": euclid_ok,
    "modular_inverse": lambda d: (
        d["a"] * d["answer"][0] % d["m"] == 1 and (d["a"] * d["answer"][1] - d["b"]) % d["m"] == 0
    ),
    "chinese_remainder": crt_ok,
    "fermat": fermat_ok,
    "lp_norms": lambda d: bool(
        np.allclose(
            [np.linalg.norm(d["vector"], 1), np.linalg.norm(d["vector"]) ** 2, np.linalg.norm(d["vector"], np.inf)],
            d["answer"],
        )
    ),
    "geometric_norm": lambda d: all(
        near(sum((d["a"] * float(d["r"]) ** n) ** power for n in range(500)), d["answer"][power - 1])
        for power in (1, 2)
    ),
    "diagonal_operator": diagonal_ok,
    "orthogonal_polynomial": projection_ok,
}


def test_every_generator_has_a_check_and_every_title_its_generators() -> None:
    assert CHECKS.keys() == GENERATORS.keys()
    assert {title.title for title in MATH.titles} == SUITED.keys()
    assert {name for names in SUITED.values() for name in names} == GENERATORS.keys()
    assert generators_for("A title of somebody's own") == tuple(GENERATORS)


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_answers_are_right_and_mistakes_are_wrong(name: str) -> None:
    for number in range(1000, 1060):
        problem = exercise(name, number).problem
        assert CHECKS[name](problem.data), (name, number, problem.statement, problem.answer)
        assert problem.data["wrong"] != problem.data["answer"], (name, number)
        assert problem.slip.wrong != problem.answer
        assert problem.slip.said not in " ".join(step.said for step in problem.steps)
        texts = [problem.statement, problem.answer, problem.check, problem.slip.why, problem.slip.said]
        for text in [*texts, *(step.text for step in problem.steps), *(step.said for step in problem.steps)]:
            assert text.count(r"\(") == text.count(r"\)") and text.count(r"\[") == text.count(r"\]"), text
            assert text.count("{") == text.count("}"), text
            assert "+ -" not in text and "- -" not in text and "Fraction" not in text, text


def test_numbers_are_written_exactly() -> None:
    assert [tex(Fraction(-2, 5)), tex(Fraction(6, 3)), tex(-4)] == [r"-\frac{2}{5}", "2", "-4"]
    assert poly([1, -1, 0]) == "x^2 - x" and poly([0, 0, 3]) == "3" and poly([-2, 1]) == "-2x + 1"
    assert [root(12), root(49), root(7)] == [r"2\sqrt{3}", "7", r"\sqrt{7}"]
    assert [decimal(Fraction(1, 8)), decimal(Fraction(-1, 3), 3), decimal(5), decimal(Fraction(19, 10))] == [
        "0.13", "-0.333", "5", "1.9",
    ]  # fmt: skip


def _occasion(seed: int, purpose: Purpose, target: int, question: str = "", closing: str = "") -> Occasion:
    rng = random.Random(f"test of mathematics {seed}")
    title, topic, template = rng.choice(MATH.titles), rng.choice(MATH.topics), rng.choice(MATH.subjects)
    lexicon = {**common_lexicon(), **MATH.lexicon, **title.lexicon}
    words = {slot: rng.choice(choices) for slot, choices in lexicon.items()} | {"goal": title.goal}
    thing = Thing(SLOT.sub(lambda slot: words[slot[1]], template.name), template, words)
    aspect = next(one for one in template.aspects if one.kind == "quantity")
    fact = Fact(thing, aspect, 0, 1, 1, {"value": f"{aspect.low} {aspect.unit}"}, aspect.low)
    told = fact if purpose in ("fact", "contradiction") else None
    return Occasion(rng, MATH, title, PROFILE, topic, purpose, words, date(2024, 3, 5), thing, told, (), question,
                    target, closing)  # fmt: skip


PURPOSES: tuple[Purpose, ...] = (
    "introduction", "fact", "contradiction", "preference", "instruction", "dig", "reply", "followup",
)  # fmt: skip


@pytest.mark.parametrize("purpose", PURPOSES)
def test_length_and_end_of_answers(purpose: Purpose) -> None:
    for seed, target in enumerate(range(200, 1601, 70)):
        question = math_question(_occasion(seed, purpose, 0)) if purpose in ("fact", "dig") else "What next?"
        closing = "Shall we look at the next one together?" if seed % 3 == 0 else ""
        answer = write_math_answer(_occasion(seed, purpose, target, question, closing))
        assert abs(count_tokens(answer) - target) <= 0.05 * target, (seed, target)
        assert answer.endswith(closing) if closing else not answer.endswith("?")
        assert answer == write_math_answer(_occasion(seed, purpose, target, question, closing))


def test_an_answer_works_the_problem_of_its_question() -> None:
    forms = set()
    for seed in range(300):
        question = math_question(_occasion(seed, "dig", 0))
        quoted = find(f"Something before. {question}\n\nAnd 3.1415 as well?")
        assert quoted is not None
        problem: Problem = quoted.problem
        form = form_of(question, problem)
        forms.add(form)
        answer = write_math_answer(_occasion(seed, "dig", 900, question))
        assert f"**Result:** {problem.answer}." in answer
        assert all(step.text in answer for step in problem.steps)
        assert (problem.slip.why in answer) == (form == "slip")
        if form == "slip":
            assert problem.slip.wrong in question
    assert forms == {"slip", "right", "stuck", "solve"}


def test_a_changed_problem_is_not_taken_for_the_quoted_one() -> None:
    quoted = exercise("quadratic", 1234)
    assert find(f"Exercise {quoted.reference}: {quoted.problem.statement}") == quoted
    assert find(f"Exercise {quoted.reference}: Solve x^2 = 2") is None
    assert find("Exercise 99.1234 and 0.1234") is None


def test_a_denied_fact_is_not_restated() -> None:
    for seed in range(60):
        occasion = _occasion(seed, "contradiction", 500, "What now?")
        assert occasion.fact is not None
        answer = write_math_answer(occasion)
        assert occasion.fact.state not in answer and occasion.fact.values["value"] not in answer


def test_questions_differ() -> None:
    for index in range(0, len(MATH.titles), 4):
        occasion = _occasion(index, "dig", 0)
        texts = {math_question(occasion) for _ in range(1000)}
        assert len(texts) >= 998
    assert len(NUMBERS) == 9000


def test_names_are_many(math_bank: Bank = MATH) -> None:
    names = set()
    for subject in math_bank.subjects:
        slots = SLOT.findall(subject.name)
        assert any(len(common_lexicon().get(slot, [])) >= 90 for slot in slots), subject.name
        names.add(subject.name)
    assert len(names) == 12
