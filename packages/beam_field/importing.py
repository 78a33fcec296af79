"""Import result files as runs: read, match, record, write. Nothing is written before everything is valid."""

from __future__ import annotations

import csv
import gzip
import json
import math
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any, get_args

from beam_field.comparing import RunVerdicts
from beam_field.formats import READERS, group_files, recognise_format
from beam_field.matching import ImportedArm, details_text, match_run
from beam_field.results import ImportedRun, ResultFile
from beam_field.sources import PublishedRun, VerdictKind
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.beam_records import DETAILS, MANIFEST, Manifest, Provenance, read_manifest, stored_judgements
from beamlib.evaluate.records import ANSWERS, JUDGEMENTS, checked, write_manifest
from beamlib.files import inside, parse_json, refuse_lfs_pointer, sha256, to_json, write_text
from beamlib.scoring.protocols import NOT_COMPUTABLE, PROTOCOLS, REPORTED
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import AVERAGE, score_run, summarise
from beamlib.text import count

MOST_RESULT_BYTES = 1 << 29
"""Unpacked bytes of a file: half a gigabyte. The largest known file, contexts included, has a tenth of it."""
_MOST_VALUES = 1 << 24
"""Commas and opening brackets: the memory of a JSON value grows with these, up to 24 times its bytes."""
_MOST_RUNS = 100
_MOST_SHOWN = 10


def read_source(path: Path) -> tuple[ResultFile, str]:
    """Read a file of JSON or JSON lines, optionally gzipped; return it with its SHA-256."""
    try:
        if not path.is_file():
            raise UserError(f"{path}: no such file; name a file of results.")
        if path.stat().st_size > MOST_RESULT_BYTES:
            raise UserError(
                f"{path}: more than {MOST_RESULT_BYTES:,} bytes; split it by run, or leave its contexts out."
            )
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    refuse_lfs_pointer(path, data)
    digest = sha256(data)
    if data.startswith(b"\x1f\x8b"):
        data = _unpack(path)
    if sum(data.count(sign) for sign in (b",", b"[", b"{")) > _MOST_VALUES:
        raise UserError(f"{path}: it holds too many values; split it by run, or leave its contexts out.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"byte {error.start}"
        raise UserError(f"{path}: not UTF-8 text ({place}); name a file of JSON, JSON lines or gzip.") from None
    if not text.strip():
        raise UserError(f"{path}: the file is empty; name a file of results.")
    return ResultFile(str(path), _parse(path, text)), digest


def _unpack(path: Path) -> bytes:
    try:
        with gzip.open(path) as handle:
            data = handle.read(MOST_RESULT_BYTES + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise UserError(f"{path}: a damaged gzip file ({error}); fetch it again.") from None
    if len(data) > MOST_RESULT_BYTES:
        raise UserError(f"{path}: unpacks to more than {MOST_RESULT_BYTES:,} bytes; split it by run.")
    return data


def _parse(path: Path, text: str) -> Any:
    """Parse JSON, or JSON lines where the first line is an object by itself."""

    def parse(part: str, where: str) -> Any:
        try:
            return well_formed(parse_json(part, nan_as_null=True))
        except ValueError as error:
            raise UserError(f"{where}: {error}; correct the file.") from None

    first, _, rest = text.lstrip().partition("\n")
    if columns := _columns(first, rest):
        raise UserError(
            f"{path}: a table (CSV) with the columns {shorten(', '.join(columns), 120)}; only JSON and JSON lines are "
            "read: write its rows in beam-results/1 (docs/publishing-results.md)."
        )
    if not rest.strip() or not _is_object(first):
        return parse(text, str(path))
    lines = enumerate(text.split("\n"), start=1)
    return [parse(line, f"{path}: line {number}") for number, line in lines if line.strip()]


def well_formed(value: Any) -> Any:
    """Replace halves of UTF-16 pairs in the texts of a JSON value, which no file and no terminal takes."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {well_formed(key): well_formed(own) for key, own in value.items()}
    return [well_formed(own) for own in value] if isinstance(value, list) else value


def _columns(first: str, rest: str) -> list[str]:
    """Return the names of the columns if a file is a table with a separator, none if it may be JSON."""
    if first[:1] in ("{", "[") or not rest.strip():
        return []
    rows = ([name.strip() for name in next(csv.reader([first], delimiter=sign))] for sign in (",", "\t", ";", "|"))
    return next((names for names in rows if len(names) > 1 and all(map(str.isprintable, names))), [])


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def read_runs(
    files: Sequence[Path], form: str = "", stated: Mapping[str, str] | None = None, table: Path | None = None
) -> list[ImportedArm]:
    """Read the runs in `files` and match them to the released questions; write nothing.

    Args:
        files: Result files of any of the `READERS`' formats.
        form: Their format; recognised by content if empty.
        stated: Fields of `Provenance` that the user states for all of them.
        table: Another table of questions than the shipped one.

    Raises:
        UserError: A file cannot be read or matched.
    """
    if form and form not in READERS:
        raise UserError(f"--format: {form!r} is not one of {', '.join(READERS)}; choose one of these.")
    checked(Provenance, dict(stated or {}), "what is stated of the runs: ", "state it otherwise.")
    digests: dict[str, str] = {}
    names: dict[str, str] = {}
    groups: dict[str, list[ResultFile]] = {}
    for path in files:
        file, digest = read_source(path)
        if digest in names:
            raise UserError(f"{path}: it is the same file as {names[digest]}; give each file once.")
        digests[file.name], names[digest] = digest, file.name
        groups.setdefault(form or recognise_format(file), []).append(file)
    runs: list[tuple[str, ImportedRun, dict[str, str]]] = []
    for name, own in groups.items():
        for group in group_files(name, own):
            hashes: dict[str, str] = {}
            for file in group:
                shown = _shown_name(file)
                hashes[f"{shown} ({len(hashes) + 1})" if shown in hashes else shown] = digests[file.name]
            runs += [(name, run, hashes) for run in READERS[name](group)]
    if len(runs) > _MOST_RUNS:
        raise UserError(f"{files[0]}: {len(runs)} runs, more than the {_MOST_RUNS} allowed at once; split the files.")
    if not runs:
        raise UserError(f"{files[0]}: it holds no results; name a file that does.")
    return _number_repeats(
        [arm for name, run, hashes in runs for arm in match_run(run, name, hashes, stated or {}, table)]
    )


def _shown_name(file: ResultFile) -> str:
    """Return a file's name without its folder as valid text."""
    return os.fsencode(Path(file.name).name).decode("utf-8", "replace")


def _number_repeats(arms: Sequence[ImportedArm]) -> list[ImportedArm]:
    """Number arms of one name in one part, in file order: they are runs of one system."""
    places = [(own.part, own.arm.name.casefold()) for own in arms]
    named = []
    for number, own in enumerate(arms):
        if places.count(places[number]) > 1:
            nth = places[: number + 1].count(places[number])
            numbered = Arm(memory="imported", target=f"{own.arm.target}-run{nth}")
            fields = {**dict(own.manifest), "arm": numbered.name, "settings": {"arm": numbered.model_dump()}}
            own = replace(own, arm=numbered, manifest=Manifest.model_validate(fields))
        named.append(own)
    if len({(own.part, own.arm.name.casefold()) for own in named}) < len(named):
        raise UserError(f"{named[0].part}: two of these runs have one name; import each with its own --name.")
    return named


def write_runs(arms: Sequence[ImportedArm], run: Path) -> list[Path]:
    """Write the arms into the run folder `run`; raise `UserError` where a folder holds other results."""
    folders = [inside(run, own.part, own.arm.name) for own in arms]
    for folder, own in zip(folders, arms, strict=True):
        if (folder / MANIFEST).exists() and _origin(folder) != (own.imported.files, own.imported.format):
            raise UserError(f"{folder}: it holds other results already; give the import another --name.")
    for folder, own in zip(folders, arms, strict=True):
        (folder / MANIFEST).unlink(missing_ok=True)  # a killed import leaves no manifest
        for name, records in ((ANSWERS, own.answers), (JUDGEMENTS, own.judgements)):
            lines = (to_json(row.model_dump(mode="json")) + "\n" for row in records)
            write_text(folder / f"{name}.jsonl", "".join(lines))
        write_text(folder / DETAILS, details_text(own.details))
        write_manifest(folder / MANIFEST, own.manifest)
    return folders


def _origin(folder: Path) -> tuple[Mapping[str, str], str] | None:
    try:
        imported = read_manifest(folder).imported
    except UserError:
        return None
    return (imported.files, imported.format) if imported else None


def protocol_rows(own: ImportedArm) -> list[dict[str, Any]]:
    """Score a run by every protocol: the average over abilities and the mean over questions, None if not computable.

    `lacking` names the abilities that are not computable, or "all"; `unscored` counts failed questions.
    """
    rows: list[dict[str, Any]] = []
    for protocol in PROTOCOLS | REPORTED:
        scores = score_run(own.judgements, protocol)
        abilities: dict[str, Any] = {str(row["ability"]): row for row in summarise(scores).to_dict("records")}
        average = abilities.pop(AVERAGE)
        lacking = [name for name, row in abilities.items() if row["not_computable"]]
        means = (average["mean"], math.nan if lacking else scores["score"].mean())
        values = [None if math.isnan(mean) else float(mean) for mean in means]
        rows.append(
            {
                "protocol": protocol,
                "average": values[0],
                "over_questions": values[1],
                "lacking": ["all"] if len(lacking) == len(abilities) else lacking,
                "unscored": int(average["unscored"]),
            }
        )
    return rows


def import_record(own: ImportedArm) -> dict[str, Any]:
    """Return everything that `import_summary` shows as JSON values."""
    return {
        "part": own.part,
        "arm": own.arm.name,
        "size": own.manifest.size,
        "questions": len(own.judgements),
        "conversations": len(own.manifest.conversations),
        "imported": own.imported.model_dump(mode="json"),
        "protocols": protocol_rows(own),
    }


def import_summary(own: ImportedArm) -> str:
    """Describe one imported run: what matched, and what each protocol can compute of it."""
    imported, manifest = own.imported, own.manifest
    kinds = ", ".join(f"{kind} of {number}" for kind, number in sorted(imported.kinds.items()))
    head = f"{own.part}/{own.arm.name}: {count(len(own.judgements), 'question')} of "
    head += f"{count(len(manifest.conversations), 'conversation')} at {manifest.size}; verdicts: {kinds}"
    judge = "none" if own.unjudged else manifest.judge
    lines = [*imported.lines(), f"reader: {manifest.reader}; judge: {judge}"]
    roles = ("reader",) if own.unjudged else ("reader", "judge")
    unknown = [role for role in roles if not getattr(imported, role)]
    if unknown:  # a guess would put numbers of two judges into one average
        options = " and ".join(f"--{role}" for role in unknown)
        lines.append(
            f"the file does not say the {' and '.join(unknown)}: not pooled with other runs; state it with {options}"
        )
    lines += [f"{name}: SHA-256 {digest}" for name, digest in imported.files.items()]
    lines += [f"these are the shipped verdicts of {imported.shipped}"] if imported.shipped else []
    for what, names, number in (
        ("not a released question", imported.unmatched, imported.unmatched_count),
        ("there twice, the first with a verdict taken", imported.twice, len(imported.twice)),
        ("missing from these conversations", imported.missing, len(imported.missing)),
        ("with another number of nuggets than the rubric", imported.other_rubric, len(imported.other_rubric)),
    ):
        shown = ", ".join(repr(name) if " " in name else name for name in names[:_MOST_SHOWN])
        more = f" and {number - _MOST_SHOWN} more" if number > _MOST_SHOWN else ""
        lines += [f"{number} {what}: {shown}{more}"] if number else []
    if own.unjudged:
        lines.append(f"{count(len(own.answers), 'answer')}, no verdict; judge them with beamlib judge")
    else:
        lines += [_protocol_line(row) for row in protocol_rows(own)]
    return "\n  ".join([head, *lines])


def _protocol_line(row: Mapping[str, Any]) -> str:
    means = {"abilities": row["average"], "questions": row["over_questions"]}
    value = ", ".join(f"{mean:.4f} over {what}" for what, mean in means.items() if mean is not None) or "no score"
    if row["lacking"]:
        value = f"{NOT_COMPUTABLE}: {', '.join(row['lacking'])}"
    return f"{row['protocol']}: {value}" + (f"; {row['unscored']} unscored" if row["unscored"] else "")


def imported_runs(run: Path) -> Iterator[RunVerdicts]:
    """Yield each imported arm of a run folder with its judgements, re-judged arms included, shipped runs left out."""
    for path in sorted(run.glob(f"*/*/{MANIFEST}")):
        manifest = read_manifest(path.parent)
        imported = manifest.imported
        if imported is None or imported.shipped:
            continue
        judged = stored_judgements(path.parent)
        facts: dict[str, Any] = {name: getattr(imported, name) for name in Provenance.model_fields}
        # Runs of one system repeat it; with another context it is another system.
        facts["system"] = ", ".join(filter(None, (imported.system or manifest.arm, imported.context)))
        facts |= {"reader": manifest.reader, "judged_again": manifest.judge != imported.judged_by}
        facts |= {"source": _plain(imported.format), "run": _plain(manifest.arm), "number": imported.number or 0}
        kind = Counter(map(_kind, judged)).most_common(1)[0][0]
        yield PublishedRun(**facts, tier=manifest.size, kind=kind, n=len(judged)), judged


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]+", "-", name.casefold()).strip("-") or "x"


def _kind(judgement: Judgement) -> VerdictKind:
    """Return the finest kind of verdict that an answer has."""
    reported = judgement.reported
    present = (judgement.verdicts, reported and reported.full is not None, reported and reported.votes, True)
    return next(kind for kind, known in zip(get_args(VerdictKind), present, strict=True) if known)
