"""The phrase grammar: choices, slots, articles, agreement, and the user's words turned to the second person."""

from __future__ import annotations

import random

import pytest

from beam_offline.author.grammar import Grammar, is_plural, plural, sentence, slots, to_me, to_you, with_article
from beamlib.errors import UserError


def said(text: str, **scope: str) -> set[str]:
    own = Grammar({"color": ["red", "dark [green|blue]"]})
    return {own.fill(text, scope, random.Random(seed)) for seed in range(60)}


def test_choices_nest_and_lists_expand() -> None:
    assert said("[a|b [c|d]|]") == {"a", "b c", "b d", ""}
    assert said("{Color} | x") == {"Red | x", "Dark green | x", "Dark blue | x"}


def test_what_a_scope_gives_is_not_expanded_again() -> None:
    assert said("{v}", v="list[int] | {x}") == {"list[int] | {x}"}


@pytest.mark.parametrize(
    ("thing", "verb"),
    [
        ("the mock papers", "are"), ("the syllabus", "is"), ("the list of results", "is"), ("your mentor", "is"),
        ("the people who came", "are"), ("it", "is"), ("them", "are"), ("the hand luggage", "is"),
        ("the wide lens", "is"), ("the agenda", "is"), ("the recipe series", "is"), ("the lenses", "are"),
        ("the bills and the deposit", "are"), ("the care of the goldfish and the mail", "is"),
    ],
)  # fmt: skip
def test_verbs_agree_with_what_stands_before_them(thing: str, verb: str) -> None:
    assert said("{thing} <is|are> here", thing=thing) == {f"{thing} {verb} here"}
    assert is_plural(thing) == (verb == "are")


def test_articles_and_plurals() -> None:
    assert [with_article(one) for one in ("hour", "university", "MRI scan", "early day")] == [
        "an hour", "a university", "an MRI scan", "an early day",
    ]  # fmt: skip
    assert said("a [apple|hour|unit] and an [pear|MRI]") == {
        f"{one} and {two}" for one in ("an apple", "an hour", "a unit") for two in ("a pear", "an MRI")
    }
    assert said("sides a and b") == {"sides a and b"}
    assert [plural(one) for one in ("query", "person", "knife", "regression case")] == [
        "queries", "people", "knives", "regression cases",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "turned"),
    [
        ("I was late and my sister told me", "you were late and your sister told you"),
        ("we've sold our car, I'm glad", "you've sold your car, you're glad"),
        ("I have never met them", "you have never met them"),
    ],
)
def test_the_users_words_turn_to_you(text: str, turned: str) -> None:
    assert to_you(text) == turned


def test_advice_turns_to_me_and_sentences_end() -> None:
    assert to_me("ask your neighbor about your fence") == "ask my neighbor about my fence"
    assert to_me("note what confused you and what you tried") == "note what confused me and what I tried"
    assert to_me("drink before you are thirsty, if you've time") == "drink before I am thirsty, if I've time"
    assert to_me("write a thank-you note to yourself") == "write a thank-you note to myself"
    assert sentence("so , it  is done") == "So, it is done."
    assert sentence("is it?") == "Is it?"


def test_slots_are_found_in_choices_and_a_broken_phrase_is_one_sentence() -> None:
    assert slots("{Word} [x {b}|{c}]") == {"word", "b", "c"}
    for broken in ("[a|b", "a]", "{x"):
        with pytest.raises(UserError, match="correct the bank"):
            Grammar({"x": [broken]})
