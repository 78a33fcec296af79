"""Write the data files of a run's page: one for the run, two for each conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from beam_page.conversation_data import ConversationData, conversation_data
from beam_page.data_files import FOLDER, clear_others, write_data
from beam_page.headlines import Headlines, fixed_recall, headlines, opening, protocols_of
from beam_page.run_folder import RunFolder, main_arms
from beamlib.data.gold import ABILITIES, Gold
from beamlib.errors import UserError
from beamlib.files import read_json, write_json
from beamlib.llm.call_store import stated_costs
from beamlib.places import from_root
from beamlib.processes import as_they_end, process_pool
from beamlib.report.long_frame import ability_label
from beamlib.scoring.scores import AVERAGE

_FORMAT = 1
_KEYS = "keys.json"  # of the data files, by number


@dataclass(frozen=True)
class PageData:
    """The data of a page: `index` is the run's data file, `headlines` its numbers, `files` all data files."""

    index: dict[str, Any]
    headlines: Headlines
    files: Sequence[Path]
    gold: Mapping[str, Gold] = field(default_factory=dict)
    spoilt: frozenset[str] = frozenset()


def write_page_data(run: RunFolder, *, protocol: str = "", workers: int = 1) -> PageData:
    """Write the data files of `run` into its folder `page` and remove outdated ones.

    Args:
        run: The run.
        protocol: The scoring protocol that the page opens with, empty for `opening`.
        workers: Processes to use.

    Raises:
        UserError: The run's verdicts cannot be scored by `protocol`.
    """
    if protocol not in ("", *protocols_of(run.arms)):
        known = ", ".join(protocols_of(run.arms))
        raise UserError(
            f"--protocol: the verdicts of {run.folder} are not scored by {protocol!r}; choose one of {known}."
        )
    files: list[Path] = []
    parts: list[ConversationData] = []
    for number, part in enumerate(_conversations(run, workers)):
        values = {f"a{number}": part.answers} | ({f"m{number}": part.messages} if part.has_messages else {})
        for name, value in values.items():
            kept = run.folder / FOLDER / f"{name}.js"
            files.append(kept if part.answers is None else write_data(run.folder, name, value))
        parts.append(replace(part, answers=None, messages={}))
    write_json(run.folder / FOLDER / _KEYS, [part.key for part in parts])
    main = main_arms(run.arms)
    gold = {key: value for part in parts for key, value in part.gold.items()}
    spoilt = frozenset(key for part in parts for key in part.spoilt)
    numbers = headlines(run.arms, main, gold, spoilt)
    index = _index(run, parts, numbers, protocol or opening(numbers.numbers, main))
    files.append(write_data(run.folder, "run", index))
    clear_others(run.folder, files)
    return PageData(index, numbers, files, gold, spoilt)


def _written_keys(run: RunFolder, ids: Sequence[str]) -> list[str]:
    """Read the keys of the data files on disk, by number; empty where a file is missing."""
    folder = run.folder / FOLDER
    try:
        keys = read_json(folder / _KEYS)
    except UserError:
        keys = []
    known = {number: str(key) for number, key in enumerate(keys if isinstance(keys, list) else [])}
    for number, conversation in enumerate(ids):
        names = ("a", "m") if conversation in run.sources else ("a",)
        if not all((folder / f"{name}{number}.js").exists() for name in names):
            known.pop(number, None)
    return [known.get(number, "") for number in range(len(ids))]


def _conversations(run: RunFolder, workers: int) -> Sequence[ConversationData]:
    ids = run.conversations
    todo = list(zip(ids, _written_keys(run, ids), strict=True))
    title: dict[str, Any] = {"desc": "page: conversations", "disable": None, "leave": False, "delay": 2}
    if min(workers, len(ids)) < 2:
        return [conversation_data(run, conversation, key) for conversation, key in tqdm(todo, **title)]
    data: dict[str, ConversationData] = {}
    with process_pool(min(workers, len(ids))) as pool, tqdm(total=len(ids), **title) as bar:
        futures = {pool.submit(conversation_data, run, conversation, key): conversation for conversation, key in todo}
        for future in as_they_end(futures, pool, bar, None):
            data[futures[future]] = future.result()
            bar.update()
    return [data[conversation] for conversation in ids]


def _index(run: RunFolder, parts: Sequence[ConversationData], numbers: Headlines, protocol: str) -> dict[str, Any]:
    main, fixed = main_arms(run.arms), fixed_recall(run.arms)
    series: dict[str, dict[str, Any]] = {}
    for arm in run.arms:
        own = series.setdefault(arm.series, {"id": arm.series, "main": arm.series in main, "parts": {}})
        own["memory"] = arm.arm.memory if arm.arm else ""
        own["fixed"] = arm.series in fixed  # its evidence recall
        own["offline"] = own.get("offline", False) or (arm.offline and arm.judged_offline)
        reader, judge = (arm.manifest.reader, arm.manifest.judge) if arm.manifest else ("", "")
        facts = {"part": arm.part, "reader": reader, "judge": judge, "vouched": arm.manifest is not None}
        own["parts"] |= dict.fromkeys(arm.sizes, facts)
    for name, own in series.items():
        own["spent"] = _sum([part.spent[name] for part in parts if name in part.spent])
    most: dict[str, int] = {}  # conversations of each size, as table heads name them
    for sizes in numbers.numbers[protocol]["full"].values():
        for size, own in sizes.items():
            most[size] = max(most.get(size, 0), own[AVERAGE][4])
    return {
        "format": _FORMAT,
        "name": run.folder.name,
        "protocol": protocol,
        "protocols": [[name, scoring.caption] for name, scoring in protocols_of(run.arms).items()],
        "abilities": {ability: ability_label(ability) for ability in ABILITIES},
        "series": list(series.values()),
        "conversations": [
            {"id": part.id, "m": part.has_messages, **part.about, "questions": part.questions} for part in parts
        ],
        "cells": {name: {k: v for part in parts for k, v in part.cells.get(name, {}).items()} for name in series},
        "headlines": numbers.numbers,
        "most": most,
        "best": numbers.best,
        "quantiles": numbers.quantiles,
        "commands": _replay_commands(run),
        "left_out": run.left_out,
        "costs_rest_on": stated_costs(claimed=any(arm.manifest and arm.manifest.claimed for arm in run.arms)),
    }


def _replay_commands(run: RunFolder) -> dict[str, str]:
    """Return the command that replays a question, by part; the page fills in ARM and QUESTION."""
    generated = run.data is not None and run.data.parent == run.folder
    rest = "ARM QUESTION" if generated else "ARM QUESTION --data FOLDER"
    return {
        arm.part: f"beamlib replay {from_root(arm.run)} {arm.folder.parent.name}/{rest}"
        for arm in run.arms
        if arm.manifest
    }


def _sum(rows: Sequence[Sequence[float | None]]) -> list[float | None] | None:
    if not rows:
        return None
    columns = zip(*rows, strict=True)
    return [None if None in column else sum(value or 0 for value in column) for column in columns]
