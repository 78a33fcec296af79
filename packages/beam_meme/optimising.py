"""Optimise the answer prompt on a training split of episodes with DSPy's SIMBA (optional extra `dspy`).

The contexts are those of a run, so that only the prompt varies. The model of the role `memory` answers and proposes
rules, the judge scores. All calls go through the run's call store: they are priced, and a second run replays them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beam_meme.episode_results import CONTEXTS
from beam_meme.episode_running import PROMPT
from beam_meme.meme_judge import judge_memories, to_judge
from beam_meme.task import Meme
from beamlib.errors import UserError
from beamlib.evaluate.calling import open_models, resolved
from beamlib.evaluate.runner import plan_scoring
from beamlib.files import parse_json, read_text, to_json, write_json, write_text
from beamlib.llm.client import Route, forwarded_step
from beamlib.llm.model import ModelError, ModelRoles, Prompt, run
from beamlib.llm.prompts import check_overrides
from beamlib.params import RunParameters
from beamlib.places import PROMPTS

ROUTE: Route = "chat/completions"
_TAG = "<context>"


@dataclass(frozen=True)
class Search:
    """How far SIMBA searches: `steps` times `candidates` prompts over `batch` questions; `share` is for training."""

    steps: int = 4
    candidates: int = 4
    batch: int = 16
    share: float = 0.5
    seed: int = 42


def split_episodes(names: Sequence[str], share: float, seed: int) -> tuple[list[str], list[str]]:
    """Draw the episodes to train on, and the rest; each has one at least."""
    if len(names) < 2:
        raise UserError("--data: optimising needs two episodes at least, one to train on and one to test.")
    train = random.Random(seed).sample(sorted(names), min(max(1, round(share * len(names))), len(names) - 1))
    return sorted(train), sorted(set(names) - set(train))


def optimise_prompt(task: Meme, parameters: RunParameters, memory: str, search: Search, out: Path) -> Path:
    """Write `out/meme_answer.md`, which `--prompts` takes, and `out/split.json`; return the prompt's path.

    Raises:
        UserError: DSPy is not installed, the run has no contexts of `memory`, or a call ended the search.
    """
    try:
        import dspy
    except ImportError:
        raise UserError("dspy is not installed; run: .venv/bin/pip install -e '.[dspy]'.") from None
    plan = plan_scoring(task, parameters, [memory], reader=parameters.backbone)
    records = plan.records(memory, CONTEXTS)
    train, test = split_episodes(list(records), search.share, search.seed)
    contexts = {name: records[name][0] for name in records}
    asked = {
        question: (name, contexts[name].context(question))
        for name in train
        for question, gold in plan.units[name].gold.gold.questions.items()
        if question in contexts[name].contexts and gold.phase == "after"
    }
    examples = [
        dspy.Example(context=context, question=plan.units[name].gold.gold.questions[question].question, id=question)
        .with_inputs("context", "question")
        for question, (name, context) in asked.items()
    ]  # fmt: skip
    own = Path(parameters.prompts or PROMPTS) / f"{PROMPT}.md"
    text = read_text(own if own.exists() else PROMPTS / f"{PROMPT}.md")
    _, header, body = text.split("---\n", 2)
    instructions, tag, rest = body.partition(_TAG)
    settings = resolved(parameters)
    with open_models(settings, "optimising", suite=task.name) as roster:
        model = _language_model(roster)

        def score(example: Any, prediction: Any, trace: object = None) -> float:
            name, _ = asked[example.id]
            answer = getattr(prediction, "answer", None)
            judged = to_judge(example.id, answer, None if answer else "no answer", plan.units[name].gold.gold)
            return float(bool(judge_memories({memory: [judged]}, settings, roster)[memory][0].passed))

        with dspy.context(lm=model, adapter=dspy.ChatAdapter()):
            signature = dspy.Signature("context, question -> answer", instructions.strip())
            simba = dspy.SIMBA(
                metric=score, bsize=min(search.batch, len(examples)), num_candidates=search.candidates,
                max_steps=search.steps, max_demos=0, num_threads=1, prompt_model=model,
            )  # fmt: skip
            best = simba.compile(dspy.Predict(signature), trainset=examples, seed=search.seed)
        if model.error:  # DSPy counts it as a wrong answer and goes on
            raise model.error
    learned = best.signature.instructions
    for mark in ("{{", "{%", "{#"):  # what a model wrote is text, never a template
        learned = learned.replace(mark, " ".join(mark))
    path = write_text(out / f"{PROMPT}.md", f"---\n{header}---\n{learned}\n\n{tag}{rest}")
    check_overrides(out)
    write_json(out.with_name(f"{out.name}-split.json"), {"train": train, "test": test, "seed": search.seed})
    return path


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
