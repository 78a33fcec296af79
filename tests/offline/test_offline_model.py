"""The stand-in as a model: every prompt it answers, and what it says about itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from beam_offline import ANSWERED, OfflineModel
from beamlib.llm.model import OFFLINE_NAME, ModelError, Prompt, complete_all
from beamlib.llm.prompts import prompt_file, render
from beamlib.text import count_tokens

PAIR = "[messages 2-3]\nUSER: I keep 14 hives behind the barn.\nASSISTANT: **Feed them**: in autumn."
WHO = {"mentor": "Ana", "mentee": "Bo", "company": "Parcels"}
GUIDELINE = "Always end function names with '_su'."
QUERY = {"query": "function that merges two ranked menus"}
VARIABLES = {
    "answer": {"question": "How many hives do I keep?", "context": PAIR},
    "answer_full": {"question": "How many hives do I keep?", "context": PAIR},
    "answer_full_released": {"question": "How many hives do I keep?", "context": PAIR},
    "episodic_keys": {"history": "", "pair": PAIR},
    "scratchpad_notes": {"history": "", "pair": PAIR},
    "scratchpad_compress": {"notes": "- [messages 2-3] I keep 14 hives.", "target_tokens": "50"},
    "scratchpad_filter": {"question": "How many hives do I keep?", "chunk": "- [messages 2-3] I keep 14 hives."},
    "judge_nugget": {"question": "How many?", "nugget": "14 hives", "answer": "You keep 14 hives."},
    "align_events": {"event": "Counting the hives", "nugget": "Hive count"},
    "align_batch": {"items": "1. Counting the hives", "nuggets": "1. Hive count"},
    "memorycode_instruction": {"guideline": GUIDELINE, **QUERY},
    "memorycode_session": {**WHO, "session": f"Ana: {GUIDELINE}", **QUERY},
    "memorycode_history": {**WHO, "sessions": f"Meeting 0\n\nAna: {GUIDELINE}", **QUERY},
    "memorycode_chain": {"guidelines": GUIDELINE, **QUERY},
    "memorycode_recalled": {**WHO, "context": f"[messages 0-1]\nUSER: Ana: {GUIDELINE}", **QUERY},
    "memorycode_alone": QUERY,
    "meme_answer": {"question": "How many hives do I keep?", "context": PAIR},
    "meme_judge_aggregation": {
        "question": "What hives are there?",
        "answer": "Oak and ash.",
        "values": "1. oak\n2. ash",
    },
    "meme_judge_tracking": {"question": "Which hives, in order?", "answer": "Oak, ash.", "values": "1. oak\n2. ash"},
    "meme_judge_cascade": {"question": "Which hive?", "answer": "Oak.", "new_value": "oak", "old_value": "ash"},
    "meme_judge_absence": {"question": "Which hive?", "answer": "Ash.", "old_value": "ash", "change": "site: A -> B"},
    "meme_judge_deletion": {"question": "Which hive?", "answer": "I don't know.", "old_value": "ash"},
    "meme_judge_before": {"question": "Which hive?", "answer": "Ash.", "value": "ash"},
    "file_memory_ingest": {"date": "2024/03/01", "session": PAIR, "done": ""},
    "file_memory_recall": {"question": "How many hives do I keep?", "done": ""},
    "wiki_compile": {"index": "", "date": "2024/03/01", "entries": "- I keep 14 hives.", "done": ""},
    "wiki_choose": {"index": "- hives: how many", "question": "How many hives do I keep?"},
    "dependency_notes": {"known": "", "date": "2024/03/01", "session": PAIR},
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
    text = "\n".join(message["content"] for message in render(prompt_id, marked))
    assert all(value in text for value in marked.values())
    assert prompt_file(prompt_id).listing
    assert prompt_file(prompt_id).output


@pytest.mark.parametrize("prompt_id", sorted(VARIABLES))
def test_usage_is_what_the_rendered_prompt_holds(prompt_id: str) -> None:
    prompt = Prompt(prompt_id, VARIABLES[prompt_id])
    usage = asyncio.run(OfflineModel().complete(prompt)).usage
    # Only `target_tokens` stands in its prompt more than once, and is counted once.
    rendered = sum(count_tokens(message["content"]) for message in prompt.messages)
    assert rendered - 4 <= usage.input_tokens <= rendered


def test_usage_follows_what_an_empty_question_takes_out_of_the_judge_prompt() -> None:
    prompt = Prompt("judge_nugget", {**VARIABLES["judge_nugget"], "question": ""})
    usage = asyncio.run(OfflineModel().complete(prompt)).usage
    assert usage.input_tokens == count_tokens(prompt.messages[0]["content"])


@pytest.mark.parametrize("prompt_id", sorted(VARIABLES))
def test_repeats_and_second_attempts_are_answered_alike(prompt_id: str) -> None:
    prompt = Prompt(prompt_id, VARIABLES[prompt_id])
    others = [
        Prompt(prompt_id, VARIABLES[prompt_id], about="messages 2-3", repeat=4),
        prompt.again("that was no JSON"),
    ]
    first, *rest = complete_all(OfflineModel(), [prompt, *others])
    assert rest == [first, first]


def test_the_tests_cover_what_it_answers() -> None:
    assert set(VARIABLES) == ANSWERED


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
    paths = sorted(path for top in ("beamlib/llm", "packages/beam_offline") for path in (repo_root / top).rglob("*.py"))
    assert len(paths) > 20
    for path in paths:
        source = path.read_text(encoding="utf-8")
        assert "data.gold" not in source, path
        assert "beamlib.scoring" not in source, path
