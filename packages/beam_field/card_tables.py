"""A judge card to be read: tables of `beam_field.judge_card`, and what they mean for a comparison in sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from beam_field.judge_card import ALL, JudgeCard
from beamlib.errors import UserError
from beamlib.report.footer import OFFLINE, model_shown
from beamlib.report.long_frame import ability_label
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING
from beamlib.text import count

JUDGED_MADE = Path(__file__).with_name("judged_made.csv")
"""The offline judge on answers made to deceive it; `benchmarks/judge.py --out` writes it."""


def card_tables(card: JudgeCard, protocol: str) -> dict[str, Table]:
    """The tables of a card by name: agreement, confusion, bias, order (the last where there are two systems)."""
    first, second = model_shown(card.first), model_shown(card.second)
    basis = (
        f"First judge: {first}. Second judge: {second}. Protocol of averages: {protocol}. "
        f"Judged by only one of the two, and left out: {card.alone} answers."
    )
    tables = {
        "agreement": _agreement(card, (basis,)),
        "confusion": _confusion(card, (basis,)),
        "bias": _bias(card, (basis,)),
    }
    if len(card.order):
        tables["order"] = _order(card, (basis,))
    return {name: table for name, table in tables.items() if len(table.cells)}


def _agreement(card: JudgeCard, basis: tuple[str, ...]) -> Table:
    frame = card.agreement
    cells = pd.DataFrame(
        {
            "ability": [name if name == ALL else ability_label(name) for name in frame["ability"]],
            "nuggets": frame["n"].map("{:,}".format),
            "kappa over 0, 0.5, 1": frame["kappa"].map(_two),
            "kappa over at least 0.5": frame["kappa_half"].map(_two),
            "equal": frame["equal"].map("{:.3f}".format),
            "mean, first": frame["mean_first"].map("{:.3f}".format),
            "mean, second": frame["mean_second"].map("{:.3f}".format),
        }
    )
    footer = (*basis, "Cohen's kappa; a dash where it is not defined, as one label is all there is.")
    return Table("Agreement on the same answers, by nugget", cells, footer, kind="costs", names=1, csv=frame)


def _confusion(card: JudgeCard, basis: tuple[str, ...]) -> Table:
    counts = card.confusion
    cells = pd.DataFrame([[f"{row:g}", *(f"{n:,}" for n in counts.loc[row])] for row in counts.index])
    cells.columns = pd.Index(["first judge", *(f"second: {level:g}" for level in counts.columns)])
    return Table(
        "Nuggets by both verdicts", cells if counts.to_numpy().sum() else cells[:0], basis, kind="costs", names=1
    )


def _bias(card: JudgeCard, basis: tuple[str, ...]) -> Table:
    rows = [
        (
            one["system"],
            f"{one['first']:.3f}",
            f"{one['second']:.3f}",
            f"{one['difference']:+.3f}",
            _ends(one["low"], one["high"]),
            f"{one['conversations']}",
            f"{one['n']:,}",
        )
        for one in card.bias.to_dict("records")
    ]
    header = [
        "system",
        "average, first",
        "average, second",
        "second minus first",
        "95 % interval",
        "conversations",
        "questions",
    ]
    footer = (*basis, "Averages over abilities on the questions both have judged; interval paired over conversations.")
    return Table(
        "What the judge does to an average",
        pd.DataFrame(rows, columns=header),
        footer,
        kind="costs",
        names=1,
        csv=card.bias,
    )


def _order(card: JudgeCard, basis: tuple[str, ...]) -> Table:
    rows = [
        (
            one["system"],
            one["against"],
            f"{one['first']:+.3f}",
            f"{one['second']:+.3f}",
            f"{one['change']:+.3f}",
            _ends(one["low"], one["high"]),
            "kept" if one["kept"] else "turned",
            f"{one['conversations']}",
        )
        for one in card.order.to_dict("records")
    ]
    header = ["system", "minus", "first judge", "second judge", "change", "95 % interval", "order", "conversations"]
    return Table(
        "What the judge does to a difference", pd.DataFrame(rows, columns=header), basis, kind="costs", csv=card.order
    )


def corrections_table(frame: pd.DataFrame, cheap: str, better: str) -> Table:
    """Averages by a cheap judge, corrected; `frame` as from `judge_card.corrections`."""
    rows = [
        (
            one["system"],
            f"{one['plain']:.3f}",
            f"{one['labelled']:.3f}",
            f"{one['mean']:.3f} {_ends(one['low'], one['high'], '.3f')}",
            f"{one['power']:.2f}",
            f"{one['labels']:,} in {one['conversations']}",
            f"{one['n']:,}",
        )
        for one in frame.to_dict("records")
    ]
    header = [
        "system",
        "all, uncorrected",
        "labelled part alone",
        "corrected, 95 %",
        "weight",
        "labels in conversations",
        "answers",
    ]
    footer = (
        f"Means over answers. All are judged by {model_shown(cheap)}; the labels are by {model_shown(better)}.",
        "Prediction-powered inference, jackknife over conversations; the interval holds however bad the cheap "
        "judge is, if what is labelled was not chosen by its answers (its coverage is simulated in the tests).",
    )
    return Table(
        "Averages corrected by a labelled part",
        pd.DataFrame(rows, columns=header),
        footer,
        kind="costs",
        names=1,
        csv=frame,
    )


def made_table() -> Table:
    """The offline judge on answers that deserve nothing, or everything: shipped numbers."""
    frame = pd.read_csv(JUDGED_MADE, dtype=str)
    if frame.empty:
        raise UserError(f"{JUDGED_MADE}: it has no row; restore the file.")
    footer = (
        f"Judge: {OFFLINE}. Nugget mean over the ten abilities. Made from references and chats of released "
        "conversations by benchmarks/judge.py.",
    )
    return Table("Answers made to deceive the offline judge", frame, footer, kind="costs", names=1)


def card_sentences(card: JudgeCard) -> list[str]:
    """What a card means for somebody who compares systems."""
    lines = []
    overall = card.agreement[card.agreement["ability"] == ALL]
    if len(overall):
        one = overall.iloc[0]
        lines.append(
            f"On {int(one['n']):,} nuggets the two agree with kappa {one['kappa']:.2f} "
            f"({one['kappa_half']:.2f} over at least 0.5)."
        )
        weak = card.agreement[(card.agreement["ability"] != ALL)].sort_values("kappa").dropna(subset=["kappa"])
        if len(weak) > 2:
            names = " and ".join(
                f"{ability_label(row['ability']).lower()} ({row['kappa']:.2f})" for _, row in weak.head(2).iterrows()
            )
            lines.append(f"Least on {names}: there the second judge is no replacement for the first.")
    else:
        lines.append(
            "No nugget has a verdict by both judges: one of them is known by counts, votes or scores of whole "
            "questions alone. Kappa needs verdicts per nugget, which `beamlib judge` gives; averages do not."
        )
    for bias in card.bias.to_dict("records"):
        lines.append(
            f"{bias['system']}: the second judge moves the average by {bias['difference']:+.3f} "
            f"{_ends(bias['low'], bias['high'])} over {count(bias['conversations'], 'conversation')}."
        )
    if np.isnan(card.error):
        lines.append(
            "What is within the judge's error needs two systems, and two conversations, that both have judged."
        )
    else:
        turned = int((~card.order["kept"]).sum())
        lines.append(
            f"Of {len(card.order)} pair{'s' * (len(card.order) != 1)} of systems, {turned} turned round. "
            f"Differences under {card.error:.3f} are within this judge's error."
        )
        lines.append(
            "That is the error of the judge alone, as these systems show it: that of few conversations comes on top, "
            f"and {count(len(card.order), 'pair')} of systems say{'s' * (len(card.order) == 1)} little of others."
        )
    return lines


def _two(value: float) -> str:
    return NOTHING if np.isnan(value) else f"{value:.2f}"


def _ends(low: float, high: float, form: str = "+.3f") -> str:
    return "(no interval)" if np.isnan(low) else f"[{low:{form}}, {high:{form}}]"
