"""Agreement with what was published: Table 4 to the printed digit, and every dialogue of two models.

`expected_scores.json.gz` was computed by an independent scorer that agrees with the authors' script verdict by verdict.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from dataclasses import replace

import pytest

from beam_memorycode.dialogue_files import PUBLISHED_REVISION, dialogues_revision, load_dialogues
from beam_memorycode.outputs import find_outputs, read_outputs
from beam_memorycode.paper_claims import MEMORYCODE_CLAIMS, audit_memorycode
from beam_memorycode.rule_scoring import (
    RULE_COLUMNS,
    SCORING_VARIANTS,
    Scorer,
    dialogue_scores,
    score_outputs,
    summarise_columns,
)
from beam_memorycode.rules import Rule
from beam_memorycode.scored import score_folder

PUBLISHED = {"gpt-4o": "GPT-4o", "llama-3.1-8b-instruct": "Llama 3.1 8B"}
EXPECTED_COLUMNS = {"short_history": "history_short", "long_history": "history_long"}


@pytest.fixture(scope="module")
def items(memorycode_data):
    return load_dialogues(memorycode_data)


@pytest.fixture(scope="module")
def expected(memorycode_data):
    return json.loads(gzip.decompress((memorycode_data / "expected_scores.json.gz").read_bytes()))


@pytest.fixture(scope="module", params=PUBLISHED)
def model(request):
    return request.param


@pytest.fixture(scope="module")
def models(memorycode_data, items):
    """Both models, every answer scored once for all that is tested here."""
    return {model.name: model for model in score_folder(memorycode_data, items)}


@pytest.fixture(scope="module")
def scored(model, models):
    return models[model].answers


@pytest.fixture(scope="module")
def dialogues(items):
    return [item.dialogue for item in items]


def test_means_and_standard_errors_are_table_4s(model, scored, dialogues, repo_root):
    found = summarise_columns(scored, dialogues)
    rows = csv.DictReader(
        (repo_root / "beamlib/data/published/memorycode_table4_scores.csv").read_text("utf-8").splitlines()
    )
    printed = {row["setup"]: (row["mean"], row["stderr"]) for row in rows if row["model"] == PUBLISHED[model]}
    assert printed == {name: (f"{cell.mean:.1f}", f"{cell.stderr:.2f}") for name, cell in found.items()}
    assert [found[column].n for column in RULE_COLUMNS] == [360, 360, 210, 150]


@pytest.mark.parametrize(
    ("order", "key"), [("dialogue-mean", "dialogue_mean_percent"), ("position-mean", "position_mean_percent")]
)
def test_both_published_orders_of_averaging(model, scored, dialogues, expected, order, key):
    found = summarise_columns(scored, dialogues, order)
    for column in RULE_COLUMNS:
        assert found[column].mean == pytest.approx(expected[model][key][EXPECTED_COLUMNS.get(column, column)], abs=5e-5)


def test_every_dialogue_has_its_score(model, scored, expected):
    for setup in ("instruction", "session", "history"):
        scores = dialogue_scores(scored, setup)
        for row in expected[model]["per_dialogue"]:
            found = scores.get(row["dialogue_id"])
            assert (found is None) == (row[setup] is None), row
            assert found is None or float(found) == pytest.approx(row[setup], abs=1e-6), row


def test_every_kind_of_object_has_its_verdicts(model, scored, expected):
    counts = {setup: {} for setup in ("instruction", "session", "history")}
    for answer in scored:
        for rule, verdict in zip(answer.rules, answer.verdicts, strict=True):
            counts[answer.setup].setdefault(rule.kind, Counter())[verdict.value] += 1
    outcomes = expected[model]["rule_outcomes"]
    for setup, kinds in outcomes.items():
        assert {kind: dict(count) for kind, count in counts[setup].items()} == {
            kind: {name: number for name, number in count.items() if number} for kind, count in kinds.items()
        }


def test_variants_move_the_means_as_measured(model, scored, dialogues):
    """Counting variants, against the changes in points that the reference gives (its section 6)."""
    measured = {
        "gpt-4o": {
            "all rules at once": (0, -2.4, -17.6, -29.1),
            "absent counts 0": (-0.7, -9.9, -17.4, -12.3),
            "absent counts 1": (0.2, 0.9, 5.6, 25.6),
            "unparsed left out": (0, 0.01, 0.5, 1.2),
        },
        "llama-3.1-8b-instruct": {
            "all rules at once": (0, -6.0, -12.8, -12.5),
            "absent counts 0": (0, -4.1, -5.9, -4.9),
            "absent counts 1": (0, 6.7, 16.9, 31.4),
            "unparsed left out": (0, 0.9, 0.5, 0.5),
        },
    }[model]
    base = summarise_columns(scored, dialogues)
    for name, changes in measured.items():
        found = summarise_columns(scored, dialogues, variant=SCORING_VARIANTS[name])
        for column, change in zip(RULE_COLUMNS, changes, strict=True):
            assert found[column].mean - base[column].mean == pytest.approx(change, abs=0.055), (name, column)


def test_the_packaged_statuses_are_those_of_an_audit_with_everything_at_hand(items, models):
    results = {result.id: result.status for result in audit_memorycode(items, list(models.values()))}
    assert results == {claim["id"]: claim["status"] for claim in MEMORYCODE_CLAIMS.declared()}


def test_the_published_dialogues_are_known_by_what_is_checked_in_them(items):
    assert dialogues_revision(items) == PUBLISHED_REVISION
    first = items[0]
    rules = replace(first.rules, history=(*first.rules.history[:-1], Rule("function", "^zz_.*")))
    assert dialogues_revision([replace(first, rules=rules), *items[1:]]) != PUBLISHED_REVISION


def test_other_readings_of_the_code_on_some_dialogues_move_only_what_they_are_about(memorycode_data, items):
    """All 360 dialogues are looked at by notebook 10; here every twelfth, against the released reading."""
    some = items[::12]
    dialogues = [item.dialogue for item in some]
    outputs = read_outputs(find_outputs(memorycode_data)["gpt-4o"], dialogues)
    kinds = {
        "every name, not the first": {"function argument", "attribute"},
        "empty arguments or attributes are absent": {"function argument", "attribute"},
        "attributes anywhere in __init__": {"attribute"},
        "from-imports count": {"import"},
    }
    released = score_outputs(some, outputs)
    for variant in SCORING_VARIANTS.values():
        if variant.name not in kinds:
            continue
        changed = set()
        for one, other in zip(released, score_outputs(some, outputs, Scorer(variant.reading)), strict=True):
            changed |= {
                rule.kind
                for rule, was, is_now in zip(one.rules, one.verdicts, other.verdicts, strict=True)
                if was != is_now
            }
        assert changed and changed <= kinds[variant.name], variant.name
