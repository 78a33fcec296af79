"""The page of a run with language models, by a scripted server: calls, cost, time, failures and their reasons."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam_claims.reproducing import render, reproduce
from beam_page import building
from beam_page.building import render_page, write_page
from beam_page.run_folder import read_run
from beam_run.assembly import AssemblyOptions, assemble
from beamlib.data.loading import load
from beamlib.data.sources import find_conversations
from beamlib.evaluate.kept_settings import keep_settings
from beamlib.evaluate.run import evaluate
from beamlib.run import Run
from conftest import ARMS, parameters_for
from page_views import Look, each, go, text_of
from scripted_server import Answer, ScriptedServer, completion, error_body
from steady_replies import one_endpoint, steady_reply

REFUSED, ANSWERED = "100K-1-q06", "100K-1-q07"


@pytest.fixture(scope="module")
def served(repo_root: Path, release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose reader's endpoint filters one question, with its page; by then the server is gone."""
    root = tmp_path_factory.mktemp("served")
    loaded = load(find_conversations(release)[0])
    question = next(probe.question for probe in loaded.probes if probe.id == REFUSED)

    def reply(body: dict[str, Any]) -> str | Answer:
        text = str(body["messages"][-1]["content"])
        reading = not any(f"<{tag}>" in text for tag in ("criterion", "piece", "exchange", "first"))
        if reading and (f"<question>\n{question}" in text or text.startswith(question)):
            return Answer(error_body("this is not to be asked", "content_filter"), 400)
        return steady_reply(body)

    with ScriptedServer(reply) as server:
        endpoint = {"model": "scripted", "base_url": server.base_url, "context_window": 131_072, "input_price": 2.0}
        endpoint["output_price"] = 0.0
        roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
        (root / "models.yaml").write_text(yaml.safe_dump({"readers": {"one": endpoint}, **roles}))
        given = {"models": str(root / "models.yaml"), "confirm_cost": True, "conversations": 1}
        parameters = parameters_for(repo_root, release, root / "run", **given)
        evaluate(parameters, ARMS, quiet=True)
        keep_settings(Run.of(parameters))
    write_page(read_run(root / "run", release), claims=False)
    return root / "run"


def test_the_claims_are_asked_of_the_run(served: Path) -> None:
    said = building._claims(served)["reproduced"]
    assert not said["offline"] and sum(said["counts"].values()) > 10
    assert (
        said["text"] == render(reproduce(served).model_copy(update={"run": "run"})) and str(served) not in said["text"]
    )
    hostile = {**said, "text": "<script>alert(1)</script>"}
    index = {"protocols": {}, "protocol": "", "left_out": ""}
    page, harmless = (render_page("x", index, {"rows": [], "reproduced": each}) for each in (said, hostile))
    for outcome, number in said["counts"].items():
        assert f"<strong>{number}</strong> {outcome}" in page
    assert "<script>alert(1)" not in harmless and "&lt;script&gt;alert(1)" in harmless


def test_cost_and_time_stand_beside_scores(served: Path, look: Look) -> None:
    browser = look(served)
    assert "seconds an answer" in text_of(browser, ".glance thead")
    costs = each(browser, ".glance tbody tr", "[...one.cells].slice(-2).map((cell) => cell.textContent)")
    assert len(costs) == len(ARMS) and all(cost.startswith("$") and float(seconds) >= 0 for cost, seconds in costs)
    assert browser.evaluate("beamVerify()")["wrong"] == []


def test_a_page_without_notebooks_says_where_evidence_is_lost(served: Path, look: Look) -> None:
    browser = look(served)
    cells = "[...one.cells].slice(1).map((cell) => Number(cell.textContent))"
    rows = each(browser, "[aria-label='Where evidence is lost'] tbody tr", cells)
    main = each(browser, ".glance tbody:not(.variants) tr", "1")
    assert 1 < len(rows) == len(main) and len({sum(counts) for counts in rows}) == 1 and sum(rows[0]) > 0
    links = each(browser, "[aria-label='Where evidence is lost'] tbody a", "one.getAttribute('href')")
    assert len(links) == 3 * len(rows) and all(link.startswith("#/list?arm=") for link in links)


def test_a_failure_is_unscored_with_its_reason_and_its_call(served: Path, look: Look) -> None:
    browser = look(served, "#/list?show=unscored&arm=all")
    found = each(browser, "table.list tbody th small", "one.textContent.split(' ')[0]")
    assert found == [REFUSED]
    assert set(each(browser, "table.list tbody td a", "one.textContent")) == {"▸ unscored"}
    go(browser, f"#/q/{REFUSED}")
    assert "No answer: content filter" in text_of(browser, "article .answer")
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert "this is not to be asked" in "".join(each(browser, "section[aria-label=Calls] td.bad", "one.textContent"))


def test_the_calls_of_a_question_name_the_arm_whose_answer_they_are(served: Path, look: Look) -> None:
    browser = look(served, f"#/q/{ANSWERED}?arms=one%2Foracle")
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    rows = each(browser, "section[aria-label=Calls] tbody tr", "[...one.cells].map((cell) => cell.textContent)")
    steps = {row[0] for row in rows}
    assert {"answer", "judge_nugget"} <= steps
    readers = [row for row in rows if row[0].startswith("answer")]
    assert any("one/oracle" in row[-1] for row in readers)
    assert all(int(row[4]) > 0 and row[8].startswith("$") and row[9] == "ok" for row in readers)
    browser.wait("document.querySelector('.context .text')")
    assert text_of(browser, ".context .text").startswith("[messages ")


def test_a_call_that_is_gone_leaves_the_context_out_with_the_reason(
    served: Path, release: Path, tmp_path: Path, look: Look
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "100k-one").symlink_to(served / "100k-one")
    write_page(read_run(run, release), claims=False)
    browser = look(run, f"#/q/{ANSWERED}?arms=one%2Flight-bm25-k3")
    browser.evaluate("document.querySelector('.context').parentElement.open = true")
    browser.wait("document.querySelectorAll('.context p').length > 1")
    assert "--calls record" in text_of(browser, ".context")


@pytest.mark.usefixtures("one_worker")
def test_a_page_of_unscored_answers_opens_with_the_reasons(repo_root: Path, release: Path, tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str | Answer:
        text = str(body["messages"][-1]["content"])
        if "<context>" in text:
            return Answer(completion(body, "", "content_filter"))
        return steady_reply(body)

    with ScriptedServer(reply) as server:
        models = one_endpoint(server, tmp_path / "models.yaml")
        changes = {"models": str(models), "confirm_cost": True, "conversations": 1}
        run = Run.of(parameters_for(repo_root, release, tmp_path / "run", **changes))
        evaluate(run, ARMS[2:3], quiet=True)
    keep_settings(run)
    figure = tmp_path / "run" / "figures"
    figure.mkdir()
    page = write_page(read_run(tmp_path / "run", release)).read_text()
    glance = page[page.index('id="glance"') :]
    reason = glance.index("none of 20 answers is scored (20 content filter). For example:")
    assert reason < glance.index("<table") and "<figure" not in glance[:reason]


def test_tables_and_page_name_the_model_that_answered(repo_root: Path, release: Path, tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> Answer:
        return Answer({**completion(body, steady_reply(body)), "model": "<b>other</b>"})

    run = tmp_path / "run"
    with ScriptedServer(reply) as server:
        given = {"models": str(one_endpoint(server, tmp_path / "models.yaml")), "conversations": 1}
        evaluate(parameters_for(repo_root, release, run, confirm_cost=True, **given), ARMS[:2], quiet=True)
    said = "reader scripted was answered by <b>other</b>"
    (table,) = assemble(run, AssemblyOptions()).values()
    assert said in " ".join(table.to_text().split())
    page = write_page(read_run(run, release), claims=False).read_text("utf-8")
    assert html.escape(said) in page and "<b>other</b>" not in page
    store = next((run / "calls").rglob("100K-*.sqlite"))
    store.write_bytes(b"SQLite format 3\0 and no more")
    (table,) = assemble(run, AssemblyOptions()).values()
    assert "By their replies: not known." in table.to_text()
