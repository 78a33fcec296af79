"""Admission of the models of a run, with the judge's exam."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from beam_commands.admission import (
    Admission,
    Candidates,
    Exam,
    KnownQuestion,
    longest_of,
    minutes_line,
    minutes_of,
    tuned_endpoints,
)
from beam_commands.costs import Estimate
from beamlib.llm.admission import admission_calls
from beamlib.llm.model import Prompt
from beamlib.run import Run
from beamlib.scoring.judge_exam import JudgeExam, known_verdicts
from beamlib.scoring.replies import read_score

_VERDICT_OUT = 60
"""Expected output tokens of a verdict."""


def judges_exam(*, question: bool = True) -> Exam:
    """Return the exam of a judge that sees the question or does not."""

    def known(prompt: Prompt, score: float) -> KnownQuestion:
        return KnownQuestion(prompt, right=lambda reply: read_score(reply)[0] == score, output=_VERDICT_OUT)

    variables = {
        "question": "How many hives do I keep?", "answer": "You keep fourteen hives.",
        "nugget": "LLM response should state: fourteen hives",
    }  # fmt: skip
    verdicts = known_verdicts(question=question)
    return Exam(
        known(Prompt("judge_nugget", variables, "a criterion that is met"), 1.0),
        [known(item.prompt, item.score) for item in verdicts],
        partial(JudgeExam.of, verdicts),
    )


def candidates_of(run: Run, longest: Mapping[str, int], *, suite: str = "", judge_anyway: bool = False) -> Candidates:
    """Return the roles of `longest` in a run; `suite` is the benchmark, empty for BEAM."""
    folder, exam = run.calls_folder(suite), judges_exam(question=run.judging.question_in_prompt)
    places = folder.parent, folder, run.prompt_files
    return Candidates(run.endpoints, longest, *places, run.calls, run.recording_command, exam, judge_anyway)


def admit(run: Run, estimate: Estimate, *, suite: str = "", judge_anyway: bool = False) -> list[str]:
    """Ask the roles that a confirmed run will call, and say in a few lines what their replies show.

    Raises:
        UserError: A role answers none of its questions, reads less of a request than it is sent, or its judge fails.
    """
    longest = longest_of(estimate)
    admission = Admission(candidates_of(run, longest, suite=suite, judge_anyway=judge_anyway)).ask()
    tuned = run_as_measured(run, longest)
    minutes = minutes_line(minutes_of(estimate, tuned.endpoints, admission.calls))
    return [*admission.lines(), *filter(None, [minutes])]


def run_as_measured(run: Run, longest: Mapping[str, int], *, judge_anyway: bool = False) -> Run:
    """Return the run with the concurrency, time-outs and batches that follow from its stored admissions."""
    tuned = tuned_endpoints(run.endpoints, longest, admission_calls(run.calls_folder().parent))
    return run.served(tuned, judge_anyway=judge_anyway)


def admit_and_tune(run: Run, estimate: Estimate, *, suite: str = "", judge_anyway: bool = False) -> Run:
    """Print what `admit` says and return the run with the settings that follow from it."""
    for line in admit(run, estimate, suite=suite, judge_anyway=judge_anyway):
        print(f"  {line}", flush=True)
    return run_as_measured(run, longest_of(estimate), judge_anyway=judge_anyway)
