"""Declare the adapters: one memory for each module `<name>_memory` of `beam_memories.adapters`.

Those modules run in the environments of the systems that they adapt, so they cannot declare themselves by a class. What
they say of their calls, `CALLS`, is the rule of the estimate (`beam_commands.estimate`).
"""

from __future__ import annotations

import importlib
import pkgutil

from beam_memories import adapters
from beamlib.memory.declared import MemorySettings
from beamlib.memory.outside import AdapterSettings, CallRule, Own


class Adapter(Own):
    """A memory system of others, which runs by the name of its adapter."""

    name = ""
    joins = "by name"
    own_settings = MemorySettings  # those of adapters stand with `Own`
    uses = (*Own.uses, *AdapterSettings.model_fields)


for _module in pkgutil.iter_modules(adapters.__path__, f"{adapters.__name__}."):
    _name = _module.name.rpartition(".")[2].removesuffix("_memory")
    if _module.name.endswith("_memory"):
        _calls = getattr(importlib.import_module(_module.name), "CALLS", None)
        _declared = {"name": _name, "rule": CallRule(**_calls) if _calls else None, "__module__": __name__}
        globals()[_name] = type(_name, (Adapter,), _declared)
