"""Publishing a run as one archive, and checking someone else's by replaying it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beamlib.benchmark.sources import find_conversations
from beamlib.errors import UserError
from beamlib.files import read_json, temporary_folder, to_json, write_json, write_text
from beamlib.models.archive import ArchiveSummary, export_calls, import_calls, verify_archive
from beamlib.models.endpoints import MODELS, key_variables, load_models
from beamlib.models.keys import refuse_keys
from beamlib.models.prompts import prompt_ids
from beamlib.params import RunParameters, parse_parameters
from beamlib.runs import manifest as manifests
from beamlib.runs.arms import Arm
from beamlib.runs.calling import part_of
from beamlib.runs.evaluate import evaluate
from beamlib.runs.manifest import Manifest

PARAMETERS = "parameters.json"
RECORDS = ("answers.jsonl", "judgements.jsonl", "manifest.json")
_ELSEWHERE = {"memorycode": ""}  # of another benchmark: no answer that is published here rests on it


def keep_settings(parameters: RunParameters) -> None:
    """Write what a replay needs beside the arms of a tier: parameters, models file and overridden prompts.

    Paths become names inside that folder, the data folder is left out: on another machine it lies elsewhere.
    """
    folder = Path(parameters.run) / part_of(parameters)
    own = Path(parameters.prompts) if parameters.prompts else None
    for earlier in sorted((folder / "prompts").glob("*.md")):  # a replay must not take those of an earlier run
        earlier.unlink()
    for name in prompt_ids() if own else []:
        if own and (own / f"{name}.md").exists():
            write_text(folder / "prompts" / f"{name}.md", (own / f"{name}.md").read_text(encoding="utf-8"))
    load_models(Path(parameters.models)).keep(folder)
    inside: dict[str, Any] = {"data": "", "run": "", "models": "models.yaml", "own_memory": "", "authors": ""}
    inside |= {"prompts": "prompts" if own else "", "confirm_cost": False}  # a yes is nobody else's
    kept = parameters.model_copy(update=inside).model_dump(mode="json", exclude=set(_ELSEWHERE))
    write_json(folder / PARAMETERS, kept)


def publish(run: Path, archive: Path) -> str:
    """Write the calls of the run folder `run`, and what was made of them, to `archive`; returns a line to print."""
    if not (run / "calls").is_dir():
        raise UserError(f"{run}: it holds no stored calls; name the folder of a run that called models.")
    used = key_variables(*run.rglob(MODELS))
    searched = refuse_keys(run.rglob("*"), used)
    extra: dict[str, Path] = {}
    for settings in sorted(run.glob(f"*/{PARAMETERS}")):
        part = settings.parent
        files = [settings, part / "models.yaml", *sorted(part.glob("prompts/*.md"))]
        arms = [path.parent for path in sorted(part.glob("*/manifest.json"))]
        files += [arm / name for arm in arms for name in RECORDS if (arm / name).exists()]
        extra |= {path.relative_to(run).as_posix(): path for path in files}
    keys = [f"no file holds the key in {', '.join(searched)}"] if searched else []
    if left := sorted(used - set(searched)):
        keys.append(f"not searched for the key in {', '.join(left)}, which is not set here or holds a placeholder")
    return "; ".join([f"wrote {archive}: {_described(export_calls(run / 'calls', archive, extra))}", *keys])


def verify(archive: Path, data: Path | None) -> str:
    """Check every hash of `archive`; with `data`, replay it and compare all answers and judgements.

    Returns what to print; a difference is a `UserError` that names the first record set that came out otherwise.
    """
    summary = verify_archive(archive)
    if data is None:
        return f"{archive}: every hash agrees; {_described(summary)}"
    with temporary_folder("beamlib-replay-") as folder:
        run = folder / "published"
        import_calls(archive, run)
        lines = [_replayed(path, data.absolute(), archive) for path in sorted(run.glob(f"*/{PARAMETERS}"))]
    if not lines:
        raise UserError(
            f"{archive}: it holds calls but no run to replay; export a folder that run_all.sh has finished."
        )
    return "\n".join([f"{archive}: every hash agrees; {_described(summary)}", *lines])


def _described(summary: ArchiveSummary) -> str:
    return (
        f"{summary.calls:,} calls ({summary.failures:,} without a usable reply) to {', '.join(summary.models)}, "
        f"{summary.input_tokens:,} input and {summary.output_tokens:,} output tokens; sha256 {summary.sha256}"
    )


def _replayed(settings: Path, data: Path, archive: Path) -> str:
    """Replay one tier of one backbone into a folder of its own, on the published calls."""
    part = settings.parent
    published = [manifests.read(path.parent) for path in sorted(part.glob("*/manifest.json"))]
    # A memory of one's own is not in the archive.
    ours = [one for one in published if one.settings["arm"]["target"] is None]
    changes = {
        "data": str(data),
        "run": str(part.parent / "replay"),
        "models": str(part / "models.yaml"),
        "prompts": str(part / "prompts") if read_json(settings).get("prompts") else "",
        "calls": "replay",
        **_ELSEWHERE,
    }
    (part.parent / "replay").mkdir(exist_ok=True)
    link = part.parent / "replay" / "calls"
    if not link.exists():
        link.symlink_to(part.parent / "calls", target_is_directory=True)
    # A method that the last run did not ask for stands as an earlier one made it, with that one's parameters.
    groups: dict[str, list[Manifest]] = {}
    for one in ours:
        key = to_json([manifests.recorded_parameters(one), sorted(one.conversations), one.left_out])
        groups.setdefault(key, []).append(one)
    judged = 0
    for group in groups.values():
        first = group[0]
        own = {**manifests.recorded_parameters(first), "conversations": len(first.conversations)}
        own["skip_broken"] = bool(first.left_out)
        parameters = parse_parameters({**read_json(settings), **changes, **own}, str(settings))
        _same_conversations(parameters, first, f"{archive}: {part.name}/{first.arm}")
        arms = [Arm.model_validate(one.settings["arm"]) for one in group]
        again = evaluate(parameters, arms)
        for one in group:
            _compare(one, again.manifests[one.arm], f"{archive}: {part.name}/{one.arm}")
        judged += sum(len(judgements) for judgements in again.judgements.values())
    return f"{part.name}: {len(ours)} methods replayed, {judged:,} answers and judgements, all as published"


def _same_conversations(parameters: RunParameters, published: Manifest, where: str) -> None:
    expected = published.conversations.keys() | published.left_out.keys()
    sources = find_conversations(Path(parameters.data), [parameters.size])[: len(expected)]
    if {source.id for source in sources} != expected:
        raise UserError(
            f"{where}: it rests on {', '.join(sorted(expected))}, where {parameters.data} begins with "
            f"{', '.join(source.id for source in sources)}; name a folder that begins with the same conversations."
        )


def _compare(published: Manifest, again: Manifest, where: str) -> None:
    for kind, first, second in (
        ("answers", published.answers_sha256, again.answers_sha256),
        ("judgements", published.judgements_sha256, again.judgements_sha256),
    ):
        for conversation, value in first.items():
            if second.get(conversation) != value:
                raise UserError(f"{where}: the {kind} of {conversation} came out otherwise than published.")
