"""What lies where a file or folder of the data should be: never a hang, never passed over without a word."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_claims.data_check import check_folder
from beamlib.data.checked_json import Log, parse_data_json, show
from beamlib.data.hub import parse_literal
from beamlib.data.loading import load
from beamlib.data.parquet import conversation_numbers
from beamlib.data.sources import Source, find_conversations
from beamlib.errors import UserError
from fixtures_release import write_conversation


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source("100K-1", "100K", write_conversation(tmp_path / "100K" / "1"), "released")


@pytest.mark.parametrize("kind", ["folder", "dangling", "loop"])
def test_a_cut_chat_that_cannot_be_read_is_not_replaced_by_the_full_one(source: Source, kind: str) -> None:
    path = source.path / "chat_trunecated.json"
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere" if kind == "dangling" else path.name)
    with pytest.raises(UserError, match=r"chat_trunecated\.json"):
        load(source)


def test_a_ten_million_conversation_without_its_cut_says_so(source: Source, tmp_path: Path) -> None:
    folder = tmp_path / "10M" / "1"
    (folder / "plan-0").mkdir(parents=True)
    for name in ("topic.json", "probing_questions"):
        (source.path / name).rename(folder / name)
    (source.path / "chat.json").rename(folder / "plan-0" / "chat.json")
    ten = Source("10M-1", "10M", folder, "released")
    assert "truncated_chat_missing" in {anomaly.kind for anomaly in load(ten).anomalies}
    (folder / "plan_cutoff.txt").symlink_to("nowhere")
    with pytest.raises(UserError, match=r"plan_cutoff\.txt"):
        load(ten)
    assert "plan_cutoff.txt" in check_folder(tmp_path).errors[-1]
    (folder / "plan_cutoff.txt").unlink()
    (folder / "plan_cutoff.txt").write_text("1")  # one plan is there: nothing is cut off
    (tier,) = (tier for tier in check_folder(tmp_path).tiers if tier.size == "10M")
    assert {name: counts.conversations for name, counts in tier.chats.items()} == {"full": 1}


@pytest.mark.parametrize("kind", ["file", "dangling"])
def test_a_conversation_that_is_no_folder_is_told(source: Source, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "100K" / "2"
    if kind == "file":
        path.write_text("not a folder")
    else:
        path.symlink_to("nowhere")
    found = find_conversations(tmp_path)
    assert [source.id for source in found] == ["100K-1", "100K-2"]
    with pytest.raises(UserError, match="named like a conversation"):
        load(found[1])
    assert "named like a conversation" in check_folder(tmp_path).errors[0]


def test_numbers_beyond_a_float_and_deep_nesting_are_refused() -> None:
    log = Log("x.json", "x.json")
    with pytest.raises(UserError, match="beyond any number"):
        parse_data_json('{"a": 1e999}', log)
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert show(deep) == "a deeply nested list"


def test_a_key_that_occurs_twice_in_a_literal_is_refused() -> None:
    log = Log("questions", "questions")
    assert parse_literal("{'a': {'b': 1}, 'b': 2}", log) == {"a": {"b": 1}, "b": 2}
    with pytest.raises(UserError, match="occurs twice"):
        parse_literal("{'a': {'b': 1, 'b': 2}}", log)


def test_parquet_text_that_is_not_utf8_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "100K-00000-of-00001.parquet"
    raw = pa.array([b"\xff\xfe"], pa.binary())
    pq.write_table(pa.table({"conversation_id": pa.Array.from_buffers(pa.string(), 1, raw.buffers())}), path)
    with pytest.raises(UserError, match="not a readable parquet file"):
        conversation_numbers(path)


def test_a_git_lfs_pointer_is_called_one(repo_root: Path, tmp_path: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12\n"
    (tmp_path / "500K-00000-of-00001.parquet").write_text(pointer)
    with pytest.raises(UserError, match="a Git LFS pointer, not the file itself; run `git lfs pull`"):
        find_conversations(tmp_path)
    shutil.copytree(repo_root / "beamlib/data/example/100K", tmp_path / "100K")
    (tmp_path / "100K/1/chat.json").write_text(pointer)
    (tmp_path / "100K/1/chat_trunecated.json").unlink(missing_ok=True)
    with pytest.raises(UserError, match=r"chat\.json: a Git LFS pointer, not the file itself"):
        load(find_conversations(tmp_path, ["100K"])[0])


def test_chats_and_parquet_files_together_are_both_seen(repo_root: Path, tmp_path: Path) -> None:
    shutil.copytree(repo_root / "beamlib/data/example/100K", tmp_path / "100K")
    (tmp_path / "500K-00000-of-00001.parquet").write_bytes(b"not parquet")
    with pytest.raises(UserError, match=r"500K-00000-of-00001\.parquet: not a readable parquet file"):
        find_conversations(tmp_path)
    assert [found.id for found in find_conversations(tmp_path, ["100K"])] == [
        "100K-1"
    ]  # which has nothing to do with it
