"""Let a model work with tools: it calls, gets the results, and may call again.

Every round is a separate prompt with the earlier results in its variable `done`, so that its call is stored and
replayed like any other. (Section 1 of the MEME fact sheet: at most five rounds.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from beam_memories.evolving.file_tools import Folder, Tool, ToolRefused
from beam_memories.evolving.json_replies import json_object
from beamlib.files import parse_json, to_json
from beamlib.llm.model import Model, Prompt, run
from beamlib.memory.budget import shorten
from beamlib.text import WORDS, TokenCounter

MOST_CALLS = 40
"""Calls of one round that are carried out."""

_MOST_ARGUMENT = 50_000  # characters
_SHOWN = 300  # characters of a call's arguments that later rounds see
_NO_JSON = 'That reply was not in the form that was asked for; reply {"calls": []} if nothing is left to do.'


@dataclass
class Worked:
    """Counts of rounds, calls and refused calls, including unreadable replies, and the log of results."""

    rounds: int = 0
    calls: int = 0
    refused: int = 0
    done: list[str] = field(default_factory=list)


def run_tools(
    model: Model,
    prompt: Prompt,
    tools: Sequence[Tool],
    files: Folder,
    rounds: int = 5,
    *,
    tokens: int = 8_000,
    counter: TokenCounter = WORDS,
) -> Worked:
    """Let `model` call `tools` on `files` until it stops, at most `rounds` times.

    The variable `done` of `prompt` gets the log in at most `tokens` tokens. A `ModelError` ends the loop; earlier
    changes stay.
    """
    log = Worked()
    offered = tuple(tool.definition for tool in tools)
    for _ in range(rounds):
        done = shorten("\n".join(log.done), tokens, counter)
        request = replace(prompt, variables={**prompt.variables, "done": done}, tools=offered)
        reply = run(model.complete(request)).text
        log.rounds += 1
        calls = _calls(reply)
        if calls is None and not log.done:
            log.refused += 1
            log.done.append(_NO_JSON)
        elif not calls:
            break
        else:
            _carry_out(calls, tools, files, log)
    return log


def _calls(reply: str) -> list[Any] | None:
    """Return the calls of a reply: the list under `calls`, a bare list, or a single call. None if it is no JSON."""
    value = json_object(reply, fields=("calls", "tool", "name"))
    if value is None:
        return None
    calls = value.get("calls", value.get("items"))
    if calls is None:
        calls = [value] if "tool" in value or "name" in value else []
    return calls if isinstance(calls, list) else [calls]


def _carry_out(calls: Sequence[Any], tools: Sequence[Tool], files: Folder, log: Worked) -> None:
    by_name = {tool.definition.name: tool for tool in tools}
    for call in calls[:MOST_CALLS]:
        log.calls += 1
        try:
            tool, arguments = _read(call, by_name)
            result = tool.act(files, arguments)
        except ToolRefused as error:
            log.refused += 1
            result = str(error)
        log.done.append(f"{_shown(call)}\n{result}")
    if len(calls) > MOST_CALLS:
        log.refused += len(calls) - MOST_CALLS
        log.done.append(f"The other {len(calls) - MOST_CALLS} calls were too many for one reply and are not done.")


def _read(call: Any, tools: dict[str, Tool]) -> tuple[Tool, dict[str, str]]:
    name = call.get("tool", call.get("name")) if isinstance(call, dict) else None
    if not isinstance(name, str) or name not in tools:
        raise ToolRefused(f"There is no tool {name!r:.60}; the tools are {', '.join(tools)}.")
    values = call.get("arguments", {})
    if isinstance(values, str):
        values = _spelled(values)
    if not isinstance(values, dict):
        raise ToolRefused("The arguments of a call are a JSON object of texts; give them as one.")
    known = {name for name, _ in tools[name].definition.arguments}
    return tools[name], {key: _text(key, value) for key, value in values.items() if key in known}


def _spelled(given: str) -> Any:
    """Parse arguments given as a JSON text, as in OpenAI's tool calls."""
    try:
        return parse_json(given or "{}")
    except ValueError:
        return json_object(given)


def _text(name: str, value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        value = ", ".join(map(str, value))
    if not isinstance(value, str | int | float):
        raise ToolRefused(f"The argument {name!r:.60} has to be a text; give one.")
    text = str(value).encode("utf-8", "replace").decode()  # halves of surrogate pairs cannot be kept
    if len(text) > _MOST_ARGUMENT:
        raise ToolRefused(f"The argument {name!r:.60} is longer than {_MOST_ARGUMENT:,} characters; make it shorter.")
    return text


def _shown(call: Any) -> str:
    """Shorten a call for later rounds: the tool's name and the start of its arguments."""
    try:
        name, arguments = str(call.get("tool", call.get("name"))), to_json(call.get("arguments", {}))
    except (AttributeError, TypeError, ValueError, RecursionError):
        return "A call"
    text = f"{name[:60]} {arguments}".encode("utf-8", "replace").decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
