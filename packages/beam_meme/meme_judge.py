"""Verdicts on the answers of an episode (section 2.7 of the fact sheet): by containment, or by a judge, asked per task.

Exact recall needs no model: the string is in the answer or it is not. Everything else is asked of a judge, which sees
the question, the answer and the values, never the reference sentence. A reply that cannot be read is asked for once
more; then its question is unscored, never a zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool

from beam_meme.episode_gold import EpisodeGold, MemeGold
from beamlib.llm.json_replies import read_json
from beamlib.llm.model import Completion, Model, ModelRoles, Prompt, run
from beamlib.llm.retrying import gather
from beamlib.run import Run
from beamlib.scoring.replies import ParsedReply, ask_parsed

BY_CONTAINMENT = "containment"
"""Stands for the judge of exact recall."""

_MOST_KEPT = 1_000  # characters of a reason, which is to be one sentence


@dataclass(frozen=True, slots=True)
class ToJudgeMeme:
    """An answer to a question, or in `unscored` why there is none, which `transient` says may pass.

    `old_value` is what held before the change: cascade needs it beside the new one. `change` says what changed upstream
    of an absence, as `question_to_judge` writes it.
    """

    question_id: str
    question: str
    answer: str | None
    unscored: str | None
    gold: MemeGold
    old_value: str = ""
    change: str = ""
    transient: bool = False


class MemeVerdict(BaseModel):
    """What an answer is worth. `passed` is None where nothing could be decided, and `unscored` says why.

    `partial` is the share of values given (aggregation) or given in order (tracking), None for other tasks. `present`
    says of each value of an aggregation whether it is given. `judge` names who decided; it is empty where there was no
    answer to decide about.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    question_id: str
    passed: bool | None = None
    partial: float | None = Field(default=None, ge=0, le=1)
    present: tuple[bool, ...] | None = None
    reason: str = ""
    unscored: str | None = None
    judge: str = ""
    transient: bool = False

    @property
    def conversation_id(self) -> str:
        """The episode, which the id of a question begins with."""
        return self.question_id.rsplit("-", 2)[0]

    @property
    def unanswered(self) -> bool:
        """Whether there was no answer, so that nobody was asked."""
        return not self.judge


def question_to_judge(
    question_id: str, answer: str | None, unscored: str | None, gold: EpisodeGold, *, transient: bool = False
) -> ToJudgeMeme:
    """An answer with all that judging it takes, by the gold of its episode. An unknown id is a `KeyError`."""
    own = gold.questions[question_id]
    return ToJudgeMeme(
        question_id,
        own.question,
        answer,
        unscored,
        own,
        old_value=_old_value(own, gold),
        change=_change(own, gold) if own.task == "absence" else "",
        transient=transient,
    )


def judge_memories(
    asked: Mapping[str, Sequence[ToJudgeMeme]], parameters: Run, roster: ModelRoles
) -> dict[str, list[MemeVerdict]]:
    """Judge the answers of some memories, by the memory's name."""
    verdicts = iter(judge_round([one for own in asked.values() for one in own], roster.judge))
    return {name: [next(verdicts) for _ in own] for name, own in asked.items()}


def judge_round(asked: Sequence[ToJudgeMeme], judge: Model) -> list[MemeVerdict]:
    """The verdict on every answer, all of them asked for concurrently; in the order of `asked`.

    Any exception but a failed call is raised once all calls have ended.
    """
    return run(_judge_all(asked, judge))


async def _judge_all(asked: Sequence[ToJudgeMeme], judge: Model) -> list[MemeVerdict]:
    return await gather(_verdict(one, judge) for one in asked)


def contains(value: str, text: str) -> bool:
    """Whether `value` stands in `text`, capitals and the amount of white space aside."""
    return bool(value.strip()) and plain(value) in plain(text)


def share_in_order(values: Sequence[str], answer: str) -> float:
    """The share of `values` whose first occurrence lies after that of the last one counted, in the order given."""
    text, last, counted = answer.lower(), -1, 0
    for value in values:
        place = text.find(value.lower())
        if place > last:
            last, counted = place, counted + 1
    return counted / len(values)


def plain(text: str) -> str:
    """`text` in small letters, with one space wherever it has white space."""
    return " ".join(text.lower().split())


def _old_value(own: MemeGold, gold: EpisodeGold) -> str:
    if own.task in ("absence", "deletion"):
        return own.values[0] if own.values else ""
    asked_before = (
        one.values[0]
        for one in gold.questions.values()
        if one.phase == "before" and one.entity == own.entity and one.values
    )
    return gold.before.get(own.entity) or next(asked_before, "")


def _change(own: MemeGold, gold: EpisodeGold) -> str:
    """What changed upstream, the root last: "work location: A -> B; employer: C -> D"."""
    changes = {own.source: (gold.before.get(own.source), gold.after.get(own.source)), gold.root: gold.change}
    return "; ".join(
        f"{entity.replace('_', ' ')}: {before} -> {after}"
        for entity, (before, after) in changes.items()
        if entity and before and after and before != after
    )


async def _verdict(one: ToJudgeMeme, judge: Model) -> MemeVerdict:
    if one.unscored is not None or one.answer is None:
        why = one.unscored or "there is no answer to judge"
        return MemeVerdict(question_id=one.question_id, unscored=why, transient=one.transient)
    if not one.gold.values or not all(value.strip() for value in one.gold.values):
        return MemeVerdict(question_id=one.question_id, unscored="the gold holds no value", judge=BY_CONTAINMENT)
    if one.gold.task == "exact_recall":
        return _exact(one, one.answer)
    prompt = _prompt(one, one.answer)
    found = await ask_parsed(judge, prompt, _reader(one.gold))
    return _judged(one, one.answer, found, judge.name)


def _exact(one: ToJudgeMeme, answer: str) -> MemeVerdict:
    held = all(contains(value, answer) for value in one.gold.values)
    reason = "the string stands in the answer" if held else "the string does not stand in the answer"
    return MemeVerdict(question_id=one.question_id, passed=held, reason=reason, judge=BY_CONTAINMENT)


def _prompt(one: ToJudgeMeme, answer: str) -> Prompt:
    name, needed = _needed(one)
    return Prompt(
        f"meme_judge_{name}",
        {"question": one.question, "answer": answer, **needed},
        about=f"verdict on {one.question_id}",
    )


def _needed(one: ToJudgeMeme) -> tuple[str, Mapping[str, str]]:
    """Which prompt judges the answer, and what it has beside question and answer."""
    task, values = one.gold.task, one.gold.values
    if task in ("aggregation", "tracking"):
        return task, {"values": "\n".join(f"{number}. {value}" for number, value in enumerate(values, start=1))}
    if one.gold.phase == "before":
        return "before", {"value": values[0]}
    if task == "cascade":
        return task, {"new_value": values[0], "old_value": one.old_value}
    if task == "absence":
        return task, {"old_value": values[0], "change": one.change}
    return task, {"old_value": values[0]}


@dataclass(frozen=True, slots=True)
class _Decided:
    """What a reply decides: one verdict, or one for each value of an aggregation."""

    verdicts: tuple[bool, ...]
    reason: str


def _spelled(value: Any) -> Any:
    """A text that is nothing but true or false, as what it says."""
    return {"true": True, "false": False}.get(value.strip().casefold(), value) if isinstance(value, str) else value


_Verdict = Annotated[StrictBool, BeforeValidator(_spelled)]


class _PassReply(BaseModel):
    """The reply to the judge's prompts of all tasks but aggregation."""

    verdict: _Verdict = Field(alias="pass")
    reason: Any = ""


class _PresentReply(BaseModel):
    """The reply to the judge's prompt of aggregation."""

    verdict: list[_Verdict] = Field(alias="present")
    reason: Any = ""


def _reader(gold: MemeGold) -> Callable[[Completion], tuple[_Decided | None, str]]:
    """Reads a reply: what it decides and an empty reason, or None and the reason why it decides nothing."""
    schema: type[_PassReply | _PresentReply] = _PresentReply if gold.task == "aggregation" else _PassReply
    prompt = f"meme_judge_{gold.task}"  # before the change it shows the same form

    def read(completion: Completion) -> tuple[_Decided | None, str]:
        cut, who = completion.finish_reason == "length", "the judge's reply"
        reply, why = read_json(completion.text, schema, strict=True, who=who, what="verdict", prompt=prompt, cut=cut)
        if reply is None:
            return None, why
        verdicts = tuple(reply.verdict) if isinstance(reply, _PresentReply) else (reply.verdict,)
        if isinstance(reply, _PresentReply) and len(verdicts) != len(gold.values):
            return None, f"{who} decides on {len(verdicts)} values where there are {len(gold.values)}"
        return _Decided(
            verdicts, " ".join(reply.reason.split())[:_MOST_KEPT] if isinstance(reply.reason, str) else ""
        ), ""

    return read


def _judged(one: ToJudgeMeme, answer: str, found: ParsedReply[_Decided], judge: str) -> MemeVerdict:
    own, task = found.value, one.gold.task
    if own is None:
        return MemeVerdict(question_id=one.question_id, unscored=found.reason, judge=judge, transient=found.transient)
    partial = sum(own.verdicts) / len(own.verdicts) if task == "aggregation" else None
    return MemeVerdict(
        question_id=one.question_id,
        passed=all(own.verdicts),
        partial=share_in_order(one.gold.values, answer) if task == "tracking" else partial,
        present=own.verdicts if task == "aggregation" else None,
        reason=own.reason,
        judge=judge,
    )
