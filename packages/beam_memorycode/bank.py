"""The word banks: people, personas, fillers, phrases, and instructions with their checks; `topics.json` of all seeds.

They are read from `words/*.toml`; a test checks that the files are consistent.

51 instructions with 123 values: ids 0 to 15 and 45 to 50 are about names, 16 to 24 about something being there, 25 to
30 about imports, 31 to 44 about decorators. Ids 6 to 15 have eight values each and are *updatable*; id 0 has three and
is not (section 3.1, and where the released data differ from it, the data). The forms of wordings say what a
conversation has to contain to have stated an instruction.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beam_memorycode.rules import Rule, RuleKind
from beamlib.errors import UserError
from beamlib.files import read_text

BANK = Path(__file__).parent / "words"
BankText = Annotated[str, Field(min_length=1, pattern=r"\S")]
TextPool = Annotated[list[BankText], Field(min_length=2)]


class BankPart(BaseModel):
    """A part of a bank file: strict, frozen, no unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MentorPair(BankPart):
    """A mentor, a mentee and their company, which belong together."""

    mentor: BankText
    mentee: BankText
    company: BankText


class Persona(BankPart):
    """A character in prose, with `[mentor]` or `[mentee]` for the name; `id` finds its tone."""

    id: BankText
    text: BankText


class PeopleBank(BankPart):
    """Who can talk."""

    pairs: list[MentorPair] = Field(min_length=1)
    mentor: list[Persona] = Field(min_length=1)
    mentee: list[Persona] = Field(min_length=1)


class RuleSubject(BankPart):
    """Something to talk about: a noun phrase, what there is to it, and what one could do."""

    about: BankText
    aspects: TextPool
    steps: list[BankText] = []


class FillerSubject(RuleSubject):
    """A general work topic; `text` names it in prompts."""

    id: int = Field(ge=0, le=100)
    text: BankText


class FillerOrder(RuleSubject):
    """A filler-instruction: its values read as after "to", and are used from the last to the first."""

    id: int = Field(ge=101)
    texts: list[BankText] = Field(min_length=2)


class Tone(BankPart):
    """What personas add, by persona id."""

    mentor: dict[str, TextPool]
    mentee: dict[str, TextPool]


class Phrases(BankPart):
    """What the offline writer says: pools of templates, `[a|b]` a choice and `{slot}` to be filled in."""

    slots: dict[str, TextPool]
    project: list[RuleSubject] = Field(min_length=2)
    mentor: dict[str, TextPool]
    mentee: dict[str, TextPool]
    tone: Tone
    state: dict[str, TextPool]
    frame: dict[str, TextPool]


class _Fillers(BankPart):
    filler: list[FillerSubject] = Field(min_length=1)


class _Orders(BankPart):
    filler: list[FillerOrder] = Field(min_length=1)


AnyBank = TypeVar("AnyBank", bound=BaseModel)


def read_rule_bank(path: Path, model: type[AnyBank]) -> AnyBank:
    """Read a bank file as `model`; raise `UserError` with file, field and value where it is invalid."""
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


@cache
def people() -> PeopleBank:
    """Return names and personas."""
    return read_rule_bank(BANK / "people.toml", PeopleBank)


@cache
def fillers() -> tuple[FillerSubject, ...]:
    """Return the general fillers by id."""
    return tuple(read_rule_bank(BANK / "fillers.toml", _Fillers).filler)


@cache
def orders() -> tuple[FillerOrder, ...]:
    """Return the filler-instructions by id."""
    return tuple(read_rule_bank(BANK / "filler_instructions.toml", _Orders).filler)


@cache
def phrases() -> Phrases:
    """Return the offline writer's phrases."""
    return read_rule_bank(BANK / "phrases.toml", Phrases)


_KINDS = r"functions|methods|classes"
_NAMED = r"function argument|function|variable|method|attribute|class"
FORMS: dict[str, re.Pattern[str]] = {
    "start": re.compile(rf"always start (?P<object>{_NAMED}) names with '(?P<value>\w+)'"),
    "end": re.compile(rf"always end (?P<object>{_NAMED}) names with '(?P<value>\w+)'"),
    "include": re.compile(rf"always include the string '(?P<value>\w+)' in (?P<object>{_NAMED}) names"),
    "digit": re.compile(rf"always include a single (?P<value>digit) in (?P<object>{_NAMED}) names"),
    "case": re.compile(r"always use (?:all )?(?P<value>UPPERCASE|CamelCase|snake_case) for (?P<object>class) names"),
    "annotation": re.compile(rf"always use (?P<value>annotation)s for (?P<objects>{_KINDS})"),
    "statement": re.compile(rf"always include (?P<value>try|assert) statements in (?P<objects>{_KINDS})"),
    "docstring": re.compile(rf"always use (?P<value>docstring)s in (?P<objects>{_KINDS})"),
    "comment": re.compile(r"always add (?P<value>comment)s in your code"),
    "import": re.compile(r"always import the '(?P<value>\w+)' module even if it is not used"),
    "decorator": re.compile(
        rf"always add the '@(?P<value>\w+)' decorator from the 'pedantic' module to all (?P<objects>{_KINDS})"
    ),
}
"""The published forms, by names of our own. A text that matches none cannot be checked for, nor be said offline."""

_SINGULAR = {"functions": "function", "methods": "method", "classes": "class"}
_QUOTES = "'\"`\u2018\u2019\u201c\u201d"
_AFFIX = re.compile(rf"[{_QUOTES}](\w{{1,3}}_|_\w{{1,3}})[{_QUOTES}]")
_NAMES = (
    _AFFIX,
    re.compile(rf"@(\w+)(?=[{_QUOTES}]| decorator)"),  # not "@mention" in a chat
    re.compile(rf"[{_QUOTES}]\W?(\w+)[{_QUOTES}] (?:module|decorator|string)"),
)
# Words that nobody uses in an office except to instruct; "comment" and "function" are not among them.
_TELLING = {
    "docstring": r"\bdoc-?strings?\b",
    "assert": r"\bassert(?:ion)? statements?\b|\bassertions\b",
    "try": r"\btry(?:[-/ ]except)? (?:statements?|blocks?)\b",
    "annotation": r"\btype[- ](?:annotations?|hints?)\b",
    "digit": r"\b(?:a|single|one) digit\b",
    "UPPERCASE": r"\bupper-?case\b",
    "CamelCase": r"\b(?:Camel|Pascal) ?-?Case\b",
    "snake_case": r"\bsnake[_ -]case\b",
}
_SPELLINGS = {
    **_TELLING,
    "annotation": r"\bannotat|\btype hints?\b",
    "assert": r"\bassert",
    "try": r"\btry\b|\btry[-/ ]except\b",
    "digit": r"\bdigits?\b",
    "comment": r"\bcomment",
}


@dataclass(frozen=True, slots=True)
class Wording:
    """An instruction taken apart: its form, the object in the singular ("" for comments and imports), its value."""

    form: str
    object: str
    value: str

    @property
    def objects(self) -> str:
        """The object in the plural."""
        return f"{self.object}es" if self.object.endswith("s") else f"{self.object}s"

    def stated_in(self, text: str) -> bool:
        """Return whether `text` has the decisive parts: the value, and what it is about."""
        spelling = _SPELLINGS.get(self.value, rf"(?<!\w){re.escape(self.value)}(?!\w)")
        noun = self.object.rpartition(" ")[2].removesuffix("s")
        about = self.object == "" or re.search(rf"\b{noun}", text, re.IGNORECASE)
        # Prefixes differ by case alone from nothing, but a decorator's or module's name is as it is.
        flags = re.IGNORECASE if self.value in _SPELLINGS else 0
        return bool(about and re.search(spelling, text, flags))


def take_apart(text: str) -> Wording | None:
    """Parse the text of an instruction; return None where it has no known form."""
    for form, pattern in FORMS.items():
        if match := pattern.fullmatch(text):
            parts = match.groupdict()
            noun = parts.get("object") or _SINGULAR.get(parts.get("objects") or "", "")
            return Wording(form, noun, parts["value"])
    return None


def foreign(text: str, wordings: Sequence[Wording]) -> str:
    """Return a mark of a coding instruction in `text` that none of `wordings` explains, "" where there is none.

    Looked for are quoted prefixes and suffixes, decorators, quoted modules and strings, and words such as docstring.
    """
    values = [wording.value for wording in wordings]
    known = {*values, "pedantic"} if any(wording.form == "decorator" for wording in wordings) else set(values)
    for pattern in _NAMES:
        for match in pattern.finditer(text):
            if match[1] not in known:
                return match[0]
    for value, pattern_text in _TELLING.items():
        word = re.search(pattern_text, text, re.IGNORECASE)
        if word and value not in values:
            return word[0]
    return ""


UPDATABLE = range(6, 16)
"""Ids whose later values are updates. Id 0 has several values too, but the released sampler adds it anew."""


class Instruction(BankPart):
    """A coding convention: its wordings and, beside them, how each is checked; one query for all."""

    id: int = Field(ge=0)
    kind: RuleKind
    query: BankText
    shuffle: bool
    texts: list[BankText] = Field(min_length=1)
    conditions: list[str | bool | list[str | bool]] = Field(min_length=1)

    def rule(self, value: int) -> Rule:
        """Return the check of a value."""
        condition = self.conditions[value]
        return Rule(self.kind, (str(condition[0]), True) if isinstance(condition, list) else condition)


class _Instructions(BankPart):
    instruction: list[Instruction] = Field(min_length=1)


@cache
def instructions() -> tuple[Instruction, ...]:
    """Return the instructions by id; ids count from 0."""
    return tuple(read_rule_bank(BANK / "instructions.toml", _Instructions).instruction)


Seeds = dict[Literal["contexts", "personas", "instructions", "fillers", "fillers_instruction"], Any]


def topics_json() -> Seeds:
    """Return all seeds as the authors' `topics.json` holds them."""
    return {
        "contexts": [pair.model_dump() for pair in people().pairs],
        "personas": {role: [entry.text for entry in getattr(people(), role)] for role in ("mentor", "mentee")},
        "instructions": [
            {
                "id": entry.id,
                "text": entry.texts,
                "regex": [entry.rule(value).as_json for value in range(len(entry.texts))],
                "eval_query": entry.query,
                "shuffle_updates": entry.shuffle,
            }
            for entry in instructions()
        ],
        "fillers": [{"id": entry.id, "text": entry.text} for entry in fillers()],
        "fillers_instruction": [{"id": entry.id, "text": entry.texts} for entry in orders()],
    }
