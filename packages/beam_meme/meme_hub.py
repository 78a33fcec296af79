"""The hub dataset `meme-benchmark/MEME`: pinned download of its three files (section 2.1 of the fact sheet)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beam_meme.episodes import VARIANTS
from beamlib.errors import UserError
from beamlib.files import inside, read_json, sha256_of_file, write_json
from beamlib.places import refuse_data

REPOSITORY = "meme-benchmark/MEME"
EPISODES_REVISION = "03932fd33a08debf182ad01a47504024201d86f2"
_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class EpisodesFile:
    """A file of the dataset at `EPISODES_REVISION`."""

    name: str
    sha256: str


PINNED_EPISODES: Mapping[str, EpisodesFile] = {
    "nofiller": EpisodesFile("meme_nofiller.json", "1687d028cc1638986df9f58f0c3f072f614cf13d72a791541b4439fddf701636"),
    "filler32k": EpisodesFile(
        "meme_filler32k.json", "a88d28374a002b3e5b1683fb7201d06a1ce739d2ebf94c971c37bb65cf6ebdd3"
    ),
    "filler128k": EpisodesFile(
        "meme_filler128k.json", "eb861f866dde067e6c7ea6db9bdf17b83a56cdc578dcca57d9d8809dc22747fe"
    ),
}
"""Revision and hashes as several public projects that downloaded the files recorded them independently (2026).

Not tried: we have no such file."""


def download_episodes(
    folder: Path, variants: Sequence[str] = VARIANTS, pinned: Mapping[str, EpisodesFile] = PINNED_EPISODES
) -> Path:
    """Fetch the files of `variants` into `folder` and give the folder back.

    Files that are there with the right hash are not fetched again. `manifest.json` is written last and lists what has
    been verified. Anything that goes wrong is one `UserError`.
    """
    for variant in variants:
        if variant not in pinned:
            raise UserError(f"{folder}: no variant {variant!r:.40} is pinned; choose of {', '.join(pinned)}.")
    ours = read_json(folder / _MANIFEST) if (folder / _MANIFEST).exists() else {}
    if not ours:  # else it is a folder that was filled here
        refuse_data(folder)
    for variant in variants:
        file = pinned[variant]
        path = inside(folder, file.name)
        if path.is_file() and sha256_of_file(path) == file.sha256:
            continue
        if path.exists() and file.name not in ours:
            raise UserError(f"{path}: neither the pinned file nor one that was downloaded here; move it away.")
        _fetch(folder, file)
        found = sha256_of_file(path)
        if found != file.sha256:
            raise UserError(
                f"{path}: the SHA-256 is {found[:12]}… where {file.sha256[:12]}… is pinned for revision "
                f"{EPISODES_REVISION[:12]}; delete the file and try again."
            )
    write_json(
        folder / _MANIFEST, {file.name: _verified(folder, file) for file in pinned.values() if _held(folder, file)}
    )
    return folder


def _fetch(folder: Path, file: EpisodesFile) -> None:
    from huggingface_hub import hf_hub_download  # here, because importing it takes longer than most commands

    try:
        hf_hub_download(REPOSITORY, file.name, repo_type="dataset", revision=EPISODES_REVISION, local_dir=folder)
    except Exception as error:  # the hub client raises OSError, httpx and own errors, differently by version
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"{folder}: {file.name} of {REPOSITORY} could not be downloaded "
            f"({type(error).__name__}: {reason[:300].rstrip('.')}); check the connection and try again, "
            "or put the file there yourself."
        ) from error


def _held(folder: Path, file: EpisodesFile) -> bool:
    path = folder / file.name
    return path.is_file() and sha256_of_file(path) == file.sha256


def _verified(folder: Path, file: EpisodesFile) -> dict[str, object]:
    return {
        "repository": REPOSITORY,
        "revision": EPISODES_REVISION,
        "sha256": file.sha256,
        "bytes": (folder / file.name).stat().st_size,
    }
