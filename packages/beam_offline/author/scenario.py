"""The seeded scenario of one conversation: strands, what happens in them, and when each of it is told.

A strand (the audit, the damp wall) opens, goes through its facts in the order of life over several sub-plans, and is
come back to under other words. Facts are drawn once; plan, messages and gold are all written from them, which makes
gold true by construction. What is told can be known on the day it is told: a result waits for its day.
"""

from __future__ import annotations

import random
import re
from calendar import isleap
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import cached_property
from typing import Any, TypeVar

from beam_generate.people import name_lists
from beam_generate.plan_text import show_day
from beam_generate.shapes import Story
from beam_offline.author import word_bank
from beam_offline.author.facts import (
    Entry,
    Fact,
    Purpose,
    Strand,
    part_of,
    participle_of,
    past_of,
    show_number,
    spread_days,
    trade,
)
from beam_offline.author.grammar import capital, sentence, with_article
from beam_offline.author.word_bank import NUMBERS, FactKind, StandingRule, StrandKind, bank, common

_Value = TypeVar("_Value")

OPEN = 6
"""Strands under way at the same time."""
_AT_ONCE = 4  # at most so many facts of one strand in a sub-plan
_FACTS = (6, 8)  # kinds of facts that a strand goes through, of those its bank has
_PARTS = (3, 5)  # tellings of a tally or a list
_ASIDES = 0.22  # share of the bullets that tell no fact; the released plans have about as many
_EVERYDAY = 2  # matters of everybody's life in a conversation, beside those of its domain
_PASSING = 0.75  # share of the asides of a long conversation on a matter of another domain, each talked of once
_REASON = re.compile(r",? (?:because|since) \{reason\}")
_BEYOND = 90  # days after the conversation's last that may be told of
_DATES = 4  # dates that are never moved, so that there are days to count between
_SPARED = 12  # deeds that are denied and told once, of no second strand: a conversation asks for two
_LEAST_MOVE = 3  # days by which an update puts something off
_BROAD, _BROAD_1M = 0.3, 0.8  # share of the kinds of strands whose instruction bears on all of them, beyond 100K
_THEMED = 0.69  # how often such an instruction is tied to the theme; the rest share a word with the request


class Scenario:
    """The scenario of a story; drawn when made, and the same for the same story."""

    def __init__(self, story: Story) -> None:
        self.story, self.layout = story, story.layout
        self.long = story.size != "100K"
        self.bank, self.grammar = bank(story.topic.category), word_bank.grammar(story.topic.category, long=self.long)
        self.title = self.bank.titled(story.topic.title, story.topic.theme, story.topic.subtopics)
        self.key = f"{story.seed} {story.size} {story.number} {story.topic.title}"
        self._rng = random.Random(f"world {self.key}")
        everyday = self._rng.sample(common().strand, _EVERYDAY) if self.bank.style == "general" else []
        self.kinds = [*self.bank.strands(self.title.title), *everyday]
        labels = {kind.label for kind in self.kinds}
        others = map(bank, word_bank.banks() if self.long else ())
        elsewhere = [
            kind for one in others for kind in one.strand if one.style == "general" and kind.label not in labels
        ]
        self._passing = self._shuffled(elsewhere)
        last = story.timeline.end + timedelta(_BEYOND)
        self._dated = story.timeline.start.year != last.year or isleap(last.year)
        self.timelines = [part_of(story.timeline, plan, story.plans) for plan in range(story.plans)]
        self.anchors = [spread_days(timeline, self.layout.subplans, self._rng) for timeline in self.timelines]
        self.entries: dict[tuple[int, int], list[Entry]] = {}
        self.strands: list[Strand] = []
        """All strands in the order in which they open."""
        self.revised = set[tuple[int, str]]()
        self._open: list[Strand] = []
        self._facts: list[Fact] = []
        self._kinds: list[StrandKind] = []
        self._rules: list[StandingRule] = []
        self._names, self._talked, self._denied = (set[tuple[Any, str]]() for _ in range(3))
        self._ruled, self._spared = set[str](), set[str]()
        self._preferences = self._shuffled([*self.bank.preference, *common().preference])
        for plan in range(story.plans):
            for batch in range(1, self.layout.subplans + 1):
                self.entries[plan, batch] = self._batch(plan, batch)
        self._count = Counter(strand.kind.label for strand in self.strands)

    def alone(self, strand: Strand) -> bool:
        """Return whether the conversation has no other strand of its kind, so that a short word names it."""
        return self.count(strand) == 1

    def count(self, strand: Strand) -> int:
        """Count the strands of its kind."""
        return self._count[strand.kind.label]

    def today(self, plan: int, batch: int) -> date:
        """Return the day on which sub-plan `batch` (1-based) of `plan` takes place."""
        return self.anchors[plan][batch - 1]

    def show(self, day: date) -> str:
        """Write a day, with its year in a conversation that spans two years or a leap year."""
        text = show_day(day)
        return text if self._dated else text.partition(",")[0]

    @cached_property
    def people(self) -> list[list[str]]:
        """Who may be named in each plan: grown-ups of the core and those who have entered by then."""
        found = []
        for plan in range(self.story.plans):
            new = self.story.newcomers[plan] if self.story.newcomers else ()
            known = [*self.story.core, *new]
            found.append([one.name for one in known if 18 <= one.age <= 80] or [one.name for one in known])
        return found

    @cached_property
    def words(self) -> Mapping[str, Sequence[str]]:
        """Words for the lists of a long conversation; a message has each once."""
        names = name_lists()
        first = [name for group in names.groups for name in (*group.female, *group.male)]
        surname = [name for group in names.groups for name in group.family]
        places = {"town": [place.partition(",")[0] for place in names.places]}
        return {
            **word_bank.long_bank().words,
            **places,
            "first": first,
            "surname": surname,
            "trade": [*map(trade, names.professions)],
        }

    def scope(self, strand: Strand, plan: int, rng: random.Random) -> dict[str, str]:
        """Draw the words for a text on a strand: its names and one of the people."""
        kind = strand.kind
        full = self.grammar.fill(rng.choice(kind.full[:-1]), {"it": strand.it}, rng)  # questions have the last
        ref = full if not self.alone(strand) else self.grammar.fill(rng.choice(kind.short), {"it": strand.it}, rng)
        return {"it": strand.it, "full": full, "ref": ref, "person": rng.choice(self.people[plan])}

    def _shuffled(self, items: Sequence[_Value]) -> list[_Value]:
        return self._rng.sample(items, len(items))

    def _batch(self, plan: int, batch: int) -> list[Entry]:
        """The bullets of a sub-plan: anchor, introduction if it is the first, facts and asides, the special three."""
        rng = self._rng
        self._refill(plan)
        found: list[Entry] = []

        def add(purpose: Purpose, label: str, text: str, strand: Strand, **more: object) -> None:
            found.append(Entry((plan, batch, len(found) + 1), label, sentence(text), purpose, strand, **more))  # type: ignore[arg-type]

        found.append(Entry((plan, batch, 1), "Time Anchor", show_day(self.today(plan, batch)), "dig", self._open[0]))
        if (plan, batch) == (0, 1):
            one = self.story.profile
            who = f"I'm {one.name}, {one.age}, {with_article(trade(one.profession))} in {one.place}"
            text = f"{who}, and I want help with {self.title.goal}"
            add("introduction", "Personal Introduction", text, self._open[0])
        kinds = self._purposes(plan, batch, self.layout.bullets - len(found))
        told: Counter[int] = Counter()
        for position, purpose in enumerate(kinds):
            place = (plan, batch, len(found) + 1)
            if purpose == "preference":
                preference = self._preferences.pop()
                clause = self.grammar.fill(rng.choice(preference.say), {}, rng)
                strand = rng.choice(self._open)
                add(purpose, "Preference Statement", clause, strand, clause=clause, preference=preference)
                continue
            self._refill(plan)
            fact = self._fact(place, told, "fact" not in kinds[position + 4 :]) if purpose == "fact" else None
            strand = fact.strand if fact else self._aside()
            words = {"it": strand.it, "person": rng.choice(self.people[plan])}
            head = f"{strand.kind.label}:{capital(strand.it)}"
            if fact:
                add("fact", head, fact.clause, strand, clause=fact.clause, fact=fact)
            elif not strand.told and all(one.strand is not strand for one in found[1:]):
                clause = self.grammar.fill(rng.choice(strand.kind.intro), words, rng)
                add("opening", head, clause, strand, clause=clause)
            else:
                add("dig", head, self._talk(strand, words), strand)
        for special in (self._update, self._instruction, self._denial):
            entry = special((plan, batch, len(found) + 1))
            found += [entry] if entry else []
        return found

    def _talk(self, strand: Strand, words: Mapping[str, str]) -> str:
        """What is on the user's mind about a strand, once each."""
        used = self._talked
        free = [one for one in strand.kind.talk if (strand.number, one) not in used]
        text = self._rng.choice(free) if free else f"I want to {self._rng.choice(strand.kind.want)} ({len(used)})"
        used.add((strand.number, text))
        return self.grammar.fill(text, words, self._rng)

    def _purposes(self, plan: int, batch: int, count: int) -> list[Purpose]:
        """What the bullets of a sub-plan are for, in order; preferences are few and spread over the conversation."""
        rng = self._rng
        asides = round(count * _ASIDES)
        kinds: list[Purpose] = [*["fact"] * (count - asides), *["dig"] * asides]  # type: ignore[list-item]
        rng.shuffle(kinds)
        total = self.story.plans * self.layout.subplans
        every = max(1, total // max(1, len(self.bank.preference)))
        if self._preferences and (plan * self.layout.subplans + batch) % every == 0 and asides:
            kinds[kinds.index("dig")] = "preference"
        return kinds

    def _refill(self, plan: int) -> None:
        """Open strands where too few are under way."""
        rng = self._rng
        self._open, missed = [one for one in self._open if one.pending], 0
        while len(self._open) < OPEN:
            if not self._kinds:
                self._kinds = self._shuffled(self.kinds)
            kind = self._kinds.pop()
            drawn = (self.grammar.fill(rng.choice(kind.it), {}, rng) for _ in range(200))
            it = next((one for one in drawn if (kind.label, one) not in self._names), "")
            missed = 0 if it else missed + 1
            if missed in range(1, len(self.kinds) + 1):  # all of its names are taken: another kind has some left
                continue
            it = it or f"{self.grammar.fill(kind.it[0], {}, rng)}, number {len(self._names)}"
            self._open.append(self._begin(kind, it, self._course(kind)))

    def _begin(self, kind: StrandKind, it: str, course: list[FactKind]) -> Strand:
        """Add a strand that goes through the facts of `course`."""
        strand = Strand(kind, len(self.strands), it, course)
        self._names.add((kind.label, it))
        self.strands.append(strand)
        return strand

    def _aside(self) -> Strand:
        """Draw what is talked about without a new fact: an open strand or, in a long conversation, a passing matter."""
        if self._passing and self._rng.random() < _PASSING:
            kind = self._passing.pop()
            return self._begin(kind, self.grammar.fill(self._rng.choice(kind.it), {}, self._rng), [])
        return self._rng.choice(self._open)

    def _course(self, kind: StrandKind) -> list[FactKind]:
        """The facts of a strand, in order; tallies and lists come back, beyond 100K a choice with its reason."""
        rng = self._rng
        needed = {fact.after for fact in kind.fact} | {fact.before for fact in kind.fact}
        optional = [
            number
            for number, fact in enumerate(kind.fact)
            if fact.key not in needed and fact.kind not in ("event", "date")
        ]
        wanted = rng.randint(*_FACTS)
        out = set(rng.sample(optional, min(len(optional), max(0, len(kind.fact) - wanted))))
        found = [fact for number, fact in enumerate(kind.fact) if number not in out]
        for fact in [one for one in found if one.kind in ("tally", "list") or (self.long and one.kind == "choice")]:
            most = 2 if fact.kind == "choice" else len(fact.options) or (fact.high - fact.low) // fact.step + 1
            for part in range(min(rng.randint(*_PARTS), most) - 1):
                found.insert(min(len(found), found.index(fact) + 2 * part + 2), fact)
        return found

    def _fact(self, place: tuple[int, int, int], told: Counter[int], last: bool) -> Fact | None:
        """The next fact of one of the open strands that has not had its share of the sub-plan.

        Each sub-plan denies something done: where nothing is left for that, something done comes next, out of its
        order if need be with the last facts of a sub-plan.
        """
        rng, today = self._rng, self.today(*place[:2])
        ready = [one for one in self._open if told[one.number] < _AT_ONCE]
        done = any(fact.kind.kind == "event" and fact.key not in self._denied for fact in self._facts)
        rng.shuffle(ready)
        if not done:
            reach = 99 if last or not self._facts else 2
            ready.sort(key=lambda one: not any(kind.kind == "event" for kind in one.pending[:reach]))
        for strand in ready:
            strand.pending = [kind for kind in strand.pending if not self._over(strand, kind, today)]
            leads = {name for kind in strand.pending for name in (kind.after, kind.before)} - {""}
            strand.pending = [one for one in strand.pending if one.did not in self._spared or one.key in leads]
            able = [at for at, kind in enumerate(strand.pending) if self._known(strand, kind, today)]
            if not able:
                continue
            events = [at for at in able if strand.pending[at].kind == "event"]
            at = events[0] if not done and events and (last or events[0] < 2) else able[0]
            kind = strand.pending.pop(at)
            fact = self._told(strand, kind, place)
            told[strand.number] += 1
            strand.told.append(fact)
            self._facts.append(fact)
            return fact
        return None

    def _known(self, strand: Strand, kind: FactKind, today: date) -> bool:
        """Whether a fact can be known today: what it comes after has been told and is past."""
        if not kind.after:
            return True
        before = strand.newest(kind.after)
        return before is not None and (before.day is None or before.day < today)

    def _over(self, strand: Strand, kind: FactKind, today: date) -> bool:
        """Whether a fact comes too late to be told: what it leads up to is past."""
        until = strand.newest(kind.before) if kind.before else None
        return until is not None and until.day is not None and until.day <= today

    def _told(self, strand: Strand, kind: FactKind, place: tuple[int, int, int], old: Fact | None = None) -> Fact:
        """A new fact, or a new version of `old`."""
        rng, today = self._rng, self.today(*place[:2])
        number, day, v, other, reason = 0, None, "", "", ""
        scope = {"it": strand.it, "person": rng.choice(self.people[place[0]])}
        if kind.kind in (*NUMBERS, "tally"):
            before = {one.number for one in strand.told if one.kind is kind}
            steps = [one for one in range(kind.low, kind.high + 1, kind.step) if one not in before]
            reach = max(3 * kind.step, old.number // 3) if old else 0
            near = [one for one in steps if old and abs(one - old.number) <= reach and str(one) not in old.v]
            number = rng.choice(near or steps)
            v = show_number(kind, number)
        elif kind.kind == "date":
            first, end = kind.days if old is None else (_LEAST_MOVE, 18)
            day = (today if old is None or old.day is None else old.day) + timedelta(rng.randint(first, end))
            v = self.show(day)
        elif kind.kind == "person":
            taken = {one.v for one in strand.told}
            v = rng.choice([one for one in self.people[place[0]] if one not in taken] or self.people[place[0]])
        elif kind.kind == "list":
            taken = {one.v for one in strand.told if one.kind is kind}
            left = [one for one in kind.options if one not in taken]
            v = self.grammar.fill(rng.choice(left or kind.options), scope, rng)
        elif kind.kind == "choice" and (chosen := strand.telling(kind)):
            v, other, reason = chosen.v, chosen.other, chosen.reason
            clause = self.grammar.say("because", {"np": kind.np, "v": v, "reason": reason}, rng)
            return Fact(strand, kind, place, clause, v, other=other, reason=reason)
        elif kind.kind == "choice":
            v, other = (self.grammar.fill(one, scope, rng) for one in rng.sample(kind.options, 2))
            reason = self.grammar.fill(rng.choice(kind.reasons), scope, rng)
        if kind.kind == "event":
            v = self.grammar.fill(kind.did, scope, rng)
            clause = f"I {past_of(v)}"
        else:
            # An update is told in another way than what it replaces.
            says = [text for text in kind.say if old is None or text != old.kind.say[0]]
            text = kind.say[0] if old is None and rng.random() < 0.5 else rng.choice(says)
            text = _REASON.sub("", text) if self.long else text
            clause = self.grammar.fill(text, {**scope, "v": v, "other": other, "reason": reason}, rng)
        return Fact(strand, kind, place, clause, v, number, day, other, reason, old)

    def _update(self, place: tuple[int, int, int]) -> Entry | None:
        rng, today = self._rng, self.today(*place[:2])
        dates = [fact for fact in self._facts if fact.day is not None and fact.key not in self.revised]
        open_to = [
            fact
            for fact in self._facts
            if fact.key not in self.revised
            and fact.place[0] == place[0]
            and not self._over(fact.strand, fact.kind, today)
            and (fact.kind.kind in NUMBERS or (fact.day is not None and fact.day > today and len(dates) > _DATES))
            and not any(fact.kind.key and fact.kind.key == one.kind.after for one in fact.strand.told)
        ]
        open_to = [fact for fact in open_to if not fact.kind.after] or open_to  # outcomes of a day mostly stay
        earlier = [fact for fact in open_to if fact.place[:2] != place[:2]]
        if not open_to:
            return None
        old = rng.choice((earlier or open_to)[-40:])
        self.revised.add(old.key)
        fact = self._told(old.strand, old.kind, place, old)
        fact.strand.told.append(fact)
        return Entry(place, "Information Update", sentence(fact.clause), "update", old.strand, fact.clause, fact)

    def _instruction(self, place: tuple[int, int, int]) -> Entry:
        """A rule tied to a strand's occasion that no other rule is tied to: exactly one bears on a request there."""
        rng = self._rng
        if not self._rules:
            self._rules = self._shuffled(common().rule)
        rule = self._rules.pop()
        begun = [one for one in self.strands if one.told] or self._open
        free = [one for one in begun if self.occasion(one)[0] not in self._ruled]
        strand = rng.choice((free or begun)[-12:])
        occasion, _ = self.occasion(strand)
        self._ruled.add(occasion)
        text = f"Always {rule.rule} when I ask about {occasion}."
        return Entry(place, "User Instruction", text, "instruction", strand, text, rule=rule, occasion=occasion)

    def occasion(self, strand: Strand) -> tuple[str, bool]:
        """Return what an instruction on a strand is tied to, and whether to all of its kind: then in words of its own,
        mostly its theme's, which requests do not share; else the one strand by its name.
        """
        kind = strand.kind
        rng = random.Random(f"occasion {self.key} {kind.label}")
        broad = _BROAD_1M if self.story.size == "1M" else _BROAD
        if self.story.plans * self.layout.subplans <= OPEN or rng.random() < broad:
            return self.grammar.fill(rng.choice(kind.theme if rng.random() < _THEMED else kind.occasion), {}, rng), True
        return self.grammar.fill(kind.full[0], {"it": strand.it}, rng), False

    def _denial(self, place: tuple[int, int, int]) -> Entry | None:
        rng = self._rng
        events = [one for one in self._facts if one.kind.kind == "event" and one.key not in self._denied]
        if not events:
            return None
        told = Counter(one.clause for one in self._facts)
        alone = [fact for fact in events if told[fact.clause] < 2] or events
        earlier = [fact for fact in alone if fact.place[:2] != place[:2]]
        fact = rng.choice((earlier or alone)[-40:])
        self._denied.add(fact.key)
        if told[fact.clause] < 2 and len(self._spared) < _SPARED:
            self._spared.add(fact.kind.did)
        clause = f"{rng.choice(('I have', 'I' + chr(39) + 've'))} never {participle_of(fact.v)}"
        return Entry(place, "Logical Contradiction", sentence(clause), "contradiction", fact.strand, clause, fact)
