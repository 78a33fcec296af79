"""What notebooks 05 to 09 show of an experiment beside its tables: one question, averages, verdicts again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

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
from beamlib.scoring.scores import AVERAGE, score_run
from beamlib.scoring.spread import judge_spread

_ALL, _DROP = "none, flag", "drop"
"""The two sets of questions that `errata` leads to: `flag` marks questions and takes none away."""


@dataclass(frozen=True)
class ShownQuestion:
    """One question, with what each arm answered and what the judge made of it."""

    loaded: Loaded
    probe: Probe
    gold: Gold
    answers: Mapping[str, Answer]
    judgements: Mapping[str, Judgement]

    def retrieved(self) -> pd.DataFrame:
        """What each arm handed to the reader: messages (a star for those that the question's author cited)."""
        rows = {}
        for name, answer in self.answers.items():
            cited = set(self.gold.evidence) & set(answer.message_ids)
            whole = cited & recalled_ids(answer)
            shown = [f"{one}*" if one in cited else str(one) for one in answer.message_ids]
            rows[name] = {
                "context tokens": answer.context_tokens,
                "messages": len(shown),
                "cited ones shown whole": f"{len(whole)} of {len(self.gold.evidence)}",
                "cited ones in part or noted": len(cited - whole),
                "first": " ".join(shown[:10]),
            }
        return pd.DataFrame(rows).T.rename_axis("memory")


def question_of(measured: Results, ability: str = "") -> ShownQuestion:
    """The first on an ability in the first conversation; else, of those that cite any, the one arms differ most on."""
    loaded = next(iter(measured.evaluation.loaded.values()))
    scores = pd.DataFrame({name: rows.set_index("probe_id")["score"] for name, rows in measured.scores.items()})
    spread = scores.T.std().fillna(0)
    ranked = sorted(loaded.probes, key=lambda one: (not loaded.gold[one.id].evidence, -spread[one.id]))
    probe = next((one for one in loaded.probes if loaded.gold[one.id].ability == ability), ranked[0])
    answers = {name: {one.probe_id: one for one in found} for name, found in measured.evaluation.answers.items()}
    judged = {name: {one.probe_id: one for one in found} for name, found in measured.evaluation.judgements.items()}
    return ShownQuestion(
        loaded,
        probe,
        loaded.gold[probe.id],
        {name: found[probe.id] for name, found in answers.items()},
        {name: found[probe.id] for name, found in judged.items()},
    )


def averages_of(measured: Results) -> pd.DataFrame:
    """Score and evidence recall of every arm, averaged; a recall is missing where nothing can be cited."""
    columns = {"score": measured.summary, "evidence recall": measured.evidence}
    return pd.DataFrame({name: averages(frame).set_index("series")["mean"] for name, frame in columns.items()})


def light_against(measured: Results, seed: int) -> pd.DataFrame:
    """LIGHT minus every other arm, paired over conversations, with a t-interval and the p-value of a sign-flip test."""
    light = next(name for name in measured.scores if name.startswith("light"))
    rows = {}
    for name, scores in measured.scores.items():
        if name != light:
            found = compare(measured.scores[light], scores, seed=seed)
            rows[name] = {one: getattr(found, one) for one in ("difference", "low", "high", "p_value", "n")}
    return pd.DataFrame(rows).T.rename_axis("light minus").round(3)


def by_protocol(measured: Results) -> pd.DataFrame:
    """The averages of all arms under every protocol, from the same verdicts."""
    rows = {}
    for protocol in PROTOCOLS:
        scores = {name: score_run(judged, protocol) for name, judged in measured.evaluation.judgements.items()}
        rows[protocol] = shown_averages(long_frame(scores))
    return pd.DataFrame(rows).T


def without_defective(measured: Results) -> tuple[Table, pd.DataFrame]:
    """Scores of all questions beside those that no erratum spoils, as a table, and the averages by protocol."""
    loaded = measured.evaluation.loaded
    spoilt = spoilt_probes([probe for one in loaded.values() for probe in one.probes])
    size = measured.evaluation.parameters.size
    title = (
        f"All questions (errata: none, flag) beside those that no erratum spoils (drop: {len(spoilt)} fewer), {size}"
    )
    table = result_table(errata_effect(measured.scores, spoilt), title, measured.footer, measured.manifests)
    return table, effect_by_protocol(measured.evaluation.judgements, spoilt).round(3)


def steadiness(measured: Results) -> pd.DataFrame:
    """How far the averages of all arms differ where the judge is asked again, and how many nuggets changed."""
    protocol = measured.evaluation.parameters.protocol
    spread = {name: judge_spread(judged, protocol) for name, judged in measured.evaluation.judgements.items()}
    rows = [frame[frame["ability"] == "average"].assign(memory=name) for name, frame in spread.items()]
    return pd.concat(rows).set_index("memory")[["sd", "changed", "n_nuggets", "n_questions", "missing"]].round(3)


def index_recall(measured: Results) -> pd.DataFrame:
    """Evidence recall of LIGHT's episodic index by itself."""
    gold = {key: value for one in measured.evaluation.loaded.values() for key, value in one.gold.items()}
    alone = {}
    for name, answers in measured.evaluation.answers.items():
        episodic = [_only_episodic(answer) for answer in answers]
        alone[name] = recall_rows(episodic, gold)
    return averages(long_frame(alone)).set_index("series")[["mean"]].rename(columns={"mean": "episodic index alone"})


def _only_episodic(answer: Answer) -> Answer:
    ids = answer.parts.get("episodic", ())
    return answer.model_copy(update={"parts": {"episodic": ids}, "message_ids": ids})


def recall_by_counting(measured: Results) -> pd.DataFrame:
    """Average evidence recall of every arm: messages shown whole, shown at least in part, shown or noted."""
    columns = {"whole": measured.evidence, "at least in part": measured.partial, "shown or noted": measured.noted}
    frame = {name: averages(recall).set_index("series")["mean"] for name, recall in columns.items()}
    return pd.DataFrame(frame).round(3)


def cut_counts(measured: Results) -> pd.DataFrame:
    """Count per arm what was recalled and did not fit into the contexts, beside their mean size in tokens."""
    rows = {}
    for name, answers in measured.evaluation.answers.items():
        losses = ContextLosses.of(answers)
        rows[name] = {
            "questions": len(answers),
            "with cuts": losses.cut_answers,
            **{name.replace("_", " "): count for name, count in asdict(losses.cuts).items()},
            "mean context tokens": round(sum(answer.context_tokens for answer in answers) / max(len(answers), 1)),
        }
    return pd.DataFrame(rows).T.rename_axis("series")


def errata_effect(scores: Mapping[str, pd.DataFrame], spoilt: Collection[str]) -> pd.DataFrame:
    """Every arm over all its questions (`none`, `flag`) and, as "<arm>, drop", without those in `spoilt`: a long frame.

    `scores` are tables of `score_run` by arm. Nothing is asked again: under `flag` the judgements hold all questions.
    """
    parts = []
    for arm, frame in scores.items():
        spared = frame[~frame["probe_id"].isin(spoilt)]
        parts.append(long_frame({arm: frame}).assign(arm=arm, errata=_ALL))
        parts.append(long_frame({f"{arm}, {_DROP}": spared}).assign(arm=arm, errata=_DROP))
    return pd.concat(parts, ignore_index=True)


def effect_by_protocol(judgements: Mapping[str, Sequence[Judgement]], spoilt: Collection[str]) -> pd.DataFrame:
    """The averages of `errata_effect` under every protocol, by protocol and arm, for the judgements of one tier.

    Beside each average its rank among the arms and `n`, the questions that have a score; `unscored` counts the others.
    `conversations` says how many there are: one by itself ranks nothing.
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
