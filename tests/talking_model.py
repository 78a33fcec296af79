"""A small story and a model that talks by rule, for tests of questions, dialogue and folders. All texts are made up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

from beam_generate.authors import GenerationConfig
from beam_generate.pipeline import (
    ConversationSpec,
    make_dialogue_of_plan,
    make_plan_stage,
    make_probe_stage,
    make_question_stage,
)
from beam_generate.shapes import (
    SPECIAL_LABELS,
    SPECIALS,
    Bullet,
    Layout,
    Limits,
    Person,
    Plan,
    Profile,
    Story,
    SubPlan,
    Timeline,
)
from beamlib.data.conversations import Seed, Size
from beamlib.files import sha256_of_file
from beamlib.llm.model import Completion, Prompt

LAYOUT = Layout(subplans=2, bullets=5, groups=2, questions=2)
LIMITS = Limits(recent=10, replies=2, followups=2, reach="conversation")
START = date(2024, 3, 5)
_BULLET = re.compile(r"^(\d+)\. \*\*(.+?):\*\* (.*)$", re.MULTILINE)


def make_plan(index: int = 0, subplans: int = 2, bullets: int = 5) -> Plan:
    """A plan whose bullets all differ; each sub-plan has a time anchor first and the three special bullets last."""
    parts = []
    for number in range(1, subplans + 1):
        day = START + timedelta(days=20 * index + number)
        anchor = Bullet(1, "Time Anchor", f"March {day.day}, 2024" if day.month == 3 else day.isoformat())
        normal = [Bullet(n, "Hives", f"plan {index} hive {number} weighs {n} kilos") for n in range(2, bullets + 1)]
        special = [
            Bullet(bullets + n, SPECIAL_LABELS[kind], f"plan {index} {kind} in stage {number}", kind)
            for n, kind in enumerate(SPECIALS, start=1)
        ]
        parts.append(SubPlan(number, day, (anchor, *normal, *special)))
    seed = Seed("Cooking", f"Honey {index}", "Keeping bees", ("Wax", "Honey"))
    return Plan(index, seed, Timeline(START, START + timedelta(days=400)), "1. LABEL CATEGORY: Hives", tuple(parts))


def make_story(size: Size = "100K") -> Story:
    """The story of a beekeeper."""
    profile = Profile("Ada Quill", 41, "female", "Tavira, Portugal", "Beekeeper", ("INTJ",) * 6, "Ada keeps bees.")
    core = (Person("Rui Quill", "male", 70, "parent"), Person("Eva Quill", "female", 9, "child"))
    new = tuple((Person(f"Bo {n}", "male", 40, "friend"),) for n in range(10)) if size == "10M" else ()
    seed = Seed("Cooking", "Honey 0", "Keeping bees", ("Wax", "Honey"))
    timeline = Timeline(START, START + timedelta(days=400))
    return Story(size, 1, 7, "general", seed, profile, core, new, timeline, LAYOUT)


def make_stages(spec: ConversationSpec, out: Path, config: GenerationConfig) -> list[bool]:
    """Make all stages of a conversation of one plan; whether each had anything to do."""
    folder = spec.begin(out)
    return [
        make_plan_stage(spec, folder, config),
        make_question_stage(folder, config),
        make_dialogue_of_plan(folder, 0, config),
        make_probe_stage(folder, config),
    ]


def hashes(folder: Path) -> dict[str, str]:
    """Hashes of everything but the store of calls, whose pages depend on the order of arrival."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "calls" not in path.name)
    return {path.relative_to(folder).as_posix(): sha256_of_file(path) for path in files}


class TalkingModel:
    """Answers each prompt by rule and counts its calls.

    `say(prompt, text)` may give another reply than the rule's `text`, or raise. Messages on bullet 4 get a question
    back, and one reply; those on bullet 2 one follow-up.
    """

    name = "talking model"

    def __init__(self, say: Callable[[Prompt, str], str] = lambda prompt, text: text) -> None:
        self.say = say
        self.calls: Counter[str] = Counter()

    async def complete(self, prompt: Prompt) -> Completion:
        self.calls[prompt.id] += 1
        return Completion(self.say(prompt, self._reply(prompt)))

    def _reply(self, prompt: Prompt) -> str:
        told = prompt.variables
        if prompt.id.startswith("questions_"):
            found = _BULLET.findall(told["bullets"])
            count = int(told["count"])
            chosen = [found[n % len(found)] for n in range(count)]
            own = [
                " ".join(f"{word}{i}{n}" for word in ("wax", "comb", "frame", "smoke"))
                for n, (i, *_) in enumerate(chosen)
            ]
            lines = [f"{_ASKING[n % 7]} {text}, {own[n]}? ->-> {i}" for n, (i, _, text) in enumerate(chosen)]
            return ("\n" if prompt.id.endswith("general") else "\n-----\n").join(lines)
        if prompt.id == "assistant_answer":
            question = " Which one do you mean?" if re.search(r"weighs 4", told["message"]) else ""
            return f"On '{told['message']}': weigh it again in {len(told['message'])} days.{question}"
        if prompt.id == "detect_question":
            return "Yes." if told["answer"].endswith("mean?") and "reply" not in told["answer"] else "no"
        if prompt.id == "detect_followup":
            return "**Yes**" if "weighs 2" in told["answer"] and "follow" not in told["answer"] else "No"
        if prompt.id == "user_reply":
            return f"My reply to that: {len(told['answer'])}, {prompt.about}"
        if prompt.id == "user_followup":
            return f"And to follow up, {len(told['answer'])} days, {prompt.about}?"
        return "A summary of it all."


_ASKING = ("What about", "Tell me of", "Should I mind", "Explain once", "Who knows of", "Now again", "Why, then,")
