"""Fit the weights of the default index again, and show what they are worth on conversations left out.

Run by hand; nothing at run time needs it. The fit is listwise and logistic: the weights, none below 0, under which the
cited pairs get the largest share of a softmax over a conversation's pairs. It sees 100K and 500K 1 and 2, as LIGHT
indexes them (keys by the offline stand-in, not a language model); what else is in the folder is held out.

    PYTHONPATH=. OMP_NUM_THREADS=1 .venv/bin/python scripts/fit_hybrid.py FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from tqdm import tqdm

from beam_offline import OfflineModel
from beamlib.data.conversations import SIZES
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import find_conversations
from beamlib.memory.episodic import episodic_documents
from beamlib.memory.extraction import extract, extraction_prompts, keys_of_pairs
from beamlib.memory.rag import pair_document
from beamlib.retrieval import embedded_encoder
from beamlib.retrieval.hybrid import HYBRID_WEIGHTS, SESSION, HybridIndex, with_session

FITTED = ("500K-1", "500K-2")
"""What the fit sees besides 100K."""

KS = (5, 15)
BROAD = 5
"""Cited pairs from which on a question is called broad."""
PENALTY = 1.0
"""Of the squared weights, over the number of questions: it hardly moves the fit, and keeps it unique."""

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """One question: its signals, shape (pairs, signals), the session and the two message ids of every pair, and the
    messages that its author cited."""

    conversation: str
    signals: Vector
    sessions: NDArray[np.int64]
    ids: Sequence[tuple[int, int]]
    evidence: tuple[int, ...]

    @property
    def cited(self) -> list[int]:
        """The pairs that hold a cited message."""
        return [owner for owner, both in enumerate(self.ids) if any(one in self.evidence for one in both)]

    def recall(self, weights: Vector, k: int) -> float:
        """Share of the cited messages in the best `k` pairs under `weights`."""
        shown = {one for owner in self.order(weights)[:k] for one in self.ids[owner]}
        return sum(one in shown for one in self.evidence) / len(self.evidence)

    def order(self, weights: Vector) -> NDArray[np.int64]:
        """The pairs, best first."""
        scores = with_session(self.signals @ weights, self.sessions, SESSION)
        return np.argsort(-scores, kind="stable")

    def ranks(self, weights: Vector) -> NDArray[np.int64]:
        """The ranks of the cited pairs, from 1."""
        return np.argsort(self.order(weights))[self.cited] + 1


def asked_of(loaded: Loaded, memory: str) -> list[Asked]:
    """The questions of one conversation that cite messages, over the documents of `memory` ("light" or "rag")."""
    conversation = loaded.conversation
    if memory == "light":
        replies = extract(OfflineModel(), extraction_prompts("episodic_keys", conversation))
        documents = episodic_documents(conversation, keys_of_pairs(conversation, replies))
    else:
        documents = [pair_document(pair, conversation) for pair in conversation.pairs]
    index = HybridIndex(documents, embedded_encoder())
    sessions = np.array([document.session for document in documents])
    ids = [pair.message_ids for pair in conversation.pairs]
    found = []
    for probe in loaded.probes:
        evidence = loaded.gold[probe.id].evidence
        if evidence:
            signals = index.signals(probe.question)
            columns = np.stack([signals[name] for name in HYBRID_WEIGHTS], axis=1).astype(np.float64)
            found.append(Asked(conversation.id, columns, sessions, ids, evidence))
    return found


def fit(questions: Sequence[Asked]) -> Vector:
    """The weights that maximise the mean log share of the cited pairs, in the order of `HYBRID_WEIGHTS`."""

    def loss(weights: Vector) -> tuple[float, Vector]:
        value, slope = 0.0, np.zeros(len(weights))
        for question in questions:
            scores = question.signals @ weights
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            cited = question.cited
            value -= float(np.log(shares[cited]).mean())
            slope -= question.signals[cited].mean(axis=0) - shares @ question.signals
        value, slope = value + PENALTY * float(weights @ weights), slope + 2 * PENALTY * weights
        return value / len(questions), slope / len(questions)

    start = np.full(len(HYBRID_WEIGHTS), 0.2)
    done = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(HYBRID_WEIGHTS))
    return np.asarray(done.x)


def show(label: str, questions: Sequence[Asked], weights_for: Callable[[str], Vector]) -> None:
    """Print mean recall per tier; `weights_for` gives the weights for a conversation."""
    tiers: dict[str, list[list[float]]] = {}
    for question in questions:
        weights = weights_for(question.conversation)
        tiers.setdefault(question.conversation.partition("-")[0], []).append([question.recall(weights, k) for k in KS])
    for tier, recalls in tiers.items():
        means = " / ".join(f"{mean:.3f}" for mean in np.mean(recalls, axis=0))
        print(f"{label:36} {tier:5} {means}  ({len(recalls)} questions)")


def show_spread(questions: Sequence[Asked], weights: Vector) -> None:
    """Print per tier how far the evidence of broad questions is spread, and how it ranks."""
    for tier in dict.fromkeys(question.conversation.partition("-")[0] for question in questions):
        of_tier = [question for question in questions if question.conversation.startswith(f"{tier}-")]
        ranks = [rank for question in of_tier for rank in question.ranks(weights)]
        print(
            f"{tier}: {len(of_tier)} questions cite {BROAD} pairs or more,"
            f" {np.mean([len(question.cited) for question in of_tier]):.1f} pairs"
            f" of {np.mean([len(set(question.sessions[question.cited])) for question in of_tier]):.1f} sessions;"
            f" the median rank of a cited pair is {np.median(ranks):.0f}"
            f" of {np.mean([len(question.sessions) for question in of_tier]):.0f}"
        )


def main() -> None:
    """Fit, leave each conversation out in turn, and print recall at 5 and 15 for both memories."""
    parser = argparse.ArgumentParser(description="Fit the weights of the default index and show what they are worth.")
    parser.add_argument("data", type=Path, help="folder of BEAM conversations")
    sources = find_conversations(parser.parse_args().data, SIZES)
    asked: Mapping[str, list[Asked]] = {"light": [], "rag": []}
    for source in tqdm(sources, unit="conv"):
        loaded = load(source)
        for memory, questions in asked.items():
            questions += asked_of(loaded, memory)
    seen = [one for one in asked["light"] if one.conversation.startswith("100K-") or one.conversation in FITTED]
    everything = fit(seen)
    print("fit:", {name: round(float(value), 3) for name, value in zip(HYBRID_WEIGHTS, everything, strict=True)})
    left_out = {
        name: fit([one for one in seen if one.conversation != name])
        for name in tqdm({one.conversation: None for one in seen}, unit="fit")
    }
    shipped = np.array(list(HYBRID_WEIGHTS.values()))
    alike = np.full(len(shipped), shipped.mean())
    undetected = np.array(
        [0.0 if name in ("instruction", "preference") else weight for name, weight in HYBRID_WEIGHTS.items()]
    )
    for memory, questions in asked.items():
        show(f"{memory}, shipped weights", questions, lambda name: shipped)
        show(f"{memory}, fit without the conversation", questions, lambda name: left_out.get(name, everything))
        show(f"{memory}, all weights alike", questions, lambda name: alike)
        show(f"{memory}, no instruction, preference", questions, lambda name: undetected)
    show_spread([one for one in asked["light"] if len(one.cited) >= BROAD], shipped)


if __name__ == "__main__":
    main()
