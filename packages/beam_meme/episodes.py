"""An episode as a memory or reader may see it: sessions, and what is asked at two places. No gold, no entity names.

*Episode*: the sessions of one user. *Session*: one conversation with a date. *Round*: the questions asked after some of
the sessions; an episode has two, before and after a change. What a question is worth, which sessions hold evidence and
what depends on what is kept apart, in `beam_meme.episode_gold`: nothing in this module can reach it.

("MEME", arXiv 2605.12477, sections 2.1 and 2.6 of the fact sheet.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from beamlib.data.conversations import Role
from beamlib.files import sha256, to_json

Domain = Literal["personal_life", "software_project"]
Variant = Literal["nofiller", "filler32k", "filler128k"]
Phase = Literal["before", "after"]

DOMAINS: tuple[Domain, ...] = get_args(Domain)
VARIANTS: tuple[Variant, ...] = get_args(Variant)


@dataclass(frozen=True, slots=True)
class Line:
    """What one side says. A session may begin with the assistant."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation. `timestamp` as released: `2023/03/01 (Wed) 09:00`."""

    id: str
    timestamp: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question under an id that tells nothing of its task: `<episode>-<phase>-q<NN>` in file order."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Round:
    """Questions asked once the first `sessions` sessions have been read. `timestamp` is when they are asked."""

    sessions: int
    timestamp: str
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Episode:
    """The sessions of one user, in order, and the two rounds of questions; `after` follows the last session."""

    id: str
    domain: Domain
    sessions: tuple[Session, ...]
    before: Round
    after: Round

    @property
    def rounds(self) -> dict[Phase, Round]:
        """Both rounds, in the order in which they are asked."""
        return {"before": self.before, "after": self.after}

    @cached_property
    def sha256(self) -> str:
        """Hash of all that a run of it rests on."""
        return sha256(
            to_json([self.id, self.domain, [_plain(one) for one in self.sessions], *map(_asked, self.rounds.values())])
        )


def _plain(session: Session) -> list[object]:
    return [session.id, session.timestamp, [[line.role, line.content] for line in session.lines]]


def _asked(one: Round) -> list[object]:
    return [one.sessions, one.timestamp, [[question.id, question.text] for question in one.questions]]
