"""How the world draws values and shows them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import date, timedelta

from beamlib.generate.author.bank import Aspect
from beamlib.generate.author.facts import Companion
from beamlib.generate.shapes import Person, Profile, Timeline

_UNITS: Mapping[str, str] = {
    "minutes": "minutes", "hours": "hours", "days": "days", "weeks": "weeks", "months": "months", "people": "people",
    "pieces": "pieces", "km": "km", "kg": "kg", "points": "points", "pages": "pages", "ms": "ms", "mb": "MB",
    "requests": "requests", "sqm": "square meters", "kcal": "kcal", "reps": "reps",
}  # fmt: skip
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


def part_of(whole: Timeline, plan: int, plans: int) -> Timeline:
    """An equal part of `whole`, the `plan`-th (0-based) of `plans`; parts follow one another without overlap."""
    days = (whole.end - whole.start).days + 1
    first, last = days * plan // plans, days * (plan + 1) // plans - 1
    return Timeline(whole.start + timedelta(first), whole.start + timedelta(last))


def spread_days(timeline: Timeline, count: int, rng: random.Random) -> list[date]:
    """`count` days evenly spread over `timeline`, strictly increasing, a day or two off now and then."""
    days = (timeline.end - timeline.start).days
    found = [timeline.start + timedelta(days * number // count) for number in range(count)]
    room = max(0, days // count - 1)
    return [found[0]] + [day + timedelta(rng.randrange(min(room, 3) + 1)) for day in found[1:]]


def trade(profile: Profile) -> str:
    """The profession as it stands within a sentence: `data analyst`, `IT consultant`."""
    return " ".join(word if word.isupper() else word.lower() for word in profile.profession.split())
