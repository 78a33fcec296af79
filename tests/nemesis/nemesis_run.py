"""Evaluate a memory that calls and the arm without one, by workers, by a cluster, or again and again in forks.

`python nemesis_run.py PARAMETERS CLUSTER`. PARAMETERS is a file of JSON. With the cluster `forks` a line of stdin is an
environment in which the evaluation is made in a fork of this process, which has imported everything; its exit status
comes back. So a run takes a fraction of a second, and there can be one for each write of another.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

from beam_run.cluster import use_cluster
from beam_run.plugins import register_packages
from beamlib.errors import UserError
from beamlib.evaluate import jobs
from beamlib.evaluate.arms import Arm, experiments
from beamlib.evaluate.run import evaluate
from beamlib.llm.prompts import Prompts
from beamlib.params import load_parameters
from beamlib.retrieval.encoder import embedded_encoder


def work() -> int:
    """Evaluate; return the exit code of a command."""
    parameters = json.loads(Path(sys.argv[1]).read_text())
    chosen = load_parameters(Path(__file__).parents[2] / "params/100k.yaml", **parameters)
    own = [arm for arm in experiments(chosen)["main"] if arm.memory == "own"]
    try:
        evaluate(chosen, own if sys.argv[2] == "forks" else [Arm(memory="none"), *own], quiet=True)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 2
    return 0


def _fork(environment: dict[str, str]) -> int:
    """Evaluate in a fork, for a minute at most."""
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.alarm(60)
            os.environ.update(environment)
            code = work()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def serve_forks() -> None:
    """Evaluate once for each line of stdin."""
    from fixtures_workers import Here

    jobs.process_pool = lambda _: nullcontext(Here())  # type: ignore[assignment]
    for name in ("openai", "anyio._backends._asyncio", "beam_memories.loopback", "beam_memories.own_memory"):
        import_module(name)  # what a process loads once
    embedded_encoder()
    Prompts.read()
    print("ready", flush=True)
    for line in sys.stdin:
        print(_fork(json.loads(line)), flush=True)


if __name__ == "__main__":
    register_packages()
    if sys.argv[2] == "forks":
        sys.path.insert(0, str(Path(__file__).parents[1]))
        serve_forks()
    else:
        use_cluster(sys.argv[2])
        raise SystemExit(work())
