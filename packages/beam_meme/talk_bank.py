"""What stands around the facts where rules write the sessions: greetings, questions, answers (`banks/talk.toml`).

Nothing of it names or suggests a thing that an episode can be about, so no answer can restate a wrong value, name a
dependant, or say more of a deletion than that it is done.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from beam_meme.episode_gold import FactKind
from beam_meme.episodes import Domain
from beam_memorycode.talk import Pool, read_bank

TALK = Path(__file__).parent / "banks" / "talk.toml"


class _TalkPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Noted(_TalkPart):
    told: Pool
    update: Pool
    exact: Pool
    deletion: Pool


class _ByDomain(_TalkPart):
    """A pool for each domain; `deletion` is for requests to forget, in either."""

    personal_life: Pool
    software_project: Pool
    deletion: Pool

    def of(self, domain: Domain, kind: FactKind) -> Pool:
        """The pool for a fact of a kind."""
        pools = {"personal_life": self.personal_life, "software_project": self.software_project}
        return self.deletion if kind == "deletion" else pools[domain]


class TalkBank(_TalkPart):
    """`banks/talk.toml`."""

    greeting: dict[Domain, Pool] = Field(min_length=2)
    question: _ByDomain
    noted: _Noted
    advice: _ByDomain


@cache
def talk_bank(path: Path = TALK) -> TalkBank:
    """The bank; what is wrong with the file is a `UserError`."""
    return read_bank(path, TalkBank)


class SmallTalk:
    """The phrases of one session, none a second time before its pool is through."""

    def __init__(self, domain: Domain, key: str) -> None:
        """`key` sets the order of the phrases."""
        self._domain = domain
        self._bank = talk_bank()
        self._key = key
        self._used: dict[str, int] = {}

    def greeting(self) -> str:
        """The assistant's first line."""
        return self._next(self._bank.greeting[self._domain])

    def question(self, kind: FactKind) -> str:
        """What the user adds to a fact: a question that tells nothing, or a request for tips."""
        return self._next(self._bank.question.of(self._domain, kind))

    def answer(self, kind: FactKind) -> str:
        """The assistant's answer to a fact: it takes note, then says something in general."""
        noted = self._bank.noted
        pools = {"update": noted.update, "change": noted.update, "exact": noted.exact, "deletion": noted.deletion}
        first = self._next(pools.get(kind, noted.told))
        return f"{first} {self._next(self._bank.advice.of(self._domain, kind))}"

    def _next(self, pool: Sequence[str]) -> str:
        name = str(pool)
        order = random.Random(f"meme talk {self._key} {name}").sample(pool, len(pool))
        place = self._used[name] = self._used.get(name, -1) + 1
        return order[place % len(order)]
