"""Reading lists of lines that a model wrote, in whatever dress it put them."""

from __future__ import annotations

import re

_MARK = re.compile(r"\A(?:[-*•+]|#{1,6}|\d{1,3}[.)])\s+")
_WORD = re.compile(r"[^\W_]")
_FENCE = re.compile(r"(?:```|~~~)\w*")
_PREAMBLE = re.compile(
    r"\W*+(?:sure|certainly|of course|okay|here(?:'s|’s| is| are)|below (?:is|are)|extracted facts)\b",
    re.IGNORECASE,
)
"""What chat models say before the list itself, up to a colon; the last is the name that listing 41 gives its list."""


def lines_of(reply: str) -> list[str]:
    """The lines of a reply, none empty, without list and heading marks.

    Code fences, rules and a preamble ("Sure! Here are the notes:") are no lines of the list.
    """
    found = (
        _MARK.sub("", raw.strip(), count=1).strip() for raw in reply.splitlines() if not _FENCE.fullmatch(raw.strip())
    )
    lines = [line for line in found if _WORD.search(line)]
    return lines[1:] if lines and _is_preamble(lines[0]) else lines


def _is_preamble(line: str) -> bool:
    opening = _PREAMBLE.match(line)
    before, colon, after = line.rpartition(":")
    return bool(opening and colon and opening.end() <= len(before) and not re.search(r"\w", after))
