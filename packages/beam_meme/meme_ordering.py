"""`beamlib meme run`: an order checked, its cost shown, memories and the reader asked, the results written.

The one place of running that reads episode files, in which gold lies too: of each it hands on the episode alone, and to
the ceiling the ids of messages.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from beam_meme.episode_files import load_episodes
from beam_meme.episode_gold import LoadedEpisode
from beam_meme.episodes import Episode
from beam_meme.gold_evidence import evidence_of
from beam_meme.meme_asking import CEILING, Ran, estimate_episodes, run_episodes
from beam_meme.meme_memories import MEMORIES, MemeMemory, parse_memories
from beam_own.own_memory import check_own_memory
from beamlib.cli.spending import agreed
from beamlib.errors import UserError
from beamlib.evaluate.calling import ensure_keys, resolved
from beamlib.files import read_text, write_text
from beamlib.llm.endpoints import MODELS, keys_kept_out
from beamlib.llm.model import OFFLINE_NAME
from beamlib.llm.prompts import check_overrides
from beamlib.llm.stored_model import Mode
from beamlib.params import RunParameters, load_parameters
from beamlib.places import PARAMS
from beamlib.text import count, shell_command

_OPTIONS = {
    "data": "--data", "run": "--name", "conversations": "--episodes", "own_memory": "--memory", "models": "--models",
    "backbone": "--backbone", "calls": "--calls", "confirm_cost": "--yes", "prompts": "--prompts",
}  # fmt: skip
"""Parameters that options of their own set: `--set` would be overruled by these without a word."""

_NOT_HERE = frozenset({"size", "memorycode", "meme"})


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line asked for.

    `data`: a file or folder of episodes in the released layout, of one `variant` if that is named. `folder`: the run
    folder, mostly `runs/<name>`. `memories`: their names, all where empty (`own` only with a `memory`, as
    `file.py:Class`). `models`: a models file, empty for the stand-in (`keep_models` copies it into the run folder once
    there is a yes). `episodes`: at most so many of each domain, 0 for all. `settings` replaces single parameters.
    """

    data: Path
    folder: Path
    variant: str = ""
    memories: Sequence[str] = ()
    models: str = ""
    backbone: str = ""
    calls: str = "record"
    memory: str = ""
    prompts: Path | None = None
    episodes: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    yes: bool = False
    quiet: bool = False
    keep_models: bool = False


def run_memories(order: RunOptions) -> Ran:
    """Answer what was ordered and say where the results lie; with models nothing is called before a yes."""
    arms = _memories(order)
    parameters = parameters_of(order)
    loaded = load_episodes(order.data, order.variant)
    variant = variant_of(loaded)
    episodes = chosen([one.episode for one in loaded], order.episodes)
    evidence = evidence_for(loaded, episodes) if CEILING in arms else {}
    if parameters.models and order.calls != "replay":
        found = estimate_episodes(episodes, arms, parameters, evidence=evidence, variant=variant, quiet=order.quiet)
        pending = {row.role for row in found.rows if row.calls}
        yes = agreed({"": found}, lambda: ensure_keys(parameters, pending), parameters.confirm_cost)
        parameters = parameters.model_copy(update={"confirm_cost": yes})
    if order.keep_models:
        order = replace(order, models=str(write_text(order.folder / MODELS, read_text(Path(order.models)))))
        parameters = parameters.model_copy(update={"models": order.models})
    reader = resolved(parameters).backbone if parameters.models else OFFLINE_NAME
    print(f"MEME: {len(episodes)} of {count(len(loaded), 'episode')}; reader: {reader}; memories: {', '.join(arms)}")
    started = time.monotonic()
    with keys_kept_out(order.folder, parameters.models):
        ran = run_episodes(
            episodes,
            arms,
            parameters,
            evidence=evidence,
            variant=variant,
            known=[one.episode for one in loaded],
            quiet=order.quiet,
            command=recording_command(order),
        )
    print("\n".join(_line(arm, ran) for arm in arms))
    print(f"{time.monotonic() - started:.0f} s; score them with: {_scoring_command(order)}")
    return ran


def chosen(episodes: Sequence[Episode], most: int) -> list[Episode]:
    """At most so many episodes of each domain, in the order of the data; 0 for all."""
    if not most:
        return list(episodes)
    groups: dict[str, list[Episode]] = {}
    for one in episodes:
        groups.setdefault(one.domain, []).append(one)
    taken = {one.id for group in groups.values() for one in group[:most]}
    return [one for one in episodes if one.id in taken]


def variant_of(loaded: Sequence[LoadedEpisode]) -> str:
    """The variant that all episodes are of; `UserError` where there are several, or no episodes at all."""
    variants = sorted({str(one.variant) for one in loaded})
    if len(variants) != 1:
        found = f"holds {', '.join(variants)}" if variants else "holds no episode"
        raise UserError(f"--data: {found}; name a file of one variant, or choose one with --variant.")
    return variants[0]


def evidence_for(loaded: Sequence[LoadedEpisode], episodes: Sequence[Episode]) -> dict[str, tuple[int, ...]]:
    """What the ceiling is handed: message ids by question, for these episodes."""
    wanted = {one.id for one in episodes}
    found: dict[str, tuple[int, ...]] = {}
    for one in loaded:
        if one.episode.id in wanted:
            found |= evidence_of(one)
    return found


def parameters_of(order: RunOptions) -> RunParameters:
    """The parameters that an order comes to, checked; what is wrong with them is a `UserError` in one sentence."""
    if order.calls not in get_args(Mode):
        raise UserError(f"--calls: {order.calls!r:.80} does not exist; choose one of {', '.join(get_args(Mode))}.")
    if order.episodes < 0:
        raise UserError(f"--episodes: {order.episodes} is less than 0; give 0 for all.")
    for name in order.settings:
        if name in _OPTIONS:
            raise UserError(f"--set {name}: this parameter has an option of its own; give {_OPTIONS[name]}.")
        if name in _NOT_HERE:
            raise UserError(f"--set {name}: it bears on nothing in MEME; leave it out.")
    if order.backbone and not order.models:
        raise UserError("--backbone: name the models file that holds it with --models.")
    if order.prompts is not None:
        check_overrides(order.prompts)
    parameters = load_parameters(PARAMS / "100k.yaml", **{**order.settings, **_given(order)})
    if parameters.own_memory:
        check_own_memory(parameters.own_memory, parameters.memory_timeout)  # a mistake shows before anything runs
    return parameters


def _given(order: RunOptions) -> dict[str, Any]:
    """The parameters that options of their own set; those of the other benchmarks' data are empty."""
    return {
        "data": "",
        "memorycode": "",
        "meme": "",
        "run": str(order.folder.absolute()),
        "own_memory": str(Path(order.memory).absolute()) if order.memory else "",
        "models": order.models,
        "backbone": order.backbone,
        "calls": order.calls,
        "prompts": str(order.prompts.absolute()) if order.prompts else "",
        **({"confirm_cost": True} if order.yes else {}),
    }


def recording_command(order: RunOptions) -> str:
    """The command line that records what `order` needs, and nothing else; what is empty is left out."""
    given = {
        "--data": order.data, "--variant": order.variant, "--name": order.folder.name,
        "--memories": ",".join(order.memories), "--models": order.models, "--backbone": order.backbone,
        "--memory": order.memory, "--prompts": order.prompts or "", "--episodes": order.episodes or "",
    }  # fmt: skip
    return shell_command("beamlib meme run", given, order.settings, ["--calls", "record", "--yes"])


def _memories(order: RunOptions) -> tuple[MemeMemory, ...]:
    if not order.memories:
        return tuple(memory for memory in MEMORIES if memory != "own" or order.memory)
    found = parse_memories(order.memories)
    if ("own" in found) != bool(order.memory):
        raise UserError("--memory: the memory own and a class of yours, as file.py:Class, go together; give both.")
    return found


def _line(arm: MemeMemory, ran: Ran) -> str:
    """One memory's outcome: whom it was asked about, what is missing and why."""
    held = ran.manifests[arm]
    notes = [f"{sum(held.unscored.values())} unscored"] if held.unscored else []
    notes += [f"{held.gaps} from a memory that lacks a reply of its model"] if held.gaps else []
    spent = ", ".join(f"{stage} {one.input_tokens + one.output_tokens:,}" for stage, one in held.spent.items())
    return (
        f"  {arm}: {held.answers} answers of {held.n} episodes{''.join(f'; {note}' for note in notes)}; tokens: {spent}"
    )


def _scoring_command(order: RunOptions) -> str:
    given = {"--data": order.data, "--variant": order.variant, "--name": order.folder.name}
    return shell_command("beamlib meme score", given)
