"""LIGHT tried by hand in a notebook: one conversation read, single questions recalled."""

from __future__ import annotations

from beamlib.data.conversations import Conversation
from beamlib.evaluate.answering import given_to
from beamlib.evaluate.arms import memory_arm
from beamlib.evaluate.calling import open_models
from beamlib.evaluate.ingest_cache import read_shared
from beamlib.llm.model import ModelError
from beamlib.memory.light import Light
from beamlib.memory.protocol import RetrievedContext
from beamlib.report.workspace import Workspace


def read_light(work: Workspace, conversation: Conversation) -> Light | None:
    """LIGHT's reading of a conversation, which all of its variants share; the models stay open until the end.

    Returns None, and prints the reason, if its calls failed.
    """
    run = work.parameters
    models = work.opened.enter_context(open_models(run, conversation.id))
    try:
        return read_shared(Light.build(given_to(memory_arm(Light.name, run), run, models)), conversation, run, models)
    except ModelError as error:
        print(f"– LIGHT could not read {conversation.id}: {error.reason}")
        return None


def recall(light: Light | None, question: str) -> RetrievedContext:
    """Recall what bears on a question; nothing, with the reason printed, if a call of LIGHT failed."""
    try:
        return light.recall(question) if light else RetrievedContext("", ())
    except ModelError as error:
        print(f"– LIGHT could not recall: {error.reason}")
        return RetrievedContext("", ())
