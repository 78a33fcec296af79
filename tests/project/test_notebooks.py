"""Notebook sources: clean, short-celled, one set of parameters, and checked against params/ before anything runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from beamlib.errors import UserError
from beamlib.params import ProtocolName, RunParameters, load_parameters
from beamlib.report.notebooks import EVALUATION, GENERATION, NOTEBOOKS, SUITES, begin, preflight
from beamlib.scoring.protocols import PROTOCOLS


def cells(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())["cells"]
    return found


@pytest.mark.parametrize("name", [*GENERATION, *EVALUATION, *SUITES])
def test_sources_are_clean_and_short(name: str) -> None:
    code = [cell for cell in cells(name) if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    assert max(len("".join(cell["source"]).splitlines()) for cell in code) <= 30
    first, last = cells(name)[0], cells(name)[-2]
    assert "**Question.**" in "".join(first["source"])
    assert "## Takeaways" in "".join(last["source"])


@pytest.mark.parametrize("name", [*GENERATION, *EVALUATION, *SUITES])
def test_every_notebook_has_the_same_parameters_cell(name: str) -> None:
    tagged, reference = (
        [(tags, cell["source"]) for cell in cells(each) if (tags := cell["metadata"].get("tags"))]
        for each in (name, EVALUATION[0])
    )
    assert tagged == reference
    assert [tags for tags, _ in tagged] == [["finer-parameters"], ["parameters"]]  # injected values replace both
    values: dict[str, Any] = {}
    for _, source in tagged:
        exec("".join(source), values)
    assert begin(values).parameters == load_parameters(NOTEBOOKS.parent / "params/100k.yaml")


def test_the_parameter_files_agree_with_the_notebooks(repo_root: Path) -> None:
    lines = preflight(repo_root / "params")
    assert [line.partition(":")[0] for line in lines] == ["100k.yaml", "10m.yaml", "1m.yaml", "500k.yaml", "paper.yaml"]


def test_the_four_sizes_differ_only_where_a_comment_says_so(repo_root: Path) -> None:
    files = [repo_root / f"params/{size}.yaml" for size in ("100k", "500k", "1m", "10m")]
    values = [load_parameters(file).model_dump() for file in files]
    assert [one["size"] for one in values] == ["100K", "500K", "1M", "10M"]
    stated = [
        [line.partition(":")[0] for line in file.read_text().splitlines() if "# differs: " in line] for file in files
    ]
    assert stated == [stated[0]] * 4
    assert {name for name in values[0] if any(one[name] != values[0][name] for one in values)} == set(stated[0])


def changed(repo_root: Path, tmp_path: Path, **values: Any) -> Path:
    """A parameter folder with one file in which values are replaced, added, or (None) removed."""
    held = yaml.safe_load((repo_root / "params/100k.yaml").read_text())
    held.update(values)
    (tmp_path / "100k.yaml").write_text(yaml.safe_dump({k: v for k, v in held.items() if v is not None}))
    return tmp_path


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"retreiver": "bm25"}, "unknown parameter 'retreiver'"),
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
    assert "100k.yaml" in str(caught.value)


def test_preflight_finds_a_notebook_that_lacks_a_parameter(
    repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(NOTEBOOKS, tmp_path / "notebooks")
    path = tmp_path / "notebooks/07_retrieval_budget.ipynb"
    path.write_text(path.read_text().replace("seed: int = 0", "sead: int = 0"))
    monkeypatch.setattr("beamlib.report.notebooks.NOTEBOOKS", tmp_path / "notebooks")
    with pytest.raises(UserError, match=r"07_retrieval_budget.ipynb does not know the parameter 'seed'"):
        preflight(repo_root / "params")


def test_broken_yaml_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "100k.yaml").write_text("size: [100K\n")
    with pytest.raises(UserError, match="not valid YAML"):
        preflight(tmp_path)
    with pytest.raises(UserError, match="no parameter files"):
        preflight(tmp_path / "nowhere")


def test_every_protocol_can_be_chosen() -> None:
    assert get_args(ProtocolName) == tuple(PROTOCOLS)


def test_parameters_are_documented() -> None:
    assert all(
        field.description or name in ("chat_variant", "strip_markers", "errata", "retriever")
        for name, field in RunParameters.model_fields.items()
    )


def test_a_run_folder_that_is_data_is_refused(tmp_path: Path) -> None:
    """Also where no parameter names it as data: results would lie among the released conversations."""
    chat = tmp_path / "100K" / "1" / "chat.json"
    chat.parent.mkdir(parents=True)
    chat.write_text("[]")
    values: dict[str, Any] = {}
    for cell in cells(EVALUATION[0]):
        if cell["metadata"].get("tags"):
            exec("".join(cell["source"]), values)
    with pytest.raises(UserError, match="nothing is written into a folder of data"):
        begin(values | {"run": str(tmp_path)})


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
