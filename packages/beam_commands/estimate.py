"""Estimate what a run would call and cost, by stage and role, before any call is made.

The estimate is a rehearsal (`beam_commands.dry_run`). Stored calls cost nothing. The offline stand-in replies to
pending ones, so the size of prompts that depend on those is estimated, and so is the number of noise filter calls, one
per chunk of the notes. Tests compare the number of calls with those of a real run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, MutableSet, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

from pydantic import ValidationError
from tqdm import tqdm

from beam_commands.admission import count_admission
from beam_commands.costs import Estimate, PendingRow, cost_stage, realised, stored_totals
from beam_commands.dry_run import (
    CallStep,
    CallTally,
    DryRun,
    EstimatingEmbedding,
    EstimatingModel,
    EstimatingReranker,
    StepCalls,
    output_basis,
)
from beam_commands.run_admission import candidates_of
from beamlib.data.conversations import Conversation, slice_in_words
from beamlib.errors import UserError
from beamlib.evaluate.answering import Questions
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.records import Answer
from beamlib.evaluate.roster import OUTSIDE, roster_of
from beamlib.evaluate.run import plan_run
from beamlib.evaluate.runner import Rehearsal, rehearsals
from beamlib.evaluate.task import TaskPlan
from beamlib.files import read_json, write_json
from beamlib.llm.client import EndpointModel, ForwardingModel
from beamlib.llm.embedding_model import EmbeddingModel
from beamlib.llm.endpoints import EMBEDDING, RERANK, RERANKER, Embedding, Endpoint, forwarded_step
from beamlib.llm.model import Model, ModelRoles
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.stored_model import CallStore
from beamlib.memory.declared import kind_of
from beamlib.memory.outside import CallRule, Own
from beamlib.params import RunParameters
from beamlib.processes import process_pool
from beamlib.run import Run

ENOUGH_QUESTIONS = 20
"""Stored replies of a step from which on their mean replaces the expected length."""


def estimate(
    parameters: RunParameters | Run, arms: Sequence[Arm], *, admission: bool = False, quiet: bool = False
) -> Estimate:
    """Rehearse what is pending for `arms` over all conversations of the run; nothing is called or written."""
    run = Run.of(parameters)
    if not run.models_file:
        return Estimate(size=run.size, backbone="", conversations=0, arms=tuple(arm.name for arm in arms))
    return estimate_plan(plan_run(run, arms, quiet=quiet), admitted=set() if admission else None, quiet=quiet)


def estimate_plan(plan: TaskPlan, *, admitted: MutableSet[str] | None = None, quiet: bool = False) -> Estimate:
    """Rehearse what is pending in a plan, of any task, with models that call nobody.

    The user's own memory is rehearsed as if it recalled like BM25; calls of its own code are not included. Calls of an
    adapter are counted by a rule (`count_adapters`).

    Args:
        admitted: The keys of known questions that an estimate before this one counts; these join them. None if the
            roles that are called answer no known questions first.
    """
    task, run = plan.task, plan.run
    label = task.name or run.size
    names = tuple(plan.arms)
    if not run.models_file:
        return Estimate(size=label, backbone="", conversations=0, arms=names)
    pending = rehearsals(plan)
    # What an adapter will call is counted by a rule, in BEAM alone; what other memories call is not known.
    uncounted = [
        name
        for name, arm in plan.arms.items()
        if task.kind(arm).outside and not (isinstance(arm, Arm) and call_rule(arm))
    ]
    expected = stored_means(run)
    asking = [rehearsal.unit.asked for rehearsal in pending if rehearsal.answering]
    tally, alike = CallTally(), Counter[tuple[str, str]]()
    for part, own in _rehearsed([(rehearsal, expected) for rehearsal in pending], run, label, quiet=quiet):
        tally.merge(part)
        alike += own
    if admitted is not None and (longest := longest_requests(tally)):
        known = set[str]() if run.calls == "refresh" else admitted
        tally.merge(count_admission(candidates_of(run, longest, suite=task.name), known, run.counter))
    questions = sum(len(asked.probes) for asked in asking if isinstance(asked, Questions))
    return build_estimate(
        run,
        names,
        tally,
        expected,
        conversations=len(plan.pending),
        own=uncounted,
        suite=task.name,
        warnings=tuple(_alike_lines(alike, questions)),
    )


def longest_requests(tally: CallTally) -> dict[str, int]:
    """Return the tokens of the longest pending request of every role that is called."""
    longest: dict[str, int] = {}
    for (role, _), calls in tally.items():
        if calls.pending:
            longest[role] = max(longest.get(role, 0), calls.longest[0])
    return longest


_Todo = tuple[Rehearsal, Mapping[CallStep, float]]
_Rehearsed = tuple[CallTally, Counter[tuple[str, str]]]
"""The calls of a unit, and for how many of its questions two budgets show the reader the same context."""


def _rehearsed(jobs: Sequence[_Todo], run: Run, label: str, *, quiet: bool) -> Iterator[_Rehearsed]:
    title = f"{label}: counting calls"
    with tqdm(total=len(jobs), desc=title, disable=quiet or None, leave=False, delay=2) as bar:
        if min(run.workers, len(jobs)) <= 1:
            for job in jobs:
                yield _rehearse(*job)
                bar.update()
            return
        with process_pool(min(run.workers, len(jobs))) as pool:
            for future in [pool.submit(_rehearse, *job) for job in jobs]:  # in order: sums are the same every time
                yield future.result()
                bar.update()


def _rehearse(rehearsal: Rehearsal, expected: Mapping[CallStep, float]) -> _Rehearsed:
    """Rehearse one unit, in a worker process."""
    unit, run = rehearsal.unit, rehearsal.run
    with rehearsed_roster(run, unit.id, expected, rehearsal.task.name) as (roster, tally):
        answers = rehearsal.perform(roster)
        if isinstance(unit.asked, Questions):
            arms = tuple(arm for arm in rehearsal.answering if isinstance(arm, Arm))
            count_adapters(tally, arms, unit.asked.conversation, len(unit.asked.probes), run, expected)
    return tally, _alike([arm for arm in rehearsal.answering if isinstance(arm, Arm)], answers)


def _alike(arms: Sequence[Arm], answers: Mapping[str, Sequence[Answer]]) -> Counter[tuple[str, str]]:
    """Count for arms that differ in K alone the questions at which both show the reader the same context."""
    alike = Counter[tuple[str, str]]()
    for first, second in combinations(sorted(arms, key=lambda arm: arm.k or 0), 2):
        if first.k != second.k and first.model_copy(update={"k": second.k}) == second:
            own = zip(answers[first.name], answers[second.name], strict=True)
            alike[first.name, second.name] = sum(ours.context_key == theirs.context_key for ours, theirs in own)
    return alike


def _alike_lines(alike: Counter[tuple[str, str]], questions: int) -> Iterator[str]:
    for (first, second), equal in alike.items():
        if equal:
            yield (
                f"{first} and {second} show the reader the same context at about {equal} of {questions} questions "
                f"({equal / questions:.0%}): no more pairs fit, or there are none, and scores cannot tell them apart. "
                "A larger reader window may (docs/models-file.md)."
            )


@contextmanager
def rehearsed_roster(
    run: Run,
    conversation: str,
    expected: Mapping[CallStep, float],
    suite: str = "",
) -> Iterator[tuple[ModelRoles, CallTally]]:
    """Open models that call nobody, as `open_models` opens real ones, and the tally of their calls."""
    roles = run.endpoints
    with CallStore(run.calls_folder(suite) / f"{conversation}.sqlite", read_only=True) as store:
        counter, refresh = run.counter, run.calls == "refresh"
        rehearsal = DryRun(conversation, store, expected=expected, refresh=refresh, counter=counter)
        models: dict[str, Model] = {
            role: RetryingModel(
                EstimatingModel(role, EndpointModel(role, endpoint, prompts=run.prompt_files), rehearsal)
            )
            for role, endpoint in roles.items()
        }
        if isinstance(embedding := roles.get(EMBEDDING), Embedding):
            models[EMBEDDING] = EstimatingEmbedding(EmbeddingModel(EMBEDDING, embedding), rehearsal)
        if RERANKER in roles:
            reranker = ForwardingModel(RERANKER, roles[RERANKER], RERANK)
            models[f"{OUTSIDE}{RERANK}"] = EstimatingReranker(reranker, rehearsal)
        yield roster_of(models), rehearsal.tally


def call_rule(arm: Arm) -> CallRule | None:
    """Return the rule by which the calls of an arm are counted, None where there is none."""
    kind = kind_of(arm.target)
    return kind.rule if issubclass(kind, Own) else None


def count_adapters(
    tally: CallTally,
    arms: tuple[Arm, ...],
    conversation: Conversation,
    questions: int,
    parameters: Run,
    expected: Mapping[CallStep, float],
) -> None:
    """Add to `tally` what those of `arms` that are adapters have still to call for a conversation and its questions."""
    pairs, counter = len(conversation.pairs), parameters.counter
    for arm in arms:
        if (rule := call_rule(arm)) is None:
            continue
        text = sum(counter.count(message.content) for message in conversation)
        # By step: calls, their input tokens, the output tokens of each.
        wanted: dict[CallStep, tuple[int, int, float]] = {
            ("memory", forwarded_step(arm.name, "chat/completions")): (
                rule.calls * pairs, rule.calls * (pairs * rule.tokens + text), rule.output,
            )
        }  # fmt: skip
        if EMBEDDING in parameters.endpoints:
            requests = rule.vectors * pairs + questions
            wanted[EMBEDDING, forwarded_step(arm.name, "embeddings")] = (requests, rule.vectors * text, 0)
        held: Counter[CallStep] = Counter()
        with CallStore(parameters.calls_folder() / f"{conversation.id}.sqlite", read_only=True) as store:
            for totals in store.totals() if parameters.calls != "refresh" else ():
                held[totals.role, totals.step] += totals.calls
        for step, (calls, tokens, output) in wanted.items():
            counts, there = tally[step], min(calls, held[step])
            counts.held += there
            counts.pending += calls - there
            counts.input += tokens * (calls - there) // max(1, calls)
            counts.output += (calls - there) * (expected.get(step, output) if output else 0)


def build_estimate(
    run: Run,
    arms: tuple[str, ...],
    tally: CallTally,
    expected: Mapping[CallStep, float],
    *,
    conversations: int,
    own: Sequence[str] = (),
    suite: str = "",
    warnings: Sequence[str] = (),
) -> Estimate:
    """Build the estimate from a `tally`. `own` are the arms with a memory of the user's own; `warnings` come last."""
    roles = run.endpoints
    rows = [_pending_row(step, roles[step[0]], calls, expected) for step, calls in tally.items()]
    longest: dict[str, tuple[int, str]] = {}
    for (role, _), calls in sorted(tally.items()):
        if calls.pending:
            longest[role] = max(longest.get(role, calls.longest), calls.longest)
    return Estimate(
        size=suite or run.size,
        backbone=run.backbone,
        conversations=conversations,
        arms=arms,
        rows=tuple(sorted(rows, key=lambda row: row.order)),
        counter=run.context.token_counter,
        asked="" if suite else slice_in_words(run.chat.per_ability),
        longest={role: f"{tokens:,} of {roles[role].context_window:,}" for role, (tokens, _) in longest.items()},
        warnings=(
            *(warning for role, request in longest.items() if (warning := _too_long(role, roles[role], *request))),
            *(
                f"{name} is your own memory: it was rehearsed as if it recalled like BM25 with k = "
                f"{run.retrieval.k}, and what its own code may call is not in the estimate; --max-cost bounds "
                "it."
                for name in own
            ),
            *warnings,
        ),
    )


def _pending_row(
    step: CallStep, endpoint: Endpoint, calls: StepCalls, expected: Mapping[CallStep, float]
) -> PendingRow:
    role, prompt = step
    output, limit = round(calls.output), endpoint.max_output_tokens
    basis = output_basis(prompt) if step not in expected else "mean of this run's stored replies"
    if limit is not None and calls.pending and calls.output >= limit * calls.pending:
        basis += ", cut to max_output_tokens"
    return PendingRow(
        stage=cost_stage(role, prompt),
        role=role,
        step=prompt,
        model=endpoint.model,
        calls=calls.pending,
        held=calls.held,
        input_tokens=calls.input,
        cached_tokens=calls.cached,
        output_tokens=output,
        dollars=endpoint.dollars(calls.input, calls.cached, output),
        basis=basis if calls.pending else "",
    )


def _too_long(role: str, endpoint: Endpoint, tokens: int, about: str) -> str:
    """Return a warning if a request and its reply do not fit into the endpoint's context window.

    A reply without a limit gets what the request leaves, which must be at least one token.
    """
    limit = endpoint.max_output_tokens
    if role == EMBEDDING:
        return (
            f"The longest text to embed ({about}) has {tokens:,} tokens, and context_window of {endpoint.model} is "
            f"{endpoint.context_window:,}: what the endpoint refuses as too long is cut to what it takes."
            if tokens > endpoint.context_window
            else ""
        )
    if tokens + (limit or 1) <= endpoint.context_window:
        return ""
    reply = f"with {limit:,} for the reply " if limit else ""
    return (
        f"The {role}'s longest request ({about}) has {tokens:,} tokens, which {reply}do not fit into the "
        f"{endpoint.context_window:,} of {endpoint.model}; lower the budget that fills it, or name an endpoint with a "
        "larger context_window."
    )


def stored_means(run: Run) -> dict[CallStep, float]:
    """Average the output tokens by role and step over all tiers of the run, where enough replies are stored."""
    roles = run.endpoints
    means = {}
    for totals in stored_totals(sorted((run.folder / "calls").glob("*"))):
        replies = totals.calls - totals.failures
        if totals.role in roles and totals.model == roles[totals.role].model and replies >= ENOUGH_QUESTIONS:
            means[totals.role, totals.step] = totals.output_tokens / replies
    return means


def estimate_path(run: Run) -> Path:
    """Return the path of the estimate that a run was started on."""
    return run.path("estimate.json")


def save_estimate(estimate: Estimate, run: Run) -> Path | None:
    """Save a confirmed estimate, to be compared with the real costs; one without pending calls replaces none."""
    path = estimate_path(run)
    return write_json(path, estimate.model_dump(mode="json")) if estimate.pending else None


def start_estimate(run: Run) -> None:
    """Note what was spent before the calls of a newly confirmed estimate begin, on earlier backbones for example."""
    estimate = read_estimate(run)
    if estimate is not None and estimate.before is None:
        before = () if run.calls == "refresh" else tuple(realised(run))
        save_estimate(estimate.model_copy(update={"before": before}), run)


def read_estimate(run: Run) -> Estimate | None:
    """Read the saved estimate, None where there is none; a damaged file raises `UserError`."""
    path = estimate_path(run)
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
