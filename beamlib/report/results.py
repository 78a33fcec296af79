"""Compute the numbers of a notebook from stored judgements: scores with intervals, evidence recall, footers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from beamlib.data.conversations import SIZES, Probe, slice_in_words
from beamlib.data.errata import reading_note, spoilt_probes
from beamlib.data.gold import Gold
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.beam_records import Evaluation, Manifest, read_judgements, read_manifest, stored_judgements
from beamlib.evaluate.records import RUN, Answer, ContextLosses
from beamlib.report.figures import averages
from beamlib.report.footer import Footer, ensure_comparable, footer, is_offline
from beamlib.report.long_frame import AVERAGE_ABILITY, COLUMNS, SERIES_FIELDS
from beamlib.report.table import Table
from beamlib.report.tables import result_table, shown_averages
from beamlib.run import TRIALS
from beamlib.scoring.intervals import compare, holm, interval_note
from beamlib.scoring.measured import Counting, evidence_recall
from beamlib.scoring.protocols import PROTOCOLS
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import (
    SCORE_COLUMNS,
    judge_spread,
    not_computable,
    present_sizes,
    score_run,
    summarise,
    unscored_reasons,
)

if TYPE_CHECKING:
    from beamlib.data.loading import Loaded

_ALL, _DROP = "none, flag", "drop"
"""The two question sets of the parameter `errata`: `flag` marks questions and removes none."""

RECALL = "evidence recall: share of the cited messages shown whole in the context (no model, no judge)"
FIXED_RECALL = frozenset({"none", "oracle"})
"""Memories whose evidence recall is fixed by construction: nothing is shown, or all cited messages are."""
NOTES = "scratchpad"
"""The part of a context that paraphrases messages. A note on a message is not the message."""


@dataclass(frozen=True)
class ShownQuestion:
    """A question with each arm's answer and judgement."""

    loaded: Loaded
    probe: Probe
    gold: Gold
    answers: Mapping[str, Answer]
    judgements: Mapping[str, Judgement]

    def retrieved(self) -> pd.DataFrame:
        """Show the messages that each arm gave to the reader, with a star for cited messages."""
        rows = {}
        for name, answer in self.answers.items():
            cited = set(self.gold.evidence) & set(answer.message_ids)
            whole = cited & recalled_ids(answer)
            shown = [f"{message_id}*" if message_id in cited else str(message_id) for message_id in answer.message_ids]
            rows[name] = {
                "context tokens": answer.context_tokens,
                "messages": len(shown),
                "cited ones shown whole": f"{len(whole)} of {len(self.gold.evidence)}",
                "cited ones in part or noted": len(cited - whole),
                "first": " ".join(shown[:10]),
            }
        return pd.DataFrame(rows).T.rename_axis("memory")


@dataclass(frozen=True)
class Results:
    """An experiment of one tier.

    Attributes:
        summary: Mean scores, as frames of `beamlib.report.long_frame`.
        evidence: Mean evidence recall: cited messages whose whole text is in the context.
        partial: The same, counting messages too that are shown in part.
        noted: The same, counting messages too that only a note paraphrases.
        scores: A row per question for each arm, with the arm's columns of `SERIES_FIELDS`.
        recalls: The same for evidence recall.
    """

    evaluation: Evaluation
    summary: pd.DataFrame
    evidence: pd.DataFrame
    scores: Mapping[str, pd.DataFrame]
    recalls: Mapping[str, pd.DataFrame]
    partial: pd.DataFrame
    noted: pd.DataFrame
    footer: Footer
    evidence_footer: Footer

    @property
    def by_stand_in(self) -> bool:
        """Whether the stand-in answered or judged, so that scores say nothing about any model."""
        return is_offline(self.footer.reader) or is_offline(self.footer.judge)

    @property
    def plotted(self) -> tuple[pd.DataFrame, Footer, str]:
        """The frame, footer and measure of figures: scores, or evidence recall where the stand-in made the scores."""
        if self.by_stand_in:
            return self.evidence, self.evidence_footer, "evidence recall"
        return self.summary, self.footer, "average score"

    @property
    def plotted_scores(self) -> Mapping[str, pd.DataFrame]:
        """The rows per question that `plotted` averages."""
        return self.recalls if self.by_stand_in else self.scores

    @property
    def judgements(self) -> Mapping[str, list[Judgement]]:
        """The judgements of every arm by its name."""
        return self.evaluation.judgements

    @property
    def manifests(self) -> list[dict[str, Any]]:
        """The manifests of all arms, as tables take them."""
        return [manifest.model_dump(mode="json") for manifest in self.evaluation.manifests.values()]

    def question(self, ability: str = "") -> ShownQuestion:
        """Pick a question of the first conversation: the first of an ability, else the one that arms differ most on."""
        loaded = next(iter(self.evaluation.loaded.values()))
        scores = pd.DataFrame({name: rows.set_index("probe_id")["score"] for name, rows in self.scores.items()})
        spread = scores.T.std().fillna(0)

        def preference(probe: Probe) -> tuple[bool, bool, float]:
            gold = loaded.gold[probe.id]
            return ability not in ("", gold.ability), not gold.evidence, -spread[probe.id]

        probe = min(loaded.probes, key=preference)
        return ShownQuestion(
            loaded,
            probe,
            loaded.gold[probe.id],
            {name: {row.probe_id: row for row in rows}[probe.id] for name, rows in self.evaluation.answers.items()},
            {name: {row.probe_id: row for row in rows}[probe.id] for name, rows in self.evaluation.judgements.items()},
        )

    def averages(self) -> pd.DataFrame:
        """Average score and evidence recall of every arm; recall is missing if no question cites messages."""
        columns = {"score": self.summary, "evidence recall": self.evidence}
        return pd.DataFrame({name: averages(frame).set_index("series")["mean"] for name, frame in columns.items()})

    def light_against(self, seed: int) -> pd.DataFrame:
        """Compare LIGHT with every other arm, paired over conversations: t-interval, p-value of a sign-flip test.

        `p_holm` counts all comparisons of the table (Holm).
        """
        light = next(name for name in self.scores if name.startswith("light"))
        rows = {}
        for name, scores in self.scores.items():
            if name != light:
                change = compare(self.scores[light], scores, seed=seed)
                rows[name] = {field: getattr(change, field) for field in ("difference", "low", "high", "p_value", "n")}
        frame = pd.DataFrame(rows).T.rename_axis("light minus")
        frame.insert(4, "p_holm", holm(frame["p_value"].tolist()) if len(frame) else [])
        return frame.round(4)

    def by_protocol(self) -> pd.DataFrame:
        """Average all arms under every protocol, from the same verdicts."""
        rows = {}
        for protocol in PROTOCOLS:
            scores = {name: score_run(judged, protocol) for name, judged in self.evaluation.judgements.items()}
            rows[protocol] = shown_averages(long_frame(scores))
        return pd.DataFrame(rows).T

    def without_defective(self) -> tuple[Table, pd.DataFrame] | None:
        """Compare the scores of all questions with those that no erratum spoils: a table, and averages by protocol.

        Returns None if no question of the run is on the list: both would be equal.
        """
        spoilt = spoilt_probes([probe for loaded in self.evaluation.loaded.values() for probe in loaded.probes])
        if not spoilt:
            return None
        size = self.evaluation.run.size
        title = f"All questions (errata: none, flag) beside those no erratum spoils (drop: {len(spoilt)} fewer), {size}"
        table = result_table(errata_effect(self.scores, spoilt), title, self.footer, self.manifests)
        table = replace(table, footer=(*table.footer, reading_note(size)))
        return table, effect_by_protocol(self.evaluation.judgements, spoilt).round(3)

    def steadiness(self) -> pd.DataFrame:
        """Measure how the averages of all arms, and the verdicts, change when the judge is asked again."""
        protocol = self.evaluation.run.judging.protocol
        spread = {name: judge_spread(judged, protocol) for name, judged in self.evaluation.judgements.items()}
        rows = [frame[frame["ability"] == "average"].assign(memory=name) for name, frame in spread.items()]
        return pd.concat(rows).set_index("memory")[["sd", "changed", "n_nuggets", "n_questions", "missing"]].round(3)

    def changes(self, seed: int) -> pd.DataFrame:
        """Compute the paired change of what figures plot for every series against the complete one (`changes_of`)."""
        base = next(name for name in self.scores if "without" not in name)
        return changes_of(self.plotted_scores, base, seed)

    def recall_by_counting(self) -> pd.DataFrame:
        """Average the evidence recall of every arm: messages shown whole, at least in part, shown or noted."""
        columns = {"whole": self.evidence, "at least in part": self.partial, "shown or noted": self.noted}
        frame = {name: averages(recall).set_index("series")["mean"] for name, recall in columns.items()}
        return pd.DataFrame(frame).round(3)


def results(evaluation: Evaluation) -> Results:
    """Score what an evaluation has on file of the arms of an experiment."""
    parameters = evaluation.run
    manifests = list(evaluation.manifests.values())
    ensure_comparable([manifest.model_dump(mode="json") for manifest in manifests])
    arms = {arm.name: arm for arm in evaluation.arms}
    judged = evaluation.judgements
    scores = {name: of_arm(score_run(judged[name], parameters.judging.protocol), arms[name]) for name in judged}
    gold = {key: value for loaded in evaluation.loaded.values() for key, value in loaded.gold.items()}
    answers = evaluation.answers
    recalls = {name: of_arm(recall_rows(answers[name], gold), arms[name]) for name in answers}
    partial = {name: recall_rows(answers[name], gold, "partial") for name in answers}
    noted = {name: recall_rows(answers[name], gold, "noted") for name in answers}
    losses = {name: ContextLosses.of(rows) for name, rows in answers.items()}
    evidence = long_frame(recalls)
    fixed = evidence["series"].isin(FIXED_RECALL)
    evidence.loc[fixed, ["low", "high"]] = float("nan")  # there is no chance in it
    shown = footer_of(manifests, scores, parameters.judging.protocol, losses)
    notes = (evaluation.truncation, evaluation.answerers, evaluation.exam)
    return Results(
        evaluation=evaluation,
        summary=long_frame(scores),
        evidence=evidence.assign(equal=evidence["equal"] & ~fixed),
        scores=scores,
        recalls=recalls,
        partial=long_frame(partial),
        noted=long_frame(noted),
        footer=replace(shown, memories=(*shown.memories, *filter(None, notes))),
        evidence_footer=footer_of(manifests, recalls, RECALL, losses),
    )


def of_arm(scores: pd.DataFrame, arm: Arm) -> pd.DataFrame:
    """Add the arm's columns of `SERIES_FIELDS` to scores."""
    return scores.assign(memory=arm.memory, retriever=arm.retriever, k=arm.k, removed=arm.without).astype(
        {"k": "Int64"}
    )


def recall_rows(answers: Sequence[Answer], gold: Mapping[str, Gold], counting: Counting = "whole") -> pd.DataFrame:
    """Compute evidence recall per question, in the shape of scores, without questions that cite no message."""
    rows = []
    for answer in answers:
        recall = evidence_recall(gold[answer.probe_id], recalled_ids(answer, counting))
        if recall is not None:
            size = answer.conversation_id.partition("-")[0]
            ability = gold[answer.probe_id].ability
            reason = "" if answer.context_recorded else answer.unscored or ""
            value = float("nan") if reason else recall
            rows.append((answer.probe_id, answer.conversation_id, size, ability, value, reason))
    return pd.DataFrame(rows, columns=list(SCORE_COLUMNS)).astype({"score": float})


def recalled_ids(answer: Answer, counting: Counting = "whole") -> frozenset[int]:
    """Return the messages that an answer's context recalls.

    Imported answers do not say which messages are whole: all messages of parts other than `NOTES` count.
    """
    shown = frozenset(i for part, ids in answer.parts.items() if part != NOTES for i in ids)
    shown = shown if answer.parts else frozenset(answer.message_ids)
    if counting == "noted":
        return frozenset(answer.message_ids)
    if answer.partial_ids is None:
        return shown
    return answer.whole_ids if counting == "whole" else shown | answer.whole_ids


def long_frame(scores: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Summarise the scores of all arms as a long frame, a series per arm."""
    parts = []
    for name, frame in scores.items():
        summary = summarise(frame)
        counts = {"n": summary["n_questions"], "conversations": summary["n_conversations"]}
        fields = frame[["size", *(field for field in SERIES_FIELDS if field in frame)]].drop_duplicates("size")
        parts.append(summary.assign(series=name, **counts).merge(fields, how="left", on="size"))
    return pd.concat(parts, ignore_index=True)


def changes_of(scores: Mapping[str, pd.DataFrame], base: str, seed: int) -> pd.DataFrame:
    """Compute the paired change of the average of every series against `base` per size.

    `p` is of a sign-flip test, `p_holm` counts all comparisons of the frame (Holm).

    Args:
        scores: A row per question for each series. Only conversations that both series have count.
    """
    rows: list[dict[str, Any]] = []
    against = scores.get(base, pd.DataFrame(columns=list(SCORE_COLUMNS)))
    for series in (name for name in scores if name != base):
        shared = set(scores[series]["conversation_id"]) & set(against["conversation_id"])
        both = [frame[frame["conversation_id"].isin(shared)] for frame in (scores[series], against)]
        for size in present_sizes(both[0]):
            ours, theirs = (frame[frame["size"] == size] for frame in both)
            change = compare(ours, theirs, seed)
            row = {
                "size": size,
                "ability": AVERAGE_ABILITY,
                "series": series,
                "mean": change.difference,
                "low": change.low,
            }
            row |= {"high": change.high, "n": len(ours), "conversations": change.n, "p": change.p_value}
            rows.append({**row, "removed": ours["removed"].iloc[0] if "removed" in ours else None})
    frame = pd.DataFrame(rows, columns=[*COLUMNS, "p", "removed"])
    frame.insert(len(COLUMNS) + 1, "p_holm", holm(frame["p"].tolist()))
    return frame


def footer_of(
    manifests: Sequence[Manifest],
    scores: Mapping[str, pd.DataFrame],
    protocol: str,
    losses: Mapping[str, ContextLosses] | None = None,
) -> Footer:
    """Build the footer of a table of scores (a row per question for each series) of the runs of `manifests`."""
    everything = pd.concat(scores.values())
    counts = everything.groupby("size")["conversation_id"].nunique()
    intervals = {size: interval_note(int(counts[size])) for size in present_sizes(everything)}
    return footer(
        [manifest.model_dump(mode="json") for manifest in manifests],
        protocol=protocol,
        n_questions=everything["probe_id"].nunique(),
        unscored=int((everything["score"].isna() & ~not_computable(everything)).sum()),
        reasons=unscored_reasons(everything),
        losses=losses,
        interval="; ".join(f"{size} {note}" if len(intervals) > 1 else note for size, note in intervals.items()),
    )


def errata_effect(scores: Mapping[str, pd.DataFrame], spoilt: Collection[str]) -> pd.DataFrame:
    """Summarise every arm over all questions (`none`, `flag`) and, as "<arm>, drop", without `spoilt` ones.

    Args:
        scores: Tables of `score_run` by arm. No call is needed: judgements under `flag` have all questions.
    """
    parts = []
    for arm, frame in scores.items():
        spared = frame[~frame["probe_id"].isin(spoilt)]
        parts.append(long_frame({arm: frame}).assign(arm=arm, errata=_ALL))
        parts.append(long_frame({f"{arm}, {_DROP}": spared}).assign(arm=arm, errata=_DROP))
    return pd.concat(parts, ignore_index=True)


def effect_by_protocol(judgements: Mapping[str, Sequence[Judgement]], spoilt: Collection[str]) -> pd.DataFrame:
    """Average `errata_effect` under every protocol, by protocol and arm, for the judgements of one tier.

    Each average comes with its rank among the arms and `n`, the questions that have a score; `unscored` counts the
    others. A single conversation (`conversations`) ranks nothing.
    """
    parts = {}
    for protocol in PROTOCOLS:
        effect = errata_effect({arm: score_run(judged, protocol) for arm, judged in judgements.items()}, spoilt)
        average = effect[effect["ability"] == AVERAGE_ABILITY].pivot(index="arm", columns="errata")
        columns: dict[str, Any] = {}
        for kept in (_ALL, _DROP):
            mean = average["mean", kept]
            columns |= {
                kept: mean,
                f"rank, {kept}": mean.rank(ascending=False, method="min").astype("Int64"),
                f"n, {kept}": average["n", kept],
            }
        unscored = average["unscored", _ALL]
        counts = {"unscored": unscored, "conversations": average["conversations", _ALL]}
        parts[protocol] = pd.DataFrame({**columns, **counts}).loc[list(judgements)]
    return pd.concat(parts, names=["protocol", "arm"])


def score_folders(run: Path, protocol: str, *, as_is: bool = False) -> list[dict[str, Any]]:
    """Score every arm in or below the folder `run`.

    Args:
        as_is: Score `judgements.jsonl` even if the manifest does not match it (changed by hand, copied); the rows then
            say so in `vouched`.

    Returns:
        A row per arm, size and ability, by size, None for a missing interval. `part` is the folder of the arm: arms of
        one name have several, one for each reader and judge. `left_out` names conversations that could not be read.

    Raises:
        UserError: If judgements do not match their manifest.
    """
    # A folder with judgements and no manifest was not finished: reading it raises an error, skipping it would not.
    names = ("manifest.json", "judgements.jsonl")
    there = {path.parent for name in names for path in run.rglob(name)} if run.is_dir() else set()
    there = {folder for folder in there if not (folder / RUN).exists()}  # of another benchmark
    folders = sorted(folder for folder in there if TRIALS not in folder.relative_to(run).parts)
    if not folders:
        raise UserError(f"{run}: no manifest.json in it or below; name a run folder that run_all.sh wrote.")
    rows = [row for folder in folders for row in _score_folder(folder, run, protocol, as_is)]
    return sorted(rows, key=lambda row: [*SIZES, row["size"]].index(row["size"]))


def _score_folder(folder: Path, run: Path, protocol: str, as_is: bool) -> list[dict[str, Any]]:
    if as_is:
        judgements = read_judgements(folder)
        fixed: dict[str, Any] = {"arm": folder.name, "protocol": protocol, "judge": None, "reader": None}
        left_out = asked = None
    else:
        manifest = read_manifest(folder)
        judgements, left_out = stored_judgements(folder), ", ".join(sorted(manifest.left_out))
        asked = slice_in_words(manifest.settings.get("per_ability", 0))
        fixed = {"arm": manifest.arm, "protocol": protocol, "judge": manifest.judge, "reader": manifest.reader}
    part = folder.relative_to(run).parent.as_posix()
    summary = summarise(score_run(judgements, protocol)).astype(object)
    summary = summary.where(summary.notna(), None).assign(left_out=left_out, asked=asked, vouched=not as_is, part=part)
    return [fixed | {str(name): value for name, value in row.items()} for row in summary.to_dict("records")]
