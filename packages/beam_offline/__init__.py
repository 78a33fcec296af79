"""The offline stand-in: it answers the project's prompts by extraction. It is not a language model.

With it the whole pipeline runs end to end on a laptop, with no key, no network and no weights to download, and tests
can be exact. Every reply is a pure function of the prompt. Numbers that rest on it measure the pipeline and the
retrieval behind it, not any language model; whatever shows them carries `OFFLINE_NAME`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from beam_offline.evolving import EVOLVING_REPLIES
from beam_offline.judge import align_batch, align_events, judge_nugget
from beam_offline.meme_verdicts import MEME_VERDICTS
from beam_offline.notes import episodic_keys, filter_batch, scratchpad_compress, scratchpad_filter, scratchpad_notes
from beam_offline.reader import CONTEXT_PARTS, answer
from beamlib.llm.model import OFFLINE_NAME, Completion, ModelError, Prompt, Usage
from beamlib.llm.prompts import prompt_file, render
from beamlib.memory.declared import memories
from beamlib.memory.full_context import dialogue_tokens
from beamlib.text import TOKEN_COUNTER, WORDS, count_tokens

Reply = Callable[[Mapping[str, str]], str]
"""Replies to a prompt by its variables."""

_REPLIES: Final[Mapping[str, Reply]] = {
    "episodic_keys": episodic_keys,
    "scratchpad_notes": scratchpad_notes,
    "scratchpad_compress": scratchpad_compress,
    "scratchpad_filter": scratchpad_filter,
    "filter_batch": filter_batch,
    "judge_nugget": judge_nugget,
    "align_events": align_events,
    "align_batch": align_batch,
    **EVOLVING_REPLIES,
    **MEME_VERDICTS,
}

ANSWERED: Final = frozenset((*CONTEXT_PARTS, *_REPLIES))
"""The ids of the prompts that the stand-in answers."""


@lru_cache(maxsize=64)
def _frame_tokens(prompt_id: str, empty: frozenset[str]) -> int:
    """Count the prompt's tokens without its variables. The text can depend on which of them are empty."""
    values = {name: "" if name in empty else " " for name in prompt_file(prompt_id).variables}
    return sum(count_tokens(message["content"]) for message in render(prompt_id, values))


def declared_replies() -> Mapping[str, Reply]:
    """Return the replies that memories bring with them for prompts of their own, by prompt."""
    return {prompt: reply for kind in memories().values() for prompt, reply in kind.stand_in.items()}


class OfflineModel:
    """A `Model` that replies by extraction, deterministically and at once."""

    name = OFFLINE_NAME
    token_counter = TOKEN_COUNTER
    """The counter of `usage`."""

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer `prompt`. Repeats and second attempts get the same reply.

        Usage counts the prompt's frame and its variables apart, without rendering them together.

        Raises:
            ModelError: The id is unknown, or a variable is missing.
        """
        replies = _REPLIES if prompt.id in ANSWERED else declared_replies()
        if prompt.id not in CONTEXT_PARTS and prompt.id not in replies:
            raise ModelError(f"the {OFFLINE_NAME}, has no reply to prompt '{prompt.id}'; it knows {sorted(ANSWERED)}")
        try:
            text = answer(prompt) if prompt.id in CONTEXT_PARTS else replies[prompt.id](prompt.variables)
        except KeyError as error:
            raise ModelError(f"prompt '{prompt.id}' needs the variable {error}; add it") from error
        empty = frozenset(name for name, value in prompt.variables.items() if not value)
        size = _frame_tokens(prompt.id, empty) + sum(count_tokens(value) for value in prompt.variables.values())
        return Completion(text, Usage(size + dialogue_tokens(prompt.turns, WORDS), count_tokens(text)))
