"""The seeded world of one conversation: what happens in it, bullet by bullet, before a word of it is written.

Things (a class, a supplier, a flat) go through the aspects of their template in the order of life, a few per sub-plan
and several of them at a time, so that what belongs together is told apart: first here, restated or revised later. Facts
are drawn once; plan, messages and gold are all written from them, which makes gold true by construction.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property

from beamlib.generate.author.bank import (
    SLOT,
    Aspect,
    Bank,
    Preference,
    Rule,
    Subject,
    Title,
    Topic,
    bank,
    common_lexicon,
    fill,
)
from beamlib.generate.author.facts import Companion, Entry, Fact, Thing
from beamlib.generate.author.values import (
    companion,
    draw_number,
    has_part,
    part_of,
    revised_number,
    show_number,
    spread_days,
    trade,
)
from beamlib.generate.plan_text import show_day
from beamlib.generate.shapes import Story

OPEN_THINGS = 6
"""Things under way at the same time: with eight aspects each and a dozen facts per sub-plan, one spans about four."""
_LEAST_MOVE = 3  # days by which an update puts something off
_AT_ONCE = 3  # at most so many aspects of one thing in a sub-plan


@dataclass
class _Open:
    """A thing under way: the aspects still to be told, and the day on which it takes place, once that is known."""

    thing: Thing
    rest: list[Aspect]
    day: date | None = None
    ahead: float = 0.0  # how far off such days are in the middle


@dataclass
class _Draw:
    """What has been used up while the world is drawn."""

    names: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    templates: list[Subject] = field(default_factory=list)
    preferences: list[Preference] = field(default_factory=list)
    rules: list[tuple[Rule, Topic]] = field(default_factory=list)
    open: list[_Open] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    revised: set[int] = field(default_factory=set)
    denied: set[int] = field(default_factory=set)


_PALETTE = 4


class World:
    """The world of a story; drawn when made, and the same for the same story."""

    def __init__(self, story: Story) -> None:
        self.story, self.layout = story, story.layout
        self.bank: Bank = bank(story.topic.category)
        self.title: Title = self._title()
        self.lexicon: Mapping[str, list[str]] = {**common_lexicon(), **self.bank.lexicon, **self.title.lexicon}
        self.topics: Mapping[str, Topic] = {topic.label: topic for topic in self.bank.topics}
        self._key = f"{story.seed} {story.size} {story.number} {story.topic.title}"
        self._rng = random.Random(f"world {self._key}")
        self._usual = [self._palette(plan) for plan in range(story.plans)]
        self.timelines = [part_of(story.timeline, plan, story.plans) for plan in range(story.plans)]
        self.anchors = [spread_days(timeline, self.layout.subplans, self._rng) for timeline in self.timelines]
        self.entries: dict[tuple[int, int], list[Entry]] = {}
        self._draw()

    def _title(self) -> Title:
        for title in self.bank.titles:
            if title.title == self.story.topic.title:
                return title
        # A title from elsewhere (a model's, a user's): the domain's words serve it, its own name is the goal.
        topic = self.story.topic
        stages = [f"{topic.title}, part {number}" for number in range(1, 11)]
        subtopics = [*topic.subtopics, *self.bank.titles[0].subtopics][:8]
        return Title(title=topic.title, goal="the whole plan", theme=topic.theme, subtopics=subtopics, stages=stages)

    def today(self, plan: int, batch: int) -> date:
        """The day on which sub-plan `batch` (1-based) of `plan` plays."""
        return self.anchors[plan][batch - 1]

    @cached_property
    def people(self) -> list[list[Companion]]:
        """Who may be named in each plan: grown-ups of the core and those who have entered by then."""
        found: list[list[Companion]] = []
        for plan in range(self.story.plans):
            new = self.story.newcomers[plan] if self.story.newcomers else ()
            known = (*self.story.core, *new)
            found.append([companion(one, self.bank.domain) for one in known if has_part(one, self.bank.domain)])
        return found

    def _palette(self, plan: int) -> Mapping[str, list[str]]:
        """The few words of each list that a plan keeps coming back to: a user has one product and not twenty."""
        rng, common = random.Random(f"palette {self._key} {plan}"), common_lexicon()
        return {
            slot: words if slot in common else rng.sample(words, min(_PALETTE, len(words)))
            for slot, words in self.lexicon.items()
        }

    def words(self, rng: random.Random, plan: int) -> dict[str, str]:
        """One word of every list, from the plan's palette."""
        return {slot: rng.choice(words) for slot, words in self._usual[plan].items()}

    def fill(self, text: str, rng: random.Random, fixed: Mapping[str, str], plan: int) -> str:
        """`text` with its slots filled from the plan's palette, where `fixed` does not say."""
        return fill(text, lambda slot: fixed.get(slot) or rng.choice(self._usual[plan][slot]))

    def about(self, thing: Thing | None, plan: int, rng: random.Random) -> dict[str, str]:
        """Words for a text that concerns `thing`, or the story as a whole; its own name's words among them."""
        words = {"goal": self.title.goal, "subject": self.title.goal, "person": rng.choice(self.people[plan]).name}
        if thing is not None:
            words |= {slot: thing.slots[slot] for slot in SLOT.findall(thing.template.name)} | {"subject": thing.name}
        return words

    def _draw(self) -> None:
        rng, state = self._rng, _Draw()
        state.preferences = rng.sample(self.bank.preferences, len(self.bank.preferences))
        state.rules = self._rules()
        for plan in range(self.story.plans):
            for batch in range(1, self.layout.subplans + 1):
                self.entries[plan, batch] = self._batch(plan, batch, state)

    def _rules(self) -> list[tuple[Rule, Topic]]:
        """Every rule for every topic, the last first; a topic has its second rule when each has had one."""
        rng, topics = self._rng, self.bank.topics
        own = [rng.sample(self.bank.rules, len(self.bank.rules)) for _ in topics]
        found: list[tuple[Rule, Topic]] = []
        for number in range(len(self.bank.rules)):
            found += [(own[at][number], topics[at]) for at in rng.sample(range(len(topics)), len(topics))]
        return found[::-1]

    def _batch(self, plan: int, batch: int, state: _Draw) -> list[Entry]:
        """The bullets of a sub-plan: anchor, introduction if it is the first, facts and asides, the special three."""
        rng, today = self._rng, self.today(plan, batch)
        first = rng.choice(self.bank.topics)
        found = [Entry(plan, batch, 1, "Time Anchor", show_day(today), "dig", first)]
        if (plan, batch) == (0, 1):
            profile = self.story.profile
            who = f"{profile.name}, {profile.age}, {trade(profile)} in {profile.place}"
            text = f"I'm {who}, and I want help with {self.title.goal}."
            found.append(Entry(plan, batch, 2, "Personal Introduction", text, "introduction", first))
        free = self.layout.bullets - len(found)
        asides = min(free, max(2, free // 4))
        kinds = ["fact"] * (free - asides) + ["aside"] * asides
        rng.shuffle(kinds)
        # Preferences are few: one in every sub-plan of a short story, spread out over a long one.
        spread = max(1, self.story.plans * self.layout.subplans // max(1, len(self.bank.preferences)))
        position = plan * self.layout.subplans + batch
        if state.preferences and "aside" in kinds and position % spread == 0:
            kinds[kinds.index("aside")] = "preference"
        told: dict[str, int] = {}
        for number, kind in enumerate(kinds):
            place = (plan, batch, len(found) + 1)
            if kind == "preference":
                found.append(self._preference(place, state))
                continue
            last = kinds[number:].count("fact") <= 3
            entry = self._fact(place, state, told, last) if kind == "fact" else None
            found.append(entry or self._aside(place, state))
        return [*found, *self._special(plan, batch, len(found), state)]

    def _fact(self, place: tuple[int, int, int], state: _Draw, told: dict[str, int], last: bool) -> Entry | None:
        """The next aspect of one of the things under way; None where each has had its share of the sub-plan.

        Each sub-plan denies something done: where nothing is left for that, something done comes next, and out of its
        order if need be with the `last` facts of a sub-plan and at the very beginning.
        """
        today = self.today(place[0], place[1])
        # What has taken place is over: nothing that leads up to it is told any more.
        state.open = [one for one in state.open if one.rest and (one.day is None or one.day > today)]
        while len(state.open) < OPEN_THINGS:
            thing = self._new_thing(state, place[0])
            state.open.append(_Open(thing, list(thing.template.aspects)))
        ready = [one for one in state.open if told.get(one.thing.name, 0) < _AT_ONCE]
        if not ready:
            return None
        reach = 1  # how far to look for something done
        if not any(fact.aspect.kind == "event" and at not in state.denied for at, fact in enumerate(state.facts)):
            reach = 99 if last or not state.facts else 1
            ready = [one for one in ready if any(left.kind == "event" for left in one.rest[:reach])] or ready
        chosen = self._rng.choice(ready)
        at = next((at for at, left in enumerate(chosen.rest[:reach]) if left.kind == "event"), 0)
        aspect = chosen.rest.pop(at)
        fact = self._new_fact(chosen, aspect, place)
        told[chosen.thing.name] = told.get(chosen.thing.name, 0) + 1
        state.facts.append(fact)
        text = _sentence(fact.fill(self._rng.choice(aspect.say), "user"))
        topic = self.topics[chosen.thing.template.topic]
        return Entry(*place, f"{topic.label}:{aspect.label}", text, "fact", topic, chosen.thing, fact)

    def _new_thing(self, state: _Draw, plan: int) -> Thing:
        if not state.templates:
            state.templates = self._rng.sample(self.bank.subjects, len(self.bank.subjects))
        template = state.templates.pop()
        for _ in range(200):
            own = {slot: self._rng.choice(self.lexicon[slot]) for slot in SLOT.findall(template.name)}
            slots = {**self.words(self._rng, plan), **own}
            name = fill(template.name, slots.__getitem__)
            if name not in state.names:
                break
        else:  # the lists are used up: a number keeps the name unique
            name += f" number {len(state.names)}"
        state.names.add(name)
        return Thing(name, template, {**slots, "goal": self.title.goal})

    def _new_fact(self, chosen: _Open, aspect: Aspect, place: tuple[int, int, int]) -> Fact:
        rng, (plan, batch, bullet) = self._rng, place
        values: dict[str, str] = {}
        number: int | None = None
        day: date | None = None
        someone: Companion | None = None
        if aspect.kind == "quantity":
            number = draw_number(aspect, rng)
            values["value"] = show_number(number, aspect.unit)
        elif aspect.kind == "date":
            day = self._day(chosen, aspect, plan, batch)
            values["value"] = show_day(day)
        elif aspect.kind == "choice":
            value, other = rng.sample(aspect.options, 2)
            reason = rng.choice(aspect.reasons)
            own = {**chosen.thing.slots, "subject": chosen.thing.name}
            values = {"value": value, "other": other, "reason": reason}
            values = {name: self.fill(text, rng, own, plan) for name, text in values.items()}
        elif aspect.kind == "person":
            someone = rng.choice(self.people[plan])
        return Fact(chosen.thing, aspect, plan, batch, bullet, values, number, day, someone)

    def _day(self, chosen: _Open, aspect: Aspect, plan: int, batch: int) -> date:
        """The day of a date: the first one still to come leaves time to tell the rest, further ones agree with it.

        A date that comes sooner by its template (a deadline) lies before the first one, any other after it.
        """
        rng, today = self._rng, self.today(plan, batch)
        first, last = aspect.ahead
        if last <= 0:
            return today + timedelta(rng.randrange(first, last + 1))
        middle = (first + last) / 2
        if chosen.day is None:
            pace = (self.timelines[plan].end - self.timelines[plan].start).days // self.layout.subplans + 1
            telling = pace * (len(chosen.rest) // 2 + 1)
            chosen.day = today + timedelta(max(telling, 0) + rng.randrange(max(first, 1), last + 1))
            chosen.ahead = middle
            return chosen.day
        room = (chosen.day - today).days
        if middle < chosen.ahead:
            return today + timedelta(rng.randrange(1, room)) if room > 1 else chosen.day
        return chosen.day + timedelta(rng.randrange(1, max(2, last - first)))

    def _aside(self, place: tuple[int, int, int], state: _Draw) -> Entry:
        """A bullet that tells no fact: what is on the user's mind about something under way."""
        begun = [one.thing for one in state.open if len(one.rest) < len(one.thing.template.aspects)]
        thing = self._rng.choice(begun) if begun else None
        topic = self._rng.choice(self.bank.topics)
        for _ in range(20):
            words = self.about(thing, place[0], self._rng)
            text = _sentence(self.fill(self._rng.choice(topic.situations), self._rng, words, place[0]))
            if text not in state.texts:
                break
        else:
            text = f"{text[:-1]}, which also concerns {words['subject']} ({len(state.texts)})."
        state.texts.add(text)
        return Entry(*place, f"{topic.label}:Thoughts", text, "dig", topic, thing)

    def _preference(self, place: tuple[int, int, int], state: _Draw) -> Entry:
        drawn = state.preferences.pop()
        words = {**self.words(self._rng, place[0]), **self.about(None, place[0], self._rng)}
        filled = Preference.model_validate(
            {
                name: [self.fill(text, self._rng, words, place[0]) for text in value]
                if isinstance(value, list)
                else self.fill(value, self._rng, words, place[0])
                for name, value in drawn.model_dump().items()
            }
        )
        text = f"I prefer {filled.likes} to {filled.dislikes} because {filled.because}."
        topic = self.topics[drawn.topic]
        return Entry(*place, "Preference Statement", text, "preference", topic, preference=filled)

    def _special(self, plan: int, batch: int, before: int, state: _Draw) -> list[Entry]:
        """The three bullets of the second stage; one that nothing told so far allows stays out."""
        found: list[Entry] = []
        update = self._update((plan, batch, before + 1), state)
        if update is not None:
            found.append(update)
        if not state.rules:  # more sub-plans than there are rules: they come again
            state.rules = self._rules()
        rule, topic = state.rules.pop()
        text = f"Always {rule.rule} when I ask about {topic.occasion}."
        found.append(
            Entry(plan, batch, before + len(found) + 1, "User Instruction", text, "instruction", topic, rule=rule)
        )
        denial = self._denial((plan, batch, before + len(found) + 1), state)
        return [*found, denial] if denial is not None else found

    def _update(self, place: tuple[int, int, int], state: _Draw) -> Entry | None:
        plan, batch, number = place
        today = self.today(plan, batch)
        open_to = [
            index
            for index, fact in enumerate(state.facts)
            if index not in state.revised
            and fact.aspect.update
            and (fact.number is not None or self._room(fact, today, state) > _LEAST_MOVE)
        ]
        if not open_to:
            return None
        # Mostly something told lately, and in an earlier sub-plan where there is one.
        earlier = [index for index in open_to if (state.facts[index].plan, state.facts[index].batch) != (plan, batch)]
        # What is over changes no more, where there is anything else.
        last: dict[str, date] = {}
        for one in state.facts:
            if one.day is not None:
                last[one.thing.name] = max(one.day, last.get(one.thing.name, one.day))
        ahead = [index for index in earlier if last.get(state.facts[index].thing.name, today) >= today]
        index = self._rng.choice((ahead or earlier or open_to)[-40:])
        state.revised.add(index)
        old = state.facts[index]
        if old.number is not None:
            amount = revised_number(old.aspect, old.number, self._rng)
            values = {"value": show_number(amount, old.aspect.unit), "old": old.values["value"]}
            fact = replace(old, plan=plan, batch=batch, bullet=number, values=values, number=amount, revises=old)
        else:
            assert old.day is not None
            day = old.day + timedelta(self._rng.randrange(_LEAST_MOVE, min(22, self._room(old, today, state))))
            values = {"value": show_day(day), "old": old.values["value"]}
            fact = replace(old, plan=plan, batch=batch, bullet=number, values=values, day=day, revises=old)
        state.facts[index] = fact  # what is told later builds on the newest version
        for under_way in state.open:
            if under_way.thing is fact.thing and under_way.day == old.day:
                under_way.day = fact.day
        text = _sentence(fact.fill(self._rng.choice(old.aspect.update), "user"))
        topic = self.topics[old.thing.template.topic]
        return Entry(plan, batch, number, "Information Update", text, "update", topic, old.thing, fact)

    def _room(self, fact: Fact, today: date, state: _Draw) -> int:
        """By how many days the day of `fact` can be put off without passing another day of its thing; 0: it is over."""
        if fact.day is None or fact.day <= today:
            return 0
        told = [other.day for other in state.facts if other.thing is fact.thing and other.day is not None]
        return min(((day - fact.day).days for day in told if day > fact.day), default=22)

    def _denial(self, place: tuple[int, int, int], state: _Draw) -> Entry | None:
        plan, batch, number = place
        events = [
            index for index, fact in enumerate(state.facts) if index not in state.denied and fact.aspect.kind == "event"
        ]
        if not events:
            return None
        earlier = [index for index in events if (state.facts[index].plan, state.facts[index].batch) != (plan, batch)]
        index = self._rng.choice((earlier or events)[-40:])
        state.denied.add(index)
        fact = state.facts[index]
        text = _sentence(fact.fill(fact.aspect.never, "user"))
        topic = self.topics[fact.thing.template.topic]
        return Entry(plan, batch, number, "Logical Contradiction", text, "contradiction", topic, fact.thing, fact)


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}."
