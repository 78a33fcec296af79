"""How much a judge's scores change when everything is asked again (parameter `judge_repeats`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from beamlib.data.gold import ABILITIES
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import AVERAGE, ability_cells, present_sizes, score_repeats

if TYPE_CHECKING:
    import pandas as pd  # where it is used: a process that only asks a judge needs no tables, and it takes 0.4 s

COLUMNS = ("size", "ability", "sd", "changed", "n_nuggets", "n_questions", "missing")
"""After these stand `mean_1` to `mean_R`, one per repeat."""


def judge_spread(judgements: Sequence[Judgement], protocol: str) -> pd.DataFrame:
    """Spread over R repeats per size and ability, and for the `average`; columns `COLUMNS` and `mean_1` to `mean_R`.

    `mean_r` is the mean of the r-th repeat by itself, made as `summarise` makes it, and `sd` the standard deviation of
    these R means (with R - 1; NaN for one repeat). `changed` is the share of `n_nuggets` nuggets whose verdict is not
    the same in all repeats, verdicts only: nuggets with a verdict in fewer than two repeats are left out. `n_questions`
    have a score in some repeat; `missing` counts the scores that these lack in other repeats, which leave them out of
    their means. Raises `UserError` as `score_run` does.
    """
    import pandas as pd

    repeats = score_repeats(judgements, protocol)
    nuggets = _nuggets(judgements)
    rows: list[dict[str, float | int | str]] = []
    for size in present_sizes(repeats[0]):
        frames = [frame[frame["size"] == size] for frame in repeats]
        present = set(frames[0]["ability"])
        abilities = [ability for ability in ABILITIES if ability in present]
        means = np.array([_means(frame, abilities) for frame in frames])  # (repeats, abilities)
        columns = zip([*abilities, AVERAGE], [*means.T, means.mean(axis=1)], strict=True)
        for ability, values in columns:
            chosen = abilities if ability == AVERAGE else [ability]
            flags = [flag for name in chosen for flag in nuggets.get((size, name), ())]
            scored = [frame.loc[frame["ability"].isin(chosen)].set_index("probe_id")["score"] for frame in frames]
            given = pd.concat(scored, axis=1).notna().sum(axis=1)
            rows.append(
                {
                    "size": size,
                    "ability": ability,
                    "sd": float(values.std(ddof=1)) if len(values) > 1 else np.nan,
                    "changed": float(np.mean(flags)) if flags else np.nan,
                    "n_nuggets": len(flags),
                    "n_questions": int((given > 0).sum()),
                    "missing": int((len(repeats) - given[given > 0]).sum()),
                    **{f"mean_{number}": float(value) for number, value in enumerate(values, start=1)},
                }
            )
    return pd.DataFrame(rows, columns=[*COLUMNS, *(f"mean_{number}" for number in range(1, len(repeats) + 1))])


def _means(scores: pd.DataFrame, abilities: Sequence[str]) -> list[float]:
    """One mean per ability: over a conversation's questions, then over conversations; NaN without any score."""
    cells = ability_cells(scores, abilities)
    return [float(kept.mean()) if (kept := column[~np.isnan(column)]).size else np.nan for column in cells.T]


def _nuggets(judgements: Sequence[Judgement]) -> Mapping[tuple[str, str], list[bool]]:
    """By size and ability, for each nugget with at least two verdicts, whether they differ."""
    found: dict[tuple[str, str], list[bool]] = {}
    for judgement in judgements:
        size = judgement.conversation_id.partition("-")[0]
        asked = zip(*(own.verdicts for own in judgement.rounds), strict=True)
        for verdicts in asked:
            scores = [verdict.score for verdict in verdicts if verdict.score is not None]
            if len(scores) > 1:
                found.setdefault((size, judgement.ability), []).append(len(set(scores)) > 1)
    return found
