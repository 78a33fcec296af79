"""The call store: what it keeps, when it calls, and that no kill and no damage costs or falsifies a call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamlib.errors import UserError
from beamlib.files import sha256
from beamlib.llm import call_store as calls_module
from beamlib.llm.call_store import stored_calls
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, Usage, attempt_all, run
from beamlib.llm.stored_model import CallStore, Mode, StoredCall, StoredModel, call_key
from scripted_server import ScriptedServer

COMMAND = "beamlib run params/mine.yaml --calls record"


def stored(number: int, **changes: Any) -> StoredCall:
    return StoredCall(
        **{
            "role": "reader",
            "conversation": "1",
            "step": "answer",
            "about": f"1-{number:02d}",
            "model": "tiny",
            "base_url": "http://127.0.0.1:9/v1",
            "text": f"answer {number}",
            "input_tokens": number,
            "output_tokens": 2,
            "cached_tokens": 1,
            "latency": 0.5,
            "finish_reason": "stop",
            "time": "2026-01-01T00:00:00.000+00:00",
            **changes,
        }
    )


def key_of(number: int) -> str:
    return sha256(str(number))


class Counted:
    """Stands for an endpoint: counts requests and answers by the number of the call, or as it is told."""

    name = "tiny"
    endpoint = Endpoint(model="tiny", base_url="http://127.0.0.1:9/v1", context_window=8_000)

    def __init__(self, answer: Callable[[int], Completion] | None = None, wait: float = 0.0) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer = answer or (lambda n: Completion(f"reply {n}", Usage(10, 3, 4), 0.25, "length"))
        self.wait = wait

    def request(self, prompt: Prompt) -> dict[str, Any]:
        content = prompt.variables["text"] + prompt.complaint
        return {"model": self.name, "messages": [{"role": "user", "content": content}], "seed": prompt.repeat}

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(self.request(prompt))
        number = len(self.asked)
        await asyncio.sleep(self.wait)
        return self.answer(number)


def failing(*outcomes: Outcome | None) -> Callable[[int], Completion]:
    """The outcome of each call in turn; None, and whatever comes after the last, is an answer."""

    def answer(number: int) -> Completion:
        outcome = outcomes[number - 1] if number <= len(outcomes) else None
        if outcome:
            raise ModelError(f"call {number} went wrong", outcome)
        return Completion(f"reply {number}")

    return answer


def prompt(text: str = "why?", **more: Any) -> Prompt:
    return Prompt("answer", {"text": text}, about="1-07", **more)


def model_of(model: Counted, store: CallStore, mode: Mode = "record", **more: Any) -> StoredModel:
    return StoredModel(model, store, mode, role="reader", conversation="12", command=COMMAND, **more)


@pytest.fixture
def store(tmp_path: Path) -> CallStore:
    return CallStore(tmp_path / "calls" / "12.sqlite")


def test_the_key_changes_with_whatever_the_reply_depends_on() -> None:
    request = {"model": "m", "messages": [{"role": "user", "content": "é"}], "temperature": 0.0}
    same = call_key(dict(reversed(request.items())), "http://a/v1", 0)
    assert call_key(request, "http://a/v1", 0) == same
    others = [
        call_key({**request, "model": "n"}, "http://a/v1", 0),
        call_key({**request, "temperature": 0.1}, "http://a/v1", 0),
        call_key({**request, "messages": []}, "http://a/v1", 0),
        call_key(request, "http://b/v1", 0),
        call_key(request, "http://a/v1", 1),
    ]
    assert len({same, *others}) == 6


def test_record_calls_once_and_replays_the_same_completion(store: CallStore) -> None:
    endpoint = Counted()
    first = run(model_of(endpoint, store).complete(prompt()))
    assert first == Completion("reply 1", Usage(10, 3, 4), 0.25, "length")
    store.close()
    again = model_of(endpoint, CallStore(store.path))
    assert run(again.complete(prompt())) == first
    assert run(model_of(endpoint, CallStore(store.path, read_only=True), "replay").complete(prompt())) == first
    assert (len(endpoint.asked), again.made, again.replayed) == (1, 0, 1)
    run(again.complete(prompt(repeat=1)))
    run(again.complete(prompt().again("not a number")))
    assert len(endpoint.asked) == 3
    kept = {call.about: call for _, call in again.store.calls()}["1-07"]
    assert (kept.role, kept.conversation, kept.step, kept.model) == ("reader", "12", "answer", "tiny")
    assert sorted((call.repeat, call.attempt) for _, call in again.store.calls()) == [(0, 0), (0, 1), (1, 0)]


def test_replay_never_calls_and_names_what_is_missing(store: CallStore, tmp_path: Path) -> None:
    endpoint = Counted()
    held = CallStore(store.path, read_only=True)
    with pytest.raises(UserError) as error:
        run(model_of(endpoint, held, "replay").complete(prompt()))
    for part in (str(store.path), "conversation 12", "step answer", "1-07", COMMAND):
        assert part in str(error.value)
    assert endpoint.asked == [] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["record", "refresh"])
def test_nothing_is_called_before_the_cost_is_confirmed(store: CallStore, mode: Mode) -> None:
    endpoint = Counted()
    with pytest.raises(UserError, match=r"confirm_cost.*without --yes.*--calls record"):
        run(model_of(endpoint, store, mode, confirmed=False).complete(prompt()))
    assert endpoint.asked == [] and not store.path.exists()
    run(model_of(endpoint, store).complete(prompt()))
    assert run(model_of(endpoint, store, "record", confirmed=False).complete(prompt())).text == "reply 1"


def test_final_failures_are_held_and_passing_ones_asked_again(store: CallStore) -> None:
    endpoint = Counted(failing(Outcome.FILTERED, Outcome.UNAVAILABLE))
    model, replay = model_of(endpoint, store), model_of(endpoint, store, "replay")
    for _ in range(2):
        for one in (model, replay):
            with pytest.raises(ModelError, match=r"^call 1 went wrong$") as error:
                run(one.complete(prompt("a")))
            assert error.value.reason == "content filter: call 1 went wrong"
    for one in (model, replay):
        with pytest.raises(ModelError, match=r"^call 2 went wrong$") as error:
            run(one.complete(prompt("b")))
        assert error.value.transient
    assert run(model.complete(prompt("b"))).text == run(replay.complete(prompt("b"))).text == "reply 3"
    assert len(endpoint.asked) == 3


def test_an_error_of_the_users_is_not_held(store: CallStore) -> None:
    def no_key(number: int) -> Completion:
        raise UserError("no key")

    with pytest.raises(UserError, match="no key"):
        run(model_of(Counted(no_key), store).complete(prompt()))
    assert list(store.calls()) == [] and store.in_flight == {}
    assert run(model_of(Counted(), store).complete(prompt())).text == "reply 1"


def test_refresh_asks_once_per_run_and_keeps_the_old_until_the_new_is_there(store: CallStore) -> None:
    with CallStore(store.path, run_id="first") as first:
        run(model_of(Counted(lambda n: Completion("old")), first).complete(prompt()))
    endpoint = Counted(failing(Outcome.UNAVAILABLE))
    refresh, replay = model_of(endpoint, store, "refresh"), model_of(endpoint, store, "replay")
    with pytest.raises(ModelError):
        run(refresh.complete(prompt()))
    assert run(replay.complete(prompt())).text == "old"
    assert run(refresh.complete(prompt())).text == "reply 2"
    assert run(refresh.complete(prompt())).text == run(replay.complete(prompt())).text == "reply 2"
    store.close()
    other = model_of(endpoint, CallStore(store.path), "refresh")  # another backbone of the same run
    assert run(other.complete(prompt())).text == "reply 2" and len(endpoint.asked) == 2
    later = model_of(endpoint, CallStore(store.path, run_id="third"), "refresh")
    assert run(later.complete(prompt())).text == "reply 3"


def test_refresh_looks_at_no_clock(store: CallStore, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Counted()
    for day in (3, 3, 1, 4):  # a clock that stands still, and is set back
        moment = datetime(2026, 1, day, tzinfo=UTC)
        monkeypatch.setattr("beamlib.llm.stored_model.datetime", SimpleNamespace(now=lambda _, moment=moment: moment))
        asked = len(endpoint.asked)
        for _ in range(2):
            with CallStore(store.path, run_id=f"run {asked}") as held:
                assert run(model_of(endpoint, held, "refresh").complete(prompt())).text == f"reply {asked + 1}"
        assert len(endpoint.asked) == asked + 1


def test_equal_calls_at_once_are_one(store: CallStore) -> None:
    async def ask(endpoint: Counted) -> list[Any]:
        models = [model_of(endpoint, store) for _ in range(5)]
        return await asyncio.gather(*(model.complete(prompt()) for model in models), return_exceptions=True)

    endpoint = Counted(failing(Outcome.REFUSED), wait=0.02)
    found = run(ask(endpoint))
    assert len(endpoint.asked) == 1
    assert {str(error) for error in found} == {"call 1 went wrong"} and len({id(error) for error in found}) == 5


def test_a_call_outlives_whoever_asked_for_it(store: CallStore) -> None:
    endpoint = Counted(wait=0.05)
    model = model_of(endpoint, store)

    async def ask() -> tuple[Completion, int]:
        gone, stays = asyncio.create_task(model.complete(prompt())), asyncio.create_task(model.complete(prompt()))
        alone = asyncio.create_task(model.complete(prompt("other")))
        await asyncio.sleep(0.01)
        gone.cancel()
        alone.cancel()
        reply = await stays
        assert gone.cancelled() and alone.cancelled()
        store.close()  # as when the caller's `with` has ended: what arrives late is still written
        while store.in_flight:
            await asyncio.sleep(0.01)
        return reply, len(list(store.calls()))

    reply, held = run(ask())
    assert held == len(endpoint.asked) == 2 and reply.text.startswith("reply")


def test_what_an_endpoint_says_can_always_be_kept(store: CallStore) -> None:
    odd = Completion("half \ud83d pair \ud83d\ude00 nul \0", Usage(-1, 10**30, 0), 0.1, "stop")
    model = model_of(Counted(lambda n: odd), store)
    first = run(model.complete(prompt()))
    assert first.text == "half \ufffd pair \U0001f600 nul \0" and first.usage == Usage(0, 2**53, 0)
    assert run(model.complete(prompt())) == first and model.made == 1


@settings(max_examples=60, deadline=None)
@given(
    text=st.none() | st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    tokens=st.integers(0, 2**53),
    latency=st.floats(0, allow_nan=False, allow_infinity=False),
    about=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20),
)
def test_a_call_comes_back_as_it_was_put(text: str | None, tokens: int, latency: float, about: str) -> None:
    call = (
        stored(0, text=text, input_tokens=tokens, latency=latency, about=about)
        if text is not None
        else stored(0, text=None, outcome=Outcome.CONTEXT_LENGTH, message=about, latency=latency)
    )
    with tempfile.TemporaryDirectory() as folder:
        with CallStore(Path(folder) / "1.sqlite") as store:
            store.put("k", call)
        with CallStore(Path(folder) / "1.sqlite", read_only=True) as store:
            assert store.get("k") == call and list(store.calls()) == [("k", call)]


def test_calls_are_sorted_and_summed(store: CallStore) -> None:
    numbers = list(range(1203))
    assert store.add((key_of(n), stored(n)) for n in numbers) == 1203
    store.put("f", stored(5, role="judge", text=None, outcome=Outcome.UNAVAILABLE))
    assert [key for key, _ in store.calls()] == sorted(["f", *map(key_of, numbers)])
    judge, reader = store.totals()
    assert (judge.role, judge.calls, judge.failures, judge.input_tokens) == ("judge", 1, 1, 5)
    assert (reader.step, reader.model, reader.calls, reader.failures) == ("answer", "tiny", 1203, 0)
    assert (reader.input_tokens, reader.cached_tokens, reader.output_tokens) == (sum(numbers), 1203, 2406)
    assert reader.latency == 601.5
    # What is held stays, and gives way only where it was a failure that may pass.
    assert store.add([(key_of(0), stored(1)), ("f", stored(6))]) == 1
    assert store.get(key_of(0)) == stored(0) and store.get("f") == stored(6)


def test_senseless_counts_of_tokens_are_no_damage(store: CallStore) -> None:
    store.add((key_of(n), stored(2**53)) for n in range(1_100))  # an endpoint may report anything, each time
    (sums,) = store.totals()
    assert sums.calls == 1_100 and sums.input_tokens == 2**63 - 1


def test_nothing_of_a_broken_addition_stays(store: CallStore) -> None:
    def calls() -> Any:
        yield "a", stored(1)
        raise ValueError

    with pytest.raises(ValueError):
        store.add(calls())
    assert list(store.calls()) == []


WRITER = """
import sys
from pathlib import Path
from test_store import key_of, stored
from beamlib.llm.stored_model import CallStore
path, reopen = Path(sys.argv[1]), int(sys.argv[2])
store, n = CallStore(path), int(sys.argv[3])
print("ready", flush=True)
while True:
    store.put(key_of(n), stored(n, text=f"answer {n} " * 200))
    print(n, flush=True)
    n += 1
    if reopen and n % reopen == 0:
        store.close()
"""


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    here = Path(__file__).parent
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [here, here.parent, here.parents[1], here.parents[1] / "packages"])),
    }
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("reopen", [0, 3])
def test_a_kill_loses_nothing_that_was_put(tmp_path: Path, reopen: int) -> None:
    path, rng, printed = tmp_path / "1.sqlite", random.Random(reopen), 0
    for life in range(4):
        writer = child(WRITER, path, reopen, printed)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        killer = threading.Timer(rng.uniform(0, 0.3) if life else 0, writer.send_signal, [signal.SIGKILL])
        killer.start()
        lines = writer.stdout.read().splitlines()
        writer.wait()
        killer.join()
        printed += len(lines)
        for read_only in (True, False):
            with CallStore(path, read_only=read_only) as store:
                held = {call.input_tokens: key for key, call in store.calls()}
                assert all(held[n] == key_of(n) for n in range(printed))
                assert len(held) in (printed, printed + 1)  # one may be in, and the kill came before it was told
        printed = len(held)
    assert printed > 0
    with CallStore(path) as store:
        store.claim()
    assert [entry.name for entry in tmp_path.iterdir()] == ["1.sqlite"]


def test_reading_while_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "1.sqlite"
    writer = child(WRITER, path, 40, 0)
    assert writer.stdout is not None
    writer.stdout.readline()
    try:
        told = -1
        while told < 300:
            told = int(writer.stdout.readline())
            if told % 25 == 0:
                with CallStore(path, read_only=True) as store:
                    call = store.get(key_of(told))
                    assert call is not None and call.text == f"answer {told} " * 200
                    assert sum(totals.calls for totals in store.totals()) > told
    finally:
        writer.kill()
        writer.communicate()


def test_a_second_run_is_told_and_a_reader_is_not(tmp_path: Path) -> None:
    path = tmp_path / "1.sqlite"
    writer = child(WRITER, path, 0, 0)
    assert writer.stdout is not None
    assert (writer.stdout.readline(), writer.stdout.readline()) == ("ready\n", "0\n")
    writer.send_signal(signal.SIGSTOP)
    try:
        second, endpoint = CallStore(path), Counted()
        assert second.get(key_of(0)) is not None
        with pytest.raises(UserError, match=r"1\.sqlite: another run is recording"):
            run(model_of(endpoint, second).complete(prompt()))
        assert endpoint.asked == []
    finally:
        writer.kill()
        writer.communicate()
    run(model_of(endpoint, second).complete(prompt()))
    assert len(endpoint.asked) == 1


def test_a_file_locked_by_another_program(store: CallStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "PATIENCE", 0.05)
    store.put("a", stored(1))
    store.close()
    other = sqlite3.connect(store.path)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(UserError, match=r"12\.sqlite: another program holds this call store"):
        store.get("a")
    other.close()
    assert store.get("a") == stored(1)


def test_reading_makes_no_file_and_needs_no_permission() -> None:
    folder = Path(tempfile.mkdtemp(prefix="beamlib-test-"))
    folder.chmod(0o755)
    try:
        with CallStore(folder / "1.sqlite") as store:
            store.put("a", stored(1))
        shutil.copy(folder / "1.sqlite", folder / "2.sqlite")
        sqlite3.connect(folder / "2.sqlite").execute("PRAGMA journal_mode=WAL").connection.close()
        os.chmod(folder, 0o555)  # noqa: PTH101 (the folder itself is what is closed)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            for name in ("1.sqlite", "2.sqlite"):
                with CallStore(folder / name, read_only=True) as store:
                    assert store.get("a") == stored(1) and len(store.totals()) == 1
            with pytest.raises(UserError, match=r"3\.sqlite: the call store cannot be opened or written"):
                CallStore(folder / "3.sqlite").put("a", stored(1))
            with pytest.raises(UserError, match=r"1\.sqlite: the call store cannot be opened or written"):
                CallStore(folder / "1.sqlite").put("b", stored(1))
        finally:
            if root:
                os.seteuid(0)
        assert sorted(path.name for path in folder.iterdir()) == ["1.sqlite", "2.sqlite"]
        with pytest.raises(UserError, match="reading only"):
            CallStore(folder / "1.sqlite", read_only=True).put("b", stored(1))
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def everything(path: Path) -> list[tuple[str, StoredCall]]:
    """All that a run reads of a store before it records into it."""
    with CallStore(path) as store:
        store.claim()
        store.totals()
        return [(key, call) for key, _ in list(store.calls()) if (call := store.get(key))]


def foreign(path: Path) -> None:
    path.unlink()
    sqlite3.connect(path).execute("CREATE TABLE calls (key TEXT)").connection.close()


def newer(path: Path) -> None:
    sqlite3.connect(path).execute("PRAGMA user_version=3").connection.close()


def edited(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("UPDATE calls SET text = 'a better answer' WHERE rowid = 3")
    connection.commit()
    connection.close()


def trigger(path: Path) -> None:
    sqlite3.connect(path).execute("CREATE VIEW more AS SELECT * FROM calls").connection.close()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.write_bytes(b"key,text\n" * 999), "not a call store, or a damaged one"),
        (lambda path: path.write_bytes(path.read_bytes()[:6000]), "not a call store, or a damaged one"),
        (lambda path: path.write_bytes(b"\0" * 100 + path.read_bytes()[100:]), "not a call store, or a damaged one"),
        (lambda path: (path.unlink(), path.mkdir()), "cannot be opened or written"),
        (foreign, "does not hold the table"),
        (trigger, "does not hold the table"),
        (newer, "a database of format 3"),
        (edited, "does not agree with its hash"),
    ],
)
def test_a_file_that_is_no_store(store: CallStore, damage: Callable[[Path], None], problem: str) -> None:
    store.add((key_of(n), stored(n)) for n in range(50))
    store.close()
    damage(store.path)
    with pytest.raises(UserError, match=problem) as error:
        everything(store.path)
    assert str(store.path) in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(UserError, match=problem):
        list(CallStore(store.path, read_only=True).calls())
    assert [path.name for path in store.path.parent.iterdir()] == [store.path.name]


def test_damaged_bytes_never_become_another_answer(store: CallStore) -> None:
    right = sorted((key_of(n), stored(n, text=f"answer {n} " * 20)) for n in range(60))
    store.add(right)
    store.close()
    whole, rng, refused = store.path.read_bytes(), random.Random(0), 0
    for trial in range(150):
        data = bytearray(whole)
        if trial % 5 == 0:
            del data[rng.randrange(len(data)) :]
        for _ in range(rng.choice([1, 3, 30]) if data else 0):
            data[rng.randrange(min(len(data), rng.choice([100, 4096, len(data)])))] = rng.randrange(256)
        store.path.write_bytes(data)
        try:
            assert everything(store.path) == right
        except UserError:
            refused += 1
        try:
            with CallStore(store.path, read_only=True) as reader:
                assert set(reader.calls()) <= set(right)
                assert all(reader.get(key) in (None, call) for key, call in right)
        except UserError:
            pass
        for path in store.path.parent.iterdir():
            path.unlink()
    assert refused > 100


def checked(monkeypatch: pytest.MonkeyPatch, path: Path) -> int:
    """How many stored calls are hashed before a run can record into the store."""
    counted = Mock(wraps=calls_module._checksum)
    with monkeypatch.context() as patch, CallStore(path) as store:
        patch.setattr(calls_module, "_checksum", counted)
        store.claim()
    return counted.call_count


def test_to_begin_recording_costs_what_is_new(store: CallStore, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store.path
    store.add((key_of(n), stored(n)) for n in range(300))
    store.close()
    assert [checked(monkeypatch, path), checked(monkeypatch, path)] == [0, 0]
    shutil.copy2(path, path.with_name("copied.sqlite"))
    shutil.copyfile(path, path.with_name("another.sqlite"))
    assert checked(monkeypatch, path.with_name("copied.sqlite")) == 0
    assert [checked(monkeypatch, path.with_name("another.sqlite")) for _ in range(2)] == [300, 0]
    with CallStore(path) as again:
        again.put(key_of(0), stored(0, text="another answer"))
    assert checked(monkeypatch, path) == 0
    writer = child(WRITER, path, 0, 300)
    assert writer.stdout is not None
    lines = [writer.stdout.readline() for _ in range(12)]
    writer.kill()
    printed = len(lines) - 1 + len(writer.communicate()[0].splitlines())
    assert checked(monkeypatch, path) in (printed, printed + 1)
    assert checked(monkeypatch, path) == 0
    with CallStore(path, read_only=True) as reader:
        assert len(list(reader.calls())) in (300 + printed, 301 + printed)


def test_a_store_of_the_first_format_is_read_and_goes_on(store: CallStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(key_of(0), stored(0))
    store.close()
    old = sqlite3.connect(store.path)
    old.executescript("DROP TABLE runs; PRAGMA user_version=1;")
    old.close()
    before = store.path.read_bytes()
    with CallStore(store.path, read_only=True) as reader:
        assert reader.get(key_of(0)) == stored(0) and reader.get(key_of(0), of_run=True) is None
    assert store.path.read_bytes() == before
    assert checked(monkeypatch, store.path) == 1
    endpoint = Counted()
    assert run(model_of(endpoint, store, "refresh").complete(prompt())).text == "reply 1"
    assert len(list(store.calls())) == 2
    store.close()
    assert checked(monkeypatch, store.path) == 0


@pytest.mark.parametrize("killed", [False, True])
def test_who_needs_no_call_leaves_no_side_files(store: CallStore, killed: bool) -> None:
    run(model_of(Counted(), store).complete(prompt()))
    if killed:
        writer = child(WRITER, store.path.with_name("2.sqlite"), 0, 0)
        assert writer.stdout is not None
        writer.stdout.readline(), writer.stdout.readline()
        writer.kill()
        writer.communicate()
        store.close()
        (store.path.parent / "2.sqlite").replace(store.path)
        for ending in ("-wal", "-shm", "-recording"):
            (store.path.parent / f"2.sqlite{ending}").replace(store.path.parent / f"{store.path.name}{ending}")
    else:  # another looks into the store at the moment when it is closed: it stays in WAL mode
        with contextlib.closing(sqlite3.connect(store.path)) as other:
            other.execute("SELECT 1 FROM calls").fetchone()
            store.close()
    counted = stored_calls(store.path.parent)
    assert counted == 1 or killed
    for mode in ("replay", "record"):
        with CallStore(store.path, read_only=mode == "replay") as held:
            assert len(list(held.calls())) >= 1
            assert stored_calls(store.path.parent) >= 1
    # That a run was killed is known until the next one records.
    left = ["12.sqlite", "12.sqlite-recording"] if killed else ["12.sqlite"]
    assert sorted(path.name for path in store.path.parent.iterdir()) == left


def test_threads_share_a_store(store: CallStore) -> None:
    def put(start: int) -> None:
        for number in range(start, 200, 4):
            store.put(key_of(number), stored(number))
            assert store.get(key_of(number)) == stored(number)

    threads = [threading.Thread(target=put, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [call for _, call in store.calls()] == [stored(n) for n in sorted(range(200), key=key_of)]


def last_question(body: dict[str, Any]) -> str:
    return "said: " + re.findall(r"question \d\?", body["messages"][-1]["content"])[-1]


def test_through_the_client_to_a_real_server(tmp_path: Path) -> None:
    texts = [f"question {number}?" for number in range(6)]
    with ScriptedServer(last_question, latency=0.02) as server:
        endpoint = Endpoint(model="tiny", base_url=server.base_url, context_window=8_000)

        def asked(store: CallStore, mode: Mode, *, twice: bool = False) -> list[Completion | ModelError]:
            client = EndpointModel("reader", endpoint)
            model = StoredModel(client, store, mode, role="reader", conversation="1", command=COMMAND)
            prompts = [Prompt("answer", {"context": "nothing", "question": text}) for text in texts]
            return attempt_all(model, [prompt for prompt in prompts for _ in range(1 + twice)])

        with CallStore(tmp_path / "1.sqlite") as store:
            first = asked(store, "record", twice=True)[::2]
            assert asked(store, "record") == first and len(server.requests) == 6
    with CallStore(tmp_path / "1.sqlite", read_only=True) as store:
        assert asked(store, "replay") == first  # the server is gone
    assert [reply.text for reply in first if isinstance(reply, Completion)] == [f"said: {text}" for text in texts]
