"""Evidence recall: the measure, the table, and what the default index reaches on real conversations."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_commands.measuring import evidence_rows
from beamlib.data.conversations import Size
from beamlib.data.gold import Gold
from beamlib.errors import UserError
from beamlib.scoring.measured import BEST, evidence_recall

_KEYS = {"arm", "retriever", "size", "k", "ability"}


def gold(*evidence: int) -> Gold:
    return Gold("100K-1-q00", "100K-1", "summarization", ("nugget",), "", evidence, "easy")


def test_share_of_cited_messages() -> None:
    assert evidence_recall(gold(1, 2, 3, 4), [4, 2, 9, 2]) == 0.5
    assert evidence_recall(gold(1), []) == 0
    assert evidence_recall(gold(), [1, 2]) is None


@pytest.mark.parametrize(
    "memories, retrievers, ks, said",
    [
        (["rags"], ["bm25"], [5], "rags"),
        (["rag"], ["bm26"], [5], "bm26"),
        (["rag"], ["bm25"], [0], "budget"),
        (["rag"], ["bm25"], [], "empty"),
        ([], ["bm25"], [5], "empty"),
        (["rag"], ["bm25"], [31], "30 pairs"),
    ],
)
def test_bad_requests_are_one_sentence(memories: list[str], retrievers: list[str], ks: list[int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        evidence_rows(Path("nowhere"), ["100K"], memories, retrievers, ks)


def test_rows_and_workers(beam_data: Path) -> None:
    alone, both = (
        evidence_rows(beam_data, ["500K"], ["rag"], ["bm25"], [5, 20], workers=workers, quiet=True)
        for workers in (1, 2)
    )
    assert alone == both
    assert set(alone[0]) == {*_KEYS, "recall", "low", "high", "partial", "noted", "tokens", "n", "conversations"}
    for k in (5, 20):
        rows = {row["ability"]: row for row in alone if row["k"] == k}
        assert "abstention" not in rows
        parts = [row for ability, row in rows.items() if ability not in ("all", "average")]
        assert rows["all"]["n"] == sum(row["n"] for row in parts)
        spread = [row for row in rows.values() if row["low"] is not None]  # equal in all conversations: no interval
        assert {"all", "average"} <= {row["ability"] for row in spread} and 2 * len(spread) > len(rows)
        assert all(row["low"] < row["recall"] < row["high"] for row in spread if 0 < row["recall"] < 1)
        mean = sum(row["recall"] * row["n"] for row in parts) / rows["all"]["n"]
        assert rows["all"]["recall"] == pytest.approx(mean)
        assert rows["average"]["recall"] == pytest.approx(sum(row["recall"] for row in parts) / len(parts))
        assert rows["average"]["n"] == rows["all"]["n"]
    assert alone[0]["recall"] < next(row for row in alone if row["k"] == 20)["recall"]


def test_one_conversation_has_no_interval(repo_root: Path) -> None:
    rows = evidence_rows(repo_root / "beamlib/data/example", ["100K"], ["rag"], ["bm25"], [5], quiet=True)
    assert {(row["low"], row["high"], row["conversations"]) for row in rows} == {(None, None, 1)}


FITTED_ON = {
    ("100K", "light"): ((0.625, 0.741), (0.627, 0.737)),
    ("100K", "rag"): ((0.630, 0.744), (0.628, 0.743)),
    ("500K", "light"): ((0.608, 0.736), (0.605, 0.736)),
    ("500K", "rag"): ((0.606, 0.702), (0.601, 0.702)),
    ("1M", "light"): ((0.486, 0.566), (0.486, 0.566)),
    ("1M", "rag"): ((0.512, 0.641), (0.527, 0.644)),
}
"""Evidence recall at 5 and 15 of the default index as it is, then with weights from a fit that never saw the
conversation asked about (`scripts/fit_hybrid.py`). 1M was not fitted on: both are the same claim, over 17 questions."""


@pytest.mark.quick("1M")
@pytest.mark.parametrize("size", ["100K", "500K", "1M"])
def test_the_default_index_finds_what_it_is_said_to_find(beam_data: Path, size: Size) -> None:
    if not (beam_data / size).is_dir():
        pytest.skip(f"no {size} conversations in {beam_data}")
    rows = evidence_rows(beam_data, [size], ["light retrieval alone", "rag"], ["hybrid"], [5, 15], quiet=True)
    for memory in ("light", "rag"):
        found = [row["recall"] for row in rows if row["arm"].partition(" ")[0] == memory and row["ability"] == "all"]
        shipped, left_out = FITTED_ON[size, memory]
        assert found == pytest.approx(shipped, abs=0.01)
        assert found == pytest.approx(left_out, abs=0.015), "more than chance rests on having seen the questions"


def test_the_best_choice_of_pairs_is_measured_on_own_data_too(repo_root: Path) -> None:
    data = repo_root / "beamlib/data/example"
    rows = evidence_rows(data, ["100K"], [BEST, "rag"], ["bm25"], [5, 30], quiet=True)
    averages = {(row["arm"], row["k"]): row for row in rows if row["ability"] == "average"}
    assert averages[BEST, 30]["recall"] == 1 and averages[BEST, 30]["low"] is None
    assert averages[BEST, 5]["recall"] >= averages["rag", 5]["recall"]
