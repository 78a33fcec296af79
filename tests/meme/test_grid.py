"""A study loses nothing: cells of one name, of one content, of other studies, and failed ones."""

from __future__ import annotations

import json
import re
import shutil
import venv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from beam_commands.task_runs import TaskOptions
from beam_meme.episode_files import write_episodes
from beam_meme.grid import Grid, run_grid, study_frame, study_table
from beam_memories.programs import adapter_identity
from beamlib.errors import UserError
from beamlib.places import PROMPTS
from scripted_server import ScriptedServer
from small_episodes import LOADED
from steady_replies import one_endpoint, steady_reply


@pytest.fixture
def options(tmp_path: Path) -> TaskOptions:
    """A study `s` of one episode on BM25."""
    write_episodes(tmp_path / "nofiller.json", LOADED)
    return TaskOptions(
        tmp_path / "nofiller.json", tmp_path / "runs/s", arms=["bm25"], most=1, settings={"workers": 1}, quiet=True,
        yes=True,
    )  # fmt: skip


def reply(body: dict[str, Any]) -> str:
    text = str(body["messages"][-1]["content"])
    return steady_reply(body) if "<context>" in text else '{"pass": true, "present": [true, true, true]}'


def models_in(server: ScriptedServer, folder: Path, **changes: dict[str, Any]) -> str:
    """A models file `models.yaml` in a folder; `changes` are fields by role."""
    folder.mkdir()
    path = one_endpoint(server, folder / "models.yaml")
    values = yaml.safe_load(path.read_text())
    for role, own in changes.items():
        part = values["readers"] if role in values["readers"] else values
        part[role] = {**part[role], **own}
    path.write_text(yaml.safe_dump(values))
    return str(path)


def prompts_in(folder: Path, extra: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "meme_answer.md").write_text((PROMPTS / "meme_answer.md").read_text() + extra)
    return folder


def overall(folder: Path) -> pd.DataFrame:
    frame = study_frame(folder)
    return frame[frame["task"] == "overall"]


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("change", "column"),
    [
        ({"one": {"model": "other"}}, "reader"),
        ({"one": {"temperature": 0.7}}, "reader"),
        ({"memory": {"model": "other"}}, ""),
    ],
    ids=["another reader", "the same reader, warmer", "what BM25 does not ask"],
)
def test_models_files_of_one_name_are_two_cells_and_two_rows(
    change: dict[str, Any], column: str, options: TaskOptions, tmp_path: Path
) -> None:
    with ScriptedServer(reply) as server:
        files = [models_in(server, tmp_path / "a"), models_in(server, tmp_path / "b", **change)]
        run_grid(Grid(models=files), options)
    cells = overall(options.folder)
    assert len(cells) == 2 and cells["run"].nunique() == 2
    assert not column or cells[column].nunique() == 2
    shown = study_table(study_frame(options.folder)).rows()
    assert sum("bm25" in row for row in shown) == 2
    assert len(list((tmp_path / "runs").glob("s-*"))) == 2


def test_prompt_folders_of_one_name_are_two_cells_also_beside_default(options: TaskOptions, tmp_path: Path) -> None:
    folders = [prompts_in(tmp_path / "pa/default", "\nBe brief."), prompts_in(tmp_path / "pb/default", "\nBe kind.")]
    run_grid(Grid(prompts=[None, *folders]), options)
    cells = overall(options.folder)
    assert len(cells) == 3 and cells["prompts"].nunique() == 3
    assert "default (default)" in set(cells["prompts"])  # ours is told apart from theirs of that name


@pytest.mark.parametrize("grid", ["models", "prompts"])
def test_two_of_one_content_are_refused_before_anything_runs(grid: str, options: TaskOptions, tmp_path: Path) -> None:
    with ScriptedServer(reply) as server:
        if grid == "models":
            given = Grid(models=[models_in(server, tmp_path / "a"), models_in(server, tmp_path / "b")])
        else:
            given = Grid(prompts=[prompts_in(tmp_path / "pa/p", ""), prompts_in(tmp_path / "pb/p", "")])
        with pytest.raises(UserError, match=f"--{grid}: .*a/.* and .*b/.* say the same.*; leave one out"):
            run_grid(given, options)
        assert not server.requests
    assert not (tmp_path / "runs").exists()


def test_a_wrong_file_of_the_last_cell_is_said_before_the_first_one_runs(options: TaskOptions, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=re.escape("/nowhere")):
        run_grid(Grid(prompts=[None, Path("/nowhere")]), options)
    assert not (tmp_path / "runs").exists()


HOST = """
import json, sys
if "--describe" in sys.argv:
    print(json.dumps({"missing": [], "notes": ["mem0: a stand-in"]}))
    raise SystemExit
for line in sys.stdin:
    request = json.loads(line)
    reply = {}
    if request["method"] == "hello":
        reply, top = {"protocol": 2}, request.get("k", 7)
    elif request["method"] == "recall":
        reply = {"context": "\\n".join(f"fact {n}" for n in range(top)), "message_ids": [], "parts": {}}
    print(json.dumps({"id": request["id"], **reply}), flush=True)
"""


@pytest.mark.usefixtures("in_this_process")
def test_k_reaches_systems_of_others_where_it_is_given_and_the_table_says_where_it_does_not(
    options: TaskOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "host.py").write_text(HOST)
    monkeypatch.setattr("beam_memories.programs.HOST", tmp_path / "host.py")
    adapter_identity.cache_clear()
    systems = replace(options, arms=["mem0", "none"])
    with ScriptedServer(reply) as server:
        models = models_in(server, tmp_path / "a")
        run_grid(Grid([5, 20], models=[models]), systems)
        run_grid(Grid(models=[models]), systems)
    adapter_identity.cache_clear()
    lines = {}
    for path in (tmp_path / "runs").glob("s-*/meme/*/mem0/contexts.jsonl"):
        texts = json.loads(path.read_text().splitlines()[0])["texts"].values()
        lines[path.parents[3].name.split("-")[1]] = {len(text.splitlines()) for text in texts}
    assert lines == {"k5": {5}, "k20": {20}, "kusual": {7}}
    frame = overall(options.folder)
    assert set(frame.loc[frame["memory"] == "mem0", "k"].astype(str)) == {"5", "20", ""}
    manifests = [json.loads(path.read_text()) for path in (tmp_path / "runs").glob("s-k5*/meme/*/mem0/run.json")]
    assert ["mem0: K = 5" in one["notes"] for one in manifests] == [True]
    assert "Without a K, or none was given: mem0, none." in study_table(study_frame(options.folder)).notes


MEM0 = """
class Memory:
    @classmethod
    def from_config(cls, config): return cls()
    def __init__(self): self.kept = []
    def add(self, told, user_id, metadata):
        self.kept += [{"memory": f"fact {len(self.kept) + n}", "metadata": metadata} for n in range(9)]
    def search(self, question, filters, top_k): return {"results": self.kept[:top_k]}
"""


@pytest.mark.usefixtures("in_this_process")
def test_k_reaches_the_package_through_its_adapter(
    options: TaskOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The adapter and its host as they are, in an environment with a package that keeps nine facts of every pair."""
    venv.create(tmp_path / ".venv-mem0", with_pip=False, symlinks=True)
    (site,) = (tmp_path / ".venv-mem0").glob("lib/python*/site-packages")
    (site / "mem0.py").write_text(MEM0)
    clock = "class travel:\n    def __init__(self, *_, **__): ...\n    def start(self): ...\n    stop = start\n"
    (site / "time_machine.py").write_text(clock)
    for name in ("mem0ai", "time_machine"):
        (site / f"{name}-2.2.1.dist-info").mkdir()
        (site / f"{name}-2.2.1.dist-info/METADATA").write_text(f"Name: {name}\nVersion: 2.2.1\n")
    monkeypatch.setattr("beam_memories.programs.ROOT", tmp_path)
    adapter_identity.cache_clear()
    with ScriptedServer(reply) as server:
        models = models_in(server, tmp_path / "a")
        run_grid(Grid([5, 20, None], models=[models]), replace(options, arms=["mem0"]))
    adapter_identity.cache_clear()
    facts = {}
    for path in (tmp_path / "runs").glob("s-*/meme/*/mem0/contexts.jsonl"):
        texts = json.loads(path.read_text().splitlines()[0])["texts"].values()
        facts[path.parents[3].name.split("-")[1]] = {text.count("fact ") for text in texts}
    assert facts == {"k5": {5}, "k20": {20}, "kusual": {20}}
    assert set(overall(options.folder)["k"].astype(str)) == {"5", "20", ""}


def test_a_study_does_not_show_the_runs_of_one_with_a_longer_name(options: TaskOptions, tmp_path: Path) -> None:
    run_grid(Grid([2]), options)
    shutil.copytree(tmp_path / "runs/s-k2-offline-default", tmp_path / "runs/s-x-k2-offline-default")
    assert len(overall(options.folder)) == 1 and len(overall(tmp_path / "runs/s-x")) == 1


def test_a_system_without_any_score_stays_in_the_table(options: TaskOptions) -> None:
    run_grid(Grid([2, 3]), options)
    frame = study_frame(options.folder)
    frame.loc[frame["run"].str.startswith("k3"), ["real", "low", "high"]] = float("nan")
    rows = [row for row in study_table(frame).rows() if row[0] == "bm25"]
    assert len(rows) == 2 and set(rows[1][-7:]) == {"–"}
