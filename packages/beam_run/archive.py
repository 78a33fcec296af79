"""Pack a run into one file: the calls of every store and its records, compressed, with a list of hashes.

An archive is a tar inside zstandard (`zstd -d < run.tar.zst | tar x` opens it). Its first member lists the size and
SHA-256 of all others, in order. Equal content gives equal bytes with one version of zstandard. Reading streams the
file: nothing is unpacked until everything has been verified.

Requests are not stored, so an archive alone cannot prove that a reply belongs to a request. A replay does: another
prompt, model or setting gives another key, which is not found.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
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

from beamlib.errors import UserError, shown
from beamlib.evaluate.beam_records import FROM_ARCHIVE, MANIFEST
from beamlib.files import (
    inside,
    make_folder,
    parse_json,
    read_json,
    sha256_of_file,
    sync,
    temporary_folder,
    write_json,
    write_pieces,
)
from beamlib.llm.call_store import CallStore, StoredCall

_FORMAT = 1
LIST = "archive.json"
TOTAL_LIMIT = 64 << 30
"""Bytes an archive may hold, unpacked."""
RATIO = 1_000
"""Times its own size that an archive may hold, where that is more than `SMALL` bytes."""
SMALL = 256 << 20

_LIST_LIMIT = 16 << 20
_FILE_LIMIT = 1 << 20
"""Bytes of a manifest, of settings or of a prompt, which are read whole: their values take a hundred times as much."""
_LINE_LIMIT = 64 << 20
_WINDOW = 8 << 20
_LEVEL = 9
_BLOCK = tarfile.BLOCKSIZE
_BUFFER = 64 << 10
_PIECE = 2 << 10
"""Compressed bytes taken at a time: zstandard expands each to 64 MB at most."""

_NAMED = 20
"""Models that a summary names at most."""

_CALLS = "calls/"
_PLAIN = r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*"
_NAME = re.compile(
    rf"{_CALLS}(100k|500k|1m|10m|memorycode|meme)/{_PLAIN}\.jsonl|"
    rf"(100k|500k|1m|10m)(-{_PLAIN})?/"
    rf"(parameters\.json|models\.yaml|prompts/[a-z0-9_]+\.md|{_PLAIN}/(answers\.jsonl|judgements\.jsonl|manifest\.json))"
)
"""What is in an archive: call stores by tier, and in each part of a run its settings and the records of its arms."""


@dataclass(frozen=True, slots=True)
class ArchiveSummary:
    """Counts over an archive: `failures` are calls without a usable reply, `models` the first few names."""

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
    """Write all stores `<name>.sqlite` under `stores` and the files of `extra`, by archive name, to `target`.

    A store `stores/100k/3.sqlite` becomes `calls/100k/3.jsonl`, its calls sorted by key. `target` is replaced
    atomically.

    Raises:
        UserError: There is nothing to export, a store is damaged, a file is missing, or a name is not allowed.
    """
    found = sorted(stores.rglob("*.sqlite"), key=lambda path: path.relative_to(stores).as_posix())
    if not found and not extra:
        raise UserError(f"{stores}: no call stores (*.sqlite) to export; record a run first, or name its folder.")
    make_folder(target.parent)
    with temporary_folder(".export-", target.parent) as folder, _disk(target):
        sources: dict[str, Path] = {}
        for number, path in enumerate(found):
            name = f"{_CALLS}{path.relative_to(stores).with_suffix('.jsonl').as_posix()}"
            sources[name] = _write_lines(path, folder / str(number))
        for name, path in sorted((extra or {}).items()):
            if name.startswith(_CALLS):
                raise UserError(f"{path}: cannot be exported as '{name}', which calls have taken; choose another name.")
            sources[name] = path
        whole = folder / "whole"
        _pack(sources, whole)
        summary = verify_archive(whole)
        sync(whole)
        whole.replace(target)
        sync(target.parent)
    return summary


def import_calls(archive: Path, run: Path) -> ArchiveSummary:
    """Verify all of `archive`, then unpack it into the folder `run`.

    `calls/100k/3.jsonl` goes into `run/calls/100k/3.sqlite`: stored calls are kept; missing ones, and transient
    failures, are added, in one transaction per store. Other members become files of that name. When the disk fills up,
    whole stores remain; import again.

    Raises:
        UserError: The archive is damaged, foreign or malicious; a reply differs from the stored one; a file exists
            with other content; a path is outside `run`.
    """
    summary = _read(archive, run)
    manifests: dict[str, str] = {}
    with _disk(archive):
        for name, member, body in _members(archive):
            place = _place(run, name)
            if name.startswith(_CALLS):
                with CallStore(place) as store:
                    store.add(_lines(archive, name, body))
            else:
                write_pieces(place, iter(lambda: body.read(_BUFFER), b""))  # noqa: B023 (written before the next one)
                manifests |= {name: member.sha256} if place.name == MANIFEST else {}
        if manifests:
            earlier = read_json(run / FROM_ARCHIVE) if (run / FROM_ARCHIVE).exists() else {}
            write_json(run / FROM_ARCHIVE, {**earlier, **manifests})
    return summary


def verify_archive(archive: Path) -> ArchiveSummary:
    """Check every hash and every call of `archive` and summarise it; nothing is written.

    Raises:
        UserError: The archive is damaged or not an archive of a run.
    """
    return _read(archive, None)


def _read(archive: Path, run: Path | None) -> ArchiveSummary:
    """Verify `archive` from end to end; with `run`, also that nothing in that folder conflicts."""
    counts: Counter[str] = Counter()
    models: set[str] = set()
    with _disk(archive):
        for name, member, body in _members(archive, run):
            counts["files"] += 1
            if name.startswith(_CALLS):
                lines = _lines(archive, name, body)
                for call in lines if run is None else _agreeing(archive, lines, _place(run, name)):
                    counts["calls"] += 1
                    counts["failures"] += call.text is None
                    counts["input_tokens"] += call.input_tokens
                    counts["cached_tokens"] += call.cached_tokens
                    counts["output_tokens"] += call.output_tokens
                    if len(models) < _NAMED:
                        models.add(shown(call.model))
            elif run is not None and (place := _place(run, name)).exists() and sha256_of_file(place) != member.sha256:
                raise UserError(f"{place}: differs from the one in {archive}; import into another folder.")
        names = ("files", "calls", "failures", "input_tokens", "cached_tokens", "output_tokens")
        return ArchiveSummary(
            **{name: counts[name] for name in names}, models=tuple(sorted(models)), sha256=sha256_of_file(archive)
        )


def _place(run: Path, name: str) -> Path:
    """Return the path of the archive's file `name` inside `run`, whatever its name or the folder's links."""
    place = inside(run, *(name.removesuffix("jsonl") + "sqlite" if name.startswith(_CALLS) else name).split("/"))
    for folder in place.parents:
        if folder.exists():
            if folder.is_dir():
                break
            raise UserError(f"{folder}: is a file where the archive has a folder; import into another folder.")
    return place


def _write_lines(store: Path, target: Path) -> Path:
    with CallStore(store, read_only=True) as calls, target.open("w", encoding="utf-8") as handle:
        for call in calls.calls():
            text = json.dumps(call.values, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"
            if len(text.encode()) > _LINE_LIMIT:  # twice the longest reply that is read since replies have a bound
                raise UserError(
                    f"{store}: the reply of step {call.step} under the key {call.key} is longer than an archive may "
                    f"hold ({_LINE_LIMIT:,} bytes); export another run, or record this one again into another folder."
                )
            handle.write(text)
    return target


def _pack(sources: Mapping[str, Path], target: Path) -> None:
    files = {}
    for name, path in sources.items():
        if not _named(name):
            raise UserError(
                f"{path}: cannot be exported as '{name}'; an archive holds the stores and records of a run by names of "
                f"at most {tarfile.LENGTH_NAME} letters, digits and '_.@+-'; move the file away or rename it."
            )
        with _disk(path):
            files[name] = _Member(size=path.stat().st_size, sha256=sha256_of_file(path))
    head = json.dumps(_List(format=_FORMAT, files=files).model_dump(), indent=1).encode()
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


def _named(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and len(name) <= tarfile.LENGTH_NAME


def _header(name: str, size: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)  # mode 0644, no owner, time 0
    header.size = size
    return header


class _Unpacked:
    """The decompressed bytes of an archive, as a bounded stream."""

    def __init__(self, archive: Path, handle: IO[bytes]) -> None:
        self.archive = archive
        self._handle = handle
        self._frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        self._rest = memoryview(b"")

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes; fewer only at the end."""
        parts = []
        while size and (self._rest or self._more()):
            parts.append(bytes(self._rest[:size]))
            self._rest = self._rest[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def exactly(self, size: int) -> bytes:
        """Return the next `size` bytes or raise `UserError`."""
        data = self.take(size)
        if len(data) < size:
            raise _broken(self.archive, "it ends too early")
        return data

    def padding(self, size: int) -> None:
        """Skip the next `size` bytes, which must be zero."""
        if self.exactly(size).strip(b"\0"):
            raise _broken(self.archive, "the space between two files is not empty")

    def end(self) -> None:
        """Check that only tar's final padding is left."""
        rest = self.take(2 * tarfile.RECORDSIZE)
        if rest.strip(b"\0") or len(rest) % _BLOCK or len(rest) >= tarfile.RECORDSIZE + 2 * _BLOCK:
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


class _Body(io.RawIOBase):
    """One file of an archive as a stream; its hash is checked at the end."""

    def __init__(self, unpacked: _Unpacked, name: str, member: _Member) -> None:
        self._unpacked, self._name, self._member = unpacked, name, member
        self._digest = hashlib.sha256()
        self._left = member.size
        self._line = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._unpacked.exactly(min(len(buffer), self._left))
        buffer[: len(piece)] = piece
        self._digest.update(piece)
        self._left -= len(piece)
        self._line = len(piece) - end if (end := piece.rfind(b"\n") + 1) else self._line + len(piece)
        if self._line > _LINE_LIMIT:
            raise _broken(self._unpacked.archive, f"'{self._name}' has a line of over {_LINE_LIMIT:,} bytes")
        if not self._left and self._digest.hexdigest() != self._member.sha256:
            raise _broken(self._unpacked.archive, f"'{self._name}' does not agree with its hash in the list")
        return len(piece)


def _members(archive: Path, run: Path | None = None) -> Iterator[tuple[str, _Member, IO[bytes]]]:
    """Yield the files of an archive in order: name, list entry and content, valid until the next one.

    Unread content is verified too. With `run`, the list must fit onto that folder's disk.
    """
    with archive.open("rb") as handle:
        unpacked = _Unpacked(archive, handle)
        for name, member in _read_list(unpacked, _most(os.fstat(handle.fileno()).st_size, run)).items():
            _expect(unpacked, name, member.size)
            body = io.BufferedReader(_Body(unpacked, name, member), _BUFFER)
            yield name, member, body
            while body.read(_BUFFER):
                pass
            unpacked.padding(-member.size % _BLOCK)
        unpacked.end()


def _most(packed: int, run: Path | None) -> int:
    """Return how many bytes an archive of `packed` bytes may hold: what is allowed, plausible and, in `run`, free."""
    most = min(TOTAL_LIMIT, max(SMALL, RATIO * packed))
    if run is None:
        return most
    there = next(place for place in (run.absolute(), *run.absolute().parents) if place.exists())
    return min(most, shutil.disk_usage(there).free)


def _read_list(unpacked: _Unpacked, most: int) -> dict[str, _Member]:
    """Read the archive's list of files; names and the total size are validated."""
    archive = unpacked.archive
    size = _expect(unpacked, LIST, None)
    if size > _LIST_LIMIT:
        raise _broken(archive, f"its list '{LIST}' is {size} bytes long")
    try:
        value: Any = parse_json(unpacked.exactly(size).decode())
        if isinstance(value, dict) and value.get("format") != _FORMAT:
            raise UserError(
                f"{archive}: an archive of format {value.get('format')!r:.40} where this version of beamlib reads "
                f"{_FORMAT}; read it with the version that wrote it."
            )
        files = _List.model_validate(value).files
    except (ValueError, ValidationError):
        raise _broken(archive, f"its list '{LIST}' cannot be read") from None
    unpacked.padding(-size % _BLOCK)
    for name in files:
        if not _named(name):
            raise _broken(archive, f"it lists '{name}', which is no name for a file of a run")
        if parent := next((parent for parent in PurePosixPath(name).parents if str(parent) in files), None):
            raise _broken(archive, f"it lists '{parent}' as a file and as the folder of '{name}'")
    if len({name.casefold() for name in files}) < len(files):  # one file where a disk ignores case, or several
        raise _broken(archive, "it lists names that differ by case only")
    total = sum(member.size for member in files.values())
    if total > most:
        raise _broken(archive, f"it would unpack to {total:,} bytes, where {most:,} are allowed or free")
    for name, member in files.items():
        if not name.endswith(".jsonl") and member.size > _FILE_LIMIT:
            raise _broken(archive, f"'{name}' has {member.size:,} bytes, and no such file needs {_FILE_LIMIT:,}")
    return files


def _expect(unpacked: _Unpacked, name: str, size: int | None) -> int:
    """Read the header of the plain file `name`; a link, a folder or another name is refused."""
    archive = unpacked.archive
    try:
        header = tarfile.TarInfo.frombuf(unpacked.exactly(_BLOCK), "utf-8", "strict")
    except (tarfile.HeaderError, ValueError):
        raise _broken(archive, f"'{name}' is missing or its header is damaged") from None
    if header.type != tarfile.REGTYPE or header.name != name or size not in (None, header.size) or header.size < 0:
        raise _broken(archive, f"'{header.name}' stands where the list names the file '{name}' of {size} bytes")
    return header.size


def _lines(archive: Path, name: str, body: IO[bytes]) -> Iterator[StoredCall]:
    last = ""
    while line := body.readline(_LINE_LIMIT):
        try:
            call = StoredCall.model_validate_json(json.dumps(parse_json(line.decode())), strict=True)
            if not re.fullmatch(r"[0-9a-f]{64}", call.key) or call.key <= last:
                raise ValueError
        except (ValueError, TypeError):
            raise _broken(archive, f"'{name}' holds a line that is no call, or not in its place") from None
        last = call.key
        yield call


def _agreeing(archive: Path, lines: Iterator[StoredCall], place: Path) -> Iterator[StoredCall]:
    """Yield the calls of an archive's file; a call whose stored reply differs raises `UserError`."""
    with CallStore(place, read_only=True) as held:
        for call in lines:
            mine = held.get(call.key)
            final = mine is not None and not mine.transient and not call.transient
            if mine is not None and final and (mine.text, mine.outcome) != (call.text, call.outcome):
                raise UserError(
                    f"{archive}: conversation {call.conversation} has another reply under the key {call.key} than "
                    f"{place} holds; import into another folder."
                )
            yield call


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
