"""A small wedding with one good probing question per ability, and a model that asks exactly those."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from beam_generate.probes.drafts import Draft, Ref, View
from beam_generate.shapes import Bullet, DialogueMessage, DialogueTurn, Layout, Plan, Profile, Story, SubPlan, Timeline
from beamlib.data.conversations import ABILITIES, Seed, Size
from beamlib.llm.model import Completion, Prompt

TOLD: dict[str, tuple[str, str]] = {
    "1.1": ("Hall", "I paid a deposit of 340 euros for Lakeside Hall on March 3, 2025. Is that fair?"),
    "1.2": ("Guests", "We invited 80 guests to the wedding. How many tables do we need?"),
    "1.3": ("Florist", "I met the florist Nora Bell at the market in Arden. What should I ask her?"),
    "1.4": ("Travel", "I prefer slow trains to planes because I sleep well in them. How do we reach the island?"),
    "1.5": ("User Instruction", "Always add a table with sums when I ask about costs. And where do I begin?"),
    "1.6": ("Flowers", "I looked at dried flowers for the tables first. Do they last?"),
    "2.1": ("Band", "The band costs 560 euros and rehearses on March 24, 2025. Should I be there?"),
    "2.2": ("Information Update", "The list grew, so 95 guests are invited now. Can you redo the seating?"),
    "2.3": ("Logical Contradiction", "I have never met the florist Nora Bell. How would I find her?"),
    "2.4": ("Flowers", "Then blue irises for the flowers came up. Are they in season?"),
    "2.5": ("Flowers", "And the flowers need a cooled van. Who rents one?"),
    "2.6": ("Food", "The tasting dinner was long. What should we drop from the menu?"),
}
"""Bullet (batch.bullet) -> label and what the user says; message ids are 2 per bullet, in this order."""

MESSAGE = {ref: 2 * place for place, ref in enumerate(TOLD)}


def ref(text: str, plan: int = 0) -> Ref:
    batch, bullet = text.split(".")
    return Ref(plan, int(batch), int(bullet))


def plan(index: int = 0) -> Plan:
    subplans = tuple(
        SubPlan(
            batch,
            date(2025, 2, batch),
            tuple(
                Bullet(int(name.split(".")[1]), label, text)
                for name, (label, text) in TOLD.items()
                if name.startswith(f"{batch}.")
            ),
        )
        for batch in (1, 2)
    )
    return Plan(index, SEED, Timeline(date(2025, 2, 1), date(2025, 4, 1)), "", subplans)


def turns(index: int = 0) -> list[DialogueTurn]:
    return [
        DialogueTurn(
            index,
            int(name[0]),
            int(name.split(".")[1]),
            (
                DialogueMessage("user", text, "main_question"),
                DialogueMessage("assistant", f"Let us think about {label.lower()} in peace."),
            ),
        )
        for name, (label, text) in TOLD.items()
    ]


SEED = Seed("Event Planning", "A wedding")


def story(size: Size = "100K") -> Story:
    profile = Profile("Ada Moss", 31, "female", "Arden", "baker", ())
    timeline, layout = Timeline(date(2025, 2, 1), date(2025, 4, 1)), Layout(3, 5, 2, 2)
    return Story(size, 1, 7, "general", SEED, profile, (), (), timeline, layout)


def view() -> View:
    return View([turns()])


def state(*payloads: str, verb: str = "state") -> list[str]:
    return [f"LLM response should {verb}: {payload}" for payload in payloads]


REPLIES: Mapping[str, dict[str, Any]] = {
    "contradiction_resolution": {
        "refs": ["1.3", "2.3"], "parts": ("first", "second"), "about": "the florist",
        "question": "Have I ever met the florist?",
        "answer": "You said you met Nora Bell, but you also said you never met her. Which statement is correct?",
        "evidence": {"first": [4], "second": [16]}, "contradiction_type": "never_statement_violation",
        "topic_questioned": "the florist", "conversation_references": ["a", "b"], "tests_for": "clarification",
        "rubric": [
            "LLM response should state: there is contradictory information",
            "LLM response should mention: you said you met Nora Bell",
            "LLM response should mention: you also said you never met her",
            "LLM response should mention: which statement is correct?",
        ],
    },
    "event_ordering": {
        "refs": ["1.6", "2.4", "2.5"], "about": "the flowers",
        "question": "How did my thoughts about the flowers develop, in order? Mention ONLY and ONLY three items.",
        "answer": "1) dried flowers, 2) blue irises, 3) a cooled van", "evidence": [10, 18, 20],
        "ordering_type": "mention_sequence", "total_mentions": 3, "conversation_references": ["a", "b", "c"],
        "ordering_tested": ["1st: dried flowers", "2nd: blue irises", "3rd: a cooled van"],
        "rubric": ["dried flowers for tables", "blue irises in season", "cooled van to rent"],
    },
    "information_extraction": {
        "refs": ["1.1"], "about": "the deposit for the hall", "question": "How much did I put down for the hall?",
        "answer": "You paid 340 euros for Lakeside Hall.", "evidence": [0], "question_type": "numerical",
        "conversation_reference": "the first message", "key_facts_tested": ["340 euros"],
        "rubric": state("340 euros"),
    },
    "instruction_following": {
        "refs": ["1.5"], "about": "answers about costs", "question": "What would a photographer cost me?",
        "instruction_being_tested": "Always add a table with sums when I ask about costs.",
        "answer": "Response should hold a table with sums.", "compliance_indicators": ["shows a table with sums"],
        "non_compliance_signs": ["prose only"], "instruction_type": "format", "evidence": [8],
        "rubric": state("a table with sums", verb="contain"),
    },
    "knowledge_update": {
        "refs": ["1.2", "2.2"], "parts": ("original", "updated"), "about": "the number of guests",
        "question": "How many guests are invited?", "answer": "95 guests", "update_type": "count",
        "tests_retention_of": "the number of guests", "conversation_references": ["a", "b"],
        "potential_confusion": "It may say 80 guests instead of 95.", "old_value": "80", "new_value": "95",
        "evidence": {"original": [2], "updated": [14]}, "rubric": state("95 guests"),
    },
    "multi_session_reasoning": {
        "refs": ["1.1", "2.1"], "about": "what hall and band cost together",
        "question": "What do the hall's deposit and the band come to?", "answer": "900 euros",
        "reasoning_type": "sum", "sessions_required": 2, "conversation_references": ["a", "b"],
        "reasoning_steps": ["deposit 340", "band 560", "340 + 560 = 900"], "evidence": [0, 12],
        "rubric": state("900 euros"),
    },
    "preference_following": {
        "refs": ["1.4"], "about": "travel", "question": "How should my aunt come to us from the coast?",
        "preference_being_tested": "I prefer slow trains to planes because I sleep well in them.",
        "answer": "Response should suggest a train.", "compliance_indicators": ["suggests a train"],
        "non_compliance_signs": ["suggests a flight"], "preference_type": "travel", "evidence": [6],
        "rubric": state("suggests a train", verb="contain"),
    },
    "summarization": {
        "refs": ["1.6", "2.4", "2.5"], "about": "the flowers", "question": "Can you sum up the flowers for me?",
        "answer": "You looked at dried ones. Later blue irises came up.", "evidence": [10, 11, 18],
        "summarization_type": "overview", "bullet_points_covered": 3, "conversation_sessions": [1, 2],
        "key_elements_tested": ["dried ones", "irises"], "synthesis_required": "two sessions",
        "rubric": state("you looked at dried ones", "later blue irises came up", verb="contain"),
    },
    "temporal_reasoning": {
        "refs": ["1.1", "2.1"], "parts": ("first", "second"), "about": "hall and rehearsal",
        "question": "How many days were there between paying for the hall and the rehearsal of the band?",
        "answer": "21 days, from March 3 till March 24", "temporal_type": "duration", "time_points": ["a", "b"],
        "conversation_references": ["a", "b"], "calculation_required": "March 24 - March 3 = 21 days",
        "evidence": {"first": [0], "second": [12]}, "rubric": state("21 days", "from March 3 till March 24, 2025"),
    },
}  # fmt: skip
ABSENT = {
    "question": "What did Nora Bell charge for delivery?", "detail": "what Nora Bell charges for delivery",
    "entity": "Nora Bell", "keyword": "delivery", "difficulty": "hard", "abstention_type": "missing_detail",
    "why_unanswerable": "Delivery never comes up.", "plan_reference": "0.1.3",
}  # fmt: skip
SECOND = {
    "abstention": "Where was Nora Bell trained in her craft?",
    "contradiction_resolution": "Did I meet our florist?",
    "event_ordering": "List my ideas for the flowers, in order. Mention ONLY and ONLY three items.",
    "information_extraction": "What sum did booking the hall take?",
    "instruction_following": "How would I work out a fair budget for music?",
    "knowledge_update": "What number of people do we expect?",
    "multi_session_reasoning": "Hall and band together: what is the bill?",
    "preference_following": "Which way to the island would you pick for a honeymoon?",
    "summarization": "What became of the flowers?",
    "temporal_reasoning": "Counted in days, how long after booking the hall does the band rehearse?",
}
"""Another question on the same bullets, per ability."""


def reply_of(ability: str, plan_index: int = 0, offset: int = 0) -> dict[str, Any]:
    """The good reply to `probe_<ability>`, for the plan whose first message has the id `offset`."""
    if ability == "abstention":
        return {**ABSENT, "plan_reference": f"{plan_index}.1.3"}
    reply = {k: v for k, v in REPLIES[ability].items() if k not in ("refs", "parts", "rubric", "about")}
    moved = reply["evidence"]
    reply["evidence"] = (
        {part: [i + offset for i in ids] for part, ids in moved.items()}
        if isinstance(moved, dict)
        else [i + offset for i in moved]
    )
    return {**reply, "difficulty": "medium"}


class Scripted:
    """Answers every prompt of this stage with the good replies, two candidates per ability.

    `broken` maps a prompt id to the texts that its next calls get instead, or to an exception to raise.
    """

    name = "scripted"

    def __init__(self, broken: Mapping[str, Sequence[str | Exception]] | None = None) -> None:
        self.broken = {key: list(value) for key, value in (broken or {}).items()}
        self.asked: list[Prompt] = []

    async def complete(self, prompt: Prompt) -> Completion:
        assert prompt.messages  # every variable is there
        self.asked.append(prompt)
        if waiting := self.broken.get(prompt.id):
            reply = waiting.pop(0)
            if isinstance(reply, Exception):
                raise reply
            return Completion(reply)
        return Completion(json.dumps(self._reply(prompt)))

    def _reply(self, prompt: Prompt) -> Any:
        ability = prompt.id.partition("_")[2]
        if prompt.id == "dialogue_summary":
            return "A short summary."
        if prompt.id == "probe_nuggets":
            return REPLIES[prompt.variables["ability"]]["rubric"]
        if prompt.id.startswith("candidates_"):
            known = REPLIES[ability]
            index = int(re.search(r"PLAN (\d+)", prompt.variables["plan"])[1])  # type: ignore[index]
            refs = [f"{index}.{one}" for one in known["refs"]]
            named = dict(zip(known.get("parts", ()), refs, strict=False))
            # The second candidate has one bullet more, so that it is another one.
            return [{"bullets": some, "about": known["about"], **named} for some in (refs, [*refs, f"{index}.2.6"])]
        if prompt.id == "probe_abstention":
            index = int(re.search(r"PLAN (\d+)", prompt.variables["plan"])[1])  # type: ignore[index]
            second = {**ABSENT, "question": SECOND[ability], "keyword": "trained", "detail": "where she was trained"}
            return [reply_of(ability, index), {**second, "plan_reference": f"{index}.1.3"}]
        index = int(re.search(r"\[(\d+)\.", prompt.variables["bullets"])[1])  # type: ignore[index]
        reply = reply_of(ability, index, index * 2 * len(TOLD))
        if f"[{index}.2.6]" in prompt.variables["bullets"]:
            reply["question"] = SECOND[ability]
        return reply


def draft(ability: str, fields: Mapping[str, Any] | None = None, **changes: Any) -> Draft:
    """The good draft of an ability, with other content where said."""
    made = {one.ability: one for one in _good()}[ability]  # type: ignore[index]
    return replace(made, fields={**made.fields, **(fields or {})}, **changes)


def _good() -> list[Draft]:
    import asyncio

    from beam_generate.probes.making import make_probes
    from beam_generate.shapes import Repairs

    if not _MADE:
        made = asyncio.run(make_probes(Scripted(), story(), [plan()], [turns()], Repairs()))
        first = {ability: reply_of(ability)["question"] for ability in ABILITIES}
        _MADE.extend(one for one in made.drafts if one.question == first[one.ability])
    return _MADE


_MADE: list[Draft] = []
