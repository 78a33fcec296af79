"""The ten interlocking plans of a 10M conversation: paper section 2.2.1 and Algorithm 1, lines 5 to 24.

First ten sub-seeds, each with days of its own: successive events of a life (sequential expansion, Listing 28; the
first is the conversation's own seed) or phases of one storyline (hierarchical decomposition, Listing 29). Narratives
belong to the sub-seeds alone and are asked for together; plans follow one another, each knowing the plan before it
(Listing 30), and in a decomposition also a summary of all earlier plans and every sub-seed to come (Listing 31).

What a model returns wrong, besides the rules of `beam_generate.plans`: fewer than ten sub-seeds are asked for again,
then an error; more are cut. Days outside the conversation's are clipped to it, and where a stage begins before the one
before it has ended, its beginning is clipped. Where a stage then has fewer days than its plan has sub-plans, or none
could be read, all stages not yet planned share the days that are left evenly. All of it is noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from beam_generate.people import render_profile, render_relationships
from beam_generate.plan_text import read_timeline, render_plan, show_timeline
from beam_generate.plans import about, ask_narratives, ask_plan, ask_summary, make_plan, plan_size, with_biography
from beam_generate.reply_json import objects
from beam_generate.seeds import read_seed, render_topic
from beam_generate.shapes import Plan, Repairs, Story, Timeline
from beamlib.data.conversations import Seed
from beamlib.errors import UserError
from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt
from beamlib.llm.retrying import ReadReply, ask, gather

_STAGE = "seeds"


@dataclass(frozen=True, slots=True)
class Stage:
    """A sub-seed: what one plan is about, and its days."""

    seed: Seed
    timeline: Timeline


async def make_plans(model: Model, story: Story, repairs: Repairs) -> list[Plan]:
    """All plans of a conversation of any size, in order."""
    if story.plans == 1:
        return [await make_plan(model, story, repairs)]
    story = await with_biography(model, story, repairs)
    stages = await make_stages(model, story, repairs)
    narratives = await gather(ask_narratives(model, story, stage.seed, k, repairs) for k, stage in enumerate(stages))
    plans: list[Plan] = []
    summaries: list[str] = []
    for index, stage in enumerate(stages):
        if plans and story.strategy != "sequential":  # a strategy that shows them to the next
            summaries += await ask_summaries(model, story, plans[-1:], repairs)
        prompt = _prompt(story, stages, index, narratives[index], plans, summaries)
        subplans = await ask_plan(model, prompt, story, stage.timeline, index, repairs)
        plans.append(Plan(index, stage.seed, stage.timeline, narratives[index], subplans))
    return plans


async def make_stages(model: Model, story: Story, repairs: Repairs) -> list[Stage]:
    """The ten stages of a story."""
    where, count = about(story, "sub-seeds"), story.plans
    prompt = Prompt(
        f"seeds_{story.strategy}",
        {
            "topic": render_topic(story.topic),
            "profile": render_profile(story.profile),
            "timeline": show_timeline(story.timeline),
            "count": str(count),
        },
        where,
    )

    def read(reply: Completion, _: int) -> ReadReply[list[tuple[Seed, Timeline | None]]]:
        found = _read(reply.text, story.topic.category)
        if len(found) >= count:
            return found, None
        repairs.note(_STAGE, where, f"{len(found)} of {count} sub-seeds", "asked again")
        return found, f"{len(found)} of {count} entries could be used; each needs title, theme and subtopics."

    found = await ask(model, prompt, read)
    if len(found) < count:
        raise ModelError(f"{where}: {len(found)} of {count} sub-seeds in the reply", Outcome.UNREADABLE)
    if len(found) > count:
        repairs.note(_STAGE, where, f"{len(found)} sub-seeds, {count} asked for", "cut")
    seeds = [seed for seed, _ in found[:count]]
    if story.strategy == "sequential" and seeds[0] != story.topic:
        if seeds[0].title.casefold() != story.topic.title.casefold():
            repairs.note(_STAGE, where, f"first sub-seed {seeds[0].title!r:.80}", "set to the conversation's own seed")
        seeds[0] = story.topic
    told = [timeline for _, timeline in found[:count]]
    fitted = fit_timelines(told, story.timeline, story.layout.subplans, f"{where} from 1", repairs)
    return [Stage(seed, timeline) for seed, timeline in zip(seeds, fitted, strict=True)]


def fit_timelines(
    told: Sequence[Timeline | None], whole: Timeline, days: int, where: str, repairs: Repairs
) -> list[Timeline]:
    """Timelines in order inside `whole`, none overlapping, each of at least `days` days.

    A `UserError` says so where `whole` is too short for that.
    """
    found: list[Timeline] = []
    free = whole.start
    for number, timeline in enumerate(told, 1):
        if timeline is None or not _has(free, whole.end, days):
            break
        clipped = Timeline(max(timeline.start, free), min(timeline.end, whole.end))
        if not _has(clipped.start, clipped.end, days):
            break
        if clipped != timeline:
            repairs.note(_STAGE, where, f"days of stage {number}: {show_timeline(timeline)}", "clipped to fit")
        found.append(clipped)
        free = clipped.end + timedelta(1)
    if len(found) == len(told):
        return found
    length = (whole.end - whole.start).days + 1
    if length < days * len(told):
        raise UserError(f"{where}: {len(told)} plans of {days} days do not fit into {length} days; generate it again.")
    repairs.note(_STAGE, where, "days missing, out of order, overlapping or too few", "shared out evenly")
    bounds = [whole.start + timedelta(length * part // len(told)) for part in range(len(told) + 1)]
    return [Timeline(start, after - timedelta(1)) for start, after in pairwise(bounds)]


def _has(start: date, end: date, days: int) -> bool:
    return (end - start).days + 1 >= days


def _read(reply: str, category: str) -> list[tuple[Seed, Timeline | None]]:
    found: list[tuple[Seed, Timeline | None]] = []
    for entry in objects(reply) or []:
        seed = read_seed(entry, category)
        if seed is not None and seed.theme and seed.subtopics:
            found.append((seed, read_timeline(_span(entry.get("timeline")))))
    return found


def _span(value: object) -> str:
    """A timeline in JSON as text: a string, a list of two, or an object with start and end."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return " to ".join(part for part in parts if isinstance(part, str))


def _prompt(
    story: Story, stages: Sequence[Stage], index: int, narratives: str, plans: Sequence[Plan], summaries: Sequence[str]
) -> Prompt:
    variables = {
        "profile": render_profile(story.profile),
        "core": render_relationships(story.core),
        "newcomers": render_relationships(story.newcomers[index]),
        "timeline": show_timeline(stages[index].timeline),
        "narratives": narratives,
        **plan_size(story),
        "previous_plan": render_plan(plans[-1].subplans) if plans else "",
        "index": str(index),
        "introduce": "no" if plans else "yes",
    }
    if story.strategy == "sequential":
        variables["topic"] = render_topic(stages[index].seed)
    else:
        variables |= {
            "topic": render_topic(story.topic),
            "stage": _show(stages[index]),
            "stages": "\n\n".join(f"Stage {number}\n{_show(stage)}" for number, stage in enumerate(stages)),
            "summaries": "\n\n".join(f"Plan {number}: {text}" for number, text in enumerate(summaries)),
        }
    return Prompt(f"plan_{story.strategy}", variables, about(story, "plan", index))


def _show(stage: Stage) -> str:
    return f"{render_topic(stage.seed)}\nTimeline: {show_timeline(stage.timeline)}"


async def ask_summaries(model: Model, story: Story, plans: Sequence[Plan], repairs: Repairs) -> list[str]:
    """About a hundred words on each plan, asked for together."""
    return await gather(ask_summary(model, story, plan, repairs) for plan in plans)
