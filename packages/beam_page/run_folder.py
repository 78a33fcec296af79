"""Read a run folder for its page: arms with their answers and verdicts, and their conversations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from beamlib.data.conversations import SIZES, Treatment
from beamlib.data.sources import Source, scan
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm, base_memory, baseline_memory
from beamlib.evaluate.beam_records import (
    JUDGED_BY,
    MANIFEST,
    ImportedQuestion,
    Manifest,
    read_answers,
    read_details,
    read_judgements,
    read_manifest,
    run_and_part,
    stored_judgements,
)
from beamlib.evaluate.records import JUDGEMENTS, Answer
from beamlib.llm.model import OFFLINE_NAME
from beamlib.memory.declared import kind_of
from beamlib.params import GENERATED, generated_in
from beamlib.scoring.records import Judgement

NO_ARMS = frozenset({"calls", "figures", GENERATED, "meme", "memorycode", "notebooks", "page", "readings", "tables"})
"""Folders of a run that hold no arms of BEAM."""


@dataclass(frozen=True, eq=False)
class StoredArm:
    """One arm of one part of a run.

    Attributes:
        manifest: None for an imported run without one.
        answers: By probe id; may be fewer than `judgements`.
        details: An imported arm's questions as its source states them.
    """

    part: str
    folder: Path
    manifest: Manifest | None
    answers: Mapping[str, Answer]
    judgements: Sequence[Judgement]
    details: Mapping[str, ImportedQuestion] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The arm's folder."""
        return self.folder.name

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.folder.parent.parent

    @property
    def arm(self) -> Arm | None:
        """The arm in its manifest."""
        return Arm.model_validate(self.manifest.settings["arm"]) if self.manifest else None

    @property
    def backbone(self) -> str:
        """The reader's name in the models file, empty for the stand-in.

        An imported run has the name of its part, a second judge its own.
        """
        if self.manifest is None:
            return self.part
        part, _, judge = self.folder.parent.name.partition(JUDGED_BY)
        reader = "" if self.offline else part.removeprefix(self.manifest.size.lower()).removeprefix("-")
        return "-".join(filter(None, (reader, judge and f"by-{judge}")))

    @property
    def judged_again(self) -> bool:
        """Whether a second judge gave the verdicts to another part's answers."""
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
        """Name over all sizes of a run."""
        return "/".join(filter(None, (self.backbone, self.name)))

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The tiers of its conversations."""
        return in_order({judgement.conversation_id.partition("-")[0] for judgement in self.judgements})

    @property
    def treatment(self) -> Treatment:
        """How its conversations were read."""
        if self.manifest is None:
            return Treatment()
        settings = self.manifest.settings
        return Treatment(**{name: settings[name] for name in Treatment.__dataclass_fields__ if name in settings})


@dataclass(frozen=True)
class RunFolder:
    """A run as its page shows it.

    Attributes:
        left_out: Reasons by arm that cannot be shown.
        sources: The conversations in `data`.
        data: None without conversations.
    """

    folder: Path
    arms: Sequence[StoredArm]
    left_out: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    data: Path | None = None

    @property
    def conversations(self) -> list[str]:
        """Ids of all conversations with answers, by tier and number."""
        ids = {judgement.conversation_id for arm in self.arms for judgement in arm.judgements}
        return sorted(ids, key=_place)


def in_order(sizes: set[str]) -> tuple[str, ...]:
    """Sort tiers from short to long, then others by name."""
    return (*(size for size in SIZES if size in sizes), *sorted(sizes - set(SIZES)))


def _place(conversation: str) -> tuple[int, str, int, str]:
    size, _, number = conversation.partition("-")
    known = SIZES.index(size) if size in SIZES else len(SIZES)
    return (known, size, int(number) if number.isdecimal() else 0, number)


def read_run(run: Path, data: Path | None = None) -> RunFolder:
    """Read the arms in `run`, a run folder or a part of one, and the conversations of `data` or those it generated.

    An arm that is damaged, of another version or unfinished is left out with its reason.

    Raises:
        UserError: The folder is missing, or `data` has no conversations.
    """
    if not run.is_dir():
        raise UserError(f"{run}: not a folder; name a run folder that run_all.sh wrote.")
    run, part = run_and_part(run)
    arms: list[StoredArm] = []
    omitted: dict[str, str] = {}
    for folder in _folders(run):
        if part not in ("", folder.parent.name):
            continue
        try:
            arms.append(_stored(run, folder))
        except UserError as error:
            name = folder.relative_to(run).as_posix()
            omitted[name] = str(error).replace(f"{run}/", "").removeprefix(f"{name}: ")
    place = data or generated_in(run)
    sources = {source.id: source for source in scan(place)[0]} if place and (arms or data) else {}
    return RunFolder(run, sorted(arms, key=_order), omitted, sources, place)


def _folders(run: Path) -> Iterator[Path]:
    folders = {path.parent for name in (f"{JUDGEMENTS}.jsonl", MANIFEST) for path in run.glob(f"*/*/{name}")}
    folders |= {path.parent for path in run.glob(f"*/{JUDGEMENTS}.jsonl")}  # an imported run of one part
    return (folder for folder in sorted(folders) if folder.relative_to(run).parts[0] not in NO_ARMS)


def _stored(run: Path, folder: Path) -> StoredArm:
    part = folder.relative_to(run).parts[0]
    manifest = read_manifest(folder) if (folder / MANIFEST).exists() else None
    judgements = stored_judgements(folder) if manifest else read_judgements(folder)
    probes = {judgement.probe_id for judgement in judgements}
    if len(probes) < len(judgements):
        raise UserError(f"{folder}: a question was judged twice; keep one judgement per question.")
    answers = read_answers(folder) if (folder / "answers.jsonl").exists() else []
    if not judgements:
        raise UserError(f"{folder}: it holds no judgement; run it to its end.")
    answers_by_probe = {judgement.probe_id: judgement for judgement in answers if judgement.probe_id in probes}
    stated = read_details(folder, manifest.imported) if manifest and manifest.imported else {}
    return StoredArm(part, folder, manifest, answers_by_probe, judgements, stated)


def _order(stored: StoredArm) -> tuple[object, ...]:
    """Sort key: backbone; the floor first and the ceiling last, LIGHT's variants together."""
    arm = stored.arm
    if arm is None:
        return (1, stored.backbone, 0, 0, "", "", "", stored.name, stored.part)
    place = kind_of(arm.memory).order
    rest = (arm.without or "", arm.retriever or "")
    return (0, stored.backbone, place, arm.k or 0, *rest, stored.name, stored.part)


def main_arms(arms: Sequence[StoredArm]) -> frozenset[str]:
    """Return the series of Table 1: every memory once, LIGHT with RAG's index and K; all of an imported run.

    A second judge's series count only where there are no others.
    """
    series = set()
    own_arms = [stored for stored in arms if not stored.judged_again]
    for stored in own_arms or arms:
        arm = stored.arm
        if arm is not None and arm.other_vectors:
            continue
        if arm is None or arm.memory != base_memory():
            series.add(stored.series)
            continue
        arms_of_part = [other.arm for other in arms if other.part == stored.part and other.arm]
        pairs = [(other.retriever, other.k) for other in arms_of_part if other.memory == baseline_memory()]
        if arm.without is None and (not pairs or (arm.retriever, arm.k) in pairs):
            series.add(stored.series)
    return frozenset(series)


def find_arm(run: RunFolder, name: str) -> StoredArm:
    """Return the arm named `part/arm`; `UserError` lists the others."""
    for arm in run.arms:
        if f"{arm.part}/{arm.name}" == name:
            return arm
    known = ", ".join(f"{arm.part}/{arm.name}" for arm in run.arms[:5])
    why = run.left_out.get(name)
    raise UserError(f"{run.folder}: no arm {name!r} ({why or f'it has {known or None}'}); name one as part/arm.")
