"""Keys on file: what looks like one, and the search of a run's files for what the variables hold."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from beamlib.errors import UserError
from beamlib.llm.call_store import CallStore, StoredCall
from beamlib.llm.endpoints import load_models
from beamlib.llm.keys import is_secret, is_variable_name, looks_like_key, refuse_keys, without_key
from beamlib.llm.spending import guard_run

KEY = 'kQ7+vB"x/Lm<2Zt9&c'
NAME = "BEAM_TEST_KEY"


def test_names_of_variables_are_told_from_keys() -> None:
    names = "OPENAI_API_KEY GPT4O_KEY hf_token SK_TELECOM_API_KEY sk_api_key K8S_TOKEN_2 openaiKey"
    assert all(map(is_variable_name, [*names.split(), "_PRIVATE", "AZURE_EASTUS2_KEY", "key", "TOGETHERAIAPIKEY"]))
    keys = [
        *("gsk_Ab3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z", "gsk_abc", "hf_AbCdEfGhIjKlMnOpQrStUvWxYz", "hf_abcdefghijklmnop"),
        *("AKIAIOSFODNN7EXAMPLE", "sk_live_4eC39HqLyjWDarjtT1zdP7dc", "A1B2C3D4E5F60718", "0123456789abcdef0123456789"),
        *("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "xai_abcdefgh", "kX9pQ2mB7vZ", "sk-5f2e8a1b9c3d", "", "A B", "é"),
        "qwertyuiopasdfghjklzxcvb",
    ]
    assert not any(map(is_variable_name, keys))


def test_models_and_addresses_are_no_keys() -> None:
    for text in (
        *("Qwen/Qwen2.5-32B-Instruct-AWQ", "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8", "gpt-4.1-nano"),
        *("hf-internal-testing/tiny-random-LlamaForCausalLM", "ft:gpt-4.1-nano-2025-04-14:my-org:run:BxYzAbC1"),
        *("https://api.runpod.ai/v2/a1b2c3d4e5f6g7/openai/v1", "https://x.openai.azure.com/openai/deployments/nano"),
        *("Qwen2VLForConditionalGeneration", "/models--Qwen/snapshots/0123456789abcdef0123456789abcdef01234567"),
        "task-manager-for-everybody",
    ):
        assert not looks_like_key(text), text


def written(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def search(folder: Path) -> None:
    refuse_keys(folder.rglob("*"), [NAME, "BEAM_TEST_UNSET"])


FORMS = {
    "plain": KEY.encode(),
    "json": json.dumps({"said": f"Bearer {KEY}"}).encode(),
    "url": quote(KEY).encode(),
    "url without a slash": quote(KEY, safe="").encode(),
    "form": quote_plus(KEY).encode(),
    "small url": quote(KEY, safe="").replace("%2B", "%2b").replace("%2F", "%2f").replace("%3C", "%3c").encode(),
    "at the end of a piece": b"." * ((1 << 20) - 7) + KEY.encode(),
    "after many pieces": b"." * (3 << 20) + KEY.encode() + b"." * 100,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_in_any_file_is_found_and_not_repeated(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, KEY + "\n")
    written(tmp_path, "100k/none/answers.jsonl", "an answer")
    written(tmp_path, "empty", "")
    search(tmp_path)
    written(tmp_path, "figures/.hidden.png", b"\x89PNG\0" + FORMS[form])
    with pytest.raises(UserError, match=rf"figures/\.hidden\.png \({NAME}\)") as caught:
        search(tmp_path)
    assert KEY not in str(caught.value) and "answers.jsonl" not in str(caught.value)


def test_a_reply_that_the_store_cuts_into_pages_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite keeps long texts in pages of 4 KB: at some place a key lies on both sides of an edge."""
    monkeypatch.setenv(NAME, KEY)
    for number in range(3_900, 4_092, len(KEY) - 1):
        folder = tmp_path / str(number)
        with CallStore(folder / "1.sqlite") as store:
            store.put(call("x" * 8_000 + KEY + "y" * number))
        if KEY.encode() not in (folder / "1.sqlite").read_bytes():
            break
    with pytest.raises(UserError, match=r"1\.sqlite \(BEAM_TEST_KEY\)"):
        search(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["1.sqlite"]
    assert KEY.encode() not in (folder / "1.sqlite").read_bytes()


def call(text: str) -> StoredCall:
    return StoredCall(
        key="0" * 64,
        role="reader", conversation="1", step="answer", about="q", model="m", base_url="http://127.0.0.1/v1",
        text=text, time="2025-01-01T00:00:00+00:00",
    )  # fmt: skip


def test_names_of_files_and_folders_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "plain-key-0123456789")
    (tmp_path / "a" / "100k-plain-key-0123456789").mkdir(parents=True)
    with pytest.raises(UserError, match=r"a/100k-\[key\] \(BEAM_TEST_KEY\)"):
        search(tmp_path)


@pytest.mark.parametrize("value", ["", "EMPTY", "none", "ollama", "placeholder", "Anything", "NOTNEEDED", "sk-1234"])
def test_what_cannot_be_told_from_other_text_is_no_secret(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, value)
    text = f"Use the placeholder {value}, anything will do"
    written(tmp_path, "answers.jsonl", text)
    search(tmp_path)
    assert not is_secret(value) and without_key(text, value) == text


def test_many_hits_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, KEY)
    for number in range(40):
        written(tmp_path, f"{number:02}.json", KEY)
    with pytest.raises(UserError, match=r"00\.json.*04\.json.* and 35 more; ") as caught:
        search(tmp_path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 2_000


def test_a_run_is_searched_at_its_end_whether_it_went_well_or_not(
    repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = str(repo_root / "params" / "models.yaml")
    monkeypatch.setenv("TOGETHER_API_KEY", KEY)
    run = tmp_path / "run"
    with guard_run(run, load_models(Path(models)), None):  # a run that was refused has no folder
        pass
    for error in (None, UserError("the endpoint is gone.")):
        with (
            pytest.raises(UserError, match=r"calls/1\.json \(TOGETHER_API_KEY\)"),
            guard_run(run, load_models(Path(models))),
        ):
            written(run, "calls/1.json", KEY)
            if error:
                raise error
    with guard_run(run):  # without models no variable is a key's
        pass


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, KEY)
    written(tmp_path, "a.sqlite", b"SQLite format 3\0" + b"?" * 5_000)
    written(tmp_path, "b.sqlite", "no database")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    search(tmp_path)
