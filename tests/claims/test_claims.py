"""The claims audit: complete, equal to the reference, and really computed from the tables."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from beam_claims.engine import BEAM_CLAIMS, ClaimResult, audit, markdown, status_counts
from beam_claims.terminal import render_claims, select
from beam_claims.values import STATUSES, Interval, figures, verdict
from beam_claims.versions import versions_page
from beamlib.data import published
from beamlib.errors import UserError
from commands import Call

SUBMITTED = [f"beam-{number:03}" for number in range(1, 119)]
NAMES = [f"beam-{number:03}" for number in range(1, 134) if number != 91]


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
    assert sum(status_counts(results).values()) == 132
    assert all(result.claim and result.section and result.source and result.printed for result in results)
    stored = {claim["id"]: claim["status"] for claim in BEAM_CLAIMS.declared()}
    assert {result.id: result.status for result in results} == stored
    unchecked = [result for result in results if result.status == "cannot be checked"]
    assert len(unchecked) == 14 and all(len(result.note) > 20 for result in unchecked)
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


def test_the_submission_equals_the_reference(shared: Path) -> None:
    reference = json.loads((shared / "reference" / "paper" / "claims.json").read_text(encoding="utf-8"))
    assert [claim["id"] for claim in reference] == SUBMITTED
    for ours, claim in zip(audit(paper="v1"), reference, strict=True):
        # The reference lets "every component contributes" hold in 13 of 16 cells; here claims on cells have one rule.
        status = "differs" if ours.id == "beam-071" else claim["status"]
        assert (ours.id, ours.status, ours.printed) == (claim["id"], status, claim["printed"])
        assert agree(json.loads(ours.model_dump_json())["recomputed"], claim["recomputed"]), ours.id
    for name in published.published_names("v1"):
        if name.startswith("table"):
            file = published.FILES[name]
            own = pd.read_csv(published.published_file(name, "v1"), dtype=str)
            pd.testing.assert_frame_equal(own, pd.read_csv(shared / "reference" / "paper" / file, dtype=str))


def test_the_new_columns_equal_the_reference(shared: Path) -> None:
    columns = {
        "rag_bge_large": ("table11", {"method": "RAG", "embedding": "bge-large"}),
        "light_bge_large": ("table11", {"method": "LIGHT", "embedding": "bge-large"}),
        "light_hnsw": ("table12", {"faiss_index": "IndexHNSWFlat"}),
        "readagent": ("table13", {"method": "ReadAgent"}),
    }
    reference = pd.read_csv(shared / "reference/paper/v2_tables_11_12_13.csv", dtype=str)
    for column, (table, series) in columns.items():
        frame = published.table(table)
        for name, value in series.items():
            frame = frame[frame[name] == value]
        assert list(zip(frame["length"], frame["ability"], frame["printed"], strict=True)) == list(
            reference[["length", "ability", column]].itertuples(index=False, name=None)
        )


def test_what_the_published_version_changed(results: list[ClaimResult]) -> None:
    cells = published.changed_cells()
    assert cells["table"].value_counts().to_dict() == {"table8": 21, "table9": 19, "table10": 19}
    assert set(cells["length"]) == {"100K", "500K", "10M"}
    columns = cells.groupby("table")["column"].unique().map(set).to_dict()
    assert columns["table9"] == {"5"} and columns["table10"] == {"dense"}
    changed = {result.id: result.submission for result in results if result.submission}
    assert changed["beam-124"] == "not stated" and "beam-041" not in changed
    assert changed["beam-079"] == "At 500K K=15 is +7.3% better than K=5: +7.3%: holds within rounding"
    assert "25 of 44" in changed["beam-029"]  # the submission's studies started from another system
    with pytest.raises(UserError, match=r"table11.*does not exist in v1"):
        published.table("table11", "v1")


def test_the_page_of_both_versions_is_the_one_that_the_command_writes(repo_root: Path) -> None:
    page = (repo_root / "docs/paper-versions.md").read_text("utf-8")
    assert page == versions_page() and page.count("| table") == 1 + 59


def test_a_mark_off_the_best_value_is_named() -> None:
    marks = published.table("bold_marks")
    place = (marks["table"] == "table1") & (marks["length"] == "1M") & (marks["ability"] == "Summarization")
    marks.loc[place & marks["series"].str.startswith("GPT"), "series"] = "GPT-4.1-nano / RAG"
    (after,) = [result for result in audit({"bold_marks": marks}) if result.id == "beam-103"]
    assert after.verdict == "differs: holds in 174 of 175 cells; rule: all"
    assert "table1 1M Summarization GPT-4.1-nano" in after.note


def test_claims_on_cells_have_one_rule(results: list[ClaimResult]) -> None:
    for result in [*results, *audit(paper="v1")]:
        if result.cells:
            held, of = result.cells
            assert result.rule == "all" and (result.status == "holds") == (held == of), result.id


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
    assert status["beam-064"] == "holds"
    # The submission's 0.266 is what the Average of 0.311 needs where the published version prints the base's 0.232.
    cells = {"length": "100K", "ability": "Summarization", "variant": "without_retrieval"}
    assert affected(audit(), changed("table8", "0.266", **cells)) >= {"beam-105"}
    with pytest.raises(UserError, match="'table14' does not exist"):
        audit({"table14": pd.DataFrame()})


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
    total = "132 claims: 70 holds, 17 holds within rounding, 31 differs, 14 cannot be checked"
    text, lines = render_claims(results), markdown(results).splitlines()
    assert text.splitlines()[-1] == total == lines[-1]
    assert all(name in text for name in NAMES)
    assert "[9.78, 9.21]" in text  # brackets are content, not markup
    assert [line.split(" | ")[0] for line in lines if line.startswith("| beam")] == [f"| {name}" for name in NAMES]
    assert set(STATUSES) == {result.status for result in results}


def test_claims_are_chosen_by_table_section_and_status(results: list[ClaimResult]) -> None:
    assert select(results) == results
    differing = select(results, status="differs")
    assert {claim.status for claim in differing} == {"differs"} and len(differing) < len(results)
    on_table = select(results, table="9")
    assert on_table and all(re.search(r"\b9\b|to 1\d", f"{claim.source} {claim.claim}") for claim in on_table)
    in_section = select(results, section="4.2", status="holds")
    assert in_section and all("4.2" in claim.section for claim in in_section)
    with pytest.raises(UserError, match="--status is 'maybe'"):
        select(results, status="maybe")
    with pytest.raises(UserError, match=r"no claim fits --table '99' --status 'holds'; leave"):
        select(results, table="99", status="holds")


def test_versions_ignore_no_option(called: Call) -> None:
    for words in (("--table", "9"), ("--status", "differs"), ("--json",)):
        refused = called("claims", "--versions", *words)
        assert refused.returncode == 2 and "leave the other options out" in refused.stderr, words


def test_claims_fit_eighty_columns(results: list[ClaimResult]) -> None:
    assert max(map(len, render_claims(results).splitlines()[:-1])) <= 80
