"""The offline author as a `Model`: every prompt of generation, answered from one story's scenario.

What a prompt is about is recognised by the texts in its variables: a bullet, a message, an answer. Texts that are not
the author's own (somebody edited a file) get a plain answer by rule.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from functools import cached_property

from beam_generate.people import TYPES
from beam_generate.plan_text import (
    Narrative,
    read_batches,
    render_narratives,
    render_plan,
    show_timeline,
)
from beam_generate.seeds import targets
from beam_generate.shapes import SPECIAL_LABELS, Bullet, Profile, Story, SubPlan
from beam_offline.author.facts import Entry
from beam_offline.author.grammar import Grammar
from beam_offline.author.probe_writer import ProbeWriter
from beam_offline.author.scenario import Scenario
from beam_offline.author.script import Measures, PlanScript, ScriptTurn
from beam_offline.author.word_bank import bank, banks, common
from beamlib.llm.model import OFFLINE_NAME, Completion, Model, ModelError, Prompt

__all__ = ["OfflineAuthor", "bank", "banks", "offline_author"]
"""What generation takes (`beamlib.plugins.OfflineAuthors`)."""

_REPLIES = (3, 3, 4, 9, 10, 12, 12, 14, 15, 17, 25, 25, 33, 35, 38, 39, 47, 49, 62, 71)
_FOLLOWUPS = (2, 2, 2, 3, 3, 4, 5, 5, 6, 8, 8, 10, 11, 12, 13, 16, 18, 24, 24, 40)
"""Counts of the twenty released 100K chats, ascending: what a conversation's own count is drawn from, as a share of
their mean. Conversations of a run go through them evenly, so that their mean soon is Table 3's."""
_GOLDEN = 0.6180339887498949


def offline_author(story: Story) -> Model:
    """Return the offline author of a story."""
    return OfflineAuthor(story)


def share_of(story: Story, replies: float, followups: float) -> tuple[float, float]:
    """Return a conversation's number of replies and follow-ups where the means are `replies` and `followups`."""
    start = random.Random(f"talkative {story.seed} {story.size}").random()
    found = []
    for mean, released, step in ((replies, _REPLIES, _GOLDEN), (followups, _FOLLOWUPS, 1 - _GOLDEN**3)):
        place = (start + step * story.number) % 1
        found.append(mean * released[int(place * len(released))] * len(released) / sum(released))
    return found[0], found[1]


def biography(profile: Profile, seed: int) -> str:
    """Write about 120 words on the six traits of `profile`."""
    rng = random.Random(f"biography {seed} {profile.name} {profile.place}")
    he = "she" if profile.gender == "female" else "he"
    words = {"name": profile.name.split()[0], "place": profile.place.split(",")[0], "he": he}
    grammar = Grammar(common().lists)
    sides = [TYPES[trait].rstrip(".") for trait in profile.traits]
    links = [grammar.say("trait", {**words, "side": f"{side[:1].lower()}{side[1:]}"}, rng) for side in sides]
    return " ".join([grammar.say("trait_open", words, rng), *links, grammar.say("trait_close", words, rng)])


_PLAN = re.compile(r"\bplan (\d+)\b")
_PLACE = re.compile(r"\bplan (\d+), sub-plan (\d+)")
_LINE = re.compile(r"^(?P<number>\d+)\. \*\*(?P<label>[^*]+):\*\* (?P<text>.*)$", re.MULTILINE)
_SPOKEN = re.compile(r"^USER: (.*)$", re.MULTILINE)
_CITED = re.compile(r"^\[message \d+, user\] (.*?)(?=^\[message \d+, |\Z)", re.MULTILINE | re.DOTALL)
_SUMMARY_LINES = 24
_NARRATIVES = 20
_SHY = 0.8
"""At 10M a general plan of Table 6 holds 930 questions, a fifth more than Table 3's mean over all styles: there most
groups stay one question short, as replies of language models do."""

_Reply = Callable[[Mapping[str, str], str], str]


class OfflineAuthor:
    """Write the plans, messages and questions of one story by a grammar and a seeded scenario, without any model."""

    name = OFFLINE_NAME

    def __init__(self, story: Story) -> None:
        self.story = story
        self._scripts: dict[int, PlanScript] = {}
        self._answers: dict[str, tuple[ScriptTurn, int]] = {}
        self._replies: dict[str, _Reply] = {
            "biography": lambda variables, about: biography(story.profile, story.seed),
            "special_bullets": self._special_bullets,
            "plan_summary": self._plan_summary,
            "dialogue_summary": self._dialogue_summary,
            "detect_question": lambda variables, _: "yes" if variables["answer"].rstrip().endswith("?") else "no",
            "detect_followup": lambda variables, about: "yes" if self._next(variables["answer"], "followup") else "no",
            "assistant_answer": self._assistant_answer,
            "user_reply": lambda variables, about: self._said_next(variables["answer"], "reply"),
            "user_followup": lambda variables, about: self._said_next(variables["answer"], "followup"),
            "probe_abstention": lambda variables, about: json.dumps(self._probe_writer.abstentions(variables["plan"])),
            "probe_nuggets": lambda variables, about: json.dumps(self._probe_writer.nuggets(variables)),
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
        if reply is not None:
            return Completion(reply(prompt.variables, prompt.about))
        if prompt.id.startswith("candidates_"):
            ability = prompt.id.removeprefix("candidates_")
            return Completion(json.dumps(self._probe_writer.candidates(ability, prompt.variables["plan"])))
        if prompt.id.startswith("probe_"):
            ability = prompt.id.removeprefix("probe_")
            asked = self._probe_writer.question(ability, prompt.variables["bullets"], prompt.variables["turns"])
            return Completion(json.dumps(asked))
        raise ModelError(f"the {OFFLINE_NAME}, has no rules for prompt '{prompt.id}'")

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario behind the story; drawn when it is first needed."""
        return Scenario(self.story)

    @cached_property
    def _probe_writer(self) -> ProbeWriter:
        return ProbeWriter(self.scenario, self.script)

    @cached_property
    def _by_text(self) -> dict[str, Entry]:
        """Entries by label and text of their bullets."""
        return {
            f"{entry.label}: {entry.text}": entry for entries in self.scenario.entries.values() for entry in entries
        }

    def script(self, plan: int) -> PlanScript:
        """Return the script of a plan. It is written on first use."""
        if plan not in self._scripts:
            goal, plans = targets(self.story.size), self.story.plans
            replies, followups = share_of(self.story, goal.answered, goal.followups)
            shy = _SHY if (self.story.size, self.story.style) == ("10M", "general") else 0.0
            measures = Measures(goal.tokens // plans, _part(replies, plan, plans), _part(followups, plan, plans), shy)
            self._scripts[plan] = PlanScript(self.scenario, plan, measures)
        return self._scripts[plan]

    def _narratives(self, variables: Mapping[str, str], about: str) -> str:
        title = self.scenario.title
        own = [
            Narrative(one.label, one.theme[0], tuple(fact.np for fact in one.fact[:4])) for one in self.scenario.kinds
        ]
        more = [Narrative(one, f"{title.goal}: {one.lower()}", tuple(title.stages[:4])) for one in title.subtopics]
        return render_narratives([*own, *more][:_NARRATIVES])

    def _seeds(self, variables: Mapping[str, str], about: str) -> str:
        title, kinds, found = self.scenario.title, self.scenario.kinds, []
        for number, (stage, timeline) in enumerate(zip(title.stages, self.scenario.timelines, strict=False)):
            subtopics = [kinds[(number * 3 + step) % len(kinds)].label for step in range(6)]
            theme = f"{title.title}: {stage[:1].lower()}{stage[1:]}"
            found.append({"title": stage, "theme": theme, "subtopics": subtopics, "timeline": show_timeline(timeline)})
        return json.dumps(found[: int(variables["count"])])

    def _plan(self, variables: Mapping[str, str], about: str) -> str:
        plan = int(variables.get("index", "0"))
        return render_plan(
            SubPlan(
                batch,
                self.scenario.today(plan, batch),
                tuple(
                    Bullet(entry.place[2], entry.label, entry.text)
                    for entry in self.scenario.entries[plan, batch]
                    if entry.purpose not in SPECIAL_LABELS
                ),
            )
            for batch in range(1, self.scenario.layout.subplans + 1)
        )

    def _special_bullets(self, variables: Mapping[str, str], about: str) -> str:
        found: list[dict[str, str]] = []
        for read in read_batches(variables["plan"]):
            entries = [self._by_text.get(f"{label}: {text}") for label, text in read.bullets]
            known = next((entry for entry in entries if entry is not None and entry.label != "Time Anchor"), None)
            if known is not None:
                told = self.scenario.entries[known.place[:2]]
                special = {entry.purpose: entry.text for entry in told if entry.purpose in SPECIAL_LABELS}
                found.append({"batch": str(read.number)} | special)
        return json.dumps(found)

    def _plan_summary(self, variables: Mapping[str, str], about: str) -> str:
        bullets = [text for read in read_batches(variables["plan"]) for _, text in read.bullets[1:]]
        step = max(1, len(bullets) // 7)
        return " ".join(bullets[::step][:7])

    def _questions(self, variables: Mapping[str, str], about: str) -> str:
        own, strange = [], []
        named = _PLACE.search(about)
        told = self.scenario.entries.get((int(named[1]), int(named[2])), []) if named else []
        here = self._by_text | {f"{entry.label}: {entry.text}": entry for entry in told}
        for match in _LINE.finditer(variables["bullets"]):
            entry = here.get(f"{match['label']}: {match['text']}")
            if entry is None:
                strange.append((match["text"], match["number"]))
            else:
                own.append(entry)
        found: list[str] = []
        if own:
            turns = self.script(own[0].place[0]).turns[own[0].place[1]]
            places = {entry.place for entry in own}
            asked = [turn for turn in turns if turn.entry.place in places]
            found += [f"{turn.steps[0].text} ->-> {turn.entry.place[2]}" for turn in asked]
        found += [f"{text} What would you advise me to do about it? ->-> {number}" for text, number in strange]
        return ("\n" if self.story.style == "general" else "\n-----\n").join(found)

    def _dialogue_summary(self, variables: Mapping[str, str], about: str) -> str:
        exchanges = variables["exchanges"]
        if cited := _CITED.findall(exchanges):  # a turn too long to be shown whole: what the user said is kept
            return " ".join(" ".join(text.split()) for text in cited)
        said = [line.split(". ", 1)[0][:200] for line in _SPOKEN.findall(exchanges)]
        lines = [*variables["summary"].splitlines(), *(f"- {line}" for line in said if line)]
        return "\n".join(lines[-_SUMMARY_LINES:])

    def _assistant_answer(self, variables: Mapping[str, str], about: str) -> str:
        message = variables["message"]
        named = _PLAN.search(about)
        script = self.script(int(named[1]) if named and int(named[1]) < self.story.plans else 0)
        place = script.place.get(message)
        if place is None:
            return script.aside(message, self.scenario.strands[0])
        answer = script.answer(*place).text
        self._answers[answer] = place
        return answer

    def _said_next(self, answer: str, purpose: str) -> str:
        if said := self._next(answer, purpose):
            return said
        begins = " ".join(answer.split()[:9]).rstrip(".,:;?!")
        return f'I would have to think about that. You wrote "{begins} ...", so let us go on from there.'

    def _next(self, answer: str, purpose: str) -> str:
        """Return what the user says after one of the script's answers, a reply or a follow-up; empty for nothing.

        A reply that a smaller delta 1 left unsaid is passed over.
        """
        if (known := self._answers.get(answer)) is None:
            return ""
        turn, step = known
        return next((one.text for one in turn.steps[step + 1 :] if one.purpose == purpose), "")


def _part(total: float, plan: int, plans: int) -> int:
    """Return a plan's part of a conversation's number. The parts add up to it."""
    return round(total * (plan + 1) / plans) - round(total * plan / plans)
