"""Two models of one short name: the second does not replace what the first answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_commands.options import Endpoints
from beam_run.job import MainJob, plan
from beamlib.errors import UserError
from beamlib.llm.endpoints import MODELS


def test_a_reader_of_the_same_name_and_another_model_is_refused(
    tmp_path: Path, repo_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MainJob, "folder", property(lambda job: tmp_path / "runs" / job.name))
    data = repo_root / "beamlib/data/example"

    def planned(model: str, name: str = "one") -> Path:
        endpoints = Endpoints(base_url="http://127.0.0.1:9/v1", model=model)
        job = MainJob(data, ["100k"], name, 1, "paper", "", {}, False, endpoints=endpoints)
        (run,) = plan(job, tmp_path).runs
        return run.path()

    part = planned("openai/m")
    part.mkdir(parents=True)
    (part / MODELS).write_bytes((tmp_path / MODELS).read_bytes())
    assert planned("azure/m") == part, "nothing is answered there yet"
    (part / "none").mkdir()
    (part / "none" / "manifest.json").write_text("{}")
    assert planned("openai/m") == part
    with pytest.raises(UserError, match=r"holds answers of openai/m, and the reader m is azure/m now"):
        planned("azure/m")
    assert planned("azure/m", "two") != part
    assert planned("azure/other") != part
