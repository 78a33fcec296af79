"""Planted defects: what is planted is wrong, what is not stays as it was, and readers are scored by the key."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest

from beam_claims import planting
from beam_claims.planting import ANSWERS, PLANTERS, SHEET, Chat, KeyEntry, read_answers
from beam_claims.sheets import SheetQuestion, load_chat
from beam_field.readings import corrected_share, measure_readers, render_scores, report_readings
from beamlib.data.conversations import Message
from beamlib.data.errata import load_errata
from beamlib.data.readings import PlantedReading, QuestionReading, load_planted, load_readings
from beamlib.errors import UserError

RNG = random.Random(3)


def question(ability: str, rubric: list[str], evidence: list[int], **fields: str) -> SheetQuestion:
    values = {
        "item": "100K-1-q10",
        "conversation": "100K-1",
        "ability": ability,
        "question": "How many cards do I have?",
    }
    values |= {"reference": " and ".join(rubric), **fields}
    return SheetQuestion.model_validate(values | {"rubric": rubric, "evidence": evidence})


def chat(*texts: str, questions: tuple[SheetQuestion, ...] = (), elsewhere: tuple[SheetQuestion, ...] = ()) -> Chat:
    messages = [Message(2 * place, "user", text) for place, text in enumerate(texts)]
    return Chat(messages=messages, questions=list(questions), elsewhere=list(elsewhere))


def test_a_stale_value_is_that_of_the_earlier_message() -> None:
    item = question("knowledge_update", ["LLM response should state: 1,200 calls per day"], [0, 2])
    talk = chat("I have 1,000 calls a day and 3 keys.", "It is 1,200 calls now.")
    planted = planting.stale_value(item, talk, RNG)
    assert (
        planted
        and planted.rubric == ("LLM response should state: 1,000 calls per day",)
        and planted.question == item.question
    )
    assert planting.stale_value(item, chat("I have 1,200 calls."), RNG) is None  # there is no earlier value
    assert planting.stale_value(item.model_copy(update={"ability": "summarization"}), talk, RNG) is None


def test_dates_and_sums_change_in_rubric_and_reference_alike() -> None:
    item = question("temporal_reasoning", ["LLM response should state: twenty days"], [0])
    planted = planting.wrong_interval(item, chat("March 3"), RNG)
    assert planted and planted.rubric != item.rubric and planted.reference == planted.rubric[0]
    item = question("information_extraction", ["LLM response should state: May 5, 2024"], [0])
    talk = chat("It is on May 5, 2024.", *(f"May {day}" for day in range(2, 28) if day != 17))
    invented = planting.invented_date(item, talk, RNG)
    assert invented and invented.rubric == ("LLM response should state: May 17, 2024",)  # the only day that nobody says


def test_a_false_premise_is_not_in_the_chat() -> None:
    item = question("information_extraction", ["LLM response should state: 12 miles"], [0])
    other = question("information_extraction", ["79 years"], [4], question="How old is my mentor?")
    planted = planting.false_premise(item, chat("It is 12 miles.", elsewhere=(other,)), RNG)
    assert planted and (planted.question, planted.rubric) == (other.question, other.rubric)
    assert planted.evidence == item.evidence
    assert planting.false_premise(item, chat("She is 79 years old.", elsewhere=(other,)), RNG) is None


def test_another_rubric_order_and_citation() -> None:
    item = question("multi_session_reasoning", ["LLM response should state: ten cards"], [0])
    other = question("multi_session_reasoning", ["LLM response should state: four grants"], [2]).model_copy(
        update={"item": "x"}
    )
    planted = planting.another_rubric(item, chat("Ten cards.", "Four grants.", questions=(item, other)), RNG)
    assert planted and planted.rubric == other.rubric and planted.question == item.question
    events = question("event_ordering", ["cards", "grants", "keys"], [0, 2, 4])
    exchanged = planting.exchanged_order(events, chat("cards"), RNG)
    assert exchanged and sorted(exchanged.rubric) == sorted(events.rubric) and exchanged.rubric != events.rubric
    numbered = question("event_ordering", ["1) cards", "2) grants", "3) keys"], [0, 2, 4])
    assert planting.exchanged_order(numbered, chat("cards"), RNG) is None
    cited = planting.wrong_citation(item, chat("Ten cards.", "Something else.", "The cards are ten."), RNG)
    assert cited and cited.evidence == (2,) and cited.rubric == item.rubric


def test_an_abstention_is_expected_of_what_the_chat_answers() -> None:
    item = question("knowledge_update", ["LLM response should state: 5"], [0], question="What is my budget?")
    planted = planting.false_abstention(item, chat("My budget is 5."), RNG)
    assert planted and planted.ability == "abstention" and "your budget" in planted.rubric[0] and not planted.evidence


@pytest.fixture(scope="module")
def drawn(shared: Path) -> tuple[list[Path], list[SheetQuestion], list[KeyEntry]]:
    folders = [shared / "data/beam", shared / "data/beam_500k"]
    return folders, *planting.plant(folders, 40, 11)


def test_the_sheet_mixes_and_the_key_knows(
    drawn: tuple[list[Path], list[SheetQuestion], list[KeyEntry]], tmp_path: Path
) -> None:
    folders, items, entries = drawn
    assert [item.item for item in items] == [entry.item for entry in entries] and len(items) == 40
    assert len({entry.question for entry in entries}) == 40  # none twice
    assert {entry.plant for entry in entries if entry.role == "planted"} == set(PLANTERS)
    right = {own.question for own in load_readings()} - {
        own.question for own in load_readings() if own.verdict != "right"
    }
    listed = {entry.question_id for entry in load_errata().entries}
    for item, entry in zip(items, entries, strict=True):
        folder = next(f for f in folders if (f / entry.question.split("-")[0] / entry.question.split("-")[1]).is_dir())
        source = next(q for q in load_chat(folder, item.conversation)[1] if q.item == entry.question)
        assert (source.model_copy(update={"item": item.item}) == item) == (entry.role != "planted"), entry
        assert entry.question not in listed
        assert entry.role == "unread" or entry.plant == "exchanged order" or entry.question in right
    with pytest.raises(UserError, match="in the sheet's folder"):
        planting.write_sheet(folders, tmp_path / "sheet", tmp_path / "sheet/key.json", items, entries)
    planting.write_sheet(folders, tmp_path / "sheet", tmp_path / "key.json", items[:2], entries[:2])
    shown = "".join(path.read_text() for path in (tmp_path / "sheet").iterdir())
    assert "planted" not in shown and entries[0].question not in (tmp_path / "sheet" / SHEET).read_text()
    with pytest.raises(UserError, match="is there already"):
        planting.write_sheet(folders, tmp_path / "sheet", tmp_path / "key.json", items, entries)


def sheet(path: Path, verdicts: dict[str, tuple[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, planting.ANSWER_COLUMNS)
        writer.writeheader()
        writer.writerows({"item": item, "verdict": verdict, "kind": kind} for item, (verdict, kind) in verdicts.items())
    return path


def test_sensitivity_and_specificity_by_hand(tmp_path: Path) -> None:
    """Of three planted two are seen, one of them by another kind; of four controls one is called spoiled."""
    roles = [("P1", "planted", "count"), ("P2", "planted", "citation"), ("P3", "planted", "count")]
    roles += [(f"P{n}", "control", None) for n in (4, 5, 6, 7)] + [("P8", "unread", None)]  # type: ignore[list-item]
    key = tmp_path / "key.json"
    key.write_text(json.dumps([{"item": i, "question": "100K-1-q00", "role": r, "kind": k} for i, r, k in roles]))
    verdicts = {"P1": ("spoiled", "later"), "P2": ("citation", "citation"), "P3": ("doubtful", "count")}
    verdicts |= {
        "P4": ("right", ""),
        "P5": ("doubtful", "count"),
        "P6": ("spoiled", "count"),
        "P7": ("citation", "citation"),
    }
    path = sheet(tmp_path / "reader.csv", verdicts | {"P8": ("spoiled", "count")})
    scores = {own.kind: own for own in measure_readers(read_answers([path], key))}
    assert [(k, s.seen, s.planted, s.named, s.cleared, s.controls) for k, s in scores.items()] == [
        ("all", 2, 3, 1, 3, 4),
        ("citation", 1, 1, 1, 3, 4),
        ("count", 1, 2, 0, 3, 4),
    ]
    assert scores["all"].sensitivity and scores["all"].sensitivity[0] == pytest.approx(2 / 3)
    assert "| reader | all | 2 of 3 |" in render_scores(list(scores.values()))
    sheet(path, verdicts | {"P8": ("", "")})
    with pytest.raises(UserError, match="P8 has no verdict"):
        read_answers([path], key)
    with pytest.raises(UserError, match="name the key"):
        read_answers([path], path)


def test_a_corrected_share() -> None:
    """Of 100 with 20 spoiled, readers of .8 and .9 call 16 + 8 spoiled."""
    assert corrected_share(0.24, 0.8, 0.9) == pytest.approx(0.2)
    assert corrected_share(0.05, 0.8, 0.9) == 0 and corrected_share(0.5, 0.5, 0.5) is None


def test_shares_are_corrected_by_what_the_readers_missed() -> None:
    """Two of ten are called spoiled by readers of .5 and 1: four are. The intervals allow for less and for more."""
    own = [
        QuestionReading.model_validate(
            {
                **{"question": f"100K-1-q{number:02d}", "ability": "abstention", "reader": reader, "protocol": "blind"},
                **{"selection": "census", "read": "cited", "confidence": 2, "question_sha256": "0" * 64},
                **({"verdict": "right"} if number > 1 else {"verdict": "spoiled", "kind": "count", "reason": "Two."}),
            }
        )
        for number in range(10)
        for reader in "AB"
    ]
    planted = [
        PlantedReading(reader=reader, question="q", role=role, kind=kind, verdict=verdict)
        for reader in "GH"
        for role, kind, verdict in (
            ("planted", "count", "spoiled"),
            ("planted", "count", "right"),
            *[("control", None, "right")] * 200,
        )
    ]  # type: ignore[arg-type]
    share = report_readings(own, planted).shares[0]
    assert share.corrected and share.corrected[0] == pytest.approx(0.4)
    assert share.corrected[1] < 0.4 < share.corrected[2]
    assert report_readings(own).shares[0].corrected is None


def test_the_shipped_sheets_have_two_readers_of_the_same_items() -> None:
    readings = load_planted()
    items = {name: {own.question for own in readings if own.reader == name} for name in ("G", "H")}
    assert items["G"] == items["H"] and len(readings) == 120
    assert {own.plant for own in readings if own.role == "planted"} == set(PLANTERS)
    assert {own.kind for own in readings if own.role != "planted"} == {None}


def test_the_answers_file_names_what_is_filled_in(tmp_path: Path) -> None:
    assert ANSWERS == "readings.csv" and planting.ANSWER_COLUMNS[:3] == ("item", "verdict", "kind")


def test_other_data_under_the_ids_of_the_released_is_not_drawn(shared: Path, tmp_path: Path) -> None:
    """The readings speak of released questions, so made-up ones under their ids can't be drawn."""
    example = Path(planting.__file__).parents[2] / "beamlib/data/example"
    with pytest.raises(UserError, match="only 0 of 20 questions"):
        planting.plant([example], 20, 1)
    with pytest.raises(UserError, match="folder of data"):
        planting.write_sheet([], shared / "data/beam/sheet", tmp_path / "key.json", [], [])
