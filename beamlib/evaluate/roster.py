"""The models of a run by name: what a worker asks for at the door, and what the process that calls opens."""

from __future__ import annotations

from collections.abc import Mapping

from beamlib.llm.endpoints import EMBEDDING, RERANK, RERANKER, ROUTES, Endpoint, Route
from beamlib.llm.model import Model, ModelRoles
from beamlib.run import READER_OF, ROLES

OUTSIDE = "outside:"
"""Begins the name of a model that forwards requests of other programs on the route that follows."""
JUDGES = frozenset({"judge", "aligner"})
"""The models that see gold."""


def role_of_route(route: Route) -> str:
    """Return the role whose endpoint serves a route."""
    return {"embeddings": EMBEDDING, RERANK: RERANKER}.get(route, "memory")


def model_names(endpoints: Mapping[str, Endpoint]) -> dict[str, str]:
    """Name the models of a run, each with its role: roles by their names, and `outside:<route>`."""
    roles = {role: role for role in endpoints if role in ROLES or role.startswith(READER_OF) or role == EMBEDDING}
    routes: dict[Route, str] = {route: role_of_route(route) for route in (*ROUTES, RERANK)}
    return roles | {f"{OUTSIDE}{route}": role for route, role in routes.items() if role in endpoints}


def roster_of(models: Mapping[str, Model]) -> ModelRoles:
    """Give the models of a run, by name, their roles."""

    def after(prefix: str) -> dict[str, Model]:
        return {name.removeprefix(prefix): one for name, one in models.items() if name.startswith(prefix)}

    return ModelRoles(
        **{role: models[role] for role in ROLES},
        methods=after(READER_OF),
        outside=after(OUTSIDE),
        embedding=models.get(EMBEDDING),
    )
