"""Judge cards of runs on file and of the shipped verdicts: their tables and what they mean in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from beam_field.judge_card import (
    ALL_ABILITIES,
    JudgeCard,
    JudgeScores,
    corrections,
    group_runs,
    judge_card,
    nugget_verdicts,
)
from beam_field.sources import GRADED, find_run, judgements, offline_judgements
from beam_offline.judge_error import error_rows
from beamlib.errors import UserError
from beamlib.evaluate.beam_records import MANIFEST, read_manifest, run_and_part, stored_answers, stored_judgements
from beamlib.llm.exchange import OFFLINE_NAME
from beamlib.report.figures import style
from beamlib.report.footer import OFFLINE, model_shown
from beamlib.report.long_frame import ability_label
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING
from beamlib.scoring.judge_exam import LEAST_KAPPA
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import not_computable, score_run
from beamlib.text import count

JUDGED_MADE = Path(__file__).with_name("judged_made.csv")
"""The offline judge on answers made to deceive it; `benchmarks/judge.py --out` writes it."""

_AGREEMENT = {
    "ability": "{label}",
    "nuggets": "{n:,}",
    "kappa over 0, 0.5, 1": "{kappa:.2f}",
    "kappa over at least 0.5": "{kappa_half:.2f}",
    "equal": "{equal:.3f}",
    "mean, first": "{mean_first:.3f}",
    "mean, second": "{mean_second:.3f}",
}
_BIAS = {
    "system": "{system}",
    "average, first": "{first:.3f}",
    "average, second": "{second:.3f}",
    "second minus first": "{difference:+.3f}",
    "95 % interval": "{interval}",
    "conversations": "{conversations}",
    "questions": "{n:,}",
}
_ORDER = {
    "system": "{system}",
    "minus": "{against}",
    "first judge": "{first:+.3f}",
    "second judge": "{second:+.3f}",
    "change": "{change:+.3f}",
    "95 % interval": "{interval}",
    "order": "{order}",
    "conversations": "{conversations}",
}
_CORRECTED = {
    "system": "{system}",
    "all, uncorrected": "{plain:.3f}",
    "labelled part alone": "{labelled:.3f}",
    "corrected, 95 %": "{mean:.3f} {interval}",
    "weight": "{power:.2f}",
    "labels in conversations": "{labels:,} in {conversations}",
    "answers": "{n:,}",
}


def _table(
    title: str, frame: pd.DataFrame, columns: Mapping[str, str], footer: tuple[str, ...], form: str = "+.3f"
) -> Table:
    """Build a table with a column per heading, each cell a format string over the row's values."""
    rows = []
    records: list[dict[str, Any]] = frame.to_dict("records")  # type: ignore[assignment]
    for row in records:
        ability, low, high = (
            row.get(name, default) for name, default in (("ability", ALL_ABILITIES), ("low", 0), ("high", 0))
        )
        derived = {
            "label": ALL_ABILITIES if ability == ALL_ABILITIES else ability_label(ability),
            "interval": _interval(low, high, form),
            "order": "kept" if row.get("kept") else "turned",
        }
        cells = (text.format(**row, **derived) for text in columns.values())
        rows.append([NOTHING if cell == "nan" else cell for cell in cells])
    names = 2 if "minus" in columns else 1
    return Table(title, pd.DataFrame(rows, columns=list(columns)), footer, kind="costs", names=names, csv=frame)


def _interval(low: float, high: float, form: str = "+.3f") -> str:
    return "(no interval)" if np.isnan(low) else f"[{low:{form}}, {high:{form}}]"


def card_tables(card: JudgeCard, protocol: str) -> dict[str, Table]:
    """Return the tables of a card by name: agreement, confusion, bias, and order where there are two systems."""
    basis = (
        f"First judge: {model_shown(card.first)}. Second judge: {model_shown(card.second)}. "
        f"Protocol of averages: {protocol}. Judged by only one of the two, and left out: {card.alone} answers."
    )
    kappa = "Cohen's kappa; a dash where it is not defined, as one label is all there is."
    paired = "Averages over abilities on the questions both have judged; interval paired over conversations."
    tables = {
        "agreement": _table("Agreement on the same answers, by nugget", card.agreement, _AGREEMENT, (basis, kappa)),
        "confusion": _confusion(card, basis),
        "bias": _table("What the judge does to an average", card.bias, _BIAS, (basis, paired)),
        "order": _table("What the judge does to a difference", card.order, _ORDER, (basis,)),
    }
    return {name: table for name, table in tables.items() if len(table.cells)}


def _confusion(card: JudgeCard, basis: str) -> Table:
    counts = card.confusion
    cells = pd.DataFrame([[f"{level:g}", *(f"{n:,}" for n in counts.loc[level])] for level in counts.index])
    cells.columns = pd.Index(["first judge", *(f"second: {level:g}" for level in counts.columns)])
    shown = cells if counts.to_numpy().sum() else cells[:0]
    return Table("Nuggets by both verdicts", shown, (basis,), kind="costs", names=1)


def corrections_table(frame: pd.DataFrame, cheap: str, better: str) -> Table:
    """Show averages by a cheap judge with their corrections; `frame` comes from `judge_card.corrections`."""
    footer = (
        f"Means over answers. All are judged by {model_shown(cheap)}; the labels are by {model_shown(better)}.",
        "Prediction-powered inference, jackknife over conversations; the interval holds however bad the cheap "
        "judge is, if what is labelled was not chosen by its answers (its coverage is simulated in the tests).",
    )
    labelled = count(int(frame["conversations"].max()), "labelled conversation")
    return _table(f"Averages corrected by {labelled}", frame, _CORRECTED, footer, form=".3f")


def deception_table() -> Table:
    """Show the offline judge on answers that deserve nothing, or everything: shipped numbers."""
    frame = pd.read_csv(JUDGED_MADE, dtype=str)
    footer = (
        f"Judge: {OFFLINE}. Nugget mean over the ten abilities. Made from references and chats of released "
        "conversations by benchmarks/judge.py.",
    )
    return Table("Answers made to deceive the offline judge", frame, footer, kind="costs", names=1)


def error_table() -> Table:
    """Show the offline judge against GPT-5 on every published run at hand, trained on or not."""
    footer = (
        f"Judge: {OFFLINE}. Runs of mem0: by models that did not see the conversation. cognee was not trained on; "
        "counts alone are published, so kappa is not known. Reference: GPT-5's verdicts.",
        "bias: mean over questions less GPT-5's, 95 % interval over conversations. Made by benchmarks/judge.py.",
    )
    frame = pd.DataFrame(error_rows()).replace("", NOTHING)
    return Table("The offline judge against GPT-5 on published runs", frame, footer, kind="costs", names=1)


def judge_figure(card: JudgeCard) -> Figure:
    """Draw kappa by ability, and what made-up answers earn."""
    abilities = card.agreement[card.agreement["ability"] != ALL_ABILITIES].sort_values("kappa")
    made = pd.read_csv(JUDGED_MADE).iloc[::-1]
    with style():
        figure = Figure(figsize=(10, 0.17 * len(made) + 0.8), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(2, 3))
        left.barh([ability_label(ability) for ability in abilities["ability"]], abilities["kappa"])
        left.set(xlabel="kappa over 0, 0.5 and 1", xlim=(0, 1), title="Agreement with GPT-5")
        right.barh(made["answers"], made["mean"], height=0.7)
        right.set(xlabel="mean score", xlim=(0, 1), title="Made-up answers")
        right.tick_params(axis="y", labelsize=6)
        for axes in (left, right):
            axes.grid(axis="y", visible=False)
            axes.margins(y=0.01)
    return figure


def figure_data(card: JudgeCard) -> pd.DataFrame:
    """Return the values of `judge_figure`: panel, bar, value."""
    rows = [("kappa", row.ability, row.kappa) for row in card.agreement.itertuples() if row.ability != ALL_ABILITIES]
    rows += [("made-up answers", row.answers, row.mean) for row in pd.read_csv(JUDGED_MADE).itertuples()]
    return pd.DataFrame(rows, columns=["panel", "bar", "value"])


def card_sentences(card: JudgeCard) -> list[str]:
    """Say what a card means for a comparison of systems."""
    lines = []
    overall = card.agreement[card.agreement["ability"] == ALL_ABILITIES]
    for row in overall.to_dict("records"):
        lines.append(
            f"On {row['n']:,} nuggets the two agree with kappa {row['kappa']:.2f} "
            f"({row['kappa_half']:.2f} over at least 0.5)."
        )
        by_ability = card.agreement[card.agreement["ability"] != ALL_ABILITIES].sort_values("kappa")
        weak = by_ability[by_ability["kappa"] < LEAST_KAPPA].head(2)
        if len(weak):
            pairs = zip(weak["ability"], weak["kappa"], strict=True)
            names = " and ".join(f"{ability_label(ability).lower()} ({kappa:.2f})" for ability, kappa in pairs)
            lines.append(f"Least on {names}: there the second judge is no replacement for the first.")
    if overall.empty:
        lines.append(
            "No nugget has a verdict by both judges: one of them is known by counts, votes or scores of whole "
            "questions alone. Kappa needs verdicts per nugget, which `beamlib judge` gives; averages do not."
        )
    lines += [
        f"{row['system']}: the second judge moves the average by {row['difference']:+.3f} "
        f"{_interval(row['low'], row['high'])} over {count(row['conversations'], 'conversation')}."
        for row in card.bias.to_dict("records")
    ]
    if np.isnan(card.error):
        why = "What is within the judge's error needs two systems, and two conversations, that both have judged."
        return [*lines, why]
    turned, n_pairs = int((~card.order["kept"]).sum()), len(card.order)
    return [
        *lines,
        f"Of {count(n_pairs, 'pair')} of systems, {turned} turned round. "
        f"Differences under {card.error:.3f} are within this judge's error.",
        "That is the error of the judge alone, as these systems show it: that of few conversations comes on top, "
        f"and {count(n_pairs, 'pair')} of systems say{'s' * (n_pairs == 1)} little of others.",
    ]


@dataclass(frozen=True, eq=False)
class CardOfRuns:
    """A card with its tables; `trained_on` says that the offline judge was trained on these very verdicts."""

    card: JudgeCard
    tables: Mapping[str, Table]
    trained_on: bool = False

    @property
    def means(self) -> list[str]:
        """What the card means, in sentences."""
        warning = "The offline judge was trained on these verdicts: on others it agrees less, as notebook 13 says."
        return [*card_sentences(self.card), *([warning] if self.trained_on else [])]

    def render(self) -> str:
        """Return all of it as text."""
        return "\n".join([*(table.to_text() for table in self.tables.values()), *self.means])

    def record(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        error = self.card.error
        card = {"first": self.card.first, "second": self.card.second, "alone": self.card.alone}
        card |= {"within_error": None if np.isnan(error) else error, "means": self.means}
        for name, table in self.tables.items():
            values = (table.cells if table.csv is None else table.csv).astype(object)
            card[name] = values.where(values.notna(), None).to_dict("records")
        return card


@dataclass(frozen=True, eq=False)
class _JudgedRun:
    """One judge's run: answers and judgements by arm, and in `runs_of` the system that an arm is a run of.

    `shipped` are the shipped runs that these are, "" for an arm that is none.
    """

    judge: str
    shipped: set[str]
    runs_of: dict[str, str]
    answers: dict[str, dict[str, str | None]]
    judgements: dict[str, list[Judgement]]


def card_of_runs(run: Path, against: Path, protocol: str) -> CardOfRuns:
    """Compare the judge of `run` with that of `against` on the answers with the same text in both.

    Where `against` has judged only a part, the averages of `run` are corrected by it.

    Raises:
        UserError: A folder holds several judges, or no answer is in both.
    """
    second, first = _judged_run(run), _judged_run(against)
    alike = [_same_answers(own, other) for own, other in ((first, second), (second, first))]
    scores = [{name: score_run(judged, protocol) for name, judged in own.items()} for own in alike]
    for side, own in zip((against, run), scores, strict=True):
        if own and all(not_computable(frame).any() for frame in own.values()):
            raise UserError(
                f"{side}: its averages are not computable under the protocol {protocol!r} from what was published; "
                "name another with --protocol."
            )
    judges = [
        JudgeScores(side.judge, nugget_verdicts(judged), own)
        for side, judged, own in zip((first, second), alike, scores, strict=True)
    ]
    runs_of = {**first.runs_of, **second.runs_of}
    card = judge_card(judges[0], judges[1], runs_of=runs_of)
    tables = card_tables(card, protocol)
    everything = {name: score_run(own, protocol) for name, own in second.judgements.items() if name in scores[0]}
    frame = corrections(_by_system(everything, runs_of), _by_system(scores[0], runs_of))
    partly = frame[frame["labels"] < frame["n"]]
    if len(partly):
        tables["corrected"] = corrections_table(partly, second.judge, first.judge)
    return CardOfRuns(card, tables, second.judge == OFFLINE_NAME and first.shipped <= set(GRADED))


def _judged_run(run: Path) -> _JudgedRun:
    folder, part = run_and_part(run)
    folders = sorted(path.parent for path in folder.glob(f"{part or '*'}/*/{MANIFEST}"))
    manifests = {folder: read_manifest(folder) for folder in folders}
    judges = sorted({manifest.judge for manifest in manifests.values()})
    if len(judges) != 1:
        parts = ", ".join(sorted({folder.parent.name for folder in folders}))
        what = f"several judges (parts {parts}); name one part" if judges else "no results; name a run or a part of one"
        raise UserError(f"{run}: it holds {what}.")
    several = len({manifest.size for manifest in manifests.values()}) > 1
    judged_run = _JudgedRun(judges[0], set(), {}, {}, {})
    for folder, manifest in manifests.items():
        size = manifest.size if several else ""
        name = f"{size} {manifest.arm}".strip()
        if name in judged_run.answers:
            raise UserError(f"{run}: {name} stands in several parts; name one part.")
        answers = (answer for own in stored_answers(folder).values() for answer in own)
        judged_run.answers[name] = {answer.probe_id: answer.text for answer in answers}
        judged_run.judgements[name] = stored_judgements(folder)
        imported = manifest.imported
        judged_run.shipped.add(imported.shipped if imported else "")
        if imported and imported.system:
            gold = "gold in its prompt" if imported.gold_in_prompt == "yes" else ""
            facts = (size, imported.system, imported.context, imported.reader, gold)
            judged_run.runs_of[name] = ", ".join(filter(None, facts))
    return judged_run


def _by_system(scores: Mapping[str, pd.DataFrame], runs_of: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """Join the scores of a system's runs; its conversations hold the questions of all runs."""
    apart = {name: frame.assign(probe_id=f"{name} " + frame["probe_id"]) for name, frame in scores.items()}
    return {system: pd.concat(own) for system, own in group_runs(apart, runs_of).items()}


def _same_answers(own: _JudgedRun, other: _JudgedRun) -> dict[str, list[Judgement]]:
    """Return the judgements of `own` on answers with the same text in `other`; missing texts are not the same."""
    alike: dict[str, list[Judgement]] = {}
    for name, judged in own.judgements.items():
        texts, others = own.answers[name], other.answers.get(name, {})
        for judgement in judged:
            text = texts.get(judgement.probe_id)
            if text is not None and text == others.get(judgement.probe_id):
                alike.setdefault(name, []).append(judgement)
    return alike


def shipped_card(protocol: str) -> tuple[JudgeCard, tuple[JudgeScores, JudgeScores]]:
    """Compare GPT-5 and the offline judge on the same published answers; return the card and both judges."""
    systems = {find_run(name).system: name for name in GRADED}
    judges = []
    for judge, read in ((find_run(GRADED[0]).judge, judgements), (OFFLINE_NAME, offline_judgements)):
        judged: dict[str, Sequence[Judgement]] = {system: read(name) for system, name in systems.items()}
        scores = {system: score_run(own, protocol) for system, own in judged.items()}
        judges.append(JudgeScores(judge, nugget_verdicts(judged), scores))
    first, second = judges
    return judge_card(first, second), (first, second)


def corrected_by_part(judges: tuple[JudgeScores, JudgeScores], conversations: int, seed: int) -> pd.DataFrame:
    """Correct the second judge's averages by the first judge's scores of some conversations, drawn by `seed`."""
    better, cheap = judges
    known = sorted({name for frame in better.scores.values() for name in frame["conversation_id"]})
    drawn = set(np.random.default_rng(seed).permutation(known)[:conversations])
    part = {name: frame[frame["conversation_id"].isin(drawn)] for name, frame in better.scores.items()}
    return corrections(cheap.scores, part)
