"""Records of estimated and realised costs, and sums over the call stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from beamlib.evaluate.calling import calls_folder, models_file
from beamlib.llm.stored_model import CallStore, Totals
from beamlib.params import RunParameters
from beamlib.text import cost_in_words, count, money

Stage = Literal["memory reading", "answering", "judging"]
STAGES: tuple[Stage, ...] = ("memory reading", "answering", "judging")

_READING = (
    "episodic_keys", "scratchpad_notes", "scratchpad_compress", "file_memory_ingest", "wiki_compile",
    "dependency_notes",
)  # fmt: skip
_JUDGING_ROLES = ("judge", "aligner")


class Row(BaseModel):
    """Calls of one step. Tokens are totals; `dollars` is None for a model without a price."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: Stage
    role: str
    step: str
    model: str
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    dollars: float | None


class PendingRow(Row):
    """Pending calls of one step, and how many more are stored (`held`)."""

    held: int


class RealisedRow(Row):
    """Stored calls of one step, as the endpoint reported them; `seconds` is the sum of latencies."""

    failures: int
    seconds: float


class RoleFacts(BaseModel):
    """A role's endpoint, the counter of its input tokens, and the longest pending request (0 where there is none).

    `max_output_tokens` is None where the model's own limit holds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: str
    model: str
    counter: str
    context_window: int
    max_output_tokens: int | None
    largest_input: int = 0
    largest_about: str = ""

    @property
    def fits(self) -> bool:
        """Tell whether the longest request and its reply fit into the endpoint's context window.

        A reply without a limit gets what the request leaves, which must be at least one token.
        """
        return not self.largest_input or self.largest_input + (self.max_output_tokens or 1) <= self.context_window


class OutputRule(BaseModel):
    """How the output tokens of a step's pending calls were estimated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: str
    step: str
    tokens: float
    rule: str


class Estimate(BaseModel):
    """An estimate. `rows` and `roles` are empty where the offline stand-in does everything.

    `before` are the costs realised at that time, to be subtracted from later ones.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    size: str
    backbone: str
    conversations: int
    arms: tuple[str, ...]
    rows: tuple[PendingRow, ...] = ()
    roles: tuple[RoleFacts, ...] = ()
    rules: tuple[OutputRule, ...] = ()
    warnings: tuple[str, ...] = ()
    before: tuple[RealisedRow, ...] = ()

    @property
    def calls_models(self) -> bool:
        """Tell whether models are called; the offline stand-in is not."""
        return bool(self.roles)

    @property
    def pending(self) -> int:
        """Count the calls to make."""
        return sum(row.calls for row in self.rows)

    @property
    def held(self) -> int:
        """Count the stored calls."""
        return sum(row.held for row in self.rows)

    @property
    def dollars(self) -> float:
        """Sum the US dollars of pending calls whose price is known."""
        return sum(row.dollars or 0.0 for row in self.rows)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Return the models of pending calls whose price is unknown."""
        return tuple(sorted({row.model for row in self.rows if row.calls and row.dollars is None}))

    def without_memory(self) -> Estimate:
        """Drop the memory's calls, which another backbone's estimate includes."""
        rows = tuple(row for row in self.rows if row.role not in ("memory", "compressor"))
        note = "Calls of memory and compressor are shared with the backbone above and counted there."
        return self.model_copy(update={"rows": rows, "warnings": (*self.warnings, note)})

    def render(self) -> str:
        """Render a table with a row per step, then its bases, warnings and totals."""
        if not self.pending:
            return pending_line(self)
        table = Table(box=SIMPLE_HEAD, show_edge=False)
        for name in ("stage", "role", "step", "model", "calls", "held", "input", "cached", "output", "cost"):
            table.add_column(name, justify="left" if name in ("stage", "role", "step", "model") else "right")
        for row in self.rows:
            numbers = (row.calls, row.held, row.input_tokens, row.cached_tokens, row.output_tokens)
            cost = "unknown" if row.dollars is None else money(row.dollars)
            table.add_row(row.stage, row.role, row.step, row.model, *(f"{n:,}" for n in numbers), cost)
        text = StringIO()
        Console(file=text, width=160, color_system=None, markup=False, emoji=False).print(table)
        lines = [line.rstrip() for line in text.getvalue().splitlines()]
        return "\n".join([*lines, "", *self.bases(), *self.warnings, "", pending_line(self)])

    def bases(self) -> Iterator[str]:
        """Yield sentences on how the numbers were computed."""
        counters: dict[str, list[str]] = {}
        used = [facts for facts in self.roles if facts.largest_input]
        for facts in used:
            counters.setdefault(facts.counter, []).append(facts.role)
        if used:
            by = "; ".join(f"{name} ({', '.join(roles)})" for name, roles in counters.items())
            yield f"Input tokens counted by {by}."
            yield (
                "Output tokens per call: " + "; ".join(f"{o.step} {o.tokens:,.0f} ({o.rule})" for o in self.rules) + "."
            )
            yield "Prompts that rest on replies still to come were sized by the offline stand-in, not a language model."
            longest = "; ".join(f"{facts.role} {facts.largest_input:,} of {facts.context_window:,}" for facts in used)
            yield f"Longest request in tokens, and the endpoint's window: {longest}."


def pending_line(estimate: Estimate) -> str:
    """Summarise the estimate in one line."""
    if not estimate.calls_models:
        return "Nothing is called and nothing is paid: the offline stand-in answers everything."
    start = f"{count(estimate.pending, 'call')} to make ({estimate.held:,} held)"
    if not estimate.pending:
        return f"{start}: nothing is left to pay."
    sums = (sum(row.input_tokens for row in estimate.rows), sum(row.cached_tokens for row in estimate.rows))
    cost = cost_in_words(estimate.dollars, estimate.unpriced)
    if not estimate.dollars and not estimate.unpriced:
        cost = "nothing by the prices of the models file"
    return (
        f"{start}: {compact(sums[0])} input tokens ({compact(sums[1])} cached), "
        f"{compact(sum(row.output_tokens for row in estimate.rows))} output, {cost}"
    )


def compact(number: float) -> str:
    """Shorten a number of tokens: 1,234, 56K, 3.2M."""
    if number >= 999_500:
        return f"{number / 1_000_000:,.1f}M"
    return f"{number / 1_000:.0f}K" if number >= 10_000 else f"{number:,.0f}"


def place(row: Row) -> tuple[int, str, str, str]:
    return STAGES.index(row.stage), row.role, row.step, row.model


def stage_of(role: str, step: str) -> Stage:
    """Return the stage of a call. The noise filter belongs to answering: it is called for every question."""
    if role in _JUDGING_ROLES:
        return "judging"
    # Most calls of an outside memory read; few are queries (beamlib.llm.client).
    return "memory reading" if step in _READING or "/" in step else "answering"


def stored_totals(folders: Sequence[Path]) -> list[Totals]:
    """Sum the calls of all stores in `folders` by role, step and model."""
    groups: dict[tuple[str, str, str], list[Totals]] = {}
    for path in sorted(path for folder in folders for path in folder.glob("*.sqlite")):
        with CallStore(path, read_only=True) as store:
            for totals in store.totals():
                groups.setdefault((totals.role, totals.step, totals.model), []).append(totals)
    return [_sum(key, parts) for key, parts in sorted(groups.items())]


def _sum(key: tuple[str, str, str], parts: Sequence[Totals]) -> Totals:
    return Totals(
        *key,
        calls=sum(part.calls for part in parts),
        failures=sum(part.failures for part in parts),
        input_tokens=sum(part.input_tokens for part in parts),
        cached_tokens=sum(part.cached_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        latency=sum(part.latency for part in parts),
    )


def realised(parameters: RunParameters, suite: str = "") -> list[RealisedRow]:
    """Sum the stored calls of this tier, or of a `suite`, by stage, role, step and model, over all backbones.

    Empty for the offline stand-in. `dollars` is None for a model that the models file no longer names in that role.
    """
    models = models_file(parameters)
    if models is None:
        return []
    prices = {(role, endpoint.model): endpoint for role, endpoint in models.by_stored_role()}
    rows = []
    for totals in stored_totals([calls_folder(parameters, suite)]):
        endpoint = prices.get((totals.role, totals.model))
        spent = (totals.input_tokens, totals.cached_tokens, totals.output_tokens)
        row = RealisedRow(
            stage=stage_of(totals.role, totals.step),
            role=totals.role,
            step=totals.step,
            model=totals.model,
            calls=totals.calls,
            failures=totals.failures,
            input_tokens=totals.input_tokens,
            cached_tokens=totals.cached_tokens,
            output_tokens=totals.output_tokens,
            dollars=endpoint.dollars(*spent) if endpoint else None,
            seconds=totals.latency,
        )
        rows.append(row)
    return sorted(rows, key=place)


def since(rows: Sequence[RealisedRow], before: Sequence[RealisedRow]) -> list[RealisedRow]:
    """Subtract `before` from `rows`. A failed call that was repeated with success counts as a call."""
    earlier = {place(row): row for row in before}
    remaining = []
    for row in rows:
        old = earlier.get(place(row))
        if old is not None:
            row = row.model_copy(
                update={
                    "calls": row.calls - old.calls + max(0, old.failures - row.failures),
                    "failures": max(0, row.failures - old.failures),
                    "input_tokens": row.input_tokens - old.input_tokens,
                    "cached_tokens": row.cached_tokens - old.cached_tokens,
                    "output_tokens": row.output_tokens - old.output_tokens,
                    "dollars": None if None in (row.dollars, old.dollars) else (row.dollars or 0) - (old.dollars or 0),
                    "seconds": row.seconds - old.seconds,
                }
            )
        if row.calls > 0:
            remaining.append(row)
    return remaining
