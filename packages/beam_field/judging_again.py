"""Judge the answers of a run again, by another judge under this project's prompts (`beamlib judge`).

The new verdicts get a part of their own beside the old ones (`1m-by-offline` beside `1m`), with the same arms and
answers. Estimate, call store and resuming are those of every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableSet, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from beam_commands.admission import count_admission
from beam_commands.confirmation import confirm_calls
from beam_commands.costs import Estimate
from beam_commands.dry_run import CallTally
from beam_commands.estimate import build_estimate, longest_requests, rehearsed_roster, stored_means
from beam_commands.run_admission import admit_and_tune, candidates_of
from beam_field.results import folder_name
from beamlib.data.gold import Gold
from beamlib.data.loading import load_questions
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError
from beamlib.evaluate.arms import JUDGE_PARAMETERS
from beamlib.evaluate.beam_records import (
    DETAILS,
    JUDGED_BY,
    MANIFEST,
    RECORD_KINDS,
    Manifest,
    read_details,
    read_manifest,
    run_and_part,
    stored_answers,
    stored_judgements,
)
from beamlib.evaluate.calling import ensure_keys
from beamlib.evaluate.jobs import JudgeJob, run_jobs
from beamlib.evaluate.judging import judge_arms
from beamlib.evaluate.records import ANSWERS, JUDGEMENTS, Answer, UnitOutput, made_by
from beamlib.evaluate.run import BEAM
from beamlib.evaluate.run_store import RunStore, settings_of
from beamlib.files import make_folder, read_text, write_text
from beamlib.llm import call_store as locks
from beamlib.llm.spending import guard_run
from beamlib.params import generated_in, usual_parameters
from beamlib.processes import one_cluster
from beamlib.run import Run
from beamlib.scoring.judge import ToJudge
from beamlib.scoring.records import Judgement
from beamlib.text import shell_command


@dataclass(frozen=True)
class JudgeOptions:
    """The options of `beamlib judge`.

    `run` is a run folder or a part of one; `models` is empty for the offline judge. `data` is a folder with the
    released questions, for answers whose rubric is not on file. With `admission` the judge answers known questions and
    passes an exam first; with `judge_anyway` it may fail that.
    """

    run: Path
    models: str = ""
    data: Path | None = None
    calls: str = "record"
    prompts: Path | None = None
    settings: Mapping[str, Any] | None = None
    yes: bool = False
    admission: bool = False
    judge_anyway: bool = False


class JudgedAgain(RunStore[Manifest]):
    """The folder of an arm that is judged again: its answers unchanged, with another judge's verdicts."""

    def __init__(self, source: Path, parameters: Run) -> None:
        manifest = read_manifest(source)
        judging = BEAM.judged_by(dict(manifest), parameters)
        judge, key = judging["judge"], judging["judgements_key"]
        part = f"{source.parent.name}{JUDGED_BY}{folder_name(judge if parameters.models else 'offline')}"
        folder = source.parent.with_name(part) / source.name
        if (folder / MANIFEST).exists() and read_manifest(folder).judgements_key != key:
            raise UserError(
                f"{folder.parent}: it holds verdicts of this judge by other settings, prompts or code, or of "
                "other answers; rename that folder to keep them, or delete it."
            )
        self.source, self.source_manifest, self.source_answers = source, manifest, stored_answers(source)
        shown = {"judge": judge, "judge_sees_rubric": "yes", "judge_sees_reference": "no", "shipped": ""}
        shown["judge_prompt"] = ""  # the source's; the hashes in `prompts` name this one
        shown["judge_sees_question"] = "yes" if parameters.judging.question_in_prompt else "no"
        settings = {} if manifest.imported else settings_of(parameters, JUDGE_PARAMETERS)
        fields = {
            **dict(manifest),
            **judging,
            "settings": manifest.settings | settings,
            "imported": manifest.imported.model_copy(update=shown) if manifest.imported else None,
            **made_by(),
        }
        super().__init__(folder, Manifest, RECORD_KINDS, fields)

    def copy_answers(self) -> None:
        """Write the source's answers, and its details of the questions, into this folder."""
        self.begin()
        if self.source_manifest.imported:
            write_text(self.folder / DETAILS, read_text(self.source / DETAILS))
        conversations = self.source_manifest.conversations
        self.outputs[ANSWERS] = {
            key: UnitOutput(list(answers), conversations[key]) for key, answers in self.source_answers.items()
        }
        self.left_out = dict(self.source_manifest.left_out)
        self.flush()

    def take_judgements(self, conversation: str, judgements: list[Judgement]) -> None:
        """Record the judgements of a conversation."""
        self.add(conversation, self.source_manifest.conversations[conversation], {JUDGEMENTS: judgements})

    def summary(self) -> str:
        """Return a line that says where the verdicts are."""
        judgements = [judgement for own in self.outputs[JUDGEMENTS].values() for judgement in own.records]
        partial = sum(any(v.score is None for v in own.verdicts) or bool(own.unscored) for own in judgements)
        shown = f", {partial} of them not in full" if partial else ""
        return f"{self.folder}: {len(judgements)} answers judged by {self.fields['judge']}{shown}"


@dataclass(frozen=True)
class _Part:
    """A part of a run: its arms, and the answers without a verdict of this judge, by conversation and arm."""

    name: str
    parameters: Run
    arms: Sequence[JudgedAgain]
    pending: Mapping[str, Mapping[str, Sequence[ToJudge]]]
    command: str

    def estimate(self, admitted: MutableSet[str] | None) -> Estimate:
        """Estimate the calls by running the judging code with models that call nobody.

        Args:
            admitted: Keys of known questions that are counted for another part; None for no admission.
        """
        expected, tally = stored_means(self.parameters), CallTally()
        for key, answers in self.pending.items():
            with rehearsed_roster(self.parameters, key, expected) as (roster, calls):
                judge_arms(answers, self.parameters, roster)
            tally.merge(calls)
        if admitted is not None and (longest := longest_requests(tally)):
            candidates = candidates_of(self.parameters, longest)
            tally.merge(count_admission(candidates, admitted, self.parameters.counter))
        arms = tuple(arm.source_manifest.arm for arm in self.arms)
        return build_estimate(self.parameters, arms, tally, expected, conversations=len(self.pending))

    def judge(self, confirmed: bool, admit: Callable[[Run], Run]) -> list[str]:
        """Admit the judge, judge the pending answers, write verdicts as they come, and return a line per arm."""
        parameters = admit(self.parameters.model_copy(update={"confirm_cost": confirmed}))
        for arm in self.arms:
            arm.copy_answers()
        if self.parameters.models_file:
            self.parameters.models_file.save(self.arms[0].folder.parent)
        by_name = {arm.source_manifest.arm: arm for arm in self.arms}
        jobs = [JudgeJob(key, own, judge_arms, parameters, command=self.command) for key, own in self.pending.items()]
        with closing(run_jobs([jobs], f"{parameters.size}: judging {self.name}", parameters)) as done:
            for job, judgements in done:
                for name, own in judgements.items():
                    by_name[name].take_judgements(job.conversation_id, own)
        for arm in self.arms:
            arm.finish()
        return [arm.summary() for arm in self.arms]


def judge_again(options: JudgeOptions) -> list[str]:
    """Judge every arm of a run again and return a line per arm; estimated costs have to be confirmed.

    Verdicts of the same judge on file are kept, so a killed run resumes.

    Raises:
        UserError: There is nothing to judge, or a rubric is nowhere to be found.
    """
    groups: dict[Path, list[Path]] = {}
    for folder in _sources(options.run):
        groups.setdefault(folder.parent, []).append(folder)

    def admission(estimated: Estimate | None) -> Callable[[Run], Run]:
        if not options.admission or estimated is None or not estimated.pending:
            return lambda run: run
        return partial(admit_and_tune, estimate=estimated, judge_anyway=options.judge_anyway)

    with ExitStack() as locked:
        parts = [_part(own, options, locked) for own in groups.values()]
        confirmed, estimates = options.yes, dict[str, Estimate]()
        if options.models and options.calls != "replay":
            admitted = set[str]() if options.admission else None
            estimates = {part.name: part.estimate(admitted) for part in parts}
            confirmed = confirm_calls(
                dict(estimates),
                lambda: ensure_keys(parts[0].parameters, ("judge", "aligner")),
                options.yes,
            )
        with guard_run(parts[0].parameters.folder, parts[0].parameters.models_file), one_cluster():
            return [line for part in parts for line in part.judge(confirmed, admission(estimates.get(part.name)))]


@contextmanager
def _locked(part: Path) -> Iterator[None]:
    """Keep other processes from judging for `part`; raise `UserError` if one does."""
    lock = make_folder(part.parent) / f".{part.name}.judging"
    try:
        locks.lock_file(lock)
    except BlockingIOError:
        raise UserError(
            f"{part}: another `beamlib judge` is writing it; wait until it has ended, or stop it."
        ) from None
    except OSError as error:
        raise UserError(f"{part}: cannot be written ({error.strerror}).") from None
    try:
        yield
    finally:
        locks.unlock_file(lock)


def _sources(place: Path) -> list[Path]:
    """Return the arms' folders below a run folder or a part of one, without those that were judged again."""
    run, part = run_and_part(place)
    folders = sorted(path.parent for path in run.glob(f"{part or '*'}/*/{MANIFEST}"))
    again = tuple(f"{path.name}{JUDGED_BY}" for path in run.iterdir() if path.is_dir()) if folders else ()
    kept = [folder for folder in folders if not folder.parent.name.startswith(again)]
    if not kept:
        raise UserError(f"{place}: no answers to judge; name a run folder of `beamlib import` or run_all.sh.")
    return kept


def _part(folders: Sequence[Path], options: JudgeOptions, locked: ExitStack) -> _Part:
    """Read the answers of a part and the verdicts on file."""
    run = folders[0].parent.parent
    settings: dict[str, Any] = {"run": str(run), "models": options.models, "calls": options.calls}
    settings |= {"prompts": str(options.prompts.absolute())} if options.prompts else {}
    size = read_manifest(folders[0]).size
    parameters = Run.of(usual_parameters(size, **{**(options.settings or {}), **settings}))
    arms = [JudgedAgain(folder, parameters) for folder in folders]
    locked.enter_context(_locked(arms[0].folder.parent))
    pending: dict[str, dict[str, Sequence[ToJudge]]] = {}
    for arm in arms:
        if options.calls != "refresh":
            arm.open(arm.source_manifest.conversations, retry=options.calls == "record")
        # imported answers are to the released questions
        to_judge = _with_rubric(arm, options.data or (None if arm.source_manifest.imported else generated_in(run)))
        for key, answers in arm.source_answers.items():
            if key not in arm.outputs[JUDGEMENTS]:
                pending.setdefault(key, {})[arm.source_manifest.arm] = [to_judge(answer) for answer in answers]
    places = {"--data": options.data or "", "--models": options.models}
    command = shell_command(f"beamlib judge {folders[0].parent}", places, options.settings, ["--yes"])
    return _Part(folders[0].parent.name, parameters, arms, dict(sorted(pending.items())), command)


def _with_rubric(arm: JudgedAgain, data: Path | None) -> Callable[[Answer], ToJudge]:
    """Return a function that adds question and rubric to an answer: those of its source, else of the released data."""
    manifest = arm.source_manifest
    details = {} if manifest.imported is None else read_details(arm.source, manifest.imported)
    abilities = {judgement.probe_id: judgement.ability for judgement in stored_judgements(arm.source)}
    released: dict[str, tuple[str, Gold]] = {}
    for source in find_conversations(data, [manifest.size]) if data is not None else ():
        if source.id in manifest.conversations:
            probes, gold, _ = load_questions(source)
            released |= {probe.id: (probe.question, gold[probe.id]) for probe in probes}

    def to_judge(answer: Answer) -> ToJudge:
        own = details.get(answer.probe_id)
        if answer.probe_id in released:
            question, gold = released[answer.probe_id]
            if own is not None and own.question not in ("", question):
                raise UserError(f"{data}: {answer.probe_id} is another question there than in {arm.source}.")
        elif own is not None and own.question and own.rubric:
            about = (answer.probe_id, answer.conversation_id, abilities[answer.probe_id])
            question, gold = own.question, Gold(*about, own.rubric, "", (), "")
        else:
            raise UserError(
                f"{arm.source}: the rubric of {answer.probe_id} is not there; name the released questions with --data."
            )
        return ToJudge(question, answer.text, answer.unscored, gold, transient=answer.transient)

    return to_judge
