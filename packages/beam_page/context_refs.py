"""Store contexts as references: each message once, and each line that is in no message."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_SHORTEST = 24
"""Characters from which on a message is looked for in a context: "Thanks!" may stand there by chance."""


def _start(placed: tuple[int, int]) -> tuple[bool, int]:
    """Return a key that is equal for consecutive references: rising ones of messages, falling ones of lines."""
    place, number = placed
    return number >= 0, number - place if number >= 0 else number + place


def _pair(numbers: list[int]) -> int | list[int]:
    return numbers[0] if len(numbers) == 1 else [numbers[0], len(numbers)]


class ContextTable:
    """The contexts of a conversation, without duplicates.

    A context is a list of integers: `m` >= 0 is the text of message `m`, and `-1 - i` is `lines[i]`, for what is not
    verbatim in a message (headings, notes). Joined they are the context.
    """

    def __init__(self, messages: Mapping[int, str]) -> None:
        self._messages = messages
        self._places: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self.contexts: list[list[int]] = []

    def lines(self, kept: Collection[int]) -> list[str | list[int]]:
        """Return the lines that contexts refer to; a line of a message of `kept` becomes a reference.

        [m, k] is line k of message m with a line break, [m, k, 0] without one. Notes and shortened messages contain
        many such lines.
        """
        places: dict[str, list[int]] = {}
        for number in kept:
            for place, line in enumerate(self._messages[number].split("\n")):
                if len(line) >= _SHORTEST:
                    places.setdefault(f"{line}\n", [number, place])
                    places.setdefault(line, [number, place, 0])
        return [places.get(line, line) for line in self._lines]

    def coded(self) -> list[list[int | list[int]]]:
        """Return the contexts with consecutive references as a pair: the first and their number."""
        return [
            [_pair([n for _, n in run]) for _, run in groupby(enumerate(context), _start)] for context in self.contexts
        ]

    def add(self, context: str, shown: Iterable[int]) -> int:
        """Return the index of `context`, which may contain the messages `shown`."""
        if context not in self._places:
            self._places[context] = len(self.contexts)
            self.contexts.append(list(self._references(context, shown)))
        return self._places[context]

    def _references(self, context: str, shown: Iterable[int]) -> Iterable[int]:
        places = []
        for number in set(shown):
            text = self._messages.get(number, "")
            start = context.find(text) if len(text) >= _SHORTEST else -1
            while start >= 0:
                places.append((start, -len(text), number))
                start = context.find(text, start + len(text))
        at = 0
        for start, length, number in sorted(places):  # of messages that begin alike, the longest
            if start >= at:
                yield from self._line_references(context[at:start])
                yield number
                at = start - length
        yield from self._line_references(context[at:])

    def _line_references(self, text: str) -> Iterable[int]:
        for line in _LINE.findall(text):
            yield -1 - self._lines.setdefault(line, len(self._lines))
