"""The stand-in inside the memories that are written to over time: it keeps sentences, by tools or as JSON.

It appends what the user says with its date and header. It replaces nothing, deletes nothing and notes no dependency.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from beam_generate.read_facts import stems
from beam_offline.notes import HEADER, information
from beamlib.files import to_json
from beamlib.text import split_sentences

_EXCHANGE = re.compile(r"^(?=(?:- )?\[messages \d+-\d+\])", re.MULTILINE)
_DATE = re.compile(r"\[[^\]\n]{0,40}\]\s*")
_LINE = re.compile(r"^(\d+): (.*)$", re.MULTILINE)
_INDEXED = re.compile(r"^- ([a-z0-9-]+\.md): ?(.*)$", re.MULTILINE)
_LEAST = 2.0  # information of a sentence that is kept
_MOST_LINES = 14  # handed on for a question
_MOST_PAGES = 8
_TITLE_WORDS = 12
_NAME_WORDS = 6


def _statements(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield the header, first message and text of each sentence of the user that is worth keeping."""
    for exchange in _EXCHANGE.split(text):
        header = HEADER.match(exchange)
        if header is None:
            continue
        user = exchange[header.end() :].removeprefix("USER:").partition("\nASSISTANT:")[0]
        for sentence in split_sentences(_DATE.sub("", user.strip(), count=1)):
            if information(sentence) >= _LEAST:
                yield header[1], int(header[2]), " ".join(sentence.split())


def _calls(*calls: tuple[str, dict[str, str]]) -> str:
    return to_json({"calls": [{"tool": tool, "arguments": arguments} for tool, arguments in calls]})


def _shared(question: str, entries: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Map the name of each entry to the number of stems that its text shares with `question`, most first."""
    words = set(stems(question))
    return dict(sorted(((name, len(words & set(stems(text)))) for name, text in entries), key=lambda pair: -pair[1]))


def file_memory_ingest(variables: Mapping[str, str]) -> str:
    """Reply to `file_memory_ingest`: append the user's sentences, then call nothing more."""
    lines = [f"- {header} {variables['date']}: {text}" for header, _, text in _statements(variables["session"])]
    return _calls() if variables["done"] or not lines else _calls(("append", {"text": "\n".join(lines)}))


def file_memory_recall(variables: Mapping[str, str]) -> str:
    """Reply to `file_memory_recall`: read the whole file, then take the lines nearest to the question."""
    done = variables["done"]
    if not done:
        return _calls(("read", {"what": "all"}))
    shared = _shared(variables["question"], _LINE.findall(done))
    best = [number for number in shared if shared[number]][:_MOST_LINES]
    return _calls() if "\ntake " in f"\n{done}" or not best else _calls(("take", {"lines": ", ".join(best)}))


def wiki_compile(variables: Mapping[str, str]) -> str:
    """Reply to `wiki_compile`: append the new sentences to a page that is named for their most frequent words."""
    statements = list(_statements(variables["entries"]))
    if variables["done"] or not statements:
        return _calls()
    words = Counter(word.lower() for _, _, text in statements for word in re.findall(r"[A-Za-z]{2,}", text))
    frequent = [word for word, _ in words.most_common() if stems(word)][:_TITLE_WORDS]
    page = "-".join(frequent[:_NAME_WORDS])[:50].strip("-") or "notes"
    lines = [f"- {header} {variables['date']}: {text}" for header, _, text in statements]
    return _calls(("append", {"file": f"{page}.md", "text": "\n".join([f"# {' '.join(frequent)}", *lines])}))


def wiki_choose(variables: Mapping[str, str]) -> str:
    """Reply to `wiki_choose`: the pages whose first lines share most words with the question."""
    return to_json({"pages": list(_shared(variables["question"], _INDEXED.findall(variables["index"])))[:_MOST_PAGES]})


def dependency_notes(variables: Mapping[str, str]) -> str:
    """Reply to `dependency_notes`: each sentence of the user as a fact whose subject is its first content words."""
    facts = []
    for _, message, text in _statements(variables["session"]):
        subject = [word for word in text.split() if stems(word)][:_NAME_WORDS]
        facts.append({"subject": " ".join(subject)[:100], "value": text, "message": message})
    return to_json({"facts": facts, "dependencies": [], "changes": [], "deletions": []})


EVOLVING_REPLIES: Final[Mapping[str, Callable[[Mapping[str, str]], str]]] = {
    "file_memory_ingest": file_memory_ingest,
    "file_memory_recall": file_memory_recall,
    "wiki_compile": wiki_compile,
    "wiki_choose": wiki_choose,
    "dependency_notes": dependency_notes,
}
"""The prompts of `beam_memories.evolving` and the function of the variables that replies to each."""
