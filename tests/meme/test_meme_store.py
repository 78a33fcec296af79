"""Runs on MEME on file: what stays, what is made again, and a real HTTP server that fails, dies and comes back."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given as examples
from hypothesis import strategies as st
from small_episodes import EPISODES, LOADED

from beam_meme import meme_asking, meme_store
from beam_meme.episode_results import MOST_FILES, EpisodeResults, check_id, read_episode, results_of
from beam_meme.episode_running import EpisodeRun, RoundAnswer
from beam_meme.gold_evidence import evidence_of
from beam_meme.meme_asking import Ran, estimate_episodes, plan_episodes, run_episodes
from beam_meme.meme_memories import MEMORIES, MemeMemory
from beam_meme.meme_store import MemeFolder, MemeManifest, read_results, results_folder
from beam_meme.stage_tokens import Meter
from beamlib.errors import UserError
from beamlib.evaluate import run_store
from beamlib.evaluate.answer_record import Answer as Record
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import RunParameters, load_parameters
from scripted_server import Answer, Faults, ScriptedServer, error_body
from steady_replies import steady_reply

EVIDENCE = {**evidence_of(LOADED[0]), **evidence_of(LOADED[1])}
ARMS: tuple[MemeMemory, ...] = ("none", "gold-facts", "bm25", "rag")
SECRET = "zk-77ab6d3c2b1a09f8e7d6"


def parameters(root: Path, run: Path, **changes: Any) -> RunParameters:
    fixed = {"run": str(run), "data": "", "workers": 1, "confirm_cost": True, "retriever": "bm25", "k": 2}
    return load_parameters(root / "params" / "100k.yaml", **{**fixed, **changes})


def ask(given: RunParameters, arms: tuple[MemeMemory, ...] = ARMS, **more: Any) -> Ran:
    return run_episodes(more.pop("episodes", EPISODES), arms, given, evidence=EVIDENCE, quiet=True, **more)


def manifest(folder: Path) -> MemeManifest:
    return run_store.read_manifest(folder / "run.json", MemeManifest)


def files(run: Path) -> dict[str, bytes]:
    folder = run / "meme"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.json"))}


# A run by the stand-in


@pytest.fixture(scope="module")
def offline(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunParameters, Ran]:
    given = parameters(repo_root, tmp_path_factory.mktemp("offline") / "run")
    return given, ask(given, variant="nofiller")


def test_results_lie_by_memory_and_episode_and_read_back(offline: tuple[RunParameters, Ran]) -> None:
    given, _ = offline
    assert set(files(Path(given.run))) == {
        f"nofiller/{arm}/{name}" for arm in ARMS for name in ("episode_sw_001.json", "episode_sw_002.json", "run.json")
    }
    found = read_results(results_folder(Path(given.run), "nofiller"))
    assert tuple(found) == ARMS
    rag = found["rag"].episodes["sw_002"]
    assert (rag.sha256, len(rag.answers)) == (EPISODES[1].sha256, 8)
    assert "Olof Brandt" in rag.contexts["sw_002-after-q01"]
    assert "The weekly report goes to Olof Brandt." in rag.answers[0].answer.text
    assert rag.kept == []


def test_the_manifest_says_what_the_results_rest_on(offline: tuple[RunParameters, Ran]) -> None:
    _, ran = offline
    rag = manifest(ran.folders["rag"])
    assert (rag.reader, rag.arm, rag.variant, rag.n, rag.answers) == ("offline", "rag", "nofiller", 2, 16)
    assert rag.models == {"reader": {"model": OFFLINE_NAME}}
    assert {"k", "retriever", "reader_window", "token_counter"} <= set(rag.settings)
    assert set(rag.prompts) == {"meme_answer"}
    assert rag.spent["answer"].input_tokens > 0
    assert rag.spent["ingest"].calls == 0
    assert rag.unscored == {}


def test_nothing_is_made_again_and_what_was_touched_is(offline: tuple[RunParameters, Ran], monkeypatch: Any) -> None:
    given, ran = offline
    before = files(Path(given.run))

    def again(**more: Any) -> dict[str, set[str]]:
        wanted = plan_episodes(more.pop("episodes", EPISODES), ARMS, given, variant="nofiller").wanted
        return {one.id: set(arms) for one, arms in wanted}

    assert again() == {}
    path = ran.folders["rag"] / "episode_sw_002.json"
    path.write_text(path.read_text().replace("The weekly report", "A weekly report"))
    with pytest.raises(UserError, match=r"episode_sw_002\.json: not what run\.json vouches for"):
        read_results(Path(given.run) / "meme" / "nofiller")
    (ran.folders["none"] / "episode_sw_001.json").unlink()
    (ran.folders["bm25"] / "episode_sw_001.json").write_text("{")
    assert again() == {"sw_001": {"none", "bm25"}, "sw_002": {"rag"}}
    ask(given, variant="nofiller")
    assert files(Path(given.run)) == before
    other = replace(EPISODES[1], sessions=EPISODES[1].sessions[:-1] * 2)
    assert again(episodes=[EPISODES[0], other]) == {"sw_002": set(ARMS)}


def test_results_are_the_same_bytes_in_processes_of_their_own(
    offline: tuple[RunParameters, Ran], tmp_path: Path
) -> None:
    given, _ = offline
    other = given.model_copy(update={"run": str(tmp_path), "workers": 2})
    ask(other, variant="nofiller")
    assert {name: data for name, data in files(tmp_path).items() if "episode" in name} == {
        name: data for name, data in files(Path(given.run)).items() if "episode" in name
    }


def test_other_settings_concern_only_the_memories_that_rest_on_them(
    offline: tuple[RunParameters, Ran], repo_root: Path, tmp_path: Path
) -> None:
    given, _ = offline

    def keys(**changes: Any) -> dict[str, str]:
        other = meme_asking.resolved(given.model_copy(update=changes))
        return {arm: MemeFolder(arm, other).keys["results"] for arm in MEMORIES if arm != "own"}

    plain = keys()
    assert {arm for arm, key in keys(k=3).items() if key != plain[arm]} == {
        "rag", "light", "md-flat", "wiki", "dependencies",
    }  # fmt: skip
    assert {arm for arm, key in keys(full_context_window=9_000).items() if key != plain[arm]} == {"full-context"}
    assert {arm for arm, key in keys(working_pairs=3).items() if key != plain[arm]} == {"light"}
    own = tmp_path / "prompts"
    own.mkdir()
    (own / "meme_answer.md").write_text((repo_root / "prompts" / "meme_answer.md").read_text() + "\n")
    assert not set(keys(prompts=str(own)).values()) & set(plain.values())


def test_a_smaller_run_leaves_what_is_known_and_drops_what_is_not(repo_root: Path, tmp_path: Path) -> None:
    given = parameters(repo_root, tmp_path)
    folder = ask(given, ("none",)).folders["none"]
    ask(given, ("none",), episodes=EPISODES[:1], known=EPISODES)
    assert set(manifest(folder).episodes) == {"sw_001", "sw_002"}
    ask(given, ("none",), episodes=EPISODES[:1])
    assert set(manifest(folder).episodes) == {"sw_001"}
    assert {path.name for path in folder.glob("episode*")} == {"episode_sw_001.json"}


def test_what_is_someone_elses_is_not_touched(repo_root: Path, tmp_path: Path) -> None:
    given = parameters(repo_root, tmp_path)
    folder = tmp_path / "meme" / "episodes" / "none"
    folder.mkdir(parents=True)
    (folder / "episode_sw_001.json").write_text("{}")
    with pytest.raises(UserError, match=r"none: holds results that no run\.json speaks of"):
        ask(given, ("none",))
    assert (folder / "episode_sw_001.json").read_text() == "{}"
    (folder / "episode_sw_001.json").unlink()
    ask(given, ("none",), variant="mine")
    with pytest.raises(UserError, match="its variant is 'mine' where this run's is 'another'; give this run"):
        ask(given, ("none",), variant="another")


def test_a_run_killed_after_its_first_file_knows_the_folder_for_its_own(
    repo_root: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    class Killed(BaseException):
        pass

    write = meme_store.write_text

    def write_and_die(path: Path, text: str) -> None:
        write(path, text)
        monkeypatch.setattr(MemeFolder, "write_manifest", lambda self: None)  # no clean-up is reached
        raise Killed

    given = parameters(repo_root, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(meme_store, "write_text", write_and_die)
        with pytest.raises(Killed):
            ask(given, ("none",))
    monkeypatch.undo()
    assert ask(given, ("none",)).manifests["none"].n == 2


def test_only_a_task_of_the_ceiling_alone_is_handed_evidence(repo_root: Path, tmp_path: Path) -> None:
    plan = plan_episodes(EPISODES, ARMS, parameters(repo_root, tmp_path))
    tasks = meme_asking._tasks(plan, {**EVIDENCE, "someone-else": (1,)}, "")
    assert sum(task.answers for task in tasks) == 2 * 8 * len(ARMS)
    for task in tasks:
        arms = {arm for _, own in task.wanted for arm in own}
        ids = {question.id for one, _ in task.wanted for part in one.rounds.values() for question in part.questions}
        assert set(task.evidence) == (ids if arms == {"gold-facts"} else set())


# Names and sizes


@pytest.mark.parametrize("name", ["../../etc/x", "", ".", "a/b", "sw_001\n", "ä", "-x", "a" * 65, "x.json"])
def test_an_id_that_cannot_name_a_file_is_refused_before_anything_is_written(
    name: str, repo_root: Path, tmp_path: Path
) -> None:
    hostile = replace(EPISODES[0], id=name)
    with pytest.raises(UserError, match="cannot name a file; use at most 64 letters") as raised:
        ask(parameters(repo_root, tmp_path / "run"), ("none",), episodes=[hostile])
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


@examples(st.text(max_size=80))
def test_an_id_is_a_plain_name_or_refused(name: str) -> None:
    try:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", check_id(name))
    except UserError as error:
        assert "\n" not in str(error)


def test_two_episodes_of_one_name_are_refused(repo_root: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="episode_id 'sw_001': 2 episodes have it"):
        ask(parameters(repo_root, tmp_path), ("none",), episodes=[EPISODES[0], EPISODES[0]])


def ran_with(*snapshots: dict[str, str], text: str = "yes") -> EpisodeRun:
    answer = Record(probe_id="sw_001-after-q01", conversation_id="sw_001", text=text)
    return EpisodeRun([RoundAnswer("after", answer, "seen")] * 2, list(snapshots), Meter())


def test_a_text_is_kept_once_and_snapshots_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_meme.episode_results.MOST_KEPT", 1_000)
    big, small = "x" * 900, "y" * 90
    found = results_of(EPISODES[0], "wiki", ran_with({"a.md": big}, {"a.md": big, "b.md": small}, {"c.md": "z" * 900}))
    assert sorted(found.texts.values()) == ["seen", big, small]
    assert [(sorted(one.files), one.left_out) for one in found.snapshots] == [
        (["a.md"], 0),
        (["a.md", "b.md"], 0),
        ([], 1),
    ]
    many = results_of(EPISODES[0], "wiki", ran_with({f"{n}.md": "" for n in range(MOST_FILES + 3)}))
    assert (len(many.snapshots[0].files), many.snapshots[0].left_out) == (MOST_FILES, 3)


def test_names_that_a_memory_gives_its_files_are_no_paths_and_halves_of_characters_do_no_harm(
    repo_root: Path, tmp_path: Path
) -> None:
    hostile = ran_with({"../../x": "a\ud800b", "\udfff": "c"}, text="half \ud83d")
    folder = MemeFolder("wiki", meme_asking.resolved(parameters(repo_root, tmp_path)))
    folder.begin()
    folder.take("results", "sw_001", meme_store.made(results_of(EPISODES[0], "wiki", hostile)))
    folder.close()
    assert {path.name for path in folder.folder.iterdir()} == {"episode_sw_001.json", "run.json"}
    assert read_results(results_folder(tmp_path, ""))["wiki"].episodes["sw_001"].kept == [{"../../x": "a�b", "�": "c"}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"episode": "../x"}, "field 'episode'"),
        ({"arm": "mine"}, "field 'arm'"),
        ({"texts": {}}, "texts lacks"),
        ({"more": 1}, "field 'more'"),
        ({"spent": {"ingest": {"calls": -1}}}, "field 'spent.ingest.calls'"),
        ({"answers": [{"phase": "later"}]}, "field 'answers.0.phase'"),
    ],
)
def test_a_file_that_is_not_ours_is_one_sentence(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "episode_sw_001.json"
    value = results_of(EPISODES[0], "none", ran_with()).model_dump(mode="json")
    path.write_text(json.dumps({**value, **change}))
    with pytest.raises(UserError, match=re.escape(message)):
        read_episode(path)


def test_a_file_beyond_all_measure_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_meme.episode_results.MOST_FILE", 100)
    path = tmp_path / "episode_sw_001.json"
    path.write_text("[" * 101)
    with pytest.raises(UserError, match="101 bytes, more than the 100 that are read"):
        read_episode(path)


def test_a_folder_without_results_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no results on MEME"):
        read_results(results_folder(tmp_path, ""))


def test_a_gap_and_a_failure_that_may_pass_are_in_the_manifest(repo_root: Path, tmp_path: Path) -> None:
    folder = MemeFolder("light", meme_asking.resolved(parameters(repo_root, tmp_path)))
    lost = Record(probe_id="b", conversation_id="sw_001", unscored="endpoint unavailable: x", transient=True)
    ran = ran_with()
    ran.answers.append(RoundAnswer("after", lost, ""))
    ran.answers[0] = replace(ran.answers[0], answer=ran.answers[0].answer.model_copy(update={"gaps": 4}))
    folder.take("results", "sw_001", meme_store.made(results_of(EPISODES[0], "light", ran)))
    found = folder.close()
    assert (found.gaps, found.unscored) == (1, {"endpoint unavailable: x": 1})
    assert found.episodes["sw_001"].transient


@examples(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=4), max_size=4), st.text())
def test_whatever_a_memory_keeps_reads_back(snapshots: list[dict[str, str]], context: str) -> None:
    ran = ran_with(*snapshots)
    ran.answers = [replace(ran.answers[0], context=context)]
    found = results_of(EPISODES[0], "wiki", ran)
    assert EpisodeResults.model_validate_json(found.model_dump_json()) == found
    assert found.kept == snapshots
    assert found.contexts == {"sw_001-after-q01": context}


# A run with models


def reply(body: dict[str, Any]) -> str | Answer:
    text = str(body["messages"][-1]["content"])
    if "log drain endpoint?" in text and "<context>" in text:
        return Answer(error_body("Filtered by a content policy.", "content_filter"), 400)
    return steady_reply(body)


def models_file(server: ScriptedServer, path: Path, **fields: Any) -> Path:
    endpoint = {"model": "scripted", "base_url": server.base_url, "context_window": 131_072, "patience": 5.0, **fields}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    path.write_text(
        yaml.safe_dump({"readers": {"one": {"input_price": 1.0, "output_price": 2.0, **endpoint}}, **roles})
    )
    return path


def test_a_run_is_recorded_estimated_and_replayed(
    repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", SECRET)
    with ScriptedServer(reply, require_key=SECRET) as server:
        models = models_file(server, tmp_path / "models.yaml", key_variable="SCRIPTED_KEY")
        given = parameters(repo_root, tmp_path / "run", models=str(models))
        expected = estimate_episodes(EPISODES, ARMS, given, evidence=EVIDENCE, quiet=True)
        assert not server.requests
        assert expected.dollars > 0
        ran = ask(given)
        assert len(server.requests) == expected.pending
        held = ran.manifests["rag"]
        assert (held.reader, held.answers) == ("one", 16)
        assert sum(held.unscored.values()) == 4
        assert all(reason.startswith("content filter") for reason in held.unscored)
        assert held.spent["answer"].calls == 8  # of the 12 replies, four are to prompts of both rounds
        assert held.spent["answer"].output_tokens > 0
        stores = {path.name for path in (Path(given.run) / "calls" / "meme").glob("*.sqlite")}
        assert stores == {"sw_001.sqlite", "sw_002.sqlite"}
        written = [path.read_bytes() for path in Path(given.run).rglob("*") if path.is_file()]
        assert not [data for data in written if SECRET.encode() in data]
        count, before = len(server.requests), files(Path(given.run))
        assert estimate_episodes(EPISODES, ARMS, given, evidence=EVIDENCE, quiet=True).pending == 0
        ask(given)
        for path in (Path(given.run) / "meme").rglob("*.json"):
            path.unlink()
    # From here on nobody answers.
    replayed = given.model_copy(update={"calls": "replay", "confirm_cost": False})
    ask(replayed)
    assert files(Path(given.run)) == before
    assert len(server.requests) == count
    with pytest.raises(UserError, match="the call is not stored; to record it, run: beamlib meme run"):
        ask(replayed, ("dense",), command="beamlib meme run")


def test_what_may_pass_is_asked_again_and_nothing_else(repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(reply, faults=Faults(throttle=0.8, retry_after=0.01), seed=1) as server:
        models = models_file(server, tmp_path / "models.yaml", attempts=2)
        given = parameters(repo_root, tmp_path / "run", models=str(models))
        first = ask(given, ("bm25",), episodes=EPISODES[:1]).manifests["bm25"]
        assert first.episodes["sw_001"].transient
        assert 2 < sum(first.unscored.values()) < 8
        server.faults = Faults()
        again = ask(given, ("bm25",), episodes=EPISODES[:1]).manifests["bm25"]
        assert not again.episodes["sw_001"].transient
        assert sum(again.unscored.values()) == 2  # what the endpoint refuses for good
        assert not server.repeated()


PROGRAM = """
import sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {here!r}]
from test_meme_store import ask, parameters
if __name__ == "__main__":
    ask(parameters(Path({root!r}), Path({run!r}), models={models!r}))
"""


def test_a_killed_run_goes_on_and_pays_no_call_twice(repo_root: Path, tmp_path: Path) -> None:
    max_concurrency = 2
    with ScriptedServer(reply, latency=0.1) as server:
        models = models_file(server, tmp_path / "models.yaml", concurrency=max_concurrency)
        places = {"tests": str(repo_root / "tests"), "here": str(Path(__file__).parent), "root": str(repo_root)}
        program = tmp_path / "program.py"
        program.write_text(PROGRAM.format(run=str(tmp_path / "run"), models=str(models), **places))
        environment = {**os.environ, "PYTHONPATH": f"{repo_root}{os.pathsep}{repo_root / 'packages'}"}
        first = subprocess.Popen([sys.executable, str(program)], env=environment, start_new_session=True)
        while len(server.requests) < 9 and first.poll() is None:
            time.sleep(0.01)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        begun = len(server.requests)
        given = parameters(repo_root, tmp_path / "run", models=str(models))
        estimated = estimate_episodes(EPISODES, ARMS, given, evidence=EVIDENCE, quiet=True).pending
        assert estimated < 60
        ran = ask(given)
        assert all(found.n == 2 for found in ran.manifests.values())
        assert len(server.requests) == begun + estimated
        repeated = {one.hash for one in server.requests if one.hash in set(server.repeated())}
        in_both = {one.hash for one in server.requests[:begun]} & {one.hash for one in server.requests[begun:]}
        assert len(in_both & repeated) <= max_concurrency + 5  # what was in flight, and prompts that episodes share
        held = len(server.requests)
        ask(given)
        assert len(server.requests) == held


def test_nothing_is_called_without_a_yes(repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(reply) as server:
        models = models_file(server, tmp_path / "models.yaml")
        given = parameters(repo_root, tmp_path / "run", models=str(models), confirm_cost=False)
        with pytest.raises(UserError, match="nothing is called before confirm_cost"):
            ask(given, ("none",))
        assert not server.requests


def test_a_reader_may_not_be_called_like_the_stand_in(repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(reply) as server:
        models = models_file(server, tmp_path / "models.yaml")
        models.write_text(models.read_text().replace("one:", "offline:"))
        with pytest.raises(UserError, match="a reader is called 'offline', as the stand-in is"):
            ask(parameters(repo_root, tmp_path / "run", models=str(models)), ("none",))
