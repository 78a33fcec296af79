"""The stand-in inside the memories that are written to over time: it keeps files by tools, and makes notes as JSON.

It keeps dated facts as they were told, replaces a line when it is told that something changed, and deletes on request.
Of files it applies no dependency; for the notes on dependencies it reads them where plain English says them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from beam_offline.notes import salience
from beam_offline.read_facts import stems
from beam_offline.told_facts import Statement, is_question, statements_of, told_sentences, without_date
from beamlib.files import to_json

_HEADER = re.compile(r"^(\[messages (\d+)-\d+\])[ \t]*\n?", re.MULTILINE)
_LINE = re.compile(r"^(\d+): (.*)$", re.MULTILINE)
_WRITTEN = re.compile(
    r"^(- \[messages \d+-\d+\]) (?:(\d{4}[^:]*(?::\d\d)?|[A-Z][a-z]+-\d\d-\d{4}|no date given): )?(.*)"
)
_INDEXED = re.compile(r"^- ([a-z0-9-]+\.md): ?(.*)$", re.MULTILINE)
_WORTH = 1.0
_MOST_WRITTEN = 30  # changes of one round; a reply may make a few more calls
_MOST_TAKEN = 14
_MOST_PAGES = 6
_NOTES = "notes.md"
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class _Exchange:
    """What the user said in one exchange, and the header above it."""

    header: str
    first: int
    user: str


def _exchanges(text: str) -> Iterator[_Exchange]:
    heads = list(_HEADER.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=False):  # without a header there is nothing but an end
        body = text[head.end() : end].strip()
        user = body.removeprefix("USER:").partition("\nASSISTANT:")[0]
        yield _Exchange(head[1], int(head[2]), user.strip())


def _calls(*calls: tuple[str, dict[str, str]]) -> str:
    return to_json({"calls": [{"tool": tool, "arguments": arguments} for tool, arguments in calls]})


def _lasting(exchange: _Exchange) -> list[str]:
    """The sentences of the user's that are worth keeping; an exact string as the one line it belongs to."""
    message = without_date(exchange.user)
    told = [one for one in statements_of(message, {}) if one.kind != "deletion"]
    exact = [one for one in told if "\n" in one.value or len(one.value) > 60]
    if exact:
        return [f"{one.subject}, word for word: {one.value}" for one in exact]
    return [
        " ".join(sentence.split())
        for sentence in told_sentences(message)
        if not is_question(sentence) and (statements_of(sentence, {}) or salience(sentence) >= _WORTH)
    ]


# The file


def file_memory_ingest(variables: Mapping[str, str]) -> str:
    """Reply to `file_memory_ingest`: first reads the whole file, then changes it, then calls nothing."""
    done = variables["done"]
    if not done:
        return _calls(("read", {"what": "all"}))
    if re.search(r"^(?:append|replace|delete) ", done, re.MULTILINE):
        return _calls()
    return _calls(*_changes(variables["session"], variables["date"], [line for _, line in _LINE.findall(done)]))


def _changes(session: str, date: str, lines: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """The calls that bring a file of `lines` up to date."""
    calls: list[tuple[str, dict[str, str]]] = []
    added: list[str] = []
    known = {one.subject: one.value for line in lines for one in _told(line)}
    left = list(lines)
    for exchange in _exchanges(session):
        for gone in _forgotten(exchange, known, left):
            calls.append(("delete", {"text": gone}))
            left.remove(gone)
        if any(one.kind == "deletion" for one in statements_of(exchange.user, known)):
            continue
        for text in _lasting(exchange):
            line = _written(exchange, date, text)
            before = _line_before(text, left)
            if before is None:
                added.append(line)
            elif len(calls) < _MOST_WRITTEN and text not in before:
                calls.append(("replace", {"old": before, "new": f"{line} (before: {_dated(before)})"}))
                left.remove(before)
    return [*calls, *([("append", {"text": "\n".join(added)})] if added else [])]


def _written(exchange: _Exchange, date: str, text: str) -> str:
    return f"- {exchange.header} {date}: " + text.replace("\n", f"\n{_INDENT}")


@lru_cache(maxsize=8192)  # the same lines are looked at for every sentence that is told
def _told(line: str) -> tuple[Statement, ...]:
    """What the newest part of a line in the file tells."""
    found = _WRITTEN.match(line)
    text = found[3].partition(" (before: ")[0] if found else ""
    return tuple(one for one in statements_of(text, {}) if one.kind in ("fact", "change"))


def _dated(line: str) -> str:
    """A line without its header, for the history of the one that replaces it; earlier history comes along."""
    return re.sub(r"^- \[messages \d+-\d+\] ", "", line)


def _line_before(text: str, lines: Sequence[str]) -> str | None:
    """The line that tells an earlier value of what `text` tells, or the same; None where there is none."""
    subjects = [frozenset(stems(one.subject)) for one in statements_of(text, {}) if one.kind in ("fact", "change")]
    for line in reversed(lines):
        if any(frozenset(stems(one.subject)) in subjects for one in _told(line)):
            return line
    return None


def _forgotten(exchange: _Exchange, known: Mapping[str, str], lines: Sequence[str]) -> list[str]:
    """The lines that hold what the user wants forgotten: that value, or, where none is told, that subject."""
    found: list[str] = []
    for one in statements_of(exchange.user, known):
        if one.kind == "deletion":
            name, value = frozenset(stems(one.subject)), one.value.lower()
            hold = [
                line for line in lines if (value in line.lower() if value else bool(name) and name <= set(stems(line)))
            ]
            found += [line for line in hold if line not in found]
    return found[:_MOST_WRITTEN]


def file_memory_recall(variables: Mapping[str, str]) -> str:
    """Reply to `file_memory_recall`: first reads the whole file, then takes the lines nearest to the question."""
    done = variables["done"]
    if not done:
        return _calls(("read", {"what": "all"}))
    if re.search(r"^take ", done, re.MULTILINE):
        return _calls()
    numbers = _nearest(variables["question"], [(int(number), line) for number, line in _LINE.findall(done)])
    return _calls(*([("take", {"lines": ", ".join(map(str, numbers))})] if numbers else []))


def _nearest(question: str, lines: Sequence[tuple[int, str]]) -> list[int]:
    """The numbers of the lines that share most of the question's words, with what is indented below them."""
    asked = set(stems(question))
    shares = {number: len(asked.intersection(stems(line))) for number, line in lines}
    best = sorted((number for number, share in shares.items() if share), key=lambda n: (-shares[n], n))[:_MOST_TAKEN]
    most = max((shares[number] for number in best), default=0)
    found, taking = [], False
    for number, line in lines:
        taking = taking if line.startswith(_INDENT) else number in best and 2 * shares[number] >= most
        if taking:
            found.append(number)
    return found


# The wiki


def wiki_compile(variables: Mapping[str, str]) -> str:
    """Reply to `wiki_compile`: adds what was told to the pages of its subjects, deletes on request; one round."""
    if variables["done"]:
        return _calls()
    titles = dict(_INDEXED.findall(variables["index"]))
    added: dict[str, list[str]] = {}
    gone: list[tuple[str, dict[str, str]]] = []
    for exchange in _exchanges(variables["entries"]):
        deletions = [one for one in statements_of(exchange.user, {}) if one.kind == "deletion"]
        for one in deletions:
            gone += _deletions(one, titles)
        for text in _lasting(exchange) if not deletions else ():
            page = _page(text)
            added.setdefault(page, []).append(_written(exchange, variables["date"], text))
    calls = [_addition(page, lines, titles) for page, lines in added.items()]
    return _calls(*calls[:_MOST_WRITTEN], *gone)


def _addition(page: str, lines: Sequence[str], titles: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    title = [] if page in titles else [f"# {page.removesuffix('.md').replace('-', ' ')}"]
    return "append", {"file": page, "text": "\n".join([*title, *lines])}


def _page(text: str) -> str:
    """The page of what a sentence is about: that of its first subject that is the user's own."""
    facts = [one for one in statements_of(text, {}) if one.kind != "deletion"]
    own = [one.subject for one in facts if re.search(rf"\b(?:my|our)\s+{re.escape(one.subject)}", text, re.IGNORECASE)]
    name = re.sub(r"[^a-z0-9]+", "-", own[0].lower()).strip("-")[:50] if own else ""
    return f"{name}.md" if name else _NOTES


def _deletions(one: Statement, titles: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
    name = frozenset(stems(one.subject))
    pages = [page for page, title in titles.items() if name and name <= set(stems(f"{page[:-3]} {title}"))]
    loose = [_NOTES] if one.value and _NOTES in titles else []
    return [("delete", {"file": page, "text": one.value or "- [messages"}) for page in [*pages, *loose]]


def wiki_choose(variables: Mapping[str, str]) -> str:
    """Reply to `wiki_choose`: the pages whose names share most words with the question, and the page of loose notes."""
    asked = set(stems(variables["question"]))
    pages = {page: len(asked.intersection(stems(page[:-3].replace("-", " ")))) for page, _ in _indexed(variables)}
    best = sorted((page for page, share in pages.items() if share), key=lambda page: (-pages[page], page))
    loose = [page for page in pages if page == _NOTES and page not in best]
    return to_json({"pages": [*best[:_MOST_PAGES], *loose]})


def _indexed(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(page, title) for page, title in _INDEXED.findall(variables["index"])]


# Notes on what hangs on what


def dependency_notes(variables: Mapping[str, str]) -> str:
    """Reply to `dependency_notes`: what the user's sentences tell, by the kind of each."""
    known = dict(line.split(": ", 1) for line in variables["known"].splitlines() if ": " in line)
    notes: dict[str, list[dict[str, Any]]] = {"facts": [], "dependencies": [], "changes": [], "deletions": []}
    lists = {"fact": "facts", "dependency": "dependencies", "change": "changes", "deletion": "deletions"}
    for exchange in _exchanges(variables["session"]):
        for one in statements_of(exchange.user, known):
            notes[lists[one.kind]].append(_note(one, exchange.first))
            if one.kind in ("fact", "change"):
                known[one.subject] = one.value
    return to_json(notes)


def _note(one: Statement, message: int) -> dict[str, Any]:
    if one.kind == "dependency":
        return {
            "dependent": one.subject, "source": one.source, "when": one.when, "value": one.value, "message": message,
        }  # fmt: skip
    return {"subject": one.subject, "value": one.value, "message": message}


EVOLVING_RULES: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "file_memory_ingest": file_memory_ingest,
    "file_memory_recall": file_memory_recall,
    "wiki_compile": wiki_compile,
    "wiki_choose": wiki_choose,
    "dependency_notes": dependency_notes,
}
"""The prompts of `beam_memories.evolving` and the function of the variables that answers each."""
