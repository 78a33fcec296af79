"""Parse the JSON of a chat into typed batches and check it against what the released data never breaks (section 1.2).

A chat is unreadable if a message has no role, id or content, if a turn does not alternate between user and assistant,
if a question has no answer, or if an id repeats or falls back. A number computed from such a file would be wrong
without looking wrong. Everything else that is odd (batch numbers, kinds of questions, indices, time anchors, markers,
gaps between ids, empty or degenerate contents, duplicates) is noted and kept.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, get_args

from beamlib.data.checked_json import Log, check_data_text, expect, is_a, need, show
from beamlib.data.conversations import Batch, Marker, Message, MessageKind, Role, Turn
from beamlib.data.markers import ARROW, MARKER_FORMS, STRAY, index_marker, split_marker, strip_stray

DEGENERATE = 50_000
"""Characters from which a message is noted as degenerate. The median pair has about 4,000; the known runaway answers
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
    """Parse the plans of one conversation in order.

    Attributes:
        ids: The message ids read so far, global in the conversation.
        next_id: The id that the next message should have.
        removed: Markers removed so far, by spelling.
    """

    def __init__(self, *, strip_markers: bool) -> None:
        self.strip_markers = strip_markers
        self.ids: set[int] = set()
        self.removed: Counter[str] = Counter()
        self.next_id = 0
        self._offset = 0
        self._first_with: dict[str, int] = {}

    def plan(self, value: Any, log: Log, *, plan: int = 0, where: str = "", restart: bool = False) -> tuple[Batch, ...]:
        """Parse the batches of one plan (of the whole chat below 10M).

        Args:
            restart: Ids in `value` count from 0 again (per-plan 10M files). They are shifted by the number of messages
                read so far, as the released code does (last id of the previous plan + 1).
        """
        expect(value, list, "a list of batches", log.at(where))
        self._offset = self.next_id if restart else 0
        batches = enumerate(value, start=1)
        return tuple(self._batch(raw, number, plan, log.at(f"{where}batch {number}")) for number, raw in batches)

    def removed_by_variant(self) -> dict[str, int]:
        """Count the removed markers in the order of the table in `markers`, stray markers last."""
        return {name: self.removed[name] for name in (*MARKER_FORMS, STRAY) if self.removed[name]}

    def _batch(self, raw: Any, number: int, plan: int, log: Log) -> Batch:
        if raw is None:
            log.note("empty_batch", "the batch is null")
            return Batch(number, (), None, plan)
        stated = expect(raw, dict, "an object", log).get("batch_number")
        if not is_a(stated, int) or stated != number:
            log.note("batch_number_differs", f"`batch_number` is {show(stated)}; it is the {number}. in the file")
        turns = need(raw, "turns", list, log)
        for key in sorted(raw.keys() - {"batch_number", "turns", "time_anchor"}):
            log.note("unknown_field", f"`{show(key)}` is not a field of a batch; ignored")
        if not turns:
            log.note("empty_batch", "the batch has no turn")
        parsed = [
            self._turn(turn, number, place == 1, log.at(f"{log.where}, turn {place}"))
            for place, turn in enumerate(turns, start=1)
        ]
        # The time anchor is on the first message; the batch's own field is null in all released data.
        on_batch, on_message = raw.get("time_anchor"), turns[0][0].get("time_anchor") if turns and turns[0] else None
        anchor = on_batch if on_message is None else on_message
        if on_batch is not None and anchor != on_batch:
            log.note("time_anchor_differs", f"{show(on_batch)} on the batch, {show(anchor)} on its first message; used")
        if anchor is None:
            log.note("time_anchor_missing", "no time anchor on the first message")
        elif not is_a(anchor, str) or not _ANCHOR.fullmatch(anchor):
            log.note("time_anchor_unreadable", f"{show(anchor)} is not like 'March-15-2024'; left out")
            anchor = None
        return Batch(number, tuple(turn for turn in parsed if turn), anchor, plan)

    def _turn(self, raw: Any, batch: int, starts_batch: bool, log: Log) -> Turn | None:
        if raw is None or raw == []:
            log.note("empty_turn", "the turn has no message")
            return None
        expect(raw, list, "a list of messages", log)
        messages = tuple(
            self._message(message, position, batch, log.at(f"{log.where}, message {position + 1}"))
            for position, message in enumerate(raw)
        )
        for position, message in enumerate(raw):
            if message.get("time_anchor") is not None and (position or not starts_batch):
                log.note("unknown_field", f"`time_anchor` on message {position + 1} of the turn; ignored")
        if len(messages) % 2:
            log.fail(f"message {messages[-1].id} has no answer (a turn has an even number of messages)")
        return Turn(messages)

    def _message(self, raw: Any, position: int, batch: int, log: Log) -> Message:
        expect(raw, dict, "an object", log)
        role: Role = "assistant" if position % 2 else "user"
        if (stated := need(raw, "role", str, log)) != role:
            log.fail(f"`role` is {show(stated)} where {role!r} must speak")
        message_id = self._id(need(raw, "id", int, log), log)
        content = check_data_text(need(raw, "content", str, log), "content", log)
        kind = self._kind(raw, role, position, log)
        for key in raw:
            if key not in _KEYS[role] and not (key in _OPTIONAL and raw[key] is None):
                log.note("unknown_field", f"`{show(key)}` is not a field of a message of the {role}; ignored")
        if position and raw.get("index") is not None:
            log.note("unknown_field", "`index` on a message that is no main question; ignored")
        if len(content) >= DEGENERATE:
            log.note("degenerate_length", f"message {message_id} has {len(content)} characters; kept whole")
        if not content.strip():
            log.note("empty_content", f"message {message_id} says nothing; kept")
        if (first := self._first_with.setdefault(content, message_id)) != message_id:
            log.note("duplicate_content", f"message {message_id} repeats message {first} exactly; both kept")
        if kind == "main_question" or (kind is None and not position):
            text, marker = self._main_question(raw.get("index"), content, batch, log)
            return Message(message_id, role, text, kind, marker)
        return Message(message_id, role, self._strip_stray(content, log), kind)

    def _id(self, stated: int, log: Log) -> int:
        """Make an id global. Questions cite ids, so each must name one message; a gap does no harm."""
        expected = self.next_id - self._offset
        if stated < expected:
            log.fail(f"`id` is {stated} where {expected} was expected (ids rise, none occurs twice)")
        if stated > expected:
            log.note("id_gap", f"`id` is {stated} where {expected} was expected")
        message_id = stated + self._offset
        self.next_id = message_id + 1
        self.ids.add(message_id)
        return message_id

    def _kind(self, raw: dict[str, Any], role: Role, position: int, log: Log) -> MessageKind | None:
        if role == "assistant":
            return None
        value = raw.get("question_type")
        kind = next((kind for kind in _KINDS if kind == value), None)
        if kind is None:
            log.note("question_type_unknown", f"`question_type` is {show(value)}, not one of {', '.join(_KINDS)}")
        elif (position == 0) != (kind == "main_question"):
            log.note("question_type_differs", f"{show(value)}, but a turn begins with its one main_question")
        return kind

    def _main_question(self, index: Any, content: str, batch: int, log: Log) -> tuple[str, Marker | None]:
        text, marker = split_marker(content)
        if marker is None:
            marker = index_marker(index, batch)
            if marker is None:
                log.note("marker_missing", "the main question has no readable index marker")
            return self._strip_stray(content, log), marker
        if marker.batch != batch:
            log.note("marker_batch_differs", f"the marker names batch {marker.batch} in batch {batch}")
        # `index` repeats the marker; released data may say `i,` in the text and `i,N/A` in it.
        _, copy = split_marker(f"{ARROW} {index}") if is_a(index, str) else ("", None)
        if copy is None or (copy.batch, copy.bullets) != (marker.batch, marker.bullets):
            bullets = ",".join(map(str, marker.bullets)) or "N/A"
            log.note("index_differs", f"`index` is {show(index)}, the marker {marker.batch},{bullets}; marker used")
        text, surplus = strip_stray(text)
        if surplus:
            log.note("marker_repeated", f"the main question has {surplus + 1} index markers; the last counts")
        if not self.strip_markers:
            return content, marker
        if not text.strip():
            log.note("marker_only", "nothing but the index marker; left in place")
            return content, marker
        self.removed[marker.variant] += 1
        self.removed[STRAY] += surplus
        return text, marker

    def _strip_stray(self, content: str, log: Log) -> str:
        text, count = strip_stray(content)
        if not count:
            return content
        log.note("stray_marker", f"{count} index marker(s) outside a main question")
        if not self.strip_markers or not text.strip():
            return content
        self.removed[STRAY] += count
        return text
