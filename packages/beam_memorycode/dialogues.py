"""A MemoryCode dialogue as typed data: what is said in it, and what code is asked for.

*Session*: one conversation of a mentor and a mentee. *Dialogue*: all sessions of one pair, in order. *Instruction*: a
coding convention; its *values* are its wordings, a changed value is an *update*. *Query*: the code to be written, as a
noun phrase. How answers are checked (the rules) is kept apart, in `beam_memorycode.rule_gold`: nothing in this
module can reach it, so a memory or reader that is handed a dialogue cannot either.

("From Tools to Teammates", arXiv 2502.13791, sections 3 and 4.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

Length = Literal["short", "medium", "long"]
TopicType = Literal[
    "filler-add",
    "filler-update",
    "filler-instruction-add",
    "filler-instruction-update",
    "instruction-add",
    "instruction-update",
]

LENGTHS: tuple[Length, ...] = get_args(Length)

SESSION_COUNTS = (1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 100)
"""Numbers of sessions that a dialogue can have (Table 1); the published set has 30 dialogues of each."""

LONGEST_SHORT = 15
"""Dialogues of up to so many sessions are "short" in Table 4 (ids 1 to 210); the text says "less than 15"."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Who talks, and where. The personas are prose with `[mentor]` and `[mentee]` as placeholders."""

    mentor: str
    mentee: str
    company: str
    mentor_persona: str = ""
    mentee_persona: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """What a session is about: a filler (first, at most one) or an instruction, with its wording."""

    type: TopicType
    text: str

    @property
    def coding(self) -> bool:
        """Whether it is a coding instruction, which answers are checked for."""
        return self.type.startswith("instruction")


@dataclass(frozen=True, slots=True)
class Mention:
    """An instruction as a session states it: its id in the bank and the index of its value, both 0-based."""

    instruction: int
    value: int


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation. `mentions` and `queries` are parallel to the coding ones of `topics`.

    `text` holds turns `Name: ...` separated by blank lines; it is None where a bundle was published without texts.
    `filler` is the filler's id in the bank, None where there is none.
    """

    topics: tuple[Topic, ...]
    mentions: tuple[Mention, ...]
    queries: tuple[str, ...]
    length: Length
    filler: int | None = None
    text: str | None = None

    @property
    def instructions(self) -> tuple[str, ...]:
        """The wordings of the session's coding instructions, in order."""
        return tuple(topic.text for topic in self.topics if topic.coding)


@dataclass(frozen=True)
class Dialogue:
    """All sessions of one mentor and one mentee. `queries` are the distinct ones asked after the last session."""

    id: int
    context: Setting
    sessions: tuple[Session, ...]
    queries: tuple[str, ...]

    @property
    def short(self) -> bool:
        """Whether Table 4 counts it as a short history."""
        return len(self.sessions) <= LONGEST_SHORT

    @cached_property
    def has_texts(self) -> bool:
        """Whether what was said is at hand, and not only the template."""
        return all(session.text is not None for session in self.sessions)

    @property
    def name(self) -> str:
        """`dialogue_<id>`, the stem of its file."""
        return f"dialogue_{self.id}"
