"""A run with refused calls: it says so, makes all notebooks and the page, and is asked again once mended."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_run import EVALUATION
from commands import Call, beamlib
from scripted_server import Answer, ScriptedServer
from steady_replies import steady_reply

FEW = ("--set", "retrievers=[hybrid]", "--set", "budgets=[5]")
"""Arms that say what a run says of refusals; Tables 9 and 10 would say it again."""


def _in_letters(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


class Mendable:
    """Refuses every fourth request in other words until it is `mended`, or every request alike."""

    mended = alike = False
    count = refusals = 0

    def __call__(self, body: dict[str, Any]) -> Any:
        self.count += 1
        if self.mended or (self.count % 4 and not self.alike):
            return steady_reply(body)
        why = "seed is not permitted" if self.alike else f"request {_in_letters(self.count)} is not permitted"
        self.refusals += 1
        return Answer({"error": {"message": why}}, 422)


@pytest.fixture
def run(repo_root: Path) -> Iterator[Path]:
    folder = repo_root / "runs" / f"test-refused-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    yield folder
    for path in (folder, repo_root / "figures" / folder.name):
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def replies() -> Mendable:
    return Mendable()


@pytest.fixture
def command(run: Path, repo_root: Path, replies: Mendable) -> Iterator[tuple[list[str | Path], ScriptedServer]]:
    """The command, without a step, and the server that it calls."""
    with ScriptedServer(replies) as server:
        words: list[str | Path] = ["run-all", "--data", repo_root / "beamlib/data/example", "--sizes", "100k"]
        words += ["--name", run.name, "--base-url", server.base_url, "--model", "m", "--context-window", "32768"]
        yield [*words, "--judge-anyway", "--yes"], server


@pytest.mark.usefixtures("in_this_process")
def test_a_refused_run_says_so_and_is_asked_again(
    command: tuple[list[str | Path], ScriptedServer], replies: Mendable, called: Call
) -> None:
    words, server = [*command[0], *FEW], command[1]
    done = called(*words, "--step", "evaluate")
    assert done.returncode == 4 and "no answer is scored of" in done.stderr, done.stdout + done.stderr
    assert "light-hybrid-k5: 20 of 20 unscored (20 refused)" in done.stdout, "its reading was refused in part"
    assert re.search(r"rag-hybrid-k5: \d+ of 20 unscored \(\d+ refused\)", done.stdout)
    example = r"unscored, for example: .{0,80}?refused: The (reader|judge|aligner) model m at"
    assert re.search(example, " ".join(done.stdout.split())), "which is refused first depends on the order of requests"
    refused = len(server.requests)

    assert called(*words, "--calls", "replay", "--step", "evaluate").returncode == 4
    assert len(server.requests) == refused, "a replay sends nothing"
    replies.mended = True
    done = beamlib(*words, "--step", "evaluate")  # a process asks again only once for what was refused
    assert done.returncode == 0 and "unscored" not in done.stdout
    assert len(server.requests) >= refused + replies.refusals and replies.refusals > 50
    mended = len(server.requests)
    assert called(*words, "--step", "evaluate").returncode == 0
    assert len(server.requests) == mended, "all calls are stored"


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_run_whose_first_calls_are_all_refused_alike_ends_and_says_how_to_go_on(
    command: tuple[list[str | Path], ScriptedServer], replies: Mendable, called: Call
) -> None:
    words, server = [*command[0], *FEW], command[1]
    replies.alike = True
    done = called(*words, "--no-admission", "--step", "evaluate")
    assert done.returncode == 2 and len(server.requests) < 60
    assert "seed is not permitted; 5 different requests of this role in a row came to the same" in done.stderr
    assert "omit: [seed]" in done.stderr
    replies.mended = True
    assert beamlib(*words, "--step", "evaluate").returncode == 0


@pytest.mark.slow
def test_a_refused_run_has_notebooks_and_page(command: tuple[list[str | Path], ScriptedServer], run: Path) -> None:
    done = beamlib(*command[0])
    assert done.returncode == 4, done.stdout + done.stderr
    first = []
    for name in EVALUATION:
        page = (run / f"notebooks/100k-m/{name}.html").read_text()
        assert "<td>NaN</td>" not in page
        if "Models answered and judged in this run." in page:  # what models made comes first
            assert page.index("Models answered and judged") < page.index("<h2 id=")
            first.append(name)
    assert first == [name for name in EVALUATION if name[:2] in ("06", "07", "08", "09")]
    assert (run / "index.html").is_file()
    table = (run / "tables/100k-m/table1_main_results.md").read_text()
    assert "–" in table and "refused" in table and "nan" not in table
