"""What a run survives that takes longer than a test may: `python benchmarks/attack.py`, some minutes.

Each kind repeats one evaluation of the example under an attack, against the tests' scripted server, and compares its
answers with those of an undisturbed run. Shorter attacks are tests: forged manifests (`tests/run/test_publish.py`),
frozen workers (`tests/run/test_cluster.py`), hostile archives, replies and result files.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from beam_run.plugins import register_packages
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm, own_arm
from beamlib.evaluate.run import evaluate
from beamlib.files import temporary_folder, to_json
from beamlib.params import load_parameters
from beamlib.places import PARAMS, ROOT
from cluster import models_file
from run import EXAMPLE, Row, print_table

_MEMORY = """
import time
from beamlib.memory import Recollection, passage

class Slow:
    name = "slow"
    def ingest(self, conversation):
        time.sleep(0.5)
        self.pairs = conversation.pairs
    def recall(self, question):
        time.sleep(0.05)
        return Recollection.of([passage(self.pairs[len(question) % len(self.pairs)])])
"""


def answer(folder: Path, models: Path) -> list[str]:
    """Evaluate into a folder; return every answer, or the reason why there is none."""
    register_packages()
    memory = folder.parent / "slow.py"
    places = {"data": str(EXAMPLE), "run": str(folder), "models": str(models), "own_memory": f"{memory}:Slow"}
    parameters = load_parameters(PARAMS / "100k.yaml", **places, workers=1, confirm_cost=True)
    arms = (Arm(memory="full-context"), own_arm(f"{memory}:Slow"))
    evaluation = evaluate(parameters, arms, quiet=True)
    return [one.text or f"unscored: {one.unscored}" for own in evaluation.answers.values() for one in own]


def _drive(folder: Path, models: Path) -> None:
    try:
        answer(folder, models)
    except UserError as error:
        print(f"  refused: {error}")


def _begin(folder: Path, models: Path) -> BaseProcess:
    process = get_context("spawn").Process(target=_drive, args=(folder, models))
    process.start()
    return process


def kill_memory(folder: Path, models: Path, chance: random.Random) -> None:
    """Kill the memory's process once, at a random instant."""

    def kill() -> None:
        time.sleep(chance.uniform(0.5, 3.0))
        for process in psutil.Process().children(recursive=True):
            if "slow.py" in " ".join(process.cmdline()):
                process.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    answer(folder, models)
    thread.join()


def kill_driver(folder: Path, models: Path, chance: random.Random) -> None:
    """Kill the whole run three times at random instants."""
    for _ in range(3):
        process = _begin(folder, models)
        process.join(chance.uniform(2.0, 5.0))
        process.kill()
        process.join()


def two_at_once(folder: Path, models: Path, chance: random.Random) -> None:
    """Begin two runs under one name at about the same time."""
    first = _begin(folder, models)
    time.sleep(chance.uniform(0.0, 2.0))
    for process in (first, _begin(folder, models)):
        process.join()


def undisturbed(folder: Path, models: Path, chance: random.Random) -> None:
    """Leave the attack to the server."""


def attempt(attack: Callable[..., None], expected: Sequence[str], folder: Path, times: int, **server: Any) -> Row:
    """Try an attack so often, each time from nothing; then the same command goes on to the end."""
    from scripted_server import ScriptedServer
    from steady_replies import steady_reply

    survived = lost = paid_again = 0
    for number in range(times):
        place = folder / f"{attack.__name__}-{bool(server)}-{number}"
        with ScriptedServer(steady_reply, seed=number, latency=0.02, **server) as serving:
            models = models_file(folder, serving.base_url, 8)
            attack(place, models, random.Random(number))
            differing = sum(one != other for one, other in zip(answer(place, models), expected, strict=True))
            paid_again += len(serving.repeated())
        survived, lost = survived + (not differing), lost + differing
    return {"tried": times, "survived": survived, "lost": lost, "paid again": paid_again}


def main(
    times: Annotated[int, typer.Option(min=1, help="How often each attack is tried.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Try each attack so often, and print what was survived and what was lost."""
    sys.path.insert(0, str(ROOT / "tests"))
    from scripted_server import Faults, ScriptedServer
    from steady_replies import steady_reply

    with temporary_folder("beamlib-attack-") as folder:
        (folder / "slow.py").write_text(_MEMORY, encoding="utf-8")
        with ScriptedServer(steady_reply) as server:
            expected = answer(folder / "expected", models_file(folder, server.base_url, 8))
        faulty = Faults(drop=0.1, throttle=0.1, garbage=0.1, error=0.1, surplus=0.2, retry_after=0.01)
        rows = [
            {"kind": kind, **attempt(attack, expected, folder, times, **given)}
            for kind, attack, given in (
                ("memory killed once", kill_memory, {}),
                ("run killed three times", kill_driver, {}),
                ("two runs under one name", two_at_once, {}),
                ("replies lost, garbled, refused, sent twice", undisturbed, {"faults": faulty}),
            )
        ]
    if as_json:
        print(to_json({"rows": rows}))
        return
    columns = {name: f"{{{name}}}" for name in ("kind", "tried", "survived", "lost", "paid again")}
    print_table("Attacks; lost: answers that differ or are unscored", rows, columns, names=1)


if __name__ == "__main__":
    typer.run(main)
