"""What memories took: measured beside the records, and the waiting for models added up as it was."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from typer.main import get_command

import beamlib
from beam_commands.latency_table import latency_frame
from beam_run.cli import app
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.evaluate.timing import Latency, TimedCall, Timing, latencies
from beamlib.files import write_text
from beamlib.llm.call_store import CallStore, StoredCall
from beamlib.params import RunParameters, load_parameters

ARMS = (Arm(memory="none"), Arm(memory="rag", retriever="bm25", k=2), Arm(memory="light", retriever="bm25", k=2))
START = 1_000.0
MODELS = """
readers: {{small: {endpoint}}}
memory: {endpoint}
compressor: {endpoint}
judge: {endpoint}
aligner: {endpoint}
"""
ENDPOINT = "{model: m, base_url: 'http://127.0.0.1:1/v1', context_window: 9000, input_price: 1.0, output_price: 2.0}"


def timing(begin: float, seconds: float, *questions: str) -> Timing:
    at = datetime.fromtimestamp(START + begin, UTC).isoformat(timespec="microseconds")
    return Timing(conversation_id="c", questions=questions, begin=at, seconds=seconds)


def call(begin: float, end: float, question: str = "", dollars: float | None = 1.0) -> TimedCall:
    return TimedCall(question, START + begin, START + end, dollars)


def rounded(found: list[Latency]) -> list[tuple[str, float, float, int, float | None]]:
    return [(one.question, round(one.seconds, 3), round(one.waited, 3), one.calls, one.dollars) for one in found]


def test_calls_at_the_same_time_are_waited_for_once() -> None:
    calls = [call(0, 4), call(1, 3), call(3, 6), call(8, 9)]
    assert rounded(list(latencies([timing(0, 10)], calls))) == [("", 10.0, 7.0, 4, 4.0)]


def test_a_question_asked_with_others_has_a_share_of_the_memory_and_its_own_calls() -> None:
    read, recalled = timing(0, 5), timing(10, 7, "q1", "q2")
    calls = [call(0, 3), call(10, 14, "q1"), call(11, 16, "q2"), call(10, 12, "q2")]
    # Of the seven seconds six were waited for; each question has half of the one that is left.
    assert rounded(list(latencies([read, recalled], calls))) == [
        ("", 5.0, 3.0, 1, 1.0),
        ("q1", 4.5, 4.0, 1, 1.0),
        ("q2", 6.5, 6.0, 2, 2.0),
    ]


def test_a_question_asked_alone_has_all_calls_of_its_time() -> None:
    rows = [timing(0, 2), timing(2, 4, "q1"), timing(6, 4, "q2")]
    calls = [call(0.5, 1), call(2, 3), call(4, 5), call(7, 9, dollars=None)]
    assert rounded(list(latencies(rows, calls))) == [
        ("", 2.0, 0.5, 1, 1.0),
        ("q1", 4.0, 2.0, 2, 2.0),
        ("q2", 4.0, 2.0, 1, None),
    ]


def test_a_replay_counts_what_the_calls_took_when_they_were_made() -> None:
    calls = [call(-500, -480), call(-490, -470), call(-400, -399, "q")]
    assert rounded(list(latencies([timing(0, 1), timing(2, 0.5, "q")], calls))) == [
        ("", 31.0, 30.0, 2, 2.0),
        ("q", 1.5, 1.0, 1, 1.0),
    ]


@pytest.fixture
def parameters(tmp_path: Path, repo_root: Path) -> RunParameters:
    for number in "12":
        shutil.copytree(repo_root / "beamlib/data/example/100K/1", tmp_path / "data/100K" / number)
    values = {"data": str(tmp_path / "data"), "run": str(tmp_path / "run"), "workers": 1, "per_ability": 1}
    return load_parameters(repo_root / "params/100k.yaml", **values)


@pytest.mark.usefixtures("in_this_process")
def test_a_run_times_every_memory_and_keeps_the_first_measurement(parameters: RunParameters) -> None:
    evaluate(parameters, ARMS, quiet=True)
    run = Path(parameters.run)
    times = beamlib.open_run(run).times()
    counts = times.groupby(["arm", "phase"]).size().to_dict()
    names = [arm.name for arm in ARMS]
    assert counts == {(name, phase): n for name in names for phase, n in (("reading", 2), ("recalling", 20))}
    assert (times["seconds"] >= 0).all() and (times["calls"] == 0).all() and times["ability"].notna().sum() == 60
    manifests = "".join((run / "100k" / name / "manifest.json").read_text("utf-8") for name in names)
    assert "times" not in manifests

    before = (run / "100k/none/times.log").read_bytes()
    evaluate(parameters, ARMS, quiet=True)
    assert (run / "100k/none/times.log").read_bytes() == before
    evaluate(parameters.model_copy(update={"per_ability": 2}), ARMS, quiet=True)
    now = (run / "100k/none/times.log").read_bytes()
    assert set(before.splitlines()) < set(now.splitlines())
    assert len(beamlib.open_run(run).times().query("arm == 'none' and phase == 'recalling'")) == 40
    evaluate(parameters.model_copy(update={"per_ability": 2, "calls": "refresh"}), ARMS, quiet=True)
    assert not {*now.splitlines()} & {*(run / "100k/none/times.log").read_bytes().splitlines()}


@pytest.mark.usefixtures("in_this_process")
def test_the_command_adds_the_calls_and_their_cost(parameters: RunParameters) -> None:
    evaluate(parameters, ARMS, quiet=True)
    run = Path(parameters.run)
    write_text(run / "100k/models.yaml", MODELS.format(endpoint=ENDPOINT))
    with CallStore(run / "calls/100k/100K-1.sqlite") as store:
        for number, (step, role, about) in enumerate(
            [
                ("episodic_keys", "memory", "messages 0-1"),
                ("scratchpad_notes", "memory", "messages 0-1"),
                ("scratchpad_filter", "memory", "100K-1-q01"),
                ("answer", "reader", "100K-1-q01"),
            ]
        ):
            stored = StoredCall(
                key=str(number), role=role, conversation="100K-1", step=step, about=about, model="m",
                base_url="http://127.0.0.1:1/v1", text="x", input_tokens=1_000_000, output_tokens=0,
                time=f"2026-11-28T00:00:1{number}+00:00", latency=1.0,
            )  # fmt: skip
            store.put(stored)
    frame = latency_frame(beamlib.open_run(run).times()).set_index(["memory", "phase"])
    light = frame.loc["light"]
    assert light["n"].to_dict() == {"reading": 2, "recalling": 20}
    assert light["calls"].to_dict() == {"reading": 1.0, "recalling": 0.05}
    assert light["dollars"].to_dict() == {"reading": 1.0, "recalling": 0.05}
    assert light.loc["reading", "median"] > 1.0 and light.loc["reading", "p95"] > 1.9
    assert (frame.drop("light")["calls"] == 0).all()
    done = CliRunner().invoke(get_command(app), ["latency", str(run), "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.output)
    assert [row["phase"] for row in rows] == ["reading", "recalling"] * 3
    printed = CliRunner().invoke(get_command(app), ["latency", str(run)]).output
    assert "light-bm25-k2" in printed and "Traceback" not in printed
    for path in run.rglob("times.log"):
        write_text(path, path.read_text("utf-8").replace("seconds", "hours"))
    done = CliRunner().invoke(get_command(app), ["latency", str(run)])
    assert "nothing was timed" in str(done.exception) or "nothing was timed" in done.output
