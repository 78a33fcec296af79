"""The stand-in's note-keeping: notes on a pair, shorter notes, and whether notes bear on a question."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from beam_offline.answer_wording import cut, opens_point, plain
from beam_offline.context import ADVISED, USER, Unit, sentences_of, spoken, units_of
from beam_offline.cues import ASKING, DIRECTED, FIRST_PERSON, NEVER, NEWS, PREFERENCE, STANDING
from beam_offline.question import QuestionKind, read_question
from beam_offline.read_facts import find_dates, find_numbers, stems
from beamlib.text import count_tokens

_HEADER = re.compile(r"(?:- )?(\[messages \d+-\d+\])\s*")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z]\w+")
_LINE_WORDS = 34
_PAIR_TOKENS = 75
_ADVICE_WORDS = 24
_LINES = 4
_WORTH_NOTING = 1.0

_BEARS = 0.25
"""Share of a question's words that a chunk must hold to be kept, if it holds at least two of them."""

_SAME = 0.8
"""Jaccard similarity from which two notes are about the same, figures apart, so that the newer replaces the older."""


def salience(text: str) -> float:
    """How much a statement is worth keeping: rules and choices first, then dates, amounts and facts about the user."""
    rule = STANDING.search(text) or DIRECTED.search(text)
    score = 4.0 * (rule is not None) + 3.0 * (NEVER.search(text) is not None)
    score += 2.0 * (PREFERENCE.search(text) is not None) + 2.0 * bool(find_dates(text))
    score += 1.5 * bool(find_numbers(text)) + 0.5 * (NEWS.search(text) is not None)
    score += 1.0 * (FIRST_PERSON.search(text) is not None) + 0.3 * min(len(_NAME.findall(text)), 3)
    return score - 2.0 * (ASKING.search(text) is not None) - 1.5 * (len(set(stems(text))) < 3)


def scratchpad_notes(variables: Mapping[str, str]) -> str:
    """Reply to `scratchpad_notes`: up to four lines "- [messages a-b] ...", the user's statements and one of advice.

    The last line names the points of the assistant's reply, by its headings, where it has any. The history adds
    nothing here: what a pronoun refers to is beyond these rules.
    """
    pair = variables["pair"].strip()
    header = _HEADER.match(pair)
    mark = f"- {header[1]} " if header else "- "
    user, assistant = spoken(pair)
    units = units_of(user, USER)
    ranked = sorted(((salience(unit.text), -i) for i, unit in enumerate(units)), reverse=True)
    chosen: list[int] = []
    left = _PAIR_TOKENS
    for score, negative in ranked[:_LINES]:
        cost = count_tokens(mark) + count_tokens(cut(units[-negative].text, _LINE_WORDS))
        if score >= _WORTH_NOTING and cost <= left:
            chosen.append(-negative)
            left -= cost
    lines = _joined(units, sorted(chosen))
    if len(lines) < _LINES and (points := _points(assistant)):
        lines.append(ADVISED + cut("; ".join(dict.fromkeys(points)), _ADVICE_WORDS))
    return "\n".join(mark + line for line in lines)


def _points(assistant: str) -> list[str]:
    """The points that a reply opens. Most of a reply's sentences open none, and are not read any further."""
    found = [sentence for sentence in sentences_of(assistant) if opens_point(sentence) and stems(sentence)]
    return [plain(sentence).rstrip(":") for sentence in found]


def _joined(units: list[Unit], chosen: list[int]) -> list[str]:
    """The chosen statements, neighbours of one sentence put together again."""
    lines: list[str] = []
    for position, index in enumerate(chosen):
        text = cut(units[index].text, _LINE_WORDS)
        before = chosen[position - 1] if position else -2
        if lines and before == index - 1 and units[before].sentence == units[index].sentence:
            lines[-1] = f"{lines[-1]}, {text}"
        else:
            lines.append(text)
    return lines


@dataclass(frozen=True, slots=True)
class _Note:
    position: int
    line: str
    tokens: int
    words: frozenset[str]
    salience: float


@lru_cache(maxsize=8192)
def _note_parts(line: str) -> tuple[int, frozenset[str], float]:
    text = _HEADER.sub("", line, count=1)
    words = frozenset(stem for stem in stems(text) if not stem[0].isdigit())
    return count_tokens(line), words, salience(text)


def scratchpad_compress(variables: Mapping[str, str]) -> str:
    """Reply to `scratchpad_compress`: the most salient notes within `target_tokens`, in their order.

    Of notes about the same thing the newest stays; recent notes count somewhat more than old ones.
    """
    lines = [line for line in variables["notes"].splitlines() if line.strip()]
    notes = [_Note(position, line, *_note_parts(line)) for position, line in enumerate(lines)]
    kept = _newest_of_same(notes)
    left = int(variables["target_tokens"])
    chosen: list[_Note] = []
    for note in sorted(kept, key=lambda note: (-(note.salience + note.position / len(lines)), note.position)):
        if note.tokens <= left:
            chosen.append(note)
            left -= note.tokens
    return "\n".join(note.line for note in sorted(chosen, key=lambda note: note.position))


def _newest_of_same(notes: Sequence[_Note]) -> list[_Note]:
    """`notes`, newest first, without those that are about the same as a newer one.

    Notes about the same share at least `_SAME` of either's words. With the words of all put in one order, two such
    notes therefore have a word in common among the first few of each, and only notes that do are compared: a hundredth
    of all pairs, where ten million tokens make tens of millions of them.
    """
    holders = Counter(word for note in notes for word in note.words)
    kept: list[_Note] = []
    by_word: dict[str, list[_Note]] = {}
    for note in reversed(notes):
        rarest = sorted(note.words, key=lambda word: (holders[word], word))
        first = rarest[: len(rarest) - ceil(_SAME * len(rarest)) + 1]
        if not any(_about_same(note, newer) for word in first for newer in by_word.get(word, ())):
            kept.append(note)
            for word in first:
                by_word.setdefault(word, []).append(note)
    return kept


def _about_same(one: _Note, other: _Note) -> bool:
    short, long = sorted((len(one.words), len(other.words)))
    return short >= _SAME * long > 0 and len(one.words & other.words) >= _SAME * len(one.words | other.words)


@lru_cache(maxsize=4096)
def _chunk_parts(chunk: str) -> tuple[frozenset[str], bool]:
    lines = [_HEADER.sub("", line, count=1) for line in chunk.splitlines()]
    rules = any(STANDING.search(line) is not None or DIRECTED.search(line) is not None for line in lines)
    return frozenset(stem for line in lines for stem in stems(line)), rules


def scratchpad_filter(variables: Mapping[str, str]) -> str:
    """Reply to `scratchpad_filter`: `yes` where the chunk shares enough of the question's words, or holds a rule.

    Rare words count more; without a corpus at hand, a word's length stands in for its rarity.
    """
    present, rules = _chunk_parts(variables["chunk"])
    question = read_question(variables["question"])
    matched = [word for word in question.topic if word in present]
    share = sum(map(len, matched)) / max(sum(map(len, question.topic)), 1)
    broad = question.kind in (QuestionKind.ORDER, QuestionKind.SUMMARY, QuestionKind.COUNT)
    bears = share >= _BEARS and (len(matched) >= 2 or share >= 2 * _BEARS or broad)
    return "yes" if rules or bears else "no"
