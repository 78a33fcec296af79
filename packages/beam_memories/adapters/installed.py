"""Where an adapter's system is installed, and what of it: in an environment `.venv-<name>`, else in the project's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from beamlib.errors import UserError
from beamlib.places import ROOT

HOST = Path(__file__).with_name("host.py")
"""What serves every adapter, with nothing of this project: it runs in an environment that may not have it."""

_PATIENCE = 60.0


def interpreter(name: str) -> Path:
    """The Python that runs an adapter."""
    own = ROOT / f".venv-{name}" / "bin" / "python"
    return own if own.exists() else Path(sys.executable)


def command(name: str) -> Sequence[str]:
    """What serves the adapter `name` by the process protocol; a `UserError` where its system is not installed."""
    identity(name)
    return [str(interpreter(name)), "-I", "-u", str(HOST), name]  # bytecode is kept: these systems are large


@cache
def identity(name: str) -> dict[str, Any]:
    """The adapter's code, the versions of what it adapts, and `notes` for tables; looked up without importing it."""
    asked = [str(interpreter(name)), "-I", str(HOST), name, "--describe"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        found = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        found = None
    if not isinstance(found, dict):
        raise UserError(f"--memory {name}: {interpreter(name)} cannot describe it; make its environment anew.")
    if found["missing"]:
        raise UserError(
            f"--memory {name}: it needs {', '.join(found['missing'])}, not installed in {interpreter(name)}; run "
            f"'pip install \"beamlib[{name}]\"' (in a checkout: .venv/bin/pip install -e '.[{name}]'), or "
            f"scripts/adapters_env.sh {name} for an environment of its own."
        )
    return found
