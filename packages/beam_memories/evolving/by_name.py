"""Create the memories of this package by name."""

from __future__ import annotations

from beam_memories.evolving.dependencies import Dependencies
from beam_memories.evolving.evolving_memory import EvolvingMemory, EvolvingSettings
from beam_memories.evolving.md_flat import MdFlat
from beam_memories.evolving.wiki import Wiki
from beamlib.errors import UserError
from beamlib.llm.model import Model
from beamlib.memory.budget import RESERVE_TOKENS
from beamlib.text import WORDS, TokenCounter

_KINDS: dict[str, type[EvolvingMemory]] = {kind.kind: kind for kind in (MdFlat, Wiki, Dependencies)}
EVOLVING_NAMES = tuple(_KINDS)
"""What `make` knows."""


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
        UserError: The name is not one of `EVOLVING_NAMES`.
    """
    if name not in _KINDS:
        raise UserError(f"the memory {name!r:.80} does not exist; choose one of {', '.join(EVOLVING_NAMES)}.")
    settings = EvolvingSettings(reader_window, reserve_tokens, model_window, k=k, retriever=retriever, counter=counter)
    return _KINDS[name](model, settings)
