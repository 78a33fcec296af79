"""A judge card of two runs on file: the answers that are the same in both, judged by one and by the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from beam_field.card_tables import card_sentences, card_tables, corrections_table
from beam_field.comparing import mean_over_runs
from beam_field.imported_runs import system_of
from beam_field.judge_card import JudgeCard, corrections, judge_card, verdict_frame
from beamlib.errors import UserError
from beamlib.evaluate.arm_folder import MANIFEST, read_manifest, stored_answers, stored_judgements
from beamlib.report.table import Table
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import not_computable, score_run


@dataclass(frozen=True, eq=False)
class CardOfRuns:
    """A card, its tables, and where the better judge has judged less than everything, the corrected averages."""

    card: JudgeCard
    tables: Mapping[str, Table]

    def render(self) -> str:
        """All of it as text."""
        return "\n".join([*(one.to_text() for one in self.tables.values()), *card_sentences(self.card)])


@dataclass(frozen=True, eq=False)
class _Judged:
    """What one judge said, by arm: what it is a run of, the answers by question and the judgements."""

    judge: str
    systems: Mapping[str, str]
    answers: Mapping[str, Mapping[str, str | None]]
    judgements: Mapping[str, list[Judgement]]


def card_of_runs(run: Path, against: Path, protocol: str) -> CardOfRuns:
    """The card of the judge of `run` against that of `against`, on the answers that both hold with the same text.

    A `UserError` where a folder holds several judges, or none of the answers is in both.
    """
    second, first = _judged(run), _judged(against)
    alike = [_alike(one, other) for one, other in ((first, second), (second, first))]
    scores = [_by_system(one, first.systems, protocol) for one in alike]
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
    card = judge_card(sides[0], sides[1])
    tables = card_tables(card, protocol)
    shared = {name: own for name, own in second.judgements.items() if name in alike[0]}
    corrected = corrections(_by_system(shared, first.systems, protocol), scores[0])
    part = corrected[corrected["labels"] < corrected["n"]]
    if len(part):
        tables["corrected"] = corrections_table(part, second.judge, first.judge)
    return CardOfRuns(card, tables)


def _by_system(
    judgements: Mapping[str, Sequence[Judgement]], systems: Mapping[str, str], protocol: str
) -> dict[str, pd.DataFrame]:
    """Scores by system: of several runs their mean, of a single one those of its arm, under its name."""
    frames: dict[str, dict[str, pd.DataFrame]] = {}
    for arm, own in judgements.items():
        frames.setdefault(systems[arm], {})[arm] = score_run(own, protocol)
    return {
        system if len(own) > 1 else next(iter(own)): mean_over_runs([*own.values()]) for system, own in frames.items()
    }


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
    systems: dict[str, str] = {}
    for folder, one in found.items():
        name = f"{one.size} {one.arm}" if len(sizes) > 1 else one.arm
        if name in answers:
            raise UserError(f"{run}: {name} stands in several parts; name one part.")
        answers[name] = {answer.probe_id: answer.text for own in stored_answers(folder).values() for answer in own}
        judgements[name] = stored_judgements(folder)
        systems[name] = f"{one.size} {system_of(one)}" if len(sizes) > 1 else system_of(one)
    return _Judged(judges[0], systems, answers, judgements)


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
    return {**card, "within_error": None if error != error else error, "means": card_sentences(found.card), **tables}


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    values = frame.astype(object)
    rows: list[dict[str, Any]] = values.where(values.notna(), None).to_dict("records")  # type: ignore[assignment]
    return rows
