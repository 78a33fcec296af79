"""The material of conversations beside instructions, and conversations asked of a model.

People, personas, fillers and the offline writer's phrases are read from `words/*.toml`, our own data, and checked when
read. Nothing here knows how code is checked. A model gets a prompt for each session; a reply that does not do what the
prompt asks is asked for again with a complaint, at most twice. After that the session has no text, with the reason.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from beam_memorycode.agenda import conversation_variables
from beam_memorycode.bank import foreign, take_apart
from beam_memorycode.dialogues import Dialogue, Setting
from beam_memorycode.offline_writer import PROMPT
from beamlib.errors import UserError
from beamlib.files import read_text
from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt
from beamlib.llm.retrying import Found, ask, ended

BANK = Path(__file__).parent / "words"
ALWAYS = frozenset({"mentor", "mentee", "company", "day", "person", "place", "project", "count", "when"})
"""Slots that any phrase may have."""

_ON_TOPIC = ALWAYS | {"about", "aspect", "other", "step"}
_POOLS = {
    "mentor": ("greet_first", "greet", "open", "again", "aspect", "step", "why", "code", "code_more",
        "code_reason", "close"),
    "mentee": ("hello_first", "hello", "ack", "ack_step", "ack_why", "ack_code", "ack_order", "bye"),
    "state": ("start", "end", "include", "digit", "case", "annotation", "statement", "docstring", "comment",
        "import", "decorator"),
    "frame": ("add", "update", "order", "order_update"),
}  # fmt: skip
_SLOT = re.compile(r"\{(\w+)\}")

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Pool = Annotated[list[Text], Field(min_length=2)]


class Part(BaseModel):
    """A part of a bank file: strict, frozen, no unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MentorPair(Part):
    """A mentor, a mentee and their company, which belong together."""

    mentor: Text
    mentee: Text
    company: Text


class Persona(Part):
    """A character in prose, with `[mentor]` or `[mentee]` for the name; `id` finds its tone."""

    id: Text
    text: Text


class PeopleBank(Part):
    """Who can talk."""

    pairs: list[MentorPair] = Field(min_length=1)
    mentor: list[Persona] = Field(min_length=1)
    mentee: list[Persona] = Field(min_length=1)

    @model_validator(mode="after")
    def _placeholders(self) -> PeopleBank:
        for role in ("mentor", "mentee"):
            for persona in getattr(self, role):
                if f"[{role}]" not in persona.text:
                    raise ValueError(f"the persona {persona.id!r} of the {role} lacks [{role}]")
        for pair in self.pairs:
            if pair.mentor == pair.mentee:
                raise ValueError(f"{pair.mentor!r} cannot be mentor and mentee")
        return self


class Subject(Part):
    """Something to talk about: a noun phrase, what there is to it, and what one could do."""

    about: Text
    aspects: Pool
    steps: list[Text] = []


class Filler(Subject):
    """A general work topic; `text` names it in prompts."""

    id: int = Field(ge=0, le=100)
    text: Text


class FillerOrder(Subject):
    """A filler-instruction: its values read as after "to", and are used from the last to the first."""

    id: int = Field(ge=101)
    texts: list[Text] = Field(min_length=2)


class Tone(Part):
    """What personas add, by persona id."""

    mentor: dict[str, Pool]
    mentee: dict[str, Pool]


class Phrases(Part):
    """What the offline writer says: pools of templates, `[a|b]` a choice and `{slot}` to be filled in."""

    slots: dict[str, Pool]
    project: list[Subject] = Field(min_length=2)
    mentor: dict[str, Pool]
    mentee: dict[str, Pool]
    tone: Tone
    state: dict[str, Pool]
    frame: dict[str, Pool]

    @model_validator(mode="after")
    def _complete(self) -> Phrases:
        for group, names in _POOLS.items():
            if wrong := sorted(set(names) ^ set(getattr(self, group))):
                raise ValueError(f"[{group}] has to hold {', '.join(names)}; {wrong[0]!r} is missing or unknown")
        pools = {
            **{name: (_ON_TOPIC, pool) for name, pool in (*self.mentor.items(), *self.mentee.items())},
            **{name: (_ON_TOPIC, pool) for name, pool in (*self.tone.mentor.items(), *self.tone.mentee.items())},
            **{name: (frozenset({"object", "objects", "value"}), pool) for name, pool in self.state.items()},
            **{name: (ALWAYS | {"rule", "order", "about"}, pool) for name, pool in self.frame.items()},
        }
        for name, (slots, pool) in pools.items():
            for template in pool:
                check_template(name, template, slots)
        return self


def check_template(name: str, template: str, slots: Iterable[str]) -> None:
    """Raise `ValueError` where a template's brackets do not pair or a slot is unknown."""
    depth = 0
    for character in template:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth not in (0, 1):
            raise ValueError(f"{name}: the choices of {template!r:.90} nest or do not pair")
    if depth or re.search(r"[{}]", _SLOT.sub("", template)):
        raise ValueError(f"{name}: a bracket of {template!r:.90} does not pair")
    known = set(slots)
    for found in _SLOT.finditer(template):
        if found[1] not in known:
            raise ValueError(f"{name}: {template!r:.90} has the unknown slot {{{found[1]}}}")


class _Fillers(Part):
    filler: list[Filler] = Field(min_length=1)


class _Orders(Part):
    filler: list[FillerOrder] = Field(min_length=1)


AnyBank = TypeVar("AnyBank", bound=BaseModel)


def read_bank(path: Path, model: type[AnyBank]) -> AnyBank:
    """A bank file as `model`; what is wrong with it is a `UserError` that names file, field and value."""
    try:
        values: dict[str, Any] = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML ({error}); correct it.") from None
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        shown = f" is {first['input']!r:.60}" if first["loc"] else ""
        raise UserError(f"{path}: {where}{shown}: {first['msg'].removeprefix('Value error, ')}; correct it.") from None


def unique(path: Path, what: str, values: Sequence[object]) -> None:
    """A `UserError` where one of `values` occurs twice."""
    for place, value in enumerate(values):
        if value in values[:place]:
            raise UserError(f"{path}: {what} {value!r:.60} occurs twice; change one of them.")


@cache
def people(folder: Path = BANK) -> PeopleBank:
    """Names and personas."""
    path = folder / "people.toml"
    found = read_bank(path, PeopleBank)
    unique(path, "the pair", [(one.mentor, one.mentee) for one in found.pairs])
    for role in (found.mentor, found.mentee):
        unique(path, "the persona", [one.id for one in role])
    return found


@cache
def fillers(folder: Path = BANK) -> tuple[Filler, ...]:
    """The general fillers, by id."""
    path = folder / "fillers.toml"
    found = read_bank(path, _Fillers).filler
    unique(path, "the id", [one.id for one in found])
    unique(path, "the text", [one.text for one in found])
    return tuple(sorted(found, key=lambda one: one.id))


@cache
def orders(folder: Path = BANK) -> tuple[FillerOrder, ...]:
    """The filler-instructions, by id."""
    path = folder / "filler_instructions.toml"
    found = read_bank(path, _Orders).filler
    unique(path, "the id", [one.id for one in found])
    unique(path, "the value", [text for one in found for text in one.texts])
    return tuple(sorted(found, key=lambda one: one.id))


@cache
def phrases(folder: Path = BANK) -> Phrases:
    """The offline writer's phrases; each persona has to have its tone."""
    path = folder / "phrases.toml"
    found = read_bank(path, Phrases)
    for role, personas in (("mentor", people(folder).mentor), ("mentee", people(folder).mentee)):
        if missing := [one.id for one in personas if one.id not in getattr(found.tone, role)]:
            raise UserError(f"{path}: tone.{role} lacks the persona {missing[0]!r}; add it.")
    needed = ALWAYS - {"mentor", "mentee", "company", "project"}
    if missing := sorted(needed - set(found.slots)):
        raise UserError(f"{path}: slots.{missing[0]} is missing; add it.")
    return found


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
    return await ended(_hold(model, dialogue, place) for place in range(len(dialogue.sessions)))


async def _hold(model: Model, dialogue: Dialogue, place: int) -> str | ModelError:
    def read(reply: Completion, attempt: int) -> Found[str]:
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
