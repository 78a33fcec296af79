"""What the assistant answers: an opening that takes up the message, sections of advice to a length, a closing."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from beamlib.generate.offline.facts import Entry, Strand
from beamlib.generate.offline.grammar import Value, capital, is_plural, to_me, to_you
from beamlib.generate.offline.scope import scope_of
from beamlib.generate.offline.world import World
from beamlib.text import count_tokens

_DOUBLED = re.compile(r"\b(?!that\b|had\b)([a-z]+) \1\b")
_MARKS = re.compile(r",(?:\s*,)+")
_SENTENCE_START = re.compile(r"(?<=[.!?] )[a-z]")
_FIRST_PERSON = re.compile(r"\b(?:I|I'm|I've|I'd|I'll|my|me|mine|myself)\b")


@dataclass(frozen=True)
class Exercise:
    """Code or a problem that goes with a message: what the message shows, and the blocks of the answer on it."""

    message: str
    answer: Callable[[Draft], list[str]]


@dataclass(frozen=True)
class Answer:
    """An answer and the advice that its first list gives, item by item."""

    text: str
    advice: tuple[str, ...]


@dataclass
class Draft:
    """An answer being written to `entry` (None for talk without a new fact); `closing` is the question it ends with.

    `aim` is what the user asked how to do, `act` what they asked whether to do; at most one is set.
    """

    world: World
    strand: Strand
    other: Strand
    plan: int
    rng: random.Random
    target: int
    opening: str
    clause: str = ""
    closing: str = ""
    entry: Entry | None = None
    aim: str = ""
    act: str = ""
    exercise: Exercise | None = None
    scope: dict[str, Value] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scope = scope_of(self.world, self.strand, self.other, self.plan, self.rng, assistant=True)
        aim = to_you(self.aim or self.world.grammar.fill("{want}", self.scope, self.rng))
        self.scope |= {"aim": aim, "aim_title": aim, "act": to_you(self.act)}
        self.headed = self.rng.choice(("### {}", "### {}", "**{}**", ""))

    def say(self, name: str, **pinned: Value) -> str:
        """One alternative of a list, as it stands within a text."""
        return tidy(self.world.grammar.say(name, {**self.scope, **pinned}, self.rng))

    def heading(self) -> list[str]:
        """A heading where the answer has such."""
        return [self.headed.format(capital(self.say("head_title")))] if self.headed else []


def write_answer(draft: Draft) -> Answer:
    """The answer in Markdown, about `target` tokens long."""
    closing = draft.closing or draft.say("close")
    blocks = [_opening(draft), *(draft.exercise.answer(draft) if draft.exercise else [])]
    room = draft.target - count_tokens(" ".join([*blocks, closing]))
    makers = [_steps, _points, _prose, _prose, _points, _plan, _table, _note]
    order = [_steps if draft.rng.random() < 0.7 else _points, *draft.rng.sample(makers, len(makers))]
    while room > 25:
        maker = order.pop(0) if order else _prose
        parts = (maker if room > 110 else _prose)(draft, room)
        blocks += parts
        room -= count_tokens("\n".join(parts))
        order = order or draft.rng.sample(makers[:5], 5)
    return Answer("\n\n".join(part for part in [*blocks, closing] if part), tuple(draft.advice))


def _opening(draft: Draft) -> str:
    """Takes up what was said. A clause that cannot be turned to `you` is passed over."""
    echo = to_you(draft.clause) if draft.clause else ""
    if echo and _FIRST_PERSON.search(echo):
        echo = ""
    name = draft.opening if echo or draft.opening not in ("open_told", "open_update") else "open_plain"
    rule = draft.entry.rule.rule if draft.entry and draft.entry.rule else ""
    about = to_you(draft.entry.occasion) if draft.entry else ""
    said = draft.say(name, echo=echo, rule=to_you(rule), about=about)
    if rule:
        return f"{said} {draft.say('rule_more')}"
    return f"{said} {draft.say('open_act' if draft.act else 'open_aim')}" if draft.act or draft.aim else said


def _steps(draft: Draft, room: int) -> list[str]:
    """A numbered list of advice, each item with what to do in bold and a reason or a hint."""
    first = not draft.advice
    lines = []
    for number in range(1, _count(draft, room, 28, 7) + 1):
        do = tidy(draft.world.grammar.fill("{do}", draft.scope, draft.rng))
        rest = draft.say("after_do")
        if draft.rng.random() < 0.45:
            rest = f"{rest} {draft.say('prose')}"
        lines.append(f"{number}. **{capital(do)}**{rest if rest[0] in ',;.' else f' {rest[0].lower()}{rest[1:]}'}")
        if first:
            draft.advice.append(do)
    return [*draft.heading(), draft.say("list_lead"), "\n".join(lines)]


def _points(draft: Draft, room: int) -> list[str]:
    """A list of things, each in bold with what to do about it."""
    lines = []
    for _ in range(_count(draft, room, 34, 6)):
        thing = tidy(draft.world.grammar.fill("{thing}", draft.scope, draft.rng))
        pronoun = "them" if is_plural(thing) else "it"
        said = draft.say("item", do=partial(_general, draft, pronoun))
        if draft.rng.random() < 0.4:
            said = f"{said} {draft.say('prose')}"
        lines.append(f"- **{capital(thing)}**: {said}")
    return [*draft.heading(), draft.say("list_lead"), "\n".join(lines)]


def _general(draft: Draft, thing: str) -> str:
    return draft.world.grammar.say("gdo", {**draft.scope, "this": thing}, draft.rng)


def _prose(draft: Draft, room: int) -> list[str]:
    texts = [draft.say("prose") for _ in range(_count(draft, room, 26, 3))]
    return [*(draft.heading() if len(texts) > 2 else []), " ".join(texts)]


def _plan(draft: Draft, room: int) -> list[str]:
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    count = _count(draft, room, 22, 6)
    chosen = sorted(draft.rng.sample(range(7), count))
    lines = [f"- {draft.say('plan_item', weekday=days[day])}" for day in chosen]
    return [*draft.heading(), draft.say("plan_lead"), "\n".join(lines)]


def _table(draft: Draft, room: int) -> list[str]:
    head = draft.say("table_head")
    rows = [f"| {draft.say('table_row')} |" for _ in range(_count(draft, room, 30, 5))]
    return [draft.say("table_lead"), "\n".join([f"| {head} |", "| --- | --- | --- |", *rows])]


def _note(draft: Draft, room: int) -> list[str]:
    """A message that the user could send: it speaks as the user."""
    person = draft.rng.choice(draft.world.people[draft.plan])
    mine = to_me(tidy(draft.world.grammar.fill("{thing}", draft.scope, draft.rng)))
    lines = [draft.say(name, person=person, my_thing=mine) for name in ("note_hello", "note_body", "note_bye")]
    quoted = "\n>\n".join(f"> {line}" for line in lines)
    return [*draft.heading(), draft.say("note_lead", person=person), quoted]


def _count(draft: Draft, room: int, each: int, most: int) -> int:
    """How many items of about `each` tokens a block has."""
    return max(1, min(draft.rng.randint(3, most) if most > 3 else draft.rng.randint(2, most), room // each))


def tidy(text: str) -> str:
    """`text` with a capital after each full stop, single spaces, and no small word twice where two phrases met."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    text = "\n".join(lines).replace(" ,", ",").replace(" .", ".").replace(" ?", "?").replace(" ;", ";")
    text = _MARKS.sub(",", text)
    return _SENTENCE_START.sub(lambda found: found[0].upper(), _DOUBLED.sub(r"\1", text))
