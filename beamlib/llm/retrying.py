"""Ask again when a reply cannot be used, and decide by prompt what of a truncated reply can be.

`RetryingModel` sits outside the store: replies are stored as they arrived, so new rules cost no call.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt
from beamlib.llm.prompts import prompt_file, render, static_texts
from beamlib.llm.thoughts import LearntMark, clean_reply

ReplyValue = TypeVar("ReplyValue")
ReadReply = tuple[ReplyValue, str | None]
"""A value read from a reply, and the complaint to ask again with: None accepts the value, "" repeats the prompt."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why a reply cannot be used: the complaint to ask again with, and the reason if the last reply has it too."""

    outcome: Outcome
    complaint: str
    reason: str


_CUT = _Problem(
    Outcome.TRUNCATED,
    "A first reply to this was cut off for its length. Write one that is much shorter and complete.",
    "asked twice, and the last reply was cut off at the limit of output tokens",
)
_EMPTY = _Problem(
    Outcome.EMPTY,
    "A first reply to this came back empty. Write the reply that is asked for.",
    "asked twice, and the last reply was empty",
)
_THOUGHTS = _Problem(
    Outcome.UNREADABLE,
    "A first reply to this held thoughts alone. Write the reply that is asked for, without thoughts.",
    "asked twice, and the last reply held thoughts without an end; a longer limit of output tokens may help",
)
_ECHO = _Problem(
    Outcome.UNREADABLE,
    "A first reply to this repeated a part of this request. Write the reply that is asked for.",
    "asked twice, and the last reply repeated its prompt",
)
UNDECIDED = "A first reply to this was not a clear yes or no. Reply with that word only."
"""The complaint about a reply without a decision."""

_LABEL = re.compile(
    r"\W*(?:```\w+\s|(?:(?:final|my|the) )*(?:answer|decision|output|response|result|verdict)(?:\W*:| is\b))"
)
_FIRST_WORD = re.compile(r"\W*(yes|no)\b(?![-'’]\w)(?:(?: ?/ ?| and | or )(yes|no)\b)?")
_NO_DOUBT = re.compile(r"\W*no[ \t]+(?!(?:as|because|but|i|it|since|that|the|there|these|they|this|those|we)\b)\w")
_LAST_WORD = re.compile(r"([^.!?\n]*)(?<![-'’])\b(yes|no)\W*\Z")
_WORD_BEFORE = re.compile(r"\b(yes|no)(?: ?/ ?| and | or )\Z")
_NEGATION = re.compile(r"\b(?:cannot|neither|never|nor|not|than)\b|n['’]t\b")
_LAST_CHARACTERS = 300  # that hold a reply's last word and what denies it

_TRUNCATED = re.compile(r"length|max|limit|window|trunc|incomplete", re.IGNORECASE)
_ENDED = re.compile(r"(?<![a-z])(?:eo[stm]|stop|end|finish)", re.IGNORECASE)
"""A token that ends a reply, in a reason of which nothing else speaks of a limit: `eos_token_id`, `stop_tokens`."""


def is_truncated(finish_reason: str) -> bool:
    """Whether a reply was cut off at a limit of tokens. Any other reason ends a reply whose text counts as it is."""
    if _TRUNCATED.search(finish_reason):
        return True
    return "token" in finish_reason.casefold() and not _ENDED.search(finish_reason)


async def ask(
    model: Model,
    prompt: Prompt,
    read: Callable[[Completion, int], ReadReply[ReplyValue]],
    *,
    failed: Callable[[ModelError, int], ReadReply[ReplyValue]] | None = None,
    tries: int = 2,
) -> ReplyValue:
    """Return what `read` makes of the reply to `prompt`, asking again while it complains.

    Args:
        read: Gets a reply and the number of its try, from 0.
        failed: Gets the `ModelError` of a call instead. Without it, or if the error is transient, it is raised.
        tries: How often to ask; the last value is returned with or without a complaint.
    """
    fresh = False
    prompts: list[Prompt] = []
    for attempt in range(tries):
        prompts.append(prompt)
        try:
            reply = await model.complete(prompt)
        except ModelError as error:
            if failed is None or error.transient:
                raise
            value, complaint = failed(error, attempt)
        else:
            value, complaint = read(reply, attempt)
            fresh = reply.fresh
        if complaint is None:
            break
        prompt = prompt.again(complaint) if complaint else prompt
    if fresh and (report := getattr(model, "report_reading", None)):
        await report(complaint, prompts)  # too many unusable ones in a row end the run
    return value


async def gather(parts: Iterable[Awaitable[ReplyValue]]) -> list[ReplyValue]:
    """Await all `parts` concurrently and return their results in order, then raise the first exception.

    An error of one part cuts no other short: pending replies have been paid for.
    """
    tasks = [asyncio.ensure_future(part) for part in parts]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


def complete_lines(text: str) -> str:
    """Drop the last line of a truncated reply, unless it was ended."""
    return text.rpartition("\n")[0].rstrip()


@dataclass(frozen=True, slots=True)
class Policy:
    """What of a truncated reply can be used on the first try and on the second, and whether a reply may be empty."""

    first: Callable[[str], str]
    second: Callable[[str], str]
    may_be_empty: bool = False


def _nothing(text: str) -> str:
    return ""


def read_decision(reply: str, *, cut: bool = False) -> bool | None:
    """Read a yes or a no: the first word of a reply, or the last.

    Words are whole: "yesterday" is no yes, and neither is "no doubt" a no. A label ("Answer:") or a code fence may come
    first.

    Args:
        cut: The reply was cut off, so its last word decides nothing.

    Returns:
        None if neither word decides, or if they contradict each other ("yes or no", "not a yes").
    """
    text = reply.replace("_", " ").casefold().rstrip()
    if label := _LABEL.match(text):
        text = text[label.end() :]
    decisions: set[str] = set()
    if (first := _FIRST_WORD.match(text)) and not _NO_DOUBT.match(text):
        decisions.update(word for word in first.groups() if word)
    if not cut and (last := _LAST_WORD.search(text[-_LAST_CHARACTERS:])):
        before, word = last.groups()
        if word == "yes" and _NEGATION.search(before):
            return None
        decisions.add(word)
        if other := _WORD_BEFORE.search(before):
            decisions.add(other[1])
    return decisions == {"yes"} if len(decisions) == 1 else None


def _decision(text: str) -> str:
    return text if read_decision(text, cut=True) is not None else ""


_ANSWER = Policy(_nothing, _nothing)  # half an answer would be judged as if its author had left the rest out
_LINES = Policy(_nothing, complete_lines, may_be_empty=True)  # lost keys and notes stay lost; a pair may have none
_DECISION = Policy(_decision, _decision)
_WHOLE = Policy(str, str)  # scoring and generation repair what they can of JSON, lists and code

_MEMORYCODE = tuple(
    f"memorycode_{name}" for name in ("instruction", "session", "history", "chain", "recalled", "alone")
)
"""Prompts whose replies are code that is scored by rules. The published answers were limited too, and count as is."""
MEMORIES = ("file_memory_ingest", "file_memory_recall", "wiki_compile", "wiki_choose", "dependency_notes")
"""Prompts of the memories in `beam_memories.evolving`, whose replies are JSON: half of one would note half a fact."""
MEME_JUDGES = tuple(
    f"meme_judge_{task}" for task in ("aggregation", "tracking", "cascade", "absence", "deletion", "before")
)
"""Prompts whose replies are verdicts of `beam_meme`, as JSON."""

POLICIES = {
    **dict.fromkeys(
        ("answer", "answer_full", "answer_full_released", "answer_turns", "meme_answer", *MEMORIES), _ANSWER
    ),
    **dict.fromkeys(("episodic_keys", "scratchpad_notes"), _LINES),
    "scratchpad_compress": Policy(_nothing, complete_lines),
    **dict.fromkeys(("scratchpad_filter", "align_events", "detect_question", "detect_followup"), _DECISION),
    **dict.fromkeys(("align_batch", "filter_batch", "judge_nugget", *MEME_JUDGES, *_MEMORYCODE), _WHOLE),
    **dict.fromkeys(("questions_general", "questions_coding", "questions_math"), _WHOLE),
}
"""The policy of each prompt id. Other prompts are treated as answers."""


class RetryingModel:
    """A `Model` that asks again once after a reply that cannot be used, and removes a model's thoughts from replies.

    Args:
        learnt: Marks of the model's thoughts that were seen in earlier replies.
    """

    def __init__(self, model: Model, learnt: Sequence[LearntMark] = ()) -> None:
        self.model = model
        self.learnt = tuple(learnt)

    @property
    def name(self) -> str:
        """The name of the model that answers."""
        return self.model.name

    async def complete(self, prompt: Prompt) -> Completion:
        """Return a usable reply to `prompt`.

        Raises:
            ModelError: two tries gave none (TRUNCATED, EMPTY), or it cannot be told what the reply is (UNREADABLE).
        """
        policy = POLICIES.get(prompt.id, _ANSWER)

        def read(reply: Completion, attempt: int) -> ReadReply[Completion | _Problem]:
            cut, may_be_empty = (policy.second, policy.may_be_empty) if attempt else (policy.first, False)
            result = self._usable(reply, prompt, cut, may_be_empty=may_be_empty)
            return result, result.complaint if isinstance(result, _Problem) else None

        result = await ask(self.model, prompt, read)
        if isinstance(result, _Problem):
            raise ModelError(result.reason, result.outcome)
        return result

    async def report_reading(self, complaint: str | None, prompts: Sequence[Prompt]) -> None:
        """Report what the caller made of a usable reply, as `ask` does."""
        if report := getattr(self.model, "report_reading", None):
            await report(complaint, prompts, of_value=True)

    def _usable(
        self, reply: Completion, prompt: Prompt, cut: Callable[[str], str], *, may_be_empty: bool
    ) -> Completion | _Problem:
        clean = clean_reply(reply.text, self.learnt)
        text, truncated = clean.text, is_truncated(reply.finish_reason)
        if clean.ran_on and self.name not in _RUNNING_ON:
            _RUNNING_ON.add(self.name)
            print(
                f"{self.name} writes on after the token that ends its turn, and that text is left out. Its server has "
                "a chat template or stop tokens that do not fit the model; correct them.",
                file=sys.stderr, flush=True,
            )  # fmt: skip
        if clean.unfinished or truncated:
            text, reply = cut(text), replace(reply, finish_reason="length")
            if not text.strip():
                return _CUT if truncated else _THOUGHTS
        elif not text.strip():
            return replace(reply, text="") if may_be_empty else _EMPTY
        return _ECHO if repeats_request(text, prompt) else replace(reply, text=text)


_RUNNING_ON: set[str] = set()
"""Models of which it was said that they do."""
_ECHOED_WORDS = 4
"""Words of a prompt that are no reply: the shortest, such as `yes` or `[]`, stand in prompts too."""
_OPENING_WORDS = 12
"""Words at the start of a request that no reply begins with by chance."""


def repeats_request(reply: str, prompt: Prompt) -> bool:
    """Tell whether a reply is a part of its prompt's own text, such as a form in it, or begins as the request does."""
    words = reply.strip(" \t\r\n`*\"'>-").casefold().split()
    if len(words) < _ECHOED_WORDS:
        return False
    said = " ".join(words)
    own = (" ".join(text.casefold().split()) for text in static_texts(prompt_file(prompt.id)))
    if any(said in text for text in own):
        return True
    starts = {name: value[: _OPENING_WORDS * 20] for name, value in prompt.variables.items()}
    requests = (message["content"].casefold().split() for message in render(prompt.id, starts))
    return any(
        words[:_OPENING_WORDS] == request[:_OPENING_WORDS] for request in requests if len(words) >= _OPENING_WORDS
    )
