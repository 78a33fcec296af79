"""The stand-in as a model: every prompt it answers, and what it says about itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from beamlib.models.base import ModelError, Prompt, complete_all
from beamlib.models.offline import OFFLINE_NAME, REPLIES, OfflineModel
from beamlib.models.prompts import prompt_file, render
from beamlib.text import count_tokens

PAIR = "[messages 2-3]\nUSER: I keep 14 hives behind the barn.\nASSISTANT: **Feed them**: in autumn."
VARIABLES = {
    "answer": {"question": "How many hives do I keep?", "context": PAIR},
    "answer_full": {"question": "How many hives do I keep?", "context": PAIR},
    "episodic_keys": {"history": "", "pair": PAIR},
    "scratchpad_notes": {"history": "", "pair": PAIR},
    "scratchpad_compress": {"notes": "- [messages 2-3] I keep 14 hives.", "target_tokens": "50"},
    "scratchpad_filter": {"question": "How many hives do I keep?", "chunk": "- [messages 2-3] I keep 14 hives."},
    "judge_nugget": {"question": "How many?", "nugget": "14 hives", "answer": "You keep 14 hives."},
    "align_events": {"event": "Counting the hives", "nugget": "Hive count"},
}


@pytest.mark.parametrize("prompt_id", sorted(VARIABLES))
def test_it_answers_every_prompt_in_the_form_the_prompt_asks_for(prompt_id: str) -> None:
    prompt = Prompt(prompt_id, VARIABLES[prompt_id])
    completion = asyncio.run(OfflineModel().complete(prompt))
    assert completion.text
    assert completion.usage.output_tokens == count_tokens(completion.text)
    assert completion.finish_reason == "stop"


@pytest.mark.parametrize("prompt_id", sorted(VARIABLES))
def test_every_prompt_file_shows_each_of_its_variables(prompt_id: str) -> None:
    marked = {name: f"<<{name}>>" for name in VARIABLES[prompt_id]}
    (message,) = render(prompt_id, marked)
    assert all(value in message["content"] for value in marked.values())
    assert prompt_file(prompt_id).listing
    assert prompt_file(prompt_id).output


def test_usage_is_close_to_what_the_rendered_prompt_holds() -> None:
    prompt = Prompt("answer", {"question": "How many hives do I keep?", "context": PAIR * 40})
    usage = asyncio.run(OfflineModel().complete(prompt)).usage
    rendered = count_tokens(prompt.messages[0]["content"])
    assert abs(usage.input_tokens - rendered) < 0.05 * rendered


def test_the_tests_cover_what_it_answers() -> None:
    assert set(VARIABLES) <= set(REPLIES)


def test_an_unknown_prompt_is_a_model_error_that_names_the_known_ones() -> None:
    with pytest.raises(ModelError, match=r"nosuch.*judge_nugget"):
        asyncio.run(OfflineModel().complete(Prompt("nosuch", {})))


def test_a_missing_variable_is_a_model_error_that_names_it() -> None:
    with pytest.raises(ModelError, match="'context'"):
        asyncio.run(OfflineModel().complete(Prompt("answer", {"question": "Why?"})))


def test_it_is_deterministic_whatever_was_asked_before() -> None:
    prompts = [Prompt(name, VARIABLES[name]) for name in sorted(VARIABLES)]
    model = OfflineModel()
    first = complete_all(model, prompts)
    assert complete_all(model, prompts[::-1]) == first[::-1]


def test_it_says_what_it_is() -> None:
    assert OfflineModel().name == OFFLINE_NAME == "offline stand-in, not a language model"


def test_it_reaches_no_gold(repo_root: Path) -> None:
    for path in sorted((repo_root / "beamlib" / "models").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        assert "benchmark.gold" not in source, path
        assert "beamlib.scoring" not in source, path
