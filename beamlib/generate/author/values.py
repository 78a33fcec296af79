"""How the world draws values and shows them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import date

from beamlib.generate.author.bank import Aspect
from beamlib.generate.author.facts import Companion
from beamlib.generate.shapes import Person

_UNITS: Mapping[str, str] = {
    "minutes": "minutes", "hours": "hours", "days": "days", "weeks": "weeks", "months": "months", "people": "people",
    "pieces": "pieces", "km": "km", "kg": "kg", "points": "points", "pages": "pages", "ms": "ms", "mb": "MB",
    "requests": "requests", "sqm": "square meters", "kcal": "kcal", "reps": "reps",
}  # fmt: skip
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_AT_WORK: Mapping[str, tuple[str, ...]] = {
    "Business & Entrepreneurship": ("colleague", "former colleague", "business partner"),
    "Career and Professional Development": ("colleague", "former colleague"),
    "Coding": ("colleague", "former colleague", "teammate"),
    "Education & Learning": ("classmate", "study partner", "fellow student"),
    "Math": ("classmate", "study partner", "fellow student"),
}
"""Who acquaintances are where a neighbor would have no business to be."""
_ROLES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("parent", "female"): ("mother",),
    ("parent", "male"): ("father",),
    ("partner", "female"): ("partner",),
    ("partner", "male"): ("partner",),
    ("child", "female"): ("daughter",),
    ("child", "male"): ("son",),
    ("friend", "female"): ("friend", "old friend", "good friend"),
    ("friend", "male"): ("friend", "old friend", "good friend"),
    ("acquaintance", "female"): ("colleague", "neighbor", "acquaintance"),
    ("acquaintance", "male"): ("colleague", "neighbor", "acquaintance"),
}


def show_date(day: date) -> str:
    """`March 5, 2024`; not by the locale."""
    return f"{_MONTHS[day.month - 1]} {day.day}, {day.year}"


def show_number(number: int, unit: str) -> str:
    """A quantity with its unit: `$1,250`, `40%`, `35 minutes`."""
    if unit == "usd":
        return f"${number:,}"
    if unit == "percent":
        return f"{number}%"
    name = _UNITS[unit]
    if number == 1 and name not in ("ms", "reps"):
        name = "person" if name == "people" else name.removesuffix("s")
    return f"{number:,} {name}"


def draw_number(aspect: Aspect, rng: random.Random) -> int:
    """A value of the aspect's range."""
    return rng.randrange(aspect.low, aspect.high + 1, aspect.step)


def revised_number(aspect: Aspect, old: int, rng: random.Random) -> int:
    """Another value of the range, near the old one where there is room."""
    steps = range(aspect.low, aspect.high + 1, aspect.step)
    near = [value for value in steps if value != old and abs(value - old) <= max(3 * aspect.step, old // 3)]
    return rng.choice(near or [value for value in steps if value != old])


def has_part(person: Person, domain: str) -> bool:
    """Whether somebody may be named: parents and children have no part in what is done at work or in a course."""
    return 18 <= person.age <= 78 and (domain not in _AT_WORK or person.relation not in ("parent", "child"))


def companion(person: Person, domain: str = "") -> Companion:
    """Who somebody is to the user. Which of several words fits is decided by the name's letters, once for all."""
    roles = _ROLES[person.relation, person.gender]
    if person.relation == "acquaintance":
        roles = _AT_WORK.get(domain, roles)
    return Companion(person.name, roles[sum(map(ord, person.name)) % len(roles)])
