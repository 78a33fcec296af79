"""Archives made to write elsewhere, to pass for what they are not, or to break: one sentence, and nothing else."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import beamlib
from beam_run.publish import publish, verify
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.kept_settings import keep_settings
from beamlib.evaluate.run import evaluate
from beamlib.files import to_json
from beamlib.params import load_parameters
from beamlib.retrieval import dense_encoder
from beamlib.run import Run
from remade_archives import contents, remade, signed

EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
ARMS = (Arm(memory="none"), Arm(memory="rag", retriever="bm25", k=2))
RAG = "100k/rag-bm25-k2"

pytestmark = pytest.mark.usefixtures("file_in_this_process")
Files = dict[str, bytes]


@pytest.fixture(scope="module")
def run(repo_root: Path, tmp_path_factory: pytest.TempPathFactory, file_in_this_process: None) -> Path:
    """A finished run of the offline stand-in."""
    folder = tmp_path_factory.mktemp("hostile") / "run"
    parameters = load_parameters(
        repo_root / "params" / "100k.yaml", data=str(EXAMPLE), run=str(folder), workers=1, alignment="greedy"
    )
    evaluate(parameters, ARMS, quiet=True)
    keep_settings(Run.of(parameters))
    return folder


@pytest.fixture(scope="module")
def whole(run: Path) -> Files:
    archive = run.parent / "whole.tar.zst"
    publish(run, archive)
    return contents(archive)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, in which nothing may stay, with files of the user's around it."""
    temporary = tmp_path / "some" / "where" / "tmp"
    temporary.mkdir(parents=True)
    for folder in (tmp_path, temporary.parent, temporary.parent.parent):
        (folder / "answers.jsonl").write_text("mine\n")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    before = everything(tmp_path)
    yield temporary
    assert everything(tmp_path) == before


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"folder"
        for path in folder.rglob("*")
        if path.suffix != ".zst"
    }


def edited(files: Files, name: str, change: Callable[[dict[str, Any]], object]) -> Files:
    """The files with one of their JSON values changed; a manifest vouches for itself again."""
    value = json.loads(files[name])
    change(value)
    return {**files, name: signed(value) if name.endswith("manifest.json") else json.dumps(value).encode()}


def of_arm(change: Callable[[dict[str, Any]], object], arm: str = RAG) -> Callable[[Files], Files]:
    return lambda files: edited(files, f"{arm}/manifest.json", change)


def of_settings(**changes: Any) -> Callable[[Files], Files]:
    return lambda files: edited(files, "100k/parameters.json", lambda value: value.update(changes))


def moved(files: Files, old: str, new: str) -> Files:
    return {name.replace(old, new): data for name, data in files.items()}


def renamed_arm(files: Files, **arm: Any) -> Files:
    """The attack of old: an arm whose settings lead its folder elsewhere."""
    return edited(files, f"{RAG}/manifest.json", lambda value: value["settings"]["arm"].update(arm))


def planted(files: Files) -> Files:
    """Answers that a replay would take for its own, were they to lie where it works."""
    return {**files, **{name.replace("100k/", "replay/100k/"): data for name, data in files.items()}}


def test_an_offline_run_is_published_and_verified_without_a_key(run: Path, place: Path) -> None:
    said = publish(run, place.parent / "run.tar.zst")
    assert "no calls" in said and "offline stand-in, not a language model" in said
    assert not any(name.startswith("calls/") for name in contents(place.parent / "run.tar.zst"))
    said = verify(place.parent / "run.tar.zst", EXAMPLE)
    assert "100k: 2 methods replayed, 40 answers and judgements, all as published" in said
    assert "offline stand-in, not a language model" in said


HOSTILE: dict[str, tuple[Callable[[Files], Files], str]] = {
    **{
        f"retriever {value!r:.20}": (lambda files, value=value: renamed_arm(files, retriever=value), "arm.retriever")
        for value in ("../../../x", "", ["bm25"], "\x1b[2J", "b" * 5_000)
    },
    **{
        f"target {value!r:.20}": (lambda files, value=value: renamed_arm(files, target=value), "arm.target")
        for value in ("x.py:../../y", "x.py:", "x.py:a\n", f"x.py:{'a' * 500}", 1)
    },
    "k": (lambda files: renamed_arm(files, k=-1), "arm.k"),
    "memory": (lambda files: renamed_arm(files, memory="../none"), "arm.memory"),
    "another arm's name": (of_arm(lambda value: value.update(arm="../../none")), "field 'arm'"),
    "another arm's folder": (lambda files: moved(files, RAG, "100k/rag-bm25-k3"), "not the folder's name"),
    "no arm": (of_arm(lambda value: value["settings"].pop("arm")), "settings.arm"),
    "arm as text": (of_arm(lambda value: value["settings"].update(arm="none")), "settings.arm"),
    "no errata": (of_arm(lambda value: value["settings"].pop("errata")), "settings.errata"),
    "settings as list": (of_arm(lambda value: value.update(settings=[])), "settings"),
    "size": (of_arm(lambda value: value.update(size="../100K")), "size"),
    "conversation": (of_arm(lambda v: v.update(conversations={"../1": v["conversations"]["100K-1"]})), "conversations"),
    "no conversations": (of_arm(lambda value: value.update(conversations={})), "not every conversation"),
    "another judge": (of_arm(lambda value: value.update(judge="gpt-9")), "field 'judge' is 'gpt-9'"),
    "manifest as list": (lambda files: {**files, f"{RAG}/manifest.json": b"[]"}, "manifest.json"),
    "manifest unsigned": (lambda files: {**files, f"{RAG}/manifest.json": b"{}"}, "manifest.json"),
    "settings file as list": (lambda files: {**files, "100k/parameters.json": b"[]"}, "a JSON object is expected"),
    "settings file that grows": (
        lambda files: {**files, "100k/parameters.json": b"[" + b"[]," * 100_000 + b"[]]"},
        "more than 262,144 characters",
    ),
    "settings file empty": (lambda files: {**files, "100k/parameters.json": b""}, "parameters.json"),
    "tier": (of_settings(size="500K"), "not of 100k"),
    "backbone": (of_settings(backbone="../x"), "backbone"),
    "models that are not there": (of_settings(models="/etc/passwd"), "models.yaml: the file does not exist"),
    "prompts that are not there": (of_settings(prompts="/etc"), "prompts"),
    "parameter": (of_settings(more=1), "unknown parameter 'more'"),
    "encoder": (
        of_arm(lambda value: value["settings"].update(encoder="/etc")), "'encoder' is '/etc', a folder of some machine"
    ),
    "capitals": (lambda files: {**files, "100k/NONE/manifest.json": b"{}"}, "differ by case only"),
    "planted answers": (planted, "no name for a file of a run"),
    "other answers": (
        lambda files: {**files, f"{RAG}/answers.jsonl": files["100k/none/answers.jsonl"]},
        r"answers\.jsonl: it is missing, or not what its manifest vouches for",
    ),
    "nothing to replay": (
        lambda files: {"100k/parameters.json": files["100k/parameters.json"]}, "no method that can be replayed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_writes_nothing(whole: Files, place: Path, name: str) -> None:
    change, problem = HOSTILE[name]
    archive = remade(change(whole), place.parent / "hostile.tar.zst")
    with pytest.raises(UserError, match=problem) as raised:
        verify(archive, EXAMPLE)
    said = str(raised.value)
    assert str(archive) in said and said.isprintable() and len(said) < 4_000
    assert "beamlib-replay-" not in said  # what is gone when it is read


def test_paths_in_parameters_are_nobodys(whole: Files, place: Path) -> None:
    everywhere = {
        "own_memory": f"{place.parent / 'evil'}.py:Evil", "authors": str(place.parent / "authors.yaml"),
        "run": str(place.parent), "data": "/", "memorycode": "/", "workers": 5_000, "calls": "refresh",
        "confirm_cost": True, "conversations": 0,
    }  # fmt: skip
    archive = remade(of_settings(**everywhere)(whole), place.parent / "own.tar.zst")
    assert "2 methods replayed" in verify(archive, EXAMPLE)


def mutations(files: Files, rng: random.Random) -> Files:
    """One to three random changes: of a value in a JSON file, a file, a name, some bytes."""
    odd: list[Any] = [None, True, -1, 0, 10**30, 1e308, "", "../../x", "/tmp/x", "\x1b[2J\n", "x" * 4_000, [], {}, [[]]]
    files = dict(files)
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(sorted(files))
        kind = rng.choice(["value", "value", "value", "drop", "name", "bytes", "cut", "swap"])
        if kind == "value" and name.endswith(".json"):
            try:
                value = json.loads(files[name])
                inner = value
                while isinstance(inner, dict) and inner and rng.random() < 0.8:
                    key = rng.choice(sorted(inner))
                    if not isinstance(inner[key], dict) or rng.random() < 0.3:
                        held = inner.pop(key)
                        inner.update(
                            rng.choice([{key: rng.choice(odd)}, {key: rng.choice(odd)}, {}, {f"../{key}": held}])
                        )
                        break
                    inner = inner[key]
                files[name] = signed(value) if "manifest" in name else to_json(value).encode()
            except (ValueError, AttributeError):
                continue
        elif kind == "drop" and len(files) > 1:
            del files[name]
        elif kind == "name":
            other = rng.choice([f"../{name}", name.replace("100k", "1m"), name + "x", f"100k/x/{name}"])
            files[other] = files.pop(name)
        elif kind == "bytes" and files[name]:
            data = bytearray(files[name])
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            files[name] = bytes(data)
        elif kind == "cut":
            files[name] = files[name][: rng.randrange(len(files[name]) + 1)]
        elif kind == "swap":
            files[name] = files[rng.choice(sorted(files))]
    return files


def test_mutated_archives_are_verified_or_refused(
    whole: Files, run: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay is as good as computed: its arms are those of the run, whatever an archive says of them."""

    def replayed(parameters: Any, arms: Any) -> Any:
        target = Path(parameters.run)
        assert target.is_relative_to(place)
        shutil.copytree(run / "100k", target / "100k", dirs_exist_ok=True)
        return evaluate(parameters, arms, quiet=True)

    monkeypatch.setattr("beam_run.publish.evaluate", replayed)
    rng, refused = random.Random(20), 0
    for trial in range(40):
        files = mutations(whole, rng)
        archive = remade(files, place.parent / "mutated.tar.zst")
        try:
            assert "all as published" in verify(archive, EXAMPLE), trial
        except UserError as error:
            refused += 1
            assert str(error).isprintable() and len(str(error)) < 4_000
        assert list(place.iterdir()) == []
    assert refused > 20


def test_a_replay_fetches_no_encoder_that_an_archive_names(
    whole: Files, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    asked: list[bool] = []

    def snapshot_download(name: str, *, local_files_only: bool = False, **_: object) -> str:
        asked.append(local_files_only)
        raise OSError("not in the cache")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    monkeypatch.setattr("beam_memories.transformer._need_library", lambda *_: None)
    monkeypatch.setattr("beam_run.publish._replayed", lambda *_: dense_encoder("somebody/huge-model").name)
    with pytest.raises(UserError, match="nor could it be fetched"):
        verify(remade(whole, place.parent / "crafted.tar.zst"), EXAMPLE)
    assert asked == [True] and "HF_HUB_OFFLINE" not in os.environ
