"""Files of each format about the real questions, made of the shipped verdicts, come back as exactly these verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from beam_field.importing import read_runs
from beam_field.sources import Source, judgements, sources, verdicts
from beamlib.data.gold import ABILITIES
from beamlib.files import read_json
from beamlib.scoring.protocols import PROTOCOLS, REPORTED
from beamlib.scoring.scores import score_run


@pytest.fixture(scope="module")
def texts(field_data: Path) -> Mapping[str, str]:
    """The text of each question by probe id."""
    found = {}
    for path in (field_data.parent / "beam_questions").glob("*/*/probing_questions/probing_questions.json"):
        value = read_json(path)
        asked = [one["question"] for ability in value if ability in ABILITIES for one in value[ability]]
        found |= {f"{path.parents[2].name}-{path.parents[1].name}-q{n:02d}": text for n, text in enumerate(asked)}
    if not found:
        pytest.skip("no questions beside the published result files")
    return found


def as_published(one: Source, texts: Mapping[str, str]) -> Any:
    """The value of a file of the run's own format; answers have the right length and say nothing."""
    frame = verdicts()
    own = frame[(frame["source"] == one.source) & (frame["run"] == one.run)].drop_duplicates("probe").set_index("probe")
    rows = []
    for judgement in judgements(one.name):
        row = own.loc[judgement.probe_id]
        question, answer, told = texts[judgement.probe_id], "x" * int(row["answer_chars"]), judgement.reported
        assert told is not None
        if one.source == "mem0":
            nuggets = [{"nugget": "", "score": verdict.score, "reason": ""} for verdict in judgement.verdicts]
            cutoff = {"score": told.score, "generated_answer": answer, "nugget_scores": nuggets}
            rows.append({"chat_size": one.tier, "question": question, "cutoff_results": {"top_1": cutoff}})
        elif one.source == "cognee":
            total = (told.full or 0) + (told.partial or 0) + (told.none or 0)
            counted = f"{told.full} full, {told.partial} partial, {told.none} none out of {total} criteria"
            metrics = {"beam_rubric": {"score": told.score, "reason": counted}, "kendall_tau": {"score": told.order}}
            rows.append({"question": question, "answer": answer, "run_idx": one.number, "metrics": metrics})
        else:
            votes = {"correct": told.score == 1, "judge_votes": list(told.votes)}
            rows.append({"question": question, "generated_answer": answer, **votes})
    return {"mem0": {"evaluations": rows}, "cognee": rows, "truememory": {"j_score": 1, "details": rows}}[one.source]


@pytest.mark.parametrize("one", sources(), ids=lambda one: one.name)
def test_a_file_of_the_shipped_verdicts_gives_them_back(one: Source, texts: Mapping[str, str], tmp_path: Path) -> None:
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps(as_published(one, texts)))
    (found,) = read_runs([path])
    assert (found.imported.shipped, found.manifest.size) == (one.name, one.tier)
    assert (found.imported.licence, found.imported.commit, found.manifest.reader) == (
        one.licence,
        one.commit,
        one.reader,
    )
    assert len(found.judgements) == one.n and not found.imported.unmatched_count
    for protocol in PROTOCOLS | REPORTED:
        ours, theirs = (
            score_run(judged, protocol).set_index("probe_id").sort_index()
            for judged in (found.judgements, judgements(one.name))
        )
        pd.testing.assert_frame_equal(ours, theirs)
