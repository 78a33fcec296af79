"""LIGHT's episodic memory: pairs found by keys that a model extracted from them (paper section 3, listing 40)."""

from __future__ import annotations

from collections.abc import Sequence

from beamlib.benchmark.model import Pair
from beamlib.errors import UserError
from beamlib.retrieval import Keys, build_index


class EpisodicIndex:
    """An index whose keys are a model's and whose values are the original pairs.

    `keys[i]` are the keys of `pairs[i]`, as `read_keys` takes them from the model's reply. The number of pairs wanted
    is given with each search, so one index serves every retrieval budget.
    """

    def __init__(self, pairs: Sequence[Pair], keys: Keys, retriever: str = "embedded") -> None:
        if len(pairs) != len(keys):
            raise UserError(f"an episodic index got keys for {len(keys)} pairs but {len(pairs)} pairs; give one each.")
        self.pairs = tuple(pairs)
        self.retriever = retriever
        self._index = build_index(keys, retriever)

    def search(self, question: str, k: int) -> list[Pair]:
        """The `k` pairs whose keys suit the question best, best first."""
        return [self.pairs[hit.owner] for hit in self._index.search(question, k)]


def read_keys(reply: str) -> tuple[str, ...]:
    """Keys from a model's reply to `episodic_keys`: the text after each `name:`, or the line; blank lines dropped."""
    lines = (line.strip().lstrip("-*• ").strip() for line in reply.splitlines())
    return tuple(dict.fromkeys(line for line in lines if line))
