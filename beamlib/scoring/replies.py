"""Asking for and reading a judge's reply (paper listing 20), an object with a `score`, and an aligner's to a batch.

Four readings are tried in turn, and the first that gives such an object counts: the whole reply (without its code
fence) as JSON, the first `{...}` or `[...]` in it, what json-repair makes of it unless it is long, and each object that
stands whole in it, for prose before the object may hold braces of its own. A score off the scale is refused rather than
rounded, and so are two scores in one object: nobody knows which the judge meant. Each takes time in proportion to the
reply, which comes from anybody.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic

from beamlib.files import mend_json
from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt
from beamlib.llm.retrying import ReadReply, Value, ask

LEVELS = (0.0, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class ParsedReply(Generic[Value]):
    """What was read, or None and the reason; `reply` is the last reply as it came, empty if none did.

    `transient` says that the same call may succeed later.
    """

    value: Value | None
    reply: str = ""
    reason: str = ""
    transient: bool = False

    @classmethod
    def failed(cls, error: ModelError, reply: str = "") -> ParsedReply[Value]:
        """No value because of `error`."""
        return cls(None, reply, error.reason or "the call failed", error.transient)


async def ask_parsed(
    model: Model, prompt: Prompt, read: Callable[[Completion], tuple[Value | None, str]]
) -> ParsedReply[Value]:
    """The value that `read` finds in the model's reply; `read` gives None and a reason where there is none.

    Then the model is asked again once, with the reason, and the second reply is the last word.
    """
    last = ""

    def parse(reply: Completion, _: int) -> ReadReply[ParsedReply[Value]]:
        nonlocal last
        last = reply.text
        value, reason = read(reply)
        if value is not None:
            return ParsedReply(value, last), None
        complaint = f"An earlier reply could not be used: {reason}. Reply in exactly the format asked for above."
        return ParsedReply.failed(ModelError(reason, Outcome.UNREADABLE), last), complaint

    try:
        return await ask(model, prompt, parse)
    except ModelError as error:
        return ParsedReply.failed(error, last)


class _Object(dict[str, Any]):
    """A JSON object that knows which of its keys were `repeated`."""

    repeated: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pairs: list[tuple[str, Any]]) -> _Object:
        value = cls(pairs)
        if len(value) < len(pairs):
            keys = Counter(key for key, _ in pairs)
            value.repeated = frozenset(key for key, times in keys.items() if times > 1)
        return value


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_Object.of)  # line breaks stand in strings as they are

_FENCE = re.compile(r"\A```\w*")
_A_SCORE = re.compile(r"(?:\A\{|[,\n])[ \t]*[\"']?score[\"']?[ \t]*:")
_MOST_MENDED = 2_000  # characters; a verdict and its reason have hundreds
_MOST_BRACES = 500  # places where an object is looked for
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
            if "score" in getattr(value, "repeated", ()):
                return None, "the judge's reply has two scores in one object"
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
    item that is not mentioned has none. Refused are an object that mentions no item, or one twice, and a reply that was
    `cut` off.
    """
    if cut:
        return None, "the aligner's reply was cut off"
    for value in _readings(reply):
        if isinstance(value, dict):
            if any(1 <= _number(key) <= n_items for key in getattr(value, "repeated", ())):
                return None, "the aligner's reply mentions an item twice"
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
    at, left = reply.find("{"), 20 * len(reply) + 1_000_000
    for _ in range(_MOST_BRACES):
        if at < 0 or left < 0:
            return
        try:
            value, end = _DECODER.raw_decode(reply, at)
        except json.JSONDecodeError as error:
            # It has counted the lines before it, and a string without an end, told by its beginning, was read through.
            left -= len(reply) if error.msg.startswith("Unterminated") else error.pos
            end = at + 1
        except ValueError:  # thousands of digits
            end = at + 1
        except RecursionError:
            return
        else:
            yield value
        at = reply.find("{", end)


def _attempt(reading: Callable[[str], Any], reply: str) -> Any:
    try:
        return reading(reply)
    except (ValueError, RecursionError):
        return None


def _whole(reply: str) -> Any:
    return json.loads(_FENCE.sub("", reply.strip()).removesuffix("```"), object_pairs_hook=_Object.of)


def _first(reply: str) -> Any:
    return json.loads(first_bracketed(reply), object_pairs_hook=_Object.of)


def first_bracketed(text: str) -> str:
    """From the first `{` to the next `}`, or the same of `[`, whichever begins first; empty where there is neither."""
    found = []
    for opening, closing in ("{}", "[]"):
        start = text.find(opening)
        end = text.find(closing, start) if start >= 0 else -1
        if end >= 0:
            found.append((start, end + 1))
    return text[slice(*min(found))] if found else ""


def _repaired(reply: str) -> Any:
    # Without a brace json-repair would build something out of prose; from the first brace on it mends JSON.
    start = reply.find("{")
    value = mend_json(reply[start:], _MOST_MENDED) if start >= 0 else None
    if isinstance(value, dict) and "score" in value:
        value = _Object(value)
        # It keeps the last of two. A line of the reason that looks like another score counts as one: it is asked again.
        value.repeated = frozenset({"score"} if len(_A_SCORE.findall(reply[start:])) > 1 else ())
    return value


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
