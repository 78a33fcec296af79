"""The two processes of `latency.py`: the endpoint, and the client that reads a conversation and answers its questions.

Each runs one measurement, so that its processor time and peak memory are its own.
"""

from __future__ import annotations

import random
import resource
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from beamlib.data.conversations import Probe
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import Source
from beamlib.evaluate.answering import answers_to, ask_probes
from beamlib.evaluate.records import Answer
from beamlib.files import temporary_folder
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Model, Prompt, run
from beamlib.llm.prompts import prompt_file
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.stored_model import CallStore, StoredModel
from beamlib.memory.light import Light, LightSettings
from beamlib.memory.protocol import RetrievedContext
from beamlib.retrieval.encoder import embedded_encoder

STEPS = ("episodic_keys", "scratchpad_notes", "scratchpad_compress", "scratchpad_filter", "answer")
Wire = Literal["plain", "tls", "h2"]
TESTS = Path(__file__).parents[1] / "tests"

SUBJECTS = ("The user", "Their sister", "The landlord", "A colleague", "The neighbour", "The clinic", "The school")
DEEDS = ("asked for", "moved", "paid for", "cancelled", "ordered", "wrote about", "set aside", "compared")
THINGS = ("the blue kettle", "two train tickets", "the spring budget", "a garden wall", "the third draft", "nine hives")
ENDS = ("before the holiday", "for 1,250 euros", "on 14 May", "without a reason", "because of the rain", "last Tuesday")


@dataclass(frozen=True)
class Spent:
    """The cost of the client's process: seconds of wall and processor time, peak memory in bytes, calls by step."""

    wall: float
    parts: dict[str, float]
    processor: float
    peak: int
    base: int
    calls: dict[str, int]
    questions: int
    answered: int


def serve(wire: Wire, round_trip: float, certificate: Path, pipe: Connection) -> None:
    """Serve replies: send the base URL, wait for a word, then send the numbers of requests and connections."""
    sys.path.insert(0, str(TESTS))
    from tls_server import TlsServer, serving

    secure = None if wire == "plain" else certificate
    server = TlsServer(secure, "h2" if wire == "h2" else "http/1.1", 0.0, Replies(), surplus=False)
    with serving(server, round_trip) as base_url:
        pipe.send(base_url)
        pipe.recv()
        pipe.send((server.requests, server.connections, time.process_time()))


class Replies:
    """Replies of realistic length, by the opening of the prompt file; a function of the request.

    Keys are about 200 tokens, notes about 120, in sentences with full stops; the filter keeps every other chunk.
    """

    def __init__(self) -> None:
        self._openings = {prompt_file(step).parts[0][1].partition("{")[0]: step for step in STEPS}

    def __call__(self, body: dict[str, Any]) -> str:
        text = body["messages"][0]["content"]
        chance = random.Random(zlib.crc32(body["messages"][-1]["content"].encode()))
        match next(step for opening, step in self._openings.items() if text.startswith(opening)):
            case "episodic_keys":
                lines = [f"{chance.choice(THINGS)} {number}: {_sentence(chance)}" for number in range(7)]
                return "\n".join([*lines, f"Summary: {_sentence(chance)}"])
            case "scratchpad_notes":
                return "\n".join(f"- {_sentence(chance)} {_sentence(chance)}" for _ in range(3))
            case "scratchpad_compress":
                return "\n".join(f"- [messages 0-1] {_sentence(chance)}" for _ in range(500))
            case "scratchpad_filter":
                return chance.choice(("yes", "no"))
            case _:
                return _sentence(chance)


def _sentence(chance: random.Random) -> str:
    """Return about twenty tokens."""
    clauses = [" ".join(chance.choice(words) for words in (SUBJECTS, DEEDS, THINGS, ENDS)) for _ in range(2)]
    return f"{clauses[0]}, and {clauses[1].lower()}."


def work(source: Source, base_url: str, lanes: int) -> Spent:
    """Read a conversation and answer its questions, as a run does, from an empty store."""
    loaded = load(source)
    import httpx2  # noqa: F401  # what a process loads once is not timed
    import openai  # noqa: F401

    embedded_encoder().encode(["one text"])
    base = _peak()
    with temporary_folder("beamlib-latency-") as folder, CallStore(folder / "calls") as store:
        reader, memory = (_model(role, loaded, base_url, lanes, store) for role in ("reader", "memory"))
        started, processor = time.perf_counter(), time.process_time()
        parts, answered = _light(loaded, reader, memory)
        wall, processor = time.perf_counter() - started, time.process_time() - processor
        calls = Counter(call.step for call in store.calls())
    return Spent(wall, parts, processor, _peak(), base, dict(calls), len(loaded.probes), answered)


def _model(role: str, loaded: Loaded, base_url: str, lanes: int, store: CallStore) -> Model:
    endpoint = Endpoint(model="scripted", base_url=base_url, context_window=131_072, concurrency=lanes)
    return RetryingModel(
        StoredModel(
            EndpointModel(role, endpoint),
            store,
            "record",
            role=role,
            conversation=loaded.conversation.id,
            command="python benchmarks/latency.py",
        )
    )


def _light(loaded: Loaded, reader: Model, memory: Model) -> tuple[dict[str, float], int]:
    """Return the seconds of both parts and the number of answers."""
    started = time.perf_counter()
    light = Light(memory, LightSettings())
    light.ingest(loaded.conversation)
    ingested = time.perf_counter()
    answers = _answers(loaded.probes, light, reader)
    ended = time.perf_counter()
    parts = {"ingest": ingested - started, "recall and answer": ended - ingested}
    return parts, sum(answer.unscored is None for answer in answers)


def _answers(probes: Sequence[Probe], light: Light, reader: Model) -> list[Answer]:
    def prompt(place: int, recalled: RetrievedContext) -> Prompt:
        variables = {"question": probes[place].question, "context": recalled.context}
        return Prompt("answer", variables, about=probes[place].id)

    return run(answers_to(ask_probes(probes, light, prompt), reader))


def _peak() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used * (1 if sys.platform == "darwin" else 1024)  # macOS counts bytes, Linux KiB
