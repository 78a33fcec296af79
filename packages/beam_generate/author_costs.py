"""What writing conversations with language models would call and cost, before anything is called.

The offline author plays every role once while the prompts it is sent are measured: the very pipeline, with texts of the
length that the tables ask for. Of a 10M conversation only the first plan is played and taken ten times, and a domain
that it lacks is counted on another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from beam_generate.casting import WRITERS, GenerationConfig, offline_author, role_of
from beam_generate.dialogue import generate_dialogue
from beam_generate.long_plans import make_plans
from beam_generate.pipeline import ConversationSpec
from beam_generate.plans import with_biography
from beam_generate.probes.making import make_probes
from beam_generate.questions import make_questions
from beam_generate.shapes import Repairs
from beamlib.llm.endpoints import Author
from beamlib.llm.model import Completion, Model, Prompt, run

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
class GenerationEstimate:
    """The costs of all roles; an estimate, within a third or so."""

    roles: list[RoleCost] = field(default_factory=list)

    @property
    def dollars(self) -> float:
        """All roles together."""
        return sum(role.dollars for role in self.roles)

    @property
    def pending(self) -> int:
        """Calls to make."""
        return sum(role.calls for role in self.roles)

    def render(self) -> str:
        """A table as text."""
        if not self.pending:
            return "0 calls to make: the conversations are written, nothing is left to pay."
        lines = ["role      model                              calls   input tokens  output tokens  US dollars"]
        for one in self.roles:
            lines.append(
                f"{one.role:9s} {one.model:32.32s} {one.calls:7,d} {one.input_tokens:14,.0f} {one.output_tokens:14,.0f}"
                f" {one.dollars:11,.2f}"
            )
        lines.append(
            f"together {self.pending:41,d} {self.dollars:46,.2f}   (an estimate: the offline author played every role; "
            "calls that an earlier run stored are counted as well, though not paid again)"
        )
        return "\n".join(lines)


class _Measured:
    """A model that passes on and measures what goes in and out, for the role of each prompt."""

    def __init__(self, model: Model, costs: Mapping[Author, RoleCost], times: int) -> None:
        self.model, self.costs, self.times = model, costs, times

    @property
    def name(self) -> str:
        return self.model.name

    async def complete(self, prompt: Prompt) -> Completion:
        reply = await self.model.complete(prompt)
        size = sum(len(prompt.variables[name]) for name in prompt.variables)
        cost = self.costs[role_of(prompt.id)]
        cost.calls += self.times
        cost.input_tokens += self.times * (size / _CHARACTERS_PER_TOKEN + _FRAME)
        cost.output_tokens += self.times * max(1.0, len(reply.text) / _CHARACTERS_PER_TOKEN)
        return reply


def estimate_generation(specs: Sequence[ConversationSpec], writing: GenerationConfig) -> GenerationEstimate:
    """What `specs` would call; of several of one size the first is played and counted for all."""
    endpoints = {role: writing.endpoint(role) for role in WRITERS}
    costs = {role: RoleCost(role, endpoint.model) for role, endpoint in endpoints.items()}
    for size in dict.fromkeys(one.size for one in specs):
        same = [one for one in specs if one.size == size]
        _play(same[0], costs, len(same))
    for role, cost in costs.items():
        endpoint = endpoints[role]
        spent = cost.input_tokens * endpoint.input_price + cost.output_tokens * endpoint.output_price
        cost.dollars = spent / 1_000_000
    return GenerationEstimate(list(costs.values()))


def _play(spec: ConversationSpec, costs: Mapping[Author, RoleCost], times: int) -> None:
    story, repairs = spec.stood_in().story(), Repairs()
    author = offline_author(story)
    whole = _Measured(author, costs, times)
    story = run(with_biography(whole, story, repairs))
    plans = run(make_plans(whole, story, repairs))
    each = _Measured(author, costs, times * len(plans))
    questions = run(make_questions(each, story, plans[0], repairs))
    turns = run(generate_dialogue(each, story, plans[0], questions, [], spec.limits, repairs))
    if len(plans) > 1:  # a single plan's questions, taken ten times; pairs of plans make about as many
        story = replace(story, size="1M")
    run(make_probes(each, story, plans[:1], [turns], repairs, story.seed, allow_short=True))
