"""Records of estimated and realised costs, and sums over the call stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict
from rich.console import Console

from beam_commands.confirmation import cost_in_words
from beamlib.llm.endpoints import EMBEDDING
from beamlib.llm.stored_model import CallStore, Totals
from beamlib.run import Run
from beamlib.text import count, money, text_blocks

_Stage = Literal["memory reading", "answering", "judging"]
COST_STAGES: tuple[_Stage, ...] = ("memory reading", "answering", "judging")

_READING = (
    "episodic_keys", "scratchpad_notes", "scratchpad_compress", "file_memory_ingest", "wiki_compile",
    "dependency_notes", "readagent_page", "readagent_gist",
)  # fmt: skip
_JUDGING_ROLES = ("judge", "aligner")


class Row(BaseModel):
    """Calls of one step. Tokens are totals; `dollars` is None for a model without a price."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: _Stage
    role: str
    step: str
    model: str
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    dollars: float | None

    @property
    def order(self) -> tuple[int, str, str, str]:
        """Sort key, which also identifies the step."""
        return COST_STAGES.index(self.stage), self.role, self.step, self.model


class PendingRow(Row):
    """Pending calls of one step, and how many more are stored (`held`).

    `basis` says how their output tokens were estimated.
    """

    held: int
    basis: str = ""


class RealisedRow(Row):
    """Stored calls of one step, as the endpoint reported them; `seconds` is the sum of latencies.

    Of `estimated` calls it reported no tokens, and our own counter stands in.
    """

    failures: int
    seconds: float
    estimated: int = 0


class Estimate(BaseModel):
    """An estimate. `backbone` and `rows` are empty where the offline stand-in does everything.

    `counter` counted the input tokens. `longest` says, by role, how many tokens the longest pending request has, and
    the endpoint's window. `before` are the costs realised when the calls began, to be subtracted from later ones; None
    until then. `asked` says which questions are asked, where not all are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    size: str
    backbone: str
    conversations: int
    arms: tuple[str, ...]
    rows: tuple[PendingRow, ...] = ()
    counter: str = ""
    longest: Mapping[str, str] = {}
    warnings: tuple[str, ...] = ()
    asked: str = ""
    before: tuple[RealisedRow, ...] | None = None

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
        rows = tuple(row for row in self.rows if row.role not in ("memory", "compressor", EMBEDDING))
        note = "Calls of memory and compressor are shared with the backbone above and counted there."
        return self.model_copy(update={"rows": rows, "warnings": (*self.warnings, note)})

    def render(self) -> str:
        """Render a table with a row per step, then its bases, warnings and totals."""
        if not self.pending:
            return pending_line(self)
        header = ("role", "step", "model", "stage", "calls", "held", "input", "cached", "output", "cost")
        rows = []
        for row in self.rows:
            numbers = (row.calls, row.held, row.input_tokens, row.cached_tokens, row.output_tokens)
            cost = "unknown" if row.dollars is None else money(row.dollars)
            rows.append([row.role, row.step, row.model, row.stage, *(f"{n:,}" for n in numbers), cost])
        table = text_blocks(header, rows, [number < 4 for number in range(len(header))], 2, Console().width)
        return "\n".join([table, "", *self.bases(), *self.warnings, "", pending_line(self)])

    def bases(self) -> Iterator[str]:
        """Yield sentences on how the numbers were computed."""
        if self.asked:
            yield f"Questions: {self.asked}."
        if self.longest:
            pending = [row for row in self.rows if row.calls]
            rules = "; ".join(f"{row.step} {row.output_tokens / row.calls:,.0f} ({row.basis})" for row in pending)
            longest = "; ".join(f"{role} {sizes}" for role, sizes in sorted(self.longest.items()))
            yield f"Input tokens counted by {self.counter}."
            yield f"Output tokens per call: {rules}."
            yield "Prompts that rest on replies still to come were sized by the offline stand-in, not a language model."
            yield f"Longest request in tokens, and the endpoint's window: {longest}."


def pending_line(estimate: Estimate) -> str:
    """Summarise the estimate in one line."""
    if not estimate.backbone:
        return "Nothing is called and nothing is paid: the offline stand-in answers everything."
    start = f"{count(estimate.pending, 'call')} to make ({estimate.held:,} held)"
    if not estimate.pending:
        return f"{start}: nothing is left to pay."
    fresh, cached, output = (
        compact(sum(getattr(row, name) for row in estimate.rows))
        for name in ("input_tokens", "cached_tokens", "output_tokens")
    )
    cost = cost_in_words(estimate.dollars, estimate.unpriced)
    if not estimate.dollars and not estimate.unpriced:
        cost = "nothing by the prices of the models file"
    return f"{start}: {fresh} input tokens ({cached} cached), {output} output, {cost}"


def compact(number: float) -> str:
    """Shorten a number of tokens: 1,234, 56K, 3.2M."""
    if number >= 999_500:
        return f"{number / 1_000_000:,.1f}M"
    return f"{number / 1_000:.0f}K" if number >= 10_000 else f"{number:,.0f}"


def cost_stage(role: str, step: str) -> _Stage:
    """Return the stage of a call. The noise filter belongs to answering: it is called for every question."""
    if role in _JUDGING_ROLES:
        return "judging"
    # Most calls of an outside memory read; few are queries (beamlib.llm.client).
    return "memory reading" if step in _READING or "/" in step else "answering"


def stored_totals(folders: Sequence[Path]) -> list[Totals]:
    """Sum the calls of all stores in `folders` by role, step and model."""
    sums: dict[tuple[str, ...], list[float]] = {}
    for path in sorted(path for folder in folders for path in folder.glob("*.sqlite")):
        with CallStore(path, read_only=True) as store:
            for role, step, model, *numbers in map(astuple, store.totals()):
                known = sums.setdefault((role, step, model), [0] * len(numbers))
                sums[role, step, model] = [a + b for a, b in zip(known, numbers, strict=True)]
    return [Totals(*key, *numbers) for key, numbers in sorted(sums.items())]  # type: ignore[arg-type]


def realised(run: Run, suite: str = "") -> list[RealisedRow]:
    """Sum the stored calls of this tier, or of a `suite`, by stage, role, step and model, over all backbones.

    Empty for the offline stand-in. `dollars` is None for a model that the models file no longer names in that role.
    """
    models = run.models_file
    if models is None:
        return []
    prices = {(role, endpoint.model): endpoint for role, endpoint in models.by_stored_role()}
    rows = []
    for totals in stored_totals([run.calls_folder(suite)]):
        role, step, model, calls, failures, *tokens, seconds, estimated = astuple(totals)
        endpoint = prices.get((role, model))
        sizes = dict(zip(("input_tokens", "cached_tokens", "output_tokens"), tokens, strict=True))
        rows.append(
            RealisedRow(
                stage=cost_stage(role, step),
                role=role,
                step=step,
                model=model,
                calls=calls,
                failures=failures,
                **sizes,
                dollars=endpoint.dollars(*tokens) if endpoint else None,
                seconds=seconds,
                estimated=estimated,
            )
        )
    return sorted(rows, key=lambda row: row.order)


def since(rows: Sequence[RealisedRow], before: Sequence[RealisedRow]) -> list[RealisedRow]:
    """Subtract `before` from `rows`. A failed call that was repeated with success counts as a call."""
    earlier = {row.order: row for row in before}
    remaining = []
    for row in rows:
        if old := earlier.get(row.order):
            sums = ("input_tokens", "cached_tokens", "output_tokens", "seconds")
            changes: dict[str, float | None] = {name: getattr(row, name) - getattr(old, name) for name in sums}
            changes["calls"] = row.calls - old.calls + max(0, old.failures - row.failures)
            changes["estimated"] = max(0, row.estimated - old.estimated)
            changes["failures"] = max(0, row.failures - old.failures)
            changes["dollars"] = None if None in (row.dollars, old.dollars) else (row.dollars or 0) - (old.dollars or 0)
            row = row.model_copy(update=changes)
        if row.calls > 0:
            remaining.append(row)
    return remaining
