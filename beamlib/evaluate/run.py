"""BEAM as a task: conversations, probes, and arms with a folder `<run>/<size>/<arm>/` each.

A folder has `answers.jsonl`, `judgements.jsonl` and `manifest.json` (`beamlib.evaluate.arm_folder`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from beamlib.data.checked_json import left_out_line
from beamlib.data.loading import Loaded, readable
from beamlib.data.sources import find_conversations
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.answering import Questions, answer_questions
from beamlib.evaluate.arm_folder import MANIFEST, RECORD_KINDS, ArmFolder, Manifest, read_manifest, restrict
from beamlib.evaluate.arms import Arm, arms_of, experiments
from beamlib.evaluate.conversation_record import record_of
from beamlib.evaluate.jobs import AnyArm
from beamlib.evaluate.judging import evidence_of, judge_arms, to_judge
from beamlib.evaluate.run_store import JUDGEMENTS
from beamlib.evaluate.runner import plan_task, run_task
from beamlib.evaluate.task import Task, TaskPlan, Unit, UnitSet
from beamlib.llm.call_store import CallStore
from beamlib.params import RunParameters, usual_parameters
from beamlib.run import Run
from beamlib.scoring.records import Judgement

_CEILING, _LONGER, _CALLS = 0.97, 1.5, 5
"""What shows that an endpoint cuts: so many calls above the first share of the largest count of input tokens, and as
many contexts above the second."""


class Beam(Task):
    """BEAM: ten abilities probed on conversations of 100K to 10M tokens, judged nugget by nugget."""

    name = ""
    title = "BEAM"
    isolated = True
    records = RECORD_KINDS
    answer = staticmethod(answer_questions)
    judge = staticmethod(judge_arms)

    def label(self, parameters: RunParameters) -> str:
        """The tier."""
        return parameters.size

    def units(self, parameters: RunParameters, *, quiet: bool = False) -> UnitSet:
        """Read the conversations of a tier, at most `conversations`; one that cannot be read is `Unreadable`.

        With `skip_broken` it is left out, and the next conversation takes its place.
        """
        sources = find_conversations(Path(parameters.data), [parameters.size])
        most = parameters.conversations or len(sources)
        title = f"{parameters.size}: reading conversations"
        bar = tqdm(sources, total=min(most, len(sources)), desc=title, disable=quiet or None, leave=False, delay=2)
        left_out: dict[str, str] = {}
        reading = readable(bar, parameters.treatment, skip_broken=parameters.skip_broken, left_out=left_out)
        units = [_unit(loaded) for loaded in islice(reading, most)]
        if left_out and not quiet:
            print(left_out_line(left_out), file=sys.stderr)
        return UnitSet(units, left_out)

    def all_arms(self) -> Sequence[Arm]:
        """The arms of all experiments by the usual parameters."""
        return self.arms(usual_parameters("100K"))

    def arms(self, parameters: RunParameters) -> Sequence[Arm]:
        """The arms of all experiments."""
        return arms_of(parameters, experiments(parameters))

    def store(self, arm: AnyArm, parameters: Run) -> ArmFolder:
        """The arm's folder."""
        return ArmFolder(Arm.model_validate(arm), parameters)

    def to_judge(self, unit: Unit, records: Sequence[Any]) -> Sequence[Any]:
        """Each answer with its question and gold."""
        return to_judge(records, unit.gold)


def _unit(loaded: Loaded) -> Unit:
    questions = Questions(loaded.conversation, loaded.probes)
    return Unit(loaded.conversation.id, questions, record_of(loaded), loaded, evidence_of(loaded))


BEAM = Beam()


@dataclass(frozen=True)
class Evaluation:
    """The results of `evaluate`: per arm, judgements, answers and manifest of the conversations of the run."""

    run: Run
    arms: tuple[Arm, ...]
    answers: Mapping[str, list[Answer]]
    judgements: Mapping[str, list[Judgement]]
    manifests: Mapping[str, Manifest]
    loaded: Mapping[str, Loaded]

    @cached_property
    def truncation(self) -> str:
        """Where the reader's endpoint seems to have cut long requests without a word; empty where nothing shows it.

        Then many calls share a ceiling of input tokens that contexts exceed by far. Tokens are hardly ever fewer than
        the words and marks that contexts are counted in.
        """
        if not self.run.models_file:
            return ""
        inputs: dict[str, list[int]] = {}
        for path in sorted(self.run.calls_folder().glob("*.sqlite")):
            for model, number in CallStore(path, read_only=True).inputs("reader"):
                inputs.setdefault(model, []).append(number)
        contexts = [answer.context_tokens for answers in self.answers.values() for answer in answers]
        for model, tokens in inputs.items():
            ceiling = max(tokens)
            sharing = sum(count > _CEILING * ceiling for count in tokens)
            longer = sum(context > _LONGER * ceiling for context in contexts)
            if ceiling and min(sharing, longer) >= _CALLS:
                return (
                    f"The endpoint of {model} counts at most {ceiling:,} input tokens, {sharing:,} times, while "
                    f"{longer:,} contexts have up to {max(contexts):,}: it seems to cut long requests without a word. "
                    "Raise its window (Ollama: num_ctx), or give it as context_window in the models file."
                )
        return ""


def evaluate(parameters: RunParameters | Run, arms: Sequence[Arm], *, quiet: bool = False) -> Evaluation:
    """Answer and judge every probe of the tier with every arm, computing only what is not on file."""
    plan = plan_run(parameters, arms, quiet=quiet)
    run_task(plan, quiet=quiet)
    manifests: dict[str, Any] = BEAM.finish(plan)
    return Evaluation(
        run=plan.run,
        arms=tuple(dict.fromkeys(arms)),
        answers={name: [a for own in plan.records(name).values() for a in own] for name in plan.stores},
        judgements={name: [j for own in plan.records(name, JUDGEMENTS).values() for j in own] for name in plan.stores},
        manifests={name: restrict(manifest, plan.units, plan.left_out) for name, manifest in manifests.items()},
        loaded={key: unit.gold for key, unit in plan.units.items()},
    )


def plan_run(parameters: RunParameters | Run, arms: Sequence[Arm], *, quiet: bool = False) -> TaskPlan:
    """Read the conversations of a tier and find out what is missing; nothing is computed or called."""
    return plan_task(BEAM, parameters, arms, quiet=quiet)


def left_out(run: Run) -> dict[str, str]:
    """The conversations that a run on file left out, with the reason."""
    places = [run.path(arm.name) for arm in BEAM.arms(run)]
    there = [place for place in places if (place / MANIFEST).exists()]
    return {key: why for place in there for key, why in read_manifest(place).left_out.items()}
