"""What the user gives a command: the values of its options, and a yes to what it would spend."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from beamlib.errors import UserError

MemoryTimeout = Annotated[
    int | None,
    typer.Option(min=1, max=1_000_000, help="Seconds your memory may take to read, and for a question; usually 3600."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
SkipBroken = Annotated[
    bool, typer.Option("--skip-broken", help="Leave out conversations that cannot be read; they are named and counted.")
]
Data = Annotated[Path, typer.Option("--data", envvar="BEAM_DATA", help="Folder of BEAM conversations.")]
Models = Annotated[Path | None, typer.Option("--models", help="Models file, for example params/models.yaml.")]
BaseUrl = Annotated[str, typer.Option("--base-url", help="One endpoint for every role, instead of a models file.")]
Model = Annotated[str, typer.Option("--model", help="With --base-url: the model's name there.")]
KeyVariable = Annotated[str, typer.Option("--key-variable", help="With --base-url: environment variable of the key.")]
Window = Annotated[int, typer.Option("--context-window", min=1000, help="With --base-url: tokens the model accepts.")]
Prompts = Annotated[Path | None, typer.Option("--prompts", help="Folder whose prompt files override ours.")]
PresetName = Annotated[
    str, typer.Option("--preset", help="paper: the paper's configuration (params/paper.yaml), by --models offline too.")
]
Settings = Annotated[list[str] | None, typer.Option("--set", help="A parameter, as name=value; may be repeated.")]


def listed(value: str) -> list[str]:
    """The parts of a list separated by commas, without empty ones."""
    return [part.strip() for part in value.split(",") if part.strip()]


def listed_numbers(value: str, option: str) -> list[int]:
    """The positive integers of a list separated by commas; anything else is a `UserError` that names `option`."""
    try:
        numbers = [int(part) for part in listed(value)]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UserError(f"{option}: {value!r:.80} is not a list of positive integers such as 5,10,15,20.")
    return numbers


def named_settings(items: Sequence[str] | None) -> dict[str, object]:
    """The values of `--set name=value`, each read as YAML."""
    from beamlib.files import parse_yaml

    found: dict[str, object] = {}
    for item in items or []:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise UserError(f"--set: {item!r} is not of the form name=value, for example variant=released.")
        found[name.strip()] = parse_yaml(value, Path(f"--set {name.strip()}"))
    return found


def agreed(yes: bool) -> bool:
    """True where the user agrees to the estimate above: by `--yes`, or asked at the terminal; else a `UserError`."""
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("nothing was called: add --yes to spend what the estimate above says.")
        if not typer.confirm("Make these calls?"):
            raise UserError("nothing was called.")
    return True
