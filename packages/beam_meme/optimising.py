"""Optimise a prompt of MEME on a training split of episodes with DSPy's SIMBA (optional extra `dspy`).

The answer prompt is varied over the contexts of a run, so that nothing else changes. The ingest prompt of `MdFlat` is
varied over whole episodes: each try reads the sessions anew. The model of the role `memory` works by the prompt and
proposes rules, the judge scores. All calls go through the run's call store, priced; a second run replays them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from beam_meme.episode_gold import EpisodeGold
from beam_meme.episode_results import CONTEXTS
from beam_meme.episode_running import ANSWER_PROMPT, probes_of
from beam_meme.episodes import episode_conversation
from beam_meme.meme_judge import judge_memories, question_to_judge
from beam_meme.meme_memories import evolving_memory
from beam_meme.task import Meme
from beam_memories.evolving.evolving_memory import sessions_of
from beam_memories.evolving.md_flat import INGEST, MdFlat
from beam_memories.evolving.wiki import Wiki
from beamlib.errors import UserError
from beamlib.evaluate.calling import open_models
from beamlib.evaluate.runner import plan_scoring, plan_task
from beamlib.evaluate.task import Unit
from beamlib.files import parse_json, to_json, write_json, write_text
from beamlib.llm.endpoints import Route, forwarded_step
from beamlib.llm.model import Completion, Model, ModelError, ModelRoles, Prompt, attempt_all, run
from beamlib.llm.prompts import read_overrides
from beamlib.llm.reply_body import describe_tools
from beamlib.params import RunParameters
from beamlib.run import Run

ROUTE: Route = "chat/completions"


class _Target(NamedTuple):
    """A prompt that can be optimised: its id, the tag that its instructions end before, and who works by it.

    `step` names DSPy's module, `output` its output.
    """

    prompt: str
    tag: str
    memory: str = ""
    step: str = ""
    output: str = "calls"


TARGETS = {
    "answer": _Target(ANSWER_PROMPT, "<context>"),
    "md-flat-ingest": _Target(INGEST, "<date>", MdFlat.name, "ingest"),
    "md-flat-retrieve": _Target("file_memory_recall", "<question>", MdFlat.name, "retrieve"),
    "wiki-compile": _Target("wiki_compile", "<index>", Wiki.name, "compile"),
    "wiki-retrieve": _Target("wiki_choose", "<index>", Wiki.name, "retrieve", "pages"),
}
"""By name: the answer prompt, and of the paper's eight (Figures 26 to 28) those that this project has."""
_ALIASES = {"ingest": "md-flat-ingest"}
_IMPOSSIBLE = {
    "wiki-log": "logging a session calls no model here",
    **dict.fromkeys(
        ("graphiti-nodes", "graphiti-edges"),
        "Graphiti's prompts are inside its package, which takes one text of instructions for nodes and edges together "
        "and so none for one of them",
    ),
    "graphiti-dedupe": "Graphiti's prompts are inside its package, which takes no instructions for this one",
}
"""The others of the eight, and why they cannot be optimised here."""


@dataclass(frozen=True)
class Search:
    """How far SIMBA searches: `steps` times `candidates` prompts over `batch` examples; `share` is for training."""

    steps: int = 4
    candidates: int = 4
    batch: int = 16
    share: float = 0.5
    seed: int = 42


class _Program(NamedTuple):
    """What SIMBA varies and by which examples it scores; `module` takes the instructions."""

    module: Callable[[str], Any]
    examples: Sequence[Any]
    score: Callable[..., float]


def split_episodes(names: Sequence[str], share: float, seed: int) -> tuple[list[str], list[str]]:
    """Draw the episodes to train on, and the rest; each has one at least."""
    if len(names) < 2:
        raise UserError("--data: optimising needs two episodes at least, one to train on and one to test.")
    train = random.Random(seed).sample(sorted(names), min(max(1, round(share * len(names))), len(names) - 1))
    return sorted(train), sorted(set(names) - set(train))


def optimise_prompt(
    task: Meme, parameters: RunParameters, memory: str, search: Search, out: Path, which: str = "answer"
) -> Path:
    """Write the optimised prompt into the folder `out`, which `--prompts` takes, and the split beside it.

    Args:
        memory: The memory of the run whose contexts are answered from, for the answer prompt.
        which: One of `TARGETS`.

    Returns:
        The path of the prompt; `<out>-split.json` names the episodes of both splits.

    Raises:
        UserError: DSPy is not installed, the run has no contexts of `memory`, or a call ended the search.
    """
    which = _ALIASES.get(which, which)
    if which not in TARGETS:
        why = f": {_IMPOSSIBLE[which]}" if which in _IMPOSSIBLE else ""
        raise UserError(f"--prompt: {which!r:.80} cannot be optimised{why}; choose one of {', '.join(TARGETS)}.")
    try:
        import dspy
    except ImportError:
        raise UserError("dspy is not installed; run: .venv/bin/pip install -e '.[dspy]'.") from None
    target = TARGETS[which]
    name, tag = target.prompt, target.tag
    settings = Run.of(parameters)
    _, header, body = settings.prompt_files[name].source.split("---\n", 2)
    instructions, tag, rest = body.partition(tag)
    with open_models(settings, "optimising", suite=task.name) as roster:
        model = _language_model(roster)
        if which == "answer":
            program, split = _answering(task, parameters, memory, search, settings, roster)
        else:
            program, split = _reading(task, parameters, search, settings, roster, target)
        with dspy.context(lm=model, adapter=dspy.ChatAdapter()):
            simba = dspy.SIMBA(
                metric=program.score, bsize=min(search.batch, len(program.examples)),
                num_candidates=search.candidates, max_steps=search.steps, max_demos=0, num_threads=1,
                prompt_model=model,
            )  # fmt: skip
            module = program.module(instructions.strip())
            best = simba.compile(module, trainset=list(program.examples), seed=search.seed)
        if model.error:  # DSPy counts it as a wrong answer and goes on
            raise model.error
    (predictor,) = best.predictors()
    learned = predictor.signature.instructions
    for mark in ("{{", "{%", "{#"):  # what a model wrote is text, never a template
        learned = learned.replace(mark, " ".join(mark))
    path = write_text(out / f"{name}.md", f"---\n{header}---\n{learned}\n\n{tag}{rest}")
    read_overrides(out)
    train, test = split
    write_json(out.with_name(f"{out.name}-split.json"), {"train": train, "test": test, "seed": search.seed})
    return path


_Split = tuple[list[str], list[str]]


def _answering(
    task: Meme, parameters: RunParameters, memory: str, search: Search, settings: Run, roster: ModelRoles
) -> tuple[_Program, _Split]:
    """An example is a question after the change with what `memory` recalled for it."""
    import dspy

    plan = plan_scoring(task, parameters, [memory], reader=parameters.backbone)
    records = plan.records(memory, CONTEXTS)
    split = split_episodes(list(records), search.share, search.seed)
    gold: dict[str, EpisodeGold] = {}
    examples = []
    for name in split[0]:
        contexts = records[name][0]
        for question, own in plan.units[name].gold.gold.questions.items():
            if own.phase == "after" and question in contexts.contexts:
                gold[question] = plan.units[name].gold.gold
                example = dspy.Example(context=contexts.context(question), question=own.question, id=question)
                examples.append(example.with_inputs("context", "question"))

    def score(example: Any, prediction: Any, trace: object = None) -> float:
        answers = {example.id: getattr(prediction, "answer", None)}
        return _share_passed(answers, gold[example.id], settings, roster)

    def module(instructions: str) -> Any:
        return dspy.Predict(dspy.Signature("context, question -> answer", instructions))

    return _Program(module, examples, score), split


def _reading(
    task: Meme, parameters: RunParameters, search: Search, settings: Run, roster: ModelRoles, target: _Target
) -> tuple[_Program, _Split]:
    """An example is an episode: the memory reads its sessions, and its questions after the change are answered."""
    import dspy

    units = plan_task(task, parameters, [], quiet=True).units
    split = split_episodes(list(units), search.share, search.seed)
    tools = ["tools"] if target.output == "calls" else []
    inputs = ", ".join([*tools, *settings.prompt_files[target.prompt].variables])

    class Reading(dspy.Module):  # type: ignore[misc]
        """Reads an episode by the varied instructions, and answers by the prompts as they are."""

        def __init__(self, instructions: str) -> None:
            super().__init__()
            setattr(self, target.step, dspy.Predict(dspy.Signature(f"{inputs} -> {target.output}", instructions)))

        def forward(self, episode: str) -> Any:
            return dspy.Prediction(
                answers=_read_and_answer(units[episode], target, getattr(self, target.step), settings, roster)
            )

    def score(example: Any, prediction: Any, trace: object = None) -> float:
        answers = getattr(prediction, "answers", {})
        return _share_passed(answers, units[example.episode].gold.gold, settings, roster)

    return _Program(Reading, [dspy.Example(episode=name).with_inputs("episode") for name in split[0]], score), split


def _read_and_answer(
    unit: Unit, target: _Target, predictor: Any, settings: Run, roster: ModelRoles
) -> dict[str, str | None]:
    """Read all sessions of an episode, then answer the questions after the change; None for a failed call."""
    keeper = evolving_memory(target.memory, _PredictedModel(roster.memory, target, predictor), settings)
    asked = unit.asked.rounds["after"]
    for session in sessions_of(episode_conversation(unit.asked, asked.sessions)):
        keeper.read_session(session)
    keeper.finalise()
    prompts = [
        Prompt(
            ANSWER_PROMPT,
            {"context": keeper.recall(probe.question).context, "question": probe.question},
            about=probe.id,
        )
        for probe in probes_of(unit.asked, asked)
    ]
    replies = attempt_all(roster.reader_of(target.memory), prompts)
    return {
        prompt.about: reply.text if isinstance(reply, Completion) else None
        for prompt, reply in zip(prompts, replies, strict=True)
    }


class _PredictedModel:
    """Has DSPy's predictor reply to the prompt that is optimised, and the model of the role to every other."""

    def __init__(self, model: Model, target: _Target, predictor: Any) -> None:
        self._model, self._target, self._predictor = model, target, predictor

    @property
    def name(self) -> str:
        return self._model.name

    def complete(self, prompt: Prompt) -> Coroutine[Any, Any, Completion]:
        """Complete `prompt`. The predictor works in the thread that asks, where DSPy keeps its trace."""
        if prompt.id != self._target.prompt:
            return self._model.complete(prompt)
        from dspy.utils.exceptions import AdapterParseError

        try:
            tools = {"tools": describe_tools(prompt.tools)} if prompt.tools else {}
            text = str(getattr(self._predictor(**tools, **prompt.variables), self._target.output))
        except AdapterParseError:
            text = ""  # as any reply without calls

        async def completed() -> Completion:
            return Completion(text)

        return completed()


def _share_passed(answers: dict[str, str | None], gold: EpisodeGold, settings: Run, roster: ModelRoles) -> float:
    asked = [question_to_judge(name, text, None if text else "no answer", gold) for name, text in answers.items()]
    verdicts = judge_memories({"optimised": asked}, settings, roster)["optimised"] if asked else []
    return sum(bool(verdict.passed) for verdict in verdicts) / max(len(verdicts), 1)


def _language_model(roster: ModelRoles) -> Any:
    """The project's endpoint as DSPy's language model."""
    import dspy
    from openai.types.chat import ChatCompletion

    if ROUTE not in roster.outside:
        raise UserError("optimising asks language models; name them with --models.")
    outside = roster.outside[ROUTE]

    class Stored(dspy.BaseLM):  # type: ignore[misc]
        """Sends each request through the call store; samples of one request are its repeats."""

        error: Exception | None = None

        def forward(self, prompt: str | None = None, messages: Any = None, **kwargs: Any) -> Any:
            if Stored.error:
                raise Stored.error
            repeat = int({**self.kwargs, **kwargs}.get("rollout_id") or 0)
            body = to_json({"model": outside.name, "messages": messages or [{"role": "user", "content": prompt}]})
            request = Prompt(forwarded_step("dspy", ROUTE), {"body": body}, repeat=repeat, about="dspy")
            try:
                reply = run(outside.complete(request))
            except (UserError, ModelError) as error:
                Stored.error = error if isinstance(error, UserError) else UserError(f"dspy: {error}.")
                raise
            return ChatCompletion.model_validate(parse_json(reply.text))

    return Stored(outside.name, cache=False)
