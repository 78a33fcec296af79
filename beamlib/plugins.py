"""Hold the factories that packages above the core register with it.

The core imports none of these packages. `beam_run.plugins` registers those of this project. Whoever uses the core alone
registers what they have: `register(Plugins(model=MyModel))`. Worker processes get the plugins of their parent, so
factories have to be picklable: functions and classes of a module.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from beamlib.errors import UserError

if TYPE_CHECKING:
    from beamlib.llm.door import Door
    from beamlib.llm.model import Model, ModelRoles
    from beamlib.memory.protocol import Memory
    from beamlib.processes import Workers
    from beamlib.retrieval.base import Index, Keys
    from beamlib.retrieval.encoder import Encoder


class NeuralModels(Protocol):
    """Encoders that are neural models (`beam_memories.transformer`)."""

    def encoder_name(self, name: str, parameter: str) -> str:
        """Return the name with a hash of its weights."""

    def dense_encoder(self, name: str) -> Encoder:
        """Load a dense encoder."""

    def sparse_vector_index(self, keys: Keys, name: str) -> Index:
        """Index keys by learned sparse vectors."""


class OfflineAuthors(Protocol):
    """The offline author of generated conversations (`beam_offline.author`), and the domains that it writes."""

    def offline_author(self, story: Any, /) -> Model:
        """Return the author of a `beam_generate.shapes.Story`."""

    def banks(self) -> Any:
        """Return the names of the domains that it writes."""

    def bank(self, domain: str, /) -> Any:
        """Return the words of a domain; raise `UserError` for one that it does not write."""


class Cluster(Protocol):
    """Workers on other machines (`beam_run.cluster`)."""

    def pool(self, parts: int) -> AbstractContextManager[Workers]:
        """Open a pool for `parts` jobs."""

    def door(self, pool: Workers) -> AbstractContextManager[Door]:
        """Return a door that the workers of `pool` reach."""

    def kept(self) -> AbstractContextManager[None]:
        """Keep the workers of all pools opened within the block until it ends."""


def _missing(*_: Any) -> Any:
    raise UserError(
        "this needs a package of packages/: call beam_run.plugins.register_packages(), or register your own "
        "(beamlib/plugins.py)."
    )


def _nameless(_: str) -> None:
    """Leave a memory without a name of its own: it is called like its class."""


@dataclass(frozen=True)
class Plugins:
    """Factories for what the core does not have.

    Attributes:
        model: The model that replies where no models file is named.
        authors: The offline author of generated conversations.
        judge_error: A sentence on how far scores by that model's verdicts may be off.
        open_memory: Opens a memory that is not in `beamlib.memory`, for an `Arm`, `Run` and the models.
            (The two are not imported here: retrieval imports this module, and must not reach `beamlib.evaluate`.)
        available_memories: Checks memories that are not in `beamlib.memory`; returns those that can run
            (`beam_memories.own_memory.available_memories`).
        use_cluster: Has all further work done by the cluster that `--cluster` names; an empty name ends that.
        identify_memory: For an arm's `target`, a hash of the memory's code and the notes that tables print.
        name_memory: For an arm's `target`, the name that the memory gives itself, if any.
        memories: Packages and modules that are searched for memories (`beamlib.memory.declared`).
        neural: The encoders that are neural models.
        cluster: Workers on other machines, None to use processes of this one.
    """

    model: Callable[[], Model] = _missing
    authors: Callable[[], OfflineAuthors] = _missing
    judge_error: Callable[[], str] = _missing
    open_memory: Callable[[Any, Any, ModelRoles], AbstractContextManager[Memory]] = _missing
    available_memories: Callable[..., str] = _missing
    use_cluster: Callable[[str], None] = _missing
    identify_memory: Callable[[str], tuple[str, tuple[str, ...]]] = _missing
    name_memory: Callable[[str], str | None] = _nameless
    memories: tuple[str, ...] = ()
    neural: Callable[[], NeuralModels] = _missing
    cluster: Cluster | None = None


_registered = Plugins()


def plugins() -> Plugins:
    """Return what is registered in this process."""
    return _registered


def register(new: Plugins) -> None:
    """Replace what is registered in this process."""
    global _registered
    _registered = new
