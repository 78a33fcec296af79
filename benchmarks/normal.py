"""A file's content without what may differ between equal runs: places, commits, times, versions, hashes of code."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FIELDS = frozenset(
    {"commit", "package_version", "answers_key", "judgements_key", "code_sha256", "rules", "key", "seconds", "python"}
)
"""Fields of records that hold text about the code and not about what it made; of other types they stay."""

LEFT_OUT = (
    "places: the work folder, the checkout and the run's name are written WORK, ROOT and RUN",
    f"fields of JSON that hold text: {', '.join(sorted(FIELDS))}, and a record's hash of itself (sha256 at its top)",
    "commits (after the word), Python's and packages' versions, durations in seconds, numbers of objects (0x...)",
    "of notebooks: sources, errors and progress (stderr) and pictures; what cells print and show is compared",
    "PDF and PNG of figures (their CSV and JSON are compared), HTML of notebooks, the page index.html",
    "readings/, which LIGHT keeps by a hash of its code, and the bytes of call stores (their keys are compared)",
    "more than two sub-plans of 10M, 500K and 1M, retrievers that have to be downloaded, the variant released",
)
"""What no digest covers, in words."""

_WORDS = (
    (re.compile(r"(?i)(\bcommit\W{1,9})[0-9a-f]{40}(\+changes)?"), r"\1COMMIT"),
    (re.compile(r"(?m)^(python|versions) .*$"), r"\1"),
    (re.compile(r"\b\d+(\.\d+)? s\b"), "TIME"),
    (re.compile(r"0x[0-9a-f]{6,}"), "0x"),
)


def short(data: bytes) -> str:
    """Sixteen characters of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


def as_json(value: Any) -> str:
    """JSON with sorted keys, one value a line, so that two of them can be compared by eye."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False)


class Normaliser:
    """Takes `places` (what stands there: what is written for it) and all of `LEFT_OUT` out of files."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = sorted(places.items(), key=lambda item: -len(item[0]))

    def text(self, text: str) -> str:
        """A text as it is compared."""
        for there, name in self.places:
            text = text.replace(there, name)
        for pattern, plain in _WORDS:
            text = pattern.sub(plain, text)
        return text

    def file(self, path: Path) -> bytes:
        """The content of `path` as it is compared; what is no text is taken as it is."""
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return path.read_bytes()
        if path.suffix == ".ipynb":
            text = "\n".join(_shown(json.loads(text)))
        elif path.suffix == ".json":
            text = as_json(_plain(json.loads(text), top=True))
        return self.text(text).encode()


def _plain(value: Any, *, top: bool = False) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    left = {"sha256"} if top else set()
    return {
        name: _plain(one)
        for name, one in value.items()
        if not (isinstance(one, str) and name in FIELDS) | (name in left)
    }


def _shown(notebook: Mapping[str, Any]) -> Iterable[str]:
    """What the cells of an executed notebook print and show."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream" and output["name"] == "stdout":
                yield "".join(output["text"])
            for kind, shown in sorted(output.get("data", {}).items()):
                if kind.startswith("text/"):
                    yield "".join(shown)


def shape(values: Iterable[Any]) -> str:
    """The fields of JSON values with the types that occur there, a line each; names that are data are one `*`."""
    found: dict[str, set[str]] = {}

    def walk(place: str, value: Any) -> None:
        found.setdefault(place, set()).add(type(value).__name__)
        if isinstance(value, dict):
            for name, one in value.items():
                walk(f"{place}.{name if re.fullmatch(r'[a-z]+(_[a-z0-9]+)*', name) else '*'}", one)
        elif isinstance(value, list):
            for one in value:
                walk(f"{place}[]", one)

    for value in values:
        walk("", value)
    return "\n".join(f"{place or '.'}: {', '.join(sorted(types))}" for place, types in sorted(found.items()))
