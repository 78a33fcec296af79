"""The command line: `beamlib --help`. Wrong input gives one sentence and exit code 2."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beam_memorycode.cli import memorycode_app
from beamlib.cli.arguments import MemoryTimeout, listed, listed_numbers, named_settings
from beamlib.cli.ending import conclude
from beamlib.files import to_json

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
data_app = typer.Typer(no_args_is_help=True, help="Look at BEAM conversations, or fetch them.")
app.add_typer(data_app, name="data")

calls_app = typer.Typer(no_args_is_help=True, help="Publish the stored model calls of a run, or check them.")
app.add_typer(calls_app, name="calls")
app.add_typer(memorycode_app, name="memorycode")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
SkipBroken = Annotated[
    bool, typer.Option("--skip-broken", help="Leave out conversations that cannot be read; they are named and counted.")
]
Data = Annotated[Path, typer.Option("--data", envvar="BEAM_DATA", help="Folder of BEAM conversations.")]


@data_app.command("check")
def data_check(folder: Path, as_json: Json = False) -> None:
    """Count what is in FOLDER, tell changed files from released ones, and list every anomaly.

    Exit code 2 when a conversation cannot be read; a changed file that can be is an anomaly.
    """
    from beamlib.data.check import check_folder

    report = check_folder(folder)
    print(to_json(report.model_dump(mode="json"), indent=2) if as_json else report.render())
    if report.errors:
        raise SystemExit(2)


@data_app.command("audit")
def data_audit(folder: Path, as_json: Json = False) -> None:
    """Look for defective questions in FOLDER, with or without chats: eleven detectors, findings with their evidence."""
    from beam_claims.defects import audit_folder

    report = audit_folder(folder)
    print(to_json(report.model_dump(mode="json"), indent=2) if as_json else report.render())
    if report.errors:
        raise SystemExit(2)


@data_app.command("errata")
def data_errata(
    verdicts: Annotated[Path | None, typer.Option(help="CSV of published verdicts: what `drop` does to them.")] = None,
    as_json: Json = False,
) -> None:
    """The known defects of the released questions, as docs/errata.md shows them; nothing is read but the list."""
    from beamlib.data.errata import load_errata
    from beamlib.report.errata import errata_page, published_effect

    if not as_json:
        print(errata_page(verdicts), end="")
        return
    effect = {"published": published_effect(verdicts).to_dict("records")} if verdicts else {}
    print(to_json({**load_errata().model_dump(mode="json"), **effect}, indent=2))


@data_app.command("download")
def data_download(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path("data"),
    sizes: Annotated[str, typer.Option(help="Tiers to fetch.")] = "100k,500k,1m,10m",
) -> None:
    """Fetch the released data sets at the pinned revision, with checksums."""
    from beamlib.data.hub import download
    from beamlib.data.sources import parse_size

    print(download(folder, [parse_size(size) for size in listed(sizes)]))


@app.command()
def evidence(
    data: Data,
    size: Annotated[str, typer.Option(help="Tiers, separated by commas.")] = "100k",
    memory: Annotated[str, typer.Option(help="light, rag or both.")] = "light,rag",
    retriever: Annotated[str, typer.Option(help="bm25, dense, hybrid, hybrid-beam.")] = "bm25,hybrid",
    k: Annotated[str, typer.Option("--k", help="Retrieval budgets.")] = "5,10,15,20",
    skip_broken: SkipBroken = False,
    as_json: Json = False,
) -> None:
    """The share of cited messages that K recalled pairs cover: retrieval measured without any model."""
    from beamlib.data.sources import parse_size
    from beamlib.report.text import print_rows
    from beamlib.scoring.evidence import evidence_table
    from beamlib.scoring.intervals import interval_note

    sizes = [parse_size(name) for name in listed(size)]
    rows = evidence_table(
        data, sizes, listed(memory), listed(retriever), listed_numbers(k, "--k"), skip_broken=skip_broken
    )
    print_rows(rows, as_json=as_json)
    if not as_json:
        conversations = {row["size"]: row["conversations"] for row in rows if row["ability"] == "all"}
        print(*(f"Interval, {tier}: {interval_note(n)}." for tier, n in conversations.items()), sep="\n")


@app.command()
def score(
    run: Annotated[Path, typer.Argument(help="A run folder, or one arm's folder in it.")],
    protocol: Annotated[str, typer.Option(help="Scoring protocol.")] = "paper",
    as_is: Annotated[bool, typer.Option("--as-is", help="Score judgements that no manifest vouches for.")] = False,
    as_json: Json = False,
) -> None:
    """Score the stored judgements of RUN by a protocol, with intervals; no call is made."""
    from beamlib.report.results import score_folders
    from beamlib.report.text import print_rows
    from beamlib.scoring.intervals import interval_note

    rows = score_folders(run, protocol, as_is=as_is)
    print_rows(rows, as_json=as_json)
    if not as_json:
        conversations = {row["size"]: row["n_conversations"] for row in rows}  # of the average, a size's last row
        print(*(f"Interval, {size}: {interval_note(n)}." for size, n in conversations.items()), sep="\n")


@app.command()
def tables(
    run: Annotated[Path, typer.Argument(help="A run folder, for example runs/default.")],
    protocol: Annotated[str, typer.Option(help="Scoring protocol.")] = "paper",
    parts: Annotated[str, typer.Option(help="Parts of RUN to use, such as 100k,500k-nano; by default all.")] = "",
    base: Annotated[str, typer.Option(help="The arm that is LIGHT in Table 1; by default that with RAG's K.")] = "",
    mixed: Annotated[bool, typer.Option("--mixed", help="Put parts together whose judges or data differ.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the paired tests.")] = 0,
    as_json: Json = False,
) -> None:
    """Put RUN together over its sizes and backbones: Tables 1, 8, 9, 10, Figures 3, 4, 5; no call is made.

    They go to RUN/tables/all and RUN/figures/all. What has not been run stays empty, and captions say what is left out.
    """
    from beamlib.data.sources import refuse_data
    from beamlib.report.assembly import ALL, Options, assemble

    refuse_data(run)
    options = Options(protocol, seed, parts=listed(parts), base=base, allow_mixed=mixed)
    made = assemble(run, options)
    if as_json:
        print(to_json({name: table.records() for name, table in made.items()}, indent=2))
    else:
        print("\n".join([*(table.to_markdown() for table in made.values()), f"wrote {run}/tables/{ALL}"]))


@app.command()
def claims(as_json: Json = False) -> None:
    """Recompute every claim of the paper from its published tables."""
    from beam_claims.engine import audit, render

    results = audit()
    print(to_json([result.model_dump(mode="json") for result in results], indent=2) if as_json else render(results))


@app.command()
def preflight(params: Annotated[Path, typer.Argument(help="Folder of parameter files.")] = Path("params")) -> None:
    """Compare the parameter files with what the notebooks accept."""
    from beamlib.report.notebooks import preflight as check

    for line in check(params):
        print(line)


Models = Annotated[Path | None, typer.Option("--models", help="Models file, for example params/models.yaml.")]
BaseUrl = Annotated[str, typer.Option("--base-url", help="One endpoint for every role, instead of a models file.")]
Model = Annotated[str, typer.Option("--model", help="With --base-url: the model's name there.")]
KeyVariable = Annotated[str, typer.Option("--key-variable", help="With --base-url: environment variable of the key.")]
Window = Annotated[int, typer.Option("--context-window", min=1000, help="With --base-url: tokens the model accepts.")]
Prompts = Annotated[Path | None, typer.Option("--prompts", help="Folder whose prompt files override ours.")]
PresetName = Annotated[
    str, typer.Option("--preset", help="paper: the paper's configuration (params/paper.yaml), by --models offline too.")
]
Settings = Annotated[list[str] | None, typer.Option("--set", help="A parameter, as name=value; may be repeated.")]


@app.command("estimate")
def estimate_cost(
    params: Annotated[Path, typer.Argument(help="Parameter file, for example params/100k.yaml.")],
    data: Annotated[
        Path | None, typer.Option("--data", envvar="BEAM_DATA", help="Folder of BEAM conversations.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the run folder under runs/.")] = "default",
    models: Models = None,
    backbone: Annotated[str, typer.Option(help="Which reader of the models file; by default its first.")] = "",
    base_url: BaseUrl = "",
    model: Model = "",
    key_variable: KeyVariable = "",
    context_window: Window = 131_072,
    prompts: Prompts = None,
    conversations: Annotated[int | None, typer.Option(min=0, help="At most this many; 0 for all.")] = None,
    preset: PresetName = "",
    settings: Settings = None,
    skip_broken: SkipBroken = False,
    count_at_endpoint: Annotated[
        bool, typer.Option("--count-at-endpoint", help="Have endpoints count tokens (vLLM's /tokenize route).")
    ] = False,
    as_json: Json = False,
) -> None:
    """What a run would call, and what that costs; no request is sent, save those of --count-at-endpoint.

    Where PARAMS names no models file, models.yaml beside it is taken.
    """
    from beamlib.cli.main_job import Endpoints, estimate_lines

    endpoints = Endpoints(models, base_url, model, key_variable, context_window)
    overrides = {**named_settings(settings), **({} if conversations is None else {"conversations": conversations})}
    overrides |= {"skip_broken": True} if skip_broken else {}
    found = estimate_lines(
        params, data, name, endpoints, backbone, prompts, overrides, preset, count_at_endpoint=count_at_endpoint
    )
    print(to_json(found.model_dump(mode="json"), indent=2) if as_json else found.render())


@calls_app.command("export")
def calls_export(
    run: Annotated[Path, typer.Argument(help="A run folder, for example runs/nano.")],
    archive: Annotated[Path, typer.Argument(help="The file to write, for example nano.tar.zst.")],
) -> None:
    """Write the stored calls of RUN, with its answers and judgements, into ARCHIVE (.tar.zst) with a list of hashes."""
    from beamlib.data.sources import refuse_data
    from beamlib.evaluate.publish import publish

    refuse_data(archive.parent)
    print(publish(run, archive))


@calls_app.command("import")
def calls_import(
    archive: Annotated[Path, typer.Argument(help="An archive of `calls export`.")],
    run: Annotated[Path, typer.Argument(help="The run folder that its calls go into.")],
) -> None:
    """Check ARCHIVE and merge its calls into the run folder RUN, so that it can be replayed."""
    from beamlib.data.sources import refuse_data
    from beamlib.evaluate.publish import described
    from beamlib.llm.archive import import_calls

    refuse_data(run)
    print(f"{run}: every hash agrees; {described(import_calls(archive, run))}")


@calls_app.command("verify")
def calls_verify(
    archive: Annotated[Path, typer.Argument(help="An archive of `calls export`.")],
    data: Annotated[Path | None, typer.Option("--data", envvar="BEAM_DATA", help="Replay it on these too.")] = None,
) -> None:
    """Check every hash in ARCHIVE; with --data, replay it without any call and compare answers and judgements."""
    from beamlib.evaluate.publish import verify

    print(verify(archive, data))


@app.command()
def generate(
    out: Annotated[Path, typer.Option(help="Folder to write to, in the released layout.")],
    size: Annotated[str, typer.Option(help="Tiers, separated by commas: 100k, 500k, 1m, 10m.")] = "100k",
    conversations: Annotated[int, typer.Option(min=1, help="How many of each tier.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="What everything is drawn from.")] = None,
    domain: Annotated[
        str | None, typer.Option(help="One of the 19 domains, some for models alone; by default drawn.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="A title; by default drawn from Table 5.")] = None,
    titles: Annotated[Path | None, typer.Option(help="A file of titles in place of Table 5's.")] = None,
    strategy: Annotated[str | None, typer.Option(help="10M: hierarchical or sequential.")] = None,
    reach: Annotated[
        str | None, typer.Option(help="Dialogue memory: conversation (paper) or batch (released).")
    ] = None,
    models: Models = None,
    calls: Annotated[str | None, typer.Option(help="With --models: replay, record or refresh.")] = None,
    prompts: Prompts = None,
    settings: Settings = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Spend what the estimate says.")] = False,
) -> None:
    """Generate conversations with plans and probing questions; without --models by the offline author.

    What no option names is as in params/<size>.yaml.
    """
    from beam_generate.ordering import Order, fulfil

    values = {
        "generation_seed": seed, "domain": domain, "title": title, "strategy": strategy, "reach": reach,
        "authors": str(models.absolute()) if models else None, "calls": calls,
        "prompts": str(prompts.absolute()) if prompts else None, "workers": workers, "confirm_cost": yes or None,
    }  # fmt: skip
    given = {name: value for name, value in values.items() if value is not None}
    fulfil(Order(out, listed(size), conversations, given, named_settings(settings), titles))


@app.command("titles")
def new_titles(
    out: Annotated[Path, typer.Argument(help="The file that titles are added to, for example titles.json.")],
    domain: Annotated[str, typer.Option(help="One of the 19 domains.")],
    models: Annotated[Path, typer.Option("--models", help="Models file whose authors.titler is asked.")],
    count: Annotated[int, typer.Option(min=1, max=50, help="How many.")] = 10,
    calls: Annotated[str, typer.Option(help="replay, record or refresh.")] = "record",
    prompts: Prompts = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask the model.")] = False,
) -> None:
    """Ask a model for titles of a domain, with theme and subtopics, to be refined by people (generate --titles)."""
    from beam_generate.titles import ask_titles
    from beam_generate.working import writing_of
    from beamlib.params import usual_parameters

    places = {"authors": str(models.absolute()), "prompts": str(prompts.absolute()) if prompts else ""}
    parameters = usual_parameters("100K", **places, calls=calls, confirm_cost=yes)
    print(ask_titles(out, domain, count, writing_of(parameters)))


@app.command("run-all")
def run_all(
    data: Annotated[Path | None, typer.Option(envvar="BEAM_DATA", help="Folder of BEAM conversations.")] = None,
    sizes: Annotated[str, typer.Option(help="Tiers to run; by default all that are found.")] = "",
    name: Annotated[str, typer.Option(help="Name of the run folder under runs/.")] = "default",
    conversations: Annotated[int, typer.Option(min=0, help="At most this many per tier; 0 for all.")] = 0,
    protocol: Annotated[str, typer.Option(help="Scoring protocol of the tables.")] = "paper",
    authors: Annotated[Path | None, typer.Option(help="Models file whose authors write conversations.")] = None,
    memory: Annotated[str, typer.Option(help="A memory of your own beside the others, as file.py:Class.")] = "",
    memory_timeout: MemoryTimeout = None,
    memorycode: Annotated[
        Path | None, typer.Option(envvar="MEMORYCODE_DATA", help="Folder of MemoryCode dialogues (notebook 10).")
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch the released data first.")] = False,
    models: Models = None,
    backbones: Annotated[str, typer.Option(help="Readers of the models file; by default its first.")] = "",
    base_url: BaseUrl = "",
    model: Model = "",
    key_variable: KeyVariable = "",
    context_window: Window = 131_072,
    calls: Annotated[str, typer.Option(help="replay, record or refresh.")] = "record",
    prompts: Prompts = None,
    preset: PresetName = "",
    settings: Settings = None,
    skip_broken: SkipBroken = False,
    yes: Annotated[bool, typer.Option("--yes", help="Spend what the estimate says.")] = False,
) -> None:
    """The main job of run_all.sh."""
    from beamlib.cli.main_job import Endpoints, Job, run

    run(
        Job(
            data=data,
            sizes=listed(sizes),
            name=name,
            conversations=conversations,
            protocol=protocol,
            memory=memory,
            memorycode=memorycode,
            download=download,
            endpoints=Endpoints(models, base_url, model, key_variable, context_window),
            authors=authors,
            backbones=listed(backbones),
            calls=calls,
            prompts=prompts,
            settings={
                **named_settings(settings),
                **({"skip_broken": True} if skip_broken else {}),
                **({"memory_timeout": memory_timeout} if memory_timeout else {}),
            },
            preset=preset or "default",
            yes=yes,
        )
    )


def main() -> None:
    """Entry point: turns a `UserError`, a file system that refuses, and a signal, into one line and an exit code."""
    conclude(app)


if __name__ == "__main__":
    main()
