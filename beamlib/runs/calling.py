"""From parameters to models: the offline stand-in, or endpoints behind one conversation's call store."""

from __future__ import annotations

import re
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from beamlib.files import to_json
from beamlib.models.careful import Careful
from beamlib.models.client import EndpointModel
from beamlib.models.endpoints import Endpoint, ModelsFile, load_models
from beamlib.models.offline import OFFLINE_NAME, OfflineModel
from beamlib.models.prompts import check_overrides
from beamlib.models.roster import Roster
from beamlib.models.store import CallStore, StoredModel, now
from beamlib.params import OF_GENERATION, RunParameters, load_parameters
from beamlib.text import use_counter

_REPLY_IN_RESERVE = 1_024
_LEAST_WINDOW = 4_000  # less than a memory can be packed into; a smaller reader refuses, and the estimate warns of it
_OFFLINE_WINDOW = 131_072  # tokens the stand-in reads of a whole conversation: as many as Qwen2.5-32B (section 4.1)
STARTED = now()
"""When this program began: `refresh` renews what is older, over all backbones and worker processes of a run."""

ROLES = ("reader", "memory", "compressor", "judge", "aligner")

_PARAMS = Path(__file__).resolve().parents[2] / "params"
_NO_CALL_RESTS_ON = frozenset({"protocol", "seed", "workers", "memorycode", *OF_GENERATION})
_HAVE_OPTIONS = frozenset(
    {"size", "data", "run", "conversations", "own_memory", "models", "backbone", "calls", "confirm_cost", "prompts"}
)


def models_file(parameters: RunParameters) -> ModelsFile | None:
    """The models file of a run, None for the offline stand-in."""
    return load_models(Path(parameters.models)) if parameters.models else None


def endpoints(parameters: RunParameters) -> dict[str, Endpoint]:
    """The endpoint of each of `ROLES`; empty for the offline stand-in."""
    found = models_file(parameters)
    if found is None:
        return {}
    others = {"memory": found.memory, "compressor": found.compressor, "judge": found.judge, "aligner": found.aligner}
    return {"reader": found.reader(parameters.backbone), **others}


def resolved(parameters: RunParameters) -> RunParameters:
    """The parameters with what they leave open filled in: the first backbone, the counter of `auto`, and windows that
    the reader has.

    The counter is made the process's own, and the folder of prompts is checked.
    """
    found = models_file(parameters)
    changes: dict[str, Any] = {"full_context_window": parameters.full_context_window or _OFFLINE_WINDOW}
    if found is not None:
        changes["backbone"] = parameters.backbone or next(iter(found.readers))
        reader = found.reader(changes["backbone"])
        # The memories' own reserve has room for a reply of this length and no longer one.
        window = reader.context_window - max(0, (reader.max_output_tokens or 0) - _REPLY_IN_RESERVE)
        for name in ("reader_window", "full_context_window"):
            wanted = getattr(parameters, name) or window
            changes[name] = min(wanted, max(window, _LEAST_WINDOW))
    counter = parameters.token_counter
    if counter == "auto" and found is None:
        counter = "regex-words"  # the stand-in's numbers must not depend on what else is installed
    if parameters.prompts:
        check_overrides(Path(parameters.prompts))
    return parameters.model_copy(update={**changes, "token_counter": use_counter(counter)})


def identities(parameters: RunParameters) -> dict[str, dict[str, Any]]:
    """What a reply of each role depends on, for manifests; without keys, prices and the like."""
    offline = {role: {"model": OFFLINE_NAME} for role in ROLES}
    return {role: endpoint.settings for role, endpoint in endpoints(parameters).items()} or offline


def part_of(parameters: RunParameters) -> str:
    """The part of a run folder that holds a tier: `100k`, or `100k-<backbone>` where models are called."""
    found = models_file(parameters)
    if found is None:
        return parameters.size.lower()
    return f"{parameters.size.lower()}-{parameters.backbone or next(iter(found.readers))}"


def calls_folder(parameters: RunParameters, suite: str = "") -> Path:
    """Where the call stores of a tier lie; backbones share them, as LIGHT's reading does not depend on the reader.

    Those of another benchmark (`beamlib.suites`) lie under its name, `suite`, whatever the tier.
    """
    return Path(parameters.run) / "calls" / (suite or parameters.size.lower())


def recording_command(parameters: RunParameters) -> str:
    """The shell command that calls what this run is missing, and nothing that it does not ask for."""
    words = ["./run_all.sh", "--data", parameters.data, "--sizes", parameters.size.lower()]
    words += ["--name", Path(parameters.run).name, "--models", parameters.models]
    words += ["--backbones", parameters.backbone] if parameters.backbone else []
    words += ["--prompts", parameters.prompts] if parameters.prompts else []
    words += ["--memory", parameters.own_memory] if parameters.own_memory else []
    words += ["--conversations", str(parameters.conversations)] if parameters.conversations else []
    usual = load_parameters(_PARAMS / f"{parameters.size.lower()}.yaml")
    for name in sorted(RunParameters.model_fields.keys() - _HAVE_OPTIONS - _NO_CALL_RESTS_ON):
        value = getattr(parameters, name)
        if value != getattr(usual, name):
            plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./-]*", value)
            words += ["--set", f"{name}={value if plain else to_json(value)}"]
    return shlex.join([*words, "--calls", "record", "--yes"])


@contextmanager
def open_roster(
    parameters: RunParameters,
    conversation: str,
    processes: int = 1,
    since: str = STARTED,
    *,
    suite: str = "",
    command: str = "",
) -> Iterator[Roster]:
    """The models that work on one conversation, its call store open; `processes` share the endpoints' concurrency.

    `suite` is the benchmark that the conversation is of, BEAM where it is empty, and `command` the shell command that
    records its calls.
    """
    roles = endpoints(parameters)
    if not roles:
        yield Roster.of(OfflineModel())
        return
    prompts = Path(parameters.prompts) if parameters.prompts else None
    path = calls_folder(parameters, suite) / f"{conversation}.sqlite"
    command = command or recording_command(parameters)
    with CallStore(path, read_only=parameters.calls == "replay") as store:
        models = {}
        for role, endpoint in roles.items():
            lanes = max(1, endpoint.concurrency // processes)
            stored = StoredModel(
                EndpointModel(role, endpoint, prompts=prompts, lanes=lanes),
                store,
                parameters.calls,
                role=role,
                conversation=conversation,
                command=command,
                confirmed=parameters.confirm_cost,
                since=since,
            )
            models[role] = Careful(stored)
        yield Roster(**models)


def stored_calls(folder: Path) -> int:
    """How many calls the stores of a tier hold at this moment, while others write to them."""
    total = 0
    for path in sorted(folder.glob("*.sqlite")):
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as held:
            total += int(held.execute("SELECT count(*) FROM calls").fetchone()[0])  # for a progress bar: a miss is none
    return total
