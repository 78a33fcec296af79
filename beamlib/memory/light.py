"""LIGHT (paper section 3): episodic memory, working memory and a filtered scratchpad.

Reading a conversation costs two model calls per pair (keys, notes) and the compressor's; recalling costs one call per
chunk of the scratchpad. What is extracted serves every number of retrieved pairs, every ablation and every retriever:
`Light.variant` makes those without reading again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from beamlib.benchmark.model import Conversation, Pair
from beamlib.errors import UserError
from beamlib.memory.base import Passage, Recollection, passage
from beamlib.memory.budget import LEAST_TOKENS, RESERVE_TOKENS, common_limit, shorten
from beamlib.memory.episodic import EpisodicIndex
from beamlib.memory.extraction import episodic_keys, extract, extraction_prompts
from beamlib.memory.scratchpad import Chunk, Scratchpad, build_scratchpad, relevant_chunks, scratchpad_passages
from beamlib.memory.working import working_memory
from beamlib.models.base import Model, Prompt
from beamlib.retrieval.encoder import embedded_encoder
from beamlib.text import count_tokens

_SWITCHES = {
    "use_retrieval": "retrieval",
    "use_working": "working-memory",
    "use_scratchpad": "scratchpad",
    "use_filter": "noise-filter",
}
_READING = ("scratchpad_threshold", "scratchpad_target", "chunk_percentile", "chunk_buffer")


@dataclass(frozen=True, slots=True)
class LightSettings:
    """What the paper fixes, and what it leaves open.

    Fixed (sections 3.2, 4.1): `scratchpad_threshold` and `scratchpad_target` in tokens, the chunker's percentile and
    buffer, a `reader_window` of 32K tokens. `k` is the base of Table 9 (M16 of the reference). Open: `working_pairs`
    (z); about four distinct pairs is what the released code's budget lets in. The shares divide the window less
    `RESERVE_TOKENS`: at most `episodic_share` for the retrieved pairs (sixteen of the median length of 1,000 tokens),
    `working_share` for the newest (four of them fit in nearly every conversation); the scratchpad gets all that is
    left. The `use_` switches are the ablations of Table 8.
    """

    k: int = 5
    retriever: str = "embedded"
    use_retrieval: bool = True
    use_working: bool = True
    use_scratchpad: bool = True
    use_filter: bool = True
    working_pairs: int = 4
    reader_window: int = 32_768
    episodic_share: float = 0.55
    working_share: float = 0.2
    scratchpad_threshold: int = 30_000
    scratchpad_target: int = 15_000
    chunk_percentile: float = 80.0
    chunk_buffer: int = 1

    def __post_init__(self) -> None:
        _require(self.k >= 1, "k", self.k, "at least 1")
        _require(self.working_pairs >= 0, "working_pairs", self.working_pairs, "0 or more")
        _require(0 < self.episodic_share < 1, "episodic_share", self.episodic_share, "between 0 and 1")
        rest = 1 - self.episodic_share
        _require(0 < self.working_share < rest, "working_share", self.working_share, f"between 0 and {rest:g}")
        least = self.context_tokens * min(self.episodic_share / self.k, self.working_share, rest - self.working_share)
        _require(least >= 2 * LEAST_TOKENS, "reader_window", self.reader_window, f"larger for k={self.k}")
        target, threshold = self.scratchpad_target, self.scratchpad_threshold
        _require(target >= LEAST_TOKENS, "scratchpad_target", target, f"at least {LEAST_TOKENS}")
        _require(threshold > target, "scratchpad_threshold", threshold, f"above scratchpad_target ({target})")
        _require(0 <= self.chunk_percentile <= 100, "chunk_percentile", self.chunk_percentile, "between 0 and 100")
        _require(self.chunk_buffer >= 0, "chunk_buffer", self.chunk_buffer, "0 or more")

    @property
    def context_tokens(self) -> int:
        """Tokens that all parts may have together."""
        return self.reader_window - RESERVE_TOKENS

    @property
    def name(self) -> str:
        """`light-<retriever>-k<k>`, then the ablations, then every other setting that is not the default."""
        parts = ["light", self.retriever, f"k{self.k}"]
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in _SWITCHES and not value:
                parts += ["without", _SWITCHES[item.name]]
            elif item.name not in ("k", "retriever") and value != item.default:
                parts += [item.name.replace("_", "-"), f"{value:g}"]
        return "-".join(parts)


def _require(holds: bool, field: str, value: object, wanted: str) -> None:
    if not holds:
        raise UserError(f"LIGHT settings: {field} is {value}; it has to be {wanted}.")


@dataclass(frozen=True, slots=True)
class _Reading:
    """What one reading of a conversation left. Nothing changes it afterwards, so that variants may share it."""

    conversation: Conversation
    keys: tuple[tuple[str, ...], ...]
    scratchpad: Scratchpad
    index: EpisodicIndex


class Light:
    """The memory of the paper. `model` extracts keys, takes and compresses notes, and filters them."""

    def __init__(self, model: Model, settings: LightSettings | None = None) -> None:
        self._model = model
        self.settings = settings or LightSettings()
        self._read: _Reading | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    def ingest(self, conversation: Conversation) -> None:
        """Extract keys and notes from every pair, and build index, scratchpad and chunks from them.

        Raises `ModelError` naming the pair whose call failed; nothing is recalled from a half-read conversation.
        """
        self._read = None
        prompts = extraction_prompts("episodic_keys", conversation)
        keys = episodic_keys(conversation, extract(self._model, prompts))
        notes = extract(self._model, [Prompt("scratchpad_notes", prompt.variables) for prompt in prompts])
        scratchpad = build_scratchpad(
            self._model,
            conversation,
            notes,
            embedded_encoder(),
            threshold=self.settings.scratchpad_threshold,
            target=self.settings.scratchpad_target,
            percentile=self.settings.chunk_percentile,
            buffer=self.settings.chunk_buffer,
        )
        index = EpisodicIndex(conversation.pairs, keys, retriever=self.settings.retriever)
        self._read = _Reading(conversation, keys, scratchpad, index)

    def variant(self, settings: LightSettings) -> Light:
        """The same reading under other settings: other `k`, budgets, switches, or retriever (only the index is new).

        Settings that shape the reading itself have to agree; otherwise `ValueError`.
        """
        read = self._reading()
        for field in _READING:
            ours, theirs = getattr(self.settings, field), getattr(settings, field)
            if ours != theirs:
                raise ValueError(f"cannot share a reading made with {field}={ours} where {field} is {theirs}")
        if settings.retriever != self.settings.retriever:
            index = EpisodicIndex(read.conversation.pairs, read.keys, retriever=settings.retriever)
            read = replace(read, index=index)
        other = Light(self._model, settings)
        other._read = read
        return other

    def recall(self, question: str) -> Recollection:
        """Retrieved pairs in rank order, the newest pairs, then the notes that bear on the question.

        The parts are called "episodic", "working" and "scratchpad". Raises `ModelError` if a filter call fails.
        """
        read, settings = self._reading(), self.settings
        passages = self._episodic(question) if settings.use_retrieval else []
        if settings.use_working:
            shown = [i for item in passages for i in item.message_ids]
            tokens = int(settings.context_tokens * settings.working_share)
            passages += working_memory(read.conversation.pairs, settings.working_pairs, tokens, shown)
        if settings.use_scratchpad:
            chunks: list[Chunk] = list(self.chunks)
            if settings.use_filter:
                chunks = relevant_chunks(self._model, question, chunks)
            left = settings.context_tokens - sum(count_tokens(item.text) for item in passages)
            passages += scratchpad_passages(chunks, left)
        return Recollection.of(passages)

    def retrieved(self, question: str, k: int | None = None) -> list[Pair]:
        """The `k` pairs (by default the settings') whose keys are nearest to the question, nearest first."""
        return self._reading().index.search(question, k or self.settings.k)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs of the conversation that was read."""
        return self._reading().conversation.pairs

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """What each of `pairs` is found by: the lines that the model extracted from it, without repeats."""
        return self._reading().keys

    @property
    def pad(self) -> str:
        """The whole scratchpad before filtering, one note per line."""
        return self._reading().scratchpad.text

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The semantic chunks of the scratchpad."""
        return self._reading().scratchpad.chunks

    @property
    def scratchpad(self) -> Scratchpad:
        """The scratchpad with its counts of compressions and cut lines."""
        return self._reading().scratchpad

    def _episodic(self, question: str) -> list[Passage]:
        # All k pairs are shown. Where they do not fit, the longest lose their middle, not the last their place.
        found = [passage(pair, part="episodic") for pair in self.retrieved(question)]
        sizes = [count_tokens(item.text) for item in found]
        limit = common_limit(sizes, int(self.settings.context_tokens * self.settings.episodic_share))
        return [Passage(shorten(item.text, max(limit, LEAST_TOKENS)), item.message_ids, item.part) for item in found]

    def _reading(self) -> _Reading:
        if self._read is None:
            raise RuntimeError("Light has read no conversation yet: call ingest first")
        return self._read
