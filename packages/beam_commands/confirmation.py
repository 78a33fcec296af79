"""Print what calls would cost and ask for confirmation before any is made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import typer
from rich.console import Console

from beamlib.errors import UserError
from beamlib.llm.spending import spending_limit
from beamlib.text import count, money

console = Console(highlight=False, markup=False, emoji=False)  # a name in brackets is not markup


class Priced(Protocol):
    """The number and cost of calls that have not been made."""

    @property
    def pending(self) -> int:
        """Calls to make."""

    @property
    def dollars(self) -> float:
        """Their cost in US dollars, as far as it is known."""

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The models among them whose price is unknown."""

    def render(self) -> str:
        """Return a table as text."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A `Priced` whose text is one sentence."""

    pending: int
    dollars: float
    text: str
    unpriced: tuple[str, ...] = ()

    def render(self) -> str:
        """Return the sentence."""
        return self.text


def confirm_calls(priced: Mapping[str, Priced], check_keys: Callable[[], None], yes: bool) -> bool:
    """Print the cost of all calls and ask for confirmation; nobody is asked where no call is pending.

    Args:
        priced: Estimates by title; a single one may have an empty title.
        check_keys: Raises where the key of an endpoint is missing. Called before the question.
        yes: The user's `--yes`.

    Returns:
        True once the user confirms, `yes` where no call is pending.

    Raises:
        UserError: The user declines, or there is no terminal to ask at.
    """
    for title, estimate in priced.items():
        if title:
            console.print(f"\nEstimate, {title}", style="bold")
        print(estimate.render())  # not by the console, which would break its long lines
    pending = sum(estimate.pending for estimate in priced.values())
    dollars = sum(estimate.dollars for estimate in priced.values())
    if any(priced):
        cost = cost_in_words(dollars, [model for estimate in priced.values() for model in estimate.unpriced])
        console.print(f"\nEverything together: {count(pending, 'call')} to make, {cost}", style="bold")
    if not pending:
        return yes
    if (limit := spending_limit()) is not None:
        console.print(f"The run stops before it has spent more than {money(limit)} in all (--max-cost).")
    if not yes and not sys.stdin.isatty():
        raise UserError("nothing was called: add --yes to spend what the estimate above says.")
    check_keys()
    if not yes and not typer.confirm("Make these calls?"):
        raise UserError("nothing was called.")
    return True


def cost_in_words(dollars: float, unpriced: Collection[str]) -> str:
    """Write a cost: "about $1.20", or what is known of it and the models whose price is unknown."""
    if not unpriced:
        return f"about {money(dollars)}"
    known = f"at least {money(dollars)}, " if dollars else ""
    return f"{known}price unknown for {', '.join(sorted(set(unpriced)))} (see docs/models-file.md)"
