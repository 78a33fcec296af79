"""Compare two runs on the same questions: a table of paired differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from beam_page.headlines import paired, printed
from beam_page.run_folder import RunFolder, StoredArm, read_run
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.report.footer import footer
from beamlib.report.long_frame import ability_label
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING, ends_text, not_computable_notes
from beamlib.scoring.intervals import holm
from beamlib.scoring.scores import AVERAGE, not_computable, score_run

_COLUMNS = [
    "first", "second", "size", "ability", "difference", "low", "high", "p", "conversations",
    "unscored", "not_computable",
]  # fmt: skip
_INTERVAL = "95 % t-interval of the paired differences over conversations, p by the sign-flip test, Holm over all rows"


def compare_runs(first: Path, second: Path, protocol: str = "paper") -> Table:
    """Build the table of `first` minus `second`: a row for each pair of arms, size and ability, and their average.

    Arms of the same reader and name are a pair; where a reader has none, arms of the same name are.

    Raises:
        UserError: The runs share no arm or no question, or asked different questions under the same id.
    """
    runs = [read_run(folder) for folder in (first, second)]
    for run in runs:
        if not run.arms:
            raise UserError(f"{run.folder}: it holds no finished arm; name a run folder that run_all.sh wrote.")
    pairs = list(_pairs(*runs))
    if not pairs:
        raise UserError(f"{first} and {second} have no arm with a question in common; compare runs over the same data.")
    frame = pd.DataFrame([row for pair in pairs for row in _rows(*pair, protocol)], columns=_COLUMNS)
    names = [a if a == b else f"{a} – {b}" for a, b in zip(frame["first"], frame["second"], strict=True)]
    frame.insert(8, "p_holm", holm(frame["p"].tolist()))
    numbers = {name: [printed(value, 3) or NOTHING for value in frame[name]] for name in ("difference", "p", "p_holm")}
    ends = zip(frame["low"], frame["high"], frame["conversations"], strict=True)
    cells = pd.DataFrame({
        "arm": names,
        "size": frame["size"],
        "ability": [ability_label(ability) for ability in frame["ability"]],
        "difference": numbers["difference"],
        "95 % interval": [ends_text(low, high, n, ".3f") or NOTHING for low, high, n in ends],
        "p": numbers["p"],
        "p (Holm)": numbers["p_holm"],
        "n": frame["conversations"].astype(str),
        "unscored": frame["unscored"].astype(str),
    })  # fmt: skip
    manifests = [arm.manifest.model_dump(mode="json") for pair in pairs for arm in pair if arm.manifest]
    basis = footer(
        manifests,
        protocol=protocol,
        n_questions=len({judgement.probe_id for pair in pairs for judgement in pair[0].judgements}),
        unscored=int(frame.loc[frame["ability"] == AVERAGE, "unscored"].sum()),
        interval=_INTERVAL,
    )
    lacking = not_computable_notes(frame.assign(series=names))
    left_out = [f"Left out of {run.folder.name}: {arm}: {why}" for run in runs for arm, why in run.left_out.items()]
    title = f"{first.name} minus {second.name}, on the same questions"
    return Table(
        title, cells, (*basis.lines(), *lacking, *left_out), kind="costs", names=3, csv=frame, frame=frame, basis=basis
    )


def _pairs(first: RunFolder, second: RunFolder) -> Iterator[tuple[StoredArm, StoredArm]]:
    """Yield the arms to compare: of the same tier, reader and name, else of the same tier and name."""
    for arm in first.arms:
        named = [other for other in second.arms if other.name == arm.name and set(other.sizes) & set(arm.sizes)]
        probes = {judgement.probe_id for judgement in arm.judgements}
        for other in [other for other in named if other.series == arm.series] or named:
            if probes & {judgement.probe_id for judgement in other.judgements}:
                _refuse_other_questions(arm, other)
                yield arm, other


def _refuse_other_questions(arm: StoredArm, other: StoredArm) -> None:
    theirs = other.manifest.conversations if other.manifest else {}
    for key, record in arm.manifest.conversations.items() if arm.manifest else ():
        if key in theirs and theirs[key].questions_sha256 != record.questions_sha256:
            raise UserError(
                f"{other.run}: it asked other questions about {key} than {arm.run}; compare runs on equal data."
            )


def _rows(arm: StoredArm, other: StoredArm, protocol: str) -> Iterator[Sequence[object]]:
    """Yield the rows of a pair, in the order of `_COLUMNS`."""
    scores = [score_run(stored.judgements, protocol) for stored in (arm, other)]
    for size in arm.sizes:
        for ability in (*ABILITIES, AVERAGE):
            parts = [
                frame[(frame["size"] == size) & ((ability == AVERAGE) | (frame["ability"] == ability))]
                for frame in scores
            ]
            if (difference := paired(*parts)) is not None:
                values = (difference.difference, difference.low, difference.high, difference.p_value)
                yield (arm.series, other.series, size, ability, *values, difference.n, *_without_score(*parts))


def _without_score(first: pd.DataFrame, second: pd.DataFrame) -> tuple[int, int]:
    """Count the common questions that an arm has no score for, and those of which a source lacks what it takes."""
    lacking = [set(frame.loc[not_computable(frame), "probe_id"]) for frame in (first, second)]
    missing = [set(frame.loc[frame["score"].isna(), "probe_id"]) for frame in (first, second)]
    common = set(first["probe_id"]) & set(second["probe_id"])
    uncomputable = common & set[str]().union(*lacking)
    return len(common & set[str]().union(*missing) - uncomputable), len(uncomputable)
