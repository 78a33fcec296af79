"""Words for one message or answer: phrases of its strand, drawn without repeats, and of the lists of everybody."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import cache

from beam_generate.probes.wording import content
from beam_offline.author.grammar import Value, capital, is_plural, to_me, to_you
from beam_offline.author.strand_facts import Strand
from beam_offline.author.world import World

_OWN_DO = 0.9
"""How often advice outside the first list is the strand's own; else a general act. Users always speak of the former."""
_NAMED = 3  # people that an answer speaks of
_TIMED = re.compile(
    r"\b(?:before|after|until|once|twice|when|while|as soon as|first|last|next|early|ahead|late|later|daily|every|each"
    r"|\w*days?|(?:week|month|year|hour|minute|morning|evening|night)\w*|noon|together)\b"
)
"""What says when something is to be done, or with whom; nothing more is said of that then."""
_SMALL = {"a", "an", "the", "and", "or", "but", "of", "in", "on", "at", "to", "for", "by", "with", "from", "as"}
_words = cache(content)


class ShufflePool:
    """Phrases drawn in random order; when all have been drawn they come again."""

    def __init__(self, texts: Sequence[str], rng: random.Random) -> None:
        self._texts, self._rng = texts, rng
        self._left: list[str] = []
        self._last = ""

    def draw(self, near: frozenset[str] = frozenset(), *, fitting: bool = False) -> str:
        """Of the phrases left one that shares most words with `near`; with `fitting` an empty one if none is shared."""
        if not self._left:
            drawn = self._rng.sample(self._texts, len(self._texts))
            self._left = [one for one in drawn if one != self._last] or drawn
        text = self._left[0]
        if near:
            text = max(self._left, key=lambda one: len(near & _words(one)) * (near != _words(one)))
        if fitting and not near & _words(text):
            return ""
        self._left.remove(text)
        self._last = text
        return text


def scope_of(
    world: World, strand: Strand, others: Sequence[Strand], plan: int, rng: random.Random, *,
    last: dict[str, str] | None = None, matters: Sequence[str] = (), about: str = "",
) -> dict[str, Value]:  # fmt: skip
    """A scope for the lists of `user.toml`, or of `assistant.toml` with the user's words turned to `you`.
    `others` are strands that are under way as well; a message speaks of one of them.

    `last` takes down the phrase of each kind that a user drew last; `matters` are noun phrases of what was told before.
    The assistant begins `about` what was asked, without saying it again, and each phrase of the strand is near to the
    one before it. Nobody is told what is `about` them.
    """
    kind, grammar, assistant = strand.kind, world.grammar, last is None
    words = world.scope(strand, plan, rng)
    turned: Callable[[str], str] = to_you if assistant else str
    unsaid = {about} if assistant else kind.foretelling
    phrases = {name: getattr(kind, name) for name in ("do", "why", "risk", "want", "things", "talk")}
    decks = {
        name: ShufflePool([one for one in found if turned(one) not in unsaid], rng) for name, found in phrases.items()
    }
    known = world.people[plan]
    elsewhere = ShufflePool([turned(world.scope(one, plan, rng)["ref"]) for one in others], rng)
    people = ShufflePool(rng.sample(known, min(_NAMED, len(known))) if assistant else known, rng)
    said = {"do": about} if last is None else last
    near = content(about if assistant else "")
    scope: dict[str, Value] = {}

    def noted(name: str, text: str) -> str:
        said[name] = text = text if assistant or name in ("talk", "want") else to_me(text)
        return text

    def drawn(name: str, *, fitting: bool = False) -> str:
        nonlocal near
        text = decks[name].draw(near, fitting=fitting)
        near = _words(text) if assistant and text else near
        return noted(name, grammar.fill(text, words if name == "things" else scope, rng)) if text else ""

    def do(this: str = "") -> str:
        """Own advice or a general act; with `this`, a pronoun, only what fits the thing said before."""
        own = drawn("do", fitting=True) if this else drawn("do") if not assistant or rng.random() < _OWN_DO else ""
        return own or noted("do", grammar.say("gdo", {**scope, "this": this or drawn("things")}, rng))

    def reason() -> str:
        before, why = near, drawn("why")
        return grammar.say("reason_near" if before & near else "reason_far", {"why": why}, rng)

    scope |= {
        "it": words["it"],
        "ref": turned(words["ref"]),
        "full": turned(words["full"]),
        "other": elsewhere.draw if assistant else elsewhere.draw(),
        "thing": lambda: drawn("things"),
        "bare": lambda: title_case(drawn("things")),
        "person": lambda: next(name for name in iter(people.draw, "") if assistant or name not in about),
        "own": lambda: drawn("do"),
        "do": do,
        "do2": do,
        "do_this": lambda: do("them" if is_plural(said["things"]) else "it"),
        "why": lambda: drawn("why"),
        "reason": reason,
        "risk": lambda: drawn("risk"),
        "timed": lambda: grammar.say("apart" if _TIMED.search(said["do"]) else "times", scope, rng),
        "want": lambda: turned(drawn("want")),
        "talk": lambda: drawn("talk"),
        "worry": lambda: turned(drawn("talk")),
        "matter": (lambda: rng.choice(matters)) if matters else lambda: drawn("things"),
        "goal": world.title.goal,
        "name": world.story.profile.name.split()[0],
    }
    return scope


def title_case(phrase: str) -> str:
    """A phrase as a heading: without a noun phrase's article, all but the small words with a capital."""
    words = phrase.split()
    words = words[1:] if words[0] in ("the", "your", "my", "a", "an") else words
    return " ".join(word if at and word in _SMALL else capital(word) for at, word in enumerate(words))
