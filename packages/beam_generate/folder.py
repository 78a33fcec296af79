"""Questions and dialogue on file, in the released layout (reference 1.1 to 1.4); stories and plans: `plan_files`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_generate.plan_files import plan_folder
from beam_generate.shapes import DialogueMessage, DialogueTurn, MainQuestion, Plan, Story
from beam_generate.texts import anchor
from beamlib.data.chat import ChatParser
from beamlib.data.checked_json import Log
from beamlib.data.markers import index_marker
from beamlib.data.sources import CHAT, QUESTIONS
from beamlib.errors import UserError
from beamlib.files import read_json, write_bytes, write_pieces

USER_MESSAGES = "user_messages.json"


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
    text = json.dumps(batches, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    return write_bytes(plan_folder(folder, story, plan.index) / USER_MESSAGES, text.encode("utf-8"))


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
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    return write_bytes(folder / QUESTIONS, text.encode("utf-8"))
