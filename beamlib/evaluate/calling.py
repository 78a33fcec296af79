"""From a run to models: the offline stand-in, or endpoints behind one conversation's call store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from beamlib.files import inside
from beamlib.llm.admission import admission_calls, learnt_marks
from beamlib.llm.client import RERANK, ROUTES, EndpointModel, ForwardingModel
from beamlib.llm.embedding_model import EmbeddingModel
from beamlib.llm.endpoints import EMBEDDING, RERANKER, Embedding
from beamlib.llm.model import Model, ModelRoles
from beamlib.llm.prompts import prompts_in_force
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.stored_model import THIS_RUN, CallStore, StoredModel
from beamlib.memory.declared import named_memories
from beamlib.plugins import plugins
from beamlib.run import READER_OF, ROLES, Run


def model_roles(
    models: Mapping[str, Model], outside: Mapping[str, Model] | None = None, embedding: Model | None = None
) -> ModelRoles:
    """The models of a run by the names that `endpoints` gives their roles."""
    methods = {role.removeprefix(READER_OF): one for role, one in models.items() if role.startswith(READER_OF)}
    return ModelRoles(
        **{role: models[role] for role in ROLES}, methods=methods, outside=outside or {}, embedding=embedding
    )


def ensure_keys(run: Run, roles: Collection[str] = ()) -> None:
    """A `UserError` where the key of an endpoint, of one of `roles` if any are named, is not there."""
    own = set(run.own_memories) - set(named_memories(outside=False))
    unused = {RERANKER} | (set() if own or run.retrieval.encoder == EMBEDDING else {EMBEDDING})
    for role, endpoint in run.endpoints.items():
        if role in roles or not (roles or role in unused):
            EndpointModel(role, endpoint).check_key()


STORES: ContextVar[Callable[[Path], CallStore] | None] = ContextVar("STORES", default=None)
"""Who opens call stores where that is not this process alone: on the workers of a cluster."""


@contextmanager
def open_models(
    run: Run,
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
    if not run.endpoints:
        with prompts_in_force(run.prompt_files):
            yield ModelRoles.of(plugins().model())
        return
    with (
        prompts_in_force(run.prompt_files),
        _open_endpoints(run, conversation, processes, run_id, suite, command) as found,
    ):
        yield found


@contextmanager
def _open_endpoints(
    run: Run, conversation: str, processes: int, run_id: str, suite: str, command: str
) -> Iterator[ModelRoles]:
    roles = run.endpoints
    path = inside(run.calls_folder(suite), f"{conversation}.sqlite")
    command = command or run.recording_command
    opened = STORES.get()
    known = admission_calls(path.parent.parent)
    with opened(path) if opened else CallStore(path, read_only=run.calls == "replay", run_id=run_id) as store:

        def stored(model: EndpointModel) -> StoredModel:
            return StoredModel(
                model,
                store,
                run.calls,
                role=model.role,
                conversation=conversation,
                command=command,
                confirmed=run.confirm_cost,
            )

        share = {role: max(1, endpoint.concurrency // processes) for role, endpoint in roles.items()}
        models: dict[str, Model] = {
            role: RetryingModel(
                stored(EndpointModel(role, endpoint, prompts=run.prompt_files, max_concurrency=share[role])),
                learnt_marks(known, endpoint),
            )
            for role, endpoint in roles.items()
        }
        outside: dict[str, Model] = {}
        for route in (*ROUTES, RERANK):
            role = {"embeddings": EMBEDDING, RERANK: RERANKER}.get(route, "memory")
            if role in roles:
                outside[route] = stored(ForwardingModel(role, roles[role], route, max_concurrency=share[role]))
        encoder: Model | None = None
        if isinstance(embedding := roles.get(EMBEDDING), Embedding):
            encoder = stored(EmbeddingModel(EMBEDDING, embedding, max_concurrency=share[EMBEDDING]))
        yield model_roles(models, outside, encoder)
