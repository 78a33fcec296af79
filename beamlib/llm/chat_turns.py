"""A dialogue as chat turns: how it becomes the messages of a request, and how it reads as one text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from beamlib.data.conversations import Role
from beamlib.text import TokenCounter

MESSAGE_TOKENS = 4
"""What the chat form adds to the text of a message, by OpenAI's count."""

OPENING = "(The assistant speaks first.)"
"""The user message before a dialogue that begins with the assistant."""

_HEADER = re.compile(r"\[messages \d+-\d+\]\n")


class ChatTurn(NamedTuple):
    """What one side of a dialogue says at a time."""

    role: Role
    text: str


def insert_turns(messages: Sequence[dict[str, str]], turns: Iterable[ChatTurn]) -> list[dict[str, str]]:
    """Put a dialogue before the last of `messages`, which becomes its last user turn.

    Many chat templates accept only roles that alternate, user first. So one rule holds for every dialogue:

    1. A turn without text is left out.
    2. Neighbouring turns of one role become one message, with a blank line between them. The last message counts as a
       turn: it joins a dialogue that ends with the user.
    3. Where the assistant speaks first, the user message `OPENING` goes before it.

    Args:
        messages: Rendered chat messages: a user message, or a system and a user message.
        turns: The dialogue in its order.

    Returns:
        The system message if there is one, then user and assistant messages in turn, the last a user message.
    """
    *before, last = messages
    dialogue: list[dict[str, str]] = []
    for role, text in (*turns, (last["role"], last["content"])):
        if not text.strip():
            continue
        if not dialogue and role == "assistant":
            dialogue.append({"role": "user", "content": OPENING})
        if dialogue and dialogue[-1]["role"] == role:
            dialogue[-1]["content"] += f"\n\n{text}"
        else:
            dialogue.append({"role": role, "content": text})
    return [*before, *dialogue]


@lru_cache(maxsize=8)  # all questions about a conversation share its dialogue
def dialogue_text(turns: tuple[ChatTurn, ...]) -> str:
    """Write a dialogue as one text, speakers named, in the form of `beamlib.memory.protocol.passage`."""
    pieces = []
    for role, text in turns:
        header = _HEADER.match(text)
        start = header.end() if header else 0
        pieces.append(f"\nASSISTANT: {text}" if role == "assistant" else f"\n\n{text[:start]}USER: {text[start:]}")
    return "".join(pieces).lstrip("\n")


@lru_cache(maxsize=8)
def dialogue_tokens(turns: tuple[ChatTurn, ...], counter: TokenCounter) -> int:
    """Count the tokens of a dialogue's texts, without what the chat form adds."""
    return sum(counter.count(turn.text) for turn in turns)
