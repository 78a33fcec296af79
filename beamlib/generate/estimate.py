"""What writing conversations with language models would call and cost, before anything is called.

The offline author plays every role once while the prompts it is sent are measured: the very pipeline, with texts of the
length that the tables ask for. Of a 10M conversation only the first plan is played and taken ten times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from beamlib.generate.author.author import OfflineAuthor
from beamlib.generate.casting import Writing
from beamlib.generate.dialogue import hold_dialogue
from beamlib.generate.layouts import layout
from beamlib.generate.long_plans import make_plans
from beamlib.generate.pipeline import Commission
from beamlib.generate.plans import with_biography
from beamlib.generate.probes.making import make_probes
from beamlib.generate.questions import make_questions
from beamlib.generate.shapes import Repairs
from beamlib.models.base import Completion, Model, Prompt, run
from beamlib.models.endpoints import Author, Endpoint, load_models

_CHARACTERS_PER_TOKEN = 4.2  # of the released conversations (reference 1.2)
_FRAME = 450  # tokens of a prompt file's own text, about


@dataclass
class RoleCost:
    """Calls of one authoring role, their tokens, and US dollars by the endpoint's prices."""

    role: Author
    model: str
    calls: int = 0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    dollars: float = 0.0


@dataclass
class WritingEstimate:
    """The costs of all roles; an estimate, within a third or so."""

    roles: list[RoleCost] = field(default_factory=list)

    @property
    def dollars(self) -> float:
        """All roles together."""
        return sum(role.dollars for role in self.roles)

    def render(self) -> str:
        """A table as text."""
        lines = ["role      model                              calls   input tokens  output tokens  US dollars"]
        for one in self.roles:
            lines.append(
                f"{one.role:9s} {one.model:32.32s} {one.calls:7,d} {one.input_tokens:14,.0f} {one.output_tokens:14,.0f}"
                f" {one.dollars:11,.2f}"
            )
        lines.append(f"together {self.dollars:88,.2f}   (an estimate: the offline author played every role)")
        return "\n".join(lines)


class _Measured:
    """A model that passes on and measures what goes in and out."""

    def __init__(self, model: Model, cost: RoleCost, times: int) -> None:
        self.model, self.cost, self.times = model, cost, times

    @property
    def name(self) -> str:
        return self.model.name

    async def complete(self, prompt: Prompt) -> Completion:
        reply = await self.model.complete(prompt)
        size = sum(len(prompt.variables[name]) for name in prompt.variables)
        self.cost.calls += self.times
        self.cost.input_tokens += self.times * (size / _CHARACTERS_PER_TOKEN + _FRAME)
        self.cost.output_tokens += self.times * max(1.0, len(reply.text) / _CHARACTERS_PER_TOKEN)
        return reply


def estimate_writing(commissions: Sequence[Commission], writing: Writing) -> WritingEstimate:
    """What `commissions` would call; of several of one size the first is played and counted for all."""
    found = load_models(Path(writing.models))
    endpoints: dict[Author, Endpoint] = {role: found.author(role) for role in get_args(Author)}
    costs = {role: RoleCost(role, endpoint.model) for role, endpoint in endpoints.items()}
    for size in dict.fromkeys(one.size for one in commissions):
        same = [one for one in commissions if one.size == size]
        _play(same[0], writing, costs, len(same))
    for role, cost in costs.items():
        endpoint = endpoints[role]
        spent = cost.input_tokens * endpoint.input_price + cost.output_tokens * endpoint.output_price
        cost.dollars = spent / 1_000_000
    return WritingEstimate(list(costs.values()))


def _play(commission: Commission, writing: Writing, costs: dict[Author, RoleCost], times: int) -> None:
    story, repairs = commission.story(), Repairs()
    author = OfflineAuthor(story)
    planner, prober = (_Measured(author, costs[role], times) for role in ("planner", "prober"))
    story = run(with_biography(planner, story, repairs))
    plans = run(make_plans(planner, story, repairs))
    each = times * len(plans)
    asked = _Measured(author, costs["asker"], each)
    questions = run(make_questions(asked, story, plans[0], layout(story.size, story.style), repairs))
    speaker = _Measured(author, costs["speaker"], each)
    turns = run(hold_dialogue(speaker, story, plans[0], questions, [], repairs, reach=writing.reach))
    if len(plans) > 1:  # a single plan's questions, taken ten times; pairs of plans make about as many
        prober = _Measured(author, costs["prober"], each)
        story = replace(story, size="1M")
    run(make_probes(prober, story, plans[:1], [turns], repairs, story.seed, allow_short=True))
