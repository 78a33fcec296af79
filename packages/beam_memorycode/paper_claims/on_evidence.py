"""What a claim of the MemoryCode paper can be held against: its tables, its dialogues, its models' outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import pandas as pd

from beam_claims.values import ClaimOutcome, Interval
from beam_memorycode.dialogue_files import LoadedDialogue
from beam_memorycode.dialogues import Dialogue
from beam_memorycode.frames import verdict_frame
from beam_memorycode.printed_tables import Published
from beam_memorycode.scored import ScoredModel, is_published

_HALF_A_DIGIT = Decimal("0.05")  # Table 4 is rounded to a tenth of a percent


@dataclass(frozen=True)
class Evidence:
    """All that is at hand. `models` without a row in Table 4 bear on no claim."""

    published: Published
    items: tuple[LoadedDialogue, ...] = ()
    models: tuple[ScoredModel, ...] = ()

    @cached_property
    def dialogues(self) -> tuple[Dialogue, ...]:
        """The dialogues, without their rules."""
        return tuple(item.dialogue for item in self.items)

    @cached_property
    def authors(self) -> bool:
        """Whether the dialogues are the published ones, all of them."""
        return bool(self.items) and is_published(self.items)

    @cached_property
    def known(self) -> dict[str, ScoredModel]:
        """The models that have a row in Table 4, by its name; only those with outputs of everything."""
        return {model.row: model for model in self.models if model.row and model.complete}

    @cached_property
    def verdicts(self) -> dict[str, pd.DataFrame]:
        """Every rule on every history answer, by row of Table 4."""
        return {row: verdict_frame(model) for row, model in self.known.items()}

    def score(self, model: str, setup: str) -> Decimal:
        """A mean of Table 4, in percent."""
        return self.published.scores[model, setup].mean

    def interval(self, model: str, setup: str) -> Interval:
        """The true means, in percent, that a printed mean stands for."""
        mean = self.score(model, setup)
        return Interval(mean - _HALF_A_DIGIT, mean + _HALF_A_DIGIT)


def evidence(
    items: Sequence[LoadedDialogue], models: Sequence[ScoredModel], replaced: Mapping[str, pd.DataFrame] | None
) -> Evidence:
    """What is at hand, with `replaced` published tables in the place of their namesakes."""
    return Evidence(Published(replaced), tuple(items), tuple(models))


def unchecked(reason: str) -> ClaimOutcome:
    """The outcome of a claim that nothing at hand can decide."""
    return ClaimOutcome(None, "cannot be checked", reason)
