"""Reading a judge's reply (paper listing 20): an object with a `score` of 0, 0.5 or 1.

Three readings are tried in turn, and the first that gives an object with a `score` counts: the whole reply (without
its code fence) as JSON, the first `{...}` or `[...]` in it, and what json-repair makes of it. A score off the scale is
refused rather than rounded: a judge that says 0.25 did not follow the instructions, and nobody knows what it meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import json_repair

LEVELS = (0.0, 0.5, 1.0)

_FENCE = re.compile(r"\A```\w*")
_FIRST_JSON = re.compile(r"\{.*?\}|\[.*?\]", re.DOTALL)


def read_score(reply: str) -> tuple[float | None, str]:
    """The score in `reply` and an empty reason, or None and the reason why there is none."""
    if not reply.strip():
        return None, "the judge's reply is empty"
    found: Any = None
    for reading in (_whole, _first, _repaired):
        value = _attempt(reading, reply)
        if isinstance(value, dict) and "score" in value:
            return _on_scale(value["score"])
        found = value if found is None else found
    if isinstance(found, dict):
        return None, "the judge's reply is an object without a score"
    if isinstance(found, list):
        return None, "the judge's reply is a list, not an object with a score"
    return None, "the judge's reply holds no object with a score"


def _attempt(reading: Callable[[str], Any], reply: str) -> Any:
    # json-repair recurses as deep as the reply nests; a reply that exhausts the stack is as unreadable as any other.
    try:
        return reading(reply)
    except (ValueError, RecursionError):
        return None


def _whole(reply: str) -> Any:
    return json.loads(_FENCE.sub("", reply.strip()).removesuffix("```"))


def _first(reply: str) -> Any:
    match = _FIRST_JSON.search(reply)
    return json.loads(match.group(0)) if match else None


def _repaired(reply: str) -> Any:
    # Without a brace json-repair would build something out of prose; from the first brace on it mends JSON.
    start = reply.find("{")
    return json_repair.loads(reply[start:]) if start >= 0 else None


def _on_scale(score: Any) -> tuple[float | None, str]:
    refused = f"the judge's score is {score!r:.60}, not 0, 0.5 or 1"
    if isinstance(score, bool) or not isinstance(score, (int, float, str)):
        return None, refused
    try:
        number = float(score) if isinstance(score, str) else score
    except ValueError:
        return None, refused
    for level in LEVELS:
        if number == level:
            return level, ""
    return None, refused
