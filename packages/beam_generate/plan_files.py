"""Stories and plans on file, in the released layout: topic.json, main_spec.txt, relationships.txt, labels.txt, plans.

Every text can be edited by hand: it is read back from where it stands, and what is wrong with it is a `UserError`.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beam_generate.people import Gender, Relation, render_profile, render_relationships
from beam_generate.plan_text import read_subplans, read_timeline, render_plan
from beam_generate.shapes import SPECIAL_LABELS, Person, Plan, Profile, Story, Strategy, Style, SubPlan, Timeline
from beam_generate.stages import settings_of
from beamlib.data.model import Seed, Size
from beamlib.errors import UserError
from beamlib.files import read_json, read_text, write_json, write_text

STORY, TOPIC, PROFILE, NARRATIVES = "story.json", "topic.json", "main_spec.txt", "labels.txt"
BASE_PLAN, PLAN = "plan.txt", "plan_new.txt"
PEOPLE, CORE, NEWCOMERS = "relationships.txt", "core_relationships.txt", "new_relationships.txt"
_RELATIONS: tuple[Relation, ...] = ("parent", "partner", "child", "friend", "acquaintance")
_PERSON = re.compile(r"• (?P<name>.+) \((?P<gender>male|female), age (?P<age>[0-9]{1,3})\)")
_FIELD = re.compile(r"^[\s•*-]*(Name|Age|Gender|Location|Profession):(.*)$", re.MULTILINE)


class _Facts(BaseModel):
    """story.json: what of a story no released file holds."""

    model_config = ConfigDict(extra="forbid")

    size: Size
    number: Annotated[int, Field(ge=1)]
    seed: int
    style: Style
    strategy: Strategy
    start: date
    end: date
    traits: list[str]


def plan_folder(folder: Path, story: Story, index: int) -> Path:
    """Where plan `index` of a conversation lies: `plan-<index>` at 10M, else the conversation's own folder."""
    return folder / f"plan-{index}" if story.size == "10M" else folder


def write_story(folder: Path, story: Story) -> list[Path]:
    """Write what stands before the first plan; the files written."""
    facts = _Facts(
        size=story.size, number=story.number, seed=story.seed, style=story.style, strategy=story.strategy,
        start=story.timeline.start, end=story.timeline.end, traits=list(story.profile.traits),
    )  # fmt: skip
    written = [
        write_json(folder / STORY, facts.model_dump(mode="json")),
        _write_topic(folder, story.number, story.topic),
        write_text(folder / PROFILE, render_profile(story.profile) + "\n"),
        write_text(folder / (CORE if story.size == "10M" else PEOPLE), render_relationships(story.core) + "\n"),
    ]
    for index, people in enumerate(story.newcomers):
        into = plan_folder(folder, story, index)
        rows = [{"name": p.name, "gender": p.gender, "age": p.age, "relation": p.relation} for p in people]
        written += [
            write_text(into / NEWCOMERS, render_relationships(people) + "\n"),
            write_json((into / NEWCOMERS).with_suffix(".json"), rows),
        ]
    return written


def read_story(folder: Path) -> Story:
    """The story of a conversation folder, its layout from the folder's record."""
    try:
        facts = _Facts.model_validate(read_json(folder / STORY))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(f"{folder / STORY}: {where}: {first['msg']}; delete the folder and generate it anew.") from None
    ten_million = facts.size == "10M"
    core = read_people(folder / (CORE if ten_million else PEOPLE))
    newcomers = [read_people(folder / f"plan-{index}" / NEWCOMERS) for index in range(10)] if ten_million else []
    return Story(
        size=facts.size, number=facts.number, seed=facts.seed, style=facts.style, topic=_read_topic(folder)[0],
        profile=replace(_read_profile(folder / PROFILE), traits=tuple(facts.traits)), core=core,
        newcomers=tuple(newcomers), timeline=Timeline(facts.start, facts.end), layout=settings_of(folder)[0],
        strategy=facts.strategy,
    )  # fmt: skip


def _write_topic(folder: Path, number: int, seed: Seed, timeline: Timeline | None = None) -> Path:
    value: dict[str, Any] = {"id": number, "category": seed.category, "title": seed.title, "theme": seed.theme}
    value["subtopics"] = list(seed.subtopics)
    if timeline is not None:
        value["timeline"] = f"{timeline.start.isoformat()} to {timeline.end.isoformat()}"
    return write_text(folder / TOPIC, json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def _read_topic(folder: Path) -> tuple[Seed, Timeline | None]:
    path = folder / TOPIC
    value = read_json(path)
    fields = ("category", "title", "theme")
    subtopics = value.get("subtopics") if isinstance(value, dict) else None
    if (
        not isinstance(value, dict)
        or not all(isinstance(value.get(name), str) for name in fields)
        or not isinstance(subtopics, list)
        or not all(isinstance(one, str) for one in subtopics)
    ):
        raise UserError(f"{path}: category, title and theme must be texts and subtopics a list of texts; correct it.")
    timeline = None
    if "timeline" in value:
        timeline = read_timeline(str(value["timeline"]))
        if timeline is None:
            raise UserError(f"{path}: 'timeline' must be like '2024-03-15 to 2024-09-01'; correct it.")
    return Seed(value["category"], value["title"], value["theme"], tuple(subtopics)), timeline


def _read_profile(path: Path) -> Profile:
    head, _, biography = read_text(path).partition("PERSONALITY OVERVIEW:")
    fields = {name: value.strip() for name, value in _FIELD.findall(head)}
    if missing := [name for name in ("Name", "Age", "Gender", "Location", "Profession") if not fields.get(name)]:
        raise UserError(f"{path}: the line '• {missing[0]}: ...' is missing; add it.")
    age = re.match("[0-9]{1,3}(?![0-9])", fields["Age"])
    if age is None or fields["Gender"].lower() not in ("male", "female"):
        raise UserError(f"{path}: Age must be a whole number and Gender Male or Female; correct it.")
    name, place, work = (fields[key] for key in ("Name", "Location", "Profession"))
    return Profile(name, int(age[0]), _gender(fields["Gender"].lower()), place, work, (), " ".join(biography.split()))


def _gender(text: str) -> Gender:
    return "male" if text == "male" else "female"


def read_people(path: Path) -> tuple[Person, ...]:
    """The people of a relationships file."""
    people: list[Person] = []
    relation: Relation | None = None
    for number, line in enumerate(filter(None, map(str.strip, read_text(path).split("\n"))), start=1):
        found = _PERSON.fullmatch(line)
        if found is None:
            relation = next((one for one in _RELATIONS if line.endswith(":") and one in line.lower()), None)
        if relation is None:
            raise UserError(
                f"{path}: line {number} (empty ones not counted) is {line[:60]!r}, neither a heading like 'CHILDREN:' "
                "nor, below one, somebody like '• Ada Byron (female, age 34)'; correct it."
            )
        if found is not None:
            people.append(Person(found["name"], _gender(found["gender"]), int(found["age"]), relation))
    return tuple(people)


def write_plan(folder: Path, story: Story, plan: Plan) -> list[Path]:
    """Write one plan's files; the files written."""
    into = plan_folder(folder, story, plan.index)
    base = [replace(one, bullets=tuple(b for b in one.bullets if b.special is None)) for one in plan.subplans]
    written = [
        write_text(into / NARRATIVES, plan.narratives.strip() + "\n"),
        write_text(into / BASE_PLAN, render_plan(base) + "\n"),
        write_text(into / PLAN, render_plan(plan.subplans) + "\n"),
    ]
    return [*written, _write_topic(into, plan.index + 1, plan.seed, plan.timeline)] if into != folder else written


def read_plan(folder: Path, story: Story, index: int = 0) -> Plan:
    """Plan `index` of a conversation folder, from plan_new.txt."""
    into = plan_folder(folder, story, index)
    seed, timeline = _read_topic(into) if into != folder else (story.topic, story.timeline)
    if timeline is None:
        raise UserError(f"{into / TOPIC}: the field 'timeline' is missing; add it, like '2024-03-15 to 2024-09-01'.")
    return Plan(index, seed, timeline, read_text(into / NARRATIVES).strip(), _read_subplans(into / PLAN))


def _read_subplans(path: Path) -> tuple[SubPlan, ...]:
    found = read_subplans(read_text(path), path)
    for number, subplan in enumerate(found, start=1):
        if subplan.number != number:
            raise UserError(f"{path}: 'BATCH {subplan.number} PLAN' stands where batch {number} belongs; correct it.")
        kinds = [one.special for one in subplan.bullets]
        order = [kind for kind in kinds if kind is not None]
        if len(set(order)) != len(order) or kinds[len(kinds) - len(order) :] != order:
            labels = ", ".join(SPECIAL_LABELS.values())
            raise UserError(
                f"{path}: in batch {number} the bullets {labels} must be the last ones, once each; correct it."
            )
    return found
