"""Formulas on the size and make-up of the benchmark: Tables 2 to 7, the grids behind the scores, and plain counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from beam_claims.values import (
    SCORE_COLUMNS,
    ClaimOutcome,
    Status,
    Tables,
    count_outcome,
    figures,
    holds,
    mean,
    number,
    records,
    rounded,
    show,
    truncated,
    unchecked,
    verdict,
    worst,
)
from beamlib.data import published

_UNITS = {"K": 10**3, "M": 10**6}
_LONGEST_TOTAL = 2000  # evidence locations tried; the smallest totals that fit lie far below


def not_checkable(tables: Tables, printed: str, reason: str) -> ClaimOutcome:
    """A setting, an outside fact or a lost figure: nothing to recompute."""
    return unchecked(reason)


def plan_ratios(tables: Tables, printed: str, reason: str) -> ClaimOutcome:
    """User messages and turns at 10M over those at 1M: agrees with a number of plans, but cannot prove a setting."""
    rows = {row["chat_size"]: row for row in records(tables["table3"])}
    ratios = [Decimal(rows["10M"][name]) / rows["1M"][name] for name in ("user_messages", "turns")]
    return ClaimOutcome([number(ratio) for ratio in ratios], "cannot be checked", reason)


def distinct(tables: Tables, printed: str, table: str, column: str) -> ClaimOutcome:
    """Number of distinct entries of a column, the Average label left out."""
    count = len(set(tables[table][column]) - {published.AVERAGE})
    return count_outcome(printed, count, f"Distinct entries of column {column}.")


def questions(tables: Tables, printed: str, factors: list[int]) -> ClaimOutcome:
    """Abilities of Table 1 times the stated counts (questions per ability, conversations)."""
    return count_outcome(printed, len(tables.scores("table1").abilities) * math.prod(factors))


def total(tables: Tables, printed: str, terms: list[int]) -> ClaimOutcome:
    """Sum of stated counts."""
    return count_outcome(printed, sum(terms))


def abilities_except(tables: Tables, printed: str, excepted: int) -> ClaimOutcome:
    """Abilities of Table 1 less a stated number of them."""
    return count_outcome(printed, len(tables.scores("table1").abilities) - excepted)


def choices(tables: Tables, printed: str, size: int, chosen: int) -> ClaimOutcome:
    """Number of ways to choose `chosen` of `size`."""
    return count_outcome(printed, math.comb(size, chosen))


def count_named(tables: Tables, printed: str, named: list[str]) -> ClaimOutcome:
    """Number of things that the text names."""
    return count_outcome(printed, len(named), f"Named: {', '.join(named)}.")


def day_differences(tables: Tables, printed: str, spans: list[list[str]]) -> ClaimOutcome:
    """Days between pairs of ISO dates."""
    return count_outcome(printed, [(date.fromisoformat(end) - date.fromisoformat(start)).days for start, end in spans])


def tokens(label: str) -> int:
    """Size in tokens of a length label such as "10M" or "~350K"."""
    return int(label.lstrip("~")[:-1]) * _UNITS[label[-1]]


def _labels(tables: Tables) -> set[str]:
    columns = dict.fromkeys(("table1", "table7", "table8", "table9", "table10"), "length")
    columns |= dict.fromkeys(("table3", "table4", "table6"), "chat_size")
    return {value for table, column in columns.items() for value in tables[table][column] if value[-1] in _UNITS}


def largest_label(tables: Tables, printed: str) -> ClaimOutcome:
    """The largest length label in use."""
    value = max(_labels(tables), key=tokens)
    return ClaimOutcome(value, holds(value == printed), "A label; the text gives no measured token counts.")


def shortest_labels(tables: Tables, printed: str, next_longer: str) -> ClaimOutcome:
    """Labels in use for conversations shorter than `next_longer`; holds when there is one."""
    labels = sorted((label for label in _labels(tables) if tokens(label) < tokens(next_longer)), key=tokens)
    return ClaimOutcome(" and ".join(labels), holds(len(labels) == 1), "The labels denote the same set.")


def listing_numbers(tables: Tables, printed: str, kind: str) -> ClaimOutcome:
    """Numbers of the prompt listings of one kind, as first-last (count)."""
    listings = tables["listings"]
    numbers = sorted(listings.loc[listings["kind"] == kind, "number"])
    first, last = (int(value) for value in figures(printed))
    same = numbers == list(range(first, last + 1))
    return ClaimOutcome(f"{numbers[0]}-{numbers[-1]} ({len(numbers)})" if numbers else "none", holds(same))


def listing_count(tables: Tables, printed: str) -> ClaimOutcome:
    """Number of prompt listings, numbered without a gap."""
    numbers = sorted(tables["listings"]["number"])
    whole = numbers == list(range(1, len(numbers) + 1))
    return ClaimOutcome(len(numbers), holds(whole and figures(printed) == [len(numbers)]))


def _marks(tables: Tables) -> dict[str, list[str]]:
    """Abilities that Table 2 marks, per benchmark, in alphabetical order."""
    marks: dict[str, list[str]] = {}
    for row in records(tables["table2"]):
        marks.setdefault(row["benchmark"], []).extend([row["ability"]] if row["covered"] == "yes" else [])
    return {name: sorted(abilities) for name, abilities in marks.items()}


def new_abilities(tables: Tables, printed: str, ours: str) -> ClaimOutcome:
    """Abilities marked for this benchmark alone, and for an earlier one too."""
    marks = _marks(tables)
    earlier = {ability for name, abilities in marks.items() if name != ours for ability in abilities}
    new = [ability for ability in marks[ours] if ability not in earlier]
    shared = len(marks[ours]) - len(new)
    return ClaimOutcome(
        f"{len(new)} new ({', '.join(new)}), {shared} earlier", holds(_words(printed) == [len(new), shared])
    )


def _words(printed: str) -> list[int]:
    """Counts in "three new, seven earlier"."""
    return [int(value) for part in printed.split(", ") for value in figures(part)]


def few_marks(tables: Tables, printed: str, ours: str) -> ClaimOutcome:
    """Marks per benchmark; holds when every earlier one has fewer than this one."""
    marks = {name: len(abilities) for name, abilities in _marks(tables).items()}
    most = max(count for name, count in marks.items() if name != ours)
    return ClaimOutcome(
        marks, holds(most < marks[ours]), f"At most {most} for an earlier benchmark, {marks[ours]} here."
    )


def covered(tables: Tables, printed: str, benchmark: str, named: list[str], exhaustive: bool) -> ClaimOutcome:
    """Abilities marked for a benchmark: those the text names, and no others when `exhaustive`."""
    marked = _marks(tables)[benchmark]
    more = [ability for ability in marked if ability not in named]
    note = f"Marked but not named: {', '.join(more)}." if more else "Marked and named alike."
    return ClaimOutcome(marked, holds(set(named) <= set(marked) and not (exhaustive and more)), note)


def stated_length(tables: Tables, printed: str, benchmark: str) -> ClaimOutcome:
    """Chat length of a benchmark in Table 2; an approximate entry ("~") allows a tenth either way."""
    frame = tables["table2"]
    entry = str(frame.loc[frame["benchmark"] == benchmark, "chat_length"].iloc[0])
    gap = abs(tokens(entry) - tokens(printed))
    if gap == 0:
        return ClaimOutcome(entry, "holds", "Agreement between text and table only.")
    near = entry.startswith("~") and 10 * gap <= tokens(entry)
    return ClaimOutcome(entry, "holds within rounding" if near else "differs", f"Text {printed}, table {entry}.")


def _questions(tables: Tables) -> dict[str, dict[str, int]]:
    """Configured user questions per size and category (Table 6); one of the ten plans at 10M."""
    found: dict[str, dict[str, int]] = {}
    for row in records(tables["table6"]):
        count = row["num_subplans"] * row["batches_per_subplan_k"] * row["questions_per_batch_i"]
        found.setdefault(row["chat_size"], {})[row["category"]] = count
    return found


def fewer_questions(tables: Tables, printed: str, fewer: str, more: str) -> ClaimOutcome:
    """Configured questions of category `fewer` and of category `more` at each size."""
    pairs = {size: [counts[fewer], counts[more]] for size, counts in _questions(tables).items()}
    return ClaimOutcome(
        pairs, holds(all(few < many for few, many in pairs.values())), f"[{fewer}, {more}]; per plan at 10M."
    )


def turns_in_range(tables: Tables, printed: str, plans: dict[str, int]) -> ClaimOutcome:
    """Average turns (Table 3) against the smallest and largest configuration (Table 6); `plans` per size, else one."""
    configured = _questions(tables)
    recomputed = {}
    outside = []
    for row in records(tables["table3"]):
        counts = [count * plans.get(row["chat_size"], 1) for count in configured[row["chat_size"]].values()]
        recomputed[row["chat_size"]] = {"turns": row["turns"], "configured": [min(counts), max(counts)]}
        if not min(counts) <= row["turns"] <= max(counts):
            outside.append(f"{row['chat_size']} ({row['turns']})")
    return ClaimOutcome(recomputed, holds(not outside), f"Outside: {', '.join(outside) or 'none'}.")


def message_sum(tables: Tables, printed: str) -> ClaimOutcome:
    """User messages against turns + answered assistant questions + follow-ups, per size (all are averages)."""
    recomputed, off = {}, {}
    for row in records(tables["table3"]):
        parts = row["turns"] + row["answered_assistant_questions"] + row["followup_questions"]
        recomputed[row["chat_size"]] = {"user_messages": row["user_messages"], "sum": parts}
        off[row["chat_size"]] = parts - row["user_messages"]
    note = f"Sum less user messages: {', '.join(f'{size} {gap:+d}' for size, gap in off.items())}."
    return ClaimOutcome(recomputed, holds(not any(off.values())), note)


def equal_messages(tables: Tables, printed: str) -> ClaimOutcome:
    """User and assistant messages, row by row."""
    pairs = {row["chat_size"]: [row["user_messages"], row["assistant_messages"]] for row in records(tables["table3"])}
    return ClaimOutcome(pairs, holds(all(user == assistant for user, assistant in pairs.values())))


def exchange_bound(tables: Tables, printed: str) -> ClaimOutcome:
    """Follow-ups and answered questions against the printed bound per turn: [followups, answered, bound] by size."""
    bound = int(figures(printed)[0])
    rows = {
        row["chat_size"]: [row["followup_questions"], row["answered_assistant_questions"], bound * row["turns"]]
        for row in records(tables["table3"])
    }
    over = [size for size, (followups, answered, limit) in rows.items() if max(followups, answered) > limit]
    note = f"[follow-ups, answered, bound]. Beyond the bound: {', '.join(over) or 'none'}."
    return ClaimOutcome(rows, holds(not over), note)


def _abstention(tables: Tables) -> dict[str, list[Decimal]]:
    """Distinct Abstention values by length over all score tables."""
    values: dict[str, set[Decimal]] = {}
    for name in SCORE_COLUMNS:
        for (length, ability, _), value in tables.scores(name).printed.items():
            if ability == "Abstention":
                values.setdefault(length, set()).add(value)
    return {length: sorted(found) for length, found in values.items()}


def _on_grid(values: Iterable[Decimal], steps: int, places: int, *, cut: bool) -> list[bool]:
    """Whether each value is k / steps for a whole k, cut or rounded to `places` decimals."""
    shorten = truncated if cut else rounded
    found = []
    for value in values:
        near = int(value * steps)
        found.append(any(shorten(Decimal(k) / steps, places) == value for k in (near, near + 1)))
    return found


def conversation_split(tables: Tables, printed: str, counts: dict[str, int], ratings: dict[str, str]) -> ClaimOutcome:
    """Whether `counts` conversations per length fit the score and rating grids and sum to the printed total.

    Two abstention questions with verdicts in halves put an ability's average on a grid of 4 steps per conversation;
    `ratings` names each length's row in the human evaluation (Table 4).
    """
    values = _abstention(tables)
    fits = {
        length: [n for n in range(1, 61) if all(_on_grid(found, 4 * n, 3, cut=True))]
        for length, found in values.items()
    }
    rated = {length: _ratings(tables, ratings[length]) for length in counts}
    agrees = all(
        n in fits[length] and all(_on_grid(rated[length], 2 * n, 2, cut=False)) for length, n in counts.items()
    )
    sum_of_counts = sum(counts.values())
    sizes = "; ".join(f"{length} {', '.join(map(str, found))}" for length, found in fits.items())
    return ClaimOutcome(
        f"{'+'.join(map(str, counts.values()))} = {sum_of_counts}",
        holds(agrees and figures(printed) == [sum_of_counts]),
        f"The split is inferred. Sizes up to 60 that fit the Abstention values: {sizes}.",
    )


def _ratings(tables: Tables, size: str) -> list[Decimal]:
    frame = tables["table4"]
    return [Decimal(text) for text in frame.loc[frame["chat_size"] == size, "printed"]]


def verdict_grid(tables: Tables, printed: str, counts: dict[str, int]) -> ClaimOutcome:
    """Every Abstention value on the grid of half-point verdicts: rounded, or only when cut to three decimals."""
    cut, plain, missed = True, True, []
    for length, values in _abstention(tables).items():
        steps = 4 * counts[length]
        cut &= all(_on_grid(values, steps, 3, cut=True))
        rounds = _on_grid(values, steps, 3, cut=False)
        plain &= all(rounds)
        missed.append(f"{length} {len(values) - sum(rounds)} of {len(values)}")
    status: Status = "holds" if plain else "holds within rounding" if cut else "differs"
    note = f"Distinct values off the grid if scores were rounded: {', '.join(missed)}."
    return ClaimOutcome("all values on grid" if cut or plain else "values off the grid", status, note)


def rater_grid(tables: Tables, printed: str, counts: dict[str, int]) -> ClaimOutcome:
    """Every cell of Table 4 on the grid of two whole-number ratings per conversation."""
    fits = {size: all(_on_grid(_ratings(tables, size), 2 * n, 2, cut=False)) for size, n in counts.items()}
    return ClaimOutcome(all(fits.values()), holds(all(fits.values())), "A consistency check, not a proof.")


def _rated(tables: Tables, dimension: str) -> Mapping[str, Decimal]:
    frame = tables["table4"]
    rows = frame[(frame["dimension"] == dimension) & (frame["chat_size"] != published.AVERAGE)]
    return {row["chat_size"]: Decimal(row["printed"]) for row in records(rows)}


def rating_mean(tables: Tables, printed: str, dimension: str) -> ClaimOutcome:
    """Unweighted mean over the four sizes of one rated dimension."""
    value = mean(list(_rated(tables, dimension).values()))
    note = f"Unweighted mean over the sizes {show(value, 4)}."
    return ClaimOutcome(number(value, 4), verdict(figures(printed)[0], value), note)


def weighted_ratings(tables: Tables, printed: str, counts: dict[str, int]) -> ClaimOutcome:
    """Means weighted by conversations, in the order in which Table 4 lists its dimensions."""
    dimensions = list(dict.fromkeys(tables["table4"]["dimension"]))
    whole = sum(counts.values())
    values = [sum(counts[size] * value for size, value in _rated(tables, name).items()) / whole for name in dimensions]
    exact = [Decimal(value) for value in values]
    status = worst([verdict(figure, value) for figure, value in zip(figures(printed), exact, strict=True)])
    return ClaimOutcome(
        [number(value) for value in exact], status, "Weighted by the inferred numbers of conversations."
    )


def _shares(tables: Tables, length: str) -> pd.DataFrame:
    frame = tables["table7"]
    return frame[frame["length"] == length]


def shares_sum(tables: Tables, printed: str, length: str) -> ClaimOutcome:
    """Sum of the ten decile shares, and the smallest number of evidence locations that reproduces them all."""
    shares = [Decimal(text.rstrip("%")) for text in _shares(tables, length)["printed"]]
    value = sum(shares, Decimal(0))
    hundredths = np.array([int(100 * share) for share in shares])
    totals = np.arange(1, _LONGEST_TOTAL + 1)[:, None]
    counts = np.rint(hundredths * totals / 10_000)
    # Rounding half up in whole numbers; a share fits when the nearest whole count gives it back.
    back = np.floor(counts * 10_000 / totals + 0.5)
    fits = np.flatnonzero((back == hundredths).all(axis=1) & (counts.sum(axis=1) == totals[:, 0]))
    smallest = f"{int(totals[fits[0], 0])}" if fits.size else f"none up to {_LONGEST_TOTAL}"
    note = f"Smallest number of evidence locations with these shares: {smallest}."
    return ClaimOutcome(number(value), verdict(figures(printed)[0], value), note)


def last_share(tables: Tables, printed: str, lengths: list[str]) -> ClaimOutcome:
    """Share of the last decile by length; holds when it is below a tenth at the `lengths` the text speaks of."""
    last: dict[str, Any] = {}
    for length in dict.fromkeys(tables["table7"]["length"]):
        last[length] = _shares(tables, length)["printed"].iloc[-1]
    low = [length for length, text in last.items() if Decimal(text.rstrip("%")) < 10]
    return ClaimOutcome(list(last.values()), holds(set(lengths) <= set(low)), f"Below a tenth at: {', '.join(low)}.")
