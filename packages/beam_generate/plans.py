"""Plans from a model: paper section 2.2.1 and Algorithm 1, lines 2 to 4 (10M: `beam_generate.long_plans`).

In this order: the biography (released code), narratives (Listing 23), the base plan (Listings 24 to 26), the three
special bullets of each sub-plan (Listing 27). What a model returns wrong:

- a biography or summary of quite another length is asked for again, then accepted as it is;
- fewer than 15 or more than 20 narratives: asked again; then more are cut to 20 and fewer accepted, none is an error;
- a plan that lacks batches, or has batches with less than half their bullets: asked again, saying which; the fuller
  version of each batch is taken. Batches that are still missing are an error, short ones are accepted;
- missing special bullets: asked again; those still missing stay absent;
- everything else is put right by the rules of `beam_generate.plan_rules`. Labels that no narrative has are accepted.

Every such case is noted in `Repairs`. An error is a `ModelError`: it stops this conversation, and nothing is kept of
the plan it concerns.
"""

from __future__ import annotations

from dataclasses import replace

from beam_generate.messages import refuses
from beam_generate.people import render_profile, render_relationships, render_traits
from beam_generate.plan_rules import (
    STAGE,
    SpecialBullets,
    add_special,
    assemble,
    complain,
    order_batches,
    take_special,
)
from beam_generate.plan_text import (
    Narrative,
    ParsedSubPlan,
    read_batches,
    read_narratives,
    render_narratives,
    render_plan,
    show_timeline,
)
from beam_generate.reply_json import objects
from beam_generate.seeds import render_topic
from beam_generate.shapes import Plan, Repairs, Story, SubPlan, Timeline
from beamlib.data.conversations import Seed
from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt
from beamlib.llm.retrying import ReadReply, ask

NARRATIVES = (15, 20)
_BIOGRAPHY = (80, 240)  # words; 120 to 160 are asked for
_SUMMARY = (20, 250)  # words; about 100 are asked for


def about(story: Story, what: str, index: int | None = None) -> str:
    """What a call concerns: `10M-1, plan 3, narratives` (plans counted from 0, as released)."""
    part = "" if index is None or story.plans == 1 else f"plan {index}, "
    return f"{story.size}-{story.number}, {part}{what}"


async def with_biography(model: Model, story: Story, repairs: Repairs) -> Story:
    """The story with the user's biography; without a call where it has one."""
    if story.profile.biography:
        return story
    variables = {"profile": render_profile(story.profile), "traits": render_traits(story.profile)}
    text = await _prose(model, Prompt("biography", variables, about(story, "biography")), _BIOGRAPHY, repairs)
    return replace(story, profile=replace(story.profile, biography=text))


async def make_plan(model: Model, story: Story, repairs: Repairs) -> Plan:
    """The one plan of a conversation below 10M."""
    story = await with_biography(model, story, repairs)
    narratives = await ask_narratives(model, story, story.topic, 0, repairs)
    prompt = Prompt(
        f"plan_{story.style}",
        {
            "topic": render_topic(story.topic),
            "profile": render_profile(story.profile),
            "relationships": render_relationships(story.core),
            **plan_size(story),
            "timeline": show_timeline(story.timeline),
            "narratives": narratives,
        },
        about(story, "plan", 0),
    )
    subplans = await ask_plan(model, prompt, story, story.timeline, 0, repairs)
    return Plan(0, story.topic, story.timeline, narratives, subplans)


def plan_size(story: Story) -> dict[str, str]:
    """The variables `subplans` and `bullets` of a plan's prompt."""
    return {"subplans": str(story.layout.subplans), "bullets": str(story.layout.bullets)}


async def ask_narratives(model: Model, story: Story, topic: Seed, index: int, repairs: Repairs) -> str:
    """Narratives of a topic as rendered text."""
    least, most = NARRATIVES
    where = about(story, "narratives", index)
    prompt = Prompt(f"narratives_{story.style}", {"topic": render_topic(topic)}, where)
    best: list[Narrative] = []

    def read(reply: Completion, _: int) -> ReadReply[list[Narrative]]:
        nonlocal best
        found = read_narratives(reply.text)
        _note_frame(reply.text, "LABEL", where, repairs)
        if least <= len(found) <= most:
            return found, None
        repairs.note(STAGE, where, f"{len(found)} narratives, {least} to {most} asked for", "asked again")
        best = max(best, found, key=len)
        return best, f"{len(found)} categories could be read; write {least} to {most} in the form asked for."

    found = await ask(model, prompt, read)
    if not found:
        raise ModelError(f"{where}: no narrative can be read in the reply", Outcome.UNREADABLE)
    if not least <= len(found) <= most:
        repairs.note(STAGE, where, f"{len(found)} narratives", "cut" if len(found) > most else "accepted")
    return render_narratives(found[:most])


async def ask_plan(
    model: Model, prompt: Prompt, story: Story, timeline: Timeline, index: int, repairs: Repairs
) -> tuple[SubPlan, ...]:
    """A plan in its two stages: the base plan that `prompt` asks for, then the special bullets."""
    size, where = story.layout, about(story, "plan", index)
    first: dict[int, ParsedSubPlan] = {}

    def read(reply: Completion, attempt: int) -> ReadReply[dict[int, ParsedSubPlan]]:
        nonlocal first
        if not attempt:
            _note_frame(reply.text, "BATCH", where, repairs)
        again = order_batches(read_batches(reply.text), size.subplans, where, repairs)
        fuller = {
            number: max(
                (part for part in (again.get(number), first.get(number)) if part), key=lambda part: len(part.bullets)
            )
            for number in sorted({*first, *again})
        }
        complaint = complain(fuller, size)
        if attempt and len(fuller) < size.subplans:
            raise ModelError(f"{where}: {complaint}", Outcome.UNREADABLE)
        if complaint:
            repairs.note(STAGE, where, complaint, "accepted" if attempt else "asked again")
        first = fuller
        return fuller, complaint or None

    base = assemble(await ask(model, prompt, read), size, timeline, where, repairs)
    return await _ask_special(model, base, story, index, repairs)


async def ask_summary(model: Model, story: Story, plan: Plan, repairs: Repairs) -> str:
    """About a hundred words on a plan, for the plans and answers after it."""
    prompt = Prompt("plan_summary", {"plan": render_plan(plan.subplans)}, about(story, "summary", plan.index))
    return await _prose(model, prompt, _SUMMARY, repairs)


async def _ask_special(
    model: Model, base: tuple[SubPlan, ...], story: Story, index: int, repairs: Repairs
) -> tuple[SubPlan, ...]:
    where = about(story, "special bullets", index)
    prompt = Prompt("special_bullets", {"plan": render_plan(base)}, where)
    found: dict[int, SpecialBullets] = {}

    def read(reply: Completion, _: int) -> ReadReply[dict[int, SpecialBullets]]:
        take_special(base, objects(reply.text) or [], found, where, repairs)
        lacking = "; ".join(
            f"batch {number} lacks {' and '.join(state.lacking)}" for number, state in found.items() if state.lacking
        )
        if not lacking:
            return found, None
        repairs.note(STAGE, where, lacking, "asked again")
        return found, f"{lacking}. Every batch needs all three."

    return add_special(base, await ask(model, prompt, read), where, repairs)


def _note_frame(reply: str, first: str, where: str, repairs: Repairs) -> None:
    """Note what stands before the first line that belongs to the form asked for, a line with the word `first`."""
    opening = next((line for line in reply.splitlines() if line.strip()), "")
    if first not in opening.upper() and first in reply.upper():
        repairs.note(STAGE, where, f"before the first {first}: {opening.strip()[:60]!r}", "taken off")


async def _prose(model: Model, prompt: Prompt, words: tuple[int, int], repairs: Repairs) -> str:
    """A reply of continuous text on one line, asked for twice where its length is far off."""
    least, most = words

    def read(reply: Completion, attempt: int) -> ReadReply[str]:
        text = _body(reply.text)
        count = len(text.split())
        if least <= count <= most:
            return text, None
        done = "accepted" if attempt and text else "asked again"
        repairs.note(STAGE, prompt.about, f"{count} words where {least} to {most} belong", done)
        if attempt and not text:
            raise ModelError(f"{prompt.about}: the reply holds no text", Outcome.EMPTY)
        if attempt and refuses(text):
            raise ModelError(f"{prompt.about}: the model answers {text[:60]!r}", Outcome.REFUSED)
        return text, f"Write {least} to {most} words of continuous text and nothing else."

    return await ask(model, prompt, read)


def _body(reply: str) -> str:
    """A reply's text without fences and without a line like `Here is the biography:` before it."""
    lines = [line for line in reply.strip().splitlines() if line.strip() and not line.strip().startswith("```")]
    if len(lines) > 1 and lines[0].rstrip(" *").endswith(":"):
        lines = lines[1:]
    return " ".join(" ".join(lines).split())
