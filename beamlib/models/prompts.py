"""Prompt files: one per prompt in `prompts/`, a YAML header between two `---` lines, then the text as a Jinja template.

The header states `listing` (in the paper), `role` (which model answers), `variables` and `output`. Rendering with a
missing or an unknown variable is an error, so that a prompt can never go out with a hole in it.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
import jinja2.meta

from beamlib.errors import UserError
from beamlib.files import parse_yaml, read_text, sha256

PROMPTS = Path(__file__).resolve().parents[2] / "prompts"

_ENVIRONMENT = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=False, autoescape=False)


@dataclass(frozen=True)
class PromptFile:
    """A parsed prompt file. `sha256` is of its text and goes into manifests."""

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
    fields = parse_yaml(header, path)
    missing = {"listing", "role", "variables", "output"} - set(fields if isinstance(fields, dict) else ())
    if missing:
        raise UserError(f"{path}: the header lacks {', '.join(sorted(missing))}; add it.")
    variables = fields["variables"]
    if not isinstance(variables, list) or not all(isinstance(name, str) for name in variables):
        raise UserError(f"{path}: 'variables' is {reprlib.repr(variables)} where a list of names belongs; correct it.")
    _check_template(path, body, set(variables))
    return PromptFile(
        prompt_id,
        str(fields["listing"]),
        str(fields["role"]),
        tuple(variables),
        str(fields["output"]),
        body.strip(),
        sha256(source),
    )


def _check_template(path: Path, body: str, declared: set[str]) -> None:
    try:
        used = jinja2.meta.find_undeclared_variables(_ENVIRONMENT.parse(body))
    except jinja2.TemplateSyntaxError as error:
        raise UserError(f"{path}: the text is not a valid template ({error.message}); correct it.") from None
    if used != declared:
        raise UserError(
            f"{path}: the header declares the variables {sorted(declared)}, the text uses {sorted(used)}; correct one."
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
