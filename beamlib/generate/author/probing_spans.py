"""Probing questions on what was told over a while: days between, sums and differences, counts, orders, summaries."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from itertools import combinations

from beamlib.generate.author.facts import Entry, Fact
from beamlib.generate.author.probing_base import Idea, Record, Reply, Shown, fact_of, ref, series, state_of, telling
from beamlib.generate.author.values import show_number

_SUMS = ("usd", "minutes", "hours", "pages", "km")
_SIZES = (*_SUMS, "days", "weeks", "months", "people", "pieces", "kg", "sqm")
"""Units in which a difference between two things means something."""
_RATE = re.compile(
    r"\b(?:per|each|every|(?:a|one|each) (?:day|night|week|month|year|head|person|hour|session|meeting|time)|at a time|"
    r"daily|weekly|monthly|yearly|hourly|annual|nightly|apiece)\b"
)
_SPANS = (
    "How many days are there between {first} and {second}?",
    "How many days pass from {first} to {second}?",
    "Counted in days, how far apart are {first} and {second}?",
    "How many days lie between {first} and {second}?",
    "If I count from {first}, how many days is it until {second}?",
)
_ADDED = (
    "What do {parts} come to when you add them up?",
    "Added together, how much are {parts}?",
    "What is the total of {parts}?",
    "Please add up {parts}: what do you get?",
)
_APART = (
    "By how much do {one} and {other} differ?",
    "What is the difference between {one} and {other}?",
    "How large is the gap between {one} and {other}?",
    "Compare {one} with {other}: how large is the difference?",
)
_COUNTED = (
    "How many different {kind} have I told you about by name, and which are they?",
    "Which {kind} have I named in our conversations, and how many are there?",
    "Can you list the {kind} that I have named to you and count them?",
)
_ORDERED = (
    "In which order did I bring up the different sides of {name} in our conversations?",
    "Can you list, in order, what I brought up about {name} over our conversations?",
    "What did I tell you about {name} first, and what came after it, step by step?",
    "Walk me through the points that I brought up about {name}, in the order in which I did.",
)
_SUMMED_UP = (
    "Can you give me a summary of how {name} has come along, from the start until now?",
    "What do we know by now about {name}? Please sum it up.",
    "Please summarize everything that I have told you about {name}.",
    "Where does {name} stand? Give me an overview of all that was said about it.",
)
_FEW = 6
_NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}


def temporal_reasoning(record: Record, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
    """The days between two days that were told and never moved."""
    dated = [entry for entry in record.final(entries) if fact_of(entry).day is not None]
    for one, other in _pairs(dated, rng):
        first, second = sorted((fact_of(one), fact_of(other)), key=lambda fact: (fact.day, fact.mention))
        if first.day is None or second.day is None or first.day == second.day:
            continue
        days = (second.day - first.day).days
        question = rng.choice(_SPANS).format(first=first.mention, second=second.mention)

        def ask(
            shown: Shown, first: Fact = first, second: Fact = second, days: int = days, question: str = question
        ) -> Reply:
            count = f"{days} day" if days == 1 else f"{days} days"
            start, end = first.values["value"], second.values["value"]
            return {
                "question": question,
                "answer": f"There are {count} between {first.mention} ({start}) and {second.mention} ({end}).",
                "difficulty": "medium",
                "temporal_type": "duration_calculation",
                "time_points": [f"{start}: {first.mention}", f"{end}: {second.mention}"],
                "conversation_references": [first.state, second.state],
                "calculation_required": f"from {start} to {end} = {count}",
                "evidence": {"first": telling(shown, first), "second": telling(shown, second)},
                "nuggets": [
                    f"LLM response should state: {count}",
                    f"LLM response should state: from {start} till {end}",
                ],
            }

        about = f"the time from {first.mention} to {second.mention}"
        yield Idea(about, (ref(first), ref(second)), {"first": ref(first), "second": ref(second)}, ask)


def multi_session_reasoning(record: Record, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
    """Sums and differences of values from several sub-plans, and how many things of a kind there are.

    What is paid or done once is never added to a rate (a night, a month): their sum would mean nothing.
    """
    final = [entry for entry in record.final(entries) if fact_of(entry).number is not None]
    rng.shuffle(final)
    found: list[Idea] = []
    for key in dict.fromkeys(_measure(fact_of(entry)) for entry in final):
        alike = [entry for entry in final if _measure(fact_of(entry)) == key]
        if key[0] in _SUMS and not key[1]:
            found += [_sum(facts, rng) for facts in _groups(alike, 3)]
        if key[0] in _SIZES:
            found += [_difference(facts, rng) for facts in _groups(alike, 2)]
    for kind, told in record.by_kind(entries).items():
        if 2 <= len(told) <= 6 and len({entry.place[:2] for entry in told}) > 1:
            found.append(_count(kind, [fact_of(entry) for entry in told], rng))
    if len(found) < _FEW:  # a short conversation of many units: whatever has the same one is compared, as it is now
        final += [entry for entry in entries if entry.purpose == "update" and fact_of(entry).number is not None]
        pairs = [pair for pair in combinations(final, 2) if len({fact_of(entry).aspect.unit for entry in pair}) == 1]
        pairs.sort(key=lambda pair: len({_measure(fact_of(entry)) for entry in pair}))  # like with like first
        more = [_difference(facts, rng) for pair in pairs for facts in _groups(pair, 2)]
        found += more[: _FEW - len(found)]
    yield from {idea.about: idea for idea in found}.values()


def _measure(fact: Fact) -> tuple[str, tuple[str, ...]]:
    """The unit of a fact's number, and what it is counted by if it is a rate."""
    text = f"{fact.state} {fact.mention} {fact.aspect.label.lower()}".replace(fact.thing.name, "")
    return fact.aspect.unit, tuple(sorted(set(_RATE.findall(text))))


def _groups(entries: Sequence[Entry], size: int) -> Iterator[list[Fact]]:
    """Facts of `size` entries each in the order told: from several sub-plans, no two of the same number."""
    for start in range(0, len(entries) - size + 1, size):
        group = sorted(entries[start : start + size], key=lambda entry: entry.place)
        facts = [fact_of(entry) for entry in group]
        if len({entry.place[:2] for entry in group}) > 1 and len({fact.number for fact in facts}) == size:
            yield facts


def event_ordering(record: Record, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
    """The order in which the sides of one thing were first told."""
    for name, facts in _stories(record, entries).items():
        opening = rng.choice(_ORDERED).format(name=name)

        def ask(shown: Shown, opening: str = opening, facts: list[Fact] = facts) -> Reply:
            items = [fact.mention for fact in facts]
            return {
                "question": f"{opening} Mention ONLY and ONLY {_NUMBERS[len(items)]} items.",
                "answer": "You brought them up in this order: "
                + ", ".join(f"{number}) {item}" for number, item in enumerate(items, start=1))
                + ".",
                "difficulty": "hard" if len(items) > 6 else "medium",
                "ordering_type": "mention_sequence",
                "total_mentions": len(items),
                "conversation_references": [fact.state for fact in facts],
                "ordering_tested": items,
                "evidence": [i for fact in facts for i in telling(shown, fact)],
                "nuggets": items,
            }

        yield Idea(f"the order in which {name} was talked about", tuple(map(ref, facts)), {}, ask)


def summarization(record: Record, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
    """All that holds of one thing, in its newest version; what was denied as well as told stays out."""
    for name, told in _stories(record, entries).items():
        facts = [fact for fact in told if (name, fact.aspect.label) not in record.denied]
        if len(facts) < 4:
            continue
        newest = record.newest(facts)
        question = rng.choice(_SUMMED_UP).format(name=name)

        def ask(
            shown: Shown,
            name: str = name,
            facts: list[Fact] = facts,
            newest: list[Fact] = newest,
            question: str = question,
        ) -> Reply:
            states = [state_of(fact) for fact in newest]
            ids = [i for fact in facts for i in telling(shown, fact)]
            ids += [i for fact in newest if fact.revises is not None for i in telling(shown, fact)]
            return {
                "question": question,
                "answer": f"This is how {name} has come along: " + "; ".join(states) + ".",
                "difficulty": "hard" if len(facts) > 6 else "medium",
                "summarization_type": "progressive_overview",
                "bullet_points_covered": len(facts),
                "conversation_sessions": sorted(ids),
                "key_elements_tested": [fact.mention for fact in facts],
                "synthesis_required": f"Bring together what was said about {name} over several sessions.",
                "evidence": sorted(set(ids)),
                "nuggets": [f"LLM response should contain: {state}" for state in states],
            }

        refs = [*map(ref, facts), *(ref(fact) for fact in newest if fact.revises is not None)]
        yield Idea(f"the progress of {name}", tuple(refs), {}, ask)


def _stories(record: Record, entries: Sequence[Entry]) -> dict[str, list[Fact]]:
    """Things told whole within `entries`, over at least two sub-plans, with four to nine facts in the order told."""
    return {
        name: [fact_of(entry) for entry in told]
        for name, told in record.by_thing(entries).items()
        if 4 <= len(told) <= 9 and len({entry.place[:2] for entry in told}) > 1
    }


def _sum(facts: Sequence[Fact], rng: random.Random) -> Idea:
    parts = series([fact.mention for fact in facts])
    value = show_number(sum(fact.number or 0 for fact in facts), facts[0].aspect.unit)
    question = rng.choice(_ADDED).format(parts=parts)

    def ask(shown: Shown) -> Reply:
        added = " + ".join(fact.values["value"] for fact in facts)
        told = [f"{fact.mention}: {fact.values['value']}" for fact in facts]
        return {
            "question": question,
            "answer": f"Together they come to {value} ({'; '.join(told)}).",
            "difficulty": "hard",
            "reasoning_type": "sum_over_sessions",
            "sessions_required": len({(fact.plan, fact.batch) for fact in facts}),
            "conversation_references": [fact.state for fact in facts],
            "reasoning_steps": [*told, f"{added} = {value}"],
            "evidence": [i for fact in facts for i in telling(shown, fact)],
            "nuggets": [f"LLM response should state: {value}"],
        }

    return Idea(f"the sum of {parts}", tuple(map(ref, facts)), {}, ask)


def _difference(facts: Sequence[Fact], rng: random.Random) -> Idea:
    more, less = sorted(facts, key=lambda fact: -(fact.number or 0))
    value = show_number((more.number or 0) - (less.number or 0), more.aspect.unit)
    one, other = facts[0].mention, facts[1].mention
    plain = one.startswith("the ") and other.startswith("the ")
    question = (rng.choice(_APART) if plain else _APART[0]).format(one=one, other=other)

    def ask(shown: Shown) -> Reply:
        given, taken = more.values["value"], less.values["value"]
        return {
            "question": question,
            "answer": f"They differ by {value} ({more.mention}: {given}; {less.mention}: {taken}).",
            "difficulty": "medium",
            "reasoning_type": "comparison_over_sessions",
            "sessions_required": 2,
            "conversation_references": [fact.state for fact in facts],
            "reasoning_steps": [f"{more.mention}: {given}", f"{less.mention}: {taken}", f"{given} - {taken} = {value}"],
            "evidence": [i for fact in facts for i in telling(shown, fact)],
            "nuggets": [f"LLM response should state: {value}"],
        }

    return Idea(f"the difference of {one} and {other}", tuple(map(ref, facts)), {}, ask)


def _count(kind: str, facts: Sequence[Fact], rng: random.Random) -> Idea:
    names = [fact.thing.name for fact in facts]
    question = rng.choice(_COUNTED).format(kind=kind)

    def ask(shown: Shown) -> Reply:
        return {
            "question": question,
            "answer": f"There are {_NUMBERS[len(names)]}: {series(names)}.",
            "difficulty": "medium" if len(names) < 4 else "hard",
            "reasoning_type": "count_over_sessions",
            "sessions_required": len({(fact.plan, fact.batch) for fact in facts}),
            "conversation_references": [fact.state for fact in facts],
            "reasoning_steps": [*names, f"{len(names)} in all"],
            "evidence": [i for fact in facts for i in telling(shown, fact)],
            "nuggets": [
                f"LLM response should state: {len(names)} {kind}",
                *(f"LLM response should mention: {name}" for name in names),
            ],
        }

    return Idea(f"the number of {kind}", tuple(map(ref, facts)), {}, ask)


def _pairs(entries: Sequence[Entry], rng: random.Random) -> list[tuple[Entry, Entry]]:
    """Pairs of entries, all of them where they are few, else a sample."""
    found = list(combinations(entries, 2))
    return found if len(found) <= 60 else rng.sample(found, 60)
