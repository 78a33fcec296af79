"""Sections of an assistant's answer on a topic. A builder takes a `Draft` and returns Markdown, or nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from beamlib.generate.author.bank import Topic
from beamlib.generate.author.facts import Fact, Occasion
from beamlib.generate.author.wording import Words, capital, infinitive, phrases, short_name, small
from beamlib.text import count_tokens

_TERMS = re.compile(r"[a-z]{4,}")
_ADDED = 0.6  # how often something small is added to a sentence of advice
_NAMED = 3  # so often may an answer say what it is about


@dataclass
class Stock:
    """What is left of a topic for one answer: numbers of its texts, the next one last."""

    topic: Topic
    actions: list[int]
    reasons: list[int]
    risks: list[int]
    checks: list[int]
    tips: list[int]

    def copy(self) -> Stock:
        """The same, to be used up by itself."""
        lists = (self.actions, self.reasons, self.risks, self.checks, self.tips)
        return Stock(self.topic, *map(list, lists))


@lru_cache(maxsize=8192)
def _terms(text: str) -> frozenset[str]:
    return frozenset(_TERMS.findall(text.lower()))


class Draft:
    """An answer being written. No text of a topic is used twice; an action goes only with a reason that explains it."""

    def __init__(self, occasion: Occasion) -> None:
        self.occasion, self.rng = occasion, occasion.rng
        self.tips = max(1, round(occasion.target / 500))
        self.headed = occasion.rng.choice(("### {}", "**{}**", "", ""))
        self.lists = 1 if occasion.target < 300 else 2 if occasion.target < 800 else 3
        self._phrases = phrases(occasion.bank.domain)
        self._left: dict[str, list[str]] = {}
        self._name = occasion.thing.name if occasion.thing is not None else occasion.title.goal
        self._short = short_name(occasion.thing) if occasion.thing is not None else occasion.title.goal
        self._named = 0
        self._terms = set(_TERMS.findall(f"{occasion.question} {_put(occasion)}".lower()))
        self._said: list[frozenset[str]] = []
        self._loose: set[tuple[str, str]] = set()
        self._topics = self._in_order()
        self.stocks = [self._stock(self._topics[0])]
        self._at = 0

    def _in_order(self) -> list[Topic]:
        """The occasion's topic, then the thing's own, then the others, near ones first."""
        occasion = self.occasion
        found = [occasion.topic]
        if occasion.thing is not None:
            own = occasion.thing.template.topic
            found += [topic for topic in occasion.bank.topics if topic.label == own and topic is not occasion.topic]
        topics = occasion.bank.topics
        here = next(number for number, topic in enumerate(topics) if topic.label == occasion.topic.label)
        # A bank lists related topics near each other.
        far = [abs(number - here) + 4 * self.rng.random() for number in range(len(topics))]
        others = [topics[number] for number in sorted(range(len(topics)), key=far.__getitem__)]
        return found + [topic for topic in others if all(topic is not one for one in found)]

    def _stock(self, topic: Topic) -> Stock:
        lists = (topic.actions, topic.reasons, topic.risks, topic.checks, topic.tips)
        return Stock(topic, *(self._ordered(texts) for texts in lists))

    def _ordered(self, texts: list[str]) -> list[int]:
        """Numbers of `texts`: last, and so first to be used, those that share words with the question."""
        numbers = self.rng.sample(range(len(texts)), len(texts))
        if texts is self.occasion.topic.actions or texts is self.occasion.topic.tips:
            numbers.sort(key=lambda number: len(self._terms.intersection(_TERMS.findall(texts[number]))) > 1)
        return numbers

    @property
    def stock(self) -> Stock:
        """The topic that is being written about."""
        return self.stocks[self._at]

    @property
    def untouched(self) -> bool:
        """Whether nothing has been drawn from the topic at hand."""
        stock = self.stock
        return len(stock.actions) == len(stock.topic.actions) and len(stock.checks) == len(stock.topic.checks)

    def move(self) -> bool:
        """Go on to the next topic; False where there is none."""
        if self._at + 1 == len(self._topics):
            return False
        self._at += 1
        if self._at == len(self.stocks):
            self.stocks.append(self._stock(self._topics[self._at]))
        return True

    def attempt(self, builder: Callable[[Draft], str], room: int) -> str:
        """What `builder` returns, where it has `room` (tokens); else nothing, and nothing is used up."""
        left = {key: list(texts) for key, texts in self._left.items()}
        kept = (
            left,
            self._named,
            self._at,
            self.lists,
            self.tips,
            list(self._said),
            set(self._loose),
            self.stock.copy(),
        )
        text = builder(self)
        if text and count_tokens(text) <= room:
            return text
        self._left, self._named, self._at, self.lists, self.tips, self._said, self._loose, stock = kept
        self.stocks[self._at] = stock
        return ""

    def back(self) -> None:
        """Leave the topic at hand, of which nothing has been used, for the one before it."""
        self._at -= 1
        self.stocks.pop()

    def nearest(self) -> Iterator[Stock]:
        """What is left to draw from: the topics written about, the last one first, then further ones."""
        yield from reversed(self.stocks)
        while len(self.stocks) < len(self._topics):
            self.stocks.append(self._stock(self._topics[len(self.stocks)]))
            yield self.stocks[-1]

    def because(self) -> dict[str, str]:
        """An action and the reason that explains it; empty where none is left."""
        stock = self.stock
        for action in reversed(stock.actions):
            reason = stock.topic.because[action] if stock.topic.because else -1
            if reason in stock.reasons and self.fresh(stock.topic.actions[action]):
                stock.actions.remove(action)
                stock.reasons.remove(reason)
                return self._action(action) | {"reason": self.fill(stock.topic.reasons[reason])}
        return {}

    def remedy(self) -> dict[str, str]:
        """A risk and the action that helps against it; empty where none is left."""
        stock = self.stock
        for risk in reversed(stock.risks):
            action = stock.topic.remedy[risk] if stock.topic.remedy else -1
            if action in stock.actions and self.fresh(stock.topic.actions[action]):
                stock.risks.remove(risk)
                stock.actions.remove(action)
                return self._action(action) | {"risk": self.fill(stock.topic.risks[risk])}
        return {}

    def action(self, fits: Callable[[str], bool] = lambda text: True) -> dict[str, str]:
        """An action by itself, one that nothing belongs to where there is one; empty where none is left."""
        stock = self.stock
        texts = stock.topic.actions
        found = [number for number in stock.actions if fits(texts[number]) and self.fresh(texts[number])]
        if not found:
            return {}
        alone = [number for number in found if not stock.topic.because or stock.topic.because[number] < 0]
        number = (alone or found)[-1]
        stock.actions.remove(number)
        return self._action(number)

    def _action(self, number: int) -> dict[str, str]:
        self.note(self.stock.topic.actions[number])
        text = self.fill(self.stock.topic.actions[number])
        return {"action": text, "to": infinitive(text)}

    def one(self, kind: str) -> dict[str, str]:
        """A `reason`, `risk`, `check` or `tip` by itself; empty where none is left."""
        texts: list[str] = getattr(self.stock.topic, f"{kind}s")
        left: list[int] = getattr(self.stock, f"{kind}s")
        while left:
            template = texts[left.pop()]
            if self.fresh(template):
                self.note(template)
                text = self.fill(template)
                return {kind: text, "to_check": infinitive(text)} if kind == "check" else {kind: text}
        return {}

    def fresh(self, text: str) -> bool:
        """Whether the answer has not said `text`, a text of the bank, in nearly the same words yet."""
        terms = _terms(text)
        for said in self._said:
            if not terms.isdisjoint(said) and len(terms & said) >= max(2.0, 0.6 * min(len(terms), len(said))):
                return False
        return True

    def note(self, text: str) -> None:
        """Remember that the answer says `text`, a text of the bank."""
        self._said.append(_terms(text))

    def fill(self, text: str) -> str:
        """A text of the bank with the occasion's words; the thing goes by its short name."""
        return self.occasion.fill(text).replace(self._name, self._short)

    def tell(self, fact: Fact, text: str) -> str:
        """`text` of a fact's aspect addressed to the user; the thing by its whole name once."""
        name = self._short if self._named or fact.thing.name != self._name else self._name
        self._named += 1
        return replace(fact, thing=replace(fact.thing, name=name)).fill(text, "you")

    def name(self) -> str:
        """What the answer is about: its whole name the first time."""
        self._named += 1
        return self._name if self._named == 1 else self._short

    def say(self, key: str, **words: str) -> str:
        """A phrase of the list `key`, filled."""
        text = self._draw(key)
        topic = self.stock.topic
        known = Words({"goal": self.occasion.title.goal, "label": topic.label, "field": topic.occasion, **words})
        known["about"] = self.fill(topic.about)
        if "{thing}" in text or "{Thing}" in text:
            known["thing"] = self.name()
        return text.format_map(known)

    def lead(self, name: str, **words: str) -> str:
        """The line above a list, with the space after it; none where the list has a heading."""
        return "" if self.headed and name != "schedule" else f"{self.say(f'lead.{name}', **words)}\n\n"

    def _draw(self, key: str) -> str:
        """The next phrase of a list; one that names the thing only where it has not been named enough."""
        for _ in range(len(self._phrases[key])):
            left = self._left.get(key)
            if not left:
                left = self._left[key] = self.rng.sample(self._phrases[key], len(self._phrases[key]))
            text = left.pop()
            if self._named < _NAMED or "{thing}" not in text.lower():
                break
        return text

    def sentence(self, *, advice: bool = False) -> str:
        """One sentence, of advice only where that is wanted; empty where the topic has nothing left to give."""
        kinds = ["because", "remedy", "because", "pair", "action", "checks"]
        self.rng.shuffle(kinds)
        # A reason or a risk that nothing is paired with: one of each for a topic, more would be a heap.
        loose = (
            [] if advice else [one for one in ("reason", "risk") if (self.stock.topic.label, one) not in self._loose]
        )
        if "reason" in loose:
            kinds.insert(self.rng.randrange(2, 6), "reason")
        for kind in (*kinds, *loose[-1:]):
            if text := self._sentence(kind):
                self._loose.add((self.stock.topic.label, kind))
                return text
        return ""

    def _sentence(self, kind: str) -> str:
        if kind in ("because", "remedy"):
            words = self.because() if kind == "because" else self.remedy()
            if not words:
                return ""
            share = self.rng.random()
            check = self.one("check") if share < _ADDED else {}
            if not check and kind == "because" and share < 0.9 and (other := self.action()):
                return self.say("advise.because_two", **words, also=other["action"], to_also=other["to"])
            return self.say(f"advise.{kind}{'_check' if check else ''}", **words, **check)
        if kind == "pair":
            words = self.action()
            other = self.action() if words and self.rng.random() < 0.5 else {}
            if other:
                check = self.one("check") if self.rng.random() < _ADDED else {}
                words |= {"also": other["action"], "to_also": other["to"], **check}
                return self.say("advise.two_check" if check else "advise.two", **words)
            check = self.one("check") if words else {}
            return self.say(f"advise.action{'_check' if check else ''}", **words, **check) if words else ""
        if kind == "checks":
            words, more = self.one("check"), self.one("check")
            if words and more:
                words |= {"also": more["check"], "to_also": more["to_check"]}
                last = self.one("check") if self.rng.random() < _ADDED else {}
                if last:
                    return self.say("advise.three", **words, next=last["check"], to_next=last["to_check"])
                return self.say("advise.checks", **words)
            return self.say("advise.check", **words) if words else ""
        words = self.action() if kind == "action" else self.one(kind)
        return self.say(f"advise.{kind}", **words) if words else ""


def _put(occasion: Occasion) -> str:
    """The assistant's question that a reply answers, empty for any other message."""
    for asked in occasion.topic.asked if occasion.purpose == "reply" else ():
        if any(occasion.fill(reply) in occasion.question for reply in asked.replies):
            return occasion.fill(asked.question)
    return ""


def heading(draft: Draft, name: str) -> str:
    """A heading for the section `name` in the answer's style, or none."""
    if not draft.headed:
        return ""
    fact = draft.occasion.fact
    first = fact.companion.name.split()[0] if fact is not None and fact.companion is not None else ""
    return draft.headed.format(draft.say(f"heading.{name}", first=first))


def listed(draft: Draft, lead: str, items: list[str], mark: str = "-", **words: str) -> str:
    """A list under its lead; nothing where it would have fewer than two items or be one list too many."""
    if len(items) < 2 or draft.lists == 0:
        return ""
    draft.lists -= 1
    lines = [f"{number}. {item}" if mark == "1" else f"{mark} {item}" for number, item in enumerate(items, 1)]
    return draft.lead(lead, **words) + "\n".join(lines)


def steps(draft: Draft) -> str:
    """Numbered steps, with the reason where one belongs to the step."""
    items = []
    for _ in range(draft.rng.randrange(3, 6)):
        words = draft.because() if draft.rng.random() < 0.6 else draft.action()
        words = words or draft.action()
        if words:
            if "reason" not in words and draft.rng.random() < _ADDED:
                words |= draft.one("check")
            key = "step" if "reason" in words else "step_check" if "check" in words else "step_bare"
            items.append(draft.say(f"item.{key}", **words))
    return listed(draft, "steps", items, "1")


def bullets(draft: Draft) -> str:
    """Advice as a list of whole sentences."""
    return listed(
        draft, "bullets", [text for _ in range(draft.rng.randrange(3, 5)) if (text := draft.sentence(advice=True))]
    )


def checklist(draft: Draft) -> str:
    """Boxes to tick."""
    drawn = [draft.one("check") for _ in range(draft.rng.randrange(3, 5))]
    return listed(draft, "checklist", [f"{capital(words['check'])}" for words in drawn if words], "- [ ]")


def risks(draft: Draft) -> str:
    """What could go wrong and what helps then."""
    drawn = [draft.remedy() for _ in range(3)]
    return listed(draft, "risks", [f"**If {words['risk']}:** {words['action']}." for words in drawn if words])


def watch(draft: Draft) -> str:
    """What could go wrong, without a remedy."""
    drawn = [draft.one("risk") for _ in range(3)]
    return listed(draft, "watch", [f"{capital(words['risk'])}." for words in drawn if words])


def table(draft: Draft) -> str:
    """Actions beside their reasons."""
    drawn = [words for _ in range(3) if (words := draft.because())]
    if len(drawn) < 2 or draft.lists == 0:
        return ""
    draft.lists -= 1
    rows = "\n".join(f"| {capital(words['action'])} | {capital(words['reason'])} |" for words in drawn)
    return f"{draft.lead('table')}| {draft.say('item.table_head')} |\n|---|---|\n{rows}"


def prose(draft: Draft) -> str:
    """A paragraph of advice."""
    said = [text for _ in range(draft.rng.randrange(3, 6)) if (text := draft.sentence())]
    return " ".join(said) if len(said) > 1 else ""


def background(draft: Draft) -> str:
    """A paragraph that opens with something generally true and ends with what to make of it."""
    tip = draft.one("tip") if draft.tips else {}
    if not tip:
        return ""
    draft.tips -= 1
    lower = small(tip["tip"], draft.occasion.bank.domain)
    told = draft.say("advise.tip", tip=lower) if lower and draft.rng.random() < 0.8 else tip["tip"]
    return " ".join(text for text in (told, draft.sentence()) if text)


def recap(draft: Draft) -> str:
    """What is known of the thing, without what this occasion's fact says or replaces."""
    occasion, now = draft.occasion, draft.occasion.fact
    if occasion.purpose == "contradiction":
        return ""
    known = [fact for fact in occasion.known if now is None or fact.aspect is not now.aspect][-3:]
    if len(known) < 2:
        return ""
    parts = [draft.tell(fact, fact.aspect.told or fact.aspect.state) for fact in known]
    told = f"{'; '.join(parts[:-1])}; and {parts[-1]}" if len(parts) > 2 else f"{parts[0]}, and {parts[1]}"
    return draft.say("lead.recap", parts=told)


Builder = Callable[[Draft], str]
LISTS: Mapping[str, Builder] = {
    "steps": steps, "bullets": bullets, "checklist": checklist, "risks": risks, "watch": watch, "table": table,
}  # fmt: skip
"""Sections that are lists, by the name of their headings."""
