"""The record of a judgement: a line of `judgements.jsonl` per probe, raw, before any protocol."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from beamlib.data.gold import Ability


class NuggetVerdict(BaseModel):
    """One judge call: the nugget, the judge's raw reply, and its score (paper listing 20).

    `score` is None if the call failed or its reply could not be read; `reason` then says why.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    nugget: str
    score: float | None
    reason: str = ""
    reply: str = ""

    @property
    def explanation(self) -> str:
        """Why there is no score; else the reason that the judge gave in its reply, empty if it gave none."""
        from beamlib.scoring.replies import read_reason

        return self.reason or read_reason(self.reply)

    @field_validator("score")
    @classmethod
    def _on_the_scale(cls, score: float | None) -> float | None:
        if score not in (None, 0.0, 0.5, 1.0):
            raise ValueError("a verdict is 0, 0.5, 1 or null")
        return score


Parser = Literal["items", "newline"]
"""How an answer is cut into events."""


class Alignment(BaseModel):
    """An event-ordering answer cut into items and matched to nuggets (paper listing 21).

    `matches[i]` is the 0-based nugget that item i denotes, or None; a nugget is matched at most once.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    parser: Parser
    items: tuple[str, ...]
    matches: tuple[int | None, ...]

    @model_validator(mode="after")
    def _consistent(self) -> Alignment:
        used = [match for match in self.matches if match is not None]
        if len(self.items) != len(self.matches) or len(used) != len(set(used)):
            raise ValueError("matches must pair each item with at most one nugget, each nugget used once")
        return self


class RepeatJudgement(BaseModel):
    """One repeat of all calls on an answer. `unscored` says why alignments are missing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    verdicts: tuple[NuggetVerdict, ...]
    alignments: tuple[Alignment, ...] = ()
    unscored: str | None = None


class Reported(BaseModel):
    """A published judgement that is not just a verdict of 0, 0.5 or 1 per nugget.

    Attributes:
        score: The question's score as the source states it.
        full: How many nuggets are satisfied, `partial` half, `none` not; which ones is not known.
        nuggets: Scores per nugget that are not on the scale of 0, 0.5, 1.
        votes: Whether judges who saw no rubric called the answer correct.
        order: The source's own figure of event ordering.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    score: Annotated[float, Field(ge=0, le=1)] | None = None
    full: Annotated[int, Field(ge=0)] | None = None
    partial: Annotated[int, Field(ge=0)] | None = None
    none: Annotated[int, Field(ge=0)] | None = None
    nuggets: tuple[Annotated[float, Field(ge=0, le=1)], ...] = ()
    votes: tuple[bool, ...] = ()
    order: Annotated[float, Field(ge=-1, le=1)] | None = None

    @model_validator(mode="after")
    def _all_counts_or_none(self) -> Reported:
        counts = [count for count in (self.full, self.partial, self.none) if count is not None]
        if len(counts) not in (0, 3) or (counts and not sum(counts)):
            raise ValueError("full, partial and none go together and count at least one nugget")
        return self

    @model_serializer(mode="wrap")
    def _only_present(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return {key: value for key, value in fields.items() if value not in (None, [], ())}

    @property
    def nugget_scores(self) -> tuple[float, ...]:
        """The scores of all nuggets in arbitrary order; empty if the source has none."""
        if self.full is None or self.partial is None or self.none is None:
            return self.nuggets
        return (1.0,) * self.full + (0.5,) * self.partial + (0.0,) * self.none


class Judgement(BaseModel):
    """All verdicts on one answer.

    Attributes:
        verdicts: Of the first repeat, as are `alignments` and `unscored`.
        unscored: Why there was no answer to judge (then there are no verdicts), or why its events could not be aligned
            (the verdicts stay for protocols that need no alignment).
        transient: Whether something is missing that another try may give.
        repeats: The second and later repeats.
        reported: What a published judgement states, if it is one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    probe_id: str
    conversation_id: str
    ability: Ability
    verdicts: tuple[NuggetVerdict, ...] = ()
    alignments: tuple[Alignment, ...] = ()
    unscored: str | None = None
    transient: bool = False
    repeats: tuple[RepeatJudgement, ...] = ()
    reported: Reported | None = None

    @property
    def rounds(self) -> tuple[Judgement, ...]:
        """A judgement per repeat, the first included."""
        first = self.model_copy(update={"repeats": ()})
        return (first, *(first.model_copy(update=dict(repeat)) for repeat in self.repeats))

    @model_validator(mode="after")
    def _same_nuggets(self) -> Judgement:
        nuggets = [verdict.nugget for verdict in self.verdicts]
        if any([verdict.nugget for verdict in repeat.verdicts] != nuggets for repeat in self.repeats):
            raise ValueError("every repeat must judge the same nuggets in the same order")
        return self

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Records without these fields keep the bytes that they had before the fields existed, for manifests hash them.
        fields: dict[str, Any] = handler(self)
        absent: dict[str, tuple[Any, ...]] = {"transient": (False,), "repeats": ([], ()), "reported": (None,)}
        return {key: value for key, value in fields.items() if value not in absent.get(key, ())}
