"""What a message prints of values that come from anywhere: on one line, and no more than can be read."""

from __future__ import annotations

import pickle
import time

import pytest

from beamlib.errors import MESSAGE, UserError, shown


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("9" * 4_000, "9" * 130 + "… (3,740 characters) …" + "9" * 130),
        ("two\nlines", r"two\nlines"),
        ("\x1b[31mred\x1b[0m\a", r"\x1b[31mred\x1b[0m\x07"),
        ("right to left \u202e, line \u2028, half \ud800", r"right to left \u202e, line \u2028, half \ud800"),
        ("Größe 中文 naïve", "Größe 中文 naïve"),
    ],
)
def test_a_value_is_made_fit_to_be_shown(value: str, said: str) -> None:
    error = UserError(f"chat.json: field 'id': {value} is none; correct it.")
    assert str(error) == f"chat.json: field 'id': {said} is none; correct it."
    assert str(UserError(str(error))) == str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    started = time.process_time()
    text = shown("chat.json: " + "so many \x1b words " * 500_000 + "; correct it.")
    assert text.startswith("chat.json: so") and text.endswith("words ; correct it.")
    assert text.isprintable() and len(text) < 2 * MESSAGE and time.process_time() - started < 5
