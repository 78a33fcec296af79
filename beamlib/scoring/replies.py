"""Request and parse replies: a judge's object with a `score` (paper listing 20) and an aligner's reply to a batch.

A verdict is strict. Its score is one literal number of the scale, not rounded and not mended, and two verdicts in a
reply have to agree: otherwise the judge's intention is unclear. `llm.json_replies` finds objects in replies.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Generic

from pydantic import BaseModel, BeforeValidator, Field, create_model

from beamlib.llm.json_replies import read_json
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


_SPELLED = re.compile(r"\s*-?\d(?:\.\d+)?\s*", re.ASCII)


def _level(score: Any) -> float:
    """Return the level of the scale that a number is, or a text that is nothing but a number."""
    if isinstance(score, str) and _SPELLED.fullmatch(score):
        score = float(score)
    for level in LEVELS:
        if isinstance(score, int | float) and score == level and not isinstance(score, bool):
            return level
    raise ValueError(f"the judge's score is {score!r:.60}, not 0, 0.5 or 1")


_PLACEHOLDER = re.compile(r"\s*(?:<[^<>]*>|\{[^{}]*\}|\[(?:\w+ ?){1,4}\]|\.{2,}|…|reason)\s*", re.IGNORECASE)
"""A reason in a template's brackets, dots, or the field's own name."""


def _filled_in(reason: Any) -> Any:
    """Return a reason, unless it is a place that was to be filled in: then nothing tells that the score was."""
    if isinstance(reason, str) and _PLACEHOLDER.fullmatch(reason):
        raise ValueError(f"the judge's reason is the placeholder {reason!r:.60}")
    return reason


class JudgeReply(BaseModel):
    """The reply to `judge_nugget`."""

    score: Annotated[float, BeforeValidator(_level)]
    reason: Annotated[Any, BeforeValidator(_filled_in)] = ""


def read_score(reply: str, *, cut: bool = False) -> tuple[float | None, str]:
    """Read the score in a reply.

    Args:
        cut: The reply was cut off at its token limit. It counts if the score is complete: the score comes first.

    Returns:
        The score and an empty reason, or None and the reason.
    """
    about: dict[str, Any] = {"who": "the judge's reply", "what": "score", "prompt": "judge_nugget"}
    verdict, reason = read_json(reply, JudgeReply, strict=True, cut=cut, **about)
    return (verdict.score, "") if verdict else (None, reason)


def read_reason(reply: str) -> str:
    """Read the judge's reason in a reply that has a score, as one line; empty if it has none."""
    verdict, _ = read_json(reply, JudgeReply, strict=True)
    return " ".join(verdict.reason.split()) if verdict and isinstance(verdict.reason, str) else ""


Matches = dict[int, tuple[int, ...]]
"""The numbers of the nuggets that an item denotes, by its number; both from 1, without items that match nothing."""


def read_matches(reply: str, n_items: int, n_nuggets: int, *, cut: bool = False) -> tuple[Matches | None, str]:
    """Read the matches in the reply to a batch.

    An item's value is a nugget number or a list of them. Anything else is no match, and neither is an item that is not
    mentioned. An object that mentions no item, or one twice, is refused, and so is a reply that was `cut` off.

    Returns:
        The matches and an empty reason, or None and the reason.
    """
    who, schema = "the aligner's reply", _batch_reply(n_items, n_nuggets)
    if cut:
        return None, f"{who} was cut off"
    value, reason = read_json(reply, schema, strict=True, who=who, what="match", prompt="align_batch")
    if value is None:
        return None, reason
    numbers = {item: getattr(value, f"item_{item}") for item in range(1, n_items + 1)}
    return {item: nuggets for item, nuggets in numbers.items() if nuggets}, ""


@lru_cache(maxsize=256)
def _batch_reply(n_items: int, n_nuggets: int) -> type[BaseModel]:
    """Return the model of a reply to `align_batch`: the number of each item with those of its nuggets."""

    def number(value: Any) -> int:
        # The whole number that a value is or spells, else 0, which numbers nothing.
        if isinstance(value, str):
            return int(value) if len(value) < 10 and value.strip().isdecimal() else 0
        return int(value) if type(value) in (int, float) and value == value // 1 else 0

    def nuggets(value: Any) -> tuple[int, ...]:
        numbers = map(number, value if isinstance(value, list) else [value])
        return tuple(nugget for nugget in numbers if 1 <= nugget <= n_nuggets)

    kind = Annotated[tuple[int, ...], BeforeValidator(nuggets)]
    fields: dict[str, Any] = {f"item_{item}": (kind, Field((), alias=str(item))) for item in range(1, n_items + 1)}
    return create_model("BatchReply", **fields)
