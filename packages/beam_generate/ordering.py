"""`beamlib generate`: an order checked, its cost shown, the conversations written, and what was repaired counted."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from beam_generate.casting import Writing
from beam_generate.domains import parse_domain
from beam_generate.estimate import estimate_writing
from beam_generate.pipeline import Commission, repairs_of, unfinished
from beam_generate.producing import produce
from beam_generate.titles import read_titles
from beam_generate.working import OPTIONS, SETTINGS, writing_of
from beamlib.cli.arguments import agreed
from beamlib.data.sources import parse_size, refuse_data
from beamlib.errors import UserError
from beamlib.files import to_json
from beamlib.llm.endpoints import keys_kept_out
from beamlib.llm.prompts import check_overrides
from beamlib.params import RunParameters, usual_parameters


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asked for; see `beamlib generate --help`.

    `values` are the parameters that options of their own set, by name; `settings` those of `--set`. What neither names
    is as in `params/<size>.yaml`.
    """

    out: Path
    sizes: Sequence[str]
    conversations: int = 1
    values: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] | None = None
    titles: Path | None = None

    def parameters(self) -> list[RunParameters]:
        """The parameters of each size."""
        for name in self.settings or {}:
            if name in OPTIONS:
                raise UserError(f"--set {name}: this parameter has an option of its own; give {OPTIONS[name]}.")
            if name not in SETTINGS:
                known = ", ".join(SETTINGS)
                raise UserError(f"--set {name}: generation has no such parameter; it has {known}.")
        sizes = [parse_size(size) for size in self.sizes]
        if not sizes:
            raise UserError("--size: name at least one of 100k, 500k, 1m, 10m.")
        given = {**(self.settings or {}), **(self.values or {})}
        return [usual_parameters(size, **given) for size in sizes]


def fulfil(order: Order) -> None:
    """Write what was ordered; with models nothing is called before the estimate has a yes."""
    wanted = order.parameters()
    if wanted[0].domain:
        parse_domain(wanted[0].domain)
    topics = read_titles(order.titles) if order.titles else [None]
    if order.titles and (wanted[0].domain or wanted[0].title):
        raise UserError("--titles: the file names domains and titles; leave out --domain and --title.")
    commissions = [
        Commission(parameters, number, topics[(number - 1) % len(topics)])
        for parameters in wanted
        for number in range(1, order.conversations + 1)
    ]
    refuse_data(order.out)
    writing = _writing(order, wanted[0])
    left = unfinished(commissions, order.out, writing)  # a mistake in the order shows before anything is written
    if writing.models and writing.calls != "replay":
        print(estimate_writing(left, writing).render())
        if left:
            writing = replace(writing, confirmed=agreed(writing.confirmed))
            writing.ready()
    started = time.monotonic()
    print(f"author: {writing.names}")
    with keys_kept_out(order.out, writing.models):
        finished = produce(commissions, order.out, writing, wanted[0].workers)
    for done in finished:
        counts = {stage: len(rows) for stage, rows in repairs_of(done.folder).items() if rows}
        noted = ", ".join(f"{stage} {count}" for stage, count in counts.items()) or "none"
        state = "written" if done.worked else "was there"
        print(f"{done.folder}: {state}; repaired, asked again or dropped: {noted} (repairs-*.jsonl)")
    print(f"{len(commissions)} conversation(s) in {time.monotonic() - started:.0f} s")


def _writing(order: Order, parameters: RunParameters) -> Writing:
    """How the conversations are written; a mistake in the models, prompts or keys is a `UserError`."""
    if not parameters.authors:
        for option, given in (("--prompts", parameters.prompts), ("--calls", parameters.calls != "record")):
            if given:
                raise UserError(f"{option}: the offline author asks no model; name a models file by --models as well.")
    writing = replace(writing_of(parameters), command=_command(order))
    if not writing.models:
        return writing
    if writing.prompts:
        check_overrides(Path(writing.prompts))
    return writing


def _command(order: Order) -> str:
    """The command line that records what `order` needs."""
    words = ["--size", ",".join(order.sizes), "--conversations", str(order.conversations), "--out", str(order.out)]
    for name, value in (order.values or {}).items():
        words += [OPTIONS[name], str(value)] if name not in ("calls", "confirm_cost", "workers") else []
    words += ["--titles", str(order.titles)] if order.titles else []
    words += [word for name, value in (order.settings or {}).items() for word in ("--set", f"{name}={to_json(value)}")]
    return shlex.join(["beamlib", "generate", *words, "--yes"])
