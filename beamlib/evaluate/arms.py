"""The methods a run compares, and which of them each table of the paper needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from beamlib.memory.declared import DeclaredMemory, kind_of, memories
from beamlib.memory.outside import Own
from beamlib.memory.targets import OWN_MEMORY, PROCESS
from beamlib.params import RunParameters
from beamlib.plugins import plugins
from beamlib.settings import PLAIN_NAME, FaissIndex, RetrieverName

Component = Literal["retrieval", "scratchpad", "working-memory", "noise-filter"]
COMPONENTS: tuple[Component, ...] = ("retrieval", "scratchpad", "working-memory", "noise-filter")

IMPORTED = PLAIN_NAME
"""The name of an imported run, which names a folder."""

_INDEXES = {
    "hybrid": "hybrid is words and {vectors}",
    "bm25": "bm25 is words",
    "dense": "dense is vectors by {encoder}",
    "splade": "splade is vectors by {splade}",
}
OF_ARMS = ("retriever", "k", "encoder", "faiss_index")
"""What an arm may set in place of the run."""
MEMORY = r"[a-z][a-z0-9-]{0,59}"
"""The name of a declared memory. Records of one that this installation lacks can be read all the same."""


class Arm(BaseModel):
    """One memory with its settings. `retriever` and `k` are None where the memory retrieves nothing, `encoder` and
    `faiss_index` where they are the run's.

    `target` is a memory that is not part of this package, `file.py:Class`, an adapter's name or `process:NAME:COMMAND`,
    or the plain name of an imported run; `called` is the name that the class gives itself. All that `name` is made of
    is of a closed set or a plain name: it names a folder.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    memory: Annotated[str, Field(pattern=f"^{MEMORY}$")]
    retriever: RetrieverName | None = None
    k: Annotated[int, Field(ge=1)] | None = None
    without: Component | None = None
    other_budget: None = None  # nothing sets it, but the keys of all records contain it
    encoder: Annotated[str, Field(pattern=f"^{PLAIN_NAME}$")] | None = None
    faiss_index: FaissIndex | None = None
    target: Annotated[str, Field(pattern=f"^({OWN_MEMORY}|{IMPORTED})$")] | None = None
    called: Annotated[str, Field(pattern=f"^{IMPORTED}$")] | None = None

    @model_serializer(mode="wrap")
    def _dumped(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what is None and not in the keys of all records."""
        values: dict[str, Any] = dump(self)
        later = ("encoder", "faiss_index", "called")
        return {name: value for name, value in values.items() if value is not None or name not in later}

    @property
    def other_vectors(self) -> bool:
        """Whether it searches by another encoder or index than the run (Tables 11 and 12)."""
        return self.encoder is not None or self.faiss_index is not None

    @property
    def name(self) -> str:
        """Names the arm's folder and its column, for example `light-hybrid-k5-without-scratchpad`."""
        parts: list[str] = [self.memory]
        by_name = self.memory == Own.name and ":" not in (self.target or ":")  # known by records, if not here
        if self.target is not None and (by_name or kind_of(self.target).outside):
            parts = [self.target]
        elif self.target is not None and self.target.startswith(PROCESS):
            parts = self.target.split(":")[:2]
        elif self.target is not None:
            parts.append(self.called or self.target.rpartition(":")[2])
        if self.retriever is not None:
            parts += [self.retriever, f"k{self.k}"]
        parts += [name for name in (self.encoder, self.faiss_index) if name is not None]
        if self.without is not None:
            parts += ["without", self.without]
        return "-".join(parts)


def base_memory() -> str:
    """The memory whose components, K and retriever Tables 8, 9 and 10 of the paper vary."""
    return next(name for name, kind in memories().items() if kind.components)


def baseline_memory() -> str:
    """The memory that is one index and nothing else: of the same K and retriever as the base."""
    plain = (name for name, kind in memories().items() if kind.joins == "always" and not kind.components)
    return next(name for name in plain if "retriever" in memories()[name].uses)


def memory_arm(name: str, parameters: RunParameters, **changes: object) -> Arm:
    """Make the arm of a declared memory, with the run's retriever and K where it searches by them."""
    kind = kind_of(name)
    if kind.outside:
        return own_arm(name)
    used = {setting: parameters[setting] for setting in ("retriever", "k") if setting in kind.uses}
    return Arm.model_validate({"memory": name, **used, **changes})


def own_arm(target: str, called: str | None = None) -> Arm:
    """Make the arm of a memory that is not part of this package.

    Args:
        called: What it is called; by default the name that it gives itself, which its process is asked for.
    """
    in_file = not target.startswith(PROCESS) and ":" in target
    return Arm(memory=Own.name, target=target, called=(called or plugins().name_memory(target)) if in_file else None)


def experiments(parameters: RunParameters) -> Mapping[str, tuple[Arm, ...]]:
    """The arms of each experiment: `main` (Table 1 with floor and ceiling), `budget`, `retriever`, `ablation`, and
    those of Tables 11 and 12, `encoder` and `index`, which the default leaves empty.
    """

    def arms(chosen: Callable[[type[DeclaredMemory]], bool]) -> list[Arm]:
        return [memory_arm(name, parameters) for name, kind in memories().items() if chosen(kind)]

    def light(**changes: object) -> Arm:
        return memory_arm(base_memory(), parameters, **changes)

    search = parameters.retrieval
    encoders = [None if name in search.encoder else name for name in search.encoders]  # part of a name on the hub
    indexes = [None if name == search.faiss_index else name for name in search.faiss_indexes]
    own, called = parameters.own_memories, parameters.own_name
    return {
        "main": (
            *arms(lambda kind: kind.joins == "always" and not kind.ceiling),
            *(memory_arm(one, parameters) if one in memories() else own_arm(one, called) for one in own),
            *arms(lambda kind: kind.ceiling),
        ),
        "budget": tuple(light(k=k) for k in parameters.retrieval.budgets),
        "retriever": tuple(light(retriever=name) for name in parameters.retrieval.retrievers),
        "encoder": tuple(
            memory_arm(memory, parameters, encoder=name)
            for name in encoders
            for memory in (baseline_memory(), base_memory())
        ),
        "index": tuple(light(retriever="dense", faiss_index=name) for name in indexes),
        "ablation": (light(), *(light(without=part) for part in COMPONENTS)),
    }


def arms_of(parameters: RunParameters, names: Iterable[str]) -> tuple[Arm, ...]:
    """The distinct arms of the named experiments, in order of first mention."""
    table = experiments(parameters)
    return tuple(dict.fromkeys(arm for name in names for arm in table[name]))


def searches(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which indexes arms with these `settings` have, and what each memory searches; LIGHT's other parts are named."""
    searching = [one for one in settings if one.get("retriever")]
    found = []
    for one in searching:
        models = {name: PurePath(one[name]).name for name in ("encoder", "splade") if name in one}
        own = models.get("encoder", "embedded") != "embedded"
        vectors = f"vectors by {models['encoder']}" if own else "the shipped vectors"
        found.append(_INDEXES.get(one["retriever"], one["retriever"]).format(vectors=vectors, **models))
        if one["retriever"] == "dense" and one.get("faiss_index") == "hnsw":
            found[-1] += " over an HNSW index"
    found += [kind_of(one["memory"]).searched for one in searching]
    return list(filter(None, dict.fromkeys(found)))
