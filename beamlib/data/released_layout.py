"""Read a conversation folder of the released layout into the parts that `loading` puts together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beamlib.data.checked_json import (
    Anomaly,
    DataFile,
    Log,
    Unreadable,
    expect,
    read_data_text,
    read_json_file,
    released_hashes,
    show,
)
from beamlib.data.conversations import ChatVariant
from beamlib.data.sources import CUT_CHAT, CUTOFF, QUESTIONS, Source, plan_folders, present
from beamlib.places import CHAT, RECORD

PLANS = 10
"""Plans of a 10M conversation."""


@dataclass(frozen=True)
class PlanValue:
    """The JSON value of one plan's batches. `restart`: its ids count from 0 although earlier plans came before."""

    value: Any
    log: Log
    plan: int = 0
    where: str = ""
    restart: bool = False


@dataclass(frozen=True)
class Parts:
    """A conversation as JSON values, each with the log of its file."""

    seed: Any
    seed_log: Log
    plans: Iterator[PlanValue]
    questions: Any
    questions_log: Log
    variant: ChatVariant
    log: Log
    chat_logs: list[Log]

    def anomalies(self) -> tuple[Anomaly, ...]:
        """Return all anomalies, file by file; complete once the plans have been parsed."""
        return tuple(anomaly for log in self._logs() for anomaly in log.anomalies)

    def files(self) -> tuple[DataFile, ...]:
        """Return the files that were read; complete once the plans have been parsed."""
        return tuple(dict.fromkeys(log.data_file for log in self._logs() if log.data_file.name))

    def _logs(self) -> list[Log]:
        return [self.log, self.seed_log, *self.chat_logs, self.questions_log]


def read_released(source: Source, variant: ChatVariant) -> Parts:
    """Read a released conversation folder; under `truncated` the cut chat, if there is one."""
    reader = _ChatReader(source, truncated=variant == "truncated")
    if not source.path.is_dir():
        reader.log.fail("not a folder, although it is named like a conversation")
    variant, plans = reader.ten_plans() if source.size == "10M" else reader.single_plan()
    seed_log = _log(source, "topic.json")
    try:
        seed = read_json_file(source.path / "topic.json", seed_log)
    except Unreadable as error:
        seed_log.note("file_unreadable", f"{error.reason}; nothing rests on it")
        seed = None
    questions, questions_log = read_question_file(source)
    return Parts(seed, seed_log, plans, questions, questions_log, variant, reader.log, reader.chat_logs)


def read_question_file(source: Source) -> tuple[Any, Log]:
    """Return the JSON value of a conversation's questions, and the log of its file."""
    log = _log(source, QUESTIONS)
    return read_json_file(log.data_file.path, log), log


def data_file(source: Source, name: str) -> DataFile:
    """Return a file of a released folder. A conversation generated under a released number has no released files."""
    generated = (source.path / RECORD).is_file()
    sha256 = None if generated else released_hashes().get(f"{source.size}/{source.number}/{name}")
    return DataFile(source.path / name, name, sha256)


def _log(source: Source, name: str) -> Log:
    folder = f"{source.size}/{source.number}"
    if not name:
        return Log(folder, str(source.path))
    return Log(f"{folder}/{name}", str(source.path / name), data_file(source, name))


class _ChatReader:
    """Reads the chat of a released folder; `chat_logs` has the files that were read."""

    def __init__(self, source: Source, *, truncated: bool) -> None:
        self.source, self.truncated = source, truncated
        self.log = _log(source, "")
        self.chat_logs: list[Log] = []

    def single_plan(self) -> tuple[ChatVariant, Iterator[PlanValue]]:
        """Read the chat of a conversation below 10M."""
        cut = self._has(CUT_CHAT)
        use_cut = self.truncated and cut
        if not use_cut and not self._has(CHAT):
            if cut:
                self.log.fail(f"there is only {CUT_CHAT} (use chat_variant truncated), no {CHAT}")
            self.log.fail(f"neither {CHAT} nor {CUT_CHAT} is there")
        if self.truncated and not cut:
            cut_log = _log(self.source, CUT_CHAT)
            if cut_log.data_file.sha256:
                self.chat_logs.append(cut_log)  # a missing released file: footers name it
            if cut_log.data_file.sha256 or self._has("plan_new_trunecated.txt"):
                reason = f"the plan was cut but {CUT_CHAT} is not there; the full chat is used instead"
                self.log.note("truncated_chat_missing", reason)
        value, log = self._read(CUT_CHAT if use_cut else CHAT)
        return "truncated" if use_cut else "full", iter([PlanValue(value, log)])

    def ten_plans(self) -> tuple[ChatVariant, Iterator[PlanValue]]:
        """Read the plans of a 10M conversation from a combined file if there is one, else from the plans' folders."""
        if self.truncated and self._has(CUT_CHAT):
            return "truncated", combined_plans(*self._read(CUT_CHAT))
        cutoff: int | None = None
        if self.truncated and self._has(CUTOFF):
            cutoff_log = _log(self.source, CUTOFF)
            self.chat_logs.append(cutoff_log)
            text = read_data_text(cutoff_log.data_file.path, cutoff_log).strip()
            if not re.fullmatch("[1-9]|10", text):
                cutoff_log.fail(f"expected a whole number from 1 to {PLANS}, not {show(text)}")
            cutoff = int(text)
        elif self.truncated:
            self.log.note("truncated_chat_missing", f"neither {CUT_CHAT} nor {CUTOFF} is there; the full chat is used")
        combined = self._has(CHAT)
        available = PLANS if combined else self._leading_plans()
        count = available if cutoff is None else min(cutoff, available)
        cut = count < available
        if cut:
            self.log.note(
                "cut_by_plan",
                f"no {CUT_CHAT}: the first {count} plans are read whole, as {CUTOFF} says; "
                "the released cut also shortens the last of them",
            )
        keep = count if cut else None
        plans = combined_plans(*self._read(CHAT), keep) if combined else self._from_folders(count)
        return "truncated" if cut else "full", plans

    def _has(self, name: str) -> bool:
        return present(self.source.path / name)

    def _read(self, name: str) -> tuple[Any, Log]:
        log = _log(self.source, name)
        self.chat_logs.append(log)
        return read_json_file(log.data_file.path, log), log

    def _leading_plans(self) -> int:
        """Count the plan folders before the first gap; message ids after it cannot be made global."""
        folders = plan_folders(self.source.path)
        leading = next((k for k in range(PLANS) if k not in folders), PLANS)
        if not leading:
            problem = f"neither {CHAT}, {CUT_CHAT} nor plan-0/{CHAT} is there"
            self.log.fail(f"{problem}, so message ids cannot be made global")
        if leading < PLANS:
            later = [k for k in folders if k > leading]
            note = f"; plan(s) {', '.join(map(str, later))} left out, for their ids would be unknown" if later else ""
            self.log.note("plans_missing", f"plan-{leading} has no {CHAT}: {leading} of {PLANS} plans are read{note}")
        return leading

    def _from_folders(self, count: int) -> Iterator[PlanValue]:
        """Yield the plans of the folders plan-0, plan-1, ...: ids restart at 0 in each."""
        for plan in range(count):
            value, log = self._read(f"plan-{plan}/{CHAT}")
            yield PlanValue(value, log, plan, restart=True)


def combined_plans(value: Any, file: Log, keep: int | None = None) -> Iterator[PlanValue]:
    """Yield the plans of a combined chat: a list of one-key objects, `plan-1` first, ids already global.

    Args:
        keep: How many leading plans to yield; None for all of them.
    """
    if value == []:
        file.fail("expected a list of plans, not []")
    for number, raw in enumerate(expect(value, list, "a list of plans", file), start=1):
        log = file.at(f"plan {number}")
        expect(raw, dict, f"an object with `plan-{number}`", log)
        keys = [key for key, item in raw.items() if item is not None]  # the hub has all ten keys, nine of them null
        if [key for key in keys if key.startswith("plan-")] != [f"plan-{number}"]:
            log.fail(f"expected the one plan `plan-{number}`, not {show(keys)}")
        for key in keys:
            if key != f"plan-{number}":
                log.note("unknown_field", f"`{show(key)}` is no plan; ignored")
        if keep is None or number <= keep:
            yield PlanValue(raw[f"plan-{number}"], file, number - 1, f"plan-{number}, ")
