"""The models files of params/, and the commands of docs/openai.md, against a server that answers as theirs does."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

import beamlib
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.llm.endpoints import load_models
from beamlib.params import load_parameters
from commands import Call
from scripted_server import ScriptedServer
from steady_replies import steady_reply

pytestmark = pytest.mark.usefixtures("file_in_this_process")

EXAMPLE = Path(beamlib.__file__).parent / "data/example"
KEY = "a-key-of-nobody"


def at_server(file: Path, server: ScriptedServer, folder: Path) -> Path:
    """A copy of a models file whose roles are all served by the scripted server."""
    copy = folder / file.name
    copy.write_text(re.sub(r'"https?://[^"]+"', f'"{server.base_url}"', file.read_text()))
    return copy


@pytest.mark.quick("openai")
@pytest.mark.parametrize("name", ["openai", "openrouter", "ollama", "vllm", "local"])
def test_every_role_of_a_models_file_is_called_as_it_says(
    name: str, repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = repo_root / f"params/{name}.yaml"
    assert len(file.read_text().splitlines()) <= 16
    stated = load_models(file)
    variables = {one.key_variable for one in (*stated.readers.values(), stated.judge) if one.key_variable}
    assert variables == {{"openai": "OPENAI_API_KEY", "openrouter": "OPENROUTER_API_KEY"}[name]} if variables else True
    for variable in variables:
        monkeypatch.setenv(variable, KEY)
    with ScriptedServer(steady_reply) as server:
        places = {"data": str(EXAMPLE), "run": str(tmp_path / "run"), "confirm_cost": True, "workers": 1}
        models = str(at_server(file, server, tmp_path))
        parameters = load_parameters(repo_root / "params/100k.yaml", **places, models=models)
        done = evaluate(
            parameters,
            (Arm(memory="rag", retriever="bm25", k=2), Arm(memory="light", retriever="bm25", k=2)),
            quiet=True,
        )
        assert all(answer.unscored is None for own in done.answers.values() for answer in own)
        assert {request.body["model"] for request in server.requests} == {
            one.model for one in (*stated.readers.values(), stated.memory, stated.judge, stated.aligner)
        }
        headers = {request.authorization for request in server.requests}
        assert headers == {f"Bearer {KEY}" if variables else "Bearer none"}


@pytest.mark.slow
def test_every_command_of_the_guide_does_what_it_says(
    repo_root: Path, tmp_path: Path, called: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```bash\n(.*?)```", (repo_root / "docs/openai.md").read_text(), re.DOTALL)
    commands = [line.replace("\\\n", " ").strip() for line in blocks]
    assert commands[0] == "export OPENAI_API_KEY=..." and len(commands) == 4
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    run = "test-guide"
    with ScriptedServer(steady_reply) as server:
        models = at_server(repo_root / "params/openai.yaml", server, tmp_path)
        sent = []
        for command in commands[1:]:
            words = shlex.split(command.replace("FOLDER", str(EXAMPLE)).replace("params/openai.yaml", str(models)))
            words = [run if word == "nano" else word for word in words]
            program, *arguments = words
            assert program in (".venv/bin/beamlib", "./run_all.sh")
            if program == "./run_all.sh":  # the notebooks are tried elsewhere
                arguments = ["run-all", *arguments, "--step", "evaluate"]
            done = called(*arguments)
            assert done.returncode == 0, done.stderr
            assert "price unknown" not in done.stdout
            sent.append(len(server.requests))
    shutil.rmtree(repo_root / "runs" / run)
    assert sent[0] == 0 < sent[1] == sent[2]  # the estimate and the replay send nothing
