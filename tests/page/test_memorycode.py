"""MemoryCode in the view of the page: its answers and rules, and what the sessions said."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_memorycode.dialogue_files import LoadedDialogue, load_dialogues
from beam_memorycode.generating import GenerateOptions, generate_dialogues
from beam_memorycode.outputs import Outputs, write_outputs
from beam_memorycode.rule_scoring import RELEASED
from beam_memorycode.scored import score_model
from beam_page.building import write_page
from beam_page.run_folder import read_run
from page_views import Look, each, go, text_of
from poisoned import EVIL

CODE = "```python\ndef some_name_x(first, second):\n    return first  # {}\n```"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[LoadedDialogue]]:
    """A run with nothing but two dialogues and answers to them, one missing and one an attack."""
    run = tmp_path_factory.mktemp("memorycode") / "run"
    data = run / "memorycode" / "data"
    generate_dialogues(GenerateOptions(data, seed=1, counts=(1, 3), per_count=1))
    items = load_dialogues(data)
    for item in items:
        count = len(item.dialogue.queries)
        answers = [CODE.format("plain"), f"{EVIL} {CODE.format(EVIL)}", *[CODE.format(n) for n in range(count)]][:count]
        write_outputs(run / "memorycode" / "outputs" / "model", Outputs(item.dialogue.id, history=tuple(answers)))
    write_page(read_run(run), claims=False)
    return run, items


def test_every_answer_is_there_with_its_score_and_rules(made: tuple[Path, list[LoadedDialogue]], look: Look) -> None:
    run, items = made
    model = score_model("model", run / "memorycode" / "outputs" / "model", items, own=True)
    browser = look(run / "memorycode", "#/list")
    rows = each(browser, "table.list tbody tr", "[one.querySelector('small').textContent, one.cells[1].innerText]")
    expected = [answer.score_by(RELEASED) for answer in model.answers]
    shown = ["unscored" if score is None else f"{float(score):.2f}" for score in expected]
    assert sorted(text.strip() for _, text in rows) == sorted(shown) and len(rows) > 2
    key = next(name.split(" ")[0] for name, text in rows if text.strip() != "unscored")
    go(browser, f"#/q/{key}?gold=1&m=0")
    assert text_of(browser, ".nuggets tbody").strip()
    session = items[int(key.split("-")[1]) - 1].dialogue.sessions[0].text or ""
    browser.wait("document.querySelector('#m0 .message.cited')")
    assert each(browser, "#m0 .message.cited .text", "one.textContent") == [session]
    for name, _ in rows:
        go(browser, f"#/q/{name.split(' ')[0]}?gold=1")
        assert not browser.evaluate("document.documentElement.dataset.owned !== undefined")


def test_the_page_of_the_run_leads_there(made: tuple[Path, list[LoadedDialogue]], tmp_path: Path, look: Look) -> None:
    run, _ = made
    (run / "tables" / "memorycode").mkdir(parents=True)
    write_page(read_run(run), claims=False)
    assert 'href="memorycode/index.html"' in (run / "index.html").read_text()
    browser = look(run / "memorycode", "#/verify")
    assert "prints no number" in text_of(browser, "#verified")
