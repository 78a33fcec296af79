"""Models, data and names are hostile: nothing of theirs runs or ends a script, and it is shown as it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from beam_page.building import write_page
from beam_page.data_files import read_data, write_data
from beam_page.run_folder import read_run
from beamlib.data.gold import ABILITIES
from beamlib.files import write_json, write_jsonl, write_text
from conftest import run_on
from page_views import Look, each, go
from poisoned import EVIL, NAME, RUN

WORST = f"{EVIL}\u2028\u2029]]>--></textarea>\x00\U0001f600 ${{document.documentElement.dataset.owned=1}}`\"');//"
OWNED = "document.documentElement.dataset.owned !== undefined"


def everywhere(value: Any, key: str = "") -> Any:
    """`value` with every text that a reader sees made hostile; what is looked up by its name stays."""
    if isinstance(value, dict):
        return {name: everywhere(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [everywhere(one, key) for one in value]
    read = (
        "content",
        "question",
        "rubric",
        "ideal_response",
        "ideal_answer",
        "answer",
        "ideal_summary",
        "title",
        "theme",
    )
    return f"{value} {WORST}" if isinstance(value, str) and key in read else value


@pytest.fixture(scope="module")
def hostile(repo_root: Path, release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on conversations of attacks, beside an imported one whose names, answers and replies are attacks."""
    root = tmp_path_factory.mktemp("hostile")
    data = root / "release"
    shutil.copytree(release, data)
    for path in (*data.rglob("chat.json"), *data.rglob("probing_questions.json"), *data.rglob("topic.json")):
        write_json(path, everywhere(json.loads(path.read_text())))
    run = run_on(repo_root, data, root / "run", conversations=1)
    judged, said, reply = [], [], json.dumps({"score": 1, "reason": WORST})
    for place in range(20):
        ids = {"probe_id": f"100K-1-q{place:02d}", "conversation_id": "100K-1"}
        verdict = {"nugget": WORST, "score": None if place == 3 else 1.0, "reason": WORST, "reply": reply}
        order = [{"parser": name, "items": [WORST], "matches": [0]} for name in ("items", "newline")]
        ability = ABILITIES[place // 2]
        more = {"alignments": order} if ability == "event_ordering" else {}
        judged.append({**ids, "ability": ability, "verdicts": [verdict], **more})
        failed = {"unscored": WORST} if place == 5 else {"text": WORST}
        said.append({**ids, **failed, "message_ids": [0, 1], "parts": {WORST: [0, 1]}})
    judged.append(
        {"probe_id": f"../{NAME}", "conversation_id": f'{NAME}-"', "ability": "abstention", "unscored": WORST}
    )
    write_jsonl(run / NAME / NAME / "judgements.jsonl", judged)
    write_jsonl(run / NAME / NAME / "answers.jsonl", said)
    write_json(run / "damaged" / NAME / "manifest.json", {WORST: WORST})
    write_text(run / "tables" / "100k" / f"{NAME}.html", WORST.replace("\x00", ""))
    page = root / "page"
    shutil.copytree(run, page)
    write_page(read_run(page, data), claims=False)
    return page


def test_nothing_of_theirs_runs_and_every_text_is_shown(hostile: Path, look: Look) -> None:
    browser = look(hostile)
    read = read_data(hostile / "page" / "run.js")
    ids = [one["id"] for conversation in read["conversations"] for one in conversation["questions"]]
    assert len(ids) == 21
    views = ["#/list?arm=all", f"#/list?words={NAME[:20]}&answers=1", "#/verify"]
    every = ",".join(one["id"] for one in read["series"])
    for address in views + [f"#/q/{one}" for one in (ids[0], ids[3], ids[4], ids[5])]:
        go(browser, address)
    for probe in (ids[4], ids[-1]):
        address = f"#/q/{quote(probe, safe='')}?gold=1&arms={quote(every)}"
        browser.evaluate(f"location.hash = {json.dumps(address)}")
        browser.wait(f"document.querySelector('.trail')?.textContent.startsWith({json.dumps(probe)})")
        browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        browser.wait("!document.body.innerText.includes('loading …')")
        shown = browser.evaluate("document.getElementById('view').textContent")
        assert shown.count(EVIL) >= (30 if probe == ids[4] else 1)
        assert not browser.evaluate(OWNED)
        alien = ("script", "img", "svg", "style", "iframe", "[onload]", "[onerror]", "a[href^=javascript]")
        assert each(browser, ",".join(f"#view {name}" for name in alien), "one.outerHTML") == []
    assert not browser.evaluate(OWNED)


def test_files_of_the_page_have_plain_names_and_hold_two_strings(hostile: Path) -> None:
    files = sorted((hostile / "page").glob("*.js"))
    assert {path.name for path in files} == {"a0.js", "a1.js", "m0.js", "run.js"}
    for path in files:
        text = path.read_text(encoding="ascii")
        assert text.startswith(f'beamPage("{path.stem}","') and text.count('"') == 4 and "<" not in text


def test_the_policy_lets_no_other_script_run(page_run: Path, tmp_path: Path, look: Look) -> None:
    """Even where one gets into the page's own text, or a file beside it."""
    run = tmp_path / "run"
    shutil.copytree(page_run, run)
    write_text(run / "page" / "planted.js", "document.documentElement.dataset.owned = 1;")
    text = (run / "index.html").read_text()
    planted = f'<script>{RUN}</script><img src=x onerror={RUN}><script src="page/planted.js"></script>'
    planted += f'<a id=x href="javascript:{RUN}">x</a>'
    write_text(run / "index.html", text.replace('<div id="document">', f'<div id="document">{planted}'))
    browser = look(run)
    browser.evaluate("document.getElementById('x').click()")
    assert not browser.evaluate(OWNED)
    assert sum("Content Security Policy" in one for one in browser.problems) >= 3
    given = {"expression": "eval('1')", "allowUnsafeEvalBlockedByCSP": False}
    assert "unsafe-eval" in browser.send("Runtime.evaluate", **given)["exceptionDetails"]["exception"]["description"]
    browser.problems.clear()


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes(page_run: Path, release: Path, tmp_path: Path) -> None:
    again = tmp_path / page_run.name
    shutil.copytree(page_run, again)
    for path in (*(again / "page").glob("*"), again / "index.html"):
        path.unlink()
    write_data(again, "a99", {})
    write_page(read_run(again, release), workers=2)
    first, second = ({p.name: p.read_bytes() for p in (run / "page").iterdir()} for run in (page_run, again))
    same = [name for name in first if first[name] == second.get(name)]
    assert first.keys() == second.keys() and set(first) - set(same) <= {"run.js"}
    known, other = (read_data(run / "page" / "run.js") for run in (page_run, again))
    assert {**known, "commands": 0} == {**other, "commands": 0}
