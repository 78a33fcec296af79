"""Request and parse replies: a judge's object with a `score` (paper listing 20) and an aligner's reply to a batch.

Four parses are tried in turn, and the first object counts: the whole reply (without its code fence) as JSON, the first
`{...}` or `[...]` in it, json-repair unless the reply is long, and each complete object in it, because prose before the
object may have braces of its own. A score off the scale is refused, not rounded, and so are two scores in one object
and two objects that contradict each other: the judge's intention is unclear. Replies come from anybody, so each parse
takes time proportional to the reply.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic

from beamlib.files import mend_json
from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt
from beamlib.llm.retrying import ReadReply, ReplyValue, ask

LEVELS = (0.0, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class ParsedReply(Generic[ReplyValue]):
    """A parsed reply.

    Attributes:
        value: None if there is none; `reason` says why.
        reply: The last raw reply, empty if there was none.
        transient: Whether a later run may get a value.
    """

    value: ReplyValue | None
    reply: str = ""
    reason: str = ""
    transient: bool = False

    @classmethod
    def failed(cls, error: ModelError, reply: str = "") -> ParsedReply[ReplyValue]:
        """Build a reply without a value from an error."""
        return cls(None, reply, error.reason or "the call failed", error.resent)


async def ask_parsed(
    model: Model, prompt: Prompt, read: Callable[[Completion], tuple[ReplyValue | None, str]]
) -> ParsedReply[ReplyValue]:
    """Send a prompt and parse the reply; retry once, with the reason, if it cannot be parsed.

    Args:
        read: Parses a reply; returns None and a reason if that fails.
    """
    last = ""

    def parse(reply: Completion, _: int) -> ReadReply[ParsedReply[ReplyValue]]:
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
    """A JSON object with the keys that occur more than once."""

    repeated: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pairs: list[tuple[str, Any]]) -> _Object:
        value = cls(pairs)
        if len(value) < len(pairs):
            keys = Counter(key for key, _ in pairs)
            value.repeated = frozenset(key for key, times in keys.items() if times > 1)
        return value


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_Object.of)  # strings may contain line breaks

_FENCE = re.compile(r"\A```\w*")
_A_SCORE = re.compile(r"(?:\A\{|\}\s*\{|[,\n][ \t]*\{?)[ \t]*[\"']?score[\"']?[ \t]*:")
_MOST_MENDED = 2_000  # characters; a verdict and its reason have hundreds
_MOST_BRACES = 500  # places where an object may begin
_ENDS_IN_SCORE = re.compile(r"score[\"']?\s*:\s*[\"']?[\d.+-]*\Z", re.IGNORECASE)


def read_score(reply: str, *, cut: bool = False) -> tuple[float | None, str]:
    """Read the score in a reply.

    Args:
        cut: The reply was cut off at its token limit. It counts if the score is complete: the score comes first.

    Returns:
        The score and an empty reason, or None and the reason.
    """
    if not reply.strip():
        return None, "the judge's reply is empty"
    if cut and _ENDS_IN_SCORE.search(reply.rstrip()):  # a 0 at the very end may be the start of 0.5
        return None, "the judge's reply was cut off before the end of the score"
    first: Any = None
    for value in _parses(reply):
        if isinstance(value, dict) and "score" in value:
            if "score" in getattr(value, "repeated", ()):
                return None, "the judge's reply has two scores in one object"
            scores = {_check_scale(item["score"]) for item in _complete_objects(reply) if "score" in item}
            if len(scores) > 1:
                return None, "the judge's reply has two objects with different scores"
            return _check_scale(value["score"])
        first = value if first is None else first
    if isinstance(first, dict):
        return None, "the judge's reply is an object without a score"
    if isinstance(first, list):
        return None, "the judge's reply is a list, not an object with a score"
    return None, "the judge's reply holds no object with a score"


def read_reason(reply: str) -> str:
    """Read the judge's reason in a reply that has a score, as one line; empty if it has none."""
    found = next((value for value in _parses(reply) if isinstance(value, dict) and "score" in value), {})
    reason = found.get("reason", "")
    return " ".join(reason.split()) if isinstance(reason, str) else ""


Matches = dict[int, tuple[int, ...]]
"""The numbers of the nuggets that an item denotes, by its number; both from 1, without items that match nothing."""


def read_matches(reply: str, n_items: int, n_nuggets: int, *, cut: bool = False) -> tuple[Matches | None, str]:
    """Read the matches in the reply to a batch.

    An item's value is a nugget number or a list of them. Anything else is no match, and neither is an item that is not
    mentioned. An object that mentions no item, or one twice, is refused, and so is a reply that was `cut` off.

    Returns:
        The matches and an empty reason, or None and the reason.
    """
    if cut:
        return None, "the aligner's reply was cut off"
    for value in _parses(reply):
        if isinstance(value, dict):
            if any(1 <= _number(key) <= n_items for key in getattr(value, "repeated", ())):
                return None, "the aligner's reply mentions an item twice"
            if matches := _matches_in(value, n_items, n_nuggets):
                others = (_matches_in(item, n_items, n_nuggets) for item in _complete_objects(reply))
                if any(other and other != matches for other in others):
                    return None, "the aligner's reply has two objects with different matches"
                return {item: numbers for item, numbers in matches.items() if numbers}, ""
    return None, "the aligner's reply holds no object from item numbers to nugget numbers"


def _matches_in(value: Mapping[str, Any], n_items: int, n_nuggets: int) -> Matches:
    """Return the nuggets of each item that an object mentions."""
    matches: Matches = {}
    for key, nuggets in value.items():
        if 1 <= (item := _number(key)) <= n_items:
            numbers = [_number(nugget) for nugget in (nuggets if isinstance(nuggets, list) else [nuggets])]
            matches.setdefault(item, tuple(number for number in numbers if 1 <= number <= n_nuggets))
    return matches


def _number(value: Any) -> int:
    """Return the whole number that a value is or spells, else 0, which numbers nothing."""
    if isinstance(value, str):
        return int(value) if len(value) < 10 and value.strip().isdecimal() else 0
    return int(value) if type(value) in (int, float) and value == value // 1 else 0


def _parses(reply: str) -> Iterator[Any]:
    for parse in (_parse_whole, _parse_first, _repair):
        try:
            yield parse(reply)
        except (ValueError, RecursionError):
            yield None
    yield from _complete_objects(reply)


def _complete_objects(reply: str) -> Iterator[Any]:
    """Yield the JSON objects in a reply, but none that lies in another."""
    at, left = reply.find("{"), 20 * len(reply) + 1_000_000
    for _ in range(_MOST_BRACES):
        if at < 0 or left < 0:
            return
        try:
            value, end = _DECODER.raw_decode(reply, at)
        except json.JSONDecodeError as error:
            # The decoder counted the lines before the error, and read an unterminated string to the end.
            left -= len(reply) if error.msg.startswith("Unterminated") else error.pos
            end = at + 1
        except ValueError:  # thousands of digits
            end = at + 1
        except RecursionError:
            return
        else:
            yield value
        at = reply.find("{", end)


def _parse_whole(reply: str) -> Any:
    return json.loads(_FENCE.sub("", reply.strip()).removesuffix("```"), object_pairs_hook=_Object.of)


def _parse_first(reply: str) -> Any:
    return json.loads(first_bracketed(reply), object_pairs_hook=_Object.of)


def first_bracketed(text: str) -> str:
    """Return the text from the first `{` to the next `}`, or `[` to `]`, whichever begins first; empty without any."""
    spans = []
    for opening, closing in ("{}", "[]"):
        start = text.find(opening)
        end = text.find(closing, start) if start >= 0 else -1
        if end >= 0:
            spans.append((start, end + 1))
    return text[slice(*min(spans))] if spans else ""


def _repair(reply: str) -> Any:
    # Without a brace json-repair would turn prose into JSON; from the first brace on it repairs JSON.
    start = reply.find("{")
    value = mend_json(reply[start:], _MOST_MENDED) if start >= 0 else None
    if isinstance(value, dict) and "score" in value:
        value = _Object(value)
        # json-repair keeps the last of two. A line of the reason that looks like another score counts as one.
        value.repeated = frozenset({"score"} if len(_A_SCORE.findall(reply[start:])) > 1 else ())
    return value


def _check_scale(score: Any) -> tuple[float | None, str]:
    if isinstance(score, str):
        with suppress(ValueError):
            score = float(score)
    for level in LEVELS:
        if score == level and not isinstance(score, bool):
            return level, ""
    return None, f"the judge's score is {score!r:.60}, not 0, 0.5 or 1"
