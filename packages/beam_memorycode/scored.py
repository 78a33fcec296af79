"""A model's answers with their verdicts, scored once and shared by tables, figures and claims; and what was printed.

Printed are Tables 1, 2 and 4 of the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import get_args

import pandas as pd
from tqdm import tqdm

from beam_claims.values import PublishedTables, records, rounded
from beam_memorycode.dialogue_files import PUBLISHED_REVISION, LoadedDialogue, dialogues_revision, load_dialogues
from beam_memorycode.dialogues import Dialogue
from beam_memorycode.outputs import Outputs, find_outputs, read_outputs
from beam_memorycode.rule_scoring import (
    RELEASED,
    AveragingOrder,
    Column,
    ScoredAnswer,
    ScoredSetup,
    Scorer,
    ScoringVariant,
    Summary,
    dialogue_scores,
    score_outputs,
    summarise_columns,
)
from beam_memorycode.rules import AS_RELEASED, ScoringRule, matcher
from beamlib.errors import UserError
from beamlib.evaluate.task import STAND_IN
from beamlib.llm.model import OFFLINE_NAME

PAPER_TABLES = {
    "table1": "memorycode_table1_parameters.csv",
    "table2": "memorycode_table2_statistics.csv",
    "table4": "memorycode_table4_scores.csv",
}
"""Name -> file in `beamlib/data/published`; cells are kept as the strings that were printed."""

COLUMN_LABELS: Mapping[Column, str] = {
    "instruction": "Instruction",
    "session": "Session",
    "short_history": "Short history",
    "long_history": "Long history",
}
"""The columns of Table 4 and how they are shown."""

# Folder names differ by host ("Meta-Llama-3.1-8B-Instruct-Turbo", "llama-3.1-8b-instruct"). Neighbours of the models
# of Table 4 (Llama 3.3, gpt-4o-mini, Command R7B, distilled R1) must not take their rows.
TABLE4_ROWS = {
    "Llama 3.1 8B": r"llama.?3[._-]1\D*(?<!\d)8b",
    "Llama 3.1 70B": r"llama.?3[._-]1\D*(?<!\d)70b",
    "Llama 3.1 405B": r"llama.?3[._-]1\D*(?<!\d)405b",
    "Command R+": r"command.?r(?![a-z0-9])",
    "Command A": r"command.?a(?![a-z0-9])",
    "GPT-4o": r"gpt.?4o(?!.?mini)",
    "DeepSeek-V3": r"deepseek.?v3(?![.\d])",
    "DeepSeek-R1": r"deepseek.?r1(?!.?distill)",
}
"""The rows of Table 4, in its order, and what the name of an outputs folder has in it."""
_OTHER_SETUP = re.compile(r"[-_](chain|retrieval|rag|light|full[-_]context|alone)$")


def row_of(name: str) -> str | None:
    """Return the row of Table 4 of the outputs folder `name`, None for other models and other setups."""
    text = name.casefold()
    if _OTHER_SETUP.search(text):
        return None
    return next((row for row, pattern in TABLE4_ROWS.items() if re.search(pattern, text)), None)


def paper_table(name: str) -> pd.DataFrame:
    """Read one of `FILES` in long form, every cell as the string that was printed (or "")."""
    text = (files("beamlib.data.published") / PAPER_TABLES[name]).read_text(encoding="utf-8")
    return pd.read_csv(StringIO(text), dtype=str, keep_default_na=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of Table 4 in percent, with the decimals it was printed with."""

    mean: Decimal
    stderr: Decimal

    def __str__(self) -> str:
        return f"{self.mean} ±{self.stderr}"

    @classmethod
    def of(cls, mean: float, stderr: float) -> Cell:
        """Round a computed mean and standard error as the table does."""
        return cls(rounded(mean, 1), rounded(stderr, 2))


class Published(PublishedTables):
    """The tables of the MemoryCode paper; `scores` has the cells of Table 4 by model and setup."""

    def __init__(self, replaced: Mapping[str, pd.DataFrame] | None = None) -> None:
        super().__init__(PAPER_TABLES, paper_table, replaced)
        self.scores: dict[tuple[str, str], Cell] = {
            (row["model"], row["setup"]): Cell(Decimal(row["mean"]), Decimal(row["stderr"]))
            for row in records(self["table4"])
        }
        self.models = tuple(dict.fromkeys(model for model, _ in self.scores))

    def values(self, parameter: str) -> list[Decimal]:
        """Return the values of a generation parameter of Table 1."""
        rows = self["table1"]
        (values,) = rows.loc[rows["parameter"] == parameter, "values"]
        return [Decimal(value) for value in values.split("|")]

    def statistic(self, parameter: str, subset: str) -> tuple[Decimal, Decimal | None]:
        """Return mean and standard deviation (None where none was printed) of Table 2."""
        rows = self["table2"]
        row = rows[(rows["parameter"] == parameter) & (rows["subset"] == subset)].iloc[0]
        cents = Decimal("0.01")  # the file holds 48 for what was printed as 48.00
        return Decimal(row["mean"]).quantize(cents), Decimal(row["std"]).quantize(cents) if row["std"] else None


def is_published(items: Sequence[LoadedDialogue]) -> bool:
    """Return whether these are the 360 published dialogues: only they can confirm what the paper says."""
    return dialogues_revision(items) == PUBLISHED_REVISION


@dataclass(frozen=True, eq=False)
class ScoredModel:
    """One model's (or memory's) answers to `items`, scored by the released rules.

    `name` is that of the outputs folder. Without `outputs` other readings cannot be computed. `offline`: the stand-in
    answered. `own`: they are not the paper's even where the model is. `notes` stand below tables. `scorer` scored them;
    it caches what it parsed.
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
        answered = {(answer.setup, answer.dialogue_id) for answer in self.answers}
        return answered == {(setup, number) for setup in get_args(ScoredSetup) for number in self.dialogues}

    @cached_property
    def summary(self) -> dict[Column, Summary]:
        """The columns of Table 4 in the paper's order of averaging."""
        return self.summarised()

    def summarised(
        self, order: AveragingOrder = "dialogue-mean", variant: ScoringVariant = RELEASED
    ) -> dict[Column, Summary]:
        """Return the columns of Table 4 by another order of averaging or way of scoring."""
        answers = self.answers if variant.reading == AS_RELEASED else self.read_as(variant.reading)
        return summarise_columns(answers, self.dialogues.values(), order, variant)

    def scores(self, setup: ScoredSetup) -> dict[int, Fraction]:
        """Return the score of every dialogue that has one in `setup`, by id."""
        return dialogue_scores(self.answers, setup)

    def read_as(self, reading: ScoringRule) -> tuple[ScoredAnswer, ...]:
        """Score the answers by another reading; verdicts that it cannot change are kept."""
        if reading not in self._read:
            self._read[reading] = self._reread(reading)
        return self._read[reading]

    def _reread(self, reading: ScoringRule) -> tuple[ScoredAnswer, ...]:
        scorer = self._scorer(reading)
        answers = []
        for answer in self.answers:
            text = self.text_of(answer)
            if text is not None and _can_change(answer, text, reading):
                verdicts, failure = scorer.verdicts(text, answer.rules)
                answer = replace(answer, verdicts=verdicts, failure=failure)
            answers.append(answer)
        return tuple(answers)

    def _scorer(self, reading: ScoringRule) -> Scorer:
        # Whether all names count, and what an empty group means, is decided after parsing: such readings share it.
        same_parse = replace(reading, every_name=False, empty_is_absent=False) == AS_RELEASED
        return replace(self.scorer, reading=reading) if same_parse else Scorer(reading)

    def text_of(self, answer: ScoredAnswer) -> str | None:
        """Return the text of one of its answers, None where there is none."""
        outputs = self.outputs[answer.dialogue_id]
        if answer.setup == "history":
            return (outputs.history or ())[answer.place]
        sessions = (outputs.instruction if answer.setup == "instruction" else outputs.session) or ()
        return sessions[answer.session][answer.place]


def _can_change(answer: ScoredAnswer, text: str, reading: ScoringRule) -> bool:
    """Return whether a reading can change an answer at all; parsing takes time."""
    kinds = {rule.kind for rule in answer.rules}
    return (
        (reading.joined and text.count("```") > 2)
        or (reading.import_from and "import" in kinds and "from" in text)
        or (reading.loose_attributes and "attribute" in kinds and "__init__" in text)
        or (reading.real_comments and "comment" in kinds and "#" in text)
        or ((reading.every_name or reading.empty_is_absent) and bool(kinds & {"attribute", "function argument"}))
    )


def score_folder(folder: Path, items: Sequence[LoadedDialogue]) -> list[ScoredModel]:
    """Score every model whose outputs lie in a data folder, in the order of Table 4, others by name."""
    return sort_models([score_model(name, path, items) for name, path in find_outputs(folder).items()])


def score_model(
    name: str, path: Path, items: Sequence[LoadedDialogue], *, offline: bool = False, own: bool = False
) -> ScoredModel:
    """Score the outputs at `path` (see `read_outputs`); `offline` and `own` as in `ScoredModel`."""
    for item in items:
        _check_patterns(item)
    outputs = read_outputs(path, [item.dialogue for item in items])
    scorer = Scorer()
    with tqdm(total=len(items), desc=f"scoring {path.name}", unit="dialogue", leave=False, disable=None) as bar:
        answers = tuple(score_outputs(items, outputs, scorer, bar.update))
    missing = len(items) - len({answer.dialogue_id for answer in answers})
    notes = (f"{missing} of {len(items)} dialogues have no outputs and are not counted in n.",) if missing else ()
    return ScoredModel(name, tuple(items), answers, outputs, offline, own, notes, scorer)


def _check_patterns(item: LoadedDialogue) -> None:
    """Refuse a pattern that cannot be matched, even if no answer needs it."""
    for rule in (*item.rules.history, *(rule for rules in item.rules.sessions for rule in rules)):
        if isinstance(rule.condition, str):
            try:
                matcher(rule.condition)
            except UserError as error:
                raise UserError(f"{item.dialogue.name}: {error}") from None


def sort_models(models: Iterable[ScoredModel]) -> list[ScoredModel]:
    """Sort models in the order of Table 4, those without a row after them, by name."""
    places = {row: place for place, row in enumerate(TABLE4_ROWS)}
    return sorted(models, key=lambda model: (places.get(model.row or "", len(places)), model.name))


def score_data(data: Path, outputs: Mapping[str, Path]) -> list[ScoredModel]:
    """Score outputs by name (see `read_outputs` for their paths) against the dialogues of a data folder."""
    items = load_dialogues(data)
    # The stand-in's folders have names that no reader of a models file may have.
    stand_in = {name: name == STAND_IN or name.startswith(f"{STAND_IN}-") for name in outputs}
    return [score_model(name, path, items, offline=stand_in[name], own=True) for name, path in outputs.items()]
