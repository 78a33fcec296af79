"""The dialogue's loop, its memory, and that it goes on after a kill as if nothing had happened."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from beam_generate.dialogue import JournalEntry, generate_dialogue
from beam_generate.history import USER, HistoryWindow, Lazy, Side, Talk
from beam_generate.journal import Journal, fingerprint
from beam_generate.layouts import answer_words
from beam_generate.messages import leaks, tidy
from beam_generate.questions import make_questions
from beam_generate.shapes import DialogueMessage, DialogueTurn, Limits, MainQuestion, Reach, Repairs
from beamlib.errors import UserError
from beamlib.llm.model import ModelError, Outcome, Prompt
from beamlib.llm.prompts import prompt_file
from beamlib.text import count_tokens
from talking_model import LIMITS, TalkingModel, make_plan, make_story

STORY, PLAN = make_story(), make_plan(subplans=3)
BATCH = replace(LIMITS, reach="batch")
QUESTIONS = asyncio.run(make_questions(TalkingModel(), STORY, PLAN, Repairs()))


def talk(
    model: TalkingModel, repairs: Repairs | None = None, limits: Limits = LIMITS, **more: object
) -> list[DialogueTurn]:
    held = generate_dialogue(model, STORY, PLAN, QUESTIONS, ["Ada moved."], limits, repairs or Repairs(), **more)  # type: ignore[arg-type]
    return asyncio.run(held)


def kinds(turn: DialogueTurn) -> list[str | None]:
    return [message.kind for message in turn.messages if message.role == "user"]


# The loop


def test_turns_alternate_and_questions_and_follow_ups_come_where_they_are_due() -> None:
    model, repairs = TalkingModel(), Repairs()
    turns = talk(model, repairs)
    assert len(turns) == sum(map(len, QUESTIONS)) and not repairs.entries
    for turn in turns:
        assert [message.role for message in turn.messages] == ["user", "assistant"] * (len(turn.messages) // 2)
    assert {tuple(kinds(turn)) for turn in turns} == {
        ("main_question",),
        ("main_question", "followup_question"),
        ("main_question", "answer_ai_question"),
    }
    assert model.calls["detect_question"] == model.calls["detect_followup"] == len(turns) + 3
    assert [turn.bullet for turn in turns[:7]] == [question.bullet for question in QUESTIONS[0]]


def test_a_speaker_who_never_stops_is_stopped_after_two_and_two() -> None:
    model = TalkingModel(lambda prompt, text: "yes" if prompt.id.startswith("detect") else text)
    for turn in talk(model):
        assert kinds(turn) == ["main_question", *["answer_ai_question"] * 2, *["followup_question"] * 2]
    turns = sum(map(len, QUESTIONS))
    assert model.calls["detect_question"] == model.calls["user_reply"] == 2 * turns
    assert model.calls["assistant_answer"] == 5 * turns


@pytest.mark.parametrize(("replies", "followups"), [(0, 0), (1, 3), (3, 0)])
def test_other_bounds_are_kept(replies: int, followups: int) -> None:
    model = TalkingModel(lambda prompt, text: "yes" if prompt.id.startswith("detect") else text)
    turns = talk(model, limits=replace(LIMITS, replies=replies, followups=followups))
    expected = ["main_question", *["answer_ai_question"] * replies, *["followup_question"] * followups]
    assert all(kinds(turn) == expected for turn in turns)
    assert model.calls["detect_question"] == replies * len(turns)  # a bound of zero asks no detector
    assert model.calls["detect_followup"] == followups * len(turns)


@pytest.mark.parametrize("habit", [0.7, 1.0, 1.4])
def test_a_model_that_writes_too_little_or_too_much_is_asked_to_make_up_for_it(habit: float) -> None:
    def say(prompt: Prompt, text: str) -> str:
        if prompt.id != "assistant_answer":
            return text
        return "so it, " * int(habit * int(prompt.variables["words"]) / 2)  # 0.66 words to a token, as in prose

    turns = talk(TalkingModel(say), limits=BATCH)
    assert answer_words(STORY, 7, []) % 50 == 0
    budget = 128_000 / STORY.layout.subplans
    for number in (1, 2, 3):
        spoken = sum(count_tokens(said.text) for turn in turns if turn.batch == number for said in turn.messages)
        assert spoken == pytest.approx(budget, rel=0.15)


def test_detectors_are_shown_recent_messages_within_the_users_budget_and_the_summary_before_them() -> None:
    shown: list[Mapping[str, str]] = []

    def say(prompt: Prompt, text: str) -> str:
        if prompt.id == "dialogue_summary":
            return "the summary up to now"
        if prompt.id == "assistant_answer":
            return f"{text} {len(shown)} " + "so it is " * 700
        if prompt.id.startswith("detect"):
            shown.append(dict(prompt.variables))
            return "no"
        return text

    talk(TalkingModel(say))
    assert all(count_tokens(told["history"]) < USER.budget for told in shown)
    assert [told["summary"] for told in shown] == sorted(told["summary"] for told in shown)
    assert {told["summary"] for told in shown} == {"", "the summary up to now"}
    assert all(told["answer"] not in told["history"] for told in shown)


def test_every_prompt_shows_what_it_must_and_renders() -> None:
    seen: dict[str, Prompt] = {}

    def say(prompt: Prompt, text: str) -> str:
        assert set(prompt.variables) == set(prompt_file(prompt.id).variables)
        if "sub-plan 2" in prompt.about:
            seen[prompt.id] = prompt
        return "yes" if prompt.id.startswith("detect") else text

    talk(TalkingModel(say))
    shown = {name: prompt.messages[-1]["content"] for name, prompt in seen.items()}
    assert set(shown) == {"assistant_answer", "detect_question", "user_reply", "detect_followup", "user_followup"}
    assert all("plan 0 hive 1" in shown[name] for name in ("assistant_answer", "user_reply", "user_followup"))
    assert "Ada moved." in shown["assistant_answer"] and "Ada Quill" not in shown["assistant_answer"]
    assert "Ada keeps bees." in shown["user_reply"] and "hive 2 weighs 5" in shown["user_reply"]
    for name in ("assistant_answer", "user_reply", "user_followup"):
        recent = seen[name].variables["history"]
        assert "USER: " in recent and recent in shown[name]
    reply = seen["user_reply"].variables
    assert reply["answer"] not in reply["history"] and reply["history"].rpartition("\n\n")[2].startswith("USER: ")


@pytest.mark.parametrize("reach", ["conversation", "batch"])
def test_the_window_runs_on_or_begins_anew_with_each_sub_plan(reach: Reach) -> None:
    first: list[str] = []

    def say(prompt: Prompt, text: str) -> str:
        if prompt.id == "assistant_answer" and prompt.about.endswith("sub-plan 2, question 1"):
            first.append(prompt.variables["history"])
        return text

    talk(TalkingModel(say), limits=replace(LIMITS, reach=reach))
    assert first and bool(first[0]) == (reach == "conversation")


# Replies that cannot be used as they came


@pytest.mark.parametrize("reply", ["Perhaps.", "", "I would say yes", "Yesterday"])
def test_a_detector_that_cannot_decide_is_asked_again_then_taken_for_no(reply: str) -> None:
    model = TalkingModel(
        lambda prompt, text: reply if prompt.id == "detect_question" else "no" if "detect" in prompt.id else text
    )
    repairs = Repairs()
    turns = talk(model, repairs)
    assert model.calls["detect_question"] == 2 * len(turns) == len(repairs.entries)
    assert not model.calls["user_reply"]


@pytest.mark.parametrize("reply", ["YES", "yes, it does", '"Yes"', "**yes**\n", "- Yes."])
def test_a_yes_in_any_dress_is_one(reply: str) -> None:
    model = TalkingModel(lambda prompt, text: reply if prompt.id == "detect_followup" else text)
    assert all(kinds(turn)[-2:] == ["followup_question"] * 2 for turn in talk(model))


def refusing(prompt_id: str, about: str, outcome: Outcome = Outcome.REFUSED) -> TalkingModel:
    def say(prompt: Prompt, text: str) -> str:
        if prompt.id == prompt_id and about in prompt.about:
            raise ModelError("not that", outcome)
        return "yes" if prompt.id == "detect_followup" else text

    return TalkingModel(say)


def test_a_question_without_an_answer_is_dropped_and_noted() -> None:
    repairs = Repairs()
    turns = talk(refusing("assistant_answer", "sub-plan 2, question 3"), repairs)
    assert len(turns) == sum(map(len, QUESTIONS)) - 1
    assert QUESTIONS[1][2].text not in [turn.messages[0].text for turn in turns]
    assert [done for *_, done in repairs.entries][-1] == "the turn is dropped"


def test_a_follow_up_that_fails_ends_the_turn_after_its_last_answer() -> None:
    repairs = Repairs()
    turns = talk(refusing("user_followup", "sub-plan 2, question 3"), repairs)
    assert len(turns) == sum(map(len, QUESTIONS)) and len(repairs.entries) == 1
    assert sorted(len(turn.messages) for turn in turns)[:2] == [4, 6]  # question 3 got a reply before


def test_a_sub_plan_that_loses_too_much_stops_the_run_with_one_sentence() -> None:
    with pytest.raises(UserError, match=r"plan 0, sub-plan 2: 6 of 7 turns .*not that.*role speaker") as caught:
        talk(refusing("assistant_answer", "sub-plan 2"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("Weigh it. ->-> 3,8", "Weigh it."), ("Weigh it ->-> N/A", "Weigh it"), ("ASSISTANT: Weigh it.", "Weigh it."),
        ("**Assistant:** Weigh it.", "Weigh it."), ("\ud800Weigh\x00 it.", "\ufffdWeigh it."),
    ],
)  # fmt: skip
def test_what_does_not_belong_into_a_message_is_taken_out(reply: str, kept: str) -> None:
    model = TalkingModel(lambda prompt, text: reply if prompt.id == "assistant_answer" else "no")
    repairs = Repairs()
    assert {turn.messages[1].text for turn in talk(model, repairs)} == {kept}
    assert bool(repairs.entries) == ("->->" in reply or ":" in reply)


def test_a_user_message_loses_quotation_marks_and_an_answer_keeps_them() -> None:
    assert tidy('"Yes, in May"', quoted=True)[0] == "Yes, in May"
    assert tidy('"May" and "June"', quoted=True)[0] == '"May" and "June"'
    assert tidy('"Yes, in May"', quoted=False)[0] == '"Yes, in May"'


def test_a_message_that_repeats_its_prompt_is_asked_for_again_then_cleaned() -> None:
    line = next(one for one in prompt_file("assistant_answer").template.split("\n") if one.startswith("- Keep"))
    assert leaks(f"Well.\n{line}", "assistant_answer") and not leaks("A wish about <summary> tags", "assistant_answer")
    for stubborn in (False, True):

        def say(prompt: Prompt, text: str, stubborn: bool = stubborn) -> str:
            if prompt.id == "assistant_answer" and (stubborn or not prompt.attempt):
                return f"{line}\n</said_before>\nWeigh it."
            return "Weigh it." if prompt.id == "assistant_answer" else "no"

        repairs = Repairs()
        turns = talk(TalkingModel(say), repairs)
        assert {turn.messages[1].text.strip("- \n") for turn in turns} == {"Weigh it."}
        assert len(repairs.entries) == len(turns) * (2 if stubborn else 1)


# Memory


def test_a_full_window_keeps_ten_messages_and_folds_the_rest() -> None:
    talk_, seen = Talk(), []

    def say(prompt: Prompt, text: str) -> str:
        seen.append(dict(prompt.variables))
        return f"summary {len(seen)}"

    window, repairs = HistoryWindow(talk_, Side("assistant", 1_000, 50), LIMITS.recent), Repairs()
    for number in range(60):
        talk_.add(
            [DialogueMessage("user", f"word{number} " * 20), DialogueMessage("assistant", f"answer{number} " * 20)]
        )
        asyncio.run(window.make_room(TalkingModel(say), repairs, "here"))
        shown = window.text()()
        assert f"answer{number}" in shown and shown.count("USER: ") >= LIMITS.recent // 2 - (number < 4) * 5
        assert len(shown.split()) <= 1_000 + 60
    assert 2 <= len(seen) <= 4 and not repairs.entries
    assert seen[1]["summary"] == "summary 1" and "word0 " in seen[0]["exchanges"]
    assert "word0 " not in seen[1]["exchanges"]
    told = " ".join(one["exchanges"] for one in seen) + window.text()()
    assert all(f"word{number} " in told for number in range(60))


@pytest.mark.parametrize("recent", [2, 6])
def test_as_many_messages_stay_word_for_word_as_are_asked_for(recent: int) -> None:
    talk_ = Talk()
    window = HistoryWindow(talk_, Side("assistant", 1_000, 50), recent)
    for number in range(40):
        talk_.add([DialogueMessage("user", f"word{number} " * 40)])
    asyncio.run(window.make_room(TalkingModel(), Repairs(), "here"))
    assert window.text()().count("USER: ") == recent


def test_a_runaway_answer_is_shown_in_part_and_a_long_summary_is_cut() -> None:
    talk_ = Talk()
    window, repairs = HistoryWindow(talk_, Side("assistant", 1_000, 50), LIMITS.recent), Repairs()
    talk_.add([DialogueMessage("user", "hello"), DialogueMessage("assistant", "long " * 50_000)] * 12)
    asyncio.run(window.make_room(TalkingModel(lambda prompt, text: "much " * 200), repairs, "here"))
    assert len(window.text()().split()) < 1_000
    assert len(window.fold.summary.split()) == 50 and len(repairs.entries) == 1


def test_a_summary_that_fails_leaves_the_old_one() -> None:
    def say(prompt: Prompt, text: str) -> str:
        raise ModelError("no", Outcome.FILTERED)

    talk_ = Talk()
    window, repairs = HistoryWindow(talk_, Side("user", 100, 50), LIMITS.recent), Repairs()
    talk_.add([DialogueMessage("user", f"word {n} " * 20) for n in range(12)])
    asyncio.run(window.make_room(TalkingModel(say), repairs, "here"))
    assert window.fold.summary == "" and window.fold.start == 2 and len(repairs.entries) == 1


def test_variables_are_made_when_read_once_and_as_they_were() -> None:
    made = itertools.count()
    lazy: Mapping[str, str] = Lazy({"plain": "x", "costly": lambda: f"made {next(made)}"})
    assert set(lazy) == {"plain", "costly"} and lazy["plain"] == "x" and next(made) == 0
    assert lazy["costly"] == lazy["costly"] == "made 1"
    talk_ = Talk()
    window = HistoryWindow(talk_, Side("user", 100, 50), LIMITS.recent)
    talk_.add([DialogueMessage("user", "one")])
    before = window.text()
    talk_.add([DialogueMessage("assistant", "two")])
    assert before() == "USER: one"


# Going on after an interruption


def outcome(folder: Path, model: TalkingModel) -> tuple[list[DialogueTurn], Repairs]:
    repairs = Repairs()
    with closing(Journal(folder / "talk.jsonl", fingerprint(model.name, PLAN), repairs)) as journal:
        before = [JournalEntry.from_json(value) for value in journal.entries]
        turns = talk(model, repairs, said_before=before, keep=lambda entry: journal.append(entry.to_json()))
    return turns, repairs


def wordy(limit: int = 10**9) -> TalkingModel:
    """Long answers, so that windows fold; the endpoint goes away after `limit` calls."""
    calls = itertools.count()

    def say(prompt: Prompt, text: str) -> str:
        if next(calls) >= limit:
            raise ModelError("gone", Outcome.UNAVAILABLE)
        if prompt.id == "dialogue_summary":
            return f"Up to now {len(prompt.variables['exchanges'])} and {prompt.variables['summary'][-80:]}"
        if prompt.id == "assistant_answer":
            tail = prompt.variables["history"][-30:].split() + prompt.variables["summary"].split()
            return f"{text} {len(prompt.variables['history'])} {tail[-1:]} " + "so it is " * 700 + "\u00e9"
        return "odd" if prompt.id == "detect_question" and "question 2" in prompt.about else text

    return TalkingModel(say)


def test_stopping_anywhere_and_going_on_gives_the_same_and_asks_nothing_twice(tmp_path: Path) -> None:
    model = wordy()
    whole, noted = outcome(tmp_path / "whole", model)
    assert model.calls["dialogue_summary"] >= 2 and noted.entries
    total = model.calls.total()
    for limit in range(1, total, 7):
        folder, spent = tmp_path / str(limit), 0
        model = wordy(limit)
        with pytest.raises(ModelError):
            outcome(folder, model)
        model = wordy()
        spent = limit + model.calls.total()
        turns, repairs = outcome(folder, model)
        assert (turns, repairs.entries) == (whole, noted.entries)
        assert spent + model.calls.total() <= total + 12  # at most the unfinished turn's calls twice
    model = wordy()
    assert outcome(tmp_path / "whole", model)[0] == whole and not model.calls


CHILD = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
import test_dialogue
model = test_dialogue.wordy()
plain = model.say
def say(prompt, text):
    if prompt.about.endswith("sub-plan 2, question 4"):
        print("here", flush=True)
        sys.stdin.readline()
    return plain(prompt, text)
model.say = say
test_dialogue.outcome(Path({folder!r}), model)
"""


def test_a_killed_process_loses_only_the_turn_it_was_at(tmp_path: Path, repo_root: Path) -> None:
    paths = [str(repo_root / name) for name in (".", "packages", "tests", "tests/generate")]
    code = CHILD.format(paths=paths, folder=str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "here\n"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    path = tmp_path / "talk.jsonl"
    assert len(path.read_bytes().splitlines()) == 1 + 7 + 3
    path.write_bytes(path.read_bytes() + b'{"batch":2,"quest')  # what a full disk or a power cut leaves behind
    turns, repairs = outcome(tmp_path, wordy())
    whole, noted = outcome(tmp_path / "whole", wordy())
    assert turns == whole
    assert [one for one in repairs.entries if one[0] == "dialogue"] == noted.entries
    assert [one[2] for one in repairs.entries if one[0] == "journal"] == ["line 12 is cut off or damaged"]


def test_a_journal_that_rests_on_something_else_is_begun_anew(tmp_path: Path) -> None:
    repairs = Repairs()
    for rests_on, held in (("one", []), ("one", [{"a": 1}]), ("two", []), ("two", [{"a": 1}])):
        with closing(Journal(tmp_path / "x.jsonl", rests_on, repairs)) as journal:
            assert journal.entries == held
            if not held:
                journal.append({"a": 1})
    assert [one[3] for one in repairs.entries] == ["begun anew"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="cannot be used"):
        Journal(tmp_path / "folder", "one", repairs)


def test_an_entry_comes_back_from_json_as_it_was() -> None:
    kept: list[JournalEntry] = []
    talk(wordy(), keep=kept.append)
    assert any(entry.assistant for entry in kept) and any(entry.notes for entry in kept)
    assert [JournalEntry.from_json(json.loads(json.dumps(entry.to_json()))) for entry in kept] == kept


def test_the_released_reach_gives_the_same_after_an_interruption(tmp_path: Path) -> None:
    kept: list[JournalEntry] = []
    with pytest.raises(ModelError):
        talk(wordy(60), limits=BATCH, keep=kept.append)
    repairs, expected = Repairs(), Repairs()
    assert kept
    turns = talk(wordy(), repairs, limits=BATCH, said_before=kept)
    assert turns == talk(wordy(), expected, limits=BATCH) and repairs.entries == expected.entries
    assert all(isinstance(question, MainQuestion) for batch in QUESTIONS for question in batch)
