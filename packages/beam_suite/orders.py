"""An order to ask about another benchmark: checked, its cost shown and agreed to, and told how it came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, get_args

from beam_memories.own_memory import check_own_memory
from beam_memories.programs import memory_place
from beamlib.confirmation import Priced, confirm_calls
from beamlib.errors import UserError
from beamlib.evaluate.calling import ensure_keys, resolved
from beamlib.files import read_text, write_text
from beamlib.llm.endpoints import MODELS
from beamlib.llm.model import OFFLINE_NAME
from beamlib.llm.prompts import check_overrides
from beamlib.llm.stored_model import Mode
from beamlib.params import RunParameters, load_parameters
from beamlib.places import PARAMS

STAND_IN = "offline"
"""The reader's name where no model is asked."""
OWN = "own"
"""The name under which a memory of the user's own is asked."""

_OPTIONS = {
    "data": "--data", "run": "--name", "own_memory": "--memory", "models": "--models", "backbone": "--backbone",
    "calls": "--calls", "confirm_cost": "--yes", "prompts": "--prompts",
}  # fmt: skip
"""Parameters that options of their own set: `--set` would be overruled by these without a word."""


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """What a command line asks of a benchmark in `data`.

    `folder`: the run folder, mostly `runs/<name>`. `models`: a models file, empty for the stand-in (with `keep_models`,
    as where a single endpoint is named, it is copied into the run folder once there is a yes). `memory`: one of the
    user's own, as `file.py:Class`. `most`: at most so many of each kind of data, 0 for all. `settings` replaces single
    parameters.
    """

    data: Path
    folder: Path
    models: str = ""
    backbone: str = ""
    calls: str = "record"
    memory: str = ""
    prompts: Path | None = None
    most: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    yes: bool = False
    quiet: bool = False
    keep_models: bool = False


Options = TypeVar("Options", bound=SuiteOptions)


class Estimated(Priced, Protocol):
    """What an order would call, by role."""

    @property
    def rows(self) -> Iterable[Any]:
        """Each with the `role` that is asked and the number of its `calls`."""


class Outcome(Protocol):
    """What is on file of one arm, as its manifest counts it."""

    n: int
    answers: int
    unscored: dict[str, int]
    gaps: int


def checked_parameters(
    order: SuiteOptions, title: str, most: str, foreign: Iterable[str], own: Mapping[str, str]
) -> RunParameters:
    """The parameters that an order comes to, checked; what is wrong with them is a `UserError` in one sentence.

    `title` is the benchmark's, `most` its option of that meaning. `foreign` are parameters that bear on nothing in it;
    `own` are those that it sets itself, from `--data`.
    """
    if order.calls not in get_args(Mode):
        raise UserError(f"--calls: {order.calls!r:.80} does not exist; choose one of {', '.join(get_args(Mode))}.")
    if order.most < 0:
        raise UserError(f"{most}: {order.most} is less than 0; give 0 for all.")
    options = {**dict.fromkeys(own, "--data"), **_OPTIONS, "conversations": most}
    for name in order.settings:
        if name in foreign:
            raise UserError(f"--set {name}: it bears on nothing in {title}; leave it out.")
        if name in options:
            raise UserError(f"--set {name}: this parameter has an option of its own; give {options[name]}.")
    if order.backbone and not order.models:
        raise UserError("--backbone: name the models file that holds it with --models.")
    if order.prompts is not None:
        check_overrides(order.prompts)
    given = {
        "run": str(order.folder.absolute()),
        "own_memory": memory_place(order.memory),
        "models": order.models,
        "backbone": order.backbone,
        "calls": order.calls,
        "prompts": str(order.prompts.absolute()) if order.prompts else "",
        **({"confirm_cost": True} if order.yes else {}),
    }
    parameters = load_parameters(PARAMS / "100k.yaml", **{**order.settings, **own, **given})
    if parameters.own_memory:
        # A mistake shows before anything runs.
        check_own_memory(parameters.own_memory, parameters.memory_timeout, parameters.models)
    return parameters


def check_own(order: SuiteOptions, arms: Iterable[str], kind: str) -> None:
    """A `UserError` where a memory of one's own is asked and not given, or the other way round; `kind` is its word."""
    if (OWN in arms) != bool(order.memory):
        raise UserError(f"--memory: the {kind} own and a memory of your own, as file.py:Class, go together; give both.")


def confirmed(
    order: Options, parameters: RunParameters, estimate: Callable[[], Estimated]
) -> tuple[Options, RunParameters]:
    """Say what models would be called and what it costs, ask, and write down what the yes needs; else as they were."""
    if parameters.models and order.calls != "replay":
        found = estimate()
        pending = {row.role for row in found.rows if row.calls}
        yes = confirm_calls({"": found}, lambda: ensure_keys(parameters, pending), parameters.confirm_cost)
        parameters = parameters.model_copy(update={"confirm_cost": yes})
    if order.keep_models:
        order = replace(order, models=str(write_text(order.folder / MODELS, read_text(Path(order.models)))))
        parameters = parameters.model_copy(update={"models": order.models})
    return order, parameters


def reader_name(parameters: RunParameters) -> str:
    """The backbone's name in the models file, or `offline` of the stand-in: it names folders."""
    if parameters.models and parameters.backbone == STAND_IN:
        raise UserError(f"{parameters.models}: a reader is called 'offline', as the stand-in is; give it another name.")
    return parameters.backbone if parameters.models else STAND_IN


def counted(reasons: Iterable[str]) -> dict[str, int]:
    """How often each reason occurs, by its words."""
    return dict(sorted(Counter(reasons).items()))


def reader_shown(parameters: RunParameters) -> str:
    """Who answers, in words."""
    return resolved(parameters).backbone if parameters.models else OFFLINE_NAME


def outcome_line(arm: str, held: Outcome, units: str, *more: str) -> str:
    """One arm's outcome: about how many it was asked, what is missing and why; then `more`."""
    notes = [f"{sum(held.unscored.values())} unscored"] if held.unscored else []
    notes += [f"{held.gaps} from a memory that lacks a reply of its model"] if held.gaps else []
    return "; ".join([f"  {arm}: {held.answers} answers of {held.n} {units}", *notes, *more])
