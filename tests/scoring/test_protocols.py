"""Protocols: what each makes of the same judgements."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.scoring.event_ordering import is_order_nugget, order_scores
from beamlib.scoring.protocols import PROTOCOLS, find_protocol
from beamlib.scoring.records import Alignment, Judgement, NuggetVerdict

LEVELS = st.sampled_from([0.0, 0.5, 1.0])
RUBRIC_ABILITIES = [ability for ability in ABILITIES if ability != "event_ordering"]


def judged(scores, ability="summarization", matches=None, nuggets=None, items=None):
    names = nuggets or [f"nugget {k}" for k in range(len(scores))]
    verdicts = tuple(
        NuggetVerdict(
            nugget=name, score=score, reply=json.dumps({"score": score}), reason="" if score is not None else "no reply"
        )
        for name, score in zip(names, scores, strict=True)
    )
    alignments = ()
    if matches is not None:
        texts = items or tuple(f"item {k}" for k in range(len(matches)))
        alignments = tuple(
            Alignment(parser=parser, items=texts, matches=tuple(matches)) for parser in ("items", "newline")
        )
    return Judgement(probe_id="p", conversation_id="100K-1", ability=ability, verdicts=verdicts, alignments=alignments)


def value(protocol, judgement):
    return PROTOCOLS[protocol].score_question(judgement).value


def test_names_and_unknown_name():
    assert list(PROTOCOLS) == ["paper", "released-code", "f1-weighted", "nugget-mean", "binary"]
    with pytest.raises(
        UserError, match=r"'papre' is not one of paper, released-code, f1-weighted, nugget-mean, binary"
    ):
        find_protocol("papre")


def test_one_answer_under_each_protocol():
    judgement = judged([1.0, 0.5, 0.0, 1.0])
    assert {name: value(name, judgement) for name in PROTOCOLS} == {
        "paper": 0.625,
        "released-code": 0.5,
        "f1-weighted": 0.625,
        "nugget-mean": 0.625,
        "binary": 0.0,
    }


def test_one_ordering_answer_under_each_protocol():
    judgement = judged([1.0, 1.0, 0.5, 0.0, 0.0], "event_ordering", matches=[0, 1])
    tau_norm = order_scores(5, [0, 1]).tau_norm
    assert tau_norm == pytest.approx(0.918, abs=5.01e-4)
    assert value("paper", judgement) == pytest.approx(2 * tau_norm - 1)
    assert value("released-code", judgement) == tau_norm
    assert value("f1-weighted", judgement) == pytest.approx(tau_norm * (2 * 0.4 / 1.4))
    assert value("nugget-mean", judgement) == 0.5
    assert value("binary", judgement) == 0.0


@pytest.mark.parametrize("matches", [[None], [None] * 5, [None] * 40, [2, 1, 0], []])
def test_paper_gives_nothing_for_no_event_or_the_reversed_order(matches):
    judgement = judged([0.0] * 3, "event_ordering", matches=matches)
    assert value("paper", judgement) == 0.0
    if 0 not in matches:
        assert value("f1-weighted", judgement) == 0.0


def test_undefined_tau_is_unscored_and_says_so():
    judgement = judged([1.0], "event_ordering", matches=[0])
    for name in ("paper", "f1-weighted", "released-code"):
        score = PROTOCOLS[name].score_question(judgement)
        assert score.value is None and "undefined" in score.unscored
        assert "tau" not in score.detail


def test_order_nugget_is_no_event_in_paper_but_is_in_released_code():
    stem = "LLM response should mention: "
    nuggets = ["Lists all events in the correct order", f"{stem}sowing", f"{stem}harvest"]
    judgement = judged([1.0, 1.0, 1.0], "event_ordering", matches=[1, 2], nuggets=nuggets)
    assert value("paper", judgement) == 1.0
    assert value("f1-weighted", judgement) == 1.0
    assert value("released-code", judgement) == order_scores(3, [1, 2]).tau_norm < 1.0


@pytest.mark.parametrize(
    ("nugget", "is_order"),
    [
        ("Presents the steps in the correct chronological order", True),
        ("LLM response should list: the items in the right sequence", True),
        ("LLM response should mention all topics in chronological order", True),
        ("LLM response should mention: purchase order system", False),
        ("LLM response should mention: order tracking", False),
        ("Sorting essays in chronological order", False),
        ("Sequence diagrams for listed services", False),
        ("LLM response should list: invoices", False),
    ],
)
def test_order_nugget_pattern(nugget, is_order):
    assert is_order_nugget(nugget) is is_order


def test_no_real_event_is_taken_for_an_order_nugget(beam_data):
    """In the conversations at hand every ordering nugget names an event (only 500K-22 of the release has another)."""
    files = sorted(beam_data.glob("*/*/probing_questions/probing_questions.json"))
    found = [
        file.parts[-4:-2]
        for file in files
        for question in json.loads(file.read_text("utf-8"))["event_ordering"]
        for nugget in question["rubric"]
        if is_order_nugget(nugget)
    ]
    assert files and {directory for _, directory in found} <= {"22"}


@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_an_unscored_nugget_makes_the_question_unscored(name):
    score = PROTOCOLS[name].score_question(judged([1.0, None, 1.0]))
    assert score.value is None and score.unscored


@pytest.mark.parametrize("name", list(PROTOCOLS))
@pytest.mark.parametrize("ability", ["abstention", "event_ordering"])
def test_no_answer_is_unscored_with_its_reason(name, ability):
    judgement = Judgement(probe_id="p", conversation_id="100K-1", ability=ability, unscored="the reader timed out")
    score = PROTOCOLS[name].score_question(judgement)
    assert (score.value, score.unscored, score.aborts_conversation) == (None, "the reader timed out", False)


def test_failed_alignment_leaves_protocols_that_need_none():
    judgement = judged([1.0, 0.5], "event_ordering").model_copy(
        update={"unscored": "an event could not be aligned: 429"}
    )
    assert value("nugget-mean", judgement) == 0.75
    assert value("binary", judgement) == 0.0
    for name in ("paper", "f1-weighted", "released-code"):
        assert PROTOCOLS[name].score_question(judgement).unscored == "an event could not be aligned: 429"


@given(st.lists(LEVELS, min_size=1, max_size=9), st.sampled_from(RUBRIC_ABILITIES))
def test_rubric_protocols_are_bounded_and_ordered(scores, ability):
    judgement = judged(scores, ability)
    values = {name: value(name, judgement) for name in PROTOCOLS}
    assert all(0 <= score <= 1 for score in values.values())
    assert values["binary"] <= values["released-code"] <= values["paper"] == values["f1-weighted"]
    assert values["paper"] == math.fsum(scores) / len(scores)


@given(st.lists(LEVELS, min_size=1, max_size=9), st.data())
def test_a_better_nugget_never_lowers_a_score(scores, data):
    better = list(scores)
    place = data.draw(st.integers(0, len(scores) - 1))
    better[place] = data.draw(st.sampled_from([level for level in (0.0, 0.5, 1.0) if level >= scores[place]]))
    for name in PROTOCOLS:
        assert value(name, judged(better)) >= value(name, judged(scores))


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 8), st.lists(st.integers(0, 14), max_size=12, unique=True))
def test_ordering_protocols_are_bounded(n, events):
    judgement = judged([0.5] * n, "event_ordering", matches=[event if event < n else None for event in events])
    for name in ("paper", "f1-weighted"):
        assert 0 <= value(name, judgement) <= 1
    scores = order_scores(n, judgement.alignments[0].matches)
    assert 0 <= scores.f1 <= 1 and 0 <= scores.precision <= 1 and 0 <= scores.recall <= 1


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 8), st.permutations(range(8)))
def test_only_the_right_order_of_all_events_is_perfect(n, order):
    matches = [event for event in order if event < n]
    paper = value("paper", judged([1.0] * n, "event_ordering", matches=matches))
    assert (paper == pytest.approx(1.0)) == (matches == sorted(matches))
