"""The stand-in's note-keeping for LIGHT: keys and notes of a pair, shorter notes, and whether notes bear on a question.

Keys and notes are sentences of the conversation. What they are worth is a count of their words, names and numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from beam_generate.read_facts import stems
from beamlib.text import count_tokens, split_sentences

MOST_SENTENCES: Final = 80
"""Sentences of one user message that become keys; only pasted documents have more."""

MOST_OF_SENTENCE: Final = 800
"""Of one key."""

CODE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
HEADER: Final = re.compile(r"(?:- )?(\[messages (\d+)-\d+\])\s*")

_NAME = re.compile(r"(?<=[a-z,;:)] )[A-Z][\w.&'-]*\w(?: [A-Z][\w.&'-]*\w)*")
_FIGURE = re.compile(r"[$€£]?\d(?:[\d.,:]*\d)?%?")
_LIST_MARK = re.compile(r"^(?:[-*•#>|]+\s*|\d+[.)]\s+)+")
_PIECE = re.compile(r"^(\d+)\.$", re.MULTILINE)
_LEAST = 3.0
"""Information that a sentence must have to be noted."""
_TOKENS_OF_USER, _TOKENS_OF_ASSISTANT = 75, 40
"""Tokens of a pair's notes, for what each side said."""
_LINE_WORDS = 34
_BEARS = 0.25
"""Share of a question's words that notes must hold to bear on it, if they hold at least two of them."""


def episodic_keys(variables: Mapping[str, str]) -> str:
    """Reply to `episodic_keys`: a line `said:` for each sentence of the user outside code.

    Then the names and the figures in them, a line each. The assistant's answer adds nothing: on the developers'
    conversations neither its headings nor the whole of it led to more evidence.
    """
    message = variables["pair"].partition("USER: ")[2].partition("\nASSISTANT: ")[0]
    user = CODE.sub("\n", message)
    sentences = split_sentences(user)[:MOST_SENTENCES] or [message]  # a message of code alone is its own key
    lines = [f"said: {' '.join(sentence.split())}" for sentence in sentences]
    for label, pattern in (("names", _NAME), ("figures", _FIGURE)):
        if listed := "; ".join(dict.fromkeys(pattern.findall(user))):
            lines.append(f"{label}: {listed}")
    return "\n".join(line[:MOST_OF_SENTENCE] for line in lines)


def information(sentence: str) -> float:
    """Return how much a sentence is worth keeping: its words, names and figures; of a question a quarter counts."""
    worth = len(set(stems(sentence))) + 2 * len({*_NAME.findall(sentence), *_FIGURE.findall(sentence)})
    return worth / 4 if sentence.endswith("?") else worth


def scratchpad_notes(variables: Mapping[str, str]) -> str:
    """Reply to `scratchpad_notes`: lines "- [messages a-b] ..." with the most informative sentences of each side.

    The history is not used: what a pronoun refers to is beyond a count of words.
    """
    pair = variables["pair"].strip()
    header = HEADER.match(pair)
    mark = f"- {header[1]} " if header else "- "
    user, _, assistant = CODE.sub("\n", pair[header.end() :] if header else pair).partition("\nASSISTANT:")
    lines = [
        *_notes_of(user.removeprefix("USER:"), mark, _TOKENS_OF_USER),
        *_notes_of(assistant, f"{mark}The assistant: ", _TOKENS_OF_ASSISTANT),
    ]
    return "\n".join(lines)


def _notes_of(text: str, mark: str, tokens: int) -> list[str]:
    """The sentences of `text` with the most information, in order, each after `mark`."""
    sentences = [_LIST_MARK.sub("", sentence).replace("**", "") for sentence in split_sentences(text)]
    worth = {sentence: information(sentence) for sentence in sentences}
    kept = [sentence for sentence in worth if worth[sentence] >= _LEAST]
    lines = [mark + " ".join(sentence.split()[:_LINE_WORDS]) for sentence in kept]
    return _within(lines, [worth[sentence] for sentence in kept], tokens)


def _within(lines: Sequence[str], worth: Sequence[float], tokens: int) -> list[str]:
    """The lines of most worth that fit into `tokens`, in their order."""
    chosen = []
    for at in sorted(range(len(lines)), key=lambda at: -worth[at]):
        size = count_tokens(lines[at])
        if size <= tokens:
            chosen.append(at)
            tokens -= size
    return [lines[at] for at in sorted(chosen)]


def scratchpad_compress(variables: Mapping[str, str]) -> str:
    """Reply to `scratchpad_compress`: the notes with the rarest words within `target_tokens`, in their order."""
    lines = [line for line in variables["notes"].splitlines() if line.strip()]
    words = [frozenset(stems(HEADER.sub("", line, count=1))) for line in lines]
    holding = Counter(word for own in words for word in own)
    worth = [sum(math.log(len(lines) / holding[word]) for word in sorted(own)) for own in words]
    return "\n".join(_within(lines, worth, int(variables["target_tokens"])))


@lru_cache(maxsize=4096)  # the same chunks are asked about for every question
def _stems_of(notes: str) -> frozenset[str]:
    return frozenset(stem for line in notes.splitlines() for stem in stems(HEADER.sub("", line, count=1)))


def filter_batch(variables: Mapping[str, str]) -> str:
    """Reply to `filter_batch`: the numbers of the pieces that `scratchpad_filter` keeps, as a JSON list."""
    pieces = _PIECE.split(variables["chunks"])[1:]  # number and text in turn
    question = variables["question"]
    kept = [
        int(number)
        for number, text in zip(pieces[::2], pieces[1::2], strict=True)
        if scratchpad_filter({"question": question, "chunk": text}) == "yes"
    ]
    return json.dumps(kept)


def scratchpad_filter(variables: Mapping[str, str]) -> str:
    """Reply to `scratchpad_filter`: `yes` where the notes share enough words with the question.

    Rare words count more; without a corpus, a word's length stands in for its rarity.
    """
    words = frozenset(stems(variables["question"]))
    shared = words & _stems_of(variables["chunk"])
    share = sum(map(len, shared)) / max(sum(map(len, words)), 1)
    return "yes" if share >= 2 * _BEARS or (share >= _BEARS and len(shared) > 1) else "no"
