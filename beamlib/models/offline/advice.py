"""Answers to requests for help: what the user asked to be kept to, what they prefer, what was said on the matter."""

from __future__ import annotations

import re
from collections.abc import Sequence

from beamlib.models.offline.context import ASSISTANT, USER, Hit, Search, Unit
from beamlib.models.offline.cues import OCCASION, PREFERENCE, STANDING
from beamlib.models.offline.facts import stems
from beamlib.models.offline.question import Question
from beamlib.models.offline.wording import MISSING, cut, in_order, pick, plain, to_user

_FACETS = re.compile(r"^(?:considering|given|based on|taking into account)\s+(.+?),\s+(?:how|what|which)\b", re.IGNORECASE)
_FIGURES = re.compile(
    r"\b(?:version|number|codes?|quantif\w+|amounts?|exact|figures?|percent\w*|dates?|times?|costs?)\b", re.IGNORECASE
)
_ENOUGH = 0.4
_WORDS = 75
_CODE_LINES = 14


def _said(search: Search, pattern: re.Pattern[str]) -> list[tuple[int, Unit]]:
    return [
        (position, unit)
        for position, block in enumerate(search.blocks)
        for unit in block.units
        if unit.role == USER and pattern.search(unit.text)
    ]


def instructions(question: Question, search: Search, few: int = 0) -> list[str]:
    """Standing instructions for the occasion the question presents, newest first; any, where there are at most `few`."""
    found: dict[str, tuple[float, int]] = {}
    wanted = frozenset(question.topic)
    for position, unit in _said(search, STANDING):
        occasion = OCCASION.search(unit.text)
        about = frozenset(stems(occasion[1])) if occasion else unit.stems
        share = len(about & wanted) / len(about) if about else 0.0
        found[unit.text] = (share, position)
    fitting = sorted((text for text in found if found[text][0] >= 0.3), key=lambda text: (-found[text][0], -found[text][1]))
    return fitting[:2] if fitting or len(found) > few else list(found)


def preferences(question: Question, search: Search) -> list[str]:
    """Up to two preferences that share the question's words."""
    scored = []
    for position, unit in _said(search, PREFERENCE):
        share = search.coverage(question.topic, search.blocks[position], unit)
        if share >= 0.2 or len(search.blocks) <= 2:
            scored.append((-share, -position, unit.text))
    return list(dict.fromkeys(text for _, _, text in sorted(scored)))[:2]


def _code(hits: Sequence[Hit]) -> str | None:
    for hit in hits:
        if hit.block.code:
            lines = hit.block.code[-1].removesuffix("```").rstrip().split("\n")
            opening = lines[0] if len(lines[0]) > 3 else "```text"
            return "\n".join([opening, *lines[1:_CODE_LINES], "```"])
    return None


def acknowledge(rules: Sequence[str], likings: Sequence[str]) -> list[str]:
    """Sentences that name the instructions and preferences an answer keeps to."""
    said = [f"As you asked: \"{cut(plain(text), 35)}\"" for text in rules]
    return said + [f"You said: \"{cut(to_user(plain(text)), 40)}\"" for text in likings]


def _ranked(question: Question, search: Search, rules: Sequence[str]) -> list[Hit]:
    """Statements on the question, those first that have what the instructions ask for."""
    asked = tuple(dict.fromkeys(word for rule in rules for word in stems(OCCASION.sub("", rule))))
    figures = _FIGURES.search(" ".join(rules)) is not None
    if not asked:
        return _by_facet(question, search)
    ranked = []
    for hit in search.hits((*question.topic, *asked)):
        fits = 0.3 * (figures and re.search(r"\d", hit.unit.text) is not None)
        score = search.coverage(question.topic, hit.block, hit.unit) + fits
        ranked.append(Hit(score + 0.5 * search.coverage(asked, hit.block, hit.unit), hit.block, hit.unit))
    return sorted(ranked, key=lambda hit: -hit.score)


def _by_facet(question: Question, search: Search) -> list[Hit]:
    """Hits for the whole question; where it lists several matters ("Considering a, b and c, ..."), the best of each."""
    listed = _FACETS.match(question.text)
    hits = search.hits(question.topic)
    if listed is None:
        return hits
    best: list[Hit] = []
    for facet in re.split(r",\s*(?:and\s+)?|\s+and\s+", listed[1]):
        found = [hit for hit in search.hits(tuple(dict.fromkeys(stems(facet))))[:6] if hit.score >= _ENOUGH]
        best += pick(found, _WORDS // 2)
    return best + [hit for hit in hits if all(hit.unit is not other.unit for other in best)]


def advice(question: Question, search: Search) -> str:
    """Instructions and preferences first, then what the conversation holds on the matter, in the form asked for."""
    rules = instructions(question, search, few=2)
    likings = preferences(question, search)
    hits = _ranked(question, search, rules)
    if not rules and not likings and (not hits or hits[0].score < _ENOUGH):
        return MISSING
    lines = acknowledge(rules, likings)
    repeated = {*rules, *likings}
    points = [
        hit
        for hit in hits
        if (hit.unit.role == ASSISTANT or _FACETS.match(question.text)) and hit.unit.text not in repeated and len(hit.unit.text.split()) >= 4
    ]
    form = " ".join(rules).lower()
    chosen = in_order(pick(points, _WORDS + 40 * (not rules and not likings)))
    numbered = "step" in form
    for number, hit in enumerate(chosen, start=1):
        lines.append(f"{number}. {plain(hit.unit.text)}" if numbered else f"- {plain(hit.unit.text)}")
    if "code" in form or "snippet" in form:
        code = _code(hits)
        lines += [code] if code else []
    return "\n".join(lines)
