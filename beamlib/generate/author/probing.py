"""What the offline author would ask about its world: candidates, questions, reference answers and nuggets.

Everything is read off the facts, so a reference answer is true by construction. The evidence is looked up in the turns
that the prompt shows: a message is cited only where it tells the fact in so many words.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from beamlib.generate.author.facts import Fact
from beamlib.generate.author.values import show_number
from beamlib.generate.author.world import Entry, World

_CANDIDATES = 12
"""Candidates given per window: about as many as the prompts ask for."""
_MESSAGE = re.compile(r"^\[messages? (\d+)(?:-\d+)?, ([^\]]*)\] ?", re.MULTILINE)
_REF = re.compile(r"\[(\d+)\.(\d+)\.(\d+)\]")
_SUMS = ("usd", "minutes", "hours", "pages", "km", "people")

Reply = dict[str, Any]
Shown = Sequence[tuple[int, str, str]]
"""Messages of the cited turns: (id, role, text)."""


@dataclass(frozen=True)
class Idea:
    """A candidate: what is published of it (`about`, references) and how its question is made from the turns shown."""

    about: str
    refs: tuple[str, ...]
    special: Mapping[str, str]
    ask: Callable[[Shown], Reply]

    @property
    def candidate(self) -> Reply:
        """The candidate as the prompts `candidates_<ability>` want it."""
        return {"bullets": list(self.refs), "about": self.about, **self.special}


class Examiner:
    """Thinks of questions about a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._nuggets: dict[str, list[str]] = {}
        self._ideas: dict[tuple[str, tuple[int, ...]], list[Idea]] = {}

    def candidates(self, ability: str, plan_text: str) -> list[Reply]:
        """Candidates in the plans whose references stand in `plan_text`."""
        plans = tuple(sorted({int(found[1]) for found in _REF.finditer(plan_text)})) or (0,)
        return [idea.candidate for idea in self.ideas(ability, plans)]

    def question(self, ability: str, about: str, bullets: str, turns: str) -> Reply | None:
        """The question on the candidate that is about `about`; None where the author knows of none."""
        plans = sorted({int(found[1]) for found in _REF.finditer(bullets)}) or [0]
        windows = [(plan,) for plan in plans] + [tuple(plans), (plans[0], plans[0] + 1), (plans[0] - 1, plans[0])]
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
        plans = tuple(sorted({int(found[1]) for found in _REF.finditer(plan_text)})) or (0,)
        return [self._asked(idea, ()) for idea in self.ideas("abstention", plans)]

    def ideas(self, ability: str, plans: tuple[int, ...]) -> list[Idea]:
        """All candidates of a window of plans, spread over it."""
        key = (ability, plans)
        if key not in self._ideas:
            story = self.world.story
            rng = random.Random(
                f"probes {ability} {plans} {story.seed} {story.size} {story.number} {story.topic.title}"
            )
            entries = [entry for (plan, _), found in self.world.entries.items() if plan in plans for entry in found]
            found = list(getattr(self, f"_{ability}")(entries, rng))
            self._ideas[key] = found if len(found) <= _CANDIDATES else rng.sample(found, _CANDIDATES)
        return self._ideas[key]

    def _asked(self, idea: Idea, shown: Shown) -> Reply:
        reply = idea.ask(shown)
        self._nuggets[reply["question"]] = reply.pop("nuggets")
        return reply

    def _final(self, entries: Sequence[Entry]) -> list[Entry]:
        """Entries that tell a fact which nothing revises or denies, in this plan or later."""
        gone = {
            (entry.fact.thing.name, entry.fact.aspect.label)
            for found in self.world.entries.values()
            for entry in found
            if entry.fact is not None and entry.purpose in ("update", "contradiction")
        }
        return [
            entry
            for entry in entries
            if entry.purpose == "fact"
            and entry.fact is not None
            and (entry.fact.thing.name, entry.fact.aspect.label) not in gone
        ]

    def _information_extraction(self, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
        for entry in self._final(entries):
            fact = _fact(entry)
            if fact.aspect.kind == "event":
                continue
            key_facts = _payload(fact)

            def ask(shown: Shown, fact: Fact = fact, key_facts: list[str] = key_facts) -> Reply:
                return {
                    "question": fact.fill(fact.aspect.ask),
                    "answer": f"You told me that {fact.state}.",
                    "difficulty": "easy" if len(key_facts) == 1 else "medium",
                    "question_type": {"quantity": "numerical_precision", "date": "date_recall"}.get(
                        fact.aspect.kind, "detail_recall"
                    ),
                    "conversation_reference": f"The user's message on {fact.mention}",
                    "key_facts_tested": key_facts,
                    "evidence": _telling(shown, fact),
                    "nuggets": [f"LLM response should state: {one}" for one in key_facts],
                }

            yield Idea(fact.mention, (_ref(entry),), {}, ask)

    def _knowledge_update(self, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
        for entry in entries:
            fact = entry.fact
            old = fact.revises if fact is not None and entry.purpose == "update" else None
            if fact is None or old is None or not _told_in(entries, old):
                continue
            first, second = f"{old.plan}.{old.batch}.{old.bullet}", _ref(entry)

            def ask(shown: Shown, fact: Fact = fact, old: Fact = old) -> Reply:
                new = fact.values["value"]
                return {
                    "question": fact.fill(fact.aspect.ask),
                    "answer": new,
                    "difficulty": "easy",
                    "update_type": f"{fact.aspect.kind}_change",
                    "tests_retention_of": f"the current value of {fact.mention}",
                    "conversation_references": [old.state, fact.state],
                    "potential_confusion": f"The answer may give the earlier value, {old.values['value']}.",
                    "evidence": {"original": _telling(shown, old), "updated": _telling(shown, fact)},
                    "old_value": old.values["value"],
                    "new_value": new,
                    "nuggets": [f"LLM response should state: {new}"],
                }

            yield Idea(fact.mention, (first, second), {"original": first, "updated": second}, ask)

    def _contradiction_resolution(self, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
        for entry in entries:
            fact = entry.fact
            if fact is None or entry.purpose != "contradiction" or not _told_in(entries, fact):
                continue
            first, second = f"{fact.plan}.{fact.batch}.{fact.bullet}", _ref(entry)

            def ask(shown: Shown, fact: Fact = fact) -> Reply:
                told, denied = fact.fill(fact.aspect.told, "you"), fact.fill(fact.aspect.denied, "you")
                return {
                    "question": fact.fill(fact.aspect.ask, "user"),
                    "answer": (
                        f"Your messages contradict each other here: you said that {told}, but you also said that "
                        f"{denied}. Which of the two is correct?"
                    ),
                    "difficulty": "clear",
                    "contradiction_type": "never_statement_violation",
                    "topic_questioned": fact.mention,
                    "conversation_references": [fact.state, fact.fill(fact.aspect.never, "user")],
                    "tests_for": "The answer should point the contradiction out and ask which statement holds.",
                    "evidence": {"first": _telling(shown, fact), "second": _holding(shown, [_never(fact)])},
                    "nuggets": [
                        "LLM response should state: there is contradictory information",
                        f"LLM response should mention: you said that {told}",
                        f"LLM response should mention: you also said that {denied}",
                        "LLM response should mention: which statement is correct?",
                    ],
                }

            yield Idea(fact.mention, (first, second), {"first": first, "second": second}, ask)

    def _temporal_reasoning(self, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
        dated = [entry for entry in self._final(entries) if _fact(entry).day is not None]
        for one, other in _pairs(dated, rng):
            first, second = sorted((_fact(one), _fact(other)), key=lambda fact: (fact.day, fact.mention))
            if first.day is None or second.day is None or first.day == second.day:
                continue
            days = (second.day - first.day).days

            def ask(shown: Shown, first: Fact = first, second: Fact = second, days: int = days) -> Reply:
                count = f"{days} day" if days == 1 else f"{days} days"
                start, end = first.values["value"], second.values["value"]
                return {
                    "question": f"How many days are there between {first.mention} and {second.mention}?",
                    "answer": f"There are {count} between {first.mention} ({start}) and {second.mention} ({end}).",
                    "difficulty": "medium",
                    "temporal_type": "duration_calculation",
                    "time_points": [f"{start}: {first.mention}", f"{end}: {second.mention}"],
                    "conversation_references": [first.state, second.state],
                    "calculation_required": f"from {start} to {end} = {count}",
                    "evidence": {"first": _telling(shown, first), "second": _telling(shown, second)},
                    "nuggets": [
                        f"LLM response should state: {count}",
                        f"LLM response should state: from {start} till {end}",
                    ],
                }

            refs = tuple(f"{fact.plan}.{fact.batch}.{fact.bullet}" for fact in (first, second))
            yield Idea(
                f"the time from {first.mention} to {second.mention}", refs, {"first": refs[0], "second": refs[1]}, ask
            )

    def _multi_session_reasoning(self, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
        final = [entry for entry in self._final(entries) if _fact(entry).number is not None]
        for unit in dict.fromkeys(_fact(entry).aspect.unit for entry in final):
            sized = [entry for entry in final if _fact(entry).aspect.unit == unit]
            rng.shuffle(sized)
            # Reasoning over several sessions needs several sub-plans, and equal numbers could be mistaken for one.
            for size, ask in ((3, _sum), (2, _difference)):
                if size == 3 and unit not in _SUMS:
                    continue
                for start in range(0, len(sized) - size + 1, size):
                    group = sorted(sized[start : start + size], key=lambda entry: entry.place)
                    facts = [_fact(entry) for entry in group]
                    apart = len({entry.place[:2] for entry in group}) > 1
                    if apart and len({fact.number for fact in facts}) == size:
                        what = "sum" if size == 3 else "difference"
                        about = f"the {what} of {_series([fact.mention for fact in facts])}"
                        refs = tuple(map(_ref, group))
                        yield Idea(about, refs, {}, lambda shown, facts=facts, ask=ask: ask(shown, facts))  # type: ignore[misc]

    def _event_ordering(self, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
        for name, told in self._by_thing(entries).items():
            if not 4 <= len(told) <= 9 or len({entry.place[:2] for entry in told}) < 2:
                continue
            facts = [_fact(entry) for entry in told]

            def ask(shown: Shown, name: str = name, facts: list[Fact] = facts) -> Reply:
                items = [fact.mention for fact in facts]
                count = _NUMBERS[len(items)]
                return {
                    "question": (
                        f"In which order did I bring up the different sides of {name} in our conversations? "
                        f"Mention ONLY and ONLY {count} items."
                    ),
                    "answer": "You brought them up in this order: "
                    + ", ".join(f"{number}) {item}" for number, item in enumerate(items, start=1))
                    + ".",
                    "difficulty": "hard" if len(items) > 6 else "medium",
                    "ordering_type": "mention_sequence",
                    "total_mentions": len(items),
                    "conversation_references": [fact.state for fact in facts],
                    "ordering_tested": items,
                    "evidence": [i for fact in facts for i in _telling(shown, fact)],
                    "nuggets": items,
                }

            yield Idea(f"the order in which {name} was talked about", tuple(map(_ref, told)), {}, ask)

    def _summarization(self, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
        for name, told in self._by_thing(entries).items():
            if not 4 <= len(told) <= 9 or len({entry.place[:2] for entry in told}) < 2:
                continue
            facts = [_fact(entry) for entry in told]

            def ask(shown: Shown, name: str = name, facts: list[Fact] = facts) -> Reply:
                latest = {(f.thing.name, f.aspect.label): f for f in self._newest(facts)}
                states = [latest[fact.thing.name, fact.aspect.label].state for fact in facts]
                ids = [i for fact in facts for i in _telling(shown, fact)]
                ids += [i for fact in self._newest(facts) if fact.revises is not None for i in _telling(shown, fact)]
                return {
                    "question": f"Can you give me a summary of how {name} has come along, from the start until now?",
                    "answer": f"This is how {name} has come along: " + "; then ".join(states) + ".",
                    "difficulty": "medium",
                    "summarization_type": "progressive_overview",
                    "bullet_points_covered": len(facts),
                    "conversation_sessions": sorted(ids),
                    "key_elements_tested": [fact.mention for fact in facts],
                    "synthesis_required": f"Bring together what was said about {name} over several sessions.",
                    "evidence": sorted(set(ids)),
                    "nuggets": [f"LLM response should contain: {state}" for state in states],
                }

            refs = [*map(_ref, told)]
            refs += [
                f"{fact.plan}.{fact.batch}.{fact.bullet}" for fact in self._newest(facts) if fact.revises is not None
            ]
            yield Idea(f"the progress of {name}", tuple(refs), {}, ask)

    def _preference_following(self, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
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
                    "evidence": _holding(shown, [stated]),
                    "nuggets": [f"LLM response should contain: {sign}" for sign in liked.signs],
                }

            yield Idea(f"the preference for {liked.likes}", (_ref(entry),), {}, ask)

    def _instruction_following(self, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
        for entry in entries:
            if entry.rule is None:
                continue
            question = self.world.fill(rng.choice(entry.topic.questions), rng, self.world.about(None, entry.plan, rng))

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
                    "evidence": _holding(shown, [entry.text]),
                    "nuggets": [f"LLM response should contain: {entry.rule.sign}"],
                }

            yield Idea(f"the instruction on {entry.topic.occasion}: {entry.rule.rule}", (_ref(entry),), {}, ask)

    def _abstention(self, entries: Sequence[Entry], rng: random.Random) -> Iterator[Idea]:
        for name, told in self._by_thing(entries).items():
            fact = _fact(told[0])
            absent = rng.choice(fact.thing.template.absent)

            def ask(
                shown: Shown, fact: Fact = fact, absent: Any = absent, name: str = name, place: str = _ref(told[0])
            ) -> Reply:
                detail = fact.fill(absent.detail)
                nothing = f"Based on the provided chat, there is no information related to {detail}"
                return {
                    "question": fact.fill(absent.ask),
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

    def _by_thing(self, entries: Sequence[Entry]) -> dict[str, list[Entry]]:
        """Things of which everything was told within `entries`, with the entries that first told each aspect."""
        inside = {entry.place for entry in entries}
        found: dict[str, list[Entry]] = {}
        beyond: set[str] = set()
        for told in self.world.entries.values():
            for entry in told:
                if entry.fact is None:
                    continue
                if entry.place not in inside:
                    beyond.add(entry.fact.thing.name)
                elif entry.purpose == "fact":
                    found.setdefault(entry.fact.thing.name, []).append(entry)
        return {name: told for name, told in found.items() if name not in beyond}

    def _newest(self, facts: Sequence[Fact]) -> list[Fact]:
        """The newest version of each of `facts`."""
        versions = {
            (entry.fact.thing.name, entry.fact.aspect.label): entry.fact
            for found in self.world.entries.values()
            for entry in found
            if entry.fact is not None and entry.purpose in ("fact", "update")
        }
        return [versions[fact.thing.name, fact.aspect.label] for fact in facts]


_NUMBERS = {4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}


def _sum(shown: Shown, facts: Sequence[Fact]) -> Reply:
    total = sum(fact.number or 0 for fact in facts)
    value = show_number(total, facts[0].aspect.unit)
    parts = [f"{fact.mention} is {fact.values['value']}" for fact in facts]
    added = " + ".join(fact.values["value"] for fact in facts)
    return {
        "question": f"What do {_series([fact.mention for fact in facts])} come to when you add them up?",
        "answer": f"Together they come to {value}: {_series(parts)}.",
        "difficulty": "medium" if len(facts) < 3 else "hard",
        "reasoning_type": "sum_over_sessions",
        "sessions_required": len({(fact.plan, fact.batch) for fact in facts}),
        "conversation_references": [fact.state for fact in facts],
        "reasoning_steps": [*(f"{fact.mention}: {fact.values['value']}" for fact in facts), f"{added} = {value}"],
        "evidence": [i for fact in facts for i in _telling(shown, fact)],
        "nuggets": [f"LLM response should state: {value}"],
    }


def _difference(shown: Shown, facts: Sequence[Fact]) -> Reply:
    more, less = sorted(facts, key=lambda fact: -(fact.number or 0))
    value = show_number((more.number or 0) - (less.number or 0), more.aspect.unit)
    given, taken = more.values["value"], less.values["value"]
    return {
        "question": f"By how much do {facts[0].mention} and {facts[1].mention} differ?",
        "answer": f"They differ by {value}: {more.mention} is {given} and {less.mention} is {taken}.",
        "difficulty": "medium",
        "reasoning_type": "comparison_over_sessions",
        "sessions_required": 2,
        "conversation_references": [fact.state for fact in facts],
        "reasoning_steps": [f"{more.mention}: {given}", f"{less.mention}: {taken}", f"{given} - {taken} = {value}"],
        "evidence": [i for fact in facts for i in _telling(shown, fact)],
        "nuggets": [f"LLM response should state: {value}"],
    }


def _payload(fact: Fact) -> list[str]:
    """What an answer on `fact` must give: its value, of a choice the reason too."""
    if fact.companion is not None:
        return [fact.companion.name]
    values = [fact.values["value"]]
    return [*values, fact.values["reason"]] if fact.aspect.kind == "choice" else values


def _never(fact: Fact) -> str:
    return fact.fill(fact.aspect.never, "user")


def _telling(shown: Shown, fact: Fact) -> list[int]:
    """The first message shown that tells `fact`."""
    texts = fact.aspect.say if fact.revises is None else fact.aspect.update
    return _holding(shown, [fact.fill(text, "user") for text in texts])


def _holding(shown: Shown, texts: Sequence[str]) -> list[int]:
    wanted = [text.casefold() for text in texts]
    for number, role, said in shown:
        if role != "assistant" and any(text in said.casefold() for text in wanted):
            return [number]
    return []


def _shown(turns: str) -> Shown:
    """The messages in a prompt's `turns`."""
    marks = list(_MESSAGE.finditer(turns))
    ends = [mark.start() for mark in marks[1:]] + [len(turns)]
    return [(int(mark[1]), mark[2], turns[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]


def _pairs(entries: Sequence[Entry], rng: random.Random) -> list[tuple[Entry, Entry]]:
    """Pairs of entries from different messages, all of them where they are few, else a sample."""
    found = list(combinations(entries, 2))
    return found if len(found) <= 60 else rng.sample(found, 60)


def _series(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _ref(entry: Entry) -> str:
    return ".".join(map(str, entry.place))


def _told_in(entries: Sequence[Entry], fact: Fact) -> bool:
    """Whether the plans of `entries` are those in which `fact` was told."""
    return fact.plan in {entry.plan for entry in entries}


def _fact(entry: Entry) -> Fact:
    assert entry.fact is not None
    return entry.fact
