"""A conversation on file, in the released layout (reference 1.1 to 1.4): story, plans, questions, dialogue.

topic.json, main_spec.txt, relationships.txt, labels.txt and plans can be edited by hand: each text is read back from
where it stands, and what is wrong with it is a `UserError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beam_generate.people import Gender, Relation, render_profile, render_relationships
from beam_generate.plan_text import anchor, read_subplans, read_timeline, render_plan
from beam_generate.shapes import (
    SPECIAL_LABELS,
    DialogueMessage,
    DialogueTurn,
    MainQuestion,
    Person,
    Plan,
    Profile,
    Story,
    Strategy,
    Style,
    SubPlan,
    Timeline,
)
from beam_generate.stages import settings_of
from beamlib.data.chat import ChatParser
from beamlib.data.checked_json import Log
from beamlib.data.conversations import Seed, Size
from beamlib.data.markers import index_marker
from beamlib.data.sources import CHAT, QUESTIONS
from beamlib.errors import UserError
from beamlib.files import read_json, read_text, write_json, write_pieces, write_text

USER_MESSAGES = "user_messages.json"


def write_ordered(path: Path, value: Any) -> Path:
    """Write JSON as released files have it: keys in their order, indented by one."""
    return write_text(path, json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def index_of(batch: int, bullet: int | None) -> str:
    """The released coordinates of a question: `batch,bullet`, or `batch,N/A`."""
    return f"{batch},{'N/A' if bullet is None else bullet}"


def write_questions(folder: Path, story: Story, plan: Plan, questions: Sequence[Sequence[MainQuestion]]) -> Path:
    """Write user_messages.json of a plan; `questions[i]` belong to sub-plan i + 1. The link stands in `index` alone."""
    batches = [
        {
            "batch": subplan.number,
            "time_anchor": anchor(subplan.anchor),
            "messages": [
                {"role": "user", "index": index_of(subplan.number, one.bullet), "content": one.text} for one in asked
            ],
        }
        for subplan, asked in zip(plan.subplans, questions, strict=True)
    ]
    return write_ordered(plan_folder(folder, story, plan.index) / USER_MESSAGES, batches)


def read_questions(folder: Path, story: Story, plan: Plan) -> list[list[MainQuestion]]:
    """The questions of a plan from its user_messages.json, by sub-plan."""
    path = plan_folder(folder, story, plan.index) / USER_MESSAGES
    value = read_json(path)
    if not isinstance(value, list) or len(value) != len(plan.subplans):
        raise UserError(f"{path}: expected a list of {len(plan.subplans)} batches, one per sub-plan; correct it.")
    found = []
    for number, batch in enumerate(value, start=1):
        messages = batch.get("messages") if isinstance(batch, dict) and batch.get("batch") == number else None
        if not isinstance(messages, list) or not messages:
            raise UserError(f"{path}: batch {number}: expected 'batch': {number} and a list 'messages'; correct it.")
        bullets = len(plan.subplans[number - 1].bullets)
        found.append([_question(one, number, bullets, f"{path}: batch {number}, message {n}")
                      for n, one in enumerate(messages, start=1)])  # fmt: skip
    return found


def _question(value: Any, batch: int, bullets: int, where: str) -> MainQuestion:
    text = value.get("content") if isinstance(value, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise UserError(f"{where}: 'content' must be a text that is not empty; correct it.")
    marker = index_marker(value.get("index"), batch)
    if marker is None or any(not 1 <= bullet <= bullets for bullet in marker.bullets):
        raise UserError(
            f"{where}: 'index' is {str(value.get('index'))[:40]!r}; it must be '{batch},N/A' or '{batch},' and a "
            f"bullet from 1 to {bullets}; correct it."
        )
    return MainQuestion(text, marker.bullets[0] if marker.bullets else None)


def write_chat(folder: Path, story: Story, plan: Plan, turns: Sequence[DialogueTurn]) -> Path:
    """Write chat.json of a plan, ids from 0; the first message of a batch carries its time anchor."""
    path = plan_folder(folder, story, plan.index) / CHAT
    return write_pieces(path, _encoded(["", "\n"], [_batches(plan, turns)]))


def _batches(plan: Plan, turns: Sequence[DialogueTurn]) -> Iterator[dict[str, Any]]:
    by_batch: dict[int, list[DialogueTurn]] = {subplan.number: [] for subplan in plan.subplans}
    for turn in turns:
        by_batch[turn.batch].append(turn)
    next_id = 0
    for subplan in plan.subplans:
        spoken: list[list[dict[str, Any]]] = []
        for turn in by_batch[subplan.number]:
            messages = []
            for position, message in enumerate(turn.messages):
                value: dict[str, Any] = {"role": message.role, "id": next_id}
                if not spoken and not position:
                    value["time_anchor"] = anchor(subplan.anchor)
                if not position:
                    value["index"] = index_of(subplan.number, turn.bullet)
                if message.kind is not None:
                    value["question_type"] = message.kind
                messages.append({**value, "content": message.text})
                next_id += 1
            spoken.append(messages)
        yield {"batch_number": subplan.number, "turns": spoken, "time_anchor": None}


def _encoded(around: Sequence[str], plans: Iterable[Iterable[Mapping[str, Any]]]) -> Iterator[bytes]:
    """Plans as JSON in UTF-8, turn by turn, a message to a line; `around[0]` and `around[1]` enclose each plan."""
    dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    for plan in plans:
        yield f"{around[0]}[".encode()
        for number, batch in enumerate(plan):
            yield f'{"," if number else ""}\n {{"batch_number": {batch["batch_number"]}, "turns": ['.encode()
            for position, turn in enumerate(batch["turns"]):
                lines = ",\n   ".join(map(dumps, turn))
                yield f"{',' if position else ''}\n  [\n   {lines}\n  ]".encode()
            yield f'\n ], "time_anchor": {dumps(batch["time_anchor"])}}}'.encode()
        yield f"\n]{around[1]}".encode()


def read_turns(folder: Path, story: Story, plan: Plan) -> list[DialogueTurn]:
    """The turns of a plan from its chat.json, checked as the loader checks it."""
    path = plan_folder(folder, story, plan.index) / CHAT
    log = Log(CHAT, str(path))
    parsed = ChatParser(strip_markers=False).plan(read_json(path), log)
    turns = []
    for batch in parsed:
        for turn in batch.turns:
            first = turn.messages[0].marker
            said = tuple(DialogueMessage(message.role, message.content, message.kind) for message in turn.messages)
            bullet = first.bullets[0] if first is not None and first.bullets else None
            turns.append(DialogueTurn(plan.index, batch.number, bullet, said))
    return turns


def combine_chats(folder: Path, story: Story) -> Path:
    """Write the chat.json of a 10M conversation from those of its plans: `plan-1` first, ids counted through.

    One plan is held in memory at a time.
    """

    def plans() -> Iterator[list[dict[str, Any]]]:
        offset = 0
        for index in range(story.plans):
            path = plan_folder(folder, story, index) / CHAT
            value = read_json(path)
            parser = ChatParser(strip_markers=False)
            parser.plan(value, Log(CHAT, str(path)))  # what a hand has broken is said here, by file and place
            for batch in value:
                for turn in batch["turns"]:
                    for message in turn:
                        message["id"] += offset
            offset += parser.next_id
            yield value

    def pieces() -> Iterator[bytes]:
        yield b"["
        for number, plan in enumerate(plans(), start=1):
            yield from _encoded([f'{"," if number > 1 else ""}\n{{"plan-{number}": ', "}"], [plan])
        yield b"\n]\n"

    return write_pieces(folder / CHAT, pieces())


def write_probing_questions(folder: Path, questions: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    """Write the probing questions, abilities in alphabetical order, fields in the order given."""
    value = {ability: list(questions[ability]) for ability in sorted(questions)}
    return write_ordered(folder / QUESTIONS, value)


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
    return write_ordered(folder / TOPIC, value)


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
