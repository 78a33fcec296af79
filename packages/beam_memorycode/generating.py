"""`beamlib memorycode generate`: templates drawn, conversations written, dialogues in the authors' layout.

`<out>/dataset/dialogue_<id>.json`, `<out>/topics.json` (the seeds), `<out>/generation.json` (the order, who wrote it,
each dialogue's SHA-256), and with models `<out>/calls/dialogue_<id>.sqlite`. A run that is killed goes on where it was:
a dialogue that `generation.json` lists is not written again, and no call is paid for twice.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

from beam_commands.admission import Candidates, admit_endpoints, quote_with_admission
from beam_commands.confirmation import Quote, confirm_calls, cost_in_words
from beam_memorycode.bank import foreign, take_apart, topics_json
from beam_memorycode.dialogue_files import DATASET, LoadedDialogue, write_dialogue
from beam_memorycode.dialogues import SESSION_COUNTS, Dialogue, Setting
from beam_memorycode.offline_writer import SESSION_WORDS, WRITER_PROMPT, OfflineWriter, conversation_variables
from beam_memorycode.templates import MOST_SESSIONS, RECIPES, draw_template, with_texts
from beamlib.data.generation_record import GenerationRecord
from beamlib.errors import UserError
from beamlib.files import code_hash, write_json
from beamlib.llm.admission import admission_calls, learnt_marks
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint, ModelsFile, load_models
from beamlib.llm.model import OFFLINE_NAME, Completion, Model, ModelError, Outcome, Prompt, run
from beamlib.llm.prompts import Prompts, render
from beamlib.llm.retrying import ReadReply, RetryingModel, ask, gather
from beamlib.llm.spending import guard_run
from beamlib.llm.stored_model import CallStore, Mode, StoredModel
from beamlib.places import RECORD, refuse_data
from beamlib.text import shell_command

TOPICS, CALLS = "topics.json", "calls"
_TEMPLATE_CODE = tuple(f"beam_memorycode.{name}" for name in ("bank", "offline_writer", "templates", "words"))
_TOGETHER = 8  # dialogues that are waited for at a time; the endpoint's own lanes bound its calls
_CHARACTERS_PER_TOKEN, _TOKENS_PER_WORD = 4.2, 1.4


_OUTSIDE = re.compile(r"[\[(*#<=_-]|\w[\w .'-]{0,29}: |\S+$")  # a stage direction, an unknown speaker, a lone word
_TRIED = ("A first reply", "A second reply", "A third reply")
"""The start of each complaint. They differ because a repeated request is answered from the store."""

_ANEW = (
    "Write the whole conversation anew: turns of these two and nothing else, each instruction of the list stated by "
    "the mentor, no other coding instruction, no code."
)


def conversation_prompt(dialogue: Dialogue, place: int) -> Prompt:
    """Return the prompt for the session at `place` (0-based)."""
    about = f"dialogue {dialogue.id}, session {place + 1} of {len(dialogue.sessions)}"
    return Prompt(WRITER_PROMPT, conversation_variables(dialogue, place), about)


async def hold_conversations(model: Model, dialogue: Dialogue) -> list[str | ModelError]:
    """Return the texts of all sessions in order; a session without a usable reply has a `ModelError` with the reason.

    A reply that breaks a rule of the prompt is asked for again with a complaint, at most twice. Any other exception is
    raised once all calls have ended.
    """
    return await gather(_hold(model, dialogue, place) for place in range(len(dialogue.sessions)))


async def _hold(model: Model, dialogue: Dialogue, place: int) -> str | ModelError:
    def read(reply: Completion, attempt: int) -> ReadReply[str]:
        text, problem = check_conversation(reply.text, dialogue.context, dialogue.sessions[place].instructions)
        if problem and attempt + 1 == len(_TRIED):
            raise ModelError(f"asked {len(_TRIED)} times, and of the last reply: {problem}", Outcome.UNREADABLE)
        return text, f"{_TRIED[attempt]} to this could not be used. {problem} {_ANEW}" if problem else None

    try:
        return await ask(model, conversation_prompt(dialogue, place), read, tries=len(_TRIED))
    except ModelError as error:
        return error


def split_turns(text: str, context: Setting) -> tuple[list[tuple[str, str]], str]:
    """Return (name, text) of each turn, and what is wrong with the form, "" if nothing is.

    Bold names count as names. A line without a name continues the turn before it, unless it is a stage direction or
    another speaker's.
    """
    names = "|".join(re.escape(name) for name in (context.mentor, context.mentee))
    start = re.compile(rf"\**({names})\**:\**\s*(.*)")
    turns: list[tuple[str, str]] = []
    for line in text.splitlines():
        words = " ".join(line.split())
        if match := start.fullmatch(words):
            turns.append((match[1], match[2]))
        elif words and (not turns or _OUTSIDE.match(words)):
            return turns, f"The line {words[:60]!r} is not said by {context.mentor} or {context.mentee}."
        elif words:
            turns[-1] = (turns[-1][0], f"{turns[-1][1]} {words}".strip())
    for name in (context.mentor, context.mentee):
        if not any(who == name and words for who, words in turns):
            return turns, f"{name} says nothing."
    return turns, ""


def check_conversation(reply: str, context: Setting, instructions: Sequence[str]) -> tuple[str, str]:
    """Return the conversation in its normal form, and what is wrong with it, "" if nothing is.

    Both have to speak; the mentor has to state each of `instructions` with its value, and nobody another one; no code
    is shown.
    """
    turns, problem = split_turns(reply, context)
    text = "\n\n".join(f"{name}: {words}" for name, words in turns)
    if problem:
        return text, problem
    mentor = " ".join(words for name, words in turns if name == context.mentor)
    wordings = {instruction: take_apart(instruction) for instruction in instructions}
    for instruction, wording in wordings.items():
        if not (instruction in mentor if wording is None else wording.stated_in(mentor)):
            return text, f"{context.mentor} does not say that {context.mentee} should {instruction}."
    if "```" in reply:
        return text, "It shows code."
    if mark := foreign(text, [wording for wording in wordings.values() if wording]):
        return text, f"The part {mark[:40]!r} belongs to no instruction that was asked for."
    return text, ""


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """What is to be generated: `per_count` dialogues (30 in the published set) of each number of sessions in `counts`.

    Without `models` (a models file, role `speaker`) the offline writer writes. `calls` and `yes` are as in `beamlib
    generate`: nothing is called before `yes`. With `admission` the speaker answers known questions first.
    """

    out: Path
    seed: int = 7
    recipe: str = "paper"
    counts: Sequence[int] = SESSION_COUNTS
    per_count: int = 1
    models: Path | None = None
    calls: Mode | str = "record"
    prompts: Path | None = None
    yes: bool = False
    admission: bool = False


@dataclass(frozen=True, slots=True)
class DialogueRequest:
    """A dialogue to generate: its id, its number of sessions, and its number (1-based) among those of that length."""

    id: int
    sessions: int
    number: int


def list_requests(order: GenerateOptions) -> list[DialogueRequest]:
    """Number the dialogues from 1 by number of sessions, as published; raise `UserError` for bad numbers."""
    for count in order.counts:
        if not 1 <= count <= MOST_SESSIONS:
            raise UserError(f"counts: {count} is no number of sessions; name numbers from 1 to {MOST_SESSIONS}.")
    if not order.counts:
        raise UserError("counts: no number of sessions is named; name at least one.")
    if order.per_count < 1:
        raise UserError(f"per_count is {order.per_count}; write at least one dialogue of each number of sessions.")
    pairs = [(count, number) for count in sorted(set(order.counts)) for number in range(1, order.per_count + 1)]
    return [DialogueRequest(place, *pair) for place, pair in enumerate(pairs, start=1)]


def generate_dialogues(order: GenerateOptions) -> list[int]:
    """Write the dialogues of `order` that are not there yet and return their ids.

    Raises:
        UserError: The order is wrong, the folder holds something else, or a dialogue could not be written.
    """
    models, prompts = _check(order)
    endpoint = models.author("speaker") if models else None
    refuse_data(order.out)
    requests = list_requests(order)
    record = _record(order, endpoint, prompts)
    pending = [request for request in requests if not record.holds(request.id, _path(order.out, request))]
    candidates = None
    if endpoint is not None and order.calls != "replay" and pending:
        dialogues = [_template(order, request).dialogue for request in pending]
        quote = estimate_dialogues(dialogues, endpoint, prompts)
        if order.admission:
            candidates = _candidate(order, endpoint, prompts, dialogues)
            quote = quote_with_admission(quote, candidates)
        order = replace(order, yes=confirm_calls({"": quote}, EndpointModel("speaker", endpoint).check_key, order.yes))
    started = time.monotonic()
    print(f"author: {endpoint.model if endpoint else OFFLINE_NAME}")
    record.write()
    write_json(order.out / TOPICS, topics_json())
    with guard_run(order.out, models, calls=order.calls):
        if candidates:
            endpoint = admit_endpoints(candidates)["speaker"]
        written, failures = _write_all(order, endpoint, prompts, pending, record)
    print(
        f"{order.out / DATASET}: {len(written)} dialogue(s) written, {len(requests) - len(pending)} there before, "
        f"{len(failures)} not written, in {time.monotonic() - started:.0f} s"
    )
    if failures:
        raise UserError(
            f"{order.out}: {len(failures)} of {len(requests)} dialogues are not written, the first for this reason: "
            f"{failures[0]}; the same command asks again what may pass, and with --calls refresh all of these "
            "dialogues."
        )
    return written


def _candidate(
    order: GenerateOptions, endpoint: Endpoint, prompts: Prompts, dialogues: Sequence[Dialogue]
) -> Candidates:
    """Return the speaker, with the tokens of its longest request."""
    longest = max(
        sum(
            len(message["content"])
            for message in render(WRITER_PROMPT, conversation_variables(dialogue, place), prompts)
        )
        for dialogue in dialogues
        for place in range(len(dialogue.sessions))
    )
    mode: Any = order.calls
    tokens = {"speaker": int(longest / _CHARACTERS_PER_TOKEN)}
    return Candidates({"speaker": endpoint}, tokens, order.out, order.out / CALLS, prompts, mode, _command(order))


def estimate_dialogues(dialogues: Sequence[Dialogue], endpoint: Endpoint, prompts: Prompts | None = None) -> Quote:
    """Estimate the calls and the cost of writing `dialogues`; stored replies are counted as well."""
    characters, words = 0, []
    for dialogue in dialogues:
        for place, session in enumerate(dialogue.sessions):
            messages = render(WRITER_PROMPT, conversation_variables(dialogue, place), prompts)
            characters += sum(len(message["content"]) for message in messages)
            words.append(SESSION_WORDS[session.length])
    sent, written = characters / _CHARACTERS_PER_TOKEN, sum(words) * _TOKENS_PER_WORD
    dollars = endpoint.dollars(sent, 0, written)
    unpriced = (endpoint.model,) if dollars is None else ()
    text = (
        f"speaker {endpoint.model}: about {len(words):,d} calls for {len(dialogues):,d} dialogue(s), {sent:,.0f} input "
        f"and {written:,.0f} output tokens, {cost_in_words(dollars or 0.0, unpriced)}; replies asked for again come on "
        "top, and those that are stored from an earlier run are counted as well though not paid again."
    )
    return Quote(len(words), dollars or 0.0, text, unpriced)


def _check(order: GenerateOptions) -> tuple[ModelsFile | None, Prompts]:
    """Read the models file, None for the offline writer, and the prompts; raise `UserError` for a mistake."""
    for option, value, known in (("recipe", order.recipe, RECIPES), ("--calls", order.calls, get_args(Mode))):
        if value not in known:
            raise UserError(f"{option}: {value!r:.80} does not exist; choose one of {', '.join(known)}.")
    if order.models is None:
        for option, is_set in (("--prompts", order.prompts is not None), ("--calls", order.calls != "record")):
            if is_set:
                raise UserError(f"{option}: the offline writer asks no model; name a models file by --models as well.")
        return None, Prompts.read()
    return load_models(order.models), Prompts.read(order.prompts)


def _record(order: GenerateOptions, endpoint: Endpoint | None, prompts: Prompts) -> GenerationRecord:
    """Open the record of the order, and of what the dialogues rest on beside it."""
    basis: dict[str, Any] = {"author": OFFLINE_NAME, "rules": code_hash(_TEMPLATE_CODE)}
    if endpoint is not None:
        basis |= {"author": endpoint.settings, "prompt": prompts[WRITER_PROMPT].sha256}
    counts = sorted(set(order.counts))
    numbers = {"seed": order.seed, "recipe": order.recipe, "counts": counts, "per_count": order.per_count}
    if (order.out / TOPICS).exists() and not (order.out / RECORD).exists():
        raise UserError(f"{order.out / TOPICS}: was not generated here; choose another folder.")
    return GenerationRecord.open(order.out, "dialogues", "id", numbers | basis)


def _path(out: Path, request: DialogueRequest) -> Path:
    return out / DATASET / f"dialogue_{request.id}.json"


def _template(order: GenerateOptions, request: DialogueRequest) -> LoadedDialogue:
    sessions, number = request.sessions, request.number
    return draw_template(request.id, seed=order.seed, name=order.recipe, sessions=sessions, number=number)


def _write_all(
    order: GenerateOptions,
    endpoint: Endpoint | None,
    prompts: Prompts,
    pending: Sequence[DialogueRequest],
    record: GenerationRecord,
) -> tuple[list[int], list[str]]:
    """Write what is pending; return the ids written and why others are not."""
    written: list[int] = []
    failures: list[str] = []
    run_id = uuid.uuid4().hex
    # The offline writer is bound by the processor; with an endpoint a thread mostly waits.
    pool = ThreadPoolExecutor(_TOGETHER if endpoint else 1)
    try:
        reasons = pool.map(lambda request: _write_dialogue(order, endpoint, prompts, request, run_id), pending)
        for request, reason in zip(pending, reasons, strict=True):
            if reason:
                failures.append(reason)
                continue
            record.add(request.id, _path(order.out, request), asdict(request))
            written.append(request.id)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an interrupt need not wait for dialogues to be finished
    return written, failures


def _write_dialogue(
    order: GenerateOptions, endpoint: Endpoint | None, prompts: Prompts, request: DialogueRequest, run_id: str
) -> str:
    """Write a dialogue whole, or return why it could not be written."""
    item = _template(order, request)
    with _open_speaker(order, endpoint, prompts, item.dialogue, run_id) as model:
        texts = run(hold_conversations(model, item.dialogue))
    for place, text in enumerate(texts, start=1):
        if isinstance(text, ModelError):
            return f"dialogue {request.id}, session {place} of {request.sessions}: {text.reason}".rstrip(".")
    write_dialogue(order.out, with_texts(item, [text for text in texts if isinstance(text, str)]))
    return ""


@contextmanager
def _open_speaker(
    order: GenerateOptions, endpoint: Endpoint | None, prompts: Prompts, dialogue: Dialogue, run_id: str
) -> Iterator[Model]:
    """Open the model that writes a dialogue; an endpoint's calls go through the dialogue's own store."""
    if endpoint is None:
        yield OfflineWriter(dialogue)
        return
    mode: Any = order.calls
    with CallStore(order.out / CALLS / f"{dialogue.name}.sqlite", read_only=mode == "replay", run_id=run_id) as store:
        yield RetryingModel(
            StoredModel(
                EndpointModel("speaker", endpoint, prompts=prompts),
                store,
                mode,
                role="speaker",
                conversation=f"dialogue {dialogue.id}",
                command=_command(order),
                confirmed=order.yes,
            ),
            learnt_marks(admission_calls(order.out), endpoint),
        )


def _command(order: GenerateOptions) -> str:
    """Return the command line that records the calls of `order`."""
    options = {
        "--out": order.out,
        "--seed": order.seed,
        "--recipe": order.recipe,
        "--counts": ",".join(str(count) for count in sorted(set(order.counts))),
        "--per-count": order.per_count,
        "--models": order.models or "",
        "--prompts": order.prompts or "",
    }
    return shell_command("beamlib memorycode generate", options, end=["--yes"])
