"""Beginning, ending, checking and running the notebooks."""

from __future__ import annotations

import logging
import os
import platform
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, get_args

import pandas as pd
from IPython.display import Image
from matplotlib.figure import Figure

from beamlib.data.checked_json import left_out_line
from beamlib.data.sources import refuse_data
from beamlib.errors import UserError
from beamlib.evaluate.arm_folder import configuration_of_run
from beamlib.evaluate.arms import arms_of
from beamlib.evaluate.calling import open_models, resolved, run_subdir
from beamlib.evaluate.configuration import stated, writing_configuration
from beamlib.evaluate.estimate import estimate
from beamlib.evaluate.run import left_out
from beamlib.evaluate.run_store import commit
from beamlib.files import make_folder, parse_yaml, read_json, read_text, sha256_of_file, write_text
from beamlib.llm.endpoints import MODELS, key_variables, load_models
from beamlib.llm.keys import refuse_keys
from beamlib.llm.model import OFFLINE_NAME
from beamlib.llm.roles import ModelRoles
from beamlib.params import OF_GENERATION, Preset, RunParameters, load_parameters, parse_parameters
from beamlib.places import NOTEBOOKS, ROOT
from beamlib.report.figures import save_figure
from beamlib.report.kernels import end_kernels, fork_kernels
from beamlib.report.table import Table, save_table

SomeTable = TypeVar("SomeTable", bound=Table)

PUBLISHED = "published"
GENERATION = ("01_plans", "02_user_turns", "03_assistant_turns", "04_probing_questions")
EVALUATION = ("05_memory", "06_main_results", "07_retrieval_budget", "08_dense_vs_sparse", "09_ablation")
SUITES = ("10_memorycode",)
"""Notebooks on other benchmarks: once per run, whatever the tiers."""

_PARAMETER_CELLS = frozenset({"parameters", "finer-parameters"})
_PARAMETER = re.compile(r"(\w+): (\w+) = ")
_OFFLINE = {"models": "", "backbone": ""}
_HIDDEN = frozenset({"run", "data", "workers", "calls", "confirm_cost", "memorycode"})
_ONLY_BEAM = frozenset(
    {
        "size", "chat_variant", "strip_markers", "errata", "retrievers", "budgets", "question_in_prompt",
        "judge_repeats", "alignment", "protocol", *OF_GENERATION,
    }
) - {"generation_seed"}  # fmt: skip
_PAGE = """{% extends 'lab/index.html.j2' %}
{% block html_head_js %}{% if nb.metadata.widgets %}{{ super() }}{% else %}
<meta http-equiv="Content-Security-Policy" content="{{ "script-src 'none'; object-src 'none'; frame-src 'none'" }}">
{% endif %}{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}{% block html_head_js_mermaidjs %}{% endblock %}"""
_TYPES = {"str": str, "int": int, "float": float, "bool": bool, "list": list}
_VERSIONS = ("numpy", "pandas", "scipy", "faiss-cpu", "bm25s", "matplotlib")


@dataclass
class Workspace:
    """A notebook at work: its validated parameters, and what it has written so far."""

    parameters: RunParameters
    files: list[Path] = field(default_factory=list)
    generating: bool = False
    suite: str = ""
    _open: ExitStack = field(default_factory=ExitStack)

    @property
    def part(self) -> str:
        """The part of the run folder that is written to: the tier, or `published` where there is no data.

        A notebook on another benchmark has a part of its own.
        """
        if self.suite:
            return self.suite
        return run_subdir(self.parameters) if self.parameters.data or self.generating else PUBLISHED

    def save_table(self, table: SomeTable, name: str) -> SomeTable:
        """Write `table` to `<run>/tables/<part>/` as CSV, Markdown and HTML, and give it back to be shown."""
        self.files += save_table(table, name, Path(self.parameters.run) / "tables" / self.part)
        return table

    def save_figure(
        self, figure: Figure, name: str, data: pd.DataFrame, caption: str, *, scores: bool = True, **inputs: Any
    ) -> Any:
        """Write `figure` with its values and provenance to `<run>/figures/<part>/`, and show the file written.

        `scores` False: `data` is a table of counts and not a long frame of scores.

        A figure of published values (its name ends in `_published`) rests on no parameter and has one place for all
        tiers.
        """
        published = name.endswith(PUBLISHED)
        if not (published or self.suite) and self.parameters.data and (missed := left_out(self.parameters)):
            caption = f"{caption} {left_out_line(missed)}"
        folder = Path(self.parameters.run) / "figures" / (PUBLISHED if published and not self.suite else self.part)
        # Where the run and its files lie has no bearing on what is plotted, nor has whether it was called or replayed;
        # all that would make equal figures differ, and tell of somebody's machine.
        settings: dict[str, Any] = {}
        if not published:
            settings = self.parameters.model_dump(exclude=set(_HIDDEN | _ONLY_BEAM if self.suite else _HIDDEN))
            paths = ("models", "prompts", "own_memory", "authors")
            settings |= {key: Path(settings[key]).name for key in paths if key in settings}
            if not self.suite:  # another benchmark's figures show published answers as well
                settings["configuration"] = self.configuration
                caption = f"{caption} Configuration: {self.configuration}."
        self.files += save_figure(figure, name, folder, data, inputs, settings, caption, scores=scores)
        show: Any = Image  # has no types
        return show(filename=str(folder / f"{name}.png"), width=720, alt=caption)

    @property
    def configuration(self) -> str:
        """The preset that the part was made by, and what was otherwise, for captions."""
        if self.generating:
            return stated([writing_configuration(self.parameters)])
        return configuration_of_run(self.parameters)

    @property
    def author(self) -> str:
        """Who writes the conversations, for captions."""
        return Path(self.parameters.authors).name if self.parameters.authors else OFFLINE_NAME

    def announce_calls(self, *experiments_shown: str, conversations: int | None = None) -> None:
        """Print what the named experiments would call and pay, before the first cell that calls.

        `conversations` bounds them for a notebook that looks at fewer than the run.
        """
        if not self.parameters.data or not self.parameters.models:
            print(f"reader, memory and judge: {OFFLINE_NAME}; nothing is called and nothing is paid")
            return
        shown = self.parameters
        if conversations is not None:
            shown = shown.model_copy(update={"conversations": conversations})
        print(estimate(shown, arms_of(shown, experiments_shown), quiet=True).render())
        self.say_unconfirmed()

    def say_unconfirmed(self) -> None:
        """What follows an estimate that nobody has said yes to."""
        if self.parameters.calls != "replay" and not self.parameters.confirm_cost:
            print("Nothing is called before the parameter confirm_cost is true.")

    def models(self, conversation: str) -> ModelRoles:
        """The models for one conversation; its call store stays open until the notebook ends.

        Without data there is only the built-in example, and the stand-in works on it.
        """
        parameters = resolved(self.parameters if self.parameters.data else self.parameters.model_copy(update=_OFFLINE))
        return self._open.enter_context(open_models(parameters, conversation))

    def finish(self) -> None:
        """Close what is open; print what the notebook rests on and what it wrote: commit, versions, hashes.

        One that called models first searches the run's files for their keys; in a run of the main job, that does it.
        """
        self._open.close()
        if self.parameters.calls != "replay":
            used = key_variables(self.parameters.models, self.parameters.authors)
            refuse_keys(Path(self.parameters.run).rglob("*"), used)
        print(f"commit     {commit()}")
        print(f"python     {platform.python_version()}")
        print("versions   " + ", ".join(f"{name} {version(name)}" for name in _VERSIONS))
        for file in self.files:
            print(f"wrote      {file.as_posix()}  sha256 {sha256_of_file(file)[:16]}")


def begin(values: Mapping[str, Any]) -> Workspace:
    """Validate a notebook's parameters (pass `globals()`) and make the repository the working directory.

    Relative paths among the parameters count from the repository's top folder, wherever the notebook was opened.
    """
    os.chdir(ROOT)
    names = RunParameters.model_fields
    parameters = parse_parameters({name: values[name] for name in names if name in values}, "this notebook")
    refuse_data(Path(parameters.run))
    print("\n".join(f"{name:22s} {getattr(parameters, name)!r}" for name in names))
    return Workspace(parameters)


def preflight(folder: Path) -> list[str]:
    """Compare every parameter file in `folder` with every notebook; a line per file, or a `UserError`.

    Papermill itself only warns about a name it does not know and injects it all the same, so a typo would silently run
    the default. Here an unknown, missing or mistyped parameter stops everything before a cell runs.
    """
    presets = [name for name in get_args(Preset) if (folder / f"{name}.yaml").exists()]
    files = sorted(path for path in folder.glob("*.yaml") if path.name != MODELS and path.stem not in presets)
    if (folder / MODELS).exists():
        load_models(folder / MODELS)
    if not files:
        raise UserError(
            f"{folder}: no parameter files (*.yaml) in it; expected 100k.yaml, 500k.yaml, 1m.yaml, 10m.yaml."
        )
    notebooks = [NOTEBOOKS / f"{name}.ipynb" for name in (*GENERATION, *EVALUATION, *SUITES)]
    accepted = {notebook.name: _accepted(notebook) for notebook in notebooks}
    for file in files:
        for preset in presets:
            load_parameters(file, preset=preset)
        load_parameters(file)
        values = parse_yaml(read_text(file), file)
        for notebook, parameters in accepted.items():
            _compare(file, values, notebook, parameters)
    lines = [f"{file.name}: agrees with {len(notebooks)} notebooks" for file in files]
    return lines + [f"{preset}.yaml: agrees with each of them" for preset in presets]


def _accepted(notebook: Path) -> dict[str, str]:
    """The parameters of a notebook and their types: those of its two cells of `name: type = value` lines.

    Papermill injects after the cell tagged `parameters` and knows the names in it alone. The finer ones stand in a cell
    of their own before it, so an injected value replaces theirs just the same.
    """
    cells = read_json(notebook)["cells"]
    lines = [
        line
        for cell in cells
        if _PARAMETER_CELLS & set(cell["metadata"].get("tags", ()))
        for line in "".join(cell["source"]).splitlines()
    ]
    return {found[1]: found[2] for line in lines if (found := _PARAMETER.match(line))}


def _compare(file: Path, values: Mapping[str, Any], notebook: str, parameters: Mapping[str, str]) -> None:
    for name in values.keys() - parameters.keys():
        raise UserError(f"{file}: {notebook} does not know the parameter '{name}'; correct one of the two.")
    for name in parameters.keys() - values.keys():
        raise UserError(f"{file}: lacks the parameter '{name}' of {notebook}; add it.")
    for name, value in values.items():
        wanted = parameters[name]
        if type(value) is not _TYPES.get(wanted):
            raise UserError(f"{file}: parameter '{name}' is {value!r}, but {notebook} takes a {wanted}; correct it.")


def execute(name: str, parameters: RunParameters, folder: Path) -> Path:
    """Run notebook `name` with `parameters` into `folder`, as .ipynb and .html; returns the path of the page."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    make_folder(folder)
    # Its warnings are of names outside the one cell it looks at; which names there are, `preflight` has checked.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    target = folder / f"{name}.ipynb"
    source = NOTEBOOKS / f"{name}.ipynb"
    try:
        papermill.execute_notebook(
            str(source),
            str(target),
            parameters=parameters.model_dump(),
            kernel_name="python3",
            cwd=str(ROOT),
            progress_bar=False,  # several notebooks run at a time, and the main job shows how many are done
            # The kernel warns on every start that its socket is not encrypted (it is on the loopback interface), and
            # calls it an error when it is told to end before it is done ending.
            extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
        )
    except PapermillExecutionError as error:
        raise UserError(
            f"{source.name} stopped in cell {error.exec_count}: {error.ename}: {error.evalue}; "
            f"the part that ran is in {target}."
        ) from None
    return to_html(target)


def execute_all(work: Sequence[tuple[str, RunParameters, Path]], max_concurrency: int) -> Iterator[Path]:
    """`execute` each of `work`, so many at a time; the pages as they are done. An error ends all."""
    fork_kernels(sorted({NOTEBOOKS / f"{name}.ipynb" for name, _, _ in work}))
    with ThreadPoolExecutor(max_concurrency) as pool:
        futures = [pool.submit(execute, *one) for one in work]
        try:
            for done in as_completed(futures):
                yield done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            while any(future.running() for future in futures):  # one may have been about to start another
                end_kernels()
                time.sleep(0.1)
            raise


def to_html(notebook: Path) -> Path:
    """Render an executed notebook as a page beside it.

    It runs no script and fetches nothing, unless the notebook shows widgets: those are drawn by scripts of Jupyter's.
    """
    from nbconvert import HTMLExporter

    exporter_type: Any = HTMLExporter  # has no types
    exporter = exporter_type(raw_template=_PAGE, exclude_input_prompt=True, exclude_output_prompt=True)
    # The state of widgets is written into a script's place: nothing in it may end that or begin another.
    exporter.register_filter("escape_html_script", lambda text: text.replace("<", "\\u003c"))
    page, _ = exporter.from_filename(str(notebook))
    return write_text(notebook.with_suffix(".html"), page)
