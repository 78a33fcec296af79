"""`beamlib generate`: options checked, their cost shown, conversations written, and what was repaired counted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from beam_generate.author_costs import estimate_generation
from beam_generate.casting import GenerationConfig
from beam_generate.of_run import NOT_WRITTEN, OPTIONS, SETTINGS, config_of, generate_all
from beam_generate.pipeline import ConversationSpec, repairs_of, unfinished
from beam_generate.seeds import parse_domain
from beam_generate.titles import read_titles
from beamlib.confirmation import confirm_calls
from beamlib.data.sources import parse_size, refuse_data
from beamlib.errors import UserError
from beamlib.llm.prompts import check_overrides
from beamlib.llm.spending import keys_kept_out
from beamlib.params import RunParameters, usual_parameters
from beamlib.text import shell_command


@dataclass(frozen=True, slots=True)
class GenerationOptions:
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


def run(options: GenerationOptions) -> None:
    """Write what was asked for; with models nothing is called before the estimate has a yes."""
    wanted = options.parameters()
    if wanted[0].domain:
        parse_domain(wanted[0].domain)
    topics = read_titles(options.titles) if options.titles else [None]
    if options.titles and (wanted[0].domain or wanted[0].title):
        raise UserError("--titles: the file names domains and titles; leave out --domain and --title.")
    specs = [
        ConversationSpec(parameters, number, topics[(number - 1) % len(topics)])
        for parameters in wanted
        for number in range(1, options.conversations + 1)
    ]
    refuse_data(options.out)
    writing = _writing(options, wanted[0])
    left = unfinished(specs, options.out, writing)  # a mistake in the options shows before anything is written
    if writing.models and writing.calls != "replay":
        priced = {"": estimate_generation(left, writing)}
        writing = replace(writing, confirmed=confirm_calls(priced, writing.ready, writing.confirmed))
    started = time.monotonic()
    print(f"author: {writing.names}")
    with keys_kept_out(options.out, writing.models):
        finished = generate_all(specs, options.out, writing, wanted[0].workers)
    for done in finished:
        counts = {stage: len(rows) for stage, rows in repairs_of(done.folder).items() if rows}
        noted = ", ".join(f"{stage} {count}" for stage, count in counts.items()) or "none"
        state = "written" if done.worked else "was there"
        print(f"{done.folder}: {state}; repaired, asked again or dropped: {noted} (repairs-*.jsonl)")
    print(f"{len(specs)} conversation(s) in {time.monotonic() - started:.0f} s")


def _writing(options: GenerationOptions, parameters: RunParameters) -> GenerationConfig:
    """How the conversations are written; a mistake in the models, prompts or keys is a `UserError`."""
    if not parameters.authors:
        for option, given in (("--prompts", parameters.prompts), ("--calls", parameters.calls != "record")):
            if given:
                raise UserError(f"{option}: the offline author asks no model; name a models file by --models as well.")
    writing = replace(config_of(parameters), command=_command(options))
    if not writing.models:
        return writing
    if writing.prompts:
        check_overrides(Path(writing.prompts))
    return writing


def _command(asked: GenerationOptions) -> str:
    """The command line that records what `asked` need."""
    values = {name: value for name, value in (asked.values or {}).items() if name not in NOT_WRITTEN}
    given = {
        "--size": ",".join(asked.sizes), "--conversations": asked.conversations, "--out": asked.out,
        **{OPTIONS[name]: value for name, value in values.items()}, "--titles": asked.titles,
    }  # fmt: skip
    return shell_command("beamlib generate", given, asked.settings, ["--yes"])
