"""The examples of the paper's appendices: found in released data by id, and answered by two arms of a run."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from beam_claims.appendices import copy_conversations, examples, render
from beam_run.cli import app
from beamlib.data.published import table
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.params import load_parameters
from beamlib.run import Run

PRINTED = {
    "1M-13-q00": "Manuel", "1M-13-q02": "webinars", "1M-13-q04": "ten items", "1M-13-q06": "initial capital",
    "1M-13-q08": "upcoming quarter", "1M-13-q10": "allocated", "1M-13-q12": "banks", "1M-13-q14": "several properties",
    "1M-13-q16": "comprehensive summary", "1M-13-q19": "Mehmet", "500K-2-q06": "versions of the tools",
    "500K-28-q06": "city and country", "500K-19-q08": "mentoring", "500K-2-q11": "memory usage",
    "500K-5-q10": "Instagram", "500K-30-q18": "sourdough", "500K-32-q18": "survey plans",
}  # fmt: skip
"""A word or two of each question as the paper prints it."""


def test_all_questions_that_the_paper_prints_are_those_of_these_ids(shared: Path) -> None:
    found = [one for one in examples(shared / "data/beam_questions") if one.id != one.conversation]
    assert {one.id for one in found} == set(PRINTED) and not any(one.why for one in found)
    assert all(PRINTED[one.id] in one.question and one.rubric and one.reference for one in found)
    assert Counter(one.appendix for one in found) == {"B.6": 10, "D": 9, "F": 7}


def test_evidence_and_the_opening_of_appendix_e_come_with_chats(shared: Path) -> None:
    (opening,) = examples(shared / "data/beam_500k", "E")
    assert [role for _, role, _ in opening.messages] == ["user", "assistant"] * 2
    assert "Tweepy" in opening.messages[0][2]
    by_id = {one.id: one for one in examples(shared / "data/beam_500k", "F")}
    assert "April 5, 2024" in by_id["500K-5-q10"].reference and by_id["500K-5-q10"].messages
    assert by_id["500K-30-q18"].why.endswith("has no 500K-30")
    assert "not shown: " in render(list(by_id.values()))


def test_what_is_not_there_is_said_in_a_sentence(shared: Path, repo_root: Path, tmp_path: Path) -> None:
    example = repo_root / "beamlib/data/example"
    with pytest.raises(UserError, match=r"none of the conversations of these examples is in it \(500K-5\)"):
        examples(example, "E")
    with pytest.raises(UserError, match=r"'G'; choose one of B\.6, D, E, F"):
        examples(example, "G")
    with pytest.raises(UserError, match="has no chat, which answering needs"):
        copy_conversations(examples(shared / "data/beam_questions", "F"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def as_500k_5(repo_root: Path, tmp_path: Path) -> Path:
    """The shipped example under the name of a conversation of appendix F."""
    shutil.copytree(repo_root / "beamlib/data/example/100K/1", tmp_path / "data/500K/5")
    return tmp_path / "data"


@pytest.mark.usefixtures("in_this_process")
def test_a_run_on_the_copied_conversations_has_both_answers(
    as_500k_5: Path, tmp_path: Path, repo_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo_root)
    arguments = ["data", "appendix", str(as_500k_5), "--appendix", "F", "--out", str(tmp_path / "F")]
    said = CliRunner().invoke(app, arguments)
    assert said.exit_code == 0 and f"run ./run_all.sh --data {tmp_path / 'F'} --sizes 500k" in said.stdout
    files = [path.relative_to(as_500k_5) for path in as_500k_5.rglob("*") if path.is_file()]
    assert all((tmp_path / "F" / path).read_bytes() == (as_500k_5 / path).read_bytes() for path in files)
    with pytest.raises(UserError, match="it exists, and nothing is written over it"):
        copy_conversations(examples(as_500k_5, "F"), tmp_path / "F")
    parameters = load_parameters(
        repo_root / "params/500k.yaml", run=str(tmp_path / "run"), data=str(tmp_path / "F"), workers=1
    )
    light = Arm(memory="light", retriever="hybrid", k=5)
    evaluate(Run.of(parameters), (light, light.model_copy(update={"without": "scratchpad"})))
    shown = CliRunner().invoke(app, [*arguments[:5], "--run", str(tmp_path / "run"), "--json"])
    (example,) = [one for one in json.loads(shown.stdout) if one["id"] == "500K-5-q10"]
    assert {name.partition(" (")[0] for name in example["answers"]} == {"LIGHT", "LIGHT without scratchpad"}


def test_ids_are_those_of_the_benchmark() -> None:
    ids = table("appendix_examples")["id"]
    assert ids.str.fullmatch(r"(?:500K|1M)-\d+(?:-q[01]\d)?").all()
