"""What the offline author would ask about its world: candidates, questions, reference answers and nuggets.

Everything is read off the facts, so a reference answer is true by construction. A question is known by its ability and
the bullets it rests on, its nuggets by ability, words and answer: two questions in the same words keep apart.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

from beam_offline.author import single_facts, spanning
from beam_offline.author.script import PlanScript
from beam_offline.author.window import Idea, Maker, ProbeWindow, Reply, Shown
from beam_offline.author.world import World

_CANDIDATES = 12
"""Candidates given per window: about as many as the prompts ask for."""
_MESSAGE = re.compile(r"^\[messages? (\d+)(?:-\d+)?, ([^\]]*)\] ?", re.MULTILINE)
_REF = re.compile(r"\[(\d+)\.(\d+)\.(\d+)\]")
_MAKERS: Mapping[str, Maker] = {
    "abstention": single_facts.abstention,
    "contradiction_resolution": single_facts.contradiction_resolution,
    "event_ordering": spanning.event_ordering,
    "information_extraction": single_facts.information_extraction,
    "instruction_following": single_facts.instruction_following,
    "knowledge_update": single_facts.knowledge_update,
    "multi_session_reasoning": spanning.multi_session_reasoning,
    "preference_following": single_facts.preference_following,
    "summarization": spanning.summarization,
    "temporal_reasoning": spanning.temporal_reasoning,
}


class QuestionWriter:
    """Thinks of questions about a world."""

    def __init__(self, world: World, script: Callable[[int], PlanScript]) -> None:
        self.world, self._script = world, script
        self._ideas: dict[tuple[str, tuple[tuple[int, int, int], ...]], Idea] = {}
        self._nuggets: dict[tuple[str, ...], list[str]] = {}

    def candidates(self, ability: str, plan_text: str) -> list[Reply]:
        """Candidates in the plans whose references stand in `plan_text`."""
        return [idea.candidate for idea in self._thought_of(ability, plan_text)]

    def question(self, ability: str, bullets: str, turns: str) -> Reply:
        """The question that rests on `bullets`; empty where the author knows of none."""
        places = sorted((int(found[1]), int(found[2]), int(found[3])) for found in _REF.finditer(bullets))
        idea = self._ideas.get((ability, tuple(places)))
        if idea is None:
            return {}
        reply = idea.ask(_shown(turns))
        key = (ability, *(" ".join(reply[name].split()) for name in ("question", "answer")))  # drafts are on one line
        self._nuggets[key] = reply.pop("nuggets")
        return reply

    def nuggets(self, variables: Mapping[str, str]) -> list[str]:
        """The nuggets of a question of the author's own, told by its ability, words and answer; else empty."""
        answer = variables["reference"].partition("\n")[0]
        return self._nuggets.get((variables["ability"], variables["question"], answer), [])

    def abstentions(self, plan_text: str) -> list[Reply]:
        """Questions on details that nobody ever gave."""
        return [idea.ask(()) for idea in self._thought_of("abstention", plan_text)]

    def _thought_of(self, ability: str, plan_text: str) -> list[Idea]:
        """Candidates of a window, at most `_CANDIDATES` from all over it."""
        plans = sorted({int(found[1]) for found in _REF.finditer(plan_text)}) or [0]
        rng = random.Random(f"probes {ability} {plans} {self.world.key}")
        found = list(_MAKERS[ability](ProbeWindow(self.world, plans, rng, self._script)))
        found = found if len(found) <= _CANDIDATES else rng.sample(found, _CANDIDATES)
        self._ideas.update(((ability, tuple(sorted(set(idea.places)))), idea) for idea in found)
        return found


def _shown(turns: str) -> Shown:
    """The messages in a prompt's `turns`."""
    marks = list(_MESSAGE.finditer(turns))
    ends = [mark.start() for mark in marks[1:]] + [len(turns)]
    return [(int(mark[1]), mark[2], turns[mark.end() : end].strip()) for mark, end in zip(marks, ends, strict=True)]
