"""From parameters to models: the offline stand-in, or endpoints behind one conversation's call store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from beamlib.errors import UserError
from beamlib.files import inside
from beamlib.llm.client import ROUTES, EndpointModel, ForwardingModel
from beamlib.llm.embedding_model import EmbeddingModel
from beamlib.llm.endpoints import EMBEDDING, Embedding, Endpoint, ModelsFile, load_models
from beamlib.llm.model import OFFLINE_NAME, Model, ModelRoles
from beamlib.llm.prompts import check_overrides
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.stored_model import THIS_RUN, CallStore, StoredModel
from beamlib.params import EVOLVING, FIELDS, OF_GENERATION, RunParameters, listed_memories, usual_parameters
from beamlib.places import from_root
from beamlib.plugins import plugins
from beamlib.text import TokenCounter, shell_command, token_counter

_REPLY_IN_RESERVE = 1_024
_LEAST_WINDOW = 4_000  # less than a memory can be packed into; a smaller reader refuses, and the estimate warns of it
_OFFLINE_WINDOW = 131_072  # tokens the stand-in reads of a whole conversation: as many as Qwen2.5-32B (section 4.1)

ROLES = ("reader", "memory", "compressor", "judge", "aligner")
READER_OF = "reader:"
"""Begins the role of a reader that is served otherwise for one method, whose name follows."""

_NO_CALL_RESTS_ON = frozenset({"protocol", "seed", "workers", "memorycode", "meme", *OF_GENERATION})
_HAVE_OPTIONS = frozenset(
    {
        "size", "preset", "data", "run", "conversations", "own_memory", "models", "backbone", "calls", "confirm_cost",
        "prompts",
    }
)  # fmt: skip


def models_file(parameters: RunParameters) -> ModelsFile | None:
    """The models file of a run, None for the offline stand-in."""
    return load_models(Path(parameters.models)) if parameters.models else None


def endpoints(parameters: RunParameters) -> dict[str, Endpoint]:
    """The endpoint of each of `ROLES`, of `reader:<method>` where the backbone is served otherwise for a method, and of
    `EMBEDDING` where the models file has one.

    Empty for the offline stand-in. A role without an output limit has the parameters'.
    """
    found = models_file(parameters)
    if found is None:
        return {}
    backbone = found.reader(parameters.backbone)
    readers = {f"{READER_OF}{method}": backbone.of(method) for method in backbone.methods}
    usual = backbone.of("")
    roles = {
        "reader": usual, **{role: one for role, one in readers.items() if one != usual}, "memory": found.memory,
        "compressor": found.compressor, "judge": found.judge, "aligner": found.aligner,
    }  # fmt: skip
    limited = {role: one.with_output_limit(parameters.output_tokens) for role, one in roles.items()}
    return limited | ({EMBEDDING: found.embedding} if found.embedding else {})


def ensure_keys(parameters: RunParameters, roles: Collection[str] = ()) -> None:
    """A `UserError` where the key of an endpoint, of one of `roles` if any are named, is not there."""
    own = set(listed_memories(parameters.own_memory)) - set(EVOLVING)
    unused = "" if own or parameters.retrieval.encoder == EMBEDDING else EMBEDDING
    for role, endpoint in endpoints(parameters).items():
        if role in roles or not (roles or role == unused):
            EndpointModel(role, endpoint).check_key()


def check_encoder(parameters: RunParameters) -> None:
    """Raise a `UserError` if the encoder is the role `embedding` and no models file has it."""
    if parameters.retrieval.encoder != EMBEDDING or EMBEDDING in endpoints(parameters):
        return
    lacks = f"{parameters.models} has no such role; add it" if parameters.models else "none is named; name one with it"
    raise UserError(f"encoder is 'embedding', a role of the models file, and {lacks} (docs/models-file.md).")


def reader_role(memory: str, roles: Mapping[str, Any]) -> str:
    """The one of `roles` (as `endpoints` names them) that answers over what `memory` recalls."""
    own = f"{READER_OF}{memory}"
    return own if own in roles else "reader"


def model_roles(
    models: Mapping[str, Model], outside: Mapping[str, Model] | None = None, embedding: Model | None = None
) -> ModelRoles:
    """The models of a run by the names that `endpoints` gives their roles."""
    methods = {role.removeprefix(READER_OF): one for role, one in models.items() if role.startswith(READER_OF)}
    return ModelRoles(
        **{role: models[role] for role in ROLES}, methods=methods, outside=outside or {}, embedding=embedding
    )


def windows(parameters: RunParameters) -> dict[str, int]:
    """Tokens that the memories may fill, by parameter: what is wanted, and no more than the endpoints accept.

    RAG and LIGHT get equally much, whatever each is served with.
    """
    roles = endpoints(parameters)
    wanted = {name: parameters[name] for name in ("reader_window", "full_context_window")}
    if not roles:
        return {**wanted, "full_context_window": parameters.context.full_context_window or _OFFLINE_WINDOW}
    found = {}
    for name, methods in (("reader_window", ("rag", "light")), ("full_context_window", ("full-context",))):
        window = max(_LEAST_WINDOW, min(_room(roles[reader_role(method, roles)]) for method in methods))
        found[name] = min(wanted[name] or window, window)
    return found


_ONE_TEXT = frozenset({"questions_accumulate", "long_context_prompt"})
"""Released behaviours of the long-context prompt, which is one text there."""


def sends_chat_turns(parameters: RunParameters) -> bool:
    """Whether long context goes as chat turns: not as released, and where its reader's endpoint takes roles."""
    roles = endpoints(parameters)
    takes_roles = not roles or roles[reader_role("full-context", roles)].chat_turns
    return takes_roles and not parameters.flags & _ONE_TEXT


def _room(reader: Endpoint) -> int:
    # The memories' own reserve has room for a reply of this length and no longer one.
    return reader.context_window - max(0, (reader.max_output_tokens or 0) - _REPLY_IN_RESERVE)


class ResolvedParameters(RunParameters):
    """Parameters that leave nothing open: the backbone, the counter and the windows are what is used."""

    @property
    def counter(self) -> TokenCounter:
        """What all budgets are counted by."""
        return token_counter(self.context.token_counter)


def resolved(parameters: RunParameters) -> ResolvedParameters:
    """The parameters with what they leave open filled in: the first backbone, the counter of `auto`, and windows that
    the reader has.

    The folder of prompts is checked, and that there is a model for the encoder.
    """
    if isinstance(parameters, ResolvedParameters):
        return parameters
    check_encoder(parameters)
    found = models_file(parameters)
    changes: dict[str, Any] = dict(windows(parameters))
    if found is not None and parameters.calls != "replay":
        found.take_keys()  # here, where a run starts: no worker is to inherit them
    if found is not None:
        changes["backbone"] = parameters.backbone or next(iter(found.readers))
    counter = parameters.context.token_counter
    if counter == "auto" and found is None:
        counter = "regex-words"  # the stand-in's numbers must not depend on what else is installed
    if parameters.prompts:
        check_overrides(Path(parameters.prompts))
    changes["token_counter"] = token_counter(counter).name
    return ResolvedParameters.model_validate({**parameters.flat(), **changes})


def identities(parameters: RunParameters, memory: str = "") -> dict[str, dict[str, Any]]:
    """What a reply of each of `ROLES` depends on, for manifests; without keys, prices and the like.

    `EMBEDDING` is one of them where it is the encoder. The reader is the one that answers over what `memory` recalls.
    """
    found = endpoints(parameters)
    if not found:
        return {role: {"model": OFFLINE_NAME} for role in ROLES}
    roles = {role: found[reader_role(memory, found) if role == "reader" else role] for role in ROLES}
    if parameters.retrieval.encoder == EMBEDDING:
        roles[EMBEDDING] = found[EMBEDDING]
    return {role: endpoint.settings for role, endpoint in roles.items()}


PUBLISHED = "published"
"""The part of a run folder for published values."""


TRIALS = "trials"
"""The folder of a run that notebooks with other parameters than the run's write to."""


def run_subdir(parameters: RunParameters) -> str:
    """The part of a run folder that holds a tier: `100k`, or `100k-<backbone>` where models are called."""
    found = models_file(parameters)
    if found is None:
        return parameters.size.lower()
    return f"{parameters.size.lower()}-{parameters.backbone or next(iter(found.readers))}"


def run_path(parameters: RunParameters, *parts: str) -> Path:
    """A file or folder (an arm's, by its name) of a tier of one backbone, inside the run folder."""
    return inside(Path(parameters.run), run_subdir(parameters), *parts)


def calls_folder(parameters: RunParameters, suite: str = "") -> Path:
    """Where the call stores of a tier lie; backbones share them, as LIGHT's reading does not depend on the reader.

    Those of another benchmark lie under its name, `suite`, whatever the tier.
    """
    return Path(parameters.run) / "calls" / (suite or parameters.size.lower())  # may be a link to another disk


def recording_command(parameters: RunParameters) -> str:
    """The shell command that calls what this run is missing, and nothing that it does not ask for."""
    if Path(parameters.run).parent.name == TRIALS:
        return "the notebook itself with calls: record and confirm_cost: true"
    options = {
        "--data": from_root(parameters.data), "--sizes": parameters.size.lower(), "--name": Path(parameters.run).name,
        "--models": parameters.models, "--backbones": parameters.backbone, "--prompts": parameters.prompts,
        "--memory": parameters.own_memory, "--conversations": parameters.conversations or "",
        "--preset": parameters.preset if parameters.preset != "default" else "",
    }  # fmt: skip
    usual = usual_parameters(parameters.size, preset=parameters.preset)
    names = sorted(FIELDS.keys() - _HAVE_OPTIONS - _NO_CALL_RESTS_ON)
    changed = {name: value for name in names if (value := parameters[name]) != usual[name]}
    return shell_command("./run_all.sh", options, changed, ["--calls", "record", "--yes"])


STORES: ContextVar[Callable[[Path], CallStore] | None] = ContextVar("STORES", default=None)
"""Who opens call stores where that is not this process alone: on the workers of a cluster."""


@contextmanager
def open_models(
    parameters: RunParameters,
    conversation: str,
    processes: int = 1,
    run_id: str = THIS_RUN,
    *,
    suite: str = "",
    command: str = "",
) -> Iterator[ModelRoles]:
    """The models that work on one conversation, its call store open; `processes` share the endpoints' concurrency.

    `suite` is the benchmark that the conversation is of, BEAM where it is empty, and `command` the shell command that
    records its calls.
    """
    roles = endpoints(parameters)
    if not roles:
        yield ModelRoles.of(plugins().model())
        return
    prompts = Path(parameters.prompts) if parameters.prompts else None
    path = inside(calls_folder(parameters, suite), f"{conversation}.sqlite")
    command = command or recording_command(parameters)
    opened = STORES.get()
    with opened(path) if opened else CallStore(path, read_only=parameters.calls == "replay", run_id=run_id) as store:

        def stored(model: EndpointModel) -> StoredModel:
            return StoredModel(
                model,
                store,
                parameters.calls,
                role=model.role,
                conversation=conversation,
                command=command,
                confirmed=parameters.confirm_cost,
            )

        share = {role: max(1, endpoint.concurrency // processes) for role, endpoint in roles.items()}
        models: dict[str, Model] = {
            role: RetryingModel(stored(EndpointModel(role, endpoint, prompts=prompts, max_concurrency=share[role])))
            for role, endpoint in roles.items()
        }
        outside: dict[str, Model] = {}
        for route in ROUTES:
            role = EMBEDDING if route == "embeddings" else "memory"
            if role in roles:
                outside[route] = stored(ForwardingModel(role, roles[role], route, max_concurrency=share[role]))
        encoder: Model | None = None
        if isinstance(embedding := roles.get(EMBEDDING), Embedding):
            encoder = stored(EmbeddingModel(EMBEDDING, embedding, max_concurrency=share[EMBEDDING]))
        yield model_roles(models, outside, encoder)
