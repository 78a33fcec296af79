"""How far two judges agree on the same answers, what that does to a comparison, and averages corrected by few labels.

Judges are given as frames of verdicts and of question scores, by system, wherever these come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import stdtrit

from beam_field.comparing import average_runs
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.scoring.intervals import LEVEL, Array, compare, difference_interval, logit_interval
from beamlib.scoring.records import Judgement

T = TypeVar("T")
VERDICT_LEVELS = (0.0, 0.5, 1.0)
ALL_ABILITIES = "all"
_KEYS = ["system", "probe_id", "conversation_id", "ability", "nugget"]
_TINY, _NAN = 1e-12, float("nan")


@dataclass(frozen=True, slots=True)
class JudgeScores:
    """One judge: its name, its verdicts (`nugget_verdicts`) and its question scores by system (`score_run`)."""

    name: str
    verdicts: pd.DataFrame
    scores: Mapping[str, pd.DataFrame]


@dataclass(frozen=True, eq=False)
class JudgeCard:
    """Two judges on the same answers.

    `agreement` has a row per ability and one for all, over nuggets (columns ability, n, kappa, kappa_half, equal,
    mean_first, mean_second). `confusion` counts nuggets, rows by the first judge. `bias` has a row per system: its
    average by either judge, and second minus first, paired, with its interval. `order` has a row per pair of systems:
    the difference by either judge, its change, and whether the sign stays. `alone` counts answers that only one judged.
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
        """The difference of two systems below which the judge decides nothing; NaN for fewer than two systems.

        The furthest end of the intervals of what a change of judge does to the difference of two systems; the change
        itself where it is the same in all conversations.
        """
        if self.order.empty or (self.order["conversations"] < 2).any():
            return _NAN
        reach = self.order[["low", "high"]].abs().max(axis=1)
        return float(reach.fillna(self.order["change"].abs()).max())


def cohen_kappa(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> float:
    """Return Cohen's kappa of two columns of labels; NaN where all labels are equal, or there is none."""
    labels, codes = np.unique(np.stack([first, second]), return_inverse=True)
    shares = [np.bincount(own, minlength=labels.size) / max(first.size, 1) for own in codes.reshape(2, -1)]
    chance = float(shares[0] @ shares[1])
    return float(((first == second).mean() - chance) / (1 - chance)) if first.size and chance < 1 else _NAN


def nugget_verdicts(judgements: Mapping[str, Sequence[Judgement]]) -> pd.DataFrame:
    """Return a row per judged nugget: system, probe, conversation, ability, number of the nugget, score."""
    rows = [
        (system, judgement.probe_id, judgement.conversation_id, judgement.ability, number, verdict.score)
        for system, own in judgements.items()
        for judgement in own
        for number, verdict in enumerate(judgement.verdicts)
        if verdict.score is not None
    ]
    return pd.DataFrame(rows, columns=[*_KEYS, "score"]).astype({"score": float})


def judge_card(
    first: JudgeScores, second: JudgeScores, seed: int = 0, runs_of: Mapping[str, str] | None = None
) -> JudgeCard:
    """Compare two judges on what both have judged.

    Args:
        first: The judge to compare with.
        second: The judge in question.
        seed: Seed of the paired test.
        runs_of: The system of names that are runs of one; a question counts with its mean over runs.

    Raises:
        UserError: The two have judged no answer in common.
    """
    shared = {name: _shared(first.scores[name], second.scores[name]) for name in first.scores if name in second.scores}
    shared = {name: pair for name, pair in shared.items() if len(pair[0])}
    if not shared:
        raise UserError("judge card: the two have judged no answer alike; give two runs over the same answers.")
    verdicts = first.verdicts.merge(second.verdicts, on=_KEYS, suffixes=("_first", "_second"), validate="one_to_one")
    judged = sum(len(frame) for judge in (first, second) for frame in judge.scores.values())
    alone = judged - 2 * sum(len(pair[0]) for pair in shared.values())
    groups = group_runs(shared, runs_of or {})
    scores = {name: tuple(map(average_runs, zip(*pairs, strict=True))) for name, pairs in groups.items()}
    counts = pd.crosstab(verdicts["score_first"], verdicts["score_second"])
    confusion = counts.reindex(index=VERDICT_LEVELS, columns=VERDICT_LEVELS, fill_value=0)
    agreement, bias, order = _agreement(verdicts), _bias(scores, seed), _order(scores)
    return JudgeCard(first.name, second.name, agreement, confusion, bias, order, alone)


def group_runs(by_name: Mapping[str, T], runs_of: Mapping[str, str]) -> dict[str, list[T]]:
    """Group values by the system that their names are runs of."""
    groups: dict[str, list[T]] = {}
    for name, value in by_name.items():
        groups.setdefault(runs_of.get(name, name), []).append(value)
    return groups


def _agreement(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return kappa over three levels and over at least a half, and the share of equal verdicts, by ability."""
    groups = [(name, verdicts[verdicts["ability"] == name]) for name in ABILITIES]
    rows = []
    for name, own in [*groups, (ALL_ABILITIES, verdicts)]:
        if own.empty:
            continue
        first, second = (own[f"score_{judge}"].to_numpy(dtype=np.float64) for judge in ("first", "second"))
        kappas = cohen_kappa(first, second), cohen_kappa(first >= 0.5, second >= 0.5)
        rows.append((name, len(own), *kappas, (first == second).mean(), first.mean(), second.mean()))
    columns = ["ability", "n", "kappa", "kappa_half", "equal", "mean_first", "mean_second"]
    return pd.DataFrame(rows, columns=columns)


def _shared(*frames: pd.DataFrame) -> tuple[pd.DataFrame, ...]:
    """Return the questions that all frames have a score for, in one order."""
    scored = [frame.dropna(subset=["score"]).sort_values("probe_id") for frame in frames]
    both = set.intersection(*(set(frame["probe_id"]) for frame in scored))
    return tuple(frame[frame["probe_id"].isin(both)].reset_index(drop=True) for frame in scored)


def _bias(scores: Mapping[str, Sequence[pd.DataFrame]], seed: int) -> pd.DataFrame:
    rows = []
    for name, (first, second) in scores.items():
        gap = compare(second, first, seed)
        averages = [float(_by_conversation(frame).mean()) for frame in (first, second)]
        rows.append((name, *averages, gap.difference, gap.low, gap.high, gap.n, len(first)))
    columns = ["system", "first", "second", "difference", "low", "high", "conversations", "n"]
    return pd.DataFrame(rows, columns=columns)


def _order(scores: Mapping[str, Sequence[pd.DataFrame]]) -> pd.DataFrame:
    """Compare every pair of systems over the questions that both systems have from both judges."""
    rows = []
    for a, b in combinations(scores, 2):
        questions = set(scores[a][0]["probe_id"]) & set(scores[b][0]["probe_id"])
        if not questions:
            continue
        own = [[frame[frame["probe_id"].isin(questions)] for frame in scores[name]] for name in (a, b)]
        first, second = (_by_conversation(own[0][judge]) - _by_conversation(own[1][judge]) for judge in (0, 1))
        change = np.asarray(second - first, np.float64)
        low, high = map(float, difference_interval(change))
        kept = bool(first.mean() * second.mean() >= 0)  # a tie reverses nothing
        rows.append((a, b, first.mean(), second.mean(), change.mean(), low, high, len(change), kept))
    columns = ["system", "against", "first", "second", "change", "low", "high", "conversations", "kept"]
    return pd.DataFrame(rows, columns=columns)


def _by_conversation(scores: pd.DataFrame) -> pd.Series[float]:
    """Return the mean of a conversation's ability means, as a comparison counts it."""
    means = scores.groupby(["conversation_id", "ability"])["score"].mean()
    return means.groupby(level="conversation_id").mean()


def corrections(cheap: Mapping[str, pd.DataFrame], better: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Correct each system's mean over questions by the cheap judge with the better judge's labels.

    Both map systems to scores (`score_run`). Columns: system, plain, labelled, mean, low, high, power, conversations
    (those with a label), labels (questions), n.
    """
    rows = []
    for name, frame in cheap.items():
        scored = frame.dropna(subset=["score"])
        if scored.empty or name not in better:
            continue
        labels = scored["probe_id"].map(better[name].set_index("probe_id")["score"]).to_numpy(dtype=np.float64)
        scores = scored["score"].to_numpy(dtype=np.float64)
        mean = correct_mean(scores, labels, scored["conversation_id"].to_numpy())
        counts = (mean.n, int((~np.isnan(labels)).sum()), len(scored))
        rows.append((name, mean.plain, mean.labelled, mean.mean, mean.low, mean.high, mean.power, *counts))
    columns = ["system", "plain", "labelled", "mean", "low", "high", "power", "conversations", "labels", "n"]
    return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """A mean with its 95 % interval.

    `plain` is the mean of the cheap judge over everything, `labelled` that of the better judge over its part. `power`
    is the weight of the cheap judge, 0 where it tells nothing; `n` counts conversations with a label.
    """

    mean: float
    low: float
    high: float
    plain: float
    labelled: float
    power: float
    n: int


def correct_mean(cheap: Array, better: Array, conversations: npt.NDArray[Any]) -> CorrectedMean:
    """Estimate the mean that the better judge would give to all questions, from 0 to 1.

    Prediction-powered inference (Angelopoulos et al., Science 382, 2023, with the power parameter of "PPI++"), for
    questions that go together in conversations:

        mean(better) + power x (mean of cheap over all - mean of cheap over the labelled)

    with the `power` from 0 to 1 that minimises the variance. The interval does not depend on how good the cheap judge
    is; where that is worthless, it is about as wide as that of the labelled part alone. It is Student's t with one
    degree of freedom less than labelled conversations, over the jackknife's standard error (the mean without each
    conversation, with a new power each time), on the logit scale as in `mean_interval`.

    Args:
        cheap: Scores of the cheap judge, shape (questions,).
        better: Scores of the better judge, NaN without a label. The choice of labels must not depend on the answers.
        conversations: The conversation of each question.

    Returns:
        The corrected mean; its interval is NaN for fewer than two labelled conversations and for equal ones.
    """
    known = ~np.isnan(better)
    plain = float(cheap.mean()) if cheap.size else _NAN
    if not known.any():
        return CorrectedMean(_NAN, _NAN, _NAN, plain, labelled=_NAN, power=0.0, n=0)
    _, unit = np.unique(conversations, return_inverse=True)
    per_question = (np.ones_like(cheap), cheap, known, cheap * known, np.where(known, better, 0.0))
    sums: Array = np.stack([np.bincount(unit, values) for values in per_question]).astype(np.float64)
    n = int((sums[_LABELS] > 0).sum())
    estimate, power = _estimate(sums)
    mean, labelled = float(np.clip(estimate, 0, 1)), float(better[known].mean())
    if n < 2:
        return CorrectedMean(mean, _NAN, _NAN, plain, labelled, power, n)
    left_out = np.array([_estimate(np.delete(sums, place, axis=1))[0] for place in range(sums.shape[1])])
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2) * np.sqrt((n - 1) / n * ((left_out - estimate) ** 2).sum()))
    low, high = logit_interval(estimate, half) if half > _TINY else (_NAN, _NAN)
    return CorrectedMean(mean, float(low), float(high), plain, labelled, power, n)


_ALL, _CHEAP, _LABELS, _CHEAP_LABELLED, _BETTER = range(5)
"""Rows of the sums per conversation."""


def _estimate(sums: Array) -> tuple[float, float]:
    """Return the mean and the power, from sums of shape (5, conversations)."""
    every, cheap, labels, cheap_labelled, better = sums.sum(axis=1)
    total, own, best = cheap / every, cheap_labelled / labels, better / labels
    # To first order, what each conversation adds to a mean: its deviations from it.
    labelled = (sums[_BETTER] - best * sums[_LABELS]) / labels
    difference = (sums[_CHEAP] - total * sums[_ALL]) / every - (sums[_CHEAP_LABELLED] - own * sums[_LABELS]) / labels
    spread = float(difference @ difference)
    power = float(np.clip(-(labelled @ difference) / spread, 0.0, 1.0)) if spread > 0 else 0.0
    return float(best + power * (total - own)), power
