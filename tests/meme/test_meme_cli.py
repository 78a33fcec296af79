"""`beamlib meme`: orders fulfilled by the stand-in from generated data to tables, and orders that cannot be meant."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from small_episodes import EPISODES, LOADED
from typer.testing import CliRunner

from beam_meme import cli, meme_ordering
from beam_meme.episode_files import write_episodes
from beam_meme.meme_memories import MEMORIES
from beam_meme.meme_ordering import RunOptions, chosen, recording_command, run_memories
from beam_meme.meme_store import read_results
from beam_meme.meme_tally import score_run
from beamlib.errors import UserError
from beamlib.llm.model import OFFLINE_NAME
from scripted_server import ScriptedServer
from steady_replies import one_endpoint, steady_reply

SETTINGS = {"workers": 1, "retriever": "bm25"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "nofiller.json"
    write_episodes(path, LOADED)
    return path


@pytest.fixture(scope="module")
def scored(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("run")
    run_memories(RunOptions(data, folder, memories=["none", "gold-facts", "bm25"], settings=SETTINGS, quiet=True))
    tables = score_run(RunOptions(data, folder, settings=SETTINGS, quiet=True))
    return folder, {table.title: table for table in tables}


def test_an_order_is_fulfilled_by_the_stand_in(data: Path, tmp_path: Path, capsys: Any) -> None:
    order = RunOptions(data, tmp_path, memories=["none", "rag"], most=1, settings=SETTINGS, quiet=True)
    ran = run_memories(order)
    said = capsys.readouterr().out
    assert f"MEME: 1 of 2 episodes; reader: {OFFLINE_NAME}; memories: none, rag" in said
    assert "  rag: 8 answers of 1 episodes; tokens: ingest 0, retrieval 0, answer " in said
    assert "score them with: beamlib meme score --data" in said
    assert (ran.manifests["rag"].n, ran.manifests["rag"].variant) == (1, "nofiller")


def test_every_memory_of_ours_runs_offline(data: Path, tmp_path: Path) -> None:
    ran = run_memories(RunOptions(data, tmp_path, most=1, settings=SETTINGS, quiet=True))
    assert tuple(ran.manifests) == tuple(memory for memory in MEMORIES if memory != "own")
    assert {one.answers for one in ran.manifests.values()} == {8}
    assert not any(one.unscored for one in ran.manifests.values())
    kept = read_results(tmp_path / "meme/nofiller")
    assert [len(kept[memory].episodes["sw_001"].snapshots) for memory in ("md-flat", "wiki", "dependencies")] == [4] * 3


def test_a_memory_of_ones_own_has_its_place(data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from beamlib.memory.protocol import Recollection, passage\n"
        "class Newest:\n    name = 'newest'\n"
        "    def ingest(self, conversation): self.last = conversation.pairs[-1]\n"
        "    def recall(self, question): return Recollection.of([passage(self.last)])\n"
    )
    order = RunOptions(
        data, tmp_path / "run", memories=["own"], memory=f"{tmp_path / 'mine.py'}:Newest", most=1,
        settings=SETTINGS, quiet=True,
    )  # fmt: skip
    run_memories(order)
    contexts = read_results(tmp_path / "run/meme/nofiller")["own"].episodes["sw_001"].contexts
    assert "error log" in contexts["sw_001-before-q01"]
    assert "Synth" in contexts["sw_001-after-q01"]


def test_a_run_is_scored_and_its_tables_say_what_they_rest_on(scored: tuple[Path, dict[str, Any]]) -> None:
    folder, tables = scored
    assert list(tables) == [
        "MEME: results", "MEME: results before the filter", "MEME: kinds of pass", "MEME: where answers go wrong",
        "MEME: tokens per episode",
    ]  # fmt: skip
    assert all(OFFLINE_NAME in table.footer[0] for table in tables.values())
    real = {(row["memory"], row["task"]): row["real"] for row in tables["MEME: results"].records()}
    assert real["none", "deletion"] == real["none", "absence"] == 0  # what passes there is trivial
    assert 0 <= real["none", "cascade"] <= real["bm25", "exact_recall"] <= 1
    assert {path.name for path in (folder / "meme/nofiller/scores").iterdir()} >= {"verdicts.jsonl", "results.csv"}
    rows = [json.loads(line) for line in (folder / "meme/nofiller/scores" / "verdicts.jsonl").read_text().splitlines()]
    assert len(rows) == 3 * 2 * 8
    assert {row["phase"] for row in rows} == {"before", "after"}


def test_results_are_scored_against_what_was_asked_and_nothing_else(
    scored: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, _ = scored
    other = tmp_path / "nofiller.json"
    write_episodes(other, LOADED[:1])
    with pytest.raises(UserError, match="--data: none was asked about another sw_002 than it holds"):
        score_run(RunOptions(other, folder, quiet=True))
    with pytest.raises(UserError, match="has no results of light; it has none, gold-facts, bm25"):
        score_run(RunOptions(other, folder, memories=["light"], quiet=True))


def test_nothing_is_called_without_a_yes(data: Path, tmp_path: Path, capsys: Any) -> None:
    with ScriptedServer(steady_reply) as server:
        models = str(one_endpoint(server, tmp_path / "models.yaml"))
        order = RunOptions(data, tmp_path / "run", memories=["bm25"], models=models, settings=SETTINGS, quiet=True)
        with pytest.raises(UserError, match="nothing was called: add --yes"):
            run_memories(order)
        assert "meme_answer" in capsys.readouterr().out
        assert not server.requests


def test_a_model_judges_once_it_may(data: Path, tmp_path: Path, capsys: Any) -> None:
    def reply(body: dict[str, Any]) -> str:
        text = str(body["messages"][-1]["content"])
        return steady_reply(body) if "<context>" in text else '{"pass": true, "reason": "scripted"}'

    with ScriptedServer(reply) as server:
        models = str(one_endpoint(server, tmp_path / "models.yaml"))
        order = RunOptions(
            data, tmp_path / "run", memories=["bm25"], most=1, models=models, settings=SETTINGS, quiet=True
        )
        with pytest.raises(UserError, match="holds no results on MEME"):
            score_run(order)
        run_memories(RunOptions(**{**fields(order), "yes": True}))
        asked = len(server.requests)
        with pytest.raises(UserError, match="nothing was called: add --yes"):
            score_run(order)
        assert len(server.requests) == asked
        tables = score_run(RunOptions(**{**fields(order), "yes": True}))
        judged = len(server.requests) - asked
        assert judged == 7  # all but the exact recall, which takes no model
        assert "Judge: scripted" in "".join(tables[0].footer)
        score_run(RunOptions(**{**fields(order), "calls": "replay"}))
        assert len(server.requests) == asked + judged


def fields(order: RunOptions) -> dict[str, Any]:
    return {name: getattr(order, name) for name in RunOptions.__dataclass_fields__}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"memories": ["oracle"]}, "--memories: 'oracle' does not exist"),
        ({"memories": ["own"]}, "--memory: the memory own and a memory of your own"),
        ({"memory": "gone.py:Mine"}, "gone.py does not exist"),
        ({"calls": "maybe"}, "--calls: 'maybe' does not exist"),
        ({"most": -1}, "--episodes: -1 is less than 0"),
        ({"settings": {"size": "100k"}}, "--set size: it bears on nothing in MEME"),
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
        run_memories(RunOptions(**{"data": data, "folder": tmp_path / "run", "quiet": True, **changes}))
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_the_command_that_records_says_all_that_was_ordered() -> None:
    order = RunOptions(
        Path("my data"), Path("runs/x"), "m.yaml", most=2, settings={"k": 3}, variant="filler32k", memories=["rag"]
    )
    assert recording_command(order) == (
        "beamlib meme run --data 'my data' --variant filler32k --name x --memories rag --models m.yaml --episodes 2 "
        "--set k=3 --calls record --yes"
    )


def test_at_most_so_many_of_each_domain() -> None:
    assert chosen(EPISODES, 1) == EPISODES[:1]
    assert chosen(EPISODES, 0) == EPISODES


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
    assert (tmp_path / "runs" / "t" / "meme" / "nofiller" / "bm25" / "run.json").exists()


def test_the_gold_of_no_episode_is_handed_to_running(data: Path, tmp_path: Path, monkeypatch: Any) -> None:
    seen: list[Any] = []
    true = meme_ordering.run_episodes

    def spy(episodes: Any, arms: Any, parameters: Any, **more: Any) -> Any:
        seen.append((episodes, more))
        return true(episodes, arms, parameters, **more)

    monkeypatch.setattr(meme_ordering, "run_episodes", spy)
    run_memories(RunOptions(data, tmp_path / "a", memories=["bm25"], settings=SETTINGS, quiet=True))
    run_memories(RunOptions(data, tmp_path / "b", memories=["gold-facts"], settings=SETTINGS, quiet=True))
    assert seen[0][1]["evidence"] == {}
    assert all(isinstance(ids, tuple) for ids in seen[1][1]["evidence"].values())
    assert "Ines Vogel" not in repr(seen[1][1]["evidence"])
