"""Estimated and realised cost side by side: sums, what is said about the difference, and the forms it leaves in."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from beam_commands.cost_table import cost_table, read_costs, save_costs
from beam_commands.costs import (
    Estimate,
    PendingRow,
    RealisedRow,
    compact,
    pending_line,
    realised,
    since,
)
from beam_commands.estimate import estimate_path, save_estimate
from beamlib.llm.stored_model import CallStore, StoredCall
from beamlib.params import RunParameters, load_parameters
from beamlib.run import Run
from beamlib.text import money

READER = {"stage": "answering", "role": "reader", "step": "answer", "model": "big"}
JUDGE = {"stage": "judging", "role": "judge", "step": "judge_nugget", "model": "small"}


def pending(row: dict[str, str], calls: int, tokens: tuple[int, int, int], dollars: float | None) -> PendingRow:
    sizes = dict(zip(("input_tokens", "cached_tokens", "output_tokens"), tokens, strict=True))
    return PendingRow.model_validate({**row, "calls": calls, "held": 3, **sizes, "dollars": dollars})


def made(
    row: dict[str, str], calls: int, tokens: tuple[int, int, int], dollars: float | None, **more: Any
) -> RealisedRow:
    sizes = dict(zip(("input_tokens", "cached_tokens", "output_tokens"), tokens, strict=True))
    more = {"failures": 0, "seconds": 1.5, **more}
    return RealisedRow.model_validate({**row, "calls": calls, **sizes, "dollars": dollars, **more})


def found(*rows: PendingRow, before: tuple[RealisedRow, ...] = ()) -> Estimate:
    return Estimate(
        size="100K",
        backbone="one",
        conversations=2,
        arms=("none",),
        rows=rows,
        counter="cl100k",
        longest={row.role: "700 of 8,000" for row in rows},
        before=before,
    )


BOTH = found(pending(READER, 20, (30_000, 20_000, 4_000), 1.5), pending(JUDGE, 100, (50_000, 0, 6_000), 0.25))


def numbers(table: str) -> list[dict[str, str]]:
    return list(csv.DictReader(line for line in table.splitlines() if not line.startswith("#")))


def test_estimate_and_run_stand_side_by_side_and_the_total_is_last() -> None:
    table = cost_table(
        BOTH, [made(READER, 20, (31_000, 19_000, 4_100), 1.6), made(JUDGE, 101, (52_000, 0, 6_200), 0.26)]
    )
    rows = numbers(table.to_csv())
    assert [row["stage"] for row in rows] == ["answering", "judging", "total"]
    total = rows[-1]
    assert (total["calls estimated"], total["calls realised"], total["calls held"]) == ("120", "121", "6")
    assert (total["input tokens estimated"], total["input tokens realised"]) == ("80000", "83000")
    assert (float(total["US dollars estimated"]), float(total["US dollars realised"])) == (1.75, 1.86)
    assert float(total["seconds waited"]) == 3.0
    for shown in (table.to_text(), table.to_markdown().replace("\\$", "$"), table.to_html()):
        assert "83,000" in shown
        assert "$1.86" in shown
        assert "They cost $1.86; the estimate of $1.75 was 6% too low." in shown


def test_what_was_off_is_said_plainly() -> None:
    table = cost_table(BOTH, [made(READER, 20, (31_000, 0, 9_000), 3.0), made(JUDGE, 150, (75_000, 0, 9_000), 0.4)])
    assert "170 calls were made where 120 were estimated." in table.footer
    assert "They cost $3.40; the estimate of $1.75 was 49% too low." in table.footer
    assert any(note.startswith("The endpoints reported no cached input") for note in table.footer)


def test_only_what_was_called_since_the_estimate_is_beside_it() -> None:
    before = (made(JUDGE, 40, (20_000, 0, 2_000), 0.1, failures=3, seconds=10.0),)
    estimated = BOTH.model_copy(update={"before": before})
    now = [
        made(JUDGE, 140, (70_000, 0, 8_000), 0.35, failures=1, seconds=40.0),  # two failures were made good
        made(READER, 20, (30_000, 20_000, 4_000), 1.5),
        made({**READER, "model": "another backbone"}, 20, (9, 9, 9), 9.0),
    ]
    rows = numbers(cost_table(estimated, now).to_csv())
    assert [(row["role"], row["calls realised"]) for row in rows] == [("reader", "20"), ("judge", "102"), ("", "122")]
    assert (rows[1]["input tokens realised"], float(rows[1]["seconds waited"])) == ("50000", 30.0)
    assert since(before, before) == []
    assert "The stores of this tier hold 180 calls, which cost $10.85." in cost_table(estimated, now).footer


def test_one_side_may_be_missing() -> None:
    spent = [made(READER, 20, (30_000, 20_000, 4_000), None)]
    alone = cost_table(None, spent)
    assert not any("estimated" in name for name in alone.cells)
    assert "The stores of this tier hold 20 calls, which cost an unknown sum." in alone.footer
    assert "No price is known for big: the models file names no price, or not the model." in alone.footer
    assert numbers(alone.to_csv())[-1]["US dollars realised"] == ""
    before = cost_table(BOTH, [])
    assert not any("realised" in name for name in before.cells)
    assert [row["role"] for row in numbers(before.to_csv())] == ["reader", "judge", ""]


def test_names_are_escaped() -> None:
    odd = {**READER, "model": "<b>|model"}
    table = cost_table(None, [made(odd, 1, (1, 0, 1), 0.1)])
    assert "<b>" not in table.to_html()
    assert "&lt;b&gt;\\|model" in table.to_markdown()


def test_the_line_for_notebooks() -> None:
    rows = (pending(READER, 1_234, (3_200_000, 2_100_000, 400_000), 1.234),)
    line = "1,234 calls to make (3 held): 3.2M input tokens (2.1M cached), 400K output, about $1.23"
    assert pending_line(found(*rows)) == line
    assert found(*rows).render().endswith(line)
    free = found(pending(READER, 1, (10, 0, 10), 0.0))
    assert pending_line(free) == (
        "1 call to make (3 held): 10 input tokens (0 cached), 10 output, nothing by the prices of the models file"
    )
    unknown = pending(READER, 1, (10, 0, 10), None)
    assert pending_line(found(unknown)).endswith("output, price unknown for big (see docs/models-file.md)")
    both = found(unknown, pending(JUDGE, 1, (10, 0, 10), 0.25))
    assert "output, at least $0.250, price unknown for big" in pending_line(both)
    assert "$0.00" not in both.render() + found(unknown).render() and "unknown" in found(unknown).render()
    assert pending_line(found(pending(READER, 0, (0, 0, 0), 0.0))) == (
        "0 calls to make (3 held): nothing is left to pay."
    )


def test_money_and_tokens_as_words() -> None:
    shown = {None: "–", 0.0: "$0.00", 0.00001: "under $0.0001", 0.00625: "$0.00625", 0.0499: "$0.0499", 0.5: "$0.500"}
    shown |= {1.234: "$1.23", 12.345: "$12.35", 99.994: "$99.99", 123.4: "$123", 12345.6: "$12,346"}
    assert {value: money(value) for value in shown} == shown
    assert [compact(n) for n in (0, 9_999, 10_000, 999_499, 999_500, 3_249_000)] == [
        "0", "9,999", "10K", "999K", "1.0M", "3.2M",
    ]  # fmt: skip


@given(st.floats(min_value=0.0001, max_value=1e6))
def test_money_is_shown_to_within_a_percent(dollars: float) -> None:
    assert float(money(dollars).strip("$").replace(",", "")) == pytest.approx(dollars, rel=0.01)


@pytest.fixture
def parameters(tmp_path: Path, repo_root: Path) -> RunParameters:
    endpoint = {"base_url": "http://127.0.0.1:9/v1", "context_window": 8_000, "input_price": 2.0, "output_price": 10.0}
    roles: dict[str, Any] = {
        role: {"model": "small", **endpoint} for role in ("memory", "compressor", "judge", "aligner")
    }
    roles["readers"] = {"one": {"model": "big", **endpoint}}
    (tmp_path / "models.yaml").write_text(yaml.safe_dump(roles))
    values = {"data": "none", "run": str(tmp_path / "run"), "models": str(tmp_path / "models.yaml")}
    return load_parameters(repo_root / "params/100k.yaml", **values)


def put(folder: Path, conversation: str, calls: list[dict[str, Any]]) -> None:
    with CallStore(folder / f"{conversation}.sqlite") as store:
        for number, call in enumerate(calls):
            values = {
                "key": f"{number:064x}",
                "conversation": conversation,
                "about": "",
                "base_url": "http://127.0.0.1:9/v1",
                "time": "2026-01-01T00:00:00+00:00",
                **call,
            }
            store.put(StoredCall.model_validate(values))


def test_what_the_stores_hold_is_summed_reading_included(parameters: RunParameters, tmp_path: Path) -> None:
    reply = {"text": "x", "input_tokens": 1_000, "output_tokens": 100, "cached_tokens": 10, "latency": 0.5}
    keys = {"role": "memory", "step": "episodic_keys", "model": "small", **reply}
    answer = {"role": "reader", "step": "answer", "model": "big", **reply}
    gone = {"role": "judge", "step": "judge_nugget", "model": "retired", **reply}
    failed = {"role": "reader", "step": "answer", "model": "big", "outcome": "content filter", "message": "no"}
    put(tmp_path / "run/calls/100k", "100K-1", [keys, keys, answer])
    put(tmp_path / "run/calls/100k", "100K-2", [keys, failed, gone])
    put(tmp_path / "run/calls/500k", "500K-1", [keys])  # another tier
    rows = realised(Run.of(parameters))
    assert [(row.stage, row.calls, row.failures, row.input_tokens, row.cached_tokens, row.seconds) for row in rows] == [
        ("memory reading", 3, 0, 3_000, 30, 1.5),
        ("answering", 2, 1, 1_000, 10, 0.5),
        ("judging", 1, 0, 1_000, 10, 0.5),
    ]
    # 3 x (1,000 x 2 + 100 x 10) dollars per million; cached input has no price of its own.
    assert rows[0].dollars == pytest.approx(0.009)
    assert rows[1].dollars == pytest.approx(0.003)
    assert rows[2].dollars is None


def test_costs_are_kept_for_the_page(parameters: RunParameters, tmp_path: Path) -> None:
    assert save_costs(Run.of(parameters)) is None
    save_estimate(BOTH, Run.of(parameters))
    answer = {"role": "reader", "step": "answer", "model": "big", "text": "x", "input_tokens": 90, "output_tokens": 9}
    put(tmp_path / "run/calls/100k", "100K-1", [answer])
    path = save_costs(Run.of(parameters))
    assert path == estimate_path(Run.of(parameters)).with_name("costs.json")
    assert path is not None
    first = path.read_bytes()
    value = json.loads(first)
    assert read_costs(value).to_csv() == cost_table(BOTH, realised(Run.of(parameters))).to_csv()
    assert read_costs(value).to_html().startswith('<figure class="costs">')
    save_costs(Run.of(parameters))
    assert path.read_bytes() == first
