"""The product as its user types it: commands in processes of their own, a work folder, a run folder, and the recording.

Nothing here imports the product, so that it can be asked the same before and after its modules move.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDED = Path(__file__).with_name("recorded_calls.tar.xz")
"""What `tests/record_calls.py` recorded: models file, stores of the generated data, and `RUN`, a published run."""
MODELS, GENERATED, DIALOGUES, RUN = "models.yaml", "generated", "dialogues", "run.tar.zst"

GENERATE = ("generate", "--size", "100k", "--domain", "coding", "--seed", "7", "--workers", "1")
TALK = ("memorycode", "generate", "--counts", "1,2,3", "--seed", "7")
ASK = ("memorycode", "run", "--set", "k=2", "--set", "workers=1")

_DATA = ("BEAM_DATA", "MEMORYCODE_DATA")
_SETTINGS = {"HF_HUB_OFFLINE": "1", "COLUMNS": "200"}


class CommandFailed(Exception):
    """A command did not end as it must."""


@dataclass(frozen=True)
class Product:
    """The checkout's `beamlib`; `work` is an empty folder for what commands write, `name` that of a run folder."""

    work: Path
    name: str

    @property
    def run(self) -> Path:
        """The run folder: commands write it below the checkout."""
        return ROOT / "runs" / self.name

    def call(self, *words: str | Path, codes: Sequence[int] = (0,)) -> str:
        """What a command prints; `CommandFailed` for an exit code that is not one of `codes`."""
        beamlib = Path(sys.executable).with_name("beamlib")
        path = os.pathsep.join(filter(None, (str(ROOT), str(ROOT / "packages"), os.environ.get("PYTHONPATH"))))
        environment = {k: v for k, v in os.environ.items() if k not in _DATA} | _SETTINGS | {"PYTHONPATH": path}
        command = [str(beamlib), *map(str, words)]
        if not beamlib.exists():
            raise CommandFailed(f"{beamlib}: not there; run this by the Python that the package is installed for.")
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self.work, env=environment, stdin=subprocess.DEVNULL
        )
        if done.returncode not in codes:
            said = (done.stderr or done.stdout).strip().splitlines() or ["nothing was said"]
            raise CommandFailed(f"{' '.join(command[1:])}: exit code {done.returncode}: {said[-1].strip()}")
        return done.stdout

    def clear(self) -> None:
        """Take away what commands wrote below the checkout."""
        for folder in (self.run, ROOT / "figures" / self.name):
            shutil.rmtree(folder, ignore_errors=True)

    def replay(self, archive: Path = RECORDED) -> str:
        """Make everything in `archive` again from its calls alone; what the checks of the published run say.

        The data goes to `work`, MemoryCode's answers to the run folder. A call that is not held is a `CommandFailed`.
        """
        with tarfile.open(archive) as held:
            held.extractall(self.work, filter="data")
        asked = ("--models", self.work / MODELS, "--calls", "replay")
        self.call(*GENERATE, *asked, "--out", self.work / GENERATED)
        self.call(*TALK, *asked, "--out", self.work / DIALOGUES)
        said = self.call("calls", "verify", self.work / RUN, "--data", self.work / GENERATED)
        self.call("calls", "import", self.work / RUN, self.run)
        self.call(*ASK, *asked, "--data", self.work / DIALOGUES, "--name", self.name)
        return said
