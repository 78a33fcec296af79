"""Read and write files: writes are atomic, reads are strict."""

from __future__ import annotations

import errno
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
from copy import deepcopy
from functools import lru_cache
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

import yaml

from beamlib.errors import UserError

_LOCK = ".lock"
MOST_MENDED = 10_000
"""Characters up to which a damaged JSON text is repaired, usually: a list of fifty questions."""
_UNCLOSED = 32
MOST_YAML, MOST_YAML_NODES, MOST_YAML_DEPTH = 1 << 18, 20_000, 30
"""Characters, values and levels of a YAML text; the longest of this project has 14,000, 2,600 and 6."""
_DIGITS = 100


def write_pieces(path: Path, pieces: Iterable[bytes]) -> Path:
    """Write a file atomically, piece by piece: readers see the old content or the new, never a part."""
    make_folder(path.parent)
    try:
        descriptor, temporary = _claim(path.parent, f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as handle:
                handle.writelines(pieces)
                handle.flush()
                os.fsync(descriptor)
            os.fchmod(descriptor, 0o644)  # mkstemp makes private files; results are meant to be shared
            temporary.replace(path)
            sync(path.parent)  # a power cut does not bring the old file back
        except BaseException:
            _clear(temporary)
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror}); free disk space or fix permissions, then run again."
        ) from None
    return path


def write_bytes(path: Path, data: bytes) -> Path:
    return write_pieces(path, [data])


def sync(path: Path) -> None:
    """Have the disk keep a file, or the names in a folder, through a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not path.is_dir() or error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise  # else a file system that keeps names by other means, as some of networks do
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> Path:
    """Create a folder unless it exists, and have the disk keep it."""
    try:
        new = list(takewhile(lambda folder: not folder.exists(), (path, *path.parents)))
        path.mkdir(parents=True, exist_ok=True)
        for folder in new:
            sync(folder.parent)
    except OSError as error:
        raise UserError(
            f"{path}: the folder cannot be created ({error.strerror}); choose another path or remove what blocks it."
        ) from None
    return path


def inside(folder: Path, *parts: str) -> Path:
    """Build `folder/part/…` from names in manifests, archives and parameters.

    Raises:
        UserError: If a part is no plain name, or a link leads out of `folder`.
    """
    for part in parts:
        if part in ("", ".", "..") or "/" in part or not part.isprintable() or len(os.fsencode(part)) > 200:
            raise UserError(f"{folder}: {part!r} cannot be the name of a file or folder in it; use a plain name.")
    path = folder.joinpath(*parts)
    try:
        within = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # Python up to 3.12 raises the latter
        raise UserError(f"{path}: a link in it leads round in a circle; remove the link.") from None
    if not within:
        raise UserError(f"{path}: a link leads out of {folder}; nothing is written there, so remove the link.")
    return path


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Create a private folder `<prefix>…` in `parent` (by default the system's temporary folder) and remove it after.

    Folders of the same prefix that killed processes left there are removed too. Each folder has a locked file
    `<folder>.lock`: the system frees a lock however its process ends. A folder without such a file, or another user's,
    stays.
    """
    parent = (parent or Path(tempfile.gettempdir())).absolute()  # a caller may change the working directory
    descriptor, lock = _claim(parent, prefix)
    try:
        folder = lock.with_suffix("")
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        _clear(lock)
        os.close(descriptor)


def _claim(parent: Path, prefix: str) -> tuple[int, Path]:
    """Create, open and lock a file `<prefix>….lock` in `parent`, after removing those of dead processes."""
    with suppress(OSError):  # a folder that cannot be listed
        for path in parent.iterdir():
            if not path.name.startswith(prefix) or path.suffix != _LOCK:
                continue
            with suppress(OSError):  # it is in use, or has just gone
                descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if os.fstat(descriptor).st_uid == os.getuid():
                        _clear(path)
                finally:
                    os.close(descriptor)
    while True:
        descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=_LOCK, dir=parent)
        with suppress(OSError):  # a file system without locks: nothing is ever removed there
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:  # else another process removed it before it was locked
            return descriptor, Path(name)
        os.close(descriptor)


def _clear(lock: Path) -> None:
    folder = lock.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)  # which refuses a link
    if not (folder.exists() or folder.is_symlink()):
        lock.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> Path:
    return write_bytes(path, text.encode("utf-8"))


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Write a value as JSON with sorted keys, so that equal values give equal bytes; NaN is refused."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent, allow_nan=False)


def write_json(path: Path, value: Any) -> Path:
    return write_text(path, to_json(value, indent=2) + "\n")


def write_jsonl(path: Path, rows: Iterable[Any]) -> Path:

    return write_text(path, "".join(to_json(row) + "\n" for row in rows))


def read_text(path: Path, most: int | None = None) -> str:
    """Read a UTF-8 file; raise `UserError` if it is missing, undecodable or no regular file.

    Args:
        most: Characters that are expected at most. Of a longer text the first `most + 1` are returned.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError(f"{path}: not a regular file; replace it by one.")  # reading a pipe would block
        with path.open(encoding="utf-8") as file:
            text = file.read(-1 if most is None else most + 1)
    except FileNotFoundError:
        raise UserError(f"{path}: the file does not exist.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8.") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    refuse_lfs_pointer(path, text[:100].encode())
    return text


def read_version(path: Path) -> str:
    """`read_text` of settings or a prompt, at most `MOST_YAML + 1` characters; read once, and again after a change."""
    try:
        stat = path.stat()
    except OSError:
        return read_text(path, MOST_YAML)  # which says what is wrong
    return _version(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache(maxsize=256)
def _version(path: Path, *_: int) -> str:
    return read_text(path, MOST_YAML)


def read_settings(path: Path) -> tuple[str, Any]:
    """Return text and values of a YAML file that is asked for many times: see `read_version`."""
    text = read_version(path)
    return text, deepcopy(_parse_cached(text, path))


def refuse_lfs_pointer(path: Path, start: bytes) -> None:
    """Raise `UserError` if a file's first bytes are those of a Git LFS pointer."""
    if start.startswith(b"version https://git-lfs.github.com/spec/"):
        raise UserError(f"{path}: a Git LFS pointer, not the file itself; run `git lfs pull` where it comes from.")


def parse_json(text: str, *, nan_as_null: bool = False) -> Any:
    """Parse JSON strictly.

    Args:
        nan_as_null: Read NaN and Infinity as null.

    Raises:
        ValueError: For invalid JSON, a repeated key, NaN, Infinity, numbers beyond a float or of thousands of digits,
            nesting beyond Python's limit; says where, if that is known.
    """
    try:
        constants: Any = (lambda _: None) if nan_as_null else _refuse_constant
        return json.loads(text, object_pairs_hook=_unique, parse_constant=constants, parse_float=_finite)
    except json.JSONDecodeError as error:
        problem = f"line {error.lineno}, column {error.colno}: not valid JSON ({error.msg}): damaged or truncated"
    except RecursionError:
        problem = "JSON nested too deeply"
    except _Refused as error:
        problem = str(error)
    except ValueError:  # Python limits the digits of a whole number
        problem = "holds a number too long"
    raise ValueError(problem)


def mend_json(text: str, most: int) -> Any:
    """Repair a damaged JSON text with json-repair.

    Its time grows with the square of a text's length (seconds for 3,000 characters of nonsense) and with each unclosed
    bracket. Texts of more than `most` characters, or with more than 32 unclosed brackets, are refused.

    Raises:
        ValueError: If the text is refused or cannot be repaired.
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
    """JSON that Python accepts and this project refuses."""


def _unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(items)
    if len(value) != len(items):
        repeated = next(key for key, times in Counter(key for key, _ in items).items() if times > 1)
        raise _Refused(f"the key `{repeated[:60]!r}` occurs twice in one object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"`{name}` is not a JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Refused(f"`{text[:60]}` is beyond any number that can be kept")
    return value


def read_json(path: Path, most: int | None = None) -> Any:
    """Parse a JSON file by `parse_json`; raise `UserError` if that refuses it or it has more than `most` characters."""
    text = read_text(path, most)
    if most is not None and len(text) > most:
        raise UserError(f"{path}: has more than {most:,} characters, which no such file needs; shorten it.")
    try:
        return parse_json(text)
    except ValueError as error:
        raise UserError(f"{path}: {error}; restore the file, or delete it and run again.") from None


def read_jsonl(path: Path) -> list[Any]:
    """Parse a JSON-lines file by `parse_json`; raise `UserError` with the number of a line that it refuses."""
    rows = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                rows.append(parse_json(line))
            except ValueError as error:
                problem = str(error).removeprefix("line 1, ")
                raise UserError(f"{path}: line {number}: {problem}; delete the file and run again.") from None
    return rows


_MERGE = "tag:yaml.org,2002:merge"


class _StrictLoader(yaml.SafeLoader):
    """Refuse a repeated key, where PyYAML silently keeps the last value, and more nodes than anybody writes.

    An alias counts as all that it stands for, and the counting ends before anything is built: seven lines of aliases to
    aliases stand for ten million values, which every reader after this one would walk.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._nodes = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        alias, before, problem = isinstance(event, yaml.AliasEvent), self._nodes, ""
        self._nodes += self._sizes.get(event.anchor or "", 0) if alias else 1
        self._depth += not alias
        if alias and event.anchor in self.anchors and event.anchor not in self._sizes:
            problem = "a value that contains itself"
        elif self._nodes > MOST_YAML_NODES:
            problem = f"more than {MOST_YAML_NODES:,} values, aliases counted in full"
        elif self._depth > MOST_YAML_DEPTH:
            problem = f"nested more than {MOST_YAML_DEPTH} deep"
        if problem:
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= not alias
        if not alias and event.anchor is not None:
            self._sizes[event.anchor] = self._nodes - before
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        # Before what is merged (<<) joins them, which keys may override.
        keys = [self.construct_object(key) if key.tag != _MERGE else "<<" for key, _ in node.value]
        if len({key for key in keys if type(key) in (str, int)}) < len(keys):
            place = next(n for n, key in enumerate(keys) if type(key) not in (str, int) or key in keys[:n])
            problem = "a key occurs twice" if type(keys[place]) in (str, int) else "a key that is no text; quote it"
            raise yaml.constructor.ConstructorError(None, None, problem, node.value[place][0].start_mark)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        text = super().construct_scalar(node)
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise yaml.constructor.ConstructorError(None, None, "half a character, as no file has it", node.start_mark)
        return text

    def construct_number(self, node: yaml.ScalarNode) -> float:
        if len(node.value) > _DIGITS:
            raise yaml.constructor.ConstructorError(None, None, "a number too long", node.start_mark)
        whole = node.tag.endswith(":int")
        return self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)


for _tag in ("int", "float"):
    _StrictLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _StrictLoader.construct_number)


def parse_yaml(text: str, path: Path) -> Any:
    """Parse the YAML text of `path` strictly.

    Raises:
        UserError: The text is invalid, repeats a key, or is longer, deeper or of more values than `MOST_YAML` allows,
            counted with aliases expanded.
    """
    if len(text) > MOST_YAML:
        raise UserError(f"{path}: has more than {MOST_YAML:,} characters, which no such file needs; shorten it.")
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        # The line, and long quotes in the message, may contain an API key.
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or "unreadable"
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = re.sub(r"'[^'<>]{9,}'", "'…'", problem)
        raise UserError(f"{path}: not valid YAML ({place}{problem}); correct it.") from None
    except (ValueError, RecursionError) as error:  # an impossible date
        raise UserError(f"{path}: holds a value that cannot be read ({str(error)[:80]}); correct it.") from None
    except (KeyError, AttributeError):  # of PyYAML: !!bool and !!timestamp before what is none
        raise UserError(f"{path}: holds a value that is not what its tag (!!) says; correct it.") from None


_parse_cached = lru_cache(maxsize=64)(parse_yaml)  # a models file takes a tenth of a second


def read_yaml(path: Path) -> Any:
    """Parse a YAML file by `parse_yaml`, without reading one that is too long."""
    return parse_yaml(read_text(path, MOST_YAML), path)


def sha256(data: bytes | str) -> str:

    return hashlib.sha256(data.encode("utf-8") if isinstance(data, str) else data).hexdigest()


def sha256_of_file(path: Path) -> str:

    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def code_hash(names: tuple[str, ...]) -> str:
    """Hash modules and all files of packages, without subpackages: results of other code are never reused."""
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
