"""A study loses nothing: cells of one name, of one content, of earlier versions, of other studies, and failed ones."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from beam_meme.episode_files import write_episodes
from beam_meme.grid import Grid, run_grid, study_frame, study_table
from beamlib.commands.task_runs import TaskOptions
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


@pytest.mark.usefixtures("in_this_process")
def test_a_cell_of_an_earlier_version_goes_on_and_never_takes_another_in(options: TaskOptions, tmp_path: Path) -> None:
    with ScriptedServer(reply) as server:
        first = models_in(server, tmp_path / "a")
        run_grid(Grid([5], models=[first]), options)
        (cell,) = (tmp_path / "runs").glob("s-*")
        shutil.move(cell, tmp_path / "runs/s-k5-models-default")  # the name that earlier versions gave it
        asked = len(server.requests)
        run_grid(Grid([5], models=[first]), options)
        assert [path.name for path in (tmp_path / "runs").glob("s-*")] == ["s-k5-models-default"]
        assert len(server.requests) == asked
        run_grid(Grid([5], models=[models_in(server, tmp_path / "b", one={"temperature": 0.7})]), options)
    assert len(overall(options.folder)) == 2


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
