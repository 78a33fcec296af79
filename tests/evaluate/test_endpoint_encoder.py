"""`encoder: embedding` in whole runs against a real HTTP server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import beamlib
from beam_commands.costs import realised
from beam_commands.estimate import estimate
from beamlib.data.loading import load
from beamlib.data.sources import find_conversations
from beamlib.errors import SpendingLimit, UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.llm.embedding_model import EMBED
from beamlib.llm.endpoints import load_models
from beamlib.llm.spending import guard_run, set_spending_limit
from beamlib.params import RunParameters, load_parameters
from beamlib.report.footer import footer
from beamlib.run import Run
from scripted_server import Answer, ScriptedServer, error_body, near, vectors
from steady_replies import one_endpoint, steady_reply

pytestmark = pytest.mark.usefixtures("in_this_process")

EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
ARMS = (
    Arm(memory="rag", retriever="dense", k=1),
    Arm(memory="rag", retriever="hybrid", k=2),
    Arm(memory="light", retriever="hybrid", k=2),
)
PRICE = 0.5


def parameters(root: Path, run: Path, models: Path, **changes: Any) -> RunParameters:
    fixed = {"data": str(EXAMPLE), "run": str(run), "models": str(models), "workers": 1, "confirm_cost": True}
    return load_parameters(root / "params" / "100k.yaml", **{**fixed, "encoder": "embedding", **changes})


def test_an_arm_recalls_what_the_server_calls_near(repo_root: Path, tmp_path: Path) -> None:
    conversation = load(find_conversations(EXAMPLE)[0]).conversation
    pair = conversation.pairs[-2]
    with ScriptedServer(steady_reply, embed=near(pair.assistant.content[:60])) as server:
        given = parameters(
            repo_root, tmp_path / "run", one_endpoint(server, tmp_path / "models.yaml", input_price=PRICE)
        )
        answers = [answer for own in evaluate(given, ARMS[:1], quiet=True).answers.values() for answer in own]
    assert answers and {answer.message_ids for answer in answers} == {pair.message_ids}


def test_a_run_is_estimated_paid_once_and_replayed(repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(steady_reply) as server:
        given = parameters(
            repo_root, tmp_path / "run", one_endpoint(server, tmp_path / "models.yaml", input_price=PRICE)
        )
        expected = next(row for row in estimate(given, ARMS, quiet=True).rows if row.step == EMBED)
        assert not server.requests
        first = evaluate(given, ARMS, quiet=True)
        texts = server.embedded
        assert len(texts) == len(set(texts)) > 100
        (paid,) = [row for row in realised(Run.of(given)) if row.role == "embedding"]
        tokens = sum(len(text.split()) for text in texts)
        assert (paid.step, paid.calls, paid.input_tokens) == (EMBED, len(texts), tokens)
        assert paid.dollars == pytest.approx(tokens * PRICE / 1e6)
        assert 0.8 < expected.calls / paid.calls < 1.3  # LIGHT's keys are the stand-in's there
        assert expected.dollars and expected.dollars > 0
        asked = len(server.requests)
        again = given.model_copy(update={"run": str(tmp_path / "again")})
        (tmp_path / "again").mkdir()
        (tmp_path / "again/calls").symlink_to(tmp_path / "run/calls")
        held = [row for row in estimate(again, ARMS, quiet=True).rows if row.calls]
        assert not held  # stored vectors lead to the stored answers
        evaluate(again, ARMS, quiet=True)
        assert len(server.requests) == asked
        second = evaluate(
            again.model_copy(update={"calls": "replay", "run": str(tmp_path / "again")}), ARMS, quiet=True
        )
    assert second.answers == first.answers
    manifests = [json.loads(path.read_text()) for path in (tmp_path / "run").glob("100k-one/*/manifest.json")]
    assert (
        "vectors by embedder" in footer(manifests, protocol="paper", n_questions=1, unscored=0, interval="").retrieval
    )


def test_another_embedding_model_makes_other_records(repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(steady_reply) as server:
        for model in ("embedder", "embedder", "other"):
            models = one_endpoint(server, tmp_path / "models.yaml", model=model)
            evaluate(parameters(repo_root, tmp_path / "run", models), ARMS[:1], quiet=True)
        names = [request.body["model"] for request in server.requests if "input" in request.body]
    assert set(names) == {"embedder", "other"}
    assert names.count("embedder") == names.count("other")


def test_a_broken_vector_leaves_answers_unscored_with_the_reason(repo_root: Path, tmp_path: Path) -> None:
    def embed(body: dict[str, Any]) -> dict[str, Any]:
        reply = vectors(body)
        reply["data"][0]["embedding"] = []
        return reply

    with ScriptedServer(steady_reply, embed=embed) as server:
        models = one_endpoint(server, tmp_path / "models.yaml", attempts=1)
        evaluation = evaluate(parameters(repo_root, tmp_path / "run", models), ARMS, quiet=True)
    for answers in evaluation.answers.values():
        assert answers
        for answer in answers:
            assert answer.text is None
            assert "the memory could not be built" in answer.unscored
            assert "a vector without numbers, or with zeros alone" in answer.unscored
            assert answer.transient


def test_a_question_without_a_vector_fails_alone(repo_root: Path, tmp_path: Path) -> None:
    conversation = find_conversations(EXAMPLE)[0]
    question = load(conversation).probes[0].question

    def embed(body: dict[str, Any]) -> dict[str, Any] | Answer:
        return Answer(error_body("content_filter"), 400) if question in body["input"] else vectors(body)

    with ScriptedServer(steady_reply, embed=embed) as server:
        models = one_endpoint(server, tmp_path / "models.yaml", input_price=PRICE)
        evaluation = evaluate(parameters(repo_root, tmp_path / "run", models), ARMS, quiet=True)
    for name, answers in evaluation.answers.items():
        failed = [answer for answer in answers if answer.text is None]
        assert [answer.unscored.partition(":")[0] for answer in failed] == ["content filter"], name


def test_the_limit_of_a_run_covers_its_vectors(repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(steady_reply) as server:
        models = one_endpoint(server, tmp_path / "models.yaml", input_price=1e6)
        given = parameters(repo_root, tmp_path / "run", models)
        set_spending_limit(0.001)
        try:
            with (
                pytest.raises(SpendingLimit, match="embedding, encoder/embeddings"),
                guard_run(Path(given.run), load_models(models)),
            ):
                evaluate(given, ARMS[:1], quiet=True)
        finally:
            set_spending_limit(None)
        assert not server.requests


@pytest.mark.parametrize("named", [True, False])
def test_without_the_role_it_is_refused_in_a_sentence(named: bool, repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(steady_reply) as server:
        models = one_endpoint(server, tmp_path / "models.yaml")
        given = parameters(repo_root, tmp_path / "run", models).model_copy(update={} if named else {"models": ""})
        place = "models.yaml has no such role; add it" if named else "none is named; name one with it"
        with pytest.raises(UserError, match=rf"encoder is 'embedding', a role of the models file, and .*{place}"):
            evaluate(given, ARMS[:1], quiet=True)
        assert not server.requests and not (tmp_path / "run").exists()
