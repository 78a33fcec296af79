"""A memory declares itself: a new one with a setting is one file, a setting of LIGHT is a line of its class."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import Field, ValidationError

import beamlib
from beam_offline import OfflineModel, declared_replies
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm, experiments
from beamlib.evaluate.run import BEAM, evaluate
from beamlib.files import code_hash
from beamlib.llm.model import ModelError, Prompt, run
from beamlib.llm.prompts import prompt_ids
from beamlib.memory import declared
from beamlib.memory.declared import kind_of, memories, memory_kind, named_memories
from beamlib.memory.light import Light, LightParameters
from beamlib.params import FIELDS, RunParameters, load_parameters
from beamlib.places import ROOT
from beamlib.plugins import plugins, register
from beamlib.run import Run

pytestmark = pytest.mark.usefixtures("in_this_process")

EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
LATEST = re.findall(r"```python\n(.*?)```", (ROOT / "docs/own-memory.md").read_text(), re.DOTALL)[1]
"""The memory `latest` of the documentation, with its setting `latest_pairs`."""


@pytest.fixture
def register_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is searched for memories: its module `latest_memory` declares one."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "latest_memory.py").write_text(LATEST)
    monkeypatch.syspath_prepend(folder)
    before = plugins()
    register(replace(before, memories=(*before.memories, "latest_memory")))
    yield folder
    register(before)
    for name in [name for name in sys.modules if name.endswith("_memory") and (folder / f"{name}.py").exists()]:
        del sys.modules[name]
    declared._memories.cache_clear()


def parameters(repo_root: Path, run: Path, **changes: object) -> RunParameters:
    fixed = {"data": str(EXAMPLE), "run": str(run), "workers": 1, "own_memory": "latest"}
    return load_parameters(repo_root / "params" / "100k.yaml", **{**fixed, **changes})


def arm_of(given: RunParameters) -> Arm:
    return next(arm for arm in experiments(given)["main"] if arm.memory == given.own_memory)


@pytest.mark.usefixtures("register_file")
def test_a_memory_with_a_setting_is_one_file(repo_root: Path, tmp_path: Path) -> None:
    """It is an arm of Table 1 before the ceiling, its setting is a parameter, and its answers rest on it."""
    assert "latest" in named_memories() and FIELDS["latest_pairs"].default == 3
    usual = parameters(repo_root, tmp_path / "usual")
    assert [arm.name for arm in experiments(usual)["main"]][-2:] == ["latest", "oracle"]
    made = evaluate(usual, [arm_of(usual)], quiet=True)
    four = parameters(repo_root, tmp_path / "four", latest_pairs=4)
    more = evaluate(four, [arm_of(four)], quiet=True)
    shown = [{len(answer.message_ids) for answer in own.answers["latest"]} for own in (made, more)]
    assert shown == [{6}, {8}]
    assert "latest_pairs" not in BEAM.store(arm_of(usual), Run.of(usual)).fields["settings"]
    assert BEAM.store(arm_of(four), Run.of(four)).fields["settings"]["latest_pairs"] == 4
    keys = [BEAM.store(arm_of(one), Run.of(one)).fields["answers_key"] for one in (usual, four)]
    assert keys[0] != keys[1]


@pytest.mark.usefixtures("register_file")
def test_its_setting_is_checked_like_any_other(repo_root: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="parameter 'latest_pairs' is 51: Input should be less than or equal to 50"):
        parameters(repo_root, tmp_path, latest_pairs=51)
    with pytest.raises(UserError, match="unknown parameter 'latest_pair'; the nearest known one is 'latest_pairs'"):
        parameters(repo_root, tmp_path, latest_pair=2)


@pytest.mark.usefixtures("register_file")
def test_answers_of_other_memories_do_not_rest_on_it(repo_root: Path, tmp_path: Path) -> None:
    light = Arm(memory="light", retriever="hybrid", k=5)
    runs = [Run.of(parameters(repo_root, tmp_path, latest_pairs=pairs)) for pairs in (2, 3)]
    assert len({BEAM.store(light, run).fields["answers_key"] for run in runs}) == 1


def test_parameters_made_before_a_memory_is_registered_have_its_usual_setting(
    repo_root: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    earlier = parameters(repo_root, tmp_path, own_memory="")
    request.getfixturevalue("register_file")
    assert earlier["latest_pairs"] == earlier.flat()["latest_pairs"] == 3


class MoreOfLight(LightParameters):
    """LIGHT with one setting more, as if its class had another line."""

    note_length: int = Field(40, ge=1, description="words of a note")


def test_a_setting_of_light_is_one_line(repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records by its usual value stay what they were, those by another say so and have another key."""
    light = Arm(memory="light", retriever="hybrid", k=5)
    before = BEAM.store(light, Run.of(parameters(repo_root, tmp_path, own_memory=""))).fields
    monkeypatch.setattr(Light, "own_settings", MoreOfLight)
    usual_run = parameters(repo_root, tmp_path, own_memory="")
    usual = BEAM.store(light, Run.of(usual_run)).fields
    assert {name: usual[name] for name in ("settings", "answers_key")} == {
        name: before[name] for name in ("settings", "answers_key")
    }
    changed = parameters(repo_root, tmp_path, own_memory="", note_length=7)
    fields = BEAM.store(light, Run.of(changed)).fields
    assert fields["settings"]["note_length"] == 7 and fields["answers_key"] != before["answers_key"]
    others = [BEAM.store(Arm(memory="none"), Run.of(one)).fields["answers_key"] for one in (changed, usual_run)]
    assert len(set(others)) == 1  # answers of other memories do not rest on it
    assert "note_length=7" in fields["configuration"]


def test_two_memories_of_one_name_are_refused(register_file: Path) -> None:
    (register_file / "again_memory.py").write_text(LATEST.replace('"latest"', '"light"'))
    register(replace(plugins(), memories=(*plugins().memories, "again_memory")))
    with pytest.raises(UserError, match=r"again_memory: the memory 'light' is also in beamlib\.memory\.light"):
        memories()


def test_two_settings_of_one_name_are_refused(register_file: Path) -> None:
    (register_file / "other_memory.py").write_text(
        LATEST.replace('"latest"', '"other"').replace("latest_pairs: int", "k: int")
    )
    register(replace(plugins(), memories=(*plugins().memories, "other_memory")))
    with pytest.raises(UserError, match="the setting 'k' of other is also one of retrieval; rename it"):
        FIELDS["k"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("setting(3, ", "setting(..., ", "has the setting 'bare_pairs' without a usual value; give a default"),
        ("def build(cls", "def make(cls", "has no classmethod 'build', which makes an empty one; add it"),
        ("uses =", 'prompts = ("latest_notes",)\n    uses =', "renders the prompt 'latest_notes', which has no file"),
        (
            "uses =",
            'roles = ("writer",)\n    uses =',
            "calls the role 'writer'; the roles are",
        ),
        ('"reader_window"', '"window"', "uses 'window', which is no setting; correct it"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused(old: str, new: str, message: str, register_file: Path) -> None:
    text = LATEST.replace('"latest"', '"bare"').replace("latest_pairs", "bare_pairs")
    assert old in text
    (register_file / "bare_memory.py").write_text(text.replace(old, new))
    register(replace(plugins(), memories=(*plugins().memories, "bare_memory")))
    with pytest.raises(UserError, match=f"bare_memory: the memory 'bare' {message}"):
        len(FIELDS)


def test_records_of_a_memory_that_is_not_here_can_be_read() -> None:
    arm = Arm.model_validate({"memory": "gone-since", "k": 3, "retriever": "bm25"})
    assert arm.name == "gone-since-bm25-k3" and kind_of(arm.memory).title() == ""
    for name in ("../up", "", "With Spaces", "a" * 80):
        with pytest.raises(ValidationError):
            Arm.model_validate({"memory": name})


def test_an_unknown_memory_is_named_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="the memory 'lite' does not exist; choose one of none, full-context, rag, "):
        memory_kind("lite")


@pytest.mark.parametrize("name", memories())
def test_what_a_memory_declares_is_there(name: str) -> None:
    """Its settings are parameters, its prompts files, its modules importable."""
    kind = memory_kind(name)
    assert set(kind.settings_names()) <= set(FIELDS)
    own = kind.own_settings.model_fields.values()
    assert all(isinstance(field.json_schema_extra, dict) and field.json_schema_extra["source"] for field in own)
    assert set(kind.prompts) <= set(prompt_ids())
    assert code_hash(kind.code_names())


def test_the_stand_in_replies_as_a_memory_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt of a memory's own needs no line in the stand-in."""
    prompt = Prompt("titles", {}, about="a test")
    with pytest.raises(ModelError, match="has no reply to prompt 'titles'"):
        run(OfflineModel().complete(prompt))
    monkeypatch.setattr(Light, "stand_in", {"titles": lambda variables: f"{len(variables)} variables"})
    assert declared_replies()["titles"]({}) == "0 variables"
