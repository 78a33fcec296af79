"""Ask every role a few questions whose answers are known, before a run pays for anything else.

The prompts are those of the run, with made-up contents: a word to repeat, a decision, a form to fill, and, for readers
and memory, a request almost as long as the longest of the run with a word at either end. The calls are stored like any
other, so a resumed run asks nothing again and a replay asks nothing at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from beamlib.commands.costs import Estimate
from beamlib.errors import UserError
from beamlib.evaluate.calling import open_models
from beamlib.llm.admission import ADMISSION, WORDS, admission_calls, learnt_marks
from beamlib.llm.call_store import StoredCall
from beamlib.llm.endpoints import EMBEDDING, Endpoint
from beamlib.llm.faults import CONTINUE, Asker, advice
from beamlib.llm.model import Completion, Model, ModelError, ModelRoles, Outcome, Prompt, Usage, attempt_all
from beamlib.llm.retrying import read_decision
from beamlib.run import READER_OF, Run
from beamlib.scoring.replies import read_score

_PLAIN = ("the", "river", "and", "a", "stone", "were", "old", "but", "we", "went", "on", "by", "way", "of", "home")
"""Words that are one token each in the usual vocabularies."""
_ENDS = ("orchard", "violin")
"""The first and the last word of the long request."""
_LONG = "long"
_SHARE = 0.9
"""The long request's share of the longest one that the run will send."""
_FRAME = 250
"""Tokens of a prompt around its context, and words that are worth a request of their own."""
_CUT = 0.6
"""A smaller share of our own count of tokens shows that a server has read a part only."""


@dataclass(frozen=True)
class KnownQuestion:
    """A prompt and what its reply has to say.

    Attributes:
        words: Words that the reply has to contain.
        decision: The yes or no that it has to be.
        score: The score that it has to give.
        tokens: Tokens of a long request.
    """

    prompt: Prompt
    words: tuple[str, ...] = ()
    decision: bool | None = None
    score: float | None = None
    tokens: int = 0

    def is_right(self, reply: str) -> bool:
        """Tell whether a reply says what is known."""
        if self.decision is not None:
            return read_decision(reply) is self.decision
        if self.score is not None:
            return read_score(reply)[0] == self.score
        return all(word in reply.casefold() for word in self.words)


Answered = tuple[KnownQuestion, Completion | ModelError]


def known_questions(role: str, longest: int = 0, repeat: int = 0) -> list[KnownQuestion]:
    """Return the known questions of a role.

    Args:
        longest: Tokens of the role's longest request; 0 for no long request.
        repeat: How often the long request was sent and cut.
    """
    asked = [_word(word) for word in WORDS]
    if role == "memory":
        variables = {"chunk": "- [messages 2-3] I keep fourteen hives.", "question": "How many hives do I keep?"}
        asked.append(KnownQuestion(Prompt("scratchpad_filter", variables, "a note that answers"), decision=True))
    elif role == "aligner":
        variables = {"event": "Selling the old van", "nugget": "Learning to sail"}
        asked.append(KnownQuestion(Prompt("align_events", variables, "two unlike events"), decision=False))
    elif role == "judge":
        variables = {
            "question": "How many hives do I keep?", "answer": "You keep fourteen hives.",
            "nugget": "LLM response should state: fourteen hives",
        }  # fmt: skip
        asked.append(KnownQuestion(Prompt("judge_nugget", variables, "a criterion that is met"), score=1.0))
    tokens = int(longest * _SHARE) - _FRAME
    if (role == "memory" or role.startswith("reader")) and tokens > _FRAME:
        asked.append(_long(tokens, repeat))
    return asked


def _word(word: str) -> KnownQuestion:
    variables = {
        "context": f"[messages 2-3]\nUSER: The password of the garden gate is {word}.\nASSISTANT: I will remember it.",
        "question": "What is the password of the garden gate? Reply with that word alone.",
    }
    return KnownQuestion(Prompt("answer", variables, word), (word,))


def _long(tokens: int, repeat: int) -> KnownQuestion:
    plain = " ".join(islice(cycle(_PLAIN), tokens))
    context = f"The first password is {_ENDS[0]}. {plain}. The last password is {_ENDS[1]}."
    question = "What are the first and the last password? Reply with these two words alone."
    prompt = Prompt("answer", {"context": context, "question": question}, f"{_LONG} {tokens}", repeat=repeat)
    return KnownQuestion(prompt, _ENDS, tokens=tokens)


def _is_cut(text: str | None, usage: Usage, tokens: int) -> bool:
    """Tell whether a server has read a part of a long request alone, by its own count and by what it knows."""
    return not usage.estimated and usage.input_tokens < _CUT * tokens and _ENDS[0] not in (text or "").casefold()


def ask_known(models: ModelRoles, run: Run, longest: Mapping[str, int]) -> Iterator[tuple[str, list[Answered]]]:
    """Ask the roles of `longest` their known questions; an endpoint's long request is sent once in a run's folder."""
    stored = [call for call in admission_calls(run.calls_folder()) if call.about.startswith(_LONG) and call.text]
    for role, tokens in longest.items():
        endpoint = run.endpoints[role]
        whose = role, endpoint.model, endpoint.base_url
        own = [call for call in stored if (call.role, call.model, call.base_url) == whose]
        cut = [call for call in own if _is_cut(call.text, call.usage, int(call.about.rpartition(" ")[2]))]
        done = len(cut) < len(own) and run.calls != "refresh"
        questions = known_questions(role, 0 if done else min(tokens, _room(endpoint)), len(cut))
        replies = attempt_all(_model_of(models, role), [question.prompt for question in questions])
        yield role, list(zip(questions, replies, strict=True))


def admit(run: Run, estimate: Estimate) -> list[str]:
    """Ask the roles that a confirmed run will call, and say in two lines what their replies show.

    Raises:
        UserError: A role answers none of its questions, or reads less of a request than it is sent.
    """
    longest = {role: int(sizes.partition(" of ")[0].replace(",", "")) for role, sizes in estimate.longest.items()}
    longest.pop(EMBEDDING, None)
    with open_models(run, ADMISSION) as models:
        answered = {}
        for role, pairs in ask_known(models, run, longest):
            _refuse_useless(role, run.endpoints[role], pairs)
            answered[role] = pairs
    return list(_lines(run, answered, admission_calls(run.calls_folder())))


def _model_of(models: ModelRoles, role: str) -> Model:
    return models.methods[role.removeprefix(READER_OF)] if role.startswith(READER_OF) else getattr(models, role)


def _room(endpoint: Endpoint) -> int:
    return endpoint.context_window - (endpoint.max_output_tokens or 0) - 1_000


def _refuse_useless(role: str, endpoint: Endpoint, pairs: Sequence[Answered]) -> None:
    who = f"The {role} model {endpoint.model} at {endpoint.base_url}"
    errors = [reply for _, reply in pairs if isinstance(reply, ModelError)]
    if len(errors) == len(pairs):
        message = str(errors[0]).removeprefix(f"{who} ")
        status = re.search(r"status (\d{3})\b", message)
        cure = advice(message, int(status[1]) if status else 0, Asker(who, endpoint.key_variable))
        raise UserError(f"{who} {message}; it answered none of {len(pairs)} known questions; {cure}; {CONTINUE}.")
    for question, reply in pairs:
        if not question.tokens:
            continue
        if isinstance(reply, ModelError):
            if reply.outcome is Outcome.CONTEXT_LENGTH:
                raise UserError(
                    f"{reply}; this run sends requests of that length: raise the server's window, or give the one that "
                    f"it has (--context-window, context_window in the models file); {CONTINUE}."
                )
            continue
        read = reply.usage.input_tokens
        if _is_cut(reply.text, reply.usage, question.tokens):
            raise UserError(
                f"{who} counts {read:,} tokens of a request of {question.tokens:,} and does not know how it began: it "
                "cuts long requests without a word. Raise the server's window (Ollama: num_ctx), or give "
                f"--context-window {max(1_000, read)} (context_window in the models file); {CONTINUE}."
            )


def _lines(run: Run, answered: Mapping[str, Sequence[Answered]], calls: Sequence[StoredCall]) -> Iterator[str]:
    """Yield the two lines: who answered, by which end, marks and counts; and which ends of long requests were known."""
    known, windows, ends = list[str](), list[str](), set[str]()
    for role, pairs in answered.items():
        replies = [(question, reply) for question, reply in pairs if isinstance(reply, Completion)]
        known.append(f"{role} {sum(question.is_right(reply.text) for question, reply in replies)} of {len(pairs)}")
        ends.update(reply.finish_reason for _, reply in replies)
        for question, reply in replies:
            if question.tokens:
                seen = [word in reply.text.casefold() for word in _ENDS]
                what = {(True, True): "both ends", (True, False): "its beginning alone", (False, True): "its end alone"}
                windows.append(f"{role} {question.tokens:,} tokens, knew {what.get((seen[0], seen[1]), 'neither end')}")
    marks = dict.fromkeys(mark for role in answered for mark in learnt_marks(calls, run.endpoints[role]))
    thoughts = "; ".join(f"{opening}…{closing}" for opening, closing in marks) or "no new mark"
    counted = "our own counter" if any(call.estimated for call in calls) else "the server"
    yield (
        f"known questions answered: {', '.join(known)}; replies end with {', '.join(sorted(ends)) or 'nothing'}; "
        f"thoughts: {thoughts}; tokens counted by {counted}"
    )
    if windows:
        yield f"long requests: {'; '.join(windows)}"
