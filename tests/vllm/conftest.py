"""A real vLLM server on the loopback, serving a tiny random model made on the spot."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

START_SECONDS = 240
"""How long the server may take to come up: 50 s on two idle cores, twice that where they are busy."""

PYTHON = Path(".venv-vllm", "bin", "python")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the group where it was not asked for or has no server, with one printed reason."""
    if not config.getoption("--vllm", default=False):
        reason = "the tests against a real vLLM server run on request only: ./run_tests.sh --vllm"
    elif not (config.rootpath / PYTHON).exists():
        reason = "there is no .venv-vllm: scripts/vllm_env.sh makes it"
    else:
        return
    for item in items:
        if item.get_closest_marker("vllm"):
            item.add_marker(pytest.mark.skip(reason=reason))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class VllmServer:
    """The server as a process group of its own. Its address stays the same when it is stopped and started again."""

    def __init__(self, python: Path, model: Path, log: Path) -> None:
        self._python, self._model, self._log = python, model, log
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._handle: IO[bytes] | None = None

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        return f"{self.root}/v1"

    def start(self) -> None:
        """Start it unless it runs, and wait until it answers."""
        if self._process is not None and self._process.poll() is None:
            return
        command = [
            *(str(self._python), "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", str(self._model), "--served-model-name", "tiny", "--max-model-len", "32768"),
            *("--host", "127.0.0.1", "--port", str(self._port), "--enforce-eager"),
        ]
        settings = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        self._handle = self._log.open("ab")
        self._process = subprocess.Popen(
            command,
            stdout=self._handle,
            stderr=subprocess.STDOUT,
            env=os.environ | settings | {"OMP_NUM_THREADS": "1"},
            start_new_session=True,  # it starts further processes, which have to end with it
        )
        ends = time.monotonic() + START_SECONDS
        while not self._healthy():
            if self._process.poll() is not None or time.monotonic() > ends:
                self.kill()
                lines = self._log.read_text(errors="replace").splitlines()
                pytest.fail("the vLLM server did not come up; its last lines:\n" + "\n".join(lines[-30:]))
            time.sleep(0.5)

    def kill(self) -> None:
        """End all its processes at once, as a machine that loses power would."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def requests(self) -> int:
        """Chat completions that it has received since it was started, whatever became of them."""
        with urllib.request.urlopen(f"{self.root}/metrics", timeout=10) as reply:
            text = reply.read().decode()
        counts = re.findall(r'^http_requests_total\{handler="/v1/chat/completions".*\} (\S+)$', text, re.MULTILINE)
        return int(sum(float(count) for count in counts))

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.root}/health", timeout=5) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@pytest.fixture(scope="session")
def vllm_process(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    python = repo_root / PYTHON
    folder = tmp_path_factory.mktemp("vllm")
    made = subprocess.run(
        [python, repo_root / "scripts" / "tiny_model.py", folder / "model"], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    server = VllmServer(python, folder / "model", folder / "server.log")
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def vllm(vllm_process: VllmServer) -> VllmServer:
    """The server, running, whatever the test before did to it."""
    vllm_process.start()
    return vllm_process
