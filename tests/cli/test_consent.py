"""Nothing is called before one estimate of everything has been shown and has a yes: the endpoint stays silent."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beam_commands.options import Endpoints
from beam_generate.of_run import admit_authors, generate_all
from beam_generate.pipeline import ConversationSpec, unfinished
from beam_meme.episode_generating import EpisodeOptions, generate_episodes
from beam_memorycode.generating import GenerateOptions, generate_dialogues
from beam_run import EVALUATION, GENERATION, SUITE_NOTEBOOKS
from beam_run.executing import NOTEBOOKS, ROOT
from beam_run.job import MainJob, confirm, plan
from beamlib.errors import UserError
from beamlib.files import read_json
from beamlib.params import load_parameters, usual_parameters
from commands import ENVIRONMENT, Call
from scripted_server import ScriptedServer, body_text
from served_author import ServedAuthor, models_file

EXAMPLE = ROOT / "beamlib/data/example"
NAME = f"test-consent-{os.getpid()}"
COMMISSION = ConversationSpec(usual_parameters("100K", authors="authors.json"))  # models draw among all domains
MEMORY = """from beamlib.memory import Recollection
class Mine:
    name = "mine"
    def ingest(self, conversation): self.last = conversation.pairs[-1]
    def recall(self, question): return Recollection("")
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    """An endpoint that would also count tokens and list its models, if it were asked."""
    with ScriptedServer(tokenize=True) as running:
        yield running


@pytest.fixture(scope="module")
def place(server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a models file, a memory of one's own, dialogues and episodes, from which commands are given."""
    folder = tmp_path_factory.mktemp("consent")
    models_file(folder / "models.json", server.base_url)
    (folder / "mine.py").write_text(MEMORY)
    generate_dialogues(GenerateOptions(folder / "dialogues", counts=(1,)))
    generate_episodes(EpisodeOptions(folder / "episodes", count=2, variants=("nofiller",)))
    return folder


SIZED = ["run-all", "--sizes", "100k", "--name", NAME]
ON_DATA = ["run-all", "--data", str(EXAMPLE), "--name", NAME]
SILENT: dict[str, tuple[list[str], list[str]]] = {
    "models": ([*ON_DATA, "--models", "models.json"], ["reader scripted, judge scripted", "Estimate, 100K"]),
    "authors": (
        [*SIZED, "--set", "authors=models.json"],
        ["written by scripted", "Estimate, conversations", "are judged (offline stand-in"],
    ),
    "models and authors": (
        [*SIZED, "--models", "models.json", "--authors", "models.json", "--set", "domain=cooking"],
        ["written by scripted", "Estimate, conversations", "Estimate, 100K", "(on another domain where it lacks"],
    ),
    "backbones": ([*ON_DATA, "--models", "models.json", "--backbones", "scripted"], ["Estimate, 100K · scripted"]),
    "own memory": ([*ON_DATA, "--models", "models.json", "--memory", "mine.py:Mine"], ["is not in the estimate"]),
    "one endpoint": ([*ON_DATA, "--base-url", "BASE_URL", "--model", "scripted"], ["Estimate, 100K"]),
    "memorycode": ([*ON_DATA, "--models", "models.json", "--memorycode", "dialogues"], ["Estimate, MemoryCode"]),
    "meme": ([*ON_DATA, "--models", "models.json", "--meme", "episodes"], ["Estimate, MEME · nofiller", "meme_judge"]),
    "meme run": (["meme", "run", "--data", "episodes", "--name", NAME, "--models", "models.json"], ["meme_answer"]),
    "memorycode run": (["memorycode", "run", "--data", "dialogues", "--name", NAME, "--models", "models.json"], []),
    "memorycode run at one endpoint": (
        ["memorycode", "run", "--data", "dialogues", "--name", NAME, "--base-url", "BASE_URL", "--model", "scripted"],
        [],
    ),
    "memorycode generate": (
        ["memorycode", "generate", "--out", "new", "--counts", "1", "--models", "models.json"],
        ["speaker scripted"],
    ),
    "titles": (["titles", "new.json", "--domain", "coding", "--models", "models.json"], ["titler scripted"]),
    "generate": (["generate", "--out", "new", "--models", "models.json"], ["planner   scripted"]),
    "generate for models alone": (
        ["generate", "--out", "new", "--models", "models.json", "--domain", "cooking"],
        ["planner   scripted"],
    ),
}
"""What may call, without a yes, and what is announced."""


@pytest.mark.quick("models", "one endpoint", "meme run", "memorycode generate")
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("what", SILENT)
def test_no_request_is_sent_without_a_yes_and_nothing_is_left_behind(
    what: str, server: ScriptedServer, place: Path, called: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)  # as on a user's machine, whatever it is set to here
    before = sorted(place.rglob("*"))
    arguments, said = SILENT[what]
    done = called(*[server.base_url if word == "BASE_URL" else word for word in arguments])
    assert done.returncode == 2
    assert done.stderr.strip().endswith("nothing was called: add --yes to spend what the estimate above says.")
    shown = " ".join(done.stdout.split())  # without a terminal lines are broken, and where depends on the names in them
    assert all(" ".join(part.split()) in shown for part in said), done.stdout
    assert done.stdout.count("Everything together") == (arguments[0] == "run-all")
    assert server.connections == 0
    assert sorted(place.rglob("*")) == before
    assert not (ROOT / "runs" / NAME).exists()


def test_an_estimate_sends_nothing(server: ScriptedServer, place: Path, called: Call) -> None:
    models = place / "models.json"
    assert (
        "calls to make" in called("estimate", ROOT / "params/100k.yaml", "--data", EXAMPLE, "--models", models).stdout
    )
    assert server.connections == 0


@pytest.mark.quick("01_plans", "05_memory", "11_meme")
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("name", [*GENERATION, *EVALUATION, *SUITE_NOTEBOOKS])
def test_a_notebook_calls_nothing_without_a_yes(
    name: str, server: ScriptedServer, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)  # a notebook changes it
    changes = {"data": str(EXAMPLE), "memorycode": str(place / "dialogues"), "run": str(place / "run"), "workers": 1}
    changes |= {"meme": str(place / "episodes")}
    changes |= {"models": str(place / "models.json"), "authors": str(place / "models.json")}
    parameters = load_parameters(ROOT / "params/100k.yaml", **changes)
    assert not parameters.confirm_cost
    # The cells as they are, without the seconds that a kernel takes to start: they end at the first call.
    cells = [cell for cell in read_json(NOTEBOOKS / f"{name}.ipynb")["cells"] if cell["cell_type"] == "code"]
    space = parameters.flat()
    with pytest.raises(UserError, match="would be called, and nothing is called before confirm_cost is true"):
        for cell in cells[1:]:
            exec("".join(cell["source"]), space)
    assert server.connections == 0


def test_what_is_announced_is_what_is_called(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    author = ServedAuthor(COMMISSION.stood_in().story())

    def reply(body: dict[str, Any]) -> Any:
        known = "password" in body_text(body) or "Count from 1" in body_text(body)
        return "lantern, harbour, orchard, violin" if known else author(body)

    with ScriptedServer(reply) as server:
        models = models_file(tmp_path / "authors.json", server.base_url)
        job = MainJob(None, ["100k"], NAME, 0, "paper", "", {}, False, Endpoints(), authors=Path(models.name), yes=True)
        planned = plan(job, tmp_path)
        confirmed = confirm(planned, tmp_path)
        assert (confirmed, server.connections) == (True, 0)
        (announced,) = re.findall(r"Everything together: ([0-9,]+) calls", capsys.readouterr().out)
        config = replace(planned.generation.config, confirmed=confirmed, folder=tmp_path / "out")
        generate_all(planned.generation.specs, tmp_path / "out", admit_authors(config, planned.generation.specs), 1)
        assert len(server.requests) == int(announced.replace(",", ""))
        assert unfinished(planned.generation.specs, tmp_path / "out", config) == []
        command = config.command
    assert command == (
        f"beamlib generate --size 100k --conversations 1 --out runs/{NAME}/generated --models {models} --yes"
    )


@pytest.mark.parametrize("yes", [False, True])
def test_the_yes_is_the_users(yes: bool, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    job = MainJob(
        EXAMPLE,
        [],
        NAME,
        0,
        "paper",
        "",
        {"memorycode": place / "dialogues"},
        False,
        Endpoints(Path("models.json")),
        yes=yes,
    )
    planned = plan(job, tmp_path)
    assert {one.confirm_cost for one in planned.runs} == {yes}
    assert {one.confirm_cost for one in planned.agreed(True).suites[0].runs} == {True}


def at_a_terminal(answer: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`beamlib` with a terminal at which `answer` is typed."""
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    command = [sys.executable, "-m", "beam_run", *map(str, arguments)]
    try:
        return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, stdin=theirs, timeout=120)
    finally:
        os.close(ours)
        os.close(theirs)


def test_at_a_terminal_it_is_asked(place: Path, tmp_path: Path) -> None:
    arguments = ["memorycode", "generate", "--out", tmp_path / "out", "--counts", "1", "--models"]
    with ScriptedServer(lambda body: "Ada: Hello.\n\nBo: Hello.") as server:
        models = models_file(tmp_path / "models.json", server.base_url)
        refused = at_a_terminal("n", *arguments, models)
        assert refused.returncode == 2 and refused.stderr.strip() == "beamlib: nothing was called."
        assert server.connections == 0 and not (tmp_path / "out").exists()
        assert "Make these calls?" in at_a_terminal("y", *arguments, models).stdout
        assert server.requests


def test_several_conversations_are_usual_only_where_nothing_is_paid(tmp_path: Path) -> None:
    job = MainJob(None, ["100k", "1m"], NAME, 0, "paper", "", {}, False, Endpoints())
    assert plan(job, tmp_path).conversations == {"100K": 5, "1M": 1}
    assert plan(replace(job, conversations=2), tmp_path).conversations == {"100K": 2, "1M": 2}
    authors = models_file(tmp_path / "authors.json", "http://127.0.0.1:9/v1")
    assert plan(replace(job, authors=authors), tmp_path).conversations == {"100K": 1, "1M": 1}
