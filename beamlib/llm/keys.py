"""Keys: what looks like one and is refused, in which forms one may be written, and the search for them in files.

Keys come from environment variables and stay in memory. Whatever is written down is checked twice: settings before they
are used, by what a key looks like; all files of a run afterwards, by what the variables hold.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from functools import cache, reduce
from html import escape
from itertools import chain
from pathlib import Path
from urllib.parse import quote, quote_plus

from beamlib.errors import UserError

_KNOWN = re.compile(
    r"""(?<![A-Za-z0-9])(?:
        sk[-_][A-Za-z0-9_-]{12,}
        | (?:gsk|hf|xai|nvapi|pplx|gh[opsu]|github_pat|glpat|csk|r8|fw|tgp_v1|tvly|lsv2_[a-z]+)[-_][A-Za-z0-9]{12,}
        | AIza[A-Za-z0-9_-]{16,} | A[KS]IA[A-Z0-9]{12,} | eyJ[A-Za-z0-9_-]{16,} | ya29\.[A-Za-z0-9_-]{16,}
        | (?i:bearer|basic)\s+[A-Za-z0-9+/=_.~-]{8,}
    )""",
    re.VERBOSE,
)
_RUN = re.compile(r"[A-Za-z0-9]{20,}")

_WORD = re.compile(
    r"[A-Z]{0,20}\d{0,4}|[a-z]{0,20}\d{0,4}|[A-Z0-9]{1,10}|[a-z0-9]{1,8}|[a-z]{0,20}(?:[A-Z][a-z]{1,20}){1,5}\d{0,4}"
)
_PREFIX = re.compile(r"(?:sk|gsk|hf|xai|nvapi|pplx|gh[opsu]|github_pat|glpat|csk|r8|fw|tgp)_(?!.*(?:key|token|secret))")
_NAMES_A_KEY = re.compile(
    r"(?:.*[-_])?(?:(?:access|api|master|private|secret|service|subscription)[-_]?key|secret|passw(?:or)?d"
    r"|(?:access|api|auth|bearer|session)[-_]?token)|(?:.*-)?auth(?:orization)?|bearer|token|key|cookie|passphrase"
    r"|credentials?"
)
_SHORTEST = 8
_WORDS = 20
_PIECE = 1 << 20
_ROWS = 64
_SHOWN = 5


def looks_like_key(text: str, *, strict: bool = False) -> bool:
    """Whether a part of `text` is written as keys are: known beginnings, letters of both cases with digits among them.

    `strict` also takes long rows of one case for a key, as hashes are: a model's path may hold one, an address not.
    """
    return bool(_KNOWN.search(text)) or any(_is_drawn(run, strict=strict) for run in _RUN.findall(text))


def _is_drawn(run: str, *, strict: bool) -> bool:
    """Whether letters and digits in a row look drawn by chance. A name has digits at one place, as `Qwen2Model` has."""
    mixed = not (run.islower() or run.isupper()) and len(re.findall(r"\d+", run)) > 1
    return not run.isdigit() and (mixed or (strict and len(run) >= 24 and not run.isalpha()))


def is_variable_name(text: str) -> bool:
    """Whether `text` is the name of an environment variable, and not a key that happens to be spelt like one."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", text) and all(map(_WORD.fullmatch, text.split("_")))
    return bool(plain) and not _PREFIX.match(text)


def names_a_key(field: str) -> bool:
    """Whether a text under this name would be a key."""
    return bool(_NAMES_A_KEY.fullmatch(field.strip().casefold().replace(" ", "_")))


def is_secret(value: str) -> bool:
    """Whether a variable's value can be told from other text: not short, and no plain word such as `placeholder`."""
    word = value.isalpha() and (value.islower() or value.isupper() or value.istitle())
    return len(value) >= _SHORTEST and not (word and len(value) < _WORDS)


@cache
def forms(key: str) -> tuple[str, ...]:
    """The ways in which `key` may be written into a text: plain, in JSON, an address, HTML, hexadecimal and base64."""
    # In base64 a text looks different at each of three places; the ends that its neighbours share are left out.
    raw = key.encode()
    coded = [
        code(b"\0" * shift + raw)[skip:-4].decode()
        for code in (b64encode, urlsafe_b64encode)
        for shift, skip in enumerate((0, 2, 3))
    ]
    quoted = [quoting(key, safe=safe) for quoting in (quote, quote_plus) for safe in ("", "/")]
    quoted += [re.sub("%..", lambda part: part[0].lower(), one) for one in quoted]
    in_json = json.dumps(key)[1:-1]
    written = [in_json, in_json.replace("/", "\\/"), *quoted, escape(key), raw.hex(), raw.hex().upper()]
    return tuple(dict.fromkeys([key, *written, *(one for one in coded if len(one) >= _SHORTEST)]))


def without_key(text: str, key: str) -> str:
    """`text` with the key taken out in all of its `forms`: a server may echo what it was sent."""
    for form in forms(key) if is_secret(key) else ():
        text = text.replace(form, "[key]")
    return text


def keys_in(variables: Iterable[str]) -> dict[str, str]:
    """What the environment variables hold, by name, without those that hold nothing that could be searched for."""
    held = {name: os.environ.get(name, "").strip() for name in variables if name}
    return {name: value for name, value in sorted(held.items()) if is_secret(value)}


def refuse_keys(paths: Iterable[Path], variables: Iterable[str]) -> list[str]:
    """Search files for what the environment variables hold; a `UserError` names file and variable.

    Names of files count. Files are read in pieces, and call stores row by row as well: within its file SQLite cuts long
    texts up. Returned are the variables whose values were searched for: those that are not set, or hold what cannot be
    told from other text (`is_secret`), are left out.
    """
    held = keys_in(variables)
    wanted = {name: _coded(value) for name, value in held.items()}
    overlap = max((len(form) for coded in wanted.values() for form in coded), default=1) - 1
    found = []
    for path in sorted(paths) if wanted else ():
        pieces = _pieces(path, overlap) if path.is_file() and not path.is_symlink() else iter(())
        if names := _found(chain([os.fsencode(path.name)], pieces), wanted):
            found.append(f"{path} ({', '.join(names)})")
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        message = (
            f"A key is on file, the value of the environment variable in brackets: {', '.join(found[:_SHOWN])}{more}; "
            "pass nothing of it on, replace the key at its provider, delete these files and run again."
        )
        raise UserError(reduce(without_key, held.values(), message))
    return list(wanted)


def _coded(key: str) -> set[bytes]:
    return {key.encode("utf-16-le"), *(form.encode() for form in forms(key))}


def _found(pieces: Iterable[bytes], wanted: Mapping[str, set[bytes]]) -> list[str]:
    """The names of those whose forms are in one of the pieces."""
    left = dict(wanted)
    for piece in pieces:
        for name in [name for name, coded in left.items() if any(form in piece for form in coded)]:
            del left[name]
    return [name for name in wanted if name not in left]


def _pieces(path: Path, overlap: int) -> Iterator[bytes]:
    """The bytes of a file in pieces that overlap, and the values in it where it is a database."""
    try:
        with path.open("rb") as handle:
            last = b""
            while piece := handle.read(_PIECE):
                yield last + piece
                last = (last + piece)[-overlap:]
    except FileNotFoundError:  # another run's, and gone meanwhile
        return
    except OSError as error:
        raise UserError(f"{path}: cannot be searched for keys ({error.strerror}); make it readable.") from None
    if path.suffix == ".sqlite":
        # What is no database, or a damaged one, has been searched as a file, and is told where it is read.
        settled = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"  # nothing is made beside it
        address = f"{path.resolve().as_uri()}?mode=ro{settled}"
        with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as store:
            store.text_factory = bytes
            for (table,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                quoted = table.decode(errors="replace").replace('"', '""')
                rows = store.execute(f'SELECT * FROM "{quoted}"')
                while some := rows.fetchmany(_ROWS):
                    yield b"\0".join(value for row in some for value in row if isinstance(value, bytes))
