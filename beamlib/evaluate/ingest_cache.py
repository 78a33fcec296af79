"""What LIGHT read, kept beside a run: a second look at a conversation of ten million tokens takes no half minute.

Only for the offline stand-in. Where models are called, the store of their calls already saves what costs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beamlib.data.conversations import Conversation
from beamlib.errors import UserError
from beamlib.evaluate.run_store import ANSWER_CODE
from beamlib.files import code_hash, read_json, sha256, to_json, write_text
from beamlib.llm.model import OFFLINE_NAME, ModelRoles
from beamlib.memory.light import Light, LightSettings
from beamlib.params import RunParameters


def read_light(
    conversation: Conversation, settings: LightSettings, parameters: RunParameters, roster: ModelRoles
) -> Light:
    """LIGHT with `conversation` read, from the file of an equal reading where there is one.

    Equal are the conversation, the settings that shape a reading, and the code. A file that is gone or damaged is made
    again. Raises `ModelError` as `Light.ingest` does.
    """
    light = Light(roster.memory, settings, compressor=roster.compressor, embedding=roster.embedding)
    by_rules = {roster.memory.name, roster.compressor.name} == {OFFLINE_NAME}
    if parameters.models or not (parameters.data or parameters.memorycode) or not by_rules:
        light.ingest(conversation)
        return light
    path = Path(parameters.run) / "readings" / conversation.size.lower() / f"{conversation.id}.json"
    key = sha256(to_json([conversation.sha256, settings.of_reading, code_hash(ANSWER_CODE)]))
    reading = None if parameters.calls == "refresh" else _on_file(path, key)
    if reading is not None:
        light.restore(conversation, reading)
        return light
    light.ingest(conversation)
    write_text(path, to_json({"key": key, "sha256": sha256(to_json(light.reading)), "reading": light.reading}))
    return light


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
