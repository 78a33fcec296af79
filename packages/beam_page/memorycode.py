"""Show MemoryCode in the page's viewer: each answer, the rules that check it, and the session that states them.

Its tables are on the page of the run. This page has no averages: MemoryCode averages over sessions first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_memorycode.dialogue_files import load_dialogues
from beam_memorycode.outputs import find_outputs
from beam_memorycode.scored import score_model
from beam_page.data_files import clear_others, write_data
from beamlib.errors import UserError

PART = "memorycode"
SIZE = "MemoryCode"
_SETUPS = {
    "instruction": "instruction: the instruction beside the query",
    "session": "session: one session",
    "history": "history: all sessions",
}
_PROTOCOLS = (
    ["nugget-mean", "share of the applicable rules that hold (released)"],
    ["binary", "all applicable rules hold at once"],
)
_MARKS = {"pass": 2, "fail": 0}


def memorycode_data(folder: Path) -> dict[str, Any] | None:
    """Build the run's data file from the outputs in `folder`, with the dialogues' files under "files".

    None where there are no outputs, or not the dialogues that they answer.
    """
    try:
        items = load_dialogues(folder / "data")
        outputs = find_outputs(folder / "outputs")
        models = [score_model(name, path, items, own=True) for name, path in outputs.items()]
    except UserError:
        return None
    answered = {model.name: {_id(answer): answer for answer in model.answers} for model in models}
    answered = {name: own for name, own in answered.items() if own}
    dialogues = [item.dialogue for item in items]
    parts = [dict(_questions(dialogue, answered)) for dialogue in dialogues]
    kept = [(dialogue, part) for dialogue, part in zip(dialogues, parts, strict=True) if part]
    if not kept:
        return None
    texts = {model.name: model for model in models}
    return {
        "format": 1,
        "name": SIZE,
        "protocol": "nugget-mean",
        "protocols": list(_PROTOCOLS),
        "abilities": _SETUPS,
        "series": [{"id": name, "main": True, "offline": name.startswith("offline"), "parts": {}} for name in answered],
        "conversations": [
            {"id": f"{SIZE}-{dialogue.id}", "m": dialogue.has_texts, "questions": list(part.values())}
            for dialogue, part in kept
        ],
        "cells": {name: {key: _cell(answer) for key, answer in own.items()} for name, own in answered.items()},
        "headlines": {},
        "best": {},
        "quantiles": {"exact": 0},
        "commands": {},
        "left_out": {},
        "files": [_texts(dialogue, part, answered, texts) for dialogue, part in kept],
    }


def write_files(folder: Path, index: Mapping[str, Any]) -> None:
    """Write the data files of `memorycode_data`."""
    files = []
    for number, (answers, messages) in enumerate(index["files"]):
        files.append(write_data(folder, f"a{number}", answers))
        if messages:
            files.append(write_data(folder, f"m{number}", messages))
    files.append(write_data(folder, "run", {name: value for name, value in index.items() if name != "files"}))
    clear_others(folder, files)


def _id(answer: Any) -> str:
    place = f"{answer.place + 1:02d}"
    within = place if answer.setup == "history" else f"s{answer.session + 1:03d}-{place}"
    return f"{SIZE}-{answer.dialogue_id}-{answer.setup}-{within}"


def _questions(dialogue: Any, answered: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the answered questions of a dialogue: the query, and the sessions that state its conventions."""
    for own in answered.values():
        for key, answer in own.items():
            if answer.dialogue_id == dialogue.id:
                history = answer.setup == "history"
                query = (dialogue.queries if history else dialogue.sessions[answer.session].queries)[answer.place]
                stating = [n for n, session in enumerate(dialogue.sessions) if session.mentions]
                yield (
                    key,
                    {
                        "id": key,
                        "a": answer.setup,
                        "q": f"Write {query}.",
                        "e": stating if history else [answer.session],
                    },
                )


def _cell(answer: Any) -> dict[str, Any]:
    """Return the verdicts of the applicable rules."""
    if answer.unscored:
        return {"j": [{"v": [], "u": "there is no answer"}], "u": "there is no answer"}
    marks = [_MARKS[str(verdict)] for verdict in answer.verdicts if str(verdict) in _MARKS]
    return {"j": [{"v": marks} if marks else {"v": [], "u": "no rule applies: the code has no such object"}]}


def _texts(
    dialogue: Any, part: Mapping[str, Any], answered: Mapping[str, Mapping[str, Any]], models: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    gold: dict[str, Any] = {}
    answers: dict[str, dict[str, Any]] = {}
    for name, own in answered.items():
        for key in part:
            if (answer := own.get(key)) is not None:
                gold[key] = {"rubric": [_rule(rule) for rule in answer.rules]}
                row = {"t": models[name].text_of(answer), "no": "The answers of MemoryCode are kept without contexts."}
                answers.setdefault(name, {})[key] = {**row, "j": [_replies(answer)]}
    sessions: Sequence[Any] = dialogue.sessions if dialogue.has_texts else ()
    messages = {
        "ids": list(range(len(sessions))),
        "roles": "u" * len(sessions),
        "texts": [session.text for session in sessions],
        "whole": True,
        "total": len(sessions),
        "contexts": [],
        "lines": [],
    }
    return {"gold": gold, "answers": answers, "calls": {}, "calls_problem": ""}, messages if sessions else {}


def _rule(rule: Any) -> str:
    return f"{rule.kind}: {rule.condition}"


def _replies(answer: Any) -> dict[str, list[str]]:
    """Return the applicable rules of an answer and their verdicts; none for an unscored one."""
    pairs = zip(answer.rules, map(str, answer.verdicts), strict=False)
    rules = [(_rule(rule), answer.failure or verdict) for rule, verdict in pairs if verdict in _MARKS]
    return {"n": [rule for rule, _ in rules], "r": [verdict for _, verdict in rules]}
