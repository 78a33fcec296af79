"""The field on one scale: what is compared, what is not, and that published averages come out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from published_results import mem0

from beam_field import comparing, field_tables
from beam_field.comparing import FieldSystem, field_systems, imported_runs
from beam_field.importing import read_runs, write_runs
from beam_field.judging_again import JudgeOptions, judge_again
from beamlib.llm.model import OFFLINE_NAME
from beamlib.scoring.protocols import PROTOCOLS, REPORTED


@pytest.fixture(scope="module")
def systems() -> list[FieldSystem]:
    return field_systems()


def test_every_published_average_that_has_verdicts_is_reproduced(systems: list[FieldSystem]) -> None:
    frame = comparing.reproduced_averages(systems)
    assert len(frame) == 6
    assert frame["reproduced"].all()


def test_runs_of_a_system_are_runs_and_not_more_questions(systems: list[FieldSystem]) -> None:
    runs = {(one.name, one.source.tier): (len(one.runs), len(one.scores("as-published"))) for one in systems}
    assert runs["TrueMemory Pro", "1M"] == (3, 700)
    assert runs["cognee", "10M"] == (5, 20)
    assert sum(number for number, _ in runs.values()) == 17


def test_a_question_counts_with_the_mean_over_the_runs_that_have_it(systems: list[FieldSystem]) -> None:
    one = next(one for one in systems if len(one.runs) > 1)
    probe = one.runs[0][1][0].probe_id
    own = [j.reported.score for _, run in one.runs for j in run if j.probe_id == probe and j.reported]
    score = one.scores("as-published").set_index("probe_id").loc[probe, "score"]
    assert score == pytest.approx(np.mean([value for value in own if value is not None]))


def test_what_a_source_lacks_is_a_gap_that_is_named_and_not_filled(systems: list[FieldSystem]) -> None:
    whole = comparing.field_frame(systems)
    frame = whole.set_index(["system", "tier", "protocol"]).sort_index()
    assert set(frame.index.get_level_values("protocol")) == {*PROTOCOLS, *REPORTED}
    graded = frame.loc["Mem0 (platform), top 200", "1M"]
    assert graded.loc["paper", "missing"] == "event_ordering"
    assert np.isnan(graded.loc["paper", "mean"])
    assert graded.loc["nugget-mean", "mean"] == pytest.approx(0.6409, abs=1e-4)
    voted = frame.loc["TrueMemory Pro", "1M"]
    assert np.isnan(voted.loc["nugget-mean", "mean"])
    assert voted.loc["nugget-mean", "missing"].count(",") == 9
    assert (frame["unscored"] == 0).all()
    footer = " ".join(field_tables.scores_table(whole).footer)
    assert "Event Ordering: paper, released-code, f1-weighted of counts and nuggets" in footer


def test_only_what_shares_judge_verdicts_tier_and_questions_is_paired(systems: list[FieldSystem]) -> None:
    found = comparing.comparable_pairs(systems)
    for one in found:
        assert one.first.group == one.second.group
        assert one.comparison.difference >= 0
        assert one.questions == len(
            set(one.first.scores("as-published")["probe_id"]) & set(one.second.scores("as-published")["probe_id"])
        )
    judges = {(one.first.name, one.second.name) for one in found}
    assert not any("TrueMemory" in name for pair in judges for name in pair)  # alone with its votes


def cognee_of(systems: list[FieldSystem]) -> FieldSystem:
    return next(one for one in systems if (one.name, one.source.tier) == ("cognee", "10M"))


def renamed(one: FieldSystem, system: str, **told: str) -> FieldSystem:
    """The same system as another's, with something else told of it."""
    return FieldSystem(tuple((run.model_copy(update={"system": system, **told}), own) for run, own in one.runs))


def test_who_judged_by_the_same_prompt_may_be_compared_with_what_is_shipped(
    systems: list[FieldSystem], tmp_path: Path, field_data: Path
) -> None:
    value = json.loads(gzip.decompress((field_data / "mem0_1m_top50.json.gz").read_bytes()))
    for one in value["evaluations"]:
        one["cutoff_results"]["top_50"]["generated_answer"] += " Indeed."
    (tmp_path / "theirs.json").write_text(json.dumps(value))
    write_runs(read_runs([tmp_path / "theirs.json"]), tmp_path / "run")
    names = {
        (one.first.name, one.second.name)
        for one in comparing.comparable_pairs(field_systems(imported_runs(tmp_path / "run")))
    }
    assert ("Mem0 (platform), top 200", "Mem0, 50 memories") in names


@pytest.mark.parametrize("told", [{"judge": ""}, {"gold_in_prompt": "unknown"}, {"source": "beam-results"}])
def test_what_nobody_says_is_not_taken_for_the_same(systems: list[FieldSystem], told: dict[str, str]) -> None:
    graded = [one for one in systems if one.source.tier == "1M" and one.source.kind == "nuggets"]
    assert len(comparing.comparable_pairs(graded)) == 1
    doubtful = [renamed(one, one.name, **told) for one in graded]
    assert comparing.comparable_pairs(doubtful) == []
    assert "Not compared: nobody says" in "\n".join(field_tables.tier_answer(doubtful, "1M"))


def test_one_system_by_two_readers_is_two_rows(systems: list[FieldSystem]) -> None:
    both = [cognee_of(systems), renamed(cognee_of(systems), "cognee", reader="reader-2")]
    for made in (field_tables.abilities_table, field_tables.errata_table):
        assert list(made(both).cells["reader"]) == ["gpt-5", "reader-2"]
    assert "answered by gpt-5 or reader-2" in "\n".join(field_tables.tier_answer(both, "10M"))


def test_one_conversation_has_no_interval_and_no_winner(systems: list[FieldSystem]) -> None:
    text = "\n".join(field_tables.tier_answer(systems, "10M"))
    assert "cognee against" not in text  # another prompt, so another judge
    assert "cognee against cognee B: one conversation, no test." in "\n".join(
        field_tables.tier_answer([*systems, renamed(cognee_of(systems), "cognee B")], "10M")
    )
    assert "cognee 0.667 (one conversation)" in text
    assert "Mem0 (platform), top 200 minus Mem0 (platform), top 50, paired: +0.073" in text


def test_gold_in_the_prompt_stands_apart(systems: list[FieldSystem]) -> None:
    for table in field_tables.printed_tables().values():
        assert table.cells["gold in the answer prompt"].nunique() == 1
    one = renamed(systems[0], "x", gold_in_prompt="yes")
    apart = field_tables.split_by_gold_leak([*systems, one])
    assert apart == {"": systems, "_gold_shown": [one]}
    assert "gold in the answer prompt" in field_tables.scores_table(comparing.field_frame([one])).title
    assert "gold in the answer prompt: yes" in "\n".join(field_tables.tier_answer([one], one.source.tier))
    moves = field_tables.score_effects(systems)
    shown = set(moves.loc[moves["what"] == "systems, gold shown", "system"])
    hidden = set(moves.loc[moves["what"] == "systems, gold not shown", "system"])
    assert "past.dev" in shown
    assert not shown & hidden
    assert "Honcho" not in shown | hidden  # one ability has a special path


def test_the_figure_and_its_sentences_rest_on_the_same_numbers(systems: list[FieldSystem]) -> None:
    moves = field_tables.score_effects(systems)
    own = moves[moves["what"] == "protocol"]["value"]
    line = next(line for line in field_tables.effect_sentences(moves) if line.startswith("Protocol"))
    assert f"{100 * own.min():.1f} to {100 * own.max():.1f}, {100 * (own.max() - own.min()):.1f} points" in line
    figure = field_tables.effects_figure(moves, "1M")
    drawn = sum(len(line.get_xdata()) for line in figure.axes[0].lines if line.get_marker() == "o")
    assert drawn == len(moves)


def test_errata_take_away_the_questions_that_a_defect_spoils(systems: list[FieldSystem]) -> None:
    frame = comparing.errata_changes(systems).set_index(["system", "tier"])
    assert (frame["dropped"] <= frame["n"]).all()
    assert frame.loc[("cognee", "100K"), "dropped"] == 2
    assert frame.loc[("cognee", "100K"), "change"] > 0


def test_an_imported_run_and_a_second_judge_stand_beside_the_shipped_ones(tmp_path: Path, table: Path) -> None:
    file = tmp_path / "votes.json"
    file.write_text(json.dumps(mem0()))
    write_runs(read_runs([file], table=table), tmp_path / "run")
    judge_again(JudgeOptions(tmp_path / "run"))
    systems = field_systems(imported_runs(tmp_path / "run"))
    own = [one for one in systems if one.source.reader == "reader-9"]
    assert [one.source.judged_by for one in own] == [own[0].source.judged_by] * 2 + [OFFLINE_NAME] * 2
    assert [one.name for one in own] == [own[0].name, own[1].name] * 2  # two budgets of context are two systems
    assert own[0].name != own[1].name
    assert comparing.reproduced_averages(systems).equals(comparing.reproduced_averages(field_systems()))
    for made in (field_tables.abilities_table, field_tables.errata_table, field_tables.pairs_table):
        made(systems)  # two judges of one system are two rows
    assert len(field_tables.scores_table(comparing.field_frame(systems)).cells) == len(systems)
    text = "\n".join(field_tables.tier_answer(systems, "1M"))
    assert text.count("Judged by") == 4
    field_tables.score_effects(systems)


def test_what_is_shipped_is_not_taken_twice(tmp_path: Path, field_data: Path) -> None:
    write_runs(read_runs([field_data / "mem0_1m_top50.json.gz"]), tmp_path / "run")
    assert list(imported_runs(tmp_path / "run")) == []
