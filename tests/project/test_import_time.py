"""`import beamlib` and the start of the command line stay fast: what takes long is imported where it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "beam_offline",
    "openai",
    "torch",
    "transformers",
    "sentence_transformers",
    "langchain_experimental",
    "faiss",
    "scipy",
    "scipy.stats",
    "pandas",
    "pyarrow",
    "matplotlib",
    "seaborn",
    "papermill",
    "nbconvert",
    "inflect",
    "sympy",
)


def imported(statement: str) -> set[str]:
    """Which of `HEAVY` a fresh interpreter holds after `statement`."""
    code = f"import sys; {statement}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    # -I keeps out whatever the environment or the working folder would add.
    found = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=300)
    return set(found.stdout.split())


def test_nothing_heavy_is_imported() -> None:
    """Runs start many processes. Tables, statistics and clients are for those that make, compute or call them."""
    modules = "beamlib, beam_run.cli, beamlib.params, beamlib.llm.model, beamlib.llm.endpoints, beamlib.evaluate.run"
    assert imported(f"import {modules}") == set()


@pytest.mark.parametrize("domain", ["Coding", "Math"])
def test_sympy_is_loaded_where_mathematics_is_written(domain: str) -> None:
    modules = "from beam_run.plugins import register_packages; register_packages(); "
    modules += "from beam_generate.pipeline import ConversationSpec; from beamlib.params import usual_parameters"
    story = f"ConversationSpec(usual_parameters('100K', domain='{domain}')).story()"
    write = f"from beam_offline.author.author import OfflineAuthor; OfflineAuthor({story}).script(0)"
    assert ("sympy" in imported(f"{modules}; {write}")) == (domain == "Math")


def test_it_would_be_seen() -> None:
    assert "pandas" in imported("import beamlib, pandas")
