"""Statements of docs/memorycode-fidelity.md that no other test holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from beam_memorycode.dialogues import SESSION_COUNTS, Dialogue, DialogueSession, Mention, Setting, Topic
from beam_memorycode.generating import GenerateOptions, conversation_prompt, hold_conversations
from beam_memorycode.running import (
    MEMORY_SETUPS,
    PUBLISHED_SETUPS,
    SETUPS,
    WITHOUT_TEXTS,
    run_dialogue,
    setup_prompts,
)
from beam_memorycode.templates import draw_template, recipe
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import load_models
from beamlib.llm.model import Completion, ModelRoles, Prompt, run
from beamlib.llm.prompts import prompt_file
from beamlib.params import usual_parameters
from beamlib.places import PARAMS
from beamlib.run import Run

CONVERSATION = Prompt("memorycode_conversation", dict.fromkeys(prompt_file("memorycode_conversation").variables, "x"))


@pytest.mark.parametrize("sessions", SESSION_COUNTS)
def test_the_default_recipe_has_the_ranges_of_table_1(sessions: int) -> None:
    assert GenerateOptions(Path()).recipe == "paper"
    assert tuple(GenerateOptions(Path()).counts) == (1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 100)
    ranges = recipe("paper", sessions)
    assert (ranges.share, ranges.per_session) == ((0.5, 0.7), (1, 3))
    assert (ranges.updates, ranges.order_updates) == ((0.3, 0.7), (0.5, 0.7))


def test_what_is_drawn_keeps_the_shares_of_table_1() -> None:
    """Of long dialogues, where a share has room to show; an update needs an instruction that was introduced."""
    labels: Counter[str] = Counter()
    per_session: Counter[int] = Counter()
    for number in range(1, 41):
        dialogue = draw_template(1, seed=7, name="paper", sessions=50, number=number).dialogue
        coding = [len(session.mentions) for session in dialogue.sessions if session.mentions]
        assert 25 <= len(coding) <= 35
        per_session.update(coding)
        labels.update(topic.type for session in dialogue.sessions for topic in session.topics)
    assert set(per_session) == {1, 2, 3} and min(per_session.values()) > 0.25 * sum(per_session.values())
    for kind, least, most in (("instruction", 0.4, 0.55), ("filler-instruction", 0.4, 0.65)):
        updated = labels[f"{kind}-update"] / (labels[f"{kind}-update"] + labels[f"{kind}-add"])
        assert least < updated < most, (kind, updated)


class Recorder:
    """Replies with nothing that can be used, and keeps what it was shown."""

    name = "recorder"

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        return Completion("no")


def _session(number: int, *values: str) -> DialogueSession:
    return DialogueSession(
        tuple(Topic("instruction-add", value) for value in values),
        tuple(Mention(place, number) for place, _ in enumerate(values)),
        tuple(f"function {number} {place}" for place, _ in enumerate(values)),
        "short",
        text=f"Ruth: session {number}. {'; '.join(values)}",
    )


TALK = Dialogue(
    7,
    Setting("Ruth", "Björn", "Halden"),
    (_session(0, "start variables with 'q_'"), _session(1), _session(2, "start variables with 'k_'", "use @timer")),
    ("function 2 1", "function 0 0"),
)


@pytest.mark.parametrize("setup", [setup for setup in SETUPS if setup not in MEMORY_SETUPS])
def test_a_run_asks_the_reader_what_its_setup_shows(setup: str, tmp_path: Path) -> None:
    reader = Recorder()
    usual = usual_parameters("100K", run=str(tmp_path), retriever="bm25", workers=1)
    answers = run_dialogue(TALK, [setup], Run.of(usual), ModelRoles.of(reader))[setup]
    shown = [prompt for _, prompt in setup_prompts(TALK, setup, "bm25")]
    assert [(prompt.id, prompt.variables) for prompt in reader.prompts] == [(one.id, one.variables) for one in shown]
    assert len(answers) == len(shown) == (3 if setup in ("instruction", "session") else 2)


def test_a_model_writes_each_session_by_the_prompt_of_that_session() -> None:
    writer = Recorder()
    run(hold_conversations(writer, TALK))
    expected = [conversation_prompt(TALK, place).variables for place in range(3) for _ in range(3)]  # three tries each
    assert Counter(map(str, (prompt.variables for prompt in writer.prompts))) == Counter(map(str, expected))


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
    asked = Prompt("memorycode_alone", dict.fromkeys(prompt_file("memorycode_alone").variables, "x"))
    assert {EndpointModel("reader", one).request(asked)["temperature"] for one in readers.values()} == {0.0}
