"""How the published data is treated before anything reads it: three choices with names, recorded with every result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from beamlib.data.model import ChatVariant

ErrataMode = Literal["none", "flag", "drop"]


@dataclass(frozen=True)
class Treatment:
    """The data treatment of a run.

    `chat_variant`: `truncated` reads the cut conversation the paper evaluated (36 of 100; the others were never cut),
    `full` the whole one. `strip_markers`: take ` ->-> batch,bullet` out of the text, keeping it as data; the released
    evaluation leaves it in. `errata`: `none` ignores `errata.json`, `flag` lists the probes it names, `drop` lists
    them too and removes those whose defect can spoil a score.
    """

    chat_variant: ChatVariant = "truncated"
    strip_markers: bool = True
    errata: ErrataMode = "flag"
