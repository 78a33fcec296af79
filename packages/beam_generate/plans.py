"""Write plans with a model: paper section 2.2.1 and Algorithm 1.

A plan takes four steps: the biography (released code), narratives (Listing 23), the base plan (Listings 24 to 26) and
the three special bullets of each sub-plan (Listing 27). A conversation of 10M tokens has ten plans. They begin with ten
sub-seeds, each with its own days: successive events of a life (sequential expansion, Listing 28; the first is the
conversation's own seed) or phases of one storyline (hierarchical decomposition, Listing 29). Each plan is then written
knowing the plan before it (Listing 30); in a decomposition it also knows a summary of all earlier plans and the
sub-seeds to come (Listing 31).

A reply that falls short is asked for again once. After that, too few narratives, short batches and missing special
bullets are accepted and noted in `Repairs`. Without narratives, batches or sub-seeds the conversation stops with a
`ModelError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise

from beam_generate import plan_text
from beam_generate.people import render_profile, render_relationships, render_traits
from beam_generate.replies import one_line, read_objects, read_seed, refuses
from beam_generate.seeds import render_topic
from beam_generate.shapes import SPECIAL_LABELS, SPECIALS, Layout, Plan, Repairs, Story, SubPlan, Timeline
from beamlib.data.conversations import Seed
from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt
from beamlib.llm.retrying import ReadReply, ask, gather

NARRATIVES = (15, 20)
SETUP_LABEL = "Earlier Event"
"""Label of a bullet that tells of something done, so that a special bullet can contradict it."""
_BIOGRAPHY = (80, 240)  # words; the prompt asks for 120 to 160
_SUMMARY = (20, 250)  # words; the prompt asks for about 100


@dataclass(frozen=True, slots=True)
class SubSeed:
    """The topic and the days of one of ten plans."""

    seed: Seed
    timeline: Timeline


def about(story: Story, what: str, index: int | None = None) -> str:
    """Name the subject of a call: `10M-1, plan 3, narratives` (plans count from 0, as released)."""
    part = "" if index is None or story.plans == 1 else f"plan {index}, "
    return f"{story.size}-{story.number}, {part}{what}"


async def with_biography(model: Model, story: Story, repairs: Repairs) -> Story:
    """Add the user's biography to a story."""
    variables = {"profile": render_profile(story.profile), "traits": render_traits(story.profile)}
    text = await _ask_prose(model, Prompt("biography", variables, about(story, "biography")), _BIOGRAPHY, repairs)
    return replace(story, profile=replace(story.profile, biography=text))


async def make_plans(model: Model, story: Story, repairs: Repairs) -> list[Plan]:
    """Write the plans of a conversation that has a biography, in order: one below 10M, ten at 10M."""
    subseeds = await make_subseeds(model, story, repairs) if story.plans > 1 else [SubSeed(story.topic, story.timeline)]
    narratives = await gather(_ask_narratives(model, story, one.seed, k, repairs) for k, one in enumerate(subseeds))
    plans: list[Plan] = []
    summaries: list[str] = []
    for index, subseed in enumerate(subseeds):
        if plans and story.strategy != "sequential":  # the only strategy whose prompt has no summaries
            summaries += await ask_summaries(model, story, plans[-1:], repairs)
        prompt = _plan_prompt(story, subseeds, index, narratives[index], plans, summaries)
        subplans = await _ask_plan(model, prompt, story, subseed.timeline, index, repairs)
        plans.append(Plan(index, subseed.seed, subseed.timeline, narratives[index], subplans))
    return plans


async def ask_summaries(model: Model, story: Story, plans: Sequence[Plan], repairs: Repairs) -> list[str]:
    """Ask for about a hundred words on each plan, concurrently."""

    def prompt(plan: Plan) -> Prompt:
        return Prompt(
            "plan_summary", {"plan": plan_text.render_plan(plan.subplans)}, about(story, "summary", plan.index)
        )

    return await gather(_ask_prose(model, prompt(plan), _SUMMARY, repairs) for plan in plans)


def _plan_prompt(
    story: Story,
    subseeds: Sequence[SubSeed],
    index: int,
    narratives: str,
    plans: Sequence[Plan],
    summaries: Sequence[str],
) -> Prompt:
    def show(subseed: SubSeed) -> str:
        return f"{render_topic(subseed.seed)}\nTimeline: {plan_text.show_timeline(subseed.timeline)}"

    variables = {
        "topic": render_topic(story.topic),
        "profile": render_profile(story.profile),
        "timeline": plan_text.show_timeline(subseeds[index].timeline),
        "narratives": narratives,
        "subplans": str(story.layout.subplans),
        "bullets": str(story.layout.bullets),
    }
    if story.plans == 1:
        variables["relationships"] = render_relationships(story.core)
        return Prompt(f"plan_{story.style}", variables, about(story, "plan", 0))
    variables |= {
        "core": render_relationships(story.core),
        "newcomers": render_relationships(story.newcomers[index]),
        "previous_plan": plan_text.render_plan(plans[-1].subplans) if plans else "",
        "index": str(index),
        "introduce": "no" if plans else "yes",
    }
    if story.strategy == "sequential":
        variables["topic"] = render_topic(subseeds[index].seed)
    else:
        variables |= {
            "stage": show(subseeds[index]),
            "stages": "\n\n".join(f"Stage {number}\n{show(one)}" for number, one in enumerate(subseeds)),
            "summaries": "\n\n".join(f"Plan {number}: {text}" for number, text in enumerate(summaries)),
        }
    return Prompt(f"plan_{story.strategy}", variables, about(story, "plan", index))


async def _ask_narratives(model: Model, story: Story, topic: Seed, index: int, repairs: Repairs) -> str:
    """Ask for the narratives of a topic and render them."""
    least, most = NARRATIVES
    where = about(story, "narratives", index)
    prompt = Prompt(f"narratives_{story.style}", {"topic": render_topic(topic)}, where)
    best: list[plan_text.Narrative] = []

    def read(reply: Completion, _: int) -> ReadReply[list[plan_text.Narrative]]:
        nonlocal best
        narratives = plan_text.read_narratives(reply.text)
        if least <= len(narratives) <= most:
            return narratives, None
        repairs.note("plan", where, f"{len(narratives)} narratives, {least} to {most} asked for", "asked again")
        best = max(best, narratives, key=len)
        return best, f"{len(narratives)} categories could be read; write {least} to {most} in the form asked for."

    narratives = await ask(model, prompt, read)
    if not narratives:
        raise ModelError(f"{where}: no narrative can be read in the reply", Outcome.UNREADABLE)
    if not least <= len(narratives) <= most:
        action = "cut" if len(narratives) > most else "accepted"
        repairs.note("plan", where, f"{len(narratives)} narratives", action)
    return plan_text.render_narratives(narratives[:most])


async def _ask_plan(
    model: Model, prompt: Prompt, story: Story, timeline: Timeline, index: int, repairs: Repairs
) -> tuple[SubPlan, ...]:
    """Ask for the base plan, then for its special bullets. Of two replies, the fuller version of each batch counts."""
    layout, where = story.layout, about(story, "plan", index)
    fullest: dict[int, plan_text.ParsedSubPlan] = {}

    def read(reply: Completion, attempt: int) -> ReadReply[None]:
        for batch in plan_text.read_batches(reply.text):
            known = fullest.get(batch.number)
            if batch.number <= layout.subplans and (known is None or len(batch.bullets) > len(known.bullets)):
                fullest[batch.number] = batch
        complaint = _complaint(fullest, layout)
        if attempt and not set(range(1, layout.subplans + 1)) <= set(fullest):
            raise ModelError(f"{where}: {complaint}", Outcome.UNREADABLE)
        if complaint:
            repairs.note("plan", where, complaint, "accepted" if attempt else "asked again")
        return None, complaint or None

    await ask(model, prompt, read)
    batches = [fullest[number] for number in range(1, layout.subplans + 1)]
    return await _ask_special(model, _assemble(batches, layout, timeline, where, repairs), story, index, repairs)


def _complaint(batches: Mapping[int, plan_text.ParsedSubPlan], layout: Layout) -> str:
    """Say which batches are missing or have less than half their bullets; empty if none."""
    parts = []
    if missing := [str(number) for number in range(1, layout.subplans + 1) if number not in batches]:
        parts.append(f"these batches are missing: {', '.join(missing)}")
    for number, batch in sorted(batches.items()):
        if 2 * len(batch.bullets) < layout.bullets:
            parts.append(f"batch {number} has {len(batch.bullets)} of {layout.bullets} bullets")
    if not parts:
        return ""
    return f"The plan is not complete: {'; '.join(parts)}. Write all {layout.subplans} batches in full."


def _assemble(
    batches: Sequence[plan_text.ParsedSubPlan], layout: Layout, timeline: Timeline, where: str, repairs: Repairs
) -> tuple[SubPlan, ...]:
    """Build the base plan: the anchor first, its day in order, no special bullets, at most twice the bullets."""
    anchors: list[str] = []
    bodies: list[list[tuple[str, str]]] = []
    for number, batch in enumerate(batches, start=1):
        bullets = [bullet for bullet in batch.bullets if plan_text.special_of(bullet[0]) is None]
        place = next((place for place, (label, _) in enumerate(bullets[:3]) if plan_text.is_anchor(label)), None)
        anchors.append("" if place is None else bullets.pop(place)[1])
        if len(bullets) + 1 > 2 * layout.bullets:
            problem = f"{len(bullets) + 1} bullets, {layout.bullets} asked for"
            repairs.note("plan", f"{where}, batch {number}", problem, "cut")
            bullets = bullets[: layout.bullets - 1]
        bodies.append(bullets)
    named = [next(iter(plan_text.find_days(text)), None) for text in anchors]
    subplans = []
    for number, day in enumerate(fit_days(named, timeline), start=1):
        text, before = anchors[number - 1], named[number - 1]
        if before != day:
            problem = f"time anchor {before} out of order or timeline" if before else "no readable time anchor"
            repairs.note("plan", f"{where}, batch {number}", problem, f"set to {day}")
            text = plan_text.show_day(day)
        subplans.append(
            SubPlan(number, day, plan_text.number_bullets([(plan_text.ANCHOR_LABEL, text), *bodies[number - 1]]))
        )
    return tuple(subplans)


def fit_days(named: Sequence[date | None], timeline: Timeline) -> list[date]:
    """Return strictly increasing days inside the timeline.

    A day that is missing or does not fit becomes the first free one. The timeline needs a day for each.
    """
    days: list[date] = []
    free = timeline.start
    for index, day in enumerate(named):
        latest = timeline.end - timedelta(len(named) - 1 - index)
        days.append(day if day is not None and free <= day <= latest else free)
        free = days[-1] + timedelta(1)
    return days


async def _ask_special(
    model: Model, base: tuple[SubPlan, ...], story: Story, index: int, repairs: Repairs
) -> tuple[SubPlan, ...]:
    """Add the special bullets, and in the middle of a batch the setup that a contradiction needs."""
    where = about(story, "special bullets", index)
    prompt = Prompt("special_bullets", {"plan": plan_text.render_plan(base)}, where)
    special: dict[int, dict[str, str]] = {part.number: {} for part in base}

    def lacking(number: int) -> list[str]:
        return [SPECIAL_LABELS[kind] for kind in SPECIALS if kind not in special[number]]

    def read(reply: Completion, _: int) -> ReadReply[None]:
        for entry in read_objects(reply.text, prompt.id):
            texts = next((texts for number, texts in special.items() if str(entry.get("batch")) == str(number)), {})
            fresh = {kind: plan_text.bullet_text(one_line(entry.get(kind))) for kind in SPECIALS if kind not in texts}
            if fresh.get("contradiction"):
                texts["setup"] = plan_text.bullet_text(one_line(entry.get("setup")))
            texts |= {kind: text for kind, text in fresh.items() if text}
        parts = [f"batch {number} lacks {' and '.join(lacking(number))}" for number in special if lacking(number)]
        if not parts:
            return None, None
        repairs.note("plan", where, "; ".join(parts), "asked again")
        return None, f"{'; '.join(parts)}. Every batch needs all three."

    await ask(model, prompt, read)
    plan = []
    for part in base:
        texts = special[part.number]
        bullets = [(bullet.label, bullet.text) for bullet in part.bullets]
        if texts.get("setup"):
            bullets.insert((len(bullets) + 1) // 2, (SETUP_LABEL, texts["setup"]))
        bullets += [(SPECIAL_LABELS[kind], texts[kind]) for kind in SPECIALS if kind in texts]
        if lacking(part.number):
            problem = f"no {' and no '.join(lacking(part.number))}"
            repairs.note("plan", f"{where}, batch {part.number}", problem, "left without")
        plan.append(replace(part, bullets=plan_text.number_bullets(bullets)))
    return tuple(plan)


async def _ask_prose(model: Model, prompt: Prompt, words: tuple[int, int], repairs: Repairs) -> str:
    """Ask for continuous text; a text far off the length asked for is accepted at the second attempt."""
    least, most = words

    def read(reply: Completion, attempt: int) -> ReadReply[str]:
        text = " ".join(reply.text.split()).strip("` ")
        count = len(text.split())
        if least <= count <= most:
            return text, None
        if attempt and (not text or refuses(text)):
            problem = f"the model answers {text[:60]!r}" if text else "the reply holds no text"
            raise ModelError(f"{prompt.about}: {problem}", Outcome.REFUSED if text else Outcome.EMPTY)
        action = "accepted" if attempt else "asked again"
        repairs.note("plan", prompt.about, f"{count} words where {least} to {most} belong", action)
        return text, f"Write {least} to {most} words of continuous text and nothing else."

    return await ask(model, prompt, read)


async def make_subseeds(model: Model, story: Story, repairs: Repairs) -> list[SubSeed]:
    """Write the ten sub-seeds of a story."""
    where, count = about(story, "sub-seeds"), story.plans
    variables = {
        "topic": render_topic(story.topic),
        "profile": render_profile(story.profile),
        "timeline": plan_text.show_timeline(story.timeline),
        "count": str(count),
    }

    def read(reply: Completion, _: int) -> ReadReply[list[tuple[Seed, Timeline | None]]]:
        entries = read_objects(reply.text, f"seeds_{story.strategy}")
        read_entries = [(read_seed(entry, story.topic.category), one_line(entry.get("timeline"))) for entry in entries]
        subseeds = [(seed, plan_text.read_timeline(timeline)) for seed, timeline in read_entries if seed is not None]
        if len(subseeds) >= count:
            return subseeds[:count], None
        repairs.note("seeds", where, f"{len(subseeds)} of {count} sub-seeds", "asked again")
        return subseeds, f"{len(subseeds)} of {count} entries could be used; each needs title, theme and subtopics."

    subseeds = await ask(model, Prompt(f"seeds_{story.strategy}", variables, where), read)
    if len(subseeds) < count:
        raise ModelError(f"{where}: {len(subseeds)} of {count} sub-seeds in the reply", Outcome.UNREADABLE)
    seeds = [seed for seed, _ in subseeds]
    if story.strategy == "sequential":
        if seeds[0].title.casefold() != story.topic.title.casefold():
            repairs.note("seeds", where, f"first sub-seed {seeds[0].title!r:.80}", "set to the conversation's own seed")
        seeds[0] = story.topic
    timelines = [timeline for _, timeline in subseeds]
    fitted = fit_timelines(timelines, story.timeline, story.layout.subplans, f"{where} from 1", repairs)
    return [SubSeed(seed, timeline) for seed, timeline in zip(seeds, fitted, strict=True)]


def fit_timelines(
    timelines: Sequence[Timeline | None], whole: Timeline, days: int, where: str, repairs: Repairs
) -> list[Timeline]:
    """Return timelines in order inside `whole`, without overlaps, each of at least `days` days.

    If one is missing, too short, out of order or outside, all share the days evenly.
    """
    fitted = [timeline for timeline in timelines if timeline and (timeline.end - timeline.start).days + 1 >= days]
    in_order = all(one.end < other.start for one, other in pairwise(fitted))
    if len(fitted) == len(timelines) and in_order and whole.start <= fitted[0].start and fitted[-1].end <= whole.end:
        return fitted
    length = (whole.end - whole.start).days + 1
    repairs.note("seeds", where, "days missing, out of order, overlapping or too few", "shared out evenly")
    bounds = [whole.start + timedelta(length * part // len(timelines)) for part in range(len(timelines) + 1)]
    return [Timeline(start, after - timedelta(1)) for start, after in pairwise(bounds)]
