"""Judging answers: a verdict per nugget (paper listing 20) and, for event ordering, two alignments (listing 21).

Everything is stored raw; what it is worth is decided later, by a protocol, without another call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from beamlib.data.gold import Gold
from beamlib.llm.model import Completion, Model, Prompt, run
from beamlib.llm.retrying import gather
from beamlib.scoring.alignment import AlignmentMethod, align
from beamlib.scoring.records import Alignment, Judgement, NuggetVerdict, RepeatJudgement
from beamlib.scoring.replies import ParsedReply, ask_parsed, read_score


@dataclass(frozen=True, slots=True)
class ToJudge:
    """An answer to `question`, or in `unscored` why there is none, which `transient` says may pass."""

    question: str
    answer: str | None
    unscored: str | None
    gold: Gold
    transient: bool = False


def judge_answers(
    items: Sequence[ToJudge],
    judge: Model,
    aligner: Model,
    *,
    question_in_prompt: bool = True,
    repeats: int = 1,
    alignment: AlignmentMethod = "greedy",
) -> list[Judgement]:
    """Judge every answer against its rubric, `repeats` times, all of them concurrently; in the order of `items`.

    The verdict calls go out answer by answer, so that calls on one answer, whose prompts begin alike, stand together.
    `question_in_prompt` off leaves the question out of them, as the released code does (discrepancy S2).

    With `unscored` (or no answer) nothing is asked and the judgement carries the reason. A reply that cannot be read
    is asked for once more; a failed or unreadable call leaves its nugget without a score. A failed alignment puts its
    reason into `unscored` beside the verdicts, which stay: protocols that need no alignment still score the question.
    Any other exception is raised once all calls have ended.
    """
    asking = _Asking(judge, aligner, question_in_prompt, alignment)
    return run(_judge_all(items, asking, repeats))


def judge_answer(
    question: str,
    answer: str | None,
    unscored: str | None,
    gold: Gold,
    model: Model,
    *,
    aligner: Model | None = None,
    question_in_prompt: bool = True,
    repeats: int = 1,
    alignment: AlignmentMethod = "greedy",
) -> Judgement:
    """`judge_answers` for one answer; `model` aligns too unless `aligner` is given."""
    item = ToJudge(question, answer, unscored, gold)
    return judge_answers(
        [item],
        model,
        aligner or model,
        question_in_prompt=question_in_prompt,
        repeats=repeats,
        alignment=alignment,
    )[0]


async def _judge_all(items: Sequence[ToJudge], asking: _Asking, repeats: int) -> list[Judgement]:
    rounds = await gather(
        asking.round(item, item.answer, repeat)
        for item in items
        if item.unscored is None and item.answer is not None
        for repeat in range(repeats)
    )
    remaining = iter(rounds)
    return [_judgement(item, remaining, repeats) for item in items]


def _judgement(item: ToJudge, rounds: Iterator[_Round], repeats: int) -> Judgement:
    gold = item.gold
    if item.unscored is not None or item.answer is None:
        return Judgement(
            probe_id=gold.probe_id,
            conversation_id=gold.conversation_id,
            ability=gold.ability,
            unscored=item.unscored or "there is no answer to judge",
            transient=item.transient,
        )
    own = [next(rounds) for _ in range(repeats)]
    first = own[0].record
    return Judgement(
        probe_id=gold.probe_id,
        conversation_id=gold.conversation_id,
        ability=gold.ability,
        verdicts=first.verdicts,
        alignments=first.alignments,
        unscored=first.unscored,
        transient=any(one.transient for one in own),
        repeats=tuple(one.record for one in own[1:]),
    )


@dataclass(frozen=True, slots=True)
class _Round:
    """One repeat of one answer, and whether something in it failed that may pass."""

    record: RepeatJudgement
    transient: bool


@dataclass(frozen=True, slots=True)
class _Asking:
    """Whom to ask, and how."""

    judge: Model
    aligner: Model
    question_in_prompt: bool
    alignment: AlignmentMethod

    async def round(self, item: ToJudge, answer: str, repeat: int) -> _Round:
        prompts = (
            Prompt(
                "judge_nugget",
                {"question": item.question if self.question_in_prompt else "", "nugget": nugget, "answer": answer},
                about=f"{item.gold.probe_id} nugget {number}",
                repeat=repeat,
            )
            for number, nugget in enumerate(item.gold.rubric, start=1)
        )
        parts: list[Awaitable[ParsedReply[Any]]] = [self._aligned(item.gold, answer, repeat)]
        aligned, *found = await gather([*parts, *(ask_parsed(self.judge, prompt, _score) for prompt in prompts)])
        record = RepeatJudgement(
            verdicts=tuple(
                NuggetVerdict(nugget=nugget, score=verdict.value, reason=verdict.reason, reply=verdict.reply)
                for nugget, verdict in zip(item.gold.rubric, found, strict=True)
            ),
            alignments=aligned.value or (),
            unscored=f"an event could not be aligned: {aligned.reason}" if aligned.value is None else None,
        )
        return _Round(record, aligned.transient or any(verdict.transient for verdict in found))

    async def _aligned(self, gold: Gold, answer: str, repeat: int) -> ParsedReply[tuple[Alignment, ...]]:
        if gold.ability != "event_ordering":
            return ParsedReply(())
        return await align(answer, gold.rubric, self.aligner, self.alignment, about=gold.probe_id, repeat=repeat)


def _score(reply: Completion) -> tuple[float | None, str]:
    return read_score(reply.text, cut=reply.finish_reason == "length")
