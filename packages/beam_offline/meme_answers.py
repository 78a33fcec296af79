"""The stand-in's answers over what a memory of changing facts recalls: by extraction, from question and context alone.

A question asks for what holds now, for all that held over time, for everything about some things, or for a text word
for word. Of several statements about the same thing the newest counts, by the dates that stand in the context. What is
only supposed ("if X changes, Y will be Z") is no state until X was told anew, and what the user asked to forget is not
told.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

from beam_offline.answer_wording import MISSING, cut, plain, to_user
from beam_offline.context import USER, Block, ContextHit, ReadContext, Search, Unit, sentences_of
from beam_offline.dated_context import Piece, State, read_pieces
from beam_offline.question import read_question
from beam_offline.read_facts import stem, stems
from beam_offline.told_facts import Statement, statements_of

_WORD_FOR_WORD = re.compile(
    r"\b(?:word for word|verbatim|recite|quote|letter (?:by|for) letter|"
    r"exact(?:ly as| (?:text|words|wording|string)))\b",
    re.IGNORECASE,
)
_OVER_TIME = re.compile(
    r"\bover time\b|\bso far\b|\bhistory\b|\b(?:chronological|in|time) order\b|\btimeline\b|\bchronolog|"
    r"\bfrom (?:the )?(?:first|earliest|oldest|beginning|start)\b|"
    r"\b(?:all|each|every) (?:of )?(?:the |my |our )?[\w-]+ (?:that )?(?:I|we)(?:'ve| have| had)?\b|"
    r"\b(?:ever|previous(?:ly)?|past|since the beginning)\b",
    re.IGNORECASE,
)
_EVERYTHING = re.compile(
    r"\beverything\b|\boverview\b|\b(?:all|what(?:ever)?) (?:that )?(?:you |do you |we )?(?:know|remember|recall)\b"
    r"|\bsummar|\bgather\b|\ball (?:the )?(?:details|facts|information)\b",
    re.IGNORECASE,
)
_ASKING_TEXT = """
list time history order timeline chronological first earliest oldest latest newest current currently recent everything
overview know remember recall summary summarize gather detail fact information recite word quote verbatim letter exact
exactly full text string name complete previous previously past beginning start point value one present today
moment go come
"""
_ASKING = frozenset(stem(word) for word in _ASKING_TEXT.split())

_FORGET = re.compile(
    r"\b(?:delete|erase|remove|wipe|drop|clear|strike)\b[^?]*\b(?:memory|memories|your (?:notes|records?|mind))\b"
    r"|\b(?:please|can you|could you|want you to|like you to|you (?:should|can)|just)\b[^.?!]*\bforget\b"
    r"|^\W*forget\b(?! to)|\bno longer (?:keep|store|remember)\b|\b(?:don't|do not) (?:keep|store|remember)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""The user asks that something be forgotten."""

_GROUNDS = re.compile(
    r"[\s,;:(—–-]*\b(?:"
    r"(?:and |so |but |then )*(?:if|once|when(?:ever)?|unless|in case|as soon as|should)\b"
    r"(?= (?:I|we|it|that|this|the|my|our|"
    r"he|she|they|you|[\w' -]{1,60}? (?:chang|mov|switch|leav|get|becom)))"
    r"|(?:which |that |it |this |and |all of that |so )*(?:depend\w*|hing\w*|(?<!\bI )(?<!\bwe )rel(?:y|ies)|rests?) "
    r"(?:up)?on\b"
    r"|(?:which |that |it |this |and )*(?:is|are|was|'s) (?:tied|linked|bound|coupled|due) to\b"
    r"|because|since (?=I|we|my|our|the)|as long as|so long as|thanks to|due to|based on)",
    re.IGNORECASE,
)
"""Where a statement ends, and its grounds or a condition begin."""

_TITLE = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof|St|No|vs|e\.g|i\.e)\.$")

_ENOUGH = 0.5
"""Share of the question's weight that a statement has to cover."""

_AS_GOOD = 0.75
"""A later statement replaces the best one from this share of its score on."""

_SAME_THING = 0.6
_FRAGMENT = 3
"""Words before a condition or grounds that state nothing: "for medical reasons it depends on ..."."""

_WORDS = 60
_MOST = 20


def meme_answer(variables: Mapping[str, str]) -> str:
    """Reply to the prompt `meme_answer`."""
    memory = _read(variables["context"])
    question = variables["question"]
    if not memory.pieces:
        return MISSING
    if _WORD_FOR_WORD.search(question):
        return memory.verbatim(_topic(question))
    if _OVER_TIME.search(question):
        return memory.history(_topic(question))
    if _EVERYTHING.search(question):
        return memory.everything(question)
    return memory.current(_topic(question)) or MISSING


def _topic(question: str) -> tuple[str, ...]:
    """Content stems of a question, without those that only say how it is to be answered."""
    words = tuple(dict.fromkeys(stems(question)))
    return tuple(word for word in words if word not in _ASKING) or words or read_question(question).topic


@lru_cache(maxsize=8)
def _read(context: str) -> _Recalled:
    return _Recalled(read_pieces(context))


class _Recalled:
    """What was recalled, oldest first: pieces, the statements in each, and a search over them."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        blocks = tuple(_block(number, piece) for number, piece in enumerate(pieces))
        frequency = Counter(word for block in blocks for unit in block.units for word in unit.stems)
        self._search = Search(ReadContext(blocks, frequency, sum(len(block.units) for block in blocks)))

    def current(self, topic: Sequence[str]) -> str:
        """What holds now, or "" where nothing tells."""
        hits = self._hits(topic)
        good = [hit for hit in hits if hit.score >= _AS_GOOD * hits[0].score]
        states = [state for hit in good if (state := self._piece(hit).state) is not None]
        said = [hit for hit in good if self._piece(hit).state is None]
        newest = max(said, key=lambda hit: (hit.block.first, hit.score), default=None)
        if newest is not None and _forgotten(self._piece(newest)):
            return ""
        if states:
            return _stated(states[0])
        return self._supposed(topic, newest.block.first) or _said(newest) if newest else ""

    def _supposed(self, topic: Sequence[str], told: int) -> str:
        """What follows where the thing was said to hang on another, and that changed after it was `told`; else ""."""
        ties = [one for _, one in self._ties if _share(topic, one.subject) >= _SAME_THING]
        if not any(self._changed_since(one.source, told) for one in ties):
            return ""
        tie = next((one for one in reversed(ties) if one.value), ties[-1])
        if tie.value:
            return f"{tie.subject[:1].upper()}{tie.subject[1:]}: {cut(tie.value, _WORDS)}"
        return f"I'm not sure about {tie.subject}: it depended on {tie.source}, and that has changed."

    def _changed_since(self, name: str, place: int, depth: int = 3) -> bool:
        """Whether a thing was told anew after a piece, or what it hangs on was."""
        same = frozenset(stems(name))
        anew = (n > place and one.kind in ("fact", "change") and _named(one) == same for n, one in self._told)
        if any(anew):
            return True
        above = dict.fromkeys(one.source for _, one in self._ties if _named(one) == same) if depth else ()
        return any(self._changed_since(source, place, depth - 1) for source in above)

    @cached_property
    def _told(self) -> list[tuple[int, Statement]]:
        """What was told of things of the user's, by the place of its piece."""
        found: list[tuple[int, Statement]] = []
        known: dict[str, str] = {}
        for place, piece in enumerate(self.pieces):
            for one in statements_of(piece.text, known) if piece.state is None else ():
                found.append((place, one))
                known |= {one.subject: one.value} if one.kind in ("fact", "change") else {}
        return found

    @property
    def _ties(self) -> list[tuple[int, Statement]]:
        """What was said to hang on what."""
        return [(place, one) for place, one in self._told if one.kind == "dependency"]

    def history(self, topic: Sequence[str]) -> str:
        """All that held, in order of time."""
        hits = self._hits(topic)
        if not hits or _forgotten(self._piece(max(hits, key=lambda hit: hit.block.first))):
            return MISSING
        good = [hit for hit in hits if hit.score >= _SAME_THING * hits[0].score]
        states = [state for hit in good if (state := self._piece(hit).state) is not None][:1]
        told = [entry for state in states for entry in state.values]
        said: dict[int, ContextHit] = {}
        for hit in good:
            known = any(value in self._piece(hit).text for _, value in told)
            if self._piece(hit).state is None and not known:
                said.setdefault(hit.block.first, hit)
        told += [(self._piece(said[number]).when, _said(said[number])) for number in sorted(said)]
        texts = dict.fromkeys(text for _, text in sorted(told, key=lambda entry: entry[0]))
        lines = [f"{number}. {text}" for number, text in enumerate(texts, start=1)]
        return "In order of time:\n" + "\n".join(lines[-_MOST:])

    def everything(self, question: str) -> str:
        """What holds now of each thing that the question names, then what else bears on all of it."""
        parts = [_topic(part) for part in re.split(r"[,;:]|\band\b|\bor\b", question)]
        topic = _topic(question)
        found = [self.current(part) for part in parts if part and not _ASKING.issuperset(part)]
        newest: dict[str, ContextHit] = {}
        for hit in self._hits(topic, 0.25):
            if not _forgotten(self._piece(hit)) and self._piece(hit).state is None:
                newest.setdefault(_said(hit), hit)
        found += [text for text, _ in sorted(newest.items(), key=lambda entry: entry[1].block.first)]
        told = list(dict.fromkeys(text for text in found if text))[:_MOST]
        return "\n".join(f"- {text}" for text in told) or MISSING

    def verbatim(self, topic: Sequence[str]) -> str:
        """The text that was to be kept as it stands."""
        texts = [piece.text for piece in self.pieces]
        shares = [self._search.block_coverage(topic, block) for block in self._search.blocks]
        places = [place for place, share in enumerate(shares) if share >= _ENOUGH]
        held = [place for place in places if _quoted(texts[place])] or places
        if not held:
            return MISSING
        best = max(held, key=lambda place: (shares[place] >= _AS_GOOD * max(shares), place))
        return MISSING if _forgotten(self.pieces[best]) else _quoted(texts[best]) or texts[best]

    def _hits(self, topic: Sequence[str], enough: float = _ENOUGH) -> list[ContextHit]:
        """Statements that cover enough of the topic, by weight and by number of words, best first."""
        least = enough * len(topic)
        hits = [hit for hit in self._search.hits(topic) if hit.score >= enough]
        return [hit for hit in hits if len(hit.unit.stems.intersection(topic)) >= least or _forgotten(self._piece(hit))]

    def _piece(self, hit: ContextHit) -> Piece:
        return self.pieces[hit.block.first]


def _named(statement: Statement) -> frozenset[str]:
    return frozenset(stems(statement.subject))


def _share(topic: Sequence[str], subject: str) -> float:
    """How many of the words of either name the other has."""
    own, asked = frozenset(stems(subject)), frozenset(topic)
    return len(own & asked) / max(len(own), len(asked), 1)


def _block(number: int, piece: Piece) -> Block:
    """A piece as the search sees it: its statements, without questions and without what is only supposed."""
    if piece.state is not None:
        named = frozenset(stems(piece.state.subject))
        return Block(number, (Unit(piece.text, USER, named, piece.text, named),) if named else (), (), frozenset())
    units = [unit for sentence in _sentences(piece.text) for unit in _units(sentence)]
    return Block(number, tuple(units), (), frozenset(stems(piece.text)) if _forgotten(piece) else frozenset())


def _sentences(text: str) -> list[str]:
    """The sentences of a text; a title such as "Dr." ends none."""
    found: list[str] = []
    for sentence in sentences_of(text):
        if found and _TITLE.search(found[-1]):
            found[-1] = f"{found[-1]} {sentence}"
        else:
            found.append(sentence)
    return found


def _units(sentence: str) -> list[Unit]:
    if sentence.rstrip("\"')* ").endswith("?"):
        return []
    grounds = _GROUNDS.search(sentence)
    claim = (sentence[: grounds.start()] if grounds else sentence).strip()
    own = frozenset(stems(claim) if grounds is None or len(claim.split()) > _FRAGMENT else ())
    return [Unit(claim, USER, own, claim, own)] if own else []


def _forgotten(piece: Piece) -> bool:
    return piece.state is None and _FORGET.search(piece.text) is not None


def _stated(state: State | None) -> str:
    """What a line of a memory's own tells of its subject."""
    if state is None or state.gone:
        return ""
    if state.uncertain:
        return f"I'm not sure about {state.subject}: {state.doubt}."
    return f"{state.subject[:1].upper()}{state.subject[1:]}: {state.value}"


def _said(hit: ContextHit) -> str:
    text = cut(to_user(plain(hit.unit.text)), _WORDS).rstrip(" ,;:")
    return f"{text[:1].upper()}{text[1:]}"


def _quoted(text: str) -> str:
    """What stands between marks in a text, or after a colon where it goes on in the next line; "" where neither is."""
    found = re.search(r"```[^\n`]*\n(.+?)\n?```", text, re.DOTALL) or re.search(
        r"[\"“](.{12,}?)[\"”](?=\s|[.,;!?]|$)(?![^\n]*[\"“”])", text, re.DOTALL
    )
    if found:
        return found[1]
    after = re.search(r":[ \t]*\n+(.+)", text, re.DOTALL)
    return after[1].strip() if after else ""
