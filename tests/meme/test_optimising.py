"""SIMBA against a scripted server whose answers are right once the prompt has a rule; skipped where dspy is missing."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from beam_commands.task_runs import TaskOptions, run_command, run_of
from beam_meme.episode_files import write_episodes
from beam_meme.optimising import TARGETS, Search, optimise_prompt, split_episodes
from beam_meme.task import Meme
from beamlib.errors import UserError
from beamlib.llm.prompts import prompt_file
from scripted_server import ScriptedServer
from small_episodes import LOADED
from steady_replies import one_endpoint

RULE = "Name every value that stands in the context {{ twice }}."
TASK = Meme("nofiller")


@pytest.fixture
def with_dspy(monkeypatch: pytest.MonkeyPatch) -> None:
    """DSPy is installed, or lies in the folder that BEAM_DSPY names (pip install --target FOLDER dspy)."""
    if folder := os.environ.get("BEAM_DSPY"):
        monkeypatch.setattr(sys, "path", [*sys.path, folder])
    pytest.importorskip("dspy", reason="dspy is not installed: pip install -e '.[dspy]'")


def reply(body: dict[str, Any]) -> str:
    text = "\n".join(str(message["content"]) for message in body["messages"])
    if "module_advice" in text:
        return (
            f"[[ ## discussion ## ]]\nx\n[[ ## module_advice ## ]]\n{json.dumps({'self': RULE})}\n[[ ## completed ## ]]"
        )
    if "[[ ## answer ## ]]" in text:
        lucky = body.get("seed", 0) % 2  # what tells a good sample from a bad one before there is a rule
        return f"[[ ## answer ## ]]\n{'right' if RULE in text or lucky else 'wrong'}\n[[ ## completed ## ]]"
    answer = re.search(r"\b(right|wrong)\b\s*</answer>", text)
    return json.dumps({"pass": bool(answer and answer[1] == "right"), "reason": "scripted"})


def test_the_better_prompt_is_found_written_and_replayed(with_dspy: None, tmp_path: Path) -> None:
    data = tmp_path / "nofiller.json"
    write_episodes(data, LOADED)
    with ScriptedServer(reply) as server:
        models = str(one_endpoint(server, tmp_path / "models.yaml"))
        order = TaskOptions(
            data, tmp_path / "run", arms=["bm25"], models=models, settings={"workers": 1}, quiet=True, yes=True
        )
        run_command(TASK, order)
        search = Search(steps=2, candidates=2, batch=4)
        path = optimise_prompt(TASK, run_of(TASK, order), "bm25", search, tmp_path / "better")
        asked = len(server.requests)
        replayed = TaskOptions(
            data, tmp_path / "run", models=models, calls="replay", settings={"workers": 1}, quiet=True
        )
        again = optimise_prompt(TASK, run_of(TASK, replayed), "bm25", search, tmp_path / "again")
        assert len(server.requests) == asked
        assert server.repeated() == []
        split = json.loads((tmp_path / "better-split.json").read_text())
        assert len(split["train"]) == len(split["test"]) == 1 and split["train"] != split["test"]
        assert RULE.replace("{{", "{ {") in path.read_text()
        assert again.read_bytes() == path.read_bytes()
        told = run_command(TASK, TaskOptions(data, tmp_path / "new", arms=["bm25"], prompts=path.parent, models=models,
                                             settings={"workers": 1}, quiet=True, yes=True))  # fmt: skip
        sent = str(server.requests[-1])
        assert "Name every value" in sent and told.records("bm25")


def reply_ingesting(body: dict[str, Any]) -> str:
    """Keep the right line in the file only if the prompt has the rule, or by luck; answer with what the file holds."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    if "module_advice" in text:
        return reply(body).replace('"self"', '"ingest"')
    if "[[ ## calls ## ]]" in text:
        line = "right" if RULE in text or body.get("seed", 0) % 2 else "wrong"
        calls = [] if "Added" in text or "append {" in text else [{"tool": "append", "arguments": {"text": line}}]
        return f"[[ ## calls ## ]]\n{json.dumps({'calls': calls})}\n[[ ## completed ## ]]"
    if "<context>" in text:
        return "right" if re.search(r"<context>.*\bright\b.*</context>", text, re.DOTALL) else "wrong"
    return reply(body) if "<answer>" in text else json.dumps({"calls": []})


def test_the_better_ingest_prompt_is_found_replayed_and_used(with_dspy: None, tmp_path: Path) -> None:
    data = tmp_path / "nofiller.json"
    write_episodes(data, LOADED)
    with ScriptedServer(reply_ingesting) as server:
        models = str(one_endpoint(server, tmp_path / "models.yaml"))
        shared = {"models": models, "settings": {"workers": 1}, "quiet": True}
        search = Search(steps=2, candidates=2, batch=4)
        order = TaskOptions(data, tmp_path / "run", yes=True, **shared)  # type: ignore[arg-type]
        path = optimise_prompt(TASK, run_of(TASK, order), "", search, tmp_path / "better", "ingest")
        asked = len(server.requests)
        replayed = TaskOptions(data, tmp_path / "run", calls="replay", **shared)  # type: ignore[arg-type]
        again = optimise_prompt(TASK, run_of(TASK, replayed), "", search, tmp_path / "again", "ingest")
        assert len(server.requests) == asked and server.repeated() == []
        assert path.name == "file_memory_ingest.md" and again.read_bytes() == path.read_bytes()
        assert RULE.replace("{{", "{ {") in path.read_text()
        new = TaskOptions(data, tmp_path / "new", arms=["md-flat"], prompts=path.parent, yes=True, **shared)  # type: ignore[arg-type]
        run_command(TASK, new)
        later = [str(request) for request in server.requests[asked:]]
        assert any("Name every value" in request and "<session>" in request for request in later)


def test_what_cannot_be_optimised_is_refused(tmp_path: Path) -> None:
    parameters = run_of(TASK, TaskOptions(tmp_path / "nofiller.json", tmp_path / "run"))
    known = "choose one of answer, md-flat-ingest, md-flat-retrieve, wiki-compile, wiki-retrieve"
    with pytest.raises(UserError, match=f"--prompt: 'recall' cannot be optimised; {known}"):
        optimise_prompt(TASK, parameters, "", Search(), tmp_path / "out", "recall")
    for name in ("graphiti-nodes", "graphiti-edges", "graphiti-dedupe", "wiki-log"):  # of the paper's eight
        with pytest.raises(UserError, match=f"--prompt: '{name}' cannot be optimised: .*; {known}"):
            optimise_prompt(TASK, parameters, "", Search(), tmp_path / "out", name)


@pytest.mark.parametrize("name", TARGETS)
def test_instructions_end_before_the_first_variable(name: str) -> None:
    prompt = prompt_file(TARGETS[name].prompt)
    instructions, tag, rest = prompt.source.split("---\n", 2)[2].partition(TARGETS[name].tag)
    assert tag and instructions.strip() and "{{" not in instructions
    assert all(f"{{{{ {variable} }}}}" in rest for variable in prompt.variables)


def test_training_and_test_episodes_are_disjoint() -> None:
    names = [f"sw_{number:03}" for number in range(11)]
    train, test = split_episodes(names, 0.5, 42)
    assert sorted(train + test) == names and train == split_episodes(names[::-1], 0.5, 42)[0]
    assert split_episodes(names, 1.0, 1)[1]
    with pytest.raises(UserError, match="two episodes at least"):
        split_episodes(names[:1], 0.5, 42)


def reply_reading(body: dict[str, Any]) -> str:
    """Do as a memory's tools and choices ask, well if the prompt has the rule; the advice is for the one module."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    if "module_advice" in text:
        step = next(
            name for name in ("retrieve", "compile", "ingest") if f"Module {name}" in text or f'"{name}"' in text
        )
        return reply(body).replace('"self"', f'"{step}"')
    lucky = RULE in text or body.get("seed", 0) % 2
    if "[[ ## pages ## ]]" in text:
        pages = ["page.md"] if lucky else []
        return f"[[ ## pages ## ]]\n{json.dumps({'pages': pages})}\n[[ ## completed ## ]]"
    if "[[ ## calls ## ]]" in text:
        retrieving = "[[ ## question ## ]]" in text
        write = {"tool": "append", "arguments": {"file": "page.md", "text": "right" if lucky else "wrong"}}
        take = {"tool": "take", "arguments": {"lines": "1" if lucky else "2"}}
        calls = [] if "Added" in text or "Taken" in text else [take if retrieving else write]
        return f"[[ ## calls ## ]]\n{json.dumps({'calls': calls})}\n[[ ## completed ## ]]"
    if "<context>" in text:
        return "right" if re.search(r"<context>.*\bright\b.*</context>", text, re.DOTALL) else "wrong"
    if "<answer>" in text:
        return reply(body)
    if "<entries>" in text or "<session>" in text:
        lines = [{"tool": "append", "arguments": {"file": "page.md", "text": said}} for said in ("right", "wrong")]
        return json.dumps({"calls": [] if "Added" in text else lines})
    return json.dumps({"pages": ["page.md"]})


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in ("answer", "md-flat-ingest")])
def test_every_prompt_that_has_a_name_is_optimised_and_replayed(name: str, with_dspy: None, tmp_path: Path) -> None:
    data = tmp_path / "nofiller.json"
    write_episodes(data, LOADED)
    with ScriptedServer(reply_reading) as server:
        models = str(one_endpoint(server, tmp_path / "models.yaml"))
        shared = {"models": models, "settings": {"workers": 1}, "quiet": True}
        search = Search(steps=1, candidates=2, batch=2)
        order = TaskOptions(data, tmp_path / "run", yes=True, **shared)  # type: ignore[arg-type]
        path = optimise_prompt(TASK, run_of(TASK, order), "", search, tmp_path / "better", name)
        asked = len(server.requests)
        replayed = TaskOptions(data, tmp_path / "run", calls="replay", **shared)  # type: ignore[arg-type]
        again = optimise_prompt(TASK, run_of(TASK, replayed), "", search, tmp_path / "again", name)
        assert len(server.requests) == asked and server.repeated() == []
    assert path.name == f"{TARGETS[name].prompt}.md" and again.read_bytes() == path.read_bytes()
    step = f"[[ ## {TARGETS[name].output} ## ]]"
    assert any(step in str(request) for request in server.requests)
