"""From a run's parameters to its generated conversations, for the notebooks and the main job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from beam_generate.casting import GenerationConfig, Stage
from beam_generate.estimate import GenerationEstimate, estimate_generation
from beam_generate.pipeline import (
    STAGES,
    ConversationSpec,
    make_dialogue_of_plan,
    make_plan_stage,
    make_probe_stage,
    make_question_stage,
    unfinished,
)
from beam_generate.plan_files import read_story
from beam_generate.producing import generate_all
from beamlib.data.model import SIZES, Size
from beamlib.params import OF_GENERATION, RunParameters, usual_parameters
from beamlib.places import from_root
from beamlib.text import shell_command

OPTIONS = {
    "generation_seed": "--seed", "domain": "--domain", "title": "--title", "strategy": "--strategy",
    "reach": "--reach", "workers": "--workers", "authors": "--models", "calls": "--calls", "prompts": "--prompts",
    "confirm_cost": "--yes",
}  # fmt: skip
"""Parameters that options of `beamlib generate` set."""

NOT_WRITTEN = ("calls", "confirm_cost", "workers")
"""Those that a command which records what is missing leaves out."""

SETTINGS = (*(name for name in OF_GENERATION if name not in OPTIONS), "output_tokens")
"""The other parameters that generated conversations rest on, for its `--set`."""


def spec_of(parameters: RunParameters, number: int = 1) -> ConversationSpec:
    """Conversation `number` of the run's size."""
    return ConversationSpec(parameters, number)


def config_of(parameters: RunParameters) -> GenerationConfig:
    """How the run's conversations are written."""
    return GenerationConfig(
        models=parameters.authors,
        prompts=parameters.prompts,
        calls=parameters.calls,
        confirmed=parameters.confirm_cost,
        command=_command(parameters) if parameters.authors else "",
        output_tokens=parameters.output_tokens,
        question_output_tokens=parameters.question_output_tokens,
    )


def _command(parameters: RunParameters) -> str:
    """The command line that writes the run's conversations into the very same place."""
    usual = usual_parameters(parameters.size)
    names = [name for name in (*OPTIONS, *SETTINGS) if name not in NOT_WRITTEN]
    changed = {name: value for name in names if (value := getattr(parameters, name)) != getattr(usual, name)}
    given = {
        "--size": parameters.size.lower(), "--conversations": max(1, parameters.conversations),
        "--out": from_root(parameters.generated),
        **{OPTIONS[name]: value for name, value in changed.items() if name in OPTIONS},
    }  # fmt: skip
    settings = {name: value for name, value in changed.items() if name not in OPTIONS}
    return shell_command("beamlib generate", given, settings, ["--yes"])


def written(parameters: RunParameters, stage: Stage, number: int = 1) -> Path:
    """The folder of conversation `number`, with all stages up to `stage` done; what is on file is not done again.

    It lies in the run folder, also where `data` is given: nobody writes there.
    """
    spec, writing = spec_of(parameters, number), config_of(parameters)
    folder = spec.begin(parameters.generated)
    wanted = STAGES[: STAGES.index(stage) + 1]
    make_plan_stage(spec, folder, writing)
    if "questions" in wanted:
        make_question_stage(folder, writing)
    if "dialogue" in wanted:
        for index in range(read_story(folder).plans):
            make_dialogue_of_plan(folder, index, writing)
    if "probes" in wanted:
        make_probe_stage(folder, writing)
    return folder


@dataclass(frozen=True)
class GenerationOfRun:
    """The conversations that a run writes into its own folder: `found` of each size, by the parameters of `runs`."""

    runs: Sequence[RunParameters]
    found: Mapping[Size, int]

    @property
    def wanted(self) -> list[ConversationSpec]:
        """All of them, the longest first: the short ones fill the time of its last plans."""
        first = {one.size: one for one in reversed(self.runs)}
        sizes = [size for size in reversed(SIZES) if size in first]
        return [spec_of(first[size], number) for size in sizes for number in range(1, self.found[size] + 1)]

    @property
    def writing(self) -> GenerationConfig:
        """How they are written."""
        return config_of(self.runs[0])

    @property
    def names(self) -> str:
        """Who writes."""
        return self.writing.names

    def estimate(self) -> GenerationEstimate | None:
        """What is left to write would call; None where the offline author writes."""
        if not self.runs[0].authors:
            return None
        return estimate_generation(unfinished(self.wanted, self.runs[0].generated, self.writing), self.writing)

    def ready(self) -> None:
        """A `UserError` where the key of a model is missing."""
        self.writing.ready()

    def stood_in(self, place: Path) -> tuple[Mapping[Size, int], Path]:
        """How many conversations of a size are not written yet, and a folder that has the offline author's instead."""
        made = self.runs[0].generated
        missing = unfinished(self.wanted, made, self.writing)
        counts = Counter(one.size for one in missing)
        if not missing:
            return counts, made
        out = place / "conversations"
        for one in self.wanted:
            if one not in missing:
                link = one.folder(out)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(one.folder(made).resolve(), target_is_directory=True)
        offline = replace(self.writing, models="", prompts="")
        generate_all([one.stood_in() for one in missing], out, offline, self._workers)
        return counts, out

    def make(self) -> tuple[int, int]:
        """Write them: how many had to be worked on, and how many there are."""
        done = generate_all(self.wanted, self.runs[0].generated, self.writing, self._workers)
        return sum(one.worked for one in done), len(done)

    @property
    def _workers(self) -> int:
        return max(one.workers for one in self.runs)
