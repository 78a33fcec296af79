"""A real model in a real engine: answered, judged, killed, resumed, counted and replayed (`./run_tests.sh --local`).

SmolLM2-135M knows no answer and fills in no form. What is checked is that the run survives it, counts it to the token
and believes nothing of it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from beamlib.files import read_jsonl
from beamlib.llm.call_store import CallStore, StoredCall
from commands import beamlib

if TYPE_CHECKING:
    from conftest import LocalServer, WriteModels

pytestmark = [pytest.mark.local, pytest.mark.timeout(900)]

ONE_ARM = Path(__file__).with_name("one_arm.py")
VERDICT = {
    "type": "object",
    "properties": {"score": {"enum": [0, 0.5, 1]}, "reason": {"enum": ["held to its form"]}},
    "required": ["score", "reason"],
    "additionalProperties": False,
}
HELD: dict[str, Any] = {
    "extra": {"response_format": {"type": "json_schema", "json_schema": {"name": "verdict", "schema": VERDICT}}}
}


def run_arm(*arguments: str | Path) -> None:
    """Answer and judge the arm in a process of its own, to the end."""
    ended = one_arm(*arguments)
    assert ended.wait(timeout=800) == 0


def one_arm(*arguments: str | Path) -> subprocess.Popen[bytes]:
    """Start the arm as a process group of its own, so that all its processes can be killed at once."""
    return subprocess.Popen([sys.executable, str(ONE_ARM), *map(str, arguments)], start_new_session=True)


def stored(run: Path) -> list[StoredCall]:
    """The calls of a run that asked the chat server."""
    (path,) = run.glob("calls/100k/100K-1.sqlite")
    with CallStore(path, read_only=True) as store:
        return [call for call in store.calls() if call.step in ("answer", "judge_nugget")]


def records(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.glob("100k-smollm2/*/*.jsonl"))}


def verdicts(run: Path) -> list[dict[str, Any]]:
    (path,) = run.glob("100k-smollm2/*/judgements.jsonl")
    return [verdict for judgement in read_jsonl(path) for verdict in judgement["verdicts"]]


def test_both_servers_listen_on_the_loopback_alone(chat: LocalServer, embedding: LocalServer) -> None:
    listening = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout
    for server in (chat, embedding):
        assert re.findall(rf"\S+:{server.port}\b", listening) == [f"127.0.0.1:{server.port}"]


def test_an_arm_is_killed_resumed_counted_and_replayed(
    chat: LocalServer, few_questions: Path, models_file: WriteModels, tmp_path: Path
) -> None:
    run, models = tmp_path / "run", models_file(judge=HELD)
    begun = chat.completions()
    killed = one_arm(few_questions, run, models)
    wait_until(lambda: chat.completions() >= begun + 3, killed)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    wait_until(lambda: not chat.busy())
    before, held, tokens = chat.completions(), stored(run), chat.tokens()
    assert 1 <= len(held) <= before - begun <= len(held) + 1, "at most the request in flight is lost"

    run_arm(few_questions, run, models)
    calls = stored(run)
    new = [call for call in calls if call.key not in {call.key for call in held}]
    assert chat.completions() - before == len(new) == len(calls) - len(held)
    read, written = (now - then for now, then in zip(chat.tokens(), tokens, strict=True))
    assert read == sum(call.usage.input_tokens for call in new)
    assert written == sum(call.usage.output_tokens for call in new)
    (answers,) = run.glob("100k-smollm2/*/answers.jsonl")
    assert [bool(answer["text"]) and len(answer["message_ids"]) == 4 for answer in read_jsonl(answers)] == [True] * 4
    assert {verdict["score"] for verdict in verdicts(run)} <= {0.0, 0.5, 1.0}, "the engine holds the judge to its form"

    chat.kill()
    shutil.copytree(run / "calls", tmp_path / "again" / "calls")
    run_arm(few_questions, tmp_path / "again", models, "calls=replay")
    assert records(tmp_path / "again") == records(run) != {}


def test_nothing_is_believed_of_a_judge_that_fills_in_no_form(
    chat: LocalServer, few_questions: Path, models_file: WriteModels, tmp_path: Path
) -> None:
    run_arm(few_questions, tmp_path / "run", models_file())
    for verdict in verdicts(tmp_path / "run"):
        literal = re.search(r'"?score"?\s*:\s*"?(0|0\.0|0\.5|1|1\.0)"?\s*[,}\n]', verdict["reply"] or "")
        assert verdict["score"] is None or (literal and float(literal[1]) == verdict["score"]), verdict


def test_generation_ends_in_a_sentence(models_file: WriteModels, tmp_path: Path) -> None:
    options = ("--set", "subplans=[1,1,1]", "--seed", "7", "--yes")
    ended = beamlib("generate", "--out", tmp_path / "out", "--models", models_file(), *options)
    assert ended.returncode == 2
    last = ended.stderr.strip().splitlines()[-1]
    assert re.fullmatch(r"beamlib: generation stopped: .*smollm2.*max_output_tokens.*same command.*\.", last), last
    assert "Traceback" not in ended.stderr


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    ends = time.monotonic() + 600
    while not holds():
        assert time.monotonic() < ends
        assert process is None or process.poll() is None, "it ended before it was killed"
        time.sleep(0.05)
