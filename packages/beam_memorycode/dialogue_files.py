"""Reading and writing dialogues: the authors' folder layout, and the compact bundle (one JSON line per dialogue).

A *data folder* is one of: a folder of `dialogue_<id>.json`; a folder with `dataset/` in it and perhaps
`outputs/<model>/` (the authors' repository, or what `beamlib memorycode generate` writes); or a bundle
(`templates.jsonl.gz`, with `texts.jsonl.gz` and `outputs_<model>.jsonl.gz` where they were published).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from beam_memorycode.dialogues import Dialogue, DialogueSession, Length, Mention, Setting, Topic, TopicType
from beam_memorycode.outputs import FETCH_AGAIN, numbered_files, numbered_rows, read_bounded
from beam_memorycode.rules import DialogueRules, Rule, RuleKind
from beamlib.errors import UserError
from beamlib.evaluate.records import checked
from beamlib.files import to_json, write_json

DATASET = "dataset"
TEMPLATES, TEXTS = "templates.jsonl.gz", "texts.jsonl.gz"
_NOTHING = -1
"""Stands in the files where a session has no instruction, or no filler."""

PUBLISHED_REVISION = "Cohere-Labs-Community/MemoryCode@1ab87e1, 360 dialogues"
PUBLISHED_SHA256 = "5bd31288aa77b4b16496afd4b4f38f00d8da6ce074f6d644f03871993b9a254d"
"""Of the published dialogues, by `dialogues_revision`."""

_CHECKED = ("session_regex", "session_eval_query", "history_regex", "history_eval_query")

_DIALOGUE_FILE = re.compile(r"dialogue_([0-9]{1,9})\.json")


@dataclass(frozen=True)
class LoadedDialogue:
    """A dialogue, and apart from it how answers to its queries are checked."""

    dialogue: Dialogue
    rules: DialogueRules


class _Strict(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)  # files hold fields that nothing here depends on

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, value: Any) -> Any:
        return {name: item for name, item in value.items() if item is not None} if isinstance(value, dict) else value


class _Context(_Strict):
    mentor: StrictStr = ""
    mentee: StrictStr = ""
    company: StrictStr = ""
    mentor_persona: StrictStr = ""
    mentee_persona: StrictStr = ""


_Rule = tuple[RuleKind, StrictStr | StrictBool | tuple[StrictStr, StrictBool]]


class _Session(_Strict):
    type: list[TopicType] = []
    topic: list[StrictStr] = []
    session_regex: list[_Rule] = []
    session_eval_query: list[StrictStr] = []
    history_regex: list[_Rule] = []
    history_eval_query: list[StrictStr] = []
    session_length: Length = "medium"
    text: StrictStr | None = None


class _TextLine(_Strict):
    texts: list[StrictStr]


def _mention(value: Any) -> Any:
    if value == _NOTHING or (isinstance(value, list) and [type(part) for part in value] == [int, int]):
        return value
    raise ValueError("not [id, value index]")


_Mention = Annotated[Any, AfterValidator(_mention)]


class _Dialogue(_Strict):
    context: _Context = _Context()
    instructions: list[list[_Mention]] = []
    fillers: list[StrictInt | None] = []
    sessions: list[_Session] = Field(min_length=1)


def load_dialogues(folder: Path) -> list[LoadedDialogue]:
    """Load all dialogues of a data folder by id; raise `UserError` with file, field and remedy for bad input."""
    if (folder / TEMPLATES).is_file():
        return _load_bundle(folder)
    if (folder / DATASET).is_dir():
        folder = folder / DATASET
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give one of dialogue_<id>.json files.")
    files = numbered_files(folder, _DIALOGUE_FILE)
    if not files:
        raise UserError(f"{folder}: holds neither dialogue_<id>.json files nor {TEMPLATES}; give a folder that does.")
    return [_item(number, read_bounded(files[number]), str(files[number])) for number in sorted(files)]


def _load_bundle(folder: Path) -> list[LoadedDialogue]:
    texts = {}
    if (folder / TEXTS).is_file():
        for where, number, row in numbered_rows(folder / TEXTS):
            texts[number] = checked(_TextLine, row, f"{where}: ", FETCH_AGAIN).texts
    rows = numbered_rows(folder / TEMPLATES)
    items = [_item(number, row, where, texts.get(number)) for where, number, row in rows]
    return sorted(items, key=lambda item: item.dialogue.id)


def _item(number: int, value: Any, where: str, texts: list[str] | None = None) -> LoadedDialogue:
    file = checked(_Dialogue, value, f"{where}: ", "correct it.")
    count, last = len(file.sessions), file.sessions[-1]
    if texts is not None and len(texts) != count:
        raise UserError(f"{where}: {count} sessions, but {TEXTS} has {len(texts)} for it; correct one.")
    if file.instructions and len(file.instructions) != count:
        raise UserError(f"{where}: instructions has {len(file.instructions)} entries for {count} sessions; correct it.")
    if bool(last.history_regex) != bool(last.history_eval_query):
        raise UserError(
            f"{where}: of history_regex and history_eval_query the last session has only one; add the other."
        )
    fillers = [None if filler == _NOTHING else filler for filler in file.fillers[:count]]
    sessions = [
        _session(
            session,
            tuple(Mention(*entry) for entry in mentions or () if entry != _NOTHING),
            filler,
            session.text if texts is None else texts[place],
            f"{where}: sessions.{place}",
        )
        for place, (session, mentions, filler) in enumerate(zip_longest(file.sessions, file.instructions, fillers))
    ]
    context = Setting(**file.context.model_dump())
    dialogue = Dialogue(number, context, tuple(sessions), tuple(last.history_eval_query))
    rules = tuple(tuple(Rule(*rule) for rule in session.session_regex) for session in file.sessions)
    return LoadedDialogue(dialogue, DialogueRules(number, rules, tuple(Rule(*rule) for rule in last.history_regex)))


def _session(
    session: _Session, mentions: tuple[Mention, ...], filler: int | None, text: str | None, where: str
) -> DialogueSession:
    count = len(session.session_regex)
    topics = tuple(Topic(*pair) for pair in zip(session.type, session.topic, strict=False))
    coding = sum(topic.coding for topic in topics)
    # Where a file leaves topics or mentions out, its answers can be scored all the same.
    for name, length in (
        ("session_eval_query", len(session.session_eval_query)),
        ("topic", coding if session.topic or session.type else count),
        ("instructions", len(mentions) or count),
        ("type", len(session.type) - len(session.topic) + count),
    ):
        if length != count:
            raise UserError(
                f"{where}: {name} does not agree with the {count} entries of session_regex; correct one of the two."
            )
    return DialogueSession(topics, mentions, tuple(session.session_eval_query), session.session_length, filler, text)


def dialogue_json(item: LoadedDialogue) -> dict[str, Any]:
    """Return a dialogue as the authors' files hold it; the `history_*` fields are filled in the last session alone."""
    dialogue, rules = item.dialogue, item.rules
    sessions = []
    for place, (session, checks) in enumerate(zip(dialogue.sessions, rules.sessions, strict=True)):
        last = place == len(dialogue.sessions) - 1
        row: dict[str, Any] = {
            "type": [topic.type for topic in session.topics],
            "topic": [topic.text for topic in session.topics],
            "session_regex": [rule.as_json for rule in checks],
            "session_eval_query": list(session.queries),
            "history_regex": [rule.as_json for rule in rules.history] if last else [],
            "history_eval_query": list(dialogue.queries) if last else [],
            "session_length": session.length,
        }
        sessions.append(row if session.text is None else {**row, "text": session.text})
    return {
        "context": asdict(dialogue.context),
        "instructions": [
            [list(astuple(mention)) for mention in session.mentions] or [_NOTHING] for session in dialogue.sessions
        ],
        "fillers": [_NOTHING if session.filler is None else session.filler for session in dialogue.sessions],
        "sessions": sessions,
    }


def write_dialogue(folder: Path, item: LoadedDialogue) -> Path:
    """Write `<folder>/dataset/dialogue_<id>.json`, atomically."""
    return write_json(folder / DATASET / f"{item.dialogue.name}.json", dialogue_json(item))


def dialogues_revision(items: Sequence[LoadedDialogue]) -> str:
    """Name the dialogues: the published set by its commit, any other by a hash of its queries and rules.

    Texts do not count, so that a bundle without texts and the authors' repository are the same.
    """
    digest = hashlib.sha256()
    for item in items:
        value = dialogue_json(item)
        sessions = [{name: session[name] for name in _CHECKED} for session in value["sessions"]]
        text = to_json([item.dialogue.id, value["instructions"], sessions])
        digest.update(text.encode("utf-8", "surrogatepass"))  # JSON can hold what is no text
    sha256 = digest.hexdigest()
    return PUBLISHED_REVISION if sha256 == PUBLISHED_SHA256 else f"sha256 {sha256[:16]}, {len(items)} dialogues"
