"""Read a reply's body: its text, tool calls, token counts, and the model that it says has answered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from beamlib.files import to_json
from beamlib.llm.faults import named_values
from beamlib.llm.model import Completion, ToolDefinition, Usage
from beamlib.text import token_counter

_TOOL_CALLS = 256  # of one reply
_LONGEST_COUNT = 20  # characters
_TOOLS_HEADING = """\
Tools are called by your reply, which is JSON and nothing else, in this form:
{"calls": [{"tool": "its name", "arguments": {"argument": "its text"}}]}
They are carried out in the order given. With nothing left to call, reply {"calls": []}. The tools:"""
_DATES = re.compile(r"(?:[-@._:](?:(?:19|20)\d\d(?:[-.]?\d\d){0,2}|\d{4}|[01]\d-[0-3]\d|00\d))*")
"""Endings that date a name. A version is none: gpt-4.1 is not gpt-4."""
_REASONING = re.compile(r"(?=.*token)(?:.*reason|.*think|.*thought)", re.IGNORECASE)
"""Names of counts of reasoning tokens, wherever in the usage they stand."""


def find_usage(body: Mapping[str, Any]) -> object:
    """Return the usage that a reply states, or that its choice or a field of the server's own does."""
    choices = body.get("choices")
    places = [body, *(choices if isinstance(choices, list) else []), *body.values()]
    usages = (place["usage"] for place in places if isinstance(place, dict) and isinstance(place.get("usage"), dict))
    return next(usages, None)


def read_usage(usage: object) -> Usage:
    """Read token counts as any of the three routes spells them; what is not a count is 0.

    A count may be written as a text or with a decimal point.

    Output is the largest that the counts allow: where reasoning stands beside the completion (xAI, Gemini), only the
    total contains it. Cached input is a part of the input, also where a server counts it beside (Anthropic).
    """

    def count(*path: str) -> int:
        value: Any = usage
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return read_count(value)

    sent = count("prompt_tokens") or count("input_tokens")
    if not count("prompt_tokens"):
        sent += count("cache_read_input_tokens") + count("cache_creation_input_tokens")
    written = count("completion_tokens") or count("output_tokens")
    total = count("total_tokens")
    reasoning = max((read_count(value) for name, value in named_values(usage) if _REASONING.match(name)), default=0)
    if reasoning > written:
        written += reasoning
    cached = max(
        *(count(name, "cached_tokens") for name in ("prompt_tokens_details", "input_tokens_details")),
        *(count(name) for name in ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")),
    )
    if cached > sent or (cached and total == sent + cached + written):
        sent += cached
    sent = sent or max(0, total - written)
    return Usage(sent, max(written, total - sent), cached)


def read_count(value: object) -> int:
    """Return the count that a value is, 0 if it is none."""
    if isinstance(value, str) and len(value) < _LONGEST_COUNT and value.isascii() and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def with_own_counts(reply: Completion, request: Mapping[str, Any], *, writes: bool = True) -> Completion:
    """Count the tokens that an endpoint does not: a call that says nothing of them has not cost nothing.

    Args:
        writes: The reply is text, not vectors.
    """
    usage = reply.usage
    sent, written = usage.input_tokens, usage.output_tokens
    if sent and (written or not writes):
        return reply  # looking for a counter's vocabulary takes as long as a call
    counter = token_counter("auto")
    sent = sent or sum(counter.count(text) for text in _texts(request.get("messages", request.get("input"))))
    written = written or (counter.count(reply.text) if writes else 0)
    if (sent, written) == (usage.input_tokens, usage.output_tokens):
        return reply
    return replace(reply, usage=Usage(sent, written, usage.cached_tokens, estimated=True))


def _texts(content: Any) -> Iterator[str]:
    """Yield the texts of messages, of their parts, or of a request for vectors."""
    match content:
        case str():
            yield content
        case dict():
            yield from _texts(content.get("content", content.get("text")))
        case list():
            for item in content:
                yield from _texts(item)


def other_model(asked: str, named: object) -> str:
    """Return the model that a reply names, if it is neither the one asked for nor a form of it with or without a date.

    A provider's prefix, the case and an ending such as `-2024-07-18`, `:latest` or `.gguf` make no other model.
    """
    if not isinstance(named, str) or not named.strip():
        return ""
    ours, theirs = (
        re.sub(r"\.gguf$|[-:@]latest$", "", name.strip().casefold()).split("/")[-1] for name in (asked, named)
    )
    shorter, longer = sorted((ours, theirs), key=len)
    same = longer.startswith(shorter) and _DATES.fullmatch(longer[len(shorter) :])
    return "" if same else " ".join("".join(c if c.isprintable() else " " for c in named).split())[:200]


def describe_tools(tools: Sequence[ToolDefinition]) -> str:
    """Write the tools out for a prompt whose endpoint takes none: the form of the reply, and each tool."""
    lines = [_TOOLS_HEADING]
    for tool in tools:
        arguments = "; ".join(f"{name}: {about}" for name, about in tool.arguments)
        lines.append(f"- {tool.name}: {tool.about}" + (f" Arguments: {arguments}." if arguments else ""))
    return "\n".join(lines)


def tool_calls_json(message: Mapping[str, Any]) -> str | None:
    """Write a message's tool calls as `{"calls": [{"tool": "append", "arguments": "{\\"text\\": \\"tea\\"}"}]}`.

    Malformed calls are left out. None if no call is left, or if they cannot be written as JSON.
    """
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return None
    functions = [call["function"] for call in calls[:_TOOL_CALLS] if isinstance(call, dict) and "function" in call]
    valid = [
        {"tool": function["name"], "arguments": function.get("arguments", "")}
        for function in functions
        if isinstance(function, dict) and isinstance(function.get("name"), str)
    ]
    try:
        return to_json({"calls": valid}) if valid else None
    except (ValueError, RecursionError):  # arguments as JSON instead of text, with NaN or endless nesting
        return None


def message_text(message: dict[str, Any], *, tools: bool) -> object:
    """Return the text of a reply's message. Where tools were offered it is the calls as JSON, none where it is silent.

    Null is no text, and some endpoints write a list of parts.
    """
    content: object = message.get("content")
    if isinstance(content, list) and all(isinstance(part, dict | str) for part in content):
        parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
        texts = (part.get("text") for part in parts if part.get("type") in ("text", "output_text"))
        content = "".join(text for text in texts if isinstance(text, str))
    return (tool_calls_json(message) or content or '{"calls": []}') if tools else (content or "")
