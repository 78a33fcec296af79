"""The offline writer: conversations by rules, from phrases of our own. It is not a language model.

It answers the prompt `memorycode_conversation` and sees the prompt's variables alone, so it has to read the agenda, the
lines of text that say what a conversation is about. Composing and reading them are side by side here, and a test holds
them together. The same variables give the same conversation. How many conversations came before turns each pool of
phrases on, so that those of one dialogue differ.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from beam_memorycode.bank import take_apart
from beam_memorycode.dialogues import Dialogue, Session, Setting, Topic
from beam_memorycode.talk import Persona, Phrases, Subject, fillers, orders, people, phrases
from beamlib.llm.model import OFFLINE_NAME, Completion, ModelError, Prompt, Usage
from beamlib.text import count_tokens

_FIRST = "They meet for the first time."
_ONE = "They have had one conversation before this one."
_TALK = "First they talk about this: "
_AGAIN = " They have discussed it in an earlier conversation and return to it."
_CHANGES = " This changes what was said in an earlier conversation."
_CODE = (
    "{mentor} gives {mentee} specific coding instructions; each is stated once and in full, with every name as it is:"
)
_UPDATE = " It is announced as an update of what {mentor} said earlier."
_LIMITS = (
    'No code is shown, nobody demonstrates how something is done, and there is no "for example". {only} {mentee} only '
    "acknowledges what {mentor} says and asks nothing."
)
_ONLY = "No coding instruction comes up beside these."
_NONE = "No coding instruction comes up."


def describe_meeting(before: int) -> str:
    """How many conversations of the two came before this one; the released prompts count one too many."""
    if before < 2:
        return _ONE if before else _FIRST
    return f"They have had {before} conversations before this one."


def read_meeting(text: str) -> int:
    """The number that `describe_meeting` told; 0 for a text that tells none."""
    if text == _ONE:
        return 1
    found = re.search(r"\d+", text)
    return int(found[0]) if found else 0


def compose_agenda(session: Session, context: Setting) -> str:
    """The agenda of a session: its filler, its coding instructions, and what must not occur."""
    mentor, mentee = context.mentor, context.mentee
    lines, general = [], False
    coding = [topic for topic in session.topics if topic.coding]
    for topic in session.topics:
        if not topic.coding:
            general = not topic.type.startswith("filler-instruction")
            lines.append(_filler(topic, general, mentor, mentee))
    if coding:
        lines.append(("After that, " if general else "") + _CODE.format(mentor=mentor, mentee=mentee))
        lines += [_wish(topic, "- ", _UPDATE.format(mentor=mentor), mentor, mentee) for topic in coding]
    lines.append(_LIMITS.format(only=_ONLY if coding else _NONE, mentor=mentor, mentee=mentee))
    return "\n".join(lines)


def _filler(topic: Topic, general: bool, mentor: str, mentee: str) -> str:
    if general:
        return f"{_TALK}{topic.text}.{_AGAIN if topic.type.endswith('update') else ''}"
    return _wish(topic, "", _CHANGES, mentor, mentee)


def _wish(topic: Topic, start: str, change: str, mentor: str, mentee: str) -> str:
    if topic.type.endswith("update"):
        return f"{start}{mentor} now wants {mentee} to {topic.text}.{change}"
    return f"{start}{mentor} wants {mentee} to {topic.text}."


@dataclass(frozen=True, slots=True)
class AskedSession:
    """What the mentor wants the mentee to do, as after "to", and whether it changes something."""

    text: str
    update: bool


@dataclass(frozen=True, slots=True)
class Agenda:
    """An agenda read back: a general topic ("" for none; `again` if it is not new), an order, coding instructions."""

    topic: str
    again: bool
    order: AskedSession | None
    coding: tuple[AskedSession, ...]


def read_agenda(text: str, mentor: str, mentee: str) -> Agenda:
    """The inverse of `compose_agenda`; lines in no known form are passed over."""
    topic, again, order, coding = "", False, None, []
    wish = re.compile(rf"(- )?{re.escape(mentor)} (now )?wants {re.escape(mentee)} to (.+)")
    for line in text.splitlines():
        if line.startswith(_TALK):
            again = line.endswith(_AGAIN)
            topic = line.removesuffix(_AGAIN).removeprefix(_TALK).removesuffix(".")
        elif found := wish.fullmatch(line):
            said = found[3].removesuffix(_UPDATE.format(mentor=mentor)).removesuffix(_CHANGES).removesuffix(".")
            one = AskedSession(said, bool(found[2]))
            if found[1]:
                coding.append(one)
            else:
                order = one
    return Agenda(topic, again, order, tuple(coding))


def conversation_variables(dialogue: Dialogue, place: int) -> dict[str, str]:
    """The variables of the prompt `memorycode_conversation` for the session at `place` (0-based)."""
    context, session = dialogue.context, dialogue.sessions[place]
    return {
        "mentor": context.mentor,
        "mentee": context.mentee,
        "company": context.company,
        "mentor_persona": context.mentor_persona.replace("[mentor]", context.mentor),
        "mentee_persona": context.mentee_persona.replace("[mentee]", context.mentee),
        "length": session.length,
        "meeting": describe_meeting(place),
        "agenda": compose_agenda(session, context),
    }


PROMPT = "memorycode_conversation"
WORDS = {"short": 300, "medium": 380, "long": 545}
"""Words of a conversation by its length, about: the means of the released texts."""

_TURN = 50  # words of one exchange, about
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")
_STRIDE = 7  # phrases of a pool that one conversation uses, about; no pool's size is a multiple of it


class OfflineWriter:
    """A `Model` that writes conversations."""

    name = OFFLINE_NAME

    async def complete(self, prompt: Prompt) -> Completion:
        """The conversation that `prompt` asks for; another prompt's id or an unknown instruction is a `ModelError`."""
        if prompt.id != PROMPT:
            raise ModelError(f"the writer, {OFFLINE_NAME}, has no rules for prompt '{prompt.id}'; it answers {PROMPT}")
        text = _Conversation.begin(prompt.variables).write()
        return Completion(text, Usage(sum(map(count_tokens, prompt.variables.values())), count_tokens(text)))


@dataclass
class _Voice:
    """Draws sentences: pools in an order of the dialogue's own, choices and slots of this conversation's."""

    phrases: Phrases
    rng: random.Random
    dialogue: str
    before: int
    fixed: dict[str, str]
    used: dict[str, int] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)

    def say(self, pool: str, templates: Sequence[str], **slots: str) -> str:
        """The next sentence of a pool, with a capital and an end."""
        order = list(templates)
        random.Random(f"memorycode phrases {self.dialogue} {pool}").shuffle(order)
        place = self.before * _STRIDE + self.used.get(pool, 0)
        self.used[pool] = self.used.get(pool, 0) + 1
        text = self.fill(order[place % len(order)], slots)
        return finished(text)

    def fill(self, template: str, slots: Mapping[str, str]) -> str:
        chosen = _CHOICE.sub(lambda found: self.rng.choice(found[1].split("|")), template)
        return _SLOT.sub(lambda found: slots.get(found[1]) or self.fixed.get(found[1]) or self._pick(found[1]), chosen)

    def _pick(self, slot: str) -> str:
        if slot == "project":
            values = [one.about for one in self.phrases.project if one.about != self.fixed.get("about")]
        else:
            values = self.phrases.slots[slot]
        # Never the same twice running: a sentence with two slots of a kind would name one person twice.
        self.last[slot] = self.rng.choice([value for value in values if value != self.last.get(slot)])
        return self.last[slot]


def finished(text: str) -> str:
    """A sentence with a capital at its start and a mark at its end."""
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


@dataclass
class _Conversation:
    voice: _Voice
    agenda: Agenda
    subject: Subject
    tones: tuple[str, str]
    words: int
    turns: list[tuple[str, str]] = field(default_factory=list)
    at: int = 0

    @classmethod
    def begin(cls, told: Mapping[str, str]) -> _Conversation:
        mentor, mentee = told["mentor"], told["mentee"]
        agenda = read_agenda(told["agenda"], mentor, mentee)
        before = read_meeting(told["meeting"])
        who = [told[name] for name in ("mentor", "mentee", "company", "mentor_persona", "mentee_persona")]
        rng = random.Random(f"memorycode talk {sorted(told.items())}")
        bank = phrases()
        subject = _subject(agenda, bank, " ".join(who), before)
        fixed = {"mentor": mentor, "mentee": mentee, "company": told["company"], "about": subject.about}
        voice = _Voice(bank, rng, " ".join(who), before, fixed)
        found = people()
        tones = (
            _tone(found.mentor, "[mentor]", mentor, told["mentor_persona"]),
            _tone(found.mentee, "[mentee]", mentee, told["mentee_persona"]),
        )
        words = round(WORDS.get(told["length"], WORDS["medium"]) * rng.uniform(0.9, 1.1))
        aspects = rng.sample(list(subject.aspects), len(subject.aspects))
        return cls(voice, agenda, subject.model_copy(update={"aspects": aspects}), tones, words)

    def write(self) -> str:
        """The whole conversation: greeting, the subject until the length is reached, code, farewell."""
        after = replace(self, turns=[])
        after._code()
        after._end()
        self._greet()
        self._open()
        room = self.words - _count(after.turns) - _TURN // 2  # the last turn runs over by half its length
        while _count(self.turns) < room:
            self._go_on()
        names = self.voice.fixed["mentor"], self.voice.fixed["mentee"]
        return "\n\n".join(
            f"{names[0] if who == 'mentor' else names[1]}: {said}" for who, said in self.turns + after.turns
        )

    def _mentor(self, pool: str) -> str:
        # What the mentee replies to is the aspect that was named last, so other sentences do not go on to the next.
        slots = self._on_topic() if pool in ("aspect", "step") else self._same()
        return self.voice.say(f"mentor {pool}", self.voice.phrases.mentor[pool], **slots)

    def _mentee(self, pool: str) -> str:
        return self.voice.say(f"mentee {pool}", self.voice.phrases.mentee[pool], **self._same())

    def _tone(self, who: str) -> str:
        tone = self.tones[who == "mentee"]
        pools = getattr(self.voice.phrases.tone, who)
        pool = pools.get(tone) or [text for name in sorted(pools) for text in pools[name]]
        slots = self._on_topic() if who == "mentor" else self._same()
        return self.voice.say(f"tone {who}", pool, **slots)

    def _on_topic(self) -> dict[str, str]:
        """The slots of the topic; each sentence turns to the next aspect."""
        self.at += 1
        return self._same()

    def _same(self) -> dict[str, str]:
        aspects, steps = self.subject.aspects, self.subject.steps
        return {
            "aspect": aspects[self.at % len(aspects)],
            "other": aspects[(self.at + 1) % len(aspects)],
            "step": steps[self.at % len(steps)] if steps else "",
        }

    def _turn(self, who: str, *said: str) -> None:
        self.turns.append((who, " ".join(said)))

    def _greet(self) -> None:
        first = self.voice.before == 0
        self._turn("mentor", self._mentor("greet_first" if first else "greet"))
        self._turn("mentee", self._mentee("hello_first" if first else "hello"))

    def _open(self) -> None:
        order = self.agenda.order
        if order is None:
            self._turn("mentor", self._mentor("again" if self.agenda.again else "open"), self._mentor("aspect"))
            self._turn("mentee", self._mentee("ack"))
            return
        name = "order_update" if order.update else "order"
        said = self.voice.say(f"frame {name}", self.voice.phrases.frame[name], order=order.text)
        self._turn("mentor", said, self._mentor("why"))
        self._turn("mentee", self._mentee("ack_order"))

    def _go_on(self) -> None:
        rng = self.voice.rng
        last = rng.choice(["aspect", "aspect", "why", "step"] if self.subject.steps else ["aspect", "aspect", "why"])
        first = self._tone("mentor") if rng.random() < 0.3 else self._mentor("aspect")
        middle = [self._mentor("why")] if last != "why" and rng.random() < 0.25 else []
        self._turn("mentor", first, *middle, self._mentor(last))
        reply = {"aspect": "ack", "why": "ack_why", "step": "ack_step"}[last]
        feeling = rng.random()
        if feeling < 0.25:
            self._turn("mentee", self._tone("mentee"))
        elif feeling < 0.4:
            self._turn("mentee", self._mentee(reply), self._tone("mentee"))
        else:
            self._turn("mentee", self._mentee(reply))

    def _code(self) -> None:
        for place, wish in enumerate(self.agenda.coding):
            said = [self._mentor("code_more" if place else "code"), self._rule(wish)]
            if self.voice.rng.random() < 0.7:
                said.append(self._mentor("code_reason"))
            self._turn("mentor", *said)
            self._turn("mentee", self._mentee("ack_code"))

    def _rule(self, wish: AskedSession) -> str:
        wording = take_apart(wish.text)
        if wording is None:
            raise ModelError(f"the writer, {OFFLINE_NAME}, does not know the form of {wish.text[:80]!r}")
        told = {"object": wording.object, "objects": wording.objects, "value": wording.value}
        states = self.voice.phrases.state[wording.form]
        rule = self.voice.fill(self.voice.rng.choice(states), told)
        name = "update" if wish.update else "add"
        return self.voice.say(f"frame {name}", self.voice.phrases.frame[name], rule=rule)

    def _end(self) -> None:
        self._turn("mentor", self._mentor("close"))
        self._turn("mentee", self._mentee("bye"))


def _count(turns: Sequence[tuple[str, str]]) -> int:
    return sum(len(said.split()) + 1 for _, said in turns)


def _subject(agenda: Agenda, bank: Phrases, who: str, before: int) -> Subject:
    """What they talk about: the filler of the agenda, or a project where it has none."""
    if agenda.order:
        for order in orders():
            if agenda.order.text in order.texts:
                return order
    for filler in fillers():
        if agenda.topic == filler.text:
            return filler
    projects = list(bank.project)
    random.Random(f"memorycode projects {who}").shuffle(projects)
    project = projects[before % len(projects)]
    # A topic from elsewhere is named as it is, and talked about in general terms.
    return project.model_copy(update={"about": agenda.topic}) if agenda.topic else project


def _tone(personas: Sequence[Persona], placeholder: str, name: str, told: str) -> str:
    return next((one.id for one in personas if one.text.replace(placeholder, name) == told), "")
