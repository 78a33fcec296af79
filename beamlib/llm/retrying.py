"""Replies that cannot be used as they came: asking again with a complaint (`ask`), and what is done by prompt.

`RetryingModel` sits outside the store, so a reply is kept as it arrived and a later change of rules costs no call.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt

Value = TypeVar("Value")
Found = tuple[Value, str | None]
"""What was read in a reply, and the complaint with which the model is asked again: None where the value will do, ""
where the same prompt is sent once more."""

_COMPLAINTS = {
    Outcome.TRUNCATED: "A first reply to this was cut off for its length. Write one that is much shorter and complete.",
    Outcome.EMPTY: "A first reply to this came back empty. Write the reply that is asked for.",
}
_REASONS = {
    Outcome.TRUNCATED: "asked twice, and the last reply was cut off at the limit of output tokens",
    Outcome.EMPTY: "asked twice, and the last reply held nothing",
}
_YES_OR_NO = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
_THOUGHT = re.compile(r"\s*<think>(.*?)(</think>\s*|\Z)", re.DOTALL)


async def ask(
    model: Model,
    prompt: Prompt,
    read: Callable[[Completion, int], Found[Value]],
    *,
    failed: Callable[[ModelError, int], Found[Value]] | None = None,
    tries: int = 2,
) -> Value:
    """What `read` finds in the reply to `prompt`, asked again until it has no complaint, at most `tries` times.

    `read` is handed each reply and the number of its try, from 0. `failed` is handed a call's `ModelError` in the same
    way; without it, or where the error may pass, it is raised.
    """
    for attempt in range(tries):
        try:
            reply = await model.complete(prompt)
        except ModelError as error:
            if failed is None or error.transient:
                raise
            value, complaint = failed(error, attempt)
        else:
            value, complaint = read(reply, attempt)
        if complaint is None:
            break
        prompt = prompt.again(complaint) if complaint else prompt
    return value


async def ended(parts: Iterable[Awaitable[Value]]) -> list[Value]:
    """The results of `parts`, run concurrently, in order; the first exception once all have ended.

    What is in flight has been paid for, so an error of one part (a `UserError`: nothing can be called) cuts no other
    part short.
    """
    tasks = [asyncio.ensure_future(part) for part in parts]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


def complete_lines(text: str) -> str:
    """The lines of a reply that was cut off, without the last one unless it had been ended."""
    return text.rpartition("\n")[0].rstrip()


def _nothing(text: str) -> str:
    return ""


def _as_it_is(text: str) -> str:
    return text


def _decided(text: str) -> str:
    return text if _YES_OR_NO.search(text) else ""


@dataclass(frozen=True, slots=True)
class Policy:
    """What of a cut-off reply can be used, the first time and the second; whether a second empty reply is a reply."""

    cut: Callable[[str], str]
    cut_again: Callable[[str], str]
    may_be_empty: bool = False


_ANSWER = Policy(_nothing, _nothing)  # half an answer would be judged as if its author had left the rest out
# What is lost of keys and notes is lost for good, so a shorter whole is asked for before the complete lines are taken.
_LINES = Policy(_nothing, complete_lines, may_be_empty=True)  # a pair may hold nothing new
_DECISION = Policy(_decided, _decided)  # one word decides; half of it decides nothing
_FORMED = Policy(_as_it_is, _as_it_is)  # scoring repairs what it can of the JSON
_CODE = Policy(_as_it_is, _as_it_is)  # the published answers have a limit as well, and count as they came

MEMORYCODE = tuple(f"memorycode_{name}" for name in ("instruction", "session", "history", "chain", "recalled", "alone"))
"""Prompts whose replies are code that is scored by rules."""

MEMORIES = ("file_memory_ingest", "file_memory_recall", "wiki_compile", "wiki_choose", "dependency_notes")
"""Prompts of the memories in `beam_memories.evolving`, whose replies are JSON: half of one would note half a fact."""

MEME_JUDGES = tuple(
    f"meme_judge_{task}" for task in ("aggregation", "tracking", "cascade", "absence", "deletion", "before")
)
"""Prompts whose replies are verdicts of `beam_meme`, as JSON."""

POLICIES = {
    "answer": _ANSWER,
    "answer_full": _ANSWER,
    "answer_full_released": _ANSWER,
    "episodic_keys": _LINES,
    "scratchpad_notes": _LINES,
    "scratchpad_compress": Policy(_nothing, complete_lines),
    "scratchpad_filter": _DECISION,
    "align_events": _DECISION,
    "align_batch": _FORMED,
    "judge_nugget": _FORMED,
    "meme_answer": _ANSWER,
    **dict.fromkeys(MEME_JUDGES, _FORMED),
    **dict.fromkeys(MEMORYCODE, _CODE),
    **dict.fromkeys(MEMORIES, _ANSWER),
    "detect_question": _DECISION,
    "detect_followup": _DECISION,
    # Generation repairs by its own rules what of a cut-off list can be used.
    "questions_general": _FORMED,
    "questions_coding": _FORMED,
    "questions_math": _FORMED,
}


class RetryingModel:
    """A `Model` that asks again once where a reply was cut off or empty, and names the outcome where that did not help.

    A leading `<think>…</think>` (Qwen3, DeepSeek) is taken off; one that never ends means the reply was cut off before
    it began. Prompt ids that `POLICIES` does not know are treated as answers.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def name(self) -> str:
        """The name of the model that answers."""
        return self.model.name

    async def complete(self, prompt: Prompt) -> Completion:
        """The usable reply to `prompt`; `ModelError` with outcome TRUNCATED or EMPTY where two tries gave none."""
        policy = POLICIES.get(prompt.id, _ANSWER)

        def read(reply: Completion, attempt: int) -> Found[Completion | Outcome]:
            cut, may_be_empty = (policy.cut_again, policy.may_be_empty) if attempt else (policy.cut, False)
            found = _usable(reply, cut, may_be_empty=may_be_empty)
            return found, _COMPLAINTS[found] if isinstance(found, Outcome) else None

        found = await ask(self.model, prompt, read)
        if isinstance(found, Outcome):
            raise ModelError(_REASONS[found], found)
        return found


def _usable(reply: Completion, cut: Callable[[str], str], *, may_be_empty: bool) -> Completion | Outcome:
    thought = _THOUGHT.match(reply.text)
    text = reply.text[thought.end() :] if thought else reply.text
    unfinished = thought is not None and not thought[2]
    if unfinished or reply.finish_reason == "length":
        text = cut(text)
        if not text.strip():
            return Outcome.TRUNCATED
    elif not text.strip():
        if not may_be_empty:
            return Outcome.EMPTY
        text = ""
    return replace(reply, text=text)
