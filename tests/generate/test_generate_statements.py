"""Statements of docs/fidelity.md on generation that no other test holds, each checked by running what it is about."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from math import comb
from pathlib import Path

import pytest

from beam_generate.dialogue import limits_of
from beam_generate.people import TRAITS, TYPES, draw_people, render_profile, render_traits
from beam_generate.plan_text import read_subplans, render_plan
from beam_generate.plans import SETUP_LABEL, _ask_special
from beam_generate.questions import CONTEXT, TRIMMED, make_questions
from beam_generate.seeds import domains, titles
from beam_generate.shapes import SPECIAL_LABELS, Repairs
from beamlib.data.conversations import SIZES, Size
from beamlib.data.published import table
from beamlib.llm.model import Completion, Prompt
from beamlib.params import usual_parameters
from beamlib.text import count_tokens
from talking_model import TalkingModel, make_plan, make_story


def test_there_are_19_domains_and_the_printed_titles() -> None:
    assert len(domains()) == 19
    assert [name for names in titles().values() for name in names] == table("table5").title.tolist()


def test_six_of_sixteen_types_make_a_character() -> None:
    assert (len(TYPES), TRAITS, comb(len(TYPES), TRAITS)) == (16, 6, 8_008)
    for number in range(1, 30):
        profile = draw_people("1M", number, 7).profile
        assert sorted(render_traits(profile).split("\n")) == sorted(f"- {TYPES[one]}" for one in set(profile.traits))
        text = render_profile(replace(profile, biography="Calm and curious."))
        own = (profile.name, str(profile.age), profile.gender.title(), profile.place, profile.profession)
        assert all(own) and all(value in text for value in (*own, "Calm and curious."))


def test_a_setup_bullet_stands_in_the_middle_under_a_label_of_its_own(tmp_path: Path) -> None:
    base = make_plan(subplans=1).subplans[0]
    ordinary = tuple(bullet for bullet in base.bullets if bullet.special is None)
    entry = {"batch": 1, **dict.fromkeys(SPECIAL_LABELS, "I never sold one."), "setup": "I sold a hive."}

    class Augmenter:
        name = "augmenter"

        async def complete(self, prompt: Prompt) -> Completion:
            return Completion(json.dumps([entry]))

    plan = (type(base)(1, base.anchor, ordinary),)
    (whole,) = asyncio.run(_ask_special(Augmenter(), plan, make_story(), 0, Repairs()))
    labels = [bullet.label for bullet in whole.bullets]
    assert labels[-3:] == list(SPECIAL_LABELS.values()) and len(labels) == len(ordinary) + 4
    assert 0 < labels.index(SETUP_LABEL) < len(ordinary)
    assert read_subplans(render_plan([whole]), tmp_path / "plan_new.txt") == (whole,)


def test_long_plans_are_cut_before_questions_are_asked() -> None:
    plan = make_plan(subplans=6, bullets=400)
    shown: list[str] = []

    def say(prompt: Prompt, text: str) -> str:
        if "sub-plan 6" in prompt.about:
            shown.append(prompt.variables["earlier_batches"])
        return text

    asyncio.run(make_questions(TalkingModel(say), make_story(), plan, Repairs()))
    assert shown and all("hive 5 " in text and "hive 1 " not in text for text in shown)
    assert max(map(count_tokens, shown)) <= max(TRIMMED["general"]) < CONTEXT


@pytest.mark.parametrize("size", SIZES)
def test_a_turn_has_at_most_two_replies_and_two_followups(size: Size) -> None:
    limits = limits_of(usual_parameters(size))
    assert (limits.replies, limits.followups) == (2, 2)
