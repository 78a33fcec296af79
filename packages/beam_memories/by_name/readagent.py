"""ReadAgent (Lee et al. 2024, arXiv 2402.09727; Table 13 of the paper): pages, gists, and pages looked up again.

Reading a session takes one call per page to choose where it ends, one after the other, sessions concurrently; then one
per page for its gist. Recalling takes one call per question. The paper that compares with it names no settings: pages
have the words of ReadAgent's own code, and several pages are looked up at once (ReadAgent-P).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import StrictInt

from beamlib.data.conversations import Batch, Conversation, Message, Probe
from beamlib.llm.json_replies import read_json
from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt, attempt_all, run
from beamlib.llm.retrying import ReadReply, ask, gather
from beamlib.memory.budget import RESERVE_TOKENS, newest_that_fit, passage_tokens, shorten
from beamlib.memory.declared import DeclaredMemory, Given, MemorySettings, setting
from beamlib.memory.extraction import PAIR_TOKENS, fill_gaps
from beamlib.memory.protocol import Cuts, Passage, RetrievedContext
from beamlib.text import WORDS, TokenCounter

CHOICE = re.compile(r"\W*(?:label)?\W*(\d{1,6})\W*", re.IGNORECASE)
_LABEL = re.compile(r"^<(\d+)>$", re.MULTILINE)
_NUMBERED = re.compile(r"^<Page (\d+)>\n(.*?)(?=\n\n<Page \d+>|\Z)", re.MULTILINE | re.DOTALL)
_CONTENT = re.compile(r"[^\W_]{4,}")
_GIST_WORDS = 60


class ReadAgentSettings(MemorySettings):
    """Settings of ReadAgent."""

    readagent_least_words: int = setting(
        280, "words after which a page of ReadAgent may end", source="ReadAgent's released code", ge=1
    )
    readagent_most_words: int = setting(
        600, "words that a page of ReadAgent may have", source="ReadAgent's released code", ge=2
    )
    readagent_lookups: int = setting(
        5, "pages that ReadAgent looks up again for a question, at most", source="ReadAgent's paper, section 4", ge=1
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """A paragraph of a message, with its number of words; the first of a message begins with its header."""

    text: str
    message: Message
    words: int


@dataclass(frozen=True, slots=True)
class _Page:
    """Pieces that were read together. `gist` is empty where its call failed for good."""

    text: str
    message_ids: tuple[int, ...]
    gist: str = ""


class ReadAgent(DeclaredMemory):
    """Remember a conversation by the gists of its pages, and open the pages that a question needs.

    The context has all pages in order, those that were opened in full and the others as gists. Where they exceed the
    reader's window, the oldest gists are left out, and an opened page that finds no room stays a gist.
    """

    name = "readagent"
    label = "ReadAgent"
    order = 45
    own_settings = ReadAgentSettings
    uses = ("reader_window", "token_counter")
    prompts = ("readagent_gist", "readagent_lookup", "readagent_page")
    roles = ("reader", "memory")

    @classmethod
    def build(cls, given: Given) -> ReadAgent:
        own = {name: given[name] for name in ReadAgentSettings.model_fields}
        return cls(given.models.memory, ReadAgentSettings(**own), given["reader_window"], given.counter)

    @classmethod
    def refusal(cls, settings: Any) -> str:
        """Refuse pages that could end nowhere."""
        least, most = settings["readagent_least_words"], settings["readagent_most_words"]
        return "" if least < most else f"parameter 'readagent_least_words' is {least}: give less than {most} words."

    def __init__(
        self,
        model: Model,
        settings: ReadAgentSettings | None = None,
        reader_window: int = 131_072,
        counter: TokenCounter = WORDS,
    ) -> None:
        self._model = model
        self.settings = settings or ReadAgentSettings()
        self._tokens = reader_window - RESERVE_TOKENS
        self._counter = counter
        self._pages: list[_Page] = []
        self._gaps = 0

    def ingest(self, conversation: Conversation) -> None:
        """Cut every session into pages and shorten each page to its gist.

        Raises:
            ModelError: Calls may yet succeed, or too many failed.
        """
        batches = run(gather(self._paginate(batch) for batch in conversation.batches))
        pages = [page for batch in batches for page in batch]
        texts = [shorten(page.text, PAIR_TOKENS, self._counter) for page in pages]
        prompts = [
            Prompt("readagent_gist", {"page": text}, about=_about(page))
            for page, text in zip(pages, texts, strict=True)
        ]
        gists, self._gaps = fill_gaps(prompts, attempt_all(self._model, prompts))
        self._pages = [replace(page, gist=gist.strip()) for page, gist in zip(pages, gists, strict=True)]

    async def _paginate(self, batch: Batch) -> list[_Page]:
        """Cut a session; a page ends at its session's end, else where the model finds the best of several places."""
        pieces = list(_pieces(batch))
        pages, start = list[_Page](), 0
        while start < len(pieces):
            ends = self._possible_ends(pieces, start)
            end = ends[0] if len(ends) == 1 else await self._choose_end(pieces, start, ends)
            pages.append(_page(pieces[start:end]))
            start = end
        return pages

    def _possible_ends(self, pieces: Sequence[_Piece], start: int) -> list[int]:
        """Return where a page from `start` on may end: the rest if it fits, else between least and most words."""
        ends, words = list[int](), 0
        for place in range(start, len(pieces)):
            words += pieces[place].words
            if words > self.settings.readagent_most_words:
                return ends or [max(place, start + 1)]
            if words >= self.settings.readagent_least_words:
                ends.append(place + 1)
        return [len(pieces)]

    async def _choose_end(self, pieces: Sequence[_Piece], start: int, ends: Sequence[int]) -> int:
        """Ask where a page should end; a reply that names no place is asked for once more, then the last one counts."""
        texts = [
            f"{pieces[place].text}\n<{ends.index(place + 1) + 1}>" if place + 1 in ends else pieces[place].text
            for place in range(start, ends[-1])
        ]
        about = _about(_page(pieces[start : ends[-1]]))

        def read(reply: Completion, _: int) -> ReadReply[int]:
            choice = CHOICE.fullmatch(reply.text)
            if choice and 1 <= int(choice[1]) <= len(ends):
                return ends[int(choice[1]) - 1], None
            return ends[-1], f"A first reply to this named no label. Reply with one number from 1 to {len(ends)}."

        def failed(_: ModelError, __: int) -> ReadReply[int]:
            return ends[-1], None

        prompt = Prompt("readagent_page", {"passage": "\n\n".join(texts)}, about=about)
        return await ask(self._model, prompt, read, failed=failed)

    def recall(self, question: str) -> RetrievedContext:
        """Return all pages in order, those that the model opens for the question in full, the others as gists.

        Raises:
            ModelError: The call about the question failed, or no list of pages can be read in its replies.
        """
        (context,) = self.recall_probes([Probe("", "", question)])
        if isinstance(context, ModelError):
            raise context
        return context

    def recall_probes(self, probes: Sequence[Probe]) -> list[RetrievedContext | ModelError]:
        """Recall for each question, all calls at once; a failed call fails its question."""
        remembered = self._remembered()
        gists = "\n\n".join(_gist(number, self._pages[number]) for number in remembered)
        most = str(self.settings.readagent_lookups)
        prompts = [
            Prompt("readagent_lookup", {"gists": gists, "count": most, "question": probe.question}, about=probe.id)
            for probe in probes
        ]
        chosen = run(gather(map(self._look_up, prompts)))
        return [pages if isinstance(pages, ModelError) else self._context(pages, remembered) for pages in chosen]

    async def _look_up(self, prompt: Prompt) -> list[int] | ModelError:
        """Ask which pages to open; a reply without a list is asked for once more."""

        def read(reply: Completion, _: int) -> ReadReply[list[int] | ModelError]:
            numbers, why = read_json(reply.text, list[StrictInt], strict=True, prompt=prompt.id)
            if numbers is not None:
                return numbers, None
            complaint = "A first reply to this was no JSON list of page numbers. Reply with the list alone."
            return ModelError(f"{prompt.id}: {why}", Outcome.UNREADABLE), complaint

        try:
            return await ask(self._model, prompt, read)
        except ModelError as error:
            return error

    def _remembered(self) -> range:
        """Return the numbers of the newest pages whose gists fit into the window."""
        sizes = [passage_tokens(_gist(number, page), self._counter) for number, page in enumerate(self._pages)]
        return range(newest_that_fit(sizes, self._tokens), len(self._pages))

    def _context(self, numbers: Sequence[int], remembered: range) -> RetrievedContext:
        """Show the pages of these numbers in full, as far as there is room, and the gists of all others."""
        chosen = [number for number in dict.fromkeys(numbers) if number in remembered]
        passages = {number: self._passage(number) for number in remembered}
        left = self._tokens - sum(passage_tokens(shown.text, self._counter) for shown in passages.values())
        dropped = 0
        for number in chosen[: self.settings.readagent_lookups]:
            opened = Passage(self._pages[number].text, self._pages[number].message_ids, "pages")
            more = passage_tokens(opened.text, self._counter) - passage_tokens(passages[number].text, self._counter)
            if more > left:
                dropped += 1
                continue
            passages[number], left = opened, left - more
        cuts = Cuts(pairs_dropped=dropped, chunks_dropped=remembered.start)
        return replace(RetrievedContext.of(list(passages.values()), cuts), gaps=self._gaps)

    def _passage(self, number: int) -> Passage:
        return Passage(_gist(number, self._pages[number]), self._pages[number].message_ids, "gists")


def _pieces(batch: Batch) -> Iterator[_Piece]:
    """Cut the messages of a session at blank lines, as a page of prose is read paragraph by paragraph."""
    for message in (message for turn in batch.turns for message in turn.messages):
        for place, text in enumerate(message.content.split("\n\n")):
            header = "" if place else f"[messages {message.id}-{message.id}]\n{message.role.upper()}: "
            yield _Piece(f"{header}{text}", message, len(text.split()))


def _page(pieces: Sequence[_Piece]) -> _Page:
    ids = tuple(dict.fromkeys(piece.message.id for piece in pieces))
    return _Page("\n\n".join(piece.text for piece in pieces), ids)


def _about(page: _Page) -> str:
    return f"messages {page.message_ids[0]}-{page.message_ids[-1]}"


def _gist(number: int, page: _Page) -> str:
    return f"<Page {number}>\n[messages {page.message_ids[0]}-{page.message_ids[-1]}] {page.gist}"


def _last_label(variables: Mapping[str, str]) -> str:
    """Reply to `readagent_page` by rule: the last label."""
    return next(reversed(_LABEL.findall(variables["passage"])), "1")


def _first_words(variables: Mapping[str, str]) -> str:
    """Reply to `readagent_gist` by rule: its first words."""
    return " ".join(variables["page"].split()[:_GIST_WORDS])


def _likest_pages(variables: Mapping[str, str]) -> str:
    """Reply to `readagent_lookup` by rule: the pages whose gists share most words with the question."""
    asked = set(_CONTENT.findall(variables["question"].casefold()))
    shared = {
        int(number): len(asked & set(_CONTENT.findall(gist.casefold())))
        for number, gist in _NUMBERED.findall(variables["gists"])
    }
    ranked = sorted((number for number in shared if shared[number]), key=lambda number: (-shared[number], number))
    return str(ranked[: int(variables["count"])])


ReadAgent.stand_in = {
    "readagent_page": _last_label,
    "readagent_gist": _first_words,
    "readagent_lookup": _likest_pages,
}
