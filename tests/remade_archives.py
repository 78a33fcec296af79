"""Archives of runs taken apart and put together again, truthfully or not."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import zstandard

from beamlib.files import sha256, to_json


def unpacked(archive: Path) -> bytes:
    with archive.open("rb") as handle:
        return zstandard.ZstdDecompressor().stream_reader(handle).read()


Members = list[tuple[tarfile.TarInfo, bytes]]


def members_of(archive: Path) -> Members:
    with tarfile.open(fileobj=io.BytesIO(unpacked(archive))) as tar:
        return [(member, tar.extractfile(member).read()) for member in tar.getmembers()]


def rebuilt(members: Members, *, relist: bool = True, format: int = tarfile.GNU_FORMAT) -> bytes:
    """A tar of the members; with `relist` the list tells the truth about them."""
    if relist:
        listed = {info.name: {"sha256": sha256(data), "size": len(data)} for info, data in members[1:]}
        members[0] = (members[0][0], json.dumps({"format": 1, "files": listed}).encode())
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def unpadded(data: bytes) -> bytes:
    """A tar without the empty blocks at its end."""
    return data[: -(-len(data.rstrip(b"\0")) // 512) * 512]


def named(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def contents(archive: Path) -> dict[str, bytes]:
    """The files of an archive by name, without its list."""
    return {info.name: data for info, data in members_of(archive)[1:]}


def remade(files: dict[str, bytes], archive: Path) -> Path:
    """An archive of these files whose list tells the truth."""
    members = [(named(name), data) for name, data in files.items()]
    archive.write_bytes(zstandard.compress(rebuilt([(named("archive.json"), b""), *members])))
    return archive


def signed(manifest: dict[str, Any]) -> bytes:
    """A manifest that vouches for itself."""
    value = {name: one for name, one in manifest.items() if name != "sha256"}
    return json.dumps({**value, "sha256": sha256(to_json(value))}).encode()
