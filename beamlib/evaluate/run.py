"""BEAM as a task: conversations, probes, and arms with a folder `<run>/<size>/<arm>/` each.

A folder has `answers.jsonl`, `judgements.jsonl` and `manifest.json` (`beamlib.evaluate.beam_records`).
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from beamlib.data.loading import Loaded, readable
from beamlib.data.sources import find_conversations
from beamlib.evaluate.answering import Questions, answer_questions
from beamlib.evaluate.arms import (
    JUDGE_PARAMETERS,
    JUDGE_PROMPTS,
    Arm,
    answer_parameters,
    answer_prompts,
    arms_of,
    configuration_of,
    experiments,
)
from beamlib.evaluate.beam_records import RECORD_KINDS, Evaluation, Manifest
from beamlib.evaluate.conversation_record import record_of
from beamlib.evaluate.jobs import AnyArm
from beamlib.evaluate.judging import evidence_of, judge_arms, to_judge
from beamlib.evaluate.records import ANSWERS, JUDGEMENTS, Answer, left_out_line
from beamlib.evaluate.run_store import MODEL_CODE, prompt_hashes, settings_of
from beamlib.evaluate.runner import plan_task, run_task
from beamlib.evaluate.task import STAND_IN, Task, TaskPlan, Unit, UnitSet
from beamlib.files import inside
from beamlib.llm.admission import admission_calls, learnt_marks, read_reply
from beamlib.llm.call_store import CallStore, answerers
from beamlib.llm.prompts import prompts_in_force
from beamlib.memory.declared import kind_of, young_settings
from beamlib.params import RunParameters, usual_parameters
from beamlib.run import Run
from beamlib.scoring.judge_exam import JudgeExam, known_verdicts

JUDGE_CODE = (
    *MODEL_CODE,
    *("beam_offline.judge", "beamlib.retrieval.encoder", "beamlib.retrieval.embedded"),
    *(f"beamlib.scoring.{name}" for name in ("event_ordering", "judge")),
    *(f"beamlib.scoring.{name}" for name in ("items", "replies", "records")),
    "beamlib.text",
)

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
    judge_prompts = JUDGE_PROMPTS
    judge_parameters = JUDGE_PARAMETERS
    judge_code = JUDGE_CODE
    manifest = Manifest

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

    def folder(self, run: Path, reader: str, size: str = "") -> Path:
        """The part of the run folder of a tier and backbone."""
        return inside(run, size.lower() if reader == STAND_IN else f"{size.lower()}-{reader}")

    def settings(self, arm: AnyArm, parameters: Run) -> dict[str, Any]:
        """The arm, the parameters that its answers rest on, and the code of a memory of the user's own."""
        of_others = young_settings() - kind_of(arm.memory).own_settings.model_fields.keys()
        if "questions_accumulate" in parameters.flags:  # elsewhere an answer rests on no other question
            of_others -= {"per_ability"}
        names = [name for name in answer_parameters(arm.memory) if name not in of_others]
        settings = {"arm": arm.model_dump(), **settings_of(parameters, names)}
        settings["released"] = sorted(parameters.flags)
        if arm.target:
            settings |= {"own": parameters.identity_of(arm.target)[0], "seconds": parameters.memory_timeout}
        return settings

    def prompts_of(self, arm: AnyArm, parameters: RunParameters) -> tuple[str, ...]:
        """The prompts of the reader and of the memories that every run has."""
        return answer_prompts(arm.memory, parameters)

    def stated(self, arm: AnyArm, run: Run) -> dict[str, Any]:
        """What all arms of a run state alike: settings, models and prompts of every memory that a run always has."""
        models = run.identities(arm.memory)
        names = (*answer_parameters(arm.memory), *JUDGE_PARAMETERS, "variant")
        return {
            "size": run.size,
            "configuration": configuration_of(arm, run),
            "settings": {
                "arm": arm.model_dump(), **settings_of(run, names), "released": sorted(run.flags),
            },
            "reader": models["reader"]["model"],
            "models": models,
            "prompts": prompt_hashes(run, answer_prompts("", run)),
            "token_counter": run.context.token_counter,
            "notes": run.identity_of(arm.target)[1] if arm.target else (),
            "claimed": False,
        }  # fmt: skip

    def part(self, unit: Unit, questions: Collection[str]) -> Unit:
        """The conversation with some of its questions."""
        chosen = tuple(probe for probe in unit.gold.probes if probe.id in questions)
        return _unit(replace(unit.gold, probes=chosen))

    def to_judge(self, unit: Unit, records: Sequence[Any]) -> Sequence[Any]:
        """Each answer with its question and gold."""
        return to_judge(records, unit.gold)


def _unit(loaded: Loaded) -> Unit:
    questions = Questions(loaded.conversation, loaded.probes)
    return Unit(loaded.conversation.id, questions, record_of(loaded), loaded, evidence_of(loaded))


BEAM = Beam()


def _truncation(run: Run, answers: Iterable[Answer]) -> str:
    """Say where the reader's endpoint seems to have cut long requests without a word; empty where nothing shows it.

    Then many calls share a ceiling of input tokens that contexts exceed by far. Tokens are hardly ever fewer than the
    words and marks that contexts are counted in.
    """
    if not run.models_file:
        return ""
    inputs: dict[str, list[int]] = {}
    for path in sorted(run.calls_folder().glob("*.sqlite")):
        for model, number in CallStore(path, read_only=True).inputs("reader"):
            inputs.setdefault(model, []).append(number)
    contexts = [answer.context_tokens for answer in answers]
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


def judge_exam(run: Run) -> str:
    """Say how the judge did in the exam of an admission of this run; empty if there was none."""
    judge = run.endpoints.get("judge")
    calls = admission_calls(run.calls_folder().parent) if judge else []
    known = known_verdicts(question=run.judging.question_in_prompt)
    stored = {
        call.about: call for call in calls if judge and (call.model, call.base_url) == (judge.model, judge.base_url)
    }
    if judge is None or not all(item.prompt.about in stored for item in known):
        return ""
    marks = learnt_marks(calls, judge)
    with prompts_in_force(run.prompt_files):
        replies = [read_reply(stored[item.prompt.about], marks) for item in known]
        return f"{judge.model}, {JudgeExam.of(known, replies).line}."


def evaluate(parameters: RunParameters | Run, arms: Sequence[Arm], *, quiet: bool = False) -> Evaluation:
    """Answer and judge every probe of the tier with every arm, computing only what is not on file."""
    plan = plan_run(parameters, arms, quiet=quiet)
    run_task(plan, quiet=quiet)
    return evaluation_of(plan)


def evaluation_of(plan: TaskPlan) -> Evaluation:
    """Return what is on file of the arms of a plan, once it has been run."""
    manifests: dict[str, Any] = BEAM.finish(plan)
    return Evaluation(
        run=plan.run,
        arms=tuple(plan.arms.values()),
        answers={name: [a for own in plan.records(name).values() for a in own] for name in plan.stores},
        judgements={name: [j for own in plan.records(name, JUDGEMENTS).values() for j in own] for name in plan.stores},
        manifests={name: restrict(manifest, plan.units, plan.left_out) for name, manifest in manifests.items()},
        loaded={key: unit.gold for key, unit in plan.units.items()},
        answerers=answerers(plan.run.calls_folder().glob("*.sqlite")) if plan.run.models_file else "",
        exam=judge_exam(plan.run),
        truncation=_truncation(
            plan.run, (a for name in plan.stores for own in plan.records(name).values() for a in own)
        ),
    )


def evaluate_experiment(parameters: RunParameters | Run, experiment: str) -> Evaluation:
    """Evaluate (or replay) the arms of an experiment (`beamlib.evaluate.arms.experiments`)."""
    run = Run.of(parameters)
    return evaluate(run, experiments(run)[experiment])


def plan_run(parameters: RunParameters | Run, arms: Sequence[Arm], *, quiet: bool = False) -> TaskPlan:
    """Read the conversations of a tier and find out what is missing; nothing is computed or called."""
    return plan_task(BEAM, parameters, arms, quiet=quiet)


def restrict(manifest: Manifest, ids: Collection[str], left_out: Mapping[str, str]) -> Manifest:
    """The manifest of a part of a run: the hashes cover only the conversations named. `left_out` is the part's own."""
    kept = {key: record for key, record in manifest.conversations.items() if key in ids}
    sums = {ANSWERS: manifest.answers_sha256, JUDGEMENTS: manifest.judgements_sha256}
    return Manifest.over(dict(manifest), kept, left_out, sums)
