"""What a power cut leaves of a folder, from the log that `disk.c` keeps of all changes in it."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).with_name("disk.c")


def build(folder: Path) -> Path | None:
    """Compile the layer; None where there is no compiler."""
    compiler = shutil.which("cc")
    library = folder / "disk.so"
    if compiler is None:
        return None
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    return library


@dataclass(eq=False)
class _Node:
    """A file: what it holds, and what the disk has of it, with the changes that were not synced in order."""

    data: bytearray = field(default_factory=bytearray)
    kept: bytearray = field(default_factory=bytearray)
    pending: list[tuple[str, int, bytes]] = field(default_factory=list)

    def change(self, change: tuple[str, int, bytes]) -> None:
        _apply(self.data, change)
        self.pending.append(change)

    def sync(self) -> None:
        self.kept, self.pending = bytearray(self.data), []


def _apply(data: bytearray, change: tuple[str, int, bytes]) -> None:
    kind, at, piece = change
    if len(data) < at:
        data.extend(bytes(at - len(data)))
    if kind == "cut":
        del data[at:]
    else:
        data[at : at + len(piece)] = piece


class Disk:
    """The files below `root`, as programs see them and as a power cut would leave them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.nodes: dict[int, _Node] = {}
        self.names: dict[Path, _Node] = {}
        self.kept: dict[Path, _Node] = {}
        self.pending: dict[Path, list[tuple[Path, _Node | None]]] = {}  # by folder: name -> file, or none
        self.folders = {root.stat().st_ino: root}
        for path in sorted(root.rglob("*")):
            if path.is_dir():
                self.folders[path.stat().st_ino] = path
            elif path.is_file():
                node = self.nodes[path.stat().st_ino] = _Node(bytearray(path.read_bytes()))
                node.sync()
                self.names[path] = self.kept[path] = node

    def replay(self, lines: Iterable[str]) -> None:
        """Apply the changes of a log."""
        for line in lines:
            kind, inode, *rest = line.rstrip("\n").split(" ")
            node = self.nodes.get(int(inode))
            if kind in ("write", "cut") and node is not None:
                node.change((kind, int(rest[0]), bytes.fromhex(rest[1]) if rest[1] else b""))
            elif kind == "sync":
                self._sync(int(inode))
            elif kind in ("create", "mkdir", "rename", "unlink"):
                paths = [Path(part) for part in bytes.fromhex(rest[0]).decode().split("\n")]
                self._rename(kind, int(inode), paths)

    def _sync(self, inode: int) -> None:
        if node := self.nodes.get(inode):
            node.sync()
        elif folder := self.folders.get(inode):
            for path, node in self.pending.pop(folder, []):
                _name(self.kept, path, node)

    def _rename(self, kind: str, inode: int, paths: list[Path]) -> None:
        path = paths[-1]
        if kind == "mkdir":
            self.nodes.pop(inode, None)
            self.folders[inode] = path
            return
        if kind == "create":
            self.folders.pop(inode, None)
            self._set(path, _Node())
            self.nodes[inode] = self.names[path]
            return
        node = self.names.get(paths[0])
        if node is not None:  # else a folder, whose files were named before it
            self._set(path, node if kind == "rename" else None)
            if kind == "rename":
                self._set(paths[0], None)

    def _set(self, path: Path, node: _Node | None) -> None:
        _name(self.names, path, node)
        self.pending.setdefault(path.parent, []).append((path, node))

    def after_power_cut(self, choice: random.Random) -> dict[Path, bytes]:
        """Return the files that are left: what was synced, and of the rest a part that `choice` picks, often none."""
        names = dict(self.kept)
        for changes in self.pending.values():
            for path, node in changes[: _part(choice, len(changes))]:
                _name(names, path, node)
        files = {}
        for path, node in names.items():
            data = bytearray(node.kept)
            for change in node.pending[: _part(choice, len(node.pending))]:
                _apply(data, change)
            files[path] = bytes(data)
        return files

    def whole(self) -> dict[Path, bytes]:
        """Return all files, as programs see them."""
        return {path: bytes(node.data) for path, node in self.names.items()}


def _name(names: dict[Path, _Node], path: Path, node: _Node | None) -> None:
    if node is None:
        names.pop(path, None)
    else:
        names[path] = node


def _part(choice: random.Random, most: int) -> int:
    return choice.choice((0, 0, choice.randint(0, most)))


def write_files(files: dict[Path, bytes], root: Path, place: Path) -> None:
    """Write files of `root` into the folder `place`, without SQLite's shared memory, which no power cut leaves."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for path, data in files.items():
        if not path.name.endswith("-shm"):
            own = place / path.relative_to(root)
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_bytes(data)
