"""Train the offline judge: the trees and the weights for events in `judge_weights.json`.

Run by hand; nothing at run time needs it, or LightGBM. Trained on the nugget verdicts of GPT-5 in mem0's two result
files at 1M, and on answers made to be wrong from references (1M, 500K 3 to 19) and chats (100K 11 to 20, 500K 1 and 2,
1M 3). 100K 1 to 10 are left for `benchmarks/judge.py`. The same data gives the same bytes.

    pip install "lightgbm>=4.5,<5"
    OMP_NUM_THREADS=1 .venv/bin/python scripts/train_judge.py FOLDER      # as ../shared/data
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import judge_samples as samples
import lightgbm
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from tqdm import tqdm

from beam_offline.judge import model as judge_model
from beam_offline.judge.features import NAMES, WEIGHTS, features
from beam_offline.judge.model import Likelihoods, Trees, probability, score
from beam_offline.judge.verdicts import event_features
from beamlib.files import write_text
from beamlib.scoring.items import parse_items

CHATS: Final = (*(("100K", number) for number in range(11, 21)), ("500K", 1), ("500K", 2), ("1M", 3))
ONLY_QUESTIONS: Final = (*(("1M", number) for number in range(1, 36)), *(("500K", number) for number in range(3, 20)))
KEPT: Final = {
    "reference": 0.6, "shuffled": 0.5, "other": 0.25, "question": 0.15, "do not know": 1.0, "numbers": 1.0,
    "pasted notes": 0.25, "pairs": 0.6, "few pairs": 0.9, "chat": 0.5, "context": 1.0, "nugget": 0.3,
    "nugget numbers": 1.0, "talk": 0.15, "other nuggets": 0.4, "instructions": 0.1, "all nuggets": 0.4, "cited": 1.0,
}  # fmt: skip
"""The share of made answers of each kind that is trained on. No kind denies: the features cannot tell a denial."""

PLAIN: Final = {"reference": 0.12, "nugget": 0.12, "numbers": 0.12, "nugget numbers": 0.12, "do not know": 0.5}
"""Kinds of made answers that the models of verdicts are trained on too, with what each weighs; a real answer weighs 1.
The others are for `valid` alone."""

CLOSE: Final = ("numbers", "nugget numbers", "shuffled")
CLOSE_WEIGHT = 3.0
PASTED: Final = ("cited", "all nuggets", "pairs", "few pairs", "chat", "context", "pasted notes")
PASTED_WEIGHT = 3.0
"""What made answers that look right weigh in the model `valid`, and pasted ones; the other wrong ones weigh 1."""

QUOTATION: Final = 120
"""Pasted text of fewer words is not trained on: a short quotation of the right message may well be an answer."""

MEAN = 0.55
"""The average score for which thresholds are set: between systems like the one trained on (.62) and worse ones."""

LEAST_VALID = 0.2
SEED: Final = 1

UP: Final = ("missing", "covered_clause", "covered_window", "covered_new", "near", "near_new", "figures_met")
DOWN: Final = ("figures_rival",)
"""Features of which more can only help, or only hurt: all else being equal, a better match never lowers a verdict."""

SHARED: Final = {
    "objective": "binary", "num_leaves": 8, "min_data_in_leaf": 20, "bagging_fraction": 0.7, "bagging_freq": 1,
    "lambda_l2": 5, "max_bin": 63, "verbose": -1, "num_threads": 1, "deterministic": True, "force_row_wise": True,
    "seed": SEED,
}  # fmt: skip
VERDICT: Final = {
    **SHARED, "learning_rate": 0.1, "feature_fraction": 0.4, "bagging_fraction": 0.9,
    "monotone_constraints_method": "advanced",
    "monotone_constraints": [(name in UP) - (name in DOWN) for name in NAMES],
}  # fmt: skip
VALID: Final = {**SHARED, "learning_rate": 0.2, "feature_fraction": 0.8, "lambda_l2": 1}
ROUNDS: Final = {"valid": 66, "half": 80, "full": 80}

Matrix = NDArray[np.float64]
Flat = list[float]


@dataclass(frozen=True)
class Rows:
    """Samples with their features: `kinds` and `conversations` are texts, `scores` 0, 0.5 or 1."""

    kinds: NDArray[np.str_]
    conversations: NDArray[np.str_]
    abilities: NDArray[np.str_]
    scores: Matrix
    values: Matrix

    def part(self, which: NDArray[np.bool_]) -> Rows:
        """Some of them."""
        return Rows(
            self.kinds[which], self.conversations[which], self.abilities[which], self.scores[which], self.values[which]
        )

    @property
    def real(self) -> NDArray[np.bool_]:
        """Which are published verdicts."""
        return np.isin(self.kinds, list(samples.VERDICT_FILES))


def sample_rows(data: Path) -> list[samples.Row]:
    """Return all that is trained on: published verdicts first, then made answers."""
    published = [
        (one.run, one.conversation, one.ability, one.question, one.nugget, one.answer, one.score)
        for one in samples.published_verdicts(data)
    ]
    made: list[samples.Row] = []
    for tier, number in ONLY_QUESTIONS:
        asked = samples.questions(data / "beam_questions", tier, number)
        made += samples.made_from_references(asked, random.Random(f"{tier}{number}"))
    for tier, number in CHATS:
        asked, said = (read(data / "beam", tier, number) for read in (samples.questions, samples.messages))
        made += samples.made_from_chat(asked, said, random.Random(f"{tier}{number}"))  # type: ignore[arg-type]
    choice = random.Random(SEED)
    kept = [row for row in made if choice.random() < KEPT[row[0]]]
    return [*published, *(row for row in kept if row[0] not in PASTED or len(row[5].split()) >= QUOTATION)]


def rows_of(sample: Sequence[samples.Row]) -> Rows:
    """Compute the features of the samples."""
    values = [features(*row[3:6]) for row in tqdm(sample, desc="features", leave=False, mininterval=5)]
    columns = list(zip(*sample, strict=True))
    kinds, conversations, abilities = (np.array(column) for column in columns[:3])
    return Rows(kinds, conversations, abilities, np.array(columns[6], dtype=np.float64), np.array(values))


def _flat(node: Mapping[str, Any]) -> Flat:
    if "leaf_value" in node:
        return [-1, round(100 * node["leaf_value"])]
    threshold = float(f"{node['threshold']:.3g}")
    return [node["split_feature"], threshold, *_flat(node["left_child"]), *_flat(node["right_child"])]


def boosted(values: Matrix, wanted: Matrix, weights: Matrix, settings: Mapping[str, Any], rounds: int) -> list[Flat]:
    """Trees in preorder, as `judge_weights.json` holds them."""
    dataset = lightgbm.Dataset(values, wanted, weight=weights)
    dumped = lightgbm.train(dict(settings), dataset, rounds).dump_model()
    return [_flat(one["tree_structure"]) for one in dumped["tree_info"]]


def fitted(rows: Rows) -> dict[str, list[Flat]]:
    """The three models. `valid` tells real answers that earned something, and references, from made ones."""
    real, reference = rows.real, np.isin(rows.kinds, list(PLAIN))
    weight = np.array([PLAIN.get(kind, 1.0) for kind in rows.kinds])
    of_verdicts = real | reference
    trees = {
        name: boosted(
            rows.values[of_verdicts], rows.scores[of_verdicts] >= least, weight[of_verdicts], VERDICT, ROUNDS[name]
        )
        for name, least in (("half", 0.5), ("full", 1.0))
    }
    good, wrong = (real | (rows.scores > 0)) & (rows.scores > 0), ~real & (rows.scores == 0)
    either = good | wrong
    weigh = np.where(
        np.isin(rows.kinds, CLOSE), CLOSE_WEIGHT, np.where(np.isin(rows.kinds, PASTED), PASTED_WEIGHT, 1.0)
    )
    balance = np.where(good, weigh[wrong].sum() / good.sum(), weigh)
    trees["valid"] = boosted(rows.values[either], good[either], balance[either], VALID, ROUNDS["valid"])
    return {name: trees[name] for name in ROUNDS}


def estimates(trees: Mapping[str, Sequence[Flat]], values: Matrix) -> dict[str, Matrix]:
    """What each model says of each row."""
    found = {}
    for name, flats in trees.items():
        trees_of = Trees(flats)
        found[name] = np.array([probability(trees_of.log_odds(row).sum()) for row in values])
    return found


def thresholds(found: Mapping[str, Matrix], scores: Matrix) -> dict[str, float]:
    """Where as many get half and full points as earned them, zeros weighing so much that the mean is `MEAN`."""
    zeros = (scores == 0).sum()
    weight = np.where(scores == 0, (scores.sum() / MEAN - (len(scores) - zeros)) / zeros, 1.0)
    least = {"valid": LEAST_VALID}
    for name, level in (("half", 0.5), ("full", 1.0)):
        value = np.where(found["valid"] >= LEAST_VALID, found[name], 0.0)
        order = np.argsort(-value, kind="stable")
        enough = np.searchsorted(np.cumsum(weight[order]), weight[scores >= level].sum())
        least[name] = round(float(value[order[min(enough, len(order) - 1)]]), 3)
    return least


def verdicts(found: Mapping[str, Matrix], least: Mapping[str, float]) -> Matrix:
    """Return the verdicts on rows by these thresholds."""
    columns = zip(*(found[name] for name in Likelihoods._fields), strict=True)
    with patch.object(judge_model, "trained", lambda: {"thresholds": least}):
        return np.array([score(Likelihoods(*likelihoods))[0] for likelihoods in columns])


def out_of_fold(rows: Rows, folds: int = 7) -> dict[str, Matrix]:
    """What models that saw none of a conversation say of its published answers, in the order of these."""
    real = rows.part(rows.real)
    conversations = sorted(set(real.conversations))
    found = {name: np.zeros(len(real.scores)) for name in ROUNDS}
    for fold in tqdm(range(folds), desc="folds", leave=False):
        out = conversations[fold::folds]
        said = estimates(
            fitted(rows.part(~np.isin(rows.conversations, out))), real.values[np.isin(real.conversations, out)]
        )
        for name, values in said.items():
            found[name][np.isin(real.conversations, out)] = values
    return found


# Events ------------------------------------------------------------------------------------------------------------


def event_pairs(data: Path) -> tuple[Matrix, Matrix, Matrix]:
    """Features of items of references with nuggets, whether they belong together, and weights.

    A reference to a question about order lists its events in the order of the rubric; where there are as many items as
    nuggets, each belongs to the nugget at its place and to no other.
    """
    values, same = [], []
    for tier, number in (*ONLY_QUESTIONS, *CHATS):
        folder = data / ("beam" if (tier, number) in CHATS and (tier, number) != ("1M", 3) else "beam_questions")
        for one in samples.questions(folder, tier, number):
            items = samples.reference_items(one.reference) if one.ability == "event_ordering" else []
            if len(items) != len(one.rubric):
                continue
            for at, item in enumerate(items):
                for place, nugget in enumerate(one.rubric):
                    values.append(event_features(item, nugget))
                    same.append(at == place)
    wanted = np.array(same, dtype=np.float64)
    return np.array(values), wanted, np.where(wanted > 0, (1 - wanted).sum() / wanted.sum(), 1.0)


def event_weights(data: Path) -> dict[str, Any]:
    """Weights of a logistic regression, none below 0, and the sum from which two texts tell of one event.

    That sum is where items of published answers are as many nuggets as GPT-5 gave at least half a point: each of
    these is told by one item.
    """
    values, same, weight = event_pairs(data)

    def loss(at: Matrix) -> float:
        total = values @ at[1:] + at[0]
        return float(np.average(np.logaddexp(0, total) - same * total, weights=weight) + 1e-3 * (at[1:] ** 2).sum())

    count = values.shape[1]
    found = minimize(loss, np.zeros(count + 1), bounds=[(None, None), *[(0, None)] * count], method="L-BFGS-B").x[1:]
    rounded = [round(float(value), 2) for value in found]
    sums, earned = answer_sums(data, rounded)
    return {"weights": rounded, "least": round(float(np.sort(sums)[::-1][earned]), 3)}


def answer_sums(data: Path, weights: Sequence[float]) -> tuple[Matrix, int]:
    """The sums of all items of published answers with all nuggets, and how many nuggets earned half a point."""
    sums, earned = [], 0
    for one in samples.published_verdicts(data):
        if one.ability == "event_ordering":
            earned += one.score >= 0.5
            sums += [float(np.dot(weights, event_features(item, one.nugget))) for item in parse_items(one.answer)]
    return np.array(sums), earned


def laid_out(value: Mapping[str, Any]) -> str:
    """The weights as JSON, a tree or a row of the table to a line."""

    def lines(rows: Sequence[Any]) -> str:
        return "[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "]"

    trees = ",\n".join(f'"{name}": {lines(flats)}' for name, flats in value["trees"].items())
    parts = [f'"{name}": {json.dumps(value[name])}' for name in ("events", "thresholds")]
    return "{" + ",\n".join([*parts, f'"trees": {{{trees}}}']) + "}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="a folder with field/, beam/ and beam_questions/")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    arguments = parser.parse_args()
    rows = rows_of(sample_rows(arguments.data))
    least = thresholds(out_of_fold(rows), rows.scores[rows.real])
    value = {"events": event_weights(arguments.data), "thresholds": least, "trees": fitted(rows)}
    write_text(arguments.out, laid_out(value))
    print(f"{arguments.out}: {arguments.out.stat().st_size:,} bytes; thresholds {least}; events {value['events']}")


if __name__ == "__main__":
    main()
