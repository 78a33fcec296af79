"""A run as data frames: the documented questions on a real run, the columns, and all that a run may hold."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from typer.main import get_command

import beamlib
from beam_commands.task_runs import TaskOptions, run_command, score_command
from beam_meme.episode_files import write_episodes
from beam_meme.episode_gold import TASKS
from beam_meme.task import Meme
from beam_memorycode.generating import GenerateOptions, generate_dialogues
from beam_memorycode.task import MEMORYCODE
from beam_run.cli import app
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.files import write_text
from beamlib.frames import COLUMNS
from beamlib.llm.call_store import CallStore, StoredCall
from beamlib.params import load_parameters
from beamlib.report.results import recall_rows, score_folders
from small_episodes import LOADED

pytestmark = pytest.mark.usefixtures("file_in_this_process")

ARMS = (
    Arm(memory="none"),
    Arm(memory="oracle"),
    Arm(memory="rag", retriever="hybrid", k=5),
    Arm(memory="light", retriever="hybrid", k=5),
)
QUICK = {"workers": 1, "retriever": "bm25"}
MODELS = """
readers: {{small: {endpoint}}}
memory: {endpoint}
compressor: {endpoint}
judge: {endpoint}
aligner: {endpoint}
"""
ENDPOINT = "{model: m, base_url: 'http://127.0.0.1:1/v1', context_window: 9000, input_price: 1.0, output_price: 2.0}"


def made(repo_root: Path, run: Path, *, digits: str = "123456789") -> None:
    """A run of the stand-in on two conversations that lie in it as generated ones do, with other `digits` in chats."""
    for number in "12":
        shutil.copytree(repo_root / "beamlib/data/example/100K/1", run / "generated/100K" / number)
    for chat in run.glob("generated/100K/*/chat*.json"):
        written = re.compile(r'(?<="content": ")(?:[^"\\]|\\.)*')
        text = chat.read_text("utf-8")
        changed = written.sub(lambda found: found[0].translate(str.maketrans("123456789", digits)), text)
        assert (changed == text) == (digits == "123456789")
        write_text(chat, changed)
    values = {"data": str(run / "generated"), "run": str(run), "workers": 1}
    evaluate(load_parameters(repo_root / "params/100k.yaml", **values), ARMS, quiet=True)


@pytest.fixture(scope="module")
def runs(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, `default` and `other`; the first has a stored call as a served model would leave it."""
    top = tmp_path_factory.mktemp("frames") / "runs"
    made(repo_root, top / "default")
    made(repo_root, top / "other", digits="234567891")
    write_text(top / "default/100k/models.yaml", MODELS.format(endpoint=ENDPOINT))
    with CallStore(top / "default/calls/100k/100K-1.sqlite") as store:
        for about, step in (("100K-1-q03", "answer"), ("messages 0-1", "episodic_keys")):
            role = "reader" if step == "answer" else "memory"
            call = StoredCall(
                key=about,
                role=role, conversation="100K-1", step=step, about=about, model="m", base_url="http://127.0.0.1:1/v1",
                text="x", input_tokens=1_000_000, output_tokens=500_000, time="2026-11-28T00:00:00+00:00", latency=2.0,
            )  # fmt: skip
            store.put(call)
    return top


def blocks(repo_root: Path) -> list[str]:
    text = (repo_root / "docs/dataframes.md").read_text("utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_every_block_of_the_document_answers_its_question(
    repo_root: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs.parent)
    names: dict[str, Any] = {}
    shown: list[Any] = []
    for block in blocks(repo_root):
        tree = ast.parse(block)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "dataframes.md", "exec"), names)
        if last is not None:
            assert len(block.strip().splitlines()) <= 5, block
            shown.append(eval(compile(ast.Expression(last.value), "dataframes.md", "eval"), names))  # type: ignore[attr-defined]
    assert len(shown) == 10
    for number, frame in enumerate(shown, start=1):
        assert isinstance(frame, pd.DataFrame), number
        assert frame.size or number == 7, number  # the stand-in leaves nothing unscored
    worst, disagreeing, costs = shown[:3]
    assert worst["score"].is_monotonic_increasing and worst["text"].str.len().min() > 10
    assert (disagreeing["score"] != disagreeing["score_other"]).all()
    assert costs["dollars"].tolist() == [2.0, 2.0] and "reading" in costs.index


def test_the_document_names_every_column_and_type(repo_root: Path) -> None:
    text = (repo_root / "docs/dataframes.md").read_text("utf-8")
    sections = re.split(r"^### `(\w+)\(\)`$", text, flags=re.MULTILINE)[1:]
    stated = {
        name: re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \|$", body, re.MULTILINE)
        for name, body in zip(sections[::2], sections[1::2], strict=True)
    }
    assert stated == {
        name: [(column, of.type, of.about) for column, of in own.items()] for name, own in COLUMNS.items()
    }


def test_frames_have_the_columns_and_types_that_are_promised(runs: Path) -> None:
    for opened in (beamlib.open_run(runs / "default"), beamlib.open_run(runs / "default/100k/none")):
        for name, columns in COLUMNS.items():
            frame = getattr(opened, name)()
            assert {column: str(kind) for column, kind in frame.dtypes.items()} == {
                column: about.type for column, about in columns.items()
            }, name


def test_numbers_are_those_of_the_tables(repo_root: Path, runs: Path) -> None:
    opened = beamlib.open_run(str(runs / "default"))
    for protocol in ("paper", "released-code"):
        mean = opened.scores(protocol).groupby(["arm", "ability"])["score"].mean()
        for row in score_folders(runs / "default", protocol):
            if row["ability"] != "average":
                # A table averages over conversations, and both have the same questions.
                assert mean[row["arm"], row["ability"]] == pytest.approx(row["mean"])
    parameters = load_parameters(
        repo_root / "params/100k.yaml", data=str(runs / "default/generated"), run=str(runs / "default"), workers=1
    )
    evaluation = evaluate(parameters, ARMS, quiet=True)
    gold = {key: value for loaded in evaluation.loaded.values() for key, value in loaded.gold.items()}
    evidence = opened.evidence()
    for arm, answers in evaluation.answers.items():
        ours = evidence[evidence["arm"] == arm].groupby("question")["recalled"].mean()
        theirs = recall_rows(answers, gold).set_index("probe_id")["score"]
        assert np.allclose(ours.sort_index().to_numpy(float), theirs.sort_index().to_numpy(float)), arm
    contexts = opened.contexts()
    sizes = contexts.groupby(["arm", "question"])["message"].nunique()
    wanted = opened.answers().set_index(["arm", "question"])["messages"]
    assert (sizes.reindex(wanted.index).fillna(0) == wanted).all()


def test_without_the_data_only_what_they_hold_is_missing(runs: Path, tmp_path: Path) -> None:
    with_data = beamlib.open_run(runs / "default")
    shutil.copytree(runs / "default/100k", tmp_path / "alone/100k")
    alone = beamlib.open_run(tmp_path / "alone")
    pd.testing.assert_frame_equal(alone.verdicts(), with_data.verdicts())
    pd.testing.assert_frame_equal(alone.scores(), with_data.scores())
    questions = alone.questions()
    assert questions["text"].isna().all() and questions["ability"].notna().all()
    assert alone.evidence().empty and alone.contexts()["text"].isna().all()
    again = beamlib.open_run(tmp_path / "alone", runs / "default/generated")
    pd.testing.assert_frame_equal(again.evidence(), with_data.evidence())
    # Other conversations under the same ids are none of the run's.
    assert beamlib.open_run(tmp_path / "alone", runs / "other/generated").questions()["text"].isna().all()


def test_records_that_nobody_vouches_for_are_an_error(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "default/100k/none", tmp_path / "run/100k/none")
    answers = tmp_path / "run/100k/none/answers.jsonl"
    changed = re.sub(r'"gaps": ?0', '"gaps": 1', answers.read_text("utf-8"), count=1)
    write_text(answers, changed)
    with pytest.raises(UserError, match=r"answers\.jsonl: the records of 100K-1"):
        beamlib.open_run(tmp_path / "run").answers()
    with pytest.raises(UserError, match="no manifest"):
        beamlib.open_run(runs / "default/generated")
    with pytest.raises(UserError, match="not a folder"):
        beamlib.open_run(tmp_path / "nowhere")


def test_the_command_writes_the_same_as_parquet(runs: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(get_command(app), ["frames", str(runs / "default"), str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    opened = beamlib.open_run(runs / "default")
    for name in COLUMNS:
        read = pd.read_parquet(tmp_path / "out" / f"{name}.parquet")
        assert len(read) == len(getattr(opened, name)()) and list(read) == list(COLUMNS[name]), name


def test_a_run_of_meme_has_every_frame(tmp_path: Path) -> None:
    data = tmp_path / "nofiller.json"
    write_episodes(data, LOADED)
    order = TaskOptions(data, tmp_path / "run", arms=["none", "bm25"], settings=QUICK, quiet=True)
    run_command(Meme("nofiller"), order)
    tables = score_command(Meme("nofiller"), order)
    assert tables
    opened = beamlib.open_run(tmp_path / "run", meme=data)
    answers, verdicts, evidence = opened.answers(), opened.verdicts(), opened.evidence()
    assert set(answers["arm"]) == {"none", "bm25"} and set(answers["part"]) == {"nofiller"}
    assert len(verdicts) == len(answers) and verdicts["score"].isin([0.0, 1.0]).all()
    assert answers.query("arm == 'bm25'")["context"].str.len().min() > 20
    assert set(answers["ability"]) <= set(TASKS) and opened.questions()["reference"].notna().all()
    assert (evidence.query("arm == 'none'")["shown"] == "not").all() and (evidence["shown"] != "not").any()
    assert opened.contexts()["text"].notna().all()
    alone = beamlib.open_run(tmp_path / "run")
    pd.testing.assert_series_equal(alone.verdicts()["score"], verdicts["score"])
    assert alone.questions()["text"].isna().all()


def test_a_run_of_memorycode_has_a_verdict_per_rule(tmp_path: Path) -> None:
    generate_dialogues(GenerateOptions(tmp_path / "data", counts=(2,), per_count=1))
    order = TaskOptions(tmp_path / "data", tmp_path / "run", arms=["instruction", "rag"], settings=QUICK, quiet=True)
    run_command(MEMORYCODE, order)
    opened = beamlib.open_run(tmp_path / "run", memorycode=tmp_path / "data")
    answers, verdicts = opened.answers(), opened.verdicts()
    assert set(verdicts["question"]) == set(answers["question"]) and set(verdicts["judge"]) == {"rules"}
    rules = opened.questions().set_index("question")["rubric"].map(len)
    assert verdicts.groupby("question").size().to_dict() == rules.to_dict()
    assert len(opened.scores()) == len(answers) and opened.contexts()["text"].notna().all()
    assert beamlib.open_run(tmp_path / "run").verdicts().empty  # the rules are in the data


def test_tiers_stand_in_the_order_of_their_size(runs: Path, tmp_path: Path) -> None:
    for tier in ("10m", "100k-by-m", "500k"):
        shutil.copytree(runs / "default/100k/none", tmp_path / tier / "none")
    parts = [arm.folder.parent.name for arm in beamlib.open_run(tmp_path).arms]
    assert parts == ["100k-by-m", "500k", "10m"]
