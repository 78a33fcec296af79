"""`beamlib endpoints`: what servers do, measured without a run."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from beam_commands.options import Endpoints
from beamlib.llm.endpoints import load_models
from beamlib.llm.model import Completion, ModelError
from beamlib.scoring.judge_exam import JudgeExam, known_verdicts
from commands import Call
from scripted_server import Answer, ScriptedServer, body_text, completion, error_body, vectors
from steady_replies import one_endpoint


def knows(body: dict[str, Any]) -> str:
    text = body_text(body)
    if gate := re.search(r"garden gate is (\w+)\.", text):
        return f"~~hm Let me weigh {gate[1]} here. hm~~ {gate[1]}"
    if "Count from 1" in text:
        return " ".join(map(str, range(1, body.get("max_tokens", 500) + 1)))
    if "criterion" in text:
        answer, criterion = (re.search(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.S) for tag in ("answer", "criterion"))
        assert answer and criterion
        met = criterion[1].partition("state: ")[2] in answer[1]
        return json.dumps({"score": 1.0 if met else 0.0, "reason": "so"})
    return "orchard violin" if "passwords" in text or "last password" in text else "YES" if "hives" in text else "NO"


@pytest.mark.usefixtures("short_pauses")
def test_what_endpoints_do_is_measured_without_a_run(tmp_path: Path, called: Call) -> None:
    def slowly(body: dict[str, Any]) -> Answer:
        time.sleep(0.02)
        return Answer(completion(body, knows(body)))

    with ScriptedServer(slowly, embed=lambda body: vectors(body, 24)) as server:
        models = one_endpoint(server, tmp_path / "models.yaml", context_window=512)
        shown = called("endpoints", "--models", str(models), "--longest", "2000", "--yes", "--json")
        report, encoder = json.loads(shown.stdout[shown.stdout.index("[") :])
        assert len(server.requests) <= 60
    assert report["roles"] == ["reader", "memory", "compressor", "judge", "aligner"]
    assert report["known"] == [6, 6] and report["mark"] == ["~~hm", "hm~~"]
    assert "both ends known; the server counts 1," in report["window"]
    assert report["obeys_limit"] and report["counts_tokens"] and report["tokens_per_second"] > 0
    assert report["judge"] == {"asked": 30, "read": 30, "kappa": 1.0}
    assert encoder["dimensions"] == 24 and encoder["texts_per_second"] > 0
    assert not (tmp_path / "runs").exists()


def test_an_encoder_and_a_model_that_always_reply_alike_are_named(tmp_path: Path, called: Call) -> None:
    def alike(body: dict[str, Any]) -> dict[str, Any]:
        reply = vectors(body)
        return reply | {"data": [item | {"embedding": [0.5, 2.0]} for item in reply["data"]]}

    with ScriptedServer(lambda body: "yes", embed=alike) as server:
        models = one_endpoint(server, tmp_path / "models.yaml", context_window=512)
        shown = called("endpoints", "--models", str(models), "--longest", "2000", "--yes")
    assert "embedding one vector; such replies rest on nothing that was asked" in shown.stdout
    assert "to all known questions: reader 'yes'; memory 'yes'" in shown.stdout


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("vector", [[], [0.0, 0.0], ["a"], None])
def test_an_encoder_without_vectors_is_asked_twice_and_no_thoughts_are_blamed(
    vector: object, tmp_path: Path, called: Call
) -> None:
    def broken(body: dict[str, Any]) -> dict[str, Any]:
        reply = vectors(body)
        return reply | {"data": [item | {"embedding": vector} for item in reply["data"]]}

    with ScriptedServer(knows, embed=broken) as server:
        models = one_endpoint(server, tmp_path / "models.yaml", context_window=512)
        shown = called("endpoints", "--models", str(models), "--longest", "2000", "--yes")
        assert sum(request.path == "/v1/embeddings" for request in server.requests) == 2
    assert "the answer has a vector" in shown.stdout and "thoughts: switch" not in shown.stdout


@pytest.mark.usefixtures("short_pauses")
def test_an_endpoint_that_refuses_is_named_and_the_next_is_asked(tmp_path: Path, called: Call) -> None:
    with ScriptedServer(lambda body: Answer(error_body("glomp"), 403)) as server:
        shown = called("endpoints", "--base-url", server.base_url, "--model", "m", "--context-window", "4000", "--yes")
    assert shown.returncode == 2 and "none of the endpoints can be used" in shown.stderr
    assert "(reader, memory, compressor, judge, aligner" in shown.stdout and "status 403: glomp" in shown.stdout


def test_an_exam_counts_what_is_readable_and_agreement_beyond_chance() -> None:
    known = known_verdicts()
    assert len(known) == 30 and {item.score for item in known} == {0.0, 1.0}
    assert len({tuple(item.prompt.variables.values()) for item in known}) == 30

    def exam(*texts: str) -> JudgeExam:
        replies = [Completion(text) if text else ModelError("no") for text in texts]
        return JudgeExam.of(known, replies)

    right = [json.dumps({"score": item.score, "reason": "so"}) for item in known]
    assert exam(*right) == JudgeExam(30, 30, 1.0)
    assert exam(*['{"score": 1.0, "reason": "so"}'] * 30).kappa == 0.0
    assert exam(*right[:15], *[""] * 15).read == 15
    echo = '{"score": 1.0 or 0.5 or 0.0, "reason": "in detail, whether the criterion was met"}'
    assert exam(*right[:20], *[echo] * 10) == JudgeExam(30, 20, 1.0)


def test_one_endpoint_has_the_prices_that_the_models_files_list_for_its_address(tmp_path: Path) -> None:
    listed = Endpoints(base_url="https://api.openai.com/v1/", model="gpt-4.1-nano").path(tmp_path)
    reader = load_models(Path(listed)).reader("")
    assert (reader.input_price, reader.cached_input_price, reader.output_price) == (0.10, 0.025, 0.40)
    for base_url, model in (("http://127.0.0.1:9/v1", "gpt-4.1-nano"), ("https://api.openai.com/v1", "gpt-nobody")):
        unlisted = Endpoints(base_url=base_url, model=model).path(tmp_path)
        assert load_models(Path(unlisted)).reader("").input_price is None
