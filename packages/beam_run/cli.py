"""The command line: `beamlib --help`. Wrong input prints one sentence and exits with code 2."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beam_commands.options import (
    DATA,
    FIELD_PANEL,
    MAIN_JOB,
    RESULTS,
    ClusterName,
    Csv,
    Json,
    JudgeAnyway,
    Long,
    MemoryTimeout,
    ModelOptions,
    NoAdmission,
    PerAbility,
    PresetName,
    ProtocolOption,
    Sizes,
    SkipBroken,
    check_run_name,
    listed,
    named_settings,
    options_from,
)
from beam_run.ending import conclude
from beam_run.facts import facts
from beam_run.measuring import evidence, measure
from beam_run.plugins import register_packages
from beamlib.errors import UserError
from beamlib.files import temporary_folder, to_json
from beamlib.plugins import plugins, register

if TYPE_CHECKING:
    from beam_run.job import MainJob

COMMANDS = (
    "beam_page.cli",
    "beam_field.cli",
    "beam_claims.cli",
    "beam_generate.cli",
    "beam_memorycode.cli",
    "beam_meme.cli",
)
"""Modules with commands, a line each: `add_to(app, data)` adds them to `beamlib` and to `beamlib data`."""


def _use_cluster(given: str) -> None:
    from beam_run.cluster import use_cluster

    use_cluster(given)


register_packages()
register(replace(plugins(), use_cluster=_use_cluster))

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
data_app = typer.Typer(no_args_is_help=True, help="Look at BEAM conversations, or fetch them.")
calls_app = typer.Typer(no_args_is_help=True, help="Publish the stored model calls of a run, or check them.")


@dataclass(frozen=True, kw_only=True)
class MainArguments(ModelOptions):
    """The options of the main job, as they are typed."""

    data: Annotated[Path | None, typer.Option("--data", envvar="BEAM_DATA", help="Folder of BEAM conversations.")] = (
        None
    )
    sizes: Sizes = ""
    name: Annotated[str, typer.Option("--name", help="Name of the run folder under runs/.")] = "default"
    conversations: Annotated[
        int, typer.Option("--conversations", min=0, help="At most this many per tier; 0 for all.")
    ] = 0
    per_ability: PerAbility = 0
    protocol: ProtocolOption = "paper"
    authors: Annotated[
        Path | None, typer.Option("--authors", help="Models file whose authors write conversations.")
    ] = None
    memory: Annotated[
        str, typer.Option("--memory", help="More: file.py:Class, or names with commas (docs/memories.md).")
    ] = ""
    memory_timeout: MemoryTimeout = None
    memorycode: Annotated[
        Path | None,
        typer.Option("--memorycode", envvar="MEMORYCODE_DATA", help="Folder of MemoryCode dialogues (notebook 10)."),
    ] = None
    meme: Annotated[
        Path | None, typer.Option("--meme", envvar="MEME_DATA", help="File or folder of MEME episodes (notebook 11).")
    ] = None
    download: Annotated[bool, typer.Option("--download", help="Fetch the released data first.")] = False
    backbones: Annotated[str, typer.Option("--backbones", help="Readers of the models file; by default its first.")] = (
        ""
    )
    preset: PresetName = ""
    skip_broken: SkipBroken = False
    cluster: ClusterName = ""
    step: Annotated[
        str, typer.Option("--step", help="Only one: check (print the cost), conversations, evaluate, notebooks, page.")
    ] = ""
    no_admission: NoAdmission = False
    judge_anyway: JudgeAnyway = False
    figures: Annotated[
        str, typer.Option("--figures", help="Of the paper's Figures 3, 4 and 5, draw these and do nothing else.")
    ] = ""

    def parse(self) -> MainJob:
        """Check what can be checked without reading anything."""
        from beam_run.job import MainJob

        suites = {name: given for name in ("memorycode", "meme") if (given := getattr(self, name))}
        settings: dict[str, object] = named_settings(self.settings)
        settings |= {"skip_broken": True} if self.skip_broken else {}
        settings |= {"per_ability": self.per_ability} if self.per_ability else {}
        settings |= {"memory_timeout": self.memory_timeout} if self.memory_timeout else {}
        return MainJob(
            self.data, listed(self.sizes), self.name, self.conversations, self.protocol, self.memory, suites,
            self.download, self.endpoints, listed(self.backbones), self.calls, self.prompts, self.yes, settings,
            self.preset or "default", self.authors, not self.no_admission, self.judge_anyway,
        )  # fmt: skip


@app.command("run-all", rich_help_panel=MAIN_JOB)
@options_from(MainArguments)
def run_all(given: MainArguments) -> None:
    """Run the main job of run_all.sh, all steps or one."""
    if given.figures:
        from beam_run.together import draw_figures

        return draw_figures(given.name, listed(given.figures), given.protocol)
    from beam_run.steps import run
    from beamlib.llm.spending import set_spending_limit

    set_spending_limit(given.max_cost)
    _use_cluster(given.cluster)
    run(given.parse(), given.step)


@app.command(rich_help_panel=RESULTS)
def tables(
    run: Annotated[Path, typer.Argument(help="A run folder, or a part of one, for example runs/default.")],
    protocol: ProtocolOption = "paper",
    parts: Annotated[str, typer.Option(help="Parts of RUN to use, such as 100k,500k-nano; by default all.")] = "",
    base: Annotated[str, typer.Option(help="The arm that is LIGHT in Table 1; by default that with RAG's K.")] = "",
    mixed: Annotated[bool, typer.Option("--mixed", help="Join parts whose judges or data differ.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the paired tests.")] = 0,
    as_json: Json = False,
) -> None:
    """Join all sizes and backbones of RUN: Tables 1, 8, 9, 10, Figures 3, 4, 5; no call is made.

    They are written to RUN/tables/all and RUN/figures/all. Cells without results are empty; captions name what is
    left out.
    """
    from beam_run.assembly import ALL, AssemblyOptions, assemble
    from beamlib.evaluate.beam_records import run_and_part
    from beamlib.places import refuse_data

    refuse_data(run)
    run, part = run_and_part(run)
    if part and parts:
        raise UserError(f"--parts: {run / part} is a part already; name the run {run}, or leave --parts out.")
    chosen = (part,) if part else listed(parts)
    joined = assemble(run, AssemblyOptions(protocol, seed, parts=chosen, base=base, allow_mixed=mixed))
    if as_json:
        print(to_json({name: table.records() for name, table in joined.items()}, indent=2))
    else:
        print("\n".join([*(table.to_text() for table in joined.values()), f"wrote {run}/tables/{ALL}"]))


@app.command("preflight", rich_help_panel=MAIN_JOB)
def compare_parameters(
    params: Annotated[Path, typer.Argument(help="Folder of parameter files.")] = Path("params"),
) -> None:
    """Compare the parameter files with what the notebooks accept."""
    from beam_run.executing import preflight

    for line in preflight(params):
        print(line)


@dataclass(frozen=True, kw_only=True)
class EstimateArguments(ModelOptions):
    """The options of `beamlib estimate`."""

    params: Annotated[Path, typer.Argument(help="Parameter file, for example params/100k.yaml.")]
    data: Annotated[Path | None, typer.Option("--data", envvar="BEAM_DATA", help="Folder of BEAM conversations.")] = (
        None
    )
    name: Annotated[str, typer.Option("--name", help="Name of the run folder under runs/.")] = "default"
    backbone: Annotated[
        str, typer.Option("--backbone", help="Which reader of the models file; by default its first.")
    ] = ""
    conversations: Annotated[
        int | None, typer.Option("--conversations", min=0, help="At most this many; 0 for all.")
    ] = None
    per_ability: PerAbility = 0
    preset: PresetName = ""
    skip_broken: SkipBroken = False
    no_admission: NoAdmission = False
    as_json: Json = False


@app.command("estimate", rich_help_panel=MAIN_JOB)
@options_from(EstimateArguments, ("calls", "max_cost", "yes"))
def estimate_cost(given: EstimateArguments) -> None:
    """Estimate what a run would call and cost; no request is sent.

    Where PARAMS names no models file, models.yaml in its folder is used.
    """
    from beam_commands.estimate import estimate
    from beamlib.evaluate.arms import arms_of, experiments
    from beamlib.llm.endpoints import MODELS
    from beamlib.params import load_parameters
    from beamlib.places import RUNS, in_root
    from beamlib.report.printed import print_report

    check_run_name(given.name)
    values: dict[str, object] = dict(named_settings(given.settings))
    for option, parameter in (("--name", "run"), ("--preset", "preset")):
        if parameter in values:
            raise UserError(f"--set {parameter}: this parameter has an option of its own; give {option}.")
    values |= {} if given.conversations is None else {"conversations": given.conversations}
    values |= {"skip_broken": True} if given.skip_broken else {}
    values |= {"per_ability": given.per_ability} if given.per_ability else {}
    values |= {"preset": given.preset} if given.preset else {}
    parameters = load_parameters(given.params, **values)
    default = given.params.parent / MODELS
    with temporary_folder("beamlib-estimate-") as folder:  # not over the models file of the run
        usual = parameters.models or (str(default.absolute()) if default.exists() else "")
        values |= {"run": str(RUNS / given.name), "backbone": given.backbone or parameters.backbone}
        values |= {"models": in_root(given.endpoints.path(folder, usual))}
        values |= {"data": str(given.data.absolute())} if given.data else {}
        values |= {"prompts": str(given.prompts.absolute())} if given.prompts else {}
        parameters = load_parameters(given.params, **values)
        if not parameters.data:
            raise UserError(f"{given.params}: it names no data; give a folder of conversations with --data.")
        arms = arms_of(parameters, experiments(parameters))
        costs = estimate(parameters, arms, admission=not given.no_admission)
    if given.as_json:
        print(to_json(costs.model_dump(mode="json"), indent=2))
    else:
        print_report(costs.render())


@dataclass(frozen=True, kw_only=True)
class EndpointArguments(ModelOptions):
    """The options of `beamlib endpoints`."""

    longest: Annotated[
        int, typer.Option("--longest", min=1_000, help="Tokens of the long request, at most the endpoint's window.")
    ] = 8_000
    as_json: Json = False


@app.command("endpoints", rich_help_panel=MAIN_JOB)
@options_from(EndpointArguments, ("calls", "prompts", "settings", "max_cost"))
def examine(given: EndpointArguments) -> None:
    """Ask the endpoints of a models file known questions; measure their speed, limits and verdicts, without a run."""
    from beam_run.endpoint_report import report_endpoints

    report_endpoints(given.endpoints, given.longest, yes=given.yes, as_json=given.as_json)


@app.command(rich_help_panel=RESULTS)
def score(
    run: Annotated[Path, typer.Argument(help="A run folder, or one arm's folder in it.")],
    protocol: ProtocolOption = "paper",
    as_is: Annotated[bool, typer.Option("--as-is", help="Score judgements that no manifest vouches for.")] = False,
    long: Long = False,
    as_csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Score the stored judgements of RUN by a protocol, arms by abilities; no call is made."""
    from beamlib.report.printed import print_by_ability
    from beamlib.report.results import score_folders

    rows = score_folders(run, protocol, as_is=as_is)
    print_by_ability(rows, "mean", ("size", "arm"), long=long, as_csv=as_csv, as_json=as_json)


@app.command(rich_help_panel=RESULTS)
def frames(
    run: Annotated[Path, typer.Argument(help="A run folder, or a part or an arm of one.")],
    out: Annotated[Path, typer.Argument(help="Folder that the files are written to.")],
    data: Annotated[Path | None, typer.Option("--data", help="BEAM conversations, where RUN made none.")] = None,
    memorycode: Annotated[
        Path | None, typer.Option("--memorycode", help="MemoryCode dialogues, where RUN made none.")
    ] = None,
    meme: Annotated[Path | None, typer.Option("--meme", help="MEME episodes, where RUN made none.")] = None,
) -> None:
    """Write the records of RUN as parquet files, one per data frame (docs/dataframes.md); no call is made."""
    import beamlib
    from beamlib.places import refuse_data

    refuse_data(out, parquet=True)
    opened = beamlib.open_run(run, data or "", memorycode=memorycode or "", meme=meme or "")
    for file in opened.write(out):
        print(f"wrote {file}")


@app.command(rich_help_panel=RESULTS)
def latency(
    run: Annotated[Path, typer.Argument(help="A run folder, or a part or an arm of one.")], as_json: Json = False
) -> None:
    """Print how long memories took to read a conversation and to recall for a question, with calls and cost."""
    from beam_commands.latency_table import latency_table

    table = latency_table(run)
    if table is None:
        raise UserError(f"{run}: nothing was timed in it: its answers are older, imported, or came from an archive.")
    print(to_json(table.records(), indent=2) if as_json else table.to_text())


app.command(rich_help_panel=RESULTS)(facts)


@data_app.command("download")
def data_download(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path("data"),
    sizes: Sizes = "",
) -> None:
    """Fetch the released data sets at the pinned revision and verify their checksums."""
    from beamlib.data.conversations import SIZES, parse_size
    from beamlib.data.hub import download

    print(download(folder, [parse_size(size) for size in listed(sizes)] or SIZES))


@calls_app.command("export")
def calls_export(
    run: Annotated[Path, typer.Argument(help="A run folder, for example runs/nano.")],
    archive: Annotated[Path, typer.Argument(help="The file to write, for example nano.tar.zst.")],
    data: Annotated[Path | None, typer.Option("--data", help="The run's data: refuse what `verify` would.")] = None,
) -> None:
    """Write the stored calls, answers and judgements of RUN into ARCHIVE (.tar.zst) with a list of hashes."""
    from beam_run.publish import publish
    from beamlib.places import refuse_data

    refuse_data(archive.parent)
    print(publish(run, archive, data))


@calls_app.command("import")
def calls_import(
    archive: Annotated[Path, typer.Argument(help="An archive of `calls export`.")],
    run: Annotated[Path, typer.Argument(help="The run folder that its calls go into.")],
) -> None:
    """Check ARCHIVE and merge its calls into the run folder RUN, so that it can be replayed."""
    from beam_run.archive import import_calls
    from beam_run.publish import described
    from beamlib.places import refuse_data

    refuse_data(run)
    print(f"{run}: every hash agrees; {described(import_calls(archive, run))}")


@calls_app.command("verify")
def calls_verify(
    archive: Annotated[Path, typer.Argument(help="An archive of `calls export`.")],
    data: Annotated[Path | None, typer.Option("--data", envvar="BEAM_DATA", help="Also replay it on these.")] = None,
) -> None:
    """Check every hash in ARCHIVE; with --data, replay it without calls and compare answers and judgements."""
    from beam_run.publish import verify

    print(verify(archive, data))


app.command(rich_help_panel=RESULTS)(evidence)
app.command(rich_help_panel=RESULTS)(measure)
for _module in COMMANDS:
    import_module(_module).add_to(app, data_app)
app.add_typer(data_app, name="data", rich_help_panel=DATA)
app.add_typer(calls_app, name="calls", rich_help_panel=FIELD_PANEL)


def main() -> None:
    """Run a command. Errors that the user can correct become one line and an exit code."""
    conclude(app)
