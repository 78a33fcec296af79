"""The offline author's answers keep their length, their ending and what they may not say."""

from __future__ import annotations

import random
from datetime import date
from typing import get_args

import pytest

from beamlib.generate.author.answers import write_answer
from beamlib.generate.author.bank import SLOT, bank, banks, common_lexicon
from beamlib.generate.author.facts import Occasion, Purpose, Thing
from beamlib.generate.shapes import Profile
from beamlib.text import count_tokens

BANK = bank(sorted(banks())[0])


def _occasion(number: int, purpose: Purpose, target: int, closing: str = "") -> Occasion:
    rng = random.Random(f"occasion {number}")
    topic, title, subject = rng.choice(BANK.topics), rng.choice(BANK.titles), rng.choice(BANK.subjects)
    words = {k: rng.choice(v) for k, v in {**common_lexicon(), **BANK.lexicon, **title.lexicon}.items()}
    words |= {"goal": title.goal, "subject": title.goal, "person": "Ana"}
    thing = Thing(SLOT.sub(lambda slot: words[slot[1]], subject.name), subject, words)
    profile = Profile("Dana Cole", 41, "female", "Leeds", "Nurse", ())
    question = SLOT.sub(lambda slot: words[slot[1]], rng.choice(topic.questions))
    return Occasion(
        rng, BANK, title, profile, topic, purpose, words, date(2024, 3, 5), thing, None, (), question, target, closing
    )


@pytest.mark.parametrize("purpose", get_args(Purpose))
@pytest.mark.parametrize("target", [150, 400, 900, 1500])
def test_length_ending_and_kept_words(purpose: Purpose, target: int) -> None:
    for number in range(4):
        closing = "Which day suits you best?" if number % 2 else ""
        text = write_answer(_occasion(number, purpose, target, closing))
        assert abs(count_tokens(text) - target) <= 0.05 * target
        assert text.endswith(closing) if closing else not text.endswith("?")
        assert "{" not in text and text == write_answer(_occasion(number, purpose, target, closing))
