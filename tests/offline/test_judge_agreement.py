"""How far the stand-in's judge agrees with a language model on real judged answers, where it was tuned and elsewhere.

Both samples hold verdicts of a GPT-5 judge on answers of GPT-5. The judge's thresholds were set on the first; the
second was published by others and looked at after that.

| sample | questions | correlation of question scores | mean distance | mean, theirs and ours | κ of verdicts |
|---|---|---|---|---|---|
| in-sample: two runs on conversation 2 of 100K (cognee) | 40 | .92 | .08 | .79, .73 | only counts are known |
| out-of-sample: 35 conversations of 1M (mem0, top 200) | 700 | .79 | .14 | .64, .61 | .43, equal .65 |

The tests take every third question of the second sample, which is quicker.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_offline.judge import judge


def read(path: Path) -> Any:
    if not path.is_file():
        pytest.skip(f"no judged run at {path}")
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.fixture(scope="module")
def tuned_on(shared: Path) -> np.ndarray:
    """Question scores, shape (40, 2): the language model's and the stand-in's."""
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
def unseen(shared: Path) -> list[np.ndarray]:
    """Per question its verdicts, shape (nuggets, 2): the language model's and the stand-in's."""
    found = []
    for entry in read(shared / "data" / "field" / "mem0_1m_top200.json.gz")["evaluations"][::3]:
        result = entry["cutoff_results"]["top_200"]
        found.append(
            np.array(
                [
                    (one["score"], judge(entry["question"], one["nugget"], result["generated_answer"]).score)
                    for one in result["nugget_scores"]
                ]
            )
        )
    return found


def agreement(scores: np.ndarray) -> tuple[float, float, float]:
    """Correlation, mean distance, and how far ours lie above theirs on average."""
    theirs, mine = scores.T
    return np.corrcoef(theirs, mine)[0, 1], np.abs(theirs - mine).mean(), mine.mean() - theirs.mean()


def test_question_scores_agree_where_it_was_tuned(tuned_on: np.ndarray) -> None:
    correlation, distance, above = agreement(tuned_on)
    assert len(tuned_on) == 40
    assert correlation > 0.88 and distance < 0.1
    assert above <= 0.02


def test_question_scores_agree_less_elsewhere(unseen: list[np.ndarray]) -> None:
    correlation, distance, above = agreement(np.array([verdicts.mean(axis=0) for verdicts in unseen]))
    assert len(unseen) == 234
    assert correlation > 0.76 and distance < 0.16
    assert above <= 0.02  # no more lenient than a language model, here too


def test_verdicts_agree_moderately_elsewhere(unseen: list[np.ndarray]) -> None:
    theirs, mine = np.concatenate(unseen).T
    equal = (theirs == mine).mean()
    by_chance = sum((theirs == level).mean() * (mine == level).mean() for level in (0, 0.5, 1))
    assert len(theirs) > 750
    assert equal > 0.64 and (equal - by_chance) / (1 - by_chance) > 0.41  # Cohen's κ
