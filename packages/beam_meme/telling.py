"""From a plan to the sessions that tell it: the assistant first, then a fact of the user's and an answer.

Rules and a bank of phrases (`banks/talk.toml`) write them, or a language model plays both sides. Of what the model says
each fact is checked, and no answer may name a value. A message that three tries did not bring is the rules' instead,
and counted. What has to stand word for word is never put to a model. The phrases around the facts name nothing that an
episode can be about, so no answer can restate a wrong value or name a dependant.

("MEME", arXiv 2605.12477, sections 1 and 2.4 of the fact sheet.)
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from beam_meme.domains import bank_of
from beam_meme.drawing import Drawn, DrawnFact, EpisodePart
from beam_meme.episode_gold import ToldKind
from beam_meme.episodes import Domain, Line
from beam_memorycode.bank import TextPool, read_rule_bank
from beamlib.data.checked_json import is_writable
from beamlib.llm.model import Completion, Model, ModelError, Prompt, run
from beamlib.llm.retrying import ReadReply, ask, gather

TALK = Path(__file__).parent / "banks" / "talk.toml"


class _TalkPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Noted(_TalkPart):
    told: TextPool
    update: TextPool
    exact: TextPool
    deletion: TextPool


class _ByDomain(_TalkPart):
    """A pool for each domain; `deletion` is for requests to forget, in either."""

    personal_life: TextPool
    software_project: TextPool
    deletion: TextPool

    def of(self, domain: Domain, kind: ToldKind) -> TextPool:
        """The pool for a fact of a kind."""
        pools = {"personal_life": self.personal_life, "software_project": self.software_project}
        return self.deletion if kind == "deletion" else pools[domain]


class TalkBank(_TalkPart):
    """`banks/talk.toml`."""

    greeting: dict[Domain, TextPool] = Field(min_length=2)
    question: _ByDomain
    noted: _Noted
    advice: _ByDomain


@cache
def talk_bank(path: Path = TALK) -> TalkBank:
    """The bank; what is wrong with the file is a `UserError`."""
    return read_rule_bank(path, TalkBank)


class SmallTalk:
    """The phrases of one session, none a second time before its pool is through."""

    def __init__(self, domain: Domain, key: str) -> None:
        """`key` sets the order of the phrases."""
        self._domain = domain
        self._bank = talk_bank()
        self._key = key
        self._used: dict[str, int] = {}

    def greeting(self) -> str:
        """The assistant's first line."""
        return self._next(self._bank.greeting[self._domain])

    def question(self, kind: ToldKind) -> str:
        """What the user adds to a fact: a question that tells nothing, or a request for tips."""
        return self._next(self._bank.question.of(self._domain, kind))

    def answer(self, kind: ToldKind) -> str:
        """The assistant's answer to a fact: it takes note, then says something in general."""
        noted = self._bank.noted
        pools = {"update": noted.update, "change": noted.update, "exact": noted.exact, "deletion": noted.deletion}
        first = self._next(pools.get(kind, noted.told))
        return f"{first} {self._next(self._bank.advice.of(self._domain, kind))}"

    def _next(self, pool: Sequence[str]) -> str:
        name = str(pool)
        order = random.Random(f"meme talk {self._key} {name}").sample(pool, len(pool))
        place = self._used[name] = self._used.get(name, -1) + 1
        return order[place % len(order)]


USER, ASSISTANT = "meme_session_user", "meme_session_assistant"
"""Prompt ids."""

PARTS: tuple[EpisodePart, ...] = ("1a", "1b", "1c", "2", "change")
_ABOUT: Mapping[Domain, str] = {
    "personal_life": "the person's own life",
    "software_project": "a software project that the person works on",
}
_TRIED = ("A first reply", "A second reply", "A third reply")
"""One for each try. They differ because a request that was sent before is answered from the store as before."""

_MOST_WORDS, _MOST_ANSWER, _MOST_CHARACTERS = 130, 90, 4_000
"""Words of a message of the user's and of the assistant's; characters of either."""


@dataclass(frozen=True, slots=True)
class ToldSession:
    """The session of a part. `places` has the line (counted from 0) of each fact, by its place in `Drawn.facts`."""

    part: EpisodePart
    lines: tuple[Line, ...]
    places: Mapping[int, int]
    replaced: int = 0
    """Messages that a model was asked for and the rules wrote."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a message that tells a fact has to hold, word for word, and what may not be in it."""

    kind: ToldKind
    must: tuple[str, ...]
    avoid: tuple[str, ...] = ()


async def tell_sessions(drawn: Drawn, model: Model | None = None) -> list[ToldSession]:
    """The sessions of an episode, in order; by rules, or by `model` in both roles.

    A `ModelError` that may pass is raised: the same command asks again. Any other leaves the message to the rules.
    """
    return await gather(_Teller(drawn, part, model).session() for part in PARTS)


def prompts_of(drawn: Drawn) -> list[Prompt]:
    """What a model is asked while it tells an episode, as if the rules' messages were its replies."""
    listener = _Listener()
    run(tell_sessions(drawn, listener))
    return listener.heard


@dataclass
class _Listener:
    """A model that answers nothing and keeps what it was asked."""

    name = "listener"
    heard: list[Prompt] = field(default_factory=list)

    async def complete(self, prompt: Prompt) -> Completion:
        self.heard.append(prompt)
        raise ModelError("nobody is asked")


def demand_of(drawn: Drawn, fact: DrawnFact) -> Demand:
    """What telling `fact` takes: its value and its keyword, of a rule or dependency also what it hangs on.

    Every other value of the episode and of the entity has to stay out, and what `unspoken` says.
    """
    sources = {edge.target: edge.source for edge in drawn.edges}
    entities = bank_of(drawn.domain).entities
    must = [entities[fact.entity].keyword, fact.value]
    if fact.kind in ("rule", "dependency"):
        must.append(entities[sources[fact.entity]].keyword)
    avoid = [*unspoken(drawn, fact.part), *entities[fact.entity].pool]
    told = fact.sentence.casefold()
    return Demand(fact.kind, tuple(must), tuple(dict.fromkeys(one for one in avoid if one.casefold() not in told)))


def unspoken(drawn: Drawn, part: EpisodePart) -> list[str]:
    """What no answer may name: the episode's values, and where the change is told whatever depends on the root."""
    found = [one.value for one in drawn.facts]
    if part == "change":
        bank = bank_of(drawn.domain)
        direct = bank.dependants(drawn.root)
        names = [*direct, *(name for one in direct for name in bank.dependants(one))]
        found += [bank.entities[name].keyword for name in names]
    return list(dict.fromkeys(found))


@dataclass
class _Teller:
    """One session while it is told."""

    drawn: Drawn
    part: EpisodePart
    model: Model | None
    lines: list[Line] = field(default_factory=list)
    replaced: int = 0

    async def session(self) -> ToldSession:
        self.talk = SmallTalk(self.drawn.domain, f"{self.drawn.id} {self.part} {self.drawn.facts!r}")
        self.lines.append(Line("assistant", self.talk.greeting()))
        places: dict[int, int] = {}
        for index, fact in enumerate(self.drawn.facts):
            if fact.part == self.part:
                places[index] = len(self.lines)
                self.lines.append(Line("user", await self._user(fact)))
                self.lines.append(Line("assistant", await self._assistant(fact)))
        return ToldSession(self.part, tuple(self.lines), places, self.replaced)

    async def _user(self, fact: DrawnFact) -> str:
        if fact.verbatim:
            return fact.sentence
        usual = f"{fact.sentence} {self.talk.question(fact.kind)}"
        if self.model is None:
            return usual
        demand = demand_of(self.drawn, fact)
        variables = {**self._variables, "fact": fact.sentence, "must": "\n".join(demand.must)}
        return await self._asked(self.model, USER, variables, partial(user_problem, demand=demand), usual)

    async def _assistant(self, fact: DrawnFact) -> str:
        usual = self.talk.answer(fact.kind)
        if self.model is None:
            return usual
        problem_in = partial(assistant_problem, unspoken=unspoken(self.drawn, self.part))
        return await self._asked(self.model, ASSISTANT, self._variables, problem_in, usual)

    @property
    def _variables(self) -> dict[str, str]:
        history = "\n\n".join(f"{line.role.upper()}: {line.content}" for line in self.lines)
        return {"domain": _ABOUT[self.drawn.domain], "history": history}

    async def _asked(
        self, model: Model, prompt: str, variables: Mapping[str, str], problem_in: Callable[[str], str], usual: str
    ) -> str:
        """What the model says, as soon as nothing is wrong with it; else `usual`, and counted."""
        about = f"episode {self.drawn.id}, part {self.part}, line {len(self.lines) + 1}"

        def read(reply: Completion, attempt: int) -> ReadReply[str | None]:
            text = reply.text.strip()
            problem = problem_in(text)
            complaint = f"{_TRIED[attempt]} to this could not be used. {problem} Write the message anew."
            return (None, complaint) if problem else (text, None)

        try:
            said = await ask(model, Prompt(prompt, variables, about), read, tries=len(_TRIED))
        except ModelError as error:
            if error.transient:
                raise
            said = None
        self.replaced += said is None
        return usual if said is None else said


_LABEL = re.compile(r"\W{0,4}(?:user|assistant|message)\W{0,4}:", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_UNSURE = re.compile(  # with a capital, "May" is a month
    r"\b(?:[Ii]f|might|may|[Mm]aybe|[Pp]erhaps|[Pp]robably|considering|thinking of|plan to|going to)\b"
)
_IF, _WILL = re.compile(r"\b(?:if|when|once|should)\b", re.IGNORECASE), re.compile(r"\bwill\b|\w'll\b", re.IGNORECASE)
_DEPENDS = re.compile(
    r"\bdepend(?:s|ing|ent)?\b|\bif\b[^.!?]*\b(?:chang|differ|other)|\bchange[sd]?\b[^.!?]*\bif\b|"
    r"\bwould\b[^.!?]*\bchange|\bchange\b[^.!?]*\bwith\b",
    re.IGNORECASE,
)


def user_problem(text: str, demand: Demand) -> str:
    """What is wrong with a message that has to tell a fact, "" if nothing is: a sentence for the model."""
    if problem := _form_problem(text, _MOST_WORDS):
        return problem
    for phrase in demand.must:
        if not says_phrase(text, phrase):
            return f"It does not say {phrase!r}, which has to be in it word for word."
    for phrase in demand.avoid:
        if says_phrase(text, phrase):
            return f"It says {phrase!r}, which does not belong to this fact."
    told = " ".join(one for one in _SENTENCE.findall(text) if not one.rstrip().endswith("?"))
    if demand.kind == "rule" and not (_IF.search(told) and _WILL.search(told)):
        return 'The fact has to stay conditional: "if" something changes, this "will" be so.'
    if demand.kind == "dependency" and not _DEPENDS.search(told):
        return "It has to say plainly that the one thing depends on the other and would change with it."
    if demand.kind in ("change", "update") and _UNSURE.search(told):
        return "The change has to be told as a fact that holds now, without doubt and not as a plan."
    return ""


def assistant_problem(text: str, unspoken: Sequence[str]) -> str:
    """What is wrong with an answer, "" if nothing is: it may hold nothing of `unspoken`."""
    if problem := _form_problem(text, _MOST_ANSWER):
        return problem
    for phrase in unspoken:
        if says_phrase(text, phrase):
            return f"It names {phrase!r}; an answer names nothing that the user told, and nothing that follows from it."
    return ""


def _form_problem(text: str, most: int) -> str:
    if not text:
        return "It is empty."
    if not is_writable(text):
        return "It holds half a character."
    if len(text) > _MOST_CHARACTERS or len(text.split()) > most:
        return f"It has more than {most} words; make it much shorter."
    return "It begins with a label; leave that away." if _LABEL.match(text) else ""


def says_phrase(text: str, phrase: str) -> bool:
    """Whether `text` has `phrase` as whole words, in any case and spacing."""
    written = r"\s+".join(map(re.escape, phrase.split()))
    return re.search(rf"(?<!\w){written}(?!\w)", text, re.IGNORECASE) is not None
