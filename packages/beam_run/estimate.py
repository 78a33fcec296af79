"""What a run will cost before anything is spent, and what it has cost: calls, tokens and US dollars by stage and role.

The estimate is a rehearsal (`beam_run.dry_run`): the very code of the run, with models that call nobody. Calls
that the stores hold cost nothing and give their replies; pending ones are answered by the offline stand-in, so the size
of what depends on them is an estimate, and so is the number of noise filter calls, one per chunk of the notes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
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
from beam_run.dry_run import ELSE_EXPECTED, EXPECTED, CallTally, Counts, DryRun, EstimatingModel, Step
from beam_run.endpoint_counter import ENDPOINT_COUNTER, EndpointCounter
from beamlib.data.loading import load
from beamlib.data.sources import Source
from beamlib.errors import UserError
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.calling import ResolvedParameters, calls_folder, endpoints, model_roles, run_path
from beamlib.evaluate.judging import work
from beamlib.evaluate.run import plan_run
from beamlib.files import read_json, write_json
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Model, run
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.roles import ModelRoles
from beamlib.llm.stored_model import CallStore
from beamlib.params import ADAPTERS, RunParameters
from beamlib.processes import process_pool

ENOUGH = 20
"""Stored replies of a step whose mean says more than an expectation."""


def estimate(
    parameters: RunParameters, arms: Sequence[Arm], *, quiet: bool = False, count_at_endpoint: bool = False
) -> Estimate:
    """Rehearse what is left to do for `arms`, over all conversations of the run; nothing is called or written.

    No request is sent, unless `count_at_endpoint` has endpoints with a tokenize route count their own tokens.
    An arm with a memory of one's own is rehearsed as if it recalled like BM25: its code may call, and cost, by itself.
    What an adapter calls is counted by a rule (`beam_run.adapter_calls`).
    """
    if not parameters.models:
        return Estimate(size=parameters.size, backbone="", conversations=0, arms=tuple(arm.name for arm in arms))
    plan = plan_run(parameters, arms, quiet=quiet)
    parameters, tasks = plan.parameters, plan.tasks
    del plan  # the conversations: every rehearsal reads its own again
    expected = stored_means(parameters)
    counting = counting_roles(parameters) if tasks and count_at_endpoint else frozenset()
    todo = [(task.source, parameters, task.arms, task.answered, expected, counting) for task in tasks]
    tally = CallTally()
    for one in _rehearsed(todo, parameters, quiet=quiet):
        tally.add(one)
    own = tuple(arm.name for arm in arms if arm.memory == "own" and arm.target not in ADAPTERS)
    return summary(parameters, tuple(arm.name for arm in arms), tally, expected, conversations=len(tasks), own=own)


_Todo = tuple[
    Source, ResolvedParameters, tuple[Arm, ...], Mapping[str, list[Answer]], Mapping[Step, float], frozenset[str]
]


def counting_roles(parameters: RunParameters) -> frozenset[str]:
    """The roles whose endpoint counts tokens itself; all are asked at once, and nobody waits for one that is silent."""

    async def counts(endpoint: Endpoint) -> bool:
        async with EndpointCounter(endpoint) as counter:
            return await counter.available()

    async def ask() -> list[bool]:
        return list(await asyncio.gather(*(counts(endpoint) for endpoint in roles.values())))

    roles = endpoints(parameters)
    return frozenset(role for role, yes in zip(roles, run(ask()), strict=True) if yes)


def _rehearsed(todo: Sequence[_Todo], parameters: RunParameters, *, quiet: bool) -> Iterator[CallTally]:
    title = f"{parameters.size}: counting calls"
    with tqdm(total=len(todo), desc=title, unit="conv", disable=quiet or None, leave=False, delay=2) as bar:
        if min(parameters.workers, len(todo)) <= 1:
            for one in todo:
                yield _rehearse(*one)
                bar.update()
            return
        with process_pool(min(parameters.workers, len(todo))) as pool:
            for future in [pool.submit(_rehearse, *one) for one in todo]:  # in order: sums are the same every time
                yield future.result()
                bar.update()


def _rehearse(
    source: Source,
    parameters: ResolvedParameters,
    arms: tuple[Arm, ...],
    answered: Mapping[str, list[Answer]],
    expected: Mapping[Step, float],
    counting: frozenset[str],
) -> CallTally:
    """One conversation, in a process of its own."""
    loaded = load(source, parameters.treatment)
    with rehearsed_roster(parameters, source.id, expected, counting) as (model_roles, tally):
        work(loaded, _safe(arms, answered, parameters), answered, parameters, model_roles)
        left = tuple(arm for arm in arms if arm.name not in answered)
        count_adapters(tally, left, loaded.conversation, len(loaded.probes), parameters, expected)
    return tally


@contextmanager
def rehearsed_roster(
    parameters: ResolvedParameters,
    conversation: str,
    expected: Mapping[Step, float],
    counting: frozenset[str] = frozenset(),
    suite: str = "",
) -> Iterator[tuple[ModelRoles, CallTally]]:
    """Models that call nobody in the place of `open_models`'s, and the tally of what they would have called."""
    prompts = Path(parameters.prompts) if parameters.prompts else None
    roles = endpoints(parameters)
    open_counters = AsyncExitStack()
    try:
        counters = {role: run(open_counters.enter_async_context(EndpointCounter(roles[role]))) for role in counting}
        with CallStore(calls_folder(parameters, suite) / f"{conversation}.sqlite", read_only=True) as store:
            counter, refresh = parameters.counter, parameters.calls == "refresh"
            rehearsal = DryRun(conversation, store, expected=expected, refresh=refresh, counter=counter)
            models: dict[str, Model] = {}
            for role, endpoint in roles.items():
                model = EndpointModel(role, endpoint, prompts=prompts)
                models[role] = RetryingModel(EstimatingModel(role, model, rehearsal, counters.get(role)))
            yield model_roles(models), rehearsal.tally
    finally:
        run(open_counters.aclose())


def _safe(arms: Sequence[Arm], answered: Mapping[str, list[Answer]], parameters: RunParameters) -> list[Arm]:
    """`arms` with BM25 in the place of a memory of one's own, at a number of pairs that no other arm has."""
    used = {arm.k for arm in arms if arm.memory == "rag"}
    free = next(k for k in range(parameters.k, parameters.k + len(arms) + 1) if k not in used)
    stand_in = Arm(memory="rag", retriever="bm25", k=free)
    return [stand_in if arm.memory == "own" and arm.name not in answered else arm for arm in arms]


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
    """The estimate that a rehearsal's `tally` comes to. `own` are those of `arms` with a memory of one's own."""
    roles = endpoints(parameters)
    counted = {role: _endpoint_counted(role, tally) for role in roles}
    facts = [_facts(role, roles[role], tally, counted[role], parameters) for role in roles]
    rows = [_pending_row(step, roles[step[0]], counts, counted[step[0]]) for step, counts in tally.steps.items()]
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


def _endpoint_counted(role: str, tally: CallTally) -> bool:
    """Whether the endpoint counted every pending request of a role: counters are never mixed within one."""
    counts = [counts for (name, _), counts in tally.steps.items() if name == role]
    return any(one.pending for one in counts) and all(one.counted == one.pending for one in counts)


def _facts(role: str, endpoint: Endpoint, tally: CallTally, counted: bool, parameters: RunParameters) -> RoleFacts:
    largest = tally.largest.get(role)
    return RoleFacts(
        role=role,
        model=endpoint.model,
        counter=ENDPOINT_COUNTER if counted else parameters.token_counter,
        context_window=endpoint.context_window,
        max_output_tokens=endpoint.max_output_tokens,
        largest_input=0 if largest is None else largest.endpoint_tokens if counted else largest.tokens,
        largest_about=largest.about if largest else "",
    )


def _pending_row(step: Step, endpoint: Endpoint, counts: Counts, counted: bool) -> PendingRow:
    tokens, cached = (counts.endpoint_input, counts.endpoint_cached) if counted else (counts.input, counts.cached)
    output = round(counts.output)
    return PendingRow(
        stage=stage_of(*step),
        role=step[0],
        step=step[1],
        model=endpoint.model,
        calls=counts.pending,
        held=counts.held,
        input_tokens=tokens,
        cached_tokens=cached,
        output_tokens=output,
        dollars=endpoint.dollars(tokens, cached, output),
    )


def _rule(row: PendingRow, endpoint: Endpoint, expected: Mapping[Step, float], parameters: RunParameters) -> OutputRule:
    known = expected.get((row.role, row.step))
    if known is not None:
        tokens, rule = known, "mean of this run's stored replies"
    elif "/" in row.step:  # of a memory that is adapted
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
    for one in facts:
        if not one.fits:
            reply = f"with {one.max_output_tokens:,} for the reply " if one.max_output_tokens else ""
            yield (
                f"The {one.role}'s longest request ({one.largest_about}) has {one.largest_input:,} tokens, which "
                f"{reply}do not fit into the {one.context_window:,} of {one.model}; lower the budget that fills it, or "
                "name an endpoint with a larger context_window."
            )
    for name in own:
        yield (
            f"{name} is your own memory: it was rehearsed as if it recalled like BM25 with k = {parameters.k}, "
            "and what its own code may call is not in the estimate; --max-cost bounds it."
        )


def stored_means(parameters: RunParameters) -> dict[Step, float]:
    """Mean output tokens by role and step of the models of this run, over all its tiers, where they are enough."""
    roles = endpoints(parameters)
    means = {}
    for one in stored_totals(sorted((Path(parameters.run) / "calls").glob("*"))):
        replies = one.calls - one.failures
        if one.role in roles and one.model == roles[one.role].model and replies >= ENOUGH:
            means[one.role, one.step] = one.output_tokens / replies
    return means


def estimate_path(parameters: RunParameters) -> Path:
    """Where the estimate that a run was started on is kept."""
    return run_path(parameters, "estimate.json")


def save(found: Estimate, parameters: RunParameters) -> Path | None:
    """Keep the estimate, for the report to put what was spent beside it; one without pending calls replaces none."""
    path = estimate_path(parameters)
    return write_json(path, found.model_dump(mode="json")) if found.pending else None


def saved(parameters: RunParameters) -> Estimate | None:
    """The estimate on file, None where there is none; a damaged file is a `UserError`."""
    path = estimate_path(parameters)
    if not path.exists():
        return None
    try:
        return Estimate.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "estimate"
        raise UserError(
            f"{path}: field '{where}': {first['msg']}; delete the file, nothing else rests on it."
        ) from None
