"""A page and the files that it links to, as one zip that opens by unpacking it."""

from __future__ import annotations

import re
import zipfile
from html import unescape
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote_to_bytes

from beam_page.data_files import FOLDER
from beam_page.sections import INDEX
from beamlib.files import read_text, write_bytes

_LINK = re.compile(r'(?:href|src)="([^"#:]+)"')
_WHEN = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can hold: equal pages give equal bytes."""


def zip_page(run: Path) -> str:
    """Write `<run>.zip` beside the folder; returns a line that says how large it is.

    In it are index.html, its data, and each file of the run that index.html links to and that is there.
    """
    root = run.resolve()
    names = {INDEX, *(path.relative_to(run).as_posix() for path in sorted((run / FOLDER).glob("*.js")))}
    text = re.sub(r"<script>.*?</script>", "", read_text(run / INDEX), flags=re.DOTALL)
    for found in _LINK.findall(text):
        path = run / unquote_to_bytes(unescape(found)).decode("utf-8", "surrogateescape")
        if path.is_file() and path.resolve().is_relative_to(root):
            names.add(path.relative_to(run).as_posix())
    held = BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(names):
            entry = zipfile.ZipInfo(f"{root.name}/{name}", _WHEN)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, (run / name).read_bytes())
    target = root.with_name(f"{root.name}.zip")
    write_bytes(target, held.getvalue())
    size = f"{len(names)} files, {len(held.getvalue()) / 1e6:.1f} MB"
    return f"wrote {target.name}: {size}; unpack it and open {root.name}/{INDEX}"
