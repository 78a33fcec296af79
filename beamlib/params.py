"""One validated object per run: `params/base.yaml`, what `params/<size>.yaml` changes in it, and what is set.

Cells of notebooks use the same names; `beam_run.executing.preflight` compares the two.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from beamlib.data.conversations import Size, Treatment
from beamlib.data.sources import parse_size
from beamlib.errors import UserError
from beamlib.files import parse_yaml, read_text
from beamlib.llm.endpoints import BACKBONE
from beamlib.places import PARAMS, ROOT

RELEASED_FLAGS: Mapping[str, str] = {
    "duplicate_per_message": "M1: RAG and working memory hold every pair once per message of its turn",
    "oldest_working_memory": "M2: working memory is the last 100 such entries, filled oldest first",
    "character_budgets": "M2: contexts are packed by characters // 3.5 under 14,000 (LIGHT) or 29,000 (RAG)",
    "plan_blind_ids": "M3: a retrieved key brings the same-numbered pairs of every plan (10M)",
    "one_vector_per_pair": "M7: all keys of a pair are embedded as one text",
    "questions_accumulate": "M9: earlier questions stay in the long-context prompt",
    "long_context_prompt": "M10: the long-context prompt asks for the answer alone, without a rule for what is absent",
    "keep_markers": "M11: plan coordinates stay in the text",
    "exact_yes": "M14: the noise filter keeps a chunk only for the bare word yes",
}
"""Behaviours of the released code that can be switched on one by one, with their number in the reference (M12, the
history an extraction sees, is the released rule in both variants)."""

OF_GENERATION = (
    "generation_seed", "domain", "title", "strategy", "reach", "subplans", "bullets_per_subplan", "batches_per_subplan",
    "questions_per_batch", "recent_messages", "reply_limit", "followup_limit", "question_output_tokens", "authors",
)  # fmt: skip
"""Parameters that generated conversations rest on, and nothing that is done with conversations."""

GENERATED = "generated"
"""The folder below a run folder that generated conversations go to, whatever `data` is."""

_MADE_BY_THE_RUN = {"data": GENERATED, "memorycode": "memorycode/data", "meme": "meme/data"}
"""What lies below a run folder and may be read as data: the run made it and writes nothing else there."""

MOST_TOKENS = 2**53
"""The largest window, which a float holds exactly."""

AdapterName = Literal["mem0", "graphiti", "langmem"]
ADAPTERS: tuple[AdapterName, ...] = get_args(AdapterName)
"""Memory systems of others that are taken in by their names (`beam_memories.adapters`)."""

PROCESS = "process:"
OWN_MEMORY = rf".+\.py:[^\W\d]\w{{0,99}}|{'|'.join(ADAPTERS)}|{PROCESS}[A-Za-z][A-Za-z0-9_-]{{0,59}}:.+"
"""A memory that is not part of this package: `file.py:Class`, an adapter, or `process:NAME:COMMAND`. The class, and the
name, names a folder."""

EvolvingName = Literal["md-flat", "wiki", "dependencies"]
EVOLVING: tuple[EvolvingName, ...] = get_args(EvolvingName)
"""Memories for facts that change (`beam_memories.evolving`), which a run takes by name."""

_BY_NAME = "|".join((*EVOLVING, *ADAPTERS))


def listed_memories(memory: str) -> tuple[str, ...]:
    """Split the value of `own_memory`: several memories can be given only by their names, separated by commas."""
    named = re.fullmatch(f"({_BY_NAME})(,({_BY_NAME}))*", memory)
    return tuple(dict.fromkeys(memory.split(","))) if named else (memory,) if memory else ()


SETTINGS = "settings"
"""What a size's file and a notebook's cell call the values that no cell discusses, as a mapping."""

BASE = "base.yaml"

RetrieverName = Literal["hybrid", "dense", "bm25", "splade"]
HYBRID_BEAM_REMOVED = (
    "the retriever 'hybrid-beam' was fitted to BEAM, found no more evidence than 'hybrid' on conversations that it was "
    "not fitted to, and is no part of this version"
)
ProtocolName = Literal["paper", "released-code", "f1-weighted", "nugget-mean", "binary"]


Preset = Literal["default", "paper"]
"""Configurations by name: the default runs without downloads, each other has a file beside those of the sizes."""


class RunParameters(BaseModel):
    """Everything a run depends on besides the data. Token counts are by `token_counter`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    size: Size = Field(description="tier of the benchmark")
    preset: Preset = Field(description="the configuration that the values started from")
    data: str = Field(description="folder of BEAM conversations; empty for those generated into the run folder")
    run: str = Field(description="folder that everything is written to")
    conversations: int = Field(ge=0, description="how many conversations of the tier, in order; 0 for all")
    skip_broken: bool = Field(description="leave out conversations that cannot be read, and count them")
    chat_variant: Literal["full", "truncated"]
    strip_markers: bool
    errata: Literal["none", "flag", "drop"]
    reader_window: int = Field(ge=2_000, le=MOST_TOKENS, description="tokens a reader with RAG or LIGHT accepts")
    full_context_window: int = Field(
        ge=0, le=MOST_TOKENS, description="tokens of a long-context reader; 0 for the backbone's own"
    )
    token_counter: Literal["auto", "regex-words", "cl100k"] = Field(description="counter of every token budget")
    variant: Literal["paper", "released"] = Field(description="LIGHT and baselines as described, or as released")
    released: list[str] = Field(description="single behaviours of the released code, by name, on top of the variant")
    filter: Literal["chunkwise", "batched"] = Field(
        "chunkwise", description="noise filter: a call per chunk and question as in the paper, or a call per question"
    )
    retriever: RetrieverName
    retrievers: list[RetrieverName] = Field(min_length=1, description="retrievers compared in notebook 08")
    encoder: str = Field(
        description="vectors of dense and hybrid: embedded, minilm, embedding (a role of the models file), or a "
        "sentence-transformers model"
    )
    splade: str = Field(description="sparse vectors of the retriever splade: a SparseEncoder by name or folder")
    k: int = Field(ge=1, description="retrieval budget: pairs recalled")
    budgets: list[int] = Field(min_length=1, description="retrieval budgets compared in notebook 07")
    working_pairs: int = Field(ge=0, description="z of the paper: newest pairs in working memory")
    episodic_share: float = Field(gt=0, lt=1, description="share of LIGHT's context for retrieved pairs")
    working_share: float = Field(gt=0, lt=1, description="share of LIGHT's context for working memory")
    scratchpad_threshold: int = Field(ge=100, description="tokens above which the scratchpad is compressed")
    scratchpad_target: int = Field(ge=50, description="tokens it is compressed to")
    chunk_percentile: float = Field(ge=0, le=100, description="distances above it cut the scratchpad into chunks")
    chunk_buffer: int = Field(ge=0, description="sentences on either side that a distance is measured over")
    own_memory: str = Field(
        pattern=f"^({OWN_MEMORY}|({_BY_NAME})(,({_BY_NAME}))*)?$",
        description=(
            f"a memory beside the main table's: one's own, as file.py:Class or process:NAME:COMMAND, "
            f"or some of {', '.join((*EVOLVING, *ADAPTERS))}, separated by commas; or empty"
        ),
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
    question_in_prompt: bool = Field(description="whether the judge sees the question (the released code forgets it)")
    judge_repeats: int = Field(ge=1, le=100, description="how often every verdict is asked for, to see its spread")
    alignment: Literal["greedy", "batched"] = Field(description="event ordering: call by call as released, or one call")
    protocol: ProtocolName = Field(description="scoring protocol of the headline tables")
    seed: int = Field(ge=0, description="seed of the signs that the paired test draws")
    generation_seed: int = Field(ge=0, description="seed that generated conversations are drawn from")
    domain: str = Field(description="domain of generated conversations; empty: drawn in the released proportions")
    title: str = Field(description="title of generated conversations; empty: drawn")
    strategy: Literal["hierarchical", "sequential"] = Field(description="how 10M derives ten seeds from one")
    reach: Literal["conversation", "batch"] = Field(description="how far back a dialogue remembers; released: batch")
    subplans: list[int] = Field(description="N of Table 6 for general, coding and math")
    bullets_per_subplan: list[int] = Field(description="M of Algorithm 1 for general, coding and math")
    batches_per_subplan: list[int] = Field(description="K of Table 6 for general, coding and math")
    questions_per_batch: list[int] = Field(description="I of Table 6 for general, coding and math")
    recent_messages: int = Field(ge=2, description="M of Algorithm 3: messages that a dialogue keeps word for word")
    reply_limit: int = Field(ge=0, description="delta 1: replies to the assistant's questions per turn")
    followup_limit: int = Field(ge=0, description="delta 2: follow-up questions per turn")
    question_output_tokens: int = Field(ge=0, description="limit of a reply with user questions; 0 for the model's own")
    authors: str = Field(description="models file whose authors write; empty for the offline author")
    memorycode: str = Field(description="folder of MemoryCode dialogues and outputs; empty: a small generated set")
    meme: str = Field(description="file or folder of MEME episodes; empty: a small generated set")
    workers: int = Field(ge=1, description="processes; one conversation each")

    @field_validator("size", mode="before")
    @classmethod
    def _any_spelling(cls, value: Any) -> Any:
        return parse_size(value) if isinstance(value, str) else value

    @field_validator("full_context_window")
    @classmethod
    def _none_or_enough(cls, value: int) -> int:
        if 0 < value < 2_000:
            raise ValueError("must be 0 for the backbone's own window, or at least 2000 tokens")
        return value

    @field_validator("budgets")
    @classmethod
    def _positive(cls, value: list[int]) -> list[int]:
        if any(k < 1 for k in value) or len(set(value)) != len(value):
            raise ValueError("budgets must be different positive integers")
        return value

    @field_validator("retriever", "retrievers", mode="before")
    @classmethod
    def _renamed_retriever(cls, value: Any) -> Any:
        names = value if isinstance(value, list) else [value]
        if "embedded" in names:
            raise ValueError("the retriever 'embedded' is now called 'hybrid'")
        if "hybrid-beam" in names:
            raise ValueError(f"{HYBRID_BEAM_REMOVED}; use 'hybrid'")
        return value

    @field_validator("retrievers")
    @classmethod
    def _different_retrievers(cls, value: list[RetrieverName]) -> list[RetrieverName]:
        if len(set(value)) != len(value):
            raise ValueError("retrievers must be different ones")
        return value

    @field_validator("subplans", "bullets_per_subplan", "batches_per_subplan", "questions_per_batch")
    @classmethod
    def _three_styles(cls, value: list[int]) -> list[int]:
        if len(value) != 3 or min(value) < 1:
            raise ValueError("must be three positive integers, for general, coding and math conversations")
        return value

    @field_validator("released")
    @classmethod
    def _known_flags(cls, value: list[str]) -> list[str]:
        for name in value:
            if name not in RELEASED_FLAGS:
                raise ValueError(
                    f"{name!r:.80} is no released behaviour; the known ones are {', '.join(RELEASED_FLAGS)}"
                )
        return value

    @field_validator("filter")
    @classmethod
    def _one_decision_per_call(cls, value: str, info: ValidationInfo) -> str:
        released = info.data.get("variant") == "released" or "exact_yes" in info.data.get("released", ())
        if value == "batched" and released:
            raise ValueError("the released behaviour exact_yes reads a yes for each chunk; use chunkwise")
        return value

    @property
    def flags(self) -> frozenset[str]:
        """The released behaviours that are on."""
        return frozenset(RELEASED_FLAGS if self.variant == "released" else self.released)

    @property
    def treatment(self) -> Treatment:
        """The data treatment, as the loader takes it."""
        return Treatment(self.chat_variant, self.strip_markers and "keep_markers" not in self.flags, self.errata)

    @property
    def generated(self) -> Path:
        """Where the run's generated conversations lie: `<run>/generated`, whatever `data` is."""
        return Path(self.run) / GENERATED


def parse_parameters(values: Mapping[str, Any], origin: str) -> RunParameters:
    """Validate `values`; the `UserError` names `origin`, the parameter, its value and what is allowed."""
    try:
        found = RunParameters.model_validate(dict(values))
    except UserError as error:
        raise UserError(f"{origin}: parameter 'size': {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "parameters"
        if first["type"] == "missing":
            raise UserError(f"{origin}: the parameter '{name}' is missing; add it.") from None
        if first["type"] == "extra_forbidden":
            check_names([name], origin)
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "string_pattern_mismatch":
            message = f"it should be {RunParameters.model_fields[name].description}"
        raise UserError(f"{origin}: parameter '{name}' is {reprlib.repr(first['input'])}: {message}.") from None
    _check_places(found, origin)
    return found


def _check_places(parameters: RunParameters, origin: str) -> None:
    """A `UserError` where a run would write below what it reads: everything is written below `run`, links followed.

    Relative paths count from the repository's top folder, as in the notebooks.
    """
    run = ROOT / parameters.run
    for name, made in _MADE_BY_THE_RUN.items():
        given = getattr(parameters, name)
        if not parameters.run or not given or ROOT / given == run / made:
            continue
        data, places = (ROOT / given).resolve(), (run.resolve(), (run / GENERATED).resolve())
        if any(place.is_relative_to(data) for place in places) or data.is_relative_to(places[0]):
            raise UserError(
                f"{origin}: parameter 'run' is {parameters.run!r}, and what is written there would lie among what "
                f"'{name}' reads, {given!r}; choose a run folder beside it."
            )


def check_names(names: Iterable[str], origin: str) -> None:
    """A `UserError` that names the nearest known parameter where one of `names` is none."""
    for name in names:
        if name not in RunParameters.model_fields:
            nearest = get_close_matches(name, RunParameters.model_fields, n=1, cutoff=0)[0]
            raise UserError(f"{origin}: unknown parameter '{name}'; the nearest known one is '{nearest}'.")


def load_parameters(path: Path, **overrides: Any) -> RunParameters:
    """The values of base.yaml, those that the file `path` (of a size) changes, and keyword arguments over both.

    base.yaml is the one beside `path`, or else the repository's. A `preset` other than the default lays the values of
    its own file, beside `path`, over those of `path`.
    """
    base = path.with_name(BASE) if path.with_name(BASE).exists() else PARAMS / BASE
    found = parse_parameters({**_values(base), **_values(path)}, str(path))
    preset = overrides.get("preset", found.preset)
    if changes := preset_values(preset, path.parent):
        found = parse_parameters({**found.model_dump(), **changes}, str(path.with_name(f"{preset}.yaml")))
    return parse_parameters({**found.model_dump(), **overrides}, "the options given") if overrides else found


def preset_values(preset: str, folder: Path) -> dict[str, Any]:
    """What a preset changes, by its file in the folder of parameter files; nothing for the default."""
    if preset not in get_args(Preset):
        raise UserError(f"preset is {preset!r:.80}, which does not exist; choose one of {', '.join(get_args(Preset))}.")
    return {} if preset == "default" else _values(folder / f"{preset}.yaml")


def _values(path: Path) -> dict[str, Any]:
    """The values of a file, flat: those under `settings` are like the others."""
    values: Any = parse_yaml(read_text(path), path)
    settings: Any = values.pop(SETTINGS, {}) if isinstance(values, dict) else None
    if not isinstance(settings, dict):
        raise UserError(f"{path}: a parameter file is a list of 'name: value' lines; this one holds something else.")
    check_names([*settings, *values], str(path))
    return {**settings, **values}


def generated_in(run: Path) -> Path | None:
    """The data that was generated for the run in this folder, if any."""
    return run / GENERATED if (run / GENERATED).is_dir() else None


def usual_parameters(size: Size, **overrides: Any) -> RunParameters:
    """The parameters of a size as its file has them; keyword arguments replace single values."""
    return load_parameters(PARAMS / f"{size.lower()}.yaml", **overrides)
