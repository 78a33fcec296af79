"""One model's outputs scored and summed up, for the command line and reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from beam_memorycode.averages import COLUMNS, ORDERS, Column, Order, Summary
from beam_memorycode.dialogue_files import dialogues_revision, load_dialogues
from beam_memorycode.rule_scoring import RELEASED, VARIANTS, Variant
from beam_memorycode.scored import score_model
from beamlib.errors import UserError
from beamlib.evaluate.task import STAND_IN
from beamlib.llm.model import OFFLINE_NAME


@dataclass(frozen=True)
class ScoreTally:
    """The columns of Table 4, by which order and variant they were computed, and what has to be known beside them."""

    columns: dict[Column, Summary]
    order: Order
    variant: Variant
    revision: str
    notes: tuple[str, ...]

    @property
    def as_json(self) -> dict[str, dict[str, Any]]:
        """The columns with their numbers, by name."""
        return {name: asdict(self.columns[name]) for name in COLUMNS}


def named_order(name: str) -> Order:
    """The order of averaging of that name, or a `UserError`."""
    if name not in ORDERS:
        raise UserError(f"--order: {name!r:.60} does not exist; choose one of {', '.join(ORDERS)}.")
    return name


def named_variant(name: str) -> Variant:
    """The scoring variant of that name, or a `UserError`."""
    for variant in VARIANTS:
        if variant.name == name:
            return variant
    known = ", ".join(repr(variant.name) for variant in VARIANTS)
    raise UserError(f"--variant: {name!r:.60} does not exist; choose one of {known}.")


def tally(dialogues: Path, outputs: Path, order: str = ORDERS[0], variant: str = RELEASED.name) -> ScoreTally:
    """Score the outputs at `outputs` (see `outputs.read_outputs`) against the dialogues of a data folder."""
    chosen, averaging = named_variant(variant), named_order(order)
    items = load_dialogues(dialogues)
    model = score_model(outputs.name, outputs, items)
    missing = len(items) - len({answer.dialogue_id for answer in model.answers})
    notes = [f"Answers: {OFFLINE_NAME}."] if _by_stand_in(outputs) else []
    notes += [f"{missing} of {len(items)} dialogues have no outputs and are not counted in n."] if missing else []
    columns = model.summarised(averaging, chosen)
    return ScoreTally(columns, averaging, chosen, dialogues_revision(items), tuple(notes))


def _by_stand_in(outputs: Path) -> bool:
    """Whether these are the stand-in's answers of a run: no reader of a models file may be called as it is."""
    return outputs.name == STAND_IN or outputs.name.startswith(f"{STAND_IN}-")


def tally_text(name: str, one: ScoreTally) -> str:
    """A tally as a few lines of text: the four columns, and how they were computed."""
    rows = []
    for column in COLUMNS:
        cell = one.columns[column]
        mean = "–" if cell.mean is None else f"{cell.mean:.1f}"
        stderr = "" if cell.stderr is None else f" ±{cell.stderr:.2f}"
        counts = (
            f"n {cell.n:3d}   answers {cell.answers:6,d}, unscored {cell.unscored:,d}, not parsed {cell.not_parsed:,d}"
        )
        rows.append(f"  {column.replace('_', ' '):14s} {mean + stderr:>12s}   {counts}")
    protocol = "each answer by the share of applicable rules that hold"
    if one.variant != RELEASED:
        protocol += f"; variant: {one.variant.name}"
    return "\n".join(
        [
            name,
            *rows,
            f"  Percent ± standard error; n dialogues; {one.order}; judge: rules on parsed code; {protocol}.",
            f"  Data: {one.revision}.",
            *(f"  {note}" for note in one.notes),
        ]
    )
