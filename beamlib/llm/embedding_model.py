"""Embed texts at a role's endpoint (OpenAI's route `embeddings`).

A call is one text, so a conversation pays once for equal texts, and no call key depends on how many texts the server
takes in one request. Texts that wait for an answer share requests. Limits are learned from refusals and time-outs: such
a request is halved, and a refused text is shortened.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beamlib.errors import UserError
from beamlib.files import to_json
from beamlib.llm.client import Call, ForwardingModel
from beamlib.llm.endpoints import Embedding
from beamlib.llm.faults import RetryableError
from beamlib.llm.model import REFUSALS, Completion, ModelError, Outcome, Prompt, Usage
from beamlib.llm.transport import Response

EMBED = "encoder/embeddings"
"""The step that calls of an encoder are stored as."""
_ABOUT_LENGTH = re.compile(r"\btokens?\b|\blength\b|\btoo (?:long|large|big)\b|\A413\b", re.IGNORECASE)
_TOKENS = re.compile(r"(\d[\d,]*) *(?=tokens?\b)|(?<=\btokens)\W+(?:\w+\W+)?(\d[\d,]*)", re.IGNORECASE)
_MARGIN = 0.95
"""Tokens are not spread evenly over a text, so it is shortened to a little less than its share."""
_CUTTING: set[str] = set()
"""Endpoints of which this process has said that they shorten texts."""

Vector = NDArray[np.float32]


def embedding_prompt(text: str, *, query: bool = False) -> Prompt:
    """Build the call that embeds `text`.

    Args:
        query: The text is searched for; else it is searched in. A model may have a prefix for either.
    """
    return Prompt(EMBED, {"body": to_json({"input": text}), **({"query": "yes"} if query else {})})


def write_vector(vector: Vector) -> str:
    """Write a vector as the text of a reply: base64 of its float32 numbers."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")


def read_vector(reply: Completion) -> Vector:
    """Read the vector of a reply, as the server gave it."""
    return np.frombuffer(base64.b64decode(reply.text), dtype="<f4")


class EmbeddingModel(ForwardingModel):
    """A role's endpoint as an embedder of single texts. A `Model` for prompts of `embedding_prompt`.

    A reply is the vector (`read_vector`); its share of the request's tokens is by bytes. Its `finish_reason` is
    `length` if the text was shortened. A reply with a wrong count, an empty vector, other dimensions than before or
    numbers that are not finite is retried like any unusable reply.
    """

    def __init__(self, role: str, endpoint: Embedding) -> None:
        super().__init__(role, endpoint, "embeddings")
        self._embedding = endpoint
        self._dimensions = endpoint.dimensions or 0
        self._waiting: deque[tuple[str, asyncio.Future[Completion]]] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._running = 0
        self._most = endpoint.batch
        self._shortest_cut = sys.maxsize
        self._cuts = 0

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """Build the request for one text, with the prefix of its kind, or for texts that have theirs."""
        body = super().request(prompt)
        if isinstance(body["input"], str):
            prefix = self._embedding.query_prefix if "query" in prompt.variables else self._embedding.passage_prefix
            body["input"] = prefix + body["input"]
        return body

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the vector of a text, embedded with others that wait.

        Raises:
            ModelError: the text has no vector.
            UserError: no text can be embedded.
        """
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._waiting.append((self.request(prompt)["input"], future))
        if self._running < self.endpoint.concurrency:
            self._running += 1
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        return await future

    async def _work(self) -> None:
        try:
            await asyncio.sleep(0)  # texts that are embedded together come in one step of the event loop
            while self._waiting:
                await self._answer(self._next_batch())
        finally:
            self._running -= 1

    def _next_batch(self) -> list[tuple[str, asyncio.Future[Completion]]]:
        """Take texts of one request; one that may be too long goes alone, or all others would wait for the halving."""
        batch = [self._waiting.popleft()]
        while self._waiting and len(batch) < self._most:
            if max(len(batch[-1][0]), len(self._waiting[0][0])) >= self._shortest_cut:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _answer(self, batch: Sequence[tuple[str, asyncio.Future[Completion]]]) -> None:
        replies: Sequence[Completion | Exception]
        try:
            replies = await self._embed([text for text, _ in batch])
        except Exception as error:  # whatever it is, those who wait have to be told
            if isinstance(error, UserError):  # of all that were asked for by now
                batch = [*batch, *self._waiting]
                self._waiting.clear()
            replies = [error] * len(batch)
        for (_, future), reply in zip(batch, replies, strict=True):
            if future.done():
                continue
            if isinstance(reply, Completion):
                future.set_result(reply)
            else:
                future.set_exception(reply)

    async def _embed(self, texts: Sequence[str]) -> list[Completion | ModelError]:
        """Embed texts in one request, or in as many as the server's refusals make it."""
        try:
            reply = await super().complete(Prompt(EMBED, {"body": to_json({"input": list(texts)})}))
        except ModelError as error:
            if error.outcome not in REFUSALS | {Outcome.FILTERED}:
                return [error] * len(texts)
            if len(texts) > 1:  # one text may be what is refused
                return await self._halve(texts, fewer=error.outcome in REFUSALS)
            return [error] if error.outcome is Outcome.FILTERED else await self._shorten(texts[0], error)
        usages = _shares(reply.usage, texts)
        latency = reply.latency / len(texts)
        vectors = json.loads(reply.text)
        return [Completion(vector, usage, latency, "stop") for vector, usage in zip(vectors, usages, strict=True)]

    async def _halve(self, texts: Sequence[str], *, fewer: bool) -> list[Completion | ModelError]:
        half, cuts = (len(texts) + 1) // 2, self._cuts
        replies = [*await self._embed(texts[:half]), *await self._embed(texts[half:])]
        if fewer and cuts == self._cuts:  # no text was too long, so the request was
            self._most = min(self._most, half)
        return replies

    async def _shorten(self, text: str, error: ModelError) -> list[Completion | ModelError]:
        message = str(error).partition(" answered with status ")[2]
        length = _accepted_length(text, message)
        if not length or (error.outcome is Outcome.REFUSED and not _ABOUT_LENGTH.search(message)):
            return [error]
        self._cuts += 1
        self._shortest_cut = min(self._shortest_cut, length)
        if self._who not in _CUTTING:
            _CUTTING.add(self._who)
            print(
                f"{self._who} refuses texts that are too long for it (here {len(text):,} characters); each is cut to "
                "a beginning that it takes, and its call is stored with finish_reason length.",
                file=sys.stderr, flush=True,
            )  # fmt: skip
        (reply,) = await self._embed([text[:length]])
        return [replace(reply, finish_reason="length") if isinstance(reply, Completion) else reply]

    async def _post(self, call: Call, body: dict[str, Any]) -> Completion:
        """Send once; a time-out of several texts is a refusal of so many, as a slow server may answer fewer."""
        try:
            return await super()._post(call, body)
        except RetryableError as failure:
            if failure.timed_out and len(body["input"]) > 1:
                raise ModelError(str(failure), Outcome.REFUSED) from None
            raise

    def counts_refusal(self, prompt: Prompt, message: str) -> bool:
        """Tell whether a single text was refused for something else than its length."""
        texts = json.loads(prompt.variables["body"])["input"]
        return len(texts) == 1 and not _ABOUT_LENGTH.search(message)

    def _read(self, call: Call, response: Response, request: Mapping[str, Any], *, tools: bool) -> Completion:
        reply = super()._read(call, response, request, tools=tools)
        vectors = self._vectors(json.loads(reply.text)["data"], len(request["input"]))
        return replace(reply, text=to_json([write_vector(vector) for vector in vectors]))

    def _vectors(self, data: Sequence[Mapping[str, Any]], count: int) -> list[Vector]:
        """Return the vectors of a reply in the order of the texts."""
        by_place: dict[float, object] = {}
        for place, item in enumerate(data):
            index = place if item.get("index") is None else item["index"]
            if isinstance(index, str) and index.isdecimal():
                index = int(index)
            by_place[index if isinstance(index, int | float) else -1] = item.get("embedding")
        if len(data) != count or by_place.keys() != set(range(count)):
            raise _no_vectors(f"the answer has {len(data)} vectors for {count} texts, or numbers them wrongly")
        vectors = [_finite_vector(by_place[place]) for place in range(count)]
        expected = self._dimensions or vectors[0].size
        for vector in vectors:
            if vector.size != expected:
                raise _no_vectors(f"the answer has a vector of {vector.size} numbers where others have {expected}")
        self._dimensions = expected
        return vectors


def _no_vectors(message: str) -> RetryableError:
    return RetryableError(message, structural=True)


def _finite_vector(values: object) -> Vector:
    try:
        with np.errstate(over="ignore"):
            vector = np.asarray(values if isinstance(values, list) else [], dtype=np.float32)
    except (ValueError, TypeError, OverflowError):
        raise _no_vectors("the answer has a vector that is no list of numbers") from None
    if vector.ndim != 1 or not vector.any():
        raise _no_vectors("the answer has a vector without numbers, or with zeros alone")
    if not np.isfinite(vector).all():
        raise _no_vectors("the answer has a vector with numbers that are not finite")
    return vector


def _accepted_length(text: str, message: str) -> int:
    """Return to how many characters to cut a text: by the token counts in a refusal, else half; 0 if none is left."""
    counts = [int(number.replace(",", "")) for pair in _TOKENS.findall(message) for number in pair if number]
    limit, given = min(counts, default=0), max(counts, default=0)
    share = _MARGIN * limit / given if 0 < limit < given else 0.5
    return min(int(len(text) * share), len(text) - 1)


def _shares(usage: Usage, texts: Sequence[str]) -> list[Usage]:
    """Divide a request's tokens among its texts by bytes, so that they add up."""
    ends = [0, *accumulate(len(text.encode("utf-8", "replace")) for text in texts)]

    def parts(tokens: int) -> list[int]:
        marks = [tokens * end // max(ends[-1], 1) for end in ends]
        return [after - before for before, after in pairwise(marks)]

    taken, cached = parts(usage.input_tokens), parts(usage.cached_tokens)
    return [Usage(own, 0, old) for own, old in zip(taken, cached, strict=True)]
