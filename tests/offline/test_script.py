"""What users say: every message of many conversations reads on its own, and asks one thing."""

from __future__ import annotations

import re
from functools import cache

import pytest

from beam_generate.pipeline import ConversationSpec
from beam_offline.author.author import OfflineAuthor
from beam_offline.author.grammar import articles
from beam_offline.author.script import PlanScript, Step
from beam_offline.author.word_bank import banks
from beamlib.params import usual_parameters

SEEDS = (3, 4)
_NOT_PROSE = re.compile(r"```.*?```|\\\(.*?\\\)|`[^`]*`", re.DOTALL)
_CROOKED = {
    "a doubled word": re.compile(r"\b(?!that\b|had\b|very\b)([a-z]+) \1\b"),
    "doubled marks": re.compile(r"[,.:;?!] ?[,.:;?!]| [,.:;?!]"),
    "an unfilled slot": re.compile(r"[{}\[\]|<>]|//|->"),
    "a small letter": re.compile(r"^[a-z]|(?<!\d)[.?!] [a-z]|\bi\b"),
    "a joint": re.compile(r"\b(?:and|but|so|because) (?:and|but|because)\b|, (?:and|but)[,.]", re.IGNORECASE),
    "a pronoun's case": re.compile(
        r"\b(?:what|whatever|when|before|whether) (?:me|them|him|her) \w|\bme (?:are|am)\b"
        r"|\b(?:to|for|with|from|of|about) I\b|\bI (?:are|is|were)\b"
    ),
}


@cache
def script(domain: str, seed: int) -> PlanScript:
    return OfflineAuthor(
        ConversationSpec(usual_parameters("100K", generation_seed=seed, domain=domain)).story()
    ).script(0)


def messages(domain: str) -> list[tuple[Step, str]]:
    steps = [step for seed in SEEDS for turn in script(domain, seed).all_turns for step in turn.steps]
    return [(step, _NOT_PROSE.sub("code", step.text)) for step in steps]


@pytest.mark.parametrize("domain", sorted(banks()))
def test_no_message_is_crooked_and_each_asks_one_thing(domain: str) -> None:
    for step, text in messages(domain):
        for what, pattern in _CROOKED.items():
            found = pattern.search(text)
            assert not found, f"{what} ({found and found[0]!r}): {step.text}"
        assert articles(text) == text
        assert text.count("?") <= (2 if step.purpose == "reply" else 1), step.text
