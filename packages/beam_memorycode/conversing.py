"""Conversations asked of a model: a prompt for each session, and each reply checked before it is taken.

A reply that does not do what the prompt asks is asked for again with a complaint, at most twice. After that the session
has no text, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam_memorycode.bank import foreign, take_apart
from beam_memorycode.dialogues import Dialogue, Setting
from beam_memorycode.offline_writer import PROMPT, conversation_variables
from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt
from beamlib.llm.retrying import ReadReply, ask, gather

_OUTSIDE = re.compile(r"[\[(*#<=_-]|\w[\w .'-]{0,29}: |\S+$")  # a stage direction, an unknown speaker, a lone word
_TRIED = ("A first reply", "A second reply", "A third reply")
"""One for each try. They differ because a request that was sent before is answered from the store as before."""

_ANEW = (
    "Write the whole conversation anew: turns of these two and nothing else, each instruction of the list stated by "
    "the mentor, no other coding instruction, no code."
)


def conversation_prompt(dialogue: Dialogue, place: int) -> Prompt:
    """The prompt for the session at `place` (0-based)."""
    about = f"dialogue {dialogue.id}, session {place + 1} of {len(dialogue.sessions)}"
    return Prompt(PROMPT, conversation_variables(dialogue, place), about)


async def hold_conversations(model: Model, dialogue: Dialogue) -> list[str | ModelError]:
    """The texts of all sessions, in order; for one that no try gave, the `ModelError` with its reason.

    Anything else that is raised (a `UserError`: nothing can be called) is raised once all calls have ended.
    """
    return await gather(_hold(model, dialogue, place) for place in range(len(dialogue.sessions)))


async def _hold(model: Model, dialogue: Dialogue, place: int) -> str | ModelError:
    def read(reply: Completion, attempt: int) -> ReadReply[str]:
        text, problem = check_conversation(reply.text, dialogue.context, dialogue.sessions[place].instructions)
        if problem and attempt + 1 == len(_TRIED):
            raise ModelError(f"asked {len(_TRIED)} times, and of the last reply: {problem}", Outcome.UNREADABLE)
        return text, f"{_TRIED[attempt]} to this could not be used. {problem} {_ANEW}" if problem else None

    try:
        return await ask(model, conversation_prompt(dialogue, place), read, tries=len(_TRIED))
    except ModelError as error:
        return error


def read_turns(text: str, context: Setting) -> tuple[list[tuple[str, str]], str]:
    """The (name, what is said) of each turn, and what is wrong with the form, "" if nothing is.

    Bold names are taken for names, and a line without one belongs to the turn before it, unless it is a stage direction
    or somebody else's.
    """
    names = "|".join(re.escape(name) for name in (context.mentor, context.mentee))
    start = re.compile(rf"\**({names})\**:\**\s*(.*)")
    turns: list[tuple[str, str]] = []
    for line in text.splitlines():
        said = " ".join(line.split())
        if found := start.fullmatch(said):
            turns.append((found[1], found[2]))
        elif said and (not turns or _OUTSIDE.match(said)):
            return turns, f"The line {said[:60]!r} is not said by {context.mentor} or {context.mentee}."
        elif said:
            turns[-1] = (turns[-1][0], f"{turns[-1][1]} {said}".strip())
    for name in (context.mentor, context.mentee):
        if sum(1 for who, said in turns if who == name and said) == 0:
            return turns, f"{name} says nothing."
    return turns, ""


def check_conversation(reply: str, context: Setting, wanted: Sequence[str]) -> tuple[str, str]:
    """The conversation in its normal form, and what is wrong with it, "" if nothing is.

    It has to consist of turns of both; the mentor has to state each instruction of `wanted` with its value, and nobody
    another one; no code is shown.
    """
    turns, problem = read_turns(reply, context)
    text = "\n\n".join(f"{name}: {said}" for name, said in turns)
    if problem:
        return text, problem
    mentor = " ".join(said for name, said in turns if name == context.mentor)
    wordings = [wording for wording in map(take_apart, wanted) if wording]
    for instruction in wanted:
        wording = take_apart(instruction)
        if not (instruction in mentor if wording is None else wording.stated_in(mentor)):
            return text, f"{context.mentor} does not say that {context.mentee} should {instruction}."
    if "```" in reply:
        return text, "It shows code."
    if mark := foreign(text, wordings):
        return text, f"The part {mark[:40]!r} belongs to no instruction that was asked for."
    return text, ""
