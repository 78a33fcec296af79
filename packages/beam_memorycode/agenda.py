"""What a prompt asks a conversation to be about, as lines of text, and those lines read back.

The offline writer sees a prompt's variables and nothing else, as a language model does, so it has to read the agenda.
Composing and reading stand side by side here and a test holds them together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from beam_memorycode.dialogues import Dialogue, Session, Setting, Topic

_FIRST = "They meet for the first time."
_ONE = "They have had one conversation before this one."
_TALK = "First they talk about this: "
_AGAIN = " They have discussed it in an earlier conversation and return to it."
_CHANGES = " This changes what was said in an earlier conversation."
_CODE = (
    "{mentor} gives {mentee} specific coding instructions; each is stated once and in full, with every name as it is:"
)
_UPDATE = " It is announced as an update of what {mentor} said earlier."
_LIMITS = (
    'No code is shown, nobody demonstrates how something is done, and there is no "for example". {only} {mentee} only '
    "acknowledges what {mentor} says and asks nothing."
)
_ONLY = "No coding instruction comes up beside these."
_NONE = "No coding instruction comes up."


def describe_meeting(before: int) -> str:
    """How many conversations of the two came before this one; the released prompts count one too many."""
    if before < 2:
        return _ONE if before else _FIRST
    return f"They have had {before} conversations before this one."


def read_meeting(text: str) -> int:
    """The number that `describe_meeting` told; 0 for a text that tells none."""
    if text == _ONE:
        return 1
    found = re.search(r"\d+", text)
    return int(found[0]) if found else 0


def compose_agenda(session: Session, context: Setting) -> str:
    """The agenda of a session: its filler, its coding instructions, and what must not occur."""
    mentor, mentee = context.mentor, context.mentee
    lines, general = [], False
    coding = [topic for topic in session.topics if topic.coding]
    for topic in session.topics:
        if not topic.coding:
            general = not topic.type.startswith("filler-instruction")
            lines.append(_filler(topic, general, mentor, mentee))
    if coding:
        lines.append(("After that, " if general else "") + _CODE.format(mentor=mentor, mentee=mentee))
        lines += [_wish(topic, "- ", _UPDATE.format(mentor=mentor), mentor, mentee) for topic in coding]
    lines.append(_LIMITS.format(only=_ONLY if coding else _NONE, mentor=mentor, mentee=mentee))
    return "\n".join(lines)


def _filler(topic: Topic, general: bool, mentor: str, mentee: str) -> str:
    if general:
        return f"{_TALK}{topic.text}.{_AGAIN if topic.type.endswith('update') else ''}"
    return _wish(topic, "", _CHANGES, mentor, mentee)


def _wish(topic: Topic, start: str, change: str, mentor: str, mentee: str) -> str:
    if topic.type.endswith("update"):
        return f"{start}{mentor} now wants {mentee} to {topic.text}.{change}"
    return f"{start}{mentor} wants {mentee} to {topic.text}."


@dataclass(frozen=True, slots=True)
class AskedSession:
    """What the mentor wants the mentee to do, as after "to", and whether it changes something."""

    text: str
    update: bool


@dataclass(frozen=True, slots=True)
class Agenda:
    """An agenda read back: a general topic ("" for none; `again` if it is not new), an order, coding instructions."""

    topic: str
    again: bool
    order: AskedSession | None
    coding: tuple[AskedSession, ...]


def read_agenda(text: str, mentor: str, mentee: str) -> Agenda:
    """The inverse of `compose_agenda`; lines in no known form are passed over."""
    topic, again, order, coding = "", False, None, []
    wish = re.compile(rf"(- )?{re.escape(mentor)} (now )?wants {re.escape(mentee)} to (.+)")
    for line in text.splitlines():
        if line.startswith(_TALK):
            again = line.endswith(_AGAIN)
            topic = line.removesuffix(_AGAIN).removeprefix(_TALK).removesuffix(".")
        elif found := wish.fullmatch(line):
            said = found[3].removesuffix(_UPDATE.format(mentor=mentor)).removesuffix(_CHANGES).removesuffix(".")
            one = AskedSession(said, bool(found[2]))
            if found[1]:
                coding.append(one)
            else:
                order = one
    return Agenda(topic, again, order, tuple(coding))


def conversation_variables(dialogue: Dialogue, place: int) -> dict[str, str]:
    """The variables of the prompt `memorycode_conversation` for the session at `place` (0-based)."""
    context, session = dialogue.context, dialogue.sessions[place]
    return {
        "mentor": context.mentor,
        "mentee": context.mentee,
        "company": context.company,
        "mentor_persona": context.mentor_persona.replace("[mentor]", context.mentor),
        "mentee_persona": context.mentee_persona.replace("[mentee]", context.mentee),
        "length": session.length,
        "meeting": describe_meeting(place),
        "agenda": compose_agenda(session, context),
    }
