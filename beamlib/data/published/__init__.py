"""The values of the paper's Tables 1 to 13 as printed, misprints included (see README.md in this folder).

Two versions: `v2` is the published paper (ICLR 2026, arXiv 2510.27246v2), `v1` the anonymous submission.
"""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from beamlib.data.conversations import ABILITIES, Ability
from beamlib.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

Paper = Literal["v2", "v1"]
PAPERS: tuple[Paper, ...] = get_args(Paper)
"""The versions of the paper; the first is what tables, figures and claims show by default."""

PAPER_TITLES = {"v2": "ICLR 2026, arXiv 2510.27246v2", "v1": "submission"}

FILES = {
    "table1": "table1_main_results.csv",
    "table2": "table2_benchmark_comparison.csv",
    "table3": "table3_dataset_statistics.csv",
    "table4": "table4_human_evaluation.csv",
    "table5": "table5_domains_titles.csv",
    "table6": "table6_batching.csv",
    "table7": "table7_probe_deciles.csv",
    "table8": "table8_ablation.csv",
    "table9": "table9_retrieval_budget.csv",
    "table10": "table10_dense_sparse.csv",
    "table11": "table11_embedding_models.csv",
    "table12": "table12_indexing.csv",
    "table13": "table13_readagent.csv",
    "bold_marks": "bold_marks.csv",
    "misprints": "misprints.csv",
    "listings": "listings.csv",
    "appendix_examples": "appendix_examples.csv",
}
"""Name -> file. `bold_marks` lists the cells that are printed bold, `misprints` those that contradict their own Average
row, `listings` the prompts of the last appendix, `appendix_examples` the released questions that others show."""

_ONLY_IN_V2 = ("table11", "table12", "table13", "bold_marks")
_OTHER_IN_V1 = ("table8", "table9", "table10", "misprints")
"""What the folder v1 has files of; all other tables are equal in both versions."""

LENGTHS = ("100K", "500K", "1M", "10M")
"""Conversation lengths in the order of the paper. Tables 2, 3, 4 and 6 print 128K for the same set as 100K."""

AVERAGE = "Average"
"""Label of the row that averages the ten abilities in Tables 1, 8, 9 and 10."""

PRINTED_ABILITY: dict[Ability, str] = {
    ability: "Multi-Hop Reasoning" if ability == "multi_session_reasoning" else ability.replace("_", " ").title()
    for ability in ABILITIES
}
"""The data set's ability name -> the name that the published tables print."""

_ABILITY = {printed.casefold(): ability for ability, printed in PRINTED_ABILITY.items()}


def ability_of(printed: str) -> Ability:
    """Return the data set's name of a printed ability; Table 2 writes "Multi-hop", the others "Multi-Hop"."""
    try:
        return _ABILITY[printed.casefold()]
    except KeyError:
        known = ", ".join(PRINTED_ABILITY.values())
        raise UserError(f"ability {printed!r} is not one of the published ones; use one of: {known}.") from None


def published_names(paper: Paper = "v2") -> tuple[str, ...]:
    """Return the names of `FILES` that a version of the paper has."""
    if paper not in PAPERS:
        raise UserError(f"paper is {paper!r}; use one of: {', '.join(PAPERS)}.")
    return tuple(name for name in FILES if paper == "v2" or name not in _ONLY_IN_V2)


def published_file(name: str, paper: Paper = "v2") -> Path:
    """Return the path of one of `FILES` in a version of the paper."""
    folder = Path(__file__).parent / ("v1" if paper == "v1" and name in _OTHER_IN_V1 else "")
    return folder / FILES[name]


def table(name: str, paper: Paper = "v2") -> pd.DataFrame:
    """Load a published table in long form with the columns of its CSV file.

    `printed` is the string of the paper with trailing zeros, `score` or `percent` the same value as a number.
    """
    import pandas as pd  # here, because it takes 0.4 s, and generation rarely needs a table

    if name not in (names := published_names(paper)):
        where = f"{paper} ({PAPER_TITLES[paper]})"
        raise UserError(f"published table {name!r} does not exist in {where}; use one of: {', '.join(names)}.")
    # "N/A" is what the paper prints in Table 2; strings stay strings.
    texts = {"printed": str, "implied": str, "score": float}
    text = published_file(name, paper).read_text(encoding="utf-8")
    return pd.read_csv(StringIO(text), dtype=texts, keep_default_na=False)


def changed_cells() -> pd.DataFrame:
    """List the cells of score tables that the two versions print differently: place, `v1` and `v2`."""
    import pandas as pd

    parts = []
    for name in ("table8", "table9", "table10"):
        before, after = table(name, "v1"), table(name)
        place = [column for column in before if column not in ("printed", "score")]
        both = before.merge(after, on=place, suffixes=("_v1", "_v2"), validate="one_to_one")
        both = both[both["printed_v1"] != both["printed_v2"]].rename(
            columns={place[-1]: "column", "printed_v1": "v1", "printed_v2": "v2"}
        )
        parts.append(both.assign(table=name, column=both["column"].astype(str)))
    return pd.concat(parts, ignore_index=True)[["table", "length", "ability", "column", "v1", "v2"]]
