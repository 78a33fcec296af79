"""Statements of docs/memorycode-fidelity.md that no other test holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_memorycode.dialogues import SESSION_COUNTS
from beam_memorycode.generating import GenerateOptions
from beam_memorycode.running import PUBLISHED_SETUPS, SETUPS, WITHOUT_TEXTS
from beam_memorycode.templates import recipe
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import load_models
from beamlib.llm.model import Prompt
from beamlib.llm.prompts import prompt_file
from beamlib.places import PARAMS

CONVERSATION = Prompt("memorycode_conversation", dict.fromkeys(prompt_file("memorycode_conversation").variables, "x"))


@pytest.mark.parametrize("sessions", SESSION_COUNTS)
def test_the_default_recipe_has_the_ranges_of_table_1(sessions: int) -> None:
    assert GenerateOptions(Path()).recipe == "paper"
    assert tuple(GenerateOptions(Path()).counts) == (1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 100)
    ranges = recipe("paper", sessions)
    assert (ranges.share, ranges.per_session) == ((0.5, 0.7), (1, 3))
    assert (ranges.updates, ranges.order_updates) == ((0.3, 0.7), (0.5, 0.7))


def test_the_papers_models_file_has_the_generators_temperature_and_top_p() -> None:
    """Appendix C: Command R+ writes at temperature 0.9 and top-p 0.9."""
    models = load_models(PARAMS / "memorycode.yaml")
    speaker = models.author("speaker")
    body = EndpointModel("speaker", speaker).request(CONVERSATION)
    assert (body["temperature"], body["top_p"], body["model"]) == (0.9, 0.9, models.reader("").model)
    assert models.reader("").temperature == 0
    assert speaker.settings["extra"] == {"top_p": 0.9}  # part of what a stored reply and a manifest rest on


def test_the_setups_of_the_paper_are_there() -> None:
    assert PUBLISHED_SETUPS == ("instruction", "session", "history")
    assert {*PUBLISHED_SETUPS, "chain", "retrieval", "alone"} <= set(SETUPS)
    assert "chain" in WITHOUT_TEXTS and "history" not in WITHOUT_TEXTS


def test_models_answer_at_temperature_0() -> None:
    readers = load_models(PARAMS / "models.yaml").readers
    assert readers and {one.temperature for one in readers.values()} == {0.0}
