"""`beamlib generate`: an order checked, its cost shown, the conversations written, and what was repaired counted."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from beamlib.benchmark.sources import parse_size
from beamlib.errors import UserError
from beamlib.generate.casting import Writing
from beamlib.generate.dialogue import Reach
from beamlib.generate.domains import parse_domain
from beamlib.generate.estimate import estimate_writing
from beamlib.generate.pipeline import Commission, repairs_of
from beamlib.generate.producing import produce
from beamlib.models.client import EndpointModel
from beamlib.models.endpoints import Author, load_models
from beamlib.models.offline import OFFLINE_NAME
from beamlib.models.prompts import check_overrides
from beamlib.models.store import Mode


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asked for; see `beamlib generate --help`."""

    out: Path
    sizes: Sequence[str]
    conversations: int
    seed: int
    domain: str
    title: str
    strategy: str
    reach: Any
    models: Path | None
    calls: Any
    prompts: Path | None
    workers: int
    yes: bool


def fulfil(order: Order) -> None:
    """Write what was ordered; with models nothing is called before `--yes`."""
    sizes = [parse_size(size) for size in order.sizes]
    if not sizes:
        raise UserError("--size: name at least one of 100k, 500k, 1m, 10m.")
    for option, value, known in (("--reach", order.reach, get_args(Reach)), ("--calls", order.calls, get_args(Mode))):
        if value not in known:
            raise UserError(f"{option}: {value!r:.80} does not exist; choose one of {', '.join(known)}.")
    if order.domain:
        parse_domain(order.domain)
    commissions = [
        Commission(size, number, order.seed, order.domain, order.title, order.strategy)
        for size in sizes
        for number in range(1, order.conversations + 1)
    ]
    for commission in commissions:
        commission.story()  # a mistake in the order should show before anything is written
    writing = _writing(order)
    if writing.models and order.calls != "replay":
        print(estimate_writing(commissions, writing).render())
        if not order.yes:
            raise UserError("nothing was called: add --yes to spend what the estimate above says.")
    started = time.monotonic()
    author = writing.name("speaker") if writing.models else OFFLINE_NAME
    print(f"author: {author}")
    for done in produce(commissions, order.out, writing, order.workers):
        counts = {stage: len(rows) for stage, rows in repairs_of(done.folder).items() if rows}
        noted = ", ".join(f"{stage} {count}" for stage, count in counts.items()) or "none"
        state = "written" if done.worked else "was there"
        print(f"{done.folder}: {state}; repaired, asked again or dropped: {noted} (repairs-*.jsonl)")
    print(f"{len(commissions)} conversation(s) in {time.monotonic() - started:.0f} s")


def _writing(order: Order) -> Writing:
    if order.models is None:
        for option, given in (("--prompts", order.prompts is not None), ("--calls", order.calls != "record")):
            if given:
                raise UserError(f"{option}: the offline author asks no model; name a models file by --models as well.")
        return Writing(reach=order.reach)
    found = load_models(order.models)
    for role in get_args(Author):
        model = EndpointModel(role, found.author(role))
        if order.yes and order.calls != "replay":
            model.ready()  # a key that is missing should show before another role's calls are paid for
    if order.prompts is not None:
        check_overrides(order.prompts)
    return Writing(
        models=str(order.models.absolute()),
        prompts=str(order.prompts.absolute()) if order.prompts else "",
        calls=order.calls,
        confirmed=order.yes,
        command=_command(order),
        reach=order.reach,
    )


def _command(order: Order) -> str:
    """The command line that records what `order` needs; what is empty is left out."""
    given = {
        "--size": ",".join(order.sizes), "--conversations": order.conversations, "--seed": order.seed,
        "--domain": order.domain, "--title": order.title, "--strategy": order.strategy, "--reach": order.reach,
        "--models": order.models, "--prompts": order.prompts or "", "--out": order.out,
    }  # fmt: skip
    words = [word for option, value in given.items() if value != "" for word in (option, str(value))]
    return shlex.join(["beamlib", "generate", *words, "--yes"])
