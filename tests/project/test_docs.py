"""What documents name exists: paths, links, scripts, commands and options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import filter as filter_names
from pathlib import Path
from typing import Any

import pytest
import typer

from beam_run.cli import app
from beam_run.facts import load_facts
from beamlib.report.facts import known_facts

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "packages/**/*.md", "beamlib/**/*.md", ".binder/*.md")
    for path in ROOT.glob(pattern)
)
FOLDERS = ("beamlib", "packages", "tests", "docs", "benchmarks", "scripts", "notebooks", "params", "prompts")
FILES = [f"/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
FILES += [f"/{path.name}" for path in ROOT.iterdir()]
SOURCE = re.compile(r"(?<![\w/.~*{<>-])(?:\./)?((?:[\w.*-]+/)*[\w*-]+\.(?:py|sh|ipynb|toml|j2))(?![\w/])")
PLACEHOLDERS = {"mine.py", "file.py", "FILE.py"}
OF_OTHERS = {"--nthreads", "--nworkers", "--gpu-memory-utilization"}
"""Options of `dask worker` (docs/scaling.md) and `vllm serve` (docs/vllm.md)."""
RELEASED = "src/"
"""Begins the paths of the released code, which docs/released.md compares with ours."""
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
COMMAND = re.compile(
    r"(?:^|[\s(`/])(beamlib|run_all\.sh|run_tests\.sh|(?:benchmarks|scripts)/\w+\.(?:py|sh))((?: [^\s`|;&#)]+)+)"
)
CONFTESTS = sorted((ROOT / "tests").rglob("conftest.py"))
COMMANDS: Any = typer.main.get_command(app)


def codes(text: str) -> str:
    """The code of a document, one piece a line, lines that end in a backslash joined.

    A diff with the commands that try it is left out: tests/project/test_contributing.py runs these.
    """
    text = re.sub(r"```diff\n.*?```\n\n```bash\n.*?```", "", text, flags=re.DOTALL)
    return "\n".join(CODE.findall(text)).replace("\\\n", " ")


def missing_paths(document: Path) -> Iterator[str]:
    text = document.read_text("utf-8")
    saved = {*PLACEHOLDERS, *re.findall(r"\bas `([\w.]+)`", text)}  # what the document tells its reader to save
    for name in {match[1] for match in SOURCE.finditer(codes(text))} - saved:
        if not filter_names(FILES, f"*/{name}") and not name.startswith(RELEASED):
            yield name
    for link in LINK.findall(text):
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        if "://" in link or link.startswith("mailto:"):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def anchors(document: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def unknown_options(text: str) -> Iterator[str]:
    for match in COMMAND.finditer(text):
        program, words = match[1], match[2].split()
        command = COMMANDS.commands["run-all"] if program == "run_all.sh" else COMMANDS
        if program in ("beamlib", "run_all.sh"):
            # A word after a group that is no command of it is a misspelt or removed command.
            while words and (inner := getattr(command, "commands", {}).get(words[0])):
                command, words = inner, words[1:]
            if hasattr(command, "commands") and words and re.fullmatch(r"[a-z-]+", words[0]):
                yield f"{program} {words[0]}"
            known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
            known |= {"--help"}
        else:
            sources = [ROOT / program, *(CONFTESTS if program == "run_tests.sh" else ())]
            script = "".join(path.read_text("utf-8") for path in sources if path.exists())
            known = {f"--{name.replace('_', '-')}" for name in re.findall(r"(?:--|\b)([a-z][a-z_-]*)", script)}
        options = [word.partition("=")[0].rstrip(".,:") for word in words if re.match("--[a-z]", word)]
        yield from (f"{program} {option}" for option in options if option not in known)


def all_options() -> set[str]:
    """The options of all commands, and words of scripts, which may be options."""
    known, groups = set[str](), [COMMANDS]
    for command in groups:
        known.update(option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts))
        groups.extend(getattr(command, "commands", {}).values())
    scripts = [*ROOT.glob("benchmarks/*.py"), *ROOT.glob("scripts/*.*"), *CONFTESTS]
    words = {word for script in scripts for word in re.findall(r"\b[a-z][a-z_-]+", script.read_text("utf-8", "ignore"))}
    return known | {f"--{word.replace('_', '-')}" for word in words}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_names_exists(document: Path) -> None:
    alone = set(re.findall(r"`(--[a-z][a-z-]+)", document.read_text("utf-8"))) - all_options() - OF_OTHERS
    assert [*missing_paths(document), *unknown_options(codes(document.read_text("utf-8"))), *sorted(alone)] == []


def test_the_command_of_every_fact_exists() -> None:
    load_facts()
    facts = known_facts()
    assert len(facts) > 20
    assert {fact.name: [*unknown_options(fact.command)] for fact in facts if [*unknown_options(fact.command)]} == {}
    assert [*unknown_options("beamlib field"), *unknown_options("beamlib evidence --ks 5")]
