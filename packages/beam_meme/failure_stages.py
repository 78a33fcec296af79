"""At which stage an answer went wrong: was what it needs ever stored, still there when asked, retrieved, and then used?

What a question needs (section 2.8 of the fact sheet): the string of an exact recall; every value of a tracking or an
aggregation; of a cascade the if-then fact, of an absence the dependent fact with its clause, both with those of what
lies between it and the root, and the change itself; of a deletion the request alone.

A memory that hands out messages is followed by their ids. One that keeps files is followed by its snapshots and by the
text that it retrieved: a fact is there if its value is, which takes no notice of paraphrase.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Literal, get_args

from beam_meme.episode_gold import EpisodeGold, FactKind, MemeGold, Told
from beam_meme.meme_judge import contains, plain

Stage = Literal["encoded", "maintained", "retrieved", "answered", "right"]
STAGES: tuple[Stage, ...] = get_args(Stage)
"""The stage that failed, in order; `right` where none did."""

Need = tuple[Told, ...]
"""Facts any one of which will do."""

_CONDITIONS = re.compile(
    r"\b(?:depend\w*|tied|linked|because|since|as long as|if|when|once|unless|due to|based on|chang\w*|"
    r"uncertain|was)\b",
    re.IGNORECASE,
)
_DELETED = re.compile(r"\b(?:delet|remov|forg[eo]t|eras|discard|no longer)\w*", re.IGNORECASE)


@dataclass(frozen=True)
class StageEvidence:
    """What is on record of one answer.

    `message_ids` are those of the messages in the context, `places` the (session, line) of every message that had been
    read. `snapshots` are the texts kept after each session that had been read, empty for a memory that keeps messages
    as they are.
    """

    passed: bool
    context: str = ""
    message_ids: frozenset[int] = frozenset()
    places: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    snapshots: tuple[str, ...] = ()

    @cached_property
    def read(self) -> Mapping[int, tuple[int, ...]]:
        """By session, the lines at which its messages begin, in order."""
        found: dict[int, list[int]] = {}
        for session, line in sorted(self.places.values()):
            found.setdefault(session, []).append(line)
        return {session: tuple(lines) for session, lines in found.items()}

    @cached_property
    def retrieved(self) -> frozenset[tuple[int, int]]:
        """Where the messages stand that were retrieved."""
        return frozenset(self.places[one] for one in self.message_ids if one in self.places)

    def place(self, fact: Told) -> tuple[int, int] | None:
        """Where the message stands that tells a fact, None if it had not been read.

        Lines of one side in a row are one message, which is placed at the first of them.
        """
        lines = self.read.get(fact.session, ())
        before = bisect_right(lines, fact.line)
        return (fact.session, lines[before - 1]) if before else None


def needs_of(question: MemeGold, episode: EpisodeGold) -> list[Need]:
    """What answering takes: each entry has the facts any one of which will do, and is empty where none was told."""
    return [tuple(need) for need in _needs(question, episode)]


def stage_of(question: MemeGold, episode: EpisodeGold, evidence: StageEvidence) -> Stage:
    """The first stage that failed for an answer that does not pass; where all it needs was retrieved, `answered`.

    A need that the episode tells nowhere is passed over: no memory could have stored it.
    """
    if evidence.passed:
        return "right"
    reached = [max(_reached(fact, evidence) for fact in need) for need in needs_of(question, episode) if need]
    return STAGES[min(reached, default=3)]


def _needs(question: MemeGold, episode: EpisodeGold) -> Iterator[Iterable[Told]]:
    entities = tuple(question.entity.split("+"))
    if question.phase == "before" or question.task in ("exact_recall", "tracking", "aggregation"):
        for value in question.values:
            yield _telling(episode, entities, value)
    elif question.task == "deletion":
        yield _deletion(episode, question.entity)
    else:
        yield from _chain(question, episode)
        yield _told(episode, episode.root, "change", episode.change[1])


def _chain(question: MemeGold, episode: EpisodeGold) -> Iterator[Iterable[Told]]:
    """The fact that ties the entity asked for to its source, and those further up, without the root's.

    At a cascade each has to be an if-then fact. At an absence the middle may become known or not: either fact will do.
    """
    entity = question.entity
    above = {edge.target: edge.source for edge in episode.edges}
    middle, seen = question.source or above.get(entity, episode.root), {entity}
    tied, ruled = _tied(episode, entity), _ruled(episode, entity)
    yield ruled or tied if question.task == "cascade" else tied
    while middle != episode.root and middle not in seen:
        seen.add(middle)
        tied, ruled = _tied(episode, middle), _ruled(episode, middle)
        yield ruled or tied if question.task == "cascade" else (*tied, *ruled)
        middle = above.get(middle, episode.root)


def _tied(episode: EpisodeGold, entity: str) -> Need:
    return _told(episode, entity, "dependency", episode.before.get(entity))


def _ruled(episode: EpisodeGold, entity: str) -> Need:
    return _told(episode, entity, "rule", episode.after.get(entity))


def _told(episode: EpisodeGold, entity: str, kind: FactKind, value: str | None) -> Need:
    """The facts of a kind about an entity; where a file names no kinds, those about it that tell `value`."""
    own = [fact for fact in episode.facts if fact.entity == entity]
    named = tuple(fact for fact in own if fact.kind == kind)
    return named or tuple(fact for fact in own if fact.kind is None and value and contains(value, fact.value))


def _telling(episode: EpisodeGold, entities: tuple[str, ...], value: str) -> Iterator[Told]:
    """The facts about one of `entities` that tell `value`; a request to forget it is none."""
    own = (fact for fact in episode.facts if fact.entity in entities and fact.kind != "deletion")
    return (fact for fact in own if contains(value, fact.value))


def _deletion(episode: EpisodeGold, entity: str) -> Need:
    """The request to forget; where a file names no kinds, the last of several facts about the entity."""
    own = [fact for fact in episode.facts if fact.entity == entity]
    named = tuple(fact for fact in own if fact.kind == "deletion")
    if named or len(own) < 2 or own[-1].kind is not None:
        return named
    return (replace(own[-1], kind="deletion", value=own[0].value),)


def _reached(fact: Told, evidence: StageEvidence) -> int:
    """How many stages a fact got through: 0 never stored, 1 lost since, 2 not retrieved, 3 retrieved."""
    place = evidence.place(fact)
    if place in evidence.retrieved:
        return 3
    if not evidence.snapshots:
        return 0 if place is None else 2
    if evidence.context and _holds(evidence.context, fact):
        return 3
    since = evidence.snapshots[fact.session :]
    if since and _holds(since[-1], fact):
        return 2
    return int(any(_holds(text, fact) for text in since))


def _holds(text: str, fact: Told) -> bool:
    """Whether a text has what the fact says. A clause needs a word of dependence on the line of its value."""
    lines, value = _lines(text), plain(fact.value)
    own = [line for line in lines if value in line]
    if fact.kind == "deletion":
        return _is_deleted(lines, own, fact)
    if fact.kind == "dependency" and own:
        return any(_CONDITIONS.search(line) for line in own)
    return bool(own) or value in " ".join(lines)  # a value may have several lines


def _is_deleted(lines: Sequence[str], own: Sequence[str], fact: Told) -> bool:
    """Whether the value is gone (has no line of its `own`), or its lines or one that names the thing say that it is."""
    if all(_DELETED.search(line) for line in own):
        return True
    name = fact.entity.replace("_", " ").lower()
    return any(name in line and _DELETED.search(line) for line in lines)


@lru_cache(maxsize=32)
def _lines(text: str) -> tuple[str, ...]:
    """The lines of a text as they are compared; kept, for every question asks about the same snapshots."""
    return tuple(map(plain, text.splitlines()))
