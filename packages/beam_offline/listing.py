"""Answers that run through the conversation: what came up in which order, and summaries."""

from __future__ import annotations

from beam_offline.answer_wording import MISSING, in_order, label, pick, plain, to_user
from beam_offline.context import USER, Block, Hit, Search
from beam_offline.question import Question

_DEFAULT_ITEMS = 5
_ITEM_WORDS = 26
_SUMMARY_WORDS = 240
_ALIKE = 0.6
"""Jaccard similarity above which two messages count as the same topic."""


def _best(question: Question, search: Search, block: Block) -> Hit | None:
    """What a message says about the topic; notes and loose text count as the user's."""
    units = block.said_by(USER) or list(block.units)
    hits = [Hit(search.coverage(question.topic, block, unit), block, unit) for unit in units]
    return max(hits, key=lambda hit: (hit.score, len(hit.unit.stems)), default=None)


def _alike(one: Hit, other: Hit) -> bool:
    first, second = one.unit.wide, other.unit.wide
    return len(first & second) > _ALIKE * len(first | second)


def order(question: Question, search: Search) -> str:
    """A numbered list, in order of mention, of the messages that bear most on the topic; as many as asked for."""
    wanted = question.items or _DEFAULT_ITEMS
    by_message: dict[int, Hit] = {}
    for index, block in enumerate(search.blocks):
        hit = _best(question, search, block)
        key = block.first if block.first >= 0 else -1 - index
        if hit is not None and (key not in by_message or hit.score > by_message[key].score):
            by_message[key] = hit
    chosen: list[Hit] = []
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


def summary(question: Question, search: Search) -> str:
    """The statements that say most about the topic, in order of mention, as a bulleted text of bounded length."""
    hits = [hit for hit in search.hits(question.topic) if 4 <= len(hit.unit.text.split()) <= 60]
    if not hits or hits[0].score < 0.25:
        return MISSING
    chosen = in_order(pick(hits, _SUMMARY_WORDS, 0.5))
    return "\n".join(f"- {to_user(plain(h.unit.text)) if h.unit.role == USER else plain(h.unit.text)}" for h in chosen)
