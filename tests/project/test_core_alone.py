"""Evaluate a memory with the core alone: a process without packages/ on its path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import re
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path


# An editable install finds the packages wherever it was made.
sys.meta_path[:] = [finder for finder in sys.meta_path if "Editable" not in getattr(finder, "__name__", "")]

import beamlib
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.llm.model import Completion
from beamlib.memory import RetrievedContext
from beamlib.params import load_parameters
from beamlib.places import PARAMS
from beamlib.plugins import Plugins, register


class Newest:
    name = "newest"

    def ingest(self, conversation):
        self.last = conversation.pairs[-1]

    def recall(self, question):
        return RetrievedContext(self.last.user.content, self.last.message_ids)


class Toy:
    name = "toy"

    async def complete(self, prompt):
        judged = prompt.id == "judge_nugget"
        return Completion('{"score": 1, "reason": "toy"}' if judged else prompt.variables.get("context", "[]"))


def open_newest(arm, parameters, roles):
    return nullcontext(Newest())


def identify(target):
    return "1", ()


def no_error():
    return ""


if __name__ == "__main__":
    assert find_spec("beam_run") is None and find_spec("beam_offline") is None
    register(Plugins(model=Toy, open_memory=open_newest, identify_memory=identify, judge_error=no_error))
    example = Path(beamlib.__file__).parent / "data" / "example"
    parameters = load_parameters(PARAMS / "100k.yaml", data=str(example), run=sys.argv[1], workers=1)
    results = evaluate(parameters, [Arm(memory="own", target="newest.py:Newest")], quiet=True)
    (judgements,) = results.judgements.values()
    assert not [name for name in sys.modules if name.startswith("beam_")]
    print(len(judgements), sum(verdict.score == 1 for one in judgements for verdict in one.verdicts))
"""


def test_the_core_evaluates_a_memory_without_the_packages(repo_root: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    start = f"import sys; sys.path = [p for p in sys.path if not p.endswith('/packages')] + [{str(repo_root)!r}]\n"
    program.write_text(start + PROGRAM)
    done = subprocess.run(
        [sys.executable, program, tmp_path / "run"], capture_output=True, text=True, cwd=tmp_path, timeout=200,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    questions, ones = map(int, done.stdout.split())
    assert questions > 0 and ones > 0
