"""How far two judges agree on the same answers, and what that means for a comparison of systems.

Both judges are given as frames of verdicts and of question scores, by system; nothing here knows where these came from
(a run judged again, the shipped verdicts, another importer's file).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

import numpy as np
import pandas as pd

from beam_field.comparing import over_runs
from beam_field.prediction_powered import corrected
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.scoring.intervals import Array, compare, difference_interval
from beamlib.scoring.records import Judgement

T = TypeVar("T")
LEVELS = (0.0, 0.5, 1.0)
ALL = "all"
_KEYS = ["system", "probe_id", "conversation_id", "ability", "nugget"]


@dataclass(frozen=True, eq=False)
class JudgeCard:
    """Two judges on the same answers.

    `agreement` has a row per ability and one for all (columns ability, n, kappa, kappa_half, equal, mean_first,
    mean_second), over nuggets. `confusion` counts nuggets, rows by the first judge. `bias` has a row per system: its
    average by either judge and second minus first, paired, with its interval. `order` has a row per pair of systems:
    the difference by either judge, how much it changes, and whether the sign is kept. `alone` counts the answers that
    only one of the two has judged.
    """

    first: str
    second: str
    agreement: pd.DataFrame
    confusion: pd.DataFrame
    bias: pd.DataFrame
    order: pd.DataFrame
    alone: int

    @property
    def error(self) -> float:
        """Differences of two systems under this are within the judge's error; NaN for fewer than two systems.

        The furthest end of the intervals of what a change of judge does to the difference of two systems.
        """
        ends = self.order[["low", "high"]].to_numpy(dtype=np.float64)
        return float(np.abs(ends).max()) if ends.size and not np.isnan(ends).any() else float("nan")


def kappa(first: Array, second: Array) -> float:
    """Cohen's kappa of two columns of labels; NaN where all labels are one, or there is none."""
    if not first.size:
        return float("nan")
    labels, coded = np.unique(np.concatenate([first, second]), return_inverse=True)
    one, other = coded[: first.size], coded[first.size :]
    shares = [np.bincount(column, minlength=labels.size) / first.size for column in (one, other)]
    by_chance = float(shares[0] @ shares[1])
    return float(((one == other).mean() - by_chance) / (1 - by_chance)) if by_chance < 1 else float("nan")


def verdict_frame(judgements: Mapping[str, Sequence[Judgement]]) -> pd.DataFrame:
    """A row per nugget that has a verdict: system, probe, conversation, ability, number of the nugget, score."""
    rows = [
        (system, one.probe_id, one.conversation_id, one.ability, number, verdict.score)
        for system, own in judgements.items()
        for one in own
        for number, verdict in enumerate(one.verdicts)
        if verdict.score is not None
    ]
    return pd.DataFrame(rows, columns=[*_KEYS, "score"]).astype({"score": float})


def judge_card(
    first: tuple[str, pd.DataFrame, Mapping[str, pd.DataFrame]],
    second: tuple[str, pd.DataFrame, Mapping[str, pd.DataFrame]],
    seed: int = 0,
    runs_of: Mapping[str, str] | None = None,
) -> JudgeCard:
    """The card of two judges, each as its name, its verdicts (`verdict_frame`) and its scores by system (`score_run`).

    Only what both have judged is compared. A `UserError` where that is nothing. `runs_of` names the system of those
    that are runs of one: a question counts with its mean over the runs that both have judged.
    """
    systems = [name for name in first[2] if name in second[2]]
    scores = {name: _shared(first[2][name], second[2][name]) for name in systems}
    scores = {name: both for name, both in scores.items() if len(both[0])}
    if not scores:
        raise UserError("judge card: the two have judged no answer alike; give two runs over the same answers.")
    verdicts = first[1].merge(second[1], on=_KEYS, suffixes=("_first", "_second"), validate="one_to_one")
    asked = sum(len(frame) for side in (first, second) for frame in side[2].values())
    alone = asked - 2 * sum(len(both[0]) for both in scores.values())
    groups = grouped(scores, runs_of or {})
    scores = {name: (over_runs([a for a, _ in own]), over_runs([b for _, b in own])) for name, own in groups.items()}
    return JudgeCard(
        first[0],
        second[0],
        agreement_frame(verdicts),
        confusion(verdicts),
        _bias(scores, seed),
        _order(scores),
        alone,
    )


def grouped(found: Mapping[str, T], runs_of: Mapping[str, str]) -> dict[str, list[T]]:
    """What there is of each system's runs."""
    groups: dict[str, list[T]] = {}
    for name, one in found.items():
        groups.setdefault(runs_of.get(name, name), []).append(one)
    return groups


def agreement_frame(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Kappa over the three levels and over at least a half, and the share of equal verdicts, per ability and in all."""
    groups = [(name, verdicts[verdicts["ability"] == name]) for name in ABILITIES]
    rows = []
    for name, own in [*groups, (ALL, verdicts)]:
        one, other = (own[f"score_{side}"].to_numpy(dtype=np.float64) for side in ("first", "second"))
        if own.empty:
            continue
        halves = kappa((one >= 0.5).astype(float), (other >= 0.5).astype(float))
        rows.append((name, len(own), kappa(one, other), halves, (one == other).mean(), one.mean(), other.mean()))
    columns = ["ability", "n", "kappa", "kappa_half", "equal", "mean_first", "mean_second"]
    return pd.DataFrame(rows, columns=columns)


def confusion(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Nuggets by the first judge's verdict (rows) and the second's (columns)."""
    counts = pd.crosstab(verdicts["score_first"], verdicts["score_second"])
    return counts.reindex(index=LEVELS, columns=LEVELS, fill_value=0)


def _shared(one: pd.DataFrame, other: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The questions that both judges have a score for, in one order."""
    scored = [frame.dropna(subset=["score"]).sort_values("probe_id") for frame in (one, other)]
    both = set(scored[0]["probe_id"]) & set(scored[1]["probe_id"])
    return tuple(frame[frame["probe_id"].isin(both)].reset_index(drop=True) for frame in scored)  # type: ignore[return-value]


def _bias(scores: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]], seed: int) -> pd.DataFrame:
    rows = []
    for name, (one, other) in scores.items():
        found = compare(other, one, seed)
        averages = [float(_by_conversation(frame).mean()) for frame in (one, other)]
        rows.append((name, *averages, found.difference, found.low, found.high, found.n, len(one)))
    columns = ["system", "first", "second", "difference", "low", "high", "conversations", "n"]
    return pd.DataFrame(rows, columns=columns)


def _order(scores: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]]) -> pd.DataFrame:
    """Every pair of systems over the questions that both systems have from both judges."""
    rows = []
    for a, b in combinations(scores, 2):
        questions = set(scores[a][0]["probe_id"]) & set(scores[b][0]["probe_id"])
        if not questions:
            continue
        means = [
            [_by_conversation(frame[frame["probe_id"].isin(questions)]) for frame in scores[name]] for name in (a, b)
        ]
        first, second = (means[0][judge] - means[1][judge] for judge in (0, 1))
        change = np.asarray(second - first, np.float64)
        low, high = map(float, difference_interval(change))
        kept = bool(first.mean() * second.mean() >= 0)  # a tie turns nothing round
        rows.append((a, b, first.mean(), second.mean(), change.mean(), low, high, len(change), kept))
    columns = ["system", "against", "first", "second", "change", "low", "high", "conversations", "kept"]
    return pd.DataFrame(rows, columns=columns)


def _by_conversation(scores: pd.DataFrame) -> pd.Series[float]:
    """The mean of a conversation's ability means, as a comparison counts it."""
    means = scores.groupby(["conversation_id", "ability"])["score"].mean()
    return means.groupby(level="conversation_id").mean()


def corrections(cheap: Mapping[str, pd.DataFrame], better: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Each system's mean over questions by the cheap judge, corrected by the better one's where it has judged.

    Both map systems to scores (`score_run`). Columns: system, plain, labelled, mean, low, high, power, conversations
    (those with a label), labels (questions), n.
    """
    rows = []
    for name, frame in cheap.items():
        scored = frame.dropna(subset=["score"])
        if scored.empty or name not in better:
            continue
        labels = scored["probe_id"].map(better[name].set_index("probe_id")["score"]).to_numpy(dtype=np.float64)
        units = scored["conversation_id"].to_numpy()
        found = corrected(scored["score"].to_numpy(dtype=np.float64), labels, units)
        counts = (found.n, int((~np.isnan(labels)).sum()), len(scored))
        rows.append((name, found.plain, found.labelled, found.mean, found.low, found.high, found.power, *counts))
    columns = ["system", "plain", "labelled", "mean", "low", "high", "power", "conversations", "labels", "n"]
    return pd.DataFrame(rows, columns=columns)
