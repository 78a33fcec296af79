"""Where the evidence of the released questions lies, counted again from the released files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from beam_generate.probes import deciles as counting
from beam_generate.probes.deciles import deciles, published_deciles, released_deciles
from beam_generate.seeds import PRINTED_SIZE
from beamlib.data.conversations import SIZES
from beamlib.data.published import table
from beamlib.files import read_json

Cited = dict[int, list[list[int]]]


def ids(value: Any) -> list[int]:
    """The message ids in any of the released forms; texts among them are none."""
    if isinstance(value, list | dict):
        return [found for part in (value.values() if isinstance(value, dict) else value) for found in ids(part)]
    return [value] if type(value) is int else []


def cited(questions: Path, size: str) -> Cited:
    """The ids that each question of each conversation cites, where it cites any."""
    found: Cited = {}
    for path in questions.glob(f"{size}/*/probing_questions/probing_questions.json"):
        asked = [one for some in read_json(path).values() for one in some]
        found[int(path.parts[-3])] = [cites for one in asked if (cites := ids(one.get("source_chat_ids")))]
    return found


def counted(evidence: Cited, messages: dict[int, int]) -> tuple[list[float], int]:
    """Shares in percent over all questions, and how many there are."""
    shares = [deciles([cites], messages[number]) for number, some in evidence.items() for cites in some]
    return [100 * sum(tenth) / len(shares) for tenth in zip(*shares, strict=True)], len(shares)


def mean_length(size: str) -> int:
    row = table("table3").set_index("chat_size").loc[size]
    return int(row.user_messages + row.assistant_messages)


def lengths(folder: Path, name: str) -> dict[int, int]:
    found = {}
    for chat in folder.glob("100K/*/chat.json"):
        cut = chat.with_name("chat_trunecated.json")
        batches = read_json(cut if cut.exists() and name == "evaluated" else chat)
        found[int(chat.parent.name)] = sum(len(turn) for batch in batches for turn in batch["turns"])
    return found


def apart(one: list[float], other: list[float]) -> float:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


def test_the_file_is_what_the_released_questions_give(shared: Path, beam_data: Path) -> None:
    rows = pd.read_csv(Path(counting.__file__).with_name("released_deciles.csv"), dtype={"percent": str})
    assert list(zip(rows["size"], rows["decile"], strict=True)) == [(size, n) for size in SIZES for n in range(1, 11)]
    evaluated = lengths(beam_data, "evaluated")
    for size in SIZES:
        evidence = cited(shared / "data/beam_questions", size)
        mean = mean_length(PRINTED_SIZE[size])
        shares, questions = counted(evidence, evaluated if size == "100K" else dict.fromkeys(evidence, mean))
        mine = rows[rows["size"] == size]
        assert list(mine["percent"]) == [f"{share:.2f}" for share in shares]
        assert set(mine["questions"]) == {questions}
        assert set(mine["positions"]) == {"chats" if size == "100K" else "mean length"}


def test_table_7_is_nearer_when_it_is_read_one_row_down() -> None:
    as_printed, one_down = [], []
    for size in SIZES:
        printed, measured = ([100 * share for share in of(size)] for of in (published_deciles, released_deciles))
        as_printed.append(round(apart(printed, measured), 1))
        one_down.append(round(apart([*printed[1:], 0.0], measured), 1))
    assert as_printed == [43.3, 59.7, 52.4, 36.1]
    assert one_down == [25.8, 24.6, 20.5, 14.1]
