"""The stand-in as a model: every prompt it answers, what it says about itself, and its notes for LIGHT."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_offline import ANSWERED, OfflineModel
from beam_offline.notes import scratchpad_compress, scratchpad_filter, scratchpad_notes
from beamlib.llm.model import ModelError, Prompt, complete_all
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


TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=400)


def notes(user: str, assistant: str = "Fine.", header: str = "[messages 12-13]\n") -> list[str]:
    reply = scratchpad_notes({"history": "", "pair": f"{header}USER: {user}\nASSISTANT: {assistant}"})
    return reply.splitlines()


def keep(question: str, chunk: str) -> str:
    return scratchpad_filter({"question": question, "chunk": chunk})


def test_informative_sentences_of_both_sides_are_noted_with_their_header() -> None:
    lines = notes("I bought 3 looms for $900. What is it?", "**Oil the frame** with linseed oil from Skye twice.")
    assert lines == [
        "- [messages 12-13] I bought 3 looms for $900.",
        "- [messages 12-13] The assistant: Oil the frame with linseed oil from Skye twice.",
    ]
    assert notes("I bought 3 looms for $900.", header="") == ["- I bought 3 looms for $900."]
    assert notes("Thanks!") == []


@given(TEXT, TEXT)
def test_notes_are_short(user: str, assistant: str) -> None:
    assert sum(map(count_tokens, notes(user, assistant))) <= 120


def test_compression_keeps_the_notes_with_the_rarest_words_in_order() -> None:
    told = "- [messages 70-71] My loom budget is $950 this spring."
    chatter = [f"- [messages {at}-{at + 1}] the weather near the hill looked grey" for at in range(2, 60, 2)]
    short = scratchpad_compress({"notes": "\n".join([*chatter, told]), "target_tokens": "60"})
    assert told in short and short.splitlines()[:-1] == chatter[: len(short.splitlines()) - 1]


@given(st.lists(TEXT, max_size=20), st.integers(0, 200))
def test_compression_never_exceeds_its_target(lines: list[str], target: int) -> None:
    short = scratchpad_compress({"notes": "\n".join(lines), "target_tokens": str(target)})
    assert count_tokens(short) <= target


@given(TEXT, TEXT)
def test_the_filter_keeps_what_shares_the_words_of_the_question(question: str, chunk: str) -> None:
    assert keep(question, chunk) in {"yes", "no"}
    told = "- [messages 4-5] My loom budget is $900 this spring.\n- [messages 6-7] I bought wool from Skye."
    assert keep("What is my budget for the loom?", told) == "yes"
    assert keep("Which violin concerto did I rehearse?", told) == "no"
