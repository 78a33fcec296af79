"""Measure readers (`beamlib data plant`, `beamlib data readers`) by defects planted in copies of right questions.

A blind sheet mixes planted questions with untouched ones that every reader called right (for specificity) and with
questions that no line of `readings.csv` is about, so that nothing follows from a question's being there. The key is a
file of its own.
"""

from __future__ import annotations

import csv
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import pandas as pd
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from beam_claims.sheets import SheetQuestion, load_chat, render_question
from beam_field.sources import question_hash, released_questions
from beam_generate.read_facts import NUMBER_WORDS, Day, find_dates, find_numbers, stems
from beamlib.data.conversations import Message
from beamlib.data.errata import DefectKind, load_errata
from beamlib.data.readings import PlantedReading, QuestionReading, Verdict, load_readings
from beamlib.data.sources import scan
from beamlib.errors import UserError
from beamlib.files import read_text, to_json, write_text
from beamlib.places import refuse_data

Role = Literal["planted", "control", "unread"]
SHEET, PAGES, ANSWERS = "sheet.json", "sheet.md", "readings.csv"
ANSWER_COLUMNS = ("item", "verdict", "kind", "confidence", "read", "messages", "reason")
PLANTS = ("stale value", "wrong sum", "wrong interval", "invented date", "false premise", "false abstention",
          "another rubric", "exchanged order", "wrong citation")  # fmt: skip
_FACTUAL = ("contradiction_resolution", "information_extraction", "knowledge_update", "multi_session_reasoning",
            "temporal_reasoning")  # fmt: skip
_STEM = re.compile(r"^(?:LLM )?[Rr]esponse should \w+: ")
_ABSTENTION = "Based on the provided chat, there is no information related to {}"


class KeyEntry(BaseModel):
    """What an item of a blind sheet is: a line of the key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    item: str
    question: str
    role: Role
    plant: str = ""
    kind: DefectKind | None = None


_KEY = TypeAdapter(list[KeyEntry])


class Chat(BaseModel):
    """A conversation's questions and messages, with those of other conversations to take false premises from."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    messages: Sequence[Message]
    questions: list[SheetQuestion]
    elsewhere: list[SheetQuestion] = []

    @property
    def users(self) -> list[Message]:
        return [message for message in self.messages if message.role == "user"]

    def says(self, text: str) -> bool:
        return any(text.casefold() in message.content.casefold() for message in self.messages)


Planter = Callable[[SheetQuestion, Chat, random.Random], SheetQuestion | None]


def _changed(item: SheetQuestion, change: Callable[[str], str]) -> SheetQuestion | None:
    """Change rubric and reference alike; None where the rubric stays the same."""
    rubric = tuple(map(change, item.rubric))
    if rubric == item.rubric:
        return None
    return item.model_copy(update={"rubric": rubric, "reference": change(item.reference)})


def _with_number(text: str, old: float, new: float) -> str:
    """Replace a number, in digits or as a word, and keep its sign, thousands separators and spelling."""
    for number in reversed(find_numbers(text)):
        written = text[number.start : number.end]
        if number.value != old:
            continue
        if written.lower() in NUMBER_WORDS:
            word = next((word for word, value in NUMBER_WORDS.items() if value == new), f"{new:g}")
            written = word.capitalize() if written[0].isupper() else word
        else:
            written = re.sub(r"\d[\d,]*(?:\.\d+)?", f"{new:,g}" if "," in written else f"{new:.10g}", written, count=1)
        text = text[: number.start] + written + text[number.end :]
    return text


def _with_day(text: str, old: Day, new: Day) -> str:
    """Replace a calendar day; the year stays as it is written."""
    for dated in reversed(find_dates(text)):
        if dated.day.same(old):
            year = f", {dated.day.year}" if dated.day.year else ""
            written = f"{_MONTH_NAMES[new.month - 1]} {new.day}{year}"
            text = text[: dated.start] + written + text[dated.end :]
    return text


_MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def _content(item: SheetQuestion) -> set[str]:
    """Return the content stems of the rubric, without those that begin every nugget."""
    return {stem for nugget in item.rubric for stem in stems(_STEM.sub("", nugget))}


def _units(text: str) -> Iterator[tuple[float, str]]:
    """Yield each number with its unit: its sign, or the stem of the word after it."""
    for number in find_numbers(text):
        following = stems(text[number.end : number.end + 40])[:1]
        yield number.value, number.kind or "".join(following)


def stale_value(item: SheetQuestion, chat: Chat, rng: random.Random) -> SheetQuestion | None:
    """Expect the value that a later message replaces."""
    if item.ability != "knowledge_update":
        return None
    cited = [message.content for message in chat.users if message.id in item.evidence]
    for nugget in item.rubric:
        for value, unit in _units(nugget):
            others = {own for text in cited for own, its in _units(text) if its == unit and own != value}
            stated = {own for own, _ in _units(item.reference)}
            if unit and len(others) == 1 and not others & stated:
                stale = others.pop()
                return _changed(item, lambda text, value=value, stale=stale: _with_number(text, value, stale))  # type: ignore[misc]
        for dated in find_dates(nugget):
            days = {own.day for text in cited for own in find_dates(text) if not own.day.same(dated.day)}
            if len(days) == 1:
                day = days.pop()
                return _changed(item, lambda text, old=dated.day, day=day: _with_day(text, old, day))  # type: ignore[misc]
    return None


def _shifted(item: SheetQuestion, rng: random.Random, units: Sequence[str] = ()) -> SheetQuestion | None:
    numbers = [(value, unit) for nugget in item.rubric for value, unit in _units(nugget)]
    numbers = [(value, unit) for value, unit in numbers if value >= 2 and (not units or unit in units)]
    if len({value for value, _ in numbers}) != 1:
        return None
    value = numbers[0][0]
    step = max(1, round(value * rng.choice((0.1, 0.2, 0.3)))) * rng.choice((-1, 1))
    return _changed(item, lambda text: _with_number(text, value, value + step))


def wrong_sum(item: SheetQuestion, chat: Chat, rng: random.Random) -> SheetQuestion | None:
    """Expect another number than the one that the sessions add up to."""
    return _shifted(item, rng) if item.ability == "multi_session_reasoning" else None


def wrong_interval(item: SheetQuestion, chat: Chat, rng: random.Random) -> SheetQuestion | None:
    """Expect another interval than that between the two dates."""
    return _shifted(item, rng, ("day", "week", "month")) if item.ability == "temporal_reasoning" else None


def invented_date(item: SheetQuestion, chat: Chat, rng: random.Random) -> SheetQuestion | None:
    """Expect a date that is nowhere in the chat."""
    if item.ability not in _FACTUAL or item.ability == "temporal_reasoning":  # there the interval would betray it
        return None
    days = [dated.day for nugget in item.rubric for dated in find_dates(nugget)]
    if not days:
        return None
    said = {(dated.day.month, dated.day.day) for message in chat.messages for dated in find_dates(message.content)}
    free = [day for day in range(2, 28) if (days[0].month, day) not in said]
    if not free:
        return None
    new = Day(days[0].month, rng.choice(free))
    return _changed(item, lambda text: _with_day(text, days[0], new))


def false_premise(item: SheetQuestion, chat: Chat, rng: random.Random) -> SheetQuestion | None:
    """Ask for a fact of another conversation; the messages cited have nothing of it."""
    if item.ability != "information_extraction":
        return None
    own = [other for other in chat.elsewhere if other.ability == item.ability]
    other = rng.choice(own) if own else None
    if other is None or any(chat.says(_STEM.sub("", nugget)) for nugget in other.rubric):
        return None
    return item.model_copy(update={name: getattr(other, name) for name in ("question", "rubric", "reference")})


def false_abstention(item: SheetQuestion, chat: Chat, rng: random.Random) -> SheetQuestion | None:
    """Expect that nothing is known of what the chat answers."""
    if item.ability not in ("information_extraction", "knowledge_update"):
        return None
    topic = re.sub(r"^What (?:is|are|was|were) ", "", item.question.rstrip("?. "))
    for pattern, new in ((r"\bI(?:'|’)m\b", "you're"), (r"\bI am\b", "you are"),
                         (r"\bI\b", "you"), (r"\bmy\b", "your"), (r"\bme\b", "you"),
                         (r"\bdid you say\b", "you said"), (r"\b(have|are|do|did) you\b", r"you \1")):  # fmt: skip
        topic = re.sub(pattern, new, topic)
    nugget = _ABSTENTION.format(topic[0].lower() + topic[1:])
    update = {"ability": "abstention", "rubric": (nugget,), "reference": nugget + ".", "evidence": ()}
    return item.model_copy(update=update)


def another_rubric(item: SheetQuestion, chat: Chat, rng: random.Random) -> SheetQuestion | None:
    """Judge by the rubric of another question of the same ability and conversation."""
    if item.ability not in _FACTUAL:  # summaries overlap, and two instructions may share a rubric
        return None
    words = _content(item)
    others = [other for other in chat.questions if other.ability == item.ability and other.item != item.item]
    others = [other for other in others if len(words & _content(other)) < 0.3 * len(words)]
    if not others:
        return None
    return item.model_copy(update={name: getattr(others[0], name) for name in ("rubric", "reference")})


def exchanged_order(item: SheetQuestion, chat: Chat, rng: random.Random) -> SheetQuestion | None:
    """Expect two of the events the other way round."""
    numbered = any(re.search(r"(?:^|: )\d+[).]", nugget) for nugget in item.rubric)  # its place would betray it
    if item.ability != "event_ordering" or len(item.rubric) < 3 or numbered:
        return None
    first, second = sorted(rng.sample(range(len(item.rubric)), 2))
    rubric = [*item.rubric]
    rubric[first], rubric[second] = rubric[second], rubric[first]
    reference = (
        "In this order: " + ", ".join(f"{place}) {_STEM.sub('', event)}" for place, event in enumerate(rubric, 1)) + "."
    )
    return item.model_copy(update={"rubric": tuple(rubric), "reference": reference})


def wrong_citation(item: SheetQuestion, chat: Chat, rng: random.Random) -> SheetQuestion | None:
    """Cite messages that say nothing of it."""
    terms = _content(item)
    others = [message.id for message in chat.users if len(terms & set(stems(message.content))) <= len(terms) // 4]
    count = len(item.evidence)
    if not 1 <= count <= 3 or len(others) < count or item.ability in ("abstention", "event_ordering"):
        return None
    return item.model_copy(update={"evidence": tuple(sorted(rng.sample(others, count)))})


PLANTERS: Mapping[str, tuple[Planter, DefectKind]] = dict(
    zip(
        PLANTS,
        (
            (stale_value, "later"), (wrong_sum, "count"), (wrong_interval, "interval"), (invented_date, "absent"),
            (false_premise, "absent"), (false_abstention, "answerable"), (another_rubric, "other-rubric"),
            (exchanged_order, "order"), (wrong_citation, "citation"),
        ),
        strict=True,
    )
)  # fmt: skip
"""How each defect is planted, and its kind. `several` cannot be planted by rule: whether others fit is for a reader."""


def plant(folders: Sequence[Path], count: int, seed: int) -> tuple[list[SheetQuestion], list[KeyEntry]]:
    """Draw a blind sheet of `count` questions: a bit over half planted (all kinds alike), the rest untouched.

    Nearly no event ordering of 100K is right, so exchanged orders take questions of chats that were read whole (500K)
    and that no erratum names. Raises `UserError` where the folders have too few questions that fit.
    """
    rng = random.Random(seed)
    chats = {source.id: folder for folder in folders for source in scan(folder)[0]}
    right, unread = _pools(chats)
    cache: dict[str, Chat] = {}

    def chat_of(question: str) -> Chat:
        name = question.rpartition("-")[0]
        if name not in cache:
            messages, questions = load_chat(chats[name], name)
            cache[name] = Chat(messages=messages, questions=questions)
        return cache[name]

    def item_of(question: str) -> SheetQuestion | None:
        """Return the question; None for other data under its id, of which the readings say nothing."""
        item = next((item for item in chat_of(question).questions if item.item == question), None)
        tier = question.partition("-")[0]
        released = item and released_questions().get(question_hash(tier, item.question))
        return item if released and released.probe_id == question else None

    rng.shuffle(right)
    rng.shuffle(unread)
    drawn: list[tuple[SheetQuestion, KeyEntry]] = []
    used: set[str] = set()
    each = max(1, round(0.55 * count / len(PLANTERS)))
    for name, (planter, kind) in PLANTERS.items():
        pool = unread if planter is exchanged_order else right
        for question in pool:
            if sum(entry.plant == name for _, entry in drawn) == each:
                break
            chat = chat_of(question)
            if planter is false_premise:
                others = (item_of(other) for other in right)
                chat.elsewhere = [own for own in others if own and own.conversation != question.rpartition("-")[0]]
            item = item_of(question)
            planted = planter(item, chat, rng) if item and question not in used else None
            if planted:
                used.add(question)
                drawn.append((planted, KeyEntry(item="", question=question, role="planted", plant=name, kind=kind)))
    rest = count - len(drawn)
    parts: dict[Role, tuple[list[str], int]] = {"unread": (unread, rest // 3), "control": (right, rest - rest // 3)}
    for role, (pool, number) in parts.items():
        untouched = [item for question in pool if question not in used and (item := item_of(question))][:number]
        drawn += [(item, KeyEntry(item="", question=item.item, role=role)) for item in untouched]
    if len(drawn) < count:
        raise UserError(f"only {len(drawn)} of {count} questions can be drawn; name more folders or a smaller --count.")
    rng.shuffle(drawn)
    names = [f"P{number:02d}" for number in range(1, count + 1)]
    items = [item.model_copy(update={"item": name}) for name, (item, _) in zip(names, drawn, strict=True)]
    return items, [entry.model_copy(update={"item": name}) for name, (_, entry) in zip(names, drawn, strict=True)]


def _pools(chats: Mapping[str, Path]) -> tuple[list[str], list[str]]:
    """Return the questions that all of two readers or more call right, and those of other chats that nothing names."""
    by_question: dict[str, list[QuestionReading]] = defaultdict(list)
    for reading in load_readings():
        by_question[reading.question].append(reading)
    listed = {entry.question_id for entry in load_errata().entries}
    right = [
        question
        for question, own in by_question.items()
        if len(own) > 1 and all(reading.verdict == "right" for reading in own) and question not in listed
    ]
    read = {question.rpartition("-")[0] for question in by_question}
    summed = [f"{own.tier}-" for own in load_errata().readings if own.chats]
    unread = [
        f"{chat}-q{number:02d}"
        for chat in chats
        if chat not in read and chat.startswith(tuple(summed))
        for number in range(20)
    ]
    return (
        [question for question in right if question.rpartition("-")[0] in chats],
        [question for question in unread if question not in listed],
    )


def write_sheet(
    folders: Sequence[Path], out: Path, key: Path, items: Sequence[SheetQuestion], entries: Sequence[KeyEntry]
) -> None:
    """Write the sheet (JSON, pages to read, a CSV to fill in) to `out`, and the key to a file elsewhere.

    Raises `UserError` for a key inside `out`, for a folder of data, or where either is there already.
    """
    refuse_data(out)
    refuse_data(key.parent)
    if key.resolve().is_relative_to(out.resolve()):
        raise UserError(f"{key} is in the sheet's folder, where its readers look; name a file elsewhere.")
    for path in (key, out / SHEET):
        if path.exists():
            raise UserError(f"{path} is there already; remove it or name another place.")
    chats = {source.id: folder for folder in folders for source in scan(folder)[0]}
    pages = [render_question(item, load_chat(chats[item.conversation], item.conversation)[0]) for item in items]
    answers = pd.DataFrame({"item": [item.item for item in items]}, columns=ANSWER_COLUMNS).to_csv(index=False)
    write_text(key, to_json([entry.model_dump(mode="json") for entry in entries], indent=1))
    write_text(out / PAGES, "\n---\n\n".join(pages))
    write_text(out / ANSWERS, answers)
    write_text(out / SHEET, to_json([item.model_dump(mode="json") for item in items], indent=1))


def read_answers(answers: Sequence[Path], key: Path) -> list[PlantedReading]:
    """Join filled-in sheets, a file per reader, with their key.

    Raises `UserError` for a key or a sheet that does not fit, a question without verdict included.
    """
    try:
        entries = _KEY.validate_json(read_text(key))
    except ValidationError as error:
        raise UserError(f"{key}: {error.errors()[0]['msg']}; name the key that `beamlib data plant` wrote.") from None
    readings = []
    for path in answers:
        rows = {row.get("item"): row for row in csv.DictReader(read_text(path).splitlines())}
        for entry in entries:
            row = rows.get(entry.item, {})
            if not row.get("verdict"):
                raise UserError(f"{path}: {entry.item} has no verdict; use one of {', '.join(get_args(Verdict))}.")
            said = {"reader": path.stem, "verdict": row["verdict"], "named": row.get("kind")}
            try:
                readings.append(PlantedReading.model_validate(entry.model_dump(exclude={"item"}) | said))
            except ValidationError as error:
                problem = error.errors()[0]
                where = f"{path}: {entry.item}: {problem['loc'][0]}"
                raise UserError(f"{where}: {problem['msg']}; correct the line.") from None
    return readings
