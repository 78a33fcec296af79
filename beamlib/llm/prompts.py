"""Prompt files: one per prompt in `prompts/`, a YAML header between two `---` lines, then the text as a Jinja template.

The header states `listing` (in the paper), `role` (which model answers), `variables` and `output`. Rendering with a
missing or an unknown variable is an error, so that a prompt can never go out with a hole in it. The text is one user
message, or a system and a user message, each after a line `=== system ===` or `=== user ===` of its own.

A folder of one's own (parameter `prompts`) overrides any of them by file name. There the header may lack any field, or
be left out altogether: what it does not say is as in our file. Only the variables cannot differ.
"""

from __future__ import annotations

import re
import reprlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
from jinja2 import nodes
from jinja2.sandbox import SandboxedEnvironment

from beamlib.errors import UserError
from beamlib.files import parse_yaml, read_text, sha256
from beamlib.llm.chat_turns import ChatTurn, insert_turns
from beamlib.places import PROMPTS

# Sandboxed: a folder of prompts may have come with somebody else's run.
_ENVIRONMENT = SandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=False, autoescape=False)
# What a prompt is made of takes time and space in proportion to its text and variables. Loops, macros, arithmetic and
# most filters do not, and a dozen characters of them can fill a machine.
_NODES = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.If, nodes.CondExpr, nodes.Compare,
    nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Tuple, nodes.List, nodes.Concat, nodes.Filter, nodes.Test,
)  # fmt: skip
_FILTERS = frozenset({"capitalize", "default", "length", "lower", "string", "title", "trim", "upper"})
_MOST_TEXT = 200_000  # characters of a prompt file; the longest of ours has 8,000
_MOST_TIMES = 20  # one variable in one text: a context of millions of characters is sent as often as it is named
_HEADER = re.compile(r"---[ \t]*\n(?P<header>.*?)^---[ \t]*(?:\n|\Z)(?P<text>.*)", re.MULTILINE | re.DOTALL)
_ROLE_LINE = re.compile(r"^=== (\w+) ===[ \t]*$", re.MULTILINE)
_FIELDS = ("listing", "role", "variables", "output")


@dataclass(frozen=True)
class PromptFile:
    """A parsed prompt file.

    `template` is its whole text, `parts` the (chat role, template) of each message it becomes. `sha256` is of the file
    and goes into manifests.
    """

    id: str
    listing: str
    role: str
    variables: tuple[str, ...]
    output: str
    template: str
    parts: tuple[tuple[str, str], ...]
    sha256: str


def prompt_ids() -> list[str]:
    """The ids of all prompts, sorted."""
    return sorted(path.stem for path in PROMPTS.glob("*.md"))


@cache
def prompt_file(prompt_id: str, folder: Path | None = None) -> PromptFile:
    """Read `<prompt_id>.md` from `folder` if it is there, else from `prompts/`. A file with errors is a `UserError`."""
    own = _read(PROMPTS / f"{prompt_id}.md", None)
    if folder is not None and (folder / f"{prompt_id}.md").exists():
        return _read(folder / f"{prompt_id}.md", own)
    return own


def check_overrides(folder: Path) -> list[str]:
    """The ids of the prompts that `folder` overrides, sorted. To be called before anything is asked.

    A `UserError` says what is wrong where the folder is missing or overrides nothing, where a file name is no prompt's,
    and where a file cannot be read or has other variables than ours. Hidden files are passed over.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise UserError(
            f"{folder}: the folder of prompts cannot be read ({error.strerror}); correct `prompts`."
        ) from None
    known = prompt_ids()
    found = []
    for path in paths:
        if path.suffix == ".md" and path.stem in known:
            found.append(_read(path, _read(PROMPTS / path.name, None)).id)
        elif path.suffix.lower() == ".md" or path.stem.lower() in known:
            raise UserError(
                f"{path}: no prompt has this file name; use one of {', '.join(f'{name}.md' for name in known)}."
            )
    if not found:
        raise UserError(
            f"{folder}: the folder holds no prompt file; name one as in prompts/, or leave `prompts` empty."
        )
    return found


def render(
    prompt_id: str, variables: Mapping[str, str], folder: Path | None = None, turns: Sequence[ChatTurn] = ()
) -> list[dict[str, str]]:
    """Chat messages of a prompt; `turns` go before its last message (`beamlib.llm.chat_turns.insert_turns`).

    Variables that the header does not name, or that are missing, are a `UserError`.
    """
    declared = set(prompt_file(prompt_id, folder).variables)
    if declared != set(variables):
        raise UserError(
            f"prompts/{prompt_id}.md declares the variables {sorted(declared)} but was given {sorted(variables)}."
        )
    messages = [{"role": role, "content": part.render(variables)} for role, part in _templates(prompt_id, folder)]
    return insert_turns(messages, turns) if turns else messages


@cache
def _templates(prompt_id: str, folder: Path | None) -> tuple[tuple[str, jinja2.Template], ...]:
    parts = prompt_file(prompt_id, folder).parts
    return tuple((role, _ENVIRONMENT.from_string(text)) for role, text in parts)


def _read(path: Path, own: PromptFile | None) -> PromptFile:
    """Parse a prompt file; with `own`, as an override of it."""
    source = read_text(path)
    if len(source) > _MOST_TEXT:
        raise UserError(f"{path}: {len(source):,} characters, more than the {_MOST_TEXT:,} of a prompt; shorten it.")
    header, text = _split(path, source, bare=own is not None)
    fields = _fields(path, header, own)
    variables = _variables(path, fields["variables"], own)
    parts = _parts(path, text)
    _check_variables(path, parts, variables)
    _try_out(path, parts, variables)
    listing, role, output = (str(fields[name]) for name in ("listing", "role", "output"))
    return PromptFile(path.stem, listing, role, variables, output, text, parts, sha256(source))


def _split(path: Path, source: str, *, bare: bool) -> tuple[str, str]:
    """Header and text. A file without a header is all text where that is allowed (`bare`)."""
    content = source.removeprefix("\ufeff").strip()
    if match := _HEADER.match(content):
        return match["header"], match["text"].strip()
    if not bare or content.startswith("---"):
        raise UserError(f"{path}: a prompt file starts with a header between two '---' lines; add one.")
    return "", content


def _fields(path: Path, header: str, own: PromptFile | None) -> dict[str, Any]:
    stated = parse_yaml(header, path)
    if stated is None:
        stated = {}
    if not isinstance(stated, dict):
        raise UserError(f"{path}: the header is {reprlib.repr(stated)} where 'name: value' lines belong; correct it.")
    if unknown := [str(name) for name in stated if name not in _FIELDS]:
        known = ", ".join(_FIELDS)
        raise UserError(f"{path}: the header has the unknown field {unknown[0]!r:.80}; the fields are {known}.")
    ours = {} if own is None else {name: getattr(own, name) for name in _FIELDS}
    if missing := [name for name in _FIELDS if name not in stated and name not in ours]:
        raise UserError(f"{path}: the header lacks {', '.join(missing)}; add it.")
    return {**ours, **stated}


def _variables(path: Path, value: object, own: PromptFile | None) -> tuple[str, ...]:
    names = list(value) if isinstance(value, tuple) else value  # a tuple is our own file's, taken over
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{path}: 'variables' is {reprlib.repr(names)} where a list of names belongs; correct it.")
    if own is not None and (wrong := sorted(set(names) ^ set(own.variables))):
        known = ", ".join(sorted(own.variables))
        raise UserError(f"{path}: the header is wrong about the variable '{wrong[0]}'; the variables are {known}.")
    return tuple(names)


def _parts(path: Path, text: str) -> tuple[tuple[str, str], ...]:
    """The messages of a text as (chat role, template). Split before rendering: what is filled in cannot add one."""
    before, *pieces = _ROLE_LINE.split(text)
    if not pieces:
        return (("user", before.strip()),)
    roles, texts = pieces[::2], [piece.strip() for piece in pieces[1::2]]
    if before.strip() or roles not in (["user"], ["system", "user"]) or not all(texts):
        raise UserError(
            f"{path}: the text has the messages {roles}; write a user message, or a system and a user message, each "
            "after its line '=== system ===' or '=== user ===' and none empty."
        )
    return tuple(zip(roles, texts, strict=True))


def _check_variables(path: Path, parts: tuple[tuple[str, str], ...], variables: tuple[str, ...]) -> None:
    used: set[str] = set()
    for _, text in parts:
        try:
            tree = _ENVIRONMENT.parse(text)
            _check_nodes(path, tree)
        except (jinja2.TemplateSyntaxError, RecursionError, ValueError) as error:
            raise UserError(f"{path}: the text is not a valid template ({str(error)[:120]}); correct it.") from None
        used |= jinja2.meta.find_undeclared_variables(tree)
    if missing := sorted(set(variables) - used):
        written = f"write {{{{ {missing[0]} }}}} where it belongs"
        raise UserError(f"{path}: the text uses {sorted(used)} and so lacks the variable '{missing[0]}'; {written}.")
    if unknown := sorted(used - set(variables)):
        known = ", ".join(sorted(variables))
        raise UserError(f"{path}: the text uses the unknown variable '{unknown[0]}'; the variables are {known}.")


def _check_nodes(path: Path, tree: nodes.Template) -> None:
    """A template may choose between texts and fill in variables, a bounded number of times, and nothing else."""
    times: Counter[str] = Counter()
    for node in [tree, *tree.find_all(nodes.Node)]:
        if not isinstance(node, _NODES) or (isinstance(node, nodes.Filter) and node.name not in _FILTERS):
            what = f"the filter '{node.name}'" if isinstance(node, nodes.Filter) else f"'{type(node).__name__.lower()}'"
            raise UserError(
                f"{path}: the text is not a valid template for a prompt, which knows variables, if, ~ and the filters "
                f"{', '.join(sorted(_FILTERS))}; {what} in line {node.lineno} is none of them: leave it out."
            )
        if isinstance(node, nodes.Name):
            times[node.name] += 1
            if times[node.name] > _MOST_TIMES:
                raise UserError(f"{path}: the text names '{node.name}' more than {_MOST_TIMES} times; leave some out.")


def _try_out(path: Path, parts: tuple[tuple[str, str], ...], variables: tuple[str, ...]) -> None:
    """Render once with every variable filled and once with every variable empty."""
    for values in ({name: name for name in variables}, dict.fromkeys(variables, "")):
        for _, text in parts:
            try:
                _ENVIRONMENT.from_string(text).render(values)
            except Exception as error:  # whatever the expressions of a template can raise
                problem = f"{type(error).__name__}: {error}"[:120]
                raise UserError(f"{path}: the text is not a valid template ({problem}); correct it.") from None
