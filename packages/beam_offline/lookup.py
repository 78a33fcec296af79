"""Answers that one place of the conversation gives: a date, a number, what was said; and counts over several."""

from __future__ import annotations

import re

from beam_offline.advice import acknowledge, advice, instructions
from beam_offline.answer_wording import MISSING, cut, in_order, label, opens_point, pick, plain, to_user
from beam_offline.context import ASSISTANT, USER, Block, ContextHit, Search
from beam_offline.cues import NEWS
from beam_offline.question import ParsedQuestion, QuestionKind
from beam_offline.read_facts import NUMBER_WORDS, find_dates, find_numbers, stem, stems

_ENOUGH_VALUE = 0.35
"""Share of the question's weight that a statement with a value of the kind asked for must cover."""

_ENOUGH_SAID = 0.2
_ENOUGH_DETAIL = 0.6
"""The same for what was said: where the question takes for granted that it was, and where it does not."""

_AS_GOOD, _AS_GOOD_NEWS = 0.8, 0.5
"""A later statement about the same thing replaces the best one from this share of its score on; from the second where
it says that something changed."""

_FOCUS = re.compile(
    r"\bhow (?:many|much)\s+(?P<a>(?:[\w-]+\s+){0,2}[\w-]+)"
    r"|\b(?:what|which)(?:'s| is| was| are| were)?\s+(?:the |my |a )?(?:specific |detailed |exact |main )?"
    r"(?P<b>(?:[\w/-]+\s+){0,2}[\w/-]+)",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"\b\d{1,2}(?::\d\d)? ?[ap]\.?m\b|\b\d{1,2}:\d\d\b", re.IGNORECASE)
_NAMES = {value: word for word, value in NUMBER_WORDS.items()}
_PASSAGE_WORDS = 110
_SENTENCE_WORDS = 45


def _focus(question: ParsedQuestion) -> frozenset[str]:
    """Stems of the thing asked for: "commits" in "how many commits have been merged"."""
    match = _FOCUS.search(question.text)
    return frozenset(stems(match["a"] or match["b"])) if match else frozenset()


def _values(kind: QuestionKind, text: str) -> frozenset[str]:
    """What kinds of value `text` gives: "date", "%", a currency, or the stem of the word counted ("commit", "ms")."""
    if kind is QuestionKind.DATE:
        return frozenset(["date"]) if find_dates(text) or _CLOCK.search(text) else frozenset()
    found = set()
    for number in find_numbers(text):
        after = stems(" ".join(text[number.end :].split()[:3]))
        glued = re.match(r"[A-Za-z]+", text[number.end :])
        found |= {number.kind} if number.kind else {glued[0].lower()} if glued else set(after[:2])
    return frozenset(found)


def lookup(question: ParsedQuestion, search: Search) -> str:
    """What the context says about the question; an instruction of the user's that fits the question comes first."""
    rules = acknowledge(instructions(question, search), ())
    found = _value(question, search) if question.kind in (QuestionKind.DATE, QuestionKind.NUMBER) else None
    found = found or _passage(question, search)
    if found is None:
        return advice(question, search) if rules else MISSING
    return "\n".join([*rules, found])


def _value(question: ParsedQuestion, search: Search) -> str | None:
    """The newest statement that gives a value of the kind asked for."""
    focus = _focus(question)
    hits: list[tuple[ContextHit, frozenset[str]]] = []
    needed = 1 if question.presumes or len(question.topic) < 3 else 2
    for hit in search.hits(question.topic):
        if len(hit.unit.wide & set(question.topic)) < needed:
            continue
        if values := _values(question.kind, hit.unit.text):
            bonus = 0.15 * (hit.unit.role == USER) + 0.2 * (not focus.isdisjoint(values))
            hits.append((ContextHit(hit.score + bonus, hit.block, hit.unit), values))
    if not hits:
        return None
    best, values = max(hits, key=lambda entry: entry[0].score)
    if best.score < _ENOUGH_VALUE:
        return None
    newest = best
    for hit, others in hits:
        bound = (_AS_GOOD_NEWS if NEWS.search(hit.unit.sentence) else _AS_GOOD) * best.score
        alike = not values.isdisjoint(others) and hit.unit.role == best.unit.role
        if alike and hit.score >= bound and hit.block.first > newest.block.first:
            newest = hit
    return _quote(newest)


def _quote(hit: ContextHit) -> str:
    text = hit.unit.sentence if len(hit.unit.sentence.split()) <= _SENTENCE_WORDS else hit.unit.text
    text = cut(plain(text), 60)
    return f'You said: "{to_user(text)}"' if hit.unit.role == USER else text


def _supported(question: ParsedQuestion, best: ContextHit) -> bool:
    """Whether a statement answers a question that asks for a detail: the detail itself has to be named in it."""
    if question.presumes:
        return best.score >= _ENOUGH_SAID
    return best.score >= _ENOUGH_DETAIL and best.unit.role == USER and _focus(question) <= best.unit.wide


def _passage(question: ParsedQuestion, search: Search) -> str | None:
    """The best statements of the pair that speaks most of the topic, in order."""
    role = ASSISTANT if question.about_assistant else None
    hits = search.hits(question.topic, role)
    if not question.presumes:
        hits = [hit for hit in hits if _supported(question, hit)]
    if not hits or not _supported(question, hits[0]):
        return None
    blocks: dict[int, Block] = {id(hit.block): hit.block for hit in hits[:30]}
    best_of = {key: max(hit.score for hit in hits if hit.block is block) for key, block in blocks.items()}
    best = max(blocks.values(), key=lambda b: search.block_coverage(question.topic, b) + best_of[id(b)])
    inside = [hit for hit in hits if hit.block is best]
    rest = [
        ContextHit(0.0, best, unit)
        for unit in best.units
        if unit.role == (role or unit.role) and opens_point(unit.text)
    ]
    return "\n".join(_quote(hit) for hit in in_order(pick([*inside, *rest], _PASSAGE_WORDS)))


def count(question: ParsedQuestion, search: Search) -> str:
    """A sum of the numbers the user gave for a thing, or the number and list of the statements about it."""
    focus = _focus(question) - {stem(word) for word in ("total", "different", "distinct", "times", "many")}
    hits = [hit for hit in search.hits(question.topic) if hit.unit.role == USER]
    if not hits or hits[0].score < 0.3:
        return MISSING
    if re.search(r"\btotal\b.*\bacross\b", question.text, re.IGNORECASE) and (summed := _sum(focus, hits)):
        return summed
    best_of_block: dict[int, ContextHit] = {}
    for hit in hits:
        if hit.score >= 0.5 * hits[0].score:
            best_of_block.setdefault(hit.block.first, hit)
    chosen = in_order(list(best_of_block.values())[:6])
    if len(chosen) < 2:
        return _value(question, search) or _quote(hits[0])
    number = _NAMES[len(chosen)] if len(chosen) in _NAMES else str(len(chosen))
    lines = [f"{n}. {label(to_user(hit.unit.text), 22)}" for n, hit in enumerate(chosen, start=1)]
    return f"{number.capitalize()}:\n" + "\n".join(lines)


def _sum(focus: frozenset[str], hits: list[ContextHit]) -> str | None:
    numbers: dict[float, ContextHit] = {}
    for hit in in_order([hit for hit in hits if hit.score >= 0.3]):
        for number in find_numbers(hit.unit.text):
            after = stems(" ".join(hit.unit.text[number.end :].split()[:4]))
            if not number.kind and focus & set(after):
                numbers.setdefault(number.value, hit)
    if not numbers:
        return None
    said = "\n".join(_quote(hit) for hit in list(dict.fromkeys(numbers.values()))[:3])
    return f"{sum(numbers):g} in total ({' + '.join(f'{value:g}' for value in numbers)}).\n{said}"


_DEFAULT_ITEMS = 5
_ITEM_WORDS = 26
_SUMMARY_WORDS = 240
_ALIKE = 0.6
"""Jaccard similarity above which two messages count as the same topic."""


def _best(question: ParsedQuestion, search: Search, block: Block) -> ContextHit | None:
    """What a message says about the topic; notes and loose text count as the user's."""
    units = block.said_by(USER) or list(block.units)
    hits = [ContextHit(search.coverage(question.topic, block, unit), block, unit) for unit in units]
    return max(hits, key=lambda hit: (hit.score, len(hit.unit.stems)), default=None)


def _alike(one: ContextHit, other: ContextHit) -> bool:
    first, second = one.unit.wide, other.unit.wide
    return len(first & second) > _ALIKE * len(first | second)


def order(question: ParsedQuestion, search: Search) -> str:
    """A numbered list, in order of mention, of the messages that bear most on the topic; as many as asked for."""
    wanted = question.items or _DEFAULT_ITEMS
    by_message: dict[int, ContextHit] = {}
    for index, block in enumerate(search.blocks):
        hit = _best(question, search, block)
        key = block.first if block.first >= 0 else -1 - index
        if hit is not None and (key not in by_message or hit.score > by_message[key].score):
            by_message[key] = hit
    chosen: list[ContextHit] = []
    for hit in sorted(by_message.values(), key=lambda hit: -hit.score):
        if hit.score > 0 and len(chosen) < wanted and not any(_alike(hit, other) for other in chosen):
            chosen.append(hit)
    if len(chosen) < wanted:  # fewer messages than items: some messages hold several of them
        units = search.hits(question.topic, USER)
        extra = pick((hit for hit in units if not any(hit.unit is other.unit for other in chosen)), 400, 0.7)
        chosen += extra[: wanted - len(chosen)]
    if not chosen:
        return MISSING
    lines = [f"{n}. {label(to_user(plain(hit.unit.text)), _ITEM_WORDS)}" for n, hit in enumerate(in_order(chosen), 1)]
    return "You mentioned these in this order:\n" + "\n".join(lines)


def summary(question: ParsedQuestion, search: Search) -> str:
    """The statements that say most about the topic, in order of mention, as a bulleted text of bounded length."""
    hits = [hit for hit in search.hits(question.topic) if 4 <= len(hit.unit.text.split()) <= 60]
    if not hits or hits[0].score < 0.25:
        return MISSING
    chosen = in_order(pick(hits, _SUMMARY_WORDS, 0.5))
    return "\n".join(f"- {to_user(plain(h.unit.text)) if h.unit.role == USER else plain(h.unit.text)}" for h in chosen)
