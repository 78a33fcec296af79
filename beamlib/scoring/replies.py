"""Reading a judge's reply (paper listing 20), an object with a `score` of 0, 0.5 or 1, and an aligner's to a batch.

Four readings are tried in turn, and the first that gives such an object counts: the whole reply (without its code
fence) as JSON, the first `{...}` or `[...]` in it, what json-repair makes of it, and each object that stands whole in
it, for prose before the object may hold braces of its own. A score off the scale is refused
rather than rounded: a judge that says 0.25 did not follow the instructions, and nobody knows what it meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import json_repair

LEVELS = (0.0, 0.5, 1.0)

_FENCE = re.compile(r"\A```\w*")
_FIRST_JSON = re.compile(r"\{.*?\}|\[.*?\]", re.DOTALL)
_DECODER = json.JSONDecoder(strict=False)  # models put line breaks into strings as they are
_ENDS_IN_SCORE = re.compile(r"score[\"']?\s*:\s*[\"']?[\d.+-]*\Z", re.IGNORECASE)


def read_score(reply: str, *, cut: bool = False) -> tuple[float | None, str]:
    """The score in `reply` and an empty reason, or None and the reason why there is none.

    A reply that was `cut` off at its token limit counts if the score stands whole in it, as it mostly does: the score
    comes first and the reason after it.
    """
    if not reply.strip():
        return None, "the judge's reply is empty"
    if cut and _ENDS_IN_SCORE.search(reply.rstrip()):  # a 0 at the very end may be the start of 0.5
        return None, "the judge's reply was cut off before the end of the score"
    found: Any = None
    for value in _readings(reply):
        if isinstance(value, dict) and "score" in value:
            return _on_scale(value["score"])
        found = value if found is None else found
    if isinstance(found, dict):
        return None, "the judge's reply is an object without a score"
    if isinstance(found, list):
        return None, "the judge's reply is a list, not an object with a score"
    return None, "the judge's reply holds no object with a score"


Matches = dict[int, tuple[int, ...]]
"""By item number, the numbers of the nuggets that it denotes; both from 1, items without any left out."""


def read_matches(reply: str, n_items: int, n_nuggets: int, *, cut: bool = False) -> tuple[Matches | None, str]:
    """The matches in the reply to a batch and an empty reason, or None and the reason why there are none.

    An item's value is a nugget number or a list of such; what is out of range, null, or no number is no match, and an
    item that is not mentioned has none. An object that mentions no item, or a reply that was `cut` off, is refused.
    """
    if cut:
        return None, "the aligner's reply was cut off"
    for value in _readings(reply):
        if isinstance(value, dict):
            matches: Matches = {}
            for key, given in value.items():
                if 1 <= (item := _number(key)) <= n_items:
                    numbers = [_number(one) for one in (given if isinstance(given, list) else [given])]
                    matches.setdefault(item, tuple(number for number in numbers if 1 <= number <= n_nuggets))
            if matches:
                return {item: numbers for item, numbers in matches.items() if numbers}, ""
    return None, "the aligner's reply holds no object from item numbers to nugget numbers"


def _number(value: Any) -> int:
    """The whole number that `value` is or spells; 0, which numbers nothing, for anything else."""
    if isinstance(value, str):
        return int(value) if len(value) < 10 and value.strip().isdecimal() else 0
    return int(value) if type(value) in (int, float) and value == value // 1 else 0


def _readings(reply: str) -> Iterator[Any]:
    yield from (_attempt(reading, reply) for reading in (_whole, _first, _repaired))
    at = reply.find("{")
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(reply, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield value
        at = reply.find("{", end)


def _attempt(reading: Callable[[str], Any], reply: str) -> Any:
    # json-repair recurses as deep as the reply nests; a reply that exhausts the stack is as unreadable as any other.
    try:
        return reading(reply)
    except (ValueError, RecursionError):
        return None


def _whole(reply: str) -> Any:
    return json.loads(_FENCE.sub("", reply.strip()).removesuffix("```"))


def _first(reply: str) -> Any:
    match = _FIRST_JSON.search(reply)
    return json.loads(match.group(0)) if match else None


def _repaired(reply: str) -> Any:
    # Without a brace json-repair would build something out of prose; from the first brace on it mends JSON.
    start = reply.find("{")
    return json_repair.loads(reply[start:]) if start >= 0 else None


def _on_scale(score: Any) -> tuple[float | None, str]:
    refused = f"the judge's score is {score!r:.60}, not 0, 0.5 or 1"
    if isinstance(score, bool) or not isinstance(score, (int, float, str)):
        return None, refused
    try:
        number = float(score) if isinstance(score, str) else score
    except ValueError:
        return None, refused
    for level in LEVELS:
        if number == level:
            return level, ""
    return None, refused
