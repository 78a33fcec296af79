"""The scratchpad (paper section 3.2): notes on every pair, merged in order, compressed when long, filtered by question.

Every note is a line `- [messages a-b] text.` that ends with a full stop, question or exclamation mark. A missing mark
is added, so that the chunker sees a note as a sentence. The header survives merging and compression as text, and the
message ids that a recollection reports come from it. Ids that the conversation does not have are ignored: a compressing
model may garble a header.

The pad is chunked where neighbouring sentences are least alike (footnote 2), as LangChain's SemanticChunker does, which
the paper uses: windows of a sentence and its neighbours are embedded, and a cut falls where the cosine distance between
two neighbouring windows is above a percentile of all such distances in the text. LangChain is used where it is
installed, and its maker gives that package up; what is installed must not change a number, so `own_chunks` gives the
same chunks, to the byte.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, StrictInt

from beamlib.data.conversations import Conversation
from beamlib.llm.json_replies import found_json, read_json
from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt, attempt_all
from beamlib.llm.retrying import UNDECIDED, read_decision
from beamlib.memory.budget import JOINT_TOKENS, LEAST_TOKENS, newest_that_fit, passage_tokens, shorten
from beamlib.memory.extraction import INPUT_TOKENS, extract, fill_gaps, header, lines_of
from beamlib.memory.protocol import Passage
from beamlib.retrieval.encoder import Encoder
from beamlib.text import WORDS, TokenCounter

TARGET_SLACK = 1.1
"""A compressor need not hit its target exactly: up to this factor above it is not worth another call."""

COMPRESSION_ROUNDS = 3
"""How often a compressor that stays above its target is retried before the oldest lines are cut."""

_SENTENCE_BREAK = re.compile(r"(?<=[.?!])\s+")
_GRID = float(2**20)
"""Vectors are rounded to multiples of 1 / _GRID, so that products add up without rounding in float64: equal distances
are equal on every machine."""

_RANGE = re.compile(r"(\d+)\s*[-–]\s*(\d+)")
_HEADER = re.compile(
    rf"\[messages? {_RANGE.pattern}(?:(?:,|;| and| &)\s*(?:messages? )?\d+\s*[-–]\s*\d+)*\]", re.IGNORECASE
)
"""A header, or several that a compressing model wrote into one pair of brackets."""
_LEADING_HEADERS = re.compile(rf"(?:\**{_HEADER.pattern}\**|[\s,;:])*", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s,;:]+$")
_SPELLED = re.compile(r"[0-9]{1,6}")
_Number = Annotated[StrictInt, BeforeValidator(lambda value: int(value) if _SPELLED.fullmatch(str(value)) else value)]
_WORD = re.compile(r"\w")
_EXCLUDES = re.compile(
    r"\b(?:not|no|nor|never|none|cannot|without|except|exclud\w*|irrelevant|unrelated|unneeded|unnecessary|ignor\w*|"
    r"discard\w*|drop\w*|omit\w*|remov\w*|leav\w*|left|skip\w*|filter\w*)\b|n['’]t\b",
    re.IGNORECASE,
)
"""Words that may turn a list of pieces to keep into its opposite."""

NUMBER_TOKENS = 4
"""Tokens that numbering a chunk takes, at most."""

_ABOUT_CHARACTERS = 80
_HEADING = "SCRATCHPAD"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Notes that belong together, with the message ids that their headers name and the size of `text` in tokens."""

    text: str
    message_ids: tuple[int, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Scratchpad:
    """The finished pad.

    Attributes:
        text: One note per line.
        chunks: Its semantic chunks.
        compressions: The compressor's calls.
        lines_cut: The oldest lines that were cut because the compressor stayed above its target.
    """

    text: str
    chunks: tuple[Chunk, ...] = ()
    compressions: int = 0
    lines_cut: int = 0


@dataclass
class _Pad:
    """A pad under construction: lines with their sizes in tokens."""

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
        """Append `lines` and compress the pad where it is too long; `upto` names the messages that it now covers."""
        sizes = [self.counter.count(line) for line in lines]
        self.lines += lines
        self.sizes += sizes
        self.tokens += sum(sizes)
        if self.tokens <= self.threshold:
            return
        # Replace the notes by the compressor's until they are near the target, or cut the oldest.
        for _ in range(COMPRESSION_ROUNDS):
            before = self.tokens
            variables = {"notes": "\n".join(self.lines), "target_tokens": str(self.target)}
            (reply,) = extract(self.model, [Prompt("scratchpad_compress", variables, about=upto)])
            self.lines = [f"- {note}" for line in lines_of(reply) if (note := _close(line))]
            if not self.lines:
                raise ModelError(f"scratchpad_compress for {upto}: no note in the reply", Outcome.EMPTY)
            self.sizes = [self.counter.count(line) for line in self.lines]
            self.tokens = sum(self.sizes)
            self.compressions += 1
            if self.tokens <= self.target * TARGET_SLACK:
                return
            if self.tokens >= before:
                break
        self._cut_oldest()

    def _cut_oldest(self) -> None:
        """Cut the lines about the oldest messages until the rest fits: a compressed pad is grouped by subject.

        A line without a message in its headers (a compressor's heading) is older than all others.
        """
        newest = [max((last for _, last in _ranges(line)), default=-1) for line in self.lines]
        by_age = sorted(range(len(self.lines)), key=lambda place: (newest[place], place))
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
    """Merge each pair's notes in order, compress them whenever they exceed `threshold`, then chunk.

    Args:
        notes: The reply to `scratchpad_notes` of each pair.
        threshold: In tokens, as is `target`.

    Raises:
        ModelError: If the compressor fails or returns nothing.
    """
    pad = _Pad(compressor, threshold, target, counter)
    for pair, reply in zip(conversation.pairs, notes, strict=True):
        # The pair's own header replaces the model's.
        lines = [f"- {header(pair)} {note}" for line in lines_of(reply) if (note := _without_headers(_close(line)))]
        upto = f"messages {conversation.pairs[0].user.id}-{pair.assistant.id}"
        pad.add(lines, upto)
    ids = sorted(message.id for message in conversation.messages)
    chunks = tuple(_chunks(pad.lines, encoder, percentile, buffer, ids, counter))
    return Scratchpad("\n".join(pad.lines), chunks, pad.compressions, pad.lines_cut)


def relevant_chunks(
    model: Model, questions: Sequence[str], chunks: Sequence[Chunk], *, exact: bool = False
) -> list[tuple[list[Chunk], int] | ModelError]:
    """Filter the chunks by question; a yes keeps a chunk.

    All calls go out at once, chunk by chunk: prompts about the same chunk share their beginning. A reply that is not a
    clear yes or no is asked for again once; then the call counts as failed.

    Args:
        exact: Keep a chunk only for the bare word, as the released code does, so that "Yes." loses it (M14). No reply
            is asked for again.

    Returns:
        For each question the chunks to keep, in order, and the number of chunks whose call failed for good, or the
        `ModelError` of a call about it.
    """
    distinct = list(dict.fromkeys(questions))
    about = {question: _about(question) for question in distinct}
    prompts = [
        Prompt("scratchpad_filter", {"question": question, "chunk": chunk.text}, about=about[question])
        for chunk in chunks
        for question in distinct
    ]
    replies = list(attempt_all(model, prompts))
    undecided = [] if exact else [place for place, reply in enumerate(replies) if _decision(reply) is None]
    again = attempt_all(model, [prompts[place].again(UNDECIDED) for place in undecided])
    for place, reply in zip(undecided, again, strict=True):
        unclear = ModelError("the reply is not a clear yes or no", Outcome.UNREADABLE)
        replies[place] = unclear if _decision(reply) is None else reply
    kept: dict[str, tuple[list[Chunk], int] | ModelError] = {}
    for place, question in enumerate(distinct):
        answers = replies[place :: len(distinct)]
        try:
            texts, gaps = fill_gaps(prompts[place :: len(distinct)], answers)
        except ModelError as error:
            kept[question] = error
            continue
        bare = [text.strip().lower() == "yes" for text in texts]
        keep = bare if exact else [_decision(reply) is True for reply in answers]
        kept[question] = ([chunk for chunk, is_relevant in zip(chunks, keep, strict=True) if is_relevant], gaps)
    return [kept[question] for question in questions]


def relevant_in_batches(
    model: Model, questions: Sequence[str], chunks: Sequence[Chunk]
) -> list[tuple[list[Chunk], int] | ModelError]:
    """Filter the chunks by question as `relevant_chunks` does, with one call per question about all chunks.

    Chunks of more than `INPUT_TOKENS` together are asked about in several calls. Where a reply is no list of numbers,
    or a call fails for good, its chunks are asked about one by one.
    """
    distinct = list(dict.fromkeys(questions))
    batches = list(_batches(chunks))
    prompts = [
        Prompt("filter_batch", {"chunks": _numbered(batch), "question": question}, about=_about(question))
        for batch in batches
        for question in distinct
    ]
    replies = iter(attempt_all(model, prompts))
    kept: dict[str, tuple[list[Chunk], int] | ModelError] = {question: ([], 0) for question in distinct}
    for batch in batches:
        decided: dict[str, tuple[list[Chunk], int] | ModelError | None] = dict.fromkeys(distinct)
        for question, reply in zip(distinct, replies, strict=False):
            if isinstance(reply, ModelError):
                decided[question] = reply if reply.transient else None
            elif (numbers := read_numbers(reply.text, len(batch), cut=reply.finish_reason == "length")) is not None:
                decided[question] = ([chunk for at, chunk in enumerate(batch, start=1) if at in numbers], 0)
        unread = [question for question, result in decided.items() if result is None]
        decided |= zip(unread, relevant_chunks(model, unread, batch), strict=True)
        for question, result in decided.items():
            before = kept[question]
            if isinstance(before, ModelError) or result is None:
                continue
            kept[question] = (
                result if isinstance(result, ModelError) else (before[0] + result[0], before[1] + result[1])
            )
    return [kept[question] for question in questions]


def _batches(chunks: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    """Cut chunks, in order, into batches of at most `INPUT_TOKENS` tokens; a longer chunk is a batch of its own."""
    batch: list[Chunk] = []
    for chunk in chunks:
        if batch and sum(item.tokens + NUMBER_TOKENS for item in (*batch, chunk)) > INPUT_TOKENS:
            yield batch
            batch = []
        batch.append(chunk)
    if batch:
        yield batch


def _numbered(chunks: Sequence[Chunk]) -> str:
    """Number chunks from 1; every line of a note begins with "- ", so that no note can pass for a number."""
    return "\n\n".join(f"{number}.\n{chunk.text}" for number, chunk in enumerate(chunks, start=1))


def read_numbers(reply: str, count: int, *, cut: bool = False) -> frozenset[int] | None:
    """Read the list of numbers in a reply to `filter_batch`.

    Text before the list may introduce it, without a negation; after it, only a new line may bring text.

    Args:
        count: Numbers go from 1 to this.
        cut: The reply was cut off, and so may be its list.

    Returns:
        The numbers; None if there is no list, a second one, or a number that no piece has.
    """
    values = found_json(reply)
    numbers, _ = read_json(reply, list[_Number], strict=True, prompt="filter_batch")
    if cut or numbers is None or not all(value.complete for value in values):
        return None
    before, _, after = reply.partition(values[0].text)
    if _EXCLUDES.search(before) or _WORD.search(after.split("\n")[0]) or not set(numbers) <= set(range(1, count + 1)):
        return None
    return frozenset(numbers)


def _decision(reply: Completion | ModelError) -> bool | None:
    """Return a reply's yes or no, None if it is unclear; an error counts as a no."""
    if isinstance(reply, ModelError):
        return False
    return read_decision(reply.text, cut=reply.finish_reason == "length")


def scratchpad_passages(
    chunks: Sequence[Chunk], tokens: int, counter: TokenCounter = WORDS
) -> tuple[list[Passage], int]:
    """Fit chunks into `tokens` tokens, joints included, as passages of the part "scratchpad" under one heading.

    If they do not fit, the newest are kept and the heading says how many were left out. The released code has no limit
    and may overflow the reader (M6 of the reference).

    Returns:
        The passages, and how many of `chunks` they do not hold whole.
    """
    if not chunks:
        return [], 0
    room = tokens - passage_tokens(_heading(len(chunks)), counter)
    # By age and not by place: a compressed pad is grouped by subject.
    by_age = sorted(range(len(chunks)), key=lambda place: (max(chunks[place].message_ids, default=-1), place))
    start = newest_that_fit([chunks[place].tokens + JOINT_TOKENS for place in by_age], room)
    shown, dropped = [chunks[place] for place in sorted(by_age[start:])], start
    if not shown and room - JOINT_TOKENS < LEAST_TOKENS:
        return [], len(chunks)
    if not shown:
        start, newest = len(chunks) - 1, chunks[by_age[-1]]
        shown = [Chunk(shorten(newest.text, room - JOINT_TOKENS, counter), newest.message_ids, room)]
    texts = [f"{_heading(start)}\n{shown[0].text}", *(chunk.text for chunk in shown[1:])]
    return [Passage(text, chunk.message_ids, "scratchpad") for text, chunk in zip(texts, shown, strict=True)], dropped


def _heading(left_out: int) -> str:
    return f"{_HEADING} [… {left_out} older chunks left out for lack of room …]" if left_out else _HEADING


def _without_headers(line: str) -> str:
    return _LEADING_HEADERS.sub("", line, count=1).strip()


def _ranges(line: str) -> list[tuple[int, int]]:
    """Return the first and last message of every range in the headers of a line."""
    ranges = (match for head in _HEADER.finditer(line) for match in _RANGE.finditer(head[0]))
    return [(int(match[1]), int(match[2])) for match in ranges]


def _close(line: str) -> str:
    """Add a missing end mark to a line, so that the chunker cuts after it; empty if it has headers only."""
    if not _without_headers(line):
        return ""
    return line if line.endswith((".", "?", "!")) else _SEPARATORS.sub("", line) + "."


def _about(question: str) -> str:
    return f"the question '{textwrap.shorten(question, _ABOUT_CHARACTERS, placeholder=' …')}'"


def _chunks(
    lines: Sequence[str], encoder: Encoder, percentile: float, buffer: int, known: Sequence[int], counter: TokenCounter
) -> list[Chunk]:
    # The notes are chunked without their headers, which would make all sentences alike. Every note ends with an end
    # mark, so the sentences of the whole are those of its notes, and each chunk's are a run of them.
    heads, notes = [], []
    for line in lines:
        body = line.removeprefix("- ")
        notes.append(_without_headers(body))
        heads.append(body.removesuffix(notes[-1]).strip())
    sentences = [(number, sentence) for number, note in enumerate(notes) for sentence in split_for_chunks(note)]
    chunks, start = [], 0
    for chunk in semantic_chunks("\n".join(notes), encoder, percentile, buffer) if notes else []:
        stop = start + len(split_for_chunks(chunk))
        grouped: dict[int, list[str]] = {}
        for number, sentence in sentences[start:stop]:
            grouped.setdefault(number, []).append(sentence)
        text = "\n".join(" ".join(["-", *filter(None, [heads[number]]), *parts]) for number, parts in grouped.items())
        ids: dict[int, None] = {}
        for first, last in (span for number in grouped for span in _ranges(lines[number])):
            ids.update(dict.fromkeys(known[bisect_left(known, first) : bisect_right(known, last)]))
        chunks.append(Chunk(text, tuple(ids), counter.count(text)))
        start = stop
    return chunks


def split_for_chunks(text: str) -> list[str]:
    """Split at white space after a full stop, question or exclamation mark: LangChain's default rule.

    As there, an empty text is one empty sentence, and white space at the end leaves an empty last one.
    """
    return _SENTENCE_BREAK.split(text)


def semantic_chunks(text: str, encoder: Encoder, percentile: float, buffer: int) -> list[str]:
    """Cut `text` into chunks of whole sentences, joined by a space.

    By LangChain's SemanticChunker where it is installed, else by `own_chunks`: both give the same chunks.

    Args:
        percentile: Distances up to this percentile (0 to 100) do not cut: 80 cuts at about one gap in five.
        buffer: Neighbours on either side in a sentence's window.
    """
    chunker = langchain_chunker()
    if chunker is None:
        return own_chunks(text, encoder, percentile, buffer)
    # LangChain's chunker uses no more of its `Embeddings` than this.
    embeddings = SimpleNamespace(embed_documents=lambda texts: round_vectors(encoder, texts).tolist())
    splitter = chunker(
        embeddings,
        buffer_size=buffer,
        breakpoint_threshold_type="percentile",
        breakpoint_threshold_amount=percentile,
    )
    chunks: list[str] = splitter.split_text(text)
    return chunks


@cache
def langchain_chunker() -> Any | None:
    """Return LangChain's class `SemanticChunker`, None where it is not installed.

    Also None where simsimd is: LangChain would then compute in float32, and other chunks could come out.
    """
    if find_spec("simsimd") is not None or find_spec("langchain_experimental") is None:
        return None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*being sunset", category=DeprecationWarning)
        return import_module("langchain_experimental.text_splitter").SemanticChunker


def own_chunks(text: str, encoder: Encoder, percentile: float, buffer: int) -> list[str]:
    """Compute `semantic_chunks` without LangChain."""
    sentences = split_for_chunks(text)
    if len(sentences) == 1:
        return sentences
    windows = [" ".join(sentences[max(0, i - buffer) : i + buffer + 1]) for i in range(len(sentences))]
    vectors = round_vectors(encoder, windows)
    lengths = np.linalg.norm(vectors, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        similarities = np.sum(vectors[:-1] * vectors[1:], axis=1) / (lengths[:-1] * lengths[1:])
    distances = 1 - np.where(np.isfinite(similarities), similarities, 0.0)  # no known word: like no other text
    threshold = np.percentile(distances, percentile)
    starts = [0, *(int(gap) + 1 for gap in np.flatnonzero(distances > threshold))]
    return [" ".join(sentences[a:b]) for a, b in zip(starts, [*starts[1:], len(sentences)], strict=True)]


def round_vectors(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float64]:
    """Encode texts, rounded to multiples of 1 / `_GRID`."""
    return np.round(encoder.encode(texts).astype(np.float64) * _GRID) / _GRID
