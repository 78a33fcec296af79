"""Track the state of each subject and apply dependencies when a source changes.

No model is called here: notes come in (`dependency_notes`), states come out. A dependency is noted when the user
states it. It matters later, when the source changes and nobody mentions the dependent: then the dependent takes the
value that was announced, or becomes uncertain from that day on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import Stemmer

_WORD = re.compile(r"[^\W_]+")
_BESIDE = re.compile(r"\s+(?:of|on|in|at|for|from|with|to|by|that|which|who|i|we)\b", re.IGNORECASE)
_STEMMER = Stemmer.Stemmer("english")
_EMPTY_WORDS = """
a an the my our your his her their its user users s of for to in on at with and or is are was were be been do does did
i we you he she it they that this these those what which who whom whose when where how why now currently current new old
any all about have has had will would can could should me us them tell
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())
"""Words that name no subject."""


@lru_cache(maxsize=65_536)
def subject_stems(text: str) -> tuple[str, ...]:
    """Return the stems of a text's words in order, without stop words."""
    words = (word.lower() for word in _WORD.findall(text))
    return tuple(_STEMMER.stemWord(word) for word in words if word not in _EMPTY)


def name_stems(name: str) -> tuple[str, ...]:
    """Return the stems of a subject's name, with the head noun last.

    "recipient of the weekly report" gives the same as "weekly report recipient".
    """
    core, *rest = _BESIDE.split(name.strip(), maxsplit=1)
    return (*subject_stems(" ".join(rest)), *subject_stems(core)) if subject_stems(core) else subject_stems(name)


def same_subject(first: Sequence[str], second: Sequence[str]) -> float:
    """Score whether two names, as stems, are the same subject: 1 for the same words, 0 for different subjects.

    "lead" and "team lead" may be the same, and so may "report recipient" and "weekly report recipient": the last word
    is the same, and the longer name contains the shorter.
    """
    first_stems, second_stems = frozenset(first), frozenset(second)
    if not first_stems or not second_stems:
        return 0.0
    if first_stems == second_stems:
        return 1.0
    if first[-1] != second[-1] or not (first_stems < second_stems or second_stems < first_stems):
        return 0.0
    return len(first_stems & second_stems) / len(first_stems | second_stems)


def _spoken_of(name: Sequence[str], text: frozenset[str]) -> float:
    """Return the share of a name's stems that a text's stems contain."""
    return sum(stem in text for stem in name) / len(name) if name else 0.0


def same_value(first: str, second: str) -> bool:
    """Tell whether two values agree up to case, punctuation and words around one of them."""
    first_words, second_words = (" ".join(_WORD.findall(text.lower())) for text in (first, second))
    return f" {first_words} " in f" {second_words} " or f" {second_words} " in f" {first_words} "


_Kind = Literal["told", "follows", "uncertain", "deleted"]
_MOST_STATES = 200  # of one subject; the oldest but the first go
_ABOUT = 0.5  # share of a name's words that a question must hold


@dataclass(frozen=True, slots=True)
class _State:
    """The value of a subject from `date` on, based on messages `ids`; a change of `source` caused it."""

    kind: _Kind
    value: str
    date: str
    ids: tuple[int, ...]
    source: str = ""


@dataclass(slots=True, eq=False)
class LedgerSubject:
    """A subject by its name, and its states from oldest to newest."""

    name: str
    key: tuple[str, ...]
    states: list[_State] = field(default_factory=list)

    @property
    def now(self) -> _State | None:
        return self.states[-1] if self.states else None

    @property
    def value(self) -> str:
        """The current value, or the last one."""
        return next((state.value for state in reversed(self.states) if state.value), "")

    @property
    def ids(self) -> tuple[int, ...]:
        """The messages that all states are based on."""
        return tuple(dict.fromkeys(i for state in self.states for i in state.ids))


@dataclass(slots=True, eq=False)
class _Dependency:
    """`dependent` depends on `source`. With a `value`, the dependent takes it when the source changes to `when`.

    An empty `when` means any change. A dependency that has taken effect is `spent`.
    """

    dependent: LedgerSubject
    source: LedgerSubject
    when: str
    value: str
    ids: tuple[int, ...]
    spent: bool = False


class Ledger:
    """Subjects by name, and the dependencies between them."""

    def __init__(self) -> None:
        self.subjects: list[LedgerSubject] = []
        self.dependencies: list[_Dependency] = []
        self._by_words: dict[frozenset[str], LedgerSubject] = {}
        self._by_last: dict[str, list[LedgerSubject]] = {}

    def find(self, name: str) -> LedgerSubject | None:
        """Return the subject that a name refers to, None if there is none or several match."""
        key = name_stems(name)
        if not key or (same := self._by_words.get(frozenset(key))):
            return same if key else None
        near = [(same_subject(key, subject.key), subject) for subject in self._by_last.get(key[-1], ())]
        best = max((share for share, _ in near), default=0.0)
        best_subjects = [subject for share, subject in near if share == best > 0]
        return best_subjects[0] if len(best_subjects) == 1 else None

    def _subject(self, name: str) -> LedgerSubject | None:
        """Return the subject of that name, created if needed; None for a name without words."""
        subject, key = self.find(name), name_stems(name)
        if subject is None and key:
            subject = LedgerSubject(name, key)
            self.subjects.append(subject)
            self._by_words[frozenset(key)] = subject
            self._by_last.setdefault(key[-1], []).append(subject)
        return subject

    def tell(self, name: str, value: str, date: str, ids: tuple[int, ...], *, changed: bool = False) -> None:
        """Record a subject's value. Another value than before, or one stated as `changed`, is a change."""
        subject = self._subject(name)
        if subject is None or not value:
            return
        before = subject.now
        if before is not None and before.value and same_value(before.value, value) and before.kind != "uncertain":
            if before.kind == "follows":  # the expected value has now been stated
                subject.states[-1] = _State("told", value, before.date, (*before.ids, *ids))
            return
        known = before is not None and before.kind != "deleted"
        _add(subject, _State("told", value, date, ids))
        settled = before is not None and before.kind == "uncertain" and not changed
        if changed or (known and not settled):
            self._apply(subject, value, date, ids)

    def depend(self, name: str, source: str, when: str, value: str, ids: tuple[int, ...]) -> None:
        """Record that `name` depends on `source`, as `_Dependency` describes."""
        dependent, on = self._subject(name), self._subject(source)
        if dependent is None or on is None or dependent is on:
            return
        same = [one for one in self.dependencies if one.dependent is dependent and one.source is on]
        if not any((one.when, one.value, one.spent) == (when, value, False) for one in same):
            self.dependencies.append(_Dependency(dependent, on, when, value, ids))

    def _apply(self, source: LedgerSubject, value: str, date: str, ids: tuple[int, ...]) -> None:
        """Pass a change of `source` on to its dependents and from them on, once to each."""
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
                    _add(dependent, _State("follows", rule.value, date, rests, changed.name))
                else:
                    _add(dependent, _State("uncertain", "", date, rests, changed.name))
                waiting.append((dependent, rule.value if rule else "", rests))

    def _hanging_on(self, source: LedgerSubject) -> Iterator[tuple[LedgerSubject, list[_Dependency]]]:
        found: dict[int, list[_Dependency]] = {}
        for one in self.dependencies:
            if one.source is source:
                found.setdefault(id(one.dependent), []).append(one)
        yield from ((group[0].dependent, group) for group in found.values())

    def forget(self, name: str, value: str, date: str, ids: tuple[int, ...]) -> tuple[str, list[str]]:
        """Remove all values of a subject; return its name and the values that must be hidden.

        An unknown name with a value that a subject has means that subject.
        """
        named = self.find(name)
        holders = [one for one in self.subjects if value and one.value and same_value(one.value, value)]
        subject = named if named and named.states else holders[0] if holders else self._subject(name)
        if subject is None:
            return name, [value] if value else []
        values = [state.value for state in subject.states if state.value] + ([value] if value else [])
        for one in [subject, *self._namesakes(subject, values)]:
            one.states = [_State("deleted", "", date, ids)]
            self.dependencies = [each for each in self.dependencies if each.dependent is not one]
        return subject.name, list(dict.fromkeys(values))

    def _namesakes(self, subject: LedgerSubject, values: Sequence[str]) -> list[LedgerSubject]:
        """Return other subjects that share a word and a value with `subject`."""
        return [
            other
            for other in self.subjects
            if other is not subject
            and not set(other.key).isdisjoint(subject.key)
            and any(state.value and same_value(state.value, value) for state in other.states for value in values)
        ]

    def rewrite(self, change: Callable[[str], str]) -> None:
        """Replace every value by `change(value)`, to hide what values contain."""
        for subject in self.subjects:
            subject.states = [replace(state, value=change(state.value)) for state in subject.states]
        for one in self.dependencies:
            one.value, one.when = change(one.value), change(one.when)

    def asked_about(self, question: str, ids: Sequence[int], most: int) -> list[LedgerSubject]:
        """Return the subjects of a question, best first, then their sources, then those based on `ids`."""
        words = frozenset(subject_stems(question))
        ranked = [subject for subject in self.subjects if subject.states]
        shares = {id(subject): self._share(subject, words) for subject in ranked}
        named = [subject for subject in ranked if shares[id(subject)] >= _ABOUT]
        named.sort(key=lambda subject: -shares[id(subject)])
        shown = frozenset(ids)
        beside = [subject for subject in ranked if not shown.isdisjoint(subject.ids)]
        sources = [link.source for link in self.dependencies if link.dependent in named and link.source.states]
        known = {id(subject): subject for subject in (*named, *sources, *beside)}
        return list(known.values())[:most]

    @staticmethod
    def _share(subject: LedgerSubject, words: frozenset[str]) -> float:
        by_value = _spoken_of(subject_stems(subject.value[:200]), words) if subject.value else 0.0
        return max(_spoken_of(subject.key, words), by_value if by_value == 1 else 0.0)


def _add(subject: LedgerSubject, state: _State) -> None:
    subject.states.append(state)
    if len(subject.states) > _MOST_STATES:
        del subject.states[1]


def _rule(dependencies: Sequence[_Dependency], became: str) -> _Dependency | None:
    """Return the newest dependency that applies when its source changes to `became`."""
    told = [dependency for dependency in reversed(dependencies) if dependency.value and became]
    named = [dependency for dependency in told if dependency.when and same_value(dependency.when, became)]
    open_ones = [dependency for dependency in told if not dependency.when and not dependency.spent]
    return next(iter([*named, *open_ones]), None)


def state_line(subject: LedgerSubject) -> str:
    """Describe a subject on one line: its value, since when and why, and earlier values."""
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


def _because(state: _State) -> str:
    return f", as was said to follow when {state.source} changes" if state.kind == "follows" else ""


def _on(date: str, word: str) -> str:
    return f"{word}{date}" if date else ""


def _history(states: Sequence[_State]) -> str:
    told = [f"{state.value}{_on(state.date, ' from ')}" for state in states if state.value]
    return ", then ".join(told)


def _before_last_value(states: Sequence[_State]) -> list[_State]:
    valued = [state for state in states if state.value]
    return valued[:-1]
