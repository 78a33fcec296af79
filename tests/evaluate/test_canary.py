"""The gold firewall at run time: what is planted in gold fields must not be seen in any prompt before judging."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from beam_memories.own_memory import OwnMemory
from beam_offline import OfflineModel
from beamlib.data.conversations import Conversation
from beamlib.data.gold import Gold
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import find_conversations
from beamlib.evaluate.answering import Questions, answer_arms, answer_questions, answers_to, ask_arm
from beamlib.evaluate.arms import Arm, arms_of, experiments
from beamlib.evaluate.jobs import AnswerJob, UnitWork, perform_job
from beamlib.evaluate.judging import evidence_of
from beamlib.llm.model import Completion, ModelRoles, Prompt, run
from beamlib.memory import Memory, RetrievedContext
from beamlib.params import load_parameters
from beamlib.processes import process_pool
from beamlib.run import Run
from beamlib.scoring.judge import ToJudge, judge_answers

CANARY = "zqcanary"


class Recorder:
    """A model that passes every prompt on and keeps what was in it."""

    name = "recorder"

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.model = OfflineModel()

    async def complete(self, prompt: Prompt) -> Completion:
        self.seen += [message["content"] for message in prompt.messages]
        return await self.model.complete(prompt)


def planted(value: object, counter: Iterator[int]) -> object:
    """`value` with a canary in every string but the question itself."""
    if isinstance(value, str):
        return f"{value} {CANARY}{next(counter)}"
    if isinstance(value, list):
        return [planted(item, counter) for item in value]
    if isinstance(value, Mapping):
        return {key: item if key == "question" else planted(item, counter) for key, item in value.items()}
    return value


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> Loaded:
    """The built-in example with a canary in every gold field."""
    folder = tmp_path_factory.mktemp("data")
    shutil.copytree(repo_root / "beamlib/data/example", folder, dirs_exist_ok=True)
    path = folder / "100K/1/probing_questions/probing_questions.json"
    counter = iter(range(10_000))
    path.write_text(json.dumps(planted(json.loads(path.read_text()), counter)))
    assert next(counter) > 150  # every string of every gold field was changed
    loaded = load(find_conversations(folder)[0])
    assert all(CANARY in nugget for gold in loaded.gold.values() for nugget in gold.rubric)
    assert not any(CANARY in probe.question for probe in loaded.probes)
    return loaded


def leaks(recorder: Recorder) -> list[str]:
    return [text for text in recorder.seen if CANARY in text]


def test_no_arm_shows_gold_to_a_model(poisoned: Loaded, repo_root: Path) -> None:
    parameters = Run.of(load_parameters(repo_root / "params/100k.yaml"))
    arms = arms_of(parameters, experiments(parameters))
    evidence, recorder = evidence_of(poisoned), Recorder()
    roles = ModelRoles.of(recorder)
    answers = answer_arms(arms, poisoned.conversation, poisoned.probes, parameters, roles, evidence)
    assert {name: len(of_arm) for name, of_arm in answers.items()} == {arm.name: 20 for arm in arms}
    assert len(recorder.seen) > 20 * len(arms)
    assert leaks(recorder) == []


class Leaky:
    """A memory that was handed what it must not have."""

    name = "leaky"

    def __init__(self, rubric: str) -> None:
        self.rubric = rubric

    def ingest(self, conversation: Conversation) -> None:
        self.conversation = conversation

    def recall(self, question: str) -> RetrievedContext:
        return RetrievedContext(self.rubric)


def test_a_planted_leak_is_found(poisoned: Loaded, repo_root: Path) -> None:
    parameters = Run.of(load_parameters(repo_root / "params/100k.yaml"))
    memory: Memory = Leaky(poisoned.gold[poisoned.probes[0].id].rubric[0])
    memory.ingest(poisoned.conversation)
    recorder = Recorder()
    run(answers_to(ask_arm(Arm(memory="none"), poisoned.probes, memory, parameters, poisoned.conversation), recorder))
    assert leaks(recorder)


def test_the_judge_does_see_gold(poisoned: Loaded) -> None:
    """The canary reaches the judge, so the test above would see it if it went anywhere else."""
    probe, recorder = poisoned.probes[0], Recorder()
    judge_answers([ToJudge(probe.question, "No idea.", None, poisoned.gold[probe.id])], recorder, recorder)
    assert leaks(recorder)


HUNTER = """
import gc, json, os, re, sys
from pathlib import Path
from beamlib.memory import Recollection

PLANTED = re.compile(rb"zqcanar[y][0-9]+")

def frames():
    frame = sys._getframe()
    while frame is not None:
        yield repr((frame.f_globals, frame.f_locals))
        frame = frame.f_back

def regions():
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            if " rw" in line:
                first, last = (int(one, 16) for one in line.split()[0].split("-"))
                try:
                    memory.seek(first)
                    yield memory.read(last - first)
                except (OSError, ValueError, OverflowError):
                    pass

def objects():
    for one in gc.get_objects():
        yield type(one).__name__
        yield from (item for item in gc.get_referents(one) if isinstance(item, str))

class Hunter:
    name = "hunter"
    def ingest(self, conversation): self.said = conversation.pairs[-1].user.content
    def recall(self, question):
        texts = [*frames(), *objects(), repr(sys.argv), repr(os.environ)]
        places = {"objects": " ".join(texts).encode(errors="replace"), "modules": repr(sys.modules).encode()}
        if os.path.exists("/proc/self/mem"):
            places["memory"] = b"".join(regions())
        found = {name: len(PLANTED.findall(held)) for name, held in places.items()}
        found["gold"] = b" Gold " in places["objects"] or b"beamlib.data.gold" in places["modules"]
        found["conversation"] = [name for name in places if self.said[:40].encode() in places[name]]
        return Recollection(json.dumps(found))
"""


def test_a_memory_of_ones_own_finds_no_gold_wherever_it_looks(poisoned: Loaded, tmp_path: Path) -> None:
    """Its process is begun by one that holds gold, here that of the tests; it does find the conversation."""
    (tmp_path / "hunter.py").write_text(HUNTER)
    with OwnMemory(f"{tmp_path}/hunter.py:Hunter", 60, 10_000) as memory:
        memory.ingest(poisoned.conversation)
        found = json.loads(memory.recall(poisoned.probes[0].question).context)
    assert found.pop("conversation")[0] == "objects"
    assert not any(found.values()), found


def held() -> tuple[int, int]:
    """How much gold, and how many texts with a canary, the process holds."""
    objects = gc.get_objects()
    texts = [item for one in objects for item in gc.get_referents(one) if isinstance(item, str)]
    return sum(isinstance(one, Gold) for one in objects), sum(f"{CANARY}1" in text for text in texts)


def test_a_process_that_answers_holds_no_gold(poisoned: Loaded, repo_root: Path) -> None:
    parameters = Run.of(load_parameters(repo_root / "params/100k.yaml"))
    arms = (Arm(memory="none"), Arm(memory="rag", retriever="bm25", k=2))
    with process_pool(1) as pool:
        work = UnitWork(poisoned.conversation.id, Questions(poisoned.conversation, poisoned.probes), arms, 40)
        ((_, by_arm),) = pool.submit(perform_job, AnswerJob((work,), answer_questions, parameters)).result().items()
        assert [len(records["answers"]) for records in by_arm.values()] == [20, 20]
        assert pool.submit(held).result() == (0, 0)
    gold, texts = held()
    assert gold >= 20
    assert texts
