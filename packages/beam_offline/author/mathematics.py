"""Problems in messages of the domain Math: drawn and solved with sympy, worded by the lists of `banks/math.toml`.

A family draws a problem: what is given (it fills the list `task_<family>`), a slip that a learner makes, the steps
(each the name of a list and what fills it) and the result. `fault_<family>` says how the slip comes about, where a
family has several slips `fault_<its fault>`. A title names the families that suit it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from math import comb, gcd, perm
from typing import Any

import sympy as sp

from beam_offline.author.answers import AnswerDraft, Exercise
from beam_offline.author.scenario import Scenario

X, Y, N, T = sp.symbols("x y n t")
_equal = partial(sp.Eq, evaluate=False)  # sympy's finding out whether it holds took most of the time
_MANY = 2_000  # problems of a plan, after which one may come again
Family = Callable[[random.Random], "MathProblem"]


@dataclass(frozen=True)
class MathProblem:
    """A problem worked out; all texts may hold LaTeX between \\( and \\)."""

    given: tuple[str, ...]
    slip: str
    steps: tuple[tuple[str, str], ...]
    result: str
    fault: str = ""


def tex(value: Any) -> str:
    """Write an expression as LaTeX within a text."""
    return f"\\({sp.latex(value)}\\)"


def _nonzero(rng: random.Random, most: int) -> int:
    return rng.choice([number for number in range(-most, most + 1) if number])


def linear_equation(rng: random.Random) -> MathProblem:
    a, b, root, c = rng.randint(2, 12), _nonzero(rng, 20), _nonzero(rng, 15), rng.randint(1, 9)
    a += c
    left, right = a * X + b, c * X + (a - c) * root + b
    return MathProblem(
        (tex(_equal(left, right)),), f"x = {sp.Rational((a - c) * root, a + c)}",
        (("collect", tex(_equal((a - c) * X, (a - c) * root))), ("divide", tex(a - c))), f"x = {root}",
    )  # fmt: skip


def quadratic(rng: random.Random) -> MathProblem:
    one = _nonzero(rng, 12)
    two = rng.choice([number for number in range(-12, 13) if number not in (0, one, -one)])
    lead = rng.choice((1, 1, 2, 3))
    whole = sp.expand(lead * (X - one) * (X - two))
    return MathProblem(
        (tex(_equal(whole, 0)),), f"x = {-one} and x = {-two}",
        (("factor", tex(sp.factor(whole))), ("zero_product", f"x = {one} or x = {two}")),
        f"x = {min(one, two)} and x = {max(one, two)}",
    )  # fmt: skip


def linear_system(rng: random.Random) -> MathProblem:
    x, y = _nonzero(rng, 9), _nonzero(rng, 9)
    a, b, c, d = (_nonzero(rng, 7) for _ in range(4))
    while x == y or a * d == b * c:
        y, d = _nonzero(rng, 9), _nonzero(rng, 7)
    det = a * d - b * c
    first, second = _equal(a * X + b * Y, a * x + b * y), _equal(c * X + d * Y, c * x + d * y)
    return MathProblem(
        (tex(first), tex(second)), f"x = {y}, y = {x}",
        (("eliminate", tex(_equal(det * X, det * x))), ("back", tex(_equal(a * x + b * Y, first.rhs)))),
        f"x = {x}, y = {y}",
    )  # fmt: skip


def derivative(rng: random.Random) -> MathProblem:
    a, b, k = rng.randint(2, 9), _nonzero(rng, 9), rng.randint(2, 6)
    inner = rng.choice((sp.sin(a * X), sp.exp(a * X), sp.log(X), sp.cos(a * X), sp.sqrt(X)))
    whole, slip, fault = rng.choice((
        (X**k * inner, k * X ** (k - 1) * sp.diff(inner, X), "product"),
        (inner * (X + b), sp.diff(inner, X), "product"),
        ((a * X + b) ** (k + 1), (k + 1) * (a * X + b) ** k, "chain"),
        (inner + b * X**k, sp.diff(inner, X) + b * X ** (k - 1), "power"),
    ))  # fmt: skip
    found = sp.diff(whole, X)
    neat = found if fault == "power" else sp.factor(found)
    steps = (("rule_diff", tex(found)), ("simplify", tex(neat)))[: 1 + (neat != found)]
    return MathProblem((tex(whole),), tex(slip), steps, tex(neat), fault)


def integral(rng: random.Random) -> MathProblem:
    low, high, k, a, b = rng.randint(1, 2), rng.randint(3, 5), rng.randint(1, 4), rng.randint(2, 9), _nonzero(rng, 9)
    poly = sp.Poly(a * X**k + b * X + rng.randint(0, 8), X)
    whole, inner = poly.as_expr(), poly.integrate(X).as_expr()
    upper, lower = inner.subs(X, high), inner.subs(X, low)
    return MathProblem(
        (f"\\(\\int_{{{low}}}^{{{high}}} \\left({sp.latex(whole)}\\right)\\,dx\\)",), tex(upper),
        (("antiderivative", tex(inner)), ("bounds", f"{tex(upper)} minus {tex(lower)}")), tex(upper - lower),
    )  # fmt: skip


def limit(rng: random.Random) -> MathProblem:
    point, a = rng.randint(1, 9), _nonzero(rng, 9)
    other = rng.choice([number for number in range(-9, 10) if number != point])
    top = sp.expand((X - point) * (X - other) * a)
    return MathProblem(
        (tex(top / (X - point)), str(point)), "no limit at all",
        (("numerator", tex(sp.factor(top))), ("cancel", tex(X - point))), tex(a * (point - other)),
    )  # fmt: skip


def geometric_series(rng: random.Random) -> MathProblem:
    first, below = rng.randint(2, 30), rng.randint(2, 9)
    ratio = sp.Rational(rng.randint(1, below - 1), below)
    return MathProblem(
        (f"\\(\\sum_{{n=0}}^{{\\infty}} {first}\\left({sp.latex(ratio)}\\right)^n\\)",),
        tex(first * (1 - ratio)), (("ratio", tex(ratio)), ("formula", f"\\(\\frac{{a}}{{1-r}}\\) with a = {first}")),
        tex(first / (1 - ratio)),
    )  # fmt: skip


def arithmetic_sequence(rng: random.Random) -> MathProblem:
    first, step, count = _nonzero(rng, 25), _nonzero(rng, 11), rng.randint(12, 60)
    last = first + (count - 1) * step
    return MathProblem(
        (str(count), f"{first}, {first + step}, {first + 2 * step}"),
        str(sp.Rational(count * (first + last + step), 2)),
        (("last_term", f"\\(a_{{{count}}} = {last}\\)"), ("formula", "\\(S_n = \\frac{n}{2}(a_1 + a_n)\\)")),
        str(sp.Rational(count * (first + last), 2)),
    )  # fmt: skip


def triangle(rng: random.Random) -> MathProblem:
    a, b, degrees = rng.randint(3, 19), rng.randint(3, 19), rng.choice((60, 90, 120))
    square = a * a + b * b - {60: a * b, 90: 0, 120: -a * b}[degrees]
    slip = f"{a + b} cm" if degrees == 90 else f"about {(a * a + b * b) ** 0.5:.2f} cm"
    return MathProblem(
        (str(a), str(b), str(degrees)), slip,
        (("law", "\\(c^2 = a^2 + b^2 - 2ab\\cos\\gamma\\)"), ("insert", f"\\(c^2 = {square}\\)")),
        f"c = {tex(sp.sqrt(square))} cm, about {float(sp.sqrt(square)):.2f} cm", "legs" if degrees == 90 else "",
    )  # fmt: skip


@cache
def _exact(wave: Any, angle: Any) -> Any:
    return sp.simplify(sp.expand_trig(wave(angle)))


def trigonometric(rng: random.Random) -> MathProblem:
    angle = rng.choice((sp.pi / 6, sp.pi / 4, sp.pi / 3, 2 * sp.pi / 3, 3 * sp.pi / 4, 5 * sp.pi / 6))
    shift = rng.choice((sp.pi / 2, sp.pi, sp.pi / 3, sp.pi / 4, sp.pi / 6))
    wave = rng.choice((sp.sin, sp.cos))
    value = _exact(wave, angle + shift)
    law = "\\sin a\\cos b + \\cos a\\sin b" if wave is sp.sin else "\\cos a\\cos b - \\sin a\\sin b"
    return MathProblem(
        (f"\\(\\{wave.__name__}\\left({sp.latex(angle)} + {sp.latex(shift)}\\right)\\)",),
        tex(wave(angle) + wave(shift)), (("addition", f"\\(\\{wave.__name__}(a + b) = {law}\\)"),), tex(value),
    )  # fmt: skip


def dice(rng: random.Random) -> MathProblem:
    sides, total = rng.choice((6, 8, 10, 12)), rng.randint(4, 12)
    ways = sum(1 for one in range(1, sides + 1) if 1 <= total - one <= sides)
    value = sp.Rational(ways, sides * sides)
    return MathProblem(
        (str(sides), str(total)), tex(sp.Rational(ways, 2 * sides)),
        (("count", f"{ways} pairs"), ("out_of", f"{sides * sides} equally likely pairs")), tex(value),
    )  # fmt: skip


def combinations(rng: random.Random) -> MathProblem:
    n, k = rng.randint(7, 16), rng.randint(2, 5)
    what = rng.choice(("books", "players", "songs", "paintings", "volunteers", "recipes"))
    return MathProblem(
        (str(k), str(n), what), str(perm(n, k)),
        (("choose", f"\\(\\binom{{{n}}}{{{k}}}\\)"), ("divide_out", f"{k}!")), str(comb(n, k)),
    )  # fmt: skip


def bayes(rng: random.Random) -> MathProblem:
    ill, hit, false = rng.randint(1, 12), rng.randint(85, 99), rng.randint(2, 12)
    true, wrong = ill * hit, (100 - ill) * false
    value = sp.Rational(true, true + wrong)
    return MathProblem(
        (str(ill), str(hit), str(false)),
        f"{hit}%", (("bayes", f"{true} against {wrong}"), ("simplify", f"\\(\\frac{{{true}}}{{{true} + {wrong}}}\\)")),
        f"{tex(value)}, about {float(value):.3f}",
    )  # fmt: skip


def modular(rng: random.Random) -> MathProblem:
    modulus = rng.choice((11, 13, 17, 19, 23, 29, 31, 37))
    a, right = rng.randint(3, modulus - 2), rng.randint(2, modulus - 1)
    inverse = pow(a, -1, modulus)
    return MathProblem(
        (f"\\({a}x \\equiv {right} \\pmod{{{modulus}}}\\)",),
        f"\\(x \\equiv {a * right % modulus} \\pmod{{{modulus}}}\\)",
        (("inverse", f"{inverse}"), ("multiply", f"\\(x \\equiv {inverse}\\cdot {right}\\)")),
        f"\\(x \\equiv {inverse * right % modulus} \\pmod{{{modulus}}}\\)",
    )  # fmt: skip


def greatest_divisor(rng: random.Random) -> MathProblem:
    common, one, two = rng.randint(3, 36), rng.randint(5, 29), rng.randint(5, 29)
    a, b = common * max(one, two + 1), common * min(one, two)
    return MathProblem(
        (str(a), str(b)), str(a % b or gcd(a, b)),
        (("remainder", f"\\({a} = {a // b}\\cdot {b} + {a % b}\\)"), ("repeat", f"{gcd(a, b)}")), str(gcd(a, b)),
    )  # fmt: skip


def induction(rng: random.Random) -> MathProblem:
    a, b = rng.randint(1, 9), rng.randint(0, 9)
    closed = N * (a * N + a + 2 * b) / 2
    return MathProblem(
        (f"\\(\\sum_{{k=1}}^{{n}} ({sp.latex(a * X + b).replace('x', 'k')}) = {sp.latex(closed)}\\)",),
        f"a sum for n + 1 that is {a + b} larger than the one for n",
        (("base", f"n = 1 gives {a + b}"), ("step", tex(closed + sp.expand(a * (N + 1) + b)))),
        f"the formula for n + 1, {tex(sp.factor(closed.subs(N, N + 1)))}",
    )  # fmt: skip


def ellipse(rng: random.Random) -> MathProblem:
    a, b = sorted(rng.sample(range(2, 16), 2), reverse=True)
    return MathProblem(
        (f"\\(\\frac{{x^2}}{{{a * a}}} + \\frac{{y^2}}{{{b * b}}} = 1\\)",), tex(sp.sqrt(a * a + b * b)),
        (("relation", "\\(c^2 = a^2 - b^2\\)"), ("insert", f"\\(c^2 = {a * a - b * b}\\)")),
        f"\\((\\pm {sp.latex(sp.sqrt(a * a - b * b))}, 0)\\)",
    )  # fmt: skip


def distance(rng: random.Random) -> MathProblem:
    a, b, c = rng.choice(((3, 4, 5), (5, 12, 13), (8, 15, 17), (6, 8, 10)))
    k, x, y = _nonzero(rng, 30), _nonzero(rng, 9), _nonzero(rng, 9)
    value = sp.Rational(abs(a * x + b * y + k), c)
    return MathProblem(
        (str(x), str(y), tex(_equal(a * X + b * Y + k, 0))),
        tex(abs(a * x + b * y + k)), (("insert", str(a * x + b * y + k)), ("normal", str(c))), tex(value),
    )  # fmt: skip


def gradient(rng: random.Random) -> MathProblem:
    a, b, p, q = rng.randint(2, 9), _nonzero(rng, 9), rng.randint(1, 3), rng.randint(1, 3)
    whole, x, y = a * X**p * Y**q + b * X, _nonzero(rng, 3), _nonzero(rng, 3)
    parts = [sp.diff(whole, X), sp.diff(whole, Y)]
    values = [part.subs({X: x, Y: y}) for part in parts]
    return MathProblem(
        (tex(whole), str(x), str(y)), f"({values[1]}, {values[0]})",
        (("partial", f"{tex(parts[0])} and {tex(parts[1])}"), ("insert", f"x = {x}, y = {y}")),
        f"({values[0]}, {values[1]})",
    )  # fmt: skip


def double_integral(rng: random.Random) -> MathProblem:
    a, b, p, q = rng.randint(1, 4), rng.randint(1, 4), rng.randint(1, 3), rng.randint(0, 2)
    inner = sp.Rational(b ** (q + 1), q + 1)
    return MathProblem(
        (f"\\(\\int_0^{{{a}}}\\int_0^{{{b}}} {sp.latex(X**p * Y**q)}\\,dy\\,dx\\)",), tex(a * b),
        (("inner", tex(inner * X**p)), ("antiderivative", tex(inner * X ** (p + 1) / (p + 1)))),
        tex(inner * sp.Rational(a ** (p + 1), p + 1)),
    )  # fmt: skip


def linear_ode(rng: random.Random) -> MathProblem:
    k, start, c = _nonzero(rng, 6), _nonzero(rng, 9), _nonzero(rng, 12)
    fixed = sp.Rational(-c, k)
    found = fixed + (start - fixed) * sp.exp(k * T)
    return MathProblem(
        (f"\\(y' = {sp.latex(k * Y + c)}\\)", str(start)), tex(start * sp.exp(k * T)),
        (("fixed", tex(fixed)), ("constant", tex(start - fixed))), f"\\(y(t) = {sp.latex(found)}\\)",
    )  # fmt: skip


def heat_equation(rng: random.Random) -> MathProblem:
    modes, speed, size = rng.randint(2, 8), rng.randint(2, 9), rng.randint(2, 12)
    decay = f"e^{{-{speed * modes * modes}\\pi^2 t}}"
    return MathProblem(
        (f"\\(u_t = {speed}u_{{xx}}\\)", f"\\(u(x,0) = {size}\\sin({modes}\\pi x)\\)"),
        f"\\({size}e^{{-{speed * modes}\\pi t}}\\sin({modes}\\pi x)\\)",
        (("separate", f"\\(\\lambda = {modes * modes}\\pi^2\\)"), ("decay", f"\\({decay}\\)")),
        f"\\(u(x,t) = {size}{decay}\\sin({modes}\\pi x)\\)",
    )  # fmt: skip


def inner_product(rng: random.Random) -> MathProblem:
    one, two = rng.randint(1, 5) * X + _nonzero(rng, 6), rng.randint(1, 4) * X ** rng.randint(1, 3) + _nonzero(rng, 5)
    poly = sp.Poly(one * two, X)
    product, whole = poly.as_expr(), poly.integrate(X).as_expr()
    return MathProblem(
        (tex(one), tex(two)), tex(product.subs(X, 1)),
        (("product", tex(product)), ("antiderivative", tex(whole))),
        tex(whole.subs(X, 1)),
    )  # fmt: skip


def angle_defect(rng: random.Random) -> MathProblem:
    one, two, three = (rng.randint(15, 55) for _ in range(3))
    return MathProblem(
        (str(one), str(two), str(three)),
        f"{one + two + three} degrees",
        (("defect", f"{180 - one - two - three} degrees"), ("radians", tex(sp.pi / 180))),
        tex(sp.pi * sp.Rational(180 - one - two - three, 180)),
    )  # fmt: skip


def fractions(rng: random.Random) -> MathProblem:
    below, under = rng.sample(range(3, 17), 2)
    one, two = sp.Rational(rng.randint(1, below - 1), below), sp.Rational(rng.randint(1, under - 1), under)
    below = sp.ilcm(one.q, two.q)
    return MathProblem(
        (tex(one), tex(two)), tex(sp.Rational(one.p + two.p, one.q + two.q)),
        (("common", str(below)), ("sum", f"{one * below} + {two * below}")), tex(one + two),
    )  # fmt: skip


def percentages(rng: random.Random) -> MathProblem:
    price, off, tax = 5 * rng.randint(8, 120), 5 * rng.randint(1, 9), rng.randint(4, 21)
    value = sp.Rational(price * (100 - off) * (100 + tax), 10_000)
    return MathProblem(
        (str(price), str(off), str(tax)),
        f"${float(sp.Rational(price * (100 - off + tax), 100)):.2f}",
        (("factor_off", f"{(100 - off) / 100:g}"), ("factor_tax", f"{(100 + tax) / 100:g}")), f"${float(value):.2f}",
    )  # fmt: skip


FAMILIES: Mapping[str, Family] = {
    family.__name__: family
    for family in (
        linear_equation, quadratic, linear_system, derivative, integral, limit, geometric_series, arithmetic_sequence,
        triangle, trigonometric, dice, combinations, bayes, modular, greatest_divisor, induction, ellipse, distance,
        gradient, double_integral, linear_ode, heat_equation, inner_product, angle_defect, fractions, percentages,
    )
}  # fmt: skip


def math_exercises(scenario: Scenario, rng: random.Random) -> Iterator[Exercise]:
    """Yield problems of the families that suit the title, each family in turn; none comes twice in a plan."""
    named = next((one.families for one in scenario.bank.titles if one.title == scenario.title.title), [])
    families, told = named or list(FAMILIES), set[tuple[str, ...]]()
    while True:
        for name in rng.sample(families, len(families)):
            problem = FAMILIES[name](rng)
            if ((name, *problem.given) not in told or len(told) > _MANY) and problem.slip != problem.result:
                told.add((name, *problem.given))
                yield _exercise(scenario, name, problem, rng)


def _exercise(scenario: Scenario, family: str, problem: MathProblem, rng: random.Random) -> Exercise:
    task = scenario.grammar.say(f"task_{family}", dict(zip("abcd", problem.given, strict=False)), rng)
    words = {"task": task, "slip": problem.slip, "person": rng.choice(scenario.people[0])}
    message = scenario.grammar.say("math_shown", words, rng)

    def answer(draft: AnswerDraft) -> list[str]:
        lines = [f"{at}. {draft.say(f'math_{name}', a=a)}" for at, (name, a) in enumerate(problem.steps, start=1)]
        lines.append(f"{len(lines) + 1}. {draft.say('math_result', a=problem.result)}")
        checked = draft.say("math_check", slip=problem.slip, fault=draft.say(f"fault_{problem.fault or family}"))
        return [draft.say("math_begin", task=task), "\n".join(lines), checked]

    return Exercise(message, answer)
