"""Calls of other programs, passed on to a role's endpoint: the body is theirs, and the role's settings are set over it.

The reply is passed back whole, as the JSON text of its body, and so it is stored: with tool calls, log probabilities
and vectors. Faults, tries, bounds and keys are those of every other call (`beamlib.llm.client`).
"""

from __future__ import annotations

import json
from typing import Any, Literal, get_args

from beamlib.files import parse_json, to_json
from beamlib.llm.client import LIMITS, EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.faults import TryAgain, brief, error_text
from beamlib.llm.keys import without_key
from beamlib.llm.model import Completion, Prompt, Usage

Route = Literal["chat/completions", "responses", "embeddings"]
ROUTES: tuple[Route, ...] = get_args(Route)
"""What is passed on, by where it lies below the base URL."""

_HOLDS = {"chat/completions": "choices", "responses": "output", "embeddings": "data"}
_STREAMED = ("stream", "stream_options")


def step_of(arm: str, route: Route) -> str:
    """What a call of an arm's memory is stored as, for example `mem0/chat`."""
    return f"{arm}/{route.partition('/')[0]}"


class PassedOn(EndpointModel):
    """One route of a role's endpoint. A `Model` of prompts whose variable `body` is the JSON text of a request.

    Set over the body are the role's `temperature`, `seed` and `extra`; a limit of tokens goes into the field that the
    endpoint takes, and where both name one the smaller holds. What is asked as a stream is called whole.
    """

    def __init__(self, role: str, endpoint: Endpoint, route: Route, *, max_concurrency: int | None = None) -> None:
        super().__init__(role, endpoint, max_concurrency=max_concurrency)
        self.route = f"/{route}"
        self._kind = route

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """The JSON body that is sent for `prompt`."""
        given = json.loads(prompt.variables["body"])
        body = {name: value for name, value in given.items() if name not in (*_STREAMED, *LIMITS)}
        settings = self.endpoint
        body["model"] = settings.model
        if self._kind == "embeddings":
            return body | settings.extra
        body.pop("temperature", None)
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if settings.seed is not None and self._kind == "chat/completions":
            body["seed"] = settings.seed + prompt.repeat
        limits = [given[name] for name in LIMITS if isinstance(given.get(name), int)]
        limits += [settings.max_output_tokens] if settings.max_output_tokens else []
        if limits:
            body[settings.limit_field if self._kind == "chat/completions" else "max_output_tokens"] = min(limits)
        return body | settings.extra

    def _read(self, content: bytes, latency: float, *, tools: bool) -> Completion:
        said = without_key(content.decode("utf-8", "replace"), self._key)
        try:
            body = parse_json(said)
        except ValueError:
            raise TryAgain(f"the answer is not JSON: {brief(said[:2_000], self._key) or 'nothing'}") from None
        field = _HOLDS[self._kind]
        held = body.get(field) if isinstance(body, dict) else None
        if not isinstance(held, list) or not held or not all(isinstance(one, dict) for one in held):
            raise TryAgain(f"the answer has no {field}: {brief(error_text(said[:100_000])[0], self._key)}")
        reason = held[0].get("finish_reason") if self._kind == "chat/completions" else None
        return Completion(to_json(body), _usage(body.get("usage")), latency, reason if isinstance(reason, str) else "")


def _usage(usage: object) -> Usage:
    """Tokens as any of the three routes spells them."""

    def count(*names: str) -> int:
        held: Any = usage
        for name in names:
            held = held.get(name) if isinstance(held, dict) else None
        return held if isinstance(held, int) and held > 0 else 0

    return Usage(
        count("prompt_tokens") or count("input_tokens"),
        count("completion_tokens") or count("output_tokens"),
        count("prompt_tokens_details", "cached_tokens") or count("input_tokens_details", "cached_tokens"),
    )
