"""Build the table of latency and cost by memory: of reading a conversation, and of recalling for a question."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from beamlib.frames import OpenedRun
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING
from beamlib.text import money

_NOTES = (
    "Measured in the process that ran the memory, other work on the machine included. Waiting for models is in it, "
    "and so is loading an encoder, which the first reading of a process does.",
    "A memory that recalls for all questions of a conversation at once: an equal share of its own time, and the time "
    "of the question's calls.",
    "Calls and dollars are means; the reader's and the judge's, and those of an encoder's endpoint, are not in them. "
    "Arms of one memory that share a reading or a call have it once.",
    "`times()` of an opened run has every row (docs/dataframes.md).",
)


def latency_frame(times: pd.DataFrame) -> pd.DataFrame:
    """Summarise a frame `times()`: a row per part, memory and phase, of the arm that read most.

    `n` conversations or questions, `median` and `p95` (95th percentile) of their seconds, mean `calls` and `dollars`.
    """
    rows = []
    for (part, memory), of_memory in times.groupby(["part", "memory"], sort=False):
        reads = of_memory["phase"].eq("reading").groupby(of_memory["arm"], sort=False).sum()
        own = of_memory[of_memory["arm"] == reads.idxmax()]
        for phase in ("reading", "recalling"):
            timed = own[own["phase"] == phase]
            seconds, dollars = timed["seconds"].astype(float), timed["dollars"]
            rows.append(
                {
                    "part": part, "memory": memory, "arm": own["arm"].iloc[0], "phase": phase, "n": len(timed),
                    "median": seconds.median(), "p95": seconds.quantile(0.95), "calls": timed["calls"].mean(),
                    "dollars": float("nan") if dollars.isna().any() else dollars.mean(),
                }
            )  # fmt: skip
    return pd.DataFrame(rows, columns=["part", "memory", "arm", "phase", "n", "median", "p95", "calls", "dollars"])


def latency_table(run: Path) -> Table | None:
    """Build the table of a run folder, or of a part or an arm of one; None where nothing was timed."""
    frame = latency_frame(OpenedRun(run, {}).times())
    if frame.empty:
        return None
    shown = pd.DataFrame({name: frame[name] for name in ("part", "arm", "phase")})
    shown["n"] = [f"{n:,}" for n in frame["n"]]
    for name, label in (("median", "median s"), ("p95", "95 % s")):
        shown[label] = [NOTHING if pd.isna(value) else f"{value:,.3f}" for value in frame[name].astype(float)]
    shown["calls"] = [NOTHING if pd.isna(value) else f"{value:,.1f}" for value in frame["calls"].astype(float)]
    shown["dollars"] = [NOTHING if pd.isna(value) else money(value) for value in frame["dollars"].astype(float)]
    title = "Latency and cost by memory: reading a conversation, recalling for a question"
    return Table(title, shown, _NOTES, kind="costs", names=3, csv=frame, frame=frame)
