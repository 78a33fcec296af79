"""What a memory read, kept beside a run: a second look at a conversation of ten million tokens takes no half minute.

Only for the offline stand-in. Where models are called, the store of their calls already saves what costs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from beamlib.data.conversations import Conversation
from beamlib.errors import UserError
from beamlib.evaluate.arms import base_memory
from beamlib.evaluate.run_store import ANSWER_CODE
from beamlib.files import code_hash, read_json, sha256, to_json, write_text
from beamlib.llm.model import OFFLINE_NAME, ModelRoles
from beamlib.memory.declared import SharedReading
from beamlib.params import RunParameters

Reader = TypeVar("Reader", bound=SharedReading)


def read_shared(
    memory: Reader,
    conversation: Conversation,
    parameters: RunParameters,
    roster: ModelRoles,
    *,
    measure: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Reader:
    """Let an empty memory read `conversation`, from the file of an equal reading where there is one.

    Equal are the conversation, the settings that shape a reading, and the code. A file that is gone or damaged is made
    again. Raises `ModelError` as `ingest` does. `measure` times a reading.
    """
    by_rules = {roster.memory.name, roster.compressor.name} == {OFFLINE_NAME}
    if parameters.models or not (parameters.data or parameters.memorycode) or not by_rules:
        with measure():
            memory.ingest(conversation)
        return memory
    own = () if memory.name == base_memory() else (memory.name,)  # LIGHT's have always stood at the top
    path = Path(parameters.run, "readings", conversation.size.lower(), *own, f"{conversation.id}.json")
    code = code_hash((*ANSWER_CODE, *memory.code_names()))
    key = sha256(to_json([conversation.sha256, memory.of_reading, code]))
    reading = None if parameters.calls == "refresh" else _on_file(path, key)
    if reading is not None:
        memory.restore(conversation, reading)
        return memory
    with measure():
        memory.ingest(conversation)
    write_text(path, to_json({"key": key, "sha256": sha256(to_json(memory.reading)), "reading": memory.reading}))
    return memory


def _on_file(path: Path, key: str) -> Any | None:
    """The reading in `path`, None where it is another's or not what was written."""
    try:
        held = read_json(path)
    except UserError:
        return None
    if not isinstance(held, dict) or held.get("key") != key:
        return None
    reading = held.get("reading")
    return reading if held.get("sha256") == sha256(to_json(reading)) else None
