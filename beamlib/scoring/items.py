"""Cut an event-ordering answer into the events that it lists.

The released code splits at line breaks only, so that a heading, a blank line or a list on one line spoils the score.
Here numbering, bullets, headings and the text around the list are removed, and enumerations within a line or in
sentences ("first a, then b") are split. These are rules: the result depends on the answer alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from beamlib.text import split_sentences

_EMPHASIS = re.compile(r"\*\*|__|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)")
_HEADING = re.compile(r"#{1,6}\s|[-=*_]{3,}\s*$")
_NUMBER = re.compile(
    r"(?:(?:step|item|event)\s+)?(?:\(\d{1,3}\)|\d{1,3}[.):]|[a-zA-Z]\)|\([a-z]\))(?:\s+|$)", re.IGNORECASE
)
_BULLET = re.compile(r"[-*+•–—◦‣▪]\s+")
_HASHES = re.compile(r"#{1,6}\s+")
_TABLE_RULE = re.compile(r"[\s:|-]+")
_CLOSING = re.compile(
    r"(?:let me know|i hope|hope this|feel free|please (?:let|note)|if you(?:'d| would| want| need))\b", re.IGNORECASE
)
_INLINE_NUMBER = re.compile(r"(?:(?<=\s)|^|(?<=[,;:(]))\(?(\d{1,2})[.)](?=\s|[A-Za-z])")
_CONNECTIVE = r"then|next|after that|afterwards?|later(?: on)?|subsequently|eventually|finally|lastly"
_ORDINAL = r"first(?:ly)?|second(?:ly)?|third(?:ly)?|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last"
_CLAUSE = r"(?:\A|[,;]\s*|\s[–—-]\s)(?:and\s|but\s)?"
_WITHIN = r"\s(?:and\s)?(?:then|followed by)\b\s?[,:]?\s"
# An ordinal is often part of an event ("first draft"), so it needs a comma or colon, or a "first ... second" around it.
_SEQUENCE = re.compile(
    rf"{_CLAUSE}(?:(?:{_CONNECTIVE})\b\s?[,:]?|followed by|(?:{_ORDINAL})[,:])\s|{_WITHIN}", re.IGNORECASE
)
_COUNTED = re.compile(rf"{_CLAUSE}(?:{_CONNECTIVE}|{_ORDINAL})\b\s?[,:]?\s|{_WITHIN}", re.IGNORECASE)
_OPENER = re.compile(r"\A(?:(?:you|we|i|the user)\s+)?first(?:ly)?\b\s*[,:]?\s*", re.IGNORECASE)
_SURE_OPENER = re.compile(r"\A(?:(?:you|we|i|the user)\s+first(?:ly)?\b|first(?:ly)?[,:])", re.IGNORECASE)
_SECOND = re.compile(r"\bsecond(?:ly)?\b", re.IGNORECASE)
_ARROW = re.compile(r"\s*(?:->|→|=>|⇒)\s*")
_LEAD = " ,;:.\"'“”"
_TRAIL = " ,;:\"'“”"
_LAST_WORD = re.compile(r"[,;]\s?(?:and|then|or)\Z", re.IGNORECASE)


def parse_items(answer: str) -> list[str]:
    """Return the events that an answer lists, in order, none empty."""
    rows = _table_rows(answer) or _list_rows(answer)
    if len(rows) > 1:
        return _clean(rows)
    lines = [text for line in answer.splitlines() if (text := _plain(line))]
    return _clean(_inline_items(" ".join(lines)) or _prose_items(rows or lines))


def without_marks(line: str) -> str:
    """Strip number, bullet, bold type and joining marks from a line, as for a list item; empty for a heading."""
    row = _row(line)
    return next(iter(_clean([row.text if row else _plain(line)])), "")


def _clean(items: list[str]) -> list[str]:
    """Strip what joins items to their neighbours: commas, quotes, a full stop, a last "and"."""
    cleaned = []
    for item in items:
        text = _LAST_WORD.sub("", " ".join(_EMPHASIS.sub("", item).split()).strip(_TRAIL))
        cleaned.append(text.lstrip(_LEAD).rstrip(_TRAIL).removesuffix(".").rstrip(_TRAIL))
    return list(filter(None, cleaned))


def _plain(line: str) -> str:
    """Strip a line's markup; empty for a heading, a rule or a code fence."""
    text = line.strip()
    return "" if text.startswith("```") or _HEADING.match(text) else " ".join(_EMPHASIS.sub("", text).split())


@dataclass(slots=True)
class _Row:
    """A line of a list."""

    numbered: bool
    indent: int
    text: str


def _row(line: str) -> _Row | None:
    indent = len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
    text = _HASHES.sub("", line.strip(), count=1)  # "### 1. Title" is an item, a heading without a number is not
    if _BULLET.match(text) is None:
        text = _EMPHASIS.sub("", text).strip()
    numbered = _NUMBER.match(text)
    if numbered:
        return _Row(True, indent, text[numbered.end() :])
    bullet = _BULLET.match(text)
    if bullet is None or _HEADING.match(line.strip()):
        return None
    rest = _EMPHASIS.sub("", text[bullet.end() :])
    inner = _NUMBER.match(rest)
    return _Row(inner is not None, indent, rest[inner.end() :] if inner else rest)


def _list_rows(answer: str) -> list[str]:
    """Return the outermost rows of a list, each with the details below it; empty without a list.

    Text before the first row is preamble, a paragraph after the last row is closing. In a numbered list, bullets are
    details of the number above them, indented or not.
    """
    lines = answer.splitlines()
    rows = [_row(line) for line in lines]
    listed = [row for row in rows if row is not None]
    numbers_lead = sum(row.numbered for row in listed) > 1
    leading = [row for row in listed if row.numbered] if numbers_lead else listed
    outermost = min((row.indent for row in leading), default=0)
    items: list[str] = []
    after_blank = False
    for line, row in zip(lines, rows, strict=True):
        text = _plain(line)
        # A line continues the row above it if indented, or directly below and no label of a new section.
        continues = line[:1].isspace() or not (after_blank or text.endswith(":") or _CLOSING.match(text))
        if row is not None and row.indent <= outermost + 1 and (row.numbered or not numbers_lead):
            items.append(row.text)
        elif items and (detail := row.text if row else text if continues else ""):
            items[-1] += f" {detail}"
        after_blank = not text
    return items


def _table_rows(answer: str) -> list[str]:
    """Return the rows of a Markdown table below its header, cells joined, without a leading number cell."""
    lines = [line.strip() for line in answer.splitlines()]
    rule = next(
        (at for at, line in enumerate(lines) if "|" in line and "--" in line and _TABLE_RULE.fullmatch(line)), None
    )
    if rule is None:
        return []
    rows = []
    for line in lines[rule + 1 :]:
        if "|" not in line:
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows.append(" ".join(cells[1:] if len(cells) > 1 and cells[0].strip(".#").isdigit() else cells))
    return rows


def _inline_items(text: str) -> list[str]:
    """Split "1) a, 2) b" at two or more numbers that count from 1 without a gap; else return nothing."""
    starts: list[tuple[int, int]] = []
    for match in _INLINE_NUMBER.finditer(text):
        if int(match.group(1)) == len(starts) + 1:
            starts.append(match.span())
    if len(starts) < 2:
        return []
    ends = [start for start, _ in starts[1:]] + [len(text)]
    return [text[after:end] for (_, after), end in zip(starts, ends, strict=True)]


def _prose_items(lines: list[str]) -> list[str]:
    """Split prose or bare lines into sentences, and these where words express a sequence."""
    sentences = [sentence for line in lines for sentence in split_sentences(line) if not _CLOSING.match(sentence)]
    # "Here is the order." before "First, ..." is preamble; before "Then ..." a sentence is the first event itself.
    first = next((at for at, sentence in enumerate(sentences) if _opens(sentence)), 0)
    kept = [sentence for sentence in sentences[first:] if not (sentence.endswith(":") and len(sentences) > 1)]
    return [part for sentence in kept for part in _parts(sentence)]


def _opens(sentence: str) -> bool:
    """Tell whether a sequence begins here, as opposed to an event called "first ..."."""
    return bool(_SURE_OPENER.match(sentence) or (_OPENER.match(sentence) and _SEQUENCE.search(sentence)))


def _parts(sentence: str) -> list[str]:
    """Split a sentence at arrows, at sequence words, or, after a colon, at semicolons or commas."""
    head, colon, tail = sentence.partition(": ")
    if _ARROW.search(sentence):
        return _ARROW.split(tail if _ARROW.search(tail) and not _ARROW.search(head) else sentence)
    opens = _opens(sentence) or (_OPENER.match(sentence) and _SECOND.search(sentence))
    if colon and not opens and (_SEQUENCE.search(tail) or _opens(tail)):
        return _parts(tail)
    marker = _COUNTED if opens and _SECOND.search(sentence) else _SEQUENCE
    pieces = [piece for piece in marker.split(_OPENER.sub("", sentence) if opens else sentence) if piece.strip()]
    if len(pieces) > 1 or not colon:
        return pieces
    listed = tail.split(";" if ";" in tail else ",")
    return [re.sub(r"\A\s*and\s+", "", part) for part in listed] if len(listed) > 2 else pieces
