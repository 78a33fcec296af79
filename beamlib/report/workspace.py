"""A notebook at work: its parameters, its data, and what it writes."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from IPython import get_ipython
from IPython.display import HTML, Image, Markdown, display
from matplotlib.figure import Figure

from beamlib.data.conversations import parse_size, slice_in_words
from beamlib.data.published import PAPER_TITLES
from beamlib.errors import UserError
from beamlib.evaluate.arms import configuration_of_run, stated, writing_configuration
from beamlib.evaluate.beam_records import Evaluation, left_out
from beamlib.evaluate.records import commit, left_out_line
from beamlib.files import parse_yaml, read_json, sha256_of_file, write_json
from beamlib.llm.endpoints import load_models
from beamlib.llm.exchange import OFFLINE_NAME
from beamlib.llm.keys import refuse_keys
from beamlib.memory.outside import PROCESS, label_of, listed_memories, only_named, with_label
from beamlib.params import (
    BASE,
    FIELDS,
    OF_GENERATION,
    SETTINGS,
    RunParameters,
    by_own_names,
    check_names,
    load_parameters,
    usual_parameters,
)
from beamlib.places import PARAMS, ROOT, refuse_data
from beamlib.report.figures import save_figure
from beamlib.report.long_frame import misprint_notes, published_long
from beamlib.report.outcomes import outcome_figure, outcome_frame, outcome_table, outcomes_of
from beamlib.report.released import ReleasedRecall
from beamlib.report.results import Results, results
from beamlib.report.table import Table, markdown_text, save_table
from beamlib.report.tables import NOTHING, published_footer, result_table, side_by_side
from beamlib.run import PARAMETERS, PUBLISHED, Run
from beamlib.scoring.measured import MOST_PAIRS

SomeTable = TypeVar("SomeTable", bound=Table)

_HIDDEN = frozenset({"paper", "run", "data", "workers", "calls", "confirm_cost", "memorycode", "meme"})
_ONLY_BEAM = frozenset(
    {
        "size", "chat_variant", "strip_markers", "errata", "per_ability", "retrievers", "budgets", "question_in_prompt",
        "judge_repeats", "alignment", "protocol", *OF_GENERATION,
    }
) - {"generation_seed"}  # fmt: skip
_VERSIONS = ("numpy", "pandas", "scipy", "faiss-cpu", "bm25s", "matplotlib")


def _nothing_to_evaluate(run: Run, experiment: str) -> Evaluation:
    raise UserError("begin the notebook with beam_run.notebooks.begin, which says what evaluates.")


@dataclass
class Workspace:
    """A notebook at work: its run, whose settings are `parameters`, and what it has written so far.

    `evaluate` returns what is on file of an experiment and makes what is missing; whoever begins the notebook gives it.
    """

    parameters: Run
    evaluate: Callable[[Run, str], Evaluation] = _nothing_to_evaluate
    files: list[Path] = field(default_factory=list)
    generating: bool = False
    suite: str = ""
    opened: ExitStack = field(default_factory=ExitStack)
    """What stays open until the notebook is finished."""

    @property
    def part(self) -> str:
        """The part of the run folder that is written to: the tier, another benchmark's, or `published` for neither."""
        if self.suite:
            return self.suite
        return self.parameters.part if self.parameters.data or self.generating else PUBLISHED

    def save_table(self, table: SomeTable, name: str) -> SomeTable:
        """Write `table` to `<run>/tables/<part>/` as CSV, Markdown and HTML, and give it back to be shown.

        A table of the released benchmark (`_released` in its name) rests on no run and has one place for all tiers.
        """
        part = PUBLISHED if "_released" in name else self.part
        self.files += save_table(table, name, Path(self.parameters.run) / "tables" / part)
        return table

    def save_figure(
        self, figure: Figure, name: str, data: pd.DataFrame, caption: str, *, scores: bool = True, **inputs: Any
    ) -> Any:
        """Write `figure` with its values and provenance to `<run>/figures/<part>/`, and show the file written.

        `scores` False: `data` is a table of counts and not a long frame of scores.

        A figure of published values, or of measurements of the released benchmark (its name ends in `_published` or
        `_released`), rests on no parameter and has one place for all tiers.
        """
        published = name.endswith((PUBLISHED, "released"))
        caption = " ".join(filter(None, [caption, _constant_note(data) if scores else ""]))
        if not (published or self.suite) and self.parameters.data and (missed := left_out(self.parameters)):
            caption = f"{caption} {left_out_line(missed)}"
        if not (published or self.suite) and (asked := slice_in_words(self.parameters.chat.per_ability)):
            caption = f"{caption} Questions: {asked}."
        folder = Path(self.parameters.run) / "figures" / (PUBLISHED if published and not self.suite else self.part)
        # Where the run and its files lie has no bearing on what is plotted, nor has whether it was called or replayed;
        # all that would make equal figures differ, and tell of somebody's machine.
        settings: dict[str, Any] = {}
        if not published:
            hidden = _HIDDEN | _ONLY_BEAM if self.suite else _HIDDEN
            settings = {name: value for name, value in self.parameters.given.flat().items() if name not in hidden}
            paths = ("models", "prompts", "own_memory", "authors")
            settings |= {key: Path(settings[key]).name for key in paths if key in settings}
            if not self.suite:  # another benchmark's figures show published answers as well
                settings["configuration"] = self.configuration
                caption = f"{caption} Configuration: {self.configuration}."
        self.files += save_figure(figure, name, folder, data, inputs, settings, caption, scores=scores)
        show: Any = Image  # has no types
        return show(filename=str(folder / f"{name}.png"), width=720, alt=caption)

    def save_json(self, value: Any, name: str) -> None:
        """Write a value beside the tables of this part."""
        self.files.append(write_json(self.run / "tables" / self.part / f"{name}.json", value))

    def show(self, pictures: Sequence[Path]) -> None:
        """Show pictures that are on file, one below the other, and name the files that are beside them."""
        image: Any = Image  # has no types
        display(*(image(filename=str(one), width=480, alt=one.stem) for one in pictures))  # type: ignore[no-untyped-call]
        self.files += [beside for one in pictures for beside in sorted(one.parent.glob(f"{one.stem}.*"))]

    def save_captioned(self, figure: Figure, name: str, data: pd.DataFrame, caption: str, **inputs: Any) -> None:
        """`save_figure` for a figure that is no frame of scores, shown with its caption."""
        caption = f"{caption} {_constant_note(data)}".strip()
        image = self.save_figure(figure, name, data, caption, scores=False, **inputs)
        display(image, Markdown(markdown_text(caption)))  # type: ignore[no-untyped-call]

    @property
    def run(self) -> Path:
        """The run folder."""
        return Path(self.parameters.run)

    @property
    def configuration(self) -> str:
        """The preset that the part was made by, and what was otherwise, for captions."""
        if self.generating:
            return stated([writing_configuration(self.parameters)])
        return configuration_of_run(self.parameters)

    @property
    def author(self) -> str:
        """Who writes the conversations, for captions."""
        return Path(self.parameters.generation.authors).name if self.parameters.generation.authors else OFFLINE_NAME

    def say_unconfirmed(self) -> None:
        """Print below an estimate how to confirm it."""
        if self.parameters.calls != "replay" and not self.parameters.confirm_cost:
            print("Nothing is called before the parameter confirm_cost is true.")

    def results(self, experiment: str, conversations: int | None = None) -> Results:
        """Answers, verdicts and scores of an experiment of the tier: those on file, made now where they are missing.

        `conversations` bounds them for a notebook that looks at fewer than the run. Answers are made in processes that
        are handed no gold.
        """
        changes = {} if conversations is None else {"conversations": conversations}
        return results(self.evaluate(self.parameters.model_copy(update=changes), experiment))

    @cached_property
    def released(self) -> ReleasedRecall:
        """Evidence recall on the released benchmark, from the shipped measurements."""
        return ReleasedRecall()

    def measured_budgets(self, *budgets: int) -> list[int]:
        """Return the budgets (by default the run's K) that were measured on the released benchmark, else 5."""
        return [k for k in budgets or (self.parameters.retrieval.k,) if k <= MOST_PAIRS] or [5]

    def released_figure(self, number: int) -> Any:
        """Save and show the question of Figure 3, 4 or 5 on the released benchmark."""
        figure, frame, caption = self.released.figure(number)
        display(Markdown(f"**{caption.partition('. ')[0]}**"))  # type: ignore[no-untyped-call]
        return self.save_figure(figure, f"figure{number}_released", frame, caption)

    def published(self, name: str, by: str = "as named in the columns") -> Table:
        """Show the paper's table in the version of `paper`, and save it; only the rows of the tier where there is one.

        `by` says who answered.
        """
        frame = published_long(name, paper=self.parameters.paper)
        if self.part != PUBLISHED:
            frame = frame[frame["size"] == self.parameters.size]
        title = f"{name.replace('table', 'Table ')} as published"
        title = title if self.parameters.paper == "v2" else f"{title} ({PAPER_TITLES[self.parameters.paper]})"
        notes = misprint_notes(name, self.parameters.paper)
        table = result_table(frame, title, published_footer(by), notes=notes)
        return self.save_table(table, f"{name}_published")

    def beside(self, published: Table, measured: Results, name: str) -> None:
        """Show this run's table, and why it is not one with the `published` table; save it under `name`.

        Scores by the stand-in are folded: they say nothing about any model.
        """
        title = f"{published.title.removesuffix(' as published')}, this run, {self.parameters.size}"
        ours = self.save_table(result_table(measured.summary, title, measured.footer, measured.manifests), name)
        display(Markdown(markdown_text(side_by_side(published, ours))))  # type: ignore[no-untyped-call]
        if measured.by_stand_in:
            folded = f"<details><summary>Scores by the {OFFLINE_NAME}</summary>{ours.to_html()}</details>"
            display(HTML(folded))  # type: ignore[no-untyped-call]
        else:
            display(ours)  # type: ignore[no-untyped-call]

    def show_first(self, experiment: str) -> None:
        """Show the averages of this run where models made it; the stand-in's stand in the section "This run" alone."""
        if not self.parameters.models or not (self.parameters.confirm_cost or self.parameters.calls == "replay"):
            return
        measured = self.results(experiment)
        table = result_table(measured.summary, f"This run, {self.parameters.size}", measured.footer, measured.manifests)
        text = 'Models answered and judged in this run. Its averages come first; the section "This run" has the rest.'
        display(Markdown(text), table)  # type: ignore[no-untyped-call]

    def evidence(self, measured: Results, what: str, name: str) -> Table:
        """Save the evidence recall of a run under `name` and give it back; `what` begins its title."""
        title = f"{what}, this run, {self.parameters.size}"
        table = result_table(measured.evidence, title, measured.evidence_footer, measured.manifests)
        return self.save_table(table, name)

    def errata_effect(self, measured: Results, name: str) -> pd.DataFrame | None:
        """Show scores with and without defective questions, save them under `name`; give back averages by protocol."""
        if (compared := measured.without_defective()) is None:
            print("No question of this run is on the errata list: leaving defective ones out changes nothing.")
            return None
        display(self.save_table(compared[0], name))  # type: ignore[no-untyped-call]
        return compared[1]

    def where_lost(self, measured: Results, name: str) -> Table:
        """Show where the answers of a run are lost as stacked bars, and give back the table; save both under `name`."""
        frame = outcome_frame(outcomes_of(measured))
        what = f"Where answers are lost, {self.parameters.size}; reader and judge: {measured.footer.reader}."
        display(self.save_figure(outcome_figure(frame), name, frame, what, scores=False))  # type: ignore[no-untyped-call]
        return self.save_table(outcome_table(frame, measured), name)

    def save_run_figure(self, figure: Figure, name: str, frame: pd.DataFrame, measured: Results, what: str) -> Any:
        """`save_figure` for scores of this run; `what` begins the caption, which names the reader."""
        caption = f"{what}, {self.parameters.size}; reader and judge: {measured.footer.reader}."
        sets = [manifest["question_set_sha256"] for manifest in measured.manifests[:1]]
        return self.save_figure(figure, name, frame, caption, question_sets=sets)

    def finish(self) -> None:
        """Close what is open; print what the notebook rests on and what it wrote: commit, versions, hashes.

        One that called models first searches the run's files for their keys; in a run of the main job, that does it.
        """
        self.opened.close()
        if self.parameters.calls != "replay":
            used = self.parameters.models_file.key_variables if self.parameters.models_file else frozenset[str]()
            if authors := self.parameters.generation.authors:
                used |= load_models(Path(authors)).key_variables
            refuse_keys(Path(self.parameters.run).rglob("*"), used)
        print(f"commit     {commit()}")
        print(f"python     {platform.python_version()}")
        print("versions   " + ", ".join(f"{name} {version(name)}" for name in _VERSIONS))
        for file in self.files:
            print(f"wrote      {file.as_posix()}  sha256 {sha256_of_file(file)[:16]}")


def _constant_note(data: pd.DataFrame) -> str:
    """What a caption says where all plotted means are equal, so that nobody takes that for a finding."""
    constant = "mean" in data and data["mean"].count() > 1 and data["mean"].nunique() == 1
    return "All values are equal: what was asked here tells none of them apart." if constant else ""


def open_workspace(values: Mapping[str, Any]) -> Workspace:
    """Validate a notebook's parameters, its `globals()`, and print those that differ from params/base.yaml.

    Relative paths count from the repository's top folder, wherever the notebook was opened.
    """
    _show_dashes()
    run = Run.of(parse_cell(values))
    refuse_data(run.folder)
    base = _base().flat()
    changed = {name: value for name, value in run.given.flat().items() if value != base[name]}
    but = f", but: {', '.join(f'{key}={value!r}' for key, value in changed.items())}" if changed else ""
    print(f"parameters as in params/base.yaml{but}")
    return Workspace(run)


def parse_cell(values: Mapping[str, Any]) -> RunParameters:
    """Parse what a notebook's parameter cell defines; paths are as seen from where this process is."""
    return _rooted(_parameters(values))


def _show_dashes() -> None:
    """Show missing values of data frames as dashes in this notebook."""
    shell: Any = get_ipython()
    if shell is not None:

        def html(frame: Any) -> str | None:
            text: str | None = frame._repr_html_()
            return text and text.replace("<td>NaN</td>", f"<td>{NOTHING}</td>")

        shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, html)


def _base() -> RunParameters:
    return load_parameters(PARAMS / BASE)


def _parameters(values: Mapping[str, Any]) -> RunParameters:
    """The values of base.yaml, over them those of the size's file, of `settings`, and of the cell where it differs."""
    if empty := [name for name in FIELDS if name in values and values[name] is None]:
        raise UserError(f"parameter '{empty[0]}' of this notebook is None; give it a value, or leave it out.")
    plain = (str, int, float, list, dict)
    cell = {name: value for name, value in values.items() if isinstance(value, plain) and name not in ("In", "Out")}
    cell = {name: value for name, value in cell.items() if not name.startswith("_")}
    settings: Any = cell.pop(SETTINGS, {})
    if isinstance(settings, str):  # `papermill -p settings '{"k": 10}'`
        settings = parse_yaml(settings, Path("settings of this notebook"))
    if not isinstance(settings, dict):
        raise UserError(
            f"settings of this notebook are {settings!r:.60}; pass a mapping: papermill -y 'settings: {{k: 10}}'."
        )
    settings = by_own_names(settings, "settings of this notebook")
    check_names(settings, "settings of this notebook")
    if not any(isinstance(value, Workspace) for value in values.values()):  # later cells have names of their own
        check_names(cell, "this notebook")
    base = _base().flat()
    given = {**settings, **{name: value for name, value in cell.items() if name in base and value != base[name]}}
    size = parse_size(str(given.pop("size", base["size"])))
    return usual_parameters(size, **given)


def _rooted(parameters: RunParameters) -> RunParameters:
    """With relative paths, which count from the repository's top folder, as seen from where this process is."""
    names = ("run", "data", "models", "authors", "prompts", "memorycode", "meme")
    given = {name: parameters[name] for name in names}
    own = parameters.own_memory
    if not (only_named(own) or own.startswith(PROCESS)):  # a file
        given["own_memory"] = listed_memories(own)[0]
    changed = {name: value for name, value in given.items() if value and not Path(value).is_absolute()}
    rooted = {name: Path(os.path.relpath(ROOT / value)).as_posix() for name, value in changed.items()}
    if "own_memory" in rooted:
        rooted["own_memory"] = with_label(rooted["own_memory"], label_of(own))
    return parameters.model_copy(update=rooted)


def of_run(parameters: Run) -> Run:
    """With as many conversations as the run has, where it generated them and no number is given."""
    if parameters.data or parameters.conversations:
        return parameters
    kept, there = parameters.path(PARAMETERS), finished_conversations(parameters)
    if kept.exists() and not there:
        raise UserError(f"{kept.parent}: it was made on conversations from elsewhere; name their folder in 'data'.")
    number = read_json(kept)["conversations"] if kept.exists() else there
    return parameters.model_copy(update={"conversations": number or 1})


def finished_conversations(parameters: RunParameters) -> int:
    """Count the generated conversations of the size in the run folder."""
    return len(list(parameters.generated.glob(f"{parameters.size}/*/probing_questions/probing_questions.json")))
