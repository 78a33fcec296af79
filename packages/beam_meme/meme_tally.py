"""`beamlib meme score`: the results of a run held against the gold, and the tables that come of it.

Verdicts and tables go to `<run>/meme/<variant>/scores/`. A judge that is a model is asked through the run's stores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from beam_meme.episode_conversation import places_of
from beam_meme.episode_files import load_episodes
from beam_meme.episode_gold import LoadedEpisode, Task
from beam_meme.episode_results import EpisodeResults
from beam_meme.episodes import Episode
from beam_meme.failure_stages import Stage, StageEvidence, stage_of
from beam_meme.meme_asking import estimate_episodes
from beam_meme.meme_judge import Verdict, judge_round, to_judge
from beam_meme.meme_memories import MemeMemory, parse_memories
from beam_meme.meme_ordering import RunOptions, evidence_for, parameters_of, variant_of
from beam_meme.meme_scoring import JudgedEpisode, score_episodes
from beam_meme.meme_store import PART, ArmResults, MemeManifest, read_results, results_folder
from beam_meme.meme_tables import cost_table, kinds_table, meme_basis, results_table, stage_table
from beam_run.costs import Estimate
from beam_run.dry_run import CallTally
from beam_run.estimate import rehearsed_roster, stored_means, summary
from beamlib.confirmation import confirm_calls
from beamlib.errors import UserError
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.calling import ResolvedParameters, ensure_keys, identities, open_models, resolved
from beamlib.files import write_jsonl
from beamlib.llm.model import Model, Usage
from beamlib.llm.roles import ModelRoles
from beamlib.llm.spending import keys_kept_out
from beamlib.params import RunParameters
from beamlib.report.footer import Footer
from beamlib.report.table import Table, save_table
from beamlib.text import shell_command

SCORES = "scores"

Opened = Callable[[str], AbstractContextManager[ModelRoles]]
"""The models that work on an episode, by its id."""


@dataclass(frozen=True)
class _Pair:
    """What one memory answered about an episode, and the episode with its gold."""

    arm: MemeMemory
    results: EpisodeResults
    loaded: LoadedEpisode

    @cached_property
    def places(self) -> Mapping[int, tuple[int, int]]:
        """Where every message stands that the memory had read at the end; empty for one that reads nothing."""
        episode = self.loaded.episode
        return {} if self.arm == "none" else places_of(episode, episode.after.sessions)

    @cached_property
    def snapshots(self) -> tuple[str, ...]:
        """What it kept after each session, as one text."""
        return tuple("\n\n".join(files.values()) for files in self.results.kept)

    def judged(self, judge: Model) -> JudgedEpisode:
        """Every answer of both rounds judged."""
        gold = self.loaded.gold
        asked = [
            to_judge(one.probe_id, one.text, one.unscored, gold, transient=one.transient)
            for one in (kept.answer for kept in self.results.answers)
            if one.probe_id in gold.questions
        ]
        verdicts = judge_round(asked, judge)
        by_id = {verdict.question_id: verdict for verdict in verdicts}
        return JudgedEpisode(self.arm, self.results.episode, gold.questions, by_id)


@dataclass(frozen=True)
class Scored:
    """What memories answered about the episodes of one variant, held against the gold.

    `scores` is the frame of `meme_scoring.score_episodes`; `stages` says of every judged answer after the change where
    it went wrong; `tables` are by the names of their files.
    """

    pairs: Sequence[_Pair]
    judged: Sequence[JudgedEpisode]
    held: Mapping[MemeMemory, ArmResults]
    basis: Footer

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Shares by memory, task and hop."""
        return score_episodes(self.judged)

    @cached_property
    def stages(self) -> list[tuple[str, Task, Stage]]:
        """Memory, task and stage of each."""
        return list(_stages(self.pairs, self.judged))

    @property
    def episodes(self) -> dict[str, int]:
        """How many each memory was asked about."""
        return {arm: len(one.episodes) for arm, one in self.held.items()}

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The report."""
        used = {str(arm): _usage(one.manifest) for arm, one in self.held.items()}
        return {
            "results": results_table(self.scores, self.basis),
            "results_unfiltered": results_table(self.scores, self.basis, filtered=False),
            "kinds": kinds_table(self.scores, self.basis),
            "stages": stage_table(self.stages, self.basis),
            "tokens": cost_table(used, self.episodes, self.basis),
        }

    def asked_about(self, question: str) -> list[AnsweredQuestion]:
        """What each memory handed on about a question, what was answered, and what came of it."""
        found = []
        for pair, one in zip(self.pairs, self.judged, strict=True):
            for kept in pair.results.answers:
                if kept.answer.probe_id == question:
                    context = pair.results.contexts[question]
                    stage = _stage_of(pair, one, kept.answer)
                    found.append(AnsweredQuestion(pair.arm, context, kept.answer, one.verdicts[question], stage))
        return found


@dataclass(frozen=True)
class AnsweredQuestion:
    """One memory's answer to one question; `stage` is None where there is no verdict, or before the change."""

    memory: str
    context: str
    answer: Answer
    verdict: Verdict
    stage: Stage | None


def score_run(order: RunOptions) -> list[Table]:
    """Judge what a run has answered, and write verdicts and tables; a model as judge is called after a yes alone.

    `order.memories` are the ones to score, all on file where empty; `order.backbone` the reader whose answers they are,
    where a run has several. A `UserError` where the data is not what the run was asked about.
    """
    parameters = parameters_of(order if order.models else replace(order, backbone=""))
    loaded = load_episodes(order.data, order.variant)
    place = results_folder(order.folder, variant_of(loaded), order.backbone)
    held = _chosen(read_results(place), order)
    if parameters.models and order.calls != "replay":
        parameters = _confirmed(_pairs(held, loaded), parameters, quiet=order.quiet)
    scored = score(held, loaded, parameters, order.data.name, command=_recording_command(order), quiet=order.quiet)
    lines = (_row(one, verdict) for one in scored.judged for verdict in one.verdicts.values())
    write_jsonl(place / SCORES / "verdicts.jsonl", lines)
    for name, table in scored.tables.items():
        save_table(table, name, place / SCORES)
    return list(scored.tables.values())


def score(
    held: Mapping[MemeMemory, ArmResults],
    loaded: Sequence[LoadedEpisode],
    parameters: RunParameters,
    data: str,
    *,
    command: str = "",
    quiet: bool = False,
) -> Scored:
    """Judge the results `held`; a model as judge is called as `parameters` say. `data` is where the episodes are from.

    A `UserError` where the episodes are not those that were asked about.
    """
    pairs, known = _pairs(held, loaded), resolved(parameters)
    with keys_kept_out(Path(parameters.run), parameters.models):
        judged = _judged(pairs, lambda episode: open_models(known, episode, suite=PART, command=command), quiet)
    return Scored(pairs, judged, held, _basis(judged, held, known, data))


def estimate_scored(
    loaded: Sequence[LoadedEpisode],
    episodes: Sequence[Episode],
    arms: Sequence[MemeMemory],
    parameters: RunParameters,
    variant: str,
) -> Estimate:
    """What answering and judging all of it would call and cost; what is stored costs nothing."""
    by_id, evidence = {one.episode.id: one for one in loaded}, evidence_for(loaded, episodes)

    def judge(results: EpisodeResults, roster: ModelRoles) -> None:
        _Pair(results.arm, results, by_id[results.episode]).judged(roster.judge)

    return estimate_episodes(episodes, arms, parameters, evidence=evidence, variant=variant, quiet=True, after=judge)


def _recording_command(order: RunOptions) -> str:
    """The command line that has the judge asked what a replay misses."""
    given = {
        "--data": order.data, "--variant": order.variant, "--name": order.folder.name,
        "--memories": ",".join(order.memories), "--models": order.models, "--backbone": order.backbone,
        "--prompts": order.prompts or "",
    }  # fmt: skip
    return shell_command("beamlib meme score", given, order.settings, ["--calls", "record", "--yes"])


def _chosen(held: Mapping[MemeMemory, ArmResults], order: RunOptions) -> dict[MemeMemory, ArmResults]:
    wanted = parse_memories(order.memories) or tuple(held)
    missing = [arm for arm in wanted if arm not in held]
    if missing:
        raise UserError(f"--memories: {order.folder} has no results of {missing[0]}; it has {', '.join(held)}.")
    return {arm: held[arm] for arm in wanted}


def _pairs(held: Mapping[MemeMemory, ArmResults], loaded: Sequence[LoadedEpisode]) -> list[_Pair]:
    data = {one.episode.id: one for one in loaded}
    pairs = []
    for arm, results in held.items():
        for episode, found in results.episodes.items():
            one = data.get(episode)
            if one is None or one.episode.sha256 != found.sha256:
                raise UserError(
                    f"--data: {arm} was asked about another {episode} than it holds; name the data of the run, or run "
                    "again."
                )
            pairs.append(_Pair(arm, found, one))
    return pairs


def _confirmed(pairs: Sequence[_Pair], parameters: RunParameters, *, quiet: bool) -> RunParameters:
    """The parameters once there is a yes to what judging would cost."""
    known = resolved(parameters)
    expected, tally = stored_means(known), CallTally()
    for episode, own in tqdm(_by_episode(pairs).items(), desc="counting calls", disable=quiet or None, delay=2):
        with rehearsed_roster(known, episode, expected, suite=PART) as (roster, one):
            for pair in own:
                pair.judged(roster.judge)
        tally.add(one)
    arms = tuple(dict.fromkeys(pair.arm for pair in pairs))
    found = summary(known, arms, tally, expected, conversations=len(_by_episode(pairs)), suite=PART)
    yes = confirm_calls({"": found}, lambda: ensure_keys(parameters, {"judge"}), parameters.confirm_cost)
    return parameters.model_copy(update={"confirm_cost": yes})


def _judged(pairs: Sequence[_Pair], opened: Opened, quiet: bool) -> list[JudgedEpisode]:
    """Every answer judged, an episode's with one open store, in the order of `pairs`."""
    found: dict[tuple[MemeMemory, str], JudgedEpisode] = {}
    total = sum(len(pair.results.answers) for pair in pairs)
    with tqdm(total=total, desc="judging", unit="answer", disable=quiet or None, delay=2) as bar:
        for episode, own in _by_episode(pairs).items():
            with opened(episode) as roster:
                for pair in own:
                    found[pair.arm, episode] = pair.judged(roster.judge)
                    bar.update(len(pair.results.answers))
    return [found[pair.arm, pair.results.episode] for pair in pairs]


def _by_episode(pairs: Iterable[_Pair]) -> dict[str, list[_Pair]]:
    found: dict[str, list[_Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.results.episode, []).append(pair)
    return found


def _row(one: JudgedEpisode, verdict: Verdict) -> dict[str, object]:
    gold = one.gold[verdict.question_id]
    placed = {"memory": one.memory, "episode": one.episode_id, "phase": gold.phase, "task": gold.task, "hop": gold.hop}
    return {**placed, "entity": gold.entity, **verdict.model_dump(mode="json")}


def _basis(
    judged: Sequence[JudgedEpisode], held: Mapping[MemeMemory, ArmResults], parameters: ResolvedParameters, data: str
) -> Footer:
    """What the tables rest on."""
    manifests = [one.manifest for one in held.values()]
    reasons = Counter(verdict.unscored for one in judged for verdict in one.verdicts.values() if verdict.unscored)
    return meme_basis(
        score_episodes(judged),
        judge=str(identities(parameters)["judge"]["model"]),
        reader=_readers(manifests),
        data=f"{data}, {manifests[0].data_sha256[:12]}",
        treatment=manifests[0].variant or "unknown variant",
        token_counter=str(manifests[0].settings["token_counter"]),
        episodes=max(len(one.episodes) for one in held.values()),
        reasons=reasons,
        gaps=sum(one.gaps for one in manifests),
        memories=tuple(note for one in manifests for note in one.settings.get("notes", ())),
    )


def _readers(manifests: Iterable[MemeManifest]) -> str:
    return ", ".join(dict.fromkeys(str(one.models["reader"]["model"]) for one in manifests))


def _usage(manifest: MemeManifest) -> dict[str, Usage]:
    return {
        stage: Usage(one.input_tokens, one.output_tokens, one.cached_tokens) for stage, one in manifest.spent.items()
    }


def _stages(pairs: Sequence[_Pair], judged: Sequence[JudgedEpisode]) -> Iterator[tuple[str, Task, Stage]]:
    """Of every judged answer after the change, where it went wrong."""
    for pair, one in zip(pairs, judged, strict=True):
        for kept in pair.results.answers:
            if stage := _stage_of(pair, one, kept.answer):
                yield pair.arm, one.gold[kept.answer.probe_id].task, stage


def _stage_of(pair: _Pair, judged: JudgedEpisode, answer: Answer) -> Stage | None:
    """Where an answer went wrong; None before the change, and where there is no verdict."""
    gold, verdict = judged.gold.get(answer.probe_id), judged.verdicts.get(answer.probe_id)
    if gold is None or gold.phase != "after" or verdict is None or verdict.passed is None:
        return None
    context, ids = pair.results.contexts[answer.probe_id], frozenset(answer.message_ids)
    return stage_of(gold, pair.loaded.gold, StageEvidence(verdict.passed, context, ids, pair.places, pair.snapshots))
