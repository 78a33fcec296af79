"""The stand-in's verdicts on MEME: simple checks of whether values stand in an answer. Each reason says so.

They know no synonym and do not read what is said of a value. Scores that rest on them are no substitute for a judge's.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from beam_generate.read_facts import NUMBER_WORDS, stem
from beam_offline.judge.features import abstains as says_missing
from beamlib.files import to_json

_WORD = re.compile(r"\d[\d,]*(?:\.\d+)*|[^\W\d_]+(?:'[^\W\d_]+)*")
_UNKNOWN = re.compile(
    r"\b(?:unknown|uncertain|unclear|unsure|not (?:\w+ )?(?:known|certain|clear|sure))\b", re.IGNORECASE
)
_FUNCTION_WORDS = "a an and at by for in is it my of on our the to with your"
_NO_CONTENT = frozenset(_FUNCTION_WORDS.split())


def _words(text: str) -> list[str]:
    """Comparable words: no case, no inflection, numbers as digits, no articles and prepositions."""
    words = (word.group().casefold() for word in _WORD.finditer(unicodedata.normalize("NFKC", text).replace("’", "'")))
    return [str(NUMBER_WORDS.get(word, stem(word) or word)) for word in words if word not in _NO_CONTENT]


def _find(value: str, answer: list[str], start: int = 0) -> int:
    """Where all words of `value` stand close together in `answer` from `start` on; -1 where they do not."""
    needed = set(_words(value))
    window = 2 * len(needed)
    places = range(start, len(answer)) if needed else ()
    return next((at for at in places if answer[at] in needed and needed <= set(answer[at : at + window])), -1)


def _holds(value: str, answer: str) -> bool:
    return _find(value, _words(answer)) >= 0


def numbered_values(text: str) -> list[str]:
    """Return the values of a prompt's numbered list; a line whose number does not go on belongs to the value before."""
    values: list[str] = []
    for line in text.split("\n"):
        number, dot, value = line.partition(". ")
        if dot and number == str(len(values) + 1):
            values.append(value)
        elif values:
            values[-1] += f"\n{line}"
    return values


def _aggregation(variables: Mapping[str, str]) -> str:
    present = [_holds(value, variables["answer"]) for value in numbered_values(variables["values"])]
    return to_json({"present": present, "reason": f"simple check: {sum(present)} of {len(present)} values are there"})


def _passed(passed: bool, reason: str) -> str:
    return to_json({"pass": passed, "reason": f"simple check: {reason}"})


def _tracking(variables: Mapping[str, str]) -> str:
    answer, place = _words(variables["answer"]), -1
    for number, value in enumerate(numbered_values(variables["values"]), start=1):
        place = _find(value, answer, place + 1)
        if place < 0:
            return _passed(False, f"value {number} is not there or stands out of order")
    return _passed(True, "all values are there in order")


def _cascade(variables: Mapping[str, str]) -> str:
    new, old = (_holds(variables[name], variables["answer"]) for name in ("new_value", "old_value"))
    return _passed(
        new and not old, f"the new value is {'' if new else 'not '}there, the old one {'too' if old else 'not'}"
    )


def _absence(variables: Mapping[str, str]) -> str:
    abstains = says_missing(variables["answer"]) or _UNKNOWN.search(variables["answer"]) is not None
    return _passed(abstains, f"the answer {'abstains' if abstains else 'does not abstain'}")


def _presence(variables: Mapping[str, str], name: str, wanted: bool) -> str:
    """Check whether the value of a variable is in the answer, or (not `wanted`) is not."""
    holds = _holds(variables[name], variables["answer"])
    return _passed(holds == wanted, f"the value is {'' if holds else 'not '}there")


MEME_VERDICTS: Final[Mapping[str, Callable[[Mapping[str, str]], str]]] = {
    "meme_judge_aggregation": _aggregation,
    "meme_judge_tracking": _tracking,
    "meme_judge_cascade": _cascade,
    "meme_judge_absence": _absence,
    "meme_judge_deletion": partial(_presence, name="old_value", wanted=False),
    "meme_judge_before": partial(_presence, name="value", wanted=True),
}
"""The prompts of MEME's judge and the function of the variables that replies to each."""
