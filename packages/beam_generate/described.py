"""Tables 3 and 7 of conversations: how long they are and where the evidence of their questions lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, isnan, nan
from pathlib import Path

import pandas as pd
from IPython.display import DisplayObject
from matplotlib.figure import Figure

from beam_generate.probes.deciles import deciles, published_deciles
from beam_generate.seeds import PRINTED_SIZE, targets
from beamlib.data.checked_json import Unreadable
from beamlib.data.conversations import Conversation, Size, Treatment
from beamlib.data.loading import Loaded, load, readable
from beamlib.data.published import table
from beamlib.data.sources import Source, find_conversations
from beamlib.evaluate.beam_records import data_revision
from beamlib.evaluate.conversation_record import record_of
from beamlib.evaluate.records import left_out_line
from beamlib.report.figures import PAGE_WIDTH, bars, legend, style
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING
from beamlib.report.workspace import Workspace
from beamlib.text import TOKEN_COUNTER, count_tokens

_ROWS = {
    "user_messages": "user messages",
    "assistant_messages": "assistant messages",
    "turns": "turns",
    "answered_assistant_questions": "answered assistant questions",
    "followup_questions": "follow-up questions",
    "tokens": "tokens",
}
"""Column of Table 3 (which has no tokens) -> what it counts."""
_TIERS = {"100K": 20, "500K": 35, "1M": 35, "10M": 10}
"""Conversations behind the printed means."""


@dataclass(frozen=True)
class Described:
    """Counts over the conversations of one tier.

    `read` and `whole` hold a row per conversation: as the run reads it, and before the release cut it. `shares` are the
    percentages of the evidence in each tenth of a conversation, over `questions` questions that cite messages. `source`
    says where the conversations come from and how they were read.
    """

    size: Size
    read: pd.DataFrame
    whole: pd.DataFrame
    shares: tuple[float, ...]
    questions: int
    source: str

    @property
    def deciles(self) -> pd.DataFrame:
        """Measured and printed percentages by tenth."""
        printed = [100 * share for share in published_deciles(self.size)]
        index = pd.Index(range(1, 11), name="decile")
        return pd.DataFrame({"measured": self.shares, "Table 7 as printed": printed}, index=index).round(2)

    def table3(self) -> Table:
        """Build Table 3: means per conversation beside the printed ones, and what the printed number is."""
        printed = table("table3").set_index("chat_size").loc[PRINTED_SIZE[self.size]].to_dict()
        rows = []
        for name, words in _ROWS.items():
            means = [NOTHING if isnan(m := frame[name].mean()) else f"{m:,.1f}" for frame in (self.read, self.whole)]
            value = printed.get(name)
            if value is None:
                rows.append((self.size, words, *means, NOTHING, f"none: the size is called {PRINTED_SIZE[self.size]}"))
            else:
                rows.append((self.size, words, *means, f"{value:,}", self._meaning(name, value)))
        n, lost = len(self.read), int(self.whole["tokens"].isna().sum())
        cut = int((self.read["tokens"] != self.whole["tokens"]).sum())
        without = f" ({lost} of them cannot be read and do not count there)" if lost else ""
        footer = (
            f"{self.size}: n = {n}, where the printed means are over {_TIERS[self.size]} conversations; {self.source}; "
            f"{cut} of {n} are cut, the column 'whole' is before the cut{without}.",
            f"Tokens by {TOKEN_COUNTER}.",
        )
        header = ("Size", "Mean per conversation", "as read", "whole", "printed", "the printed number is")
        title = f"Table 3, {self.size}: the conversations of this run beside the printed numbers"
        return Table(title, pd.DataFrame(rows, columns=header), footer)

    def table7(self) -> Table:
        """Build Table 7: where the evidence lies, measured and printed."""
        rows = [
            (self.size, str(tenth), f"{ours:.1f} %", f"{theirs:.2f} %", f"{ours - theirs:+.1f}")
            for tenth, ours, theirs in self.deciles.itertuples()
        ]
        footer = (
            f"{self.size}: {self.questions} questions, n = {len(self.read)}; {self.source}.",
            "Each question that cites messages weighs the same, in equal parts for the tenths in which it cites any.",
        )
        header = ("Size", "Tenth", "measured", "printed", "difference in points")
        title = f"Table 7, {self.size}: where the evidence of this run's questions lies, beside the printed percentages"
        return Table(title, pd.DataFrame(rows, columns=header), footer)

    def _meaning(self, name: str, printed: int) -> str:
        """Say what a printed number is of the whole conversations: their mean, rounded, their total, or neither."""
        counts = self.whole[name]
        if counts.isna().all():
            return "not known: no whole chat can be read"
        mean, each = counts.mean(), targets(self.size).followups if name == "followup_questions" else printed
        if printed in (round(mean), ceil(mean)):
            return "the mean, rounded" if printed == round(mean) else "the mean, rounded up"
        if printed == counts.sum():
            return f"the total of all {len(counts)}, not their mean"
        side = "above" if each > mean else "below"
        apart = f"{100 * abs(each / mean - 1):.1f} % {side} the mean" if mean else "not the mean"
        return apart if each == printed else f"a total, {each:.1f} for each; {apart}"


def describe(
    sources: Sequence[Source], treatment: Treatment, *, conversations: int = 0, skip_broken: bool = False
) -> Described:
    """Count the conversations of one tier, one after the other; at most `conversations` of them, 0 for all.

    A conversation that cannot be read is left out and named with `skip_broken`, else it is `Unreadable`.
    """
    read, whole, evidence, records = [], [], [], {}
    left_out: dict[str, str] = {}
    loaded = readable(sources, treatment, skip_broken=skip_broken, left_out=left_out)
    for one in islice(loaded, conversations or None):
        records[one.source.id] = record_of(one)
        read.append(_counts(one.conversation))
        whole.append(_whole(one, treatment) if one.conversation.variant == "truncated" else read[-1])
        cited = [gold.evidence for gold in one.gold.values() if gold.evidence]
        evidence.append((len(cited), deciles(cited, len(one.conversation.messages))))
    questions = sum(n for n, _ in evidence)
    shares = (sum(100 * n * own[tenth] for n, own in evidence) / max(questions, 1) for tenth in range(10))
    origin = f"{data_revision(records)}, read as chat_variant={treatment.chat_variant}"
    origin += f"; {left_out_line(left_out)}" if left_out else ""
    return Described(sources[0].size, pd.DataFrame(read), pd.DataFrame(whole), tuple(shares), questions, origin)


def _whole(one: Loaded, treatment: Treatment) -> dict[str, float]:
    """Count a conversation before the cut, NaN if that chat cannot be read: no question needs it."""
    try:
        return _counts(load(one.source, replace(treatment, chat_variant="full")).conversation)
    except Unreadable:
        return dict.fromkeys(_ROWS, nan)


def _counts(conversation: Conversation) -> dict[str, float]:
    kinds = Counter(str(name) for message in conversation for name in (message.role, message.kind))
    return {
        "user_messages": kinds["user"],
        "assistant_messages": kinds["assistant"],
        "turns": len(conversation.turns),
        "answered_assistant_questions": kinds["answer_ai_question"],
        "followup_questions": kinds["followup_question"],
        "tokens": sum(count_tokens(message.content) for message in conversation),
    }


def decile_figure(frame: pd.DataFrame, size: Size, who: str) -> Figure:
    """Draw bars of deciles, one per column of `frame`; `who` names the conversations on the axis."""
    rows = frame.reset_index().melt("decile", value_name="mean").assign(low=float("nan"), high=float("nan"))
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 2.6))
        axes = figure.subplots()
        bars(axes, rows, "decile", "variable")
        axes.set(xlabel=f"tenth of the conversation, {size}; {who}", ylabel="share of evidence, %")
        legend(figure, axes, columns=3)
    return figure


def describe_run(work: Workspace) -> Described:
    """Count all conversations that a run over the tier reads, for Tables 3 and 7."""
    parameters = work.parameters
    sources = find_conversations(Path(parameters.data), [parameters.size])
    return describe(
        sources, parameters.treatment, conversations=parameters.conversations, skip_broken=parameters.skip_broken
    )


def save_run_deciles(work: Workspace, tier: Described) -> DisplayObject:
    """Save and show where the evidence lies in the conversations of a run."""
    size, n = work.parameters.size, len(tier.read)
    caption = f"Where the evidence lies, {size}: {tier.questions} questions, n = {n}; {tier.source}; and Table 7."
    figure, frame = decile_figure(tier.deciles, size, f"n = {n}"), tier.deciles.reset_index()
    shown: DisplayObject = work.save_figure(figure, "table7_evidence", frame, caption, scores=False)
    return shown
