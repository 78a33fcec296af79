"""The offline stand-in: it answers the project's prompts by rules. It is not a language model.

It exists so that the whole pipeline runs end to end on a laptop, with no key, no network and no weights, and so that
tests can be exact. Every reply is a pure function of the prompt's variables. Numbers that rest on it measure the
pipeline and the retrieval behind it, not any language model; whatever shows them carries `OFFLINE_NAME`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from beam_offline.coder import code_by, plain_code
from beam_offline.evolving_rules import EVOLVING_RULES
from beam_offline.judge import align_batch, align_events, judge_nugget
from beam_offline.key_rules import episodic_keys
from beam_offline.meme_answers import meme_answer
from beam_offline.meme_verdicts import MEME_VERDICTS
from beam_offline.notes import scratchpad_compress, scratchpad_filter, scratchpad_notes
from beam_offline.reader import answer
from beamlib.llm.chat_turns import dialogue_text, dialogue_tokens
from beamlib.llm.model import OFFLINE_NAME, Completion, ModelError, Prompt, Usage
from beamlib.llm.prompts import prompt_file, render
from beamlib.text import TOKEN_COUNTER, WORDS, count_tokens

REPLIES: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "answer": answer,
    "answer_full": answer,
    "answer_full_released": answer,
    "answer_turns": answer,
    "episodic_keys": episodic_keys,
    "scratchpad_notes": scratchpad_notes,
    "scratchpad_compress": scratchpad_compress,
    "scratchpad_filter": scratchpad_filter,
    "judge_nugget": judge_nugget,
    "align_events": align_events,
    "align_batch": align_batch,
    "memorycode_instruction": code_by("guideline"),
    "memorycode_session": code_by("session"),
    "memorycode_history": code_by("sessions"),
    "memorycode_chain": code_by("guidelines"),
    "memorycode_recalled": code_by("context"),
    "memorycode_alone": plain_code,
    **EVOLVING_RULES,
    "meme_answer": meme_answer,
    **MEME_VERDICTS,
}
"""The prompt ids that the stand-in answers, and the function of the variables that answers each."""


@lru_cache(maxsize=64)
def _frame_tokens(prompt_id: str, empty: frozenset[str]) -> int:
    """Tokens of the prompt without its variables; what it says can depend on which of them are empty."""
    values = {name: "" if name in empty else " " for name in prompt_file(prompt_id).variables}
    return sum(count_tokens(message["content"]) for message in render(prompt_id, values))


class OfflineModel:
    """A `Model` that replies by rules, deterministically and at once."""

    name = OFFLINE_NAME
    token_counter = TOKEN_COUNTER
    """Names the counter of `usage`."""

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer `prompt`; an id the stand-in has no rules for, or a missing variable, is a `ModelError`.

        A repeated call, or one made again, gets the same reply: its rules know no chance and no second thought. Usage
        counts the prompt's frame and its variables apart, without rendering them together.
        """
        reply = REPLIES.get(prompt.id)
        if reply is None:
            raise ModelError(f"the {OFFLINE_NAME}, has no rules for prompt '{prompt.id}'; it answers {sorted(REPLIES)}")
        variables = dict(prompt.variables)
        if prompt.id == "answer_turns":
            variables["context"] = dialogue_text(prompt.turns)  # its rules read one text
        try:
            text = reply(variables)
        except KeyError as error:
            raise ModelError(f"prompt '{prompt.id}' needs the variable {error} and was not given it") from error
        empty = frozenset(name for name, value in prompt.variables.items() if not value)
        size = _frame_tokens(prompt.id, empty) + sum(count_tokens(value) for value in prompt.variables.values())
        return Completion(text, Usage(size + dialogue_tokens(prompt.turns, WORDS), count_tokens(text)))
