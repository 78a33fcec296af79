"""Read the JSON object in the reply to a memory's prompt."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from beamlib.llm.json_replies import read_json


def json_object(reply: str, prompt: str = "", fields: tuple[str, ...] = ()) -> dict[str, Any] | None:
    """Return the object of a reply that has one of `fields`, else any; a list as `{"items": list}`; else None."""
    schema: Any
    for schema in (_with_any(fields), dict[str, Any], list[Any]):
        value = read_json(reply, schema, strict=False, prompt=prompt)[0]
        if value is not None:
            whole = value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value
            return {"items": whole} if isinstance(whole, list) else whole
    return None


@cache
def _with_any(fields: tuple[str, ...]) -> type[BaseModel] | type[dict[str, Any]]:
    named: dict[str, Any] = dict.fromkeys(fields, (Any, None))
    config = ConfigDict(extra="allow")
    return create_model("MemoryReply", __config__=config, **named) if fields else dict[str, Any]
