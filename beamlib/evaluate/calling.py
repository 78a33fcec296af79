"""From a run to models: the offline stand-in, or endpoints behind one conversation's call store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from beamlib.evaluate.roster import OUTSIDE, model_names, role_of_route, roster_of
from beamlib.files import inside
from beamlib.llm.admission import ADMISSION, admission_calls, learnt_marks
from beamlib.llm.client import EndpointModel, ForwardingModel
from beamlib.llm.embedding_model import EmbeddingModel
from beamlib.llm.endpoints import EMBEDDING, RERANKER, Embedding
from beamlib.llm.model import Model, ModelRoles
from beamlib.llm.prompts import prompts_in_force
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.stored_model import CallStore, StoredModel
from beamlib.memory.declared import named_memories
from beamlib.plugins import plugins
from beamlib.run import Run


def ensure_keys(run: Run, roles: Collection[str] = ()) -> None:
    """A `UserError` where the key of an endpoint, of one of `roles` if any are named, is not there."""
    own = set(run.own_memories) - set(named_memories(outside=False))
    unused = {RERANKER} | (set() if own or run.retrieval.encoder == EMBEDDING else {EMBEDDING})
    for role, endpoint in run.endpoints.items():
        if role in roles or not (roles or role in unused):
            EndpointModel(role, endpoint).check_key()


@contextmanager
def open_models(run: Run, conversation: str, *, suite: str = "", command: str = "") -> Iterator[ModelRoles]:
    """Open the models that work on one conversation, and its call store, in this process.

    Args:
        suite: The benchmark that the conversation is of, BEAM where it is empty.
        command: The shell command that records its calls.
    """
    if not run.endpoints:
        with prompts_in_force(run.prompt_files):
            yield ModelRoles.of(plugins().model())
        return
    with open_endpoints(run, conversation, suite, command) as model:
        yield roster_of({name: model(name) for name in model_names(run.endpoints)})


@contextmanager
def open_endpoints(run: Run, conversation: str, suite: str, command: str) -> Iterator[Callable[[str], Model]]:
    """Open a conversation's call store; yield a function from a name (`roster.model_names`) to the model behind it."""
    path = inside(run.calls_folder(suite), f"{conversation}.sqlite")
    known = admission_calls(path.parent.parent) if conversation != ADMISSION else []
    with prompts_in_force(run.prompt_files), CallStore(path, read_only=run.calls == "replay") as store:

        def stored(model: EndpointModel) -> StoredModel:
            return StoredModel(
                model,
                store,
                run.calls,
                role=model.role,
                conversation=conversation,
                command=command or run.recording_command,
                confirmed=run.confirm_cost,
            )

        def model_named(name: str) -> Model:
            if name.startswith(OUTSIDE):
                route: Any = name.removeprefix(OUTSIDE)
                role = role_of_route(route)
                return stored(ForwardingModel(role, run.endpoints[role], route))
            endpoint = run.endpoints[name]
            if isinstance(endpoint, Embedding):
                return stored(EmbeddingModel(name, endpoint))
            unfit = name == "judge" and run.judge_anyway
            called = stored(EndpointModel(name, endpoint, prompts=run.prompt_files, unfit=unfit))
            return RetryingModel(called, learnt_marks(known, endpoint))

        yield model_named
