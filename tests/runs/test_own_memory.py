"""A memory of one's own stands in the same tables, and what it does wrong is told as its own fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from beamlib.errors import UserError
from beamlib.params import RunParameters, load_parameters
from beamlib.report.results import results
from beamlib.runs.evaluate import evaluate
from beamlib.runs.own import own_memory

NEWEST = """
from beamlib.memory import Recollection, passage

class Newest:
    name = "newest"
    def ingest(self, conversation): self.last = conversation.pairs[-1]
    def recall(self, question): return Recollection.of([passage(self.last)])

class Broken(Newest):
    def recall(self, question): return 1 / 0

class Unread(Newest):
    def ingest(self, conversation): raise OSError("no index")

class Wrong(Newest):
    def recall(self, question): return "text"

class Inventive(Newest):
    def recall(self, question): return Recollection("text", (10_000,))

class Unnamed:
    def ingest(self, conversation): pass

class Picky:
    def __init__(self, size): pass
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(NEWEST)
    return tmp_path / "mine.py"


def parameters(file: Path, name: str, root: Path) -> RunParameters:
    return load_parameters(
        root / "params/100k.yaml",
        data=str(root / "beamlib/benchmark/example"),
        run=str(file.parent / "run"),
        own_memory=f"{file}:{name}",
        workers=1,
    )


def test_it_stands_in_the_main_table(file: Path, repo_root: Path) -> None:
    found = results(parameters(file, "Newest", repo_root), "main")
    assert found is not None
    assert "own-Newest" in set(found.summary["series"])
    assert found.footer.unscored == 0
    assert all(answer.message_ids == (24, 25) for answer in found.evaluation.answers["own-Newest"])


def test_a_changed_file_is_asked_again(file: Path, repo_root: Path) -> None:
    chosen = parameters(file, "Newest", repo_root)
    first = evaluate(chosen, _own(chosen), quiet=True)
    file.write_text(NEWEST.replace("pairs[-1]", "pairs[0]"))
    second = evaluate(chosen, _own(chosen), quiet=True)
    assert first.answers["own-Newest"][0].message_ids == (24, 25)
    assert second.answers["own-Newest"][0].message_ids == (0, 1)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Broken", "recall raised ZeroDivisionError"),
        ("Unread", "ingest raised OSError: no index"),
        ("Wrong", "recall returned str, not a Recollection"),
        ("Inventive", "names message 10000"),
    ],
)
def test_a_failure_is_unscored_with_its_reason(file: Path, repo_root: Path, name: str, reason: str) -> None:
    chosen = parameters(file, name, repo_root)
    found = evaluate(chosen, _own(chosen), quiet=True)
    assert all(answer.text is None and reason in str(answer.unscored) for answer in found.answers[f"own-{name}"])
    assert all(judgement.unscored for judgement in found.judgements[f"own-{name}"])


def test_the_example_of_the_how_to_runs_as_it_stands(tmp_path: Path, repo_root: Path) -> None:
    page = (repo_root / "docs" / "own-memory.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    assert len(example.splitlines()) < 25
    (tmp_path / "overlap.py").write_text(example)
    chosen = parameters(tmp_path / "overlap.py", "Overlap", repo_root)
    found = results(chosen, "main")
    assert found is not None
    average = found.evidence[found.evidence["ability"] == "average"].set_index("series")["mean"]
    assert average["none"] < average["own-Overlap"] < average["oracle"]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("mine.py", "not of the form"),
        ("nowhere.py:Newest", "does not exist"),
        ("{file}:Missing", "AttributeError"),
        ("{file}:Unnamed", "has no 'name'"),
        ("{file}:Picky", "TypeError"),
    ],
)
def test_a_mistake_is_one_sentence(file: Path, target: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        own_memory(target.format(file=file))


def _own(chosen: RunParameters) -> list:  # type: ignore[type-arg]
    from beamlib.runs.arms import experiments

    return [arm for arm in experiments(chosen)["main"] if arm.memory == "own"]
