"""What the offline author would ask about its scenario: questions on several statements, and replies for all abilities.

A question is known by its ability and the bullets it rests on, its nuggets by ability, words and answer: two questions
in the same words keep apart.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from operator import attrgetter, itemgetter

from beam_generate.probes.wording import content, share
from beam_offline.author.facts import Fact
from beam_offline.author.grammar import in_words, plural, series, to_you
from beam_offline.author.probe_ideas import (
    Idea,
    Maker,
    ProbeWindow,
    Reply,
    Shown,
    abstention,
    contradiction_resolution,
    information_extraction,
    instruction_following,
    knowledge_update,
    messages_stating,
    preference_following,
    state_of,
)
from beam_offline.author.scenario import Scenario
from beam_offline.author.script import PlanScript
from beam_offline.author.word_bank import MOST

_ORDERED_BY_NAME, _SUMMED_BY_NAME = 0.85, 0.8  # how often a question names a strand as messages do
_RATE = re.compile(r"\b(?:per|each|every|an? (?:day|week|month|year|hour|night)|daily|weekly|monthly|yearly)\b")
_ONE_OF_MANY, _ENOUGH = 0.4, 3
_ORDERED_OF_MANY, _SUMMED_OF_MANY = 0.5, 0.15  # in a long conversation
_PARTLY = ("tally", "list", "choice")  # kinds that may be told in several messages
_ITEMS, _STATES = range(3, 13), 9  # items that are put in order; states of a summary that are tested at most


def temporal_reasoning(window: ProbeWindow) -> Iterator[Idea]:
    """Ask for the days between two dates that stand in different messages and never moved."""
    dated = [(fact.day, fact) for fact in window.final() if fact.day is not None]
    for (one, first), (two, second) in combinations(sorted(dated, key=lambda pair: (pair[0], pair[1].place)), 2):
        if (two - one).days > 2 and (first.place[:2] != second.place[:2] or window.rng.random() < 0.3):
            yield _between(window, first, second, (two - one).days)


def _between(window: ProbeWindow, first: Fact, second: Fact, days: int) -> Idea:
    names = (window.named(first), window.named(second))
    question = window.say("ask_days", first=names[0], second=names[1])
    count = f"{days} days"
    between = f"between {first.v}, {names[0]}, and {second.v}, {names[1]}"
    reply = {
        "question": question,
        "answer": f"There are {count} {between}.",
        "difficulty": "medium",
        "temporal_type": "duration_calculation",
        "time_points": [f"{first.v}: {names[0]}", f"{second.v}: {names[1]}"],
        "conversation_references": [state_of(first), state_of(second)],
        "calculation_required": f"from {first.v} to {second.v} = {count}",
        "nuggets": [
            f"LLM response should state: {count}",
            f"LLM response should state: from {first.v} till {second.v}",
        ],
    }
    return Idea(f"the time from {names[0]} to {names[1]}", {"first": first, "second": second}, reply)


def multi_session_reasoning(window: ProbeWindow) -> Iterator[Idea]:
    """Ask what several messages add up to: tallies, lists of things, sums of what is paid once."""
    for facts in window.strands().values():
        parts: dict[str, list[Fact]] = {}
        for fact in facts:
            if fact.kind.kind in ("tally", "list"):
                parts.setdefault(fact.kind.np, []).append(fact)
        for found in parts.values():
            if len({fact.place[:2] for fact in found}) > 1:
                yield _tally(window, found) if found[0].kind.kind == "tally" else _list(window, found)
    sums = [fact for fact in window.final() if fact.kind.kind == "money"]
    once = [one for one in sums if not any(_RATE.search(text) for text in (one.kind.np, *one.kind.say))]
    window.rng.shuffle(once)
    for start in range(0, len(once) - 2, 3):
        group = sorted(once[start : start + 3], key=lambda fact: fact.place)
        if len({fact.place[:2] for fact in group}) > 1 and len({fact.number for fact in group}) == 3:
            yield _sum(window, group)


def _together(
    window: ProbeWindow, facts: Sequence[Fact], question: str, value: str, steps: list[str], nuggets: list[str]
) -> Idea:
    reply = {
        "question": question,
        "answer": f"{value} ({'; '.join(steps)})." if facts[0].number else f"{value}: {series(steps)}.",
        "difficulty": "hard" if len(facts) > 2 else "medium",
        "reasoning_type": "aggregation_over_sessions",
        "sessions_required": len({fact.place[:2] for fact in facts}),
        "conversation_references": [state_of(fact) for fact in facts],
        "reasoning_steps": [*steps, f"together: {value}"],
        "nuggets": [f"LLM response should state: {one}" for one in nuggets],
    }
    return Idea(question, facts, reply)


def _tally(window: ProbeWindow, facts: Sequence[Fact]) -> Idea:
    value = f"{sum(fact.number for fact in facts):,} {plural(facts[0].kind.unit)}"
    question = window.put(facts[0], "multi_session_reasoning")
    return _together(window, facts, question, value, [fact.v for fact in facts], [value])


def _list(window: ProbeWindow, facts: Sequence[Fact]) -> Idea:
    items, count = [to_you(fact.v) for fact in facts], in_words(len(facts))
    question = window.put(facts[0], "multi_session_reasoning")
    return _together(window, facts, question, count, items, [count, *items])


def _sum(window: ProbeWindow, facts: Sequence[Fact]) -> Idea:
    value = f"${sum(fact.number for fact in facts):,}"
    question = window.say("ask_sum", parts=series([window.named(fact) for fact in facts]))
    return _together(window, facts, question, value, [f"{fact.kind.np}: {fact.v}" for fact in facts], [value])


def event_ordering(window: ProbeWindow) -> Iterator[Idea]:
    """Ask for orders of facts that no earlier message foretells, or only by half of their words where there are few."""
    found = enumerate(sorted(_orders(window), key=itemgetter(0)))
    yield from (idea for number, (told, idea) in found if told < MOST or (told == MOST and number < _ENOUGH))


def _orders(window: ProbeWindow) -> Iterator[tuple[float, Idea]]:
    """The order in which the sides of a strand were first told, or all sums or days; with what `_foretold` says."""
    told = window.strands()
    kinds: dict[str, list[Fact]] = {}
    for facts in told.values():
        kinds.setdefault(facts[0].strand.kind.label, []).extend(facts)
        if len({fact.place[:2] for fact in facts}) > 1 and _asked_alone(window, facts, _ORDERED_OF_MANY):
            yield from _order(
                window, facts, window.say("sides_of", theme=_theme(window, facts[0], _ORDERED_BY_NAME * window.near))
            )
    for facts in kinds.values():
        if _whole(window, facts):
            days = [one for one in facts if one.kind.kind == "date"]
            yield from _order(
                window, days, window.say("days_about", theme=_name(window, facts, _ORDERED_BY_NAME * window.near))
            )
    if len(window.plans) == window.scenario.story.plans:
        every = [one for found in told.values() for one in found]
        sums = [one for one in every if one.kind.kind == "money" or one.kind.unit == "dollar"]
        yield from _order(window, sums, window.say("every_money"))
        yield from _order(window, [one for one in every if one.kind.kind == "date"], window.say("every_date"))


def _asked_alone(window: ProbeWindow, facts: Sequence[Fact], in_long: float) -> bool:
    """Whether a strand is asked about by itself: of many of a kind only some are."""
    share_asked = in_long if window.scenario.long else _ONE_OF_MANY
    return window.scenario.alone(facts[0].strand) or window.rng.random() < share_asked


def _whole(window: ProbeWindow, facts: Sequence[Fact]) -> bool:
    """Whether facts are of all strands of their kind, of which there are several."""
    return 1 < len({fact.strand.number for fact in facts}) == window.scenario.count(facts[0].strand)


def _name(window: ProbeWindow, facts: Sequence[Fact], named: float) -> str:
    """What all strands of a kind are about, or both by their names."""
    names = [window.full(strand) for strand in dict.fromkeys(fact.strand for fact in facts)]
    theme = window.rng.choice(facts[0].strand.kind.theme)
    return series(names) if len(names) == 2 and window.rng.random() < named else theme


def _order(window: ProbeWindow, every: Sequence[Fact], what: str) -> Iterator[tuple[float, Idea]]:
    facts = sorted({one.key: one for one in reversed(every) if one.revises is None}.values(), key=attrgetter("place"))
    if len(facts) not in _ITEMS:
        return
    several = len({fact.strand.number for fact in facts}) > 1
    items = [window.named(fact) if several else fact.kind.np for fact in facts]
    question = window.say("ask_order", what=what, count=in_words(len(items)))

    listed = ", ".join(f"{number}) {item}" for number, item in enumerate(items, start=1))
    reply = {
        "question": question,
        "answer": f"You brought them up in this order: {listed}.",
        "difficulty": "hard" if len(items) > 6 else "medium",
        "ordering_type": "mention_sequence",
        "total_mentions": len(items),
        "conversation_references": [state_of(fact) for fact in facts],
        "ordering_tested": items,
        "nuggets": items,
    }
    told = max(_foretold(window, fact, facts[0].place[0]) for fact in facts)
    yield told, Idea(f"the order of {what}", facts, reply)


def _foretold(window: ProbeWindow, fact: Fact, start: int) -> float:
    """The largest share of the words that are a fact's own in an earlier message on its strand."""
    own = fact.strand.kind.own[fact.kind.np]
    turns = [turn for plan in range(start, fact.place[0] + 1) for turn in window.script(plan).all_turns]
    places = [*(turn.entry.place for turn in turns), fact.place]  # a short plan asks about some bullets only
    before = [turn for turn in turns[: places.index(fact.place)] if turn.entry.strand is fact.strand]
    return max((share(own, content(step.text)) for turn in before for step in turn.steps), default=0.0)


def summarization(window: ProbeWindow) -> Iterator[Idea]:
    """Ask for all that holds of a strand, or of all strands of a kind; what was denied as well as told
    stays out.
    """
    denied = window.denied()
    kinds: dict[str, list[Fact]] = {}
    left_out: list[list[Fact]] = []
    none = True
    for found in window.strands().values():
        facts = [fact for fact in found if fact.key not in denied]
        kinds.setdefault(found[0].strand.kind.label, []).extend(facts)
        several = len({fact.key for fact in facts}) > 3 and len({fact.place[:2] for fact in facts}) > 1
        if several and _asked_alone(window, facts, _SUMMED_OF_MANY):
            yield _summary(window, facts, _theme(window, facts[0], _SUMMED_BY_NAME * window.near))
            none = False
        elif several:
            left_out.append(facts)
    for facts in kinds.values():
        if _whole(window, facts):
            none = False
            yield _summary(
                window, sorted(facts, key=attrgetter("place")), _name(window, facts, _SUMMED_BY_NAME * window.near)
            )
    for facts in left_out[:_ENOUGH] if window.scenario.long and none else ():  # where chance left out all
        yield _summary(window, facts, _theme(window, facts[0], 0.0))


def _summary(window: ProbeWindow, facts: Sequence[Fact], theme: str) -> Idea:
    question = window.say("ask_summary", theme=theme)
    newest: dict[tuple[int, str], list[Fact]] = {}
    for fact in facts:
        newest[fact.key] = [*(newest.get(fact.key, ()) if fact.kind.kind in _PARTLY else ()), fact]
    several, most = len({fact.strand.number for fact in facts}) > 1, min(len(newest), _STATES)
    states = [
        f"{_state(versions)} ({to_you(window.full(versions[0].strand))})" if several else _state(versions)
        for versions in newest.values()
    ]
    tested = [states[number * len(states) // most] for number in range(most)]

    def write(shown: Shown) -> Reply:
        ids = sorted(messages_stating(shown, *(fact.clause for fact in facts)))
        return {
            "question": question,
            "answer": f"This is what you told me: {'; '.join(states)}.",
            "difficulty": "hard" if len(states) > 6 else "medium",
            "summarization_type": "progressive_overview",
            "bullet_points_covered": len(facts),
            "conversation_sessions": ids,
            "key_elements_tested": [versions[-1].kind.np for versions in newest.values()],
            "synthesis_required": "Bring together what was said over several sessions.",
            "evidence": ids,
            "nuggets": [f"LLM response should contain: {state}" for state in tested],
        }

    return Idea(f"the progress of {theme}", facts, write=write)


def _state(versions: Sequence[Fact]) -> str:
    """What holds of a fact: its newest version; of a tally or a list all that was told."""
    kind = versions[-1].kind
    if kind.kind in ("tally", "list"):
        return f"{kind.np}: {series([to_you(fact.v) for fact in versions])}"
    return " and ".join(map(state_of, versions))


def _theme(window: ProbeWindow, fact: Fact, named: float) -> str:
    """What a strand is about, in words that its messages do not use; by its name where there are several of a kind."""
    strand = fact.strand
    if not window.scenario.alone(strand):
        return window.full(strand)
    return strand.kind.short[0] if window.rng.random() < named else window.rng.choice(strand.kind.theme)


_CANDIDATES = 12
"""Candidates given per window: about as many as the prompts ask for."""
_MESSAGE = re.compile(r"^\[messages? (\d+)(?:-\d+)?, ([^\]]*)\] ?", re.MULTILINE)
_REF = re.compile(r"\[(\d+)\.(\d+)\.(\d+)\]")
_MAKERS: Mapping[str, Maker] = {
    maker.__name__: maker
    for maker in (
        abstention, contradiction_resolution, event_ordering, information_extraction, instruction_following,
        knowledge_update, multi_session_reasoning, preference_following, summarization, temporal_reasoning,
    )
}  # fmt: skip


class ProbeWriter:
    """Thinks of questions about a scenario."""

    def __init__(self, scenario: Scenario, script: Callable[[int], PlanScript]) -> None:
        self.scenario, self._script = scenario, script
        self._ideas: dict[tuple[str, tuple[tuple[int, int, int], ...]], Idea] = {}
        self._nuggets: dict[tuple[str, ...], list[str]] = {}

    def candidates(self, ability: str, plan_text: str) -> list[Reply]:
        """Return candidates in the plans whose references stand in `plan_text`."""
        return [idea.candidate for idea in self._thought_of(ability, plan_text)]

    def question(self, ability: str, bullets: str, turns: str) -> Reply:
        """Return the question that rests on `bullets`; empty where the author knows of none."""
        places = sorted((int(found[1]), int(found[2]), int(found[3])) for found in _REF.finditer(bullets))
        idea = self._ideas.get((ability, tuple(places)))
        if idea is None:
            return {}
        reply = idea.ask(_shown(turns))
        key = (ability, *(" ".join(reply[name].split()) for name in ("question", "answer")))  # drafts are on one line
        self._nuggets[key] = reply.pop("nuggets")
        return reply

    def nuggets(self, variables: Mapping[str, str]) -> list[str]:
        """Return the nuggets of the author's own question, known by ability, words and answer; else empty."""
        answer = variables["reference"].partition("\n")[0]
        return self._nuggets.get((variables["ability"], variables["question"], answer), [])

    def abstentions(self, plan_text: str) -> list[Reply]:
        """Return questions on details that nobody gave."""
        return [idea.ask(()) for idea in self._thought_of("abstention", plan_text)]

    def _thought_of(self, ability: str, plan_text: str) -> list[Idea]:
        """Draw at most `_CANDIDATES` candidates from all over a window."""
        plans = sorted({int(found[1]) for found in _REF.finditer(plan_text)}) or [0]
        rng = random.Random(f"probes {ability} {plans} {self.scenario.key}")
        found = list(_MAKERS[ability](ProbeWindow(self.scenario, plans, rng, self._script)))
        found = found if len(found) <= _CANDIDATES else rng.sample(found, _CANDIDATES)
        self._ideas.update(((ability, tuple(sorted(set(idea.places)))), idea) for idea in found)
        return found


def _shown(turns: str) -> Shown:
    """Read the messages in a prompt's `turns`."""
    marks = list(_MESSAGE.finditer(turns))
    ends = [mark.start() for mark in marks[1:]] + [len(turns)]
    return [(int(mark[1]), mark[2], turns[mark.end() : end].strip()) for mark, end in zip(marks, ends, strict=True)]
