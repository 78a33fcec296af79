"""The scratchpad (paper section 3.2): notes on every pair, merged in order, compressed when long, filtered by question.

Every note is a line `- [messages a-b] text`. The header survives merging and compression as text, and from it come
the message ids that a recollection reports. Ids that the conversation does not have are ignored: a compressing model
may garble a header.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from beamlib.benchmark.model import Conversation
from beamlib.memory.base import Passage
from beamlib.memory.budget import newest_that_fit, shorten
from beamlib.memory.chunking import chunk_bounds, sentences_of
from beamlib.memory.extraction import header, lines_of
from beamlib.models.base import Model, ModelError, Prompt, complete_all
from beamlib.retrieval.encoder import Encoder
from beamlib.text import count_tokens

COMPRESSION_ROUNDS = 3
"""How often a compressor that stays above its target is asked again before the oldest lines are cut."""

_HEADER = re.compile(r"\[messages (\d+)-(\d+)\]")
_LEADING_HEADERS = re.compile(r"(?:\[messages \d+-\d+\][\s,;:]*)*")
_YES = re.compile(r"\W*yes\b", re.IGNORECASE)
_HEADING = "SCRATCHPAD"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Notes that belong together. `message_ids` are those its headers name, in order; `tokens` the size of `text`."""

    text: str
    message_ids: tuple[int, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Scratchpad:
    """The finished pad: `text`, one note per line, and its semantic `chunks`.

    `compressions` counts the compressor's calls, `lines_cut` the oldest lines that were cut because it stayed above
    its target.
    """

    text: str
    chunks: tuple[Chunk, ...] = ()
    compressions: int = 0
    lines_cut: int = 0


@dataclass
class _Pad:
    """A pad under construction: lines with their sizes, so that nothing is counted twice."""

    model: Model
    threshold: int
    target: int
    lines: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    tokens: int = 0
    compressions: int = 0
    lines_cut: int = 0

    def add(self, lines: Sequence[str]) -> None:
        sizes = [count_tokens(line) for line in lines]
        self.lines += lines
        self.sizes += sizes
        self.tokens += sum(sizes)
        if self.tokens > self.threshold:
            self._compress()

    def _compress(self) -> None:
        for _ in range(COMPRESSION_ROUNDS):
            before = self.tokens
            self._replace_by_reply()
            if self.tokens <= self.target:
                return
            if self.tokens >= before:
                break
        self._cut_oldest()

    def _replace_by_reply(self) -> None:
        variables = {"notes": "\n".join(self.lines), "target_tokens": str(self.target)}
        reply = complete_all(self.model, [Prompt("scratchpad_compress", variables)])[0].text
        lines = [f"- {line}" for line in lines_of(reply)]
        if not lines:
            raise ModelError(f"scratchpad_compress: an empty reply to notes of {self.tokens} tokens")
        self.lines = lines
        self.sizes = [count_tokens(line) for line in lines]
        self.tokens = sum(self.sizes)
        self.compressions += 1

    def _cut_oldest(self) -> None:
        start = newest_that_fit(self.sizes, self.target)
        if start == len(self.lines):  # one endless line
            start -= 1
            self.lines[start] = shorten(self.lines[start], self.target).replace("\n", " ")
            self.sizes[start] = count_tokens(self.lines[start])
        self.lines_cut += start
        self.lines, self.sizes = self.lines[start:], self.sizes[start:]
        self.tokens = sum(self.sizes)


def build_scratchpad(
    model: Model,
    conversation: Conversation,
    notes: Sequence[str],
    encoder: Encoder,
    *,
    threshold: int,
    target: int,
    percentile: float,
    buffer: int,
) -> Scratchpad:
    """Merge the notes of each pair in order, let `model` compress them whenever they exceed `threshold`, then chunk.

    `notes` has one reply to `scratchpad_notes` per pair; `threshold` and `target` are tokens. Raises `ModelError` if
    the compressor fails or returns nothing.
    """
    pad = _Pad(model, threshold, target)
    for pair, reply in zip(conversation.pairs, notes, strict=True):
        # Whatever header the model gave a line, its pair's own is known.
        pad.add([f"- {header(pair)} {note}" for line in lines_of(reply) if (note := _without_headers(line))])
    ids = sorted(message.id for message in conversation.messages)
    chunks = tuple(_chunks(pad.lines, encoder, percentile, buffer, ids))
    return Scratchpad("\n".join(pad.lines), chunks, pad.compressions, pad.lines_cut)


def relevant_chunks(model: Model, question: str, chunks: Sequence[Chunk]) -> list[Chunk]:
    """The chunks that the model wants kept for `question`, in order; all are asked about at once.

    Any reply that begins with the word yes keeps a chunk. The released code wants the bare word, so that "Yes." loses
    it (M14 of the reference).
    """
    prompts = [Prompt("scratchpad_filter", {"question": question, "chunk": chunk.text}) for chunk in chunks]
    replies = complete_all(model, prompts)
    return [chunk for chunk, reply in zip(chunks, replies, strict=True) if _YES.match(reply.text)]


def scratchpad_passages(chunks: Sequence[Chunk], tokens: int) -> list[Passage]:
    """`chunks` as one passage each of the part "scratchpad", under one heading, in at most `tokens` tokens.

    Where they do not fit, the newest are kept and the heading says how many were left out. The released code sets no
    limit and may overflow the reader (M6 of the reference).
    """
    if not chunks:
        return []
    room = tokens - count_tokens(_heading(len(chunks)))
    start = newest_that_fit([chunk.tokens for chunk in chunks], room)
    shown = list(chunks[start:])
    if not shown:
        start, newest = len(chunks) - 1, chunks[-1]
        shown = [Chunk(shorten(newest.text, room), newest.message_ids, room)]
    texts = [chunk.text for chunk in shown]
    texts[0] = f"{_heading(start)}\n{texts[0]}"
    return [Passage(text, chunk.message_ids, "scratchpad") for text, chunk in zip(texts, shown, strict=True)]


def _heading(left_out: int) -> str:
    return f"{_HEADING} [… {left_out} older chunks left out for lack of room …]" if left_out else _HEADING


def _without_headers(line: str) -> str:
    return _LEADING_HEADERS.sub("", line, count=1).strip()


def _ids_of(line: str, known: Sequence[int]) -> tuple[int, ...]:
    found: list[int] = []
    for match in _HEADER.finditer(line):
        first, last = int(match[1]), int(match[2])
        found += known[bisect_left(known, first) : bisect_right(known, last)]
    return tuple(dict.fromkeys(found))


def _chunks(
    lines: Sequence[str], encoder: Encoder, percentile: float, buffer: int, known: Sequence[int]
) -> list[Chunk]:
    # A line break ends a sentence too, which is the one thing done unlike LangChain: notes are lists, their items often
    # lack a full stop, and a whole list would pass for one sentence. Headers stay out of what is embedded.
    sentences: list[str] = []
    line_of: list[int] = []
    heads = []
    for number, line in enumerate(lines):
        body = line.removeprefix("- ")
        note = _without_headers(body)
        parts = sentences_of(note)
        heads.append(body.removesuffix(note).strip())
        sentences += parts
        line_of += [number] * len(parts)
    chunks = []
    for start, stop in chunk_bounds(sentences, encoder, percentile, buffer):
        grouped: dict[int, list[str]] = {}
        for position in range(start, stop):
            grouped.setdefault(line_of[position], []).append(sentences[position])
        text = "\n".join(" ".join(["-", *filter(None, [heads[line]]), *parts]) for line, parts in grouped.items())
        ids = tuple(dict.fromkeys(i for line in grouped for i in _ids_of(lines[line], known)))
        chunks.append(Chunk(text, ids, count_tokens(text)))
    return chunks
