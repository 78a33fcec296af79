"""The shipped numbers: who published what (`sources.toml`), the verdicts, the printed scores, the released questions.

`judgements` returns the verdicts of a run as this project's records, so that every protocol can score them.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from beamlib.data.conversations import Size
from beamlib.data.gold import ABILITIES, Ability
from beamlib.errors import UserError
from beamlib.evaluate.beam_records import Provenance
from beamlib.files import read_text, sha256
from beamlib.scoring.records import Judgement, NuggetVerdict, Reported

if TYPE_CHECKING:
    import pandas as pd

_FOLDER = Path(__file__).parent
QUESTIONS, VERDICTS = _FOLDER / "questions.csv", _FOLDER / "verdicts.csv"
SOURCES, PUBLISHED, JUDGED_OFFLINE = (
    _FOLDER / name for name in ("sources.toml", "published.csv", "judged_offline.csv")
)
GRADED = ("mem0/1m-top200", "mem0/1m-top50")
"""The shipped runs in `JUDGED_OFFLINE`: both GPT-5 and the offline judge have judged them."""


@dataclass(frozen=True, slots=True)
class ReleasedQuestion:
    """A released question: its probe id, the ability that it tests, and the number of nuggets in its rubric."""

    probe_id: str
    ability: Ability
    nuggets: int

    @property
    def conversation_id(self) -> str:
        """The conversation that it asks about."""
        return self.probe_id.rpartition("-")[0]

    @property
    def tier(self) -> str:
        return self.probe_id.partition("-")[0]

    @property
    def ids(self) -> dict[str, Any]:
        """The ids that records of an answer to it have."""
        return {"probe_id": self.probe_id, "conversation_id": self.conversation_id}


def question_hash(tier: str, text: str) -> str:
    """Hash a question: 16 hexadecimal digits of the SHA-256 of tier, a newline and its text, stripped."""
    return sha256(f"{tier}\n{text.strip()}".encode("utf-8", "surrogatepass"))[:16]


@cache
def released_questions(path: Path = QUESTIONS) -> Mapping[str, ReleasedQuestion]:
    """Return the released questions by `question_hash`, conversation by conversation in file order."""
    names = {str(ability): ability for ability in ABILITIES}
    rows = csv.DictReader(read_text(path).splitlines())
    return {row["sha256"]: ReleasedQuestion(row["probe"], names[row["ability"]], int(row["nuggets"])) for row in rows}


@cache
def questions_by_probe() -> Mapping[str, ReleasedQuestion]:
    """Return the released questions by probe id."""
    return {question.probe_id: question for question in released_questions().values()}


VerdictKind = Literal["nuggets", "counts", "votes", "score"]
"""What a source publishes of an answer, finest first. No shipped run has only scores."""


class PublishedRun(Provenance):
    """One published run: who made it, how it was judged, and what is available of it.

    `kind` is the granularity of the verdicts, `n` counts questions, `number` tells runs of one system apart.
    `published` is the average that the source states for the run, from 0 to 1. `judged_again` says that the judge ran
    here, under this project's prompts.
    """

    source: str = Field(pattern=r"^[a-z0-9-]+$")
    run: str = Field(pattern=r"^[a-z0-9-]+$")
    number: int = Field(default=0, ge=0)
    tier: Size
    kind: VerdictKind
    n: int = Field(gt=0)
    published: float | None = Field(default=None, ge=0, le=1)
    judged_again: bool = False

    @property
    def judged_by(self) -> str:
        """The judge and its prompt, as manifests of imports name them."""
        return self.judge if self.judged_again else self.by_prompt_of(self.source)

    @property
    def name(self) -> str:
        """The run's name in tables and in `judgements`, such as `mem0/1m-top200`."""
        return f"{self.source}/{self.run}"


@cache
def published_runs() -> tuple[PublishedRun, ...]:
    """Return the runs with shipped verdicts, in the order of `sources.toml`."""
    systems: list[dict[str, Any]] = tomllib.loads(read_text(SOURCES))["system"]
    return tuple(PublishedRun.model_validate({**system, **run}) for system in systems for run in system.pop("runs"))


def find_run(name: str) -> PublishedRun:
    """Return the run called `source/run`; raise `UserError` with the known names if there is none."""
    runs = {run.name: run for run in published_runs()}
    if name not in runs:
        raise UserError(f"{name!r} is not a shipped run; choose one of {', '.join(runs)}.")
    return runs[name]


@cache
def published_scores() -> pd.DataFrame:
    """Return the printed scores: a row per system, tier and ability (or `average`), `score_percent` as printed."""
    import pandas as pd

    return pd.read_csv(PUBLISHED)


class _Line(NamedTuple):
    """A line of verdicts.csv: `verdicts` are halves per nugget ("210"), full-partial-none ("3-0-1") or votes."""

    question: ReleasedQuestion
    verdicts: str
    order: float | None
    score: float
    answer_chars: int


@cache
def verdict_lines() -> Mapping[str, list[_Line]]:
    """Return the lines of verdicts.csv by run."""
    lines: dict[str, list[_Line]] = {}
    for line in read_text(VERDICTS).splitlines()[1:]:
        run, probe, verdicts, order, score, chars = line.split(",")
        parsed = _Line(questions_by_probe()[probe], verdicts, float(order) if order else None, float(score), int(chars))
        lines.setdefault(run, []).append(parsed)
    return lines


def judgements(name: str) -> list[Judgement]:
    """Return the shipped verdicts of the run `source/run`, a judgement per question.

    The text of a nugget is not shipped: its place in the rubric stands for it ("nugget 0").
    """
    kind = find_run(name).kind
    return [_judgement(line.question, line.verdicts, _reported(kind, line), kind) for line in verdict_lines()[name]]


def offline_judgements(name: str) -> list[Judgement]:
    """Return the offline judge's verdicts on the answers of a shipped run; empty where there are none.

    The offline judge was trained on the published verdicts, so these come from judges trained like it without the
    conversation in question. `benchmarks/judge.py --verdicts` makes them from the result files, which are not shipped.
    """
    lines = (line.split(",") for line in read_text(JUDGED_OFFLINE).splitlines()[1:])
    return [_judgement(questions_by_probe()[probe], verdicts) for run, probe, verdicts in lines if run == name]


def _judgement(
    question: ReleasedQuestion, verdicts: str, reported: Reported | None = None, kind: VerdictKind = "nuggets"
) -> Judgement:
    scores = [int(half) / 2 for half in verdicts] if kind == "nuggets" else []
    nuggets = tuple(NuggetVerdict(nugget=placeholder(n), score=score) for n, score in enumerate(scores))
    return Judgement(**question.ids, ability=question.ability, verdicts=nuggets, reported=reported)


def _reported(kind: VerdictKind, line: _Line) -> Reported:
    full, partial, none = map(int, line.verdicts.split("-")) if kind == "counts" else (None, None, None)
    votes = tuple(vote == "1" for vote in line.verdicts) if kind == "votes" else ()
    return Reported(score=line.score, full=full, partial=partial, none=none, votes=votes, order=line.order)


def placeholder(number: int) -> str:
    """Name a nugget whose text is not available by its 0-based place in the rubric."""
    return f"nugget {number}"
