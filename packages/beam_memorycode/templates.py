"""Templates: who talks about what in which session, drawn from the bank (sections 3.1 and 3.2). No texts yet.

The order of draws follows the released sampler; the seed is ours, so that the same seed gives the same template.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from beam_memorycode.bank import UPDATABLE, Instruction, fillers, instructions, orders, people
from beam_memorycode.dialogue_files import LoadedDialogue
from beam_memorycode.dialogues import DIALOGUE_LENGTHS, Dialogue, DialogueSession, Mention, Setting, Topic, TopicType
from beam_memorycode.rules import RULE_KINDS, DialogueRules, Rule

RecipeName = Literal["paper", "released"]
RECIPES: tuple[RecipeName, ...] = get_args(RecipeName)
Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Ranges for a dialogue of a given number of sessions; each is drawn from uniformly, ends included.

    `share`: sessions with instructions. `per_session`: instructions in such a session. `unfilled`: the most sessions
    that have instructions and no filler. `updates`: probability that an instruction is an update, one draw per
    dialogue. `general`: probability that a filler is general. `order_updates`: probability that a filler-instruction
    is an update. `mentions`: of one general filler, at most.
    """

    share: Range
    per_session: tuple[int, int]
    unfilled: int
    updates: Range
    general: Range
    order_updates: Range
    mentions: int


def recipe(name: str, sessions: int) -> Recipe:
    """Return the ranges of the recipe `name` for dialogues of `sessions` sessions."""
    unfilled = 1 if sessions < 6 else 2 if sessions < 20 else sessions // 5
    if name == "paper":
        # "A filler can be updated up to 4 times": five mentions.
        return Recipe((0.5, 0.7), (1, 3), unfilled, (0.3, 0.7), (0.5, 0.7), (0.5, 0.7), 5)
    share = (1.0, 1.0) if sessions == 1 else (0.5, 1.0) if sessions <= 5 else (0.5, 0.7)
    updates = (0.3, 0.5) if sessions >= 50 else (0.3, 0.7)
    return Recipe(share, (1, 2), unfilled, updates, (0.5, 0.7), (0.5, 0.8), 3)


MOST_SESSIONS = 100


def draw_template(dialogue_id: int, *, seed: int, name: str, sessions: int, number: int) -> LoadedDialogue:
    """Draw dialogue `number` (1-based) among those of `sessions` sessions (1 to `MOST_SESSIONS`), without texts.

    Nothing but the id depends on `dialogue_id`, and nothing on how many other dialogues are drawn.
    """
    rng = random.Random(f"memorycode {seed} {name} {sessions} {number}")
    ranges = recipe(name, sessions)
    lengths = [rng.choice(DIALOGUE_LENGTHS) for _ in range(sessions)]
    # A dialogue without any instruction could not be scored: floor(1 x 0.6) is 0.
    count = max(1, math.floor(sessions * rng.uniform(*ranges.share)))
    coding = sorted(rng.sample(range(sessions), count))
    unfilled = sorted(rng.sample(coding, min(rng.randint(0, ranges.unfilled), count)))
    numbers = {place: rng.randint(*ranges.per_session) for place in coding}
    stated = _instructions(rng, rng.uniform(*ranges.updates), numbers)
    filled = [place for place in range(sessions) if place not in unfilled]
    fillings = dict(zip(filled, _fillers(rng, ranges, len(filled)), strict=True))
    context = _context(rng)
    bank = instructions()
    built = []
    for place, length in enumerate(lengths):
        filling, mentions = fillings.get(place), stated.get(place, [])
        topics = [Topic(filling.type, filling.text)] if filling else []
        topics += [
            Topic("instruction-update" if update else "instruction-add", bank[mention.instruction].texts[mention.value])
            for mention, update in mentions
        ]
        queries = tuple(bank[mention.instruction].query for mention, _ in mentions)
        plain = tuple(mention for mention, _ in mentions)
        built.append(DialogueSession(tuple(topics), plain, queries, length, filling.id if filling else None))
    queries = tuple(dict.fromkeys(query for session in built for query in session.queries))
    return LoadedDialogue(Dialogue(dialogue_id, context, tuple(built), queries), _rules(dialogue_id, built))


def _context(rng: random.Random) -> Setting:
    bank = people()
    pair = rng.choice(bank.pairs)
    personas = rng.choice(bank.mentor).text, rng.choice(bank.mentee).text
    return Setting(pair.mentor, pair.mentee, pair.company, *personas)


def _rules(dialogue_id: int, sessions: list[DialogueSession]) -> DialogueRules:
    """Return the rules of each session, and of the end: the newest value of each instruction, by first mention."""
    bank = instructions()
    newest: dict[int, Rule] = {}
    of_sessions = []
    for session in sessions:
        rules = tuple(bank[mention.instruction].rule(mention.value) for mention in session.mentions)
        newest.update(zip((mention.instruction for mention in session.mentions), rules, strict=True))
        of_sessions.append(rules)
    return DialogueRules(dialogue_id, tuple(of_sessions), tuple(newest.values()))


@dataclass
class _Remaining:
    """What of the bank has not been said, and what has."""

    bank: tuple[Instruction, ...]
    values: dict[int, list[int]] = field(default_factory=dict)
    introduced: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values = {instruction.id: list(range(len(instruction.texts))) for instruction in self.bank}

    @property
    def total(self) -> int:
        return sum(len(values) for values in self.values.values())

    def use(self, rng: random.Random, number: int) -> Mention:
        left = self.values[number]
        value = rng.choice(left) if self.bank[number].shuffle else left[0]
        left.remove(value)
        if not left:
            del self.values[number]
        if number not in self.introduced:
            self.introduced.append(number)
        return Mention(number, value)


def _instructions(
    rng: random.Random, update_probability: float, numbers: dict[int, int]
) -> dict[int, list[tuple[Mention, bool]]]:
    """Draw the mentions of each session with instructions, in order, and whether each is labelled an update.

    A value never returns. Where the sessions ask for more than the bank holds, one value is kept for each session to
    come, so that none that should have instructions ends up without.
    """
    left = _Remaining(instructions())
    stated: dict[int, list[tuple[Mention, bool]]] = {}
    places = sorted(numbers)
    for order, place in enumerate(places):
        mentions: list[tuple[Mention, bool]] = []
        for _ in range(numbers[place]):
            if mentions and left.total <= len(places) - order - 1:
                break
            used = [mention.instruction for mention, _ in mentions]
            chosen = _choose(rng, left, used, update_probability)
            if chosen is None:
                break
            number, update = chosen
            mentions.append((left.use(rng, number), update))
        stated[place] = mentions
    return stated


def _choose(
    rng: random.Random, left: _Remaining, used: list[int], update_probability: float
) -> tuple[int, bool] | None:
    """Draw the id of the next mention and whether it is an update; None where nothing is left."""
    picks = []
    for kind in RULE_KINDS:  # one per kind, so that kinds and not instructions are equally likely
        if of_kind := [own.id for own in left.bank if own.kind == kind and own.id in left.values]:
            picks.append(rng.choice(of_kind))
    introduced = [number for number in left.introduced if number in UPDATABLE]
    insertion = [number for number in picks if number not in introduced and number not in used]
    updatable = [number for number in introduced if number in left.values and number not in used]
    fresh = [number for number in UPDATABLE if number in left.values and number not in introduced]
    if rng.random() < update_probability or not insertion:
        if updatable:
            return rng.choice(updatable), True
        if fresh:
            return rng.choice(fresh), False
    return (rng.choice(insertion), False) if insertion else None


@dataclass(frozen=True, slots=True)
class _Filling:
    id: int
    text: str
    general: bool
    again: bool

    @property
    def type(self) -> TopicType:
        if self.general:
            return "filler-update" if self.again else "filler-add"
        return "filler-instruction-update" if self.again else "filler-instruction-add"


def _fillers(rng: random.Random, ranges: Recipe, count: int) -> list[_Filling]:
    """Draw a filler for each of `count` sessions: a general one, or a value of a filler-instruction."""
    general = [rng.choice(fillers()) for _ in range(count)]
    mentions = {filler.id: ranges.mentions for filler in general}
    texts = {filler.id: filler.text for filler in general}
    chance, again = rng.uniform(*ranges.general), rng.uniform(*ranges.order_updates)
    values = {filler.id: list(filler.texts) for filler in orders()}
    introduced: list[int] = []
    fillings = []
    for _ in range(count):
        open_ids = [number for number, left in mentions.items() if left]
        if open_ids and (rng.random() < chance or not values):
            number = rng.choice(open_ids)
            fillings.append(_Filling(number, texts[number], True, mentions[number] < ranges.mentions))
            mentions[number] -= 1
            continue
        known = [number for number in introduced if number in values]
        update = bool(known) and rng.random() < again
        number = rng.choice(known if update else list(values))
        fillings.append(_Filling(number, values[number].pop(), False, update))
        introduced.append(number)
        if not values[number]:
            del values[number]
    return fillings


def with_texts(item: LoadedDialogue, texts: Sequence[str]) -> LoadedDialogue:
    """Return a template with the text of each session, in order."""
    sessions = tuple(replace(session, text=text) for session, text in zip(item.dialogue.sessions, texts, strict=True))
    return LoadedDialogue(replace(item.dialogue, sessions=sessions), item.rules)
