"""The ranges that templates are drawn from: the paper's (Table 1) and those that made the released data.

All depend on the number of sessions in the released script and on nothing in the paper. Where the paper gives no
value, `paper` takes the released one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from beamlib.errors import UserError

RecipeName = Literal["paper", "released"]
RECIPES: tuple[RecipeName, ...] = get_args(RecipeName)
Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Ranges for a dialogue of a given number of sessions; each is drawn from uniformly, ends included.

    `share`: sessions with instructions. `per_session`: instructions in such a session. `unfilled`: the most sessions
    that have instructions and no filler. `updates`: probability that an instruction is an update, one draw per
    dialogue. `general`: probability that a filler is general. `order_updates`: probability that a filler-instruction
    is an update. `mentions`: of one general filler, at most.
    """

    share: Range
    per_session: tuple[int, int]
    unfilled: int
    updates: Range
    general: Range
    order_updates: Range
    mentions: int


def recipe(name: str, sessions: int) -> Recipe:
    """The ranges of the recipe `name` for dialogues of `sessions` sessions; an unknown name is a `UserError`."""
    if name not in RECIPES:
        raise UserError(f"recipe: {name!r:.80} does not exist; choose one of {', '.join(RECIPES)}.")
    unfilled = 1 if sessions < 6 else 2 if sessions < 20 else sessions // 5
    if name == "paper":
        # "A filler can be updated up to 4 times": five mentions.
        return Recipe((0.5, 0.7), (1, 3), unfilled, (0.3, 0.7), (0.5, 0.7), (0.5, 0.7), 5)
    share = (1.0, 1.0) if sessions == 1 else (0.5, 1.0) if sessions <= 5 else (0.5, 0.7)
    updates = (0.3, 0.5) if sessions >= 50 else (0.3, 0.7)
    return Recipe(share, (1, 2), unfilled, updates, (0.5, 0.7), (0.5, 0.8), 3)
