"""Track the state of each subject and apply dependencies when a source changes.

No model is called here: notes come in (`dependency_notes`), states come out. A dependency is noted when the user
states it. It matters later, when the source changes and nobody mentions the dependent: then the dependent takes the
value that was announced, or becomes uncertain from that day on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from beam_memories.evolving.subject_names import name_stems, same_subject, same_value, spoken_of, stems

Kind = Literal["told", "follows", "uncertain", "deleted"]
_MOST_STATES = 200  # of one subject; the oldest but the first go
_ABOUT = 0.5  # share of a name's words that a question must hold


@dataclass(frozen=True, slots=True)
class State:
    """What holds of a subject from `date` on, resting on `ids`; `source` is whose change brought it about."""

    kind: Kind
    value: str
    date: str
    ids: tuple[int, ...]
    source: str = ""


@dataclass(slots=True, eq=False)
class Subject:
    """A subject by its name, and its states from the oldest to the newest."""

    name: str
    key: tuple[str, ...]
    states: list[State] = field(default_factory=list)

    @property
    def now(self) -> State | None:
        return self.states[-1] if self.states else None

    @property
    def value(self) -> str:
        """The value that holds now, or that held last."""
        return next((state.value for state in reversed(self.states) if state.value), "")

    @property
    def ids(self) -> tuple[int, ...]:
        """The messages that all states rest on."""
        return tuple(dict.fromkeys(i for state in self.states for i in state.ids))


@dataclass(slots=True, eq=False)
class Dependency:
    """`dependent` hangs on `source`. With a `value`, it is what the dependent becomes when the source changes: to
    `when`, or at all where that is empty. `spent` when it has come about: it spoke of one change."""

    dependent: Subject
    source: Subject
    when: str
    value: str
    ids: tuple[int, ...]
    spent: bool = False


class Ledger:
    """Subjects by name, and the dependencies between them."""

    def __init__(self) -> None:
        self.subjects: list[Subject] = []
        self.dependencies: list[Dependency] = []
        self._by_words: dict[frozenset[str], Subject] = {}
        self._by_last: dict[str, list[Subject]] = {}

    def find(self, name: str) -> Subject | None:
        """The subject that a name means, None where none is like it or several are alike."""
        key = name_stems(name)
        if not key or (same := self._by_words.get(frozenset(key))):
            return same if key else None
        near = [(same_subject(key, one.key), one) for one in self._by_last.get(key[-1], ())]
        best = max((share for share, _ in near), default=0.0)
        found = [one for share, one in near if share == best > 0]
        return found[0] if len(found) == 1 else None

    def _subject(self, name: str) -> Subject | None:
        """The subject of that name, made where there is none; None for a name without a word in it."""
        found, key = self.find(name), name_stems(name)
        if found is None and key:
            found = Subject(name, key)
            self.subjects.append(found)
            self._by_words[frozenset(key)] = found
            self._by_last.setdefault(key[-1], []).append(found)
        return found

    def tell(self, name: str, value: str, date: str, ids: tuple[int, ...], *, changed: bool = False) -> None:
        """A subject has a value. Another than before, or one told as a change (`changed`), is a change of it."""
        subject = self._subject(name)
        if subject is None or not value:
            return
        before = subject.now
        if before is not None and before.value and same_value(before.value, value) and before.kind != "uncertain":
            if before.kind == "follows":  # what was to be expected has been told as well
                subject.states[-1] = State("told", value, before.date, (*before.ids, *ids))
            return
        known = before is not None and before.kind != "deleted"
        _add(subject, State("told", value, date, ids))
        settled = before is not None and before.kind == "uncertain" and not changed
        if changed or (known and not settled):
            self._apply(subject, value, date, ids)

    def depend(self, name: str, source: str, when: str, value: str, ids: tuple[int, ...]) -> None:
        """`name` hangs on `source`; with a `value` in the way that `Dependency` says."""
        dependent, on = self._subject(name), self._subject(source)
        if dependent is None or on is None or dependent is on:
            return
        same = [one for one in self.dependencies if one.dependent is dependent and one.source is on]
        if not any((one.when, one.value, one.spent) == (when, value, False) for one in same):
            self.dependencies.append(Dependency(dependent, on, when, value, ids))

    def _apply(self, source: Subject, value: str, date: str, ids: tuple[int, ...]) -> None:
        """`source` is now `value`: pass that on to what hangs on it, and from there on, once to each."""
        reached, waiting = {id(source)}, [(source, value, ids)]
        while waiting:
            changed, became, because = waiting.pop(0)
            for dependent, dependencies in self._hanging_on(changed):
                if id(dependent) in reached or (dependent.now and dependent.now.kind == "deleted"):
                    continue
                reached.add(id(dependent))
                rests = tuple(dict.fromkeys((*(i for one in dependencies for i in one.ids), *because)))
                rule = _rule(dependencies, became)
                if rule is not None:
                    rule.spent = True
                    _add(dependent, State("follows", rule.value, date, rests, changed.name))
                else:
                    _add(dependent, State("uncertain", "", date, rests, changed.name))
                waiting.append((dependent, rule.value if rule else "", rests))

    def _hanging_on(self, source: Subject) -> Iterator[tuple[Subject, list[Dependency]]]:
        found: dict[int, list[Dependency]] = {}
        for one in self.dependencies:
            if one.source is source:
                found.setdefault(id(one.dependent), []).append(one)
        yield from ((group[0].dependent, group) for group in found.values())

    def forget(self, name: str, value: str, date: str, ids: tuple[int, ...]) -> tuple[str, list[str]]:
        """Take all values of a subject away; its name, and the values that nothing may show any more.

        A name that means nothing known, with a value that something has, means that.
        """
        named = self.find(name)
        holders = [one for one in self.subjects if value and one.value and same_value(one.value, value)]
        subject = named if named and named.states else holders[0] if holders else self._subject(name)
        if subject is None:
            return name, [value] if value else []
        values = [state.value for state in subject.states if state.value] + ([value] if value else [])
        for one in [subject, *self._namesakes(subject, values)]:
            one.states = [State("deleted", "", date, ids)]
            self.dependencies = [each for each in self.dependencies if each.dependent is not one]
        return subject.name, list(dict.fromkeys(values))

    def _namesakes(self, subject: Subject, values: Sequence[str]) -> list[Subject]:
        """Other subjects that share a word and a value with `subject`: the same thing under another name."""
        return [
            one
            for one in self.subjects
            if one is not subject
            and not set(one.key).isdisjoint(subject.key)
            and any(state.value and same_value(state.value, value) for state in one.states for value in values)
        ]

    def rewrite(self, change: Callable[[str], str]) -> None:
        """Every value as `change` has it: where one holds what nothing may show any more."""
        for subject in self.subjects:
            subject.states = [replace(state, value=change(state.value)) for state in subject.states]
        for one in self.dependencies:
            one.value, one.when = change(one.value), change(one.when)

    def asked_about(self, question: str, ids: Sequence[int], most: int) -> list[Subject]:
        """The subjects that a question speaks of, best first, then what they hang on, then those that rest on `ids`."""
        words = frozenset(stems(question))
        stated = [one for one in self.subjects if one.states]
        shares = {id(one): self._share(one, words) for one in stated}
        named = sorted((one for one in stated if shares[id(one)] >= _ABOUT), key=lambda one: -shares[id(one)])
        shown = frozenset(ids)
        beside = [one for one in stated if not shown.isdisjoint(one.ids)]
        sources = [one.source for one in self.dependencies if one.dependent in named and one.source.states]
        found = {id(one): one for one in [*named, *sources, *beside]}
        return list(found.values())[:most]

    @staticmethod
    def _share(subject: Subject, words: frozenset[str]) -> float:
        by_value = spoken_of(stems(subject.value[:200]), words) if subject.value else 0.0
        return max(spoken_of(subject.key, words), by_value if by_value == 1 else 0.0)


def _add(subject: Subject, state: State) -> None:
    subject.states.append(state)
    if len(subject.states) > _MOST_STATES:
        del subject.states[1]


def _rule(dependencies: Sequence[Dependency], became: str) -> Dependency | None:
    """The dependency that says what a source's change to `became` leads to; the newest where there are several."""
    told = [one for one in reversed(dependencies) if one.value and became]
    named = [one for one in told if one.when and same_value(one.when, became)]
    open_ones = [one for one in told if not one.when and not one.spent]
    return next(iter([*named, *open_ones]), None)


def state_line(subject: Subject) -> str:
    """What holds of a subject, since when and why, and what held before, on one line (values keep their own)."""
    now = subject.now
    if now is None:
        return ""
    if now.kind == "deleted":
        return f"{subject.name}: removed at the user's request{_on(now.date, ' on ')}"
    earlier = _history(subject.states[:-1])
    if now.kind == "uncertain":
        was = f"was {subject.value}, but " if subject.value else ""
        before = _history(_before_last_value(subject.states))
        return f"{subject.name}: uncertain{_on(now.date, ' since ')}: {was}{now.source} changed" + (
            f" (before that {before})" if before else ""
        )
    since = [part for part in (_on(now.date, "since ") + _because(now), f"was {earlier}" if earlier else "") if part]
    return f"{subject.name}: {now.value}" + (f" ({'; '.join(since)})" if since else "")


def _because(state: State) -> str:
    return f", as was said to follow when {state.source} changes" if state.kind == "follows" else ""


def _on(date: str, word: str) -> str:
    return f"{word}{date}" if date else ""


def _history(states: Sequence[State]) -> str:
    told = [f"{state.value}{_on(state.date, ' from ')}" for state in states if state.value]
    return ", then ".join(told)


def _before_last_value(states: Sequence[State]) -> list[State]:
    valued = [state for state in states if state.value]
    return valued[:-1]
