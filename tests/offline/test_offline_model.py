"""The stand-in as a model: every prompt it answers, and what it says about itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from beam_offline import ANSWERED, OfflineModel
from beamlib.llm.model import OFFLINE_NAME, ModelError, Prompt, complete_all
from beamlib.llm.prompts import prompt_file
from beamlib.text import count_tokens

PAIR = "[messages 2-3]\nUSER: I keep 14 hives behind the barn.\nASSISTANT: **Feed them**: in autumn."


def prompt_of(prompt_id: str) -> Prompt:
    """The prompt with a pair in the place of every text; what stands in it more than once is one token."""
    short = ("target_tokens", "mentor", "mentee", "company")
    return Prompt(prompt_id, {name: "50" if name in short else PAIR for name in prompt_file(prompt_id).variables})


@pytest.mark.parametrize("prompt_id", sorted(ANSWERED))
def test_it_answers_every_prompt_alike_each_time_and_counts_its_tokens(prompt_id: str) -> None:
    prompt = prompt_of(prompt_id)
    again = [replace(prompt, about="messages 2-3", repeat=4), prompt.again("that was no JSON"), prompt]
    first, *rest = complete_all(OfflineModel(), [prompt, *again])
    assert first.text and rest == [first] * 3
    assert first.usage.output_tokens == count_tokens(first.text)
    rendered = sum(count_tokens(message["content"]) for message in prompt.messages)
    assert rendered - 4 <= first.usage.input_tokens <= rendered + 4


def test_an_unknown_prompt_is_a_model_error_that_names_the_known_ones() -> None:
    with pytest.raises(ModelError, match=r"nosuch.*judge_nugget"):
        asyncio.run(OfflineModel().complete(Prompt("nosuch", {})))


def test_a_missing_variable_is_a_model_error_that_names_it() -> None:
    with pytest.raises(ModelError, match="'context'"):
        asyncio.run(OfflineModel().complete(Prompt("answer", {"question": "Why?"})))


def test_it_says_what_it_is() -> None:
    assert OfflineModel().name == OFFLINE_NAME == "offline stand-in, not a language model"


def test_it_reaches_no_gold(repo_root: Path) -> None:
    paths = sorted(path for top in ("beamlib/llm", "packages/beam_offline") for path in (repo_root / top).rglob("*.py"))
    assert len(paths) > 20
    for path in paths:
        source = path.read_text(encoding="utf-8")
        assert "data.gold" not in source, path
        assert "beamlib.scoring" not in source, path
