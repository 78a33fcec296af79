"""The scratchpad (paper section 3.2): notes on every pair, merged in order, compressed when long, filtered by question.

Every note is a line `- [messages a-b] text.` that ends with a full stop, question or exclamation mark: one is put there
where the model left it out, so that a note is a sentence to the chunker. The header survives merging and compression as
text, and from it come the message ids that a recollection reports. Ids that the conversation does not have are ignored:
a compressing model may garble a header.
"""

from __future__ import annotations

import re
import textwrap
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from beamlib.data.conversations import Conversation
from beamlib.llm.model import Model, ModelError, Outcome, Prompt, attempt_all
from beamlib.memory.budget import JOINT_TOKENS, newest_that_fit, passage_tokens, shorten
from beamlib.memory.chunking import semantic_chunks, sentences_of
from beamlib.memory.extraction import header
from beamlib.memory.group_calls import lines_of, replies_to, with_gaps
from beamlib.memory.protocol import Passage
from beamlib.retrieval.encoder import Encoder
from beamlib.text import WORDS, TokenCounter

TARGET_SLACK = 1.1
"""Nobody hits a number of tokens exactly: up to this much above the target is not worth another call."""

COMPRESSION_ROUNDS = 3
"""How often a compressor that stays above its target is asked again before the oldest lines are cut."""

_RANGE = re.compile(r"(\d+)\s*[-–]\s*(\d+)")
_HEADER = re.compile(
    rf"\[messages? {_RANGE.pattern}(?:(?:,|;| and| &)\s*(?:messages? )?\d+\s*[-–]\s*\d+)*\]", re.IGNORECASE
)
"""A header, or several that a compressing model wrote into one pair of brackets."""
_LEADING_HEADERS = re.compile(rf"(?:\**{_HEADER.pattern}\**|[\s,;:])*", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s,;:]+$")
_YES = re.compile(r"\W*(?:```\w+\s|(?:answer|output|response)\W*:)?\W*yes\b", re.IGNORECASE)
_ABOUT_CHARACTERS = 80
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
    counter: TokenCounter
    lines: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    tokens: int = 0
    compressions: int = 0
    lines_cut: int = 0

    def add(self, lines: Sequence[str], upto: str) -> None:
        """Put `lines` at the end; `upto` is the range of messages that the pad now covers."""
        sizes = [self.counter.count(line) for line in lines]
        self.lines += lines
        self.sizes += sizes
        self.tokens += sum(sizes)
        if self.tokens > self.threshold:
            self._compress(upto)

    def _compress(self, upto: str) -> None:
        for _ in range(COMPRESSION_ROUNDS):
            before = self.tokens
            self._replace_by_reply(upto)
            if self.tokens <= self.target * TARGET_SLACK:
                return
            if self.tokens >= before:
                break
        self._cut_oldest()

    def _replace_by_reply(self, upto: str) -> None:
        variables = {"notes": "\n".join(self.lines), "target_tokens": str(self.target)}
        reply = replies_to(self.model, [Prompt("scratchpad_compress", variables, about=upto)])[0]
        lines = [f"- {closed}" for line in lines_of(reply) if (closed := _closed(line))]
        if not lines:
            raise ModelError(f"scratchpad_compress for {upto}: no note in the reply", Outcome.EMPTY)
        self.lines = lines
        self.sizes = [self.counter.count(line) for line in lines]
        self.tokens = sum(self.sizes)
        self.compressions += 1

    def _cut_oldest(self) -> None:
        """Cut lines until the rest fits, those on the oldest messages first: a compressed pad is grouped by subject."""
        by_age = sorted(range(len(self.lines)), key=lambda place: (_newest_message(self.lines[place]), place))
        start = newest_that_fit([self.sizes[place] for place in by_age], self.target)
        if start == len(self.lines):  # one endless line
            start -= 1
            endless = shorten(self.lines[by_age[start]], self.target, self.counter).replace("\n", " ")
            self.lines[by_age[start]], self.sizes[by_age[start]] = endless, self.counter.count(endless)
        kept = sorted(by_age[start:])
        self.lines_cut += start
        self.lines, self.sizes = [self.lines[place] for place in kept], [self.sizes[place] for place in kept]
        self.tokens = sum(self.sizes)


def build_scratchpad(
    compressor: Model,
    conversation: Conversation,
    notes: Sequence[str],
    encoder: Encoder,
    *,
    threshold: int,
    target: int,
    percentile: float,
    buffer: int,
    counter: TokenCounter = WORDS,
) -> Scratchpad:
    """Merge each pair's notes in order, let `compressor` rewrite them whenever they exceed `threshold`, then chunk.

    `notes` has one reply to `scratchpad_notes` per pair; `threshold` and `target` are tokens by `counter`. Raises
    `ModelError` if the compressor fails or returns nothing.
    """
    pad = _Pad(compressor, threshold, target, counter)
    for pair, reply in zip(conversation.pairs, notes, strict=True):
        # Whatever header the model gave a line, its pair's own is known.
        lines = [f"- {header(pair)} {note}" for line in lines_of(reply) if (note := _without_headers(_closed(line)))]
        upto = f"messages {conversation.pairs[0].user.id}-{pair.assistant.id}"
        pad.add(lines, upto)
    ids = sorted(message.id for message in conversation.messages)
    chunks = tuple(_chunks(pad.lines, encoder, percentile, buffer, ids, counter))
    return Scratchpad("\n".join(pad.lines), chunks, pad.compressions, pad.lines_cut)


def relevant_chunks(
    model: Model, questions: Sequence[str], chunks: Sequence[Chunk], *, exact: bool = False
) -> list[tuple[list[Chunk], int] | ModelError]:
    """For each question the chunks that the model wants kept, in order, or the `ModelError` of a call about it.

    A chunk whose call failed for good is left out and counted beside them.

    All calls go out at once, chunk by chunk: prompts about the same chunk share their beginning. Any reply that begins
    with the word yes keeps a chunk. `exact` reproduces the released code, which wants the bare word, so that "Yes."
    loses the chunk (M14 of the reference).
    """
    asked = list(dict.fromkeys(questions))
    about = {question: _about(question) for question in asked}
    prompts = [
        Prompt("scratchpad_filter", {"question": question, "chunk": chunk.text}, about=about[question])
        for chunk in chunks
        for question in asked
    ]
    replies = attempt_all(model, prompts)
    kept: dict[str, tuple[list[Chunk], int] | ModelError] = {}
    for place, question in enumerate(asked):
        try:
            texts, gaps = with_gaps(prompts[place :: len(asked)], replies[place :: len(asked)])
        except ModelError as error:
            kept[question] = error
            continue
        kept[question] = ([chunk for chunk, text in zip(chunks, texts, strict=True) if _is_yes(text, exact)], gaps)
    return [kept[question] for question in questions]


def scratchpad_passages(
    chunks: Sequence[Chunk], tokens: int, counter: TokenCounter = WORDS
) -> tuple[list[Passage], int]:
    """Fit `chunks` into `tokens` tokens, joints included, as passages of the part "scratchpad" under one heading.

    Where they do not fit, the newest are kept and the heading says how many were left out. The released code sets no
    limit and may overflow the reader (M6 of the reference).

    Returns:
        The passages, and how many of `chunks` they do not hold whole.
    """
    if not chunks:
        return [], 0
    room = tokens - passage_tokens(_heading(len(chunks)), counter)
    # By age and not by place: a compressed pad is grouped by subject.
    by_age = sorted(range(len(chunks)), key=lambda place: (max(chunks[place].message_ids, default=-1), place))
    start = newest_that_fit([chunks[place].tokens + JOINT_TOKENS for place in by_age], room)
    shown = [chunks[place] for place in sorted(by_age[start:])]
    dropped = start
    if not shown:
        start, newest = len(chunks) - 1, chunks[by_age[-1]]
        shown = [Chunk(shorten(newest.text, room - JOINT_TOKENS, counter), newest.message_ids, room)]
    texts = [chunk.text for chunk in shown]
    texts[0] = f"{_heading(start)}\n{texts[0]}"
    return [Passage(text, chunk.message_ids, "scratchpad") for text, chunk in zip(texts, shown, strict=True)], dropped


def _newest_message(line: str) -> int:
    """The newest message that a line's headers name, -1 without any (a compressor's heading)."""
    return max((last for _, last in _ranges(line)), default=-1)


def _heading(left_out: int) -> str:
    return f"{_HEADING} [… {left_out} older chunks left out for lack of room …]" if left_out else _HEADING


def _without_headers(line: str) -> str:
    return _LEADING_HEADERS.sub("", line, count=1).strip()


def _ranges(line: str) -> list[tuple[int, int]]:
    """The first and last message of every range that a header in `line` names."""
    return [(int(one[1]), int(one[2])) for head in _HEADER.finditer(line) for one in _RANGE.finditer(head[0])]


def _ids_of(line: str, known: Sequence[int]) -> tuple[int, ...]:
    found: list[int] = []
    for first, last in _ranges(line):
        found += known[bisect_left(known, first) : bisect_right(known, last)]
    return tuple(dict.fromkeys(found))


def _closed(line: str) -> str:
    """`line` with an end mark, so that the chunker's own rule cuts after it; empty if it holds headers alone."""
    if not _without_headers(line):
        return ""
    return line if line.endswith((".", "?", "!")) else _SEPARATORS.sub("", line) + "."


def _is_yes(reply: str, exact: bool) -> bool:
    return reply.strip().lower() == "yes" if exact else _YES.match(reply) is not None


def _about(question: str) -> str:
    return f"the question '{textwrap.shorten(question, _ABOUT_CHARACTERS, placeholder=' …')}'"


def _chunks(
    lines: Sequence[str], encoder: Encoder, percentile: float, buffer: int, known: Sequence[int], counter: TokenCounter
) -> list[Chunk]:
    # What is cut is the notes without their headers, which would only make all sentences alike. As every note ends with
    # an end mark, the sentences of the whole are those of its notes, and each chunk's are a run of them.
    heads, notes = [], []
    for line in lines:
        body = line.removeprefix("- ")
        notes.append(_without_headers(body))
        heads.append(body.removesuffix(notes[-1]).strip())
    sentences = [(number, sentence) for number, note in enumerate(notes) for sentence in sentences_of(note)]
    chunks, start = [], 0
    for chunk in semantic_chunks("\n".join(notes), encoder, percentile, buffer) if notes else []:
        stop = start + len(sentences_of(chunk))
        grouped: dict[int, list[str]] = {}
        for number, sentence in sentences[start:stop]:
            grouped.setdefault(number, []).append(sentence)
        text = "\n".join(" ".join(["-", *filter(None, [heads[number]]), *parts]) for number, parts in grouped.items())
        ids = tuple(dict.fromkeys(i for number in grouped for i in _ids_of(lines[number], known)))
        chunks.append(Chunk(text, ids, counter.count(text)))
        start = stop
    return chunks
