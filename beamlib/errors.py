"""The one exception a user is meant to read."""

from __future__ import annotations

import re

WORD, MESSAGE = 300, 3_000
"""Characters that are shown of one word, and of a whole message."""


class UserError(Exception):
    """Something in the user's input is wrong, and the message says what to do.

    The message is one sentence that names the file, the field, the value and the fix. The command line prints it
    without a traceback and exits with code 2. Values come from anywhere, so it is made fit to be shown here, for all
    that raise it: by `shown`.
    """

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


def shown(text: str) -> str:
    """`text` on one line: of what is too long its beginning and end, and control characters spelled out."""
    short = _cut(re.sub(rf"\S{{{WORD + 1},}}", lambda word: _cut(word[0], WORD), text), MESSAGE)
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in short)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2 - 20
    return f"{text[:half]}… ({len(text) - 2 * half:,} characters) …{text[-half:]}"
