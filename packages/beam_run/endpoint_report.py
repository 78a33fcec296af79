"""`beamlib endpoints`: ask every endpoint of a models file what it can do; no run is begun and nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from beam_commands.admission import Admission, Candidates, ExamResult
from beam_commands.confirmation import Quote, confirm_calls, cost_in_words
from beam_commands.options import Endpoints
from beam_commands.run_admission import judges_exam
from beamlib.errors import UserError
from beamlib.files import temporary_folder, to_json
from beamlib.llm.admission import AT_ONCE, learnt_marks, measured_speed
from beamlib.llm.embedding_model import read_vector
from beamlib.llm.endpoints import Embedding, Endpoint, ModelsFile, Reader, load_models
from beamlib.llm.model import Completion, ModelError
from beamlib.llm.prompts import Prompts
from beamlib.text import count


@dataclass
class EndpointReport:
    """What an endpoint did.

    Attributes:
        roles: Whom it serves.
        known: Known questions answered rightly, of those asked.
        constant: That all of them got one reply, if so.
        window: Tokens of the long request, and what it knew of it.
        tokens_per_second: Of one reply at a time.
        slots: Requests that it works on at once, of `AT_ONCE`.
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
    constant: str = ""
    window: str = ""
    tokens_per_second: float | None = None
    slots: int | None = None
    obeys_limit: bool | None = None
    counts_tokens: bool | None = None
    mark: tuple[str, str] | None = None
    judge: ExamResult | None = None
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
            yield f"  {self.tokens_per_second:,.1f} tokens a second; {self.slots} of {AT_ONCE} requests at once"
        if self.constant:
            yield f"  {self.constant}"
        if self.judge:
            yield f"  {self.judge.line}"


def examine_endpoints(models: ModelsFile, longest: int, folder: Path) -> Iterator[EndpointReport]:
    """Ask every endpoint of a models file once, whatever roles it plays.

    Args:
        longest: Tokens of the long request, at most.
        folder: An empty folder for the calls.
    """
    served: list[tuple[Endpoint, list[str]]] = []
    for role, given in models.by_stored_role():
        endpoint = given.of("") if isinstance(given, Reader) else given
        own = next((roles for known, roles in served if known == endpoint), None)
        if own is None:
            served.append((endpoint, [role]))
        elif role not in own:
            own.append(role)
    for number, (endpoint, roles) in enumerate(served):
        report = EndpointReport(endpoint.model, endpoint.base_url, roles)
        asked = roles if isinstance(endpoint, Embedding) else dict.fromkeys(("reader", *roles))
        root = folder / str(number)
        endpoints, requests = dict.fromkeys(asked, endpoint), dict.fromkeys(asked, longest)
        candidates = Candidates(
            endpoints, requests, root, root / "calls", Prompts.read(), exam=judges_exam(), judge_anyway=True
        )
        try:
            _note(report, Admission(candidates).ask())
        except (UserError, ModelError) as error:
            report.problem = str(error)
        yield report


def _note(report: EndpointReport, admission: Admission) -> None:
    """Note what an admission shows of the one endpoint that it asked."""
    (endpoint, *_), calls = admission.candidates.endpoints.values(), admission.calls
    speed = measured_speed(calls, endpoint)
    report.texts_per_second, report.tokens_per_second = speed.texts_per_second, speed.tokens_per_second
    report.constant = admission.constant
    report.slots, report.obeys_limit, report.judge = speed.slots, speed.obeys_limit, admission.exam
    if isinstance(endpoint, Embedding):
        report.dimensions = read_vector(calls[0].completion()).size
        return
    report.mark = next(iter(learnt_marks(calls, endpoint)), None)
    pairs = {question.prompt.about: (question, reply) for own in admission.answered.values() for question, reply in own}
    replies = [(question, reply) for question, reply in pairs.values() if isinstance(reply, Completion)]
    right = [question for question, reply in replies if question.is_right(reply.text)]
    report.known = len(right), len(pairs)
    report.counts_tokens = not any(call.estimated for call in calls)
    for question, reply in replies:
        if question.tokens:
            read = f"; the server counts {reply.usage.input_tokens:,}" if report.counts_tokens else ""
            knew = "both ends known" if question in right else "not both ends known"
            report.window = f"{question.tokens:,} tokens, {knew}{read}"


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
    most = asked * (len(judges_exam().questions) + AT_ONCE + 8)
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
    with temporary_folder("beamlib-endpoints-") as folder:
        for report in examine_endpoints(models, longest, folder):
            reports.append(report)
            if not as_json:
                print(*report.lines(), sep="\n", flush=True)
    if as_json:
        print(to_json([asdict(report) for report in reports], indent=2))
    if all(report.problem for report in reports):
        raise UserError("none of the endpoints can be used, for the reasons above; correct the models file.")
