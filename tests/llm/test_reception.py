"""Endpoints judged by what they do: scripted servers say whatever they like, and only their behaviour counts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamlib.errors import UserError
from beamlib.llm.call_store import CallStore
from beamlib.llm.client import EndpointModel, _Slots
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.faults import Asker, RetryableError
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, attempt_all, run
from beamlib.llm.reception import ALIKE, Reception, Terms, likeness
from beamlib.llm.retrying import RetryingModel, gather
from beamlib.llm.stored_model import StoredModel
from beamlib.scoring.replies import ask_parsed, read_score
from scripted_server import Answer, ScriptedServer, completion, error_body

KEY = "sk-invented-0123456789"
ASKER = Asker("The reader model m at http://127.0.0.1:1/v1")


def model(server: ScriptedServer, **fields: Any) -> EndpointModel:
    settings = {"model": "m", "base_url": server.base_url, "context_window": 32_000, "patience": 0.4} | fields
    return EndpointModel("reader", Endpoint(**settings))


def prompts(count: int, identity: str = "answer") -> list[Prompt]:
    return [Prompt(identity, {"question": f"What about {n}?", "context": "Tea."}) for n in range(count)]


def after(good: int, bad: Answer) -> Callable[[dict[str, Any]], str | Answer]:
    """Answer so many requests, then none."""
    seen = 0

    def reply(body: dict[str, Any]) -> str | Answer:
        nonlocal seen
        seen += 1
        return "Tea." if seen <= good else bad

    return reply


WORDS = ("Plouf: glomp 17 refused", "“4” wombats 'x9' short", "")
NOTHING_USABLE = {
    "error without a number": Answer({"error": WORDS[0]}),
    "an object": Answer({"error": {"message": WORDS[0], "code": "wombat", "type": "glomp"}}),
    "no choices": Answer({"choices": None, "base_resp": {"status_code": 1008, "status_msg": WORDS[0]}}),
    "no choices, other names": Answer({"ret": 7, "data": {"errorInfo": {"msg": WORDS[0]}}}),
    "a list": Answer('["Plouf: glomp 17 refused"]'),
    "a page": Answer(f"<html><body>{WORDS[0]}</body></html>"),
    "events": Answer(f'data: {{"choices": [], "note": "{WORDS[0]}"}}\n\ndata: [DONE]\n\n'),
    "a redirect": Answer("", 308, {"Location": "https://elsewhere.example/v1/glomp/Plouf: glomp 17 refused"}),
    **{f"status {status}": Answer(error_body(WORDS[0]), status) for status in (400, 403, 418, 422, 451)},
}


@pytest.mark.parametrize("answer", NOTHING_USABLE.values(), ids=NOTHING_USABLE)
@pytest.mark.usefixtures("short_pauses")
def test_an_endpoint_that_never_answers_ends_the_run_after_five_different_requests(answer: Answer) -> None:
    with ScriptedServer(lambda body: answer) as server:
        with pytest.raises(UserError, match=r"glomp 17 refused.*5 different requests.*same command goes on") as end:
            attempt_all(model(server, concurrency=2), prompts(60))
        assert len(server.requests) <= 12
        assert str(end.value).count(". ") <= 1
        server.reply = lambda body: "Tea."
        assert len(attempt_all(model(server, concurrency=2), prompts(3))) == 3, "the next command goes on"


@pytest.mark.parametrize(
    "start", ["data: ", "event: message\ndata: ", ": waiting\n\ndata: ", "id: 1\ndata: ", "\n\ndata:"]
)
@pytest.mark.usefixtures("short_pauses")
def test_a_stream_of_events_is_called_so_however_it_begins(start: str) -> None:
    events = Answer(f'{start}{{"choices": [{{"delta": {{"content": "Tea."}}}}]}}\n\n')
    with ScriptedServer(lambda body: events) as server, pytest.raises(UserError, match=r"only as a stream.*goes on"):
        attempt_all(model(server), prompts(9))


@pytest.mark.parametrize("status", [403, 407, 423, 424, 425, 429, 498, 499, 500, 503, 529])
@pytest.mark.parametrize("words", WORDS)
@pytest.mark.usefixtures("short_pauses")
def test_one_that_stops_answering_ends_the_run_whatever_its_words_are(
    status: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("beamlib.llm.reception._QUOTA_SECONDS", 0.4)
    bad = Answer(error_body(words), status, {"Retry-After": "0.01"})
    with ScriptedServer(after(20, bad)) as server:
        with pytest.raises(UserError, match="same command goes on"):
            attempt_all(model(server, concurrency=4), prompts(200))
        assert len(server.requests) <= 20 + 60
    assert capsys.readouterr().err.count("one request at a time") == (status != 403)


@pytest.mark.usefixtures("short_pauses")
def test_a_cell_that_runs_again_is_told_again_that_it_waits(capsys: pytest.CaptureFixture[str]) -> None:
    bad = Answer(error_body("glomp"), 503, {"Retry-After": "0.01"})
    with ScriptedServer(after(20, bad)) as server:
        for _ in range(2):
            server.reply = after(20, bad)
            with pytest.raises(UserError, match="same command goes on"):
                attempt_all(model(server, concurrency=4), prompts(200))
            assert capsys.readouterr().err.count("one request at a time") == 1


@pytest.mark.parametrize("status", [404, 407, 423, 424, 425, 429, 498, 499, 500, 503, 529])
@pytest.mark.usefixtures("short_pauses")
def test_passing_failures_after_an_answer_lose_no_call(status: int) -> None:
    seen = 0

    def reply(body: dict[str, Any]) -> str | Answer:
        nonlocal seen
        seen += 1
        return Answer(error_body("glomp"), status) if seen > 3 and seen % 3 == 0 else "Tea."

    with ScriptedServer(reply) as server:
        replies = attempt_all(model(server, concurrency=2, patience=20.0), prompts(40))
    assert all(isinstance(one, Completion) for one in replies)


def thoughts_only(body: dict[str, Any]) -> Answer:
    reply = completion(body, None)
    reply["choices"][0]["message"] |= {"reasoning_content": "Hm, tea."}
    return Answer(reply)


@pytest.mark.parametrize("reply", [thoughts_only, lambda body: Answer(completion(body, " \n"))])
def test_replies_without_text_end_the_run(reply: Callable[[dict[str, Any]], Answer]) -> None:
    with ScriptedServer(reply) as server:
        with pytest.raises(UserError, match=r"without text.*5 different requests.*enable_thinking"):
            attempt_all(RetryingModel(model(server, concurrency=1)), prompts(40))
        assert len(server.requests) <= 2 * ALIKE


@pytest.mark.parametrize(("empty", "ends"), [(19, False), (20, True)])
def test_empty_replies_of_an_endpoint_that_answers_end_the_run_only_when_many_follow_on_each_other(
    empty: int, ends: bool
) -> None:
    seen = 0

    def reply(body: dict[str, Any]) -> str | Answer:
        nonlocal seen
        seen += 1
        return Answer(completion(body, " \n")) if 1 < seen <= 1 + empty else "Tea."

    with ScriptedServer(reply) as server:
        asking = model(server, concurrency=1)
        if ends:
            with pytest.raises(UserError, match=r"without text.*20 different requests"):
                attempt_all(asking, prompts(40))
        else:
            assert len(attempt_all(asking, prompts(40))) == 40


def test_a_run_that_ended_for_empty_replies_goes_on_once_the_server_is_mended(tmp_path: Path) -> None:
    def ask(run_id: str) -> list[Completion | ModelError]:
        with CallStore(tmp_path / "1.sqlite", run_id=run_id) as store:
            names = {"role": "reader", "conversation": "1", "command": "again"}
            return attempt_all(RetryingModel(StoredModel(model(server), store, "record", **names)), prompts(9))

    with ScriptedServer(thoughts_only) as server:
        with pytest.raises(UserError):
            ask("first")
        server.reply = lambda body: "Tea."
        assert [reply.text for reply in ask("second") if isinstance(reply, Completion)] == ["Tea."] * 9


def test_prompts_whose_reply_may_be_empty_go_on() -> None:
    extract = [Prompt("scratchpad_notes", {"pair": f"I like tea {n}.", "history": ""}) for n in range(9)]
    with ScriptedServer(lambda body: "") as server:
        replies = attempt_all(RetryingModel(model(server)), extract)
    assert all(isinstance(one, Completion) for one in replies)


def test_refusals_for_length_or_content_end_no_run() -> None:
    for answer in (Answer(error_body("glomp"), 413), Answer(error_body("no", "content_filter"), 400)):
        with ScriptedServer(lambda body, answer=answer: answer) as server:
            replies = attempt_all(model(server), prompts(30))
        assert {getattr(one, "outcome", None) for one in replies} <= {Outcome.CONTEXT_LENGTH, Outcome.FILTERED}


def test_one_request_that_a_server_cannot_answer_ends_its_call_alone() -> None:
    def reply(body: dict[str, Any]) -> str | Answer:
        return Answer(error_body("glomp"), 500) if "about 3?" in str(body) else "Tea."

    with ScriptedServer(reply) as server:
        replies = attempt_all(model(server, concurrency=1, attempts=2), prompts(6))
    assert [isinstance(one, ModelError) for one in replies] == [False] * 3 + [True] + [False] * 2


def test_a_wait_until_a_point_in_time_is_waited_for() -> None:
    moment = f"{time.time() + 1:.0f}"
    seen: list[float] = []

    def reply(body: dict[str, Any]) -> str | Answer:
        seen.append(time.time())
        return Answer(error_body("glomp"), 429, {"Retry-After": moment}) if len(seen) == 1 else "Tea."

    with ScriptedServer(reply) as server:
        assert isinstance(attempt_all(model(server), prompts(1))[0], Completion)
    assert seen[1] >= float(moment)


def test_the_key_is_hidden_and_the_servers_words_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEAM_TEST_KEY", KEY)
    for words in (f"glomp for {KEY} only", "glomp for sk-i…6789 only", "glomp for ****6789, only"):
        refusal = Answer(error_body(words), 403)
        with (
            ScriptedServer(lambda body, refusal=refusal: refusal) as server,
            pytest.raises(UserError, match=r"glomp for \[key\],? ?only") as end,
        ):
            attempt_all(model(server, key_variable="BEAM_TEST_KEY"), prompts(9))
        assert "6789" not in str(end.value).replace(server.base_url, "")


def test_the_model_that_answers_is_said_once_and_kept(capsys: pytest.CaptureFixture[str]) -> None:
    def reply(body: dict[str, Any]) -> Answer:
        return Answer(completion(body, "Tea.") | {"model": "m-mini", "system_fingerprint": "fp_7"})

    with ScriptedServer(reply) as server:
        replies = attempt_all(model(server), prompts(4))
    assert {(one.answered_by, one.fingerprint) for one in replies if isinstance(one, Completion)} == {
        ("m-mini", "fp_7")
    }
    assert capsys.readouterr().err.count("m-mini") == 1


def test_an_endpoint_that_calls_itself_otherwise_in_every_reply_is_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = iter(range(99))
    with ScriptedServer(lambda body: Answer(completion(body, "Tea.") | {"model": f"x-{next(names)}"})) as server:
        replies = attempt_all(model(server), prompts(9))
    assert len({reply.answered_by for reply in replies if isinstance(reply, Completion)}) == 9
    assert capsys.readouterr().err.count("as the model that answers") == 1


@given(st.text(max_size=60), st.integers(0, 10**9), st.integers(0, 10**9))
def test_messages_are_alike_whatever_they_quote_or_count(words: str, first: int, second: int) -> None:
    assert likeness(f"{words} id {first} in 'x{first}'") == likeness(f"{words} id {second} in 'y{second}'")


def test_a_success_forgets_what_came_before_and_requests_count_once() -> None:
    reception = Reception(Terms())
    for request in range(ALIKE - 1):
        for _ in range(3):
            reception.record_alike(request, "glomp 1", ASKER, 400)
    reception.record_success()
    for request in range(ALIKE - 1):
        reception.record_alike(request, f"glomp {request}", ASKER, 400)
    with pytest.raises(UserError, match=f"{ALIKE} different requests"):
        reception.record_alike(ALIKE, "glomp 99", ASKER, 400)


def test_refusals_that_are_never_alike_end_the_run_too() -> None:
    reception = Reception(Terms())
    words = ["".join(chr(97 + (n * k) % 26) for k in range(1, 9)) for n in range(40)]
    with pytest.raises(UserError, match=r"20 different requests .* came to nothing"):
        for request, word in enumerate(words):
            reception.record_alike(request, f"glomp {word}", ASKER, 400)


def test_an_address_that_nobody_answers_at_ends_the_run_and_tls_errors_say_what_to_do() -> None:
    reception = Reception(terms := Terms())
    failure = RetryableError("no TLS connection (x)", silent=True, reached=False, cure="write http:// in base_url")
    with pytest.raises(UserError, match="write http:// in base_url"):
        for _ in range(50):
            reception.record_passing(1, failure, ASKER, 0.0)
    with pytest.raises(UserError):
        terms.check(0)
    terms.check(1)


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize(("status", "waits"), [(503, True), (500, False), (502, False)])
def test_a_server_that_loads_its_model_gets_its_patience_before_the_first_answer(
    status: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beamlib.llm.reception._FIRST_PATIENCE", 0.1)
    ready = time.monotonic() + 1.0

    def reply(body: dict[str, Any]) -> str | Answer:
        return "Tea." if time.monotonic() > ready else Answer(error_body("Loading model"), status)

    with ScriptedServer(reply) as server:
        asking = model(server, concurrency=1, patience=20.0)
        if waits:
            assert all(isinstance(one, Completion) for one in attempt_all(asking, prompts(3)))
        else:
            with pytest.raises(UserError, match="Loading model"):
                attempt_all(asking, prompts(3))


def verdicts(judge: RetryingModel, count: int) -> list[float | None]:
    """Ask for verdicts on so many answers, as a worker does."""
    asked = [Prompt("judge_nugget", {"question": "?", "nugget": "tea", "answer": f"{n} cups"}) for n in range(count)]
    replies = run(gather(ask_parsed(judge, prompt, lambda reply: read_score(reply.text)) for prompt in asked))
    return [reply.value for reply in replies]


def stored_judge(
    server: ScriptedServer, store: CallStore, name: str = "m", role: str = "judge", *, unfit: bool = False
) -> RetryingModel:
    endpoint = Endpoint(model=name, base_url=server.base_url, context_window=32_000, concurrency=4)
    called = EndpointModel(role, endpoint, unfit=unfit)
    return RetryingModel(StoredModel(called, store, "record", role=role, conversation="1", command="beamlib"))


VERDICT = '{"score": 1.0, "reason": "tea"}'


@pytest.mark.parametrize("bad", ["Full marks, I would say.", '{"score": 1.0 or 0.5 or 0.0, "reason": "in detail"}', ""])
def test_a_judge_whose_verdicts_become_unusable_ends_the_run(bad: str, tmp_path: Path) -> None:
    seen = 0

    def reply(body: dict[str, Any]) -> str:
        nonlocal seen
        seen += 1
        return VERDICT if seen <= 30 else bad

    with ScriptedServer(reply) as server, CallStore(tmp_path / "1.sqlite") as store:
        with pytest.raises(UserError, match=r"20 (different )?requests .*the same command goes on"):
            verdicts(stored_judge(server, store), 200)
        assert len(server.requests) <= 30 + 3 * 20, "what is asked again goes first"
        server.reply = lambda body: VERDICT
        again = verdicts(stored_judge(server, store), 200)
        assert 150 < again.count(1.0) <= 200 - 20 * bool(bad), "what is stored ends no run, and is not paid for again"


def test_the_next_run_asks_again_what_ended_a_run_and_nothing_else(tmp_path: Path) -> None:
    stopped, sent = False, list[int]()

    def reply(body: dict[str, Any]) -> Answer:
        bad = stopped or ">\n3 cups\n<" in str(body["messages"][-1]["content"])
        answer = completion(body, "Full marks, I would say." if bad else VERDICT)
        sent.append(answer["usage"]["total_tokens"])
        return Answer(answer)

    def ask(run_id: str, count: int) -> list[float | None]:
        with CallStore(tmp_path / "1.sqlite", run_id=run_id) as store:
            return verdicts(stored_judge(server, store), count)

    with ScriptedServer(reply) as server:
        assert ask("first", 30).count(None) == 1
        stopped = True
        with pytest.raises(UserError, match="20 requests in a row"):
            ask("first", 200)
        stopped = False
        with CallStore(tmp_path / "1.sqlite", read_only=True) as store:
            lost = [call for call in store.calls() if call.refused]
        assert 2 * 20 <= len(lost) <= 2 * (20 + 4 + 4) and all("Full marks" in call.message for call in lost)
        requests = len(server.requests)
        values = ask("second", 200)
        assert [number for number, value in enumerate(values) if value is None] == [3]
        assert len(server.requests) - requests == 200 - 30
        requests = len(server.requests)
        assert ask("third", 200) == values and len(server.requests) == requests
    with CallStore(tmp_path / "1.sqlite", read_only=True) as store:
        stored = sum(totals.input_tokens + totals.output_tokens for totals in store.totals())
    assert stored == sum(sent), "what was paid for unusable replies is counted"


def test_what_is_under_way_when_a_run_ends_is_answered_by_the_next(tmp_path: Path) -> None:
    mended = False

    def reply(body: dict[str, Any]) -> Answer:
        return Answer(completion(body, "Tea." if mended else "Half an ans", "stop" if mended else "length"))

    async def ask_in_turn(reader: RetryingModel) -> list[Any]:
        """Ask the last questions when the run has ended, as a worker does that is not told at once."""
        early = await asyncio.gather(*map(reader.complete, prompts(40)), return_exceptions=True)
        late = [Prompt("answer", {"question": f"And {n}?", "context": "Tea."}) for n in range(4)]
        return [*early, *await asyncio.gather(*map(reader.complete, late), return_exceptions=True)]

    def ask(run_id: str) -> list[Any]:
        with CallStore(tmp_path / "1.sqlite", run_id=run_id) as store:
            names = {"role": "reader", "conversation": "1", "command": "again"}
            return run(ask_in_turn(RetryingModel(StoredModel(model(server), store, "record", **names))))

    with ScriptedServer(reply) as server:
        assert all(isinstance(end, UserError) for end in ask("first")[-4:])
        mended = True
        assert [reply.text for reply in ask("second")] == ["Tea."] * 44


def test_finished_records_keep_the_replies_that_they_rest_on(tmp_path: Path) -> None:
    with ScriptedServer(lambda body: "Full marks.") as server:
        with CallStore(tmp_path / "1.sqlite", run_id="first") as finished:
            assert verdicts(stored_judge(server, finished), 5) == [None] * 5
        with CallStore(tmp_path / "2.sqlite", run_id="first") as store, pytest.raises(UserError, match="in a row"):
            verdicts(stored_judge(server, store), 60)
    for name, least, most in (("1", 0, 0), ("2", 2 * 15, 2 * (15 + 4 + 4))):
        with CallStore(tmp_path / f"{name}.sqlite", read_only=True) as store:
            assert least <= sum(call.refused for call in store.calls()) <= most


def test_a_judge_that_needs_to_be_asked_twice_ends_no_run(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str:
        return VERDICT if "could not be used" in str(body) else "Full marks."

    with ScriptedServer(reply) as server, CallStore(tmp_path / "1.sqlite") as store:
        assert verdicts(stored_judge(server, store), 60) == [1.0] * 60


@pytest.mark.parametrize("role", ["judge", "aligner"])
def test_a_judge_that_the_user_lets_judge_anyway_ends_no_run_nor_does_a_role_without_exam(
    role: str, tmp_path: Path
) -> None:
    with ScriptedServer(lambda body: "Full marks.") as server, CallStore(tmp_path / "1.sqlite") as store:
        judge = stored_judge(server, store, "small", role, unfit=role == "judge")
        assert verdicts(judge, 60) == [None] * 60


def test_a_reader_whose_replies_are_all_cut_off_ends_the_run(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> Answer:
        return Answer(completion(body, "Half an ans", finish_reason="length"))

    with ScriptedServer(reply) as server, CallStore(tmp_path / "1.sqlite") as store:
        reader = RetryingModel(StoredModel(model(server), store, "record", role="r", conversation="1", command=""))
        with pytest.raises(UserError, match=r"20 requests in a row .*cut off.*the same command goes on"):
            attempt_all(reader, prompts(200))


def test_slots_survive_calls_that_are_cancelled_while_they_wait() -> None:
    async def use() -> int:
        slots, used = _Slots(2), 0

        async def call() -> None:
            nonlocal used
            async with slots.taken(Prompt("answer", {})):
                await asyncio.sleep(0.001)
                used += 1

        tasks = [asyncio.create_task(call()) for _ in range(40)]
        await asyncio.sleep(0.003)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(asyncio.gather(*(call() for _ in range(4))), 5)
        return used

    assert run(use()) >= 24
