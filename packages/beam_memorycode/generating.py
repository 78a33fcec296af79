"""`beamlib memorycode generate`: templates drawn, conversations written, dialogues in the authors' layout.

`<out>/dataset/dialogue_<id>.json`, `<out>/topics.json` (the seeds), `<out>/generation.json` (the order, who wrote it,
each dialogue's SHA-256), and with models `<out>/calls/dialogue_<id>.sqlite`. A run that is killed goes on where it was:
a dialogue that `generation.json` lists is not written again, and no call is paid for twice.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from beam_memorycode.bank import topics_json
from beam_memorycode.conversing import conversation_prompt, hold_conversations
from beam_memorycode.dialogue_files import DATASET, LoadedDialogue, write_dialogue
from beam_memorycode.dialogues import SESSION_COUNTS, Dialogue
from beam_memorycode.offline_writer import PROMPT, WORDS, OfflineWriter
from beam_memorycode.templates import MOST_SESSIONS, RECIPES, draw_template, with_texts
from beamlib.confirmation import Quote, confirm_calls
from beamlib.data.generation_record import GenerationRecord
from beamlib.data.sources import RECORD, refuse_data
from beamlib.errors import UserError
from beamlib.files import code_hash, write_json
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint, load_models
from beamlib.llm.model import OFFLINE_NAME, Model, ModelError, run
from beamlib.llm.prompts import check_overrides, prompt_file, render
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.spending import guard_run
from beamlib.llm.stored_model import CallStore, Mode, StoredModel
from beamlib.text import cost_in_words, shell_command

TOPICS, CALLS = "topics.json", "calls"
_TEMPLATE_CODE = tuple(f"beam_memorycode.{name}" for name in ("bank", "offline_writer", "talk", "templates", "words"))
_TOGETHER = 8  # dialogues that are waited for at a time; the endpoint's own lanes bound its calls
_CHARACTERS_PER_TOKEN, _TOKENS_PER_WORD = 4.2, 1.4


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """What is to be generated: `per_count` dialogues (30 in the published set) of each number of sessions in `counts`.

    Without `models` (a models file, role `speaker`) the offline writer writes. `calls` and `yes` are as in `beamlib
    generate`: nothing is called before `yes`.
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """One dialogue of an order: its id, its number of sessions, and its number (1-based) among those."""

    id: int
    sessions: int
    number: int


@dataclass(frozen=True, slots=True)
class Generated:
    """What came of an order: ids written now, ids that were there, and why others have not been written."""

    written: tuple[int, ...]
    there: tuple[int, ...]
    failed: tuple[str, ...]


def wanted_dialogues(order: GenerateOptions) -> list[Wanted]:
    """The dialogues of an order, ids from 1 by number of sessions, as published. Bad numbers are a `UserError`."""
    for count in order.counts:
        if not 1 <= count <= MOST_SESSIONS:
            raise UserError(f"counts: {count} is no number of sessions; name numbers from 1 to {MOST_SESSIONS}.")
    if not order.counts:
        raise UserError("counts: no number of sessions is named; name at least one.")
    if order.per_count < 1:
        raise UserError(f"per_count is {order.per_count}; write at least one dialogue of each number of sessions.")
    pairs = [(count, number) for count in sorted(set(order.counts)) for number in range(1, order.per_count + 1)]
    return [Wanted(place, *pair) for place, pair in enumerate(pairs, start=1)]


def generate_dialogues(order: GenerateOptions) -> Generated:
    """Write what was ordered and say so; the `UserError` at the end names what could not be written."""
    endpoint = _check(order)
    refuse_data(order.out)
    wanted = wanted_dialogues(order)
    record = _record(order, endpoint)
    pending = [one for one in wanted if not record.holds(one.id, _path(order.out, one))]
    if endpoint is not None and order.calls != "replay" and pending:
        quote = estimate([_template(order, one).dialogue for one in pending], endpoint, order.prompts)
        order = replace(order, yes=confirm_calls({"": quote}, EndpointModel("speaker", endpoint).check_key, order.yes))
    started, run_id = time.monotonic(), uuid.uuid4().hex
    print(f"author: {endpoint.model if endpoint else OFFLINE_NAME}")
    record.write()
    write_json(order.out / TOPICS, topics_json())
    with guard_run(order.out, str(order.models or "")):
        done, failed = _write_all(order, endpoint, pending, record, run_id)
    there = tuple(one.id for one in wanted if one not in pending)
    print(
        f"{order.out / DATASET}: {len(done)} dialogue(s) written, {len(there)} there before, {len(failed)} not "
        f"written, in {time.monotonic() - started:.0f} s"
    )
    if failed:
        raise UserError(
            f"{order.out}: {len(failed)} of {len(wanted)} dialogues are not written, the first for this reason: "
            f"{failed[0]}; the same command asks again what may pass, and with --calls refresh all of these dialogues."
        )
    return Generated(tuple(done), there, tuple(failed))


def estimate(dialogues: Sequence[Dialogue], endpoint: Endpoint, prompts: Path | None = None) -> Quote:
    """What writing `dialogues` would call and cost, in a sentence; what is stored already is counted as well."""
    calls, characters, words = 0, 0, 0
    for dialogue in dialogues:
        for place, session in enumerate(dialogue.sessions):
            messages = render(PROMPT, conversation_prompt(dialogue, place).variables, prompts)
            characters += sum(len(message["content"]) for message in messages)
            words += WORDS[session.length]
            calls += 1
    given, written = characters / _CHARACTERS_PER_TOKEN, words * _TOKENS_PER_WORD
    dollars = endpoint.dollars(given, 0, written)
    unpriced = (endpoint.model,) if dollars is None else ()
    text = (
        f"speaker {endpoint.model}: about {calls:,d} calls for {len(dialogues):,d} dialogue(s), {given:,.0f} input and "
        f"{written:,.0f} output tokens, {cost_in_words(dollars or 0.0, unpriced)}; replies asked for again come on "
        "top, and those that are stored from an earlier run are counted as well though not paid again."
    )
    return Quote(calls, dollars or 0.0, text, unpriced)


def _check(order: GenerateOptions) -> Endpoint | None:
    """The speaker's endpoint, None for the offline writer; a mistake in the order is a `UserError`."""
    for option, value, known in (("recipe", order.recipe, RECIPES), ("--calls", order.calls, get_args(Mode))):
        if value not in known:
            raise UserError(f"{option}: {value!r:.80} does not exist; choose one of {', '.join(known)}.")
    if order.models is None:
        for option, given in (("--prompts", order.prompts is not None), ("--calls", order.calls != "record")):
            if given:
                raise UserError(f"{option}: the offline writer asks no model; name a models file by --models as well.")
        return None
    if order.prompts is not None:
        check_overrides(order.prompts)
    return load_models(order.models).author("speaker")


def _record(order: GenerateOptions, endpoint: Endpoint | None) -> GenerationRecord:
    told = {
        "seed": order.seed,
        "recipe": order.recipe,
        "counts": sorted(set(order.counts)),
        "per_count": order.per_count,
        **_made_by(order, endpoint),
    }
    if (order.out / TOPICS).exists() and not (order.out / RECORD).exists():
        raise UserError(f"{order.out / TOPICS}: was not generated here; choose another folder.")
    return GenerationRecord.open(order.out, "dialogues", "id", told)


def _made_by(order: GenerateOptions, endpoint: Endpoint | None) -> dict[str, Any]:
    """What the dialogues rest on beside the order."""
    if endpoint is None:
        return {"author": OFFLINE_NAME, "rules": code_hash(_TEMPLATE_CODE)}
    prompt = prompt_file(PROMPT, order.prompts).sha256
    return {"author": endpoint.settings, "rules": code_hash(_TEMPLATE_CODE), "prompt": prompt}


def _path(out: Path, one: Wanted) -> Path:
    return out / DATASET / f"dialogue_{one.id}.json"


def _template(order: GenerateOptions, one: Wanted) -> LoadedDialogue:
    return draw_template(one.id, seed=order.seed, name=order.recipe, sessions=one.sessions, number=one.number)


def _write_all(
    order: GenerateOptions, endpoint: Endpoint | None, pending: Sequence[Wanted], record: GenerationRecord, run_id: str
) -> tuple[list[int], list[str]]:
    """Write what is pending; the ids written and the reasons of the rest."""
    done: list[int] = []
    failed: list[str] = []
    # The offline writer is bound by the processor; with an endpoint one mostly waits.
    pool = ThreadPoolExecutor(_TOGETHER if endpoint else 1)
    try:
        reasons = pool.map(lambda one: _write_one(order, endpoint, one, run_id), pending)
        for one, reason in zip(pending, reasons, strict=True):
            if reason:
                failed.append(reason)
                continue
            record.add(one.id, _path(order.out, one), {"id": one.id, "sessions": one.sessions, "number": one.number})
            done.append(one.id)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # who interrupts need not wait for dialogues to be finished
    return done, failed


def _write_one(order: GenerateOptions, endpoint: Endpoint | None, one: Wanted, run_id: str) -> str:
    """Write a dialogue whole, or say why it could not be written."""
    item = _template(order, one)
    with _open_speaker(order, endpoint, one, run_id) as model:
        texts = run(hold_conversations(model, item.dialogue))
    for place, text in enumerate(texts, start=1):
        if isinstance(text, ModelError):
            return f"dialogue {one.id}, session {place} of {one.sessions}: {text.reason}".rstrip(".")
    write_dialogue(order.out, with_texts(item, [text for text in texts if isinstance(text, str)]))
    return ""


@contextmanager
def _open_speaker(order: GenerateOptions, endpoint: Endpoint | None, one: Wanted, run_id: str) -> Iterator[Model]:
    """Who writes a dialogue; with an endpoint its calls go through the dialogue's own store."""
    if endpoint is None:
        yield OfflineWriter()
        return
    mode: Any = order.calls
    path = order.out / CALLS / f"dialogue_{one.id}.sqlite"
    with CallStore(path, read_only=mode == "replay", run_id=run_id) as store:
        yield RetryingModel(
            StoredModel(
                EndpointModel("speaker", endpoint, prompts=order.prompts),
                store,
                mode,
                role="speaker",
                conversation=f"dialogue {one.id}",
                command=_command(order),
                confirmed=order.yes,
            )
        )


def _command(order: GenerateOptions) -> str:
    """The command line that records what `order` needs; what is empty is left out."""
    given = {
        "--out": order.out,
        "--seed": order.seed,
        "--recipe": order.recipe,
        "--counts": ",".join(str(count) for count in sorted(set(order.counts))),
        "--per-count": order.per_count,
        "--models": order.models or "",
        "--prompts": order.prompts or "",
    }
    return shell_command("beamlib memorycode generate", given, end=["--yes"])
