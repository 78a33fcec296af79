"""Presets, windows and output limits: what a configuration is, and which server gets which request."""

from __future__ import annotations

import json
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

import beamlib
from beam_commands.estimate import estimate
from beam_commands.options import Endpoints
from beam_generate.of_run import config_of
from beam_run.job import MainJob
from beam_run.steps import run
from beamlib.errors import UserError
from beamlib.evaluate.arms import (
    Arm,
    arms_of,
    configuration_of,
    configuration_of_run,
    experiments,
    stated,
    writing_configuration,
)
from beamlib.evaluate.beam_records import read_manifest
from beamlib.evaluate.run import evaluate
from beamlib.llm.stored_model import CallStore
from beamlib.params import RunParameters, load_parameters, usual_parameters
from beamlib.report.footer import footer
from beamlib.run import Run
from beamlib.settings import RELEASED_FLAGS
from commands import Call
from scripted_server import ScriptedServer, body_text
from steady_replies import steady_reply

EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
SIZES = ("100k", "500k", "1m", "10m")
NONE, FULL = Arm(memory="none"), Arm(memory="full-context")
RAG, LIGHT = Arm(memory="rag", retriever="bm25", k=5), Arm(memory="light", retriever="bm25", k=5)


def loaded(root: Path, size: str = "100k", **changes: Any) -> RunParameters:
    return load_parameters(root / f"params/{size}.yaml", **changes)


def models_file(path: Path, base: str, **reader: Any) -> Path:
    endpoint = {"model": "scripted", "base_url": base, "context_window": 32_768, "patience": 5.0}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    path.write_text(yaml.safe_dump({"readers": {"one": {**endpoint, **reader}}, **roles}))
    return path


def said(arms: tuple[Arm, ...], parameters: RunParameters) -> str:
    return stated(configuration_of(arm, Run.of(parameters)) for arm in arms)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("backbone", "window"),
    [
        ("qwen2.5-32b-awq", 131_072),  # section 4.1: 128K, where RAG and LIGHT have 32K
        ("llama-4-maverick-fp8", 1_048_576),  # none named: the model's own
        ("gemini-2.0-flash", 1_048_576),  # "1M context"
        ("gpt-4.1-nano", 1_047_576),
    ],
)
def test_long_context_has_the_window_of_its_backbone(repo_root: Path, size: str, backbone: str, window: int) -> None:
    models = str(repo_root / "params/models.yaml")
    found = Run.of(loaded(repo_root, size, models=models, backbone=backbone))
    reader = 32_768 if "qwen" in backbone else 131_072
    assert (found.context.full_context_window, found.context.reader_window) == (window, reader)
    assert Run.of(found).context.full_context_window == window
    capped = loaded(repo_root, size, models=models, backbone=backbone, full_context_window=100_000)
    assert Run.of(capped).context.full_context_window == 100_000


def test_a_window_is_never_more_than_the_endpoint_has(repo_root: Path, tmp_path: Path) -> None:
    yarn = {"full-context": {"context_window": 40_000, "max_output_tokens": 5_024}, "light": {"context_window": 20_000}}
    models = models_file(tmp_path / "models.yaml", "http://127.0.0.1:9/v1", methods=yarn)
    found = Run.of(loaded(repo_root, models=str(models), full_context_window=60_000))
    assert found.context.full_context_window == 36_000  # room for a reply of five thousand tokens is kept
    assert found.context.reader_window == 20_000  # RAG's as well, though it has more: both get the same
    assert Run.of(loaded(repo_root)).context.full_context_window == 131_072  # the stand-in's
    for value in (1, 1_999):
        with pytest.raises(UserError, match=r"full_context_window.*must be 0 for the backbone's own window") as caught:
            loaded(repo_root, full_context_window=value)
        assert "\n" not in str(caught.value)


def test_a_method_is_the_name_of_a_memory(repo_root: Path, tmp_path: Path) -> None:
    models = models_file(tmp_path / "models.yaml", "http://127.0.0.1:9/v1", methods={"wiki": {"context_window": 9_000}})
    assert Run.of(loaded(repo_root, models=str(models))).reader_role("wiki") == "reader:wiki"
    models = models_file(tmp_path / "models.yaml", "http://127.0.0.1:9/v1", methods={"long": {"context_window": 9_000}})
    with pytest.raises(
        UserError, match=r"readers\.\w+\.methods' names 'long', which is no memory; name one of none, full"
    ):
        Run.of(loaded(repo_root, models=str(models)))


@pytest.mark.usefixtures("in_this_process")
def test_each_method_asks_its_own_server_and_sends_no_limit(repo_root: Path, tmp_path: Path) -> None:
    arms = (NONE, FULL, RAG, LIGHT)
    with ScriptedServer(steady_reply) as short, ScriptedServer(steady_reply) as long:
        yarn = {"full-context": {"base_url": long.base_url, "context_window": 131_072}}
        models = models_file(tmp_path / "models.yaml", short.base_url, methods=yarn)
        given = {"data": str(EXAMPLE), "run": str(tmp_path / "run"), "models": str(models), "workers": 1}
        parameters = loaded(repo_root, confirm_cost=True, retriever="bm25", **given)
        estimated = estimate(parameters, arms, quiet=True)
        assert estimated.longest["reader:full-context"].endswith(" of 131,072") and not estimated.warnings
        evaluation = evaluate(parameters, arms, quiet=True)
        conversation = evaluation.loaded["100K-1"].conversation.pairs[0].user.content[:60]
        assert len(long.requests) == len(evaluation.answers["full-context"])
        assert all(conversation in body_text(request.body) for request in long.requests)
        sent = {name for request in (*short.requests, *long.requests) for name in request.body}
        assert sent == {"model", "messages", "temperature", "seed"}
        read = {name: evaluation.manifests[name].models["reader"]["base_url"] for name in evaluation.manifests}
        assert read.pop("full-context") == long.base_url and set(read.values()) == {short.base_url}
        with CallStore(tmp_path / "run/calls/100k/100K-1.sqlite", read_only=True) as store:
            roles = {one.step: one.role for one in store.totals()}
        assert (roles["answer_turns"], roles["answer"]) == ("reader:full-context", "reader")

        calls = len(short.requests) + len(long.requests)
        models_file(models, short.base_url, methods={**yarn, "rag": {"concurrency": 3}, "light": {}})
        assert "reader:light" not in Run.of(parameters).endpoints
        evaluate(parameters.model_copy(update={"run": str(tmp_path / "run")}), arms, quiet=True)
        assert len(short.requests) + len(long.requests) == calls  # equal requests are one call, whoever they are for


@pytest.mark.usefixtures("in_this_process")
def test_a_limit_is_sent_where_the_parameters_or_the_role_set_one(repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(steady_reply) as server:
        models = models_file(tmp_path / "models.yaml", server.base_url, max_output_tokens=77)
        given = {"data": str(EXAMPLE), "run": str(tmp_path / "run"), "models": str(models), "workers": 1}
        evaluate(loaded(repo_root, confirm_cost=True, output_tokens=700, **given), (NONE,), quiet=True)
        limits = {request.body["max_tokens"] for request in server.requests}
    assert limits == {77, 700}  # the reader's own, and the judge's and aligner's


def test_main_questions_have_the_limit_of_section_4_1(repo_root: Path) -> None:
    writing = config_of(loaded(repo_root, authors=str(repo_root / "params/models.yaml")))
    limits = {role: writing.endpoint(role).max_output_tokens for role in ("planner", "narrator", "asker", "speaker")}
    assert limits == {"planner": None, "narrator": None, "asker": 6_000, "speaker": None}


@pytest.mark.parametrize("size", SIZES)
def test_the_papers_configuration_is_one_word(repo_root: Path, size: str) -> None:
    usual, paper = loaded(repo_root, size).flat(), loaded(repo_root, size, preset="paper").flat()
    changed = {name: value for name, value in paper.items() if value != usual[name]}
    assert changed == yaml.safe_load((repo_root / "params/paper.yaml").read_text())
    assert changed["encoder"] == "BAAI/bge-small-en-v1.5" and changed["retrievers"] == ["dense", "splade"]
    assert loaded(repo_root, size, preset="paper", k=15, encoder="mine").retrieval.k == 15


def test_a_preset_that_cannot_be_had_is_one_sentence(repo_root: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="preset is 'papr', which does not exist; choose one of default, paper"):
        loaded(repo_root, preset="papr")
    shutil.copy(repo_root / "params/100k.yaml", tmp_path)
    with pytest.raises(UserError, match=r"paper\.yaml"):
        load_parameters(tmp_path / "100k.yaml", preset="paper")
    (tmp_path / "paper.yaml").write_text("preset: paper\nencodr: x\n")
    with pytest.raises(UserError, match=r"paper\.yaml: unknown parameter 'encodr'"):
        load_parameters(tmp_path / "100k.yaml", preset="paper")


def test_a_configuration_is_told_from_the_values_in_force(repo_root: Path, tmp_path: Path) -> None:
    arms = (NONE, FULL, *arms_of(loaded(repo_root), ["budget"]))
    assert said(arms, loaded(repo_root)) == "default"
    assert said(arms, loaded(repo_root, k=15, seed=5, workers=1)) == "default"  # Table 9 has every K
    assert said((Arm(memory="rag", retriever="bm25", k=15),), loaded(repo_root)) == "default, but retriever=bm25, k=15"
    assert said((FULL,), loaded(repo_root, full_context_window=9_000)) == "default, but full_context_window=9000"
    models = str(repo_root / "params/models.yaml")
    for backbone in ("qwen2.5-32b-awq", "gpt-4.1-nano"):
        paper = loaded(repo_root, preset="paper", models=models, backbone=backbone)
        assert said(arms_of(paper, experiments(paper)), paper) == "paper"
    changed = paper.model_copy(update={"k": 15, "encoder": "tiny"})
    assert configuration_of_run(Run.of(changed)) == "paper, but encoder=tiny, k=15"
    assert "paper, but models=offline stand-in" in said((NONE,), paper.model_copy(update={"models": ""}))
    other = models_file(tmp_path / "models.yaml", "http://127.0.0.1:9/v1")
    found = said((LIGHT,), paper.model_copy(update={"models": str(other), "backbone": ""}))
    assert "reader=scripted, memory=scripted, compressor=scripted, judge=scripted, aligner=scripted" in found
    values = yaml.safe_load(Path(models).read_text())
    values["judge"] |= {"temperature": 0.7, "base_url": "http://elsewhere/v1"}
    other.write_text(yaml.safe_dump(values))
    found = said((NONE,), paper.model_copy(update={"models": str(other)}))
    assert found == "paper, but judge.temperature=0.7"


def test_how_conversations_are_written_has_a_configuration_too(repo_root: Path) -> None:
    assert stated([writing_configuration(loaded(repo_root))]) == "default"
    paper = loaded(repo_root, preset="paper", authors=str(repo_root / "params/models.yaml"))
    assert stated([writing_configuration(paper)]) == "paper"
    changed = paper.model_copy(update={"authors": "", "reach": "batch", "k": 9})
    assert (
        stated([writing_configuration(changed)])
        == "paper, but reach=batch, authors=offline stand-in, not a language model"
    )


@pytest.mark.usefixtures("in_this_process")
def test_a_footer_says_configuration_and_windows_as_of_the_last_run(repo_root: Path, tmp_path: Path) -> None:
    given = {"data": str(EXAMPLE), "run": str(tmp_path / "run"), "workers": 1}
    values = yaml.safe_load((repo_root / "params/paper.yaml").read_text()) | {"encoder": "embedded", "models": ""}
    arms = (FULL, Arm(memory="rag", retriever="dense", k=5))
    first = evaluate(loaded(repo_root, retriever="dense", **given), arms, quiet=True)
    lines = footer(
        [one.model_dump(mode="json") for one in first.manifests.values()],
        protocol="paper", n_questions=3, unscored=0, interval="none",
    ).lines()  # fmt: skip
    assert "Configuration: default, but retriever=dense." in lines
    assert "Context windows in tokens: long context 131,072, RAG and LIGHT 131,072." in lines
    evaluate(loaded(repo_root, **{**values, **given}), arms, quiet=True)
    kept = read_manifest(tmp_path / "run/100k/full-context").configuration
    assert kept == ("paper", "encoder=embedded", "models=offline stand-in, not a language model")


def test_the_command_that_records_names_the_preset(repo_root: Path, tmp_path: Path) -> None:
    given = {"data": str(EXAMPLE), "run": "runs/mine", "encoder": "tiny"}
    words = shlex.split(Run.of(loaded(repo_root, preset="paper", **given)).recording_command)
    assert words[words.index("--preset") + 1] == "paper"
    assert [words[place + 1] for place, word in enumerate(words) if word == "--set"] == ["encoder=tiny"]
    assert "--preset" not in Run.of(loaded(repo_root, models="params/models.yaml", **given)).recording_command


def test_the_models_of_a_preset_give_way_to_what_is_named(tmp_path: Path) -> None:
    assert Endpoints().path(tmp_path, "params/models.yaml") == "params/models.yaml"
    assert Endpoints(file=Path("offline")).path(tmp_path, "params/models.yaml") == ""
    served = Endpoints(base_url="http://127.0.0.1:9/v1", model="m").path(tmp_path, "params/models.yaml")
    assert served == str(tmp_path / "models.yaml")


@pytest.mark.skipif(find_spec("sentence_transformers") is not None, reason="sentence-transformers is installed")
def test_without_the_extra_the_papers_configuration_says_what_to_install(
    repo_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo_root)
    name = "test-preset-without-encoders"
    order = MainJob(
        data=None, sizes=["100k"], name=name, conversations=1, protocol="paper", memory="", suites={},
        download=False, endpoints=Endpoints(file=Path("offline")), preset="paper",
    )  # fmt: skip
    with pytest.raises(UserError, match=r"BAAI/bge-small-en-v1\.5.*pip install -e '\.\[models\]'") as caught:
        run(order)
    assert "\n" not in str(caught.value) and not (repo_root / "runs" / name).exists()


@pytest.mark.usefixtures("in_this_process")
def test_an_estimate_takes_the_preset(repo_root: Path, monkeypatch: pytest.MonkeyPatch, called: Call) -> None:
    monkeypatch.chdir(repo_root)
    command = ("estimate", "params/100k.yaml", "--data", EXAMPLE, "--name", "test-estimate", "--json")
    small = ("--set", "encoder=embedded", "--set", "retrievers=[dense]", "--conversations", "1")
    costs = json.loads(called(*command, *small, "--preset", "paper").stdout)
    assert costs["backbone"] == "qwen2.5-32b-awq" and "rag-dense-k5" in costs["arms"]
    assert costs["longest"]["reader:full-context"].endswith(" of 131,072")
    refused = called(*command, "--set", "preset=paper")
    assert "--set preset: this parameter has an option of its own; give --preset" in refused.stderr


@pytest.mark.parametrize("variant", ["released", "released-2025-11", "released-2026"])
def test_every_name_of_the_released_code_switches_its_behaviours_on(variant: str) -> None:
    assert usual_parameters("100K", variant=variant).flags == frozenset(RELEASED_FLAGS)
    assert not usual_parameters("100K").flags
