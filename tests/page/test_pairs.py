"""Two runs side by side, and a page as one file."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from beam_page.comparing import write_comparison
from beam_page.data_files import read_data, write_data
from beam_page.run_folder import read_run
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.files import write_text
from beamlib.scoring.intervals import compare
from beamlib.scoring.scores import score_run
from conftest import run_on
from fixtures_release import write_release
from page_views import Look, each, go, text_of

LINK = "one.getAttribute('href') ?? one.getAttribute('src')"
CELL = "[one.dataset.pair, one.textContent, one.getAttribute('href')]"


@pytest.fixture(scope="module")
def pair(repo_root: Path, release: Path, page_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The page of the run beside one with LIGHT's other context budget and a smaller window, and that other run."""
    root = tmp_path_factory.mktemp("pair")
    other = run_on(
        repo_root, release, root / "other", reader_window=4_000, full_context_window=4_000, variant="released"
    )
    write_comparison(page_run, other, root / "pair", release)
    return root / "pair", other


def test_differences_are_those_of_the_paired_test_and_follow(
    pair: tuple[Path, Path], page_run: Path, release: Path, look: Look
) -> None:
    page, other = pair
    first, second = ({one.series: one for one in read_run(run, release).arms} for run in (page_run, other))
    browser = look(page)
    cells = each(browser, "[data-pair]", CELL)
    assert len(cells) == len(first) * (len(ABILITIES) + 1)
    for key, shown, _ in cells:
        name, _, _, ability = json.loads(key)
        frames = [score_run(run[name[2:]].judgements, "paper") for run in (first, second)]
        own = [frame if ability == "average" else frame[frame["ability"] == ability] for frame in frames]
        found = compare(*own)
        ends = "(equal in all 2)" if np.isnan(found.low) else f"[{found.low:.3f}, {found.high:.3f}]"
        assert shown == f"{found.difference:.3f} {ends}"
    assert browser.evaluate("beamVerify()")["wrong"] == []


def test_a_difference_leads_to_its_questions_flips_first(pair: tuple[Path, Path], look: Look) -> None:
    browser = look(pair[0])
    href = next(
        one
        for key, text, one in each(browser, "[data-pair]", CELL)
        if json.loads(key)[3] == "average" and not text.startswith(("0.000", "-0.000"))
    )
    go(browser, href)
    rows = each(browser, "table.list tbody tr", "[...one.querySelectorAll('td a')].map((cell) => cell.textContent)")
    gaps = [abs(float(a) - float(b)) for a, b in rows]
    assert gaps and gaps == sorted(gaps, reverse=True) and gaps[-1] > 0
    browser.evaluate("document.querySelector('table.list tbody a').click()")
    browser.wait("document.querySelectorAll('article').length === 2")
    assert {one[0] for one in each(browser, "article", "one.getAttribute('aria-label')")} == {"A", "B"}


def test_a_tampered_difference_shows(pair: tuple[Path, Path], tmp_path: Path, look: Look) -> None:
    page = tmp_path / "pair"
    shutil.copytree(pair[0], page)
    index = read_data(page / "page" / "run.js")
    index["pairs"]["binary"][3]["numbers"][0] = "0.123"
    write_data(page, "run", index)
    wrong = look(page).evaluate("beamVerify()")["wrong"]
    assert [(one["protocol"], one["printed"][0]) for one in wrong] == [("binary", "0.123")]


def test_runs_that_cannot_be_compared_are_told_in_one_sentence(
    page_run: Path, repo_root: Path, tmp_path: Path, release: Path
) -> None:
    with pytest.raises(UserError, match="is a run of its own"):
        write_comparison(page_run, page_run, page_run)
    with pytest.raises(UserError, match=r"holds an index\.html of something else"):
        write_text(tmp_path / "site" / "index.html", "<p>mine</p>")
        write_comparison(page_run, page_run, tmp_path / "site")
    with pytest.raises(UserError, match="holds no finished arm"):
        (tmp_path / "empty").mkdir()
        write_comparison(page_run, tmp_path / "empty", tmp_path / "out")
    data = write_release(tmp_path / "release")
    path = data / "100K/1/probing_questions/probing_questions.json"
    path.write_text(path.read_text().replace('"question": "', '"question": "Pray, ', 1))
    other = run_on(repo_root, data, tmp_path / "other", conversations=1)
    with pytest.raises(UserError, match="asked other questions about 100K-1"):
        write_comparison(page_run, other, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_zip_opens_elsewhere(page_run: Path, release: Path, tmp_path: Path, look: Look, called: object) -> None:
    run = tmp_path / "a run"
    shutil.copytree(page_run, run)
    done = called("page", run, "--data", release, "--zip")  # type: ignore[operator]
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "a run.zip") as archive:
        names = archive.namelist()
        assert not [name for name in names if not name.startswith("a run/") or ".." in name]
        archive.extractall(tmp_path / "elsewhere")
    browser = look(tmp_path / "elsewhere" / "a run", "#/q/100K-1-q06?gold=1")
    assert text_of(browser, "h1.question")
    assert browser.evaluate("beamVerify()")["wrong"] == []
    links = each(
        browser,
        "#document a[href]:not([href^='#']), #document img[src]",
        "one.getAttribute('href') ?? one.getAttribute('src')",
    )
    assert links and all(f"a run/{link}" in names for link in links)
