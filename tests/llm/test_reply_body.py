"""What a reply's body says of tokens and of the model that answered."""

from __future__ import annotations

from typing import Any

import pytest

from beamlib.llm.model import Completion, Usage
from beamlib.llm.reply_body import find_usage, other_model, read_usage, with_own_counts

REASONED = {"completion_tokens_details": {"reasoning_tokens": 2_000}}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}, Usage(9, 4)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 2_013, **REASONED}, Usage(9, 2_004)),
        ({"prompt_tokens": 9, "completion_tokens": 4, **REASONED}, Usage(9, 2_004)),
        ({"prompt_tokens": 9, "completion_tokens": 2_400, "total_tokens": 2_409, **REASONED}, Usage(9, 2_400)),
        ({"completion_tokens": 4, "total_tokens": 13}, Usage(9, 4)),
        ({"prompt_tokens": 9, "total_tokens": 9}, Usage(9, 0)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}}, Usage(9, 4, 5)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 5}, Usage(9, 4, 5)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "cache_read_input_tokens": 5}, Usage(9, 4, 5)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 5}, Usage(9, 4, 5)),
        ({"input_tokens": 4, "output_tokens": 4, "cache_read_input_tokens": 5}, Usage(9, 4, 5)),
        ({"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 5}}, Usage(9, 4, 5)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 513, "cached_tokens": 500}, Usage(509, 4, 500)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 18, "cached_tokens": 5}, Usage(14, 4, 5)),
        ({"prompt_tokens": "9.5", "completion_tokens": True, "total_tokens": -1, "cached_tokens": None}, Usage()),
        ({"prompt_tokens": "9", "completion_tokens": "4", "total_tokens": "13"}, Usage(9, 4)),
        ({"prompt_tokens": 9.0, "completion_tokens": 4.0, "total_tokens": 13.0}, Usage(9, 4)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13, "reasoning_tokens": 2_000}, Usage(9, 2_004)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "details": {"thoughtsTokenCount": 2_000}}, Usage(9, 2_004)),
        ({"prompt_tokens": "9" * 30, "completion_tokens": float("inf"), "total_tokens": float("nan")}, Usage()),
        (None, Usage()),
        ([3], Usage()),
    ],
)
def test_tokens_are_the_largest_that_the_counts_allow(usage: Any, expected: Usage) -> None:
    assert read_usage(usage) == expected


def test_the_usage_is_found_where_a_server_puts_it() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 4}
    for body in ({"usage": usage}, {"usage": None, "choices": [7, {"usage": usage}]}, {"x_groq": {"usage": usage}}):
        assert find_usage(body) == usage
    assert find_usage({"usage": "9", "choices": None}) is None


def test_what_an_endpoint_does_not_count_is_counted_here_and_said_to_be_estimated() -> None:
    request = {"messages": [{"content": "one two three"}, {"content": [{"type": "text", "text": "four"}]}]}
    counted = with_own_counts(Completion("five six"), request).usage
    assert (counted.input_tokens, counted.output_tokens, counted.estimated) == (4, 2, True)
    half = with_own_counts(Completion("five six", Usage(40)), request).usage
    assert (half.input_tokens, half.output_tokens, half.estimated) == (40, 2, True)
    for usage in (Usage(4, 2), Usage(4, 2, 1)):
        assert with_own_counts(Completion("five", usage), request).usage == usage
    vectors = with_own_counts(Completion("[]"), {"input": ["one two", "three"]}, writes=False).usage
    assert (vectors.input_tokens, vectors.output_tokens) == (3, 0)
    assert with_own_counts(Completion("", Usage(3)), request).usage == Usage(3), "an empty reply has no tokens to count"


@pytest.mark.parametrize(
    ("asked", "named", "other"),
    [
        ("gpt-4.1-mini", "gpt-4.1-mini-2025-04-14", ""),
        ("gpt-4.1-mini-2025-04-14", "gpt-4.1-mini", ""),
        ("openai/gpt-4o", "GPT-4o", ""),
        ("llama3.2", "llama3.2:latest", ""),
        ("claude-haiku", "claude-haiku@20250101", ""),
        ("m", "/models/m.gguf", ""),
        ("m", None, ""),
        ("m", 7, ""),
        ("gpt-4.1", "gpt-4.1-mini", "gpt-4.1-mini"),
        ("gpt-4.1", "gpt-4.1-nano-2025-04-14", "gpt-4.1-nano-2025-04-14"),
        ("qwen-72b", "qwen-7b", "qwen-7b"),
        ("gpt-4-0613", "gpt-4", ""),
        ("gpt-4-0613", "gpt-4-0314", "gpt-4-0314"),
        ("mistral-large-latest", "mistral-large-2411", ""),
        ("gemini-2.5-pro", "models/gemini-2.5-pro-001", ""),
        ("gpt-4", "gpt-4.1", "gpt-4.1"),
        ("claude-3", "claude-3-5", "claude-3-5"),
        ("qwen2", "qwen2.5", "qwen2.5"),
        ("llama-3-8b", "llama-3-8b-instruct", "llama-3-8b-instruct"),
        ("o1", "o1-preview", "o1-preview"),
        ("m", "m-fp8", "m-fp8"),
        ("m", "another\nmodel", "another model"),
    ],
)
def test_another_model_is_named_and_a_dated_form_of_the_same_is_not(asked: str, named: Any, other: str) -> None:
    assert other_model(asked, named) == other
