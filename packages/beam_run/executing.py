"""Validate and execute the notebooks."""

from __future__ import annotations

import ast
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any, get_args

from beam_run import EVALUATION, FIELD_NOTEBOOKS, GENERATION, PAPER_NOTEBOOKS, SUITE_NOTEBOOKS
from beamlib.errors import UserError
from beamlib.files import make_folder, read_json, read_settings, temporary_folder, write_json, write_text
from beamlib.llm.endpoints import MODELS, load_models
from beamlib.params import (
    BASE,
    SETTINGS,
    Preset,
    RunParameters,
    assignments,
    check_names,
    load_parameters,
    parameter_cell,
    usual_parameters,
)
from beamlib.places import NOTEBOOKS, PARAMS, ROOT
from beamlib.processes import can_fork

Work = tuple[str, RunParameters, Path]
"""A notebook, its parameters, and the folder that it is executed into."""

_KERNEL = ("--HistoryManager.enabled=False", "--IPKernelApp.log_level=CRITICAL")
"""No cell enters the user's history. The kernel warns on every start that its socket is not encrypted (it is on the
loopback interface), and calls it an error when it is told to end before it is done ending."""

_WIDGET = "application/vnd.jupyter.widget-view+json"
_PAGE = """{% extends 'lab/index.html.j2' %}
{% block html_head_js %}
<meta http-equiv="Content-Security-Policy" content="{{ "script-src 'none'; object-src 'none'; frame-src 'none'" }}">
{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}{% block html_head_js_mermaidjs %}{% endblock %}"""


def _names(path: Path) -> set[str]:
    """Return the top-level names of a YAML file, none if it is no mapping."""
    values = read_settings(path)[1]
    return set(values) if isinstance(values, dict) else set()


def preflight(folder: Path) -> list[str]:
    """Compare every parameter file in `folder` with every notebook; return a line per file or raise `UserError`.

    An unknown or mistyped parameter fails here, before a cell runs.
    """
    presets = [name for name in get_args(Preset) if (folder / f"{name}.yaml").exists()]
    files = sorted(path for path in folder.glob("*.yaml") if path.name not in (MODELS, BASE))
    files = [path for path in files if path.stem not in presets]
    of_models = [path for path in files if "readers" in _names(path)]
    for path in [*of_models, *([folder / MODELS] if (folder / MODELS).exists() else [])]:
        load_models(path)
    files = [path for path in files if path not in of_models]
    if not files:
        raise UserError(
            f"{folder}: no parameter files (*.yaml) in it; expected 100k.yaml, 500k.yaml, 1m.yaml, 10m.yaml."
        )
    notebooks = [
        NOTEBOOKS / f"{name}.ipynb"
        for name in (*PAPER_NOTEBOOKS, *GENERATION, *EVALUATION, *SUITE_NOTEBOOKS, *FIELD_NOTEBOOKS)
    ]
    base = load_parameters(PARAMS / BASE).flat() | {SETTINGS: {}}
    for notebook in notebooks:
        for name, value in parameter_cell(notebook).items():
            if name != SETTINGS:
                check_names([name], notebook.name)
            if value != base[name]:
                raise UserError(f"{notebook.name}: '{name}' is {value!r}, and {base[name]!r} in {BASE}; correct one.")
    for file in files:
        for preset in ("default", *presets):
            load_parameters(file, preset=preset)
    lines = [f"{file.name}: agrees with {len(notebooks)} notebooks" for file in files]
    return lines + [f"{preset}.yaml: agrees with each of them" for preset in presets]


def _filled_in(notebook: Path, parameters: RunParameters) -> dict[str, Any]:
    """Return `notebook` with `parameters` in its cell tagged `parameters`; changed ones it lacks go to `settings`.

    papermill would add a second cell. A cell's value equal to base.yaml's counts as not set: where a preset has another
    value, it goes to `settings` too.
    """
    values, base = parameters.flat(), load_parameters(PARAMS / BASE).flat()
    usual = usual_parameters(parameters.size, preset=parameters.preset).flat() | {"preset": "default"}
    filled: dict[str, Any] = read_json(notebook)
    (cell,) = (cell for cell in filled["cells"] if "parameters" in cell["metadata"].get("tags", ()))
    lines = "".join(cell["source"]).splitlines()
    assigned = {ast.unparse(line.targets[0]): line.value for line in assignments(cell)}
    settings = {
        name: value
        for name, value in values.items()
        if value != usual[name] and (name not in assigned or value == base[name])
    }
    for name, place in assigned.items():
        line = lines[place.lineno - 1].encode()  # columns count bytes
        value = repr((values | {SETTINGS: settings})[name]).encode()
        lines[place.lineno - 1] = (line[: place.col_offset] + value + line[place.end_col_offset :]).decode()
    cell["source"] = "\n".join(lines)
    return filled


def execute(name: str, parameters: RunParameters, folder: Path) -> Path:
    """Execute notebook `name` with `parameters` into `folder`; return the executed notebook's path."""
    # jsonschema imports it, if it can, to check IRIs, which no notebook has: a grammar that compiles for a second.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    import papermill
    from papermill.exceptions import PapermillExecutionError

    source = NOTEBOOKS / f"{name}.ipynb"
    # A notebook that differs from the run's copy is a trial (`beam_run.notebooks`): this is the run's copy.
    target = write_json(make_folder(folder) / f"{name}.ipynb", _filled_in(source, parameters))
    try:
        with temporary_folder("beamlib-kernel-") as own:  # for what IPython else keeps in the user's home
            papermill.execute_notebook(
                str(target),
                str(target),
                kernel_name="python3",
                cwd=str(ROOT),
                request_save_on_cell_execute=False,  # it is when all of them ran, or one failed
                progress_bar=False,  # several notebooks run at a time, and the main job shows how many are done
                extra_arguments=[f"--ipython-dir={own}", *_KERNEL],
                config=_sockets(own),
            )
    except PapermillExecutionError as error:
        raise UserError(
            f"{source.name} stopped in cell {error.exec_count}: {error.ename}: {error.evalue}; "
            f"the part that ran is in {target}."
        ) from None
    return target


def _sockets(folder: Path) -> Any:
    """Return the configuration by which a kernel is spoken with over sockets in `folder`, where Jupyter can do so.

    Its TCP ports are chosen before the kernel takes them, and another process may have taken one by then.
    """
    from traitlets.config import Config

    return Config(KernelManager={"transport": "ipc", "ip": str(folder / "k")} if can_fork() else {})


def execute_all(work: Sequence[Work], max_concurrency: int) -> Iterator[Path]:
    """Execute notebooks concurrently; yield their HTML pages as they finish. An error ends all."""
    from beam_run.kernels import end_kernels, fork_kernels  # with Jupyter's client, which other steps do without

    fork_kernels(sorted({NOTEBOOKS / f"{name}.ipynb" for name, _, _ in work}))
    with ThreadPoolExecutor(max_concurrency) as pool:
        futures = [pool.submit(execute, *one) for one in work]
        try:
            for done in as_completed(futures):
                yield to_html(done.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            logging.disable()  # of every kernel that is ended, papermill says that it died
            while any(future.running() for future in futures):  # one may have been about to start another
                end_kernels()
                time.sleep(0.1)
            logging.disable(logging.NOTSET)
            raise


def to_html(notebook: Path) -> Path:
    """Render an executed notebook as HTML in the same folder.

    The page runs no script and fetches nothing. Widgets would need both: a line stands in their place.
    """
    import nbformat

    shown: Any = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    shown.metadata.pop("widgets", None)
    for output in (output for cell in shown.cells for output in cell.get("outputs", ())):
        if _WIDGET in output.get("data", {}):
            output["data"] = {"text/plain": "A widget stands here: open the notebook itself to use it."}
    page, _ = _exporter().from_notebook_node(shown, {"metadata": {"name": notebook.stem}})
    return write_text(notebook.with_suffix(".html"), page)


@cache  # its templates take longer to be compiled than to be filled
def _exporter() -> Any:
    from nbconvert import HTMLExporter

    exporter_type: Any = HTMLExporter  # has no types
    return exporter_type(raw_template=_PAGE, exclude_input_prompt=True, exclude_output_prompt=True)
