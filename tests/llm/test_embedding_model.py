"""Texts embedded at a real HTTP server: shared requests, limits learned from refusals, broken replies."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beamlib.errors import UserError
from beamlib.llm.embedding_model import EMBED, EmbeddingModel
from beamlib.llm.endpoints import EMBEDDING, Embedding
from beamlib.llm.model import ModelError
from beamlib.llm.stored_model import CallStore, Mode, StoredModel
from beamlib.retrieval.dense import DenseIndex
from beamlib.retrieval.endpoint_encoder import EndpointEncoder
from scripted_server import Answer, ScriptedServer, error_body, vectors

Reply = dict[str, Any] | Answer


def stored(server: ScriptedServer, store: CallStore, mode: Mode = "record", **fields: Any) -> StoredModel:
    endpoint = Embedding(model="embedder", base_url=server.base_url, attempts=1, concurrency=1, **fields)
    model = EmbeddingModel(EMBEDDING, endpoint)
    return StoredModel(model, store, mode, role=EMBEDDING, conversation="100K-1", command="x")


def texts_of(server: ScriptedServer) -> list[list[str]]:
    return [request.body["input"] for request in server.requests]


def at_most(count: int, message: str = "batch size {n} > maximum allowed batch size {count}") -> Callable[..., Reply]:
    """Refuse requests of more than `count` texts, as TEI does."""

    def embed(body: dict[str, Any]) -> Reply:
        given = len(body["input"])
        if given > count:
            return Answer(error_body(message.format(n=given, count=count), "batch"), 422)
        return vectors(body)

    return embed


def test_texts_share_requests_and_are_never_sent_twice(tmp_path: Path) -> None:
    texts = [f"text number {n}" for n in range(100)]
    with ScriptedServer() as server, CallStore(tmp_path / "calls.sqlite") as store:
        model = stored(server, store)
        encoded = EndpointEncoder(model).encode([*texts, texts[3], " \n"])
        assert [len(sent) for sent in texts_of(server)] == [64, 36]
        (total,) = store.totals()
        assert (total.step, total.calls) == (EMBED, 100)
        assert total.input_tokens == sum(len(text.split()) for text in texts)
        again = EndpointEncoder(model).encode([texts[7], "a new text"])
        assert texts_of(server)[2:] == [["a new text"]]
        replayed = EndpointEncoder(stored(server, store, "replay")).encode(texts)
    expected = np.array([item["embedding"] for item in vectors({"input": texts, "model": ""})["data"]])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(encoded[:100], expected, atol=1e-6)
    assert np.array_equal(encoded[100], encoded[3])
    assert not encoded[101].any()
    assert np.array_equal(again[0], encoded[7])
    assert np.array_equal(replayed, encoded[:100])


def test_a_refused_request_is_halved_and_later_ones_are_smaller(tmp_path: Path) -> None:
    texts = [f"text {n}" for n in range(150)]
    with ScriptedServer(embed=at_most(20)) as server, CallStore(tmp_path / "calls.sqlite") as store:
        EndpointEncoder(stored(server, store)).encode(texts)
        sizes = [len(sent) for sent in texts_of(server)]
        assert sizes[:3] == [64, 32, 16]
        assert all(size <= 16 for size in sizes[7:])
        assert sum(size for size in sizes if size <= 20) == len(texts)
        (total,) = store.totals()
        assert (total.calls, total.failures) == (150, 0)


@pytest.mark.parametrize(
    ("message", "status", "sent"),
    [
        ("The maximum context length is 50 tokens, however you requested {n} tokens ({n} in the prompt).", 400, 1),
        ("`inputs` must have less than 50 tokens. Given: {n}", 413, 1),
        ("the input length exceeds the context length", 400, 2),
    ],
)
def test_a_text_that_is_too_long_is_cut_by_the_error_or_by_halves(
    message: str, status: int, sent: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def embed(body: dict[str, Any]) -> Reply:
        longest = max(len(text.split()) for text in body["input"])
        return Answer(error_body(message.format(n=longest)), status) if longest > 50 else vectors(body)

    long = " ".join(["word"] * 150)
    with ScriptedServer(embed=embed) as server, CallStore(tmp_path / "calls.sqlite") as store:
        EndpointEncoder(stored(server, store)).encode(["short", long, f"another {long}", "brief"])
        cut = [texts[0] for texts in texts_of(server) if len(texts) == 1 and texts[0].startswith("word")]
        assert len(cut) == 1 + sent
        assert long.startswith(cut[-1])
        assert 30 <= len(cut[-1].split()) <= 50
        reasons = sorted(call.finish_reason for call in store.calls())
        assert reasons == ["length", "length", "stop", "stop"]
        before = len(server.requests)
        EndpointEncoder(stored(server, store)).encode([long])
        assert len(server.requests) == before
    assert capsys.readouterr().err.count("is cut to a beginning that it takes") == 1


@pytest.mark.parametrize("write", [int, float, str, lambda place: None])
def test_vectors_belong_to_their_texts_however_places_are_written(write: Callable[[int], Any], tmp_path: Path) -> None:
    def embed(body: dict[str, Any]) -> Reply:
        reply = vectors(body)
        for item in reply["data"]:
            item["index"] = write(item["index"])
        if write(0) is not None:
            reply["data"].reverse()
        return reply

    texts = ["tea", "milk", "sugar"]
    with ScriptedServer(embed=embed) as server, CallStore(tmp_path / "1.sqlite") as store:
        odd = EndpointEncoder(stored(server, store)).encode(texts)
    with ScriptedServer() as server, CallStore(tmp_path / "2.sqlite") as store:
        assert np.array_equal(odd, EndpointEncoder(stored(server, store)).encode(texts))


def broken(**change: Any) -> Callable[[dict[str, Any]], Reply]:
    """Reply with the vectors of `vectors`, changed: the last entry replaced, or the list cut."""

    def embed(body: dict[str, Any]) -> Reply:
        reply = vectors(body)
        if "drop" in change:
            reply["data"] = reply["data"][:-1]
        else:
            reply["data"][-1] |= change
        return reply

    return embed


@pytest.mark.parametrize(
    ("embed", "reason"),
    [
        (broken(drop=1), "the answer has 1 vectors for 2 texts, or numbers them wrongly"),
        (broken(index=0), "the answer has 2 vectors for 2 texts, or numbers them wrongly"),
        (broken(index=[1]), "the answer has 2 vectors for 2 texts, or numbers them wrongly"),
        (broken(index="second"), "the answer has 2 vectors for 2 texts, or numbers them wrongly"),
        (broken(embedding=[0.5] * 31), "the answer has a vector of 31 numbers where others have 32"),
        (broken(embedding=[]), "the answer has a vector without numbers, or with zeros alone"),
        (broken(embedding=[0.0] * 32), "the answer has a vector without numbers, or with zeros alone"),
        (broken(embedding=None), "the answer has a vector without numbers, or with zeros alone"),
        (broken(embedding=["a"] * 32), "the answer has a vector that is no list of numbers"),
        (broken(embedding=[1e300] * 32), "the answer has a vector with numbers that are not finite"),
        (broken(embedding=[float("nan")] * 32), "the answer is not JSON"),
    ],
)
def test_a_broken_reply_is_a_failed_call_with_its_reason(
    embed: Callable[[dict[str, Any]], Reply], reason: str, tmp_path: Path
) -> None:
    with ScriptedServer(embed=embed) as server, CallStore(tmp_path / "calls.sqlite") as store:
        with pytest.raises(ModelError) as raised:
            EndpointEncoder(stored(server, store)).encode(["one", "two"])
        assert reason in raised.value.reason
        assert {call.text for call in store.calls()} == {None}
        server.embed = vectors
        encoded = EndpointEncoder(stored(server, store)).encode(["one", "two"])
        assert encoded.any(axis=1).all()


def test_vectors_of_another_width_than_before_or_than_stated_fail(tmp_path: Path) -> None:
    def embed(body: dict[str, Any]) -> Reply:
        return vectors(body, 8 if body["input"] == ["question"] else 32)

    with ScriptedServer(embed=embed) as server, CallStore(tmp_path / "calls.sqlite") as store:
        encoder = EndpointEncoder(stored(server, store))
        encoder.encode(["document"])
        with pytest.raises(ModelError, match="a vector of 8 numbers where others have 32"):
            encoder.encode(["question"])
        with pytest.raises(ModelError, match="a vector of 32 numbers where others have 16"):
            EndpointEncoder(stored(server, store, dimensions=16)).encode(["other"])


def test_a_slow_server_gets_half_as_many_texts_down_to_one(tmp_path: Path) -> None:
    def embed(body: dict[str, Any]) -> Reply:
        if len(body["input"]) > 2:
            time.sleep(0.5)  # holds the server's loop, as one that computes
        return vectors(body)

    with ScriptedServer(embed=embed) as server, CallStore(tmp_path / "calls.sqlite") as store:
        encoded = EndpointEncoder(stored(server, store, timeout=0.4)).encode([f"text {n}" for n in range(9)])
    assert encoded.any(axis=1).all()
    assert [len(sent) for sent in texts_of(server)][:4] == [9, 5, 3, 2]


def test_queries_have_a_prefix_of_their_own_share_requests_and_are_kept(tmp_path: Path) -> None:
    prefixes = {"query_prefix": "query: ", "passage_prefix": "passage: "}
    with ScriptedServer() as server, CallStore(tmp_path / "calls.sqlite") as store:
        encoder = EndpointEncoder(stored(server, store, **prefixes))
        index = DenseIndex([("tea",), ("milk",)], encoder)
        index.expect(["What tea?", "What milk?"])
        for query in ("What tea?", "What milk?"):
            assert set(index.scores(query)) != {-1.0}
    assert texts_of(server) == [["passage: tea", "passage: milk"], ["query: What tea?", "query: What milk?"]]


def test_a_refusal_that_is_not_about_length_concerns_its_text_alone(tmp_path: Path) -> None:
    def embed(body: dict[str, Any]) -> Reply:
        return Answer(error_body("text number 3 is unwelcome"), 400) if "bad" in body["input"] else vectors(body)

    with ScriptedServer(embed=embed) as server, CallStore(tmp_path / "calls.sqlite") as store:
        with pytest.raises(ModelError, match="unwelcome"):
            EndpointEncoder(stored(server, store)).encode(["good", "bad", "better", "best"])
        outcomes = [call.outcome for call in store.calls()]
        assert sorted(map(str, outcomes)) == ["None", "None", "None", "refused"]


@pytest.mark.parametrize("good", [0, 2])
def test_an_encoder_that_refuses_every_text_ends_the_run(good: int, tmp_path: Path) -> None:
    seen = 0

    def embed(body: dict[str, Any]) -> Reply:
        nonlocal seen
        seen += 1
        return vectors(body) if seen <= good else Answer(error_body("this wallet is empty"), 400)

    with ScriptedServer(embed=embed) as server, CallStore(tmp_path / "calls.sqlite") as store:
        encoder = EndpointEncoder(stored(server, store, batch=8))
        for number in range(good):
            encoder.encode([f"first {number}"])
        with pytest.raises(UserError, match="wallet is empty; 5 different requests of this role in a row"):
            encoder.encode([f"text {n}" for n in range(200)])
        assert len(server.requests) < 30


def test_texts_that_are_all_too_long_end_no_run(tmp_path: Path) -> None:
    def embed(body: dict[str, Any]) -> Reply:
        long = any(len(text) > 50 for text in body["input"])
        return Answer(error_body("input length is above 50"), 400) if long else vectors(body)

    with ScriptedServer(embed=embed) as server, CallStore(tmp_path / "calls.sqlite") as store:
        assert len(EndpointEncoder(stored(server, store)).encode([f"{n} {'x' * 90}" for n in range(12)])) == 12
