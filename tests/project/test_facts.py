"""Prose states what the facts say, and no measured value without a mark or a dated measurement with its command."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from beam_run.facts import load_facts, marked_files
from beam_run.first_memory import FIRST_MEMORY
from beamlib.data.errata import load_errata
from beamlib.errors import UserError
from beamlib.report import facts
from beamlib.report.facts import fact_text, fill_files, fill_marks, known_facts, unmarked_values
from commands import Call

DATE = re.compile(r"\b2026-\d\d-\d\d\b")
COMMAND = re.compile(r"`(?:python|pytest|beamlib|\.venv/bin/\w+|find) [^`]*`|script in commit `[0-9a-f]{7,}`")
SCRIPT = re.compile(r"\b(?:benchmarks|scripts|tests)/[\w/]+\.(?:py|sh)\b")


@pytest.fixture(autouse=True)
def _registered() -> None:
    load_facts()


def test_prose_says_what_the_facts_say() -> None:
    files = marked_files()
    assert {path.name for path in files} >= {"README.md", "ARTIFACT-EVALUATION.md", "measurements.md", "00_paper.ipynb"}
    assert list(fill_files(files, write=False)) == []


def test_another_errata_list_makes_prose_drift(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorter = load_errata().model_copy(update={"entries": load_errata().entries[1:]})
    monkeypatch.setattr(facts, "load_errata", lambda: shorter)
    changed = [path.name for path in fill_files([repo_root / "README.md"], write=False)]
    assert changed == ["README.md"]


def test_notebooks_state_what_the_facts_say(repo_root: Path, tmp_path: Path) -> None:
    for name, mark in (("00_paper", "claims.hold"), ("12_field", "field.runs")):
        (copy := tmp_path / f"{name}.ipynb").write_text(
            re.sub(
                rf"(<!-- fact: {mark} -->)\d+", r"\g<1>999", (repo_root / f"notebooks/{name}.ipynb").read_text("utf-8")
            )
        )
        assert list(fill_files([copy], write=True)) == [copy]
        assert copy.read_bytes() == (repo_root / f"notebooks/{name}.ipynb").read_bytes()


def test_another_measurement_makes_prose_drift(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = facts.ReleasedRecall(facts.ReleasedRecall().measurements[:-1])
    monkeypatch.setattr(facts, "_released", lambda: released)
    facts._scored.cache_clear()
    try:
        pages = [repo_root / "README.md", repo_root / "docs" / "measurements.md"]
        assert list(fill_files(pages, write=False)) == pages
    finally:
        facts._scored.cache_clear()


@pytest.mark.parametrize("page", ["README.md", "ARTIFACT-EVALUATION.md"])
def test_no_measured_value_stands_without_a_mark(repo_root: Path, page: str) -> None:
    assert unmarked_values((repo_root / page).read_text("utf-8")) == []


def test_measurements_without_a_mark_have_a_date_and_a_command(repo_root: Path) -> None:
    text = (repo_root / "docs" / "measurements.md").read_text("utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        if unmarked_values(section):
            assert DATE.search(section) and COMMAND.search(section), section.partition("\n")[0]
        for line in section.splitlines():
            for script in SCRIPT.findall(line):
                assert (repo_root / script).exists() or "at commit `" in line, f"{script} does not exist"


@pytest.mark.parametrize(
    "text",
    ["LIGHT has .625.", "recall of 0.625", "12.7 % of them", "91 % pass", "146 are listed", "72 hold", "4,830 verdicts",
     "```\n│ rag │ 0.396 (n = 1) │\n```", "| RAG | .630 |", "off by -.163 on it", "17 published runs"],
)  # fmt: skip
def test_measured_values_are_known_by_their_look(text: str) -> None:
    assert unmarked_values(text)
    assert not unmarked_values(f"<!-- fact: errata.listed -->{text}<!-- -->")


@pytest.mark.parametrize(
    "text",
    ["Python 3.11 to 3.14", "arXiv 2510.27246", "the 100K conversations", "95 % intervals", "on 2026-11-26",
     "notebooks 00 to 13", "04 probing questions", "Llama 3.1 8B", "CC BY-SA 4.0", "2 GB: 200 MB for a run",
     "5 min", "Table 10", '"3.5 %"', "`--k 5,15`", "[page](docs/x.md#a-0.5)"],
)  # fmt: skip
def test_ordinary_numbers_are_none(text: str) -> None:
    assert unmarked_values(text) == []


def test_every_fact_says_what_it_is(repo_root: Path) -> None:
    for fact in known_facts():
        assert fact.definition.endswith("."), fact.name
        assert (repo_root / fact.source).exists(), fact.source
        assert fact.unit and fact.command
        for example in fact.examples:
            assert fact_text(f"{fact.name} {example}")


@pytest.mark.parametrize(
    ("call", "said"),
    [("no.such", "does not exist"), ("recall rag", "missing a"), ("recall rag hybrid 2M 5", "was not measured"),
     ("recall rag hybrid 100K 31", "1 to 30"), ('recall interval "best possible" hybrid 100K 5', "no interval")],
)  # fmt: skip
def test_a_wrong_mark_says_so(call: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        fill_marks(f"<!-- fact: {call} -->1<!-- -->")


@pytest.mark.parametrize(
    "mark",
    ["<!-- fact: errata.listed -->239", "<!--fact: errata.listed-->239<!-- -->", "<!-- fact errata -->239<!-- -->"],
)
def test_a_mark_that_would_check_nothing_is_an_error(tmp_path: Path, mark: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{mark} of them, text that stays, <!-- fact: errata.listed -->1<!-- -->\n")
    with pytest.raises(UserError, match=r"page\.md: fact: .* is no mark"):
        list(fill_files([page], write=True))
    assert "text that stays" in page.read_text("utf-8")


def test_the_command_prints_and_checks(called: Call) -> None:
    assert called("facts", "errata.listed").stdout.strip() == str(len(load_errata().entries))
    assert called("facts", "--check").returncode == 0
    assert "errata.listed: " in called("facts").stdout


@pytest.mark.slow
def test_the_memory_of_the_readme_gives_what_is_recorded(repo_root: Path, tmp_path: Path, called: Call) -> None:
    readme = (repo_root / "README.md").read_text("utf-8")
    code = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert code
    (tmp_path / "mine.py").write_text(code[1])
    words = ("--data", "beamlib/data/example", "--memory", f"{tmp_path}/mine.py:Newest", "--name", "test-first-memory")
    try:
        printed = called("run-all", *words).stdout
        for row in FIRST_MEMORY.read_text("utf-8").splitlines()[1:]:
            assert re.search(r"\s+".join(map(re.escape, row.split(","))), printed), row
    finally:
        shutil.rmtree(repo_root / "runs" / "test-first-memory", ignore_errors=True)
        shutil.rmtree(repo_root / "figures" / "test-first-memory", ignore_errors=True)
