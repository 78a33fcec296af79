"""The stand-in's notes: what is kept, what compression drops, what the filter lets through."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_offline.notes import (
    _about_same,
    _newest_of_same,
    _Note,
    scratchpad_compress,
    scratchpad_filter,
    scratchpad_notes,
)
from beamlib.text import count_tokens

TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=400)


def notes(user: str, assistant: str = "Fine.", header: str = "[messages 12-13]\n") -> list[str]:
    reply = scratchpad_notes({"history": "", "pair": f"{header}USER: {user}\nASSISTANT: {assistant}"})
    return reply.splitlines()


def keep(question: str, chunk: str) -> str:
    return scratchpad_filter({"question": question, "chunk": chunk})


def test_every_line_carries_where_it_comes_from() -> None:
    lines = notes(
        "I bought 3 looms for $900. I've never woven silk. Can you find me a teacher?", "**Ask a guild**: do."
    )
    assert lines
    assert all(line.startswith("- [messages 12-13] ") for line in lines)


def test_without_a_header_lines_are_plain_bullets() -> None:
    assert notes("I bought 3 looms for $900.", header="") == ["- I bought 3 looms for $900."]


def test_facts_rules_and_choices_are_noted_and_questions_are_not() -> None:
    text = "\n".join(
        notes(
            "Always answer in metric units when I ask about yarn. I prefer wool over cotton. I've never woven silk. "
            "The fair is on May 4, 2024. What is a heddle?"
        )
    )
    for kept in ("metric units", "wool over cotton", "never woven silk", "May 4, 2024"):
        assert kept in text
    assert "heddle" not in text


def test_what_the_assistant_proposed_is_marked_as_its_own() -> None:
    lines = notes("I bought 3 looms.", "Sure.\n### 1. Oil the frame\nUse linseed.\n### 2. Tie the warp\nSlowly.")
    assert lines[-1] == "- [messages 12-13] The assistant suggested: Oil the frame; Tie the warp"


def test_a_pair_that_says_nothing_leaves_no_note() -> None:
    assert notes("Thanks!") == []


@given(TEXT, TEXT)
def test_notes_are_few_and_short(user: str, assistant: str) -> None:
    lines = notes(user, assistant)
    assert len(lines) <= 4
    assert sum(map(count_tokens, lines)) <= 200


def test_compression_stays_within_the_target_and_keeps_order_and_form() -> None:
    names = [
        a + b for a in ("Oak", "Elm", "Fir", "Ash", "Yew") for b in ("wick", "ford", "holm", "dale", "mere", "stead")
    ]
    pad = "\n".join(f"- [messages {2 * i}-{2 * i + 1}] I rowed to {name} and back." for i, name in enumerate(names))
    short = scratchpad_compress({"notes": pad, "target_tokens": "300"})
    assert 250 <= count_tokens(short) <= 300
    kept = short.splitlines()
    assert kept == [line for line in pad.splitlines() if line in set(kept)]


def test_compression_keeps_rules_before_chatter_and_the_newer_of_two_alike() -> None:
    pad = "\n".join(
        [
            "- [messages 0-1] Always answer in metric units when I ask about yarn.",
            *(f"- [messages {i}-{i + 1}] the weather near hill {i} looked rather grey" for i in range(2, 60, 2)),
            "- [messages 70-71] My loom budget is $900 this spring.",
            "- [messages 90-91] My loom budget is $950 this spring.",
        ]
    )
    short = scratchpad_compress({"notes": pad, "target_tokens": "60"})
    assert "metric units" in short
    assert "$950" in short
    assert "$900" not in short


@given(st.lists(TEXT, max_size=20), st.integers(0, 200))
def test_compression_never_exceeds_its_target(lines: list[str], target: int) -> None:
    short = scratchpad_compress({"notes": "\n".join(lines), "target_tokens": str(target)})
    assert count_tokens(short) <= target


def test_the_filter_keeps_what_bears_on_the_question() -> None:
    chunk = "- [messages 4-5] My loom budget is $900 this spring.\n- [messages 6-7] I bought wool from Skye."
    assert keep("What is my budget for the loom?", chunk) == "yes"
    assert keep("Which violin concerto did I rehearse?", chunk) == "no"


def test_the_filter_always_keeps_standing_instructions() -> None:
    assert keep("Which violin concerto did I rehearse?", "- [messages 0-1] Always answer in metric units.") == "yes"


@given(TEXT, TEXT)
def test_the_filter_says_yes_or_no(question: str, chunk: str) -> None:
    assert keep(question, chunk) in {"yes", "no"}


@given(st.lists(st.frozensets(st.sampled_from("abcdefgh"), max_size=7), max_size=30))
def test_the_same_notes_are_dropped_as_by_comparing_all_with_all(words: list[frozenset[str]]) -> None:
    notes = [_Note(position, "", 1, held, 0.0) for position, held in enumerate(words)]
    kept: list[_Note] = []
    for note in reversed(notes):
        if not any(_about_same(note, newer) for newer in kept):
            kept.append(note)
    assert _newest_of_same(notes) == kept
