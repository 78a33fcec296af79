"""`beamlib meme run`: an order checked, its cost shown, memories and the reader asked, the results written.

The one place of running that reads episode files, in which gold lies too: of each it hands on the episode alone, and to
the ceiling the ids of messages.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from beam_meme.episode_files import load_episodes
from beam_meme.episode_gold import LoadedEpisode
from beam_meme.episodes import Episode
from beam_meme.gold_evidence import evidence_of
from beam_meme.meme_asking import CEILING, Ran, estimate_episodes, run_episodes
from beam_meme.meme_memories import MEMORIES, MemeMemory, parse_memories
from beam_suite.orders import SuiteOptions, check_own, checked_parameters, confirmed, outcome_line, reader_shown
from beamlib.errors import UserError
from beamlib.llm.spending import guard_run
from beamlib.params import RunParameters
from beamlib.text import count, shell_command

_FOREIGN = ("size", "memorycode", "meme")


@dataclass(frozen=True, slots=True)
class RunOptions(SuiteOptions):
    """What the command line asked for, of episodes in the released layout, of one `variant` if that is named.

    `memories`: their names, all where empty (`own` only with a `memory`). `most`: of each domain.
    """

    variant: str = ""
    memories: Sequence[str] = ()


def run_memories(order: RunOptions) -> Ran:
    """Answer what was ordered and say where the results lie; with models nothing is called before a yes."""
    arms = _memories(order)
    parameters = parameters_of(order)
    loaded = load_episodes(order.data, order.variant)
    variant = variant_of(loaded)
    episodes = chosen([one.episode for one in loaded], order.most)
    evidence = evidence_for(loaded, episodes) if CEILING in arms else {}
    order, parameters = confirmed(
        order,
        parameters,
        lambda: estimate_episodes(episodes, arms, parameters, evidence=evidence, variant=variant, quiet=order.quiet),
    )
    reader = reader_shown(parameters)
    print(f"MEME: {len(episodes)} of {count(len(loaded), 'episode')}; reader: {reader}; memories: {', '.join(arms)}")
    started = time.monotonic()
    with guard_run(order.folder, parameters.models):
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
    return checked_parameters(order, "MEME", "--episodes", _FOREIGN, {"data": "", "memorycode": "", "meme": ""})


def recording_command(order: RunOptions) -> str:
    """The command line that records what `order` needs, and nothing else; what is empty is left out."""
    given = {
        "--data": order.data, "--variant": order.variant, "--name": order.folder.name,
        "--memories": ",".join(order.memories), "--models": order.models, "--backbone": order.backbone,
        "--memory": order.memory, "--prompts": order.prompts or "", "--episodes": order.most or "",
    }  # fmt: skip
    return shell_command("beamlib meme run", given, order.settings, ["--calls", "record", "--yes"])


def _memories(order: RunOptions) -> tuple[MemeMemory, ...]:
    if not order.memories:
        return tuple(memory for memory in MEMORIES if memory != "own" or order.memory)
    found = parse_memories(order.memories)
    check_own(order, found, "memory")
    return found


def _line(arm: MemeMemory, ran: Ran) -> str:
    """One memory's outcome: whom it was asked about, what is missing and why."""
    held = ran.manifests[arm]
    spent = ", ".join(f"{stage} {one.input_tokens + one.output_tokens:,}" for stage, one in held.spent.items())
    return outcome_line(arm, held, "episodes", f"tokens: {spent}")


def _scoring_command(order: RunOptions) -> str:
    given = {"--data": order.data, "--variant": order.variant, "--name": order.folder.name}
    return shell_command("beamlib meme score", given)
