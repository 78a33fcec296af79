"""The command line: `beamlib --help`. Wrong input prints one sentence and exits with code 2."""

from __future__ import annotations

import typer

from beam_claims import cli as claims
from beam_field import cli as field
from beam_generate import cli as generate
from beam_meme import cli as meme
from beam_memorycode import cli as memorycode
from beam_page import cli as page
from beam_run import archive_commands, estimate_commands, job_commands, look_commands
from beam_run.ending import conclude
from beam_run.plugins import register_packages

register_packages()

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
data_app = look_commands.data_app
app.registered_commands += look_commands.look_app.registered_commands
app.add_typer(data_app, name="data")
for _commands in (claims, field, generate, meme, memorycode, page, archive_commands, estimate_commands, job_commands):
    _commands.add_to(app, data_app)


def main() -> None:
    """Run a command; errors that the user can correct become one line and an exit code."""
    conclude(app)
