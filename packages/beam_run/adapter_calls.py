"""Estimate the calls of the adapters (`beam_memories.adapters`) by one rule per system; their code is not run.

The rules are counts of the versions in pyproject.toml against a scripted server that finds two facts in a pair. Where
twenty replies of a step are stored, their mean length takes the place of the rule's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from beam_run.dry_run import CallStep, CallTally
from beamlib.data.conversations import Conversation
from beamlib.evaluate.arms import Arm
from beamlib.llm.call_store import CallStore
from beamlib.llm.client import forwarded_step
from beamlib.llm.endpoints import EMBEDDING
from beamlib.params import ADAPTERS
from beamlib.run import Run


@dataclass(frozen=True, slots=True)
class _Rule:
    """Calls per pair, the tokens that each has beside the pair's text, and those of its reply; requests for vectors."""

    calls: int
    tokens: int
    output: int
    vectors: int


RULES: Mapping[str, _Rule] = {
    "mem0": _Rule(calls=1, tokens=5_400, output=200, vectors=2),
    "langmem": _Rule(calls=1, tokens=400, output=200, vectors=2),
    "graphiti": _Rule(calls=5, tokens=900, output=120, vectors=4),
}


def count_adapters(
    tally: CallTally,
    arms: tuple[Arm, ...],
    conversation: Conversation,
    questions: int,
    parameters: Run,
    expected: Mapping[CallStep, float],
) -> None:
    """Add to `tally` what those of `arms` that are adapters have still to call for a conversation and its questions."""
    pairs, counter = len(conversation.pairs), parameters.counter
    for arm in arms:
        if arm.target not in ADAPTERS:
            continue
        rule = RULES[arm.target]
        text = sum(counter.count(message.content) for message in conversation)
        # By step: calls, their input tokens, the output tokens of each.
        wanted: dict[CallStep, tuple[int, int, float]] = {
            ("memory", forwarded_step(arm.name, "chat/completions")): (
                rule.calls * pairs, rule.calls * (pairs * rule.tokens + text), rule.output,
            )
        }  # fmt: skip
        if EMBEDDING in parameters.endpoints:
            requests = rule.vectors * pairs + questions
            wanted[EMBEDDING, forwarded_step(arm.name, "embeddings")] = (requests, rule.vectors * text, 0)
        held = _held(conversation.id, parameters)
        for step, (calls, tokens, output) in wanted.items():
            counts, there = tally[step], min(calls, held.get(step, 0))
            counts.held += there
            counts.pending += calls - there
            counts.input += tokens * (calls - there) // max(1, calls)
            counts.output += (calls - there) * (expected.get(step, output) if output else 0)


def _held(conversation: str, parameters: Run) -> dict[CallStep, int]:
    if parameters.calls == "refresh":
        return {}
    with CallStore(parameters.calls_folder() / f"{conversation}.sqlite", read_only=True) as store:
        found: dict[CallStep, int] = {}
        for one in store.totals():
            found[one.role, one.step] = found.get((one.role, one.step), 0) + one.calls
        return found
