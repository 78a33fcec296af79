"""Human ratings of conversations (paper B.2, Table 4): three dimensions, five points, two raters."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from beam_generate.review import Agreement, cohens_kappa
from beamlib.data.conversations import SIZES
from beamlib.errors import UserError
from beamlib.files import read_text, write_text

DIMENSIONS = ("Coherence and Flow", "Dialogue Realism", "Complexity and Depth")
POINTS = 5
_COLUMNS = ["conversation", "rater", "dimension", "score"]
_PRINTED = {size: "128K" if size == "100K" else size for size in SIZES}


@dataclass(frozen=True, slots=True)
class Rating:
    """One rater's score (1 to 5) for one dimension of a conversation, whose id begins with its size (`100K-7`)."""

    conversation: str
    rater: str
    dimension: str
    score: int


@dataclass(frozen=True, slots=True)
class MeanScore:
    """A cell of Table 4; `n` ratings went into it (for the row `Average`: sizes)."""

    chat_size: str
    dimension: str
    score: float
    n: int


def read_ratings(path: Path) -> tuple[Rating, ...]:
    """Ratings of a CSV with the columns conversation, rater, dimension, score; what is wrong is a `UserError`."""
    reader = csv.DictReader(io.StringIO(read_text(path)))
    if reader.fieldnames != _COLUMNS:
        raise UserError(f"{path}: the first line must be {','.join(_COLUMNS)}, not {reader.fieldnames!r:.80}.")
    found: dict[tuple[str, str, str], Rating] = {}
    for row in reader:
        rating = _rating({str(key): value for key, value in row.items()}, f"{path}: line {reader.line_num}")
        key = (rating.conversation, rating.rater, rating.dimension)
        if key in found:
            raise UserError(f"{path}: line {reader.line_num}: {', '.join(key)} is rated twice; delete one of the two.")
        found[key] = rating
    raters = {rating.rater for rating in found.values()}
    if len(raters) > 2:
        raise UserError(f"{path}: has {len(raters)} raters ({', '.join(sorted(raters))}); a file holds at most two.")
    return tuple(found.values())


def _rating(row: dict[str, str | None], where: str) -> Rating:
    conversation, rater, dimension, score = (str(row.get(name) or "").strip() for name in _COLUMNS)
    size, dash, number = conversation.partition("-")
    if size not in SIZES or not dash or not number:
        raise UserError(f"{where}: conversation {conversation!r} has no size; write it like 100K-7.")
    if not rater:
        raise UserError(f"{where}: `rater` is empty; say who rated.")
    if dimension not in DIMENSIONS:
        raise UserError(f"{where}: dimension {dimension!r} is unknown; use {', '.join(DIMENSIONS)}.")
    if score not in {str(point) for point in range(1, POINTS + 1)}:
        raise UserError(f"{where}: score {score!r} must be a whole number from 1 to {POINTS}.")
    return Rating(conversation, rater, dimension, int(score))


def rate(path: Path, ratings: Sequence[Rating]) -> Path:
    """Put `ratings` into the file at `path`, in place of earlier ones by the same rater of the same conversation.

    The file is written in one go and in a fixed order; a file that cannot be read is a `UserError` and stays.
    """
    held = {(one.conversation, one.rater, one.dimension): one for one in (read_ratings(path) if path.exists() else ())}
    held |= {(one.conversation, one.rater, one.dimension): one for one in ratings}
    if len(raters := {rater for _, rater, _ in held}) > 2:
        raise UserError(f"{path}: has the raters {', '.join(sorted(raters))}; a file holds at most two, use another.")
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows([*key, held[key].score] for key in sorted(held))
    return write_text(path, buffer.getvalue())


def mean_scores(ratings: Sequence[Rating]) -> list[MeanScore]:
    """Means per size and dimension in the shape and order of Table 4, for the sizes that were rated.

    The last rows, `Average`, are means over the sizes, each with the same weight: that is what the printed ones are.
    """
    found = []
    for size in SIZES:
        for dimension in DIMENSIONS:
            scores = [
                one.score for one in ratings if one.conversation.startswith(f"{size}-") and one.dimension == dimension
            ]
            if scores:
                found.append(MeanScore(_PRINTED[size], dimension, sum(scores) / len(scores), len(scores)))
    for dimension in DIMENSIONS:
        means = [cell.score for cell in found if cell.dimension == dimension]
        if means:
            found.append(MeanScore("Average", dimension, sum(means) / len(means), len(means)))
    return found


def rater_agreement(ratings: Sequence[Rating]) -> dict[str, Agreement]:
    """Per dimension Cohen's kappa with quadratic weights between the two raters, over what both rated."""
    raters = sorted({rating.rater for rating in ratings})
    found = {}
    for dimension in DIMENSIONS:
        scores: list[dict[str, int]] = [
            {one.conversation: one.score for one in ratings if (one.rater, one.dimension) == (rater, dimension)}
            for rater in raters
        ]
        pairs = (
            [(scores[0][key], scores[1][key]) for key in sorted(scores[0]) if key in scores[1]]
            if len(scores) == 2
            else []
        )
        found[dimension] = cohens_kappa(pairs, _near)
    return found


def _near(one: int, other: int) -> Fraction:
    return 1 - Fraction((one - other) ** 2, (POINTS - 1) ** 2)
