"""MD-flat: one file of dated lines, edited by a model with tools and read by a model with reading tools.

(Sections 1 and 2.8 of the MEME fact sheet; the prompts are ours.) Reading a session takes up to five calls, recall up
to five; each call shows the results of those before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from beam_memories.evolving.evolving_memory import EvolvingMemory, SessionRead, named_messages, parts_of
from beam_memories.evolving.file_tools import Arguments, FileTools, Folder, Tool, ToolRefused, numbers_in
from beam_memories.evolving.tool_loop import run_tools
from beamlib.llm.model import Prompt, ToolDefinition
from beamlib.memory.budget import shorten
from beamlib.memory.protocol import Passage, RetrievedContext

FILE = "memory.md"
INGEST = "file_memory_ingest"
"""The prompt that sessions are read by."""


class MdFlat(EvolvingMemory):
    """Keep `memory.md`."""

    name = "md-flat"
    order = 40

    def _forget(self) -> None:
        self._files = Folder()

    def _tools(self) -> FileTools:
        return FileTools(FILE, self.settings.part_tokens // 2, self.settings.counter)

    def _read(self, session: SessionRead) -> None:
        for part in parts_of(session, self.settings.part_tokens, self.settings.counter):
            variables = {"date": session.date or "no date given", "session": part.text, "done": ""}
            prompt = Prompt(INGEST, variables, about=part.about)
            self._gaps.attempt(partial(self._work, prompt, self._tools().writing()), prompt)

    def _work(self, prompt: Prompt, tools: tuple[Tool, ...]) -> None:
        settings = self.settings
        run_tools(
            self._model, prompt, tools, self._files, settings.rounds,
            tokens=settings.part_tokens, counter=settings.counter,
        )  # fmt: skip

    def recall(self, question: str) -> RetrievedContext:
        """Return the lines that the model selected, or the whole file if it selected none. Raises `ModelError`.

        A file longer than the reader's window loses its middle.
        """
        text = self._files.read(FILE).rstrip()
        if not text:
            return RetrievedContext("", gaps=self._gaps.lost)
        taken = _Taken(len(text.splitlines()))
        prompt = Prompt("file_memory_recall", {"question": question, "done": ""}, about="a question")
        self._work(prompt, (*self._tools().reading(), taken.tool))
        found = "\n".join(line for number, line in enumerate(text.splitlines(), 1) if number in taken.lines) or text
        shown = shorten(found, self.settings.context_tokens, self.settings.counter)
        whole = RetrievedContext.of([Passage(shown, named_messages(shown, self._ids), "memory")])
        return RetrievedContext(whole.context, whole.message_ids, whole.parts, self._gaps.lost)

    def snapshot(self) -> Mapping[str, str]:
        """Return `memory.md` with its text."""
        return {FILE: self._files.read(FILE)}


class _Taken:
    """The lines that a recall selects, and the tool for it."""

    def __init__(self, last: int) -> None:
        self.lines: set[int] = set()
        self._last = last

    @property
    def tool(self) -> Tool:
        numbers = ("lines", "their numbers, such as 3, 17-19")
        about = "Hands lines of the file on to whoever answers; they are shown in the order of the file."
        return Tool(ToolDefinition("take", about, (numbers,)), self._take)

    def _take(self, _: Folder, arguments: Arguments) -> str:
        found = numbers_in(arguments.get("lines", ""), self._last)
        if not found:
            raise ToolRefused(f"No lines are named; the file has lines 1-{self._last}.")
        self.lines.update(found)
        return f"Taken: {len(found)} lines."
