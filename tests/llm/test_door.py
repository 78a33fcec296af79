"""The door against real connections: who may ask what, what is sent once, and what comes back as it was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamlib.errors import SpendingLimit, UserError
from beamlib.llm import entrance as client_side
from beamlib.llm.client import EndpointModel
from beamlib.llm.door import Door, Models
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.entrance import Entrance, prompt_fields, read_prompt, reply_fields, settle
from beamlib.llm.model import (
    Completion,
    Model,
    ModelError,
    Outcome,
    Prompt,
    ToolDefinition,
    Usage,
    attempt_all,
    gather_all,
    run,
)
from beamlib.llm.prompts import ChatTurn
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.stored_model import CallStore, StoredModel
from beamlib.scoring.replies import ask_parsed, read_score
from scripted_server import ScriptedServer

TEXTS = st.text(st.characters(codec=None, categories=None), max_size=8)  # lone surrogates too: replies may spell them


def prompt(number: int = 0) -> Prompt:
    return Prompt("answer", {"question": f"What about {number}?", "context": "Ada likes tea."}, about=f"probe {number}")


class Echo:
    """A model that repeats the number in the question, the later ones first."""

    name = "echo"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt.about)
        number = int(prompt.about.split()[1])
        await asyncio.sleep(0.05 / (1 + number))
        return Completion(str(number), Usage(1, 2, 3, estimated=True), 0.5, "length", "another", "fp", True, "sha")


@contextmanager
def opened(model: Model, names: tuple[str, ...] = ("reader",)) -> Iterator[tuple[Door, Entrance]]:
    @contextmanager
    def store() -> Iterator[Models]:
        yield lambda name: model

    with Door() as door:
        yield door, door.entrance(names, {"100K-1": store})


def ask(entrance: Entrance, prompts: list[Prompt], role: str = "reader", store: str = "100K-1") -> list[Any]:
    with entrance.open(store) as model:
        return attempt_all(model(role, "shown"), prompts)


def test_replies_belong_to_their_requests_and_come_as_they_are() -> None:
    model = Echo()
    with opened(model) as (_, entrance):
        replies = ask(entrance, [prompt(number) for number in range(300)])
    assert [reply.text for reply in replies] == [str(number) for number in range(300)]
    assert replies[0] == Completion("0", Usage(1, 2, 3, True), 0.5, "length", "another", "fp", True, "sha")
    assert model.asked == [f"probe {number}" for number in range(300)]  # they begin in the order asked


def test_a_token_names_the_models_and_the_stores_that_it_may_ask_and_ends() -> None:
    model = Echo()
    with opened(model, ("reader", "outside:chat/completions")) as (door, entrance):
        for role, store in (("judge", "100K-1"), ("outside:embeddings", "100K-1"), ("reader", "100K-2")):
            with pytest.raises(UserError, match="this token is for other calls"):
                ask(entrance, [prompt()], role, store)
        with entrance.open("100K-1") as open_line:
            reader = open_line("reader", "shown")
            assert attempt_all(reader, [prompt()])
            door.dismiss(entrance)
            with pytest.raises(UserError, match="this token is for other calls"):
                attempt_all(reader, [prompt()])
        for other in (entrance, replace(entrance, token="beam-" + "0" * 32), replace(entrance, token="é")):
            with pytest.raises(UserError, match="the run that asked for this has ended"):
                ask(other, [prompt()])
    assert model.asked == ["probe 0"]


def test_errors_are_those_of_the_call() -> None:
    class Failing:
        name = "failing"

        async def complete(self, prompt: Prompt) -> Completion:
            raise errors[int(prompt.about.split()[1])]

    errors: list[Exception] = [
        ModelError("withheld", Outcome.FILTERED, Usage(7, 8)), SpendingLimit("too dear"), UserError("no key"),
        ValueError("a mistake of ours"),
    ]  # fmt: skip
    with opened(Failing()) as (_, entrance):
        (reply,) = ask(entrance, [prompt(0)])
        assert (reply.outcome, str(reply), reply.usage) == (Outcome.FILTERED, "withheld", Usage(7, 8))
        for number, kind in ((1, SpendingLimit), (2, UserError), (3, RuntimeError)):
            with pytest.raises(kind) as raised:
                ask(entrance, [prompt(number)])
            assert type(raised.value) is kind and str(errors[number]) in str(raised.value)


def test_a_connection_that_breaks_pays_for_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_side, "_PAUSE", 0.05)

    async def break_it(door: Door) -> None:
        for _ in range(4):
            await asyncio.sleep(0.1)
            for socket in list(door._sockets):
                transport = socket._req.transport if socket._req else None
                if transport is not None:
                    transport.abort()

    with ScriptedServer(lambda body: "tea", latency=0.3) as server, CallStore(tmp_path / "1.sqlite") as calls:
        endpoint = Endpoint(model="m", base_url=server.base_url, context_window=32_000, concurrency=4)
        names = {"role": "reader", "conversation": "1", "command": "again"}
        with opened(StoredModel(EndpointModel("reader", endpoint), calls, "record", **names)) as (door, entrance):

            async def both(reader: Model) -> list[Completion | ModelError]:
                replies, _ = await asyncio.gather(gather_all(reader, [prompt(n) for n in range(12)]), break_it(door))
                return replies

            with entrance.open("100K-1") as model:
                replies = run(both(model("reader", "m")))
        assert [reply.text for reply in replies if isinstance(reply, Completion)] == ["tea"] * 12
        assert not server.repeated() and len(server.requests) == 12


def test_workers_whose_last_verdict_is_unusable_end_no_run(tmp_path: Path) -> None:
    def verdict(body: dict[str, Any]) -> str:
        return "Full marks." if "the last" in str(body) else '{"score": 1.0, "reason": "tea"}'

    def judged(number: int, answer: str) -> Prompt:
        return Prompt("judge_nugget", {"question": "?", "nugget": "tea", "answer": f"{answer} of {number}"})

    with ScriptedServer(verdict) as server, CallStore(tmp_path / "1.sqlite") as calls:
        endpoint = Endpoint(model="m", base_url=server.base_url, context_window=32_000)
        names = {"role": "judge", "conversation": "1", "command": "again"}
        stored = StoredModel(EndpointModel("judge", endpoint), calls, "record", **names)
        with opened(RetryingModel(stored), ("judge",)) as (_, entrance), ExitStack() as workers:
            lines = [workers.enter_context(entrance.open("100K-1"))("judge", "shown") for _ in range(24)]
            for answer, value in (("the first", 1.0), ("another", 1.0), ("the last", None)):
                for number, judge in enumerate(lines):
                    reply = run(ask_parsed(judge, judged(number, answer), lambda reply: read_score(reply.text)))
                    assert reply.value == value
                    if value is None:  # another worker goes on
                        run(ask_parsed(lines[0], judged(number, "one more"), lambda reply: read_score(reply.text)))
            with pytest.raises(UserError, match="20 requests in a row"):
                for number in range(20):
                    run(ask_parsed(lines[1], judged(number, "the last one"), lambda reply: read_score(reply.text)))
        assert sum(call.refused for call in calls.calls()) == 2 * 20


def test_leaving_by_an_error_sends_nothing_more_and_stores_what_is_pending(tmp_path: Path) -> None:
    with ScriptedServer(lambda body: "tea", latency=0.3) as server, CallStore(tmp_path / "1.sqlite") as calls:
        endpoint = Endpoint(model="m", base_url=server.base_url, context_window=32_000, concurrency=2)
        names = {"role": "reader", "conversation": "1", "command": "again"}
        stored = StoredModel(EndpointModel("reader", endpoint), calls, "record", **names)
        with (
            pytest.raises(UserError, match="the run that asked for this has ended"),
            opened(stored) as (door, entrance),
        ):

            async def leave(reader: Model) -> None:
                asking = asyncio.create_task(gather_all(reader, [prompt(n) for n in range(50)]))
                await asyncio.sleep(0.45)
                await door._send_nothing_more()
                await asking

            with entrance.open("100K-1") as model:
                run(leave(model("reader", "m")))
        sent = len(server.requests)
        assert 2 <= sent <= 4
        assert len(list(calls.calls())) == sent


def test_beyond_this_machine_it_is_encrypted_and_known_by_its_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = pytest.importorskip(
        "beam_run.cluster.pool", reason="dask.distributed is not installed (the extra 'cluster')"
    )
    monkeypatch.setattr(pool, "get_ip", lambda host: "127.0.0.2")
    monkeypatch.setattr(client_side, "RECONNECT_SECONDS", 0.2)
    echo: Callable[[str], Model] = lambda name: Echo()  # noqa: E731

    @contextmanager
    def store() -> Iterator[Models]:
        yield echo

    with pool.door_for("tcp://192.0.2.1:8786") as door, pool.door_for("tcp://192.0.2.1:8786") as another:
        entrance = door.entrance(["reader"], {"100K-1": store})
        assert entrance.url.startswith("https://127.0.0.2:")
        assert [reply.text for reply in ask(entrance, [prompt(3)])] == ["3"]
        strange = replace(entrance, certificate=another.entrance([], {}).certificate)
        with pytest.raises(UserError, match=r"out of reach .*[Cc]ertificate"):
            ask(strange, [prompt(3)])
        with pytest.raises(UserError, match="out of reach"):
            ask(replace(entrance, url=entrance.url.replace("https", "http"), certificate=""), [prompt(3)])


def test_what_is_no_message_of_a_worker_ends_its_connection_alone() -> None:
    async def talk(entrance: Entrance, text: str) -> aiohttp.WSMessage:
        headers = {"Authorization": f"Bearer {entrance.token}"}
        async with aiohttp.ClientSession() as session, session.ws_connect(entrance.url, headers=headers) as socket:
            await socket.send_str(text)
            return await socket.receive(5)

    with opened(Echo()) as (_, entrance):
        for text in ("{", "[1]", '[{"id": 1}]', json.dumps([{"id": 1, "store": [], "role": {}, "prompt": 3}])):
            message = run(talk(entrance, text))
            assert message.type is not aiohttp.WSMsgType.TEXT or "broken" in json.loads(message.data)
        assert [reply.text for reply in ask(entrance, [prompt(3)])] == ["3"]


PROMPTS = st.builds(
    Prompt,
    TEXTS,
    st.dictionaries(TEXTS, TEXTS, max_size=3),
    TEXTS,
    st.integers(0, 9),
    st.integers(0, 1),
    TEXTS,
    st.lists(
        st.builds(ToolDefinition, TEXTS, TEXTS, st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple)), max_size=2
    ).map(tuple),
    st.lists(st.builds(ChatTurn, st.sampled_from(["user", "assistant"]), TEXTS), max_size=2).map(tuple),
)


@given(PROMPTS)
def test_a_prompt_arrives_as_it_was(prompt: Prompt) -> None:
    assert read_prompt(json.loads(json.dumps(prompt_fields(prompt)))) == prompt


@given(st.builds(Completion, TEXTS, st.builds(Usage, st.integers(0), st.integers(0)), st.floats(0, 9), TEXTS, TEXTS))
def test_a_reply_arrives_as_it_was(reply: Completion) -> None:
    async def arrived() -> Completion:
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        settle(future, json.loads(json.dumps(reply_fields(reply))))
        return await future

    assert asyncio.run(arrived()) == reply
