"""Whatever a result file holds: a run that can be scored, or one sentence and nothing written."""

from __future__ import annotations

import copy
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from published_results import FILES, LINES, mem0, neutral, written

from beam_field import importing
from beam_field.importing import read_runs, write_runs
from beamlib.errors import UserError
from beamlib.evaluate.beam_records import stored_judgements
from beamlib.scoring.protocols import PROTOCOLS, REPORTED
from beamlib.scoring.scores import score_run, summarise
from commands import Call

ODD = [
    None, True, -1, 2, 0.3, 1e308, 10**40, "", "x" * 200, "\ud800", "../../x", "\x1b[31m", [], {}, [[]], {"a": 1},
    ["b"],
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything in a value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, child in children for found in places(child, (*path, key)))]


def changed(value: Any, path: tuple[Any, ...], change: str, odd: Any) -> Any:
    """A copy with one place replaced, removed or doubled."""
    if not path:
        return odd
    value = copy.deepcopy(value)
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    if change == "replace":
        parent[path[-1]] = odd
    elif change == "double" and isinstance(parent, list):
        parent.append(copy.deepcopy(parent[path[-1]]))
    else:
        del parent[path[-1]]
    return value


@pytest.mark.quick("records", "amb", "honcho")
@pytest.mark.parametrize("form", FILES)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_file_is_a_run_or_one_sentence(
    form: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, table: Path
) -> None:
    folder = tmp_path_factory.mktemp("changed")
    values = copy.deepcopy(FILES[form])
    which = data.draw(st.integers(0, len(values) - 1))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(values[which])))
        change, odd = data.draw(st.sampled_from(["replace", "remove", "double"])), data.draw(st.sampled_from(ODD))
        values[which] = changed(values[which], path, change, odd)
    paths = [folder / f"{number}.json" for number in range(len(values))]
    for path, value in zip(paths, values, strict=True):
        path.write_text(written(value, form in LINES and isinstance(value, list)))
    named = data.draw(st.sampled_from(["", form]))
    run = folder / "run"
    try:
        arms = read_runs(paths, named, table=table)
        folders = write_runs(arms, run)
    except UserError as error:
        assert len(str(error)) < 4_000 and "\n" not in str(error)
        assert not run.exists()
        return
    for place, one in zip(folders, arms, strict=True):
        assert place.resolve().is_relative_to(run.resolve())
        assert stored_judgements(place) == list(one.judgements)
        for protocol in PROTOCOLS | REPORTED:
            means = summarise(score_run(one.judgements, protocol))["mean"].dropna()
            assert means.between(0, 1).all()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b" \n\n ", "the file is empty"),
        (b"\x1f\x8b\x08\x00broken", "a damaged gzip file"),
        (gzip.compress(b"x" * 4_000_000), "unpacks to more than"),
        (b"x" * 2_000_000, "more than 1,000,000 bytes"),
        (b"[" + b"{}," * 20_000 + b"{}]", "too many values"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"evaluations": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}", "nested too deeply"),
        (b'{"evaluations": 1, "evaluations": 2}', "occurs twice"),
        (b'{"evaluations": ' + b"9" * 9_000 + b"}", "a number too long"),
        (b'{"results": 3, "memory_provider": "m"}', "field 'results' is 3; expected a list"),
        (b"[]", "not one of the known formats"),
        (b'"text"', "not one of the known formats"),
        (b'{"format": "beam-results/2"}', "not one of the known formats"),
        (b'{"id": "1", "question": "q", "answer": "a"}\n{"id": "1", "question": "q", "answer": "b"}', "twice"),
        (b'{"id": "1", "question": "q", "answer": "a"}\n{oops', "line 2"),
        (b'{"id": "1", "question": "q", "answer": "a"}\n[1]', "line 2 is no JSON object"),
    ],
)
def test_a_broken_file_gets_one_sentence(
    content: bytes, said: str, tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "MOST_RESULT_BYTES", 1_000_000)
    monkeypatch.setattr(importing, "_MOST_VALUES", 30_000 if b"{}," in content else 1_000_000)
    path = tmp_path / "theirs.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=said) as raised:
        read_runs([path], table=table)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("field", ["score", "nuggets", "scroe"])
def test_a_score_off_the_scale_and_a_misspelt_field_are_refused(field: str, tmp_path: Path, table: Path) -> None:
    path = tmp_path / "theirs.jsonl"
    for score in (1.5, -0.5, "1", True, 10**400, [1]):
        rows = neutral()
        rows[2][field] = [score, 0, 1] if field == "nuggets" else score
        path.write_text(written(rows, True))
        with pytest.raises(UserError, match=f"line 3: field '{field}.*publishing-results"):
            read_runs([path], table=table)


def test_names_are_plain(tmp_path: Path, table: Path) -> None:
    """Neither a cutoff, a reader, a system nor a file leaves the run folder or reaches a terminal unescaped."""
    value = mem0()
    value["metadata"]["answerer_model"] = "../../\x1b[2J<script>"
    for entry in value["evaluations"]:
        entry["cutoff_results"] = {"../../../etc\n": entry["cutoff_results"]["top_200"]}
    path = tmp_path / os.fsdecode(b"caf\xe9 \x1b[2J.json")
    path.write_text(json.dumps(value))
    arms = read_runs([path], table=table)
    (folder,) = write_runs(arms, tmp_path / "run")
    assert folder.relative_to(tmp_path / "run").parts == ("1m-2J-script-imported", "imported-mem0-..-..-..-etc")
    assert list(arms[0].imported.files) == ["caf\ufffd \x1b[2J.json"]


def test_what_is_no_file_and_many_runs_are_refused(tmp_path: Path, table: Path, called: Call) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", "folder", "pipe"):
        done = called("import", tmp_path / name, "--check")
        assert done.returncode == 2 and "no such file" in done.stderr
    value = mem0()
    first = value["evaluations"][0]
    first["cutoff_results"] = {f"top_{n}": first["cutoff_results"]["top_10"] for n in range(101)}
    (tmp_path / "theirs.json").write_text(json.dumps(value))
    with pytest.raises(UserError, match="102 runs, more than the 100"):
        read_runs([tmp_path / "theirs.json"], table=table)
