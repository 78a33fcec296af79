"""From main questions to a dialogue (paper section 2.3, Algorithm 3, Listings 35 to 39)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from beam_generate.history import ASSISTANT, USER, HistoryWindow, Lazy, SummaryState, Talk
from beam_generate.layouts import answer_words
from beam_generate.messages import ask_message, ask_yes_or_no
from beam_generate.people import render_profile
from beam_generate.plan_text import bullet_lines, earlier_plans_text, earlier_subplans
from beam_generate.seeds import render_topic
from beam_generate.shapes import DialogueMessage, DialogueTurn, Limits, MainQuestion, Plan, Repairs, Story
from beamlib.errors import UserError
from beamlib.llm.model import Model, ModelError, Prompt
from beamlib.llm.retrying import gather
from beamlib.text import count_tokens

_Reaction = Literal["answer_ai_question", "followup_question"]
_REACTIONS: Mapping[_Reaction, tuple[str, str]] = {
    "answer_ai_question": ("detect_question", "user_reply"),
    "followup_question": ("detect_followup", "user_followup"),
}
"""The prompts that find a reason for a message of the user, and that write it."""
EARLIER = 12_500
"""Tokens of earlier sub-plans that either side is shown, as in the questions' prompts."""
LOST = 5
"""Turns of a sub-plan that may be dropped before generation stops (released: ten messages)."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """What became of one main question: `question` counts from 0 in sub-plan `batch`; `turn` is None if it was dropped.

    `assistant` and `user` are the state of a speaker's window after it, where it changed. `notes` are its entries of
    `Repairs`. An entry is all that has to be on file to go on after it.
    """

    batch: int
    question: int
    turn: DialogueTurn | None
    assistant: SummaryState | None = None
    user: SummaryState | None = None
    notes: tuple[tuple[str, str, str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For a journal."""
        value: dict[str, Any] = {"batch": self.batch, "question": self.question}
        if self.turn is not None:
            value |= {"plan": self.turn.plan, "bullet": self.turn.bullet}
            value["said"] = [[message.text, message.kind] for message in self.turn.messages]
        for name, fold in (("assistant", self.assistant), ("user", self.user)):
            if fold is not None:
                value[name] = [fold.start, fold.summary]
        return value | ({"notes": [list(note) for note in self.notes]} if self.notes else {})

    @staticmethod
    def from_json(value: dict[str, Any]) -> JournalEntry:
        """What `to_json` gave."""
        turn = None
        if "said" in value:
            messages = tuple(
                DialogueMessage("assistant" if position % 2 else "user", text, kind)
                for position, (text, kind) in enumerate(value["said"])
            )
            turn = DialogueTurn(value["plan"], value["batch"], value["bullet"], messages)
        assistant, user = (SummaryState(*value[name]) if name in value else None for name in ("assistant", "user"))
        notes = tuple((stage, where, found, done) for stage, where, found, done in value.get("notes", ()))
        return JournalEntry(value["batch"], value["question"], turn, assistant, user, notes)


async def generate_dialogue(
    model: Model,
    story: Story,
    plan: Plan,
    questions: Sequence[Sequence[MainQuestion]],
    earlier_plans: Sequence[str],
    limits: Limits,
    repairs: Repairs,
    *,
    said_before: Iterable[JournalEntry] = (),
    keep: Callable[[JournalEntry], None] | None = None,
) -> list[DialogueTurn]:
    """The turns of one plan, in order; `questions[i]` belong to its sub-plan i + 1, `earlier_plans` are summaries.

    `said_before` are the entries that an interrupted run put on file by `keep`, which is called after every turn. Where
    `limits.reach` is "batch", sub-plans are independent and run concurrently. A `ModelError` that may pass ends the
    run: what was kept stands. A sub-plan that loses more than `LOST` turns, or all of them, is a `UserError`.
    """
    heard = list(said_before)
    stored: dict[int, list[JournalEntry]] = {}
    for entry in heard:
        stored.setdefault(entry.batch, []).append(entry)

    def hear(entry: JournalEntry) -> None:
        heard.append(entry)
        if keep is not None:
            keep(entry)

    cast = _Cast(model, story, plan, earlier_plans_text(earlier_plans), limits, hear)
    try:
        entries = await _played(cast, questions, stored)
    except (UserError, ModelError):
        repairs.entries += [note for entry in heard for note in entry.notes]
        raise
    repairs.entries += [note for batch in entries for entry in batch for note in entry.notes]
    return [entry.turn for batch in entries for entry in batch if entry.turn is not None]


async def _played(
    cast: _Cast, questions: Sequence[Sequence[MainQuestion]], stored: Mapping[int, Sequence[JournalEntry]]
) -> list[list[JournalEntry]]:
    """The entries of all sub-plans."""
    recent = cast.limits.recent
    numbered = list(enumerate(questions, start=1))
    if cast.limits.reach == "conversation":
        memory = _Memory(recent)
        return [await cast.play(number, asked, stored.get(number, []), memory) for number, asked in numbered]
    return await gather(cast.play(number, asked, stored.get(number, []), _Memory(recent)) for number, asked in numbered)


class _Memory:
    """What has been said, and the windows of both sides on it."""

    def __init__(self, recent: int) -> None:
        self.talk = Talk()
        self.assistant, self.user = HistoryWindow(self.talk, ASSISTANT, recent), HistoryWindow(self.talk, USER, recent)

    def restore(self, entries: Sequence[JournalEntry]) -> None:
        """Go on after `entries`, without asking a model anything."""
        for entry in entries:
            if entry.turn is not None:
                self.talk.add(entry.turn.messages)
            if entry.assistant is not None:
                self.assistant.resume(entry.assistant)
            if entry.user is not None:
                self.user.resume(entry.user)


@dataclass(frozen=True, slots=True)
class _Cast:
    """Those who speak, and what they know in every sub-plan."""

    model: Model
    story: Story
    plan: Plan
    earlier_plans: str
    limits: Limits
    keep: Callable[[JournalEntry], None]

    async def play(
        self, number: int, questions: Sequence[MainQuestion], stored: Sequence[JournalEntry], memory: _Memory
    ) -> list[JournalEntry]:
        """The entries of sub-plan `number`: the stored ones, then one for each question that is left."""
        entries = list(stored)
        memory.restore(entries)
        where = f"plan {self.plan.index}, sub-plan {number}"
        _check_losses(entries, len(questions), where)
        scene = _Scene(self, number, memory)
        for position in range(len(entries), len(questions)):
            words = answer_words(self.story, len(questions), [_tokens(entry) for entry in entries])
            entry = await scene.turn(position, questions[position], words)
            entries.append(entry)
            self.keep(entry)
            _check_losses(entries, len(questions), where)
        return entries


def _tokens(entry: JournalEntry) -> int:
    return sum(count_tokens(message.text) for message in entry.turn.messages) if entry.turn else 0


def _check_losses(entries: Sequence[JournalEntry], questions: int, where: str) -> None:
    lost = [entry for entry in entries if entry.turn is None]
    if len(lost) > LOST or 0 < len(lost) == questions:
        reason = lost[-1].notes[0][2]
        raise UserError(
            f"{where}: {len(lost)} of {questions} turns had to be dropped, the last one for '{reason}'; see what the "
            "model of the role speaker refuses, then run again with another model or seed."
        )


class _Scene:
    """One sub-plan: its notes as variables, and the loop of Algorithm 3 over a question."""

    def __init__(self, cast: _Cast, number: int, memory: _Memory) -> None:
        plan = cast.plan
        self.cast, self.number, self.memory, self.words = cast, number, memory, ""
        self.topic, self.profile = render_topic(plan.seed), render_profile(cast.story.profile)
        self.earlier = earlier_subplans(plan, number, EARLIER)
        self.bullets = bullet_lines(plan.subplans[number - 1].bullets)
        shared = count_tokens(self.topic) + count_tokens(cast.earlier_plans) + count_tokens(self.earlier)
        memory.assistant.fixed = shared
        memory.user.fixed = shared + count_tokens(self.profile) + count_tokens(self.bullets)

    async def turn(self, position: int, question: MainQuestion, words: int) -> JournalEntry:
        """Everything that one main question triggers, with answers of about `words` words.

        A message that fails ends the turn after its last answer.
        """
        self.words = str(words)
        where = f"plan {self.cast.plan.index}, sub-plan {self.number}, question {position + 1}"
        before = self.memory.assistant.fold, self.memory.user.fold
        notes = Repairs()
        said: list[DialogueMessage] = []
        if await self._exchange(DialogueMessage("user", question.text, "main_question"), said, notes, where):
            await self._more("answer_ai_question", self.cast.limits.replies, said, notes, where)
            await self._more("followup_question", self.cast.limits.followups, said, notes, where)
        turn = DialogueTurn(self.cast.plan.index, self.number, question.bullet, tuple(said)) if said else None
        after = self.memory.assistant.fold, self.memory.user.fold
        assistant, user = (new if new != old else None for old, new in zip(before, after, strict=True))
        return JournalEntry(self.number, position, turn, assistant, user, tuple(notes.entries))

    async def _exchange(
        self, message: DialogueMessage, said: list[DialogueMessage], notes: Repairs, where: str
    ) -> bool:
        """Have the assistant answer; only then is the message said at all."""
        window = self.memory.assistant
        await window.make_room(self.cast.model, notes, where)
        variables = Lazy(
            {
                "topic": self.topic,
                "earlier_plans": self.cast.earlier_plans,
                "earlier_batches": self.earlier,
                "summary": window.fold.summary,
                "history": window.text(),
                "message": message.text,
                "words": self.words,
            }
        )
        answer = await ask_message(self.cast.model, Prompt("assistant_answer", variables, where), notes, where)
        if answer is None:
            done = "the turn ends before it" if said else "the turn is dropped"
            notes.note("dialogue", where, "a user message without an answer", done)
            return False
        pair = (message, DialogueMessage("assistant", answer))
        self.memory.talk.add(pair)
        said += pair
        return True

    async def _more(self, kind: _Reaction, most: int, said: list[DialogueMessage], notes: Repairs, where: str) -> None:
        """Up to `most` further messages of the user of one kind, each where its detector finds a reason for it."""
        detector, writer = _REACTIONS[kind]
        topic = {"topic": self.topic} if kind == "followup_question" else {}
        for _ in range(most):
            if not await self._detects(detector, topic, said[-1].text, notes, where):
                return
            text = await self._user(writer, said[-1].text, notes, where)
            if text is None or not await self._exchange(DialogueMessage("user", text, kind), said, notes, where):
                return

    async def _detects(self, prompt_id: str, more: Mapping[str, str], answer: str, notes: Repairs, where: str) -> bool:
        """A detector's decision on the newest answer, from the user's window and summary (lines 11 and 21)."""
        window = self.memory.user
        await window.make_room(self.cast.model, notes, where)
        variables = Lazy(
            {**more, "summary": window.fold.summary, "history": window.text(leave_out=1), "answer": answer}
        )
        return await ask_yes_or_no(self.cast.model, Prompt(prompt_id, variables, where), notes, where)

    async def _user(self, prompt_id: str, answer: str, notes: Repairs, where: str) -> str | None:
        window = self.memory.user  # a detector made room in it
        variables = Lazy(
            {
                "topic": self.topic,
                "profile": self.profile,
                "earlier_plans": self.cast.earlier_plans,
                "earlier_batches": self.earlier,
                "bullets": self.bullets,
                "summary": window.fold.summary,
                "history": window.text(leave_out=1),
                "answer": answer,
            }
        )
        return await ask_message(self.cast.model, Prompt(prompt_id, variables, where), notes, where)
