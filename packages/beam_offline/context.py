"""The reader's view of a context: blocks (pairs, notes, loose text) and the statements in them, in order of mention."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from beam_offline.read_facts import stems
from beamlib.text import split_sentences

USER, ASSISTANT = "user", "assistant"

ADVISED = "The assistant suggested: "
"""How a note begins that tells what the assistant said; other notes are in the user's words."""

_BLOCK = re.compile(r"^(?=(?:- )?\[messages \d+-\d+\])|(?<!\]\n)^(?=USER: )", re.MULTILINE)
_HEADER = re.compile(r"(?:- )?\[messages (\d+)-(\d+)\]\s*")
_CODE = re.compile(r"```[^\n`]*\n.*?(?:```|\Z)", re.DOTALL)
_MARKER = re.compile(r"->->.*")
_CLAUSE = re.compile(
    r"[,;]\s+(?=(?:and |but |so |or )?(?:I|I'm|I've|I'd|my|can|could|which|but|so|especially|considering|however|"
    r"including|given|what|how|while|because|since|maybe|also|or)\b)| - |(?<=\w)\s+(?=but I)|\s+(?=so I'm )"
)
_ITEM = re.compile(r"^([ \t]*(?:#+ )?(?:\*\*)?\d+)\. ", re.MULTILINE)  # "1. Name" would be split after its number
_LONG = 160  # characters; shorter sentences are single statements


@dataclass(frozen=True, slots=True)
class Unit:
    """One statement: a clause of what the user said or a sentence of what the assistant said.

    `stems` are its own content stems, `sentence` and `wide` the sentence around it and that one's stems.
    """

    text: str
    role: str
    stems: frozenset[str]
    sentence: str
    wide: frozenset[str]


@dataclass(frozen=True, slots=True)
class Block:
    """A pair, a note or loose text. `first` is the id of its first message, -1 where the text has none."""

    first: int
    units: tuple[Unit, ...]
    code: tuple[str, ...]
    user_stems: frozenset[str]

    def said_by(self, role: str) -> list[Unit]:
        return [unit for unit in self.units if unit.role == role]


def sentences_of(text: str) -> list[str]:
    """The sentences of what somebody said; a numbered item stays with its number."""
    return split_sentences(_ITEM.sub(r"\1) ", text))


def units_of(text: str, role: str) -> list[Unit]:
    """The statements in what `role` said."""
    found = []
    for sentence in sentences_of(text):
        wide = frozenset(stems(sentence))
        if not wide:
            continue
        if role == ASSISTANT or len(sentence) <= _LONG:
            found.append(Unit(sentence, role, wide, sentence, wide))
            continue
        for clause in _CLAUSE.split(sentence):
            if own := frozenset(stems(clause)):
                found.append(Unit(clause.strip(), role, own, sentence, wide))
    return found


def spoken(text: str) -> tuple[str, str]:
    """What the user and what the assistant say in a block, without header, code and markers."""
    return _spoken(_body(text))


def _body(text: str) -> str:
    header = _HEADER.match(text)
    return _MARKER.sub("", text[header.end() :] if header else text)


def _spoken(body: str) -> tuple[str, str]:
    user, _, assistant = _CODE.sub("\n", body).partition("\nASSISTANT:")
    if body.startswith(ADVISED):
        user, assistant = "", user
    return user.removeprefix("USER:").strip(), assistant.strip()


@lru_cache(maxsize=4096)
def read_block(text: str) -> Block:
    """Read one block. Cached because the same pairs come back with every question about a conversation."""
    header = _HEADER.match(text)
    body = _body(text)
    user, assistant = _spoken(body)
    units = units_of(user, USER) + units_of(assistant, ASSISTANT)
    spoken_by_user = frozenset[str]().union(*(unit.stems for unit in units if unit.role == USER))
    return Block(int(header[1]) if header else -1, tuple(units), tuple(_CODE.findall(body)), spoken_by_user)


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The blocks of a context in order of mention, and in how many of the `size` units each stem stands."""

    blocks: tuple[Block, ...]
    frequency: Mapping[str, int]
    size: int


@lru_cache(maxsize=8)
def read_context(context: str) -> ReadContext:
    """Read `context`: blocks by message id, loose text staying where it stands; no repeats."""
    blocks: list[tuple[int, int, Block]] = []
    last = -1
    for position, piece in enumerate(dict.fromkeys(part.strip() for part in _BLOCK.split(context))):
        if piece:
            block = read_block(piece)
            last = block.first if block.first >= 0 else last
            blocks.append((last, position, block))
    ordered = tuple(block for _, _, block in sorted(blocks, key=lambda entry: entry[:2]))
    frequency = Counter(stem for block in ordered for unit in block.units for stem in unit.stems)
    return ReadContext(ordered, frequency, sum(len(block.units) for block in ordered))


@dataclass(frozen=True, slots=True)
class ContextHit:
    """A unit and how well it covers what was looked for (0 to 1)."""

    score: float
    block: Block
    unit: Unit


class Search:
    """Weighted lexical search in one context.

    A stem weighs more the fewer units hold it; a stem that no unit holds weighs as much as one that two units hold, so
    that words of the question that the context does not share count against an answer without drowning the others.
    """

    def __init__(self, context: ReadContext) -> None:
        self.context = context
        self.blocks = context.blocks

    def weight(self, stem: str) -> float:
        holding = self.context.frequency.get(stem, 2)
        return max(math.log((self.context.size + 2) / (holding + 0.5)), 0.2)

    def coverage(self, wanted: Iterable[str], block: Block, unit: Unit) -> float:
        """Share of the weight of `wanted` in `unit`; words of its sentence count 0.75, of the user's message 0.3."""
        return self._cover([(stem, self.weight(stem)) for stem in wanted], block, unit)

    def _cover(self, wanted: Sequence[tuple[str, float]], block: Block, unit: Unit) -> float:
        total = got = 0.0
        for stem, weight in wanted:
            total += weight
            if stem in unit.stems:
                got += weight
            elif stem in unit.wide:
                got += 0.75 * weight
            elif stem in block.user_stems:
                got += 0.3 * weight
        return got / total if total else 0.0

    def block_coverage(self, wanted: Iterable[str], block: Block) -> float:
        """Share of the weight of `wanted` in all that `block` says."""
        total = got = 0.0
        for stem in wanted:
            weight = self.weight(stem)
            total += weight
            got += weight * any(stem in unit.stems for unit in block.units)
        return got / total if total else 0.0

    def hits(self, wanted: Sequence[str], role: str | None = None) -> list[ContextHit]:
        """Units that share something with `wanted`, best first; among equals the earlier comes first."""
        sought = frozenset(wanted)
        weighted = [(stem, self.weight(stem)) for stem in wanted]
        found = [
            ContextHit(self._cover(weighted, block, unit), block, unit)
            for block in self.blocks
            for unit in block.units
            if (role is None or unit.role == role) and not sought.isdisjoint(unit.wide)
        ]
        return sorted(found, key=lambda hit: -hit.score)
