"""The released files: every question is read, a changed file is told from a released one, advice fits what is wrong."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from beam_claims.data_check import check_folder
from beamlib.data import parquet
from beamlib.data.checked_json import DataFile, Unreadable, released_hashes
from beamlib.data.conversations import Treatment
from beamlib.data.gold import ABILITIES
from beamlib.data.loading import load, load_questions
from beamlib.data.released_layout import data_file
from beamlib.data.sources import find_conversations
from beamlib.files import sha256, sha256_of_file
from fixtures_release import write_conversation

QUESTIONS = "probing_questions/probing_questions.json"


def test_all_2000_released_questions_are_read(shared: Path) -> None:
    folder = shared / "data" / "beam_questions"
    if not folder.is_dir():
        pytest.skip(f"no questions at {folder}")
    sources = find_conversations(folder)
    assert len(sources) == 100
    items = asked = 0
    kinds: set[str] = set()
    for source in sources:
        probes, gold, anomalies = load_questions(source)
        asked += len(probes)
        items += sum(len(entry.rubric) for entry in gold.values())
        kinds |= {anomaly.kind for anomaly in anomalies}
        assert [gold[probe.id].ability for probe in probes] == [ability for ability in ABILITIES for _ in range(2)]
        assert all(entry.reference for entry in gold.values())
    assert (asked, items) == (2000, 6046)  # section 1.5 of the format's description
    assert kinds == {
        "evidence_absent", "evidence_empty", "evidence_unreadable", "field_empty", "field_missing", "field_type"
    }  # fmt: skip


def test_a_folder_of_questions_alone_is_checked_and_says_so(shared: Path) -> None:
    folder = shared / "data" / "beam_questions"
    if not folder.is_dir():
        pytest.skip(f"no questions at {folder}")
    report = check_folder(folder)
    assert report.errors == []
    assert [(tier.probes, len(tier.questions_only), tier.files) for tier in report.tiers] == [
        (400, 20, {"released": 20}),
        (700, 35, {"released": 35}),
        (700, 35, {"released": 35}),
        (200, 10, {"released": 10}),
    ]
    assert "100K: questions only, of 20 conversations; no chat is there" in report.render()


def test_a_chat_missing_beside_others_is_an_error(tiny_release: Path) -> None:
    (tiny_release / "100K/1/chat.json").unlink()
    report = check_folder(tiny_release)
    assert [tier.questions_only for tier in report.tiers] == [[]]
    assert len(report.errors) == 1
    assert "neither chat.json nor chat_trunecated.json is there" in report.errors[0]


def test_the_list_names_all_questions_and_whole_hashes() -> None:
    hashes = released_hashes()
    assert sum(name.endswith(QUESTIONS) for name in hashes) == 100
    assert sum(name.startswith("100K/") and name.endswith("/chat.json") for name in hashes) == 20
    assert all(len(value) == 64 and int(value, 16) >= 0 for value in hashes.values())


def test_the_released_files_are_as_listed(beam_data: Path) -> None:
    report = check_folder(beam_data)
    assert report.errors == []
    counts = {state: sum(tier.files.get(state, 0) for tier in report.tiers) for state in ("changed", "missing")}
    assert counts == {"changed": 0, "missing": 0}
    assert sum(tier.files["released"] for tier in report.tiers) > 100


def test_every_file_with_one_changed_character_is_told(beam_data: Path, tmp_path: Path) -> None:
    source = next((one for one in find_conversations(beam_data) if one.id == "100K-5"), None)
    if source is None:
        pytest.skip("conversation 100K-5 is not there")
    copy = tmp_path / "100K" / "5"
    shutil.copytree(source.path, copy)
    shutil.copytree(beam_data / "100K" / "6", tmp_path / "100K" / "6")
    changed = []
    for path in sorted(one for one in copy.rglob("*") if one.is_file()):
        content = bytearray(path.read_bytes())
        place = next(at for at in range(len(content) // 2, len(content)) if chr(content[at]) in "aeiou")
        content[place] ^= ord("a") ^ ord("u") if content[place] == ord("a") else content[place] ^ ord("a")
        path.write_bytes(bytes(content))  # one letter of a text, so that everything still reads
        changed.append(f"100K/5/{path.relative_to(copy).as_posix()}")
    report = check_folder(tmp_path)
    assert len(changed) >= 10
    assert sorted(f.file for f in report.anomalies if f.kind == "file_changed") == changed
    assert report.tiers[0].files["changed"] == len(changed)
    assert f"as released (SHA-256), {len(changed)} changed, 0 without" in report.render()
    (copy / "chat_trunecated.json").unlink()  # without it another chat is read, so that is told too
    (missing,) = [f for f in check_folder(tmp_path).anomalies if f.kind == "file_missing"]
    assert missing.file == "100K/5/chat_trunecated.json"


def test_a_released_cut_chat_that_is_missing_is_among_the_files_of_a_run(beam_data: Path, tmp_path: Path) -> None:
    """The uncut chat is read in its place: a footer must not say that all files are the released ones."""
    if not (beam_data / "100K" / "5").is_dir():
        pytest.skip("conversation 100K-5 is not there")
    shutil.copytree(beam_data / "100K" / "5", tmp_path / "100K" / "5")
    before = load(find_conversations(tmp_path)[0])
    assert {file.state for file in before.files} == {"released"}
    (tmp_path / "100K" / "5" / "chat_trunecated.json").unlink()
    after = load(find_conversations(tmp_path)[0])
    assert (before.conversation.variant, after.conversation.variant) == ("truncated", "full")
    assert {file.name: file.state for file in after.files}["chat_trunecated.json"] == "missing"


def test_fetching_again_is_advised_only_where_the_checksum_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_conversation(tmp_path / "100K/901")
    path = folder / "chat.json"
    path.write_text(path.read_text()[:-40])
    (source,) = find_conversations(tmp_path)

    def sentence() -> str:
        with pytest.raises(Unreadable) as raised:
            load(source)
        assert raised.value.reason.startswith("chat.json: line ")
        assert str(tmp_path) not in raised.value.reason
        return str(raised.value)

    assert sentence().endswith("; correct or restore it, or leave the conversation out with --skip-broken.")
    monkeypatch.setitem(released_hashes(), "100K/901/chat.json", sha256_of_file(path))
    assert sentence().endswith(
        "; the released file itself is like this: report it, or leave the conversation out with --skip-broken."
    )
    monkeypatch.setitem(released_hashes(), "100K/901/chat.json", "0" * 64)
    assert "; it is not the released file (the SHA-256 differs): fetch the data again, or leave" in sentence()
    (folder / "generation.json").write_text("{}")  # what was generated is no released file, whatever its number
    assert "fetch the data" not in sentence()
    assert data_file(source, "chat.json").state == "unknown"


def test_a_parquet_file_is_compared_with_what_its_name_is_pinned_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "100K-00000-of-00001.parquet"
    path.write_bytes(b"PAR1")
    assert parquet.parquet_file(path).state == "changed"
    monkeypatch.setattr(parquet, "PINNED", (replace(parquet.PINNED[0], sha256=sha256(b"PAR1")),))
    assert parquet.parquet_file(path).state == "released"
    assert parquet.parquet_file(tmp_path / "100K-00001-of-00002.parquet").state == "unknown"


def test_a_state_is_of_the_bytes_as_they_are_now(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    file = DataFile(path, "chat.json", sha256(b"good"))
    assert file.state == "missing"
    for content, state in ((b"good", "released"), (b"evil", "changed"), (b"good", "released")):
        path.write_bytes(content)
        later = path.stat().st_mtime_ns + 1_000_000
        os.utime(path, ns=(later, later))
        assert file.state == state
    assert DataFile(path).state == "unknown"


def test_extra_fields_files_and_orders_refuse_nothing(tiny_release: Path) -> None:
    folder = tiny_release / "100K/1"
    questions = json.loads((folder / QUESTIONS).read_text())
    third = dict(questions["abstention"][0]) | {"question": "And a third one?", "colour": "blue"}
    questions["abstention"].append(third)
    shuffled = {key: [dict(reversed(one.items())) for one in value] for key, value in reversed(questions.items())}
    del shuffled["event_ordering"]
    (folder / QUESTIONS).write_text(json.dumps({"version": 2, **shuffled}))
    (folder / "notes.md").write_text("mine")
    (folder / "topic.json").write_text(json.dumps({"title": "T", "authors": ["me"]}))
    for variant in ("full", "truncated"):
        loaded = load(find_conversations(tiny_release)[0], Treatment(variant))
        assert len(loaded.probes) == 19
        assert sum(entry.ability == "abstention" for entry in loaded.gold.values()) == 3
        kinds = {anomaly.kind for anomaly in loaded.anomalies}
        assert {"ability_order", "question_count", "seed_field", "unknown_ability", "unknown_field"} == kinds
    assert check_folder(tiny_release).errors == []
