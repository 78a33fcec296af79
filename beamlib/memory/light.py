"""LIGHT (paper section 3): episodic memory, working memory and a filtered scratchpad.

Reading a conversation costs two concurrent model calls per pair (keys, notes), and the compressor's calls one after the
other. Recalling costs one call per chunk of the scratchpad and question, all concurrent (`filter: batched`: one call
per question). The extraction serves every
number of retrieved pairs, every ablation and every retriever: `Light.variant` builds these without reading again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import PurePath
from typing import Any, Literal, NoReturn

from pydantic import Field, ValidationError

from beamlib.data.conversations import Conversation, Pair, Probe
from beamlib.errors import UserError
from beamlib.llm.model import Model, ModelError
from beamlib.memory.budget import JOINT_TOKENS, LEAST_TOKENS, RESERVE_TOKENS, exact_joint, fit_pairs, pairs_cut
from beamlib.memory.declared import Given, MemorySettings, SharedReading, setting
from beamlib.memory.episodic import EpisodicIndex
from beamlib.memory.extraction import keys_of_pairs, read_pairs
from beamlib.memory.protocol import Cuts, Passage, RetrievedContext, passage
from beamlib.memory.released_memory import (
    LIGHT_ESTIMATE,
    LIGHT_FLAGS,
    WORKING_ENTRIES,
    check_flags,
    entries,
    flags_name,
    namesakes,
    pack,
)
from beamlib.memory.scratchpad import (
    Chunk,
    Scratchpad,
    build_scratchpad,
    relevant_chunks,
    relevant_in_batches,
    scratchpad_passages,
)
from beamlib.retrieval import Encoders, dense_encoder
from beamlib.settings import FaissIndex
from beamlib.text import TOKEN_COUNTER, WORDS, TokenCounter, token_counter


class LightParameters(MemorySettings):
    """LIGHT's own parts (paper, section 3): working memory, scratchpad, noise filter."""

    always_recorded = (
        "working_pairs", "episodic_share", "working_share", "chunk_percentile", "chunk_buffer", "scratchpad_threshold",
        "scratchpad_target",
    )  # fmt: skip

    working_pairs: int = setting(
        4,
        "z of the paper: newest pairs in working memory",
        source="not given in the paper: about what the released budget let in",
        ge=0,
    )
    episodic_share: float = setting(
        0.45, "share of LIGHT's context for retrieved pairs", source="ours, no shares in the paper", gt=0, lt=1
    )
    working_share: float = setting(0.15, "share of LIGHT's context for working memory", source="ours", gt=0, lt=1)
    scratchpad_threshold: int = setting(
        30_000, "tokens above which the scratchpad is compressed", source="paper, section 3.2", ge=100
    )
    scratchpad_target: int = setting(15_000, "tokens it is compressed to", source="paper, section 3.2", ge=50)
    chunk_percentile: float = setting(
        80.0, "distances above it cut the scratchpad into chunks", source="released code", ge=0, le=100
    )
    chunk_buffer: int = setting(
        1, "sentences on either side that a distance is measured over", source="released code", ge=0
    )
    filter: Literal["chunkwise", "batched"] = setting(
        "chunkwise",
        "noise filter: a call per chunk and question as in the paper, or a call per question",
        source="paper, section 3.2",
    )


def newest_pairs(pairs: Sequence[Pair], count: int) -> list[Passage]:
    """Return the newest `count` of `pairs`, oldest first, as passages of the part "working"."""
    return [passage(pair, part="working") for pair in pairs[max(0, len(pairs) - count) :]]


def working_memory(
    pairs: Sequence[Pair], count: int, tokens: int, counter: TokenCounter = WORDS, longest: int | None = None
) -> list[Passage]:
    """Return the newest `count` of `pairs`, oldest first, in at most `tokens` tokens; see `fit_pairs` for `longest`.

    A retrieved pair may be in both parts, so that each part reads the same with and without the other (Table 8). If not
    all fit, the oldest are dropped.
    """
    fitted, _ = fit_pairs(
        newest_pairs(pairs, count)[::-1], tokens, counter, longest=longest, joint=exact_joint(counter)
    )
    return fitted[::-1]


BASE_K = 5
"""Retrieved pairs of the paper's base (Tables 8 and 9)."""

_SWITCHES = {
    "use_retrieval": "retrieval",
    "use_working": "working-memory",
    "use_scratchpad": "scratchpad",
    "use_filter": "noise-filter",
}
_OF_RECALL = {"working_pairs", "episodic_share", "working_share", "filter"}
"""The settings of LIGHT that change recall alone; all others change the reading."""
_READING = (*(name for name in LightParameters.model_fields if name not in _OF_RECALL), "encoder", "token_counter")
_ENCODERS = Encoders()


class LightSettings(LightParameters):
    """Settings of LIGHT; a `UserError` where they cannot work.

    The paper fixes `scratchpad_threshold` and `scratchpad_target` in tokens (section 3.2). `k` is the base of Table 9
    (M16 of the reference). The paper leaves open `working_pairs` (z; the released code's budget has room for about four
    distinct pairs), the chunker's percentile and buffer, and how the window is divided (`budget`).

    Room is given once per question, as the complete LIGHT gives it: filtered notes (at most their share), the newest
    pairs (which leave room for the five best), then ranked pairs into all that is left. A change of `k`, or an ablation
    of Table 8 (the `use_` switches), changes only the part that it names. The default `reader_window` of 128K tokens
    has room for the twenty pairs of Table 9, the newest pairs and the whole unfiltered scratchpad of every released
    conversation at hand. The 32K that section 4.1 states for Qwen has not: twenty pairs have up to 41,000 tokens, a
    scratchpad has up to 30,000.

    `filter` is `chunkwise` (the paper: a call per chunk and question) or `batched` (a call per question about all
    chunks, see `relevant_in_batches`).

    `encoder` is the model of the chunker and, unless `index_encoder` names another (Table 11), of the retriever
    `dense`, which searches by `faiss_index` (Table 12). `splade` is the model of the retriever `splade` (see
    `beamlib.retrieval.Encoders`). All tokens are counted by `token_counter`.

    `released` switches on behaviours of the released code, by the names in `released_memory.LIGHT_FLAGS`:

    - `duplicate_per_message` (M1): working memory counts every pair once per message of its turn and shows the copies.
    - `oldest_working_memory` (M2): working memory is filled oldest first from the last 100 entries, ignores
      `working_pairs` and repeats retrieved pairs.
    - `character_budgets` (M2): retrieved pairs in rank order, then working memory, each pair whole, while their
      characters // 3.5 stay under 14,000; a pair that does not fit is skipped. `budget` bounds both together instead
      of each; the scratchpad, which the released code does not bound, gets the rest of the window.
    - `plan_blind_ids` (M3): each retrieved pair brings the pairs at its place in every plan, in the conversation's
      order (the released order is random) and each group once.
    - `one_vector_per_pair` (M7): all keys of a pair are embedded as one text.
    - `exact_yes` (M14): the filter keeps a chunk only for the bare word yes.

    `beamlib.memory.released_memory` says what no flag reproduces.
    """

    k: int = Field(5, ge=1)
    retriever: str = "hybrid"
    use_retrieval: bool = True
    use_working: bool = True
    use_scratchpad: bool = True
    use_filter: bool = True
    reader_window: int = 131_072
    reserve_tokens: int = Field(RESERVE_TOKENS, ge=0)
    encoder: str = _ENCODERS.dense
    index_encoder: str = ""
    faiss_index: FaissIndex = "flat"
    splade: str = _ENCODERS.splade
    token_counter: str = TOKEN_COUNTER
    released: frozenset[str] = frozenset()

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            _refuse(str(first["loc"][-1]), first["input"], first["msg"].removeprefix("Input should be "))

    def model_post_init(self, _: object) -> None:
        rest = 1 - self.episodic_share
        others = min(self.working_share, rest - self.working_share)
        share = min(self.episodic_share / self.k, others)
        target, threshold = self.scratchpad_target, self.scratchpad_threshold
        if self.working_share >= rest:
            _refuse("working_share", self.working_share, f"below {rest:g}")
        if self.context_tokens * share < 2 * LEAST_TOKENS:
            window = self.reserve_tokens + math.ceil(2 * LEAST_TOKENS / share)
            most = int(self.context_tokens * self.episodic_share / (2 * LEAST_TOKENS))
            fitting = most > 0 and self.context_tokens * others >= 2 * LEAST_TOKENS
            fits = f", or K at most {most}: --set k={most} --set budgets=[{most}]" if fitting else ""
            _refuse("reader_window", self.reader_window, f"at least {window} for k={self.k}{fits}")
        if target < LEAST_TOKENS:
            _refuse("scratchpad_target", target, f"at least {LEAST_TOKENS}")
        if threshold <= target:
            _refuse("scratchpad_threshold", threshold, f"above scratchpad_target ({target})")
        check_flags(self.released, LIGHT_FLAGS, "LIGHT settings")
        if self.filter == "batched" and "exact_yes" in self.released:
            _refuse("filter", self.filter, "chunkwise with the released behaviour exact_yes")

    @property
    def context_tokens(self) -> int:
        """Tokens of all parts together."""
        return self.reader_window - self.reserve_tokens

    @property
    def budget(self) -> dict[str, int]:
        """Tokens of the window by part: `episodic`, `working`, `scratchpad`, and `reserve` for what is no memory.

        They add up to `reader_window`; the joints between passages are charged to their parts.
        """
        episodic = int(self.context_tokens * self.episodic_share)
        working = int(self.context_tokens * self.working_share)
        scratchpad = self.context_tokens - episodic - working
        return {"episodic": episodic, "working": working, "scratchpad": scratchpad, "reserve": self.reserve_tokens}

    @property
    def of_reading(self) -> dict[str, Any]:
        """The settings that change the reading; `Light.variant` may change all others."""
        return {name: getattr(self, name) for name in _READING}

    @property
    def counter(self) -> TokenCounter:
        return token_counter(self.token_counter)

    @property
    def encoders(self) -> Encoders:
        """The models of the retrievers."""
        return Encoders(self.index_encoder or self.encoder, self.splade, faiss_index=self.faiss_index)

    @property
    def name(self) -> str:
        """`light-<retriever>-k<k>`, then the ablations, then every other setting that differs from the default."""
        parts = ["light", self.retriever, f"k{self.k}"]
        for name, value in self:
            if name in _SWITCHES and not value:
                parts += ["without", _SWITCHES[name]]
            elif name not in ("k", "retriever", "token_counter", "released") and value != _USUAL[name].default:
                parts += [name.replace("_", "-"), PurePath(value).name if isinstance(value, str) else f"{value:g}"]
        return "-".join([*parts, *flags_name(self.released, LIGHT_FLAGS)])


_USUAL = LightSettings.model_fields


def _refuse(field: str, value: object, rule: str) -> NoReturn:
    raise UserError(f"LIGHT settings: {field} is {value}; it has to be {rule}.")


@dataclass(frozen=True, slots=True)
class _IngestState:
    """The result of reading a conversation, which variants share; `indexes` has those of other retrievers."""

    conversation: Conversation
    keys: tuple[tuple[str, ...], ...]
    scratchpad: Scratchpad
    index: EpisodicIndex
    gaps: int = 0
    indexes: dict[tuple[str, Encoders, bool], EpisodicIndex] = field(default_factory=dict)


class Light(SharedReading):
    """The memory of the paper. `model` extracts keys and notes and filters these; `compressor` compresses them.

    `embedding` embeds where the encoder is `embedding`.
    """

    name = "light"
    label = "LIGHT"
    order = 30
    joins = "always"
    own_settings = LightParameters
    uses = ("retriever", "encoder", "splade", "faiss_index", "k", "reader_window", "token_counter")
    prompts = ("episodic_keys", "scratchpad_compress", "scratchpad_filter", "scratchpad_notes")
    roles = ("reader", "memory", "compressor")
    components = tuple(_SWITCHES.values())
    searched = "LIGHT searches the keys of pairs, and has working memory, scratchpad and noise filter of its own"
    released_flags = LIGHT_FLAGS

    @classmethod
    def prompts_for(cls, settings: Any) -> tuple[str, ...]:
        """Return its prompts; a noise filter other than the paper's falls back on the paper's own."""
        return (*cls.prompts, *(("filter_batch",) if settings["filter"] == "batched" else ()))

    @classmethod
    def refusal(cls, settings: Any) -> str:
        """Refuse a filter that does not read what a released behaviour needs."""
        needed = "the released behaviour exact_yes reads a yes for each chunk; use chunkwise."
        refused = settings["filter"] == "batched" and "exact_yes" in settings.flags
        return f"parameter 'filter' is 'batched': {needed}" if refused else ""

    @classmethod
    def settings_for(cls, given: Given) -> LightSettings:
        """Return the settings of an arm: `without` switches one component off."""
        names = ("k", "retriever", "reader_window", "splade", "token_counter", "faiss_index")
        values = {name: given[name] for name in (*names, *LightParameters.model_fields)}
        values |= {"encoder": given.settings["encoder"], "index_encoder": given.of_arm.get("encoder", "")}
        values |= {switch: given.without != component for switch, component in _SWITCHES.items()}
        return LightSettings(**values, released=given.flags & LIGHT_FLAGS)

    @classmethod
    def build(cls, given: Given) -> Light:
        models = given.models
        return cls(models.memory, cls.settings_for(given), compressor=models.compressor, embedding=models.embedding)

    def __init__(
        self,
        model: Model,
        settings: LightSettings | None = None,
        *,
        compressor: Model | None = None,
        embedding: Model | None = None,
    ) -> None:
        self._model = model
        self._compressor = model if compressor is None else compressor
        self._embedding = embedding
        self.settings = settings or LightSettings()
        self._read: _IngestState | None = None

    def ingest(self, conversation: Conversation) -> None:
        """Extract keys and notes from every pair, and build index, scratchpad and chunks.

        A pair whose call failed for good is found by its user's words, or has no notes; `RetrievedContext.gaps` counts
        such calls.

        Raises:
            ModelError: If calls may yet succeed, or too many failed.
        """
        self._read = None
        key_replies, notes, gaps = read_pairs(self._model, conversation, self.settings.counter)
        keys = keys_of_pairs(conversation, key_replies)
        scratchpad = build_scratchpad(
            self._compressor,
            conversation,
            notes,
            dense_encoder(self.settings.encoder, self._embedding),
            threshold=self.settings.scratchpad_threshold,
            target=self.settings.scratchpad_target,
            percentile=self.settings.chunk_percentile,
            buffer=self.settings.chunk_buffer,
            counter=self.settings.counter,
        )
        self._read = _IngestState(conversation, keys, scratchpad, self._index(conversation, keys), gaps)

    @property
    def of_reading(self) -> dict[str, Any]:
        """The settings that change the reading."""
        return self.settings.of_reading

    @property
    def reading(self) -> dict[str, Any]:
        """The result of reading the conversation, as JSON for `restore`."""
        read = self._reading()
        return {"keys": read.keys, "scratchpad": astuple(read.scratchpad), "gaps": read.gaps}

    def restore(self, conversation: Conversation, reading: Mapping[str, Any]) -> None:
        """Load the `reading` of the same conversation under settings with equal `of_reading`, instead of `ingest`."""
        keys = tuple(tuple(texts) for texts in reading["keys"])
        text, chunks, compressions, lines_cut = reading["scratchpad"]
        pad = Scratchpad(
            text, tuple(Chunk(chunk, tuple(ids), tokens) for chunk, ids, tokens in chunks), compressions, lines_cut
        )
        self._read = _IngestState(conversation, keys, pad, self._index(conversation, keys), reading["gaps"])

    def share(self, given: Given) -> Light:
        """Return the variant for an arm."""
        return self.variant(self.settings_for(given))

    def variant(self, settings: LightSettings) -> Light:
        """Share the reading with a memory of another `k`, budget, switch or retriever (only its index is built).

        Raises:
            ValueError: If a setting that changes the reading differs.
        """
        read = self._reading()
        for name, ours in self.of_reading.items():
            if ours != (theirs := settings.of_reading[name]):
                raise ValueError(f"cannot share a reading made with {name}={ours} where {name} is {theirs}")
        other = Light(self._model, settings, compressor=self._compressor, embedding=self._embedding)
        if (place := _index_settings(settings)) != _index_settings(self.settings):
            if place not in read.indexes:  # one for all variants with this retriever
                read.indexes[place] = other._index(read.conversation, read.keys)
            read = replace(read, index=read.indexes[place])
        other._read = read
        return other

    def recall(self, question: str) -> RetrievedContext:
        """Return retrieved pairs in rank order, the newest pairs, then the notes that matter for the question.

        The parts are called "episodic", "working" and "scratchpad".

        Raises:
            ModelError: If a filter call fails.
        """
        (context,) = self.recall_all([question])
        if isinstance(context, ModelError):
            raise context
        return context

    def recall_probes(self, probes: Sequence[Probe]) -> list[RetrievedContext | ModelError]:
        """Recall for the questions of a conversation, with all filter calls at once."""
        return self.recall_all([probe.question for probe in probes])

    def expect(self, questions: Sequence[str]) -> None:
        """Have an endpoint embed questions together that are searched for one by one."""
        self._reading().index.expect(questions)

    def recall_all(self, questions: Sequence[str]) -> list[RetrievedContext | ModelError]:
        """Recall for every question, in order, with all filter calls at once; a failed call fails its question."""
        if self.settings.use_retrieval:
            self.expect(questions)
        # Retrieved pairs, best first. Without retrieval they are not shown, but keep their room.
        ranked: dict[str, list[Passage] | ModelError] = {}
        for question in questions:
            try:
                ranked[question] = [passage(pair, "episodic") for pair in self.retrieved(question)]
            except ModelError as error:  # of the question's vector
                ranked[question] = error if self.settings.use_retrieval else []
        filtered = [
            question
            for question, pairs in ranked.items()
            if not isinstance(pairs, ModelError) and self._needs_filter(pairs)
        ]
        if self.settings.filter == "batched":
            kept = relevant_in_batches(self._model, filtered, self.chunks)
        else:
            exact = "exact_yes" in self.settings.released
            kept = relevant_chunks(self._model, filtered, self.chunks, exact=exact)
        notes = dict(zip(filtered, kept, strict=True))
        contexts: list[RetrievedContext | ModelError] = []
        for question in questions:
            pairs, chunks = ranked[question], notes.get(question, ([], 0))
            if isinstance(pairs, ModelError):
                contexts.append(pairs)
            elif isinstance(chunks, ModelError):
                contexts.append(chunks)
            else:
                contexts.append(self._build_context(pairs, *chunks))
        return contexts

    def _needs_filter(self, ranked: Sequence[Passage]) -> bool:
        """Tell whether a context depends on the filtered notes: it shows them, or the room of pairs depends on theirs.

        An ablation keeps the room that the complete LIGHT gives each part, and where all fits needs no call for that.
        """
        settings = self.settings
        if settings.use_scratchpad and settings.use_filter:
            return True
        if "character_budgets" in settings.released or not self.chunks:
            return False
        whole = sum(chunk.tokens + JOINT_TOKENS for chunk in self.chunks) + LEAST_TOKENS
        return self._place(ranked, min(settings.budget["scratchpad"], whole)) != self._place(ranked, 0)

    def _build_context(self, ranked: Sequence[Passage], chunks: Sequence[Chunk], gaps: int) -> RetrievedContext:
        """Fit the parts into the window; `chunks` are the filtered notes, where the context depends on them.

        The complete LIGHT has room for its notes first, then for the newest pairs, then for the retrieved ones. An
        ablation gives each part that stays the same room: that of the missing part stays empty. Unfiltered notes get
        the room of the filtered ones and what is unused.
        """
        settings, counter = self.settings, self.settings.counter
        shown = settings.use_scratchpad and settings.use_filter
        if "character_budgets" in settings.released:
            # Retrieved pairs and working memory as the released code packs them.
            best, newest = list(ranked) if settings.use_retrieval else [], list[Passage]()
            if settings.use_working:
                oldest = "oldest_working_memory" in settings.released
                everything = entries(self._reading().conversation, settings.released)
                newest = newest_pairs(everything, WORKING_ENTRIES if oldest else settings.working_pairs)
            tokens = settings.budget["episodic"] + settings.budget["working"]
            passages = pack([*best, *newest], tokens, LIGHT_ESTIMATE, counter)
            cuts = _cuts(best, [], passages)
            room = settings.context_tokens - _size(passages, counter)
            notes, dropped = scratchpad_passages(chunks if shown else self.chunks, room, counter)
        else:
            notes, dropped = scratchpad_passages(chunks, settings.budget["scratchpad"], counter)
            pairs, newest, recalled = self._place(ranked, _size(notes, counter))
            passages = [*(pairs if settings.use_retrieval else []), *(newest if settings.use_working else [])]
            cuts = _cuts(ranked if settings.use_retrieval else [], recalled if settings.use_working else [], passages)
            if not settings.use_filter:
                room = settings.context_tokens - _size([*pairs, *newest], counter)
                notes, dropped = scratchpad_passages(self.chunks, room, counter)
        if settings.use_scratchpad:
            passages, cuts = passages + notes, cuts + Cuts(chunks_dropped=dropped)
        return replace(RetrievedContext.of(passages, cuts), gaps=self._reading().gaps + (gaps if shown else 0))

    def _place(self, ranked: Sequence[Passage], notes: int) -> tuple[list[Passage], list[Passage], list[Passage]]:
        """Fit the newest pairs, then the retrieved ones into what `notes` tokens of notes leave.

        The newest leave the `BASE_K` best their room, so that many or long ones do not displace all retrieval.

        Returns:
            The retrieved and the newest pairs that are shown, and all newest pairs whose loss is counted.
        """
        settings, budget = self.settings, self.settings.budget
        left = settings.context_tokens - notes
        everything = entries(self._reading().conversation, settings.released)
        if "oldest_working_memory" in settings.released:
            # Dropped pairs are the point of this behaviour of the released code: they are not counted.
            recalled = list[Passage]()
            newest = pack(newest_pairs(everything, WORKING_ENTRIES), budget["working"], counter=settings.counter)
        else:
            count, longest = settings.working_pairs, budget["working"]
            recalled = newest_pairs(everything, count)
            best, _ = fit_pairs(ranked[:BASE_K], budget["episodic"], settings.counter)
            newest = working_memory(everything, count, left - _size(best, settings.counter), settings.counter, longest)
        left -= _size(newest, settings.counter)
        joint = exact_joint(settings.counter)
        pairs, _ = fit_pairs(ranked, left, settings.counter, longest=budget["episodic"], skip=True, joint=joint)
        return pairs, newest, recalled

    def retrieved(self, question: str, k: int | None = None) -> list[Pair]:
        """Return the `k` pairs (by default the settings') whose keys match the question best, best first.

        With `plan_blind_ids` each brings its namesakes in other plans, so that there are more than `k`.
        """
        read = self._reading()
        pairs = read.index.search(question, k or self.settings.k)
        if "plan_blind_ids" not in self.settings.released:
            return pairs
        groups = namesakes(read.conversation)
        return list({pair.user.id: pair for hit in pairs for pair in groups[hit.user.id]}.values())

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return self._reading().conversation.pairs

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The extracted keys of each of `pairs`."""
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

    def _index(self, conversation: Conversation, keys: Sequence[Sequence[str]]) -> EpisodicIndex:
        retriever, encoders, one_vector = _index_settings(self.settings)
        encoders = replace(encoders, endpoint=self._embedding)
        return EpisodicIndex(conversation, keys, retriever, encoders, one_vector=one_vector)

    def _reading(self) -> _IngestState:
        if self._read is None:
            raise RuntimeError("Light has read no conversation yet: call ingest first")
        return self._read


def _size(passages: Sequence[Passage], counter: TokenCounter) -> int:
    return sum(counter.count(item.text) + exact_joint(counter) for item in passages)


def _cuts(retrieved: Sequence[Passage], newest: Sequence[Passage], shown: Sequence[Passage]) -> Cuts:
    """Count what is not whole anywhere in a context: a pair may stand in one part where the other has no room."""
    of_newest = pairs_cut(newest, shown)
    return pairs_cut(retrieved, shown) + Cuts(newest_cut=of_newest.pairs_shortened + of_newest.pairs_dropped)


def _index_settings(settings: LightSettings) -> tuple[str, Encoders, bool]:
    return settings.retriever, settings.encoders, "one_vector_per_pair" in settings.released
