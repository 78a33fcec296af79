"""A script in every text of every record, parameter and file name, and the pages read as a browser reads them."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from IPython.core.formatters import format_display_data
from markdown_it import MarkdownIt
from nbconvert.filters import markdown2html
from rich.console import Console

from beam_claims.engine import ClaimResult
from beam_commands.costs import Estimate, RealisedRow
from beam_generate.notebooks import review_widget
from beam_generate.probes.drafts import Draft, Spoken, View
from beam_page.building import scripts, write_page
from beam_page.run_folder import read_run
from beam_run import EVALUATION
from beam_run.executing import NOTEBOOKS, execute, to_html
from beamlib.files import write_json, write_text
from beamlib.params import usual_parameters
from beamlib.places import PROMPTS
from beamlib.report.printed import print_rows
from beamlib.report.table import markdown_text, save_table
from poisoned import EVIL, NAME, RUN, Scripts, poisoned, poisoned_blocks, poisoned_costs, poisoned_parameters, shown

HERE = Path(__file__).parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
POLICY = "Content-Security-Policy"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The page of a run and a notebook's, of poisoned records in files with poisoned names."""
    run = tmp_path_factory.mktemp("pages") / NAME
    parts = run / "tables" / "100k"
    save_table(poisoned_blocks(), NAME, parts)
    write_text(
        parts / "planted.html", f"<figure class='results' onclick={RUN}>{EVIL}<table><tr><td>1</td></tr></table>"
    )
    write_text(parts / "table1_planted.html", EVIL)
    costs = {"estimate": poisoned(Estimate).model_dump(), "realised": [poisoned(RealisedRow).model_dump()]}
    write_json(run / "100k" / "costs.json", costs)
    for name in ("none", NAME, f"javascript:{RUN}"):
        write_json(run / "100k" / name / "manifest.json", {})
    (run / "figures" / "100k").mkdir(parents=True)
    for kind in ("png", "svg"):
        shutil.copy(
            NOTEBOOKS.parent / f"figures/published/figure3_published.{kind}", run / f"figures/100k/{NAME}.{kind}"
        )
    write_json(run / "figures" / "100k" / f"{NAME}.json", {"caption": EVIL, "alt_text": EVIL})
    for ending in ("pdf", "csv"):
        write_text(run / "figures" / "100k" / f"{NAME}.{ending}", EVIL)
    notebook = _notebook(run)
    claims = [poisoned(ClaimResult, status="differs", cells=None)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beam_claims.engine.audit", lambda: claims)
        index = write_page(read_run(run), notes={"100k": EVIL})
    return [index, notebook, parts / f"{NAME}.html"]


def _notebook(run: Path) -> Path:
    """A notebook with the parameters of all and every text in them poisoned, executed and rendered as all are."""
    import nbformat  # for two seconds, which every process that only collects tests would take

    source = nbformat.read(NOTEBOOKS / f"{EVALUATION[0]}.ipynb", as_version=4)
    cells = [cell for cell in source.cells if cell.metadata.get("tags")]
    code = [
        "from beam_run.notebooks import begin\nwork = begin(globals())\nprint(work.author)",
        f"import sys\nsys.path[:0] = [{str(HERE)!r}]\nfrom poisoned import EVIL, shown\n"
        "from beamlib.params import usual_parameters\nprint(EVIL)\nprint(EVIL, file=sys.stderr)\n"
        "for one in shown(usual_parameters('100K')):\n    display(one)",
        "from matplotlib.figure import Figure\nimport pandas as pd\nfrom beamlib.report.figures import style\n"
        "with style():\n    figure = Figure(figsize=(2, 1))\n    figure.subplots().set_title(EVIL)\n"
        "work.suite, values = 'own', pd.DataFrame({EVIL: [EVIL]})\n"
        "work.save_figure(figure, 'own', values, EVIL, scores=False, own=EVIL)",
        "work.finish()\nEVIL",
    ]
    source.cells = [*cells, *(nbformat.v4.new_code_cell(text) for text in code)]
    name = f"06 {NAME[:60]}"
    folder = run / "sources"
    folder.mkdir()
    nbformat.write(source, folder / f"{name}.ipynb")
    models, prompts = folder / f"{NAME}.yaml", folder / f"{NAME} prompts"
    given = poisoned_parameters(str(run), usual_parameters("100K"), models=str(models), prompts=str(prompts))
    endpoint = {"model": EVIL, "base_url": "http://127.0.0.1:9/v1", "context_window": 131_072}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    write_json(models, {"readers": {given.backbone: endpoint}, **roles})
    prompts.mkdir()
    shutil.copy(PROMPTS / "answer.md", prompts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beam_run.executing.NOTEBOOKS", folder)
        return to_html(execute(name, given, run / "notebooks/100k"))


def test_no_page_holds_a_script_and_every_text_is_shown_as_it_is(pages: list[Path]) -> None:
    for page in pages:
        text = page.read_text()
        for own in scripts():  # the page of a run has its viewer
            text = text.replace(f"<script>{own.text}</script>", "")
        read = Scripts(re.sub("</?noscript>", "", text))
        assert read.found == [], page
        words = " ".join("".join(read.text).split())
        assert words.count(" ".join(EVIL.split())) > 3, page


def test_every_link_leads_to_its_file_whatever_its_name(pages: list[Path]) -> None:
    links = re.findall(r'(?:href|src)="([^"#][^"]*)"', pages[0].read_text())
    assert len(links) > 10
    assert [link for link in links if not (pages[0].parent / unquote(html.unescape(link))).exists()] == []


def test_pages_run_no_script_even_if_one_gets_in(pages: list[Path]) -> None:
    for page in pages[:2]:
        policy = re.search(rf"<meta [^>]*{POLICY}[^>]*>", page.read_text())
        own = "".join(f" '{one.hash}'" for one in scripts())
        allowed = f"script-src 'strict-dynamic'{own};" if page == pages[0] else "script-src 'none'"
        assert policy and allowed in html.unescape(policy[0])


@pytest.fixture(scope="module")
def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser found; looked for {', '.join(BROWSERS)}")
    return found


def read_in(browser: str, page: Path, profile: Path) -> str:
    """The page after a browser has loaded it and run what it holds, without the policy that forbids scripts."""
    place = profile / "page.html"
    text = page.read_text().replace(POLICY, "X-Nothing")
    place.write_text(text.replace("<head>", f'<head><base href="{page.parent.as_uri()}/">', 1))
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}"]
    options += [
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=2000",
    ]
    done = subprocess.run(
        [browser, *options, "--dump-dom", place.as_uri()], capture_output=True, text=True, timeout=120
    )
    assert "<html" in done.stdout, done.stderr[-2_000:]
    return done.stdout


def test_a_browser_runs_nothing_in_them(pages: list[Path], browser: str, tmp_path: Path) -> None:
    written = write_text(tmp_path / "unescaped.html", f"<html><head></head><body>{EVIL}</body></html>")
    assert re.search(r"<html[^>]* data-owned", read_in(browser, written, tmp_path)), "this is what would be seen"
    for page in pages:
        loaded = read_in(browser, page, tmp_path)
        assert not re.search(r"<html[^>]* data-owned", loaded), page
        assert loaded.count("&lt;/script&gt;&lt;script&gt;") > 3


def test_markdown_shows_every_text_as_it_is(tmp_path: Path) -> None:
    """Two readings of Markdown: CommonMark's with tables, as on most sites, and Jupyter's."""
    common = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for one in shown(usual_parameters("100K")):
        text = format_display_data(one)[0].get("text/markdown")
        for page in (common.render(text), markdown2html(text)) if text else ():
            read = Scripts(page)
            assert read.found == []
            assert " ".join(EVIL.split()) in " ".join("".join(read.text).split())
    for path in save_table(poisoned_costs(), "costs", tmp_path):
        if path.suffix == ".md":
            assert Scripts(common.render(path.read_text())).found == []


TEXTS = r"""
# a; - a; + a; 1. a; 12) a; > a; ---; - - -; ===; ***; ~~a~~; a | b; \; [a](b); ![a](b); [a][b]; [a]: b; <a@b.de>
<http://a.b>; &lt.; &amp.lt.; *a*; _a_; a_b_c; __a__; _a; a_; `a`; ``a``; \*a\*; $a$ and $b$; 0.412 [0.38, 0.45]; -0.5
+1; #1; a\; \|
"""


@pytest.mark.parametrize("text", [*re.split(r"[;\n]\s*", TEXTS.strip().replace(".;", ";")), "a\nb", "    code", "a  "])
def test_a_text_in_markdown_is_that_text(text: str) -> None:
    plain = " ".join(text.split())
    for page in (MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown_text(text)),):
        assert page == f"<p>{html.escape(plain, quote=False)}</p>\n"
    row = MarkdownIt("commonmark").enable("table").render(f"| h |\n|---|\n| {markdown_text(text)} |\n")
    assert f"<td>{html.escape(plain, quote=False)}</td>" in row


def test_intervals_and_names_stay_readable() -> None:
    assert markdown_text("0.412 [0.38, 0.45] of strip_markers=true, n = 20.") == (
        "0.412 [0.38, 0.45] of strip_markers=true, n = 20."
    )


def test_the_review_page_shows_every_text_as_it_is() -> None:
    texts = {one.name: EVIL for one in fields(Draft) if one.type == "str"}
    draft = Draft(
        **{**texts, "ability": EVIL, "evidence": {EVIL: (0,)}, "rubric": (EVIL,), "fields": {}, "refs": (), "plans": ()}
    )
    view = View([])
    view.messages = (Spoken(0, EVIL, EVIL, None),)
    shown = [one.value for one in _html(review_widget([draft], view, Path("nowhere.jsonl"), "Ana"))]
    assert len(shown) == 1 and all(Scripts(text).found == [] for text in shown)
    assert all(EVIL in html.unescape(text) for text in shown)


def _html(box: Any) -> Iterator[Any]:
    for one in box.children:
        if type(one).__name__ == "HTML":
            yield one
        yield from _html(one) if hasattr(one, "children") else ()


def test_no_name_is_a_colour_or_a_command_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "[red]x[/]:b:[b"
    print_rows([{name: name}], as_json=False)
    costs = cost_text(name)
    for text in (capsys.readouterr().out, costs):
        assert name in text
    from beam_commands.confirmation import console

    assert isinstance(console, Console)
    console.print(f"  1. {name}")
    assert name in capsys.readouterr().out


def cost_text(name: str) -> str:
    row = poisoned(RealisedRow).model_copy(update={"model": name, "role": "r", "step": "s"})
    estimate = poisoned(Estimate)
    row_ahead = estimate.rows[0].model_copy(update={"model": name, "role": "r", "step": "s"})
    from beam_commands.cost_table import cost_table

    text = estimate.model_copy(update={"rows": (row_ahead,), "backbone": name}).render()
    assert name in text
    return cost_table(None, [row]).to_text()


def test_what_a_terminal_would_obey_is_shown_as_text() -> None:
    from beam_run.ending import _shown

    written: list[str] = []
    write = _shown(lambda text: written.append(text) or len(text))
    write("a\x1b]0;title\x07b\x9bc\x1b[2Jd\x00e\x7ff\n")
    write("\x1b[1mbold\x1b[0m\r 10%|█\x1b[A ü–\t\n")
    assert written == [r"a\x1b]0;title\x07b\x9bc\x1b[2Jd\x00e\x7ff" + "\n", "\x1b[1mbold\x1b[0m\r 10%|█\x1b[A ü–\t\n"]
