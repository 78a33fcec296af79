"""Evidence recall: the measure, the table, and what the retrievers reach on real conversations."""

from __future__ import annotations

from pathlib import Path

import pytest

from beamlib.benchmark.gold import Gold
from beamlib.benchmark.model import Size
from beamlib.errors import UserError
from beamlib.scoring.evidence import evidence_recall, evidence_table

_KEYS = {"memory", "retriever", "size", "k", "ability"}


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
    ],
)
def test_bad_requests_are_one_sentence(memories: list[str], retrievers: list[str], ks: list[int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        evidence_table(Path("nowhere"), ["100K"], memories, retrievers, ks)


def test_rows_and_workers(beam_data: Path) -> None:
    alone, both = (
        evidence_table(beam_data, ["500K"], ["rag"], ["bm25"], [5, 20], workers=workers, quiet=True)
        for workers in (1, 2)
    )
    assert alone == both
    assert set(alone[0]) == {*_KEYS, "recall", "low", "high", "n", "conversations"}
    for k in (5, 20):
        rows = {row["ability"]: row for row in alone if row["k"] == k}
        assert "abstention" not in rows
        parts = [row for ability, row in rows.items() if ability != "all"]
        assert rows["all"]["n"] == sum(row["n"] for row in parts)
        assert all(row["low"] < row["recall"] < row["high"] for row in rows.values() if 0 < row["recall"] < 1)
        mean = sum(row["recall"] * row["n"] for row in parts) / rows["all"]["n"]
        assert rows["all"]["recall"] == pytest.approx(mean)
    assert alone[0]["recall"] < next(row for row in alone if row["k"] == 20)["recall"]


def test_one_conversation_has_no_interval(repo_root: Path) -> None:
    rows = evidence_table(repo_root / "beamlib/benchmark/example", ["100K"], ["rag"], ["bm25"], [5], quiet=True)
    assert {(row["low"], row["high"], row["conversations"]) for row in rows} == {(None, None, 1)}


@pytest.mark.parametrize("size, least", [("100K", 0.64), ("500K", 0.62), ("1M", 0.48)])
def test_the_default_retriever_does_not_get_worse(beam_data: Path, size: Size, least: float) -> None:
    """A little below what was measured on the developers' conversations; other data may be harder."""
    if not (beam_data / size).is_dir():
        pytest.skip(f"no {size} conversations in {beam_data}")
    rows = evidence_table(beam_data, [size], ["light"], ["embedded"], [5], workers=1, quiet=True)
    assert rows[0]["ability"] == "all"
    assert rows[0]["recall"] >= least
