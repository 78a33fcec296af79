"""Problems on fractions, percentages and equations."""

# ruff: noqa: E501 -- a formula is easier to check on one line

from __future__ import annotations

import random
from fractions import Fraction

from beamlib.generate.author.problems_base import (
    Problem,
    Slip,
    Step,
    combine,
    decimal,
    nonzero,
    paren,
    poly,
    signed,
    tex,
)


def percent_change(rng: random.Random) -> Problem:
    price, up, down = rng.randrange(40, 400, 20), rng.randrange(5, 45, 5), rng.randrange(5, 45, 5)
    item = rng.choice(["coat", "desk", "bicycle", "printer", "tent", "lamp", "camera", "guitar"])
    raised = price * Fraction(100 + up, 100)
    final = raised * Fraction(100 - down, 100)
    naive = price * Fraction(100 + up - down, 100)
    return Problem(
        "successive percentages",
        f"The price of a {item} is ${price}. It rises by {up}% and afterwards falls by {down}%. What does the {item} cost in "
        "the end?",
        (
            Step(
                "Apply the rise",
                rf"A rise of {up}% means multiplying by \( {decimal(Fraction(100 + up, 100))} \): \[ {price} \cdot "
                rf"{decimal(Fraction(100 + up, 100))} = {decimal(raised, 4)} \]",
                rf"I multiplied {price} by \( {decimal(Fraction(100 + up, 100))} \) and got {decimal(raised, 4)}",
            ),
            Step(
                "Apply the fall to the new price",
                rf"The fall is taken from the raised price, not from the first one: \[ {decimal(raised, 4)} \cdot "
                rf"{decimal(Fraction(100 - down, 100))} = {decimal(final, 4)} \]",
                rf"I multiplied that by \( {decimal(Fraction(100 - down, 100))} \), which gives {decimal(final, 4)}",
            ),
        ),
        rf"\( {decimal(final, 4)} \) dollars",
        rf"The two factors together are \( {decimal(Fraction((100 + up) * (100 - down), 10000), 4)} \), and \( {price} \cdot "
        rf"{decimal(Fraction((100 + up) * (100 - down), 10000), 4)} = {decimal(final, 4)} \) again.",
        Slip(
            1,
            rf"I netted the two percentages, \( {up} - {down} = {up - down} \), and changed {price} by that many percent",
            f"The two percentages have different bases: the fall of {down}% is taken from {decimal(raised, 4)}, so they must "
            "not be added or subtracted.",
            rf"\( {decimal(naive, 4)} \) dollars",
        ),
        {"price": price, "up": up, "down": down, "answer": final, "wrong": naive},
    )


def percent_reverse(rng: random.Random) -> Problem:
    original, off = rng.randrange(40, 500, 20), rng.choice([10, 15, 20, 25, 30, 35, 40])
    paid = original * Fraction(100 - off, 100)
    wrong = paid * Fraction(100 + off, 100)
    thing = rng.choice(["jacket", "course book", "headset", "tablet stand", "bookcase", "calculator", "monitor"])
    return Problem(
        "reverse percentages",
        f"After a discount of {off}% a {thing} costs ${decimal(paid)}. What was its price before the discount?",
        (
            Step(
                "Say what the paid price is a share of",
                f"After {off}% off, {100 - off}% of the original price \\( p \\) is left: "
                rf"\[ {decimal(Fraction(100 - off, 100))}\,p = {decimal(paid)} \]",
                rf"I wrote \( {decimal(Fraction(100 - off, 100))}p = {decimal(paid)} \)",
            ),
            Step(
                "Divide",
                rf"\[ p = \frac{{{decimal(paid)}}}{{{decimal(Fraction(100 - off, 100))}}} = {original} \]",
                f"I divided and got {original}",
            ),
        ),
        rf"\( {original} \) dollars",
        rf"{off}% of {original} is {decimal(original - paid)}, and \( {original} - {decimal(original - paid)} = "
        rf"{decimal(paid)} \), the price that was paid.",
        Slip(
            0,
            rf"I added {off}% back on to {decimal(paid)}, so I computed \( {decimal(paid)} \cdot "
            rf"{decimal(Fraction(100 + off, 100))} \)",
            f"The {off}% was taken from the larger original price. Adding {off}% of the smaller paid price gives back too "
            "little.",
            rf"\( {decimal(wrong, 4)} \) dollars",
        ),
        {"paid": paid, "off": off, "answer": original, "wrong": wrong},
    )


def fraction_sum(rng: random.Random) -> Problem:
    b, d = rng.sample([4, 5, 6, 7, 8, 9, 10, 12, 15], 2)
    a, c = rng.randrange(1, b), rng.randrange(1, d)
    minus = rng.random() < 0.4 and Fraction(a, b) > Fraction(c, d)
    op, sign = ("-", -1) if minus else ("+", 1)
    common = Fraction(b, d).numerator * d  # least common multiple of b and d
    top = a * (common // b) + sign * c * (common // d)
    value = Fraction(a, b) + sign * Fraction(c, d)
    bottom = b + d
    wrong_top = a + sign * c
    left, right = a * (common // b), c * (common // d)
    if Fraction(wrong_top, bottom) == value:
        return fraction_sum(rng)
    return Problem(
        "adding and subtracting fractions",
        rf"Work out \( \frac{{{a}}}{{{b}}} {op} \frac{{{c}}}{{{d}}} \) and write the result in lowest terms.",
        (
            Step(
                "Find a common denominator",
                f"The least common multiple of {b} and {d} is {common}.",
                f"I took {common} as the common denominator",
            ),
            Step(
                "Rewrite both fractions",
                rf"\[ \frac{{{a}}}{{{b}}} = \frac{{{left}}}{{{common}}}, \qquad \frac{{{c}}}{{{d}}} = "
                rf"\frac{{{right}}}{{{common}}} \]",
                rf"I rewrote the fractions as \( \frac{{{left}}}{{{common}}} \) and \( \frac{{{right}}}{{{common}}} \)",
            ),
            Step(
                "Combine and reduce",
                rf"\[ \frac{{{left} {op} {right}}}{{{common}}} = \frac{{{top}}}{{{common}}}"
                + (rf" = {tex(value)} \]" if value.denominator != common else r" \] This is already in lowest terms."),
                rf"I combined the numerators to \( \frac{{{top}}}{{{common}}} \)",
            ),
        ),
        rf"\( {tex(value)} \)",
        rf"As decimals: \( {decimal(Fraction(a, b), 3)} {op} {decimal(Fraction(c, d), 3)} \approx "
        rf"{decimal(value, 2)} \), which agrees with \( {tex(value)} \).",
        Slip(
            0,
            rf"I put the numerators together, \( {a} {op} {c} = {wrong_top} \), and added the denominators, "
            rf"\( {b} + {d} = {bottom} \)",
            "Denominators say how large the parts are; they are not added. Only parts of the same size can be counted "
            f"together, so both fractions first need the denominator {common}.",
            rf"\( \frac{{{wrong_top}}}{{{bottom}}} \)",
        ),
        {"terms": (Fraction(a, b), sign * Fraction(c, d)), "answer": value, "wrong": Fraction(wrong_top, bottom)},
    )


def linear_equation(rng: random.Random) -> Problem:
    x, a, b = nonzero(rng, -9, 9), nonzero(rng, 2, 7), nonzero(rng, -9, 9)
    c = nonzero(rng, -5, 6, a)
    d = a * (x + b) - c * x
    opened = a * b
    wrong = Fraction(d - b, a - c)
    return Problem(
        "linear equations",
        rf"Solve \( {a}(x {signed(b)}) = {combine([(c, 'x'), (d, '')])} \) for \( x \).",
        (
            Step(
                "Open the bracket",
                rf"\[ {combine([(a, 'x'), (opened, '')])} = {combine([(c, 'x'), (d, '')])} \]",
                rf"I opened the bracket to \( {combine([(a, 'x'), (opened, '')])} \)",
            ),
            Step(
                "Collect the terms",
                rf"Bring the terms with \( x \) to the left and the numbers to the right: \[ {combine([(a - c, 'x')])} = "
                rf"{d - opened} \]",
                rf"I collected terms and had \( {combine([(a - c, 'x')])} = {d - opened} \)",
            ),
            Step(
                "Divide",
                rf"Dividing by \( {a - c} \) gives \( x = {x} \).",
                rf"I divided by {a - c}",
            ),
        ),
        rf"\( x = {x} \)",
        rf"Left side: \( {a} \cdot {paren(x + b)} = {a * (x + b)} \). Right side: \( {paren(c)} \cdot {paren(x)} "
        rf"{signed(d)} = {c * x + d} \). Both sides agree.",
        Slip(
            0,
            rf"I multiplied only the first term of the bracket and wrote \( {combine([(a, 'x'), (b, '')])} = "
            rf"{combine([(c, 'x'), (d, '')])} \)",
            rf"The factor {a} stands before the whole bracket, so it also multiplies \( {b} \): the constant becomes "
            rf"\( {opened} \), not \( {b} \).",
            rf"\( x = {tex(wrong)} \)",
        ),
        {"a": a, "b": b, "c": c, "d": d, "answer": x, "wrong": wrong},
    )


def linear_system(rng: random.Random) -> Problem:
    x, y = nonzero(rng, -6, 7), nonzero(rng, -6, 7)
    a, b = nonzero(rng, 2, 5), nonzero(rng, 2, 6)
    c = nonzero(rng, -4, 4)
    while c * b + a == 0:
        c = nonzero(rng, -4, 4)
    e, f = a * x + b * y, c * x - y
    # substitution y = c x - f
    total = a + b * c
    wrong = Fraction(e - b * f, total)
    return Problem(
        "systems of two linear equations",
        rf"Solve the system \[ {a}x + {b}y = {e}, \qquad {combine([(c, 'x'), (-1, 'y')])} = {f}. \]",
        (
            Step(
                "Solve the second equation for y",
                rf"\[ y = {combine([(c, 'x'), (-f, '')])} \]",
                rf"I solved the second equation for \( y = {combine([(c, 'x'), (-f, '')])} \)",
            ),
            Step(
                "Substitute into the first",
                rf"\[ {a}x + {b}({combine([(c, 'x'), (-f, '')])}) = {e} \quad\Longrightarrow\quad {combine([(total, 'x')])} = "
                rf"{e + b * f} \] so \( x = {x} \).",
                rf"I put it into the first one and got \( {combine([(total, 'x')])} = {e + b * f} \), so \( x = {x} \)",
            ),
            Step(
                "Go back for y",
                rf"\[ y = {c} \cdot {paren(x)} {signed(-f)} = {y} \]",
                rf"I went back and found \( y = {y} \)",
            ),
        ),
        rf"\( x = {x},\ y = {y} \)",
        rf"First equation: \( {a} \cdot {paren(x)} + {b} \cdot {paren(y)} = {e} \). Second equation: \( {paren(c)} \cdot "
        rf"{paren(x)} - {paren(y)} = {f} \). Both hold.",
        Slip(
            1,
            rf"I substituted, but took \( {e} - {paren(b * f)} \) on the right, so \( {combine([(total, 'x')])} = {e - b * f} \)",
            rf"Moving the constant \( {-b * f} \) from the left to the right changes its sign. The right side is \( {e} "
            rf"{signed(b * f)} = {e + b * f} \).",
            rf"\( x = {tex(wrong)},\ y = {tex(c * wrong - f)} \)",
        )
        if f
        else Slip(
            2,
            rf"I went back with the sign of \( x \) lost and got \( y = {-y} \)",
            rf"The coefficient of \( x \) is \( {c} \), so \( y = {c} \cdot {paren(x)} = {y} \).",
            rf"\( x = {x},\ y = {-y} \)",
        ),
        {"rows": ((a, b, e), (c, -1, f)), "answer": (x, y), "wrong": (wrong, c * wrong - f) if f else (x, -y)},
    )


def quadratic(rng: random.Random) -> Problem:
    p = nonzero(rng, -8, 8)
    q = nonzero(rng, -8, 8, p, -p)
    a = rng.choice([1, 1, 1, 2, 3])
    b, c = -a * (p + q), a * p * q
    low, high = sorted((p, q))
    disc = b * b - 4 * a * c
    side = a * (high - low)
    return Problem(
        "quadratic equations",
        rf"Solve \( {poly([a, b, c])} = 0 \).",
        (
            Step(
                "Read off the coefficients",
                rf"Here \( a = {a},\ b = {b},\ c = {c} \).",
                rf"I took \( a = {a} \), \( b = {b} \), \( c = {c} \)",
            ),
            Step(
                "Compute the discriminant",
                rf"\[ b^2 - 4ac = {b * b} - 4 \cdot {a} \cdot {paren(c)} = {disc} = {side}^2 \]",
                rf"I found the discriminant \( {disc} \)",
            ),
            Step(
                "Use the quadratic formula",
                rf"\[ x = \frac{{{-b} \pm {side}}}{{{2 * a}}} \]",
                rf"I put it into the formula, \( x = \frac{{{-b} \pm {side}}}{{{2 * a}}} \)",
            ),
        ),
        rf"\( x = {low} \) or \( x = {high} \)",
        rf"The sum of the roots is \( {low + high} = -\frac{{b}}{{a}} \) and their product is \( {low * high} = "
        rf"\frac{{c}}{{a}} \), as it must be.",
        Slip(
            2,
            rf"I started the formula with \( b \) instead of \( -b \), so \( x = \frac{{{b} \pm {side}}}{{{2 * a}}} \)",
            rf"The formula begins with \( -b \), and \( b = {b} \), so the numerator starts with \( {-b} \). Your roots have "
            "the opposite signs.",
            rf"\( x = {-high} \) or \( x = {-low} \)",
        ),
        {"coefficients": (a, b, c), "answer": (low, high), "wrong": (-high, -low)},
    )
