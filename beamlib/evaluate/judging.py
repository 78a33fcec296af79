"""From answers to verdicts, by BEAM's judge, and the gold that it alone needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from beamlib.data.loading import Loaded
from beamlib.evaluate.answering import answer_arms
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.records import Answer
from beamlib.llm.model import ModelRoles
from beamlib.run import Run
from beamlib.scoring.judge import ToJudge, judge_answers
from beamlib.scoring.records import Judgement

_Work = dict[str, tuple[list[Answer], list[Judgement]]]


def to_judge(answers: Sequence[Answer], loaded: Loaded) -> list[ToJudge]:
    """Each answer with its question and gold."""
    questions = {probe.id: probe.question for probe in loaded.probes}
    return [
        ToJudge(questions[a.probe_id], a.text, a.unscored, loaded.gold[a.probe_id], transient=a.transient)
        for a in answers
    ]


def judge_arms(
    asked: Mapping[str, Sequence[ToJudge]], parameters: Run, roster: ModelRoles
) -> dict[str, list[Judgement]]:
    """Judge some answers by arm, in this process and by `roster`."""
    judgements = iter(
        judge_answers(
            [answer for of_arm in asked.values() for answer in of_arm],
            roster.judge,
            roster.aligner,
            question_in_prompt=parameters.judging.question_in_prompt,
            repeats=parameters.judging.judge_repeats,
            alignment=parameters.judging.alignment,
        )
    )
    return {name: [next(judgements) for _ in of_arm] for name, of_arm in asked.items()}


def evidence_of(loaded: Loaded) -> dict[str, tuple[int, ...]]:
    """The message ids that each probe cites, by its id: for the oracle alone."""
    return {probe.id: loaded.gold[probe.id].evidence for probe in loaded.probes}


def work(
    loaded: Loaded,
    arms: Sequence[Arm],
    parameters: Run,
    roster: ModelRoles,
) -> _Work:
    """Answer and judge one conversation with some arms, in this process and by `roster`."""
    answers = answer_arms(arms, loaded.conversation, loaded.probes, parameters, roster, evidence_of(loaded))
    judgements = judge_arms({name: to_judge(own, loaded) for name, own in answers.items()}, parameters, roster)
    return {name: (list(own), judgements[name]) for name, own in answers.items()}
