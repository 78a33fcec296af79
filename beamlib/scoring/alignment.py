"""Matching the events of an answer to the nuggets of a rubric by model (paper listing 21), in two ways.

`greedy` is the released procedure, call by call: every item in order is compared with every nugget not yet used, in
rubric order, up to the first yes. `batched` asks once for all of it and then walks through the items in the same way.

An answer is cut into events twice, by `parse_items` and at line breaks as released. Equal questions are asked once, so
the second way costs few calls of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from beamlib.llm.model import Completion, Model, ModelError, Prompt
from beamlib.llm.retrying import gather
from beamlib.scoring.event_ordering import is_order_nugget
from beamlib.scoring.items import parse_items, without_marks
from beamlib.scoring.records import Alignment
from beamlib.scoring.replies import Matches, ParsedReply, ask_parsed, read_matches

AlignmentMethod = Literal["greedy", "batched"]

_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class _Side:
    """One way of cutting the answer: its items, the text each is asked with (None: never asked), and its nuggets."""

    parser: Literal["items", "newline"]
    items: tuple[str, ...]
    texts: tuple[str | None, ...]
    candidates: tuple[int, ...]

    def alignment(self, matches: Sequence[int | None]) -> Alignment:
        return Alignment(parser=self.parser, items=self.items, matches=tuple(matches))


async def align(
    answer: str, rubric: Sequence[str], model: Model, method: AlignmentMethod, *, about: str, repeat: int = 0
) -> ParsedReply[tuple[Alignment, ...]]:
    """The alignments `items` and `newline` of an answer, or the reason why a call that they needed gave nothing.

    `about` and `repeat` go into the prompts.
    """
    sides = _sides(answer, rubric)
    if method == "batched":
        return await _batched(sides, rubric, model, about, repeat)
    detector = _Detector(rubric, model, about, repeat)
    try:
        return ParsedReply(tuple(await gather(detector.align(side) for side in sides)))
    except ModelError as error:
        return ParsedReply.failed(error)


def _sides(answer: str, rubric: Sequence[str]) -> tuple[_Side, _Side]:
    items, lines = tuple(parse_items(answer)), tuple(answer.split("\n"))
    # A nugget about the order names no event, so `items` leaves it out; `newline` aligns it, as released.
    events = tuple(index for index, nugget in enumerate(rubric) if not is_order_nugget(nugget))
    everything = tuple(range(len(rubric)))
    # A number, a bullet or bold type says nothing about the event: "2. **Fence**" gets the replies of the item
    # "Fence", because asking twice would double the cost and could only add noise between the two alignments.
    texts = tuple(bare if (bare := without_marks(line)) in items else line for line in lines)
    return (
        _Side("items", items, _asked(items), events),
        _Side("newline", lines, _asked(texts), everything),
    )


def _asked(texts: Sequence[str]) -> tuple[str | None, ...]:
    """The texts, without those that name nothing: the released code asks about blank lines and rules too."""
    return tuple(text if _WORD.search(text) else None for text in texts)


class _Detector:
    """The equivalence detector of one answer. What was asked once, or is being asked, is not asked again."""

    def __init__(self, rubric: Sequence[str], model: Model, about: str, repeat: int) -> None:
        self._rubric, self._model, self._about, self._repeat = rubric, model, about, repeat
        self._replies: dict[tuple[str, str], asyncio.Task[bool]] = {}

    async def align(self, side: _Side) -> Alignment:
        """Match each item, in order, with the first unused nugget that the model says yes to."""
        unused = list(side.candidates)
        matches: list[int | None] = []
        for text in side.texts:
            match = None if text is None else await self._first(text, unused)
            if match is not None:
                unused.remove(match)
            matches.append(match)
        return side.alignment(matches)

    async def _first(self, text: str, unused: Sequence[int]) -> int | None:
        for index in unused:
            key = (text, self._rubric[index])
            if key not in self._replies:
                self._replies[key] = asyncio.create_task(self._same(text, index))
            if await self._replies[key]:
                return index
        return None

    async def _same(self, text: str, index: int) -> bool:
        variables = {"event": text, "nugget": self._rubric[index]}
        about = f"{self._about} nugget {index + 1}"
        reply = await self._model.complete(Prompt("align_events", variables, about=about, repeat=self._repeat))
        return "yes" in reply.text.lower()


async def _batched(
    sides: Sequence[_Side], rubric: Sequence[str], model: Model, about: str, repeat: int
) -> ParsedReply[tuple[Alignment, ...]]:
    """One call for the distinct texts of both sides; each side then takes its matches from the reply, in order."""
    texts = list(dict.fromkeys(text for side in sides for text in side.texts if text is not None))
    found: Matches = {}
    if texts:
        variables = {"items": _numbered(texts), "nuggets": _numbered(rubric)}
        prompt = Prompt("align_batch", variables, about=about, repeat=repeat)
        reading = await ask_parsed(model, prompt, _reader(len(texts), len(rubric)))
        if reading.value is None:
            return ParsedReply(None, reading.reply, reading.reason, reading.transient)
        found = reading.value
    denoted = {text: [nugget - 1 for nugget in found.get(number, ())] for number, text in enumerate(texts, start=1)}
    return ParsedReply(tuple(side.alignment(_matches(side, denoted)) for side in sides))


def _matches(side: _Side, denoted: Mapping[str, Sequence[int]]) -> list[int | None]:
    """For each item, in order, the first unused nugget of those it denotes, as the greedy procedure takes them."""
    unused = list(side.candidates)
    matches: list[int | None] = []
    for text in side.texts:
        match = None if text is None else next((index for index in unused if index in denoted[text]), None)
        if match is not None:
            unused.remove(match)
        matches.append(match)
    return matches


def _reader(n_items: int, n_nuggets: int) -> Callable[[Completion], tuple[Matches | None, str]]:
    return lambda reply: read_matches(reply.text, n_items, n_nuggets, cut=reply.finish_reason == "length")


def _numbered(texts: Sequence[str]) -> str:
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, start=1))
