"""What a run folder holds for its page: arms with their answers and verdicts, and the conversations they are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from beamlib.data.conversations import SIZES, Treatment
from beamlib.data.sources import Source, scan
from beamlib.errors import UserError
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.arm_folder import (
    JUDGED_BY,
    MANIFEST,
    Manifest,
    read_answers,
    read_judgements,
    read_manifest,
    stored_judgements,
)
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.imported import ImportedQuestion, read_details
from beamlib.evaluate.run_store import JUDGEMENTS
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import GENERATED, generated_in
from beamlib.scoring.records import Judgement

NO_ARMS = frozenset({"calls", "figures", GENERATED, "meme", "memorycode", "notebooks", "page", "readings", "tables"})
"""Folders of a run that hold no arms of BEAM."""


@dataclass(frozen=True, eq=False)
class StoredArm:
    """One arm of one part of a run. `manifest` is None where nothing vouches for it: an imported run.

    `answers` are by probe id, and may be fewer than `judgements`, or none. `told` is what the source of an imported arm
    says of its questions.
    """

    part: str
    folder: Path
    manifest: Manifest | None
    answers: Mapping[str, Answer]
    judgements: Sequence[Judgement]
    told: Mapping[str, ImportedQuestion] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The arm's folder."""
        return self.folder.name

    @property
    def run(self) -> Path:
        """The run folder that it lies in: of an arm with a manifest, above its part."""
        return self.folder.parent.parent

    @property
    def arm(self) -> Arm | None:
        """What its manifest says that it is."""
        return Arm.model_validate(self.manifest.settings["arm"]) if self.manifest else None

    @property
    def backbone(self) -> str:
        """What its part is called behind the size: the reader's name in the models file, empty for the stand-in.

        An imported run is told apart by the name of its part, a second judge by its own.
        """
        if self.manifest is None:
            return self.part
        part, _, judge = self.folder.parent.name.partition(JUDGED_BY)
        reader = "" if self.offline else part.removeprefix(self.manifest.size.lower()).removeprefix("-")
        return "-".join(filter(None, (reader, judge and f"by-{judge}")))

    @property
    def judged_again(self) -> bool:
        """Whether its verdicts are a second judge's, given to the answers of another part."""
        return JUDGED_BY in self.folder.parent.name

    @property
    def offline(self) -> bool:
        """Whether the offline stand-in answered."""
        return self.manifest is not None and self.manifest.reader == OFFLINE_NAME

    @property
    def judged_offline(self) -> bool:
        """Whether the offline stand-in judged."""
        return self.manifest is not None and self.manifest.judge == OFFLINE_NAME

    @property
    def series(self) -> str:
        """What it is called over all sizes of a run."""
        return f"{self.backbone}/{self.name}" if self.backbone else self.name

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The tiers of its conversations."""
        return in_order({one.conversation_id.partition("-")[0] for one in self.judgements})

    @property
    def treatment(self) -> Treatment:
        """How its conversations were read."""
        if self.manifest is None:
            return Treatment()
        return Treatment(**{name: self.manifest.settings[name] for name in Treatment.__dataclass_fields__})


@dataclass(frozen=True)
class RunFolder:
    """A run as its page shows it.

    `left_out` says which arms cannot be shown, and why. `sources` are the conversations in `data`, which is None where
    there are none.
    """

    folder: Path
    arms: Sequence[StoredArm]
    left_out: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    data: Path | None = None

    @property
    def conversations(self) -> list[str]:
        """The ids of all conversations that were asked about, tier by tier, by number."""
        found = {one.conversation_id for arm in self.arms for one in arm.judgements}
        return sorted(found, key=_place)


def in_order(sizes: set[str]) -> tuple[str, ...]:
    """Tiers from short to long, then others by name."""
    return (*(size for size in SIZES if size in sizes), *sorted(sizes - set(SIZES)))


def _place(conversation: str) -> tuple[int, str, int, str]:
    size, _, number = conversation.partition("-")
    known = SIZES.index(size) if size in SIZES else len(SIZES)
    return (known, size, int(number) if number.isdecimal() else 0, number)


def read_run(run: Path, data: Path | None = None) -> RunFolder:
    """The arms in the folder `run`, and the conversations of `data`, or else those that the run generated.

    An arm that is damaged, of another version or unfinished is left out with its reason. `UserError` for a folder that
    is not there, and for `data` without conversations.
    """
    if not run.is_dir():
        raise UserError(f"{run}: not a folder; name a run folder that run_all.sh wrote.")
    arms: list[StoredArm] = []
    left_out: dict[str, str] = {}
    for folder in _folders(run):
        try:
            arms.append(_stored(run, folder))
        except UserError as error:
            left_out[folder.relative_to(run).as_posix()] = str(error).replace(f"{run}/", "")
    place = data or generated_in(run)
    sources = {source.id: source for source in scan(place)[0]} if place and (arms or data) else {}
    return RunFolder(run, sorted(arms, key=_order), left_out, sources, place)


def _folders(run: Path) -> Iterator[Path]:
    found = {path.parent for name in (f"{JUDGEMENTS}.jsonl", MANIFEST) for path in run.glob(f"*/*/{name}")}
    found |= {path.parent for path in run.glob(f"*/{JUDGEMENTS}.jsonl")}  # an imported run of one part
    return (folder for folder in sorted(found) if folder.relative_to(run).parts[0] not in NO_ARMS)


def _stored(run: Path, folder: Path) -> StoredArm:
    part = folder.relative_to(run).parts[0]
    manifest = read_manifest(folder) if (folder / MANIFEST).exists() else None
    judgements = stored_judgements(folder) if manifest else read_judgements(folder)
    asked = {one.probe_id for one in judgements}
    if len(asked) < len(judgements):
        raise UserError(f"{folder}: a question was judged twice; keep one judgement per question.")
    answers = read_answers(folder) if (folder / "answers.jsonl").exists() else []
    if not judgements:
        raise UserError(f"{folder}: it holds no judgement; run it to its end.")
    own = {one.probe_id: one for one in answers if one.probe_id in asked}
    told = read_details(folder, manifest.imported) if manifest and manifest.imported else {}
    return StoredArm(part, folder, manifest, own, judgements, told)


_MEMORIES = ("none", "full-context", "rag", "light", "oracle")


def _order(one: StoredArm) -> tuple[object, ...]:
    """By backbone; the floor first and the ceiling last, LIGHT's variants together."""
    arm = one.arm
    if arm is None:
        return (1, one.backbone, 0, 0, "", "", "", one.name, one.part)
    place = _MEMORIES.index(arm.memory) if arm.memory in _MEMORIES else 3.5
    rest = (arm.without or "", arm.retriever or "")
    return (0, one.backbone, place, arm.k or 0, *rest, one.name, one.part)


def main_arms(arms: Sequence[StoredArm]) -> frozenset[str]:
    """The series of Table 1: every memory once, LIGHT with RAG's index and K; of an imported run, all.

    What a second judge said is left to the tables below, unless the run holds nothing else.
    """
    found = set()
    first = [one for one in arms if not one.judged_again]
    for one in first or arms:
        arm = one.arm
        if arm is None or arm.memory != "light":
            found.add(one.series)
            continue
        own = [other.arm for other in arms if other.part == one.part and other.arm]
        beside = [(other.retriever, other.k) for other in own if other.memory == "rag"]
        plain = arm.without is None and arm.other_budget is None  # of runs by versions before 2026-11-26
        if plain and (not beside or (arm.retriever, arm.k) in beside):
            found.add(one.series)
    return frozenset(found)


def find_arm(run: RunFolder, name: str) -> StoredArm:
    """The arm of `part/arm`; `UserError` with what there is otherwise."""
    for one in run.arms:
        if f"{one.part}/{one.name}" == name:
            return one
    known = ", ".join(f"{one.part}/{one.name}" for one in run.arms[:5])
    why = run.left_out.get(name)
    raise UserError(f"{run.folder}: no arm {name!r} ({why or f'it has {known or None}'}); name one as part/arm.")
