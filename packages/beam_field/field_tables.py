"""The field in tables, from verdicts that others published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from beam_field.comparing import (
    FieldSystem,
    ability_frame,
    comparable_pairs,
    only_printed,
    reproduced_averages,
)
from beamlib.data.gold import ABILITIES
from beamlib.report.long_frame import ability_label
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING, ends_text, with_interval
from beamlib.scoring.scores import AVERAGE

INTERVAL = "Interval: 95 %, t over conversations on the logit scale; one conversation has none."
BASIS = (
    "Verdicts as their sources published them, matched to the released questions by tier and exact text; scored here. "
    "Reader and judge are those of the source. Runs that repeat a system count a question with the mean over them."
)
_GOLD = {"yes": "in the prompt", "no": "not shown", "unknown": "nobody says"}
TITLES = {
    "no": "",
    "yes": ": gold in the answer prompt",
    "unknown": ": nobody says whether gold was in the answer prompt",
    "in part": ": gold in the answer prompts of one ability",
}
_SUFFIXES = {"no": "", "yes": "_gold_shown", "unknown": "_gold_unknown", "in part": "_gold_in_part"}


def split_by_gold_leak(systems: Sequence[FieldSystem]) -> dict[str, list[FieldSystem]]:
    """Split systems by gold in the answer prompt, so that no column mixes them; keys are suffixes of table names."""
    groups = {gold: [system for system in systems if system.source.gold_in_prompt == gold] for gold in _SUFFIXES}
    return {_SUFFIXES[gold]: own for gold, own in groups.items() if own}


def scores_table(frame: pd.DataFrame) -> Table:
    """Show systems of one group of `split_by_gold_leak` by every protocol; `frame` comes from `field_frame`."""
    shown = frame.dropna(subset=["mean"])
    protocols = [name for name in dict.fromkeys(frame["protocol"]) if name in set(shown["protocol"])]
    rows = []
    for (tier, system, judge, reader, kind), own in frame.groupby(
        ["tier", "system", "judge", "reader", "kind"], sort=False
    ):
        first, by_protocol = own.iloc[0], own.set_index("protocol").to_dict("index")
        size = f"{first['conversations']} / {own['n'].max()}"
        facts = (tier, system, f"{judge}: {kind}", reader, _GOLD[str(first["gold"])], str(first["runs"]), size)
        rows.append((*facts, *(_cell(by_protocol[name]) for name in protocols)))
    header = ["tier", "system", "judge: verdicts", "reader", "gold", "runs", "conversations / questions", *protocols]
    unscored = int(frame.groupby(["tier", "system"])["unscored"].max().sum())
    footer = (
        BASIS,
        f"{INTERVAL} Average over the ten abilities. Unscored: {unscored}.",
        f"A dash, or no column: not computable from this source, so there is no average. {_gaps(frame)}.",
    )
    title = f"BEAM scores of the field, from published verdicts{TITLES[str(frame['gold'].iloc[0])]}"
    return Table(title, pd.DataFrame(rows, columns=header), footer, kind="costs", csv=frame)


def _gaps(frame: pd.DataFrame) -> str:
    """Say which abilities a protocol cannot compute from which kind of verdict."""
    gaps: dict[str, dict[str, list[str]]] = {}
    for (kind, missing), own in frame[frame["missing"] != ""].groupby(["kind", "missing"], sort=False):
        protocols = ", ".join(dict.fromkeys(own["protocol"]))
        gaps.setdefault(str(missing), {}).setdefault(protocols, []).append(str(kind))
    return "; ".join(
        f"{_abilities(missing)}: " + ", and ".join(f"{names} of {' and '.join(kinds)}" for names, kinds in own.items())
        for missing, own in gaps.items()
    )


def _abilities(names: str) -> str:
    own = names.split(", ")
    return "All ten abilities" if len(own) == len(ABILITIES) else ", ".join(map(ability_label, own))


def _cell(row: Mapping[Any, Any]) -> str:
    if np.isnan(row["mean"]):
        return NOTHING
    return with_interval(
        f"{row['mean']:.3f}", row["low"], row["high"], row["conversations"], equal=row.get("equal") is True
    )


def reproduced_table(systems: Sequence[FieldSystem]) -> Table:
    """Show the averages that sources state beside those of their verdicts."""
    frame = reproduced_averages(systems)
    cells = frame.assign(reproduced=frame["reproduced"].map({True: "yes", False: "no"}))
    footer = (BASIS, "In percent, over questions, as sources average; the protocol is the one nearest to theirs.")
    return Table("Published averages, reproduced", cells.astype(str), footer, kind="costs", csv=frame)


def abilities_table(systems: Sequence[FieldSystem]) -> Table:
    """Show systems of one group of `split_by_gold_leak` by ability."""
    frame, rows = ability_frame(systems), []
    facts = ["tier", "system", "reader", "judge", "kind", "protocol"]
    names = (*ABILITIES, AVERAGE)
    for (tier, system, reader, judge, _, protocol), own in frame.groupby(facts, sort=False):
        by_ability = own.set_index("ability").to_dict("index")
        cells = (_cell(by_ability[name]) if name in by_ability else NOTHING for name in names)
        rows.append([tier, system, f"{reader}; {judge}: {protocol}", *cells])
    header = ["tier", "system", "reader; judge: protocol", *map(ability_label, names)]
    footer = (BASIS, f"{INTERVAL} Rows of another judge or kind of verdict are not comparable.")
    title = f"The field by ability{TITLES[systems[0].source.gold_in_prompt]}"
    return Table(title, pd.DataFrame(rows, columns=header), footer, kind="costs", csv=frame)


def pairs_table(systems: Sequence[FieldSystem]) -> Table:
    """Show the differences that can be computed: same tier, judge, kind of verdict and questions."""
    rows = []
    for pair in comparable_pairs(systems):
        comparison, source = pair.comparison, pair.first.source
        interval = ends_text(comparison.low, comparison.high, comparison.n, "+.3f") or NOTHING
        tests = (
            NOTHING if np.isnan(p) else p_text(p).removeprefix("p = ").removeprefix("p ")
            for p in (comparison.p_value, pair.corrected)
        )
        facts = (source.tier, pair.first.name, pair.second.name, f"{comparison.difference:+.3f}", interval, *tests)
        rows.append((*facts, str(pair.questions), str(comparison.n), source.judged_by))
    header = ["tier", "system", "minus", "difference", "95 % interval", "p", "p (Holm)", "questions"]
    header += ["conversations", "judge"]
    footer = (
        BASIS,
        "Paired over conversations, t-interval; p: sign-flip test; Holm: corrected for all pairs of this table.",
        "Other pairs differ in judge, its prompt, verdicts, "
        "questions or gold in the answer prompt, or nobody says who judged or whether gold was there.",
    )
    return Table("Pairs that may be compared", pd.DataFrame(rows, columns=header), footer, kind="costs")


def printed_tables() -> dict[str, Table]:
    """Show published averages that nobody can check, by the suffixes of `split_by_gold_leak`."""
    frame = only_printed()
    gold = frame["gold_in_answer_prompt"].where(frame["gold_in_answer_prompt"].isin(["yes", "no"]), "in part")
    footer = (
        "Printed by their authors; no verdict is at hand, so nothing of it was computed here and no interval is known.",
    )
    headings = {"gold_in_answer_prompt": "gold in the answer prompt", "score_percent": "percent"}
    tables = {}
    for kind, own in frame.groupby(gold, sort=False):
        cells = own.rename(columns=headings).astype(str)
        title = f"Published without verdicts{TITLES[str(kind)]}"
        tables[_SUFFIXES[str(kind)]] = Table(title, cells, footer, kind="costs", csv=own)
    return tables


def p_text(value: float) -> str:
    """Write a p-value as tables and sentences of the field do."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"
