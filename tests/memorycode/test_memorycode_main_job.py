"""MemoryCode in the main job: which dialogues it takes, who answers, where results go; BEAM's rest on none of it."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from beam_memorycode.scored import score_data
from beam_run.shown_tasks import Suite, announce, find_data, suite_of_run
from beam_run.steps import evaluate_suite
from beamlib.errors import UserError
from beamlib.evaluate.arms import arms_of
from beamlib.evaluate.kept_settings import keep_settings
from beamlib.evaluate.run import BEAM
from beamlib.llm.endpoints import load_models
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import RunParameters, load_parameters
from beamlib.report.workspace import Workspace
from beamlib.run import Run
from scripted_server import ScriptedServer
from steady_replies import steady_reply

SESSION = {"session_regex": [["class", "^a_.*"]], "session_eval_query": ["stack"], "text": "Ada: Hello."}
CODE = "class a_Stack: pass"


@pytest.fixture
def dialogues(tmp_path: Path) -> Path:
    """A folder with one small dialogue."""
    folder = tmp_path / "dialogues"
    folder.mkdir()
    (folder / "dialogue_1.json").write_text(json.dumps({"sessions": [SESSION]}))
    return folder


def beam(repo_root: Path, tmp_path: Path, memorycode: str) -> RunParameters:
    """Parameters of a tier of BEAM beside that folder."""
    return load_parameters(repo_root / "params/100k.yaml", run=str(tmp_path / "run"), data="d", memorycode=memorycode)


def sidecar(work: Workspace, name: str) -> dict[str, object]:
    """The settings that a figure of `work` is said to rest on."""
    figure = Figure()
    figure.add_subplot().plot([1, 2])
    work.save_figure(figure, name, pd.DataFrame({"a": [1]}), "A caption.", scores=False)
    found: dict[str, object] = json.loads(
        next(file for file in reversed(work.files) if file.suffix == ".json").read_text()
    )
    return found["parameters"]  # type: ignore[return-value]


def test_the_folder_given_else_the_usual_one_else_none(
    dialogues: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beam_run.shown_tasks.USUAL", tmp_path / "usual")
    assert find_data("memorycode", None) == ""
    assert find_data("memorycode", dialogues) == str(dialogues)
    monkeypatch.chdir(tmp_path)
    assert find_data("memorycode", Path("dialogues")) == str(dialogues)
    (tmp_path / "usual/memorycode").mkdir(parents=True)
    with pytest.raises(UserError, match="usual"):  # there, but without dialogues
        find_data("memorycode", None)
    (tmp_path / "usual/memorycode/dialogue_1.json").write_text(json.dumps({"sessions": [{**SESSION, "text": None}]}))
    with pytest.raises(UserError, match="texts"):
        find_data("memorycode", None)
    (dialogues / "dialogue_2.json").write_text(json.dumps({"sessions": [{**SESSION, "session_eval_query": []}]}))
    with pytest.raises(UserError, match=r"dialogue_2\.json"):
        find_data("memorycode", dialogues)


def test_a_real_bundle_is_found(memorycode_data: Path) -> None:
    assert find_data("memorycode", memorycode_data) == str(memorycode_data.absolute())


def suite(folder: Path, models: str, tmp_path: Path, *, ask: bool = True, backbones: tuple[str, ...] = ()) -> Suite:
    """MemoryCode as the main job has it, on the dialogues in `folder`."""
    shared = {"run": str(tmp_path / "run"), "conversations": 3, "calls": "record"}
    return suite_of_run(
        "memorycode",
        str(folder),
        ask=ask,
        backbones=backbones,
        places={"models": models},
        models=load_models(Path(models)) if models else None,
        settings={"k": 2, "workers": 1},
        shared=shared,
    )


@pytest.mark.parametrize(("ask", "served", "asked"), [(True, True, True), (False, True, False), (True, False, False)])
def test_models_are_asked_only_about_dialogues_that_were_named(
    ask: bool, served: bool, asked: bool, repo_root: Path, tmp_path: Path
) -> None:
    models = str(repo_root / "params/models.yaml") if served else ""
    folder = tmp_path / "dialogues"
    found = suite(folder, models, tmp_path, ask=ask, backbones=("gpt-4.1-nano", "gemini-2.0-flash"))
    shown = found.shown
    assert (shown.memorycode, shown.data, shown.conversations, shown.retrieval.k) == (str(folder), "", 3, 2)
    assert (shown.models, shown.backbone) == ((models, "gpt-4.1-nano") if asked else ("", ""))
    assert shown.confirm_cost is False
    assert found.agreed(True).shown.confirm_cost is asked
    assert len(found.runs) == (2 if asked else 1)
    assert (OFFLINE_NAME in found.announcement) is not asked
    if not asked:
        assert found.estimates() == []


@pytest.mark.usefixtures("in_this_process")
def test_what_is_estimated_is_asked_once_and_then_on_file(dialogues: Path, repo_root: Path, tmp_path: Path) -> None:
    said = {"text": "Ada Reed: Start class names with a_.\n\nBo Hill: I will.", "session_length": "short"}
    topics = {"type": ["instruction-add"], "topic": ["always start class names with 'a_'"]}
    history = {"history_regex": SESSION["session_regex"], "history_eval_query": ["stack"]}
    people = {"mentor": "Ada Reed", "mentee": "Bo Hill", "company": "Reed & Co"}
    value = {"context": people, "instructions": [[[1, 0]]], "sessions": [{**SESSION, **said, **topics, **history}]}
    (dialogues / "dialogue_1.json").write_text(json.dumps(value))
    with ScriptedServer(
        lambda body: CODE if "Write a stack" in str(body["messages"]) else steady_reply(body)
    ) as server:
        endpoint = {"model": "scripted", "base_url": server.base_url, "context_window": 32_000}
        roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
        models = tmp_path / "models.yaml"
        models.write_text(json.dumps({"readers": {"one": endpoint}, **roles}))
        found = suite(dialogues, str(models), tmp_path)
        ((_, title, before),) = found.estimates()
        assert title == "MemoryCode · one" and before.pending > 5
        with pytest.raises(UserError, match="nothing is called before confirm_cost"):
            evaluate_suite(found)
        assert server.connections == 0
        found = found.agreed(True)
        evaluate_suite(found)
        called = len(server.requests)
        ((_, _, after),) = found.estimates()
        assert after.pending == 0
        evaluate_suite(found)
        assert len(server.requests) == called
    (scored,) = score_data(dialogues, {"one": tmp_path / "run/memorycode/outputs/one"})
    assert scored.summary["session"].mean == scored.summary["short_history"].mean == 100


def test_what_notebook_10_makes_has_a_part_of_its_own(
    repo_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Workspace(Run.of(beam(repo_root, tmp_path, "/somewhere/dialogues")))
    announce(work, "memorycode")
    assert OFFLINE_NAME in capsys.readouterr().out
    settings = sidecar(work, "figure3_published")
    assert {file.parent for file in work.files} == {tmp_path / "run" / "figures" / "memorycode"}
    assert not {"memorycode", "size", "protocol"} & sidecar(work, "figure4").keys()
    assert settings == {}


def test_beam_does_not_rest_on_memorycode(repo_root: Path, tmp_path: Path) -> None:
    without, beside = (beam(repo_root, tmp_path, folder) for folder in ("", "/dialogues"))
    assert Run.of(without).recording_command == Run.of(beside).recording_command
    for arm in arms_of(without, ["main"]):
        stores = [BEAM.store(arm, Run.of(one)) for one in (without, beside)]
        assert stores[0].key("answers") == stores[1].key("answers")
        assert stores[0].key("judgements") == stores[1].key("judgements")
    assert sidecar(Workspace(Run.of(without)), "figure4") == sidecar(Workspace(Run.of(beside)), "figure4")
    assert "memorycode" not in sidecar(Workspace(Run.of(beside)), "figure4")


def test_a_published_run_does_not_name_the_folder(repo_root: Path, tmp_path: Path) -> None:
    models = str(repo_root / "params/models.yaml")
    parameters = beam(repo_root, tmp_path, "/dialogues").model_copy(update={"models": models})
    keep_settings(Run.of(parameters))
    kept = json.loads((tmp_path / "run" / Run.of(parameters).part / "parameters.json").read_text())
    assert "memorycode" not in kept and kept["authors"] == ""
