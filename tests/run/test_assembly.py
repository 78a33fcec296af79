"""A run put together: four backbones and two sizes by a real server, with parts, arms and conversations missing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

import beamlib
from beam_claims.reproducing import reproduce
from beam_run.assembly import AssemblyOptions, assemble, assemble_job
from beam_run.cli import app
from beamlib.errors import UserError
from beamlib.evaluate.arms import COMPONENTS, Arm
from beamlib.evaluate.beam_records import read_judgements
from beamlib.evaluate.run import evaluate
from beamlib.params import RunParameters, load_parameters
from beamlib.run import Run
from beamlib.scoring.scores import score_run, summarise
from scripted_server import ScriptedServer
from steady_replies import steady_reply

EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
NONE = Arm(memory="none")
RAG = Arm(memory="rag", retriever="bm25", k=3)
LIGHT = Arm(memory="light", retriever="bm25", k=3)


def reply(body: dict[str, Any]) -> str:
    """Steady replies; readers say who they are, so that backbones differ."""
    text = steady_reply(body)
    return f"{text} So says {body['model']}." if text.startswith("About ") else text


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two conversations of 100K and one of 500K, all of them the example."""
    folder = tmp_path_factory.mktemp("data")
    for place in ("100K/1", "100K/2", "500K/1"):
        shutil.copytree(EXAMPLE / "100K" / "1", folder / place)
    return folder


@pytest.fixture(scope="module")
def served(
    repo_root: Path, data: Path, tmp_path_factory: pytest.TempPathFactory, file_in_this_process: None
) -> Iterator[tuple[Path, RunParameters]]:
    """Backbones a to d. At 100K c has no RAG and d has read one of two conversations; at 500K d was never run."""
    root = tmp_path_factory.mktemp("served")
    with ScriptedServer(reply) as server:
        endpoint = {"base_url": server.base_url, "context_window": 131_072}
        readers = {name: {**endpoint, "model": f"model-{name}"} for name in "abcd"}
        roles = {name: {**endpoint, "model": "scripted"} for name in ("memory", "compressor", "judge", "aligner")}
        models = root / "models.yaml"
        models.write_text(yaml.safe_dump({"readers": readers, **roles}))
        parameters = load_parameters(
            repo_root / "params" / "100k.yaml",
            data=str(data), run=str(root / "run"), models=str(models), workers=1, confirm_cost=True,
        )  # fmt: skip
        for size in ("100K", "500K"):
            for name in "abcd" if size == "100K" else "abc":
                arms = (NONE, LIGHT) if (name, size) == ("c", "100K") else (NONE, RAG, LIGHT)
                changes = {"size": size, "backbone": name, "conversations": int(name == "d")}
                evaluate(parameters.model_copy(update=changes), arms, quiet=True)
    yield root / "run", parameters


def csv_of(run: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(run / "tables" / "all" / f"{name}.csv", comment="#").set_index(["size", "ability"])


@pytest.mark.slow
def test_table_1_of_four_backbones_and_two_sizes(served: tuple[Path, RunParameters]) -> None:
    run, _ = served
    table = assemble(run, AssemblyOptions())["table1_main_results"]
    frame = csv_of(run, "table1_main_results")
    columns = [name for name in frame if f"{name} low" in frame]
    assert columns == [f"{one} / {method}" for one in "abcd" for method in ("none", "RAG", "LIGHT")]
    assert set(frame.index.get_level_values("size")) == {"100K", "500K"} and len(frame) == 22
    judged = read_judgements(run / "500k-b" / LIGHT.name)
    expected = summarise(score_run(judged, "paper")).set_index("ability")["mean"]
    assert frame.loc["500K", "b / LIGHT"].to_dict() == pytest.approx(expected.round(3).to_dict(), abs=1e-9)
    assert len({frame.loc[("100K", "average"), f"{one} / LIGHT"] for one in "abcd"}) > 1

    text = table.to_markdown()
    rows = {
        (row[1], row[2]): row[3:]
        for row in ([cell.strip(" *") for cell in line.split("|")] for line in text.splitlines())
        if len(row) > 3
    }
    assert rows["500K (n = 1)", "Average"][9:12] == ["–", "–", "–"]
    assert rows["100K", "Average"][7] == "–"
    assert rows["100K", "Average"][9].endswith("(n = 1)") and "n =" not in rows["100K", "Average"][0]
    assert frame.loc[("100K", "average"), "a / LIGHT conversations"] == 2
    assert frame.loc[("100K", "average"), "d / LIGHT conversations"] == 1
    assert pd.isna(frame.loc[("100K", "average"), "a / LIGHT low"])  # equal in both
    assert "Not run, or not finished: c / RAG at 100K, d at 500K." in text
    assert "Readers differ: model-a, model-b, model-c, model-d." in text
    assert "Protocol: paper. Judge: scripted." in text and "100K 95 % t-interval" in text
    assert '<th scope="colgroup" colspan="3">a</th>' in table.to_html()


def test_a_second_time_gives_the_same_bytes_and_clears_what_is_not_made(served: tuple[Path, RunParameters]) -> None:
    run, _ = served

    def files() -> dict[str, bytes]:
        assemble(run, AssemblyOptions())
        return {path.relative_to(run).as_posix(): path.read_bytes() for path in run.glob("*/all/*")}

    first = files()
    (run / "tables" / "all" / "table8_ablation_gone.csv").write_text("of an earlier set of parts")
    assert files() == first


def test_a_method_that_a_backbone_has_at_no_size_is_missed(served: tuple[Path, RunParameters]) -> None:
    table = assemble(served[0], AssemblyOptions(parts=("100k-a", "100k-c")))["table1_main_results"]
    assert "Not run, or not finished: c / RAG at 100K." in table.to_markdown()


def test_single_parts_and_another_protocol(served: tuple[Path, RunParameters]) -> None:
    run, _ = served
    made = CliRunner().invoke(app, ["tables", str(run), "--parts", "100k-a,500k-a", "--protocol", "binary", "--json"])
    rows = json.loads(made.output)["table1_main_results"]
    assert {row["series"] for row in rows} == {"none", "RAG", "LIGHT"}
    judged = read_judgements(run / "100k-a" / RAG.name)
    expected = summarise(score_run(judged, "binary")).set_index("ability").loc["average"]
    (found,) = [r for r in rows if (r["size"], r["ability"], r["series"]) == ("100K", "average", "RAG")]
    assert found["mean"] == pytest.approx(expected["mean"]) and found["conversations"] == 2
    assert (found["low"] is None) == expected["equal"] == pd.isna(expected["low"])
    with pytest.raises(UserError, match="no part '10m' with results; it has 100k-a, 100k-b"):
        assemble(run, AssemblyOptions(parts=["10m"]))
    with pytest.raises(UserError, match="protocol: 'strict' is not one of"):
        assemble(run, AssemblyOptions(protocol="strict"))


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no finished results in it"):
        assemble(tmp_path, AssemblyOptions())


@pytest.fixture
def mixed(served: tuple[Path, RunParameters], data: Path, tmp_path: Path) -> tuple[Path, list[RunParameters]]:
    """The served run, and a tier of the stand-in that lies beside it: another judge."""
    run, parameters = served
    shutil.copytree(run, tmp_path / "run")
    other = parameters.model_copy(update={"run": str(tmp_path / "run"), "models": "", "conversations": 1, "k": 3})
    other = other.model_copy(update={"retriever": "bm25"})
    evaluate(other, (NONE, RAG, LIGHT), quiet=True)
    return tmp_path / "run", [other]


def test_judges_are_not_mixed_unless_asked(mixed: tuple[Path, list[RunParameters]]) -> None:
    run, own = mixed
    with pytest.raises(UserError, match=r"the runs 100k-a/none, 100k/none differ in their judges"):
        assemble(run, AssemblyOptions())
    text = assemble(run, AssemblyOptions(allow_mixed=True))["table1_main_results"].to_markdown()
    assert "Mixed runs: their judges differ" in text and "offline stand-in, not a language model" in text
    assert assemble_job(run, list(map(Run.of, own))) == ""  # a job's own parts, and of the others those with its judge
    text = (run / "tables" / "all" / "table1_main_results.md").read_text()
    assert "Left out, with another judge or other data: 100k-a, 100k-b, 100k-c, 100k-d, 500k-a, 500k-b, 500k-c." in text
    with patch("beam_run.assembly.assemble", side_effect=UserError("no")):
        assert assemble_job(run, list(map(Run.of, own))) == "no"
    assert not list(run.glob("*/all/*"))  # tables of an earlier state would stand for those of the tiers


def test_a_damaged_arm_counts_as_missing(mixed: tuple[Path, list[RunParameters]]) -> None:
    run, _ = mixed
    judgements = run / "500k-a" / "none" / "judgements.jsonl"
    judgements.write_text(judgements.read_text().replace("scripted", "edited", 1))
    text = assemble(run, AssemblyOptions(parts=["500k-a", "500k-b"]))["table1_main_results"].to_markdown()
    assert "Left out, damaged or of another version: 500k-a/none." in text
    assert "Not run, or not finished: a / none at 500K." in text  # b has that column


@pytest.fixture(scope="module")
def variants(repo_root: Path, data: Path, tmp_path_factory: pytest.TempPathFactory, file_in_this_process: None) -> Path:
    """All experiments by the stand-in: two sizes, K of 3 and 6, two retrievers, every component removed once."""
    run = tmp_path_factory.mktemp("variants") / "run"
    parameters = load_parameters(repo_root / "params" / "100k.yaml", data=str(data), run=str(run), workers=1)
    others = [LIGHT.model_copy(update=change) for change in ({"k": 6}, {"retriever": "dense"})]
    removed = [LIGHT.model_copy(update={"without": name}) for name in COMPONENTS]
    for size, arms in (("100K", (RAG, LIGHT, *others, *removed)), ("500K", (LIGHT, *removed, others[0]))):
        evaluate(parameters.model_copy(update={"size": size}), arms, quiet=True)
    return run


def test_variants_and_figures_over_sizes(variants: Path) -> None:
    made = assemble(variants, AssemblyOptions())
    assert list(made) == [
        "table1_main_results",
        "table8_ablation",
        "table9_retrieval_budget",
        "table10_dense_vs_sparse",
    ]
    series = {name: [c for c in csv_of(variants, name) if f"{c} low" in csv_of(variants, name)] for name in made}
    assert series["table8_ablation"] == ["complete", *(f"without {one}" for one in COMPONENTS)]
    assert series["table9_retrieval_budget"] == ["K=3", "K=6"]
    assert series["table10_dense_vs_sparse"] == ["bm25", "dense"]
    assert "dense at 500K" in made["table10_dense_vs_sparse"].to_markdown()
    figures = variants / "figures" / "all"
    assert sorted(path.name for path in figures.glob("*.png")) == [
        "figure3_ablation.png", "figure4_retrieval_budget.png", "figure5_dense_vs_sparse.png",
    ]  # fmt: skip
    plotted = pd.read_csv(figures / "figure3_ablation.csv").set_index(["size", "series"])
    scores = csv_of(variants, "table8_ablation")
    for size in ("100K", "500K"):
        row = scores.loc[(size, "average")]
        change = row["without scratchpad"] - row["complete"]
        assert plotted.loc[(size, "without scratchpad"), "mean"] == pytest.approx(change, abs=0.002)
    assert plotted.loc["500K", "low"].isna().all() and plotted.loc["500K", "conversations"].eq(1).all()
    assert plotted.loc["100K", "conversations"].eq(2).all()  # all changes are equal there: no interval either
    sidecar = json.loads((figures / "figure4_retrieval_budget.json").read_text())
    assert "Protocol: paper; judge: offline stand-in, not a language model." in sidecar["caption"]
    assert "n = 1 conversation, hence no interval: 500K." in sidecar["caption"]
    assert "500k/" + LIGHT.name in sidecar["inputs"]["judgements"]


def test_an_arm_made_with_other_settings_is_left_out(
    variants: Path, data: Path, repo_root: Path, tmp_path: Path
) -> None:
    shutil.copytree(variants, tmp_path / "run")
    other = load_parameters(repo_root / "params" / "100k.yaml", data=str(data), run=str(tmp_path / "run"), workers=1)
    other = other.model_copy(update={"working_pairs": 1})
    evaluate(other, [LIGHT.model_copy(update={"k": 9})], quiet=True)
    text = assemble(tmp_path / "run", AssemblyOptions())["table9_retrieval_budget"].to_markdown()
    assert "K=9" not in text and "Left out, made with other settings: 100k/light-bm25-k9." in text


def test_the_base_is_asked_for_where_it_is_not_clear(variants: Path, tmp_path: Path) -> None:
    shutil.copytree(variants, tmp_path / "run")
    for name in (RAG.name, *(LIGHT.model_copy(update={"without": one}).name for one in COMPONENTS)):
        shutil.rmtree(tmp_path / "run" / "100k" / name)
    with pytest.raises(
        UserError, match=r"100k: several LIGHTs .* light-bm25-k3, light-dense-k3, light-bm25-k6; name one"
    ):
        assemble(tmp_path / "run", AssemblyOptions(parts=["100k"]))
    assemble(tmp_path / "run", AssemblyOptions(parts=["100k"], base="light-dense-k3"))
    assert "bm25" in csv_of(tmp_path / "run", "table10_dense_vs_sparse")
    with pytest.raises(UserError, match="no arm 'light-x'; the complete LIGHTs in it: light-bm25-k3,"):
        assemble(tmp_path / "run", AssemblyOptions(parts=["100k"], base="light-x"))


def test_what_the_run_says_of_claims(served: tuple[Path, RunParameters]) -> None:
    found = reproduce(served[0])
    assert not found.offline and found.readers == {name: f"model-{name}" for name in "abcd"}
    (wins,) = [claim for claim in found.claims if claim.id == "beam-037"]
    assert len(wins.comparisons) == 4 * 2 * 4  # readers, baselines, lengths
    against_rag = [part for part in wins.comparisons if part.label == "100K: LIGHT less RAG"]
    outcomes = {part.reader: part.outcome for part in against_rag}
    assert outcomes["c"] == "not run" and outcomes["a"] == "undecided"  # two conversations decide nothing
    (unread,) = [part for part in wins.comparisons if part.label == "500K: LIGHT less RAG" and part.reader == "d"]
    assert unread.why == "--sizes 500k --backbones d"
