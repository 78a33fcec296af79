"""The shipped numbers: who published what (`sources`), the verdicts (`verdicts`), the scores (`published`).

`judgements` turns the verdicts of a run into this project's records, so that every protocol runs over them by the path
that it runs over judgements of one's own.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from beam_field.questions import Question, by_probe
from beamlib.data.conversations import Size
from beamlib.errors import UserError
from beamlib.evaluate.imported import Provenance
from beamlib.files import read_text
from beamlib.scoring.records import Judgement, NuggetVerdict, Reported

if TYPE_CHECKING:
    import pandas as pd

SOURCES, VERDICTS, PUBLISHED = (
    Path(__file__).with_name(name) for name in ("sources.toml", "verdicts.csv", "published.csv")
)
COLUMNS = (
    "source", "run", "tier", "probe", "ability", "kind", "nugget", "score", "full", "partial", "none", "votes",
    "published", "answer_chars",
)  # fmt: skip
"""The long form of `verdicts`: a row per nugget, or per question where a source has no more."""

Kind = Literal["nuggets", "counts", "votes", "score"]
"""What a source tells of an answer, from the finest on; no shipped run has a score alone."""


class Source(Provenance):
    """One published run: who made it and how it was judged (`Provenance`), what is at hand, and where it stands.

    `kind` is the granularity of the verdicts, `n` counts questions, `number` tells runs of one system apart.
    `published` is the average that the source itself states for the run, from 0 to 1, None where it states none.
    `judged_again`: the judge was asked here, by this project's prompts.
    """

    source: str = Field(pattern=r"^[a-z0-9-]+$")
    run: str = Field(pattern=r"^[a-z0-9-]+$")
    number: int = Field(default=0, ge=0)
    tier: Size
    kind: Kind
    n: int = Field(gt=0)
    published: float | None = Field(default=None, ge=0, le=1)
    judged_again: bool = False

    @property
    def judged_by(self) -> str:
        """Who judged, by which prompt, as manifests of imports have it."""
        return self.judge if self.judged_again else self.by_prompt_of(self.source)

    @property
    def name(self) -> str:
        """`mem0/1m-top200`: what names the run in tables and in `judgements`."""
        return f"{self.source}/{self.run}"


@cache
def sources() -> tuple[Source, ...]:
    """The runs whose verdicts are shipped, in the order of `sources.toml`."""
    systems: list[dict[str, Any]] = tomllib.loads(read_text(SOURCES))["system"]
    try:
        return tuple(Source.model_validate({**one, **run}) for one in systems for run in one.pop("runs"))
    except ValidationError as error:
        raise UserError(f"{SOURCES}: {error.errors()[0]['loc']}: {error.errors()[0]['msg']}; correct it.") from None


def find_source(name: str) -> Source:
    """The run called `source/run`; a `UserError` with the known names otherwise."""
    for one in sources():
        if one.name == name:
            return one
    raise UserError(f"{name!r} is no shipped run; they are {', '.join(one.name for one in sources())}.")


@cache
def published() -> pd.DataFrame:
    """The published scores, a row per system, tier and ability (or `average`); `score_percent` as it was printed."""
    import pandas as pd

    return pd.read_csv(PUBLISHED)


@cache
def verdicts() -> pd.DataFrame:
    """The shipped verdicts in long form, columns `COLUMNS`, run by run.

    `kind` is `nugget`, `counts` or `votes`. `nugget` and `score` are set for a nugget; `full`, `partial` and `none` for
    counts, whose `score` is the source's own figure of event ordering; `votes` is a text such as "101". `published` is
    the question's score as its source has it, `answer_chars` the length of the answer.
    """
    import pandas as pd

    frame = pd.DataFrame([row for one in sources() for row in _rows(one)], columns=list(COLUMNS))
    whole = ("nugget", "full", "partial", "none", "answer_chars")
    return frame.astype({**dict.fromkeys(whole, "Int64"), "score": float, "published": float})


def packed(frame: pd.DataFrame) -> str:
    """The text of verdicts.csv for a frame in long form: a line per question, the nuggets as halves ("210").

    Counts stand as full-partial-none ("3-0-1"), votes as they are.
    """
    lines = ["run,probe,verdicts,order,published,answer_chars"]
    for (source, run, probe), own in frame.groupby(["source", "run", "probe"], sort=False):
        first = own.iloc[0]
        if first["kind"] == "nugget":
            said = "".join(str(int(2 * score)) for score in own.sort_values("nugget")["score"])
        else:
            said = "-".join(str(int(first[name])) for name in ("full", "partial", "none") if first["kind"] == "counts")
        order = repr(float(first["score"])) if first["kind"] == "counts" and first["score"] == first["score"] else ""
        value = f"{float(first['published'])!r},{int(first['answer_chars'])}"
        lines.append(f"{source}/{run},{probe},{said or first['votes']},{order},{value}")
    return "\n".join(lines) + "\n"


def judgements(name: str) -> list[Judgement]:
    """The shipped verdicts of the run `source/run` as records, a judgement per question.

    A nugget's text is not shipped: its place in the rubric stands for it ("nugget 0").
    """
    kind = find_source(name).kind
    return [_judgement(kind, *line) for line in _lines(name)]


def _judgement(kind: Kind, question: Question, said: str, order: float | None, score: float, _: int) -> Judgement:
    scored = [int(half) / 2 for half in said] if kind == "nuggets" else []
    full, partial, none = (int(part) for part in said.split("-")) if kind == "counts" else (None, None, None)
    return Judgement(
        probe_id=question.probe_id,
        conversation_id=question.conversation_id,
        ability=question.ability,
        verdicts=tuple(NuggetVerdict(nugget=placeholder(n), score=value) for n, value in enumerate(scored)),
        reported=Reported(
            score=score,
            full=full,
            partial=partial,
            none=none,
            votes=tuple(vote == "1" for vote in said) if kind == "votes" else (),
            order=order,
        ),
    )


def placeholder(number: int) -> str:
    """What stands for the text of a nugget that is not at hand: its place in the rubric, from 0."""
    return f"nugget {number}"


def fingerprint(judged: Iterable[Judgement], answer_chars: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """What a run is recognised by: each question's verdicts, packed, and the length of its answer."""
    return {one.probe_id: (_said(one), answer_chars[one.probe_id]) for one in judged}


def _said(judgement: Judgement) -> str:
    reported = judgement.reported
    if judgement.verdicts and all(verdict.score is not None for verdict in judgement.verdicts):
        return "".join(str(int(2 * (verdict.score or 0))) for verdict in judgement.verdicts)
    if reported is None or reported.full is None:
        return "".join(str(int(vote)) for vote in reported.votes) if reported else ""
    return f"{reported.full}-{reported.partial}-{reported.none}"


def shipped_as(found: Mapping[str, tuple[str, int]]) -> Source | None:
    """The shipped run with exactly these verdicts and lengths of answers, or None."""
    for one in sources():
        if {question.probe_id: (said, length) for question, said, _, _, length in _lines(one.name)} == found:
            return one
    return None


@cache
def _packed_lines() -> dict[str, list[list[str]]]:
    groups: dict[str, list[list[str]]] = {}
    for line in read_text(VERDICTS).splitlines()[1:]:
        run, *rest = line.split(",")
        groups.setdefault(run, []).append(rest)
    return groups


def _lines(name: str) -> Iterator[tuple[Question, str, float | None, float, int]]:
    for probe, said, order, score, length in _packed_lines()[name]:
        yield by_probe()[probe], said, float(order) if order else None, float(score), int(length)


def _rows(source: Source) -> Iterable[dict[str, Any]]:
    for question, said, order, score, length in _lines(source.name):
        row: dict[str, Any] = {
            "source": source.source,
            "run": source.run,
            "tier": source.tier,
            "probe": question.probe_id,
        }
        row |= {"ability": question.ability, "kind": source.kind, "published": score, "answer_chars": length}
        if source.kind == "nuggets":
            yield from ({**row, "kind": "nugget", "nugget": n, "score": int(half) / 2} for n, half in enumerate(said))
        elif source.kind == "votes":
            yield {**row, "votes": said}
        else:
            yield {
                **row,
                **dict(zip(("full", "partial", "none"), map(int, said.split("-")), strict=True)),
                "score": order,
            }
