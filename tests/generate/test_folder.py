"""The released layout: what is written is what our loader reads, and what a hand breaks is one sentence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beam_claims.data_check import CheckReport, check_folder
from beam_generate.dialogue import generate_dialogue
from beam_generate.folder import (
    begin_conversation,
    combine_chats,
    read_plan,
    read_questions,
    read_story,
    read_turns,
    record_stage,
    stage_state,
    write_chat,
    write_plan,
    write_probing_questions,
    write_questions,
    write_story,
)
from beam_generate.people import draw_people
from beam_generate.probes.making import make_probes
from beam_generate.questions import make_questions
from beam_generate.shapes import DialogueTurn, MainQuestion, Plan, Repairs, Story
from beamlib.data.checked_json import Anomaly
from beamlib.data.conversations import Size, Treatment
from beamlib.data.loading import load
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError
from scripted_probes import Scripted, plan, story, turns
from talking_model import LAYOUT, LIMITS, TalkingModel, make_plan, make_story


def generate(folder: Path, story: Story, plan: Plan) -> tuple[list[list[MainQuestion]], list[DialogueTurn]]:
    """Make and write one plan with everything below it."""
    model = TalkingModel()
    questions = asyncio.run(make_questions(model, story, plan, Repairs()))
    turns = asyncio.run(generate_dialogue(model, story, plan, questions, [], LIMITS, Repairs()))
    write_plan(folder, story, plan)
    write_questions(folder, story, plan, questions)
    write_chat(folder, story, plan, turns)
    return questions, turns


def probing() -> dict[str, list[dict[str, Any]]]:
    """Two questions per ability, on messages that exist."""
    return asyncio.run(make_probes(Scripted(), story(), [plan()], [turns()], Repairs())).questions


def remarks(report: CheckReport) -> list[Anomaly]:
    """What is odd about everything but the probing questions, a stub here, without that nothing is a released file."""
    return [one for one in report.anomalies if "probing_questions" not in one.file and one.kind != "file_changed"]


def drawn(story: Story) -> dict[str, Any]:
    return {"size": story.size, "number": story.number, "seed": story.seed, "strategy": story.strategy}


def drawn_story(size: Size = "100K") -> Story:
    """The beekeeper's story with the people that its seed gives."""
    people = draw_people(size, 1, 7)
    profile = replace(people.profile, traits=people.profile.traits, biography="Ada keeps bees.")
    return replace(make_story(size), profile=profile, core=people.core, newcomers=people.newcomers)


def small(tmp_path: Path) -> tuple[Path, Story, Plan, list[list[MainQuestion]], list[DialogueTurn]]:
    folder, story, plan = tmp_path / "100K" / "1", drawn_story(), make_plan()
    begin_conversation(folder, drawn(story), LAYOUT, LIMITS)
    write_story(folder, story)
    questions, turns = generate(folder, story, plan)
    write_probing_questions(folder, probing())
    return folder, story, plan, questions, turns


def test_every_stage_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    folder, story, plan, questions, turns = small(tmp_path)
    assert read_story(folder) == story
    assert read_plan(folder, story) == plan
    assert read_questions(folder, story, plan) == questions
    assert read_turns(folder, story, plan) == turns


def test_keys_stand_in_the_released_order(tmp_path: Path) -> None:
    folder, *_ = small(tmp_path)
    batch = json.loads((folder / "chat.json").read_text())[0]
    assert list(batch) == ["batch_number", "turns", "time_anchor"] and batch["time_anchor"] is None
    first, second = batch["turns"][0], batch["turns"][1]
    assert list(first[0]) == ["role", "id", "time_anchor", "index", "question_type", "content"]
    assert list(first[1]) == ["role", "id", "content"]
    assert list(second[0]) == ["role", "id", "index", "question_type", "content"]
    assert list(second[2]) == ["role", "id", "question_type", "content"]
    assert "->->" not in (folder / "chat.json").read_text() + (folder / "user_messages.json").read_text()
    assert list(json.loads((folder / "topic.json").read_text())) == ["id", "category", "title", "theme", "subtopics"]
    asked = json.loads((folder / "probing_questions" / "probing_questions.json").read_text())
    assert list(asked) == sorted(asked)


def test_ten_plans_are_combined_with_ids_counted_through(tmp_path: Path) -> None:
    folder, story = tmp_path / "10M" / "1", drawn_story("10M")
    begin_conversation(folder, drawn(story), LAYOUT, LIMITS)
    write_story(folder, story)
    said = []
    for index in range(10):
        plan = make_plan(index)
        questions, turns = generate(folder, story, plan)
        said += turns
        assert read_plan(folder, story, index) == plan
        assert read_questions(folder, story, plan) == questions and read_turns(folder, story, plan) == turns
    combine_chats(folder, story)
    write_probing_questions(folder, probing())
    assert read_story(folder) == story
    report = check_folder(tmp_path)
    assert (report.errors, remarks(report)) == ([], [])
    combined = json.loads((folder / "chat.json").read_text())
    assert [list(one) for one in combined] == [[f"plan-{n}"] for n in range(1, 11)]
    ids = [
        m["id"] for one in combined for batches in one.values() for b in batches for turn in b["turns"] for m in turn
    ]
    assert ids == list(range(sum(len(turn.messages) for turn in said)))
    assert json.loads((folder / "plan-3" / "chat.json").read_text())[0]["turns"][0][0]["id"] == 0
    (source,) = find_conversations(tmp_path)
    conversation = load(source, Treatment(chat_variant="full")).conversation
    assert [m.content for m in conversation] == [m.text for turn in said for m in turn.messages]
    markers = [turn.messages[0].marker for turn in conversation.turns]
    assert [marker and marker.bullets for marker in markers] == [(turn.bullet,) for turn in said]
    assert [batch.time_anchor for batch in conversation.batches][:2] == ["March-06-2024", "March-07-2024"]


def replaced(old: str, new: str) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return edit


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("story.json", replaced("{", "["), "JSON"),
        ("topic.json", replaced('"Keeping bees"', "3"), "theme"),
        ("plan_new.txt", replaced("BATCH 2", "BATCH 4"), "batch 2"),
        ("plan_new.txt", replaced("March 6, 2024", "soon"), "batch 1"),
        ("plan_new.txt", replaced("**Hives:**", "**User Instruction:**"), "last ones"),
        ("plan_new.txt", lambda path: path.write_text("hello"), "BATCH"),
        ("labels.txt", lambda path: path.unlink(), "does not exist"),
        ("user_messages.json", replaced('"1,2"', '"1,99"'), "'index' is '1,99'"),
        ("user_messages.json", replaced('"batch": 2', '"batch": 3'), "batches 1 to 2"),
        ("user_messages.json", replaced('"content"', '"contents"'), "content: Field required"),
        ("user_messages.json", lambda path: path.write_text("[]"), "batches 1 to 2"),
        ("chat.json", replaced('"id": 1,', '"id": 0,'), "`id` is 0"),
        ("chat.json", replaced('"assistant"', '"user"'), "role"),
        ("chat.json", lambda path: path.write_text(path.read_text()[:-9]), "JSON"),
    ],
)
def test_what_a_hand_breaks_is_one_sentence(
    name: str, edit: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    folder, story, plan, *_ = small(tmp_path)
    edit(folder / name)
    with pytest.raises(UserError) as caught:
        read_story(folder)
        read_plan(folder, story)
        read_questions(folder, story, plan)
        read_turns(folder, story, plan)
    text = str(caught.value)
    assert name in text and message in text and "\n" not in text, text


# Which stages are complete


def finish(folder: Path, stage: str, name: str, *made_from: str, author: str = "me") -> None:
    with record_stage(folder, stage, made_from, {"author": author}) as files:
        (folder / name).write_text(f"{stage} of {[(folder / one).read_text() for one in made_from]}")
        files.append(folder / name)


def states(folder: Path) -> dict[str, str]:
    return {stage: stage_state(folder, stage) for stage in ("plan", "talk")}


def test_a_stage_is_done_edited_stale_or_missing(tmp_path: Path) -> None:
    begin_conversation(tmp_path, {"size": "100K", "seed": 7}, LAYOUT, LIMITS)
    assert stage_state(tmp_path, "plan") == "missing"
    finish(tmp_path, "plan", "plan_new.txt")
    finish(tmp_path, "talk", "chat.json", "plan_new.txt")
    assert states(tmp_path) == {"plan": "done", "talk": "done"}
    assert stage_state(tmp_path, "talk", {"author": "me"}) == "done"
    assert stage_state(tmp_path, "talk", {"author": "you"}) == "stale"
    (tmp_path / "plan_new.txt").write_text("by hand")
    assert states(tmp_path) == {"plan": "edited", "talk": "stale"}
    assert stage_state(tmp_path, "plan", {"author": "you"}) == "edited"
    finish(tmp_path, "talk", "chat.json", "plan_new.txt")
    assert states(tmp_path) == {"plan": "edited", "talk": "done"}
    (tmp_path / "chat.json").unlink()
    assert stage_state(tmp_path, "talk") == "missing"


def test_a_stage_that_is_interrupted_is_missing_and_not_edited(tmp_path: Path) -> None:
    begin_conversation(tmp_path, {"seed": 7}, LAYOUT, LIMITS)
    finish(tmp_path, "plan", "plan_new.txt")
    with pytest.raises(RuntimeError), record_stage(tmp_path, "plan", (), {}) as files:
        files.append(tmp_path / "plan_new.txt")
        (tmp_path / "plan_new.txt").write_text("half of the new one")
        raise RuntimeError
    assert stage_state(tmp_path, "plan") == "missing"


def test_a_folder_of_another_conversation_is_refused(tmp_path: Path) -> None:
    begin_conversation(tmp_path, {"size": "100K", "seed": 7}, LAYOUT, LIMITS)
    begin_conversation(tmp_path, {"size": "100K", "seed": 7}, LAYOUT, LIMITS)
    with pytest.raises(UserError, match=r"generation\.json: .*another seed"):
        begin_conversation(tmp_path, {"size": "100K", "seed": 8}, LAYOUT, LIMITS)
