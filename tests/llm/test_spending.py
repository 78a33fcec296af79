"""`--max-cost`: never more than said, over all processes, and a run that goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from beamlib.errors import SpendingLimit, UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.llm import spending
from beamlib.llm.call_store import CallStore
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint, load_models
from beamlib.llm.model import ModelError, Prompt, run
from beamlib.llm.spending import has_limit, limited, reserve, set_spending_limit
from beamlib.params import RunParameters, load_parameters
from commands import beamlib
from scripted_server import Answer, ScriptedServer, completion
from steady_replies import steady_reply

DEAR = {"input_price": 1_000.0, "output_price": 1_000.0, "max_output_tokens": 60}
"""A dollar for a thousand tokens."""


@pytest.fixture(autouse=True)
def no_limit() -> Iterator[None]:
    yield
    set_spending_limit(None)
    assert not has_limit()


def dear(server: ScriptedServer, path: Path, **changes: float) -> Path:
    endpoint = {"model": "scripted", "base_url": server.base_url, "context_window": 131_072, **DEAR, **changes}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    path.write_text(yaml.safe_dump({"readers": {"one": endpoint}, **roles, "authors": {"planner": endpoint}}))
    return path


def parameters(folder: Path, root: Path, models: Path, workers: int = 1) -> RunParameters:
    return load_parameters(
        root / "params/100k.yaml", data=str(root / "beamlib/data/example"), run=str(folder / "run"), models=str(models),
        workers=workers, confirm_cost=True,
    )  # fmt: skip


def cost(server: ScriptedServer) -> float:
    """What the answered requests cost, by what the server says of each."""
    words = sum(
        len("\n".join(str(m["content"]) for m in one.body["messages"]).split()) + len(steady_reply(one.body).split())
        for one in server.requests
    )
    return words / 1_000


ARMS = [Arm(memory="none"), Arm(memory="rag", retriever="bm25", k=2)]


@pytest.mark.slow
def test_never_more_is_spent_and_the_run_goes_on(tmp_path: Path, repo_root: Path) -> None:
    with ScriptedServer(steady_reply, latency=0.02) as server:
        models = dear(server, tmp_path / "models.yaml")
        chosen = parameters(tmp_path, repo_root, models, workers=2)
        paid = []
        for limit in (6.0, 9.0):
            set_spending_limit(limit)
            said = r"has spent \$.* and the next call"
            with pytest.raises(SpendingLimit, match=said) as reached, limited(Path(chosen.run), load_models(models)):
                evaluate(chosen, ARMS, quiet=True)
            assert reached.value.exit_code == 3
            assert "with a higher --max-cost continues" in str(reached.value)
            paid.append(cost(server))
            assert limit / 2 < paid[-1] <= limit
        set_spending_limit(1_000)
        with limited(Path(chosen.run), load_models(models)):
            found = evaluate(chosen, ARMS, quiet=True)
        assert server.repeated() == []
        assert len({request.hash for request in server.requests}) == len(server.requests)
    assert not any(answer.unscored for answers in found.answers.values() for answer in answers)
    whole = parameters(tmp_path / "whole", repo_root, models)
    with ScriptedServer(steady_reply, port=server.port):
        unlimited = evaluate(whole, ARMS, quiet=True)
    assert unlimited.manifests["none"].judgements_sha256 == found.manifests["none"].judgements_sha256


@pytest.mark.usefixtures("in_this_process")
def test_what_is_stored_counts_before_anything_is_called(tmp_path: Path, repo_root: Path) -> None:
    with ScriptedServer(steady_reply) as server:
        models = dear(server, tmp_path / "models.yaml")
        chosen = parameters(tmp_path, repo_root, models)
        evaluate(chosen, ARMS[:1], quiet=True)
        before = len(server.requests)
        set_spending_limit(cost(server))
        with pytest.raises(SpendingLimit), limited(Path(chosen.run), load_models(models)):
            evaluate(chosen, ARMS, quiet=True)
        assert len(server.requests) == before
        with limited(Path(chosen.run), load_models(models)):  # what is held costs nothing
            evaluate(chosen, ARMS[:1], quiet=True)


def _absurd(body: dict[str, Any]) -> Answer:
    reply = completion(body, steady_reply(body))
    return Answer(
        {**reply, "usage": {"prompt_tokens": 10**15, "completion_tokens": 10**15, "total_tokens": 2 * 10**15}}
    )


def test_token_counts_that_cannot_be_are_bounded_and_named(
    tmp_path: Path, repo_root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with ScriptedServer(_absurd) as server:
        models = dear(server, tmp_path / "models.yaml", input_price=0.01, output_price=0.01)
        chosen = parameters(tmp_path, repo_root, models)
        set_spending_limit(5)
        with limited(Path(chosen.run), load_models(models)):
            evaluate(chosen, ARMS[:1], quiet=True)
        sent = sum(len(json.dumps(request.body)) for request in server.requests)
    (path,) = (Path(chosen.run) / "calls").rglob("*.sqlite")
    with CallStore(path, read_only=True) as store:
        calls = list(store.calls())
    assert sum(call.input_tokens for call in calls) <= sent + 2_000 * len(calls)
    assert max(call.output_tokens for call in calls) < 1_000
    printed = capfd.readouterr().err
    assert printed.count("1,000,000,000,000,000 tokens in a request of") == len({call.role for call in calls})


@pytest.mark.parametrize("kind", ["filtered", "no choices"])
@pytest.mark.usefixtures("short_pauses")
def test_what_came_without_a_reply_costs_what_is_possible(kind: str, tmp_path: Path, repo_root: Path) -> None:
    def reply(body: dict[str, Any]) -> Answer:
        usage = {"prompt_tokens": 10**15, "completion_tokens": 10**15, "total_tokens": 2 * 10**15}
        filtered = completion(body, "", "content_filter")
        return Answer({**filtered, "usage": usage} if kind == "filtered" else {"choices": [], "usage": usage})

    with ScriptedServer(reply) as server:
        endpoint = Endpoint(
            model="m", base_url=server.base_url, context_window=32_000, attempts=1, max_output_tokens=60
        )
        with pytest.raises(ModelError) as failure:
            run(EndpointModel("reader", endpoint).complete(Prompt("answer", {"question": "Tea?", "context": "Tea."})))
    assert 100 < failure.value.usage.input_tokens < 10_000
    assert 0 < failure.value.usage.output_tokens < 1_000


def test_a_withheld_reply_that_is_not_counted_cost_its_request() -> None:
    filtered = {**completion({}, "", "content_filter"), "usage": None}
    with ScriptedServer(lambda body: Answer(filtered)) as server:
        endpoint = Endpoint(model="m", base_url=server.base_url, context_window=32_000)
        with pytest.raises(ModelError) as failure:
            run(EndpointModel("reader", endpoint).complete(Prompt("answer", {"question": "Tea?", "context": "Tea."})))
    assert failure.value.usage.estimated and failure.value.usage.input_tokens > 50


def test_a_reply_beyond_its_limit_raises_what_others_may_cost() -> None:
    def reply(body: dict[str, Any]) -> Answer:
        usage = {"prompt_tokens": 9, "completion_tokens": 4, "reasoning_tokens": 2_000}
        return Answer({**completion(body, "Tea."), "usage": usage})

    prompt = Prompt("answer", {"question": "Tea?", "context": "Tea."})
    with ScriptedServer(reply) as server:
        prices = {"input_price": 0.0, "output_price": 1_000_000.0, "max_output_tokens": 60}
        endpoint = Endpoint(model="m", base_url=server.base_url, context_window=32_000, **prices)
        assert EndpointModel("judge", endpoint).max_cost(prompt) == 60
        run(EndpointModel("reader", endpoint).complete(prompt))
        assert EndpointModel("judge", endpoint).max_cost(prompt) == 2_004


def test_models_without_prices_cannot_be_limited(tmp_path: Path) -> None:
    with ScriptedServer(steady_reply) as server:
        models = dear(server, tmp_path / "models.yaml", input_price=0.0, output_price=0.0)
    set_spending_limit(5)
    with pytest.raises(UserError, match="the models have no prices"), limited(tmp_path, load_models(models)):
        pass


def test_a_call_waits_for_what_others_hold(tmp_path: Path) -> None:
    """Ten calls that may cost a dollar and cost a tenth of it, with two dollars: two at a time, and all ten fit."""
    set_spending_limit(2.0)
    at_once, most = 0, 0

    async def call() -> None:
        nonlocal at_once, most
        async with reserve("a call", 1.0) as pay:
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.01)
            at_once -= 1
            pay(0.1)

    async def calls() -> None:
        await asyncio.gather(*(call() for _ in range(10)))

    with limited(tmp_path):
        run(calls())
        assert spending._ledger is not None
        assert (spending._ledger.spent, spending._ledger.reserved) == pytest.approx((1.0, 0.0))
    assert most == 2


@pytest.mark.parametrize("given", ["-1", "nan", "x", "inf"])
def test_a_limit_that_is_none_is_refused(given: str) -> None:
    found = beamlib("generate", "--out", "nowhere", "--max-cost", given)
    assert found.returncode == 2
    assert "max-cost" in found.stderr


def test_the_commands_end_with_a_code_of_their_own(tmp_path: Path) -> None:
    with ScriptedServer(lambda body: "Nothing of use.") as server:
        models = dear(server, tmp_path / "models.yaml")
        asked = ["--models", models, "--yes", "--max-cost", "0.5"]
        generated = beamlib("generate", "--out", tmp_path / "out", *asked)
        assert generated.returncode == 3
        assert "--max-cost: this run has spent" in generated.stderr
        dialogues = beamlib("memorycode", "generate", "--out", tmp_path / "code", "--counts", "1", *asked)
        assert dialogues.returncode == 3
        assert cost(server) <= 1.0 or not server.requests
