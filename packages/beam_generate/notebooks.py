"""What notebooks 01 to 04 show: one generated conversation, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

import ipywidgets as widgets
import pandas as pd
from IPython.display import DisplayObject
from matplotlib.figure import Figure

from beam_generate.authors import Stage
from beam_generate.described import Described, decile_figure, describe
from beam_generate.folder import read_plan, read_questions, read_story, read_turns
from beam_generate.of_run import config_of, estimate_generation, make_first_conversation
from beam_generate.people import render_profile, render_relationships
from beam_generate.pipeline import CANDIDATES, DECISIONS, ConversationSpec, repairs_of, unfinished
from beam_generate.probes.deciles import released_deciles
from beam_generate.probes.drafts import Draft, View, read_candidates
from beam_generate.probes.making import (
    Decision,
    Verdict,
    read_decisions,
    review_agreement,
    write_decisions,
)
from beam_generate.questions import divide
from beam_generate.shapes import Bullet, DialogueTurn, MainQuestion, Plan, Story
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import Source, find_conversations
from beamlib.llm.model import OFFLINE_NAME
from beamlib.report.figures import PAGE_WIDTH, style
from beamlib.report.workspace import Workspace, of_run


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
