"""Plans from a scripted model: what a good one gives, and what becomes of each kind of bad reply."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_generate.people import TYPES, render_profile, render_relationships, render_traits
from beam_generate.plan_text import read_subplans, read_timeline, render_plan, show_day, show_timeline
from beam_generate.plans import (
    NARRATIVES,
    SETUP_LABEL,
    fit_days,
    fit_timelines,
    make_plans,
    make_subseeds,
    with_biography,
)
from beam_generate.seeds import make_story, render_topic
from beam_generate.shapes import Plan, Repairs, Story, Timeline
from beamlib.data.conversations import Size
from beamlib.llm.model import Completion, ModelError, Prompt
from beamlib.llm.prompts import prompt_file
from beamlib.params import usual_parameters

Wrong = Callable[[str, Prompt], str]
SPECIAL_LINE = "• **Information Update:** The fee of part 2 is $31 by now."
SPECIAL = {
    "update": "The fee of batch {n} is $31 by now.",
    "instruction": "Always add totals when I ask about part {n}.",
    "contradiction": "I have never set foot in part {n}.",
}


class Scripted:
    """Answers every prompt of this stage well; `wrong[id]` spoils a reply, the first one only unless `stubborn`."""

    name = "scripted"

    def __init__(self, stubborn: bool = False, **wrong: Wrong) -> None:
        self.wrong, self.stubborn = wrong, stubborn
        self.asked: list[Prompt] = []

    async def complete(self, prompt: Prompt) -> Completion:
        assert all(value in prompt.messages[0]["content"] for value in prompt.variables.values())
        self.asked.append(prompt)
        await asyncio.sleep(0)
        reply = self._good(prompt)
        if prompt.id in self.wrong and (self.stubborn or prompt.attempt == 0):
            reply = self.wrong[prompt.id](reply, prompt)
        return Completion(reply)

    def _good(self, prompt: Prompt) -> str:
        given = prompt.variables
        if prompt.id in ("biography", "plan_summary"):
            return "word " * 120
        if prompt.id.startswith("narratives_"):
            blocks = (
                f"{n}. LABEL CATEGORY: Part {n}\n   LABEL DESCRIPTION: It\n   Focus Areas: A, B, C"
                for n in range(1, 17)
            )
            return "\n\n".join(blocks)
        if prompt.id.startswith("seeds_"):
            return json.dumps(stages(prompt))
        if prompt.id == "special_bullets":
            numbers = map(int, re.findall(r"^BATCH (\d+)", given["plan"], re.MULTILINE))
            return json.dumps(
                [{"batch": n, **{kind: text.format(n=n) for kind, text in SPECIAL.items()}} for n in numbers]
            )
        whole = read_timeline(given["timeline"])
        assert whole is not None
        return "\n\n".join(batch(n, whole, int(given["bullets"])) for n in range(1, int(given["subplans"]) + 1))

    def ids(self) -> list[str]:
        return [prompt.id for prompt in self.asked]


def batch(number: int, whole: Timeline, bullets: int) -> str:
    lines = [f"• **Part {n}:A:** I paid ${n} in session {number}." for n in range(2, bullets + 1)]
    return "\n".join(
        (f"BATCH {number} PLAN", f"• **Time Anchor:** {show_day(whole.start + timedelta(number))}", *lines)
    )


def stages(prompt: Prompt) -> list[dict[str, object]]:
    whole, count = read_timeline(prompt.variables["timeline"]), int(prompt.variables["count"])
    assert whole is not None
    span = (whole.end - whole.start).days // count
    own = re.findall(r"Title: (.*)", prompt.variables["topic"]) if prompt.id == "seeds_sequential" else []
    titles = [*own, *(f"Stage {n}" for n in range(count))]
    return [
        {
            "title": titles[n],
            "theme": "A theme",
            "subtopics": ["One", "Two"],
            "timeline": f"{whole.start + timedelta(span * n)} to {whole.start + timedelta(span * n + span - 1)}",
        }
        for n in range(count)
    ]


def story(size: Size = "100K", strategy: str = "hierarchical", domain: str = "Trip Planning") -> Story:
    return make_story(usual_parameters(size, generation_seed=5, domain=domain, strategy=strategy), 1)


def made(model: Scripted, told: Story | None = None) -> tuple[Plan, Repairs]:
    (plan,), repairs = all_plans(model, told or story())
    return plan, repairs


def all_plans(model: Scripted, told: Story) -> tuple[list[Plan], Repairs]:
    repairs = Repairs()
    whole = asyncio.run(with_biography(model, told, repairs))
    return asyncio.run(make_plans(model, whole, repairs)), repairs


def check(plan: Plan, subplans: int, lacking: int = 0) -> None:
    """What holds for every plan, however it came about."""
    assert read_subplans(render_plan(plan.subplans), Path("plan.txt")) == plan.subplans  # numbers, anchors, order
    assert len(plan.subplans) == subplans
    days = [part.anchor for part in plan.subplans]
    assert fit_days(days, plan.timeline) == days
    found = [bullet.special for part in plan.subplans for bullet in part.bullets if bullet.special]
    assert len(found) == 3 * subplans - lacking


@pytest.mark.parametrize(
    ("domain", "style", "subplans", "bullets"),
    [("Trip Planning", "general", 5, 23), ("Coding", "coding", 3, 26), ("Math", "math", 3, 28)],
)
def test_a_good_model_is_asked_four_times_and_nothing_is_repaired(
    domain: str, style: str, subplans: int, bullets: int
) -> None:
    model = Scripted()
    plan, repairs = made(model, story(domain=domain))
    assert model.ids() == ["biography", f"narratives_{style}", f"plan_{style}", "special_bullets"]
    assert repairs.entries == []
    check(plan, subplans)
    assert {len(part.bullets) for part in plan.subplans} == {bullets}
    assert plan.narratives.count("LABEL CATEGORY") == 16
    assert "word word" in model.asked[2].variables["profile"]
    assert plan.narratives == model.asked[2].variables["narratives"]


@pytest.mark.parametrize("domain", ["Trip Planning", "Coding", "Math"])
def test_each_call_is_given_what_the_paper_says(domain: str) -> None:
    told, model = story(domain=domain), Scripted()
    plan, _ = made(model, told)
    portrait, narratives, whole, special = (prompt.variables for prompt in model.asked)
    biography = " ".join(["word"] * 120)
    profile = render_profile(replace(told.profile, biography=biography))
    assert portrait == {"profile": render_profile(told.profile), "traits": render_traits(told.profile)}
    assert all(TYPES[trait] in portrait["traits"] for trait in told.profile.traits) and len(told.profile.traits) == 6
    known = told.profile
    facts = (known.name, str(known.age), known.gender.title(), known.place, known.profession, biography)
    assert all(fact in profile for fact in facts)
    assert narratives == {"topic": render_topic(told.topic)}
    assert whole == {
        "topic": render_topic(told.topic),
        "profile": profile,
        "relationships": render_relationships(told.core),
        "timeline": show_timeline(told.timeline),
        "narratives": plan.narratives,
        "subplans": str(told.layout.subplans),
        "bullets": str(told.layout.bullets),
    }
    assert told.core and all(f"{one.name} ({one.gender}, age {one.age})" in whole["relationships"] for one in told.core)
    base = (replace(one, bullets=tuple(b for b in one.bullets if b.special is None)) for one in plan.subplans)
    assert special["plan"] == render_plan(base)


@pytest.mark.parametrize("style", ["general", "coding", "math"])
def test_narratives_are_15_to_20_wherever_they_are_counted(style: str) -> None:
    assert NARRATIVES == (15, 20) and "15 to 20" in prompt_file(f"narratives_{style}").template


def swap(pattern: str, new: str, count: int = 0) -> Wrong:
    return lambda reply, _: re.sub(pattern, new, reply, count=count)


def each(**values: object) -> Wrong:
    return lambda reply, _: json.dumps([entry | values for entry in json.loads(reply)])


def drop(number: int) -> Wrong:
    return lambda reply, _: "\n\n".join(part for part in reply.split("\n\n") if f"BATCH {number} " not in part)


SPOILED: dict[str, tuple[dict[str, Wrong], str]] = {
    "prose and fence": ({"plan_general": lambda text, _: f"Here you go:\n```\n{text}\n```\nEnjoy it!"}, ""),
    "trailing mention": ({"plan_general": lambda text, _: f"{text}\n\nThis ends\nBATCH 5 PLAN"}, ""),
    "missing batch": ({"plan_general": drop(3)}, "these batches are missing: 3"),
    "no plan at all": ({"plan_general": lambda text, _: "I cannot."}, "these batches are missing: 1, 2, 3, 4, 5"),
    "extra batch": ({"plan_general": lambda text, _: text + "\n\nBATCH 6 PLAN\n• **A:** b"}, ""),
    "order": ({"plan_general": lambda text, _: "\n\n".join(reversed(text.split("\n\n")))}, ""),
    "extra bullets": ({"plan_general": swap(r"(BATCH 2 (?:.*\n){2}(?:.*\n){10})", "\\1" + "• **X:** y\n" * 40)}, "cut"),
    "short batch": (
        {"plan_general": lambda text, _: re.sub(r"(BATCH 2 .*\n.*\n.*\n)(?:•.*\n)*", r"\1\n", text)},
        "batch 2 has 2 of 20 bullets",
    ),
    "no anchors": ({"plan_general": swap(r"• \*\*Time Anchor.*\n", "")}, "no readable time anchor"),
    "anchor outside": ({"plan_general": swap(r"(Time Anchor:\*\*) .*", r"\1 May 1, 1999", 2)}, "out of order or"),
    "equal anchors": ({"plan_general": swap(r"(Time Anchor:\*\*) .*", r"\1 2024-01-01")}, "out of order or"),
    "late anchor": ({"plan_general": lambda text, _: re.sub(r"(• \*\*Time.*\n)(•.*\n)", r"\2\1", text)}, ""),
    "early specials": ({"plan_general": lambda text, _: text + "\n" + SPECIAL_LINE}, ""),
    "special missing": ({"special_bullets": each(instruction="")}, "lacks User Instruction"),
    "special twice": ({"special_bullets": lambda text, _: json.dumps(json.loads(text) * 2)}, ""),
    "special prose": ({"special_bullets": lambda text, _: "Sorry, I cannot help."}, "batch 1 lacks Information"),
    "special elsewhere": ({"special_bullets": swap('"batch": 3', '"batch": 33')}, "batch 3 lacks Information"),
    "special odd": ({"special_bullets": each(update=7)}, "lacks Information Update"),
    "special labelled": ({"special_bullets": each(update="• **Information Update:** It costs $31.")}, ""),
    "few narratives": ({"narratives_general": lambda text, _: text[: text.index("5. ")]}, "4 narratives"),
    "no narratives": ({"narratives_general": lambda text, _: "None."}, "0 narratives"),
    "many narratives": ({"narratives_general": lambda text, _: text + "\n\n" + text}, "32 narratives"),
    "short biography": ({"biography": lambda text, _: "Kind."}, "1 words where"),
    "empty biography": ({"biography": lambda text, _: "```\n```"}, "0 words where"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_bad_reply_is_repaired_or_asked_again_and_noted(name: str) -> None:
    wrong, noted = SPOILED[name]
    plan, repairs = made(Scripted(**wrong))
    check(plan, 5)
    assert min(len(part.bullets) for part in plan.subplans) >= 23 - (name == "early specials")
    assert max(len(part.bullets) for part in plan.subplans) <= 24
    found = "\n".join(" | ".join(entry) for entry in repairs.entries)
    assert noted in found
    assert bool(noted) == bool(found)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing batch", "100K-1, plan: .*these batches are missing: 3"),
        ("no plan at all", "these batches are missing: 1, 2"),
        ("no narratives", "100K-1, narratives: no narrative"),
        ("empty biography", "100K-1, biography: the reply holds no text"),
    ],
)
def test_a_model_that_stays_wrong_stops_the_conversation(name: str, message: str) -> None:
    model = Scripted(stubborn=True, **SPOILED[name][0])
    with pytest.raises(ModelError, match=message):
        made(model)
    assert model.asked[-1].attempt == 1
    assert model.asked[-1].complaint


@pytest.mark.parametrize(("name", "lacking"), [("special missing", 5), ("special prose", 15)])
def test_special_bullets_that_never_come_stay_absent(name: str, lacking: int) -> None:
    plan, repairs = made(Scripted(stubborn=True, **SPOILED[name][0]))
    check(plan, 5, lacking)
    assert sum(entry[3] == "left without" for entry in repairs.entries) == 5


@pytest.mark.parametrize("name", ["few narratives", "many narratives", "short biography", "short batch"])
def test_what_is_merely_too_little_or_too_much_is_accepted_at_last(name: str) -> None:
    plan, repairs = made(Scripted(stubborn=True, **SPOILED[name][0]))
    check(plan, 5)
    assert repairs.entries[-1][3] in ("accepted", "cut")
    assert plan.narratives.count("LABEL CATEGORY") == {"few narratives": 4, "many narratives": 20}.get(name, 16)


def test_a_second_reply_may_bring_only_what_was_missing() -> None:
    def only(text: str, prompt: Prompt) -> str:
        return "\n\n".join(part for part in text.split("\n\n") if ("BATCH 3 " in part) == bool(prompt.attempt))

    def only_special(text: str, prompt: Prompt) -> str:
        return json.dumps([entry for entry in json.loads(text) if (entry["batch"] == 3) == bool(prompt.attempt)])

    plan, _ = made(Scripted(stubborn=True, plan_general=only, special_bullets=only_special))
    check(plan, 5)


def test_a_bullet_that_prepares_the_contradiction_goes_into_the_batch() -> None:
    def prepared(text: str, _: Prompt) -> str:
        return json.dumps(
            [entry | {"setup": "I went to part 2." * (entry["batch"] == 2)} for entry in json.loads(text)]
        )

    plan, repairs = made(Scripted(special_bullets=prepared))
    check(plan, 5)
    assert [len(part.bullets) for part in plan.subplans] == [23, 24, 23, 23, 23]
    setup = plan.subplans[1].bullets[10]
    assert (setup.label, setup.text) == (SETUP_LABEL, "I went to part 2.")
    assert not repairs.entries


@given(st.lists(st.none() | st.integers(-5, 40), min_size=1, max_size=8), st.integers(0, 30))
def test_days_are_put_in_order(offsets: list[int | None], spare: int) -> None:
    start = date(2024, 2, 20)
    timeline = Timeline(start, start + timedelta(len(offsets) - 1 + spare))
    named = [None if offset is None else start + timedelta(offset) for offset in offsets]
    days = fit_days(named, timeline)
    assert all(before < after for before, after in pairwise(days))
    assert timeline.start <= days[0] <= days[-1] <= timeline.end
    assert fit_days(days, timeline) == days


# Ten plans


@pytest.mark.parametrize("strategy", ["sequential", "hierarchical"])
def test_ten_plans_follow_one_another(strategy: str) -> None:
    model = Scripted()
    plans, repairs = all_plans(model, story("10M", strategy))
    assert repairs.entries == []
    assert [plan.index for plan in plans] == list(range(10))
    for plan in plans:
        check(plan, 10)
    assert all(one.timeline.end < other.timeline.start for one, other in pairwise(plans))
    asked = [prompt.variables for prompt in model.asked if prompt.id == f"plan_{strategy}"]
    assert [given["introduce"] for given in asked] == ["yes"] + ["no"] * 9
    assert [given["index"] for given in asked] == [str(number) for number in range(10)]
    assert [given["previous_plan"] for given in asked] == ["", *(render_plan(plan.subplans) for plan in plans[:-1])]
    assert len({given["newcomers"] for given in asked}) == 10
    assert len({given["core"] for given in asked}) == 1
    if strategy == "sequential":
        assert plans[0].seed == story("10M").topic
        assert "plan_summary" not in model.ids()
    else:
        assert model.ids().count("plan_summary") == 9
        assert [given["summaries"].count("Plan ") for given in asked] == list(range(10))
        assert all("Stage 9\n" in given["stages"] for given in asked)


def check_timelines(found: list[Timeline], whole: Timeline) -> None:
    assert whole.start <= found[0].start and found[-1].end <= whole.end
    assert all((one.end - one.start).days >= 9 for one in found)
    assert all(one.end < other.start for one, other in pairwise(found))


def changed(index: int, **fields: object) -> Wrong:
    def spoil(reply: str, prompt: Prompt) -> str:
        entries = stages(prompt)
        entries[index] = {**entries[index], **fields}
        return json.dumps(entries)

    return spoil


class Summarizing(Scripted):
    """Summarizes each plan in other words."""

    def _good(self, prompt: Prompt) -> str:
        return f"{prompt.about} went by. " * 20 if prompt.id == "plan_summary" else super()._good(prompt)


@pytest.mark.parametrize("strategy", ["hierarchical", "sequential"])
def test_each_of_ten_plans_is_given_what_the_paper_says(strategy: str) -> None:
    told, model = story("10M", strategy), Summarizing()
    plans, _ = all_plans(model, told)
    biography = " ".join(["word"] * 120)
    profile = render_profile(replace(told.profile, biography=biography))
    (seeds,) = [prompt.variables for prompt in model.asked if prompt.id == f"seeds_{strategy}"]
    assert seeds == {
        "topic": render_topic(told.topic), "profile": profile, "timeline": show_timeline(told.timeline), "count": "10"
    }  # fmt: skip
    narratives = [prompt.variables["topic"] for prompt in model.asked if prompt.id.startswith("narratives_")]
    assert sorted(narratives) == sorted(render_topic(plan.seed) for plan in plans)
    summarized = {prompt.about: prompt.variables["plan"] for prompt in model.asked if prompt.id == "plan_summary"}
    subseeds = [f"{render_topic(plan.seed)}\nTimeline: {show_timeline(plan.timeline)}" for plan in plans]
    asked = [prompt.variables for prompt in model.asked if prompt.id == f"plan_{strategy}"]
    for plan, shown in zip(plans, asked, strict=True):
        assert shown["profile"] == profile and shown["narratives"] == plan.narratives
        assert shown["timeline"] == show_timeline(plan.timeline)
        assert shown["core"] == render_relationships(told.core)
        assert shown["newcomers"] == render_relationships(told.newcomers[plan.index]) != ""
        assert (shown["subplans"], shown["bullets"]) == (str(told.layout.subplans), str(told.layout.bullets))
        if strategy == "sequential":
            assert shown["topic"] == render_topic(plan.seed)
            continue
        assert shown["topic"] == render_topic(told.topic) and shown["stage"] == subseeds[plan.index]
        assert shown["stages"] == "\n\n".join(f"Stage {n}\n{text}" for n, text in enumerate(subseeds))
        earlier = [summary for summary in summarized if f"plan {plan.index}," not in summary][: plan.index]
        assert shown["summaries"] == "\n\n".join(
            f"Plan {n}: {' '.join([f'{about} went by.'] * 20)}" for n, about in enumerate(earlier)
        )
    if strategy == "hierarchical":
        assert list(summarized.values()) == [render_plan(plan.subplans) for plan in plans[:-1]]


@pytest.mark.parametrize(
    ("wrong", "noted"),
    [
        (lambda text, _: f"Gladly.\n```json\n{text}\n```", ""),
        (lambda text, _: json.dumps(json.loads(text)[:6]), "6 of 10 sub-seeds"),
        (lambda text, _: "no", "0 of 10 sub-seeds"),
        (lambda text, _: json.dumps(json.loads(text) * 2), ""),
        (changed(3, timeline="some time"), "shared out evenly"),
        (changed(3, timeline={"start": "2020-01-01", "end": "2020-05-01"}), "shared out evenly"),
        (changed(9, timeline="2026-01-01 to 2099-01-01"), "shared out evenly"),
    ],
)
def test_sub_seeds_are_repaired(wrong: Wrong, noted: str) -> None:
    repairs, told = Repairs(), story("10M")
    found = asyncio.run(make_subseeds(Scripted(seeds_hierarchical=wrong), told, repairs))
    assert len(found) == 10
    check_timelines([one.timeline for one in found], told.timeline)
    notes = "\n".join(" | ".join(entry) for entry in repairs.entries)
    assert noted in notes
    assert bool(noted) == bool(notes)


def test_sub_seeds_that_never_come_are_an_error() -> None:
    model = Scripted(stubborn=True, seeds_hierarchical=lambda text, _: "[]")
    with pytest.raises(ModelError, match="10M-1, sub-seeds: 0 of 10"):
        asyncio.run(make_subseeds(model, story("10M"), Repairs()))


SPANS = st.none() | st.tuples(st.integers(-200, 800), st.integers(0, 200))


@given(st.lists(SPANS, min_size=1, max_size=10))
def test_timelines_never_overlap_or_leave_the_whole(spans: list[tuple[int, int] | None]) -> None:
    start = date(2024, 3, 1)
    whole = Timeline(start, start + timedelta(500))
    told = [span and Timeline(start + timedelta(span[0]), start + timedelta(sum(span))) for span in spans]
    found = fit_timelines(told, whole, 10, "test", Repairs())
    check_timelines(found, whole)
