"""Probing questions on one statement or two: values, updates, contradictions, preferences, rules, what is absent."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from beamlib.generate.author.bank import Absent
from beamlib.generate.author.facts import Entry, Fact
from beamlib.generate.author.probing_base import (
    Idea,
    Record,
    Reply,
    Shown,
    fact_of,
    holding,
    payload,
    ref,
    state_of,
    telling,
    told_in,
    worded,
)


def information_extraction(record: Record, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
    """A value, a day, a person or a choice with its reason, as it was told once and never changed."""
    for entry in record.final(entries):
        fact = fact_of(entry)
        if fact.aspect.kind == "event":
            continue
        key_facts, question = payload(fact), worded(fact.fill(fact.aspect.ask), rng)

        def ask(shown: Shown, fact: Fact = fact, key_facts: list[str] = key_facts, question: str = question) -> Reply:
            return {
                "question": question,
                "answer": f"You told me that {state_of(fact)}.",
                "difficulty": "easy" if len(key_facts) == 1 else "medium",
                "question_type": {"quantity": "numerical_precision", "date": "date_recall"}.get(
                    fact.aspect.kind, "detail_recall"
                ),
                "conversation_reference": f"The user's message on {fact.mention}",
                "key_facts_tested": key_facts,
                "evidence": telling(shown, fact),
                "nuggets": [f"LLM response should state: {one}" for one in key_facts],
            }

        yield Idea(fact.mention, (ref(entry),), {}, ask)


def knowledge_update(record: Record, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
    """The newest value of something that was revised."""
    for entry in entries:
        fact = entry.fact
        old = fact.revises if fact is not None and entry.purpose == "update" else None
        if fact is None or old is None or not told_in(entries, old):
            continue
        first, second = ref(old), ref(entry)
        question = worded(fact.fill(fact.aspect.ask), rng)

        def ask(shown: Shown, fact: Fact = fact, old: Fact = old, question: str = question) -> Reply:
            new = fact.values["value"]
            return {
                "question": question,
                "answer": new,
                "difficulty": "easy",
                "update_type": f"{fact.aspect.kind}_change",
                "tests_retention_of": f"the current value of {fact.mention}",
                "conversation_references": [state_of(old), state_of(fact)],
                "potential_confusion": f"The answer may give the earlier value, {old.values['value']}.",
                "evidence": {"original": telling(shown, old), "updated": telling(shown, fact)},
                "old_value": old.values["value"],
                "new_value": new,
                "nuggets": [f"LLM response should state: {new}"],
            }

        yield Idea(fact.mention, (first, second), {"original": first, "updated": second}, ask)


def contradiction_resolution(record: Record, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
    """Whether something was done that the user has both told and denied."""
    for entry in entries:
        fact = entry.fact
        if fact is None or entry.purpose != "contradiction" or not told_in(entries, fact):
            continue
        first, second = ref(fact), ref(entry)
        question = worded(fact.fill(fact.aspect.ask, "user"), rng)

        def ask(shown: Shown, fact: Fact = fact, question: str = question) -> Reply:
            told, denied = fact.fill(fact.aspect.told, "you"), fact.fill(fact.aspect.denied, "you")
            return {
                "question": question,
                "answer": (
                    f"Your messages contradict each other here: you said that {told}, but you also said that "
                    f"{denied}. Which of the two is correct?"
                ),
                "difficulty": "clear",
                "contradiction_type": "never_statement_violation",
                "topic_questioned": fact.mention,
                "conversation_references": [state_of(fact), fact.fill(fact.aspect.never, "user")],
                "tests_for": "The answer should point the contradiction out and ask which statement holds.",
                "evidence": {
                    "first": telling(shown, fact),
                    "second": holding(shown, [fact.fill(fact.aspect.never, "user")]),
                },
                "nuggets": [
                    "LLM response should state: there is contradictory information",
                    f"LLM response should mention: you said that {told}",
                    f"LLM response should mention: you also said that {denied}",
                    "LLM response should mention: which statement is correct?",
                ],
            }

        yield Idea(fact.mention, (first, second), {"first": first, "second": second}, ask)


def preference_following(record: Record, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
    """A question that a stated preference should shape the answer to."""
    for entry in entries:
        liked = entry.preference
        if liked is None:
            continue

        def ask(shown: Shown, entry: Entry = entry) -> Reply:
            liked = entry.preference
            assert liked is not None
            stated = entry.text[:-1]
            return {
                "question": liked.ask,
                "preference_being_tested": entry.text,
                "answer": f"Response should keep to the stated preference for {liked.likes}.",
                "compliance_indicators": list(liked.signs),
                "non_compliance_signs": [f"suggests {liked.dislikes}"],
                "difficulty": "medium",
                "preference_type": "stated preference",
                "evidence": holding(shown, [stated]),
                "nuggets": [f"LLM response should contain: {sign}" for sign in liked.signs],
            }

        yield Idea(f"the preference for {liked.likes}", (ref(entry),), {}, ask)


def instruction_following(record: Record, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
    """A question of the field that a standing instruction is about."""
    for entry in entries:
        if entry.rule is None:
            continue
        words = record.world.about(None, entry.plan, rng)
        question = record.world.fill(rng.choice(entry.topic.questions), rng, words, entry.plan)

        def ask(shown: Shown, entry: Entry = entry, question: str = question) -> Reply:
            assert entry.rule is not None
            return {
                "question": question,
                "instruction_being_tested": entry.text,
                "answer": f"Response should follow the instruction: it {entry.rule.sign}.",
                "compliance_indicators": [entry.rule.sign],
                "non_compliance_signs": ["answers without following the instruction"],
                "difficulty": "medium",
                "instruction_type": "format_instruction",
                "evidence": holding(shown, [entry.text]),
                "nuggets": [f"LLM response should contain: {entry.rule.sign}"],
            }

        yield Idea(f"the instruction on {entry.topic.occasion}: {entry.rule.rule}", (ref(entry),), {}, ask)


def abstention(record: Record, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
    """A detail that nobody ever gave of something that was talked about."""
    for name, told in record.by_thing(entries).items():
        fact = fact_of(told[0])
        absent = rng.choice(fact.thing.template.absent)
        question = worded(fact.fill(absent.ask), rng)

        def ask(
            shown: Shown,
            fact: Fact = fact,
            absent: Absent = absent,
            name: str = name,
            place: str = ref(told[0]),
            question: str = question,
        ) -> Reply:
            detail = fact.fill(absent.detail)
            nothing = f"Based on the provided chat, there is no information related to {detail}"
            return {
                "question": question,
                "answer": f"{nothing}.",
                "difficulty": "hard",
                "abstention_type": "missing_detail",
                "why_unanswerable": f"The chat speaks of {name} but never gives {detail}.",
                "plan_reference": f"Bullet {place}",
                "entity": name,
                "detail": detail,
                "keyword": absent.keyword,
                "nuggets": [nothing],
            }

        yield Idea(f"{name}: {absent.keyword}", (), {}, ask)
