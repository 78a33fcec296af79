"""The guard of code that moves: recorded calls are replayed in full, and digests tell what has changed."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"


def digests(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "digests.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


@pytest.mark.slow
def test_recorded_calls_are_replayed_in_full_and_give_what_they_gave() -> None:
    done = digests("--only", "recorded", "--against", BENCHMARKS / "recorded_calls.json")
    # Where this changed on purpose: python tests/record_calls.py
    assert done.returncode == 0 and done.stdout.endswith(" digests, 0 differences\n"), done.stdout + done.stderr


def test_a_call_that_is_not_held_is_a_failure_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from digests import MODELS, RECORDED, CommandFailed, Product

    with tarfile.open(RECORDED) as held:
        held.extractall(tmp_path / "held", filter="data")
    models = tmp_path / "held" / MODELS
    models.write_text(models.read_text().replace("127.0.0.1", "127.0.0.2"))
    with tarfile.open(tmp_path / "other.tar", "w") as made:
        made.add(tmp_path / "held", ".")
    (tmp_path / "work").mkdir()
    with pytest.raises(CommandFailed, match=r"generate .*: the call is not stored"):
        Product(tmp_path / "work", "digests-of-a-test").replay(tmp_path / "other.tar")
    assert not (ROOT / "runs" / "digests-of-a-test").exists()


def test_what_differs_is_named(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps({"groups": {"run": {"a": "1", "b": "2", "c": "3"}, "files": {"x": "9"}}}))
    after.write_text(json.dumps({"groups": {"run": {"a": "1", "b": "7", "d": "4"}}}))
    done = digests(after, "--against", before)
    assert (done.returncode, done.stdout.splitlines()) == (
        1,
        ["differs  b", "gone     c", "new      d", "3 digests, 3 differences"],
    )
    assert digests(after, "--against", after).returncode == 0
    for words, says in (
        ((after, "--against", tmp_path / "none.json"), "none.json: holds no digests"),
        (("--only", "runs"), "there is no group 'runs'"),
    ):
        done = digests(*words)
        assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1


def test_a_record_is_compared_without_what_tells_where_when_and_by_which_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from digests import Normaliser

    def compared(place: str, commit: str, k: int) -> bytes:
        path = tmp_path / "manifest.json"
        record = {"commit": commit, "answers_key": commit, "sha256": commit, "data": f"{place}/x", "k": k, "rules": [k]}
        path.write_text(json.dumps(record))
        return Normaliser({place: "WORK"}).file(path)

    assert compared("/a", "1" * 40, 5) == compared("/somewhere/else", "2" * 40, 5)
    assert compared("/a", "1" * 40, 5) != compared("/a", "1" * 40, 6)
