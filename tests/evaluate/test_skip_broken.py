"""A conversation that cannot be read: one sentence, or with `skip_broken` left out, named and counted everywhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from beam_commands.measuring import evidence_rows
from beam_page.building import write_page
from beam_page.run_folder import read_run
from beam_run.cli import main
from beam_run.publish import publish, verify
from beamlib.data.checked_json import Unreadable
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.beam_records import left_out, read_manifest
from beamlib.evaluate.kept_settings import keep_settings
from beamlib.evaluate.run import evaluate, evaluate_experiment
from beamlib.params import RunParameters, load_parameters
from beamlib.report.figures import averages, budget_figure
from beamlib.report.results import results, score_folders
from beamlib.report.tables import result_table
from beamlib.run import Run
from fixtures_release import WORLDS, chat_of, questions_of, write_conversation, write_value
from scripted_server import ScriptedServer
from steady_replies import one_endpoint, steady_reply

ARMS = (Arm(memory="none"), Arm(memory="rag", retriever="bm25", k=2))
LEFT_OUT = "1 conversation left out: 100K-2 (chat.json: line "

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two conversations that can be read, and one whose chat is cut off."""
    for number in (1, 2, 3):
        write_conversation(tmp_path / "data/100K" / str(number), WORLDS[number % 2])
    cut(tmp_path / "data")
    return tmp_path / "data"


def cut(data: Path) -> None:
    path = data / "100K/2/chat.json"
    path.write_text(path.read_text()[:2_000])


@pytest.fixture
def parameters(data: Path, tmp_path: Path, repo_root: Path) -> RunParameters:
    fixed = {"data": str(data), "run": str(tmp_path / "run"), "workers": 1, "skip_broken": True}
    return load_parameters(repo_root / "params/100k.yaml", **fixed)


def test_without_it_one_sentence_names_the_file(parameters: RunParameters) -> None:
    with pytest.raises(
        Unreadable, match=r"100K/2/chat\.json: line \d+.* leave the conversation out with --skip-broken"
    ):
        evaluate(parameters.model_copy(update={"skip_broken": False}), ARMS, quiet=True)
    assert not Path(parameters.run).exists()


def test_every_footer_names_and_counts_it(
    parameters: RunParameters, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parameters = parameters.model_copy(update={"budgets": [2], "resamples": 100})
    found = results(evaluate_experiment(parameters, "budget"))
    assert found is not None
    assert LEFT_OUT in capsys.readouterr().err
    assert list(found.evaluation.loaded) == ["100K-1", "100K-3"]
    for one in (found.footer, found.evidence_footer):
        assert one.n_conversations == 2
    table = result_table(found.summary, "Table", found.footer, found.manifests)
    for text in (table.to_markdown(), table.to_html(), table.to_csv()):
        assert LEFT_OUT in text.replace("&#39;", "'")
        assert str(tmp_path) not in text
    assert LEFT_OUT in budget_figure(averages(found.summary), found.footer).get_label()
    part = Path(parameters.run) / "100k"
    assert left_out(Run.of(parameters)).keys() == {"100K-2"}
    assert LEFT_OUT in write_page(read_run(Path(parameters.run), Path(parameters.data)), claims=False).read_text()
    rows = score_folders(part, "paper")
    assert {row["left_out"] for row in rows} == {"100K-2"}
    assert {row["n_conversations"] for row in rows} == {2}


def test_what_breaks_or_is_mended_later_is_told_then(parameters: RunParameters, data: Path) -> None:
    broken = (data / "100K/2/chat.json").read_bytes()
    write_value(data / "100K/2/chat.json", chat_of(WORLDS[0]))
    whole = evaluate(parameters, ARMS, quiet=True).manifests["none"]
    assert (len(whole.conversations), whole.left_out) == (3, {})
    (data / "100K/2/chat.json").write_bytes(broken)
    less = evaluate(parameters, ARMS, quiet=True).manifests["none"]
    assert (len(less.conversations), less.left_out.keys()) == (2, {"100K-2"})
    on_file = read_manifest(Path(parameters.run) / "100k/none")
    assert (on_file.left_out, on_file.answers_sha256.keys()) == (less.left_out, {"100K-1", "100K-3"})
    first = evaluate(parameters.model_copy(update={"conversations": 1}), ARMS, quiet=True).manifests["none"]
    assert first.left_out == {}  # which was not asked for, and stays on file
    two = evaluate(parameters.model_copy(update={"conversations": 2}), ARMS, quiet=True).manifests["none"]
    assert two == less  # the third in the place of the second
    assert read_manifest(Path(parameters.run) / "100k/none") == on_file
    write_value(data / "100K/2/chat.json", chat_of(WORLDS[0]))
    assert evaluate(parameters, ARMS, quiet=True).manifests["none"] == whole


def test_where_none_can_be_read_it_is_an_error_all_the_same(parameters: RunParameters, data: Path) -> None:
    for number in (1, 3):
        shutil.rmtree(data / "100K" / str(number))
    with pytest.raises(Unreadable, match=r"100K/2/chat\.json"):
        evaluate(parameters, ARMS, quiet=True)


def test_evidence_leaves_it_out_too(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"arms": ["rag"], "retrievers": ["bm25"], "ks": [5], "workers": 1, "quiet": True}
    with pytest.raises(Unreadable):
        evidence_rows(data, ["100K"], **options)
    rows = evidence_rows(data, ["100K"], **options, skip_broken=True)
    assert rows[0]["n"] == 2 * 18
    assert LEFT_OUT in capsys.readouterr().err


def test_the_option_reaches_the_estimate(
    data: Path, repo_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["beamlib", "estimate", str(repo_root / "params/100k.yaml"), "--data", str(data), "--json"]
    arguments += [
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--model",
        "none",
        "--conversations",
        "2",
        "--set",
        "workers=1",
    ]
    for extra, code in (([], 2), (["--skip-broken"], 0)):
        monkeypatch.setattr("sys.argv", [*arguments, *extra])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert (ended.value.code or 0) == code, told.err
        assert ("with --skip-broken." if code else LEFT_OUT) in told.err
    assert json.loads(told.out)["conversations"] == 2


def test_a_published_run_is_replayed_without_what_it_left_out(
    parameters: RunParameters, data: Path, tmp_path: Path
) -> None:
    with ScriptedServer(steady_reply) as server:
        changes = {"models": str(one_endpoint(server, tmp_path / "models.yaml")), "confirm_cost": True}
        parameters = parameters.model_copy(update=changes)
        evaluate(parameters, ARMS[:1], quiet=True)
    keep_settings(Run.of(parameters))
    archive = tmp_path / "run.tar.zst"
    publish(Path(parameters.run), archive)
    assert "1 methods replayed, 40 answers and judgements, all as published" in verify(archive, data)


def test_footers_tell_released_files_from_others(parameters: RunParameters, beam_data: Path, tmp_path: Path) -> None:
    arms, data = ARMS[:1], tmp_path / "real"
    own = evaluate(parameters, arms, quiet=True).manifests["none"].data_revision
    assert own == "local folder in the released layout, none of the 6 files read has the SHA-256 of a released one"
    for number in "12":
        shutil.copytree(beam_data / "100K" / number, data / "100K" / number)
    real = parameters.model_copy(update={"data": str(data)})
    revision = "mohammadtavakoli78/BEAM at b2a3ee8"
    first = evaluate(real, arms, quiet=True).manifests["none"].data_revision
    assert first == f"released files of {revision}, all 6 verified by SHA-256"
    path = data / "100K/2/topic.json"
    path.write_text(path.read_text() + "\n")
    second = evaluate(real, arms, quiet=True).manifests["none"].data_revision
    assert second == (
        f"local folder in the released layout, 5 of 6 files verified as those of {revision}, "
        "not as released: 100K-2 topic.json"
    )


def test_odd_conversations_go_all_the_way(parameters: RunParameters, data: Path) -> None:
    chat, questions = chat_of(WORLDS[0]), questions_of(WORLDS[0])
    chat[0]["turns"][1][1]["content"] = " "
    chat[1]["turns"][0][0]["content"] = ""
    del questions["event_ordering"], questions["abstention"][1]
    questions["summarization"][1]["ideal_summary"] = None
    write_value(data / "100K/2/chat.json", [None, *chat])
    write_value(data / "100K/2/probing_questions/probing_questions.json", questions)
    arms = (*ARMS, Arm(memory="light"), Arm(memory="light", without="retrieval"), Arm(memory="full-context"))
    found = evaluate(parameters, arms, quiet=True)
    for name, answers in found.answers.items():
        of_odd = [answer for answer in answers if answer.conversation_id == "100K-2"]
        assert len(of_odd) == 17, name
        assert not any(answer.unscored for answer in of_odd)
    assert len(found.judgements["light"]) == 57
