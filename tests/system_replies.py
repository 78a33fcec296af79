"""What a language model might say to Mem0, LangMem and Graphiti, by rules: facts are sentences of what was said.

Told by the request alone, so equal requests have equal replies. All other prompts get those of `steady_replies`.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from scripted_server import Answer
from steady_replies import steady_reply


def system_reply(body: dict[str, Any]) -> str | Answer:
    """The reply to a request of a memory system, or of the project."""
    text = "\n".join(str(message.get("content")) for message in body["messages"])
    if "## New Messages" in text:
        return _mem0(text)
    if body.get("tools"):
        return _langmem(body, text)
    if "response_format" in body:
        return _graphiti(body, text)
    return steady_reply(body) if "</" in text else f"Of that, {text[:40]}"


def _sentences(said: str, most: int) -> list[str]:
    found = [" ".join(one.split()) for one in re.findall(r"[A-Z][^.!?\n]{20,160}[.!?]", said)]
    return list(dict.fromkeys(found))[:most]


def _mem0(text: str) -> str:
    new = text.rpartition("## New Messages")[2].partition("## Observation Date")[0]
    return json.dumps({"memory": [{"id": str(n), "text": one} for n, one in enumerate(_sentences(new, 2))]})


def _langmem(body: dict[str, Any], text: str) -> Answer:
    names = [tool["function"]["name"] for tool in body["tools"]]
    said = str(body["messages"][-1].get("content"))
    calls = []
    for number, one in enumerate(_sentences(said, 2)):
        given = {"content": one} if "Memory" in names else {}
        name = "Memory" if "Memory" in names else names[0]
        if given:
            mark = hashlib.sha256(one.encode()).hexdigest()[:8]
            function = {"name": name, "arguments": json.dumps(given)}
            calls.append({"id": f"call_{number}_{mark}", "type": "function", "function": function})
    message = {"role": "assistant", "content": None if calls else "Nothing.", "tool_calls": calls or None}
    return Answer(
        {
            "id": "chatcmpl-scripted", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": len(text.split()), "completion_tokens": 20, "total_tokens": 20},
        }
    )  # fmt: skip


def _graphiti(body: dict[str, Any], text: str) -> str:
    name = body["response_format"].get("json_schema", {}).get("name", "")
    said = text.partition("<CURRENT MESSAGE>")[2] or text.partition("<CURRENT_MESSAGE>")[2] or text
    words = list(dict.fromkeys(re.findall(r"\b[A-Z][a-z]{3,}\b", said.partition("</CURRENT")[0])))
    entities = [word for word in words if word not in ("ENTITY", "Entity")][:3] or ["User"]
    fact = (_sentences(said, 1) or ["The user said something."])[0]
    replies: dict[str, Any] = {
        "ExtractedEntities": {"extracted_entities": [{"name": one, "entity_type_id": 0} for one in entities]},
        "NodeResolutions": {"entity_resolutions": []},
        "ExtractedEdges": {"edges": _edges(text, fact)},
        "EdgeDuplicate": {"duplicate_facts": [], "contradicted_facts": []},
        "EdgeTimestamps": {"valid_at": None, "invalid_at": None},
        "BatchEdgeTimestamps": {"timestamps": []},
        "SummarizedEntities": {"summaries": []},
        "EntitySummary": {"summary": fact[:80]},
    }
    return json.dumps(replies.get(name, {}))


def _edges(text: str, fact: str) -> list[dict[str, Any]]:
    listed = text.partition("<ENTITIES>")[2].partition("</ENTITIES>")[0]
    names = re.findall(r"""['"]name['"]: ['"]([^'"]+)['"]""", listed)
    if len(names) < 2:
        return []
    ends = {"source_entity_name": names[0], "target_entity_name": names[1]}
    return [{**ends, "relation_type": "SPEAKS_OF", "fact": fact, "valid_at": None, "invalid_at": None}]
