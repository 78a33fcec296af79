"""The errata as a page that an author of the benchmark can act on, and what dropping them does to published scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader

from beam_claims.defects import ABOUT
from beamlib.data.conversations import SIZES
from beamlib.data.errata import Erratum, load_errata
from beamlib.errors import UserError
from beamlib.report.table import markdown_text

PAGE = "errata.md.j2"


def errata_page(verdicts: Path | None = None) -> str:
    """`docs/errata.md`: the list as a table, how it was found and, of a file of `verdicts`, what `drop` does to them.

    Raises `UserError` for a file that `published_effect` cannot use.
    """
    errata = load_errata()
    environment = Environment(loader=PackageLoader("beam_claims", ""), keep_trailing_newline=True)
    environment.filters["shown"] = lambda value: markdown_text(str(value))
    return environment.get_template(PAGE).render(
        version=errata.version,
        entries=errata.entries,
        summary=_summary(errata.entries),
        detectors=ABOUT,
        verdicts=verdicts.name if verdicts else "",
        effect=_effect_rows(published_effect(verdicts)) if verdicts else [],
    )


def _summary(entries: Sequence[Erratum]) -> list[list[object]]:
    rows: list[list[object]] = []
    for size in SIZES:
        own = [entry for entry in entries if entry.question_id.startswith(f"{size}-")]
        kinds = Counter(entry.kind for entry in own)
        spoilt = sum(entry.spoils_score for entry in own)
        rows.append([size, len(own), kinds["answer"], kinds["rubric"], kinds["evidence"], spoilt])
    return rows


VERDICT_COLUMNS = ("source", "run", "tier", "probe", "kind", "published")


def published_effect(path: Path) -> pd.DataFrame:
    """What `drop` does to published runs: a row per run with mean and rank (among the runs of its source and tier).

    `path`: a CSV of verdicts with `VERDICT_COLUMNS`, any number of rows per question; `published` is the question's
    score as its source has it. Where the judge saw the reference answer and no rubric (kind `votes`), questions with a
    wrong answer are dropped as well. A file that is no such CSV is a `UserError`.
    """
    try:
        rows = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as CSV ({error}); name a file of verdicts.") from None
    if missing := [name for name in VERDICT_COLUMNS if name not in rows]:
        raise UserError(f"{path}: the column '{missing[0]}' is missing; the columns are {', '.join(VERDICT_COLUMNS)}.")
    entries = load_errata().entries
    spoilt = {entry.question_id for entry in entries if entry.spoils_score}
    misled = spoilt | {entry.question_id for entry in entries if entry.kind == "answer"}
    keys = ["tier", "source", "run"]
    questions = rows.drop_duplicates([*keys, "probe"]).dropna(subset=["published"])
    out = questions["probe"].isin(spoilt) | ((questions["kind"] == "votes") & questions["probe"].isin(misled))
    effect = questions.groupby(keys)["published"].agg(["size", "mean"])
    kept = questions[~out].groupby(keys)["published"].agg(["size", "mean"])
    effect = effect.join(kept.add_suffix(" kept")).fillna({"size kept": 0})
    for name in ("mean", "mean kept"):
        effect[f"rank {name}"] = effect.groupby(level=["tier", "source"])[name].rank(ascending=False, method="min")
    places = [SIZES.index(tier) for tier in effect.index.get_level_values("tier")]
    return effect.assign(place=places).sort_values(["place", "source", "rank mean"]).drop(columns="place").reset_index()


def _effect_rows(effect: pd.DataFrame) -> list[list[object]]:
    return [
        [
            *(row["tier"], row["source"], row["run"], row["size"], f"{row['mean']:.4f}"),
            *(int(row["size"] - row["size kept"]), f"{row['mean kept']:.4f}", f"{row['mean kept'] - row['mean']:+.4f}"),
            f"{row['rank mean']:.0f} / {row['rank mean kept']:.0f}",
        ]
        for row in effect.to_dict("records")
    ]
