"""The user and the people in their life, drawn by the released rules (section 3.3, step 2, of the reference).

A pool of 70 strangers (300 at 10M) of 10 to 84 years is drawn first, and relations are found in it:

- parents with probability .85, one or two, a single one being the mother; 18 to 40 years older than the user. Where the
  pool holds nobody of that age, somebody 20 to 40 years older is added (and nobody older than 100: our bound).
- a partner with probability .6 under 30, else .8; of the other gender, grown-up, at most ten years apart. Where the
  pool holds nobody, somebody at most five years apart is added.
- children from the age of 25 on, with a probability that rises evenly from 0 at 25 to .8 at 45 and stays there; one to
  three, each as old as max(1 to 5, the user's age less 30 to 40).
- friends: everybody left who is at most ten years apart, with probability .25, up to five (30 at 10M).
- acquaintances: everybody left, with probability .15, up to five (30 at 10M).

Every released user has friends and acquaintances; so has ours: where chance gives fewer than one (ten at 10M, one for
each plan), the first candidates of the pool enter.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from beam_generate.shapes import Person, Profile
from beamlib.data.conversations import Size
from beamlib.files import parse_yaml, read_text

_FILE = Path(__file__).with_name("names.yaml")


@dataclass(frozen=True, slots=True)
class NameGroup:
    """First names and family names that are common together."""

    female: tuple[str, ...]
    male: tuple[str, ...]
    family: tuple[str, ...]


@cache
def name_groups() -> tuple[NameGroup, ...]:
    """All groups; no first name occurs in two of them, or for both genders."""
    return tuple(
        NameGroup(tuple(group["female"]), tuple(group["male"]), tuple(group["family"])) for group in _data()["groups"]
    )


@cache
def places() -> tuple[str, ...]:
    """City and country, as `Lisbon, Portugal`."""
    return tuple(_data()["places"])


@cache
def professions() -> tuple[str, ...]:
    """Professions with capital letters."""
    return tuple(_data()["professions"])


@cache
def _data() -> Any:
    return parse_yaml(read_text(_FILE), _FILE)


Gender = Literal["male", "female"]
Relation = Literal["parent", "partner", "child", "friend", "acquaintance"]

PLANS = 10
"""Plans of a 10M conversation, each with newcomers of its own."""

TYPES: Mapping[str, str] = {
    "INTJ": "Works out far-reaching plans alone and follows them through, whatever others think of them.",
    "INTP": "Takes ideas apart for the pleasure of it and trusts an argument more than a custom.",
    "ENTJ": "Takes charge where things drift, sets a goal and expects everybody to keep the pace.",
    "ENTP": "Argues both sides of a question with relish and starts more projects than a week can hold.",
    "INFJ": "Senses early what troubles others and quietly arranges life around a few deep convictions.",
    "INFP": "Measures every choice against private values and writes down what is hard to say aloud.",
    "ENFJ": "Brings people together, remembers what each of them hopes for and pushes them towards it.",
    "ENFP": "Warms to strangers and new ideas within minutes and finds routine hard to bear.",
    "ISTJ": "Keeps lists, receipts and promises, and checks every figure a second time.",
    "ISFJ": "Looks after family and colleagues without being asked and never forgets a birthday.",
    "ESTJ": "Likes clear rules and clear duties and settles a matter the day it comes up.",
    "ESFJ": "Keeps the household and the neighborhood in touch and cannot rest while two friends quarrel.",
    "ISTP": "Learns how a thing works by opening it and stays calm when something breaks.",
    "ISFP": "Lives by eye and ear, decides by feeling and avoids loud disputes.",
    "ESTP": "Acts first, bargains well and enjoys a risk that can be seen coming.",
    "ESFP": "Makes an evening of any gathering and would rather do a thing today than plan it for spring.",
}
"""The sixteen types of the Myers-Briggs indicator, each in a sentence. Six of them make a character: 8,008 ways."""

TRAITS = 6

_SECTIONS: tuple[tuple[Relation, str], ...] = (
    ("parent", "PARENTS & GUARDIANS:"),
    ("partner", "ROMANTIC PARTNER:"),
    ("child", "CHILDREN:"),
    ("friend", "CLOSE FRIENDS:"),
    ("acquaintance", "ACQUAINTANCES & COLLEAGUES:"),
)


@dataclass(frozen=True, slots=True)
class People:
    """The user, those who stay, and (10M only) ten groups of those who enter with each plan."""

    profile: Profile
    core: tuple[Person, ...]
    newcomers: tuple[tuple[Person, ...], ...]


@dataclass(frozen=True, slots=True)
class _Stranger:
    gender: Gender
    age: int


@dataclass(frozen=True, slots=True)
class _Drawn:
    relation: Relation
    gender: Gender
    age: int


def draw_people(size: Size, number: int, seed: int) -> People:
    """The people of conversation `number` (1-based) of a size under `seed`. No two of them share a first name."""
    rng = random.Random(f"people {seed} {size} {number}")
    long = size == "10M"
    age = rng.randrange(20, 71)
    gender = _gender(rng)
    group = rng.choice(name_groups())
    first = rng.choice(getattr(group, gender))
    profile = Profile(
        name=f"{first} {rng.choice(group.family)}",
        age=age,
        gender=gender,
        place=rng.choice(places()),
        profession=rng.choice(professions()),
        traits=tuple(rng.sample(sorted(TYPES), TRAITS)),
    )
    pool = [_Stranger(_gender(rng), rng.randrange(10, 85)) for _ in range(300 if long else 70)]
    drawn = [*_parents(rng, age, pool), *_partner(rng, profile, pool), *_children(rng, age)]
    drawn += _friends(rng, age, pool, most=30 if long else 5, least=PLANS if long else 1)
    drawn += _acquaintances(rng, pool, most=30 if long else 5, least=PLANS if long else 1)
    people = _named(rng, drawn, taken=first)
    if not long:
        return People(profile, tuple(people), ())
    core = tuple(person for person in people if person.relation in ("parent", "partner", "child"))
    friends = _parts([person for person in people if person.relation == "friend"])
    others = _parts([person for person in people if person.relation == "acquaintance"])
    return People(profile, core, tuple((*near, *far) for near, far in zip(friends, others, strict=True)))


def render_profile(profile: Profile) -> str:
    """The text of `main_spec.txt`, as released; without its second part while there is no biography."""
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
    """The text of `relationships.txt`, as released: a section for each relation that somebody has."""
    sections = []
    for relation, heading in _SECTIONS:
        lines = [f"• {one.name} ({one.gender}, age {one.age})" for one in people if one.relation == relation]
        if lines:
            sections.append("\n".join((heading, *lines)))
    return "\n\n".join(sections)


def render_traits(profile: Profile) -> str:
    """The six traits, a sentence on a line each."""
    return "\n".join(f"- {TYPES[trait]}" for trait in profile.traits)


def _gender(rng: random.Random) -> Gender:
    return "male" if rng.random() < 0.5 else "female"


def _take(rng: random.Random, pool: list[_Stranger], fitting: list[_Stranger]) -> _Stranger | None:
    """One of those who fit, taken out of the pool."""
    if not fitting:
        return None
    taken = rng.choice(fitting)
    pool.remove(taken)
    return taken


def _parents(rng: random.Random, age: int, pool: list[_Stranger]) -> list[_Drawn]:
    if rng.random() >= 0.85:
        return []
    genders: tuple[Gender, ...] = ("female",) if rng.random() < 0.5 else ("female", "male")
    found = []
    for gender in genders:
        fitting = [one for one in pool if one.gender == gender and age + 18 <= one.age <= age + 40]
        taken = _take(rng, pool, fitting)
        years = taken.age if taken else rng.randrange(age + 20, min(age + 40, 100) + 1)
        found.append(_Drawn("parent", gender, years))
    return found


def _partner(rng: random.Random, profile: Profile, pool: list[_Stranger]) -> list[_Drawn]:
    age = profile.age
    if rng.random() >= (0.6 if age < 30 else 0.8):
        return []
    gender: Gender = "female" if profile.gender == "male" else "male"
    fitting = [one for one in pool if one.gender == gender and one.age >= 18 and abs(one.age - age) <= 10]
    taken = _take(rng, pool, fitting)
    return [_Drawn("partner", gender, taken.age if taken else rng.randrange(max(18, age - 5), age + 6))]


def _children(rng: random.Random, age: int) -> list[_Drawn]:
    chance = 0.8 * min(max(age - 25, 0), 20) / 20
    if rng.random() >= chance:
        return []
    count = rng.randrange(1, 4)
    return [_Drawn("child", _gender(rng), max(rng.randrange(1, 6), age - rng.randrange(30, 41))) for _ in range(count)]


def _friends(rng: random.Random, age: int, pool: list[_Stranger], most: int, least: int) -> list[_Drawn]:
    near = [one for one in pool if abs(one.age - age) <= 10]
    chosen = _some(rng, near, 0.25, most, least)
    for one in chosen:
        pool.remove(one)
    return [_Drawn("friend", one.gender, one.age) for one in chosen]


def _acquaintances(rng: random.Random, pool: list[_Stranger], most: int, least: int) -> list[_Drawn]:
    return [_Drawn("acquaintance", one.gender, one.age) for one in _some(rng, pool, 0.15, most, least)]


def _some(rng: random.Random, pool: list[_Stranger], chance: float, most: int, least: int) -> list[_Stranger]:
    entered = [rng.random() < chance for _ in pool]
    chosen = [one for one, enters in zip(pool, entered, strict=True) if enters][:most]
    rest = [one for one, enters in zip(pool, entered, strict=True) if not enters]
    return chosen + rest[: max(0, least - len(chosen))]


def _named(rng: random.Random, drawn: list[_Drawn], taken: str) -> list[Person]:
    names: dict[str, list[str]] = {}
    for gender in ("female", "male"):
        names[gender] = [name for name in chain(*(getattr(group, gender) for group in name_groups())) if name != taken]
        rng.shuffle(names[gender])
    return [Person(names[one.gender].pop(), one.gender, one.age, one.relation) for one in drawn]


def _parts(people: list[Person]) -> list[list[Person]]:
    """Ten parts in order, as equal as can be."""
    count = len(people)
    return [people[count * part // PLANS : count * (part + 1) // PLANS] for part in range(PLANS)]
