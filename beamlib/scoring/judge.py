"""Judge answers: a verdict per nugget (paper listing 20) and, for event ordering, two alignments (listing 21).

Everything is stored raw; a protocol turns it into a score later, without another call.

An alignment matches the events of an answer to the nuggets of a rubric. `greedy` is the released procedure, call by
call: every item in order is compared with every unused nugget, in rubric order, up to the first yes. `batched` asks
about all of them in one call and then assigns nuggets in the same order. An answer is cut into events twice, by
`parse_items` and at line breaks as released. Equal questions are sent once, so the second way costs few extra calls.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from beamlib.data.gold import Gold
from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt, run
from beamlib.llm.retrying import UNDECIDED, ReadReply, ask, gather, read_decision
from beamlib.scoring.event_ordering import is_order_nugget
from beamlib.scoring.items import parse_items, without_marks
from beamlib.scoring.records import Alignment, Judgement, NuggetVerdict, Parser, RepeatJudgement
from beamlib.scoring.replies import Matches, ParsedReply, ask_parsed, read_matches, read_score

AlignmentMethod = Literal["greedy", "batched"]

_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class ToJudge:
    """An answer to judge.

    Attributes:
        answer: None if there is none; `unscored` then has the reason.
        transient: Whether another try may give an answer.
    """

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
    """Judge every answer against its rubric, all concurrently.

    Verdict calls go out answer by answer: prompts about one answer begin alike and can share a server's prefix cache.
    An unreadable reply is retried once; a failed or unreadable call leaves its nugget without a score. If an alignment
    fails, `unscored` has the reason and the verdicts stay, so that protocols without alignment still score the
    question. An answer with `unscored` costs no call.

    Args:
        question_in_prompt: False leaves the question out of the prompt, as the released code does (S2).
        repeats: How often to judge each answer.

    Returns:
        The judgements in the order of `items`.
    """
    calls = _Calls(judge, aligner, question_in_prompt, alignment)

    async def judge_all() -> list[tuple[RepeatJudgement, bool]]:
        return await gather(
            calls.judge_once(item, item.answer, repeat)
            for item in items
            if item.unscored is None and item.answer is not None
            for repeat in range(repeats)
        )

    remaining = iter(run(judge_all()))
    judgements = []
    for item in items:
        known = {name: getattr(item.gold, name) for name in ("probe_id", "conversation_id", "ability")}
        if item.unscored is not None or item.answer is None:
            reason = item.unscored or "there is no answer to judge"
            judgements.append(Judgement(**known, unscored=reason, transient=item.transient))
            continue
        records, transient = zip(*(next(remaining) for _ in range(repeats)), strict=True)
        judgements.append(Judgement(**known, **dict(records[0]), transient=any(transient), repeats=tuple(records[1:])))
    return judgements


@dataclass(frozen=True, slots=True)
class _Calls:
    """The models that judge and align, and how."""

    judge: Model
    aligner: Model
    question_in_prompt: bool
    alignment: AlignmentMethod

    async def judge_once(self, item: ToJudge, answer: str, repeat: int) -> tuple[RepeatJudgement, bool]:
        """Judge one answer once; also tell whether something failed that may succeed later."""
        prompts = (
            Prompt(
                "judge_nugget",
                {"question": item.question if self.question_in_prompt else "", "nugget": nugget, "answer": answer},
                about=f"{item.gold.probe_id} nugget {number}",
                repeat=repeat,
            )
            for number, nugget in enumerate(item.gold.rubric, start=1)
        )
        parts: list[Awaitable[ParsedReply[Any]]] = [self._align(item.gold, answer, repeat)]
        aligned, *replies = await gather([*parts, *(ask_parsed(self.judge, prompt, _read_score) for prompt in prompts)])
        record = RepeatJudgement(
            verdicts=tuple(
                NuggetVerdict(nugget=nugget, score=parsed.value, reason=parsed.reason, reply=parsed.reply)
                for nugget, parsed in zip(item.gold.rubric, replies, strict=True)
            ),
            alignments=aligned.value or (),
            unscored=f"an event could not be aligned: {aligned.reason}" if aligned.value is None else None,
        )
        return record, aligned.transient or any(parsed.transient for parsed in replies)

    async def _align(self, gold: Gold, answer: str, repeat: int) -> ParsedReply[tuple[Alignment, ...]]:
        if gold.ability != "event_ordering":
            return ParsedReply(())
        cuts = _cut(answer, gold.rubric)
        detector = _Detector(self.aligner, gold, repeat)
        if self.alignment == "batched":
            detector = _BatchDetector(self.aligner, gold, repeat)
            texts = list(dict.fromkeys(text for cut in cuts for text in cut.texts if text is not None))
            parsed = await detector.load(texts)
            if parsed.value is None:
                return ParsedReply(None, parsed.reply, parsed.reason, parsed.transient)
        try:
            return ParsedReply(tuple(await gather(detector.align(cut) for cut in cuts)))
        except ModelError as error:
            return ParsedReply.failed(error)


def _read_score(reply: Completion) -> tuple[float | None, str]:
    return read_score(reply.text, cut=reply.finish_reason == "length")


@dataclass(frozen=True, slots=True)
class _CutAnswer:
    """An answer cut into items.

    Attributes:
        texts: What is sent of each item; None if it names nothing.
        candidates: The nuggets that items may match.
    """

    parser: Parser
    items: tuple[str, ...]
    texts: tuple[str | None, ...]
    candidates: tuple[int, ...]


def _cut(answer: str, rubric: Sequence[str]) -> tuple[_CutAnswer, _CutAnswer]:
    items, lines = tuple(parse_items(answer)), tuple(answer.split("\n"))
    # A nugget about the order names no event, so `items` leaves it out; `newline` aligns it, as released.
    events = tuple(index for index, nugget in enumerate(rubric) if not is_order_nugget(nugget))
    # A number, a bullet or bold type says nothing about the event: "2. **Fence**" gets the replies of the item
    # "Fence", because asking twice would double the cost and could only add noise between the two alignments.
    bare_lines = [bare if (bare := without_marks(line)) in items else line for line in lines]
    # The released code sends blank lines and rules too.
    sent = [tuple(text if _WORD.search(text) else None for text in texts) for texts in (items, bare_lines)]
    whole_rubric = tuple(range(len(rubric)))
    return _CutAnswer("items", items, sent[0], events), _CutAnswer("newline", lines, sent[1], whole_rubric)


class _Detector:
    """Tell whether events and nuggets are the same, by one call per pair of texts."""

    def __init__(self, model: Model, gold: Gold, repeat: int) -> None:
        self._model, self._gold, self._repeat = model, gold, repeat
        self._replies: dict[tuple[str, str], asyncio.Task[bool]] = {}

    async def align(self, cut: _CutAnswer) -> Alignment:
        """Match each item, in order, with the first unused nugget that is the same event."""
        unused = list(cut.candidates)
        matches: list[int | None] = [None] * len(cut.texts)
        for item, text in enumerate(cut.texts):
            if text is None:
                continue
            for index in unused:
                if await self._is_same(text, index):
                    matches[item] = index
                    unused.remove(index)
                    break
        return Alignment(parser=cut.parser, items=cut.items, matches=tuple(matches))

    async def _is_same(self, text: str, index: int) -> bool:
        key = (text, self._gold.rubric[index])
        if key not in self._replies:  # a task, which both alignments may await
            self._replies[key] = asyncio.create_task(self._call(text, index))
        return await self._replies[key]

    async def _call(self, text: str, index: int) -> bool:
        variables = {"event": text, "nugget": self._gold.rubric[index]}
        about = f"{self._gold.probe_id} nugget {index + 1}"
        prompt = Prompt("align_events", variables, about=about, repeat=self._repeat)

        def read(reply: Completion, _: int) -> ReadReply[bool | None]:
            decision = read_decision(reply.text, cut=reply.finish_reason == "length")
            return decision, UNDECIDED if decision is None else None

        decision = await ask(self._model, prompt, read)
        if decision is None:
            raise ModelError("the aligner's reply is not a clear yes or no", Outcome.UNREADABLE)
        return decision


class _BatchDetector(_Detector):
    """Tell the same from the reply to one call about all texts."""

    _nuggets_of: Mapping[str, Sequence[int]]

    async def _is_same(self, text: str, index: int) -> bool:
        return index + 1 in self._nuggets_of[text]

    async def load(self, texts: Sequence[str]) -> ParsedReply[Matches]:
        """Send distinct texts and all nuggets in one call."""
        rubric = self._gold.rubric
        if not texts:
            return ParsedReply({})

        def read(reply: Completion) -> tuple[Matches | None, str]:
            return read_matches(reply.text, len(texts), len(rubric), cut=reply.finish_reason == "length")

        variables = {"items": _numbered(texts), "nuggets": _numbered(rubric)}
        prompt = Prompt("align_batch", variables, about=self._gold.probe_id, repeat=self._repeat)
        parsed = await ask_parsed(self._model, prompt, read)
        matches = parsed.value or {}
        self._nuggets_of = {text: matches.get(number, ()) for number, text in enumerate(texts, start=1)}
        return parsed


def _numbered(texts: Sequence[str]) -> str:
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, start=1))
