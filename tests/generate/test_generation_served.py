"""Whole generations by a real server: complete, spoilt, killed, resumed and replayed."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beam_claims.data_check import check_folder
from beam_generate.authors import GenerationConfig, generation_prompts
from beam_generate.folder import stage_state
from beam_generate.of_run import estimate_generation, run_generate
from beam_generate.pipeline import (
    STAGES,
    ConversationSpec,
    make_dialogue_of_plan,
    make_plan_stage,
    make_probe_stage,
    make_question_stage,
    repairs_of,
)
from beam_generate.seeds import titles
from beam_generate.titles import ask_titles, read_titles
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError
from beamlib.evaluate.conversation_record import origin
from beamlib.llm.endpoints import load_models
from beamlib.llm.prompts import prompt_file, render
from beamlib.llm.stored_model import Mode
from beamlib.params import usual_parameters
from beamlib.text import count_tokens
from scripted_server import Faults, ScriptedServer, body_text
from served_author import SPOILS, ServedAuthor, models_file, recognise
from talking_model import hashes, make_stages

COMMISSION = ConversationSpec(usual_parameters("100K", generation_seed=7, domain="Coding"))
GENERAL = ConversationSpec(usual_parameters("100K", generation_seed=7, domain="Cooking", authors="models.json"))
"""On a domain that the offline author lacks."""
FAULTS = Faults(drop=0.004, throttle=0.001, error=0.004, truncate=0.03, garbage=0.004, empty=0.02, filtered=0.005)


def command(models: Path, out: Path) -> list[str]:
    words = [sys.executable, "-m", "beam_run", "generate", "--domain", "coding", "--seed", "7", "--workers", "1"]
    return [*words, "--models", str(models), "--out", str(out), "--yes"]


def generate(models: Path, out: Path, **changes: object) -> None:
    values = {"generation_seed": 7, "domain": "coding", "authors": str(models), "workers": 1, "confirm_cost": True}
    run_generate(out, ["100k"], values=values | changes)


def make(out: Path, models: Path, calls: Mode = "record", wanted: ConversationSpec = COMMISSION) -> list[bool]:
    """All stages in this process; whether each had anything to do."""
    writing = GenerationConfig(models=load_models(models), confirmed=True, calls=calls, command="again")
    return make_stages(wanted, out, writing)


def checked(out: Path) -> None:
    report = check_folder(out)
    assert (report.anomalies, report.errors) == ([], [])


def one_sentence(error: UserError) -> str:
    assert "\n" not in str(error)
    return str(error)


@pytest.mark.parametrize(
    ("window", "limit", "sentence"),
    [
        (131_072, 30_000, ""),
        (32_768, 2_000, ""),  # budgets shrink
        (16_384, 2_000, "prober scripted: its context_window is 16,384, and its longest request needs about"),
        (8_192, 30_000, "context_window leaves 0 tokens for a request of the dialogue"),
        (6_000, 2_000, "context_window leaves 3,600 tokens for a request of the dialogue"),
        (3_000, 2_500, "its context_window is 3,000, and its longest request needs about"),
    ],
)
def test_requests_that_no_window_holds_are_refused_before_any_is_paid(
    window: int, limit: int, sentence: str, tmp_path: Path
) -> None:
    path = models_file(tmp_path / "models.json", "http://127.0.0.1:9/v1", context_window=window)
    value = json.loads(path.read_text())
    for author in value["authors"].values():
        author["max_output_tokens"] = limit
    for role in ("speaker", "detector") if "is 3,000" in sentence else ():  # the dialogue's requests fit
        value["authors"][role]["context_window"] = 65_536
    path.write_text(json.dumps(value))
    config = GenerationConfig(models=load_models(path), command="again")
    if sentence:
        with pytest.raises(UserError, match=re.escape(sentence)):
            estimate_generation([COMMISSION], config)
        return
    assert estimate_generation([COMMISSION], config).pending > 100


def test_the_dialogue_fits_into_the_stated_window(tmp_path: Path) -> None:
    window, limit, longest = 12_000, 1_000, 0
    author = ServedAuthor(COMMISSION.story())

    def reply(body: dict[str, Any]) -> Any:
        nonlocal longest
        text = body_text(body)
        name = recognise(text)[0].id
        if name in ("assistant_answer", "user_reply", "user_followup", "detect_question", "detect_followup"):
            longest = max(longest, count_tokens(text) + limit)
        said = author(body)
        return f"{said} {'and so on, as was said before; ' * 150}" if name == "assistant_answer" else said

    with ScriptedServer(reply) as server:
        path = models_file(tmp_path / "models.json", server.base_url, context_window=131_072)
        value = json.loads(path.read_text())
        for role in ("speaker", "detector"):
            own = value["authors"].setdefault(role, dict(value["authors"]["planner"]))
            own |= {"context_window": window, "max_output_tokens": limit}
        path.write_text(json.dumps(value))
        config = GenerationConfig(models=load_models(path), confirmed=True)
        folder = COMMISSION.begin(tmp_path / "out")
        make_plan_stage(COMMISSION, folder, config)
        make_question_stage(folder, config)
        make_dialogue_of_plan(folder, 0, config)
    assert window / 2 < longest <= window


def test_every_prompt_of_generation_can_be_told_from_its_text() -> None:
    names = generation_prompts()
    assert len(names) == 43
    for name in names:
        told = {variable: f"«{variable}»\nmore" for variable in prompt_file(name).variables}
        if "ability" in told:
            told["ability"] = "summarization"
        for variables in (told, dict.fromkeys(told, "")):
            prompt, complaint = recognise(render(name, variables)[-1]["content"] + "\n\nOnce more.")
            assert (prompt.id, prompt.variables, complaint) == (name, variables, "Once more.")


@pytest.mark.parametrize(
    ("authors", "changes", "sentence"),
    [
        ({}, {}, "'authors.planner' is missing"),
        ({"planner": {"api_key": "sk-secret"}}, {}, "keys come from the environment"),
        ({"planner": {}, "prober": {"key_variable": "BEAMLIB_NO_SUCH_KEY"}}, {}, "BEAMLIB_NO_SUCH_KEY, which is not"),
        ({"planner": {}}, {"prompts": "nowhere"}, "the folder of prompts cannot be read"),
    ],
)
def test_an_order_that_cannot_be_met_calls_nothing(
    tmp_path: Path, authors: dict[str, dict[str, str]], changes: dict[str, Any], sentence: str
) -> None:
    with ScriptedServer(ServedAuthor(COMMISSION.story())) as server:
        models = models_file(tmp_path / "models.json", server.base_url)
        value = json.loads(models.read_text())
        value["authors"] = {role: value["judge"] | fields for role, fields in authors.items()}
        models.write_text(json.dumps(value))
        with pytest.raises(UserError, match=re.escape(sentence)) as raised:
            generate(models, tmp_path / "out", **changes)
        assert server.requests == []
    assert "sk-secret" not in one_sentence(raised.value)
    assert not (tmp_path / "out").exists()


def test_each_prompt_goes_to_the_model_of_its_role_with_the_limit_of_its_replies(tmp_path: Path) -> None:
    folder = COMMISSION.begin(tmp_path / "out")
    with ScriptedServer(ServedAuthor(COMMISSION.story())) as server:
        models = models_file(tmp_path / "models.json", server.base_url)
        value = json.loads(models.read_text())
        value["authors"] = {
            role: {**one, "model": role} for role, one in value["authors"].items() if role != "detector"
        }
        for role in ("planner", "asker"):
            del value["authors"][role]["max_output_tokens"]
        value["authors"]["narrator"]["max_output_tokens"] = 7_000
        models.write_text(json.dumps(value))
        writing = GenerationConfig(
            models=load_models(models), confirmed=True, output_tokens=9_000, question_output_tokens=6_000
        )
        make_plan_stage(COMMISSION, folder, writing)
        make_question_stage(folder, writing)
        make_dialogue_of_plan(folder, 0, writing)
        bodies = [request.body for request in server.requests]
    sent = {(recognise(body_text(body))[0].id, body["model"], body["max_tokens"]) for body in bodies}
    assert sent == {
        ("biography", "narrator", 7_000), ("narratives_coding", "narrator", 7_000), ("plan_coding", "planner", 9_000),
        ("special_bullets", "augmenter", 30_000), ("questions_coding", "asker", 6_000),
        ("dialogue_summary", "speaker", 30_000), ("assistant_answer", "speaker", 30_000),
        ("user_reply", "speaker", 30_000), ("user_followup", "speaker", 30_000),
        ("detect_question", "speaker", 30_000), ("detect_followup", "speaker", 30_000),
    }  # fmt: skip
    stages = json.loads((folder / "generation.json").read_text())["stages"]
    authors = [{(role, one["model"]) for role, one in stage["made_by"]["authors"].items()} for stage in stages.values()]
    own, detector = {role: (role, role) for role in value["authors"]}, ("detector", "speaker")
    assert sorted(authors, key=len) == [
        {own["asker"]}, {own["speaker"], detector}, {own["planner"], own["narrator"], own["augmenter"], detector},
    ]  # fmt: skip
    source = find_conversations(tmp_path / "out")[0]
    assert origin(source, ()) == "generated by asker, augmenter, narrator, planner, speaker, seed 7"
    again = replace(writing, question_output_tokens=5_000)
    states = [stage_state(folder, one, {**stages[one]["made_by"], **again.made_by(one)}) for one in STAGES[:3]]
    assert states == ["done", "stale", "done"]


def test_titles_are_asked_for_after_a_yes_refined_and_taken(tmp_path: Path) -> None:
    entries = [{"title": one, "theme": "A theme", "subtopics": ["One", "Two"]} for one in ("Pickling", "Smoking Fish")]
    path, writing = tmp_path / "titles.json", GenerationConfig()
    with ScriptedServer(lambda body: json.dumps(entries)) as server:
        models = models_file(tmp_path / "models.json", server.base_url)
        with pytest.raises(UserError, match="nothing was called: add --yes"):
            ask_titles(path, "cooking", 2, replace(writing, models=load_models(models)), models)
        assert (server.requests, path.exists()) == ([], False)
        writing = replace(writing, models=load_models(models), confirmed=True)
        assert "2 title(s) of Cooking added" in ask_titles(path, "cooking", 2, writing, models)
        assert all(title in body_text(server.requests[0].body) for title in titles()["Cooking"])
        with pytest.raises(UserError, match=r"titles\.json: no title was added: .*no usable topic"):
            ask_titles(path, "cooking", 2, writing, models)  # the file's own are used up by now
    assert [seed.title for seed in read_titles(path)] == ["Pickling", "Smoking Fish"]
    path.write_text(path.read_text().replace("Pickling", "Pickling Everything").replace("Cooking", "cooking", 1))
    with pytest.raises(UserError, match="leave out --domain and --title"):
        run_generate(tmp_path, ["100k"], values={"domain": "cooking"}, titles=path)
    story = ConversationSpec(usual_parameters("1M", authors=str(models)), 1, read_titles(path)[0]).story()
    assert (story.topic.category, story.topic.title, story.topic.theme) == ("Cooking", "Pickling Everything", "A theme")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "must be a list"),
        ("[]", "must be a list"),
        ('[{"category": "Cooking"}]', "entry 1: title: Field required"),
        ('[{"category": "Knitting", "title": "Socks"}]', "entry 1: domain 'Knitting'"),
    ],
)
def test_a_wrong_file_of_titles_is_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "titles.json"
    path.write_text(text)
    with pytest.raises(UserError, match=problem) as raised:
        run_generate(tmp_path / "out", ["100k"], titles=path)
    assert str(path) in one_sentence(raised.value)


@pytest.mark.slow
def test_a_generation_that_is_killed_pays_nothing_twice_and_is_replayed_from_its_calls(tmp_path: Path) -> None:
    out, folder = tmp_path / "out", COMMISSION.folder(tmp_path / "out")
    author = ServedAuthor(COMMISSION.story())
    with ScriptedServer(author) as server:
        models = models_file(tmp_path / "models.json", server.base_url)
        process = subprocess.Popen(
            command(models, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline and author.calls["assistant_answer"] < 8:
            time.sleep(0.005)
        assert process.poll() is None, "it ended before it was killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert stage_state(folder, "questions") == "done"
        assert stage_state(folder, "dialogue") == "missing"
        assert not (folder / "chat.json").exists()
        done = subprocess.run(command(models, out), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        # Some candidates fail a check in any conversation; nothing else may have to be mended.
        assert re.search(r"written; repaired, asked again or dropped: (?:none|probes \d)", done.stdout)
        assert len(server.repeated()) <= 1  # the one answer that was in the air when the process died
        asked = len(server.requests)
        assert make(out, models) == [False] * 4
        assert len(server.requests) == asked
    assert author.calls["assistant_answer"] > 100
    checked(out)

    before = hashes(folder)
    for path in folder.rglob("*"):
        if path.is_file() and "calls" not in path.name:
            path.unlink()
    assert make(out, models, "replay") == [True] * 4  # nobody listens any more
    assert hashes(folder) == before


@pytest.mark.slow
def test_a_generation_from_spoilt_replies_is_complete_and_says_what_was_done(tmp_path: Path) -> None:
    # Refusals and empty lists leave too few probes now and then: they have tests of their own.
    kinds = [
        kind for kind in SPOILS if kind not in ("refusal", "wrong list", "refs", "evidence", "types", "cut", "remark")
    ]
    author = ServedAuthor(GENERAL.stood_in().story(), kinds, rate=0.15, seed=3)
    out, folder = tmp_path / "out", GENERAL.folder(tmp_path / "out")
    with ScriptedServer(author, faults=FAULTS) as server:
        models = models_file(tmp_path / "models.json", server.base_url)
        assert make(out, models, wanted=GENERAL) == [True] * 4
        assert server.repeated() == []
    assert sum(author.spoilt.values()) > 40
    assert stage_state(folder, "probes") == "done"
    noted = repairs_of(folder)
    assert all(noted[stage] for stage in ("questions", "dialogue", "probes"))
    assert all(row["where"] and row["found"] and row["done"] for rows in noted.values() for row in rows)
    checked(out)
    chat = (folder / "chat.json").read_text()
    for trace in ("->->", "Here is what you asked for", '"```text'):
        assert trace not in chat


def test_answers_have_a_length_to_aim_at_and_a_remark_on_a_contradiction_spoils_its_question(tmp_path: Path) -> None:
    folder, offline = COMMISSION.begin(tmp_path / "out"), GenerationConfig()
    make_plan_stage(COMMISSION, folder, offline)
    make_question_stage(folder, offline)
    with ScriptedServer(ServedAuthor(COMMISSION.story(), ["remark"], rate=1.0)) as server:
        models = models_file(tmp_path / "models.json", server.base_url)
        make_dialogue_of_plan(folder, 0, GenerationConfig(models=load_models(models), confirmed=True))
        prompts = [recognise(body_text(request.body))[0] for request in server.requests]
        with pytest.raises(UserError, match=r"missing contradiction_resolution \(2\);"):
            make_probe_stage(folder, GenerationConfig(models=load_models(models), confirmed=True))
    aims = [int(prompt.variables["words"]) for prompt in prompts if prompt.id == "assistant_answer"]
    assert all(aim % 50 == 0 for aim in aims) and 150 <= min(aims) < max(aims) <= 1500
    dropped = [row["found"] for row in repairs_of(folder)["probes"] if "contradiction_resolution" in row["where"]]
    assert dropped and all(found.startswith("contradiction_unremarked: message") for found in dropped)


def test_probes_of_any_shape_are_read_or_dropped(tmp_path: Path) -> None:
    folder, offline = COMMISSION.begin(tmp_path / "out"), GenerationConfig()
    make_plan_stage(COMMISSION, folder, offline)
    make_question_stage(folder, offline)
    make_dialogue_of_plan(folder, 0, offline)
    kinds = ("wrong list", "refs", "evidence", "types", "cut", "refusal")
    with ScriptedServer(ServedAuthor(COMMISSION.story(), kinds, rate=0.5)) as server:
        models = models_file(tmp_path / "models.json", server.base_url)
        with pytest.raises(UserError, match=r"too few usable candidates, missing .*repairs-probes\.jsonl") as raised:
            make_probe_stage(folder, GenerationConfig(models=load_models(models), confirmed=True))
    # The command's processes hand errors on as pickles: one that cannot be read again would pass for a killed process.
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again)) == (UserError, one_sentence(raised.value))
    assert stage_state(folder, "probes") == "missing"
    assert (folder / "candidates.json").exists()  # for review
    assert len(repairs_of(folder)["probes"]) > 20


def test_what_a_model_never_gives_stops_with_one_sentence_and_nothing_half_written(tmp_path: Path) -> None:
    author = ServedAuthor(COMMISSION.story(), ["missing"], rate=1.0, seed=1)
    folder = COMMISSION.begin(tmp_path / "out")
    with ScriptedServer(author) as server:
        writing = GenerationConfig(
            models=load_models(models_file(tmp_path / "models.json", server.base_url)), confirmed=True
        )
        with pytest.raises(UserError, match=r"these batches are missing: .*--calls refresh") as raised:
            make_plan_stage(COMMISSION, folder, writing)
        asked = len(server.requests)
        assert not (folder / "plan.txt").exists()
        assert [row["done"] for row in repairs_of(folder)["plans"]] == ["asked again"]
        with pytest.raises(UserError, match=re.escape(one_sentence(raised.value))):
            make_plan_stage(COMMISSION, folder, writing)
        assert len(server.requests) == asked  # the answer is on file and stays what it is
        author.rate = 0.0
        assert make_plan_stage(COMMISSION, folder, replace(writing, calls="refresh", run_id="another"))
    assert stage_state(folder, "plans") == "done"
