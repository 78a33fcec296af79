"""The claims audit: complete, equal to the reference, and really computed from the tables."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from beam_claims.engine import BEAM_CLAIMS, ClaimResult, audit, markdown, render_claims, status_counts
from beam_claims.values import STATUSES, Interval, figures, verdict
from beamlib.data import published
from beamlib.errors import UserError

NAMES = [f"beam-{number:03}" for number in range(1, 119)]


@pytest.fixture(scope="module")
def results() -> list[ClaimResult]:
    return audit()


def changed(table: str, printed: str, **cell: Any) -> dict[str, pd.DataFrame]:
    """The published table with one cell printed otherwise, and that it was there is asserted."""
    frame = published.table(table)
    rows = pd.Series(True, index=frame.index)
    for column, value in cell.items():
        rows &= frame[column] == value
    assert rows.sum() == 1
    frame.loc[rows, "printed"] = printed
    return {table: frame}


def affected(results: list[ClaimResult], replaced: dict[str, pd.DataFrame]) -> set[str]:
    """Claims whose status or recomputed value changes with a replaced table."""
    return {
        before.id
        for before, after in zip(results, audit(replaced), strict=True)
        if (before.status, before.recomputed) != (after.status, after.recomputed)
    }


def test_every_claim_is_there_once_with_its_stored_status(results: list[ClaimResult]) -> None:
    assert [result.id for result in results] == NAMES
    assert sum(status_counts(results).values()) == 118
    assert all(result.claim and result.section and result.source and result.printed for result in results)
    stored = {claim["id"]: claim["status"] for claim in BEAM_CLAIMS.declared()}
    assert {result.id: result.status for result in results} == stored
    unchecked = [result for result in results if result.status == "cannot be checked"]
    assert len(unchecked) == 13 and all(len(result.note) > 20 for result in unchecked)
    assert [result.id for result in unchecked if result.recomputed is not None] == ["beam-016"]


def agree(ours: Any, reference: Any) -> bool:
    """Equal, numbers within 0.01."""
    if isinstance(reference, dict):
        return (
            isinstance(ours, dict)
            and ours.keys() == reference.keys()
            and all(agree(ours[key], reference[key]) for key in reference)
        )
    if isinstance(reference, list):
        return isinstance(ours, list) and len(ours) == len(reference) and all(map(agree, ours, reference))
    if isinstance(reference, (int, float)) and not isinstance(reference, bool):
        return isinstance(ours, (int, float)) and ours == pytest.approx(reference, abs=0.01)
    return bool(ours == reference)


def test_equals_the_reference(results: list[ClaimResult], shared: Path) -> None:
    reference = json.loads((shared / "reference" / "paper" / "claims.json").read_text(encoding="utf-8"))
    assert [claim["id"] for claim in reference] == NAMES
    for ours, claim in zip(results, reference, strict=True):
        assert (ours.id, ours.status, ours.printed) == (claim["id"], claim["status"], claim["printed"])
        assert agree(json.loads(ours.model_dump_json())["recomputed"], claim["recomputed"]), ours.id
    for name, file in published.FILES.items():
        if name.startswith("table"):
            own = pd.read_csv(Path(published.__file__).parent / file, dtype=str)
            pd.testing.assert_frame_equal(own, pd.read_csv(shared / "reference" / "paper" / file, dtype=str))


def test_one_changed_score_changes_its_claims_and_no_other_tables(results: list[ClaimResult]) -> None:
    replaced = changed("table1", "0.330", length="100K", ability="Average", backbone="Llama-4-Maverick", method="LIGHT")
    found = affected(results, replaced)
    assert {"beam-039", "beam-104"} <= found
    sources = {result.id: result.source for result in results}
    assert all("Table 1" in sources[name] for name in found)
    after = {result.id: result for result in audit(replaced)}
    assert (after["beam-039"].status, after["beam-039"].recomputed) == ("differs", 37.5)
    assert after["beam-040"] == next(result for result in results if result.id == "beam-040")


def test_status_follows_the_cells() -> None:
    replaced = {
        **changed("table4", "4.80", chat_size="128K", dimension="Coherence and Flow"),
        **changed("table7", "6.23%", length="100K", decile=10),
        **changed("table8", "0.330", length="10M", ability="Average", variant="without_retrieval"),
        **changed("table9", "0.400", length="1M", ability="Average", k=10),
        **changed("table10", "0.328", length="500K", ability="Average", retriever="dense"),
    }
    after = {result.id: result.status for result in audit(replaced)}
    differs = ("beam-028", "beam-062", "beam-068", "beam-070", "beam-082", "beam-088", "beam-092", "beam-097")
    assert {after[claim] for claim in differs} == {"differs"}
    for claim in ("beam-041", "beam-065", "beam-087", "beam-093", "beam-098"):
        assert after[claim] == "holds", claim


def test_corrected_tables_let_claims_hold() -> None:
    messages = published.table("table3")
    messages.loc[messages["chat_size"] == "128K", "followup_questions"] = 10
    ablation = changed("table8", "0.083", length="10M", ability="Summarization", variant="without_working_memory")
    after = audit({"table3": messages, "table5": published.table("table5").head(100), **ablation})
    status = {result.id: result.status for result in after}
    assert (status["beam-001"], status["beam-026"]) == ("holds", "differs")
    assert (status["beam-023"], status["beam-108"]) == ("holds", "holds")
    assert (status["beam-064"], status["beam-105"]) == ("holds", "holds within rounding")
    with pytest.raises(UserError, match="'table11' does not exist"):
        audit({"table11": pd.DataFrame()})


def test_figures() -> None:
    for printed, found in {
        "3.5%-12.69%": ["3.5", "12.69"],
        "-0.003%": ["-0.003"],
        "2,000": ["2000"],
        "5, 18, 2": ["5", "18", "2"],
        "1-9": ["1", "9"],
        "K=15": ["15"],
        "ten": ["10"],
        "consistent rise": [],
    }.items():
        assert figures(printed) == [Decimal(text) for text in found]


def test_verdict_has_three_grades() -> None:
    assert verdict(Decimal("4.57"), Decimal("4.5725")) == "holds"
    assert verdict(Decimal("4.64"), Decimal("4.645")) == "holds within rounding"
    assert verdict(Decimal("4.66"), Decimal("4.645")) == "differs"
    assert verdict(Decimal("4.66"), Decimal("4.645"), Decimal("4.669")) == "holds within rounding"
    allowed = Interval(Decimal("4.6"), Decimal("4.7"))
    assert verdict(Decimal("4.66"), Decimal("4.645"), allowed=allowed) == "holds within rounding"
    assert verdict(Decimal("-0.8"), Decimal("0.8"), allowed=allowed) == "differs"


def test_shown_in_full(results: list[ClaimResult]) -> None:
    total = "118 claims: 53 holds, 19 holds within rounding, 33 differs, 13 cannot be checked."
    text, lines = render_claims(results), markdown(results).splitlines()
    assert text.splitlines()[-1] == total == lines[-1]
    assert all(name in text for name in NAMES)
    assert "[9.78, 9.21]" in text  # brackets are content, not markup
    assert [line.split(" | ")[0] for line in lines if line.startswith("| beam")] == [f"| {name}" for name in NAMES]
    assert set(STATUSES) == {result.status for result in results}
