"""No notebook and no command writes below the data that it is given: names, contents and times stay what they were."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from beam_meme.episode_generating import EpisodeOptions, generate_episodes
from beam_memorycode.generating import GenerateOptions, generate_dialogues
from beam_run import EVALUATION, FIELD_NOTEBOOKS, GENERATION, PAPER_NOTEBOOKS, SUITE_NOTEBOOKS
from beam_run.cli import app
from beam_run.executing import execute_all
from beam_run.publish import publish
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.kept_settings import keep_settings
from beamlib.evaluate.run import evaluate
from beamlib.files import sha256_of_file
from beamlib.params import load_parameters
from beamlib.places import RECORD, refuse_data
from beamlib.run import Run
from commands import Call, beamlib
from scripted_server import ScriptedServer
from steady_replies import steady_reply

pytestmark = pytest.mark.usefixtures("file_in_this_process")

EXAMPLE = Path(__file__).resolve().parents[2] / "beamlib/data/example"
State = dict[str, tuple[int, str]]


@dataclass(frozen=True)
class Places:
    """Read-only data (a conversation, and MemoryCode dialogues), and where what is made of them may lie."""

    data: Path
    dialogues: Path
    episodes: Path
    run: Path
    models: Path
    archive: Path


def state(folder: Path) -> State:
    """Every file and folder with its time of change and the hash of its content."""
    paths = [folder, *sorted(folder.rglob("*"))]
    return {str(path): (path.stat().st_mtime_ns, sha256_of_file(path) if path.is_file() else "") for path in paths}


def protected(folder: Path) -> Path:
    """The folder without a right to write, which binds all users but root: hence the hashes."""
    for path in (*folder.rglob("*"), folder):
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    return folder


def freed(folder: Path) -> None:
    """Undo `protected`, so that pytest can clean up."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)


@pytest.fixture(scope="module")
def places(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    root = tmp_path_factory.mktemp("untouched")
    shutil.copytree(EXAMPLE / "100K/1", root / "data/100K/1")
    generate_dialogues(GenerateOptions(root / "dialogues", counts=(1,)))
    generate_episodes(EpisodeOptions(root / "episodes", count=2, variants=("nofiller",)))
    for folder in ("dialogues", "episodes"):
        (root / folder / RECORD).unlink()  # as if it was not generated here
    found = Places(
        protected(root / "data"),
        protected(root / "dialogues"),
        protected(root / "episodes"),
        repo_root / "runs" / f"test-untouched-{os.getpid()}",
        root / "models.json",
        root / "recorded.tar.zst",
    )
    with ScriptedServer(steady_reply) as server:
        endpoint = {"model": "scripted", "base_url": server.base_url, "context_window": 32_000}
        roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
        found.models.write_text(repr({"readers": {"one": endpoint}, **roles}))
        changes = {"data": str(found.data), "run": str(root / "recorded"), "models": str(found.models), "workers": 1}
        parameters = load_parameters(repo_root / "params/100k.yaml", confirm_cost=True, **changes)
        evaluate(parameters, [Arm(memory="none")], quiet=True)
    keep_settings(Run.of(parameters))
    publish(root / "recorded", found.archive)
    yield found
    freed(found.data)
    freed(found.dialogues)
    freed(found.episodes)
    for folder in (found.run, repo_root / "figures" / found.run.name):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def before(places: Places) -> State:
    return state(places.data) | state(places.dialogues) | state(places.episodes)


def untouched(places: Places, before: State) -> bool:
    return state(places.data) | state(places.dialogues) | state(places.episodes) == before


Arguments = Callable[[Places], list[object]]
REFUSED = "was not generated here"
TRIED: dict[str, list[tuple[Arguments, int, str]]] = {
    "data check": [(lambda p: [p.data], 0, "100K")],
    "data audit": [(lambda p: [p.data], 0, "")],
    "data errata": [(lambda p: [], 0, "")],
    "data readings": [(lambda p: [], 0, "kappa")],
    "data detectors": [(lambda p: [p.data], 0, "recall")],
    "data read": [(lambda p: [p.data, "--question", "100K-1-q00", "--user-side"], 0, "Expected")],
    "data plant": [
        (lambda p: [p.data, "--out", p.archive.parent / "x", "--key", p.run / "key.json", "--seed", "1"], 2, "of 60"),
    ],
    "data readers": [(lambda p: [p.data / "100K/1/chat.json", "--key", p.models], 2, "name the key")],
    "data appendix": [
        (lambda p: [p.data], 2, "none of the conversations"),
        (lambda p: [p.data, "--appendix", "F", "--out", p.data / "new"], 2, "none of the conversations"),
    ],
    "data download": [(lambda p: [p.data], 2, REFUSED), (lambda p: [p.data / "100K"], 2, REFUSED)],
    "endpoints": [(lambda p: ["--models", p.models, "--yes"], 2, "none of the endpoints")],
    "facts": [(lambda p: ["errata.listed"], 0, "")],
    "evidence": [(lambda p: ["--data", p.data, "--k", "1", "--long"], 0, "recall")],
    "measure": [
        (lambda p: ["--data", p.data, "--out", p.data / "x.jsonl.xz"], 2, REFUSED),
        (
            lambda p: ["--data", p.data, "--out", p.archive.parent / "x.jsonl.xz", "--workers", "1"],
            0,
            "1 conversations",
        ),
    ],
    "frames": [
        (lambda p: [p.run, p.data / "new"], 2, REFUSED),
        (lambda p: [p.run, p.archive.parent / "frames"], 0, "parquet"),
    ],
    "latency": [(lambda p: [p.run], 0, "recalling"), (lambda p: [p.data], 2, "no manifest")],
    "reproduce": [(lambda p: [p.run], 0, "contexts of light-hybrid-k5")],
    "score": [(lambda p: [p.run / "100k/none"], 0, "average"), (lambda p: [p.data], 2, "manifest.json")],
    "tables": [(lambda p: [p.run], 0, "wrote"), (lambda p: [p.data], 2, REFUSED)],
    "import": [
        (lambda p: [p.data / "100K/1/probing_questions/probing_questions.json"], 2, "exact texts of BEAM's questions")
    ],
    "export": [
        (lambda p: [p.run / "100k/none", p.data / "x.jsonl"], 2, REFUSED),
        (lambda p: [p.run / "100k/none", p.archive.parent / "x.jsonl"], 2, "not known to have the released questions"),
    ],
    "judge": [
        (lambda p: [p.data, "--judge", "offline"], 2, REFUSED),
        (lambda p: [p.run / "100k", "--judge", "offline", "--data", p.data], 0, "answers judged by"),
    ],
    "judge-card": [(lambda p: [p.run / "100k-by-offline", "--against", p.run / "100k"], 0, "Cohen's kappa")],
    "claims": [(lambda p: [], 0, "claims")],
    "preflight": [(lambda p: [], 0, "agrees")],
    "estimate": [
        (lambda p: ["params/100k.yaml", "--data", p.data, "--models", p.models], 0, "calls to make"),
        (lambda p: ["params/100k.yaml", "--data", ".", "--models", p.models], 2, "choose a run folder beside it"),
    ],
    "page": [
        (lambda p: [p.run, "--data", p.data], 0, "index.html"),
        (lambda p: [p.data, "--data", p.data], 2, REFUSED),
    ],
    "compare": [
        (lambda p: [p.run, p.run, "--out", p.data / "new"], 2, REFUSED),
        (lambda p: [p.run, p.run], 0, "minus"),
        (lambda p: [p.run, p.data, "--out", "."], 2, "holds no finished arm"),
    ],
    "replay": [(lambda p: [p.run, "100k/none", "100K-1-q00", "--data", p.data], 0, "the same answer and verdicts")],
    "calls export": [(lambda p: [p.archive.parent / "recorded", p.data / "x.tar.zst"], 2, REFUSED)],
    "calls import": [(lambda p: [p.archive, p.data / "new"], 2, REFUSED)],
    "calls verify": [(lambda p: [p.archive, "--data", p.data], 0, "all as published")],
    "generate": [
        (lambda p: ["--out", p.data], 2, REFUSED),
        (lambda p: ["--out", p.data / "new", "--seed", "8"], 2, REFUSED),
        (lambda p: ["--out", p.data / "100K/1"], 2, REFUSED),
    ],
    "titles": [(lambda p: [p.data / "x.json", "--domain", "coding", "--models", "params/models.yaml"], 2, REFUSED)],
    "run-all": [
        (lambda p: ["--download", "--data", p.data, "--name", p.run.name], 2, REFUSED),
        (lambda p: ["--data", p.data, "--memorycode", "."], 2, "dialogue_<id>.json"),
        (lambda p: ["--data", p.data, "--meme", p.data], 2, "a file of episodes"),
    ],
    "memorycode score": [(lambda p: ["--dialogues", p.dialogues], 2, "output")],
    "memorycode generate": [
        (lambda p: ["--out", p.dialogues, "--counts", "1"], 2, REFUSED),
        (lambda p: ["--out", p.dialogues / "dataset", "--counts", "1"], 2, REFUSED),
        (lambda p: ["--out", p.dialogues / "new", "--counts", "1"], 2, REFUSED),
    ],
    "meme rejections": [(lambda p: ["--fillers", p.data], 2, "")],
    "meme stats": [(lambda p: ["--data", p.episodes], 0, "questions, tracking")],
    "meme generate": [
        (lambda p: ["--out", p.episodes, "--episodes", "2"], 2, REFUSED),
        (lambda p: ["--out", p.episodes / "new", "--episodes", "2"], 2, REFUSED),
        (lambda p: ["--out", p.data, "--episodes", "2"], 2, REFUSED),
    ],
    "meme download": [(lambda p: ["--out", p.episodes], 2, REFUSED), (lambda p: ["--out", p.data], 2, REFUSED)],
    "meme run": [(lambda p: ["--data", p.episodes, "--name", p.run.name, "--memories", "bm25"], 0, "answers of 2")],
    "meme study": [
        (lambda p: ["--data", p.episodes, "--name", p.run.name, "--draw"], 2, "run the study without --draw")
    ],
    "meme optimise": [
        (lambda p: ["--data", p.episodes, "--out", p.run, "--models", p.data], 2, "would be asked for: add --yes")
    ],
    "meme score": [(lambda p: ["--data", p.episodes, "--name", p.run.name], 0, "MEME: results")],
    "meme trace": [
        (lambda p: ["--data", p.episodes, "--name", p.run.name, "--episode", "pl_999"], 2, "pl_999"),
    ],
    "meme agreement": [(lambda p: ["--data", p.episodes, "--name", p.run.name], 0, "kappa")],
    "meme report": [(lambda p: ["--data", p.episodes, "--name", p.run.name], 0, "MEME: results")],
    "memorycode run": [
        (lambda p: ["--data", p.dialogues, "--name", p.run.name, "--setups", "chain,light"], 0, "score them with"),
    ],
    "memorycode report": [(lambda p: ["--data", p.dialogues, "--name", p.run.name], 0, "MemoryCode: this run")],
}
"""Per command: arguments, the exit code, and a part of what is said. The whole of `run-all` comes first, below."""


def commands(group: typer.Typer, before: str = "") -> Iterator[str]:
    """All commands of the command line by their full names."""
    for command in group.registered_commands:
        yield f"{before}{command.name or str(getattr(command.callback, '__name__', ''))}"
    for part in group.registered_groups:
        assert part.typer_instance is not None
        yield from commands(part.typer_instance, f"{before}{part.name} ")


def test_every_command_is_tried() -> None:
    assert set(commands(app)) == TRIED.keys()


def run_all(places: Places, name: str, *more: str) -> None:
    """Run the main job on all data of `places`."""
    data = ("--data", places.data, "--memorycode", places.dialogues, "--meme", places.episodes)
    few = ("--set", "retrievers=[bm25]", "--set", "budgets=[5]")  # what is compared bears on nothing here
    done = beamlib("run-all", *data, "--name", name, *few, *more)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def answered(places: Places, before: State) -> None:
    """The answers and verdicts of the main job, which commands then read."""
    run_all(places, places.run.name, "--step", "evaluate")
    assert untouched(places, before)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_main_job_and_its_notebooks_leave_the_data_alone(places: Places, before: State) -> None:
    run_all(places, places.run.name)
    assert {page.stem for page in places.run.glob("notebooks/*/*.html")} == {
        *PAPER_NOTEBOOKS,
        *EVALUATION,
        *SUITE_NOTEBOOKS,
        *FIELD_NOTEBOOKS,
    }
    assert untouched(places, before)


@pytest.mark.quick("data check", "run-all", "generate")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", TRIED)
def test_no_command_writes_below_the_data(
    command: str,
    places: Places,
    before: State,
    called: Call,
    monkeypatch: pytest.MonkeyPatch,
    repo_root: Path,
    request: pytest.FixtureRequest,
) -> None:
    if command in ("score", "tables", "frames", "latency", "reproduce"):
        request.getfixturevalue("answered")
    for arguments, code, said in TRIED[command]:
        monkeypatch.chdir(repo_root)
        done = called(*command.split(), *arguments(places))
        assert (done.returncode, said in done.stdout + done.stderr) == (code, True), (done.stdout, done.stderr)
        assert untouched(places, before)


@pytest.fixture
def conversations(tmp_path: Path) -> Iterator[Path]:
    """A read-only folder with the example under the number that generation begins with."""
    shutil.copytree(EXAMPLE / "100K/1", tmp_path / "data/100K/1")
    yield protected(tmp_path / "data")
    freed(tmp_path / "data")


@pytest.mark.timeout(900)
def test_notebooks_on_generation_write_into_the_run_folder(
    conversations: Path, tmp_path: Path, repo_root: Path
) -> None:
    found = state(conversations)
    parameters = load_parameters(repo_root / "params/100k.yaml", data=str(conversations), run=str(tmp_path / "run"))
    for names in (GENERATION[-1:], GENERATION[:-1]):  # the last makes the whole conversation, which the others find
        list(execute_all([(name, parameters, tmp_path / "pages") for name in names], 2))
    assert state(conversations) == found
    assert (tmp_path / "run/generated/100K/1/probing_questions/probing_questions.json").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"data", "run", "pages"}


def test_real_conversations_are_left_alone(beam_data: Path, tmp_path: Path, called: Call) -> None:
    shutil.copytree(min((beam_data / "100K").iterdir()), tmp_path / "100K/1")
    before = state(protected(tmp_path))
    assert called("data", "check", tmp_path).returncode == 0
    assert called("evidence", "--data", tmp_path, "--k", "5").returncode == 0
    assert called("generate", "--out", tmp_path).returncode == 2
    assert state(tmp_path) == before
    freed(tmp_path)


@pytest.mark.parametrize("name", ["data", "memorycode", "meme"])
def test_a_run_folder_among_the_data_is_refused(name: str, tmp_path: Path, repo_root: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    (data / "100K/1").mkdir(parents=True)
    other.symlink_to(data)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/generated").symlink_to(data)

    def load(data: Path, run: Path) -> None:
        load_parameters(repo_root / "params/100k.yaml", **{name: str(data), "run": str(run)})

    for read, written in (
        (data, data),
        (data, data / "run"),
        (data, other / "run"),
        (other, data / "run"),
        (data, data / "100K/../run"),
        (data, tmp_path / "linked"),
        (data, tmp_path),
        (data / "100K", tmp_path),
    ):
        with pytest.raises(UserError, match="choose a run folder beside it"):
            load(read, written)
    load(data, tmp_path / "run")
    load(data / "100K", data / "run")
    load(tmp_path / "run" / ("generated" if name == "data" else f"{name}/data"), tmp_path / "run")


def test_generation_goes_on_with_its_own_conversations_alone(tmp_path: Path) -> None:
    refuse_data(tmp_path / "nowhere")
    shutil.copytree(EXAMPLE / "100K/1", tmp_path / "100K/5")
    for place in (tmp_path, tmp_path / "below", tmp_path / "100K/5", tmp_path / "100K/5/below"):
        with pytest.raises(UserError, match=r"100K/5/chat\.json was not generated here"):
            refuse_data(place)
    (tmp_path / "100K/5" / RECORD).write_text("{}")
    refuse_data(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/100K-00000-of-00001.parquet").touch()
    refuse_data(tmp_path, parquet=True)
    with pytest.raises(UserError, match="parquet was not generated here"):
        refuse_data(tmp_path)
