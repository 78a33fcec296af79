"""Classify a question by its wording, and the statements that answer such questions."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FRAME = re.compile(
    r"\b(?:mention|list|provide)?\s*only and only \w+ items?\b"
    r"|\(?mention \w+ items in order\)?"
    r"|\bin order\b"
    r"|\b(?:throughout|across|over|during|in) (?:all )?(?:of )?(?:our|my|the) (?:\w+ )?"
    r"(?:conversations?|sessions?|chats?|discussions?|messages|requests|queries)\b"
    r"|\b(?:can|could|would) you\b|\bplease\b",
    re.IGNORECASE,
)
_BREADTH = re.compile(
    r"\bin order\b|\border in which\b|\bthe order (?:i|of)\b|\bsequence in which\b|\bchronological"
    r"|\bsummar|\boverview of (?:how|my|our|the|what)\b|\brecap\b",
    re.IGNORECASE,
)
_WHETHER = re.compile(r"^\s*(?:have|did|has|had|am|was) (?:i|my|we)\b", re.IGNORECASE)
_PAST = re.compile(
    r"\b(?:did|have|had|was|were) (?:i|you|we)\b"
    r"|\bi (?:mention(?:ed)?|said|say|described|told|brought|bring|shared|set|chose|decided)\b"
    r"|\b(?:across|throughout) (?:all )?(?:of )?(?:my|our)\b"
    r"|\b(?:my|our) (?:sessions|requests|conversations|queries|chats)\b",
    re.IGNORECASE,
)
_FIGURE = re.compile(
    r"\bhow (?:many|much|long|old|often|far)\b|\bwhen (?:did|does|is|was|do|will|am)\b"
    r"|\bwhat (?:time|date|day|deadline|percentage|is the|is my|was)\b|\baverage\b",
    re.IGNORECASE,
)
_COUNT = re.compile(
    r"\bhow (?:many|much|long|old)\b|^\s*when (?:did|does|is|was|do|will|am|are|were)\b|\baverage\b|\bwhat percent",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class QueryIntent:
    """The intent of a question.

    Attributes:
        topic: The question without its framing ("can you", "across our conversations", "ONLY and ONLY five items").
        whether: It asks whether something ever happened.
        request: It asks for something new (advice, an example), to which instructions and preferences apply.
        figure: It asks for a number, a date or a duration.
    """

    topic: str
    whether: bool
    request: bool
    figure: bool


def read_question(question: str) -> QueryIntent:
    """Classify a question. The rules are about English, none about a subject."""
    breadth = bool(_BREADTH.search(question))
    whether = not breadth and bool(_WHETHER.match(question))
    request = not (breadth or whether or _PAST.search(question) or _COUNT.search(question))
    return QueryIntent(
        topic=" ".join(_FRAME.sub(" ", question).split()),
        whether=whether,
        request=request,
        figure=not breadth and not whether and bool(_FIGURE.search(question)),
    )


_INSTRUCTION = re.compile(r"^\W*(?:[\w ]{1,24}: )?(?:always|never)\b|\bwhen(?:ever)? i ask\b", re.IGNORECASE)
_CONDITION = re.compile(
    r"\bwhen(?:ever)? i (?:ask|talk|inquire|request)\w*\s*(?:about|for|on)?\b\s*(?P<topic>.{8,})",
    re.IGNORECASE | re.DOTALL,
)
_PREFERENCE = re.compile(r"\bprefer|\bi(?:'d| would) rather\b", re.IGNORECASE)
_DENIAL = re.compile(r"\bnever\b", re.IGNORECASE)


def is_instruction(key: str) -> bool:
    """Recognise a standing instruction: "Always ...", "Never ...", "... when I ask about ..."."""
    return bool(_INSTRUCTION.search(key))


def instruction_topics(key: str) -> list[str]:
    """Return what an instruction is found by: all of it, and the requests it applies to."""
    match = _CONDITION.search(key)
    return [key, match["topic"]] if match else [key]


def is_preference(key: str) -> bool:
    """Recognise a preference that is not a standing instruction."""
    return bool(_PREFERENCE.search(key)) and not is_instruction(key)


def is_denial(key: str) -> bool:
    """Recognise a statement that something never happened."""
    return bool(_DENIAL.search(key)) and not is_instruction(key)
