"""What follows from a fact just told: arithmetic, days, a message to somebody, two options, next steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from beamlib.generate.author.facts import Fact
from beamlib.generate.author.sections import Builder, Draft, listed
from beamlib.generate.author.values import show_number
from beamlib.generate.author.wording import capital
from beamlib.generate.plan_text import show_day

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_COST = re.compile(r"\b(price|fee|cost|costs|fare|deposit|quote|charge|bill|premium|payment|budget|insurance)\b")
_RATE = re.compile(
    r"\b(per|apiece|each|an? (?:head|person|night|day|week|month|year|hour|piece|seat|box|unit|copy|ticket))\b"
)
_MONTHLY = re.compile(r"\b(per|an?) month\b|\bmonthly\b")
_SINGLE = re.compile(r"\b(per|an?) (night|day|head|person|seat|ticket|hour)\b")
_NOUNS = {
    "night": "nights", "day": "days", "head": "people", "person": "people", "seat": "seats", "ticket": "tickets",
    "hour": "hours",
}  # fmt: skip
_TIMED = re.compile(
    r"\b(day|days|week|weeks|month|months|year|evening|morning|night|hour|hours|minutes|before|after|until|once|first"
    r"|last|always|never|every|each|do not|don't|when|while)\b"
)
_PARTS = ((10, "one in ten"), (20, "one in five"), (25, "a quarter"), (33, "a third"), (50, "half"), (67, "two thirds"),
          (75, "three quarters"), (80, "four in five"), (90, "nine in ten"))  # fmt: skip


def numbers(draft: Draft) -> str:
    """What a quantity comes to, where arithmetic says something; else nothing."""
    fact = draft.occasion.fact
    if fact is None or fact.number is None:
        return ""
    unit, state = fact.aspect.unit, f"{fact.aspect.label} {fact.aspect.state}".lower()
    if unit == "usd":
        return _money(draft, fact, fact.number, state)
    if unit == "minutes" and fact.number > 60 and fact.number % 60:
        hours = show_number(fact.number // 60, "hours")
        return draft.say("numbers.clock", sum=f"{hours} and {show_number(fact.number % 60, 'minutes')}")
    if unit == "percent":
        near = [name for share, name in _PARTS if abs(share - fact.number) <= 3]
        return draft.say("numbers.part", share=near[0]) if near else ""
    return _count(draft, fact.number, unit)


def _money(draft: Draft, fact: Fact, amount: int, state: str) -> str:
    if _MONTHLY.search(state):
        return draft.say("numbers.yearly", sum=show_number(3 * amount, "usd"), amount=show_number(12 * amount, "usd"))
    if found := _SINGLE.search(state):
        noun = _NOUNS[found[2]]
        known = [one for one in draft.occasion.known if one.number and one.number > 1 and one.aspect.unit == noun]
        if known and known[-1].number:
            return _product(draft, amount, known[-1].number, noun)
        few, many = draft.rng.choice(((2, 5), (3, 7), (2, 4), (3, 6)))
        words = {"sum": show_number(few * amount, "usd"), "amount": show_number(many * amount, "usd")}
        return draft.say("numbers.times", count=f"{few} {noun}", times=str(many), **words)
    if _RATE.search(state) or not _COST.search(state):
        return ""
    said = [draft.say("numbers.reserve", share=show_number(amount // 10, "usd"))] if amount % 10 == 0 else []
    today = draft.occasion.today
    day = next((one.day for one in draft.occasion.known if one.day and (one.day - today).days > 20), None)
    if day is not None:
        weeks = (day - today).days // 7
        words = {"weeks": str(weeks), "day": show_day(day), "each": show_number(round(amount / weeks), "usd")}
        said.append(draft.say("numbers.weekly", **words))
    return " ".join(said)


def _count(draft: Draft, count: int, noun: str) -> str:
    """A number of days, people or hours, where a price for one of them is known."""
    for one in draft.occasion.known:
        found = _SINGLE.search(f"{one.aspect.label} {one.aspect.state}".lower()) if one.aspect.unit == "usd" else None
        if found and one.number and _NOUNS[found[2]] == noun and count > 1:
            return _product(draft, one.number, count, noun)
    return ""


def _product(draft: Draft, price: int, count: int, noun: str) -> str:
    words = {"value": show_number(price, "usd"), "sum": show_number(price * count, "usd")}
    return draft.say("numbers.product", times=f"{count} {noun}", **words)


def days(draft: Draft) -> str:
    """A date's weekday, how far off it is, what stands next to it; with time enough, days for the steps before it."""
    fact, today = draft.occasion.fact, draft.occasion.today
    if fact is None or fact.day is None or fact.day == today:
        return ""
    away = (fact.day - today).days
    words = {"weekday": _WEEKDAYS[fact.day.weekday()], "today": show_day(today), "days": _span(abs(away))}
    said = [draft.say("days.ahead" if away > 0 else "days.past", **words)]
    known = [one for one in draft.occasion.known if one.aspect is not fact.aspect and one.day and one.day != fact.day]
    if known and (other := known[-1]).day is not None:
        apart = (other.day - fact.day).days
        mention = draft.tell(other, other.aspect.mention)
        words = {"mention": mention, "day": show_day(other.day), "days": _span(abs(apart))}
        said.append(draft.say("days.next", **words, next="later" if apart > 0 else "earlier"))
    plan = _schedule(draft, away) if away >= 6 else ""
    return "\n\n".join(text for text in (" ".join(said), plan) if text)


def _schedule(draft: Draft, away: int) -> str:
    stops = sorted({away // 4, away // 2, away - max(1, away // 6)})
    drawn = [draft.action(lambda text: not _TIMED.search(text)) for _ in stops]
    items = []
    for stop, words in zip(stops, drawn, strict=True):
        day = draft.occasion.today + timedelta(stop)
        if words:
            items.append(f"**By {_WEEKDAYS[day.weekday()]}, {show_day(day)}:** {words['action']}.")
    return listed(draft, "schedule", items)


def _span(count: int) -> str:
    weeks, rest = divmod(count, 7)
    plain = show_number(count, "days")
    if weeks < 2:
        return plain
    return f"{plain}, {'about' if rest else 'exactly'} {show_number(round(count / 7), 'weeks')}"


def note(draft: Draft) -> str:
    """A message to the companion of the fact."""
    fact = draft.occasion.fact
    check = draft.one("check")
    if fact is None or fact.companion is None or not check:
        return ""
    words = {**check, "first": fact.companion.name.split()[0], "weekday": draft.rng.choice(_WEEKDAYS[:5])}
    body = f"{draft.say('note.body')} {draft.say('note.ask', **words)}"
    text = f"> {draft.say('note.greeting', **words)}\n>\n> {body}\n>\n> {draft.say('note.bye')}"
    return f"{draft.say('lead.note', **words)}\n\n{_as_user(text)}\n\n{draft.say('note.after')}"


def _as_user(text: str) -> str:
    """A message that the user is to send speaks as the user."""
    return re.sub(r"\byour\b", "my", text)


def choice(draft: Draft) -> str:
    """A fair word on each of the two options."""
    fact = draft.occasion.fact
    if fact is None or "other" not in fact.values:
        return ""
    words = {name: fact.values[name] for name in ("value", "other")}
    told = draft.say("choice.value", **words, why=draft.tell(fact, "{reason}"))
    return f"{told} {draft.say('choice.other', **words)}"


def event(draft: Draft) -> str:
    """What comes after something done."""
    items = [capital(words["action"]) + "." for _ in range(3) if (words := draft.action())]
    return listed(draft, "event", items, "1")


FACT_BUILDERS: Mapping[str, tuple[str, Builder]] = {
    "quantity": ("", numbers), "date": ("", days), "person": ("note", note), "choice": ("", choice),
    "event": ("event", event),
}  # fmt: skip
"""The section that a kind of fact asks for, with the name of its headings, empty for prose."""
