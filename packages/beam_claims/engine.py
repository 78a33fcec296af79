"""The engine of claims: what a paper's text says, recomputed from its tables and from other evidence.

A file in `beamlib/data/published` declares the claims of a paper and the formula of each. `PaperClaims` joins it with
the modules of those formulas; `BEAM_CLAIMS` is that of the BEAM paper: `gains` (Table 1), `studies` (Tables 8 to 13
and single cells), `shape` (sizes, counts, ratings). A claim's rule says when it holds; claims of one kind have one rule
(`RULES`). The four statuses:

holds                  the printed inputs give the printed figure by ordinary rounding, or the comparison is true
holds within rounding  the figure is cut instead of rounded, or lies in the range that three-decimal inputs allow
differs                neither, or the comparison fails for some cells
cannot be checked      a setting, an outside fact or a figure that was lost; the note gives the reason
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict

from beam_claims import gains, shape, studies
from beam_claims.values import STATUSES, Status, Tables, unchecked
from beamlib.data.published import PAPERS, Paper
from beamlib.files import read_json
from beamlib.report.table import markdown_table


class ClaimResult(BaseModel):
    """One claim after the audit.

    `source` is what its formula looked at; `recomputed` consists of JSON types, in the unit of the printed figure.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    section: str
    claim: str
    source: str
    printed: str
    recomputed: Any
    status: Status
    note: str
    rule: str = ""
    cells: tuple[int, int] | None = None
    submission: str = ""

    @property
    def verdict(self) -> str:
        """The status with the cells that it rests on and the rule."""
        where = f" in {self.cells[0]} of {self.cells[1]} cells" if self.cells else ""
        if where and self.status == "differs":
            where = f": holds{where}"
        return f"{self.status}{where}" + (f"; rule: {self.rule}" if self.rule else "")


ALL_CELLS = "all"
FIGURE = "the printed figure, rounded or cut"
EQUAL = "equal"
RULES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "gains.wins", "gains.growth_of_gains", "gains.decline_with_length", "gains.extreme_ability",
            "studies.removal_signs", "studies.removal_growth", "studies.base_is_best", "studies.each_contributes",
            "studies.component_helps", "studies.best_depth", "studies.steady_rise", "studies.depth_signs",
            "studies.depth_drop", "studies.retriever_signs", "studies.beats", "studies.embedding_gains",
            "studies.marked_best", "studies.printed_precision", "studies.average_rows", "studies.differing_cells",
            "studies.equal_columns", "shape.verdict_grid", "shape.rater_grid", "shape.turns_in_range",
            "shape.message_sum", "shape.equal_messages", "shape.exchange_bound", "shape.fewer_questions",
            "shape.few_marks", "shape.last_share",
        ),
        ALL_CELLS,
    ),
    **dict.fromkeys(
        (
            "gains.improvement_range", "gains.improvement_floor", "gains.improvement_per_backbone",
            "gains.pooled_gain", "studies.relative_change", "studies.point_change", "shape.rating_mean",
            "shape.weighted_ratings", "shape.shares_sum", "shape.stated_length",
        ),
        FIGURE,
    ),
    **dict.fromkeys(
        (
            "gains.single_exception", "shape.distinct", "shape.questions", "shape.conversation_split",
            "shape.largest_label", "shape.count_named", "shape.new_abilities", "shape.abilities_except",
            "shape.listing_numbers", "shape.listing_count", "shape.total", "shape.choices", "shape.day_differences",
            "shape.covered", "shape.shortest_labels", "studies.compared_depths", "studies.unchanged",
        ),
        EQUAL,
    ),
    "gains.largest_gains": "first in rank",
    "search.formula_search": "one formula gives all",
    "studies.sparse_mean_gain": "above 0 on average",
    "studies.largest_difference": "below the bound in the note",
}  # fmt: skip
"""When a claim holds, by its formula; formulas of other papers and those that check nothing have no entry."""


@dataclass(frozen=True)
class PaperClaims:
    """The claims of a paper.

    `file` declares them, `source` is the field with what a claim's formula looks at, and `modules` are the modules of
    formulas by their name in the file.
    """

    file: str
    source: str
    modules: Mapping[str, ModuleType]

    def declared(self, paper: str = PAPERS[0]) -> list[dict[str, Any]]:
        """Return the claims as packaged: id, section, claim, printed, formula, parameters, status and source.

        A claim that another version of the paper states otherwise has a key `v1` with what differs there; one that a
        version does not state has None under that version's name.
        """
        packaged: list[dict[str, Any]] = read_json(Path(str(files("beamlib.data.published") / self.file)))
        stated = (
            claim | (claim.get(paper, {}) if paper != PAPERS[0] else {})
            for claim in packaged
            if claim.get(paper, {}) is not None
        )
        return [{name: value for name, value in claim.items() if name not in PAPERS} for claim in stated]

    def audit(
        self,
        evidence: Any,
        missing: Callable[[Mapping[str, Any]], str] = lambda claim: "",
        about: str = "",
        paper: str = PAPERS[0],
    ) -> list[ClaimResult]:
        """Recompute every claim from `evidence`, in order; the stored status is not read.

        Args:
            evidence: What the formulas of this paper take.
            missing: Returns why a claim cannot be checked with this evidence, "" if it can.
            about: Recompute only the claims whose source names this.
            paper: The version of the paper whose claims these are.
        """
        results = []
        named = re.compile(rf"{re.escape(about)}\b")  # "Table 1" is not "Table 10"
        for claim in (claim for claim in self.declared(paper) if named.search(claim[self.source])):
            module, function = claim["formula"].split(".")
            formula = getattr(self.modules[module], function)
            reason = missing(claim)
            outcome = unchecked(reason) if reason else formula(evidence, claim["printed"], **claim["parameters"])
            stated = {name: claim[name] for name in ("id", "section", "claim", "printed")}
            rule = "" if outcome.status == "cannot be checked" else RULES.get(claim["formula"], "")
            results.append(ClaimResult(**stated, source=claim[self.source], rule=rule, **asdict(outcome)))
        return results


BEAM_CLAIMS = PaperClaims(
    "claims.json", "source", {"gains": gains, "search": gains, "shape": shape, "studies": studies}
)


def audit(
    replaced: Mapping[str, pd.DataFrame] | None = None, *, about: str = "", paper: Paper = PAPERS[0]
) -> list[ClaimResult]:
    """Recompute every claim of the BEAM paper from its published tables, or those `about` one of them ("Table 9").

    Results of the published version say in `submission` what the submission printed and how that fared, where either
    differs. `replaced` frames take the place of published tables (`beamlib.data.published.FILES`), to show what another
    value would change. Raises `UserError` for a table that does not exist.
    """
    results = BEAM_CLAIMS.audit(Tables(replaced, paper), about=about, paper=paper)
    if paper != PAPERS[0]:
        return results
    before = {result.id: result for result in _submission()}
    return [result.model_copy(update={"submission": _before(result, before.get(result.id))}) for result in results]


@cache
def _submission() -> tuple[ClaimResult, ...]:
    return tuple(BEAM_CLAIMS.audit(Tables(paper="v1"), paper="v1"))


def _before(after: ClaimResult, before: ClaimResult | None) -> str:
    if before is None:
        return "not stated"
    if (before.printed, before.status, before.cells) == (after.printed, after.status, after.cells):
        return ""
    claim = "" if before.claim == after.claim else f"{before.claim}: "
    return f"{claim}{before.printed}: {before.verdict.partition('; rule')[0]}"


def status_counts(results: Sequence[ClaimResult]) -> dict[Status, int]:
    """Count the claims of each status, in the order of `STATUSES`."""
    return {status: sum(result.status == status for result in results) for status in STATUSES}


def compact_value(value: Any) -> str:
    """Write a recomputed value on one line."""
    if value is None:
        return "–"
    if isinstance(value, dict):
        return "; ".join(f"{key}: {compact_value(item)}" for key, item in value.items())
    if isinstance(value, list):
        return f"[{', '.join(map(compact_value, value))}]"
    return str(value)


def total_line(results: Sequence[ClaimResult]) -> str:
    """Write how many claims there are and how many of each status."""
    counts = ", ".join(f"{count} {status}" for status, count in status_counts(results).items())
    return f"{len(results)} claims: {counts}"


_HEADINGS = ("id", "section", "claim", "printed", "recomputed", "status", "note")


def claim_cells(result: ClaimResult) -> list[str]:
    """Write a claim as a row of a table."""
    note = result.note + (f" Submission: {result.submission}." if result.submission else "")
    values = (result.id, result.section, result.claim, result.printed, result.recomputed, result.verdict, note.strip())
    return [compact_value(value) for value in values]


def markdown(results: Sequence[ClaimResult]) -> str:
    """Return the audit as a Markdown table with its totals."""
    return markdown_table(_HEADINGS, [claim_cells(result) for result in results], footer=[total_line(results)])
