"""The commands of this package."""

from __future__ import annotations

import typer

from beam_run import archive_commands, estimate_commands, job_commands


def add_to(app: typer.Typer, data_app: typer.Typer) -> None:
    """Put the commands into the project's `app`."""
    for commands in (archive_commands, estimate_commands, job_commands):
        commands.add_to(app, data_app)
