"""Dense and sparse encoders through sentence-transformers, with tiny random models made here."""

from __future__ import annotations

import importlib.util
import json
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_memories.transformer import SparseModel, sparse_encoder
from beamlib.errors import UserError
from beamlib.retrieval import Document, Encoders, Index, build_index, dense_encoder, embedded_encoder

installed = importlib.util.find_spec("sentence_transformers") is not None
needs_models = pytest.mark.skipif(not installed, reason="sentence-transformers is not installed (the extra 'models')")

WORDS = (
    *("a", "the", "cat", "dog", "boiler", "cello", "music", "broke", "sings"),
    *("my", "pet", "was", "repaired", "always", "never", "on", "monday"),
)
KEYS = [
    ["the cat sings", "my pet cat"],
    [],
    ["the boiler broke on monday"],
    ["the boiler broke on monday"],
    ["a cello"],
]
TEXTS = [text for texts in KEYS for text in texts]


def key_index(keys: list[list[str]], retriever: str, encoders: Encoders) -> Index:
    return build_index([Document(texts, texts) for texts in keys], retriever, encoders)


def tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import BertProcessing
    from transformers import BertTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    fast = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    fast.pre_tokenizer = Whitespace()
    fast.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return BertTokenizerFast(tokenizer_object=fast, model_max_length=32)


def save_random(kind: str, folder: Path) -> None:
    import torch
    import transformers

    torch.manual_seed(7)
    config = transformers.BertConfig(
        vocab_size=5 + len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    getattr(transformers, kind)(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare BERT as transformers saves it."""
    folder = tmp_path_factory.mktemp("models") / "plain-bert"
    save_random("BertModel", folder)
    return folder


@pytest.fixture(scope="session")
def dense(plain: Path) -> Path:
    """The same BERT as a SentenceTransformer with an instruction that its authors put before every text."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(plain), device="cpu")
    model.prompts, model.default_prompt_name = {"query": "never on monday"}, "query"
    folder = plain.with_name("tiny-dense")
    model.save(str(folder))
    return folder


@pytest.fixture(scope="session")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare masked language model, as SPLADE's authors publish theirs."""
    folder = tmp_path_factory.mktemp("models") / "tiny-splade"
    save_random("BertForMaskedLM", folder)
    return folder


@pytest.fixture
def copied(dense: Path, tmp_path: Path) -> Path:
    """A copy of the dense model to damage."""
    return Path(shutil.copytree(dense, tmp_path / "copied"))


def test_a_missing_install_names_the_parameter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    for model, parameter in ((dense_encoder, "encoder"), (sparse_encoder, "splade")):
        with pytest.raises(UserError, match=rf"^{parameter} is '.*pip install -e '\.\[models\]'"):
            model(str(tmp_path))


def test_the_shipped_table_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert dense_encoder("embedded") is embedded_encoder()
    assert Encoders().used("dense") == Encoders().used("hybrid") == "embedded-minilm-256"
    with pytest.raises(UserError, match="encoder is 'minilm', which needs sentence-transformers"):
        Encoders(dense="minilm").used("hybrid")
    assert Encoders().used("bm25") is None


@needs_models
def test_dense_vectors_are_the_libraries_own(dense: Path) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = dense_encoder(str(dense))
    vectors = encoder.encode(TEXTS)
    assert vectors.dtype == np.float32 and vectors.shape == (len(TEXTS), encoder.dim) == (5, 32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    reference = SentenceTransformer(str(dense), device="cpu").encode(TEXTS, prompt="")
    np.testing.assert_allclose(vectors, reference / np.linalg.norm(reference, axis=1, keepdims=True), atol=1e-5)
    assert encoder.encode([]).shape == (0, 32)


@needs_models
def test_the_name_is_the_folders_and_a_hash_of_the_weights(dense: Path, copied: Path) -> None:
    import hashlib

    digest = hashlib.sha256((dense / "model.safetensors").read_bytes()).hexdigest()
    assert dense_encoder(str(dense)).name == f"tiny-dense@{digest[:12]}"
    assert Encoders(dense=str(copied)).used("dense") == f"copied@{digest[:12]}"


@needs_models
@pytest.mark.parametrize("retriever", ["dense", "splade"])
def test_indexes_rank_by_their_vectors(dense: Path, masked: Path, retriever: str) -> None:
    encoders = Encoders(dense=str(dense), splade=str(masked))
    index = key_index(KEYS, retriever, encoders)
    query = "the boiler was repaired"
    if retriever == "dense":
        encoder = dense_encoder(str(dense))
        similarity = encoder.encode(TEXTS) @ encoder.encode([query])[0]
        least = -1.0
    else:
        sparse = sparse_encoder(str(masked))
        similarity = np.asarray((sparse.encode_documents(TEXTS) @ sparse.encode_query(query).T).todense()).ravel()
        least = 0.0
    expected = [max(similarity[0], similarity[1]), least, similarity[2], similarity[3], similarity[4]]
    hits = index.search(query, 5)
    np.testing.assert_allclose([hit.score for hit in sorted(hits, key=lambda hit: hit.owner)], expected, atol=1e-4)
    places = [hit.owner for hit in hits]
    assert places.index(3) == places.index(2) + 1, "equal texts score alike and stay in order"
    assert places[-1] == 1
    assert hits == key_index(KEYS, retriever, encoders).search(query, 5)
    assert hits[:2] == index.search(query, 2)
    assert len(index.search(query, 9)) == 5


@needs_models
@pytest.mark.parametrize("retriever", ["dense", "splade"])
def test_nothing_is_too_odd_to_be_indexed(dense: Path, masked: Path, retriever: str) -> None:
    encoders = Encoders(dense=str(dense), splade=str(masked))
    assert key_index([], retriever, encoders).search("cat", 3) == []
    assert [hit.owner for hit in key_index([[], []], retriever, encoders).search("cat", 3)] == [0, 1]
    index = key_index([["", "cat " * 5_000], ["日本語 😀"]], retriever, encoders)
    for query in ("", "cat " * 5_000, "nothing known"):
        assert all(np.isfinite(hit.score) for hit in index.search(query, 2))


@needs_models
def test_sparse_vectors_follow_splade(masked: Path) -> None:
    """log(1 + relu(logit)), the largest over a text's positions (Formal et al., 2021)."""
    import torch
    from transformers import BertForMaskedLM

    pieces = tokenizer()(["my pet cat"], return_tensors="pt")
    with torch.inference_mode():
        logits = BertForMaskedLM.from_pretrained(masked).eval()(**pieces).logits[0]
    expected = torch.log1p(torch.relu(logits)).amax(0).numpy()
    encoder = sparse_encoder(str(masked))
    assert isinstance(encoder, SparseModel) and encoder.dim == len(expected)
    for vectors in (encoder.encode_query("my pet cat"), encoder.encode_documents(["my pet cat"])):
        np.testing.assert_allclose(vectors.toarray()[0], expected, atol=1e-5)
    assert encoder.encode_documents([]).shape == (0, encoder.dim)


@needs_models
def test_no_folder_and_no_name() -> None:
    for name in ("", "nowhere/at/all", "/nowhere"):
        with pytest.raises(UserError, match=r"^encoder is .* which is no folder and no model name"):
            dense_encoder(name)


@pytest.fixture
def hub_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache of the hub, offline; asking the network is a failure."""
    from huggingface_hub import constants

    def no_network(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


@needs_models
def test_a_model_in_the_hubs_cache_is_taken_offline(hub_cache: Path, dense: Path) -> None:
    stored, commit = hub_cache / "models--somebody--tiny", "0123456789abcdef" * 2 + "01234567"
    shutil.copytree(dense, stored / "snapshots" / commit)
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text(commit)
    encoder = dense_encoder("somebody/tiny")
    assert encoder.name.startswith("somebody/tiny@")
    np.testing.assert_array_equal(encoder.encode(TEXTS), dense_encoder(str(dense)).encode(TEXTS))


@needs_models
@pytest.mark.usefixtures("hub_cache")
def test_offline_says_so_at_once() -> None:
    with pytest.raises(UserError, match=r"^splade is 'naver/.*hf download naver/.*give the folder"):
        sparse_encoder("naver/splade-cocondenser-ensembledistil")


@needs_models
def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no weights"):
        dense_encoder(str(tmp_path))


@needs_models
def test_a_pickle_is_never_opened(copied: Path, tmp_path: Path) -> None:
    import pickle

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "opened",)

    (copied / "model.safetensors").unlink()
    (copied / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(UserError, match=r"pytorch_model\.bin, a pickle, which is never opened"):
        dense_encoder(str(copied))
    assert not (tmp_path / "opened").exists()


@needs_models
def test_code_that_comes_with_a_model_is_never_run(copied: Path, tmp_path: Path) -> None:
    modules = json.loads((copied / "modules.json").read_text())
    modules[0]["type"] = "custom.Encoder"
    (copied / "modules.json").write_text(json.dumps(modules))
    (copied / "custom.py").write_text(f"open({str(tmp_path / 'opened')!r}, 'w')")
    with pytest.raises(UserError, match=r"code of its own \(custom\.Encoder\)"):
        dense_encoder(str(copied))
    assert not (tmp_path / "opened").exists()


@needs_models
def test_nothing_is_made_up_for_the_wrong_kind_of_model(plain: Path, dense: Path, masked: Path) -> None:
    for folder in (plain, masked):
        with pytest.raises(UserError, match="not a saved SentenceTransformer"):
            dense_encoder(str(folder))
    for folder in (plain, dense):
        with pytest.raises(UserError, match="neither a saved SparseEncoder nor a masked language model"):
            sparse_encoder(str(folder))


@needs_models
@pytest.mark.parametrize(
    "file, content, said",
    [
        ("model.safetensors", b"\x10\0\0\0\0\0\0\0{}", "SentenceTransformer cannot load"),
        ("config.json", b"{", "settings cannot be read"),
        ("config.json", b"[]", "settings cannot be read"),
        ("modules.json", b"\xff", "settings cannot be read"),
        ("modules.json", b'[{"type": 3}]', "code of its own"),
    ],
)
def test_damage_is_one_sentence(copied: Path, file: str, content: bytes, said: str) -> None:
    (copied / file).write_bytes(content)
    with pytest.raises(UserError, match=said) as raised:
        dense_encoder(str(copied))
    assert str(raised.value).startswith("encoder ") and "\n" not in str(raised.value)


@needs_models
def test_weights_that_are_not_numbers(copied: Path) -> None:
    from safetensors.numpy import load_file, save_file

    weights = {name: np.full_like(values, np.nan) for name, values in load_file(copied / "model.safetensors").items()}
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match="vectors that are not numbers"):
        dense_encoder(str(copied)).encode(["cat"])
