"""A fourth benchmark is one file: numbers that are told in a conversation, asked for, and checked by containment."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from beam_commands.options import BENCHMARKS
from beam_commands.task_group import task_group
from beamlib.data.conversations import Batch, Conversation, Message, Probe, Seed, Turn
from beamlib.evaluate.answering import Questions, answer_questions
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.records import ConversationRecord
from beamlib.evaluate.runner import plan_scoring, plan_task, run_task
from beamlib.evaluate.task import Task, Unit, UnitSet
from beamlib.files import sha256
from beamlib.params import load_parameters
from beamlib.report.table import Table

pytestmark = pytest.mark.usefixtures("file_in_this_process")

DOORS = {"one": {"red": "4711", "blue": "2304"}, "two": {"green": "9056"}}


class Doors(Task):
    """Which code opens which door?"""

    name, title, unit_name = "doors", "Doors", "house"
    answer = staticmethod(answer_questions)

    def units(self, parameters, *, quiet=False):
        return UnitSet([self.unit(name, doors) for name, doors in DOORS.items()])

    def unit(self, name, doors):
        texts = [f"The code of the {color} door is {code}." for color, code in doors.items()]
        turns = [Turn((Message(2 * n, "user", text), Message(2 * n + 1, "assistant", "Noted.")))
                 for n, text in enumerate(texts)]  # fmt: skip
        hashed = sha256("".join(texts))
        conversation = Conversation(name, "toy", Seed("doors", "doors"), (Batch(1, tuple(turns)),), hashed)
        probes = tuple(Probe(f"{name}-{color}", name, f"What is the code of the {color} door?") for color in doors)
        gold = {f"{name}-{color}": code for color, code in doors.items()}
        record = ConversationRecord(variant="", sha256=hashed, questions_sha256=hashed)
        return Unit(name, Questions(conversation, probes), record, gold)

    def all_arms(self):
        return [Arm(memory="none"), Arm(memory="rag", retriever="bm25", k=1)]

    def tables(self, plan):
        rows = [(arm, f"{sum(plan.units[unit].gold[a.probe_id] in (a.text or '') for a in answers) / len(answers):.2f}")
                for arm in plan.arms for unit, answers in plan.records(arm).items()]  # fmt: skip
        return {"codes": Table("Codes that were given", pd.DataFrame(rows, columns=["arm", "share"]), ())}


def add_to(app, data):
    """What the line of a benchmark in `beam_run.cli.COMMANDS` calls."""
    app.add_typer(
        task_group("doors", "Doors: codes of doors.", "none, rag", lambda place, variant: Doors()),
        name="doors",
        rich_help_panel=BENCHMARKS,
    )


def test_a_new_benchmark_has_commands_by_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beamlib.places.ROOT", tmp_path)
    app = typer.Typer()
    app.command("other")(lambda: None)  # a single command would have no name
    add_to(app, app)
    for verb in ("run", "score", "report"):
        done = CliRunner().invoke(
            app, ["doors", verb, "--data", str(tmp_path / "data"), "--name", "mine"], catch_exceptions=False
        )
        assert done.exit_code == 0, done.output
    assert "Codes that were given" in done.output and "rag-bm25-k1" in done.output
    assert (tmp_path / "runs/mine/doors/offline/rag-bm25-k1/answers.jsonl").exists()


def test_a_new_benchmark_is_one_task(repo_root: Path, tmp_path: Path) -> None:
    parameters = load_parameters(repo_root / "params/100k.yaml", data="", run=str(tmp_path), workers=1)
    plan = plan_task(Doors(), parameters, Doors().arms(parameters), quiet=True)
    run_task(plan, quiet=True)
    assert plan_task(Doors(), parameters, Doors().arms(parameters)).pending == {}
    rows = Doors().tables(plan_scoring(Doors(), parameters))["codes"].rows()
    assert [row[0] for row in rows] == ["none", "none", "rag-bm25-k1", "rag-bm25-k1"]
    assert (tmp_path / "doors/offline/rag-bm25-k1/answers.jsonl").exists()
