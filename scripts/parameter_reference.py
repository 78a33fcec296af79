"""Print docs/parameters.md: every setting by section, from its definition and its line in params/base.yaml."""

from __future__ import annotations

import re
from typing import Any, get_args

from pydantic.fields import FieldInfo

from beam_run.plugins import register_packages
from beamlib.params import BASE, FIELDS, MEMORIES, RunParameters, load_parameters, sections
from beamlib.places import PARAMS
from beamlib.settings import MOST_TOKENS

HEAD = """# Parameters

Made by `.venv/bin/python scripts/parameter_reference.py > docs/parameters.md` from `beamlib/params.py`,
`beamlib/settings.py`, the classes of memories and `params/base.yaml`. Give any of them by its own name in a size's
file, in a notebook's cell or with `--set name=value`; a file and `--set` also take `section.name`. In Python:
`parameters["k"]`.
"""
_NOTE = re.compile(r"^(\w+):.*?\s#\s*(.*)$", re.MULTILINE)


def _allowed(field: FieldInfo) -> str:
    """What a setting may be: one of some words, or a range."""
    limits = [f"{name} {value}" for rule in field.metadata for name, value in _bounds(rule)]
    return ", ".join(map(str, [*_choices(field.annotation), *limits]))


def _choices(annotation: Any) -> tuple[Any, ...]:
    inner = get_args(annotation)
    return inner if inner and all(isinstance(value, str) for value in inner) else ()


def _bounds(rule: object) -> list[tuple[str, object]]:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    return [
        (sign, getattr(rule, name)) for name, sign in signs.items() if getattr(rule, name, MOST_TOKENS) != MOST_TOKENS
    ]


def _source(field: FieldInfo) -> str:
    """Where a usual value is from, of the settings that say it."""
    extra = field.json_schema_extra
    return str(extra.get("source", "")) if isinstance(extra, dict) else ""


def reference() -> str:
    """Return the text of docs/parameters.md."""
    base, notes = load_parameters(PARAMS / BASE), dict(_NOTE.findall((PARAMS / BASE).read_text()))
    register_packages()
    parts = {"": [name for name in RunParameters.model_fields if name not in (MEMORIES, *sections())]}
    parts |= {name: list(section.model_fields) for name, section in sections().items()}
    lines = [HEAD]
    for part, names in parts.items():
        about = (sections()[part].__doc__ or "") if part else "The run as a whole."
        lines += [
            f"## {part or 'run'}",
            "",
            about,
            "",
            "| name | usual | allowed | meaning | note |",
            "|---|---|---|---|---|",
        ]
        for name in names:
            cells = (
                f"`{name}`",
                f"`{base[name]!r}`",
                _allowed(FIELDS[name]),
                FIELDS[name].description,
                notes.get(name) or _source(FIELDS[name]),
            )
            lines.append("| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(reference(), end="")
