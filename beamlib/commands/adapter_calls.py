"""Estimate the calls of the adapters (`beam_memories.adapters`) by the rule of each system; their code is not run.

Where twenty replies of a step are stored, their mean length takes the place of the rule's.
"""

from __future__ import annotations

from collections.abc import Mapping

from beamlib.commands.dry_run import CallStep, CallTally
from beamlib.data.conversations import Conversation
from beamlib.evaluate.arms import Arm
from beamlib.llm.call_store import CallStore
from beamlib.llm.client import forwarded_step
from beamlib.llm.endpoints import EMBEDDING
from beamlib.memory.declared import kind_of
from beamlib.memory.outside import CallRule, Own
from beamlib.run import Run


def call_rule(arm: Arm) -> CallRule | None:
    """Return the rule by which the calls of an arm are counted, None where there is none."""
    kind = kind_of(arm.target)
    return kind.rule if issubclass(kind, Own) else None


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
        if (rule := call_rule(arm)) is None:
            continue
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
