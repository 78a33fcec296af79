"""One validated object per run: `params/base.yaml`, what `params/<size>.yaml` changes in it, and what is set.

Cells of notebooks use the same names; `beam_run.executing.preflight` compares the two.
"""

from __future__ import annotations

import ast
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    SerializeAsAny,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from beamlib.data.conversations import Size, Treatment, parse_size
from beamlib.errors import UserError
from beamlib.files import read_json, read_settings
from beamlib.llm.endpoints import BACKBONE
from beamlib.memory.declared import MemorySettings, memories, memory_sections, named_memories
from beamlib.memory.outside import OWN_MEMORY, label_of, listed_memories, only_named
from beamlib.places import PARAMS, ROOT
from beamlib.settings import (
    SECTIONS,
    ChatSettings,
    ContextSettings,
    GenerationSettings,
    JudgeSettings,
    RetrievalSettings,
    Section,
)

OF_GENERATION = tuple(GenerationSettings.model_fields)
"""Parameters that generated conversations rest on, and nothing that is done with conversations."""

GENERATED = "generated"
"""The folder below a run folder that generated conversations go to, whatever `data` is."""

_MADE_BY_THE_RUN = {"data": GENERATED, "memorycode": "memorycode/data", "meme": "meme/data"}
"""What lies below a run folder and may be read as data: the run made it and writes nothing else there."""

SETTINGS = "settings"
"""What a size's file and a notebook's cell call the values that no cell discusses, as a mapping."""

MEMORIES = "memories"
"""The field of `RunParameters` with the settings of memories."""

BASE = "base.yaml"

Preset = Literal["default", "paper"]
"""Configurations by name: the default runs without downloads, each other has a file beside those of the sizes."""


def _read_sections(values: Mapping[str, Any]) -> Mapping[str, MemorySettings]:
    return {name: section.model_validate(values.get(name, {})) for name, section in memory_sections().items()}


class RunParameters(BaseModel):
    """Everything a run depends on besides the data. Token counts are by `token_counter`.

    Settings that belong together are in sections; params files, cells and `--set` name every setting by its own name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    size: Size = Field(description="tier of the benchmark")
    preset: Preset = Field(description="the configuration that the values started from")
    data: str = Field(description="folder of BEAM conversations; empty for those generated into the run folder")
    run: str = Field(description="folder that everything is written to")
    conversations: int = Field(ge=0, description="how many conversations of the tier, in order; 0 for all")
    skip_broken: bool = Field(description="leave out conversations that cannot be read, and count them")
    chat: ChatSettings
    context: ContextSettings
    retrieval: RetrievalSettings
    memories: SerializeAsAny[Annotated[Mapping[str, MemorySettings], PlainValidator(_read_sections)]]
    own_memory: str = Field(
        description="a memory beside the main table's: one's own, as file.py:Class or process:NAME:COMMAND, or some of "
        "those with names (docs/memories.md), separated by commas; or empty"
    )
    memory_timeout: int = Field(ge=1, le=1_000_000, description="seconds that it may take to read, and to recall")
    models: str = Field(description="models file with the roles' endpoints; empty for the offline stand-in")
    backbone: str = Field(
        pattern=f"^({BACKBONE})?$", description="which reader of the models file; empty for the first"
    )
    calls: Literal["replay", "record", "refresh"] = Field(description="what to do about calls that are not stored")
    confirm_cost: bool = Field(description="nothing is called before this is true")
    prompts: str = Field(description="folder whose prompt files override those of prompts/; or empty")
    output_tokens: int = Field(ge=0, description="limit of a reply; 0 for the model's own")
    judging: JudgeSettings
    paper: Literal["v2", "v1"] = Field("v2", description="version of the paper that tables, figures and claims show")
    generation: GenerationSettings
    memorycode: str = Field(description="folder of MemoryCode dialogues and outputs; empty: a small generated set")
    meme: str = Field(description="file or folder of MEME episodes; empty: a small generated set")
    workers: int = Field(ge=1, description="processes; one conversation each")

    @model_validator(mode="before")
    @classmethod
    def _into_sections(cls, values: Any) -> Any:
        """Move each setting that is named on its own into its section."""
        values = dict(values)
        by_section: dict[str, Any] = dict(values.pop(MEMORIES, {}))
        for name, section in sections().items():
            settings = values.pop(name, by_section.get(name, {}))
            settings = dict(settings) if isinstance(settings, Section | Mapping) else settings
            by_section[name] = settings | {key: values.pop(key) for key in section.model_fields if key in values}
        return values | {name: by_section.pop(name) for name in SECTIONS} | {MEMORIES: by_section}

    @field_validator("size", mode="before")
    @classmethod
    def _any_spelling(cls, value: Any) -> Any:
        return parse_size(value) if isinstance(value, str) else value

    @field_validator("own_memory")
    @classmethod
    def _memory_that_is_there(cls, value: str) -> str:
        if only_named(value) or re.fullmatch(OWN_MEMORY, value):
            return value
        raise ValueError(
            "it should be a memory beside the main table's: one's own, as file.py:Class or process:NAME:COMMAND, "
            f"or some of {', '.join(named_memories())}, separated by commas; or empty"
        )

    @property
    def own_memories(self) -> tuple[str, ...]:
        return listed_memories(self.own_memory)

    @property
    def own_name(self) -> str | None:
        """The name that a memory in a file has told, as `own_memory` states it."""
        return label_of(self.own_memory)

    @property
    def flags(self) -> frozenset[str]:
        return self.context.flags

    @property
    def treatment(self) -> Treatment:
        """The data treatment, as the loader takes it."""
        markers = self.chat.strip_markers and "keep_markers" not in self.flags
        return Treatment(self.chat.chat_variant, markers, self.chat.errata, self.chat.per_ability)

    @property
    def generated(self) -> Path:
        """Where the run's generated conversations lie: `<run>/generated`, whatever `data` is."""
        return Path(self.run) / GENERATED

    def flat(self) -> dict[str, Any]:
        """Return every setting by its own name."""
        return {name: self[name] for name in FIELDS}

    def __getitem__(self, name: str) -> Any:
        """Return a setting by its own name."""
        section = section_of(name)
        if section in memory_sections():  # those of a memory that was registered later have their usual values
            return getattr(self.memories.get(section), name, FIELDS[name].get_default(call_default_factory=True))
        return getattr(getattr(self, section) if section else self, name)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values by their own names; as everywhere in pydantic, these are not validated."""
        changes: dict[str, Any] = {}
        for name, value in (update or {}).items():
            section = section_of(name)
            if section in self.memories:
                of_memories = changes.setdefault(MEMORIES, dict(self.memories))
                of_memories[section] = of_memories[section].model_copy(update={name: value})
            elif section:
                changes[section] = changes.get(section, getattr(self, section)).model_copy(update={name: value})
            else:
                changes[name] = value
        return super().model_copy(update=changes, deep=deep)


def sections() -> Mapping[str, type[Section]]:
    """Return all sections by name, those of memories by the memory's."""
    by_name: dict[str, type[Section]] = {}
    for name in RunParameters.model_fields:
        by_name |= memory_sections() if name == MEMORIES else {name: SECTIONS[name]} if name in SECTIONS else {}
    return by_name


def section_of(name: str) -> str:
    """Return the section that a setting is in, empty for those of the run as a whole."""
    return _settings(tuple(sections().items())).get(name, ("", None))[0]


class _Fields(Mapping[str, FieldInfo]):
    """All settings, also those of memories that are registered after this module is imported."""

    def __getitem__(self, name: str) -> FieldInfo:
        return _settings(tuple(sections().items()))[name][1]

    def __iter__(self) -> Iterator[str]:
        return iter(_settings(tuple(sections().items())))

    def __len__(self) -> int:
        return len(_settings(tuple(sections().items())))


FIELDS = _Fields()
"""Every setting by its own name, in the order of the sections."""


@cache
def _settings(known_sections: tuple[tuple[str, type[Section]], ...]) -> Mapping[str, tuple[str, FieldInfo]]:
    """Return section and declaration of every setting; raise `UserError` if a name is used twice or unknown."""
    known, settings = dict(known_sections), dict[str, tuple[str, FieldInfo]]()
    for top, field in RunParameters.model_fields.items():
        if top not in (MEMORIES, *known):
            settings[top] = ("", field)
        for section in memory_sections() if top == MEMORIES else {top} & known.keys():
            for name, info in known[section].model_fields.items():
                if name in settings or name in RunParameters.model_fields:
                    other = (name in settings and settings[name][0]) or "the run"
                    raise UserError(f"the setting '{name}' of {section} is also one of {other}; rename it.")
                settings[name] = (section, info)
    for name, kind in memories().items():
        if unknown := [setting for setting in kind.uses if setting not in settings]:
            raise UserError(
                f"{kind.__module__}: the memory {name!r} uses {unknown[0]!r}, which is no setting; correct it."
            )
    return settings


def parse_parameters(values: Mapping[str, Any], origin: str) -> RunParameters:
    """Validate `values`; the `UserError` names `origin`, the parameter, its value and what is allowed."""
    try:
        parameters = RunParameters.model_validate(dict(values))
    except UserError as error:
        raise UserError(f"{origin}: parameter 'size': {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(part for part in map(str, first["loc"]) if part not in (MEMORIES, *sections())) or "parameters"
        if first["type"] == "missing":
            raise UserError(f"{origin}: the parameter '{name}' is missing; add it.") from None
        if first["type"] == "extra_forbidden":
            check_names([name], origin)
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "string_pattern_mismatch":
            message = f"it should be {FIELDS[name].description}"
        raise UserError(f"{origin}: parameter '{name}' is {reprlib.repr(first['input'])}: {message}.") from None
    for kind in memories().values():
        if reason := kind.refusal(parameters):
            raise UserError(f"{origin}: {reason}")
    # Nothing that is written below `run` may lie among what is read, links followed; paths count from the repository.
    run = ROOT / parameters.run
    for name, made_by_run in _MADE_BY_THE_RUN.items():
        folder = parameters[name]
        if not parameters.run or not folder or ROOT / folder == run / made_by_run:
            continue
        data, places = (ROOT / folder).resolve(), (run.resolve(), (run / GENERATED).resolve())
        if any(place.is_relative_to(data) for place in places) or data.is_relative_to(places[0]):
            raise UserError(
                f"{origin}: parameter 'run' is {parameters.run!r}, and what is written there would lie among what "
                f"'{name}' reads, {folder!r}; choose a run folder beside it."
            )
    return parameters


def check_names(names: Iterable[str], origin: str) -> None:
    """A `UserError` that names the nearest known parameter where one of `names` is none."""
    for name in names:
        if name not in FIELDS:
            nearest = get_close_matches(str(name), FIELDS, n=1, cutoff=0)[0]
            raise UserError(f"{origin}: unknown parameter '{name}'; the nearest known one is '{nearest}'.")


def by_own_names(values: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Return settings by their own names, where `values` may also name sections.

    `{"light": {"chunk_buffer": 2}}`, `{"light.chunk_buffer": 2}` and `{"chunk_buffer": 2}` are the same.
    A section that is no mapping, or lacks a setting that is given in it, is a `UserError`.
    """
    by_name: dict[str, Any] = {}
    for name, value in values.items():
        section, dot, setting = str(name).partition(".")
        check_names({section} & {MEMORIES}, origin)
        if section not in sections():
            by_name[name] = value
            continue
        if not (dot or isinstance(value, Mapping)):
            raise UserError(f"{origin}: {section} is {value!r:.60}, but it is a group of settings; name one of them.")
        settings = {setting: value} if dot else value
        for key in settings:
            if section_of(key) != section:
                known = ", ".join(sections()[section].model_fields)
                raise UserError(f"{origin}: {section} has no setting '{key}'; it has {known}.")
        by_name |= settings
    return by_name


def load_parameters(path: Path, **overrides: Any) -> RunParameters:
    """The values of base.yaml, those that the file `path` (of a size) changes, and keyword arguments over both.

    base.yaml is the one beside `path`, or else the repository's. A `preset` other than the default lays the values of
    its own file, beside `path`, over those of `path`.
    """
    base = path.with_name(BASE) if path.with_name(BASE).exists() else PARAMS / BASE
    parameters = parse_parameters({**_values(base), **_values(path)}, str(path))
    preset = overrides.get("preset", parameters.preset)
    if changes := preset_values(preset, path.parent):
        parameters = parse_parameters({**parameters.flat(), **changes}, str(path.with_name(f"{preset}.yaml")))
    return parse_parameters({**parameters.flat(), **overrides}, "the options given") if overrides else parameters


def preset_values(preset: str, folder: Path) -> dict[str, Any]:
    """What a preset changes, by its file in the folder of parameter files; nothing for the default."""
    if preset not in get_args(Preset):
        raise UserError(f"preset is {preset!r:.80}, which does not exist; choose one of {', '.join(get_args(Preset))}.")
    return {} if preset == "default" else _values(folder / f"{preset}.yaml")


def _values(path: Path) -> dict[str, Any]:
    """The values of a file, flat: those under `settings` are like the others."""
    values: Any = read_settings(path)[1]
    settings: Any = values.pop(SETTINGS, {}) if isinstance(values, dict) else None
    if not isinstance(settings, dict):
        raise UserError(f"{path}: a parameter file is a list of 'name: value' lines; this one holds something else.")
    settings, values = by_own_names(settings, str(path)), by_own_names(values, str(path))
    check_names([*settings, *values], str(path))
    return {**settings, **values}


def generated_in(run: Path) -> Path | None:
    """The data that was generated for the run in this folder, if any."""
    return run / GENERATED if (run / GENERATED).is_dir() else None


def usual_parameters(size: Size, **overrides: Any) -> RunParameters:
    """The parameters of a size as its file has them; keyword arguments replace single values."""
    return load_parameters(PARAMS / f"{size.lower()}.yaml", **overrides)


def parameter_cell(notebook: Path) -> dict[str, Any]:
    """Read the parameters of a notebook: the names and values of its cell tagged `parameters`."""
    tagged = [cell for cell in read_json(notebook)["cells"] if "parameters" in cell["metadata"].get("tags", ())]
    lines = assignments(tagged[0]) if tagged else []
    return {ast.unparse(line.targets[0]): ast.literal_eval(line.value) for line in lines}


def assignments(cell: Mapping[str, Any]) -> list[ast.Assign]:
    """Parse the assignments in a cell of a notebook."""
    return [line for line in ast.parse("".join(cell["source"])).body if isinstance(line, ast.Assign)]
