"""Reading a conversation folder of the released layout into the parts that loading puts together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beamlib.benchmark.model import ChatVariant
from beamlib.benchmark.reading import Anomaly, Log, is_a, read_json_file, show
from beamlib.benchmark.sources import CHAT, CUT_CHAT, CUTOFF, QUESTIONS, Source, plan_folders, present
from beamlib.errors import UserError
from beamlib.files import read_text

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
        logs = [self.log, self.seed_log, *self.chat_logs, self.questions_log]
        return tuple(anomaly for log in logs for anomaly in log.anomalies)


def read_released(source: Source, wanted: ChatVariant) -> Parts:
    """The parts of a released conversation folder; the chat is the cut one if `wanted` and there is one."""
    folder = source.path
    log = _log(source, "")
    chat_logs: list[Log] = []
    if source.size == "10M":
        variant, plans = _ten_million(source, wanted, log, chat_logs)
    else:
        variant, file = _pick(source, wanted, log)
        chat_logs.append(file)
        plans = iter([PlanValue(read_json_file(Path(file.path), file), file)])
    seed_log, questions_log = _log(source, "topic.json"), _log(source, QUESTIONS)
    return Parts(
        seed=read_json_file(folder / "topic.json", seed_log),
        seed_log=seed_log,
        plans=plans,
        questions=read_json_file(folder / QUESTIONS, questions_log),
        questions_log=questions_log,
        variant=variant,
        log=log,
        chat_logs=chat_logs,
    )


def _log(source: Source, name: str) -> Log:
    relative = f"{source.size}/{source.number}"
    return Log(f"{relative}/{name}" if name else relative, str(source.path / name if name else source.path))


def _pick(source: Source, wanted: ChatVariant, log: Log) -> tuple[ChatVariant, Log]:
    """Which chat file to read. The released evaluation takes the cut one where there is one."""
    whole, cut = present(source.path / CHAT), present(source.path / CUT_CHAT)
    if wanted == "truncated" and cut:
        return "truncated", _log(source, CUT_CHAT)
    if not whole:
        if cut:
            raise UserError(
                f"{source.path}: there is only {CUT_CHAT}, no {CHAT}; fetch it or use chat_variant truncated."
            )
        raise UserError(f"{source.path}: neither {CHAT} nor {CUT_CHAT} is there; fetch one or remove the folder.")
    if wanted == "truncated" and present(source.path / "plan_new_trunecated.txt"):
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
    cutoff = _cutoff(source) if wanted == "truncated" else None
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
        raise UserError(
            f"{folder}: neither {CHAT}, {CUT_CHAT} nor plan-0/{CHAT} is there, so message ids cannot be made global; "
            "fetch one or remove the folder."
        )
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


def _cutoff(source: Source) -> int | None:
    path = source.path / CUTOFF
    if not present(path):
        return None
    text = read_text(path).strip()
    if not re.fullmatch("[1-9]|10", text):
        raise UserError(f"{path}: expected a whole number from 1 to {PLANS}, not {show(text)}; fetch it again.")
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
        if not is_a(raw, dict) or list(raw) != [f"plan-{number}"]:
            keys = show(list(raw)) if is_a(raw, dict) else show(raw)
            file.fail(f"plan {number}", f"expected an object with the one key `plan-{number}`, not {keys}")
        if keep is None or number <= keep:
            yield PlanValue(raw[f"plan-{number}"], file, number - 1, f"plan-{number}, ")


def _from_folders(source: Source, count: int, logs: list[Log]) -> Iterator[PlanValue]:
    """Plans of the folders plan-0, plan-1, ...: ids restart at 0 in each."""
    for plan in range(count):
        file = _log(source, f"plan-{plan}/{CHAT}")
        logs.append(file)
        yield PlanValue(read_json_file(Path(file.path), file), file, plan, restart=True)
