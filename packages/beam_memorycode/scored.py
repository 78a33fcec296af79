"""A model's answers with their verdicts, scored once and shared by every table, figure and claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import get_args

from tqdm import tqdm

from beam_memorycode.averages import Column, Order, Summary, dialogue_scores, summarise
from beam_memorycode.dialogue_files import PUBLISHED_REVISION, LoadedDialogue, dialogues_revision
from beam_memorycode.dialogues import Dialogue
from beam_memorycode.outputs import Outputs, find_outputs, read_outputs
from beam_memorycode.printed_tables import ROWS, row_of
from beam_memorycode.rule_scoring import (
    RELEASED,
    ScoredAnswer,
    ScoredSetup,
    Scorer,
    ScoringRule,
    Variant,
    score_outputs,
)
from beam_memorycode.rules import matcher
from beamlib.errors import UserError
from beamlib.llm.model import OFFLINE_NAME


def is_published(items: Sequence[LoadedDialogue]) -> bool:
    """Whether these are the 360 dialogues that the authors published: only they can bear out what the paper says."""
    return dialogues_revision(items) == PUBLISHED_REVISION


@dataclass(frozen=True, eq=False)
class ScoredModel:
    """One model's (or memory's) answers to `items`, scored by the released rules.

    `name` is that of the outputs folder. `outputs` may be empty: then other readings cannot be computed. `offline`: the
    stand-in gave them. `own`: they come from a run of ours, and are not the paper's even where the model is. `notes`
    are what tables say of an adapted memory. `scorer` is the one that scored them; it holds what it parsed.
    """

    name: str
    items: tuple[LoadedDialogue, ...] = field(repr=False)
    answers: tuple[ScoredAnswer, ...] = field(repr=False)
    outputs: Mapping[int, Outputs] = field(default_factory=dict, repr=False)
    offline: bool = False
    own: bool = False
    notes: tuple[str, ...] = ()
    scorer: Scorer = field(default_factory=Scorer, repr=False)
    _read: dict[ScoringRule, tuple[ScoredAnswer, ...]] = field(default_factory=dict, init=False, repr=False)

    @property
    def row(self) -> str | None:
        """Its row of Table 4, where it is one of the paper's models."""
        return None if self.own or self.offline else row_of(self.name)

    @property
    def label(self) -> str:
        """How tables and figures name it."""
        return f"{self.name} ({OFFLINE_NAME})" if self.offline else (self.row or self.name)

    @property
    def short(self) -> str:
        """How tables name it whose footer says who the stand-in is."""
        return self.row or self.name

    @cached_property
    def dialogues(self) -> dict[int, Dialogue]:
        """The dialogues, by id."""
        return {item.dialogue.id: item.dialogue for item in self.items}

    @cached_property
    def complete(self) -> bool:
        """Whether all three setups of the authors' files were run on every dialogue."""
        found = {(answer.setup, answer.dialogue_id) for answer in self.answers}
        return found == {(setup, number) for setup in get_args(ScoredSetup) for number in self.dialogues}

    @cached_property
    def summary(self) -> dict[Column, Summary]:
        """The columns of Table 4 in the paper's order of averaging."""
        return self.summarised()

    def summarised(self, order: Order = "dialogue-mean", variant: Variant = RELEASED) -> dict[Column, Summary]:
        """The columns of Table 4 by another order of averaging or way of scoring."""
        answers = self.answers if variant.reading == RELEASED.reading else self.read_as(variant.reading)
        return summarise(answers, self.dialogues.values(), order, variant)

    def scores(self, setup: ScoredSetup) -> dict[int, Fraction]:
        """The score of every dialogue that has one in `setup`, by id."""
        return dialogue_scores(self.answers, setup)

    def read_as(self, reading: ScoringRule) -> tuple[ScoredAnswer, ...]:
        """The answers with the verdicts of another reading; what cannot change by it is kept as it is."""
        if reading not in self._read:
            self._read[reading] = self._reread(reading)
        return self._read[reading]

    def _reread(self, reading: ScoringRule) -> tuple[ScoredAnswer, ...]:
        scorer = self._scorer(reading)
        found = []
        for answer in self.answers:
            text = self.text_of(answer)
            if text is None or not _can_change(answer, text, reading):
                found.append(answer)
                continue
            verdicts, failure = scorer.verdicts(text, answer.rules)
            found.append(replace(answer, verdicts=verdicts, failure=failure))
        return tuple(found)

    def _scorer(self, reading: ScoringRule) -> Scorer:
        # Whether all names count, and what an empty group means, is decided after parsing: such readings share it.
        same_parse = replace(reading, every_name=False, empty_is_absent=False) == RELEASED.reading
        return replace(self.scorer, reading=reading) if same_parse else Scorer(reading)

    def text_of(self, answer: ScoredAnswer) -> str | None:
        """The text of one of its answers, None where there is none."""
        found = self.outputs[answer.dialogue_id]
        if answer.setup == "history":
            return (found.history or ())[answer.place]
        sessions = (found.instruction if answer.setup == "instruction" else found.session) or ()
        return sessions[answer.session][answer.place]


def _can_change(answer: ScoredAnswer, text: str, reading: ScoringRule) -> bool:
    """Whether a departure from the released reading can touch an answer at all; parsing is what takes time."""
    kinds = {rule.kind for rule in answer.rules}
    looking = reading.looking
    return (
        (reading.joined and text.count("```") > 2)
        or (looking.import_from and "import" in kinds and "from" in text)
        or (looking.loose_attributes and "attribute" in kinds and "__init__" in text)
        or (looking.real_comments and "comment" in kinds and "#" in text)
        or ((reading.every_name or reading.empty_is_absent) and bool(kinds & {"attribute", "function argument"}))
    )


def score_folder(folder: Path, items: Sequence[LoadedDialogue]) -> list[ScoredModel]:
    """Every model whose outputs lie in the data folder `folder`, scored, in the order of Table 4, others by name."""
    return sort_models([score_model(name, path, items) for name, path in find_outputs(folder).items()])


def score_model(
    name: str, path: Path, items: Sequence[LoadedDialogue], *, offline: bool = False, own: bool = False
) -> ScoredModel:
    """The outputs at `path` (see `read_outputs`), scored; `offline` and `own` as in `ScoredModel`."""
    for item in items:
        _check_patterns(item)
    outputs = read_outputs(path, [item.dialogue for item in items])
    scorer = Scorer()
    with tqdm(total=len(items), desc=f"scoring {path.name}", unit="dialogue", leave=False, disable=None) as bar:
        answers = tuple(score_outputs(items, outputs, scorer, bar.update))
    return ScoredModel(name, tuple(items), answers, outputs, offline, own, scorer=scorer)


def _check_patterns(item: LoadedDialogue) -> None:
    """Refuse a pattern that cannot be matched whether or not an answer comes to it."""
    for rule in (*item.rules.history, *(rule for rules in item.rules.sessions for rule in rules)):
        if isinstance(rule.condition, str):
            try:
                matcher(rule.condition)
            except UserError as error:
                raise UserError(f"{item.dialogue.name}: {error}") from None


def sort_models(models: Iterable[ScoredModel]) -> list[ScoredModel]:
    """Models in the order of Table 4, those without a row after them, by name."""
    places = {row: place for place, row in enumerate(ROWS)}
    return sorted(models, key=lambda model: (places.get(model.row or "", len(places)), model.name))
