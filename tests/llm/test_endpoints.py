"""The models file: what it accepts, and that nothing that may be a key is ever repeated."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from beamlib.errors import UserError
from beamlib.llm.endpoints import Author, Endpoint, load_models, parse_models

ENDPOINT = {"model": "tiny", "base_url": "http://127.0.0.1:8000/v1", "context_window": 32_768}
ROLES = ("memory", "compressor", "judge", "aligner")
SECRET = "sk-5f2e8a1b9c3d"
GROQ = "gsk_Ab3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"
HEX = "7f3a91c05be24d688e0fa1b2c3d4e5f6"
KEYS = (SECRET, GROQ, HEX)


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


def test_a_price_that_is_not_set_is_unknown_and_never_nothing() -> None:
    plain = {"model": "m", "base_url": "http://127.0.0.1:1/v1", "context_window": 4096}
    assert Endpoint(**plain).dollars(10, 0, 10) is None
    assert Endpoint(**plain).dollars(0, 0, 0) is None
    assert Endpoint(**plain, input_price=1.0).dollars(10, 0, 0) is None
    assert Endpoint(**plain, input_price=1.0, output_price=0.0).dollars(1_000_000, 500_000, 0) == 1.0
    assert Endpoint(**plain, input_price=0.0, output_price=0.0).dollars(10, 0, 10) == 0.0


def test_a_mistake_in_a_method_names_it(tmp_path: Path) -> None:
    path = written(tmp_path)
    values = yaml.safe_load(path.read_text())
    for methods, message in (
        ({"rag": {"window": 3}}, r"unknown field 'readers\.one\.methods\.rag\.window'.*context_window"),
        ({"rag": {"context_window": 3}}, r"'readers\.one\.methods\.rag\.context_window' is 3"),
        ([], r"'readers\.one\.methods' is \[\]"),
    ):
        values["readers"]["one"]["methods"] = methods
        path.write_text(yaml.safe_dump(values))
        with pytest.raises(UserError, match=message):
            load_models(path)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ({"base_url": "127.0.0.1:8000"}, "judge.base_url"),
        ({"base_url": "http://127.0.0.1:99999/v1"}, "judge.base_url"),
        ({"base_url": "file:///etc/passwd"}, "judge.base_url"),
        ({"context_window": "large"}, "judge.context_window"),
        ({"input_price": -1.0}, "judge.input_price"),
        ({"concurrency": 0}, "judge.concurrency"),
        ({"temperature": 3.0}, "judge.temperature"),
        ({"limit_field": "max_words"}, "judge.limit_field"),
        ({"nosuch": 1}, "unknown field 'judge.nosuch'"),
        ({"extra": {"stream": True}}, "'stream'"),
        ({"extra": {"a": {"b": float("nan")}}}, "what JSON can carry"),
        ({"extra": {"since": date(2020, 1, 1)}}, "what JSON can carry"),
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
        {"key_variable": SECRET},
        {"base_url": f"https://user:{SECRET}@api.invalid/v1"},
        {"base_url": f"https://api.invalid/v1?key={SECRET}"},
        {"base_url": f"https://api.invalid/v1#{SECRET}"},
        {"base_url": f"https://api.invalid/{SECRET}/v1"},
        {"base_url": f"https://api.invalid/v1/{''.join(f'%{ord(c):x}' for c in GROQ)}"},
        {"base_url": f"https://api.invalid/v1;key={HEX}"},
        {"base_url": "https://api.invalid/v1;api_key=anything"},
        {"base_url": "https://api.invalid/token/anything/v1"},
        {"base_url": f"https://{SECRET}.api.invalid/v1"},
        {"base_url": SECRET},
        {"key_variable": GROQ},
        {"key_variable": "hf_AbCdEfGhIjKlMnOpQrStUvWxYz"},
        {"key_variable": "AKIAIOSFODNN7EXAMPLE"},
        {"key_variable": f"${{{GROQ}}}"},
        {"extra": {"api_key": "anything"}},
        {"extra": {"headers": {"Authorization": "Basic abc"}}},
        {"extra": {"extra_body": [{"x": {"password": 123456}}]}},
        {"extra": {"metadata": {"note": f"Bearer {SECRET}"}}},
        {"extra": {"user": HEX}},
        {"extra": {GROQ: True}},
        {"model": SECRET},
        {GROQ: 1},
        {"limit_field": GROQ},
        {"seed": GROQ},
    ],
)
def test_a_key_in_the_file_is_refused_and_not_repeated(tmp_path: Path, judge: dict[str, Any]) -> None:
    path = written(tmp_path, **judge)
    for load in (lambda: load_models(path), lambda: parse_models(yaml.safe_load(path.read_text()), "--base-url")):
        with pytest.raises(UserError, match="judge") as caught:
            load()
        assert not any(part in str(caught.value) for key in KEYS for part in (key[:6], key[-6:]))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        f"# {SECRET}\n",
        f"judge: {{}}  # was {GROQ}\n",
        f"readers: {{{GROQ}: {{}}}}\n",
        f"key_variable: {SECRET}: x\n",
        f"key_variable: *{GROQ}\n",
        f'key_variable: "\\q{SECRET}"\n',
        "a: &a [*a]\n",
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
    ],
)
def test_nor_is_one_in_a_comment_a_name_or_a_line_that_is_no_yaml(tmp_path: Path, text: str) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text() + text)
    with pytest.raises(UserError, match=r"models\.yaml") as caught:
        load_models(path)
    assert not any(part in str(caught.value) for key in KEYS for part in (key[:6], key[-6:]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["comment", "extra", "model", "path"])
def test_the_value_of_a_variable_of_the_file_is_refused_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    key = "swordfish-and-chips"
    monkeypatch.setenv("BEAM_TEST_KEY", key)
    judge = {"extra": {"extra": {"user": key}}, "model": {"model": key}, "path": {"base_url": f"http://a.b/{key}/v1"}}
    path = written(tmp_path, key_variable="BEAM_TEST_KEY", **judge.get(place, {}))
    path.write_text(path.read_text() + (f"# {key}\n" if place == "comment" else ""))
    models = load_models(path)
    assert os.environ["BEAM_TEST_KEY"] == key, "reading a file changes nothing"
    with pytest.raises(UserError, match=r"models\.yaml: it contains the value of BEAM_TEST_KEY") as caught:
        models.take_keys()
    assert key not in str(caught.value)
    assert "BEAM_TEST_KEY" not in os.environ


def test_fields_that_sound_like_keys_and_are_none_may_stand(tmp_path: Path) -> None:
    extra = {
        "prompt_cache_key": "beam", "max_tokens_per_document": 5, "stop_token_ids": [1, 2], "return_token_ids": True,
        "response_format": {"json_schema": {"properties": {"key": {"type": "string"}, "token": {"type": "string"}}}},
        "chat_template_kwargs": {"enable_thinking": False, "eos_token": "</s>"},
    }  # fmt: skip
    assert load_models(written(tmp_path, extra=extra)).judge.extra == extra


def test_a_kept_models_file_is_the_same_without_its_comments(tmp_path: Path, repo_root: Path) -> None:
    source = repo_root / "params" / "models.yaml"
    found = load_models(source)
    kept = found.save(tmp_path / "run")
    assert load_models(kept).model_dump() == found.model_dump()
    assert "#" in source.read_text() and "#" not in kept.read_text()
    assert found.key_variables == {"TOGETHER_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"}


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
    assert {role for role, _ in load_models(path).by_stored_role()} >= {"speaker", "detector"}  # so both have prices
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
    assert warm == {
        "planner",
        "augmenter",
        "asker",
        "speaker",
    }  # section 4.1: plans, user turns, assistant turns; 0 for the rest
    assert {author.temperature for role, author in ours.authors.items() if role not in warm} == {0.0}


@pytest.mark.parametrize("text", ["", "[]", "readers: {}", "readers: [a", "judge: 3"])
def test_what_is_no_models_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "models.yaml").write_text(text)
    with pytest.raises(UserError, match=r"models\.yaml"):
        load_models(tmp_path / "models.yaml")
