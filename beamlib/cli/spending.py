"""Before anything is paid: what it would come to, whether the keys are there, and a yes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import typer
from rich.console import Console

from beamlib.beside import Priced
from beamlib.errors import UserError
from beamlib.llm.spending import LIMIT
from beamlib.text import count, money

console = Console(highlight=False, markup=False, emoji=False)  # names in brackets are no colours


@dataclass(frozen=True, slots=True)
class Quote:
    """A `Priced` of one sentence."""

    pending: int
    dollars: float
    text: str

    def render(self) -> str:
        """The sentence."""
        return self.text


def agreed(priced: Mapping[str, Priced], ready: Callable[[], None], yes: bool) -> bool:
    """Say what all of `priced`, by title, would call and cost; then True where the user agrees: by `--yes`, or asked at
    the terminal. Without one it is a `UserError`.

    Nobody is asked where there is nothing to call: what `yes` says stays. `ready` is called before the question: it
    raises where a key is missing, which should show now and not when the first call is made. A single one may have an
    empty title.
    """
    for title, one in priced.items():
        if title:
            console.print(f"\nEstimate, {title}", style="bold")
        print(one.render())  # wide: the console would break its lines
    pending, dollars = sum(one.pending for one in priced.values()), sum(one.dollars for one in priced.values())
    if any(priced):
        console.print(f"\nEverything together: {count(pending, 'call')} to make, about {money(dollars)}", style="bold")
    if not pending:
        return yes
    if limit := os.environ.get(LIMIT):
        console.print(f"The run stops before it has spent more than {money(float(limit))} in all (--max-cost).")
    if not yes and not sys.stdin.isatty():
        raise UserError("nothing was called: add --yes to spend what the estimate above says.")
    ready()
    if not yes and not typer.confirm("Make these calls?"):
        raise UserError("nothing was called.")
    return True
