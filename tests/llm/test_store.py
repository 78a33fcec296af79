"""The call store: what it keeps, when a call is sent, and that no kill and no damage costs or falsifies a call."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamlib.errors import UserError
from beamlib.files import sha256
from beamlib.llm import call_store
from beamlib.llm.call_store import CallStore, StoredCall, call_key, stored_calls
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, Usage, run
from beamlib.llm.stored_model import Mode, StoredModel

COMMAND = "beamlib run params/mine.yaml --calls record"


def stored(number: int, **changes: Any) -> StoredCall:
    fields = {
        "key": key_of(number), "role": "reader", "conversation": "1", "step": "answer", "about": f"1-{number:02d}",
        "model": "tiny", "base_url": "http://127.0.0.1:9/v1", "text": f"answer {number}", "input_tokens": number,
        "output_tokens": 2, "cached_tokens": 1, "latency": 0.5, "finish_reason": "stop",
        "time": "2026-01-01T00:00:00.000+00:00",
    }  # fmt: skip
    return StoredCall(**{**fields, **changes})


def key_of(number: int) -> str:
    return sha256(str(number))


class Counted:
    """Stands for an endpoint: counts requests and answers by the number of the call, or as a test wants."""

    name = "tiny"
    endpoint = Endpoint(model="tiny", base_url="http://127.0.0.1:9/v1", context_window=8_000)

    def __init__(self, answer: Callable[[int], Completion] | None = None, wait: float = 0.0) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answer = answer or (lambda n: Completion(f"reply {n}", Usage(10, 3, 4), 0.25, "length"))
        self.wait = wait

    def request(self, prompt: Prompt) -> dict[str, Any]:
        content = prompt.variables["text"] + prompt.complaint
        return {"model": self.name, "messages": [{"role": "user", "content": content}], "seed": prompt.repeat}

    def max_cost(self, prompt: Prompt) -> float:
        return 0.0

    async def complete(self, prompt: Prompt) -> Completion:
        self.requests.append(self.request(prompt))
        number = len(self.requests)
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
    changed = [{**request, "model": "n"}, {**request, "temperature": 0.1}, {**request, "messages": []}]
    others = [call_key(body, "http://a/v1", 0) for body in changed]
    others += [call_key(request, "http://b/v1", 0), call_key(request, "http://a/v1", 1)]
    assert len({same, *others}) == 6


def test_record_calls_once_and_replays_the_same_completion(store: CallStore) -> None:
    endpoint = Counted()
    first = run(model_of(endpoint, store).complete(prompt()))
    assert first == Completion("reply 1", Usage(10, 3, 4), 0.25, "length")
    store.close()
    again = model_of(endpoint, CallStore(store.path))
    assert run(again.complete(prompt())) == first
    assert run(model_of(endpoint, CallStore(store.path, read_only=True), "replay").complete(prompt())) == first
    assert (len(endpoint.requests), again.made, again.replayed) == (1, 0, 1)
    run(again.complete(prompt(repeat=1)))
    run(again.complete(prompt().again("not a number")))
    assert len(endpoint.requests) == 3
    calls = list(again.store.calls())
    assert {(call.role, call.conversation, call.step, call.about) for call in calls} == {
        ("reader", "12", "answer", "1-07")
    }
    assert sorted((call.repeat, call.attempt) for call in calls) == [(0, 0), (0, 1), (1, 0)]


def test_replay_never_calls_and_names_what_is_missing(store: CallStore, tmp_path: Path) -> None:
    endpoint = Counted()
    with pytest.raises(UserError) as error:
        run(model_of(endpoint, CallStore(store.path, read_only=True), "replay").complete(prompt()))
    for part in (str(store.path), "conversation 12", "step answer", "1-07", COMMAND):
        assert part in str(error.value)
    assert endpoint.requests == [] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["record", "refresh"])
def test_nothing_is_called_before_the_cost_is_confirmed(store: CallStore, mode: Mode) -> None:
    endpoint = Counted()
    with pytest.raises(UserError, match=r"confirm_cost.*without --yes.*--calls record"):
        run(model_of(endpoint, store, mode, confirmed=False).complete(prompt()))
    assert endpoint.requests == [] and not store.path.exists()
    run(model_of(endpoint, store).complete(prompt()))
    assert run(model_of(endpoint, store, "record", confirmed=False).complete(prompt())).text == "reply 1"


def test_final_failures_are_stored_and_transient_ones_asked_again(store: CallStore) -> None:
    endpoint = Counted(failing(Outcome.FILTERED, Outcome.UNAVAILABLE))
    record, replay = model_of(endpoint, store), model_of(endpoint, store, "replay")
    for _ in range(2):
        for model in (record, replay):
            with pytest.raises(ModelError, match=r"^call 1 went wrong$") as error:
                run(model.complete(prompt("a")))
            assert error.value.reason == "content filter: call 1 went wrong"
    for model in (record, replay):
        with pytest.raises(ModelError, match=r"^call 2 went wrong$") as error:
            run(model.complete(prompt("b")))
        assert error.value.transient
    assert run(record.complete(prompt("b"))).text == run(replay.complete(prompt("b"))).text == "reply 3"
    assert len(endpoint.requests) == 3


def test_a_refusal_is_asked_for_again_once_by_the_next_recording_run(store: CallStore) -> None:
    for outcome in (Outcome.REFUSED, Outcome.CONTEXT_LENGTH):
        endpoint, asked = Counted(failing(outcome)), prompt(outcome)
        with CallStore(store.path, run_id=f"first {outcome}") as first:
            for mode in ("record", "record", "replay"):
                with pytest.raises(ModelError, match="call 1 went wrong") as error:
                    run(model_of(endpoint, first, mode).complete(asked))
                assert error.value.resent and not error.value.transient
        with CallStore(store.path, run_id=f"second {outcome}") as second:
            with pytest.raises(ModelError, match="call 1 went wrong"):
                run(model_of(endpoint, second, "replay").complete(asked))
            for mode in ("record", "record", "replay"):
                assert run(model_of(endpoint, second, mode).complete(asked)).text == "reply 2"
        assert len(endpoint.requests) == 2


@pytest.mark.parametrize("outcome", [Outcome.UNAVAILABLE, Outcome.CONTEXT_LENGTH])
def test_what_failures_cost_is_kept_when_a_later_try_replaces_them(outcome: Outcome, store: CallStore) -> None:
    def answer(number: int) -> Completion:
        if number < 3:
            raise ModelError(f"call {number} went wrong", outcome, Usage(7, 2, 1))
        return Completion("tea", Usage(10, 3, 4))

    endpoint = Counted(answer)
    for name in ("first", "second"):
        with CallStore(store.path, run_id=name) as of_run, pytest.raises(ModelError):
            run(model_of(endpoint, of_run).complete(prompt()))
    with CallStore(store.path, run_id="third") as of_run:
        assert run(model_of(endpoint, of_run).complete(prompt())).usage == Usage(24, 7, 6)
        assert [call.usage for call in of_run.calls()] == [Usage(24, 7, 6)]


def test_a_user_error_is_not_stored(store: CallStore) -> None:
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
    for model in (refresh, refresh, replay):
        assert run(model.complete(prompt())).text == "reply 2"
    store.close()
    other = model_of(endpoint, CallStore(store.path), "refresh")  # another backbone of the same run
    assert run(other.complete(prompt())).text == "reply 2" and len(endpoint.requests) == 2
    later = model_of(endpoint, CallStore(store.path, run_id="third"), "refresh")
    assert run(later.complete(prompt())).text == "reply 3"


def test_equal_calls_at_once_are_one(store: CallStore) -> None:
    async def ask(endpoint: Counted) -> list[Any]:
        models = [model_of(endpoint, store) for _ in range(5)]
        return await asyncio.gather(*(model.complete(prompt()) for model in models), return_exceptions=True)

    endpoint = Counted(failing(Outcome.REFUSED), wait=0.02)
    errors = run(ask(endpoint))
    assert len(endpoint.requests) == 1
    assert {str(error) for error in errors} == {"call 1 went wrong"} and len({id(error) for error in errors}) == 5


def test_a_call_outlives_its_caller(store: CallStore) -> None:
    endpoint = Counted(wait=0.05)
    model = model_of(endpoint, store)

    async def ask() -> tuple[Completion, int]:
        cancelled, stays, alone = (
            asyncio.create_task(model.complete(prompt(text))) for text in ("why?", "why?", "other")
        )
        await asyncio.sleep(0.01)
        cancelled.cancel()
        alone.cancel()
        reply = await stays
        assert cancelled.cancelled() and alone.cancelled()
        store.close()  # as when the caller's `with` has ended: what arrives late is still written
        while store.in_flight:
            await asyncio.sleep(0.01)
        return reply, len(list(store.calls()))

    reply, count = run(ask())
    assert count == len(endpoint.requests) == 2 and reply.text.startswith("reply")


def test_whatever_an_endpoint_sends_can_be_stored(store: CallStore) -> None:
    odd = Completion("half \ud83d pair \ud83d\ude00 nul \0", Usage(-1, 10**30, 0), 0.1, "stop")
    model = model_of(Counted(lambda n: odd), store)
    first = run(model.complete(prompt()))
    assert first.text == "half \ufffd pair \U0001f600 nul \0" and first.usage == Usage(0, 2**53, 0)
    assert run(model.complete(prompt())) == first and model.made == 1
    store.add(stored(2**53, key=key_of(n)) for n in range(1_100))
    assert max(sums.input_tokens for sums in store.totals()) == 2**63 - 1


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))


@settings(max_examples=40, deadline=None)
@given(
    text=st.none() | TEXT,
    tokens=st.integers(0, 2**53),
    latency=st.floats(0, allow_nan=False, allow_infinity=False),
    about=TEXT,
)
def test_a_call_comes_back_as_it_was_put(text: str | None, tokens: int, latency: float, about: str) -> None:
    call = (
        stored(0, text=text, input_tokens=tokens, latency=latency, about=about)
        if text is not None
        else stored(0, text=None, outcome=Outcome.CONTEXT_LENGTH, message=about, latency=latency)
    )
    with tempfile.TemporaryDirectory() as folder:
        with CallStore(Path(folder) / "1.sqlite") as store:
            store.put(call)
        with CallStore(Path(folder) / "1.sqlite", read_only=True) as store:
            assert store.get(call.key) == call and list(store.calls()) == [call]


def test_calls_are_sorted_and_summed_and_added_all_or_none(store: CallStore) -> None:
    numbers = list(range(1203))
    assert store.add(stored(n) for n in numbers) == 1203
    store.put(stored(5, key="f", role="judge", text=None, outcome=Outcome.UNAVAILABLE))
    assert [call.key for call in store.calls()] == sorted(["f", *map(key_of, numbers)])
    judge, reader = store.totals()
    assert (judge.role, judge.calls, judge.failures, judge.input_tokens) == ("judge", 1, 1, 5)
    assert (reader.step, reader.model, reader.calls, reader.failures) == ("answer", "tiny", 1203, 0)
    assert (reader.input_tokens, reader.cached_tokens, reader.output_tokens) == (sum(numbers), 1203, 2406)
    assert reader.latency == 601.5
    assert store.add([stored(1, key=key_of(0)), stored(6, key="f")]) == 1, "only a transient failure is replaced"
    assert store.get(key_of(0)) == stored(0) and store.get("f") == stored(6, key="f")

    def broken() -> Any:
        yield stored(1, key="a")
        raise ValueError

    with pytest.raises(ValueError):
        store.add(broken())
    assert store.get("a") is None


WRITER = """
import sys
from pathlib import Path
from test_store import key_of, stored
from beamlib.llm.call_store import CallStore
path, reopen = Path(sys.argv[1]), int(sys.argv[2])
store, n, last = CallStore(path), int(sys.argv[3]), int(sys.argv[4])
print("ready", flush=True)
while True:
    store.put(stored(n, text=f"answer {n} " * 200))
    print(n, flush=True)
    n += 1
    if reopen and n % reopen == 0:
        store.close()
    if n == last:
        sys.stdin.read()
"""


@contextmanager
def writing(
    path: Path, reopen: int = 0, first: int = 0, last: int = -1
) -> Iterator[tuple[subprocess.Popen[str], Callable[[], str]]]:
    """A process that puts calls `first` to `last` (-1: no end) and prints each number, and what reads its next line."""
    here = Path(__file__).parent
    folders = [here, here.parent, here.parents[1], here.parents[1] / "packages"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, "-c", WRITER, str(path), str(reopen), str(first), str(last)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process, process.stdout.readline
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("reopen", [0, 3])
def test_a_kill_loses_nothing_that_was_put(tmp_path: Path, reopen: int) -> None:
    path, rng, printed = tmp_path / "1.sqlite", random.Random(reopen), 0
    for life in range(4):
        with writing(path, reopen, printed) as (process, _):
            killer = threading.Timer(rng.uniform(0, 0.3) if life else 0, process.send_signal, [signal.SIGKILL])
            killer.start()
            assert process.stdout is not None
            printed += len(process.stdout.read().splitlines())
            killer.join()
        for read_only in (True, False):
            with CallStore(path, read_only=read_only) as store:
                keys = {call.input_tokens: call.key for call in store.calls()}
                assert all(keys[n] == key_of(n) for n in range(printed))
                assert len(keys) in (printed, printed + 1)  # one may be stored and not yet printed
        printed = len(keys)
    assert printed > 0
    with CallStore(path) as store:
        store.claim()
    assert [entry.name for entry in tmp_path.iterdir()] == ["1.sqlite"]


def test_readers_read_while_another_process_writes_and_a_second_recorder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "1.sqlite"
    with writing(path, reopen=40) as (_, next_line):
        for _ in range(12):
            number = [int(next_line()) for _ in range(25)][-1]
            with CallStore(path, read_only=True) as store:
                call = store.get(key_of(number))
                assert call is not None and call.text == f"answer {number} " * 200
                assert sum(sums.calls for sums in store.totals()) > number
    path, endpoint = tmp_path / "2.sqlite", Counted()
    with writing(path, last=1) as (_, next_line):
        next_line()
        second = CallStore(path)
        assert second.get(key_of(0)) is not None
        with pytest.raises(UserError, match=r"2\.sqlite: another run is recording"):
            run(model_of(endpoint, second).complete(prompt()))
        assert endpoint.requests == []
    run(model_of(endpoint, second).complete(prompt()))
    assert len(endpoint.requests) == 1


def test_a_file_locked_by_another_program(store: CallStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_store, "_BUSY_SECONDS", 0.05)
    store.put(stored(1))
    store.close()
    with closing(sqlite3.connect(store.path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UserError, match=r"12\.sqlite: another program has locked this call store"):
            store.get(key_of(1))
    assert store.get(key_of(1)) == stored(1)


def test_reading_makes_no_file_and_needs_no_permission() -> None:
    folder = Path(tempfile.mkdtemp(prefix="beamlib-test-"))
    try:
        with CallStore(folder / "1.sqlite") as store:
            store.put(stored(1))
        shutil.copy(folder / "1.sqlite", folder / "2.sqlite")
        sqlite3.connect(folder / "2.sqlite").execute("PRAGMA journal_mode=WAL").connection.close()
        os.chmod(folder, 0o555)  # noqa: PTH101 (the folder itself is what is closed)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            for name in ("1.sqlite", "2.sqlite"):
                with CallStore(folder / name, read_only=True) as store:
                    assert store.get(key_of(1)) == stored(1) and len(store.totals()) == 1
            for name in ("3.sqlite", "1.sqlite"):
                with pytest.raises(UserError, match=rf"{name}: the call store cannot be opened or written"):
                    CallStore(folder / name).put(stored(1))
        finally:
            if root:
                os.seteuid(0)
        assert sorted(path.name for path in folder.iterdir()) == ["1.sqlite", "2.sqlite"]
        with pytest.raises(UserError, match="reading only"):
            CallStore(folder / "1.sqlite", read_only=True).put(stored(1))
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def everything(path: Path) -> list[StoredCall]:
    """All that a run reads of a store before it records into it."""
    with CallStore(path) as store:
        store.claim()
        store.totals()
        return [call for key in [call.key for call in store.calls()] if (call := store.get(key))]


def execute(*statements: str, new: bool = False) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        if new:
            path.unlink()
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(";".join(statements))

    return damage


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.write_bytes(b"key,text\n" * 999), "not a call store, or a damaged one"),
        (lambda path: path.write_bytes(path.read_bytes()[:6000]), "not a call store, or a damaged one"),
        (lambda path: path.write_bytes(b"\0" * 100 + path.read_bytes()[100:]), "not a call store, or a damaged one"),
        (lambda path: (path.unlink(), path.mkdir()), "cannot be opened or written"),
        (execute("CREATE TABLE calls (key TEXT)", new=True), "does not contain the table"),
        (execute("CREATE VIEW more AS SELECT * FROM calls"), "does not contain the table"),
        (execute("PRAGMA user_version=9"), "a database of format 9"),
        (execute("UPDATE calls SET text = 'a better answer' WHERE rowid = 3"), "does not match its checksum"),
    ],
)
def test_a_file_that_is_no_store(store: CallStore, damage: Callable[[Path], None], problem: str) -> None:
    store.add(stored(n) for n in range(50))
    store.close()
    damage(store.path)
    with pytest.raises(UserError, match=problem) as error:
        everything(store.path)
    assert str(store.path) in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(UserError, match=problem):
        list(CallStore(store.path, read_only=True).calls())
    assert [path.name for path in store.path.parent.iterdir()] == [store.path.name]


def test_damaged_bytes_never_become_another_answer(store: CallStore) -> None:
    right = sorted((stored(n, text=f"answer {n} " * 20) for n in range(60)), key=lambda call: call.key)
    store.add(right)
    store.close()
    whole, rng, refused = store.path.read_bytes(), random.Random(0), 0
    for trial in range(100):
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
                assert all(reader.get(call.key) in (None, call) for call in right)
        except UserError:
            pass
        for path in store.path.parent.iterdir():
            path.unlink()
    assert refused > 60


def checked(monkeypatch: pytest.MonkeyPatch, path: Path) -> int:
    """How many stored calls are hashed before a run can record into the store."""
    counted = Mock(wraps=call_store._checksum)
    with monkeypatch.context() as patch, CallStore(path) as store:
        patch.setattr(call_store, "_checksum", counted)
        store.claim()
    return counted.call_count


def test_beginning_to_record_checks_only_what_is_new(store: CallStore, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store.path
    store.add(stored(n) for n in range(300))
    store.close()
    shutil.copyfile(path, path.with_name("copied.sqlite"))
    assert [checked(monkeypatch, path), checked(monkeypatch, path)] == [0, 0]
    assert [checked(monkeypatch, path.with_name("copied.sqlite")) for _ in range(2)] == [300, 0]
    with writing(path, first=300) as (process, next_line):
        assert [int(next_line()) for _ in range(12)][-1] == 311
        process.kill()
        assert process.stdout is not None
        printed = 12 + len(process.stdout.read().splitlines())
    assert checked(monkeypatch, path) in (printed, printed + 1)
    assert checked(monkeypatch, path) == 0


@pytest.mark.parametrize("earlier", [1, 2, 3])
def test_a_store_of_an_earlier_format_is_read_and_goes_on(
    earlier: int, store: CallStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(stored(0))
    store.close()
    old = ["DROP TABLE runs"] if earlier == 1 else ["DELETE FROM runs"]
    old += [f"ALTER TABLE calls DROP COLUMN {name}" for name, since in call_store._ADDED.items() if since > earlier]
    execute(*old, f"PRAGMA user_version={earlier}")(store.path)
    before = store.path.read_bytes()
    with CallStore(store.path, read_only=True) as reader:
        assert reader.get(key_of(0)) == stored(0) and reader.get(key_of(0), of_run=True) is None
    assert store.path.read_bytes() == before
    assert checked(monkeypatch, store.path) == 1
    assert run(model_of(Counted(), store, "refresh").complete(prompt())).text == "reply 1"
    assert len(list(store.calls())) == 2


def test_who_answered_and_what_was_estimated_is_stored_and_covered_by_the_checksum(store: CallStore) -> None:
    other = stored(1).model_copy(update={"answered_by": "m-mini", "fingerprint": "fp_1", "estimated": True})
    store.add([stored(0), other])
    assert store.get(key_of(1)) == other and other.completion().usage.estimated
    assert store.answered_by() == [(other.role, other.model, "m-mini", "fp_1")]
    assert sum(row.estimated for row in store.totals()) == 1
    changed = stored(2, sent=key_of(7))
    store.put(changed)
    assert store.get(key_of(2)) == changed and "sent" not in other.values
    assert "estimated" not in stored(0).values and other.values["fingerprint"] == "fp_1"
    store.close()
    execute("UPDATE calls SET answered_by = 'm' WHERE answered_by != ''", "UPDATE calls SET sent = ''")(store.path)
    for number in (1, 2):
        with pytest.raises(UserError, match="does not match its checksum"):
            store.get(key_of(number))


@pytest.mark.parametrize("killed", [False, True])
def test_who_needs_no_call_leaves_no_side_files(store: CallStore, killed: bool) -> None:
    run(model_of(Counted(), store).complete(prompt()))
    if killed:
        store.close()
        with writing(store.path) as (process, next_line):
            next_line()
            process.kill()
    else:  # another process reads the store at the moment when it is closed: it stays in WAL mode
        with closing(sqlite3.connect(store.path)) as other:
            other.execute("SELECT 1 FROM calls").fetchone()
            store.close()
    for mode in ("replay", "record"):
        with CallStore(store.path, read_only=mode == "replay") as opened:
            assert len(list(opened.calls())) >= 1 + killed
            assert stored_calls(store.path.parent) >= 1 + killed
    # That a run was killed is known until the next one records.
    left = ["12.sqlite", "12.sqlite-recording"] if killed else ["12.sqlite"]
    assert sorted(path.name for path in store.path.parent.iterdir()) == left


def test_threads_share_a_store(store: CallStore) -> None:
    def put(start: int) -> None:
        for number in range(start, 200, 4):
            store.put(stored(number))
            assert store.get(key_of(number)) == stored(number)

    threads = [threading.Thread(target=put, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(store.calls()) == [stored(n) for n in sorted(range(200), key=key_of)]
