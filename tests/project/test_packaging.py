"""What a fresh machine gets: environment.yml, pyproject.toml and the scripts agree."""

from __future__ import annotations

import os
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

NAMED = {
    "jupyterlab",
    "papermill",
    "openai",
    "vllm",
    "faiss-cpu",
    "sentence-transformers",
    "langchain-experimental",
    "scipy",
    "matplotlib",
    "seaborn",
}
"""The ten packages the user of this project named."""


@pytest.fixture(scope="module")
def project(repo_root: Path) -> dict[str, dict[str, object]]:
    with (repo_root / "pyproject.toml").open("rb") as handle:
        return tomllib.load(handle)


@pytest.fixture(scope="module")
def environment(repo_root: Path) -> dict[str, SpecifierSet]:
    lines = yaml.safe_load((repo_root / "environment.yml").read_text())["dependencies"]
    nested = [line for entry in lines if isinstance(entry, dict) for line in entry["pip"]]
    plain = [line for line in lines if isinstance(line, str)]
    found = [Requirement(line) for line in [*plain, *nested] if not line.startswith("--editable")]
    return {requirement.name: requirement.specifier for requirement in found}


def test_the_environment_names_the_ten_packages(environment: dict[str, SpecifierSet]) -> None:
    assert set(environment) >= NAMED


def test_bounds_agree(project: dict[str, dict], environment: dict[str, SpecifierSet]) -> None:  # type: ignore[type-arg]
    extras = [line for name, lines in project["project"]["optional-dependencies"].items() for line in lines]
    declared = {r.name: r.specifier for r in map(Requirement, [*project["project"]["dependencies"], *extras])}
    for name in NAMED - {"vllm"}:
        assert environment[name] == declared[name], name
    assert environment["python"] == SpecifierSet(project["project"]["requires-python"])


def test_the_default_install_has_no_torch_and_vllm_is_no_extra(project: dict[str, dict]) -> None:  # type: ignore[type-arg]
    default = {Requirement(line).name for line in project["project"]["dependencies"]}
    extras = {Requirement(line).name for ls in project["project"]["optional-dependencies"].values() for line in ls}
    assert not default & {"torch", "sentence-transformers", "transformers", "langchain-experimental", "vllm"}
    assert "vllm" not in extras
    assert {"models", "dev"} <= set(project["project"]["optional-dependencies"])


@pytest.mark.parametrize("python", ["3.11.9", "3.12.9", "3.13.9", "3.14.1"])
@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_the_lock_has_one_version_of_everything_within_the_bounds(
    repo_root: Path,
    project: dict[str, dict],
    python: str,
    system: str,  # type: ignore[type-arg]
) -> None:
    """Made by scripts/lock.sh, which is to be run where this fails."""
    there = {"python_version": python.rpartition(".")[0], "python_full_version": python, "sys_platform": system}
    locked: dict[str, str] = {}
    for line in (repo_root / "requirements.lock").read_text("utf-8").splitlines():
        if line and not line.lstrip().startswith("#"):
            entry = Requirement(line)
            if entry.marker is None or entry.marker.evaluate(there):
                name, (pin,) = canonicalize_name(entry.name), entry.specifier
                assert pin.operator == "==" and name not in locked, line
                locked[name] = pin.version
    own = project["project"]
    wanted = [
        Requirement(line)
        for line in (
            *own["dependencies"],
            *(line for extra in ("dev", "models") for line in own["optional-dependencies"][extra]),
        )
    ]
    assert len(wanted) > 40
    for entry in wanted:
        assert entry.specifier.contains(locked[canonicalize_name(entry.name)]), entry


def test_scripts_and_container_install_by_the_lock(repo_root: Path) -> None:
    script = (repo_root / "scripts/venv.sh").read_text()
    assert "--constraint requirements.lock" in script and "cat pyproject.toml requirements.lock" in script
    assert "source scripts/venv.sh; ensure_venv" in (repo_root / "Containerfile").read_text()


def test_binder_installs_what_run_all_does(repo_root: Path, project: dict[str, dict]) -> None:  # type: ignore[type-arg]
    lines = (repo_root / ".binder/requirements.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["--editable ."]  # without an extra
    python = (repo_root / ".binder/runtime.txt").read_text().strip().removeprefix("python-")
    assert SpecifierSet(project["project"]["requires-python"]).contains(f"{python}.0")


@pytest.mark.parametrize("script", ["run_all.sh", "run_tests.sh", ".ci/run", "scripts/venv.sh", "scripts/lock.sh"])
def test_scripts_parse_and_can_be_run(repo_root: Path, script: str) -> None:
    subprocess.run(["bash", "-n", repo_root / script], check=True)
    assert script.startswith("scripts/") or os.access(repo_root / script, os.X_OK)


def test_ci_runs_the_readmes_test_command(repo_root: Path) -> None:
    assert "./run_tests.sh" in (repo_root / ".ci/run").read_text()
    assert "./run_tests.sh" in (repo_root / "README.md").read_text()


def test_the_scripts_refuse_another_python(repo_root: Path, tmp_path: Path) -> None:
    for name in ("run_all.sh", "pyproject.toml"):
        (tmp_path / name).write_bytes((repo_root / name).read_bytes())
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/venv.sh").write_bytes((repo_root / "scripts/venv.sh").read_bytes())
    done = subprocess.run(
        ["bash", tmp_path / "run_all.sh"], env={**os.environ, "PYTHON": "/bin/false"}, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "needs Python 3.11" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_embedded_files_stay_small(repo_root: Path) -> None:
    embedded = repo_root / "beamlib/retrieval/embedded"
    assert sum(file.stat().st_size for file in embedded.rglob("*") if file.is_file()) <= 8_000_000


def test_a_release_is_one_archive_with_its_checksums(repo_root: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "--quiet", "--shared", repo_root, checkout], check=True)
    done = subprocess.run([checkout / "scripts/release.sh", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (sums,) = (tmp_path / "out").glob("*.sha256")
    assert subprocess.run(["sha256sum", "--check", "--quiet", sums.name], cwd=sums.parent).returncode == 0
    (archive,) = (tmp_path / "out").glob("*.tar.gz")
    with tarfile.open(archive) as held:
        names = {name.partition("/")[2] for name in held.getnames()}
    assert {
        "README.md",
        "CITATION.cff",
        "Containerfile",
        "requirements.lock",
        "beamlib/data/measured/retrieval.jsonl.xz",
    } <= names
    (checkout / "README.md").write_text("changed")
    done = subprocess.run([checkout / "scripts/release.sh", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 2 and "not committed" in done.stderr
