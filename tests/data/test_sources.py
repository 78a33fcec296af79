"""Finding conversations in every accepted layout, and one clear sentence for the others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from beamlib.data.conversations import parse_size
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError
from fixtures_release import write_conversation


def ids(folder: Path, *sizes: str) -> list[str]:
    return [s.id for s in find_conversations(folder, [parse_size(size) for size in sizes] or None)]


@pytest.mark.parametrize(
    ("text", "size"), [("100k", "100K"), ("128K", "100K"), ("128k", "100K"), (" 1m ", "1M"), ("10M", "10M")]
)
def test_sizes_in_any_case(text: str, size: str) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "100", "2M", "100KB", "K100", "１００K"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="no size of the benchmark"):
        parse_size(text)


def test_every_layout(tmp_path: Path) -> None:
    release = tmp_path / "chats"
    for name in ("100K/10", "100K/2", "10M/1", "500K/3"):
        write_conversation(release / name)
    everything = ["100K-2", "100K-10", "500K-3", "10M-1"]
    assert ids(tmp_path) == ids(release) == everything
    assert ids(release / "100K") == ["100K-2", "100K-10"]
    assert ids(release / "100K" / "10") == ["100K-10"]
    assert ids(release, "10m", "500k") == ["500K-3", "10M-1"]
    (release / "100K").rename(release / "128k")
    assert ids(release) == everything


def test_a_folder_that_lost_its_chat_is_still_found(tmp_path: Path) -> None:
    write_conversation(tmp_path / "100K/1")
    (tmp_path / "100K/2").mkdir()
    assert ids(tmp_path) == ["100K-1", "100K-2"]


@pytest.mark.parametrize("name", ["1 (copy)", "007", "-1", "1.5", "seven", "１"])
def test_oddly_named_conversations_are_refused(tmp_path: Path, name: str) -> None:
    write_conversation(tmp_path / "100K/1")
    write_conversation(tmp_path / "100K" / name)
    with pytest.raises(UserError, match="its name is no number"):
        find_conversations(tmp_path)
    shutil.rmtree(tmp_path / "100K" / name)
    (tmp_path / "100K" / name).mkdir()
    assert ids(tmp_path) == ["100K-1"]


def test_the_same_conversation_twice(tmp_path: Path) -> None:
    write_conversation(tmp_path / "100K/1")
    write_conversation(tmp_path / "chats/100K/1")
    with pytest.raises(UserError, match="conversation 100K-1 is also at"):
        find_conversations(tmp_path)


def test_nonsense(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UserError, match="expected a folder laid out like the released chats"):
            find_conversations(folder)
    loose = write_conversation(tmp_path / "somewhere" / "1")
    with pytest.raises(UserError, match="whose size cannot be told"):
        find_conversations(loose)
    write_conversation(tmp_path / "100K/1")
    with pytest.raises(UserError, match="no conversation of size 1M; there are 100K"):
        find_conversations(tmp_path, ["1M"])


def test_importing_the_benchmark_reaches_neither_gold_nor_parquet() -> None:
    code = "import sys, beamlib.data.sources; print([m for m in sys.modules if m.endswith('.gold') or m == 'pyarrow'])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
