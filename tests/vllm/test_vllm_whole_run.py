"""A conversation answered and judged by a real vLLM server, then replayed without it (`./run_tests.sh --vllm`)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import beamlib
from beamlib.errors import UserError
from beamlib.evaluate.arms import arms_of
from beamlib.evaluate.run import evaluate
from beamlib.llm.model import Outcome
from beamlib.llm.stored_model import CallStore
from beamlib.params import RunParameters, load_parameters

if TYPE_CHECKING:
    from conftest import VllmServer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
VERDICT = {
    "type": "object",
    "properties": {"score": {"enum": [0, 0.5, 1]}, "reason": {"enum": ["noise"]}},
    "required": ["score", "reason"],
    "additionalProperties": False,
}


def models_file(server: VllmServer, path: Path) -> Path:
    """Every role at the server. Its noise never ends by itself, so it is stopped, or held to the form asked for."""
    words: dict[str, Any] = {"stop": ["a", "e"], "min_tokens": 6}
    json_only = {"response_format": {"type": "json_schema", "json_schema": {"name": "verdict", "schema": VERDICT}}}
    one_word = {"structured_outputs": {"choice": ["yes", "no"]}}

    def role(extra: dict[str, Any]) -> dict[str, Any]:
        place = {"model": "tiny", "base_url": server.base_url, "context_window": 32_768, "patience": 5.0}
        return {**place, "max_output_tokens": 96, "concurrency": 32, "extra": extra}

    roles = {"memory": role(words), "compressor": role(words), "judge": role(json_only), "aligner": role(one_word)}
    path.write_text(yaml.safe_dump({"readers": {"tiny": role(words)}, **roles}))
    return path


def parameters(root: Path, run: Path, models: Path, **changes: Any) -> RunParameters:
    settings = {"data": str(EXAMPLE), "run": str(run), "models": str(models), "workers": 1, **changes}
    return load_parameters(root / "params" / "100k.yaml", **settings)


def records(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.glob("100k-tiny/*/*.jsonl"))}


def test_nothing_is_called_without_a_yes_or_for_a_replay(vllm: VllmServer, repo_root: Path, tmp_path: Path) -> None:
    models = models_file(vllm, tmp_path / "models.yaml")
    before = vllm.requests()
    for changes, said in (({}, "confirm_cost"), ({"calls": "replay"}, "--calls record --yes")):
        asked = parameters(repo_root, tmp_path / "run", models, **changes)
        with pytest.raises(UserError, match=said):
            evaluate(asked, arms_of(asked, ["main"]), quiet=True)
    assert vllm.requests() == before


def test_a_conversation_from_nothing_and_again_without_the_server(
    vllm: VllmServer, repo_root: Path, tmp_path: Path
) -> None:
    models = models_file(vllm, tmp_path / "models.yaml")
    asked = parameters(repo_root, tmp_path / "first", models, confirm_cost=True)
    arms = arms_of(asked, ["main", "ablation"])
    before = vllm.requests()
    first = evaluate(asked, arms, quiet=True)
    sent = vllm.requests() - before

    assert set(first.answers) == {arm.name for arm in arms}
    for name, answers in first.answers.items():
        assert len(answers) == 20, name
        assert sum(answer.text is not None for answer in answers) >= 15, (name, [a.unscored for a in answers])
    reasons = {answer.unscored for answers in first.answers.values() for answer in answers if answer.unscored}
    assert all(reason.startswith(tuple(Outcome)) for reason in reasons), reasons
    judged = [judgement for judgements in first.judgements.values() for judgement in judgements]
    assert len(judged) == 20 * len(arms)
    assert sum(judgement.unscored is None for judgement in judged) >= 0.7 * len(judged)

    with CallStore(tmp_path / "first" / "calls" / "100k" / "100K-1.sqlite", read_only=True) as store:
        steps = [call.step for call in store.calls()]
    assert len(steps) == sent
    assert {"episodic_keys", "scratchpad_notes", "scratchpad_filter", "answer", "answer_turns", "judge_nugget"} <= set(
        steps
    )

    vllm.kill()
    shutil.copytree(tmp_path / "first" / "calls", tmp_path / "again" / "calls")
    evaluate(parameters(repo_root, tmp_path / "again", models, calls="replay"), arms, quiet=True)
    assert records(tmp_path / "again") == records(tmp_path / "first")
    assert len(records(tmp_path / "first")) == 2 * len(arms)
