"""Problems on functions of several variables."""

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


def gradient(rng: random.Random) -> Problem:
    a, b, c = nonzero(rng, -5, 5), nonzero(rng, -5, 5), nonzero(rng, -4, 4)
    x, y = nonzero(rng, -3, 3), nonzero(rng, -3, 3)
    p, q, h = rng.choice(
        [(3, 4, 5), (4, 3, 5), (5, 12, 13), (8, 6, 10), (-3, 4, 5), (4, -3, 5), (12, 5, 13), (-8, 15, 17)]
    )
    f = combine([(a, "x^2"), (b, "xy"), (c, "y^2")])
    gx, gy = 2 * a * x + b * y, b * x + 2 * c * y
    dot = gx * p + gy * q
    value = Fraction(dot, h)
    if dot == 0:
        return gradient(rng)
    return Problem(
        "gradients and directional derivatives",
        rf"Let \( f(x, y) = {f} \). Find \( \nabla f \) at \( ({x}, {y}) \) and the derivative in the direction of \( ({p}, {q}) \).",
        (
            Step(
                "Partial derivatives",
                rf"\[ f_x = {combine([(2 * a, 'x'), (b, 'y')])}, \qquad f_y = {combine([(b, 'x'), (2 * c, 'y')])} \]",
                rf"I found \( f_x = {combine([(2 * a, 'x'), (b, 'y')])} \) and \( f_y = {combine([(b, 'x'), (2 * c, 'y')])} \)",
            ),
            Step(
                "Insert the point",
                rf"\( \nabla f({x}, {y}) = ({gx}, {gy}) \).",
                rf"I inserted the point and got \( ({gx}, {gy}) \)",
            ),
            Step(
                "Project on the unit vector",
                rf"The direction has the length {h}, so \[ D = \frac{{{gx} \cdot {paren(p)} + {paren(gy)} \cdot {paren(q)}}}{{{h}}} = {tex(value)} \]",
                rf"I divided the dot product by {h} and got \( {tex(value)} \)",
            ),
        ),
        rf"\( \nabla f = ({gx}, {gy}) \) and the directional derivative \( {tex(value)} \)",
        rf"It must not exceed the length of the gradient: \( {tex(value**2)} \le {gx * gx + gy * gy} = |\nabla f|^2 \).",
        Slip(
            2,
            rf"I took the dot product with \( ({p}, {q}) \) directly and got {dot}",
            f"A directional derivative is taken per unit of length. The vector has the length {h}, so the dot product has to be divided by it.",
            rf"\( {dot} \)",
        ),
        {"form": (a, b, c), "point": (x, y), "direction": (p, q), "answer": (gx, gy, value), "wrong": dot},
    )


def double_integral(rng: random.Random) -> Problem:
    a, b = nonzero(rng, 1, 6), nonzero(rng, -6, 6)
    w, h = rng.randrange(1, 6), rng.randrange(1, 6)
    inner: list[Number] = [Fraction(a * w * w, 2), b * w]
    value = Fraction(a * w * w * h * h, 4) + Fraction(b * w * h)
    wrong = Fraction(a * w * w * h * h, 4) + b
    if wrong == value:
        return double_integral(rng)
    return Problem(
        "double integrals over rectangles",
        rf"Compute \( \displaystyle\iint_R ({combine([(a, 'xy'), (b, '')])})\,dA \) over \( R = [0, {w}] \times [0, {h}] \).",
        (
            Step(
                "Inner integral over x",
                rf"\[ \int_0^{{{w}}} ({combine([(a, 'xy'), (b, '')])})\,dx = {poly(inner, 'y')} \]",
                rf"I integrated over \( x \) first and got \( {poly(inner, 'y')} \)",
            ),
            Step(
                "Outer integral over y",
                rf"\[ \int_0^{{{h}}} \left({poly(inner, 'y')}\right)dy = {tex(Fraction(a * w * w * h * h, 4))} {signed(b * w * h)} = {tex(value)} \]",
                rf"I integrated over \( y \) and got \( {tex(value)} \)",
            ),
        ),
        rf"\( {tex(value)} \)",
        rf"The mean value of the integrand over the rectangle is its value in the center, \( {tex(Fraction(a * w * h, 4) + b)} \); times the area {w * h} "
        rf"this is \( {tex(value)} \).",
        Slip(
            0,
            rf"I split off the constant and carried \( {b} \) through both integrals unchanged",
            rf"A constant has to be integrated too. Over the rectangle, {b} contributes \( {b} \cdot {w} \cdot {h} = {b * w * h} \).",
            rf"\( {tex(wrong)} \)",
        ),
        {"a": a, "b": b, "w": w, "h": h, "answer": value, "wrong": wrong},
    )


def saddle(rng: random.Random) -> Problem:
    a, b, c = nonzero(rng, -4, 4), rng.randrange(-6, 7), nonzero(rng, -4, 4)
    x, y = rng.randrange(-4, 5), rng.randrange(-4, 5)
    det = 4 * a * c - b * b
    if det == 0 or (x == 0 and y == 0):
        return saddle(rng)
    d, e = -(2 * a * x + b * y), -(b * x + 2 * c * y)
    kind = "a saddle point" if det < 0 else "a local minimum" if a > 0 else "a local maximum"
    false = "a local minimum" if kind != "a local minimum" else "a saddle point"
    f = combine([(a, "x^2"), (b, "xy"), (c, "y^2"), (d, "x"), (e, "y")])
    return Problem(
        "critical points in two variables",
        rf"Find and classify the critical point of \( f(x, y) = {f} \).",
        (
            Step(
                "Set the gradient to zero",
                rf"\[ {combine([(2 * a, 'x'), (b, 'y'), (d, '')])} = 0, \qquad {combine([(b, 'x'), (2 * c, 'y'), (e, '')])} = 0 \]",
                "I set both partial derivatives to zero",
            ),
            Step(
                "Solve",
                rf"The system has the solution \( ({x}, {y}) \).",
                rf"I solved the system and got \( ({x}, {y}) \)",
            ),
            Step(
                "Second derivative test",
                rf"\[ D = f_{{xx}}f_{{yy}} - f_{{xy}}^2 = {2 * a} \cdot {paren(2 * c)} - {paren(b)}^2 = {det} \] "
                + (
                    "Since \\( D < 0 \\), it is a saddle point."
                    if det < 0
                    else rf"Since \( D > 0 \) and \( f_{{xx}} = {2 * a} \), it is {kind}."
                ),
                rf"I computed \( D = {det} \)",
            ),
        ),
        rf"\( ({x}, {y}) \) is {kind}",
        rf"Inserting \( ({x}, {y}) \): \( {2 * a * x} {signed(b * y)} {signed(d)} = 0 \) and \( {b * x} {signed(2 * c * y)} {signed(e)} = 0 \).",
        Slip(
            2,
            rf"I computed \( D = {4 * a * c} + {paren(b)}^2 = {4 * a * c + b * b} \) and read the type from that",
            rf"The mixed derivative is subtracted: \( D = {4 * a * c} - {b * b} = {det} \). A different sign of \( D \) means a different type of point.",
            rf"\( ({x}, {y}) \) with \( D = {4 * a * c + b * b} \)",
        )
        if b
        else Slip(
            2,
            rf"I stopped at the solution of the system and called it {false}",
            rf"A zero gradient alone does not tell the type. Here \( D = {det} \), so it is {kind}.",
            rf"\( ({x}, {y}) \) is {false}",
        ),
        {"form": (a, b, c, d, e), "answer": (x, y, kind), "wrong": false},
    )
