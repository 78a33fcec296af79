"""Recognise API keys, and search a run's files for them.

Keys come from environment variables and stay in the memory of the process that was started. Settings are checked
before use for what looks like a key; all files of a run are searched afterwards for the values of the variables.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from functools import cache, reduce
from itertools import chain
from pathlib import Path
from urllib.parse import quote, quote_plus

from beamlib.errors import UserError

_PROVIDERS = re.compile(
    r"""(?<![A-Za-z0-9])(?:
        sk[-_][A-Za-z0-9_-]{12,}
        | (?:gsk|hf|xai|nvapi|pplx|gh[opsu]|github_pat|glpat|csk|r8|fw|tgp_v1|tvly|lsv2_[a-z]+)[-_][A-Za-z0-9]{12,}
        | AIza[A-Za-z0-9_-]{16,} | A[KS]IA[A-Z0-9]{12,} | eyJ[A-Za-z0-9_-]{16,} | ya29\.[A-Za-z0-9_-]{16,}
        | (?i:bearer|basic)\s+[A-Za-z0-9+/=_.~-]{8,}
    )""",
    re.VERBOSE,
)
_RUN = re.compile(r"[A-Za-z0-9]{20,}")
_NAME_PART = re.compile(
    r"[A-Z]{0,20}\d{0,4}|[a-z]{0,20}\d{0,4}|[A-Z0-9]{1,10}|[a-z0-9]{1,8}|[a-z]{0,20}(?:[A-Z][a-z]{1,20}){1,5}\d{0,4}"
)
_PREFIX = re.compile(r"(?:sk|gsk|hf|xai|nvapi|pplx|gh[opsu]|github_pat|glpat|csk|r8|fw|tgp)_(?!.*(?:key|token|secret))")
_KEY_NAME = re.compile(
    r"(?:.*[-_])?(?:(?:access|api|master|private|secret|service|subscription)[-_]?key|secret|passw(?:or)?d"
    r"|(?:access|api|auth|bearer|session)[-_]?token)|(?:.*-)?auth(?:orization)?|bearer|token|key|cookie|passphrase"
    r"|credentials?"
)
_SHORTEST_KEY = 8
_LONGEST_WORD = 20
_PIECE_BYTES = 1 << 20
_ROWS = 64
_SHOWN_FILES = 5


def looks_like_key(text: str, *, strict: bool = False) -> bool:
    """Whether part of `text` has the form of a key: a provider's prefix, or mixed case with digits in between.

    `strict` also takes long runs of one case, as in hashes: a model's path may contain one, an address may not.
    """
    return bool(_PROVIDERS.search(text)) or any(_is_random(run, strict=strict) for run in _RUN.findall(text))


def _is_random(run: str, *, strict: bool) -> bool:
    """Whether letters and digits look random. A name has its digits in one place, as `Qwen2Model`."""
    mixed = not (run.islower() or run.isupper()) and len(re.findall(r"\d+", run)) > 1
    return not run.isdigit() and (mixed or (strict and len(run) >= 24 and not run.isalpha()))


def is_variable_name(text: str) -> bool:
    """Whether `text` is an environment variable's name, and not a key that is spelt like one."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", text) and all(map(_NAME_PART.fullmatch, text.split("_")))
    return bool(plain) and not _PREFIX.match(text)


def is_key_name(field: str) -> bool:
    """Whether a field of this name would contain a key."""
    return bool(_KEY_NAME.fullmatch(field.strip().casefold().replace(" ", "_")))


def is_secret(value: str) -> bool:
    """Whether a variable's value differs from ordinary text: not short, not one word such as `placeholder`."""
    word = value.isalpha() and (value.islower() or value.isupper() or value.istitle())
    return len(value) >= _SHORTEST_KEY and not (word and len(value) < _LONGEST_WORD)


@cache
def encodings_of(key: str) -> tuple[str, ...]:
    """Return the forms in which a text may contain `key`: plain, in JSON and in a URL."""
    urls = [quoting(key, safe=safe) for quoting in (quote, quote_plus) for safe in ("", "/")]
    urls += [re.sub("%..", lambda part: part[0].lower(), url) for url in urls]
    in_json = json.dumps(key)[1:-1]
    return tuple(dict.fromkeys([key, in_json, in_json.replace("/", "\\/"), *urls]))


def without_key(text: str, key: str) -> str:
    """Remove the key from `text` in all its encodings: a server may echo what it was sent."""
    for form in encodings_of(key) if is_secret(key) else ():
        text = text.replace(form, "[key]")
    return text


_PR_SET_DUMPABLE = 4
_kept: dict[str, str] = {}


def read_key(variable: str) -> str:
    """Return the key in an environment variable, empty if unset, and take it out of the environment.

    Programs that this process starts do not inherit it: this process makes all calls.
    """
    if value := os.environ.get(variable):
        _kept[variable] = value
        close_process()
        if not value.startswith("/"):  # PATH and HOME stay, whatever a models file from elsewhere names
            del os.environ[variable]
    return _kept.get(variable, "").strip()


def close_process() -> None:
    """Have Linux refuse other processes of the user the memory and first environment of this one; root reads both."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0)


def key_values(variables: Iterable[str]) -> dict[str, str]:
    """Return the values of the environment variables by name, leaving out those that are not secrets."""
    values = {name: (_kept.get(name) or os.environ.get(name, "")).strip() for name in variables if name}
    return {name: value for name, value in sorted(values.items()) if is_secret(value)}


def refuse_keys(paths: Iterable[Path], variables: Iterable[str]) -> list[str]:
    """Search files and their names for the values of environment variables.

    Call stores are searched by row as well, because SQLite splits long texts.

    Returns:
        The variables that were searched for. Unset ones and those that are not secrets (`is_secret`) are left out.

    Raises:
        UserError: names the files that contain a key, and the variables.
    """
    keys = key_values(variables)
    forms = {name: {form.encode() for form in encodings_of(value)} for name, value in keys.items()}
    overlap = max((len(form) for encoded in forms.values() for form in encoded), default=1) - 1
    hits = []
    for path in sorted(paths) if forms else ():
        pieces = _pieces(path, overlap) if path.is_file() and not path.is_symlink() else iter(())
        if names := _search(chain([os.fsencode(path.name)], pieces), forms):
            hits.append(f"{path} ({', '.join(names)})")
    if hits:
        more = f" and {len(hits) - _SHOWN_FILES} more" if len(hits) > _SHOWN_FILES else ""
        message = (
            f"Files contain a key, the value of the environment variable in brackets: {', '.join(hits[:_SHOWN_FILES])}"
            f"{more}; do not share them, replace the key at its provider, delete these files and run again."
        )
        raise UserError(reduce(without_key, keys.values(), message))
    return list(forms)


def _search(pieces: Iterable[bytes], forms: Mapping[str, set[bytes]]) -> list[str]:
    """Return the names of which a form is in one of the pieces."""
    hits = set[str]()
    for piece in pieces:
        hits |= {name for name in forms.keys() - hits if any(form in piece for form in forms[name])}
    return [name for name in forms if name in hits]


def _pieces(path: Path, overlap: int) -> Iterator[bytes]:
    """Yield the bytes of a file in overlapping pieces, and the values in it if it is a database."""
    try:
        with path.open("rb") as handle:
            last = b""
            while piece := handle.read(_PIECE_BYTES):
                yield last + piece
                last = (last + piece)[-overlap:]
    except FileNotFoundError:  # another run's, removed meanwhile
        return
    except OSError as error:
        raise UserError(f"{path}: cannot be searched for keys ({error.strerror}); make it readable.") from None
    if path.suffix == ".sqlite":
        # A damaged database has been searched as a file, and is reported where it is read.
        settled = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"  # creates no side file
        address = f"{path.resolve().as_uri()}?mode=ro{settled}"
        with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as store:
            store.text_factory = bytes
            for (table,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                quoted = table.decode(errors="replace").replace('"', '""')
                rows = store.execute(f'SELECT * FROM "{quoted}"')
                while batch := rows.fetchmany(_ROWS):
                    yield b"\0".join(value for row in batch for value in row if isinstance(value, bytes))
