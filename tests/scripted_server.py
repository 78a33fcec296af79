"""Serve OpenAI's HTTP interface on the loopback, and misbehave on request.

In-process mocks do not reach notebook kernels and workers. Use the server inside a test as a context manager, or as its
own process (`python tests/scripted_server.py --help`) that writes a log file. Nothing is random: a fault depends on the
seed, the request's bytes and how often those bytes were seen.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import re
import secrets
import signal
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any

from beamlib.scoring.judge_exam import known_verdicts

_ROUTES = ("/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/rerank")

FINAL = frozenset({"answered", "delay", "truncate", "empty", "filtered", "surplus"})
"""Outcomes after which a client has no reason to send the same bytes again."""


@dataclass(frozen=True)
class Faults:
    """Rates (0 to 1, at most one fault per request) and, below them, times in seconds.

    delay: a correct answer, `delay_seconds` late. drop: the connection ends before the answer or in the middle of it.
    throttle: 429, every second one with Retry-After. error: 500 or 503. truncate: half the text, finish_reason length.
    garbage: status 200 with a body that is no JSON, or JSON without choices. empty: no text. filtered: a content
    filter, as finish_reason or as status 400. surplus: the answer, and a second one that nobody asked for.
    """

    delay: float = 0.0
    drop: float = 0.0
    throttle: float = 0.0
    error: float = 0.0
    truncate: float = 0.0
    garbage: float = 0.0
    empty: float = 0.0
    filtered: float = 0.0
    surplus: float = 0.0
    delay_seconds: float = 0.3
    retry_after: float = 0.1

    KINDS = ("delay", "drop", "throttle", "error", "truncate", "garbage", "empty", "filtered")

    @classmethod
    def every(cls, rate: float) -> Faults:
        """All kinds at the same rate."""
        return cls(**dict.fromkeys(cls.KINDS, rate))

    def draw(self, seed: int, body_hash: str, seen: int) -> tuple[str, bool]:
        """Draw a request's outcome, and which of the fault's two forms it takes."""
        digest = hashlib.sha256(f"{seed}/{body_hash}/{seen}".encode()).digest()
        place, edge = int.from_bytes(digest[:8]) / 2**64, 0.0
        for kind in (*self.KINDS, "surplus"):
            edge += getattr(self, kind)
            if place < edge:
                return kind, bool(digest[8] & 1)
        return "answered", False


@dataclass(frozen=True)
class Answer:
    """An answer that is not a plain completion: any status, body and headers; `drip` is the pause between its bytes.

    `$AUTHORIZATION` in the body (and in a plain reply's text) becomes the request's own Authorization header.
    `raw` gives the bytes of the whole response, head included, piece by piece and for ever if it likes.
    """

    body: str | dict[str, Any] = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    drip: float = 0.0
    raw: Callable[[], Iterable[bytes]] | None = None


@dataclass
class Request:
    """One line of the log. Times are seconds of the monotonic clock."""

    hash: str
    body: dict[str, Any]
    outcome: str = "pending"
    answered: bool = False
    started: float = 0.0
    ended: float = 0.0
    authorization: str = ""
    path: str = ""


def error_body(message: str, code: str | None = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    """Build an error body as OpenAI writes it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def body_text(body: dict[str, Any]) -> str:
    """Join all message contents of a request."""
    return "\n".join(str(message.get("content", "")) for message in body.get("messages", []))


_EXAM = {(item.prompt.variables["answer"], item.prompt.variables["nugget"]): item.score for item in known_verdicts()}


def exam_verdict(text: str) -> str:
    """Return the right verdict on a nugget of the judge's exam, empty for anything else: scripted judges pass it."""
    scores = (score for (answer, nugget), score in _EXAM.items() if answer in text and nugget in text)
    return next((json.dumps({"score": score, "reason": "scripted exam"}) for score in scores), "")


def generic_reply(body: dict[str, Any]) -> str:
    """Return a deterministic reply in the form that the prompt asks for, recognised by its text."""
    text = body_text(body)
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
    end = text[-900:]
    if '"score"' in text and (verdict := exam_verdict(text)):
        return verdict
    if '"score"' in text:
        return json.dumps({"score": (0, 0.5, 1)[number % 3], "reason": f"scripted verdict {number % 97}"})
    if "JSON object" in text and "<items>" in text:
        events, items = (re.findall(r"^(\d+)[.:)]", part, re.MULTILINE) for part in text.rsplit("<items>", 1))
        return json.dumps({item: [int(item)] if item in events else [] for item in items})
    if re.search(r"`yes`|\byes or no\b|'yes'|\"yes\"", end, re.IGNORECASE):
        return ("yes", "no")[number % 2]
    target = re.search(r"(\d[\d,]*)\s+tokens", text)
    if target and "<notes>" in text:
        return _first_lines(text.rpartition("<notes>")[2], int(target[1].replace(",", "")))
    if re.search(r"\bsummary\b[^\n]*(\n[^<>]*)?\Z", end, re.IGNORECASE):
        return (
            f"topic {number % 1009}: value {number % 13}\nperson {number % 7}: Ada {number}\nSummary: exchange {number}"
        )
    if re.search(r"\bnotes\b[^\n]*:\s*\Z", end, re.IGNORECASE):
        header = re.findall(r"\[messages \d+-\d+\]", text)
        place = header[-1] if header else "-"
        return f"{place} note {number % 1009}: the user settled on plan {number % 13}\n- note {number}"
    return f"The scripted answer is {number}."


def _first_lines(notes: str, tokens: int) -> str:
    kept: list[str] = []
    for line in notes.splitlines():
        if line.startswith(("[messages", "- ")):
            tokens -= 2 * len(line.split())  # more tokens than any counter makes of such lines
            if tokens < 0:
                break
            kept.append(line)
    return "\n".join(kept) or "- nothing of note"


def free_port() -> int:
    """Return a port that nobody listens at, of those that the system gives to nobody by itself.

    A port of the system's choice may be gone before it is taken, or while its server is down.
    """
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class ScriptedServer:
    """`with ScriptedServer(reply, ...) as server:` serves at `server.base_url` until the block ends.

    `reply` maps a request's body to its text (or to an `Answer`); it runs on the server's loop and should be quick.
    `embed` maps the body of a request for vectors to the reply's body, or to an `Answer`.
    `rerank` maps the body of a request for ranks to the reply's body.
    `latency` (seconds) comes before every answer. With `require_key`, any other key is answered with 401. With
    `api_version` it is Azure: it serves deployments, needs the version in the query and takes the key as `api-key`.
    """

    def __init__(
        self,
        reply: Callable[[dict[str, Any]], str | Answer] = generic_reply,
        *,
        embed: Callable[[dict[str, Any]], dict[str, Any] | Answer] | None = None,
        rerank: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        faults: Faults | None = None,
        latency: float = 0.0,
        seed: int = 0,
        tokenize: bool | Answer = False,
        require_key: str | None = None,
        api_version: str = "",
        port: int = 0,
        log: Path | None = None,
    ) -> None:
        self.reply, self.faults, self.latency, self.seed = reply, faults or Faults(), latency, seed
        self.tokenize, self.require_key, self.port, self.log = tokenize, require_key, port or free_port(), log
        self.api_version = api_version
        self.embed = embed or vectors
        self.rerank = rerank or ranks
        self.requests: list[Request] = []
        self.in_flight = self.peak = self.connections = self.sent = 0
        self._seen: Counter[str] = Counter()
        self._handlers: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="scripted-server", daemon=True)
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._failure: OSError | None = None

    @property
    def embedded(self) -> list[str]:
        """All texts that vectors were requested of, in order."""
        bodies = [request.body for request in self.requests if request.path == "/v1/embeddings"]
        return [text for body in bodies for text in body["input"]]

    @property
    def base_url(self) -> str:
        """What goes into `Endpoint.base_url`."""
        return f"http://127.0.0.1:{self.port}/v1"

    def answered(self, body_hash: str) -> bool:
        """Whether a final answer to these bytes has been sent in full."""
        return any(request.answered for request in self.requests if request.hash == body_hash)

    def repeated(self) -> list[str]:
        """Hashes of bodies that were sent again after their final answer had gone out."""
        answered: dict[str, float] = {}
        repeated = []
        for request in sorted(self.requests, key=lambda request: request.started):
            if request.started > answered.get(request.hash, float("inf")):
                repeated.append(request.hash)
            if request.answered:
                answered.setdefault(request.hash, request.ended)
        return repeated

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        assert self._ready.wait(60)
        if self._failure:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        try:
            server = await asyncio.start_server(self._connection, "127.0.0.1", self.port, limit=2**20, backlog=512)
        except OSError as error:
            self._failure = error
            self._ready.set()
            return
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._handlers:
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        self.connections += 1
        try:
            while await self._serve_request(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone; its request, if there was one, is in the log as not answered
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            self._handlers.discard(task)
            writer.close()

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; return whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        method, path, _ = first.split(" ", 2)
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        azure = re.fullmatch(r"/openai/deployments/[\w.-]+(/[a-z/]+)\?api-version=([\w-]+)", path)
        served = f"/v1{azure[1]}" if azure and azure[2] == self.api_version else path
        if method == "POST" and served in _ROUTES and bool(self.api_version) is bool(azure):
            self.api_key = headers.get("api-key", "")
            return await self._chat(reader, writer, raw, headers.get("authorization", ""), path)
        if (method, path) == ("GET", "/v1/models"):
            await self._send(writer, Answer({"object": "list", "data": [{"id": "scripted", "object": "model"}]}))
        elif (method, path) == ("POST", "/tokenize") and isinstance(self.tokenize, Answer):
            await self._send(writer, self.tokenize)
            return False
        elif (method, path) == ("POST", "/tokenize") and self.tokenize:
            body = json.loads(raw)
            count = len((body.get("prompt") or body_text(body)).split())
            await self._send(writer, Answer({"count": count, "max_model_len": 32_768, "tokens": []}))
        else:
            await self._send(writer, Answer(error_body(f"no route {method} {path}"), 404))
        return True

    async def _chat(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, raw: bytes, authorization: str, path: str
    ) -> bool:
        request = Request(hashlib.sha256(raw).hexdigest(), json.loads(raw), authorization=authorization, path=path)
        request.started = time.monotonic()
        self.requests.append(request)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            return await self._scripted(request, reader, writer)
        finally:
            self.in_flight -= 1
            request.ended = time.monotonic()
            if self.log:
                with self.log.open("a", encoding="utf-8") as handle:
                    entry = {name: value for name, value in vars(request).items() if name != "authorization"}
                    handle.write(json.dumps(entry) + "\n")

    async def _scripted(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        seen = self._seen[request.hash]
        self._seen[request.hash] += 1
        outcome, other = self.faults.draw(self.seed, request.hash, seen)
        wait = self.latency + (self.faults.delay_seconds if outcome == "delay" else 0)
        if wait:
            await asyncio.sleep(wait)
        key = f"Bearer {self.api_key}" if self.api_version else request.authorization
        if self.require_key is not None and key != f"Bearer {self.require_key}":
            request.outcome = "unauthorised"
            await self._send(writer, Answer(error_body("Incorrect API key provided.", "invalid_api_key"), 401))
            return True
        if reader.at_eof():
            request.outcome = "gone"
            return False
        answer = self._answer(request, outcome, other)
        request.outcome = outcome
        if outcome == "drop":
            if other:
                await self._send(writer, answer, request.authorization, part=0.5)
            return False
        await self._send(writer, answer, request.authorization)
        if outcome == "surplus":
            await self._send(writer, Answer(completion(request.body, "surplus")), request.authorization)
        if answer.raw:
            return False
        request.answered = outcome in FINAL and (answer.status == 200 or outcome == "filtered")
        return True

    def _answer(self, request: Request, outcome: str, other: bool) -> Answer:
        if outcome == "throttle":
            headers = {"Retry-After": str(self.faults.retry_after)} if other else {}
            return Answer(error_body("Slow down.", "rate_limit_exceeded", "requests"), 429, headers)
        if outcome == "error":
            return Answer(error_body("The server stumbled.", None, "server_error"), 503 if other else 500)
        if outcome == "garbage":
            return Answer({"object": "chat.completion", "id": "x"} if other else "<html>Bad gateway</html>")
        if outcome == "filtered" and other:
            return Answer(error_body("The prompt was filtered by a content policy.", "content_filter"), 400)
        if request.path == "/v1/embeddings":
            reply_body = self.embed(request.body)
            return reply_body if isinstance(reply_body, Answer) else Answer(reply_body)
        if request.path == "/v1/rerank":
            return Answer(self.rerank(request.body))
        reply = self.reply(request.body)
        if request.path == "/v1/responses" and isinstance(reply, str):
            return Answer(response(request.body, reply))
        if isinstance(reply, Answer):
            return reply
        if outcome == "truncate":
            return Answer(completion(request.body, reply[: len(reply) // 2], "length"))
        if outcome in ("empty", "filtered"):
            return Answer(completion(request.body, "", "stop" if outcome == "empty" else "content_filter"))
        return Answer(completion(request.body, reply))

    async def _send(
        self, writer: asyncio.StreamWriter, answer: Answer, authorization: str = "", part: float = 1.0
    ) -> None:
        if answer.raw:
            for piece in answer.raw():
                writer.write(piece)
                self.sent += len(piece)
                await writer.drain()
                await asyncio.sleep(answer.drip)
            return
        text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
        payload = text.replace("$AUTHORIZATION", authorization).encode()
        lines = [f"HTTP/1.1 {answer.status} Scripted", "Content-Type: application/json"]
        lines += [f"Content-Length: {len(payload)}", *(f"{name}: {value}" for name, value in answer.headers.items())]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if answer.drip:
            writer.write(head)
            for byte in payload:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(answer.drip)
            return
        writer.write(head + payload[: int(len(payload) * part)])
        await writer.drain()


def completion(body: dict[str, Any], text: str | None, finish_reason: str = "stop") -> dict[str, Any]:
    """Build a chat completion. Tokens are words; a quarter of the prompt counts as cached."""
    prompt_tokens, output = len(body_text(body).split()), len((text or "").split())
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": body.get("model", "scripted"),
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason},
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": output,
            "total_tokens": prompt_tokens + output,
            "prompt_tokens_details": {"cached_tokens": prompt_tokens // 4},
        },
    }


def vectors(body: dict[str, Any], dimensions: int = 32) -> dict[str, Any]:
    """Build a reply to a request for vectors: numbers from each text's hash."""
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    digests = [hashlib.sha256(text.encode()).digest()[:dimensions] for text in texts]
    floats = [[(byte - 127.5) / 128 for byte in digest] for digest in digests]
    if body.get("encoding_format") == "base64":
        coded: list[Any] = [base64.b64encode(struct.pack(f"<{dimensions}f", *vector)).decode() for vector in floats]
    else:
        coded = floats
    data = [{"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(coded)]
    tokens = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": body["model"], "data": data, "usage": usage}


def ranks(body: dict[str, Any]) -> dict[str, Any]:
    """Build a reply to a request for ranks as Cohere's: by the words that a text shares with the query."""
    words = set(body["query"].lower().split())
    scores = [len(words & set(text.lower().split())) / len(words) for text in body["documents"]]
    best = sorted(range(len(scores)), key=lambda place: -scores[place])[: body["top_n"]]
    results = [{"index": place, "relevance_score": scores[place]} for place in best]
    return {"id": "x", "results": results, "meta": {"billed_units": {"search_units": 1}}}


def near(text: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Embed texts that contain `text`, and those of one line (questions), in one direction; all others in another."""

    def embed(body: dict[str, Any]) -> dict[str, Any]:
        reply = vectors(body)
        for item, given in zip(reply["data"], body["input"], strict=True):
            item["embedding"] = [3.0, 0.0] if text in given or "\n" not in given else [0.1, 2.0]
        return reply

    return embed


def response(body: dict[str, Any], text: str) -> dict[str, Any]:
    """Build a reply of the responses interface."""
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    input_tokens, output_tokens = len(str(body["input"]).split()), len(text.split())
    usage = {
        "input_tokens": input_tokens, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input_tokens + output_tokens,
    }  # fmt: skip
    return {
        "id": "resp_1", "object": "response", "created_at": 0, "status": "completed", "model": body["model"],
        "output": [item], "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    }  # fmt: skip


def main() -> None:
    """Serve until SIGTERM or Ctrl-C; the first line of output is the base URL."""
    parser = argparse.ArgumentParser(description="The scripted endpoint as a process of its own.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before every answer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokenize", action="store_true", help="serve POST /tokenize as vLLM does")
    parser.add_argument("--require-key")
    parser.add_argument("--log", type=Path, help="append one JSON line per request to this file")
    parser.add_argument("--faults", type=float, default=0.0, help="one rate for every kind of fault")
    for item in fields(Faults):
        parser.add_argument(f"--{item.name.replace('_', '-')}", type=float)
    options = vars(parser.parse_args())
    rates = {item.name: options.pop(item.name) for item in fields(Faults)}
    usual = dict.fromkeys(Faults.KINDS, options.pop("faults"))
    faults = Faults(**usual | {name: rate for name, rate in rates.items() if rate is not None})
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with ScriptedServer(faults=faults, **options) as server:
        sys.stdout.write(server.base_url + "\n")
        sys.stdout.flush()
        stopped.wait()


if __name__ == "__main__":
    main()
