"""What the reader gets from the long-context baseline, as described and as released (M8 to M11 of the reference)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from beamlib.data.loading import load
from beamlib.data.sources import find_conversations
from beamlib.evaluate.answering import answer_arms
from beamlib.evaluate.arms import Arm
from beamlib.llm.model import Completion, ModelRoles, Prompt
from beamlib.memory.budget import RESERVE_TOKENS, passage_tokens
from beamlib.memory.full_context import FullContext
from beamlib.memory.protocol import passage
from beamlib.params import RunParameters, load_parameters
from beamlib.run import Run


class Listening:
    """A reader that keeps what it is asked."""

    name = "listening"

    def __init__(self) -> None:
        self.asked: list[Prompt] = []

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        return Completion("noted")


def asked(beam_data: Path, parameters: RunParameters) -> tuple[list[str], list[Prompt]]:
    """The questions of the first 100K conversation and the prompts that the long-context reader gets for them."""
    source = next(one for one in find_conversations(beam_data) if one.size == "100K")
    parameters = Run.of(parameters)
    loaded = load(source, parameters.treatment)
    reader = Listening()
    roster = ModelRoles(reader, reader, reader, reader, reader)
    answer_arms([Arm(memory="full-context")], loaded.conversation, loaded.probes, parameters, roster, {})
    return [probe.question for probe in loaded.probes], sorted(reader.asked, key=lambda prompt: prompt.about)


@pytest.mark.parametrize("released", [[], ["questions_accumulate"]])
def test_questions_in_a_prompt(beam_data: Path, repo_root: Path, released: list[str]) -> None:
    """M9: 1, 1, 2, 3, ... 19 of the twenty, where a question of its own is all that is meant."""
    questions, prompts = asked(beam_data, load_parameters(repo_root / "params/100k.yaml", released=released))
    counts = []
    for place, prompt in enumerate(prompts):
        text = "\n".join(message["content"] for message in prompt.messages)
        counts.append(sum(question in text for question in questions))
        assert (prompt.variables["question"] == questions[place] and questions[0] not in text) or place == 0
    assert counts == ([1, *range(1, 20)] if released else [1] * 20)


def test_the_released_variant_sends_the_released_prompt_and_the_markers(beam_data: Path, repo_root: Path) -> None:
    for variant, name, marked in (("paper", "answer_turns", False), ("released", "answer_full_released", True)):
        _, prompts = asked(beam_data, load_parameters(repo_root / "params/100k.yaml", variant=variant))
        assert {prompt.id for prompt in prompts} == {name}
        text = "\n".join(message["content"] for message in prompts[0].messages)
        assert bool(re.search(r"->-> \d+,\d+", text)) is marked


@pytest.mark.parametrize("below", [2_001, 6_000, 9_999])
def test_no_window_just_above_a_conversation_empties_it(beam_data: Path, below: int) -> None:
    """M8: the released pruning returns nothing where the total is between 10,000 and 2,000 tokens below the limit."""
    for source in find_conversations(beam_data):
        if source.size == "100K":
            conversation = load(source).conversation
            total = sum(passage_tokens(passage(pair).text) for pair in conversation.pairs)
            memory = FullContext(total + below)
            memory.ingest(conversation)
            shown = memory.recall("?").message_ids
            assert shown[-1] == conversation.messages[-1].id
            assert (len(shown) == len(conversation.messages)) is (below >= RESERVE_TOKENS)
