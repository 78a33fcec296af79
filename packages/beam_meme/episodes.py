"""An episode as a memory or reader may see it: sessions, questions, and the conversation made of them. No gold.

*Episode*: the sessions of one user. *Session*: one conversation with a date. *Round*: the questions asked after some of
the sessions; an episode has two, before and after a change. What a question is worth, which sessions hold evidence and
what depends on what is kept apart, in `beam_meme.episode_gold`: nothing in this module can reach it. In the
conversation each message of the user begins with the date of its session: a pair is retrieved by itself, and questions
ask for the order of time.

("MEME", arXiv 2605.12477, sections 2.1 and 2.6 of the fact sheet.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Literal, get_args

from beamlib.data.conversations import Batch, Conversation, Message, Role, Seed, Turn
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


SUITE = "MEME"

_Said = tuple[Role, str, int]
"""Who speaks, the words, and the first of the session's lines that they are from."""


def episode_conversation(episode: Episode, sessions: int) -> Conversation:
    """The first `sessions` sessions as a conversation: a batch per session, a turn per pair.

    Every character is kept, in order. The rule for sessions that do not alternate: what one side says several times in
    a row is one message, its parts a blank line apart; where a session begins with the assistant or ends with the
    user, the other half of the pair is an empty message (with its date, on the user's side). A session in which nothing
    is said is a batch without turns.
    """
    ids = count()
    batches = []
    for place, session in enumerate(episode.sessions[:sessions]):
        said = [
            Message(next(ids), role, text, "main_question" if role == "user" else None)
            for role, text, _ in _messages(session)
        ]
        turns = tuple(Turn(pair) for pair in zip(said[::2], said[1::2], strict=True))
        batches.append(Batch(number=place + 1, turns=turns, time_anchor=session.timestamp or None))
    content = [[message.content for turn in batch.turns for message in turn.messages] for batch in batches]
    return Conversation(
        id=episode.id,
        size=SUITE,
        seed=Seed(category=episode.domain, title=SUITE),
        batches=tuple(batches),
        sha256=sha256(to_json(content)),
    )


def message_places(episode: Episode, sessions: int) -> Mapping[int, tuple[int, int]]:
    """By message id of `episode_conversation`: its session and the first of that session's lines in it, from 0.

    A message that was put in to complete a pair has the line beside it.
    """
    said = [
        (place, line) for place, session in enumerate(episode.sessions[:sessions]) for *_, line in _messages(session)
    ]
    return dict(enumerate(said))


def _messages(session: Session) -> Iterator[_Said]:
    """Role, words and first line of each message, roles alternating from a user's to an assistant's."""
    held: list[tuple[Role, list[str], int]] = []
    for number, line in enumerate(session.lines):
        if held and held[-1][0] == line.role:
            held[-1][1].append(line.content)
        else:
            held.append((line.role, [line.content], number))
    if held and held[0][0] == "assistant":
        held.insert(0, ("user", [], held[0][2]))
    if held and held[-1][0] == "user":
        held.append(("assistant", [], held[-1][2]))
    for role, parts, number in held:
        text = "\n\n".join(parts)
        if role == "user" and session.timestamp:
            text = f"[{session.timestamp}] {text}" if text else f"[{session.timestamp}]"
        yield role, text, number
