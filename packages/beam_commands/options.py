"""Define the options that several commands share, and parse their values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from beamlib.errors import UserError
from beamlib.memory.declared import named_memories
from beamlib.memory.outside import EXAMPLE, OWN_MEMORY, PROCESS, label_of, listed_memories, program_of, with_label

MemoryTimeout = Annotated[
    int | None,
    typer.Option(min=1, max=1_000_000, help="Seconds your memory may take to read, and for a question; usually 3600."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
SkipBroken = Annotated[
    bool, typer.Option("--skip-broken", help="Leave out conversations that cannot be read; they are named and counted.")
]
PerAbility = Annotated[
    int,
    typer.Option(
        "--per-ability", min=0, help="Ask this many questions of each ability and conversation, by hash; 0 for all."
    ),
]
Models = Annotated[Path | None, typer.Option("--models", help="Models file, for example params/models.yaml.")]
BaseUrl = Annotated[str, typer.Option("--base-url", help="One endpoint for every role, instead of a models file.")]
ModelName = Annotated[str, typer.Option("--model", help="With --base-url: the model's name there.")]
KeyVariable = Annotated[str, typer.Option("--key-variable", help="With --base-url: environment variable of the key.")]
Window = Annotated[int, typer.Option("--context-window", min=1000, help="With --base-url: tokens the model accepts.")]
Prompts = Annotated[Path | None, typer.Option("--prompts", help="Folder whose prompt files override ours.")]
PresetName = Annotated[
    str, typer.Option("--preset", help="default, or paper: the paper's configuration (params/paper.yaml).")
]
ClusterName = Annotated[
    str, typer.Option("--cluster", help="local:N, tcp://HOST:PORT or a file: workers of dask (docs/scaling.md).")
]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", min=0, help="US dollars that the run may spend in all; reached, it ends with code 3."),
]
ProtocolOption = Annotated[
    str, typer.Option("--protocol", help="Scoring protocol: paper, released-code, f1-weighted, nugget-mean or binary.")
]
Sizes = Annotated[
    str, typer.Option("--sizes", "--size", help="Tiers, of 100k, 500k, 1m, 10m, separated by commas; by default all.")
]
Calls = Annotated[
    str, typer.Option("--calls", help="With models: replay (call nothing), record (what is missing) or refresh (all).")
]
Long = Annotated[bool, typer.Option("--long", help="Print a row per ability, with interval and counts.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print those rows as CSV.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="A parameter, as name=value; may be repeated.")]

NoAdmission = Annotated[
    bool, typer.Option("--no-admission", help="Ask the models no known questions before the run (docs/running.md).")
]
JudgeAnyway = Annotated[
    bool, typer.Option("--judge-anyway", help="Let a judge judge that fails its exam of thirty known nuggets.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Confirm the estimated cost.")]

MAIN_JOB = "Main job"
RESULTS = "Results of a run, and of the released benchmark"
FIELD_PANEL = "Results of others, and other judges"
DATA = "Conversations"
BENCHMARKS = "Other benchmarks"
"""Panels of `beamlib --help`."""


def listed(value: str) -> list[str]:
    """Split a list separated by commas; empty parts are dropped."""
    return [part.strip() for part in value.split(",") if part.strip()]


def listed_numbers(value: str, option: str) -> list[int]:
    """Parse a list of positive integers; anything else raises a `UserError` that names `option`."""
    try:
        numbers = [int(part) for part in listed(value)]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UserError(f"{option}: {value!r:.80} is not a list of positive integers such as 5,10,15,20.")
    return numbers


def named_settings(items: Sequence[str] | None) -> dict[str, object]:
    """Parse `--set name=value` and `--set section.name=value` options, each value as YAML."""
    from beamlib.files import parse_yaml
    from beamlib.params import by_own_names

    found: dict[str, object] = {}
    for item in items or []:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise UserError(f"--set: {item!r} is not of the form name=value, for example variant=released.")
        found[name.strip()] = parse_yaml(value, Path(f"--set {name.strip()}"))
    return by_own_names(found, "--set")


_OFFLINE = "offline"
"""What `--models` says where no model is to be called."""
_MOST_REPLY_TOKENS = 8_192
"""The limit of a reply where one endpoint plays every role, and its window is large."""


@dataclass(frozen=True)
class Endpoints:
    """Where models are served: a models file, or one endpoint (`base_url`, `model`) for every role, or neither.

    `offline` instead of a file selects the stand-in where a preset names a models file.
    """

    file: Path | None = None
    base_url: str = ""
    model: str = ""
    key_variable: str = ""
    context_window: int = 131_072

    def path(self, folder: Path, usual: str = "") -> str:
        """Return the models file, empty for the offline stand-in; a single endpoint is written to
        `<folder>/models.yaml`.

        Without any option it is the `usual` one.
        """
        from yaml import safe_dump

        from beamlib.files import write_text
        from beamlib.llm.endpoints import MODELS, load_models, parse_models

        if self.file is not None and self.base_url:
            raise UserError("--models and --base-url exclude one another; give one.")
        if self.key_variable and not self.base_url:
            raise UserError("--key-variable: it goes with --base-url; a models file names the variables of its roles.")
        if self.file is not None and self.model:
            raise UserError("--model: it goes with --base-url; a models file names the models of its readers.")
        if self.file == Path(_OFFLINE):
            return ""
        if self.file is not None:
            load_models(self.file)  # a mistake in it shows first
            return str(self.file.absolute())
        if not self.base_url:
            if self.model:
                raise UserError("--model: name the endpoint that serves it with --base-url.")
            return usual
        if not self.model:
            raise UserError("--base-url: name the model that is served there with --model.")
        limit = min(_MOST_REPLY_TOKENS, self.context_window // 8)  # a runaway reply would cost the whole window
        endpoint = {"model": self.model, "base_url": self.base_url, "context_window": self.context_window}
        endpoint |= {"max_output_tokens": limit}
        endpoint |= {"key_variable": self.key_variable} if self.key_variable else {}
        endpoint |= _listed_prices(self.model, self.base_url)
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", self.model.rpartition("/")[2]).strip("-._") or "model"
        roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
        values: dict[str, Any] = {"readers": {name: endpoint}, **roles, "authors": {"planner": endpoint}}
        parse_models(values, "--base-url").take_keys()  # which refuses a key in the address
        text = "# Written by --base-url: one endpoint in every role.\n" + safe_dump(values, sort_keys=False)
        return str(write_text(folder / MODELS, text).absolute())


def _listed_prices(model: str, base_url: str) -> dict[str, float]:
    """Return the prices that the shipped models files list for a model at the same address."""
    from beamlib.files import read_text
    from beamlib.llm.endpoints import load_models
    from beamlib.places import PARAMS

    for path in sorted(PARAMS.glob("*.yaml")):
        if "\nreaders:" not in read_text(path):
            continue
        file = load_models(path)
        for endpoint in (*(endpoint for _, endpoint in file.by_stored_role()), *file.authors.values()):
            if (endpoint.model, endpoint.base_url) == (model, base_url.rstrip("/")) and endpoint.dollars(1, 0, 1):
                names = ("input_price", "cached_input_price", "output_price")
                return {name: price for name in names if (price := getattr(endpoint, name)) is not None}
    return {}


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The options of every command that may call models."""

    models: Models = None
    base_url: BaseUrl = ""
    model: ModelName = ""
    key_variable: KeyVariable = ""
    context_window: Window = 131_072
    calls: Calls = "record"
    prompts: Prompts = None
    settings: Settings = None
    max_cost: MaxCost = None
    yes: Yes = False

    @property
    def endpoints(self) -> Endpoints:
        """Where the models are served."""
        return Endpoints(self.models, self.base_url, self.model, self.key_variable, self.context_window)


def options_from(
    kind: type[Any], leave_out: Collection[str] = (), **other: Any
) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """Make the fields of the dataclass `kind` the options of a command, which is called with one `kind`.

    Args:
        leave_out: Fields that the command does not offer; they keep their defaults.
        other: Annotations of fields in place of their own.
    """
    hints = get_type_hints(kind, include_extras=True) | other
    parameters = [
        Parameter(
            field.name, Parameter.KEYWORD_ONLY, annotation=hints[field.name],
            default=Parameter.empty if field.default is MISSING else field.default,
        )
        for field in sorted(fields(kind), key=lambda field: field.name not in kind.__annotations__)  # its own first
        if field.name not in leave_out
    ]  # fmt: skip

    def decorate(function: Callable[[Any], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            function(kind(**values))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def check_run_name(name: str) -> None:
    """Raise `UserError` unless `name` can be a folder under runs/."""
    if not name or Path(name).name != name or name.startswith(".") or not name.isprintable():
        raise UserError(f"--name: {name!r} must be a plain folder name such as 'default'.")


def absolute_target(memory: str) -> str:
    """Make the paths in a value absolute: the file of a class, or all words of a command that name files."""
    names = [name.strip() for name in memory.split(",")]
    if {"", *named_memories()}.issuperset(names):
        return ",".join(dict.fromkeys(filter(None, names)))
    if not re.fullmatch(OWN_MEMORY, memory) and memory.startswith(PROCESS):
        raise UserError(f"--memory: {memory!r:.200} is not of the form process:NAME:COMMAND, for example {EXAMPLE}.")
    if not memory.startswith(PROCESS):
        file = Path(memory.rpartition(":")[0])
        target = memory if file.is_file() else listed_memories(memory)[0]  # a path may have an = of its own
        return with_label(str(Path(target).absolute()), label_of(memory) if target != memory else None)
    name, words = program_of(memory)
    words = [str(Path(word).absolute()) if Path(word).is_file() else word for word in words]
    return f"{PROCESS}{name}:{shlex.join(words)}"


def spread_k(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that options give, with a K that they give for systems of others, too."""
    return {"adapter_k": settings["k"], **settings} if "k" in settings else dict(settings)
