"""How far the stand-in's judge agrees with GPT-5, and that what is shipped is what was measured.

The measured error of the judge lies in `packages/beam_offline/measured/judge_error.csv`, made by `benchmarks/judge.py`
with models that did not see the conversation they are measured on. The shipped one was trained on mem0's answers, so
agreement on these is higher here. The two runs of cognee were not trained on; their judge had another prompt, and pays
more.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_offline.judge import judge
from beam_offline.judge.features import WEIGHTS
from beam_offline.judge_error import check_measured_judge
from beamlib.errors import UserError
from beamlib.evaluate import run_store
from beamlib.evaluate.run import JUDGE_CODE
from beamlib.files import _files_of


def read(path: Path) -> Any:
    if not path.is_file():
        pytest.skip(f"no judged run at {path}")
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.fixture(scope="module")
def elsewhere(shared: Path) -> np.ndarray:
    """Question scores of cognee's runs, shape (40, 2): the language model's and the stand-in's."""
    rows = []
    for run in (0, 1):
        for entry in read(shared / "data" / "verdicts" / f"100k_run{run}.json.gz"):
            counts = re.search(r"(\d+) full, (\d+) partial, (\d+) none", entry["metrics"]["beam_rubric"]["reason"])
            assert counts is not None
            full, partial, none = map(int, counts.groups())
            mine = [judge(entry["question"], nugget, entry["answer"]).score for nugget in entry["rubric"]]
            rows.append(((full + 0.5 * partial) / (full + partial + none), sum(mine) / len(mine)))
    return np.array(rows)


@pytest.fixture(scope="module")
def trained_on(shared: Path) -> list[np.ndarray]:
    """Of every fourth question its verdicts, shape (nuggets, 2): the language model's and the stand-in's."""
    found = []
    for entry in read(shared / "data" / "field" / "mem0_1m_top200.json.gz")["evaluations"][::4]:
        result = entry["cutoff_results"]["top_200"]
        verdicts = [
            (one["score"], judge(entry["question"], one["nugget"], result["generated_answer"]).score)
            for one in result["nugget_scores"]
        ]
        found.append(np.array(verdicts))
    return found


def test_verdicts_agree_where_it_was_trained(trained_on: list[np.ndarray]) -> None:
    theirs, mine = np.concatenate(trained_on).T
    equal = (theirs == mine).mean()
    by_chance = sum((theirs == level).mean() * (mine == level).mean() for level in (0, 0.5, 1))
    assert len(theirs) > 550
    assert (equal - by_chance) / (1 - by_chance) > 0.5  # Cohen's κ
    assert abs(mine.mean() - theirs.mean()) < 0.04


def test_question_scores_go_together_elsewhere(elsewhere: np.ndarray) -> None:
    theirs, mine = elsewhere.T
    assert len(elsewhere) == 40
    assert np.corrcoef(theirs, mine)[0, 1] > 0.5
    assert -0.32 < mine.mean() - theirs.mean() <= 0.02  # no more lenient than a language model


def test_the_measured_error_is_shipped() -> None:
    path = WEIGHTS.parent.parent / "measured" / "judge_error.csv"
    rows = {row["run"]: row for row in csv.DictReader(path.read_text().splitlines())}
    assert list(rows) == ["1m-top200", "1m-top50", "1m-both", "100k-run0", "100k-run1"]
    both = rows["1m-both"]
    assert (both["nuggets"], both["conversations"]) == ("4830", "35")
    assert float(both["kappa"]) >= 0.45 and float(both["kappa_half"]) >= 0.53
    assert float(both["bias_low"]) < float(both["bias"]) < float(both["bias_high"])
    assert abs(float(both["bias"])) < 0.03
    assert rows["100k-run0"]["kappa"] == rows["100k-run0"]["bias_low"] == ""  # counts of one conversation


def test_judgements_rest_on_the_judge_and_answers_do_not() -> None:
    judging, answering = (
        {file for name in names for file in _files_of(name)} for names in (JUDGE_CODE, run_store.ANSWER_CODE)
    )
    own = {file for file in WEIGHTS.parent.iterdir() if file.is_file()}
    assert WEIGHTS in own and own <= judging and not own & answering


def test_what_is_stated_of_the_judge_was_measured_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check_measured_judge()
    changed = tmp_path / "weights.json"
    changed.write_text(WEIGHTS.read_text("utf-8").replace("0.1", "0.2", 1), "utf-8")
    monkeypatch.setattr("beam_offline.judge_error.WEIGHTS", changed)
    with pytest.raises(UserError, match="has changed since its error was measured; measure it anew with"):
        check_measured_judge()
