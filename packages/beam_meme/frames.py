"""MEME's records as rows of data frames (`beamlib.frames`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_meme.episode_files import load_episodes
from beam_meme.episode_gold import episode_evidence
from beam_meme.episode_results import CONTEXTS, EpisodeContexts
from beam_meme.episodes import episode_conversation
from beam_meme.meme_judge import MemeVerdict
from beamlib.evaluate.records import JUDGEMENTS, RunManifest
from beamlib.frames import AskedQuestion, OpenedArm, UnitText


class MemeFrames:
    """Episodes: a verdict per question, by the judge of the run."""

    data = "meme/data"

    def units(self, data: Path, manifests: Sequence[RunManifest]) -> Mapping[str, UnitText]:
        """Read the episodes that the manifests name, by id."""
        hashes = {record.sha256 for manifest in manifests for record in manifest.conversations.values()}
        variants = {manifest.settings.get("variant", "") for manifest in manifests}
        loaded = [episode for variant in sorted(variants) for episode in load_episodes(data, variant)]
        units = {}
        for episode in (one for one in loaded if one.episode.sha256 in hashes):
            cited = episode_evidence(episode)
            questions = {
                name: AskedQuestion(name, gold.task, gold.question, gold.expected, gold.values, cited[name])
                for name, gold in episode.gold.questions.items()
            }
            conversation = episode_conversation(episode.episode, len(episode.episode.sessions))
            units[episode.episode.id] = UnitText(questions, {one.id: (one.role, one.content) for one in conversation})
        return units

    def verdicts(self, arm: OpenedArm, data: Path | None) -> Iterator[Mapping[str, Any]]:
        """Yield the verdict on every question: passed or not."""
        for verdict in arm.records(JUDGEMENTS, MemeVerdict):
            score = None if verdict.passed is None else float(verdict.passed)
            reason = verdict.unscored or verdict.reason or None
            ids = {"conversation": verdict.conversation_id, "question": verdict.question_id}
            yield {**ids, "score": score, "reason": reason, **({"judge": verdict.judge} if verdict.judge else {})}

    def contexts(self, arm: OpenedArm) -> Mapping[str, str]:
        """Return what the reader saw, by question."""
        records: list[EpisodeContexts] = arm.records(CONTEXTS, EpisodeContexts)
        return {question: record.texts[key] for record in records for question, key in record.contexts.items()}


FRAMES = MemeFrames()
