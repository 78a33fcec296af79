"""A judge card of two runs on file: the answers that are the same in both, judged by one and by the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from beam_field.card_tables import card_sentences, card_tables, corrections_table
from beam_field.judge_card import JudgeCard, corrections, grouped, judge_card, verdict_frame
from beam_field.judged_offline import GRADED
from beamlib.errors import UserError
from beamlib.evaluate.arm_folder import MANIFEST, read_manifest, stored_answers, stored_judgements
from beamlib.llm.model import OFFLINE_NAME
from beamlib.report.table import Table
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import not_computable, score_run


@dataclass(frozen=True, eq=False)
class CardOfRuns:
    """A card, its tables, and where the better judge has judged less than everything, the corrected averages."""

    card: JudgeCard
    tables: Mapping[str, Table]
    schooled: bool = False

    @property
    def means(self) -> list[str]:
        """What it means, in sentences; `schooled` where the offline judge was trained on these very verdicts."""
        said = "The offline judge was trained on these verdicts: on others it agrees less, as notebook 13 says."
        return [*card_sentences(self.card), *([said] if self.schooled else [])]

    def render(self) -> str:
        """All of it as text."""
        return "\n".join([*(one.to_text() for one in self.tables.values()), *self.means])


@dataclass(frozen=True, eq=False)
class _Judged:
    """What one judge said: by arm, the answers by question and the judgements; `runs_of` says of which system it is.

    `shipped` are the shipped runs that these are, empty texts among them for what is none.
    """

    judge: str
    shipped: frozenset[str]
    runs_of: Mapping[str, str]
    answers: Mapping[str, Mapping[str, str | None]]
    judgements: Mapping[str, list[Judgement]]


def card_of_runs(run: Path, against: Path, protocol: str) -> CardOfRuns:
    """The card of the judge of `run` against that of `against`, on the answers that both hold with the same text.

    A `UserError` where a folder holds several judges, or none of the answers is in both.
    """
    second, first = _judged(run), _judged(against)
    alike = [_alike(one, other) for one, other in ((first, second), (second, first))]
    scores = [{name: score_run(own, protocol) for name, own in one.items()} for one in alike]
    for side, own in zip((against, run), scores, strict=True):
        if all(not_computable(frame).any() for frame in own.values()) and own:
            raise UserError(
                f"{side}: its averages are not computable under the protocol {protocol!r} from what was published; "
                "name another with --protocol."
            )
    sides = [
        (one.judge, verdict_frame(judgements), own)
        for one, judgements, own in zip((first, second), alike, scores, strict=True)
    ]
    runs_of = {**first.runs_of, **second.runs_of}
    card = judge_card(sides[0], sides[1], runs_of=runs_of)
    tables = card_tables(card, protocol)
    everything = {name: score_run(own, protocol) for name, own in second.judgements.items() if name in scores[0]}
    corrected = corrections(*(_rows_of_runs(own, runs_of) for own in (everything, scores[0])))
    part = corrected[corrected["labels"] < corrected["n"]]
    if len(part):
        tables["corrected"] = corrections_table(part, second.judge, first.judge)
    return CardOfRuns(card, tables, schooled=second.judge == OFFLINE_NAME and first.shipped <= set(GRADED))


def _judged(run: Path) -> _Judged:
    folders = sorted(path.parent for pattern in (f"*/{MANIFEST}", f"*/*/{MANIFEST}") for path in run.glob(pattern))
    found = {folder: read_manifest(folder) for folder in folders}
    judges = sorted({one.judge for one in found.values()})
    if len(judges) != 1:
        parts = ", ".join(sorted({folder.parent.name for folder in folders}))
        what = f"several judges (parts {parts}); name one part" if judges else "no results; name a run or a part of one"
        raise UserError(f"{run}: it holds {what}.")
    sizes = {one.size for one in found.values()}
    answers: dict[str, dict[str, str | None]] = {}
    judgements: dict[str, list[Judgement]] = {}
    runs_of: dict[str, str] = {}
    for folder, one in found.items():
        name = f"{one.size} {one.arm}" if len(sizes) > 1 else one.arm
        if name in answers:
            raise UserError(f"{run}: {name} stands in several parts; name one part.")
        answers[name] = {answer.probe_id: answer.text for own in stored_answers(folder).values() for answer in own}
        judgements[name] = stored_judgements(folder)
        told = one.imported
        if told and told.system:
            size = one.size if len(sizes) > 1 else ""
            gold = "gold in its prompt" if told.gold_in_prompt == "yes" else ""
            runs_of[name] = ", ".join(filter(None, (size, told.system, told.context, told.reader, gold)))
    shipped = frozenset(one.imported.shipped if one.imported else "" for one in found.values())
    return _Judged(judges[0], shipped, runs_of, answers, judgements)


def _rows_of_runs(scores: Mapping[str, pd.DataFrame], runs_of: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """The scores by system, each run's answers apart: they go together by conversation as its questions do."""
    apart = {name: frame.assign(probe_id=f"{name} " + frame["probe_id"]) for name, frame in scores.items()}
    return {system: pd.concat(own) for system, own in grouped(apart, runs_of).items()}


def _alike(one: _Judged, other: _Judged) -> dict[str, list[Judgement]]:
    """The judgements of `one` on answers that stand in `other` word for word."""
    found = {
        name: [j for j in own if _same(one.answers[name], other.answers.get(name, {}), j.probe_id)]
        for name, own in one.judgements.items()
    }
    return {name: own for name, own in found.items() if own}


def _same(one: Mapping[str, str | None], other: Mapping[str, str | None], probe: str) -> bool:
    text = one.get(probe)  # two answers that nobody has are not known to be the same
    return text is not None and text == other.get(probe)


def record(found: CardOfRuns) -> dict[str, Any]:
    """A card as JSON values."""
    tables = {name: _plain(table.csv if table.csv is not None else table.cells) for name, table in found.tables.items()}
    error = found.card.error
    card = {"first": found.card.first, "second": found.card.second, "alone": found.card.alone}
    return {**card, "within_error": None if error != error else error, "means": found.means, **tables}


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    values = frame.astype(object)
    rows: list[dict[str, Any]] = values.where(values.notna(), None).to_dict("records")  # type: ignore[assignment]
    return rows
