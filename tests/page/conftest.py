"""Runs with pages, and one browser for all tests that look at them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from beam_page.building import write_page
from beam_page.run_folder import read_run
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.kept_settings import keep_settings
from beamlib.evaluate.run import evaluate
from beamlib.params import RunParameters, load_parameters
from beamlib.run import Run
from browser_driver import BROWSERS, Browser, find_browser, open_browser
from fixtures_shared import shared_folder
from fixtures_workers import no_workers
from page_views import Look

ARMS = (
    Arm(memory="none"),
    Arm(memory="full-context"),
    Arm(memory="rag", retriever="bm25", k=3),
    Arm(memory="light", retriever="bm25", k=3),
    Arm(memory="light", retriever="bm25", k=3, without="scratchpad"),
    Arm(memory="oracle"),
)


def parameters_for(root: Path, data: Path, run: Path, **changes: Any) -> RunParameters:
    fixed = {"data": str(data), "run": str(run), "workers": 1}
    return load_parameters(root / "params/100k.yaml", **{**fixed, **changes})


def run_on(root: Path, data: Path, run: Path, arms: Sequence[Arm] = ARMS, **changes: Any) -> Path:
    """A run of `arms` by the stand-in on the conversations in `data`."""
    parameters = parameters_for(root, data, run, **changes)
    with no_workers():
        evaluate(parameters, arms, quiet=True)
    keep_settings(Run.of(parameters))
    return run


@pytest.fixture(scope="session")
def page_run(repo_root: Path, release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the two conversations of `release`, with its page; every test reads it."""

    def build(folder: Path) -> None:
        run_on(repo_root, release, folder)
        write_page(read_run(folder, release))

    return shared_folder(tmp_path_factory, "page_run", build)


@pytest.fixture(scope="session")
def one_browser() -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser is installed (looked for {', '.join(BROWSERS)}): apt-get install chromium")
    with open_browser(program) as browser:
        yield browser


@pytest.fixture
def browser(one_browser: Browser) -> Iterator[Browser]:
    """The browser without what an earlier test left; errors of scripts, and what the policy refuses, fail the test."""
    one_browser.problems.clear()
    one_browser.send("Emulation.clearDeviceMetricsOverride")
    one_browser.send("Emulation.setEmulatedMedia", features=[])
    yield one_browser
    assert one_browser.problems == []


@pytest.fixture
def look(browser: Browser) -> Look:
    """Opens a view of a run's page by its address, as from a link, and waits until it is shown."""

    def open_view(run: Path, address: str = "#/") -> Browser:
        browser.open("about:blank?")
        browser.open((run / "index.html").as_uri() + address)
        ready = "document.querySelector('#view h1')" if "#/" in address and address[2:3].isalpha() else "true"
        browser.wait(f"document.documentElement.dataset.ready !== undefined && {ready}")
        return browser

    return open_view
