"""The process protocol, version 2: what a memory writes beside its replies is never an answer to another question."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from beam_memories import memory_process
from beam_memories.own_memory import OwnMemory, check_own_memory
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError
from beamlib.llm.model import ModelError, Outcome

WINDOW = 10_000
QUESTIONS = [f"question {number}" for number in range(6)]

PYTHON = """
import json, os, subprocess, sys, threading, time

def say(value):
    sys.stdout.write((value if isinstance(value, str) else json.dumps(value)) + "\\n")
    sys.stdout.flush()

asked, recalls = {}, 0

def reply(**more):
    say({"id": asked["id"], **more})

def greet():
    reply(protocol=2)

def ingested():
    reply()

def answer():
    reply(context="CONTEXT FOR: " + asked["question"])

recalled = answer

def once():
    first = not os.path.exists("MARK")
    open("MARK", "w").close()
    return first

CHANGES

for line in sys.stdin:
    asked = json.loads(line)
    recalls += asked["method"] == "recall"
    {"hello": greet, "ingest": ingested, "recall": recalled}[asked["method"]]()
"""

NODE = """
const lines = require("readline").createInterface({ input: process.stdin });
const say = value => process.stdout.write(JSON.stringify(value) + "\\n");
let recalls = 0;
say({ level: "info", msg: "started", pid: process.pid });
lines.on("line", line => {
  const asked = JSON.parse(line), id = asked.id;
  if (asked.method === "hello") return say({ protocol: 2 });
  say({ level: "info", msg: "working on it", method: 1 });
  if (asked.method === "ingest") return say({ id });
  recalls += 1;
  const reply = { id, context: "CONTEXT FOR: " + asked.question, message_ids: [] };
  say(reply);
  say([reply]);
  if (recalls % 3 === 2) say(reply);  // doubled
});
"""


@pytest.fixture(scope="module")
def example(repo_root: Path) -> Loaded:
    return load(find_conversations(repo_root / "beamlib/data/example")[0])


def python(folder: Path, changes: str) -> str:
    path = folder / "memory.py"
    path.write_text(PYTHON.replace("CHANGES", changes).replace("MARK", str(folder / "mark")))
    return f"process:mine:{sys.executable} {path}"


def asked(target: str, example: Loaded, seconds: float = 60) -> list[str]:
    """What each question got: its context, or the reason for none; never another question's context."""
    answers = []
    with OwnMemory(target, seconds, WINDOW) as memory:
        memory.ingest(example.conversation)
        for question in QUESTIONS:
            try:
                context = memory.recall(question).context
                assert context == f"CONTEXT FOR: {question}"
                answers.append(context)
            except ModelError as error:
                assert error.outcome is Outcome.LOST
                answers.append(error.reason)
    return answers


WHOLE = [f"CONTEXT FOR: {question}" for question in QUESTIONS]

LOG = "def ingested():\n reply()\n say({'level': 'info', 'msg': 'index built'})"


@pytest.mark.parametrize(
    "changes",
    [
        LOG,
        "def ingested():\n say({'level': 'info', 'id': None})\n reply()",
        "say({'level': 'info'})\nsay('plain')\nsay([1])\nsay({'protocol': 'grpc'})\nsay({'error': 'x', 'n': 1})",
        "def greet():\n say({'protocol': 2})\n say({'protocol': 2})",
        "def greet():\n say({**asked, 'level': 'debug'})\n reply(protocol=2)",
        "def recalled():\n for n in range(50): say({'context': 'not this', 'n': n})\n answer()",
        "def recalled():\n say({'level': 'debug', 'request': asked})\n say(asked)\n say('got ' + json.dumps(asked))\n"
        " answer()",
        "def recalled():\n answer()\n say('x' * 2**25)\n say('{}')",
        "def recalled():\n say('[' * 100_000)\n say('{' * 100_000)\n say('{\"a\": ' + '9' * 9999 + '}')\n"
        " answer()",
        "def recalled():\n sys.stdout.buffer.write(b'\\xff\\xfe\\x00\\n\\n\\r\\n   \\n')\n"
        " say(' ' + json.dumps({'id': asked['id'], 'context': 'CONTEXT FOR: ' + asked['question']}) + '\\r')",
        "def ingested():\n reply()\n threading.Thread(target=lambda: [say([n]) for n in range(9999)]).start()",
        "def recalled():\n subprocess.Popen(['sh', '-c', 'sleep .02; echo {}; echo \\'{\"level\": 1}\\'; sleep 9'])\n"
        " answer()",
        "def recalled():\n recalls == 2 and os.fork() == 0 and (time.sleep(.3), os._exit(0))\n"
        " answer()",
    ],
    ids=["after ingest", "null id", "before the greeting", "greets twice", "a logged hello", "log with contexts",
         "requests in its log", "long lines", "deep lines", "bytes and CRLF", "a thread", "a child", "a fork"],
)  # fmt: skip
def test_log_is_never_an_answer(tmp_path: Path, example: Loaded, changes: str) -> None:
    assert asked(python(tmp_path, changes), example) == WHOLE


DOUBLED = "def recalled():\n for _ in range(1 + (recalls == 2)): answer()"


@pytest.mark.parametrize(
    "changes",
    [
        DOUBLED,
        "def ingested():\n reply()\n if once():\n  reply()",
        "def recalled():\n if once():\n  say({'id': 'x', 'context': 'no'})\n"
        " answer()",
        "def recalled():\n if once():\n  say({'id': 7, 'level': 'info'})\n"
        " answer()",
        "def recalled():\n recalls == 2 and os.fork()\n answer()",
        "def recalled():\n if once():\n  say('{\"id\": \"' + asked['id'] + '\", \"con')\n"
        " answer()",
        "def recalled():\n if once():\n  say('{\"id\": \"x\", \"id\": \"' + asked['id'] + '\", \"context\": \"no\"}')\n"
        " answer()",
    ],
    ids=["a reply doubled", "an ingest doubled", "a wrong id", "a number as id", "a fork", "half a line", "two ids"],
)  # fmt: skip
def test_a_surplus_reply_costs_a_process_and_no_answer(tmp_path: Path, example: Loaded, changes: str) -> None:
    assert asked(python(tmp_path, changes), example) == WHOLE


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ("def recalled():\n say({'id': 'another', 'context': 'no'})", "it answered what was not asked"),
        (
            "def recalled():\n for n in (-1, 0): say({'id': last[n], 'context': 'no'})\nlast = []\n"
            "def ingested():\n last.append(asked['id'])\n reply()",
            "it answered what was not asked",
        ),
        ("def recalled():\n say('{\"id\": \"' + asked['id'] + '\", \"context\": no}')", "no JSON that can be read"),
        (
            "def recalled():\n reply(method='recall', context='CONTEXT FOR: ' + asked['question'])",
            "its reply to recall has a 'method'",
        ),
    ],
    ids=["always another", "the ingest's", "never JSON", "with a method"],
)
def test_what_always_answers_wrongly_is_unscored(tmp_path: Path, example: Loaded, changes: str, reason: str) -> None:
    reasons = asked(python(tmp_path, changes), example)
    assert reason in reasons[0]
    assert all("CONTEXT" not in answer for answer in reasons)
    assert "not asked, 4 processes were lost" in reasons[-1]


@pytest.mark.parametrize(
    "changes",
    [
        "def recalled():\n say({'context': 'CONTEXT FOR: ' + asked['question']})",
        "def recalled():\n say({**asked, 'context': 'CONTEXT FOR: ' + asked['question']})",
        "def recalled():\n sys.stdout.write('50 % done ')\n answer()",
        "def recalled():\n say([{'id': asked['id'], 'context': 'CONTEXT FOR: ' + asked['question']}])",
        "def recalled():\n say({'result': {'id': asked['id'], 'context': 'CONTEXT FOR: ' + asked['question']}})",
        "def ingested():\n say([{'id': asked['id']}])",
        "def ingested():\n say({})",
        "def greet():\n say({'protocol': 2})\ndef ingested():\n say({'protocol': 2})",
    ],
    ids=[
        "no id",
        "the request with a context",
        "no line of its own",
        "in an array",
        "below another field",
        "ingest in an array",
        "ingest without",
        "as protocol 1 with the number changed",
    ],
)
def test_a_forgotten_id_is_told_soon(
    tmp_path: Path, example: Loaded, changes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_process, "NAMELESS_SECONDS", 0.5)
    with (
        OwnMemory(python(tmp_path, changes), 3600, WINDOW) as memory,
        pytest.raises(ModelError, match="without the request's id on a line of its own"),
    ):
        memory.ingest(example.conversation)
        memory.recall("question")


@pytest.mark.parametrize("method", ["hello", "ingest"])
@pytest.mark.parametrize("more", ["", ", ok=True"])
def test_a_method_in_a_reply_is_told_at_once(tmp_path: Path, example: Loaded, method: str, more: str) -> None:
    step = {"hello": "greet", "ingest": "ingested"}[method]
    target = python(tmp_path, f"def {step}():\n reply(method='{method}'{more})")
    with (
        OwnMemory(target, 3600, WINDOW) as memory,
        pytest.raises(ModelError, match=f"its reply to {method} has a 'method', which only a request has"),
    ):
        memory.ingest(example.conversation)


@pytest.mark.parametrize(
    "deed", ["say({'result': {'id': asked['id']}})", "print(json.dumps({'id': asked['id']}), end='', flush=True)"]
)
def test_an_id_that_is_in_no_reply_is_named_at_the_end(tmp_path: Path, example: Loaded, deed: str) -> None:
    target = python(tmp_path, f"def ingested():\n {deed}")
    with (
        OwnMemory(target, 1, WINDOW) as memory,
        pytest.raises(ModelError, match="without the request's id on a line of its own, or with a 'method'"),
    ):
        memory.ingest(example.conversation)


def test_who_ends_the_exchange_without_listening_is_not_waited_for(tmp_path: Path, example: Loaded) -> None:
    changes = "def ingested():\n reply()\n os.close(1)\n time.sleep(600)"
    with (
        OwnMemory(python(tmp_path, changes), 20, WINDOW) as memory,
        pytest.raises(ModelError, match="its process closed the exchange"),
    ):
        memory.ingest(example.conversation)
        memory.recall("longer than a pipe" * 50_000)


def test_a_reply_after_its_time_is_nobodys(tmp_path: Path, example: Loaded) -> None:
    """The process that was too slow is gone, and with it whatever it still says."""
    slow = "def recalled():\n if asked['question'].endswith('1') and once(): time.sleep(1.5)\n answer()"
    assert asked(python(tmp_path, slow), example, seconds=1) == WHOLE


def test_replies_in_another_order_are_no_answers(tmp_path: Path, example: Loaded) -> None:
    """The memory answers a question only once the next has come: the first one's silence is its own fault."""
    late = (
        "held = []\ndef recalled():\n held.append(dict(asked))\n"
        " for one in reversed(held[1:] and held): say({'id': one['id'], 'context': 'CONTEXT FOR: ' + one['question']})"
    )
    assert all("it took more than 1 seconds" in one for one in asked(python(tmp_path, late), example, seconds=1)[:2])


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_a_memory_in_node_that_logs_json_and_doubles_replies(tmp_path: Path, example: Loaded) -> None:
    path = tmp_path / "memory.js"
    path.write_text(NODE)
    assert asked(f"process:mine:node {path}", example) == WHOLE


def test_log_is_shown_at_the_end(tmp_path: Path, example: Loaded, capfd: pytest.CaptureFixture[str]) -> None:
    asked(python(tmp_path, f"{LOG}\nsay('[2JReady')"), example)
    told = capfd.readouterr().err
    assert '{"level": "info", "msg": "index built"}' in told
    assert "CONTEXT" not in told


@pytest.mark.parametrize("version", [1, 0, 3])
def test_another_version_is_refused_with_what_to_add(tmp_path: Path, version: int) -> None:
    target = python(tmp_path, f"def greet():\n say({{'protocol': {version}}})")
    add = r'add one field to each of its replies: the request\'s "id"' if version == 1 else 'greet with "protocol": 2'
    with pytest.raises(UserError, match=re.escape(add.replace("\\", ""))):
        check_own_memory(target, 60)


CLASS = """
import ctypes, multiprocessing, os, subprocess, sys, threading, time
from beamlib.memory import RetrievedContext

def children():
    process = multiprocessing.get_context("fork").Process(target=print, args=("{}",))
    process.start()
    process.join()

class Mine:
    name = "mine"
    number = 0
    def ingest(self, conversation): print('{"level": "info"}', flush=True)
    def recall(self, question):
        self.number += 1
        if self.number == 2: DEED
        return RetrievedContext("CONTEXT FOR: " + question, message_ids=())
"""


@pytest.mark.parametrize(
    "deed",
    [
        "os.fork()",
        "[os.fork() for _ in range(3)]",
        "os.fork() or os.write(1, b'{}')",
        "ctypes.CDLL(None).fork()",
        "children()",
        "os.fork() or time.sleep(600)",
        "subprocess.Popen(['sh', '-c', 'echo {}; exec sleep 600'])",
        "threading.Thread(target=lambda: [print('{}', flush=True) for _ in range(9999)]).start()",
        "print('{}', file=sys.__stdout__, flush=True)",
    ],
)
def test_a_forked_child_of_a_class_has_no_part_in_the_exchange(tmp_path: Path, example: Loaded, deed: str) -> None:
    (tmp_path / "mine.py").write_text(CLASS.replace("DEED", deed))
    assert asked(f"{tmp_path}/mine.py:Mine", example) == WHOLE


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_a_forked_child_holds_no_end_of_the_channel(tmp_path: Path, example: Loaded) -> None:
    look = (
        "os.fork() or (open(FILE, 'w').write(' '.join(os.readlink(f'/proc/self/fd/{n}') for n in (3, 4))), os._exit(0))"
    )
    (tmp_path / "mine.py").write_text(CLASS.replace("DEED", look).replace("FILE", repr(str(tmp_path / "ends"))))
    asked(f"{tmp_path}/mine.py:Mine", example)
    assert (tmp_path / "ends").read_text() == "/dev/null /dev/null"
