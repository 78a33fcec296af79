"""The stand-in's reader: it answers with the sentences of its context that are nearest to the question.

It extracts and does not reason: it adds nothing up, counts no days and does not decide between two statements. BEAM,
MEME and MemoryCode are answered alike.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from beam_offline.lexicon import WORD, lexicon, sum_vectors
from beam_offline.notes import CODE, HEADER
from beam_offline.read_facts import count_asked
from beamlib.llm.model import Prompt
from beamlib.retrieval.terms import TermScores, Vocabulary, document_frequency, term_counts
from beamlib.text import split_sentences

MISSING: Final = "The conversation does not say."

CONTEXTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("answer", "answer_full", "answer_full_released", "meme_answer", "memorycode_recalled"), "context"),
    "memorycode_instruction": "guideline",
    "memorycode_session": "session",
    "memorycode_history": "sessions",
    "memorycode_chain": "guidelines",
    "memorycode_alone": "",
}
"""The prompts that the reader answers, and the variable of each that holds its context; empty where there is none."""

SENTENCES: Final = 6
"""How many sentences an answer has."""

ENOUGH: Final = 0.9
"""The least score of the best sentence for there to be an answer.

Chosen on the released 100K conversations 1 to 8: from five random pairs .55 of the answerable questions get no answer,
from what LIGHT recalls .05, from the cited messages .13.
"""

_OF_MESSAGE: Final = 0.3
"""Weight of the words that stand in the same message but not in the sentence."""

_MOST_CHARACTERS: Final = 400
"""Of a sentence in an answer: a pasted document can be one."""

_ITEMS: Final = 5
"""How many events are put in order where the question names no number."""

_PASSAGE = re.compile(r"^(?=(?:- )?\[messages \d+-\d+\])", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with its content stems. `message` numbers the messages of its passage."""

    text: str
    stems: tuple[str, ...]
    message: int
    user: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Passage:
    """A pair, a note or loose text: its sentences and their unit vectors.

    `first` is the id of its first message, -1 where it names none.
    """

    first: int
    sentences: tuple[Sentence, ...]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class _Context:
    """The sentences of a context in order of mention, with what a question is compared with.

    `messages` says which message each is in. `own` and `around` score the stems of each sentence and of each message;
    `frequency` counts the sentences that hold a stem, by its number in `vocabulary`.
    """

    sentences: tuple[Sentence, ...]
    messages: NDArray[np.int64]
    vectors: NDArray[np.float32]
    vocabulary: Vocabulary
    frequency: NDArray[np.int64]
    own: TermScores
    around: TermScores


def context_of(prompt: Prompt) -> str:
    """Return what the reader may answer from. A missing variable is a `KeyError`."""
    name = CONTEXTS[prompt.id]
    return prompt.variables[name] if name else ""


def answer(prompt: Prompt) -> str:
    """Answer `prompt` with the best sentences of its context, in order of mention, or say that there is no answer.

    Where the question asks for an order, the answer is a numbered list with one sentence of each message of the user.
    The prompts of MemoryCode want Python: there the sentences are comments.
    """
    code = prompt.id.startswith("memorycode_")
    best = best_sentences(context_of(prompt), prompt.variables["query" if code else "question"])
    lines = [textwrap.shorten(sentence, _MOST_CHARACTERS, placeholder=" ...") for sentence in best] or [MISSING]
    return "\n".join(["```python", *(f"# {line}" for line in lines), "```"] if code else lines)


def best_sentences(context: str, question: str) -> list[str]:
    """Return the sentences of `context` that answer `question`, in order of mention; empty below `ENOUGH`."""
    read = _read_context(context)
    (wanted,), vectors = _read_texts([question])
    if not read.sentences or not wanted:
        return []
    scores = _scores(read, wanted, vectors[0])
    ranked = np.argsort(-scores, kind="stable").tolist()
    if "order" in wanted:
        by_message: dict[int, int] = {}
        for at in ranked:
            if read.sentences[at].user:
                by_message.setdefault(int(read.messages[at]), at)
        leading = list(by_message.values())[: count_asked(question) or _ITEMS]
        return [f"{place}. {read.sentences[at].text}" for place, at in enumerate(sorted(leading), start=1)]
    if scores[ranked[0]] < ENOUGH:
        return []
    return [read.sentences[at].text for at in sorted(ranked[:SENTENCES])]


def _scores(read: _Context, wanted: Sequence[str], vector: NDArray[np.float32]) -> NDArray[np.float64]:
    """Score each sentence: the share of the question's rare words in it, and the cosine to the question.

    A word weighs more the fewer sentences hold it. A word of the question that the context lacks weighs as much as one
    that two sentences hold, so that it counts against an answer.
    """
    size, known = len(read.sentences), {stem: read.vocabulary[stem] for stem in wanted if stem in read.vocabulary}
    holding = {stem: int(read.frequency[number]) for stem, number in known.items()}
    weights = {stem: max(math.log((size + 2) / (holding.get(stem, 2) + 0.5)), 0.2) for stem in wanted}
    terms = {known[stem]: weights[stem] / sum(weights.values()) for stem in known}
    covered = read.own.of(terms) + _OF_MESSAGE * read.around.of(terms)[read.messages]
    return covered + np.einsum("ij,j->i", read.vectors, vector)  # `@` starts threads, which wait longer than they work


@lru_cache(maxsize=8)  # all questions about a conversation may come with the same context
def _read_context(context: str) -> _Context:
    """Read `context`: passages by message id, loose text where it stands, each sentence once."""
    passages: list[tuple[int, int, _Passage]] = []
    last = -1
    for place, text in enumerate(dict.fromkeys(part.strip() for part in _PASSAGE.split(context))):
        passage = _read_passage(text)
        last = passage.first if passage.first >= 0 else last
        passages.append((last, place, passage))
    passages.sort(key=lambda entry: entry[:2])
    found: dict[str, tuple[Sentence, int, NDArray[np.float32]]] = {}
    messages: list[list[str]] = []
    for _, _, passage in passages:
        before = len(messages)
        for sentence, vector in zip(passage.sentences, passage.vectors, strict=True):
            messages += [[] for _ in range(len(messages), before + sentence.message + 1)]
            messages[before + sentence.message] += sentence.stems
            found.setdefault(sentence.text, (sentence, before + sentence.message, vector))
    sentences, message_of, vectors = zip(*found.values(), strict=True) if found else ((), (), ())
    vocabulary = Vocabulary()
    own = term_counts([sentence.stems for sentence in sentences], vocabulary)
    around = term_counts(messages, vocabulary)
    return _Context(
        sentences,
        np.array(message_of, dtype=np.int64),
        np.array(vectors),
        vocabulary,
        document_frequency(own),
        TermScores(own.sign()),
        TermScores(around.sign()),
    )


@lru_cache(maxsize=4096)  # the same pairs come back with every question about a conversation
def _read_passage(text: str) -> _Passage:
    """Read one passage without its code. Sentences with fewer than two content words are left out."""
    header = HEADER.match(text)
    message, user = 0, True
    lines: list[tuple[str, int, bool]] = []
    for line in split_sentences(CODE.sub("\n", text[header.end() :] if header else text)):
        speaker, mark, said = line.partition(":")
        if mark and speaker in ("USER", "ASSISTANT"):
            message, user, line = message + 1, speaker == "USER", said.strip()
        lines.append((line, message, user))
    content, vectors = _read_texts([line for line, _, _ in lines])
    kept = [at for at, words in enumerate(content) if len(words) > 1]
    sentences = tuple(Sentence(lines[at][0], content[at], *lines[at][1:]) for at in kept)
    return _Passage(int(header[2]) if header else -1, sentences, vectors[kept])


def _read_texts(texts: Sequence[str]) -> tuple[list[tuple[str, ...]], NDArray[np.float32]]:
    """The content stems of each text without repeats, and their unit vectors, shape (texts, dim)."""
    known, words = lexicon(), [WORD.findall(text) for text in texts]
    numbers = iter(known.numbers([word for own in words for word in own]))
    by_text = [[next(numbers) for _ in own] for own in words]
    content = [tuple(dict.fromkeys(filter(None, (known.stems[number] for number in own)))) for own in by_text]
    rows = np.array([number for own in by_text for number in own], dtype=np.int64)
    sums = sum_vectors(known.vectors[rows], np.array([len(own) for own in by_text], dtype=np.int64))
    lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    return content, sums / np.maximum(lengths, 1e-6)[:, None]
