"""Run the steps of the main job: conversations, evaluation, notebooks, page.

Each step can run alone with the same options: it plans the whole job and does its own pending part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import shorten

from rich.text import Text
from tqdm import tqdm

from beam_commands.confirmation import console
from beam_commands.cost_table import costs_in_words
from beam_commands.estimate import start_estimate
from beam_commands.run_admission import admit_and_tune
from beam_run import (
    EVALUATION,
    FIELD_NOTEBOOKS,
    FIELD_PART,
    GENERATION,
    MAIN_NOTEBOOK,
    PAPER_NOTEBOOKS,
    SUITE_NOTEBOOKS,
)
from beam_run.executing import Work, execute_all, preflight
from beam_run.job import MainJob, RunPlan, confirm, plan
from beam_run.shown_tasks import Suite, recording_command, study_of
from beamlib.data.conversations import slice_in_words
from beamlib.errors import UserError
from beamlib.evaluate.arms import configuration_of_run
from beamlib.evaluate.beam_records import Evaluation
from beamlib.evaluate.kept_settings import keep_settings, kept_files
from beamlib.evaluate.run import evaluation_of
from beamlib.evaluate.runner import run_task
from beamlib.evaluate.task import refuse_unscored
from beamlib.files import temporary_folder
from beamlib.llm.endpoints import MODELS
from beamlib.llm.model import OFFLINE_NAME
from beamlib.llm.spending import guard_run
from beamlib.params import RunParameters
from beamlib.places import PARAMS, from_root
from beamlib.processes import one_cluster
from beamlib.run import PUBLISHED, Run
from beamlib.scoring.scores import score_run, unscored_reasons
from beamlib.text import count

CHECK = "check"
AUTHORS = "authors"
"""The parameter, and the folder of a run that keeps the models file of those who write its conversations."""


def run(job: MainJob, step: str = "") -> None:
    """Run one step of the job, or all of them.

    First the plan and its cost are printed and confirmed. Nothing is sent, or written into the run folder, until then.
    The step `check` ends after that.
    """
    if step not in ("", CHECK, *STEPS):
        raise UserError(f"--step: {step!r:.80} does not exist; choose one of {', '.join((CHECK, *STEPS))}.")
    with temporary_folder("beamlib-run-all-") as place:
        planned = plan(job, place)
        _announce(job, planned)
        confirmed = confirm(planned, place)
        models = planned.runs[0].models_file
        saved = str(models.save(planned.folder)) if models and job.endpoints.base_url else ""
    planned = planned.agreed(confirmed, saved)
    unscored: list[str] = []
    with guard_run(planned.folder, models, planned.authors, calls=planned.runs[0].calls):
        for name, work in STEPS.items():
            if step in ("", name):
                unscored += work(job, planned) or ()
    refuse_unscored(unscored, planned.folder)


def _announce(job: MainJob, planned: RunPlan) -> None:
    """Print the steps of the plan and who is called in each."""
    configurations = dict.fromkeys(map(configuration_of_run, planned.runs))
    console.print(
        Text("Main job", "bold"), f"into {from_root(planned.folder)}/, configuration: {' | '.join(configurations)}"
    )
    for number, step in enumerate(_to_do(job, planned), start=1):
        console.print(f"  {number}. {step}")
    if planned.runs[0].generation.authors and not planned.generated:
        where = planned.runs[0].data
        console.print(f"     conversations are those of {where}: none is written, and authors are not asked")
    for line in preflight(PARAMS):
        console.print(f"     parameters {line}", style="dim")


def _to_do(job: MainJob, planned: RunPlan) -> Iterator[str]:
    if planned.generation:
        what = ", ".join(f"{number} of {size}" for size, number in planned.conversations.items())
        yield f"generate conversations, written by {planned.generation.config.names}: {what}"
    for run in planned.runs:
        available = planned.conversations[run.size]
        counted = count(min(available, job.conversations or available), "conversation")
        roles = run.endpoints
        by = f"reader {roles['reader'].model}, judge {roles['judge'].model}" if roles else OFFLINE_NAME
        asked = slice_in_words(run.chat.per_ability)
        counted += f", questions: {asked}" if asked else ""
        yield f"{run.label}: {counted}, all memories answer and are judged ({by})"
    yield from (suite.announcement for suite in planned.suites[1:])
    others = ", ".join(suite.title for suite in planned.suites[1:])
    yield f"{len(_notebooks_of(planned))} notebooks: published values, each tier, {others}; figures and page"


def conversations(job: MainJob, planned: RunPlan) -> None:
    """Generate the missing conversations."""
    if planned.generation is None:
        console.print(f"  conversations of {planned.runs[0].data}: none is written")
        return
    if planned.authors:
        planned.authors.save(planned.folder / AUTHORS)
    started = time.monotonic()
    new, all_of_them = planned.generation.make()
    took = f"{time.monotonic() - started:.0f} s"
    there = "" if new == all_of_them else ", the others were there"
    console.print(f"  generated {new} of {all_of_them} conversations in {took}{there}")


def evaluation(job: MainJob, planned: RunPlan) -> list[str]:
    """Answer and judge each tier with all memories, then evaluate the other benchmarks.

    Returns:
        The arms that were asked and have no scored answer, with the tier or benchmark.
    """
    unscored: list[str] = []
    with one_cluster():
        for suite in planned.suites:
            unscored += evaluate_suite(suite)
    return unscored


def evaluate_suite(suite: Suite) -> list[str]:
    """Answer and judge what a benchmark asks, in all its runs; return the arms without a scored answer."""
    return [failed for run in suite.asked for failed in _evaluate(suite, run)]


def _evaluate(suite: Suite, run: Run) -> Iterator[str]:
    beam = suite.name == "beam"
    if beam:
        start_estimate(run)
    for variant, asked in study_of(suite.name).shown_plans(run).items():
        label = suite.label(run, variant)
        console.print(f"\n{label}", style="bold")
        if suite.admission and asked.pending and run.calls != "replay" and (estimated := suite.estimated.get(label)):
            tuned = admit_and_tune(run, estimated, suite=asked.task.name, judge_anyway=suite.judge_anyway)
            asked = replace(asked, run=tuned)
        started = time.monotonic()
        run_task(asked, command="" if beam else recording_command(asked, suite.settings))
        asked.task.finish(asked)
        if beam:
            keep_settings(run)
        if beam and run.models_file and (costs := costs_in_words(run)):
            print(costs)
        failed = asked.without_answer()
        outcome = f"no scored answer of {', '.join(failed)}, after" if failed else "answered and judged in"
        console.print(f"  {outcome} {time.monotonic() - started:.0f} s (what was on file is not redone)")
        for line in unscored_lines(evaluation_of(asked)) if beam else ():
            console.print(f"  {line}", style="red", markup=False)
        yield from (f"{label}, {name}" for name in failed)


def unscored_lines(evaluated: Evaluation) -> Iterator[str]:
    """Yield a line for each arm with unscored answers, how many and why, examples, and other doubts."""
    examples: dict[str, None] = {}
    for name, judgements in evaluated.judgements.items():
        scores = score_run(judgements, evaluated.run.judging.protocol)
        if reasons := unscored_reasons(scores):
            why = ", ".join(f"{number:,} {reason}" for reason, number in reasons.items())
            examples[shorten(str(scores.loc[scores["unscored"] != "", "unscored"].iloc[0]), 300)] = None
            yield f"{name}: {sum(reasons.values()):,} of {len(scores):,} unscored ({why})"
    yield from (f"unscored, for example: {example}" for example in list(examples)[:3])
    yield from filter(None, (evaluated.truncation, evaluated.answerers))


def _notebooks_of(planned: RunPlan) -> list[Work]:
    """List all notebooks of the run: on published values, on each tier, on the other benchmarks."""
    folder = planned.folder / "notebooks"
    published = planned.published
    names = (*GENERATION, *EVALUATION) if planned.generated else EVALUATION
    work: list[Work] = [(name, _shown(published), folder / PUBLISHED) for name in PAPER_NOTEBOOKS]
    work += [(name, _shown(published), folder / FIELD_PART) for name in FIELD_NOTEBOOKS]
    authors = planned.folder / AUTHORS / MODELS
    written = {AUTHORS: str(authors)} if planned.authors and authors.exists() else {}
    work += [
        (name, _shown(run.given.model_copy(update=kept_files(run, run.path()) | written)), folder / run.part)
        for run in planned.runs
        for name in names
    ]
    for suite in planned.suites[1:]:
        kept = kept_files(suite.shown, planned.folder / suite.name)
        work.append((suite.notebook, _shown(suite.shown.given.model_copy(update=kept)), folder / suite.name))
    return work


def _shown(parameters: RunParameters) -> RunParameters:
    """Return parameters for the notebooks, which replay only; paths are as typed in the repository."""
    changes: dict[str, object] = {"calls": "replay"} if parameters.models or parameters.generation.authors else {}
    places = {name: from_root(found) for name in ("data", "run") if (found := parameters[name])}
    return parameters.model_copy(update={**changes, **places, "confirm_cost": False})


def notebooks(job: MainJob, planned: RunPlan) -> None:
    """Execute the notebooks concurrently; they do not depend on one another."""
    for run in planned.runs if planned.generated else ():
        _ensure_made(run.generated / run.size, "conversations")
    first = (*SUITE_NOTEBOOKS, *PAPER_NOTEBOOKS, MAIN_NOTEBOOK)  # the longest
    work = sorted(_notebooks_of(planned), key=lambda item: first.index(item[0]) if item[0] in first else len(first))
    started = time.monotonic()
    max_concurrency = min(max(item.workers for _, item, _ in work), len(work))
    with tqdm(total=len(work), desc="notebooks", unit="notebook", disable=None) as bar:
        for page in execute_all(work, max_concurrency):
            bar.set_postfix_str(f"{page.parent.name}/{page.stem}")
            bar.update()
    console.print(f"  {len(work)} notebooks in {time.monotonic() - started:.0f} s")


def _ensure_made(place: Path, step: str) -> None:
    if not place.exists():
        raise UserError(f"{from_root(place)}: not made yet; run --step {step} first, or all steps without --step.")


def page(job: MainJob, planned: RunPlan) -> None:
    """Join the tiers' tables and figures and write the page."""
    from beam_run.together import put_together  # with pandas and matplotlib, which no other step needs

    for run in planned.runs:
        _ensure_made(planned.folder / "tables" / run.part / "table1_main_results.csv", "notebooks")
    put_together(job.name, planned)


STEPS: Mapping[str, Callable[[MainJob, RunPlan], list[str] | None]] = {
    "conversations": conversations,
    "evaluate": evaluation,
    "notebooks": notebooks,
    "page": page,
}
"""The steps by the names that `--step` takes, in order."""
