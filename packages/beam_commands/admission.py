"""Ask every role a few questions whose answers are known, before a run pays for anything else.

The prompts are those of the run, with made-up contents: a word to repeat, a decision, a form to fill, for readers,
memory and authors a request almost as long as the longest of the run with a word at either end, and for the judge
thirty nuggets with known verdicts. A few requests with a short limit show how fast a server is. The calls are stored
like any other, so a resumed run asks nothing again and a replay asks nothing at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableSet, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice
from math import ceil
from pathlib import Path
from textwrap import shorten
from typing import Protocol, get_args

from beam_commands.confirmation import Quote, cost_in_words
from beam_commands.costs import Estimate
from beam_commands.dry_run import CallTally, StepCalls, input_tokens
from beamlib.errors import UserError
from beamlib.llm.admission import (
    ADMISSION,
    AT_ONCE,
    COUNT_LIMIT,
    COUNTING,
    LONG,
    TEXT,
    WORDS,
    Speed,
    admission_calls,
    answers_another,
    learnt_marks,
    measured_speed,
    read_reply,
    without_thoughts,
)
from beamlib.llm.call_store import CallStore, StoredCall, call_key
from beamlib.llm.client import EndpointModel
from beamlib.llm.embedding_model import EmbeddingModel, embedding_prompt
from beamlib.llm.endpoints import EMBEDDING, RERANKER, UNLIMITED_TOKENS, Author, Embedding, Endpoint
from beamlib.llm.faults import CONTINUE, Asker, advice
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, Usage, attempt_all
from beamlib.llm.prompts import Prompts, prompts_in_force
from beamlib.llm.retrying import read_decision, repeats_request
from beamlib.llm.stored_model import Mode, StoredModel
from beamlib.text import WORDS as WORD_COUNTER
from beamlib.text import TokenCounter, count

_PLAIN = ("the", "river", "and", "a", "stone", "were", "old", "but", "we", "went", "on", "by", "way", "of", "home")
"""Words that are one token each in the usual vocabularies."""
_ENDS = ("orchard", "violin")
"""The first and the last word of the long request."""
_SHARE = 0.9
"""The long request's share of the longest one that the run will send."""
_FRAME = 250
"""Tokens of a prompt around its context, and words that are worth a request of their own."""
_CUT = 0.6
"""A smaller share of our own count of tokens shows that a server has read a part only."""
_TEXTS = 32
"""Texts by which an encoder is measured."""
_WORDS_OUT = 5
"""Expected output tokens of a word."""
_READS_LONG = ("memory", *get_args(Author))
"""Roles whose requests are as long as their windows allow, beside readers."""
_LONGEST_TIMEOUT = 3_600.0


@dataclass(frozen=True)
class KnownQuestion:
    """A prompt and what its reply has to say.

    Attributes:
        words: Words that the reply has to contain.
        decision: The yes or no that it has to be.
        right: Whether a text is right, where that is neither words nor a decision.
        tokens: Tokens of a long request.
        limit: The limit of its reply where it is not the endpoint's.
        output: Expected output tokens.
    """

    prompt: Prompt
    words: tuple[str, ...] = ()
    decision: bool | None = None
    right: Callable[[str], bool] | None = None
    tokens: int = 0
    limit: int = 0
    output: int = _WORDS_OUT

    def is_right(self, reply: str) -> bool:
        """Tell whether a reply says what is known, and is not the request again."""
        if repeats_request(reply, self.prompt):
            return False
        if self.decision is not None:
            return read_decision(reply) is self.decision
        if self.right is not None:
            return self.right(reply)
        return all(word in reply.casefold() for word in self.words)


Answered = tuple[KnownQuestion, Completion | ModelError]


class ExamResult(Protocol):
    """Whether a judge reached the bar, and how it did in a sentence."""

    @property
    def passed(self) -> bool: ...

    @property
    def line(self) -> str: ...


@dataclass(frozen=True)
class Exam:
    """What a judge is asked before it judges; generation, which must not reach scoring, has none.

    Attributes:
        first: Asked with the known questions.
        questions: Asked together when those are answered.
        mark: What the replies to `questions` show.
    """

    first: KnownQuestion
    questions: Sequence[KnownQuestion]
    mark: Callable[[Sequence[Completion | ModelError]], ExamResult]


def known_questions(role: str, longest: int = 0, repeat: int = 0, mixed: int = 0) -> list[KnownQuestion]:
    """Return the known questions of a role.

    Args:
        longest: Tokens of the role's longest request; 0 for no long request.
        repeat: How often the long request was sent and cut.
        mixed: How many requests for a word got another one's reply.
    """
    asked = [_word(word, mixed) for word in WORDS]
    if role == "memory":
        variables = {"chunk": "- [messages 2-3] I keep fourteen hives.", "question": "How many hives do I keep?"}
        asked.append(KnownQuestion(Prompt("scratchpad_filter", variables, "a note that answers"), decision=True))
    elif role == "aligner":
        variables = {"event": "Selling the old van", "nugget": "Learning to sail"}
        asked.append(KnownQuestion(Prompt("align_events", variables, "two unlike events"), decision=False))
    elif role == "detector":
        variables = {"summary": "", "history": "USER: I keep hives.", "answer": "How many hives do you keep?"}
        asked.append(KnownQuestion(Prompt("detect_question", variables, "a question of hives"), decision=True))
    tokens = int(longest * _SHARE) - _FRAME
    if (role in _READS_LONG or role.startswith("reader")) and tokens > _FRAME:
        asked.append(_long(tokens, repeat))
    return asked


def _word(word: str, repeat: int = 0) -> KnownQuestion:
    variables = {
        "context": f"[messages 2-3]\nUSER: The password of the garden gate is {word}.\nASSISTANT: I will remember it.",
        "question": "What is the password of the garden gate? Reply with that word alone.",
    }
    return KnownQuestion(Prompt("answer", variables, word, repeat=repeat), (word,))


def _long(tokens: int, repeat: int = 0) -> KnownQuestion:
    plain = " ".join(islice(cycle(_PLAIN), tokens))
    context = f"The first password is {_ENDS[0]}. {plain}. The last password is {_ENDS[1]}."
    question = "What are the first and the last password? Reply with these two words alone."
    prompt = Prompt("answer", {"context": context, "question": question}, f"{LONG} {tokens}", repeat=repeat)
    return KnownQuestion(prompt, _ENDS, tokens=tokens)


def _counting() -> list[KnownQuestion]:
    """Return requests for replies of one length: the first to be sent alone, the others together."""
    variables = {"context": "[messages 2-3]\nUSER: Hello.", "question": "Count from 1 to 60, every number in a line."}
    abouts = [COUNTING, *(f"{COUNTING} {number}" for number in range(1, AT_ONCE + 1))]
    return [
        KnownQuestion(Prompt("answer", variables, about, repeat=repeat), limit=COUNT_LIMIT, output=COUNT_LIMIT)
        for repeat, about in enumerate(abouts)
    ]


def _texts() -> list[KnownQuestion]:
    texts = (f"Note {number}: the garden gate is painted in colour {number * 7}." for number in range(1, _TEXTS + 1))
    prompts = (replace(embedding_prompt(text), about=f"{TEXT} {number}") for number, text in enumerate(texts, start=1))
    return [KnownQuestion(prompt, output=0) for prompt in prompts]


def _is_cut(text: str | None, usage: Usage, tokens: int) -> bool:
    """Tell whether a server has read a part of a long request alone, by its own count and by what it knows."""
    return not usage.estimated and usage.input_tokens < _CUT * tokens and _ENDS[0] not in (text or "").casefold()


@dataclass(frozen=True)
class Candidates:
    """The roles that are about to be called, and where their calls are stored.

    Attributes:
        endpoints: By role.
        longest: By role the tokens of its longest pending request.
        root: Folder of folders with call stores: what any of them knows is not asked again.
        folder: The one of them that stores this admission.
        exam: That of the judge, where there is one.
        judge_anyway: Whether a judge that fails its exam may judge.
    """

    endpoints: Mapping[str, Endpoint]
    longest: Mapping[str, int]
    root: Path
    folder: Path
    prompts: Prompts
    mode: Mode = "record"
    command: str = ""
    exam: Exam | None = None
    judge_anyway: bool = False

    @cached_property
    def stored(self) -> dict[str, StoredCall]:
        """The usable calls of earlier admissions, by key."""
        calls = admission_calls(self.root) if self.mode != "refresh" else []
        return {call.key: call for call in calls if not (call.transient or call.refused)}

    def model(self, role: str, limit: int = 0) -> EndpointModel:
        """Return the model of a role, its replies limited to `limit` tokens."""
        endpoint = self.endpoints[role]
        if isinstance(endpoint, Embedding):
            return EmbeddingModel(role, endpoint)
        changed = endpoint.model_copy(update={"max_output_tokens": limit}) if limit else endpoint
        return EndpointModel(role, changed, prompts=self.prompts)

    def key(self, role: str, question: KnownQuestion) -> str:
        """Return the key of a question's call."""
        request = self.model(role, question.limit).request(question.prompt)
        return call_key(request, self.endpoints[role].base_url, question.prompt.repeat)

    def phases(self) -> Iterator[tuple[str, list[KnownQuestion]]]:
        """Yield questions that are sent together, with their role."""
        for role, longest in self.longest.items():
            if role not in (EMBEDDING, RERANKER):
                yield role, self._of_role(role, longest)
        served = dict[tuple[str, str], str]()
        for role in self.longest:
            if role not in (EMBEDDING, RERANKER):
                served.setdefault((self.endpoints[role].model, self.endpoints[role].base_url), role)
        for role in served.values():
            alone, *together = _counting()
            yield role, [alone]
            yield role, together
        if EMBEDDING in self.longest:
            yield EMBEDDING, _texts()
        if "judge" in self.longest and self.exam:
            yield "judge", list(self.exam.questions)

    def _of_role(self, role: str, longest: int) -> list[KnownQuestion]:
        """Return a role's questions, with a long one if none as long has been read whole."""
        endpoint = self.endpoints[role]
        whose = endpoint.model, endpoint.base_url
        served = [call for call in self.stored.values() if (call.model, call.base_url) == whose and call.text]
        mixed = sum(call.about in WORDS and answers_another(call.text or "", call.about) for call in served)
        sent = [call for call in served if call.role == role and call.about.startswith(LONG)]
        room = min(longest, endpoint.context_window - (endpoint.max_output_tokens or 0) - 1_000)
        cut = [call for call in sent if _is_cut(call.text, call.usage, _tokens_of(call))]
        most = max((_tokens_of(call) for call in sent if call not in cut), default=0)
        questions = known_questions(role, 0 if most >= (room * _SHARE - _FRAME) * _SHARE else room, len(cut), mixed)
        return [*questions, self.exam.first] if role == "judge" and self.exam else questions


def _tokens_of(call: StoredCall) -> int:
    return int(call.about.rpartition(" ")[2])


def count_admission(candidates: Candidates, counted: MutableSet[str], counter: TokenCounter) -> CallTally:
    """Count the calls that an admission will make, by step; those `counted` for another tier are not made again."""
    tally = CallTally()
    for role, questions in candidates.phases():
        for question in questions:
            key = candidates.key(role, question)
            if key in counted:
                continue
            counted.add(key)
            step = tally[role, question.prompt.id]
            if key in candidates.stored:
                step.held += 1
                continue
            if role == EMBEDDING:
                tokens = counter.count(question.prompt.variables["body"])
            else:
                tokens = input_tokens(question.prompt, candidates.prompts, counter)
            about = tokens, f"{ADMISSION}, {question.prompt.about}"
            step.add(StepCalls(pending=1, input=tokens, output=float(question.output), longest=about))
    return tally


def longest_of(estimate: Estimate) -> dict[str, int]:
    """Return by role how many tokens the longest pending request of an estimate has."""
    return {role: int(sizes.partition(" of ")[0].replace(",", "")) for role, sizes in estimate.longest.items()}


class Admission:
    """What the known questions have shown.

    Attributes:
        answered: By role its known questions with their replies, thoughts removed.
        exam: The judge's exam, where there is a judge.
    """

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        self.answered: dict[str, list[Answered]] = {}
        self.exam: ExamResult | None = None

    def ask(self) -> Admission:
        """Ask what is not stored yet.

        Raises:
            UserError: A role answers none of its questions or reads less of a request than it is sent, or the judge
                fails.
        """
        candidates = self.candidates
        with prompts_in_force(candidates.prompts), CallStore(candidates.folder / f"{ADMISSION}.sqlite") as store:
            for role, questions in candidates.phases():
                pairs = list(zip(questions, self._replies(store, role, questions), strict=True))
                if role not in self.answered:
                    self.answered[role] = pairs
                    self._refuse_useless(store, role, pairs)
                elif candidates.exam and questions == candidates.exam.questions:
                    self._examine(candidates.exam.mark([reply for _, reply in pairs]))
        return self

    def _replies(
        self, store: CallStore, role: str, questions: Sequence[KnownQuestion]
    ) -> list[Completion | ModelError]:
        """Return the replies to questions, those of earlier admissions among them, without thoughts."""
        candidates = self.candidates
        keys = [candidates.key(role, question) for question in questions]
        missing = [question for question, key in zip(questions, keys, strict=True) if key not in candidates.stored]
        model = StoredModel(
            candidates.model(role, questions[0].limit), store, candidates.mode,
            role=role, conversation=ADMISSION, command=candidates.command,
        )  # fmt: skip
        sent = iter(attempt_all(model, [question.prompt for question in missing]))
        marks = learnt_marks([*candidates.stored.values(), *store.calls()], candidates.endpoints[role])
        replies = []
        for key in keys:
            call = candidates.stored.get(key)
            reply = read_reply(call, marks) if call else next(sent)
            if isinstance(reply, Completion) and role != EMBEDDING:
                reply = without_thoughts(reply, marks)
            replies.append(reply)
        return replies

    def _examine(self, result: ExamResult) -> None:
        candidates, self.exam = self.candidates, result
        judge = candidates.endpoints["judge"]
        if not self.exam.passed and not candidates.judge_anyway:
            raise UserError(
                f"The judge model {judge.model} at {judge.base_url} is not fit to judge: {self.exam.line}. Its "
                f"verdicts were not asked for; name another judge, or add --judge-anyway to use this one; {CONTINUE}."
            )

    def _refuse_useless(self, store: CallStore, role: str, pairs: Sequence[Answered]) -> None:
        endpoint = self.candidates.endpoints[role]
        who = f"The {role} model {endpoint.model} at {endpoint.base_url}"
        errors = [reply for _, reply in pairs if isinstance(reply, ModelError)]
        if len(errors) == len(pairs):
            message = str(errors[0]).removeprefix(f"{who} ")
            status = re.search(r"status (\d{3})\b", message)
            cure = advice(message, int(status[1]) if status else 0, Asker(who, endpoint.key_variable))
            raise UserError(f"{who} {message}; it answered none of {len(pairs)} known questions; {cure}; {CONTINUE}.")
        for question, reply in pairs:
            word = question.prompt.about
            if isinstance(reply, Completion) and word in WORDS and answers_another(reply.text, word):
                raise UserError(
                    f"{who} gives the reply to another request: asked for the password {word!r}, it says "
                    f"{shorten(reply.text, 60)!r}. A cache in front of it may take like questions for one: switch it "
                    f"off, or correct base_url; {CONTINUE}."
                )
            if not question.tokens:
                continue
            if isinstance(reply, ModelError):
                if reply.outcome is Outcome.CONTEXT_LENGTH:
                    fits = self._fitting_window(store, role, question.tokens)
                    raise UserError(
                        f"{reply}; this run sends requests of that length: raise the server's window, or give the one "
                        f"that it has (--context-window {fits}, context_window in the models file); {CONTINUE}."
                    )
                continue
            read = reply.usage.input_tokens
            if _is_cut(reply.text, reply.usage, question.tokens):
                raise UserError(
                    f"{who} counts {read:,} tokens of a request of {question.tokens:,} and does not know how it began: "
                    "it cuts long requests without a word. Raise the server's window (Ollama: num_ctx), or give "
                    f"--context-window {max(1_000, read)} (context_window in the models file); {CONTINUE}."
                )

    def _fitting_window(self, store: CallStore, role: str, refused: int) -> int:
        """Halve a refused request until it is taken, and return a window that the server has for certain."""
        tokens, limit = refused // 2, self.candidates.endpoints[role].max_output_tokens or 0
        while tokens > _FRAME:
            (reply,) = self._replies(store, role, [_long(tokens)])
            if isinstance(reply, Completion):
                return max(1_000, max(tokens, reply.usage.input_tokens) + limit)
            tokens //= 2
        return 1_000

    @property
    def calls(self) -> list[StoredCall]:
        """All stored calls of admissions."""
        return admission_calls(self.candidates.root)

    @property
    def constant(self) -> str:
        """Name the roles that gave all of their known questions one reply; empty if each gave several."""
        constant = list[str]()
        for role, pairs in self.answered.items():
            texts = [" ".join(reply.text.split()) for _, reply in pairs if isinstance(reply, Completion)]
            kinds = set(texts) if role == EMBEDDING else {re.sub(r"\d+", "0", text) for text in texts}
            if len(kinds) == 1 < len(texts):
                constant.append(f"{role} {'one vector' if role == EMBEDDING else repr(shorten(texts[0], 60))}")
        cure = "such replies rest on nothing that was asked: see what serves this model, and correct base_url or model"
        return (
            f"the same reply (numbers aside) to all known questions: {'; '.join(constant)}; {cure}" if constant else ""
        )

    def lines(self) -> Iterator[str]:
        """Yield lines: who answered, by which end, marks and counts; constant replies; long requests; speed; exam."""
        candidates, calls = self.candidates, self.calls
        known, windows, ends = list[str](), list[str](), set[str]()
        with prompts_in_force(candidates.prompts):
            for role, pairs in self.answered.items():
                if role == EMBEDDING:
                    continue
                replies = [(question, reply) for question, reply in pairs if isinstance(reply, Completion)]
                known.append(
                    f"{role} {sum(question.is_right(reply.text) for question, reply in replies)} of {len(pairs)}"
                )
                ends.update(reply.finish_reason for _, reply in replies)
                for question, reply in replies:
                    if question.tokens:
                        windows.append(f"{role} {question.tokens:,} tokens, knew {_ends_known(reply.text)}")
        roles = [role for role in self.answered if role != EMBEDDING]
        marks = dict.fromkeys(mark for role in roles for mark in learnt_marks(calls, candidates.endpoints[role]))
        thoughts = "; ".join(f"{opening}…{closing}" for opening, closing in marks) or "no new mark"
        counted = "our own counter" if any(call.estimated for call in calls) else "the server"
        yield (
            f"known questions answered: {', '.join(known)}; replies end with {', '.join(sorted(ends)) or 'nothing'}; "
            f"thoughts: {thoughts}; tokens counted by {counted}"
        )
        if self.constant:
            yield self.constant
        if windows:
            yield f"long requests: {'; '.join(windows)}"
        measured = {
            (endpoint.model, endpoint.base_url): measured_speed(calls, endpoint)
            for role in self.answered
            if (endpoint := candidates.endpoints[role])
        }
        for (model, _), speed in measured.items():
            if said := speed_line(speed):
                yield f"{model}: {said}"
        yield from (f"{name}: {change}" for name, change in self.changes())
        if self.exam:
            yield self.exam.line

    def changes(self) -> Iterator[tuple[str, str]]:
        """Yield which settings follow from what was measured, by model."""
        before = self.candidates.endpoints
        after = tuned_endpoints(before, self.candidates.longest, self.calls)
        lines = dict[tuple[str, str], None]()
        for role in self.answered:
            for name in ("concurrency", "timeout", "batch"):
                old, new = getattr(before[role], name, None), getattr(after[role], name, None)
                if old != new:
                    lines[before[role].model, f"{name} {new:g} where it was {old:g}, by its measured speed"] = None
        yield from lines


def speed_line(speed: Speed) -> str:
    """Say how fast a server is; empty if nothing was measured."""
    said = []
    if speed.texts_per_second:
        said.append(f"{speed.texts_per_second:,.1f} texts a second")
    if speed.tokens_per_second:
        said.append(f"{speed.tokens_per_second:,.1f} tokens a second")
    if speed.reads_per_second:
        said.append(f"reads {speed.reads_per_second:,.0f}")
    if speed.slots:
        said.append(f"{speed.slots} of {AT_ONCE} requests at once")
    if speed.obeys_limit is not None:
        said.append(
            "obeys the limit of reply tokens" if speed.obeys_limit else "does not obey the limit of reply tokens"
        )
    return ", ".join(said)


def _ends_known(reply: str) -> str:
    beginning, end = (word in reply.casefold() for word in _ENDS)
    if beginning:
        return "both ends" if end else "its beginning alone"
    return "its end alone" if end else "neither end"


def tuned_endpoints(
    endpoints: Mapping[str, Endpoint], longest: Mapping[str, int], calls: Sequence[StoredCall]
) -> dict[str, Endpoint]:
    """Return endpoints with concurrency, time-outs and batches that fit what was measured, unless the user gave them.

    None of these is part of a prompt, of a call's key or of a manifest.
    """
    return {
        role: endpoint.model_copy(
            update={
                name: value
                for name, value in _fitting(endpoint, longest.get(role, 0), measured_speed(calls, endpoint)).items()
                if name not in endpoint.model_fields_set
            }
        )
        for role, endpoint in endpoints.items()
    }


def _fitting(endpoint: Endpoint, longest: int, speed: Speed) -> dict[str, float]:
    if isinstance(endpoint, Embedding):
        rate = speed.texts_per_second
        # A batch of long texts takes longer than that of the known ones: it should end in a tenth of its time-out.
        return {"batch": max(1, min(endpoint.batch, int(rate * endpoint.timeout / 10)))} if rate else {}
    fitting: dict[str, float] = {}
    if speed.queues and speed.slots:  # one request at work and one in line for every slot
        fitting["concurrency"] = min(endpoint.concurrency, 2 * speed.slots)
    if speed.tokens_per_second:
        limit = endpoint.max_output_tokens if speed.obeys_limit else None
        most = min(limit or UNLIMITED_TOKENS, max(1, endpoint.context_window - longest))
        seconds = most / speed.tokens_per_second + longest / (speed.reads_per_second or float("inf"))
        waiting = 2 if speed.queues else 1
        if limit and 2 * waiting * seconds > endpoint.timeout:
            fitting["timeout"] = float(ceil(min(_LONGEST_TIMEOUT, 2 * waiting * seconds)))
    return fitting


def minutes_of(estimate: Estimate, endpoints: Mapping[str, Endpoint], calls: Sequence[StoredCall]) -> float | None:
    """Return how many minutes the pending calls of an estimate take at the measured speeds; None if unknown."""
    seconds = 0.0
    for row in estimate.rows:
        endpoint = endpoints.get(row.role)
        if not row.calls or endpoint is None:
            continue
        speed = measured_speed(calls, endpoint)
        if isinstance(endpoint, Embedding):
            if speed.texts_per_second is None:
                return None
            seconds += row.calls / speed.texts_per_second
        elif speed.tokens_per_second is None:
            return None
        else:
            at_once = min(endpoint.concurrency, speed.slots) if speed.queues and speed.slots else endpoint.concurrency
            reading = (row.input_tokens - row.cached_tokens) / (speed.reads_per_second or float("inf"))
            seconds += (row.output_tokens / speed.tokens_per_second + reading) / at_once
    return seconds / 60


def minutes_line(minutes: float | None) -> str:
    """Say how long calls take."""
    return f"at this speed the pending calls take about {max(1, round(minutes)):,} min" if minutes is not None else ""


def admit_endpoints(candidates: Candidates) -> dict[str, Endpoint]:
    """Print what `Admission` shows and return the endpoints with the settings that follow from it."""
    admission = Admission(candidates).ask()
    for line in admission.lines():
        print(f"  {line}", flush=True)
    return tuned_endpoints(candidates.endpoints, candidates.longest, admission.calls)


def quote_with_admission(quote: Quote, candidates: Candidates) -> Quote:
    """Add the calls of an admission to a quote."""
    dollars, calls = quote.dollars, 0
    for (role, _), step in count_admission(candidates, set(), WORD_COUNTER).items():
        dollars += candidates.endpoints[role].dollars(step.input, step.cached, step.output) or 0.0
        calls += step.pending
    text = (
        f"{quote.text}\n{count(calls, 'known question')} come first: together {cost_in_words(dollars, quote.unpriced)}"
    )
    return Quote(quote.pending + calls, dollars, text, quote.unpriced) if calls else quote
