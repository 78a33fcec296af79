"""Which tables and figures stand where on the page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from beam_page import building, conversation_data
from beam_page.building import write_page
from beam_page.headlines import opening
from beam_page.replaying import Remade
from beam_page.run_folder import RunFolder, StoredArm, read_run
from beam_page.sections import sections_of, shown_section
from beamlib.data.loading import Loaded
from beamlib.report.outcomes import OUTCOMES


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


def test_every_share_of_where_answers_are_lost_leads_to_its_questions(tmp_path: Path, repo_root: Path) -> None:
    lines = ["size,ability,mean,series,outcome"]
    for outcome in OUTCOMES:
        lines += [f'100K,average,0.125,{series},"{outcome}"' for series in ("rag", "gone")]
    for size in ("10M", "100K", "500K"):
        path = tmp_path / f"tables/{size.lower()}/table1_outcomes.csv"
        path.parent.mkdir(parents=True)
        path.write_text("\n".join([*lines, "# a footer"]).replace("100K", size) + "\n")
    table, *others = building._lost(tmp_path, {"rag"})
    assert [(table["part"], table["size"]) for table in (table, *others)] == [(n, n) for n in ("100K", "500K", "10M")]
    page = (repo_root / "packages/beam_page/page.html.j2").read_text("utf-8")
    assert "&amp;size={{ table.size }}&amp;show={{ table.columns" in page  # of its own size alone
    assert table["rows"] == [("rag", ["0.125"] * len(OUTCOMES))]
    filters = (repo_root / "packages/beam_page/viewer/list.js").read_text("utf-8")
    assert all(f"\n  {show}: [" in filters for _, show in table["columns"])


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


def test_a_page_is_rebuilt_where_something_changed(
    page_run: Path, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / page_run.name
    shutil.copytree(page_run, run)
    before = {path.name: path.read_bytes() for path in (run / "page").iterdir() if path.name != "run.js"}
    recalled: list[str] = []
    recall = conversation_data.remade_contexts

    def note(run: RunFolder, arms: Sequence[StoredArm], loaded: Loaded) -> Remade:
        recalled.append(loaded.conversation.id)
        return recall(run, arms, loaded)

    monkeypatch.setattr(conversation_data, "remade_contexts", note)
    write_page(read_run(run, release))
    assert recalled == []
    assert {path.name: path.read_bytes() for path in (run / "page").iterdir() if path.name != "run.js"} == before
    (run / "page" / "m1.js").unlink()
    found = read_run(run, release)
    write_page(found)
    assert recalled == found.conversations[1:]
    assert {path.name: path.read_bytes() for path in (run / "page").iterdir() if path.name != "run.js"} == before
    key = conversation_data.conversation_data(found, found.conversations[0]).key
    arm = found.arms[0]
    other = replace(arm, answers={one: answer.model_copy(update={"text": "x"}) for one, answer in arm.answers.items()})
    changed = replace(found, arms=[other, *found.arms[1:]])
    assert conversation_data.conversation_data(changed, found.conversations[0]).key != key


def test_an_arm_that_is_left_out_is_named_once(tmp_path: Path) -> None:
    arm = tmp_path / "100k" / "none"
    arm.mkdir(parents=True)
    (arm / "judgements.jsonl").write_text("")
    assert read_run(tmp_path).left_out == {"100k/none": "it holds no judgement; run it to its end."}
