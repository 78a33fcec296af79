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
BOTH_SIDES: Final = _wordings("both_sides")
ASKS_WHICH: Final = tuple(map(re.compile, _wordings("asks_which")))
RESOLVES: Final = _wordings("resolves")
ASKING_NUGGET: Final = _pattern("asking_nugget")
AVOID: Final = _pattern("avoid")
PREFERRED: Final = _pattern("preferred")
"""A preference as it is repeated to the user: what stands after it is turned down and not suggested."""
TURNED_DOWN: Final = _pattern("turned_down")
LEADS_YES: Final = _pattern("leads_yes")
LEADS_NO: Final = _pattern("leads_no")
DENIES: Final = _pattern("denies")
DENIES_WITHOUT_NEGATION: Final = frozenset(_wordings("denies_without_negation"))
HEDGES: Final = _wordings("hedges")
"""Wordings of a speaker who does not commit to a statement."""
YES_NO: Final = _wordings("yes_no")

FORMS: Final = tuple(
    (tuple(form["words"]), re.compile(form["shown"], re.IGNORECASE | re.DOTALL | re.MULTILINE))
    for form in _TABLE["forms"]
)
"""What a nugget can ask of an answer's form, by its words, and what shows it."""
FORM_WORDS: Final = tuple((number, word) for number, (words, _) in enumerate(FORMS) for word in words)
"""The words of each form, by its number."""
