"""The offline writer: conversations by rules, from phrases of our own. It is not a language model.

It answers the prompt `memorycode_conversation` for the sessions of one dialogue. The same variables give the same
conversation. The number of earlier conversations moves each pool of phrases on, so that those of one dialogue differ.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from beam_memorycode.bank import Persona, Phrases, RuleSubject, fillers, orders, people, phrases, take_apart
from beam_memorycode.dialogues import Dialogue, DialogueSession, Setting, Topic
from beamlib.llm.model import OFFLINE_NAME, Completion, ModelError, Prompt, Usage
from beamlib.text import count_tokens

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
    """Say how many conversations of the two came before this one; the released prompts count one too many."""
    if before < 2:
        return "They have had one conversation before this one." if before else "They meet for the first time."
    return f"They have had {before} conversations before this one."


def compose_agenda(session: DialogueSession, context: Setting) -> str:
    """Write the agenda of a session: its filler, its coding instructions, and what must not occur."""
    names = {"mentor": context.mentor, "mentee": context.mentee}
    filler, coding = _filler(session.topics), [topic for topic in session.topics if topic.coding]
    general = filler is not None and not filler.type.startswith("filler-instruction")
    lines = []
    if filler is not None and general:
        lines.append(f"First they talk about this: {filler.text}.{_AGAIN if filler.type.endswith('update') else ''}")
    elif filler is not None:
        lines.append(_wish(filler, "", _CHANGES, context))
    if coding:
        lines.append(("After that, " if general else "") + _CODE.format(**names))
        lines += [_wish(topic, "- ", _UPDATE.format(**names), context) for topic in coding]
    lines.append(_LIMITS.format(only=_ONLY if coding else _NONE, **names))
    return "\n".join(lines)


def _wish(topic: Topic, start: str, change: str, context: Setting) -> str:
    if topic.type.endswith("update"):
        return f"{start}{context.mentor} now wants {context.mentee} to {topic.text}.{change}"
    return f"{start}{context.mentor} wants {context.mentee} to {topic.text}."


def conversation_variables(dialogue: Dialogue, place: int) -> dict[str, str]:
    """Return the variables of the prompt `memorycode_conversation` for the session at `place` (0-based)."""
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


WRITER_PROMPT = "memorycode_conversation"
SESSION_WORDS = {"short": 300, "medium": 380, "long": 545}
"""Words of a conversation by its length, about: the means of the released texts."""

_TURN = 50  # words of one exchange, about
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")
_STRIDE = 7  # phrases of a pool that one conversation uses, about; no pool's size is a multiple of it


class OfflineWriter:
    """A `Model` that writes the conversations of one dialogue."""

    name = OFFLINE_NAME

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._places = {describe_meeting(place): place for place in range(len(dialogue.sessions))}

    async def complete(self, prompt: Prompt) -> Completion:
        """Write the conversation of `prompt`; raise `ModelError` for another prompt or an unknown instruction."""
        if prompt.id != WRITER_PROMPT:
            raise ModelError(
                f"the writer, {OFFLINE_NAME}, has no rules for prompt '{prompt.id}'; it answers {WRITER_PROMPT}"
            )
        place = self._places[prompt.variables["meeting"]]
        text = _Conversation.begin(self._dialogue, place, prompt.variables).write()
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
        """Return the next sentence of a pool."""
        order = list(templates)
        random.Random(f"memorycode phrases {self.dialogue} {pool}").shuffle(order)
        place = self.before * _STRIDE + self.used.get(pool, 0)
        self.used[pool] = self.used.get(pool, 0) + 1
        text = self.fill(order[place % len(order)], slots)
        return finished(text)

    def fill(self, template: str, slots: Mapping[str, str]) -> str:
        chosen = _CHOICE.sub(lambda match: self.rng.choice(match[1].split("|")), template)
        return _SLOT.sub(lambda match: slots.get(match[1]) or self.fixed.get(match[1]) or self._pick(match[1]), chosen)

    def _pick(self, slot: str) -> str:
        if slot == "project":
            values = [project.about for project in self.phrases.project if project.about != self.fixed["about"]]
        else:
            values = self.phrases.slots[slot]
        # Never the same twice running: a sentence with two slots of a kind would name one person twice.
        self.last[slot] = self.rng.choice([value for value in values if value != self.last.get(slot)])
        return self.last[slot]


def finished(text: str) -> str:
    """Start a sentence with a capital and end it with a mark."""
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


@dataclass
class _Conversation:
    voice: _Voice
    topics: tuple[Topic, ...]
    subject: RuleSubject
    tones: dict[str, str]
    words: int
    turns: list[tuple[str, str]] = field(default_factory=list)
    at: int = 0

    @classmethod
    def begin(cls, dialogue: Dialogue, place: int, variables: Mapping[str, str]) -> _Conversation:
        context, topics = dialogue.context, dialogue.sessions[place].topics
        who = " ".join(variables[name] for name in ("mentor", "mentee", "company", "mentor_persona", "mentee_persona"))
        rng = random.Random(f"memorycode talk {sorted(variables.items())}")
        subject = _subject(_filler(topics), who, place)
        fixed = {name: variables[name] for name in ("mentor", "mentee", "company")} | {"about": subject.about}
        voice = _Voice(phrases(), rng, who, place, fixed)
        tones = {
            "mentor": _persona_id(people().mentor, context.mentor_persona),
            "mentee": _persona_id(people().mentee, context.mentee_persona),
        }
        words = round(SESSION_WORDS[dialogue.sessions[place].length] * rng.uniform(0.9, 1.1))
        aspects = rng.sample(list(subject.aspects), len(subject.aspects))
        return cls(voice, topics, subject.model_copy(update={"aspects": aspects}), tones, words)

    def write(self) -> str:
        """Write the whole conversation: greeting, the subject until the length is reached, code, farewell."""
        after = replace(self, turns=[])
        after._code()
        after._end()
        self._greet()
        self._open()
        room = self.words - _count(after.turns) - _TURN // 2  # the last turn runs over by half its length
        while _count(self.turns) < room:
            self._go_on()
        return "\n\n".join(f"{self.voice.fixed[who]}: {text}" for who, text in self.turns + after.turns)

    def _mentor(self, pool: str) -> str:
        # What the mentee replies to is the aspect that was named last, so other sentences do not go on to the next.
        slots = self._on_topic() if pool in ("aspect", "step") else self._same()
        return self.voice.say(f"mentor {pool}", self.voice.phrases.mentor[pool], **slots)

    def _mentee(self, pool: str) -> str:
        return self.voice.say(f"mentee {pool}", self.voice.phrases.mentee[pool], **self._same())

    def _tone(self, who: str) -> str:
        pools = getattr(self.voice.phrases.tone, who)
        pool = pools.get(self.tones[who]) or [text for name in sorted(pools) for text in pools[name]]
        slots = self._on_topic() if who == "mentor" else self._same()
        return self.voice.say(f"tone {who}", pool, **slots)

    def _on_topic(self) -> dict[str, str]:
        """Turn to the next aspect and return the slots of the topic."""
        self.at += 1
        return self._same()

    def _same(self) -> dict[str, str]:
        aspects, steps = self.subject.aspects, self.subject.steps
        return {
            "aspect": aspects[self.at % len(aspects)],
            "other": aspects[(self.at + 1) % len(aspects)],
            "step": steps[self.at % len(steps)] if steps else "",
        }

    def _turn(self, who: str, *sentences: str) -> None:
        self.turns.append((who, " ".join(sentences)))

    def _greet(self) -> None:
        first = self.voice.before == 0
        self._turn("mentor", self._mentor("greet_first" if first else "greet"))
        self._turn("mentee", self._mentee("hello_first" if first else "hello"))

    def _open(self) -> None:
        topic = _filler(self.topics)
        update = topic is not None and topic.type.endswith("update")
        if topic is None or not topic.type.startswith("filler-instruction"):
            self._turn("mentor", self._mentor("again" if update else "open"), self._mentor("aspect"))
            self._turn("mentee", self._mentee("ack"))
            return
        name = "order_update" if update else "order"
        order = self.voice.say(f"frame {name}", self.voice.phrases.frame[name], order=topic.text)
        self._turn("mentor", order, self._mentor("why"))
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
        for number, topic in enumerate(topic for topic in self.topics if topic.coding):
            sentences = [self._mentor("code_more" if number else "code"), self._rule(topic)]
            if self.voice.rng.random() < 0.7:
                sentences.append(self._mentor("code_reason"))
            self._turn("mentor", *sentences)
            self._turn("mentee", self._mentee("ack_code"))

    def _rule(self, topic: Topic) -> str:
        wording = take_apart(topic.text)
        if wording is None:
            raise ModelError(f"the writer, {OFFLINE_NAME}, does not know the form of {topic.text[:80]!r}")
        slots = {"object": wording.object, "objects": wording.objects, "value": wording.value}
        rule = self.voice.fill(self.voice.rng.choice(self.voice.phrases.state[wording.form]), slots)
        name = "update" if topic.type.endswith("update") else "add"
        return self.voice.say(f"frame {name}", self.voice.phrases.frame[name], rule=rule)

    def _end(self) -> None:
        self._turn("mentor", self._mentor("close"))
        self._turn("mentee", self._mentee("bye"))


def _count(turns: Sequence[tuple[str, str]]) -> int:
    return sum(len(text.split()) + 1 for _, text in turns)


def _filler(topics: Sequence[Topic]) -> Topic | None:
    return next((topic for topic in topics if not topic.coding), None)


def _subject(topic: Topic | None, who: str, before: int) -> RuleSubject:
    """Choose what they talk about: the filler, or a project where the session has none."""
    subjects: tuple[RuleSubject, ...] = ()
    if topic is not None and topic.type.startswith("filler-instruction"):
        subjects, topic = tuple(order for order in orders() if topic.text in order.texts), None
    elif topic is not None:
        subjects = tuple(filler for filler in fillers() if topic.text == filler.text)
    if subjects:
        return subjects[0]
    projects = list(phrases().project)
    random.Random(f"memorycode projects {who}").shuffle(projects)
    project = projects[before % len(projects)]
    # A topic from elsewhere is named as it is, and talked about in general terms.
    return project.model_copy(update={"about": topic.text}) if topic else project


def _persona_id(personas: Sequence[Persona], text: str) -> str:
    return next((persona.id for persona in personas if persona.text == text), "")
