"""Small made-up conversations and a model whose replies the test writes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import settings

from beamlib.data.conversations import Batch, Conversation, Message, Seed, Turn
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")  # how busy the machine is says nothing about the code


class ScriptedModel:
    """Answers each prompt id by a function of the prompt's variables and keeps what it was asked."""

    name = "scripted"

    def __init__(self, **replies: Callable[[dict[str, str]], str]) -> None:
        self.asked: list[Prompt] = []
        self.replies = {
            "episodic_keys": lambda v: "- topic: " + v["pair"].split("USER: ")[1].split("\n")[0] + "\nsummary: a talk",
            "scratchpad_notes": lambda v: "- noted: " + v["pair"].split("USER: ")[1].split("\n")[0],
            "scratchpad_compress": lambda v: v["notes"][: 2 * int(v["target_tokens"])],
            "scratchpad_filter": lambda v: "yes",
            **replies,
        }

    async def complete(self, prompt: Prompt) -> Completion:
        assert prompt.messages, "every prompt must render"
        self.asked.append(prompt)
        reply = self.replies[prompt.id](dict(prompt.variables))
        if reply.startswith("FAIL"):
            raise ModelError(reply)
        if reply.startswith("DOWN"):
            raise ModelError(reply, Outcome.UNAVAILABLE)
        return Completion(reply)

    def variables(self, prompt_id: str) -> list[dict[str, str]]:
        return [dict(prompt.variables) for prompt in self.asked if prompt.id == prompt_id]


def build(turns: Sequence[Sequence[tuple[str, str]]], plans: Sequence[int] | None = None) -> Conversation:
    """A conversation of `turns`, each a list of (user, assistant) texts; one batch per turn, `plans` gives its plan."""
    batches, next_id = [], 0
    for number, turn in enumerate(turns):
        messages = []
        for user, assistant in turn:
            messages += [Message(next_id, "user", user), Message(next_id + 1, "assistant", assistant)]
            next_id += 2
        plan = plans[number] if plans else 0
        batches.append(Batch(number + 1, (Turn(tuple(messages)),), plan=plan))
    return Conversation("100K-0", "100K", Seed("Cooking", "made up"), tuple(batches))


class BagOfWords:
    """A toy encoder: one dimension per word (by checksum), rows of length 1."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.zeros((len(texts), 512), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                row[zlib.crc32(word.strip(".,!?").encode()) % 512] += 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


@pytest.fixture(scope="session")
def toy_encoder() -> BagOfWords:
    return BagOfWords()


@pytest.fixture(scope="session")
def make_conversation() -> Callable[..., Conversation]:
    return build


@pytest.fixture(scope="session")
def make_model() -> type[ScriptedModel]:
    return ScriptedModel


@pytest.fixture
def bakery() -> Conversation:
    """Twelve turns of one or two pairs about a bakery; every fact is said once."""
    facts = [
        "the sourdough starter is called Gerda",
        "the oven from Lyon cost 18,400 euros",
        "the rent for the shop is due on May 3, 2024",
        "Tomas delivers flour every second Thursday",
        "never suggest palm oil in any recipe",
        "the rye bread needs nineteen hours",
        "Ilse wants to buy the espresso machine in June",
        "the insurance covers water damage up to 9,000 euros",
        "the croissants sold out at half past eight",
        "the new sign is painted in dark green",
        "the tax adviser is named Mrs. Okafor",
        "we open a second shop in Ghent in October",
    ]
    turns = []
    for number, fact in enumerate(facts):
        pairs = [(f"Just so you know, {fact}.", f"Understood. I will keep in mind that {fact}. Anything else?")]
        if number % 3 == 1:
            pairs.append((f"Yes, remind me of point {number}.", f"I will remind you of point {number} in time."))
        turns.append(pairs)
    return build(turns)
