"""JSON in a model's reply: found between prose and fences, mended, checked, and asked for again where there is none."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from beam_generate.shapes import Repairs
from beamlib.files import MOST_MENDED, mend_json, parse_json
from beamlib.llm.model import Completion, Model, ModelError, Prompt
from beamlib.llm.retrying import ReadReply, ask, gather

Wanted = type[list[Any]] | type[dict[Any, Any]]

_FENCE = re.compile(r"^[ \t]*```[\w-]*[ \t]*$", re.MULTILINE)
_START = re.compile(r"\[\s*\{|\{")
_STARTS = {list: re.compile(r"\[\s*[\[{\"\]]"), dict: re.compile(r"\{\s*[\"'}]")}


def objects(reply: str) -> list[dict[str, Any]] | None:
    """The objects of the reply's list; None where it holds no list of objects.

    Accepted are a list, an object with a list of objects under one of its names, and a single object.
    """
    value = _first_value(reply)
    if isinstance(value, dict):
        lists = [part for part in value.values() if isinstance(part, list) and any(isinstance(x, dict) for x in part)]
        value = lists[0] if lists else [value]
    if not isinstance(value, list):
        return None
    found = [part for part in value if isinstance(part, dict)]
    return found or None


def text_of(value: object) -> str:
    """A text on one line; empty for anything that is none."""
    return " ".join(value.split()) if isinstance(value, str) else ""


def strings(value: object) -> tuple[str, ...]:
    """The texts of a list, or of one text between commas; what is no text is left out."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(text for part in parts if (text := text_of(part)))


def read_json(text: str, wanted: Wanted) -> Any:
    """The list or object of a reply, prose around it and small faults of its syntax repaired; None where there is none.

    An object whose one value is a list counts as that list, a list of one object as that object.
    """
    try:
        value = parse_json(text.strip())
    except ValueError:
        start = _STARTS[wanted].search(text) or _STARTS[dict if wanted is list else list].search(text)
        value = _mended(text[start.start() :]) if start else None
        if value == [] and not re.search(r"\[\s*\]", text):  # made up by the repair
            value = None
    if wanted is list and isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if wanted is dict and isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, wanted) else None


async def ask_json(model: Model, prompts: Sequence[Prompt], wanted: Wanted, repairs: Repairs) -> list[Any]:
    """The values of all replies, concurrently, in order; None (and a note) where two attempts gave none.

    A call that may succeed later (`ModelError.transient`) raises: fewer questions because of a dead line would pass
    for a complete set.
    """
    kind = "list" if wanted is list else "object"
    complaint = f"Your reply was not a JSON {kind}. Reply with the JSON {kind} alone."

    async def tried(prompt: Prompt) -> list[tuple[Any, str]]:
        """What each try gave: a value, None for none, and what was wrong."""
        found: list[tuple[Any, str]] = []

        def read(reply: Completion, _: int) -> ReadReply[list[tuple[Any, str]]]:
            value, what = _value(reply.text, wanted, kind)
            found.append((value, what))
            return found, complaint if value is None else None

        def failed(error: ModelError, _: int) -> ReadReply[list[tuple[Any, str]]]:
            found.append((None, error.reason))
            return found, complaint

        return await ask(model, prompt, read, failed=failed)

    replies = await gather(map(tried, prompts))
    notes = []
    for prompt, tries in zip(prompts, replies, strict=True):
        where = f"{prompt.id}, {prompt.about}" if prompt.about else prompt.id
        for stage, (value, what) in enumerate(tries):
            if value is None:
                notes.append((stage, where, what, ("asked again", "given up")[stage]))
            elif what:
                notes.append((2, where, what, "taken off, mended"))
    for _, where, what, done in sorted(notes, key=lambda note: note[0]):
        repairs.note("probes", where, what, done)
    return [tries[-1][0] for tries in replies]


def _value(reply: str, wanted: Wanted, kind: str) -> tuple[Any, str]:
    value = read_json(reply, wanted)
    if value is None:
        return None, f"no JSON {kind}: {reply[:80]!r}"
    try:
        parse_json(reply)
    except ValueError:
        return value, "text around the JSON, or faults in it"
    return value, ""


def _first_value(reply: str) -> Any:
    text = _FENCE.sub("", reply)
    start = _START.search(text)
    if start is None:
        return None  # without a bracket json-repair would build something out of prose
    try:
        return json.JSONDecoder().raw_decode(text, start.start())[0]
    except (ValueError, RecursionError):
        return _mended(text[start.start() :])


def _mended(text: str) -> Any:
    try:
        return mend_json(text, MOST_MENDED)
    except ValueError:
        return None
