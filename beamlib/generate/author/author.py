"""The offline author as a `Model`: every prompt of generation, answered from one story's world.

What a prompt is about is recognised by the texts in its variables: a bullet, a message, an answer. Texts that are not
the author's own (somebody edited a file) get a plain answer by rule.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from beamlib.generate.author.bank import Topic
from beamlib.generate.author.facts import Entry, Purpose
from beamlib.generate.author.probing import Examiner
from beamlib.generate.author.script import Measures, PlanScript, ScriptTurn
from beamlib.generate.author.traits import biography
from beamlib.generate.author.world import World
from beamlib.generate.layouts import targets
from beamlib.generate.plan_text import (
    Narrative,
    read_batches,
    render_narratives,
    render_plan,
    show_timeline,
)
from beamlib.generate.shapes import SPECIAL_LABELS, SPECIALS, Bullet, Special, Story, SubPlan
from beamlib.models.base import Completion, ModelError, Prompt
from beamlib.models.offline import OFFLINE_NAME

_PLAN = re.compile(r"\bplan (\d+)\b")
_LINE = re.compile(r"^\d+\. \*\*(?P<label>[^*]+):\*\* (?P<text>.*)$", re.MULTILINE)
_SPOKEN = re.compile(r"^USER: (.*)$", re.MULTILINE)
_CITED = re.compile(r"^\[message \d+, user\] (.*?)(?=^\[message \d+, |\Z)", re.MULTILINE | re.DOTALL)
_SUMMARY_LINES = 24
_SHY = 0.8
"""At 10M a general plan of Table 6 holds 930 questions, a fifth more than Table 3's mean over all styles: there most
groups stay one question short, as replies of language models do."""
_SPECIAL: Mapping[str, Special] = {special: special for special in SPECIALS}

Reply = Callable[[Mapping[str, str], str], str]


class OfflineAuthor:
    """Writes one story's plans, messages and questions. It is not a language model: a rule book with a seeded world."""

    name = OFFLINE_NAME

    def __init__(self, story: Story) -> None:
        self.story = story
        self._scripts: dict[int, PlanScript] = {}
        self._answers: dict[str, tuple[PlanScript, ScriptTurn, int]] = {}
        self._replies: dict[str, Reply] = {
            "titles": self._titles,
            "biography": self._biography,
            "special_bullets": self._special_bullets,
            "plan_summary": self._plan_summary,
            "dialogue_summary": self._dialogue_summary,
            "detect_question": self._detect_question,
            "detect_followup": self._detect_followup,
            "assistant_answer": self._assistant_answer,
            "user_reply": self._user_reply,
            "user_followup": self._user_followup,
            "probe_abstention": self._abstention,
            "probe_nuggets": self._nuggets,
        }
        for style in ("general", "coding", "math"):
            self._replies[f"narratives_{style}"] = self._narratives
            self._replies[f"plan_{style}"] = self._plan
            self._replies[f"questions_{style}"] = self._questions
        for strategy in ("sequential", "hierarchical"):
            self._replies[f"seeds_{strategy}"] = self._seeds
            self._replies[f"plan_{strategy}"] = self._plan

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer `prompt`; an id without rules is a `ModelError`. Usage is not counted: nothing is paid."""
        reply = self._replies.get(prompt.id)
        if reply is None:
            for stem, rule in (("candidates_", self._candidates), ("probe_", self._probe)):
                if prompt.id.startswith(stem):
                    return Completion(rule(prompt.id.removeprefix(stem), prompt.variables))
            raise ModelError(f"the {OFFLINE_NAME}, has no rules for prompt '{prompt.id}'")
        return Completion(reply(prompt.variables, prompt.about))

    @cached_property
    def world(self) -> World:
        """The world behind the story; drawn when it is first needed."""
        return World(self.story)

    @cached_property
    def _examiner(self) -> Examiner:
        return Examiner(self.world)

    @cached_property
    def _by_text(self) -> dict[str, Entry]:
        """Entries by label and text of their bullets."""
        return {f"{entry.label}: {entry.text}": entry for entries in self.world.entries.values() for entry in entries}

    def script(self, plan: int) -> PlanScript:
        """The script of a plan, written when it is first needed."""
        if plan not in self._scripts:
            goal, plans = targets(self.story.size), self.story.plans
            shy = _SHY if (self.story.size, self.story.style) == ("10M", "general") else 0.0
            measures = Measures(
                goal.tokens // plans, _share(goal.answered, plan, plans), _share(goal.followups, plan, plans), shy
            )
            self._scripts[plan] = PlanScript(self.world, plan, measures)
        return self._scripts[plan]

    def _titles(self, variables: Mapping[str, str], about: str) -> str:
        used = set(variables["used"].splitlines())
        free = [title for title in self.world.bank.titles if title.title not in used]
        return json.dumps(
            [{"title": one.title, "theme": one.theme, "subtopics": one.subtopics} for one in free][
                : int(variables["count"])
            ]
        )

    def _biography(self, variables: Mapping[str, str], about: str) -> str:
        return biography(self.story.profile, self.story.seed)

    def _narratives(self, variables: Mapping[str, str], about: str) -> str:
        return render_narratives([_narrative(self.world, topic) for topic in self.world.bank.topics])

    def _seeds(self, variables: Mapping[str, str], about: str) -> str:
        title, found = self.world.title, []
        for number, (stage, timeline) in enumerate(zip(title.stages, self.world.timelines, strict=False)):
            topics = self.world.bank.topics
            subtopics = [topics[(number * 3 + step) % len(topics)].label for step in range(6)]
            theme = f"{title.title}: {stage[:1].lower()}{stage[1:]}"
            found.append({"title": stage, "theme": theme, "subtopics": subtopics, "timeline": show_timeline(timeline)})
        return json.dumps(found[: int(variables["count"])])

    def _plan(self, variables: Mapping[str, str], about: str) -> str:
        plan = int(variables.get("index", "0"))
        return render_plan([_subplan(self.world, plan, batch, special=False) for batch in self._batches])

    @property
    def _batches(self) -> Iterable[int]:
        return range(1, self.world.layout.subplans + 1)

    def _special_bullets(self, variables: Mapping[str, str], about: str) -> str:
        found: list[dict[str, str]] = []
        for read in read_batches(variables["plan"]):
            entries = [self._by_text.get(f"{label}: {text}") for label, text in read.bullets]
            known = next((entry for entry in entries if entry is not None and entry.label != "Time Anchor"), None)
            if known is not None:
                told = self.world.entries[known.plan, known.batch]
                special = {entry.purpose: entry.text for entry in told if entry.purpose in SPECIAL_LABELS}
                found.append({"batch": str(read.number)} | special)
        return json.dumps(found)

    def _plan_summary(self, variables: Mapping[str, str], about: str) -> str:
        bullets = [text for read in read_batches(variables["plan"]) for _, text in read.bullets[1:]]
        step = max(1, len(bullets) // 7)
        return " ".join(bullets[::step][:7])

    def _questions(self, variables: Mapping[str, str], about: str) -> str:
        own, strange = [], []
        for match in _LINE.finditer(variables["bullets"]):
            entry = self._by_text.get(f"{match['label']}: {match['text']}")
            if entry is None:
                strange.append((match["text"], match[0].split(".", 1)[0]))
            else:
                own.append(entry)
        found: list[str] = []
        if own:
            turns = self.script(own[0].plan).turns[own[0].batch]
            places = {entry.place for entry in own}
            found += [f"{turn.steps[0].text} ->-> {turn.entry.number}" for turn in turns if turn.entry.place in places]
        found += [f"{text} What would you advise me to do about it? ->-> {number}" for text, number in strange]
        return ("\n" if self.story.style == "general" else "\n-----\n").join(found)

    def _dialogue_summary(self, variables: Mapping[str, str], about: str) -> str:
        exchanges = variables["exchanges"]
        if cited := _CITED.findall(exchanges):  # a turn too long to be shown whole: what the user said is kept
            return " ".join(" ".join(text.split()) for text in cited)
        said = [line.split(". ", 1)[0][:200] for line in _SPOKEN.findall(exchanges)]
        lines = [*variables["summary"].splitlines(), *(f"- {line}" for line in said if line)]
        return "\n".join(lines[-_SUMMARY_LINES:])

    def _detect_question(self, variables: Mapping[str, str], about: str) -> str:
        return "yes" if variables["answer"].rstrip().endswith("?") else "no"

    def _detect_followup(self, variables: Mapping[str, str], about: str) -> str:
        return "yes" if self._next(variables["answer"], "followup") else "no"

    def _assistant_answer(self, variables: Mapping[str, str], about: str) -> str:
        message = variables["message"]
        script, place = self._find(message, about)
        if place is None:
            return script.aside(message, self._nearest(message))
        answer = script.answer(*place)
        self._answers[answer] = (script, *place)
        return answer

    def _find(self, message: str, about: str) -> tuple[PlanScript, tuple[ScriptTurn, int] | None]:
        """The script that holds a user message and its place there; `about` names the plan to look in first."""
        named = _PLAN.search(about)
        first = int(named[1]) if named and int(named[1]) < self.story.plans else 0
        place = self.script(first).place.get(message)
        return self.script(first), place

    def _nearest(self, message: str) -> Topic:
        """The topic that shares most words with a message."""
        words = set(message.lower().split())
        return max(
            self.world.bank.topics,
            key=lambda topic: len(words & set(f"{topic.label} {topic.about} {topic.occasion}".lower().split())),
        )

    def _user_reply(self, variables: Mapping[str, str], about: str) -> str:
        return self._next(variables["answer"], "reply") or _taken_up(variables["answer"])

    def _user_followup(self, variables: Mapping[str, str], about: str) -> str:
        return self._next(variables["answer"], "followup") or _taken_up(variables["answer"])

    def _next(self, answer: str, purpose: Purpose) -> str:
        """What the script lets the user say after one of its answers, a reply or a follow-up; empty for nothing.

        A reply that a smaller delta 1 left unsaid is passed over.
        """
        if (known := self._answers.get(answer)) is None:
            return ""
        _, turn, step = known
        return next((one.text for one in turn.steps[step + 1 :] if one.occasion.purpose == purpose), "")

    def _candidates(self, ability: str, variables: Mapping[str, str]) -> str:
        return json.dumps(self._examiner.candidates(ability, variables["plan"]))

    def _probe(self, ability: str, variables: Mapping[str, str]) -> str:
        reply = self._examiner.question(ability, variables["about"], variables["bullets"], variables["turns"])
        return json.dumps(reply or {})

    def _abstention(self, variables: Mapping[str, str], about: str) -> str:
        return json.dumps(self._examiner.abstentions(variables["plan"]))

    def _nuggets(self, variables: Mapping[str, str], about: str) -> str:
        return json.dumps(self._examiner.nuggets(variables["question"]))


def _taken_up(answer: str) -> str:
    """The user's words on an answer that is not the author's own (a file was edited): taken up by how it begins."""
    begins = " ".join(answer.split()[:9]).rstrip(".,:;?!")
    return f'I would have to think about that. You wrote "{begins} ...", so let us go on from there.'


def _share(total: float, plan: int, plans: int) -> int:
    """A plan's part of a whole conversation's number; the parts add up to it."""
    return round(total * (plan + 1) / plans) - round(total * plan / plans)


def _narrative(world: World, topic: Topic) -> Narrative:
    rng = random.Random(f"narrative {world.story.seed} {world.story.number} {topic.label}")
    words = world.about(None, 0, rng)
    areas = [world.fill(check, rng, words, 0) for check in topic.checks[:4]]
    return Narrative(topic.label, topic.about, tuple(f"{area[:1].upper()}{area[1:]}" for area in areas))


def _bullet(entry: Entry) -> Bullet:
    return Bullet(entry.number, entry.label, entry.text, _SPECIAL.get(entry.purpose))


def _subplan(world: World, plan: int, batch: int, *, special: bool) -> SubPlan:
    bullets = tuple(_bullet(entry) for entry in world.entries[plan, batch])
    if not special:
        bullets = tuple(bullet for bullet in bullets if bullet.special is None)
    return SubPlan(batch, world.today(plan, batch), bullets)
