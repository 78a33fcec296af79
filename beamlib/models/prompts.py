"""Prompt files: one per prompt in `prompts/`, a YAML header between two `---` lines, then the text as a Jinja template.

The header states `listing` (in the paper), `role` (which model answers), `variables` and `output`. Rendering with a
missing or an unknown variable is an error, so that a prompt can never go out with a hole in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
import yaml

from beamlib.errors import UserError
from beamlib.files import read_text, sha256

PROMPTS = Path(__file__).resolve().parents[2] / "prompts"

_ENVIRONMENT = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=False, autoescape=False)


@dataclass(frozen=True)
class PromptFile:
    """A parsed prompt file. `sha256` is of its bytes and goes into manifests."""

    id: str
    listing: str
    role: str
    variables: tuple[str, ...]
    output: str
    template: str
    sha256: str


@cache
def prompt_file(prompt_id: str) -> PromptFile:
    """Read `prompts/<prompt_id>.md`."""
    path = PROMPTS / f"{prompt_id}.md"
    source = read_text(path)
    _, separator, rest = source.partition("---\n")
    header, closing, body = rest.partition("\n---\n")
    if not separator or not closing:
        raise UserError(f"{path}: a prompt file starts with a header between two '---' lines; add one.")
    try:
        fields = yaml.safe_load(header)
    except yaml.YAMLError as error:
        raise UserError(f"{path}: the header is not valid YAML ({' '.join(str(error).split())}); correct it.") from None
    missing = {"listing", "role", "variables", "output"} - set(fields if isinstance(fields, dict) else ())
    if missing:
        raise UserError(f"{path}: the header lacks {', '.join(sorted(missing))}; add it.")
    return PromptFile(
        prompt_id,
        str(fields["listing"]),
        fields["role"],
        tuple(fields["variables"]),
        str(fields["output"]),
        body.strip(),
        sha256(source),
    )


@cache
def _template(prompt_id: str) -> jinja2.Template:
    return _ENVIRONMENT.from_string(prompt_file(prompt_id).template)


def render(prompt_id: str, variables: Mapping[str, str]) -> list[dict[str, str]]:
    """Chat messages of a prompt. Variables that the header does not name, or that are missing, are a `UserError`."""
    declared = set(prompt_file(prompt_id).variables)
    if declared != set(variables):
        raise UserError(
            f"prompts/{prompt_id}.md declares the variables {sorted(declared)} but was given {sorted(variables)}."
        )
    return [{"role": "user", "content": _template(prompt_id).render(variables)}]
