"""Read the JSON object in a model's reply, among prose and fences and with small faults, within bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from beamlib.files import MOST_MENDED, mend_json, parse_json

_FENCED = re.compile(r"```[\w-]*[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)
_MOST = 1_000_000  # characters; replies have a bound in bytes long before, but not a small one


def json_object(reply: str) -> dict[str, Any] | None:
    """Return the object of a reply; a list becomes `{"items": list}`; None for neither."""
    if len(reply) > _MOST:
        return None
    for text in _candidates(reply):
        try:
            value = parse_json(text)
        except ValueError:
            continue
        if isinstance(value, dict | list):
            return _object(value)
    return _mended(reply)


def _candidates(reply: str) -> Iterator[str]:
    yield reply.strip()
    if fenced := _FENCED.search(reply):
        yield fenced[1]
    yield reply[reply.find("{") : reply.rfind("}") + 1]


def _mended(reply: str) -> dict[str, Any] | None:
    start = re.search(r"\{\s*[\"'}]|\[\s*\{", reply)
    if start is None:
        return None  # of prose json-repair would build something too
    try:
        value = mend_json(reply[start.start() :], MOST_MENDED)
    except ValueError:
        return None
    return _object(value) if isinstance(value, dict | list) else None


def _object(value: dict[str, Any] | list[Any]) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"items": value}
