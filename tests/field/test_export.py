"""A run in the neutral form says what the run said: imported again, every protocol gives the same scores."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from published_results import FILES, LINES, written

from beam_field.exporting import export_runs
from beam_field.importing import read_runs, write_runs
from beam_field.judging_again import JudgeOptions, judge_again
from beamlib.errors import UserError
from beamlib.evaluate.arm_folder import stored_answers, stored_judgements
from beamlib.scoring.protocols import PROTOCOLS, REPORTED
from beamlib.scoring.scores import score_run


def imported(form: str, folder: Path, table: Path) -> Path:
    paths = [folder / f"{form}{number}.json" for number in range(len(FILES[form]))]
    for path, value in zip(paths, FILES[form], strict=True):
        path.write_text(written(value, form in LINES))
    return write_runs(read_runs(paths, table=table), folder / "run")[0].parent


def equal(first: Path, second: Path, protocols: list[str]) -> None:
    answers = [
        {one.probe_id: one.text for own in stored_answers(arm).values() for one in own} for arm in (first, second)
    ]
    assert answers[0] == answers[1]
    for protocol in protocols:
        scores = [score_run(stored_judgements(arm), protocol) for arm in (first, second)]
        values = [frame.set_index("probe_id")["score"] for frame in scores]
        pd.testing.assert_series_equal(*values)


@pytest.mark.parametrize("form", FILES)
def test_what_was_imported_stays_as_it_is(form: str, tmp_path: Path, table: Path) -> None:
    part = imported(form, tmp_path, table)
    paths = export_runs(part, table=table)
    again = [folder for path in paths for folder in write_runs(read_runs([path], table=table), tmp_path / path.stem)]
    assert len(again) == len(list(part.iterdir()))
    for arm, other in zip(sorted(part.iterdir()), again, strict=True):
        equal(arm, other, [*PROTOCOLS, *REPORTED])


def test_own_verdicts_keep_their_scores(tmp_path: Path, table: Path) -> None:
    part = imported("cognee", tmp_path, table)
    judge_again(JudgeOptions(part))
    own = part.with_name(f"{part.name}-by-offline")
    (path,) = export_runs(own, out=tmp_path / "out", table=table)
    (other,) = write_runs(read_runs([path], table=table), tmp_path / "again")
    equal(next(own.iterdir()), other, [name for name in PROTOCOLS if name != "released-code"])


def test_what_nobody_could_match_is_refused(tmp_path: Path, table: Path) -> None:
    part = imported("mem0", tmp_path, table)
    with pytest.raises(UserError, match="none of its 20 questions is a released one"):
        export_runs(part)
    with pytest.raises(UserError, match="no results to export"):
        export_runs(tmp_path)
    assert not (part.parent / "exported").exists()
