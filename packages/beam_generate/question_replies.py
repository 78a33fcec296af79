"""Reading what a model wrote when it was asked for main user questions (output of Listings 32 to 34)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from beam_generate.messages import clean, refuses
from beam_generate.shapes import Style
from beamlib.data.markers import ARROW, split_marker, strip_stray

_SEPARATOR = re.compile(r"^[ \t]*-{3,}[ \t]*$")
_LONG_SEPARATOR = re.compile(r"^[ \t]*-{5,}[ \t]*$", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(```|~~~)")
_NUMBERING = re.compile(
    r"^(?:\*\*)?(?:(?:question|message|q)[ \t]*#?[0-9]{0,3}[ \t]*[:.)](?:\*\*)?|[0-9]{1,3}[.)]|[-*•])[ \t]+",
    re.IGNORECASE,
)
_PROSE = re.compile(
    r"(?:here (?:are|is)|sure|certainly|below|of course|note:|i hope|let me know|these (?:questions|messages))\b", re.I
)
_OTHER_ARROWS = re.compile(
    r"[ \t](?:-+>+|→|=>)(?:[ \t]*(?:-+>+|→|=>))*[ \t]*(?=\W{0,3}(?:bullet |note )?(?:[0-9]|N/A))"
)
_LINK_WITHIN = 2_000  # characters around the end of a piece: rows of arrows and marks are looked through from each
_LEAD = re.compile(
    r"[ \t]*+[\[(*#]*+(?:bullets?|bullet points?|notes?|number|no\.)?[ \t#]*+(?=[0-9]|n/?a\b)", re.IGNORECASE
)
_NONE = re.compile(r"[ \t]*[\[(*]*(?:none|n\.?/?a\.?)(?![a-z])[\])*]*", re.IGNORECASE)
_COORDINATES = re.compile(r"[ \t]*([0-9]{1,4})[ \t]*,[ \t]*(?:([0-9]{1,4})(?![0-9])|n/?a\b|\Z|(?=\n))", re.IGNORECASE)
_AROUND = re.compile(r"[^\n]*:[ \t]*\n\s*\n")
_WRAPPED = re.compile(r"[ \t]*(?:```|~~~)\w*[ \t]*\n(?P<text>.*)\n[ \t]*(?:```|~~~)[ \t]*", re.DOTALL)
_QUOTES = {'"': '"', "“": "”", "'": "'", "‘": "’"}


@dataclass(frozen=True, slots=True)
class Read:
    """One question as it was found. `bullets` are the numbers in its link; `linked` says whether it had one at all.

    `oddity` says what was unusual about the link's spelling (see `beamlib.data.markers`), empty for none.
    """

    text: str
    bullets: tuple[int, ...]
    linked: bool
    oddity: str = ""


def read_questions(reply: str, style: Style, batch: int, bullets: range, count: int) -> list[Read]:
    """The questions of a reply, in order, links taken off. `bullets` are the bullet numbers of sub-plan `batch`.

    General ones stand one per line, the others between separator lines. Numbering, list marks, quotation marks and the
    prose that models put around are taken off; text without a link counts as a question only where those with one are
    fewer than `count`.
    """
    reply = clean(reply).replace("\r\n", "\n")
    pieces = _lines(reply) if style == "general" else _pieces(_without_frame(reply), count)
    found = [_read(piece, batch, bullets) for piece in pieces]
    found = [one for one in found if one.text and (one.linked or not _is_prose(one.text))]
    missing = count - sum(one.linked for one in found)
    kept = []
    for one in found:
        if one.linked or missing > 0:
            kept.append(one)
            missing -= not one.linked
    return kept


def _lines(reply: str) -> list[str]:
    return [
        line for line in reply.split("\n") if line.strip() and not _FENCE.match(line) and not _SEPARATOR.match(line)
    ]


def framed(reply: str, style: Style) -> bool:
    """Whether a model put words of its own, or a fence, around the messages that were asked for."""
    reply = clean(reply).replace("\r\n", "\n")
    if style != "general":
        return _without_frame(reply) != reply
    lines = [line.strip() for line in reply.split("\n") if line.strip()]
    return any(ARROW not in line and (_FENCE.match(line) or _is_prose(line)) for line in lines)


def _without_frame(reply: str) -> str:
    """A reply of messages over several lines without the model's own words before and after, and without a fence."""
    opening = _AROUND.match(reply)
    if opening and _is_prose(opening[0].strip()):
        reply = reply[opening.end() :]
    before, gap, last = reply.rpartition("\n\n")
    if gap and ARROW not in last and _PROSE.match(last.strip()):
        reply = before
    wrapped = _WRAPPED.fullmatch(reply.strip())
    # A message may itself be one block of code: only what holds a link before the last fence is a reply in a fence.
    return wrapped["text"] if wrapped and ARROW in wrapped["text"] else reply


def _pieces(reply: str, count: int) -> list[str]:
    """The reply cut at separator lines; those inside code are left alone unless a fence was never closed."""
    pieces: list[list[str]] = [[]]
    fenced = False
    for line in reply.split("\n"):
        fenced ^= _FENCE.match(line) is not None
        if not fenced and _SEPARATOR.match(line):
            pieces.append([])
        else:
            pieces[-1].append(line)
    texts = ["\n".join(piece) for piece in pieces]
    if fenced and len(texts) < count:
        texts = _LONG_SEPARATOR.split(reply)
    return [part for text in texts for part in _at_links(text) if part.strip()]


def _at_links(piece: str) -> list[str]:
    """A piece with several links lacks separators: each link's line ends a question."""
    if piece.count(ARROW) < 2:
        return [piece]
    parts: list[list[str]] = [[]]
    for line in piece.split("\n"):
        parts[-1].append(line)
        if ARROW in line:
            parts.append([])
    return ["\n".join(part) for part in parts]


def _read(piece: str, batch: int, bullets: range) -> Read:
    piece = _NUMBERING.sub("", _unquote(piece.strip()), count=1)
    if ARROW not in piece and (others := list(_OTHER_ARROWS.finditer(piece, max(0, len(piece) - _LINK_WITHIN)))):
        piece = f"{piece[: others[-1].start()]} {ARROW} {piece[others[-1].end() :]}"
    before, arrow, after = piece.rpartition(ARROW)
    if not arrow:
        return Read(_bare(piece), (), linked=False)
    content, marker = split_marker(f"{before.rstrip()} {ARROW} {_with_batch(after, batch, bullets)}")
    if marker is None or marker.variant == "i,label":  # neither a number nor N/A: what follows the arrow stays text
        stays = content if marker is not None else f"{before} {after}"
        return Read(_bare(stays), (), linked=False)
    normal = marker.variant in ("i,j", "i,N/A")
    return Read(_bare(content), marker.bullets, linked=True, oddity="" if normal else marker.variant)


def _with_batch(after: str, batch: int, bullets: range) -> str:
    """What follows an arrow in the form `batch,bullet...`, whichever of the two numbers were written."""
    after, rest = after[:_LINK_WITHIN], after[_LINK_WITHIN:]
    if _NONE.match(after):
        after = _NONE.sub("N/A", after, count=1)
    after = _LEAD.sub("", after, count=1)
    both = _COORDINATES.match(after)
    if both and int(both[1]) == batch and (both[2] is None or int(both[2]) in bullets):
        return after + rest
    after = re.sub(r"^([0-9]{1,4})[\])*]+(?=\s*\Z)", r"\1", after)
    return f"{batch},{after}{rest}"


def _bare(text: str) -> str:
    return _unquote(strip_stray(text)[0].replace(ARROW, "").strip())


def _unquote(text: str) -> str:
    """`text` without a pair of quotation marks around all of it."""
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[0] not in text[1:-1]:
        return text[1:-1].strip()
    return text


def _is_prose(text: str) -> bool:
    """Whether a text without a link is the model's own words about its list, or a heading."""
    return text.endswith(":") or text.startswith("#") or _PROSE.match(text) is not None or refuses(text)
