"""Reading and writing files so that nothing is ever half-written or silently misread."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import yaml

from beamlib.errors import UserError

_LOCK = ".lock"
MOST_MENDED = 10_000
"""Characters of a damaged JSON text that is mended, usually: a list of fifty questions."""
_UNCLOSED = 32
_MOST_LEVELS = 50
_MOST_VALUES = 20_000
_MOST_YAML = 1 << 18
_MOST_PLAIN = 3_500  # characters of a value without quotes, which might be a number of as many digits


def write_bytes(path: Path, data: bytes) -> Path:
    """Write `data` to `path` in one step: readers see the old file or the new one, never a part.

    A folder that cannot be written to, or a full disk, is a `UserError`.
    """
    return write_pieces(path, [data])


def write_pieces(path: Path, pieces: Iterable[bytes]) -> Path:
    """`write_bytes` of something too large to be held in memory twice: `pieces` one after the other, in one step."""
    try:
        _replace(make_folder(path.parent) / path.name, pieces)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); free the place, then run again.") from None
    return path


def make_folder(path: Path) -> Path:
    """Make the folder `path` where it is not there; a file in its place, or no permission, is a `UserError`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{path}: the folder cannot be made ({error.strerror}); choose another place or make way for it."
        ) from None
    return path


def inside(folder: Path, *parts: str) -> Path:
    """`folder/part/…`, of parts that stand in manifests, archives and parameters: every such place is made here.

    A `UserError` where a part is no plain name, or the place, links followed, lies outside `folder`.
    """
    for part in parts:
        if part in ("", ".", "..") or "/" in part or not part.isprintable() or len(os.fsencode(part)) > 200:
            raise UserError(f"{folder}: {part!r} cannot be the name of a file or folder in it; use a plain name.")
    place = folder.joinpath(*parts)
    try:
        within = place.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # Python up to 3.12 says the latter
        raise UserError(f"{place}: a link in it leads round in a circle; remove the link.") from None
    if not within:
        raise UserError(f"{place}: a link leads out of {folder}; nothing is written there, so remove the link.")
    return place


def _replace(path: Path, pieces: Iterable[bytes]) -> None:
    descriptor, temporary = _claimed(path.parent, f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as handle:
            handle.writelines(pieces)
            handle.flush()
            os.fsync(descriptor)
        os.fchmod(descriptor, 0o644)  # mkstemp makes private files; results are meant to be shared
        temporary.replace(path)
    except BaseException:
        _clear(temporary)
        raise
    finally:
        os.close(descriptor)


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A new, private folder `<prefix>…` in `parent` (by default the system's for temporary files), gone afterwards.

    What killed processes left of the same prefix in the same place goes as well. A locked file `<folder>.lock` beside
    each folder tells the dead from the living: the system frees a lock however its process ends. A folder without such
    a file, or another user's, stays.
    """
    place = (parent or Path(tempfile.gettempdir())).absolute()  # a caller may change the working directory
    descriptor, lock = _claimed(place, prefix)
    try:
        folder = lock.with_suffix("")
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        _clear(lock)
        os.close(descriptor)


def _claimed(place: Path, prefix: str) -> tuple[int, Path]:
    """A new file `<prefix>….lock` in `place`, open and locked; those of dead processes are cleared away first."""
    with suppress(OSError):  # a place that cannot be listed
        for path in place.iterdir():
            if path.name.startswith(prefix) and path.suffix == _LOCK:
                with suppress(OSError):  # it is in use, or has just gone
                    _clear_if_dead(path)
    while True:
        descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=_LOCK, dir=place)
        with suppress(OSError):  # a file system without locks: nothing is ever cleared there
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:  # else somebody took it for a dead one's before it was locked
            return descriptor, Path(name)
        os.close(descriptor)


def _clear_if_dead(lock: Path) -> None:
    descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid == os.getuid():
            _clear(lock)
    finally:
        os.close(descriptor)


def _clear(lock: Path) -> None:
    folder = lock.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)  # which refuses a link
    if not (folder.exists() or folder.is_symlink()):
        lock.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> Path:
    """Write `text` as UTF-8, atomically."""
    return write_bytes(path, text.encode("utf-8"))


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON with sorted keys, so that equal values give equal bytes. NaN is refused: it is not JSON."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent, allow_nan=False)


def write_json(path: Path, value: Any) -> Path:
    """Write `value` as indented JSON, atomically."""
    return write_text(path, to_json(value, indent=2) + "\n")


def write_jsonl(path: Path, rows: Iterable[Any]) -> Path:
    """Write one JSON value per line, atomically."""
    return write_text(path, "".join(to_json(row) + "\n" for row in rows))


def read_text(path: Path) -> str:
    """The text of a UTF-8 file; a missing or undecodable one is a `UserError`, and so is what is no file (a pipe)."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError(f"{path}: not a regular file; replace it by one.")  # reading a pipe would wait for ever
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: the file does not exist.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8.") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None


def parse_json(text: str) -> Any:
    """The value of a JSON text, strictly: `ValueError` says what is wrong, and where if that is known.

    Refused are broken JSON, a key that occurs twice in one object (which value was meant?), NaN and Infinity, numbers
    beyond a float or of thousands of digits, and nesting that Python cannot follow.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        problem = f"line {error.lineno}, column {error.colno}: not valid JSON ({error.msg}): damaged or truncated"
    except RecursionError:
        problem = "JSON nested too deeply"
    except _Refused as error:
        problem = str(error)
    except ValueError:  # Python's bound on the digits of a whole number
        problem = "holds a number too long"
    raise ValueError(problem)


def mend_json(text: str, most: int) -> Any:
    """What json-repair makes of a damaged JSON text; `ValueError` where it makes nothing of it, or may take for ever.

    Its time grows with the square of a text's length, seconds for 3,000 characters without sense, and with each bracket
    that is never closed. Texts of more than `most` characters, or with more than 32 such brackets, are not tried.
    """
    import json_repair

    unclosed = sum(text.count(sign) for sign in "{[(") - sum(text.count(sign) for sign in "}])")
    if len(text) > most or unclosed > _UNCLOSED:
        raise ValueError("too long or too broken to be mended")
    try:
        return json_repair.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


class _Refused(ValueError):
    """Valid to Python's parser, not to ours."""


def _unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(items)
    if len(value) != len(items):
        repeated = next(key for key, times in Counter(key for key, _ in items).items() if times > 1)
        raise _Refused(f"the key `{repeated[:60]!r}` occurs twice in one object")
    return value


def _constant(name: str) -> NoReturn:
    raise _Refused(f"`{name}` is not a JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Refused(f"`{text[:60]}` is beyond any number that can be kept")
    return value


def read_json(path: Path) -> Any:
    """The value of a JSON file, by `parse_json`; what it refuses is a `UserError`."""
    try:
        return parse_json(read_text(path))
    except ValueError as error:
        raise UserError(f"{path}: {error}; restore the file, or delete it and run again.") from None


def read_jsonl(path: Path) -> list[Any]:
    """The values of a JSON-lines file, each by `parse_json`; a line that it refuses is a `UserError` that names it."""
    rows = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                rows.append(parse_json(line))
            except ValueError as error:
                problem = str(error).removeprefix("line 1, ")
                raise UserError(f"{path}: line {number}: {problem}; delete the file and run again.") from None
    return rows


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that occurs twice, where PyYAML takes the last one without a word, and what unpacks or nests.

    A dozen lines of aliases of aliases are a value of gigabytes once it is written out: what an alias stands for counts
    each time.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._values = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        before, alias = self._values, isinstance(event, yaml.AliasEvent)
        self._depth += 1
        # An anchor whose value is not complete has no size yet.
        self._values += self._sizes.get(event.anchor, _MOST_VALUES) if alias else 1
        problem = (
            "an unknown alias, or values that hold themselves or too many others" if self._values > _MOST_VALUES
            else "nested too deeply" if self._depth > _MOST_LEVELS
            else "a value too long; put it in quotes" if _is_plain(event) and len(event.value) > _MOST_PLAIN
            else ""
        )  # fmt: skip
        if problem:
            mark: Any = event.start_mark
            raise yaml.composer.ComposerError(None, None, problem, mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        if event.anchor and not alias:
            self._sizes[event.anchor] = self._values - before
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(mapping) != len(node.value):
            raise yaml.constructor.ConstructorError(None, None, "a key occurs twice", node.start_mark)
        return mapping


def _is_plain(event: yaml.Event) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.style is None


def parse_yaml(text: str, path: Path) -> Any:
    """The value of a YAML text that was read from `path`, strictly; what is wrong with it is a `UserError`."""
    if len(text) > _MOST_YAML:
        raise UserError(f"{path}: {len(text):,} characters, more than the {_MOST_YAML:,} that are read; correct it.")
    try:
        return yaml.load(text, Loader=_StrictLoader)  # a SafeLoader: plain values, nothing is ever built or run
    except yaml.YAMLError as error:
        # The line itself may hold a key, and what stands in long quotes too.
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or "unreadable"
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        said = re.sub(r"'[^'<>]{9,}'", "'…'", problem)
        raise UserError(f"{path}: not valid YAML ({place}{said}); correct it.") from None
    except (ValueError, RecursionError) as error:  # thousands of digits, a date that is none, deep nesting
        raise UserError(f"{path}: holds a value that cannot be read ({str(error)[:80]}); correct it.") from None


def sha256(data: bytes | str) -> str:
    """Hex SHA-256 of bytes, or of a text's UTF-8 bytes."""
    return hashlib.sha256(data.encode("utf-8") if isinstance(data, str) else data).hexdigest()


def sha256_of_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def code_hash(names: tuple[str, ...]) -> str:
    """Hash of modules, and of all files that lie in packages: results computed by other code are never taken for ours.

    A package within a package has to be named itself.
    """
    return sha256("".join(f"{name} {file.name} {sha256_of_file(file)}\n" for name in names for file in _files_of(name)))


def _files_of(name: str) -> list[Path]:
    if find_spec(name.partition(".")[0]) is None:
        return []  # a package that is not installed has no part in what was computed
    spec = find_spec(name)
    if spec is None:
        raise ValueError(f"{name} is no module")
    folders = spec.submodule_search_locations
    if folders is None:
        return [Path(str(spec.origin))]
    return sorted(file for folder in folders for file in Path(folder).glob("*") if file.is_file())
