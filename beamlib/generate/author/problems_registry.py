"""All problem generators by name, and how a text refers to one problem: `chapter.number`, for example `14.2038`."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from beamlib.generate.author import problems_algebra as algebra
from beamlib.generate.author import problems_calculus as calculus
from beamlib.generate.author import problems_chance as chance
from beamlib.generate.author import problems_curves as curves
from beamlib.generate.author import problems_equations as equations
from beamlib.generate.author import problems_fields as fields
from beamlib.generate.author import problems_geometry as geometry
from beamlib.generate.author import problems_numbers as numbers
from beamlib.generate.author import problems_series as series
from beamlib.generate.author.problems_base import Generator, Problem

_ALL: tuple[Generator, ...] = (
    algebra.percent_change, algebra.percent_reverse, algebra.fraction_sum, algebra.linear_equation,
    algebra.linear_system, algebra.quadratic, series.arithmetic_series, series.geometric_sum,
    series.geometric_series, series.induction_sum, series.induction_divides, geometry.law_of_cosines,
    geometry.heron, geometry.double_angle, geometry.sine_rule, curves.line_through, curves.point_to_line,
    curves.circle_center, curves.ellipse, curves.parabola, curves.hyperbola, geometry.spherical_area,
    geometry.hyperbolic_area, geometry.hyperbolic_distance, chance.committee, chance.anagrams, chance.bayes,
    chance.without_replacement, chance.binomial, chance.expectation, calculus.tangent, calculus.chain_rule,
    calculus.product_rule, calculus.extrema, calculus.definite_integral, calculus.by_parts, fields.gradient,
    fields.double_integral, fields.saddle, equations.separable, equations.linear_first_order,
    equations.second_order, equations.repeated_or_complex, equations.heat_modes, equations.transport,
    equations.sine_series, equations.classify, numbers.euclid, numbers.modular_inverse, numbers.chinese_remainder,
    numbers.fermat, numbers.lp_norms, numbers.geometric_norm, numbers.diagonal_operator,
    numbers.orthogonal_polynomial,
)  # fmt: skip
GENERATORS: Mapping[str, Generator] = {function.__name__: function for function in _ALL}
_CHAPTERS = {name: chapter for chapter, name in enumerate(GENERATORS, start=1)}
_NAMES = tuple(GENERATORS)
_REFERENCE = re.compile(r"\b(\d{1,2})\.(\d{4})\b")
NUMBERS = range(1000, 10000)


@dataclass(frozen=True, slots=True)
class Exercise:
    """A problem and the number under which a message quotes it."""

    name: str
    number: int
    problem: Problem

    @property
    def reference(self) -> str:
        """`chapter.number`; `find` gets the exercise back from it."""
        return f"{_CHAPTERS[self.name]}.{self.number}"


@lru_cache(maxsize=4096)
def exercise(name: str, number: int) -> Exercise:
    """Exercise `number` (of `NUMBERS`) of a generator: always the same problem."""
    return Exercise(name, number, GENERATORS[name](random.Random(f"exercise {name} {number}")))


def find(text: str) -> Exercise | None:
    """The exercise that `text` quotes with its number and its whole statement, or None."""
    for chapter, number in _REFERENCE.findall(text):
        if 1 <= int(chapter) <= len(_NAMES):
            found = exercise(_NAMES[int(chapter) - 1], int(number))
            if found.problem.statement in text:
                return found
    return None
