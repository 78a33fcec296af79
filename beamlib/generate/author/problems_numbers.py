"""Problems on number theory and functional analysis."""

# ruff: noqa: E501 -- a formula is easier to check on one line

from __future__ import annotations

import random
from fractions import Fraction
from math import gcd, lcm

from beamlib.generate.author.problems_base import (
    Number,
    Problem,
    Slip,
    Step,
    combine,
    nonzero,
    paren,
    poly,
    root,
    signed,
    tex,
)

_PRIMES = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)


def _chain(a: int, b: int) -> list[tuple[int, int, int, int]]:
    """Euclid's divisions `a = q * b + r`, as (a, q, b, r)."""
    rows = []
    while b:
        rows.append((a, a // b, b, a % b))
        a, b = b, a % b
    return rows


def _bezout(a: int, b: int) -> tuple[int, int]:
    x, y, u, v = 1, 0, 0, 1
    while b:
        q, a, b = a // b, b, a % b
        x, y, u, v = u, v, x - q * u, y - q * v
    return x, y


def _rows(rows: list[tuple[int, int, int, int]]) -> str:
    return ",\\quad ".join(rf"{a} = {q} \cdot {b} + {r}" for a, q, b, r in rows)


def euclid(rng: random.Random) -> Problem:
    while True:
        d = rng.randrange(2, 25)
        a, b = d * rng.randrange(15, 60), d * rng.randrange(5, 30)
        rows = _chain(a, b)
        if a > b and len(rows) >= 3:
            break
    value, wrong = rows[-1][2], rows[-2][2]
    x, y = _bezout(a, b)
    return Problem(
        "the Euclidean algorithm",
        rf"Find \( \gcd({a}, {b}) \) with the Euclidean algorithm, and integers \( x, y \) with \( {a}x + {b}y = \gcd({a}, {b}) \).",
        (
            Step("Divide with remainder", rf"\[ {_rows(rows[:2])} \]", rf"I started with \( {_rows(rows[:1])} \)"),
            Step(
                "Go on until the remainder is zero",
                rf"\[ {_rows(rows[2:])} \]",
                "I went on dividing until the remainder was zero",
            ),
            Step(
                "Work backwards",
                rf"The last nonzero remainder is {value}. Inserting the rows from the bottom up gives \[ {a} \cdot {paren(x)} + {b} \cdot {paren(y)} = {value} \]",
                rf"I worked backwards to \( {a} \cdot {paren(x)} + {b} \cdot {paren(y)} = {value} \)",
            ),
        ),
        rf"\( \gcd({a}, {b}) = {value} \) with \( x = {x},\ y = {y} \)",
        rf"\( {a} = {value} \cdot {a // value} \) and \( {b} = {value} \cdot {b // value} \), and the two cofactors have no common divisor. Also \( {a * x} {signed(b * y)} = {value} \).",
        Slip(
            1,
            f"I stopped one row early and took {wrong} as the last remainder",
            f"The algorithm ends only at the remainder zero. {wrong} still leaves the remainder {rows[-2][3]} in the row before the last.",
            rf"\( \gcd({a}, {b}) = {wrong} \)",
        ),
        {"a": a, "b": b, "answer": (value, x, y), "wrong": wrong},
    )


def modular_inverse(rng: random.Random) -> Problem:
    while True:
        m = rng.randrange(11, 100)
        a = rng.randrange(3, m - 1)
        if gcd(a, m) == 1 and pow(a, -1, m) not in (1, a, m - pow(a, -1, m)):
            break
    value = pow(a, -1, m)
    x, y = _bezout(a, m)
    inverse = str(x) if x == value else rf"{x} \equiv {value}"
    wrong = m - value
    b = rng.randrange(2, m)
    return Problem(
        "modular inverses",
        rf"Find the inverse of \( {a} \) modulo \( {m} \) and use it to solve \( {a}x \equiv {b} \pmod{{{m}}} \).",
        (
            Step(
                "Run the Euclidean algorithm",
                rf"\[ {_rows(_chain(m, a))} \] so \( \gcd = 1 \) and an inverse exists.",
                "I ran the Euclidean algorithm and got the gcd 1",
            ),
            Step(
                "Write 1 as a combination",
                rf"\[ {a} \cdot {paren(x)} + {m} \cdot {paren(y)} = 1 \] so \( {a}^{{-1}} \equiv {inverse} \pmod{{{m}}} \).",
                rf"I wrote \( {a} \cdot {paren(x)} + {m} \cdot {paren(y)} = 1 \)",
            ),
            Step(
                "Multiply",
                rf"\[ x \equiv {value} \cdot {b} = {value * b} \equiv {value * b % m} \pmod{{{m}}} \]",
                rf"I multiplied {b} by the inverse and reduced to {value * b % m}",
            ),
        ),
        rf"\( {a}^{{-1}} \equiv {value} \) and \( x \equiv {value * b % m} \pmod{{{m}}} \)",
        rf"\( {a} \cdot {value} = {a * value} = {a * value // m} \cdot {m} + 1 \), and \( {a} \cdot {value * b % m} = {a * (value * b % m)} \) leaves the remainder {b % m}.",
        Slip(
            1,
            rf"I dropped a sign there and took \( {wrong} \) as the inverse",
            rf"\( {a} \cdot {wrong} = {a * wrong} \) leaves the remainder {a * wrong % m} modulo {m}, not 1. With the sign kept, the inverse is {value}.",
            rf"\( {a}^{{-1}} \equiv {wrong} \pmod{{{m}}} \)",
        ),
        {"a": a, "m": m, "b": b, "answer": (value, value * b % m), "wrong": wrong},
    )


def chinese_remainder(rng: random.Random) -> Problem:
    while True:
        m, n = rng.randrange(4, 18), rng.randrange(4, 18)
        r, s = rng.randrange(1, m), rng.randrange(1, n)
        if gcd(m, n) == 1 and m < n and r != s:
            break
    k = (s - r) * pow(m, -1, n) % n
    value = (r + m * k) % (m * n)
    wrong = (r + k) % (m * n)
    inverse = pow(m, -1, n)
    return Problem(
        "the Chinese remainder theorem",
        rf"Solve \( x \equiv {r} \pmod{{{m}}} \) and \( x \equiv {s} \pmod{{{n}}} \).",
        (
            Step(
                "Use the first congruence",
                rf"\( x = {r} + {m}k \) for some integer \( k \).",
                rf"I wrote \( x = {r} + {m}k \)",
            ),
            Step(
                "Insert into the second",
                rf"\[ {m}k \equiv {s} - {r} \equiv {(s - r) % n} \pmod{{{n}}} \] The inverse of {m} modulo {n} is {inverse}, so \( k \equiv {inverse} \cdot {(s - r) % n} \equiv {k} \).",
                rf"I solved \( {m}k \equiv {(s - r) % n} \pmod{{{n}}} \) for \( k \equiv {k} \)",
            ),
            Step("Go back", rf"\[ x = {r} + {m} \cdot {k} = {value} \]", f"I went back and got {value}"),
        ),
        rf"\( x \equiv {value} \pmod{{{m * n}}} \)",
        rf"\( {value} = {value // m} \cdot {m} + {r} \) and \( {value} = {value // n} \cdot {n} + {s} \).",
        Slip(
            2,
            rf"I took \( x = {r} + {k} = {wrong} \)",
            rf"\( k \) counts steps of length {m}, so it has to be multiplied by {m} before it is added.",
            rf"\( x \equiv {wrong} \pmod{{{m * n}}} \)",
        )
        if k
        else Slip(
            2,
            rf"I gave the result modulo \( {m} + {n} = {m + n} \)",
            rf"Solutions repeat after the product of coprime moduli, \( {m * n} \).",
            rf"\( x \equiv {value} \pmod{{{m + n}}} \)",
        ),
        {"moduli": (m, n), "remainders": (r, s), "answer": value, "period": lcm(m, n), "wrong": wrong if k else m + n},
    )


def fermat(rng: random.Random) -> Problem:
    p = rng.choice(_PRIMES)
    a = rng.randrange(2, p)
    e = rng.randrange(2 * p, 40 * p)
    while e % (p - 1) in (0, 1) or pow(a, e, p) == pow(a, e % p, p):
        e, a = rng.randrange(2 * p, 40 * p), rng.randrange(2, p)
    rest = e % (p - 1)
    value, wrong = pow(a, e, p), pow(a, e % p, p)
    return Problem(
        "Fermat's little theorem",
        rf"Find the remainder of \( {a}^{{{e}}} \) on division by \( {p} \).",
        (
            Step(
                "Fermat's little theorem",
                rf"{p} is prime and does not divide {a}, so \( {a}^{{{p - 1}}} \equiv 1 \pmod{{{p}}} \).",
                rf"I used \( {a}^{{{p - 1}}} \equiv 1 \pmod{{{p}}} \)",
            ),
            Step(
                "Reduce the exponent",
                rf"\[ {e} = {e // (p - 1)} \cdot {p - 1} + {rest}, \qquad {a}^{{{e}}} \equiv {a}^{{{rest}}} \pmod{{{p}}} \]",
                rf"I reduced the exponent to {rest}",
            ),
            Step(
                "Square and multiply",
                _squares(a, rest, p) + rf" Altogether \( {a}^{{{rest}}} \equiv {value} \pmod{{{p}}} \).",
                rf"I worked out \( {a}^{{{rest}}} \equiv {value} \)",
            ),
        ),
        rf"\( {value} \)",
        rf"Multiplying the result by \( {a}^{{{p - 1 - rest}}} \equiv {pow(a, p - 1 - rest, p)} \) must give 1: \( {value} \cdot {pow(a, p - 1 - rest, p)} = "
        rf"{value * pow(a, p - 1 - rest, p)} \equiv 1 \pmod{{{p}}} \).",
        Slip(
            1,
            rf"I reduced the exponent modulo {p}, so \( {e} \equiv {e % p} \) and I took \( {a}^{{{e % p}}} \)",
            rf"Exponents repeat with the period \( p - 1 = {p - 1} \), not with {p}; only the base is reduced modulo {p}.",
            rf"\( {wrong} \)",
        ),
        {"a": a, "e": e, "p": p, "answer": value, "wrong": wrong},
    )


def _squares(a: int, exponent: int, p: int) -> str:
    parts, power, used = [], 1, []
    while power <= exponent:
        parts.append(rf"{a}^{{{power}}} \equiv {pow(a, power, p)}")
        if exponent & power:
            used.append(str(pow(a, power, p)))
        power *= 2
    return r"\[ " + r",\ ".join(parts) + r" \] The exponent needs \( " + r" \cdot ".join(used) + r" \)."


def lp_norms(rng: random.Random) -> Problem:
    vector = [nonzero(rng, -7, 7) for _ in range(rng.choice([3, 4]))]
    one, square, top = sum(map(abs, vector)), sum(v * v for v in vector), max(map(abs, vector))
    wrong = abs(sum(vector))
    if wrong == one:
        return lp_norms(rng)
    shown = ", ".join(map(str, vector))
    return Problem(
        "the norms of l^p",
        rf"For \( x = ({shown}, 0, 0, \ldots) \) compute \( \|x\|_1 \), \( \|x\|_2 \) and \( \|x\|_\infty \), and order them.",
        (
            Step(
                "Sum of absolute values",
                rf"\[ \|x\|_1 = {' + '.join(str(abs(v)) for v in vector)} = {one} \]",
                rf"I got \( \|x\|_1 = {one} \)",
            ),
            Step(
                "Root of the sum of squares",
                rf"\[ \|x\|_2 = \sqrt{{{' + '.join(str(v * v) for v in vector)}}} = {root(square)} \]",
                rf"I got \( \|x\|_2 = {root(square)} \)",
            ),
            Step("Largest absolute value", rf"\[ \|x\|_\infty = {top} \]", rf"I got \( \|x\|_\infty = {top} \)"),
        ),
        rf"\( \|x\|_\infty = {top} \le \|x\|_2 = {root(square)} \le \|x\|_1 = {one} \)",
        rf"Squared, the order reads \( {top * top} \le {square} \le {one * one} \), which is the general rule \( \|x\|_\infty \le \|x\|_2 \le \|x\|_1 \).",
        Slip(
            0,
            rf"I added the entries with their signs and got \( \|x\|_1 = |{sum(vector)}| = {wrong} \)",
            "The absolute value is taken of each entry before adding. Otherwise entries of opposite sign would cancel, and a nonzero vector could have the norm zero.",
            rf"\( \|x\|_1 = {wrong} \)",
        ),
        {"vector": tuple(vector), "answer": (one, square, top), "wrong": wrong},
    )


def geometric_norm(rng: random.Random) -> Problem:
    a, bottom = rng.randrange(2, 16), rng.randrange(2, 12)
    top = rng.randrange(1, bottom)
    r = Fraction(top, bottom)
    square, first = a * a / (1 - r * r), a / (1 - r)
    return Problem(
        "norms of sequences",
        rf"Let \( x_n = {a}\left({tex(r)}\right)^n \) for \( n \ge 0 \). Show that \( x \in \ell^1 \cap \ell^2 \) and compute \( \|x\|_1 \) and \( \|x\|_2^2 \).",
        (
            Step(
                "The l^1 norm",
                rf"\[ \|x\|_1 = \sum_{{n \ge 0}} {a}\left({tex(r)}\right)^n = \frac{{{a}}}{{1 - {tex(r)}}} = {tex(first)} \]",
                rf"I got \( \|x\|_1 = {tex(first)} \)",
            ),
            Step(
                "Square the terms",
                rf"\( x_n^2 = {a * a}\left({tex(r * r)}\right)^n \), again geometric.",
                rf"I squared the terms, with the ratio \( {tex(r * r)} \)",
            ),
            Step(
                "The l^2 norm",
                rf"\[ \|x\|_2^2 = \frac{{{a * a}}}{{1 - {tex(r * r)}}} = {tex(square)} \]",
                rf"I got \( \|x\|_2^2 = {tex(square)} \)",
            ),
        ),
        rf"\( \|x\|_1 = {tex(first)} \) and \( \|x\|_2^2 = {tex(square)} \), both finite",
        rf"\( \|x\|_2^2 \le \|x\|_1^2 \) must hold: \( {tex(square)} \le {tex(first**2)} \).",
        Slip(
            2,
            rf"I squared only the first factor, so \( \|x\|_2^2 = \frac{{{a * a}}}{{1 - {tex(r)}}} \)",
            rf"Squaring \( x_n \) squares the ratio as well: it becomes \( {tex(r * r)} \).",
            rf"\( \|x\|_2^2 = {tex(a * a / (1 - r))} \)",
        ),
        {"a": a, "r": r, "answer": (first, square), "wrong": a * a / (1 - r)},
    )


def diagonal_operator(rng: random.Random) -> Problem:
    a, b, c = nonzero(rng, -7, 7), rng.randrange(1, 9), rng.randrange(1, 5)
    # T e_n = (a + (-1)^n b / n^c) e_n ; n = 1: a - b; n = 2: a + b / 2^c; the rest tends to a.
    first, second = Fraction(a - b), a + Fraction(b, 2**c)
    value = max(abs(first), abs(second), abs(Fraction(a)))
    if value == abs(a) or abs(first) == abs(second):
        return diagonal_operator(rng)
    n = "n" if c == 1 else f"n^{c}"
    return Problem(
        "the norm of a diagonal operator",
        rf"On \( \ell^2 \) let \( (Tx)_n = \lambda_n x_n \) with \( \lambda_n = {a} + (-1)^n\frac{{{b}}}{{{n}}} \) for \( n \ge 1 \). Find \( \|T\| \).",
        (
            Step(
                "Reduce to the diagonal",
                r"\( \|Tx\|^2 = \sum |\lambda_n|^2|x_n|^2 \), so \( \|T\| = \sup_n |\lambda_n| \).",
                r"I used \( \|T\| = \sup_n |\lambda_n| \)",
            ),
            Step(
                "Compare the extreme entries",
                rf"Odd entries rise from \( \lambda_1 = {tex(first)} \) towards \( {a} \), even entries fall from \( \lambda_2 = {tex(second)} \) towards \( {a} \).",
                rf"I found \( \lambda_1 = {tex(first)} \) and \( \lambda_2 = {tex(second)} \)",
            ),
            Step(
                "Take the largest absolute value",
                rf"\[ \|T\| = \max\left(\left|{tex(first)}\right|, \left|{tex(second)}\right|\right) = {tex(value)} \]",
                rf"I took the larger absolute value, \( {tex(value)} \)",
            ),
        ),
        rf"\( \|T\| = {tex(value)} \)",
        rf"The bound is attained: \( \|Te_{1 if value == abs(first) else 2}\| = {tex(value)} \), and no \( |\lambda_n| \) is larger.",
        Slip(
            2,
            rf"I took the limit of the entries, so the norm would be \( {abs(a)} \)",
            "The norm is the supremum over all entries, not their limit; the first few entries can be larger in absolute value.",
            rf"\( \|T\| = {abs(a)} \)",
        ),
        {"a": a, "b": b, "c": c, "answer": value, "wrong": abs(a)},
    )


def orthogonal_polynomial(rng: random.Random) -> Problem:
    a, b, c = nonzero(rng, -6, 6), rng.randrange(-6, 7), rng.randrange(-6, 7)
    f: list[Number] = [a, b, c]
    mean = Fraction(a, 3) + Fraction(b, 2) + c
    moment = Fraction(a, 4) + Fraction(b, 3) + Fraction(c, 2)
    # projection onto 1 and x - 1/2
    weight = 12 * (moment - mean / 2)
    line = combine([(weight, "x"), (mean - weight / 2, "")])
    wrong = moment - mean / 2
    if weight == 0:
        return orthogonal_polynomial(rng)
    return Problem(
        "orthogonal projection in L^2",
        rf"In \( L^2[0, 1] \) find the best approximation of \( f(x) = {poly(f)} \) by a polynomial of degree at most one.",
        (
            Step(
                "Orthogonal basis",
                r"\( p_0 = 1 \) and \( p_1 = x - \frac{1}{2} \) are orthogonal, with \( \|p_0\|^2 = 1 \) and \( \|p_1\|^2 = \frac{1}{12} \).",
                r"I took \( 1 \) and \( x - \frac{1}{2} \) as an orthogonal basis",
            ),
            Step(
                "Inner products",
                rf"\[ \langle f, p_0 \rangle = {tex(mean)}, \qquad \langle f, p_1 \rangle = \int_0^1 f(x)\left(x - \tfrac{{1}}{{2}}\right)dx = {tex(moment - mean / 2)} \]",
                rf"I computed the inner products \( {tex(mean)} \) and \( {tex(moment - mean / 2)} \)",
            ),
            Step(
                "Projection",
                rf"\[ P f = {tex(mean)} {signed(weight)}\left(x - \tfrac{{1}}{{2}}\right) = {line} \]",
                rf"I put the projection together as \( {line} \)",
            ),
        ),
        rf"\( Pf = {line} \)",
        r"The error \( f - Pf \) is orthogonal to both basis functions: "
        rf"\( \langle f, 1 \rangle = \langle Pf, 1 \rangle = {tex(mean)} \) and \( \langle f, p_1 \rangle = {tex(weight)} \cdot \frac{{1}}{{12}} = {tex(wrong)} \).",
        Slip(
            2,
            rf"I used the inner products themselves as coefficients, \( {tex(mean)} {signed(wrong)}\left(x - \frac{{1}}{{2}}\right) \)",
            r"The second basis function is not normalised. Its coefficient is \( \langle f, p_1 \rangle / \|p_1\|^2 \), which means a factor of 12.",
            rf"\( {combine([(wrong, 'x'), (mean - wrong / 2, '')])} \)",
        ),
        {"coefficients": (a, b, c), "answer": (weight, mean - weight / 2), "wrong": (wrong, mean - wrong / 2)},
    )
