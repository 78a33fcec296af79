"""Problems on derivatives and integrals."""

# ruff: noqa: E501 -- a formula is easier to check on one line

from __future__ import annotations

import random
from fractions import Fraction

from beamlib.generate.author.problems_base import (
    Number,
    Problem,
    Slip,
    Step,
    combine,
    nonzero,
    paren,
    poly,
    signed,
    tex,
)


def tangent(rng: random.Random) -> Problem:
    a, b, c, d = nonzero(rng, -3, 3), rng.randrange(-5, 6), rng.randrange(-6, 7), rng.randrange(-9, 10)
    t = nonzero(rng, -3, 3)
    y = a * t**3 + b * t * t + c * t + d
    slope = 3 * a * t * t + 2 * b * t + c
    cut = y - slope * t
    line = combine([(slope, "x"), (cut, "")])
    return Problem(
        "tangent lines",
        rf"Find the tangent line of \( f(x) = {poly([a, b, c, d])} \) at \( x = {t} \).",
        (
            Step(
                "Differentiate",
                rf"\[ f'(x) = {poly([3 * a, 2 * b, c])} \]",
                rf"I differentiated to \( f'(x) = {poly([3 * a, 2 * b, c])} \)",
            ),
            Step(
                "Point and slope",
                rf"\( f({t}) = {y} \) and \( f'({t}) = {slope} \).",
                rf"I computed \( f({t}) = {y} \) and \( f'({t}) = {slope} \)",
            ),
            Step(
                "Line",
                rf"\[ y = {slope}\,(x {signed(-t)}) {signed(y)} = {line} \]",
                rf"I put it together as \( y = {line} \)",
            ),
        ),
        rf"\( y = {line} \)",
        rf"At \( x = {t} \) the line has the height \( {paren(slope)} \cdot {paren(t)} {signed(cut)} = {y} = f({t}) \), and its slope is \( f'({t}) \).",
        Slip(
            2,
            rf"I used the slope and the value as they are, \( y = {combine([(slope, 'x'), (y, '')])} \)",
            rf"The value \( f({t}) = {y} \) is the height at \( x = {t} \), not at \( x = 0 \). The line through \( ({t}, {y}) \) needs \( x {signed(-t)} \).",
            rf"\( y = {combine([(slope, 'x'), (y, '')])} \)",
        )
        if slope
        else Slip(
            1,
            rf"I got \( f({t}) = {y} \) and took that for the slope too",
            rf"The slope is the derivative at the point, \( f'({t}) = 0 \): the tangent is horizontal.",
            rf"\( y = {combine([(y or 1, 'x'), (y - (y or 1) * t, '')])} \)",
        ),
        {
            "coefficients": (a, b, c, d),
            "t": t,
            "answer": (slope, cut),
            "wrong": (slope, y) if slope else (y or 1, y - (y or 1) * t),
        },
    )


def chain_rule(rng: random.Random) -> Problem:
    a, b, n = nonzero(rng, 2, 6), nonzero(rng, -7, 7), rng.randrange(3, 8)
    m = rng.choice([2, 2, 3])
    inner = combine([(a, "x^2" if m == 2 else "x^3"), (b, "")])
    front = n * m * a
    power = "x" if m == 2 else "x^2"
    return Problem(
        "the chain rule",
        rf"Differentiate \( f(x) = ({inner})^{n} \).",
        (
            Step(
                "Split into outer and inner function",
                rf"Outer: \( u^{n} \). Inner: \( u = {inner} \).",
                rf"I set \( u = {inner} \)",
            ),
            Step(
                "Differentiate both",
                rf"\[ \frac{{d}}{{du}}u^{n} = {n}u^{n - 1}, \qquad u' = {m * a}{power} \]",
                rf"I found \( {n}u^{n - 1} \) and \( u' = {m * a}{power} \)",
            ),
            Step(
                "Multiply",
                rf"\[ f'(x) = {n}({inner})^{n - 1} \cdot {m * a}{power} = {front}{power}({inner})^{n - 1} \]",
                "I multiplied the two derivatives",
            ),
        ),
        rf"\( f'(x) = {front}{power}({inner})^{n - 1} \)",
        rf"At \( x = 1 \) the formula gives \( {front} \cdot {paren(a + b)}^{n - 1} = {front * (a + b) ** (n - 1)} \). The difference quotient of \( f \) over a "
        "short interval around 1 comes close to this.",
        Slip(
            2,
            rf"I took \( {n}({inner})^{n - 1} \) for the derivative",
            rf"The inner function is not just \( x \), so its derivative \( {m * a}{power} \) has to be multiplied on.",
            rf"\( f'(x) = {n}({inner})^{n - 1} \)",
        ),
        {"a": a, "b": b, "m": m, "n": n, "answer": front, "wrong": n},
    )


def product_rule(rng: random.Random) -> Problem:
    k, n = nonzero(rng, -4, 5, 1), rng.randrange(2, 6)
    c = nonzero(rng, 1, 6)
    power = rf"x^{n}"
    low = "x" if n == 2 else rf"x^{n - 1}"
    e = rf"e^{{{k if k != -1 else '-'}x}}"
    first = combine([(c * n, low)])
    return Problem(
        "the product rule",
        rf"Differentiate \( f(x) = {combine([(c, power)])}{e} \) and find all points with a horizontal tangent.",
        (
            Step(
                "Derivatives of the factors",
                rf"\( u = {combine([(c, power)])} \) gives \( u' = {first} \), and \( v = {e} \) gives \( v' = {combine([(k, e)])} \).",
                rf"I got \( u' = {first} \) and \( v' = {combine([(k, e)])} \)",
            ),
            Step(
                "Product rule",
                rf"\[ f' = u'v + uv' = {first}{e} {'+' if k > 0 else '-'} {combine([(abs(c * k), power)])}{e} = {combine([(c, low)])}{e}({combine([(n, ''), (k, 'x')])}) \]",
                rf"I used \( u'v + uv' \) and factored out \( {combine([(c, low)])}{e} \)",
            ),
            Step(
                "Set the derivative to zero",
                rf"The exponential is never zero, so \( x = 0 \) or \( {combine([(n, ''), (k, 'x')])} = 0 \), that is \( x = {tex(Fraction(-n, k))} \).",
                rf"I solved for \( x = 0 \) and \( x = {tex(Fraction(-n, k))} \)",
            ),
        ),
        rf"\( f'(x) = {combine([(c, low)])}{e}({combine([(n, ''), (k, 'x')])}) \), horizontal at \( x = 0 \) and \( x = {tex(Fraction(-n, k))} \)",
        rf"Inserting \( x = {tex(Fraction(-n, k))} \) into the bracket gives \( {n} {signed(k)} \cdot {paren(Fraction(-n, k))} = 0 \).",
        Slip(
            1,
            rf"I multiplied the two derivatives, \( {first} \cdot {combine([(k, e)])} \)",
            "The derivative of a product is not the product of the derivatives. Each factor is differentiated in turn while the other stays.",
            rf"\( f'(x) = {combine([(c * n * k, low)])}{e} \)",
        ),
        {"c": c, "n": n, "k": k, "answer": Fraction(-n, k), "wrong": c * n * k},
    )


def extrema(rng: random.Random) -> Problem:
    p = rng.randrange(-5, 5)
    q = p + 2 * rng.randrange(1, 4)
    a = rng.choice([1, 1, 2])
    d = rng.randrange(-9, 10)
    b, c = -3 * a * (p + q) // 2, 3 * a * p * q
    f = [a, b, c, d]

    def value(x: int) -> int:
        return a * x**3 + b * x * x + c * x + d

    return Problem(
        "local extrema",
        rf"Find the local extrema of \( f(x) = {poly(f)} \).",
        (
            Step(
                "Differentiate",
                rf"\[ f'(x) = {poly([3 * a, 2 * b, c])} = {3 * a}{'x' if p == 0 else f'(x {signed(-p)})'}{'x' if q == 0 else f'(x {signed(-q)})'} \]",
                rf"I found \( f'(x) = {poly([3 * a, 2 * b, c])} \)",
            ),
            Step(
                "Critical points",
                rf"\( f'(x) = 0 \) at \( x = {p} \) and \( x = {q} \).",
                rf"I got the critical points {p} and {q}",
            ),
            Step(
                "Second derivative",
                rf"\( f''(x) = {poly([6 * a, 2 * b])} \), so \( f''({p}) = {6 * a * p + 2 * b} < 0 \) and \( f''({q}) = {6 * a * q + 2 * b} > 0 \).",
                r"I used the sign of \( f'' \)",
            ),
        ),
        rf"a local maximum \( f({p}) = {value(p)} \) and a local minimum \( f({q}) = {value(q)} \)",
        rf"Halfway, at \( x = {(p + q) // 2} \), the derivative is \( {3 * a * ((p + q) // 2) ** 2 + 2 * b * ((p + q) // 2) + c} < 0 \): the function falls from the maximum to the minimum.",
        Slip(
            2,
            rf"I called \( x = {p} \) the minimum, because \( f''({p}) = {6 * a * p + 2 * b} \) is negative",
            "A negative second derivative means the graph bends downwards, so the point is a maximum.",
            rf"a minimum at \( x = {p} \) and a maximum at \( x = {q} \)",
        ),
        {"coefficients": tuple(f), "answer": (p, q), "wrong": (q, p)},
    )


def _at(coefficients: list[Number], x: Number) -> Number:
    total: Number = 0
    for value in coefficients:
        total = total * x + value
    return total


def definite_integral(rng: random.Random) -> Problem:
    a, b, c = nonzero(rng, -6, 6), rng.randrange(-6, 7), nonzero(rng, -8, 8)
    low = nonzero(rng, -3, 2)
    high = low + rng.randrange(1, 5)
    anti: list[Number] = [Fraction(a, 3), Fraction(b, 2), c, 0]
    top, bottom = _at(anti, high), _at(anti, low)
    value, wrong = top - bottom, top + bottom
    if wrong == value:
        return definite_integral(rng)
    return Problem(
        "definite integrals",
        rf"Compute \( \displaystyle\int_{{{low}}}^{{{high}}} ({poly([a, b, c])})\,dx \).",
        (
            Step("Antiderivative", rf"\[ F(x) = {poly(anti)} \]", rf"I found \( F(x) = {poly(anti)} \)"),
            Step(
                "Insert the limits",
                rf"\( F({high}) = {tex(top)} \) and \( F({low}) = {tex(bottom)} \).",
                rf"I inserted the limits and got \( {tex(top)} \) and \( {tex(bottom)} \)",
            ),
            Step(
                "Subtract",
                rf"\[ F({high}) - F({low}) = {tex(top)} - {paren(bottom)} = {tex(value)} \]",
                rf"I subtracted to \( {tex(value)} \)",
            ),
        ),
        rf"\( {tex(value)} \)",
        rf"Simpson's rule is exact here: \( \frac{{{high - low}}}{{6}}\left({tex(_at([a, b, c], low))} + 4 \cdot {paren(_at([a, b, c], Fraction(low + high, 2)))} "
        rf"{signed(_at([a, b, c], high))}\right) = {tex(value)} \).",
        Slip(
            2,
            rf"I combined the limits as \( {tex(top)} {signed(bottom)} \)",
            rf"The lower limit is subtracted as a whole: \( F({high}) - F({low}) \), where \( F({low}) = {tex(bottom)} \) keeps its own sign.",
            rf"\( {tex(wrong)} \)",
        ),
        {"coefficients": (a, b, c), "limits": (low, high), "answer": value, "wrong": wrong},
    )


def by_parts(rng: random.Random) -> Problem:
    k, a, b = nonzero(rng, -5, 6), nonzero(rng, -7, 7), rng.randrange(-6, 7)
    e = "e^{x}" if k == 1 else rf"e^{{{'-' if k == -1 else k}x}}"
    linear = combine([(a, "x"), (b, "")])
    left, right = combine([(Fraction(a, k), "x"), (Fraction(b, k), "")]), Fraction(a, k * k)
    total = combine([(Fraction(a, k), "x"), (Fraction(b, k) - right, "")])
    wrong = combine([(Fraction(a, k), "x"), (Fraction(b, k) + right, "")])
    return Problem(
        "integration by parts",
        rf"Find \( \displaystyle\int ({linear})\,{e}\,dx \)."
        if b
        else rf"Find \( \displaystyle\int {linear}\,{e}\,dx \).",
        (
            Step(
                "Choose the parts",
                rf"\( u = {linear} \), \( u' = {a} \); \( v' = {e} \), \( v = {combine([(Fraction(1, k), e)])} \).",
                rf"I chose \( u = {linear} \) and \( v' = {e} \)",
            ),
            Step(
                "Apply the formula",
                rf"\[ \int uv'\,dx = uv - \int u'v\,dx = \left({left}\right){e} - \int {tex(Fraction(a, k))}\,{e}\,dx \]",
                r"I applied \( uv - \int u'v\,dx \)",
            ),
            Step(
                "Integrate what is left",
                rf"\[ \left({left}\right){e} {signed(-right)}\,{e} + C = \left({total}\right){e} + C \]",
                rf"I integrated the rest and got \( \left({total}\right){e} + C \)",
            ),
        ),
        rf"\( \left({total}\right){e} + C \)",
        rf"Differentiate: \( {tex(Fraction(a, k))}\,{e} + {paren(k)}\left({total}\right){e} = ({linear})\,{e} \).",
        Slip(
            1,
            r"I applied the formula with a plus sign, \( uv + \int u'v\,dx \)",
            r"The formula comes from \( (uv)' = u'v + uv' \), so the second integral is subtracted.",
            rf"\( \left({wrong}\right){e} + C \)",
        ),
        {
            "a": a,
            "b": b,
            "k": k,
            "answer": (Fraction(a, k), Fraction(b, k) - right),
            "wrong": (Fraction(a, k), Fraction(b, k) + right),
        },
    )
