"""Published runs on one scale: systems, their scores by every protocol, and which of them can be compared.

Several runs of a system on the same questions are runs, not more questions: a question counts with its mean over them.
Two systems are compared only where tier, judge, kind of verdict and "gold in the answer prompt" agree, and only on the
questions that both answered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from beam_field.sources import (
    PublishedRun,
    VerdictKind,
    judgements,
    offline_judgements,
    published_runs,
    published_scores,
)
from beamlib.data.conversations import SIZES
from beamlib.data.gold import ABILITIES
from beamlib.evaluate.beam_records import MANIFEST, UNNAMED_PROMPT, Provenance, read_manifest, stored_judgements
from beamlib.scoring.intervals import Comparison, compare, conversation_values, holm, mean_interval
from beamlib.scoring.protocols import PROTOCOLS, REPORTED
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import AVERAGE, not_computable, score_run, summarise

HEADLINE: Mapping[str, str] = {
    "nuggets": "nugget-mean",
    "counts": "nugget-mean",
    "votes": "majority-vote",
    "score": "as-published",
}
"""The protocol that uses most of a source's verdicts, by their kind."""

RunVerdicts = tuple[PublishedRun, Sequence[Judgement]]


def imported_runs(run: Path) -> Iterator[RunVerdicts]:
    """Yield each imported arm of a run folder with its judgements, re-judged arms included, shipped runs left out."""
    for path in sorted(run.glob(f"*/*/{MANIFEST}")):
        manifest = read_manifest(path.parent)
        imported = manifest.imported
        if imported is None or imported.shipped:
            continue
        judged = stored_judgements(path.parent)
        facts: dict[str, Any] = {name: getattr(imported, name) for name in Provenance.model_fields}
        # Runs of one system repeat it; with another context it is another system.
        facts["system"] = ", ".join(filter(None, (imported.system or manifest.arm, imported.context)))
        facts |= {"reader": manifest.reader, "judged_again": manifest.judge != imported.judged_by}
        facts |= {"source": _plain(imported.format), "run": _plain(manifest.arm), "number": imported.number or 0}
        kind = Counter(map(_kind, judged)).most_common(1)[0][0]
        yield PublishedRun(**facts, tier=manifest.size, kind=kind, n=len(judged)), judged


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]+", "-", name.casefold()).strip("-") or "x"


def _kind(judgement: Judgement) -> VerdictKind:
    """Return the finest kind of verdict that an answer has."""
    reported = judgement.reported
    present = (judgement.verdicts, reported and reported.full is not None, reported and reported.votes, True)
    return next(kind for kind, known in zip(get_args(VerdictKind), present, strict=True) if known)


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
        """The name in tables."""
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
            self._scores[protocol] = average_runs([score_run(own, protocol) for _, own in self.runs])
        return self._scores[protocol]

    def average(self, protocol: str = "") -> tuple[float, float, float]:
        """Return the plain mean over questions, as sources average, with its interval over conversations."""
        return _over_questions(self.scores(protocol))

    def run_averages(self) -> list[float]:
        """Return the mean over questions of each run."""
        return [_over_questions(score_run(own, self.headline))[0] for _, own in self.runs]


def field_systems(imported: Iterable[RunVerdicts] = ()) -> list[FieldSystem]:
    """Return the shipped runs, then `imported` ones, by system; tiers from short to long."""
    shipped = ((run, judgements(run.name)) for run in published_runs())
    groups: dict[tuple[str, ...], list[RunVerdicts]] = {}
    for run, judged in (*shipped, *imported):
        key = (run.system, run.tier, run.reader, run.judged_by, run.kind, run.gold_in_prompt)
        groups.setdefault(key, []).append((run, judged))
    systems = [FieldSystem(tuple(runs)) for runs in groups.values()]
    return sorted(systems, key=lambda system: SIZES.index(system.source.tier))


def judged_by_offline(system: FieldSystem) -> FieldSystem | None:
    """Return the system with the offline judge's verdicts for the published ones, None where there are none."""
    runs = tuple((run, offline_judgements(run.name)) for run, _ in system.runs)
    return FieldSystem(runs) if all(own for _, own in runs) else None


def field_frame(systems: Sequence[FieldSystem], protocols: Sequence[str] = (*PROTOCOLS, *REPORTED)) -> pd.DataFrame:
    """Score every system by every protocol: a row each with its average over abilities and 95 % interval.

    `over_questions` is the plain mean over questions with its own interval. Where an ability is not computable the
    average is NaN and `missing` names the abilities; nothing is filled in.
    """
    rows: list[dict[str, Any]] = []
    for system in systems:
        run = system.source
        facts: dict[str, Any] = {"tier": run.tier, "system": system.name, "reader": run.reader, "judge": run.judged_by}
        facts |= {"kind": run.kind, "gold": run.gold_in_prompt, "runs": len(system.runs)}
        for protocol in protocols:
            scores = system.scores(protocol)
            gone = not_computable(scores)
            missing = [name for name in ABILITIES if name in set(scores.loc[gone, "ability"])]
            average = summarise(scores).set_index("ability").loc[AVERAGE, ["mean", "low", "high"]]
            means = [np.nan] * 6 if missing else [*average, *_over_questions(scores)]
            names = ("mean", "low", "high", "over_questions", "over_low", "over_high")
            counts = {
                "n": int(scores["score"].notna().sum()),
                "conversations": scores["conversation_id"].nunique(),
                "unscored": int((scores["score"].isna() & ~gone).sum()),
            }
            values = dict(zip(names, means, strict=True))
            rows.append({**facts, "protocol": protocol, **values, **counts, "missing": ", ".join(missing)})
    return pd.DataFrame(rows)


def _over_questions(scores: pd.DataFrame) -> tuple[float, float, float]:
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


def reproduced_averages(systems: Sequence[FieldSystem]) -> pd.DataFrame:
    """Compare each average that a source states with that of its verdicts: the same number as printed?

    A source averages over questions, and over runs where it has several.
    """
    printed = published_scores()
    averages = printed[(printed["ability"] == AVERAGE) & (printed["verdicts_at_hand"] != "no")]
    rows = []
    for system in systems:
        if system.source not in published_runs():  # another judge's verdicts on the same answers reproduce nothing
            continue
        tier = system.source.tier
        for stated in averages[(averages["system"] == system.name) & (averages["tier"] == tier)]["score_percent"]:
            ours = 100 * system.average()[0]
            same = round(ours, len(str(stated).partition(".")[2])) == stated
            rows.append((system.name, tier, system.headline, stated, round(ours, 2), same))
    return pd.DataFrame(rows, columns=["system", "tier", "protocol", "published", "from verdicts", "reproduced"])


def only_printed() -> pd.DataFrame:
    """Return the published averages without verdicts, which nobody can check, by tier and gold in the prompt."""
    printed = published_scores()
    rows = printed[(printed["ability"] == AVERAGE) & (printed["verdicts_at_hand"] == "no")]
    columns = ["tier", "gold_in_answer_prompt", "system", "score_percent", "reader", "judge", "scoring", "questions"]
    rows = rows.assign(order=rows["tier"].map(SIZES.index))
    order = ["order", "gold_in_answer_prompt", "score_percent"]
    rows = rows.sort_values(order, ascending=[True, True, False], kind="stable")
    return rows[columns].reset_index(drop=True)


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
