"""How far the stand-in's judge agrees with a language model on real judged answers.

The runs hold, per question, how many nuggets a GPT-5 judge found satisfied, partly satisfied and unsatisfied. The
judge's thresholds were set on these very runs, so the numbers are of fit, not of generalisation.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

from beamlib.models.offline.judge import judge


@pytest.fixture(scope="module")
def scores(shared: Path) -> np.ndarray:
    """Question scores, shape (questions, 2): the language model's and the stand-in's."""
    files = sorted((shared / "data" / "verdicts").glob("*.json.gz"))
    if not files:
        pytest.skip(f"no judged runs in {shared / 'data' / 'verdicts'}")
    rows = []
    for path in files:
        for entry in json.loads(gzip.decompress(path.read_bytes())):
            counts = re.search(r"(\d+) full, (\d+) partial, (\d+) none", entry["metrics"]["beam_rubric"]["reason"])
            assert counts is not None
            full, partial, none = map(int, counts.groups())
            mine = [judge(entry["question"], nugget, entry["answer"]).score for nugget in entry["rubric"]]
            rows.append(((full + 0.5 * partial) / (full + partial + none), sum(mine) / len(mine)))
    return np.array(rows)


def test_question_scores_agree_with_a_language_model(scores: np.ndarray) -> None:
    theirs, mine = scores.T
    assert len(scores) == 40
    assert np.corrcoef(theirs, mine)[0, 1] > 0.88
    assert np.abs(theirs - mine).mean() < 0.1


def test_it_is_not_more_lenient_than_a_language_model(scores: np.ndarray) -> None:
    theirs, mine = scores.T
    assert mine.mean() <= theirs.mean() + 0.02
