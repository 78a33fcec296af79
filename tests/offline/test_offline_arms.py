"""The order that must hold on real conversations: evidence beats nothing, and beats other pairs of the same chat.

The reader was written with 100K 1 to 8 at hand. In-sample (1 to 6) the cited pairs give it .58 over the abilities that
rest on evidence, out of sample (9 to 14) .53; five other pairs .11 and .05.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from statistics import mean

import pytest

from beam_offline.answer_wording import MISSING
from beam_offline.judge import judge
from beam_offline.reader import answer
from beamlib.data.loading import load
from beamlib.data.sources import find_conversations
from beamlib.memory.protocol import RetrievedContext, passage

Scores = dict[str, dict[str, list[float]]]


@pytest.fixture(scope="module", params=[range(1, 7), range(9, 15)], ids=["in-sample", "out-of-sample"])
def scores(request: pytest.FixtureRequest, beam_data: Path) -> Scores:
    """Nugget means per arm and ability over the questions of six 100K conversations: twelve of each ability."""
    found: Scores = {arm: defaultdict(list) for arm in ("oracle", "none", "random")}
    chosen = {f"100K-{number}" for number in request.param}
    sources = [source for source in find_conversations(beam_data, ["100K"]) if source.id in chosen]
    if len(sources) < len(chosen):
        pytest.skip(f"not all of {', '.join(sorted(chosen))} in {beam_data}")
    for source in sources:
        loaded = load(source)
        pairs = loaded.conversation.pairs
        choice = random.Random(source.id)
        for probe in loaded.probes:
            gold = loaded.gold[probe.id]
            cited = [pair for pair in pairs if set(pair.message_ids) & set(gold.evidence)]
            others = [pair for pair in pairs if pair not in cited]
            arms = {"oracle": cited, "none": [], "random": choice.sample(others, 5)}
            for arm, shown in arms.items():
                context = RetrievedContext.of([passage(pair) for pair in shown]).context
                reply = answer({"question": probe.question, "context": context})
                assert len(reply.split()) <= 400
                verdicts = [judge(probe.question, nugget, reply).score for nugget in gold.rubric]
                found[arm][gold.ability].append(mean(verdicts))
    return found


def average(scores: Scores, arm: str) -> float:
    """Mean over the abilities that rest on evidence."""
    return mean(mean(values) for ability, values in scores[arm].items() if ability != "abstention")


def test_evidence_beats_other_pairs_and_nothing(scores: Scores) -> None:
    assert average(scores, "oracle") > 0.45
    assert average(scores, "random") < 0.5 * average(scores, "oracle")
    assert average(scores, "none") == 0


def test_nothing_known_is_right_where_nothing_can_be_known(scores: Scores) -> None:
    assert mean(scores["none"]["abstention"]) == 1
    assert mean(scores["random"]["abstention"]) >= 0.8


@pytest.mark.parametrize("ability", ["contradiction_resolution", "knowledge_update", "temporal_reasoning"])
def test_each_of_the_sharp_abilities_needs_its_evidence(scores: Scores, ability: str) -> None:
    assert mean(scores["oracle"][ability]) >= mean(scores["random"][ability]) + 0.3


def test_without_a_context_it_always_abstains() -> None:
    assert answer({"question": "How many hives do I keep?", "context": ""}) == MISSING
