"""Decisions on file and their effect, agreement of two reviewers, ratings of conversations, the page in a notebook."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_generate.probes.drafts import Draft
from beam_generate.probes.making import ProbeSet, choose, make_probes
from beam_generate.quality import DIMENSIONS, Rating, mean_scores, rater_agreement, read_ratings
from beam_generate.review import (
    VERDICTS,
    Decision,
    Review,
    agreement,
    apply_decisions,
    cohens_kappa,
    read_decisions,
    write_decisions,
)
from beam_generate.review_page import rating_widget, review_widget
from beam_generate.shapes import Repairs
from beamlib.data import published
from beamlib.errors import UserError
from scripted_probes import Scripted, plan, story, turns, view


@pytest.fixture(scope="module")
def probes() -> ProbeSet:
    return asyncio.run(make_probes(Scripted(), story(), [plan()], [turns()], Repairs(), 1))


def of(probes: ProbeSet, ability: str) -> list[Draft]:
    return [draft for draft in probes.drafts if draft.ability == ability]


def rechosen(probes: ProbeSet, *decisions: Decision, repairs: Repairs | None = None) -> ProbeSet:
    noted = Repairs() if repairs is None else repairs
    return choose(probes.drafts, view(), "100K", noted, 1, decisions, allow_short=True)


# Decisions on file


def test_decisions_are_read_back_and_equal_ones_are_equal_bytes(tmp_path: Path) -> None:
    some = [Decision("b", "accept", "Ana"), Decision("a", "edit", "Ana", {"question": "Why?"})]
    one = write_decisions(tmp_path / "one.jsonl", some)
    other = write_decisions(tmp_path / "other.jsonl", some[::-1])
    assert one.read_bytes() == other.read_bytes()
    assert read_decisions(one) == (some[1], some[0])
    assert read_decisions(tmp_path / "none.jsonl") == ()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], "expected an object"),
        ({"verdict": "accept", "reviewer": "Ana"}, "`candidate` must be a text"),
        ({"candidate": "a", "verdict": "accept", "reviewer": " "}, "`reviewer` must be a text"),
        (
            {"candidate": "a", "verdict": "maybe", "reviewer": "Ana"},
            "`verdict` is 'maybe'; write accept, edit or reject",
        ),
        ({"candidate": "a", "verdict": "accept", "reviewer": "Ana", "time": 3}, "unknown field `time`"),
        ({"candidate": "a", "verdict": "edit", "reviewer": "Ana"}, "an edit needs some"),
        ({"candidate": "a", "verdict": "reject", "reviewer": "Ana", "changes": {"question": "x"}}, "belong to an edit"),
        ({"candidate": "a", "verdict": "edit", "reviewer": "Ana", "changes": ["x"]}, "must be an object"),
        (
            {"candidate": "a", "verdict": "edit", "reviewer": "Ana", "changes": {"id": "x"}},
            "no field that can be edited",
        ),
        ({"candidate": "a", "verdict": "edit", "reviewer": "Ana", "changes": {"question": ""}}, "must be a text"),
        ({"candidate": "a", "verdict": "edit", "reviewer": "Ana", "changes": {"rubric": [""]}}, "a list of texts"),
        ({"candidate": "a", "verdict": "edit", "reviewer": "Ana", "changes": {"evidence": {"": ["1"]}}}, "message ids"),
        ({"candidate": "a", "verdict": "edit", "reviewer": "Ana", "changes": {"fields": []}}, "published fields"),
    ],
)
def test_a_wrong_decision_is_named_with_its_file_and_entry(tmp_path: Path, row: Any, message: str) -> None:
    path = tmp_path / "ana.jsonl"
    good = {"candidate": "z", "verdict": "accept", "reviewer": "Ana", "changes": {}}
    path.write_text(f"{json.dumps(good)}\n{json.dumps(row)}\n", encoding="utf-8")
    with pytest.raises(UserError, match=message) as raised:
        read_decisions(path)
    assert f"{path}: entry 2" in str(raised.value)


def test_two_decisions_on_one_candidate_are_refused(tmp_path: Path) -> None:
    path = write_decisions(tmp_path / "ana.jsonl", [Decision("a", "accept", "Ana"), Decision("a", "reject", "Ana")])
    with pytest.raises(UserError, match="a is decided on twice"):
        read_decisions(path)


# Their effect


def test_a_rejected_question_is_never_chosen(probes: ProbeSet) -> None:
    gone = of(probes, "summarization")[0]
    after = rechosen(probes, Decision(gone.id, "reject", "Ana"))
    assert after.missing == {"summarization": 1}
    assert gone.id not in {draft.id for draft in after.chosen["summarization"]}
    assert len(after.drafts) == len(probes.drafts)


def test_a_rerun_honours_decisions(probes: ProbeSet) -> None:
    gone = of(probes, "summarization")[0]
    rerun = make_probes(
        Scripted(), story(), [plan()], [turns()], Repairs(), 1, [Decision(gone.id, "reject", "A")], allow_short=True
    )
    assert [one.id for one in asyncio.run(rerun).chosen["summarization"]] == [of(probes, "summarization")[1].id]


def test_an_edit_replaces_the_text_and_keeps_the_id(probes: ProbeSet) -> None:
    old = of(probes, "information_extraction")[0]
    changes = {"question": "Which sum did I pay?", "fields": {"question_type": "amount"}, "evidence": {"": [0]}}
    after = rechosen(probes, Decision(old.id, "edit", "Ana", changes))
    new = next(draft for draft in after.chosen["information_extraction"] if draft.id == old.id)
    assert (new.question, new.fields["question_type"]) == ("Which sum did I pay?", "amount")
    assert "Which sum did I pay?" in [one["question"] for one in after.questions["information_extraction"]]


def test_an_edit_is_checked_again(probes: ProbeSet) -> None:
    old = of(probes, "information_extraction")[0]
    repairs = Repairs()
    after = rechosen(probes, Decision(old.id, "edit", "Ana", {"question": "Was it 340 euros?"}), repairs=repairs)
    assert after.dropped == {"question_leaks": 1}
    assert after.missing == {"information_extraction": 1}
    assert any(entry[0] == "review" and "question_leaks" in entry[2] for entry in repairs.entries)


def test_an_edit_can_mend_what_a_check_dropped(probes: ProbeSet) -> None:
    old = of(probes, "information_extraction")[0]
    broken = apply_decisions(
        probes.drafts, [Decision(old.id, "edit", "Ana", {"question": "Was it 340 euros?"})], view(), Repairs()
    )
    mended = choose(
        broken.drafts,
        view(),
        "100K",
        Repairs(),
        1,
        [Decision(old.id, "edit", "Ana", {"question": "Which sum was it?"})],
    )
    assert not mended.dropped


@pytest.mark.parametrize(
    "changes", [{"evidence": {"first_event": [0]}}, {"fields": {"no_such": "x"}}, {"fields": {"key_facts_tested": "x"}}]
)
def test_an_edit_that_does_not_fit_is_noted_and_left_out(probes: ProbeSet, changes: dict[str, Any]) -> None:
    old = of(probes, "information_extraction")[0]
    repairs = Repairs()
    reviewed = apply_decisions(probes.drafts, [Decision(old.id, "edit", "Ana", changes)], view(), repairs)
    assert reviewed.drafts == probes.drafts
    assert [entry[3] for entry in repairs.entries] == ["edit left out"]


def test_a_decision_whose_candidate_is_gone_is_reported(probes: ProbeSet) -> None:
    repairs = Repairs()
    after = rechosen(probes, Decision("summarization-0123456789", "reject", "Ana"), repairs=repairs)
    assert not after.missing
    assert repairs.entries == [
        ("review", "summarization-0123456789", "reject of a candidate that is gone", "no effect")
    ]


# Agreement


def test_kappa_by_hand() -> None:
    # Cohen's own layout: 20 both accept, 5 and 10 differ, 15 both reject; 0.7 observed, 0.5 expected.
    pairs = [("a", "a")] * 20 + [("a", "r")] * 5 + [("r", "a")] * 10 + [("r", "r")] * 15
    found = cohens_kappa(pairs)
    assert (found.n, found.observed, found.expected, found.kappa) == (50, 0.7, 0.5, 0.4)
    assert found.counts == {("a", "a"): 20, ("a", "r"): 5, ("r", "a"): 10, ("r", "r"): 15}


def test_kappa_of_verdicts_counts_only_what_both_decided() -> None:
    first = [Decision("a", "accept", "x"), Decision("b", "reject", "x"), Decision("c", "accept", "x")]
    second = [Decision("b", "reject", "y"), Decision("a", "reject", "y"), Decision("d", "accept", "y")]
    found = agreement(first, second)
    assert (found.n, found.observed, found.expected, found.kappa) == (2, 0.5, 0.5, 0.0)


def test_kappa_is_undefined_with_a_reason() -> None:
    assert (agreement([], []).kappa, agreement([], []).reason) == (None, "no item was rated by both")
    same = cohens_kappa([("a", "a")] * 3)
    assert (same.kappa, same.observed, same.expected) == (None, 1.0, 1.0)
    assert "one and the same" in same.reason


ratings = st.lists(st.tuples(st.sampled_from(VERDICTS), st.sampled_from(VERDICTS)), min_size=1, max_size=30)


@given(ratings, st.randoms(use_true_random=False))
def test_kappa_has_its_properties(pairs: list[tuple[str, str]], rng: Any) -> None:
    found = cohens_kappa(pairs)
    shuffled = rng.sample(pairs, len(pairs))
    assert cohens_kappa(shuffled) == found
    swapped = cohens_kappa([(b, a) for a, b in pairs])
    assert (swapped.kappa, swapped.observed, swapped.expected) == (found.kappa, found.observed, found.expected)
    assert sum(found.counts.values()) == found.n == len(pairs)
    if found.kappa is not None:
        assert -1 <= found.kappa <= 1
        assert (found.kappa == 1) == all(a == b for a, b in pairs)


# Ratings


def write_ratings(path: Path, rows: list[str]) -> Path:
    path.write_text("\n".join(["conversation,rater,dimension,score", *rows]) + "\n", encoding="utf-8")
    return path


def test_means_have_the_rows_and_columns_of_table_4(tmp_path: Path) -> None:
    sizes = {"100K": (4, 5), "500K": (3, 4), "1M": (5, 5), "10M": (2, 3)}
    rows = [
        f"{size}-1,{rater},{dimension},{score}"
        for size, scores in sizes.items()
        for rater, score in zip(("ana", "bo"), scores, strict=True)
        for dimension in DIMENSIONS
    ]
    found = mean_scores(read_ratings(write_ratings(tmp_path / "r.csv", rows)))
    printed = published.table("table4")
    assert [(cell.chat_size, cell.dimension) for cell in found] == list(
        zip(printed["chat_size"], printed["dimension"], strict=True)
    )
    assert [cell.score for cell in found][::3] == [4.5, 3.5, 5.0, 2.5, 3.875]
    assert [cell.n for cell in found][::3] == [2, 2, 2, 2, 4]


def test_the_printed_averages_are_means_over_the_sizes() -> None:
    printed = published.table("table4")
    for dimension in DIMENSIONS:
        rows = printed[printed["dimension"] == dimension]
        sizes = rows[rows["chat_size"] != "Average"]["score"].mean()
        assert abs(sizes - float(rows[rows["chat_size"] == "Average"]["score"].iloc[0])) < 0.01


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("128K-1,ana,Dialogue Realism,4", "has no size; write it like 100K-7"),
        ("100K-1,,Dialogue Realism,4", "`rater` is empty"),
        ("100K-1,ana,Realism,4", "dimension 'Realism' is unknown"),
        ("100K-1,ana,Dialogue Realism,6", "score '6' must be a whole number from 1 to 5"),
        ("100K-1,ana,Dialogue Realism,4.5", "must be a whole number"),
        ("100K-1,ana,Dialogue Realism", "score ''"),
        ("100K-9,ana,Dialogue Realism,4", "is rated twice"),
        ("100K-1,cy,Dialogue Realism,4", "at most two"),
    ],
)
def test_a_wrong_rating_is_named(tmp_path: Path, row: str, message: str) -> None:
    rows = ["100K-9,ana,Dialogue Realism,4", "100K-9,bo,Dialogue Realism,4", row]
    with pytest.raises(UserError, match=message):
        read_ratings(write_ratings(tmp_path / "r.csv", rows))


def test_wrong_columns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("chat,score\n", encoding="utf-8")
    with pytest.raises(UserError, match="the first line must be conversation,rater,dimension,score"):
        read_ratings(path)


def rated(*scores: tuple[int, int]) -> list[Rating]:
    return [
        Rating(f"100K-{number}", rater, DIMENSIONS[0], score)
        for number, pair in enumerate(scores)
        for rater, score in zip(("ana", "bo"), pair, strict=True)
    ]


def test_quadratic_kappa_by_hand() -> None:
    # Squared distances 1, 0, 1: observed 1 - 2/48. The nine pairs of (4, 3, 5) with (5, 3, 4) have the sum 12.
    found = rater_agreement(rated((4, 5), (3, 3), (5, 4)))[DIMENSIONS[0]]
    assert found.observed == pytest.approx(1 - 2 / 48)
    assert found.expected == pytest.approx(1 - 12 / 144)
    assert found.kappa == pytest.approx(0.5)


def test_quadratic_kappa_punishes_distance() -> None:
    near = rater_agreement(rated((1, 1), (5, 5), (3, 4)))[DIMENSIONS[0]].kappa
    far = rater_agreement(rated((1, 1), (5, 5), (3, 1)))[DIMENSIONS[0]].kappa
    assert near is not None
    assert far is not None
    assert far < near < 1


def test_one_rater_has_no_agreement() -> None:
    found = rater_agreement([Rating("100K-1", "ana", DIMENSIONS[0], 4)])
    assert {one.kappa for one in found.values()} == {None}


# The page


def buttons(page: Any) -> dict[str, Any]:
    return {button.description: button for button in page.children[5].children}


def test_the_page_shows_a_candidate_and_its_evidence_and_writes_nothing(probes: ProbeSet, tmp_path: Path) -> None:
    path = tmp_path / "ana.jsonl"
    page = review_widget(of(probes, "temporal_reasoning"), view(), path, "Ana")
    shown = of(probes, "temporal_reasoning")[0]
    assert [child.value for child in page.children[1:3]] == [shown.question, shown.reference]
    assert page.children[3].value.splitlines() == list(shown.rubric)
    assert page.children[4].value == "first_event: 0\nsecond_event: 12"
    assert all(text in page.children[7].value for text in view().texts(shown.evidence_ids))
    assert not path.exists()


def test_each_click_is_saved_and_goes_on(probes: ProbeSet, tmp_path: Path) -> None:
    path = tmp_path / "ana.jsonl"
    drafts = of(probes, "information_extraction")
    page = review_widget(drafts, view(), path, "Ana")
    buttons(page)["Accept"].click()
    assert read_decisions(path) == (Decision(drafts[0].id, "accept", "Ana"),)
    assert page.children[0].value == 1
    page.children[1].value = "Which sum was it?"
    buttons(page)["Edit"].click()
    assert {one.candidate: one.changes for one in read_decisions(path)}[drafts[1].id] == {
        "question": "Which sum was it?"
    }
    buttons(page)["Reject"].click()
    assert {one.candidate: one.verdict for one in read_decisions(path)}[drafts[1].id] == "reject"


def test_an_edit_that_changes_nothing_or_is_wrong_is_refused_on_the_page(probes: ProbeSet, tmp_path: Path) -> None:
    path = tmp_path / "ana.jsonl"
    page = review_widget(of(probes, "information_extraction"), view(), path, "Ana")
    buttons(page)["Edit"].click()
    assert "an edit needs some" in page.children[6].value
    page.children[4].value = "zero"
    buttons(page)["Edit"].click()
    assert "no list of message ids" in page.children[6].value
    assert not path.exists()


def test_texts_are_shown_as_texts(probes: ProbeSet, tmp_path: Path) -> None:
    seen = view()
    object.__setattr__(seen.messages[0], "text", "<script>alert(1)</script>")
    page = review_widget(of(probes, "information_extraction"), seen, tmp_path / "a.jsonl", "Ana")
    assert "<script>" not in page.children[7].value
    assert "&lt;script&gt;" in page.children[7].value


def test_a_page_without_candidates_is_harmless(tmp_path: Path) -> None:
    page = review_widget([], view(), tmp_path / "a.jsonl", "Ana")
    buttons(page)["Accept"].click()
    assert not (tmp_path / "a.jsonl").exists()


def test_reviewers_have_files_of_their_own(probes: ProbeSet, tmp_path: Path) -> None:
    path = write_decisions(tmp_path / "ana.jsonl", [Decision("a", "accept", "Ana")])
    with pytest.raises(UserError, match="holds decisions of Ana; give Bo a file of their own"):
        Review(probes.drafts, path, "Bo")
    with pytest.raises(UserError, match="The reviewer has no name"):
        Review(probes.drafts, path, " ")
    review = Review(probes.drafts, path, "Ana")
    with pytest.raises(UserError, match="no such candidate"):
        review.decide("b", "accept")
    assert read_decisions(path) == review.decisions


def test_the_rating_page_saves_three_scores_and_a_second_rater_joins(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    for rater, points in (("one", 4), ("two", 5), ("one", 2)):
        box = rating_widget("100K-1", path, rater)
        assert rater == "one" or path.exists()  # making the page writes nothing
        for slider in box.children[:3]:
            slider.value = points
        box.children[3].click()
    held = read_ratings(path)
    assert {(one.rater, one.score) for one in held} == {("one", 2), ("two", 5)}
    assert len(held) == 6
    before = path.read_bytes()
    third = rating_widget("100K-1", path, "three")
    third.children[3].click()
    assert "at most two" in third.children[4].value
    assert path.read_bytes() == before
