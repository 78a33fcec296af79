"""One conversation as notebooks 01 to 04 show it: made stage by stage, and looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
from IPython.display import DisplayObject
from ipywidgets import Widget
from matplotlib.figure import Figure

from beam_generate.author_costs import estimate_generation
from beam_generate.casting import Stage
from beam_generate.dataset_tables import Described, decile_figure, describe, evidence_deciles
from beam_generate.folder import read_plan, read_questions, read_story, read_turns
from beam_generate.layouts import layouts_of
from beam_generate.of_run import config_of, written
from beam_generate.people import render_profile, render_relationships
from beam_generate.pipeline import DECISIONS, ConversationSpec, repairs_of, unfinished
from beam_generate.probes.drafts import Draft, View, read_candidates
from beam_generate.quality import mean_scores, rater_agreement, read_ratings
from beam_generate.questions import divide
from beam_generate.review import agreement, read_decisions
from beam_generate.review_page import rating_widget, review_widget
from beam_generate.shapes import Bullet, DialogueTurn, MainQuestion, Plan, Story
from beamlib.data.conversations import SIZES
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import Source, find_conversations
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import usual_parameters
from beamlib.report.figures import PAGE_WIDTH, style
from beamlib.report.workspace import Workspace, of_run


def describe_run(work: Workspace) -> Described:
    """Tables 3 and 7 for all conversations that a run over the tier reads."""
    parameters = work.parameters
    sources = find_conversations(Path(parameters.data), [parameters.size])
    return describe(
        sources, parameters.treatment, conversations=parameters.conversations, skip_broken=parameters.skip_broken
    )


def save_run_deciles(work: Workspace, tier: Described) -> DisplayObject:
    """Save and show where the evidence lies in the conversations of a run."""
    size, read = work.parameters.size, len(tier.read)
    caption = f"Where the evidence lies, {size}: {tier.questions} questions, n = {read}; {tier.source}; and Table 7."
    figure, frame = decile_figure(tier.deciles, size, f"n = {read}"), tier.deciles.reset_index()
    shown: DisplayObject = work.save_figure(figure, "table7_evidence", frame, caption, scores=False)
    return shown


def conversation_of(work: Workspace, stage: Stage) -> NotebookConversation:
    """The first conversation of the run folder with all stages up to `stage` done; what is on file is not done again.

    Printed is who writes it, and what that would cost where models write it. Nothing is written into `data`.
    """
    work.generating, work.parameters = True, of_run(work.parameters)
    parameters = work.parameters
    spec, writing, out = ConversationSpec(parameters), config_of(parameters), parameters.generated
    if parameters.authors:
        print(f"author: {writing.names}; what is left of the conversation, over notebooks 01 to 04:")
        print(estimate_generation(unfinished([spec], out, writing), writing).render())
        work.say_unconfirmed()
    else:
        print(f"author: {OFFLINE_NAME}; nothing is called and nothing is paid")
    folder = written(parameters, stage)
    print(folder.as_posix())
    return NotebookConversation(work, folder)


@dataclass(frozen=True)
class NotebookConversation:
    """What lies in a generated conversation's folder."""

    work: Workspace
    folder: Path

    @cached_property
    def story(self) -> Story:
        """Person, topic, time and how much is wanted."""
        return read_story(self.folder)

    @cached_property
    def plans(self) -> list[Plan]:
        """One below 10M, ten there."""
        return [read_plan(self.folder, self.story, index) for index in range(self.story.plans)]

    @cached_property
    def questions(self) -> list[list[list[MainQuestion]]]:
        """Main questions by plan and sub-plan."""
        return [read_questions(self.folder, self.story, plan) for plan in self.plans]

    @cached_property
    def turns(self) -> list[DialogueTurn]:
        """The turns of all plans."""
        return [turn for plan in self.plans for turn in read_turns(self.folder, self.story, plan)]

    @cached_property
    def candidates(self) -> Sequence[Draft]:
        """All questions that were drafted, with what became of them."""
        return read_candidates(self.folder / "candidates.json")

    @cached_property
    def loaded(self) -> Loaded:
        """The conversation as memories are given it, with the questions that were chosen and their gold."""
        return load(self._source, self.work.parameters.treatment)

    @property
    def _source(self) -> Source:
        found = find_conversations(self.work.parameters.generated, [self.story.size])
        return next(one for one in found if one.path.name == self.folder.name)

    @property
    def people(self) -> str:
        """The person and those around."""
        return f"{render_profile(self.story.profile)}\n\n{render_relationships(self.story.core)}"

    def bullet_group(self, plan: int, subplan: int, number: int) -> Sequence[Bullet]:
        """The regular bullets of a sub-plan that one batch of questions is written from."""
        regular = [bullet for bullet in self.plans[plan].subplans[subplan].bullets if bullet.special is None]
        groups = divide(regular, self.story.layout.groups)
        return groups[min(number, len(groups) - 1)]

    def layouts(self) -> pd.DataFrame:
        """How much every size and style wants: Table 6 with what the released code adds."""
        rows = {}
        for size in SIZES:
            shown = self.work.parameters if size == self.story.size else usual_parameters(size)
            for style_name, wanted in layouts_of(shown).items():
                rows[size, style_name] = {
                    "sub-plans N": wanted.subplans,
                    "bullets M + 3": f"{wanted.bullets} + 3",
                    "batches K + 1": f"{wanted.groups} + 1",
                    "questions I": wanted.questions,
                    "main questions per plan, at most": wanted.subplans * (wanted.groups * wanted.questions + 3),
                }
        return pd.DataFrame(rows).T

    def repairs(self, stage: Stage) -> pd.DataFrame:
        """What a stage had to mend, by what was done."""
        done = pd.Series([str(entry["done"]) for entry in repairs_of(self.folder)[stage]], name="done", dtype=str)
        none = pd.Series({"nothing had to be mended": 0})
        return (none if done.empty else done.value_counts()).rename("entries").to_frame()

    def save_lengths(self, tokens: Mapping[str, Sequence[int]], what: str, name: str, counts: str) -> DisplayObject:
        """Save and show histograms of lengths in tokens, a panel for each role in `tokens`, of `counts`."""
        with style():
            figure = Figure(figsize=(PAGE_WIDTH, 2.4), layout="constrained")
            panels = figure.subplots(1, len(tokens), squeeze=False)[0]
            for axes, (role, values) in zip(panels, tokens.items(), strict=True):
                axes.hist(values, bins=40, histtype="stepfilled")
                axes.set(xlabel=f"tokens of a {role}, {self.story.size}", ylabel=counts)
        figure.suptitle(f"author: {self.work.author}", fontsize=8)
        frame = pd.DataFrame([{"role": role, "tokens": one} for role, values in tokens.items() for one in values])
        summary = frame.groupby("role")["tokens"].describe().round(1).reset_index()
        caption = f"{what}, {self.story.size}; author: {self.work.author}."
        shown: DisplayObject = self.work.save_figure(
            figure, name, summary if len(tokens) > 1 else summary.drop(columns="role"), caption, scores=False
        )
        return shown

    def described(self) -> Described:
        """Tables 3 and 7 for this conversation."""
        return describe([self._source], self.work.parameters.treatment)

    def save_deciles(self) -> DisplayObject:
        """Save and show in which tenths of the conversation the evidence lies."""
        frame, author = evidence_deciles([self.loaded], self.story.size), self.work.author
        shown: DisplayObject = self.work.save_figure(
            decile_figure(frame, self.story.size, author),
            "table7_deciles",
            frame.reset_index(),
            f"Where the evidence lies, {self.story.size}: one conversation by {author}, "
            "chosen to lie like the released questions'; Table 7 as printed.",
            scores=False,
            conversation=self.loaded.conversation.sha256,
        )
        return shown

    def review(self) -> Widget:
        """Buttons to accept, edit or reject every candidate."""
        turns = [read_turns(self.folder, self.story, plan) for plan in self.plans]
        return review_widget(self.candidates, View(turns), self.folder / DECISIONS, reviewer="first")

    def review_agreement(self) -> str:
        """How far two reviewers agree, where there are two."""
        files = [self.folder / DECISIONS, self.folder / "decisions-second.jsonl"]
        if not all(file.exists() for file in files):
            return "no second reviewer's file: nothing to compare"
        return str(agreement(*map(read_decisions, files)))

    def rating(self) -> Widget:
        """Five points each for coherence, realism and depth."""
        return rating_widget(self.loaded.conversation.id, self._ratings, rater="first")

    def ratings(self) -> str:
        """Means of what has been rated so far, and the agreement of two raters."""
        if not self._ratings.exists():
            return "no ratings.csv: published means alone"
        found = read_ratings(self._ratings)
        lines = [f"{one.chat_size:8s} {one.dimension:22s} {one.score:.2f}  (n = {one.n})" for one in mean_scores(found)]
        lines += [f"weighted kappa, {name}: {value}" for name, value in rater_agreement(found).items()]
        return "\n".join(lines)

    @property
    def _ratings(self) -> Path:
        return self.work.parameters.generated / "ratings.csv"
