"""Word banks of the offline author: a TOML file per domain in `banks/`, checked when read. `banks/README.md` says how
one is written.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from beam_generate.probes.wording import content, share
from beam_generate.shapes import Style
from beam_offline.author.grammar import Grammar
from beamlib.errors import UserError
from beamlib.files import read_text

_Model = TypeVar("_Model", bound=BaseModel)

_BANKS = Path(__file__).with_name("banks")
_COMMON = ("common", "user", "assistant", "advice", "probes")
_OTHER = ("snippets", "long")
"""Files that serve every domain: strands of everybody's life, and the lists of the grammar."""

_Kind = Literal["money", "count", "percent", "span", "date", "choice", "person", "event", "tally", "list"]
NUMBERS = ("money", "count", "percent", "span")
"""Kinds whose value is one number."""
MOST = 0.5  # this share of the words that are a fact's own brings it up


class _BankPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FactKind(_BankPart):
    """Something that can be told of a strand. `banks/README.md` explains each field; tests/offline/test_banks.py checks
    that each kind has what it needs.
    """

    kind: _Kind
    np: str
    say: list[str] = []
    ask: list[str] = []
    low: int = 0
    high: int = 0
    step: int = 1
    unit: str = ""
    days: list[int] = []
    options: list[str] = []
    reasons: list[str] = []
    did: str = ""
    key: str = ""
    after: str = ""
    before: str = ""


class Absence(_BankPart):
    """A detail that nobody tells: a question for it, what it is, and a word that stands in no other text."""

    ask: str
    detail: str
    keyword: str


class StrandKind(_BankPart):
    """An ongoing matter of a domain, as it can be talked about, advised on and asked about."""

    label: str
    titles: list[int] = []
    it: list[str] = Field(min_length=1)
    full: list[str] = Field(min_length=2)
    short: list[str] = Field(min_length=3)
    theme: list[str] = Field(min_length=2)
    intro: list[str] = Field(min_length=2)
    talk: list[str] = Field(min_length=5)
    want: list[str] = Field(min_length=6)
    do: list[str] = Field(min_length=8)
    why: list[str] = Field(min_length=6)
    risk: list[str] = Field(min_length=4)
    things: list[str] = Field(min_length=8)
    terms: list[str] = Field(min_length=12)
    occasion: list[str] = Field(min_length=1)
    requests: list[str] = Field(min_length=2)
    absent: list[Absence] = Field(min_length=1)
    fact: list[FactKind] = Field(min_length=6)

    @cached_property
    def foretelling(self) -> frozenset[str]:
        """Texts that name what a fact tells: a user who said them would bring it up before."""
        texts = [*self.do, *self.want, *self.talk, *self.things, *self.why, *self.risk]
        return frozenset(text for text in texts if any(share(own, content(text)) >= MOST for own in self.own.values()))

    @cached_property
    def own(self) -> Mapping[str, frozenset[str]]:
        """Words of each fact's noun phrase that those of the other facts lack; all of them where none is left."""
        named = {one.np: content(one.np) for one in self.fact}
        left = {np: words.difference(*(named[other] for other in named if other != np)) for np, words in named.items()}
        return {np: words or named[np] for np, words in left.items()}


class Preference(_BankPart):
    """A lasting wish: how it is told, requests that it bears on without their naming it, and signs of keeping to it."""

    say: list[str] = Field(min_length=2)
    requests: list[str] = Field(min_length=2)
    signs: list[str] = Field(min_length=1)
    against: str


class StandingRule(_BankPart):
    """A standing instruction: what to do always, and by what an answer shows that it was done."""

    rule: str
    signs: list[str] = Field(min_length=1)


class Title(_BankPart):
    """A title of Table 5, or one like it; at 10M a stage for each plan. `families` are of problems in mathematics."""

    title: str
    goal: str
    theme: str = ""
    subtopics: list[str] = []
    stages: list[str] = []
    families: list[str] = []


class Bank(_BankPart):
    """All of a domain."""

    domain: str
    style: Style
    titles: list[Title] = Field(min_length=1)
    subtopics: list[str] = Field(min_length=6)
    stages: list[str] = Field(min_length=10, max_length=10)
    strand: list[StrandKind] = Field(min_length=4)
    preference: list[Preference] = Field(min_length=5)
    lists: dict[str, list[str]] = {}

    def titled(self, title: str, theme: str = "", subtopics: Sequence[str] = ()) -> Title:
        """Return a title with all its fields. One from elsewhere has the given theme and subtopics."""
        other = Title(title=title, goal="the whole plan", theme=theme, subtopics=list(subtopics))
        one = next((one for one in self.titles if one.title == title), other)
        usual = {
            "theme": f"{title}, from the first steps to the end.",
            "subtopics": self.subtopics,
            "stages": self.stages,
        }
        return one.model_copy(update={name: getattr(one, name) or value for name, value in usual.items()})

    def strands(self, title: str) -> list[StrandKind]:
        """Return the strands that suit a title; all of the domain's for an unknown title."""
        known = [number for number, one in enumerate(self.titles, 1) if one.title == title]
        return [one for one in self.strand if not one.titles or not known or known[0] in one.titles]


class _Common(_BankPart):
    strand: list[StrandKind] = []
    preference: list[Preference] = []
    rule: list[StandingRule] = []
    lists: dict[str, list[str]] = {}
    words: dict[str, list[str]] = {}


@cache
def banks() -> Mapping[str, str]:
    """Map every domain that the author can write to the name of its file, alphabetically by file."""
    files = sorted(path.stem for path in _BANKS.glob("*.toml") if path.stem not in (*_COMMON, *_OTHER))
    return {_load(_BANKS / f"{name}.toml")["domain"]: name for name in files}


@cache
def bank(domain: str) -> Bank:
    """Read the bank of a domain. A domain without one is a `UserError` that names those there are."""
    if domain not in banks():
        raise UserError(
            f"domain {domain!r:.80}: the offline author does not write it, language models do; choose one of: "
            f"{', '.join(banks())}; or name a models file (parameter authors: generate --models, run-all --authors)."
        )
    return read_bank(Bank, banks()[domain])


@cache
def common() -> _Common:
    """Read what serves every domain."""
    parts = [read_bank(_Common, name) for name in _COMMON if (_BANKS / f"{name}.toml").exists()]
    return _Common(
        strand=[one for part in parts for one in part.strand],
        preference=[one for part in parts for one in part.preference],
        rule=[one for part in parts for one in part.rule],
        lists={name: texts for part in parts for name, texts in part.lists.items()},
    )


@cache
def long_bank() -> _Common:
    """Read what conversations beyond 100K have: lists in place of the common ones, and words that do not come twice."""
    return read_bank(_Common, "long")


@cache
def grammar(domain: str, *, long: bool = False) -> Grammar:
    """Build the grammar of the common lists, those of a `long` conversation and the domain's own."""
    return Grammar({**common().lists, **(long_bank().lists if long else {}), **bank(domain).lists})


def read_bank(kind: type[_Model], name: str) -> _Model:
    """Read a file of `banks/`."""
    return kind.model_validate(_load(_BANKS / f"{name}.toml"))


def _load(path: Path) -> dict[str, Any]:
    return tomllib.loads(read_text(path))
