"""State traces, the effect of filler by task, and the agreement of two judges on the same answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from beam_commands.task_runs import TaskOptions, run_command, run_of, score_command
from beam_meme import cli
from beam_meme.agreement import agreement_table
from beam_meme.episode_files import write_episodes
from beam_meme.episode_gold import TASKS
from beam_meme.grid import study_figures
from beam_meme.meme_judge import MemeVerdict
from beam_meme.meme_scoring import FAILURE_STAGES, OVERALL
from beam_meme.meme_tally import Scored, score_plan
from beam_meme.meme_traces import filler_by_task, filler_by_task_figure, trace_figure, trace_frame
from beam_meme.task import Meme
from beamlib.errors import UserError
from beamlib.evaluate.runner import plan_scoring
from scripted_server import ScriptedServer
from small_episodes import LOADED
from steady_replies import one_endpoint

TASK = Meme("nofiller")


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Scored]:
    place = tmp_path_factory.mktemp("traced")
    data, folder = place / "nofiller.json", place / "runs/t"
    write_episodes(data, LOADED)
    options = TaskOptions(data, folder, arms=["none", "bm25", "md-flat"], settings={"workers": 1}, quiet=True)
    run_command(TASK, options)
    score_command(TASK, options)
    return data, folder, score_plan(plan_scoring(TASK, run_of(TASK, options)), "here")


def test_a_trace_says_of_every_question_how_far_it_got(scored: tuple[Path, Path, Scored]) -> None:
    _, _, found = scored
    episode = found.pairs[0].loaded.episode.id
    frame = trace_frame(found, episode)
    counted = [stage for pair in found.pairs if pair.loaded.episode.id == episode for a in pair.answers
               if (stage := pair.stage(a))]  # fmt: skip
    for place, stage in enumerate(FAILURE_STAGES[:-1]):
        states = frame[stage].value_counts()
        assert states.get("no", 0) == counted.count(stage)
        assert states.get("yes", 0) == sum(FAILURE_STAGES.index(one) > place for one in counted)
    assert (frame.loc[frame["memory"] == "md-flat", "kept"] > 0).all()
    assert (frame.loc[frame["memory"] != "md-flat", "kept"] == 0).all()
    assert len(trace_figure(found, episode).axes) == 3
    with pytest.raises(UserError, match="--episode: 'sw_999' was not asked about; choose one of "):
        trace_frame(found, "sw_999")


def test_filler_by_task_has_a_bar_for_each_variant(scored: tuple[Path, Path, Scored]) -> None:
    frame = filler_by_task({"nofiller": scored[2], "filler32k": scored[2]})
    assert len(frame) == 2 * 3 * 7 and set(frame["variant"]) == {"nofiller", "filler32k"}
    figure = filler_by_task_figure(frame, "reader: r")
    assert [axes.get_title(loc="left") for axes in figure.axes][:2] == ["exact recall", "aggregation"]


def test_a_study_draws_prompts_by_system_and_filler_by_task_where_they_vary() -> None:
    rows = [
        {"memory": memory, "k": 5, "variant": variant, "reader": "r", "inside": "i", "prompts": prompts, "run": "x",
         "judge": "j", "task": task, "real": 0.25, "low": 0.1, "high": 0.5, "n": 8}
        for memory in ("md-flat", "wiki", "bm25")
        for variant in ("nofiller", "filler32k", "filler128k")
        for prompts in (("default", "simba") if memory != "bm25" else ("default",))
        for task in (*map(str, TASKS), OVERALL)
    ]  # fmt: skip
    figures = study_figures(pd.DataFrame(rows))
    assert set(figures) == {"figure3", "figure5", "figure5a", "figure29"}

    def labels(name: str) -> tuple[list[str], set[str]]:
        panels = [axes for axes in figures[name].axes if axes.get_visible()]
        systems = {label.get_text() for label in panels[-1].get_xticklabels()}
        return [axes.get_title(loc="left") for axes in panels], systems

    assert labels("figure5a") == (["overall", "cascade", "absence"], {"md-flat", "wiki"})
    assert labels("figure29")[0] == [task.replace("_", " ") for task in (*TASKS, OVERALL)]
    assert labels("figure29")[1] == {"md-flat", "wiki", "bm25"}
    same = pd.DataFrame([row for row in rows if row["variant"] == "nofiller" and row["prompts"] == "default"])
    assert set(study_figures(same)) == {"figure3", "figure5"}


def verdicts(passed: list[bool | None], judge: str) -> dict[str, dict[str, MemeVerdict]]:
    own = [
        MemeVerdict(question_id=f"e-after-q{n}", passed=one, judge=judge, unscored=None if one is not None else "why")
        for n, one in enumerate(passed)
    ]
    return {"m": {one.question_id: one for one in own}}


def test_kappa_by_task_by_hand() -> None:
    first = verdicts([True, True, False, False, True, None, True], "a")
    second = verdicts([True, False, False, False, True, True, True], "b")
    tasks = {f"e-after-q{n}": "cascade" if n < 6 else "deletion" for n in range(7)}
    frame = agreement_table(first, second, tasks).frame
    assert isinstance(frame, pd.DataFrame)
    rows = {row["task"]: row for row in frame.to_dict("records")}
    # Of five cascades four are equal; by chance 3/5 · 2/5 + 2/5 · 3/5.
    assert rows["cascade"]["equal"] == pytest.approx(0.8)
    assert rows["cascade"]["kappa"] == pytest.approx((0.8 - 0.48) / (1 - 0.48))
    assert (rows["cascade"]["n"], rows["cascade"]["undecided"]) == (5, 1)
    assert pd.isna(rows["deletion"]["kappa"]) and rows["overall"]["n"] == 6


@pytest.mark.usefixtures("in_this_process")
def test_the_commands_trace_and_compare_and_leave_the_verdicts_alone(
    scored: tuple[Path, Path, Scored], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, folder, found = scored
    monkeypatch.setattr("beamlib.places.ROOT", folder.parents[1])

    def beamlib(*words: str) -> str:
        done = CliRunner().invoke(cli.meme_app, [words[0], "--data", str(data), "--name", "t", *words[1:]])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    def accepts(body: dict[str, Any]) -> str:
        return '{"pass": true, "present": [true, true, true]}'

    before = {path: path.read_bytes() for path in folder.rglob("judgements.jsonl")}
    assert "MEME: state trace" in beamlib("trace", "--episode", found.pairs[0].loaded.episode.id)
    same = beamlib("agreement")
    assert "MEME: agreement of two judges" in same and "0.5" not in same
    with ScriptedServer(accepts) as server:
        models = str(one_endpoint(server, tmp_path / "models.yaml"))
        refused = CliRunner().invoke(
            cli.meme_app, ["agreement", "--data", str(data), "--name", "t", "--models", models]
        )
        assert isinstance(refused.exception, UserError) and "add --yes" in str(refused.exception)
        assert not server.requests
        assert "second: scripted" in beamlib("agreement", "--models", models, "--yes")
        asked = len(server.requests)
        beamlib("agreement", "--models", models, "--calls", "replay")
        assert len(server.requests) == asked > 0
    assert before == {path: path.read_bytes() for path in folder.rglob("judgements.jsonl")}
    assert (folder / "meme/nofiller/agreement/judges.csv").exists()
