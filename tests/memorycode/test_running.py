"""MemoryCode as a task: what is asked of whom, the authors' layout, and what its commands say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beam_commands.task_runs import TaskOptions, run_command, score_command
from beam_memorycode.dialogue_files import LoadedDialogue
from beam_memorycode.dialogues import Dialogue, DialogueSession, Mention, Setting, Topic
from beam_memorycode.generating import GenerateOptions, generate_dialogues
from beam_memorycode.outputs import read_outputs
from beam_memorycode.rules import DialogueRules
from beam_memorycode.running import (
    MEMORY_SETUPS,
    OTHER_UNITS,
    SETUPS,
    RetrievalUnit,
    SharedQueries,
    answer_shared,
    best_units,
    retrieval_units,
    run_dialogue,
)
from beam_memorycode.task import MEMORYCODE, NO_TEXTS, choose_dialogues, dialogue_unit
from beamlib.errors import UserError
from beamlib.evaluate.calling import open_models
from beamlib.evaluate.runner import plan_task, run_task
from beamlib.evaluate.task import TaskPlan
from beamlib.llm.model import OFFLINE_NAME, Completion, ModelError, ModelRoles, Outcome, Prompt
from beamlib.params import RunParameters, load_parameters
from beamlib.run import Run
from scripted_server import ScriptedServer, vectors
from steady_replies import one_endpoint, steady_reply

pytestmark = pytest.mark.usefixtures("file_in_this_process")

REFUSED = "Heap class"
OWN = """from beamlib.memory.protocol import Recollection, passage
class Newest:
    name = "newest"
    def ingest(self, conversation): self.last = conversation.pairs[-1]
    def recall(self, question): return Recollection.of([passage(self.last)])
"""


def dialogue(number: int, *, sessions: int = 2, texts: bool = True) -> Dialogue:
    """Sessions that give and change one instruction, with a second one in the last; two queries in the end."""
    made = []
    for place in range(sessions):
        said = [(f"always start variable names with '{'qkx'[place % 3]}_'", 9, place, "function over graphs")]
        said += [("always use the decorator @timer for classes", 40, 0, REFUSED)] if place == sessions - 1 else []
        lines = [f"Ruth: From now on, {value}.\n\nBjörn: Understood, number {number}." for value, *_ in said]
        made.append(
            DialogueSession(
                tuple(Topic("instruction-add", value) for value, *_ in said),
                tuple(Mention(instruction, value) for _, instruction, value, _ in said),
                tuple(query for *_, query in said),
                "short",
                text="\n\n".join(lines) if texts else None,
            )
        )
    return Dialogue(number, Setting("Ruth", "Björn", "Halden"), tuple(made), ("function over graphs", REFUSED))


DIALOGUES = [dialogue(1), dialogue(2), dialogue(3, texts=False)]


def item(one: Dialogue) -> LoadedDialogue:
    return LoadedDialogue(one, DialogueRules(one.id, (), ()))


def parameters(root: Path, run: Path, **changes: Any) -> RunParameters:
    fixed = {"run": str(run), "workers": 1, "confirm_cost": True, "retriever": "bm25", "k": 2}
    return load_parameters(root / "params" / "100k.yaml", **{**fixed, **changes})


class Counted:
    """A model that replies with the number of the call, keeps every note, and keeps the prompts."""

    name = "counted"

    def __init__(self, fails: str = "") -> None:
        self.prompts: list[Prompt] = []
        self.fails = fails

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        if self.fails and self.fails in prompt.messages[-1]["content"]:
            raise ModelError("no such luck", Outcome.FILTERED)
        return Completion("yes" if prompt.id == "scratchpad_filter" else f"reply {len(self.prompts)}")


# One dialogue


def test_equal_prompts_of_many_dialogues_are_one_call() -> None:
    reader = Counted()
    shared = SharedQueries(tuple((one, ("instruction", "alone")) for one in DIALOGUES))
    records = {setup: own["answers"] for setup, own in answer_shared(shared, reader).items()}
    assert len(reader.prompts) == 3 + 2  # values with their query, and queries
    texts = {n: [a.text for a in records["instruction"] if a.conversation_id == f"dialogue_{n}"] for n in (1, 2, 3)}
    assert texts[1] == texts[2] == texts[3] and len(set(texts[1])) == 3
    assert [answer.conversation_id for answer in records["alone"]].count("dialogue_2") == 2
    assert len({answer.probe_id for own in records.values() for answer in own}) == 3 * (3 + 2)


def test_a_memory_sees_the_talk_and_the_question_and_nothing_else(repo_root: Path, tmp_path: Path) -> None:
    (tmp_path / "spy.py").write_text(
        "import json\nfrom beamlib.memory.protocol import Recollection\n"
        f"class Spy:\n    name = 'spy'\n    def ingest(self, c): self.seen = [repr(c)]\n"
        f"    def recall(self, q):\n        self.seen.append(q)\n"
        f"        open({str(tmp_path / 'seen')!r}, 'w').write(json.dumps(self.seen))\n        return Recollection('')\n"
    )
    given = Run.of(parameters(repo_root, tmp_path / "run", own_memory=f"{tmp_path / 'spy.py'}:Spy"))
    one = dialogue(1)
    secret = (Topic("instruction-add", "CANARY value"), *one.sessions[0].topics)
    marked = Dialogue(
        1,
        one.context,
        (DialogueSession(secret, (), ("CANARY query",), "short", 17, one.sessions[0].text),),
        one.queries,
    )
    run_dialogue(marked, ["own"], given, ModelRoles.of(Counted()))
    conversation, *questions = json.loads((tmp_path / "seen").read_text())
    assert "CANARY" not in conversation + "".join(questions)
    assert "number 1" in conversation
    assert [re.search(r"Write a (.+), following all the newest", question)[1] for question in questions] == list(
        one.queries
    )


def test_sessions_are_found_by_an_endpoint_or_the_reason_is_given(repo_root: Path, tmp_path: Path) -> None:
    def empty(body: dict[str, Any]) -> dict[str, Any]:
        return vectors(body) | {"data": [{"embedding": []}] * len(body["input"])}

    answers = {}
    for name, embed in (("vectors", vectors), ("empty", empty)):
        with ScriptedServer(lambda _: "code", embed=embed) as server:
            models = str(one_endpoint(server, tmp_path / f"{name}.yaml", attempts=1))
            changes = {"models": models, "encoder": "embedding", "retriever": "dense"}
            given = Run.of(parameters(repo_root, tmp_path / name, **changes))
            with open_models(given, "dialogue_1", suite="memorycode") as roster:
                answers[name] = run_dialogue(dialogue(1), ["retrieval"], given, roster)["retrieval"]
            sent = set(server.embedded)
            assert len(sent) == (4 if name == "vectors" else 2)  # two sessions, and then two queries
    assert all(answer.text for answer in answers["vectors"])
    assert all(
        "in 1 try, last: the answer has a vector without numbers" in (answer.unscored or "")
        for answer in answers["empty"]
    )
    assert all(answer.transient for answer in answers["empty"])


def reranked(server: ScriptedServer, folder: Path, **fields: Any) -> str:
    """A models file with the server in every role, `reranker` too."""
    path = one_endpoint(server, folder)
    role = {"model": "rerank-english-v3.0", "base_url": server.base_url, "context_window": 4_096}
    role |= {"attempts": 1, **fields}
    path.write_text(f"{path.read_text()}reranker: {json.dumps(role)}\n")
    return str(path)


@pytest.mark.parametrize("setup", ["retrieval", *OTHER_UNITS])
def test_an_endpoint_ranks_what_is_retrieved(setup: Any, repo_root: Path, tmp_path: Path) -> None:
    long = dialogue(1, sessions=3)
    with ScriptedServer(lambda _: "code") as server:
        given = Run.of(parameters(repo_root, tmp_path / "run", models=reranked(server, tmp_path / "m.yaml")))
        for _ in range(2):  # the second time from the call store
            with open_models(given, "dialogue_1", suite="memorycode") as roster:
                answers = run_dialogue(long, [setup], given, roster)[setup]
        ranked = [request.body for request in server.requests if request.path == "/v1/rerank"]
    assert [answer.text for answer in answers] == ["code", "code"]
    assert sorted(body["query"] for body in ranked) == sorted(long.queries)
    texts = [unit.text for unit in retrieval_units(long, setup)]
    assert all(body["documents"] == texts and body["top_n"] == 3 for body in ranked)
    assert {body["model"] for body in ranked} == {"rerank-english-v3.0"} and "temperature" not in str(ranked)


def test_the_best_by_score_are_shown_in_order_of_time_however_many_texts_there_are() -> None:
    class Last:
        """Ranks by the number that a text ends in, a thousand texts at most."""

        name = "last"

        async def complete(self, prompt: Prompt) -> Completion:
            body = json.loads(prompt.variables["body"])
            assert len(body["documents"]) <= 1_000
            results = [{"index": n, "relevance_score": int(t.split()[-1])} for n, t in enumerate(body["documents"])]
            return Completion(json.dumps({"results": results[::-1]}))

    units = [RetrievalUnit(0, f"turn {n * 7 % 2_500}") for n in range(2_500)]
    ((first, second, third),) = best_units(["heap"], dialogue(1, sessions=3), units, "bm25", reranker=Last())
    assert first < second < third
    assert {units[place].text for place in (first, second, third)} == {"turn 2499", "turn 2498", "turn 2497"}


@pytest.mark.parametrize("results", [[], [{"index": 0}], [{"index": 9, "relevance_score": 1.0}] * 2, [{"x": 1}]])
def test_a_wrong_ranking_leaves_its_queries_unscored(results: Any, repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(lambda _: "code", rerank=lambda _: {"results": results}) as server:
        given = Run.of(parameters(repo_root, tmp_path / "run", models=reranked(server, tmp_path / "m.yaml")))
        with open_models(given, "dialogue_1", suite="memorycode") as roster:
            answers = run_dialogue(dialogue(1), ["retrieval", "chain"], given, roster)
    assert all(answer.text is None and answer.unscored for answer in answers["retrieval"])
    assert all(answer.text == "code" for answer in answers["chain"])


def test_ranks_are_estimated_named_in_the_manifest_and_their_key_is_needed_there_alone(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANKER_KEY", raising=False)
    data = tmp_path / "data"
    generate_dialogues(GenerateOptions(data, counts=(2,)))
    with ScriptedServer(lambda _: "code") as server:
        models = reranked(server, tmp_path / "m.yaml", key_variable="RANKER_KEY", input_price=1.0)
        usual: dict[str, Any] = {"models": models, "most": 1, "settings": {"workers": 1}, "yes": True}
        run_command(MEMORYCODE, TaskOptions(data, tmp_path / "run", arms=["alone"], **usual))
        with pytest.raises(UserError, match="RANKER_KEY"):
            run_command(MEMORYCODE, TaskOptions(data, tmp_path / "run", arms=["retrieval"], **usual))
        assert "rerank-english-v3.0" in capsys.readouterr().out
        assert not [request for request in server.requests if request.path == "/v1/rerank"]
        monkeypatch.setenv("RANKER_KEY", "ranker-key-for-tests-only")
        monkeypatch.setattr("beamlib.llm.keys._kept", {})
        plan = run_command(MEMORYCODE, TaskOptions(data, tmp_path / "run", arms=["retrieval"], **usual))
        asked = [request for request in server.requests if request.path == "/v1/rerank"]
    assert asked and plan.stores["retrieval"].fields["settings"]["reranker"]["model"] == "rerank-english-v3.0"


def test_a_failed_call_is_no_answer_and_has_its_reason(repo_root: Path, tmp_path: Path) -> None:
    given = Run.of(parameters(repo_root, tmp_path))
    answers = run_dialogue(dialogue(1), ["history", "rag"], given, ModelRoles.of(Counted(fails=REFUSED)))
    for setup in ("history", "rag"):
        fine, failed = answers[setup]
        assert (fine.text is not None, fine.unscored) == (True, None)
        assert (failed.text, failed.unscored) == (None, "content filter: no such luck")


def test_light_reads_a_dialogue_once_and_filters_for_every_query(repo_root: Path, tmp_path: Path) -> None:
    memory, reader = Counted(), Counted()
    given = Run.of(parameters(repo_root, tmp_path))
    run_dialogue(dialogue(1), ["light"], given, ModelRoles(reader, memory, memory, memory, memory))
    steps = [prompt.id for prompt in memory.prompts]
    assert steps.count("episodic_keys") == steps.count("scratchpad_notes") == 3  # one per pair
    assert [prompt.id for prompt in reader.prompts] == ["memorycode_recalled"] * 2


# A run by the stand-in


@pytest.fixture(scope="module")
def offline(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> TaskPlan:
    root = tmp_path_factory.mktemp("offline")
    (root / "mine.py").write_text(OWN)
    given = parameters(repo_root, root / "run", own_memory=f"{root / 'mine.py'}:Newest")
    return ask(given)


def ask(given: RunParameters, setups: Any = SETUPS) -> TaskPlan:
    plan = plan_task(MEMORYCODE, given, setups, units=[dialogue_unit(item(one)) for one in DIALOGUES])
    run_task(plan, quiet=True)
    MEMORYCODE.finish(plan)
    return plan


def test_answers_lie_in_the_authors_layout_and_read_back(offline: TaskPlan) -> None:
    top = Path(offline.run.run) / "memorycode" / "outputs"
    arms = ("chain", "retrieval", "alone", *OTHER_UNITS, *MEMORY_SETUPS)
    assert {path.name for path in top.iterdir()} == {"offline", *(f"offline-{arm}" for arm in arms)}
    published = read_outputs(top / "offline", DIALOGUES)
    assert [len(row) for row in published[1].instruction or ()] == [1, 2]
    assert [len(row) for row in published[1].session or ()] == [1, 2]
    assert (published[3].session, published[3].history) == (None, None)
    for arm in arms:
        found = read_outputs(top / f"offline-{arm}", DIALOGUES)
        assert set(found) == ({1, 2, 3} if arm in ("chain", "alone") else {1, 2})
        assert all(len(one.history or ()) == 2 and one.session is None for one in found.values())


def test_one_setup_asked_later_keeps_the_others_in_its_file(offline: TaskPlan) -> None:
    path = Path(offline.run.run) / "memorycode/outputs/offline/output_1.json"
    before = path.read_bytes()
    path.unlink()
    ask(offline.run, ["history"])
    assert path.read_bytes() == before


def test_the_manifest_says_what_the_answers_rest_on(offline: TaskPlan) -> None:
    rag, light, session = (offline.stores[setup].finish() for setup in ("rag", "light", "session"))
    assert (rag.reader, rag.arm, rag.models["reader"]["model"]) == ("offline", "rag", OFFLINE_NAME)
    assert set(rag.prompts) == {"memorycode_recalled"} and len(light.prompts) == 5
    assert {"k", "retriever", "reader_window"} <= set(rag.settings) and session.settings == {}
    assert (set(rag.conversations), rag.left_out) == ({"dialogue_1", "dialogue_2"}, {"dialogue_3": NO_TEXTS})
    assert {*MEMORYCODE.arms(offline.run), *OTHER_UNITS} == set(SETUPS)


def test_at_most_so_many_of_each_length_and_those_with_texts_first() -> None:
    many = [dialogue(1, texts=False), dialogue(2), dialogue(3), dialogue(4, sessions=1), dialogue(5, sessions=1)]
    items = [item(one) for one in many]
    assert [one.dialogue.id for one in choose_dialogues(items, 1)] == [2, 4]
    assert [one.dialogue.id for one in choose_dialogues(items, 3)] == [1, 2, 3, 4, 5]
    assert choose_dialogues(items, 0) == items


def test_threads_that_come_at_once_share_one_event_loop() -> None:
    """Were there several, each would have lanes of its own, and the endpoint more requests than it should."""
    program = (
        "import asyncio, threading\nfrom beamlib.llm.model import run\n"
        "async def here(): return id(asyncio.get_running_loop())\n"
        "seen, gate = [], threading.Barrier(16)\n"
        "def go(): gate.wait(); seen.append(run(here()))\n"
        "threads = [threading.Thread(target=go) for _ in range(16)]\n"
        "[one.start() for one in threads]; [one.join() for one in threads]\nprint(len(set(seen)))"
    )
    for _ in range(2):
        assert (
            subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "1\n"
        )


# The commands


def test_a_run_by_the_stand_in_is_scored(memorycode_data: Path, tmp_path: Path, capsys: Any) -> None:
    options = TaskOptions(
        memorycode_data, tmp_path, arms=["chain", "none"], most=1, settings={"workers": 1}, quiet=True
    )
    plan = run_command(MEMORYCODE, options)
    shown = capsys.readouterr().out
    assert OFFLINE_NAME in shown and "12 of 360 dialogues" in shown
    assert {name: len(plan.records(name)) for name in plan.stores} == {"chain": 12, "alone": 12}
    (table,) = score_command(MEMORYCODE, options, judge=False)
    assert [row[0] for row in table.rows()] == ["offline-chain"] * 2 + ["offline-alone"] * 2


def test_nothing_is_called_without_confirmation(memorycode_data: Path, tmp_path: Path, capsys: Any) -> None:
    with ScriptedServer(steady_reply) as server:
        models = str(one_endpoint(server, tmp_path / "models.yaml"))
        options = TaskOptions(memorycode_data, tmp_path / "other", arms=["alone"], models=models, most=1, quiet=True)
        with pytest.raises(UserError, match="nothing was called: add --yes"):
            run_command(MEMORYCODE, options)
        assert "memorycode_alone" in capsys.readouterr().out
        assert not server.requests


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ["oracle"]}, "--arms: 'oracle' does not exist"),
        ({"arms": ["own"]}, "--memory: the arm own and a memory of your own"),
        ({"memory": "gone.py:Mine"}, "gone.py does not exist"),
        ({"calls": "maybe"}, "--calls: 'maybe' does not exist"),
        ({"most": -1}, "--conversations: -1 is less than 0"),
        ({"settings": {"size": "100k"}}, "--set size: it bears on nothing in MemoryCode"),
        ({"settings": {"judge_repeats": 3}}, "--set judge_repeats: it bears on nothing in MemoryCode"),
        ({"settings": {"run": "x"}}, "--set run: this parameter has an option of its own; give --name"),
        ({"settings": {"k": 0}}, "parameter 'k'"),
        ({"backbone": "one"}, "--backbone: name the models file"),
        ({"data": Path("/nowhere")}, "/nowhere"),
        ({"prompts": Path("/nowhere")}, "/nowhere: the folder of prompts"),
    ],
)
def test_an_order_that_cannot_be_meant_is_one_sentence(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        run_command(
            MEMORYCODE, TaskOptions(**{"data": tmp_path / "data", "folder": tmp_path / "run", "quiet": True, **changes})
        )
    assert "\n" not in str(raised.value)
