"""What the offline author would ask about its world: candidates, questions, reference answers and nuggets.

Everything is read off the facts, so a reference answer is true by construction.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from beamlib.generate.author import probing_single, probing_spans
from beamlib.generate.author.facts import Entry
from beamlib.generate.author.probing_base import Idea, Record, Reply, Shown
from beamlib.generate.author.world import World

_CANDIDATES = 12
"""Candidates given per window: about as many as the prompts ask for."""
_MESSAGE = re.compile(r"^\[messages? (\d+)(?:-\d+)?, ([^\]]*)\] ?", re.MULTILINE)
_REF = re.compile(r"\[(\d+)\.(\d+)\.(\d+)\]")
_MAKERS: Mapping[str, Callable[[Record, Sequence[Entry], random.Random], Iterator[Idea]]] = {
    "abstention": probing_single.abstention,
    "contradiction_resolution": probing_single.contradiction_resolution,
    "event_ordering": probing_spans.event_ordering,
    "information_extraction": probing_single.information_extraction,
    "instruction_following": probing_single.instruction_following,
    "knowledge_update": probing_single.knowledge_update,
    "multi_session_reasoning": probing_spans.multi_session_reasoning,
    "preference_following": probing_single.preference_following,
    "summarization": probing_spans.summarization,
    "temporal_reasoning": probing_spans.temporal_reasoning,
}


class Examiner:
    """Thinks of questions about a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._record = Record(world)
        self._nuggets: dict[str, list[str]] = {}
        self._ideas: dict[tuple[str, tuple[int, ...]], list[Idea]] = {}

    def candidates(self, ability: str, plan_text: str) -> list[Reply]:
        """Candidates in the plans whose references stand in `plan_text`."""
        return [idea.candidate for idea in self.ideas(ability, _plans(plan_text))]

    def question(self, ability: str, about: str, bullets: str, turns: str) -> Reply | None:
        """The question on the candidate that is about `about`; None where the author knows of none."""
        plans = _plans(bullets)
        windows = [(plan,) for plan in plans] + [plans, (plans[0], plans[0] + 1), (plans[0] - 1, plans[0])]
        for window in dict.fromkeys(windows):
            for idea in self.ideas(ability, window):
                if idea.about == about:
                    return self._asked(idea, _shown(turns))
        return None

    def nuggets(self, question: str) -> list[str]:
        """The nuggets of a question of the author's own; empty where it is not."""
        return self._nuggets.get(question, [])

    def abstentions(self, plan_text: str) -> list[Reply]:
        """Questions on details that nobody ever gave."""
        return [self._asked(idea, ()) for idea in self.ideas("abstention", _plans(plan_text))]

    def ideas(self, ability: str, plans: tuple[int, ...]) -> list[Idea]:
        """All candidates of a window of plans, at most `_CANDIDATES` drawn from all over it."""
        key = (ability, plans)
        if key not in self._ideas:
            story = self.world.story
            rng = random.Random(
                f"probes {ability} {plans} {story.seed} {story.size} {story.number} {story.topic.title}"
            )
            entries = [entry for (plan, _), found in self.world.entries.items() if plan in plans for entry in found]
            found = list(_MAKERS[ability](self._record, entries, rng))
            self._ideas[key] = found if len(found) <= _CANDIDATES else rng.sample(found, _CANDIDATES)
        return self._ideas[key]

    def _asked(self, idea: Idea, shown: Shown) -> Reply:
        reply = idea.ask(shown)
        self._nuggets[reply["question"]] = reply.pop("nuggets")
        return reply


def _plans(text: str) -> tuple[int, ...]:
    """The plans of the references in `text`; the first plan where there are none."""
    return tuple(sorted({int(found[1]) for found in _REF.finditer(text)})) or (0,)


def _shown(turns: str) -> Shown:
    """The messages in a prompt's `turns`."""
    marks = list(_MESSAGE.finditer(turns))
    ends = [mark.start() for mark in marks[1:]] + [len(turns)]
    return [(int(mark[1]), mark[2], turns[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]
