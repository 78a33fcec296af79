"""`beamlib endpoints`: ask every endpoint of a models file what it can do; no run is begun and nothing is stored."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from beam_run.known_verdicts import JudgeExam, known_verdicts
from beamlib.commands.admission import known_questions
from beamlib.commands.options import Endpoints
from beamlib.confirmation import Quote, confirm_calls
from beamlib.errors import UserError
from beamlib.files import temporary_folder, to_json
from beamlib.llm.admission import WORDS, learn_mark
from beamlib.llm.client import EndpointModel
from beamlib.llm.embedding_model import EmbeddingModel, embedding_prompt, read_vector
from beamlib.llm.endpoints import EMBEDDING, Embedding, Endpoint, ModelsFile, Reader, load_models
from beamlib.llm.model import Completion, ModelError, Prompt, attempt_all, complete_all
from beamlib.llm.retrying import RetryingModel, is_truncated
from beamlib.llm.thoughts import clean_reply
from beamlib.text import cost_in_words, count

_LIMIT = 24
"""Output tokens that the request allows whose limit is tested."""
_AT_ONCE = 4
_TEXTS = 32


@dataclass
class EndpointReport:
    """What an endpoint did.

    Attributes:
        roles: Whom it serves.
        known: Known questions answered rightly, of those asked.
        window: Tokens of the long request, and what it knew of it.
        tokens_per_second: Of one reply at a time.
        slots: Requests that it works on at once, of `_AT_ONCE`.
        obeys_limit: Whether a limit of output tokens ended a reply.
        counts_tokens: Whether it says what a call has used.
        mark: How its thoughts begin and end, where that is not known anyway.
        judge: Its verdicts on known nuggets, where it judges.
        texts_per_second: Of an encoder.
    """

    model: str
    base_url: str
    roles: list[str]
    problem: str = ""
    known: tuple[int, int] = (0, 0)
    window: str = ""
    tokens_per_second: float | None = None
    slots: int | None = None
    obeys_limit: bool | None = None
    counts_tokens: bool | None = None
    mark: tuple[str, str] | None = None
    judge: JudgeExam | None = None
    texts_per_second: float | None = None
    dimensions: int | None = None

    def lines(self) -> Iterator[str]:
        """Yield lines for people."""
        yield f"{self.model} at {self.base_url} ({', '.join(self.roles)})"
        if self.problem:
            yield f"  {self.problem}"
        elif self.texts_per_second is not None:
            yield f"  {self.texts_per_second:,.0f} texts a second; {self.dimensions} dimensions"
        else:
            mark = "…".join(self.mark) if self.mark else "no new mark"
            obeys = "obeyed" if self.obeys_limit else "not obeyed: set max_output_tokens by its server"
            counts = "counted by the server" if self.counts_tokens else "counted by our own counter"
            yield f"  known questions: {self.known[0]} of {self.known[1]}; thoughts: {mark}; tokens {counts}"
            yield f"  long request: {self.window}; limit of reply tokens: {obeys}"
            yield f"  {self.tokens_per_second:,.1f} tokens a second; {self.slots} of {_AT_ONCE} requests at once"
        if self.judge:
            exam = self.judge
            yield f"  as a judge: {exam.read} of {exam.asked} verdicts readable, kappa {exam.kappa:.2f} with the truth"


def examine_endpoints(models: ModelsFile, longest: int) -> Iterator[EndpointReport]:
    """Ask every endpoint of a models file once, whatever roles it plays.

    Args:
        longest: Tokens of the long request, at most.
    """
    served: list[tuple[Endpoint, list[str]]] = []
    for role, given in models.by_stored_role():
        endpoint = given.of("") if isinstance(given, Reader) else given
        own = next((roles for known, roles in served if known == endpoint), None)
        if own is None:
            served.append((endpoint, [role]))
        elif role not in own:
            own.append(role)
    for endpoint, roles in served:
        report = EndpointReport(endpoint.model, endpoint.base_url, roles)
        try:
            if isinstance(endpoint, Embedding):
                _measure_encoder(endpoint, report)
            else:
                _ask_known(endpoint, report, longest)
                _measure_replies(endpoint, report)
                if "judge" in roles:
                    known = known_verdicts()
                    judge = RetryingModel(EndpointModel("judge", endpoint), [report.mark] if report.mark else [])
                    report.judge = JudgeExam.of(known, attempt_all(judge, [item.prompt for item in known]))
        except (UserError, ModelError) as error:
            report.problem = str(error)
        yield report


def _ask_known(endpoint: Endpoint, report: EndpointReport, longest: int) -> None:
    """Ask the known questions of a reader and of the endpoint's own roles."""
    room = min(longest, endpoint.context_window - (endpoint.max_output_tokens or 0))
    every = [question for role in ("reader", *report.roles) for question in known_questions(role, room)]
    questions = list({question.prompt.about: question for question in every}.values())
    model = EndpointModel(report.roles[0], endpoint)
    replies = zip(questions, attempt_all(model, [question.prompt for question in questions]), strict=True)
    pairs = [(question, reply) for question, reply in replies if isinstance(reply, Completion)]
    if not pairs:
        raise UserError("it answered none of the known questions")
    report.mark = learn_mark(
        [(reply.text, question.prompt.about) for question, reply in pairs if question.prompt.about in WORDS]
    )
    marks = [report.mark] if report.mark else []
    right = [question for question, reply in pairs if question.is_right(clean_reply(reply.text, marks).text)]
    report.known = len(right), len(questions)
    report.counts_tokens = not any(reply.usage.estimated for _, reply in pairs)
    for question, reply in pairs:
        if question.tokens:
            read = f"; the server counts {reply.usage.input_tokens:,}" if report.counts_tokens else ""
            knew = "both ends known" if question in right else "not both ends known"
            report.window = f"{question.tokens:,} tokens, {knew}{read}"


def _measure_replies(endpoint: Endpoint, report: EndpointReport) -> None:
    """Measure a reply's speed alone and beside others, and whether a limit of its tokens is obeyed."""
    short = EndpointModel(report.roles[0], endpoint.model_copy(update={"max_output_tokens": _LIMIT}))
    question = {"context": "[messages 2-3]\nUSER: Hello.", "question": "Count from 1 to 500, every number in a line."}
    prompts = [Prompt("answer", question, "counting", repeat=number) for number in range(_AT_ONCE + 1)]
    started = time.perf_counter()
    (alone,) = complete_all(short, prompts[:1])
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    complete_all(short, prompts[1:])
    together = time.perf_counter() - started
    report.obeys_limit = is_truncated(alone.finish_reason) or alone.usage.output_tokens <= _LIMIT
    report.tokens_per_second = alone.usage.output_tokens / seconds
    report.slots = max(1, min(_AT_ONCE, round(_AT_ONCE * seconds / together)))


def _measure_encoder(endpoint: Embedding, report: EndpointReport) -> None:
    texts = [f"Note {number}: the garden gate is painted in colour {number * 7}." for number in range(_TEXTS)]
    started = time.perf_counter()
    replies = complete_all(EmbeddingModel(EMBEDDING, endpoint), [embedding_prompt(text) for text in texts])
    report.texts_per_second = _TEXTS / (time.perf_counter() - started)
    report.dimensions = read_vector(replies[0]).size


def report_endpoints(served: Endpoints, longest: int, *, yes: bool, as_json: bool) -> None:
    """Print what the endpoints do, once the user has confirmed the requests.

    Raises:
        UserError: None of them can be used.
    """
    with temporary_folder("beamlib-endpoints-") as folder:
        file = served.path(folder)
        if not file:
            raise UserError("beamlib endpoints: name the models with --models or --base-url.")
        models = load_models(Path(file))
    models.take_keys()
    asked = len({(endpoint.model, endpoint.base_url) for _, endpoint in models.by_stored_role()})
    most = asked * (len(known_verdicts()) + _AT_ONCE + 7)
    text = f"at most {most} requests to {count(asked, 'endpoint')}, one of {longest:,} tokens each, the others short"
    prices = [endpoint.dollars(longest + 60_000, 0, 5_000) for _, endpoint in models.by_stored_role()]
    dollars = sum(price or 0.0 for price in set(prices))
    unpriced = tuple(
        sorted({endpoint.model for _, endpoint in models.by_stored_role() if endpoint.dollars(1, 0, 1) is None})
    )
    confirm_calls(
        {"": Quote(most, dollars, f"{text}: {cost_in_words(dollars, unpriced)}", unpriced)}, lambda: None, yes
    )
    reports = []
    for report in examine_endpoints(models, longest):
        reports.append(report)
        if not as_json:
            print(*report.lines(), sep="\n", flush=True)
    if as_json:
        print(to_json([asdict(report) for report in reports], indent=2))
    if all(report.problem for report in reports):
        raise UserError("none of the endpoints can be used, for the reasons above; correct the models file.")
