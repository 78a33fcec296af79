"""The hub datasets: small parquet files of the published schema load as the released folders of the same content do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_claims.data_check import check_folder
from beamlib.data import hub as hub_module
from beamlib.data.checked_json import Log
from beamlib.data.conversations import Treatment
from beamlib.data.hub import download, parse_literal
from beamlib.data.loading import load
from beamlib.data.parquet import PINNED, HubFile, read_row
from beamlib.data.sources import Source, find_conversations
from beamlib.errors import UserError
from beamlib.files import read_json, sha256
from fixtures_release import WORLDS, chat_of, questions_of, write_conversation, write_value

TEXT = pa.string()
MESSAGE = pa.struct(
    {"content": TEXT, "id": pa.int64(), "index": TEXT, "question_type": TEXT, "role": TEXT, "time_anchor": TEXT}
)
SEED = {"category": TEXT, "id": pa.int64(), "subtopics": pa.list_(TEXT), "theme": TEXT, "title": TEXT}
USER_QUESTIONS = pa.list_(pa.struct({"messages": pa.list_(pa.list_(TEXT)), "time_anchor": TEXT}))
FLAT_CHAT = pa.list_(pa.list_(MESSAGE))
BATCH = pa.struct({"batch_number": pa.int64(), "time_anchor": TEXT, "turns": pa.list_(pa.list_(MESSAGE))})
COMMON = {"conversation_id": TEXT, "narratives": TEXT, "conversation_plan": TEXT, "probing_questions": TEXT}
BEAM_SCHEMA = pa.schema(
    {
        **COMMON,
        "conversation_seed": pa.struct(SEED),
        "user_profile": pa.struct({"user_info": TEXT, "user_relationships": TEXT}),
        "user_questions": USER_QUESTIONS,
        "chat": FLAT_CHAT,
    }
)
PLAN = pa.struct(
    {
        "chat": FLAT_CHAT,
        "conversation_plan": TEXT,
        "conversation_seed": pa.struct(SEED),
        "narratives": TEXT,
        "user_profile": pa.struct({"user_relationships": TEXT}),
        "user_questions": USER_QUESTIONS,
    }
)
BEAM_10M_SCHEMA = pa.schema(
    {
        **COMMON,
        "conversation_seed": pa.struct({**SEED, "mode": TEXT, "timeline": TEXT}),
        "user_questions": USER_QUESTIONS,
        "chat": pa.list_(pa.struct({f"plan-{k}": pa.list_(BATCH) for k in range(1, 11)})),
        "plans": pa.list_(PLAN),
    }
)


def flat(chat: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [[message for turn in batch["turns"] for message in turn] for batch in chat]


def row(number: int, chat: Any, seed: dict[str, Any], questions: Any, **other: Any) -> dict[str, Any]:
    return {
        "conversation_id": str(number),
        "narratives": "",
        "conversation_plan": "",
        "probing_questions": str(questions),  # a Python literal, as published: str() of a dictionary
        "conversation_seed": seed,
        "user_questions": None,
        "chat": chat,
        **other,
    }


def write_parquet(path: Path, schema: pa.Schema, rows: list[dict[str, Any]], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), path, **options)
    return path


def same(hub: Source, released: Source) -> None:
    """Everything but the file names in anomalies."""
    for treatment in (Treatment("full"), Treatment("full", strip_markers=False)):
        left, right = load(hub, treatment), load(released, treatment)
        assert left.conversation == right.conversation
        assert left.conversation.sha256 == right.conversation.sha256
        assert (left.probes, left.gold, left.flagged) == (right.probes, right.gold, right.flagged)
        assert [a.kind for a in left.anomalies] == [a.kind for a in right.anomalies]


def beam_parquet(folder: Path, **options: Any) -> Path:
    rows = [
        row(number, flat(chat_of(world)), seed_of(folder, number), questions_of(world))
        for number, world in enumerate(WORLDS, start=1)
    ]
    return write_parquet(folder / "hub/data/100K-00000-of-00001.parquet", BEAM_SCHEMA, rows, **options)


def seed_of(folder: Path, number: int) -> dict[str, Any]:
    return json.loads((folder / "release/100K" / str(number) / "topic.json").read_text())


@pytest.mark.parametrize("row_group_size", [1, 2])
def test_round_trip_of_beam(tiny_release: Path, row_group_size: int) -> None:
    beam_parquet(tiny_release.parent, row_group_size=row_group_size)
    hub = find_conversations(tiny_release.parent / "hub")
    assert [(s.id, s.kind, s.row) for s in hub] == [("100K-1", "hub", 0), ("100K-2", "hub", 1)]
    for left, right in zip(hub, find_conversations(tiny_release), strict=True):
        same(left, right)


def test_round_trip_of_beam_10m(tmp_path: Path) -> None:
    folder = write_conversation(tmp_path / "release/10M/4")
    combined = []
    for plan in range(10):
        chat = chat_of(WORLDS[plan % 2])
        for message in (m for batch in chat for turn in batch["turns"] for m in turn):
            message["id"] += 20 * plan
        combined.append({f"plan-{plan + 1}": chat})
    write_value(folder / "chat.json", combined)
    seed = json.loads((folder / "topic.json").read_text()) | {"mode": None, "timeline": "ten months"}
    plans = [{"chat": flat(chat_of(WORLDS[k % 2])), "user_questions": None} for k in range(10)]
    path = tmp_path / "hub/data/10M-00000-of-00002.parquet"
    write_parquet(path, BEAM_10M_SCHEMA, [row(4, combined, seed, questions_of(WORLDS[0]), plans=plans)])
    raw = read_row(path, 0, Log("row", str(path)))
    assert "plans" not in raw
    assert raw["chat"][3]["plan-1"] is None
    missing = r"10M-00001-of-00002\.parquet is missing: 1 of 2 files of 10M are there"
    with pytest.raises(UserError, match=missing):
        find_conversations(tmp_path / "hub")
    write_parquet(path.with_name("10M-00001-of-00002.parquet"), BEAM_10M_SCHEMA, [])
    (hub,) = find_conversations(tmp_path / "hub")
    same(hub, Source("10M-4", "10M", folder, "released"))
    cut = load(hub)
    assert cut.conversation.variant == "full"
    assert "truncated_chat_missing" in {a.kind for a in cut.anomalies}


def test_round_trip_of_real_conversations(beam_data: Path, tmp_path: Path) -> None:
    released = [s for s in find_conversations(beam_data) if s.id in {"100K-1", "100K-5", "100K-7"}]
    if not released:
        pytest.skip("none of the conversations 100K-1, 100K-5, 100K-7 is there")
    rows = [
        row(
            source.number,
            flat(read_json(source.path / "chat.json")),
            read_json(source.path / "topic.json"),
            read_json(source.path / "probing_questions" / "probing_questions.json"),
        )
        for source in released
    ]
    write_parquet(tmp_path / "100K-00000-of-00001.parquet", BEAM_SCHEMA, rows)
    hub = find_conversations(tmp_path)
    for left, right in zip(hub, released, strict=True):
        same(left, right)
    kinds = [{a.kind for a in load(source).anomalies} for source in hub]
    assert ["truncated_chat_missing" in found for found in kinds] == [s.number in (5, 7) for s in hub]


def literal(text: Any) -> Any:
    return parse_literal(text, Log("f", "/data/f.parquet"))


def test_literals_are_read() -> None:
    value = {"a": ["it's", 'a "quote"\n', None, True, 1, -2.5, {"b": []}]}
    assert literal(str(value)) == value


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{'a': open('x')}", "not a Python literal"),
        ("__import__('os')", "not a Python literal"),
        ("{'a': ", "not a Python literal"),
        ("{[]: 1}", "not a Python literal"),
        ("a\x00b", "not a Python literal"),
        ("(" * 100_000, "nested too deeply|not a Python literal"),
        ("-" * 100_000 + "1", "nested too deeply|not a Python literal"),
        ("9" * 5000, "not a Python literal"),
        ("'" + "x" * 5_000_000 + "'", "characters are too many"),
        (None, "expected text"),
    ],
)
def test_other_text_is_one_sentence(text: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        literal(text)
    assert "\n" not in str(caught.value)


def test_broken_parquet_files(tiny_release: Path) -> None:
    folder = tiny_release.parent
    path = beam_parquet(folder)
    hub = find_conversations(folder / "hub")
    whole = path.read_bytes()
    for length in (0, 3, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"not the released file .* fetch the data again"):  # as its name is pinned
            find_conversations(folder / "hub")
        with pytest.raises(UserError, match=r"cannot be read .* fetch the data again, or leave the conversation out"):
            load(hub[1])
        assert len(check_folder(folder / "hub").errors) == 1
    path.write_bytes(whole)
    path.rename(path.with_name("beam.parquet"))
    with pytest.raises(UserError, match="does not tell the split"):
        find_conversations(folder / "hub")
    (folder / "hub/data/beam.parquet").rename(tiny_release / "beam.parquet")
    assert len(find_conversations(tiny_release)) == 2  # beside conversations it is a file that nothing uses
    assert "unknown_file" in {finding.kind for finding in check_folder(tiny_release).anomalies}


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("conversation_id", "one", "where a number from 1 up belongs"),
        ("conversation_id", None, "where a number from 1 up belongs"),
        ("probing_questions", None, "expected text holding a Python literal"),
        ("probing_questions", "{}", "it holds no question of a BEAM ability"),
        ("chat", None, "expected a list of batches"),
        ("chat", [], "the chat has no message"),
        ("chat", [None], "the chat has no message"),
        ("chat", [[None]], "expected an object, not None"),
    ],
)
def test_broken_rows(tiny_release: Path, column: str, value: Any, sentence: str) -> None:
    folder = tiny_release.parent
    broken = row(1, flat(chat_of(WORLDS[0])), seed_of(folder, 1), questions_of(WORLDS[0])) | {column: value}
    write_parquet(folder / "hub/100K-00000-of-00001.parquet", BEAM_SCHEMA, [broken])
    with pytest.raises(UserError, match=sentence):
        load(find_conversations(folder / "hub")[0])


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_ids_that_became_numbers_are_read(tiny_release: Path, kind: pa.DataType) -> None:
    path = beam_parquet(tiny_release.parent)
    texts = find_conversations(path.parent)
    table = pq.read_table(path)
    numbers = table.column("conversation_id").cast(pa.int64()).cast(kind)
    pq.write_table(table.set_column(table.column_names.index("conversation_id"), "conversation_id", numbers), path)
    assert [source.id for source in find_conversations(path.parent)] == [source.id for source in texts]
    assert load(find_conversations(path.parent)[0]).conversation == load(texts[0]).conversation
    with pytest.raises(UserError, match="where a number from 1 up belongs"):
        halves = pa.table({"conversation_id": pa.array([1.5])})
        pq.write_table(halves, path)
        find_conversations(path.parent)


@pytest.mark.parametrize(
    ("column", "value", "kind"),
    [
        ("probing_questions", str(questions_of(WORLDS[0])).replace("'never said'", "b'x'"), "unwritable"),
        ("probing_questions", str(questions_of(WORLDS[0])).replace("'never said'", "1e999"), "unwritable"),
        ("chat", [None, *flat(chat_of(WORLDS[0]))], "empty_batch"),
        ("conversation_seed", None, "seed_field"),
        ("conversation_seed", {"title": "A title"}, "seed_field"),
    ],
)
def test_odd_rows(tiny_release: Path, column: str, value: Any, kind: str) -> None:
    folder = tiny_release.parent
    odd = row(1, flat(chat_of(WORLDS[0])), seed_of(folder, 1), questions_of(WORLDS[0])) | {column: value}
    write_parquet(folder / "hub/100K-00000-of-00001.parquet", BEAM_SCHEMA, [odd])
    found = load(find_conversations(folder / "hub")[0])
    assert kind in {a.kind for a in found.anomalies}
    assert (len(found.probes), len(found.conversation.messages)) == (20, 20)


def test_a_missing_column(tiny_release: Path) -> None:
    path = tiny_release.parent / "hub/100K-00000-of-00001.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"conversation_id": ["1"], "chat": [["x"]]}), path)
    with pytest.raises(UserError, match="the column `probing_questions` is missing"):
        load(find_conversations(path.parent)[0])


class Hub:
    """Stands in for `hf_hub_download`: serves bytes, or fails."""

    def __init__(self, content: bytes | Exception) -> None:
        self.content, self.calls = content, []

    def __call__(self, repository: str, name: str, **options: Any) -> str:
        self.calls.append((repository, name, options["revision"], options["repo_type"]))
        if isinstance(self.content, Exception):
            raise self.content
        path = Path(options["local_dir"]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.content)
        return str(path)


PIN = (HubFile("100K", "owner/set", "a" * 40, "data/100K-00000-of-00001.parquet", 4, sha256(b"good")),)


def serve(monkeypatch: pytest.MonkeyPatch, content: bytes | Exception) -> Hub:
    hub = Hub(content)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", hub)
    return hub


def test_download_is_pinned_checked_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = serve(monkeypatch, b"good")
    assert download(tmp_path, ["100K"], PIN) == tmp_path
    assert hub.calls == [("owner/set", PIN[0].name, "a" * 40, "dataset")]
    manifest = read_json(tmp_path / "manifest.json")
    assert manifest[PIN[0].name]["sha256"] == sha256(b"good")
    download(tmp_path, ["100K"], PIN)
    assert len(hub.calls) == 1
    (tmp_path / PIN[0].name).write_bytes(b"rott")
    download(tmp_path, ["100K"], PIN)
    assert len(hub.calls) == 2


def test_download_refuses_other_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, b"evil")
    with pytest.raises(UserError, match="the SHA-256 is"):
        download(tmp_path, ["100K"], PIN)
    assert not (tmp_path / "manifest.json").exists()


@pytest.mark.parametrize(
    "error", [OSError("no route\nto host"), ConnectionError(), TimeoutError("slow"), ValueError("x")]
)
def test_a_failed_download_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    serve(monkeypatch, error)
    with pytest.raises(UserError, match="could not be downloaded") as caught:
        download(tmp_path, ["100K"], PIN)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "manifest.json").exists()


def test_pins_cover_every_size_by_full_hashes() -> None:
    assert {file.size for file in PINNED} == {"100K", "500K", "1M", "10M"}
    assert all(len(file.revision) == 40 and len(file.sha256) == 64 for file in PINNED)
    assert sum(len(numbers) for numbers in hub_module.CUT.values()) == 36
    with pytest.raises(UserError, match="no file of size 1M"):
        download(Path("nowhere"), ["1M"], PIN)
