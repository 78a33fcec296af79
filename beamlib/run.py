"""A run as one value: its settings, and the models file and prompts that they name, read once.

Whoever starts a run builds a `Run` (a command, the main job, a notebook's `begin`) and hands it to everything below,
worker processes included. Nothing below opens a parameter, models or prompt file again: a file that is edited while a
run takes hours changes the next run and not this one, and manifests name the models that were asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import PrivateAttr

from beamlib.errors import UserError
from beamlib.files import inside
from beamlib.llm.endpoints import EMBEDDING, MODELS, RERANKER, Endpoint, ModelsFile, load_models
from beamlib.llm.exchange import OFFLINE_NAME
from beamlib.llm.prompts import Prompts
from beamlib.memory.declared import memories
from beamlib.params import FIELDS, OF_GENERATION, RunParameters, usual_parameters
from beamlib.places import ROOT, from_root
from beamlib.plugins import plugins
from beamlib.text import TokenCounter, shell_command, token_counter

ROLES = ("reader", "memory", "compressor", "judge", "aligner")
READER_OF = "reader:"
"""Begins the role of a reader that is served otherwise for one method, whose name follows."""
PUBLISHED = "published"
"""The part of a run folder for published values."""
TRIALS = "trials"
"""The folder of a run that notebooks with other parameters than the run's write to."""

PARAMETERS = "parameters.json"
"""The file of a tier with the parameters of its run, without what another machine lacks."""

_REPLY_IN_RESERVE = 1_024
_LEAST_WINDOW = 4_000  # less than a memory can be packed into; a smaller reader refuses, and the estimate warns of it
_OFFLINE_WINDOW = 131_072  # tokens the stand-in reads of a whole conversation: as many as Qwen2.5-32B (section 4.1)
_ONE_TEXT = frozenset({"questions_accumulate", "long_context_prompt"})
"""Released behaviours of the long-context prompt, which is one text there."""
_READ = frozenset({"models", "prompts", "backbone", "output_tokens", "preset", "size"})
"""Settings that the values of a run follow from."""
_NO_CALL_RESTS_ON = frozenset({"protocol", "seed", "paper", "workers", "memorycode", "meme", *OF_GENERATION})
_HAVE_OPTIONS = frozenset(
    {
        "size", "preset", "data", "run", "conversations", "per_ability", "own_memory", "models", "backbone", "calls",
        "confirm_cost", "prompts",
    }
)  # fmt: skip


class Run(RunParameters):
    """Settings that leave nothing open, and what they name as it was read. Frozen; it can be pickled.

    Attributes:
        given: The parameters as they were given, with what they leave open.
        models_file: The models file; None for the offline stand-in.
        prompt_files: All prompts, overridden ones as their folder had them.
        endpoints: The endpoint of each of `ROLES`, of `reader:<method>` where the backbone is served otherwise for a
            method, and of `EMBEDDING` and `RERANKER` where the models file has them; a role without an output limit has
            the settings'. Empty for the stand-in.
        usual: The settings of the preset that the run started from, with `usual_models`, the models file they name.
    """

    _given: RunParameters = PrivateAttr()
    _models: ModelsFile | None = PrivateAttr(None)
    _prompts: Prompts = PrivateAttr()
    _endpoints: dict[str, Endpoint] = PrivateAttr(default_factory=dict)
    _usual: RunParameters = PrivateAttr()
    _usual_models: ModelsFile | None = PrivateAttr(None)
    _identities: dict[str, tuple[str, tuple[str, ...]]] = PrivateAttr(default_factory=dict)
    _judge_anyway: bool = PrivateAttr(False)

    @classmethod
    def of(cls, parameters: RunParameters, models: ModelsFile | None = None) -> Run:
        """Read what `parameters` name and fill in what they leave open: backbone, token counter, windows.

        Args:
            models: The models file, where it is at hand already or not on disk yet; else it is read.

        Raises:
            UserError: A file is wrong, the backbone is unknown, or nothing serves the encoder.
        """
        if isinstance(parameters, Run):
            return parameters
        if models is None and parameters.models:
            models = load_models(Path(parameters.models))
        for name, reader in models.readers.items() if models else ():
            for method in reader.methods.keys() - memories().keys():
                raise UserError(
                    f"{parameters.models or MODELS}: 'readers.{name}.methods' names {method!r:.80}, which is no memory;"
                    f" name one of {', '.join(memories())}."
                )
        prompts = Prompts.read(Path(parameters.prompts) if parameters.prompts else None)
        endpoints = _endpoints_of(parameters, models)
        if parameters.retrieval.encoder == EMBEDDING and EMBEDDING not in endpoints:
            lacks = f"{parameters.models} has no such role; add it" if models else "none is named; name one with it"
            raise UserError(f"encoder is 'embedding', a role of the models file, and {lacks} (docs/models-file.md).")
        counter = parameters.context.token_counter
        if counter == "auto" and models is None:
            counter = "regex-words"  # the stand-in's numbers must not depend on what else is installed
        changes: dict[str, Any] = {
            **windows(parameters, endpoints), "token_counter": token_counter(counter).name,
            **({"backbone": parameters.backbone or next(iter(models.readers))} if models else {}),
        }  # fmt: skip
        if models is not None and parameters.calls != "replay":
            models.take_keys()  # no process that is begun from here on is to inherit them
        run = cls.model_validate({**parameters.flat(), **changes})
        usual = usual_parameters(parameters.size, preset=parameters.preset)
        run._given, run._models, run._prompts, run._endpoints = parameters, models, prompts, endpoints
        run._usual, run._usual_models = usual, load_models(ROOT / usual.models) if usual.models else None
        return run

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other settings, of those that nothing else of the run follows from."""
        if changed := {name for name in _READ.intersection(update or ()) if (update or {})[name] != self[name]}:
            raise ValueError(f"{sorted(changed)} decide what a run reads: build another one with Run.of")
        copy = super().model_copy(update=update, deep=deep)
        copy._given = self._given.model_copy(update=update)
        return copy

    def served(self, endpoints: Mapping[str, Endpoint], *, judge_anyway: bool) -> Self:
        """Return the run with `endpoints` that differ in nothing that a reply depends on."""
        copy = self.model_copy()
        copy._endpoints, copy._judge_anyway = dict(endpoints), judge_anyway
        return copy

    def moved(self, **paths: str) -> Self:
        """Return the run with the files that it has read at other `paths`, where they were saved."""
        copy = super().model_copy(update=paths)
        copy._given = self._given.model_copy(update=paths)
        return copy

    @property
    def given(self) -> RunParameters:
        return self._given

    @property
    def models_file(self) -> ModelsFile | None:
        return self._models

    @property
    def prompt_files(self) -> Prompts:
        return self._prompts

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        return self._endpoints

    @property
    def judge_anyway(self) -> bool:
        """Whether the judge may judge whatever its exam says."""
        return self._judge_anyway

    @property
    def usual(self) -> RunParameters:
        return self._usual

    @property
    def usual_models(self) -> ModelsFile | None:
        return self._usual_models

    def identity_of(self, target: str) -> tuple[str, tuple[str, ...]]:
        """The hash of the code of a memory from outside, as it was when it was first asked for, and notes on it."""
        if target not in self._identities:
            self._identities[target] = plugins().identify_memory(target)
        return self._identities[target]

    @property
    def counter(self) -> TokenCounter:
        """What all budgets are counted by."""
        return token_counter(self.context.token_counter)

    @property
    def folder(self) -> Path:
        return Path(self.run)

    @property
    def part(self) -> str:
        """The part of the run folder that holds this tier: `100k`, or `100k-<backbone>` where models are called."""
        return f"{self.size.lower()}-{self.backbone}" if self._models else self.size.lower()

    @property
    def label(self) -> str:
        """The tier, with its backbone if models are called."""
        return f"{self.size} · {self.backbone}" if self._models else self.size

    def path(self, *parts: str) -> Path:
        """A file or folder (an arm's, by its name) of this tier and backbone, inside the run folder."""
        return inside(self.folder, self.part, *parts)

    def calls_folder(self, suite: str = "") -> Path:
        """Where the call stores of this tier lie; backbones share them: LIGHT's reading does not depend on the reader.

        Those of another benchmark lie under its name, `suite`, whatever the tier.
        """
        return self.folder / "calls" / (suite or self.size.lower())  # may be a link to another disk

    def reader_role(self, memory: str) -> str:
        """The role that answers over what `memory` recalls."""
        role = f"{READER_OF}{memory}"
        return role if role in self._endpoints else "reader"

    def identities(self, memory: str = "") -> dict[str, dict[str, Any]]:
        """What a reply of each of `ROLES` depends on, for manifests; without keys, prices and the like.

        `EMBEDDING` is one of them where it is the encoder. The reader is the one that answers over what `memory`
        recalls.
        """
        if not self._endpoints:
            return {role: {"model": OFFLINE_NAME} for role in ROLES}
        roles = {role: self._endpoints[self.reader_role(memory) if role == "reader" else role] for role in ROLES}
        if self.retrieval.encoder == EMBEDDING:
            roles[EMBEDDING] = self._endpoints[EMBEDDING]
        return {role: endpoint.settings for role, endpoint in roles.items()}

    @property
    def sends_chat_turns(self) -> bool:
        """Whether long context goes as chat turns: not as released, and where its reader's endpoint takes roles."""
        whole = [memory for memory, kind in memories().items() if kind.whole] if self._endpoints else []
        return not self.flags & _ONE_TEXT and all(self._endpoints[self.reader_role(name)].chat_turns for name in whole)

    @property
    def recording_command(self) -> str:
        """The shell command that calls what this run is missing, and nothing that it does not ask for."""
        if self.folder.parent.name == TRIALS:
            return "the notebook itself with calls: record and confirm_cost: true"
        given = self._given
        options = {
            "--data": from_root(given.data), "--sizes": given.size.lower(), "--name": self.folder.name,
            "--models": given.models, "--backbones": given.backbone, "--prompts": given.prompts,
            "--memory": given.own_memory, "--conversations": given.conversations or "",
            "--per-ability": given.chat.per_ability or "",
            "--preset": given.preset if given.preset != "default" else "",
        }  # fmt: skip
        names = sorted(FIELDS.keys() - _HAVE_OPTIONS - _NO_CALL_RESTS_ON)
        changed = {name: value for name in names if (value := given[name]) != self._usual[name]}
        return shell_command("./run_all.sh", options, changed, ["--calls", "record", "--yes"])


def _endpoints_of(parameters: RunParameters, models: ModelsFile | None) -> dict[str, Endpoint]:
    if models is None:
        return {}
    backbone = models.reader(parameters.backbone)
    usual = backbone.of("")
    readers = {f"{READER_OF}{method}": backbone.of(method) for method in backbone.methods}
    roles = {
        "reader": usual, **{role: reader for role, reader in readers.items() if reader != usual},
        "memory": models.memory, "compressor": models.compressor, "judge": models.judge, "aligner": models.aligner,
    }  # fmt: skip
    limited = {role: endpoint.with_output_limit(parameters.output_tokens) for role, endpoint in roles.items()}
    others = {EMBEDDING: models.embedding, RERANKER: models.reranker}
    return limited | {role: endpoint for role, endpoint in others.items() if endpoint}


def windows(parameters: RunParameters, endpoints: Mapping[str, Endpoint]) -> dict[str, int]:
    """Tokens that the memories may fill, by parameter: what is wanted, and no more than the endpoints accept.

    Those that fill one window (RAG and LIGHT) get equally much, whatever each is served with.
    """
    tokens = {name: parameters[name] for name in ("reader_window", "full_context_window")}
    if not endpoints:
        return {**tokens, "full_context_window": tokens["full_context_window"] or _OFFLINE_WINDOW}
    for name, wanted in tokens.items():
        methods = [memory for memory, kind in memories().items() if kind.joins == "always" and name in kind.uses]
        readers = [endpoints.get(f"{READER_OF}{method}", endpoints["reader"]) for method in methods]
        # What the memories reserve has room for a reply of `_REPLY_IN_RESERVE` tokens and no longer one.
        rooms = [end.context_window - max(0, (end.max_output_tokens or 0) - _REPLY_IN_RESERVE) for end in readers]
        room = max(_LEAST_WINDOW, min(rooms))
        tokens[name] = min(wanted or room, room)
    return tokens
