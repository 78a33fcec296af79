"""The stand-in as a model: every prompt it answers, and what it says about itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from beam_offline import ANSWERED, OfflineModel
from beamlib.llm.model import OFFLINE_NAME, ModelError, Prompt, complete_all
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
def test_it_answers_every_prompt_alike_each_time_and_counts_its_tokens(prompt_id: str) -> None:
    prompt = Prompt(prompt_id, VARIABLES[prompt_id])
    again = [replace(prompt, about="messages 2-3", repeat=4), prompt.again("that was no JSON"), prompt]
    first, *rest = complete_all(OfflineModel(), [prompt, *again])
    assert first.text and rest == [first] * 3
    assert first.usage.output_tokens == count_tokens(first.text)
    # Only `target_tokens` stands in its prompt more than once, and is counted once.
    rendered = sum(count_tokens(message["content"]) for message in prompt.messages)
    assert rendered - 4 <= first.usage.input_tokens <= rendered


def test_the_tests_cover_what_it_answers() -> None:
    assert set(VARIABLES) == ANSWERED


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
