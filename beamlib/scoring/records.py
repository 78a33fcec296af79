"""The record of a judgement: one line of `judgements.jsonl` per probe, raw, before any protocol."""

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
    """What one repeat of all calls on an answer gave: a verdict per nugget, the alignments, why these are missing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    verdicts: tuple[NuggetVerdict, ...]
    alignments: tuple[Alignment, ...] = ()
    unscored: str | None = None


class Reported(BaseModel):
    """What a published source says of an answer where it has less, or more, than a verdict of 0, 0.5 or 1 per nugget.

    `score` is the question's own score as the source has it. `full`, `partial` and `none` count its nuggets and do not
    tell which they are. `nuggets` are scores per nugget that are not on the scale of 0, 0.5, 1. `votes` are those of
    judges who saw no rubric: whether the answer is correct. `order` is the source's own figure of event ordering.
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
    def _what_is_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return {key: value for key, value in fields.items() if value not in (None, [], ())}

    @property
    def nugget_scores(self) -> tuple[float, ...]:
        """The scores of all nuggets, in any order, as far as the source tells them."""
        if self.full is None or self.partial is None or self.none is None:
            return self.nuggets
        return (1.0,) * self.full + (0.5,) * self.partial + (0.0,) * self.none


class Judgement(BaseModel):
    """All verdicts on one answer.

    `unscored` carries the reason when there was no answer to judge, and then there are no verdicts. It also carries the
    reason when the events of an answer could not be aligned: the verdicts stay then, beside it, for the protocols that
    need no alignment.

    `verdicts`, `alignments` and `unscored` are those of the first time of asking, `repeats` of the second and later.
    `transient` says that something is missing, in any of them, that another try may give. `reported` is only there
    where the judgement is another's and was published.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    probe_id: str
    conversation_id: str
    ability: Ability
    verdicts: tuple[NuggetVerdict, ...] = ()
    alignments: tuple[Alignment, ...] = Field(default=())
    unscored: str | None = None
    transient: bool = False
    repeats: tuple[RepeatJudgement, ...] = ()
    reported: Reported | None = None

    @property
    def rounds(self) -> tuple[Judgement, ...]:
        """One judgement per repeat, the first included, each without repeats."""
        first = self.model_copy(update={"repeats": ()})
        return (first, *(first.model_copy(update=dict(repeat)) for repeat in self.repeats))

    @model_validator(mode="after")
    def _same_nuggets(self) -> Judgement:
        nuggets = [verdict.nugget for verdict in self.verdicts]
        if any([verdict.nugget for verdict in repeat.verdicts] != nuggets for repeat in self.repeats):
            raise ValueError("every repeat must judge the same nuggets in the same order")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Records without these keep the bytes they had before there were any, and manifests that hash them hold.
        fields: dict[str, Any] = handler(self)
        absent: dict[str, tuple[Any, ...]] = {"transient": (False,), "repeats": ([], ()), "reported": (None,)}
        return {key: value for key, value in fields.items() if value not in absent.get(key, ())}
