"""What becomes of a group of model calls when some of them fail."""

from __future__ import annotations

import re
from collections.abc import Sequence

from beamlib.llm.model import Completion, Model, ModelError, Prompt, attempt_all


def failure(prompts: Sequence[Prompt], replies: Sequence[Completion | ModelError]) -> ModelError | None:
    """One error that stands for every failed call of a group, None if none failed.

    It names the step and what it was about, and counts the other failures. A failure that will not pass comes before
    one that may: the group can only succeed later if all of its failures can pass, which is what `transient` says.
    """
    failed = [(prompt, reply) for prompt, reply in zip(prompts, replies, strict=True) if isinstance(reply, ModelError)]
    if not failed:
        return None
    prompt, error = min(failed, key=lambda one: one[1].transient)  # the first of its kind: min keeps the order
    others = f" (and {len(failed) - 1} more failed calls of {len(prompts)})" if len(failed) > 1 else ""
    return ModelError(f"{prompt.id} for {prompt.about}: {error}{others}", error.outcome)


MOST_GAPS = 0.1
"""Share of a reading's calls that may end for good without a usable reply; beyond it something is wrong with all."""


def with_gaps(prompts: Sequence[Prompt], replies: Sequence[Completion | ModelError]) -> tuple[list[str], int]:
    """The replies' texts, empty where a call failed for good, and how many did.

    A content filter that refuses one pair of hundreds must not cost the conversation, so such a gap is counted and the
    rest is used. Raises the group's `failure` if a call may yet succeed, or if more than `MOST_GAPS` of them failed.
    """
    asked = list(zip(prompts, replies, strict=True))
    gaps = sum(isinstance(reply, ModelError) and not reply.transient for reply in replies)
    if gaps <= MOST_GAPS * len(prompts):
        asked = [one for one in asked if isinstance(one[1], ModelError) and one[1].transient]
    error = failure([prompt for prompt, _ in asked], [reply for _, reply in asked])
    if error is not None:
        raise error
    return [reply.text if isinstance(reply, Completion) else "" for reply in replies], gaps


def replies_to(model: Model, prompts: Sequence[Prompt]) -> list[str]:
    """The replies to `prompts` in order, all asked at once; raises the group's `failure`."""
    replies = attempt_all(model, prompts)
    error = failure(prompts, replies)
    if error is not None:
        raise error
    return [reply.text for reply in replies if isinstance(reply, Completion)]


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
