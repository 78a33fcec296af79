"""Dependencies told in words that no pattern foresees: by which known subjects a sentence mentions, and whether it
supposes a change. A rule of the stand-in; it goes by mention, and so takes some remarks for dependencies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from beam_offline.read_facts import stems

_SUPPOSED = re.compile(
    r"\b(?:if|unless|once|whenever|when|should|were|had|in case|in the event|provided|assuming|suppos(?:e|ing)|say|"
    r"given|upon|after|as soon as|the (?:moment|minute|day)|without|come|another|"
    r"(?:an?|any|some) (?:new|different|other)|any other|(?:a )?(?:change|switch) of|"
    r"(?:changing|switching|swapping|replacing|leaving|moving)|swap|replace|"
    r"not \w+ing)\b",
    re.IGNORECASE,
)
_WOULD = re.compile(
    r"(?:\b(?:will|would|shall|(?:am|are|is) going to)|['’](?:ll|d))\s+(?:then |instead |have to |need to )*"
    r"(?:(?:be|become|mean|make|put|take|use|run|go|switch|pick|move|change|turn|lower|raise|serve|get|have|set|shift)\b"
    r"(?:\s+(?:it|me|us|up|over|back))*(?:\s+(?:to|into|as(?! well)|on|with)\b)?)?\s*"
    r"|\b(?:becomes?|means?|makes? (?:it|me)|puts? (?:it|me) on|replaces?|(?:changes?|turns?|shifts?|moves?|drops?|"
    r"rises?|goes|switch(?:es)?)(?:\s+(?:the|my|our)\s+[\w -]{2,40}?)?\s+(?:to|into))\s+",
    re.IGNORECASE,
)
_IS = re.compile(r"\b(?:is|are)\s+", re.IGNORECASE)
_CLAUSE = re.compile(
    r"[,;]\s+|\s+(?:and|because|since|as|so|that|which|who|where|when|while|if|once)\s+", re.IGNORECASE
)
_OPEN = re.compile(
    r"(?:(?:an?|some|the)\s+)?(?:(?:new|other|different|another|changed?)\b)?\s*(?:one|ones|too)?", re.IGNORECASE
)
"""Says that something will follow, and not what."""
_CHANGES = re.compile(r"\b(?:change|move|shift|switch|turn)\s*\Z", re.IGNORECASE)  # and does not say to what
_LEAST_VALUE = 4  # characters of a value that is told by its wording alone


@dataclass(frozen=True, slots=True)
class Supposed:
    """`dependent` is said to become `value` once `source` changes; something else, where `value` is empty."""

    dependent: str
    source: str
    value: str


def mentioned(text: str, known: Mapping[str, str]) -> list[str]:
    """The known subjects that a text mentions: by all words of the name, else by its last word, else by the value."""
    words, low = frozenset(stems(text)), text.lower()
    in_full = [name for name in known if stems(name) and words.issuperset(stems(name))]
    by_kind = [name for name in known if stems(name) and stems(name)[-1] in words]
    by_value = [name for name, value in known.items() if len(value) >= _LEAST_VALUE and value.lower() in low]
    return list(dict.fromkeys([*in_full, *by_value, *by_kind]))


def supposed(sentence: str, last: str, source: str, known: Mapping[str, str]) -> Supposed | None:
    """What a sentence says would follow from a change, None where it supposes none.

    `last` is the subject told last, `source` what that was last said to hang on: each may go without being named.
    """
    cue = _SUPPOSED.search(sentence)
    verbs = list(_WOULD.finditer(sentence)) or list(_IS.finditer(sentence))[-1:]
    if cue is None or not verbs:
        return None
    verb = verbs[-1] if cue.start() < verbs[-1].start() else verbs[0]
    condition = sentence[cue.start() : verb.start()] if cue.start() < verb.start() else sentence[cue.start() :]
    named = [name for name in mentioned(sentence, known) if set(stems(sentence)).issuperset(stems(name))]
    causes = [name for name in mentioned(condition, known) if name != last]
    cause = next(iter(causes), source)
    others = [name for name in named if name != cause]
    dependent = last if last and (last in others or last != cause) else next(iter(others), "")
    if not cause or not dependent or cause == dependent:
        return None
    value = _consequence(sentence, verb, cue, dependent)
    if _OPEN.fullmatch(value) or _CHANGES.search(verb[0]):
        value = ""
    return Supposed(dependent, cause, value)


def _consequence(sentence: str, verb: re.Match[str], cue: re.Match[str], dependent: str) -> str:
    """The value before or after the verb, without the dependent's own name."""
    end = cue.start() if cue.start() >= verb.end() else len(sentence)
    after = re.sub(r"\A(?:(?:then|instead)\s+)+", "", sentence[verb.end() : end], flags=re.IGNORECASE)
    name = r"(?:(?:my|our|the)\s+)?" + r"\s+".join(map(re.escape, dependent.split()))
    if re.match(rf"(?:as\s+)?{name}\b", after, re.IGNORECASE):
        rest = re.match(rf"(?:as\s+)?{name}\s+(?:is|are|be|to be|to)\s+(.+)", after, re.IGNORECASE)
        return rest[1] if rest else re.split(r"[,;]\s+", sentence[: verb.start()])[-1].strip()
    if verb[0].lower().startswith("replace"):
        return re.split(r"[,;]\s+", sentence[: verb.start()])[-1].strip()
    after = re.sub(rf"\s+(?:as|for|by|of)\s+{name}\b.*", "", after, flags=re.IGNORECASE)
    return re.sub(rf"\s+{name}\b.*", "", after, flags=re.IGNORECASE).strip(" ,.;")


def mentioned_beside(sentence: str, dependent: str, known: Mapping[str, str]) -> Iterable[str]:
    """The known subjects that the clauses after a sentence's first mention, without `dependent` itself."""
    first = _CLAUSE.search(sentence)
    if first is None:
        return ()
    own = frozenset(stems(dependent))
    found = mentioned(sentence[first.end() :], {name: value for name, value in known.items() if name != dependent})
    return [name for name in found if not own.intersection(stems(name)[-1:])][:1]
