"""`one_arm.py DATA RUN MODELS [MODE]`: answer and judge RAG by real vectors, as a process that a test can kill."""

import sys
from pathlib import Path

from beam_run.plugins import register_packages
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.params import load_parameters

ARM = Arm(memory="rag", retriever="dense", k=2)


def main(data: str, run: str, models: str, calls: str = "record") -> None:
    """Evaluate the arm; with `replay` nothing is asked."""
    register_packages()
    places = {"data": data, "run": run, "models": models, "calls": calls, "confirm_cost": calls == "record"}
    settings = {"encoder": "embedding", "reader_window": 8192, "workers": 1}
    evaluate(load_parameters(Path("params", "100k.yaml"), **places, **settings), [ARM], quiet=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
