"""A memory for facts that change: it records dependencies when they are stated and applies them to later changes.

This project's own, on top of retrieval. A session costs one call per part that fits into a call; recall costs none. It
recalls the state of the question's subjects, with earlier values, reasons and messages, then the best pairs. What the
user wants forgotten is removed from both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from beam_memories.evolving.dependency_ledger import Ledger, LedgerSubject, state_line, subject_stems
from beam_memories.evolving.evolving_memory import EvolvingMemory, SessionPart, SessionRead, pairs_of, parts_of
from beam_memories.evolving.json_replies import json_object
from beamlib.data.conversations import Message, Pair
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, run
from beamlib.llm.retrying import ReadReply, ask
from beamlib.memory.budget import fit_pairs, passage_tokens, shorten
from beamlib.memory.protocol import Passage, RetrievedContext, passage
from beamlib.retrieval import Document, Index, build_index
from beamlib.text import split_sentences

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
    """A note. `subject` is the dependent of a dependency, `value` its new value; `message` is -1 where not stated."""

    kind: NoteKind
    subject: str
    value: str
    source: str
    when: str
    message: int


def read_notes(reply: str) -> list[Note] | None:
    """Read the notes of a reply, those on earlier messages first; None if it is no JSON object.

    Entries without a subject and those beyond the bounds are left out.
    """
    value = json_object(reply, "dependency_notes", tuple(name for name, _ in _LISTS))
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
    """Return a text with its line breaks; numbers are texts too."""
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
    """Apply a note based on `ids`. For a deletion, return the subject's name and the values to hide."""
    rests = tuple(ids)
    match note.kind:
        case "change" | "fact":
            ledger.tell(note.subject, note.value, date, rests, changed=note.kind == "change")
        case "dependency":
            ledger.depend(note.subject, note.source, note.when, note.value, rests)
        case "deletion":
            return ledger.forget(note.subject, note.value, date, rests)
    return None


MASK = "[removed at the user's request]"
_COMPLAINT = "A first reply to this was no JSON object. Reply with the JSON object alone."
_HEADING = "What holds by now, from notes on earlier conversation:"
_MOST_SUBJECTS = 16
_MOST_KNOWN = 120  # subjects that a call gets
_MOST_VALUE_TOKENS = 400
_SURE = 6  # characters from which on a value is masked everywhere; a shorter one only with its subject


@dataclass(frozen=True, slots=True)
class _Kept:
    """A pair as it may be shown, and its session."""

    pair: Pair
    session: int


class Dependencies(EvolvingMemory):
    """Keep a ledger of subjects, and the pairs."""

    name = "dependencies"
    order = 42
    uses = ("reader_window", "retriever", "k", "token_counter")
    searched = "dependencies searches pairs beside its ledger"

    def _forget(self) -> None:
        self._ledger = Ledger()
        self._pairs: list[_Kept] = []
        self._index: Index | None = None

    def _read(self, session: SessionRead) -> None:
        self._pairs += [_Kept(pair, session.number) for pair in pairs_of(session)]
        self._index = None
        for part in parts_of(session, self.settings.part_tokens, self.settings.counter):
            variables = {"known": self._known(part), "date": session.date or "no date given", "session": part.text}
            prompt = Prompt("dependency_notes", variables, about=part.about)
            notes = self._gaps.attempt(partial(self._notes, prompt), prompt)
            for note in notes or ():
                self._enter(note, session.date, part)

    def _notes(self, prompt: Prompt) -> list[Note]:
        def read(reply: Completion, _: int) -> ReadReply[list[Note] | None]:
            notes = read_notes(reply.text)
            return notes, _COMPLAINT if notes is None else None

        notes = run(ask(self._model, prompt, read))
        if notes is None:
            raise ModelError("asked twice, and the reply was no JSON object", Outcome.UNREADABLE)
        return notes

    def _known(self, part: SessionPart) -> str:
        """List known subjects with their values: those that the part mentions first, then the newest."""
        words = frozenset(subject_stems(part.text))
        newest = [one for one in reversed(self._ledger.subjects) if one.value]
        ranked = sorted(newest, key=lambda one: -len(words.intersection(one.key)))[:_MOST_KNOWN]
        lines = [f"{one.name}: {' '.join(one.value.split())[:80]}" for one in ranked]
        return shorten("\n".join(lines), self.settings.part_tokens // 4, self.settings.counter)

    def _enter(self, note: Note, date: str, part: SessionPart) -> None:
        place = next((i for i, one in enumerate(part.message_ids) if one == note.message), None)
        pair = part.message_ids if place is None else part.message_ids[place - place % 2 : place - place % 2 + 2]
        removed = apply_note(self._ledger, note, date, pair)
        if removed is not None:
            name, values = removed
            self._pairs = [_without(kept, name, values) for kept in self._pairs]
            self._ledger.rewrite(partial(_masked, values=[one for one in values if len(one) >= _SURE]))
            self._index = None

    def finalise(self) -> None:
        """Index the pairs if there are new ones."""
        self._index = self._index or self._made_index()

    def _made_index(self) -> Index:
        documents = [
            Document(
                (f"{kept.pair.user.content}\n{kept.pair.assistant.content}",),
                whole_sentences(split_sentences(kept.pair.user.content)),
                kept.pair.assistant.content,
                kept.session,
            )
            for kept in self._pairs
        ]
        return build_index(documents, self.settings.retriever)

    def recall(self, question: str) -> RetrievedContext:
        """Recall the states of the question's subjects, as part "state", and the `k` best pairs, "retrieved".

        States get at most half of the reader's window, pairs the rest; the last that do not fit are dropped.
        """
        if not self._pairs:
            return RetrievedContext("", gaps=self._gaps.lost)
        index = self._index or self._made_index()
        best = [self._pairs[hit.owner].pair for hit in index.search(question, self.settings.k)]
        shown = [i for pair in best for i in pair.message_ids]
        states = self._states(self._ledger.asked_about(question, shown, _MOST_SUBJECTS))
        left = self.settings.context_tokens - sum(passage_tokens(one.text, self.settings.counter) for one in states)
        pairs, cuts = fit_pairs([passage(pair) for pair in best], left, self.settings.counter)
        return replace(RetrievedContext.of([*states, *pairs], cuts), gaps=self._gaps.lost)

    def _states(self, subjects: Sequence[LedgerSubject]) -> list[Passage]:
        """Return a passage with a line for each of `subjects`, in at most half the window."""
        lines = [f"- {self._line(one)}" for one in subjects]
        if not lines:
            return []
        text = shorten("\n".join([_HEADING, *lines]), self.settings.context_tokens // 2, self.settings.counter)
        return [Passage(text, tuple(dict.fromkeys(i for one in subjects for i in one.ids)), "state")]

    def _line(self, subject: LedgerSubject) -> str:
        rests = ", ".join(map(str, subject.ids[-12:]))
        return f"{shorten(state_line(subject), _MOST_VALUE_TOKENS, self.settings.counter)} [rests on messages {rests}]"

    def snapshot(self) -> Mapping[str, str]:
        """Return `state.md`, `dependencies.md` and the pairs as they may be shown."""
        dependencies = [
            f"{one.dependent.name} hangs on {one.source.name}" + (f": then {one.value}" if one.value else "")
            for one in self._ledger.dependencies
        ]
        return {
            "state.md": "\n".join(self._line(one) for one in self._ledger.subjects if one.states),
            "dependencies.md": "\n".join(dependencies),
            "pairs.md": "\n\n".join(passage(kept.pair).text for kept in self._pairs),
        }


def _without(kept: _Kept, name: str, values: Sequence[str]) -> _Kept:
    """Remove a subject's values from a pair; where none is known, remove the sentences that name it."""
    user, assistant = kept.pair.user, kept.pair.assistant
    words = frozenset(subject_stems(f"{user.content} {assistant.content}"))
    named = bool(subject_stems(name)) and set(subject_stems(name)) <= words

    def masked(message: Message) -> Message:
        text = _masked(message.content, [one for one in values if named or len(one) >= _SURE])
        if not values and named:
            text = _without_sentences(text, frozenset(subject_stems(name)))
        return message if text == message.content else replace(message, content=text)

    return _Kept(Pair(masked(user), masked(assistant)), kept.session)


def _masked(text: str, values: Sequence[str]) -> str:
    for value in sorted(filter(str.strip, values), key=len, reverse=True):  # one may be the beginning of another
        text = _pattern(value).sub(MASK, text)
    return text


def _pattern(value: str, *, whole: bool = True) -> re.Pattern[str]:
    """Match the value in any case and spacing; as a `whole` word."""
    before, after = (r"(?<!\w)", r"(?!\w)") if whole else ("", "")
    return re.compile(before + r"\s+".join(map(re.escape, value.split())) + after, re.IGNORECASE)


def _without_sentences(text: str, name: frozenset[str]) -> str:
    for sentence in whole_sentences(split_sentences(text)):
        if name and name <= frozenset(subject_stems(sentence)):
            text = _pattern(sentence, whole=False).sub(MASK, text)
    return text


_SHORT = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof|St|No|vs|approx|Sgt|Rev)\.\Z")


def whole_sentences(sentences: Iterable[str]) -> list[str]:
    """Rejoin sentences that `split_sentences` split after "Dr." and other abbreviations."""
    joined: list[str] = []
    for sentence in sentences:
        if joined and _SHORT.search(joined[-1]):
            joined[-1] = f"{joined[-1]} {sentence}"
        else:
            joined.append(sentence)
    return joined
