"""How answers are checked: the rules of a dialogue. Only scoring and generation may import this module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "class",
    "class decorator",
    "function",
    "function argument",
    "function docstring",
    "function try",
    "function assert",
    "function annotation",
    "function decorator",
    "method",
    "method docstring",
    "method try",
    "method assert",
    "method annotation",
    "method decorator",
    "attribute",
    "variable",
    "import",
    "comment",
]
"""What a rule looks at in the code."""

KINDS: tuple[Kind, ...] = get_args(Kind)

Condition = str | bool | tuple[str, bool]
"""A pattern that a name has to match; whether there has to be one (`True`) or none (`False`); or a name, and the same
of it. The published rules have no `False`."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The machine check of one value of an instruction."""

    kind: Kind
    condition: Condition

    @property
    def as_json(self) -> list[object]:
        """`[kind, condition]`, as dialogue files hold it."""
        return [self.kind, list(self.condition) if isinstance(self.condition, tuple) else self.condition]


@dataclass(frozen=True, slots=True)
class DialogueRules:
    """The rules of a dialogue: those of each session's instructions, in order, and those that hold at its end.

    `history` has the newest value of every instruction, by first mention.
    """

    dialogue_id: int
    sessions: tuple[tuple[Rule, ...], ...]
    history: tuple[Rule, ...]
