"""The names, places and professions that people are drawn from: `names.yaml`, as data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from beamlib.files import parse_yaml, read_text

_FILE = Path(__file__).with_name("names.yaml")


@dataclass(frozen=True, slots=True)
class NameGroup:
    """First names and family names that are common together."""

    female: tuple[str, ...]
    male: tuple[str, ...]
    family: tuple[str, ...]


@cache
def name_groups() -> tuple[NameGroup, ...]:
    """All groups; no first name occurs in two of them, or for both genders."""
    return tuple(
        NameGroup(tuple(group["female"]), tuple(group["male"]), tuple(group["family"])) for group in _data()["groups"]
    )


@cache
def places() -> tuple[str, ...]:
    """City and country, as `Lisbon, Portugal`."""
    return tuple(_data()["places"])


@cache
def professions() -> tuple[str, ...]:
    """Professions with capital letters."""
    return tuple(_data()["professions"])


@cache
def _data() -> Any:
    return parse_yaml(read_text(_FILE), _FILE)
