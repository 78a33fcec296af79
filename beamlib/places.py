"""Where things lie in the repository: the one place that knows how deep a file is in it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARAMS, PROMPTS, NOTEBOOKS, RUNS = (ROOT / name for name in ("params", "prompts", "notebooks", "runs"))
