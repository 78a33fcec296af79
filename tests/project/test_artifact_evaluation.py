"""ARTIFACT-EVALUATION.md and CITATION.cff: the commands run, and print what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from beamlib.report.released import BEST, ReleasedRecall
from commands import Call


def commands(repo_root: Path) -> list[list[str]]:
    text = (repo_root / "ARTIFACT-EVALUATION.md").read_text("utf-8")
    block = re.search(r"## Kick the tires.*?```bash\n(.*?)```", text, re.DOTALL)
    assert block
    return [shlex.split(line) for line in block.group(1).splitlines()]


@pytest.mark.slow
def test_the_first_commands_run_and_print_what_the_page_says(
    repo_root: Path, called: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = re.sub("<!--.*?-->", "", (repo_root / "ARTIFACT-EVALUATION.md").read_text("utf-8"))
    figures, claims, evidence, errata, main_job = commands(repo_root)
    assert main_job[:2] == ["./run_all.sh", "--sizes"]  # the main job itself has its tests
    monkeypatch.chdir(repo_root)
    printed = {}
    for program, *arguments in (figures, claims, evidence, errata):
        done = called(*["run-all"] * (program == "./run_all.sh"), *arguments)
        assert done.returncode == 0, done.stderr
        printed[arguments[0]] = done.stdout
    assert printed["claims"].strip().splitlines()[-1].strip() in page.replace("`", "")
    stated = re.search(r"`hybrid` (\.\d{3}) \(K = 5\) and (\.\d{3}) \(K = 15\) at 100K", page)
    assert stated and all(f"0{value}" in printed["evidence"] for value in stated.groups())
    listed = len(re.findall(r"^\| \d+[KM]-\d+-q", printed["data"], re.MULTILINE))
    assert listed > 190 and f" prints {listed} questions with known defects" in page
    for number in (3, 4):
        assert f"figure{number}_released.png" in printed["--figures"]
    for number in (3, 4, 5):
        assert (repo_root / f"figures/published/figure{number}_released.csv").is_file()


def test_the_citation_is_whole(repo_root: Path) -> None:
    citation = yaml.safe_load((repo_root / "CITATION.cff").read_text("utf-8"))
    assert citation["preferred-citation"]["url"].endswith("2510.27246")
    assert {"cff-version", "message", "title", "authors", "license", "version"} <= citation.keys()


def test_the_readme_states_what_is_measured(repo_root: Path) -> None:
    """The sentence on Figure 4's question: what more pairs bring, with intervals, and the best choice of five."""
    text = " ".join(re.sub("<!--.*?-->", "", (repo_root / "README.md").read_text("utf-8")).split())
    released = ReleasedRecall()
    for row in released.gains([5, 15]).to_dict("records"):
        mean, low, high = (f"{row[name]:.2f}".lstrip("0") for name in ("mean", "low", "high"))
        assert f"{mean} at {row['size']}" in text
        assert f"{low} to {high}" in text
    best = released.table("", [BEST], ks=[5]).records()
    shown = " and ".join(f"{row['mean']:.2f}".lstrip("0") for row in best if row["size"] in ("100K", "500K"))
    assert f"five pairs would hold {shown}:" in text
