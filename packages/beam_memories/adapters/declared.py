"""Declare the adapters: one memory for each module `<name>_memory` beside this one.

Those modules run in the environments of the systems that they adapt, so they cannot declare themselves by a class.
"""

from __future__ import annotations

from pathlib import Path

from beamlib.memory.outside import Own


class Adapter(Own):
    """A memory system of others, which runs by the name of its adapter."""

    name = ""
    joins = "by name"


for _file in sorted(Path(__file__).parent.glob("*_memory.py")):
    _name = _file.stem.removesuffix("_memory")
    globals()[_name] = type(_name, (Adapter,), {"__module__": __name__, "__doc__": f"{_name}, adapted.", "name": _name})
