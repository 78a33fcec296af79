"""Problems on lines, circles and conic sections."""

# ruff: noqa: E501 -- a formula is easier to check on one line

from __future__ import annotations

import random
from fractions import Fraction

from beamlib.generate.author.problems_base import (
    Problem,
    Slip,
    Step,
    combine,
    nonzero,
    paren,
    root,
    signed,
    tex,
)

_TRIPLES = ((3, 4, 5), (5, 12, 13), (8, 15, 17), (7, 24, 25), (20, 21, 29), (12, 35, 37), (9, 40, 41))


def line_through(rng: random.Random) -> Problem:
    x1, y1, x2, y2 = rng.randrange(-7, 6), rng.randrange(-8, 9), 0, rng.randrange(-8, 9)
    while y1 == y2:
        y2 = rng.randrange(-8, 9)
    x2 = x1 + rng.randrange(1, 8)
    slope = Fraction(y2 - y1, x2 - x1)
    cut = y1 - slope * x1
    flipped = Fraction(x2 - x1, y2 - y1)
    if abs(slope) == 1:
        return line_through(rng)
    line = combine([(slope, "x"), (cut, "")])
    return Problem(
        "lines through two points",
        rf"Find the equation of the line through \( ({x1}, {y1}) \) and \( ({x2}, {y2}) \).",
        (
            Step(
                "Slope",
                rf"\[ m = \frac{{{y2} - {paren(y1)}}}{{{x2} - {paren(x1)}}} = {tex(slope)} \]",
                rf"I computed the slope \( m = {tex(slope)} \)",
            ),
            Step(
                "Intercept",
                rf"From \( y = mx + b \) at \( ({x1}, {y1}) \): \[ b = {y1} - {paren(slope)} \cdot {paren(x1)} = {tex(cut)} \]",
                rf"I found the intercept \( b = {tex(cut)} \)",
            ),
            Step("Equation", rf"Together: \( y = {line} \).", rf"I wrote down \( y = {line} \)"),
        ),
        rf"\( y = {line} \)",
        rf"The other point fits too: \( {paren(slope)} \cdot {paren(x2)} {signed(cut)} = {y2} \).",
        Slip(
            0,
            rf"I computed the slope as \( \frac{{{x2} - {paren(x1)}}}{{{y2} - {paren(y1)}}} = {tex(flipped)} \)",
            "The slope is rise over run, so the difference of the y-values belongs on top.",
            rf"\( y = {combine([(flipped, 'x'), (y1 - flipped * x1, '')])} \)",
        ),
        {"points": ((x1, y1), (x2, y2)), "answer": (slope, cut), "wrong": (flipped, y1 - flipped * x1)},
    )


def point_to_line(rng: random.Random) -> Problem:
    p, q, h = rng.choice(_TRIPLES)
    a, b = p * rng.choice([1, -1]), q
    x, y, c = nonzero(rng, -9, 9), nonzero(rng, -9, 9), nonzero(rng, -20, 20)
    inside = a * x + b * y + c
    value = Fraction(abs(inside), h)
    wrong = Fraction(abs(inside), p + q)
    if inside == 0:
        return point_to_line(rng)
    return Problem(
        "the distance from a point to a line",
        rf"Find the distance of the point \( ({x}, {y}) \) from the line \( {combine([(a, 'x'), (b, 'y'), (c, '')])} = 0 \).",
        (
            Step(
                "Write the formula",
                r"\[ d = \frac{|Ax_0 + By_0 + C|}{\sqrt{A^2 + B^2}} \]",
                r"I used \( d = \frac{|Ax_0 + By_0 + C|}{\sqrt{A^2 + B^2}} \)",
            ),
            Step(
                "Numerator",
                rf"\[ |{a} \cdot {paren(x)} + {b} \cdot {paren(y)} {signed(c)}| = {abs(inside)} \]",
                f"I got {abs(inside)} for the numerator",
            ),
            Step(
                "Denominator",
                rf"\[ \sqrt{{{a * a} + {b * b}}} = {h} \]",
                f"I got {h} for the root",
            ),
        ),
        rf"\( d = {tex(value)} \)",
        rf"The foot of the perpendicular is \( \left({tex(x - Fraction(a * inside, h * h))}, "
        rf"{tex(y - Fraction(b * inside, h * h))}\right) \); it lies on the line, and its distance from the point is \( "
        rf"{tex(value)} \).",
        Slip(
            2,
            rf"I took the root term by term, \( {p} + {q} = {p + q} \), for the denominator",
            rf"The root of a sum is not the sum of the roots: \( \sqrt{{{a * a} + {b * b}}} = {h} \).",
            rf"\( d = {tex(wrong)} \)",
        ),
        {"line": (a, b, c), "point": (x, y), "answer": value, "wrong": wrong},
    )


def circle_center(rng: random.Random) -> Problem:
    h, k, r = nonzero(rng, -8, 8), nonzero(rng, -8, 8), rng.randrange(2, 11)
    c = h * h + k * k - r * r
    equation = combine([(1, "x^2"), (1, "y^2"), (-2 * h, "x"), (-2 * k, "y"), (c, "")])
    return Problem(
        "circles in general form",
        rf"Find the center and radius of the circle \( {equation} = 0 \).",
        (
            Step(
                "Group the variables",
                rf"\[ ({combine([(1, 'x^2'), (-2 * h, 'x')])}) + ({combine([(1, 'y^2'), (-2 * k, 'y')])}) = {-c} \]",
                r"I grouped the terms in \( x \) and in \( y \)",
            ),
            Step(
                "Complete both squares",
                rf"Add \( {h * h} \) and \( {k * k} \) on both sides: \[ (x {signed(-h)})^2 + (y {signed(-k)})^2 = {-c} + {h * h} + "
                rf"{k * k} = {r * r} \]",
                rf"I completed the squares and got \( {r * r} \) on the right",
            ),
            Step(
                "Read off",
                rf"The center is \( ({h}, {k}) \) and the radius \( \sqrt{{{r * r}}} = {r} \).",
                rf"I read off \( ({h}, {k}) \) and {r}",
            ),
        ),
        rf"center \( ({h}, {k}) \), radius \( {r} \)",
        rf"The point \( ({h + r}, {k}) \) must satisfy the first equation: \( {(h + r) ** 2} + {k * k} {signed(-2 * h * (h + r))} "
        rf"{signed(-2 * k * k)} {signed(c)} = 0 \).",
        Slip(
            2,
            rf"I read the center off as \( ({-h}, {-k}) \)",
            rf"In \( (x - h)^2 \) the center's coordinate stands with a minus sign, so \( (x {signed(-h)})^2 \) belongs to \( h = "
            rf"{h} \).",
            rf"center \( ({-h}, {-k}) \), radius \( {r} \)",
        ),
        {"linear": (-2 * h, -2 * k), "constant": c, "answer": (h, k, r), "wrong": (-h, -k, r)},
    )


def ellipse(rng: random.Random) -> Problem:
    b = rng.randrange(2, 12)
    a = b + rng.randrange(1, 9)
    square = a * a - b * b
    return Problem(
        "ellipses",
        rf"Find the foci and the eccentricity of the ellipse \( \frac{{x^2}}{{{a * a}}} + \frac{{y^2}}{{{b * b}}} = 1 \).",
        (
            Step(
                "Read off the semi-axes",
                rf"\( a = {a} \) along the x-axis and \( b = {b} \) along the y-axis.",
                rf"I read off \( a = {a} \) and \( b = {b} \)",
            ),
            Step(
                "Compute the focal distance",
                rf"\[ c^2 = a^2 - b^2 = {a * a} - {b * b} = {square}, \qquad c = {root(square)} \]",
                rf"I found \( c = {root(square)} \)",
            ),
            Step(
                "Foci and eccentricity",
                rf"The foci lie on the longer axis: \( (\pm {root(square)}, 0) \), and \( e = \frac{{c}}{{a}} = "
                rf"\frac{{{root(square)}}}{{{a}}} \).",
                r"I put the foci on the x-axis and used \( e = c/a \)",
            ),
        ),
        rf"foci \( (\pm {root(square)}, 0) \) and eccentricity \( e = \frac{{{root(square)}}}{{{a}}} \)",
        rf"At \( (0, {b}) \) both focal distances are \( \sqrt{{{square} + {b * b}}} = {a} \), so their sum is \( 2a = {2 * a} \), "
        "as it must be on the ellipse.",
        Slip(
            1,
            rf"I computed \( c^2 = a^2 + b^2 = {a * a + b * b} \)",
            r"The plus sign belongs to the hyperbola. For an ellipse the foci lie inside, so \( c < a \) and \( c^2 = a^2 - b^2 \).",
            rf"foci \( (\pm {root(a * a + b * b)}, 0) \)",
        ),
        {"a": a, "b": b, "answer": square, "wrong": a * a + b * b},
    )


def parabola(rng: random.Random) -> Problem:
    p, h, k = nonzero(rng, -6, 6), nonzero(rng, -8, 8), nonzero(rng, -8, 8)
    return Problem(
        "parabolas",
        rf"Find the vertex, focus and directrix of the parabola \( (x {signed(-h)})^2 = {4 * p}(y {signed(-k)}) \).",
        (
            Step(
                "Vertex",
                rf"Comparing with \( (x - h)^2 = 4p(y - k) \) gives the vertex \( ({h}, {k}) \).",
                rf"I read off the vertex \( ({h}, {k}) \)",
            ),
            Step("Focal length", rf"\( 4p = {4 * p} \), so \( p = {p} \).", rf"I found \( p = {p} \)"),
            Step(
                "Focus and directrix",
                rf"The focus lies \( |p| = {abs(p)} \) {'above' if p > 0 else 'below'} the vertex: \( ({h}, {k + p}) \). The directrix lies "
                rf"as far on the other side: \( y = {k - p} \).",
                rf"I got the focus \( ({h}, {k + p}) \)",
            ),
        ),
        rf"vertex \( ({h}, {k}) \), focus \( ({h}, {k + p}) \), directrix \( y = {k - p} \)",
        rf"The point \( ({h + 2 * p}, {k + p}) \) lies on the curve because \( {paren(2 * p)}^2 = {4 * p} \cdot {paren(p)} \). Its distance from "
        rf"the focus is \( {abs(2 * p)} \), and so is its distance from the directrix.",
        Slip(
            1,
            rf"I took the whole factor as the focal length, \( p = {4 * p} \)",
            rf"The factor in front of the bracket is \( 4p \), so it has to be divided by 4: \( p = {p} \).",
            rf"focus \( ({h}, {k + 4 * p}) \), directrix \( y = {k - 4 * p} \)",
        ),
        {"p": p, "vertex": (h, k), "answer": (h, k + p, k - p), "wrong": (h, k + 4 * p, k - 4 * p)},
    )


def hyperbola(rng: random.Random) -> Problem:
    a, b = rng.sample(range(2, 13), 2)
    slope, wrong = Fraction(b, a), Fraction(a, b)
    square = a * a + b * b
    return Problem(
        "hyperbolas",
        rf"Find the asymptotes and the foci of the hyperbola \( \frac{{x^2}}{{{a * a}}} - \frac{{y^2}}{{{b * b}}} = 1 \).",
        (
            Step(
                "Read off",
                rf"\( a = {a} \) and \( b = {b} \); the branches open left and right.",
                rf"I read off \( a = {a} \), \( b = {b} \)",
            ),
            Step(
                "Asymptotes",
                rf"Far out the 1 does not matter: \( \frac{{y^2}}{{{b * b}}} \approx \frac{{x^2}}{{{a * a}}} \), so \[ y = \pm "
                rf"\frac{{b}}{{a}}x = \pm {tex(slope)}x \]",
                rf"I found the asymptotes \( y = \pm {tex(slope)}x \)",
            ),
            Step(
                "Foci",
                rf"\[ c^2 = a^2 + b^2 = {square}, \qquad (\pm {root(square)}, 0) \]",
                rf"I got \( c = {root(square)} \)",
            ),
        ),
        rf"asymptotes \( y = \pm {tex(slope)}x \), foci \( (\pm {root(square)}, 0) \)",
        rf"At \( x = {2 * a} \) the curve has \( y^2 = {3 * b * b} \), while the asymptote gives \( y^2 = {4 * b * b} \): the curve stays "
        "below its asymptote, as it should.",
        Slip(
            1,
            rf"I took the slopes as \( \pm\frac{{a}}{{b}} = \pm {tex(wrong)} \)",
            r"Solve for \( y \): \( b^2 \) moves to the numerator and \( a^2 \) stays below, so the slope is \( b/a \).",
            rf"asymptotes \( y = \pm {tex(wrong)}x \)",
        ),
        {"a": a, "b": b, "answer": (slope, square), "wrong": (wrong, square)},
    )
