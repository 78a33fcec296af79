"""Ideas for probing questions on single statements, and the window of plans that ideas are drawn from.

Everything is read off the facts, so a reference answer is true by construction.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beam_generate.probes.wording import content
from beam_offline.author.facts import Entry, Fact, Strand, participle_of
from beam_offline.author.grammar import series, to_you
from beam_offline.author.scenario import Scenario
from beam_offline.author.script import PlanScript
from beam_offline.author.word_bank import Absence
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
