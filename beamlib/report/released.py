"""Evidence recall on the released benchmark, as tables and figures, from the shipped measurements.

No model answers or judges, so these numbers are real without a key. LIGHT's keys and notes come from the offline
stand-in, which is not a language model; RAG's numbers rest on no model at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import product

import pandas as pd
from matplotlib.figure import Figure

from beamlib.data.published import LENGTHS
from beamlib.report.figures import ablation_figure, averages, budget_figure, retriever_figure
from beamlib.report.footer import Footer, domain_mix
from beamlib.report.results import RECALL, changes_of, long_frame
from beamlib.report.series import series_named
from beamlib.report.table import Table
from beamlib.report.tables import result_table
from beamlib.scoring.intervals import interval_note
from beamlib.scoring.measured import (
    BEST,
    LIGHT_ARMS,
    MOST_PAIRS,
    RETRIEVERS,
    Counting,
    Measurement,
    check_budgets,
    context_shown,
    read_measurements,
    recall_scores,
)
from beamlib.text import count

CURVE = (1, 2, 3, 5, 7, 10, 15, 20, 25, MOST_PAIRS)
"""Retrieval budgets of the figure."""

_KEYS = "LIGHT's keys and notes are by the offline stand-in, not a language model; RAG needs none."
_FITTED = "The index hybrid was fitted to questions of 100K and of 500K 1 and 2; 500K 3 to 20, 1M and 10M are held out."


class ReleasedRecall:
    """Evidence recall of RAG and LIGHT on the released conversations, by the shipped measurements.

    Tiers with a single conversation are left out, unless no tier has more: one conversation shows no spread.

    Args:
        measurements: By default the shipped ones.

    Attributes:
        left_out: Those tiers.
    """

    def __init__(self, measurements: Sequence[Measurement] | None = None) -> None:
        known = read_measurements()[1] if measurements is None else measurements
        known = sorted(known, key=lambda measurement: (LENGTHS.index(measurement.size), measurement.id))
        numbers = Counter(measurement.size for measurement in known)
        self.left_out = [size for size, number in numbers.items() if number == 1 < max(numbers.values())]
        self.measurements = [measurement for measurement in known if measurement.size not in self.left_out]

    def scores(self, arm: str, retriever: str = "hybrid", k: int = 5, counting: Counting = "whole") -> pd.DataFrame:
        """Compute evidence recall per question, in the shape of scores, over questions that cite messages.

        Args:
            arm: One of `beamlib.scoring.measured.ARMS`.
            counting: Which messages count: shown whole, also in part, or also those that a note comes from.
        """
        check_budgets([k])
        scores = recall_scores(self.measurements, arm, retriever, k, counting)
        return scores.assign(k=k, removed=_removed(arm))

    def table(
        self,
        title: str,
        arms: Sequence[str] = ("rag", "light retrieval alone"),
        retrievers: Sequence[str] = ("hybrid",),
        ks: Sequence[int] = (5, 10, 15, 20),
        counting: Counting = "whole",
        abilities: bool = False,
    ) -> Table:
        """Make a table of arms, retrievers and budgets, a column each.

        Args:
            abilities: A row per tier and ability; otherwise the averages alone.
        """
        scores: dict[str, pd.DataFrame] = {}
        for arm, retriever, k in product(arms, retrievers, ks):
            varied = [series_named(arm).label] if len(arms) > 1 else []
            varied += [retriever] if len(retrievers) > 1 else []
            varied += [f"K={k}"] if len(ks) > 1 else []
            scores[" ".join(varied) or series_named(arm).label] = self.scores(arm, retriever, k, counting)
        fixed = [f"index {retrievers[0]}"] if len(retrievers) == 1 else []
        fixed += [f"K = {ks[0]}"] if len(ks) == 1 else []
        frame = long_frame(scores)
        # What the best choice reaches is a bound of the data, no sample's mean.
        bounds = frame["series"].str.startswith(BEST)
        frame.loc[bounds, ["low", "high"]] = float("nan")
        frame["equal"] &= ~bounds
        title = ", ".join([title, "released benchmark", *fixed])
        return result_table(frame if abilities else averages(frame), title, self.footer)

    def gains(
        self, ks: Sequence[int] = (5, 10, 15, 20), arm: str = "light retrieval alone", retriever: str = "hybrid"
    ) -> pd.DataFrame:
        """Compute the paired change of average recall from the first of `ks` to each other, with its interval."""
        scores = {f"K={k}": self.scores(arm, retriever, k) for k in ks}
        return changes_of(scores, f"K={ks[0]}", seed=0).drop(columns=["ability", "removed"])

    def sizes(self, arms: Sequence[str], retriever: str = "hybrid", k: int = 5) -> pd.DataFrame:
        """Average the tokens of contexts by tier and arm, over all questions."""
        rows = [
            {
                "size": measurement.size,
                "memory": series_named(arm).label,
                "tokens": context_shown(measurement, question, arm, retriever, k).tokens,
            }
            for arm in arms
            for measurement in self.measurements
            for question in measurement.questions
        ]
        return pd.DataFrame(rows).pivot_table("tokens", "size", "memory", sort=False).round().astype(int)

    @cached_property
    def footer(self) -> Footer:
        """What the tables and figures rest on."""
        cited = sum(bool(question.cited) for measured in self.measurements for question in measured.questions)
        sizes = Counter(measurement.size for measurement in self.measurements)
        held = ", ".join(f"{size}: {n}" for size, n in sizes.items())
        if self.left_out:
            held += f"; one of {' and '.join(self.left_out)} each, left out"
        return Footer(
            protocol=RECALL,
            judge="none",
            reader="none",
            data_revision=f"released benchmark ({held})",
            n_conversations=len(self.measurements),
            n_questions=cited,
            unscored=0,
            interval=interval_note(max(sizes.values(), default=0)).partition(" (")[0],
            treatment="chat_variant=truncated, strip_markers=true, errata=flag",
            token_counter="words and marks",
            memories=(_KEYS, _FITTED, domain_mix([measurement.id for measurement in self.measurements])),
        )

    def budgets(self, arm: str = "light retrieval alone", retriever: str = "hybrid") -> pd.DataFrame:
        """Average recall against the retrieval budget: the long frame of `budget_figure`."""
        scores = {f"K={k}": self.scores(arm, retriever, k) for k in CURVE}
        return averages(long_frame(scores))

    def retrievers(self, arm: str = "light retrieval alone", k: int = 5) -> pd.DataFrame:
        """Average recall by retriever: the long frame of `retriever_figure`."""
        return averages(long_frame({name: self.scores(arm, name, k) for name in RETRIEVERS}))

    def removals(self, retriever: str = "hybrid", k: int = 5, counting: Counting = "whole") -> pd.DataFrame:
        """Paired changes of average recall when a part of LIGHT is removed: the long frame of `ablation_figure`."""
        arms = [arm for arm in LIGHT_ARMS if arm == "light" or _removed(arm)]
        scores = {arm: self.scores(arm, retriever, k, counting) for arm in arms}
        return changes_of(scores, "light", seed=0)

    def figure(self, number: int) -> tuple[Figure, pd.DataFrame, str]:
        """Draw the question of Figure 3, 4 or 5 on the released benchmark; also returns the values and a caption."""
        if number == 3:
            frame, what = self.removals(), "change of evidence recall when a part of LIGHT is removed, K = 5"
            figure = ablation_figure(frame, self.footer, "change of evidence recall")
        elif number == 4:
            frame, what = self.budgets(), "evidence recall of LIGHT's index against the retrieval budget K"
            figure = budget_figure(frame, self.footer, "evidence recall")
        else:
            frame, what = self.retrievers(), "evidence recall of LIGHT's index by retriever, K = 5"
            figure = retriever_figure(frame, self.footer, "evidence recall")
        drawn = frame.drop_duplicates("size")
        conversations = count(int(drawn["conversations"].sum()), "conversation")
        basis = f"{conversations}, n = {drawn['n'].sum()}. {_KEYS}"
        return figure, frame, f"Figure {number} on the released benchmark: {what}. {basis}"


def _removed(arm: str) -> str | None:
    return arm.partition(" without ")[2] or None
