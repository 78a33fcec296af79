"""The numbers that a page prints, as Python computes them; the viewer recomputes each of them."""

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
from beamlib.evaluate.answer_record import Answer
from beamlib.report.results import recall_rows, recalled_ids
from beamlib.report.tables import NOTHING
from beamlib.scoring.intervals import EXACT_UP_TO, LEVEL, RESAMPLES, SEED, Comparison, compare
from beamlib.scoring.protocols import PROTOCOLS, REPORTED, Protocol
from beamlib.scoring.scores import AVERAGE, score_run, summarise

RECALL = "recall"
"""Beside the protocols' names: the share of cited messages in the context."""
TREATMENTS = ("full", "drop")
"""All questions, or those alone whose score no known defect can spoil (errata)."""
SIGNIFICANT = 0.05

Numbers = list[Any]
"""mean, low, high as they are printed (None where there is none), questions, conversations, unscored."""


@dataclass(frozen=True)
class Headlines:
    """`numbers`: protocol, treatment, series, size, ability or "average". `best`: protocol, treatment, size.

    An entry of `best` names the series with the highest average and the comparisons with every other main one:
    difference, low, high, p and n; `supported` says whether each is above zero by interval and by test.
    """

    numbers: dict[str, Any]
    best: dict[str, Any]
    quantiles: dict[str, Any]


def printed(value: float, decimals: int) -> str | None:
    """A number as the page shows it, None for none."""
    return None if math.isnan(value) else f"{value:.{decimals}f}"


def numbers_of(scores: pd.DataFrame) -> dict[str, dict[str, Numbers]]:
    """What is printed of the scores of one series, by size and ability."""
    found: dict[str, dict[str, Numbers]] = {}
    for row in summarise(scores).to_dict("records"):
        ends = [printed(row["mean"], 3), printed(row["low"], 2), printed(row["high"], 2)]
        counts = [int(row[name]) for name in ("n_questions", "n_conversations", "unscored")]
        found.setdefault(row["size"], {})[row["ability"]] = [*ends, *counts]
    return found


def protocols_of(arms: Iterable[StoredArm]) -> Mapping[str, Protocol]:
    """Those that the page counts by: with what others published, also theirs."""
    published = any(judgement.reported for one in arms for judgement in one.judgements)
    return PROTOCOLS | REPORTED if published else PROTOCOLS


def opening(numbers: Mapping[str, Any], main: Collection[str]) -> str:
    """The protocol that a page opens with: the first that is computable for every main memory, so the paper's for all
    that was run here.

    Sources of published verdicts may lack what a protocol needs. An average that is missing since calls failed is no
    reason for another protocol.
    """
    for name, treatments in numbers.items():
        own = [size[AVERAGE] for key, sizes in treatments["full"].items() if key in main for size in sizes.values()]
        if name != RECALL and own and all(one[0] is not None or one[5] for one in own):
            return name
    return next(iter(numbers))


def headlines(
    arms: Sequence[StoredArm], main: Collection[str], gold: Mapping[str, Gold], spoilt: Collection[str]
) -> Headlines:
    """All numbers of a run. `gold` may lack questions, which then have no evidence recall; `spoilt` are those that a
    defect can spoil."""
    numbers: dict[str, Any] = {}
    best: dict[str, Any] = {}
    treatments = TREATMENTS if spoilt else TREATMENTS[:1]
    for name in (*protocols_of(arms), RECALL):
        frames = dict(_frames(arms, gold, name))
        for treatment in treatments:
            kept = {
                key: frame if treatment == "full" else frame[~frame["probe_id"].isin(spoilt)]
                for key, frame in frames.items()
            }
            numbers.setdefault(name, {})[treatment] = {key: numbers_of(frame) for key, frame in kept.items()}
            if name != RECALL:
                ranked = {key: frame for key, frame in kept.items() if key in main and key.split("/")[-1] != "oracle"}
                best.setdefault(name, {})[treatment] = dict(_best(ranked))
    most = len({one.conversation_id for arm in arms for one in arm.judgements})
    return Headlines(numbers, best, quantiles(most))


def _frames(arms: Sequence[StoredArm], gold: Mapping[str, Gold], name: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """The scores of each series by one protocol, or its evidence recall; over all sizes."""
    for series in dict.fromkeys(one.series for one in arms):
        own = [one for one in arms if one.series == series]
        if name == RECALL:
            known = [answer for one in own for answer in one.answers.values() if answer.probe_id in gold]
            frame = recall_rows(known, gold)
        else:
            frame = pd.concat([score_run(one.judgements, name) for one in own], ignore_index=True)
        if len(frame):
            yield series, frame


def evidence_held(answer: Answer, gold: Gold, notes: str) -> tuple[list[int], list[int]]:
    """The cited messages that the context shows whole, and those that only a note (the part `notes`) speaks of."""
    shown = recalled_ids(answer)
    noted = set(answer.parts.get(notes, ())) - shown
    return [i for i in gold.evidence if i in shown], [i for i in gold.evidence if i in noted]


def _best(frames: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, dict[str, Any]]]:
    sizes = dict.fromkeys(size for frame in frames.values() for size in frame["size"])
    for size in sizes:
        own = {name: frame[frame["size"] == size] for name, frame in frames.items()}
        means = {name: _average(frame) for name, frame in own.items() if len(frame)}
        means = {name: mean for name, mean in means.items() if not math.isnan(mean)}
        if len(means) < 2:
            continue
        first = max(means, key=lambda name: means[name])
        others = {name: paired(own[first], own[name]) for name in means if name != first}
        held = all(one is not None and supported(one) for one in others.values())
        rows = [[name, *shown(one)] for name, one in others.items() if one is not None]
        yield size, {"series": first, "supported": held, "against": rows}


def _average(frame: pd.DataFrame) -> float:
    summary = summarise(frame)
    return float(summary.loc[summary["ability"] == AVERAGE, "mean"].iloc[0])


def paired(first: pd.DataFrame, second: pd.DataFrame) -> Comparison | None:
    """`first` minus `second` over the questions that both were asked; None where there is none."""
    shared = set(first["probe_id"]) & set(second["probe_id"])
    if not shared:
        return None
    own, other = (frame[frame["probe_id"].isin(shared)] for frame in (first, second))
    return compare(own, other)


def supported(found: Comparison) -> bool:
    """Whether a difference is above zero by its interval and by the sign-flip test."""
    return bool(found.low > 0 and found.p_value <= SIGNIFICANT)


def shown(found: Comparison) -> Numbers:
    """A comparison as it is printed: difference, low, high, p, conversations, questions left out."""
    ends = [printed(found.difference, 3), printed(found.low, 3), printed(found.high, 3), printed(found.p_value, 3)]
    return [*ends, found.n, found.unscored]


def quantiles(most: int) -> dict[str, Any]:
    """What the viewer needs to recompute intervals and tests.

    Student's t by the number of conversations, up to `most`, and the generator from which `sign_flip_test` draws.
    """
    found = {str(n): float(stdtrit(n - 1, (1 + LEVEL) / 2)) for n in range(2, most + 1)}
    drawn = cast(Any, np.random.default_rng(SEED).bit_generator).state["state"]
    generator = {"state": str(drawn["state"]), "increment": str(drawn["inc"]), "resamples": RESAMPLES}
    return {**found, **generator, "level": LEVEL, "exact": EXACT_UP_TO, "significant": SIGNIFICANT}


def cell_text(found: Numbers | None) -> str:
    """A cell as it is shown: "0.412 [0.38, 0.45]", "0.412 (n = 1)" of one conversation, a dash where there is none.

    Nothing is unscored, and yet there is no score: its source lacks what the protocol needs.
    """
    if found is None or found[0] is None:
        return NOTHING if found is None or found[5] else "not computable"
    if found[4] == 1:
        return f"{found[0]} (n = 1)"
    return str(found[0]) if found[1] is None else f"{found[0]} [{found[1]}, {found[2]}]"
