"""A probing question before it is chosen, and the conversation as its makers and checks see it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from beam_generate.probes.kinds import ABILITIES, Ability
from beam_generate.probes.wording import raw_words, stem
from beam_generate.shapes import DialogueTurn
from beamlib.errors import UserError
from beamlib.files import read_json, sha256, to_json

_REF = re.compile(r"\[?(?:(\d+)\s*[.,]\s*)?(\d+)\s*[.,]\s*(\d+)\]?")


class Ref(NamedTuple):
    """Where a bullet stands: plan (0-based), batch and bullet (1-based). Written `0.3.12`."""

    plan: int
    batch: int
    bullet: int

    def __str__(self) -> str:
        return f"{self.plan}.{self.batch}.{self.bullet}"


def read_ref(value: Any, plan: int | None = None) -> Ref | None:
    """A reference from `"0.3.12"`, or `"3.12"` where there is only the plan `plan`; lists of numbers too; else None."""
    if isinstance(value, list) and all(type(part) is int for part in value):
        value = ".".join(map(str, value))
    found = _REF.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or (found[1] is None and plan is None):
        return None
    return Ref(int(found[1]) if found[1] else plan or 0, int(found[2]), int(found[3]))


@dataclass(frozen=True, slots=True)
class Spoken:
    """One message with its global id (0-based position in the conversation) and the bullet its turn belongs to."""

    id: int
    role: Literal["user", "assistant"]
    text: str
    ref: Ref | None


class View:
    """A generated conversation by message id, by bullet and by word."""

    def __init__(self, plans: Sequence[Sequence[DialogueTurn]]) -> None:
        """`plans`: the turns of each plan, in order."""
        messages: list[Spoken] = []
        turns: dict[Ref, list[tuple[Spoken, ...]]] = {}
        for turn in (turn for plan in plans for turn in plan):
            ref = Ref(turn.plan, turn.batch, turn.bullet) if turn.bullet is not None else None
            spoken = tuple(
                Spoken(len(messages) + place, said.role, said.text, ref) for place, said in enumerate(turn.messages)
            )
            messages.extend(spoken)
            if ref is not None:
                turns.setdefault(ref, []).append(spoken)
        self.messages: tuple[Spoken, ...] = tuple(messages)
        self._turns = turns
        self._postings: dict[str, list[int]] = {}

    def turns_of(self, ref: Ref) -> list[tuple[Spoken, ...]]:
        """The turns whose main question is linked to a bullet, in order."""
        return self._turns.get(ref, [])

    def texts(self, ids: Iterable[int]) -> list[str]:
        """Texts of the messages that exist among `ids`."""
        return [self.messages[i].text for i in ids if 0 <= i < len(self.messages)]

    def holding(self, stems: Iterable[str]) -> Mapping[str, Sequence[int]]:
        """For each stem the ids of all messages that hold it, ascending.

        What is not known yet is looked up in one pass over the conversation: ask for all at once.
        """
        wanted = sorted(set(stems))
        new = frozenset(one for one in wanted if one not in self._postings)
        if new:
            found: dict[str, list[int]] = {one: [] for one in sorted(new)}
            met: set[str] = set()
            hits: dict[str, str] = {}  # the words met so far whose stem is wanted: each word is stemmed once
            for message in self.messages:
                words = set(raw_words(message.text))
                hits.update((word, one) for word in words - met if (one := stem(word)) in new)
                met |= words
                for one in {hits[word] for word in hits.keys() & words}:
                    found[one].append(message.id)
            self._postings.update(found)
        return {one: self._postings[one] for one in wanted}


@dataclass(frozen=True, slots=True)
class Draft:
    """A probing question with all that is needed to check, review and publish it.

    `evidence` maps the published part ("" where there are no parts) to message ids; empty for abstention. `fields` are
    the other published fields. `hints` is what the maker said for the checks alone and is never published: for
    abstention `entity`, `detail`, `keyword`, for updates `old_value`, `new_value`. `refs` are the bullets it rests on,
    `plans` the plans of its window. `dropped` is the name of the check it failed and `why` the reason, both empty for
    a usable one. `key` is the id once it is fixed.
    """

    ability: Ability
    question: str
    reference: str
    rubric: tuple[str, ...]
    evidence: Mapping[str, tuple[int, ...]]
    difficulty: str
    fields: Mapping[str, Any]
    about: str
    refs: tuple[Ref, ...]
    plans: tuple[int, ...]
    hints: Mapping[str, str] = field(default_factory=dict)
    dropped: str = ""
    why: str = ""
    key: str = ""

    @property
    def id(self) -> str:
        """Ability and a digest of the content: a decision on it cannot pass to a question with other content."""
        if self.key:
            return self.key
        content = [self.question, self.reference, list(self.rubric), {k: list(v) for k, v in self.evidence.items()}]
        return f"{self.ability}-{sha256(to_json([self.ability, content, list(map(str, self.refs))]))[:10]}"

    @property
    def evidence_ids(self) -> tuple[int, ...]:
        """All cited ids, in order, without repeats."""
        return tuple(dict.fromkeys(i for ids in self.evidence.values() for i in ids))

    def changed(self, **changes: Any) -> Draft:
        """The draft with other content under its old id."""
        return replace(self, key=self.id, **changes)


def to_record(draft: Draft) -> dict[str, Any]:
    """A draft as a JSON value."""
    return {
        "id": draft.id,
        "ability": draft.ability,
        "question": draft.question,
        "reference": draft.reference,
        "rubric": list(draft.rubric),
        "evidence": {part: list(ids) for part, ids in draft.evidence.items()},
        "difficulty": draft.difficulty,
        "fields": dict(draft.fields),
        "about": draft.about,
        "bullets": [str(ref) for ref in draft.refs],
        "plans": list(draft.plans),
        "hints": dict(draft.hints),
        "dropped": draft.dropped,
        "why": draft.why,
    }


def from_record(record: Mapping[str, Any]) -> Draft:
    """The draft of `to_record`; `KeyError`, `TypeError` or `ValueError` where it is none."""
    if record["ability"] not in ABILITIES:
        raise ValueError(f"{record['ability']!r} is no ability")
    refs = [read_ref(ref) for ref in record["bullets"]]
    if None in refs:
        raise ValueError("a bullet is not written plan.batch.bullet")
    return Draft(
        record["ability"],
        str(record["question"]),
        str(record["reference"]),
        tuple(map(str, record["rubric"])),
        {str(part): tuple(map(int, ids)) for part, ids in record["evidence"].items()},
        str(record["difficulty"]),
        dict(record["fields"]),
        str(record["about"]),
        tuple(ref for ref in refs if ref is not None),
        tuple(map(int, record["plans"])),
        dict(record["hints"]),
        str(record["dropped"]),
        str(record["why"]),
        str(record["id"]),
    )


def read_candidates(path: Path) -> tuple[Draft, ...]:
    """The drafts of a `candidates.json`; a file that is none is a `UserError`."""
    value = read_json(path)
    records = value if isinstance(value, list) else [value]
    found = []
    for number, record in enumerate(records, start=1):
        try:
            found.append(from_record(record))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"{path}: entry {number} is no candidate ({type(error).__name__}: {error}); "
                "delete the file and make the questions again."
            ) from None
    return tuple(found)
