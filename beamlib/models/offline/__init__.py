"""The offline stand-in: it answers the project's prompts by rules. It is not a language model.

It exists so that the whole pipeline runs end to end on a laptop, with no key, no network and no weights, and so that
tests can be exact. Every reply is a pure function of the prompt's variables. Numbers that rest on it measure the
pipeline and the retrieval behind it, not any language model; whatever shows them carries `OFFLINE_NAME`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from beamlib.models.base import Completion, ModelError, Prompt, Usage
from beamlib.models.offline.judge import align_events, judge_nugget
from beamlib.models.offline.keys import episodic_keys
from beamlib.models.offline.notes import scratchpad_compress, scratchpad_filter, scratchpad_notes
from beamlib.models.offline.reader import answer
from beamlib.models.prompts import prompt_file
from beamlib.text import TOKEN_COUNTER, count_tokens

OFFLINE_NAME = "offline stand-in, not a language model"


REPLIES: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "answer": answer,
    "answer_full": answer,
    "episodic_keys": episodic_keys,
    "scratchpad_notes": scratchpad_notes,
    "scratchpad_compress": scratchpad_compress,
    "scratchpad_filter": scratchpad_filter,
    "judge_nugget": judge_nugget,
    "align_events": align_events,
}
"""The prompt ids that the stand-in answers, and the function of the variables that answers each."""


@lru_cache(maxsize=64)
def _frame_tokens(prompt_id: str) -> int:
    return count_tokens(prompt_file(prompt_id).template)


class OfflineModel:
    """A `Model` that replies by rules, deterministically and at once."""

    name = OFFLINE_NAME
    token_counter = TOKEN_COUNTER

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer `prompt`; an id the stand-in has no rules for, or a missing variable, is a `ModelError`.

        Usage counts the prompt's frame and its variables apart, without rendering them together.
        """
        reply = REPLIES.get(prompt.id)
        if reply is None:
            raise ModelError(f"the {OFFLINE_NAME}, has no rules for prompt '{prompt.id}'; it answers {sorted(REPLIES)}")
        try:
            text = reply(prompt.variables)
        except KeyError as error:
            raise ModelError(f"prompt '{prompt.id}' needs the variable {error} and was not given it") from error
        size = _frame_tokens(prompt.id) + sum(count_tokens(value) for value in prompt.variables.values())
        return Completion(text, Usage(size, count_tokens(text)))
