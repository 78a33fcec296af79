"""What notebook 12 and the page show of the field: tables, one figure, and sentences that are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from beam_field.comparing import (
    HEADLINE,
    FieldSystem,
    Pair,
    ability_frame,
    average_of,
    errata_effect,
    only_printed,
    pairs,
    reproduced,
)
from beamlib.data.conversations import SIZES
from beamlib.data.gold import ABILITIES
from beamlib.report.long_frame import ability_label
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING, with_interval
from beamlib.scoring.scores import AVERAGE
from beamlib.text import count

INTERVAL = "Interval: 95 %, t over conversations on the logit scale; one conversation has none."
RESTS_ON = (
    "Verdicts as their sources published them, matched to the released questions by tier and exact text; scored here. "
    "Reader and judge are those of the source. Runs that repeat a system count a question with the mean over them."
)
_GOLD = {"yes": "in the prompt", "no": "not shown", "unknown": "nobody says"}
_TITLES = {
    "no": "",
    "yes": ": gold in the answer prompt",
    "unknown": ": nobody says whether gold was in the answer prompt",
    "in part": ": gold in the answer prompts of one ability",
}
_NAMES = {"no": "", "yes": "_gold_shown", "unknown": "_gold_unknown", "in part": "_gold_in_part"}


def gold_apart(systems: Sequence[FieldSystem]) -> dict[str, list[FieldSystem]]:
    """The systems that may stand in one column, by what names of their tables end in: gold in the prompt is apart."""
    groups = {gold: [one for one in systems if one.source.gold_in_prompt == gold] for gold in _NAMES}
    return {_NAMES[gold]: own for gold, own in groups.items() if own}


def scores_table(frame: pd.DataFrame) -> Table:
    """Systems of one kind (`gold_apart`) under every protocol; `frame` as from `comparing.field_frame`."""
    shown = frame.dropna(subset=["mean"])
    protocols = [name for name in dict.fromkeys(frame["protocol"]) if name in set(shown["protocol"])]
    cells = []
    facts = ["tier", "system", "judge", "reader", "kind", "gold", "runs", "conversations"]
    for key, own in frame.groupby(facts, sort=False):
        tier, system, judge, reader, kind, gold, runs, conversations = key
        by = own.set_index("protocol").to_dict("index")
        told = (
            tier,
            system,
            f"{judge}: {kind}",
            reader,
            _GOLD[str(gold)],
            f"{runs}",
            f"{conversations} / {own['n'].max()}",
        )
        cells.append((*told, *(_cell(by[name]) for name in protocols)))
    header = ["tier", "system", "judge: verdicts", "reader", "gold", "runs", "conversations / questions", *protocols]
    unscored = int(frame.groupby(["tier", "system"])["unscored"].max().sum())
    footer = (
        RESTS_ON,
        f"{INTERVAL} Average over the ten abilities. Unscored: {unscored}.",
        f"A dash, or no column: not computable from this source, so there is no average. {_gaps(frame)}.",
    )
    table = pd.DataFrame(cells, columns=header)
    title = f"BEAM scores of the field, from published verdicts{_TITLES[str(frame['gold'].iloc[0])]}"
    return Table(title, table, footer, kind="costs", csv=frame)


def _gaps(frame: pd.DataFrame) -> str:
    """Which abilities a protocol cannot have from which kind of verdict."""
    found: dict[str, dict[str, list[str]]] = {}
    for kind, own in frame[frame["missing"] != ""].groupby("kind", sort=False):
        for missing, rows in own.groupby("missing", sort=False):
            found.setdefault(str(missing), {}).setdefault(", ".join(dict.fromkeys(rows["protocol"])), []).append(
                str(kind)
            )
    return "; ".join(
        f"{_abilities(missing)}: " + ", and ".join(f"{names} of {' and '.join(kinds)}" for names, kinds in own.items())
        for missing, own in found.items()
    )


def _abilities(names: str) -> str:
    own = names.split(", ")
    return "All ten abilities" if len(own) == len(ABILITIES) else ", ".join(ability_label(name) for name in own)


def _cell(row: Mapping[Any, Any]) -> str:
    if np.isnan(row["mean"]):
        return NOTHING
    return with_interval(f"{row['mean']:.3f}", row["low"], row["high"], row["conversations"])


def reproduced_table(systems: Sequence[FieldSystem]) -> Table:
    """The averages that sources state beside those of their verdicts."""
    frame = reproduced(systems)
    cells = frame.assign(reproduced=frame["reproduced"].map({True: "yes", False: "no"}))
    footer = (RESTS_ON, "In percent, over questions, as sources average; the protocol is the one nearest to theirs.")
    return Table("Published averages, reproduced", cells.astype(str), footer, kind="costs", csv=frame)


def abilities_table(systems: Sequence[FieldSystem]) -> Table:
    """Systems of one kind (`gold_apart`) by ability."""
    frame = ability_frame(systems)
    rows = []
    facts = ["tier", "system", "reader", "judge", "kind", "protocol"]
    for (tier, system, reader, judge, _, protocol), own in frame.groupby(facts, sort=False):
        found = own.set_index("ability").to_dict("index")
        cells = (_cell(found[name]) if name in found else NOTHING for name in (*ABILITIES, AVERAGE))
        rows.append([tier, system, reader, f"{judge}: {protocol}", *cells])
    header = ["tier", "system", "reader", "judge: protocol", *(ability_label(name) for name in (*ABILITIES, AVERAGE))]
    footer = (RESTS_ON, f"{INTERVAL} Rows of another judge or kind of verdict are not comparable.")
    title = f"The field by ability{_TITLES[systems[0].source.gold_in_prompt]}"
    return Table(title, pd.DataFrame(rows, columns=header), footer, kind="costs", csv=frame)


def errata_table(systems: Sequence[FieldSystem]) -> Table:
    """What leaving out the questions with known defects changes, for systems of one kind (`gold_apart`)."""
    frame = errata_effect(systems)
    cells = frame.assign(**{name: frame[name].map("{:.3f}".format) for name in ("all", "drop")})
    cells["change"] = frame["change"].map("{:+.3f}".format)
    footer = (RESTS_ON, "drop: without the questions whose score a known defect can spoil (docs/errata.md).")
    title = f"What errata change{_TITLES[systems[0].source.gold_in_prompt]}"
    return Table(title, cells.astype(str), footer, kind="costs", csv=frame)


def pairs_table(systems: Sequence[FieldSystem]) -> Table:
    """The differences that may be computed: same tier, judge, kind of verdict and questions."""
    rows = []
    for one in pairs(systems):
        found, source = one.found, one.first.source
        shown = NOTHING if np.isnan(found.low) else f"[{found.low:+.3f}, {found.high:+.3f}]"
        p = NOTHING if np.isnan(found.p_value) else _p(found.p_value).removeprefix("p = ").removeprefix("p ")
        told = (source.tier, one.first.name, one.second.name, f"{found.difference:+.3f}", shown, p)
        rows.append((*told, str(one.questions), str(found.n), source.judged_by))
    header = ["tier", "system", "minus", "difference", "95 % interval", "p", "questions", "conversations", "judge"]
    footer = (
        RESTS_ON,
        "Paired over conversations, t-interval; p: sign-flip test. Other pairs differ in judge, its prompt, verdicts, "
        "questions or gold in the answer prompt, or nobody says who judged or whether gold was there.",
    )
    return Table("Pairs that may be compared", pd.DataFrame(rows, columns=header), footer, kind="costs")


def printed_tables() -> dict[str, Table]:
    """Published averages that nobody can check, by the ends of names as `gold_apart` has them."""
    frame = only_printed()
    gold = frame["gold_in_answer_prompt"].where(frame["gold_in_answer_prompt"].isin(["yes", "no"]), "in part")
    footer = (
        "Printed by their authors; no verdict is at hand, so nothing of it was computed here and no interval is known.",
    )
    tables = {}
    for kind, own in frame.groupby(gold, sort=False):
        cells = own.rename(columns={"gold_in_answer_prompt": "gold in the answer prompt", "score_percent": "percent"})
        title = f"Published without verdicts{_TITLES[str(kind)]}"
        tables[_NAMES[str(kind)]] = Table(title, cells.astype(str), footer, kind="costs", csv=own)
    return tables


def answer(systems: Sequence[FieldSystem], tier: str) -> list[str]:
    """Who is better on BEAM at this tier, and how sure that is: on each group, each pair, and what is only printed."""
    own = [one for one in systems if one.source.tier == tier]
    lines = [_headline(own, tier)]
    for group in dict.fromkeys(one.group for one in own):
        members = [one for one in own if one.group == group]
        ranked = sorted(members, key=lambda one: -average_of(one, HEADLINE[one.source.kind])[0])
        lines.append(_group_sentence(ranked))
    found = pairs(systems, tier)
    lines += [_pair_sentence(one) for one in found]
    if len(lines) - len(found) > 2:
        lines.append("Between these groups nothing can be said: another judge decided, or by another measure.")
    if printed := _printed_sentence(tier):
        lines.append(printed)
    return lines


def _headline(own: Sequence[FieldSystem], tier: str) -> str:
    """How much of the ranking is known at all."""
    printed = only_printed()
    judged = {one.name for one in own}  # several judges of one system's answers make it one system
    several = len(judged) + int((printed["tier"] == tier).sum())
    found = {frozenset((one.first.name, one.second.name)): one for one in pairs(own)}
    told = [f"{one.first.name} above {one.second.name}" for one in found.values() if _is_better(one)]
    sure = f"told apart: {'; '.join(told)}" if told else "none is told apart"
    return (
        f"{several} systems have a score, {len(judged)} of them verdicts that can be checked. Of "
        f"{several * (several - 1) // 2} pairs {len(found)} may be compared (one judge and prompt, one kind of "
        f"verdict, the same questions); {sure}. Which of all systems is best is not known."
    )


def _is_better(one: Pair) -> bool:
    return one.found.n > 1 and one.found.low > 0 and one.found.p_value < 0.05


def _group_sentence(ranked: Sequence[FieldSystem]) -> str:
    source = ranked[0].source
    protocol = HEADLINE[source.kind]
    counts = [one.scores(protocol)["conversation_id"].nunique() for one in ranked]
    shown = [
        f"{one.name} {_shown(average_of(one, protocol))}{' (one conversation)' if count == 1 else ''}"
        for one, count in zip(ranked, counts, strict=True)
    ]
    readers = " or ".join(dict.fromkeys(one.source.reader or "nobody says whom" for one in ranked))
    gold = "" if source.gold_in_prompt == "no" else f"; gold in the answer prompt: {source.gold_in_prompt}"
    basis = f"{protocol}, {count(max(counts), 'conversation')}; answered by {readers}{gold}"
    doubt = f" Not compared: {ranked[0].doubt}." if ranked[0].doubt else ""
    return f"Judged by {source.judged_by} ({basis}): {', '.join(shown)}.{doubt}"


def _shown(value: tuple[float, float, float]) -> str:
    mean, low, high = value
    return f"{mean:.3f}" if np.isnan(low) else f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def _pair_sentence(one: Pair) -> str:
    found = one.found
    if found.n < 2:
        return f"{one.first.name} against {one.second.name}: one conversation, no test."
    shown = f"{found.difference:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    head = f"{one.first.name} minus {one.second.name}, paired: {shown}"
    sure = "better" if _is_better(one) else "not told apart"
    return f"{head}, {_p(found.p_value)} over {found.n} conversations: {sure}."


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _printed_sentence(tier: str) -> str:
    frame = only_printed()
    own = frame[frame["tier"] == tier]
    if own.empty:
        return ""
    parts = []
    for gold, words in (("no", "gold not in the answer prompt"), ("yes", "gold in the answer prompt")):
        rows = own[own["gold_in_answer_prompt"] == gold]
        if len(rows):
            parts.append(
                f"{words}: " + ", ".join(f"{row['system']} {row['score_percent']}" for _, row in rows.iterrows())
            )
    rest = own[~own["gold_in_answer_prompt"].isin(["yes", "no"])]
    if len(rest):
        parts.append("in part: " + ", ".join(f"{row['system']} {row['score_percent']}" for _, row in rest.iterrows()))
    return f"Printed only, so not checked and not comparable with the above ({'; '.join(parts)})."


def tiers(systems: Sequence[FieldSystem]) -> list[str]:
    """The tiers that any system has."""
    return [size for size in SIZES if any(one.source.tier == size for one in systems)]
