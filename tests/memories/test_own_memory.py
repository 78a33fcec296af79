"""A memory of one's own stands in the same tables, and what it does wrong is told as its own fault."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_commands.options import absolute_target
from beam_memories.own_memory import OwnMemory, available_memories, check_own_memory
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm, experiments, own_arm
from beamlib.evaluate.run import BEAM, evaluate, evaluate_experiment
from beamlib.evaluate.runner import plan_task, run_task
from beamlib.llm.endpoints import load_models
from beamlib.llm.model import ModelError, Outcome
from beamlib.params import RunParameters, load_parameters
from beamlib.places import PARAMS
from beamlib.report.results import results
from beamlib.run import Run
from scripted_server import ScriptedServer
from steady_replies import one_endpoint

NEWEST = """
from beamlib.memory import Recollection, passage

class Newest:
    name = "newest"
    def ingest(self, conversation): self.last = conversation.pairs[-1]
    def recall(self, question): return Recollection.of([passage(self.last)])

class Broken(Newest):
    def recall(self, question): return 1 / 0

class Unread(Newest):
    def ingest(self, conversation): raise OSError("no index")

class Wrong(Newest):
    def recall(self, question): return "text"

class Inventive(Newest):
    def recall(self, question): return Recollection("text", (10_000,))

class Rewritten(Newest):
    def ingest(self, conversation):
        super().ingest(conversation)
        open(__file__, "a").write("# saved while the run is at work")

class Deleted(Newest):
    def ingest(self, conversation):
        super().ingest(conversation)
        __import__("os").unlink(__file__)

class Unnamed:
    def ingest(self, conversation): pass

class Picky:
    def __init__(self, size): pass
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(NEWEST)
    return tmp_path / "mine.py"


def parameters(file: Path, name: str, root: Path) -> RunParameters:
    return load_parameters(
        root / "params/100k.yaml",
        data=str(root / "beamlib/data/example"),
        run=str(file.parent / "run"),
        own_memory=f"{file}:{name}",
        workers=1,
    )


@pytest.mark.usefixtures("in_this_process")
def test_it_stands_in_the_main_table(file: Path, repo_root: Path) -> None:
    found = results(evaluate_experiment(parameters(file, "Newest", repo_root), "main"))
    assert found is not None
    assert "own-newest" in set(found.summary["series"])
    assert found.footer.unscored == 0
    assert all(answer.message_ids == (24, 25) for answer in found.evaluation.answers["own-newest"])


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('name = "tidy"', "own-tidy"),
        ('name: str = "tidy-2"', "own-tidy-2"),
        ('name = "a" + "b"', "own-ab"),
        ("name = property(lambda self: f'{type(self).__name__.lower()}-3')", "own-memory-3"),
        ('name = "../up"', "own-Memory"),
        ("name = 3", "own-Memory"),
        ("pass", "own-Memory"),
        ("name = (", "own-Memory"),
    ],
)
def test_the_arm_bears_the_name_that_the_memory_gives_itself(line: str, name: str, tmp_path: Path) -> None:
    """Its process tells it, whatever way the class comes to it."""
    methods = "    def ingest(self, conversation): pass\n    def recall(self, question): pass\n"
    (tmp_path / "mine.py").write_text(f"class Memory:\n    {line}\n{methods}")
    assert own_arm(f"{tmp_path}/mine.py:Memory").name == name
    assert "called" not in Arm(memory="own", target="mine.py:Memory").model_dump()


def test_a_name_that_was_told_is_not_asked_for_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of `own_memory` that a command hands on carries it, for the notebooks of the run too."""
    told = available_memories(f"{file}:Newest", 60)
    assert told == f"newest={file}:Newest"
    assert available_memories(f"mine={file}:Newest", 60) == f"mine={file}:Newest"
    monkeypatch.setattr("beam_memories.own_memory.OwnMemory", None)  # starting it would fail
    arms = experiments(load_parameters(PARAMS / "100k.yaml", own_memory=told))["main"]
    assert [arm.name for arm in arms if arm.memory == "own"] == ["own-newest"]
    assert [arm.target for arm in arms if arm.memory == "own"] == [f"{file}:Newest"]


def test_a_path_with_an_equals_sign_is_a_path(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = file.parent / "a=b"
    folder.mkdir()
    file.rename(folder / "mine.py")
    monkeypatch.chdir(file.parent)
    assert absolute_target("a=b/mine.py:Newest") == f"{folder}/mine.py:Newest"
    assert absolute_target("tidy=a=b/mine.py:Newest") == f"tidy={folder}/mine.py:Newest"


@pytest.mark.usefixtures("in_this_process")
def test_a_changed_file_is_asked_again(file: Path, repo_root: Path) -> None:
    chosen = parameters(file, "Newest", repo_root)
    first = evaluate(chosen, _own(chosen), quiet=True)
    file.write_text(NEWEST.replace("pairs[-1]", "pairs[0]"))
    second = evaluate(chosen, _own(chosen), quiet=True)
    assert first.answers["own-newest"][0].message_ids == (24, 25)
    assert second.answers["own-newest"][0].message_ids == (0, 1)


@pytest.mark.usefixtures("in_this_process")
def test_a_file_that_changes_during_the_run_does_not_vouch_for_its_answers(file: Path, repo_root: Path) -> None:
    chosen = parameters(file, "Rewritten", repo_root)
    at_first = BEAM.store(_own(chosen)[0], Run.of(chosen)).key("answers")
    first = evaluate(chosen, _own(chosen), quiet=True)
    assert first.manifests["own-newest"].answers_key == at_first
    file.write_text(NEWEST.replace("pairs[-1]", "pairs[0]"))
    second = evaluate(chosen, _own(chosen), quiet=True)
    assert second.answers["own-newest"][0].message_ids == (0, 1)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("outside", ["class", "process"])
def test_code_that_is_edited_after_planning_answers_nothing(outside: str, file: Path, repo_root: Path) -> None:
    """No answer is recorded under the hash of other code than made it."""
    chosen = parameters(file, "Newest", repo_root)
    if outside == "process":
        module = "import sys; from beam_memories.own_process import main; main(sys.argv[1], 'Newest')"
        command = f"{sys.executable} -c {shlex.quote(module)} {file}"
        chosen = chosen.model_copy(update={"own_memory": f"process:mine:{command}"})
    plan = plan_task(BEAM, chosen, _own(chosen), quiet=True)
    file.write_text(NEWEST.replace("pairs[-1]", "pairs[0]"))
    run_task(plan, quiet=True)
    (answers,) = (own for arm in plan.arms for own in plan.records(arm).values())
    assert all("its code was edited after the run began; run again" in answer.unscored for answer in answers)
    file.write_text(NEWEST)
    assert plan_task(BEAM, chosen, _own(chosen), quiet=True).pending


@pytest.mark.usefixtures("in_this_process")
def test_code_that_is_edited_between_two_conversations_answers_the_first_alone(file: Path, repo_root: Path) -> None:
    for number in "12":
        shutil.copytree(repo_root / "beamlib/data/example/100K/1", file.parent / f"data/100K/{number}")
    chosen = parameters(file, "Rewritten", repo_root).model_copy(update={"data": str(file.parent / "data")})
    answers = evaluate(chosen, _own(chosen), quiet=True).answers["own-newest"]
    edited = [answer.conversation_id for answer in answers if "was edited" in (answer.unscored or "")]
    assert edited == ["100K-2"] * 20 and all(a.text for a in answers if a.conversation_id == "100K-1")
    assert not any(answer.unscored for answer in evaluate(chosen, _own(chosen), quiet=True).answers["own-newest"][:20])


@pytest.mark.usefixtures("in_this_process")
def test_a_file_that_goes_during_the_run_costs_nothing(file: Path, repo_root: Path) -> None:
    chosen = parameters(file, "Deleted", repo_root)
    arms = [Arm(memory="none"), *_own(chosen)]
    found = evaluate(chosen, arms, quiet=True)
    assert not any(answer.unscored for answers in found.answers.values() for answer in answers)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Broken", "recall raised ZeroDivisionError"),
        ("Unread", "ingest raised OSError: no index"),
        ("Wrong", "recall returned str, not a Recollection"),
        ("Inventive", "names message 10000"),
    ],
)
def test_a_failure_is_unscored_with_its_reason(file: Path, repo_root: Path, name: str, reason: str) -> None:
    chosen = parameters(file, name, repo_root)
    found = evaluate(chosen, _own(chosen), quiet=True)
    assert all(answer.text is None and reason in str(answer.unscored) for answer in found.answers["own-newest"])
    assert all(judgement.unscored for judgement in found.judgements["own-newest"])


@pytest.mark.slow
def test_the_example_of_the_how_to_runs_as_it_stands(tmp_path: Path, repo_root: Path) -> None:
    page = (repo_root / "docs" / "own-memory.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    assert len(example.splitlines()) < 25
    (tmp_path / "overlap.py").write_text(example)
    chosen = parameters(tmp_path / "overlap.py", "Overlap", repo_root)
    found = results(evaluate_experiment(chosen, "main"))
    assert found is not None
    average = found.evidence[found.evidence["ability"] == "average"].set_index("series")["mean"]
    assert average["none"] < average["own-overlap"] < average["oracle"]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("mine.py", "not of the form"),
        ("nowhere.py:Newest", "does not exist"),
        ("{file}:Missing", "AttributeError"),
        ("{file}:Unnamed", "has no 'name'"),
        ("{file}:Picky", "TypeError"),
    ],
)
def test_a_mistake_is_one_sentence(file: Path, target: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        check_own_memory(target.format(file=file), seconds=60)


def test_it_has_to_be_known_how_wide_vectors_are(file: Path, tmp_path: Path) -> None:
    with ScriptedServer() as server:
        models = one_endpoint(server, tmp_path / "models.yaml", attempts=1)
        with pytest.raises(UserError, match=r"models.yaml: 'embedding.dimensions' is missing; add how many numbers"):
            check_own_memory(f"{file}:Newest", 60, load_models(models))
        check_own_memory(f"{file}:Newest", 60, load_models(one_endpoint(server, models, dimensions=32)))


WINDOW = 1_000

HOSTILE = """
import ctypes, os, re, signal, subprocess, sys, threading, time
from beamlib.memory import Recollection, passage

class Text(str):
    __str__ = __repr__ = __len__ = encode = lambda self, *_: 1 / 0

class Unshown(BaseException):
    __str__ = __repr__ = lambda self: sys.exit()

class Code:
    __reduce__ = lambda self: (open, (__file__ + ".opened", "w"))

def leave(error): raise error

def deeper(): return deeper()

def endless():
    while True: yield 1

def prints():
    print("aloud")
    os.write(1, b"{}\\n\\x1b[31mred")
    return Recollection(sys.stdin.read() + "fine")

def works_on():
    threading.Thread(target=lambda: list(endless())).start()
    return Recollection(str(subprocess.Popen(["sleep", "600"]).pid))

def forged():
    for channel in range(3, 30):
        try: os.write(channel, b"nonsense\\n")
        except OSError: pass

class Hostile:
    name = "hostile"
    def ingest(self, conversation):
        for message in conversation: object.__setattr__(message, "content", "changed")
    def recall(self, question): return eval(question)
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("hostile") / "hostile.py"
    file.write_text(HOSTILE)
    return f"{file}:Hostile"


@pytest.fixture(scope="module")
def example(repo_root: Path) -> Loaded:
    return load(find_conversations(repo_root / "beamlib/data/example")[0])


@pytest.fixture(scope="module")
def survivor(hostile: str, example: Loaded) -> Iterator[OwnMemory]:
    """One process for all that does not end it."""
    with OwnMemory(hostile, 60, WINDOW) as memory:
        memory.ingest(example.conversation)
        yield memory


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("sys.exit()", "recall raised SystemExit"),
        ("signal.raise_signal(signal.SIGINT)", "recall raised KeyboardInterrupt"),
        ("leave(Unshown)", "an exception that cannot be shown"),
        ("deeper()", "recall raised RecursionError"),
        (r"leave(ValueError('\x1b[2J\u202e' + 'long' * 1000))", r"ValueError: \\x1b\[2J\\u202elong.{150,270}\.\.\.$"),
        ("Code()", "recall returned Code"),
        ("Recollection(Code())", "what no JSON can carry"),
        ("Recollection(3)", "context: Input should be a valid string"),
        (r"Recollection('\udc80')", "what no JSON can carry"),
        ("Recollection('', ('a',))", "message_ids.0: Input should be a valid integer"),
        ("Recollection('', (10**5000,))", "what no JSON can carry"),
        ("Recollection('', (), {'a': (999,)})", "names message 999"),
        ("Recollection('', (), {'a' * 99: (1,)})", "no short text of one line"),
        (r"Recollection('', (), {'a\n': (1,)})", "no short text of one line"),
        ("Recollection('', ['a'] * 100_000)", "message_ids.0: Input should be a valid integer"),
        ("Recollection('', (), {str(i): 'a' for i in range(101)})", "parts: .*more than 100"),
        ("Recollection('word ' * 1001)", "context length: .* has 1,001 tokens, and the reader accepts 1,000"),
    ],
)
def test_what_a_memory_raises_or_returns_is_a_reason(survivor: OwnMemory, hostile: str, deed: str, reason: str) -> None:
    with pytest.raises(ModelError) as caught:
        survivor.recall(deed)
    assert re.search(reason, caught.value.reason)
    assert caught.value.reason.isprintable()
    assert not list(Path(hostile).parent.glob("*.opened"))


@pytest.mark.parametrize(
    ("deed", "context"),
    [("prints()", "fine"), ("Recollection(Text('text'))", "text"), ("Recollection('a', (1, 1, 0))", "a")],
)
def test_what_does_no_harm_is_taken(survivor: OwnMemory, deed: str, context: str) -> None:
    found = survivor.recall(deed)
    assert found.context == context
    assert type(found.context) is str
    assert len(set(found.message_ids)) == len(found.message_ids)


@pytest.mark.quick(
    "os.kill(os.getpid(), 9)-its process ended (Killed)",
    "leave(BrokenPipeError('the database is gone'))-recall raised BrokenPipeError",
)
@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("os._exit(0)", "its process ended (exit code 0)"),
        ("os.kill(os.getpid(), 9)", "its process ended (Killed)"),
        ("os.fork() and os._exit(3) or time.sleep(600)", "its process ended (exit code 3)"),
        ("Recollection('x' * 2**25)", "its reply has more than 16,777,216 bytes"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", "it took more than 1 seconds"),
        ("list(endless())", "it took more than 1 seconds"),
        ("leave(BrokenPipeError('the database is gone'))", "recall raised BrokenPipeError"),
    ],
)
def test_a_lost_process_costs_one_question(hostile: str, example: Loaded, deed: str, reason: str) -> None:
    """The question is repeated once; its successors go to a new process that has read the conversation."""
    with OwnMemory(hostile, 1 if "more than 1 sec" in reason else 60, WINDOW) as memory:
        memory.ingest(example.conversation)
        with pytest.raises(ModelError, match=re.escape(reason)) as caught:
            memory.recall(deed)
        assert caught.value.resent == ("16,777,216" not in reason)
        assert memory.recall("Recollection('', (1,))").message_ids == (1,)


def test_a_process_killed_once_costs_nothing(file: Path, example: Loaded) -> None:
    mark = file.with_name("killed")
    kill = f"""
        import os
        if not os.path.exists({str(mark)!r}):
            open({str(mark)!r}, "w").close()
            os.kill(os.getpid(), 9)
    """
    for method in ("def ingest(self, conversation): ", "def recall(self, question): "):
        mark.unlink(missing_ok=True)
        file.write_text(NEWEST.replace(method, f"{method}{kill}    ", 1))
        with OwnMemory(f"{file}:Newest", 60, WINDOW) as memory:
            memory.ingest(example.conversation)
            assert memory.recall("What came last?").message_ids == (24, 25)
        assert mark.exists()


def test_questions_after_four_lost_processes_are_not_asked(hostile: str, example: Loaded) -> None:
    with OwnMemory(hostile, 60, WINDOW) as memory:
        memory.ingest(example.conversation)
        for reason in ("exit code 7", "exit code 7", "not asked, 4 processes were lost"):
            with pytest.raises(ModelError, match=reason) as caught:
                memory.recall("os._exit(7)")
            assert caught.value.outcome is Outcome.LOST


def test_what_it_writes_to_every_channel_is_no_reply(hostile: str) -> None:
    with OwnMemory(hostile, 60, WINDOW) as memory:
        with pytest.raises(ModelError, match="recall returned NoneType, not a Recollection"):
            memory.recall("forged()")
        assert memory.recall("Recollection('next')").context == "next"


def test_a_reading_takes_no_longer_than_it_may(file: Path, example: Loaded) -> None:
    file.write_text(NEWEST.replace("self.last = conversation.pairs[-1]", "[0 for _ in iter(int, 1)]"))
    with (
        OwnMemory(f"{file}:Newest", 1, WINDOW) as memory,
        pytest.raises(ModelError, match="ingest: it took more than 1 seconds"),
    ):
        memory.ingest(example.conversation)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_nothing_that_it_began_goes_on(hostile: str, capfd: pytest.CaptureFixture[str]) -> None:
    with OwnMemory(hostile, 60, WINDOW) as memory:
        assert memory.recall("prints()").context == "fine"
        child = memory.recall("works_on()").context
        assert Path(f"/proc/{child}").exists()
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or ") Z" in Path(f"/proc/{child}/stat").read_text():
            break
        time.sleep(0.05)
    else:
        raise AssertionError("what the memory began is still there")
    printed, told = capfd.readouterr()
    assert printed == ""
    assert "aloud" in told
    assert "\x1b" not in told


PARENT = """
import sys
from beam_memories.own_memory import OwnMemory
with OwnMemory(sys.argv[1], 600, 9) as memory:
    print(memory.recall("Recollection(str(os.getpid()))").context, flush=True)
    memory.recall(sys.argv[2])
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_it_does_not_outlive_a_killed_run(hostile: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, hostile, "re.match('(a+)+b', 'a' * 99)"], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    process = Path(f"/proc/{parent.stdout.readline().strip()}")
    assert process.exists()
    parent.kill()
    parent.wait()
    for _ in range(200):
        if not process.exists() or ") Z" in (process / "stat").read_text():
            return
        time.sleep(0.05)
    raise AssertionError("the memory's process is still there")


@pytest.mark.usefixtures("in_this_process")
def test_a_memory_loses_its_own_arm_only(hostile: str, file: Path, repo_root: Path) -> None:
    """It changes the conversation that it reads and then kills its process, which is none of the others' business."""
    file.write_text(HOSTILE.replace("return eval(question)", "os._exit(0)"))
    chosen = parameters(file, "Hostile", repo_root)
    rag = Arm(memory="rag", retriever="bm25", k=2)
    found = evaluate(chosen, [*_own(chosen), rag], quiet=True)
    assert {answer.unscored for answer in found.answers["own-hostile"]} == {
        "memory lost: Hostile: recall: its process ended (exit code 0)",
        "memory lost: Hostile: not asked, 4 processes were lost (Hostile: recall: its process ended (exit code 0))",
    }
    assert all(answer.transient for answer in found.answers["own-hostile"])
    other = chosen.model_copy(update={"run": f"{chosen.run}-without"})
    assert evaluate(other, [rag], quiet=True).answers[rag.name] == found.answers[rag.name]


def test_another_time_limit_asks_again(file: Path, repo_root: Path) -> None:
    chosen = parameters(file, "Newest", repo_root)
    (own,) = _own(chosen)
    rag = Arm(memory="rag", retriever="bm25", k=2)
    longer = chosen.model_copy(update={"memory_timeout": 7200})
    assert BEAM.store(own, Run.of(chosen)).key("answers") != BEAM.store(own, Run.of(longer)).key("answers")
    assert BEAM.store(rag, Run.of(chosen)).key("answers") == BEAM.store(rag, Run.of(longer)).key("answers")


def _own(chosen: RunParameters) -> list:  # type: ignore[type-arg]
    from beamlib.evaluate.arms import experiments

    return [arm for arm in experiments(chosen)["main"] if arm.memory == "own"]
