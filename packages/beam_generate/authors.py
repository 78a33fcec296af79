"""The models that write a conversation: the offline author, or the endpoints of a models file with a call store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from beam_generate.shapes import Story
from beamlib.files import code_hash, sha256
from beamlib.llm.admission import admission_calls, learnt_marks
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Author, Endpoint, ModelsFile
from beamlib.llm.model import OFFLINE_NAME, Completion, Model, ModelError, Prompt
from beamlib.llm.prompts import Prompts, prompt_file, prompt_ids
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.stored_model import THIS_RUN, CallStore, Mode, StoredModel
from beamlib.plugins import plugins

_OTHER_BENCHMARKS = ("memorycode_", "meme_")
"""First part of the ids of prompts that write dialogues for other benchmarks."""

Stage = Literal["plans", "questions", "dialogue", "probes"]
_ROLES: Mapping[Stage, tuple[Author, ...]] = {
    "plans": ("planner", "narrator", "augmenter", "detector"),
    "questions": ("asker",),
    "dialogue": ("speaker", "detector"),
    "probes": ("prober", "detector"),
}
"""Roles of each stage (the detector writes summaries). A prompt file names the role that answers it."""
_ROOMY = 40_000
"""Tokens of a request from which on the released budgets fit."""
_REPLY = 2_048
"""Tokens kept for a reply whose request has no limit."""
_COUNTED = 0.9
"""The share of a window that requests may have by our counter, as a model's own may count more."""
WRITERS: tuple[Author, ...] = tuple(dict.fromkeys(role for roles in _ROLES.values() for role in roles))

_RULES = ("beam_generate", "beam_generate.probes", "beam_offline.author", "beam_offline.author.banks")
"""Code and data that the offline author's texts depend on."""


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """Settings of generation that are independent of the story.

    `models` is None for the offline author; `prompts` are those of the run.
    `calls`, `confirmed` and `command` are as in `StoredModel`. `output_tokens`, for the asker `question_output_tokens`,
    limits replies if the models file sets no limit; 0 is none. With `admission` the authors answer known questions
    first, stored below `folder`, that of all conversations; `tuned` are the endpoints as they were measured.
    """

    models: ModelsFile | None = None
    prompts: Prompts = field(default_factory=Prompts.read)
    calls: Mode = "record"
    confirmed: bool = False
    command: str = ""
    output_tokens: int = 0
    question_output_tokens: int = 0
    admission: bool = False
    folder: Path | None = None
    tuned: Mapping[Author, Endpoint] = field(default_factory=dict)
    run_id: str = THIS_RUN

    def endpoint(self, role: Author) -> Endpoint:
        """Return the endpoint of a role in the models file, with the limit of its replies."""
        if self.models is None:
            raise ValueError("the offline author is served by no endpoint")
        if role in self.tuned:
            return self.tuned[role]
        own = self.question_output_tokens if role == "asker" else 0
        return self.models.author(role).with_output_limit(own or self.output_tokens)

    def room(self, *roles: Author) -> int | None:
        """Return how many tokens a request of these roles may have by their stated windows.

        None for the offline author, and where the released budgets fit anyway.
        """
        if self.models is None:
            return None
        windows = (
            (endpoint.context_window, endpoint.max_output_tokens or _REPLY) for endpoint in map(self.endpoint, roles)
        )
        room = min(int(_COUNTED * (window - reply)) for window, reply in windows)
        return room if room < _ROOMY else None

    def made_by(self, stage: Stage) -> dict[str, Any]:
        """Return what the result of a stage depends on besides its files and sizes, for the record."""
        if not self.models:
            return {"author": OFFLINE_NAME, "rules": code_hash(_RULES)}
        roles = _ROLES[stage]
        hashes = self.prompts.hashes(name for name in generation_prompts() if role_of(name) in roles)
        authors = {role: self.endpoint(role).settings for role in roles}
        return {"authors": authors, "prompts": sha256(repr(sorted(hashes.items())))}

    @property
    def names(self) -> str:
        """Names of the models, each once."""
        return ", ".join(dict.fromkeys(self.endpoint(role).model for role in WRITERS)) if self.models else OFFLINE_NAME

    def check_keys(self) -> None:
        """Raise a `UserError` if the key of a model is missing."""
        for role in WRITERS:
            EndpointModel(role, self.endpoint(role)).check_key()


def generation_prompts() -> list[str]:
    """Return the ids of the prompts of generation."""
    return [
        name
        for name in prompt_ids()
        if prompt_file(name).role in get_args(Author) and not name.startswith(_OTHER_BENCHMARKS)
    ]


def role_of(prompt_id: str) -> Author:
    """Return the role that answers a prompt; an overriding file cannot change it."""
    return cast(Author, prompt_file(prompt_id).role)


class GenerationModels:
    """The models of a conversation as one model: each prompt goes to the model of its role."""

    def __init__(self, models: Mapping[Author, Model]) -> None:
        self.models = models

    @property
    def name(self) -> str:
        """Names of all models, each once."""
        return ", ".join(dict.fromkeys(model.name for model in self.models.values()))

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer a prompt by the model of its role; an error names them."""
        role = role_of(prompt.id)
        try:
            return await self.models[role].complete(prompt)
        except ModelError as error:
            who = f"the {role} {self.models[role].name}, asked for {prompt.id} ({prompt.about})"
            raise ModelError(f"{who}: {error}", error.outcome, error.usage) from None


def offline_author(story: Story) -> Model:
    """Return the offline author of a story."""
    return plugins().authors().offline_author(story)


@contextmanager
def open_author(config: GenerationConfig, story: Story, stage: Stage, store: Path) -> Iterator[Model]:
    """Open the author of a stage: the offline author, or endpoints with the call store at `store`."""
    if not config.models:
        yield offline_author(story)
        return
    with open_roles(config, _ROLES[stage], f"{story.size}-{story.number}", store) as models:
        yield models


@contextmanager
def open_roles(
    config: GenerationConfig, roles: Sequence[Author], conversation: str, store: Path
) -> Iterator[GenerationModels]:
    """Open the models of some roles; their calls are stored under the name of a conversation."""
    known = admission_calls(config.folder) if config.folder else []
    with CallStore(store, read_only=config.calls == "replay", run_id=config.run_id) as calls:
        models: dict[Author, Model] = {}
        for role in roles:
            endpoint = config.endpoint(role)
            marks = learnt_marks(known, endpoint)
            models[role] = RetryingModel(
                StoredModel(
                    EndpointModel(role, endpoint, prompts=config.prompts),
                    calls,
                    config.calls,
                    role=role,
                    conversation=conversation,
                    command=config.command,
                    confirmed=config.confirmed,
                ),
                marks,
            )
        yield GenerationModels(models)
