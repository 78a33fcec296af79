"""Questions that want amounts added up, subtracted or compared, taken apart by their wording alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache


class Sum(Enum):
    """What is to be done with the amounts."""

    TOTAL = "add up"
    DIFFERENCE = "subtract"
    GREATER = "name the greater"
    SMALLER = "name the smaller"


@dataclass(frozen=True, slots=True)
class AskedSum:
    """A question about several amounts.

    `splits` are the ways in which what is asked about can be cut into things: "Reed and Sons" may be one or two. `what`
    is what the question says about all of them ("spend", "problems"). `certain` is unset where the wording is also that
    of other questions ("the difference between a ratio and a rate").
    """

    sum: Sum
    splits: tuple[tuple[str, ...], ...]
    what: str
    certain: bool


_ALL = r"(?:in all|in total|all told|altogether|combined|all together|together|taken together)"
_ON = r"(?:on|for|with|at|from|of|in|to|across|between|by)"
_AUX = r"(?:is|are|was|were|do|does|did|has|have|had|will|would|can|could)"
_MOVED = r"(?:improve|increase|decrease|change|grow|drop|rise|fall|shrink|differ|go (?:up|down))"
_COMPARED = r"(?:more|less|fewer|greater|\w{3,}er)"

# Named groups: `list` or `a` and `b` are the things, `what` is said of all of them, `how` is the comparative.
_FORMS = tuple(
    (kind, certain, re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for kind, certain, pattern in (
        (Sum.DIFFERENCE, True, rf"\bby how (?:much|many)\b(?P<what>.*?)\b{_AUX}\s+(?P<list>.+?)\s+differ\b"),
        (Sum.DIFFERENCE, True, rf"\bhow (?:much|far)\s+{_AUX}\s+(?P<list>.+?)\s+(?:differ\b|apart\b)"),
        (
            Sum.DIFFERENCE,
            True,
            rf"\b(?:by )?how (?:much|many)\s+(?P<what>{_COMPARED}\b.*?)\s{_AUX}\s+(?P<a>.+?)\s+than\s+(?P<b>.+)",
        ),
        (Sum.DIFFERENCE, True, rf"\bby how (?:much|many)\b(?P<what>.*?)\b{_AUX}\s+(?P<a>.+?)\s+exceed\s+(?P<b>.+)"),
        (Sum.DIFFERENCE, False, rf"\bhow (?:much|many)\b(?P<what>.*?)\b{_MOVED}\b.*?\bbetween\s+(?P<list>.+)"),
        (Sum.DIFFERENCE, False, r"\bdifference\b(?P<what>[^,.?]*?)\bbetween\s+(?P<list>.+)"),
        (
            Sum.TOTAL,
            True,
            rf"\b(?:what|how (?:much|many))(?P<what>[^,]{{0,40}}?)\b{_AUX}\s+(?P<list>.+?)\s+"
            r"(?:come|add up|sum up|sum|amount|add)\s+to\b",
        ),
        (Sum.TOTAL, True, r"\bif (?:I|you|we|one) (?:add|adds|sum|put|take)(?: up)?\s+(?P<list>.+?),\s*(?:how|what)\b"),
        (Sum.TOTAL, True, r"\b(?:what is|what's|give me|tell me|work out|calculate) the sum of\s+(?P<list>.+)"),
        (Sum.TOTAL, False, rf"\bhow (?:much|many)\b(?P<what>.*?)\b{_ALL}\b[^,]*?\b{_ON}\s+(?P<list>.+)"),
        (Sum.TOTAL, False, rf"\bhow (?:much|many)\b(?P<what>.*?)\b(?:{_ON}|{_AUX})\s+(?P<list>.+?),?\s+{_ALL}\b"),
        (
            Sum.TOTAL,
            False,
            r"\b(?:total|combined|overall)\b(?P<what>[^,]*?)\b(?:of|for|on|with|across|between)\s+(?P<list>.+)",
        ),
        (Sum.GREATER, False, rf"\bbetween\s+(?P<list>.+?),\s*which\b[^?]*?\b(?P<how>{_COMPARED})\b"),
        (Sum.GREATER, False, rf"\bwhich\b[^,:?]*?\b(?P<how>{_COMPARED})\b[^,:]*[,:]\s*(?P<a>.+?),?\s+or\s+(?P<b>.+)"),
    )
)
_SMALLER = re.compile(
    r"(?:less|fewer|lower|smaller|shorter|cheaper|faster|quicker|lighter|younger|nearer|closer)\b", re.I
)
_CUT = re.compile(r",\s*(?:and|plus|as well as)\s+|,\s+|\s+(?:and|plus|as well as)\s+", re.IGNORECASE)
_OPENS_THING = re.compile(r"(?:the|my|our|a|an|this|that|these|those|what|how|all|each|\w+'s)\b", re.IGNORECASE)
_LOOSE_END = re.compile(
    rf"(?:,?\s+(?:when|if|based on|according to|{_ALL}|please|taken|put)\b.*)$|[\s?.!,;:]+$", re.IGNORECASE | re.DOTALL
)
_MOST_CUTS = 6


def _splits(text: str, pairs: bool) -> Iterator[tuple[str, ...]]:
    """The ways to cut `text` into two things (`pairs`) or two and more.

    Cuts before an article come first where the first thing has one: then they are likelier than "Reed | and Sons".
    """
    cuts = [match.span() for match in _CUT.finditer(text)]
    opening = [span for span in cuts if _OPENS_THING.match(text[span[1] :])] if _OPENS_THING.match(text) else []
    for found in (opening, cuts if len(cuts) <= _MOST_CUTS else []):
        for number in (1,) if pairs else range(min(len(found), _MOST_CUTS), 0, -1):
            for chosen in itertools.combinations(found[:_MOST_CUTS], number):
                starts = [0, *(end for _, end in chosen)]
                ends = [*(start for start, _ in chosen), len(text)]
                yield tuple(text[start:end].strip() for start, end in zip(starts, ends, strict=True))


def _trimmed(text: str) -> str:
    previous = None
    while previous != text:
        previous, text = text, _LOOSE_END.sub("", text)
    return text.removeprefix("both ").strip()


@lru_cache(maxsize=256)
def read_sum(text: str) -> AskedSum | None:
    """What sum `text` asks for; None where it asks for none, or about fewer than two things."""
    text = text.strip()
    for kind, certain, pattern in _FORMS:
        match = pattern.search(text)
        if match is None:
            continue
        group = match.groupdict()
        if group.get("a"):
            splits: tuple[tuple[str, ...], ...] = ((_trimmed(group["a"]), _trimmed(group["b"])),)
        else:
            splits = tuple(dict.fromkeys(_splits(_trimmed(group["list"]), pairs=kind is not Sum.TOTAL)))
        if not splits or not all(all(split) for split in splits):
            continue
        how = group.get("how") or ""
        asked = Sum.SMALLER if how and _SMALLER.match(how) else kind
        return AskedSum(asked, splits, f"{group.get('what') or ''} {how}".strip(), certain)
    return None
