"""Measured retrieval: the shipped file, and that ids and numbers say what the contexts show."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_commands.measuring import differences, measure, write_measurements
from beamlib.data.loading import load
from beamlib.data.sources import Source, find_conversations
from beamlib.errors import UserError
from beamlib.memory.light import Light, LightSettings
from beamlib.memory.protocol import partly_shown
from beamlib.memory.rag import Rag
from beamlib.plugins import plugins
from beamlib.scoring.average_recall import average_recall
from beamlib.scoring.measured import FileHeader, Measurement, Shown, context_shown, read_measurements
from beamlib.text import count_tokens

ABLATIONS: dict[str, dict[str, bool]] = {
    "light": {},
    "light without retrieval": {"use_retrieval": False},
    "light without working memory": {"use_working": False},
    "light without scratchpad": {"use_scratchpad": False},
    "light without noise filter": {"use_filter": False},
    "light retrieval alone": {"use_working": False, "use_scratchpad": False},
}


@pytest.fixture(scope="module")
def source(repo_root: Path) -> Source:
    return find_conversations(repo_root / "beamlib/data/example", ["100K"])[0]


@pytest.fixture(scope="module")
def measurement(source: Source) -> Measurement:
    return measure(source, retrievers=["bm25"])


@pytest.mark.parametrize("k", [1, 5, 30])
@pytest.mark.parametrize("arm", ["rag", *ABLATIONS])
def test_a_measurement_shows_what_the_context_shows(source: Source, measurement: Measurement, arm: str, k: int) -> None:
    loaded = load(source)
    if arm == "rag":
        memory: Rag | Light = Rag(k, "bm25")
    else:
        memory = Light(plugins().model(), LightSettings(k=k, retriever="bm25", **ABLATIONS[arm]))
    memory.ingest(loaded.conversation)
    texts = {message.id: message.content for message in loaded.conversation.messages}
    for probe, question in zip(loaded.probes, measurement.questions, strict=True):
        context = memory.recall(probe.question)
        expected = set(context.message_ids).difference(partly_shown(context, texts))
        measured = context_shown(measurement, question, arm, "bm25", k)
        assert measured.whole == expected
        assert measured.whole | measured.in_part | measured.noted == set(context.message_ids)
        assert measured.tokens == pytest.approx(count_tokens(context.context), abs=2 * (k + 6))  # a joint per pair


def test_what_does_not_fit_is_not_shown(measurement: Measurement) -> None:
    question = measurement.questions[0]
    first, second = question.ranks["rag bm25"][:2]
    pairs = list(measurement.pairs)
    pairs[second] = (*pairs[second][:2], 130_000)
    large = measurement.model_copy(update={"pairs": pairs})
    assert context_shown(large, question, "rag", "bm25", 30).whole == frozenset(pairs[first][:2])
    short = large.model_copy(update={"overlong": {"rag": {second: (900, [pairs[second][1]])}, "light": {}}})
    context = context_shown(short, question, "rag", "bm25", 2)
    assert context.whole == {*pairs[first][:2], pairs[second][0]} and pairs[second][1] in context.in_part
    assert context.tokens == pairs[first][2] + 900


def test_a_file_holds_what_was_written_and_names_what_differs(measurement: Measurement, tmp_path: Path) -> None:
    header = FileHeader(command="beamlib measure", code="abc", treatment={}, seconds=1.5)
    path = write_measurements(tmp_path / "retrieval.jsonl.xz", header, [measurement])
    assert read_measurements(path) == (header, [measurement])
    question = measurement.questions[3]
    ranks = {"rag bm25": [*question.ranks["rag bm25"][1:], 0]}
    changed = question.model_copy(update={"ranks": question.ranks | ranks})
    questions = [*measurement.questions[:3], changed, *measurement.questions[4:]]
    other = measurement.model_copy(update={"questions": questions, "newest": []})
    assert differences(measurement, measurement) == []
    assert differences(measurement, other) == [
        f"{measurement.id}: newest differ",
        f"{question.id}: ranks of rag bm25 differ",
    ]
    path.write_bytes(path.read_bytes()[:400])
    with pytest.raises(UserError, match="no file of measurements"):
        read_measurements(path)


def test_recall_rows(measurement: Measurement) -> None:
    rows = {row["ability"]: row for row in average_recall([measurement], ["rag"], ["bm25"], [5])}
    questions = [question for question in measurement.questions if question.cited]
    contexts: list[Shown] = [context_shown(measurement, question, "rag", "bm25", 5) for question in questions]
    shares = [
        len(set(question.cited) & context.whole) / len(question.cited)
        for question, context in zip(questions, contexts, strict=True)
    ]
    assert rows["all"]["recall"] == pytest.approx(sum(shares) / len(shares))
    assert (
        rows["all"]["n"]
        == len(questions)
        == sum(row["n"] for name, row in rows.items() if name not in ("all", "average"))
    )
    assert rows["all"]["low"] is None and rows["all"]["conversations"] == 1


def test_the_shipped_measurements_are_those_of_the_released_conversations(beam_data: Path) -> None:
    header, stated = read_measurements()
    assert header.command.startswith("beamlib measure --data")
    by_id = {one.id: one for one in stated}
    assert len(by_id) == len(stated) == 42
    source = next(source for source in find_conversations(beam_data, ["100K"]) if source.id == "100K-12")
    assert differences(by_id[source.id], measure(source)) == []
