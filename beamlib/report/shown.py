"""Views of an experiment for notebooks 05 to 09: a single question, averages, protocols, repeated verdicts, errata."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd

from beamlib.data.conversations import Probe
from beamlib.data.errata import spoilt_probes
from beamlib.data.gold import Gold
from beamlib.data.loading import Loaded
from beamlib.evaluate.answer_record import Answer, ContextLosses
from beamlib.report.figures import averages
from beamlib.report.results import Results, long_frame, recall_rows, recalled_ids
from beamlib.report.table import Table
from beamlib.report.tables import result_table, shown_averages
from beamlib.scoring.intervals import compare
from beamlib.scoring.protocols import PROTOCOLS
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import AVERAGE, judge_spread, score_run

_Record = TypeVar("_Record", Answer, Judgement)
_ALL, _DROP = "none, flag", "drop"
"""The two question sets of the parameter `errata`: `flag` marks questions and removes none."""


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


def question_of(measured: Results, ability: str = "") -> ShownQuestion:
    """Pick a question of the first conversation: the first of an ability, else the one that arms differ most on."""
    loaded = next(iter(measured.evaluation.loaded.values()))
    scores = pd.DataFrame({name: rows.set_index("probe_id")["score"] for name, rows in measured.scores.items()})
    spread = scores.T.std().fillna(0)
    ranked = sorted(loaded.probes, key=lambda probe: (not loaded.gold[probe.id].evidence, -spread[probe.id]))
    probe = next((probe for probe in loaded.probes if loaded.gold[probe.id].ability == ability), ranked[0])
    return ShownQuestion(
        loaded,
        probe,
        loaded.gold[probe.id],
        {name: _of_probe(answers, probe) for name, answers in measured.evaluation.answers.items()},
        {name: _of_probe(judgements, probe) for name, judgements in measured.evaluation.judgements.items()},
    )


def _of_probe(records: Sequence[_Record], probe: Probe) -> _Record:
    return next(record for record in records if record.probe_id == probe.id)


def averages_of(measured: Results) -> pd.DataFrame:
    """Average score and evidence recall of every arm; recall is missing if no question cites messages."""
    columns = {"score": measured.summary, "evidence recall": measured.evidence}
    return pd.DataFrame({name: averages(frame).set_index("series")["mean"] for name, frame in columns.items()})


def light_against(measured: Results, seed: int) -> pd.DataFrame:
    """Compare LIGHT with every other arm, paired over conversations: t-interval and p-value of a sign-flip test."""
    light = next(name for name in measured.scores if name.startswith("light"))
    rows = {}
    for name, scores in measured.scores.items():
        if name != light:
            change = compare(measured.scores[light], scores, seed=seed)
            rows[name] = {field: getattr(change, field) for field in ("difference", "low", "high", "p_value", "n")}
    return pd.DataFrame(rows).T.rename_axis("light minus").round(3)


def by_protocol(measured: Results) -> pd.DataFrame:
    """Average all arms under every protocol, from the same verdicts."""
    rows = {}
    for protocol in PROTOCOLS:
        scores = {name: score_run(judged, protocol) for name, judged in measured.evaluation.judgements.items()}
        rows[protocol] = shown_averages(long_frame(scores))
    return pd.DataFrame(rows).T


def without_defective(measured: Results) -> tuple[Table, pd.DataFrame]:
    """Compare the scores of all questions with those that no erratum spoils: a table, and averages by protocol."""
    spoilt = spoilt_probes([probe for loaded in measured.evaluation.loaded.values() for probe in loaded.probes])
    size = measured.evaluation.parameters.size
    title = (
        f"All questions (errata: none, flag) beside those that no erratum spoils (drop: {len(spoilt)} fewer), {size}"
    )
    table = result_table(errata_effect(measured.scores, spoilt), title, measured.footer, measured.manifests)
    return table, effect_by_protocol(measured.evaluation.judgements, spoilt).round(3)


def steadiness(measured: Results) -> pd.DataFrame:
    """Measure how the averages of all arms, and the verdicts, change when the judge is asked again."""
    protocol = measured.evaluation.parameters.protocol
    spread = {name: judge_spread(judged, protocol) for name, judged in measured.evaluation.judgements.items()}
    rows = [frame[frame["ability"] == "average"].assign(memory=name) for name, frame in spread.items()]
    return pd.concat(rows).set_index("memory")[["sd", "changed", "n_nuggets", "n_questions", "missing"]].round(3)


def index_recall(measured: Results) -> pd.DataFrame:
    """Compute the evidence recall of LIGHT's episodic index by itself."""
    gold = {key: value for loaded in measured.evaluation.loaded.values() for key, value in loaded.gold.items()}
    alone = {}
    for name, answers in measured.evaluation.answers.items():
        episodic = [_only_episodic(answer) for answer in answers]
        alone[name] = recall_rows(episodic, gold)
    return averages(long_frame(alone)).set_index("series")[["mean"]].rename(columns={"mean": "episodic index alone"})


def _only_episodic(answer: Answer) -> Answer:
    ids = answer.parts.get("episodic", ())
    return answer.model_copy(update={"parts": {"episodic": ids}, "message_ids": ids})


def recall_by_counting(measured: Results) -> pd.DataFrame:
    """Average the evidence recall of every arm: messages shown whole, at least in part, shown or noted."""
    columns = {"whole": measured.evidence, "at least in part": measured.partial, "shown or noted": measured.noted}
    frame = {name: averages(recall).set_index("series")["mean"] for name, recall in columns.items()}
    return pd.DataFrame(frame).round(3)


def cut_counts(measured: Results) -> pd.DataFrame:
    """Count per arm what was recalled and did not fit into the contexts, and their mean size in tokens."""
    rows = {}
    for name, answers in measured.evaluation.answers.items():
        losses = ContextLosses.of(answers)
        rows[name] = {
            "questions": len(answers),
            "with cuts": losses.cut_answers,
            **losses.cuts.labelled,
            "mean context tokens": round(sum(answer.context_tokens for answer in answers) / max(len(answers), 1)),
        }
    return pd.DataFrame(rows).T.rename_axis("series")


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
        average = effect[effect["ability"] == AVERAGE].pivot(index="arm", columns="errata")
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
