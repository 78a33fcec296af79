"""What notebooks 01 to 05 show: one generated conversation stage by stage, and Tables 3 and 7 of conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from itertools import islice
from math import ceil, isnan, nan
from pathlib import Path

import ipywidgets as widgets
import pandas as pd
from IPython.display import DisplayObject
from matplotlib.figure import Figure

from beam_generate.authors import Stage
from beam_generate.folder import read_plan, read_questions, read_story, read_turns
from beam_generate.of_run import config_of, estimate_generation, make_first_conversation
from beam_generate.people import render_profile, render_relationships
from beam_generate.pipeline import CANDIDATES, DECISIONS, ConversationSpec, repairs_of, unfinished
from beam_generate.probes.drafts import Draft, View, read_candidates
from beam_generate.probes.making import (
    Decision,
    Verdict,
    deciles,
    published_deciles,
    read_decisions,
    released_deciles,
    review_agreement,
    write_decisions,
)
from beam_generate.questions import divide
from beam_generate.seeds import PRINTED_SIZE, targets
from beam_generate.shapes import Bullet, DialogueTurn, MainQuestion, Plan, Story
from beamlib.data.checked_json import Unreadable
from beamlib.data.conversations import Conversation, Size, Treatment
from beamlib.data.loading import Loaded, load, readable
from beamlib.data.published import table
from beamlib.data.sources import Source, find_conversations
from beamlib.evaluate.beam_records import data_revision
from beamlib.evaluate.conversation_record import record_of
from beamlib.evaluate.records import left_out_line
from beamlib.llm.model import OFFLINE_NAME
from beamlib.report.figures import PAGE_WIDTH, bars, legend, style
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING
from beamlib.report.workspace import Workspace, of_run
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


def conversation_of(work: Workspace, stage: Stage) -> NotebookConversation:
    """Make the first conversation of the run folder up to `stage`, after printing who writes it and at what cost."""
    work.generating, work.parameters = True, of_run(work.parameters)
    parameters = work.parameters
    spec, config, out = ConversationSpec(parameters), config_of(parameters), parameters.generated
    if parameters.generation.authors:
        print(f"author: {config.names}; what is left of the conversation, over notebooks 01 to 04:")
        print(estimate_generation(unfinished([spec], out, config), config).render())
        work.say_unconfirmed()
    else:
        print(f"author: {OFFLINE_NAME}; nothing is called and nothing is paid")
    folder = make_first_conversation(parameters, stage)
    print(folder.as_posix())
    return NotebookConversation(work, folder)


@dataclass(frozen=True)
class NotebookConversation:
    """A generated conversation's folder as notebooks 01 to 04 show it."""

    work: Workspace
    folder: Path

    @cached_property
    def story(self) -> Story:
        """Its story: person, topic, days and sizes."""
        return read_story(self.folder)

    @cached_property
    def plans(self) -> list[Plan]:
        """Its plans: one below 10M, ten at 10M."""
        return [read_plan(self.folder, self.story, index) for index in range(self.story.plans)]

    @cached_property
    def questions(self) -> list[list[list[MainQuestion]]]:
        """Its main questions by plan and sub-plan."""
        return [read_questions(self.folder, self.story, plan) for plan in self.plans]

    @cached_property
    def turns(self) -> list[DialogueTurn]:
        """The turns of all plans."""
        return [turn for plan in self.plans for turn in read_turns(self.folder, self.story, plan)]

    @cached_property
    def candidates(self) -> Sequence[Draft]:
        """All drafts of probing questions, with the check that dropped them."""
        return read_candidates(self.folder / CANDIDATES)

    @cached_property
    def loaded(self) -> Loaded:
        """The conversation as a memory gets it, with its chosen questions and their gold."""
        return load(self._source, self.work.parameters.treatment)

    @property
    def _source(self) -> Source:
        sources = find_conversations(self.work.parameters.generated, [self.story.size])
        return next(source for source in sources if source.path.name == self.folder.name)

    @property
    def people(self) -> str:
        """The user and the people around, as text."""
        return f"{render_profile(self.story.profile)}\n\n{render_relationships(self.story.core)}"

    def bullet_group(self, plan: int, subplan: int, number: int) -> Sequence[Bullet]:
        """Return the regular bullets that one group of questions is written from."""
        regular = [bullet for bullet in self.plans[plan].subplans[subplan].bullets if bullet.special is None]
        groups = divide(regular, self.story.layout.groups)
        return groups[min(number, len(groups) - 1)]

    def repairs(self, stage: Stage) -> pd.DataFrame:
        """Count the repairs of a stage by action."""
        done = pd.Series([str(entry["done"]) for entry in repairs_of(self.folder)[stage]], name="done", dtype=str)
        none = pd.Series({"nothing had to be mended": 0})
        return (none if done.empty else done.value_counts()).rename("entries").to_frame()

    def save_lengths(self, tokens: Mapping[str, Sequence[int]], what: str, name: str, counts: str) -> DisplayObject:
        """Save and show a histogram of lengths in tokens for each role in `tokens`."""
        with style():
            figure = Figure(figsize=(PAGE_WIDTH, 2.4), layout="constrained")
            panels = figure.subplots(1, len(tokens), squeeze=False)[0]
            for axes, (role, values) in zip(panels, tokens.items(), strict=True):
                axes.hist(values, bins=40, histtype="stepfilled")
                axes.set(xlabel=f"tokens of a {role}, {self.story.size}", ylabel=counts)
        figure.suptitle(f"author: {self.work.author}", fontsize=8)
        frame = pd.DataFrame([{"role": role, "tokens": one} for role, values in tokens.items() for one in values])
        summary = frame.groupby("role")["tokens"].describe().round(1).reset_index()
        shown: DisplayObject = self.work.save_figure(
            figure,
            name,
            summary if len(tokens) > 1 else summary.drop(columns="role"),
            f"{what}, {self.story.size}; author: {self.work.author}.",
            scores=False,
        )
        return shown

    def described(self) -> Described:
        """Count this conversation, for Tables 3 and 7."""
        return describe([self._source], self.work.parameters.treatment)

    def save_deciles(self) -> DisplayObject:
        """Save and show in which tenths of the conversation the evidence lies."""
        size, author = self.story.size, self.work.author
        frame = self.described().deciles.rename(columns={"measured": "generated"})
        frame.insert(1, "released questions", [round(100 * share, 2) for share in released_deciles(size)])
        shown: DisplayObject = self.work.save_figure(
            decile_figure(frame, size, author),
            "table7_deciles",
            frame.reset_index(),
            f"Where the evidence lies, {size}: one conversation by {author}, "
            "chosen to lie like the released questions'; Table 7 as printed.",
            scores=False,
            conversation=self.loaded.conversation.sha256,
        )
        return shown

    def review(self) -> widgets.VBox:
        """Show every candidate with buttons to accept or reject it."""
        turns = [read_turns(self.folder, self.story, plan) for plan in self.plans]
        return review_widget(self.candidates, View(turns), self.folder / DECISIONS, reviewer="first")

    def review_agreement(self) -> str:
        """Report how far two reviewers agree, if there are two."""
        files = [self.folder / DECISIONS, self.folder / "decisions-second.jsonl"]
        if not all(file.exists() for file in files):
            return "no second reviewer's file: nothing to compare"
        return review_agreement(*map(read_decisions, files))

    def ratings(self) -> str:
        """Report mean ratings by size and dimension (paper B.2) of `ratings.csv`: conversation, dimension, score."""
        path = self.work.parameters.generated / "ratings.csv"
        if not path.exists():
            return "no ratings.csv: published means alone"
        frame = pd.read_csv(path)
        size = frame["conversation"].str.partition("-")[0].rename("size")
        return frame.groupby([size, "dimension"])["score"].agg(["mean", "count"]).round(2).to_string()


def review_widget(candidates: Sequence[Draft], view: View, path: Path, reviewer: str) -> widgets.VBox:
    """Show one candidate at a time with its evidence, and buttons to accept or reject it.

    Each click is saved to the reviewer's own file at `path` at once.
    """
    decisions = {decision.candidate: decision for decision in read_decisions(path)}

    def options() -> list[tuple[str, int]]:
        states = [decisions[one.id].verdict if one.id in decisions else one.dropped or "open" for one in candidates]
        return [
            (f"{number + 1} {one.ability} [{state}] {one.question[:80]}", number)
            for number, (one, state) in enumerate(zip(candidates, states, strict=True))
        ]

    picked, page = widgets.Dropdown(options=options(), layout=widgets.Layout(width="98%")), widgets.HTML()

    def show(_: object = None) -> None:
        draft = candidates[picked.value]
        parts = {"question": draft.question, "reference": draft.reference, "rubric": "\n".join(draft.rubric)}
        if draft.dropped:
            parts[f"dropped by {draft.dropped}"] = draft.why
        for message in (view.messages[i] for i in draft.evidence_ids if 0 <= i < len(view.messages)):
            parts[f"message {message.id}, {message.role}"] = message.text
        page.value = "".join(
            f"<p><b>{escape(name)}</b></p><pre style='white-space: pre-wrap'>{escape(text)}</pre>"
            for name, text in parts.items()
        )

    def decide(verdict: Verdict) -> None:
        number = picked.value
        draft = candidates[number]
        decisions[draft.id] = Decision(candidate=draft.id, verdict=verdict, reviewer=reviewer)
        write_decisions(path, list(decisions.values()))
        picked.options = options()  # selects the first one
        picked.value = min(number + 1, len(candidates) - 1)
        show()

    accept, reject = widgets.Button(description="Accept"), widgets.Button(description="Reject")
    accept.on_click(lambda _: decide("accept"))
    reject.on_click(lambda _: decide("reject"))
    if candidates:
        picked.observe(show, names="value")
        show()
    return widgets.VBox([picked, widgets.HBox([accept, reject] if candidates else []), page])
