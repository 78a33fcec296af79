"""Which tables and figures stand where on the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam_page.headlines import opening
from beam_page.run_folder import RunFolder
from beam_page.sections import sections_of, shown_section


def titles(run: Path, part: str) -> list[str]:
    (section,) = (one for one in sections_of(RunFolder(run, ()), {}) if one.part == part)
    return [one["title"] for one in shown_section(run, section)["tables"]]


def test_a_tier_shows_what_all_sizes_do_not(tmp_path: Path) -> None:
    for part in ("all", "100k", "100k-a"):
        for name in ("table1_main_results", "errata_effect") if part != "all" else ("table1_main_results",):
            path = tmp_path / f"tables/{part}/{name}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("<table></table>")
    record = tmp_path / "figures/all/figure3_ablation.json"
    record.parent.mkdir(parents=True)
    values = {"inputs": {"judgements": {"100k/light": "x"}}, "caption": "", "alt_text": ""}
    record.write_text(json.dumps(values))
    (tmp_path / "figures/all/figure3_ablation.png").write_bytes(bytes(24))
    assert titles(tmp_path, "all") == ["table1 main results"]
    assert titles(tmp_path, "100k") == ["errata effect"]
    assert titles(tmp_path, "100k-a") == ["errata effect", "table1 main results"]  # by another judge: left out of all


@pytest.mark.parametrize(
    ("average", "opened"),
    [
        ([None, None, None, 9, 3, 0], "nugget-mean"),  # not computable from its source
        ([None, None, None, 9, 3, 1], "paper"),  # failed calls are no reason for another protocol
        (["0.5", None, None, 9, 1, 0], "paper"),
    ],
)
def test_a_page_opens_with_the_first_protocol_that_is_computable(average: list[object], opened: str) -> None:
    def numbers(found: list[object]) -> dict[str, object]:
        return {"full": {"one": {"1M": {"average": found}}}}

    known = {"paper": numbers(average), "nugget-mean": numbers(["0.5", None, None, 10, 1, 0])}
    assert opening(known, {"one"}) == opened
