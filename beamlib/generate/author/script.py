"""One plan written out: every message of the user, and for every answer what it is to be about and how long.

The user's side is written when the script is made; an answer is written when it is asked for. Both come from the world
and from random generators of their own, so that a plan is the same whether the others were written or not.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from beamlib.generate.author.answers import write_answer
from beamlib.generate.author.bank import Topic
from beamlib.generate.author.coding import write_coding_answer
from beamlib.generate.author.facts import Entry, Fact, Occasion, Purpose, Thing
from beamlib.generate.author.mathematics import write_math_answer
from beamlib.generate.author.voice import Voice
from beamlib.generate.author.world import World
from beamlib.generate.questions import divide
from beamlib.text import count_tokens

_TOKENS_PER_MESSAGE = 4  # role and separators, as the published sizes count
_WRITERS = {"general": write_answer, "coding": write_coding_answer, "math": write_math_answer}
_WEIGHT: Mapping[Purpose, float] = {
    "introduction": 1.2, "fact": 1.05, "update": 0.95, "contradiction": 0.95, "preference": 1.0, "instruction": 0.4,
    "dig": 1.0, "reply": 0.7, "followup": 0.7,
}  # fmt: skip
"""Length of an answer relative to others."""
_SHORTEST, _LONGEST = 150, 1_500
_SECOND_QUESTION = 0.25
_SECOND_FOLLOWUP = 0.15


@dataclass(frozen=True, slots=True)
class Measures:
    """What a plan is to have: tokens (content and four per message), replies to the assistant's questions, follow-ups.

    `shy` is how often a group of questions is one short of what was asked for.
    """

    tokens: int
    replies: int
    followups: int
    shy: float = 0.0


@dataclass
class Step:
    """A user message and the answer to it; `closing` is the question that the answer ends with, or empty."""

    text: str
    occasion: Occasion
    closing: str = ""
    target: int = 0


@dataclass
class ScriptTurn:
    """A main question and what it triggers: replies to the assistant's questions first, then follow-ups."""

    entry: Entry
    steps: list[Step]
    replies: int = 0
    followups: int = 0


@dataclass
class PlanScript:
    """The script of plan `plan` of a world, written to `targets`."""

    world: World
    plan: int
    targets: Measures
    turns: dict[int, list[ScriptTurn]] = field(default_factory=dict)
    """By sub-plan, in the order in which the questions are asked."""

    def __post_init__(self) -> None:
        story = self.world.story
        self._key = f"{story.seed} {story.size} {story.number} {story.topic.title} {self.plan}"
        self._rng = random.Random(f"script {self._key}")
        self._voice = Voice(random.Random(f"voice {self._key}"), named=story.plans > 1)
        self._told = self._facts_before()
        for batch in range(1, self.world.layout.subplans + 1):
            self.turns[batch] = [self._turn(*asked) for asked in self._questions(batch)]
        self._trigger()
        self._measure()
        self.place: dict[str, tuple[ScriptTurn, int]] = {}
        for turn in self.all_turns:
            for number, step in enumerate(turn.steps):
                self.place.setdefault(step.text, (turn, number))

    @property
    def all_turns(self) -> list[ScriptTurn]:
        """All turns of the plan, in order."""
        return [turn for batch in self.turns.values() for turn in batch]

    def answer(self, turn: ScriptTurn, number: int) -> str:
        """The assistant's answer to step `number` of `turn`."""
        step = turn.steps[number]
        rng = random.Random(f"answer {self._key} {step.text}")
        occasion = replace(step.occasion, rng=rng, question=step.text, target=step.target, closing=step.closing)
        return _WRITERS[self.world.bank.style](occasion)

    def aside(self, message: str, topic: Topic) -> str:
        """An answer to a message that is not the author's own (somebody edited a file): advice on `topic`."""
        rng = random.Random(f"aside {self._key} {message}")
        occasion = replace(self._occasion("dig", topic, None, 1, rng), question=message, target=self._usual)
        return _WRITERS[self.world.bank.style](occasion)

    def _facts_before(self) -> dict[str, list[Fact]]:
        """What was told of each thing before this plan, newest versions, without what was denied since."""
        told: dict[str, list[Fact]] = {}
        for (plan, _), entries in self.world.entries.items():
            if plan < self.plan:
                for entry in entries:
                    _note(told, entry)
        return told

    def _questions(self, batch: int) -> list[tuple[Entry, Purpose, bool]]:
        """What is asked in a sub-plan: (bullet, purpose, whether it is the first question about it), in order."""
        entries = self.world.entries[self.plan, batch]
        plain = [entry for entry in entries if entry.purpose not in ("update", "instruction", "contradiction")]
        found: list[tuple[Entry, Purpose, bool]] = []
        for group in divide(plain, self.world.layout.groups):
            count = self.world.layout.questions - (self._rng.random() < self.targets.shy)
            extra = max(0, count - len(group))
            asked = group[:count]
            for number, entry in enumerate(asked):
                found.append((entry, entry.purpose, True))
                share = extra * (number + 1) // len(asked) - extra * number // len(asked)
                found += [(entry, "dig", False)] * share
        special = [entry for entry in entries if entry.purpose in ("update", "instruction", "contradiction")]
        return [*found, *((entry, entry.purpose, True) for entry in special)]

    def _turn(self, entry: Entry, purpose: Purpose, first: bool) -> ScriptTurn:
        # The first question about a bullet tells it; those after it dig, mostly into a neighbouring topic.
        topic = entry.topic if first or self._rng.random() < 0.4 else self._rng.choice(self.world.bank.topics)
        occasion = self._occasion(purpose, topic, entry.thing, entry.batch, self._rng, entry if first else None)
        opens = first and entry.label == "Time Anchor"
        text, asked = entry.text, -1
        if purpose != "instruction":
            begins = opens and (entry.plan, entry.batch) == (0, 1)
            text, asked = self._voice.message(occasion, anchor=opens, opening=begins)
        if first:
            _note(self._told, entry)
        return ScriptTurn(entry, [Step(text, replace(occasion, asked=asked))])

    def _occasion(
        self,
        purpose: Purpose,
        topic: Topic,
        thing: Thing | None,
        batch: int,
        rng: random.Random,
        entry: Entry | None = None,
    ) -> Occasion:
        world = self.world
        words = {**world.words(rng, self.plan), **world.about(thing, self.plan, rng)}
        if entry is not None and entry.preference is not None:
            words["preference"] = f"{entry.text[:-1]}"
        return Occasion(
            rng=rng,
            bank=world.bank,
            title=world.title,
            profile=world.story.profile,
            topic=topic,
            purpose=purpose,
            words=words,
            today=world.today(self.plan, batch),
            thing=thing,
            fact=entry.fact if entry is not None else None,
            known=tuple(self._told.get(thing.name, ())) if thing is not None else (),
        )

    def _trigger(self) -> None:
        """Let some answers end in a question and some users ask back, as often as the published data do."""
        quiet = ("instruction", "contradiction")
        open_to = [turn for turn in self.all_turns if turn.entry.thing and turn.entry.purpose not in quiet]
        chosen = _spread(open_to, self.targets.replies, _SECOND_QUESTION, self._rng)
        for turn, times in chosen:
            for _ in range(times):
                self._ask_back(turn)
        followed = _spread(open_to, self.targets.followups, _SECOND_FOLLOWUP, self._rng)
        for turn, times in followed:
            for _ in range(times):
                occasion = replace(self._like(turn.steps[0].occasion), purpose="followup")
                text, asked = self._voice.followup(occasion)
                turn.steps.append(Step(text, replace(occasion, asked=asked)))
                turn.followups += 1

    def _ask_back(self, turn: ScriptTurn) -> None:
        before = turn.steps[-1]
        occasion = replace(self._like(before.occasion), purpose="reply")
        asked = self._voice.asked(occasion)
        before.closing = occasion.fill(asked.question)
        turn.steps.append(Step(self._voice.reply(occasion, asked), occasion))
        turn.replies += 1

    def _like(self, occasion: Occasion) -> Occasion:
        """The same occasion with other words and without a fact: it has been told."""
        known = occasion.known
        if occasion.fact is not None and occasion.purpose in ("fact", "update"):
            known = (*(fact for fact in known if fact.aspect is not occasion.fact.aspect), occasion.fact)
        words = {**self.world.words(self._rng, self.plan), **self.world.about(occasion.thing, self.plan, self._rng)}
        return replace(occasion, words=words, fact=None, known=known, asked=-1)

    def _measure(self) -> None:
        """Give each answer its share of the tokens that the user's messages leave of the plan's."""
        steps = [step for turn in self.all_turns for step in turn.steps]
        spent = sum(count_tokens(step.text) for step in steps) + 2 * _TOKENS_PER_MESSAGE * len(steps)
        weights = [_WEIGHT[step.occasion.purpose] * (0.72 + 0.56 * self._rng.random()) for step in steps]
        unit = max(0, self.targets.tokens - spent) / sum(weights)
        self._usual = min(_LONGEST, max(_SHORTEST, round(unit)))
        for step, weight in zip(steps, weights, strict=True):
            step.target = min(_LONGEST, max(_SHORTEST, round(weight * unit)))


def _note(told: dict[str, list[Fact]], entry: Entry) -> None:
    """Keep what `entry` tells among what is known of its thing."""
    fact = entry.fact
    if fact is None:
        return
    before = [one for one in told.get(fact.thing.name, ()) if one.aspect is not fact.aspect]
    told[fact.thing.name] = before if entry.purpose == "contradiction" else [*before, fact]


def _spread(turns: Sequence[ScriptTurn], wanted: int, twice: float, rng: random.Random) -> list[tuple[ScriptTurn, int]]:
    """Turns spread evenly over the plan with how often something is to happen in each, `wanted` in all.

    A short plan has fewer: one for each turn.
    """
    wanted = min(wanted, len(turns))
    found: list[tuple[ScriptTurn, int]] = []
    times: list[int] = []
    while sum(times) < wanted:
        times.append(2 if wanted - sum(times) > 1 and rng.random() < twice else 1)
    for number, count in enumerate(times):
        first, last = len(turns) * number // len(times), len(turns) * (number + 1) // len(times)
        found.append((turns[rng.randrange(first, max(first + 1, last))], count))
    return found
