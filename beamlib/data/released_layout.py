"""Read a conversation folder of the released layout into the parts that `loading` puts together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
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
from beamlib.data.sources import CHAT, CUT_CHAT, CUTOFF, QUESTIONS, RECORD, Source, plan_folders, present

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
    log = _log(source, "")
    if not source.path.is_dir():
        log.fail("not a folder, although it is named like a conversation")
    chat_logs: list[Log] = []
    read_chat = _ten_plans if source.size == "10M" else _single_plan
    variant, plans = read_chat(source, variant, log, chat_logs)
    seed_log = _log(source, "topic.json")
    try:
        seed = read_json_file(source.path / "topic.json", seed_log)
    except Unreadable as error:
        seed_log.note("file_unreadable", f"{error.reason}; nothing rests on it")
        seed = None
    questions, questions_log = read_question_file(source)
    return Parts(seed, seed_log, plans, questions, questions_log, variant, log, chat_logs)


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


def _single_plan(
    source: Source, variant: ChatVariant, log: Log, chat_logs: list[Log]
) -> tuple[ChatVariant, Iterator[PlanValue]]:
    """Read the chat of a conversation below 10M."""
    whole, cut = present(source.path / CHAT), present(source.path / CUT_CHAT)
    truncated = variant == "truncated" and cut
    if not whole and not truncated:
        if cut:
            log.fail(f"there is only {CUT_CHAT} (use chat_variant truncated), no {CHAT}")
        log.fail(f"neither {CHAT} nor {CUT_CHAT} is there")
    if variant == "truncated" and not cut:
        cut_log = _log(source, CUT_CHAT)
        if cut_log.data_file.sha256:
            chat_logs.append(cut_log)  # a missing released file: footers name it
        if cut_log.data_file.sha256 or present(source.path / "plan_new_trunecated.txt"):
            log.note(
                "truncated_chat_missing", f"the plan was cut but {CUT_CHAT} is not there; the full chat is used instead"
            )
    file = _log(source, CUT_CHAT if truncated else CHAT)
    chat_logs.append(file)
    plans = iter([PlanValue(read_json_file(Path(file.path), file), file)])
    return "truncated" if truncated else "full", plans


def _ten_plans(
    source: Source, variant: ChatVariant, log: Log, chat_logs: list[Log]
) -> tuple[ChatVariant, Iterator[PlanValue]]:
    """Read the plans of a 10M conversation from a combined file if there is one, else from the plans' folders."""
    folder = source.path
    if variant == "truncated" and present(folder / CUT_CHAT):
        return "truncated", _combined(_log(source, CUT_CHAT), chat_logs, None)
    cutoff = _cutoff(source, chat_logs) if variant == "truncated" else None
    if variant == "truncated" and cutoff is None:
        log.note("truncated_chat_missing", f"neither {CUT_CHAT} nor {CUTOFF} is there; the full chat is used")
    combined = present(folder / CHAT)
    available = PLANS if combined else _leading_plans(folder, log)
    cut = cutoff is not None and cutoff < available
    if cut:
        log.note(
            "cut_by_plan",
            f"no {CUT_CHAT}: the first {cutoff} plans are read whole, as {CUTOFF} says; "
            "the released cut also shortens the last of them",
        )
    keep = cutoff if cut else None
    if combined:
        plans = _combined(_log(source, CHAT), chat_logs, keep)
    else:
        plans = _from_folders(source, available if keep is None else keep, chat_logs)
    return "truncated" if cut else "full", plans


def _leading_plans(folder: Path, log: Log) -> int:
    """Count the plan folders before the first gap; message ids after it cannot be made global."""
    folders = plan_folders(folder)
    leading = next((k for k in range(PLANS) if k not in folders), PLANS)
    if not leading:
        log.fail(f"neither {CHAT}, {CUT_CHAT} nor plan-0/{CHAT} is there, so message ids cannot be made global")
    if leading < PLANS:
        later = [k for k in folders if k > leading]
        note = f"; plan(s) {', '.join(map(str, later))} left out, for their ids would be unknown" if later else ""
        log.note("plans_missing", f"plan-{leading} has no {CHAT}: {leading} of {PLANS} plans are read{note}")
    return leading


def _cutoff(source: Source, chat_logs: list[Log]) -> int | None:
    log = _log(source, CUTOFF)
    if not present(log.data_file.path):
        return None
    chat_logs.append(log)
    text = read_data_text(log.data_file.path, log).strip()
    if not re.fullmatch("[1-9]|10", text):
        log.fail(f"expected a whole number from 1 to {PLANS}, not {show(text)}")
    return int(text)


def _combined(file: Log, chat_logs: list[Log], keep: int | None) -> Iterator[PlanValue]:
    chat_logs.append(file)
    return combined_plans(read_json_file(Path(file.path), file), file, keep)


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


def _from_folders(source: Source, count: int, chat_logs: list[Log]) -> Iterator[PlanValue]:
    """Yield the plans of the folders plan-0, plan-1, ...: ids restart at 0 in each."""
    for plan in range(count):
        file = _log(source, f"plan-{plan}/{CHAT}")
        chat_logs.append(file)
        yield PlanValue(read_json_file(Path(file.path), file), file, plan, restart=True)
