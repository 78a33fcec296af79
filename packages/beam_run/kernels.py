"""Fork notebook kernels from a process that has imported what notebooks import, where most of their start went.

Where no kernel can be forked (`beamlib.processes.can_fork`), kernels start as Jupyter starts them.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from weakref import WeakSet

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from beamlib.files import read_json
from beamlib.processes import can_fork, end_with_parent

_NAME = "beamlib-forked"
_GROUP = "jupyter_client.kernel_provisioners"
_LAUNCHER = "ipykernel_launcher"
_LATER = (
    "beamlib.retrieval.dense",
    "beamlib.retrieval.hybrid",
    "fontTools.varLib",
    "matplotlib.backends.backend_pdf",
    "matplotlib.backends.backend_svg",
    "seaborn",
)
"""What `beamlib` imports only where it is used, and every notebook uses."""
_running: WeakSet[Provisioner] = WeakSet()
_IMPORT = re.compile(r"^(?:from|import) ([\w.]+)", re.MULTILINE)


def fork_kernels(notebooks: Sequence[Path]) -> None:
    """Let this process fork its kernels from one that has imported what `notebooks` import, where that is safe."""
    factory = KernelProvisionerFactory.instance()
    factory.provisioners[_NAME] = EntryPoint(_NAME, f"{__name__}:Provisioner", _GROUP)
    factory.default_provisioner_name = _NAME
    if can_fork():
        preloaded = ["ipykernel.kernelapp", "matplotlib_inline.backend_inline", *_LATER, *_imported(notebooks)]
        multiprocessing.get_context("forkserver").set_forkserver_preload(preloaded)
        forkserver.ensure_running()  # it imports while this process imports papermill


def end_kernels() -> None:
    """End all kernels of this process; whoever waits for one sees that it died."""
    for one in list(_running):
        if one.process is not None:
            one.process.kill()


def _imported(notebooks: Sequence[Path]) -> list[str]:
    cells = [cell for notebook in notebooks for cell in read_json(notebook)["cells"] if cell["cell_type"] == "code"]
    return sorted({name for cell in cells for name in _IMPORT.findall("".join(cell["source"]))})


class Provisioner(LocalProvisioner):
    """Starts a kernel by a fork where that is safe; otherwise Jupyter's own."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the kernel that the command line `cmd` describes."""
        _running.add(self)
        if not can_fork():
            return await super().launch_kernel(cmd, **kwargs)
        arguments, folder = cmd[cmd.index(_LAUNCHER) + 1 :], str(kwargs.get("cwd") or Path.cwd())
        context = multiprocessing.get_context("forkserver")
        given = (arguments, dict(kwargs["env"]), folder)
        process = context.Process(target=_kernel, args=given, name="kernel")
        process.start()
        started: Any = _Started(process)
        self.process, self.pid, self.pgid, self.cwd = started, started.pid, started.pid, folder
        return self.connection_info


class _Started:
    """A `multiprocessing` process with the methods of `subprocess.Popen` that Jupyter calls."""

    stdin = stdout = stderr = None

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        self.pid = process.pid or 0
        self.terminate, self.kill = process.terminate, process.kill

    def poll(self) -> int | None:
        """Return the exit code once the process has ended."""
        return self._process.exitcode

    def wait(self) -> int | None:
        """Wait for the exit code."""
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)


def _kernel(arguments: Sequence[str], environment: Mapping[str, str], folder: str) -> None:
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()  # Ctrl-C at a terminal is answered by the main job alone
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)  # multiprocessing cannot start a process in another folder
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.argv = [_LAUNCHER, *arguments]
    IPKernelApp.launch_instance(list(arguments))
