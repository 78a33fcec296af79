"""Word banks of the offline author: one TOML file per domain in `banks/`, checked when read.

Texts hold slots in braces. `{subject}`, `{value}`, `{old}`, `{other}`, `{reason}`, `{person}`, `{goal}` are filled by
the world; every other slot is a list of the bank's `lexicon` (which a title may replace) or of `common.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from beamlib.errors import UserError
from beamlib.files import read_text

BANKS = Path(__file__).parent / "banks"
SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE_AND_SLOT = re.compile(r"(?:\b([Aa])n? )?\{(\w+)\}")
_AS_VOWEL = re.compile(
    r"(?!one\b|once\b|uni[^mn]|us[aeu]|ut[io]|eu)(?:[aeiou]|8|11\b|18\b)|hono|hour|heir", re.IGNORECASE
)
_SHARED = ("common", "phrases", "snippets", "voice")
WORLD_SLOTS = frozenset({"subject", "value", "old", "other", "reason", "person", "goal"})

Kind = Literal["quantity", "date", "person", "choice", "event"]
Unit = Literal[
    "usd", "percent", "minutes", "hours", "days", "weeks", "months", "people", "pieces", "km", "kg", "points",
    "pages", "ms", "mb", "requests", "sqm", "kcal", "reps",
]  # fmt: skip


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Aspect(_Part):
    """One thing that can be told about a subject. See `banks/README.md` for each field, with examples."""

    kind: Kind
    label: str
    mention: str
    say: list[str] = Field(min_length=2)
    ask: str
    state: str
    update: list[str] = []
    unit: Unit | Literal[""] = ""
    low: int = 0
    high: int = 0
    step: int = 1
    ahead: list[int] = []
    options: list[str] = []
    reasons: list[str] = []
    told: str = ""
    denied: str = ""
    never: str = ""

    @model_validator(mode="after")
    def _complete(self) -> Aspect:
        needs_value = self.kind in ("quantity", "date", "choice", "person")
        slot = "{person}" if self.kind == "person" else "{value}"
        for text in (*self.say, self.state):
            if needs_value and slot not in text:
                raise ValueError(f"{text!r} lacks {slot}")
            if "{subject}" not in text:
                raise ValueError(f"{text!r} lacks {{subject}}")
        if slot in self.ask or slot in self.mention:
            raise ValueError(f"`ask` and `mention` must not give away {slot}: {self.ask!r}, {self.mention!r}")
        if "{subject}" not in self.ask or "{subject}" not in self.mention:
            raise ValueError(f"`ask` and `mention` need {{subject}}: {self.ask!r}, {self.mention!r}")
        if not self.ask.endswith("?"):
            raise ValueError(f"`ask` is no question: {self.ask!r}")
        for text in self.update:
            if slot not in text or "{subject}" not in text:
                raise ValueError(f"update {text!r} needs {slot} and {{subject}}")
        if self.kind == "quantity" and not (self.unit and 0 < self.low < self.high and self.step > 0):
            raise ValueError(f"quantity {self.label!r} needs unit, low, high, step")
        if self.kind == "quantity" and (self.high - self.low) // self.step < 5:
            raise ValueError(f"quantity {self.label!r} has fewer than six values")
        if self.kind == "date" and (len(self.ahead) != 2 or self.ahead[0] >= self.ahead[1]):
            raise ValueError(
                f"date {self.label!r} needs ahead = [first, last] in days from the telling (negative: past)"
            )
        if self.kind == "choice":
            if len(self.options) < 3 or len(self.reasons) < 2:
                raise ValueError(f"choice {self.label!r} needs three options and two reasons")
            if any("{other}" not in text or "{reason}" not in text for text in self.say):
                raise ValueError(f"choice {self.label!r}: each `say` needs {{other}} and {{reason}}")
        if self.kind == "event" and not (self.told and self.denied and self.never):
            raise ValueError(f"event {self.label!r} needs told, denied and never")
        for text in (
            *self.say,
            *self.update,
            self.state,
            self.never,
            self.told,
            self.denied,
            self.mention,
            *self.reasons,
        ):
            if text.rstrip().endswith((".", "!", "?")):
                raise ValueError(f"no closing punctuation here: {text!r}")
        return self


class Absent(_Part):
    """A detail of a subject that no text of the bank ever gives; `keyword` stands in no other text of the bank."""

    ask: str
    detail: str
    keyword: str


class Subject(_Part):
    """Something the user deals with over several sessions; `name` is a noun phrase that a slot makes unique."""

    name: str
    plural: str
    topic: str
    aspects: list[Aspect] = Field(min_length=6)
    absent: list[Absent] = Field(min_length=2)

    @model_validator(mode="after")
    def _varied(self) -> Subject:
        kinds: list[str] = [aspect.kind for aspect in self.aspects]
        for kind, least in (("quantity", 2), ("date", 2), ("event", 2), ("choice", 1), ("person", 1)):
            if kinds.count(kind) < least:
                raise ValueError(f"subject {self.name!r} has {kinds.count(kind)} aspects of kind {kind}, needs {least}")
        if not SLOT.search(self.name):
            raise ValueError(f"subject {self.name!r} needs a slot that makes it unique")
        if not any(aspect.update for aspect in self.aspects if aspect.kind in ("quantity", "date")):
            raise ValueError(f"subject {self.name!r} has no quantity or date with an update")
        return self


class Asked(_Part):
    """A question the assistant may put to the user, and what the user replies."""

    question: str
    replies: list[str] = Field(min_length=2)


class Topic(_Part):
    """A narrative of the domain and what can be said about it."""

    label: str
    about: str
    occasion: str
    situations: list[str] = Field(min_length=5)
    questions: list[str] = Field(min_length=6)
    followups: list[str] = Field(min_length=4)
    actions: list[str] = Field(min_length=8)
    reasons: list[str] = Field(min_length=6)
    risks: list[str] = Field(min_length=5)
    checks: list[str] = Field(min_length=6)
    tips: list[str] = Field(min_length=4)
    asked: list[Asked] = Field(min_length=3)
    direct: list[str] = []
    brief: list[str] = []
    because: list[int] = []
    remedy: list[int] = []

    @model_validator(mode="after")
    def _aligned(self) -> Topic:
        for name, texts, to in (("direct", self.direct, self.questions), ("brief", self.brief, self.followups)):
            if texts and len(texts) != len(to):
                raise ValueError(f"topic {self.label!r}: {name} has {len(texts)} entries for {len(to)} questions")
            if wrong := [text for text in texts if not text.rstrip().endswith((".", "!", ":"))]:
                raise ValueError(f"topic {self.label!r}: {name} ends without a full stop: {wrong[0]!r}")
        for name, links, of, to in (
            ("because", self.because, self.actions, self.reasons),
            ("remedy", self.remedy, self.risks, self.actions),
        ):
            if links and (len(links) != len(of) or not all(-1 <= link < len(to) for link in links)):
                raise ValueError(f"topic {self.label!r}: {name} needs {len(of)} numbers from -1 to {len(to) - 1}")
        return self


class Preference(_Part):
    """`I prefer {likes} to {dislikes} because {because}.` and a question that it should shape the answer to."""

    topic: str
    likes: str
    dislikes: str
    because: str
    ask: str
    signs: list[str] = Field(min_length=2, max_length=3)


class Rule(_Part):
    """`Always {rule} when I ask about <occasion of a topic>.`; `sign` is what then shows in an answer."""

    rule: str
    sign: str


class Title(_Part):
    """A title of Table 5 with its own words."""

    title: str
    goal: str
    theme: str
    subtopics: list[str] = Field(min_length=6, max_length=8)
    stages: list[str] = Field(min_length=10, max_length=10)
    lexicon: dict[str, list[str]] = {}


class Bank(_Part):
    """One domain."""

    domain: str
    style: Literal["general", "coding", "math"] = "general"
    lexicon: dict[str, list[str]]
    titles: list[Title]
    topics: list[Topic] = Field(min_length=15, max_length=20)
    subjects: list[Subject] = Field(min_length=10)
    preferences: list[Preference] = Field(min_length=10)
    rules: list[Rule] = Field(min_length=6)

    @model_validator(mode="after")
    def _consistent(self) -> Bank:
        labels = {topic.label for topic in self.topics}
        for topic in [subject.topic for subject in self.subjects] + [one.topic for one in self.preferences]:
            if topic not in labels:
                raise ValueError(f"topic {topic!r} is not among the topics")
        known = WORLD_SLOTS | self.lexicon.keys() | common_lexicon().keys()
        for text in _texts(self.model_dump()):
            for slot in SLOT.findall(text):
                if slot not in known:
                    raise ValueError(f"unknown slot {{{slot}}} in {text!r}")
        for title in self.titles:
            if unknown := title.lexicon.keys() - self.lexicon.keys():
                raise ValueError(f"title {title.title!r} replaces the unknown list {sorted(unknown)[0]!r}")
        for key, words in self.lexicon.items():
            if len(words) < 8 or len(set(words)) != len(words):
                raise ValueError(f"lexicon {key!r} needs eight different entries")
        names = [subject.name for subject in self.subjects]
        if len(set(names)) != len(names):
            raise ValueError("two subjects have the same name")
        return self


def fill(text: str, word: Callable[[str], str]) -> str:
    """`text` with `word(slot)` in place of each slot; `a` and `an` before a slot follow the word."""

    def put(found: re.Match[str]) -> str:
        chosen = word(found[2])
        return f"{found[1]}{'n' if _AS_VOWEL.match(chosen) else ''} {chosen}" if found[1] else chosen

    return _ARTICLE_AND_SLOT.sub(put, text)


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


@cache
def common_lexicon() -> dict[str, list[str]]:
    """Lists that every bank may use: parts of proper names, weekdays and the like."""
    found: dict[str, list[str]] = tomllib.loads(read_text(BANKS / "common.toml"))["lexicon"]
    return found


def bank_files() -> list[Path]:
    """All bank files, sorted."""
    return sorted(path for path in BANKS.glob("*.toml") if path.stem not in _SHARED)


def read_bank(path: Path) -> Bank:
    """Read and check one bank; a `UserError` names the file, the place and what is wrong."""
    try:
        return Bank.model_validate(tomllib.loads(read_text(path)))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML ({error}); correct it.") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path}: {place or 'bank'}: {first['msg']}; correct it.") from None


@cache
def banks() -> dict[str, Path]:
    """Bank files by domain, read from their first lines."""
    found = {}
    for path in bank_files():
        match = re.search(r'^domain = "(.+)"$', read_text(path), re.MULTILINE)
        if match is None:
            raise UserError(f'{path}: no line `domain = "..."`; add it.')
        found[match[1]] = path
    return found


@cache
def bank(domain: str) -> Bank:
    """The bank of a domain; an unknown domain is a `UserError` that lists the known ones."""
    if domain not in banks():
        raise UserError(f"domain {domain!r:.80} has no word bank; choose one of {', '.join(sorted(banks()))}.")
    return read_bank(banks()[domain])
