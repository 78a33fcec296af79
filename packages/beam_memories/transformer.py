"""Encode texts by neural models: dense and sparse vectors through sentence-transformers, an optional install.

A model is a folder of safetensors weights, given by its path or its name on the Hugging Face hub. Pickled weights are
never opened, and code of a model is never run. torch and sentence-transformers are imported with the first model.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from beamlib.errors import UserError
from beamlib.retrieval.base import Index, Keys, Scores
from beamlib.retrieval.encoder import Encoder

BATCH = 32
"""Texts per forward pass; larger batches are slower on a CPU."""

SPARSE_BATCH = 8
"""The same for sparse vectors, which take the whole vocabulary for every position: at 512 tokens and 30,522 word pieces
the process grows by 1.0 GB with 8 and by 3.9 GB with 32, in no less time."""

HUB_NAME = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)?")
"""A model by its name on the hub, which is no path."""
HUB_OFFLINE = "HF_HUB_OFFLINE"
"""The environment variable that, at 1, keeps a model that is not in the cache from being fetched."""
HUB_NAMES = {
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "bge-small": "BAAI/bge-small-en-v1.5",
    "bge-large": "BAAI/bge-large-en-v1.5",
}
"""Encoders by short name."""
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")
_NOT_NEEDED = (*_PICKLES, "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.gguf", "onnx/*", "openvino/*", "*.tflite")


class DenseModel:
    """A `SentenceTransformer`: unit vectors in float32, no instruction before queries (as released, section 4).

    The model cuts off text beyond its window (512 tokens for bge-small-en-v1.5).
    """

    def __init__(self, folder: Path, name: str) -> None:
        from sentence_transformers import SentenceTransformer

        self.name = name
        self._model = _load(SentenceTransformer, folder, "encoder")
        self.dim = int(self._model.encode([""], prompt="", show_progress_bar=False).shape[1])

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors of `texts`, float32 of shape (len(texts), dim), rows of length 1."""
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        vectors: NDArray[np.float32] = self._model.encode(
            list(texts),
            prompt="",  # overrides a prefix in the model's settings
            batch_size=BATCH,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        ).astype(np.float32, copy=False)
        _check(vectors, self.name, "encoder")
        return vectors


class SparseModel:
    """A `SparseEncoder` such as SPLADE: a weight per word piece of the vocabulary, most of them 0."""

    def __init__(self, folder: Path, name: str) -> None:
        from sentence_transformers import SparseEncoder

        self.name = name
        self._model = _load(SparseEncoder, folder, "splade")
        self.dim = int(self.encode_query("").shape[1])

    def encode_documents(self, texts: Sequence[str]) -> csr_matrix:
        """Return vectors of `texts`, float32 of shape (len(texts), dim)."""
        return self._rows(self._model.encode_document, texts) if texts else csr_matrix((0, self.dim), dtype=np.float32)

    def encode_query(self, text: str) -> csr_matrix:
        """Return the vector of a question, float32 of shape (1, dim)."""
        return self._rows(self._model.encode_query, [text])

    def _rows(self, encode: Callable[..., Any], texts: Sequence[str]) -> csr_matrix:
        found = encode(
            list(texts), batch_size=SPARSE_BATCH, convert_to_sparse_tensor=True, show_progress_bar=False
        ).coalesce()
        values = found.values().numpy().astype(np.float32, copy=False)
        _check(values, self.name, "splade")
        return csr_matrix((values, found.indices().numpy()), shape=tuple(found.shape))


class SparseVectorIndex(Index):
    """An index of one sparse vector per key; an owner's score is that of its best key."""

    def __init__(self, keys: Keys, encoder: SparseModel) -> None:
        super().__init__(["\n".join(texts) for texts in keys])
        self._encoder = encoder
        self._owners = len(keys)
        self._owner_of = np.array([owner for owner, texts in enumerate(keys) for _ in texts], dtype=np.int64)
        self._vectors = encoder.encode_documents([text for texts in keys for text in texts])

    def scores(self, query: str) -> Scores:
        """Return the highest dot product of the query and a key for each owner; 0 without keys."""
        result = np.zeros(self._owners, dtype=np.float32)
        products = (self._vectors @ self._encoder.encode_query(query).T).toarray().ravel()
        np.maximum.at(result, self._owner_of, products)
        return result


def dense_encoder(name: str) -> Encoder:
    """Load the sentence-transformers model `name`, a hub name or a folder, once per process.

    Raises:
        UserError: It cannot be loaded; the message names the parameter `encoder`.
    """
    return _dense(*_found(name, "encoder"))


def sparse_encoder(name: str) -> SparseModel:
    """Load the `SparseEncoder` called `name`, a hub name or a folder, once per process.

    Raises:
        UserError: It cannot be loaded; the message names the parameter `splade`.
    """
    return _sparse(*_found(name, "splade"))


def sparse_vector_index(keys: Keys, name: str) -> SparseVectorIndex:
    """Index `keys` by the `SparseEncoder` called `name`."""
    return SparseVectorIndex(keys, sparse_encoder(name))


def encoder_name(name: str, parameter: str) -> str:
    """Return a model's name with the start of its weights' SHA-256; the model is fetched but not loaded."""
    return _found(name, parameter)[1]


@cache
def _dense(folder: Path, name: str) -> DenseModel:
    return DenseModel(folder, name)


@cache
def _sparse(folder: Path, name: str) -> SparseModel:
    return SparseModel(folder, name)


@cache
def _found(name: str, parameter: str) -> tuple[Path, str]:
    """Return the folder of a model, and its name with the start of its weights' SHA-256."""
    _need_library(name, parameter)
    name = HUB_NAMES.get(name, name)
    folder = Path(name).expanduser()
    if not name or not folder.is_dir():
        folder = _downloaded(name, parameter)
        label = name
    else:
        folder = folder.resolve()
        label = folder.name
    _check_folder(folder, name, parameter)
    return folder, f"{label}@{_digest(folder)[:12]}"


def _need_library(name: str, parameter: str) -> None:
    try:
        import sentence_transformers  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"{parameter} is {name!r}, which needs sentence-transformers ({error}); install it with "
            "pip install -e '.[models]', or choose a retriever that needs no model."
        ) from None


def _downloaded(name: str, parameter: str) -> Path:
    from huggingface_hub import snapshot_download

    if not HUB_NAME.fullmatch(name):
        raise UserError(
            f"{parameter} is {name!r}, which is no folder and no model name such as BAAI/bge-small-en-v1.5."
        )
    try:
        # Not left to sentence-transformers: offline it takes a minute of retries, and it would fetch pickles.
        offline = os.environ.get(HUB_OFFLINE) == "1"  # asked now: the library does so once, when it is imported
        return Path(snapshot_download(name, ignore_patterns=list(_NOT_NEEDED), local_files_only=offline))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{parameter} is {name!r}, which is neither a folder nor in the cache of models nor could it be fetched "
            f"({_short(error)}); run `hf download {name}` on a connected machine, or give the folder of a copy."
        ) from None


def _check_folder(folder: Path, name: str, parameter: str) -> None:
    """Refuse a folder without a model, or one that needs a pickle or foreign code."""
    pickled = [
        path
        for pattern in _PICKLES
        for path in sorted(folder.rglob(pattern))
        if not any(path.parent.glob("*.safetensors"))
    ]
    if pickled or not any(folder.rglob("*.safetensors")):
        found = f"holds {pickled[0].name}, a pickle, which is never opened," if pickled else "holds no weights"
        raise UserError(
            f"{parameter} is {name!r}, which {found} where model.safetensors is needed; choose a model "
            "with safetensors weights, or convert a copy you trust and give its folder."
        )
    try:
        modules = _json(folder / "modules.json", [])
        kind = str(_json(folder / "config_sentence_transformers.json", {}).get("model_type", "SentenceTransformer"))
        architectures = _json(folder / "config.json", {}).get("architectures") or []
        types = [str(module["type"]) for module in modules]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{parameter} is {name!r}, whose settings cannot be read; fetch the model again.") from None
    for module in types:
        if not module.startswith("sentence_transformers."):
            raise UserError(
                f"{parameter} is {name!r}, which brings code of its own ({module:.80}) that is never run; choose a "
                "model made of sentence-transformers' own modules."
            )
    # sentence-transformers would fill in what is missing: pooling by guesswork, or a layer of random weights.
    if parameter == "encoder" and not (types and kind == "SentenceTransformer"):
        raise UserError(
            f"{parameter} is {name!r}, which is not a saved SentenceTransformer; choose one such as "
            "BAAI/bge-small-en-v1.5, or embedded for the shipped table."
        )
    masked = any(str(architecture).endswith("ForMaskedLM") for architecture in architectures)
    if parameter == "splade" and not (kind == "SparseEncoder" if types else masked):
        raise UserError(
            f"{parameter} is {name!r}, which is neither a saved SparseEncoder nor a masked language model; choose one "
            "such as naver/splade-cocondenser-ensembledistil."
        )


def _json(path: Path, missing: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else missing


def _digest(folder: Path) -> str:
    """Hash the weight file, or all of them in order of their paths."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.safetensors"), key=lambda path: path.relative_to(folder).as_posix()):
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
    return total.hexdigest()


def _load(kind: Callable[..., Any], folder: Path, parameter: str) -> Any:
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    # The CPU: there the same texts give the same bytes, and the GPU, where there is one, is full of the served model.
    try:
        return kind(
            str(folder),
            device="cpu",
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )
    except Exception as error:  # of any kind, from a damaged or foreign folder
        raise UserError(
            f"{parameter} names the model in {folder}, which {kind.__name__} cannot load "
            f"({type(error).__name__}: {_short(error)}); fetch or convert it again."
        ) from None


def _short(error: Exception) -> str:
    return re.split(r"\.\s|\n", str(error).strip())[0][:200].rstrip(".")


def _check(values: NDArray[np.float32], name: str, parameter: str) -> None:
    if not np.isfinite(values).all():
        raise UserError(f"{parameter} is {name!r}, which gives vectors that are not numbers; fetch the model again.")
