"""Formulas on the size and make-up of the benchmark: Tables 2 to 7, the grids behind the scores, and plain counts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np

from beam_claims.values import (
    ClaimOutcome,
    Status,
    Tables,
    count_outcome,
    figures,
    holds,
    mean,
    named,
    number,
    records,
    rounded,
    show_decimal,
    truncated,
    unchecked,
    verdict,
    worst,
)
from beamlib.data import published

_UNITS = {"K": 10**3, "M": 10**6}
_LARGEST_TOTAL = 2000  # evidence locations tried; the smallest totals that fit lie far below
_MOST_CONVERSATIONS = 60


def not_checkable(tables: Tables, printed: str, reason: str) -> ClaimOutcome:
    """Return the outcome of a setting, an outside fact or a lost figure: nothing to recompute."""
    return unchecked(reason)


def plan_ratios(tables: Tables, printed: str, reason: str) -> ClaimOutcome:
    """Return user messages and turns at 10M over those at 1M: they agree with a number of plans and cannot prove it."""
    rows = _by_size(tables, "table3")
    ratios = [Decimal(rows["10M"][name]) / rows["1M"][name] for name in ("user_messages", "turns")]
    return ClaimOutcome([number(ratio) for ratio in ratios], "cannot be checked", reason)


def _by_size(tables: Tables, table: str) -> dict[str, dict[str, Any]]:
    return {row["chat_size"]: row for row in records(tables[table])}


def distinct(tables: Tables, printed: str, table: str, column: str) -> ClaimOutcome:
    """Count the distinct entries of a column, without the Average label."""
    count = len(set(tables[table][column]) - {published.AVERAGE})
    return count_outcome(printed, count, f"Distinct entries of column {column}.")


def questions(tables: Tables, printed: str, factors: list[int]) -> ClaimOutcome:
    """Multiply the abilities of Table 1 by the stated counts (questions per ability, conversations)."""
    return count_outcome(printed, len(tables.scores("table1").abilities) * math.prod(factors))


def total(tables: Tables, printed: str, terms: list[int]) -> ClaimOutcome:
    """Add up the stated counts."""
    return count_outcome(printed, sum(terms))


def abilities_except(tables: Tables, printed: str, excepted: int) -> ClaimOutcome:
    """Count the abilities of Table 1 less a stated number of them."""
    return count_outcome(printed, len(tables.scores("table1").abilities) - excepted)


def choices(tables: Tables, printed: str, size: int, chosen: int) -> ClaimOutcome:
    """Count the ways to choose `chosen` of `size`."""
    return count_outcome(printed, math.comb(size, chosen))


def count_named(tables: Tables, printed: str, named: list[str]) -> ClaimOutcome:
    """Count the things that the text names."""
    return count_outcome(printed, len(named), f"Named: {', '.join(named)}.")


def day_differences(tables: Tables, printed: str, spans: list[list[str]]) -> ClaimOutcome:
    """Count the days between pairs of ISO dates."""
    return count_outcome(printed, [(date.fromisoformat(end) - date.fromisoformat(start)).days for start, end in spans])


def _tokens(label: str) -> int:
    """Return the tokens of a length label such as "10M" or "~350K"."""
    return int(label.lstrip("~")[:-1]) * _UNITS[label[-1]]


def _labels(tables: Tables) -> list[str]:
    """Return the length labels in use, shortest first."""
    columns = dict.fromkeys(("table1", "table7", "table8", "table9", "table10"), "length")
    columns |= dict.fromkeys(("table3", "table4", "table6"), "chat_size")
    labels = {value for table, column in columns.items() for value in tables[table][column] if value[-1] in _UNITS}
    return sorted(labels, key=_tokens)


def largest_label(tables: Tables, printed: str) -> ClaimOutcome:
    """Return the largest length label in use."""
    value = _labels(tables)[-1]
    return ClaimOutcome(value, holds(value == printed), "A label; the text gives no measured token counts.")


def shortest_labels(tables: Tables, printed: str, next_longer: str) -> ClaimOutcome:
    """Return the labels in use for conversations shorter than `next_longer`; holds when there is one."""
    labels = [label for label in _labels(tables) if _tokens(label) < _tokens(next_longer)]
    return ClaimOutcome(" and ".join(labels), holds(len(labels) == 1), "The labels denote the same set.")


def listing_numbers(tables: Tables, printed: str, kind: str) -> ClaimOutcome:
    """Return the numbers of the prompt listings of one kind, as first-last (count)."""
    listings = tables["listings"]
    numbers = sorted(listings.loc[listings["kind"] == kind, "number"])
    first, last = (int(value) for value in figures(printed))
    same = numbers == list(range(first, last + 1))
    return ClaimOutcome(f"{numbers[0]}-{numbers[-1]} ({len(numbers)})" if numbers else "none", holds(same))


def listing_count(tables: Tables, printed: str) -> ClaimOutcome:
    """Count the prompt listings, which must be numbered without a gap."""
    numbers = sorted(tables["listings"]["number"])
    whole = numbers == list(range(1, len(numbers) + 1))
    return ClaimOutcome(len(numbers), holds(whole and figures(printed) == [len(numbers)]))


def _marks(tables: Tables) -> dict[str, list[str]]:
    """Return the abilities that Table 2 marks per benchmark, in alphabetical order."""
    frame = tables["table2"]
    marked = frame[frame["covered"] == "yes"]
    return {name: sorted(marked.loc[marked["benchmark"] == name, "ability"]) for name in frame["benchmark"].unique()}


def new_abilities(tables: Tables, printed: str, ours: str) -> ClaimOutcome:
    """Count the abilities marked for this benchmark alone, and those of an earlier one too."""
    marks = _marks(tables)
    earlier = {ability for name, abilities in marks.items() if name != ours for ability in abilities}
    new = [ability for ability in marks[ours] if ability not in earlier]
    shared = len(marks[ours]) - len(new)
    stated = [int(value) for part in printed.split(", ") for value in figures(part)]  # "three new, seven earlier"
    return ClaimOutcome(f"{len(new)} new ({', '.join(new)}), {shared} earlier", holds(stated == [len(new), shared]))


def few_marks(tables: Tables, printed: str, ours: str) -> ClaimOutcome:
    """Count marks per benchmark; holds when every earlier one has fewer than this one."""
    marks = {name: len(abilities) for name, abilities in _marks(tables).items()}
    most = max(count for name, count in marks.items() if name != ours)
    note = f"At most {most} for an earlier benchmark, {marks[ours]} here."
    return ClaimOutcome(marks, holds(most < marks[ours]), note)


def covered(tables: Tables, printed: str, benchmark: str, named: list[str], exhaustive: bool) -> ClaimOutcome:
    """List the abilities marked for a benchmark: those the text names, and no others when `exhaustive`."""
    marked = _marks(tables)[benchmark]
    more = [ability for ability in marked if ability not in named]
    note = f"Marked but not named: {', '.join(more)}." if more else "Marked and named alike."
    return ClaimOutcome(marked, holds(set(named) <= set(marked) and not (exhaustive and more)), note)


def stated_length(tables: Tables, printed: str, benchmark: str) -> ClaimOutcome:
    """Return the chat length of a benchmark in Table 2; an approximate entry ("~") allows a tenth either way."""
    frame = tables["table2"]
    entry = str(frame.loc[frame["benchmark"] == benchmark, "chat_length"].iloc[0])
    gap = abs(_tokens(entry) - _tokens(printed))
    if gap == 0:
        return ClaimOutcome(entry, "holds", "Agreement between text and table only.")
    near = entry.startswith("~") and 10 * gap <= _tokens(entry)
    return ClaimOutcome(entry, "holds within rounding" if near else "differs", f"Text {printed}, table {entry}.")


def _configured(tables: Tables) -> dict[str, dict[str, int]]:
    """Return the configured user questions per size and category (Table 6); at 10M those of one of the ten plans."""
    counts: dict[str, dict[str, int]] = {}
    for row in records(tables["table6"]):
        count = row["num_subplans"] * row["batches_per_subplan_k"] * row["questions_per_batch_i"]
        counts.setdefault(row["chat_size"], {})[row["category"]] = count
    return counts


def fewer_questions(tables: Tables, printed: str, fewer: str, more: str) -> ClaimOutcome:
    """Compare the configured questions of category `fewer` with those of category `more` at each size."""
    pairs = {size: [counts[fewer], counts[more]] for size, counts in _configured(tables).items()}
    status = holds(all(few < many for few, many in pairs.values()))
    return ClaimOutcome(pairs, status, f"[{fewer}, {more}]; per plan at 10M.")


def turns_in_range(tables: Tables, printed: str, plans: dict[str, int]) -> ClaimOutcome:
    """Compare average turns (Table 3) with the smallest and largest configuration (Table 6) of `plans` plans."""
    configured = _configured(tables)
    recomputed, outside = {}, []
    for size, row in _by_size(tables, "table3").items():
        counts = [count * plans.get(size, 1) for count in configured[size].values()]
        recomputed[size] = {"turns": row["turns"], "configured": [min(counts), max(counts)]}
        if not min(counts) <= row["turns"] <= max(counts):
            outside.append(f"{size} ({row['turns']})")
    return ClaimOutcome(recomputed, holds(not outside), f"Outside: {named(outside)}.")


def message_sum(tables: Tables, printed: str) -> ClaimOutcome:
    """Compare user messages with turns + answered assistant questions + follow-ups, per size (all are averages)."""
    recomputed, off = {}, {}
    for size, row in _by_size(tables, "table3").items():
        parts = row["turns"] + row["answered_assistant_questions"] + row["followup_questions"]
        recomputed[size] = {"user_messages": row["user_messages"], "sum": parts}
        off[size] = parts - row["user_messages"]
    note = f"Sum less user messages: {', '.join(f'{size} {gap:+d}' for size, gap in off.items())}."
    return ClaimOutcome(recomputed, holds(not any(off.values())), note)


def equal_messages(tables: Tables, printed: str) -> ClaimOutcome:
    """Compare user and assistant messages, row by row."""
    rows = _by_size(tables, "table3")
    pairs = {size: [row["user_messages"], row["assistant_messages"]] for size, row in rows.items()}
    return ClaimOutcome(pairs, holds(all(user == assistant for user, assistant in pairs.values())))


def exchange_bound(tables: Tables, printed: str) -> ClaimOutcome:
    """Compare follow-ups and answered questions with the bound per turn: [followups, answered, bound] by size."""
    bound = int(figures(printed)[0])
    rows = {
        size: [row["followup_questions"], row["answered_assistant_questions"], bound * row["turns"]]
        for size, row in _by_size(tables, "table3").items()
    }
    over = [size for size, (followups, answered, limit) in rows.items() if max(followups, answered) > limit]
    return ClaimOutcome(rows, holds(not over), f"[follow-ups, answered, bound]. Beyond the bound: {named(over)}.")


def _abstention(tables: Tables) -> dict[str, list[Decimal]]:
    """Return the distinct Abstention values by length over all score tables."""
    values: dict[str, set[Decimal]] = {}
    for name in tables.score_tables:
        for (length, ability, _), value in tables.scores(name).printed.items():
            if ability == "Abstention":
                values.setdefault(length, set()).add(value)
    return {length: sorted(distinct) for length, distinct in values.items()}


def _on_grid(values: Iterable[Decimal], steps: int, places: int, *, cut: bool) -> list[bool]:
    """Check whether each value is k / steps for a whole k, cut or rounded to `places` decimals."""
    shorten = truncated if cut else rounded
    nearest = ((value, int(value * steps)) for value in values)
    return [any(shorten(Decimal(k) / steps, places) == value for k in (near, near + 1)) for value, near in nearest]


def _ratings(tables: Tables, **columns: str) -> dict[str, Decimal]:
    """Return the ratings of Table 4 in these rows, by size and dimension."""
    rows = [row for row in records(tables["table4"]) if all(row[name] == value for name, value in columns.items())]
    return {f"{row['chat_size']}, {row['dimension']}": Decimal(row["printed"]) for row in rows}


def conversation_split(tables: Tables, printed: str, counts: dict[str, int], ratings: dict[str, str]) -> ClaimOutcome:
    """Check that `counts` conversations per length fit the score and rating grids and add up to the printed total.

    Two abstention questions with verdicts in halves put an ability's average on a grid of 4 steps per conversation;
    `ratings` names each length's row in the human evaluation (Table 4).
    """
    fits = {
        length: [n for n in range(1, _MOST_CONVERSATIONS + 1) if all(_on_grid(values, 4 * n, 3, cut=True))]
        for length, values in _abstention(tables).items()
    }
    agrees = figures(printed) == [total_count := sum(counts.values())]
    for length, n in counts.items():
        rated = _ratings(tables, chat_size=ratings[length]).values()
        agrees &= n in fits[length] and all(_on_grid(rated, 2 * n, 2, cut=False))
    sizes = "; ".join(f"{length} {', '.join(map(str, numbers))}" for length, numbers in fits.items())
    note = f"The split is inferred. Sizes up to {_MOST_CONVERSATIONS} that fit the Abstention values: {sizes}."
    return ClaimOutcome(f"{'+'.join(map(str, counts.values()))} = {total_count}", holds(agrees), note)


def verdict_grid(tables: Tables, printed: str, counts: dict[str, int]) -> ClaimOutcome:
    """Check that every Abstention value is on the grid of half-point verdicts: rounded, or only when cut."""
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
    """Check that every cell of Table 4 is on the grid of two whole-number ratings per conversation."""
    ratings = {size: _ratings(tables, chat_size=size).values() for size in counts}
    fits = all(all(_on_grid(ratings[size], 2 * n, 2, cut=False)) for size, n in counts.items())
    return ClaimOutcome(fits, holds(fits), "A consistency check, not a proof.")


def rating_mean(tables: Tables, printed: str, dimension: str) -> ClaimOutcome:
    """Return the unweighted mean over the four sizes of one rated dimension."""
    ratings = _ratings(tables, dimension=dimension)
    value = mean([rating for size, rating in ratings.items() if not size.startswith(published.AVERAGE)])
    note = f"Unweighted mean over the sizes {show_decimal(value, 4)}."
    return ClaimOutcome(number(value, 4), verdict(figures(printed)[0], value), note)


def weighted_ratings(tables: Tables, printed: str, counts: dict[str, int]) -> ClaimOutcome:
    """Return the means weighted by conversations, in the order of Table 4's dimensions."""
    values = []
    for dimension in dict.fromkeys(tables["table4"]["dimension"]):
        ratings = _ratings(tables, dimension=dimension)
        values.append(sum((n * ratings[f"{size}, {dimension}"] for size, n in counts.items()), Decimal(0)))
    values = [value / sum(counts.values()) for value in values]
    status = worst([verdict(figure, value) for figure, value in zip(figures(printed), values, strict=True)])
    note = "Weighted by the inferred numbers of conversations."
    return ClaimOutcome([number(value) for value in values], status, note)


def shares_sum(tables: Tables, printed: str, length: str) -> ClaimOutcome:
    """Add up the ten decile shares, and find the smallest number of evidence locations that reproduces them all."""
    frame = tables["table7"]
    shares = [Decimal(text.rstrip("%")) for text in frame.loc[frame["length"] == length, "printed"]]
    value = sum(shares, Decimal(0))
    hundredths = np.array([int(100 * share) for share in shares])
    totals = np.arange(1, _LARGEST_TOTAL + 1)[:, None]
    counts = np.rint(hundredths * totals / 10_000)
    # Rounding half up in whole numbers; a share fits when the nearest whole count gives it back.
    back = np.floor(counts * 10_000 / totals + 0.5)
    fits = np.flatnonzero((back == hundredths).all(axis=1) & (counts.sum(axis=1) == totals[:, 0]))
    smallest = f"{int(totals[fits[0], 0])}" if fits.size else f"none up to {_LARGEST_TOTAL}"
    note = f"Smallest number of evidence locations with these shares: {smallest}."
    return ClaimOutcome(number(value), verdict(figures(printed)[0], value), note)


def last_share(tables: Tables, printed: str, lengths: list[str]) -> ClaimOutcome:
    """Return the share of the last decile by length; holds when below a tenth at the `lengths` of the text."""
    last = {row["length"]: row["printed"] for row in records(tables["table7"])}
    low = [length for length, text in last.items() if Decimal(text.rstrip("%")) < 10]
    return ClaimOutcome(list(last.values()), holds(set(lengths) <= set(low)), f"Below a tenth at: {', '.join(low)}.")
