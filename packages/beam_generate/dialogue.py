"""Turn main questions into a dialogue (paper section 2.2.3, Algorithm 3, Listings 35 to 39).

Each speaker remembers the newest messages word for word and the older ones as a summary. Algorithm 3 speaks of a window
of M recent turns and a summary of those before it. As in the released code, the window grows up to a token budget; then
M messages stay and the rest joins the summary. The two speakers have different budgets. Where the models file states
smaller windows than these need, the budgets shrink to what fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from beam_generate.people import render_profile
from beam_generate.plan_text import bullet_lines, earlier_plans_text, earlier_subplans
from beam_generate.replies import ask_message, ask_yes_or_no, clean
from beam_generate.seeds import render_topic, targets
from beam_generate.shapes import DialogueMessage, DialogueTurn, Limits, MainQuestion, Plan, Repairs, Story, Style
from beamlib.errors import UserError
from beamlib.llm.model import Model, ModelError, Prompt
from beamlib.llm.retrying import gather
from beamlib.params import RunParameters
from beamlib.text import count_tokens, token_spans

_Reaction = Literal["answer_ai_question", "followup_question"]
_REACTIONS: Mapping[_Reaction, tuple[str, str]] = {
    "answer_ai_question": ("detect_question", "user_reply"),
    "followup_question": ("detect_followup", "user_followup"),
}
"""Kind of a further user message -> the prompt that detects a reason for it, and the prompt that writes it."""
EARLIER = 12_500
"""Tokens of earlier sub-plans in the prompts of both speakers, as in those of the main questions."""
LOST = 5
"""Turns of a sub-plan that may be dropped before generation stops (released: ten messages)."""
_LEAST_SHOWN = 100
"""Tokens of a long message that must at least be shown; this bounds the number of recent messages."""
_LEAST_ROOM = 4_000
"""Tokens of a request without which no dialogue can be written."""
_NEWEST, _AROUND = 1_500, 800
"""Tokens of the newest message and of a prompt's own text, where requests have to fit into a small window."""
_WORDS_PER_TOKEN: Mapping[Style, float] = {"general": 0.66, "coding": 0.44, "math": 0.55}
"""Words of the assistant per token of a released conversation: code and formulas have few."""


@dataclass(frozen=True, slots=True)
class Side:
    """Token budgets of a speaker: of a whole prompt, and of the running summary (released settings)."""

    name: str
    budget: int
    summary: int


ASSISTANT = Side("assistant", 28_000, 1_000)
USER = Side("user", 19_000, 2_000)


def limits_of(parameters: RunParameters) -> Limits:
    """Return the limits of a run's dialogues.

    Raises:
        UserError: So many recent messages do not fit into a window.
    """
    settings, most = parameters.generation, USER.budget // _LEAST_SHOWN
    if settings.recent_messages > most:
        raise UserError(
            f"recent_messages is {settings.recent_messages}: the user's side remembers {USER.budget:,} tokens, in "
            f"which that many messages would be cut to less than {_LEAST_SHOWN} each; give at most {most}."
        )
    return Limits(settings.recent_messages, settings.reply_limit, settings.followup_limit, settings.reach)


def answer_words(story: Story, questions: int, tokens: Sequence[int]) -> int:
    """Return the number of words, in fifties, to ask for in the next answer, so that a tier reaches its size.

    The tokens that are left of a sub-plan's share go evenly to the questions that are left. They are scaled by how far
    this writer has overshot so far (`tokens` of each complete turn), and lie between half and twice an even share.
    """
    target = targets(story.size)
    budget = target.tokens / (story.plans * story.layout.subplans)
    even = budget / questions
    aimed, spent, aim = 0.0, 0, even
    for done, count in enumerate(tokens, start=1):
        aimed, spent = aimed + aim, spent + count
        left = (budget - spent) / max(questions - done, 1)
        aim = min(max(left * aimed / max(spent, 1), even / 2), even * 2)
    exchanges = 1 + (target.answered + target.followups) / target.turns
    return max(50, 50 * round(aim / exchanges * _WORDS_PER_TOKEN[story.style] / 50))


class Talk:
    """Messages of a dialogue, the number of tokens of each, and what both speakers remember of it."""

    def __init__(self, recent: int, room: int | None = None) -> None:
        self.messages: list[DialogueMessage] = []
        self.tokens: list[int] = []
        self.assistant = HistoryWindow(self, ASSISTANT, recent, room)
        self.user = HistoryWindow(self, USER, recent, room)

    def add(self, messages: Sequence[DialogueMessage]) -> None:
        """Append messages."""
        self.messages += messages
        self.tokens += [count_tokens(message.text) for message in messages]


class HistoryWindow:
    """What a speaker remembers of a talk: a summary, and the messages from number `start` on word for word.

    At least `recent` messages stay word for word. `fixed` counts the tokens of the rest of the speaker's prompts, and
    `room` bounds the tokens of a whole prompt; None is as much as the budget takes.
    """

    def __init__(self, talk: Talk, side: Side, recent: int, room: int | None = None) -> None:
        self.talk, self.side, self.recent, self.room = talk, side, recent, room
        self.start, self.summary = 0, ""
        self.fix(0)

    def fix(self, tokens: int) -> None:
        """Set the tokens of the rest of the speaker's prompts.

        Raises:
            UserError: They leave too little of the stated window.
        """
        self.fixed, side = tokens, self.side
        self.budget = max(side.budget - tokens, side.budget // 2)
        shown = side.budget
        if self.room is not None:
            self.budget = min(self.budget, self.room - tokens - side.summary - _NEWEST - _AROUND)
            shown = min(shown, self.budget)
        self.longest = shown // self.recent  # longer messages are shown cut, so that the recent ones always fit
        if self.room is not None and self.longest < _LEAST_SHOWN:
            needed = tokens + side.summary + _NEWEST + _AROUND + _LEAST_SHOWN * self.recent
            raise UserError(
                f"the models file's context_window leaves {self.room:,} tokens for a request of the {side.name}'s "
                f"side, which needs {needed:,} with {self.recent} recent messages; name a model with a larger window "
                "as speaker and detector, or lower recent_messages or bullets_per_subplan."
            )

    def _is_full(self) -> bool:
        remembered, room = self.talk.tokens[self.start :], self.budget
        return len(remembered) > self.recent and sum(min(tokens, self.longest) for tokens in remembered) > room

    async def make_room(self, model: Model, repairs: Repairs, where: str) -> None:
        """If the window is full, move all but the recent messages into the summary.

        If the model gives no summary, the old one stays.

        Raises:
            ModelError: The call failed and may succeed later.
        """
        if not self._is_full():
            return
        first, start = self.start, len(self.talk.messages) - self.recent
        variables = {"summary": self.summary, "exchanges": self._text(first, start)}
        prompt = Prompt("dialogue_summary", variables, f"{where}, {self.side.name}'s summary")
        try:
            summary = clean((await model.complete(prompt)).text)
        except ModelError as error:
            if error.transient:
                raise
            summary = self.summary
            repairs.note("dialogue", where, f"no summary ({error.reason})", "the one before it stands")
        if count_tokens(summary) > self.side.summary:
            summary = summary[: token_spans(summary)[self.side.summary - 1][1]]
            repairs.note("dialogue", where, "a summary over its limit", f"cut to {self.side.summary} tokens")
        self.start, self.summary = start, summary

    def text(self, leave_out: int = 0) -> str:
        """Render the window without the newest `leave_out` messages."""
        return self._text(self.start, len(self.talk.messages) - leave_out)

    def _text(self, first: int, end: int) -> str:
        return "\n\n".join(self._shown(number) for number in range(first, end))

    def _shown(self, number: int) -> str:
        message = self.talk.messages[number]
        return f"{message.role.upper()}: {_beginning(message.text, self.longest)}"


def _beginning(text: str, most: int) -> str:
    """Return a text, or the `most` first tokens of one that has more."""
    return f"{text[: token_spans(text)[most - 1][1]]} [...]" if count_tokens(text) > most else text


async def generate_dialogue(
    model: Model,
    story: Story,
    plan: Plan,
    questions: Sequence[Sequence[MainQuestion]],
    earlier_plans: Sequence[str],
    limits: Limits,
    repairs: Repairs,
    room: int | None = None,
) -> list[DialogueTurn]:
    """Write the turns of a plan, in order. With `limits.reach` "batch" its sub-plans run concurrently.

    `questions` are given by sub-plan, `earlier_plans` are summaries. `repairs` is complete up to an error as well.
    `room` bounds the tokens of a request; None is no bound.

    Raises:
        UserError: A sub-plan lost all or more than `LOST` of its turns, or requests do not fit into `room`.
        ModelError: A call failed and may succeed later.
    """
    if room is not None and room < _LEAST_ROOM:
        raise UserError(
            f"the models file's context_window leaves {max(0, room):,} tokens for a request of the dialogue, which "
            f"needs {_LEAST_ROOM:,} at least; name a model with a larger window as speaker and detector."
        )
    one_talk = Talk(limits.recent, room) if limits.reach == "conversation" else None
    earlier = earlier_plans_text(earlier_plans)
    scenes = [
        _Scene(model, story, plan, number, earlier, limits, one_talk or Talk(limits.recent, room))
        for number in range(1, len(questions) + 1)
    ]
    try:
        if one_talk:
            spoken = [await scene.play(some) for scene, some in zip(scenes, questions, strict=True)]
        else:
            spoken = await gather(scene.play(some) for scene, some in zip(scenes, questions, strict=True))
    finally:
        repairs.entries += [note for scene in scenes for note in scene.notes.entries]
    return [turn for turns in spoken for turn in turns]


class _Scene:
    """The dialogue of one sub-plan."""

    def __init__(
        self, model: Model, story: Story, plan: Plan, number: int, earlier_plans: str, limits: Limits, talk: Talk
    ) -> None:
        self.model, self.story, self.plan, self.number, self.limits = model, story, plan, number, limits
        self.talk, self.notes, self.where, self.words = talk, Repairs(), "", ""
        room = talk.user.room
        self.bullets = bullet_lines(plan.subplans[number - 1].bullets)
        self.profile = render_profile(story.profile)
        self.shared = {
            "topic": render_topic(plan.seed),
            "earlier_plans": earlier_plans,
            "earlier_batches": earlier_subplans(plan, number, EARLIER if room is None else min(EARLIER, room // 4)),
        }

    async def play(self, questions: Sequence[MainQuestion]) -> list[DialogueTurn]:
        """Write a turn for each question; turns without an answer are dropped."""
        shared = sum(map(count_tokens, self.shared.values()))
        self.talk.assistant.fix(shared)
        self.talk.user.fix(shared + count_tokens(self.profile) + count_tokens(self.bullets))
        place = f"plan {self.plan.index}, sub-plan {self.number}"
        turns: list[DialogueTurn] = []
        tokens: list[int] = []
        for position, question in enumerate(questions, start=1):
            self.where = f"{place}, question {position}"
            self.words = str(answer_words(self.story, len(questions), tokens))
            before = len(self.notes.entries)
            messages = await self._messages(question)
            tokens.append(sum(count_tokens(message.text) for message in messages))
            if messages:
                turns.append(DialogueTurn(self.plan.index, self.number, question.bullet, tuple(messages)))
            elif (lost := position - len(turns)) > LOST or lost == len(questions):
                raise UserError(
                    f"{place}: {lost} of {len(questions)} turns had to be dropped, the last one for "
                    f"'{self.notes.entries[before][2]}'; see what the model of the role speaker refuses, then run "
                    "again with another model or seed."
                )
        return turns

    async def _messages(self, question: MainQuestion) -> list[DialogueMessage]:
        """Return everything that a main question triggers; a message that fails ends the turn before it."""
        messages: list[DialogueMessage] = []
        if await self._exchange(DialogueMessage("user", question.text, "main_question"), messages):
            await self._react("answer_ai_question", self.limits.replies, messages)
            await self._react("followup_question", self.limits.followups, messages)
        return messages

    async def _exchange(self, message: DialogueMessage, messages: list[DialogueMessage]) -> bool:
        """Ask for the assistant's answer; only with one the user's message joins the dialogue."""
        window = self.talk.assistant
        await window.make_room(self.model, self.notes, self.where)
        memory = {"summary": window.summary, "history": window.text()}
        variables = {**self.shared, **memory, "message": message.text, "words": self.words}
        answer = await self._ask("assistant_answer", variables)
        if answer is None:
            action = "the turn ends before it" if messages else "the turn is dropped"
            self.notes.note("dialogue", self.where, "a user message without an answer", action)
            return False
        pair = (message, DialogueMessage("assistant", answer))
        self.talk.add(pair)
        messages += pair
        return True

    async def _react(self, kind: _Reaction, most: int, messages: list[DialogueMessage]) -> None:
        """Add up to `most` further user messages of a kind, each if its detector finds a reason (lines 11 and 21)."""
        detector, writer = _REACTIONS[kind]
        window = self.talk.user
        for _ in range(most):
            await window.make_room(self.model, self.notes, self.where)
            answer = messages[-1].text if window.room is None else _beginning(messages[-1].text, _NEWEST)
            memory = {"summary": window.summary, "history": window.text(leave_out=1), "answer": answer}
            topic = {"topic": self.shared["topic"]} if kind == "followup_question" else {}
            prompt = Prompt(detector, {**topic, **memory}, self.where)
            if not await ask_yes_or_no(self.model, prompt, self.notes):
                return
            variables = {**self.shared, **memory, "profile": self.profile, "bullets": self.bullets}
            text = await self._ask(writer, variables)
            if text is None or not await self._exchange(DialogueMessage("user", text, kind), messages):
                return

    async def _ask(self, prompt_id: str, variables: Mapping[str, str]) -> str | None:
        return await ask_message(self.model, Prompt(prompt_id, variables, self.where), self.notes)
