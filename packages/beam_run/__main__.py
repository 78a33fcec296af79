"""Run the command line by `python -m beam_run`."""

from beam_run.cli import main

main()
