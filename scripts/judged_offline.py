"""Make `packages/beam_field/judged_offline.csv` anew: what the offline judge says of published answers.

    python scripts/judged_offline.py mem0_1m_top200.json.gz mem0_1m_top50.json.gz

The files are imported into a temporary run and judged as `beamlib judge RUN --judge offline` does; only runs whose
verdicts are shipped are kept. Nothing of a text is written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from beam_field.importing import read_runs, write_runs
from beam_field.judged_offline import GRADED, JUDGED_OFFLINE, packed_offline
from beam_field.judging_again import JudgeOptions, judge_again
from beamlib.evaluate.arm_folder import read_manifest, stored_judgements
from beamlib.files import temporary_folder, write_text


def judged(files: list[Path]) -> str:
    """The lines of judged_offline.csv for these result files."""
    with temporary_folder("beamlib-judged-") as place:
        folders = write_runs(read_runs(files), place / "run")
        judge_again(JudgeOptions(place / "run"))
        names = {folder: read_manifest(folder).imported for folder in folders}
        found = {
            told.shipped: stored_judgements(folder.parent.with_name(f"{folder.parent.name}-by-offline") / folder.name)
            for folder, told in names.items()
            if told is not None
        }
    return packed_offline([(name, found[name]) for name in GRADED])


if __name__ == "__main__":
    write_text(JUDGED_OFFLINE, judged([Path(name) for name in sys.argv[1:]]))
