"""From verdicts to the numbers of the paper: the four kinds of outcome, the published score, and what lies beside it.

A cascade, absence or deletion counts only if the same memory knew the entity's value before the change (section 2.7 of
the fact sheet): one that knows nothing would pass every absence and deletion. The share that counts is `real`, the
share of plain passes `raw`; the denominator of both are all questions after the change that could be scored, and those
that could not are counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from beam_meme.episode_gold import TASKS, MemeGold, Task
from beam_meme.meme_judge import Verdict
from beamlib.errors import UserError
from beamlib.scoring.intervals import Array, conversation_values, mean_interval

Kind = Literal["real", "trivial", "knew but failed", "never knew"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Known before and right after; only right after; only known before; neither."""

FILTERED: tuple[Task, ...] = ("deletion", "cascade", "absence")
"""The tasks of which only real passes count."""

OVERALL = "overall"
COLUMNS = ("memory", "task", "hop", "n", "unscored", "real", "raw", "partial", *(f"n {kind}" for kind in KINDS),
           "not known", "low", "high")  # fmt: skip


@dataclass(frozen=True, slots=True)
class JudgedEpisode:
    """An episode as one memory answered it: the gold of both rounds' questions, and the verdicts, by question id."""

    memory: str
    episode_id: str
    gold: Mapping[str, MemeGold]
    verdicts: Mapping[str, Verdict]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a question after the change came to.

    `raw` is whether the answer passes, `real` whether that counts; both are None where `unscored` says why. `kind` is
    None for tasks without the filter. `unasked` says that no answer from before the change stands behind the kind,
    which then counts as not known.
    """

    memory: str
    episode_id: str
    question_id: str
    task: Task
    hop: int | None
    entity: str
    raw: bool | None
    real: bool | None
    partial: float | None
    kind: Kind | None
    unscored: str | None
    unasked: bool = False


def outcomes(episode: JudgedEpisode) -> list[Outcome]:
    """The outcome of every question after the change, in the order of the gold."""
    known = _known(episode)
    return [
        _outcome(episode, question_id, gold, known.get(gold.entity))
        for question_id, gold in episode.gold.items()
        if gold.phase == "after"
    ]


def _known(episode: JudgedEpisode) -> dict[str, Verdict]:
    """The verdicts from before the change, by entity: that is what joins the rounds. Missing answers are left out."""
    asked = ((gold, episode.verdicts.get(question_id)) for question_id, gold in episode.gold.items())
    return {
        gold.entity: verdict
        for gold, verdict in asked
        if gold.phase == "before" and gold.task in FILTERED and verdict is not None and not verdict.unanswered
    }


def _outcome(episode: JudgedEpisode, question_id: str, gold: MemeGold, before: Verdict | None) -> Outcome:
    verdict = episode.verdicts.get(question_id) or Verdict(question_id=question_id, unscored="there is no verdict")
    unscored, raw, kind = verdict.unscored, verdict.passed, None
    if gold.task in FILTERED and raw is not None:
        if before is not None and before.passed is None:
            unscored, raw = f"the answer before the change could not be judged: {before.unscored}", None
        else:
            kind = kind_of(before is not None and bool(before.passed), raw)
    return Outcome(
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


def kind_of(known: bool, right: bool) -> Kind:
    """What it comes to that the value was `known` before the change, and the answer after it is `right`."""
    if right:
        return "real" if known else "trivial"
    return "knew but failed" if known else "never knew"


def score_episodes(results: Iterable[JudgedEpisode]) -> pd.DataFrame:
    """One row per memory and task, then its overall score; columns `COLUMNS`, memories in the order of `results`.

    Cascade and absence have a row for each hop beside the one of all (`hop` is 1, 2, or 0 for all). `real`, `raw` and
    `partial` are shares from 0 to 1, NaN where there is nothing to average; `n <kind>` and `not known` (no answer from
    before the change) are counts. `low` and `high` are the 95 % interval of `real` over episodes. The overall score is
    the plain mean of the six tasks, NaN where one is missing. An episode that a memory has twice is a `UserError`.
    """
    by_memory: dict[str, dict[str, list[Outcome]]] = {}
    for episode in results:
        own = by_memory.setdefault(episode.memory, {})
        if episode.episode_id in own:
            raise UserError(f"results of {episode.memory}: {episode.episode_id} occurs twice; keep one of them.")
        own[episode.episode_id] = outcomes(episode)
    rows = [row for memory, episodes in by_memory.items() for row in _rows(memory, list(episodes.values()))]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows(memory: str, episodes: Sequence[Sequence[Outcome]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for task in TASKS:
        own = [[one for one in episode if one.task == task] for episode in episodes]
        rows.append(_row(memory, task, 0, own))
        if task in ("cascade", "absence"):
            for hop in (1, 2):
                rows.append(_row(memory, task, hop, [[one for one in part if one.hop == hop] for part in own]))
    return [*rows, _overall(memory, [row for row in rows if row["hop"] == 0], episodes)]


def _row(memory: str, task: str, hop: int, episodes: Sequence[Sequence[Outcome]]) -> dict[str, Any]:
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
        **{f"n {kind}": kinds[kind] for kind in KINDS},
        "not known": sum(one.unasked for one in scored),
        "low": low,
        "high": high,
    }


def _overall(memory: str, tasks: Sequence[Mapping[str, Any]], episodes: Sequence[Sequence[Outcome]]) -> dict[str, Any]:
    counted = ("n", "unscored", *(f"n {kind}" for kind in KINDS), "not known")
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


def _sums(episodes: Sequence[Sequence[Outcome]]) -> tuple[Array, Array]:
    """For each episode how many of its questions count as right, and how many were scored."""
    real = [[float(one.real) for one in episode if one.real is not None] for episode in episodes]
    return np.array([sum(own) for own in real]), np.array([float(len(own)) for own in real])


def _interval(episodes: Sequence[Sequence[Outcome]]) -> tuple[float, float]:
    sums, counts = _sums(episodes)
    held = counts > 0
    if not held.any():
        return float("nan"), float("nan")
    low, high = mean_interval(conversation_values(sums[held], counts[held]))
    return float(low), float(high)


def _overall_interval(episodes: Sequence[Sequence[Outcome]]) -> tuple[float, float]:
    """The interval of the mean over tasks: each episode adds to it what it adds to every task."""
    parts = [_sums([[one for one in episode if one.task == task] for episode in episodes]) for task in TASKS]
    if not all(counts.any() for _, counts in parts):
        return float("nan"), float("nan")
    values = np.mean([conversation_values(sums, counts) for sums, counts in parts], axis=0)
    low, high = mean_interval(values)
    return float(low), float(high)
