"""The exception whose message is for the user."""

from __future__ import annotations

import re

WORD, MESSAGE = 300, 3_000
"""Characters of a word and of a message; more are cut."""


class UserError(Exception):
    """An error in the user's input.

    The message is one sentence with the file, the field, the value and the fix. The command line prints it without a
    traceback and exits with code 2. Values come from anywhere, so `shown` makes the message printable.
    """

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


class SpendingLimit(UserError):
    """The next call does not fit the limit. The same command with a higher limit continues."""

    exit_code = 3


def shown(text: str) -> str:
    """Make a text printable on one line: cut what is too long and escape control characters."""
    return on_one_line(_cut(re.sub(rf"\S{{{WORD + 1},}}", lambda word: _cut(word[0], WORD), text), MESSAGE))


def on_one_line(text: str) -> str:
    """Escape control characters and line breaks, so that a text from outside adds no line to what is printed."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _cut(text: str, most: int) -> str:
    half = most // 2 - 20
    return text if len(text) <= most else f"{text[:half]}… ({len(text) - 2 * half:,} characters) …{text[-half:]}"
