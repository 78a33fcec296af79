"""A recorded run as an archive, and the archive replayed by someone who has the data and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

import beamlib
from beam_run.archive import export_calls
from beam_run.publish import publish, verify
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.calling import resolved
from beamlib.evaluate.kept_settings import keep_settings
from beamlib.evaluate.run import evaluate
from beamlib.params import RunParameters, load_parameters
from remade_archives import contents, remade, signed
from scripted_server import ScriptedServer
from steady_replies import one_endpoint, steady_reply

KEY = "swordfish-and-chips"
EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
ARMS = (Arm(memory="none"), Arm(memory="light", retriever="bm25", k=2))


@pytest.fixture(scope="module")
def run(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run folder whose server is gone; one of its prompts is overridden."""
    root = tmp_path_factory.mktemp("published")
    (root / "prompts").mkdir()
    (root / "prompts" / "answer.md").write_text("Of this: {{ context }}\n<question>\n{{ question }}\n</question>\nSay:")
    with ScriptedServer(steady_reply) as server:
        one_endpoint(server, root / "models.yaml")
        parameters: RunParameters = load_parameters(
            repo_root / "params" / "100k.yaml",
            data=str(EXAMPLE),
            run=str(root / "run"),
            models=str(root / "models.yaml"),
            prompts=str(root / "prompts"),
            confirm_cost=True,
            workers=1,
        )
        evaluate(parameters, ARMS, quiet=True)
        assert any("Of this: " in str(request.body) for request in server.requests)
    keep_settings(resolved(parameters))
    return root / "run"


def test_an_archive_is_verified_and_replayed_without_a_server(run: Path, tmp_path: Path) -> None:
    archive = tmp_path / "run.tar.zst"
    assert "0 without a usable reply" in publish(run, archive)
    assert "every hash agrees" in verify(archive, None)
    assert "100k-one: 2 methods replayed, 40 answers and judgements, all as published" in verify(archive, EXAMPLE)
    assert str(run).encode() not in archive.read_bytes()


def test_a_call_that_is_not_in_the_archive_is_said_without_a_command_that_pays(run: Path, tmp_path: Path) -> None:
    publish(run, tmp_path / "run.tar.zst")
    files = contents(tmp_path / "run.tar.zst")
    models = yaml.safe_load(files["100k-one/models.yaml"])
    models["readers"]["one"]["seed"] = 5
    files["100k-one/models.yaml"] = yaml.safe_dump(models).encode()
    with pytest.raises(UserError, match="the call is not stored, so the answers do not follow") as caught:
        verify(remade(files, tmp_path / "crafted.tar.zst"), EXAMPLE)
    assert "--yes" not in str(caught.value) and "beamlib-replay-" not in str(caught.value)


def test_equal_runs_give_equal_archives(run: Path, tmp_path: Path) -> None:
    for name in ("first.tar.zst", "second.tar.zst"):
        publish(run, tmp_path / name)
    assert (tmp_path / "first.tar.zst").read_bytes() == (tmp_path / "second.tar.zst").read_bytes()


def test_an_answer_that_the_calls_do_not_give_is_found(run: Path, tmp_path: Path) -> None:
    manifest = run / "100k-one" / "none" / "manifest.json"
    value = json.loads(manifest.read_text())
    del value["sha256"]
    value["answers_sha256"]["100K-1"] = "0" * 64
    from beamlib.files import sha256, to_json

    forged = tmp_path / "manifest.json"
    forged.write_text(json.dumps({**value, "sha256": sha256(to_json(value))}))
    part = run / "100k-one"
    files = [part / "parameters.json", part / "models.yaml", *sorted(part.glob("prompts/*.md"))]
    extra = {path.relative_to(run).as_posix(): path for path in files} | {"100k-one/none/manifest.json": forged}
    export_calls(run / "calls", tmp_path / "forged.tar.zst", extra)
    with pytest.raises(UserError, match=r"100k-one/none: the answers of 100K-1 came out otherwise"):
        verify(tmp_path / "forged.tar.zst", EXAMPLE)


@pytest.mark.usefixtures("one_worker")
def test_what_an_earlier_run_left_in_the_folder_is_replayed_with_its_own_parameters(
    repo_root: Path, tmp_path: Path
) -> None:
    run, prompts = tmp_path / "run", tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "answer.md").write_text("By {{ context }} <question>\n{{ question }}\n</question>")
    none, two, three = Arm(memory="none"), *(Arm(memory="rag", retriever="bm25", k=k) for k in (2, 3))
    with ScriptedServer(steady_reply) as server:
        fixed = {"data": str(EXAMPLE), "run": str(run), "confirm_cost": True, "workers": 1}
        fixed["models"] = str(one_endpoint(server, tmp_path / "models.yaml"))
        for arms, changes in (
            ((none,), {"prompts": str(prompts)}),
            ((none, two), {}),
            ((none, three), {"judge_repeats": 2, "question_in_prompt": False}),
        ):
            parameters = load_parameters(repo_root / "params" / "100k.yaml", **fixed, **changes)
            evaluate(parameters, arms, quiet=True)
            keep_settings(resolved(parameters))
    publish(run, tmp_path / "run.tar.zst")
    assert "100k-one: 3 methods replayed, 60 answers" in verify(tmp_path / "run.tar.zst", EXAMPLE)


def test_a_folder_without_calls_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no stored calls"):
        publish(tmp_path, tmp_path / "x.tar.zst")


def test_nothing_is_packed_while_a_file_holds_a_key(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    models = copy / "100k-one" / "models.yaml"
    models.write_text(
        models.read_text().replace("model: scripted", "model: scripted\n    key_variable: BEAM_TEST_KEY", 1)
    )
    monkeypatch.setenv("BEAM_TEST_KEY", KEY)
    line = publish(copy, tmp_path / "clean.tar.zst")
    assert line.endswith("; no file holds the key in BEAM_TEST_KEY")
    (copy / "figures").mkdir()
    (copy / "figures" / "plot.pdf").write_bytes(b"%PDF" + KEY.encode().hex().encode())
    with pytest.raises(UserError, match=r"figures/plot\.pdf \(BEAM_TEST_KEY\)") as caught:
        publish(copy, tmp_path / "run.tar.zst")
    assert KEY not in str(caught.value) and not (tmp_path / "run.tar.zst").exists()
    monkeypatch.delenv("BEAM_TEST_KEY")
    assert "not searched for the key in BEAM_TEST_KEY, which is not set here" in publish(copy, tmp_path / "x.tar.zst")


def test_a_comment_of_the_models_file_is_not_published(repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer() as server:
        models = one_endpoint(server, tmp_path / "models.yaml")
    models.write_text(models.read_text() + "# ask Ana for the key: tulips-in-amsterdam\n")
    keep_settings(load_parameters(repo_root / "params/100k.yaml", run=str(tmp_path / "run"), models=str(models)))
    assert "tulips" not in (tmp_path / "run" / "100k-one" / "models.yaml").read_text()


def test_an_arm_of_a_retriever_that_is_gone_is_named_and_the_rest_replayed(run: Path, tmp_path: Path) -> None:
    older = shutil.copytree(run, tmp_path / "run")
    manifest = next(older.glob("100k-one/light-*/manifest.json"))
    recorded = json.loads(manifest.read_text())
    recorded["settings"]["arm"]["retriever"] = "hybrid-beam"
    recorded["arm"] = "light-hybrid-beam-k2"
    manifest.write_bytes(signed(recorded))
    manifest.parent.rename(manifest.parents[1] / recorded["arm"])
    archive = tmp_path / "run.tar.zst"
    publish(older, archive)
    line = verify(archive, EXAMPLE)
    assert "100k-one: 1 methods replayed, 20 answers and judgements, all as published" in line
    assert "1 not replayed: the retriever 'hybrid-beam' was fitted to BEAM" in line
