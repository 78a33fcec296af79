"""`beamlib data check`: what a folder holds, counted as the format's description counts it, and all that is odd in it.

This module reaches gold; nothing that answers questions imports it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, Field
from tqdm import tqdm

from beam_claims.statistics import AbilityCounts, ChatCounts, ChatTally, QuestionTally
from beamlib.data.checked_json import (
    Anomaly,
    DataFile,
    Log,
    State,
    Unreadable,
    expect,
    need,
    need_text,
    read_json_file,
)
from beamlib.data.conversations import SIZES, ChatVariant, Size, Treatment
from beamlib.data.errata import flagged_probes
from beamlib.data.loading import Loaded, load, load_questions
from beamlib.data.markers import INDEX, VARIANTS, index_marker, split_marker
from beamlib.data.released_layout import data_file
from beamlib.data.sources import CHAT, CUT_CHAT, CUTOFF, Source, plan_folders, present, scan
from beamlib.errors import UserError
from beamlib.text import TOKEN_COUNTER

USER_MESSAGES = "user_messages.json"
UNREADABLE = "no marker"
_STATES: dict[State, str] = {
    "released": "as released (SHA-256)",
    "changed": "changed",
    "unknown": "without a known checksum",
    "missing": "missing",
}


class CheckFinding(BaseModel):
    """An anomaly, as a row of the report."""

    kind: str
    file: str
    where: str
    detail: str


class Tier(BaseModel):
    """Everything counted for one size. `chats` by variant; `user_message_markers` over user_messages.json.

    `questions_only` are the conversations of a folder without any chat. `files` counts the files by whether they are
    the released ones: released, changed, or unknown (no checksum is known for them).
    """

    size: Size
    conversations: list[str]
    questions_only: list[str]
    files: dict[State, int]
    chats: dict[str, ChatCounts]
    user_message_markers: dict[str, int]
    questions: dict[str, AbilityCounts]
    probes: int
    rubric_items: int
    errata: list[str]


class CheckReport(BaseModel):
    """What `check_folder` found. Conversations that cannot be read are in `errors`; all else that is odd is handled."""

    folder: str
    token_counter: str = TOKEN_COUNTER
    tiers: list[Tier] = Field(default_factory=list)
    anomalies: list[CheckFinding] = Field(default_factory=list)
    errors: list[str] = Field(default_factory=list)

    def render(self) -> str:
        """The report as plain text."""
        lines = [f"BEAM data in {self.folder}"]
        for tier in self.tiers:
            lines += ["", *_render_tier(tier)]
        kinds = Counter(finding.kind for finding in self.anomalies)
        lines += ["", f"Anomalies (handled): {len(self.anomalies)}"]
        lines += [f"  {count:5d}  {kind}" for kind, count in sorted(kinds.items())]
        lines += [f"  {f.file}: {f.where + ': ' if f.where else ''}{f.detail} [{f.kind}]" for f in self.anomalies]
        lines += ["", f"Errors: {len(self.errors)}", *(f"  {error}" for error in self.errors)]
        return "\n".join(lines) + "\n"


def check_folder(folder: Path, *, progress: bool = False) -> CheckReport:
    """Read every conversation in `folder` and report. A broken one is listed in `errors`, and the check goes on.

    A file that is not the released one is an anomaly: it is told, and read like any other. In a folder where no
    conversation has a chat the questions are read alone.

    Counts are of the data as published (markers left in the text). Raises `UserError` only where there is no
    conversation at all.
    """
    sources, problems = scan(folder)
    report = CheckReport(folder=str(folder), errors=[one.sentence for one in problems if one.size or not sources])
    notes = [Anomaly("unknown_file", "", "", one.sentence) for one in problems if sources and not one.size]
    collected: dict[Size, _Collected] = {}
    no_chat = not any(_variants(source) for source in sources)
    for source in tqdm(sources, desc="checking", unit="conversation", disable=not progress):
        into = collected.setdefault(source.size, _Collected())
        try:
            (into.add_questions if no_chat else into.add)(source, notes)
        except UserError as error:
            report.errors.append(str(error))
        into.add_user_messages(source, notes)
        into.add_files(source, notes)
    report.tiers = [collected[size].result(size) for size in SIZES if size in collected]
    report.anomalies = [
        CheckFinding(kind=note.kind, file=note.file, where=note.where, detail=note.detail)
        for note in dict.fromkeys(notes)
    ]
    return report


class _Collected:
    """Adds up one tier."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.questions_only: list[str] = []
        self.files: Counter[State] = Counter()
        self._counted: set[Path] = set()
        self.chats: dict[ChatVariant, ChatTally] = {"full": ChatTally(), "truncated": ChatTally()}
        self.markers: Counter[str] = Counter()
        self.questions = QuestionTally()
        self.errata: list[str] = []

    def add(self, source: Source, notes: list[Anomaly]) -> None:
        """Load a conversation in each variant it has; questions are counted against the evaluated (cut) one."""
        loaded: Loaded | None = None
        counted: set[ChatVariant] = set()
        for variant in _variants(source) or [Treatment().chat_variant]:  # reading says that neither is there
            loaded = load(source, Treatment(variant, strip_markers=False, errata="flag"))
            if loaded.conversation.variant not in counted:  # a cut that cuts nothing off gives the full chat again
                self.chats[loaded.conversation.variant].add(loaded.conversation)
            counted.add(loaded.conversation.variant)
            notes += loaded.anomalies
        if loaded is not None:
            self.ids.append(source.id)
            self.errata += loaded.flagged
            self.questions.add(loaded.gold.values(), loaded.conversation)

    def add_questions(self, source: Source, notes: list[Anomaly]) -> None:
        """Read the questions of a conversation without its chat."""
        probes, gold, anomalies = load_questions(source)
        notes += anomalies
        self.questions_only.append(source.id)
        self.errata += flagged_probes(probes)
        self.questions.add(gold.values(), None)

    def add_files(self, source: Source, notes: list[Anomaly]) -> None:
        """Compare the files with the released ones. Pickles can run code when they are opened: they never are."""
        for place, file in _files(source):
            if file.path in self._counted:  # a parquet file, of which an earlier row was looked at
                continue
            self._counted.add(file.path)
            if file.path.suffix in (".pickle", ".pkl"):
                notes.append(Anomaly("pickle_present", place, "", "a pickle file; never opened, nothing needs it"))
                continue
            self.files[file.state] += 1
            if file.state == "changed":
                notes.append(
                    Anomaly(
                        "file_changed",
                        place,
                        "",
                        f"its SHA-256 is not that of {file.revision}: fetch the data again if it should be",
                    )
                )
            elif file.state == "missing":
                notes.append(Anomaly("file_missing", place, "", f"{file.revision} has it, this folder does not"))

    def add_user_messages(self, source: Source, notes: list[Anomaly]) -> None:
        """Count the markers of the main questions as they were before answering (1.3)."""
        for path in _user_message_files(source):
            log = Log(f"{source.size}/{source.number}/{path.relative_to(source.path).as_posix()}", str(path))
            try:
                self.markers.update(_marker_variants(path, log))
            except Unreadable as error:
                log.note("file_unreadable", f"{error.reason}; only this check reads it")
            notes += log.anomalies

    def result(self, size: Size) -> Tier:
        """The tier's part of the report."""
        questions = self.questions.result()
        chats = {name: tally.result() for name, tally in self.chats.items()}
        return Tier(
            size=size,
            conversations=self.ids,
            questions_only=self.questions_only,
            files=dict(sorted(self.files.items())),
            chats={name: counts for name, counts in chats.items() if counts.conversations},
            user_message_markers={n: self.markers[n] for n in (*VARIANTS, INDEX, UNREADABLE) if self.markers[n]},
            questions=questions,
            probes=sum(entry.questions for entry in questions.values()),
            rubric_items=sum(entry.rubric_items for entry in questions.values()),
            errata=self.errata,
        )


def _variants(source: Source) -> list[ChatVariant]:
    """The chats to count, the evaluated one last; none where there is no chat."""
    if source.kind == "hub":
        return ["full"]
    own = present(source.path / CUT_CHAT)
    whole = present(source.path / CHAT) or (source.path.is_dir() and bool(plan_folders(source.path)))
    cut = own or (whole and source.size == "10M" and present(source.path / CUTOFF))
    held: dict[ChatVariant, bool] = {"full": whole, "truncated": cut}
    return [variant for variant, there in held.items() if there]


def _user_message_files(source: Source) -> list[Path]:
    if source.kind == "hub" or not _variants(source):
        return []
    if source.size == "10M":
        return [path / USER_MESSAGES for path in plan_folders(source.path).values()]
    return [source.path / USER_MESSAGES]


def _marker_variants(path: Path, log: Log) -> Iterator[str]:
    """The marker spelling of each message of a user_messages.json."""
    batches = expect(read_json_file(path, log), list, "a list of batches", log)
    for number, batch in enumerate(batches, start=1):
        place = log.at(f"batch {number}")
        expect(batch, dict, "an object", place)
        if need(batch, "batch", int, place) != number:
            place.note("batch_number_differs", f"`batch` is {batch['batch']}")
        if batch.get("time_anchor") is None:
            place.note("time_anchor_missing", "no time anchor")
        for position, message in enumerate(need(batch, "messages", list, place), start=1):
            spot = log.at(f"{place.where}, message {position}")
            expect(message, dict, "an object", spot)
            marker = split_marker(need_text(message, "content", spot))[1]
            if marker is None:
                marker = index_marker(message.get("index"), number)
            if marker is None:
                spot.note("marker_missing", "no readable index marker")
            elif marker.batch != number:
                spot.note("marker_batch_differs", f"the marker names batch {marker.batch}")
            yield marker.variant if marker else UNREADABLE


def _files(source: Source) -> list[tuple[str, DataFile]]:
    """The files of a conversation with their places in the data; of those that are not there, chats that should be."""
    if source.kind == "hub":
        from beamlib.data.hub import parquet_file  # here, because pyarrow takes 0.2 s to import

        return [(source.path.name, parquet_file(source.path))]
    there = sorted(path for path in source.path.rglob("*") if path.is_file())
    names = [path.relative_to(source.path).as_posix() for path in there]
    chats = (CHAT, CUT_CHAT) if _variants(source) else ()
    known = [data_file(source, name) for name in dict.fromkeys((*names, *chats))]
    return [(f"{source.size}/{source.number}/{file.name}", file) for file in known if file.sha256 or file.name in names]


def _render_tier(tier: Tier) -> list[str]:
    lines = [f"{tier.size}: {len(tier.conversations)} conversations ({', '.join(tier.conversations)})"]
    if tier.questions_only:
        lines = [f"{tier.size}: questions only, of {len(tier.questions_only)} conversations; no chat is there"]
    lines.append("  files: " + ", ".join(f"{tier.files.get(state, 0)} {said}" for state, said in _STATES.items()))
    if tier.chats:
        lines.append("  chat        convs batches  turns messages   main answer_ai followup  turn lengths")
    for name, c in tier.chats.items():
        lengths = "  ".join(f"{length}:{count}" for length, count in c.turn_lengths.items())
        lines.append(
            f"  {name:<10} {c.conversations:6d} {c.batches:7d} {c.turns:6d} {c.messages:8d} {c.main_question:6d}"
            f" {c.answer_ai_question:9d} {c.followup_question:8d}  {lengths}"
        )
        lines.append(
            f"    tokens ({TOKEN_COUNTER} + 4 per message): mean {c.tokens_mean:,.0f}, {c.tokens_min:,} to "
            f"{c.tokens_max:,}; characters per pair, median {c.characters_per_pair_median:,.0f}; per token "
            f"{c.characters_per_token:.2f}"
        )
        lines.append(f"    markers: {_counts(c.markers)}; stray: {_counts(c.stray_markers)}")
        lines += [f"    {name}: plans begin at message {_list(first)}" for name, first in c.plan_offsets.items()]
    if not tier.questions_only:
        lines.append(f"  markers in {USER_MESSAGES}: {_counts(tier.user_message_markers)}")
    lines.append(f"  {tier.probes} questions, {tier.rubric_items} rubric items")
    for ability, q in tier.questions.items():
        lines.append(
            f"    {ability:<24} {q.questions:4d} q {q.rubric_items:5d} items ({q.items_per_question:.2f})  "
            f"stems {_counts(q.stems)};  ids {_counts(q.evidence_shapes)}; cited user {q.cited_user}, "
            f"assistant {q.cited_assistant}, not in the chat {q.cited_missing}"
        )
    lines.append(f"  questions with an erratum: {', '.join(tier.errata) or 'none'}")
    return lines


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
