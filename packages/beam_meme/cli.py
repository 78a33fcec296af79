"""`beamlib meme`: generate or download episodes, run memories on them, score their answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beam_commands.options import (
    BENCHMARKS,
    Calls,
    Json,
    MaxCost,
    Models,
    NoAdmission,
    Prompts,
    Settings,
    Yes,
    check_run_name,
    listed,
    listed_numbers,
    named_settings,
)
from beam_commands.task_group import RunName, VariantOption, task_group
from beamlib.errors import UserError
from beamlib.files import to_json

if TYPE_CHECKING:
    from beamlib.evaluate.task import Task

Episodes = Annotated[
    Path, typer.Option("--data", envvar="MEME_DATA", help="File or folder of episodes in the released layout.")
]


def _open(place: Path, variant: str) -> Task:
    from beam_meme.task import open_meme

    return open_meme(place, variant)


meme_app = task_group(
    "meme",
    "MEME: facts that change, depend on one another, and are deleted.",
    "none, gold-facts, full-context, bm25, dense, rag, light, own, and memories by name (docs/memories.md)",
    _open,
)


@meme_app.command("generate")
def generate(
    out: Annotated[Path, typer.Option(help="Folder to write to, in the released layout.")],
    episodes: Annotated[
        int, typer.Option(min=1, help="How many, half of each domain; the published set has 100.")
    ] = 10,
    variants: Annotated[str, typer.Option(help="nofiller, filler32k, filler128k, separated by commas.")] = "filler32k",
    seed: Annotated[int, typer.Option(min=0, help="What everything is drawn from.")] = 42,
    fillers: Annotated[
        Path | None, typer.Option(help="Folder of your own filler sessions; else the offline author writes them.")
    ] = None,
    filler_judge: Annotated[str, typer.Option(help="Who looks for conflicts: rules, or model after them.")] = "rules",
    models: Models = None,
    calls: Calls = "record",
    prompts: Prompts = None,
    max_cost: MaxCost = None,
    yes: Yes = False,
    no_admission: NoAdmission = False,
) -> None:
    """Generate episodes with their gold; without --models the sessions are told by rules."""
    from beam_meme.episode_generating import EpisodeOptions, generate_episodes
    from beamlib.llm.spending import set_spending_limit

    set_spending_limit(max_cost)
    generate_episodes(
        EpisodeOptions(
            out=out,
            count=episodes,
            variants=listed(variants),
            seed=seed,
            fillers=fillers,
            filler_judge=filler_judge,
            models=models,
            calls=calls,
            prompts=prompts,
            yes=yes,
            admission=not no_admission,
        )
    )


@meme_app.command("download")
def download(
    out: Annotated[Path, typer.Option(help="Folder to fetch the released episodes into.")],
    variants: Annotated[
        str, typer.Option(help="nofiller, filler32k, filler128k, separated by commas; default all.")
    ] = "",
) -> None:
    """Fetch the released episodes at their pinned revision."""
    from beam_meme.episodes import VARIANTS
    from beam_meme.meme_hub import download_episodes

    print(download_episodes(out, listed(variants) or VARIANTS))


@meme_app.command("stats")
def stats(data: Episodes, variant: VariantOption = "", as_json: Json = False) -> None:
    """What the episodes hold, beside what was published."""
    from beam_meme.episode_files import load_episodes
    from beam_meme.meme_tables import statistics

    table = statistics(load_episodes(data, variant))
    print(to_json(table.records(), indent=2) if as_json else table.to_text())


@meme_app.command("rejections")
def rejections(
    fillers: Annotated[
        Path | None, typer.Option(help="Folder of your own filler sessions; else those of the offline author.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="What the offline author draws from.")] = 42,
    each: Annotated[int, typer.Option(min=1, help="Examples of each conflict in each domain.")] = 1,
    as_json: Json = False,
) -> None:
    """Show fillers that are rejected, by conflict, with the words that conflict."""
    from beam_meme.rejections import rejection_table

    table = rejection_table(seed, fillers, each)
    print(to_json(table.records(), indent=2) if as_json else table.to_text())


@meme_app.command("optimise")
def optimise(
    data: Episodes,
    out: Annotated[Path, typer.Option(help="Folder for the optimised prompt; --prompts takes it.")],
    models: Annotated[Path, typer.Option(help="Models file: memory answers and proposes rules, judge scores.")],
    variant: VariantOption = "",
    name: RunName = "default",
    prompt: Annotated[
        str,
        typer.Option(
            help="answer, over the contexts of a run; or md-flat-ingest, md-flat-retrieve, wiki-compile, wiki-retrieve."
        ),
    ] = "answer",
    memory: Annotated[
        str, typer.Option(help="For answer: memory of the run whose contexts are answered from.")
    ] = "bm25",
    backbone: Annotated[str, typer.Option(help="Whose answers, of several readers.")] = "",
    steps: Annotated[int, typer.Option(min=1, help="Steps of SIMBA.")] = 4,
    candidates: Annotated[int, typer.Option(min=1, help="Prompts that are tried in a step.")] = 4,
    batch: Annotated[int, typer.Option(min=1, help="Questions of a step; of all but answer, episodes.")] = 16,
    share: Annotated[float, typer.Option(min=0, max=1, help="Share of episodes to train on.")] = 0.5,
    seed: Annotated[int, typer.Option(min=0, help="What the split and SIMBA draw from.")] = 42,
    calls: Calls = "record",
    settings: Settings = None,
    max_cost: MaxCost = None,
    yes: Yes = False,
) -> None:
    """Optimise the answer or ingest prompt with DSPy's SIMBA on some episodes; the others stay for testing."""
    from beam_commands.task_runs import TaskOptions, run_of
    from beam_meme.optimising import Search, optimise_prompt
    from beam_meme.task import open_meme
    from beamlib.llm.spending import guard_run, set_spending_limit
    from beamlib.places import ROOT

    set_spending_limit(max_cost)
    check_run_name(name)
    if not yes and calls != "replay":
        most = steps * candidates * batch * 2 + candidates * batch
        work = (
            "answers and as many verdicts" if prompt == "answer" else "readings of an episode, with all its questions,"
        )
        raise UserError(f"up to about {most:,} {work} would be asked for: add --yes.")
    folder, task = ROOT / "runs" / name, open_meme(data, variant)
    options = TaskOptions(
        data, folder, variant=variant, models=str(models), backbone=backbone, calls=calls,
        settings=named_settings(settings), yes=yes,
    )  # fmt: skip
    run = run_of(task, options)
    with guard_run(folder, run.models_file, calls=run.calls):
        search = Search(steps, candidates, batch, share, seed)
        path = optimise_prompt(task, run, memory, search, out, prompt)
    print(f"{path}; run it on the test episodes of {out}-split.json with: beamlib meme run --prompts {out}")


@meme_app.command("study")
def study(
    data: Episodes,
    name: RunName = "study",
    memories: Annotated[str, typer.Option(help="Names of memories, separated by commas; default all.")] = "",
    ks: Annotated[str, typer.Option("--k", help="Values of K, separated by commas; default: each system's own.")] = "",
    variants: Annotated[str, typer.Option(help="Filler variants, separated by commas.")] = "",
    models: Annotated[str, typer.Option(help="Models files, one per internal model, separated by commas.")] = "",
    backbones: Annotated[str, typer.Option(help="Answering models of the files, separated by commas.")] = "",
    prompts: Annotated[str, typer.Option(help="Folders of prompts, separated by commas; 'default' is ours.")] = "",
    episodes: Annotated[int, typer.Option(min=0, help="At most so many of each domain; 0 for all.")] = 0,
    calls: Calls = "record",
    settings: Settings = None,
    draw: Annotated[bool, typer.Option("--draw", help="Only draw the runs that are there.")] = False,
    max_cost: MaxCost = None,
    yes: Yes = False,
) -> None:
    """Vary K, filler, models and prompts; write the table and the figures of all runs of that name."""
    from beam_commands.task_runs import TaskOptions
    from beam_meme.grid import DEFAULT, Grid, run_grid, study_figures, study_frame, study_table
    from beamlib.files import make_folder
    from beamlib.llm.spending import set_spending_limit
    from beamlib.places import ROOT
    from beamlib.report.table import save_table

    set_spending_limit(max_cost)
    check_run_name(name)
    folder = ROOT / "runs" / name
    if not draw:
        grid = Grid(
            listed_numbers(ks, "--k") if ks else [None],
            listed(variants) or [""],
            listed(models) or [""],
            listed(backbones) or [""],
            [None if place == DEFAULT else Path(place) for place in listed(prompts)] or [None],
        )
        shared = TaskOptions(
            data, folder, arms=listed(memories), most=episodes, calls=calls, settings=named_settings(settings), yes=yes
        )
        run_grid(grid, shared)
    frame = study_frame(folder)
    if frame.empty:
        raise UserError(f"{folder}: no run {name}-* has scores; run the study without --draw.")
    table = study_table(frame)
    save_table(table, "interventions", make_folder(folder / "study"))
    for name, figure in study_figures(frame).items():
        figure.savefig(folder / "study" / f"{name}.svg")
    print(table.to_text())


@meme_app.command("trace")
def trace(
    data: Episodes,
    episode: Annotated[str, typer.Option(help="Which episode, for example sw_033.")],
    variant: VariantOption = "",
    name: RunName = "default",
    backbone: Annotated[str, typer.Option(help="Whose answers, of several readers.")] = "",
) -> None:
    """Trace what an episode's questions need through every memory of a run that is scored; nothing is called."""
    from beam_commands.task_runs import TaskOptions, run_of
    from beam_meme.meme_tally import score_plan
    from beam_meme.meme_traces import trace_figure, trace_table
    from beam_meme.task import open_meme
    from beamlib.evaluate.runner import plan_scoring
    from beamlib.places import ROOT
    from beamlib.report.table import save_table

    check_run_name(name)
    task = open_meme(data, variant)
    options = TaskOptions(data, ROOT / "runs" / name, variant=variant, calls="replay")
    plan = plan_scoring(task, run_of(task, options), reader=backbone)
    scored = score_plan(plan, data.name)
    table = trace_table(scored, episode)
    save_table(table, f"trace_{episode}", plan.folder / "scores")
    trace_figure(scored, episode).savefig(plan.folder / "scores" / f"trace_{episode}.svg")
    print(table.to_text())


@meme_app.command("agreement")
def agreement(
    data: Episodes,
    variant: VariantOption = "",
    name: RunName = "default",
    backbone: Annotated[str, typer.Option(help="Whose answers, of several readers.")] = "",
    models: Models = None,
    calls: Calls = "record",
    max_cost: MaxCost = None,
    yes: Yes = False,
) -> None:
    """Have another judge decide on the answers of a scored run, and print Cohen's kappa by task.

    The judge is that of --models, else the stand-in. The verdicts of the run stay as they are.
    """
    from beam_commands.task_runs import TaskOptions, run_of
    from beam_meme.agreement import agreement_folder, compare_judges, count_answers
    from beam_meme.task import open_meme
    from beamlib.llm.spending import guard_run, set_spending_limit
    from beamlib.places import ROOT
    from beamlib.report.table import save_table

    set_spending_limit(max_cost)
    check_run_name(name)
    task, folder = open_meme(data, variant), ROOT / "runs" / name
    on_file = run_of(task, TaskOptions(data, folder, variant=variant, calls="replay"))
    other = run_of(task, TaskOptions(data, folder, variant=variant, calls=calls, models=str(models or ""), yes=yes))
    if models and not yes and calls != "replay":
        raise UserError(f"up to {count_answers(task, on_file, backbone):,} verdicts would be asked for: add --yes.")
    with guard_run(folder, other.models_file, calls=other.calls):
        table = compare_judges(task, on_file, other, backbone)
    save_table(table, "judges", agreement_folder(task, on_file, backbone))
    print(table.to_text())


def add_to(app: typer.Typer, data: typer.Typer) -> None:
    """Add the commands to `beamlib`."""
    app.add_typer(meme_app, name="meme", rich_help_panel=BENCHMARKS)
