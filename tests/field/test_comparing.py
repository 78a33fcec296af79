"""The field on one scale: what is compared, what is not, and that published averages are reproduced."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from published_results import mem0

from beam_field import comparing, defective, field_overview, field_tables
from beam_field.comparing import FieldSystem, field_systems
from beam_field.importing import imported_runs, read_runs, write_runs
from beam_field.judging_again import JudgeOptions, judge_again
from beamlib.data.errata import load_errata
from beamlib.llm.model import OFFLINE_NAME
from beamlib.scoring.protocols import PROTOCOLS, REPORTED

pytestmark = pytest.mark.usefixtures("file_in_this_process")


@pytest.fixture(scope="module")
def systems() -> list[FieldSystem]:
    return field_systems()


def renamed(entry: FieldSystem, system: str, **facts: str) -> FieldSystem:
    """Return the same system under another name, with other facts."""
    return FieldSystem(tuple((run.model_copy(update={"system": system, **facts}), own) for run, own in entry.runs))


@pytest.fixture(scope="module")
def cognee(systems: list[FieldSystem]) -> FieldSystem:
    return next(entry for entry in systems if (entry.name, entry.source.tier) == ("cognee", "10M"))


def test_averages_are_reproduced_and_runs_of_a_system_are_not_more_questions(systems: list[FieldSystem]) -> None:
    frame = field_overview.reproduced_averages(systems)
    assert len(frame) == 6 and frame["reproduced"].all()
    runs = {(entry.name, entry.source.tier): (len(entry.runs), len(entry.scores("as-published"))) for entry in systems}
    assert runs["TrueMemory Pro", "1M"] == (3, 700) and runs["cognee", "10M"] == (5, 20)
    assert sum(number for number, _ in runs.values()) == 17
    several = next(entry for entry in systems if len(entry.runs) > 1)
    probe = several.runs[0][1][0].probe_id
    own = [j.reported.score for _, run in several.runs for j in run if j.probe_id == probe and j.reported]
    score = several.scores("as-published").set_index("probe_id").loc[probe, "score"]
    assert score == pytest.approx(np.mean([value for value in own if value is not None]))


def test_what_a_source_lacks_is_named_and_not_filled(systems: list[FieldSystem]) -> None:
    whole = field_overview.field_frame(systems)
    frame = whole.set_index(["system", "tier", "protocol"]).sort_index()
    assert set(frame.index.get_level_values("protocol")) == {*PROTOCOLS, *REPORTED}
    graded, voted = frame.loc["Mem0 (platform), top 200", "1M"], frame.loc["TrueMemory Pro", "1M"]
    assert graded.loc["paper", "missing"] == "event_ordering" and np.isnan(graded.loc["paper", "mean"])
    assert graded.loc["nugget-mean", "mean"] == pytest.approx(0.6409, abs=1e-4)
    assert voted.loc["nugget-mean", "missing"].count(",") == 9 and np.isnan(voted.loc["nugget-mean", "mean"])
    assert (frame["unscored"] == 0).all()
    footer = " ".join(field_overview.scores_table(whole).footer)
    assert "Event Ordering: paper, released-code, f1-weighted of counts and nuggets" in footer


def test_only_what_shares_judge_verdicts_tier_and_questions_is_paired(
    systems: list[FieldSystem], tmp_path: Path, field_data: Path
) -> None:
    for pair in comparing.comparable_pairs(systems):
        assert pair.first.group == pair.second.group and pair.comparison.difference >= 0
        shared = [set(entry.scores("as-published")["probe_id"]) for entry in (pair.first, pair.second)]
        assert pair.questions == len(shared[0] & shared[1])
        assert "TrueMemory" not in pair.first.name + pair.second.name  # alone with its votes
    value = json.loads(gzip.decompress((field_data / "mem0_1m_top50.json.gz").read_bytes()))
    for entry in value["evaluations"]:
        entry["cutoff_results"]["top_50"]["generated_answer"] += " Indeed."
    (tmp_path / "theirs.json").write_text(json.dumps(value))
    write_runs(read_runs([tmp_path / "theirs.json"]), tmp_path / "run")
    pairs = comparing.comparable_pairs(field_systems(imported_runs(tmp_path / "run")))
    assert ("Mem0 (platform), top 200", "Mem0, 50 memories") in {(pair.first.name, pair.second.name) for pair in pairs}
    write_runs(read_runs([field_data / "mem0_1m_top50.json.gz"]), tmp_path / "shipped")
    assert list(imported_runs(tmp_path / "shipped")) == []  # a shipped run is not taken twice


@pytest.mark.parametrize("facts", [{"judge": ""}, {"gold_in_prompt": "unknown"}, {"source": "beam-results"}])
def test_unknown_facts_are_not_taken_for_equal(systems: list[FieldSystem], facts: dict[str, str]) -> None:
    graded = [entry for entry in systems if entry.source.tier == "1M" and entry.source.kind == "nuggets"]
    assert len(comparing.comparable_pairs(graded)) == 1
    doubtful = [renamed(entry, entry.name, **facts) for entry in graded]
    assert comparing.comparable_pairs(doubtful) == []
    assert "Not compared: nobody says" in "\n".join(field_overview.tier_answer(doubtful, "1M"))


def test_answers_by_tier(systems: list[FieldSystem], cognee: FieldSystem) -> None:
    text = "\n".join(field_overview.tier_answer(systems, "10M"))
    assert "cognee 0.667 (one conversation)" in text
    assert "cognee against" not in text  # another prompt, so another judge
    assert "Mem0 (platform), top 200 minus Mem0 (platform), top 50, paired: +0.073" in text
    text = "\n".join(field_overview.tier_answer([*systems, renamed(cognee, "cognee B")], "10M"))
    assert "cognee against cognee B: one conversation, no test." in text
    both = [cognee, renamed(cognee, "cognee", reader="reader-2")]  # two readers are two rows
    for build, column in (
        (field_tables.abilities_table, "reader; judge: protocol"),
        (defective.errata_table, "reader"),
    ):
        readers = [cell.partition("; ")[0] for cell in build(both).cells[column]]
        assert readers == ["gpt-5", "reader-2"]
    assert "answered by gpt-5 or reader-2" in "\n".join(field_overview.tier_answer(both, "10M"))


def test_gold_in_the_prompt_is_shown_apart(systems: list[FieldSystem]) -> None:
    for table in field_overview.printed_tables().values():
        assert table.cells["gold in the answer prompt"].nunique() == 1
    leaked = renamed(systems[0], "x", gold_in_prompt="yes")
    assert field_overview.split_by_gold_leak([*systems, leaked]) == {"": systems, "_gold_shown": [leaked]}
    assert "gold in the answer prompt" in field_overview.scores_table(field_overview.field_frame([leaked])).title
    assert "gold in the answer prompt: yes" in "\n".join(field_overview.tier_answer([leaked], leaked.source.tier))
    effects = field_overview.score_effects(systems)
    by_what = effects.groupby("what")["system"].agg(set)
    shown, hidden = by_what["systems, gold shown"], by_what["systems, gold not shown"]
    assert "past.dev" in shown and not shown & hidden
    assert "Honcho" not in shown | hidden  # one ability has a special path


def test_the_figure_and_its_sentences_use_the_same_numbers(systems: list[FieldSystem]) -> None:
    effects = field_overview.score_effects(systems)
    own = effects[effects["what"] == "protocol"]["value"]
    line = next(line for line in field_overview.effect_sentences(effects) if line.startswith("Protocol"))
    assert f"{100 * own.min():.1f} to {100 * own.max():.1f}, {100 * (own.max() - own.min()):.1f} points" in line
    figure = field_overview.effects_figure(effects, "1M")
    assert sum(len(line.get_xdata()) for line in figure.axes[0].lines if line.get_marker() == "o") == len(effects)


def test_the_picture_has_every_score_and_hollow_marks_where_one_cannot_check(systems: list[FieldSystem]) -> None:
    frame = field_overview.systems_frame(systems)
    assert len(frame) == len(systems) + len(field_overview.only_printed())
    assert all(own["value"].is_monotonic_decreasing for _, own in frame.groupby("tier"))
    figure = field_overview.systems_figure(frame)
    shapes = {str(mark.get_marker()) for mark in figure.legends[0].get_lines()}
    assert len(shapes) == frame["judge"].nunique() > 8  # more than colours
    assert len(shapes & {*"ophH8"}) <= 1  # what looks like a circle stands for one judge
    marks = [line for axes in figure.axes for line in axes.lines if line.get_marker() != "None"]
    assert len(marks) == len(frame)
    for mark, (_, row) in zip(marks, frame.iterrows(), strict=True):
        assert float(mark.get_xdata()[0]) == row["value"]
        hollow = row["basis"] == "printed" or row["gold"] != "no"
        assert (mark.get_markerfacecolor() == "white") == hollow
    shapes = {(row["judge"], mark.get_marker()) for mark, (_, row) in zip(marks, frame.iterrows(), strict=True)}
    assert len(shapes) == frame["judge"].nunique() == len({shape for _, shape in shapes})


def test_errata_leave_out_the_questions_that_a_defect_spoils(systems: list[FieldSystem]) -> None:
    frame = defective.defect_effects(systems).set_index(["system", "tier"])
    assert (frame["dropped"] <= frame["n"]).all()
    spoilt = [own for own in load_errata().entries if own.question_id.startswith("100K-2-") and own.spoils_score]
    assert frame.loc[("cognee", "100K"), "dropped"] == len(spoilt) == 4
    assert frame.loc[("cognee", "100K"), "change"] > 0


def test_an_imported_run_and_a_second_judge_are_shown_beside_the_shipped_ones(tmp_path: Path, table: Path) -> None:
    file = tmp_path / "votes.json"
    file.write_text(json.dumps(mem0()))
    write_runs(read_runs([file], table=table), tmp_path / "run")
    judge_again(JudgeOptions(tmp_path / "run"))
    systems = field_systems(imported_runs(tmp_path / "run"))
    own = [entry for entry in systems if entry.source.reader == "reader-9"]
    assert [entry.source.judged_by for entry in own] == [own[0].source.judged_by] * 2 + [OFFLINE_NAME] * 2
    assert [entry.name for entry in own] == [own[0].name, own[1].name] * 2  # two budgets of context are two systems
    assert own[0].name != own[1].name
    assert field_overview.reproduced_averages(systems).equals(field_overview.reproduced_averages(field_systems()))
    for build in (field_tables.abilities_table, defective.errata_table, field_tables.pairs_table):
        build(systems)  # two judges of one system are two rows
    assert len(field_overview.scores_table(field_overview.field_frame(systems)).cells) == len(systems)
    assert "\n".join(field_overview.tier_answer(systems, "1M")).count("Judged by") == 4
    field_overview.score_effects(systems)


def test_scores_on_spoiled_questions_beside_those_that_are_expected(systems: list[FieldSystem]) -> None:
    frame = defective.defect_effects(systems).set_index(["tier", "system"])
    spoilt = {entry.question_id for entry in load_errata().entries if entry.spoils_score}
    for system in systems:
        row, scores = frame.loc[(system.source.tier, system.name)], system.scores().dropna(subset=["score"])
        lost = scores[scores["probe_id"].isin(spoilt)]
        assert row["dropped"] == len(lost) and row["rank"] >= 1
        if len(lost):
            assert row["spoiled"] == pytest.approx(lost["score"].mean())
    mem0 = frame.loc[("1M", "Mem0 (platform), top 200")]
    assert mem0["low"] < mem0["excess"] < mem0["high"] and mem0["excess"] == pytest.approx(
        mem0["spoiled"] - mem0["expected"]
    )


def test_what_is_spoiled_cannot_be_reached(systems: list[FieldSystem]) -> None:
    frame = defective.ceilings(systems).set_index(["tier", "ability"])
    assert frame.loc[("100K", "all"), "ceiling"] == pytest.approx(1 - frame.loc[("100K", "all"), "share"])
    equal = frame["low"].isna()  # a share that is the same in all conversations
    assert ((frame["low"] <= frame["ceiling"]) | equal).all() and (frame["ceiling"] <= frame["earning"]).all()
    assert not equal["all"] if "all" in equal.index else not equal.xs("all", level="ability").any()
    own = frame.loc["100K"]
    assert own.loc["all", "share"] == pytest.approx(own.drop("all")["share"].mean())  # two questions of each ability
    figure = defective.spoiled_figure(defective.spoiled_frame())
    assert [axes.get_title() for axes in figure.axes] == ["100K, 20 conversations", "1M, 3 conversations"]
    assert defective.ceilings_table(systems).cells["ability"].tolist()[0] == "all"
