"""The notes that a model makes of a session: read from its reply within bounds, in the order of telling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from beam_memories.evolving.dependency_ledger import Ledger
from beam_memories.evolving.json_replies import json_object

NoteKind = Literal["change", "fact", "dependency", "deletion"]
_LISTS: tuple[tuple[str, NoteKind], ...] = (
    ("changes", "change"),
    ("facts", "fact"),
    ("dependencies", "dependency"),
    ("deletions", "deletion"),
)
"""In the order in which notes on one exchange are applied: what is told beside a change holds after it."""

_MOST_NOTES = 400  # of one list
_MOST_NAME, _MOST_VALUE = 120, 20_000  # characters


@dataclass(frozen=True, slots=True)
class Note:
    """One entry. `subject` is the dependent of a dependency, `value` what it becomes; `message` is -1 where untold."""

    kind: NoteKind
    subject: str
    value: str
    source: str
    when: str
    message: int


def read_notes(reply: str) -> list[Note] | None:
    """The notes of a reply, those on earlier messages first; None where it is no JSON object.

    An entry that names no subject is left out, and so is what is beyond the bounds.
    """
    value = json_object(reply)
    if value is None:
        return None
    found = [note for name, kind in _LISTS for note in _of_list(value.get(name), kind)]
    return sorted(found, key=lambda note: note.message)  # stable: the order of `_LISTS` within a message


def _of_list(entries: Any, kind: NoteKind) -> Iterator[Note]:
    for entry in entries[:_MOST_NOTES] if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        subject = _name(entry.get("dependent" if kind == "dependency" else "subject"))
        source = _name(entry.get("source"))
        if subject and (source or kind != "dependency"):
            when, value = _text(entry.get("when")), _text(entry.get("value"))
            yield Note(kind, subject, value, source, when, _number(entry.get("message")))


def _text(value: object) -> str:
    """A text, its line breaks kept; numbers are texts too."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value).encode("utf-8", "replace").decode().strip()[:_MOST_VALUE]


def _name(value: object) -> str:
    name = " ".join(_text(value).split())
    return name if len(name) <= _MOST_NAME else ""


def _number(value: object) -> int:
    digits = _text(value)
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else -1


def apply_note(ledger: Ledger, note: Note, date: str, ids: Sequence[int]) -> tuple[str, list[str]] | None:
    """Enter a note that rests on `ids`. Of a deletion the subject's name and the values that nothing may show now."""
    rests = tuple(ids)
    match note.kind:
        case "change" | "fact":
            ledger.tell(note.subject, note.value, date, rests, changed=note.kind == "change")
        case "dependency":
            ledger.depend(note.subject, note.source, note.when, note.value, rests)
        case "deletion":
            return ledger.forget(note.subject, note.value, date, rests)
    return None
