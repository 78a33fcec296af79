"""The evidence that claims of the MemoryCode paper are checked with: its tables, dialogues and models' outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import pandas as pd

from beam_claims.values import Interval
from beam_memorycode.dialogue_files import LoadedDialogue
from beam_memorycode.dialogues import Dialogue
from beam_memorycode.memorycode_figures import verdict_frame
from beam_memorycode.scored import Published, ScoredModel, is_published

_HALF_A_DIGIT = Decimal("0.05")  # Table 4 is rounded to a tenth of a percent


@dataclass(frozen=True)
class MemoryCodeEvidence:
    """The evidence at hand. `models` without a row in Table 4 bear on no claim."""

    published: Published
    items: tuple[LoadedDialogue, ...] = ()
    models: tuple[ScoredModel, ...] = ()

    @cached_property
    def dialogues(self) -> tuple[Dialogue, ...]:
        """The dialogues, without their rules."""
        return tuple(item.dialogue for item in self.items)

    @cached_property
    def mentions(self) -> pd.DataFrame:
        """A row per mention of an instruction: dialogue, instruction, value, query, and its rule's condition."""
        rows = [
            (item.dialogue.id, mention.instruction, mention.value, query, rule.condition)
            for item in self.items
            for session, rules in zip(item.dialogue.sessions, item.rules.sessions, strict=True)
            for mention, query, rule in zip(session.mentions, session.queries, rules, strict=True)
        ]
        return pd.DataFrame(rows, columns=["dialogue", "instruction", "value", "query", "condition"])

    @cached_property
    def authors(self) -> bool:
        """Whether the dialogues are all of the published ones."""
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
        """Return a mean of Table 4 in percent."""
        return self.published.scores[model, setup].mean

    def interval(self, model: str, setup: str) -> Interval:
        """Return the true means, in percent, that a printed mean allows."""
        mean = self.score(model, setup)
        return Interval(mean - _HALF_A_DIGIT, mean + _HALF_A_DIGIT)

    def missing(self, claim: Mapping[str, Any]) -> str:
        """Return why a claim cannot be checked with this evidence, "" if it can."""
        if claim["basis"] not in ("templates", "outputs"):
            return ""
        if not self.items:
            return "the authors' dialogues are not at hand."
        if not self.authors:
            return "the dialogues at hand are not the authors' 360."
        if claim["basis"] == "outputs" and not self.known:
            return "no complete outputs of a model of Table 4 are at hand."
        return ""
