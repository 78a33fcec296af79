"""What training found, as numbers: `judge_weights.json`, made by `scripts/train_judge.py`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from beamlib.files import read_json

WEIGHTS: Final = Path(__file__).with_name("judge_weights.json")
"""`trees`: for `valid`, `half` and `full` a list of trees, each in preorder: the number of a feature and its threshold
before what lies at or below it and what lies above it, or -1 and a hundredth of log-odds. `order`: how much more often
words of one kind follow those of another in answers than in shuffled ones. `events`: weights and the least sum."""


@cache
def trained() -> Mapping[str, Any]:
    """What the training found."""
    found: Mapping[str, Any] = read_json(WEIGHTS)
    return found
