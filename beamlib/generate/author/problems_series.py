"""Problems on sequences, series and induction."""

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
    signed,
    tex,
)


def arithmetic_series(rng: random.Random) -> Problem:
    a, d, n = rng.randrange(-10, 20), nonzero(rng, 2, 9), rng.randrange(10, 41)
    last = a + (n - 1) * d
    total = n * (a + last) // 2
    off = a + n * d
    wrong = Fraction(n * (a + off), 2)
    return Problem(
        "arithmetic series",
        rf"An arithmetic sequence starts \( {a},\ {a + d},\ {a + 2 * d},\ \ldots \) Find the sum of its first {n} terms.",
        (
            Step(
                "Find the difference",
                rf"The common difference is \( d = {a + d} - {paren(a)} = {d} \).",
                rf"I got \( d = {d} \)",
            ),
            Step(
                "Find the last term",
                rf"\[ a_{{{n}}} = a_1 + ({n} - 1)d = {a} + {n - 1} \cdot {d} = {last} \]",
                rf"I found \( a_{{{n}}} = {last} \)",
            ),
            Step(
                "Sum",
                rf"\[ S_{{{n}}} = \frac{{{n}}}{{2}}\,(a_1 + a_{{{n}}}) = \frac{{{n}}}{{2}} \cdot {paren(a + last)} = {total} \]",
                rf"I used \( \frac{{n}}{{2}}(a_1 + a_n) \) and got {total}",
            ),
        ),
        rf"\( S_{{{n}}} = {total} \)",
        rf"With the other formula, \( {n} \cdot {paren(a)} + {d} \cdot \frac{{{n} \cdot {n - 1}}}{{2}} = {n * a} + "
        rf"{d * n * (n - 1) // 2} = {total} \).",
        Slip(
            1,
            rf"I took the last term as \( {a} + {n} \cdot {d} = {off} \)",
            rf"From the first term to term {n} there are only {n - 1} steps, so \( d \) is added {n - 1} times.",
            rf"\( S_{{{n}}} = {tex(wrong)} \)",
        ),
        {"a": a, "d": d, "n": n, "answer": total, "wrong": wrong},
    )


def geometric_sum(rng: random.Random) -> Problem:
    a, r, n = rng.randrange(1, 7), rng.choice([2, 3, 4]), rng.randrange(4, 8)
    total = a * (r**n - 1) // (r - 1)
    wrong = a * (r ** (n - 1) - 1) // (r - 1)
    return Problem(
        "finite geometric sums",
        rf"Compute the sum of the first {n} terms of the geometric sequence \( {a},\ {a * r},\ {a * r * r},\ \ldots \)",
        (
            Step(
                "Find the ratio",
                rf"Each term is {r} times the one before, so \( r = {r} \) and \( a = {a} \).",
                rf"I found \( r = {r} \)",
            ),
            Step(
                "Choose the formula",
                r"\[ S_n = a\,\frac{r^n - 1}{r - 1} \] holds because \( rS_n - S_n = ar^n - a \).",
                r"I used \( S_n = a\frac{r^n - 1}{r - 1} \)",
            ),
            Step(
                "Insert the numbers",
                rf"\[ S_{{{n}}} = {a} \cdot \frac{{{r}^{{{n}}} - 1}}{{{r - 1}}} = {a} \cdot \frac{{{r**n - 1}}}{{{r - 1}}} = {total} \]",
                rf"I inserted \( n = {n} \) and got {total}",
            ),
        ),
        rf"\( S_{{{n}}} = {total} \)",
        "Adding the terms one by one gives \\( " + " + ".join(str(a * r**k) for k in range(n)) + rf" = {total} \).",
        Slip(
            2,
            rf"I inserted the exponent \( {n} - 1 = {n - 1} \), because the last term is \( ar^{{{n - 1}}} \)",
            rf"The last term has the exponent {n - 1}, but in the formula for the sum the exponent is the number of terms, {n}.",
            rf"\( S_{{{n}}} = {wrong} \)",
        ),
        {"a": a, "r": r, "n": n, "answer": total, "wrong": wrong},
    )


def geometric_series(rng: random.Random) -> Problem:
    a, bottom = rng.randrange(2, 13), rng.randrange(3, 10)
    top = rng.choice(list(range(1, bottom)))
    r = Fraction(top, bottom) * rng.choice([1, 1, -1])
    value, wrong = a / (1 - r), a / (1 + r)
    first = a * r
    return Problem(
        "infinite geometric series",
        rf"Decide whether \( \displaystyle\sum_{{n=0}}^{{\infty}} {a}\left({tex(r)}\right)^n \) converges, and find its sum.",
        (
            Step(
                "Read off first term and ratio",
                rf"\( a = {a} \) and \( r = {tex(r)} \).",
                rf"I read off \( a = {a} \), \( r = {tex(r)} \)",
            ),
            Step(
                "Test convergence",
                rf"\( |r| = {tex(abs(r))} < 1 \), so the series converges.",
                r"I saw that \( |r| < 1 \)",
            ),
            Step(
                "Sum",
                rf"\[ S = \frac{{a}}{{1 - r}} = \frac{{{a}}}{{{tex(1 - r)}}} = {tex(value)} \]",
                rf"I computed \( \frac{{a}}{{1 - r}} = {tex(value)} \)",
            ),
        ),
        rf"\( S = {tex(value)} \)",
        rf"The sum must satisfy \( S = a + rS \): \( {a} {signed(r * value)} = {tex(value)} \), which is true.",
        Slip(
            2,
            rf"I divided by \( 1 + r = {tex(1 + r)} \)",
            rf"The denominator is \( 1 - r \), with \( r = {tex(r)} \) including its sign, so it equals \( {tex(1 - r)} \).",
            rf"\( S = {tex(wrong)} \)",
        ),
        {"a": a, "r": r, "first": first, "answer": value, "wrong": wrong},
    )


def induction_sum(rng: random.Random) -> Problem:
    a, b = rng.randrange(1, 9), nonzero(rng, -7, 12)
    term = combine([(2 * a, "k"), (b, "")])
    claim = combine([(a, "n^2"), (a + b, "n")])
    new = combine([(2 * a, "(n+1)"), (b, "")])
    first = 2 * a + b
    return Problem(
        "induction proofs for sums",
        rf"Prove by induction that \( \displaystyle\sum_{{k=1}}^{{n}} ({term}) = {claim} \) for every \( n \ge 1 \).",
        (
            Step(
                "Base case",
                rf"For \( n = 1 \) the left side is \( {2 * a} {signed(b)} = {first} \) and the right side is \( {a} "
                rf"{signed(a + b)} = {first} \).",
                rf"I checked \( n = 1 \), where both sides are {first}",
            ),
            Step(
                "Induction hypothesis",
                rf"Assume \( \sum_{{k=1}}^{{n}} ({term}) = {claim} \) for one fixed \( n \).",
                r"I assumed the claim for a fixed \( n \)",
            ),
            Step(
                "Induction step",
                rf"Add the next term: \[ {claim} + {new} = {combine([(a, 'n^2'), (3 * a + b, 'n'), (2 * a + b, '')])} \] and "
                rf"this equals \( {combine([(a, '(n+1)^2'), (a + b, '(n+1)')])} \), the claim for \( n + 1 \).",
                rf"I added the term for \( k = n + 1 \) and rewrote everything as \( {combine([(a, '(n+1)^2'), (a + b, '(n+1)')])} \)",
            ),
        ),
        rf"that the claim holds for all \( n \ge 1 \), since \( {combine([(a, 'n^2'), (3 * a + b, 'n'), (2 * a + b, '')])} = "
        rf"{combine([(a, '(n+1)^2'), (a + b, '(n+1)')])} \)",
        rf"For \( n = 3 \) the sum is \( {first} {signed(4 * a + b)} {signed(6 * a + b)} = {12 * a + 3 * b} \), and the formula "
        rf"gives \( {9 * a} {signed(3 * (a + b))} = {12 * a + 3 * b} \).",
        Slip(
            2,
            rf"I added the term for \( k = n \) once more, \( {combine([(2 * a, 'n'), (b, '')])} \)",
            rf"The sum up to \( n \) already contains the term for \( k = n \). The new one is \( {new} \), for \( k = n + 1 \).",
            rf"the expression \( {combine([(a, 'n^2'), (3 * a + b, 'n'), (b, '')])} \), which does not match the claim",
        ),
        {"a": a, "b": b, "answer": (a, a + b), "wrong": (a, 3 * a + b, b)},
    )


def induction_divides(rng: random.Random) -> Problem:
    base = rng.randrange(5, 26)
    other = rng.randrange(2, base - 2)
    d = base - other
    term = rf"{base}^n - {other}^n"
    return Problem(
        "divisibility by induction",
        rf"Prove by induction that \( {d} \) divides \( {term} \) for every \( n \ge 1 \).",
        (
            Step(
                "Base case",
                rf"For \( n = 1 \): \( {base} - {other} = {d} \), which {d} divides.",
                rf"I checked that \( {base} - {other} = {d} \)",
            ),
            Step(
                "Split the next case",
                rf"\[ {base}^{{n+1}} - {other}^{{n+1}} = {base}\,({term}) + {d} \cdot {other}^n \]",
                rf"I wrote \( {base}^{{n+1}} - {other}^{{n+1}} = {base}({term}) + {d} \cdot {other}^n \)",
            ),
            Step(
                "Use the hypothesis",
                rf"The first part is divisible by {d} by the hypothesis, the second shows the factor {d} openly, so the sum is "
                "divisible too.",
                f"I concluded that both parts are divisible by {d}",
            ),
        ),
        rf"that \( {d} \mid {term} \) for all \( n \ge 1 \)",
        rf"For \( n = 3 \): \( {base**3} - {other**3} = {base**3 - other**3} = {d} \cdot {(base**3 - other**3) // d} \).",
        Slip(
            1,
            rf"I claimed \( {base}^{{n+1}} - {other}^{{n+1}} = {base}({term}) \), since everything just gets another factor",
            rf"Only the first power gains the factor {base}; the second gains the factor {other}. The difference, \( {base} "
            rf"\cdot {other}^n - {other}^{{n+1}} = {d} \cdot {other}^n \), has to be added.",
            rf"the identity \( {base}^{{n+1}} - {other}^{{n+1}} = {base}({term}) \), which is false already for \( n = 1 \)",
        ),
        {"base": base, "other": other, "answer": d, "wrong": base},
    )
