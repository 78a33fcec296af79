"""The dialogue's loop, replies that cannot be used, and what the speakers remember."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from beam_generate.dialogue import EARLIER, HistoryWindow, Side, Talk, answer_words, generate_dialogue
from beam_generate.people import render_profile
from beam_generate.plan_text import bullet_lines, earlier_subplans
from beam_generate.questions import make_questions
from beam_generate.replies import repeats_prompt
from beam_generate.seeds import render_topic
from beam_generate.shapes import DialogueMessage, DialogueTurn, Limits, Reach, Repairs
from beamlib.errors import UserError
from beamlib.llm.model import ModelError, Outcome, Prompt
from beamlib.llm.prompts import prompt_file
from beamlib.text import count_tokens
from talking_model import LIMITS, TalkingModel, make_plan, make_story

STORY, PLAN = make_story(), make_plan(subplans=3)
BATCH = replace(LIMITS, reach="batch")
QUESTIONS = asyncio.run(make_questions(TalkingModel(), STORY, PLAN, Repairs()))


def talk(model: TalkingModel, repairs: Repairs | None = None, limits: Limits = LIMITS) -> list[DialogueTurn]:
    return asyncio.run(generate_dialogue(model, STORY, PLAN, QUESTIONS, ["Ada moved."], limits, repairs or Repairs()))


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


@pytest.mark.parametrize(("replies", "followups"), [(0, 0), (1, 3), (3, 0), (2, 2)])
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


@pytest.mark.parametrize("wordy", [1, 400])
def test_each_call_is_given_what_was_said_and_planned(wordy: int) -> None:
    """With `wordy` answers the windows fill, and older messages are in the summaries alone."""
    said: list[str] = []
    summaries: dict[str, list[str]] = {"assistant": [], "user": []}
    asked: dict[str, list[int]] = {}

    def say(prompt: Prompt, text: str) -> str:
        given, recent = prompt.variables, said
        asked.setdefault(prompt.id, []).append(len(said))
        if prompt.id == "dialogue_summary":
            side = "assistant" if "assistant" in prompt.about else "user"
            assert given["summary"] == (summaries[side] or [""])[-1]
            summaries[side].append(f"{side} summary {len(summaries[side])}")
            return summaries[side][-1]
        number = int(prompt.about.partition("sub-plan ")[2].split(",")[0])
        for name, expected in {
            "topic": render_topic(PLAN.seed),
            "earlier_plans": "1. Ada moved.",
            "earlier_batches": earlier_subplans(PLAN, number, EARLIER),
            "bullets": bullet_lines(PLAN.subplans[number - 1].bullets),
            "profile": render_profile(STORY.profile),
            "summary": (summaries["assistant" if prompt.id == "assistant_answer" else "user"] or [""])[-1],
        }.items():
            assert given.get(name, expected) == expected
        if prompt.id != "assistant_answer":
            recent = said[:-1]
            assert f"ASSISTANT: {given['answer']}" == said[-1]
        assert (given["history"] and "\n\n".join(recent).endswith(given["history"])) or not recent
        if not given["summary"]:
            assert given["history"] == "\n\n".join(recent)
        if prompt.id.startswith("detect"):
            return "yes"
        if prompt.id == "assistant_answer":
            text = f"{text} {'honey ' * wordy}".strip()
            said.extend((f"USER: {given['message']}", f"ASSISTANT: {text}"))
        return text

    talk(TalkingModel(say))
    texts = [text for some in QUESTIONS for text in some]
    assert [said[place] for place in range(0, len(said), 10)] == [f"USER: {one.text}" for one in texts]
    assert bool(summaries["assistant"] and summaries["user"]) == (wordy > 1)
    assert {"detect_question", "detect_followup", "user_reply", "user_followup"} <= set(asked)


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


@pytest.mark.parametrize("reply", ["Perhaps.", "", "I would not say yes", "Yesterday"])
def test_a_detector_that_cannot_decide_is_asked_again_then_taken_for_no(reply: str) -> None:
    model = TalkingModel(
        lambda prompt, text: reply if prompt.id == "detect_question" else "no" if "detect" in prompt.id else text
    )
    repairs = Repairs()
    turns = talk(model, repairs)
    assert model.calls["detect_question"] == 2 * len(turns) == len(repairs.entries)
    assert not model.calls["user_reply"]


def refusing(prompt_id: str, about: str, outcome: Outcome = Outcome.REFUSED) -> TalkingModel:
    def say(prompt: Prompt, text: str) -> str:
        if prompt.id == prompt_id and about in prompt.about:
            raise ModelError("not that", outcome)
        return "yes" if prompt.id == "detect_followup" else text

    return TalkingModel(say)


def test_a_question_without_an_answer_is_dropped_and_a_follow_up_that_fails_ends_its_turn() -> None:
    repairs = Repairs()
    turns = talk(refusing("assistant_answer", "sub-plan 2, question 3"), repairs)
    assert len(turns) == sum(map(len, QUESTIONS)) - 1
    assert QUESTIONS[1][2].text not in [turn.messages[0].text for turn in turns]
    assert repairs.entries[-1][3] == "the turn is dropped"
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
    assert {turn.messages[1].text for turn in talk(model)} == {kept}


def test_a_message_that_repeats_its_prompt_is_asked_for_again_then_left_out() -> None:
    line = next(one for one in prompt_file("user_followup").template.split("\n") if one.startswith("- "))
    assert repeats_prompt(f"Well.\n{line}", "user_followup")
    assert not repeats_prompt("A wish about <summary> tags", "user_followup")

    def say(stubborn: bool, prompt: Prompt, text: str) -> str:
        if prompt.id == "user_followup" and (stubborn or not prompt.attempt):
            return f"{line}\n</said_before>\nWeigh it?"
        return text

    for stubborn in (False, True):
        repairs = Repairs()
        turns = talk(TalkingModel(lambda prompt, text, stubborn=stubborn: say(stubborn, prompt, text)), repairs)
        assert ("followup_question" in {kind for turn in turns for kind in kinds(turn)}) == (not stubborn)
        assert [done for *_, done in repairs.entries] == ["asked again", "left out"][: 1 + stubborn] * 3


# Memory


def window_of(side: Side) -> HistoryWindow:
    return HistoryWindow(Talk(LIMITS.recent), side, LIMITS.recent)


def test_a_full_window_keeps_ten_messages_and_folds_the_rest() -> None:
    window, seen = window_of(Side("assistant", 1_000, 50)), list[dict[str, str]]()

    def say(prompt: Prompt, text: str) -> str:
        seen.append(dict(prompt.variables))
        return f"summary {len(seen)}"

    repairs = Repairs()
    for number in range(60):
        user, answer = DialogueMessage("user", f"word{number} " * 20), f"answer{number} " * 20
        window.talk.add([user, DialogueMessage("assistant", answer)])
        asyncio.run(window.make_room(TalkingModel(say), repairs, "here"))
        shown = window.text()
        assert f"answer{number}" in shown and shown.count("USER: ") >= LIMITS.recent // 2 - (number < 4) * 5
        assert len(shown.split()) <= 1_000 + 60
    assert 2 <= len(seen) <= 4 and not repairs.entries
    assert seen[1]["summary"] == "summary 1" and "word0 " in seen[0]["exchanges"]
    assert "word0 " not in seen[1]["exchanges"]
    told = " ".join(one["exchanges"] for one in seen) + window.text()
    assert all(f"word{number} " in told for number in range(60))


def test_a_runaway_answer_is_shown_in_part_and_a_long_summary_is_cut() -> None:
    window, repairs = window_of(Side("assistant", 1_000, 50)), Repairs()
    window.talk.add([DialogueMessage("user", "hello"), DialogueMessage("assistant", "long " * 50_000)] * 12)
    asyncio.run(window.make_room(TalkingModel(lambda prompt, text: "much " * 200), repairs, "here"))
    assert len(window.text().split()) < 1_000
    assert len(window.summary.split()) == 50 and len(repairs.entries) == 1


def test_a_summary_that_fails_leaves_the_old_one() -> None:
    window, repairs = window_of(Side("user", 100, 50)), Repairs()
    window.talk.add([DialogueMessage("user", f"word {n} " * 20) for n in range(12)])
    asyncio.run(window.make_room(refusing("dialogue_summary", "here"), repairs, "here"))
    assert window.summary == "" and window.start == 2 and len(repairs.entries) == 1
