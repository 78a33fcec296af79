"""The download of the released episodes: one pinned revision, pinned bytes, and one sentence where either fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from episodes_made import BOTH, as_text

from beam_meme.episode_files import load_episodes
from beam_meme.episodes import VARIANTS
from beam_meme.meme_hub import EPISODES_REVISION, PINNED_EPISODES, REPOSITORY, EpisodesFile, download_episodes
from beamlib.errors import UserError
from beamlib.files import read_json, sha256

GOOD = as_text(BOTH).encode()
PIN = {"nofiller": EpisodesFile("meme_nofiller.json", sha256(GOOD))}


class Hub:
    """Stands in for `hf_hub_download`: serves bytes, or fails."""

    def __init__(self, content: bytes | Exception) -> None:
        self.content, self.calls = content, list[tuple[str, ...]]()

    def __call__(self, repository: str, name: str, **options: Any) -> str:
        self.calls.append((repository, name, options["revision"], options["repo_type"]))
        if isinstance(self.content, Exception):
            raise self.content
        path = Path(options["local_dir"]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.content)
        return str(path)


def serve(monkeypatch: pytest.MonkeyPatch, content: bytes | Exception) -> Hub:
    hub = Hub(content)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", hub)
    return hub


def test_a_variant_is_fetched_once_at_the_pinned_revision_and_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = serve(monkeypatch, GOOD)
    folder = download_episodes(tmp_path / "meme", ["nofiller"], PIN)
    assert hub.calls == [(REPOSITORY, "meme_nofiller.json", EPISODES_REVISION, "dataset")]
    assert read_json(folder / "manifest.json")["meme_nofiller.json"] == {
        "repository": REPOSITORY,
        "revision": EPISODES_REVISION,
        "sha256": sha256(GOOD),
        "bytes": len(GOOD),
    }
    assert [one.variant for one in load_episodes(folder, "nofiller")] == ["nofiller", "nofiller"]
    download_episodes(folder, ["nofiller"], PIN)
    assert len(hub.calls) == 1
    (folder / "meme_nofiller.json").write_text("[]")
    download_episodes(folder, ["nofiller"], PIN)
    assert len(hub.calls) == 2 and (folder / "meme_nofiller.json").read_bytes() == GOOD


def test_other_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, b"[]")
    with pytest.raises(UserError, match=r"the SHA-256 is .* is pinned for revision 03932fd33a08"):
        download_episodes(tmp_path, ["nofiller"], PIN)
    assert not (tmp_path / "manifest.json").exists()


def test_a_file_that_was_not_downloaded_here_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = serve(monkeypatch, GOOD)
    (tmp_path / "meme_nofiller.json").write_text("mine")
    with pytest.raises(UserError, match="was not generated here"):
        download_episodes(tmp_path, ["nofiller"], PIN)
    assert not hub.calls and (tmp_path / "meme_nofiller.json").read_text() == "mine"


@pytest.mark.parametrize("error", [OSError("no route\nto host"), ConnectionError(), TimeoutError("slow")])
def test_a_failed_download_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    serve(monkeypatch, error)
    with pytest.raises(UserError, match="could not be downloaded") as caught:
        download_episodes(tmp_path, ["nofiller"], PIN)
    assert "\n" not in str(caught.value) and not (tmp_path / "manifest.json").exists()


def test_every_variant_is_pinned_by_full_hashes() -> None:
    assert tuple(PINNED_EPISODES) == VARIANTS and len(EPISODES_REVISION) == 40
    assert len({file.sha256 for file in PINNED_EPISODES.values()}) == 3
    assert all(len(file.sha256) == 64 for file in PINNED_EPISODES.values())
    with pytest.raises(UserError, match="no variant 'filler32k' is pinned; choose of nofiller"):
        download_episodes(Path("nowhere"), ["filler32k"], PIN)
