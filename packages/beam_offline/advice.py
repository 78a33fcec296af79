"""Answers to requests for help: what the user asked to be kept to, what they prefer, what was said on the matter."""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam_offline.answer_wording import MISSING, cut, in_order, pick, plain, to_user
from beam_offline.context import ASSISTANT, USER, ContextHit, Search, Unit
from beam_offline.cues import OCCASION, PREFERENCE, STANDING
from beam_offline.question import ParsedQuestion
from beam_offline.read_facts import stems

_FACETS = re.compile(r"^(?:considering|given|based on|in view of)\s+(.+?),\s+(?:how|what|which)\b", re.IGNORECASE)
_FIGURES = re.compile(
    r"\b(?:version|number|codes?|quantif\w+|amounts?|exact|figures?|percent\w*|dates?|times?|costs?)\b", re.IGNORECASE
)
_FITS = 0.3
"""Share of an instruction's occasion that the question must name for the instruction to hold."""

_ENOUGH = 0.4
"""Share of a question's weight that a statement must cover for there to be anything to say."""

_BARE = 2
"""A context of no more blocks was put together for this question: what it asks for or prefers holds for it."""

_WORDS = 120
_CODE_LINES = 14


def _said(search: Search, pattern: re.Pattern[str]) -> list[tuple[int, Unit]]:
    return [
        (position, unit)
        for position, block in enumerate(search.blocks)
        for unit in block.units
        if unit.role == USER and pattern.search(unit.text)
    ]


def instructions(question: ParsedQuestion, search: Search) -> list[str]:
    """Up to two standing instructions for the occasion of the question, newest first."""
    found: dict[str, tuple[float, int]] = {}
    wanted = frozenset(question.topic)
    for position, unit in _said(search, STANDING):
        occasion = OCCASION.search(unit.text)
        about = frozenset(stems(occasion[1])) if occasion else unit.stems
        share = len(about & wanted) / len(about) if about else 0.0
        found[unit.text] = (share, position)
    fitting = [text for text in found if found[text][0] >= _FITS]
    fitting.sort(key=lambda text: (-found[text][0], -found[text][1]))
    return fitting[:2]


def preferences(question: ParsedQuestion, search: Search) -> list[str]:
    """Up to two preferences that share the question's words."""
    scored = []
    for position, unit in _said(search, PREFERENCE):
        share = search.coverage(question.topic, search.blocks[position], unit)
        if share >= 0.2 or len(search.blocks) <= _BARE:
            scored.append((-share, -position, unit.text))
    return list(dict.fromkeys(text for _, _, text in sorted(scored)))[:2]


def _code(hits: Sequence[ContextHit]) -> str | None:
    for hit in hits:
        if hit.block.code:
            lines = hit.block.code[-1].removesuffix("```").rstrip().split("\n")
            opening = lines[0] if len(lines[0]) > 3 else "```text"
            return "\n".join([opening, *lines[1:_CODE_LINES], "```"])
    return None


def acknowledge(rules: Sequence[str], likings: Sequence[str]) -> list[str]:
    """Sentences that name the instructions and preferences an answer keeps to."""
    said = [f'As you asked: "{cut(plain(text), 25)}"' for text in rules]
    return said + [f'You said: "{cut(to_user(plain(text)), 25)}"' for text in likings]


def _ranked(question: ParsedQuestion, search: Search, rules: Sequence[str]) -> list[ContextHit]:
    """Statements on the question, those first that have what the instructions ask for."""
    asked = tuple(dict.fromkeys(word for rule in rules for word in stems(OCCASION.sub("", rule))))
    figures = _FIGURES.search(" ".join(rules)) is not None
    if not asked:
        return _by_facet(question, search)
    ranked = []
    for hit in search.hits((*question.topic, *asked)):
        fits = 0.3 * (figures and re.search(r"\d", hit.unit.text) is not None)
        score = search.coverage(question.topic, hit.block, hit.unit) + fits
        ranked.append(ContextHit(score + 0.5 * search.coverage(asked, hit.block, hit.unit), hit.block, hit.unit))
    return sorted(ranked, key=lambda hit: -hit.score)


def _by_facet(question: ParsedQuestion, search: Search) -> list[ContextHit]:
    """Hits for the whole question; where it lists several matters ("Considering a, b and c, ..."), the best of each."""
    listed = _FACETS.match(question.text)
    hits = search.hits(question.topic)
    if listed is None:
        return hits
    best: list[ContextHit] = []
    for facet in re.split(r",\s*(?:and\s+)?|\s+and\s+", listed[1]):
        found = [hit for hit in search.hits(tuple(dict.fromkeys(stems(facet))))[:6] if hit.score >= _ENOUGH]
        best += pick(found, _WORDS // 3)
    return best + [hit for hit in hits if all(hit.unit is not other.unit for other in best)]


def advice(question: ParsedQuestion, search: Search) -> str:
    """Instructions and preferences first, then what the conversation holds on the matter, in the form asked for."""
    rules = instructions(question, search)
    if not rules and len(search.blocks) <= _BARE:
        rules = [unit.text for _, unit in _said(search, STANDING)][:2]
    likings = preferences(question, search)
    hits = _ranked(question, search, rules)
    if not rules and not likings and (not hits or hits[0].score < _ENOUGH):
        return MISSING
    lines = acknowledge(rules, likings)
    repeated = {*rules, *likings}
    listed = _FACETS.match(question.text) is not None
    points = [
        hit
        for hit in hits
        if (listed or hit.unit.role == ASSISTANT) and hit.unit.text not in repeated and len(hit.unit.text.split()) >= 4
    ]
    form = " ".join(rules).lower()
    left = _WORDS - sum(len(line.split()) for line in lines)
    chosen = in_order(pick(points, max(left, _WORDS // 3)))
    numbered = "step" in form
    for number, hit in enumerate(chosen, start=1):
        lines.append(f"{number}. {plain(hit.unit.text)}" if numbered else f"- {plain(hit.unit.text)}")
    if "code" in form or "snippet" in form:
        code = _code(hits)
        lines += [code] if code else []
    return "\n".join(lines)
