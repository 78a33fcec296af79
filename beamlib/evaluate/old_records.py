"""Records of earlier versions, converted where they are opened. This module can be deleted one day.

MEME had `<run>/meme/<variant>/<memory>/` with a file `episode_<id>.json` per episode and a `run.json` of another form.
MemoryCode had its answers in the authors' layout alone, which `beamlib memorycode score --outputs` still reads. BEAM's
records are as they were.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beamlib.errors import UserError
from beamlib.evaluate.records import Answer
from beamlib.files import read_json, sha256, to_json, write_json, write_jsonl

_MANIFEST = "run.json"


def convert_old_records(folder: Path) -> None:
    """Convert the records of MEME in an arm's folder, where they are of an earlier version; the old files stay."""
    path = folder / _MANIFEST
    old = read_json(path) if path.is_file() else None
    if not isinstance(old, dict) or old.get("suite") != "meme":
        return
    files = {name: folder / f"episode_{name}.json" for name in sorted(old["episodes"])}
    episodes = {name: read_json(file) for name, file in files.items()}
    for name, episode in episodes.items():
        if sha256(to_json(episode)) != old["episodes"][name]["results_sha256"]:
            raise UserError(f"{files[name]}: not what {_MANIFEST} vouches for; run again, which computes it anew.")
    parts: dict[str, list[dict[str, Any]]] = {"answers": [], "contexts": []}
    sums: dict[str, dict[str, str]] = {"answers": {}, "contexts": {}}
    for name, episode in episodes.items():
        answers = [Answer.model_validate(one["answer"]).model_dump(mode="json") for one in episode["answers"]]
        contexts = {
            "conversation_id": name,
            "contexts": {one["answer"]["probe_id"]: one["context"] for one in episode["answers"]},
            "schema_version": 1,
            **{key: episode[key] for key in ("snapshots", "spent", "texts")},
        }
        for part, rows in (("answers", answers), ("contexts", [contexts])):
            parts[part] += rows
            text = "".join(to_json(row) + "\n" for row in rows)
            sums[part][name] = sha256(text.encode("utf-8", "surrogatepass"))
    for part, rows in parts.items():
        write_jsonl(folder / f"{part}.jsonl", rows)
    records = {
        name: {"variant": old["variant"], "sha256": one["sha256"], "questions_sha256": one["sha256"]}
        for name, one in episodes.items()
    }
    hashes = {name: one["sha256"] for name, one in records.items()}
    same = ("arm", "settings", "reader", "models", "prompts", "package_version", "commit")
    value = {
        **{name: old[name] for name in same},
        "settings": {**old["settings"], "variant": old["variant"]},
        "schema_version": 1,
        "task": "meme",
        "judge": "",
        "conversations": {name: {**one, "origin": "", "files": {}} for name, one in records.items()},
        "data_sha256": sha256(to_json(hashes)),
        "question_set_sha256": sha256(to_json(hashes)),
        "answers_key": old["key"],
        "judgements_key": "",
        "answers_sha256": sums["answers"],
        "judgements_sha256": {},
        "extra_sha256": {"contexts": sums["contexts"]},
        "left_out": {},
        "notes": list(old["settings"].get("notes", ())),
    }
    write_json(path, {**value, "sha256": sha256(to_json(value))})
