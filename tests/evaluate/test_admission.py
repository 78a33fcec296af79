"""Known questions before a run: what they show, what they cost, and that a replay needs none."""

from __future__ import annotations

import itertools
import pickle
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import beamlib
from beam_commands.admission import known_questions, tuned_endpoints
from beam_commands.estimate import estimate
from beam_commands.run_admission import admit, admit_and_tune
from beam_run.publish import publish, verify
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.kept_settings import keep_settings
from beamlib.evaluate.run import evaluate, judge_exam
from beamlib.llm.admission import WORDS, admission_calls, learn_mark, measured_speed
from beamlib.llm.call_store import StoredCall
from beamlib.llm.endpoints import Endpoint, load_models
from beamlib.llm.thoughts import clean_reply
from beamlib.params import load_parameters
from beamlib.run import Run
from scripted_server import Answer, ScriptedServer, body_text, completion, error_body, exam_verdict
from steady_replies import one_endpoint, steady_reply

EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
ARMS = (Arm(memory="none"), Arm(memory="rag", retriever="bm25", k=3), Arm(memory="light", retriever="bm25", k=3))


def a_run(root: Path, folder: Path, server: ScriptedServer, **changes: Any) -> Run:
    models = one_endpoint(server, folder.parent / "models.yaml")
    fixed = {"data": str(EXAMPLE), "run": str(folder), "models": str(models), "workers": 1, "confirm_cost": True}
    return Run.of(load_parameters(root / "params" / "100k.yaml", **{**fixed, **changes}))


def knows(body: dict[str, Any]) -> str:
    """Answer known questions, and everything else steadily."""
    text = body_text(body)
    if gate := re.search(r"garden gate is (\w+)\.", text):
        return gate[1]
    if "first and the last password" in text:
        return " ".join(re.findall(r"(?:first|last) password is (\w+)\.", text))
    if verdict := exam_verdict(text):
        return verdict
    if "fourteen hives" in text:
        return '{"score": 1.0, "reason": "it is said"}' if "criterion" in text else "yes"
    return "NO" if "old van" in text else steady_reply(body)


def thinking(opening: str, closing: str) -> Callable[[dict[str, Any]], str]:
    def reply(body: dict[str, Any]) -> str:
        said = knows(body)
        return f"{opening}The user asks, I weigh {len(said)} letters of it. No doubt.{closing}{said}"

    return reply


def answers(run: Run, arms: Sequence[Arm] = ARMS) -> list[str | None]:
    return [answer.text for own in evaluate(run, arms, quiet=True).answers.values() for answer in own]


@pytest.mark.usefixtures("one_worker")
@pytest.mark.parametrize(("opening", "closing"), [("~~hm ", " hm~~\n"), ("", "\n@@out@@ ")])
def test_marks_that_nobody_knows_are_learnt_kept_and_replayed(
    opening: str, closing: str, repo_root: Path, tmp_path: Path
) -> None:
    with ScriptedServer(knows) as server:
        plain = answers(a_run(repo_root, tmp_path / "plain", server))
    with ScriptedServer(thinking(opening, closing)) as server:
        run = a_run(repo_root, tmp_path / "run", server)
        counted = estimate(run, ARMS, admission=True, quiet=True)
        lines = admit(run, counted)
        mark = closing.strip()
        assert mark in lines[0] and "tokens counted by the server" in lines[0]
        assert "memory 3 of 3, reader" in lines[0].replace("memory 4 of 4", "memory 3 of 3")
        requests = len(server.requests)
        assert requests == counted.pending - estimate(run, ARMS, quiet=True).pending
        assert mark in admit(run, counted)[0] and len(server.requests) == requests, "nothing is asked twice"
        assert answers(run) == plain
    replayed = a_run(repo_root, tmp_path / "run", server, calls="replay", confirm_cost=False)
    assert answers(replayed) == plain
    (tmp_path / "run/calls/100k/admission.sqlite").unlink()
    for file in (tmp_path / "run/100k-one").glob("*/*.json*"):
        file.unlink()
    with pytest.raises(UserError, match="not stored"):  # the judge was asked about answers without thoughts
        answers(replayed, ARMS[:2])


@pytest.mark.usefixtures("one_worker")
@pytest.mark.parametrize("admitted", [True, False])
def test_an_archive_is_valid_with_and_without_an_admission(admitted: bool, repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(thinking("", "\n@@out@@ ") if admitted else knows) as server:
        run = a_run(repo_root, tmp_path / "run", server)
        if admitted:
            admit(run, estimate(run, ARMS[:1], admission=True, quiet=True))
        evaluate(run, ARMS[:1], quiet=True)
    keep_settings(run)
    publish(run.folder, tmp_path / "run.tar.zst")
    assert "every hash agrees" in verify(tmp_path / "run.tar.zst", EXAMPLE)


@pytest.mark.usefixtures("one_worker")
def test_a_server_that_cuts_without_a_word_ends_the_run_before_it_is_paid(repo_root: Path, tmp_path: Path) -> None:
    window = 400

    def reply(body: dict[str, Any]) -> Answer:
        for message in body["messages"]:
            message["content"] = " ".join(message["content"].split(" ")[-window:])
        return Answer(completion(body, knows(body)))

    with ScriptedServer(reply) as server:
        run = a_run(repo_root, tmp_path / "run", server)
        with pytest.raises(UserError, match=r"cuts long requests without a word.*--context-window 1000"):
            admit(run, estimate(run, ARMS, admission=True, quiet=True))
        assert len(server.requests) <= 10
        server.reply = knows  # its window is raised
        assert "knew both ends" in admit(run, estimate(run, ARMS, admission=True, quiet=True))[1]
        server.reply = lambda body: (
            Answer(error_body("maximum context length is 900 tokens, however you requested more"), 400)
            if len(body_text(body).split()) > window
            else knows(body)
        )
        run = a_run(repo_root, tmp_path / "other", server)
        with pytest.raises(UserError, match=r"maximum context length is 900.*requests of that length.*context_window"):
            admit(run, estimate(run, ARMS, admission=True, quiet=True))


@pytest.mark.usefixtures("one_worker")
def test_a_cache_that_takes_like_questions_for_one_ends_the_run(repo_root: Path, tmp_path: Path) -> None:
    replies: dict[str, str] = {}

    def cached(body: dict[str, Any]) -> str:
        return replies.setdefault(body_text(body)[-120:], knows(body))

    with ScriptedServer(cached) as server:
        run = a_run(repo_root, tmp_path / "run", server)
        with pytest.raises(UserError, match=r"reply to another request: asked for .*A cache in front of it"):
            admit(run, estimate(run, ARMS, admission=True, quiet=True))
        assert len(server.requests) <= 10
        server.reply = knows  # the cache is off
        assert "reader 3 of 3" in admit(run, estimate(run, ARMS, admission=True, quiet=True))[0]


@pytest.mark.usefixtures("one_worker", "short_pauses")
@pytest.mark.parametrize(
    ("answer", "cure", "tries"),
    [
        (Answer(error_body("glomp"), 400), "omit", 1),
        (Answer({"choices": [], "note": "sorry, no /v1 here"}), "correct base_url", 2),
        (Answer("<html><body>Welcome</body></html>"), "correct base_url", 2),
        (Answer({"status": "ok"}), "correct base_url", 2),
        (Answer(error_body("Country not supported"), 403), "another network", 1),
        (Answer(completion({"messages": [], "model": "m"}, "")), "reasoning parser", 1),
    ],
)
def test_a_role_that_answers_nothing_ends_the_run_at_once(
    answer: Answer, cure: str, tries: int, repo_root: Path, tmp_path: Path
) -> None:
    with ScriptedServer(lambda body: answer) as server:
        run = a_run(repo_root, tmp_path / "run", server)
        with pytest.raises(UserError, match=rf"{cure}.*same command goes on"):
            admit(run, estimate(run, ARMS, admission=True, quiet=True))
        assert len(server.requests) <= 4 * tries


def test_a_model_that_answers_wrongly_ends_a_run_as_a_judge_alone(repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(lambda body: "I am a small model, sorry") as server:
        run = a_run(repo_root, tmp_path / "run", server)
        counted = estimate(run, ARMS, admission=True, quiet=True)
        first, same, second, *others = admit(run, counted, judge_anyway=True)
        requests = len(server.requests)
        with pytest.raises(UserError, match=r"not fit to judge: .* 0 of 30 .*below the bar.*--judge-anyway"):
            admit(run, counted)
        tuned = pickle.loads(pickle.dumps(admit_and_tune(run, counted, judge_anyway=True)))
        assert tuned.judge_anyway and not run.judge_anyway, "it travels with the run"
        assert len(server.requests) == requests == counted.pending - estimate(run, ARMS, quiet=True).pending
    assert any("0 of 30 known nuggets" in line for line in others)
    assert "reader 0 of 3" in first and "judge 0 of 3" in first and "no new mark" in first
    assert "knew neither end" in second
    assert "same reply (numbers aside) to all known questions" in same and "reader 'I am a small model, sorry'" in same
    assert len(admission_calls(run.calls_folder())) >= 5


def test_a_model_that_repeats_requests_knows_nothing() -> None:
    for role in ("reader", "memory", "aligner", "detector"):
        for question in known_questions(role, 4_000):
            prompt = question.prompt
            assert not question.is_right(prompt.messages[-1]["content"])


@pytest.mark.usefixtures("one_worker")
def test_a_model_whose_replies_differ_by_a_number_alone_gives_one_reply_and_one_that_answers_does_not(
    repo_root: Path, tmp_path: Path
) -> None:
    numbers = itertools.count()
    constant: list[str] = []
    for name, reply in (("mock", lambda body: f"Mock reply {next(numbers)} of 7"), ("knows", knows)):
        with ScriptedServer(reply) as server:
            run = a_run(repo_root, tmp_path / name, server)
            lines = admit(run, estimate(run, ARMS[1:2], admission=True, quiet=True), judge_anyway=True)
            constant += [name for line in lines if "same reply (numbers aside) to all known questions" in line]
    assert constant == ["mock"]


THOUGHT = st.text(alphabet="abc de.\n", min_size=1).map(lambda text: f"well now then {text}")


@given(
    first=THOUGHT, second=THOUGHT, closing=st.sampled_from(["</hm>", "hm~~", "@@out@@", "⟪end⟫", "<|x1|>", "[[say]]"])
)
def test_what_recurs_around_words_that_vary_is_the_mark(first: str, second: str, closing: str) -> None:
    mark = learn_mark([(f"{text}{closing}\n {word}.", word) for text, word in zip((first, second), WORDS, strict=True)])
    assert (mark and mark[1] == closing) or first[-1] == second[-1], "what ends both thoughts alike joins the mark"
    if mark:
        assert clean_reply(f"{first}{mark[1]} tea", [mark]).text == "tea"


@pytest.mark.parametrize(
    "form", ["{}", "**{}**", "The word is: {}", "Sure! => {}", "- {}", "It is “{}”.", "`{}`", "<b>{}</b>"]
)
def test_an_answer_without_thoughts_teaches_nothing(form: str) -> None:
    assert learn_mark([(form.format(word), word) for word in WORDS]) is None


def test_every_role_has_known_questions_of_its_own() -> None:
    for role in ("reader", "reader:full-context", "memory", "compressor", "judge", "aligner"):
        questions = known_questions(role, 5_000)
        assert len({question.prompt.about for question in questions}) == len(questions) >= 2
        assert any(question.tokens for question in questions) == (role not in ("compressor", "judge", "aligner"))


def timed(about: str, latency: float, *, tokens: int = 24, read: int = 90, finish: str = "length") -> StoredCall:
    own = {"key": about, "role": "reader", "conversation": "admission", "step": "answer", "about": about, "repeat": 0}
    counts = {"input_tokens": read, "output_tokens": tokens, "cached_tokens": 0, "latency": latency}
    place = {"model": "m", "base_url": "http://127.0.0.1:1/v1", "attempt": 0, "time": "2026-01-01T00:00:00+00:00"}
    return StoredCall(**own, **place, **counts, text="1 2 3", finish_reason=finish)


@given(slots=st.integers(1, 8), seconds=st.floats(0.05, 20), noise=st.floats(0.95, 1.05))
def test_slots_follow_from_latencies(slots: int, seconds: float, noise: float) -> None:
    waits = [seconds * (1 + number // slots) for number in range(8)]
    calls = [timed("counting", seconds * noise)]
    calls += [timed(f"counting {number}", wait) for number, wait in enumerate(waits, start=1)]
    endpoint = Endpoint(model="m", base_url="http://127.0.0.1:1/v1", context_window=32_768, max_output_tokens=4_096)
    speed = measured_speed(calls, endpoint)
    assert speed.slots == slots if slots <= 3 else speed.slots and speed.slots > 2
    assert speed.queues == (slots <= 2 and speed.waiting >= 0.5) and (speed.queues or slots > 2 or seconds < 0.4)
    tuned = tuned_endpoints({"reader": endpoint}, {"reader": 8_000}, calls)["reader"]
    assert tuned.concurrency == (2 * speed.slots if speed.queues else 16)
    assert tuned.settings == endpoint.settings, "nothing of a manifest or a key"
    expected = 4_096 * seconds * noise / 24
    assert tuned.timeout >= min(3_600, expected) and (tuned.timeout == 300 or expected > 60)
    stated = Endpoint(
        model="m", base_url="http://127.0.0.1:1/v1", context_window=32_768, concurrency=7, timeout=30.0, patience=1.0
    )
    assert tuned_endpoints({"reader": stated}, {"reader": 8_000}, calls)["reader"] == stated, "the user's stay"


def test_a_busy_server_that_varies_is_no_queue() -> None:
    calls = [timed("counting", 0.5)]
    calls += [timed(f"counting {number}", 0.4 + number / 10) for number in range(1, 9)]
    endpoint = Endpoint(model="m", base_url="http://127.0.0.1:1/v1", context_window=32_768)
    assert not measured_speed(calls, endpoint).queues


def test_a_reader_of_a_models_file_keeps_what_its_file_states(tmp_path: Path) -> None:
    with ScriptedServer(knows) as server:
        path = one_endpoint(server, tmp_path / "models.yaml")
    reader = load_models(path).reader("").of("")
    assert "concurrency" not in reader.model_fields_set and "context_window" in reader.model_fields_set


@pytest.mark.usefixtures("one_worker")
def test_a_server_with_one_slot_gets_two_requests_at_a_time(repo_root: Path, tmp_path: Path) -> None:
    def one_by_one(body: dict[str, Any]) -> Answer:
        if "Count from 1" in body_text(body):
            time.sleep(0.6)  # on the server's only loop
        return Answer(completion(body, knows(body)))

    with ScriptedServer(one_by_one) as server:
        run = a_run(repo_root, tmp_path / "run", server)
        counted = estimate(run, ARMS[:1], admission=True, quiet=True)
        tuned = admit_and_tune(run, counted)
        assert tuned.endpoints["reader"].concurrency == 2 and run.endpoints["reader"].concurrency == 16
        told = answers(tuned, ARMS[:1])
        requests = len(server.requests)
        assert answers(run, ARMS[:1]) == told and len(server.requests) == requests, "the same calls and records"


@pytest.mark.usefixtures("one_worker")
def test_a_second_tier_or_benchmark_asks_the_same_endpoint_nothing_again(repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(knows) as server:
        run = a_run(repo_root, tmp_path / "run", server)
        counted = estimate(run, ARMS[:1], admission=True, quiet=True)
        admit(run, counted)
        requests = len(server.requests)
        admit(run, counted, suite="meme")
        assert len(server.requests) == requests
        exam = judge_exam(run)
    assert "30 of 30 known nuggets have a readable verdict, kappa 1.00" in exam


def odd(kind: str) -> Callable[[dict[str, Any]], Answer]:
    """A server that knows the answers and sends them in a shape of its own, or judges in one."""

    def reply(body: dict[str, Any]) -> Answer:
        sent: dict[str, Any] = completion(body, knows(body))
        choice = sent["choices"][0]
        if kind == "parts":
            choice["message"]["content"] = [{"type": "text", "text": knows(body)}]
        elif kind == "usage as text":
            sent["usage"] = {name: str(number) for name, number in sent["usage"].items()}
        elif kind == "usage below zero":
            sent["usage"] = {"prompt_tokens": -5, "completion_tokens": -1, "total_tokens": -6}
        elif kind == "two choices":
            sent["choices"].append({**choice, "index": 1})
        elif '"score"' in body_text(body):
            echo = '{"score": 1.0 or 0.5 or 0.0, "reason": "why"}'
            choice["message"]["content"] = echo if kind == "echo" else '{"score": 1.0, "reason": "fine"}'
        return Answer(sent)

    return reply


@pytest.mark.usefixtures("one_worker")
@pytest.mark.parametrize(
    ("kind", "refusal"),
    [
        *((kind, "") for kind in ("parts", "usage as text", "usage below zero", "two choices")),
        ("echo", "0 of 30 known nuggets have a readable verdict, kappa 0.00"),
        ("lenient", "30 of 30 known nuggets have a readable verdict, kappa 0.00"),
    ],
)
def test_what_is_estimated_is_what_the_server_sees_and_what_is_stored(
    kind: str, refusal: str, repo_root: Path, tmp_path: Path
) -> None:
    with ScriptedServer(odd(kind)) as server:
        run = a_run(repo_root, tmp_path / "run", server)
        counted = estimate(run, ARMS[:1], admission=True, quiet=True)
        if refusal:
            with pytest.raises(UserError, match=re.escape(refusal)):
                admit(run, counted)
        else:
            assert any("kappa 1.00" in line for line in admit(run, counted))
        stored = len(admission_calls(run.calls_folder()))
        assert len(server.requests) == stored == counted.pending - estimate(run, ARMS[:1], quiet=True).pending
