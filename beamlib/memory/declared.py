"""What a memory declares of itself, and the registry of memories by name.

A memory that runs can take by name is a subclass of `DeclaredMemory` with a `name`, in a module of this folder or of a
place that a package registers (`beamlib.plugins.Plugins.memories`). Nothing else names it: parameters, records, keys,
estimates, tables and the command line ask the class.

    class NewestSettings(MemorySettings):
        newest_pairs: int = setting(3, "newest pairs that `newest` recalls", source="ours", ge=1)

    class Newest(DeclaredMemory):
        name = "newest"
        own_settings = NewestSettings

        @classmethod
        def build(cls, given):
            return cls(given["newest_pairs"])

        def __init__(self, pairs): self.count = pairs
        def ingest(self, conversation): self.pairs = conversation.pairs[-self.count :]
        def recall(self, question): return RetrievedContext.of([passage(pair) for pair in self.pairs])
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from beamlib.data.conversations import Conversation, Probe
from beamlib.errors import UserError
from beamlib.llm.exchange import ModelError
from beamlib.llm.prompts import prompt_ids
from beamlib.memory.protocol import Memory, RetrievedContext
from beamlib.plugins import plugins
from beamlib.settings import Section

if TYPE_CHECKING:
    from beamlib.llm.model import ModelRoles
    from beamlib.text import TokenCounter

Joins = Literal["always", "by name", "by target"]

ROLES = frozenset({"reader", "memory", "compressor"})
"""Whom a memory may call, or have answer."""
HERE = "beamlib.memory"
"""The package whose modules are searched for memories first."""


class MemorySettings(Section):
    """Settings of one memory, each with a default, which is its usual value.

    Records leave out a setting that has its usual value, so that a new one changes no record of earlier runs; those in
    `always_recorded` are in every record, in this order.
    """

    always_recorded: ClassVar[tuple[str, ...]] = ()


def setting(usual: Any, meaning: str, *, source: str, **bounds: Any) -> Any:
    """Declare a setting of a memory.

    Args:
        usual: Its usual value.
        meaning: What it is, for docs/parameters.md and for error messages.
        source: Where the usual value is from: a section of a paper, released code, or that it is ours.
        bounds: `ge`, `gt`, `le`, `lt`, as for `pydantic.Field`.
    """
    return Field(usual, description=meaning, json_schema_extra={"source": source}, **bounds)


@dataclass(frozen=True)
class Given:
    """What a memory is built of: `given["k"]` is a setting by its own name, the arm's where the arm has one.

    Attributes:
        settings: The run's parameters, by their own names.
        models: Whom the memory may call.
        counter: Counts all tokens.
        of_arm: What the arm sets in place of the run: `k`, `retriever`, `encoder`, `faiss_index`.
        without: The component that an ablation switches off.
        target: What runs a memory from outside: a class in a file, a command, an adapter's name.
        evidence: Message ids by probe id, for the ceiling alone.
        as_turns: Whether long context is sent as chat turns.
        flags: The behaviours of the released code that are on.
        arm: The arm itself, for memories of packages.
    """

    settings: Any
    models: ModelRoles
    counter: TokenCounter
    of_arm: Mapping[str, Any] = field(default_factory=dict)
    without: str | None = None
    target: str | None = None
    evidence: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    as_turns: bool = False
    flags: frozenset[str] = frozenset()
    arm: Any = None

    def __getitem__(self, name: str) -> Any:
        return self.of_arm[name] if name in self.of_arm else self.settings[name]


class DeclaredMemory:
    """What everybody else asks a memory's class. This class itself declares what has no memory: a reader alone."""

    name: ClassVar[str] = ""
    """Its name in parameters, records and folders."""
    label: ClassVar[str] = ""
    """Its name in tables, where that differs."""
    published_as: ClassVar[str] = ""
    """What publications call it, where that differs by more than capitals."""
    order: ClassVar[float] = 50
    """Its place among the columns of tables; those at the same place stand by name."""
    joins: ClassVar[Joins] = "by name"
    """Whether every run has it, or those that name it, or it stands for what is named otherwise."""
    own_settings: ClassVar[type[MemorySettings]] = MemorySettings
    """Its own settings."""
    uses: ClassVar[tuple[str, ...]] = ()
    """Settings of other sections that its answers rest on. With `retriever` and `k`, arms have these."""
    released_flags: ClassVar[frozenset[str]] = frozenset()
    """Behaviours of the released code that change what it recalls."""
    prompts: ClassVar[tuple[str, ...]] = ()
    """The prompts that it renders."""
    stand_in: ClassVar[Mapping[str, Callable[[Mapping[str, str]], str]]] = {}
    """What the offline stand-in replies to prompts that it does not know, by id: a function of the variables."""
    roles: ClassVar[tuple[str, ...]] = ("reader",)
    """Who is called: the reader, and whom it calls itself."""
    code: ClassVar[tuple[str, ...]] = ()
    """Modules and packages that its answers rest on, beside those of `beamlib`."""
    components: ClassVar[tuple[str, ...]] = ()
    """What ablations switch off, one at a time (Table 8 of the paper)."""
    searched: ClassVar[str] = ""
    """What its index searches, for footers."""
    whole: ClassVar[bool] = False
    """Whether its context is the whole conversation, the same for each question."""
    outside: ClassVar[bool] = False
    """Whether it runs in a process of its own, from outside this package."""
    ceiling: ClassVar[bool] = False
    """Whether it is handed evidence."""

    @classmethod
    def title(cls) -> str:
        return cls.label or cls.name

    @classmethod
    def settings_names(cls) -> tuple[str, ...]:
        return (*cls.uses, *cls.own_settings.model_fields)

    @classmethod
    def code_names(cls) -> tuple[str, ...]:
        """Return the modules and packages that its answers rest on, its own among them."""
        core = cls.__module__.startswith("beamlib.") or cls.__module__.rpartition(".")[0] in cls.code
        return cls.code if core else (*cls.code, cls.__module__)

    @classmethod
    def prompts_for(cls, settings: Any) -> tuple[str, ...]:
        """Return the prompts that it renders by these settings of a run."""
        return cls.prompts

    @classmethod
    def refusal(cls, settings: Any) -> str:
        """Say why it cannot work by these settings of a run, as a sentence on a parameter; empty where it can."""
        return ""

    @classmethod
    def build(cls, given: Given) -> Any:
        """Make an empty memory: a `beamlib.memory.Memory`."""
        raise NotImplementedError(f"{cls.__module__}.{cls.__name__} has no `build`")

    @classmethod
    def opened(cls, given: Given) -> AbstractContextManager[Any]:
        """Make an empty memory that ends with the block."""
        return nullcontext(cls.build(given))

    def ingest(self, conversation: Conversation) -> None:
        """Read the conversation, replacing the one before."""
        raise NotImplementedError

    def recall(self, question: str) -> RetrievedContext:
        """Return the context for answering `question`."""
        raise NotImplementedError

    def recall_probes(self, probes: Sequence[Probe]) -> list[RetrievedContext | ModelError]:
        """Recall for each question of a conversation, in order; a failed call fails its question."""
        return recall_each(self, probes)


def recall_each(memory: Memory, probes: Sequence[Probe]) -> list[RetrievedContext | ModelError]:
    """Recall for one question after the other; a failed call fails its question."""
    contexts: list[RetrievedContext | ModelError] = []
    for probe in probes:
        try:
            contexts.append(memory.recall(probe.question))
        except ModelError as error:
            contexts.append(error)
    return contexts


class SharedReading(DeclaredMemory):
    """A memory whose reading of a conversation serves arms of other settings, and can be kept on file."""

    @property
    @abstractmethod
    def of_reading(self) -> Mapping[str, Any]:
        """The settings that change the reading."""

    @property
    @abstractmethod
    def reading(self) -> Mapping[str, Any]:
        """The result of reading the conversation, as JSON for `restore`."""

    @abstractmethod
    def restore(self, conversation: Conversation, reading: Mapping[str, Any]) -> None:
        """Load the `reading` of the same conversation under equal settings `of_reading`, instead of `ingest`."""

    @abstractmethod
    def share(self, given: Given) -> Self:
        """Return a memory by other settings that has the same reading."""


def memories() -> Mapping[str, type[DeclaredMemory]]:
    """Return the classes of all memories by name, in the order of tables.

    Raises:
        UserError: Two memories have one name, two sections have a setting of one name, or a module cannot be imported.
    """
    return _memories((HERE, *plugins().memories))


def memory_kind(name: str) -> type[DeclaredMemory]:
    """Return the class of the memory called `name`; a `UserError` names the known ones."""
    known = memories()
    if name not in known:
        raise UserError(f"the memory {name!r:.80} does not exist; choose one of {', '.join(known)}.")
    return known[name]


def kind_of(name: str | None) -> type[DeclaredMemory]:
    """Return the class of the memory called `name`, or the one that declares nothing, for what is no memory."""
    return memories().get(name or "", DeclaredMemory)


def named_memories(*, outside: bool | None = None) -> tuple[str, ...]:
    """Return the memories that a run takes by name: those in a process of their own, those that are not, or both."""
    kinds = memories().items()
    return tuple(name for name, kind in kinds if kind.joins == "by name" and outside in (None, kind.outside))


def memory_sections() -> Mapping[str, type[MemorySettings]]:
    """Return the sections of the memories that have settings of their own."""
    return {name: kind.own_settings for name, kind in memories().items() if kind.own_settings.model_fields}


def young_settings() -> frozenset[str]:
    """Return the settings that records leave out where they have their usual value."""
    sections = memory_sections().values()
    young = (name for section in sections for name in section.model_fields.keys() - set(section.always_recorded))
    return frozenset((*young, "faiss_index", "per_ability"))


@cache
def _memories(places: tuple[str, ...]) -> Mapping[str, type[DeclaredMemory]]:
    kinds: dict[str, type[DeclaredMemory]] = {}
    for place in places:
        try:
            package = importlib.import_module(place)
            names = pkgutil.iter_modules(getattr(package, "__path__", ()), f"{place}.")
            modules = [package, *(importlib.import_module(name) for _, name, is_package in names if not is_package)]
        except (ImportError, SyntaxError) as error:
            raise UserError(f"{place}: a module that should declare a memory cannot be imported ({error}).") from error
        declared = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
        names_here = {module.__name__ for module in modules}
        for kind in dict.fromkeys(declared):
            if not issubclass(kind, DeclaredMemory) or not kind.name or kind.__module__ not in names_here:
                continue
            if kinds.setdefault(kind.name, kind) is not kind:
                other = kinds[kind.name].__module__
                raise UserError(f"{kind.__module__}: the memory {kind.name!r} is also in {other}; rename one.")
            if problem := _problem(kind):
                raise UserError(f"{kind.__module__}: the memory {kind.name!r} {problem}.")
    return MappingProxyType(dict(sorted(kinds.items(), key=lambda item: (item[1].order, item[0]))))


def _problem(kind: type[DeclaredMemory]) -> str:
    """Say what a declaration lacks, so that it shows before a run; empty where it is whole."""
    above = kind.__mro__[: kind.__mro__.index(DeclaredMemory)]
    if kind.joins != "by target" and not any({"build", "opened"} & vars(base).keys() for base in above):
        return "has no classmethod 'build', which makes an empty one; add it"
    if unknown := set(kind.prompts) - set(prompt_ids()):
        return f"renders the prompt {min(unknown)!r}, which has no file in prompts/; add it"
    if unknown := set(kind.roles) - ROLES:
        return f"calls the role {min(unknown)!r}; the roles are {', '.join(sorted(ROLES))}"
    if required := [name for name, info in kind.own_settings.model_fields.items() if info.is_required()]:
        return f"has the setting {required[0]!r} without a usual value; give a default"
    return ""
