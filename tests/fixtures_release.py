"""A small release with invented content: two valid 100K conversations with all ten abilities, for any test."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class World:
    """The facts that make one conversation differ from another."""

    hobby: str
    place: str
    friend: str
    tool: str
    first_cost: int
    second_cost: int
    start: str
    end: str
    days: int


WORLDS = (
    World("a rooftop greenhouse", "Leith", "Marisol", "drip timer", 340, 415, "March 4", "March 25", 21),
    World("a radio play", "Trento", "Oswin", "tape recorder", 120, 185, "May 2", "May 16", 14),
)
ANCHORS = ("March-04-2024", "April-10-2024", "May-20-2024")


def main(text: str, batch: int, bullet: int) -> tuple[str, str]:
    """A main question with its marker, and the `index` field that repeats it."""
    return f"{text} ->-> {batch},{bullet}", f"{batch},{bullet}"


def turns_of(world: World) -> list[list[list[str]]]:
    """What is said, batch by batch, turn by turn: user and assistant in alternation, without markers."""
    return [
        [
            [
                f"I am starting {world.hobby} in {world.place} on {world.start}, where do I begin?",
                f"Begin with a plan for {world.hobby}: a budget, a calendar and one helper. Do you have a helper?",
                f"Yes, {world.friend} will help me on Saturdays.",
                f"Good, then plan the heavy work for Saturdays with {world.friend}.",
            ],
            [
                f"My budget for {world.hobby} is {world.first_cost} euros, is that enough?",
                f"{world.first_cost} euros is tight but possible if you borrow the {world.tool}.",
            ],
            [
                "Always answer me with a numbered list when I ask about steps, can you do that?",
                "1. Yes. 2. I will number every list of steps.",
            ],
        ],
        [
            [
                f"I have never used a {world.tool}, how does it work?",
                f"The {world.tool} has two buttons; press the left one for three seconds.",
            ],
            [
                "I prefer cheap second-hand parts over new ones, what should I buy?",
                f"Look for a second-hand {world.tool} at the flea market.",
                "Which day is the flea market open?",
                "It opens on Sundays at nine.",
            ],
        ],
        [
            [
                f"Update: my budget for {world.hobby} is now {world.second_cost} euros, what changes?",
                f"With {world.second_cost} euros you can buy the {world.tool} new.",
            ],
            [
                f"Yesterday I used the {world.tool} for an hour with {world.friend}, what comes next?",
                "Next, test the whole installation once from start to end.",
            ],
            [
                f"I want to finish on {world.end}, is that realistic?",
                f"Yes, from {world.start} to {world.end} there are {world.days} days.",
            ],
        ],
    ]


def chat_of(world: World) -> list[dict[str, Any]]:
    """The released shape of a chat: batches of turns of messages, ids from 0."""
    chat, next_id = [], 0
    for b, batch in enumerate(turns_of(world), start=1):
        turns = []
        for t, texts in enumerate(batch, start=1):
            turn: list[dict[str, Any]] = []
            for position, text in enumerate(texts):
                message: dict[str, Any] = {"role": "assistant" if position % 2 else "user", "id": next_id}
                if position == 0:
                    text, index = main(text, b, t)
                    if t == 1:
                        message["time_anchor"] = ANCHORS[b - 1]
                    message |= {"index": index, "question_type": "main_question"}
                elif position % 2 == 0:
                    answers = turn[-1]["content"].endswith("?")
                    message["question_type"] = "answer_ai_question" if answers else "followup_question"
                turn.append(message | {"content": text})
                next_id += 1
            turns.append(turn)
        chat.append({"batch_number": b, "turns": turns, "time_anchor": None})
    return chat


def questions_of(world: World) -> dict[str, list[dict[str, Any]]]:
    """Twenty probing questions with every published field; the two of an ability differ in wording."""

    def two(first: dict[str, Any], second: dict[str, Any], shared: dict[str, Any]) -> list[dict[str, Any]]:
        return [first | shared | {"difficulty": "easy"}, second | shared | {"difficulty": "medium"}]

    w, references = world, ["Session 1: the beginning"]
    compliance = {"compliance_indicators": ["a numbered list"], "non_compliance_signs": ["one block of prose"]}
    return {
        "abstention": two(
            {"question": f"What is the surname of {w.friend}?"},
            {"question": f"Which colour is the {w.tool}?"},
            {
                "ideal_response": "Based on the provided chat, there is no information about this.",
                "abstention_type": "missing_detail",
                "why_unanswerable": "never said",
                "plan_reference": "Batch 1, bullet 1",
                "rubric": ["Based on the provided chat, there is no information about this"],
            },
        ),
        "contradiction_resolution": two(
            {"question": f"Have I used a {w.tool} before?"},
            {"question": f"Do I have any experience with a {w.tool}?"},
            {
                "ideal_answer": f"You said you never used a {w.tool} and also that you used it; which is correct?",
                "contradiction_type": "never_statement_violation",
                "topic_questioned": w.tool,
                "conversation_references": references,
                "tests_for": "notices the contradiction",
                "source_chat_ids": {"first_statement": [8], "second_statement": [16]},
                "rubric": [
                    "LLM response should state: there is contradictory information",
                    f"LLM response should mention: you said you have never used a {w.tool}",
                    f"LLM response should mention: you used the {w.tool} for an hour",
                    "LLM response should mention: which statement is correct?",
                ],
            },
        ),
        "event_ordering": two(
            {"question": "In which order did I bring up these things? Mention ONLY and ONLY three items."},
            {"question": "List the order of my topics over the whole chat. Mention ONLY and ONLY three items."},
            {
                "answer": f"1) the start in {w.place} 2) the {w.tool} 3) the new budget",
                "ordering_type": "mention_order",
                "total_mentions": 3,
                "conversation_references": references,
                "ordering_tested": [f"the start in {w.place}", f"the {w.tool}", "the new budget"],
                "source_chat_ids": [0, [8], 14],
                "rubric": [f"the start in {w.place}", f"the {w.tool}", "the new budget"],
            },
        ),
        "information_extraction": two(
            {"question": f"Who helps me with {w.hobby}?"},
            {"question": "Who did I say will help me, and on which days?"},
            {
                "answer": f"{w.friend}, on Saturdays",
                "question_type": "factual",
                "conversation_reference": "Session 1",
                "key_facts_tested": [w.friend, "Saturdays"],
                "source_chat_ids": [2, 3],
                "rubric": [f"LLM response should state: {w.friend}", "LLM response should state: Saturdays"],
            },
        ),
        "instruction_following": two(
            {"question": f"What are the steps of {w.hobby}?"},
            {"question": f"Which steps come last in {w.hobby}?"},
            {
                "instruction_being_tested": "numbered lists",
                "expected_compliance": "The steps come as a numbered list.",
                **compliance,
                "instruction_type": "format",
                "source_chat_ids": [6],
                "rubric": ["LLM response should contain: a numbered list"],
            },
        ),
        "knowledge_update": two(
            {"question": f"How many euros can I spend on {w.hobby}?"},
            {"question": "What is my budget?"},
            {
                "answer": f"{w.second_cost} euros",
                "update_type": "value",
                "tests_retention_of": "the new budget",
                "conversation_references": references,
                "potential_confusion": "the old budget",
                "source_chat_ids": {"original_info": [4], "updated_info": [14]},
                "rubric": [f"LLM response should state: {w.second_cost} euros"],
            },
        ),
        "multi_session_reasoning": two(
            {"question": "By how many euros did my budget grow?"},
            {"question": "What is the difference between my first and my last budget?"},
            {
                "answer": f"{w.second_cost - w.first_cost} euros",
                "reasoning_type": "difference",
                "sessions_required": 2,
                "conversation_references": references,
                "reasoning_steps": ["find both", "subtract"],
                "source_chat_ids": [4, 14],
                "rubric": [
                    f"LLM response should state: {w.second_cost - w.first_cost} euros",
                    f"LLM response should mention: from {w.first_cost} to {w.second_cost} euros",
                ],
            },
        ),
        "preference_following": two(
            {"question": f"Where should I get a {w.tool}?"},
            {"question": "Which parts would you recommend to me?"},
            {
                "preference_being_tested": "second-hand parts",
                "expected_compliance": "The answer recommends second-hand parts.",
                **compliance,
                "preference_type": "cost",
                "source_chat_ids": [10],
                "rubric": ["LLM response should contain: second-hand parts"],
            },
        ),
        "summarization": two(
            {"question": f"Summarise how {w.hobby} went."},
            {"question": "Give me a summary of everything we discussed."},
            {
                "ideal_summary": f"{w.hobby} in {w.place} with {w.friend}; the budget went to {w.second_cost} euros.",
                "summarization_type": "whole",
                "bullet_points_covered": 3,
                "conversation_sessions": [1, 2, 3],
                "key_elements_tested": ["place", "helper", "budget"],
                "synthesis_required": "across sessions",
                "source_chat_ids": [0, 1, 2, 4, 14],
                "rubric": [
                    f"LLM response should contain: {w.place}",
                    f"LLM response should contain: {w.friend} helps",
                    f"LLM response should contain: the budget became {w.second_cost} euros",
                ],
            },
        ),
        "temporal_reasoning": two(
            {"question": "How many days are there between my start and the day I want to finish?"},
            {"question": "How long does the project take, in days?"},
            {
                "answer": f"{w.days} days",
                "temporal_type": "duration",
                "time_points": [w.start, w.end],
                "conversation_references": references,
                "calculation_required": "difference of dates",
                "source_chat_ids": {"first_event": [0], "second_event": [18]},
                "rubric": [
                    f"LLM response should state: {w.days} days",
                    f"LLM response should state: from {w.start} to {w.end}",
                ],
            },
        ),
    }


def write_conversation(folder: Path, world: World = WORLDS[0], *, seed_id: int = 1) -> Path:
    """Write one conversation folder of the released layout and give it back."""
    chat = chat_of(world)
    user_messages = [
        {
            "batch": batch["batch_number"],
            "time_anchor": ANCHORS[batch["batch_number"] - 1],
            "messages": [{"role": "user", "content": turn[0]["content"]} for turn in batch["turns"]],
        }
        for batch in chat
    ]
    seed = {
        "id": seed_id,
        "category": "Lifestyle",
        "title": f"Setting up {world.hobby}",
        "theme": "A hobby from plan to finish",
        "subtopics": ["budget", "helpers", "tools"],
    }
    write_value(folder / "topic.json", seed)
    write_value(folder / "chat.json", chat)
    write_value(folder / "user_messages.json", user_messages)
    write_value(folder / "probing_questions" / "probing_questions.json", questions_of(world))
    return folder


def write_value(path: Path, value: Any) -> None:
    """Write a JSON file the way the release does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False), encoding="utf-8")


def write_release(folder: Path) -> Path:
    """Write `folder`/100K/1 and `folder`/100K/2 and give `folder` back."""
    for number, world in enumerate(WORLDS, start=1):
        write_conversation(folder / "100K" / str(number), world, seed_id=number)
    return folder


@pytest.fixture
def tiny_release(tmp_path: Path) -> Path:
    """A folder laid out like the release, with 100K/1 and 100K/2; its content is invented."""
    return write_release(tmp_path / "release")
