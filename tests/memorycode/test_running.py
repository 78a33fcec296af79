"""Runs on MemoryCode: by the stand-in, and against a real HTTP server that fails, dies and comes back."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam_memorycode import output_store as keeping
from beam_memorycode.dialogues import Dialogue, Mention, Session, Setting, Topic
from beam_memorycode.evaluating import Ran, chosen, estimate_all, run_all
from beam_memorycode.ordering import RunOptions, run_setups
from beam_memorycode.output_store import OutputFolder, RunManifest, answered
from beam_memorycode.outputs import Outputs, read_outputs, write_outputs
from beam_memorycode.running import PART, run_dialogue, run_shared
from beam_memorycode.setups import MEMORIES, SETUPS, Setup
from beamlib.errors import UserError
from beamlib.evaluate import run_store
from beamlib.evaluate.answer_record import Answer as Record
from beamlib.evaluate.calling import open_models, resolved
from beamlib.llm.model import OFFLINE_NAME, Completion, ModelError, ModelRoles, Outcome, Prompt
from beamlib.params import RunParameters, load_parameters
from scripted_server import Answer, ScriptedServer, body_text, error_body
from steady_replies import steady_reply

SECRET = "zk-1f8e7d6c5b4a39281706"
REFUSED = "Heap class"
OWN = """from beamlib.memory.protocol import Recollection, passage
class Newest:
    name = "newest"
    def ingest(self, conversation): self.last = conversation.pairs[-1]
    def recall(self, question): return Recollection.of([passage(self.last)])
"""
NOT_OWN = tuple(setup for setup in SETUPS if setup != "own")
EXACT: tuple[Setup, ...] = tuple(setup for setup in NOT_OWN if setup != "light")


def dialogue(number: int, *, sessions: int = 2, texts: bool = True) -> Dialogue:
    """Sessions that give and change one instruction, with a second one in the last; two queries in the end."""
    made = []
    for place in range(sessions):
        said = [(f"always start variable names with '{'qkx'[place % 3]}_'", 9, place, "function over graphs")]
        said += [("always use the decorator @timer for classes", 40, 0, REFUSED)] if place == sessions - 1 else []
        lines = [f"Ruth: From now on, {value}.\n\nBjörn: Understood, number {number}." for value, *_ in said]
        made.append(
            Session(
                tuple(Topic("instruction-add", value) for value, *_ in said),
                tuple(Mention(instruction, value) for _, instruction, value, _ in said),
                tuple(query for *_, query in said),
                "short",
                text="\n\n".join(lines) if texts else None,
            )
        )
    return Dialogue(number, Setting("Ruth", "Björn", "Halden"), tuple(made), ("function over graphs", REFUSED))


DIALOGUES = [dialogue(1), dialogue(2), dialogue(3, texts=False)]


def parameters(root: Path, run: Path, **changes: Any) -> RunParameters:
    fixed = {"run": str(run), "workers": 1, "confirm_cost": True, "retriever": "bm25", "k": 2}
    return load_parameters(root / "params" / "100k.yaml", **{**fixed, **changes})


def read_manifest(folder: Path) -> RunManifest:
    return run_store.read_manifest(folder / "run.json", RunManifest)


def files(run: Path) -> dict[str, bytes]:
    folder = run / "memorycode"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.json"))}


class Counted:
    """A model that replies with the number of the call and keeps the prompts."""

    name = "counted"

    def __init__(self, fails: str = "") -> None:
        self.prompts: list[Prompt] = []
        self.fails = fails

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        if self.fails and self.fails in prompt.messages[-1]["content"]:
            raise ModelError("no such luck", Outcome.FILTERED)
        return Completion(f"reply {len(self.prompts)}")


# One dialogue


def test_equal_prompts_of_many_dialogues_are_one_call() -> None:
    reader = Counted()
    work = run_shared([(one, ("instruction", "alone")) for one in DIALOGUES], reader)
    assert len(reader.prompts) == 3 + 2  # values with their query, and queries
    assert [answer.text for answer in work[1]["instruction"]] == [answer.text for answer in work[3]["instruction"]]
    assert len({answer.text for answer in work[1]["instruction"]}) == 3
    assert [answer.conversation_id for answer in work[2]["alone"]] == ["dialogue_2", "dialogue_2"]
    assert len({answer.probe_id for number in work for of in work[number].values() for answer in of}) == 3 * (3 + 2)


def test_a_memory_sees_the_talk_and_the_question_and_nothing_else(repo_root: Path, tmp_path: Path) -> None:
    (tmp_path / "spy.py").write_text(
        "import json\nfrom beamlib.memory.protocol import Recollection\n"
        f"class Spy:\n    name = 'spy'\n    def ingest(self, c): self.seen = [repr(c)]\n"
        f"    def recall(self, q):\n        self.seen.append(q)\n"
        f"        open({str(tmp_path / 'seen')!r}, 'w').write(json.dumps(self.seen))\n        return Recollection('')\n"
    )
    given = resolved(parameters(repo_root, tmp_path / "run", own_memory=f"{tmp_path / 'spy.py'}:Spy"))
    one = dialogue(1)
    secret = (Topic("instruction-add", "CANARY value"), *one.sessions[0].topics)
    marked = Dialogue(
        1, one.context, (Session(secret, (), ("CANARY query",), "short", 17, one.sessions[0].text),), one.queries
    )
    run_dialogue(marked, ["own"], given, ModelRoles.of(Counted()))
    conversation, *questions = json.loads((tmp_path / "seen").read_text())
    assert "CANARY" not in conversation + "".join(questions)
    assert "number 1" in conversation
    assert [re.search(r"Write a (.+), following all the newest", question)[1] for question in questions] == list(
        one.queries
    )


def test_a_failed_call_is_no_answer_and_has_its_reason(repo_root: Path, tmp_path: Path) -> None:
    given = resolved(parameters(repo_root, tmp_path))
    answers = run_dialogue(dialogue(1), ["history", "rag"], given, ModelRoles.of(Counted(fails=REFUSED)))
    for setup in ("history", "rag"):
        fine, failed = answers[setup]
        assert (fine.text is not None, fine.unscored) == (True, None)
        assert (failed.text, failed.unscored) == (None, "content filter: no such luck")


def test_light_reads_a_dialogue_once_and_filters_for_every_query(repo_root: Path, tmp_path: Path) -> None:
    memory, reader = Counted(), Counted()
    given = resolved(parameters(repo_root, tmp_path))
    run_dialogue(dialogue(1), ["light"], given, ModelRoles(reader, memory, memory, memory, memory))
    steps = [prompt.id for prompt in memory.prompts]
    assert steps.count("episodic_keys") == steps.count("scratchpad_notes") == 3  # one per pair
    assert [prompt.id for prompt in reader.prompts] == ["memorycode_recalled"] * 2


# A run by the stand-in


@pytest.fixture(scope="module")
def offline(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunParameters, Ran]:
    root = tmp_path_factory.mktemp("offline")
    (root / "mine.py").write_text(OWN)
    given = parameters(repo_root, root / "run", own_memory=f"{root / 'mine.py'}:Newest")
    return given, run_all(DIALOGUES, SETUPS, given, quiet=True)


def test_answers_lie_in_the_authors_layout_and_read_back(offline: tuple[RunParameters, Ran]) -> None:
    given, ran = offline
    folders = {path.name for path in (Path(given.run) / "memorycode" / "outputs").iterdir()}
    arms = ("chain", "retrieval", "alone", *MEMORIES)
    assert folders == {"offline", *(f"offline-{arm}" for arm in arms)}
    published = read_outputs(ran.folders["session"], DIALOGUES)
    assert [len(row) for row in published[1].instruction or ()] == [1, 2]
    assert [len(row) for row in published[1].session or ()] == [1, 2]
    assert (published[3].session, published[3].history) == (None, None)
    for arm in arms:
        found = read_outputs(ran.folders[arm], DIALOGUES)
        assert set(found) == ({1, 2, 3} if arm in ("chain", "alone") else {1, 2})
        assert all(len(one.history or ()) == 2 and one.session is None for one in found.values())


def test_the_manifest_says_what_the_answers_rest_on(offline: tuple[RunParameters, Ran]) -> None:
    _, ran = offline
    rag, plain = read_manifest(ran.folders["rag"]), read_manifest(ran.folders["history"])
    assert rag.models["reader"]["model"] == OFFLINE_NAME
    assert (rag.reader, rag.arm, plain.arm) == ("offline", "rag", "")
    assert {"k", "retriever", "reader_window"} <= set(rag.setups["rag"].settings)
    assert set(rag.setups["rag"].prompts) == {"memorycode_recalled"}
    assert (rag.setups["rag"].n, rag.setups["rag"].answers, rag.setups["rag"].left_out) == (2, 4, (3,))
    assert set(plain.setups) == {"instruction", "session", "history"}
    assert (plain.setups["instruction"].n, plain.setups["instruction"].left_out) == (3, ())
    assert len(read_manifest(ran.folders["light"]).setups["light"].prompts) == 5
    assert "offline" in ran.folders["rag"].name


def test_nothing_is_made_again_and_what_was_touched_is(offline: tuple[RunParameters, Ran], monkeypatch: Any) -> None:
    given, ran = offline
    before, asked = files(Path(given.run)), []
    import beam_memorycode.evaluating as evaluating

    true = evaluating.work_through
    monkeypatch.setattr(
        evaluating, "work_through", lambda wanted, *rest, **more: asked.append(wanted) or true(wanted, *rest, **more)
    )
    run_all(DIALOGUES, SETUPS, given, quiet=True)
    assert asked.pop() == []
    assert files(Path(given.run)) == before
    path = ran.folders["rag"] / "output_2.json"
    value = json.loads(path.read_text())
    value["sessions"][-1]["history_model_output"][0] += "!"
    path.write_text(json.dumps(value))
    (ran.folders["chain"] / "output_1.json").unlink()
    (ran.folders["history"] / "output_1.json").write_text("{}")
    run_all(DIALOGUES, SETUPS, given, quiet=True)
    redone = {one.id: set(setups) for one, setups in asked.pop()}
    assert redone == {1: {"instruction", "session", "history", "chain"}, 2: {"rag"}}
    assert files(Path(given.run)) == before
    changed = [dialogue(1), dialogue(2, sessions=3), dialogue(3, texts=False)]
    run_all(changed, ["history", "rag"], given, quiet=True)
    assert {one.id: set(setups) for one, setups in asked.pop()} == {2: {"history", "rag"}}
    run_all(DIALOGUES, SETUPS, given, quiet=True)
    assert files(Path(given.run)) == before


def test_other_settings_concern_only_the_setups_that_rest_on_them(offline: tuple[RunParameters, Ran]) -> None:
    given, ran = offline
    keys = {setup: ran.manifests[setup].setups[setup].key for setup in SETUPS}
    other = run_all(DIALOGUES, SETUPS, given.model_copy(update={"k": 3, "run": f"{given.run}-k3"}), quiet=True)
    found = {setup for setup in SETUPS if other.manifests[setup].setups[setup].key != keys[setup]}
    assert found == {"rag", "light"}


def test_a_smaller_run_leaves_what_is_known_and_drops_what_is_not(repo_root: Path, tmp_path: Path) -> None:
    given = parameters(repo_root, tmp_path)
    folder = run_all(DIALOGUES, ["chain"], given, quiet=True).folders["chain"]
    run_all(DIALOGUES[:1], ["chain"], given, known=DIALOGUES[:2], quiet=True)
    assert {path.name for path in folder.glob("output*")} == {"output_1.json", "output_2.json"}
    assert set(read_manifest(folder).setups["chain"].dialogues) == {"1", "2"}


def test_outputs_of_someone_else_are_not_touched(repo_root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "memorycode" / "outputs" / "offline-chain"
    folder.mkdir(parents=True)
    (folder / "output_1.json").write_text("{}")
    with pytest.raises(UserError, match=r"offline-chain: holds outputs that no run\.json speaks of"):
        run_all(DIALOGUES, ["chain"], parameters(repo_root, tmp_path), quiet=True)
    assert (folder / "output_1.json").read_text() == "{}"


def test_a_run_killed_after_its_first_file_knows_the_folder_for_its_own(
    repo_root: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    class Killed(BaseException):
        pass

    def write_and_die(folder: Path, outputs: Outputs) -> None:
        write_outputs(folder, outputs)
        monkeypatch.setattr(OutputFolder, "write_manifest", lambda self: None)  # no clean-up is reached
        raise Killed

    asked = parameters(repo_root, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(keeping, "write_outputs", write_and_die)
        with pytest.raises(Killed):
            run_all(DIALOGUES[:1], ["alone"], asked, quiet=True)
    monkeypatch.undo()
    assert run_all(DIALOGUES[:1], ["alone"], asked, quiet=True).manifests["alone"].setups["alone"].n == 1


def test_gaps_are_answers_and_not_calls(repo_root: Path, tmp_path: Path) -> None:
    folder = OutputFolder("light", resolved(parameters(repo_root, tmp_path)), DIALOGUES)
    answer = Record(probe_id="a", conversation_id="dialogue_1", text="x", gaps=4)
    found = answered(DIALOGUES[0], "light", [answer, answer.model_copy(update={"gaps": 0})])
    folder.take("light", "1", found)
    assert folder.close().setups["light"].gaps == 1


def test_at_most_so_many_of_each_length_and_those_with_texts_first() -> None:
    many = [dialogue(1, texts=False), dialogue(2), dialogue(3), dialogue(4, sessions=1), dialogue(5, sessions=1)]
    assert [one.id for one in chosen(many, 1)] == [2, 4]
    assert [one.id for one in chosen(many, 3)] == [1, 2, 3, 4, 5]
    assert chosen(many, 0) == many


# A run with models


def reply(body: dict[str, Any]) -> str | Answer:
    text = str(body["messages"][-1]["content"])
    asked = re.search(r"Write a (.+)\. Leave out", text)
    if asked is None:
        return steady_reply(body)
    if asked[1] == REFUSED and "<sessions>" in text:
        return Answer(error_body("Filtered by a content policy.", "content_filter"), 400)
    return f"```python\ndef answer_{len(text)}():\n    return {asked[1]!r}\n```"


def models_file(server: ScriptedServer, path: Path, **fields: Any) -> Path:
    endpoint = {"model": "scripted", "base_url": server.base_url, "context_window": 131_072, "patience": 5.0, **fields}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    path.write_text(
        yaml.safe_dump({"readers": {"one": {"input_price": 1.0, "output_price": 2.0, **endpoint}}, **roles})
    )
    return path


def test_a_run_is_recorded_estimated_and_replayed(
    repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", SECRET)
    with ScriptedServer(reply, require_key=SECRET) as server:
        models = models_file(server, tmp_path / "models.yaml", key_variable="SCRIPTED_KEY")
        given = parameters(repo_root, tmp_path / "run", models=str(models))
        expected = estimate_all(DIALOGUES, EXACT, given, quiet=True)
        assert not server.requests
        assert expected.dollars > 0
        ran = run_all(DIALOGUES, EXACT, given, quiet=True)
        assert len(server.requests) == expected.pending
        alike = set(server.repeated())  # the invented dialogues have one list of guidelines, in stores of their own
        assert all("<guidelines>" in body_text(one.body) for one in server.requests if one.hash in alike)
        held = ran.manifests["history"].setups["history"]
        assert held.answers == 4
        assert sum(held.unscored.values()) == 2
        assert all(reason.startswith("content filter") for reason in held.unscored)
        outputs = read_outputs(ran.folders["history"], DIALOGUES)
        assert [(one.history or ("", ""))[1] for one in outputs.values() if one.history] == [None, None]
        assert ran.manifests["rag"].setups["rag"].unscored == {}
        stores = {path.name for path in (Path(given.run) / "calls" / "memorycode").glob("*.sqlite")}
        assert stores == {*(f"dialogue_{one.id}.sqlite" for one in DIALOGUES), "shared.sqlite"}
        written = [path.read_bytes() for path in Path(given.run).rglob("*") if path.is_file()]
        assert not [data for data in written if SECRET.encode() in data]

        count, before = len(server.requests), files(Path(given.run))
        assert estimate_all(DIALOGUES, EXACT, given, quiet=True).pending == 0
        run_all(DIALOGUES, EXACT, given, quiet=True)
        for path in (Path(given.run) / "memorycode").rglob("*.json"):
            path.unlink()
    # From here on nobody answers.
    run_all(DIALOGUES, EXACT, given.model_copy(update={"calls": "replay", "confirm_cost": False}), quiet=True)
    assert files(Path(given.run)) == before
    assert len(server.requests) == count
    with pytest.raises(UserError, match="the call is not stored; to record it, run: beamlib memorycode run"):
        more = [*DIALOGUES, dialogue(9)]
        replay = given.model_copy(update={"calls": "replay"})
        run_all(more, ["history"], replay, command="beamlib memorycode run", quiet=True)


def test_nothing_is_called_without_a_yes(repo_root: Path, memorycode_data: Path, tmp_path: Path, capsys: Any) -> None:
    with ScriptedServer(reply) as server:
        models = models_file(server, tmp_path / "models.yaml")
        given = parameters(repo_root, tmp_path / "run", models=str(models), confirm_cost=False)
        with pytest.raises(UserError, match="nothing is called before confirm_cost"):
            run_all(DIALOGUES, ["chain"], given, quiet=True)
        order = RunOptions(
            memorycode_data, tmp_path / "other", setups=["alone"], models=str(models), most=1, quiet=True
        )
        with pytest.raises(UserError, match="nothing was called: add --yes"):
            run_setups(order)
        assert "memorycode_alone" in capsys.readouterr().out
        assert not server.requests


PROGRAM = """
import sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {here!r}]
from test_running import ask_all
ask_all(Path({root!r}), Path({run!r}), {models!r})
"""


def ask_all(root: Path, run: Path, models: str) -> list[list[str | None]]:
    """Three dialogues in two setups, one after the other, in this process; the texts of the answers."""
    given = resolved(parameters(root, run, models=models))
    texts = []
    for number in (1, 2, 3):
        with open_models(given, f"dialogue_{number}", suite=PART) as roster:
            answers = run_dialogue(dialogue(number, sessions=3), ["session", "history"], given, roster)
        texts += [[answer.text for answer in found] for found in answers.values()]
    return texts


def test_a_killed_run_goes_on_and_pays_no_call_twice(repo_root: Path, tmp_path: Path) -> None:
    max_concurrency = 2
    with ScriptedServer(reply, latency=0.05) as server:
        models = models_file(server, tmp_path / "models.yaml", concurrency=max_concurrency)
        places = {"tests": str(repo_root / "tests"), "here": str(Path(__file__).parent), "root": str(repo_root)}
        program = PROGRAM.format(run=str(tmp_path / "run"), models=str(models), **places)
        environment = {**os.environ, "PYTHONPATH": f"{repo_root}{os.pathsep}{repo_root / 'packages'}"}
        first = subprocess.Popen([sys.executable, "-c", program], env=environment)
        while len(server.requests) < 9 and first.poll() is None:
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
        first.wait()
        begun = len(server.requests)
        assert 9 <= begun < 3 * (4 + 2)
        texts = ask_all(repo_root, tmp_path / "run", str(models))
        assert [len(found) for found in texts] == [4, 2] * 3
        assert sum(text is None for found in texts for text in found) == 3  # what the endpoint refuses
        assert (
            len(server.requests) <= 3 * (4 + 2) + max_concurrency
        )  # what was in flight at the kill had no one to receive it
        held = len(server.requests)
        assert ask_all(repo_root, tmp_path / "run", str(models)) == texts
        assert len(server.requests) == held


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


# The order of the command line


def test_an_order_is_fulfilled_by_the_stand_in(memorycode_data: Path, tmp_path: Path, capsys: Any) -> None:
    order = RunOptions(memorycode_data, tmp_path, setups=["chain", "none"], most=1, settings={"workers": 1}, quiet=True)
    ran = run_setups(order)
    said = capsys.readouterr().out
    assert OFFLINE_NAME in said
    assert "12 of 360 dialogues" in said
    assert ran.manifests["alone"].setups["alone"].n == 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"setups": ["oracle"]}, "--setups: 'oracle' does not exist"),
        ({"setups": ["own"]}, "--memory: the setup own and a memory of your own"),
        ({"memory": "gone.py:Mine"}, "gone.py does not exist"),
        ({"calls": "maybe"}, "--calls: 'maybe' does not exist"),
        ({"most": -1}, "--conversations: -1 is less than 0"),
        ({"settings": {"size": "100k"}}, "--set size: it bears on nothing in MemoryCode"),
        ({"settings": {"run": "x"}}, "--set run: this parameter has an option of its own; give --name"),
        ({"settings": {"k": 0}}, "parameter 'k'"),
        ({"backbone": "one"}, "--backbone: name the models file"),
        ({"data": Path("/nowhere")}, "/nowhere"),
        ({"prompts": Path("/nowhere")}, "/nowhere: the folder of prompts"),
    ],
)
def test_an_order_that_cannot_be_meant_is_one_sentence(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        run_setups(RunOptions(**{"data": tmp_path / "data", "folder": tmp_path / "run", "quiet": True, **changes}))
    assert "\n" not in str(raised.value)
