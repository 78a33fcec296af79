"""The stages together: killed and resumed, edited by hand, reviewed, and written by a model behind a real server."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from beamlib.errors import UserError
from beamlib.generate.casting import Writing
from beamlib.generate.folder import read_turns
from beamlib.generate.pipeline import (
    DECISIONS,
    JOURNAL,
    Commission,
    finished,
    make_dialogue_of_plan,
    make_plan_stage,
    make_probe_stage,
    make_question_stage,
)
from beamlib.generate.plan_files import read_plan, read_story
from beamlib.generate.review import Decision, write_decisions
from beamlib.generate.stages import stage_state

COMMISSION = Commission("100K", 1, 5, "Trip Planning")
OFFLINE = Writing()


def made(out: Path, commission: Commission = COMMISSION, writing: Writing = OFFLINE) -> Path:
    folder = commission.begin(out)
    make_plan_stage(commission, folder, writing)
    make_question_stage(folder, writing)
    make_dialogue_of_plan(folder, 0, writing)
    make_probe_stage(folder, writing)
    return folder


def contents(folder: Path) -> dict[str, str]:
    """Hashes of everything but the store of calls, whose pages depend on the order of arrival."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "calls" not in path.name)
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("whole"))


def copied(whole: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "100K" / "1"
    for path in whole.rglob("*"):
        if path.is_file():
            target = folder / path.relative_to(whole)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return folder


def test_what_is_finished_is_not_done_again(whole: Path) -> None:
    before = contents(whole)
    assert finished(whole)
    assert not make_plan_stage(COMMISSION, whole, OFFLINE)
    assert not make_question_stage(whole, OFFLINE)
    assert not make_dialogue_of_plan(whole, 0, OFFLINE)
    assert not make_probe_stage(whole, OFFLINE)
    assert contents(whole) == before


def test_nothing_of_another_conversation_is_overwritten(whole: Path) -> None:
    other = Commission("100K", 1, 6, "Trip Planning")
    with pytest.raises(UserError, match="another seed") as raised:
        other.begin(whole.parents[1])
    assert str(whole) in str(raised.value)


def test_a_generation_that_is_killed_again_and_again_ends_in_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "beamlib.cli", "generate", "--out", str(tmp_path), "--seed", "5"]
    command += ["--domain", "Trip Planning", "--workers", "1"]
    folder = tmp_path / "100K" / "1"
    seen_journal = False
    for patience in (0.0, 0.15, 0.3):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline and not (folder / JOURNAL).exists():
            time.sleep(0.005)
        time.sleep(patience)
        seen_journal |= (folder / JOURNAL).exists()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert seen_journal, "no kill fell into the dialogue"
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert contents(folder) == contents(whole)


def test_an_edited_plan_is_kept_and_everything_after_it_is_made_anew(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, tmp_path)
    plan = folder / "plan_new.txt"
    story = read_story(folder)
    bullet = next(b for b in read_plan(folder, story).subplans[0].bullets if b.label.endswith("Thoughts"))
    plan.write_text(plan.read_text().replace(bullet.text, "My cousin keeps a heron on the balcony."))
    assert stage_state(folder, "plans") == "edited"
    assert not make_plan_stage(COMMISSION, folder, OFFLINE)
    assert make_question_stage(folder, OFFLINE)
    assert make_dialogue_of_plan(folder, 0, OFFLINE)
    assert make_probe_stage(folder, OFFLINE)
    assert "heron on the balcony" in plan.read_text()
    turns = read_turns(folder, story, read_plan(folder, story))
    told = [turn for turn in turns if "heron on the balcony" in turn.messages[0].text]
    assert len(told) == 1
    assert told[0].bullet == bullet.number
    assert len(told[0].messages[1].text) > 200


def test_an_edited_message_is_answered_too(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, tmp_path)
    path = folder / "user_messages.json"
    value = json.loads(path.read_text())
    value[1]["messages"][2]["content"] = "Which shoes would you take if it were only for one week?"
    path.write_text(json.dumps(value))
    assert make_dialogue_of_plan(folder, 0, OFFLINE)
    story = read_story(folder)
    turns = read_turns(folder, story, read_plan(folder, story))
    told = next(turn for turn in turns if turn.messages[0].text.startswith("Which shoes would you take"))
    assert len(told.messages[1].text) > 200


def test_a_reviewers_decisions_are_honoured_by_a_rerun(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, tmp_path)
    candidates = json.loads((folder / "candidates.json").read_text())
    mine = [c for c in candidates if c["ability"] == "information_extraction" and not c["dropped"]]
    rejected = next(c for c in mine if c["chosen"])
    accepted = next(c for c in mine if not c["chosen"])
    decisions = [Decision(rejected["id"], "reject", "first", {}), Decision(accepted["id"], "accept", "first", {})]
    write_decisions(folder / DECISIONS, decisions)
    assert make_probe_stage(folder, OFFLINE)
    chosen = json.loads((folder / "probing_questions/probing_questions.json").read_text())["information_extraction"]
    questions = [entry["question"] for entry in chosen]
    assert accepted["question"] in questions
    assert rejected["question"] not in questions
    assert not make_probe_stage(folder, OFFLINE)


@pytest.mark.parametrize("name", ["user_messages.json", "chat.json", "topic.json", "story.json"])
def test_a_damaged_file_is_one_sentence_that_names_it(whole: Path, tmp_path: Path, name: str) -> None:
    folder = copied(whole, tmp_path)
    (folder / name).write_bytes((folder / name).read_bytes()[:-40] + b"\x00 not what it was")
    with pytest.raises(UserError) as raised:
        make_question_stage(folder, OFFLINE)
        make_dialogue_of_plan(folder, 0, OFFLINE)
        make_probe_stage(folder, OFFLINE)
        read_story(folder)
        read_turns(folder, read_story(folder), read_plan(folder, read_story(folder)))
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)
