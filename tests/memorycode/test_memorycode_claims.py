"""The audit of the MemoryCode paper's claims: recomputed, moved by other values, silent where data is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from beam_claims.engine import ClaimResult, markdown
from beam_claims.values import STATUSES
from beam_memorycode.dialogue_files import LoadedDialogue, load_dialogues
from beam_memorycode.outputs import find_outputs
from beam_memorycode.paper_claims import MEMORYCODE_CLAIMS, audit_memorycode, on_outputs
from beam_memorycode.paper_claims.on_evidence import MemoryCodeEvidence
from beam_memorycode.rules import RuleVerdict
from beam_memorycode.scored import Cell, Published, paper_table, score_model
from beamlib.errors import UserError

PRINTED = ("Table 1", "Table 2", "Table 4")


@pytest.fixture(scope="module")
def alone() -> dict[str, ClaimResult]:
    return {result.id: result for result in audit_memorycode()}


@pytest.fixture(scope="module")
def items(memorycode_data: Path) -> list[LoadedDialogue]:
    return load_dialogues(memorycode_data)


def replaced(mean: str, model: str, setup: str) -> dict[str, pd.DataFrame]:
    frame = paper_table("table4")
    rows = (frame["model"] == model) & (frame["setup"] == setup)
    assert rows.sum() == 1
    frame.loc[rows, "mean"] = mean
    return {"table4": frame}


def moved(before: dict[str, ClaimResult], tables: dict[str, pd.DataFrame]) -> dict[str, str]:
    """Claims whose status another published value changes, with the new status."""
    return {one.id: one.status for one in audit_memorycode(replaced=tables) if one.status != before[one.id].status}


def named(text: str) -> str:
    (found,) = [claim["id"] for claim in MEMORYCODE_CLAIMS.declared() if claim["claim"].startswith(text)]
    return str(found)


def test_every_claim_is_there_once() -> None:
    claims = MEMORYCODE_CLAIMS.declared()
    assert [claim["id"] for claim in claims] == [f"mc-{number:03}" for number in range(1, len(claims) + 1)]
    assert len({(claim["claim"], claim["printed"]) for claim in claims}) == len(claims)
    assert {claim["basis"] for claim in claims} == {*PRINTED, "templates", "outputs", "none"}
    assert {claim["status"] for claim in claims} == set(STATUSES)


def test_printed_tables_decide_without_data(alone: dict[str, ClaimResult]) -> None:
    for claim in MEMORYCODE_CLAIMS.declared():
        result = alone[claim["id"]]
        if claim["basis"] in PRINTED:
            assert result.status == claim["status"], claim["id"]
        else:
            assert result.status == "cannot be checked"
            assert len(result.note) > 20


def test_quoted_drops(alone: dict[str, ClaimResult]) -> None:
    status = {text: alone[named(text)].status for text in (
        "GPT-4o loses 67", "GPT-4o loses 61", "Llama 3.1 8B loses 48", "Llama 3.1 8B loses 0.34",
        "Llama 3.1 8B loses 0.47", "DeepSeek-R1 loses 0.56", "Command R+ loses 54",
        "Llama 3.1 405B loses 78", "Command R+ loses 87",
    )}  # fmt: skip
    assert list(status.values()) == [
        "holds within rounding", "holds within rounding", "differs", "differs", "differs", "differs",
        "holds within rounding", "holds", "holds",
    ]  # fmt: skip


def test_another_value_moves_the_claims_that_rest_on_it(alone: dict[str, ClaimResult]) -> None:
    found = moved(alone, replaced("31.2", "GPT-4o", "long_history"))
    assert found == {
        named("GPT-4o reaches 0.30"): "differs",
        named("GPT-4o loses 61"): "holds",
        named("GPT-4o loses 67"): "holds",
    }
    found = moved(alone, replaced("40.1", "DeepSeek-R1", "long_history"))
    assert found == {named("DeepSeek-R1 loses 0.56"): "holds"}
    assert moved(alone, replaced("99.4", "DeepSeek-V3", "instruction")) == {named("DeepSeek-V3 is perfect"): "differs"}
    tokens = paper_table("table2").replace({"mean": {"26150": "36150"}})
    assert moved(alone, {"table2": tokens}) == {named("The data set has 4.6M"): "differs"}
    with pytest.raises(UserError, match="'table9'"):
        audit_memorycode(replaced={"table9": tokens})


def test_dialogues_decide_their_claims(items: list[LoadedDialogue], alone: dict[str, ClaimResult]) -> None:
    found = {result.id: result for result in audit_memorycode(items)}
    for claim in MEMORYCODE_CLAIMS.declared():
        expected = "cannot be checked" if claim["basis"] == "outputs" else claim["status"]
        assert found[claim["id"]].status == expected, claim["id"]
    recomputed = {
        "There are 51": 51,
        "16 instructions": [11, 7],
        "There are 80 fillers": [81, 51, 30],
        "There are 6 personas": [5, 6],
        "An instruction is updated at most": 7,
    }
    assert {text: found[named(text)].recomputed for text in recomputed} == recomputed
    statistics = found[named("Instructions updated per dialogue")].recomputed
    assert [statistics["short"][0], statistics["long"][0]] == [1.40, 17.45]
    assert "cannot be checked" in markdown(list(found.values()))


def test_a_part_of_the_set_decides_nothing(items: list[LoadedDialogue]) -> None:
    part = {result.id: result for result in audit_memorycode(items[:100])}
    assert {result.status for result in part.values() if result.source in ("templates", "outputs")} == {
        "cannot be checked"
    }
    assert "not the authors' 360" in part["mc-001"].note


@pytest.fixture(scope="module")
def evidence_of_six(items: list[LoadedDialogue], memorycode_data: Path) -> MemoryCodeEvidence:
    """GPT-4o on the first two dialogues of 3, 10 and 20 sessions, and Table 4 as these six would have it."""
    six = [item for item in items if item.dialogue.id in {61, 62, 151, 152, 211, 212}]
    model = score_model("gpt-4o", find_outputs(memorycode_data)["gpt-4o"], six)
    frame = paper_table("table4")
    for column, cell in model.summary.items():
        assert cell.mean is not None
        assert cell.stderr is not None
        row = (frame["model"] == "GPT-4o") & (frame["setup"] == column)
        printed = Cell.of(cell.mean, cell.stderr)
        frame.loc[row, ["mean", "stderr"]] = [str(printed.mean), str(printed.stderr)]
    return MemoryCodeEvidence(Published({"table4": frame}), tuple(six), (model,))


def test_outputs_decide_how_table_4_comes_about(evidence_of_six: MemoryCodeEvidence) -> None:
    data = evidence_of_six
    assert on_outputs.table4(data, "").recomputed == "4 of 4 cells"
    assert on_outputs.table4(data, "").status == "holds"
    assert on_outputs.order_fits(data, "", "rule-mean", "").status == "differs"
    assert on_outputs.variant_fits(data, "", "all rules at once", "").status == "differs"
    assert on_outputs.variant_misses(data, "", "absent counts 0", "").status == "holds"
    assert on_outputs.without_fifteen(data, "").status == "holds"  # none of the six has fifteen sessions
    frame = paper_table("table4")  # the printed values of all 360
    other = MemoryCodeEvidence(Published({"table4": frame}), data.items, data.models)
    assert on_outputs.table4(other, "").status == "differs"
    assert "GPT-4o" in on_outputs.table4(other, "").note
    scores_only = replace(data.models[0], outputs={})
    assert (
        on_outputs.variant_fits(replace(data, models=(scores_only,)), "", "all rules at once", "").status
        == STATUSES[-1]
    )


def test_incomplete_outputs_decide_nothing(evidence_of_six: MemoryCodeEvidence) -> None:
    model = evidence_of_six.models[0]
    part = replace(model, answers=tuple(answer for answer in model.answers if answer.dialogue_id != 212))
    assert evidence_of_six.known == {"GPT-4o": model}
    assert replace(evidence_of_six, models=(part,)).known == {}
    assert replace(evidence_of_six, models=(replace(model, own=True),)).known == {}


def test_outputs_decide_what_is_said_of_scores(evidence_of_six: MemoryCodeEvidence) -> None:
    data = evidence_of_six
    (model,) = data.models
    verdicts = data.verdicts["GPT-4o"]
    absent = on_outputs.absent_share(data, "<1")
    assert absent.recomputed["GPT-4o"]["history"] == round(100 * float((verdicts["verdict"] == "absent").mean()), 1)
    assert absent.status == "differs"
    assert on_outputs.alike(data, "").status == on_outputs.spread(data, "").status == "cannot be checked"
    assert on_outputs.rank_stable(data, "", "Command R+").status == "cannot be checked"
    known = verdicts[verdicts["verdict"] != "absent"].assign(
        held=lambda rows: rows["verdict"] == "pass", updated=lambda rows: rows["rank"] > 0
    )
    shares = known.groupby(["dialogue", "updated"])["held"].mean().unstack().dropna()
    expected = round(float((shares[True] - shares[False]).mean()), 3)
    assert on_outputs.rank_stable(data, "", "GPT-4o").recomputed["all"][0] == expected
    worse = tuple(
        replace(answer, verdicts=tuple(RuleVerdict.FAIL for _ in answer.verdicts))
        if answer.setup == "history" and len(model.dialogues[answer.dialogue_id].sessions) == 3
        else answer
        for answer in model.answers
    )
    assert on_outputs.declines(data, "").status == "holds"
    assert on_outputs.declines(replace(data, models=(replace(model, answers=worse),)), "").status == "differs"
