"""JSON in a model's reply: found between prose and fences, mended, then checked."""

from __future__ import annotations

import json
import re
from typing import Any

from beamlib.files import MOST_MENDED, mend_json

_FENCE = re.compile(r"^[ \t]*```[\w-]*[ \t]*$", re.MULTILINE)
_START = re.compile(r"\[\s*\{|\{")


def objects(reply: str) -> list[dict[str, Any]] | None:
    """The objects of the reply's list; None where it holds no list of objects.

    Accepted are a list, an object with a list of objects under one of its names, and a single object.
    """
    value = _read(reply)
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


def _read(reply: str) -> Any:
    text = _FENCE.sub("", reply)
    start = _START.search(text)
    if start is None:
        return None  # without a bracket json-repair would build something out of prose
    try:
        return json.JSONDecoder().raw_decode(text, start.start())[0]
    except (ValueError, RecursionError):
        pass
    try:
        return mend_json(text[start.start() :], MOST_MENDED)
    except ValueError:
        return None
