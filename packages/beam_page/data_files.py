"""Write the data of a page as scripts: a page opened from disk may load scripts and nothing else.

A file is one call with two plain strings: a name, and the gzip of a JSON text in base64. So no text of the data can end
the script or run. Equal data gives equal bytes.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import zipfile
from collections.abc import Collection
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from beamlib.files import inside, read_text, to_json, write_bytes, write_text

_OURS = re.compile(r"(?:run|[am]\d{1,7})\.js")
FOLDER, INDEX = "page", "index.html"
"""Of a run folder: the data that its page loads, and the page."""
_LINK = re.compile(r'(?:href|src)="([^"#:]+)"')
_WHEN = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can hold: equal pages give equal bytes."""


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


def zip_page(run: Path) -> str:
    """Write `<run>.zip` beside the folder: index.html, its data, and each existing file of the run that it links to.

    Returns a line that says how large it is.
    """
    root = run.resolve()
    names = {INDEX, *(path.relative_to(run).as_posix() for path in sorted((run / FOLDER).glob("*.js")))}
    text = re.sub(r"<script>.*?</script>", "", read_text(run / INDEX), flags=re.DOTALL)
    for link in _LINK.findall(text):
        path = run / unquote_to_bytes(unescape(link)).decode("utf-8", "surrogateescape")
        if path.is_file() and path.resolve().is_relative_to(root):
            names.add(path.relative_to(run).as_posix())
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(names):
            entry = zipfile.ZipInfo(f"{root.name}/{name}", _WHEN)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, (run / name).read_bytes())
    target = root.with_name(f"{root.name}.zip")
    write_bytes(target, packed.getvalue())
    size = f"{len(names)} files, {len(packed.getvalue()) / 1e6:.1f} MB"
    return f"wrote {target.name}: {size}; unpack it and open {root.name}/{INDEX}"
