"""The estimate: what a rehearsal counts is what a run then calls; nothing is called or written by it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from beam_commands import estimate as module
from beam_commands.costs import Estimate, pending_line, realised, since
from beam_commands.dry_run import BLOCK, DryRun, EstimatingModel, Prefixes, pad_to_length
from beam_commands.estimate import estimate, estimate_path, read_estimate, save_estimate, start_estimate
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Completion, Prompt
from beamlib.llm.stored_model import CallStore, StoredCall
from beamlib.params import RunParameters, load_parameters
from beamlib.run import Run
from scripted_server import ScriptedServer

ARMS = (Arm(memory="full-context"), Arm(memory="light", retriever="bm25", k=2), Arm(memory="oracle"))
ROLES = ("memory", "compressor", "judge", "aligner")
PRICES = {"input_price": 1.0, "cached_input_price": 0.25, "output_price": 4.0}


def models_file(folder: Path, base_url: str, **changes: Any) -> Path:
    """A models file of one endpoint; each role asks for a model of its own."""
    common = {"base_url": base_url, "context_window": 32_768, "patience": 5.0, **PRICES, **changes}
    roles: dict[str, Any] = {role: {"model": f"{role}-model", **common} for role in ROLES}
    roles["readers"] = {"one": {"model": "reader-model", **common}}
    path = folder / "models.yaml"
    path.write_text(yaml.safe_dump(roles))
    return path


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def run_parameters(tmp_path: Path, repo_root: Path, base_url: str, **changes: Any) -> RunParameters:
    """Parameters of a run on the built-in example."""
    if not (tmp_path / "data").exists():
        shutil.copytree(repo_root / "beamlib/data/example/100K/1", tmp_path / "data/100K/1")
    models = models_file(tmp_path, base_url)
    values = {"data": str(tmp_path / "data"), "run": str(tmp_path / "run"), "models": str(models), "workers": 1}
    return load_parameters(repo_root / "params/100k.yaml", **{**values, **changes})


@pytest.fixture
def parameters(tmp_path: Path, repo_root: Path, server: ScriptedServer) -> RunParameters:
    return run_parameters(tmp_path, repo_root, server.base_url, confirm_cost=True)


def canonical(body: dict[str, Any]) -> str:
    return json.dumps(body, sort_keys=True)


def calls(found: Estimate) -> dict[tuple[str, str], int]:
    return {(row.role, row.step): row.calls for row in found.rows}


@pytest.fixture
def rehearsed(parameters: RunParameters, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> Estimate:
    """An estimate, after which the server gives every request the reply that the rehearsal gave it."""
    replies: dict[str, str] = {}

    class Recording(EstimatingModel):
        async def complete(self, prompt: Prompt) -> Completion:
            reply = await super().complete(prompt)
            replies[canonical(self._endpoint.request(prompt))] = reply.text
            return reply

    with monkeypatch.context() as patched:
        patched.setattr(module, "EstimatingModel", Recording)
        found = estimate(parameters, ARMS, quiet=True)
    server.reply = lambda body: replies[canonical(body)]
    return found


def test_nothing_is_called_or_written(rehearsed: Estimate, server: ScriptedServer, parameters: RunParameters) -> None:
    assert rehearsed.pending > 100
    assert server.requests == []
    assert not Path(parameters.run).exists()


@pytest.mark.usefixtures("one_worker")
def test_what_is_estimated_is_then_called(
    rehearsed: Estimate, server: ScriptedServer, parameters: RunParameters
) -> None:
    evaluate(parameters, ARMS, quiet=True)
    assert len(server.requests) == rehearsed.pending
    made = since(realised(Run.of(parameters)), rehearsed.before or ())
    assert {(row.role, row.step): row.calls for row in made} == calls(rehearsed)
    assert calls(rehearsed)["reader", "answer_turns"] == 20
    # Everything is on file: nothing is left to do.
    assert (estimate(parameters, ARMS, quiet=True).pending, estimate(parameters, ARMS, quiet=True).held) == (0, 0)
    # The answers are gone, the calls are not.
    shutil.rmtree(estimate_path(Run.of(parameters)).parent)
    again = estimate(parameters, ARMS, quiet=True)
    assert (again.pending, again.held) == (0, rehearsed.pending)
    assert list(again.bases()) == []
    # One call is gone, and no other depends on its reply.
    with sqlite3.connect(Run.of(parameters).calls_folder() / "100K-1.sqlite") as database:
        key = "SELECT min(key) FROM calls WHERE step = 'judge_nugget'"
        database.execute(f"DELETE FROM calls WHERE key = ({key})")
    again = estimate(parameters, ARMS, quiet=True)
    assert {step: number for step, number in calls(again).items() if number} == {("judge", "judge_nugget"): 1}
    assert again.held == rehearsed.pending - 1
    assert again.dollars == pytest.approx(again.rows[-1].dollars)
    # The steps of the run are known now: means of what the server sent, where there are enough.
    (left,) = (row for row in again.rows if row.calls)
    judged = next(row for row in realised(Run.of(parameters)) if row.step == "judge_nugget")
    assert left.basis == "mean of this run's stored replies"
    assert left.output_tokens == pytest.approx(judged.output_tokens / judged.calls, abs=0.5)
    everything = estimate(parameters.model_copy(update={"calls": "refresh"}), ARMS, quiet=True)
    assert everything.held == 0
    assert everything.pending == pytest.approx(rehearsed.pending, rel=0.05)  # other lengths are expected of replies now


@pytest.mark.slow
def test_processes_do_not_change_the_estimate(tmp_path: Path, repo_root: Path) -> None:
    one = run_parameters(tmp_path, repo_root, "http://127.0.0.1:9/v1")
    shutil.copytree(tmp_path / "data/100K/1", tmp_path / "data/100K/2")
    arms = (Arm(memory="rag", retriever="bm25", k=2), Arm(memory="none"))
    both = one.model_copy(update={"workers": 2})
    found = estimate(one, arms, quiet=True)
    assert found == estimate(both, arms, quiet=True)
    assert found.conversations == 2
    assert calls(found)["reader", "answer"] == 80


def test_twenty_questions_share_one_conversation(tmp_path: Path, repo_root: Path) -> None:
    parameters = run_parameters(tmp_path, repo_root, "http://127.0.0.1:9/v1")
    found = estimate(parameters, [Arm(memory="full-context")], quiet=True)
    row = next(row for row in found.rows if row.step == "answer_turns")
    each = row.input_tokens / 20
    assert row.calls == 20
    assert 0.9 * 19 * each < row.cached_tokens < 19 * each


def test_a_stored_failure_that_may_pass_is_pending_and_any_other_is_held(
    tmp_path: Path, repo_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = run_parameters(tmp_path, repo_root, "http://127.0.0.1:9/v1")
    arms = [Arm(memory="none")]
    keys: list[str] = []
    held = DryRun.held

    def note(self: DryRun, key: str) -> StoredCall | None:
        keys.append(key)
        return held(self, key)

    with monkeypatch.context() as patched:
        patched.setattr(DryRun, "held", note)
        pending = estimate(parameters, arms, quiet=True).pending
    common = {"role": "reader", "conversation": "100K-1", "step": "answer", "about": "", "model": "reader-model"}
    with CallStore(Run.of(parameters).calls_folder() / "100K-1.sqlite") as store:
        for key, outcome in zip(keys, ("content filter", "endpoint unavailable", "refused"), strict=False):
            values = {
                **common,
                "key": key,
                "base_url": "",
                "outcome": outcome,
                "message": "no",
                "time": "2026-01-01T00:00:00+00:00",
            }
            store.put(StoredCall.model_validate(values))
    found = estimate(parameters, arms, quiet=True)
    answering = next(row for row in found.rows if row.step == "answer")
    assert (answering.calls, answering.held) == (19, 1)
    assert found.pending < pending  # what was kept back is not judged either


def test_a_request_that_does_not_fit_is_told(tmp_path: Path, repo_root: Path) -> None:
    parameters = run_parameters(tmp_path, repo_root, "http://127.0.0.1:9/v1")
    models_file(tmp_path, "http://127.0.0.1:9/v1", context_window=1_000)
    found = estimate(parameters, [Arm(memory="full-context")], quiet=True)
    assert found.longest["reader"].endswith(" of 1,000")
    assert any("reader's longest request (100K-1, answer_turns" in warning for warning in found.warnings)


def test_a_memory_of_ones_own_is_not_run(tmp_path: Path, repo_root: Path) -> None:
    spending = tmp_path / "mine.py"
    spending.write_text(
        "from pathlib import Path\n"
        "from beamlib.memory import Recollection\n"
        "class Mine:\n"
        "    name = 'mine'\n"
        f"    def ingest(self, conversation): Path({str(tmp_path / 'spent')!r}).write_text('money')\n"
        "    def recall(self, question): return Recollection('')\n"
    )
    parameters = run_parameters(tmp_path, repo_root, "http://127.0.0.1:9/v1")
    found = estimate(parameters, [Arm(memory="own", target=f"{spending}:Mine")], quiet=True)
    assert not (tmp_path / "spent").exists()
    assert calls(found)["reader", "answer"] == 20
    assert "what its own code may call is not in the estimate" in found.warnings[0]


def test_the_stand_in_costs_nothing(tmp_path: Path, repo_root: Path) -> None:
    parameters = run_parameters(tmp_path, repo_root, "http://127.0.0.1:9/v1", models="")
    found = estimate(parameters, ARMS, quiet=True)
    assert (found.rows, found.pending, realised(Run.of(parameters))) == ((), 0, [])
    assert found.render() == "Nothing is called and nothing is paid: the offline stand-in answers everything."


def test_an_estimate_is_kept_until_the_next_one_that_calls(
    rehearsed: Estimate, parameters: RunParameters, tmp_path: Path
) -> None:
    assert read_estimate(Run.of(parameters)) is None
    path = save_estimate(rehearsed, Run.of(parameters))
    assert path == tmp_path / "run/100k-one/estimate.json"
    before = path.read_bytes()
    assert read_estimate(Run.of(parameters)) == rehearsed
    assert save_estimate(rehearsed.model_copy(update={"rows": ()}), Run.of(parameters)) is None
    assert path.read_bytes() == before
    start_estimate(Run.of(parameters))
    started = read_estimate(Run.of(parameters))
    assert started is not None and started.before == () and started.rows == rehearsed.rows
    path.write_text(path.read_text().replace('"calls"', '"cals"', 1))
    with pytest.raises(UserError, match=r"estimate\.json: field 'rows\.0"):
        read_estimate(Run.of(parameters))


def test_money_by_hand() -> None:
    endpoint = Endpoint(model="m", base_url="http://127.0.0.1:9/v1", context_window=8_000, **PRICES)  # type: ignore[arg-type]
    # 600 fresh at 1, 400 cached at 0.25, 50 written at 4, per million.
    assert endpoint.dollars(1_000, 400, 50) == pytest.approx((600 + 100 + 200) / 1e6)
    plain = endpoint.model_copy(update={"cached_input_price": None})
    assert plain.dollars(1_000, 400, 50) == pytest.approx((1_000 + 200) / 1e6)
    assert endpoint.dollars(1, 1_000, 0) == pytest.approx(1_000 * 0.25 / 1e6), "never less than nothing"


def test_the_rows_add_up(rehearsed: Estimate) -> None:
    for row in rehearsed.rows:
        fresh = row.input_tokens - row.cached_tokens
        by_hand = (fresh * 1.0 + row.cached_tokens * 0.25 + row.output_tokens * 4.0) / 1e6
        assert row.dollars == pytest.approx(by_hand)
        assert row.basis.startswith("expected: ")
    assert f"{rehearsed.pending:,} calls to make (0 held)" in pending_line(rehearsed)
    stages = {row.step: row.stage for row in rehearsed.rows}
    assert stages["episodic_keys"] == stages["scratchpad_notes"] == "memory reading"
    assert stages["scratchpad_filter"] == stages["answer_turns"] == "answering"
    assert stages["judge_nugget"] == stages["align_events"] == "judging"


@given(st.text(max_size=40), st.text(max_size=2_000), st.text(max_size=2_000))
def test_prefixes_are_counted_in_whole_blocks(start: str, one: str, other: str) -> None:
    first, second = start * 60 + one, start * 60 + other
    a, b = first.encode(), second.encode()
    common = next((i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), min(len(a), len(b)))
    prefixes = Prefixes()
    assert prefixes.shared("e", first) == 0
    assert prefixes.shared("another", second) == 0
    assert round(prefixes.shared("e", second) * len(b)) == common // BLOCK * BLOCK


def test_replies_that_later_prompts_contain_are_padded() -> None:
    pair = "[messages 0-1]\nUSER: I moved to Bergen. The flat has two rooms.\nASSISTANT: Good. Rain is likely there."
    prompt = Prompt("scratchpad_notes", {"history": "", "pair": pair})
    assert pad_to_length(prompt, "- moved to Bergen", 3) == "- moved to Bergen"
    longer = pad_to_length(prompt, "- moved to Bergen", 12)
    assert longer.startswith("- moved to Bergen\n- [messages 0-1]\nUSER: I moved")
    assert pad_to_length(Prompt("scratchpad_filter", {"question": "", "chunk": ""}), "", 2) == "Nothing."


@pytest.mark.quick("12000-True")
@pytest.mark.parametrize(("window", "warned"), [(12_000, True), (131_072, False)])
def test_the_plan_says_which_budgets_show_the_same(
    tmp_path: Path, repo_root: Path, beam_data: Path, window: int, warned: bool
) -> None:
    parameters = run_parameters(tmp_path, repo_root, "http://127.0.0.1:9/v1", data=str(beam_data), conversations=1)
    models = Path(parameters.models)
    models.write_text(models.read_text().replace("32768", str(window)))
    arms = [Arm(memory="light", retriever="bm25", k=k) for k in (5, 15, 20)]
    warnings = " ".join(estimate(parameters, arms, quiet=True).warnings)
    assert ("light-bm25-k15 and light-bm25-k20 show the reader the same context" in warnings) == warned
