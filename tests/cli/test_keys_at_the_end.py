"""Every command that calls models searches what it wrote for their keys, also where it ends early."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from beam_memorycode.generating import GenerateOptions
from beam_memorycode.generating import generate_dialogues as generate_dialogues
from beam_run.executing import ROOT
from commands import Call
from scripted_server import ScriptedServer

pytestmark = pytest.mark.usefixtures("file_in_this_process")

EXAMPLE = ROOT / "beamlib/data/example"
NAME = f"test-keys-{os.getpid()}"
KEY, VARIABLE = "sk-test-0a1b2c3d4e5f", "BEAM_TEST_KEY"
ROLES = ("memory", "compressor", "judge", "aligner")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A models file whose endpoint refuses every key."""
    with ScriptedServer(require_key="another") as server:
        one = {"model": "m", "base_url": server.base_url, "context_window": 131_072, "key_variable": VARIABLE}
        values = {"readers": {"one": one}, **dict.fromkeys(ROLES, one), "authors": {"planner": one}}
        path = tmp_path_factory.mktemp("keys") / "models.yaml"
        path.write_text(yaml.safe_dump(values))
        yield path


@pytest.fixture
def run() -> Iterator[Path]:
    folder = ROOT / "runs" / NAME
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("what", ["run-all", "run-all --authors", "memorycode run", "memorycode generate", "generate"])
def test_a_command_that_ends_early_is_searched(
    what: str, models: Path, run: Path, tmp_path: Path, called: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    out, given = tmp_path / "out", ["--models", models, "--yes"]
    if what == "memorycode run":
        generate_dialogues(GenerateOptions(tmp_path / "dialogues", counts=(1,)))
    commands: dict[str, list[str | Path]] = {
        "run-all": ["run-all", "--data", EXAMPLE, "--name", NAME, *given],
        "run-all --authors": ["run-all", "--sizes", "100k", "--name", NAME, "--authors", models, "--yes"],
        "memorycode run": ["memorycode", "run", "--data", tmp_path / "dialogues", "--name", NAME, *given],
        "memorycode generate": ["memorycode", "generate", "--out", out, "--counts", "1", *given],
        "generate": ["generate", "--out", out, *given],
    }
    place = out if "generate" in what else run
    place.mkdir(parents=True)
    (place / "notes.txt").write_text(f"curl -H 'Authorization: Bearer {KEY}'")
    done = called(*commands[what])
    assert done.returncode == 2 and f"notes.txt ({VARIABLE})" in done.stderr, done.stderr
    assert KEY not in done.stdout + done.stderr
    if what == "memorycode generate":  # the shortest
        (place / "notes.txt").unlink()
        assert "answered with status 401" in called(*commands[what]).stderr, "without it the reason is the endpoint's"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--base-url", f"http://127.0.0.1:9/{KEY}", "--model", "m"],
        ["--base-url", f"http://127.0.0.1:9/v1#{KEY}", "--model", "m"],
        ["--base-url", f"http://{KEY}@127.0.0.1:9/v1", "--model", "m"],
        ["--base-url", "http://127.0.0.1:9/v1", "--model", KEY],
        ["--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--key-variable", KEY],
        ["--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--key-variable", "gsk_Ab3dE5fG7hJ9kL1mN3pQ5rS7tU9"],
    ],
)
@pytest.mark.parametrize("command", ["run-all", "memorycode run", "estimate"])
def test_a_key_on_the_command_line_is_refused_and_not_repeated(
    command: str, arguments: list[str], run: Path, called: Call
) -> None:
    given = {
        "run-all": ["run-all", "--data", EXAMPLE, "--name", NAME, "--yes"],
        "memorycode run": ["memorycode", "run", "--data", EXAMPLE, "--name", NAME, "--yes"],
        "estimate": ["estimate", ROOT / "params" / "100k.yaml", "--data", EXAMPLE, "--name", NAME],
    }
    done = called(*given[command], *arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "--base-url" in done.stderr
    assert not any(key in done.stdout + done.stderr for key in (KEY, "gsk_Ab3d", "3pQ5rS7tU9"))
    assert not run.exists()
