"""What the assistant of the offline author says: to the question, of the strand, and nothing that does not fit."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest

from beam_generate.pipeline import ConversationSpec
from beam_generate.probes.wording import content
from beam_offline.author.answers import AnswerDraft, ShufflePool, write_answer
from beam_offline.author.grammar import compiled, to_you
from beam_offline.author.script import Measures, PlanScript
from beam_offline.author.world import World
from beamlib.params import usual_parameters

DOMAINS = ("Career and Professional Development", "Coding", "Math")


def world(domain: str = DOMAINS[0]) -> World:
    return World(ConversationSpec(usual_parameters("100K", generation_seed=4, domain=domain)).story())


def pattern(text: str) -> str:
    """A regular expression for all that a phrase of a bank can say."""
    found = ""
    for part in compiled(text):
        if isinstance(part, str):
            found += re.escape(part)
        elif len(part) == 1:
            found += f"(?:{'|'.join(map(_joined, part[0]))})"
        else:
            found += ".+"
    return found


def _joined(parts: tuple[object, ...]) -> str:
    return "".join(re.escape(part) if isinstance(part, str) else ".*" for part in parts)


def drafts(opening: str = "open_plain", **asked: str) -> list[AnswerDraft]:
    one = world()
    others = one.strands[1:3]
    return [
        AnswerDraft(one, one.strands[0], others, 0, random.Random(seed), 300, opening, **asked)  # type: ignore[arg-type]
        for seed in range(40)
    ]


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_first_list_advises_what_the_strand_does_and_nothing_general(domain: str) -> None:
    script = PlanScript(world(domain), 0, Measures(60_000, 10, 5))
    advised = [
        (step.strand, one)
        for turn in script.all_turns
        for number, step in enumerate(turn.steps)
        for one in script.answer(turn, number).advice
    ]
    assert len(advised) > 100
    own = {strand: [re.compile(pattern(text)) for text in strand.kind.do] for strand, _ in advised}
    assert not [one for strand, one in advised if not any(text.fullmatch(one) for text in own[strand])]


def test_an_answer_begins_with_what_was_asked() -> None:
    aim, act = "keep my notes in one place", "call the office"
    for draft in drafts(aim=aim):
        assert to_you(aim) in write_answer(draft).text.split("\n\n")[0]
    for draft in drafts(act=act):
        assert act in write_answer(draft).text.split("\n\n")[0].lower()


def test_a_question_of_its_own_kind_is_answered_by_that_kind() -> None:
    for draft in drafts(act="call the office", question=" what could go wrong if I call the office?"):
        first = write_answer(draft).text.split("\n\n")[0]
        assert any(re.search(pattern(risk), first) for risk in draft.strand.kind.risk), first
    for draft in drafts(question=" how likely is it that nobody answers?"):
        first = write_answer(draft).text.split("\n\n")[0]
        assert re.search(r"more often than|Not very", first), first


def test_phrases_follow_what_was_said_before_and_do_not_come_twice_in_a_row() -> None:
    deck = ShufflePool(["ask the tax office", "read the lease", "paint the door"], random.Random(1))
    assert deck.draw(content("the lease of the flat")) == "read the lease"
    assert deck.draw(content("unpaid tax")) == "ask the tax office"
    assert deck.draw(content("a door"), fitting=True) == "paint the door"
    assert deck.draw(content("the doors"), fitting=True) == ""
    again = [deck.draw(content("the lease")) for _ in range(30)]
    assert all(one != two for one, two in pairwise(again))
