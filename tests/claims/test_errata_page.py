"""What the errata do to scores, and that docs/errata.md says what the list says."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_claims.defects import errata_page, published_effect
from beamlib.data.errata import load_errata
from beamlib.errors import UserError
from beamlib.report.results import effect_by_protocol, errata_effect
from beamlib.scoring.protocols import PROTOCOLS
from beamlib.scoring.records import Judgement, NuggetVerdict
from beamlib.scoring.scores import score_run


def judged(question: str, ability: str, *scores: float | None) -> Judgement:
    verdicts = tuple(NuggetVerdict(nugget=str(n), score=score, reason="lost") for n, score in enumerate(scores))
    fields = {"probe_id": question, "conversation_id": question.rpartition("-")[0], "ability": ability}
    return Judgement.model_validate({**fields, "verdicts": verdicts})


ARMS = {
    "rag": [
        judged("100K-1-q00", "abstention", 1.0),
        judged("100K-1-q10", "knowledge_update", 0.0),
        judged("100K-1-q11", "knowledge_update", 1.0),
    ],
    "light": [
        judged("100K-1-q00", "abstention", 1.0),
        judged("100K-1-q10", "knowledge_update", 1.0),
        judged("100K-1-q11", "knowledge_update", 0.0),
    ],
}


def test_drop_leaves_the_spoilt_questions_out_of_every_arm() -> None:
    effect = errata_effect({arm: score_run(own, "paper") for arm, own in ARMS.items()}, {"100K-1-q10"})
    assert list(dict.fromkeys(effect["series"])) == ["rag", "rag, drop", "light", "light, drop"]
    updates = effect[effect["ability"] == "knowledge_update"].set_index("series")
    assert updates["mean"].to_dict() == {"rag": 0.5, "rag, drop": 1.0, "light": 0.5, "light, drop": 0.0}
    assert updates["n"].to_dict() == {"rag": 2, "rag, drop": 1, "light": 2, "light, drop": 1}


def test_ranks_under_every_protocol() -> None:
    effect = effect_by_protocol(ARMS, {"100K-1-q10"})
    assert list(effect.index) == [(protocol, arm) for protocol in PROTOCOLS for arm in ARMS]
    paper = effect.loc["paper"]
    assert paper["none, flag"].to_dict() == {"rag": 0.75, "light": 0.75}
    assert paper["drop"].to_dict() == {"rag": 1.0, "light": 0.5}
    assert paper["rank, none, flag"].tolist() == [1, 1] and paper["rank, drop"].tolist() == [1, 2]
    assert paper["n, drop"].tolist() == [2, 2] and paper["unscored"].tolist() == [0, 0]
    lost = {"rag": [judged("100K-1-q00", "abstention", None)]}
    nothing = effect_by_protocol(lost, ()).loc["paper"]
    assert nothing["drop"].isna().all() and nothing["rank, drop"].isna().all() and nothing["unscored"].tolist() == [1]


def test_published_verdicts_with_and_without(tmp_path: Path) -> None:
    entries = load_errata().entries
    spoilt = next(entry.question_id for entry in entries if entry.spoils_score)
    misled = next(entry.question_id for entry in entries if entry.part == "answer" and not entry.spoils_score)
    rows = ["source,run,tier,probe,kind,published"]
    for source, kind in (("a", "nuggets"), ("b", "votes")):
        rows += [f"{source},one,100K,{spoilt},{kind},0"] * 2  # a row per nugget
        rows += [f"{source},one,100K,{misled},{kind},0", f"{source},one,100K,100K-99-q00,{kind},1"]
        rows += [f"{source},two,100K,100K-99-q00,{kind},0.5"]
    path = tmp_path / "verdicts.csv"
    path.write_text("\n".join(rows) + "\n")
    effect = published_effect(path).set_index(["source", "run"])
    assert effect["size"].tolist() == [1, 3, 1, 3]  # the best run of a source first
    assert effect.loc[("a", "one"), ["mean", "size kept", "mean kept"]].tolist() == pytest.approx([1 / 3, 2, 1 / 2])
    assert effect.loc[("b", "one"), ["mean", "size kept", "mean kept"]].tolist() == pytest.approx([1 / 3, 1, 1])
    assert effect["rank mean"].tolist() == [1, 2, 1, 2] and effect.loc[("b", "one"), "rank mean kept"] == 1
    assert "| 100K | b | one | 3 | 0.3333 | 2 | 1.0000 | +0.6667 | 2 / 1 |" in errata_page(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for text, message in (("a,b\n1,2\n", "column 'source' is missing"), ("", "cannot be read as CSV")):
        (tmp_path / "verdicts.csv").write_text(text)
        with pytest.raises(UserError, match=message):
            published_effect(tmp_path / "verdicts.csv")
    with pytest.raises(UserError, match="cannot be read"):
        published_effect(tmp_path / "nowhere.csv")


def test_the_page_is_up_to_date(repo_root: Path) -> None:
    page = (repo_root / "docs/errata.md").read_text()
    assert page.startswith(errata_page()), "run: beamlib data errata --verdicts VERDICTS > docs/errata.md"
    assert "## What they do to published scores" in page


def test_the_page_shows_the_effect_on_published_verdicts(repo_root: Path, shared: Path) -> None:
    assert (repo_root / "docs/errata.md").read_text() == errata_page(shared / "data/field/verdicts.csv")
