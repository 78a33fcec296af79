"""Answers on file judged again, by another judge under this project's prompts (`beamlib judge`).

The new verdicts lie beside the old ones, in a part of their own (`1m-by-offline` beside `1m`): the same arms and
answers, another judge. Estimate, store of calls, resume and the search for keys are those of every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beam_field.results import plain
from beam_run.dry_run import CallTally
from beam_run.estimate import rehearsed_roster, stored_means, summary
from beamlib.confirmation import Priced, confirm_calls
from beamlib.data.gold import Gold
from beamlib.data.loading import load_questions
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.arm_folder import (
    ANSWERS,
    JUDGE_PARAMETERS,
    JUDGE_PROMPTS,
    JUDGED_BY,
    JUDGEMENTS,
    MANIFEST,
    ArmFolder,
    judgements_key,
    made,
    read_manifest,
    stored_answers,
    stored_judgements,
)
from beamlib.evaluate.calling import ResolvedParameters, ensure_keys, identities, resolved
from beamlib.evaluate.imported import DETAILS, read_details
from beamlib.evaluate.judging import JudgeTask, judge_task, judged
from beamlib.evaluate.run import worked
from beamlib.evaluate.run_store import RunStore, made_by, prompt_hashes, settings_of
from beamlib.files import make_folder, read_text, write_text
from beamlib.llm import call_store as locks
from beamlib.llm.endpoints import load_models
from beamlib.llm.spending import keys_kept_out
from beamlib.params import generated_in, usual_parameters
from beamlib.processes import one_cluster
from beamlib.scoring.judge import ToJudge
from beamlib.text import shell_command


@dataclass(frozen=True)
class JudgeOptions:
    """What `beamlib judge` was asked for: `run` is a run folder or a part of one, `models` empty for the offline judge.

    `data` is a folder with the released questions, for answers whose rubric is not on file.
    """

    run: Path
    models: str = ""
    data: Path | None = None
    calls: str = "record"
    prompts: Path | None = None
    settings: Mapping[str, Any] | None = None
    yes: bool = False


class JudgedAgain(ArmFolder):
    """The folder of an arm that is judged again: its answers as they are, and what another judge says of them."""

    def __init__(self, source: Path, parameters: ResolvedParameters) -> None:
        found, judge = read_manifest(source), identities(parameters)["judge"]["model"]
        keys = {ANSWERS: found.answers_key, JUDGEMENTS: judgements_key(found.answers_key, parameters)}
        part = f"{source.parent.name}{JUDGED_BY}{plain('offline' if not parameters.models else judge)}"
        RunStore.__init__(self, source.parent.with_name(part) / source.name, keys)
        if (self.folder / MANIFEST).exists() and read_manifest(self.folder).judgements_key != keys[JUDGEMENTS]:
            raise UserError(
                f"{self.folder.parent}: it holds verdicts of this judge by other settings, prompts or code, or of "
                "other answers; give that folder another name to keep them, or delete it."
            )
        self.source, self.found, self.held = source, found, stored_answers(source)
        seen = {"judge": judge, "judge_sees_rubric": "yes", "judge_sees_reference": "no", "shipped": ""}
        seen["judge_prompt"] = ""  # the source's; the hashes in `prompts` name this one
        seen["judge_sees_question"] = "yes" if parameters.question_in_prompt else "no"
        self._begun = {
            **dict(found),
            "judge": judge,
            "settings": found.settings | ({} if found.imported else settings_of(parameters, JUDGE_PARAMETERS)),
            "models": found.models | {role: identities(parameters)[role] for role in ("judge", "aligner")},
            "prompts": found.prompts | prompt_hashes(parameters, JUDGE_PROMPTS),
            "judgements_key": keys[JUDGEMENTS],
            "imported": found.imported.model_copy(update=seen) if found.imported else None,
            **made_by(),
        }

    def take_over(self) -> None:
        """Put the answers here, and what their source said of the questions."""
        self.begin()
        if self.found.imported:
            write_text(self.folder / DETAILS, read_text(self.source / DETAILS))
        self.made[ANSWERS] = {key: made(self.found.conversations[key], own) for key, own in self.held.items()}
        self.left_out[ANSWERS] = dict(self.found.left_out)
        self.write()
        self.write_manifest()


@dataclass(frozen=True)
class _Part:
    """A part of a run: its arms, and the answers that have no verdict of this judge, by conversation and arm."""

    name: str
    parameters: ResolvedParameters
    arms: Sequence[JudgedAgain]
    asked: Mapping[str, Mapping[str, Sequence[ToJudge]]]
    command: str

    def estimate(self) -> Priced:
        """What judging would call: the code that judges, with models that call nobody."""
        expected, tally = stored_means(self.parameters), CallTally()
        for key, asked in self.asked.items():
            with rehearsed_roster(self.parameters, key, expected) as (roster, one):
                judged(asked, self.parameters, roster)
            tally.add(one)
        names = tuple(arm.found.arm for arm in self.arms)
        found = summary(self.parameters, names, tally, expected, conversations=len(self.asked))
        return found

    def judge(self, confirmed: bool) -> list[str]:
        """Judge what is missing; the verdicts are written as they come."""
        for arm in self.arms:
            arm.take_over()
        if self.parameters.models:
            load_models(Path(self.parameters.models)).keep(self.arms[0].folder.parent)
        parameters = self.parameters.model_copy(update={"confirm_cost": confirmed})
        by_name = {arm.found.arm: arm for arm in self.arms}
        tasks = [JudgeTask(key, asked, parameters, command=self.command) for key, asked in self.asked.items()]
        with closing(worked(judge_task, [tasks], f"judging {self.name}", parameters, quiet=False)) as done:
            for task, judgements in done:
                for name, own in judgements.items():
                    arm = by_name[name]
                    arm.take(JUDGEMENTS, task.conversation_id, made(arm.found.conversations[task.conversation_id], own))
        return [_line(arm) for arm in self.arms]


def _line(arm: JudgedAgain) -> str:
    judgements = [one for own in arm.made[JUDGEMENTS].values() for one in own.value]
    missing = sum(any(v.score is None for v in one.verdicts) or bool(one.unscored) for one in judgements)
    shown = f", {missing} of them not in full" if missing else ""
    return f"{arm.folder}: {len(judgements)} answers judged by {arm._begun['judge']}{shown}"


def judge_again(options: JudgeOptions) -> list[str]:
    """Judge every arm of a run again; a line per arm that says where its verdicts are.

    Nothing is called without a yes to what it would cost. What is on file by the same judge is kept, so a run that was
    killed goes on. A `UserError` where there is nothing to judge, or a rubric is at hand nowhere.
    """
    groups: dict[Path, list[Path]] = {}
    for folder in _sources(options.run):
        groups.setdefault(folder.parent, []).append(folder)
    with ExitStack() as held:
        parts = [_part(own, options, held) for own in groups.values()]
        confirmed = options.yes
        if options.models and options.calls != "replay":
            roles = ("judge", "aligner")
            confirmed = confirm_calls(
                {one.name: one.estimate() for one in parts},
                lambda: ensure_keys(parts[0].parameters, roles),
                options.yes,
            )
        with keys_kept_out(Path(parts[0].parameters.run), options.models), one_cluster():
            return [line for one in parts for line in one.judge(confirmed)]


@contextmanager
def _alone(part: Path) -> Iterator[None]:
    """This process is the only one that judges for `part`; a `UserError` where another is at it."""
    lock = make_folder(part.parent) / f".{part.name}.judging"
    try:
        locks.take(lock)
    except BlockingIOError:
        raise UserError(
            f"{part}: another `beamlib judge` is writing it; wait until it has ended, or stop it."
        ) from None
    except OSError as error:
        raise UserError(f"{part}: cannot be written ({error.strerror}).") from None
    try:
        yield
    finally:
        locks.give(lock)


def _sources(run: Path) -> list[Path]:
    """The arms' folders below a run folder or a part of one, but for those that were judged again."""
    folders = sorted(path.parent for pattern in (f"*/{MANIFEST}", f"*/*/{MANIFEST}") for path in run.glob(pattern))
    names = {path.name for path in run.iterdir() if path.is_dir()} if run.is_dir() else set()
    names |= {path.name for path in run.parent.iterdir() if path.is_dir()} if folders else set()
    kept = [one for one in folders if not any(one.parent.name.startswith(f"{name}{JUDGED_BY}") for name in names)]
    if not kept:
        raise UserError(f"{run}: no answers to judge in it; name a run folder of `beamlib import` or run_all.sh.")
    return kept


def _part(folders: Sequence[Path], options: JudgeOptions, held: ExitStack) -> _Part:
    """Read the answers of a part, and what is on file of their verdicts."""
    run = folders[0].parent.parent
    given: dict[str, Any] = {"run": str(run), "models": options.models, "calls": options.calls}
    given |= {"prompts": str(options.prompts.absolute())} if options.prompts else {}
    parameters = resolved(usual_parameters(read_manifest(folders[0]).size, **{**(options.settings or {}), **given}))
    arms = [JudgedAgain(folder, parameters) for folder in folders]
    held.enter_context(_alone(arms[0].folder.parent))
    asked: dict[str, dict[str, Sequence[ToJudge]]] = {}
    for arm in arms:
        if options.calls != "refresh":
            arm.open(arm.found.conversations, again=options.calls == "record")
        own = None if arm.found.imported else generated_in(run)  # imported answers are to the released questions
        questions = _questions(arm, options.data or own)
        for key, answers in arm.held.items():
            if key not in arm.made[JUDGEMENTS]:
                asked.setdefault(key, {})[arm.found.arm] = [questions(answer) for answer in answers]
    places = {"--data": options.data or "", "--models": options.models}
    command = shell_command(f"beamlib judge {folders[0].parent}", places, options.settings, ["--yes"])
    return _Part(folders[0].parent.name, parameters, arms, dict(sorted(asked.items())), command)


def _questions(arm: JudgedAgain, data: Path | None) -> Callable[[Answer], ToJudge]:
    """What hands an answer to the judge: the question and rubric of its source, else those of the released data."""
    told = {} if arm.found.imported is None else read_details(arm.source, arm.found.imported)
    abilities = {one.probe_id: one.ability for one in stored_judgements(arm.source)}
    known: dict[str, tuple[str, Gold]] = {}
    if data is not None:
        for source in find_conversations(data, [arm.found.size]):
            if source.id in arm.found.conversations:
                probes, gold, _ = load_questions(source)
                known |= {probe.id: (probe.question, gold[probe.id]) for probe in probes}

    def to_judge(answer: Answer) -> ToJudge:
        own = told.get(answer.probe_id)
        if answer.probe_id in known:
            question, gold = known[answer.probe_id]
            if own is not None and own.question not in ("", question):
                raise UserError(f"{data}: {answer.probe_id} is another question there than in {arm.source}.")
        elif own is not None and own.question and own.rubric:
            known_by = (answer.probe_id, answer.conversation_id, abilities[answer.probe_id])
            question, gold = own.question, Gold(*known_by, own.rubric, "", (), "")
        else:
            raise UserError(
                f"{arm.source}: the rubric of {answer.probe_id} is not there; name the released questions with --data."
            )
        return ToJudge(question, answer.text, answer.unscored, gold, transient=answer.transient)

    return to_judge
