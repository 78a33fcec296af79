"""Begin a notebook: its parameters, its conversations, and the cost of what it would call."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from beam_run import FIELD_PART, SUITE_NOTEBOOKS
from beam_run.plugins import register_packages
from beamlib.evaluate.arms import arms_of
from beamlib.evaluate.beam_records import Evaluation
from beamlib.files import make_folder, sha256, to_json
from beamlib.llm.endpoints import load_models
from beamlib.llm.exchange import OFFLINE_NAME
from beamlib.params import OF_GENERATION, parameter_cell
from beamlib.places import ROOT
from beamlib.report.workspace import Workspace, finished_conversations, of_run, open_workspace, parse_cell
from beamlib.run import PUBLISHED, TRIALS, Run

_WITHOUT_EFFECT = frozenset({"run", "workers", "calls", "confirm_cost", "backbone"})
"""Parameters that change no number of a notebook; the part of the run folder is named after the backbone."""


def begin(values: Mapping[str, Any], notebook: str = "", *experiments: str) -> Workspace:
    """Open a notebook's workspace: pass `globals()`, its name, and the experiments of the run that it shows.

    A notebook that shows experiments has conversations: those in `data`, else those of the run folder; missing ones are
    generated now. What the experiments would call is printed before the first cell that calls.

    With other parameters than those of the run's own copy of `notebook`, this is a trial: it is written to
    `<run>/trials/<notebook>-<hash>/`, and the run stays as it was.
    """
    register_packages()
    work = open_workspace(values)
    work.evaluate = _evaluate
    if not work.run.resolve().is_relative_to(ROOT) and not work.run.resolve().is_relative_to(Path.cwd()):
        print(f"run folder: {work.run.resolve()}")
    work.parameters = _of_trial(work.parameters, notebook)
    if not experiments:
        return work
    work.parameters = _with_conversations(work.parameters)
    if not work.parameters.models_file:
        print(f"reader, memory and judge: {OFFLINE_NAME}; nothing is called and nothing is paid")
        return work
    from beam_commands.estimate import estimate

    print(estimate(work.parameters, arms_of(work.parameters, experiments), quiet=True).render())
    work.say_unconfirmed()
    return work


def _evaluate(run: Run, experiment: str) -> Evaluation:
    from beamlib.evaluate.run import evaluate_experiment  # whoever only looks at what is on file runs no runner

    return evaluate_experiment(run, experiment)


def _of_trial(parameters: Run, notebook: str) -> Run:
    """Return parameters that write to a trial's folder where they differ from those of the run's copy of `notebook`.

    A trial reads the conversations of the run unless it changes how they are generated, and begins with a copy of the
    calls that the run has stored.
    """
    run = Path(parameters.run)
    if not notebook or not (run / "notebooks").is_dir():
        return parameters
    copies = (run / "notebooks" / part / f"{notebook}.ipynb" for part in (parameters.part, *_NO_TIER))
    copy = next((path for path in copies if path.exists()), None)
    if copy is None:
        return parameters
    ours, theirs = _with_effect(parameters), _with_effect(Run.of(parse_cell(parameter_cell(copy))))
    if not parameters.data and not parameters.conversations:
        theirs["conversations"] = 0  # as many as the run has
    changes = {name: value for name, value in ours.items() if value != theirs[name]}
    if not changes:
        return parameters
    trial = run / TRIALS / f"{notebook}-{sha256(to_json(changes))[:8]}"
    changed = ", ".join(f"{name}={parameters.given[name]!r}" for name in changes)
    print(f"a trial, as the run has other values of: {changed}; written to {trial.as_posix()}, the run stays as it is")
    for store in sorted((run / "calls").glob("*/*.sqlite")) if parameters.models else ():
        target = make_folder(trial / "calls" / store.parent.name) / store.name
        if not target.exists():  # no call is paid for twice
            unfinished = target.with_suffix(".copy")
            unfinished.unlink(missing_ok=True)
            with closing(sqlite3.connect(store)) as old, closing(sqlite3.connect(unfinished)) as new:
                old.backup(new)
            unfinished.replace(target)
    data = parameters.data
    if not data and parameters.generated.is_dir() and not changes.keys() & {*OF_GENERATION}:
        parameters = of_run(parameters)
        data = parameters.generated.as_posix()
    return parameters.model_copy(update={"run": trial.as_posix(), "data": data})


_NO_TIER = (PUBLISHED, FIELD_PART, *SUITE_NOTEBOOKS)


def _with_effect(run: Run) -> dict[str, Any]:
    """Return the values that a notebook's numbers rest on; the run's own conversations are its usual data.

    Models and prompts count by their content: the run's copy of a notebook names the files that the run kept.
    """
    values = {name: value for name, value in run.given.flat().items() if name not in _WITHOUT_EFFECT}
    values["models"] = run.models_file.model_dump(mode="json") if run.models_file else ""
    values["prompts"] = run.prompt_files.hashes(run.prompt_files.overridden)
    values["authors"] = load_models(Path(run.generation.authors)).model_dump(mode="json") if values["authors"] else ""
    return values | ({"data": ""} if run.data == run.generated.as_posix() else {})


def _with_conversations(parameters: Run) -> Run:
    if parameters.data:
        return parameters
    parameters = of_run(parameters)
    if finished_conversations(parameters) < parameters.conversations:
        from beam_generate.of_run import GenerationOfRun, config_of

        generation = GenerationOfRun([parameters], {parameters.size: parameters.conversations}, config_of(parameters))
        if costs := generation.estimate():
            print(costs.render())
        generation.make()
    return parameters.model_copy(update={"data": parameters.generated.as_posix()})
