"""Systems of the field by ability, and the pairs that may be compared, from verdicts that others published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from beam_field.comparing import FieldSystem, ability_frame, comparable_pairs
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
TITLES = {
    "no": "",
    "yes": ": gold in the answer prompt",
    "unknown": ": nobody says whether gold was in the answer prompt",
    "in part": ": gold in the answer prompts of one ability",
}


def cell_text(row: Mapping[Any, Any]) -> str:
    """Write a mean with its interval."""
    if np.isnan(row["mean"]):
        return NOTHING
    return with_interval(
        f"{row['mean']:.3f}", row["low"], row["high"], row["conversations"], equal=row.get("equal") is True
    )


def abilities_table(systems: Sequence[FieldSystem]) -> Table:
    """Show systems of one group of `split_by_gold_leak` by ability."""
    frame, rows = ability_frame(systems), []
    facts = ["tier", "system", "reader", "judge", "kind", "protocol"]
    names = (*ABILITIES, AVERAGE)
    for (tier, system, reader, judge, _, protocol), of_system in frame.groupby(facts, sort=False):
        by_ability = of_system.set_index("ability").to_dict("index")
        cells = (cell_text(by_ability[name]) if name in by_ability else NOTHING for name in names)
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


def p_text(value: float) -> str:
    """Write a p-value as tables and sentences of the field do."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"
