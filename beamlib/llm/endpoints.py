"""Which model plays which role, and where it is served: `params/models.yaml`, validated.

Roles: `readers` (one or several backbones by name), `memory` (keys, notes, filter), `compressor`, `judge`, `aligner`.
A backbone can be served otherwise for one method (`methods`). Generation has roles of its own, `authors`, which the
evaluation does without.
Keys are never in the file: `key_variable` names the environment variable that holds one.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast, get_args
from urllib.parse import unquote, urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from beamlib.errors import UserError
from beamlib.files import parse_yaml, read_text, to_json, write_text
from beamlib.llm.keys import (
    is_variable_name,
    keys_in,
    looks_like_key,
    names_a_key,
    without_key,
)
from beamlib.llm.model import MOST_REPLY_BYTES

MODELS = "models.yaml"
"""Name of a models file in the folder of parameter files, and in a run folder where one endpoint plays every role."""

BACKBONE = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""The name of a reader, which is part of the name of a folder."""

_OURS = ("model", "messages", "stream", "n", "temperature", "seed", "max_tokens", "max_completion_tokens")
Author = Literal["planner", "titler", "narrator", "augmenter", "asker", "speaker", "detector", "prober"]
"""Who writes a conversation (paper, sections 2.2, 2.3 and appendix B): people, seeds and plans; titles; narratives;
special bullets; main questions; both sides of the dialogue; what detects questions and follow-ups and sums up; probing
questions."""
Method = Literal["full-context", "rag", "light"]
"""A method that a backbone may be served otherwise for (paper, section 4.1: Qwen with 128K and with 32K tokens)."""
_BYTES_PER_TOKEN = 64
_LEAST_REPLY_BYTES = 1 << 20
UNLIMITED_TOKENS = 65_536
"""What a reply is taken to have at most where a request carries no limit."""
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


_MOST = 10_000
"""Entries of a models file: aliases can make of a few lines more than any memory holds."""
_ADDRESS = "must be an address such as http://127.0.0.1:8000/v1, without ? and #"
_VARIABLE = "put it into an environment variable, and that variable's name into key_variable"


def _entries(value: object, path: tuple[str, ...] = ("",)) -> Iterator[tuple[tuple[str, ...], str]]:
    """Path and text of every entry of a value read from YAML; the text is empty where it holds others or a switch."""
    match value:
        case Mapping():
            for name, one in value.items():
                yield (*path, str(name)), ""
                yield from _entries(one, (*path, str(name)))
        case list() | tuple() | set():
            for one in value:
                yield from _entries(one, path)
        case bytes():
            yield path, value.decode(errors="replace")
        case str() | int() if not isinstance(value, bool):
            yield path, str(value)


class Endpoint(BaseModel):
    """One role's model. Prices are US dollars per million tokens, times are seconds, sizes are tokens.

    `max_output_tokens` is None where a request carries no limit: then the model's own holds. `concurrency` bounds the
    requests in flight of a run, over all its processes. `attempts` bounds the tries of one call, `patience` is how long
    an endpoint may fail to answer anybody before the run stops. `max_reply_bytes` bounds what is read of a reply
    (`reply_bytes`). `tool_calls` says that it takes OpenAI's tools: else those of a prompt stand in its text. `extra`
    holds further fields of the request body, passed on as they are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    model: str = Field(min_length=1)
    base_url: str
    key_variable: str = ""
    context_window: int = Field(ge=1_000)
    max_output_tokens: int | None = Field(default=None, ge=1)
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    input_price: Price = 0.0
    cached_input_price: Price | None = None
    output_price: Price = 0.0
    concurrency: int = Field(default=16, ge=1)
    temperature: float | None = Field(default=0.0, ge=0, le=2)
    seed: int | None = 0
    timeout: float = Field(default=300.0, gt=0)
    attempts: int = Field(default=8, ge=1)
    patience: float = Field(default=60.0, ge=0)
    max_reply_bytes: int | None = Field(default=None, ge=1_000, le=MOST_REPLY_BYTES)
    tool_calls: bool = False
    extra: dict[str, Any] = Field(default_factory=dict)

    @field_validator("model")
    @classmethod
    def _printable(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("must be one line of printable characters")
        return value

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            valid = parts.port != 0 and value.isprintable() and not set(value) & set(" ?#\\")
        except ValueError:
            raise ValueError(_ADDRESS) from None
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not hold a user name or password; put the key into an environment variable")
        if not valid or parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(_ADDRESS)
        path = unquote(parts.path)
        if looks_like_key(path, strict=True) or any(map(names_a_key, re.split("[/;,&=:]", path))):
            raise ValueError(f"must not hold a key; {_VARIABLE}")
        return value.rstrip("/")

    @field_validator("extra")
    @classmethod
    def _not_ours(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name in _OURS:
                raise ValueError(f"must not hold '{name}', which this project sets itself; use the role's own fields")
        try:
            to_json(value)
        except (TypeError, ValueError, RecursionError):
            raise ValueError("must hold what JSON can carry: no dates, sets or bytes, no NaN") from None
        for path, text in _entries(value):
            if (text and names_a_key(path[-1])) or any(looks_like_key(one, strict=True) for one in (path[-1], text)):
                raise ValueError(f"must not hold a key; {_VARIABLE}")
        return value

    @field_validator("key_variable")
    @classmethod
    def _a_name(cls, value: str) -> str:
        if value and not is_variable_name(value):
            raise ValueError(
                "must be the name of an environment variable such as OPENAI_API_KEY, words of letters joined by _"
            )
        return value

    def limited(self, tokens: int) -> Self:
        """This endpoint with `tokens` as its output limit where it has none of its own; 0 leaves it without."""
        return self if self.max_output_tokens or not tokens else self.model_copy(update={"max_output_tokens": tokens})

    @property
    def reply_bytes(self) -> int:
        """Bytes, decoded, that the body of a reply may have: `max_reply_bytes`, else 64 for each requested token.

        At least 1 MiB then and at most 32; without `max_output_tokens` as if 65,536 were requested, 4 MiB.
        """
        usual = _BYTES_PER_TOKEN * (self.max_output_tokens or UNLIMITED_TOKENS)
        return self.max_reply_bytes or min(max(usual, _LEAST_REPLY_BYTES), MOST_REPLY_BYTES)

    def dollars(self, input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
        """US dollars; cached input costs as much as other input where no price for it is named."""
        cached_price = self.input_price if self.cached_input_price is None else self.cached_input_price
        fresh = max(0, input_tokens - cached_tokens)  # some endpoints count what was cached beside their input
        parts = fresh * self.input_price, cached_tokens * cached_price, output_tokens * self.output_price
        return sum(parts) / 1_000_000

    @property
    def settings(self) -> dict[str, Any]:
        """What a reply depends on, for manifests: no prices, no concurrency, no patience."""
        # Without tool calls nothing is said of them: manifests from before there were any stay as they are.
        unsaid = frozenset[str]() if self.tool_calls else {"tool_calls"}
        return self.model_dump(
            exclude={
                "input_price", "cached_input_price", "output_price", "concurrency", "timeout", "attempts", "patience",
                "key_variable", "max_reply_bytes", *unsaid,
            }
        )  # fmt: skip


class Embedding(Endpoint):
    """Who turns texts into vectors of `dimensions` numbers, for memories that ask (`beam_memories.loopback`)."""

    context_window: int = Field(default=8_192, ge=1)
    max_reply_bytes: int | None = Field(default=MOST_REPLY_BYTES, ge=1_000, le=MOST_REPLY_BYTES)
    dimensions: int = Field(ge=1, le=65_536)


class Reader(Endpoint):
    """A backbone, with what is otherwise where it is asked for one method: each entry overrides fields of the rest."""

    methods: dict[Method, Endpoint] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, value: Any) -> Any:
        methods = value.get("methods") if isinstance(value, dict) else None
        if not isinstance(methods, dict) or not all(isinstance(one, dict) for one in methods.values()):
            return value  # what is wrong with it is said by the types
        base = {name: field for name, field in value.items() if name != "methods"}
        return {**base, "methods": {name: {**base, **one} for name, one in methods.items()}}

    def of(self, method: str) -> Endpoint:
        """The endpoint that answers for `method`: its own entry, or the backbone's."""
        own = {name: getattr(self, name) for name in Endpoint.model_fields}
        return self.methods.get(cast(Method, method)) or Endpoint.model_construct(**own)


class ModelsFile(BaseModel):
    """The roles of a run. `authors` are only needed where conversations are generated.

    `embedding` serves memories that ask for vectors; without it they get those of the shipped table.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    readers: dict[str, Reader] = Field(min_length=1)
    memory: Endpoint
    compressor: Endpoint
    judge: Endpoint
    aligner: Endpoint
    embedding: Embedding | None = None
    authors: dict[Author, Endpoint] = Field(default_factory=dict)
    _origin: str = PrivateAttr(default="the models file")

    @field_validator("readers")
    @classmethod
    def _names(cls, value: dict[str, Reader]) -> dict[str, Reader]:
        for name in value:
            if not re.fullmatch(BACKBONE, name):
                raise ValueError(f"the backbone's name {name!r:.80} must be letters, digits, '.', '_' and '-'")
        return value

    @property
    def key_variables(self) -> frozenset[str]:
        """The environment variables that hold the keys of all roles."""
        readers = [one for reader in self.readers.values() for one in (reader, *reader.methods.values())]
        roles = [*readers, self.memory, self.compressor, self.judge, self.aligner, *self.authors.values()]
        roles += [self.embedding] if self.embedding else []
        return frozenset(role.key_variable for role in roles if role.key_variable)

    def by_stored_role(self) -> Iterator[tuple[str, Endpoint]]:
        """Every endpoint with the role that its calls are stored under; a role of several readers comes several times.

        Whoever stands in for an author is under that author's role.
        """
        for reader in self.readers.values():
            yield "reader", reader
            yield from ((f"reader:{method}", one) for method, one in reader.methods.items())
        yield from (("memory", self.memory), ("compressor", self.compressor), ("judge", self.judge))
        yield "aligner", self.aligner
        if self.embedding:
            yield "embedding", self.embedding
        for role in get_args(Author) if self.authors else ():
            stands_in = role in self.authors or "planner" in self.authors
            yield from ((role, self.author(role)),) if stands_in else ()

    def keep(self, folder: Path) -> Path:
        """Write the roles down as `folder/models.yaml`, without the comments of the file that they came from."""
        values = self.model_dump(mode="json", exclude_unset=True)
        return write_text(folder / MODELS, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))

    def reader(self, backbone: str) -> Reader:
        """The reader called `backbone`, or the first one where it is empty."""
        if not backbone:
            return next(iter(self.readers.values()))
        if backbone not in self.readers:
            raise UserError(f"backbone is {backbone!r}; the models file names {', '.join(self.readers)}.")
        return self.readers[backbone]

    def author(self, role: Author) -> Endpoint:
        """An authoring role's endpoint; where it is not named, `planner`'s, and for `detector` that of `speaker`."""
        stand_ins: tuple[Author, ...] = ("speaker", "planner") if role == "detector" else ("planner",)
        found = next((self.authors[name] for name in (role, *stand_ins) if name in self.authors), None)
        if found is None:
            raise UserError(
                f"{self._origin}: 'authors.{role}' is missing; name the models that write conversations under authors, "
                "planner at least (docs/models-file.md)."
            )
        return found


def load_models(path: Path) -> ModelsFile:
    """Read a models file; the `UserError` names file, role, field and, unless it may be a key, the value."""
    return _loaded(read_text(path), path)


@lru_cache(maxsize=16)  # every key of a manifest asks for it, and reading its YAML takes a tenth of a second
def _loaded(text: str, path: Path) -> ModelsFile:
    values = parse_yaml(text, path)
    if not isinstance(values, dict):
        raise UserError(f"{path}: a models file holds the roles readers, memory, compressor, judge and aligner.")
    return parse_models(values, str(path), re.findall(r"(?:^|\s)#(.*)", text))


def parse_models(values: Mapping[str, Any], origin: str, comments: Sequence[str] = ()) -> ModelsFile:
    """Validate the roles in `values`; whatever looks like a key, in a comment too, is refused and not repeated."""
    try:
        entries = list(islice(_entries(values), _MOST + 1))
    except RecursionError:
        entries = []
    if not 0 < len(entries) <= _MOST:
        raise UserError(f"{origin}: it is empty, holds itself, or more than {_MOST:,} values; write the roles out.")
    for path, text in [*entries, *(((), comment) for comment in comments)]:
        if path[-1:] != ("key_variable",) and any(map(looks_like_key, (*path[-1:], text))):
            place = ".".join("…" if looks_like_key(part) else part for part in path[1:]) if path else "a comment"
            raise UserError(f"{origin}: '{place}' holds what looks like a key; {_VARIABLE}.")
    try:
        found = ModelsFile.model_validate(dict(values))
    except ValidationError as error:
        raise UserError(f"{origin}: {_problem(error)}") from None
    everything = "\n".join([*(one for path, text in entries for one in (path[-1], text)), *comments])
    for variable, key in keys_in(found.key_variables).items():
        if without_key(everything, key) != everything:
            raise UserError(f"{origin}: it holds the key that {variable} holds; take it out, the variable is enough.")
    found._origin = origin
    return found


def key_variables(*files: str | Path) -> frozenset[str]:
    """The environment variables that hold the keys of these models files; an empty name stands for none."""
    return frozenset[str]().union(*(load_models(Path(file)).key_variables for file in files if file))


def _problem(error: ValidationError) -> str:
    """What is wrong with a models file, and where; a value that may hold a key is left out."""
    first = error.errors()[0]
    # pydantic marks a wrong name in a mapping by a last part "[key]", which has nothing to do with keys.
    name = ".".join(str(part) for part in first["loc"] if part != "[key]") or "models"
    field = name.rpartition(".")[2]
    if first["type"] == "missing":
        return f"'{name}' is missing; add it."
    if first["type"] == "extra_forbidden":
        if re.search(r"key|token|secret|auth|passw", field, re.IGNORECASE):
            return (
                f"'{name}' cannot stand here: keys come from the environment; give the variable's name as "
                "key_variable, for example key_variable: OPENAI_API_KEY."
            )
        nested = Reader if first["loc"][0] == "readers" and len(first["loc"]) == 3 else Endpoint
        kind = Embedding if first["loc"][0] == "embedding" else nested if "." in name else ModelsFile
        return f"unknown field '{name}'; the known ones are {', '.join(kind.model_fields)}."
    message, value = first["msg"].removeprefix("Value error, "), str(first["input"])
    doubtful = looks_like_key(value, strict=True) or (field == "base_url" and set(value) & set("@?#%;="))
    if field in ("key_variable", "extra") or doubtful:
        return f"'{name}' {message}."
    return f"'{name}' is {reprlib.repr(first['input'])}: {message}."
