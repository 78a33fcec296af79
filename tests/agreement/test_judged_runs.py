"""Rubric means against judged runs that others published (real readers, GPT-5 judges).

The counts of two runs on one 100K conversation were at hand when the protocols were written. The verdicts of four runs
on 45 conversations of 1M and 10M came later: out of sample, the same rule gives every one of 1,800 published scores.
"""

from __future__ import annotations

import gzip
import json
import re

import pandas as pd
import pytest

from beamlib.scoring.protocols import PROTOCOLS
from beamlib.scoring.records import Judgement, NuggetVerdict

COUNTS = re.compile(r"(\d+) full, (\d+) partial, (\d+) none")


@pytest.mark.parametrize("run", [0, 1])
def test_reported_means_follow_from_the_reported_counts(shared, run):
    file = shared / "data" / "verdicts" / f"100k_run{run}.json.gz"
    questions = json.loads(gzip.decompress(file.read_bytes()))
    assert len(questions) == 20
    for number, question in enumerate(questions):
        reported = question["metrics"]["beam_rubric"]
        full, partial, none = (int(count) for count in COUNTS.search(reported["reason"]).groups())
        scores = [1.0] * full + [0.5] * partial + [0.0] * none
        assert len(scores) == len(question["rubric"])
        judgement = Judgement(
            probe_id=f"100K-2-q{number:02d}",
            conversation_id="100K-2",
            ability=question["question_type"],
            verdicts=tuple(
                NuggetVerdict(nugget=nugget, score=score, reply=json.dumps({"score": score}))
                for nugget, score in zip(question["rubric"], scores, strict=True)
            ),
        )
        value = {name: protocol.score_question(judgement).value for name, protocol in PROTOCOLS.items()}
        assert value["nugget-mean"] == pytest.approx(reported["score"], abs=1e-12)
        assert value["binary"] == float(full == len(scores))
        if question["question_type"] != "event_ordering":
            assert value["paper"] == value["f1-weighted"] == value["nugget-mean"]
            assert value["released-code"] == full / len(scores)


def test_published_scores_of_other_runs_follow_from_their_verdicts(shared):
    verdicts = pd.read_csv(shared / "data" / "field" / "verdicts.csv")
    questions = verdicts[verdicts["source"] == "mem0"].sort_values("nugget").groupby(["run", "probe"])
    assert len(questions) == 1800
    for (_, probe), rows in questions:
        judgement = Judgement(
            probe_id=probe,
            conversation_id=probe.rpartition("-")[0],
            ability=rows["ability"].iloc[0],
            verdicts=tuple(NuggetVerdict(nugget=f"n{n}", score=score) for n, score in enumerate(rows["score"])),
        )
        value = PROTOCOLS["nugget-mean"].score_question(judgement).value
        assert value == pytest.approx(rows["published"].iloc[0], abs=5e-5)  # published with four decimals
