"""Records of the version before the tasks had one engine still open. `old_records/` is what that version wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from beam_meme.episode_files import write_episodes
from beam_meme.task import Meme
from beamlib.commands.task_runs import TaskOptions, run_command, score_command
from beamlib.errors import UserError
from small_episodes import LOADED

OLD = Path(__file__).parent / "old_records"


def test_a_run_on_meme_is_scored_as_it_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(OLD, tmp_path / "run")
    write_episodes(tmp_path / "nofiller.json", LOADED)
    task, options = Meme("nofiller"), TaskOptions(tmp_path / "nofiller.json", tmp_path / "run", quiet=True)
    results, *_ = score_command(task, options)
    assert {row["memory"] for row in results.records()} == {"none"}
    assert (tmp_path / "run/meme/nofiller/none/answers.jsonl").read_text().count("\n") == 16
    again, *_ = score_command(task, options, judge=False)
    assert again.rows() == results.rows()
    plan = run_command(task, TaskOptions(options.data, options.folder, arms=["none"], quiet=True))  # by today's code
    assert set(plan.records("none")) == {"sw_001", "sw_002"}


def test_an_old_record_that_was_edited_is_refused(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "run")
    write_episodes(tmp_path / "nofiller.json", LOADED)
    path = tmp_path / "run/meme/nofiller/none/episode_sw_001.json"
    path.write_text(path.read_text().replace('"sw_001-before-q01"', '"sw_001-before-q09"'))
    with pytest.raises(UserError, match=r"episode_sw_001\.json: not what run\.json vouches for"):
        score_command(Meme("nofiller"), TaskOptions(tmp_path / "nofiller.json", tmp_path / "run", quiet=True))
