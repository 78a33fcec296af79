"""Whole evaluations against a real HTTP server: recorded, replayed, with faults, and killed again and again."""

from __future__ import annotations

import hashlib
import json
import os
import random
import select
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import beamlib
from beam_run.steps import unscored_lines
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm, arms_of
from beamlib.evaluate.beam_records import Evaluation
from beamlib.evaluate.run import evaluate, evaluate_experiment
from beamlib.llm.model import Outcome
from beamlib.llm.stored_model import CallStore
from beamlib.params import RunParameters, load_parameters
from beamlib.report.results import results
from beamlib.run import Run
from fixtures_workers import no_workers
from scripted_server import Answer, Faults, ScriptedServer, completion, error_body
from steady_replies import steady_reply

EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
ARMS = (
    Arm(memory="none"),
    Arm(memory="full-context"),
    Arm(memory="rag", retriever="bm25", k=3),
    Arm(memory="light", retriever="bm25", k=3),
)
SECRET = "zk-9f8e7d6c5b4a39281706"


def models_file(server: ScriptedServer, path: Path, **fields: Any) -> Path:
    endpoint = {"model": "scripted", "base_url": server.base_url, "context_window": 131_072, "patience": 5.0, **fields}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    path.write_text(yaml.safe_dump({"readers": {"one": endpoint}, **roles}))
    return path


def parameters(root: Path, run: Path, models: Path, **changes: Any) -> RunParameters:
    fixed = {"data": str(EXAMPLE), "run": str(run), "models": str(models), "workers": 1, "confirm_cost": True}
    small = {"scratchpad_threshold": 600, "scratchpad_target": 300}  # so that the example is compressed too
    return load_parameters(root / "params" / "100k.yaml", **{**fixed, **small, **changes})


def records(run: Path) -> dict[str, bytes]:
    found = {path.relative_to(run).as_posix(): path.read_bytes() for path in sorted(run.glob("100k-one/*/[aj]*.jsonl"))}
    assert len(found) == 2 * len(ARMS)
    return found


def unscored(evaluation: Evaluation) -> list[str]:
    answers = [a.unscored for group in evaluation.answers.values() for a in group if a.unscored]
    return answers + [
        verdict.reason
        for group in evaluation.judgements.values()
        for judgement in group
        for verdict in judgement.verdicts
        if verdict.score is None
    ]


@pytest.fixture(scope="module")
def recorded(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, int]:
    """A run folder recorded without a fault, its models file (the server is gone), and the number of requests."""
    root = tmp_path_factory.mktemp("recorded")
    with ScriptedServer(steady_reply) as server:
        models = models_file(server, root / "models.yaml")
        with no_workers():
            evaluation = evaluate(parameters(repo_root, root / "run", models), ARMS, quiet=True)
        assert unscored(evaluation) == []
        assert not server.repeated()
        assert len({request.hash for request in server.requests}) == len(server.requests)
        return root / "run", models, len(server.requests)


@pytest.mark.usefixtures("in_this_process")
def test_evidence_recall_counts_the_contexts_of_questions_that_the_reader_refused(
    recorded: tuple[Path, Path, int], repo_root: Path, tmp_path: Path
) -> None:
    def reply(body: dict[str, Any]) -> str | Answer:
        refused = body["model"] == "reads" and int(hashlib.sha256(repr(body).encode()).hexdigest(), 16) % 3
        return Answer(error_body("flagged", "content_filter"), 400) if refused else steady_reply(body)

    with ScriptedServer(reply) as server:
        models = models_file(server, tmp_path / "models.yaml")
        roles = yaml.safe_load(models.read_text())
        models.write_text(yaml.safe_dump(roles | {"readers": {"one": roles["memory"] | {"model": "reads"}}}))
        evaluation = evaluate(parameters(repo_root, tmp_path / "run", models), ARMS, quiet=True)
    usual = evaluate(parameters(repo_root, recorded[0], recorded[1], calls="replay"), ARMS, quiet=True)
    ours, theirs = results(evaluation), results(usual)
    assert sum(answer.unscored is not None for answer in evaluation.answers["rag-bm25-k3"]) > 5
    for name, recalls in theirs.recalls.items():
        pd.testing.assert_frame_equal(ours.recalls[name], recalls)
    assert [a.context_key for a in evaluation.answers["rag-bm25-k3"]] == [
        a.context_key for a in usual.answers["rag-bm25-k3"]
    ]


@pytest.mark.quick("0")
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("window", [300, 0])
def test_an_endpoint_that_cuts_without_a_word_is_named(window: int, repo_root: Path, tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> Answer:
        whole = completion(body, steady_reply(body))
        if window:
            whole["usage"]["prompt_tokens"] = min(whole["usage"]["prompt_tokens"], window)
        return Answer(whole)

    with ScriptedServer(reply) as server:
        models = models_file(server, tmp_path / "models.yaml")
        chosen = parameters(repo_root, tmp_path / "run", models)
        evaluate(chosen, arms_of(chosen, ["main"]), quiet=True)
    measured = results(evaluate_experiment(chosen.model_copy(update={"calls": "replay"}), "main"))
    warned = [line for line in measured.footer.lines() if "seems to cut long requests without a word" in line]
    assert warned == ([measured.evaluation.truncation] if window else [])
    assert warned == [line for line in unscored_lines(measured.evaluation) if "cut" in line]
    if window:
        assert warned[0].startswith("The endpoint of scripted counts at most 300 input tokens")


@pytest.mark.usefixtures("in_this_process")
def test_replay_needs_no_server_and_gives_the_same_bytes(
    recorded: tuple[Path, Path, int], repo_root: Path, tmp_path: Path
) -> None:
    run, models, _ = recorded
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "calls").symlink_to(run / "calls")
    evaluate(parameters(repo_root, tmp_path / "again", models, calls="replay", confirm_cost=False), ARMS, quiet=True)
    assert records(tmp_path / "again") == records(run)


@pytest.mark.usefixtures("in_this_process")
def test_what_replay_lacks_is_named_with_the_command_that_records_it(
    recorded: tuple[Path, Path, int], repo_root: Path, tmp_path: Path
) -> None:
    _, models, _ = recorded
    with pytest.raises(UserError, match=r"100K-1, step \w+, .*--calls record --yes"):
        evaluate(parameters(repo_root, tmp_path / "run", models, calls="replay"), ARMS, quiet=True)
    assert not list((tmp_path / "run").rglob("*.jsonl"))


def test_the_recording_command_asks_for_just_what_the_run_asked_for(repo_root: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    changes = {"judge_repeats": 3, "budgets": [2, 4], "encoder": "BAAI/bge-small-en-v1.5", "strip_markers": False}
    options = {"conversations": 1, "own_memory": f"{tmp_path}/mine.py:Mine"}
    made = parameters(repo_root, tmp_path / "run", repo_root / "params/models.yaml", **changes, **options)
    words = shlex.split(Run.of(made).recording_command)
    assert words[words.index("--conversations") + 1] == "1"
    assert words[words.index("--memory") + 1] == options["own_memory"]
    given = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    read = {name: yaml.safe_load(value) for name, value in (item.split("=", 1) for item in given)}
    assert read == {**changes, "scratchpad_threshold": 600, "scratchpad_target": 300}


def test_nothing_is_called_before_the_cost_is_confirmed(repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(steady_reply) as server:
        models = models_file(server, tmp_path / "models.yaml")
        with pytest.raises(UserError, match="confirm_cost"):
            evaluate(parameters(repo_root, tmp_path / "run", models, confirm_cost=False), ARMS, quiet=True)
        assert not server.requests


@pytest.mark.usefixtures("in_this_process", "short_pauses")
def test_a_tenth_of_every_passing_fault_changes_nothing(
    recorded: tuple[Path, Path, int], repo_root: Path, tmp_path: Path
) -> None:
    """Late, dropped, throttled, failed, cut-off and garbled answers: each question is answered as without them."""
    rates = dict.fromkeys(("delay", "drop", "throttle", "error", "truncate", "garbage"), 0.1)
    with ScriptedServer(whole_when_asked_again, faults=Faults(**rates, delay_seconds=0.1), seed=5) as server:
        models = models_file(server, tmp_path / "models.yaml", attempts=12)
        evaluation = evaluate(parameters(repo_root, tmp_path / "run", models), ARMS, quiet=True)
        assert not server.repeated()
        assert {request.outcome for request in server.requests} == {"answered", *rates}
    assert unscored(evaluation) == []
    clean = records(recorded[0])
    for name, found in records(tmp_path / "run").items():
        ours, theirs = ([strip(json.loads(row)) for row in rows.splitlines()] for rows in (found, clean[name]))
        assert ours == theirs


def whole_when_asked_again(body: dict[str, Any]) -> str | Answer:
    """The steady reply, never cut off a second time: two in a row are unscored, and rightly so."""
    reply = steady_reply(body)
    return Answer(completion(body, reply)) if "A first reply to this" in str(body["messages"]) else reply


def strip(row: dict[str, Any]) -> dict[str, Any]:
    """A record without the judge's replies as they came: one of them may be the first half of the other."""
    for verdict in row.get("verdicts", []):
        del verdict["reply"]
    return row


@pytest.mark.usefixtures("in_this_process", "short_pauses")
def test_with_every_fault_each_question_is_answered_or_unscored_for_a_named_reason(
    recorded: tuple[Path, Path, int], repo_root: Path, tmp_path: Path
) -> None:
    with ScriptedServer(steady_reply, faults=Faults.every(0.1), seed=3) as server:
        models = models_file(server, tmp_path / "models.yaml")
        evaluation = evaluate(parameters(repo_root, tmp_path / "run", models), ARMS, quiet=True)
        assert not server.repeated()
    named = [str(outcome) for outcome in Outcome]
    assert all(any(name in reason for name in named) for reason in unscored(evaluation))
    clean = records(recorded[0])
    for name in ("none", "rag-bm25-k3", "full-context"):  # what these show rests on no call
        theirs = {row["probe_id"]: row for row in map(json.loads, clean[f"100k-one/{name}/answers.jsonl"].splitlines())}
        texts = {answer.probe_id: answer.text for answer in evaluation.answers[name] if answer.text is not None}
        assert texts == {probe: theirs[probe]["text"] for probe in texts}
        assert len(texts) >= 10


@pytest.mark.usefixtures("in_this_process")
def test_a_second_run_asks_only_for_what_failed_in_passing(repo_root: Path, tmp_path: Path) -> None:
    """An endpoint that throttles nearly always: what it never answered is asked again, what it answered is not."""
    tries = count(1)

    def throttled(body: dict[str, Any]) -> str | Answer:
        # Four of five tries, and never so many in a row that a run ends.
        busy = Answer(error_body("Slow down.", "rate_limit_exceeded", "requests"), 429, {"Retry-After": "0.01"})
        return busy if next(tries) % 5 else steady_reply(body)

    with ScriptedServer(throttled) as server:
        models = models_file(server, tmp_path / "models.yaml", attempts=2)
        first = evaluate(parameters(repo_root, tmp_path / "run", models), ARMS[:1], quiet=True)
        assert any(answer.transient for answer in first.answers["none"])
        assert any(answer.text is not None for answer in first.answers["none"])
        server.reply = steady_reply
        again = evaluate(parameters(repo_root, tmp_path / "run", models), ARMS[:1], quiet=True)
        assert unscored(again) == []
        assert not server.repeated()


def test_the_key_reaches_no_file(repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEAM_TEST_KEY", SECRET)
    with ScriptedServer(lambda body: steady_reply(body) + " $AUTHORIZATION", require_key=SECRET) as server:
        models = models_file(server, tmp_path / "models.yaml", key_variable="BEAM_TEST_KEY")
        evaluate(parameters(repo_root, tmp_path / "run", models), ARMS, quiet=True)
        assert all(SECRET in request.authorization for request in server.requests)
    held = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(held) > 10
    assert [path for path in held if SECRET.encode() in path.read_bytes()] == []


DRIVER = """
import os
import sys
import traceback
from pathlib import Path
import openai
from beamlib.params import parse_parameters
from beamlib.data.loading import load
from beamlib.data.sources import find_conversations
from beam_run.ending import ended_by_signals
from beamlib.files import read_json, write_jsonl
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.calling import open_models
from beamlib.run import Run
from beamlib.evaluate.judging import work
from beam_run.plugins import register_packages
register_packages()

def drive(file):
    values = read_json(Path(file))
    parameters = Run.of(parse_parameters(values["parameters"], "test"))
    arms = [Arm.model_validate(value) for value in values["arms"]]
    loaded = load(find_conversations(Path(parameters.data))[0], parameters.treatment)
    with open_models(parameters, loaded.conversation.id) as roster:
        done = work(loaded, arms, parameters, roster)
    for name, groups in done.items():
        for kind, rows in zip(("answers", "judgements"), groups):
            path = Path(values["target"]) / name / f"{kind}.jsonl"
            write_jsonl(path, [row.model_dump(mode="json") for row in rows])

for line in sys.stdin:
    child = os.fork()
    if not child:
        code = 1
        try:
            with ended_by_signals():
                drive(line.rstrip())
            code = 0
        except SystemExit as ended:
            code = ended.code
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Driver:
    """Answers and judges one conversation in a process that can be killed without leaving workers behind.

    Each is forked from one that has imported what it needs and done nothing yet: importing takes longer than the work.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "values.json"
        self._parent = subprocess.Popen(
            [sys.executable, "-c", DRIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # one thread, so that it can be forked
            bufsize=0,  # a line that waits in the pipe and not in a buffer is seen by `ended`
        )
        assert self._parent.stdin is not None and self._parent.stdout is not None
        self._to, self._from = self._parent.stdin, self._parent.stdout

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.kill()
        self._parent.communicate()

    def begin(self, settings: RunParameters, target: Path) -> int:
        """Start a process; its number."""
        values = {"parameters": settings.flat(), "arms": [arm.model_dump() for arm in ARMS]}
        self._file.write_text(json.dumps({**values, "target": str(target)}))
        self._to.write(f"{self._file}\n".encode())
        return int(self._from.readline())

    def ended(self) -> bool:
        return bool(select.select([self._from], [], [], 0)[0])

    def wait(self) -> int:
        """Wait for the process that was begun; its exit code, the number of a signal negative."""
        return int(self._from.readline())


LANES = 4


@pytest.mark.slow
def test_twenty_kills_cost_nothing_twice(repo_root: Path, tmp_path: Path) -> None:
    draw = random.Random(20)
    with ScriptedServer(steady_reply, latency=0.15) as server, Driver(tmp_path) as driver:
        models = models_file(server, tmp_path / "models.yaml", concurrency=LANES)
        settings = parameters(repo_root, tmp_path / "run", models)
        kills, codes = [], []
        for _ in range(20):
            asked = len(server.requests)
            process = driver.begin(settings, tmp_path / "killed")
            while len(server.requests) == asked and not driver.ended():
                time.sleep(0.02)  # starting takes longer than anything else
            time.sleep(draw.uniform(0.0, 0.7))
            with suppress(ProcessLookupError):  # it had nothing left to do
                os.kill(process, signal.SIGKILL)
            codes.append(driver.wait())
            kills.append(time.monotonic())
        assert codes[:10] == [-signal.SIGKILL] * 10
        driver.begin(settings, tmp_path / "killed")
        assert driver.wait() == 0
        # Sent again may be only what was on its way when a kill struck. How long an answer is on its way depends on the
        # machine; that no lane is free for another call until it has arrived does not.
        ends = {request.hash: request.ended for request in reversed(server.requests) if request.answered}
        for body in server.repeated():
            struck = next(kill for kill in kills if kill >= ends[body] - 0.3)
            assert sum(ends[body] < request.started < struck for request in server.requests) <= 2 * LANES
        with CallStore(next((tmp_path / "run" / "calls").rglob("*.sqlite")), read_only=True) as store:
            assert sum(row.calls for row in store.totals()) == len({request.hash for request in server.requests})
        models_file(server, tmp_path / "models.yaml")
        whole = parameters(repo_root, tmp_path / "whole", models)
        server.latency = 0.0
        driver.begin(whole, tmp_path / "uninterrupted")
        assert driver.wait() == 0
    names = sorted(path.relative_to(tmp_path / "killed") for path in (tmp_path / "killed").rglob("*.jsonl"))
    assert len(names) == 2 * len(ARMS)
    for name in names:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "uninterrupted" / name).read_bytes()


WHOLE = """
import sys
from pathlib import Path
from beam_run.ending import conclude
from beamlib.files import read_json
from beamlib.llm import model as base

base.SHUTDOWN_SECONDS = float(sys.argv[2])

def command():
    # Here, as in a command: what these import is not there yet when signals are first answered.
    from beam_run.plugins import register_packages
    from beamlib.params import parse_parameters
    from beamlib.evaluate.arms import Arm
    from beamlib.evaluate.run import evaluate

    register_packages()
    values = read_json(Path(sys.argv[1]))
    arms = [Arm.model_validate(arm) for arm in values["arms"]]
    evaluate(parse_parameters(values["parameters"], "test"), arms)

if __name__ == "__main__":
    conclude(command)
"""


def whole(settings: RunParameters, folder: Path, patience: float = 25.0) -> subprocess.Popen[str]:
    """A run as the command makes it, worker processes included, in a session of its own."""
    values = {"parameters": settings.flat(), "arms": [arm.model_dump() for arm in ARMS]}
    (folder / "values.json").write_text(json.dumps(values))
    (folder / "whole.py").write_text(WHOLE)  # a file: worker processes import their parent's main module
    command = [sys.executable, str(folder / "whole.py"), str(folder / "values.json"), str(patience)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(server: ScriptedServer, requests: int, process: subprocess.Popen[str]) -> None:
    while len(server.requests) < requests and process.poll() is None:
        time.sleep(0.02)


def stored(run: Path) -> int:
    """The calls that a run has stored, none of them failed."""
    found = 0
    for path in (run / "calls").rglob("*.sqlite"):
        with CallStore(path, read_only=True) as store:
            assert not any(row.failures for row in store.totals())
            found += sum(row.calls for row in store.totals())
    return found


def alive(group: int) -> bool:
    """Whether a process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@pytest.mark.slow
def test_a_dozen_signals_cost_nothing_at_all(repo_root: Path, tmp_path: Path) -> None:
    draw = random.Random(13)
    with ScriptedServer(steady_reply, latency=0.2) as server, Driver(tmp_path) as driver:
        settings = parameters(repo_root, tmp_path / "run", models_file(server, tmp_path / "m.yaml", concurrency=LANES))
        codes = []
        for turn in range(12):
            asked = len(server.requests)
            process = driver.begin(settings, tmp_path / "out")
            while len(server.requests) == asked and not driver.ended():
                time.sleep(0.01)
            time.sleep(draw.uniform(0.0, 0.5))
            with suppress(ProcessLookupError):
                os.kill(process, SIGNALS[turn % 3])
            codes.append(driver.wait())
            assert stored(tmp_path / "run") == len(server.requests)
        assert codes[:6] == [128 + number for number in SIGNALS] * 2
        driver.begin(settings, tmp_path / "out")
        assert driver.wait() == 0
        assert len(server.requests) == len({request.hash for request in server.requests}) == stored(tmp_path / "run")


@pytest.mark.slow
def test_a_signal_lets_what_is_paid_for_arrive_in_worker_processes_too(repo_root: Path, tmp_path: Path) -> None:
    draw = random.Random(5)
    with ScriptedServer(steady_reply, latency=0.5) as server:
        settings = parameters(repo_root, tmp_path / "run", models_file(server, tmp_path / "models.yaml", concurrency=6))
        for number, to_all in ((signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGHUP, True)):
            process = whole(settings, tmp_path)
            wait_for(server, len(server.requests) + draw.randrange(1, 13), process)
            (os.killpg if to_all else os.kill)(process.pid, number)
            _, said = process.communicate(timeout=300)
            assert process.returncode == 128 + number, said
            assert said.splitlines()[-1] == "beamlib: interrupted; the same command goes on where this one stopped."
            assert "Traceback" not in said and "resource_tracker" not in said
            assert stored(tmp_path / "run") == len(server.requests) < 90
        evaluate(settings, ARMS[:1], quiet=True)
        assert len(server.requests) == len({request.hash for request in server.requests})


@pytest.mark.slow
def test_a_signal_waits_no_longer_than_it_says_and_a_second_one_not_at_all(repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(steady_reply, latency=60) as server:
        models = models_file(server, tmp_path / "models.yaml", concurrency=6)
        for patience, again in ((1.5, False), (50.0, True)):
            asked = len(server.requests)
            process = whole(parameters(repo_root, tmp_path / "run", models), tmp_path, patience)
            wait_for(server, asked + 1, process)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            if again:
                time.sleep(0.5)
                assert process.poll() is None
                process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=30)
            assert process.returncode == 128 + signal.SIGTERM
            assert f"replies under way have {patience:g} s to arrive" in said
            assert time.monotonic() - began < 25
            while alive(process.pid):
                assert time.monotonic() - began < 30
                time.sleep(0.05)


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    script = (
        "import os, signal\nfrom beam_run.ending import conclude\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "conclude(lambda: (os.kill(os.getpid(), signal.SIGHUP), print('went on')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "went on\n")


def test_an_endpoint_that_dies_ends_the_run_with_one_sentence(repo_root: Path, tmp_path: Path) -> None:
    server = ScriptedServer(steady_reply, latency=0.05)
    with server:
        models = models_file(server, tmp_path / "models.yaml", patience=0.5, concurrency=4)
        process = whole(parameters(repo_root, tmp_path / "run", models), tmp_path)
        wait_for(server, 20, process)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 2
    last = said.strip().splitlines()[-1]
    assert last.startswith("beamlib: ") and server.base_url in last and "the same command goes on" in last
    assert "Traceback" not in said and "resource_tracker" not in said
    with ScriptedServer(steady_reply, port=server.port) as again:
        evaluate(parameters(repo_root, tmp_path / "run", models), ARMS, quiet=True)
        answered = {request.hash for request in server.requests if request.answered}
        assert not answered & {request.hash for request in again.requests}
