"""Compute the numbers that a page prints; the viewer recomputes each of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from beam_page.run_folder import StoredArm
from beamlib.data.gold import Gold
from beamlib.evaluate.records import Answer
from beamlib.report.results import FIXED_RECALL, recall_rows, recalled_ids
from beamlib.report.tables import NOTHING
from beamlib.scoring.intervals import EXACT_UP_TO, LEVEL, RESAMPLES, SEED, Comparison, compare
from beamlib.scoring.protocols import PROTOCOLS, REPORTED, Protocol
from beamlib.scoring.scores import AVERAGE, score_run, summarise

RECALL_COLUMN = "recall"
"""Beside the protocols' names: the share of cited messages whole in the context."""
TREATMENTS = ("full", "drop")
"""All questions, or those alone whose score no known defect can spoil (errata)."""
SIGNIFICANT = 0.05

Numbers = list[Any]
"""mean, low, high as they are printed (None where there is none), questions, conversations, unscored, and 1 where all
conversations have the same mean."""


@dataclass(frozen=True)
class Headlines:
    """`numbers` by protocol, treatment, series, size, ability or "average"; `best` by protocol, treatment, size.

    An entry of `best` has the series with the highest average and its comparisons with every other main series:
    difference, low, high, p and n. `supported` tells whether each is above zero by interval and by test.
    """

    numbers: dict[str, Any]
    best: dict[str, Any]
    quantiles: dict[str, Any]


def printed(value: float, decimals: int) -> str | None:
    """Format a number as the page shows it, None for NaN."""
    return None if math.isnan(value) else f"{value:.{decimals}f}"


def numbers_of(scores: pd.DataFrame, *, fixed: bool = False) -> dict[str, dict[str, Numbers]]:
    """Return the printed numbers of one series' scores, by size and ability; without intervals if they are `fixed`."""
    summary = summarise(scores)
    if fixed:
        summary = summary.assign(low=np.nan, high=np.nan, equal=False)
    numbers: dict[str, dict[str, Numbers]] = {}
    for row in summary.to_dict("records"):
        ends = [printed(row["mean"], 3), printed(row["low"], 2), printed(row["high"], 2)]
        counts = [int(row[name]) for name in ("n_questions", "n_conversations", "unscored", "equal")]
        numbers.setdefault(row["size"], {})[row["ability"]] = [*ends, *counts]
    return numbers


def protocols_of(arms: Iterable[StoredArm]) -> Mapping[str, Protocol]:
    """Return the page's protocols, including those of published verdicts where there are any."""
    published = any(judgement.reported for arm in arms for judgement in arm.judgements)
    return PROTOCOLS | REPORTED if published else PROTOCOLS


def opening(numbers: Mapping[str, Any], main: Collection[str]) -> str:
    """Choose the protocol that a page opens with: the first that is computable for every main memory.

    Published verdicts may lack what a protocol needs. An average that is missing because calls failed does not count.
    """
    for name, treatments in numbers.items():
        own = [size[AVERAGE] for key, sizes in treatments["full"].items() if key in main for size in sizes.values()]
        if name != RECALL_COLUMN and own and all(average[0] is not None or average[5] for average in own):
            return name
    return next(iter(numbers))


def headlines(
    arms: Sequence[StoredArm], main: Collection[str], gold: Mapping[str, Gold], spoilt: Collection[str]
) -> Headlines:
    """Compute all numbers of a run.

    Questions without `gold` have no evidence recall. `spoilt` are questions whose score a defect can spoil.
    """
    numbers: dict[str, Any] = {}
    best: dict[str, Any] = {}
    treatments = TREATMENTS if spoilt else TREATMENTS[:1]
    for name in (*protocols_of(arms), RECALL_COLUMN):
        frames = dict(_frames(arms, gold, name))
        for treatment in treatments:
            kept = {
                key: frame if treatment == "full" else frame[~frame["probe_id"].isin(spoilt)]
                for key, frame in frames.items()
            }
            fixed = fixed_recall(arms) if name == RECALL_COLUMN else frozenset()
            numbers.setdefault(name, {})[treatment] = {
                key: numbers_of(frame, fixed=key in fixed) for key, frame in kept.items()
            }
            if name != RECALL_COLUMN:
                ranked = {key: frame for key, frame in kept.items() if key in main and key.split("/")[-1] != "oracle"}
                best.setdefault(name, {})[treatment] = dict(_best(ranked))
    most = len({judgement.conversation_id for arm in arms for judgement in arm.judgements})
    return Headlines(numbers, best, quantiles(most))


def fixed_recall(arms: Iterable[StoredArm]) -> frozenset[str]:
    """Return the series whose evidence recall is fixed by construction."""
    return frozenset(arm.series for arm in arms if arm.arm and arm.arm.memory in FIXED_RECALL)


def _frames(arms: Sequence[StoredArm], gold: Mapping[str, Gold], name: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the scores of each series by a protocol, or its evidence recall, over all sizes."""
    for series in dict.fromkeys(arm.series for arm in arms):
        arms_of_series = [arm for arm in arms if arm.series == series]
        if name == RECALL_COLUMN:
            answers = [answer for arm in arms_of_series for answer in arm.answers.values() if answer.probe_id in gold]
            frame = recall_rows(answers, gold)
        else:
            frame = pd.concat([score_run(arm.judgements, name) for arm in arms_of_series], ignore_index=True)
        if len(frame):
            yield series, frame


def evidence_held(answer: Answer, gold: Gold) -> tuple[list[int], list[int], list[int]]:
    """Return the cited messages that the context shows whole, those it shows in part, and those in notes alone."""
    whole, partly, noted = recalled_ids(answer), recalled_ids(answer, "partial"), recalled_ids(answer, "noted")

    def cited(ids: frozenset[int]) -> list[int]:
        return [i for i in gold.evidence if i in ids]

    return cited(whole), cited(partly - whole), cited(noted - partly)


def _best(frames: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, dict[str, Any]]]:
    sizes = dict.fromkeys(size for frame in frames.values() for size in frame["size"])
    for size in sizes:
        frames_of_size = {name: frame[frame["size"] == size] for name, frame in frames.items()}
        means = {name: _average(frame) for name, frame in frames_of_size.items() if len(frame)}
        means = {name: mean for name, mean in means.items() if not math.isnan(mean)}
        if len(means) < 2:
            continue
        first = max(means, key=lambda name: means[name])
        others = {name: paired(frames_of_size[first], frames_of_size[name]) for name in means if name != first}
        all_supported = all(comparison is not None and supported(comparison) for comparison in others.values())
        rows = [
            [name, *comparison_numbers(comparison)] for name, comparison in others.items() if comparison is not None
        ]
        yield size, {"series": first, "supported": all_supported, "against": rows}


def _average(frame: pd.DataFrame) -> float:
    summary = summarise(frame)
    return float(summary.loc[summary["ability"] == AVERAGE, "mean"].iloc[0])


def paired(first: pd.DataFrame, second: pd.DataFrame) -> Comparison | None:
    """Compare `first` with `second` on their common questions; None without any."""
    shared = set(first["probe_id"]) & set(second["probe_id"])
    if not shared:
        return None
    first_scores, second_scores = (frame[frame["probe_id"].isin(shared)] for frame in (first, second))
    return compare(first_scores, second_scores)


def supported(comparison: Comparison) -> bool:
    """Tell whether a difference is above zero by its interval and by the sign-flip test."""
    return bool(comparison.low > 0 and comparison.p_value <= SIGNIFICANT)


def comparison_numbers(comparison: Comparison) -> Numbers:
    """Return a comparison as printed: difference, low, high, p, conversations, questions left out."""
    values = (comparison.difference, comparison.low, comparison.high, comparison.p_value)
    return [*(printed(value, 3) for value in values), comparison.n, comparison.unscored]


def quantiles(most: int) -> dict[str, Any]:
    """Return what the viewer needs for intervals and tests.

    These are Student's t by the number of conversations up to `most`, and the random generator of `sign_flip_test`.
    """
    values = {str(n): float(stdtrit(n - 1, (1 + LEVEL) / 2)) for n in range(2, most + 1)}
    drawn = cast(Any, np.random.default_rng(SEED).bit_generator).state["state"]
    generator = {"state": str(drawn["state"]), "increment": str(drawn["inc"]), "resamples": RESAMPLES}
    return {**values, **generator, "exact": EXACT_UP_TO, "significant": SIGNIFICANT}


def cell_text(numbers: Numbers | None, most: int = 0) -> str:
    """Format a cell: "0.412 [0.38, 0.45]", "0.412", "0.100 (equal in all 5)", a dash for none.

    "not computable" where nothing is unscored: the source lacks what the protocol needs. A cell over fewer than `most`
    conversations, which its table names for the size, says how many: "0.412 [0.11, 0.79] (n = 3)".
    """
    if numbers is None or numbers[0] is None:
        return NOTHING if numbers is None or numbers[5] else "not computable"
    if numbers[6]:
        return f"{numbers[0]} (equal in all {numbers[4]})"
    shown = str(numbers[0]) if numbers[1] is None else f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"
    return f"{shown} (n = {numbers[4]})" if numbers[4] < most else shown
