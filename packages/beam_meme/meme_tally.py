"""`beamlib meme score`: the results of a run held against the gold, and the tables that come of it.

Verdicts and tables go to `<run>/meme/scores/`. A judge that is a model is asked through the run's call stores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tqdm import tqdm

from beam_costs.dry_run import CallTally
from beam_costs.estimate import rehearsed_roster, stored_means, summary
from beam_meme.episode_conversation import places_of
from beam_meme.episode_files import load_episodes
from beam_meme.episode_gold import LoadedEpisode, Task
from beam_meme.episode_results import EpisodeResults
from beam_meme.failure_stages import Stage, StageEvidence, stage_of
from beam_meme.meme_judge import Verdict, judge_round, to_judge
from beam_meme.meme_memories import MemeMemory, parse_memories
from beam_meme.meme_ordering import RunOptions, parameters_of
from beam_meme.meme_scoring import JudgedEpisode, score_episodes
from beam_meme.meme_store import PART, ArmResults, MemeManifest, read_results
from beam_meme.meme_tables import cost_table, kinds_table, meme_basis, results_table, stage_table
from beamlib.cli.spending import agreed
from beamlib.errors import UserError
from beamlib.evaluate.calling import ResolvedParameters, ensure_keys, identities, open_models, resolved
from beamlib.files import write_jsonl
from beamlib.llm.endpoints import keys_kept_out
from beamlib.llm.model import Model, Usage
from beamlib.llm.roles import ModelRoles
from beamlib.params import RunParameters
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


def score_run(order: RunOptions) -> list[Table]:
    """Judge what a run has answered, and write verdicts and tables; a model as judge is called after a yes alone.

    `order.memories` are the ones to score, all on file where empty. A `UserError` where the data is not what the run
    was asked about.
    """
    parameters = parameters_of(order)
    held = _chosen(read_results(order.folder), order)
    pairs = list(_pairs(held, {one.episode.id: one for one in load_episodes(order.data, order.variant)}))
    if parameters.models and order.calls != "replay":
        parameters = _confirmed(pairs, parameters, quiet=order.quiet)
    command = _recording_command(order)
    known = resolved(parameters)
    with keys_kept_out(order.folder, parameters.models):
        judged = _judged(pairs, lambda episode: open_models(known, episode, suite=PART, command=command), order.quiet)
    folder = order.folder / PART / SCORES
    write_jsonl(folder / "verdicts.jsonl", (_row(one, verdict) for one in judged for verdict in one.verdicts.values()))
    tables = _tables(pairs, judged, held, known, order)
    for name, table in tables.items():
        save_table(table, name, folder)
    return list(tables.values())


def _recording_command(order: RunOptions) -> str:
    """The command line that has the judge asked what a replay misses."""
    given = {
        "--data": order.data, "--variant": order.variant, "--name": order.folder.name,
        "--memories": ",".join(order.memories), "--models": order.models, "--prompts": order.prompts or "",
    }  # fmt: skip
    return shell_command("beamlib meme score", given, order.settings, ["--calls", "record", "--yes"])


def _chosen(held: Mapping[MemeMemory, ArmResults], order: RunOptions) -> dict[MemeMemory, ArmResults]:
    wanted = parse_memories(order.memories) or tuple(held)
    missing = [arm for arm in wanted if arm not in held]
    if missing:
        raise UserError(f"--memories: {order.folder} has no results of {missing[0]}; it has {', '.join(held)}.")
    return {arm: held[arm] for arm in wanted}


def _pairs(held: Mapping[MemeMemory, ArmResults], data: Mapping[str, LoadedEpisode]) -> Iterator[_Pair]:
    for arm, results in held.items():
        for episode, found in results.episodes.items():
            loaded = data.get(episode)
            if loaded is None or loaded.episode.sha256 != found.sha256:
                raise UserError(
                    f"--data: {arm} was asked about another {episode} than it holds; name the data of the run, or run "
                    "again."
                )
            yield _Pair(arm, found, loaded)


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
    yes = agreed({"": found}, lambda: ensure_keys(parameters, {"judge"}), parameters.confirm_cost)
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


def _tables(
    pairs: Sequence[_Pair],
    judged: Sequence[JudgedEpisode],
    held: Mapping[MemeMemory, ArmResults],
    parameters: ResolvedParameters,
    order: RunOptions,
) -> dict[str, Table]:
    """The tables by the name of their files."""
    scores = score_episodes(judged)
    manifests = {arm: one.manifest for arm, one in held.items()}
    episodes: dict[str, int] = {arm: len(one.episodes) for arm, one in held.items()}
    reasons = Counter(verdict.unscored for one in judged for verdict in one.verdicts.values() if verdict.unscored)
    first = next(iter(manifests.values()))
    basis = meme_basis(
        scores,
        judge=str(identities(parameters)["judge"]["model"]),
        reader=_readers(manifests.values()),
        data=f"{order.data.name}, {first.data_sha256[:12]}",
        treatment=first.variant or "unknown variant",
        token_counter=str(first.settings["token_counter"]),
        episodes=max(episodes.values()),
        reasons=reasons,
        gaps=sum(one.gaps for one in manifests.values()),
    )
    used: dict[str, Mapping[str, Usage]] = {arm: _usage(one) for arm, one in manifests.items()}
    return {
        "results": results_table(scores, basis),
        "kinds": kinds_table(scores, basis),
        "stages": stage_table(_stages(pairs, judged), basis),
        "tokens": cost_table(used, episodes, basis),
    }


def _readers(manifests: Iterable[MemeManifest]) -> str:
    return ", ".join(dict.fromkeys(str(one.models["reader"]["model"]) for one in manifests))


def _usage(manifest: MemeManifest) -> dict[str, Usage]:
    return {
        stage: Usage(one.input_tokens, one.output_tokens, one.cached_tokens) for stage, one in manifest.spent.items()
    }


def _stages(pairs: Sequence[_Pair], judged: Sequence[JudgedEpisode]) -> Iterator[tuple[str, Task, Stage]]:
    """Of every judged answer after the change, where it went wrong."""
    for pair, one in zip(pairs, judged, strict=True):
        episode = pair.loaded.episode
        places = places_of(episode, episode.after.sessions)
        snapshots = tuple("\n\n".join(files.values()) for files in pair.results.kept)
        contexts = pair.results.contexts
        for kept in pair.results.answers:
            gold, verdict = one.gold.get(kept.answer.probe_id), one.verdicts.get(kept.answer.probe_id)
            if kept.phase != "after" or gold is None or verdict is None or verdict.passed is None:
                continue
            ids, context = frozenset(kept.answer.message_ids), contexts[kept.answer.probe_id]
            evidence = StageEvidence(verdict.passed, context, ids, places, snapshots)
            yield pair.arm, gold.task, stage_of(gold, pair.loaded.gold, evidence)
