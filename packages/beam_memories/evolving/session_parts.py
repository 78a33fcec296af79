"""A session as a model is shown it: its pairs, in parts that fit into a call, and the messages that a text rests on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from beam_memories.evolving.evolving_memory import SessionRead
from beamlib.data.conversations import Pair
from beamlib.memory.budget import passage_tokens, shorten
from beamlib.memory.protocol import passage
from beamlib.text import TokenCounter

_RANGE = re.compile(r"\[messages (\d{1,9})-(\d{1,9})\]")


@dataclass(frozen=True, slots=True)
class Part:
    """Some successive pairs of a session as one text."""

    text: str
    message_ids: tuple[int, ...]

    @property
    def about(self) -> str:
        """What a call on it concerns, in messages to the user."""
        return f"messages {self.message_ids[0]}-{self.message_ids[-1]}"


def pairs_of(session: SessionRead) -> list[Pair]:
    """The session's pairs; `ValueError` where its messages do not come in pairs, as those of a conversation do."""
    messages = session.messages
    return [Pair(user, assistant) for user, assistant in zip(messages[::2], messages[1::2], strict=True)]


def parts_of(session: SessionRead, tokens: int, counter: TokenCounter, *, user_only: bool = False) -> Iterator[Part]:
    """The session in parts of at most `tokens` tokens. A pair that is longer by itself loses its middle."""
    texts: list[str] = []
    ids: list[int] = []
    left = tokens
    for pair in pairs_of(session):
        text = shorten(_said(pair) if user_only else passage(pair).text, tokens - 2, counter)
        size = passage_tokens(text, counter)
        if texts and size > left:
            yield Part("\n\n".join(texts), tuple(ids))
            texts, ids, left = [], [], tokens
        texts.append(text)
        ids += pair.message_ids
        left -= size
    if texts:
        yield Part("\n\n".join(texts), tuple(ids))


def _said(pair: Pair) -> str:
    first, last = pair.message_ids
    return f"[messages {first}-{last}]\n{pair.user.content}"


def named_messages(text: str, known: Sequence[int]) -> tuple[int, ...]:
    """Those of the `known` message ids that the headers in `text` name, in order of mention."""
    ranges = [(int(one[1]), int(one[2])) for one in _RANGE.finditer(text)]
    return tuple(dict.fromkeys(i for first, last in ranges for i in known if first <= i <= last))
