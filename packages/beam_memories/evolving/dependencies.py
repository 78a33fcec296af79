"""A memory for facts that change: it notes what hangs on what when that is told, and applies it when a source changes.

An idea of this project's own, on top of retrieval. A session costs one call for each part that fits into one; recalling
costs none. What it recalls: the state of the subjects that the question is about, with what held before, why, and the
messages it rests on; then the best pairs. What the user wants forgotten is taken out of both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from beam_memories.evolving.dependency_ledger import Ledger, Subject, state_line
from beam_memories.evolving.dependency_notes import Note, apply_note, read_notes
from beam_memories.evolving.evolving_memory import SessionRead
from beam_memories.evolving.evolving_settings import Evolving
from beam_memories.evolving.session_parts import Part, pairs_of, parts_of
from beam_memories.evolving.subject_names import stems
from beamlib.data.conversations import Message, Pair
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, run
from beamlib.llm.retrying import Found, ask
from beamlib.memory.budget import passage_tokens, shorten, shortened
from beamlib.memory.protocol import Passage, RetrievedContext, passage
from beamlib.retrieval import Document, Index, build_index
from beamlib.text import split_sentences, whole_sentences

MASK = "[removed at the user's request]"
_COMPLAINT = "A first reply to this was no JSON object. Reply with the JSON object alone."
_HEADING = "What holds by now, from notes on earlier conversation:"
_MOST_SUBJECTS = 16
_MOST_KNOWN = 120  # subjects that a call is told of
_MOST_VALUE_TOKENS = 400
_SURE = 6  # characters of a value that is taken out wherever it stands; a shorter one only beside its subject


@dataclass(frozen=True, slots=True)
class _Kept:
    """A pair as it may be shown, and the session it stands in."""

    pair: Pair
    session: int


class Dependencies(Evolving):
    """Keeps a ledger of subjects and the pairs. An `EvolvingMemory`."""

    kind = "dependencies"

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
        def read(reply: Completion, _: int) -> Found[list[Note] | None]:
            notes = read_notes(reply.text)
            return notes, _COMPLAINT if notes is None else None

        notes = run(ask(self._model, prompt, read))
        if notes is None:
            raise ModelError("asked twice, and the reply was no JSON object", Outcome.UNREADABLE)
        return notes

    def _known(self, part: Part) -> str:
        """Known subjects with their values: those that the part speaks of first, then the newest."""
        words = frozenset(stems(part.text))
        newest = [one for one in reversed(self._ledger.subjects) if one.value]
        ranked = sorted(newest, key=lambda one: -len(words.intersection(one.key)))[:_MOST_KNOWN]
        lines = [f"{one.name}: {' '.join(one.value.split())[:80]}" for one in ranked]
        return shorten("\n".join(lines), self.settings.part_tokens // 4, self.settings.counter)

    def _enter(self, note: Note, date: str, part: Part) -> None:
        place = next((i for i, one in enumerate(part.message_ids) if one == note.message), None)
        pair = part.message_ids if place is None else part.message_ids[place - place % 2 : place - place % 2 + 2]
        removed = apply_note(self._ledger, note, date, pair)
        if removed is not None:
            name, values = removed
            self._pairs = [_without(kept, name, values) for kept in self._pairs]
            self._ledger.rewrite(partial(_masked, values=[one for one in values if len(one) >= _SURE]))
            self._index = None

    def finalise(self) -> None:
        """Make the index of the pairs, if there are new ones."""
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
        """The states of what the question is about, as the part "state", then the `k` best pairs, "retrieved".

        States get at most half of the reader's window, pairs what is left; the longest lose their middle.
        """
        if not self._pairs:
            return RetrievedContext("", gaps=self._gaps.lost)
        index = self._index or self._made_index()
        best = [self._pairs[hit.owner].pair for hit in index.search(question, self.settings.k)]
        shown = [i for pair in best for i in pair.message_ids]
        states = self._states(self._ledger.asked_about(question, shown, _MOST_SUBJECTS))
        left = self.settings.context_tokens - sum(passage_tokens(one.text, self.settings.counter) for one in states)
        pairs = shortened([passage(pair) for pair in best], left, self.settings.counter)
        return replace(RetrievedContext.of([*states, *pairs]), gaps=self._gaps.lost)

    def _states(self, subjects: Sequence[Subject]) -> list[Passage]:
        """One passage of a heading and a line for each of `subjects`, in at most half the window."""
        lines = [f"- {self._line(one)}" for one in subjects]
        if not lines:
            return []
        text = shorten("\n".join([_HEADING, *lines]), self.settings.context_tokens // 2, self.settings.counter)
        return [Passage(text, tuple(dict.fromkeys(i for one in subjects for i in one.ids)), "state")]

    def _line(self, subject: Subject) -> str:
        rests = ", ".join(map(str, subject.ids[-12:]))
        return f"{shorten(state_line(subject), _MOST_VALUE_TOKENS, self.settings.counter)} [rests on messages {rests}]"

    def snapshot(self) -> Mapping[str, str]:
        """`state.md`, `dependencies.md` and the pairs as they may be shown."""
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
    """A pair without the values of a subject, or, where none is known, without the sentences that name it."""
    user, assistant = kept.pair.user, kept.pair.assistant
    words = frozenset(stems(f"{user.content} {assistant.content}"))
    named = bool(stems(name)) and set(stems(name)) <= words

    def masked(message: Message) -> Message:
        text = _masked(message.content, [one for one in values if named or len(one) >= _SURE])
        if not values and named:
            text = _without_sentences(text, frozenset(stems(name)))
        return message if text == message.content else replace(message, content=text)

    return _Kept(Pair(masked(user), masked(assistant)), kept.session)


def _masked(text: str, values: Sequence[str]) -> str:
    for value in sorted(filter(str.strip, values), key=len, reverse=True):  # one may be the beginning of another
        text = _pattern(value).sub(MASK, text)
    return text


def _pattern(value: str, *, whole: bool = True) -> re.Pattern[str]:
    """The value in any case and spacing, as a word of its own unless it is no word (not `whole`)."""
    before, after = (r"(?<!\w)", r"(?!\w)") if whole else ("", "")
    return re.compile(before + r"\s+".join(map(re.escape, value.split())) + after, re.IGNORECASE)


def _without_sentences(text: str, name: frozenset[str]) -> str:
    for sentence in whole_sentences(split_sentences(text)):
        if name and name <= frozenset(stems(sentence)):
            text = _pattern(sentence, whole=False).sub(MASK, text)
    return text
