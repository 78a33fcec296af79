"""The readings: well-formed, about the released questions, in words of ours; and what is computed from them."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_field.readings import FINDS, report_readings
from beamlib.data.readings import READINGS_FILE, QuestionReading, assess, load_readings
from beamlib.errors import UserError
from beamlib.files import sha256
from beamlib.scoring.intervals import mean_interval
from fixtures_wording import runs, texts

READINGS = load_readings()


def reading(question: str = "100K-1-q00", reader: str = "A", verdict: str = "right", **fields: Any) -> QuestionReading:
    values = {"question": question, "ability": "event_ordering", "reader": reader, "protocol": "blind"}
    values |= {"selection": "census", "read": "cited;search", "verdict": verdict, "confidence": "2"}
    values |= {"question_sha256": "0" * 64, "kind": "", "messages": "1;2"}
    if verdict != "right":
        values |= {"kind": "count", "reason": "Two more are named."}
    return QuestionReading.model_validate(values | fields)


def test_two_readers_read_every_question_of_100k_and_of_three_chats_of_1m(shared: Path) -> None:
    readers = Counter(own.reader for own in READINGS if own.selection == "census")
    assert readers == {"A": 400, "B": 400, "D": 60, "E": 60}
    assert {own.reader for own in READINGS if own.protocol == "informed"} == {"R"}
    for own in READINGS:
        tier, number, position = re.fullmatch(r"(\w+)-(\d+)-q(\d\d)", own.question).groups()  # type: ignore[union-attr]
        path = shared / "data/beam_questions" / tier / number / "probing_questions/probing_questions.json"
        asked = [(ability, raw) for ability, items in json.loads(path.read_text()).items() for raw in items]
        ability, raw = asked[int(position)]
        assert (own.ability, own.question_sha256) == (ability, sha256(raw["question"])), own.question


def test_no_text_of_the_data_is_repeated(beam_data: Path) -> None:
    ours = {run: own.question for own in READINGS for text in (own.reason, own.corrected) for run in runs(text)}
    for tier in {own.question.partition("-")[0] for own in READINGS}:
        for path in beam_data.glob(f"{tier}/*/**/*.json"):
            said = texts(json.loads(path.read_text(encoding="utf-8")))
            shown = [(ours[run], " ".join(run)) for text in said for run in runs(text) if run in ours]
            assert not shown, f"{path}: repeated by the readings: {shown}"


def test_messages_of_the_readings_are_there(beam_data: Path) -> None:
    from beamlib.data.loading import load
    from beamlib.data.sources import find_conversations

    for source in find_conversations(beam_data):
        own = [one for one in READINGS if one.question.rpartition("-")[0] == source.id]
        loaded = load(source) if own else None
        for one in own if loaded else ():
            missing = loaded.gold[one.question].evidence_missing
            assert all(number < len(loaded.conversation.messages) or number in missing for number in one.messages), one


@pytest.mark.parametrize(
    ("verdicts", "threshold"),
    [
        ("right right", None),
        ("citation citation citation", None),
        ("doubtful right", None),
        ("doubtful doubtful", "strict"),
        ("count right", "strict"),
        ("count doubtful", "strict"),
        ("count later", "beyond doubt"),
        ("count right later", "beyond doubt"),
        ("several several", "strict"),
        ("several several right", "strict"),
        ("several order", "strict"),
        ("several several several", "beyond doubt"),
        ("several order order", "beyond doubt"),
    ],
)
def test_thresholds(verdicts: str, threshold: str | None) -> None:
    own = []
    for reader, word in zip("ABC", verdicts.split(), strict=False):
        if word in ("right", "doubtful", "citation"):
            own.append(reading(reader=reader, verdict=word, **({"kind": word} if word == "citation" else {})))
        else:
            own.append(reading(reader=reader, verdict="spoiled", kind=word))
    assert [found.threshold for found in assess(own)] == [threshold]


def test_shares_are_of_questions_that_were_drawn() -> None:
    spoilt = [("100K-1-q00", "spoiled"), ("100K-1-q01", "right"), ("100K-2-q00", "right"), ("100K-2-q01", "right")]
    own = [reading(question, reader, verdict) for question, verdict in spoilt for reader in "AB"]
    own += [reading("100K-3-q00", reader, "spoiled", selection="detector") for reader in "AB"]
    own += [reading("100K-2-q00", "C", "spoiled", selection="disagreement")]
    report = report_readings(own)
    share = next(one for one in report.shares if (one.ability, one.threshold) == ("all", "beyond doubt"))
    assert (share.spoiled, share.questions, share.conversations, share.share) == (1, 4, 2, 0.25)
    assert (share.low, share.high) == pytest.approx(tuple(mean_interval(np.array([0.5, 0.0]))))
    assert [one.spoiled for one in report.shares if one.threshold == "strict"] == [2, 2]  # all, and the one ability
    assert report.kinds["count"] == {"beyond doubt": 2, "strict": 1}  # kinds are of everything that was read
    assert [(one.readers, one.kappa) for one in report.agreement] == [(("A", "B"), 1.0)] * len(FINDS)
    assert "| A and B | spoiled | 4 | 100.0% | 1.000 |" in report.render()


def test_one_conversation_has_no_interval_and_equal_verdicts_no_kappa() -> None:
    report = report_readings([reading(reader=reader) for reader in "AB"])
    assert {(one.low, one.high) for one in report.shares} == {(None, None)}
    assert {one.kappa for one in report.agreement} == {None}


def test_what_is_published() -> None:
    report = report_readings(READINGS)
    agreement = {(*one.readers, one.finding): (one.questions, round(one.kappa or 0, 3)) for one in report.agreement}
    assert agreement == {
        ("A", "B", "spoiled"): (400, 0.937),
        ("A", "B", "spoiled, not several"): (400, 0.918),
        ("A", "B", "spoiled or doubtful"): (400, 0.903),
        ("D", "E", "spoiled"): (60, 0.879),
        ("D", "E", "spoiled, not several"): (60, 0.848),
        ("D", "E", "spoiled or doubtful"): (60, 0.93),
    }
    for threshold in ("beyond doubt", "strict"):
        for tier, questions in (("100K", 400), ("1M", 60)):
            own = [one for one in report.shares if (one.threshold, one.tier) == (threshold, tier)]
            assert own[0].questions == questions and own[0].spoiled == sum(one.spoiled for one in own[1:])


def test_kappa_by_hand() -> None:
    """Of ten, both find two, A one more and B three more: they agree on .6, by chance .3 x .5 + .7 x .5 = .5."""
    both, first, second, none = ("spoiled", "spoiled"), ("spoiled", "right"), ("right", "spoiled"), ("right", "right")
    verdicts = [both] * 2 + [first] + [second] * 3 + [none] * 4
    own = [
        reading(f"100K-1-q{number:02d}", reader, verdict)
        for number, pair in enumerate(verdicts)
        for reader, verdict in zip("AB", pair, strict=True)
    ]
    found = next(one for one in report_readings(own).agreement if one.finding == "spoiled")
    assert (found.agree, found.kappa) == pytest.approx((0.6, 0.2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"verdict": "wrong"}, r"readings\.csv:2: verdict: "),
        ({"confidence": "4"}, r":2: confidence: "),
        ({"messages": "1;x"}, r":2: messages\.1: "),
        ({"read": ""}, r":2: read: "),
        ({"verdict": "spoiled", "kind": "", "reason": ""}, "needs a kind and a reason"),
        ({"verdict": "right", "kind": "count", "reason": "So it is."}, "leave them empty"),
        ({"verdict": "spoiled", "kind": "citation", "reason": "So it is."}, "go together"),
    ],
)
def test_a_malformed_line_is_one_sentence(changes: dict[str, str], message: str, tmp_path: Path) -> None:
    with READINGS_FILE.open(encoding="utf-8") as file:
        row = next(csv.DictReader(file))
    path = tmp_path / "readings.csv"
    for rows in ([row | changes], [row, row]):
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(row))
            writer.writeheader()
            writer.writerows(rows)
        with pytest.raises(UserError, match=message if len(rows) == 1 else ":3: reader A has a verdict on"):
            load_readings(path)
        load_readings.cache_clear()
