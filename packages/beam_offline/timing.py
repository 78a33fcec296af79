"""Answers about time: how long between two events, which of two came first."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import date

from beam_offline.answer_wording import MISSING, cut, to_user
from beam_offline.context import ASSISTANT, Search
from beam_offline.question import ParsedQuestion
from beam_offline.read_facts import Day, find_dates, stems

_COMMON_YEAR = 2023
"""Year for dates when neither they nor the context name one; it has no 29 February."""

_SPLITS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"\bbetween\s+(?P<first>.+?)\s+and\s+(?P<second>(?:when|the|my|our|i|starting|finishing|completing|a|an)\b.+)",
        r"\bbetween\s+(?P<first>.+)\s+and\s+(?P<second>.+)",
        r"\bfrom\s+(?P<first>.+?)\s+(?:to|until|till)\s+(?P<second>.+)",
        r"\bafter\s+(?P<first>.+?)\s+(?:did|do|was|were|is|will|would)\s+(?P<second>.+)",
        r"\b(?:did|does|will|would) it take\b.*?\bto\s+(?P<second>.+?)\s+after\s+(?P<first>.+)",
        r"(?:did|do|was|were|is|will|would)\s+(?P<second>.+?)\s+after\s+(?P<first>.+)",
        r"(?:did|do|was|were|is|will|would)\s+(?P<first>.+?)\s+before\s+(?P<second>.+)",
    )
)
_SPAN = re.compile(
    r"\b(?:over|in|within|about|around|for|took|takes|take|after|of|last)?\s*(?:the (?:past|last) )?"
    r"(\d+(?:\.\d+)?|a|two|three|four|five|six|seven|eight|nine|ten|twelve)[ -](day|week|month|year|hour|minute)s?\b",
    re.IGNORECASE,
)
_FRAME = frozenset(stems("later earlier"))
_ENOUGH = 0.35
"""Share of an event's words that a dated statement must cover to be that event."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the question, the day the context gives for it, and the statement that says so."""

    day: Day
    said: str
    score: float


def _split(text: str) -> tuple[str, str] | None:
    for pattern in _SPLITS:
        if match := pattern.search(text.rstrip(" ?.")):
            return match["first"], match["second"]
    return None


def _candidates(description: str, search: Search) -> list[Event]:
    """Dated statements about `description`, the best for each day; a date in the description itself settles it."""
    if given := find_dates(description):
        return [Event(given[0].day, description, 1.0)]
    words = tuple(dict.fromkeys(stems(description)))
    wanted = tuple(word for word in words if word not in _FRAME) or words
    best: dict[Day, Event] = {}
    for block in search.blocks:
        for unit in block.units:
            if not unit.wide & set(wanted):
                continue
            dates = find_dates(unit.text)
            if not dates:
                continue
            cover = search.coverage(wanted, block, unit) - 0.15 * (unit.role == ASSISTANT)
            for dated in dates:
                near = stems(unit.text[max(dated.start - 90, 0) : dated.end + 30])
                close = sum(word in near for word in wanted) / max(len(wanted), 1)
                event = Event(dated.day, unit.text, cover + 0.4 * close)
                # Of equals the newest wins: a deadline that was moved is where it was moved to.
                if cover >= _ENOUGH and (dated.day not in best or event.score >= best[dated.day].score):
                    best.pop(dated.day, None)  # so that the newest comes last
                    best[dated.day] = event
    return list(best.values())


def _best_pair(first: list[Event], second: list[Event]) -> tuple[Event, Event] | None:
    """The two events on different days that fit best together; of equals, the later mentioned."""
    pairs = [(a, b) for a in first for b in second if not a.day.same(b.day)]
    return max(reversed(pairs), key=lambda pair: pair[0].score + pair[1].score, default=None)


def _year(search: Search, first: Day, second: Day) -> int:
    if first.year or second.year:
        return first.year or second.year
    years = Counter(
        dated.day.year
        for block in search.blocks
        for unit in block.units
        for dated in find_dates(unit.text)
        if dated.day.year
    )
    return years.most_common(1)[0][0] if years else _COMMON_YEAR


def _written(day: Day) -> str:
    text = f"{date(2000, day.month, day.day):%B} {day.day}"
    return f"{text}, {day.year}" if day.year else text


def _length(days: int, unit: str) -> str:
    if unit == "weeks":
        whole, rest = divmod(days, 7)
        return f"{whole} weeks" + (f" and {rest} days" if rest else "") + f" ({days} days)"
    if unit in ("months", "years"):
        count = days // 30 if unit == "months" else days // 365
        return f"{count} {unit} ({days} days)"
    return f"{days} days"


def duration(question: ParsedQuestion, search: Search) -> str:
    """The time between the two events a question names, in its unit (days unless it says weeks, months or years)."""
    events = _split(question.text)
    found = _best_pair(_candidates(events[0], search), _candidates(events[1], search)) if events else None
    if found is None:
        return span(question, search)
    first, second = found
    year = _year(search, first.day, second.day)
    try:
        days = abs((second.day.on(year) - first.day.on(year)).days)
    except ValueError:  # 29 February of a common year: the context contradicts itself
        return MISSING
    unit = match[1].lower() if (match := re.search(r"\bmany (?:more )?(\w+)", question.text)) else "days"
    return (
        f"{_length(days, unit)}, from {_written(first.day)} till {_written(second.day)}. "
        f'You said: "{cut(to_user(first.said), 40)}" and "{cut(to_user(second.said), 40)}"'
    )


def span(question: ParsedQuestion, search: Search) -> str:
    """A length of time that the context states outright ("over two weeks")."""
    for hit in search.hits(question.topic):
        if hit.score >= 0.5 and (match := _SPAN.search(hit.unit.text)):
            return f'{match[1]} {match[2]}s. You said: "{cut(to_user(hit.unit.text), 60)}"'
    return MISSING


def which_first(question: ParsedQuestion, search: Search) -> str:
    """The one of two things "A, or B" that the user mentioned earlier, or later if the question asks for that."""
    _, _, options = question.text.rstrip("?").partition(":")
    first, separator, second = (options or question.text.rstrip("?")).rpartition(" or ")
    if not separator:
        return MISSING
    found = []
    for option in (first.strip(" ,"), second.strip(" ,")):
        hits = search.hits(tuple(dict.fromkeys(stems(option))))
        if not hits or hits[0].score < _ENOUGH:
            return MISSING
        found.append((hits[0].block.first, option, hits[0].unit.text))
    late = re.search(r"\b(?:later|last)\b", question.text, re.IGNORECASE) is not None
    chosen = (max if late else min)(found, key=lambda entry: entry[0])
    return f'{to_user(chosen[1])}. You said: "{cut(to_user(chosen[2]), 50)}"'
