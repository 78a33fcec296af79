"""What notebook 11 shows and the main job asks: which episodes, what is made again, who answers, where it lies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beam_commands.estimate import estimate_plan
from beam_commands.task_runs import TaskOptions, run_command, score_command
from beam_meme import study as meme_study
from beam_meme.episode_files import write_episodes
from beam_meme.task import Meme
from beam_run.shown_tasks import find_data, suite_of_run
from beam_run.steps import evaluate_suite
from beamlib.errors import UserError
from beamlib.llm.call_store import CallStore
from beamlib.llm.endpoints import load_models
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import RunParameters, usual_parameters
from scripted_server import ScriptedServer
from small_episodes import LOADED
from steady_replies import steady_reply

FEW = ("none", "bm25")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two variants of two small episodes."""
    (tmp_path / "episodes").mkdir()
    for variant in ("nofiller", "filler32k"):
        write_episodes(tmp_path / "episodes" / f"{variant}.json", LOADED)
    return tmp_path / "episodes"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two memories alone."""
    monkeypatch.setattr(Meme, "arms", lambda *_: FEW)


def given(tmp_path: Path, **changes: Any) -> RunParameters:
    """Parameters of a notebook."""
    fixed = {"workers": 1, "retriever": "bm25"}
    return usual_parameters("100K", run=str(tmp_path / "run"), **{**fixed, **changes})


def test_a_small_set_is_generated_once_and_anew_for_another_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meme_study, "_GENERATED", {"nofiller": 2})
    file = tmp_path / "run/meme/data/nofiller/nofiller.json"
    first = meme_study.open_meme_study(given(tmp_path))
    text, made = file.read_text(), file.stat().st_mtime_ns
    assert meme_study.open_meme_study(given(tmp_path)).revision == first.revision
    assert file.stat().st_mtime_ns == made
    assert first.generated and OFFLINE_NAME in first.revision and len(first.sets["nofiller"]) == 2
    assert meme_study.open_meme_study(given(tmp_path, generation_seed=8)).revision != first.revision
    assert file.read_text() != text


def test_what_is_somebodys_own_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meme_study, "_GENERATED", {"nofiller": 2})
    (tmp_path / "run/meme/data/nofiller").mkdir(parents=True)
    (tmp_path / "run/meme/data/nofiller/nofiller.json").write_text("mine")
    with pytest.raises(UserError):
        meme_study.open_meme_study(given(tmp_path))
    assert (tmp_path / "run/meme/data/nofiller/nofiller.json").read_text() == "mine"


@pytest.mark.usefixtures("few")
def test_each_variant_is_run_scored_and_kept_apart(folder: Path, tmp_path: Path) -> None:
    parameters = given(tmp_path, meme=str(folder))
    study = meme_study.open_meme_study(parameters)
    assert not study.generated and [*study.sets] == ["nofiller", "filler32k"]
    results = meme_study.own_results(study, parameters)
    assert {path.relative_to(tmp_path / "run/meme").as_posix() for path in tmp_path.glob("run/meme/*/*")} == {
        f"{variant}/{memory}" for variant in ("nofiller", "filler32k") for memory in FEW
    }
    frame = meme_study.filler_frame(results)
    assert frame[["memory", "variant"]].to_numpy().tolist() == [
        [memory, variant] for variant in ("nofiller", "filler32k") for memory in FEW
    ]


@pytest.mark.usefixtures("few", "in_this_process")
def test_frames_agree_with_the_tables(folder: Path, tmp_path: Path) -> None:
    parameters = given(tmp_path, meme=str(folder))
    one = meme_study.own_results(meme_study.open_meme_study(parameters), parameters)["nofiller"]
    stages = meme_study.stages_frame(one).set_index("memory")
    assert list(stages.index) == list(FEW)
    assert stages.loc["none", "encoded"] + stages.loc["none", "right"] == stages.loc["none"].sum()
    assert stages.loc["bm25", "encoded"] == 0
    kinds = meme_study.kinds_frame(one).set_index(["memory", "task"])
    assert kinds.loc[("none", "deletion"), "trivial"] > 0 == kinds.loc[("none", "deletion"), "real"]
    raw = {row[1]: row[2:] for row in one.tables["results_unfiltered"].rows()}
    real = {row["memory"]: row["real"] for row in one.tables["results"].records() if row["task"] == "deletion"}
    assert raw["none"][3] == "1.00" and real["none"] == 0
    gold, asked = meme_study.example(one)
    assert gold.task == "cascade" and [answer.memory for answer in asked] == list(FEW)
    assert all(answer.stage for answer in asked)


@pytest.mark.usefixtures("in_this_process")
def test_answers_of_several_readers_are_told_apart(folder: Path, tmp_path: Path) -> None:
    with ScriptedServer(steady_reply) as server:
        endpoint = f'{{model: scripted, base_url: "{server.base_url}", context_window: 32000}}'
        roles = "".join(f"{role}: {endpoint}\n" for role in ("memory", "compressor", "judge", "aligner"))
        models = tmp_path / "models.yaml"
        models.write_text(f"readers: {{one: {endpoint}, two: {endpoint}}}\n{roles}")
        order = {"data": folder, "folder": tmp_path / "run", "variant": "nofiller", "arms": ["none"], "quiet": True}
        for reader in ("one", "two"):
            run_command(Meme("nofiller"), TaskOptions(**order, models=str(models), backbone=reader, yes=True))
    run_command(Meme("nofiller"), TaskOptions(**order))
    assert {path.name for path in (tmp_path / "run/meme").iterdir()} == {
        "models.yaml", "nofiller", "nofiller-one", "nofiller-two",
    }  # fmt: skip
    with pytest.raises(UserError, match=r"several readers \(offline, one, two\); name one with"):
        score_command(Meme("nofiller"), TaskOptions(**order))
    score_command(Meme("nofiller"), TaskOptions(**order, backbone="two"))
    assert (tmp_path / "run/meme/nofiller-two/scores/results.csv").exists()


def test_the_folder_given_else_the_usual_one_else_none(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beam_run.shown_tasks.USUAL", tmp_path / "usual")
    assert find_data("meme", None) == ""
    assert find_data("meme", folder) == str(folder)
    (tmp_path / "usual/meme").mkdir(parents=True)
    with pytest.raises(UserError, match="usual"):
        find_data("meme", None)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("ask", "served"), [(True, True), (False, True), (True, False)])
def test_models_are_asked_only_about_episodes_that_were_named(
    ask: bool, served: bool, folder: Path, repo_root: Path, tmp_path: Path
) -> None:
    models = str(repo_root / "params/models.yaml") if served else ""
    shared = {"run": str(tmp_path / "run"), "conversations": 1, "calls": "record"}
    settings = {"k": 2, "workers": 1}
    found = suite_of_run(
        "meme", str(folder), ask=ask, backbones=(), places={"models": models},
        models=load_models(Path(models)) if models else None, settings=settings, shared=shared,
    )  # fmt: skip
    assert (found.shown.meme, found.shown.data, found.shown.retrieval.k) == (str(folder), "", 2)
    assert bool(found.shown.models) is (ask and served)
    assert (OFFLINE_NAME in found.announcement) is not (ask and served)
    assert found.agreed(True).shown.confirm_cost is (ask and served)
    counted = {row.role: row.calls for _, _, one in found.estimates() for row in one.rows}
    assert bool(counted.get("reader") and counted.get("judge")) is (ask and served)  # verdicts are announced as well
    if not (ask and served):
        evaluate_suite(found)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("few", "in_this_process")
def test_what_was_announced_is_nearly_what_is_called(folder: Path, tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str:
        text = str(body["messages"][-1]["content"])
        verdict = '"present": [true, true, true]' if '{"present"' in text else '"pass": true'
        return steady_reply(body) if "<context>" in text else f'{{{verdict}, "reason": "scripted"}}'

    with ScriptedServer(reply) as server:
        endpoint = f'{{model: scripted, base_url: "{server.base_url}", context_window: 32000, '
        endpoint += "input_price: 3.0, cached_input_price: 1.0, output_price: 5.0}"
        roles = "".join(f"{role}: {endpoint}\n" for role in ("memory", "compressor", "judge", "aligner"))
        (tmp_path / "models.yaml").write_text(f"readers: {{one: {endpoint}}}\n{roles}")
        parameters = given(tmp_path, meme=str(folder), models=str(tmp_path / "models.yaml"), backbone="one")
        announced = sum(row.calls for one in estimates(parameters) for row in one.rows)
        assert not server.requests
        study = meme_study.open_meme_study(parameters)
        scored = meme_study.own_results(study, parameters.model_copy(update={"confirm_cost": True}))
        # Both variants hold the same episodes here, so their calls are the same and made once. Verdicts on answers that
        # a rehearsal cannot tell apart count once, so there may be a few more than announced.
        assert 0.9 < announced / (2 * len(server.requests)) <= 1
        paid = sum(dollars_by_hand(path) for path in (tmp_path / "run/calls/meme").glob("*.sqlite"))
        for own in scored.values():
            episodes = [stages for memory in own.dollars.values() for stages in memory]
            priced = [cost or 0.0 for stages in episodes for cost in stages.values()]
            assert sum(priced) == pytest.approx(paid) and paid > 0
        again = estimates(parameters)
        assert sum(row.calls for one in again for row in one.rows) == 0


def dollars_by_hand(path: Path) -> float:
    """What the reader's stored calls cost by the prices above."""
    with CallStore(path, read_only=True) as store:
        calls = [call for call in store.calls() if call.role == "reader"]
    parts = [(one.input_tokens - one.cached_tokens) * 3 + one.cached_tokens + one.output_tokens * 5 for one in calls]
    return sum(parts) / 1_000_000


def estimates(parameters: RunParameters) -> list[Any]:
    return [estimate_plan(plan, quiet=True) for plan in meme_study.shown_plans(parameters).values()]


@pytest.mark.usefixtures("few")
def test_a_generated_set_asks_no_model(tmp_path: Path) -> None:
    plans = meme_study.shown_plans(given(tmp_path, models="models.yaml", backbone="one"))
    assert {plan.run.models for plan in plans.values()} == {""}
