"""The record of a judgement: one line of `judgements.jsonl` per probe, raw, before any protocol."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from beamlib.benchmark.gold import Ability


class NuggetVerdict(BaseModel):
    """One judge call: the nugget, the judge's reply as it came, and the score read from it (paper listing 20).

    `score` is None when the call failed or its reply could not be read; `reason` then says why.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    nugget: str
    score: float | None
    reason: str = ""
    reply: str = ""

    @field_validator("score")
    @classmethod
    def _on_the_scale(cls, score: float | None) -> float | None:
        if score not in (None, 0.0, 0.5, 1.0):
            raise ValueError("a verdict is 0, 0.5, 1 or null")
        return score


class Alignment(BaseModel):
    """An event-ordering answer cut into items and matched to nuggets (paper listing 21).

    `matches[i]` is the 0-based nugget that item i denotes, or None; a nugget is matched at most once.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    parser: Literal["items", "newline"]
    items: tuple[str, ...]
    matches: tuple[int | None, ...]

    @model_validator(mode="after")
    def _consistent(self) -> Alignment:
        used = [match for match in self.matches if match is not None]
        if len(self.items) != len(self.matches) or len(used) != len(set(used)):
            raise ValueError("matches must pair each item with at most one nugget, each nugget used once")
        return self


class Judgement(BaseModel):
    """All verdicts on one answer.

    `unscored` carries the reason when there was no answer to judge, and then there are no verdicts. It also carries the
    reason when the events of an answer could not be aligned: the verdicts stay then, beside it, for the protocols that
    need no alignment.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    probe_id: str
    conversation_id: str
    ability: Ability
    verdicts: tuple[NuggetVerdict, ...] = ()
    alignments: tuple[Alignment, ...] = Field(default=())
    unscored: str | None = None
