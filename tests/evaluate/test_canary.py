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
from beamlib.errors import UserError
from beamlib.evaluate.answering import Questions, answer_arms, answer_questions, answers_to, ask_arm
from beamlib.evaluate.arms import Arm, arms_of, experiments
from beamlib.evaluate.jobs import AnswerJob, JudgeJob, UnitWork, admit, perform_job
from beamlib.evaluate.judging import evidence_of, judge_arms
from beamlib.evaluate.roster import JUDGES
from beamlib.llm.door import Door
from beamlib.llm.model import Completion, ModelRoles, Prompt, attempt_all, run
from beamlib.memory import Memory, RetrievedContext
from beamlib.params import load_parameters
from beamlib.processes import process_pool
from beamlib.run import Run
from beamlib.scoring.judge import ToJudge, judge_answers
from scripted_server import ScriptedServer
from steady_replies import one_endpoint, steady_reply

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


BURGLAR = """
import json, os, re, urllib.error, urllib.request
from pathlib import Path
from beamlib.memory import Recollection

def status(url, body=None):
    request = urllib.request.Request(url, body, {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0

class Burglar:
    name = "burglar"
    def ingest(self, conversation): pass
    def recall(self, question):
        own = int(os.environ["OPENAI_BASE_URL"].rpartition(":")[2].partition("/")[0])
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        listening = {int(line.split()[1].split(":")[1], 16) for line in lines if line.split()[3] == "0A"} - {own}
        body = json.dumps({"model": "judge", "messages": [{"role": "user", "content": question}]}).encode()
        found = {"judge here": status(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)}
        for port in DOORS & listening:
            found["door"] = status(f"http://127.0.0.1:{port}/calls")
        return Recollection(json.dumps(found))
"""


def test_the_door_carries_what_judges_are_shown_and_nobody_else_reaches_it(
    poisoned: Loaded, repo_root: Path, tmp_path: Path
) -> None:
    """A worker's token names no judge, not even for a stored reply, and a memory's is not known at the door."""
    unit, probe = poisoned.conversation.id, poisoned.probes[0]
    with ScriptedServer(steady_reply) as server, Door() as door, process_pool(2) as pool:
        port = int(door.base_url.rpartition(":")[2])
        (tmp_path / "burglar.py").write_text(f"DOORS = {{{port}}}\n{BURGLAR}")
        models = one_endpoint(server, tmp_path / "models.yaml")
        given = {"run": str(tmp_path / "run"), "models": str(models), "own_memory": f"{tmp_path}/burglar.py:Burglar"}
        run = Run.of(load_parameters(repo_root / "params/100k.yaml", **given, confirm_cost=True))
        asked = {"none": [ToJudge(probe.question, "No idea.", None, poisoned.gold[probe.id])]}
        judging = admit(door, JudgeJob(unit, asked, judge_arms, run), run)
        pool.submit(perform_job, judging).result()
        shown = [request.hash for request in server.requests if CANARY in json.dumps(request.body)]
        assert shown  # the started process has sent gold, and its call store has what was replied to it

        arms = tuple(arm for arm in experiments(run)["main"] if arm.memory == "own")
        work = UnitWork(unit, Questions(poisoned.conversation, poisoned.probes[:1]), arms, 1)
        answering = admit(door, AnswerJob((work,), answer_questions, run), run)
        with process_pool(1) as answerers:
            ((_, by_arm),) = answerers.submit(perform_job, answering).result().items()
            assert answerers.submit(held).result() == (0, 0)
        assert [answer.unscored for own in by_arm.values() for answer in own["answers"]] == [None]
        contexts = [str(request.body["messages"][-1]["content"]) for request in server.requests[len(shown) :]]
        assert any('{"judge here": 404, "door": 401}' in context for context in contexts), contexts
        assert not any(CANARY in context for context in contexts)
        assert answering.entrance is not None and judging.entrance is not None
        seen = Prompt("judge_nugget", {"question": probe.question, "nugget": "a nugget", "answer": "No idea."})
        for entrance, roles in ((answering.entrance, JUDGES), (judging.entrance, ("reader", "memory"))):
            with entrance.open(unit) as model:
                for role in roles:
                    with pytest.raises(UserError, match="this token is for other calls"):
                        attempt_all(model(role, "scripted"), [seen])
