"""`beamlib data check`: count what a folder holds, as the format's description counts it, and list all that is odd.

This module reads gold; nothing that answers questions imports it.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, Field
from tqdm import tqdm

from beamlib.data.checked_json import Anomaly, DataFile, Log, Unreadable, expect, need, need_text, read_json_file
from beamlib.data.conversations import SIZES, ChatVariant, Conversation, FileState, Size, Treatment
from beamlib.data.errata import flagged_probes
from beamlib.data.gold import ABILITIES, Gold
from beamlib.data.loading import Loaded, load, load_questions
from beamlib.data.markers import INDEX, MARKER_FORMS, index_marker, split_marker, strip_stray
from beamlib.data.released_layout import data_file
from beamlib.data.sources import CUT_CHAT, CUTOFF, Source, plan_folders, present, scan
from beamlib.errors import UserError
from beamlib.places import CHAT
from beamlib.text import TOKEN_COUNTER, count_tokens

_USER_MESSAGES = "user_messages.json"
_NO_MARKER = "no marker"
_TOKENS_PER_MESSAGE = 4
"""Overhead per message in the published sizes (role and separators)."""
_STATES: dict[FileState, str] = {
    "released": "as released (SHA-256)",
    "changed": "changed",
    "unknown": "without a known checksum",
    "missing": "missing",
}
_STEM = re.compile(r"(?:LLM r|R)esponse should(?: not)? ([a-z]+)", re.IGNORECASE)
_ABSTAINS = re.compile(r"based on the provided chat", re.IGNORECASE)


class ChatCounts(BaseModel):
    """The chats of one tier and variant. `turn_lengths` counts turns by their messages."""

    conversations: int = 0
    batches: int = 0
    turns: int = 0
    messages: int = 0
    main_question: int = 0
    answer_ai_question: int = 0
    followup_question: int = 0
    turn_lengths: dict[int, int] = Field(default_factory=dict)
    tokens_mean: float = 0.0
    tokens_min: int = 0
    tokens_max: int = 0
    characters_per_pair_median: float = 0.0
    characters_per_token: float = 0.0
    markers: dict[str, int] = Field(default_factory=dict)
    stray_markers: dict[str, int] = Field(default_factory=dict)
    plan_offsets: dict[str, list[int]] = Field(default_factory=dict)


class AbilityCounts(BaseModel):
    """The questions on one ability: rubric items and their stems, cited evidence."""

    questions: int = 0
    rubric_items: int = 0
    items_per_question: float = 0.0
    stems: dict[str, int] = Field(default_factory=dict)
    evidence_shapes: dict[str, int] = Field(default_factory=dict)
    cited_user: int = 0
    cited_assistant: int = 0
    cited_missing: int = 0
    difficulties: dict[str, int] = Field(default_factory=dict)


class Tier(BaseModel):
    """All counts of one size.

    `questions_only` are the conversations of a folder without any chat. `files` counts files by their checksum.
    `chats` is by variant, `user_message_markers` counts the markers of user_messages.json.
    """

    size: Size
    conversations: list[str]
    questions_only: list[str]
    files: dict[FileState, int]
    chats: dict[str, ChatCounts]
    user_message_markers: dict[str, int]
    questions: dict[str, AbilityCounts]
    probes: int
    rubric_items: int
    errata: list[str]


class CheckReport(BaseModel):
    """The report of `check_folder`. Unreadable conversations are in `errors`; everything else odd is an anomaly."""

    folder: str
    token_counter: str = TOKEN_COUNTER
    tiers: list[Tier] = Field(default_factory=list)
    anomalies: list[Anomaly] = Field(default_factory=list)
    errors: list[str] = Field(default_factory=list)

    def render(self) -> str:
        """Return the report as plain text."""
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
    """Read every conversation in `folder` and report; a broken one is listed in `errors`, and the check goes on.

    A changed file is an anomaly and is read like any other. In a folder without any chat the questions are read alone.
    Counts are of the data as published (markers left in the text).

    Raises:
        UserError: There is no conversation at all.
    """
    sources, problems = scan(folder)
    errors = [problem.sentence for problem in problems if problem.size or not sources]
    report = CheckReport(folder=str(folder), errors=errors)
    notes = [Anomaly("unknown_file", "", "", own.sentence) for own in problems if sources and not own.size]
    tiers: dict[Size, _TierTally] = {}
    no_chat = not any(_variants(source) for source in sources)
    for source in tqdm(sources, desc="checking", unit="conversation", disable=not progress):
        tally = tiers.setdefault(source.size, _TierTally())
        try:
            (tally.add_questions if no_chat else tally.add)(source, notes)
        except UserError as error:
            report.errors.append(str(error))
        tally.add_user_messages(source, notes)
        tally.add_files(source, notes)
    report.tiers = [tiers[size].result(size) for size in SIZES if size in tiers]
    report.anomalies = list(dict.fromkeys(notes))
    return report


class _TierTally:
    """Adds up one tier."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.questions_only: list[str] = []
        self.files: Counter[FileState] = Counter()
        self._counted: set[Path] = set()
        self.chats: dict[ChatVariant, _ChatTally] = {"full": _ChatTally(), "truncated": _ChatTally()}
        self.markers: Counter[str] = Counter()
        self.questions: dict[str, list[tuple[Gold, Counter[str]]]] = {ability: [] for ability in ABILITIES}
        self.errata: list[str] = []

    def add(self, source: Source, notes: list[Anomaly]) -> None:
        """Load a conversation in each variant it has; questions are counted against the evaluated (cut) one."""
        loaded: Loaded | None = None
        counted: set[ChatVariant] = set()
        for variant in _variants(source) or [Treatment().chat_variant]:  # loading reports that no chat is there
            loaded = load(source, Treatment(variant, strip_markers=False, errata="flag"))
            if loaded.conversation.variant not in counted:  # a cut that cuts nothing off gives the full chat again
                self.chats[loaded.conversation.variant].add(loaded.conversation)
            counted.add(loaded.conversation.variant)
            notes += loaded.anomalies
        if loaded is not None:
            self.ids.append(source.id)
            self.errata += loaded.flagged
            self._add_gold(loaded.gold.values(), loaded.conversation)

    def add_questions(self, source: Source, notes: list[Anomaly]) -> None:
        """Read the questions of a conversation without its chat."""
        probes, gold, anomalies = load_questions(source)
        notes += anomalies
        self.questions_only.append(source.id)
        self.errata += flagged_probes(probes)
        self._add_gold(gold.values(), None)

    def _add_gold(self, gold: Iterable[Gold], conversation: Conversation | None) -> None:
        """Count questions; cited messages are looked up in the chat for their roles."""
        roles = {message.id: message.role for message in conversation or ()}
        for entry in gold:
            self.questions[entry.ability].append((entry, Counter(roles[i] for i in entry.evidence if i in roles)))

    def add_files(self, source: Source, notes: list[Anomaly]) -> None:
        """Compare files with the released ones. Pickles can run code when opened: they never are."""
        for place, file in _files(source):
            if file.path in self._counted:  # a parquet file with several conversations
                continue
            self._counted.add(file.path)
            if file.path.suffix in (".pickle", ".pkl"):
                notes.append(Anomaly("pickle_present", place, "", "a pickle file; never opened, nothing needs it"))
                continue
            self.files[file.state] += 1
            if file.state == "changed":
                detail = f"its SHA-256 is not that of {file.revision}: fetch the data again if it should be"
                notes.append(Anomaly("file_changed", place, "", detail))
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
        """Return the tier's part of the report."""
        questions = {ability: _ability_counts(own) for ability, own in self.questions.items() if own}
        return Tier(
            size=size,
            conversations=self.ids,
            questions_only=self.questions_only,
            files=dict(sorted(self.files.items())),
            chats={name: tally.result() for name, tally in self.chats.items() if tally.counts.conversations},
            user_message_markers={n: self.markers[n] for n in (*MARKER_FORMS, INDEX, _NO_MARKER) if self.markers[n]},
            questions=questions,
            probes=sum(entry.questions for entry in questions.values()),
            rubric_items=sum(entry.rubric_items for entry in questions.values()),
            errata=self.errata,
        )


class _ChatTally:
    """Adds up `ChatCounts`; takes conversations with their markers in the text."""

    def __init__(self) -> None:
        self.counts = ChatCounts()
        self._lengths: Counter[int] = Counter()
        self._markers: Counter[str] = Counter()
        self._stray: Counter[str] = Counter()
        self._tokens: list[int] = []
        self._characters: list[int] = []

    def add(self, conversation: Conversation) -> None:
        """Count one conversation."""
        counts, kinds = self.counts, Counter(message.kind for message in conversation)
        counts.conversations += 1
        counts.batches += len(conversation.batches)
        counts.turns += len(conversation.turns)
        counts.messages += len(conversation.messages)
        counts.main_question += kinds["main_question"]
        counts.answer_ai_question += kinds["answer_ai_question"]
        counts.followup_question += kinds["followup_question"]
        self._lengths.update(len(turn.messages) for turn in conversation.turns)
        for message in conversation:
            if message.marker is not None:
                self._markers[message.marker.variant] += 1
            elif message.kind != "main_question" and strip_stray(message.content)[1]:
                self._stray[message.kind or message.role] += 1
        self._tokens.append(sum(count_tokens(message.content) + _TOKENS_PER_MESSAGE for message in conversation))
        self._characters += [len(pair.user.content) + len(pair.assistant.content) for pair in conversation.pairs]
        if conversation.size == "10M":
            first: dict[int, int] = {}
            for batch in conversation.batches:
                if batch.turns:
                    first.setdefault(batch.plan, batch.turns[0].messages[0].id)
            counts.plan_offsets[conversation.id] = list(first.values())

    def result(self) -> ChatCounts:
        """Return the counts of the conversations so far, one at least."""
        content = sum(self._tokens) - _TOKENS_PER_MESSAGE * self.counts.messages
        derived = {
            "turn_lengths": dict(sorted(self._lengths.items())),
            "markers": {name: self._markers[name] for name in (*MARKER_FORMS, INDEX) if self._markers[name]},
            "stray_markers": dict(sorted(self._stray.items())),
            "tokens_mean": round(statistics.fmean(self._tokens), 1),
            "tokens_min": min(self._tokens),
            "tokens_max": max(self._tokens),
            "characters_per_pair_median": float(statistics.median(self._characters)),
            "characters_per_token": round(sum(self._characters) / max(content, 1), 3),
        }
        return self.counts.model_copy(update=derived)


def _ability_counts(questions: Sequence[tuple[Gold, Counter[str]]]) -> AbilityCounts:
    """Count the questions on one ability, each given with the roles of its cited messages."""
    gold = [entry for entry, _ in questions]
    items = [item for entry in gold for item in entry.rubric]
    roles = sum((cited for _, cited in questions), Counter[str]())
    return AbilityCounts(
        questions=len(gold),
        rubric_items=len(items),
        items_per_question=round(len(items) / len(gold), 2),
        stems=_by_count(map(_stem, items)),
        evidence_shapes=_by_count(map(_evidence_shape, gold)),
        cited_user=roles["user"],
        cited_assistant=roles["assistant"],
        cited_missing=sum(len(entry.evidence_missing) for entry in gold),
        difficulties=_by_count(entry.difficulty for entry in gold),
    )


def _by_count(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def _stem(item: str) -> str:
    """Return the verb of `LLM response should <verb>`, `no information`, or `no stem`."""
    if match := _STEM.match(item):
        return match[1].lower()
    return "no information" if _ABSTAINS.match(item) else "no stem"


def _evidence_shape(entry: Gold) -> str:
    """Name the structure of `source_chat_ids`: absent, empty, parts, parts with an empty one, flat, nested, mixed."""
    value = entry.extras.get("source_chat_ids")
    if value is None:
        return "absent"
    if isinstance(value, dict):
        return "parts" if all(value.values()) else "parts, one empty"
    if not isinstance(value, list):
        return "other"
    nested = sum(isinstance(item, list) for item in value)
    if not value:
        return "empty"
    return "flat" if not nested else "nested" if nested == len(value) else "mixed"


def _variants(source: Source) -> list[ChatVariant]:
    """Return the chats to count, the evaluated one last; none where there is no chat."""
    if source.kind == "hub":
        return ["full"]
    own = present(source.path / CUT_CHAT)
    whole = present(source.path / CHAT) or (source.path.is_dir() and bool(plan_folders(source.path)))
    cut = own or (whole and source.size == "10M" and present(source.path / CUTOFF))
    variants: dict[ChatVariant, bool] = {"full": whole, "truncated": cut}
    return [variant for variant, there in variants.items() if there]


def _user_message_files(source: Source) -> list[Path]:
    if source.kind == "hub" or not _variants(source):
        return []
    folders = plan_folders(source.path).values() if source.size == "10M" else [source.path]
    return [folder / _USER_MESSAGES for folder in folders]


def _marker_variants(path: Path, log: Log) -> Iterator[str]:
    """Yield the marker spelling of each message of a user_messages.json."""
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
            yield marker.variant if marker else _NO_MARKER


def _files(source: Source) -> list[tuple[str, DataFile]]:
    """Return the files of a conversation with their places in the data, and chats that should be there."""
    if source.kind == "hub":
        from beamlib.data.parquet import parquet_file  # here, because pyarrow takes 0.2 s to import

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
    lines.append("  files: " + ", ".join(f"{tier.files.get(state, 0)} {words}" for state, words in _STATES.items()))
    if tier.chats:
        lines.append("  chat        convs batches  turns messages   main answer_ai followup  turn lengths")
    for name, c in tier.chats.items():
        lengths = "  ".join(f"{length}:{count}" for length, count in c.turn_lengths.items())
        lines.append(
            f"  {name:<10} {c.conversations:6d} {c.batches:7d} {c.turns:6d} {c.messages:8d} {c.main_question:6d}"
            f" {c.answer_ai_question:9d} {c.followup_question:8d}  {lengths}"
        )
        lines.append(
            f"    tokens ({TOKEN_COUNTER} + {_TOKENS_PER_MESSAGE} per message): mean {c.tokens_mean:,.0f}, "
            f"{c.tokens_min:,} to {c.tokens_max:,}; characters per pair, median {c.characters_per_pair_median:,.0f}; "
            f"per token {c.characters_per_token:.2f}"
        )
        lines.append(f"    markers: {_shown(c.markers)}; stray: {_shown(c.stray_markers)}")
        for conversation, first in c.plan_offsets.items():
            lines.append(f"    {conversation}: plans begin at message {', '.join(map(str, first))}")
    if not tier.questions_only:
        lines.append(f"  markers in {_USER_MESSAGES}: {_shown(tier.user_message_markers)}")
    lines.append(f"  {tier.probes} questions, {tier.rubric_items} rubric items")
    for ability, q in tier.questions.items():
        lines.append(
            f"    {ability:<24} {q.questions:4d} q {q.rubric_items:5d} items ({q.items_per_question:.2f})  "
            f"stems {_shown(q.stems)};  ids {_shown(q.evidence_shapes)}; cited user {q.cited_user}, "
            f"assistant {q.cited_assistant}, not in the chat {q.cited_missing}"
        )
    lines.append(f"  questions with an erratum: {', '.join(tier.errata) or 'none'}")
    return lines


def _shown(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
