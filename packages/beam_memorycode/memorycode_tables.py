"""The tables of the MemoryCode report, in the looks of `beamlib.report.tables`: Table 4, own runs, variants, orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pandas as pd

from beam_memorycode.rule_scoring import (
    ORDERS,
    RELEASED,
    RULE_COLUMNS,
    SCORING_VARIANTS,
    AveragingOrder,
    ScoringVariant,
    Summary,
)
from beam_memorycode.scored import COLUMN_LABELS, Cell, Published, ScoredModel
from beamlib.llm.model import OFFLINE_NAME
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING

_PROTOCOL = "Scored by rules on parsed code; an answer counts by the mean share of applicable rules that it follows."

_TABLE4_NOTES = (
    "Percent ± standard error over dialogues. Published rows: 360 dialogues, 210 of them short and 150 long.",
)
_RECOMPUTED_NOTES = (
    "Averaging: dialogue-mean, the paper's. Difference: recomputed, rounded as printed, less published (mean, standard "
    "error).",
    "n: dialogues with a score; unscored: answers never given; not Python: answers that do not parse.",
)


def table4(models: Sequence[ScoredModel], revision: str) -> Table:
    """Show Table 4 as printed, and beside it what the outputs at hand give, for each of the paper's models.

    A model of the paper whose outputs are not at hand has its printed row alone. Models without a row are left out.
    `revision` names the dialogues that the outputs answer.
    """
    printed = Published()
    known = {model.row: model for model in models if model.row}
    rows: list[tuple[str, ...]] = []
    for row in printed.models:
        cells = [printed.scores[row, column] for column in RULE_COLUMNS]
        rows.append((row, "published", *map(str, cells)))
        if row in known:
            summaries = [known[row].summary[column] for column in RULE_COLUMNS]
            rows.append((row, "recomputed", *map(_cell, summaries)))
            rows.append((row, "difference", *(_difference(a, b) for a, b in zip(summaries, cells, strict=True))))
            rows.append((row, "n; unscored; not Python", *map(_counts, summaries)))
    notes = _TABLE4_NOTES if not known else (*_footer([], revision), *_TABLE4_NOTES, *_RECOMPUTED_NOTES)
    return _table("MemoryCode, Table 4: published, and recomputed from the outputs at hand", ("Model", ""), rows, notes)


def own_table(
    models: Sequence[ScoredModel],
    title: str,
    revision: str,
    order: AveragingOrder = "dialogue-mean",
    variant: ScoringVariant = RELEASED,
) -> Table:
    """Show the columns of Table 4 for outputs that are not compared with the paper's."""
    rows: list[tuple[str, ...]] = []
    for model in models:
        summary = model.summarised(order, variant)
        cells = [summary[column] for column in RULE_COLUMNS]
        rows.append((model.name, "score", *map(_cell, cells)))
        rows.append((model.name, "n; unscored; not Python", *map(_counts, cells)))
    note = f"Percent ± standard error over dialogues; averaging: {order}."
    return _table(title, ("Run", ""), rows, (*_footer(models, revision), note))


def variant_table(models: Sequence[ScoredModel], revision: str) -> Table:
    """Show what each way of scoring changes, in points, against the released one."""
    rows: list[tuple[str, ...]] = []
    for model in models:
        start = model.summary
        rows.append((model.short, "released (score)", *(_mean(start[column]) for column in RULE_COLUMNS)))
        for variant in list(SCORING_VARIANTS.values())[1:]:
            summary = model.summarised(variant=variant)
            rows.append(
                (model.short, variant.name, *(_change(summary[column], start[column]) for column in RULE_COLUMNS))
            )
    note = "Change in points against the released scoring, which is the one that Table 4 agrees with (dialogue-mean)."
    title = "How much the way of scoring matters"
    return _table(title, ("Model", "Scoring"), rows, (*_footer(models, revision), note))


def order_table(models: Sequence[ScoredModel], revision: str) -> Table:
    """Show the same scores by each order of averaging."""
    rows = [
        (model.short, order, *(_cell(model.summarised(order)[column]) for column in RULE_COLUMNS))
        for model in models
        for order in ORDERS
    ]
    notes = (
        "dialogue-mean: mean over dialogues of the mean over their sessions (the paper's Table 4). position-mean: mean "
        "over positions of the mean over dialogues (the released script). rule-mean: all applicable rules alike.",
        "Percent ± standard error of what is averaged last.",
    )
    title = "How much the order of averaging matters"
    return _table(title, ("Model", "Order"), rows, (*_footer(models, revision), *notes))


def _table(title: str, lead: Sequence[str], rows: Sequence[Sequence[str]], footer: Sequence[str]) -> Table:
    return Table(title, pd.DataFrame(rows, columns=[*lead, *COLUMN_LABELS.values()]), tuple(footer))


def _footer(models: Sequence[ScoredModel], revision: str) -> tuple[str, ...]:
    stand_in = [model.name for model in models if model.offline]
    warning = (f"Answers of {', '.join(stand_in)}: {OFFLINE_NAME}.",) if stand_in else ()
    return (*warning, _PROTOCOL, f"Data: {revision}.", *(note for model in models for note in model.notes))


def _mean(summary: Summary) -> str:
    return NOTHING if summary.mean is None else f"{summary.mean:.1f}"


def _cell(summary: Summary) -> str:
    """ "71.7 ±1.35", or the mean alone of a single dialogue."""
    return _mean(summary) if summary.stderr is None else f"{_mean(summary)} ±{summary.stderr:.2f}"


def _counts(summary: Summary) -> str:
    return f"{summary.n}; {summary.unscored}; {summary.not_parsed}"


def _difference(summary: Summary, printed: Cell) -> str:
    if summary.mean is None or summary.stderr is None:
        return NOTHING
    ours = Cell.of(summary.mean, summary.stderr)
    return f"{_signed(ours.mean - printed.mean)}, {_signed(ours.stderr - printed.stderr)}"


def _signed(value: Decimal) -> str:
    return "0" if value == 0 else f"{value:+}"


def _change(summary: Summary, start: Summary) -> str:
    if summary.mean is None or start.mean is None:
        return NOTHING
    change = round(summary.mean - start.mean, 2)
    return f"{change:+.2f}" if change else "0"


def at_hand(models: Sequence[ScoredModel]) -> Mapping[str, Any]:
    """Return by model its row of Table 4 and how many dialogues and answers it has."""
    return {
        model.name: {
            "row of Table 4": model.row or NOTHING,
            "dialogues": len({answer.dialogue_id for answer in model.answers}),
            "answers": len(model.answers),
            "unscored": sum(answer.unscored for answer in model.answers),
        }
        for model in models
    }
