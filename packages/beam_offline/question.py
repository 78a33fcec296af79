"""What a question asks for, read from its wording alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from beam_offline.read_facts import count_asked, stem, stems


class QuestionKind(Enum):
    """The forms of answer the reader knows."""

    ORDER = "list in order"
    SUMMARY = "summary"
    WHETHER = "whether the user ever did something"
    DURATION = "time between two events"
    FIRST = "which of two came first"
    COUNT = "count over the conversation"
    REQUEST = "advice or help"
    DATE = "a date"
    NUMBER = "a number"
    LOOKUP = "anything else"


_FORMS = (
    (QuestionKind.SUMMARY, r"\bsummar(?:y|ize|ise|izing)\b|\brecap\b|\boverview of\b"),
    (
        QuestionKind.ORDER,
        r"\bin (?:chronological |what |which )?order\b|\border (?:in which|of|that)\b|\btimeline of when\b"
        r"|\bchronolog|\bsequence\b.*\b(?:mention|brought|discuss)",
    ),
    (QuestionKind.WHETHER, r"^(?:have|has|did|do|had|am|is it true) (?:I|we|that I)\b"),
    (QuestionKind.FIRST, r"^which\b.*\b(?:first|earlier|later|last)\b.*\bor\b"),
    (
        QuestionKind.DURATION,
        r"\bhow (?:many (?:more )?(?:days|weeks|months|years)|long|much time)\b.*"
        r"\b(?:between|after|before|from|since|until|till|passed)\b",
    ),
    (
        QuestionKind.COUNT,
        r"\bhow many (?:total |different |distinct |unique |times\b)|\bhow many\b.*\b(?:in total|across|altogether)\b",
    ),
    (
        QuestionKind.REQUEST,
        r"\b(?:suggest|recommendations?|advise|advice)\b|\bhow (?:should|can|could|do|would) (?:I|we|you)\b"
        r"|\b(?:can|could|would) you (?:help|show|explain|give|provide|recommend|suggest|guide|walk)\b"
        r"|\b(?:do you think|what should|where should|which should|should I)\b|\bif I\b.*\bhow\b",
    ),
    (
        QuestionKind.DATE,
        r"^when (?:is|was|did|do|does|will|are|were|am|should)\b"
        r"|\b(?:what|which) (?:\w+ )?(?:date|day|deadline|time)\b|\bdeadline\b",
    ),
    (
        QuestionKind.NUMBER,
        r"\bhow (?:many|much|long|often|fast|old)\b|\b(?:percentage|number|quota|limit|price|cost|salary|budget|rate|"
        r"score|latency|probability|average|amount|size|usage|response time|coverage|accuracy|word count|version)\b",
    ),
)
_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE | re.DOTALL)) for kind, pattern in _FORMS)
_YOU_SAID = re.compile(
    r"\b(?:did|have|had) you\b|\byou (?:recommended|suggested|advised|explained|proposed|mentioned|told|gave)\b",
    re.IGNORECASE,
)
_TAKEN_FOR_SAID = re.compile(
    r"\b(?:did|have) (?:I|we|you) (?:\w+ )?(?:say|said|mention|mentioned|tell|told|set|state|outline|describe|"
    r"recommend|suggest|plan|choose|decide|advise|explain)|^how did (?:I|you|we)\b|^where did I\b",
    re.IGNORECASE,
)
_ONLY = re.compile(r"\(?\b(?:please )?mention (?:only|\d+|\w+ items).*$", re.IGNORECASE | re.DOTALL)
_FRAME_TEXT = """
list order walk bring brought discuss mention aspect progress item summary summarize comprehensive complete detailed
thorough provide cover overall ever before recommend suggest advise mention say many days weeks months pass passed
different total number session question message help point work happen start
"""
_FRAME = frozenset(stem(word) for word in _FRAME_TEXT.split())


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question taken apart.

    `topic` are its content stems without repeats, the wording of the request left out. `presumes` is set where the
    question itself says that the thing was said ("what did I say ..."): then less is needed to answer than where it
    asks for a detail that may never have come up.
    """

    text: str
    kind: QuestionKind
    topic: tuple[str, ...]
    items: int | None
    about_assistant: bool
    presumes: bool


def kind_of(text: str) -> QuestionKind:
    """The form of answer that the wording of `text` asks for."""
    past_advice = _YOU_SAID.search(text) is not None
    for kind, pattern in _PATTERNS:
        if pattern.search(text.strip()) and not (kind is QuestionKind.REQUEST and past_advice):
            return kind
    return QuestionKind.LOOKUP


@lru_cache(maxsize=256)  # the filter reads the same question again for every chunk
def read_question(text: str) -> ParsedQuestion:
    """Take a question apart."""
    text = text.strip()
    words = tuple(dict.fromkeys(stems(_ONLY.sub("", text))))
    topic = tuple(word for word in words if word not in _FRAME) or words
    about_assistant = _YOU_SAID.search(text) is not None
    presumes = _TAKEN_FOR_SAID.search(text) is not None
    return ParsedQuestion(text, kind_of(text), topic, count_asked(text), about_assistant, presumes)
