"""`beamlib meme`: orders fulfilled by the stand-in from generated data to tables, and orders that cannot be meant."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from beam_commands.task_runs import TaskOptions, run_command, score_command, task_recording_command
from beam_meme import cli
from beam_meme.episode_files import write_episodes
from beam_meme.episode_results import CONTEXTS
from beam_meme.grid import STUDY_FIGURES, study_figure, study_frame
from beam_meme.meme_memories import meme_memories
from beam_meme.meme_tally import score_plan
from beam_meme.task import Meme, open_meme
from beam_memories.programs import adapter_identity
from beamlib.errors import UserError
from beamlib.files import to_json
from beamlib.llm.model import OFFLINE_NAME
from beamlib.memory.declared import named_memories
from beamlib.places import PROMPTS
from scripted_server import ScriptedServer, near
from small_episodes import LOADED
from steady_replies import one_endpoint, steady_reply
from system_replies import system_reply

pytestmark = pytest.mark.usefixtures("file_in_this_process")

ADAPTERS = named_memories(outside=True)

NOFILLER = Meme("nofiller")
SETTINGS = {"workers": 1, "retriever": "bm25"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "nofiller.json"
    write_episodes(path, LOADED)
    return path


@pytest.fixture(scope="module")
def scored(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("run")
    run_command(NOFILLER, TaskOptions(data, folder, arms=["none", "gold-facts", "bm25"], settings=SETTINGS, quiet=True))
    tables = score_command(NOFILLER, TaskOptions(data, folder, settings=SETTINGS, quiet=True))
    return folder, {table.title: table for table in tables} | {"data": data}


def test_an_order_is_fulfilled_by_the_stand_in(data: Path, tmp_path: Path, capsys: Any) -> None:
    order = TaskOptions(data, tmp_path, arms=["none", "rag"], most=1, settings=SETTINGS, quiet=True)
    ran = run_command(NOFILLER, order)
    said = capsys.readouterr().out
    assert f"MEME: 1 of 2 episodes; reader: {OFFLINE_NAME}; arms: none, rag" in said
    assert "  rag: 8 answers of 1 episode; tokens: ingest 0, maintenance 0, retrieval 0, answer " in said
    assert "score them with: beamlib meme score --data" in said
    assert list(ran.records("rag")) == ["sw_001"]
    assert (tmp_path / "meme/nofiller/rag/answers.jsonl").exists()


@pytest.mark.parametrize("memory", ["bm25", "dense", "rag", "light", "dependencies"])
def test_k_acts_on_every_memory_that_retrieves(memory: str, data: Path, tmp_path: Path) -> None:
    contexts = []
    for k in (1, 4):
        settings = SETTINGS | {"k": k}
        order = TaskOptions(data, tmp_path / str(k), arms=[memory], most=1, settings=settings, quiet=True)
        (record,) = run_command(NOFILLER, order).records(memory, CONTEXTS)["sw_001"]
        contexts.append(record.contexts)
    assert contexts[0] != contexts[1]


def test_every_memory_of_ours_runs_offline(data: Path, tmp_path: Path) -> None:
    ran = run_command(NOFILLER, TaskOptions(data, tmp_path, most=1, settings=SETTINGS, quiet=True))
    assert tuple(ran.stores) == tuple(memory for memory in meme_memories() if memory not in ("own", *ADAPTERS))
    for arm in ran.stores:
        answers = ran.records(arm)["sw_001"]
        assert len(answers) == 8 and all(answer.text for answer in answers)
        (contexts,) = ran.records(arm, "contexts")["sw_001"]
        assert len(contexts.snapshots) == (4 if arm in ("md-flat", "wiki", "dependencies") else 0)


@pytest.mark.parametrize("by", ["--memory", "--memories"])
def test_a_memory_of_ones_own_has_its_place(by: str, data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from beamlib.memory.protocol import Recollection, passage\n"
        "class Newest:\n    name = 'newest'\n"
        "    def ingest(self, conversation): self.last = conversation.pairs[-1]\n"
        "    def recall(self, question): return Recollection.of([passage(self.last)])\n"
    )
    place = f"{tmp_path / 'mine.py'}:Newest"
    arms, memory = (["own"], place) if by == "--memory" else (["none", place], "")
    order = TaskOptions(data, tmp_path / "run", arms=arms, memory=memory, most=1, settings=SETTINGS, quiet=True)
    (contexts,) = run_command(NOFILLER, order).records("own", "contexts")["sw_001"]
    assert "error log" in contexts.context("sw_001-before-q01")
    assert "Synth" in contexts.context("sw_001-after-q01")


SYSTEM = """
import json, sys, urllib.request
name = sys.argv[1]
if "--describe" in sys.argv:
    print(json.dumps({"missing": ["langmem"] if name == "langmem" else [], "notes": [f"{name}: a stand-in"]}))
    raise SystemExit
facts = []
for line in sys.stdin:
    request = json.loads(line)
    reply = {}
    if request["method"] == "hello":
        api, reply = request["api"], {"protocol": 2}
    elif request["method"] == "ingest":
        for said in request["messages"]:
            content = f"Note, {name}: <question>\\n{said['content']}\\n</question>"
            body = {"model": api["model"], "messages": [{"role": "user", "content": content}]}
            headers = {"Authorization": f"Bearer {api['api_key']}", "Content-Type": "application/json"}
            call = urllib.request.Request(api["base_url"] + "/chat/completions", json.dumps(body).encode(), headers)
            facts.append(json.load(urllib.request.urlopen(call))["choices"][0]["message"]["content"])
    else:
        reply = {"context": "\\n".join(facts[-3:]), "message_ids": [], "parts": {}}
    print(json.dumps({"id": request["id"], **reply}), flush=True)
"""


def test_six_systems_stand_in_one_table_and_a_missing_one_is_named(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (tmp_path / "host.py").write_text(SYSTEM)
    monkeypatch.setattr("beam_memories.programs.HOST", tmp_path / "host.py")
    adapter_identity.cache_clear()
    six = ["bm25", "dense", "md-flat", "wiki", "mem0", "graphiti"]
    with ScriptedServer(any_reply) as server:
        models = priced(one_endpoint(server, tmp_path / "models.yaml"))
        order = TaskOptions(
            data, tmp_path / "run", arms=[*six, "langmem"], most=1, models=models, settings=SETTINGS, quiet=True,
            yes=True,
        )  # fmt: skip
        run_command(NOFILLER, order)
        assert "Left out: --memory langmem: it needs langmem" in (said := capsys.readouterr().out)
        assert "pip install -e '.[langmem]'" in said
        asked = len(server.requests)
        shutil.rmtree(tmp_path / "run/meme/nofiller-one/mem0")
        plan = run_command(NOFILLER, replace(order, arms=six))
        assert len(server.requests) == asked  # its calls are stored
    assert list(plan.stores) == six
    for arm in six:
        (answers,) = plan.records(arm).values()
        assert all(answer.text for answer in answers), arm
    contexts = {arm: plan.records(arm, CONTEXTS)["sw_001"][0] for arm in ("mem0", "graphiti")}
    spending = contexts["mem0"].spending
    assert list(spending["ingest"]) == ["memory"] and list(spending["answer"]) == ["reader"]
    memory, reader = spending["ingest"]["memory"], spending["answer"]["reader"]
    assert memory.calls > reader.calls == 8
    (costs,) = score_plan(plan, "here").dollars["mem0"]
    assert costs["ingest"] == pytest.approx((3 * memory.input_tokens + 7 * memory.output_tokens) / 1e6)
    assert costs["answer"] is None  # the reader has no price
    assert contexts["mem0"].contexts != contexts["graphiti"].contexts
    adapter_identity.cache_clear()


def test_dense_searches_by_the_vectors_of_an_endpoint_and_prices_them(data: Path, tmp_path: Path) -> None:
    with ScriptedServer(steady_reply, embed=near("code reviewer")) as server:
        models = str(one_endpoint(server, tmp_path / "models.yaml", input_price=0.5))
        order = TaskOptions(
            data, tmp_path / "run", arms=["dense"], most=1, models=models,
            settings={"workers": 1, "encoder": "embedding", "k": 1}, quiet=True, yes=True,
        )  # fmt: skip
        plan = run_command(NOFILLER, order)
        texts = server.embedded
    ((record,),) = plan.records("dense", CONTEXTS).values()
    assert all("our code reviewer" in context for context in record.texts.values())
    assert len(texts) == len(set(texts)) > 8  # the second round reads the sessions of the first again
    spent = [record.spending[stage]["embedding"] for stage in ("ingest", "retrieval")]
    assert sum(one.calls for one in spent) == len(texts)
    (costs,) = score_plan(plan, "here").dollars["dense"]
    assert costs["ingest"] == pytest.approx(spent[0].input_tokens * 0.5 / 1e6)
    assert plan.stores["dense"].fields["models"]["embedding"]["model"] == "embedder"


def test_a_run_is_scored_and_its_tables_say_what_they_rest_on(scored: tuple[Path, dict[str, Any]]) -> None:
    folder, tables = scored
    assert list(tables)[:-1] == [
        "MEME: results", "MEME: results before the filter", "MEME: kinds of pass", "MEME: where answers go wrong",
        "MEME: tokens per episode", "MEME: costs",
    ]  # fmt: skip
    assert all(OFFLINE_NAME in table.footer[0] for name, table in tables.items() if name != "data")
    real = {(row["memory"], row["task"]): row["real"] for row in tables["MEME: results"].records()}
    assert real["none", "deletion"] == real["none", "absence"] == 0  # what passes there is trivial
    assert 0 <= real["none", "cascade"] <= real["bm25", "exact_recall"] <= 1
    assert (folder / "meme/nofiller/scores/results.csv").exists()
    lines = (folder / "meme/nofiller/none/judgements.jsonl").read_text().splitlines()
    assert len(lines) == 2 * 8
    again = score_command(NOFILLER, TaskOptions(tables["data"], folder, settings=SETTINGS, quiet=True), judge=False)
    assert [table.rows() for table in again] == [table.rows() for name, table in tables.items() if name != "data"]


def test_results_are_scored_against_what_was_asked_and_nothing_else(
    scored: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, _ = scored
    other = tmp_path / "nofiller.json"
    write_episodes(other, LOADED[:1])
    with pytest.raises(UserError, match="--data: none was asked about another sw_002 than it holds"):
        score_command(NOFILLER, TaskOptions(other, folder, quiet=True))
    with pytest.raises(UserError, match="has no results of light; it has none, gold-facts, bm25"):
        score_command(NOFILLER, TaskOptions(other, folder, arms=["light"], quiet=True))


def test_nothing_is_called_without_a_yes(data: Path, tmp_path: Path, capsys: Any) -> None:
    with ScriptedServer(steady_reply) as server:
        models = str(one_endpoint(server, tmp_path / "models.yaml"))
        order = TaskOptions(data, tmp_path / "run", arms=["bm25"], models=models, settings=SETTINGS, quiet=True)
        with pytest.raises(UserError, match="nothing was called: add --yes"):
            run_command(NOFILLER, order)
        assert "meme_answer" in capsys.readouterr().out
        assert not server.requests


def test_a_model_judges_once_it_may(data: Path, tmp_path: Path, capsys: Any) -> None:
    def reply(body: dict[str, Any]) -> str:
        text = str(body["messages"][-1]["content"])
        return steady_reply(body) if "<context>" in text else '{"pass": true, "reason": "scripted"}'

    with ScriptedServer(reply) as server:
        models = str(one_endpoint(server, tmp_path / "models.yaml"))
        order = TaskOptions(data, tmp_path / "run", arms=["bm25"], most=1, models=models, settings=SETTINGS, quiet=True)
        with pytest.raises(UserError, match="holds no results of MEME"):
            score_command(NOFILLER, order)
        run_command(NOFILLER, TaskOptions(**{**fields(order), "yes": True}))
        asked = len(server.requests)
        with pytest.raises(UserError, match="nothing was called: add --yes"):
            score_command(NOFILLER, order)
        assert len(server.requests) == asked
        tables = score_command(NOFILLER, TaskOptions(**{**fields(order), "yes": True}))
        judged = len(server.requests) - asked
        assert judged == 7  # all but the exact recall, which takes no model
        assert "Judge: scripted" in "".join(tables[0].footer)
        score_command(NOFILLER, TaskOptions(**{**fields(order), "calls": "replay"}))
        assert len(server.requests) == asked + judged


def priced(path: Path) -> str:
    models = yaml.safe_load(path.read_text())
    models["memory"] = {**models["memory"], "input_price": 3.0, "output_price": 7.0}
    path.write_text(yaml.safe_dump(models))
    return str(path)


def any_reply(body: dict[str, Any]) -> str:
    text = str(body["messages"][-1]["content"])
    return steady_reply(body) if "</question>" in text else "The user spoke of the project."


def fields(order: TaskOptions) -> dict[str, Any]:
    return {name: getattr(order, name) for name in TaskOptions.__dataclass_fields__}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ["oracle"]}, "--arms: 'oracle' does not exist"),
        ({"arms": ["own"]}, "--memory: the arm own and a memory of your own"),
        ({"memory": "gone.py:Mine"}, "gone.py does not exist"),
        (
            {"arms": ["a.py:A", "bm25", "b.py:B"]},
            "--memories: a run takes one memory of your own, not a.py:A and b.py:B",
        ),
        ({"calls": "maybe"}, "--calls: 'maybe' does not exist"),
        ({"most": -1}, "--conversations: -1 is less than 0"),
        ({"settings": {"size": "100k"}}, "--set size: it bears on nothing in MEME"),
        ({"settings": {"chunk_size": 3}}, "unknown parameter 'chunk_size'"),
        ({"settings": {"judge_repeats": 3}}, "--set judge_repeats: it bears on nothing in MEME"),
        ({"settings": {"run": "x"}}, "--set run: this parameter has an option of its own; give --name"),
        ({"settings": {"k": 0}}, "parameter 'k'"),
        ({"backbone": "one"}, "--backbone: name the models file"),
        ({"data": Path("/nowhere")}, "/nowhere"),
        ({"prompts": Path("/nowhere")}, "/nowhere: the folder of prompts"),
    ],
)
def test_an_order_that_cannot_be_meant_is_one_sentence(
    changes: dict[str, Any], message: str, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        run_command(
            open_meme(data, ""), TaskOptions(**{"data": data, "folder": tmp_path / "run", "quiet": True, **changes})
        )
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_the_command_that_records_says_all_that_was_ordered() -> None:
    order = TaskOptions(
        Path("my data"), Path("runs/x"), models="m.yaml", most=2, settings={"k": 3}, variant="filler32k", arms=["rag"]
    )
    assert task_recording_command(NOFILLER, "run", order) == (
        "beamlib meme run --data 'my data' --variant filler32k --name x --arms rag --models m.yaml --conversations 2 "
        "--set k=3 --calls record --yes"
    )


def test_the_commands_generate_run_score_and_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beamlib.places.ROOT", tmp_path)
    runner = CliRunner()

    def beamlib(*words: str) -> str:
        done = runner.invoke(cli.meme_app, list(words), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    out = str(tmp_path / "data")
    beamlib("generate", "--out", out, "--episodes", "2", "--variants", "nofiller", "--seed", "5")
    assert "episodes" in beamlib("stats", "--data", out).lower()
    beamlib("run", "--data", out, "--name", "t", "--memories", "bm25,dependencies", "--set", "workers=1")
    assert "MEME: results" in beamlib("score", "--data", out, "--name", "t")
    found = json.loads(beamlib("score", "--data", out, "--name", "t", "--json"))
    assert {row["memory"] for row in found["MEME: results"]} == {"bm25", "dependencies"}
    assert beamlib("report", "--data", out, "--name", "t", "--json") == f"{to_json(found, indent=2)}\n"
    assert (tmp_path / "runs" / "t" / "meme" / "nofiller" / "bm25" / "run.json").exists()


def test_a_study_varies_k_and_prompts_and_draws_what_is_there(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beamlib.places.ROOT", tmp_path)
    (tmp_path / "curt").mkdir()
    (tmp_path / "curt/meme_answer.md").write_text((PROMPTS / "meme_answer.md").read_text().replace("\n\n", "\n", 1))

    def study(*words: str) -> str:
        order = ["study", "--data", str(data), "--name", "s", *words]
        done = CliRunner().invoke(cli.meme_app, order, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    varied = ["--k", "1,4", "--prompts", f"default,{tmp_path / 'curt'}", "--episodes", "1", "--set", "workers=1"]
    shown = study("--memories", "bm25,none", *varied)
    frame = study_frame(tmp_path / "runs/s")
    bm25 = frame[(frame["memory"] == "bm25") & (frame["task"] == "exact_recall")]
    assert {(row.k, row.prompts) for row in bm25.itertuples()} == set(product((1, 4), ("default", "curt")))
    path = tmp_path / "runs/s-k4-offline-default/meme/nofiller/scores/results.csv"
    scored = pd.read_csv(path, comment="#")
    (known,) = scored[(scored["memory"] == "bm25") & (scored["task"] == "exact_recall")]["real"]
    assert list(bm25[(bm25["k"] == 4) & (bm25["prompts"] == "default")]["real"]) == [known]
    shutil.rmtree(next((tmp_path / "runs").glob("s-k1-offline-curt.*")))
    assert len(study("--draw").splitlines()) < len(shown.splitlines())
    drawn = study_figure(frame, STUDY_FIGURES["figure3"])
    places = {line.get_label(): list(line.get_xdata()) for line in drawn.axes[0].lines}
    ticks = [label.get_text() for label in drawn.axes[-2].get_xticklabels()]
    assert ticks == ["1", "4", "5", "10", "20"] and [ticks[round(x)] for x in places["BM25 (published)"]] == ["5"]
    assert [ticks[round(x)] for x in places["Mem0 (published)"]] == ["20"]
    assert {"figure3.svg", "figure5.svg", "figure5a.svg", "interventions.csv"} == {
        one.name for one in (tmp_path / "runs/s/study").iterdir() if one.suffix in (".svg", ".csv")
    }  # one variant: no Figure 29


@pytest.mark.parametrize("memory", ["mem0", "graphiti", "langmem"])
def test_a_real_system_answers_all_questions_of_an_episode_where_its_forms_are_answered(
    memory: str, data: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    try:
        adapter_identity(memory)
    except UserError as error:
        if request.config.getoption("--adapters"):
            raise
        pytest.skip(f"{error} (or ./run_tests.sh --adapters)")
    with ScriptedServer(system_reply) as server:
        models = priced(one_endpoint(server, tmp_path / "models.yaml"))
        order = TaskOptions(
            data, tmp_path / "run", arms=[memory], most=1, models=models, settings=SETTINGS, quiet=True, yes=True
        )
        plan = run_command(NOFILLER, order)
    (answers,) = plan.records(memory).values()
    assert [answer.unscored for answer in answers] == [None] * 8
    (contexts,) = plan.records(memory, CONTEXTS)["sw_001"]
    assert all(contexts.texts.values())
