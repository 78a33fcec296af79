"""From every number to its questions, and to the answers, contexts and verdicts behind it."""

from __future__ import annotations

import json
import re
import shutil
import time
import zipfile
from pathlib import Path

import pytest

from beam_page.building import write_page
from beam_page.conversation_data import ContextTable, conversation_data
from beam_page.run_folder import RunFolder, read_run
from beamlib.data.errata import spoilt_probes
from beamlib.data.loading import load
from beamlib.errors import UserError
from beamlib.evaluate.answering import recollections
from beamlib.evaluate.arms import Arm
from beamlib.memory.rag import Rag
from beamlib.report.outcomes import OUTCOMES, outcome_rows
from beamlib.report.results import recall_rows
from beamlib.scoring.scores import score_run
from browser_driver import Browser
from conftest import run_on
from page_views import Look, each, go, press, text_of

RAG, LIGHT = "rag-bm25-k3", "light-bm25-k3"
BESIDE = {LIGHT: RAG}
"""The arm that an arm is compared with, where it is not LIGHT: a click on a score opens both."""


@pytest.fixture(scope="module")
def held(page_run: Path, release: Path) -> RunFolder:
    return read_run(page_run, release)


def counted(browser: Browser) -> int:
    return int(text_of(browser, "#count").partition(" ")[0])


def scores(held: RunFolder, series: str, protocol: str = "paper") -> dict[str, float]:
    (arm,) = (one for one in held.arms if one.series == series)
    return dict(score_run(arm.judgements, protocol)[["probe_id", "score"]].itertuples(index=False))


def outcomes_of(held: RunFolder, series: str) -> dict[str, str]:
    """What became of each question of an arm, as notebook 06 computes it."""
    (arm,) = (one for one in held.arms if one.series == series)
    everything = [load(source) for source in held.sources.values()]
    gold = {key: one for loaded in everything for key, one in loaded.gold.items()}
    spoilt = spoilt_probes([probe for loaded in everything for probe in loaded.probes])
    recalls = [recall_rows(list(arm.answers.values()), gold, counting) for counting in ("whole", "partial")]
    whole, in_part = (dict(zip(rows["probe_id"], rows["score"], strict=True)) for rows in recalls)
    rows = outcome_rows(score_run(arm.judgements, "paper"), whole, in_part, scores(held, "oracle"), spoilt)
    return dict(zip(rows["probe_id"], rows["outcome"], strict=True))


def test_every_cell_of_the_main_tables_leads_to_its_questions(held: RunFolder, page_run: Path, look: Look) -> None:
    browser = look(page_run)
    cells = each(browser, "[data-cell]", "[one.dataset.cell, one.getAttribute('href')]")
    assert len(cells) > 6 * 12
    for key, href in cells:
        _, series, size, ability = json.loads(key)
        go(browser, href)
        (arm,) = (one for one in held.arms if one.series == series)
        expected = [one for one in arm.judgements if ability in ("average", one.ability)]
        assert counted(browser) == len(expected) > 0, (key, href)
        heads = each(browser, "table.list thead th", "one.textContent")
        assert heads == ["question", series, BESIDE.get(series, LIGHT)]
        assert all(row.startswith(size) for row in each(browser, "table.list tbody th small", "one.textContent"))


def test_the_ways_in_find_what_python_finds(held: RunFolder, page_run: Path, look: Look) -> None:
    browser = look(page_run, "#/list")
    gold = {key: one for source in held.sources.values() for key, one in load(source).gold.items()}
    (rag,) = (one for one in held.arms if one.series == RAG)
    ours = scores(held, RAG)
    evidence = {key: [i in answer.message_ids for i in gold[key].evidence] for key, answer in rag.answers.items()}
    expected = {
        "shown": {key for key, seen in evidence.items() if seen and all(seen) and ours[key] < 0.5},
        "without": {key for key, seen in evidence.items() if seen and not any(seen) and ours[key] >= 0.5},
        "unscored": set(),
        "protocols": {key for key, one in scores(held, RAG, "binary").items() if one != ours[key]},
    }
    for show, ids in expected.items():
        go(browser, f"#/list?arm={RAG}&show={show}&against=binary")
        found = each(browser, "table.list tbody th small", "one.textContent.split(' ')[0]")
        assert set(found) == ids, show
    assert expected["shown"] and expected["protocols"]
    lost = outcomes_of(held, RAG)
    shows = ("right", "whole", "part", "none", "uncited", "oracle", "defective", "unscored")
    for show, outcome in zip(shows, OUTCOMES, strict=True):
        go(browser, f"#/list?arm={RAG}&show={show}")
        found = each(browser, "table.list tbody th small", "one.textContent.split(' ')[0]")
        assert set(found) == {key for key, own in lost.items() if own == outcome}, show
    assert len(set(lost.values())) > 3
    go(browser, f"#/list?arm={RAG}&with=oracle&show=arms")
    theirs = scores(held, "oracle")
    found = each(browser, "table.list tbody th small", "one.textContent.split(' ')[0]")
    gaps = [abs(ours[key] - theirs[key]) for key in found]
    assert set(found) == {key for key in ours if ours[key] != theirs[key]} and gaps == sorted(gaps, reverse=True)


def test_search_finds_words_in_questions_and_in_answers_and_who_cites_a_message(
    held: RunFolder, page_run: Path, look: Look
) -> None:
    browser = look(page_run, "#/list")
    loaded = load(held.sources["100K-1"])
    question = loaded.probes[4]
    word = max(question.question.split(), key=len).strip("?.,!")
    for address in (f"#/list?words={word}", f"#/list?words={question.id}"):
        go(browser, address)
        assert question.id in " ".join(each(browser, "table.list tbody th small", "one.textContent"))
    answers = next(one for one in held.arms if one.series == "oracle").answers
    said = next(
        word
        for one in answers.values()
        for word in (one.text or "").split()
        if word.isalpha() and len(word) > 4 and not any(word.lower() in p.question.lower() for p in loaded.probes)
    )
    go(browser, f"#/list?words={said}&arm=all")
    before = counted(browser)
    go(browser, f"#/list?words={said}&answers=1&arm=all")
    assert counted(browser) > before
    message = next(one.evidence[0] for one in loaded.gold.values() if one.evidence)
    go(browser, f"#/list?words=message+{message}")
    citing = [key for s in held.sources.values() for key, one in load(s).gold.items() if message in one.evidence]
    assert sorted(each(browser, "table.list tbody th small", "one.textContent.split(' ')[0]")) == sorted(citing)


def test_a_question_shows_gold_behind_a_fold_answers_verdicts_and_evidence(
    held: RunFolder, page_run: Path, look: Look
) -> None:
    loaded = load(held.sources["100K-1"])
    probe = next(one for one in loaded.probes if len(loaded.gold[one.id].evidence) > 1)
    gold = loaded.gold[probe.id]
    browser = look(page_run, f"#/q/{probe.id}")
    assert text_of(browser, "#view h1") == probe.question
    assert gold.rubric[0] not in text_of(browser, "#view")
    browser.evaluate("document.querySelector('details.gold summary').click()")
    browser.wait("document.querySelector('details.verdicts').open")
    seen = text_of(browser, "#view")
    assert gold.rubric[0] in seen and "gold=1" in browser.evaluate("location.hash")
    for arm in (one for one in held.arms if "without" not in one.series):
        card = text_of(browser, f"article[aria-label='{arm.series}']")
        assert str(arm.answers[probe.id].text) in card
        judgement = next(one for one in arm.judgements if one.probe_id == probe.id)
        assert all(json.loads(verdict.reply)["reason"] in card for verdict in judgement.verdicts)
    for place, cited in enumerate(gold.evidence, start=1):
        row = f"section[aria-label=Evidence] tbody tr:nth-child({place})"
        assert text_of(browser, f"{row} th") == f"message {cited}"
        marks = each(browser, f"{row} td", "one.textContent")
        names = each(browser, "section[aria-label=Evidence] thead th", "one.textContent")[1:]
        for name, mark in zip(names, marks, strict=True):
            answer = next(one for one in held.arms if one.series == name).answers[probe.id]
            shown = {i for part, ids in answer.parts.items() if part != "scratchpad" for i in ids}
            assert ("shown" in mark) == (cited in shown), (name, cited)


def test_the_context_is_the_one_that_the_reader_was_given(held: RunFolder, page_run: Path, look: Look) -> None:
    loaded = load(held.sources["100K-1"])
    memory = Rag(k=3, retriever="bm25")
    memory.ingest(loaded.conversation)
    contexts = recollections(loaded.probes, memory)
    browser = look(page_run, "#/list")
    for probe, context in list(zip(loaded.probes, contexts, strict=True))[4:6]:
        go(browser, f"#/q/{probe.id}?arms={RAG}")
        browser.evaluate("document.querySelector('.context').parentElement.open = true")
        browser.wait("document.querySelector('.context .text')")
        pieces = "[...one.childNodes].map((piece) => (piece.firstChild ?? piece).data).join('')"
        assert each(browser, ".context .text", pieces) == [context.context]  # type: ignore[union-attr]
        cited = set(loaded.gold[probe.id].evidence) & set(context.message_ids)  # type: ignore[union-attr]
        assert len(each(browser, ".context mark", "1")) == len(cited)


def test_event_ordering_shows_its_alignment_and_messages_their_surroundings(
    held: RunFolder, page_run: Path, look: Look
) -> None:
    probe = next(one for one in load(held.sources["100K-1"]).gold.values() if one.ability == "event_ordering")
    cited = probe.evidence[0]
    browser = look(page_run, f"#/q/{probe.probe_id}?gold=1&m={cited}&arms=oracle")
    assert "Alignment of events" in browser.evaluate("document.querySelector('article').textContent")
    browser.wait(f"document.querySelector('#m{cited} .message.cited')")
    conversation = load(held.sources["100K-1"]).conversation
    shown = each(browser, f"#m{cited} .message .text", "one.textContent")
    assert shown == [one.content for one in conversation if abs(one.id - cited) <= 3]


@pytest.mark.parametrize(
    "address", ["#/list?size=100K&show=shown&arm=oracle", "#/q/100K-2-q06?protocol=binary&arms=none%2Coracle&gold=1"]
)
def test_an_address_that_is_sent_shows_the_same(page_run: Path, look: Look, address: str) -> None:
    browser = look(page_run, "#/list")
    go(browser, address)
    there = text_of(browser, "#view")
    for choice in each(browser, "#view select", "one.id + one.value"):
        there += choice
    browser = look(page_run, address)
    again = text_of(browser, "#view") + "".join(each(browser, "#view select", "one.id + one.value"))
    assert again == there


def test_a_form_and_the_keyboard_lead_on(page_run: Path, look: Look) -> None:
    browser = look(page_run, "#/list?size=100K")
    browser.evaluate(
        "(() => { const one = document.getElementById('choose-ability'); one.value = 'abstention';"
        " one.dispatchEvent(new Event('change', { bubbles: true })); })()"
    )
    browser.wait("location.hash.includes('ability=abstention')")
    browser.wait("document.querySelectorAll('table.list tbody tr').length === 4")
    browser.evaluate("document.querySelector('table.list tbody a').click()")
    browser.wait("location.hash.startsWith('#/q/') && document.querySelector('h1.question')")
    first = browser.evaluate("location.hash")
    assert browser.evaluate("document.activeElement.tagName") == "H1"
    press(browser, "j")
    browser.wait(f"location.hash !== {json.dumps(first)}")
    browser.wait("document.querySelector('.steps').textContent.includes('2 of 4')")
    press(browser, "k")
    browser.wait(f"location.hash === {json.dumps(first)}")
    press(browser, "/")
    browser.wait("location.hash.startsWith('#/list')")


@pytest.mark.parametrize(
    "address",
    ["#/q/nobody", "#/q/%E0%A4%A", "#/list?arm=nobody&protocol=none&show=no&size=7K", "#/q/100K-1-q00?arms=x,y&m=z"],
)
def test_an_address_of_nothing_is_told_and_breaks_nothing(page_run: Path, look: Look, address: str) -> None:
    browser = look(page_run)
    browser.evaluate(f"location.hash = {json.dumps(address)}")
    time.sleep(0.2)
    assert browser.evaluate(
        "!document.getElementById('document').hidden || Boolean(document.querySelector('#view h1'))"
    )


def test_without_the_conversations_answers_and_verdicts_are_there(page_run: Path, tmp_path: Path, look: Look) -> None:
    run = tmp_path / "run"
    (run / "100k").parent.mkdir()
    (run / "100k").symlink_to(page_run / "100k")
    write_page(read_run(run), claims=False)
    browser = look(run, "#/q/100K-1-q06?gold=1")
    seen = text_of(browser, "#view")
    assert "its text is not at hand" in seen and "name the folder of the data with --data" in seen
    assert len(each(browser, ".nuggets tbody tr", "1")) >= 4
    assert browser.evaluate("beamVerify()")["wrong"] == []


def test_a_question_is_replayed_by_the_command_that_the_page_names(
    page_run: Path, release: Path, look: Look, called: object
) -> None:
    browser = look(page_run, f"#/q/100K-1-q06?arms={RAG}")
    command = browser.evaluate("document.querySelector('article pre').textContent").split()
    assert command[:2] == ["beamlib", "replay"] and command[-2:] == ["--data", "FOLDER"]
    done = called(*command[1:-1], str(release))  # type: ignore[operator]
    assert done.returncode == 0 and "the same answer and verdicts" in done.stdout
    done = called("replay", page_run, "100k/nobody", "100K-1-q06")  # type: ignore[operator]
    assert done.returncode == 2 and "no arm '100k/nobody'" in done.stderr


def test_a_question_that_was_sent_as_chat_turns_is_replayed(page_run: Path, release: Path, called: object) -> None:
    done = called("replay", page_run, "100k/full-context", "100K-1-q06", "--data", release)  # type: ignore[operator]
    assert done.returncode == 0 and "the same answer and verdicts" in done.stdout
    found = conversation_data(read_run(page_run, release), "100K-1")
    row = found.answers["answers"]["full-context"]["100K-1-q06"]
    assert row["k"] == found.about["messages"]
    assert f"sent as    {row['k']} chat turns, the question last" in done.stdout


def test_a_folder_without_a_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a folder"):
        read_run(tmp_path / "nothing")


def test_contexts_are_put_together_from_messages_and_lines() -> None:
    messages = {0: "A first message of some length.\nWith a line that a note repeats.", 1: "Thanks!", 2: "x" * 40}
    table = ContextTable(messages)
    contexts = [
        "",
        f"[messages 0-1]\nUSER: {messages[0]}\n\nASSISTANT: {messages[1]}\r\u2028",
        f"- With a line\nWith a line that a note repeats.\nWith a line that a note repeats. {messages[2]}{messages[2]}",
        "With a line that a note repeats.",
    ]
    places = [table.add(context, (0, 1, 2, 9)) for context in contexts]
    assert table.add(contexts[1], ()) == places[1] and len(table.contexts) == len(contexts)
    lines = table.lines(messages)
    for place, context in zip(places, contexts, strict=True):
        assert "".join(_piece(one, messages, lines) for one in table.contexts[place]) == context
    for coded, references in zip(table.coded(), table.contexts, strict=True):
        pairs = [one if isinstance(one, list) else [one, 1] for one in coded]
        assert [n - i if n < 0 else n + i for n, count in pairs for i in range(count)] == references
    assert ContextTable({}).coded() == [] and any(isinstance(one, list) for coded in table.coded() for one in coded)
    held = table.contexts[places[2]]
    assert [0, 1] in lines and held.count(2) == 2 and [0, 1, 0] in lines


def _piece(reference: int, messages: dict[int, str], lines: list[str | list[int]]) -> str:
    line = lines[-1 - reference] if reference < 0 else messages[reference]
    return line if isinstance(line, str) else messages[line[0]].split("\n")[line[1]] + "\n" * (len(line) == 2)


@pytest.mark.slow
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


def test_a_single_conversation_is_named_in_heads_not_in_cells(
    repo_root: Path, release: Path, tmp_path: Path, look: Look
) -> None:
    arms = (Arm(memory="none"), Arm(memory="rag", retriever="bm25", k=3))
    run = run_on(repo_root, release, tmp_path / "run", arms, conversations=1)
    write_page(read_run(run, release))
    page = (run / "index.html").read_text()
    browser = look(run)  # whose scripts fill the cells again
    cells = [*each(browser, "[data-cell]", "one.textContent"), *re.findall(r"<a [^>]*data-cell=.*?</a>", page)]
    assert len(cells) > 30 and not [cell for cell in cells if "n = " in cell]
    heads = each(browser, ".glance thead th, details > summary", "one.textContent")
    assert {"100K (n = 1)", "100K (n = 1), memories"} <= set(heads)
