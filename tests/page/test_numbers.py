"""The page recomputes what it prints: equal to Python under every protocol, and a tampered verdict shows."""

from __future__ import annotations

import json
import math
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from beam_page.building import write_page
from beam_page.data_files import read_data, write_data
from beam_page.run_folder import read_run
from beamlib.data.gold import ABILITIES
from beamlib.files import write_jsonl
from beamlib.scoring.intervals import EXACT_UP_TO
from beamlib.scoring.protocols import PROTOCOLS
from beamlib.scoring.records import Alignment, Judgement, NuggetVerdict, RepeatJudgement
from beamlib.scoring.scores import score_run
from page_views import Look, go, text_of

CONVERSATIONS = {"100K": 15, "500K": 3, "1M": 1}
REPLIES = (
    '{{"score": {0}, "reason": "so"}}', '```json\n{{"score": {0}}}\n```', "the score is {0}", '{{"score": "{0}"}}',
    '{{"score": {0}, }}', "[{0}]", '{{"score": true}}', "", '{{"score": 7}}',
)  # fmt: skip
NUGGETS = ("an event", "an event", "another", "The events are listed in the correct chronological order", "a fourth")


def made_up(seed: int) -> list[dict[str, Any]]:
    """Judgements of every kind: repeats, failures, half credit, orders, equal lines, replies that nobody can read."""
    draw = random.Random(seed)
    found = []
    for size, count in CONVERSATIONS.items():
        for number in range(1, count + 1):
            for place in range(20):
                ability = ABILITIES[place // 2]
                judged = [
                    _round(draw, ability, tuple(draw.sample(NUGGETS, 3))) for _ in range(draw.choice((1, 1, 2, 3)))
                ]
                nuggets = [verdict.nugget for verdict in judged[0].verdicts]
                repeats = [one for one in judged[1:] if [verdict.nugget for verdict in one.verdicts] == nuggets]
                one = Judgement(
                    probe_id=f"{size}-{number}-q{place:02d}",
                    conversation_id=f"{size}-{number}",
                    ability=ability,
                    **dict(judged[0]),
                    repeats=tuple(repeats),
                )
                found.append(one.model_dump(mode="json"))
    return found


def _round(draw: random.Random, ability: str, nuggets: tuple[str, ...]) -> RepeatJudgement:
    if draw.random() < 0.05:
        return RepeatJudgement(verdicts=(), unscored="no answer: timeout: it was late")
    clean = draw.random() < 0.9
    verdicts = []
    for nugget in nuggets:
        score = draw.choice((0.0, 0.5, 1.0, 1.0)) if draw.random() > 0.02 else None
        reply = REPLIES[0] if clean else draw.choice(REPLIES)
        reason = "refusal: no" if score is None else ""
        verdicts.append(NuggetVerdict(nugget=nugget, score=score, reason=reason, reply=reply.format(score)))
    if ability != "event_ordering":
        return RepeatJudgement(verdicts=tuple(verdicts))
    if draw.random() < 0.1:
        return RepeatJudgement(verdicts=tuple(verdicts), unscored="the order could not be read")
    sides = [_alignment(draw, parser, len(nuggets)) for parser in ("items", "newline")]
    return RepeatJudgement(verdicts=tuple(verdicts), alignments=tuple(sides))


def _alignment(draw: random.Random, parser: Any, nuggets: int) -> Alignment:
    lines = [draw.choice(("a line", "another", "an event", "")) for _ in range(draw.randrange(5))]
    left = list(range(nuggets))
    draw.shuffle(left)
    matches = [left.pop() if left and draw.random() < 0.6 else None for _ in lines]
    return Alignment(parser=parser, items=tuple(lines), matches=tuple(matches))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An imported run of two arms that nothing but numbers are known of, with its page."""
    run = tmp_path_factory.mktemp("drawn") / "run"
    for seed in (1, 2):
        write_jsonl(run / "imported" / f"arm-{seed}" / "judgements.jsonl", made_up(seed))
    write_page(read_run(run), claims=False)
    return run


def test_every_question_has_the_score_and_the_reason_that_python_gives(drawn: Path, look: Look) -> None:
    browser = look(drawn, "#/list")
    for arm in read_run(drawn).arms:
        for protocol in PROTOCOLS:
            ours = score_run(arm.judgements, protocol).set_index("probe_id")
            found = browser.evaluate(f"beamScores({json.dumps(arm.series)}, '{protocol}')")
            assert len(found) == len(ours)
            for probe, value, why in found:
                expected = ours.loc[probe, "score"]
                assert (value is None) == math.isnan(expected), (protocol, probe)
                assert value is None or math.isclose(value, expected, rel_tol=0, abs_tol=1e-12), (protocol, probe)
                assert why == ours.loc[probe, "unscored"], (protocol, probe)


def test_every_number_follows_on_drawn_verdicts_and_on_a_run(drawn: Path, page_run: Path, look: Look) -> None:
    for run in (drawn, page_run):
        result = look(run).evaluate("beamVerify()")
        assert result["wrong"] == []
        assert result["checked"] > 200 and set(PROTOCOLS) < set(result["protocols"])
        print(f"checked {result['checked']} numbers in {result['milliseconds']} ms")


def test_a_tampered_verdict_shows_under_every_protocol(page_run: Path, tmp_path: Path, look: Look) -> None:
    run = tmp_path / "run"
    shutil.copytree(page_run, run)
    index = read_data(run / "page" / "run.js")
    cells = index["cells"]["oracle"]
    probe = next(key for key, cell in cells.items() if set(cell["j"][0]["v"]) == {2} and "o" not in cell["j"][0])
    cells[probe]["j"][0]["v"] = [0] * len(cells[probe]["j"][0]["v"])
    write_data(run, "run", index)
    browser = look(run)
    wrong = [one for one in browser.evaluate("beamVerify()")["wrong"] if " against " not in one["series"]]
    assert {one["protocol"] for one in wrong} == set(PROTOCOLS)
    assert {one["series"] for one in wrong} == {"oracle"}
    browser.evaluate("document.querySelector('button.check').click()")
    browser.wait("document.querySelector('.verdict').textContent")
    red = browser.evaluate("[...document.querySelectorAll('[data-cell].wrong')].map((one) => one.dataset.cell)")
    assert len(red) >= 2 and {json.loads(one)[1] for one in red} == {"oracle"}
    ground = "getComputedStyle(document.querySelector('[data-cell].wrong')).backgroundColor"
    assert browser.evaluate(ground) == "rgb(179, 18, 12)"
    go(browser, f"#/q/{probe}?arms=oracle&gold=1")
    assert "the reply says 1" in text_of(browser, ".nuggets td.wrong")


def test_scores_without_verdicts_are_averaged_as_they_are(drawn: Path, tmp_path: Path, look: Look) -> None:
    """Of a published run there may be a score per question and nothing that it could be recomputed from."""
    run = tmp_path / "run"
    shutil.copytree(drawn, run)
    index = read_data(run / "page" / "run.js")
    (arm,) = (one for one in read_run(drawn).arms if one.name == "arm-1")
    rows = {name: score_run(arm.judgements, name).set_index("probe_id") for name in PROTOCOLS}
    for probe, cell in index["cells"]["imported/arm-1"].items():
        values = {name: (frame.loc[probe, "score"], frame.loc[probe, "unscored"]) for name, frame in rows.items()}
        cell["j"] = [{"v": [], "x": {name: [None if why else one, why] for name, (one, why) in values.items()}}]
    write_data(run, "run", index)
    browser = look(run)
    assert browser.evaluate("beamVerify()")["wrong"] == []
    go(browser, "#/q/100K-1-q06?arms=imported%2Farm-1&gold=1")
    assert "tells no verdict for each nugget" in text_of(browser, "article")


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_tampered_number_shows(drawn: Path, tmp_path: Path, look: Look, place: int) -> None:
    """The mean, an end of its interval, a count: by one in its last digit."""
    run = tmp_path / "run"
    shutil.copytree(drawn, run)
    index = read_data(run / "page" / "run.js")
    numbers = index["headlines"]["paper"]["full"]["imported/arm-2"]["100K"]["average"]
    held = numbers[place]
    step = {0: "0.001", 1: "0.01"}.get(place)
    numbers[place] = f"{float(held) + float(step):.{len(step) - 2}f}" if step else held + 1
    write_data(run, "run", index)
    wrong = look(run).evaluate("beamVerify()")["wrong"]
    assert [(one["series"], one["size"], one["ability"]) for one in wrong] == [("imported/arm-2", "100K", "average")]


def test_a_tampered_p_of_drawn_signs_shows(drawn: Path, tmp_path: Path, look: Look) -> None:
    run = tmp_path / "run"
    shutil.copytree(drawn, run)
    index = read_data(run / "page" / "run.js")
    row = index["best"]["paper"]["full"]["100K"]["against"][0]
    assert row[5] > EXACT_UP_TO
    row[4] = f"{float(row[4]) + 0.001:.3f}"
    write_data(run, "run", index)
    (wrong,) = look(run).evaluate("beamVerify()")["wrong"]
    assert wrong["size"] == "100K" and wrong["series"].endswith(f" against {row[0]}")
