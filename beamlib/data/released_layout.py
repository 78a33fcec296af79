"""Reading a conversation folder of the released layout into the parts that loading puts together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beamlib.data.checked_json import Anomaly, Log, Unreadable, is_a, read_json_file, read_text, show
from beamlib.data.checksums import DataFile, released_hashes
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
    """A conversation as it was found: still JSON values, each with the log of its file."""

    seed: Any
    seed_log: Log
    plans: Iterator[PlanValue]
    questions: Any
    questions_log: Log
    variant: ChatVariant
    log: Log
    chat_logs: list[Log]

    def anomalies(self) -> tuple[Anomaly, ...]:
        """Everything noted, file by file; complete once the plans have been parsed."""
        return tuple(anomaly for log in self._logs() for anomaly in log.anomalies)

    def files(self) -> tuple[DataFile, ...]:
        """The files that were read; complete once the plans have been parsed."""
        return tuple(dict.fromkeys(log.held for log in self._logs() if log.held.name))

    def _logs(self) -> list[Log]:
        return [self.log, self.seed_log, *self.chat_logs, self.questions_log]


def read_released(source: Source, wanted: ChatVariant) -> Parts:
    """The parts of a released conversation folder; the chat is the cut one if `wanted` and there is one."""
    folder = source.path
    log = _log(source, "")
    if not folder.is_dir():
        log.fail("", "not a folder, although it is named like a conversation")
    chat_logs: list[Log] = []
    if source.size == "10M":
        variant, plans = _ten_million(source, wanted, log, chat_logs)
    else:
        variant, file = _pick(source, wanted, log)
        cut = _log(source, CUT_CHAT)
        if variant != wanted == "truncated" and cut.held.sha256:
            chat_logs.append(cut)  # released and not here: among the files, as missing, so that footers name it
        chat_logs.append(file)
        plans = iter([PlanValue(read_json_file(Path(file.path), file), file)])
    seed_log = _log(source, "topic.json")
    questions, questions_log = read_questions(source)
    return Parts(
        seed=_seed(folder / "topic.json", seed_log),
        seed_log=seed_log,
        plans=plans,
        questions=questions,
        questions_log=questions_log,
        variant=variant,
        log=log,
        chat_logs=chat_logs,
    )


def read_questions(source: Source) -> tuple[Any, Log]:
    """The JSON value of a conversation's questions, and the log of its file."""
    log = _log(source, QUESTIONS)
    return read_json_file(log.held.path, log), log


def _seed(path: Path, log: Log) -> Any:
    try:
        return read_json_file(path, log)
    except Unreadable as error:
        log.note("file_unreadable", "", f"{error.reason}; nothing rests on it")
        return None


def _log(source: Source, name: str) -> Log:
    place = f"{source.size}/{source.number}"
    if not name:
        return Log(place, str(source.path))
    return Log(f"{place}/{name}", str(source.path / name), data_file(source, name))


def data_file(source: Source, name: str) -> DataFile:
    """A file of a released folder. What was generated under a released number is none of the released files."""
    ours = (source.path / RECORD).is_file()
    released = None if ours else released_hashes().get(f"{source.size}/{source.number}/{name}")
    return DataFile(source.path / name, name, released)


def _pick(source: Source, wanted: ChatVariant, log: Log) -> tuple[ChatVariant, Log]:
    """Which chat file to read. The released evaluation takes the cut one where there is one."""
    whole, cut = present(source.path / CHAT), present(source.path / CUT_CHAT)
    if wanted == "truncated" and cut:
        return "truncated", _log(source, CUT_CHAT)
    if not whole:
        if cut:
            log.fail("", f"there is only {CUT_CHAT} (use chat_variant truncated), no {CHAT}")
        log.fail("", f"neither {CHAT} nor {CUT_CHAT} is there")
    if wanted == "truncated" and (
        present(source.path / "plan_new_trunecated.txt") or data_file(source, CUT_CHAT).sha256
    ):
        log.note(
            "truncated_chat_missing", "", f"the plan was cut but {CUT_CHAT} is not there; the full chat is used instead"
        )
    return "full", _log(source, CHAT)


def _ten_million(
    source: Source, wanted: ChatVariant, log: Log, logs: list[Log]
) -> tuple[ChatVariant, Iterator[PlanValue]]:
    """Plans of a 10M conversation: from a combined file if there is one, else from the folders of its plans."""
    folder = source.path
    if wanted == "truncated" and present(folder / CUT_CHAT):
        return "truncated", _combined(_log(source, CUT_CHAT), logs, None)
    cutoff = _cutoff(source, logs) if wanted == "truncated" else None
    if wanted == "truncated" and cutoff is None:
        log.note(
            "truncated_chat_missing",
            "",
            f"neither {CUT_CHAT} nor {CUTOFF} is there; the full chat is used",
        )
    if present(folder / CHAT):
        file = _log(source, CHAT)
        keep = _keep(cutoff, PLANS, log)
        return ("full" if keep is None else "truncated"), _combined(file, logs, keep)
    found = plan_folders(folder)
    leading = next((k for k in range(PLANS) if k not in found), PLANS)
    if not leading:
        log.fail("", f"neither {CHAT}, {CUT_CHAT} nor plan-0/{CHAT} is there, so message ids cannot be made global")
    if leading < PLANS:
        later = [k for k in found if k > leading]
        note = f"; plan(s) {', '.join(map(str, later))} left out, for their ids would be unknown" if later else ""
        log.note("plans_missing", "", f"plan-{leading} has no {CHAT}: {leading} of {PLANS} plans are read{note}")
    keep = _keep(cutoff, leading, log)
    count = leading if keep is None else keep
    return ("full" if keep is None else "truncated"), _from_folders(source, count, logs)


def _keep(cutoff: int | None, present: int, log: Log) -> int | None:
    """How many of the plans that are present stay after the cut; None where nothing is cut."""
    if cutoff is None or cutoff >= present:
        return None
    log.note(
        "cut_by_plan",
        "",
        f"no {CUT_CHAT}: the first {cutoff} plans are read whole, as {CUTOFF} says; "
        "the released cut also shortens the last of them",
    )
    return cutoff


def _cutoff(source: Source, logs: list[Log]) -> int | None:
    log = _log(source, CUTOFF)
    if not present(log.held.path):
        return None
    logs.append(log)
    text = read_text(log.held.path, log).strip()
    if not re.fullmatch("[1-9]|10", text):
        log.fail("", f"expected a whole number from 1 to {PLANS}, not {show(text)}")
    return int(text)


def _combined(file: Log, logs: list[Log], keep: int | None) -> Iterator[PlanValue]:
    logs.append(file)
    return combined_plans(read_json_file(Path(file.path), file), file, keep)


def combined_plans(value: Any, file: Log, keep: int | None = None) -> Iterator[PlanValue]:
    """Plans of a combined chat: a list of one-key objects, `plan-1` first, ids already global.

    `keep`: how many leading plans to give; None for all of them.
    """
    if not is_a(value, list) or not value:
        file.fail("", f"expected a list of plans, not {show(value)}")
    for number, raw in enumerate(value, start=1):
        if not is_a(raw, dict):
            file.fail(f"plan {number}", f"expected an object with `plan-{number}`, not {show(raw)}")
        held = [key for key, item in raw.items() if item is not None]  # the hub has all ten keys, nine of them null
        if [key for key in held if key.startswith("plan-")] != [f"plan-{number}"]:
            file.fail(f"plan {number}", f"expected the one plan `plan-{number}`, not {show(held)}")
        for key in held:
            if key != f"plan-{number}":
                file.note("unknown_field", f"plan {number}", f"`{show(key)}` is no plan; ignored")
        if keep is None or number <= keep:
            yield PlanValue(raw[f"plan-{number}"], file, number - 1, f"plan-{number}, ")


def _from_folders(source: Source, count: int, logs: list[Log]) -> Iterator[PlanValue]:
    """Plans of the folders plan-0, plan-1, ...: ids restart at 0 in each."""
    for plan in range(count):
        file = _log(source, f"plan-{plan}/{CHAT}")
        logs.append(file)
        yield PlanValue(read_json_file(Path(file.path), file), file, plan, restart=True)
