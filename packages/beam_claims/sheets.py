"""Show a question with what its reader needs (`beamlib data read`): gold, cited messages, and what a search finds.

Neither the errata nor other readers' verdicts are shown: a reading is blind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from beam_generate.read_facts import find_dates, find_numbers, without_dates
from beamlib.data.conversations import Ability, Message, Treatment
from beamlib.data.gold import Gold
from beamlib.data.loading import load
from beamlib.data.sources import scan
from beamlib.errors import UserError
from beamlib.files import read_text

MOST_HITS = 12
"""A term with more hits among the user's messages tells nothing apart; its messages are counted, not shown."""
_NAME = re.compile(r"(?<=[a-z,;:'] )[A-Z][\w+.-]+(?: [A-Z][\w+.-]+)*")


class SheetQuestion(BaseModel):
    """A question as a reader sees it; `item` is its name on the sheet, the question's own id unless it is blinded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    item: str
    conversation: str
    ability: Ability
    question: str
    rubric: tuple[str, ...]
    reference: str
    evidence: tuple[int, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.question, *self.rubric, self.reference)


_SHEET = TypeAdapter(list[SheetQuestion])


def sheet_question(question: str, gold: Gold, item: str = "") -> SheetQuestion:
    """Return a question and its gold for a reader."""
    return SheetQuestion(
        item=item or gold.probe_id,
        conversation=gold.conversation_id,
        ability=gold.ability,
        question=question,
        rubric=gold.rubric,
        reference=gold.reference,
        evidence=(*gold.evidence, *gold.evidence_missing),
    )


def load_sheet_question(folder: Path, name: str) -> tuple[SheetQuestion, Sequence[Message]]:
    """Load the question `name` ("100K-3-q12") and the messages of its chat.

    Raises `UserError` for a question that `folder` does not have.
    """
    conversation = name.rpartition("-")[0]
    messages, questions = load_chat(folder, conversation)
    item = next((item for item in questions if item.item == name), None)
    if item is None:
        raise UserError(
            f"{folder}: {conversation} has no question {name}; it has {', '.join(q.item for q in questions)}."
        )
    return item, messages


def load_sheet(path: Path, name: str) -> SheetQuestion:
    """Load an item of a blind sheet; raise `UserError` where it has none of that name."""
    try:
        items = {item.item: item for item in _SHEET.validate_json(read_text(path))}
    except ValidationError as error:
        raise UserError(f"{path}: {error.errors()[0]['msg']}; name the sheet.json of a blind sheet.") from None
    if name not in items:
        raise UserError(f"{path} has no question {name!r}; name one of {', '.join(items)}.")
    return items[name]


def load_chat(folder: Path, conversation: str) -> tuple[Sequence[Message], list[SheetQuestion]]:
    """Load the messages of a conversation, as the paper evaluated it, and its questions."""
    sources = {source.id: source for source in scan(folder)[0]}
    if conversation not in sources:
        raise UserError(f"{folder}: there is no conversation {conversation!r}; name one of {', '.join(sources)}.")
    loaded = load(sources[conversation], Treatment(errata="none"))
    questions = [sheet_question(probe.question, loaded.gold[probe.id]) for probe in loaded.probes]
    return loaded.conversation.messages, questions


def search_terms(texts: Iterable[str]) -> list[str]:
    """Return the names, numbers and dates of `texts`, each once, as they are written."""
    terms: dict[str, None] = {}
    for text in texts:
        text = re.sub(r"^LLM response should \w+: ", "", text)
        terms |= dict.fromkeys(text[dated.start : dated.end] for dated in find_dates(text))
        rest = without_dates(text)
        terms |= dict.fromkeys(rest[number.start : number.end] for number in find_numbers(rest))
        terms |= dict.fromkeys(_NAME.findall(rest))
    return list(terms)


def render_question(
    item: SheetQuestion, messages: Sequence[Message], find: Sequence[str] = (), *, user_side: bool = False
) -> str:
    """Write a question's sheet: gold, cited messages whole, where its terms and those to `find` stand.

    Args:
        find: Further words to search the user's messages for.
        user_side: Add all messages of the user in order, which counts, orders, "first" and "last" need.
    """
    lines = [
        f"# {item.item}: {item.ability}, conversation {item.conversation}",
        "",
        item.question,
        "",
        "## Expected",
        "",
    ]
    lines += [f"- {nugget}" for nugget in item.rubric]
    lines += ["", f"Reference: {item.reference}", "", f"Cited: {', '.join(map(str, item.evidence)) or 'none'}"]
    lines += [f"\n## Message {m.id}, {m.role}\n\n{m.content}" for m in messages if m.id in item.evidence]
    users = [message for message in messages if message.role == "user"]
    lines += ["", "## The user's messages, searched", ""]
    for term in dict.fromkeys([*find, *search_terms(item.texts)]):
        # "5" is not sought in "15" or "2.5", nor a name within another word.
        pattern = re.compile(rf"(?<![\w.]){re.escape(term)}(?!\w|\.\d)", re.IGNORECASE)
        hits = [(message.id, match) for message in users if (match := pattern.search(message.content))]
        if len(hits) > MOST_HITS and term not in find:
            lines.append(f"- {term}: {len(hits)} messages")
            continue
        lines.append(f"- {term}: {'' if hits else 'in no message'}")
        lines += [f"  - {number}: {_around(match)}" for number, match in hits]
    if user_side:
        lines += ["", "## The user's side, in order", ""]
        lines += [f"[{message.id}] {message.content}\n" for message in users]
    return "\n".join(lines) + "\n"


def _around(match: re.Match[str], width: int = 90) -> str:
    text = match.string[max(0, match.start() - width) : match.end() + width]
    return "… " + " ".join(text.split()) + " …"
