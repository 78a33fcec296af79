"""The stand-in's reader: it answers with the sentences of its context that are nearest to the question.

It extracts and does not reason: it adds nothing up, counts no days and does not decide between two statements. BEAM,
MEME and MemoryCode are answered alike.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from beam_generate.read_facts import count_asked
from beam_offline.lexicon import WORD, lexicon, sum_vectors
from beam_offline.notes import CODE, HEADER
from beamlib.llm.model import Prompt
from beamlib.memory.full_context import dialogue_text
from beamlib.text import split_sentences

MISSING: Final = "The conversation does not say."

CONTEXT_PARTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("answer", "answer_full", "answer_full_released", "meme_answer", "memorycode_recalled"), "context"),
    "answer_turns": "",
    "memorycode_instruction": "guideline",
    "memorycode_session": "session",
    "memorycode_history": "sessions",
    "memorycode_chain": "guidelines",
    "memorycode_alone": "",
}
"""The prompts that the reader answers, and the variable of each that holds its context; empty where none does."""

SENTENCES: Final = 6
"""How many sentences an answer has."""

ENOUGH: Final = 0.8
"""The least score of the best sentence for there to be an answer.

Chosen on the released 100K conversations 1 to 8: from five random pairs .55 of the answerable questions get no answer,
from what LIGHT recalls .05, from the cited messages .15.
"""

_MOST_CHARACTERS: Final = 400
"""Of a sentence in an answer: a pasted document can be one."""

_ITEMS: Final = 5
"""How many events are put in order where the question names no number."""

_PASSAGE = re.compile(r"^(?=(?:- )?\[messages \d+-\d+\])", re.MULTILINE)


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """A sentence with its content stems and its unit vector, and whether the user said it."""

    text: str
    stems: frozenset[str]
    vector: NDArray[np.float32]
    user: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Context:
    """The sentences of a context in order of mention, the number of the passage that each is in, and their vectors.

    `frequency` counts the sentences that hold a stem.
    """

    sentences: tuple[Sentence, ...]
    passages: tuple[int, ...]
    vectors: NDArray[np.float32]
    frequency: Mapping[str, int]


def context_of(prompt: Prompt) -> str:
    """Return what the reader may answer from: a variable, or the dialogue. A missing variable is a `KeyError`."""
    if prompt.turns:
        return dialogue_text(prompt.turns)
    name = CONTEXT_PARTS[prompt.id]
    return prompt.variables[name] if name else ""


def answer(prompt: Prompt) -> str:
    """Answer `prompt` with the best sentences of its context, in order of mention, or say that there is no answer.

    Where the question asks for an order, the answer is a numbered list with one sentence of the user from each passage.
    The prompts of MemoryCode want Python: there the sentences are comments over an empty function, which the rules on
    names and the like can be held against.
    """
    code = prompt.id.startswith("memorycode_")
    best = best_sentences(context_of(prompt), prompt.variables["query" if code else "question"])
    lines = [textwrap.shorten(sentence, _MOST_CHARACTERS, placeholder=" ...") for sentence in best] or [MISSING]
    if not code:
        return "\n".join(lines)
    name = "_".join(re.findall(r"[a-z]+", prompt.variables["query"].lower())[:5]) or "function"
    return "\n".join(["```python", *(f"# {line}" for line in lines), f"def {name}():", "    pass", "```"])


def best_sentences(context: str, question: str) -> list[str]:
    """Return the sentences of `context` that answer `question`, in order of mention; empty below `ENOUGH`."""
    read, (query,) = _read_context(context), _read_texts([(question, True)])
    if not read.sentences or not query.stems:
        return []
    scores = _scores(read, query)
    ranked = np.argsort(-scores, kind="stable").tolist()
    if "order" in query.stems:
        by_passage: dict[int, int] = {}
        for at in ranked:
            if read.sentences[at].user:
                by_passage.setdefault(read.passages[at], at)
        leading = list(by_passage.values())[: count_asked(question) or _ITEMS]
        return [f"{place}. {read.sentences[at].text}" for place, at in enumerate(sorted(leading), start=1)]
    if scores[ranked[0]] < ENOUGH:
        return []
    return [read.sentences[at].text for at in sorted(ranked[:SENTENCES])]


def _scores(read: _Context, query: Sentence) -> NDArray[np.float64]:
    """Score each sentence: the share of the question's rare words in it, and the cosine to the question.

    A word weighs more the fewer sentences hold it. A word of the question that the context lacks weighs as much as one
    that two sentences hold, so that it counts against an answer.
    """
    size = len(read.sentences)
    weights = {
        stem: max(math.log((size + 2) / (read.frequency.get(stem, 2) + 0.5)), 0.2) for stem in sorted(query.stems)
    }
    total = sum(weights.values())
    covered = [
        sum(weights[stem] for stem in sorted(query.stems & sentence.stems)) / total for sentence in read.sentences
    ]
    # `@` starts threads, which wait longer than they work.
    cosines: NDArray[np.float64] = np.einsum("ij,j->i", read.vectors, query.vector)
    return np.array(covered) + cosines


@lru_cache(maxsize=8)  # all questions about a conversation may come with the same context
def _read_context(context: str) -> _Context:
    """Read `context`: passages by message id, loose text where it stands, each sentence once."""
    passages: list[tuple[int, int, list[Sentence]]] = []
    last = -1
    for place, text in enumerate(dict.fromkeys(part.strip() for part in _PASSAGE.split(context))):
        header = HEADER.match(text)
        last = int(header[2]) if header else last
        passages.append((last, place, _read_passage(text[header.end() :] if header else text)))
    by_text: dict[str, tuple[Sentence, int]] = {}
    for _, place, passage in sorted(passages, key=lambda entry: entry[:2]):
        for sentence in passage:
            by_text.setdefault(sentence.text, (sentence, place))
    sentences = tuple(sentence for sentence, _ in by_text.values())
    frequency = Counter(stem for sentence in sentences for stem in sentence.stems)
    vectors = np.array([sentence.vector for sentence in sentences])
    return _Context(sentences, tuple(place for _, place in by_text.values()), vectors, frequency)


@lru_cache(maxsize=4096)  # the same pairs come back with every question about a conversation
def _read_passage(text: str) -> list[Sentence]:
    """Read one passage without its code. Sentences with fewer than two content words are left out."""
    user, lines = True, list[tuple[str, bool]]()
    for line in split_sentences(CODE.sub("\n", text)):
        speaker, mark, rest = line.partition(":")
        if mark and speaker in ("USER", "ASSISTANT"):
            user, line = speaker == "USER", rest.strip()
        lines.append((line, user))
    return [sentence for sentence in _read_texts(lines) if len(sentence.stems) > 1]


def _read_texts(texts: Sequence[tuple[str, bool]]) -> list[Sentence]:
    """Read sentences, each with whether the user said it. The vector of one without a known word is 0."""
    known, words = lexicon(), [WORD.findall(text) for text, _ in texts]
    sizes = np.array([len(own) for own in words], dtype=np.int64)
    numbers = np.array(known.numbers([word for own in words for word in own]), dtype=np.int64)
    sums = sum_vectors(known.vectors[numbers], sizes)
    vectors = sums / np.maximum(np.sqrt(np.einsum("ij,ij->i", sums, sums)), 1e-6)[:, None]
    stems = [frozenset(known.stems[known[word]] for word in own) - {""} for own in words]
    return [Sentence(text, own, vector, user) for (text, user), own, vector in zip(texts, stems, vectors, strict=True)]
