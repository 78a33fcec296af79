"""The command line: `beamlib --help`. Wrong input gives one sentence and exit code 2."""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec

import typer

from beamlib.beside import PACKAGES, beside
from beamlib.cli.ending import conclude
from beamlib.cli.look import data_app, look_app

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
app.registered_commands += look_app.registered_commands
app.add_typer(data_app, name="data")
for _name in PACKAGES:
    _package = find_spec(f"beam_{_name}")
    # Asked of its folder: to be asked of the package, that would have to be imported.
    if _package and PathFinder.find_spec(f"beam_{_name}.cli", _package.submodule_search_locations):
        beside(_name, "cli").add_to(app, data_app)


def main() -> None:
    """Entry point: turns a `UserError`, a file system that refuses, and a signal, into one line and an exit code."""
    conclude(app)


if __name__ == "__main__":
    main()
