"""From verdicts to the numbers of the paper, and to the first stage at which an answer went wrong.

A cascade, absence or deletion counts only if the same memory knew the entity's value before the change (section 2.7 of
the fact sheet): a memory that knows nothing would pass every absence and deletion. The share that counts is `real`, the
share of plain passes `raw`; the denominator of both are all questions after the change that could be scored, and those
that could not are counted apart.

Stages: was what the answer needs ever stored, still there when asked, retrieved, and then used? What a question needs
(section 2.8 of the fact sheet): the string of an exact recall; every value of a tracking or an aggregation; of a
cascade the if-then fact, of an absence the dependent fact with its clause, both with those of what lies between it and
the root, and the change itself; of a deletion the request alone. A memory that hands out messages is followed by their
ids. A memory that keeps files is followed by its snapshots and by the text that it retrieved: a fact is there if its
value is, which takes no notice of paraphrase.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from beam_meme.episode_gold import TASKS, EpisodeGold, MemeGold, MemeTask, Told, ToldKind
from beam_meme.meme_judge import MemeVerdict, contains, plain
from beamlib.errors import UserError
from beamlib.scoring.intervals import Array, conversation_values, mean_interval

OutcomeKind = Literal["real", "trivial", "knew but failed", "never knew"]
OUTCOME_KINDS: tuple[OutcomeKind, ...] = get_args(OutcomeKind)
"""Known before and right after; only right after; only known before; neither."""

FILTERED: tuple[MemeTask, ...] = ("deletion", "cascade", "absence")
"""The tasks of which only real passes count."""

OVERALL = "overall"
MEME_COLUMNS = (
    "memory", "task", "hop", "n", "unscored", "real", "raw", "partial", *(f"n {kind}" for kind in OUTCOME_KINDS),
    "not known", "low", "high",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class JudgedEpisode:
    """An episode as one memory answered it: the gold of both rounds' questions, and the verdicts, by question id."""

    memory: str
    episode_id: str
    gold: Mapping[str, MemeGold]
    verdicts: Mapping[str, MemeVerdict]


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """What a question after the change came to.

    `raw` is whether the answer passes, `real` whether that counts; both are None where `unscored` says why. `kind` is
    None for tasks without the filter. `unasked` says that no answer from before the change stands behind the kind,
    which then counts as not known.
    """

    memory: str
    episode_id: str
    question_id: str
    task: MemeTask
    hop: int | None
    entity: str
    raw: bool | None
    real: bool | None
    partial: float | None
    kind: OutcomeKind | None
    unscored: str | None
    unasked: bool = False


def outcomes(episode: JudgedEpisode) -> list[QuestionOutcome]:
    """The outcome of every question after the change, in the order of the gold."""
    known = _known(episode)
    return [
        _outcome(episode, question_id, gold, known.get(gold.entity))
        for question_id, gold in episode.gold.items()
        if gold.phase == "after"
    ]


def _known(episode: JudgedEpisode) -> dict[str, MemeVerdict]:
    """The verdicts from before the change, by entity: that is what joins the rounds. Missing answers are left out."""
    asked = ((gold, episode.verdicts.get(question_id)) for question_id, gold in episode.gold.items())
    return {
        gold.entity: verdict
        for gold, verdict in asked
        if gold.phase == "before" and gold.task in FILTERED and verdict is not None and not verdict.unanswered
    }


def _outcome(episode: JudgedEpisode, question_id: str, gold: MemeGold, before: MemeVerdict | None) -> QuestionOutcome:
    verdict = episode.verdicts.get(question_id) or MemeVerdict(question_id=question_id, unscored="there is no verdict")
    unscored, raw, kind = verdict.unscored, verdict.passed, None
    if gold.task in FILTERED and raw is not None:
        if before is not None and before.passed is None:
            unscored, raw = f"the answer before the change could not be judged: {before.unscored}", None
        else:
            kind = outcome_kind(before is not None and bool(before.passed), raw)
    return QuestionOutcome(
        memory=episode.memory,
        episode_id=episode.episode_id,
        question_id=question_id,
        task=gold.task,
        hop=gold.hop,
        entity=gold.entity,
        raw=raw,
        real=raw if kind is None else kind == "real",
        partial=verdict.partial if raw is not None else None,
        kind=kind,
        unscored=None if raw is not None else unscored or "the verdict decides nothing",
        unasked=kind is not None and before is None,
    )


def outcome_kind(known: bool, right: bool) -> OutcomeKind:
    """What it comes to that the value was `known` before the change, and the answer after it is `right`."""
    if right:
        return "real" if known else "trivial"
    return "knew but failed" if known else "never knew"


def score_episodes(results: Iterable[JudgedEpisode]) -> pd.DataFrame:
    """One row per memory and task, then its overall score; columns `MEME_COLUMNS`, memories in the order of `results`.

    Cascade and absence have a row for each hop beside the one of all (`hop` is 1, 2, or 0 for all). `real`, `raw` and
    `partial` are shares from 0 to 1, NaN where there is nothing to average; `n <kind>` and `not known` (no answer from
    before the change) are counts. `low` and `high` are the 95 % interval of `real` over episodes. The overall score is
    the plain mean of the six tasks, NaN where one is missing. An episode that a memory has twice is a `UserError`.
    """
    by_memory: dict[str, dict[str, list[QuestionOutcome]]] = {}
    for episode in results:
        own = by_memory.setdefault(episode.memory, {})
        if episode.episode_id in own:
            raise UserError(f"results of {episode.memory}: {episode.episode_id} occurs twice; keep one of them.")
        own[episode.episode_id] = outcomes(episode)
    rows = [row for memory, episodes in by_memory.items() for row in _rows(memory, list(episodes.values()))]
    return pd.DataFrame(rows, columns=list(MEME_COLUMNS))


def _rows(memory: str, episodes: Sequence[Sequence[QuestionOutcome]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for task in TASKS:
        own = [[one for one in episode if one.task == task] for episode in episodes]
        rows.append(_row(memory, task, 0, own))
        if task in ("cascade", "absence"):
            for hop in (1, 2):
                rows.append(_row(memory, task, hop, [[one for one in part if one.hop == hop] for part in own]))
    return [*rows, _overall(memory, [row for row in rows if row["hop"] == 0], episodes)]


def _row(memory: str, task: str, hop: int, episodes: Sequence[Sequence[QuestionOutcome]]) -> dict[str, Any]:
    asked = [one for episode in episodes for one in episode]
    scored = [one for one in asked if one.real is not None]
    kinds = Counter(one.kind for one in scored)
    low, high = _interval(episodes)
    return {
        "memory": memory,
        "task": task,
        "hop": hop,
        "n": len(scored),
        "unscored": len(asked) - len(scored),
        "real": _mean([one.real for one in scored]),
        "raw": _mean([one.raw for one in scored]),
        "partial": _mean([one.partial for one in scored if one.partial is not None]),
        **{f"n {kind}": kinds[kind] for kind in OUTCOME_KINDS},
        "not known": sum(one.unasked for one in scored),
        "low": low,
        "high": high,
    }


def _overall(
    memory: str, tasks: Sequence[Mapping[str, Any]], episodes: Sequence[Sequence[QuestionOutcome]]
) -> dict[str, Any]:
    counted = ("n", "unscored", *(f"n {kind}" for kind in OUTCOME_KINDS), "not known")
    low, high = _overall_interval(episodes)
    return {
        "memory": memory,
        "task": OVERALL,
        "hop": 0,
        **{name: sum(row[name] for row in tasks) for name in counted},
        **{name: float(np.mean([row[name] for row in tasks])) for name in ("real", "raw")},
        "partial": float("nan"),
        "low": low,
        "high": high,
    }


def _mean(values: Sequence[float | bool | None]) -> float:
    return float(np.mean(np.array(values, dtype=np.float64))) if values else float("nan")


def _sums(episodes: Sequence[Sequence[QuestionOutcome]]) -> tuple[Array, Array]:
    """For each episode how many of its questions count as right, and how many were scored."""
    real = [[float(one.real) for one in episode if one.real is not None] for episode in episodes]
    return np.array([sum(own) for own in real]), np.array([float(len(own)) for own in real])


def _interval(episodes: Sequence[Sequence[QuestionOutcome]]) -> tuple[float, float]:
    sums, counts = _sums(episodes)
    held = counts > 0
    if not held.any():
        return float("nan"), float("nan")
    low, high = mean_interval(conversation_values(sums[held], counts[held]))
    return float(low), float(high)


def _overall_interval(episodes: Sequence[Sequence[QuestionOutcome]]) -> tuple[float, float]:
    """The interval of the mean over tasks: each episode adds to it what it adds to every task."""
    parts = [_sums([[one for one in episode if one.task == task] for episode in episodes]) for task in TASKS]
    if not all(counts.any() for _, counts in parts):
        return float("nan"), float("nan")
    values = np.mean([conversation_values(sums, counts) for sums, counts in parts], axis=0)
    low, high = mean_interval(values)
    return float(low), float(high)


FailureStage = Literal["encoded", "maintained", "retrieved", "answered", "right"]
FAILURE_STAGES: tuple[FailureStage, ...] = get_args(FailureStage)
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


def stage_of(question: MemeGold, episode: EpisodeGold, evidence: StageEvidence) -> FailureStage:
    """The first stage that failed for an answer that does not pass; where all it needs was retrieved, `answered`.

    A need that the episode tells nowhere is passed over: no memory could have stored it.
    """
    if evidence.passed:
        return "right"
    reached = [max(_reached(fact, evidence) for fact in need) for need in needs_of(question, episode) if need]
    return FAILURE_STAGES[min(reached, default=3)]


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


def _told(episode: EpisodeGold, entity: str, kind: ToldKind, value: str | None) -> Need:
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
