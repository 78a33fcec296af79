"""Published runs and the offline judge's measured error, as facts (`beamlib.report.facts`)."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from beam_field.readings import ReadingsReport, report_readings
from beam_offline.judge.features import FEATURES
from beam_offline.judge_error import check_measured_judge, error_rows
from beamlib.data.readings import load_planted, load_readings
from beamlib.errors import UserError
from beamlib.report.facts import OVER_CONVERSATIONS, PAIRED, Estimate, decimals, fact

JUDGE_ERROR = "packages/beam_offline/measured/judge_error.csv"
JUDGE = "python benchmarks/judge.py --data FOLDER"


@fact("field.runs", unit="runs", source="packages/beam_field/verdicts.csv", command="beamlib facts field.runs")
def runs() -> int:
    """Published runs whose verdicts per nugget are shipped and scored by the same protocols."""
    return len({row["run"] for row in csv.DictReader(files("beam_field").joinpath("verdicts.csv").open())})


@fact("field.printed", unit="scores", source="packages/beam_field/published.csv", command="beamlib facts field.printed")
def printed() -> int:
    """Scores that others printed, with or without verdicts."""
    return sum(1 for _ in csv.DictReader(files("beam_field").joinpath("published.csv").open()))


@cache
def _row(run: str) -> dict[str, str]:
    check_measured_judge()
    rows = {row["run"]: row for row in error_rows()}
    if run not in rows:
        raise UserError(f"fact: the judge was not measured on {run!r}; choose from {', '.join(rows)}.")
    return rows[run]


@fact("judge.kappa", unit="Cohen's kappa", source=JUDGE_ERROR, command=JUDGE, examples=("1m-both",))
def kappa(run: str) -> str:
    """Agreement of the offline judge with GPT-5 over 0, 0.5 and 1, conversations left out in training."""
    return decimals(float(_row(run)["kappa"]))


@fact("judge.kappa_half", unit="Cohen's kappa", source=JUDGE_ERROR, command=JUDGE, examples=("1m-both",))
def kappa_half(run: str) -> str:
    """Agreement of the offline judge with GPT-5 over "at least 0.5", conversations left out in training."""
    return decimals(float(_row(run)["kappa_half"]))


@fact("judge.bias", unit="score", interval=PAIRED, source=JUDGE_ERROR, command=JUDGE, examples=("1m-both",))
def bias(run: str) -> Estimate:
    """Mean of the offline judge's scores less GPT-5's."""
    ends = (float(_row(run)[name]) if _row(run)[name] else None for name in ("bias_low", "bias_high"))
    return Estimate(float(_row(run)["bias"]), *ends)


@fact(
    "judge.features",
    unit="table",
    source="packages/beam_offline/judge/features.py",
    command="beamlib facts judge.features",
)
def features() -> str:
    """The twelve numbers that the offline judge goes by."""
    rows = "".join(f"| `{name}` | {meaning} |\n" for name, meaning in FEATURES.items())
    return f"\n| feature | what it says |\n|---|---|\n{rows}"


@fact("judge.made", unit="table", source="packages/beam_field/judged_made.csv", command=JUDGE)
def made() -> str:
    """What the offline judge pays for made answers, by kind: nugget mean over abilities, 100K 1 to 10."""
    check_measured_judge()
    rows = csv.DictReader(files("beam_field").joinpath("judged_made.csv").open())
    lines = (f"| {row['answers']} | {row['n']} | {decimals(float(row['mean']), 2)} | {row['goal']} |\n" for row in rows)
    return f"\n| answers | nuggets | earn | should |\n|---|---:|---:|---|\n{''.join(lines)}"


# What readers found in the questions ----------------------------------------------------------------------------------

READINGS = "beamlib/data/readings.csv"


@cache
def _readings() -> ReadingsReport:
    return report_readings(load_readings(), load_planted())


@fact(
    "readings.spoiled",
    unit="share of questions",
    interval=OVER_CONVERSATIONS,
    source=READINGS,
    command="beamlib data readings",
    examples=("100K", "100K strict", "100K beyond-doubt event_ordering"),
)
def spoiled(tier: str, threshold: str = "beyond-doubt", ability: str = "all") -> Estimate:
    """Share of the questions of a tier that its readers call spoiled, beyond doubt or strict."""
    for share in _readings().shares:
        if (share.tier, share.threshold.replace(" ", "-"), share.ability) == (tier, threshold, ability):
            return Estimate(share.share, share.low, share.high)
    raise UserError(f"fact: {tier}, {threshold}, {ability} was not read.")


@fact(
    "readings.count", unit="questions", source=READINGS, command="beamlib data readings", examples=("100K", "1M strict")
)
def spoiled_count(tier: str, threshold: str = "beyond-doubt", ability: str = "all") -> int:
    """Questions of a tier that its readers call spoiled, beyond doubt or strict."""
    for share in _readings().shares:
        if (share.tier, share.threshold.replace(" ", "-"), share.ability) == (tier, threshold, ability):
            return share.spoiled
    raise UserError(f"fact: {tier}, {threshold}, {ability} was not read.")


@fact("readings.kappa", unit="Cohen's kappa", source=READINGS, command="beamlib data readings", examples=("A B",))
def readers_kappa(first: str, second: str) -> str:
    """Agreement of two readers on what is spoiled."""
    for own in _readings().agreement:
        if (own.readers, own.finding) == ((first, second), "spoiled") and own.kappa is not None:
            return decimals(own.kappa)
    raise UserError(f"fact: readers {first} and {second} read no question both.")
