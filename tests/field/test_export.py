"""An arm in the neutral form says what it said: imported again, every protocol gives the same scores."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from published_results import FILES, LINES, written

from beam_field.exporting import export_arm
from beam_field.importing import read_runs, write_runs
from beamlib.evaluate.arm_folder import read_manifest, stored_answers, stored_judgements
from beamlib.scoring.protocols import PROTOCOLS, REPORTED
from beamlib.scoring.scores import score_run


@pytest.mark.parametrize("form", FILES)
def test_what_was_imported_stays_as_it_is(form: str, tmp_path: Path, table: Path) -> None:
    paths = [tmp_path / f"{form}{number}.json" for number in range(len(FILES[form]))]
    for path, value in zip(paths, FILES[form], strict=True):
        path.write_text(written(value, form in LINES))
    for number, arm in enumerate(write_runs(read_runs(paths, table=table), tmp_path / "run")):
        out = tmp_path / f"out{number}.jsonl"
        export_arm(arm, out)
        (other,) = write_runs(read_runs([out], table=table), tmp_path / f"again{number}")
        answers = [{a.probe_id: a.text for own in stored_answers(one).values() for a in own} for one in (arm, other)]
        assert answers[0] == answers[1]
        for protocol in PROTOCOLS | REPORTED:
            scores = [score_run(stored_judgements(one), protocol) for one in (arm, other)]
            pd.testing.assert_series_equal(*(frame.set_index("probe_id")["score"] for frame in scores))
        told = [read_manifest(one).imported for one in (arm, other)]
        assert told[0] and told[1]
        assert (told[0].reader, told[0].judge, told[0].gold_in_prompt) == (
            told[1].reader, told[1].judge, told[1].gold_in_prompt,
        )  # fmt: skip
