"""Write the user's main questions from a plan (paper section 2.2.2, Algorithm 2, Listings 32 to 34)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from beam_generate.plan_text import bullet_lines, earlier_subplans, line_tokens
from beam_generate.replies import clean, repeats_prompt, reply_questions
from beam_generate.seeds import render_topic
from beam_generate.shapes import Bullet, Layout, MainQuestion, Plan, Repairs, Story, Style, SubPlan
from beamlib.errors import UserError
from beamlib.llm.model import Completion, Model, ModelError, Prompt
from beamlib.llm.retrying import ReadReply, ask, gather
from beamlib.text import count_tokens

Item = TypeVar("Item")

CONTEXT = 12_500
"""Tokens of notes in a prompt. If they are more, the earlier sub-plans are cut to the next budget of `TRIMMED` until
they fit (released settings)."""
_TEMPLATE = 1_000
"""Tokens of a prompt's own text and of the topic."""
TRIMMED: dict[Style, tuple[int, ...]] = {"general": (4_000, 2_000), "coding": (4_000,), "math": (4_000,)}
ALIKE = 0.7
"""A question that shares more than this part of its words with an earlier one of its sub-plan is dropped (released)."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Bullets of one call; `earlier` are those of the groups before. The last group has the special bullets."""

    subplan: SubPlan
    number: int
    bullets: tuple[Bullet, ...]
    earlier: tuple[Bullet, ...]
    special: bool = False


def divide(bullets: Sequence[Item], groups: int) -> list[tuple[Item, ...]]:
    """Divide bullets into contiguous groups of nearly equal size, the first ones larger, none empty."""
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
    groups: list[_Group] = []
    for number, part in enumerate(divide(regular, layout.groups)):
        earlier = tuple(bullet for group in groups for bullet in group.bullets)
        groups.append(_Group(subplan, number, part, earlier))
    return [*groups, _Group(subplan, len(groups), special, regular, special=True)] if special else groups


async def make_questions(
    model: Model,
    story: Story,
    plan: Plan,
    repairs: Repairs,
    *,
    earlier_texts: set[str] | None = None,
    room: int | None = None,
) -> list[list[MainQuestion]]:
    """Write the main questions of each sub-plan, in order.

    Algorithm 2 shows a call the bullets before its group, not the questions, so all calls of a plan run concurrently.
    `earlier_texts` are the texts of earlier plans' questions, which are not repeated; those of this plan are added.
    `room` bounds the tokens of a request; None is no bound.

    Raises:
        UserError: A sub-plan got no question.
        ModelError: A call failed and may succeed later. Calls in flight are awaited first.
    """
    context = CONTEXT if room is None else max(0, min(CONTEXT, room - _TEMPLATE))
    asker = _Asker(model, story.style, plan, story.layout, context)
    groups = [group for subplan in plan.subplans for group in _groups(subplan, story.layout)]
    results = list(zip(groups, await gather(map(asker.ask, groups)), strict=True))
    for _, (_, notes) in results:
        repairs.entries += notes.entries
    earlier_texts = set() if earlier_texts is None else earlier_texts
    by_subplan = []
    for subplan in plan.subplans:
        where = f"plan {plan.index}, sub-plan {subplan.number}"
        own = [(questions, group.special) for group, (questions, _) in results if group.subplan is subplan]
        by_subplan.append(_without_repeats(own, earlier_texts, repairs, where))
        if not by_subplan[-1]:
            raise UserError(
                f"{where}: the model of the role asker wrote no usable question for any bullet; run again, or use "
                "another one."
            )
    return by_subplan


@dataclass
class _Asker:
    """Ask about the groups of one plan."""

    model: Model
    style: Style
    plan: Plan
    layout: Layout
    context: int = CONTEXT
    _earlier: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)

    async def ask(self, group: _Group) -> tuple[list[MainQuestion], Repairs]:
        """Return the questions of a group, the better of two replies, and notes on them."""
        where = f"plan {self.plan.index}, sub-plan {group.subplan.number}, group {group.number + 1}"
        notes = Repairs()
        shown = [bullet for bullet in group.bullets if bullet.special != "instruction"]
        count = len(shown) if group.special else self.layout.questions
        best: list[MainQuestion] = []

        def read(reply: Completion, _: int) -> ReadReply[None]:
            nonlocal best
            questions = [
                one for one in reply_questions(reply.text, self.style) if not repeats_prompt(one.text, prompt.id)
            ]
            best = max(best, questions, key=len)
            complaint = (
                f"A first reply to this held {len(best)} messages where {count} are needed. Write exactly {count}."
            )
            return None, complaint if len(best) < _enough(count) else None

        def failed(error: ModelError, attempt: int) -> ReadReply[None]:
            notes.note("questions", where, f"no reply ({error.reason})", "left out" if attempt else "asked again")
            return None, ""

        if count:
            prompt = self._prompt(group, shown, count, where)
            await ask(self.model, prompt, read, failed=failed)
        if len(best) > count:
            notes.note("questions", where, f"{len(best)} questions for {count}", f"the first {count} taken")
        elif len(best) < _enough(count):
            notes.note("questions", where, f"{len(best)} questions for {count}", "asked again, then accepted")
        questions = [self._linked(reply, group, where, notes) for reply in best[:count]]
        return _around_instruction(questions, group.bullets) if group.special else questions, notes

    def _prompt(self, group: _Group, shown: list[Bullet], count: int, where: str) -> Prompt:
        room = self.context - sum(map(line_tokens, (*group.bullets, *group.earlier)))
        number = group.subplan.number

        earlier, tokens = self._before(number, self.context)
        for budget in (*TRIMMED[self.style], *([max(0, room)] if self.context < CONTEXT else [])):
            if tokens <= room:
                break
            earlier, tokens = self._before(number, budget)
        variables = {
            "topic": render_topic(self.plan.seed),
            "bullets": bullet_lines(shown),
            "earlier_groups": bullet_lines(group.earlier),
            "earlier_batches": earlier,
            "count": str(count),
        }
        return Prompt(f"questions_{self.style}", variables, f"the questions of {where}")

    def _before(self, number: int, budget: int) -> tuple[str, int]:
        """Render the sub-plans before `number` within a budget, and count their tokens; cached for its groups."""
        if (number, budget) not in self._earlier:
            text = earlier_subplans(self.plan, number, budget)
            self._earlier[number, budget] = text, count_tokens(text)
        return self._earlier[number, budget]

    def _linked(self, reply: MainQuestion, group: _Group, where: str, notes: Repairs) -> MainQuestion:
        """Keep a link to a bullet of the sub-plan; note one that leads outside the group."""
        if reply.bullet is None or reply.bullet in {bullet.number for bullet in group.bullets}:
            return MainQuestion(reply.text, reply.bullet)
        exists = reply.bullet in {bullet.number for bullet in group.subplan.bullets}
        problem = f"a link to bullet {reply.bullet}, outside its group: {reply.text[:60]!r}"
        notes.note("questions", where, problem, "kept, the sub-plan has it" if exists else "linked to no bullet")
        return MainQuestion(reply.text, reply.bullet if exists else None)


def _enough(count: int) -> int:
    """Return how many of `count` questions are accepted at once: of five and more, one may be missing."""
    return count - 1 if count > 4 else count


def _around_instruction(questions: list[MainQuestion], bullets: Sequence[Bullet]) -> list[MainQuestion]:
    """Order a special group as released: the update's question, the instruction as it is, the contradiction's."""
    number = {bullet.special: bullet.number for bullet in bullets}
    instruction = [MainQuestion(clean(one.text), one.number) for one in bullets if one.special == "instruction"]
    last = [question for question in questions if question.bullet == number.get("contradiction", 0)]
    if not last and len(questions) > 1:  # without a helpful link, the order in which the prompt asks counts
        last = questions[-1:]
    return [*(question for question in questions if question not in last), *instruction, *last]


def _without_repeats(
    groups: Sequence[tuple[Sequence[MainQuestion], bool]], earlier_texts: set[str], repairs: Repairs, where: str
) -> list[MainQuestion]:
    """Drop questions that were asked before in the conversation, or are too like one before in the sub-plan.

    Questions of the special group (flag True) are dropped only if they repeat another word for word: they carry the
    update, the instruction and the contradiction. Two texts are alike by the released measure: shared distinct words
    over the number of words of the longer text.
    """
    kept: list[MainQuestion] = []
    before: list[tuple[set[str], int]] = []
    for questions, special in groups:
        for question in questions:
            words = question.text.casefold().split()
            plain, distinct = " ".join(words), set(words)
            alike = any(len(distinct & other) > ALIKE * max(len(words), size) for other, size in before)
            if plain in earlier_texts:
                repairs.note("questions", where, f"said before: {question.text[:60]!r}", "dropped")
            elif alike and not special:
                repairs.note("questions", where, f"over 70 % of an earlier one: {question.text[:60]!r}", "dropped")
            else:
                earlier_texts.add(plain)
                before.append((distinct, len(words)))
                kept.append(question)
    return kept
