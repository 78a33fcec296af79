"""The methods a run compares, which of them each table of the paper needs, and which configuration a result is of.

A configuration is a preset and what differs from it, read from the values in force. Only what bears on an arm's answers
and verdicts counts, and only for that arm: Table 9 has every budget K, whatever the K of the run. Models are compared
where the preset names them, by name and temperature: where they are served has no bearing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from beamlib.files import to_json
from beamlib.llm.endpoints import Author, Endpoint, load_models
from beamlib.llm.exchange import OFFLINE_NAME
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
        by_name = self.memory == Own.name and ":" not in (self.target or ":")  # known by records, if not here
        if self.target is None:
            parts = [self.memory]
        elif by_name or kind_of(self.target).outside:
            parts = [self.target]
        elif self.target.startswith(PROCESS):
            parts = self.target.split(":")[:2]
        else:
            parts = [self.memory, self.called or self.target.rpartition(":")[2]]
        parts += [self.retriever, f"k{self.k}"] if self.retriever else []
        parts += filter(None, (self.encoder, self.faiss_index))
        parts += ["without", self.without] if self.without else []
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
    from_outside = (
        memory_arm(target, parameters) if target in memories() else own_arm(target, parameters.own_name)
        for target in parameters.own_memories
    )
    return {
        "main": (
            *arms(lambda kind: kind.joins == "always" and not kind.ceiling),
            *from_outside,
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
    """State which indexes arms with these `settings` have, and what each memory searches."""
    searching = [arm for arm in settings if arm.get("retriever")]
    statements = []
    for arm in searching:
        models = {name: PurePath(arm[name]).name for name in ("encoder", "splade") if name in arm}
        other_encoder = models.get("encoder", "embedded") != "embedded"
        vectors = f"vectors by {models['encoder']}" if other_encoder else "the shipped vectors"
        index = _INDEXES.get(arm["retriever"], arm["retriever"]).format(vectors=vectors, **models)
        in_graphs = arm["retriever"] == "dense" and arm.get("faiss_index") == "hnsw"
        statements.append(f"{index} over an HNSW index" if in_graphs else index)
    statements += [kind_of(arm["memory"]).searched for arm in searching]
    return list(filter(None, dict.fromkeys(statements)))


_WINDOWS = ("reader_window", "full_context_window")  # compared as they are in force
_GENERATION = ("output_tokens", *OF_GENERATION)
_DRAWN = ("generation_seed", "domain", "title", "authors")  # what is written about; models are compared by role

_READER_PROMPTS = ("answer", "answer_full", "answer_full_released", "answer_turns")
JUDGE_PROMPTS = ("align_batch", "align_events", "judge_nugget")
JUDGE_PARAMETERS = ("question_in_prompt", "judge_repeats", "alignment")
Configuration = tuple[str, ...]
"""A preset's name, then `name=value` for each thing that is otherwise."""


def configuration_of(arm: Arm, run: Run) -> Configuration:
    """Compare an arm of a run with its preset: the settings that answers and verdicts rest on, and the models."""
    usual = [other for group in experiments(run.usual).values() for other in group]
    alike = [other for other in usual if (other.memory, other.without) == (arm.memory, arm.without)]
    differences = [
        f"{name}={getattr(arm, name)}"
        for name in (OF_ARMS if alike and arm not in alike else ())
        if getattr(arm, name) not in {getattr(other, name) for other in alike}
    ]
    names = (*answer_parameters(arm.memory), *JUDGE_PARAMETERS, "variant", "released", "output_tokens")
    differences += _changed(run, run.usual, [name for name in names if name not in _WINDOWS])
    differences += _changed(run, run.usual.model_copy(update=windows(run.usual, run.endpoints)), _WINDOWS)
    differences += [f"prompts={','.join(run.prompt_files.overridden)}"] if run.prompt_files.overridden else []
    if run.usual_models and not run.endpoints:
        differences.append(f"models={OFFLINE_NAME}")
    elif run.usual_models:
        for role in ROLES:
            reader = role == "reader"
            endpoint = run.endpoints[run.reader_role(arm.memory) if reader else role]
            named = [backbone.of(arm.memory) for backbone in run.usual_models.readers.values()]
            differences += _other_model(role, endpoint, named if reader else [getattr(run.usual_models, role)])
    return (run.preset, *differences)


def writing_configuration(parameters: RunParameters) -> Configuration:
    """The configuration that conversations are generated by."""
    usual = usual_parameters(parameters.size, preset=parameters.preset)
    differences = _changed(parameters, usual, [name for name in _GENERATION if name not in _DRAWN])
    if usual.generation.authors and not parameters.generation.authors:
        differences.append(f"authors={OFFLINE_NAME}")
    elif usual.generation.authors:
        ours, theirs = load_models(ROOT / parameters.generation.authors), load_models(ROOT / usual.generation.authors)
        for role in get_args(Author):
            differences += _other_model(f"authors.{role}", ours.author(role), [theirs.author(role)])
    return (parameters.preset, *differences)


def stated(configurations: Iterable[Configuration]) -> str:
    """Write several configurations as one phrase, for example `paper, but k=15, encoder=embedded`."""
    merged: dict[str, dict[str, None]] = {}
    for preset, *differences in filter(None, configurations):  # an imported run has none
        merged.setdefault(preset, {}).update(dict.fromkeys(differences))
    return " | ".join(f"{preset}, but {', '.join(others)}" if others else preset for preset, others in merged.items())


def windows_stated(manifests: Sequence[Mapping[str, Any]]) -> str:
    """The tokens that the methods of some manifests may fill, all backbones together."""
    methods: dict[str, tuple[str, str]] = {}
    for window in ("full_context_window", "reader_window"):
        fills = [kind for kind in memories().values() if kind.joins == "always" and window in kind.uses]
        label = "long context" if all(kind.whole for kind in fills) else " and ".join(kind.title() for kind in fills)
        methods |= {kind.name: (label, window) for kind in fills}
    tokens: dict[str, set[int]] = {}
    for settings in (manifest.get("settings", {}) for manifest in manifests):
        name, key = methods.get(settings.get("arm", {}).get("memory"), ("", ""))
        if name:
            tokens.setdefault(name, set()).add(settings[key])
    return ", ".join(f"{name} {' | '.join(f'{n:,}' for n in sorted(values))}" for name, values in tokens.items())


def _changed(parameters: RunParameters, usual: RunParameters, names: Iterable[str]) -> list[str]:
    changes = []
    for name in names:
        value = parameters[name]
        if name != "token_counter" and value != usual[name]:  # each footer has that one
            text = value if isinstance(value, str) else to_json(value)
            changes.append(f"{name}={Path(text).name if Path(text).is_absolute() else text}")  # somebody's folder
    return changes


def _other_model(role: str, ours: Endpoint, theirs: Sequence[Endpoint]) -> list[str]:
    alike = [endpoint for endpoint in theirs if endpoint.model == ours.model]
    if not alike:
        return [f"{role}={ours.model}"]
    if ours.temperature not in {endpoint.temperature for endpoint in alike}:
        return [f"{role}.temperature={ours.temperature}"]
    return []


def answer_parameters(memory: str) -> tuple[str, ...]:
    """The parameters that BEAM's answers by a memory rest on, in the order in which records state them.

    Those of the memories that every run has are stated for each arm, as one set.
    """
    kinds = dict.fromkeys(kind for kind in memories().values() if kind.joins == "always")
    if not kind_of(memory).outside:
        kinds[kind_of(memory)] = None
    always = (name for kind in kinds for name in kind.own_settings.always_recorded)
    used = (name for kind in kinds for name in (*kind.uses, *kind.own_settings.model_fields))
    names = dict.fromkeys((*ChatSettings.model_fields, *always, *used))
    return tuple(name for name in names if name not in ("retriever", "k"))


def answer_prompts(memory: str, parameters: RunParameters) -> tuple[str, ...]:
    """The prompts that BEAM's answers by a memory rest on; those of the memories that every run has, for each arm."""
    kinds = [kind for name, kind in memories().items() if kind.joins == "always" or name == memory]
    return (*_READER_PROMPTS, *(prompt for kind in kinds for prompt in kind.prompts_for(parameters)))


def configuration_of_run(run: Run) -> str:
    """The configurations of all arms of a run, as one phrase."""
    return stated(configuration_of(arm, run) for arm in arms_of(run, experiments(run)))
