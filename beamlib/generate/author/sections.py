"""Sections of an assistant's answer. A builder takes a `Draft` and returns Markdown, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta

from beamlib.generate.author.facts import Occasion
from beamlib.generate.author.values import show_date, show_number
from beamlib.generate.author.wording import Words, capital, infinitive, phrases

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Draft:
    """An answer being written: draws the topic's texts and the shared phrases without repetition while they last."""

    def __init__(self, occasion: Occasion) -> None:
        self.occasion, self.rng = occasion, occasion.rng
        self._phrases = phrases(occasion.bank.domain)
        self._left: dict[str, list[str]] = {}
        topic = occasion.topic
        thing = occasion.thing.name if occasion.thing is not None else occasion.title.goal
        self._words = {
            "thing": thing, "goal": occasion.title.goal, "label": topic.label, "about": occasion.fill(topic.about),
        }  # fmt: skip
        self.headed = occasion.rng.choice(("### {}", "**{}**", ""))

    def take(self, kind: str) -> str:
        """The next of the topic's `actions`, `reasons`, `risks`, `checks` or `tips`, filled."""
        return self.occasion.fill(self._draw(kind, getattr(self.occasion.topic, kind)))

    def advice(self) -> dict[str, str]:
        """One text of each kind, for the slots of a phrase."""
        action, check = self.take("actions"), self.take("checks")
        return {
            "action": action, "to": infinitive(action), "check": check, "to_check": infinitive(check),
            "reason": self.take("reasons"), "risk": self.take("risks"),
        }  # fmt: skip

    def say(self, key: str, **words: str) -> str:
        """A phrase of the list `key`, filled."""
        return self._draw(key, self._phrases[key]).format_map(Words({**self._words, **words}))

    def sentence(self) -> str:
        """One sentence of advice."""
        kinds = ("because", "loose", "risk", "bare", "check", "risk_only", "reason_only")
        return self.say(f"advise.{self.rng.choice(kinds)}", **self.advice())

    def _draw(self, key: str, texts: tuple[str, ...] | list[str]) -> str:
        left = self._left.get(key)
        if not left:
            left = self._left[key] = self.rng.sample(texts, len(texts))
        return left.pop()


def heading(draft: Draft, name: str) -> str:
    """A heading for the section `name` in the answer's style, or none."""
    if not draft.headed or name in ("prose",):
        return ""
    words = {"value": draft.occasion.fact.values.get("value", "")} if draft.occasion.fact else {}
    companion = draft.occasion.fact.companion if draft.occasion.fact else None
    name_of = companion.name if companion else "the other person"
    return draft.headed.format(draft.say(f"heading.{name}", name=name_of, **words))


def _list(draft: Draft, lead: str, items: list[str], mark: str = "-") -> str:
    lines = [f"{number}. {item}" if mark == "1" else f"{mark} {item}" for number, item in enumerate(items, 1)]
    return f"{draft.say(lead)}\n\n" + "\n".join(lines)


def steps(draft: Draft) -> str:
    """Numbered steps, each with its reason or the risk it covers."""
    items = []
    for _ in range(draft.rng.randrange(3, 6)):
        words = draft.advice()
        after = draft.say(f"advise.after_{draft.rng.choice(('reason', 'risk'))}", **words)
        items.append(f"**{capital(words['action'])}.** {after}")
    return _list(draft, "lead.steps", items, "1")


def bullets(draft: Draft) -> str:
    """Advice as a list."""
    kinds = draft.rng.sample(("because", "loose", "risk", "bare"), 3)
    return _list(draft, "lead.bullets", [draft.say(f"advise.{kind}", **draft.advice()) for kind in kinds])


def prose(draft: Draft) -> str:
    """A paragraph of advice."""
    return " ".join(draft.sentence() for _ in range(draft.rng.randrange(3, 6)))


def options(draft: Draft) -> str:
    """Two first moves in a table."""
    one, two = draft.advice(), draft.advice()
    rows = [("What to do", "action"), ("What speaks for it", "reason"), ("Helps if", "risk")]
    table = "\n".join(f"| {name} | {one[key]} | {two[key]} |" for name, key in rows)
    head = draft.say("item.table_heads", a="First way", b="Second way")
    return f"{draft.say('lead.options')}\n\n{head}\n|---|---|---|\n{table}\n\n{draft.say('lead.options_after')}"


def checklist(draft: Draft) -> str:
    """Boxes to tick."""
    return _list(draft, "lead.checklist", list(dict.fromkeys(capital(draft.take("checks")) for _ in range(6))), "- [ ]")


def risks(draft: Draft) -> str:
    """What could go wrong and what to do then."""
    drawn = [draft.advice() for _ in range(3)]
    return _list(
        draft, "lead.risks", [f"**{draft.say('item.risk_head', **words)}:** {words['action']}." for words in drawn]
    )


def rules(draft: Draft) -> str:
    """If this, then that."""
    items = [draft.say("item.rule", **draft.advice()) for _ in range(3)]
    return _list(draft, "lead.rules", [*items, draft.say("item.rule_default", **draft.advice())])


def faq(draft: Draft) -> str:
    """Likely questions with short answers."""
    parts = [draft.say("lead.faq")]
    for kind in draft.rng.sample(("risk", "why", "when"), 3):
        words = draft.advice()
        parts.append(f"**{draft.say(f'item.faq_{kind}', **words)}** {draft.say(f'item.faq_{kind}_answer', **words)}")
    return "\n\n".join(parts)


def signs(draft: Draft) -> str:
    """How to know that it works."""
    return _list(draft, "lead.signs", [draft.say("item.sign", **draft.advice()) for _ in range(3)])


def mistakes(draft: Draft) -> str:
    """What people tend to skip."""
    return _list(draft, "lead.mistakes", [draft.say("item.mistake", **draft.advice()) for _ in range(3)])


def digression(draft: Draft) -> str:
    """A paragraph of background."""
    return f"{draft.say('lead.digression')} {draft.take('tips')}"


def example(draft: Draft) -> str:
    """A sitting divided into minutes that add up."""
    parts = [draft.rng.choice((10, 15, 20)) for _ in range(3)]
    ends = [sum(parts[: number + 1]) for number in range(3)]
    starts, total = [0, *ends[:-1]], str(ends[-1])
    spans = zip(starts, ends, strict=True)
    lines = [draft.say("item.time_lead", **{"from": str(a), "till": str(b)}, **draft.advice()) for a, b in spans]
    lead, after = draft.say("lead.example", total=total), draft.say("lead.example_after", total=total)
    return f"{lead}\n\n" + "\n".join(f"- {line}" for line in lines) + f"\n\n{after}"


def recap(draft: Draft) -> str:
    """What is known of the thing, without what this occasion's fact says or replaces."""
    now = draft.occasion.fact
    known = [one for one in draft.occasion.known if now is None or one.aspect is not now.aspect][-4:]
    if len(known) < 2:
        return ""
    items = []
    for one in known:
        told = (
            f"you said that {one.fill(one.aspect.told, 'you')}"
            if one.aspect.told
            else one.fill(one.aspect.state, "you")
        )
        items.append(f"{capital(told)}.")
    return f"{_list(draft, 'lead.recap', items)}\n\n{draft.say('lead.recap_after')}"


def numbers(draft: Draft) -> str:
    """A low, a middle and a high case of the fact's quantity."""
    fact = draft.occasion.fact
    if fact is None or fact.number is None:
        return ""
    share = max(1, fact.number * draft.rng.choice((10, 15, 20)) // 100)
    unit, value = fact.aspect.unit, fact.values["value"]
    rows = []
    for name, change in (("low", -share), ("middle", 0), ("high", share)):
        sign = "none" if not change else f"{'plus' if change > 0 else 'minus'} {show_number(share, unit)}"
        rows.append(f"| {draft.say(f'numbers.{name}')} | {show_number(fact.number + change, unit)} | {sign} |")
    after = draft.say("numbers.table_after", spread=show_number(2 * share, unit), value=value, **draft.advice())
    head = draft.say("numbers.table_head")
    return f"{draft.say('numbers.table_lead')}\n\n{head}\n|---|---|---|\n" + "\n".join(rows) + f"\n\n{after}"


def schedule(draft: Draft) -> str:
    """Days between today and the fact's date, each with something to do; empty where it is not ahead."""
    fact, today = draft.occasion.fact, draft.occasion.today
    if fact is None or fact.day is None or (days := (fact.day - today).days) < 4:
        return ""
    words = {"today": show_date(today), "when": show_date(fact.day), "days": f"{days} days"}
    stops = sorted({days // 4, days // 2, days - max(1, days // 6)})
    items = [f"**{_day(today + timedelta(stop))}:** {draft.take('actions')}." for stop in stops]
    return f"{draft.say('lead.schedule', **words)}\n\n" + "\n".join(f"- {item}" for item in items)


def _day(day: date) -> str:
    return f"{_WEEKDAYS[day.weekday()]}, {show_date(day)}"


def note(draft: Draft) -> str:
    """A message to the companion of the fact."""
    fact = draft.occasion.fact
    if fact is None or fact.companion is None:
        return ""
    name, weekday = fact.companion.name, draft.rng.choice(_WEEKDAYS[:5])
    words = {**draft.advice(), "name": name, "first": name.split()[0], "weekday": weekday}
    lines = [draft.say("draft.greeting", **words), "", draft.say("draft.body", **words)]
    lines += [draft.say("draft.ask", **words), "", draft.say("draft.bye")]
    quoted = "\n".join(f"> {line}".rstrip() for line in lines)
    return f"{draft.say('lead.draft', **words)}\n\n{quoted}\n\n{draft.say('draft.after')}"


def choice(draft: Draft) -> str:
    """The option chosen beside the one left."""
    fact = draft.occasion.fact
    if fact is None or "other" not in fact.values:
        return ""
    words = {"value": fact.values["value"], "other": fact.values["other"]}
    rows = [f"| {draft.say('choice_rows.rows')} |" for _ in range(4)]
    head = draft.say("item.table_heads", a=words["value"], b=words["other"])
    table = "\n".join([head, "|---|---|---|", *rows])
    return f"{draft.say('lead.choice', **words)}\n\n{table}\n\n{draft.say('lead.choice_after', **words)}"


def event(draft: Draft) -> str:
    """What follows from something done."""
    return _list(draft, "lead.event", [draft.say("advise.because", **draft.advice()) for _ in range(3)], "1")


Builder = Callable[[Draft], str]
BUILDERS: Mapping[str, Builder] = {
    "steps": steps, "bullets": bullets, "options": options, "checklist": checklist, "risks": risks, "rules": rules,
    "faq": faq, "signs": signs, "mistakes": mistakes, "digression": digression, "example": example, "recap": recap,
    "prose": prose,
}  # fmt: skip
"""Sections for any purpose, by the name of their headings."""
FACT_BUILDERS: Mapping[str, tuple[str, Builder]] = {
    "quantity": ("numbers", numbers), "date": ("schedule", schedule), "person": ("draft", note),
    "choice": ("choice", choice), "event": ("steps", event),
}  # fmt: skip
"""The section that a kind of fact asks for, first in the answer."""
