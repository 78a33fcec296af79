"""MemoryCode's tables and figures: what is drawn equals what pandas computes from the verdicts alone."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.container import BarContainer

from beam_memorycode import memorycode_figures as figures
from beam_memorycode.dialogue_files import LoadedDialogue, load_dialogues
from beam_memorycode.dialogues import Dialogue, DialogueSession, Mention, Setting, Topic
from beam_memorycode.memorycode_figures import (
    count_frame,
    form_of,
    instruction_frame,
    mentioned,
    rank_frame,
    setup_frame,
    verdict_frame,
)
from beam_memorycode.memorycode_tables import order_table, own_table, table4, variant_table
from beam_memorycode.outputs import Outputs, find_outputs
from beam_memorycode.rule_scoring import SCORING_VARIANTS, Scorer, score_outputs
from beam_memorycode.rules import DialogueRules, Rule
from beam_memorycode.scored import (
    TABLE4_ROWS,
    Published,
    ScoredModel,
    is_published,
    paper_table,
    row_of,
    score_model,
    sort_models,
)
from beam_memorycode.study import Study, chosen_series, subject_of
from beamlib.errors import UserError
from beamlib.llm.model import OFFLINE_NAME
from beamlib.report.figures import save_figure

CONTEXT = Setting("Ada", "Ben", "Acme")
QUERY = "function that adds two numbers"
PREFIX = {0: Rule("function", "^a_.*"), 1: Rule("function", "^b_.*")}
DOCSTRING = Rule("function docstring", True)
ARGUMENT = Rule("function argument", r".*_e$")

NEITHER = "def add(x_e, y):\n    return x_e + y\n"
NAMED = "def b_add(x_e, y):\n    return x_e + y\n"
BOTH = 'def b_add(x, y_e):\n    """Add."""\n    return x + y_e\n'
NO_FUNCTION = "total = 1 + 1\n"
BROKEN = "def b_add(:\n"


def session(*mentions: tuple[int, int]) -> DialogueSession:
    topics = tuple(Topic("instruction-add", f"wording {number}.{value}") for number, value in mentions)
    return DialogueSession(
        topics, tuple(Mention(*one) for one in mentions), (QUERY,) * len(mentions), "short", None, "Ada: hi"
    )


def item(number: int, answers: list[str | None], update: bool) -> tuple[LoadedDialogue, Outputs]:
    """A dialogue of two sessions: instruction 6 (a prefix, updated or not), then 23 and 15; history answers given."""
    first, last = session((6, 0)), session((23, 0), (15, 0), *([(6, 1)] if update else []))
    rules = ((PREFIX[0],), (DOCSTRING, ARGUMENT, *([PREFIX[1]] if update else [])))
    dialogue = Dialogue(number, CONTEXT, (first, last), tuple(f"{QUERY} {place}" for place in range(len(answers))))
    history = (PREFIX[int(update)], DOCSTRING, ARGUMENT)
    return LoadedDialogue(dialogue, DialogueRules(number, rules, history)), Outputs(number, history=tuple(answers))


def small(name: str = "gpt-4o", **changed: bool) -> ScoredModel:
    pairs = [
        item(1, [BOTH, NEITHER, None], update=True),
        item(2, [NAMED, BROKEN], update=True),
        item(3, [NO_FUNCTION, BOTH], update=False),
    ]
    items = tuple(pair[0] for pair in pairs)
    outputs = {pair[1].dialogue_id: pair[1] for pair in pairs}
    return ScoredModel(name, items, tuple(score_outputs(items, outputs)), outputs, **changed)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("Meta-Llama-3.1-8B-Instruct-Turbo", "Llama 3.1 8B"),
        ("llama-3.1-8b-instruct", "Llama 3.1 8B"),
        ("Meta-Llama-3.1-70B-Instruct-Turbo", "Llama 3.1 70B"),
        ("Meta-Llama-3.1-405B-Instruct-Turbo", "Llama 3.1 405B"),
        ("command-r-plus", "Command R+"),
        ("command-r-plus-08-2024", "Command R+"),
        ("command-a-03-2025", "Command A"),
        ("gpt-4o", "GPT-4o"),
        ("gpt-4o-2024-08-06", "GPT-4o"),
        ("deepseek-v3", "DeepSeek-V3"),
        ("DeepSeek-R1", "DeepSeek-R1"),
        ("gpt-4o-mini", None),
        ("gpt-4o-chain", None),
        ("llama-3.3-70b-instruct", None),
        ("DeepSeek-R1-Distill-Llama-70B", None),
        ("command-r7b", None),
        ("my-own-model", None),
    ],
)
def test_folder_names_find_their_row(name: str, row: str | None) -> None:
    assert row_of(name) == row


def test_rows_are_those_of_table_4() -> None:
    assert Published().models == tuple(TABLE4_ROWS)
    assert [one.name for one in sort_models([small("zed"), small("gpt-4o"), small("llama-3.1-8b")])] == [
        "llama-3.1-8b",
        "gpt-4o",
        "zed",
    ]
    assert small(offline=True).row is None
    assert small(own=True).row is None


def test_packaged_values_equal_the_reference(shared: Path) -> None:
    for name, file in (("table1", "table1_parameters"), ("table2", "table2_statistics"), ("table4", "table4_scores")):
        theirs = pd.read_csv(shared / "reference/paper" / f"memorycode_{file}.csv", dtype=str, keep_default_na=False)
        pd.testing.assert_frame_equal(paper_table(name), theirs)


def test_frames_of_a_small_set_by_hand() -> None:
    model = small()
    # Answers: 1: 2/3 (argument fails), 1/3; 2: 2/3, 0 (broken); 3: nothing applies, 1/3.
    expected = {1: Fraction(1, 2), 2: Fraction(1, 3), 3: Fraction(1, 3)}
    assert model.scores("history") == expected
    counts = count_frame({"line": model})
    assert counts[["model", "sessions", "n"]].to_numpy().tolist() == [["line", 2, 3]]
    assert counts["mean"][0] == pytest.approx(float(sum(expected.values()) / 3))
    setups = setup_frame([model])
    assert list(setups["setup"]) == ["Short history"]

    verdicts = verdict_frame(model)
    assert len(verdicts) == 6 * 3  # six scored answers, three rules each; the unscored one has none
    assert set(verdicts["instruction"]) == {6, 15, 23}
    ranks = rank_frame(verdicts)
    # Rank 1: instruction 6 in dialogues 1 (1, 0) and 2 (1, 0); rank 0: 1 (1, 0; 0, 1), 2 (0, 0; 1, 0), 3 (1; 0), 6 (0).
    assert ranks[["rank", "n", "applied"]].to_numpy().tolist() == [[0, 3, 11], [1, 2, 4]]
    assert list(ranks["mean"]) == pytest.approx([(2 / 4 + 1 / 4 + 1 / 3) / 3, (1 / 2 + 1 / 2) / 2])
    kept, replaced = (instruction_frame(verdicts, updated=updated) for updated in (False, True))
    assert dict(zip(kept["label"], kept["mean"], strict=True)) == pytest.approx(
        {"function: prefix": 0.0, "function argument: suffix": (1 / 2 + 1 / 2 + 0) / 3, "function docstring": 0.5}
    )
    assert list(kept["mean"]) == sorted(kept["mean"], reverse=True)
    assert list(replaced["label"]) == ["function: prefix"]


def test_rules_without_an_instruction_are_refused() -> None:
    model = small()
    longer = tuple(replace(answer, rules=(*answer.rules, DOCSTRING)) for answer in model.answers)
    with pytest.raises(UserError, match="dialogue_1: history_regex has 4 rules for 3 instructions"):
        verdict_frame(replace(model, answers=longer))


def test_forms() -> None:
    rules = [
        Rule("class", "^[a-z0-9_]*$"), Rule("method", r".*\d$"), Rule("variable", ".*chx.*"),
        Rule("import", ("bz2", True)), Rule("comment", True), Rule("comment", False), PREFIX[0], ARGUMENT,
    ]  # fmt: skip
    assert [form_of(rule) for rule in rules] == [
        "case", "final digit", "chx", "bz2", "present", "none", "prefix", "suffix",
    ]  # fmt: skip


def test_other_readings_equal_scoring_anew() -> None:
    model = small()
    for variant in SCORING_VARIANTS.values():
        assert model.read_as(variant.reading) == tuple(
            score_outputs(model.items, model.outputs, Scorer(variant.reading))
        )


def test_tables_state_what_they_rest_on() -> None:
    model = small()
    found = table4([model], "data of a test")
    rows = {(name, label): cells for name, label, *cells in found.rows()}
    assert rows["GPT-4o", "published"][2] == "79.6 ±1.67"
    assert rows["GPT-4o", "recomputed"][2] == "38.9 ±5.56"
    assert rows["GPT-4o", "difference"][2] == "-40.7, +3.89"
    assert rows["GPT-4o", "n; unscored; not Python"][2] == "3; 1; 1"
    assert ("Command A", "recomputed") not in rows
    assert "data of a test" in found.to_html()
    assert OFFLINE_NAME not in found.to_markdown()
    own = own_table([small("offline", offline=True, own=True)], "Own", "data of a test")
    assert OFFLINE_NAME in own.to_html()
    assert OFFLINE_NAME in own.to_csv()
    variants = variant_table([model], "data of a test").rows()
    # All at once: dialogue 1 has 0, 2 has 0, 3 has 0.
    assert [row[4] for row in variants if row[1] == "all rules at once"] == ["-38.89"]
    assert {row[1] for row in order_table([model], "").rows()} == {"dialogue-mean", "position-mean", "rule-mean"}


def test_figures_show_their_frames(tmp_path: Path) -> None:
    model = small()
    verdicts = verdict_frame(model)
    setups, counts = setup_frame([model, small("other")]), count_frame({"a": model, "b": model})
    bars = [one for one in figures.setup_figure(setups).axes[0].containers if isinstance(one, BarContainer)]
    assert [round(patch.get_height(), 6) for bar in bars for patch in bar] == list(setups["mean"].round(6))
    drawn = [np.asarray(line.get_ydata()).tolist() for line in figures.count_figure(counts).axes[0].lines]
    assert all(rows["mean"].tolist() in drawn for _, rows in counts.groupby("model"))
    ranks = figures.rank_figure(rank_frame(verdicts), OFFLINE_NAME)
    assert OFFLINE_NAME in ranks._supylabel.get_text()  # type: ignore[attr-defined]
    frame = instruction_frame(verdicts, updated=False)
    study = Study(model.items, (model,), "data of a test")
    caption = study.caption("Instructions.", [model])
    assert all(part in caption for part in ("GPT-4o", "data of a test", "n = 3", "1 unscored", "95 %", "rules"))
    stood_in = Study(model.items, (), "d").caption("Instructions.", [small("offline", offline=True)])
    assert stood_in.count(OFFLINE_NAME) == 1
    assert OFFLINE_NAME not in caption
    files = save_figure(figures.instruction_figure(frame), "f8", tmp_path, frame, {}, {}, caption, scores=False)
    assert {file.suffix for file in files} == {".pdf", ".svg", ".png", ".csv", ".json"}
    assert json.loads((tmp_path / "f8.json").read_text())["caption"] == caption
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "f8.csv"), frame, check_dtype=False, atol=1e-5)


def test_lines_of_one_model() -> None:
    model, chain, own = (
        small(),
        small("gpt-4o-chain"),
        {"": small("offline", own=True), "chain": small("offline-chain")},
    )
    assert list(chosen_series([model], own, ["chain", "retrieval"])) == ["history", "chain"]
    assert list(chosen_series([model, chain], own, ["chain", "retrieval"])) == ["GPT-4o, history", "GPT-4o, chain"]
    assert chosen_series([], {}, ["chain"]) == {}
    assert subject_of([small("other"), model]) is model
    assert subject_of([small("other")]).name == "other"


@pytest.fixture(scope="module")
def real(memorycode_data: Path) -> ScoredModel:
    """GPT-4o on the first two dialogues of 3, 10 and 20 sessions."""
    items = [one for one in load_dialogues(memorycode_data) if one.dialogue.id in {61, 62, 151, 152, 211, 212}]
    return score_model("gpt-4o", find_outputs(memorycode_data)["gpt-4o"], items)


def test_real_scores_equal_the_expected_ones(real: ScoredModel, memorycode_data: Path) -> None:
    import gzip

    with gzip.open(memorycode_data / "expected_scores.json.gz", "rt", encoding="utf-8") as file:
        rows = {row["dialogue_id"]: row for row in json.load(file)["gpt-4o"]["per_dialogue"]}
    for setup in ("instruction", "session", "history"):
        for number, score in real.scores(setup).items():
            assert float(score) == pytest.approx(rows[number][setup], abs=1e-6)
    assert not is_published(real.items)


def test_real_frames_equal_pandas(real: ScoredModel) -> None:
    """The same figures from single verdicts, by another way: groupby over rows made here."""
    rows = []
    for answer in real.answers:
        if answer.setup != "history":
            continue
        dialogue = real.dialogues[answer.dialogue_id]
        mentions = [mention for one in dialogue.sessions for mention in one.mentions]
        numbers = list(dict.fromkeys(mention.instruction for mention in mentions))
        for number, verdict in zip(numbers, answer.verdicts, strict=True):
            rank = sum(mention.instruction == number for mention in mentions) - 1
            rows.append((dialogue.id, len(dialogue.sessions), answer.place, number, rank, str(verdict)))
    frame = pd.DataFrame(rows, columns=["dialogue", "sessions", "place", "instruction", "rank", "verdict"])
    frame = frame[frame["verdict"] != "absent"].assign(held=lambda one: one["verdict"] == "pass")
    counts = frame.groupby(["sessions", "dialogue", "place"])["held"].mean().groupby(level=[0, 1]).mean()
    ours = count_frame({"x": real}).set_index("sessions")["mean"]
    pd.testing.assert_series_equal(counts.groupby(level=0).mean(), ours, check_names=False)
    verdicts = verdict_frame(real)
    ranks = frame.groupby(["sessions", "rank", "dialogue"])["held"].mean().groupby(level=[0, 1]).mean()
    pd.testing.assert_series_equal(
        ranks, rank_frame(verdicts).set_index(["sessions", "rank"])["mean"], check_names=False
    )
    for updated in (False, True):
        part = frame[(frame["rank"] > 0) == updated]
        single = part.groupby(["instruction", "dialogue"])["held"].mean().groupby(level=0).mean()
        found = instruction_frame(verdicts, updated=updated).set_index("instruction")["mean"].sort_index()
        pd.testing.assert_series_equal(single, found, check_names=False)
    assert mentioned(real.dialogues[211])
