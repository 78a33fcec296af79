"""A run's records as data frames: one row per question, answer, verdict, shown message or cited message.

Reading needs no model, memory or runner. What BEAM's records leave to the data (the text of questions and messages,
what they cite) is read from the conversations that a run generated or that are named; without them it is missing.
Other benchmarks bring a `TaskFrames`, which their package names as an entry point of the group `beamlib.frames`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pandas as pd

from beamlib.data.conversations import SIZES, Treatment
from beamlib.data.errata import flagged_probes
from beamlib.data.loading import load
from beamlib.data.sources import Source, scan
from beamlib.errors import UserError
from beamlib.evaluate.beam_records import (
    MANIFEST,
    read_details,
    read_manifest,
    recorded_parameters,
    stored_answers,
    stored_judgements,
)
from beamlib.evaluate.records import ANSWERS, RUN, Answer, RunManifest, TaskManifest, read_part
from beamlib.evaluate.timing import TimedCall, Timing, latencies, read_timings
from beamlib.files import make_folder
from beamlib.llm.call_store import CallStore
from beamlib.llm.endpoints import MODELS, Endpoint, load_models
from beamlib.memory.declared import kind_of
from beamlib.params import generated_in
from beamlib.run import TRIALS
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import score_run

GROUP = "beamlib.frames"
"""The group of entry points that name the `TaskFrames` of tasks other than BEAM."""
BEAM = "beam"
NOT_RECORDS = frozenset({"calls", "figures", "generated", "notebooks", "page", "readings", "tables", TRIALS})
"""Folders of a run that hold no arms."""


class Column(NamedTuple):
    """A column of a frame: its type in pandas and what it holds. Lists are of the type `object`."""

    type: str
    about: str


_KEYS = {
    "task": Column("string", "beam, memorycode or meme"),
    "part": Column("string", "the folder of the arm: tier and reader, or variant and reader"),
    "arm": Column("string", "the arm, as its folder is called"),
    "conversation": Column("string", "id of the conversation, dialogue or episode"),
    "question": Column("string", "id of the question"),
}
_OF_QUESTION = {name: _KEYS[name] for name in ("task", "conversation", "question")}
_ABILITY = {"ability": Column("string", "BEAM: one of the ten; MEME: the task; MemoryCode: missing")}
COLUMNS: Mapping[str, Mapping[str, Column]] = {
    "questions": {
        **_OF_QUESTION, **_ABILITY,
        "text": Column("string", "the question; missing without the data"),
        "reference": Column("string", "the reference answer; missing without the data"),
        "rubric": Column("object", "list of nuggets, or of the values or rules that an answer is held against"),
        "cited": Column("object", "list of the message ids that the gold cites; None without the data"),
        "defective": Column("boolean", "BEAM: it is on the errata list; missing without the data"),
    },
    "answers": {
        **_KEYS, **_ABILITY,
        "reader": Column("string", "the model that answered"),
        "answer": Column("string", "the text; missing where there is none"),
        "unscored": Column("string", "why there is no text; missing where there is one"),
        "context_tokens": Column("Int64", "size of the context by the counter that the manifest names"),
        "messages": Column("Int64", "how many messages the context shows, whole, in part or as a note"),
        "cuts": Column("Int64", "pieces that were recalled and did not fit; missing where it was not recorded"),
        "gaps": Column("Int64", "calls of the memory that returned nothing usable"),
        "context": Column("string", "the context, where the run keeps its text (MEME)"),
    },
    "verdicts": {
        **_KEYS, **_ABILITY,
        "judge": Column("string", "the model that judged; rules where none did"),
        "repeat": Column("Int64", "0, and more where verdicts were asked for repeatedly"),
        "number": Column("Int64", "the nugget's place in the rubric, from 0; missing where the whole is judged"),
        "nugget": Column("string", "the nugget, expected answer or rule; missing where a publisher does not say it"),
        "score": Column("Float64", "0, 0.5 or 1 (published ones from 0 to 1); missing where there is none"),
        "reason": Column("string", "the judge's reason, or why there is no score"),
    },
    "scores": {
        **_KEYS, **_ABILITY,
        "score": Column("Float64", "the question's score; missing where there is none"),
        "unscored": Column("string", "why there is none; missing where there is one"),
    },
    "contexts": {
        **_KEYS, **_ABILITY,
        "memory_part": Column("string", "the part of the memory that showed it, such as episodic or scratchpad"),
        "place": Column("Int64", "its place among the messages of that part, from 0"),
        "message": Column("Int64", "id of the message"),
        "whole": Column("boolean", "its whole text is in the context; missing where it was not recorded"),
        "cited": Column("boolean", "the question's gold cites it; missing without the data"),
        "role": Column("string", "user or assistant; missing without the data"),
        "text": Column("string", "the message's own text; missing without the data"),
    },
    "evidence": {
        **_KEYS, **_ABILITY,
        "message": Column("Int64", "id of a message that the question's gold cites"),
        "shown": Column("string", "how the context shows it: whole, in part, as a note, or not"),
        "recalled": Column("Float64", "1 where it is shown whole, else 0; the mean of a question is evidence recall"),
    },
    "times": {
        **_KEYS, **_ABILITY,
        "memory": Column("string", "the memory that the arm is"),
        "phase": Column("string", "reading, of a conversation, or recalling, for a question"),
        "seconds": Column("Float64", "what the memory took, waiting for models included"),
        "waited": Column("Float64", "the part of them in which a call was under way"),
        "calls": Column("Int64", "stored calls of the memory; equal ones of several arms count for each"),
        "dollars": Column("Float64", "what they cost by the models file; missing without a price"),
    },
    "calls": {
        **_OF_QUESTION, **_ABILITY,
        "role": Column("string", "role of the models file, reader:METHOD where a method's reader is served apart"),
        "step": Column("string", "id of the prompt"),
        "model": Column("string", "the model that was asked"),
        "input_tokens": Column("Int64", "as the endpoint counts"),
        "cached_tokens": Column("Int64", "those of the input that its cache held"),
        "output_tokens": Column("Int64", "as the endpoint counts"),
        "estimated": Column("boolean", "our own counter counted, as the endpoint said nothing"),
        "seconds": Column("Float64", "until the reply was there"),
        "dollars": Column("Float64", "by the prices of the models file; missing without a price"),
        "outcome": Column("string", "why there was no usable reply; missing where there was one"),
    },
}  # fmt: skip
"""The frames by method, and the columns of each, in order. `calls` has requests: equal ones of several arms are one."""

Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class AskedQuestion:
    """A question with its gold; `cited` is None where that is not known."""

    id: str
    ability: str | None = None
    text: str | None = None
    reference: str | None = None
    rubric: Sequence[str] = ()
    cited: Sequence[int] | None = None
    defective: bool | None = None


@dataclass(frozen=True)
class UnitText:
    """A conversation, dialogue or episode: its questions by id, and role and text of its messages by id."""

    questions: Mapping[str, AskedQuestion]
    messages: Mapping[int, tuple[str, str]] = field(default_factory=dict)


class TaskFrames(Protocol):
    """What a task knows of its records that their common form does not say."""

    data: str
    """Where below a run folder lies what the run made itself."""

    def units(self, data: Path, manifests: Sequence[RunManifest]) -> Mapping[str, UnitText]:
        """Read the units of `data` by id: of those that `manifests` name, and whose content is what they name."""

    def verdicts(self, arm: OpenedArm, data: Path | None) -> Rows:
        """Return rows of `verdicts`, without keys but `conversation` and `question`."""

    def contexts(self, arm: OpenedArm) -> Mapping[str, str]:
        """Return the texts of contexts by question id, where records keep them."""


@dataclass(frozen=True, eq=False)
class OpenedArm:
    """The records of one arm on file, which its manifest vouches for."""

    task: str
    folder: Path
    manifest: RunManifest

    @property
    def part(self) -> str:
        """The folder that it lies in."""
        return self.folder.parent.name

    @property
    def keys(self) -> dict[str, str]:
        """The first columns of all frames."""
        return {"task": self.task, "part": self.part, "arm": self.manifest.arm}

    @property
    def run(self) -> Path:
        """The run folder."""
        above = self.folder.parent.parent
        return above if self.task == BEAM else above.parent  # <run>/<task>/<part>/<arm>

    @cached_property
    def answers(self) -> Sequence[Answer]:
        if self.task == BEAM:
            return [answer for answers in stored_answers(self.folder).values() for answer in answers]
        return self.records(ANSWERS, Answer)

    @cached_property
    def judgements(self) -> Sequence[Judgement]:
        """The judgements of an arm of BEAM."""
        return stored_judgements(self.folder)

    def records(self, part: str, kind: Any) -> list[Any]:
        """Return the records of a part; a `UserError` where they are not those that the manifest vouches for."""
        stated = self.manifest.checksums()
        checksums = stated[part].sha256 if part in stated else {}
        on_file = read_part(self.folder, part, kind, self.manifest.conversations)
        for unit, checksum in checksums.items():
            if unit not in on_file or on_file[unit].sha256 != checksum:
                raise UserError(
                    f"{self.folder / part}.jsonl: the records of {unit} are not those that {self.manifest.file} "
                    "vouches for; run the evaluation again, which computes them anew."
                )
        return [record for unit in sorted(checksums) for record in on_file[unit].records]


def tasks() -> dict[str, TaskFrames]:
    """Load the readers of all tasks that installed packages bring."""
    return {entry.name: entry.load() for entry in entry_points(group=GROUP)}


def _by_size(path: Path) -> tuple[int, Path]:
    size = path.absolute().parts[-3].partition("-")[0].upper()  # the tier that the arm's folder stands in
    return ([*SIZES, size].index(size), path)


class OpenedRun:
    """A run on file. Every method returns a new frame with the columns of `COLUMNS`, empty where there is nothing."""

    def __init__(self, folder: Path, data: Mapping[str, Path]) -> None:
        """Open the run in `folder`; `data` are the places of data by task, where the run did not make them."""
        self.folder, self._data = folder, data
        if not folder.is_dir():
            raise UserError(f"{folder}: not a folder; name a run folder that run_all.sh wrote.")
        self.arms: list[OpenedArm] = []
        for path in (path for name in (MANIFEST, RUN) for path in sorted(folder.rglob(name), key=_by_size)):
            if NOT_RECORDS.intersection(path.relative_to(folder).parts[:-2]):
                continue
            place = path.parent.absolute()
            manifest = read_manifest(place) if path.name == MANIFEST else TaskManifest.read(place)
            task = manifest.task if isinstance(manifest, TaskManifest) else BEAM
            self.arms.append(OpenedArm(task, place, manifest))
        if not self.arms:
            raise UserError(
                f"{self.folder}: no {MANIFEST} or {RUN} in it or below; name a run folder, or one of its arms."
            )

    def questions(self) -> pd.DataFrame:
        """Return a row per question that some arm was asked."""
        rows: list[dict[str, Any]] = []
        for task, conversation, question in dict.fromkeys(self._asked()):
            known = self._question(task, conversation, question)
            row: dict[str, Any] = {"task": task, "conversation": conversation, "question": question}
            row |= {"ability": known.ability, "text": known.text, "reference": known.reference or None}
            cited = None if known.cited is None else list(known.cited)
            rows.append(row | {"rubric": list(known.rubric), "cited": cited, "defective": known.defective})
        return _frame("questions", rows)

    def answers(self) -> pd.DataFrame:
        """Return a row per answer."""
        rows: list[dict[str, Any]] = []
        for arm in self.arms:
            texts = {} if arm.task == BEAM else self._frames[arm.task].contexts(arm)
            for answer, keys in self._answers(arm):
                cuts = None if answer.cuts is None else sum(answer.cuts.labelled.values())
                row: dict[str, Any] = {"reader": arm.manifest.reader, "answer": answer.text}
                row |= {
                    "unscored": answer.unscored,
                    "context_tokens": answer.context_tokens,
                    "messages": len(answer.message_ids),
                    "cuts": cuts,
                }
                rows.append(keys | row | {"gaps": answer.gaps, "context": texts.get(answer.probe_id)})
        return _frame("answers", rows)

    def verdicts(self) -> pd.DataFrame:
        """Return a row per verdict: of each nugget and repeat (BEAM), question (MEME), or rule (MemoryCode)."""
        rows: list[Mapping[str, Any]] = []
        for arm in self.arms:
            task = arm.task
            verdicts = _beam_verdicts(arm) if task == BEAM else self._frames[task].verdicts(arm, self._place(arm))
            for row in verdicts:
                ability = self._ability(arm.task, row["conversation"], row["question"])
                rows.append({**arm.keys, "ability": ability, "judge": arm.manifest.judge, "repeat": 0, **row})
        return _frame("verdicts", rows)

    def scores(self, protocol: str = "paper") -> pd.DataFrame:
        """Return a row per question with its score: BEAM's by a protocol, else the mean of its verdicts."""
        frames = []
        for arm in (arm for arm in self.arms if arm.task == BEAM and arm.judgements):
            scored = score_run(arm.judgements, protocol).rename(
                columns={"probe_id": "question", "conversation_id": "conversation"}
            )
            frames.append(scored.assign(**arm.keys, unscored=scored["unscored"].where(scored["unscored"] != "")))
        verdicts = self.verdicts()
        others = verdicts[verdicts["task"] != BEAM]
        if len(others):
            grouped = others.groupby([*_KEYS, "ability"], dropna=False, sort=False)
            frames.append(grouped.agg(score=("score", "mean"), unscored=("reason", "first")).reset_index())
            frames[-1]["unscored"] = frames[-1]["unscored"].where(frames[-1]["score"].isna())
        rows: list[Any] = [row for frame in frames for row in frame.to_dict("records")]
        return _frame("scores", rows)

    def contexts(self) -> pd.DataFrame:
        """Return a row per message that an answer's context shows, in the order of the context."""
        rows = []
        for arm in self.arms:
            for answer, keys in self._answers(arm):
                cited = self._question(arm.task, answer.conversation_id, answer.probe_id).cited
                messages = self._unit(arm.task, answer.conversation_id).messages
                partial = None if answer.partial_ids is None else set(answer.partial_ids)
                for part, ids in (answer.parts or {"": answer.message_ids}).items():
                    for place, message in enumerate(ids):
                        role, text = messages.get(message, (None, None))
                        row = {"memory_part": part, "place": place, "message": message, "role": role, "text": text}
                        row["whole"] = None if partial is None else message not in partial
                        rows.append(keys | row | {"cited": None if cited is None else message in cited})
        return _frame("contexts", rows)

    def evidence(self) -> pd.DataFrame:
        """Return a row per answer and message that the question's gold cites; none without the data."""
        rows = []
        for arm in self.arms:
            for answer, keys in self._answers(arm):
                for message in self._question(arm.task, answer.conversation_id, answer.probe_id).cited or ():
                    shown = how_shown(answer, message)
                    # Nothing can be counted where nothing was recalled, or where the record does not say what was.
                    recalled = float(shown == "whole") if answer.context_recorded else None
                    rows.append(keys | {"message": message, "shown": shown, "recalled": recalled})
        return _frame("evidence", rows)

    def times(self) -> pd.DataFrame:
        """Return a row per conversation that a memory of BEAM read and question that it recalled for."""
        prices = _prices({arm.folder.parent for arm in self.arms})
        rows = []
        for arm in (arm for arm in self.arms if arm.task == BEAM):
            timed: dict[str, list[Timing]] = {}
            for timing in read_timings(arm.folder, arm.manifest.answers_key):
                timed.setdefault(timing.conversation_id, []).append(timing)
            for conversation, timings in timed.items():
                for latency in latencies(timings, _memory_calls(arm, conversation, prices)):
                    question = latency.question or None
                    row: dict[str, Any] = {**arm.keys, "conversation": conversation, "question": question}
                    row["ability"] = self._ability(BEAM, conversation, question) if question else None
                    row |= {"memory": arm.manifest.settings["arm"]["memory"]}
                    row |= {**asdict(latency), "question": question, "phase": "recalling" if question else "reading"}
                    rows.append(row)
        return _frame("times", rows)

    def calls(self) -> pd.DataFrame:
        """Return a row per stored model call; empty where the stand-in answered."""
        prices = _prices({arm.folder.parent for arm in self.arms})
        rows = []
        questions_of: dict[tuple[str, str], set[str]] = {}
        for task, conversation, name in self._asked():
            questions_of.setdefault((task, conversation), set()).add(name)
        for (task, conversation), known in questions_of.items():
            folder = conversation.partition("-")[0].lower() if task == BEAM else task
            path = self.arms[0].run / "calls" / folder / f"{conversation}.sqlite"
            if not path.exists():
                continue
            questions = self._unit(task, conversation).questions
            wordings = {question.text: question.id for question in questions.values()}
            with CallStore(path, read_only=True) as store:
                for call in store.calls():
                    about = _NUGGET.sub("", call.about)
                    question = about if about in known else wordings.get(call.about)
                    price = prices.get((call.role, call.model))
                    tokens = (call.input_tokens, call.cached_tokens, call.output_tokens)
                    rows.append(
                        {
                            "task": task, "conversation": conversation, "question": question,
                            "ability": self._ability(task, conversation, question) if question else None,
                            "role": call.role, "step": call.step, "model": call.model, "estimated": call.estimated,
                            "input_tokens": tokens[0], "cached_tokens": tokens[1], "output_tokens": tokens[2],
                            "seconds": call.latency, "dollars": price.dollars(*tokens) if price else None,
                            "outcome": call.outcome.value if call.outcome else None,
                        }
                    )  # fmt: skip
        return _frame("calls", rows)

    def write(self, folder: Path) -> list[Path]:
        """Write every frame to `folder` as parquet, a file each."""
        files = [make_folder(folder) / f"{name}.parquet" for name in COLUMNS]
        for file in files:
            getattr(self, file.stem)().to_parquet(file, index=False)
        return files

    @cached_property
    def _frames(self) -> Mapping[str, TaskFrames]:
        known = tasks()
        for arm in self.arms:
            if arm.task != BEAM and arm.task not in known:
                raise UserError(
                    f"{arm.folder}: no installed package reads records of the task {arm.task!r:.40}; install the one "
                    f"that ran it (an entry point of the group {GROUP})."
                )
        return known

    def _place(self, arm: OpenedArm) -> Path | None:
        """Where the data of an arm lie: where they are named to be, or what its run made."""
        if arm.task in self._data:
            return self._data[arm.task]
        made = generated_in(arm.run) if arm.task == BEAM else arm.run / self._frames[arm.task].data
        return made if made and made.exists() else None

    @cached_property
    def _units(self) -> Mapping[tuple[str, str], UnitText]:
        """The units of tasks other than BEAM."""
        units: dict[tuple[str, str], UnitText] = {}
        for task in dict.fromkeys(arm.task for arm in self.arms if arm.task != BEAM):
            arms = [arm for arm in self.arms if arm.task == task]
            place = self._place(arms[0])
            of_task = self._frames[task].units(place, [arm.manifest for arm in arms]) if place else {}
            units |= {(task, name): unit for name, unit in of_task.items()}
        return units

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        place = next((place for arm in self.arms if arm.task == BEAM and (place := self._place(arm))), None)
        return {source.id: source for source in scan(place)[0]} if place else {}

    @cached_property
    def _loaded(self) -> dict[tuple[str, str], UnitText]:
        return {}

    def _unit(self, task: str, conversation: str) -> UnitText:
        if task != BEAM:
            return self._units.get((task, conversation), UnitText({}))
        if (task, conversation) not in self._loaded:
            arms = [arm for arm in self.arms if arm.task == BEAM and conversation in arm.manifest.conversations]
            self._loaded[task, conversation] = _beam_unit(conversation, arms, self._sources.get(conversation))
        return self._loaded[task, conversation]

    @cached_property
    def _abilities(self) -> Mapping[str, str]:
        """The ability of each question of BEAM, which judgements name: no conversation is read for it."""
        judged = (judgement for arm in self.arms if arm.task == BEAM for judgement in arm.judgements)
        return {judgement.probe_id: judgement.ability for judgement in judged}

    def _ability(self, task: str, conversation: str, question: str) -> str | None:
        if task == BEAM and question in self._abilities:
            return self._abilities[question]
        return self._question(task, conversation, question).ability

    def _question(self, task: str, conversation: str, question: str) -> AskedQuestion:
        return self._unit(task, conversation).questions.get(question) or AskedQuestion(question)

    def _asked(self) -> Iterator[tuple[str, str, str]]:
        for arm in self.arms:
            yield from ((arm.task, answer.conversation_id, answer.probe_id) for answer in arm.answers)
            for judgement in arm.judgements if arm.task == BEAM else ():
                yield arm.task, judgement.conversation_id, judgement.probe_id

    def _answers(self, arm: OpenedArm) -> Iterator[tuple[Answer, dict[str, Any]]]:
        for answer in arm.answers:
            ability = self._ability(arm.task, answer.conversation_id, answer.probe_id)
            ids = {"conversation": answer.conversation_id, "question": answer.probe_id}
            yield answer, {**arm.keys, **ids, "ability": ability}


def how_shown(answer: Answer, message: int) -> str:
    """Say how the context of an answer shows a message: whole, in part, as a note, or not.

    Imported answers do not say which messages are whole: all messages of parts other than notes count.
    """
    parts = answer.parts or {"": answer.message_ids}
    if message not in answer.message_ids and not any(message in ids for ids in parts.values()):
        return "not"
    noted = all(message not in ids for part, ids in parts.items() if part != "scratchpad")
    if answer.partial_ids is None:
        return "as a note" if noted else "whole"
    return "whole" if message in answer.whole_ids else "as a note" if noted else "in part"


_NUGGET = re.compile(r" nugget \d{1,6}\Z")


def _beam_unit(conversation: str, arms: Sequence[OpenedArm], source: Source | None) -> UnitText:
    """What is known of a conversation: from its files, where they are those that the arms read, else from records."""
    stated: dict[str, AskedQuestion] = {}
    records = {arm.manifest.conversations[conversation].sha256 for arm in arms}
    for arm in arms:
        imported = getattr(arm.manifest, "imported", None)
        details = read_details(arm.folder, imported) if imported else {}
        for judgement in (judgement for judgement in arm.judgements if judgement.conversation_id == conversation):
            detail = details.get(judgement.probe_id)
            nuggets = tuple(verdict.nugget for verdict in judgement.verdicts)
            rubric = detail.rubric if detail and detail.rubric else nuggets
            text, reference = (detail.question, detail.reference) if detail else (None, None)
            known = stated.get(judgement.probe_id)
            if known is None or (known.text is None and text):
                stated[judgement.probe_id] = AskedQuestion(
                    judgement.probe_id, judgement.ability, text, reference, rubric or (known.rubric if known else ())
                )
    if source is None:
        return UnitText(stated)
    settings = next((arm.manifest.settings for arm in arms if "chat_variant" in arm.manifest.settings), {})
    treatment = {name: settings[name] for name in ("chat_variant", "strip_markers") if name in settings}
    loaded = load(source, Treatment(**treatment, errata="none"))
    evaluated = any(getattr(arm.manifest, "imported", None) is None for arm in arms)
    if evaluated and loaded.conversation.sha256 not in records:
        return UnitText(stated)  # another conversation under the same id
    defective = set(flagged_probes(loaded.probes))
    questions = {
        probe.id: AskedQuestion(
            probe.id, gold.ability, probe.question, gold.reference, gold.rubric, gold.evidence, probe.id in defective
        )
        for probe in loaded.probes
        for gold in [loaded.gold[probe.id]]
    }
    messages = {message.id: (message.role, message.content) for message in loaded.conversation}
    return UnitText(stated | questions, messages)


def _beam_verdicts(arm: OpenedArm) -> Iterator[Mapping[str, Any]]:
    for judgement in arm.judgements:
        ids = {"conversation": judgement.conversation_id, "question": judgement.probe_id}
        for repeat, once in enumerate(judgement.rounds):
            for number, verdict in enumerate(once.verdicts):
                verdict_row = {"nugget": verdict.nugget or None, "score": verdict.score}
                reason = verdict.explanation or None
                yield {**ids, "repeat": repeat, "number": number, **verdict_row, "reason": reason}
            if once.reported is not None and not once.verdicts:
                yield from ({**ids, **row} for row in _reported(once))
            elif not once.verdicts:
                yield {**ids, "repeat": repeat, "reason": once.unscored}


def _reported(judgement: Judgement) -> Iterator[dict[str, Any]]:
    """What a publisher states: scores of nuggets in no order, votes on the whole answer, or one score."""
    if (reported := judgement.reported) is None:
        return
    if scores := reported.nugget_scores:
        yield from ({"number": number, "score": score} for number, score in enumerate(scores))
    elif reported.votes:
        yield from ({"repeat": number, "score": float(vote)} for number, vote in enumerate(reported.votes))
    else:
        yield {"score": reported.score, "reason": judgement.unscored}


def _memory_calls(arm: OpenedArm, conversation: str, prices: Mapping[tuple[str, str], Endpoint]) -> list[TimedCall]:
    """Return the stored calls of an arm's memory on a conversation."""
    path = arm.run / "calls" / conversation.partition("-")[0].lower() / f"{conversation}.sqlite"
    kind = kind_of(arm.manifest.settings["arm"]["memory"])
    steps = kind.prompts_for(recorded_parameters(read_manifest(arm.folder)))
    found = []
    with CallStore(path, read_only=True) as store:
        for call in store.calls() if path.exists() else ():
            if call.step in steps or call.step.startswith(f"{arm.manifest.arm}/"):
                end = datetime.fromisoformat(call.time).timestamp()
                price = prices.get((call.role, call.model))
                dollars = price.dollars(call.input_tokens, call.cached_tokens, call.output_tokens) if price else None
                found.append(TimedCall(call.about, end - call.latency, end, dollars))
    return found


def _prices(parts: Iterable[Path]) -> dict[tuple[str, str], Endpoint]:
    """Read the prices of each role's models from the models files that a run keeps."""
    prices: dict[tuple[str, str], Endpoint] = {}
    for part in sorted(part for part in parts if (part / MODELS).exists()):
        models = load_models(part / MODELS)
        for role in ("memory", "compressor", "judge", "aligner"):
            prices[role, getattr(models, role).model] = getattr(models, role)
        for backbone in models.readers.values():
            prices["reader", backbone.model] = backbone
            prices |= {(f"reader:{method}", served.model): served for method, served in backbone.methods.items()}
    return prices


def _frame(name: str, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    columns = COLUMNS[name]
    frame = pd.DataFrame({column: [row.get(column) for row in rows] for column in columns}, columns=list(columns))
    return frame.astype({column: about.type for column, about in columns.items()})
