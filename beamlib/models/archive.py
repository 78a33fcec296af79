"""Runs as one file: the calls of every store and the records beside them, compressed, with a list of hashes.

An archive is a tar inside zstandard (`zstd -d < run.tar.zst | tar x` opens it). Its first member lists the size and
SHA-256 of all others, in order. Equal content gives equal bytes (with one version of zstandard).

The requests are not stored, so an archive alone cannot prove that a reply belongs to a request. A replay does: with
another prompt, model or setting the key is another one and is not found.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import zstandard
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beamlib.errors import UserError
from beamlib.files import make_folder, parse_json, sha256_of_file, temporary_folder, write_bytes
from beamlib.models.calls import CallStore, StoredCall

FORMAT = 1
LIST = "archive.json"
TOTAL_LIMIT = 64 << 30
"""Bytes an archive may hold, unpacked."""

_LIST_LIMIT = 16 << 20
_LINE_LIMIT = 64 << 20
_WINDOW = 8 << 20
_LEVEL = 9
_BLOCK = tarfile.BLOCKSIZE
_PIECE = 2 << 10
"""Compressed bytes taken at a time: zstandard turns each into 64 MB at most, whatever the archive pretends."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*(/[A-Za-z0-9_][A-Za-z0-9_.@+-]*)*")


@dataclass(frozen=True, slots=True)
class ArchiveSummary:
    """What an archive holds. `failures` are those of its `calls` without a usable reply; `sha256` is the archive's."""

    files: int
    calls: int
    failures: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    models: tuple[str, ...]
    sha256: str


class _Member(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    size: int = Field(ge=0, le=TOTAL_LIMIT)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class _List(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: int
    files: dict[str, _Member]


def export_calls(stores: Path, target: Path, extra: Mapping[str, Path] | None = None) -> ArchiveSummary:
    """Write all stores `<name>.sqlite` under `stores` and the files of `extra` (by the name they get) to `target`.

    A store `stores/100k/3.sqlite` becomes `calls/100k/3.jsonl`, its calls sorted by key. `target` is replaced in one
    step, once it is whole. Nothing to export, a damaged store, a missing file or a name that cannot be kept is a
    `UserError`.
    """
    found = sorted(stores.rglob("*.sqlite"), key=lambda path: path.relative_to(stores).as_posix())
    if not found:
        raise UserError(f"{stores}: no call stores (*.sqlite) to export; record a run first, or name its folder.")
    make_folder(target.parent)
    with temporary_folder(".export-", target.parent) as folder, _disk(target):
        sources: dict[str, Path] = {}
        for number, path in enumerate(found):
            name = f"calls/{path.relative_to(stores).with_suffix('.jsonl').as_posix()}"
            sources[name] = _write_lines(path, folder / str(number))
        for name, path in sorted((extra or {}).items()):
            if name in sources or name == LIST or name.startswith("calls/"):
                raise UserError(f"{path}: cannot be exported as '{name}', which calls have taken; choose another name.")
            sources[name] = path
        whole = folder / "whole"
        _pack(sources, whole)
        summary = verify_archive(whole)
        whole.replace(target)
    return summary


def import_calls(archive: Path, run: Path) -> ArchiveSummary:
    """Unpack `archive` into the folder `run`, all of it verified before anything is written.

    `calls/100k/3.jsonl` goes into `run/calls/100k/3.sqlite`: what is held there stays, what is missing (or failed in a
    way that may pass) is added, in one transaction per store. Other members become files of that name. `UserError`:
    a damaged, foreign or ill-meant archive; a reply that differs from the one held under its key; a file that is there
    with other content. A disk that fills up half-way leaves whole stores; import again.
    """
    with temporary_folder("beamlib-import-") as folder, _disk(archive):
        summary, members = _unpack(archive, folder)
        for name, path in members.items():
            if name.startswith("calls/"):
                _check_agreement(archive, name, path, _store_of(run, name))
            elif (run / name).exists() and sha256_of_file(run / name) != sha256_of_file(path):
                raise UserError(f"{run / name}: differs from the one in {archive}; import into another folder.")
        for name, path in members.items():
            if name.startswith("calls/"):
                with CallStore(_store_of(run, name)) as store:
                    store.add(_lines(archive, name, path))
            else:
                write_bytes(run / name, path.read_bytes())
    return summary


def verify_archive(archive: Path) -> ArchiveSummary:
    """Check every hash and every call of `archive` and say what it holds; what is wrong is a `UserError`."""
    with temporary_folder("beamlib-verify-") as folder, _disk(archive):
        return _unpack(archive, folder)[0]


def _store_of(run: Path, name: str) -> Path:
    return (run / name).with_suffix(".sqlite")


def _write_lines(store: Path, target: Path) -> Path:
    with CallStore(store, read_only=True) as calls, target.open("w", encoding="utf-8") as handle:
        for key, call in calls.calls():
            line = {"key": key, **call.model_dump(mode="json")}
            text = json.dumps(line, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"
            if len(text.encode()) > _LINE_LIMIT:  # twice the longest reply that is read since replies have a bound
                raise UserError(
                    f"{store}: the reply of step {call.step} under the key {key} is longer than an archive may hold "
                    f"({_LINE_LIMIT:,} bytes); export another run, or record this one again into another folder."
                )
            handle.write(text)
    return target


def _pack(sources: Mapping[str, Path], target: Path) -> None:
    files = {}
    for name, path in sources.items():
        if not _NAME.fullmatch(name) or len(name) > tarfile.LENGTH_NAME:
            raise UserError(
                f"{path}: cannot be exported as '{name[:99]}'; a name is at most {tarfile.LENGTH_NAME} letters, digits "
                "and '_.@+-' with '/' between its parts, none of which starts with '.' or '-'."
            )
        with _disk(path):
            files[name] = _Member(size=path.stat().st_size, sha256=sha256_of_file(path))
    head = json.dumps(_List(format=FORMAT, files=files).model_dump(), indent=1).encode()
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    with (
        target.open("wb") as raw,
        compressor.stream_writer(raw) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as tar,
    ):
        tar.addfile(_header(LIST, len(head)), io.BytesIO(head))
        for name, path in sources.items():
            with path.open("rb") as handle:
                tar.addfile(_header(name, files[name].size), handle)


def _header(name: str, size: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)  # mode 0644, no owner, time 0
    header.size = size
    return header


class _Unpacked:
    """The decompressed bytes of an archive, at most as many as are asked for at a time."""

    def __init__(self, archive: Path, handle: IO[bytes]) -> None:
        self.archive = archive
        self._handle = handle
        self._frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        self._rest = memoryview(b"")

    def take(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end."""
        parts = []
        while size and (self._rest or self._more()):
            parts.append(bytes(self._rest[:size]))
            self._rest = self._rest[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def exactly(self, size: int) -> bytes:
        """The next `size` bytes, all of them."""
        data = self.take(size)
        if len(data) < size:
            raise _broken(self.archive, "it ends too early")
        return data

    def end(self) -> None:
        """Nothing is left but the padding that tar ends with."""
        while block := self.take(tarfile.RECORDSIZE):
            if block.strip(b"\0") or len(block) % _BLOCK:
                raise _broken(self.archive, "it goes on after its last file")
        if not self._frame.eof:
            raise _broken(self.archive, "it ends too early")
        if self._frame.unused_data or self._handle.read(1):
            raise _broken(self.archive, "something has been appended to it")

    def _more(self) -> bool:
        while not self._rest and not self._frame.eof:
            piece = self._handle.read(_PIECE)
            if not piece:
                return False
            try:
                self._rest = memoryview(self._frame.decompress(piece))
            except zstandard.ZstdError as error:
                raise _broken(self.archive, str(error)) from None
        return bool(self._rest)


def _unpack(archive: Path, folder: Path) -> tuple[ArchiveSummary, dict[str, Path]]:
    """Write the members to numbered files in `folder`, verified; their paths by name, in order."""
    members: dict[str, Path] = {}
    calls: Counter[str] = Counter()
    models: set[str] = set()
    with archive.open("rb") as handle:
        unpacked = _Unpacked(archive, handle)
        for name, member in _read_list(unpacked, folder).items():
            _expect(unpacked, name, member.size)
            members[name] = folder / str(len(members))
            _copy(unpacked, name, member, members[name])
            if name.startswith("calls/"):
                for _, call in _lines(archive, name, members[name]):
                    calls["all"] += 1
                    calls["failed"] += call.text is None
                    calls["input"] += call.input_tokens
                    calls["cached"] += call.cached_tokens
                    calls["output"] += call.output_tokens
                    models.add(call.model)
        unpacked.end()
    summary = ArchiveSummary(
        files=len(members),
        calls=calls["all"],
        failures=calls["failed"],
        input_tokens=calls["input"],
        cached_tokens=calls["cached"],
        output_tokens=calls["output"],
        models=tuple(sorted(models)),
        sha256=sha256_of_file(archive),
    )
    return summary, members


def _read_list(unpacked: _Unpacked, folder: Path) -> dict[str, _Member]:
    archive = unpacked.archive
    size = _expect(unpacked, LIST, None)
    if size > _LIST_LIMIT:
        raise _broken(archive, f"its list '{LIST}' is {size} bytes long")
    try:
        value: Any = parse_json(_body(unpacked, size).decode())
        if isinstance(value, dict) and value.get("format") != FORMAT:
            raise UserError(
                f"{archive}: an archive of format {value.get('format')!r:.40} where this version of beamlib reads "
                f"{FORMAT}; read it with the version that wrote it."
            )
        files = _List.model_validate(value).files
    except (ValueError, ValidationError):
        raise _broken(archive, f"its list '{LIST}' cannot be read") from None
    for name in files:
        plain = _NAME.fullmatch(name) and len(name) <= tarfile.LENGTH_NAME and name != LIST
        if not plain or (name.startswith("calls/") and not name.endswith(".jsonl")):
            raise _broken(archive, f"it lists '{name[:100]}', which is no name for a file of a run")
    for name in files:
        if any(str(parent) in files for parent in PurePosixPath(name).parents):
            raise _broken(archive, f"it lists '{name}' inside another file")
    total = sum(member.size for member in files.values())
    if total > min(TOTAL_LIMIT, shutil.disk_usage(folder).free):
        raise _broken(archive, f"it would unpack to {total} bytes, more than is allowed or free")
    return files


def _expect(unpacked: _Unpacked, name: str, size: int | None) -> int:
    """Read the header of the plain file `name`: whatever else comes (a link, a folder, another name) is refused."""
    archive = unpacked.archive
    try:
        header = tarfile.TarInfo.frombuf(unpacked.exactly(_BLOCK), "utf-8", "strict")
    except (tarfile.HeaderError, ValueError):
        raise _broken(archive, f"'{name}' is missing or its header is damaged") from None
    if header.type != tarfile.REGTYPE or header.name != name or size not in (None, header.size) or header.size < 0:
        raise _broken(archive, f"'{header.name[:100]}' stands where the list names the file '{name}' of {size} bytes")
    return header.size


def _body(unpacked: _Unpacked, size: int) -> bytes:
    data = unpacked.exactly(size)
    if unpacked.exactly(-size % _BLOCK).strip(b"\0"):
        raise _broken(unpacked.archive, "the space between two files is not empty")
    return data


def _copy(unpacked: _Unpacked, name: str, member: _Member, target: Path) -> None:
    digest = hashlib.sha256()
    left = member.size
    with target.open("wb") as handle:
        while left > 0:
            step = min(left, 128 * _BLOCK)
            piece = _body(unpacked, step)
            digest.update(piece)
            handle.write(piece)
            left -= step
    if digest.hexdigest() != member.sha256:
        raise _broken(unpacked.archive, f"'{name}' does not agree with its hash in the list")


def _lines(archive: Path, name: str, path: Path) -> Iterator[tuple[str, StoredCall]]:
    last = ""
    with path.open("rb") as handle:
        while line := handle.readline(_LINE_LIMIT):
            try:
                value = parse_json(line.decode())
                key = value.pop("key")
                call = StoredCall.model_validate_json(json.dumps(value), strict=True)
                if not re.fullmatch(r"[0-9a-f]{64}", key) or key <= last:
                    raise ValueError
            except (ValueError, AttributeError, KeyError, TypeError):
                raise _broken(archive, f"'{name}' holds a line that is no call, or not in its place") from None
            last = key
            yield key, call


def _check_agreement(archive: Path, name: str, path: Path, store: Path) -> None:
    with CallStore(store, read_only=True) as held:
        for key, call in _lines(archive, name, path):
            mine = held.get(key)
            if mine is None or mine.transient or call.transient:
                continue
            if (mine.text, mine.outcome) != (call.text, call.outcome):
                raise UserError(
                    f"{archive}: conversation {call.conversation} has another reply under the key {key} than {store} "
                    "holds; import into another folder."
                )


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{error.filename or path}: cannot be read or written ({error.strerror}); correct that, then run again."
        ) from None


def _broken(archive: Path, problem: str) -> UserError:
    return UserError(f"{archive}: not an archive of a run, or a damaged one: {problem}; fetch it again.")
