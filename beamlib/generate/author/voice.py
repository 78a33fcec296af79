"""What the user of a generated conversation writes: main questions, replies to the assistant, follow-ups.

Facts stand inside a situation and a question, as people tell them; patterns are in `banks/voice.toml`. No two messages
of a plan are alike: what has been written is drawn again.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache

from beamlib.errors import UserError
from beamlib.files import read_text
from beamlib.generate.author.bank import BANKS, SLOT, Asked
from beamlib.generate.author.coding import coding_question
from beamlib.generate.author.facts import Occasion
from beamlib.generate.author.mathematics import math_question
from beamlib.generate.author.values import trade
from beamlib.generate.author.wording import short_name
from beamlib.generate.plan_text import show_day

_SHARES_WORK = 0.6
"""How often a message in coding or mathematics shows code or mathematics."""
_RESTATES = 0.12
"""How often a message without a fact of its own restates one that was told."""
_VOWEL = re.compile(r"[aeiou]", re.IGNORECASE)


@cache
def _patterns() -> Mapping[str, list[str]]:
    path = BANKS / "voice.toml"
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML ({error}); correct it.") from None


class Deck:
    """Draws without repetition until all have been drawn, then from the start: texts of a list stay far apart."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._left: dict[str, list[str]] = {}
        self._last: dict[str, str] = {}

    def draw(self, name: str, texts: Sequence[str]) -> str:
        """The next of `texts`, the list called `name`."""
        left = self._left.get(name)
        if not left:
            left = self._left[name] = self._rng.sample(list(texts), len(texts))
            if left[-1] == self._last.get(name):
                left.reverse()  # never the same one twice running
        self._last[name] = left[-1]
        return left.pop()


class Voice:
    """Writes one plan's user messages; `write` and the others return a text not written before."""

    def __init__(self, rng: random.Random, *, named: bool = False) -> None:
        """`named`: messages that tell nothing name their thing, which sets them apart from those of other plans."""
        self._rng = rng
        self._deck = Deck(rng)
        self._named = named
        self._written: set[str] = set()
        self._restated: set[tuple[str, str]] = set()

    def message(self, occasion: Occasion, *, anchor: bool = False, opening: bool = False) -> tuple[str, int]:
        """A main question for `occasion` and the place of the topic's question in it (-1: it holds none).

        `anchor` opens a sub-plan and names its day; `opening`: it is the first message of all and greets as well.
        """
        return self._new(lambda: self._message(occasion, anchor, opening))

    def asked(self, occasion: Occasion) -> Asked:
        """A question that the assistant may put on the occasion's topic; each in turn."""
        found = {asked.question: asked for asked in occasion.topic.asked}
        return found[self._deck.draw(f"asked {occasion.topic.label}", list(found))]

    def reply(self, occasion: Occasion, asked: Asked) -> str:
        """The user's answer to a question that the assistant asked."""
        thing = self._short(occasion)

        def draw() -> tuple[str, int]:
            reply = self._deck.draw(f"reply {asked.question}", asked.replies)
            words = {"thing": thing, "reply": occasion.fill(reply)}
            return _fill(self._pattern("reply", occasion), words), -1

        return self._new(draw)[0]

    def followup(self, occasion: Occasion) -> tuple[str, int]:
        """A short question after an answer, and its place among the topic's follow-ups."""
        thing, texts = self._short(occasion), occasion.topic.followups

        def draw() -> tuple[str, int]:
            asked = self._deck.draw(f"followup {occasion.topic.label}", texts)
            words = {"thing": thing, "followup": _lower(occasion.fill(asked))}
            return _fill(self._pattern("followup", occasion), words), texts.index(asked)

        return self._new(draw)

    def _new(self, draw: Callable[[], tuple[str, int]]) -> tuple[str, int]:
        for _ in range(60):
            text, asked = draw()
            if text not in self._written:
                break
        else:
            text = f"{text} ({len(self._written)})"
        self._written.add(text)
        return text, asked

    def _pattern(self, kind: str, occasion: Occasion) -> str:
        patterns = _patterns()[kind]
        if kind == "fact" and occasion.fact is not None:
            own = f"fact_{occasion.fact.aspect.kind}"
            share = len(_patterns()[own]) / (len(_patterns()[own]) + len(patterns))
            kind = own if self._rng.random() < share else kind
            patterns = _patterns()[kind]
        if self._named and occasion.thing is not None and kind in ("dig", "reply", "followup"):
            return self._deck.draw(f"{kind}, named", [pattern for pattern in patterns if "{thing}" in pattern])
        return self._deck.draw(kind, patterns)

    def _message(self, occasion: Occasion, anchor: bool, opening: bool) -> tuple[str, int]:
        topic, purpose = occasion.topic, occasion.purpose
        situation = occasion.fill(self._deck.draw(f"situation {topic.label}", topic.situations))
        asked = self._deck.draw(f"question {topic.label}", topic.questions)
        question = occasion.fill(asked)
        words = {
            "situation": situation,
            "question": question,
            "thing": self._thing(occasion),
            "goal": occasion.title.goal,
        }
        tell = self._tell(occasion)
        kind: str = ("opening" if opening else "anchor") if anchor else purpose
        if purpose == "dig" and not anchor and tell:
            kind = "restated"
        if tell:
            words["tell"] = tell
        if anchor:
            words["date"] = show_day(occasion.today)
        if purpose == "introduction" or opening:
            words |= self._introduction(occasion)
        work = ""
        if (
            occasion.bank.style != "general"
            and purpose in ("fact", "dig")
            and not anchor
            and self._rng.random() < _SHARES_WORK
        ):
            work = coding_question(occasion) if occasion.bank.style == "coding" else math_question(occasion)
        pattern = self._pattern(kind, occasion)
        if not work:
            return _fill(pattern, words), topic.questions.index(asked)
        # The work stands where the situation would: what the user knows first, what is wanted last.
        lead = f"{_capital(tell)}. " if tell else f"{_capital(situation)}. " if self._rng.random() < 0.5 else ""
        # A question of the topic beside shared work only where the answer can speak to both.
        both = self._rng.random() < 0.4 and bool(topic.direct)
        tail = f"\n\n{question}" if both else ""
        return f"{lead}{work}{tail}", topic.questions.index(asked) if both else -1

    def _tell(self, occasion: Occasion) -> str:
        """The clause that tells the occasion's fact; without one, now and then a fact that was told before."""
        rng, fact = self._rng, occasion.fact
        if occasion.purpose == "preference":
            return occasion.words["preference"]
        if fact is not None and occasion.purpose == "update":
            return fact.fill(rng.choice(fact.aspect.update), "user")
        if fact is not None and occasion.purpose == "contradiction":
            return fact.fill(fact.aspect.never, "user")
        if fact is not None:
            return fact.fill(rng.choice(fact.aspect.say), "user")
        if occasion.purpose == "dig" and rng.random() < _RESTATES:
            return self._again(occasion)
        return ""

    def _again(self, occasion: Occasion) -> str:
        """Something told before, in so many words; no day that is over, and nothing twice."""
        fresh = [
            one
            for one in occasion.known
            if (one.thing.name, one.aspect.label) not in self._restated and (one.day or date.max) >= occasion.today
        ]
        if not fresh:
            return ""
        told = self._rng.choice(fresh)
        self._restated.add((told.thing.name, told.aspect.label))
        return told.fill(told.aspect.say[0] if told.revises is None else told.aspect.update[0], "user")

    def _introduction(self, occasion: Occasion) -> dict[str, str]:
        profile, goal = occasion.profile, occasion.title.goal
        job = trade(profile)
        article = "an" if _VOWEL.match(job) else "a"
        return {
            "name": profile.name,
            "age": str(profile.age),
            "profession": f"{article} {job}",
            "place": profile.place,
            "goal_cap": _capital(goal),
        }

    def _short(self, occasion: Occasion) -> str:
        """The thing as it is called once it has been named in full; in full where plans are to be told apart."""
        named = occasion.thing
        return self._thing(occasion) if named is None or self._named else short_name(named)

    def _thing(self, occasion: Occasion) -> str:
        return occasion.thing.name if occasion.thing is not None else occasion.title.goal


def _fill(pattern: str, words: Mapping[str, str]) -> str:
    """A slot whose name begins with a capital gets its text with a capital."""

    def word(slot: re.Match[str]) -> str:
        name = slot[1]
        return words[name] if name in words else _capital(words[name.lower()])

    text = SLOT.sub(word, pattern)
    return _capital(text) if pattern.startswith("{question}") else text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    """A question as it goes on after a comma: `What if ...` becomes `what if ...`, `I` and names stay."""
    first = text.split(" ", 1)[0]
    plain = first.lower() in _STARTS
    return text[:1].lower() + text[1:] if plain else text


_STARTS = frozenset((
    "what", "and", "but", "how", "should", "would", "could", "is", "are", "do", "does", "did", "can", "which",
    "who", "when", "where", "why", "if", "will", "so", "or", "then", "wouldn't", "shouldn't", "isn't", "doesn't",
    "can't", "won't", "has", "have", "the", "a", "an", "that", "this", "any",
))  # fmt: skip
