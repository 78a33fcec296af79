"""The answers of memories held against the gold: verdicts, shares, failure stages, and the tables of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from beam_meme.episode_gold import LoadedEpisode, MemeTask
from beam_meme.episode_results import CONTEXTS, EpisodeContexts, dollars_of, total_spent
from beam_meme.episodes import message_places
from beam_meme.meme_judge import MemeVerdict
from beam_meme.meme_scoring import OVERALL, FailureStage, JudgedEpisode, StageEvidence, score_episodes, stage_of
from beam_meme.meme_tables import episode_cost_table, kinds_table, meme_basis, results_table, stage_table, token_table
from beamlib.evaluate.records import ANSWERS, JUDGEMENTS, Answer, ContextLosses
from beamlib.evaluate.task import TaskPlan
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import OFFLINE_NAME, Usage
from beamlib.report.footer import Footer
from beamlib.report.table import Table


@dataclass(frozen=True)
class _Pair:
    """One memory's answers about an episode, the contexts behind them, their verdicts, and the episode's gold."""

    arm: str
    loaded: LoadedEpisode
    answers: Sequence[Answer]
    record: EpisodeContexts
    verdicts: Mapping[str, MemeVerdict]

    @cached_property
    def places(self) -> Mapping[int, tuple[int, int]]:
        """Where every message stands that the memory had read at the end; empty for one that reads nothing."""
        episode = self.loaded.episode
        return {} if self.arm == "none" else message_places(episode, episode.after.sessions)

    @cached_property
    def snapshots(self) -> tuple[str, ...]:
        """What it kept after each session, as one text."""
        return tuple("\n\n".join(files.values()) for files in self.record.kept)

    @property
    def judged(self) -> JudgedEpisode:
        """The verdicts with the gold of both rounds."""
        return JudgedEpisode(self.arm, self.loaded.episode.id, self.loaded.gold.questions, self.verdicts)

    def stage(self, answer: Answer) -> FailureStage | None:
        """Where an answer went wrong; None before the change, and where there is no verdict."""
        gold, verdict = self.loaded.gold.questions.get(answer.probe_id), self.verdicts.get(answer.probe_id)
        if gold is None or gold.phase != "after" or verdict is None or verdict.passed is None:
            return None
        context, ids = self.record.context(answer.probe_id), answer.whole_ids
        return stage_of(
            gold, self.loaded.gold, StageEvidence(verdict.passed, context, ids, self.places, self.snapshots)
        )


@dataclass(frozen=True)
class Scored:
    """The answers of memories about the episodes of one variant, held against the gold.

    `scores` is the frame of `meme_scoring.score_episodes`; `stages` says of every judged answer after the change where
    it went wrong; `tables` are by the names of their files.
    """

    pairs: Sequence[_Pair]
    episodes: Mapping[str, int]
    """How many each memory was asked about."""
    used: Mapping[str, Mapping[str, Usage]]
    dollars: Mapping[str, Sequence[Mapping[str, float | None]]]
    """What each episode of a memory cost by stage; None where a price is unknown."""
    basis: Footer

    @property
    def by_stand_in(self) -> bool:
        """Whether the stand-in answered, so that scores say nothing about any model."""
        return OFFLINE_NAME in self.basis.reader

    @cached_property
    def judged(self) -> list[JudgedEpisode]:
        """Every memory's episodes."""
        return [pair.judged for pair in self.pairs]

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Shares by memory, task and hop."""
        return score_episodes(self.judged)

    @property
    def scored(self) -> dict[str, tuple[int, int]]:
        """By memory, how many questions after the change could be scored, and how many were asked."""
        overall = self.scores[self.scores["task"] == OVERALL]
        return {row["memory"]: (row["n"], row["n"] + row["unscored"]) for row in overall.to_dict("records")}

    @cached_property
    def stages(self) -> list[tuple[str, MemeTask, FailureStage]]:
        """Memory, task and stage of each."""
        return list(self._stages())

    def _stages(self) -> Iterator[tuple[str, MemeTask, FailureStage]]:
        for pair in self.pairs:
            for answer in pair.answers:
                if stage := pair.stage(answer):
                    yield pair.arm, pair.loaded.gold.questions[answer.probe_id].task, stage

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The report."""
        return {
            "results": results_table(self.scores, self.basis),
            "results_unfiltered": results_table(self.scores, self.basis, filtered=False),
            "kinds": kinds_table(self.scores, self.basis),
            "stages": stage_table(self.stages, self.basis),
            "tokens": token_table(self.used, self.episodes, self.basis),
            "costs": episode_cost_table(self.dollars, self.basis, self.scored),
        }

    def asked_about(self, question: str) -> list[AnsweredQuestion]:
        """What each memory handed on about a question, its answer, and the verdict."""
        return [
            AnsweredQuestion(
                pair.arm, pair.record.context(question), answer, pair.verdicts[question], pair.stage(answer)
            )
            for pair in self.pairs
            for answer in pair.answers
            if answer.probe_id == question
        ]


@dataclass(frozen=True)
class AnsweredQuestion:
    """One memory's answer to one question; `stage` is None where there is no verdict, or before the change."""

    memory: str
    context: str
    answer: Answer
    verdict: MemeVerdict
    stage: FailureStage | None


def score_plan(plan: TaskPlan, data: str) -> Scored:
    """Hold the records of a run against the gold; `data` names where the episodes are from."""
    pairs: list[_Pair] = []
    used: dict[str, dict[str, Usage]] = {}
    for arm in plan.stores:
        records: dict[str, dict[str, Any]] = {part: plan.records(arm, part) for part in (ANSWERS, CONTEXTS, JUDGEMENTS)}
        for unit, answers in records[ANSWERS].items():
            verdicts = {verdict.question_id: verdict for verdict in records[JUDGEMENTS].get(unit, ())}
            pairs.append(_Pair(arm, plan.units[unit].gold, answers, records[CONTEXTS][unit][0], verdicts))
        spent = total_spent(record.spent for (record,) in records[CONTEXTS].values())
        used[arm] = {
            stage: Usage(one.input_tokens, one.output_tokens, one.cached_tokens) for stage, one in spent.items()
        }
    episodes = {arm: len(plan.records(arm)) for arm in plan.stores}
    dollars = {
        arm: [dollars_of(record, prices_of(plan, arm)) for (record,) in plan.records(arm, CONTEXTS).values()]
        for arm in plan.stores
    }
    return Scored(pairs, episodes, used, dollars, _basis(pairs, plan, episodes, data))


def prices_of(plan: TaskPlan, arm: str) -> dict[str, Endpoint]:
    """The endpoints of the models file by role, without those whose model is not the one that answered."""
    called = plan.stores[arm].manifest().models
    return {
        role: endpoint
        for role, endpoint in plan.run.endpoints.items()
        if called.get(role.partition(":")[0], {}).get("model", endpoint.model) == endpoint.model
    }


def _basis(pairs: Sequence[_Pair], plan: TaskPlan, episodes: Mapping[str, int], data: str) -> Footer:
    """What the tables rest on."""
    manifests = [store.manifest() for store in plan.stores.values()]
    verdicts = [verdict for pair in pairs for verdict in pair.verdicts.values()]
    return meme_basis(
        score_episodes([pair.judged for pair in pairs]),
        judge=manifests[0].judge,
        reader=", ".join(dict.fromkeys(str(one.models["reader"]["model"]) for one in manifests)),
        data=f"{data}, {manifests[0].data_sha256[:12]}",
        treatment=str(manifests[0].settings.get("variant") or "unknown variant"),
        token_counter=str(manifests[0].settings["token_counter"]),
        episodes=max(episodes.values()),
        reasons=Counter(verdict.unscored for verdict in verdicts if verdict.unscored),
        losses={
            arm: ContextLosses.of(answer for pair in pairs if pair.arm == arm for answer in pair.answers)
            for arm in plan.stores
        },
        memories=tuple(note for one in manifests for note in one.notes),
    )
