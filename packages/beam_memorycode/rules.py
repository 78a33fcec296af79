"""The rules of a dialogue, and whether code follows a rule: pass, fail, or absent where it has no object of its kind.

Only scoring and generation may import this module. Only the **first** name of each group is held against a pattern, as
released; that matters for function arguments and attributes, where groups have several. Patterns are matched in time
linear in the name: the published forms by Python's `re` in a shape that cannot backtrack, any other by RE2, which never
does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Literal, get_args

import re2

from beam_memorycode.parsing import Group, Groups
from beamlib.errors import UserError

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


class RuleVerdict(StrEnum):
    """What a rule says of an answer."""

    PASS = "pass"
    FAIL = "fail"
    ABSENT = "absent"


Matches = Callable[[str], bool]

# `^x_.*`, `.*_x$`, `.*chx.*` and `.*\d$`, with any word in the place of theirs.
_PLAIN = re.compile(r"(?:\^\w+\.\*|\.\*\w+\$|\.\*\w+\.\*|\.\*\\d\$)", re.ASCII)

_OTHER = re2.Options()
_OTHER.log_errors = False  # they are reported here

_EQUIVALENT = {
    # CamelCase: the published pattern takes exponential time on a long name with an underscore in it.
    r"^[A-Z][a-z0-9]*((\d|[a-z])[A-Z\d]*[a-z0-9]*)*$": r"[A-Z](?:[a-z\d][A-Za-z\d]*)?$",
    r"\b[A-Z][A-Z0-9_]*\b": r"\b[A-Z][A-Z0-9_]*\b",
    r"^[a-z0-9_]*$": r"^[a-z0-9_]*$",
}
"""The published patterns for the case of class names, and what is matched in their place: the same names."""


MOST_OF_A_PATTERN = 1_000
"""Characters. The published ones have up to 43; RE2 takes half a minute to read 40,000 brackets."""


@lru_cache(maxsize=4096)
def matcher(pattern: str) -> Matches:
    """A function that says whether a name matches `pattern` from its beginning on (`re.match`), in linear time.

    A pattern that is no regular expression, or needs backtracking (a look-around, a back-reference), is a `UserError`.
    """
    if pattern in _EQUIVALENT or (len(pattern) <= MOST_OF_A_PATTERN and _PLAIN.fullmatch(pattern)):
        found = re.compile(_EQUIVALENT.get(pattern, pattern))
        return lambda name: found.match(name) is not None
    try:
        if len(pattern) > MOST_OF_A_PATTERN:
            raise re2.error(f"longer than {MOST_OF_A_PATTERN:,} characters")
        other = re2.compile(pattern, _OTHER)
    except (re2.error, UnicodeEncodeError) as error:
        problem = error.args[0] if error.args else "invalid"
        problem = problem.decode("utf-8", "replace") if isinstance(problem, bytes) else str(problem)
        raise UserError(
            f"rule: the pattern {pattern!r:.80} cannot be matched in linear time ({' '.join(problem.split())[:80]}); "
            "write it without look-around and back-references."
        ) from None
    return lambda name: other.match(name) is not None


def verdict(rule: Rule, groups: Groups, *, every_name: bool = False, empty_is_absent: bool = False) -> RuleVerdict:
    """What `rule` says of code with these `groups`.

    A pattern: every group that is not empty has to match, and one has to be there that is not. `True`: no group is
    empty; `False`: all are. A name: every group holds it, or with `False` none does. An import or a comment that is
    missing is never absent. `every_name` (all names of a group are held against a pattern) and `empty_is_absent`
    (groups of arguments or attributes that are all empty are no objects) are variants.
    """
    found = groups[rule.kind]
    if empty_is_absent and rule.kind in ("function argument", "attribute") and not any(found):
        found = ()
    if not found:
        return RuleVerdict.ABSENT
    return RuleVerdict.PASS if _holds(rule, found, every_name) else RuleVerdict.FAIL


def _holds(rule: Rule, found: tuple[Group, ...], every_name: bool) -> bool:
    condition = rule.condition
    if isinstance(condition, bool):
        return all(bool(group) is condition for group in found)
    if isinstance(condition, tuple):
        return all((condition[0] in group) is condition[1] for group in found)
    matches = matcher(condition)
    names = [name for group in found for name in (group if every_name else group[:1])]
    return bool(names) and all(map(matches, names))
