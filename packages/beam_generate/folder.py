"""Read and write the folder of a generated conversation: the released layout and the record `generation.json`.

Topic, plans, main questions and chats may be edited by hand; an error in them is a `UserError` that names the place.

The record holds each stage that is complete, with the hashes of its files and of the files it was made from. A file
that changed afterwards was edited by hand: it is kept, and later stages made from its older version are made again. At
10M each plan has a folder and a record of its own, so that processes can work on plans independently.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from beam_generate.people import draw_people, render_profile, render_relationships
from beam_generate.plan_text import anchor, read_subplans, read_timeline, render_plan
from beam_generate.seeds import style_of
from beam_generate.shapes import DialogueMessage, DialogueTurn, Layout, Limits, MainQuestion, Plan, Story, Timeline
from beamlib.data.chat import ChatParser
from beamlib.data.checked_json import Log
from beamlib.data.conversations import Seed
from beamlib.data.sources import QUESTIONS
from beamlib.errors import UserError
from beamlib.files import read_json, read_text, sha256_of_file, write_json, write_pieces, write_text
from beamlib.places import CHAT, RECORD

STORY, TOPIC, PROFILE, NARRATIVES = "story.json", "topic.json", "main_spec.txt", "labels.txt"
BASE_PLAN, PLAN, USER_MESSAGES = "plan.txt", "plan_new.txt", "user_messages.json"
PEOPLE, CORE, NEWCOMERS = "relationships.txt", "core_relationships.txt", "new_relationships.txt"
_BIOGRAPHY = "PERSONALITY OVERVIEW:"

StageState = Literal["missing", "done", "edited", "stale"]
"""`missing`: not finished. `done`: as it was written. `edited`: complete, changed by hand, kept. `stale`: written by
another author or from files that changed since, so it is made again."""
_Value = TypeVar("_Value")
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


class _QuestionMessage(BaseModel):
    index: str
    content: Text


class _QuestionBatch(BaseModel):
    batch: int
    messages: Annotated[list[_QuestionMessage], Field(min_length=1)]


def validate(kind: type[_Value], value: Any, where: object) -> _Value:
    """Validate a JSON value; a `UserError` names the place (`where`), the field and the problem."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        problem = error.errors()[0]
        field = "".join(f"{part}: " for part in problem["loc"])
        raise UserError(f"{where}: {field}{problem['msg']}; correct it.") from None


def write_ordered(path: Path, value: Any) -> Path:
    """Write JSON as released files have it: keys in their order, indented by one."""
    return write_text(path, json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def plan_folder(folder: Path, story: Story, index: int) -> Path:
    """Return the folder of a plan: `plan-<index>` at 10M, else the conversation's own folder."""
    return folder / f"plan-{index}" if story.size == "10M" else folder


def write_story(folder: Path, story: Story) -> list[Path]:
    """Write topic, people and dates; return the files."""
    facts = {
        "size": story.size, "number": story.number, "seed": story.seed, "style": story.style,
        "strategy": story.strategy, "start": story.timeline.start.isoformat(), "end": story.timeline.end.isoformat(),
        "traits": list(story.profile.traits),
    }  # fmt: skip
    files = [
        write_json(folder / STORY, facts),
        _write_topic(folder, story.number, story.topic),
        write_text(folder / PROFILE, render_profile(story.profile) + "\n"),
        write_text(folder / (CORE if story.size == "10M" else PEOPLE), render_relationships(story.core) + "\n"),
    ]
    for index, people in enumerate(story.newcomers):
        into = plan_folder(folder, story, index) / NEWCOMERS
        files.append(write_text(into, render_relationships(people) + "\n"))
        files.append(write_json(into.with_suffix(".json"), [asdict(person) for person in people]))
    return files


def read_story(folder: Path) -> Story:
    """Return the story of a conversation folder: people are drawn again, the rest is read."""
    drawn = read_record(folder).get("parameters", {})
    timeline = validate(Timeline, read_json(folder / STORY), folder / STORY)
    topic, _ = _read_topic(folder)
    people = draw_people(drawn["size"], drawn["number"], drawn["seed"])
    biography = " ".join(read_text(folder / PROFILE).partition(_BIOGRAPHY)[2].split())
    return Story(
        size=drawn["size"], number=drawn["number"], seed=drawn["seed"], style=style_of(topic.category), topic=topic,
        profile=replace(people.profile, biography=biography), core=people.core, newcomers=people.newcomers,
        timeline=timeline, layout=_settings_of(folder)[0], strategy=drawn["strategy"],
    )  # fmt: skip


def _write_topic(folder: Path, number: int, seed: Seed, timeline: Timeline | None = None) -> Path:
    days = {"timeline": f"{timeline.start.isoformat()} to {timeline.end.isoformat()}"} if timeline else {}
    return write_ordered(folder / TOPIC, {"id": number, **asdict(seed), **days})


def _read_topic(folder: Path) -> tuple[Seed, Timeline | None]:
    topic = read_json(folder / TOPIC)
    return validate(Seed, topic, folder / TOPIC), read_timeline(str(topic.get("timeline", "")))


def write_plan(folder: Path, story: Story, plan: Plan) -> list[Path]:
    """Write the files of a plan and return them."""
    into = plan_folder(folder, story, plan.index)
    base = [replace(one, bullets=tuple(b for b in one.bullets if b.special is None)) for one in plan.subplans]
    files = [
        write_text(into / NARRATIVES, plan.narratives.strip() + "\n"),
        write_text(into / BASE_PLAN, render_plan(base) + "\n"),
        write_text(into / PLAN, render_plan(plan.subplans) + "\n"),
    ]
    return [*files, _write_topic(into, plan.index + 1, plan.seed, plan.timeline)] if into != folder else files


def read_plan(folder: Path, story: Story, index: int = 0) -> Plan:
    """Read plan `index` of a conversation folder."""
    into = plan_folder(folder, story, index)
    seed, timeline = _read_topic(into) if into != folder else (story.topic, story.timeline)
    if timeline is None:
        raise UserError(f"{into / TOPIC}: 'timeline' must be like '2024-03-15 to 2024-09-01'; correct it.")
    subplans = read_subplans(read_text(into / PLAN), into / PLAN)
    return Plan(index, seed, timeline, read_text(into / NARRATIVES).strip(), subplans)


def index_of(batch: int, bullet: int | None) -> str:
    """Format the link of a question as released: `batch,bullet`, or `batch,N/A`."""
    return f"{batch},{'N/A' if bullet is None else bullet}"


def write_questions(folder: Path, story: Story, plan: Plan, questions: Sequence[Sequence[MainQuestion]]) -> Path:
    """Write the main questions of a plan, given by sub-plan. Only the field `index` holds the link to a bullet."""
    batches = [
        {
            "batch": subplan.number,
            "time_anchor": anchor(subplan.anchor),
            "messages": [
                {"role": "user", "index": index_of(subplan.number, one.bullet), "content": one.text} for one in some
            ],
        }
        for subplan, some in zip(plan.subplans, questions, strict=True)
    ]
    return write_ordered(plan_folder(folder, story, plan.index) / USER_MESSAGES, batches)


def read_questions(folder: Path, story: Story, plan: Plan) -> list[list[MainQuestion]]:
    """Read the main questions of a plan, by sub-plan."""
    path = plan_folder(folder, story, plan.index) / USER_MESSAGES
    batches = validate(list[_QuestionBatch], read_json(path), path)
    if [batch.batch for batch in batches] != [subplan.number for subplan in plan.subplans]:
        raise UserError(f"{path}: expected the batches 1 to {len(plan.subplans)}, one per sub-plan; correct it.")
    questions = []
    for subplan, batch in zip(plan.subplans, batches, strict=True):
        known = {index_of(subplan.number, number): number for number in (None, *(b.number for b in subplan.bullets))}
        for message in batch.messages:
            if message.index not in known:
                raise UserError(f"{path}: 'index' is {message.index!r}; use one of {', '.join(known)}.")
        questions.append([MainQuestion(message.content, known[message.index]) for message in batch.messages])
    return questions


def write_chat(folder: Path, story: Story, plan: Plan, turns: Sequence[DialogueTurn]) -> Path:
    """Write the chat of a plan with ids from 0; the first message of a batch carries its time anchor."""
    batches = []
    ids = count()
    for subplan in plan.subplans:
        batch: list[list[dict[str, Any]]] = []
        for turn in (turn for turn in turns if turn.batch == subplan.number):
            first = {} if batch else {"time_anchor": anchor(subplan.anchor)}
            first["index"] = index_of(subplan.number, turn.bullet)
            messages: list[dict[str, Any]] = []
            for message in turn.messages:
                kind = {"question_type": message.kind} if message.kind else {}
                own = {} if messages else first
                messages.append({"role": message.role, "id": next(ids), **own, **kind, "content": message.text})
            batch.append(messages)
        batches.append({"batch_number": subplan.number, "turns": batch, "time_anchor": None})
    return write_pieces(plan_folder(folder, story, plan.index) / CHAT, (*_encoded(batches), b"\n"))


def _encoded(batches: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Encode the batches of a chat turn by turn, a message per line."""
    dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    yield b"["
    for number, batch in enumerate(batches):
        yield f'{"," if number else ""}\n {{"batch_number": {batch["batch_number"]}, "turns": ['.encode()
        for place, turn in enumerate(batch["turns"]):
            lines = ",\n   ".join(map(dumps, turn))
            yield f"{',' if place else ''}\n  [\n   {lines}\n  ]".encode()
        yield f'\n ], "time_anchor": {dumps(batch["time_anchor"])}}}'.encode()
    yield b"\n]"


def read_turns(folder: Path, story: Story, plan: Plan) -> list[DialogueTurn]:
    """Read the turns of a plan with the loader's checks."""
    path = plan_folder(folder, story, plan.index) / CHAT
    batches = ChatParser(strip_markers=False).plan(read_json(path), Log(CHAT, str(path)))
    turns = []
    for batch in batches:
        for turn in batch.turns:
            first = turn.messages[0].marker
            messages = tuple(DialogueMessage(message.role, message.content, message.kind) for message in turn.messages)
            bullet = first.bullets[0] if first is not None and first.bullets else None
            turns.append(DialogueTurn(plan.index, batch.number, bullet, messages))
    return turns


def combine_chats(folder: Path, story: Story) -> Path:
    """Write the chat of a 10M conversation from those of its plans, with ids counted through, plan by plan."""

    def pieces() -> Iterator[bytes]:
        offset = 0
        for index in range(story.plans):
            path = plan_folder(folder, story, index) / CHAT
            batches = read_json(path)
            parser = ChatParser(strip_markers=False)
            parser.plan(batches, Log(CHAT, str(path)))  # raises for a file that is damaged
            for message in (message for batch in batches for turn in batch["turns"] for message in turn):
                message["id"] += offset
            offset += parser.next_id
            yield f'{"," if index else "["}\n{{"plan-{index + 1}": '.encode()
            yield from _encoded(batches)
            yield b"}"
        yield b"\n]\n"

    return write_pieces(folder / CHAT, pieces())


def write_probing_questions(folder: Path, questions: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    """Write the probing questions, abilities in alphabetical order."""
    return write_ordered(folder / QUESTIONS, {ability: list(questions[ability]) for ability in sorted(questions)})


def read_record(folder: Path) -> dict[str, Any]:
    """Read the record of a folder; one without stages if there is none."""
    path = folder / RECORD
    record = read_json(path) if path.exists() else {"stages": {}}
    if not isinstance(record, dict) or not isinstance(record.get("stages"), dict):
        raise UserError(f"{path}: not a record of stages; delete the folder, and the conversation is written again.")
    return record


def is_begun(folder: Path, drawn: Mapping[str, Any]) -> bool:
    """Tell whether the conversation drawn from `drawn` (size, number, seed, ...) was begun in a folder.

    Raises:
        UserError: The folder holds another conversation, or files that were not generated: nothing is overwritten.
    """
    known = read_record(folder).get("parameters")
    if known is None:
        own = (".", "calls.sqlite")  # files of a killed write, and calls
        files = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
        if foreign := [path for path in files if not path.name.startswith(own)]:
            raise UserError(
                f"{min(foreign)}: was not generated here, and nothing is written over it; choose another folder."
            )
        return False
    if known != dict(drawn):
        differs = sorted(name for name in {*known, *drawn} if known.get(name) != drawn.get(name))
        raise UserError(
            f"{folder / RECORD}: the folder holds a conversation with another {', '.join(differs)}; choose another "
            "folder or delete this one."
        )
    return True


def begin_conversation(folder: Path, drawn: Mapping[str, Any], layout: Layout, limits: Limits) -> None:
    """Make a folder that of the conversation drawn from `drawn`. Layout and limits may change between runs."""
    is_begun(folder, drawn)
    record = read_record(folder)
    begun = {**record, "parameters": dict(drawn), "layout": asdict(layout), "limits": asdict(limits)}
    if begun != record:
        write_json(folder / RECORD, begun)


def _settings_of(folder: Path) -> tuple[Layout, Limits]:
    """Return layout and limits as `begin_conversation` recorded them last."""
    record = read_record(folder)
    return Layout(**record["layout"]), Limits(**record["limits"])


def stage_state(folder: Path, stage: str, made_by: Mapping[str, Any] | None = None) -> StageState:
    """Return the state of a stage; without `made_by`, whoever wrote it."""
    entry = read_record(folder)["stages"].get(stage)
    if entry is None or not all((folder / name).is_file() for name in entry["files"]):
        return "missing"
    if _hashes(folder, entry["made_from"]) != entry["made_from"]:
        return "stale"
    if _hashes(folder, entry["files"]) != entry["files"]:
        return "edited"
    return "done" if made_by is None or entry["made_by"] == dict(made_by) else "stale"


@contextmanager
def record_stage(
    folder: Path, stage: str, made_from: Sequence[str], made_by: Mapping[str, Any]
) -> Iterator[list[Path]]:
    """Record a stage when the block ends: it puts the files it wrote into the list.

    The entry of an earlier run is removed first, so that an interrupted stage is missing, not edited. `made_from` are
    files relative to `folder`.
    """
    record = read_record(folder)
    if record["stages"].pop(stage, None) is not None:
        write_json(folder / RECORD, record)
    before = _hashes(folder, made_from)
    files: list[Path] = []
    yield files
    hashes = _hashes(folder, [path.relative_to(folder).as_posix() for path in files])
    record = read_record(folder)
    record["stages"][stage] = {"made_by": dict(made_by), "made_from": before, "files": hashes}
    write_json(folder / RECORD, record)


def _hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return SHA-256 by name, "" for a file that does not exist."""
    return {name: sha256_of_file(folder / name) if (folder / name).is_file() else "" for name in names}
