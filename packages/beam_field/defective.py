"""What defective questions do to published scores, and which questions every published run fails."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from beam_field.comparing import HEADLINE, FieldSystem
from beam_field.field_tables import BASIS, INTERVAL, TITLES
from beam_field.readings import report_readings
from beam_field.sources import judgements, published_runs, questions_by_probe
from beamlib.data.conversations import SIZES
from beamlib.data.errata import load_errata, reading_note
from beamlib.data.readings import assess, load_readings
from beamlib.report.figures import PAGE_WIDTH, style
from beamlib.report.long_frame import ability_label
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING, with_interval
from beamlib.scoring.intervals import conversation_values, difference_interval
from beamlib.scoring.scores import AVERAGE, score_run, summarise
from beamlib.text import count

MOST_OF_A_FAILURE = 1 / 3
"""A run fails a question that it scores at most this: one nugget of three."""


@cache
def universal_failures() -> pd.DataFrame:
    """Return the questions that every whole public run of their tier fails, by probe id.

    Columns: `tier`, `ability`, `best` (the highest score that a run has there), `runs`, and `state`: what is known of
    it (spoiled, doubted or right by the readings and errata, or suspect: nobody has read it). Tiers with a single whole
    run have none. Systems fail hard questions as well, so this is a reason to read.
    """
    questions = questions_by_probe()
    sizes = pd.Series([question.tier for question in questions.values()]).value_counts()
    state = {own.question: own.threshold or "right" for own in assess(load_readings())}
    state |= {entry.question_id: entry.threshold for entry in load_errata().entries if entry.threshold}
    frames = []
    for tier in SIZES:
        runs = [run for run in published_runs() if run.tier == tier and run.n == sizes.get(tier)]
        if len(runs) < 2:
            continue
        scores = {run.name: score_run(judgements(run.name), HEADLINE[run.kind]) for run in runs}
        best = pd.DataFrame({name: own.set_index("probe_id")["score"] for name, own in scores.items()}).max(axis=1)
        failed = best[best <= MOST_OF_A_FAILURE + 1e-9].rename("best").to_frame()
        failed = failed.loc[[name for name in questions if name in failed.index]]  # in the order of the data
        words = {"beyond doubt": "spoiled", "strict": "doubted", "right": "right"}
        known = [words.get(str(state.get(name)), "suspect") for name in failed.index]
        abilities = [questions[name].ability for name in failed.index]
        frames.append(failed.assign(tier=tier, ability=abilities, runs=len(runs), state=known))
    return pd.concat(frames)


def defect_effects(systems: Sequence[FieldSystem]) -> pd.DataFrame:
    """Return each system's scores with all questions, without those that are spoiled beyond doubt, and on those alone.

    Columns: `all` and `drop` (averages over abilities), `change`, `rank` and `rank_drop` (among the systems that judge,
    prompt, verdicts and gold make comparable), `dropped` of `n` questions; `spoiled` (plain mean over the dropped
    questions); `excess`, how much more that is than what the system's other scores predict (`expected`: its mean on
    sound questions of the same ability, where there is one), with its 95 % interval `low` to `high` over conversations.
    Whoever has more than expected profits from the defects.
    """
    spoilt = {entry.question_id for entry in load_errata().entries if entry.spoils_score}
    rows = []
    for system in systems:
        scores, run = system.scores(), system.source
        lost = scores["probe_id"].isin(spoilt)
        both, drop = (float(summarise(own).set_index("ability")["mean"][AVERAGE]) for own in (scores, scores[~lost]))
        rows.append(
            {
                **{"tier": run.tier, "system": system.name, "reader": run.reader, "judge": run.judged_by},
                **{"protocol": system.headline, "group": system.group},
                **{"all": both, "drop": drop, "change": drop - both, "dropped": int(lost.sum()), "n": len(scores)},
                **_on_spoiled(scores, lost),
            }
        )
    frame = pd.DataFrame(rows)
    for name, ranked in (("rank", "all"), ("rank_drop", "drop")):
        frame[name] = frame.groupby("group")[ranked].rank(ascending=False, method="min").astype(int)
    return frame.drop(columns="group")


def _on_spoiled(scores: pd.DataFrame, lost: pd.Series) -> dict[str, float]:
    """Compare the scores on spoiled questions with those that the same abilities' sound questions predict."""
    own = scores[lost].dropna(subset=["score"])
    spoiled = own["score"].mean()
    expected = own["ability"].map(scores[~lost].groupby("ability")["score"].mean()).astype(float)
    own = own.assign(excess=own["score"] - expected).dropna(subset=["excess"])
    if own.empty:
        return {"spoiled": spoiled, **dict.fromkeys(("expected", "excess", "low", "high"), np.nan)}
    groups = own.groupby("conversation_id")["excess"]
    values = conversation_values(np.asarray(groups.sum(), np.float64), np.asarray(groups.count(), np.float64))
    low, high = map(float, difference_interval(values)) if len(values) > 1 else (np.nan, np.nan)
    means = {"spoiled": spoiled, "expected": expected.mean(), "excess": own["excess"].mean()}
    return {**{name: float(value) for name, value in means.items()}, "low": low, "high": high}


def ceilings(systems: Sequence[FieldSystem]) -> pd.DataFrame:
    """Return what a system that answers every question rightly could reach under the released rubrics.

    For each tier that was read and each ability: the share that is spoiled beyond doubt, and two ceilings. `ceiling`
    (with `low` to `high`, of the share's interval) takes it that a right answer earns nothing on a spoiled question;
    `earning` that it earns there what the best of `systems` does on each, over all tiers.
    """
    spoilt = {entry.question_id for entry in load_errata().entries if entry.spoils_score}
    scored = pd.concat([system.scores().set_index("probe_id")["score"] for system in systems])
    earned = float(scored[scored.index.isin(spoilt)].groupby(level=0).max().mean())
    rows = [
        (own.tier, own.ability, own.questions, own.conversations, own.share, 1 - own.share)
        + ((1 - own.high, 1 - own.low) if own.low is not None and own.high is not None else (np.nan, np.nan))
        + (1 - own.share * (1 - earned),)
        for own in report_readings(load_readings()).shares
        if own.threshold == "beyond doubt"
    ]
    columns = ["tier", "ability", "questions", "conversations", "share", "ceiling", "low", "high", "earning"]
    return pd.DataFrame(rows, columns=columns)


def errata_table(systems: Sequence[FieldSystem]) -> Table:
    """Show what leaving out defective questions changes, for systems of one group of `split_by_gold_leak`."""
    frame = defect_effects(systems)
    cells = pd.DataFrame({name: frame[name] for name in ("tier", "system", "reader", "judge", "protocol")})
    cells["all"], cells["drop"] = frame["all"].map("{:.3f}".format), frame["drop"].map("{:.3f}".format)
    cells["change"] = frame["change"].map("{:+.3f}".format)
    cells["rank, all / drop"] = [f"{row['rank']} / {row['rank_drop']}" for _, row in frame.iterrows()]
    cells["dropped"] = [f"{row['dropped']} of {row['n']}" for _, row in frame.iterrows()]
    cells["on these"] = frame["spoiled"].map(lambda value: NOTHING if np.isnan(value) else f"{value:.3f}")
    cells["more than expected"] = [_excess(row) for _, row in frame.iterrows()]
    tiers = dict.fromkeys(system.source.tier for system in systems)
    footer = (
        BASIS,
        "drop: without the questions that are spoiled beyond doubt (docs/errata.md). Ranks: among comparable systems.",
        "More than expected: the score on the dropped questions minus what the system's sound questions of the same "
        f"ability predict. {INTERVAL} At 1M questions that all fail were read first, which lowers it.",
        *map(reading_note, tiers),
    )
    title = f"What errata change{TITLES[systems[0].source.gold_in_prompt]}"
    return Table(title, cells.astype(str), footer, kind="costs", csv=frame)


def _excess(row: pd.Series) -> str:
    if np.isnan(row["excess"]):
        return NOTHING
    interval = "" if np.isnan(row["low"]) else f" [{row['low']:+.3f}, {row['high']:+.3f}]"
    return f"{row['excess']:+.3f}{interval}"


def ceilings_table(systems: Sequence[FieldSystem]) -> Table:
    """Show what a system that is always right could reach under the released rubrics, by ability."""
    frame = ceilings(systems)
    cells = frame[["tier"]].assign(ability=["all" if own == "all" else ability_label(own) for own in frame["ability"]])
    cells["spoiled"] = [f"{row['share']:.1%} of {row['questions']}" for _, row in frame.iterrows()]
    cells["ceiling, 95 %"] = [
        with_interval(f"{row['ceiling']:.3f}", row["low"], row["high"], row["conversations"])
        for _, row in frame.iterrows()
    ]
    cells["as systems earn"] = frame["earning"].map("{:.3f}".format)
    footer = (
        "Ceiling: a right answer earns nothing on a question that is spoiled beyond doubt, and all on the others. As "
        "systems earn: on a spoiled one it earns what the best published run does.",
        "Shares by readers (docs/readings.md). The three chats of 1M were not drawn by chance: two have questions that "
        "every system fails.",
    )
    return Table("What a perfect system could reach", cells.astype(str), footer, kind="costs", csv=frame)


def spoiled_frame() -> pd.DataFrame:
    """Return the share of spoiled questions by tier, ability and threshold, of the tiers that were read."""
    return pd.DataFrame([share.model_dump() for share in report_readings(load_readings()).shares])


def spoiled_figure(frame: pd.DataFrame) -> Figure:
    """Draw the shares of `spoiled_frame` by ability, a panel for each tier, at both thresholds with their intervals."""
    tiers = list(dict.fromkeys(frame["tier"]))
    names = list(dict.fromkeys(frame["ability"]))
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 3.2), layout="constrained")
        panels = figure.subplots(1, len(tiers), sharey=True, squeeze=False)[0]
        for axes, tier in zip(panels, tiers, strict=True):
            for offset, (threshold, own) in zip(
                (-0.15, 0.15), frame[frame["tier"] == tier].groupby("threshold"), strict=True
            ):
                places = [names.index(name) + offset for name in own["ability"]]
                whiskers = [own["share"] - own["low"], own["high"] - own["share"]]
                axes.errorbar(
                    own["share"], places, xerr=whiskers, fmt="o", markersize=3.5, elinewidth=0.8, label=threshold
                )
            chats = frame.loc[frame["tier"] == tier, "conversations"].max()
            axes.set(
                title=f"{tier}, {count(int(chats), 'conversation')}", xlabel="spoiled questions", xlim=(-0.02, 1.02)
            )
        panels[0].set_yticks(range(len(names)), ["all" if name == "all" else ability_label(name) for name in names])
        panels[0].invert_yaxis()
        panels[0].legend(loc="lower right", fontsize=6)
        figure.supxlabel(
            "Readings of two or more readers; intervals: 95 %, over conversations", fontsize=6, color="0.3"
        )
    return figure
