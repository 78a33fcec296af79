"""Which calls LIGHT makes, in which order and how many at a time, and what a failed one means."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from beamlib.data.conversations import Conversation
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt
from beamlib.memory import RetrievedContext
from beamlib.memory.light import Light, LightSettings

SETTINGS = LightSettings(k=3, working_pairs=2)
QUESTIONS = ["What is the starter called?", "Who delivers the flour?", "What colour is the sign?"]


class Waves:
    """Answers no call before every call that can be waiting is: each wave is one step that depends on the last."""

    name = "waves"

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.waves: list[list[Prompt]] = []
        self._waiting: list[tuple[Prompt, asyncio.Event]] = []

    async def complete(self, prompt: Prompt) -> Completion:
        gate = asyncio.Event()
        self._waiting.append((prompt, gate))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_later(0.01, self._open)
        await gate.wait()
        return await self.inner.complete(prompt)

    def _open(self) -> None:
        self.waves.append([prompt for prompt, _ in self._waiting])
        for _, gate in self._waiting:
            gate.set()
        self._waiting = []


def test_reading_is_one_step_and_the_compressors(bakery: Conversation, make_model: Any) -> None:
    memory = Waves(make_model(scratchpad_notes=lambda v: "- " + "w " * 30 + v["pair"][:20]))
    compressor = Waves(make_model(scratchpad_compress=lambda v: v["notes"].split("\n")[-1]))
    settings = LightSettings(k=3, scratchpad_threshold=200, scratchpad_target=100)
    light = Light(memory, settings, compressor=compressor)
    light.ingest(bakery)
    assert len(memory.waves) == 1
    pairs = [f"messages {i}-{i + 1}" for i in range(0, 32, 2)]
    assert [(prompt.id, prompt.about) for prompt in memory.waves[0]] == [
        (prompt_id, about) for about in pairs for prompt_id in ("episodic_keys", "scratchpad_notes")
    ]
    assert light.scratchpad.compressions == len(compressor.waves) > 1
    covered = [prompt.about for wave in compressor.waves for prompt in wave]
    assert {prompt.id for wave in compressor.waves for prompt in wave} == {"scratchpad_compress"}
    assert covered == sorted(covered, key=lambda about: int(about.rpartition("-")[2]))
    assert all(about.startswith("messages 0-") for about in covered)
    light.variant(settings).recall(QUESTIONS[0])
    assert len(compressor.waves) == light.scratchpad.compressions
    light.variant(settings).ingest(bakery)
    assert len(compressor.waves) == 2 * light.scratchpad.compressions


def test_all_questions_are_filtered_in_one_step_chunk_by_chunk(bakery: Conversation, make_model: Any) -> None:
    model = Waves(make_model())
    light = Light(model, SETTINGS)
    light.ingest(bakery)
    one_by_one = [light.recall(question) for question in QUESTIONS]
    before = len(model.waves)
    assert light.recall_all(QUESTIONS) == one_by_one
    assert len(model.waves) == before + 1
    asked = [(prompt.variables["chunk"], prompt.variables["question"]) for prompt in model.waves[-1]]
    assert asked == [(chunk.text, question) for chunk in light.chunks for question in QUESTIONS]
    assert all(prompt.about for prompt in model.waves[-1])


def test_a_question_asked_twice_is_filtered_once(bakery: Conversation, make_model: Any) -> None:
    model = make_model()
    light = Light(model, SETTINGS)
    light.ingest(bakery)
    before = len(model.asked)
    first, other, again = light.recall_all([QUESTIONS[0], QUESTIONS[1], QUESTIONS[0]])
    assert first == again != other
    assert len(model.asked) - before == 2 * len(light.chunks)
    assert light.recall_all([]) == []


def test_without_notes_nothing_is_filtered(bakery: Conversation, make_model: Any) -> None:
    light = Light(make_model(scratchpad_notes=lambda v: "- \n"), SETTINGS)
    light.ingest(bakery)
    assert light.pad == "" and light.chunks == ()
    assert "scratchpad" not in light.recall(QUESTIONS[0]).parts


def test_a_failed_filter_call_fails_its_question_alone(bakery: Conversation, make_model: Any) -> None:
    fails = lambda v: "FAIL: overloaded" if "flour" in v["question"] and "Gerda" in v["chunk"] else "yes"  # noqa: E731
    light = Light(make_model(scratchpad_filter=fails), SETTINGS)
    light.ingest(bakery)
    first, second, third = light.recall_all(QUESTIONS)
    assert isinstance(first, RetrievedContext) and isinstance(third, RetrievedContext)
    assert isinstance(second, ModelError)
    assert str(second) == "scratchpad_filter for the question 'Who delivers the flour?': FAIL: overloaded"
    with pytest.raises(ModelError, match="FAIL: overloaded"):
        light.recall(QUESTIONS[1])


class Failing:
    """Fails the calls about some messages, each with its own outcome."""

    name = "failing"

    def __init__(self, inner: Any, outcomes: dict[tuple[str, str], Outcome]) -> None:
        self.inner, self.outcomes = inner, outcomes

    async def complete(self, prompt: Prompt) -> Completion:
        outcome = self.outcomes.get((prompt.id, prompt.about))
        if outcome is not None:
            raise ModelError("no reply", outcome)
        return await self.inner.complete(prompt)


def test_a_final_failure_outweighs_a_passing_one(bakery: Conversation, make_model: Any) -> None:
    """Asking again cannot help while too many calls are refused for good, so the reading is not to be tried again."""
    failures = {
        ("scratchpad_notes", "messages 4-5"): Outcome.UNAVAILABLE,
        ("episodic_keys", "messages 6-7"): Outcome.FILTERED,
        ("episodic_keys", "messages 8-9"): Outcome.TRUNCATED,
        ("scratchpad_notes", "messages 8-9"): Outcome.TRUNCATED,
        ("scratchpad_notes", "messages 10-11"): Outcome.FILTERED,
    }
    with pytest.raises(ModelError) as caught:
        Light(Failing(make_model(), failures), SETTINGS).ingest(bakery)
    assert str(caught.value) == "episodic_keys for messages 6-7: no reply (and 4 more failed calls of 32)"
    assert caught.value.outcome is Outcome.FILTERED and not caught.value.transient


def test_a_passing_failure_beside_a_gap_is_tried_again(bakery: Conversation, make_model: Any) -> None:
    failures = {
        ("scratchpad_notes", "messages 4-5"): Outcome.UNAVAILABLE,
        ("episodic_keys", "messages 6-7"): Outcome.FILTERED,
    }
    with pytest.raises(ModelError) as caught:
        Light(Failing(make_model(), failures), SETTINGS).ingest(bakery)
    assert caught.value.transient and "messages 4-5" in str(caught.value)


def test_a_failed_compression_keeps_its_outcome(bakery: Conversation, make_model: Any) -> None:
    class Down:
        name = "down"

        async def complete(self, prompt: Prompt) -> Completion:
            raise ModelError("nobody answers", Outcome.UNAVAILABLE)

    light = Light(make_model(), LightSettings(scratchpad_threshold=150, scratchpad_target=100), compressor=Down())
    with pytest.raises(ModelError, match=r"scratchpad_compress for messages 0-\d+: nobody answers") as caught:
        light.ingest(bakery)
    assert caught.value.transient
    with pytest.raises(RuntimeError, match="call ingest first"):
        light.recall_all(QUESTIONS)
