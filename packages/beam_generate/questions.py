"""From a plan to the user's main questions (paper section 2.3, Algorithm 2, Listings 32 to 34)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from beam_generate.history import Lazy
from beam_generate.messages import clean, leaks
from beam_generate.plan_text import bullet_lines, earlier_subplans, line_tokens
from beam_generate.question_replies import Read, framed, read_questions
from beam_generate.seeds import render_topic
from beam_generate.shapes import Bullet, Layout, MainQuestion, Plan, Repairs, Story, Style, SubPlan
from beamlib.errors import UserError
from beamlib.llm.model import Completion, Model, ModelError, Prompt
from beamlib.llm.retrying import ReadReply, ask, gather
from beamlib.text import count_tokens

Item = TypeVar("Item")

CONTEXT = 12_500
"""Tokens of notes that a prompt may carry; beyond it the earlier sub-plans are cut to the first of these budgets that
is small enough (released settings)."""
TRIMMED: dict[Style, tuple[int, ...]] = {"general": (4_000, 2_000), "coding": (4_000,), "math": (4_000,)}
ATTEMPTS = 3
ALIKE = 0.7
"""A question that shares more than this part of its words with an earlier one of its sub-plan is dropped (released)."""


def prompt_id(style: Style) -> str:
    """The prompt that asks for questions in `style`."""
    return f"questions_{style}"


@dataclass(frozen=True, slots=True)
class _Group:
    """Bullets that one call asks about; `special` for the last one, whose instruction is said word for word."""

    subplan: SubPlan
    number: int
    bullets: tuple[Bullet, ...]
    earlier: tuple[Bullet, ...]
    special: bool = False


def divide(bullets: Sequence[Item], groups: int) -> list[tuple[Item, ...]]:
    """`bullets` in `groups` contiguous parts of nearly equal size, the first ones larger; never an empty part."""
    groups = min(groups, len(bullets))
    parts: list[tuple[Item, ...]] = []
    first = 0
    for number in range(groups):
        size = len(bullets) // groups + (number < len(bullets) % groups)
        parts.append(tuple(bullets[first : first + size]))
        first += size
    return parts


def _groups(subplan: SubPlan, layout: Layout) -> list[_Group]:
    regular = tuple(bullet for bullet in subplan.bullets if bullet.special is None)
    special = tuple(bullet for bullet in subplan.bullets if bullet.special is not None)
    found: list[_Group] = []
    for number, part in enumerate(divide(regular, layout.groups)):
        earlier = tuple(bullet for group in found for bullet in group.bullets)
        found.append(_Group(subplan, number, part, earlier))
    return [*found, _Group(subplan, len(found), special, regular, special=True)] if special else found


async def make_questions(
    model: Model,
    story: Story,
    plan: Plan,
    repairs: Repairs,
    *,
    said: set[str] | None = None,
) -> list[list[MainQuestion]]:
    """The main questions of each sub-plan, in order.

    Each group of bullets is asked about on its own: Algorithm 2 shows a call the bullets before, not the questions, so
    that all calls of a plan run concurrently. `said` are the texts that earlier plans of the conversation asked; those
    of this plan are added. A sub-plan that gets no question at all is a `UserError`; a `ModelError` that may pass is
    raised once everything in flight has arrived.
    """
    asker = _Asker(model, story.style, plan, story.layout)
    groups = [group for subplan in plan.subplans for group in _groups(subplan, story.layout)]
    asked = list(zip(groups, await gather(map(asker.ask, groups)), strict=True))
    for _, (_, notes) in asked:
        repairs.entries += notes.entries
    said = set() if said is None else said
    found = []
    for subplan in plan.subplans:
        where = f"plan {plan.index}, sub-plan {subplan.number}"
        mine = [(questions, group.special) for group, (questions, _) in asked if group.subplan is subplan]
        found.append(_without_repeats(mine, said, repairs, where))
        if not found[-1]:
            raise UserError(
                f"{where}: the model of the role asker wrote no usable question for any bullet; run again, or use "
                "another one."
            )
    return found


@dataclass
class _Asker:
    """Asks about the groups of one plan."""

    model: Model
    style: Style
    plan: Plan
    layout: Layout
    _earlier: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)

    async def ask(self, group: _Group) -> tuple[list[MainQuestion], Repairs]:
        """The questions of one group and what was noted: asked again where a reply falls short, the best one taken."""
        where = f"plan {self.plan.index}, sub-plan {group.subplan.number}, group {group.number + 1}"
        notes = Repairs()
        wanted = [bullet for bullet in group.bullets if bullet.special != "instruction"]
        count = len(wanted) if group.special else self.layout.questions
        read = await self._best(group, wanted, count, where, notes) if count else []
        if len(read) > count:
            notes.note("questions", where, f"{len(read)} questions for {count}", f"the first {count} taken")
        elif len(read) < _enough(count):
            notes.note("questions", where, f"{len(read)} questions for {count}", "asked again, then accepted")
        linked = [self._link(one, group, where, notes) for one in read[:count]]
        return _around_instruction(linked, group.bullets) if group.special else linked, notes

    async def _best(self, group: _Group, wanted: list[Bullet], count: int, where: str, notes: Repairs) -> list[Read]:
        best: list[Read] = []

        def read(reply: Completion, attempt: int) -> ReadReply[list[Read]]:
            nonlocal best
            found = self._usable(reply, group, count, where, notes)
            best = max(best, found, key=lambda some: (min(len(some), count), sum(one.linked for one in some)))
            # A missing link is worth one more call, missing questions are worth two (the released code's number).
            return best, None if attempt and len(best) >= _enough(count) else _complaint(best, count)

        def failed(error: ModelError, attempt: int) -> ReadReply[list[Read]]:
            done = "asked again" if attempt + 1 < ATTEMPTS else "left out"
            notes.note("questions", where, f"no reply ({error.reason})", done)
            return best, ""

        return await ask(self.model, self._prompt(group, wanted, count, where), read, failed=failed, tries=ATTEMPTS)

    def _usable(self, reply: Completion, group: _Group, count: int, where: str, notes: Repairs) -> list[Read]:
        """The questions of a reply but for one that was cut off and those that repeat their prompt."""
        numbers = range(1, len(group.subplan.bullets) + 1)
        read = read_questions(reply.text, self.style, group.subplan.number, numbers, count)
        if framed(reply.text, self.style):
            notes.note("questions", where, f"words or a fence around it: {reply.text[:40]!r}", "taken off")
        if reply.finish_reason == "length" and read and not read[-1].linked:
            notes.note("questions", where, f"cut off: {read[-1].text[:60]!r}", "left out")
            read = read[:-1]
        leaked = [one for one in read if leaks(one.text, prompt_id(self.style))]
        if leaked:
            notes.note("questions", where, f"repeats its prompt: {leaked[0].text[:60]!r}", "left out")
        return [one for one in read if one not in leaked]

    def _prompt(self, group: _Group, wanted: list[Bullet], count: int, where: str) -> Prompt:
        room = CONTEXT - sum(map(line_tokens, (*group.bullets, *group.earlier)))
        number = group.subplan.number

        def earlier() -> str:
            text, tokens = self._before(number, CONTEXT)
            for budget in TRIMMED[self.style]:
                if tokens <= room:
                    break
                text, tokens = self._before(number, budget)
            return text

        variables = Lazy(
            {
                "topic": render_topic(self.plan.seed),
                "bullets": bullet_lines(wanted),
                "earlier_groups": lambda: bullet_lines(group.earlier),
                "earlier_batches": earlier,
                "count": str(count),
            }
        )
        return Prompt(prompt_id(self.style), variables, f"the questions of {where}")

    def _before(self, number: int, budget: int) -> tuple[str, int]:
        """The sub-plans before `number` within `budget`, and their tokens; the same for all groups of a sub-plan."""
        if (number, budget) not in self._earlier:
            text = earlier_subplans(self.plan, number, budget)
            self._earlier[number, budget] = text, count_tokens(text)
        return self._earlier[number, budget]

    def _link(self, read: Read, group: _Group, where: str, notes: Repairs) -> MainQuestion:
        """The question with a link to a bullet of its sub-plan, or to none."""
        shown = f"{read.text[:60]!r}"
        if not read.linked:
            notes.note("questions", where, f"no bullet link: {shown}", "linked to no bullet")
            return MainQuestion(read.text, None)
        if read.oddity:
            notes.note("questions", where, f"a link spelled like {read.oddity!r}: {shown}", "read, taken off")
        if not read.bullets:
            return MainQuestion(read.text, None)
        bullet = read.bullets[0]
        if bullet in {one.number for one in group.bullets}:
            return MainQuestion(read.text, bullet)
        exists = bullet in {one.number for one in group.subplan.bullets}
        done = "kept, the sub-plan has it" if exists else "linked to no bullet"
        notes.note("questions", where, f"a link to bullet {bullet}, outside its group: {shown}", done)
        return MainQuestion(read.text, bullet if exists else None)


def _enough(count: int) -> int:
    """How many of `count` questions are taken as they are: of five and more, one may be missing."""
    return count - 1 if count > 4 else count


def _complaint(read: list[Read], count: int) -> str | None:
    if len(read) < _enough(count):
        return f"A first reply to this held {len(read)} messages where {count} are needed. Write exactly {count}."
    if not all(one.linked for one in read[:count]):
        return "In a first reply to this, some messages did not end with ` ->-> ` and a number or N/A. All have to."
    return None


def _around_instruction(questions: list[MainQuestion], bullets: Sequence[Bullet]) -> list[MainQuestion]:
    """The update's question, the instruction word for word, the contradiction's question (reference 3.2)."""
    number = {bullet.special: bullet.number for bullet in bullets}
    said = [MainQuestion(clean(one.text), one.number) for one in bullets if one.special == "instruction"]
    last = [question for question in questions if question.bullet == number.get("contradiction", 0)]
    if not last and len(questions) > 1:  # links that help nothing: the order was asked for
        last = questions[-1:]
    return [*(question for question in questions if question not in last), *said, *last]


def _without_repeats(
    asked: Sequence[tuple[Sequence[MainQuestion], bool]], said: set[str], repairs: Repairs, where: str
) -> list[MainQuestion]:
    """The questions of one sub-plan without those said before in the conversation and those too like one before.

    Questions of the special group (the flag) are only dropped when they repeat another word for word: they carry the
    update, the instruction and the contradiction.
    """
    kept: list[MainQuestion] = []
    likeness = _Likeness()
    for questions, special in asked:
        for question in questions:
            plain = " ".join(question.text.casefold().split())
            words = likeness.measure(plain)
            if plain in said:
                repairs.note("questions", where, f"said before: {question.text[:60]!r}", "dropped")
            elif likeness.repeats(words) and not special:
                repairs.note("questions", where, f"over 70 % of an earlier one: {question.text[:60]!r}", "dropped")
            else:
                said.add(plain)
                likeness.add(words)
                kept.append(question)
    return kept


class _Likeness:
    """The released filter: shared distinct words over the longer text's number of words.

    Words are bits of whole numbers, so that comparing two questions is one operation on them.
    """

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}
        self._before: list[tuple[int, int]] = []

    def measure(self, text: str) -> tuple[int, int]:
        """Distinct words as bits, and the number of words."""
        words = text.split()
        mask = 0
        for word in set(words):
            mask |= 1 << self._bits.setdefault(word, len(self._bits))
        return mask, len(words)

    def repeats(self, words: tuple[int, int]) -> bool:
        """Whether a text added before is too like the one that `words` measures."""
        mask, length = words
        return any((mask & other).bit_count() > ALIKE * max(length, size) for other, size in self._before)

    def add(self, words: tuple[int, int]) -> None:
        """Compare later texts with this one too."""
        self._before.append(words)
