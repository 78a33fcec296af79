"""Parse and remove the index marker at the end of main questions: ` ->-> batch,bullet`, in ten spellings.

The marker names the plan bullet that a question comes from; the released data keeps it in the text. Spellings
(`Marker.variant`), after the arrow:

| variant        | example                     | the rest of the text                              |
|----------------|-----------------------------|---------------------------------------------------|
| `i,j`          | `3,12`                      | none                                              |
| `i,N/A`        | `3,N/A`                     | no bullet                                         |
| `i,`           | `3,`                        | no bullet                                         |
| `i,(remark)`   | `3,N/A (not in the plan)`   | the model's commentary: kept as `remark` only     |
| `i,j+text`     | `3,12`, then more lines     | real content: stays in the message                |
| `i,j,k`        | `3,12, 14`                  | several bullets                                   |
| `i,label`      | `3,` then a label or code   | may be real content: stays in the message         |
| `i,j)`         | `3,12)`                     | stray bracket, dropped                            |
| `i,j) label`   | `3,12) Testing: unit tests` | an echo of the bullet: kept as `remark` only      |
| `other`        | `3,12, and others`          | kept as `remark` only                             |
"""

from __future__ import annotations

import re
from dataclasses import replace

from beamlib.data.conversations import Marker

ARROW = "->->"
STRAY = "stray"
"""The name under which `Conversation.removed` counts markers outside main questions and surplus ones inside."""
MARKER_FORMS = ("i,j", "i,N/A", "i,", "i,(remark)", "i,j+text", "i,j,k", "i,label", "i,j)", "i,j) label", "other")

INDEX = "index"
"""The variant of a marker that is in the field `index` alone, as in generated conversations."""

_MARKER = re.compile(r"->->\s*([0-9]{1,4})[ \t]*,")
_BULLETS = re.compile(r"[ \t]*([0-9]{1,4}(?:[ \t]*,[ \t]*[0-9]{1,4})*)(?![0-9])")
_NOT_APPLICABLE = re.compile(r"[ \t]*n/a\b[ \t]*", re.IGNORECASE)
_STRAY = re.compile(
    r"[ \t]*->->[ \t]*[0-9]{1,4}[ \t]*,[ \t]*(?:[0-9]{1,4}(?![0-9])(?:[ \t]*,[ \t]*[0-9]{1,4}(?![0-9]))*|n/a\b)?\)?",
    re.IGNORECASE,
)


def split_marker(text: str) -> tuple[str, Marker | None]:
    """Split a main question into its content and its marker.

    The content keeps everything that the user may have said: the text before the last marker, and what the table above
    keeps. Without an arrow and `number,` the text is unchanged and the marker None.
    """
    markers = list(_MARKER.finditer(text)) if ARROW in text else []
    if not markers:
        return text, None
    last = markers[-1]
    before, batch, rest = text[: last.start()].rstrip(), int(last[1]), text[last.end() :]
    if listed := _BULLETS.match(rest):  # a remark up to the end of the line, then the user's text
        bullets = tuple(int(part) for part in listed[1].split(","))
        head, _, tail = rest[listed.end() :].partition("\n")
        content, remark = _append(before, "\n", tail), head.strip()
        if remark.startswith(")"):
            label = remark[1:].strip()
            return content, Marker(batch, bullets, label, "i,j) label" if label else "i,j)")
        if remark:
            return content, Marker(batch, bullets, remark, "other")
        single = "i,j+text" if tail.strip() else "i,j"
        return content, Marker(batch, bullets, variant=single if len(bullets) == 1 else "i,j,k")
    not_applicable = _NOT_APPLICABLE.match(rest)
    label = rest[not_applicable.end() :] if not_applicable else rest
    head, _, tail = label.partition("\n")
    if not label.strip():
        return before, Marker(batch, variant="i,N/A" if not_applicable else "i,")
    if head.strip() and _is_bracketed(label.strip()):
        return before, Marker(batch, (), label.strip(), "i,(remark)")
    if not_applicable and head.strip():
        return _append(before, "\n", tail), Marker(batch, (), head.strip(), "i,(remark)")
    return _append(before, " " if head.strip() else "\n", label), Marker(batch, variant="i,label")


def index_marker(index: object, batch: int) -> Marker | None:
    """Parse the field `index` of a main question in `batch`: `batch,bullet` or `batch,N/A`; else return None."""
    content, marker = split_marker(f"{ARROW} {index}") if isinstance(index, str) else ("", None)
    if content or marker is None or marker.batch != batch or marker.variant not in ("i,j", "i,N/A"):
        return None
    return replace(marker, variant=INDEX)


def _append(before: str, gap: str, text: str) -> str:
    """Join `before` and the kept text; the indentation of its first line may be code's and is kept."""
    text = text.strip("\n").rstrip() if gap == "\n" else text.strip()
    if not text.strip():
        return before
    return f"{before}{gap}{text}" if before else text


def _is_bracketed(text: str) -> bool:
    """Tell whether a text is a single pair of round brackets with everything inside."""
    if not text.startswith("("):
        return False
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position == len(text) - 1
    return False


def strip_stray(text: str) -> tuple[str, int]:
    """Remove markers with coordinates from a text that should have none, and count them.

    Only an arrow followed by `number,` is a marker: a lone `->->`, or the `->>` of a diagram, stays.
    """
    return _STRAY.subn("", text) if ARROW in text else (text, 0)
