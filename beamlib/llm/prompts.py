"""Read and render prompt files: a YAML header between two `---` lines, then the text as a Jinja template.

The header states `listing` (in the paper), `role` (which model answers), `variables` and `output`. Missing and unknown
variables are errors. The text is one user message, or a system and a user message, each after its own line
`=== system ===` or `=== user ===`.

A user's folder (parameter `prompts`) overrides prompts by file name. Its headers may lack fields, or be absent: the
project's own file supplies the rest. Only the variables cannot differ. `Prompts` holds all of them as a run found them.

A dialogue goes before the last message of a prompt as chat turns (`insert_turns`).
"""

from __future__ import annotations

import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import jinja2.meta
from jinja2 import nodes
from jinja2.sandbox import SandboxedEnvironment

from beamlib.data.conversations import Role
from beamlib.errors import UserError
from beamlib.files import parse_yaml, read_version, sha256, write_text
from beamlib.places import PROMPTS

# Sandboxed: the prompts may come from another person's run.
_ENVIRONMENT = SandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=False, autoescape=False)
# Allowed are nodes and filters whose time and memory grow with text and variables alone. A dozen characters of loops,
# macros or arithmetic can fill a machine.
_NODES = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.If, nodes.CondExpr, nodes.Compare,
    nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Tuple, nodes.List, nodes.Concat, nodes.Filter, nodes.Test,
)  # fmt: skip
_FILTERS = frozenset({"capitalize", "default", "length", "lower", "string", "title", "trim", "upper"})
_LONGEST_TEXT = 200_000  # characters of a prompt file; the project's longest has 8,000
_MOST_USES = 20  # of one variable in one text: a context may have millions of characters
_HEADER = re.compile(r"---[ \t]*\n(?P<header>.*?)^---[ \t]*(?:\n|\Z)(?P<text>.*)", re.MULTILINE | re.DOTALL)
_ROLE_LINE = re.compile(r"^=== (\w+) ===[ \t]*$", re.MULTILINE)
_FIELDS = ("listing", "role", "variables", "output")


@dataclass(frozen=True)
class PromptFile:
    """A parsed prompt file: its whole `template`, and `parts`, the (chat role, template) of each message.

    `source` is the whole file; its hash goes into manifests.
    """

    id: str
    listing: str
    role: str
    variables: tuple[str, ...]
    output: str
    template: str
    parts: tuple[tuple[str, str], ...]
    source: str

    @property
    def sha256(self) -> str:
        return sha256(self.source)


def prompt_ids() -> list[str]:

    return sorted(path.stem for path in PROMPTS.glob("*.md"))


_IN_FORCE: list[Prompts] = []


@contextmanager
def prompts_in_force(prompts: Prompts) -> Iterator[None]:
    """Have `prompt_file` return the prompts of a run, in this process, until the block ends."""
    _IN_FORCE.append(prompts)
    try:
        yield
    finally:
        _IN_FORCE.remove(prompts)


def prompt_file(prompt_id: str) -> PromptFile:
    """Return a prompt of the run that this process works for, else read `prompts/<prompt_id>.md`."""
    return _IN_FORCE[-1][prompt_id] if _IN_FORCE else _read(PROMPTS / f"{prompt_id}.md")


_INSERTED = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


@cache
def static_texts(prompt: PromptFile) -> tuple[str, ...]:
    """Return the texts of a prompt between the variables that it inserts: what every request with it has."""
    return tuple(text for _, part in prompt.parts for text in _INSERTED.split(part))


@dataclass(frozen=True)
class Prompts:
    """All prompts as a run found them, by id; `overridden` are those that the user's folder has."""

    files: Mapping[str, PromptFile]
    overridden: Mapping[str, PromptFile] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path | None = None) -> Prompts:
        """Read the project's prompts, and those in `folder` in their place (`read_overrides`)."""
        overridden = read_overrides(folder) if folder is not None else {}
        return cls({name: _read(PROMPTS / f"{name}.md") for name in prompt_ids()} | overridden, overridden)

    def __getitem__(self, prompt_id: str) -> PromptFile:
        return self.files[prompt_id]

    def hashes(self, names: Iterable[str]) -> dict[str, str]:
        """The hashes of these prompts, for manifests."""
        return {name: self.files[name].sha256 for name in names}

    def save_overrides(self, folder: Path) -> None:
        """Write the overriding files as they were read, in the place of those that an earlier run left in `folder`."""
        for earlier in folder.glob("*.md"):
            earlier.unlink()
        for name, prompt in self.overridden.items():
            write_text(folder / f"{name}.md", prompt.source)


def read_overrides(folder: Path) -> dict[str, PromptFile]:
    """Read a folder of prompts before any call: what it overrides, by id. Hidden files are skipped.

    Raises:
        UserError: the folder is missing or overrides nothing, a file name is not a prompt's, or a file is malformed or
            has other variables than the project's own.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise UserError(
            f"{folder}: the folder of prompts cannot be read ({error.strerror}); correct `prompts`."
        ) from None
    known = prompt_ids()
    overridden = {}
    for path in paths:
        if path.suffix == ".md" and path.stem in known:
            overridden[path.stem] = _read(path, _read(PROMPTS / path.name))
        elif path.suffix.lower() == ".md" or path.stem.lower() in known:
            raise UserError(
                f"{path}: no prompt has this file name; use one of {', '.join(f'{name}.md' for name in known)}."
            )
    if not overridden:
        raise UserError(
            f"{folder}: the folder contains no prompt file; name one as in prompts/, or leave `prompts` empty."
        )
    return overridden


def render(
    prompt_id: str, variables: Mapping[str, str], prompts: Prompts | None = None, turns: Sequence[ChatTurn] = ()
) -> list[dict[str, str]]:
    """Chat messages of a prompt; `turns` go before its last message (`insert_turns`).

    Variables that the header does not name, or that are missing, are a `UserError`.

    Args:
        prompts: Those of a run; by default the project's own.
    """
    prompt = prompts[prompt_id] if prompts is not None else prompt_file(prompt_id)
    declared = set(prompt.variables)
    if declared != set(variables):
        raise UserError(
            f"prompts/{prompt_id}.md declares the variables {sorted(declared)} but was given {sorted(variables)}."
        )
    messages = [{"role": role, "content": _template(text).render(variables)} for role, text in prompt.parts]
    return insert_turns(messages, turns) if turns else messages


_template = lru_cache(maxsize=512)(_ENVIRONMENT.from_string)


def _read(path: Path, shipped: PromptFile | None = None) -> PromptFile:
    """Parse a prompt file; with `shipped`, as an override of that."""
    return _parse(path, read_version(path), shipped)


@lru_cache(maxsize=512)
def _parse(path: Path, source: str, shipped: PromptFile | None) -> PromptFile:
    if len(source) > _LONGEST_TEXT:
        raise UserError(f"{path}: more than the {_LONGEST_TEXT:,} characters of a prompt; shorten it.")
    text = source.removeprefix("\ufeff").strip()
    header: Any = {}
    if match := _HEADER.match(text):
        header, text = parse_yaml(match["header"], path), match["text"].strip()
        header = {} if header is None else header
    elif shipped is None or text.startswith("---"):
        raise UserError(f"{path}: a prompt file starts with a header between two '---' lines; add one.")
    if not isinstance(header, dict):
        raise UserError(f"{path}: the header is {reprlib.repr(header)} where 'name: value' lines belong; correct it.")
    if unknown := [str(name) for name in header if name not in _FIELDS]:
        known = ", ".join(_FIELDS)
        raise UserError(f"{path}: the header has the unknown field {unknown[0]!r:.80}; the fields are {known}.")
    if shipped is not None:
        usual = {name: getattr(shipped, name) for name in _FIELDS}
        header = {**usual, "variables": list(shipped.variables), **header}
    if missing := [name for name in _FIELDS if name not in header]:
        raise UserError(f"{path}: the header lacks {', '.join(missing)}; add it.")
    names = header["variables"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{path}: 'variables' is {reprlib.repr(names)} where a list of names belongs; correct it.")
    if shipped is not None and (wrong := sorted(set(names) ^ set(shipped.variables))):
        known = ", ".join(sorted(shipped.variables))
        raise UserError(f"{path}: the header is wrong about the variable '{wrong[0]}'; the variables are {known}.")
    parts = _parts(path, text)
    _check_templates(path, parts, names)
    listing, role, output = (str(header[name]) for name in ("listing", "role", "output"))
    return PromptFile(path.stem, listing, role, tuple(names), output, text, parts, source)


def _parts(path: Path, text: str) -> tuple[tuple[str, str], ...]:
    """Split a text into messages (chat role, template), before rendering: a variable's value cannot add one."""
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


def _check_templates(path: Path, parts: tuple[tuple[str, str], ...], variables: Sequence[str]) -> None:
    """Refuse templates that use other variables than these, or cannot be rendered with each of them full and empty."""
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
    for values in ({name: name for name in variables}, dict.fromkeys(variables, "")):
        for _, text in parts:
            try:
                _ENVIRONMENT.from_string(text).render(values)
            except Exception as error:  # whatever the expressions of a template can raise
                problem = f"{type(error).__name__}: {error}"[:120]
                raise UserError(f"{path}: the text is not a valid template ({problem}); correct it.") from None


def _check_nodes(path: Path, tree: nodes.Template) -> None:
    """Allow a template to insert variables and to choose between texts, and nothing else."""
    uses: Counter[str] = Counter()
    for node in [tree, *tree.find_all(nodes.Node)]:
        if not isinstance(node, _NODES) or (isinstance(node, nodes.Filter) and node.name not in _FILTERS):
            what = f"the filter '{node.name}'" if isinstance(node, nodes.Filter) else f"'{type(node).__name__.lower()}'"
            raise UserError(
                f"{path}: the text is not a valid template for a prompt, which knows variables, if, ~ and the filters "
                f"{', '.join(sorted(_FILTERS))}; {what} in line {node.lineno} is none of them: leave it out."
            )
        if isinstance(node, nodes.Name):
            uses[node.name] += 1
            if uses[node.name] > _MOST_USES:
                raise UserError(f"{path}: the text names '{node.name}' more than {_MOST_USES} times; leave some out.")


OPENING = "(The assistant speaks first.)"
"""The user message before a dialogue that begins with the assistant."""


class ChatTurn(NamedTuple):
    """What one side of a dialogue says at a time."""

    role: Role
    text: str


def insert_turns(messages: Sequence[dict[str, str]], turns: Iterable[ChatTurn]) -> list[dict[str, str]]:
    """Put a dialogue before the last of `messages`, which becomes its last user turn.

    Many chat templates accept only roles that alternate, user first. So one rule holds for every dialogue:

    1. A turn without text is left out.
    2. Neighbouring turns of one role become one message, with a blank line between them. The last message counts as a
       turn: it joins a dialogue that ends with the user.
    3. Where the assistant speaks first, the user message `OPENING` goes before it.

    Args:
        messages: Rendered chat messages: a user message, or a system and a user message.
        turns: The dialogue in its order.

    Returns:
        The system message if there is one, then user and assistant messages in turn, the last a user message.
    """
    *before, last = messages
    dialogue: list[dict[str, str]] = []
    for role, text in (*turns, (last["role"], last["content"])):
        if not text.strip():
            continue
        if not dialogue and role == "assistant":
            dialogue.append({"role": "user", "content": OPENING})
        if dialogue and dialogue[-1]["role"] == role:
            dialogue[-1]["content"] += f"\n\n{text}"
        else:
            dialogue.append({"role": role, "content": text})
    return [*before, *dialogue]
