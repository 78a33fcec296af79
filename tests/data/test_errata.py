"""The errata list: well-formed, and each defect that a machine can see is there in the data."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from beam_field.readings import report_readings
from beamlib.data.conversations import Treatment
from beamlib.data.errata import Erratum, load_errata
from beamlib.data.loading import Loaded, load
from beamlib.data.readings import assess, load_readings
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError
from beamlib.files import sha256
from fixtures_release import WORLDS, questions_of
from fixtures_wording import runs, texts

ENTRIES = load_errata().entries

# What the entries say of single messages: (question, message or None for the whole chat, pattern, is it there?)
SAID = [
    ("100K-1-q03", 66, "Flask-Login", True),
    ("100K-1-q03", 66, r"never actually integrated", False),
    ("100K-1-q03", 108, r"Flask-Login, which I've never", True),
    ("100K-1-q03", 114, r"Flask-Login, which I've never", True),
    ("100K-1-q10", 86, r"\d ?ms\b", False),
    ("100K-1-q10", 104, r"\b800 ?ms.*\b300 ?ms", True),
    ("100K-1-q18", 2, r"Jan 15, 2024", True),
    ("100K-3-q03", 72, "API", False),
    ("100K-3-q03", 120, "never tested", True),
    ("100K-3-q12", 16, "card", False),
    ("100K-3-q12", 60, "8 cards", True),
    ("100K-4-q12", 30, r"\b10 classification", True),
    ("100K-4-q12", 58, r"\b15 classification", True),
    ("100K-4-q13", 82, "70% to 90%", True),
    ("100K-4-q13", 110, "78% to 88%", True),
    ("100K-4-q19", 82, "12 problems", True),
    ("100K-5-q19", 186, "April", False),
    ("100K-5-q19", None, "April 15", False),
    ("100K-7-q13", 154, "1-hour", True),
    ("100K-7-q13", 252, "two full days", True),
    ("100K-8-q11", 208, "2 remote", True),
    ("100K-8-q11", 214, "three days a week", True),
    ("100K-8-q18", 92, "April 21", True),
    ("100K-8-q18", 94, "April 22", True),
    ("500K-2-q03", 200, "keyword", False),
    ("500K-2-q03", 202, "keyword", False),
    ("500K-2-q03", 268, "keyword", False),
    ("500K-2-q03", 196, "keyword", True),
    ("500K-2-q03", 274, "never.*keyword", True),
    ("500K-2-q18", None, r"\bhotel\b", False),
    ("1M-3-q11", 324, "epoch|loss", False),
    ("1M-3-q11", 474, "60 epochs", True),
    ("1M-3-q12", 168, "GOOG", False),
    ("10M-4-q12", 100, r"\b10 problems", True),
    ("10M-4-q12", 442, r"\b15 problems", True),
    ("10M-4-q12", 734, r"\b20 exercises", True),
]

# What the entries say of reference and rubric: (question, pattern in the reference, pattern in some rubric item)
CLAIMED = [
    ("100K-1-q18", r"\b4 weeks", r"\b8 weeks"),
    ("100K-3-q18", r"April 1\b.*April 5\b", r"April 5\b.*April 1\b"),
    ("100K-4-q12", r"\b25 ", r"\b25 "),
    ("100K-4-q13", r"\b20 percentage", r"\b20 percentage"),
    ("100K-5-q19", r"\b10 days", r"\b10 days"),
    ("100K-7-q13", "Three days", "Three days"),
    ("100K-8-q18", r"\b16 days", r"April 21"),
    ("1M-3-q12", "Five", "Three"),
    ("10M-4-q02", "target is to", "completed 5"),
    ("10M-4-q12", r"\b85 ", r"\b85 "),
]


@cache
def real(folder: Path, conversation_id: str) -> Loaded:
    source = next((s for s in find_conversations(folder) if s.id == conversation_id), None)
    if source is None:
        pytest.skip(f"conversation {conversation_id} is not there")
    return load(source)


def conversation_of(question_id: str) -> str:
    return question_id.rpartition("-q")[0]


def test_the_list_is_sorted_unique_and_versioned() -> None:
    assert re.fullmatch(r"20\d\d\.\d+", load_errata().version)
    ids = [entry.question_id for entry in ENTRIES]
    assert len(set(ids)) == len(ids) >= 10


def test_each_entry_names_a_released_question(shared: Path) -> None:
    for entry in ENTRIES:
        tier, number, position = re.fullmatch(r"(\w+)-(\d+)-q(\d\d)", entry.question_id).groups()  # type: ignore[union-attr]
        path = shared / "data/beam_questions" / tier / number / "probing_questions/probing_questions.json"
        asked = [(ability, raw) for ability, items in json.loads(path.read_text()).items() for raw in items]
        ability, raw = asked[int(position)]
        assert (entry.ability, entry.question_sha256) == (ability, sha256(raw["question"])), entry.question_id


def test_each_entry_names_real_messages(beam_data: Path) -> None:
    for source in find_conversations(beam_data):
        own = [entry for entry in ENTRIES if conversation_of(entry.question_id) == source.id]
        loaded = real(beam_data, source.id) if own else None
        for entry in own if loaded else ():
            assert entry.question_id in loaded.flagged
            missing = loaded.gold[entry.question_id].evidence_missing
            assert all(i < len(loaded.conversation.messages) or i in missing for i in entry.message_ids), entry


def test_wrong_citations_spoil_no_score() -> None:
    entry = next(entry for entry in ENTRIES if entry.part == "evidence").model_dump()
    with pytest.raises(ValueError, match="wrong citations alone"):
        Erratum.model_validate({**entry, "threshold": "strict"})
    with pytest.raises(ValueError, match="go together"):
        Erratum.model_validate({**entry, "kind": "count"})
    with pytest.raises(ValueError, match="only a rubric that is wrong beyond doubt"):
        Erratum.model_validate({**entry, "corrected": ("The answer states: 5",)})


def test_the_readings_set_the_thresholds_of_100k() -> None:
    """What is spoiled beyond doubt is listed with a reason; what is listed reaches the threshold of its readings."""
    read = {found.question: found.threshold for found in assess(load_readings())}
    listed = {entry.question_id: entry for entry in ENTRIES if entry.question_id in read}
    assert {name for name, threshold in read.items() if threshold == "beyond doubt"} <= listed.keys()
    for name, entry in listed.items():
        assert entry.threshold == (None if entry.part == "evidence" else read[name]), name


def test_how_much_was_read_is_what_the_readings_say() -> None:
    shares = [share for share in report_readings(load_readings()).shares if share.ability == "all"]
    for reading in load_errata().readings:
        own = {share.threshold: share for share in shares if share.tier == reading.tier}
        for threshold, values in reading.spoiling.items() if own else ():
            share = own[threshold]
            expected = (share.spoiled, share.share, share.low, share.high)
            assert values == pytest.approx(expected, abs=5.1e-4) and reading.chats == share.conversations


@pytest.mark.parametrize(("question", "message", "pattern", "there"), SAID)
def test_what_messages_say(question: str, message: int | None, pattern: str, there: bool, beam_data: Path) -> None:
    assert question in {entry.question_id for entry in ENTRIES}
    messages = real(beam_data, conversation_of(question)).conversation.messages
    texts = [m.content for m in messages] if message is None else [messages[message].content]
    assert any(re.search(pattern, text, re.DOTALL) for text in texts) is there


@pytest.mark.parametrize(("question", "reference", "item"), CLAIMED)
def test_what_reference_and_rubric_claim(question: str, reference: str, item: str, beam_data: Path) -> None:
    gold = real(beam_data, conversation_of(question)).gold[question]
    assert re.search(reference, gold.reference)
    assert any(re.search(item, nugget) for nugget in gold.rubric)


def test_what_evidence_shows(beam_data: Path) -> None:
    parts = real(beam_data, "100K-1").gold["100K-1-q03"].extras["source_chat_ids"]
    assert parts["first_statement"] == parts["second_statement"] == [66]
    parts = real(beam_data, "100K-8").gold["100K-8-q11"].extras["source_chat_ids"]
    assert parts["original_info"] == parts["updated_info"] == [214]
    assert "April 22" in real(beam_data, "100K-8").gold["100K-8-q10"].reference
    assert real(beam_data, "100K-6").gold["100K-6-q04"].evidence == (4, 60, 110, 156, 206, 6)
    assert real(beam_data, "500K-1").gold["500K-1-q10"].evidence == ()
    order = real(beam_data, "1M-3").gold["1M-3-q04"].evidence
    assert order.index(340) > order.index(504)


def test_flag_lists_and_drop_removes(beam_data: Path) -> None:
    real(beam_data, "100K-1")  # skips where it is missing
    source = next(s for s in find_conversations(beam_data) if s.id == "100K-1")
    flagged, dropped, ignored = (load(source, Treatment(errata=mode)) for mode in ("flag", "drop", "none"))
    own = [entry for entry in ENTRIES if conversation_of(entry.question_id) == "100K-1"]
    spoilt = {entry.question_id for entry in own if entry.spoils_score}
    assert flagged.flagged == dropped.flagged == tuple(entry.question_id for entry in own)
    assert ignored.flagged == () and 0 < len(spoilt) < len(own)
    assert len(flagged.probes) == len(ignored.probes) == 20
    # Those that only cite the wrong messages stay: what they ask and expect still counts.
    assert [p.id for p in dropped.probes] == [p.id for p in flagged.probes if p.id not in spoilt]
    assert set(dropped.gold) == {p.id for p in dropped.probes}


def test_strict_leaves_out_what_the_readings_doubt_too(beam_data: Path) -> None:
    real(beam_data, "100K-1")
    source = next(s for s in find_conversations(beam_data) if s.id == "100K-1")
    doubted = {found.question for found in assess(load_readings()) if found.threshold}
    every, dropped, strict = (load(source, Treatment(errata=mode)) for mode in ("none", "drop", "strict"))
    assert [p.id for p in strict.probes] == [p.id for p in every.probes if p.id not in doubted]
    assert set(strict.gold) < set(dropped.gold) < set(every.gold)


@pytest.mark.parametrize("conversation", ["100K-10", "100K-18", "500K-1"])
def test_correct_judges_by_the_rubric_that_the_chat_determines(conversation: str, beam_data: Path) -> None:
    published = real(beam_data, conversation)
    source = next(s for s in find_conversations(beam_data) if s.id == conversation)
    corrected = load(source, Treatment(errata="correct"))
    own = {e.question_id: e for e in ENTRIES if conversation_of(e.question_id) == conversation and e.spoils_score}
    assert {p.id for p in corrected.probes} == {
        p.id for p in published.probes if p.id not in own or own[p.id].corrected
    }
    changed = {name for name in corrected.gold if corrected.gold[name] != published.gold[name]}
    assert changed == {name for name, entry in own.items() if entry.corrected} != set()
    for name in changed:
        assert corrected.gold[name].rubric == own[name].corrected
        assert corrected.gold[name].reference == published.gold[name].reference


def test_corrected_rubrics_are_in_words_of_ours(beam_data: Path) -> None:
    ours = {run: e.question_id for e in ENTRIES for text in (e.defect, *e.corrected) for run in runs(text)}
    for path in beam_data.glob("*/*/**/*.json"):
        said = texts(json.loads(path.read_text(encoding="utf-8")))
        shown = [(ours[run], " ".join(run)) for text in said for run in runs(text) if run in ours]
        assert not shown, f"{path}: repeated by the errata: {shown[:3]}"


def test_an_erratum_speaks_of_its_own_question_only(tiny_release: Path) -> None:
    assert len(questions_of(WORLDS[0])) == 10
    for source in find_conversations(tiny_release):
        assert load(source).flagged == ()


def test_a_malformed_list_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "errata.json"
    path.write_text(json.dumps({"version": "1", "entries": [{"question_id": "100K-1"}]}))
    with pytest.raises(UserError, match=r"entries\.0\.question_id"):
        load_errata(path)
