"""`one_arm.py DATA RUN MODELS [NAME=VALUE…]`: answer and judge RAG by real vectors, as a process that can be killed.

`time .venv/bin/python tests/local/one_arm.py ../shared/data/beam runs/local params/local.yaml conversations=1` is the
command behind the minutes in docs/local.md.
"""

import sys
from pathlib import Path

from beam_commands.options import named_settings
from beam_run.plugins import register_packages
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.params import load_parameters

ARM = Arm(memory="rag", retriever="dense", k=2)


def main(data: str, run: str, models: str, *settings: str) -> None:
    """Evaluate the arm; with `calls=replay` nothing is asked."""
    register_packages()
    places = {"data": data, "run": run, "models": models, "confirm_cost": True}
    fixed = {"encoder": "embedding", "reader_window": 6000, "workers": 1, **named_settings(settings)}
    evaluate(load_parameters(Path("params", "100k.yaml"), **places, **fixed), [ARM], quiet=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
