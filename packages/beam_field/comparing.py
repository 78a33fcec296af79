"""Published runs on one scale: systems, their scores by every protocol, and which of them can be compared.

Several runs of a system on the same questions are runs, not more questions: a question counts with its mean over them.
Two systems are compared only where tier, judge, kind of verdict and "gold in the answer prompt" agree, and only on the
questions that both answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pandas as pd

from beam_field.sources import (
    PublishedRun,
    judgements,
    published_runs,
)
from beamlib.data.conversations import SIZES
from beamlib.evaluate.beam_records import UNNAMED_PROMPT
from beamlib.scoring.intervals import Comparison, compare, conversation_values, holm, mean_interval
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import score_run, summarise

HEADLINE: Mapping[str, str] = {
    "nuggets": "nugget-mean",
    "counts": "nugget-mean",
    "votes": "majority-vote",
    "score": "as-published",
}
"""The protocol that uses most of a source's verdicts, by their kind."""

RunVerdicts = tuple[PublishedRun, Sequence[Judgement]]


def average_runs(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Merge the scores of one system's runs: a row per question, its score the mean over the runs that have one."""
    rows = pd.concat(frames)
    merged = rows.drop_duplicates("probe_id").set_index("probe_id")
    merged["score"] = rows.groupby("probe_id")["score"].mean()
    merged["unscored"] = merged["unscored"].where(merged["score"].isna(), "")
    first = list(frames[0]["probe_id"])
    return merged.loc[[*first, *merged.index.difference(first)]].reset_index()


@dataclass(frozen=True, eq=False)
class FieldSystem:
    """A system at a tier, with its runs and their judgements."""

    runs: tuple[RunVerdicts, ...]
    _scores: dict[str, pd.DataFrame] = field(default_factory=dict, init=False, repr=False)

    @property
    def source(self) -> PublishedRun:
        """What all runs share; of the rest the first run's."""
        return self.runs[0][0]

    @property
    def name(self) -> str:
        return self.source.system

    @property
    def group(self) -> tuple[str, ...]:
        """What comparable systems share: tier, judge and its prompt, kind of verdict, gold in the prompt."""
        # Counts come from nugget verdicts by rubric; they only do not say which nugget it was.
        kind = "nuggets" if self.source.kind == "counts" else self.source.kind
        return (self.source.tier, self.source.judged_by, kind, self.source.gold_in_prompt)

    @property
    def doubt(self) -> str:
        """Why it cannot be compared with any system, "" where it can."""
        judge = "" if self.source.judge else "nobody says who judged"
        prompt = "nobody says by which prompt it was judged" if UNNAMED_PROMPT in self.source.judged_by else ""
        gold = "nobody says whether gold was in the prompt" if self.source.gold_in_prompt == "unknown" else ""
        return " and ".join(filter(None, (judge, prompt, gold)))

    @property
    def headline(self) -> str:
        """The protocol that uses most of its verdicts."""
        return HEADLINE[self.source.kind]

    def scores(self, protocol: str = "") -> pd.DataFrame:
        """Return a row per question as `score_run` does, the score averaged over runs; by default by `headline`."""
        protocol = protocol or self.headline
        if protocol not in self._scores:
            self._scores[protocol] = average_runs([score_run(judged, protocol) for _, judged in self.runs])
        return self._scores[protocol]

    def average(self, protocol: str = "") -> tuple[float, float, float]:
        """Return the plain mean over questions, as sources average, with its interval over conversations."""
        return over_questions(self.scores(protocol))

    def run_averages(self) -> list[float]:
        """Return the mean over questions of each run."""
        return [over_questions(score_run(judged, self.headline))[0] for _, judged in self.runs]


def field_systems(imported: Iterable[RunVerdicts] = ()) -> list[FieldSystem]:
    """Return the shipped runs, then `imported` ones, by system; tiers from short to long."""
    shipped = ((run, judgements(run.name)) for run in published_runs())
    groups: dict[tuple[str, ...], list[RunVerdicts]] = {}
    for run, judged in (*shipped, *imported):
        key = (run.system, run.tier, run.reader, run.judged_by, run.kind, run.gold_in_prompt)
        groups.setdefault(key, []).append((run, judged))
    systems = [FieldSystem(tuple(runs)) for runs in groups.values()]
    return sorted(systems, key=lambda system: SIZES.index(system.source.tier))


def over_questions(scores: pd.DataFrame) -> tuple[float, float, float]:
    """Return the plain mean over questions with the interval of a ratio over conversations."""
    groups = scores.dropna(subset=["score"]).groupby("conversation_id")["score"]
    sums, counts = (np.asarray(values, np.float64) for values in (groups.sum(), groups.count()))
    if not counts.size:
        return np.nan, np.nan, np.nan
    values = conversation_values(sums, counts)
    low, high = mean_interval(values)
    return float(values.mean()), float(low), float(high)


def ability_frame(systems: Sequence[FieldSystem]) -> pd.DataFrame:
    """Return mean and interval of every system by ability, each by its headline protocol."""
    parts = []
    for system in systems:
        run = system.source
        facts = {"reader": run.reader, "judge": run.judged_by, "kind": run.kind, "protocol": system.headline}
        frame = summarise(system.scores()).assign(system=system.name, **facts)
        parts.append(frame.rename(columns={"size": "tier", "n_questions": "n", "n_conversations": "conversations"}))
    return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class SystemPair:
    """Two comparable systems: the first minus the second on the questions that both answered."""

    first: FieldSystem
    second: FieldSystem
    comparison: Comparison
    questions: int
    corrected: float
    """The p-value corrected by Holm for all pairs that are compared."""

    @property
    def is_better(self) -> bool:
        """Whether the first is better by interval and corrected test."""
        return self.comparison.n > 1 and self.comparison.low > 0 and self.corrected < 0.05


def comparable_pairs(systems: Sequence[FieldSystem]) -> list[SystemPair]:
    """Compare every pair that is comparable (`FieldSystem.group`, `doubt`) and shares a question, better one first."""
    pairs = []
    for pair in combinations(systems, 2):
        first, second = pair
        shared = set(first.scores()["probe_id"]) & set(second.scores()["probe_id"])
        if first.group != second.group or first.doubt or not shared:
            continue
        a, b = (system.scores()[system.scores()["probe_id"].isin(shared)] for system in pair)
        comparison = compare(a, b)
        if comparison.difference < 0:
            first, second, comparison = second, first, compare(b, a)
        pairs.append((first, second, comparison, len(shared)))
    corrected = holm([comparison.p_value for _, _, comparison, _ in pairs])
    return [SystemPair(*pair, p_value) for pair, p_value in zip(pairs, corrected, strict=True)]
