"""From the JSON of a chat to typed batches, checked against what the released data never breaks (section 1.2).

What is recalled can make a chat unreadable: messages whose role, id or content is not there, a turn that does not
alternate between user and assistant, a question without answer, an id that occurs twice or falls back. A number
computed from such a file would be wrong without looking wrong. Everything else (batch numbers, kinds of questions,
indices, time anchors, markers, gaps between ids, empty or degenerate contents, exact duplicates) is noted where it is
odd and kept.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, get_args

from beamlib.data.checked_json import Log, check_text, is_a, need, show
from beamlib.data.conversations import Batch, Marker, Message, MessageKind, Role, Turn
from beamlib.data.markers import ARROW, STRAY, VARIANTS, index_marker, split_marker, strip_stray

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
        self.ids: set[int] = set()
        self.removed: Counter[str] = Counter()
        self._seen: dict[str, int] = {}

    def plan(self, value: Any, log: Log, *, plan: int = 0, where: str = "", restart: bool = False) -> tuple[Batch, ...]:
        """The batches of one plan (of the whole chat below 10M).

        `restart` says that ids in `value` count from 0 again (per-plan 10M files): they are shifted by the number of
        messages read so far, which is the released rule (last id of the previous plan + 1).
        """
        if not is_a(value, list):
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
        if raw is None:
            log.note("empty_batch", where, "the batch is null")
            return Batch(number, (), None, plan)
        if not is_a(raw, dict):
            log.fail(where, f"expected an object, not {show(raw)}")
        given = raw.get("batch_number")
        if not is_a(given, int) or given != number:
            log.note("batch_number_differs", where, f"`batch_number` is {show(given)}; it is the {number}. in the file")
        turns = need(raw, "turns", list, log, where)
        for key in sorted(raw.keys() - {"batch_number", "turns", "time_anchor"}):
            log.note("unknown_field", where, f"`{show(key)}` is not a field of a batch; ignored")
        if not turns:
            log.note("empty_batch", where, "the batch has no turn")
        said = [self._turn(turn, log, number, offset, t == 1, f"{where}, turn {t}") for t, turn in enumerate(turns, 1)]
        return Batch(number, tuple(turn for turn in said if turn), self._anchor(raw, turns, log, where), plan)

    def _anchor(self, raw: dict[str, Any], turns: list[Any], log: Log, where: str) -> str | None:
        """The time anchor of a batch stands on its first message; its own field is null in all released data."""
        own = raw.get("time_anchor")
        first = turns[0][0].get("time_anchor") if turns and turns[0] else None
        if first is not None and own is not None and first != own:
            log.note(
                "time_anchor_differs", where, f"{show(own)} on the batch, {show(first)} on its first message; used"
            )
        anchor = first if first is not None else own
        if anchor is None:
            log.note("time_anchor_missing", where, "no time anchor on the first message")
        elif not is_a(anchor, str) or not _ANCHOR.fullmatch(anchor):
            log.note("time_anchor_unreadable", where, f"{show(anchor)} is not like 'March-15-2024'; left out")
            return None
        return anchor

    def _turn(self, raw: Any, log: Log, batch: int, offset: int, first: bool, where: str) -> Turn | None:
        if raw is None or raw == []:
            log.note("empty_turn", where, "the turn has no message")
            return None
        if not is_a(raw, list):
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
        role: Role = "assistant" if position % 2 else "user"
        given_role = need(raw, "role", str, log, where)
        if given_role != role:
            log.fail(where, f"`role` is {show(given_role)} where {role!r} must speak")
        message_id = self._id(need(raw, "id", int, log, where), offset, log, where)
        content = check_text(need(raw, "content", str, log, where), "content", log, where)
        kind = self._kind(raw, role, position, log, where)
        self._note_fields(raw, role, position, log, where)
        self._note_content(content, message_id, log, where)
        if kind == "main_question" or (kind is None and not position):
            text, marker = self._main(raw, content, log, batch, where)
            return Message(message_id, role, text, kind, marker)
        return Message(message_id, role, self._strip_stray(content, log, where), kind)

    def _id(self, given: int, offset: int, log: Log, where: str) -> int:
        """The id made global. Questions cite ids, so each must be one message; a number left out harms nobody."""
        if given + offset < self.next_id:
            log.fail(where, f"`id` is {given} where {self.next_id - offset} was expected (ids rise, none occurs twice)")
        if given + offset > self.next_id:
            log.note("id_gap", where, f"`id` is {given} where {self.next_id - offset} was expected")
        self.next_id = given + offset + 1
        self.ids.add(given + offset)
        return given + offset

    def _kind(self, raw: dict[str, Any], role: Role, position: int, log: Log, where: str) -> MessageKind | None:
        if role == "assistant":
            return None
        value = raw.get("question_type")
        kind = next((kind for kind in _KINDS if kind == value), None)
        if kind is None:
            log.note(
                "question_type_unknown", where, f"`question_type` is {show(value)}, not one of {', '.join(_KINDS)}"
            )
        elif (position == 0) != (kind == "main_question"):
            log.note("question_type_differs", where, f"{show(value)}, but a turn begins with its one main_question")
        return kind

    def _note_fields(self, raw: dict[str, Any], role: Role, position: int, log: Log, where: str) -> None:
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
        if not content.strip():
            log.note("empty_content", where, f"message {message_id} says nothing; kept")
        first = self._seen.setdefault(content, message_id)
        if first != message_id:
            log.note("duplicate_content", where, f"message {message_id} repeats message {first} exactly; both kept")

    def _main(self, raw: dict[str, Any], content: str, log: Log, batch: int, where: str) -> tuple[str, Marker | None]:
        index = raw.get("index")
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

    def _check_index(self, index: Any, marker: Marker, log: Log, where: str) -> None:
        """`index` repeats the marker; the one released difference is `i,` in the text and `i,N/A` in the index."""
        _, copy = split_marker(f"{ARROW} {index}") if is_a(index, str) else ("", None)
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
