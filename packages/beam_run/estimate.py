"""Estimate what a run would call and cost, by stage and role, before any call is made.

The estimate is a rehearsal (`beam_run.dry_run`). Stored calls cost nothing. The offline stand-in replies to pending
ones, so the size of prompts that depend on those is estimated, and so is the number of noise filter calls, one per
chunk of the notes. Tests compare the number of calls with those of a real run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError
from tqdm import tqdm

from beam_run.adapter_calls import WHY, count_adapters
from beam_run.costs import (
    Estimate,
    OutputRule,
    PendingRow,
    RoleFacts,
    place,
    realised,
    stage_of,
    stored_totals,
)
from beam_run.dry_run import ELSE_EXPECTED, EXPECTED, CallTally, Counts, DryRun, EstimatingModel, Largest, Step
from beamlib.errors import UserError
from beamlib.evaluate.answering import Questions
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.calling import ResolvedParameters, calls_folder, endpoints, model_roles, run_path
from beamlib.evaluate.run import plan_run
from beamlib.evaluate.runner import Rehearsal, rehearsals
from beamlib.evaluate.task import TaskPlan, arm_name
from beamlib.files import read_json, write_json
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Model, ModelRoles
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.stored_model import CallStore
from beamlib.params import ADAPTERS, RunParameters
from beamlib.processes import process_pool

ENOUGH = 20
"""Stored replies of a step from which on their mean replaces the expected length."""


def estimate(parameters: RunParameters, arms: Sequence[Arm], *, quiet: bool = False) -> Estimate:
    """Rehearse what is pending for `arms` over all conversations of the run; nothing is called or written."""
    if not parameters.models:
        return Estimate(size=parameters.size, backbone="", conversations=0, arms=tuple(arm.name for arm in arms))
    return estimate_plan(plan_run(parameters, arms, quiet=quiet), quiet=quiet)


def estimate_plan(plan: TaskPlan, *, quiet: bool = False) -> Estimate:
    """Rehearse what is pending in a plan, of any task, with models that call nobody.

    The user's own memory is rehearsed as if it recalled like BM25; calls of its own code are not included. Calls of an
    adapter are counted by a rule (`beam_run.adapter_calls`).
    """
    task, parameters = plan.task, plan.parameters
    label = task.name or parameters.size
    names = tuple(plan.arms)
    if not parameters.models:
        return Estimate(size=label, backbone="", conversations=0, arms=names)
    pending = rehearsals(plan)
    own = [arm for arm in plan.arms.values() if task.memory(arm) == "own"]
    by_rule = parameters.own_memory in ADAPTERS
    expected = stored_means(parameters)
    tally = CallTally()
    for part in _rehearsed([(rehearsal, expected) for rehearsal in pending], parameters, label, quiet=quiet):
        tally.add(part)
    return summary(
        parameters,
        names,
        tally,
        expected,
        conversations=len(plan.pending),
        own=() if by_rule else tuple(arm_name(arm) for arm in own),
        suite=task.name,
    )


_Todo = tuple[Rehearsal, Mapping[Step, float]]


def _rehearsed(jobs: Sequence[_Todo], parameters: RunParameters, label: str, *, quiet: bool) -> Iterator[CallTally]:
    title = f"{label}: counting calls"
    with tqdm(total=len(jobs), desc=title, disable=quiet or None, leave=False, delay=2) as bar:
        if min(parameters.workers, len(jobs)) <= 1:
            for job in jobs:
                yield _rehearse(*job)
                bar.update()
            return
        with process_pool(min(parameters.workers, len(jobs))) as pool:
            for future in [pool.submit(_rehearse, *job) for job in jobs]:  # in order: sums are the same every time
                yield future.result()
                bar.update()


def _rehearse(rehearsal: Rehearsal, expected: Mapping[Step, float]) -> CallTally:
    """Rehearse one unit, in a worker process."""
    unit, parameters = rehearsal.unit, rehearsal.parameters
    with rehearsed_roster(parameters, unit.id, expected, rehearsal.task.name) as (roster, tally):
        rehearsal.perform(roster)
        if isinstance(unit.asked, Questions):
            arms = tuple(arm for arm in rehearsal.answering if isinstance(arm, Arm))
            count_adapters(tally, arms, unit.asked.conversation, len(unit.asked.probes), parameters, expected)
    return tally


@contextmanager
def rehearsed_roster(
    parameters: ResolvedParameters,
    conversation: str,
    expected: Mapping[Step, float],
    suite: str = "",
) -> Iterator[tuple[ModelRoles, CallTally]]:
    """Open models that call nobody, as `open_models` opens real ones, and the tally of their calls."""
    prompts = Path(parameters.prompts) if parameters.prompts else None
    roles = endpoints(parameters)
    with CallStore(calls_folder(parameters, suite) / f"{conversation}.sqlite", read_only=True) as store:
        counter, refresh = parameters.counter, parameters.calls == "refresh"
        rehearsal = DryRun(conversation, store, expected=expected, refresh=refresh, counter=counter)
        models: dict[str, Model] = {
            role: RetryingModel(EstimatingModel(role, EndpointModel(role, endpoint, prompts=prompts), rehearsal))
            for role, endpoint in roles.items()
        }
        yield model_roles(models), rehearsal.tally


def summary(
    parameters: RunParameters,
    arms: tuple[str, ...],
    tally: CallTally,
    expected: Mapping[Step, float],
    *,
    conversations: int,
    own: Sequence[str] = (),
    suite: str = "",
) -> Estimate:
    """Build the estimate from a `tally`. `own` are the arms with a memory of the user's own."""
    roles = endpoints(parameters)
    facts = [_facts(role, roles[role], tally, parameters) for role in roles]
    rows = [_pending_row(step, roles[step[0]], counts) for step, counts in tally.steps.items()]
    return Estimate(
        size=suite or parameters.size,
        backbone=parameters.backbone,
        conversations=conversations,
        arms=arms,
        rows=tuple(sorted(rows, key=place)),
        roles=tuple(facts),
        rules=tuple(_rule(row, roles[row.role], expected, parameters) for row in sorted(rows, key=place) if row.calls),
        warnings=tuple(_warnings(facts, own, parameters)),
        before=() if parameters.calls == "refresh" else tuple(realised(parameters, suite)),
    )


def _facts(role: str, endpoint: Endpoint, tally: CallTally, parameters: RunParameters) -> RoleFacts:
    largest = tally.largest.get(role, Largest())
    return RoleFacts(
        role=role,
        model=endpoint.model,
        counter=parameters.token_counter,
        context_window=endpoint.context_window,
        max_output_tokens=endpoint.max_output_tokens,
        largest_input=largest.tokens,
        largest_about=largest.about,
    )


def _pending_row(step: Step, endpoint: Endpoint, counts: Counts) -> PendingRow:
    output = round(counts.output)
    return PendingRow(
        stage=stage_of(*step),
        role=step[0],
        step=step[1],
        model=endpoint.model,
        calls=counts.pending,
        held=counts.held,
        input_tokens=counts.input,
        cached_tokens=counts.cached,
        output_tokens=output,
        dollars=endpoint.dollars(counts.input, counts.cached, output),
    )


def _rule(row: PendingRow, endpoint: Endpoint, expected: Mapping[Step, float], parameters: RunParameters) -> OutputRule:
    known = expected.get((row.role, row.step))
    if known is not None:
        tokens, rule = known, "mean of this run's stored replies"
    elif "/" in row.step:  # of an adapter
        tokens, rule = row.output_tokens / row.calls, f"expected: {WHY}"
    elif row.step == "scratchpad_compress":
        tokens, rule = float(parameters.scratchpad_target), "expected: the length it is asked for"
    else:
        tokens, why = EXPECTED.get(row.step, ELSE_EXPECTED)
        rule = f"expected: {why}"
    limit = endpoint.max_output_tokens
    if limit is not None and tokens > limit:
        tokens, rule = limit, f"{rule}, cut to max_output_tokens"
    return OutputRule(role=row.role, step=row.step, tokens=round(tokens, 1), rule=rule)


def _warnings(facts: Sequence[RoleFacts], own: Sequence[str], parameters: RunParameters) -> Iterator[str]:
    for fact in facts:
        if not fact.fits:
            reply = f"with {fact.max_output_tokens:,} for the reply " if fact.max_output_tokens else ""
            yield (
                f"The {fact.role}'s longest request ({fact.largest_about}) has {fact.largest_input:,} tokens, which "
                f"{reply}do not fit into the {fact.context_window:,} of {fact.model}; lower the budget that fills it, "
                "or name an endpoint with a larger context_window."
            )
    for name in own:
        yield (
            f"{name} is your own memory: it was rehearsed as if it recalled like BM25 with k = {parameters.k}, "
            "and what its own code may call is not in the estimate; --max-cost bounds it."
        )


def stored_means(parameters: RunParameters) -> dict[Step, float]:
    """Average the output tokens by role and step over all tiers of the run, where enough replies are stored."""
    roles = endpoints(parameters)
    means = {}
    for totals in stored_totals(sorted((Path(parameters.run) / "calls").glob("*"))):
        replies = totals.calls - totals.failures
        if totals.role in roles and totals.model == roles[totals.role].model and replies >= ENOUGH:
            means[totals.role, totals.step] = totals.output_tokens / replies
    return means


def estimate_path(parameters: RunParameters) -> Path:
    """Return the path of the estimate that a run was started on."""
    return run_path(parameters, "estimate.json")


def save(estimate: Estimate, parameters: RunParameters) -> Path | None:
    """Save the estimate, to be compared with the real costs; one without pending calls replaces none."""
    path = estimate_path(parameters)
    return write_json(path, estimate.model_dump(mode="json")) if estimate.pending else None


def saved(parameters: RunParameters) -> Estimate | None:
    """Read the saved estimate, None where there is none; a damaged file raises `UserError`."""
    path = estimate_path(parameters)
    if not path.exists():
        return None
    try:
        return Estimate.model_validate(read_json(path))
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "estimate"
        raise UserError(
            f"{path}: field '{where}': {problem['msg']}; delete the file, nothing else rests on it."
        ) from None
