"""The default index knows nothing of BEAM: what it runs, what its sources say, and what it reaches."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

RETRIEVAL = ("__init__", "base", "dense", "encoder", "hybrid", "sparse")
DEFAULT_PATH = (*(f"retrieval/{name}.py" for name in RETRIEVAL), "memory/episodic.py", "memory/rag.py", "text.py")
FRAMES = (
    *("only and only", "in order", "throughout our", "across our", "across all my", "over the course of"),
    *("brought up", "how did i", "have i ever", "when i ask", "walk me through", "different aspects", "my sessions"),
)
USED = """
import sys
from beamlib.memory.light import Light
from beamlib.memory.rag import Rag
from beam_offline import OfflineModel
from beamlib.data.loading import load
from beamlib.data.sources import find_conversations
from pathlib import Path
import beamlib
one = load(find_conversations(Path(beamlib.__file__).parent / "data" / "example")[0])
for memory in (Rag(), Light(OfflineModel())):
    memory.ingest(one.conversation)
    memory.recall(one.probes[0].question)
print(*(name for name in sys.modules if name.startswith("beamlib.retrieval.")))
"""


def texts_of(file: Path) -> list[str]:
    """Every string of a module that is not a docstring or a note, patterns among them, joined as Python joins them."""
    tree = ast.parse(file.read_text("utf-8"))
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes
    ]


def words_of(text: str) -> list[str]:
    """Words in order; what a pattern writes between them (\\b, \\s+, brackets) is none."""
    return re.findall(r"[a-z']+", re.sub(r"\\[a-zA-Z]", " ", text).lower())


def fives(text: str) -> set[tuple[str, ...]]:
    words = words_of(text)
    return set(zip(*(words[start:] for start in range(5)), strict=False))


def test_the_default_path_runs_nothing_that_is_tuned(repo_root: Path) -> None:
    done = subprocess.run([sys.executable, "-c", USED], capture_output=True, text=True, cwd=repo_root, timeout=120)
    loaded = {name.rpartition(".")[2] for name in done.stdout.split()}
    assert "hybrid" in loaded, done.stderr
    known = {f"{Path(place).stem}" for place in DEFAULT_PATH}
    assert loaded <= known | {"splade", "transformer"}, "a module of the default path that no test reads"


def test_no_source_of_the_default_path_has_a_known_frame(repo_root: Path) -> None:
    assert FRAMES[1] in " ".join(words_of(r"\bin\s+order\b")), "the test can fail"
    for place in DEFAULT_PATH:
        for text in texts_of(repo_root / "beamlib" / place):
            said = " ".join(words_of(text))
            assert not [frame for frame in FRAMES if frame in said], place


def test_no_source_of_the_default_path_quotes_a_released_question(repo_root: Path, shared: Path) -> None:
    """No five words in a row that three of the 2,000 questions share."""
    folder = shared / "data" / "beam_questions"
    files = sorted(folder.rglob("probing_questions.json"))
    if not files:
        pytest.skip(f"no questions in {folder}")
    questions = [
        question["question"] for file in files for group in json.loads(file.read_bytes()).values() for question in group
    ]
    assert len(questions) == 2_000
    common = {five for five, n in Counter(f for q in questions for f in fives(q)).items() if n >= 3}
    assert ("in", "which", "i", "brought", "up") in common
    for place in DEFAULT_PATH:
        found = {five for text in texts_of(repo_root / "beamlib" / place) for five in fives(text)} & common
        assert not found, f"{place}: {found}"
