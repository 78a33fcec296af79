"""What the assistant answers: an opening that takes up the message, sections of advice to a length, a closing."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

from beam_generate.probes.wording import content
from beam_offline.author.facts import Entry, Strand
from beam_offline.author.grammar import Value, capital, is_plural, to_me, to_you
from beam_offline.author.scenario import Scenario
from beamlib.data.conversations import Size
from beamlib.text import count_tokens

_OWN_DO, _OWN_DO_LONG = 0.9, 0.4
"""How often advice outside the first list is the strand's own; else a general act. Users always speak of the former."""
_MATTERS: Mapping[Size, int] = {"100K": 0, "500K": 1, "1M": 5, "10M": 5}
"""How often what was told before may be named, for once each thing of the strand: the longer, the more it is."""
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
        self.texts, self._rng = texts, rng
        self._left: list[str] = []
        self._last = ""

    def draw(self, near: frozenset[str] = frozenset(), *, fitting: bool = False) -> str:
        """Draw the phrase that shares most words with `near`. With `fitting`, return nothing if no word is shared."""
        if not self._left:
            drawn = self._rng.sample(self.texts, len(self.texts))
            self._left = [one for one in drawn if one != self._last] or drawn
        text = self._left[0]
        if near:
            text = max(self._left, key=lambda one: len(near & _words(one)) * (near != _words(one)))
        if fitting and not near & _words(text):
            return ""
        self._left.remove(text)
        self._last = text
        return text


@dataclass
class PhraseDraw:
    """Draw phrases of a strand: a user's in their own words, the assistant's each near to the one before.

    `said` is the phrase of each kind that was drawn last, `near` the words of the last one.
    """

    scenario: Scenario
    rng: random.Random
    pools: Mapping[str, ShufflePool]
    words: Mapping[str, str]
    assistant: bool
    said: dict[str, str]
    near: frozenset[str]
    scope: dict[str, Value] = field(default_factory=dict)

    def draw(self, name: str, *, fitting: bool = False) -> str:
        """Draw a phrase of a kind."""
        text = self.pools[name].draw(self.near, fitting=fitting)
        self.near = _words(text) if self.assistant and text else self.near
        words = self.words if name == "things" else self.scope
        return self._note(name, self.scenario.grammar.fill(text, words, self.rng)) if text else ""

    def advise(self, this: str = "") -> str:
        """Draw the strand's advice or a general act; with `this`, a pronoun, only what fits the last thing named."""
        own_do = _OWN_DO_LONG if self.scenario.long else _OWN_DO
        often = not this and (not self.assistant or self.rng.random() < own_do)
        if own := self.draw("do", fitting=True) if this else self.draw("do") if often else "":
            return own
        scope = {**self.scope, "this": this or self.draw("things")}
        return self._note("do", self.scenario.grammar.say("gdo", scope, self.rng))

    def reason(self) -> str:
        """Draw a reason, and say whether it is near to what was said before."""
        before, why = self.near, self.draw("why")
        return self.scenario.grammar.say("reason_near" if before & self.near else "reason_far", {"why": why}, self.rng)

    def _note(self, name: str, text: str) -> str:
        self.said[name] = text = text if self.assistant or name in ("talk", "want") else to_me(text)
        return text


def scope_of(
    scenario: Scenario, strand: Strand, others: Sequence[Strand], plan: int, rng: random.Random, *,
    last: dict[str, str] | None = None, matters: Sequence[str] = (), about: str = "",
) -> dict[str, Value]:  # fmt: skip
    """Build the scope for the lists of `user.toml`, or of `assistant.toml` with the user's words turned to `you`.
    `others` are strands that are under way as well; a message speaks of one of them.

    `last` takes down the phrase of each kind that a user drew last; `matters` are noun phrases of what was told before.
    The assistant begins `about` what was asked, without saying it again, and each phrase of the strand is near to the
    one before it. Nobody is told what is `about` them.
    """
    kind, assistant = strand.kind, last is None
    words = scenario.scope(strand, plan, rng)
    turned: Callable[[str], str] = to_you if assistant else str
    unsaid = {about} if assistant else kind.foretelling
    phrases = {
        name: [text for text in getattr(kind, name) if turned(text) not in unsaid]
        for name in ("do", "why", "risk", "want", "things", "talk")
    }
    phrases["things"] += list(matters) * _MATTERS[scenario.story.size]
    pools = {name: ShufflePool(texts, rng) for name, texts in phrases.items()}
    elsewhere = ShufflePool([turned(scenario.scope(one, plan, rng)["ref"]) for one in others], rng)
    known = scenario.people[plan]
    people = ShufflePool(rng.sample(known, min(_NAMED, len(known))) if assistant else known, rng)
    said = {"do": about} if last is None else last
    phrase = PhraseDraw(scenario, rng, pools, words, assistant, said, content(about if assistant else ""))
    scope, draw = phrase.scope, phrase.draw
    scope |= {
        "it": words["it"],
        "ref": turned(words["ref"]),
        "full": turned(words["full"]),
        "other": elsewhere.draw if assistant else elsewhere.draw(),
        "thing": lambda: draw("things"),
        "bare": lambda: title_case(draw("things")),
        "person": lambda: next(name for name in iter(people.draw, "") if assistant or name not in about),
        "own": lambda: draw("do"),
        "do": phrase.advise,
        "do2": phrase.advise,
        "do_this": lambda: phrase.advise("them" if is_plural(said["things"]) else "it"),
        "why": lambda: draw("why"),
        "reason": phrase.reason,
        "risk": lambda: draw("risk"),
        "timed": lambda: scenario.grammar.say("apart" if _TIMED.search(said["do"]) else "times", scope, rng),
        "want": lambda: turned(draw("want")),
        "talk": lambda: draw("talk"),
        "worry": lambda: turned(draw("talk")),
        "matter": (lambda: rng.choice(matters)) if matters else lambda: draw("things"),
        "goal": scenario.title.goal,
        "name": scenario.story.profile.name.split()[0],
    }
    words_once = {**scenario.words, "term": kind.terms} if scenario.long else {}
    voice = str if assistant else to_me
    scope |= {name: partial(_unused, texts, set(), rng, voice) for name, texts in words_once.items()}
    return scope


def _unused(texts: Sequence[str], used: set[str], rng: random.Random, voice: Callable[[str], str]) -> str:
    """Draw a text that is not `used`; when all have been used they come again."""
    if len(used) == len(texts):
        used.clear()
    text = next(text for text in iter(lambda: rng.choice(texts), None) if text not in used)
    used.add(text)
    return voice(text)


def title_case(phrase: str) -> str:
    """Turn a phrase into a heading: no article in front, a capital on all but the small words."""
    words = phrase.split()
    words = words[1:] if words[0] in ("the", "your", "my", "a", "an") else words
    return " ".join(word if at and word in _SMALL else capital(word) for at, word in enumerate(words))


_DOUBLED = re.compile(r"\b(?!that\b|had\b)([a-z]+) \1\b")
_MARKS = re.compile(r",(?:\s*,)+")
_SENTENCE_START = re.compile(r"(?<=[.!?] )[a-z]")
_UNSURE = re.compile(r"would you (?:do|start|begin)|\b(?:tips|advice)\b")
_FIRST_PERSON = re.compile(r"\b(?:I|I'm|I've|I'd|I'll|my|me|mine|myself)\b")

_ASKED = (
    ("open_wrong", "", r"g[oe]t? wrong|look out for"), ("open_if", "", r"[Ww]hat (?:if|happens)|do if [^I]|still work"),
    ("open_how", "act", r"[Hh]ow exactly"), ("open_sure", "", r"that important|is that (?:true|right|so|a fact)"),
    ("open_likely", "", r"[Hh]ow (?:likely|common)"), ("open_time", "", r"^\W*[Hh]ow (?:much|little|long|often)"),
    ("open_which", "act", r"better|wiser|smarter|more sens|which comes| or [\w ]{0,10}\?"),
    ("open_tell", "aim", r"explain to|convince|tell [A-Z]"), ("open_usual", "", r"usually|hat about|hich of|I know"),
    ("open_plan", "aim", r"\bplan|first step|checklist|schedule|start|begin"), ("open_easy", "act", r"simpler|easier"),
)  # fmt: skip
"""Kinds of questions: the list that answers one, what must be known of it, and how it is recognized."""


@dataclass(frozen=True)
class Exercise:
    """Code or a problem that goes with a message: what the message shows, and the blocks of the answer on it."""

    message: str
    answer: Callable[[AnswerDraft], list[str]]


@dataclass
class Step:
    """A user message and what is to be known for its answer; `closing` is what the answer ends with, `takes_up` the
    closing of the answer before, to which the message replies.

    `asked` are the phrases that the message drew last: what it asks about is one of them. `matters` are noun phrases of
    what was told of the strand in earlier sub-plans.
    """

    text: str
    purpose: str
    strand: Strand
    others: Sequence[Strand]
    entry: Entry | None = None
    closing: str = ""
    takes_up: str = ""
    target: int = 0
    exercise: Exercise | None = None
    asked: Mapping[str, str] = field(default_factory=dict)
    matters: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class WrittenAnswer:
    """An answer and the advice that its first list gives, item by item."""

    text: str
    advice: tuple[str, ...]


@dataclass
class AnswerDraft:
    """An answer being written to `step`; its `opening` is the list that it begins by.

    `aim` is what the user asked how to do, `act` what they asked whether to do; at most one is set. `question` is the
    sentence that asks.
    """

    scenario: Scenario
    step: Step
    plan: int
    rng: random.Random
    opening: str
    clause: str = ""
    aim: str = ""
    act: str = ""
    question: str = ""
    scope: dict[str, Value] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)
    titles: set[str] = field(default_factory=lambda: {""})

    def __post_init__(self) -> None:
        act, about = to_you(self.act), to_you(self.act or self.aim or self.question or self.clause)
        step, rng = self.step, self.rng
        self.scope = scope_of(
            self.scenario, step.strand, step.others, self.plan, rng, matters=step.matters, about=about
        )
        aim = to_you(self.aim or self.scenario.grammar.fill(rng.choice(step.strand.kind.want), self.scope, rng))
        self.scope |= {"aim": aim, "aim_title": title_case(aim), "act": act}
        self.headed = rng.choice(("### {}", "### {}", "**{}**", ""))

    def say(self, name: str, **pinned: Value) -> str:
        """Draw one alternative of a list, as it stands within a text."""
        return tidy(self.scenario.grammar.say(name, {**self.scope, **pinned}, self.rng))

    def heading(self) -> list[str]:
        """Return a new heading, or nothing where the answer has none or has it already."""
        title = self.headed and self.headed.format(capital(self.say("head_title")))
        fresh, self.titles = title not in self.titles, self.titles | {title}
        return [title] if fresh else []


def write_answer(draft: AnswerDraft) -> WrittenAnswer:
    """Write the answer in Markdown, about `target` tokens long."""
    blocks = [_opening(draft), *(draft.step.exercise.answer(draft) if draft.step.exercise else [])]
    closing = draft.step.closing or draft.say("close")
    room = draft.step.target - count_tokens(" ".join([*blocks, closing]))
    makers: list[_Maker] = [_steps, _points, _prose, _prose, _points, _plan, _table, _note]
    order = [makers[draft.rng.random() > 0.7], *draft.rng.sample(makers, len(makers))]
    while room > 25:
        maker = order.pop(0) if order else _prose
        parts = (maker if room > 110 else _prose)(draft, room)
        blocks += parts
        room -= count_tokens("\n".join(parts))
        order = order or draft.rng.sample(makers[:5], 5)
    return WrittenAnswer("\n\n".join(part for part in dict.fromkeys([*blocks, closing]) if part), tuple(draft.advice))


def _opening(draft: AnswerDraft) -> str:
    """Take up what the user said. A clause that cannot be turned to `you` is skipped."""
    echo = to_you(draft.clause) if draft.clause else ""
    if echo and _FIRST_PERSON.search(echo):
        echo = ""
    name = "open_worry" if _UNSURE.search(draft.question) and draft.opening == "open_reply" else draft.opening
    name = name if echo or name not in ("open_told", "open_update", "open_worry") else "open_plain"
    entry = draft.step.entry
    rule = entry.rule.rule if entry and entry.rule else ""
    about = to_you(entry.occasion) if entry else ""
    said = draft.say(name, echo=echo, rule=to_you(rule), about=about)
    return f"{said} {draft.say('rule_more') if rule else _taken_up(draft, said)}".strip()


def _taken_up(draft: AnswerDraft, said: str) -> str:
    """Answer what the user asked, by the kind of question. Empty where nothing was asked and something is `said`."""
    known = {"": True, "act": bool(draft.act), "aim": bool(draft.aim)}
    for name, needed, pattern in _ASKED:
        if known[needed] and re.search(pattern, draft.question.replace(draft.act or draft.aim, "")):
            return draft.say(name)
    if draft.act:
        return draft.say("open_agree" if draft.opening == "open_reply" else "open_act")
    return draft.say("open_aim") if draft.aim else "" if said else draft.say("open_usual")


def _items(draft: AnswerDraft, room: int, *, numbered: bool) -> list[str]:
    """Write a list: numbered advice with reasons or hints, or things with what to do about each."""
    first, lines = numbered and not draft.advice, dict[str, str]()
    for _ in range(_count(draft, room, 28 if numbered else 34, 7 if numbered else 6)):
        slot = "{own}" if first else "{do}" if numbered else "{thing}"
        head = tidy(draft.scenario.grammar.fill(slot, draft.scope, draft.rng))
        rest = draft.say("after_do") if numbered else f": {capital(draft.say('item'))}"
        more = f" {draft.say('prose')}" if draft.rng.random() < 0.42 else ""
        blank = "" if rest[0] in ",;.:" else " "
        lines.setdefault(head, f"**{capital(head)}**{blank}{rest}{more}")
    draft.advice += lines if first else ()
    marked = (f"{f'{at}.' if numbered else '-'} {line}" for at, line in enumerate(lines.values(), start=1))
    return [*draft.heading(), draft.say("list_lead"), "\n".join(marked)]


_Maker = Callable[[AnswerDraft, int], list[str]]
_steps, _points = partial(_items, numbered=True), partial(_items, numbered=False)


def _prose(draft: AnswerDraft, room: int) -> list[str]:
    texts = [draft.say("prose") for _ in range(_count(draft, room, 26, 3))]
    return [*(draft.heading() if len(texts) > 2 else []), " ".join(texts)]


def _plan(draft: AnswerDraft, room: int) -> list[str]:
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    count = _count(draft, room, 22, 6)
    chosen = sorted(draft.rng.sample(range(7), count))
    lines = [f"- {draft.say('plan_item', weekday=days[day])}" for day in chosen]
    return [*draft.heading(), draft.say("plan_lead"), "\n".join(lines)]


def _table(draft: AnswerDraft, room: int) -> list[str]:
    head = draft.say("table_head")
    rows = [f"| {draft.say('table_row')} |" for _ in range(_count(draft, room, 30, 5))]
    return [draft.say("table_lead"), "\n".join([f"| {head} |", "| --- | --- | --- |", *rows])]


def _note(draft: AnswerDraft, room: int) -> list[str]:
    """Write a message that the user could send, in the user's voice."""
    person = draft.rng.choice(draft.scenario.people[draft.plan])
    thing = tidy(draft.scenario.grammar.fill("{thing}", draft.scope, draft.rng))
    other = draft.scenario.grammar.fill("{other}", draft.scope, draft.rng)
    pinned = {"person": person, "thing": thing, "my_thing": to_me(thing), "my_other": to_me(other)}
    lines = [draft.say(name, **pinned) for name in ("note_hello", "note_body", "note_bye")]
    quoted = "\n>\n".join(f"> {line}" for line in lines)
    return [*draft.heading(), draft.say("note_lead", **pinned), quoted]


def _count(draft: AnswerDraft, room: int, each: int, most: int) -> int:
    """Draw how many items of about `each` tokens a block has."""
    return max(1, min(draft.rng.randint(3, most) if most > 3 else draft.rng.randint(2, most), room // each))


def tidy(text: str) -> str:
    """Clean up `text`: a capital after each full stop, single spaces, no small word twice where two phrases met."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    text = "\n".join(lines).replace(" ,", ",").replace(" .", ".").replace(" ?", "?").replace(" ;", ";")
    text = _MARKS.sub(",", text)
    return _SENTENCE_START.sub(lambda found: found[0].upper(), _DOUBLED.sub(r"\1", text))
