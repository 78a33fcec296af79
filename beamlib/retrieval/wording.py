"""What the words of a text say of its kind, for the default index.

The rules are about English; none quotes a benchmark or names a subject. What makes a statement a standing one is read
off the statement, as it was stored. One rule looks at the question: whether it asks for something new (`is_request`).
"""

from __future__ import annotations

import re

_STANDING = re.compile(
    r"^\W*(?:[\w ]{1,24}: )?(?:please )?"
    r"(?:always|never|from now on|going forward|whenever|every time|each time)\b",
    re.IGNORECASE,
)
_PREFERENCE = re.compile(r"\bprefer|\bi(?:'d| would) rather\b|\bmy favou?rite\b", re.IGNORECASE)

_QUANTITY = re.compile(
    r"\bhow (?:many|much|long|old|often|far|soon)\b|\bwhen (?:am|are|is|was|were|do|does|did|will)\b|\baverage\b"
    r"|\b(?:what|which) (?:\w+ )?(?:time|date|day|month|year|age|amount|number|percentage)\b",
    re.IGNORECASE,
)
_ACCOUNT = re.compile(r"\bsummar|\boverview\b|\brecap|\btimeline\b|\bchronolog|\b(?:order|sequence)\b", re.IGNORECASE)
_WHETHER = re.compile(r"^\W*(?:am|are|is|was|were|do|does|did|have|has|had) (?:i|we|my|our|the|there)\b", re.IGNORECASE)
_PAST = re.compile(
    r"\b(?:did|have|had|was|were) (?:i|we|you|my|our)\b"
    r"|\b(?:i|we|you) (?:\w+ed|said|told|chose|set|made|took|had|was|were|went|got)\b",
    re.IGNORECASE,
)
_OWN = re.compile(r"^\W*what(?:'s| is| are| was| were) (?:my|our|the)\b", re.IGNORECASE)


def is_standing_instruction(line: str) -> bool:
    """Whether a stored line opens with a word that makes it hold for good ("Always ...", "From now on ...").

    A label before it ("rule: ...", as a model may set it) is looked over.
    """
    return bool(_STANDING.search(line))


def is_preference(line: str) -> bool:
    """Whether a stored line says what somebody would rather have, and is no standing instruction."""
    return bool(_PREFERENCE.search(line)) and not is_standing_instruction(line)


def is_request(question: str) -> bool:
    """Whether a question wants something new (advice, an example), to which instructions and preferences apply.

    It does unless it asks for a number or a date, an account of many things, a yes or no, something past, or what
    something of the user's is.
    """
    return not any(kind.search(question) for kind in (_QUANTITY, _ACCOUNT, _WHETHER, _PAST, _OWN))
