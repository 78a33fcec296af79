"""From the JSON of a chat to typed batches, checked against what the released data never breaks (section 1.2).

Every chat alternates user and assistant, ids count up from 0 without a gap, every turn begins with a main question
and every question is answered. A file that breaks one of these is refused: a number computed from it would be wrong
without looking wrong. What does occur in the published files (markers in odd places, degenerate lengths, exact
duplicates, a missing time anchor) is handled and noted.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, get_args

from beamlib.benchmark.markers import ARROW, STRAY, VARIANTS, index_marker, split_marker, strip_stray
from beamlib.benchmark.model import Batch, Marker, Message, MessageKind, Turn
from beamlib.benchmark.reading import Log, is_a, need, need_text, show

DEGENERATE = 50_000
"""Characters from which a message is called degenerate. The median pair has about 4,000; the known runaway answers
have 246,000 to 349,000."""

_KINDS: tuple[MessageKind, ...] = get_args(MessageKind)
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_ANCHOR = re.compile(rf"(?:{_MONTHS})-(?:0[1-9]|[12][0-9]|3[01])-[0-9]{{4}}")
_KEYS = {
    "user": frozenset({"role", "id", "time_anchor", "index", "question_type", "content"}),
    "assistant": frozenset({"role", "id", "content"}),
}
_OPTIONAL = ("time_anchor", "index", "question_type")


class ChatParser:
    """Reads one conversation's plans in order, ids made global as it goes; collects what it removed."""

    def __init__(self, *, strip_markers: bool) -> None:
        self.strip_markers = strip_markers
        self.next_id = 0
        self.removed: Counter[str] = Counter()
        self._seen: dict[str, int] = {}

    def plan(self, value: Any, log: Log, *, plan: int = 0, where: str = "", restart: bool = False) -> tuple[Batch, ...]:
        """The batches of one plan (of the whole chat below 10M).

        `restart` says that ids in `value` count from 0 again (per-plan 10M files): they are shifted by the number of
        messages read so far, which is the released rule (last id of the previous plan + 1).
        """
        if not is_a(value, list) or not value:
            log.fail(where, f"expected a list of batches, not {show(value)}")
        offset = self.next_id if restart else 0
        return tuple(
            self._batch(raw, number, log, plan, offset, f"{where}batch {number}")
            for number, raw in enumerate(value, start=1)
        )

    def removed_by_variant(self) -> dict[str, int]:
        """Counts of removed markers in the order of the table in `markers`, stray ones last."""
        return {name: self.removed[name] for name in (*VARIANTS, STRAY) if self.removed[name]}

    def _batch(self, raw: Any, number: int, log: Log, plan: int, offset: int, where: str) -> Batch:
        if not is_a(raw, dict):
            log.fail(where, f"expected an object, not {show(raw)}")
        given = need(raw, "batch_number", int, log, where)
        if given != number:
            log.fail(where, f"`batch_number` is {given} where {number} was expected")
        turns = need(raw, "turns", list, log, where)
        for key in sorted(raw.keys() - {"batch_number", "turns", "time_anchor"}):
            log.note("unknown_field", where, f"`{show(key)}` is not a field of a batch; ignored")
        if not turns:
            log.note("empty_batch", where, "the batch has no turn")
        parsed = tuple(
            self._turn(turn, log, number, offset, t == 1, f"{where}, turn {t}") for t, turn in enumerate(turns, start=1)
        )
        return Batch(number, parsed, self._anchor(raw, turns, log, where), plan)

    def _anchor(self, raw: dict[str, Any], turns: list[Any], log: Log, where: str) -> str | None:
        """The time anchor of a batch stands on its first message; its own field is null in all released data."""
        own = raw.get("time_anchor")
        first = turns[0][0].get("time_anchor") if turns else None
        for anchor in (own, first):
            if anchor is not None and not is_a(anchor, str):
                log.fail(where, f"`time_anchor` must be text like 'March-15-2024' or null, not {show(anchor)}")
        if first is not None and own is not None and first != own:
            log.note(
                "time_anchor_differs", where, f"{show(own)} on the batch, {show(first)} on its first message; used"
            )
        anchor = first if first is not None else own
        if anchor is None:
            log.note("time_anchor_missing", where, "no time anchor on the first message")
        elif not _ANCHOR.fullmatch(anchor):
            log.note("time_anchor_unreadable", where, f"{show(anchor)} is not like 'March-15-2024'; left out")
            return None
        return anchor

    def _turn(self, raw: Any, log: Log, batch: int, offset: int, first: bool, where: str) -> Turn:
        if not is_a(raw, list) or not raw:
            log.fail(where, f"expected a list of messages, not {show(raw)}")
        messages = tuple(
            self._message(message, position, log, batch, offset, f"{where}, message {position + 1}")
            for position, message in enumerate(raw)
        )
        self._note_anchors(raw, first, log, where)
        if len(messages) % 2:
            log.fail(where, f"message {messages[-1].id} has no answer (a turn has an even number of messages)")
        return Turn(messages)

    def _message(self, raw: Any, position: int, log: Log, batch: int, offset: int, where: str) -> Message:
        if not is_a(raw, dict):
            log.fail(where, f"expected an object, not {show(raw)}")
        role = "assistant" if position % 2 else "user"
        given_role = need(raw, "role", str, log, where)
        if given_role != role:
            log.fail(where, f"`role` is {show(given_role)} where {role!r} must speak")
        given_id = need(raw, "id", int, log, where)
        if given_id + offset != self.next_id:
            log.fail(
                where, f"`id` is {given_id} where {self.next_id - offset} was expected (ids have no gap or repeat)"
            )
        content = need_text(raw, "content", log, where)
        kind = self._kind(raw, role, position, log, where)
        self._note_fields(raw, role, position, log, where)
        self.next_id += 1
        self._note_content(content, given_id + offset, log, where)
        if kind == "main_question":
            text, marker = self._main(raw, content, log, batch, where)
            return Message(given_id + offset, "user", text, kind, marker)
        text = self._strip_stray(content, log, where)
        return Message(given_id + offset, "user" if role == "user" else "assistant", text, kind)

    def _kind(self, raw: dict[str, Any], role: str, position: int, log: Log, where: str) -> MessageKind | None:
        value = raw.get("question_type")
        if role == "assistant":
            if value is not None:
                log.fail(where, f"an assistant message has a `question_type` ({show(value)})")
            return None
        if value is None:
            log.fail(where, "the field `question_type` is missing")
        kind = next((kind for kind in _KINDS if kind == value), None)
        if kind is None:
            log.fail(where, f"`question_type` is {show(value)}, not one of {', '.join(_KINDS)}")
        if (position == 0) != (kind == "main_question"):
            log.fail(where, f"`question_type` is {show(value)}, but a turn begins with its one main_question")
        return kind

    def _note_fields(self, raw: dict[str, Any], role: str, position: int, log: Log, where: str) -> None:
        for key in raw:
            if key not in _KEYS[role] and not (key in _OPTIONAL and raw[key] is None):
                log.note("unknown_field", where, f"`{show(key)}` is not a field of a message of the {role}; ignored")
        if position and raw.get("index") is not None:
            log.note("unknown_field", where, "`index` on a message that is no main question; ignored")

    def _note_anchors(self, turn: list[dict[str, Any]], starts_batch: bool, log: Log, where: str) -> None:
        for position, raw in enumerate(turn):
            if raw.get("time_anchor") is not None and (position or not starts_batch):
                log.note("unknown_field", where, f"`time_anchor` on message {position + 1} of the turn; ignored")

    def _note_content(self, content: str, message_id: int, log: Log, where: str) -> None:
        if len(content) >= DEGENERATE:
            log.note("degenerate_length", where, f"message {message_id} has {len(content)} characters; kept whole")
        first = self._seen.setdefault(content, message_id)
        if first != message_id:
            log.note("duplicate_content", where, f"message {message_id} repeats message {first} exactly; both kept")

    def _main(self, raw: dict[str, Any], content: str, log: Log, batch: int, where: str) -> tuple[str, Marker | None]:
        index = need(raw, "index", str, log, where)
        text, marker = split_marker(content)
        if marker is None and (marker := index_marker(index, batch)) is not None:
            return self._strip_stray(content, log, where), marker
        if marker is None:
            log.note("marker_missing", where, "the main question has no readable index marker")
            return self._strip_stray(content, log, where), None
        if marker.batch != batch:
            log.note("marker_batch_differs", where, f"the marker names batch {marker.batch} in batch {batch}")
        self._check_index(index, marker, log, where)
        text, surplus = strip_stray(text)
        if surplus:
            log.note("marker_repeated", where, f"the main question has {surplus + 1} index markers; the last counts")
        if not self.strip_markers:
            return content, marker
        if not text.strip():
            log.note("marker_only", where, "nothing but the index marker; left in place")
            return content, marker
        self.removed[marker.variant] += 1
        self.removed[STRAY] += surplus
        return text, marker

    def _check_index(self, index: str, marker: Marker, log: Log, where: str) -> None:
        """`index` repeats the marker; the one released difference is `i,` in the text and `i,N/A` in the index."""
        _, copy = split_marker(f"{ARROW} {index}")
        if copy is None or (copy.batch, copy.bullets) != (marker.batch, marker.bullets):
            bullets = ",".join(map(str, marker.bullets)) or "N/A"
            log.note(
                "index_differs", where, f"`index` is {show(index)}, the marker {marker.batch},{bullets}; marker used"
            )

    def _strip_stray(self, content: str, log: Log, where: str) -> str:
        text, count = strip_stray(content)
        if not count:
            return content
        log.note("stray_marker", where, f"{count} index marker(s) outside a main question")
        if not self.strip_markers or not text.strip():
            return content
        self.removed[STRAY] += count
        return text
