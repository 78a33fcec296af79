"""Register this project's packages with the core.

Imports are within the functions: a command or a worker process imports what it uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from beamlib.plugins import NeuralModels, OfflineAuthors, Plugins, register

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from beamlib.evaluate.arms import Arm
    from beamlib.llm.endpoints import ModelsFile
    from beamlib.llm.model import Model, ModelRoles
    from beamlib.memory.protocol import Memory
    from beamlib.run import Run


MEMORIES = ("beam_memories.by_name", "beam_memories.evolving")
"""Whose modules declare memories."""


def _model() -> Model:
    from beam_offline import OfflineModel

    return OfflineModel()


def _authors() -> OfflineAuthors:
    from beam_offline.author import author  # its packages take a second to import

    return author


def _judge_error() -> str:
    from beam_offline.judge_error import stated_error

    return stated_error()


def _open_memory(arm: Arm, parameters: Run, roles: ModelRoles) -> AbstractContextManager[Memory]:
    from beam_memories.own_memory import open_memory

    return open_memory(arm, parameters, roles)


def _identify_memory(target: str) -> tuple[str, tuple[str, ...]]:
    from beam_memories.programs import identify_memory

    return identify_memory(target)


def _available_memories(memory: str, seconds: float, models: ModelsFile | None = None, *, alone: bool = True) -> str:
    from beam_memories.own_memory import available_memories

    return available_memories(memory, seconds, models, alone=alone)


def _name_memory(target: str) -> str | None:
    from beam_memories.own_memory import greeted_name

    return greeted_name(target)


def _neural() -> NeuralModels:
    from beam_memories import transformer

    return transformer


def register_packages() -> None:
    """Register all packages of this project; the cluster is registered by `--cluster`."""
    register(
        Plugins(
            model=_model,
            authors=_authors,
            judge_error=_judge_error,
            open_memory=_open_memory,
            available_memories=_available_memories,
            identify_memory=_identify_memory,
            name_memory=_name_memory,
            memories=MEMORIES,
            neural=_neural,
        )
    )
