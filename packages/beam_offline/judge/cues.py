"""Wordings that the judge looks for, from `wordings.toml`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

from beamlib.files import read_text

_TABLE = tomllib.loads(read_text(Path(__file__).with_name("wordings.toml")))


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile("".join(_TABLE["patterns"][name]), re.IGNORECASE | re.DOTALL)


def _wordings(name: str) -> tuple[str, ...]:
    return tuple(_TABLE["lists"][name])


ABSTAINS: Final = _pattern("abstains")
ABSTAINS_WITHOUT_NEGATION: Final = frozenset(_wordings("abstains_without_negation"))
"""Stems, one of which a clause without a negation has where it abstains."""
NO_INFORMATION: Final = _pattern("no_information")
CONFLICTING: Final = _wordings("conflicting")
ASKS_WHICH: Final = tuple(map(re.compile, _wordings("asks_which")))
ASKING_NUGGET: Final = _pattern("asking_nugget")
AVOID: Final = _pattern("avoid")
PREFERRED: Final = _pattern("preferred")
"""A preference as it is repeated to the user: what stands after it is turned down and not suggested."""
TURNED_DOWN: Final = _pattern("turned_down")
DENIAL: Final[dict[str, list[str]]] = _TABLE["denial"]
"""Words and phrases that take back, deny or doubt a statement, by what they are."""
SHAPE: Final[dict[str, str]] = _TABLE["shape"]
"""Words by which the shape of a sentence shows that it speaks about a statement."""
HEDGES: Final = _wordings("hedges")
"""Wordings of a speaker who does not commit to a statement."""
