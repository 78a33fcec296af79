"""Problems on triangles, trigonometry, and geometry on the sphere and in the half-plane."""

# ruff: noqa: E501 -- a formula is easier to check on one line

from __future__ import annotations

import random
from fractions import Fraction

from beamlib.generate.author.problems_base import (
    Problem,
    Slip,
    Step,
    nonzero,
    paren,
    ratio_of_pi,
    root,
    tex,
)

_TRIPLES = ((3, 4, 5), (5, 12, 13), (8, 15, 17), (7, 24, 25), (20, 21, 29), (12, 35, 37), (9, 40, 41))


def law_of_cosines(rng: random.Random) -> Problem:
    while True:
        a, b, c = rng.randrange(4, 16), rng.randrange(4, 16), rng.randrange(4, 20)
        if a + b > c + 1 and abs(a - b) + 1 < c and a * a + b * b != c * c:
            break
    value = Fraction(a * a + b * b - c * c, 2 * a * b)
    wrong = Fraction(c * c - a * a - b * b, 2 * a * b)
    kind = "acute" if value > 0 else "obtuse"
    return Problem(
        "the law of cosines",
        rf"A triangle has the sides \( a = {a},\ b = {b},\ c = {c} \). Find \( \cos\gamma \) for the angle \( \gamma \) opposite "
        rf"\( c \), and say whether \( \gamma \) is acute or obtuse.",
        (
            Step(
                "Write the law of cosines",
                r"\[ c^2 = a^2 + b^2 - 2ab\cos\gamma \]",
                r"I started from \( c^2 = a^2 + b^2 - 2ab\cos\gamma \)",
            ),
            Step(
                "Solve for the cosine",
                r"\[ \cos\gamma = \frac{a^2 + b^2 - c^2}{2ab} \]",
                r"I solved it for \( \cos\gamma \)",
            ),
            Step(
                "Insert the sides",
                rf"\[ \cos\gamma = \frac{{{a * a} + {b * b} - {c * c}}}{{{2 * a * b}}} = {tex(value)} \]",
                rf"I inserted the sides and got \( \cos\gamma = {tex(value)} \)",
            ),
        ),
        rf"\( \cos\gamma = {tex(value)} \), so the angle is {kind}",
        rf"Put back: \( {a * a} + {b * b} - 2 \cdot {a} \cdot {b} \cdot {paren(value)} = {c * c} = {c}^2 \).",
        Slip(
            1,
            r"I rearranged it to \( \cos\gamma = \frac{c^2 - a^2 - b^2}{2ab} \)",
            rf"The term \( 2ab\cos\gamma \) stands with a minus sign, so the numerator is \( a^2 + b^2 - c^2 \). The sign "
            f"decides between acute and obtuse; the angle is {kind}.",
            rf"\( \cos\gamma = {tex(wrong)} \)",
        ),
        {"sides": (a, b, c), "answer": value, "wrong": wrong},
    )


def heron(rng: random.Random) -> Problem:
    while True:
        a, b, c = sorted(rng.randrange(5, 16) for _ in range(3))
        if a + b > c + 1:
            break
    square = (a + b + c) * (-a + b + c) * (a - b + c) * (a + b - c)
    s = Fraction(a + b + c, 2)
    whole = a + b + c
    wrong = whole * (whole - a) * (whole - b) * (whole - c)
    out = rf"\frac{{{root(square)}}}{{4}}" if square % 16 else root(square // 16)
    return Problem(
        "the area of a triangle from its sides",
        rf"Find the exact area of the triangle with the sides {a}, {b} and {c}.",
        (
            Step(
                "Half the perimeter",
                rf"\[ s = \frac{{{a} + {b} + {c}}}{{2}} = {tex(s)} \]",
                rf"I found \( s = {tex(s)} \)",
            ),
            Step(
                "Heron's formula",
                r"\[ A = \sqrt{s(s-a)(s-b)(s-c)} \]",
                r"I used \( A = \sqrt{s(s-a)(s-b)(s-c)} \)",
            ),
            Step(
                "Insert the sides",
                rf"\[ A = \sqrt{{{tex(s)} \cdot {tex(s - a)} \cdot {tex(s - b)} \cdot {tex(s - c)}}} = {out} \]",
                rf"I inserted everything and got \( {out} \)",
            ),
        ),
        rf"\( A = {out} \)",
        rf"Squared, \( 16A^2 = {a + b + c} \cdot {-a + b + c} \cdot {a - b + c} \cdot {a + b - c} = {square} \), the other form of "
        "Heron's formula.",
        Slip(
            0,
            rf"I used the whole perimeter, \( s = {whole} \)",
            rf"In Heron's formula \( s \) is half the perimeter, \( {tex(s)} \). With the whole one the area comes out far too "
            "large for these sides.",
            rf"\( A = {root(wrong)} \)",
        ),
        {"sides": (a, b, c), "answer": Fraction(square, 16), "wrong": wrong},
    )


def double_angle(rng: random.Random) -> Problem:
    p, q, h = rng.choice(_TRIPLES)
    if rng.random() < 0.5:
        p, q = q, p
    second = rng.random() < 0.5
    sine, cosine = Fraction(p, h), Fraction(-q if second else q, h)
    place = r"\frac{\pi}{2} < \alpha < \pi" if second else r"0 < \alpha < \frac{\pi}{2}"
    value = 2 * sine * cosine
    return Problem(
        "double angles",
        rf"Let \( \sin\alpha = {tex(sine)} \) with \( {place} \). Find \( \cos\alpha \) and \( \sin 2\alpha \).",
        (
            Step(
                "Use the Pythagorean identity",
                rf"\[ \cos^2\alpha = 1 - \sin^2\alpha = 1 - {tex(sine**2)} = {tex(cosine**2)} \]",
                rf"I found \( \cos^2\alpha = {tex(cosine**2)} \)",
            ),
            Step(
                "Choose the sign",
                rf"In the {'second' if second else 'first'} quadrant the cosine is {'negative' if second else 'positive'}, so "
                rf"\( \cos\alpha = {tex(cosine)} \).",
                rf"I took \( \cos\alpha = {tex(cosine)} \)",
            ),
            Step(
                "Double the angle",
                rf"\[ \sin 2\alpha = 2\sin\alpha\cos\alpha = 2 \cdot {tex(sine)} \cdot {paren(cosine)} = {tex(value)} \]",
                rf"I used \( 2\sin\alpha\cos\alpha = {tex(value)} \)",
            ),
        ),
        rf"\( \cos\alpha = {tex(cosine)} \) and \( \sin 2\alpha = {tex(value)} \)",
        rf"With \( \cos 2\alpha = 1 - 2\sin^2\alpha = {tex(1 - 2 * sine**2)} \) the squares add up: \( {tex(value**2)} + "
        rf"{tex((1 - 2 * sine**2) ** 2)} = 1 \).",
        Slip(
            1,
            rf"I took \( \cos\alpha = {tex(-cosine)} \)",
            rf"The root of \( {tex(cosine**2)} \) has two signs, and the quadrant decides: for \( {place} \) the cosine is "
            f"{'negative' if second else 'positive'}.",
            rf"\( \sin 2\alpha = {tex(-value)} \)",
        )
        if second
        else Slip(
            2,
            rf"I doubled the sine, \( \sin 2\alpha = 2 \cdot {tex(sine)} \)",
            "Doubling the angle does not double the sine. The formula has a cosine in it as well.",
            rf"\( \sin 2\alpha = {tex(2 * sine)} \)",
        ),
        {"sine": sine, "cosine": cosine, "answer": value, "wrong": -value if second else 2 * sine},
    )


def sine_rule(rng: random.Random) -> Problem:
    angles = {30: Fraction(1, 4), 45: Fraction(1, 2), 60: Fraction(3, 4), 90: Fraction(1)}
    alpha, beta = rng.choice([(30, 45), (30, 60), (30, 90), (45, 30), (45, 60), (45, 90), (60, 30), (60, 45), (60, 90)])
    a = rng.randrange(2, 26)
    names = {30: r"\frac{1}{2}", 45: r"\frac{\sqrt{2}}{2}", 60: r"\frac{\sqrt{3}}{2}", 90: "1"}

    def surd(square: Fraction) -> str:
        top = root(square.numerator * square.denominator)
        if square.denominator == 1:
            return top
        outer, _, inner = top.partition(r"\sqrt")
        share = Fraction(int(outer or 1), square.denominator)
        tail = rf"\sqrt{inner}" if inner else ""
        number = "" if share.numerator == 1 and tail else str(share.numerator)
        return rf"\frac{{{number}{tail}}}{{{share.denominator}}}" if share.denominator > 1 else f"{number}{tail}"

    square = a * a * angles[beta] / angles[alpha]
    swapped = a * a * angles[alpha] / angles[beta]
    return Problem(
        "the law of sines",
        rf"In a triangle \( \alpha = {alpha}^\circ \), \( \beta = {beta}^\circ \) and \( a = {a} \). Find the side \( b \) exactly.",
        (
            Step(
                "Write the law of sines",
                r"\[ \frac{a}{\sin\alpha} = \frac{b}{\sin\beta} \]",
                r"I wrote \( \frac{a}{\sin\alpha} = \frac{b}{\sin\beta} \)",
            ),
            Step(
                "Insert the known sines",
                rf"\( \sin {alpha}^\circ = {names[alpha]} \) and \( \sin {beta}^\circ = {names[beta]} \).",
                rf"I used \( \sin {alpha}^\circ = {names[alpha]} \) and \( \sin {beta}^\circ = {names[beta]} \)",
            ),
            Step(
                "Solve for b",
                rf"\[ b = {a} \cdot \frac{{\sin {beta}^\circ}}{{\sin {alpha}^\circ}} = {surd(square)} \]",
                rf"I solved it and found \( b = {surd(square)} \)",
            ),
        ),
        rf"\( b = {surd(square)} \)",
        f"The larger angle must face the longer side: {max(alpha, beta)} degrees is the angle at "
        rf"\( {'b' if beta > alpha else 'a'} \)'s opposite corner, and indeed \( {'b > a' if beta > alpha else 'a > b'} \).",
        Slip(
            2,
            rf"I solved for b as \( b = {a} \cdot \frac{{\sin {alpha}^\circ}}{{\sin {beta}^\circ}} \)",
            rf"Multiply both sides by \( \sin\beta \): the sine of \( \beta = {beta}^\circ \) ends up on top.",
            rf"\( b = {surd(swapped)} \)",
        ),
        {"a": a, "alpha": alpha, "beta": beta, "answer": square, "wrong": swapped},
    )


def spherical_area(rng: random.Random) -> Problem:
    while True:
        angles = [rng.randrange(45, 151, 15) for _ in range(3)]
        excess = sum(angles) - 180
        if 0 < excess < 270 and 2 * max(angles) < sum(angles) + 180 - max(angles):
            break
    r = rng.randrange(2, 13)
    value = Fraction(excess, 180) * r * r
    linear = Fraction(excess, 180) * r
    a, b, c = angles
    return Problem(
        "spherical excess",
        rf"On a sphere of radius \( {r} \) a triangle has the angles \( {a}^\circ,\ {b}^\circ,\ {c}^\circ \). Find its area.",
        (
            Step(
                "Excess in degrees",
                rf"\[ E = {a}^\circ + {b}^\circ + {c}^\circ - 180^\circ = {excess}^\circ \]",
                rf"I found the excess \( {excess}^\circ \)",
            ),
            Step(
                "Convert to radians",
                rf"\[ E = {excess} \cdot \frac{{\pi}}{{180}} = {ratio_of_pi(Fraction(excess, 180))} \]",
                rf"I converted it to \( {ratio_of_pi(Fraction(excess, 180))} \)",
            ),
            Step(
                "Area",
                rf"By Girard's theorem \[ A = E R^2 = {ratio_of_pi(Fraction(excess, 180))} \cdot {r * r} = {ratio_of_pi(value)} \]",
                rf"I multiplied by \( R^2 = {r * r} \)",
            ),
        ),
        rf"\( A = {ratio_of_pi(value)} \)",
        rf"The whole sphere has the area \( {ratio_of_pi(Fraction(4 * r * r))} \); the triangle covers the share \( "
        rf"\frac{{E}}{{4\pi}} = {tex(Fraction(excess, 720))} \) of it, which gives \( {ratio_of_pi(value)} \) again.",
        Slip(
            2,
            rf"I multiplied the excess by \( R = {r} \)",
            r"An area grows with the square of the radius, so the factor is \( R^2 \).",
            rf"\( A = {ratio_of_pi(linear)} \)",
        ),
        {"angles": (a, b, c), "r": r, "answer": value, "wrong": linear},
    )


def hyperbolic_area(rng: random.Random) -> Problem:
    while True:
        a, b, c = (rng.randrange(10, 81, 5) for _ in range(3))
        if a + b + c < 175 and a + b + c != 90:
            break
    defect = 180 - a - b - c
    value = Fraction(defect, 180)
    wrong = Fraction(a + b + c, 180)
    return Problem(
        "the area of a hyperbolic triangle",
        rf"In the hyperbolic plane of curvature \( -1 \) a triangle has the angles \( {a}^\circ,\ {b}^\circ,\ {c}^\circ \). Find its area.",
        (
            Step(
                "Add the angles",
                rf"\[ {a}^\circ + {b}^\circ + {c}^\circ = {a + b + c}^\circ \]",
                rf"I added the angles to \( {a + b + c}^\circ \)",
            ),
            Step(
                "Take the defect",
                rf"The sum falls short of \( 180^\circ \) by \( {defect}^\circ \).",
                rf"I found a defect of \( {defect}^\circ \)",
            ),
            Step(
                "Convert",
                rf"For curvature \( -1 \) the area is the defect in radians: \[ A = {defect} \cdot \frac{{\pi}}{{180}} = {ratio_of_pi(value)} \]",
                rf"I converted it to \( {ratio_of_pi(value)} \)",
            ),
        ),
        rf"\( A = {ratio_of_pi(value)} \)",
        rf"Every hyperbolic triangle has an area below \( \pi \), and \( {tex(value)} < 1 \).",
        Slip(
            1,
            rf"I used the angle sum \( {a + b + c}^\circ \) itself",
            r"The area is what is missing from \( 180^\circ \). A larger angle sum means a smaller triangle, not a larger one.",
            rf"\( A = {ratio_of_pi(wrong)} \)",
        ),
        {"angles": (a, b, c), "answer": value, "wrong": wrong},
    )


def hyperbolic_distance(rng: random.Random) -> Problem:
    d, y1, y2 = nonzero(rng, -8, 8), rng.randrange(1, 7), rng.randrange(1, 9)
    x1 = rng.randrange(-4, 5)
    x2 = x1 + d
    value = 1 + Fraction(d * d + (y2 - y1) ** 2, 2 * y1 * y2)
    wrong = 1 + Fraction(d * d + (y2 - y1) ** 2, y1 * y2)
    return Problem(
        "hyperbolic distance in the half-plane",
        rf"Find the distance of the points \( ({x1}, {y1}) \) and \( ({x2}, {y2}) \) in the upper half-plane model.",
        (
            Step(
                "Write the formula",
                r"\[ \cosh d = 1 + \frac{(x_2 - x_1)^2 + (y_2 - y_1)^2}{2y_1y_2} \]",
                r"I started from \( \cosh d = 1 + \frac{(x_2 - x_1)^2 + (y_2 - y_1)^2}{2y_1y_2} \)",
            ),
            Step(
                "Squares of the differences",
                rf"\[ (x_2 - x_1)^2 + (y_2 - y_1)^2 = {d * d} + {(y2 - y1) ** 2} = {d * d + (y2 - y1) ** 2} \]",
                f"I got {d * d + (y2 - y1) ** 2} on top",
            ),
            Step(
                "Insert",
                rf"\[ \cosh d = 1 + \frac{{{d * d + (y2 - y1) ** 2}}}{{{2 * y1 * y2}}} = {tex(value)} \]",
                rf"I inserted everything and got \( \cosh d = {tex(value)} \)",
            ),
        ),
        rf"\( d = \operatorname{{arcosh}} {paren(value)} = \ln\left({tex(value)} + \sqrt{{{tex(value**2 - 1)}}}\right) \)",
        rf"Exchanging the points changes nothing, since only squares and the product \( y_1y_2 = {y1 * y2} \) occur, and \( \cosh d \ge 1 \) "
        "holds as required.",
        Slip(
            2,
            rf"I inserted everything but divided by \( y_1y_2 = {y1 * y2} \) only",
            rf"The denominator is \( 2y_1y_2 = {2 * y1 * y2} \); the factor 2 comes from the half-plane's metric and must stay.",
            rf"\( \cosh d = {tex(wrong)} \)",
        ),
        {"points": ((x1, y1), (x2, y2)), "answer": value, "wrong": wrong},
    )
