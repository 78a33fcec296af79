"""The commands as a user types them: output, exit codes, one sentence for wrong input, never a traceback.

Each command is typed at least once. Where only its arguments differ it is called: starting it costs seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from beamlib.cli import main
from beamlib.report.notebooks import EVALUATION, GENERATION, SUITES

DATA = ("BEAM_DATA", "MEMORYCODE_DATA")
SETTINGS = {"HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k not in DATA}, **SETTINGS}

Call = Callable[..., subprocess.CompletedProcess[str]]


def beamlib(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "beamlib.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, cwd=cwd, timeout=600)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """`beamlib` without a process of its own; what would be a traceback there is an exception here."""
    for name in DATA:
        monkeypatch.delenv(name, raising=False)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)

    def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["beamlib", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, errors = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out, errors)

    return call


@pytest.fixture(scope="module")
def example(repo_root: Path) -> Path:
    return repo_root / "beamlib/benchmark/example"


@pytest.fixture(scope="module")
def run(repo_root: Path) -> Path:
    """The whole main job on one generated conversation."""
    folder = repo_root / "runs" / f"test-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    done = beamlib("run-all", "--sizes", "100k", "--name", folder.name)
    assert done.returncode == 0, done.stderr
    assert f"Open runs/{folder.name}/index.html" in done.stdout
    yield folder
    shutil.rmtree(folder)
    shutil.rmtree(repo_root / "figures" / folder.name)


def test_the_main_job_writes_what_it_promises(run: Path, repo_root: Path) -> None:
    page = (run / "index.html").read_text()
    pages = [("100k", name) for name in (*GENERATION, *EVALUATION)] + [("published", name) for name in EVALUATION]
    pages += [("memorycode", name) for name in SUITES]
    for part, name in pages:
        assert (run / f"notebooks/{part}/{name}.html").is_file()
        assert f"notebooks/{part}/{name}.html" in page
    for name in ("figure3_published", "figure4_published", "figure5_published"):
        for kind in ("pdf", "png", "csv", "json"):
            assert (run / f"figures/published/{name}.{kind}").is_file()
            assert (repo_root / f"figures/published/{name}.{kind}").is_file()
    for name in ("table1_main_results", "table8_ablation", "table9_retrieval_budget", "table10_dense_vs_sparse"):
        for kind in ("csv", "md", "html"):
            text = (run / f"tables/100k/{name}.{kind}").read_text()
            assert "offline stand-in, not a language model" in text
            assert "none (n = 1: one conversation" in text and ("(n = 1)</strong>" in text or kind != "html")
    assert "(n = 1)</td>" in page[: page.index('id="claims"')]  # the summary, which would otherwise rank
    assert len(json.loads((run / "claims.json").read_text())) == 118
    assert page.count("<details") >= 10
    assert "offline stand-in, not a language model" in page


def test_a_second_run_gives_the_same_conversation_tables_and_figures(run: Path) -> None:
    parts = ("generated", "tables", "figures", "100k")
    before = {p: p.read_bytes() for part in parts for p in sorted((run / part).rglob("*")) if p.is_file()}
    done = beamlib("run-all", "--sizes", "100k", "--name", run.name)
    assert done.returncode == 0, done.stderr
    assert "generated 0 of 1" in done.stdout
    assert {p: p.read_bytes() for part in parts for p in sorted((run / part).rglob("*")) if p.is_file()} == before


@pytest.mark.parametrize("protocol", ["paper", "released-code", "f1-weighted", "nugget-mean", "binary"])
def test_score(run: Path, protocol: str, called: Call) -> None:
    typed = beamlib if protocol == "paper" else called
    done = typed("score", run / "100k/oracle", "--protocol", protocol, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["ability"] for row in rows][-1] == "average"
    assert len(rows) == 11
    assert all(row["protocol"] == protocol and row["arm"] == "oracle" for row in rows)
    assert all(0 <= row["mean"] <= 1 and row["low"] is None for row in rows)  # one conversation has no interval


def test_score_says_that_one_conversation_has_no_interval(run: Path, called: Call) -> None:
    assert "Interval, 100K: none (n = 1: one conversation" in called("score", run / "100k/oracle").stdout


def test_judgements_made_elsewhere_are_scored_only_when_asked(run: Path, tmp_path: Path, called: Call) -> None:
    lines = (run / "100k/none/judgements.jsonl").read_text().replace('"score": 0.0', '"score": 1.0')
    (tmp_path / "judgements.jsonl").write_text(lines)
    refused = called("score", tmp_path, "--json")
    assert refused.returncode == 2 and "manifest.json" in refused.stderr
    (tmp_path / "manifest.json").write_bytes((run / "100k/none/manifest.json").read_bytes())
    refused = called("score", tmp_path, "--json")
    assert refused.returncode == 2 and "--as-is" in refused.stderr
    done = called("score", tmp_path, "--as-is", "--protocol", "nugget-mean", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[-1]["mean"] == 1
    assert not any(row["vouched"] for row in json.loads(done.stdout))


def test_evidence(example: Path) -> None:
    done = beamlib("evidence", "--data", example, "--memory", "light,rag", "--k", "1,13", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {row["conversations"] for row in rows} == {1} and {row["low"] for row in rows} == {None}
    assert all(row["recall"] == 1 for row in rows if row["k"] == 13)  # thirteen pairs are all there are
    assert {row["n"] for row in rows if row["ability"] == "all"} == {18}  # abstention cites nothing


def test_data_check_and_claims_as_text_and_json(example: Path, called: Call) -> None:
    for arguments in (["data", "check", example], ["data", "audit", example], ["data", "errata"], ["claims"]):
        assert called(*arguments).returncode == 0
        assert json.loads(beamlib(*arguments, "--json").stdout)


WRONG = (
    (["data", "check", "nowhere"], "nowhere"),
    (["data", "audit", "nowhere"], "nowhere"),
    (["data", "errata", "--verdicts", "nowhere"], "nowhere"),
    (["evidence", "--data", "nowhere"], "nowhere"),
    (["evidence", "--data", "EXAMPLE", "--size", "2m"], "'2m' is no size"),
    (["evidence", "--data", "EXAMPLE", "--size", "500k"], "500K"),
    (["evidence", "--data", "EXAMPLE", "--k", "0"], "--k"),
    (["evidence", "--data", "EXAMPLE", "--memory", "ligth"], "'ligth'"),
    (["evidence", "--data", "EXAMPLE", "--retriever", "qdrant"], "'qdrant'"),
    (["score", "nowhere"], "nowhere"),
    (["score", "EXAMPLE"], "manifest.json"),
    (["generate", "--out", "OUT", "--size", "2m"], "'2m' is no size"),
    (["generate", "--out", "OUT", "--domain", "Astrology"], "'Astrology'"),
    (["generate", "--out", "OUT", "--title", "A Walk to the Moon"], "domain"),
    (["generate", "--out", "OUT", "--strategy", "random"], "'random'"),
    (["generate", "--out", "OUT", "--reach", "ever"], "'reach' is 'ever'"),
    (["generate", "--out", "OUT", "--models", "nowhere.yaml"], "nowhere.yaml"),
    (["generate", "--out", "OUT", "--models", "MODELS"], "add --yes"),
    (["run-all", "--set", "domain=Astrology"], "'Astrology'"),
    (["run-all", "--memorycode", "nowhere"], "nowhere"),
    (["run-all", "--memorycode", "EXAMPLE"], "dialogue_<id>.json"),
    (["run-all", "--set", "memorycode=x"], "--memorycode"),
    (["run-all", "--data", "nowhere"], "nowhere"),
    (["run-all", "--data", "EXAMPLE", "--sizes", "1m"], "1M"),
    (["run-all", "--name", "../x"], "--name"),
    (["estimate", "PARAMS", "--name", "../x"], "--name"),
    (["run-all", "--protocol", "official"], "'official'"),
    (["run-all", "--memory", "mine"], "file.py:Class"),
    (["run-all", "--models", "nowhere.yaml"], "nowhere.yaml"),
    (["run-all", "--model", "tiny"], "--base-url"),
    (["run-all", "--base-url", "http://127.0.0.1:9/v1"], "--model"),
    (["run-all", "--base-url", "127.0.0.1:9", "--model", "tiny"], "base_url"),
    (["run-all", "--backbones", "one"], "--models"),
    (["run-all", "--data", "EXAMPLE", "--prompts", "nowhere"], "nowhere"),
    (["run-all", "--data", "EXAMPLE", "--calls", "sometimes"], "'sometimes'"),
    (["run-all", "--data", "EXAMPLE", "--set", "k"], "name=value"),
    (["run-all", "--data", "EXAMPLE", "--set", "nosuch=1"], "'nosuch'"),
    (["run-all", "--data", "EXAMPLE", "--set", "released=[all]"], "'all'"),
    (["run-all", "--data", "EXAMPLE", "--set", "size=1m"], "--sizes"),
    (["run-all", "--data", "EXAMPLE", "--set", "protocol=binary"], "--protocol"),
    (["run-all", "--data", "EXAMPLE", "--key-variable", "X"], "--base-url"),
    (["run-all", "--data", "EXAMPLE", "--models", "MODELS", "--model", "tiny"], "--base-url"),
    (["estimate", "nowhere.yaml"], "nowhere.yaml"),
    (["estimate", "PARAMS"], "--data"),
    (["estimate", "PARAMS", "--data", "EXAMPLE", "--backbone", "nosuch"], "'nosuch'"),
    (["calls", "verify", "nowhere.tar.zst"], "nowhere.tar.zst"),
    (["calls", "import", "nowhere.tar.zst", "x"], "nowhere.tar.zst"),
    (["calls", "export", "nowhere", "x.tar.zst"], "nowhere"),
    (["preflight", "nowhere"], "nowhere"),
    (["data", "download", "x", "--sizes", "7k"], "'7k'"),
)
TYPED = {arguments[0]: (arguments, message) for arguments, message in reversed(WRONG)}
"""Of each command the first of these."""


@pytest.fixture
def places(example: Path, repo_root: Path) -> dict[str, str]:
    params = repo_root / "params"
    return {"EXAMPLE": str(example), "PARAMS": str(params / "100k.yaml"), "MODELS": str(params / "models.yaml")}


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_input_is_one_sentence_and_exit_code_2(
    arguments: list[str],
    message: str,
    places: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    called: Call,
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(called(*[places.get(word, word) for word in arguments]), message, tmp_path)


@pytest.mark.parametrize(("arguments", "message"), TYPED.values(), ids=TYPED)
def test_wrong_input_as_it_is_typed(arguments: list[str], message: str, places: dict[str, str], tmp_path: Path) -> None:
    refused(beamlib(*[places.get(word, word) for word in arguments], cwd=tmp_path), message, tmp_path)


def refused(done: subprocess.CompletedProcess[str], message: str, folder: Path) -> None:
    """One sentence with `message` and exit code 2, and nothing was written into `folder`."""
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(folder.iterdir()) == []
