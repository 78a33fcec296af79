"""The user and the people in their life, drawn by the rules of the released code.

A pool of 70 strangers (300 at 10M) aged 10 to 84 is drawn first. Relations are then drawn from it:

- Parents, with probability .85: the mother, or mother and father, 18 to 40 years older than the user. If the pool has
  nobody of that age, a person 20 to 40 years older (at most 100) is added.
- A partner, with probability .6 under 30 and .8 from 30 on: other gender, adult, at most ten years apart. If the pool
  has nobody, a person at most five years apart is added.
- Children from the age of 25 on. The probability rises evenly from 0 at 25 to .8 at 45. One to three, each aged
  max(1 to 5, the user's age less 30 to 40).
- Friends: from those left at most ten years apart, each with probability .25, up to five (30 at 10M).
- Acquaintances: from those left, each with probability .15, up to five (30 at 10M).

Every user has at least one friend and one acquaintance (ten of each at 10M, one per plan): the first candidates of the
pool fill up what chance left open.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from beam_generate.shapes import Gender, Person, Profile, Relation
from beamlib.data.conversations import Size
from beamlib.files import read_yaml

_FILE = Path(__file__).with_name("names.yaml")

_PLANS = 10
"""Plans of a 10M conversation, each with newcomers of its own."""

TRAITS = 6

_SECTIONS: tuple[tuple[Relation, str], ...] = (
    ("parent", "PARENTS & GUARDIANS:"),
    ("partner", "ROMANTIC PARTNER:"),
    ("child", "CHILDREN:"),
    ("friend", "CLOSE FRIENDS:"),
    ("acquaintance", "ACQUAINTANCES & COLLEAGUES:"),
)


class NameGroup(BaseModel):
    """First names and family names that are common together."""

    female: tuple[str, ...]
    male: tuple[str, ...]
    family: tuple[str, ...]


class NameLists(BaseModel):
    """Content of `names.yaml`. No first name occurs twice; places read `Lisbon, Portugal`."""

    groups: tuple[NameGroup, ...]
    places: tuple[str, ...]
    professions: tuple[str, ...]
    types: Mapping[str, str]


@cache
def name_lists() -> NameLists:
    """Read `names.yaml`."""
    return NameLists.model_validate(read_yaml(_FILE))


TYPES = name_lists().types
"""The sixteen Myers-Briggs types, a sentence each. Six of them make a character: 8,008 combinations."""


@dataclass(frozen=True, slots=True)
class People:
    """The user, the people of all plans, and (at 10M) ten groups of people who enter with each plan."""

    profile: Profile
    core: tuple[Person, ...]
    newcomers: tuple[tuple[Person, ...], ...]


class _Stranger(NamedTuple):
    gender: Gender
    age: int


_Relative = tuple[Relation, _Stranger]


def draw_people(size: Size, number: int, seed: int) -> People:
    """Draw the people of conversation `number` (1-based) of a size. No two share a first name."""
    rng = random.Random(f"people {seed} {size} {number}")
    long = size == "10M"
    age = rng.randrange(20, 71)
    gender = _gender(rng)
    group = rng.choice(name_lists().groups)
    first = rng.choice(getattr(group, gender))
    profile = Profile(
        name=f"{first} {rng.choice(group.family)}",
        age=age,
        gender=gender,
        place=rng.choice(name_lists().places),
        profession=rng.choice(name_lists().professions),
        traits=tuple(rng.sample(sorted(TYPES), TRAITS)),
    )
    pool = [_Stranger(_gender(rng), rng.randrange(10, 85)) for _ in range(300 if long else 70)]
    relatives = [*_parents(rng, age, pool), *_partner(rng, profile, pool), *_children(rng, age)]
    most, least = (30, _PLANS) if long else (5, 1)
    friends = _some(rng, [other for other in pool if abs(other.age - age) <= 10], 0.25, most, least)
    for friend in friends:
        pool.remove(friend)
    relatives += [("friend", other) for other in friends]
    relatives += [("acquaintance", other) for other in _some(rng, pool, 0.15, most, least)]
    people = _named(rng, relatives, first)
    if not long:
        return People(profile, tuple(people), ())
    core = tuple(person for person in people if person.relation in ("parent", "partner", "child"))
    near = _parts([person for person in people if person.relation == "friend"])
    far = _parts([person for person in people if person.relation == "acquaintance"])
    return People(profile, core, tuple((*some, *others) for some, others in zip(near, far, strict=True)))


def render_profile(profile: Profile) -> str:
    """Render `main_spec.txt` as released; without a biography its second part is left out."""
    lines = [
        "USER PROFILE:",
        f"    • Name: {profile.name}",
        f"    • Age: {profile.age} years old",
        f"    • Gender: {profile.gender.title()}",
        f"    • Location: {profile.place}",
        f"    • Profession: {profile.profession}",
    ]
    if profile.biography:
        lines += ["", "    PERSONALITY OVERVIEW:", f"    {' '.join(profile.biography.split())}"]
    return "\n".join(lines)


def render_relationships(people: Sequence[Person]) -> str:
    """Render `relationships.txt` as released: a section for each relation that occurs."""
    sections = []
    for relation, heading in _SECTIONS:
        lines = [f"• {one.name} ({one.gender}, age {one.age})" for one in people if one.relation == relation]
        if lines:
            sections.append("\n".join((heading, *lines)))
    return "\n\n".join(sections)


def render_traits(profile: Profile) -> str:
    """Render the six traits, a sentence per line."""
    return "\n".join(f"- {TYPES[trait]}" for trait in profile.traits)


def _gender(rng: random.Random) -> Gender:
    return "male" if rng.random() < 0.5 else "female"


def _take(rng: random.Random, pool: list[_Stranger], fitting: list[_Stranger]) -> _Stranger | None:
    """Move one of the fitting strangers out of the pool; None if nobody fits."""
    if not fitting:
        return None
    stranger = rng.choice(fitting)
    pool.remove(stranger)
    return stranger


def _parents(rng: random.Random, age: int, pool: list[_Stranger]) -> list[_Relative]:
    if rng.random() >= 0.85:
        return []
    genders: tuple[Gender, ...] = ("female",) if rng.random() < 0.5 else ("female", "male")
    parents: list[_Relative] = []
    for gender in genders:
        fitting = [other for other in pool if other.gender == gender and age + 18 <= other.age <= age + 40]
        parent = _take(rng, pool, fitting)
        years = parent.age if parent else rng.randrange(age + 20, min(age + 40, 100) + 1)
        parents.append(("parent", _Stranger(gender, years)))
    return parents


def _partner(rng: random.Random, profile: Profile, pool: list[_Stranger]) -> list[_Relative]:
    age = profile.age
    if rng.random() >= (0.6 if age < 30 else 0.8):
        return []
    gender: Gender = "female" if profile.gender == "male" else "male"
    fitting = [other for other in pool if other.gender == gender and other.age >= 18 and abs(other.age - age) <= 10]
    partner = _take(rng, pool, fitting)
    return [("partner", _Stranger(gender, partner.age if partner else rng.randrange(max(18, age - 5), age + 6)))]


def _children(rng: random.Random, age: int) -> list[_Relative]:
    if rng.random() >= 0.8 * min(max(age - 25, 0), 20) / 20:
        return []
    count = rng.randrange(1, 4)
    return [
        ("child", _Stranger(_gender(rng), max(rng.randrange(1, 6), age - rng.randrange(30, 41)))) for _ in range(count)
    ]


def _some(rng: random.Random, pool: list[_Stranger], chance: float, most: int, least: int) -> list[_Stranger]:
    """Draw each stranger with probability `chance`, at most `most` and at least `least`."""
    entered = [rng.random() < chance for _ in pool]
    chosen = [other for other, enters in zip(pool, entered, strict=True) if enters][:most]
    rest = [other for other, enters in zip(pool, entered, strict=True) if not enters]
    return chosen + rest[: max(0, least - len(chosen))]


def _named(rng: random.Random, relatives: list[_Relative], own: str) -> list[Person]:
    """Give each a first name; none has the user's (`own`)."""
    names: dict[str, list[str]] = {}
    for gender in ("female", "male"):
        every = chain(*(getattr(group, gender) for group in name_lists().groups))
        names[gender] = [name for name in every if name != own]
        rng.shuffle(names[gender])
    return [Person(names[other.gender].pop(), other.gender, other.age, relation) for relation, other in relatives]


def _parts(people: list[Person]) -> list[list[Person]]:
    """Divide people into ten parts in order, as equal as possible."""
    count = len(people)
    return [people[count * part // _PLANS : count * (part + 1) // _PLANS] for part in range(_PLANS)]
