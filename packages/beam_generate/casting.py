"""Who writes a conversation: the offline author, or the endpoints of a models file behind a call store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from beam_generate.shapes import Story
from beamlib.files import code_hash, sha256
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Author, Endpoint, load_models
from beamlib.llm.model import OFFLINE_NAME, Completion, Model, Prompt
from beamlib.llm.prompts import prompt_file, prompt_ids
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.stored_model import THIS_RUN, CallStore, Mode, StoredModel

OTHER_BENCHMARK = ("memorycode_", "meme_")
"""Begins the ids of prompts that write dialogues of `beam_memorycode`, and nothing here."""

Stage = Literal["plans", "questions", "dialogue", "probes"]
ROLES: Mapping[Stage, tuple[Author, ...]] = {
    "plans": ("planner", "narrator", "augmenter", "detector"),
    "questions": ("asker",),
    "dialogue": ("speaker", "detector"),
    "probes": ("prober", "detector"),
}
"""Who is asked in each stage (by the detector: summaries). A prompt's file names the role that answers it."""
WRITERS: tuple[Author, ...] = tuple(dict.fromkeys(role for roles in ROLES.values() for role in roles))

_RULES = ("beam_generate", "beam_generate.probes", "beam_offline.author", "beam_offline.author.banks")
"""What the offline author's texts rest on."""


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """How conversations are written, beside their stories.

    `models` is a models file, empty for the offline author; `prompts` a folder of overriding prompt files or empty.
    `calls`, `confirmed` and `command` are as in `beamlib.llm.stored_model.StoredModel`. `output_tokens` limits replies,
    `question_output_tokens` those of the asker, where the models file sets no limit; 0 is none. `processes` share the
    endpoints' concurrency, and `run_id` is that of them all.
    """

    models: str = ""
    prompts: str = ""
    calls: Mode = "record"
    confirmed: bool = False
    command: str = ""
    output_tokens: int = 0
    question_output_tokens: int = 0
    processes: int = 1
    run_id: str = THIS_RUN

    def endpoint(self, role: Author) -> Endpoint:
        """Where the model of a role is served, with the limit of its replies; only with a models file."""
        own = self.question_output_tokens if role == "asker" else 0
        return load_models(Path(self.models)).author(role).limited(own or self.output_tokens)

    def made_by(self, stage: Stage) -> dict[str, Any]:
        """What the work of a stage rests on beside its files and numbers, for its record."""
        if not self.models:
            return {"author": OFFLINE_NAME, "rules": code_hash(_RULES)}
        folder, roles = Path(self.prompts) if self.prompts else None, ROLES[stage]
        hashes = {name: prompt_file(name, folder).sha256 for name in prompts_of_generation() if role_of(name) in roles}
        authors = {role: self.endpoint(role).settings for role in roles}
        return {"authors": authors, "prompts": sha256(repr(sorted(hashes.items())))}

    @property
    def names(self) -> str:
        """Who writes: the models, each once."""
        return ", ".join(dict.fromkeys(self.endpoint(role).model for role in WRITERS)) if self.models else OFFLINE_NAME

    def ready(self) -> None:
        """A `UserError` where the key of one of the models is missing: before another one's calls are paid for."""
        for role in WRITERS:
            EndpointModel(role, self.endpoint(role)).ready()


def prompts_of_generation() -> list[str]:
    """The ids of the prompts that the roles of generation answer."""
    return [
        name
        for name in prompt_ids()
        if prompt_file(name).role in get_args(Author) and not name.startswith(OTHER_BENCHMARK)
    ]


def role_of(prompt_id: str) -> Author:
    """The role that answers a prompt: the one that our file names, whatever an overriding file says."""
    return cast(Author, prompt_file(prompt_id).role)


class GenerationModels:
    """The models of a conversation by role, as one: each prompt is answered by the model of its role."""

    def __init__(self, models: Mapping[Author, Model]) -> None:
        self.models = models

    @property
    def name(self) -> str:
        """All models' names, each once."""
        return ", ".join(dict.fromkeys(model.name for model in self.models.values()))

    async def complete(self, prompt: Prompt) -> Completion:
        """The reply of the model whose role the prompt is."""
        return await self.models[role_of(prompt.id)].complete(prompt)


def offline_author(story: Story) -> Model:
    """The stand-in that writes `story`."""
    from beam_offline.author.author import OfflineAuthor  # with its banks

    author: Model = OfflineAuthor(story)
    return author


@contextmanager
def open_author(writing: GenerationConfig, story: Story, stage: Stage, store: Path) -> Iterator[Model]:
    """Who writes a stage of `story`: the offline author, or endpoints with their calls in the store at `store`."""
    if not writing.models:
        yield offline_author(story)
        return
    with open_roles(writing, ROLES[stage], f"{story.size}-{story.number}", store) as models:
        yield models


@contextmanager
def open_roles(
    writing: GenerationConfig, roles: Sequence[Author], conversation: str, store: Path
) -> Iterator[GenerationModels]:
    """The models of `roles`, their calls in the call store at `store` under the name of a conversation."""
    prompts = Path(writing.prompts) if writing.prompts else None
    with CallStore(store, read_only=writing.calls == "replay", run_id=writing.run_id) as calls:
        models: dict[Author, Model] = {}
        for role in roles:
            endpoint = writing.endpoint(role)
            max_concurrency = max(1, endpoint.concurrency // writing.processes)
            models[role] = RetryingModel(
                StoredModel(
                    EndpointModel(role, endpoint, prompts=prompts, max_concurrency=max_concurrency),
                    calls,
                    writing.calls,
                    role=role,
                    conversation=conversation,
                    command=writing.command,
                    confirmed=writing.confirmed,
                )
            )
        yield GenerationModels(models)
