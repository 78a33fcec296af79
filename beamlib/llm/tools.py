"""Tools that a prompt offers: how an endpoint is told of them, and how a model without tool calls is.

Either way a reply comes back as one JSON text, `{"calls": [{"tool": "append", "arguments": {"text": "..."}}]}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beamlib.files import to_json

_MOST_CALLS = 256  # of one reply; whoever carries them out has a bound of its own


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool by its name, what it does, and its arguments, all of them texts: (name, what it is) each."""

    name: str
    about: str
    arguments: tuple[tuple[str, str], ...] = ()

    @property
    def openai(self) -> dict[str, Any]:
        """The definition as an entry of `tools` in a request."""
        properties = {name: {"type": "string", "description": about} for name, about in self.arguments}
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        function = {"name": self.name, "description": self.about, "parameters": parameters}
        return {"type": "function", "function": function}


_FORM = """\
Tools are called by your reply, which is JSON and nothing else, in this form:
{"calls": [{"tool": "its name", "arguments": {"argument": "its text"}}]}
They are carried out in the order given. With nothing left to call, reply {"calls": []}. The tools:"""


def describe_tools(tools: Sequence[ToolDefinition]) -> str:
    """What stands at the end of a prompt whose endpoint takes no tools: the form of the reply, and each tool."""
    lines = [_FORM]
    for tool in tools:
        arguments = "; ".join(f"{name}: {about}" for name, about in tool.arguments)
        lines.append(f"- {tool.name}: {tool.about}" + (f" Arguments: {arguments}." if arguments else ""))
    return "\n".join(lines)


def tool_calls_json(message: Mapping[str, Any]) -> str | None:
    """The tool calls of a reply's message as JSON text, None where it has none that can be written so.

    What is no call is left out.
    """
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return None
    functions = [one["function"] for one in calls[:_MOST_CALLS] if isinstance(one, dict) and "function" in one]
    found = [
        {"tool": one["name"], "arguments": one.get("arguments", "")}
        for one in functions
        if isinstance(one, dict) and isinstance(one.get("name"), str)
    ]
    try:
        return to_json({"calls": found}) if found else None
    except (ValueError, RecursionError):  # arguments given as JSON and not as text, with NaN in them or without end
        return None
