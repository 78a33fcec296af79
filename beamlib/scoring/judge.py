"""Judging one answer: a verdict per nugget (paper listing 20) and, for event ordering, two alignments (listing 21).

Everything is stored raw; what it is worth is decided later, by a protocol, without another call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from beamlib.benchmark.gold import Gold
from beamlib.models.base import Completion, Model, ModelError, Prompt, complete_all
from beamlib.scoring.event_ordering import is_order_nugget
from beamlib.scoring.items import parse_items
from beamlib.scoring.records import Alignment, Judgement, NuggetVerdict
from beamlib.scoring.replies import read_score


def judge_answer(question: str, answer: str | None, unscored: str | None, gold: Gold, model: Model) -> Judgement:
    """Judge `answer` to `question` against `gold.rubric` by `model`.

    With `unscored` (or no answer) nothing is asked and the judgement carries the reason. A failed or unreadable call
    leaves its nugget without a score. A failed alignment call puts its reason into `unscored` beside the verdicts,
    which stay: protocols that need no alignment still score the question.
    """
    record = {"probe_id": gold.probe_id, "conversation_id": gold.conversation_id, "ability": gold.ability}
    if unscored is not None or answer is None:
        return Judgement.model_validate({**record, "unscored": unscored or "there is no answer to judge"})
    verdicts = _verdicts(question, answer, gold.rubric, model)
    alignments: tuple[Alignment, ...] = ()
    failure: str | None = None
    if gold.ability == "event_ordering":
        try:
            alignments = _alignments(answer, gold.rubric, model)
        except ModelError as error:
            failure = f"an event could not be aligned: {error}"
    return Judgement.model_validate({**record, "verdicts": verdicts, "alignments": alignments, "unscored": failure})


@dataclass(frozen=True, slots=True)
class _Failed(Completion):
    """Stands in for a reply that never came, so that one failure does not take the others with it."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Forgiving:
    """A model whose failures are completions of their own kind."""

    model: Model

    @property
    def name(self) -> str:
        return self.model.name

    async def complete(self, prompt: Prompt) -> Completion:
        try:
            return await self.model.complete(prompt)
        except ModelError as error:
            return _Failed(text="", finish_reason="error", reason=str(error) or "the call failed")


def _verdicts(question: str, answer: str, rubric: Sequence[str], model: Model) -> tuple[NuggetVerdict, ...]:
    prompts = [Prompt("judge_nugget", {"question": question, "nugget": n, "answer": answer}) for n in rubric]
    replies = complete_all(_Forgiving(model), prompts)
    return tuple(_verdict(nugget, reply) for nugget, reply in zip(rubric, replies, strict=True))


def _verdict(nugget: str, reply: Completion) -> NuggetVerdict:
    if isinstance(reply, _Failed):
        return NuggetVerdict(nugget=nugget, score=None, reason=reply.reason)
    score, reason = read_score(reply.text)
    return NuggetVerdict(nugget=nugget, score=score, reason=reason, reply=reply.text)


def _alignments(answer: str, rubric: Sequence[str], model: Model) -> tuple[Alignment, ...]:
    detector = _Detector(model)
    # A nugget about the order names no event, so `items` leaves it out; `newline` aligns it, as released.
    events = [index for index, nugget in enumerate(rubric) if not is_order_nugget(nugget)]
    items, lines = parse_items(answer), answer.split("\n")
    return (
        Alignment(parser="items", items=tuple(items), matches=detector.align(items, rubric, events)),
        Alignment(parser="newline", items=tuple(lines), matches=detector.align(lines, rubric, range(len(rubric)))),
    )


class _Detector:
    """The equivalence detector, which remembers what it was asked: repeated lines cost nothing."""

    def __init__(self, model: Model) -> None:
        self._model = _Forgiving(model)
        self._replies: dict[tuple[str, str], Completion] = {}

    def align(self, items: Sequence[str], rubric: Sequence[str], candidates: Sequence[int]) -> tuple[int | None, ...]:
        """Match each item, in order, with the first unused candidate nugget that the model says yes to.

        All unused nuggets of one item are asked together, which gives what asking one after the other gives. Raises
        `ModelError` if a call failed that the one-after-the-other procedure would have made.
        """
        unused = list(candidates)
        matches: list[int | None] = []
        for item in items:
            self._ask(item, [rubric[index] for index in unused])
            match = next((index for index in unused if self._same(item, rubric[index])), None)
            if match is not None:
                unused.remove(match)
            matches.append(match)
        return tuple(matches)

    def _ask(self, item: str, nuggets: Sequence[str]) -> None:
        new = [nugget for nugget in dict.fromkeys(nuggets) if (item, nugget) not in self._replies]
        prompts = [Prompt("align_events", {"event": item, "nugget": nugget}) for nugget in new]
        for nugget, reply in zip(new, complete_all(self._model, prompts), strict=True):
            self._replies[item, nugget] = reply

    def _same(self, item: str, nugget: str) -> bool:
        reply = self._replies[item, nugget]
        if isinstance(reply, _Failed):
            raise ModelError(reply.reason)
        return "yes" in reply.text.lower()
