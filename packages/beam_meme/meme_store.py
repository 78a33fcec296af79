"""A run's results on MEME on file: `<run>/meme/<variant>/<memory>/episode_<id>.json`, and their manifest.

What is taken over, and what is made again, is said in `beamlib.evaluate.run_store`: a folder has one part, and a unit
is an episode by its id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from beam_meme.episode_results import EpisodeId, EpisodeResults, check_id, read_episode
from beam_meme.episode_running import PROMPT
from beam_meme.episodes import VARIANTS
from beam_meme.meme_memories import EVOLVING, MEMORIES, OVER_SESSIONS, TOP_SESSIONS, MemeMemory, arm_of
from beam_meme.stage_tokens import STAGES, Spent, Stage
from beam_memories.programs import own_settings
from beam_suite.orders import STAND_IN, counted, reader_name
from beamlib.errors import UserError
from beamlib.evaluate.calling import ResolvedParameters, identities
from beamlib.evaluate.run_store import (
    ANSWER_CODE,
    Made,
    RunStore,
    Vouched,
    combined_hash,
    made_by,
    prompt_hashes,
    read_manifest,
    settings_of,
)
from beamlib.files import code_hash, inside, sha256, to_json, write_text
from beamlib.llm.prompts import prompt_ids

PART = "meme"
"""The part of a run folder, and of its call stores, that belongs to this benchmark."""

UNKNOWN = "episodes"
"""In place of a variant's name, where that is not known."""

MANIFEST = "run.json"
RESULTS = "results"
"""The one part of a folder."""

_FILE = "episode_{}.json"
_OWN_CODE = (
    "beam_memories.evolving",
    *(
        f"beam_meme.{name}"
        for name in ("episode_conversation", "episode_running", "episodes", "meme_memories", "stage_tokens")
    ),
)
_RETRIEVAL = ("retriever", "encoder", "splade", "k", "reader_window")
_SETTINGS: Mapping[MemeMemory, tuple[str, ...]] = {
    "full-context": ("full_context_window",),
    "own": ("full_context_window", "memory_timeout"),
    "bm25": ("reader_window",),
    "dense": ("encoder", "reader_window"),
    "rag": _RETRIEVAL,
    "light": (
        *_RETRIEVAL, "working_pairs", "context_budget", "episodic_share", "working_share", "scratchpad_threshold",
        "scratchpad_target", "chunk_percentile", "chunk_buffer",
    ),
    **dict.fromkeys(EVOLVING, ("reader_window", "retriever", "k")),
}  # fmt: skip
_PROMPTS: Mapping[MemeMemory, tuple[str, ...]] = {
    "light": ("episodic_keys", "scratchpad_"),
    **dict.fromkeys(EVOLVING, ("file_memory_", "wiki_", "dependency_")),
}
"""How the prompts of a memory's own begin."""

_ROLES: Mapping[MemeMemory, tuple[str, ...]] = {
    "light": ("reader", "memory", "compressor"),
    **dict.fromkeys(EVOLVING, ("reader", "memory")),
}


class EpisodeRecord(BaseModel):
    """An episode that a memory has finished: hashes of what was asked and of what was made, and what came of the calls.

    `unscored` counts answers that are missing by their reason, `gaps` those from a memory that lacks a reply of its
    model. `transient`: a failure among them may pass, and a run that records asks again.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    results_sha256: str
    answers: int
    unscored: dict[str, int]
    gaps: int
    transient: bool
    spent: dict[Stage, Spent]


class MemeManifest(BaseModel):
    """`run.json`. `key` hashes all that an answer depends on besides its episode.

    `reader` is the backbone's name in the models file, or `offline` of the stand-in; `models` says what each role was
    answered by, the stand-in in so many words: not a language model. `variant` is that of the data (`nofiller`, ...),
    empty where it is not known.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    suite: Literal["meme"] = "meme"
    arm: MemeMemory
    variant: str = Field(max_length=100)
    reader: str
    models: dict[str, dict[str, Any]]
    key: str
    settings: dict[str, Any]
    prompts: dict[str, str]
    n: int
    answers: int
    unscored: dict[str, int]
    gaps: int
    spent: dict[Stage, Spent]
    data_sha256: str
    episodes: dict[EpisodeId, EpisodeRecord]
    code_sha256: str
    package_version: str
    commit: str


def variant_folder(run: Path, variant: str, reader: str = STAND_IN) -> Path:
    """Where a run folder has what a reader answered about a variant: `<run>/meme/<variant>`, a model's `-<reader>`.

    What is none of the known variants has one place together.
    """
    part = _part(variant)
    return inside(run, PART, part if reader == STAND_IN else f"{part}-{reader}")


def results_folder(run: Path, variant: str, reader: str = "") -> Path:
    """The same of the reader named, or else of the only one that there is; `UserError` where there are several."""
    if reader:
        return variant_folder(run, variant, reader)
    part = _part(variant)
    there = {path.parent.parent for path in run.glob(f"{PART}/{part}*/*/{MANIFEST}")}
    found = sorted(path for path in there if path.name == part or path.name.startswith(f"{part}-"))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UserError(f"{run / PART}: holds answers of several readers ({names}); name one with --backbone.")
    return found[0] if found else variant_folder(run, variant)


def _part(variant: str) -> str:
    return variant if variant in VARIANTS else UNKNOWN


def arm_basis(arm: MemeMemory, parameters: ResolvedParameters) -> dict[str, Any]:
    """What an answer depends on besides its episode: `models`, `settings`, `prompts`, `code_sha256`, `key` of all."""
    settings = settings_of(parameters, (*_SETTINGS.get(arm, ()), "token_counter"))
    if arm in ("rag", "light"):
        settings["released"] = sorted(parameters.flags)
    if arm in OVER_SESSIONS:
        settings["sessions"] = TOP_SESSIONS
    if arm == "own":
        settings |= own_settings(arm_of(arm, parameters).name, parameters.own_memory)
    models = identities(parameters, arm)
    begun = _PROMPTS.get(arm, ())
    names = (PROMPT, *(name for name in prompt_ids() if begun and name.startswith(begun)))
    basis: dict[str, Any] = {
        "arm": arm,
        "models": {role: models[role] for role in _ROLES.get(arm, ("reader",))},
        "settings": settings,
        "prompts": prompt_hashes(parameters, names),
        "code_sha256": code_hash((*ANSWER_CODE, *_OWN_CODE)),
    }
    return {**basis, "key": sha256(to_json(basis))}


def made(results: EpisodeResults) -> Made[EpisodeResults]:
    """Results that are on file or come to it."""
    transient = any(one.answer.transient for one in results.answers)
    return Made(results, results.sha256, to_json(results.model_dump(mode="json")), transient)


class MemeFolder(RunStore[MemeManifest, EpisodeResults]):
    """One memory's results."""

    name = MANIFEST
    every = 2.0

    def __init__(self, arm: MemeMemory, parameters: ResolvedParameters, variant: str = "") -> None:
        basis = arm_basis(arm, parameters)
        self._begun: dict[str, Any] = {"reader": reader_name(parameters), "variant": variant, **basis, **made_by()}
        place = variant_folder(Path(parameters.run), variant, reader_name(parameters))
        super().__init__(place / arm, {RESULTS: basis["key"]})
        self.arm = arm

    @property
    def done(self) -> dict[str, Made[EpisodeResults]]:
        """What has been made, by the episode's id."""
        return self.made[RESULTS]

    def find(self) -> MemeManifest | None:
        """The manifest; `UserError` where it is another reader's or data's, or files lie there that are someone's own.

        What has been paid for is not replaced by another reader's without a word.
        """
        if not (self.folder / MANIFEST).exists():
            if any(self.folder.glob(_FILE.format("*"))):
                raise UserError(
                    f"{self.folder}: holds results that no {MANIFEST} speaks of; move them away, then run again."
                )
            return None
        manifest = read_manifest(self.folder / MANIFEST, MemeManifest)
        for what in ("arm", "reader", "variant"):
            said, own = getattr(manifest, what), self._begun[what]
            if said != own:
                raise UserError(
                    f"{self.folder / MANIFEST}: its {what} is {said!r:.60} where this run's is {own!r:.60}; give this "
                    "run another name."
                )
        return manifest

    def vouched(self, manifest: MemeManifest) -> Mapping[str, Vouched]:
        """The results of each episode."""
        hashes = {episode: record.results_sha256 for episode, record in manifest.episodes.items()}
        return {RESULTS: Vouched(manifest.key, hashes, {})}

    def read(self, manifest: MemeManifest, parts: Collection[str]) -> Mapping[str, Mapping[str, Made[EpisodeResults]]]:
        """The results on file; what is gone or damaged is not among them."""
        found: dict[str, Made[EpisodeResults]] = {}
        for episode in manifest.episodes if parts else ():
            with suppress(UserError):
                found[episode] = made(read_episode(episode_file(self.folder, episode)))
        return dict.fromkeys(parts, found)

    def begin(self) -> None:
        """Make the folder, with a manifest: a run killed after its first file has to know it for its own."""
        super().begin()
        if not (self.folder / MANIFEST).exists():
            self.write_manifest()

    def write(self, unit: str) -> None:
        """Write an episode's results."""
        write_text(episode_file(self.folder, unit), self.done[unit].text + "\n")

    def close(self) -> MemeManifest:
        """Write the manifest, and drop the files that it cannot vouch for."""
        known = {episode_file(self.folder, episode) for episode in self.done}
        for file in self.folder.glob(_FILE.format("*")):
            if file not in known:
                file.unlink()
        return self.write_manifest()

    def manifest(self) -> MemeManifest:
        """The manifest of the results there are by now."""
        records = {episode: _record(self.done[episode]) for episode in sorted(self.done)}
        return MemeManifest(
            n=len(records),
            answers=sum(one.answers for one in records.values()),
            unscored=counted(why for one in records.values() for why in Counter(one.unscored).elements()),
            gaps=sum(one.gaps for one in records.values()),
            spent=total(one.spent for one in records.values()),
            data_sha256=combined_hash({episode: one.sha256 for episode, one in records.items()}),
            episodes=records,
            **self._begun,
        )


def episode_file(folder: Path, episode: str) -> Path:
    """Where an episode's results lie; `UserError` for an id that cannot name a file."""
    return inside(folder, _FILE.format(check_id(episode)))


def total(spent: Iterable[Mapping[Stage, Spent]]) -> dict[Stage, Spent]:
    """The sum over episodes, by stage."""
    every = list(spent)
    return {stage: reduce(add, (one[stage] for one in every if stage in one), Spent()) for stage in STAGES}


def _record(one: Made[EpisodeResults]) -> EpisodeRecord:
    answers = [kept.answer for kept in one.value.answers]
    return EpisodeRecord(
        sha256=one.data,
        results_sha256=one.sha256,
        answers=len(answers),
        unscored=counted(answer.unscored for answer in answers if answer.unscored is not None),
        gaps=sum(answer.gaps > 0 for answer in answers),
        transient=one.transient,
        spent=one.value.spent,
    )


@dataclass(frozen=True)
class ArmResults:
    """A memory's results as they lie in a run folder, by the episode's id, with the manifest that vouches for them."""

    manifest: MemeManifest
    episodes: Mapping[str, EpisodeResults]


def read_results(place: Path) -> dict[MemeMemory, ArmResults]:
    """The results of every memory in a folder of `results_folder`.

    A `UserError` where there are none, and where a file is gone or not what its manifest vouches for.
    """
    held = {arm: _arm_results(place / arm) for arm in MEMORIES if (place / arm / MANIFEST).exists()}
    if not held:
        raise UserError(f"{place}: holds no results on MEME; name a run folder that `beamlib meme run` wrote.")
    return held


def _arm_results(folder: Path) -> ArmResults:
    manifest = read_manifest(folder / MANIFEST, MemeManifest)
    episodes = {}
    for episode, record in manifest.episodes.items():
        path = episode_file(folder, episode)
        found = made(read_episode(path))
        if (found.sha256, found.value.arm, found.value.episode) != (record.results_sha256, manifest.arm, episode):
            raise UserError(f"{path}: not what {MANIFEST} vouches for; run again, which makes it anew.")
        episodes[episode] = found.value
    return ArmResults(manifest, episodes)
