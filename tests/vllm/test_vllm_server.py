"""The client and the store against a real vLLM server (`./run_tests.sh --vllm`).

The model served is random: its words are noise, and only what surrounds them is checked.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from beamlib.errors import UserError
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, attempt_all, complete_all, gather_all, run
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.stored_model import CallStore, StoredModel

if TYPE_CHECKING:
    from conftest import VllmServer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

COMMAND = "beamlib run-all --name tried"


def endpoint(server: VllmServer, **changes: Any) -> Endpoint:
    """The server as a role's endpoint. A random model may end at any word: it goes on to the limit instead."""
    settings: dict[str, Any] = {
        "model": "tiny",
        "base_url": server.base_url,
        "context_window": 32_768,
        "max_output_tokens": 24,
        "attempts": 2,
        "patience": 3.0,
        "extra": {"ignore_eos": True},
    }
    return Endpoint(**(settings | changes))


def question(number: int, context: str = "[messages 0-1] The user keeps bees and counts them.") -> Prompt:
    return Prompt("answer", {"question": f"What is fact {number}?", "context": context}, about=f"tried-q{number:02d}")


def stored(server: VllmServer, store: CallStore, **changes: Any) -> StoredModel:
    model = EndpointModel("reader", endpoint(server, **changes))
    return StoredModel(model, store, "record", role="reader", conversation="tried-1", command=COMMAND)


def test_a_completion_has_text_and_usage(vllm: VllmServer) -> None:
    (reply,) = complete_all(EndpointModel("reader", endpoint(vllm)), [question(1)])
    assert reply.text.strip()
    assert reply.usage.output_tokens == 24
    assert reply.usage.input_tokens > 100
    assert reply.latency > 0


def test_temperature_0_gives_the_same_text_again(vllm: VllmServer) -> None:
    model = EndpointModel("reader", endpoint(vllm, temperature=0.0))
    first, second = (complete_all(model, [question(1)])[0] for _ in range(2))
    assert first.text == second.text


def test_repeats_are_sampled_apart_and_each_repeatable(vllm: VllmServer) -> None:
    model = EndpointModel("reader", endpoint(vllm, temperature=1.0, seed=7))
    prompts = [Prompt("answer", question(1).variables, repeat=repeat) for repeat in (0, 1, 0)]
    texts = [complete_all(model, [prompt])[0].text for prompt in prompts]
    assert texts[0] == texts[2] != texts[1]


def test_reaching_the_limit_ends_with_length(vllm: VllmServer) -> None:
    model = EndpointModel("reader", endpoint(vllm, max_output_tokens=5))
    (reply,) = complete_all(model, [question(1)])
    assert (reply.finish_reason, reply.usage.output_tokens) == ("length", 5)
    (unscored,) = attempt_all(RetryingModel(model), [question(1)])
    assert isinstance(unscored, ModelError)
    assert unscored.outcome is Outcome.TRUNCATED


def test_a_constrained_reply_can_be_used(vllm: VllmServer) -> None:
    schema = {
        "type": "object",
        "properties": {"score": {"enum": [0, 0.5, 1]}, "reason": {"enum": ["noise"]}},
        "required": ["score", "reason"],
        "additionalProperties": False,
    }
    extra = {"response_format": {"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema}}}
    model = RetryingModel(EndpointModel("judge", endpoint(vllm, max_output_tokens=64, extra=extra)))
    (reply,) = complete_all(model, [verdict()])
    assert json.loads(reply.text)["score"] in (0, 0.5, 1)
    assert reply.finish_reason == "stop"


def verdict() -> Prompt:
    return Prompt("judge_nugget", {"question": "How many hives?", "nugget": "names nine hives", "answer": "Nine."})


def test_more_than_the_window_is_a_context_length_outcome(vllm: VllmServer) -> None:
    (reply,) = attempt_all(EndpointModel("reader", endpoint(vllm)), [question(1, context="seven bees " * 15_000)])
    assert isinstance(reply, ModelError)
    assert reply.outcome is Outcome.CONTEXT_LENGTH


def test_an_unknown_model_is_named(vllm: VllmServer) -> None:
    with pytest.raises(UserError, match="absent-model"):
        complete_all(EndpointModel("reader", endpoint(vllm, model="absent-model")), [question(1)])


def test_many_calls_at_once_are_all_answered(vllm: VllmServer) -> None:
    model = EndpointModel("reader", endpoint(vllm, concurrency=32, max_output_tokens=32))
    before = vllm.requests()
    replies = attempt_all(model, [question(number) for number in range(32)])
    assert [type(reply) for reply in replies] == [Completion] * 32
    assert sum(reply.usage.output_tokens for reply in replies if isinstance(reply, Completion)) == 32 * 32
    assert vllm.requests() - before == 32


def test_what_the_store_holds_is_not_asked_again(vllm: VllmServer, tmp_path: Path) -> None:
    prompts = [question(number) for number in range(12)]
    before = vllm.requests()
    with CallStore(tmp_path / "calls.sqlite") as store:
        first = complete_all(stored(vllm, store), prompts)
    assert vllm.requests() - before == 12
    with CallStore(tmp_path / "calls.sqlite") as store:
        second = complete_all(stored(vllm, store), prompts)
    assert second == first
    assert vllm.requests() - before == 12


def test_a_server_that_dies_is_named_and_a_new_one_goes_on(vllm: VllmServer, tmp_path: Path) -> None:
    prompts = [question(number) for number in range(60)]
    slow = {"concurrency": 4, "max_output_tokens": 200}
    with CallStore(tmp_path / "calls.sqlite") as store:
        model = stored(vllm, store, **slow)
        killer = threading.Thread(target=kill_after, args=(vllm, store, 8))
        killer.start()
        with pytest.raises(UserError, match=re.escape(vllm.base_url)):
            complete_all(model, prompts)
        killer.join()
    held = answered(tmp_path / "calls.sqlite")
    assert 8 <= held < 60
    vllm.start()
    with CallStore(tmp_path / "calls.sqlite") as store:
        replies = complete_all(stored(vllm, store, **slow), prompts)
    assert [reply.usage.output_tokens for reply in replies] == [200] * 60
    assert vllm.requests() == 60 - held
    assert answered(tmp_path / "calls.sqlite") == 60


def kill_after(server: VllmServer, store: CallStore, count: int) -> None:
    while sum(1 for _ in store.calls()) < count:
        time.sleep(0.02)
    server.kill()


def answered(path: Path) -> int:
    with CallStore(path, read_only=True) as store:
        return sum(call.text is not None for call in store.calls())


def test_whoever_gives_up_leaves_the_others_their_answers(vllm: VllmServer, tmp_path: Path) -> None:
    async def give_up(model: StoredModel) -> list[Completion | ModelError]:
        early = asyncio.create_task(gather_all(model, [question(1)]))
        await asyncio.sleep(0.05)
        early.cancel()
        return await gather_all(model, [question(1), question(2)])

    with CallStore(tmp_path / "calls.sqlite") as store:
        model = stored(vllm, store, max_output_tokens=200)
        before = vllm.requests()
        replies = run(give_up(model))
        assert all(isinstance(reply, Completion) for reply in replies)
        assert vllm.requests() - before == 2
