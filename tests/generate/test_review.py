"""Reviewers' decisions: on file, their effect on the choice, agreement of two reviewers, and the page in a notebook."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from beam_generate.notebooks import review_widget
from beam_generate.probes.drafts import Draft
from beam_generate.probes.making import (
    Decision,
    ProbeSet,
    Verdict,
    choose,
    make_probes,
    read_decisions,
    review_agreement,
    write_decisions,
)
from beam_generate.shapes import Repairs
from beamlib.errors import UserError
from scripted_probes import Scripted, plan, story, turns, view


@pytest.fixture(scope="module")
def probes() -> ProbeSet:
    return asyncio.run(make_probes(Scripted(), story(), [plan()], [turns()], Repairs()))


def of(probes: ProbeSet, ability: str) -> list[Draft]:
    return [draft for draft in probes.drafts if draft.ability == ability]


def decision(candidate: str, verdict: Verdict = "accept", reviewer: str = "Ana") -> Decision:
    return Decision(candidate=candidate, verdict=verdict, reviewer=reviewer)


def choose_again(probes: ProbeSet, *decisions: Decision, repairs: Repairs) -> ProbeSet:
    return choose(probes.drafts, len(view().messages), "100K", repairs, 1, decisions)


def test_decisions_are_read_back_and_equal_ones_are_equal_bytes(tmp_path: Path) -> None:
    some = [decision("b"), decision("a", "reject")]
    one = write_decisions(tmp_path / "one.jsonl", some)
    other = write_decisions(tmp_path / "other.jsonl", some[::-1])
    assert one.read_bytes() == other.read_bytes()
    assert read_decisions(one) == (some[1], some[0])
    assert read_decisions(tmp_path / "none.jsonl") == ()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], "entry 2: Input should be a valid dictionary"),
        ({"verdict": "accept", "reviewer": "Ana"}, "entry 2: candidate: Field required"),
        ({"candidate": "a", "verdict": "accept", "reviewer": " "}, "entry 2: reviewer: "),
        ({"candidate": "a", "verdict": "maybe", "reviewer": "Ana"}, "entry 2: verdict: .*'accept' or 'reject'"),
    ],
)
def test_a_wrong_decision_is_one_sentence(tmp_path: Path, row: Any, message: str) -> None:
    path = write_decisions(tmp_path / "ana.jsonl", [decision("z")])
    path.write_text(f"{path.read_text()}{json.dumps(row)}\n", encoding="utf-8")
    with pytest.raises(UserError, match=f"ana.jsonl: {message}") as raised:
        read_decisions(path)
    assert "\n" not in str(raised.value)


def test_a_rejected_question_is_never_chosen_and_a_decision_without_effect_is_noted(probes: ProbeSet) -> None:
    gone, kept = of(probes, "summarization")
    after = choose_again(probes, decision(gone.id, "reject"), repairs=Repairs())
    assert after.missing == "summarization (1)"
    assert [draft.id for draft in after.chosen["summarization"]] == [kept.id]
    assert len(after.drafts) == len(probes.drafts)
    repairs = Repairs()
    assert not choose_again(probes, decision("summarization-0123456789", "reject"), repairs=repairs).missing
    assert [entry[2:] for entry in repairs.entries] == [("reject of a candidate that is gone", "no effect")]


def test_kappa_counts_only_what_both_decided() -> None:
    def verdicts(text: str, first: int = 0) -> list[Decision]:
        names: dict[str, Verdict] = {"a": "accept", "r": "reject"}
        return [decision(str(number), names[letter]) for number, letter in enumerate(text, start=first)]

    # Cohen's layout: 20 both accept, 5 and 10 differ, 15 both reject; 0.7 observed, 0.5 expected.
    first, second = "a" * 25 + "r" * 25, "a" * 20 + "r" * 5 + "a" * 10 + "r" * 15
    assert review_agreement(verdicts(first), verdicts(second) + verdicts("a", 99)) == "kappa 0.40 over 50 candidates"
    assert "not defined" in review_agreement([], [])
    assert "not defined" in review_agreement(verdicts("aa"), verdicts("aa"))


def test_the_page_shows_a_candidate_as_text_and_saves_each_click(probes: ProbeSet, tmp_path: Path) -> None:
    path, seen = tmp_path / "ana.jsonl", view()
    object.__setattr__(seen.messages[0], "text", "<script>alert(1)</script>")
    drafts = of(probes, "information_extraction")
    picked, buttons, page = review_widget(drafts, seen, path, "Ana").children
    assert not path.exists()
    assert drafts[0].question in page.value and drafts[0].rubric[0] in page.value
    assert "&lt;script&gt;" in page.value and "<script>" not in page.value
    buttons.children[0].click()
    assert picked.value == 1 and drafts[1].question in page.value
    buttons.children[1].click()
    assert {one.candidate: one.verdict for one in read_decisions(path)} == {
        drafts[0].id: "accept",
        drafts[1].id: "reject",
    }
    assert "[reject]" in picked.options[1][0]
    assert len(review_widget([], seen, path, "Ana").children) == 3
