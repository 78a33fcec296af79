"""From result files to runs like any other: read, match, record, write; nothing is written before all is known good."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beam_field.formats import READERS, recognised
from beam_field.line_readers import whole
from beam_field.matching import Matched, matched
from beam_field.results import Read, Source, plain
from beamlib.errors import UserError
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.arm_folder import MANIFEST, Manifest, manifest_over, read_manifest
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.imported import DETAILS, Imported, ImportedQuestion, Provenance, question_set
from beamlib.evaluate.run_store import (
    ANSWERS,
    JUDGEMENTS,
    ConversationRecord,
    UnitOutput,
    checked,
    made_by,
    write_manifest,
)
from beamlib.files import inside, parse_json, sha256, to_json, write_text
from beamlib.scoring.records import Judgement

MOST = 1 << 29
"""Bytes of a file that are read, unpacked: half a gigabyte. The largest known (contexts and all) has a tenth."""
_MOST_SIGNS = 1 << 24
"""Commas and opening brackets: what a JSON value takes in memory goes by these, up to 24 times its bytes."""
_MOST_RUNS = 100
_PIECE = 1 << 20
ORIGIN = "questions of the released data, matched by tier and exact text; conversations not at hand"


@dataclass(frozen=True)
class ImportedArm:
    """One run as it will stand in a run folder: `folder` below that, and what its files hold."""

    part: str
    arm: Arm
    manifest: Manifest
    answers: tuple[Answer, ...]
    judgements: tuple[Judgement, ...]
    details: tuple[ImportedQuestion, ...]

    @property
    def imported(self) -> Imported:
        """The record of the import."""
        assert self.manifest.imported is not None
        return self.manifest.imported


def read_source(path: Path) -> tuple[Source, str]:
    """The content of a file of JSON or JSON lines, perhaps in gzip (up to `MOST` bytes), and its SHA-256."""
    try:
        if not path.is_file():
            raise UserError(f"{path}: no such file; name a file of results.")
        if path.stat().st_size > MOST:
            raise UserError(f"{path}: more than {MOST:,} bytes; split it by run, or leave its contexts out.")
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    digest = sha256(data)
    if data.startswith(b"\x1f\x8b"):
        data = _unpacked(path)
    if sum(data.count(sign) for sign in (b",", b"[", b"{")) > _MOST_SIGNS:
        raise UserError(f"{path}: it holds too many values; split it by run, or leave its contexts out.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: not UTF-8 text (byte {error.start}); name a file of JSON, JSON lines or gzip."
        ) from None
    if not text.strip():
        raise UserError(f"{path}: the file is empty; name a file of results.")
    return Source(str(path), _value(path, text)), digest


def _unpacked(path: Path) -> bytes:
    pieces, size = [], 0
    try:
        with gzip.open(path) as handle:
            while piece := handle.read(_PIECE):
                pieces.append(piece)
                size += len(piece)
                if size > MOST:
                    raise UserError(f"{path}: unpacks to more than {MOST:,} bytes; split it by run.")
    except (EOFError, OSError, zlib.error) as error:
        raise UserError(f"{path}: a damaged gzip file ({error}); fetch it again.") from None
    return b"".join(pieces)


def _value(path: Path, text: str) -> Any:
    """The JSON value of a text, or the list of its lines' values where its first line is an object by itself."""
    first, _, rest = text.lstrip().partition("\n")
    if not rest.strip() or not _is_object(first):
        return _parsed(text, str(path))
    lines = enumerate(text.split("\n"), start=1)
    return [_parsed(line, f"{path}: line {number}") for number, line in lines if line.strip()]


def _parsed(text: str, where: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise UserError(f"{where}: {error}; correct the file.") from None


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def read_runs(
    files: Sequence[Path], form: str = "", stated: Mapping[str, str] | None = None, table: Path | None = None
) -> list[ImportedArm]:
    """The runs in `files`, matched to the released questions; `form` names their format, else it is recognised.

    `stated` is what the user says of all of them (fields of `Provenance`), `table` another table of questions. Raises
    `UserError` for whatever cannot be read or matched; nothing is written.
    """
    if form and form not in READERS:
        raise UserError(f"--format: {form!r} is not one of {', '.join(READERS)}; choose one of these.")
    said = checked(Provenance, stated or {}, "what is stated of the runs: ", "state it otherwise.").model_dump()
    said = {name: said[name] for name in stated or {}}
    digests: dict[str, Path] = {}
    groups: dict[str, list[tuple[Source, str]]] = {}
    for path in files:
        source, digest = read_source(path)
        if (same := digests.setdefault(digest, path)) is not path:
            raise UserError(f"{path}: it is the same file as {same}; give each file once.")
        groups.setdefault(form or recognised(source), []).append((source, digest))
    found: list[tuple[str, Read, dict[str, str]]] = []
    for name, own in groups.items():
        for part in _runs_of(name, own):
            hashes: dict[str, str] = {}
            for source, digest in part:
                named = _shown_name(source)
                hashes[f"{named} ({len(hashes) + 1})" if named in hashes else named] = digest
            found += [(name, read, hashes) for read in READERS[name]([source for source, _ in part])]
    if len(found) > _MOST_RUNS:
        raise UserError(
            f"{files[0]}: {len(found)} runs, more than the {_MOST_RUNS} that are read at once; split the files."
        )
    if not found:
        raise UserError(f"{files[0]}: it holds no results; name a file that does.")
    arms = [
        _arm(name, read, hashes, part, said) for name, read, hashes in found for part in matched(read, hashes, table)
    ]
    return _named_apart(arms)


def _shown_name(source: Source) -> str:
    """A file's name without its folder, as it can be written: names of files need not be text."""
    return os.fsencode(Path(source.name).name).decode("utf-8", "replace")


def _runs_of(form: str, files: Sequence[tuple[Source, str]]) -> list[list[tuple[Source, str]]]:
    """The files of each run: one, but for answers and verdicts that stand apart."""
    apart = [one for one in files if form == "past" and not whole(one[0])]
    return [*([apart] if apart else []), *([one] for one in files if one not in apart)]


def _arm(form: str, read: Read, hashes: dict[str, str], one: Matched, stated: Mapping[str, str]) -> ImportedArm:
    shipped = one.shipped
    told = {**read.provenance.model_dump(), **stated}
    if shipped is not None:
        known = {name: getattr(shipped, name) for name in Provenance.model_fields}
        told |= {name: value for name, value in known.items() if value not in ("", "unknown")}
    details = "".join(to_json(row.model_dump(mode="json", exclude_none=True)) + "\n" for row in one.details)
    imported = Imported(
        **told,
        format=form,
        shipped=shipped.name if shipped else "",
        number=read.number,
        files=hashes,
        kinds=dict(one.kinds),
        unmatched_count=one.unmatched_count,
        unmatched=one.unmatched,
        twice=one.twice,
        missing=one.missing,
        other_rubric=one.other_rubric,
        details_sha256=sha256(details),
    )
    arm = Arm(memory="imported", target=plain(read.label))
    part = f"{one.tier.lower()}-{plain(imported.reader or 'unknown')}-imported"
    return ImportedArm(part, arm, _manifest(arm, one, imported), one.answers, one.judgements, one.details)


def _manifest(arm: Arm, one: Matched, imported: Imported) -> Manifest:
    conversations = {
        key: ConversationRecord(
            variant="unknown",
            sha256="",
            questions_sha256=question_set([answer.probe_id for answer in answers]),
            origin=ORIGIN,
        )
        for key, (answers, _) in one.by_conversation().items()
    }
    hashes = {
        key: [UnitOutput(list(part), conversations[key]).sha256 for part in parts]
        for key, parts in one.by_conversation().items()
    }
    source = sha256(to_json([imported.format, imported.files, arm.name]))
    fields = {
        "arm": arm.name,
        "size": one.tier,
        "configuration": (),
        "settings": {"arm": arm.model_dump()},
        "reader": imported.reader or "unknown",
        "judge": imported.judged_by,
        "models": {},
        "prompts": {},
        "token_counter": "that of the source",
        "answers_key": source,
        "judgements_key": source,
        "imported": imported,
        **made_by(),
    }
    answers, judgements = ({key: own[place] for key, own in hashes.items()} for place in (0, 1))
    return manifest_over(fields, conversations, {}, answers, judgements)


def _named_apart(arms: Sequence[ImportedArm]) -> list[ImportedArm]:
    """Arms of one name in one part are runs of one system: they get numbers, in the order of the files."""
    places = [(one.part, one.arm.name.casefold()) for one in arms]
    named = []
    for number, one in enumerate(arms):
        if places.count(places[number]) > 1:
            nth = places[: number + 1].count(places[number])
            arm = Arm(memory="imported", target=f"{one.arm.target}-run{nth}")
            fields = {**dict(one.manifest), "arm": arm.name, "settings": {"arm": arm.model_dump()}}
            one = ImportedArm(one.part, arm, Manifest.model_validate(fields), one.answers, one.judgements, one.details)
        named.append(one)
    if len({(one.part, one.arm.name.casefold()) for one in named}) < len(named):
        raise UserError(f"{named[0].part}: two of these runs have one name; import them one by one, by another --name.")
    return named


def write_runs(arms: Sequence[ImportedArm], run: Path) -> list[Path]:
    """Write the arms below the run folder `run`; a folder that holds other results already is a `UserError`."""
    folders = [inside(run, one.part, one.arm.name) for one in arms]
    for folder, one in zip(folders, arms, strict=True):
        if (folder / MANIFEST).exists() and _imports(folder) != (one.imported.files, one.imported.format):
            raise UserError(f"{folder}: it holds other results already; give the import another --name.")
    for folder, one in zip(folders, arms, strict=True):
        (folder / MANIFEST).unlink(missing_ok=True)  # a manifest never vouches for files of two moments
        for name, records in ((ANSWERS, one.answers), (JUDGEMENTS, one.judgements)):
            write_text(
                folder / f"{name}.jsonl", "".join(to_json(row.model_dump(mode="json")) + "\n" for row in records)
            )
        lines = (to_json(row.model_dump(mode="json", exclude_none=True)) + "\n" for row in one.details)
        write_text(folder / DETAILS, "".join(lines))
        write_manifest(folder / MANIFEST, one.manifest)
    return folders


def _imports(folder: Path) -> tuple[Mapping[str, str], str] | None:
    try:
        found = read_manifest(folder).imported
    except UserError:
        return None
    return (found.files, found.format) if found else None
