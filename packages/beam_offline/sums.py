"""Answers that need arithmetic over several messages: a sum, a difference, the greater of two amounts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from beam_offline.amounts import Amount, calls_for, content, find_amounts, in_one_unit
from beam_offline.answer_wording import MISSING, to_user
from beam_offline.asked_sums import AskedSum, Sum, read_sum
from beam_offline.context import USER, Block, Search, Unit
from beam_offline.cues import NEWS
from beam_offline.question import ParsedQuestion
from beam_offline.read_facts import stems

_ENOUGH = 0.5
"""Share of the weight of a thing's words that a statement must cover to give its amount. Above half: the fee for a
course is not its deposit, though both statements name the course."""

_NEAR = 60
"""Characters on either side of a number that say which of several amounts in a sentence it is."""

_AS_GOOD, _AS_GOOD_NEWS = 0.85, 0.6
"""A later amount for a thing replaces the best from this share of its score on; the second where it is told as news."""

_CONVERTED = 0.3
"""What it counts against amounts that minutes have to be made of hours first: mostly they are of different things."""

_CLEARLY = 0.1
"""What a less likely way of cutting the question into things must fit better by."""

_PER_THING = 4
"""Amounts tried per thing; with six things that is 4096 combinations at most."""


@dataclass(frozen=True, slots=True)
class _Given:
    """An amount that a statement gives for a thing."""

    score: float
    amount: Amount
    block: Block
    unit: Unit

    def same_place(self, other: _Given) -> bool:
        return self.unit is other.unit and self.amount.at == other.amount.at


def reckon(question: ParsedQuestion, search: Search) -> str | None:
    """The sum, difference or comparison asked for; None where the question asks for none or nothing can be said.

    Where the wording leaves no doubt and the context lacks one of the amounts, the answer says which.
    """
    asked = read_sum(question.text)
    if asked is None:
        return None
    best: tuple[float, Sequence[str], tuple[_Given, ...]] | None = None
    held: dict[str, list[_Given]] = {}
    for things in asked.splits:
        for thing in things:
            if thing not in held:
                held[thing] = _amounts(thing, asked, search)
        found = _together([held[thing] for thing in things])
        if found is not None:
            score = sum(given.score for given in found) / len(found)
            if best is None or score > best[0] + _CLEARLY:
                best = (score, things, found)
    if best is not None:
        return _told(asked, best[1], best[2])
    return _lacking(asked, search) if asked.certain else None


def _amounts(thing: str, asked: AskedSum, search: Search) -> list[_Given]:
    """The best amounts of each unit for a thing, best first; of amounts in one unit that fit as well, the newest."""
    words = tuple(dict.fromkeys(stems(thing)))
    called_for = calls_for(thing) or calls_for(asked.what)
    wanted = content(words)
    by_unit: dict[str, list[_Given]] = {}
    for block in search.blocks:
        for unit in block.units:
            if unit.wide.isdisjoint(wanted) or not (amounts := find_amounts(unit.text)):
                continue
            cover = search.coverage(wanted, block, unit)
            if cover < _ENOUGH:
                continue
            for amount in amounts:
                near = frozenset(stems(unit.text[max(amount.at - _NEAR, 0) : amount.at + _NEAR]))
                close = sum(word in near for word in wanted) / len(wanted)
                score = cover + 0.2 * close + 0.3 * amount.fits(called_for, words) + 0.1 * (unit.role == USER)
                by_unit.setdefault(amount.unit, []).append(_Given(score, amount, block, unit))
    newest = [_newest(given) for given in by_unit.values()]
    fitting = [given for given in newest if given.amount.fits(called_for, words)]
    return sorted(fitting or newest, key=lambda given: -given.score)[:_PER_THING]


def _newest(given: Sequence[_Given]) -> _Given:
    best = max(given, key=lambda one: one.score)
    newest = best
    for one in given:
        bound = (_AS_GOOD_NEWS if NEWS.search(one.unit.sentence) else _AS_GOOD) * best.score
        if one.score >= bound and one.block.first > newest.block.first and one.unit.role == best.unit.role:
            newest = one
    return newest


def _together(found: Sequence[Sequence[_Given]]) -> tuple[_Given, ...] | None:
    """The best amount of each thing such that all can be put in one unit and none is used twice."""
    best: tuple[float, tuple[_Given, ...]] | None = None
    for chosen in itertools.product(*found):
        if any(one.same_place(other) for one, other in itertools.combinations(chosen, 2)):
            continue
        if in_one_unit(tuple(given.amount for given in chosen)) is None:
            continue
        score = sum(given.score for given in chosen) - _CONVERTED * (len({given.amount.unit for given in chosen}) > 1)
        if best is None or score > best[0]:
            best = (score, chosen)
    return best[1] if best else None


def _named(thing: str) -> str:
    return to_user(thing)


def _told(asked: AskedSum, things: Sequence[str], found: Sequence[_Given]) -> str:
    """The result first, then the amounts it was worked out from, as they were said."""
    amounts = tuple(given.amount for given in found)
    alike = in_one_unit(amounts)
    assert alike is not None  # _together saw to it
    parts = [f"{_named(thing)} is {amount.shown()}" for thing, amount in zip(things, amounts, strict=True)]
    if asked.sum is Sum.TOTAL:
        total = sum((amount.value for amount in alike), start=alike[0].value * 0)
        added = " + ".join(amount.shown() for amount in alike)
        return f"{alike[0].shown(total)} in all: {', '.join(parts)} ({added})."
    first, second = alike[0], alike[1]
    if asked.sum is Sum.DIFFERENCE:
        return f"{first.shown(abs(first.value - second.value))}: {parts[0]} and {parts[1]}."
    if first.value == second.value:
        return f"Neither: {parts[0]} and {parts[1]}."
    # Only the chosen thing is named in full: an answer that repeats both would hold the words of either.
    second_chosen = (first.value < second.value) == (asked.sum is Sum.GREATER)
    chosen, other = (amounts[1], amounts[0]) if second_chosen else amounts
    named = _named(things[1] if second_chosen else things[0])
    return f"{named}: it is {chosen.shown()}, the other {other.shown()}."


def _lacking(asked: AskedSum, search: Search) -> str:
    """Which of the amounts the context does not give."""
    things = asked.splits[0]
    found = [_amounts(thing, asked, search) for thing in things]
    lacking = [_named(thing) for thing, given in zip(things, found, strict=True) if not given]
    if len(lacking) in (0, len(things)):
        return MISSING
    known = [f"{_named(t)} is {given[0].amount.shown()}" for t, given in zip(things, found, strict=True) if given]
    return (
        f"That cannot be worked out: there is no information in the chat about {' or '.join(lacking)}. "
        f"Only this is known: {', '.join(known)}."
    )
