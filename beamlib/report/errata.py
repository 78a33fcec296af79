"""The errata as a page that an author of the benchmark can act on, and what dropping them does to published scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from beamlib.benchmark.audit import ABOUT
from beamlib.benchmark.errata import Erratum, load_errata
from beamlib.benchmark.model import SIZES
from beamlib.errors import UserError

_PAGE = """# Errata of the released BEAM questions

Version {version}: {count} questions. The list is `beamlib/benchmark/errata.json`; this page is `beamlib data errata`.

Every entry was read: *checked* says by whom and how. *Kind* `answer`: what is expected, or the question itself, is
wrong or cannot be known from the chat. `rubric`: only the rubric is wrong. `evidence`: only the cited messages are.
*Spoils*: a right answer can lose points by it, or a wrong one gain some. The judge reads the rubric alone, so a wrong
reference beside a right rubric spoils nothing here (a judge that reads the reference is misled by it). Message ids are
those of the evaluated chat, cut where a cut exists; in the uncut one a fact may stand that was cut off.

`errata: none` ignores the list, `flag` marks the questions, `drop` leaves out those whose defect can spoil a score. An
entry holds the hash of its question, so other data under the same ids is not touched.

{summary}

## What finds them

`beamlib data audit FOLDER` runs these detectors; most need no chat. A finding is a reason to read, not an erratum.

{detectors}

## The list

{entries}
"""


def errata_page() -> str:
    """`docs/errata.md`, but for what it says of published scores."""
    errata = load_errata()
    return _PAGE.format(
        version=errata.version,
        count=len(errata.entries),
        summary=_table(
            ["tier", "questions", "answer", "rubric", "evidence", "can spoil a score"], _summary(errata.entries)
        ),
        detectors="\n".join(f"- `{name}`: {about}" for name, about in ABOUT.items()),
        entries=_table(
            ["question", "ability", "kind", "spoils", "what is wrong", "messages", "detectors", "checked"],
            [_row(entry) for entry in errata.entries],
        ),
    )


def _summary(entries: Sequence[Erratum]) -> list[list[object]]:
    rows: list[list[object]] = []
    for size in SIZES:
        own = [entry for entry in entries if entry.question_id.startswith(f"{size}-")]
        kinds = Counter(entry.kind for entry in own)
        spoilt = sum(entry.spoils_score for entry in own)
        rows.append([size, len(own), kinds["answer"], kinds["rubric"], kinds["evidence"], spoilt])
    return rows


def _row(entry: Erratum) -> list[object]:
    return [
        entry.question_id,
        entry.ability,
        entry.kind,
        "yes" if entry.spoils_score else "no",
        entry.defect,
        ", ".join(map(str, entry.message_ids)),
        ", ".join(entry.detectors),
        "; ".join(entry.checked),
    ]


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


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
    effect = effect.join(kept, rsuffix=" kept").fillna({"size kept": 0})
    for name in ("mean", "mean kept"):
        effect[f"rank {name}"] = effect.groupby(level=["tier", "source"])[name].rank(ascending=False, method="min")
    places = [SIZES.index(tier) for tier in effect.index.get_level_values("tier")]
    return effect.assign(place=places).sort_values(["place", "source", "rank mean"]).drop(columns="place").reset_index()


_EFFECT = """
## What they do to published scores

Means over questions of the scores that the sources publish, with all questions (`none`, `flag`) and without those that
can spoil a score (`drop`); the rank is that among the runs of the same source and tier. Runs of truememory were judged
against the reference answer: there questions with a wrong answer are dropped too. Verdicts: {name}; no intervals.

{table}
"""


def effect_section(path: Path) -> str:
    """The section of `docs/errata.md` on published scores, from a file of verdicts (see `published_effect`)."""
    rows = [
        [
            *(row["tier"], row["source"], row["run"], row["size"], f"{row['mean']:.4f}"),
            *(int(row["size"] - row["size kept"]), f"{row['mean kept']:.4f}", f"{row['mean kept'] - row['mean']:+.4f}"),
            f"{row['rank mean']:.0f} / {row['rank mean kept']:.0f}",
        ]
        for row in published_effect(path).to_dict("records")
    ]
    columns = ["tier", "source", "run", "n", "none, flag", "dropped", "drop", "change", "rank before / after"]
    return _EFFECT.format(name=path.name, table=_table(columns, rows))
