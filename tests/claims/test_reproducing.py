"""What a run says of the paper's claims: scripted truths, small samples, identical and cut contexts, missing arms."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from beam_claims.contrasts import ABOVE_ZERO, Bounds, Estimate, holm, power
from beam_claims.engine import BEAM_CLAIMS
from beam_claims.reproducing import ClaimReproduction, ComparisonResult, Reproduction, RunArms, render, reproduce
from beam_claims.statements import Series, comparisons
from beam_run.cli import app
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.beam_records import Manifest, read_manifest
from beamlib.evaluate.records import Answer, UnitOutput, write_manifest
from beamlib.evaluate.run import evaluate
from beamlib.memory.protocol import Cuts
from beamlib.params import load_parameters
from beamlib.run import Run
from beamlib.scoring.records import Judgement, NuggetVerdict

pytestmark = pytest.mark.usefixtures("file_in_this_process")

NUGGETS = 40
LIGHT = Arm(memory="light", retriever="hybrid", k=5)
RAG = Arm(memory="rag", retriever="hybrid", k=5)
FULL = Arm(memory="full-context")


@pytest.fixture(scope="module")
def template(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The manifest of a small offline run."""
    run = tmp_path_factory.mktemp("template") / "run"
    data = repo_root / "beamlib/data/example"
    os.chdir(repo_root)
    parameters = load_parameters(
        repo_root / "params/100k.yaml", run=str(run), data=str(data), conversations=1, workers=1
    )
    evaluate(Run.of(parameters), (RAG,))
    return read_manifest(next(run.glob("*/*/manifest.json")).parent)


def write_arm(
    folder: Path, template: Manifest, arm: Arm, means: Sequence[float], *, contexts: int = 0, cuts: Cuts | None = None,
    part: str = "500k", **changes: Any,
) -> None:  # fmt: skip
    """Write an arm whose conversations score `means`; its contexts are those of every arm with the same `contexts`."""
    size = part.partition("-")[0].upper()
    answers: dict[str, list[Answer]] = {}
    judgements: dict[str, list[Judgement]] = {}
    for number, mean in enumerate(means, start=1):
        name, satisfied = f"{size}-{number}", round(mean * NUGGETS * 20)
        answers[name], judgements[name] = [], []
        for question in range(20):
            full = satisfied // 20 + (question < satisfied % 20)
            verdicts = tuple(NuggetVerdict(nugget=f"n{i}", score=float(i < full)) for i in range(NUGGETS))
            fixed: dict[str, Any] = {"probe_id": f"{name}-q{question:02}", "conversation_id": name}
            judgements[name].append(Judgement(**fixed, ability=ABILITIES[question // 2], verdicts=verdicts))
            answers[name].append(Answer(**fixed, text="x", message_ids=(contexts,), cuts=cuts))
    (record,) = template.conversations.values()
    conversations = dict.fromkeys(answers, record)
    settings = {**template.settings, "arm": arm.model_dump(), **changes}
    manifest = template.model_copy(
        update={
            "arm": arm.name, "size": size, "settings": settings, "reader": "scripted-reader", "judge": "scripted-judge",
            "conversations": conversations,
            "answers_sha256": {name: UnitOutput(own, record).sha256 for name, own in answers.items()},
            "judgements_sha256": {name: UnitOutput(own, record).sha256 for name, own in judgements.items()},
        }
    )  # fmt: skip
    place = folder / part / arm.name
    place.mkdir(parents=True)
    for kind, records in (("answers", answers), ("judgements", judgements)):
        lines = [record.model_dump_json() for own in records.values() for record in own]
        (place / f"{kind}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    write_manifest(place / "manifest.json", manifest)


def scripted(n: int, effect: float, spread: float, seed: int = 0) -> tuple[list[float], list[float]]:
    """Scores of two arms whose paired differences have exactly this mean and deviation, but for the nuggets' grid."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=n)
    noise = (noise - noise.mean()) / noise.std(ddof=1) * spread
    base = rng.uniform(0.4, 0.5, n)
    return list(base + effect + noise), list(base)


def two_arms(folder: Path, template: Manifest, n: int, effect: float, spread: float) -> Reproduction:
    light, rag = scripted(n, effect, spread)
    write_arm(folder, template, LIGHT, light, contexts=1)
    write_arm(folder, template, RAG, rag, contexts=2)
    return reproduce(folder, "nugget-mean")


def claim_of(found: Reproduction, name: str) -> ClaimReproduction:
    return next(claim for claim in found.claims if claim.id == name)


def part_of(found: Reproduction, name: str, label: str) -> ComparisonResult:
    return next(part for part in claim_of(found, name).comparisons if part.label == label)


def test_a_known_truth_is_found_at_35_conversations(template: Manifest, tmp_path: Path) -> None:
    part = part_of(two_arms(tmp_path, template, 35, 0.05, 0.10), "beam-037", "500K: LIGHT less RAG")
    assert part.outcome == "reproduced" and part.value == pytest.approx(0.05, abs=0.002)
    assert part.low is not None and part.low > 0 and part.conversations == 35
    assert (part.differing, part.questions) == (700, 700)


def test_the_same_truth_is_undecided_at_3(template: Manifest, tmp_path: Path) -> None:
    found = two_arms(tmp_path, template, 3, 0.05, 0.10)
    part = part_of(found, "beam-037", "500K: LIGHT less RAG")
    assert part.outcome == "undecided" and part.needed == 34  # of the 35 of the tier
    assert "34 conversations would decide" in render(found)


def test_the_opposite_is_contradicted_and_a_small_effect_is_beyond_the_tier(template: Manifest, tmp_path: Path) -> None:
    found = two_arms(tmp_path / "a", template, 35, -0.05, 0.08)
    assert claim_of(found, "beam-037").outcome == "contradicted"
    part = part_of(two_arms(tmp_path / "b", template, 35, 0.005, 0.10), "beam-037", "500K: LIGHT less RAG")
    assert part.outcome == "undecided" and part.needed is None and "the tier has 35" in part.why


def test_a_compound_claim_needs_all_its_parts(template: Manifest, tmp_path: Path) -> None:
    found = two_arms(tmp_path, template, 35, 0.08, 0.05)
    claim = claim_of(found, "beam-037")
    assert claim.outcome == "not run"  # without the full context, and at other lengths
    missing = [part.why for part in claim.comparisons if part.outcome == "not run"]
    assert "--sizes 1m" in missing and len(missing) == 7
    assert claim_of(found, "beam-042").comparisons[0].why == "--sizes 1m --backbones Qwen2.5-32B-AWQ"
    assert "--set retrievers=[splade,dense]" in claim_of(found, "beam-119").comparisons[0].why
    assert claim_of(found, "beam-124").comparisons[0].why == "--sizes 100k --memory readagent"


@pytest.mark.slow
def test_arms_by_other_encoders_indexes_and_memories_are_those_of_tables_11_to_13(
    template: Manifest, tmp_path: Path
) -> None:
    for number, (arm, mean) in enumerate(
        (
            (LIGHT, 0.50), (RAG, 0.40),
            (RAG.model_copy(update={"encoder": "bge-small"}), 0.41),
            (RAG.model_copy(update={"encoder": "bge-large"}), 0.42),
            (LIGHT.model_copy(update={"encoder": "bge-small"}), 0.52),
            (LIGHT.model_copy(update={"encoder": "bge-large"}), 0.56),
            (LIGHT.model_copy(update={"retriever": "dense"}), 0.47),
            (LIGHT.model_copy(update={"retriever": "dense", "faiss_index": "hnsw"}), 0.46),
            (Arm(memory="readagent"), 0.30),
        )
    ):  # fmt: skip
        noise = np.random.default_rng(number).normal(0, 0.01, 35)
        write_arm(tmp_path, template, arm, list(mean + noise - noise.mean()), contexts=number)
    found = reproduce(tmp_path, "nugget-mean")
    values = {part.label: part.value for claim in found.claims for part in claim.comparisons if part.value is not None}
    expected = {
        "500K: LIGHT less RAG": 0.10,
        "500K: LIGHT less RAG (bge-small)": 0.11,
        "500K: LIGHT less RAG (bge-large)": 0.14,
        "500K: what bge-large adds to LIGHT less what it adds to RAG": 0.03,
        "500K: LIGHT less ReadAgent": 0.20,
    }
    assert {label: values.get(label) for label in expected} == pytest.approx(expected, abs=1e-3)
    arms = RunArms(tmp_path, "nugget-mean")
    for index, name in (("flat", "light-dense-k5"), ("hnsw", "light-dense-k5-hnsw")):
        arm = arms.of("500K", Series(backbone="scripted-reader", faiss_index=index))
        assert arm is not None and arm.arm.name == name


def test_identical_contexts_are_no_comparison(template: Manifest, tmp_path: Path) -> None:
    more, fewer = scripted(35, 0.05, 0.05)
    for k, means in ((15, more), (20, fewer)):
        lost = Cuts(pairs_dropped=k - 10)  # more is recalled and no more of it shown
        write_arm(tmp_path, template, LIGHT.model_copy(update={"k": k}), means, contexts=7, cuts=lost)
    part = part_of(reproduce(tmp_path, "nugget-mean"), "beam-085", "500K: K = 20 less K = 15")
    assert part.outcome == "confounded" and (part.differing, part.questions) == (0, 700)
    assert part.why.startswith("the contexts differ for 0 of 700 questions only") and part.value is None


def test_cut_arms_and_other_settings_are_named(template: Manifest, tmp_path: Path) -> None:
    more, fewer = scripted(35, 0.05, 0.05)
    write_arm(tmp_path, template, LIGHT.model_copy(update={"k": 15}), more, contexts=1)
    write_arm(
        tmp_path, template, LIGHT.model_copy(update={"k": 20}), fewer, contexts=2, cuts=Cuts(pairs_dropped=4),
        reader_window=32_768,
    )  # fmt: skip
    part = part_of(reproduce(tmp_path, "nugget-mean"), "beam-085", "500K: K = 20 less K = 15")
    assert part.outcome == "confounded"
    assert "the arms differ in reader_window, too" in part.why and "at 700 of 700 questions" in part.why


def test_a_part_whose_loss_is_not_compared_does_not_block(template: Manifest, tmp_path: Path) -> None:
    light, without = scripted(35, 0.05, 0.05)
    write_arm(tmp_path, template, LIGHT, light, contexts=1, cuts=Cuts(chunks_dropped=3))
    for number, name in enumerate(("retrieval", "noise-filter"), start=2):
        arm = LIGHT.model_copy(update={"without": name})
        write_arm(tmp_path, template, arm, without, contexts=number, cuts=Cuts(chunks_dropped=3))
    claim = claim_of(reproduce(tmp_path, "nugget-mean"), "beam-066")
    outcomes = {part.label: part.outcome for part in claim.comparisons}
    assert outcomes["500K: without retrieval less complete"] == "reproduced"
    assert outcomes["500K: without noise-filter less complete"] == "confounded"


def test_an_offline_run_says_once_that_nothing_can_be_checked(template: Manifest, tmp_path: Path) -> None:
    light, rag = scripted(3, 0.05, 0.05)
    write_arm(tmp_path, template, LIGHT, light, contexts=1)
    write_arm(tmp_path, template, RAG, rag, contexts=2)
    for path in tmp_path.glob("*/*/manifest.json"):
        manifest = read_manifest(path.parent).model_copy(update={"reader": template.reader})
        write_manifest(path, manifest)
    result = CliRunner().invoke(app, ["reproduce", str(tmp_path)])
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert text.count("no claim about models can be checked") == 1 and "beam-" not in text
    assert "differ for 60 of 60" in result.output
    assert json.loads(CliRunner().invoke(app, ["reproduce", str(tmp_path), "--json"]).output)["claims"] == []


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no finished results"):
        reproduce(tmp_path)


def test_every_claim_on_scores_of_arms_says_what_it_compares() -> None:
    prints = {"average_rows", "printed_precision", "marked_best", "equal_columns", "differing_cells", "compared_depths",
              "largest_gains", "formula_search"}  # fmt: skip
    for paper in ("v1", "v2"):
        for claim in BEAM_CLAIMS.declared(paper):
            module, formula = claim["formula"].split(".")
            of_arms = module in ("gains", "studies", "search") and formula not in prints
            assert bool(comparisons(claim)) == of_arms, claim["id"]


def rejections(effect: float, n: int, runs: int, family: int, seed: int) -> tuple[float, float]:
    """The share of simulated runs in which the first of a family is decided, and in which any of the others is."""
    rng = np.random.default_rng(seed)
    first = others = 0
    for _ in range(runs):
        samples = [rng.normal(effect if i == 0 else 0.0, 0.1, n) for i in range(family)]
        p_values = {str(i): min(Estimate((sample,)).evidence(ABOVE_ZERO)) for i, sample in enumerate(samples)}
        passed = {name for name, (_, passes) in holm(p_values).items() if passes}
        first += "0" in passed
        others += bool(passed - {"0"})
    return first / runs, others / runs


def test_error_rates_and_power_are_those_promised() -> None:
    assert power(0.05, 0.10, 35) == pytest.approx(0.82, abs=0.01)
    assert power(0.05, 0.10, 3) == pytest.approx(0.08, abs=0.01)
    found, _ = rejections(0.05, 35, 400, 1, seed=1)
    assert found == pytest.approx(power(0.05, 0.10, 35), abs=0.06)
    null, others = rejections(0.0, 35, 300, 4, seed=2)
    assert null + others <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300) + 0.02
    assert rejections(0.05, 3, 200, 1, seed=3)[0] == 0.0  # no pattern of three signs is rare enough


def test_a_size_is_reproduced_within_its_margin_only() -> None:
    rng = np.random.default_rng(5)
    noise = rng.normal(0, 0.02, 35)
    near, off = Estimate((noise - noise.mean() + 0.075,)), Estimate((noise - noise.mean() + 0.12,))
    bounds = Bounds(0.055, 0.095)
    assert near.evidence(bounds)[0] < 0.01 < near.evidence(bounds)[1]
    assert off.evidence(bounds)[1] < 0.01 < off.evidence(bounds)[0]
    equal = Estimate((np.full(3, 0.05),))
    low, high = equal.interval(0.05)
    assert low < 0 < high and min(equal.evidence(ABOVE_ZERO)) > 0.05
