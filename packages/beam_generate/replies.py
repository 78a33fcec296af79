"""Read replies of language models: JSON, messages, decisions and lists of main questions.

Each kind of reply has one parser. A reply that it cannot read is asked for again once, with a complaint.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel

from beam_generate.shapes import MainQuestion, Repairs, Style
from beamlib.data.conversations import Seed
from beamlib.llm.json_replies import read_json
from beamlib.llm.model import Completion, Model, ModelError, Prompt
from beamlib.llm.prompts import prompt_file
from beamlib.llm.retrying import UNDECIDED, ReadReply, ask, gather, read_decision

Kind = type[list[Any]] | type[dict[str, Any]] | type[BaseModel]

_SURROGATE = re.compile("[\ud800-\udfff]")
_REFUSAL = re.compile(
    r"\W*(?:(?:i[’']m |i am )?(?:very )?sorry\W+(?:but )?i (?:can[’']t|cannot|am unable|won[’']t)\b"
    r"|i (?:can[’']t|cannot|am unable to) (?:help|assist|comply)\b|as an ai\b)",
    re.IGNORECASE,
)
_LABEL = re.compile(r"(?:\*\*)?(?:assistant|user)(?:\*\*)?[ \t]*:(?:\*\*)?[ \t]*", re.IGNORECASE)
_ARROW = re.compile(r"->->(?:[0-9, \t]|n/a\b)*\)?", re.IGNORECASE)
_TAG = re.compile(r"^</?(\w+)>$", re.MULTILINE)
_WORDS = 7
"""A prompt's line of this many words does not stand in a message by chance."""
_NOTHING = "A first reply to this held no message. Write the message that is asked for."
_REPEATED = "A first reply to this repeated parts of this request. Write only the message itself, in words of its own."
_SEPARATOR = re.compile(r"^[ \t]*-{5,}[ \t]*$", re.MULTILINE)
_LINK = re.compile(r"->->[ \t]*(?:(?P<bullet>[0-9]{1,4})|n/?a)\b\W*\Z", re.IGNORECASE)
_LAST = 200
"""Characters at the end of a question in which its link is looked for."""
_NUMBERING = re.compile(r"(?:[0-9]{1,3}[.)]|[-*•])[ \t]+")


def reply_json(text: str, kind: Kind, prompt: str = "") -> Any:
    """Return the JSON list or object in a reply to a prompt, or None; for a model, the object that has its fields."""
    schema: Any = list[Any] if kind is list else dict[str, Any] if kind is dict else kind
    value = read_json(text, schema, strict=False, prompt=prompt)[0]
    return value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value


def read_objects(text: str, prompt: str = "") -> list[dict[str, Any]]:
    """Return the objects of a reply's list; other entries are left out."""
    return [entry for entry in reply_json(text, list, prompt) or [] if isinstance(entry, dict)]


def one_line(value: object) -> str:
    """Return a text on one line, and "" for any other value."""
    return " ".join(value.split()) if isinstance(value, str) else ""


def read_seed(entry: dict[str, Any], category: str) -> Seed | None:
    """Return the seed in an entry of a reply, None unless it has a title, a theme and subtopics."""
    title, theme, listed = one_line(entry.get("title")), one_line(entry.get("theme")), entry.get("subtopics")
    subtopics = tuple(filter(None, map(one_line, listed))) if isinstance(listed, list) else ()
    return Seed(category, title, theme, subtopics) if title and theme and subtopics else None


async def ask_json(model: Model, prompts: Sequence[Prompt], kind: Kind, repairs: Repairs) -> list[Any]:
    """Ask all prompts concurrently and return their JSON values in order, None where a retry failed as well.

    Raises:
        ModelError: A call failed and may succeed later. Its questions must not be missing for that.
    """
    name = "list" if kind is list else "object"
    complaint = f"Your reply was not a JSON {name}. Reply with the JSON {name} alone."

    async def value_of(prompt: Prompt) -> tuple[Any, list[str]]:
        problems: list[str] = []

        def read(reply: Completion, _: int) -> ReadReply[Any]:
            value = reply_json(reply.text, kind, prompt.id)
            if value is None:
                problems.append(f"no JSON {name}: {reply.text[:80]!r}")
            return value, complaint if value is None else None

        def failed(error: ModelError, _: int) -> ReadReply[Any]:
            problems.append(error.reason)
            return None, complaint

        return await ask(model, prompt, read, failed=failed), problems

    values = []
    for prompt, (value, problems) in zip(prompts, await gather(map(value_of, prompts)), strict=True):
        where = f"{prompt.id}, {prompt.about}" if prompt.about else prompt.id
        for problem, action in zip(problems, ("asked again", "given up"), strict=False):
            repairs.note("probes", where, problem, action)
        values.append(value)
    return values


def refuses(text: str) -> bool:
    """Tell whether a text begins like a refusal."""
    return _REFUSAL.match(text) is not None


def clean(text: str) -> str:
    """Remove null characters, lone surrogates and surrounding space: no file could hold them."""
    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", text)
    return text.replace("\x00", "").strip()


@cache
def _instructions(prompt_id: str) -> tuple[str, ...]:
    """Return the tags of a prompt and its lines of instruction: none of them belongs into a reply."""
    text = prompt_file(prompt_id).template
    names = sorted({name for name in _TAG.findall(text) if "_" in name})
    lines = (line.strip(" -") for line in text.split("\n") if "{{" not in line)
    tags = (f"{slash}{name}>" for name in names for slash in ("<", "</"))
    return (*tags, *(line for line in lines if len(line.split()) >= _WORDS))


def repeats_prompt(text: str, prompt_id: str) -> bool:
    """Tell whether a text holds tags or instructions of its prompt."""
    return any(part in text for part in _instructions(prompt_id))


def tidy_message(text: str, *, quoted: bool) -> str:
    """Remove plan markers and a speaker's label from a message, and (if `quoted`) quotation marks around all of it."""
    text = clean(_ARROW.sub("", clean(text)))
    label = _LABEL.match(text)
    text = text[label.end() :] if label else text
    if quoted and len(text) > 1 and text[0] + text[-1] in ('""', "“”") and text[0] not in text[1:-1]:
        text = text[1:-1]
    return text.strip()


async def ask_message(model: Model, prompt: Prompt, repairs: Repairs) -> str | None:
    """Ask for a message; an unusable one is asked for again once, then left out (None).

    Raises:
        ModelError: The call failed and may succeed later.
    """
    by_user = prompt.id != "assistant_answer"

    def note(problem: str, attempt: int) -> None:
        repairs.note("dialogue", prompt.about, f"{prompt.id}: {problem}", "left out" if attempt else "asked again")

    def read(reply: Completion, attempt: int) -> ReadReply[str | None]:
        text = tidy_message(reply.text, quoted=by_user)
        if not any(character.isalnum() for character in text):
            problem, complaint = "no word in the message", _NOTHING
        elif by_user and refuses(text):
            problem, complaint = "a refusal in the user's place", _NOTHING
        elif repeats_prompt(text, prompt.id):
            problem, complaint = "the message repeats its prompt", _REPEATED
        else:
            return text, None
        note(f"{problem} ({text[:60]!r})", attempt)
        return None, complaint

    def failed(error: ModelError, _: int) -> ReadReply[str | None]:
        note(f"no reply ({error.reason})", 1)
        return None, None

    return await ask(model, prompt, read, failed=failed)


async def ask_yes_or_no(model: Model, prompt: Prompt, repairs: Repairs) -> bool:
    """Ask for a decision. A reply that is not a clear yes or no is asked for again once, then counts as no."""

    def note(problem: str, action: str) -> None:
        repairs.note("dialogue", prompt.about, f"{prompt.id}: neither yes nor no ({problem})", action)

    def read(reply: Completion, attempt: int) -> ReadReply[bool]:
        if (decision := read_decision(reply.text)) is not None:
            return decision, None
        note(f"{reply.text.strip()[:60]!r}", "taken for no" if attempt else "asked again")
        return False, UNDECIDED

    def failed(error: ModelError, _: int) -> ReadReply[bool]:
        note(error.reason, "taken for no")
        return False, None

    return await ask(model, prompt, read, failed=failed)


def reply_questions(reply: str, style: Style) -> list[MainQuestion]:
    """Return the questions of a reply that end with a link ` ->-> 7` or ` ->-> N/A`, in order.

    General questions stand one per line, the others between lines of dashes. Text without a link is no question.
    """
    reply = clean(reply).replace("\r\n", "\n")
    questions = []
    for piece in reply.split("\n") if style == "general" else _SEPARATOR.split(reply):
        piece = piece.strip()
        start = max(0, len(piece) - _LAST)
        if link := _LINK.search(piece, start):
            text = _ARROW.sub("", piece[: link.start()])
            text = text[numbering.end() :] if (numbering := _NUMBERING.match(text)) else text
            if text.strip():
                questions.append(MainQuestion(text.strip(), int(link["bullet"]) if link["bullet"] else None))
    return questions
