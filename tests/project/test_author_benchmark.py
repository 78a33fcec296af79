"""What `benchmarks/author.py` counts, on texts small enough to count by hand, and that its released figures hold."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Any

import pytest

import beamlib
from beamlib.report.footer import fitness, rank_agreement


@pytest.fixture(scope="module")
def likeness(repo_root: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repo_root / "benchmarks"))
        import likeness as module  # type: ignore[import-not-found]

        yield module


@pytest.fixture(scope="module")
def shipped(likeness: Any, repo_root: Path) -> Any:
    return likeness.read_figures(repo_root / "benchmarks" / "released_likeness.csv")


def test_sentences_are_pieces_of_five_words_outside_code(likeness: Any) -> None:
    text = "Hi there! Here it is: one, two, three, four, five.\n```\nx = this is no text at all\n```\n- Too short"
    assert likeness.pieces(text) == ["one two three four five"]


@pytest.mark.parametrize(
    ("question", "text", "longest"),
    [
        ("how many guests did I invite", "I did invite eighty guests", 1),
        ("did I ever meet the florist", "when did i ever meet the band", 5),
        ("alpha", "alphabet", 0),
        ("", "anything", 0),
    ],
)
def test_the_longest_shared_sequence_is_of_whole_words(likeness: Any, question: str, text: str, longest: int) -> None:
    assert likeness.longest_shared(likeness.words(question), likeness.words(text)) == longest


def test_the_final_question_is_the_last_sentence_that_asks(likeness: Any) -> None:
    assert likeness.final_question("Is it fair? I wonder. What do you think? Thanks.") == "what do you think"
    assert likeness.final_question("It is fair.") == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("We are 95 now.", True),
        ("It moved to May.", True),
        ("The response time is 250ms.", False),
        ("Snow fell.", False),
    ],
)
def test_words_of_change(likeness: Any, text: str, told: bool) -> None:
    assert bool(likeness.CHANGE.search(text)) == told


def test_agreement_is_a_rank_correlation_over_abilities_and_arms(likeness: Any) -> None:
    arms = ("light bm25", "rag bm25", "rag hybrid")
    abilities = ("knowledge_update", "event_ordering", "summarization")

    def figures(order: int) -> list[Any]:
        found = []
        for place, arm in enumerate(arms):
            row = f"{likeness.RECALL}{arm} K=5"
            found.append(likeness.Figure("100K", row, "all", 0.1 * place, 60))
            found += [likeness.Figure("100K", row, a, order * n / 10 + 0.5, 20) for n, a in enumerate(abilities)]
        return found

    found = {(one.row, one.part): one for one in likeness.agreements(figures(-1), figures(1))}
    assert found.pop((likeness.ORDER, "K=5")).value == pytest.approx(1)
    assert [one.value for one in found.values()] == pytest.approx([-1, -1, -1])
    assert {likeness.goal(one, None)[1] for one in found.values()} == {False}


def test_goals_are_those_of_the_issue(likeness: Any, shipped: Any) -> None:
    """The released conversations meet every goal that is set by comparison with them."""
    for one in shipped:
        if one.row.startswith(("longest", "keyword", likeness.RECALL)) or one.part in ("replies", "follow-ups"):
            assert likeness.goal(one, one)[1] in (True, None), one
    later = likeness.Figure("100K", "longest shared sequence", "summarization", 9.0, 2)
    real = next(one for one in shipped if (one.row, one.part) == (later.row, later.part))
    assert likeness.goal(later, real) == ("within 1.5", False)


def test_figures_come_back_from_their_file(likeness: Any, shipped: Any, tmp_path: Path) -> None:
    assert likeness.read_figures(likeness.write_figures(tmp_path / "figures.csv", shipped)) == shipped


def test_shipped_figures_are_those_of_the_released_conversations(likeness: Any, shipped: Any, beam_data: Path) -> None:
    from beamlib.data.sources import find_conversations

    told = {(one.row, one.part): one for one in shipped}
    first, *_ = (likeness.measured(source) for source in find_conversations(beam_data, ["100K"])[:1])
    for name in ("replies", "follow-ups", "turns"):
        assert first["shape"][name] in told["per chat", name].values
    assert len(told["per chat", "replies"].values) == 20
    assert told["repeated sentences", "assistant"].value == pytest.approx(0.175, abs=0.005)
    assert told["longest shared sequence", "contradiction_resolution"].value == pytest.approx(5.3, abs=0.05)


def test_every_figure_that_is_shipped_is_measured(likeness: Any, shipped: Any) -> None:
    """On the built-in example, which is too small for a vocabulary of 45,000 words."""
    found = likeness.figures(Path(beamlib.__file__).parent / "data" / "example", ["100K"], quiet=True)
    rows = {one.row for one in found}
    assert {one.row for one in shipped} - rows == {"vocabulary in 45,000 words"} and not rows - {o.row for o in shipped}
    assert all(isfinite(one.value) for one in found)
    assert next(one for one in found if one.part == "probes").value == 20


def test_captions_say_for_what_generated_conversations_are_fit() -> None:
    said = fitness("generated by offline stand-in, not a language model, seed 3")
    assert f"{rank_agreement().spearman.min():.2f} to" in said and "order of methods" in said
    assert "not measured" in fitness("generated by planner, seed 3") and "Spearman" not in fitness(
        "generated by planner"
    )
    assert fitness("released files of b2a3ee8, all 60 verified by SHA-256") == ""
