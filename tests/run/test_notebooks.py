"""Notebooks: clean, short, with few names, checked against params/ before anything runs; again, they change nothing."""

from __future__ import annotations

import ast
import json
import os
import runpy
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from click.testing import CliRunner
from papermill.cli import papermill

from beam_commands.options import named_settings
from beam_run import EVALUATION, GENERATION, PAPER_NOTEBOOKS, SUITE_NOTEBOOKS
from beam_run.executing import NOTEBOOKS, execute, preflight
from beam_run.job import MainJob, plan
from beam_run.notebooks import begin
from beam_run.steps import _notebooks_of
from beamlib.errors import UserError
from beamlib.llm.stored_model import CallStore
from beamlib.memory.declared import memory_kind, named_memories
from beamlib.params import BASE, FIELDS, RunParameters, load_parameters, parameter_cell, usual_parameters
from beamlib.places import PARAMS, ROOT
from beamlib.run import Run
from beamlib.scoring.protocols import PROTOCOLS
from beamlib.settings import ProtocolName

ALL = (*PAPER_NOTEBOOKS, *GENERATION, *EVALUATION, *SUITE_NOTEBOOKS)


def cells(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())["cells"]
    return found


@pytest.mark.parametrize("name", ALL)
def test_sources_are_clean_and_short(name: str) -> None:
    code = [cell for cell in cells(name) if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    assert max(len("".join(cell["source"]).splitlines()) for cell in code) <= 30
    first, last = cells(name)[0], cells(name)[-2]
    assert "**Question.**" in "".join(first["source"])
    assert "## Takeaways" in "".join(last["source"])


def parameter_cell_text(name: str) -> str:
    (cell,) = (cell for cell in cells(name) if cell["metadata"].get("tags") == ["parameters"])
    return "".join(cell["source"])


def set_in(name: str) -> dict[str, Any]:
    """What the parameter cell of a notebook defines."""
    values: dict[str, Any] = {}
    exec(parameter_cell_text(name), values)
    return values


@pytest.mark.parametrize("name", ALL)
def test_a_parameter_cell_is_short_and_has_the_usual_values(name: str) -> None:
    lines = parameter_cell_text(name).splitlines()
    assert [line.partition(" = ")[0] for line in lines[:4]] == ["size", "run", "data", "models"]
    assert lines[-1].startswith("settings = {}") and len(lines) <= 10
    found = begin(set_in(name)).parameters.given
    assert found == usual_parameters("100K", run=os.path.relpath(ROOT / "runs/default"))


def test_few_names_from_few_modules() -> None:
    found = set()
    for name in ALL:
        for cell in cells(name):
            for node in ast.walk(ast.parse("".join(cell["source"]) if cell["cell_type"] == "code" else "")):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("beam"):
                    found |= {(node.module, one.name) for one in node.names}
                assert not (isinstance(node, ast.Import) and any(one.name.startswith("beam") for one in node.names))
    assert 20 < len(found) <= 30 and len({module for module, _ in found}) <= 12


def test_the_stronger_value_wins() -> None:
    """base < size file < settings < cell, where a cell's usual value counts as not set."""
    cell = {"size": "10M", "k": 5, "settings": {}}
    assert begin(cell).parameters.generation.subplans == [10, 10, 10]
    assert begin(cell | {"settings": {"subplans": [2, 2, 2], "k": 15}}).parameters.generation.subplans == [2, 2, 2]
    assert begin(cell | {"settings": {"k": 15}}).parameters.retrieval.k == 15
    assert begin(cell | {"settings": {"k": 15}, "k": 20}).parameters.retrieval.k == 20
    assert begin(cell | {"settings": {"preset": "paper"}}).parameters.retrieval.retriever == "dense"


def test_papermill_passes_settings_as_text() -> None:
    cell = {"size": "100K", "settings": '{"k": 15}'}
    assert begin(cell).parameters.retrieval.k == 15
    with pytest.raises(UserError, match=r"pass a mapping: papermill -y 'settings: \{k: 10\}'"):
        begin(cell | {"settings": "k"})


def test_a_parameter_without_a_value_is_refused() -> None:
    with pytest.raises(UserError, match="parameter 'run' of this notebook is None"):
        begin({"size": "100K", "run": None})


@pytest.mark.parametrize("values", [{"retreiver": "bm25"}, {"settings": {"retreiver": "bm25"}}])
def test_an_unknown_name_in_a_notebook_is_an_error(values: dict[str, Any]) -> None:
    with pytest.raises(
        UserError, match=r"notebook: unknown parameter 'retreiver'; the nearest known one is 'retriever'"
    ):
        begin(set_in(EVALUATION[2]) | values)


@pytest.mark.parametrize("name", ["00_paper", "07_retrieval_budget"])
@pytest.mark.parametrize("size", ["100k", "10m"])
def test_papermill_knows_every_name_of_a_size_file(
    name: str, size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a reviewer types it, but for running the notebook."""
    words = [f"notebooks/{name}.ipynb", str(tmp_path / "out.ipynb"), "-f", f"params/{size}.yaml", "--prepare-only"]
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(papermill, words, catch_exceptions=False)
    assert done.exit_code == 0
    assert "unknown parameter" not in (done.output + caplog.text).lower()
    held = json.loads((tmp_path / "out.ipynb").read_text())["cells"]
    values: dict[str, Any] = {}
    for cell in held:
        if {"parameters", "injected-parameters"} & set(cell["metadata"].get("tags", ())):
            exec("".join(cell["source"]), values)
    expected = usual_parameters("10M" if size == "10m" else "100K", run=os.path.relpath(ROOT / "runs/default"))
    assert begin(values).parameters.given == expected


def test_the_parameter_files_agree_with_the_notebooks(repo_root: Path) -> None:
    lines = preflight(repo_root / "params")
    assert [line.partition(":")[0] for line in lines] == ["100k.yaml", "10m.yaml", "1m.yaml", "500k.yaml", "paper.yaml"]


def test_a_size_file_holds_what_the_size_changes_with_its_reason(repo_root: Path) -> None:
    usual = load_parameters(repo_root / "params" / BASE).flat()
    for size in ("100k", "500k", "1m", "10m"):
        path = repo_root / f"params/{size}.yaml"
        values = load_parameters(path).flat()
        changed = {name for name in values if values[name] != usual[name]}
        held = yaml.safe_load(path.read_text())
        assert held.pop("size") == values["size"] and set(held) <= {"settings"}
        assert set(held.get("settings", {})) == changed - {"size"}
        assert all("  # " in line for line in path.read_text().splitlines() if line.startswith("  "))


def changed(repo_root: Path, tmp_path: Path, **values: Any) -> Path:
    """A parameter folder of its own in which values are replaced, added, or (None) removed."""
    held = yaml.safe_load((repo_root / "params" / BASE).read_text()) | values
    (tmp_path / BASE).write_text(yaml.safe_dump({k: v for k, v in held.items() if v is not None}))
    (tmp_path / "100k.yaml").write_text(yaml.safe_dump({k: v for k, v in values.items() if v is not None}))
    return tmp_path


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"retreiver": "bm25"}, "unknown parameter 'retreiver'; the nearest known one is 'retriever'"),
        ({"k": None}, "parameter 'k' is missing"),
        ({"k": "five"}, "parameter 'k' is 'five'"),
        ({"k": True}, "parameter 'k' is True"),
        ({"k": 5.0}, "parameter 'k' is 5.0"),
        ({"k": 0}, "parameter 'k' is 0"),
        ({"size": "2M"}, "'2M' is no size"),
        ({"retriever": "qdrant"}, "parameter 'retriever' is 'qdrant'"),
        ({"budgets": [5, 5]}, "different positive integers"),
        ({"strip_markers": "yes"}, "parameter 'strip_markers' is 'yes'"),
        ({"protocol": "official"}, "parameter 'protocol' is 'official'"),
    ],
)
def test_preflight_names_the_file_the_parameter_and_the_value(
    repo_root: Path, tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        preflight(changed(repo_root, tmp_path, **values))
    assert message in str(caught.value)
    assert "100k.yaml" in str(caught.value) or BASE in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("budgetz = [5]", "unknown parameter 'budgetz'; the nearest known one is 'budgets'"),
        ("budgets = [5]", r"'budgets' is \[5\], and \[5, 10, 15, 20\] in base.yaml"),
    ],
)
def test_preflight_finds_a_notebook_that_differs(
    wrong: str, message: str, repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(NOTEBOOKS, tmp_path / "notebooks")
    path = tmp_path / "notebooks/07_retrieval_budget.ipynb"
    path.write_text(path.read_text().replace("budgets = [5, 10, 15, 20]", wrong))
    monkeypatch.setattr("beam_run.executing.NOTEBOOKS", tmp_path / "notebooks")
    with pytest.raises(UserError, match=rf"07_retrieval_budget.ipynb: {message}"):
        preflight(repo_root / "params")


def test_broken_yaml_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "100k.yaml").write_text("size: [100K\n")
    with pytest.raises(UserError, match="not valid YAML"):
        preflight(tmp_path)
    with pytest.raises(UserError, match="no parameter files"):
        preflight(tmp_path / "nowhere")


def test_every_protocol_can_be_chosen() -> None:
    assert get_args(ProtocolName) == tuple(PROTOCOLS)


def test_settings_may_be_given_by_section(tmp_path: Path) -> None:
    shutil.copy(PARAMS / BASE, tmp_path)
    (tmp_path / "100k.yaml").write_text("light: {chunk_buffer: 2}\nsettings: {retrieval.k: 7}\n")
    sections = load_parameters(tmp_path / "100k.yaml")
    (tmp_path / "100k.yaml").write_text("chunk_buffer: 2\nk: 7\n")
    assert load_parameters(tmp_path / "100k.yaml") == sections and sections.flat()["k"] == 7
    assert named_settings(["light.chunk_buffer=2", "k=7"]) == {"chunk_buffer": 2, "k": 7}
    with pytest.raises(UserError, match="--set: light has no setting 'k'; it has working_pairs, "):
        named_settings(["light.k=7"])
    with pytest.raises(UserError, match="--set: judging is 3, but it is a group of settings; name one of them"):
        named_settings(["judging=3"])
    for group in ("[none]", "{}"):
        with pytest.raises(UserError, match="--set: unknown parameter 'memories'; the nearest known one is"):
            named_settings([f"memories={group}"])


def test_parameters_are_documented(repo_root: Path) -> None:
    assert all(field.description for field in FIELDS.values())
    reference = runpy.run_path(str(repo_root / "scripts/parameter_reference.py"))["reference"]()
    assert (repo_root / "docs/parameters.md").read_text() == reference
    base = load_parameters(PARAMS / BASE)
    usual = {name: field.default for name, field in FIELDS.items() if not field.is_required()}
    by_name = {name for memory in named_memories() for name in memory_kind(memory).own_settings.model_fields}
    assert len(usual.keys() - by_name) == 14 and usual == {name: base[name] for name in usual}


def test_a_run_folder_that_is_data_is_refused(tmp_path: Path) -> None:
    """Also where no parameter names it as data: results would lie among the released conversations."""
    chat = tmp_path / "100K" / "1" / "chat.json"
    chat.parent.mkdir(parents=True)
    chat.write_text("[]")
    with pytest.raises(UserError, match="nothing is written into a folder of data"):
        begin(set_in(EVALUATION[0]) | {"run": str(tmp_path)})


@pytest.mark.parametrize("name", GENERATION)
def test_a_domain_for_models_alone_is_refused_before_anything_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    values: dict[str, Any] = {}
    with pytest.raises(UserError, match=r"domain 'Cooking': the offline author does not write it.* choose one of: Car"):
        for cell in (cell for cell in cells(name) if cell["cell_type"] == "code"):
            exec("".join(cell["source"]), values)
            if "parameters" in cell["metadata"].get("tags", []):
                values |= {"run": str(tmp_path / "run"), "domain": "cooking"}
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunParameters:
    """Parameters of a run that has executed a notebook of one line, with a call that is stored."""
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": ""}
    source = [cell | {"metadata": {"tags": ["parameters"]}, "source": parameter_cell_text(EVALUATION[2])}, cell]
    notebook = {"cells": source, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    monkeypatch.setattr("beam_run.executing.NOTEBOOKS", tmp_path / "notebooks")
    path = tmp_path / f"notebooks/{EVALUATION[2]}.ipynb"
    path.parent.mkdir()
    path.write_text(json.dumps(notebook))
    run = tmp_path / "run"
    parameters = usual_parameters("100K", run=str(run), data=str(run / "generated"), conversations=1, k=7)
    execute(EVALUATION[2], parameters, run / "notebooks/100k")
    CallStore(run / "calls/100k/100K-1.sqlite").close()
    return parameters


def test_an_executed_notebook_has_the_parameters_of_the_run_once(of_the_run: RunParameters) -> None:
    copy = Path(of_the_run.run) / f"notebooks/100k/{EVALUATION[2]}.ipynb"
    tags = [cell["metadata"].get("tags", []) for cell in json.loads(copy.read_text())["cells"]]
    assert [own for own in tags if own] == [["parameters"]]
    values = parameter_cell(copy)
    assert values["run"] == of_the_run.run and values["settings"] == {"k": 7, "conversations": 1}
    assert "  # where everything is written" in copy.read_text()


@pytest.mark.parametrize(
    ("values", "changed"),
    [
        ({"settings": {"k": 7}}, ""),
        ({"settings": {"k": 7, "workers": 3}, "confirm_cost": True}, ""),
        ({}, "k=5"),
        ({"settings": {"k": 7}, "retriever": "bm25"}, "retriever='bm25'"),
        ({"settings": {"k": 7, "conversations": 2}}, "conversations=2"),
        ({"settings": {"k": 7, "domain": "Cooking"}}, "domain='Cooking'"),
    ],
)
def test_other_parameters_than_those_of_the_run_are_a_trial(
    values: dict[str, Any], changed: str, of_the_run: RunParameters, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(of_the_run.run)
    work = begin({"size": "100K", "run": str(run), **values}, EVALUATION[2])
    printed = capsys.readouterr().out
    assert f"run folder: {run}" in printed  # it lies neither in the project nor where the test runs
    if not changed:
        assert work.run == run and "trial" not in printed
    else:
        assert work.run.parent == run / "trials" and work.run.name.startswith(f"{EVALUATION[2]}-")
        assert f"other values of: {changed}; written to {work.run}" in printed
        again = begin({"size": "100K", "run": str(run), **values}, EVALUATION[2])
        assert again.run == work.run


def test_authors_are_those_of_the_run_wherever_their_file_lies(of_the_run: RunParameters, tmp_path: Path) -> None:
    kept, mine, run = tmp_path / "kept.yaml", tmp_path / "mine.yaml", Path(of_the_run.run)
    for path in (kept, mine):
        path.write_text((ROOT / "params/models.yaml").read_text())
    authors = of_the_run.model_copy(update={"authors": str(kept)})
    execute(EVALUATION[2], authors, run / "notebooks/100k")
    values = {"size": "100K", "run": str(run), "settings": {"k": 7, "authors": str(mine)}}
    assert begin(values, EVALUATION[2]).run == run
    mine.write_text(mine.read_text().replace("gpt-4.1-mini", "another"))
    assert begin(values, EVALUATION[2]).run.parent == run / "trials"


def test_notebooks_get_the_authors_that_the_run_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their file may be edited while conversations are written: what notebooks 01 to 04 show is by those who wrote."""
    monkeypatch.setattr("beam_run.job.RUNS", tmp_path / "runs")
    authors = tmp_path / "authors.yaml"
    authors.write_text((ROOT / "params/models.yaml").read_text())
    planned = plan(MainJob(None, ["100k"], "mine", 1, "paper", "", {}, False, authors=authors), tmp_path)
    assert planned.authors is not None
    kept = planned.authors.save(planned.folder / "authors")
    authors.write_text("{}")
    shown = {parameters.generation.authors for name, parameters, _ in _notebooks_of(planned) if name in GENERATION}
    assert shown == {str(kept)}


def test_a_trial_begins_with_the_calls_of_the_run(of_the_run: RunParameters, tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text((ROOT / "params/models.yaml").read_text())
    run = Path(of_the_run.run)
    (run / "notebooks" / "100k").rename(
        run / "notebooks" / Run.of(of_the_run.model_copy(update={"models": str(models)})).part
    )
    work = begin({"size": "100K", "run": str(run), "models": str(models)}, EVALUATION[2])
    with CallStore(work.run / "calls/100k/100K-1.sqlite", read_only=True) as store:
        assert store.totals() == []
