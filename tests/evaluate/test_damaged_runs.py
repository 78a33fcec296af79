"""Run folders that something happened to: the same numbers again, or one sentence; and what workers leave behind."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from beamlib import files
from beamlib.data.sources import QUESTIONS
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.params import RunParameters, load_parameters
from beamlib.report.results import score_folders
from fixtures_release import WORLDS, questions_of, write_conversation, write_value

ARMS = (Arm(memory="none"), Arm(memory="oracle"))
FILES = ("answers.jsonl", "judgements.jsonl", "manifest.json")


@pytest.fixture
def parameters(tmp_path: Path, repo_root: Path) -> RunParameters:
    write_conversation(tmp_path / "data/100K/1")
    return load_parameters(
        repo_root / "params/100k.yaml", data=str(tmp_path / "data"), run=str(tmp_path / "run"), workers=1
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.mark.usefixtures("one_worker")
def test_two_probes_with_the_same_wording_keep_their_own_evidence(parameters: RunParameters, tmp_path: Path) -> None:
    questions = questions_of(WORLDS[0])
    questions["information_extraction"][1] |= {
        "question": questions["knowledge_update"][0]["question"],
        "source_chat_ids": [10],
    }
    write_value(tmp_path / "data/100K/1" / QUESTIONS, questions)
    found = evaluate(parameters, ARMS, quiet=True)
    gold = found.loaded["100K-1"].gold
    cited = {answer.probe_id: set(answer.message_ids) for answer in found.answers["oracle"]}
    assert len(cited) == 20
    for probe_id, ids in cited.items():
        assert ids == {i for message in gold[probe_id].evidence for i in (message - message % 2, message | 1)}


@pytest.mark.usefixtures("one_worker")
def test_what_was_lost_or_changed_is_computed_again(parameters: RunParameters) -> None:
    evaluate(parameters, ARMS, quiet=True)
    folder = Path(parameters.run) / "100k/none"
    whole = contents(folder)
    lines = {name: whole[name].splitlines(keepends=True) for name in FILES}
    edited = whole["judgements.jsonl"].replace(b'"score": 0.0', b'"score": 1.0', 1)
    half = whole["answers.jsonl"].replace(b'"text": "', b'"text": "\\ud800', 1)
    record = json.loads(whole["manifest.json"])
    damages: list[tuple[str, bytes | None]] = [
        *((name, None) for name in FILES),
        ("answers.jsonl", b"".join(lines["answers.jsonl"][1:])),
        ("judgements.jsonl", b"".join(lines["judgements.jsonl"][:-1])),
        ("judgements.jsonl", b"".join([*lines["judgements.jsonl"], lines["judgements.jsonl"][0]])),
        ("judgements.jsonl", edited),
        ("answers.jsonl", half),
        ("manifest.json", whole["manifest.json"][:-40]),
        ("manifest.json", json.dumps({**record, "judge": "someone"}).encode()),
        ("manifest.json", json.dumps({**record, "conversations": {}}).encode()),
        ("manifest.json", b"[]"),
    ]
    assert edited != whole["judgements.jsonl"]
    for name, content in damages:
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_bytes(content)
        if name != "answers.jsonl":  # scores rest on the judgements alone
            with pytest.raises(UserError, match=name.replace("manifest", "(manifest|judgements)")):
                score_folders(Path(parameters.run), "paper")
        evaluate(parameters, ARMS, quiet=True)
        assert contents(folder) == whole, (name, content)


def test_a_place_that_cannot_be_written_to_is_told_before_the_work(
    parameters: RunParameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(parameters.run).write_text("a file in the folder's place")
    monkeypatch.setattr("beamlib.evaluate.jobs.process_pool", None)  # reaching it would fail
    with pytest.raises(UserError, match="cannot be created"):
        evaluate(parameters, ARMS, quiet=True)


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = files.write_json(tmp_path / "table.json", [1])

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"table\.json: cannot be written \(No space left"):
        files.write_json(path, [2])
    assert path.read_text() == "[\n  1\n]\n"
    assert list(tmp_path.iterdir()) == [path]


SCRIPT = """
import os, sys, time
from beamlib.processes import process_pool

def work(folder):
    open(os.path.join(folder, str(os.getpid())), "w").close()
    time.sleep(60)

if __name__ == "__main__":
    with process_pool(1) as pool:
        pool.submit(work, sys.argv[1]).result()
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 1), (signal.SIGKILL, -9)])
def test_no_worker_outlives_its_parent(number: signal.Signals, code: int, tmp_path: Path) -> None:
    script, pids = tmp_path / "go.py", tmp_path / "pids"
    script.write_text(SCRIPT)
    pids.mkdir()
    process = subprocess.Popen(
        [sys.executable, str(script), str(pids)], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    for _ in range(600):
        if list(pids.iterdir()):
            break
        time.sleep(0.05)
    (worker,) = (int(path.name) for path in pids.iterdir())
    os.killpg(process.pid, number) if number == signal.SIGINT else process.kill()
    _, errors = process.communicate(timeout=300)
    assert process.returncode in (code, -number)
    assert "SpawnProcess" not in errors
    for _ in range(200):
        if not alive(worker):
            break
        time.sleep(0.05)
    assert not alive(worker)


@pytest.mark.slow
def test_a_worker_killed_from_outside_is_one_sentence(tmp_path: Path) -> None:
    from beamlib.processes import process_pool

    with pytest.raises(UserError, match="worker process was killed"), process_pool(1) as pool:
        pool.submit(os.abort).result()
