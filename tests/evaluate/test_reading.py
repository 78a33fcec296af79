"""LIGHT's reading on file: taken over where it is the same, made again where it is not, and never half believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_offline import OfflineModel
from beamlib.data.conversations import Conversation
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import find_conversations
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.ingest_cache import read_shared
from beamlib.llm.model import ModelRoles
from beamlib.memory.light import Light, LightSettings
from beamlib.params import RunParameters, load_parameters

ROSTER = ModelRoles.of(OfflineModel())
ARMS = (Arm(memory="none"), Arm(memory="light", retriever="hybrid", k=2), Arm(memory="rag", retriever="bm25", k=2))


@pytest.fixture
def parameters(tmp_path: Path, repo_root: Path) -> RunParameters:
    data = str(repo_root / "beamlib/data/example")
    return load_parameters(repo_root / "params/100k.yaml", data=data, run=str(tmp_path / "run"))


@pytest.fixture
def loaded(parameters: RunParameters) -> Loaded:
    return load(find_conversations(Path(parameters.data))[0], parameters.treatment)


def file_of(parameters: RunParameters, loaded: Loaded) -> Path:
    return Path(parameters.run) / "readings/100k" / f"{loaded.conversation.id}.json"


def read_light(
    conversation: Conversation, settings: LightSettings, parameters: RunParameters, roster: ModelRoles
) -> Light:
    return read_shared(Light(roster.memory, settings, compressor=roster.compressor), conversation, parameters, roster)


def recalled(light: Light, loaded: Loaded) -> list[object]:
    return [light.recall(probe.question) for probe in loaded.probes]


def test_the_second_reading_is_the_first(
    parameters: RunParameters, loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = LightSettings(k=3)
    first = read_light(loaded.conversation, settings, parameters, ROSTER)
    monkeypatch.setattr(Light, "ingest", None)  # reaching it would fail
    second = read_light(loaded.conversation, settings, parameters, ROSTER)
    assert (second.keys, second.scratchpad) == (first.keys, first.scratchpad)
    assert recalled(second, loaded) == recalled(first, loaded)


@pytest.mark.parametrize("damage", ["{", "[]", '{"key": 1}', "other words"])
def test_a_damaged_file_is_made_again(parameters: RunParameters, loaded: Loaded, damage: str) -> None:
    first = read_light(loaded.conversation, LightSettings(), parameters, ROSTER)
    path = file_of(parameters, loaded)
    whole = path.read_text(encoding="utf-8")
    # The last in the right form, with other contents than were written.
    damaged = whole.replace(first.keys[0][0], "something else") if damage == "other words" else damage
    path.write_text(damaged, encoding="utf-8")
    second = read_light(loaded.conversation, LightSettings(), parameters, ROSTER)
    assert second.keys == first.keys
    assert path.read_text(encoding="utf-8") == whole


def test_other_settings_of_the_reading_read_again(parameters: RunParameters, loaded: Loaded) -> None:
    read_light(loaded.conversation, LightSettings(), parameters, ROSTER)
    before = file_of(parameters, loaded).read_bytes()
    read_light(loaded.conversation, LightSettings(chunk_percentile=50), parameters, ROSTER)
    assert file_of(parameters, loaded).read_bytes() != before
