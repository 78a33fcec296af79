"""Read the stored calls that belong to a conversation's questions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_page.run_folder import StoredArm
from beamlib.errors import UserError
from beamlib.files import inside
from beamlib.llm.call_store import CallStore, StoredCall
from beamlib.llm.endpoints import MODELS, Endpoint, load_models

_NUGGET = re.compile(r" nugget \d{1,6}\Z")


class ConversationCalls:
    """Calls by probe id.

    Each is a list: step, role, model, about, input, cached and output tokens, seconds, dollars, outcome, message, and
    the series (arms) with this reply.

    The store has no prompts and no arms: equal requests of several arms are one call. `spent` sums the reader's calls
    of each series: calls, input and output tokens, seconds, dollars (None without a price).
    """

    def __init__(self, conversation: str, arms: Sequence[StoredArm], questions: Mapping[str, str]) -> None:
        self.of: dict[str, list[list[Any]]] = {}
        self.spent: dict[str, list[float | None]] = {}
        self.problem = ""
        called = [arm for arm in arms if arm.manifest is not None and not arm.offline]
        if not called:
            return
        prices = _prices({arm.folder.parent for arm in called})
        replies = _replies(called)
        wordings = {text: probe for probe, text in questions.items()}
        for run in sorted({arm.run for arm in called}):
            try:
                path = inside(run / "calls" / conversation.partition("-")[0].lower(), f"{conversation}.sqlite")
                with CallStore(path, read_only=True) as store:
                    for call in store.calls():
                        probe = _NUGGET.sub("", call.about)
                        probe = probe if probe in questions else wordings.get(call.about, "")
                        if probe:
                            self._take(probe, call, prices, replies.get((probe, call.text or call.message), ()))
            except UserError as error:
                self.problem = str(error).replace(f"{run}/", "")
        for calls in self.of.values():
            calls.sort(key=lambda call: (call[0], call[3], str(call[2]), call[4]))

    def _take(self, probe: str, call: StoredCall, prices: Mapping[tuple[str, str], Endpoint], series: Any) -> None:
        endpoint = prices.get((call.role, call.model))
        tokens = (call.input_tokens, call.cached_tokens, call.output_tokens)
        cost = endpoint.dollars(*tokens) if endpoint else None
        outcome = call.outcome.value if call.outcome else ""
        reader = call.role.startswith("reader")
        own = sorted(series) if reader else []
        row = [call.step, call.role, call.model, call.about, *tokens, round(call.latency, 3), cost, outcome]
        self.of.setdefault(probe, []).append([*row, call.message[:2_000], own])
        for name in own:
            sums = self.spent.setdefault(name, [0, 0, 0, 0.0, 0.0])
            for place, value in enumerate((1, call.input_tokens, call.output_tokens, call.latency, cost)):
                before = sums[place]
                sums[place] = None if before is None or value is None else before + value


def _prices(parts: set[Path]) -> dict[tuple[str, str], Endpoint]:
    """Read the prices of each role's models from the models files of a run's parts."""
    prices: dict[tuple[str, str], Endpoint] = {}
    for part in sorted(parts):
        try:
            models = load_models(part / MODELS)
        except UserError:
            continue
        for role in ("memory", "compressor", "judge", "aligner"):
            endpoint = getattr(models, role)
            prices[role, endpoint.model] = endpoint
        for backbone in models.readers.values():
            prices["reader", backbone.model] = backbone
            prices |= {(f"reader:{method}", reader.model): reader for method, reader in backbone.methods.items()}
    return prices


def _replies(arms: Sequence[StoredArm]) -> dict[tuple[str, str], list[str]]:
    """Map (probe, text or failure) to the series with that answer."""
    series: dict[tuple[str, str], list[str]] = {}
    for arm in arms:
        for probe, answer in arm.answers.items():
            text = answer.text if answer.text is not None else (answer.unscored or "").partition(": ")[2]
            series.setdefault((probe, text), []).append(arm.series)
    return series
