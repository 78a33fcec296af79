"""Probing questions on what was told over a while: days between, tallies and sums, orders, summaries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from operator import attrgetter, itemgetter

from beam_generate.probes.wording import content, share
from beam_offline.author.grammar import in_words, plural, series, to_you
from beam_offline.author.strand_facts import Fact
from beam_offline.author.window import Idea, ProbeWindow, Reply, Shown, state_of, telling
from beam_offline.author.word_bank import MOST

_ORDERED_BY_NAME, _SUMMED_BY_NAME = 0.85, 0.8  # how often a question names a strand as messages do
_RATE = re.compile(r"\b(?:per|each|every|an? (?:day|week|month|year|hour|night)|daily|weekly|monthly|yearly)\b")
_ONE_OF_MANY, _ENOUGH = 0.4, 3
_ITEMS, _STATES = range(3, 13), 9  # items that are put in order; states of a summary that are tested at most


def temporal_reasoning(window: ProbeWindow) -> Iterator[Idea]:
    """The days between two days that were told in different messages and never moved."""
    dated = [(fact.day, fact) for fact in window.final() if fact.day is not None]
    for (one, first), (two, second) in combinations(sorted(dated, key=lambda pair: (pair[0], pair[1].place)), 2):
        if (two - one).days > 2 and (first.place[:2] != second.place[:2] or window.rng.random() < 0.3):
            yield _between(window, first, second, (two - one).days)


def _between(window: ProbeWindow, first: Fact, second: Fact, days: int) -> Idea:
    names = (window.named(first), window.named(second))
    question = window.say("ask_days", first=names[0], second=names[1])
    count = f"{days} days"
    between = f"between {first.v}, {names[0]}, and {second.v}, {names[1]}"

    def ask(shown: Shown) -> Reply:
        return {
            "question": question,
            "answer": f"There are {count} {between}.",
            "difficulty": "medium",
            "temporal_type": "duration_calculation",
            "time_points": [f"{first.v}: {names[0]}", f"{second.v}: {names[1]}"],
            "conversation_references": [state_of(first), state_of(second)],
            "calculation_required": f"from {first.v} to {second.v} = {count}",
            "evidence": {"first": telling(shown, first.clause), "second": telling(shown, second.clause)},
            "nuggets": [
                f"LLM response should state: {count}",
                f"LLM response should state: from {first.v} till {second.v}",
            ],
        }

    places = {"first": first.place, "second": second.place}
    return Idea(f"the time from {names[0]} to {names[1]}", list(places.values()), ask, places)


def multi_session_reasoning(window: ProbeWindow) -> Iterator[Idea]:
    """What several messages add up to: tallies, lists of things, sums of what is paid once."""
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
    def ask(shown: Shown) -> Reply:
        return {
            "question": question,
            "answer": f"{value} ({'; '.join(steps)})." if facts[0].number else f"{value}: {series(steps)}.",
            "difficulty": "hard" if len(facts) > 2 else "medium",
            "reasoning_type": "aggregation_over_sessions",
            "sessions_required": len({fact.place[:2] for fact in facts}),
            "conversation_references": [state_of(fact) for fact in facts],
            "reasoning_steps": [*steps, f"together: {value}"],
            "evidence": telling(shown, *(fact.clause for fact in facts)),
            "nuggets": [f"LLM response should state: {one}" for one in nuggets],
        }

    return Idea(question, [fact.place for fact in facts], ask)


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
    """Orders of what nothing told before takes up; of what half of the words did where there are few of these."""
    found = enumerate(sorted(_orders(window), key=itemgetter(0)))
    yield from (idea for number, (told, idea) in found if told < MOST or (told == MOST and number < _ENOUGH))


def _orders(window: ProbeWindow) -> Iterator[tuple[float, Idea]]:
    """The order in which the sides of a strand were first told, or all sums or days; with what `_foretold` says."""
    told = window.strands()
    kinds: dict[str, list[Fact]] = {}
    for facts in told.values():
        kinds.setdefault(facts[0].strand.kind.label, []).extend(facts)
        if len({fact.place[:2] for fact in facts}) > 1 and _single(window, facts):
            yield from _order(window, facts, window.say("sides_of", theme=_theme(window, facts[0], _ORDERED_BY_NAME)))
    for facts in kinds.values():
        if _whole(window, facts):
            days = [one for one in facts if one.kind.kind == "date"]
            yield from _order(window, days, window.say("days_about", theme=_name(window, facts, _ORDERED_BY_NAME)))
    if len(window.plans) == window.world.story.plans:
        every = [one for found in told.values() for one in found]
        sums = [one for one in every if one.kind.kind == "money" or one.kind.unit == "dollar"]
        yield from _order(window, sums, window.say("every_money"))
        yield from _order(window, [one for one in every if one.kind.kind == "date"], window.say("every_date"))


def _single(window: ProbeWindow, facts: Sequence[Fact]) -> bool:
    """Whether a strand is asked about by itself: of many of a kind only some are."""
    return window.world.alone(facts[0].strand) or window.rng.random() < _ONE_OF_MANY


def _whole(window: ProbeWindow, facts: Sequence[Fact]) -> bool:
    """Whether facts are of all strands of their kind, of which there are several."""
    return 1 < len({fact.strand.number for fact in facts}) == window.world.count(facts[0].strand)


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

    def ask(shown: Shown) -> Reply:
        listed = ", ".join(f"{number}) {item}" for number, item in enumerate(items, start=1))
        return {
            "question": question,
            "answer": f"You brought them up in this order: {listed}.",
            "difficulty": "hard" if len(items) > 6 else "medium",
            "ordering_type": "mention_sequence",
            "total_mentions": len(items),
            "conversation_references": [state_of(fact) for fact in facts],
            "ordering_tested": items,
            "evidence": telling(shown, *(fact.clause for fact in facts)),
            "nuggets": items,
        }

    told = max(_foretold(window, fact, facts[0].place[0]) for fact in facts)
    yield told, Idea(f"the order of {what}", [fact.place for fact in facts], ask)


def _foretold(window: ProbeWindow, fact: Fact, start: int) -> float:
    """The largest share of the words that are a fact's own in an earlier message on its strand."""
    own = fact.strand.kind.own[fact.kind.np]
    turns = [turn for plan in range(start, fact.place[0] + 1) for turn in window.script(plan).all_turns]
    places = [*(turn.entry.place for turn in turns), fact.place]  # a short plan asks about some bullets only
    before = [turn for turn in turns[: places.index(fact.place)] if turn.entry.strand is fact.strand]
    return max((share(own, content(step.text)) for turn in before for step in turn.steps), default=0.0)


def summarization(window: ProbeWindow) -> Iterator[Idea]:
    """All that holds of a strand, or of all strands of a kind, in its newest version; what was denied as well as told
    stays out.
    """
    denied = window.denied()
    kinds: dict[str, list[Fact]] = {}
    for found in window.strands().values():
        facts = [fact for fact in found if fact.key not in denied]
        kinds.setdefault(found[0].strand.kind.label, []).extend(facts)
        several = len({fact.key for fact in facts}) > 3 and len({fact.place[:2] for fact in facts}) > 1
        if several and _single(window, facts):
            yield _summary(window, facts, _theme(window, facts[0], _SUMMED_BY_NAME))
    for facts in kinds.values():
        if _whole(window, facts):
            yield _summary(window, sorted(facts, key=attrgetter("place")), _name(window, facts, _SUMMED_BY_NAME))


def _summary(window: ProbeWindow, facts: Sequence[Fact], theme: str) -> Idea:
    question = window.say("ask_summary", theme=theme)
    newest: dict[tuple[int, str], list[Fact]] = {}
    for fact in facts:
        newest[fact.key] = [*(newest.get(fact.key, ()) if fact.kind.kind in ("tally", "list") else ()), fact]
    several, most = len({fact.strand.number for fact in facts}) > 1, min(len(newest), _STATES)
    states = [
        f"{_state(versions)} ({to_you(window.full(versions[0].strand))})" if several else _state(versions)
        for versions in newest.values()
    ]
    tested = [states[number * len(states) // most] for number in range(most)]

    def ask(shown: Shown) -> Reply:
        ids = sorted(telling(shown, *(fact.clause for fact in facts)))
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

    return Idea(f"the progress of {theme}", [fact.place for fact in facts], ask)


def _state(versions: Sequence[Fact]) -> str:
    """What holds of a fact: its newest version; of a tally or a list all that was told."""
    kind = versions[-1].kind
    if kind.kind in ("tally", "list"):
        return f"{kind.np}: {series([to_you(fact.v) for fact in versions])}"
    return state_of(versions[-1])


def _theme(window: ProbeWindow, fact: Fact, named: float) -> str:
    """What a strand is about, in words that its messages do not use; by its name where there are several of a kind."""
    strand = fact.strand
    if not window.world.alone(strand):
        return window.full(strand)
    return strand.kind.short[0] if window.rng.random() < named else window.rng.choice(strand.kind.theme)
