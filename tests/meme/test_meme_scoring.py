"""From verdicts to scores: the trivial-pass filter, the trap systems, the published example, and the tables."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_meme.episode_gold import SHORT, TASKS, EpisodeGold, MemeGold, MemeTask
from beam_meme.meme_judge import MemeVerdict, judge_round, question_to_judge
from beam_meme.meme_scoring import (
    FILTERED,
    MEME_COLUMNS,
    OUTCOME_KINDS,
    OVERALL,
    JudgedEpisode,
    OutcomeKind,
    QuestionOutcome,
    outcome_kind,
    outcomes,
    score_episodes,
)
from beam_meme.meme_tables import (
    USED,
    episode_cost_table,
    kinds_table,
    meme_basis,
    published,
    results_table,
    stage_table,
    token_table,
)
from beam_offline import OfflineModel
from beamlib.errors import UserError
from beamlib.evaluate.records import ContextLosses
from beamlib.llm.model import OFFLINE_NAME, Usage
from beamlib.memory.protocol import Cuts

OLD = {"report": "Ines Okavari", "reviewer": "Petra Lindgaard", "drain": "drain.kelp.example:6514"}
QUESTIONS: Mapping[str, tuple[MemeTask, str, str]] = {
    "report": ("cascade", "Who gets the weekly report?", "Tomas Brellin"),
    "reviewer": ("absence", "Who reviews our code?", OLD["reviewer"]),
    "drain": ("deletion", "What is the log drain endpoint?", OLD["drain"]),
    "packager": ("tracking", "Which package managers did we use, in order?", "Karvell|Drosten|Sylvar"),
    "rota+channel": ("aggregation", "Tell me all about on-call.", "paired rotation|#ember-watch"),
    "log": ("exact_recall", "Recite the error log.", "E4: core dumped at 0x7f"),
}


def episode_gold() -> EpisodeGold:
    """An episode with one question per task, and the questions from before the change."""
    questions = {}
    for number, (entity, (task, question, values)) in enumerate(QUESTIONS.items(), start=1):
        hop = 1 if task in ("cascade", "absence") else None
        after = MemeGold(question, "after", task, entity, tuple(values.split("|")), "", hop, "lead" if hop else "")
        questions[f"e-after-q{number:02}"] = after
        if entity in OLD:
            before = MemeGold(question, "before", task, entity, (OLD[entity],), "", hop, "")
            questions[f"e-before-q{number:02}"] = before
    before_state = {**OLD, "lead": "Rune Falk"}
    after_state = {"report": "Tomas Brellin", "reviewer": None, "drain": None, "lead": "Dara Quist"}
    return EpisodeGold("lead", ("Rune Falk", "Dara Quist"), (), questions, (), (), before_state, after_state)


GOLD = episode_gold()
Answer = Callable[[MemeGold], str | None]


def answered(answer: Answer, memory: str = "trap") -> JudgedEpisode:
    """The episode as a system answers it, judged offline."""
    asked = [question_to_judge(name, answer(gold), None, GOLD) for name, gold in GOLD.questions.items()]
    return JudgedEpisode(
        memory, "e", GOLD.questions, {one.question_id: one for one in judge_round(asked, OfflineModel())}
    )


def by_task(frame: pd.DataFrame, column: str = "real") -> dict[str, float]:
    pooled = frame[frame["hop"] == 0]
    return {str(task): float(value) for task, value in zip(pooled["task"], pooled[column], strict=True)}


def knows_old(gold: MemeGold) -> str:
    """What a memory says that was right before the change and took no notice of it."""
    return OLD.get(gold.entity) or ", ".join(gold.values)


# --- the trap systems of section 5 ------------------------------------------------------------------------------------


def test_a_system_that_never_knows_ends_at_nothing() -> None:
    scores = score_episodes([answered(lambda gold: "I don't know.")])
    assert set(by_task(scores).values()) == {0.0}
    # Without the filter it would have every absence and deletion.
    raw = by_task(scores, "raw")
    assert (raw["absence"], raw["deletion"], raw["cascade"]) == (1.0, 1.0, 0.0)
    assert by_task(scores, "n trivial")["absence"] == 1


def test_a_system_that_repeats_the_old_value_ends_at_nothing_where_things_change() -> None:
    scores = score_episodes([answered(knows_old)])
    found = by_task(scores)
    assert {task: found[task] for task in FILTERED} == dict.fromkeys(FILTERED, 0.0)
    assert (found["exact_recall"], found["tracking"], found["aggregation"]) == (1.0, 1.0, 1.0)
    assert by_task(scores, "n knew but failed")[OVERALL] == 3


@pytest.mark.parametrize(
    "both", ["{old}, {new}", "It was {old} or {new}.", "- {old}\n- {new}", "{new}; {old}", "First {old}, then {new}."]
)
def test_a_system_that_lists_old_and_new_fails_cascade(both: str) -> None:
    def answer(gold: MemeGold) -> str:
        known = gold.phase == "before"
        return knows_old(gold) if known else both.format(old=OLD.get(gold.entity), new=gold.values[0])

    [cascade] = [one for one in outcomes(answered(answer)) if one.task == "cascade"]
    assert (cascade.raw, cascade.kind) == (False, "knew but failed")


@pytest.mark.parametrize(
    "said", ["{old} was deleted.", "You asked me to delete {old}.", "Removed ({old}), so unknown."]
)
def test_a_system_that_says_what_was_deleted_fails_deletion(said: str) -> None:
    def answer(gold: MemeGold) -> str:
        return knows_old(gold) if gold.phase == "before" else said.format(old=gold.values[0])

    [deletion] = [one for one in outcomes(answered(answer)) if one.task == "deletion"]
    assert (deletion.raw, deletion.kind) == (False, "knew but failed")


def test_a_system_without_fault_has_everything() -> None:
    right = {"report": "Tomas Brellin now gets it.", "reviewer": "Not known since the lead changed.",
             "drain": "I have no such information."}  # fmt: skip

    def answer(gold: MemeGold) -> str:
        return knows_old(gold) if gold.phase == "before" else right.get(gold.entity) or ", ".join(gold.values)

    scores = score_episodes([answered(answer)])
    assert set(by_task(scores).values()) == {1.0}
    assert by_task(scores, "n real")[OVERALL] == 3


# --- the filter -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "right", "kind"),
    [(True, True, "real"), (False, True, "trivial"), (True, False, "knew but failed"), (False, False, "never knew")],
)
def test_the_four_kinds(known: bool, right: bool, kind: OutcomeKind) -> None:
    assert outcome_kind(known, right) == kind


def judged(before: MemeVerdict | None, after: MemeVerdict | None, task: MemeTask = "absence") -> QuestionOutcome:
    questions = {
        "b": MemeGold("?", "before", task, "thing", ("old",), ""),
        "a": MemeGold("?", "after", task, "thing", ("old",), ""),
    }
    verdicts = {key: one for key, one in (("b", before), ("a", after)) if one is not None}
    [found] = outcomes(JudgedEpisode("m", "e", questions, verdicts))
    return found


def said(name: str, passed: bool | None, unscored: str | None = None, judge: str = "judge") -> MemeVerdict:
    return MemeVerdict(question_id=name, passed=passed, unscored=unscored, judge=judge)


def test_a_missing_answer_from_before_counts_as_not_known() -> None:
    for before in (None, said("b", None, "no answer came", judge="")):
        found = judged(before, said("a", True))
        assert (found.kind, found.raw, found.real, found.unasked) == ("trivial", True, False, True)
    assert judged(None, said("a", False)).kind == "never knew"


def test_what_could_not_be_judged_is_unscored_and_no_zero() -> None:
    after = judged(said("b", True), said("a", None, "the judge's reply is empty"))
    assert (after.real, after.kind, after.unscored) == (None, None, "the judge's reply is empty")
    before = judged(said("b", None, "unreadable"), said("a", True))
    assert before.real is None and before.unscored == "the answer before the change could not be judged: unreadable"
    assert judged(said("b", True), None).unscored == "there is no verdict"


def test_an_exact_recall_from_before_says_nothing_of_the_other_tasks() -> None:
    questions = {
        "b": MemeGold("?", "before", "exact_recall", "thing", ("old",), ""),
        "a": MemeGold("?", "after", "cascade", "thing", ("new",), ""),
    }
    verdicts = {"b": said("b", True), "a": said("a", True)}
    assert outcomes(JudgedEpisode("m", "e", questions, verdicts))[0].kind == "trivial"


def test_unscored_questions_are_left_out_of_the_shares_and_counted() -> None:
    scores = score_episodes([answered(lambda gold: None if gold.task == "tracking" else knows_old(gold))])
    [row] = scores[scores["task"] == "tracking"].to_dict("records")
    assert (row["n"], row["unscored"]) == (0, 1) and pd.isna(row["real"])
    assert pd.isna(by_task(scores)[OVERALL])  # a mean of six needs six


def test_an_episode_twice_is_refused() -> None:
    with pytest.raises(UserError, match="results of trap: e occurs twice"):
        score_episodes([answered(knows_old), answered(knows_old)])


# --- the published example (section 2.10) -----------------------------------------------------------------------------

KNEW: Mapping[str, OutcomeKind] = {"R": "real", "K": "knew but failed", "N": "never knew"}
EXAMPLE = {
    "BM25": "-KKR-+",
    "dense": "+KKR-+",
    "Mem0": "+KKK-+",
    "Graphiti": "-KKK--",
    "MD-flat": "+KKK-+",
    "Karpathy Wiki": "+KNN--",
    "MD-flat + Opus": "-RKR+-",
}
ORDER: tuple[MemeTask, ...] = ("tracking", "cascade", "absence", "deletion", "aggregation", "exact_recall")


def example(memory: str) -> JudgedEpisode:
    """The verdicts behind a row of the example."""
    marks = dict(zip(ORDER, EXAMPLE[memory], strict=True))
    verdicts = {
        name: said(name, marks[gold.task] in ("R", "K") if gold.phase == "before" else marks[gold.task] in ("R", "+"))
        for name, gold in GOLD.questions.items()
    }
    return JudgedEpisode(memory, "sw_033", GOLD.questions, verdicts)


def test_the_outcomes_of_the_published_example() -> None:
    frame = score_episodes(example(memory) for memory in EXAMPLE)
    for memory, marks in EXAMPLE.items():
        own = by_task(frame[frame["memory"] == memory])
        assert own == {
            **{task: float(mark in "R+") for task, mark in zip(ORDER, marks, strict=True)},
            OVERALL: pytest.approx(sum(mark in "R+" for mark in marks) / 6),
        }
        kinds = {one.task: one.kind for one in outcomes(example(memory)) if one.kind}
        assert kinds == {task: KNEW[mark] for task, mark in zip(ORDER, marks, strict=True) if mark in KNEW}


# --- scores over episodes ---------------------------------------------------------------------------------------------


@st.composite
def results(draw: st.DrawFn) -> list[JudgedEpisode]:
    found = []
    for number in range(draw(st.integers(1, 5))):
        questions, verdicts = {}, {}
        for task in TASKS:
            for place in range(draw(st.integers(0, 2))):
                entity, hop = f"{task}{place}", place + 1 if task in ("cascade", "absence") else None
                for phase in ("before", "after"):
                    name = f"e{number}-{phase}-{entity}"
                    questions[name] = MemeGold(
                        "?", "after" if phase == "after" else "before", task, entity, ("v",), "", hop
                    )
                    mark = draw(st.sampled_from([True, False, None, "missing"]))
                    if mark != "missing":
                        verdicts[name] = said(
                            name, None if mark is None else bool(mark), "why" if mark is None else None
                        )
        found.append(JudgedEpisode("m", f"e{number}", questions, verdicts))
    return found


@given(results())
def test_every_question_is_counted_once(found: list[JudgedEpisode]) -> None:
    frame = score_episodes(found)
    assert tuple(frame.columns) == MEME_COLUMNS
    asked = sum(gold.phase == "after" for one in found for gold in one.gold.values())
    pooled = frame[(frame["hop"] == 0) & (frame["task"] != OVERALL)]
    [overall] = frame[frame["task"] == OVERALL].to_dict("records")
    assert pooled["n"].sum() + pooled["unscored"].sum() == overall["n"] + overall["unscored"] == asked
    for row in frame.to_dict("records"):
        kinds = sum(row[f"n {kind}"] for kind in OUTCOME_KINDS)
        assert kinds == (row["n"] if row["task"] in FILTERED else kinds)
        if row["n"] and row["task"] != OVERALL:
            assert 0 <= row["real"] <= row["raw"] <= 1
            assert row["task"] not in FILTERED or row["real"] == row["n real"] / row["n"]
            assert pd.isna(row["low"]) or row["low"] - 1e-9 <= row["real"] <= row["high"] + 1e-9
    for task in ("cascade", "absence"):
        own = frame[frame["task"] == task].set_index("hop")
        assert own.loc[0, "n"] == own.loc[1, "n"] + own.loc[2, "n"]


def test_intervals_are_over_episodes() -> None:
    def episode(number: int, passed: bool, times: int) -> JudgedEpisode:
        questions = {f"q{k}": MemeGold("?", "after", "tracking", f"t{k}", ("v",), "") for k in range(times)}
        return JudgedEpisode("m", f"e{number}", questions, {name: said(name, passed) for name in questions})

    few = score_episodes([episode(n, n % 2 == 0, 1) for n in range(8)])
    many = score_episodes([episode(n, n % 2 == 0, 50) for n in range(8)])
    width = [float((one["high"] - one["low"])[one["task"] == "tracking"].iloc[0]) for one in (few, many)]
    assert width[0] == pytest.approx(width[1])  # more questions of the same episodes tell nothing more
    alone = score_episodes([episode(0, True, 50)])
    assert alone[["low", "high"]].isna().all().all()


# --- tables -----------------------------------------------------------------------------------------------------------


def test_tables_say_what_they_rest_on() -> None:
    frame = score_episodes([answered(lambda gold: None if gold.task == "tracking" else knows_old(gold), "bm25")])
    basis = meme_basis(
        frame, judge=OFFLINE_NAME, reader="a-reader", data="ours, seed 42", treatment="variant nofiller",
        token_counter="regex-words", episodes=1, reasons={"truncated": 1},
        losses={"bm25": ContextLosses(3, 1, Cuts(pairs_dropped=2))},
    )  # fmt: skip
    made = (
        results_table(frame, basis),
        kinds_table(frame, basis),
        stage_table([("bm25", "cascade", "retrieved"), ("bm25", "cascade", "right")], basis),
        token_table({"bm25": {"answer": Usage(2_000, 100)}}, {"bm25": 2}, basis),
        episode_cost_table({"bm25": [dict.fromkeys(USED, 0.5)]}, basis),
    )
    for table in made:
        text = "\n".join(table.footer)
        assert f"Judge: {OFFLINE_NAME}." in table.footer[0]
        for part in ("ours, seed 42", "1 conversation", "6 questions", "1 unscored (1 truncated)", "variant nofiller",
                     "Interval: none (one episode)", "exact recall by containment", "3 answers",
                     "room for all: bm25 1 (2 pairs dropped)"):  # fmt: skip
            assert part in text, part
        for shown in (table.to_html(), table.to_markdown(), table.to_text(), table.to_csv()):
            assert "bm25" in shown
        assert table.records()


def test_the_results_stand_beside_the_published_ones() -> None:
    frame = score_episodes([example("BM25")])
    table = results_table(frame, meme_basis(frame, judge="j", reader="r", data="d", treatment="t", token_counter="c",
                                            episodes=1))  # fmt: skip
    rows = {(row[0], row[1]): row[2:] for row in table.rows()}
    assert rows["published", "MD-flat"] == ("0.94", "0.45", "0.77", "0.25", "0.06", "0.05", "0.42")
    assert rows["this run", "BM25"] == ("1.00", "0.00", "0.00", "1.00", "0.00", "0.00", "0.33")
    assert list(table.cells)[2:8] == [SHORT[task] for task in TASKS]


def test_kinds_and_costs_and_stages_are_counted_per_memory() -> None:
    frame = score_episodes(example(memory) for memory in ("BM25", "Karpathy Wiki"))
    basis = meme_basis(frame, judge="j", reader="r", data="d", treatment="t", token_counter="c", episodes=1)
    kinds = {(row[0], row[1]): row[2:] for row in kinds_table(frame, basis).rows()}
    assert kinds["Karpathy Wiki", "Abs"] == ("1", "0", "0.00", "0.00", "–", "0", "0", "0", "1", "0")
    assert ("BM25", "Cas, hop 1") in kinds and ("BM25", "Cas, hop 2") not in kinds
    tokens = token_table({"BM25": {"ingest": Usage(10, 4), "answer": Usage(2_000, 100)}}, {"BM25": 2}, basis)
    assert tokens.rows() == [("BM25", "5", "2", "0", "0", "0", "0", "1,000", "50")]
    cheap = {"ingest": 0.0, "maintenance": 0.0, "retrieval": 0.0, "answer": 0.25}
    costs = {"bm25": [cheap, cheap], "wiki": [cheap | {"maintenance": 2.0}], "mem0": [cheap | {"ingest": None}]}
    rows = episode_cost_table(costs, basis).rows()
    assert rows[-3:] == [
        ("this run", "bm25", "$0.00", "$0.00", "$0.250", "$0.250", "1.0", "$0.500"),
        ("this run", "wiki", "$0.00", "$2.00", "$0.250", "$2.25", "9.0", "$2.25"),
        ("this run", "mem0", "unknown", "$0.00", "$0.250", "unknown", "–", "unknown"),
    ]
    assert ("published", "Karpathy Wiki", "$1.17", "–", "$0.220", "$1.39", "46.3", "–") in rows
    stages = stage_table([("m", "cascade", "encoded"), ("m", "cascade", "right"), ("m", "tracking", "right")], basis)
    assert stages.rows() == [("m", "Tr", "1", "0", "0", "0", "0", "1"), ("m", "Cas", "2", "1", "0", "0", "0", "1")]


@pytest.mark.parametrize(
    ("scored", "ratios"),
    [
        ({"graphiti": (0, 10), "mem0": (10, 10), "wiki": (10, 10)}, ["– (10 of 10 unscored)", "1.0", "4.0"]),
        ({"graphiti": (4, 10), "mem0": (9, 9), "wiki": (7, 10)},
         ["– (6 of 10 unscored)", "1.0", "4.0 (3 of 10 unscored)"]),
        ({"graphiti": (9, 10), "mem0": (0, 10), "wiki": (10, 10)},
         ["1.0 (1 of 10 unscored)", "– (10 of 10 unscored)", "200.0"]),
        ({"graphiti": (0, 10), "mem0": (0, 10), "wiki": (0, 10)}, ["– (10 of 10 unscored)"] * 3),
    ],
)  # fmt: skip
def test_a_system_that_failed_is_never_the_cheapest(scored: dict[str, tuple[int, int]], ratios: list[str]) -> None:
    frame = score_episodes([example("BM25")])
    basis = meme_basis(frame, judge="j", reader="r", data="d", treatment="t", token_counter="c", episodes=1)
    prices = {"graphiti": 0.01, "mem0": 0.5, "wiki": 2.0}
    costs = {memory: [dict.fromkeys(USED, 0.0) | {"ingest": price}] for memory, price in prices.items()}
    assert [row[6] for row in episode_cost_table(costs, basis, scored).rows()[-3:]] == ratios


def test_the_published_overall_is_the_mean_of_six() -> None:
    for row in published().to_dict("records"):
        mean = sum(float(row[SHORT[task]]) for task in TASKS) / 6
        assert abs(mean - float(row["overall"])) <= 0.0101, row["system"]  # of rounded values


def test_the_published_values_are_those_on_file(shared: Path) -> None:
    """Against the fact sheet's table, and the fragment of the paper that gives BM25 with two answering models."""
    sheet = (shared / "reference" / "meme.md").read_text("utf-8").split("### 2.9")[1].split("### 2.10")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in sheet.splitlines() if line.startswith("| ")]
    known = {re.sub(r"\W", "", row[0].split("(")[0]).lower(): row[1:] for row in rows[1:]}
    names = {"text-embedding-3-small": "textemb3small", "MD-flat (Opus 4.7 inside)": "mdflatopus47inside"}
    for row in published().to_dict("records")[:-1]:
        found = known[names.get(row["system"], re.sub(r"\W", "", row["system"]).lower())]
        shown = [row[name] for name in (*SHORT.values(), "overall")]
        expected = dict(zip(("ER", "Agg", "Tr", "Del", "Cas", "Abs", "overall", "in", "out"), found, strict=True))
        assert shown == [expected[name] for name in (*SHORT.values(), "overall")]
        assert [row["ingest_dollars"] or "-", row["inference_dollars"]] == [expected["in"], expected["out"]]
    with (shared / "reference" / "paper" / "meme_reported.csv").open(encoding="utf-8") as file:
        reported = {row["metric"]: row["value"] for row in csv.DictReader(file)}
    ours = {str(row["system"]): row for row in published().to_dict("records")}
    for system, model in (("BM25", "gpt-4.1-mini"), ("BM25 (Sonnet 4 answering)", "sonnet-4")):
        for name, column in (*SHORT.items(), (OVERALL, "overall")):
            assert float(reported[f"bm25__{model}__{name}"]) == float(ours[system][column])
