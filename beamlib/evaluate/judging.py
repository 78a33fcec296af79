"""From answers to verdicts: what a process that judges is handed, and the gold that it alone needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beamlib.data.loading import Loaded
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.answering import answer_arms
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.calling import ResolvedParameters, open_models
from beamlib.llm.model import ModelRoles
from beamlib.llm.stored_model import THIS_RUN
from beamlib.processes import tell
from beamlib.scoring.judge import ToJudge, judge_answers
from beamlib.scoring.records import Judgement

Work = dict[str, tuple[list[Answer], list[Judgement]]]


@dataclass(frozen=True)
class JudgeTask:
    """The answers of a conversation's arms, by the arm's name, with what they are judged by."""

    conversation_id: str
    asked: Mapping[str, Sequence[ToJudge]]
    parameters: ResolvedParameters
    processes: int = 1
    run_id: str = THIS_RUN  # the parent's: a worker is of the same run
    command: str = ""  # what records a call that a replay misses; empty for that of a run

    @property
    def answers(self) -> int:
        """How many it has."""
        return sum(map(len, self.asked.values()))


def judge_task(task: JudgeTask) -> dict[str, list[Judgement]]:
    """The verdicts on a task's answers by arm, in a process of its own."""
    tell(task.conversation_id)
    opened = open_models(task.parameters, task.conversation_id, task.processes, task.run_id, command=task.command)
    with opened as roster:
        return judged(task.asked, task.parameters, roster)


def to_judge(answers: Sequence[Answer], loaded: Loaded) -> list[ToJudge]:
    """Each answer with its question and gold."""
    questions = {probe.id: probe.question for probe in loaded.probes}
    return [
        ToJudge(questions[a.probe_id], a.text, a.unscored, loaded.gold[a.probe_id], transient=a.transient)
        for a in answers
    ]


def judged(
    asked: Mapping[str, Sequence[ToJudge]], parameters: ResolvedParameters, roster: ModelRoles
) -> dict[str, list[Judgement]]:
    """The verdicts on some answers by arm, in this process and by `roster`."""
    judgements = iter(
        judge_answers(
            [one for of_arm in asked.values() for one in of_arm],
            roster.judge,
            roster.aligner,
            question_in_prompt=parameters.question_in_prompt,
            repeats=parameters.judge_repeats,
            alignment=parameters.alignment,
        )
    )
    return {name: [next(judgements) for _ in of_arm] for name, of_arm in asked.items()}


def evidence_of(loaded: Loaded) -> dict[str, tuple[int, ...]]:
    """The message ids that each probe cites, by its id: what the oracle alone is told."""
    return {probe.id: loaded.gold[probe.id].evidence for probe in loaded.probes}


def work(
    loaded: Loaded,
    arms: Sequence[Arm],
    answered: Mapping[str, list[Answer]],
    parameters: ResolvedParameters,
    roster: ModelRoles,
) -> Work:
    """Answers and judgements of one conversation by arm, in this process and by `roster`, as an estimate needs them.

    `answered` are those that only want judging.
    """
    unanswered = [arm for arm in arms if arm.name not in answered]
    made = answer_arms(unanswered, loaded.conversation, loaded.probes, parameters, roster, evidence_of(loaded))
    answers = {arm.name: made.get(arm.name) or answered[arm.name] for arm in arms}
    judgements = judged({name: to_judge(of_arm, loaded) for name, of_arm in answers.items()}, parameters, roster)
    return {name: (list(of_arm), judgements[name]) for name, of_arm in answers.items()}
