"""What a mathematics problem is, and how its numbers are written. All values are exact: int or `Fraction`."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

Number = int | Fraction


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the working: a heading, the full text, and how somebody who did it says so ("I factored ...")."""

    title: str
    text: str
    said: str


@dataclass(frozen=True, slots=True)
class Slip:
    """A realistic mistake in step `at` (0-based): how its maker tells it, why it is wrong, and where it leads."""

    at: int
    said: str
    why: str
    wrong: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with its working. `answer` and `Slip.wrong` fit after "the answer is"; `check` is whole sentences.

    `data` holds the numbers behind the texts, from which tests recompute the answer by another way.
    """

    skill: str
    statement: str
    steps: tuple[Step, ...]
    answer: str
    check: str
    slip: Slip
    data: Mapping[str, Any]


Generator = Callable[[random.Random], Problem]


def nonzero(rng: random.Random, low: int, high: int, *but: int) -> int:
    """An integer of `low..high` that is neither 0 nor among `but`."""
    return rng.choice([value for value in range(low, high + 1) if value != 0 and value not in but])


def tex(value: Number) -> str:
    """A number in LaTeX: `3`, `-\\frac{2}{5}`."""
    if isinstance(value, int) or value.denominator == 1:
        return str(int(value))
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def paren(value: Number) -> str:
    """A number in brackets where it is negative, to stand after an operator."""
    return rf"\left({tex(value)}\right)" if value < 0 else tex(value)


def signed(value: Number) -> str:
    """`+ 3` or `- 3`, to stand behind another term."""
    return f"- {tex(-value)}" if value < 0 else f"+ {tex(value)}"


def combine(terms: Sequence[tuple[Number, str]]) -> str:
    """A sum such as `3x^2 - x + 5` from (coefficient, symbol) pairs; zero terms are left out, "" is the constant."""
    out = ""
    for value, symbol in terms:
        if value == 0:
            continue
        size = -value if value < 0 else value
        body = symbol if symbol and size == 1 else f"{tex(size)}{symbol}"
        if out:
            out += f" {'-' if value < 0 else '+'} {body}"
        else:
            out = f"-{body}" if value < 0 else body
    return out or "0"


def poly(coefficients: Sequence[Number], variable: str = "x") -> str:
    """A polynomial, highest power first."""
    degree = len(coefficients) - 1
    powers = [variable if n == 1 else "" if n == 0 else f"{variable}^{{{n}}}" for n in range(degree, -1, -1)]
    return combine(list(zip(coefficients, (p.replace("{", "").replace("}", "") for p in powers), strict=True)))


def root(square: int) -> str:
    """The square root of a natural number in LaTeX, with squares taken out: `2\\sqrt{3}`."""
    outer = max(k for k in range(1, isqrt(square) + 1) if square % (k * k) == 0)
    inner = square // (outer * outer)
    if inner == 1:
        return str(outer)
    return rf"{'' if outer == 1 else outer}\sqrt{{{inner}}}"


def ratio_of_pi(value: Fraction) -> str:
    """A multiple of pi in LaTeX: `\\frac{2\\pi}{3}`."""
    top = {1: r"\pi", -1: r"-\pi"}.get(value.numerator, rf"{value.numerator}\pi")
    return top if value.denominator == 1 else rf"\frac{{{top}}}{{{value.denominator}}}"


def decimal(value: Number, places: int = 2) -> str:
    """`value` rounded half up to `places`, by integer arithmetic, without trailing zeros."""
    scale = 10**places
    size = abs(Fraction(value)) * scale
    whole = (2 * size.numerator + size.denominator) // (2 * size.denominator)
    text = f"{whole // scale}.{whole % scale:0{places}d}".rstrip("0").rstrip(".")
    return f"-{text}" if value < 0 and whole else text
