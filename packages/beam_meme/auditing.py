"""Audit the sessions that a model tells, and have the model write rejected ones again.

("MEME", arXiv 2605.12477, appendix on quality control.) Four steps, each a call of a role of the models file:

1. `speaker` puts the facts of a session in the third person, so that it tells them in words of its own.
2. `speaker` plays the session (`telling`), by the rules of every model-written session.
3. `detector` annotates which line tells each fact (layer 1).
4. `auditor`, a second model, audits the session (layer 2). An issue of high severity rejects it.

A rejected session is written again with our own sentence on each issue: no text of one model reaches another. After
three writings the episode is given up. A check whose reply cannot be read is retried once; then the session is
unverified and its episode given up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from beam_meme.domains import bank_of
from beam_meme.drawing import Drawn, DrawnFact
from beam_meme.telling import PARTS, USER, ToldSession, demand_of, prompts_of, says_phrase, tell_sessions, user_problem
from beam_memorycode.bank import BankPart as StrictModel
from beamlib.data.checked_json import show
from beamlib.llm.json_replies import read_json
from beamlib.llm.model import Completion, Model, ModelError, Prompt, run
from beamlib.llm.retrying import ReadReply, ask, gather

THIRD_PERSON, ANNOTATION, AUDIT = "meme_third_person", "meme_annotation", "meme_audit"
"""Prompt ids."""
AUDIT_PROMPTS = {THIRD_PERSON: 150, ANNOTATION: 50, AUDIT: 50}
"""The prompts of quality control, with about the tokens of their replies."""

AuditCheck = Literal["value", "keyword", "conditional", "dependency", "contradiction", "alternative", "confusion"]
UNVERIFIED = "unverified"
_WRITINGS = ("A first", "A second", "A third")
_MOST_REPLY = 20_000  # characters
_OUTSIDER = "the person"  # as `meme_third_person` calls the user
_FIRST_PERSON = re.compile(r"\bI\b|\b(?:[Mm]y|[Mm]e|[Ww]e|[Oo]urs?|[Uu]s|[Mm]ine)\b")
_REPAIRS: Mapping[str, str] = {
    "annotation": "It did not tell the whole fact, or another message told it first.",
    "person": "It spoke of the person from outside; the person says I, my, we and our.",
    "value": "The value was not complete and exact.",
    "keyword": "It did not name the thing by its own words.",
    "conditional": "The fact has to stay an `if` with what changes, and a `will` with what follows.",
    "dependency": "It has to say outright that the one thing depends on the other and would change with it.",
    "contradiction": "Something was said that cannot be true together with the fact.",
    "alternative": "Another value was given for the same thing.",
    "confusion": "It spoke of another thing by nearly the same name.",
}
"""What is wrong with a message, by check, for the model that writes it anew."""


class ThirdPerson(StrictModel):
    """The reply to `meme_third_person`."""

    facts: list[str]


class Annotation(StrictModel):
    """The reply to `meme_annotation`: by the number of each fact the line that tells it, None if none does."""

    lines: dict[str, int | None]


class AuditIssue(StrictModel):
    """An issue that the auditor reports."""

    fact: int
    check: AuditCheck
    severity: Literal["high", "medium", "low"]
    reason: str = ""


class Audit(StrictModel):
    """The reply to `meme_audit`."""

    issues: Annotated[list[AuditIssue], Field(max_length=100)]


Reply = TypeVar("Reply", ThirdPerson, Annotation, Audit)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a session is rejected: a check that a fact fails, or `unverified` with the reason in `subject`."""

    session: ToldSession
    check: str
    subject: DrawnFact | str

    def render(self) -> str:
        """Return part, entity (or reason) and check as a phrase."""
        subject = self.subject if isinstance(self.subject, str) else self.subject.entity
        return f"part {self.session.part}, {subject}: {self.check}"


@dataclass(frozen=True)
class AuditedEpisode:
    """The sessions of an episode, and what its audit came to.

    Attributes:
        rejections: Failed checks of all writings, by check.
        first_person: Facts without a usable third person; they were told from the first.
        given_up: The last rejections, empty if every session passed.
    """

    sessions: Sequence[ToldSession]
    rejections: Mapping[str, int] = field(default_factory=dict)
    first_person: int = 0
    given_up: str = ""


async def tell_audited(drawn: Drawn, models: Mapping[str, Model]) -> AuditedEpisode:
    """Tell an episode by `models["speaker"]`, audited by `detector` and `auditor`.

    What passed is answered from the call store when the rest is written again.

    Raises:
        ModelError: A call failed transiently.
    """
    converted = await gather(_third_person(drawn, part, models["speaker"]) for part in PARTS)
    seeds = {fact: text for own in converted for fact, text in own.items()}
    complaints: dict[str, str] = {}
    counts: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    for writing in _WRITINGS:
        sessions = await tell_sessions(drawn, _Directed(models["speaker"], seeds, complaints))
        audits = await gather(_audit(drawn, session, seeds, models, rejected[_spoken(session)]) for session in sessions)
        rejections = [rejection for own in audits for rejection in own]
        counts.update(rejection.check for rejection in rejections)
        if not rejections or any(rejection.check == UNVERIFIED for rejection in rejections):
            break
        complaints |= _complaints(drawn, rejections, writing)
        rejected.update({_spoken(rejection.session) for rejection in rejections})
    untold = sum(not fact.verbatim for fact in drawn.facts) - len(seeds)
    return AuditedEpisode(sessions, dict(counts), untold, "; ".join(rejection.render() for rejection in rejections))


def audit_prompts(drawn: Drawn) -> dict[str, list[Prompt]]:
    """Return what each role is asked if nothing is rejected, as if the rules' messages were the replies."""
    sessions = run(tell_sessions(drawn))
    conversions = [_conversion(drawn, _convertible(drawn, part), part) for part in PARTS]
    return {
        "speaker": [*conversions, *prompts_of(drawn)],
        "detector": [_check_prompt(ANNOTATION, drawn, session, {}) for session in sessions],
        "auditor": [_check_prompt(AUDIT, drawn, session, {}) for session in sessions],
    }


@dataclass(frozen=True)
class _Directed:
    """The speaker, shown facts in the third person and what is wrong with the messages it wrote before.

    `complaints` are by the fact's sentence, and for the assistant's answer by the user's message before it.
    """

    model: Model
    seeds: Mapping[str, str]
    complaints: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.model.name

    async def complete(self, prompt: Prompt) -> Completion:
        variables = dict(prompt.variables)
        message = variables["fact"] if prompt.id == USER else variables["history"].rpartition("\n\nUSER: ")[2]
        if prompt.id == USER:
            variables["fact"] = self.seeds.get(message, message)
        prompt = replace(prompt, variables=variables)
        if complaint := self.complaints.get(message):
            prompt = prompt.again(f"{complaint} {prompt.complaint}".strip())
        return await self.model.complete(prompt)


def _complaints(drawn: Drawn, rejections: Sequence[Rejection], writing: str) -> dict[str, str]:
    repairs: dict[str, list[str]] = {}
    for rejection in rejections:
        for index, line in rejection.session.places.items():
            if (fact := drawn.facts[index]) == rejection.subject:
                for key in {fact.sentence, rejection.session.lines[line].content}:
                    repairs.setdefault(key, []).append(_REPAIRS[rejection.check])
    return {key: f"{writing} writing was rejected. {' '.join(dict.fromkeys(own))}" for key, own in repairs.items()}


def _convertible(drawn: Drawn, part: str) -> list[DrawnFact]:
    return [fact for fact in drawn.facts if fact.part == part and not fact.verbatim]


def _conversion(drawn: Drawn, facts: Sequence[DrawnFact], part: str) -> Prompt:
    return Prompt(
        THIRD_PERSON, {"facts": _numbered(fact.sentence for fact in facts)}, f"episode {drawn.id}, part {part}"
    )


async def _third_person(drawn: Drawn, part: str, model: Model) -> dict[str, str]:
    """Return the facts of a part in the third person by their sentences; empty if two replies gave no usable ones."""
    facts = _convertible(drawn, part)

    def problem_in(reply: ThirdPerson) -> str:
        if len(reply.facts) != len(facts):
            return f"It has {len(reply.facts)} facts instead of {len(facts)}."
        for number, (fact, text) in enumerate(zip(facts, reply.facts, strict=True), start=1):
            if problem := user_problem(text, demand_of(drawn, fact)):
                return f"Fact {number}: {problem}"
            if fact.value not in text or _FIRST_PERSON.search(text.replace(fact.value, "")):
                return f"Fact {number}: its value has to stand letter by letter, and all else in the third person."
        return ""

    reply = await _ask_json(model, _conversion(drawn, facts, part), ThirdPerson, problem_in)
    return (
        {} if isinstance(reply, str) else {fact.sentence: text for fact, text in zip(facts, reply.facts, strict=True)}
    )


async def _audit(
    drawn: Drawn, session: ToldSession, seeds: Mapping[str, str], models: Mapping[str, Model], before: int = 0
) -> list[Rejection]:
    """Check a session by rule, by annotation and by audit; the first of them that rejects it decides.

    `before` is how often these very words were rejected: each writing is checked anew, not by its stored rejection.
    """
    facts, lines = [drawn.facts[index] for index in session.places], list(session.places.values())
    numbers = range(1, len(facts) + 1)

    def each_once(reply: Annotation) -> str:
        return "" if reply.lines.keys() == set(map(str, numbers)) else "It does not name each fact once."

    def listed(reply: Audit) -> str:
        return "" if all(issue.fact in numbers for issue in reply.issues) else "It names a fact that is not listed."

    texts = [session.lines[line].content for line in lines]
    outside = [
        fact for fact, text in zip(facts, texts, strict=True) if not fact.verbatim and says_phrase(text, _OUTSIDER)
    ]
    if outside:
        return [Rejection(session, "person", fact) for fact in outside]
    prompt = replace(_check_prompt(ANNOTATION, drawn, session, seeds), repeat=before)
    annotation = await _ask_json(models["detector"], prompt, Annotation, each_once)
    if isinstance(annotation, str):
        return [Rejection(session, UNVERIFIED, f"annotation {show(annotation)}")]
    misses = [facts[at - 1] for at in numbers if annotation.lines[str(at)] != lines[at - 1] + 1]
    if misses:
        return [Rejection(session, "annotation", fact) for fact in misses]
    prompt = replace(_check_prompt(AUDIT, drawn, session, seeds), repeat=before)
    audit = await _ask_json(models["auditor"], prompt, Audit, listed)
    if isinstance(audit, str):
        return [Rejection(session, UNVERIFIED, f"audit {show(audit)}")]
    return [
        Rejection(session, issue.check, facts[issue.fact - 1]) for issue in audit.issues if issue.severity == "high"
    ]


def _check_prompt(prompt_id: str, drawn: Drawn, session: ToldSession, seeds: Mapping[str, str]) -> Prompt:
    facts = []
    for index, line in session.places.items():
        fact = drawn.facts[index]
        text = seeds.get(fact.sentence, fact.sentence)
        facts.append(text if prompt_id == ANNOTATION else f"{_described(drawn, fact)}, line {line + 1}: {text}")
    variables = {"facts": _numbered(facts), "session": _spoken(session)}
    return Prompt(prompt_id, variables, f"episode {drawn.id}, part {session.part}")


def _spoken(session: ToldSession) -> str:
    return _numbered(f"{line.role.upper()}: {line.content}" for line in session.lines)


def _described(drawn: Drawn, fact: DrawnFact) -> str:
    form = {"rule": "if-then", "dependency": "dependency"}.get(fact.kind, "plain")
    return f"form {form}, value {fact.value!r}, words {bank_of(drawn.domain).entities[fact.entity].keyword!r}"


def _numbered(texts: Iterable[str]) -> str:
    """Number texts, each on one line: a text with line breaks cannot pass for several."""
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, start=1))


async def _ask_json(
    model: Model, prompt: Prompt, shape: type[Reply], problem_in: Callable[[Reply], str]
) -> Reply | str:
    """Return the reply as `shape`, or after a second try the reason why it cannot be used."""

    def read(completion: Completion, _: int) -> ReadReply[Reply | str]:
        text = completion.text
        reply = read_json(text, shape, strict=True, prompt=prompt.id)[0] if len(text) <= _MOST_REPLY else None
        problem = "It is not the JSON object that is asked for." if reply is None else problem_in(reply)
        complaint = f"A first reply to this could not be used. {problem} Reply with the JSON object alone."
        return (problem, complaint) if reply is None or problem else (reply, None)

    try:
        return await ask(model, prompt, read)
    except ModelError as error:
        if error.transient:
            raise
        return error.reason
