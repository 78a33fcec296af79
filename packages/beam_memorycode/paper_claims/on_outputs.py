"""Formulas on the outputs of the paper's models: how Table 4 comes about, and what sections 4 and 6 say of scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from math import sqrt

import numpy as np
import pandas as pd
from scipy import stats

from beam_claims.values import ClaimOutcome, holds, rounded, unchecked
from beam_memorycode.memorycode_figures import applied_rules, count_frame, instruction_frame
from beam_memorycode.paper_claims.on_evidence import MemoryCodeEvidence
from beam_memorycode.rule_scoring import RELEASED, RULE_COLUMNS, SCORING_VARIANTS, AveragingOrder, mean, standard_error
from beam_memorycode.rules import RuleVerdict
from beam_memorycode.scored import Cell, ScoredModel
from beamlib.scoring.intervals import difference_interval

_LONGEST = 100  # sessions
_LISTED = 3  # cells that a note names
_FAMILIAR = frozenset({"function docstring", "method docstring", "function annotation", "method annotation"})


def table4(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Compare means and standard errors of the models at hand with Table 4, to the last printed digit."""
    return _fits(data, RELEASED.name, "dialogue-mean", "")


def variant_fits(data: MemoryCodeEvidence, printed: str, variant: str, what: str) -> ClaimOutcome:
    """Check whether another way of scoring than the released one gives Table 4."""
    if not all(model.outputs for model in data.known.values()):
        return unchecked("the answers have to be scored anew, and only their scores were handed over.")
    return _fits(data, variant, "dialogue-mean", what)


def variant_misses(data: MemoryCodeEvidence, printed: str, variant: str, what: str) -> ClaimOutcome:
    """Check that the released scoring gives Table 4 and the other way does not."""
    released, other = table4(data, printed), variant_fits(data, printed, variant, what)
    return ClaimOutcome(other.recomputed, holds(released.status == "holds" and other.status == "differs"), other.note)


def order_fits(data: MemoryCodeEvidence, printed: str, order: AveragingOrder, what: str) -> ClaimOutcome:
    """Check whether an order of averaging gives Table 4."""
    return _fits(data, RELEASED.name, order, what)


def _fits(data: MemoryCodeEvidence, variant: str, order: AveragingOrder, what: str) -> ClaimOutcome:
    """Count the cells of Table 4 (mean and standard error) that agree, and list those that do not."""
    met, missed = 0, []
    for row, model in data.known.items():
        summary = model.summarised(order, SCORING_VARIANTS[variant])
        for column in RULE_COLUMNS:
            exact, cell = summary[column], data.published.scores[row, column]
            if exact.mean is None or exact.stderr is None:
                continue
            ours = Cell.of(exact.mean, exact.stderr)
            met += ours == cell
            if ours != cell:
                missed.append(f"{row} {column} {ours} for {cell}")
    listed = "; ".join([*missed[:_LISTED], *([f"and {len(missed) - _LISTED} more"] if len(missed) > _LISTED else [])])
    note = f"{what} {listed}.".strip() if missed else what
    return ClaimOutcome(f"{met} of {met + len(missed)} cells", holds(not missed), note)


def without_fifteen(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Check whether the short column of Table 4 follows without the dialogues of fifteen sessions."""
    values, fits = {}, []
    for row, model in data.known.items():
        scores = [
            score for number, score in model.scores("history").items() if len(model.dialogues[number].sessions) < 15
        ]
        cell = data.published.scores[row, "short_history"]
        error = standard_error(scores)
        if error is None:
            continue
        ours = Cell.of(float(100 * mean(scores)), 100 * error)
        values[row] = f"{ours} for {cell}"
        fits.append(ours == cell)
    return ClaimOutcome(values, holds(all(fits)), "With the thirty dialogues of fifteen sessions the column comes out.")


def absent_share(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Return the share of rules whose object is absent, in percent, by setup; holds when below 1 in all of them."""
    shares: dict[str, dict[str, float]] = {}
    for row, model in data.known.items():
        absent: Counter[str] = Counter()
        applied: Counter[str] = Counter()
        for answer in model.answers:
            absent[answer.setup] += answer.verdicts.count(RuleVerdict.ABSENT)
            applied[answer.setup] += len(answer.verdicts)
        shares[row] = {setup: round(100 * absent[setup] / count, 1) for setup, count in applied.items() if count}
    inside = all(share < 1 for by_setup in shares.values() for share in by_setup.values())
    return ClaimOutcome(shares, holds(inside), "Percent of rule applications.")


def declines(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Check that history scores fall as sessions become more: rank correlation at most -0.9 for every model."""
    correlations, risen = {}, []
    for row, lines in _lines(data):
        correlations[row] = round(float(stats.spearmanr(lines["sessions"], lines["mean"]).statistic), 3)
        steps = zip(lines["sessions"], lines["mean"], lines["mean"].shift(-1), strict=True)
        risen += [f"{row} after {count}" for count, now, later in steps if later > now]
    note = f"Rank correlation with the number of sessions. Single steps that rise: {', '.join(risen) or 'none'}."
    return ClaimOutcome(correlations, holds(all(value <= -0.9 for value in correlations.values())), note)


def converges(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Check that each score at 100 sessions rounds to the printed share."""
    ends = _ends(data)
    target = Decimal(printed.removeprefix("around "))
    same = {row: rounded(end, 1) == target for row, end in ends.items()}
    note = f"Not rounding to {target}: {', '.join(row for row, fits in same.items() if not fits) or 'none'}."
    return ClaimOutcome({row: round(end, 3) for row, end in ends.items()}, holds(all(same.values())), note)


def alike(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Check that at 100 sessions no two models differ by more than 1.96 standard errors of paired dialogues."""
    scores = {
        row: {number: float(value) for number, value in model.scores("history").items() if _long(model, number)}
        for row, model in data.known.items()
    }
    if len(scores) < 2:
        return unchecked("the outputs of fewer than two models are at hand.")
    order = sorted(scores, key=lambda row: sum(scores[row].values()) / max(1, len(scores[row])))
    low, high = scores[order[0]], scores[order[-1]]
    gaps = [high[number] - low[number] for number in sorted(low.keys() & high.keys())]
    gap, error = float(np.mean(gaps)), float(np.std(gaps, ddof=1)) / sqrt(len(gaps))
    ends = [float(np.mean(list(scores[row].values()))) for row in (order[0], order[-1])]
    note = f"{order[-1]} ({ends[1]:.3f}) less {order[0]} ({ends[0]:.3f}): {gap / error:.1f} standard errors."
    return ClaimOutcome(round(gap, 3), holds(gap <= 1.96 * error), note)


def spread(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Check that models lie further apart at one session than at a hundred."""
    if len(data.known) < 2:
        return unchecked("the outputs of fewer than two models are at hand.")
    lines = pd.concat([frame.assign(row=row) for row, frame in _lines(data)])
    ranges = lines.groupby("sessions")["mean"].agg(lambda means: float(means.max() - means.min()))
    recomputed = {str(count): round(float(value), 3) for count, value in ranges.items()}
    return ClaimOutcome(recomputed, holds(bool(ranges.iloc[0] > ranges.iloc[-1])), "Highest less lowest mean.")


def rank_stable(data: MemoryCodeEvidence, printed: str, model: str) -> ClaimOutcome:
    """Check that within dialogues updated instructions are followed as often as others."""
    applicable = _applicable(data, model)
    if isinstance(applicable, ClaimOutcome):
        return applicable
    ever = set(applicable.loc[applicable["rank"] > 0, "instruction"])
    recomputed = {}
    for name, rows in (("all", applicable), ("updatable only", applicable[applicable["instruction"].isin(ever)])):
        parts = _paired(rows.assign(updated=rows["rank"] > 0), "updated")
        gaps = parts[True] - parts[False]
        ends = difference_interval(gaps.to_numpy(dtype=np.float64))
        recomputed[name] = [round(float(value), 3) for value in (gaps.mean(), *ends)]
    inside = recomputed["all"][1] <= 0 <= recomputed["all"][2]
    note = "Updated less never updated, in the same dialogue: mean and 95 % interval; stable where it includes 0."
    return ClaimOutcome(recomputed, holds(inside), note)


def unfamiliar_lower(data: MemoryCodeEvidence, printed: str, model: str) -> ClaimOutcome:
    """Check that within dialogues digits in names are followed less often than docstrings and annotations."""
    applicable = _applicable(data, model)
    if isinstance(applicable, ClaimOutcome):
        return applicable
    digit, familiar = applicable["form"] == "final digit", applicable["kind"].isin(_FAMILIAR)
    parts = _paired(applicable[digit | familiar].assign(digit=digit), "digit")
    gaps = parts[True] - parts[False]
    _, high = difference_interval(gaps.to_numpy(dtype=np.float64))
    means = instruction_frame(applicable, updated=False).set_index("label")["mean"]
    ends = [means[means.index.str.endswith("final digit")].max(), means[means.index.isin(_FAMILIAR)].min()]
    note = f"Single instructions overlap: the best digit has {ends[0]:.2f}, the worst of the others {ends[1]:.2f}."
    recomputed = {
        "digits": round(float(parts[True].mean()), 3),
        "docstrings, annotations": round(float(parts[False].mean()), 3),
    }
    return ClaimOutcome(recomputed, holds(bool(high < 0)), note if ends[0] > ends[1] else "")


def instructions_vary(data: MemoryCodeEvidence, printed: str, model: str) -> ClaimOutcome:
    """Check that the intervals of the best and the worst followed instruction do not overlap."""
    applicable = _applicable(data, model)
    if isinstance(applicable, ClaimOutcome):
        return applicable
    frame = instruction_frame(applicable, updated=False).dropna()
    best, worst = frame.iloc[0], frame.iloc[-1]
    recomputed = {row["label"]: round(float(row["mean"]), 3) for row in (best, worst)}
    return ClaimOutcome(recomputed, holds(bool(best["low"] > worst["high"])), f"Of {len(frame)} instructions.")


def _applicable(data: MemoryCodeEvidence, row: str) -> pd.DataFrame | ClaimOutcome:
    """Return the verdicts on a model's history answers whose objects are present, or why there are none."""
    if row not in data.known:
        return unchecked(f"the outputs of {row} are not at hand.")
    return applied_rules(data.verdicts[row])


def _paired(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return by dialogue the share of rules that hold where `by` is false and where it is true."""
    return rows.groupby(["dialogue", by])["held"].mean().unstack().dropna()


def _long(model: ScoredModel, number: int) -> bool:
    return len(model.dialogues[number].sessions) == _LONGEST


def _lines(data: MemoryCodeEvidence) -> Iterator[tuple[str, pd.DataFrame]]:
    for row, model in data.known.items():
        yield row, count_frame({row: model})


def _ends(data: MemoryCodeEvidence) -> dict[str, float]:
    return {row: float(lines.loc[lines["sessions"] == _LONGEST, "mean"].iloc[0]) for row, lines in _lines(data)}
