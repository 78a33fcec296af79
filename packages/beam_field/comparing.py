"""Published runs on one scale: systems, their scores under every protocol, and what may be compared with what.

Runs that repeat a system on the same questions are runs of it and not more questions: a question counts with its mean
over them. Two systems are compared only where tier, judge, the kind of verdict and "gold in the answer prompt" agree,
and only on the questions that both answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from beam_field.sources import Source, judgements, published, sources
from beamlib.data.conversations import SIZES
from beamlib.data.errata import load_errata
from beamlib.data.gold import ABILITIES
from beamlib.evaluate.imported import UNNAMED_PROMPT
from beamlib.scoring.intervals import Comparison, compare, conversation_values, mean_interval
from beamlib.scoring.protocols import PROTOCOLS, REPORTED
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import AVERAGE, not_computable, score_run, summarise

HEADLINE: Mapping[str, str] = {
    "nuggets": "nugget-mean",
    "counts": "nugget-mean",
    "votes": "majority-vote",
    "score": "as-published",
}
"""The protocol that says most of what a source holds, by the kind of its verdicts."""


def over_runs(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The scores of runs of one system as one frame: a row per question, the score the mean over runs that have one."""
    first = frames[0].set_index("probe_id")
    together = pd.concat(frames)
    means = together.groupby("probe_id")["score"].mean()
    known = together.drop_duplicates("probe_id").set_index("probe_id")
    scored = known.assign(score=means.reindex(known.index))
    scored["unscored"] = scored["unscored"].where(scored["score"].isna(), "")
    order = [*first.index, *known.index.difference(first.index)]
    return scored.loc[order].reset_index()


@dataclass(frozen=True, eq=False)
class FieldSystem:
    """A system at a tier, with its runs: each a source and its judgements."""

    runs: tuple[tuple[Source, tuple[Judgement, ...]], ...]

    @property
    def source(self) -> Source:
        """What all runs share; of the rest the first's."""
        return self.runs[0][0]

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return self.source.system

    @property
    def group(self) -> tuple[str, ...]:
        """What systems share that may be compared: tier, judge and its prompt, kind of verdict, gold in the prompt."""
        one = self.source
        # Counts are made of nugget verdicts by rubric; they differ only in that nobody says which nugget it was.
        kind = "nuggets" if one.kind == "counts" else one.kind
        return (one.tier, one.judged_by, kind, one.gold_in_prompt)

    @property
    def doubt(self) -> str:
        """Why it may be compared with none, not even of its group; empty where it may."""
        judge = "" if self.source.judge else "nobody says who judged"
        prompt = "nobody says by which prompt it was judged" if UNNAMED_PROMPT in self.source.judged_by else ""
        gold = "nobody says whether gold was in the prompt" if self.source.gold_in_prompt == "unknown" else ""
        return " and ".join(filter(None, (judge, prompt, gold)))

    @cached_property
    def _scores(self) -> dict[str, pd.DataFrame]:
        return {}

    def scores(self, protocol: str) -> pd.DataFrame:
        """A row per question as `score_run` makes them, the score the mean over the runs that have one."""
        if protocol not in self._scores:
            self._scores[protocol] = over_runs([score_run(own, protocol) for _, own in self.runs])
        return self._scores[protocol]


def field_systems(imported: Iterable[tuple[Source, Sequence[Judgement]]] = ()) -> list[FieldSystem]:
    """The shipped runs, and after them `imported` ones, by system; tiers from short to long."""
    shipped = [(one, tuple(judgements(one.name))) for one in sources()]
    groups: dict[tuple[str, ...], list[tuple[Source, tuple[Judgement, ...]]]] = {}
    for source, own in [*shipped, *((one, tuple(own)) for one, own in imported)]:
        key = (source.system, source.tier, source.reader, source.judged_by, source.kind, source.gold_in_prompt)
        groups.setdefault(key, []).append((source, own))
    systems = [FieldSystem(tuple(runs)) for runs in groups.values()]
    return sorted(systems, key=lambda one: SIZES.index(one.source.tier))


def field_frame(systems: Sequence[FieldSystem], protocols: Sequence[str] = (*PROTOCOLS, *REPORTED)) -> pd.DataFrame:
    """A row per system and protocol: what it rests on, and its average over abilities with the 95 % interval.

    `over_questions` is the plain mean over questions, as most sources average, with an interval of its own. Where an
    ability is not computable the average is not (NaN), `missing` names the abilities, and nothing is filled in.
    """
    rows: list[dict[str, Any]] = []
    for system in systems:
        one = system.source
        facts: dict[str, Any] = {"tier": one.tier, "system": system.name, "reader": one.reader, "judge": one.judged_by}
        facts |= {"kind": one.kind, "gold": one.gold_in_prompt, "runs": len(system.runs)}
        for protocol in protocols:
            scores = system.scores(protocol)
            gone = not_computable(scores)
            missing = [name for name in ABILITIES if name in set(scores.loc[gone, "ability"])]
            average = summarise(scores).set_index("ability").loc[AVERAGE]
            whole = _over_questions(scores) if not missing else (np.nan,) * 3
            values = average[["mean", "low", "high"]] if not missing else [np.nan] * 3
            rows.append(
                {
                    **facts,
                    "protocol": protocol,
                    **dict(zip(("mean", "low", "high"), values, strict=True)),
                    **dict(zip(("over_questions", "over_low", "over_high"), whole, strict=True)),
                    "n": int(scores["score"].notna().sum()),
                    "conversations": scores["conversation_id"].nunique(),
                    "unscored": int((scores["score"].isna() & ~gone).sum()),
                    "missing": ", ".join(missing),
                }
            )
    return pd.DataFrame(rows)


def _over_questions(scores: pd.DataFrame) -> tuple[float, float, float]:
    """The plain mean over questions with the interval of a ratio over conversations."""
    groups = scores.dropna(subset=["score"]).groupby("conversation_id")["score"]
    sums = np.asarray(groups.sum(), np.float64)
    counts = np.asarray(groups.count(), np.float64)
    if not counts.size:
        return np.nan, np.nan, np.nan
    values = conversation_values(sums, counts)
    low, high = mean_interval(values)
    return float(values.mean()), float(low), float(high)


def ability_frame(systems: Sequence[FieldSystem]) -> pd.DataFrame:
    """Mean and interval of every system by ability, each by the protocol that says most of it (`HEADLINE`)."""
    parts = []
    for system in systems:
        protocol = HEADLINE[system.source.kind]
        frame = summarise(system.scores(protocol)).assign(
            system=system.name,
            reader=system.source.reader,
            judge=system.source.judged_by,
            kind=system.source.kind,
            protocol=protocol,
        )
        parts.append(frame.rename(columns={"size": "tier", "n_questions": "n", "n_conversations": "conversations"}))
    return pd.concat(parts, ignore_index=True)


def reproduced(systems: Sequence[FieldSystem]) -> pd.DataFrame:
    """Each average that a source states beside ours from its verdicts, and whether they are one number as printed.

    A source averages over questions, and over runs where it has several.
    """
    printed = published()
    averages = printed[(printed["ability"] == AVERAGE) & (printed["verdicts_at_hand"] != "no")]
    rows = []
    for system in systems:
        if system.source not in sources():  # another judge's verdicts on the same answers are no reproduction
            continue
        stated = averages[(averages["system"] == system.name) & (averages["tier"] == system.source.tier)]
        for _, row in stated.iterrows():
            protocol = HEADLINE[system.source.kind]
            ours = 100 * _over_questions(system.scores(protocol))[0]
            digits = len(str(row["score_percent"]).partition(".")[2])
            same = round(ours, digits) == row["score_percent"]
            rows.append((system.name, system.source.tier, protocol, row["score_percent"], round(ours, 2), same))
    return pd.DataFrame(rows, columns=["system", "tier", "protocol", "published", "from verdicts", "reproduced"])


def only_printed() -> pd.DataFrame:
    """The published averages without verdicts: numbers that nobody can check, by tier and gold in the answer prompt."""
    printed = published()
    rows = printed[(printed["ability"] == AVERAGE) & (printed["verdicts_at_hand"] == "no")]
    columns = ["tier", "gold_in_answer_prompt", "system", "score_percent", "reader", "judge", "scoring", "questions"]
    order = rows["tier"].map({size: n for n, size in enumerate(SIZES)})
    rows = rows.assign(order=order).sort_values(
        ["order", "gold_in_answer_prompt", "score_percent"], ascending=[True, True, False], kind="stable"
    )
    return rows[columns].reset_index(drop=True)


def errata_effect(systems: Sequence[FieldSystem]) -> pd.DataFrame:
    """Each system's average over all its questions and without those that an erratum spoils (`drop`).

    The released questions are matched by their text, so the errata of a probe id speak of them.
    """
    spoilt = {entry.question_id for entry in load_errata().entries if entry.spoils_score}
    rows = []
    for system in systems:
        protocol = HEADLINE[system.source.kind]
        scores = system.scores(protocol)
        dropped = scores[~scores["probe_id"].isin(spoilt)]
        means = [summarise(frame).set_index("ability").loc[AVERAGE] for frame in (scores, dropped)]
        change = means[1]["mean"] - means[0]["mean"]
        counts = (len(scores) - len(dropped), len(scores))
        told = (system.source.tier, system.name, system.source.reader, system.source.judged_by, protocol)
        rows.append((*told, means[0]["mean"], means[1]["mean"], change, *counts))
    columns = ["tier", "system", "reader", "judge", "protocol", "all", "drop", "change", "dropped", "n"]
    return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True)
class Pair:
    """Two systems of one group, the first minus the second on the questions that both answered."""

    first: FieldSystem
    second: FieldSystem
    found: Comparison
    questions: int


def pairs(systems: Sequence[FieldSystem], tier: str = "") -> list[Pair]:
    """Every pair that may be compared (`FieldSystem.group`, `doubt`) and shares a question, the better one first."""
    made = []
    for one, other in combinations(systems, 2):
        if one.group != other.group or one.doubt or tier not in ("", one.source.tier):
            continue
        frames = [system.scores(HEADLINE[system.source.kind]) for system in (one, other)]
        shared = set(frames[0]["probe_id"]) & set(frames[1]["probe_id"])
        if shared:
            a, b = (frame[frame["probe_id"].isin(shared)] for frame in frames)
            found = compare(a, b)
            pair = Pair(one, other, found, len(shared))
            made.append(pair if found.difference >= 0 else Pair(other, one, compare(b, a), len(shared)))
    return made


def average_of(system: FieldSystem, protocol: str) -> tuple[float, float, float]:
    """The plain mean over a system's questions, as sources average, with its interval over conversations."""
    return _over_questions(system.scores(protocol))


def run_averages(system: FieldSystem) -> list[float]:
    """The average over questions of each of a system's runs."""
    return [_over_questions(score_run(own, HEADLINE[system.source.kind]))[0] for _, own in system.runs]
