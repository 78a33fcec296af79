"""The detectors of defective questions: each finds its defect and nothing in sound questions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest

from beam_claims.defects import ABOUT, AuditReport, audit_folder
from beamlib.data.errata import Detector, load_errata
from beamlib.errors import UserError
from fixtures_release import WORLDS, questions_of, write_conversation, write_value

QUESTIONS = "probing_questions/probing_questions.json"
FROM_TO = "LLM response should state: from March 4 till March 25"
BY_DESIGN = {"twin_rubric", "shared_reference", "similar_question"}
"""What the invented questions have by the way they are made: the two of an ability share all but their wording."""


def audited(folder: Path, ability: str, changes: dict[str, Any], *, chat: bool = False) -> AuditReport:
    """The report on one conversation whose first question of `ability` is changed."""
    write_conversation(folder / "100K/1")
    if not chat:
        (folder / "100K/1/chat.json").unlink()
    questions = questions_of(WORLDS[0])
    questions[ability][0] |= changes
    write_value(folder / "100K/1" / QUESTIONS, questions)
    return audit_folder(folder)


CASES: list[tuple[str, str, dict[str, Any], str]] = [
    (
        "interval",
        "temporal_reasoning",
        {
            "answer": "It is 3 weeks from March 4 to March 25.",
            "rubric": ["LLM response should state: 17 days", FROM_TO],
        },
        "the rubric says 17 days; March 4, March 25 are 21 days apart",
    ),
    *(
        ("interval", "temporal_reasoning", {"answer": answer, "rubric": ["LLM response should state: the days"]}, what)
        for answer, what in (
            ("46 days, April 20 to July 5", "April 20, July 5 are 76 days apart"),
            ("20 days, February 10, 2023 to March 1, 2023", "are 19 days apart"),
            ("9 days from December 30 to January 3", "are 4 days apart"),
            ("26 weeks from May 10 to November 15", "are 189 days apart"),
        )
    ),
    ("reference_rubric", "temporal_reasoning", {"answer": "20 days"}, "the reference says 20 days, the rubric 21"),
    (
        "reference_rubric",
        "temporal_reasoning",
        {"answer": "21 days, March 4 to March 25", "rubric": ["from March 4 till March 15"]},
        "the rubric names March 15, the reference March 4, March 25",
    ),
    ("reference_rubric", "multi_session_reasoning", {"answer": "80 euros"}, "only the reference 80"),
    (
        "foreign_rubric",
        "preference_following",
        {"rubric": ["LLM response should contain: suggests spreadsheets or Excel"]},
        "rubric item 0 speaks of excel, spreadsheet",
    ),
    (
        "one_source",
        "knowledge_update",
        {"source_chat_ids": {"original_info": [14], "updated_info": [14]}},
        "original_info cites 14; updated_info cites 14",
    ),
    (
        "one_source",
        "contradiction_resolution",
        {"source_chat_ids": {"first_statement": [8], "second_statement": []}},
        "second_statement cites nothing",
    ),
    ("order", "event_ordering", {"source_chat_ids": [8, [0, 2], 14]}, "0 after 8"),
    (
        "only_n_items",
        "event_ordering",
        {"question": "In which order did I bring them up? Mention ONLY and ONLY five items."},
        "asks for 5 items, the rubric has 3",
    ),
]


@pytest.mark.parametrize(("detector", "ability", "changes", "what"), CASES)
def test_a_defect_is_found_without_a_chat(
    detector: str, ability: str, changes: dict[str, Any], what: str, tmp_path: Path
) -> None:
    report = audited(tmp_path, ability, changes)
    assert report.without_chat == ["100K-1"] and not report.errors
    found = [finding for finding in report.findings if finding.detector not in BY_DESIGN]
    assert {finding.detector for finding in found} == {detector}
    assert what in found[0].what
    assert found[0].question_ids[0].startswith("100K-1-q") and found[0].confirmed == ()


@pytest.mark.parametrize(
    ("detector", "ability", "answer", "what"),
    [
        ("figure_not_cited", "knowledge_update", "417 euros", "the cited messages do not have 417"),
        ("date_not_said", "temporal_reasoning", "21 days, until March 26", "no message of the user has March 26"),
    ],
)
def test_a_defect_is_found_in_the_chat(detector: str, ability: str, answer: str, what: str, tmp_path: Path) -> None:
    report = audited(tmp_path, ability, {"answer": answer}, chat=True)
    assert report.without_chat == []
    (found,) = [finding for finding in report.findings if finding.detector == detector]
    assert found.what == what and found.message_ids


@pytest.mark.parametrize(
    "answer",
    [
        "21 days between March 4 and March 25",
        "about 3 weeks, March 4 to March 25",
        "4 days from December 30 to January 3, which is 21 days after all",  # two intervals: which is which?
        "20 to 21 days from March 4 till March 25",
        "21 days, February 23 to March 15",  # in a leap year
        "",  # unchanged, with its chat
    ],
)
def test_what_agrees_is_no_finding(answer: str, tmp_path: Path) -> None:
    changes = {"answer": answer, "rubric": ["LLM response should state: it"]} if answer else {}
    report = audited(tmp_path, "temporal_reasoning", changes, chat=not answer)
    assert {finding.detector for finding in report.findings} <= BY_DESIGN


def test_questions_are_compared_with_each_other(tiny_release: Path) -> None:
    report = audit_folder(tiny_release)
    assert report.conversations == 2 and report.questions == 40
    counts = Counter(finding.detector for finding in report.findings)
    assert counts["twin_rubric"] == 20  # the invented questions of an ability share their rubric
    shared = [set(finding.question_ids) for finding in report.findings if finding.detector == "shared_reference"]
    assert {"100K-1-q00", "100K-1-q01", "100K-2-q00", "100K-2-q01"} in shared  # the abstentions
    questions = questions_of(WORLDS[0])
    questions["information_extraction"][0] |= {"question": "What is my budget now?", "answer": "340 euros"}
    write_value(tiny_release / "100K/1" / QUESTIONS, questions)
    pairs = [
        finding.question_ids
        for finding in audit_folder(tiny_release).findings
        if finding.detector == "similar_question"
    ]
    assert ("100K-1-q06", "100K-1-q11") in pairs  # 340 euros here, 415 there


def test_the_report_goes_on_after_a_broken_conversation(tiny_release: Path) -> None:
    (tiny_release / "100K/1" / QUESTIONS).write_text("[")
    report = audit_folder(tiny_release)
    assert report.conversations == 1 and len(report.errors) == 1 and "100K/1" in report.errors[0]
    text = report.render()
    assert "Errors: 1" in text and all(f"\n{name}: " in text for name in get_args(Detector))
    assert AuditReport.model_validate_json(report.model_dump_json()) == report
    assert set(ABOUT) == set(get_args(Detector)) and all(about.endswith(".") for about in ABOUT.values())
    with pytest.raises(UserError, match="no conversation found"):
        audit_folder(tiny_release / "100K/1/probing_questions")


def test_the_released_questions(shared: Path) -> None:
    report = audit_folder(shared / "data/beam_questions")
    assert (report.conversations, report.questions) == (100, 2000) and not report.errors
    counts = Counter(finding.detector for finding in report.findings)
    assert counts["order"] == 41 and counts["twin_rubric"] == 8
    assert 10 <= counts["interval"] <= 17 and 9 <= counts["reference_rubric"] <= 16 and counts["only_n_items"] == 3
    template = max(report.findings, key=lambda finding: len(finding.question_ids))
    assert template.detector == "shared_reference" and len(template.question_ids) == 18
    confirmed = [finding for finding in report.findings if finding.confirmed]
    assert len(confirmed) >= 40


def test_detectors_of_errata_find_them(shared: Path, beam_data: Path) -> None:
    reports = [audit_folder(shared / "data/beam_questions"), audit_folder(beam_data)]
    found = {(f.detector, name) for report in reports for f in report.findings for name in f.question_ids}
    named = {(name, entry.question_id) for entry in load_errata().entries for name in entry.detectors}
    assert named <= found, sorted(named - found)
