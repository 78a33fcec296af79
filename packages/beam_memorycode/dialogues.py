"""A MemoryCode dialogue as typed data, and as the conversation that a memory reads: what was said, nothing else.

*Session*: one conversation of a mentor and a mentee. *Dialogue*: all sessions of one pair, in order. *Instruction*: a
coding convention; its *values* are its wordings, a changed value is an *update*. *Query*: the code to be written, as a
noun phrase. How answers are checked (the rules) is kept apart, in `beam_memorycode.rules`: nothing in this module can
reach it, so a memory or reader that is handed a dialogue cannot either. In the conversation the mentor takes the place
of the user, the mentee that of the assistant (section 3.2 of the paper).

("From Tools to Teammates", arXiv 2502.13791, sections 3 and 4.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Literal, get_args

from beamlib.data.conversations import Batch, Conversation, Message, Role, Seed, Turn
from beamlib.errors import UserError
from beamlib.files import sha256, to_json

Length = Literal["short", "medium", "long"]
TopicType = Literal[
    "filler-add",
    "filler-update",
    "filler-instruction-add",
    "filler-instruction-update",
    "instruction-add",
    "instruction-update",
]

DIALOGUE_LENGTHS: tuple[Length, ...] = get_args(Length)

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
class DialogueSession:
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
    sessions: tuple[DialogueSession, ...]
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


_SUITE = "MemoryCode"


def dialogue_as_conversation(dialogue: Dialogue) -> Conversation:
    """Convert `dialogue` to a conversation: a batch per session, a turn per pair.

    Every character of the texts is kept, in order, but for the blank around what a speaker says; names stay, since two
    people speak who are no user and assistant. The rule for texts that do not alternate: what one speaker says several
    times in a row is one message; text under no known name belongs to whoever spoke last, and to the mentor, who leads,
    where nobody has; where a session begins with the mentee or ends with the mentor, the other half of the pair is an
    empty message. A session with nothing in it is a batch without turns. `UserError` for a dialogue without texts.
    """
    ids = count()
    batches = []
    for place, session in enumerate(dialogue.sessions):
        if session.text is None:
            raise UserError(f"{dialogue.name}: session {place} has no text, so no memory can read it; give the texts.")
        texts = list(_messages(session.text, dialogue.context))
        if texts and texts[0][0] == "assistant":
            texts.insert(0, ("user", ""))
        if texts and texts[-1][0] == "user":
            texts.append(("assistant", ""))
        messages = [Message(next(ids), role, text, "main_question" if role == "user" else None) for role, text in texts]
        turns = tuple(Turn(pair) for pair in zip(messages[::2], messages[1::2], strict=True))
        batches.append(Batch(number=place + 1, turns=turns))
    content = [[message.content for turn in batch.turns for message in turn.messages] for batch in batches]
    return Conversation(
        id=dialogue.name,
        size=_SUITE,
        seed=Seed(category="coding", title=_SUITE),
        batches=tuple(batches),
        sha256=sha256(to_json(content)),
    )


def _messages(text: str, context: Setting) -> Iterator[tuple[Role, str]]:
    """Yield role and text of each message of a session, roles alternating."""
    names: dict[str, Role] = {context.mentor: "user", context.mentee: "assistant"}
    speaker = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    before, *pieces = re.split(rf"^(?=[^\S\n]*(?:{speaker})[^\S\n]*:)", text, flags=re.MULTILINE)
    waiting: list[str] = [before.strip()] if before.strip() else []
    role: Role = "user"
    for piece in pieces:
        words = piece.strip()
        speaks = names[words.partition(":")[0].rstrip()]
        if waiting and speaks != role:
            yield role, "\n\n".join(waiting)
            waiting = []
        role = speaks
        waiting.append(words)
    if waiting:
        yield role, "\n\n".join(waiting)
