"""The methods a run compares, which of them each table of the paper needs, and which configuration a result is of.

A configuration is a preset and what differs from it, read from the values in force. Only what bears on an arm's answers
and verdicts counts, and only for that arm: Table 9 has every budget K, whatever the K of the run. Models are compared
where the preset names them, by name and temperature: where they are served has no bearing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from beamlib.files import to_json
from beamlib.llm.endpoints import Author, Endpoint, load_models
from beamlib.llm.model import OFFLINE_NAME
from beamlib.memory.declared import DeclaredMemory, kind_of, memories
from beamlib.memory.outside import OWN_MEMORY, PROCESS, Own
from beamlib.params import OF_GENERATION, RunParameters, usual_parameters
from beamlib.places import ROOT
from beamlib.plugins import plugins
from beamlib.run import ROLES, Run, windows
from beamlib.settings import PLAIN_NAME, ChatSettings, FaissIndex, RetrieverName

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


_WINDOWS = ("reader_window", "full_context_window")  # compared as they are in force
_GENERATION = ("output_tokens", *OF_GENERATION)
_DRAWN = ("generation_seed", "domain", "title", "authors")  # what is written about; models are compared by role

_READER_PROMPTS = ("answer", "answer_full", "answer_full_released", "answer_turns")
JUDGE_PROMPTS = ("align_batch", "align_events", "judge_nugget")
JUDGE_PARAMETERS = ("question_in_prompt", "judge_repeats", "alignment")
Configuration = tuple[str, ...]
"""A preset's name, then `name=value` for each thing that is otherwise."""


def configuration(arm: Arm, run: Run, names: Iterable[str]) -> Configuration:
    """The configuration that an arm's results are of, by the settings called `names` and by its models."""
    compared = [name for name in (*names, "variant", "released", "output_tokens") if name not in _WINDOWS]
    found = [*_of_arm(arm, run.usual), *_changed(run, run.usual, compared)]
    found += _changed(run, run.usual.model_copy(update=windows(run.usual, run.endpoints)), _WINDOWS)
    found += [f"prompts={','.join(run.prompt_files.overridden)}"] if run.prompt_files.overridden else []
    return (run.preset, *found, *_of_models(arm, run))


def writing_configuration(parameters: RunParameters) -> Configuration:
    """The configuration that conversations are generated by."""
    usual = usual_parameters(parameters.size, preset=parameters.preset)
    found = _changed(parameters, usual, [name for name in _GENERATION if name not in _DRAWN])
    if usual.generation.authors and not parameters.generation.authors:
        found.append(f"authors={OFFLINE_NAME}")
    elif usual.generation.authors:
        ours, theirs = load_models(ROOT / parameters.generation.authors), load_models(ROOT / usual.generation.authors)
        for role in get_args(Author):
            found += _other_model(f"authors.{role}", ours.author(role), [theirs.author(role)])
    return (parameters.preset, *found)


def stated(configurations: Iterable[Configuration]) -> str:
    """Several configurations as one phrase, for example `paper, but k=15, encoder=embedded`."""
    merged: dict[str, dict[str, None]] = {}
    for preset, *differences in filter(None, configurations):  # an imported run has none
        merged.setdefault(preset, {}).update(dict.fromkeys(differences))
    return " | ".join(f"{preset}, but {', '.join(found)}" if found else preset for preset, found in merged.items())


def windows_stated(manifests: Sequence[Mapping[str, Any]]) -> str:
    """The tokens that the methods of some manifests may fill, all backbones together."""
    methods: dict[str, tuple[str, str]] = {}
    for window in ("full_context_window", "reader_window"):
        fills = [kind for kind in memories().values() if kind.joins == "always" and window in kind.uses]
        label = "long context" if all(kind.whole for kind in fills) else " and ".join(kind.title() for kind in fills)
        methods |= {kind.name: (label, window) for kind in fills}
    found: dict[str, set[int]] = {}
    for settings in (manifest.get("settings", {}) for manifest in manifests):
        name, key = methods.get(settings.get("arm", {}).get("memory"), ("", ""))
        if name:
            found.setdefault(name, set()).add(settings[key])
    return ", ".join(f"{name} {' | '.join(f'{n:,}' for n in sorted(values))}" for name, values in found.items())


def _of_arm(arm: Arm, usual: RunParameters) -> Iterator[str]:
    """What an arm that the preset's own experiments do not have differs in from the one of them it is a form of."""
    arms = [one for group in experiments(usual).values() for one in group]
    alike = [one for one in arms if (one.memory, one.without) == (arm.memory, arm.without)]
    if arm in alike or not alike:
        return
    for name in OF_ARMS:
        if getattr(arm, name) not in {getattr(one, name) for one in alike}:
            yield f"{name}={getattr(arm, name)}"


def _changed(parameters: RunParameters, usual: RunParameters, names: Iterable[str]) -> list[str]:
    ours = {name: parameters[name] for name in names if name != "token_counter"}  # each footer has that one
    return [f"{name}={_plain(value)}" for name, value in ours.items() if value != usual[name]]


def _plain(value: object) -> str:
    if not isinstance(value, str):
        return to_json(value)
    return Path(value).name if Path(value).is_absolute() else value  # a folder of somebody's machine


def _of_models(arm: Arm, run: Run) -> Iterator[str]:
    ours, theirs = run.endpoints, run.usual_models
    if theirs is None:
        return
    if not ours:
        yield f"models={OFFLINE_NAME}"
    for role in ROLES if ours else ():
        readers = [reader.of(arm.memory) for reader in theirs.readers.values()]
        wanted = readers if role == "reader" else [getattr(theirs, role)]
        yield from _other_model(role, ours[run.reader_role(arm.memory) if role == "reader" else role], wanted)


def _other_model(role: str, ours: Endpoint, theirs: Sequence[Endpoint]) -> Iterator[str]:
    alike = [one for one in theirs if one.model == ours.model]
    if not alike:
        yield f"{role}={ours.model}"
    elif ours.temperature not in {one.temperature for one in alike}:
        yield f"{role}.temperature={ours.temperature}"


def answer_parameters(memory: str) -> tuple[str, ...]:
    """The parameters that BEAM's answers by a memory rest on, in the order in which records state them.

    Those of the memories that every run has are stated for each arm, as one set.
    """
    kinds = [kind for kind in memories().values() if kind.joins == "always"]
    if (own := kind_of(memory)) not in kinds and not own.outside:
        kinds.append(own)
    always = (name for kind in kinds for name in kind.own_settings.always_recorded)
    used = (
        name
        for kind in kinds
        for name in (*kind.uses, *kind.own_settings.model_fields)
        if name not in ("retriever", "k")
    )
    return tuple(dict.fromkeys((*ChatSettings.model_fields, *always, *used)))


def answer_prompts(memory: str, parameters: RunParameters) -> tuple[str, ...]:
    """The prompts that BEAM's answers by a memory rest on; those of the memories that every run has, for each arm."""
    kinds = [kind for name, kind in memories().items() if kind.joins == "always" or name == memory]
    return (*_READER_PROMPTS, *(prompt for kind in kinds for prompt in kind.prompts_for(parameters)))


def configuration_of(arm: Arm, parameters: Run) -> Configuration:
    """The preset that `arm` was run by, and what was otherwise."""
    return configuration(arm, parameters, (*answer_parameters(arm.memory), *JUDGE_PARAMETERS))


def configuration_of_run(run: Run) -> str:
    """The configurations of all arms of a run, as one phrase."""
    return stated(configuration_of(arm, run) for arm in arms_of(run, experiments(run)))
