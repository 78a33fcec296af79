"""Measure retrieval with the vectors of one's own endpoint: which texts it embeds, what that costs, where it is stored.

No reader, memory or judge is asked. Vectors are stored by conversation, like every call, so that the next command pays
for new texts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from beam_commands.confirmation import Quote, confirm_calls, cost_in_words
from beam_commands.dry_run import DryRun, EstimatingEmbedding
from beam_commands.options import KeyVariable, MaxCost, ModelName, Models, Yes
from beamlib.errors import UserError
from beamlib.llm.call_store import CallStore
from beamlib.llm.embedding_model import EMBED, EmbeddingModel
from beamlib.llm.endpoints import EMBEDDING, Embedding, ModelsFile, load_models, parse_models
from beamlib.llm.model import ModelError
from beamlib.llm.spending import guard_run, set_spending_limit
from beamlib.llm.stored_model import StoredModel
from beamlib.places import RUNS
from beamlib.retrieval import Encoders
from beamlib.text import WORDS

FOLDER = "own-vectors"
"""The folder below runs/ that stores vectors."""

VectorUrl = Annotated[str, typer.Option("--base-url", help="Endpoint of an encoder, instead of a models file.")]
QueryPrefix = Annotated[str, typer.Option("--query-prefix", help="With --base-url: goes before questions.")]
PassagePrefix = Annotated[str, typer.Option("--passage-prefix", help="With --base-url: goes before what is searched.")]


@dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """The options of commands that may ask an encoder."""

    models: Models = None
    base_url: VectorUrl = ""
    model: ModelName = ""
    key_variable: KeyVariable = ""
    query_prefix: QueryPrefix = ""
    passage_prefix: PassagePrefix = ""
    max_cost: MaxCost = None
    yes: Yes = False

    def models_file(self) -> ModelsFile | None:
        """Return the models file with the role `embedding`, None if no encoder is named.

        Raises:
            UserError: The options contradict one another, or the file has no such role.
        """
        if self.models is not None and self.base_url:
            raise UserError("--models and --base-url exclude one another; give one.")
        if self.models is not None:
            file = load_models(self.models)
            if file.embedding is None:
                raise UserError(f"{self.models}: it has no role embedding, whose vectors are to be measured; add it.")
            return file
        names = ("model", "key_variable", "query_prefix", "passage_prefix")
        given = {name: value for name in names if (value := getattr(self, name))}
        if not self.base_url:
            for name in given:
                raise UserError(f"--{name.replace('_', '-')}: name the endpoint that serves it with --base-url.")
            return None
        if not self.model:
            raise UserError("--base-url: name the model that is served there with --model.")
        endpoint = {"model": self.model, "base_url": self.base_url, "context_window": 8_192}
        roles: dict[str, Any] = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
        values = {"readers": {"nobody": endpoint}, **roles, EMBEDDING: {"base_url": self.base_url, **given}}
        return parse_models(values, "--base-url")


@dataclass(frozen=True)
class OwnVectors:
    """An encoder at an endpoint, and the folder that stores its vectors.

    With `confirmed` texts without a vector are sent; otherwise they are counted, and the shipped table stands in.
    """

    endpoint: Embedding
    folder: Path = field(default_factory=lambda: RUNS / FOLDER)
    confirmed: bool = False
    counted: list[tuple[int, int, int]] | None = None

    @contextmanager
    def open(self, conversation: str) -> Iterator[Encoders]:
        """Open the encoder for a conversation."""
        path = self.folder / "calls" / f"{conversation}.sqlite"
        with CallStore(path, read_only=not self.confirmed) as store:
            model = EmbeddingModel(EMBEDDING, self.endpoint)
            if self.confirmed:
                command = "the same command with --yes"
                stored = StoredModel(model, store, "record", role=EMBEDDING, conversation=conversation, command=command)
                yield Encoders(EMBEDDING, endpoint=stored)
                return
            rehearsal = DryRun(conversation, store, counter=WORDS)
            yield Encoders(EMBEDDING, endpoint=EstimatingEmbedding(model, rehearsal))
            calls = rehearsal.tally[EMBEDDING, EMBED]
            if self.counted is not None:
                self.counted.append((calls.pending, calls.held, calls.input))

    def counting(self) -> OwnVectors:
        """Return the encoder as it counts texts and sends none."""
        return replace(self, confirmed=False, counted=[])

    def quote(self) -> Quote:
        """Say how many texts are to be embedded and what they cost, once they are counted."""
        pending, held, tokens = (sum(column) for column in zip((0, 0, 0), *(self.counted or ()), strict=True))
        dollars = self.endpoint.dollars(tokens, 0, 0)
        unpriced = (self.endpoint.model,) if dollars is None and pending else ()
        text = (
            f"{self.endpoint.model}: {pending:,} texts to embed ({held:,} held), {tokens:,} tokens, "
            f"{cost_in_words(dollars or 0.0, unpriced)}"
        )
        return Quote(pending, dollars or 0.0, text, unpriced)


@contextmanager
def own_vectors(options: VectorOptions, measure: Callable[[OwnVectors], object]) -> Iterator[OwnVectors | None]:
    """Open the encoder that is named, once its cost is confirmed; None if none is named.

    Args:
        measure: What is going to be done with the encoder: done first with one that counts and sends nothing.

    Raises:
        UserError: The cost is not confirmed, or a text has no vector.
    """
    file = options.models_file()
    if file is None or file.embedding is None:
        yield None
        return
    set_spending_limit(options.max_cost)
    counting = OwnVectors(file.embedding).counting()
    measure(counting)
    confirm_calls({"": counting.quote()}, EmbeddingModel(EMBEDDING, file.embedding).check_key, options.yes)
    try:
        with guard_run(counting.folder, file):
            yield replace(counting, confirmed=True, counted=None)
    except ModelError as error:
        raise UserError(f"{error.reason}; vectors that arrived are stored: run the same command again.") from None
