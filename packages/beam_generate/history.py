"""What the two speakers of a dialogue remember: the newest messages word for word, the older ones as a summary.

Algorithm 3 speaks of a window of M recent turns and a summary of those before it. The released code lets the window
grow to a budget, then keeps M messages (ten) and folds the rest into the summary; the two speakers have a budget each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from beam_generate.messages import clean
from beam_generate.shapes import DialogueMessage, Repairs
from beamlib.llm.model import Model, ModelError, Prompt
from beamlib.text import count_tokens, token_spans

LEAST_SHOWN = 100
"""Tokens of a long message that have to be shown at least; it bounds how many recent messages can be asked for."""


@dataclass(frozen=True, slots=True)
class Side:
    """One speaker's budget: tokens of the whole prompt, and of its running summary (released settings)."""

    name: str
    budget: int
    summary: int


ASSISTANT = Side("assistant", 28_000, 1_000)
USER = Side("user", 19_000, 2_000)


class Lazy(Mapping[str, str]):
    """Variables of a prompt; those given as functions are made when they are first read, and only then."""

    def __init__(self, values: dict[str, str | Callable[[], str]]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> str:
        value = self._values[name]
        if not isinstance(value, str):
            value = self._values[name] = value()
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, slots=True)
class SummaryState:
    """Where a window begins (a message's number in the talk) and the summary of everything before it."""

    start: int
    summary: str


class Talk:
    """The messages said so far, each with its number of tokens, counted once."""

    def __init__(self) -> None:
        self.said: list[DialogueMessage] = []
        self.tokens: list[int] = []

    def add(self, messages: Sequence[DialogueMessage]) -> None:
        """Append messages."""
        self.said += messages
        self.tokens += [count_tokens(message.text) for message in messages]


class HistoryWindow:
    """What one side is shown of a talk: `recent` messages at least. `fixed` are the tokens of what its prompts keep."""

    def __init__(self, talk: Talk, side: Side, recent: int) -> None:
        self.talk, self.side, self.recent = talk, side, recent
        self.fold = SummaryState(0, "")
        self.fixed = 0
        # The recent messages must always fit, or a runaway answer would fail every later call: a longer one is cut.
        self.longest = side.budget // recent
        self._counted, self._total = 0, 0

    def resume(self, fold: SummaryState) -> None:
        """Go on from a stored state."""
        self.fold = fold
        self._counted, self._total = fold.start, 0

    @property
    def full(self) -> bool:
        """Whether older messages have to be folded before the next call."""
        for tokens in self.talk.tokens[self._counted :]:
            self._total += min(tokens, self.longest)
        self._counted = len(self.talk.tokens)
        room = max(self.side.budget - self.fixed, self.side.budget // 2)
        return self._total > room and self._counted - self.fold.start > self.recent

    async def make_room(self, model: Model, repairs: Repairs, where: str) -> None:
        """Fold all but the newest messages into the summary where the window is full.

        A summary that cannot be had leaves the old one standing, noted; a transient `ModelError` is raised.
        """
        if not self.full:
            return
        start = len(self.talk.said) - self.recent
        older = (self.fold.start, start)
        variables = Lazy({"summary": self.fold.summary, "exchanges": lambda: self._text(*older)})
        summary = self.fold.summary
        try:
            about = f"{where}, {self.side.name}'s summary"
            summary = clean((await model.complete(Prompt("dialogue_summary", variables, about))).text)
        except ModelError as error:
            if error.transient:
                raise
            repairs.note("dialogue", where, f"no summary ({error.reason})", "the one before it stands")
        if count_tokens(summary) > self.side.summary:
            summary = summary[: token_spans(summary)[self.side.summary - 1][1]]
            repairs.note("dialogue", where, "a summary over its limit", f"cut to {self.side.summary} tokens")
        self.resume(SummaryState(start, summary))

    def text(self, leave_out: int = 0) -> Callable[[], str]:
        """The window as text, without the newest `leave_out` messages; as it is now, though it may be read later."""
        first, end = self.fold.start, len(self.talk.said) - leave_out
        return lambda: self._text(first, end)

    def _text(self, first: int, end: int) -> str:
        return "\n\n".join(self._shown(number) for number in range(first, end))

    def _shown(self, number: int) -> str:
        message = self.talk.said[number]
        text = message.text
        if self.talk.tokens[number] > self.longest:
            text = f"{text[: token_spans(text)[self.longest - 1][1]]} [...]"
        return f"{message.role.upper()}: {text}"
