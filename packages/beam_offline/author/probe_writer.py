"""What the offline author would ask about its scenario: candidates, questions, reference answers and nuggets.

Everything is read off the facts, so a reference answer is true by construction. A question is known by its ability and
the bullets it rests on, its nuggets by ability, words and answer: two questions in the same words keep apart.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from operator import attrgetter, itemgetter
from typing import Any

from beam_generate.probes.wording import content, share
from beam_offline.author.grammar import in_words, plural, series, to_you
from beam_offline.author.scenario import Entry, Fact, Scenario, Strand, participle_of
from beam_offline.author.script import PlanScript
from beam_offline.author.word_bank import MOST, Absence
from beamlib.data.conversations import Size

Reply = dict[str, Any]
Shown = Sequence[tuple[int, str, str]]
"""Messages of the cited turns: (id, role, text)."""
_DISTANCE: Mapping[str, tuple[float, float, float]] = {
    "information_extraction": (0.165, 0.21, 0.625),
    "knowledge_update": (0.52, 0.15, 0.33),
    "contradiction_resolution": (0.27, 0.27, 0.46),
    "multi_session_reasoning": (0.26, 0.26, 0.48),
}
"""How often a question uses the fact's own noun phrase, the bank's first wording, or its second in other words. Set
once, so that the longest sequence of words shared with the evidence is as in the released 100K questions."""


_FAR: Mapping[Size, float] = {"100K": 0.0, "500K": 0.1, "1M": 0.85, "10M": 0.85}
"""Share of the questions in near words that are put in other words instead; the longer the conversation, the more."""

Stated = Fact | Entry
"""What a message of the user states: its `place` and its `clause`."""


@dataclass(frozen=True)
class Idea:
    """A candidate: what it is about, the statements that it rests on, and the reply to its `probe_<ability>`.

    `stated` is by part where the ability has parts. The reply holds the nuggets as well; `write` makes one that depends
    on the turns shown.
    """

    about: str
    stated: Mapping[str, Stated] | Sequence[Stated]
    reply: Reply = field(default_factory=dict)
    write: Callable[[Shown], Reply] | None = None

    @property
    def places(self) -> list[tuple[int, int, int]]:
        """Return the places of its bullets."""
        return [one.place for one in (self.stated.values() if isinstance(self.stated, Mapping) else self.stated)]

    @property
    def candidate(self) -> Reply:
        """Return the candidate as the prompts `candidates_<ability>` want it."""
        refs = [".".join(map(str, place)) for place in self.places]
        parts = dict(zip(self.stated, refs, strict=True)) if isinstance(self.stated, Mapping) else {}
        return {"bullets": refs, "about": self.about, **parts}

    def ask(self, shown: Shown) -> Reply:
        """Write the reply for the turns shown."""
        if self.write is not None:
            return self.write(shown)
        if isinstance(self.stated, Mapping):
            cited: Any = {part: messages_stating(shown, one.clause) for part, one in self.stated.items()}
        else:
            cited = messages_stating(shown, *(one.clause for one in self.stated))
        return {**self.reply, "evidence": cited}


class ProbeWindow:
    """The plans that a question may look at, and what was told in them."""

    def __init__(
        self, scenario: Scenario, plans: Sequence[int], rng: random.Random, script: Callable[[int], PlanScript]
    ) -> None:
        self.scenario, self.plans, self.rng, self.script = scenario, tuple(plans), rng, script
        self.near = 1 - _FAR[scenario.story.size]
        self.entries = [one for (plan, _), found in scenario.entries.items() if plan in self.plans for one in found]

    @property
    def every(self) -> Iterator[Entry]:
        """Iterate over all entries of the scenario that tell, revise or deny a fact, in order."""
        return (one for found in self.scenario.entries.values() for one in found if one.fact is not None)

    def final(self) -> list[Fact]:
        """Return the facts of the window that nothing revises or denies anywhere."""
        moved = {one.fact.key for one in self.every if one.fact is not None and one.purpose != "fact"}
        return [one.fact for one in self.entries if one.fact and one.purpose == "fact" and one.fact.key not in moved]

    def strands(self) -> dict[int, list[Fact]]:
        """Return the strands that lie whole in the window, with all their facts in order, updates included."""
        told: dict[int, list[Fact]] = {}
        beyond = set()
        for one in self.every:
            if one.fact is not None and one.place[0] not in self.plans:
                beyond.add(one.strand.number)
            elif one.fact is not None and one.purpose != "contradiction":
                told.setdefault(one.strand.number, []).append(one.fact)
        return {number: facts for number, facts in told.items() if number not in beyond}

    def denied(self) -> set[tuple[int, str]]:
        """Return the keys of the facts that are denied somewhere."""
        return {one.fact.key for one in self.every if one.fact is not None and one.purpose == "contradiction"}

    def asked(self, strand: Strand, question: str) -> str:
        """Put a question. Where the conversation has several strands of a kind, it says which is meant."""
        if self.scenario.alone(strand):
            return question
        words = {"full": self.full(strand), "ask": question}
        return self.scenario.grammar.say("which_strand", words, self.rng)

    def full(self, strand: Strand) -> str:
        """Return the strand's whole name, as messages do not put it."""
        return self.scenario.grammar.fill(strand.kind.full[-1], {"it": strand.it}, self.rng)

    def named(self, fact: Fact) -> str:
        """Return the noun phrase of a fact, with its strand where that is not the only one of its kind."""
        if self.scenario.alone(fact.strand):
            return fact.kind.np
        return f"{fact.kind.np} ({self.full(fact.strand)})"

    def say(self, name: str, **words: str) -> str:
        """Draw one alternative of a list of `probes.toml`."""
        return self.scenario.grammar.say(name, words, self.rng)

    def put(self, fact: Fact, ability: str) -> str:
        """Write the question for a fact, as near to its own words as questions of an ability are."""
        kind = fact.kind
        done = participle_of(fact.v) if kind.kind == "event" else ""
        near = self.say(f"near_{kind.kind}", np=kind.np, done=done)
        told = content(" ".join([*fact.strand.kind.short, *fact.strand.kind.full, kind.np, *kind.say, kind.did]))
        riddle = kind.kind not in ("tally", "list") and not content(kind.ask[-1]) & told
        far = kind.ask[0] if riddle else kind.ask[-1]
        weights = [weight * self.near for weight in _DISTANCE[ability][:2]]
        return self.asked(fact.strand, self.rng.choices([near, kind.ask[0], far], [*weights, 1 - sum(weights)])[0])


Maker = Callable[[ProbeWindow], Iterator[Idea]]


def messages_stating(shown: Shown, *clauses: str) -> list[int]:
    """Return the user's message for each clause, each once: two strands may be told in the same words."""
    found: list[int] = []
    for clause in map(str.casefold, clauses):
        said = (number for number, role, text in shown if role != "assistant" and clause in text.casefold())
        found += [number for number in said if number not in found][:1]
    return found


def state_of(fact: Fact) -> str:
    """Return the fact in the second person."""
    return to_you(fact.clause)


_NEAR_REQUEST = 0.9
"""How often a request on a preference takes up words of it; released ones share almost three in a row with it."""
_ADVICE, _STEPS = 0.4, 3
"""Share of the questions on single statements that ask for advice (released: 51 of 184), and how many points of it."""


def information_extraction(window: ProbeWindow) -> Iterator[Idea]:
    """Ask for a value, day, person or choice that was told once and never changed, or for the advice on it."""
    for fact in window.final():
        if fact.kind.kind in ("tally", "list"):
            continue  # told several times, and each time answered with other advice
        if window.scenario.long and fact.kind.kind == "choice":
            because = fact.strand.telling(fact.kind, fact)  # the question asks for the reason as well
            if because and because.place[0] in window.plans:
                yield _single(window, fact, because)
        elif window.rng.random() < _ADVICE:
            yield _advice(window, fact)
        elif fact.kind.kind != "event":
            yield _single(window, fact)


def _single(window: ProbeWindow, fact: Fact, *because: Fact) -> Idea:
    """Ask for a value; a choice may have its reason in another message, `because`."""
    question = window.put(fact, "information_extraction")
    asked = {"date": "date_recall", "choice": "detail_recall"}.get(fact.kind.kind, "numerical_precision")
    key_facts, stated = [fact.v, *([to_you(fact.reason)] if fact.reason else [])], [fact, *because]
    reply = {
        "question": question,
        "answer": f"You told me that {' and that '.join(map(state_of, stated))}.",
        "difficulty": "easy" if len(key_facts) == 1 else "medium",
        "question_type": asked,
        "conversation_reference": f"The user's message on {fact.kind.np}",
        "key_facts_tested": key_facts,
        "nuggets": [f"LLM response should state: {one}" for one in key_facts],
    }
    return Idea(window.named(fact), stated, reply)


def _advice(window: ProbeWindow, fact: Fact) -> Idea:
    question = window.asked(fact.strand, window.say("ask_advice", np=fact.kind.np))

    def write(shown: Shown) -> Reply:
        script = window.script(fact.place[0])
        told = messages_stating(shown, fact.clause)
        after = [(one, said) for one, role, said in shown if role == "assistant" and told and one == told[0] + 1]
        turn = next((one for one in script.all_turns if one.entry.place == fact.place), None)
        # Where code or a problem was shown, the answer is about that.
        advice = script.answer(turn, 0).advice[:_STEPS] if turn and turn.steps[0].exercise is None else ()
        given = list(dict.fromkeys(one for one in advice if after and one.casefold() in after[0][1].casefold()))
        return {
            "question": question if len(given) == _STEPS else "",
            "answer": f"I suggested that you {series(given)}." if given else "",
            "difficulty": "hard",
            "question_type": "advice_recall",
            "conversation_reference": f"The assistant's answer to the message on {fact.kind.np}",
            "key_facts_tested": given,
            "evidence": [*told, *(number for number, _ in after)],
            "nuggets": [f"LLM response should state: {one}" for one in given],
        }

    return Idea(f"advice on {window.named(fact)}", [fact], write=write)


def knowledge_update(window: ProbeWindow) -> Iterator[Idea]:
    """Ask for the newest value of something that was revised."""
    for entry in window.entries:
        fact = entry.fact
        if fact and fact.revises and entry.purpose == "update" and fact.revises.place[0] in window.plans:
            yield _newest(window, fact, fact.revises)


def _newest(window: ProbeWindow, fact: Fact, old: Fact) -> Idea:
    question = window.put(fact, "knowledge_update")
    reply = {
        "question": question,
        "answer": fact.v,
        "difficulty": "easy",
        "update_type": f"{fact.kind.kind}_change",
        "tests_retention_of": f"the value of {window.named(fact)} that holds last",
        "conversation_references": [state_of(old), state_of(fact)],
        "potential_confusion": f"The answer may give the earlier value, {old.v}.",
        "old_value": old.v,
        "new_value": fact.v,
        "nuggets": [f"LLM response should state: {fact.v}"],
    }
    return Idea(window.named(fact), {"original": old, "updated": fact}, reply)


def contradiction_resolution(window: ProbeWindow) -> Iterator[Idea]:
    """Ask whether something was done that the user has both told, of one strand, and denied."""
    told = Counter(one.clause for one in window.every if one.purpose == "fact")
    for entry in window.entries:
        fact = entry.fact
        if fact and entry.purpose == "contradiction" and fact.place[0] in window.plans and told[fact.clause] < 2:
            yield _denied(window, entry, fact)


def _denied(window: ProbeWindow, entry: Entry, fact: Fact) -> Idea:
    question = window.put(fact, "contradiction_resolution")
    told, denied = to_you(fact.clause), to_you(entry.clause)
    reply = {
        "question": question,
        "answer": (
            f"Your messages contradict each other here: you said that {told}, but you also said that {denied}. "
            "Which of the two is correct?"
        ),
        "difficulty": "clear",
        "contradiction_type": "never_statement_violation",
        "topic_questioned": window.named(fact),
        "conversation_references": [state_of(fact), denied],
        "tests_for": "The answer should point the contradiction out and ask which statement holds.",
        "nuggets": [
            "LLM response should state: there is contradictory information",
            f"LLM response should mention: you said that {told}",
            f"LLM response should mention: you also said that {denied}",
            "LLM response should mention: which statement is correct?",
        ],
    }
    return Idea(window.named(fact), {"first": fact, "second": entry}, reply)


def preference_following(window: ProbeWindow) -> Iterator[Idea]:
    """Make a request that a stated preference should shape the answer to."""
    for entry in window.entries:
        if (liked := entry.preference) is not None:
            wanted = ["Response should keep to the stated preference: ", entry.clause]
            near = window.rng.random() < _NEAR_REQUEST * window.near
            question = liked.requests[0] if near else window.rng.choice(liked.requests[1:])
            yield _following(window, entry, "preference", question, liked.signs, wanted, liked.against)


def instruction_following(window: ProbeWindow) -> Iterator[Idea]:
    """Make a request that exactly one standing instruction is about."""
    ruled = Counter(one.occasion for found in window.scenario.entries.values() for one in found if one.rule)
    for entry in window.entries:
        if entry.rule is not None and ruled[entry.occasion] == 1:
            question = window.rng.choice(entry.strand.kind.requests)
            if not window.scenario.occasion(entry.strand)[1]:
                question = window.say("which_strand", full=window.full(entry.strand), ask=question)
            signs, against = entry.rule.signs, "answers without following the instruction"
            wanted = ["Response should follow the instruction: ", "; ".join(signs)]
            yield _following(window, entry, "instruction", question, signs, wanted, against)


def _following(
    window: ProbeWindow, entry: Entry, what: str, question: str, signs: Sequence[str], wanted: list[str], against: str
) -> Idea:
    reply = {
        "question": question,
        f"{what}_being_tested": entry.text,
        "answer": f"{''.join(wanted)}.",
        "compliance_indicators": list(signs),
        "non_compliance_signs": [against],
        "difficulty": "medium",
        f"{what}_type": "stated preference" if what == "preference" else "format_instruction",
        "nuggets": [f"LLM response should contain: {sign}" for sign in signs],
    }
    return Idea(f"the {what}: {entry.text}", [entry], reply)


def abstention(window: ProbeWindow) -> Iterator[Idea]:
    """Ask for a detail that nobody gave of something that was talked about."""
    for facts in window.strands().values():
        for absent in facts[0].strand.kind.absent:
            yield _absent(window, facts[0], absent)


def _absent(window: ProbeWindow, fact: Fact, absent: Absence) -> Idea:
    question, entity = window.asked(fact.strand, absent.ask), fact.strand.kind.short[0]
    reply = {
        "question": question,
        "answer": f"Based on the provided chat, there is no information related to {absent.detail}.",
        "difficulty": "hard",
        "abstention_type": "missing_detail",
        "why_unanswerable": f"The chat never gives {absent.detail}.",
        "plan_reference": f"Bullet {'.'.join(map(str, fact.place))}",
        "entity": entity,
        "detail": absent.detail,
        "keyword": absent.keyword,
    }
    return Idea(f"{entity}: {absent.keyword}", [], reply)


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
