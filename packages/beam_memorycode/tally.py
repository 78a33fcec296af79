"""One model's outputs scored and summed up, for the command line and reports."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from beam_memorycode.averages import COLUMNS, ORDERS, Column, Order, Summary, summarise
from beam_memorycode.dialogue_files import LoadedDialogue, dialogue_json, load_dialogues
from beam_memorycode.output_store import MANIFEST
from beam_memorycode.outputs import read_outputs
from beam_memorycode.rule_scoring import RELEASED, VARIANTS, ScoredAnswer, Scorer, ScoringRule, Variant, score_outputs
from beam_memorycode.rules import matcher
from beamlib.errors import UserError
from beamlib.files import read_text, to_json
from beamlib.llm.model import OFFLINE_NAME

PUBLISHED_REVISION = "Cohere-Labs-Community/MemoryCode@1ab87e1, 360 dialogues"
PUBLISHED_SHA256 = "5bd31288aa77b4b16496afd4b4f38f00d8da6ce074f6d644f03871993b9a254d"
"""Of the published dialogues, by `data_revision`."""

_CHECKED = ("session_regex", "session_eval_query", "history_regex", "history_eval_query")


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
    scored = score_path(items, outputs, chosen.reading)
    missing = len(items) - len({answer.dialogue_id for answer in scored})
    notes = [f"Answers: {OFFLINE_NAME}."] if _by_stand_in(outputs) else []
    notes += [f"{missing} of {len(items)} dialogues have no outputs and are not counted in n."] if missing else []
    columns = summarise(scored, [item.dialogue for item in items], averaging, chosen)
    return ScoreTally(columns, averaging, chosen, data_revision(items), tuple(notes))


def _by_stand_in(outputs: Path) -> bool:
    """Whether a run of ours lies at `outputs` in which the stand-in answered: its manifest names it."""
    manifest = outputs / MANIFEST
    return manifest.is_file() and OFFLINE_NAME in read_text(manifest)


def data_revision(items: Sequence[LoadedDialogue]) -> str:
    """What the dialogues are: the published set by its commit, any other by a hash of its queries and rules.

    What is said in them does not count, so that a bundle without texts and the authors' repository are the same.
    """
    digest = hashlib.sha256()
    for item in items:
        value = dialogue_json(item)
        sessions = [{name: one[name] for name in _CHECKED} for one in value["sessions"]]
        text = to_json([item.dialogue.id, value["instructions"], sessions])
        digest.update(text.encode("utf-8", "surrogatepass"))  # JSON can hold what is no text
    found = digest.hexdigest()
    return PUBLISHED_REVISION if found == PUBLISHED_SHA256 else f"sha256 {found[:16]}, {len(items)} dialogues"


def score_path(
    items: Sequence[LoadedDialogue], outputs: Path, reading: ScoringRule = RELEASED.reading
) -> list[ScoredAnswer]:
    """Every answer at `outputs` scored, with a progress bar where somebody looks."""
    for item in items:
        _check_patterns(item)
    found = read_outputs(outputs, [item.dialogue for item in items])
    with tqdm(total=len(items), desc=f"scoring {outputs.name}", unit="dialogue", leave=False, disable=None) as bar:
        return score_outputs(items, found, Scorer(reading), bar.update)


def _check_patterns(item: LoadedDialogue) -> None:
    """Refuse a pattern that cannot be matched whether or not an answer comes to it."""
    for rule in (*item.rules.history, *(rule for rules in item.rules.sessions for rule in rules)):
        if isinstance(rule.condition, str):
            try:
                matcher(rule.condition)
            except UserError as error:
                raise UserError(f"{item.dialogue.name}: {error}") from None


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
