"""Publish a run as one archive, and verify somebody else's by replaying it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from beam_memories.transformer import HUB_NAME, HUB_OFFLINE
from beam_run.archive import ArchiveSummary, export_calls, import_calls, verify_archive
from beam_run.verified_calls import Verification, refuse_missing, verify_calls, watch
from beamlib.data.conversations import REVISION
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError, on_one_line
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.beam_records import (
    FOLDER,
    FROM_ARCHIVE,
    RECORDS,
    Manifest,
    data_revision,
    ensure_finished,
    read_answers,
    read_judgements,
    read_manifest,
    recorded_parameters,
)
from beamlib.evaluate.kept_settings import ELSEWHERE, NOBODY_ELSES, kept_values
from beamlib.evaluate.records import ConversationRecord
from beamlib.evaluate.run import evaluate
from beamlib.files import make_folder, read_json, sha256_of_file, sync, temporary_folder, to_json, write_text
from beamlib.llm.call_store import CallStore, StoredCall
from beamlib.llm.endpoints import MODELS, key_variables, load_models
from beamlib.llm.exchange import unverified
from beamlib.llm.keys import refuse_keys
from beamlib.llm.model import OFFLINE_NAME
from beamlib.memory.declared import named_memories
from beamlib.params import parse_parameters
from beamlib.run import PARAMETERS, Run


def publish(run: Path, archive: Path, data: Path | None = None) -> str:
    """Write the calls and records of the run folder `run` to `archive`; return a line to print.

    The offline stand-in's replies are not stored: `verify` computes them again.

    Args:
        data: The run's conversations. With them the archive is replayed before it takes its name.

    Raises:
        UserError: The archive could not be verified: with `data` for any reason, without because an answer or a verdict
            has no stored call. Nothing is written then.
    """
    used = key_variables(*(path for path in run.rglob(MODELS) if not _from_archive(run, path.parent)))
    searched = refuse_keys(run.rglob("*"), used)
    extra: dict[str, Path] = {}
    offline = False
    for settings in sorted(run.glob(f"*/{PARAMETERS}")):
        part = settings.parent
        files = [settings, *sorted(part.glob(MODELS)), *sorted(part.glob("prompts/*.md"))]
        arms = [path.parent for path in sorted(part.glob("*/manifest.json"))]
        for arm in arms:
            manifest = read_manifest(arm)
            ensure_finished(manifest, str(arm))
            offline |= manifest.reader == OFFLINE_NAME
        files += [arm / name for arm in arms for name in RECORDS]
        extra |= {path.relative_to(run).as_posix(): path for path in files}
    if not extra and not (run / "calls").is_dir():
        if any(read_manifest(path.parent).imported for path in run.glob("*/*/manifest.json")):
            raise UserError(
                f"{run}: its results were imported and no model was called here, so there are no calls to export; "
                "`beamlib export` writes answers and verdicts as a file."
            )
        raise UserError(
            f"{run}: it holds no stored calls, and no {PARAMETERS} in a part of it; name a folder that run_all.sh has "
            "finished."
        )
    if data is None:
        notes = [_checked_records(run, sorted(run.glob(f"*/{PARAMETERS}")))]
    else:
        notes = ["replayed on the data before it was written"]
    notes += [f"no file holds the key in {', '.join(searched)}"] if searched else []
    if unsearched := sorted(used - set(searched)):
        notes.append(
            f"not searched for the key in {', '.join(unsearched)}, which is not set here or holds a placeholder"
        )
    notes += [f"holds answers of the {OFFLINE_NAME}"] if offline else []
    make_folder(archive.parent)
    with temporary_folder(".export-", archive.parent) as folder:
        made = folder / archive.name
        summary = export_calls(run / "calls", made, extra)
        if data is not None:
            try:
                verify(made, data)
            except UserError as error:
                message = str(error).replace(str(made), str(run))
                raise UserError(f"{message.rstrip('.')}; nothing was written.") from None
        made.replace(archive)
        sync(archive.parent)
    return "; ".join([f"wrote {archive}: {described(summary)}", *notes])


def _checked_records(run: Path, parts: Sequence[Path]) -> str:
    """Compare answers and verdicts with the stored replies; return a note on what was not compared.

    Raises:
        UserError: A record of a model has no stored call with its text.
    """
    checked, missing = 0, list[str]()
    for arm in (path.parent for part in parts for path in sorted(part.parent.glob("*/manifest.json"))):
        manifest = read_manifest(arm)
        if manifest.imported is not None or manifest.claimed:
            continue
        answers = {answer.probe_id: answer.text for answer in read_answers(arm)}
        for conversation in manifest.conversations:
            replies = _replies_by_probe(run / "calls" / manifest.size.lower() / f"{conversation}.sqlite")
            for role, probe, name, text in _modelled(arm, manifest, conversation):
                checked += 1
                # Equal requests are one call, stored for the question that came first: its answer is the same.
                probes = (other for other, answer in answers.items() if other == probe or answer == answers.get(probe))
                if not any(text in reply for other in probes for reply in replies.get((role, other), ())):
                    missing.append(f"{arm.name}, {name}")
    if missing:
        more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
        raise UserError(
            f"{run / 'calls'}: {len(missing):,} of {checked:,} answers and verdicts have no stored call, so nobody "
            f"could replay them: {'; '.join(missing[:5])}{more}. Restore the call stores, or record the run again."
        )
    if not checked:
        return "no answer or verdict is a model's"
    return f"stored calls compared with {checked:,} answers and verdicts only; --data FOLDER replays everything"


def _replies_by_probe(store: Path) -> dict[tuple[str, str], list[str]]:
    """Return the texts of a store's calls by role and by the question that they concern."""
    replies: dict[tuple[str, str], list[str]] = {}
    with CallStore(store, read_only=True) as calls:
        for call in calls.calls():
            if call.text:
                probe = call.about.partition(" nugget ")[0]
                replies.setdefault((call.role.partition(":")[0], probe), []).append(call.text)
    return replies


def _modelled(arm: Path, manifest: Manifest, conversation: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield role, question, name and text of a conversation's records that are a model's replies."""
    if manifest.reader != OFFLINE_NAME:
        for answer in read_answers(arm):
            if answer.conversation_id == conversation and answer.text is not None:
                yield "reader", answer.probe_id, f"the answer to {answer.probe_id}", answer.text
    if manifest.judge != OFFLINE_NAME:
        for judgement in read_judgements(arm):
            if judgement.conversation_id == conversation:
                for number, verdict in enumerate(judgement.verdicts, start=1):
                    if verdict.reply and verdict.score is not None:
                        probe = judgement.probe_id
                        yield "judge", probe, f"nugget {number} of {probe}", verdict.reply


def verify(archive: Path, data: Path | None) -> str:
    """Check every hash of `archive`; with `data`, replay it and compare all answers and judgements.

    Everything is unpacked into a temporary folder, every path through `beamlib.files.inside`.

    Returns:
        Lines to print.

    Raises:
        UserError: The archive is damaged, or a record differs from its replay; the message names the first.
    """
    if data is None:
        summary = verify_archive(archive)
        return f"{archive}: every hash agrees; {described(summary)}; all of it as its publisher says: --data replays it"
    with temporary_folder("beamlib-replay-") as folder:
        published, replay = folder / "published", folder / "replay"
        summary = import_calls(archive, published)
        make_folder(replay)
        if (published / "calls").exists():
            (published / "calls").rename(replay / "calls")
        stores = sorted((replay / "calls").rglob("*.sqlite"))
        watch(stores)
        try:
            with _nothing_fetched():
                parts = [part.parent for part in sorted(published.glob(f"*/{PARAMETERS}"))]
                lines = [line for part in parts for line in _replayed(part, replay, data.absolute(), stores)]
            if lines:
                lines.append(_claims_of_calls(verify_calls(stores)))
        except UserError as error:  # its user has no such folder, but has the archive, and is not to pay for it
            message, record, _ = str(error).partition("; to record it, run: ")
            message = message.replace(f"{published}/", f"{archive}: ").replace(f"{replay}/", f"{archive}: ")
            raise UserError(
                f"{message}, so the answers do not follow from the archive." if record else message
            ) from None
    if not lines:
        raise UserError(
            f"{archive}: it holds calls but no run to replay; export a folder that run_all.sh has finished."
        )
    return "\n".join([f"{archive}: every hash agrees; {described(summary)}", *map(on_one_line, lines)])


def _from_archive(run: Path, part: Path) -> bool:
    """Tell whether all of a part came from an archive: its models file may name any variable."""
    listed = read_json(run / FROM_ARCHIVE) if (run / FROM_ARCHIVE).exists() else {}
    manifests = [path.relative_to(run).as_posix() for path in part.glob("*/manifest.json")]
    return bool(manifests) and all(name in listed for name in manifests)


def _keyless(models: Path) -> Path:
    """Take the names of keys' variables out of an unpacked models file: a replay has no use for a key."""
    values = load_models(models).model_dump(mode="json", exclude_unset=True)
    readers = list(values["readers"].values())
    overrides = [own for reader in readers for own in reader.get("methods", {}).values()]
    roles = [values[role] for role in values if role not in ("readers", "authors") and values[role]]
    for endpoint in (*readers, *overrides, *roles, *values.get("authors", {}).values()):
        endpoint.pop("key_variable", None)
    write_text(models, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
    return models


@contextmanager
def _nothing_fetched() -> Iterator[None]:
    """Keep encoders from being downloaded, in worker processes too."""
    before = os.environ.get(HUB_OFFLINE)
    os.environ[HUB_OFFLINE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[HUB_OFFLINE]
        else:
            os.environ[HUB_OFFLINE] = before


def described(summary: ArchiveSummary) -> str:
    """Describe an archive in a phrase."""
    calls = (
        f"{summary.calls:,} calls ({summary.failures:,} without a usable reply) to {', '.join(summary.models)}, "
        f"{summary.input_tokens:,} input and {summary.output_tokens:,} output tokens"
    )
    return f"{calls if summary.calls else 'no calls'}; sha256 {summary.sha256}"


def _replayed(part: Path, replay: Path, data: Path, stores: Sequence[Path]) -> Iterator[str]:
    """Replay one tier of one backbone, unpacked at `part`, into the run folder `replay`."""
    published = {path.parent: read_manifest(path.parent) for path in sorted(part.glob("*/manifest.json"))}
    for folder, manifest in published.items():
        ensure_finished(manifest, str(folder))
        if manifest.arm != folder.name:
            raise UserError(f"{folder}/manifest.json: field 'arm' is {manifest.arm!r}, not the folder's name.")
    replayable = {folder: manifest for folder, manifest in published.items() if not _why_not_replayed(manifest)}
    if not replayable:
        raise UserError(f"{part}/: it holds no method that can be replayed.")
    # An arm that the last run did not include has an earlier run's parameters.
    groups: dict[str, dict[Path, Manifest]] = {}
    for folder, manifest in replayable.items():
        key = to_json([recorded_parameters(manifest), sorted(manifest.conversations), manifest.left_out])
        groups.setdefault(key, {})[folder] = manifest
    judged, changed = 0, set[str]()
    for group in groups.values():
        first = next(iter(group.values()))
        run = _run(part, replay, data, first)
        _same_conversations(run, first, f"{part}/{first.arm}")
        try:
            replayed_run = evaluate(run, [Arm.model_validate(manifest.settings["arm"]) for manifest in group.values()])
        finally:  # what went wrong may have done so for want of calls
            calls = verify_calls(stores)
            refuse_missing(calls, f"{part}")
        if calls.contradicted and len(replayable) == len(published):  # else one of another method may have come first
            raise UserError(f"{replay}/calls: {calls.contradicted[0]}.")
        for folder, manifest in group.items():
            again = replayed_run.manifests[manifest.arm]
            changed |= _changed_prompts(manifest, again, folder, calls.steps)
            _compare(manifest, again, folder, run.path(manifest.arm))
        judged += sum(len(judgements) for judgements in replayed_run.judgements.values())
    readers = " | ".join(dict.fromkeys(manifest.reader for manifest in replayable.values()))
    line = f"{part.name}: {len(replayable)} methods replayed, {judged:,} answers and judgements, all as published"
    line = f"{line}; {readers}"
    others = Counter(reason for manifest in published.values() if (reason := _why_not_replayed(manifest)))
    line = "; ".join([line, *(f"{count} not replayed: {reason}" for reason, count in others.items())])
    claims = [f"hashes of the prompts {', '.join(sorted(changed))}, other than this version's"] if changed else []
    claims += [*_claims(published, replayable, calls.used), *_claims_of_models(part, calls.used)]
    claims.append(f"{PARAMETERS}: its {', '.join(_unverified_parameters(part, replayable.values()))}")
    yield line
    yield f"{part.name}: claimed, not checked: {'; '.join(claims)}"


def _unverified_parameters(part: Path, replayed: Collection[Manifest]) -> list[str]:
    """List the parameters of a part that no replayed method was computed with."""
    verified = [recorded_parameters(manifest) for manifest in replayed]
    kept = kept_values(part / PARAMETERS) or {}
    return sorted(
        name
        for name, value in kept.items()
        if not any(name in recorded and to_json(recorded[name]) == to_json(value) for recorded in verified)
    )


def _changed_prompts(published: Manifest, again: Manifest, folder: Path, steps: Collection[str]) -> set[str]:
    """Return the prompts that have calls and another hash here; in one version of beamlib that is a `UserError`."""
    changed = {name for name in steps if published.prompts.get(name) != again.prompts.get(name)}
    if changed and published.package_version == again.package_version:
        name = min(changed)
        raise UserError(
            f"{folder}/manifest.json: field 'prompts' says of {name} {published.prompts.get(name)!r}, and the prompt "
            f"that its calls are of has the hash {again.prompts.get(name)!r}."
        )
    return changed


def _claims_of_calls(calls: Verification) -> str:
    """Say what the stored calls say of themselves and no replay has shown, walking the record's fields."""
    fields = ", ".join(unverified(StoredCall))
    claims = [f"of each call its {fields}"]
    for model, characters in sorted(calls.characters.items()):
        tokens = calls.input_tokens[model]
        rate = f"{characters / tokens:,.1f} characters a token" if tokens else "no token counts"
        claims.append(f"{tokens:,} input tokens of {model}, for {characters:,} characters computed here ({rate})")
    claims += [
        f"{count:,} calls of {model} that nothing replayed asked for" for model, count in sorted(calls.surplus.items())
    ]
    claims += [f"what {len(calls.contradicted):,} calls are about"] if calls.contradicted else []
    claims += [
        f"{count:,} requests to {model} that were sent otherwise than the run states: a refused field was left out"
        for model, count in sorted(calls.altered.items())
    ]
    return f"calls: claimed, not checked: {'; '.join(claims)}"


def _claims_of_models(part: Path, used: Collection[tuple[str, str, str]]) -> Iterator[str]:
    """Yield what a part's models file says and no call rests on, by walking its fields."""
    if not (part / MODELS).exists():
        return
    models = load_models(part / MODELS)
    for role, endpoint in models.by_stored_role():
        if (role, endpoint.model, endpoint.base_url) not in used:
            yield f"{MODELS}: everything about {role} {endpoint.model}, which no call rests on"
            continue
        prices = (endpoint.input_price, endpoint.cached_input_price, endpoint.output_price)
        stated = "/".join("unknown" if price is None else f"${price:g}" for price in prices)
        others = [name for name in unverified(type(endpoint)) if name not in _PRICES]
        whose = f"{role} {endpoint.model}"
        yield f"{MODELS}: prices {stated} (input, cached, output) of {whose}, and its {', '.join(others)}"


_PRICES = ("input_price", "cached_input_price", "output_price")
_PARTLY_VERIFIED = {
    "settings": "settings that change no call and no answer",
    "prompts": "prompts that no call is of",
}
_SHOWN = 48
"""The longest value of a manifest's field that is repeated in the list of claims."""


def _claims(
    published: Mapping[Path, Manifest], replayed: Mapping[Path, Manifest], used: Collection[tuple[str, str, str]]
) -> Iterator[str]:
    """Yield what a part's manifests say and no replay has shown."""
    for name in unverified(type(next(iter(published.values())))):
        values = dict.fromkeys(str(getattr(manifest, name)) for manifest in published.values())
        shown = " | ".join(values) if max(map(len, values)) <= _SHOWN else "of each method"
        yield _PARTLY_VERIFIED.get(name, f"the {name} {shown}")
    stated = {(role, facts["model"]) for one in replayed.values() for role, facts in one.models.items()}
    for role, model in sorted(stated - {(role, model) for role, model, _ in used}):
        if model != OFFLINE_NAME:
            yield f"{model} as {role}, of which there is no call"
    yield from (f"everything about {folder.name}" for folder in published if folder not in replayed)


def _why_not_replayed(published: Manifest) -> str:
    """Say why this version cannot replay an arm; empty if it can."""
    arm = published.settings["arm"]
    if arm["target"] not in (None, *named_memories()):
        return "the user's own memory, whose code is in no archive"
    return ""


def _run(part: Path, replay: Path, data: Path, published: Manifest) -> Run:
    """Return the run that replays an arm: the published parameters except paths, in replay mode."""
    origin = f"{part}/{PARAMETERS}"
    recorded = kept_values(part / PARAMETERS)
    if recorded is None:
        raise UserError(f"{origin}: a JSON object is expected; export the run again.")
    values = {
        **recorded,
        **ELSEWHERE,
        **NOBODY_ELSES,
        **recorded_parameters(published),
        "data": str(data),
        "run": str(replay),
        "models": str(_keyless(part / MODELS)) if recorded.get("models") else "",
        "prompts": str(part / "prompts") if recorded.get("prompts") else "",
        "calls": "replay",
        "conversations": len(published.conversations),
        "skip_broken": bool(published.left_out),
        "workers": os.cpu_count() or 1,
    }
    parameters = parse_parameters(values, origin)
    for name in ("encoder", "splade"):
        if not HUB_NAME.fullmatch(parameters[name]):
            raise UserError(
                f"{origin}: parameter '{name}' is {parameters[name]!r}, a folder of some machine; only a run "
                "that names its models as the hub does can be replayed."
            )
    run = Run.of(parameters)
    if run.part != part.name:
        raise UserError(f"{origin}: its parameters are those of {run.part}, not of {part.name}.")
    return run


def _same_conversations(parameters: Run, published: Manifest, where: str) -> None:
    expected = published.conversations.keys() | published.left_out.keys()
    sources = find_conversations(Path(parameters.data), [parameters.size])[: len(expected)]
    if {source.id for source in sources} != expected:
        raise UserError(
            f"{where}: it rests on {', '.join(sorted(expected))}, where {parameters.data} begins with "
            f"{', '.join(source.id for source in sources)}; name a folder that begins with the same conversations."
        )


def _compare(published: Manifest, again: Manifest, folder: Path, replayed: Path) -> None:
    """Raise `UserError` at the first claim of `folder` that its replay in `replayed` does not reproduce."""
    for kind, first, second in (
        ("answers", published.answers_sha256, again.answers_sha256),
        ("judgements", published.judgements_sha256, again.judgements_sha256),
    ):
        for conversation, value in first.items():
            if second.get(conversation) != value:
                raise UserError(f"{folder}: the {kind} of {conversation} came out otherwise than published.")
        records = folder / f"{kind}.jsonl"
        if not records.exists() or sha256_of_file(records) != sha256_of_file(replayed / records.name):
            raise UserError(f"{records}: it is missing, or not what its manifest vouches for.")
    if differing := differing_claim(published, again):
        raise UserError(f"{folder}/manifest.json: {differing}.")


def differing_claim(published: Manifest, again: Manifest) -> str:
    """The first field of a published manifest that its replay contradicts, with both values; empty if none does.

    Compared is every field that is marked as computed; `calls verify` lists the others.
    """

    def identity(record: ConversationRecord) -> tuple[object, ...]:
        # A released conversation may come from a folder or from parquet files.
        released = record.origin in (FOLDER, REVISION) and set(record.files.values()) == {"released"}
        return record.variant, record.sha256, record.questions_sha256, released or (record.origin, record.files)

    for name in Manifest.model_fields.keys() - {*unverified(Manifest), "conversations", "data_revision", "claimed"}:
        stated, replayed = getattr(published, name), getattr(again, name)
        if stated != replayed:
            return f"field '{name}' is {stated!r:.200}, and its replay gives {replayed!r:.200}"
    for key, record in published.conversations.items():
        here = again.conversations[key]
        if identity(record) != identity(here):
            return f"field 'conversations' says of {key} {record!r:.300}, and here it is {here!r:.300}"
    if published.data_revision != data_revision(published.conversations):
        return f"field 'data_revision' is {published.data_revision!r:.200}, which its conversations do not say"
    return ""
