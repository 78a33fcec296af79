"""The models file: what it accepts, and that nothing that may be a key is ever repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from beamlib.errors import UserError
from beamlib.models.endpoints import Author, load_models

ENDPOINT = {"model": "tiny", "base_url": "http://127.0.0.1:8000/v1", "context_window": 32_768}
ROLES = ("memory", "compressor", "judge", "aligner")
SECRET = "sk-5f2e8a1b9c3d"


def written(folder: Path, **judge: Any) -> Path:
    roles = {role: dict(ENDPOINT) for role in ROLES}
    roles["judge"] |= judge
    path = folder / "models.yaml"
    path.write_text(yaml.safe_dump({"readers": {"one": ENDPOINT, "two": ENDPOINT}, **roles}))
    return path


def test_the_file_of_the_project_names_the_papers_models(repo_root: Path) -> None:
    found = load_models(repo_root / "params" / "models.yaml")
    assert [reader.model for reader in found.readers.values()] == [
        "Qwen/Qwen2.5-32B-Instruct-AWQ",
        "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8",
        "gemini-2.0-flash",
        "gpt-4.1-nano",
    ]
    assert (found.judge.model, found.compressor.model) == ("gpt-4.1-mini", "gpt-4.1-nano")
    assert "vllm serve Qwen/Qwen2.5-32B-Instruct-AWQ" in (repo_root / "params" / "models.yaml").read_text()


def test_readers_are_chosen_by_name_and_the_first_by_default(tmp_path: Path) -> None:
    found = load_models(written(tmp_path))
    assert found.reader("") is found.readers["one"] and found.reader("two") is found.readers["two"]
    with pytest.raises(UserError, match=r"'three'.*one, two"):
        found.reader("three")


def test_a_method_overrides_fields_of_its_reader(tmp_path: Path) -> None:
    path = written(tmp_path)
    values = yaml.safe_load(path.read_text())
    yarn = {"base_url": "http://127.0.0.1:8001/v1", "context_window": 131_072, "extra": {"top_p": 0.5}}
    values["readers"]["one"] = {**ENDPOINT, "temperature": 0.3, "methods": {"full-context": yarn}}
    path.write_text(yaml.safe_dump(values))
    reader = load_models(path).reader("one")
    assert reader.of("full-context").settings == {**reader.of("rag").settings, **yarn}
    assert reader.of("full-context").temperature == 0.3
    assert reader.of("rag") == reader.of("none") == reader.of("")
    assert "methods" not in reader.of("rag").settings


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"long": {}}, r"readers\.one\.methods\.long' is 'long': .*'full-context', 'rag' or 'light'"),
        ({"rag": {"window": 3}}, r"unknown field 'readers\.one\.methods\.rag\.window'.*context_window"),
        ({"rag": {"context_window": 3}}, r"'readers\.one\.methods\.rag\.context_window' is 3"),
        ({"rag": {"methods": {}}}, r"unknown field 'readers\.one\.methods\.rag\.methods'"),
        ({"rag": 3}, r"'readers\.one\.methods\.rag' is 3"),
        ([], r"'readers\.one\.methods' is \[\]"),
    ],
)
def test_a_mistake_in_a_method_names_it(tmp_path: Path, methods: Any, message: str) -> None:
    path = written(tmp_path)
    values = yaml.safe_load(path.read_text())
    values["readers"]["one"]["methods"] = methods
    path.write_text(yaml.safe_dump(values))
    with pytest.raises(UserError, match=message) as caught:
        load_models(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ({"base_url": "127.0.0.1:8000"}, "judge.base_url"),
        ({"base_url": "http://127.0.0.1:99999/v1"}, "judge.base_url"),
        ({"base_url": "http://a\x01.invalid/v1"}, "judge.base_url"),
        ({"base_url": "file:///etc/passwd"}, "judge.base_url"),
        ({"context_window": "large"}, "judge.context_window"),
        ({"context_window": 0}, "judge.context_window"),
        ({"input_price": -1.0}, "judge.input_price"),
        ({"input_price": float("inf")}, "judge.input_price"),
        ({"concurrency": 0}, "judge.concurrency"),
        ({"temperature": 3.0}, "judge.temperature"),
        ({"limit_field": "max_words"}, "judge.limit_field"),
        ({"nosuch": 1}, "unknown field 'judge.nosuch'"),
        ({"extra": {"stream": True}}, "'stream'"),
        ({"extra": {"messages": []}}, "'messages'"),
    ],
)
def test_a_mistake_names_file_role_and_field(tmp_path: Path, judge: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_models(written(tmp_path, **judge))
    assert message in str(caught.value) and "models.yaml" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "judge",
    [
        {"api_key": SECRET},
        {"key": SECRET},
        {"token": SECRET},
        {"key_variable": SECRET},
        {"base_url": f"https://user:{SECRET}@api.invalid/v1"},
        {"base_url": f"https://api.invalid/v1?key={SECRET}"},
    ],
)
def test_a_key_in_the_file_is_refused_and_not_repeated(tmp_path: Path, judge: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        load_models(written(tmp_path, **judge))
    assert not any(part in str(caught.value) for part in (SECRET[:6], SECRET[-6:]))


def test_authors_are_optional_and_the_planner_stands_in_for_the_others(tmp_path: Path, repo_root: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(UserError, match=r"models\.yaml: 'authors\.asker' is missing") as caught:
        load_models(path).author("asker")
    assert "\n" not in str(caught.value)
    values = yaml.safe_load(path.read_text())
    authors = {"planner": ENDPOINT, "speaker": {**ENDPOINT, "model": "talker"}}
    path.write_text(yaml.safe_dump({**values, "authors": authors}))
    found = load_models(path)
    assert found.author("speaker").model == found.author("detector").model == "talker"
    for role in ("titler", "narrator", "augmenter", "asker", "prober"):
        assert found.author(role) is found.authors["planner"]
    path.write_text(yaml.safe_dump({**values, "authors": {"speaker": ENDPOINT}}))
    with pytest.raises(UserError, match=r"'authors\.prober' is missing.*planner at least"):
        load_models(path).author("prober")
    path.write_text(yaml.safe_dump({**values, "authors": {"writer": ENDPOINT}}))
    with pytest.raises(UserError, match=r"'authors\.writer'.*planner"):
        load_models(path)
    ours = load_models(repo_root / "params" / "models.yaml")
    names = {role: author.model for role, author in ours.authors.items()}
    assert set(names) == set(get_args(Author))
    assert names["planner"] == names["prober"] == "gpt-4.1-mini" and names["titler"] == names["augmenter"] == "gpt-4.1"
    assert "Llama-3.3-70B" in names["asker"] and names["narrator"] == names["asker"]
    assert names["speaker"] == names["detector"] == "Qwen/Qwen2.5-32B-Instruct-AWQ"
    warm = {role for role, author in ours.authors.items() if author.temperature == 0.1}
    assert warm == {"planner", "asker", "speaker"}  # section 4.1: plans, user turns, assistant turns; 0 for the rest
    assert {author.temperature for role, author in ours.authors.items() if role not in warm} == {0.0}


@pytest.mark.parametrize("text", ["", "[]", "readers: {}", "readers: [a", "judge: 3"])
def test_what_is_no_models_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "models.yaml").write_text(text)
    with pytest.raises(UserError, match=r"models\.yaml"):
        load_models(tmp_path / "models.yaml")
