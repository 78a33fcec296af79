"""One store for what runs make, whatever the benchmark: folders whose manifest vouches for what lies in them.

What is made has a part (answers, judgements; a setup) and a unit (a conversation, a dialogue). A part rests on a key,
the hash of settings, prompts, models and code, and a unit on its data. The manifest is written last and hashes every
unit: what is gone, was changed, or rests on anything else is made again. How parts and units lie in files is a
benchmark's own: BEAM's layout is `beamlib.evaluate.arm_folder`.
"""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

import beamlib
from beamlib.errors import UserError
from beamlib.files import make_folder, read_json, sha256, to_json, write_json
from beamlib.llm.prompts import prompt_file
from beamlib.params import RunParameters
from beamlib.places import ROOT

# Whatever an answer depends on; the reports and the command line are left out on purpose.
MODEL_CODE = (*(f"beamlib.llm.{name}" for name in ("model", "retrying", "client", "prompts")), "beam_offline")
ANSWER_CODE = (
    "beamlib.data",
    "beamlib.memory",
    *MODEL_CODE,
    "beamlib.retrieval",
    "beamlib.retrieval.embedded",
    *(f"beamlib.evaluate.{name}" for name in ("answering", "ingest_cache")),
    *(
        f"beam_memories.{name}"
        for name in ("own_memory", "own_process", "programs", "transformer", "hybrid_beam", "query_intent")
    ),
    "beamlib.text",
)


OTHER_VERSION = "the file was not written by this version, delete the folder and run again."

Value = TypeVar("Value")
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Made(Generic[Value]):
    """What was made of one unit: of which data, as a text that is hashed, and whether a failure in it may pass."""

    value: Value
    data: Any
    text: str
    transient: bool

    @cached_property
    def sha256(self) -> str:
        """Hash of the text."""
        return sha256(self.text.encode("utf-8", "surrogatepass"))  # a damaged file may hold half a character


class Vouched(NamedTuple):
    """What a manifest says of a part: the key it rests on, the hash of every unit, and the units left out, and why."""

    key: str
    sha256: Mapping[str, str]
    left_out: Mapping[str, str]


class RunStore(ABC, Generic[Model, Value]):
    """One folder of a run: what is on file and still valid, and what comes to it. Its subclasses are the layouts.

    `keys` are taken as they are at first: what is edited while a run is at work (prompts, models, the file of a memory
    of one's own) must not vouch for what was made without it.
    """

    name: ClassVar[str]
    """The manifest's file."""
    sealed: ClassVar[bool] = False
    """Whether the manifest hashes itself."""
    every: ClassVar[float] = 0.0
    """Seconds between two writings of the manifest, where what is lost with one costs little to make again."""

    def __init__(self, folder: Path, keys: Mapping[str, str]) -> None:
        self.folder, self.keys = folder, keys
        self.made: dict[str, dict[str, Made[Value]]] = {part: {} for part in keys}
        self.left_out: dict[str, dict[str, str]] = {part: {} for part in keys}
        self._written = 0.0

    @abstractmethod
    def find(self) -> Model | None:
        """The manifest on file, None where there is none to go by."""

    @abstractmethod
    def vouched(self, manifest: Model) -> Mapping[str, Vouched]:
        """What the manifest says of each of its parts."""

    @abstractmethod
    def read(self, manifest: Model, parts: Collection[str]) -> Mapping[str, Mapping[str, Made[Value]]]:
        """The units on file of these parts."""

    @abstractmethod
    def write(self, unit: str) -> None:
        """Write what has been made of a unit."""

    @abstractmethod
    def manifest(self) -> Model:
        """The manifest of what has been made by now."""

    def open(self, data: Mapping[str, object], *, again: bool) -> None:
        """Take over what is on file and valid; `again` leaves what failed for a reason that may pass.

        `data` tells the units' data as they are now. Of a unit that it does not name, what is on file stands.
        """
        found = self.find()
        if found is None:
            return
        said = self.vouched(found)
        same = [part for part, key in self.keys.items() if part in said and said[part].key == key]
        for part, units in self.read(found, same).items():
            self.left_out[part] = dict(said[part].left_out)
            for unit, one in units.items():
                stands = unit not in data or (one.data == data[unit] and not (again and one.transient))
                if stands and one.sha256 == said[part].sha256.get(unit):
                    self.made[part][unit] = one

    def begin(self) -> None:
        """Make the folder: a place that cannot be written to shows now and not after the work."""
        make_folder(self.folder)

    def take(self, part: str, unit: str, made: Made[Value]) -> None:
        """Keep what was made of a unit."""
        self.made[part][unit] = made
        self.write(unit)
        if time.monotonic() - self._written >= self.every:
            self.write_manifest()

    def write_manifest(self) -> Model:
        """Write the manifest, after all that it vouches for."""
        manifest = self.manifest()
        write_manifest(self.folder / self.name, manifest, sealed=self.sealed)
        self._written = time.monotonic()
        return manifest


def write_manifest(path: Path, manifest: BaseModel, *, sealed: bool) -> None:
    """Write a manifest; `sealed` adds the field `sha256`, which hashes all others."""
    value = manifest.model_dump(mode="json")
    write_json(path, {**value, "sha256": sha256(to_json(value))} if sealed else value)


def read_manifest(path: Path, kind: type[Model], *, sealed: bool = False) -> Model:
    """The manifest at `path`; a `UserError` where it is of another version, or `sealed` and was changed."""
    value = read_json(path)
    said = value.pop("sha256", None) if sealed and isinstance(value, dict) else None
    found = checked(kind, value, f"{path}: ")
    if sealed and said != sha256(to_json(value).encode("utf-8", "surrogatepass")):
        raise UserError(f"{path}: it was changed after it was written; delete the folder and run again.")
    return found


def checked(kind: type[Model], value: object, where: str, advice: str = OTHER_VERSION, *, within: str = "") -> Model:
    """`value` as a `kind`; a `UserError` names the first field that is wrong, `within` what it lies in, and advises."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = within + ".".join(map(str, first["loc"])) or kind.__name__.lower()
        told = first["input"]
        said = f" is {told!r:.40}" if isinstance(told, int | float | None) else ""  # a text may be long, or a key
        as_json = first["msg"].replace("a valid tuple", "a list").replace("a valid dictionary", "an object")
        raise UserError(f"{where}field '{field}'{said}: {as_json}; {advice}") from None


def made_by() -> dict[str, str]:
    """The version and commit that every manifest names."""
    return {"package_version": beamlib.__version__, "commit": commit()}


@cache
def commit() -> str:
    """The checkout's commit, with `+changes` where the working tree differs; `unknown` outside a checkout."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        head = git("rev-parse", "HEAD")
        return (head + ("+changes" if git("status", "--porcelain", "--", "beamlib", "packages") else "")) or "unknown"
    except OSError:
        return "unknown"


def settings_of(parameters: RunParameters, names: Iterable[str]) -> dict[str, Any]:
    """The parameters of these names."""
    return {name: getattr(parameters, name) for name in names}


def prompt_hashes(parameters: RunParameters, names: Iterable[str]) -> dict[str, str]:
    """The hashes of these prompts, overridden ones as they are in their folder."""
    folder = Path(parameters.prompts) if parameters.prompts else None
    return {name: prompt_file(name, folder).sha256 for name in names}


def combined_hash(hashes: Mapping[str, str]) -> str:
    """One hash for a set of named hashes, whatever their order."""
    return sha256(to_json(dict(hashes)))
