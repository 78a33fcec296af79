"""Create the memories of this package by name."""

from __future__ import annotations

from beam_memories.evolving.evolving_memory import EvolvingMemory, EvolvingSettings
from beamlib.errors import UserError
from beamlib.llm.model import Model
from beamlib.memory.budget import RESERVE_TOKENS
from beamlib.memory.declared import memories
from beamlib.text import WORDS, TokenCounter


def make(
    name: str,
    model: Model,
    reader_window: int = 32_768,
    counter: TokenCounter = WORDS,
    *,
    reserve_tokens: int = RESERVE_TOKENS,
    model_window: int = 32_768,
    k: int = 5,
    retriever: str = "hybrid",
) -> EvolvingMemory:
    """Create the memory called `name`, empty; `model` is called by it. For the rest see `EvolvingSettings`.

    Raises:
        UserError: No memory for facts that change has this name.
    """
    kinds = {name: kind for name, kind in memories().items() if issubclass(kind, EvolvingMemory)}
    if name not in kinds:
        raise UserError(f"the memory {name!r:.80} does not exist; choose one of {', '.join(kinds)}.")
    settings = EvolvingSettings(reader_window, reserve_tokens, model_window, k=k, retriever=retriever, counter=counter)
    return kinds[name](model, settings)
