"""Agreement of two judges on the same answers: Cohen's kappa by task, without touching the verdicts of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from beam_field.judge_card import cohen_kappa
from beam_meme.episode_gold import SHORT, TASKS
from beam_meme.meme_judge import BY_CONTAINMENT, MemeVerdict, judge_memories
from beam_meme.meme_scoring import OVERALL
from beam_meme.task import Meme
from beamlib.errors import UserError
from beamlib.evaluate.calling import open_models
from beamlib.evaluate.records import ANSWERS, JUDGEMENTS
from beamlib.evaluate.runner import plan_scoring
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING
from beamlib.run import Run

Verdicts = Mapping[str, Mapping[str, MemeVerdict]]
"""By memory and question."""


def verdicts_on_file(task: Meme, run: Run, reader: str = "") -> Verdicts:
    """Return the verdicts that a run has, whoever judged."""
    plan = plan_scoring(task, run, reader=reader)
    found: dict[str, dict[str, MemeVerdict]] = {}
    for arm, store in plan.stores.items():
        path = store.folder / f"{JUDGEMENTS}.jsonl"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        found[arm] = {verdict.question_id: verdict for verdict in map(MemeVerdict.model_validate_json, lines)}
    if not any(found.values()):
        raise UserError(f"{plan.folder}: no answer is judged yet; run: beamlib meme score --name {run.folder.name}.")
    return found


def judge_anew(task: Meme, run: Run, reader: str = "") -> Verdicts:
    """Have the judge of `run` decide on the answers on file; its verdicts are returned and not written."""
    plan = plan_scoring(task, run, reader=reader)
    found: dict[str, dict[str, MemeVerdict]] = {arm: {} for arm in plan.stores}
    for unit in plan.units.values():
        asked = {
            arm: task.to_judge(unit, own[unit.id])
            for arm in plan.stores
            if unit.id in (own := plan.records(arm, ANSWERS))
        }
        with open_models(run, unit.id, suite=task.name) as roster:
            for arm, verdicts in judge_memories(asked, run, roster).items():
                found[arm] |= {verdict.question_id: verdict for verdict in verdicts}
    return found


def agreement_table(first: Verdicts, second: Verdicts, tasks: Mapping[str, str]) -> Table:
    """Compare two judges by task: answers that both decided on, share of equal verdicts, Cohen's kappa.

    Args:
        tasks: The task of each question, `before` for those of the first round; exact recall, which no judge decides,
            is left out.
    """
    pairs = [
        (tasks[question], own.passed, other.passed)
        for memory, verdicts in first.items()
        for question, own in verdicts.items()
        if (other := second.get(memory, {}).get(question)) is not None
        and question in tasks
        and BY_CONTAINMENT not in (own.judge, other.judge)
        and own.judge
        and other.judge
    ]
    frame = pd.DataFrame(pairs, columns=["task", "first", "second"])
    names = [*(task for task in ("before", *TASKS) if task in set(frame["task"])), OVERALL]
    rows = [_agreement(name, frame if name == OVERALL else frame[frame["task"] == name]) for name in names]
    values = pd.DataFrame(rows)
    cells = values.assign(
        task=values["task"].map(lambda name: SHORT.get(name, name)),
        **{
            name: values[name].map(lambda share: NOTHING if pd.isna(share) else f"{share:.2f}")
            for name in ("equal", "kappa")
        },
    ).astype(str)
    judges = [_judges(verdicts) for verdicts in (first, second)]
    notes = (
        f"First judge: {judges[0]}; second: {judges[1]}; the same answers of {', '.join(first)}.",
        "Left out: exact recall, which no judge decides, and answers without text. κ is – where one of the judges says "
        "the same of every answer and the other agrees.",
    )
    return Table("MEME: agreement of two judges", cells, notes, names=1, csv=values, frame=values)


def _agreement(task: str, pairs: pd.DataFrame) -> dict[str, object]:
    both = pairs.dropna()
    first, second = both["first"].to_numpy(dtype=bool), both["second"].to_numpy(dtype=bool)
    return {
        "task": task, "n": len(both), "undecided": len(pairs) - len(both), "first passes": int(first.sum()),
        "second passes": int(second.sum()), "equal": float(np.mean(first == second)) if len(both) else float("nan"),
        "kappa": cohen_kappa(first, second),
    }  # fmt: skip


def _judges(verdicts: Verdicts) -> str:
    names: Sequence[str] = sorted(
        {one.judge for own in verdicts.values() for one in own.values() if one.judge not in ("", BY_CONTAINMENT)}
    )
    return ", ".join(names)


def compare_judges(task: Meme, on_file: Run, other: Run, reader: str = "") -> Table:
    """Compare the verdicts on file with those of another judge on the same answers."""
    units = task.units(on_file).units
    tasks = {
        name: "before" if gold.phase == "before" else str(gold.task)
        for unit in units
        for name, gold in unit.gold.gold.questions.items()
    }
    return agreement_table(verdicts_on_file(task, on_file, reader), judge_anew(task, other, reader), tasks)


def count_answers(task: Meme, run: Run, reader: str = "") -> int:
    """Count the answers on file that a judge would be asked about, at most."""
    plan = plan_scoring(task, run, reader=reader)
    return sum(len(own) for arm in plan.stores for own in plan.records(arm).values())


def agreement_folder(task: Meme, run: Run, reader: str = "") -> Path:
    """Return where the table goes: beside the scores of the run."""
    return plan_scoring(task, run, reader=reader).folder / "agreement"
