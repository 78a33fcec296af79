"""The wiki: a log of every session, from which a model compiles pages by subject before questions are asked.

(Section 2.8 of the MEME fact sheet: daily logs, compiled pages, a final step.) Logging needs no call; compiling takes
up to five per new part of the logs, recall one that selects pages by the index.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from beam_memories.evolving.evolving_memory import EvolvingMemory, SessionPart, SessionRead, named_messages, parts_of
from beam_memories.evolving.file_tools import FileTools, Folder
from beam_memories.evolving.json_replies import json_object
from beam_memories.evolving.tool_loop import run_tools
from beamlib.llm.model import Prompt, run
from beamlib.memory.budget import fit_pairs, shorten
from beamlib.memory.protocol import Passage, RetrievedContext

_INDEX = "index.md"
_MOST_TITLE = 120  # characters
_MOST_PAGES = 12  # that one question is given


class Wiki(EvolvingMemory):
    """Keep logs, pages and an index."""

    name = "wiki"
    published_as = "Karpathy Wiki"
    order = 41

    def _forget(self) -> None:
        self._logs: list[str] = []
        self._new: list[tuple[str, SessionPart]] = []
        self._pages = Folder()

    def _read(self, session: SessionRead) -> None:
        parts = list(parts_of(session, self.settings.part_tokens, self.settings.counter, user_only=True))
        self._new += [(session.date, part) for part in parts]
        self._logs.append("\n\n".join([f"# Log of {session.date or 'a day without a date'}", *(p.text for p in parts)]))

    def finalise(self) -> None:
        """Compile new log entries into pages. Raises `ModelError` as reading does."""
        while self._new:
            date, part = self._new[0]
            self._compile(date, part)
            del self._new[0]  # only now: a failure that may pass leaves it to be compiled

    def _compile(self, date: str, part: SessionPart) -> None:
        settings = self.settings
        variables = {"index": self._index(), "date": date or "no date given", "entries": part.text, "done": ""}
        prompt = Prompt("wiki_compile", variables, about=part.about)
        tools = FileTools("", settings.part_tokens // 2, settings.counter).writing()
        self._gaps.attempt(
            lambda: run_tools(
                self._model, prompt, tools, self._pages, settings.rounds,
                tokens=settings.part_tokens, counter=settings.counter,
            ),
            prompt,
        )  # fmt: skip

    def _index(self) -> str:
        """List each page's name and first line; the middle is left out where a call cannot hold it."""
        lines = [f"- {name}: {_title(text)}" for name, text in self._pages.texts.items()]
        return shorten("\n".join(lines), self.settings.part_tokens // 2, self.settings.counter)

    def recall(self, question: str) -> RetrievedContext:
        """Return the pages that the model selected by the index, each under its name. Raises `ModelError`.

        Where they exceed the reader's window, the last are dropped.
        """
        pages = self._pages.texts
        names = self._chosen(question, pages) if pages else []
        counter, tokens = self.settings.counter, self.settings.context_tokens
        texts = [f"{name}\n{pages[name].rstrip()}" for name in names]
        shown, _ = fit_pairs([Passage(text, (), "pages") for text in texts], tokens, counter)
        named = [Passage(page.text, named_messages(page.text, self._ids), "pages") for page in shown]
        return replace(RetrievedContext.of(named), gaps=self._gaps.lost)

    def _chosen(self, question: str, pages: Mapping[str, str]) -> list[str]:
        prompt = Prompt("wiki_choose", {"index": self._index(), "question": question}, about="a question")
        reply = run(self._model.complete(prompt)).text
        value = json_object(reply, prompt.id, ("pages",))
        named = value.get("pages", value.get("items", [])) if value is not None else re.findall(r"[\w-]+\.md", reply)
        named = named if isinstance(named, list) else [named]
        return [name for name in dict.fromkeys(map(str, named[:100])) if name in pages][:_MOST_PAGES]

    def snapshot(self) -> Mapping[str, str]:
        """Return the logs, the pages under `pages-`, and the index."""
        logs = {f"log-{number:05}.md": text for number, text in enumerate(self._logs)}
        pages = {f"pages-{name}": text for name, text in self._pages.texts.items()}
        return {**logs, **pages, _INDEX: self._index()}


def _title(text: str) -> str:
    first = next((line.strip("# ").strip() for line in text.splitlines() if line.strip("# ").strip()), "")
    return first[:_MOST_TITLE]
