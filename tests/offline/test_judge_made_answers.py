"""What the stand-in's judge pays for answers that were made up, on released conversations that it was not trained on.

`benchmarks/judge.py` measures ten conversations; here two. What cannot be seen is not asked for: a nugget without a
number on an answer whose numbers are wrong.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from beam_offline.judge import judge
from beam_offline.judge.parsing import MOST_OF_ANSWER

AT_MOST = {
    "nothing": 0,
    "I don't know": 0.2,  # it is right where nothing is known
    "the question": 0.12,
    "the reference, all numbers + 1: nuggets with such": 0.25,
    "the first 1,500 tokens of the chat": 0.15,
    "the cited messages among others": 0.05,
    "the reference, all numbers doubled: nuggets with such": 0.25,
    "the reference, all months others: nuggets with such": 0.25,
    "the nuggets of all other questions": 0.25,
    "instructions to the judge": 0.05,
    "the whole retrieved context of 100k-run0": 0.1,
}
"""No kind denies: the judge cannot tell a denial, and nothing here claims that it can."""


@pytest.fixture(scope="module")
def measures(repo_root: Path) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repo_root / "benchmarks"))
        import judge as module  # type: ignore[import-not-found]

        yield module


@pytest.fixture(scope="module")
def paid(measures: Any, shared: Path) -> dict[str, float]:
    """The mean verdict on each kind of answer, over ten abilities of two conversations."""
    if not (shared / "data" / "beam" / "100K" / "2").is_dir():
        pytest.skip(f"no released conversations in {shared / 'data' / 'beam'}")
    return dict(measures.made_answers(shared / "data", (2, 7)).set_index("answers")["mean"])


def test_its_form_does_not_matter(paid: dict[str, float]) -> None:
    assert paid["the reference"] >= 0.9
    for form in ("in small letters", "in bullets", "with polite words"):
        found = [paid[name] for name in (f"the reference {form}", f"the reference, {form}") if name in paid]
        assert found and found[0] >= 0.85, form


def test_the_shipped_table_has_every_kind(paid: dict[str, float], repo_root: Path) -> None:
    with (repo_root / "packages/beam_field/judged_made.csv").open(encoding="utf-8") as lines:
        shipped = {row["answers"]: row["mean"] for row in csv.DictReader(lines)}
    assert list(shipped) == list(paid)
    assert (
        float(shipped["frame: right, the figure alone"]) < 0.85
    )  # said in the README: a bare figure often earns nothing


def test_what_deserves_nothing_earns_little(paid: dict[str, float]) -> None:
    assert {kind: paid[kind] for kind, most in AT_MOST.items() if paid[kind] > most} == {}


ODD = (
    "\x00" * 1000, "not " * 200_000, "It is so. That is false. " * 40_000, "perhaps, a guess; " * 50_000, "[" * 300_000,
    "the first hive, the 2nd hive. " * 30_000, "1 " * 200_000, "ab" * 500_000, "a, " * 100_000, "é\u0301😀" * 50_000,
    "\ud800 1", "x" * MOST_OF_ANSWER + " You keep 14 hives.",
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_answers_take_no_longer_than_others(number: int) -> None:
    started, answer = time.process_time(), ODD[number]
    nugget = "LLM response should state: 14 hives stand behind the mill, and the bees winter well"
    assert judge("How many hives do I keep?", nugget, answer).score == 0
    assert judge(answer, nugget, "You keep 14 hives.").score in (0, 0.5, 1)
    assert judge("How many hives do I keep?", answer, "You keep 14 hives.").score in (0, 0.5, 1)
    assert time.process_time() - started < 10
