"""Asking for JSON: what stands around it is taken off, what is none is asked for once more, then noted and given up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from beam_generate.shapes import Repairs
from beamlib.files import MOST_MENDED, mend_json, parse_json
from beamlib.llm.model import Completion, Model, ModelError, Prompt, gather_all

_STARTS = {list: re.compile(r"\[\s*[\[{\"\]]"), dict: re.compile(r"\{\s*[\"'}]")}


def read_json(text: str, wanted: type[list[Any]] | type[dict[Any, Any]]) -> Any:
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


def _mended(text: str) -> Any:
    try:
        return mend_json(text, MOST_MENDED)
    except ValueError:
        return None


async def ask_json(
    model: Model, prompts: Sequence[Prompt], wanted: type[list[Any]] | type[dict[Any, Any]], repairs: Repairs
) -> list[Any]:
    """The values of all replies, concurrently, in order; None (and a note) where two attempts gave none.

    A call that may succeed later (`ModelError.transient`) raises: fewer questions because of a dead line would pass
    for a complete set.
    """
    kind = "list" if wanted is list else "object"
    found = [_value(reply, wanted) for reply in await gather_all(model, prompts)]
    again = [number for number, (value, _) in enumerate(found) if value is None]
    for number in again:
        repairs.note("probes", _where(prompts[number]), found[number][1], "asked again")
    complaint = f"Your reply was not a JSON {kind}. Reply with the JSON {kind} alone."
    replies = await gather_all(model, [prompts[number].again(complaint) for number in again])
    for number, reply in zip(again, replies, strict=True):
        found[number] = _value(reply, wanted)
        if found[number][0] is None:
            repairs.note("probes", _where(prompts[number]), found[number][1], "given up")
    for number, (value, what) in enumerate(found):
        if value is not None and what:
            repairs.note("probes", _where(prompts[number]), what, "taken off, mended")
    return [value for value, _ in found]


def _value(reply: Completion | ModelError, wanted: type[list[Any]] | type[dict[Any, Any]]) -> tuple[Any, str]:
    """A reply's value, None where it has none, and what is wrong with the reply."""
    if isinstance(reply, ModelError):
        if reply.transient:
            raise reply
        return None, reply.reason
    value = read_json(reply.text, wanted)
    if value is None:
        return None, f"no JSON {'list' if wanted is list else 'object'}: {reply.text[:80]!r}"
    try:
        parse_json(reply.text)
    except ValueError:
        return value, "text around the JSON, or faults in it"
    return value, ""


def _where(prompt: Prompt) -> str:
    return f"{prompt.id}, {prompt.about}" if prompt.about else prompt.id
