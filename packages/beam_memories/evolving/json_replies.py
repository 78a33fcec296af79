"""Read the JSON object in a model's reply."""

from __future__ import annotations

from typing import Any

from beamlib.llm.json_replies import read_json


def json_object(reply: str, prompt: str = "") -> dict[str, Any] | None:
    """Return the object of a reply to a prompt; a list becomes `{"items": list}`; None for neither."""
    schema: Any
    for schema in (dict[str, Any], list[Any]):
        value = read_json(reply, schema, strict=False, prompt=prompt)[0]
        if value is not None:
            return {"items": value} if isinstance(value, list) else dict(value)
    return None
