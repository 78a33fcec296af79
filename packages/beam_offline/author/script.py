"""One plan written out: every message of the user, and for every answer what it is to be about and how long.

The user's side is written when the script is made, an answer when it is asked for. Both come from the scenario and
from random generators of their own, so a plan is the same whether the others were written or not.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from beam_generate.questions import divide
from beam_offline.author.answers import AnswerDraft, Exercise, Step, WrittenAnswer, scope_of, tidy, write_answer
from beam_offline.author.facts import Entry, Strand
from beam_offline.author.grammar import sentence, to_you
from beam_offline.author.scenario import Scenario
from beamlib.text import count_tokens

_TOKENS_PER_MESSAGE = 4  # role and separators, as the published sizes count
_WEIGHT = {"introduction": 1.2, "instruction": 0.4, "preference": 0.7, "reply": 0.7, "followup": 0.7}
"""Length of an answer relative to others."""
_SHORTEST, _LONGEST = 150, 1_500
_LIST: Mapping[str, str] = {
    "introduction": "introduce", "opening": "open", "fact": "tell", "update": "update", "contradiction": "deny",
    "preference": "like", "dig": "dig", "reply": "reply", "followup": "followup",
}  # fmt: skip
_OPENING: Mapping[str, str] = {
    "introduction": "open_hello", "fact": "open_told", "update": "open_update", "opening": "open_told",
    "preference": "open_like", "instruction": "open_rule", "reply": "open_reply",
}  # fmt: skip
_SPECIAL = ("update", "instruction", "contradiction")
_TWICE = 0.25  # how often a turn that has a reply or a follow-up has a second one
_OTHERS = 3
_CHATTY = 0.3  # how often a message of a long conversation goes on about something else
_SHOWN = 0.75
"""How often a message of coding or mathematics shows code or a problem."""
_ASKS = re.compile(r"[^.!?:]*\?")
_SHOWING = ("opening", "fact", "dig", "update")
_PINNED: Mapping[str, str] = {"topic": "thing", "act": "do", "worst": "risk", "who": "person", "day": "weekday"}
"""What an answer's last sentence and the message that takes it up have in common: slots and what fills them."""
_TAKES_UP = " // "  # stands between these two in the lists `reply` and `followup`


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
class ScriptTurn:
    """A main question and what it triggers: replies to the assistant's questions first, then follow-ups."""

    entry: Entry
    steps: list[Step]


@dataclass
class PlanScript:
    """The script of plan `plan` of a scenario, written to `targets`."""

    scenario: Scenario
    plan: int
    targets: Measures
    turns: dict[int, list[ScriptTurn]] = field(default_factory=dict)
    """By sub-plan, in the order in which the questions are asked."""

    def __post_init__(self) -> None:
        self._key = f"{self.scenario.key} {self.plan}"
        self._rng = random.Random(f"script {self._key}")
        self._said: set[str] = set()
        self._exercises = _exercises(self.scenario, self._rng)
        for batch in range(1, self.scenario.layout.subplans + 1):
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

    def answer(self, turn: ScriptTurn, number: int) -> WrittenAnswer:
        """Write the assistant's answer to step `number` of `turn`."""
        step = turn.steps[number]
        return self._answered(step, step.text)

    def aside(self, message: str, strand: Strand) -> str:
        """Answer a message that is not the author's own (somebody edited a file) with advice on a strand."""
        step = Step(message, "dig", strand, self._others(strand, (self.plan, 1, 99)), target=self._usual)
        return self._answered(step, message).text

    def _answered(self, step: Step, message: str) -> WrittenAnswer:
        told = step.entry is not None and step.purpose in ("fact", "update", "opening")
        clause = step.entry.clause if step.entry is not None and told else step.asked.get("talk", "")
        opening = _OPENING.get(step.purpose, "open_worry")
        rng = random.Random(f"answer {self._key} {message}")
        asks = "".join(_ASKS.findall(message.partition("\n")[0])[-1:])
        aim, act = _question(message, step.asked)
        return write_answer(AnswerDraft(self.scenario, step, self.plan, rng, opening, clause, aim, act, asks))

    def _questions(self, batch: int) -> list[tuple[Entry, str]]:
        """Return what is asked in a sub-plan: bullets with the purpose of each message about them, in order."""
        entries = sorted(self.scenario.entries[self.plan, batch], key=lambda one: one.purpose != "introduction")
        found: list[tuple[Entry, str]] = []
        for group in divide([one for one in entries if one.purpose not in _SPECIAL], self.scenario.layout.groups):
            count = self.scenario.layout.questions - (self._rng.random() < self.targets.shy)
            extra = max(0, count - len(group))
            asked = group[:count]
            for number, entry in enumerate(asked):
                share = extra * (number + 1) // len(asked) - extra * number // len(asked)
                found += [(entry, entry.purpose), *[(entry, "dig")] * share]
        return [*found, *((entry, entry.purpose) for entry in entries if entry.purpose in _SPECIAL)]

    def _turn(self, entry: Entry, purpose: str) -> ScriptTurn:
        text, strand = "", entry.strand
        if purpose == "instruction":  # said in passing, while something else is under way
            text, strand = entry.text, self._others(strand, entry.place)[0]
        return ScriptTurn(entry, [self._step(strand, purpose, entry.place[1], entry, text)])

    def _step(self, strand: Strand, purpose: str, batch: int, entry: Entry | None = None, text: str = "") -> Step:
        others = self._others(strand, entry.place if entry else (self.plan, batch, 99))
        asked, rng, takes_up = dict[str, str](), self._rng, ""
        fact = entry.fact if entry is not None else None  # numbers of a problem may be those that it takes later
        shown = purpose in _SHOWING and not (fact and (fact.kind.kind == "tally" or fact.key in self.scenario.revised))
        exercise = next(self._exercises, None) if shown and rng.random() < _SHOWN else None
        before = [one.kind for one in strand.told if one.place[:2] < (self.plan, batch)]
        matters = [kind.np for kind in before if kind.kind != "event"]  # that it was done may be denied
        if not text:
            grammar = self.scenario.grammar
            told = entry is not None and purpose != "dig"
            about = (entry.clause or entry.text.rstrip(".")) if entry is not None and told else ""
            scope = scope_of(self.scenario, strand, others, self.plan, rng, last=asked, matters=matters, about=about)
            scope["clause"] = about or scope["talk"]
            if not told and purpose != "dig":
                scope |= {pin: grammar.fill(f"{{{name}}}", scope, rng) for pin, name in _PINNED.items()}
            showing = "shown" if about else "shown_talk"  # nothing new is told of a matter: it is not named
            said = grammar.say(showing if exercise else _LIST[purpose], scope, rng)
            takes_up, _, said = said.rpartition(_TAKES_UP)
            if (
                told
                and purpose != "introduction"
                and not self.scenario.alone(strand)
                and str(scope["full"]) not in said
            ):
                said = f"{said} {grammar.say('which_one', scope, rng)}"
            if self.scenario.long and rng.random() < _CHATTY:
                said = f"{sentence(said)} {grammar.say('chat', scope, rng)}"
            text = sentence(tidy(said))
        text = f"{text}\n{exercise.message}" if exercise else text
        if text in self._said and purpose != "instruction":
            return self._step(strand, purpose, batch, entry)
        self._said.add(text)
        takes_up = takes_up and sentence(tidy(to_you(takes_up)))
        return Step(
            text, purpose, strand, others, entry, takes_up=takes_up, exercise=exercise, asked=asked, matters=matters
        )

    def _others(self, strand: Strand, place: tuple[int, int, int]) -> list[Strand]:
        """Draw other strands that were talked about shortly before `place`, at least one; at the start any."""
        lately = [
            *self.scenario.entries.get((self.plan, place[1] - 1), []),
            *self.scenario.entries[self.plan, place[1]],
        ]
        here = {one.strand: None for one in lately if one.strand is not strand and one.fact and one.place < place}
        return self._rng.sample(list(here) or self.scenario.strands, min(_OTHERS, len(here) or 1))

    def _trigger(self) -> None:
        """Let some answers end in a question and some users ask back, as often as the published data do."""
        open_to = [turn for turn in self.all_turns if turn.entry.purpose not in ("instruction", "contradiction")]
        said = {turn.steps[0].text for turn in self.all_turns}
        for purpose, wanted in (("reply", self.targets.replies), ("followup", self.targets.followups)):
            for turn, times in _spread(open_to, wanted, self._rng):
                for _ in range(times):
                    asked = partial(self._step, turn.entry.strand, purpose, turn.entry.place[1])
                    step = next(one for one in iter(asked, None) if one.text not in said)
                    said.add(step.text)
                    turn.steps[-1].closing = step.takes_up
                    turn.steps.append(step)

    def _measure(self) -> None:
        """Give each answer its share of the tokens that the user's messages leave of the plan's."""
        steps = [step for turn in self.all_turns for step in turn.steps]
        spent = sum(count_tokens(step.text) for step in steps) + 2 * _TOKENS_PER_MESSAGE * len(steps)
        weights = [_WEIGHT.get(step.purpose, 1.0) * (0.72 + 0.56 * self._rng.random()) for step in steps]
        unit = max(0, self.targets.tokens - spent) / sum(weights)
        self._usual = min(_LONGEST, max(_SHORTEST, round(unit)))
        for step, weight in zip(steps, weights, strict=True):
            step.target = min(_LONGEST, max(_SHORTEST, round(weight * unit)))


def _exercises(scenario: Scenario, rng: random.Random) -> Iterator[Exercise]:
    """Code or problems to show; the libraries behind them are loaded only for a domain that needs them."""
    if scenario.bank.style == "coding":
        from beam_offline.author.coding import coding_exercises

        return coding_exercises(scenario, rng)
    if scenario.bank.style == "math":
        from beam_offline.author.mathematics import math_exercises

        return math_exercises(scenario, rng)
    return iter(())


def _question(message: str, asked: Mapping[str, str]) -> tuple[str, str]:
    """What a message asks how to do, and what it asks whether to do; one of them or none."""
    want, act = asked.get("want", ""), asked.get("do", "")
    last = max((want, act), key=lambda text: message.rfind(text) if text else -1)
    return (last, "") if last == want else ("", last)


def _spread(turns: Sequence[ScriptTurn], wanted: int, rng: random.Random) -> list[tuple[ScriptTurn, int]]:
    """Turns spread evenly over the plan with how often something is to happen in each, `wanted` in all."""
    wanted = min(wanted, 2 * len(turns))
    times: list[int] = []
    while sum(times) < wanted:
        left, free = wanted - sum(times), len(turns) - len(times)
        times.append(2 if left > 1 and (rng.random() < _TWICE or left > free) else 1)
    rng.shuffle(times)
    found = []
    for number, count in enumerate(times):
        first, last = len(turns) * number // len(times), len(turns) * (number + 1) // len(times)
        found.append((turns[rng.randrange(first, max(first + 1, last))], count))
    return found
