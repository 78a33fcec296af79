"""Write the data files of a run's page: one for the run, two for each conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from beam_page.conversation_data import ConversationData, conversation_data
from beam_page.data_files import FOLDER, clear_others, write_data
from beam_page.headlines import Headlines, headlines, opening, protocols_of
from beam_page.run_folder import RunFolder, main_arms
from beamlib.data.gold import ABILITIES, Gold
from beamlib.errors import UserError
from beamlib.files import read_json, write_json
from beamlib.processes import as_they_end, process_pool
from beamlib.report.long_frame import ability_label

FORMAT = 1
_KEYS = "keys.json"  # of the data files, by number


@dataclass(frozen=True)
class PageData:
    """The data of a page: `index` is the run's data file, `headlines` its numbers, `files` all data files."""

    index: dict[str, Any]
    headlines: Headlines
    files: Sequence[Path]
    gold: Mapping[str, Gold] = field(default_factory=dict)
    spoilt: frozenset[str] = frozenset()


def write_page_data(
    run: RunFolder, *, protocol: str = "", workers: int = 1, commands: Mapping[str, str] | None = None
) -> PageData:
    """Write the data files of `run` into its folder `page` and remove outdated ones.

    Args:
        run: The run.
        protocol: The scoring protocol that the page opens with, empty for `opening`.
        workers: Processes to use.
        commands: The shell command that replays a question, by part.

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
    for number, one in enumerate(_conversations(run, workers)):
        for name, value in ((f"a{number}", one.answers), *([(f"m{number}", one.messages)] if one.has_messages else [])):
            kept = run.folder / FOLDER / f"{name}.js"
            files.append(kept if one.answers is None else write_data(run.folder, name, value))
        parts.append(replace(one, answers=None, messages={}))
    write_json(run.folder / FOLDER / _KEYS, [one.key for one in parts])
    main = main_arms(run.arms)
    gold = {key: value for one in parts for key, value in one.gold.items()}
    spoilt = frozenset(key for one in parts for key in one.spoilt)
    numbers = headlines(run.arms, main, gold, spoilt)
    index = _index(run, parts, numbers, protocol or opening(numbers.numbers, main), commands or {})
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
    return [
        known.get(number, "")
        if (folder / f"a{number}.js").exists() and ((folder / f"m{number}.js").exists() or one not in run.sources)
        else ""
        for number, one in enumerate(ids)
    ]


def _conversations(run: RunFolder, workers: int) -> Sequence[ConversationData]:
    ids = run.conversations
    todo = list(zip(ids, _written_keys(run, ids), strict=True))
    title: dict[str, Any] = {"desc": "page: conversations", "disable": None, "leave": False, "delay": 2}
    if min(workers, len(ids)) < 2:
        return [conversation_data(run, one, key) for one, key in tqdm(todo, **title)]
    found: dict[str, ConversationData] = {}
    with process_pool(min(workers, len(ids))) as pool, tqdm(total=len(ids), **title) as bar:
        futures = {pool.submit(conversation_data, run, one, key): one for one, key in todo}
        for future in as_they_end(futures, pool, bar, None):
            found[futures[future]] = future.result()
            bar.update()
    return [found[one] for one in ids]


def _index(
    run: RunFolder,
    parts: Sequence[ConversationData],
    numbers: Headlines,
    protocol: str,
    commands: Mapping[str, str],
) -> dict[str, Any]:
    main = main_arms(run.arms)
    series: dict[str, dict[str, Any]] = {}
    for one in run.arms:
        own = series.setdefault(one.series, {"id": one.series, "main": one.series in main, "parts": {}})
        own["memory"] = one.arm.memory if one.arm else ""
        own["offline"] = own.get("offline", False) or (one.offline and one.judged_offline)
        reader, judge = (one.manifest.reader, one.manifest.judge) if one.manifest else ("", "")
        facts = {"part": one.part, "reader": reader, "judge": judge, "vouched": one.manifest is not None}
        own["parts"] |= dict.fromkeys(one.sizes, facts)
    for name, own in series.items():
        own["spent"] = _sum([one.spent[name] for one in parts if name in one.spent])
    return {
        "format": FORMAT,
        "name": run.folder.name,
        "protocol": protocol,
        "protocols": [[name, one.caption] for name, one in protocols_of(run.arms).items()],
        "abilities": {ability: ability_label(ability) for ability in ABILITIES},
        "series": list(series.values()),
        "conversations": [
            {"id": one.id, "m": one.has_messages, **one.about, "questions": one.questions} for one in parts
        ],
        "cells": {name: {k: v for one in parts for k, v in one.cells.get(name, {}).items()} for name in series},
        "headlines": numbers.numbers,
        "best": numbers.best,
        "quantiles": numbers.quantiles,
        "commands": commands,
        "left_out": run.left_out,
    }


def _sum(rows: Sequence[Sequence[float | None]]) -> list[float | None] | None:
    if not rows:
        return None
    columns = zip(*rows, strict=True)
    return [None if None in column else sum(value or 0 for value in column) for column in columns]
