"""Words for one message or answer: phrases of its strand, drawn without repeats, and of the lists of everybody."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from beamlib.generate.offline.facts import Strand
from beamlib.generate.offline.grammar import Value, capital, to_me, to_you
from beamlib.generate.offline.world import World

_OWN_DO, _OWN_WHY, _OWN_RISK = 0.6, 0.6, 0.65
"""How often advice, reasons and dangers are the strand's own; else general ones, filled with the strand's things."""


class Deck:
    """Phrases drawn in random order; when all have been drawn they come again."""

    def __init__(self, texts: Sequence[str], rng: random.Random) -> None:
        self._texts, self._rng = texts, rng
        self._left: list[str] = []

    def draw(self) -> str:
        """The next phrase."""
        if not self._left:
            self._left = self._rng.sample(self._texts, len(self._texts))
        return self._left.pop()


def scope_of(
    world: World, strand: Strand, other: Strand, plan: int, rng: random.Random, *, assistant: bool,
    last: dict[str, str] | None = None, matters: Sequence[str] = (),
) -> dict[str, Value]:  # fmt: skip
    """A scope for the lists of `user.toml`, or of `assistant.toml` with the user's words turned to `you`.

    `last` takes down the phrase of each kind that was drawn last; `matters` are noun phrases of what was told before.
    """
    kind, grammar = strand.kind, world.grammar
    words = world.scope(strand, plan, rng)
    turned: Callable[[str], str] = to_you if assistant else to_me
    things, wants = Deck(kind.things, rng), Deck(kind.want, rng)
    own = {name: Deck(texts, rng) for name, texts in (("do", kind.do), ("why", kind.why), ("risk", kind.risk))}
    examples = Deck(grammar.texts("example"), rng)
    talk, people = Deck(kind.talk, rng), Deck(world.people[plan], rng)
    scope: dict[str, Value] = {}

    def drawn(name: str, share: float) -> Callable[[], str]:
        general = f"g{name}"

        def draw() -> str:
            own_one = not assistant or rng.random() < share
            text = own[name].draw() if own_one else grammar.say(general, scope, rng)
            text = grammar.fill(text, scope, rng)
            return noted(name, text if assistant else to_me(text))

        return draw

    def noted(name: str, text: str) -> str:
        if last is not None:
            last[name] = text
        return text

    def thing() -> str:
        return grammar.fill(things.draw(), words, rng)

    scope |= {
        "it": words["it"],
        "ref": turned(words["ref"]) if assistant else words["ref"],
        "full": turned(words["full"]) if assistant else words["full"],
        "other": turned(world.scope(other, plan, rng)["ref"]) if assistant else world.scope(other, plan, rng)["ref"],
        "thing": thing if assistant else lambda: to_me(thing()),
        "this": thing if assistant else lambda: to_me(thing()),
        "bare": lambda: title_case(thing()),
        "person": people.draw,
        "do": drawn("do", _OWN_DO),
        "do2": drawn("do", _OWN_DO),
        "why": drawn("why", _OWN_WHY),
        "risk": drawn("risk", _OWN_RISK),
        "want": lambda: noted("want", grammar.fill(wants.draw(), scope, rng)),
        "talk": lambda: grammar.fill(talk.draw(), scope, rng),
        "matter": (lambda: rng.choice(matters)) if matters else lambda: to_me(thing()),
        "eg": examples.draw,
        "goal": world.title.goal,
        "name": world.story.profile.name.split()[0],
    }
    return scope


def title_case(phrase: str) -> str:
    """A noun phrase as a heading: without its article, the larger words with a capital."""
    words = phrase.split()
    words = words[1:] if words[0] in ("the", "your", "my", "a", "an") else words
    return " ".join(capital(word) if len(word) > 3 or at == 0 else word for at, word in enumerate(words))
