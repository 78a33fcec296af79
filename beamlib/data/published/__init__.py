"""The values of the paper's Tables 1 to 10 as printed, misprints included (see README.md in this folder)."""

from __future__ import annotations

from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from beamlib.data.conversations import ABILITIES, Ability
from beamlib.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

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
    "misprints": "misprints.csv",
    "listings": "listings.csv",
}
"""Name -> file. `misprints` lists cells that contradict their own Average row, `listings` the prompts of appendix G."""

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


def published_file(name: str) -> Path:
    """Return the path of one of `FILES`."""
    return Path(__file__).with_name(FILES[name])


def table(name: str) -> pd.DataFrame:
    """Load a published table in long form with the columns of its CSV file.

    `printed` is the string of the paper with trailing zeros, `score` or `percent` the same value as a number.
    """
    import pandas as pd  # here, because it takes 0.4 s, and generation rarely needs a table

    if name not in FILES:
        raise UserError(f"published table {name!r} does not exist; use one of: {', '.join(FILES)}.")
    text = (files(__package__) / FILES[name]).read_text(encoding="utf-8")
    # "N/A" is what the paper prints in Table 2; strings stay strings.
    texts = {"printed": str, "implied": str, "score": float}
    return pd.read_csv(StringIO(text), dtype=texts, keep_default_na=False)
