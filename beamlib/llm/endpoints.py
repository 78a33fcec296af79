"""Read and validate the models file: which model plays which role, and where it is served.

Roles: `readers` (one or several backbones by name), `memory` (keys, notes, filter), `compressor`, `judge`, `aligner`,
optionally `embedding` and `auditor`, and `authors` for generation. A reader can be served differently for one method
(`methods`).
The file never contains a key: `key_variable` names the environment variable that does.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import parse_qs, unquote, urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from beamlib.errors import UserError
from beamlib.files import read_settings, to_json, write_text
from beamlib.llm.exchange import MOST_REPLY_BYTES, Basis
from beamlib.llm.keys import is_key_name, is_variable_name, key_values, looks_like_key, read_key, without_key

EMBEDDING, RERANKER = "embedding", "reranker"
"""The role that turns texts into vectors, for encoders and for memories from outside this package."""
Route = Literal["chat/completions", "responses", "embeddings", "rerank"]
ROUTES: tuple[Route, ...] = ("chat/completions", "responses", "embeddings")
"""What requests of other programs are forwarded to, relative to the base URL."""
RERANK: Route = "rerank"
MODELS = "models.yaml"
"""Name of a models file in the folder of parameter files, and in a run folder where one endpoint plays every role."""
BACKBONE = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""Pattern of a reader's name, which is part of a folder's name."""
UNLIMITED_TOKENS = 65_536
"""Tokens that a reply is assumed to have at most if its request has no limit."""
Author = Literal["planner", "titler", "narrator", "augmenter", "asker", "speaker", "detector", "prober"]
"""Roles of generation (paper, sections 2.2, 2.3 and appendix B), in the order in which they first write."""
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_BYTES_PER_TOKEN = 64
_LEAST_REPLY_BYTES = 1 << 20
_OWN_FIELDS = ("model", "messages", "stream", "n", "temperature", "seed", "max_tokens", "max_completion_tokens")
_ADDRESS = "must be an address such as http://127.0.0.1:8000/v1, without # and with no query but Azure's api-version"
_QUERY = {"api-version"}
_NO_KEY = "put it into an environment variable, and that variable's name into key_variable"


def forwarded_step(arm: str, route: Route) -> str:
    """Name the step that a call of an arm's memory is stored as, for example `mem0/chat`."""
    return f"{arm}/{route.partition('/')[0]}"


def _entries(value: object, path: tuple[str, ...] = ("",)) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield path and text of every entry of a YAML value; the text of a container or a boolean is empty."""
    match value:
        case Mapping():
            for name, item in value.items():
                yield (*path, str(name)), ""
                yield from _entries(item, (*path, str(name)))
        case list() | tuple() | set():
            for item in value:
                yield from _entries(item, path)
        case bytes():
            yield path, value.decode(errors="replace")
        case str() | int() if not isinstance(value, bool):
            yield path, str(value)


class Endpoint(BaseModel):
    """One role's model. Prices are US dollars per million tokens, times are seconds, sizes are tokens.

    The keys of calls rest on the fields that are marked as computed, so a replay verifies them. A price of None is
    unknown; a model that costs nothing has a price of 0.

    Args:
        max_output_tokens: The limit sent with each request; None sends none, and the model's own applies.
        concurrency: Requests in flight, over all processes of a run.
        attempts: Tries of one call.
        patience: How long an endpoint may answer no call before the run stops.
        max_reply_bytes: Bytes read of a reply (see `reply_bytes`).
        tool_calls: The endpoint takes OpenAI's tools. Otherwise a prompt's tools are written into its text.
        chat_turns: The endpoint takes a system message and a dialogue in roles. Otherwise long context is one user
            message.
        omit: Fields that are left out of the request; with `system`, the system message goes into the first user
            message.
        extra: Further fields of the request body.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    model: Annotated[str, Basis.COMPUTED] = Field(min_length=1)
    base_url: Annotated[str, Basis.COMPUTED]
    key_variable: str = ""
    context_window: int = Field(ge=1_000)
    max_output_tokens: Annotated[int | None, Basis.COMPUTED] = Field(default=None, ge=1)
    limit_field: Annotated[Literal["max_tokens", "max_completion_tokens"], Basis.COMPUTED] = "max_tokens"
    input_price: Price | None = None
    cached_input_price: Price | None = None
    output_price: Price | None = None
    concurrency: int = Field(default=16, ge=1)
    temperature: Annotated[float | None, Basis.COMPUTED] = Field(default=0.0, ge=0, le=2)
    seed: Annotated[int | None, Basis.COMPUTED] = 0
    timeout: float = Field(default=300.0, gt=0)
    attempts: int = Field(default=8, ge=1)
    patience: float = Field(default=60.0, ge=0)
    max_reply_bytes: int | None = Field(default=None, ge=1_000, le=MOST_REPLY_BYTES)
    tool_calls: bool = False
    chat_turns: Annotated[bool, Basis.COMPUTED] = True
    omit: Annotated[list[str], Basis.COMPUTED] = Field(default_factory=list)
    extra: Annotated[dict[str, Any], Basis.COMPUTED] = Field(default_factory=dict)

    @field_validator("model")
    @classmethod
    def _check_model(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("must be one line of printable characters")
        return value

    @field_validator("base_url")
    @classmethod
    def _check_address(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            query = parse_qs(parts.query, strict_parsing=True) if "?" in value else {}
            valid = parts.port != 0 and value.isprintable() and not set(value) & set(" #\\") and query.keys() <= _QUERY
        except ValueError:
            raise ValueError(_ADDRESS) from None
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not contain a user name or password; put the key into an environment variable")
        if not valid or parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(_ADDRESS)
        path = unquote(f"{parts.path}/{parts.query.partition('=')[2]}")
        if looks_like_key(path, strict=True) or any(map(is_key_name, re.split("[/;,&=:]", path))):
            raise ValueError(f"must not contain a key; {_NO_KEY}")
        return value.rstrip("/")

    @field_validator("extra")
    @classmethod
    def _check_extra(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name in _OWN_FIELDS:
                raise ValueError(f"must not contain '{name}', which this project sets; use the role's own fields")
        try:
            to_json(value)
        except (TypeError, ValueError, RecursionError):
            raise ValueError("must be what JSON can carry: no dates, sets or bytes, no NaN") from None
        for path, text in _entries(value):
            if (text and is_key_name(path[-1])) or any(looks_like_key(part, strict=True) for part in (path[-1], text)):
                raise ValueError(f"must not contain a key; {_NO_KEY}")
        return value

    @field_validator("omit")
    @classmethod
    def _check_omit(cls, value: list[str]) -> list[str]:
        if needed := {"model", "messages", "input"} & set(value):
            raise ValueError(f"must not contain {', '.join(sorted(needed))}: no request works without")
        return value

    @field_validator("key_variable")
    @classmethod
    def _check_variable(cls, value: str) -> str:
        if value and not is_variable_name(value):
            raise ValueError("must be an environment variable's name such as OPENAI_API_KEY: words joined by _")
        return value

    def with_output_limit(self, tokens: int) -> Self:
        """Return this endpoint with an output limit of `tokens`, unless it has its own; 0 sets none."""
        return self if self.max_output_tokens or not tokens else self.model_copy(update={"max_output_tokens": tokens})

    @property
    def reply_bytes(self) -> int:
        """Bytes, uncompressed, that are read of a reply: `max_reply_bytes`, or 64 per requested token.

        In the second case from 1 MiB to 32; 4 MiB, as for 65,536 tokens, if no number is requested.
        """
        usual = _BYTES_PER_TOKEN * (self.max_output_tokens or UNLIMITED_TOKENS)
        return self.max_reply_bytes or min(max(usual, _LEAST_REPLY_BYTES), MOST_REPLY_BYTES)

    def dollars(self, input_tokens: float, cached_tokens: float, output_tokens: float) -> float | None:
        """Return the price in US dollars; None without both prices, whatever the tokens: unknown is not zero.

        Cached input costs as much as other input unless it has a price.
        """
        if self.input_price is None or self.output_price is None:
            return None
        cached_price = self.input_price if self.cached_input_price is None else self.cached_input_price
        fresh = max(0, input_tokens - cached_tokens)  # some endpoints do not count cached tokens as input
        parts = [(fresh, self.input_price), (cached_tokens, cached_price), (output_tokens, self.output_price)]
        return sum(tokens * (price or 0.0) for tokens, price in parts) / 1_000_000

    @property
    def settings(self) -> dict[str, Any]:
        """What a reply depends on, for manifests: no prices, no concurrency, no patience."""
        # Left out at their defaults, so that older manifests stay as they are.
        defaults = {"tool_calls": False, "chat_turns": True, "omit": []}
        unset = {name for name, value in defaults.items() if getattr(self, name) == value}
        return self.model_dump(
            exclude={
                "input_price", "cached_input_price", "output_price", "concurrency", "timeout", "attempts", "patience",
                "key_variable", "max_reply_bytes", "batch", *unset,
            }
        )  # fmt: skip


class Embedding(Endpoint):
    """Turns texts into vectors, for encoders and for memories that request them (`beam_memories.loopback`).

    Args:
        dimensions: How many numbers a vector has. Encoders read it from the reply; memories of others need it.
        query_prefix: Goes before a text that is searched for; models such as E5 were trained with one.
        passage_prefix: Goes before a text that is searched in.
        batch: Texts of a request, until the server refuses as many.
    """

    context_window: int = Field(default=8_192, ge=1)
    max_reply_bytes: int | None = Field(default=MOST_REPLY_BYTES, ge=1_000, le=MOST_REPLY_BYTES)
    output_price: Price | None = 0.0
    dimensions: int | None = Field(default=None, ge=1, le=65_536)
    query_prefix: str = Field(default="", max_length=1_000)
    passage_prefix: str = Field(default="", max_length=1_000)
    batch: int = Field(default=64, ge=1, le=2_048)


class Reader(Endpoint):
    """A backbone. Each entry of `methods` overrides fields of the rest for one method, by the name of its memory.

    (Paper, section 4.1: Qwen is served with 128K tokens for long context and with 32K for the others.)
    """

    methods: Annotated[dict[str, Endpoint], Basis.COMPUTED] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _inherit(cls, value: Any) -> Any:
        methods = value.get("methods") if isinstance(value, dict) else None
        if not isinstance(methods, dict) or not all(isinstance(own, dict) for own in methods.values()):
            return value  # validation reports it
        base = {name: field for name, field in value.items() if name != "methods"}
        return {**base, "methods": {name: {**base, **own} for name, own in methods.items()}}

    def of(self, method: str) -> Endpoint:
        """Return the endpoint that answers for `method`: its own entry, or the backbone's."""
        base = {name: getattr(self, name) for name in Endpoint.model_fields}
        stated = self.model_fields_set & base.keys()
        return self.methods.get(method) or Endpoint.model_construct(_fields_set=stated, **base)


class ModelsFile(BaseModel):
    """The roles of a run. `authors` are needed for generation only; without `embedding` the shipped table embeds.

    `auditor` checks generated episodes of MEME; without it rules alone check them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    readers: dict[str, Reader] = Field(min_length=1)
    memory: Endpoint
    compressor: Endpoint
    judge: Endpoint
    aligner: Endpoint
    embedding: Embedding | None = None
    reranker: Endpoint | None = None
    auditor: Endpoint | None = None
    authors: dict[Author, Endpoint] = Field(default_factory=dict)
    _origin: str = PrivateAttr(default="the models file")
    _text: str = PrivateAttr(default="")
    _searched: set[str] = PrivateAttr(default_factory=set)

    @field_validator("readers")
    @classmethod
    def _check_names(cls, value: dict[str, Reader]) -> dict[str, Reader]:
        for name in value:
            if not re.fullmatch(BACKBONE, name):
                raise ValueError(f"the backbone's name {name!r:.80} must be letters, digits, '.', '_' and '-'")
        return value

    @property
    def key_variables(self) -> frozenset[str]:
        """The environment variables that contain the keys of all roles."""
        endpoints = [*(endpoint for _, endpoint in self.by_stored_role()), *self.authors.values()]
        return frozenset(endpoint.key_variable for endpoint in endpoints if endpoint.key_variable)

    def take_keys(self) -> None:
        """Take the keys of all roles out of the environment, before a process is begun that would inherit them.

        For a file that the user has named, and a run that calls models. A file from elsewhere, as in an archive, could
        name any variable: reading it must change nothing.

        Raises:
            UserError: The file itself contains one of the keys.
        """
        for variable in self.key_variables - self._searched:
            read_key(variable)
            for key in key_values([variable]).values():
                if without_key(self._text, key) != self._text:
                    problem = f"it contains the value of {variable}; remove it, the variable's name is enough"
                    raise UserError(f"{self._origin}: {problem}.")
                self._searched.add(variable)

    def by_stored_role(self) -> Iterator[tuple[str, Endpoint]]:
        """Yield every endpoint with the role that its calls are stored under.

        `reader` comes once per reader. An author's substitute comes under the author's role.
        """
        for reader in self.readers.values():
            yield "reader", reader
            yield from ((f"reader:{method}", endpoint) for method, endpoint in reader.methods.items())
        yield from (("memory", self.memory), ("compressor", self.compressor), ("judge", self.judge))
        yield "aligner", self.aligner
        others = ((EMBEDDING, self.embedding), (RERANKER, self.reranker), ("auditor", self.auditor))
        yield from ((role, endpoint) for role, endpoint in others if endpoint)
        for role in get_args(Author):
            if {role, "planner", *(["speaker"] if role == "detector" else [])} & self.authors.keys():
                yield role, self.author(role)

    @property
    def origin(self) -> str:
        """Where it was read, for messages."""
        return self._origin

    def save(self, folder: Path) -> Path:
        """Write `folder/models.yaml` without the comments of the original file."""
        values = self.model_dump(mode="json", exclude_unset=True)
        return write_text(folder / MODELS, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))

    def reader(self, backbone: str) -> Reader:
        """Return the reader called `backbone`, or the first if it is empty."""
        if not backbone:
            return next(iter(self.readers.values()))
        if backbone not in self.readers:
            raise UserError(f"backbone is {backbone!r}; the models file names {', '.join(self.readers)}.")
        return self.readers[backbone]

    def author(self, role: Author) -> Endpoint:
        """Return an author's endpoint: its own, for `detector` else `speaker`'s, else `planner`'s."""
        substitutes: tuple[Author, ...] = ("speaker", "planner") if role == "detector" else ("planner",)
        endpoint = next((self.authors[name] for name in (role, *substitutes) if name in self.authors), None)
        if endpoint is None:
            raise UserError(
                f"{self._origin}: 'authors.{role}' is missing; name the models that write conversations under authors, "
                "planner at least (docs/models-file.md)."
            )
        return endpoint


def load_models(path: Path) -> ModelsFile:
    """Read a models file.

    Raises:
        UserError: names file, role, field and, unless it may be a key, the value.
    """
    text, values = read_settings(path)
    if not isinstance(values, dict):
        raise UserError(f"{path}: a models file consists of the roles readers, memory, compressor, judge and aligner.")
    return parse_models(values, str(path), re.findall(r"(?:^|\s)#(.*)", text))


def parse_models(values: Mapping[str, Any], origin: str, comments: Sequence[str] = ()) -> ModelsFile:
    """Validate roles. What looks like a key, even in a comment, is refused and not repeated in the message.

    The environment is neither read nor changed: see `ModelsFile.take_keys`.
    """
    entries = list(_entries(values))
    for path, text in [*entries, *(((), comment) for comment in comments)]:
        if path[-1:] != ("key_variable",) and any(map(looks_like_key, (*path[-1:], text))):
            place = ".".join("…" if looks_like_key(part) else part for part in path[1:]) if path else "a comment"
            raise UserError(f"{origin}: '{place}' contains what looks like a key; {_NO_KEY}.")
    try:
        models = ModelsFile.model_validate(dict(values))
    except ValidationError as error:
        raise UserError(f"{origin}: {_problem(error)}") from None
    models._origin = origin
    models._text = "\n".join([*(part for path, text in entries for part in (path[-1], text)), *comments])
    return models


def key_variables(*files: str | Path) -> frozenset[str]:
    """Return the environment variables that contain the keys of these models files; an empty name is no file."""
    return frozenset[str]().union(*(load_models(Path(file)).key_variables for file in files if file))


def _problem(error: ValidationError) -> str:
    """Describe the first problem of a models file and its place, without a value that may be a key."""
    first = error.errors()[0]
    # pydantic marks a wrong name in a mapping by a last part "[key]", which has nothing to do with keys.
    name = ".".join(str(part) for part in first["loc"] if part != "[key]") or "models"
    field = name.rpartition(".")[2]
    if first["type"] == "missing":
        return f"'{name}' is missing; add it."
    if first["type"] == "extra_forbidden":
        if re.search(r"key|token|secret|auth|passw", field, re.IGNORECASE):
            return (
                f"'{name}' is not allowed: keys come from the environment; give the variable's name as "
                "key_variable, for example key_variable: OPENAI_API_KEY."
            )
        nested = Reader if first["loc"][0] == "readers" and len(first["loc"]) == 3 else Endpoint
        kind = Embedding if first["loc"][0] == EMBEDDING else nested if "." in name else ModelsFile
        return f"unknown field '{name}'; the known ones are {', '.join(kind.model_fields)}."
    message, value = first["msg"].removeprefix("Value error, "), str(first["input"])
    doubtful = looks_like_key(value, strict=True) or (field == "base_url" and set(value) & set("@?#%;="))
    if field in ("key_variable", "extra") or doubtful:
        return f"'{name}' {message}."
    return f"'{name}' is {reprlib.repr(first['input'])}: {message}."
