"""Write the data of a page as scripts: a page opened from disk may load scripts and nothing else.

A file is one call with two plain strings: a name, and the gzip of a JSON text in base64. So no text of the data can end
the script or run. Equal data gives equal bytes.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from beamlib.files import inside, to_json, write_text

_OURS = re.compile(r"(?:run|[am]\d{1,7})\.js")
FOLDER = "page"
"""Of a run folder: what its index.html loads."""


def write_data(folder: Path, name: str, value: Any) -> Path:
    """Write `value` as the data file `name` (ASCII) into `folder`/page."""
    text = to_json(value).encode("utf-8", "surrogatepass")
    packed = base64.b64encode(gzip.compress(text, 9, mtime=0)).decode("ascii")
    return write_text(inside(folder, FOLDER, f"{name}.js"), f'beamPage("{name}","{packed}");\n')


def read_data(path: Path) -> Any:
    """Read a data file."""
    packed = path.read_text(encoding="ascii").split('"')[3]
    return json.loads(gzip.decompress(base64.b64decode(packed)).decode("utf-8", "surrogatepass"))


def clear_others(folder: Path, kept: Collection[Path]) -> None:
    """Remove data files of an earlier page that are not among `kept`."""
    for path in (folder / FOLDER).glob("*.js"):
        if path not in kept and _OURS.fullmatch(path.name):
            path.unlink()
